/* SPDX-License-Identifier: Apache-2.0
 *
 * turn_end.c: the end of a driven turn: its result, its record, the reports, and the start of the session's next
 * turn. */
#include "phases/tools/tools.h"
#include "phases/turn/end.h"
#include "phases/drive/running.h"
#include "phases/session/session.h"
#include "phases/session/sessions.h"
#include "phases/drive/steps.h"
#include "runtime/exec/exec.h"

static void fill_result(const tp__drive *d, tp_turn_result *result) {
  tp_text text = d->structured.value.size > 0 ? d->structured.json : d->response_text;
  *result = (tp_turn_result){.struct_size = sizeof *result,
                             .outcome = d->outcome,
                             .text = d->outcome == TP_TURN_COMPLETED ? text : (tp_text){NULL, 0},
                             .value = d->outcome == TP_TURN_COMPLETED ? d->structured.value : (tp_text){NULL, 0},
                             .reason = d->reason,
                             .turn_id = d->turn->core.ids[TP_ID_TURN],
                             .code = d->code,
                             .phase = d->refusing_phase,
                             .state = d->refusing_state,
                             .why = d->refusing_why,
                             .subscription = d->refusing_subscription,
                             .bare_reason = d->bare_reason,
                             .iterations = d->iterations,
                             .tool_calls = d->tool_calls,
                             .finish = d->finish,
                             .finish_word = d->finish_word,
                             .is_stored = d->is_answered,
                             .retry_ms = d->code == TP_ERR_BUSY ? d->retry_ms : 0,
                             .input_tokens = d->input_tokens,
                             .output_tokens = d->output_tokens,
                             .cost_micros = d->cost_micros,
                             .started_ns = d->started_ns,
                             .ended_ns = tp__now_ns()};
}

/* What its store keeps of the turn. */
static void record_end(const tp__drive *d, const tp_turn_result *result) {
  tp_runtime *runtime = d->session->runtime;
  if (!tp__runtime_store(runtime)->turn_record || (d->is_known && !d->is_owed)) return; /* a known one has its record */
  TP__ASSERT(result->started_ns == d->started_ns);
  tp_turn_record record = tp__drive_record(d, result->ended_ns);
  record.number = tp__a64_add_relaxed(&tp__layer_sessions(runtime)->turns_ended, 1) + 1;
  record.outcome = result->outcome;
  record.code = result->code;
  record.phase = result->phase;
  record.finish = result->finish;
  record.subscription = result->subscription;
  record.reason = result->reason;
  record.finish_word = result->finish_word;
  record.running_number = d->was_running ? d->turn->core.number : 0;
  tp__turn_record_give(runtime, &record);
}

/* A callback is called before on_end, because on_end may free data that the callback reads. Work for an inbox is put
 * after the end of the submission, where the host looks for the result. */
static void report_end(tp__drive *d) {
  tp_turn_result result;
  tp__ends ends;
  char buffer[TP__REDACT_SIZE];
  fill_result(d, &result);
  result.reason =
      tp__redact(tp__runtime_redactor(d->session->runtime), TP_REDACT_RECORD, result.reason, buffer, sizeof buffer);
  tp_event event = {.kind = TP_EVENT_TURN_END,
                    .visibility = TP_VISIBILITY_USER_VISIBLE,
                    .status = d->code,
                    .text = tp_text_of(tp_turn_outcome_name(d->outcome)),
                    .started_ns = result.started_ns,
                    .ended_ns = result.ended_ns};
  tp__event_to(d->turn, &event, TP__LISTENERS_CALLED);
  record_end(d, &result);
  tp__runtime_count(d->session->runtime, (uint32_t)d->outcome, 1);
  if (d->result) tp__result_fill(d->result, &result);
  if (d->submission) tp__result_fill(&d->submission->result, &result);
  tp__ends_hold(&ends);
  if (d->on_end) d->on_end(d->ctx, &result);
  if (d->submission) tp__submission_ended(d->submission);
  tp__event_to(d->turn, &event, TP__LISTENERS_THROUGH);
  tp__ends_put(&ends);
}

static void end_drive(tp__drive *d) {
  if (d->done) *d->done = true;
  tp__turn_over(d->turn);
}

static void end_step(tp__drive *d) {
  tp_session *session = d->session;
  tp__running_end(d);
  d->turn->core.jobs_process = d->turn->core.jobs_turn = d->turn->core.fence = 0;
  tp__session_release_claim(session); /* where no append has ended it */
  session->last_outcome = d->outcome;
  session->last_code = d->code;
  if (d->on_end || d->submission) tp__session_ending(session);
  report_end(d); /* before the next turn starts, so that ends are reported in the order of the turns */
  bool last = tp__session_next(session);
  tp__drive_release_quota(d); /* after it, so that the session's next turn waits like the others */
  end_drive(d);
  if (last) tp__session_over(session);
}

static void claim_ended(tp__host_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->host_call = NULL;
  if (status == TP_OK) d->session->has_claim = false;
  end_step(d);
}

void tp__step_end(tp__drive *d) {
  if (!tp__drive_end_claim(d, claim_ended)) end_step(d);
}

void tp__drive_end_unbegun(tp__drive *d) {
  tp_session *session = d->session;
  report_end(d);
  end_drive(d);
  tp__session_left(session);
}

void tp__drive_end_unadmitted(tp__drive *d) {
  tp_session *session = d->session;
  if (d->on_end || d->submission) tp__session_ending(session);
  report_end(d);
  bool last = tp__session_next(session);
  end_drive(d);
  if (last) tp__session_over(session);
}

/* The end of a turn that only ran session.end. */
void tp__step_closed(tp__drive *d) {
  tp_session *session = d->session;
  if (d->on_closed) d->on_closed(d->ctx);
  if (d->done) *d->done = true;
  bool last = tp__session_next(session);
  tp__turn_over(d->turn);
  if (last) tp__session_over(session);
}
