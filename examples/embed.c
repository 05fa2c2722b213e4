/* SPDX-License-Identifier: Apache-2.0
 *
 * A small host: one guard, one session, two turns of a scripted model. The smallest is examples/guides/hello.c. */
#include <stdio.h>
#include <string.h>

#include "turnphase/turnphase.h"

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  for (size_t i = 0; i + 6 <= text.size; i++)
    if (memcmp(text.data + i, "secret", 6) == 0) return tp_call_deny(call, "secrets are not talked about");
  return tp_call_allow(call);
}

/* Required: the turn is denied also when the guard fails, takes too long or answers nonsense. */
static const tp_hook guarded = {.struct_size = sizeof(tp_hook),
                                .id = "guard",
                                .phase = "turn.intake",
                                .run = guard,
                                .failure = TP_FAILURE_REQUIRED,
                                .limit_ms = 1000};

static int refuse(const tp_fault *fault) {
  fprintf(stderr, "%s\n", fault->message);
  return 1;
}

static int say(tp_session *session, const char *words) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(words)};
  const tp_turn_result *result = NULL;
  tp_fault fault;
  if (tp_turn_run(session, &request, &result, &fault) != TP_OK) return refuse(&fault);
  tp_text said = result->outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  printf("%-28s %-9s %.*s\n", words, tp_turn_outcome_name(result->outcome), (int)said.size, said.data);
  tp_turn_result_free(result);
  return 0;
}

int main(void) {
  tp_model_response hello = {.struct_size = sizeof hello, .text = tp_text_of("Hello! How can I help?")};
  const tp_model_response *responses[] = {&hello};
  tp_session_options options = {.struct_size = sizeof options, .id = "first"};
  tp_model *model = NULL;
  tp_runtime *runtime = NULL;
  tp_session *session = NULL;
  tp_fault fault;
  if (tp_script_model_new(responses, 1, true, &model, &fault) != TP_OK) return refuse(&fault);
  options.model = model;
  if (tp_runtime_new(NULL, &runtime, &fault) != TP_OK || tp_hook_add(runtime, &guarded, &fault) != TP_OK ||
      tp_session_open(runtime, &options, &session, &fault) != TP_OK) {
    tp_model_free(model); /* no session has taken it */
    tp_runtime_free(runtime);
    return refuse(&fault);
  }
  int failed = say(session, "Good morning!") | say(session, "Tell me a secret.");
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  return failed;
}
