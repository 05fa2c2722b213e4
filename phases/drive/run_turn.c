/* SPDX-License-Identifier: Apache-2.0
 *
 * run_turn.c: how a host runs a turn in a session: on its own thread, submitted, or held for phases of its own. */
#include "phases/drive/drive.h"
#include "phases/session/session.h"

tp_status tp__session_check_inbox(const tp_session *session, const tp__snapshot *snapshot, tp_fault *fault) {
  if (session->inbox || !snapshot->needs_inbox) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, snapshot->needs_inbox,
                  "the handler of subscription `%s` names TP_INBOX_OF_SESSION, and session %s has none: set "
                  "tp_session_options.inbox, or give the subscription a match",
                  snapshot->needs_inbox, session->id);
}

static tp_status make_drive(tp_session *session, const tp_turn_request *theirs, bool owned, const tp__nesting *nesting,
                            tp__drive **ret_drive, tp_fault *fault) {
  tp_turn_request request;
  TP__TRY(tp__request_read(theirs, &request, fault));
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  if (!nesting)
    TP__TRY(tp__admission_check(session->admission, session->tenant_queue, (int64_t)request.limit_ms * TP__NS_PER_MS,
                                fault));
  tp__drive *drive;
  TP__TRY(tp__drive_new(session, &request, owned, TP__TURN_DRIVEN, nesting, &drive, fault));
  tp_status status = tp__session_check_inbox(session, drive->turn->core.snapshot, fault);
  if (status == TP_OK) {
    *ret_drive = drive;
    return TP_OK;
  }
  bool done;
  if (owned) drive->done = &done; /* the caller owns the turn */
  tp__drive_abort(drive);
  return status;
}

tp_status tp__drive_here(tp__drive *drive, bool last, tp_fault *fault) {
  tp__strand *strand = &drive->turn->core.strand;
  tp_runtime *runtime = drive->turn->core.runtime;
  bool done = false;
  drive->done = &done;
  TP__TRY(tp__drive_enqueue_or_abort(drive, last, fault));
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__THREAD_OWNER);
  if (drive->call) tp__drive_watch_call(drive);
  tp__strand_wait(strand, &done);
  tp__strand_timer_remove(&drive->call_timer);
  tp__strand_leave(strand);
  tp__inside_leave(&frame);
  return TP_OK;
}

tp_status tp__session_run(tp_session *session, const tp_turn_request *request, const tp__nesting *nesting,
                          const tp_turn_result **ret_result, tp_fault *fault) {
  tp__drive *drive;
  tp__result *result = NULL;
  TP__TRY(make_drive(session, request, true, nesting, &drive, fault));
  if (ret_result && !(result = tp__result_new(tp__runtime_allocator(session->runtime)))) {
    bool done;
    drive->done = &done; /* the caller owns the turn */
    tp__drive_abort(drive);
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the result of a turn");
  }
  drive->result = result;
  tp_status status = tp__drive_here(drive, false, fault);
  if (status == TP_OK && ret_result) *ret_result = &result->shown;
  else if (result) tp_turn_result_free(&result->shown);
  return status;
}

tp_status tp_turn_run(tp_session *session, const tp_turn_request *request, const tp_turn_result **ret_result,
                      tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  TP__TRY(tp__may_block(session->runtime, fault, "tp_turn_run"));
  return tp__session_run(session, request, NULL, ret_result, fault);
}

/* The submission refers to the turn before the turn can end. */
static tp_status make_submission(tp__drive *drive, tp_fault *fault) {
  drive->submission = tp__submission_new(tp__runtime_allocator(drive->session->runtime), &drive->turn->core);
  if (drive->submission) return TP_OK;
  tp__drive_abort(drive);
  return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a submission");
}

tp_status tp__session_submit(tp_session *session, const tp_turn_request *request, const tp__nesting *nesting,
                             tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  tp__drive *drive;
  if (tp__runtime_options(session->runtime)->no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use %s()",
                    nesting ? "tp_call_run_turn() or tp_tool_run_turn" : "tp_turn_run");
  TP__TRY(make_drive(session, request, false, nesting, &drive, fault));
  drive->on_end = on_end;
  drive->ctx = ctx;
  if (ret_submission) TP__TRY(make_submission(drive, fault));
  tp_submission *submission = drive->submission;
  tp_status status = tp__drive_enqueue_or_abort(drive, false, fault);
  if (status == TP_OK && ret_submission) *ret_submission = submission;
  else if (submission) tp__submission_abort(submission);
  return status;
}

tp_status tp_turn_submit(tp_session *session, const tp_turn_request *request, tp_turn_end_fn on_end, void *ctx,
                         tp_submission **ret_submission, tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  return tp__session_submit(session, request, NULL, on_end, ctx, ret_submission, fault);
}

tp_status tp_turn_begin(tp_session *session, const tp_turn_request *theirs, tp_turn **ret_turn, tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  tp_turn_request request;
  TP__TRY(tp__request_read_held(theirs, &request, fault));
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  tp_turn *turn;
  tp_agent *agent = tp__session_take_agent(session, NULL);
  tp__turn_ids ids = tp__session_ids(session, agent, NULL);
  tp_status status = tp__turn_new_held(session->runtime, &ids, &request, TP__TURN_HELD, &turn, fault);
  tp_agent_unref(agent);
  if (status != TP_OK) return status;
  status = tp__session_check_inbox(session, turn->core.snapshot, fault);
  if (status == TP_OK) *ret_turn = turn;
  else tp_turn_end(turn);
  return status;
}
