/* SPDX-License-Identifier: Apache-2.0
 *
 * session_queue.c: the turns of a session that wait for one another, and the order in which they and it end. */
#include "phases/drive.h"
#include "phases/session.h"

static void count_queued(const tp_session *session, uint64_t by) {
  tp__thread_caches_count(&session->runtime->caches, TP__COUNT_QUEUED, by);
}

/* The end of a session takes no room of a turn, and a nested turn is in that of the one that waits for it. @return
 * false: it waits for room, or has begun since. */
static bool begin_or_wait(tp__drive *drive) {
  const tp_session *session = drive->session;
  bool begins = drive->closing || drive->turn->core.parent ||
                tp__admission_enter(&session->layer->admission, session->tenant_queue, &drive->admission);
  if (begins) tp__drive_start(drive);
  return begins;
}

void tp__drive_leave_room(tp__drive *drive) {
  tp__admission_place *next = tp__admission_leave(&drive->session->layer->admission, &drive->admission);
  if (next) tp__drive_start(TP__CONTAINER(next, tp__drive, admission));
}

tp_status tp__session_enqueue(tp_session *session, tp__drive *drive, bool last, bool *ret_queued) {
  tp_status status = TP_OK;
  bool start = false;
  tp__mutex_lock(&session->mutex);
  if (session->closing) {
    status = TP_ERR_SHUTDOWN;
  } else if (!session->running) {
    session->running = drive;
    start = true;
  } else if (session->queued >= session->queued_max && !last) {
    status = TP_ERR_FULL;
  } else {
    session->queued++;
    tp__list_push(&session->queue, &drive->link);
    drive->waits = true;
    count_queued(session, 1);
    *ret_queued = true;
  }
  if (last && status == TP_OK) session->closing = true;
  tp__mutex_unlock(&session->mutex);
  if (start && !begin_or_wait(drive)) *ret_queued = true;
  return status;
}

bool tp__session_next(tp_session *session) {
  tp__drive *next = NULL;
  tp__mutex_lock(&session->mutex);
  if (!tp__list_empty(&session->queue)) {
    next = TP__CONTAINER(session->queue.next, tp__drive, link);
    tp__list_remove(&next->link);
    next->waits = false;
    session->queued--;
    count_queued(session, (uint64_t)-1);
  }
  session->running = next;
  bool last = !next && session->closing;
  tp__mutex_unlock(&session->mutex);
  if (next) (void)begin_or_wait(next);
  return last;
}

void tp__session_closed(tp_session *session) {
  void (*on_end)(void *ctx) = session->on_end;
  void *ctx = session->on_end_ctx;
  tp__session_delist(session);
  tp__session_unref(session);
  if (on_end) on_end(ctx);
}

/* The ends of turns that left the queue come first. */
void tp__session_over(tp_session *session) {
  tp__mutex_lock(&session->mutex);
  session->over_waits = session->leaving > 0;
  session->over = !session->over_waits;
  bool gone = session->over && session->closed;
  tp__mutex_unlock(&session->mutex);
  if (gone) tp__session_closed(session);
}

bool tp__session_leave_queue(tp_session *session, tp__drive *drive) {
  tp__mutex_lock(&session->mutex);
  bool waited = drive->waits;
  if (waited) {
    tp__list_remove(&drive->link);
    drive->waits = false;
    session->queued--;
    count_queued(session, (uint64_t)-1);
    session->leaving++;
  }
  tp__mutex_unlock(&session->mutex);
  return waited;
}

void tp__session_left(tp_session *session) {
  tp__mutex_lock(&session->mutex);
  bool over = --session->leaving == 0 && session->over_waits;
  tp__mutex_unlock(&session->mutex);
  if (over) tp__session_over(session);
}
