/* SPDX-License-Identifier: Apache-2.0
 *
 * step_result.c: what a driven turn takes from the result of each phase, and the step that follows. */
#include "phases/drive/added.h"
#include "phases/drive/limits.h"
#include "phases/model/parts.h"
#include "phases/merge/render.h"
#include "phases/drive/steps.h"
#include "runtime/base/bug.h"
#include "runtime/exec/exec.h"

enum { STOP_DENIALS_MAX = 8, PAUSES_MAX = 8 };

static tp__step next_or_no_memory(tp__drive *d, bool ok) {
  if (ok) return tp__step_rows[d->step].next;
  tp__drive_no_memory(d);
  return TP__STEP_NONE;
}

/* ---- what the user said ---- */

bool tp__keep_session_started(tp__drive *d) {
  d->session->started = true;
  return true;
}

/* The message enters the turn as the chain left it, with its files. */
bool tp__drive_add_user_message(tp__drive *d) {
  tp_message message = {.role = TP_ROLE_USER, .turn_id = d->turn->core.ids[TP_ID_TURN], .text = d->user_text};
  return tp__parts_of_files(&d->arena, d->request.files, &message.parts) == TP_OK &&
         tp__messages_add(&d->messages, &message) == TP_OK;
}

static bool take_replaced(tp__drive *d, uint32_t field, tp_text *text) {
  const tp_merged *merged = d->phase.result.merged;
  return !tp_merged_replaced(merged, field) || tp__arena_text(&d->arena, tp_merged_text(merged, field), text);
}

bool tp__keep_input(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  bool ok = true;
  if (d->phase.result.outcome == TP_OK)
    ok = take_replaced(d, TP_FIELD_TEXT, &d->user_text) && take_replaced(d, TP_FIELD_FILES, &d->request.files);
  if (merged && merged->lists[TP_CONTRIBUTION_SIGNAL].count > 0)
    ok = ok &&
         tp__render_signals(&d->arena, "turn.intake", &merged->lists[TP_CONTRIBUTION_SIGNAL], &d->signals) == TP_OK;
  return (ok && tp__drive_add_user_message(d)) || tp__drive_no_memory(d);
}

/* ---- the request's standing part ---- */

tp__step tp__then_compile(tp__drive *d) {
  static const tp__merged_list none;
  const tp_merged *merged = d->phase.result.merged;
  tp_text standing = d->request.system;
  if (standing.size == 0) standing = tp_text_of(d->turn->agent ? d->turn->agent->system : NULL);
  bool ok = tp__render_system(&d->arena, standing, merged ? &merged->lists[TP_CONTRIBUTION_PROMPT_SECTION] : &none,
                              &d->system) == TP_OK &&
            tp__arena_text(&d->arena, d->system, &d->system); /* the sections may be freed */
  return next_or_no_memory(d, ok);
}

tp__step tp__then_take_system(tp__drive *d) {
  return next_or_no_memory(d, take_replaced(d, TP_FIELD_SYSTEM, &d->system));
}

/* Its texts are in use until the request was made. */
tp__step tp__then_take_context(tp__drive *d) {
  tp__phase_let_go(&d->request_context); /* of the attempt before */
  d->request_context = d->phase.result;
  d->phase.result = (tp_phase_result){.struct_size = sizeof(tp_phase_result)};
  return tp__turn_plan(&d->turn->core, TP_PHASE_MODEL_REQUEST) ? TP__STEP_MODEL_REQUEST : TP__STEP_MODEL;
}

/* ---- the response ---- */

tp__step tp__then_take_response(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  tp_text malformed = {"", 0};
  bool ok = true;
  if (tp_merged_replaced(merged, TP_FIELD_CALLS))
    ok = tp__response_take_calls(d, tp_merged_text(merged, TP_FIELD_CALLS), &malformed);
  if (malformed.size > 0) {
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_MALFORMED, malformed);
    return TP__STEP_NONE;
  }
  tp_message message = {.role = TP_ROLE_ASSISTANT,
                        .turn_id = d->turn->core.ids[TP_ID_TURN],
                        .text = d->response_text,
                        .calls = d->calls,
                        .call_count = d->call_count,
                        .provider_data = d->provider_data};
  return next_or_no_memory(d, ok && tp__messages_add(&d->messages, &message) == TP_OK);
}

/* A provider that paused (because its own tools take long) goes on where it stopped when it gets its answer back. */
static bool resumes_pause(tp__drive *d) {
  if (d->finish != TP_FINISH_PAUSE || d->pauses == PAUSES_MAX) return false;
  d->pauses++;
  return true;
}

tp__step tp__then_tools_or_stop(tp__drive *d) {
  if (d->call_count == 0 && resumes_pause(d)) return TP__STEP_MODEL_PRE; /* the paused answer is the last message */
  bool is_steered = tp__added_waits(d) && !TP__BUG(TP__BUG_MESSAGE_LEFT);
  if (d->call_count == 0) return is_steered ? TP__STEP_ADDED : tp__then_check_answer(d);
  return tp__limits_tools(d) ? TP__STEP_TOOLS : TP__STEP_NONE;
}

/* A message that was added before this point is answered; afterwards the turn takes none. */
tp__step tp__then_end(tp__drive *d) { return tp__added_close_if_none(d) ? TP__STEP_COMMIT : TP__STEP_ADDED; }

/* ---- denials that do not fail the turn ---- */

/* The loop ends. The work of the tools is done, and stays in the history. */
tp__step tp__denial_of_tool_batch(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  const char *subscription = result->subscription ? result->subscription : "";
  tp__drive_note(d, TP_PHASE_TOOL_BATCH, TP_SEVERITY_WARNING, "tool_batch.ended", subscription,
                 tp__arena_printf(&d->arena, "hook %s ended the turn behind its tools: %.*s", subscription,
                                  (int)result->reason.size, result->reason.data ? result->reason.data : ""));
  d->finish = TP_FINISH_STOP; /* the calls were made, so nothing of the answer is missing */
  return TP__STEP_COMMIT;
}

/* The model reads the objection and its author as a message of the role user, because providers want such a message at
 * the end. */
static bool take_objection(tp__drive *d, tp_text objection) {
  tp_message message = {.role = TP_ROLE_USER, .turn_id = d->turn->core.ids[TP_ID_TURN], .text = objection};
  return objection.data && tp__messages_add(&d->messages, &message) == TP_OK;
}

static void note_overruled(tp__drive *d, const char *subscription, tp_text objection) {
  tp__drive_note(d, TP_PHASE_TURN_STOP, TP_SEVERITY_WARNING, "turn_stop.overruled", subscription,
                 tp__arena_printf(&d->arena, "the turn ends, since it was kept from it %d times: %.*s",
                                  STOP_DENIALS_MAX, (int)objection.size, objection.data));
}

tp__step tp__denial_of_turn_stop(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  const char *subscription = result->subscription ? result->subscription : "";
  tp_text objection = tp__arena_printf(&d->arena, "hook %s does not let the turn end: %.*s", subscription,
                                       (int)result->reason.size, result->reason.data ? result->reason.data : "");
  if (d->stop_denials == STOP_DENIALS_MAX) {
    note_overruled(d, subscription, objection.data ? objection : tp_text_of("no memory"));
    return tp__then_end(d);
  }
  d->stop_denials++;
  if (take_objection(d, objection)) return TP__STEP_ADDED;
  tp__drive_no_memory(d);
  return TP__STEP_NONE;
}

/* ---- jobs ---- */

/* Stores the background jobs that the phase requested. */
bool tp__keep_jobs(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  for (size_t i = 0; i < tp_merged_count(merged, TP_CONTRIBUTION_BACKGROUND_JOB); i++)
    (void)!tp__jobs_add_contributed(&d->turn->core,
                                    tp_merged_get(merged, TP_CONTRIBUTION_BACKGROUND_JOB, i)->contribution);
  return true;
}
