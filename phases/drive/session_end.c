/* SPDX-License-Identifier: Apache-2.0
 *
 * session_end.c: how a session ends: session.end with the host's report, the close, and a drain of all sessions. */
#include "phases/merge/phases.h"
#include "phases/session/session.h"
#include "phases/session/sessions.h"
#include "phases/drive/steps.h"

enum { END_BYTES_MAX = 1 << 20 };

static void log_list(const tp__drive *d, const char *what, const char *why) {
  tp__log_subject subject = {.status = TP_ERR_FULL, .phase = TP_PHASE_SESSION_END, .ids = d->turn->core.ids};
  tp__log(d->session->runtime, TP_LOG_WARNING, &subject, "session.end of `%s`: %s is %s", d->session->id, what, why);
}

/* The host's list, else the list that turns of the session have collected since it began, or since its last end. */
static void put_list(tp__drive *d, uint32_t field, tp_text said, bool written, tp_text own, uint64_t dropped) {
  if (said.size == 0 && !written) log_list(d, tp_field_name(field), "missing: no memory");
  else if (dropped > 0) log_list(d, tp_field_name(field), "not complete: there are more than a session lists");
  tp_text value = said.size > 0 ? said : own;
  if (value.size > 0) tp__drive_value(d, field, value);
}

/* Takes the list from the session, which begins a new one. */
static void put_names(tp__drive *d, uint32_t field, tp__abilities *own, tp_text said) {
  tp_session *session = d->session;
  tp__abilities taken;
  tp_text value;
  tp__mutex_lock(&session->mutex);
  taken = *own;
  tp__abilities_init(own, tp__runtime_allocator(session->runtime));
  tp__mutex_unlock(&session->mutex);
  bool written = tp__abilities_write(&taken, &d->arena, &value);
  put_list(d, field, said, written, value, taken.dropped);
  tp__abilities_fini(&taken);
}

static void put_tasks(tp__drive *d, tp_text said) {
  tp_session *session = d->session;
  tp__task_list taken;
  tp_text value;
  tp__mutex_lock(&session->mutex);
  taken = session->tasks;
  tp__task_list_init(&session->tasks, tp__runtime_allocator(session->runtime));
  tp__mutex_unlock(&session->mutex);
  bool written = tp__task_list_write(&taken, &d->arena, &value);
  put_list(d, TP_FIELD_TASKS_SUMMARY, said, written, value, taken.dropped);
  tp__task_list_fini(&taken);
}

bool tp__fill_session_end(tp__drive *d) {
  tp_session *session = d->session;
  tp__drive_text(d, TP_FIELD_SESSION_ID, tp_text_of(session->id));
  bool says_ending = !d->end.reason && session->last_outcome > TP_TURN_COMPLETED;
  tp__drive_text(
      d, TP_FIELD_REASON,
      says_ending ? tp_text_of(tp_turn_ending_name(session->last_outcome, session->last_code)) : d->user_text);
  tp__drive_int(d, TP_FIELD_CLOSED, d->closes_session);
  put_names(d, TP_FIELD_CHANGED_FILES, &session->changed, d->end.changed_files);
  put_names(d, TP_FIELD_ABILITIES_USED, &session->abilities, d->end.abilities_used);
  put_tasks(d, d->end.tasks_summary);
  tp__drive_int(d, TP_FIELD_STARTED_AT, session->opened_unix_ms);
  tp__drive_int(d, TP_FIELD_ENDED_AT, tp__unix_ms());
  if (session->last_outcome != TP_TURN_NONE) {
    tp__drive_text(d, TP_FIELD_OUTCOME, tp_text_of(tp_turn_outcome_name(session->last_outcome)));
    tp__drive_int(d, TP_FIELD_CODE, session->last_code);
  }
  return true;
}

static tp_status check_list(const char *name, tp_text value, uint32_t kind, tp_fault *fault) {
  if (value.size == 0) return TP_OK;
  if (value.size > END_BYTES_MAX)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "tp_session_end.%s has %zu bytes, more than %d", name, value.size,
                    END_BYTES_MAX);
  TP__TRY(tp_value_check(value, fault));
  if (tp__is_list_of(value, kind)) return TP_OK;
  return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tp_session_end.%s must be an array of %s", name,
                  kind == TP_VALUE_TEXT ? "texts" : "maps");
}

/* @param theirs  NULL: nothing to report. */
static tp_status read_end(const tp_session_end *theirs, tp_session_end *ours, tp_fault *fault) {
  *ours = (tp_session_end){.struct_size = sizeof *ours};
  if (!theirs) return TP_OK;
  TP__TRY(tp__options_read(ours, sizeof *ours, theirs, "tp_session_end", fault));
  if (!tp_utf8_valid(tp_text_of(ours->reason), NULL))
    return tp__fail(fault, TP_ERR_UTF8, NULL, "tp_session_end.reason is not UTF-8");
  TP__TRY(check_list("changed_files", ours->changed_files, TP_VALUE_TEXT, fault));
  TP__TRY(check_list("abilities_used", ours->abilities_used, TP_VALUE_TEXT, fault));
  return check_list("tasks_summary", ours->tasks_summary, TP_VALUE_MAP, fault);
}

static bool copy_end(tp__drive *d, const tp_session_end *end) {
  return tp__arena_text(&d->arena, end->changed_files, &d->end.changed_files) &&
         tp__arena_text(&d->arena, end->abilities_used, &d->end.abilities_used) &&
         tp__arena_text(&d->arena, end->tasks_summary, &d->end.tasks_summary);
}

/* @param occasion  the reason, if neither the host nor the last turn has one.
 * @param owned  the caller is the turn's owner. */
static tp_status make_closing(tp_session *session, const tp_session_end *end, const char *occasion, bool owned,
                              tp__drive **ret_drive, tp_fault *fault) {
  tp_turn_request asked = {.struct_size = sizeof asked, .text = tp_text_of(end->reason ? end->reason : occasion)},
                  request;
  tp__drive *drive;
  TP__TRY(tp__request_read(&asked, &request, fault));
  TP__TRY(tp__drive_new(session, &request, owned, TP__TURN_CLOSING, NULL, &drive, fault));
  drive->closing = true;
  drive->end.reason = end->reason ? drive->user_text.data : NULL;
  if (!copy_end(drive, end)) {
    bool done;
    if (owned) drive->done = &done;
    tp__drive_abort(drive);
    return tp__fail(fault, TP_ERR_NO_MEMORY, session->id, "no memory for the end of a session");
  }
  *ret_drive = drive;
  return TP_OK;
}

/* Without a closing turn, session.end is lost, which is logged. The turns before it are not lost. */
static void close_without_phase(tp_session *session, tp_status why) {
  tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session->id)};
  tp__log_subject subject = {.status = why, .phase = TP_PHASE_SESSION_END, .ids = ids};
  tp__log(session->runtime, TP_LOG_ERROR, &subject, "session.end of `%s` was not run: %s", session->id,
          tp_status_text(why));
  tp__mutex_lock(&session->mutex);
  session->closing = true;
  bool last = !session->running;
  tp__mutex_unlock(&session->mutex);
  if (last) tp__session_over(session);
}

/* A drain waits for a free place. When its time is up, it makes one. */
static tp_status make_closing_in_time(tp_session *session, int64_t deadline_ns, tp__drive **ret_drive) {
  static const tp_session_end drained = {.struct_size = sizeof drained};
  for (;;) {
    tp_status status = make_closing(session, &drained, "drained", false, ret_drive, NULL);
    if (status != TP_ERR_FULL) return status;
    if (tp__now_ns() >= deadline_ns) tp__runtime_cancel_all(session->runtime);
    tp__runtime_poll_interval(session->runtime);
  }
}

/* Queues session.end after the queued turns. Called only by the thread that set end_asked; afterwards the session may
 * be gone. here: on the calling thread. */
static void queue_end(tp__drive *drive, bool here) {
  drive->closes_session = true;
  tp_status status = here ? tp__drive_here(drive, true, NULL) : tp__drive_enqueue_or_abort(drive, true, NULL);
  assert(status == TP_OK); /* a closing turn never exceeds a limit, and there is only one */
  (void)status;
}

/* Gives up the handle. @return whether the session was over already. */
static bool give_up_handle(tp_session *session, void (*on_end)(void *ctx), void *ctx) {
  tp__mutex_lock(&session->mutex);
  session->closed = true;
  session->on_end = on_end;
  session->on_end_ctx = ctx;
  bool over = session->over;
  tp__mutex_unlock(&session->mutex);
  return over;
}

static void end_here_or_there(tp_session *session, const tp_session_end *end) {
  tp__drive *drive;
  bool here = tp__runtime_options(session->runtime)->no_engine_workers && !tp__inside_is_of(session->runtime);
  tp_status status = make_closing(session, end, "closed", here, &drive, NULL);
  if (status == TP_OK) queue_end(drive, here);
  else close_without_phase(session, status);
}

static void log_late_close(const tp_session *session) {
  tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session->id)};
  tp__log_subject subject = {.status = TP_ERR_SHUTDOWN, .phase = TP_PHASE_SESSION_END, .ids = ids};
  tp__log(session->runtime, TP_LOG_WARNING, &subject,
          "a drain has ended session `%s`: what its close reports comes too late", session->id);
}

/* has_end: the host has a report. */
static void close_session(tp_session *session, const tp_session_end *end, bool has_end, void (*on_end)(void *ctx),
                          void *ctx) {
  if (tp__a32_exchange_acq_rel(&session->close_asked, 1)) return;
  if (tp__runtime_ready(session->runtime, NULL) == TP_ERR_FORKED) { /* nothing runs in the child */
    if (on_end) on_end(ctx);
    return;
  }
  /* otherwise a drain has requested it, and session.end runs or has run */
  bool first = !tp__a32_exchange_acq_rel(&session->end_asked, 1);
  if (!first && has_end) log_late_close(session);
  bool over = give_up_handle(session, on_end, ctx);
  if (first) end_here_or_there(session, end);
  else if (over) tp__session_closed(session);
}

void tp_session_close(tp_session *session, void (*on_end)(void *ctx), void *ctx) {
  static const tp_session_end closed = {.struct_size = sizeof closed};
  if (session) close_session(session, &closed, false, on_end, ctx);
}

tp_status tp_session_close_with(tp_session *session, const tp_session_end *theirs, void (*on_end)(void *ctx), void *ctx,
                                tp_fault *fault) {
  tp_session_end end;
  TP__TRY(read_end(theirs, &end, fault));
  if (session) close_session(session, &end, theirs != NULL, on_end, ctx);
  return TP_OK;
}

tp_status tp_session_end_phase(tp_session *session, const tp_session_end *theirs, tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  tp_session_end end;
  tp__drive *drive;
  TP__TRY(read_end(theirs, &end, fault));
  TP__TRY(tp__may_block(session->runtime, fault, "tp_session_end_phase"));
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  TP__TRY(make_closing(session, &end, "phase", true, &drive, fault));
  return tp__drive_here(drive, false, fault);
}

tp_status tp_session_end_phase_submit(tp_session *session, const tp_session_end *theirs, void (*on_end)(void *ctx),
                                      void *ctx, tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  tp_session_end end;
  tp__drive *drive;
  TP__TRY(read_end(theirs, &end, fault));
  if (tp__runtime_options(session->runtime)->no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use tp_session_end_phase()");
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  TP__TRY(make_closing(session, &end, "phase", false, &drive, fault));
  drive->on_closed = on_end;
  drive->ctx = ctx;
  return tp__drive_enqueue_or_abort(drive, false, fault);
}

/* ---- all of them ---- */

/* The handle stays the host's. If the host closes it meanwhile, an owner of a turn calls the host's callback. */
static void end_in_drain(tp_session *session, int64_t deadline_ns) {
  tp__drive *drive;
  tp_status status = make_closing_in_time(session, deadline_ns, &drive);
  tp__inside frame;
  tp_runtime *runtime = session->runtime;
  tp__inside_enter(&frame, runtime, TP__THREAD_OWNER);
  if (status == TP_OK) queue_end(drive, false);
  else close_without_phase(session, status);
  tp__session_unref(session);
  tp__inside_leave(&frame);
}

void tp__sessions_close_all(tp_runtime *runtime, int64_t deadline_ns) {
  tp_session *session;
  tp__sessions *sessions = tp__layer_sessions(runtime);
  while ((session = tp__sessions_take_open(sessions)) != NULL) end_in_drain(session, deadline_ns);
  while (tp__sessions_any_half_closed(sessions)) tp__runtime_poll_interval(runtime);
}
