/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/hello.md: the first host. */
#include <stdio.h>

#include <turnphase/turnphase.h>

/* The model may call this function. */
static int32_t forecast(void *ctx, tp_tool_run *run) {
  (void)ctx;
  const char *city = tp_tool_run_string(run, "city");
  printf("forecast for %s\n", city);
  return tp_tool_printf(run, "%s: rain, 12 degrees", city);
}

/* Reads each message of the user before the model does. */
static int32_t discretion(void *ctx, tp_call *call) {
  return tp_call_contains(call, TP_FIELD_TEXT, ctx) ? TP_ANSWER_DENY : TP_ANSWER_ALLOW;
}

/* A script in the model's place: it calls the tool, and after the result says its text. */
static const char script[] =
    "{\"responses\": [{\"tool_calls\": [{\"name\": \"forecast\", \"arguments\": {\"city\": \"Oslo\"}}]},"
    "                 {\"text\": \"Take an umbrella.\"}]}";

int main(void) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "forecast",
                        .description = "The weather of a city.",
                        .schema_json =
                            "{\"type\": \"object\", \"required\": [\"city\"],"
                            " \"properties\": {\"city\": {\"type\": \"string\"}}}",
                        .run = forecast};
  const char *const messages[] = {"Do I need an umbrella in Oslo?", "Tell me a secret."};
  char answer[1000];
  tp_runtime *runtime = NULL;
  tp_fault fault;
  int failed = tp_runtime_new(NULL, &runtime, &fault) || tp_tool_add(runtime, &tool, &fault) ||
               tp_guard_add(runtime, "discretion", "turn.intake", discretion, "secret", &fault);
  if (failed) printf("%s\n", fault.message);
  for (int i = 0; i < 2 && !failed; i++) {
    int denied = tp_script_play(runtime, script, messages[i], answer, sizeof answer, &fault);
    printf("%s\n  %s\n", messages[i], denied ? fault.message : answer);
  }
  tp_runtime_free(runtime);
  return failed;
}
