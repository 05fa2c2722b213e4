/* SPDX-License-Identifier: Apache-2.0
 *
 * request_step.c: model.request, the step before each request to a model, in a turn that has a subscription there: the
 * payload for its handlers, and the request that is made of their result. A repeat by the library and a request to a
 * fallback each pass this step. A repeat by the provider itself, the request of a compaction, and tp_call_ask_model()
 * do not. */
#include "phases/model/made_request.h"
#include "phases/drive/steps.h"
#include "runtime/exec/exec.h"

enum { NAME_BYTES_MAX = TP_ID_BYTES_MAX };

/* ---- what handlers see ---- */

static bool stop_for(tp__drive *d, tp_status status) {
  if (status == TP_ERR_TOO_LARGE)
    tp__drive_stop(d, TP_TURN_FAILED, status,
                   tp_text_of("model.request: the request has more than the 64 MiB that handlers can be shown; compact "
                              "the history, or unsubscribe"));
  else (void)tp__drive_no_memory(d);
  return false;
}

bool tp__fill_model_request(tp__drive *d) {
  tp__made_request *made = tp__made_request_new(tp__runtime_allocator(d->session->runtime));
  tp_text messages = {NULL, 0}, tools = {NULL, 0};
  TP__ASSERT(!d->made); /* the call before has taken its own */
  d->made = made;
  if (!made) return tp__drive_no_memory(d);
  tp_status status = tp__request_make(d, &made->request, &made->view);
  if (status == TP_OK) status = tp__made_request_write_messages(made, &messages);
  if (status == TP_OK) status = tp__made_request_write_tools(made, &tools);
  if (status != TP_OK) return stop_for(d, status);
  tp__drive_text(d, TP_FIELD_MODEL, tp__drive_shown_model(d));
  if (made->request.files.size > 0) tp__drive_value(d, TP_FIELD_FILES, made->request.files);
  tp__drive_text(d, TP_FIELD_SYSTEM, made->request.system);
  tp__drive_int(d, TP_FIELD_ATTEMPT, d->model_attempt);
  tp__drive_value(d, TP_FIELD_MESSAGES, messages);
  tp__drive_value(d, TP_FIELD_TOOLS, tools);
  if (made->request.parameters.size > 0) tp__drive_value(d, TP_FIELD_PARAMETERS, made->request.parameters);
  return true;
}

/* ---- what is sent ---- */

static tp_status take_replaced(tp__made_request *made, const tp_merged *merged, uint32_t field, tp_text *text) {
  if (!tp_merged_replaced(merged, field)) return TP_OK;
  return tp__arena_text(&made->arena, tp_merged_text(merged, field), text) ? TP_OK : TP_ERR_NO_MEMORY;
}

/* Stores a copy of the name for events and records of the request. */
static tp_status take_model_name(tp__drive *d, const tp_merged *merged) {
  if (!tp_merged_replaced(merged, TP_FIELD_MODEL)) return TP_OK;
  tp_text name = tp_merged_text(merged, TP_FIELD_MODEL);
  if (name.size > NAME_BYTES_MAX) return TP_ERR_TOO_LARGE;
  if (!tp__arena_text(&d->arena, name, &d->asked_name)) return TP_ERR_NO_MEMORY;
  d->made->request.model = d->asked_name;
  return TP_OK;
}

static tp_status take_all(tp__drive *d, const tp_merged *merged, const char **ret_what) {
  tp__made_request *made = d->made;
  *ret_what = "model: a name has at most 128 bytes";
  TP__TRY(take_model_name(d, merged));
  TP__TRY(take_replaced(made, merged, TP_FIELD_FILES, &made->request.files));
  TP__TRY(take_replaced(made, merged, TP_FIELD_SYSTEM, &made->request.system));
  TP__TRY(take_replaced(made, merged, TP_FIELD_PARAMETERS, &made->request.parameters));
  *ret_what = "messages: none is left";
  if (tp_merged_replaced(merged, TP_FIELD_MESSAGES))
    TP__TRY(tp__made_request_take_messages(made, tp_merged_text(merged, TP_FIELD_MESSAGES)));
  if (tp_merged_replaced(merged, TP_FIELD_TOOLS))
    TP__TRY(tp__made_request_take_tools(made, tp_merged_text(merged, TP_FIELD_TOOLS)));
  if (tp_merged_replaced(merged, TP_FIELD_RESPONSE))
    TP__TRY(tp__made_request_take_response(made, tp_merged_text(merged, TP_FIELD_RESPONSE)));
  return TP_OK;
}

static void note_request(tp__drive *d, const char *key, tp_severity severity, tp_text text) {
  tp__drive_note(d, TP_PHASE_MODEL_REQUEST, severity, key, "", text);
}

static void note_changes(tp__drive *d) {
  const tp__made_request *made = d->made;
  if (made->calls_left_out + made->results_left_out > 0)
    note_request(
        d, "model_request.pairs", TP_SEVERITY_INFO,
        tp__arena_printf(&d->arena,
                         "calls and results are sent in pairs: %u calls, %u results and %u messages were left out of "
                         "the request",
                         made->calls_left_out, made->results_left_out, made->messages_left_out));
  if (made->ids_unknown + made->tools_unknown > 0)
    note_request(
        d, "model_request.unknown", TP_SEVERITY_WARNING,
        tp__arena_printf(&d->arena,
                         "%u messages have the id of no message of the request, and were taken as new; %u tools are "
                         "none of the request or there twice, and were left out",
                         made->ids_unknown, made->tools_unknown));
}

tp__step tp__then_take_request(tp__drive *d) {
  TP__ASSERT(d->made && d->phase.phase == TP_PHASE_MODEL_REQUEST);
  const tp_merged *merged = d->phase.result.merged;
  const char *what = NULL;
  tp_status status = merged ? take_all(d, merged, &what) : TP_OK;
  if (status == TP_ERR_NO_MEMORY) {
    (void)tp__drive_no_memory(d);
    return TP__STEP_NONE;
  }
  if (status != TP_OK) {
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_MALFORMED, tp__arena_printf(&d->arena, "model.request: %s", what));
    return TP__STEP_NONE;
  }
  /* A tool that this request does not show must not run for its answer. */
  const tp__toolset *set = d->turn->toolset;
  const tp_model_request *request = &d->made->request;
  for (size_t i = 0; set && i < set->count; i++) {
    size_t at = 0;
    while (at < request->tool_count && !tp_text_is(set->entries[i].name, request->tools[at]->name)) at++;
    set->entries[i].left_out = at == request->tool_count;
  }
  note_changes(d);
  return TP__STEP_MODEL;
}
