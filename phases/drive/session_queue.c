/* SPDX-License-Identifier: Apache-2.0
 *
 * session_queue.c: the turns of a session that wait for earlier ones, and the order in which the turns and the session
 * end. */
#include "phases/drive/added.h"
#include "phases/drive/drive.h"
#include "phases/session/session.h"
#include "phases/session/sessions.h"
#include "runtime/exec/exec.h"

#ifdef TP_CHECKS
void tp__session_check_locked(const tp_session *session) {
  uint32_t count = 0;
  TP__LOCKED(&session->mutex);
  const tp__link *link = session->queue.next;
  for (; count < TP__CHECK_ITEMS_MAX && link != &session->queue; count++, link = link->next) {
    const tp__drive *drive = TP__CONTAINER((tp__link *)(uintptr_t)link, tp__drive, link);
    /* A queued drive waits, belongs to this session, and is not the running one. */
    assert(drive->waits && drive->session == session && drive != session->running);
  }
  assert(count == TP__CHECK_ITEMS_MAX || count == session->queued);
  /* Turns wait only while one runs. In addition to the allowed number of waiting turns, there may be one that closes
   * the session. */
  assert(session->queued == 0 || session->running);
  assert(session->queued <= session->queued_max + session->ending + 1);
  /* A session is over when it accepts no turn, and the ends of all accepted turns were reported. */
  assert(!session->over || (session->closing && !session->running && session->queued == 0 && session->leaving == 0));
  assert(!session->over_waits || session->closing);
}
#endif

/* By message, so from any thread. */
static void start_drive(tp__drive *d) { tp__strand_push(&d->turn->core.strand, &d->start_message); }

static void count_queued(const tp_session *session, uint64_t by) {
  tp__runtime_count(session->runtime, TP__COUNT_QUEUED, by);
}

/* The end of a session needs no quota, and a nested turn uses that of the turn that waits for it.
 * @return false: the turn waits for its quota, or has begun meanwhile. */
static bool begin_or_wait(tp__drive *drive) {
  TP__ASSERT(drive->session && !drive->begun);
  const tp_session *session = drive->session;
  bool begins = drive->closing || drive->turn->core.parent ||
                tp__admission_enter(session->admission, session->tenant_queue, &drive->admission);
  if (begins) start_drive(drive);
  return begins;
}

void tp__drive_release_quota(tp__drive *drive) {
  tp__admission_place *next = tp__admission_leave(drive->session->admission, &drive->admission);
  if (next) start_drive(TP__CONTAINER(next, tp__drive, admission));
}

/* Starts the drive when no other one runs. @param ret_queued set when it waits for others. */
static tp_status enqueue(tp_session *session, tp__drive *drive, bool last, bool *ret_queued) {
  tp_status status = TP_OK;
  bool start = false;
  tp__mutex_lock(&session->mutex);
  if (session->closing) {
    status = TP_ERR_SHUTDOWN;
  } else if (!session->running) {
    session->running = drive;
    start = true;
  } else if (session->queued >= session->queued_max + session->ending && !last) {
    status = TP_ERR_FULL;
  } else {
    session->queued++;
    tp__list_push(&session->queue, &drive->link);
    drive->waits = true;
    count_queued(session, 1);
    *ret_queued = true;
  }
  if (last && status == TP_OK) session->closing = true;
  TP__CHECK(tp__session_check_locked(session));
  tp__mutex_unlock(&session->mutex);
  if (start && !begin_or_wait(drive)) *ret_queued = true;
  return status;
}

void tp__session_ending(tp_session *session) {
  tp__mutex_lock(&session->mutex);
  TP__ASSERT(session->running && !session->ending);
  session->ending = true;
  tp__mutex_unlock(&session->mutex);
}

bool tp__session_next(tp_session *session) {
  tp__drive *next = NULL;
  tp__mutex_lock(&session->mutex);
  TP__ASSERT(session->running); /* its end starts the next one */
  if (!tp__list_empty(&session->queue)) {
    next = TP__CONTAINER(session->queue.next, tp__drive, link);
    tp__list_remove(&next->link);
    next->waits = false;
    session->queued--;
    count_queued(session, (uint64_t)-1);
  }
  session->running = next;
  session->ending = false;
  bool last = !next && session->closing;
  TP__CHECK(tp__session_check_locked(session));
  tp__mutex_unlock(&session->mutex);
  if (next) (void)begin_or_wait(next);
  return last;
}

void tp__session_closed(tp_session *session) {
  void (*on_end)(void *ctx) = session->on_end;
  void *ctx = session->on_end_ctx;
  tp__sessions_remove(tp__layer_sessions(session->runtime), session);
  tp__session_unref(session);
  if (on_end) on_end(ctx);
}

/* The ends of turns that left the queue are reported first. */
void tp__session_over(tp_session *session) {
  tp__mutex_lock(&session->mutex);
  session->over_waits = session->leaving > 0;
  session->over = !session->over_waits;
  bool gone = session->over && session->closed;
  TP__CHECK(tp__session_check_locked(session));
  tp__mutex_unlock(&session->mutex);
  if (gone) tp__session_closed(session);
}

/* @return false when the turn does not wait in the queue: it has begun, or is about to. Otherwise tp__session_left()
 *   must follow. */
static bool leave_queue(tp_session *session, tp__drive *drive) {
  tp__mutex_lock(&session->mutex);
  bool waited = drive->waits;
  if (waited) {
    tp__list_remove(&drive->link);
    drive->waits = false;
    session->queued--;
    count_queued(session, (uint64_t)-1);
    session->leaving++;
  }
  TP__CHECK(tp__session_check_locked(session));
  tp__mutex_unlock(&session->mutex);
  return waited;
}

void tp__session_left(tp_session *session) {
  tp__mutex_lock(&session->mutex);
  TP__ASSERT(session->leaving > 0);
  bool over = --session->leaving == 0 && session->over_waits;
  TP__CHECK(tp__session_check_locked(session));
  tp__mutex_unlock(&session->mutex);
  if (over) tp__session_over(session);
}

/* ---- a turn that ends in its session's queue without having begun ---- */

static bool end_in_queue(tp__drive *d, tp_turn_outcome outcome, tp_status code, const char *reason) {
  TP__OWNED(&d->turn->core.strand);
  if (d->begun || d->closing) return false;
  bool queued = leave_queue(d->session, d);
  if (!queued && !tp__admission_leave_queue(d->session->admission, &d->admission)) return false;
  tp__strand_timer_remove(&d->limit_timer);
  tp__added_close(d);
  d->outcome = outcome;
  d->code = code;
  d->reason = tp_text_of(reason);
  if (queued) tp__drive_end_unbegun(d);
  else tp__drive_end_unadmitted(d);
  return true;
}

static void limit_fired(tp__timer_entry *timer, int64_t now_ns) {
  (void)now_ns;
  (void)!end_in_queue(TP__CONTAINER(timer, tp__drive, limit_timer), TP_TURN_TIMED_OUT, TP_ERR_TIMEOUT,
                      "the turn's time limit passed while it waited for the turns before it");
}

bool tp__drive_cancel_queued(tp__drive *d) {
  TP__ASSERT(!d->begun);
  return end_in_queue(d, TP_TURN_CANCELLED, TP_ERR_CANCELLED, "the turn was cancelled before it began");
}

static void watch_limit(tp__drive *d) {
  TP__OWNED(&d->turn->core.strand);
  tp__turn *core = &d->turn->core;
  if (d->begun || d->closing || core->strand.end) return;
  if (!core->is_cancelled) tp__strand_timer_add(&core->strand, &d->limit_timer, core->deadline_ns);
  else (void)!tp__drive_cancel_queued(d);
}

static void queued_delivered(tp__message *message) {
  tp__drive *d = TP__CONTAINER(message, tp__drive, queued_message);
  tp__turn *core = &d->turn->core;
  watch_limit(d);
  tp__turn_unref(core);
}

static tp_status enqueue_drive(tp__drive *d, bool last) {
  tp__turn *core = &d->turn->core;
  bool queued = false, owned = d->done != NULL;
  if (!owned) tp__turn_hold(core); /* it may end before the enqueue returns */
  tp_status status = enqueue(d->session, d, last, &queued);
  if (owned) {
    if (status == TP_OK && queued) watch_limit(d);
  } else if (status != TP_OK || !queued || !tp__strand_push(&core->strand, &d->queued_message)) {
    tp__turn_unref(core);
  }
  return status;
}

tp_status tp__drive_enqueue_or_abort(tp__drive *drive, bool last, tp_fault *fault) {
  tp_status status = enqueue_drive(drive, last);
  if (status == TP_OK) return TP_OK;
  tp__drive_abort(drive);
  return tp__fail(fault, status, NULL, "the session does not take the turn: %s", tp_status_text(status));
}

void tp__drive_init_queued(tp__drive *d) {
  d->queued_message.deliver = queued_delivered;
  d->limit_timer.fire = limit_fired;
  tp__list_init(&d->limit_timer.link);
}
