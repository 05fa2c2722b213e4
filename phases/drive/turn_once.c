/* SPDX-License-Identifier: Apache-2.0
 *
 * turn_once.c: one turn in a session of its own, for hosts that want an answer and no conversation. It uses the public
 * functions that a host would call. */
#include <stdio.h>

#include "phases/model/model.h"
#include "phases/session/sessions.h"
#include "runtime/exec/runtime.h"
#include "turnphase/turn.h"

/* Converts the end of a turn into a status: TP_OK with the whole answer, or the error code with the reason. */
static tp_status give_answer(const tp_turn_result *result, char *answer, size_t size, tp_fault *fault) {
  TP__ASSERT(size > 0);
  if (result->outcome == TP_TURN_COMPLETED) {
    size_t length = tp__utf8_cut(result->text, size - 1);
    TP__ASSERT(length < size);
    if (length > 0) memcpy(answer, result->text.data, length);
    answer[length] = '\0';
    if (length == result->text.size) return TP_OK;
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "the answer has %zu bytes and does not fit into %zu with its NUL",
                    result->text.size, size);
  }
  TP__ASSERT(result->code != TP_OK);
  char subscription[TP_ID_BYTES_MAX + 1];
  snprintf(subscription, sizeof subscription, "%.*s", (int)result->subscription.size, result->subscription.data);
  tp_status status = tp__fail(fault, result->code, subscription, "%.*s", (int)result->reason.size, result->reason.data);
  if (fault) fault->phase = result->phase;
  return status;
}

/* @param model taken when this function sets *ret_taken. */
static tp_status run_once(tp_runtime *runtime, const tp_model *model, const char *text, char *answer, size_t size,
                          bool *ret_taken, tp_fault *fault) {
  char id[32];
  snprintf(id, sizeof id, "once-%llu",
           (unsigned long long)tp__a64_add_relaxed(&tp__layer_sessions(runtime)->turns_once, 1) + 1);
  tp_session_options options = {.struct_size = sizeof options, .id = id, .model = model};
  tp_history *history;
  tp_session *session;
  TP__TRY(tp_history_memory_new(tp__runtime_allocator(runtime), &history, fault));
  options.history = history;
  tp_status status = tp_session_open(runtime, &options, &session, fault);
  if (status != TP_OK) {
    tp_history_free(history);
    return status;
  }
  *ret_taken = true;
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  status = tp_turn_run(session, &request, &result, fault);
  if (status == TP_OK) {
    status = give_answer(result, answer, size, fault);
    tp_turn_result_free(result);
  }
  tp_session_close(session, NULL, NULL);
  return status;
}

/* The checks of both functions, before anything is made. */
static tp_status check_once(tp_runtime *runtime, const char *what, const char *answer, size_t size, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__may_block(runtime, fault, what));
  if (!answer || size == 0) return tp__fail(fault, TP_ERR_USAGE, NULL, "%s needs an answer of at least 1 byte", what);
  return TP_OK;
}

tp_status tp_turn_once(tp_runtime *runtime, const tp_model *model, const char *text, char *answer, size_t size,
                       tp_fault *fault) {
  TP__TRY(check_once(runtime, "tp_turn_once", answer, size, fault));
  if (!model) return tp__fail_null(fault, "model");
  tp_model kept;
  TP__TRY(tp__options_read(&kept, sizeof kept, model, "tp_model", fault));
  kept.destroy = NULL; /* it stays the host's */
  bool taken;
  return run_once(runtime, &kept, text, answer, size, &taken, fault);
}

tp_status tp_script_play(tp_runtime *runtime, const char *script, const char *text, char *answer, size_t size,
                         tp_fault *fault) {
  TP__TRY(check_once(runtime, "tp_script_play", answer, size, fault));
  tp_model *model;
  TP__TRY(tp_script_model_decode(script, &model, fault));
  bool taken = false;
  tp_status status = run_once(runtime, model, text, answer, size, &taken, fault);
  if (!taken) tp_model_free(model);
  return status;
}
