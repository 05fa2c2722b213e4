/* SPDX-License-Identifier: Apache-2.0
 *
 * nested.c: turns of other sessions, and tasks, that a call of a handler or tool runs. A call that waits is paused
 * meanwhile: it occupies neither a permit nor a place in the pool's count of threads. Its thread is the owner of the
 * nested turn. A call that only submits its turn gives up its permit when its function has returned, because the turn
 * may call the same tool. */
#include "phases/session/session.h"
#include "phases/tools/task.h"
#include "phases/tools/tool_run.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/entry.h"

static bool is_session_of_turn(const tp__turn *turn, const tp_session *session) {
  return tp_text_equal(turn->ids[TP_ID_TENANT], tp_text_of(session->tenant)) &&
         tp_text_equal(turn->ids[TP_ID_SESSION], tp_text_of(session->id));
}

/* A turn that its host drives is not in its session's queue. */
static bool is_queued(const tp__turn *turn) { return turn->kind == TP__TURN_DRIVEN || turn->kind == TP__TURN_CLOSING; }

static tp_status check_nested(const tp__turn *parent, const tp_session *session, tp_fault *fault) {
  if (!session) return tp__fail(fault, TP_ERR_USAGE, NULL, "a nested turn needs a session");
  if (session->runtime != parent->runtime)
    return tp__fail(fault, TP_ERR_USAGE, session->id, "the session of a nested turn is of another runtime");
  if (parent->depth >= TP__NESTED_MAX)
    return tp__fail(fault, TP_ERR_TOO_DEEP, session->id, "turns nest %d deep: this call is of a turn at that depth",
                    TP__NESTED_MAX);
  /* nothing waits for a detached run */
  for (const tp__turn *turn = parent; turn && turn->kind != TP__TURN_DETACHED; turn = turn->parent)
    if (is_queued(turn) && is_session_of_turn(turn, session))
      return tp__fail(fault, TP_ERR_USAGE, session->id,
                      "a turn of this session waits for the call, and the nested one would wait for that: open another "
                      "session");
  return TP_OK;
}

static tp_status refuse_wait(tp_status status, const tp_session *session, tp_fault *fault) {
  switch (status) {
    case TP_ERR_CANCELLED:
      return tp__fail(fault, status, session->id, "the call was given up: it starts no nested turn");
    case TP_ERR_FULL:
      return tp__fail(fault, status, session->id, "%d calls wait for nested turns: defer, and submit the turn",
                      (int)tp__runtime_sched(session->runtime)->pool.paused_max);
    default:
      return tp__fail(fault, TP_ERR_USAGE, session->id,
                      "only a call on a handler thread that has not deferred may wait for a nested turn: give it the "
                      "placement thread, or submit the turn");
  }
}

/* Functions of the nested turn that this thread calls write the same breadcrumb. */
static tp_status run_paused(const tp__nesting *nesting, tp_session *session, const tp_turn_request *request,
                            const tp_turn_result **ret_result, tp_fault *fault) {
  tp_breadcrumb *breadcrumb = tp__breadcrumb_here(nesting->parent->runtime), mine;
  if (breadcrumb) mine = *breadcrumb;
  tp__breadcrumb_leave(breadcrumb);
  tp_status status = tp__session_run(session, request, nesting, ret_result, fault);
  tp__attempt_resume(nesting->attempt);
  if (breadcrumb) {
    *breadcrumb = mine;
    tp__a32_store_release(tp__breadcrumb_flag(breadcrumb), 1);
  }
  return status;
}

static tp_status run_nested(const tp__nesting *nesting, tp_session *session, const tp_turn_request *request,
                            const tp_turn_result **ret_result, tp_fault *fault) {
  TP__TRY(check_nested(nesting->parent, session, fault));
  tp_status status = nesting->attempt ? tp__attempt_pause(nesting->attempt) : TP_ERR_USAGE;
  if (status != TP_OK) return refuse_wait(status, session, fault);
  return run_paused(nesting, session, request, ret_result, fault);
}

static tp__nesting of_call(const tp_call *call) {
  return (tp__nesting){.parent = call->entry->turn, .until_ns = tp__call_deadline(call), .attempt = call->attempt};
}

static tp__nesting of_tool(const tp_tool_run *run_of) {
  return (tp__nesting){
      .parent = run_of->turn, .until_ns = run_of->deadline_ns, .attempt = tp__tool_run_attempt(run_of)};
}

tp_status tp_call_run_turn(tp_call *call, tp_session *session, const tp_turn_request *request,
                           const tp_turn_result **ret_result, tp_fault *fault) {
  if (!call) return tp__fail_null(fault, "call");
  if (!session) return tp__fail_null(fault, "session");
  tp__nesting nesting = of_call(call);
  return run_nested(&nesting, session, request, ret_result, fault);
}

tp_status tp_tool_run_turn(tp_tool_run *tool_run, tp_session *session, const tp_turn_request *request,
                           const tp_turn_result **ret_result, tp_fault *fault) {
  if (!tool_run) return tp__fail_null(fault, "run");
  if (!session) return tp__fail_null(fault, "session");
  tp__nesting nesting = of_tool(tool_run);
  return run_nested(&nesting, session, request, ret_result, fault);
}

static tp_status submit_nested(tp__nesting nesting, tp_session *session, const tp_turn_request *request,
                               tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  tp__attempt *attempt = nesting.attempt;
  nesting.attempt = NULL;
  TP__TRY(check_nested(nesting.parent, session, fault));
  TP__TRY(tp__session_submit(session, request, &nesting, on_end, ctx, ret_submission, fault));
  if (attempt) tp__attempt_yield_permit(attempt);
  return TP_OK;
}

tp_status tp_call_submit_turn(tp_call *call, tp_session *session, const tp_turn_request *request, tp_turn_end_fn on_end,
                              void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  if (!call) return tp__fail_null(fault, "call");
  if (!session) return tp__fail_null(fault, "session");
  return submit_nested(of_call(call), session, request, on_end, ctx, ret_submission, fault);
}

tp_status tp_tool_submit_turn(tp_tool_run *tool_run, tp_session *session, const tp_turn_request *request,
                              tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  if (!tool_run) return tp__fail_null(fault, "run");
  if (!session) return tp__fail_null(fault, "session");
  return submit_nested(of_tool(tool_run), session, request, on_end, ctx, ret_submission, fault);
}

tp_status tp_tool_submit_turn_late(tp_token token, tp_session *session, const tp_turn_request *request,
                                   tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  tp__nesting nesting;
  tp__attempt *attempt;
  if (!session) return tp__fail_null(fault, "session");
  TP__TRY(tp__tool_run_hold(token, &attempt, &nesting, fault));
  tp_status status = submit_nested(nesting, session, request, on_end, ctx, ret_submission, fault);
  tp__token_release(attempt);
  return status;
}

tp_status tp_tool_submit_task(tp_tool_run *tool_run, tp_task_operation operation, const tp_task_spec *spec,
                              tp_task_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  if (!tool_run) return tp__fail_null(fault, "run");
  tp__nesting nesting = of_tool(tool_run);
  tp__attempt *attempt = nesting.attempt;
  nesting.attempt = NULL;
  TP__TRY(tp__task_submit(nesting.parent->runtime, &nesting, operation, spec, on_end, ctx, ret_submission, fault));
  if (attempt) tp__attempt_yield_permit(attempt);
  return TP_OK;
}

tp_text tp_call_parent_turn(const tp_call *call) {
  if (!call) return (tp_text){0};
  return tp__turn_parent_id(call->entry->turn);
}
tp_text tp_match_parent_turn(const tp_match_view *view) {
  if (!view) return (tp_text){0};
  return tp__turn_parent_id(view->entry->turn);
}
