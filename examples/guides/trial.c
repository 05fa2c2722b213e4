/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/trial.md: the test of two handlers, item by item of a checklist. */
#include <turnphase/test/trial.h>

/* ---- what is tested: the hooks of a domain ---- */

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text path = tp_value_text(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), "path"));
  if (tp_text_is(path, "prod.yaml")) return tp_call_deny(call, "prod is edited by people");
  return tp_call_allow(call);
}

static tp_answer adviser(void *ctx, tp_call *call) {
  const char *advice = ctx;
  if (!advice) return tp_call_fail(call, 1, "no advice today");
  tp_status status = tp_call_emit_reminder(call, advice, NULL);
  return status == TP_OK ? tp_call_allow(call) : tp_call_fail(call, (uint32_t)status, "the advice was not taken");
}

static tp_status add_hooks(tp_runtime *runtime, const char *advice, tp_capability capabilities, tp_fault *fault) {
  const tp_edge guard_first = {.struct_size = sizeof guard_first, .target = "guard"};
  const tp_edge *const after[] = {&guard_first};
  const tp_hook hooks[] = {
      {.struct_size = sizeof(tp_hook),
       .id = "guard",
       .phase = "tool.pre",
       .run = guard,
       .failure = TP_FAILURE_REQUIRED,
       .match =
           &(tp_match){.struct_size = sizeof(tp_match), .tools = (const char *const[]){"edit_*"}, .tool_count = 1}},
      {.struct_size = sizeof(tp_hook),
       .id = "adviser",
       .phase = "tool.pre",
       .run = adviser,
       .ctx = (void *)(uintptr_t)advice,
       .capabilities = capabilities,
       .failure = TP_FAILURE_BEST_EFFORT,
       .priority = -5,
       .after = after,
       .after_count = 1}};
  tp_status status = TP_OK;
  for (int i = 0; i < 2 && status == TP_OK; i++) status = tp_hook_add(runtime, &hooks[i], fault);
  return status;
}

/* ---- the test ---- */

static tp_trial trial;
static int failures;

static void begin(const char *name, const char *advice, tp_capability capabilities) {
  printf("%s\n", name);
  if (tp_trial_open(&trial, NULL) != TP_OK || add_hooks(trial.runtime, advice, capabilities, &trial.fault) != TP_OK)
    printf("  %s\n", trial.fault.message);
}

static void end(void) { tp_trial_close(&trial); }

static void run(const char *payload) {
  if (tp_trial_run(&trial, "tool.pre", payload) != TP_OK) printf("  %s\n", trial.fault.message);
}

static void expect(const char *line) {
  if (tp_trial_has(&trial, line)) return;
  failures++;
  printf("  no line `%s` in:\n%s", line, trial.report);
}

int main(void) {
  const tp_capability all = TP_CAPABILITY_DECIDE | TP_CAPABILITY_EMIT_REMINDER;

  begin("the verdict, and the order of the handlers", "look twice", all);
  run("{\"tool\": \"edit_file\", \"arguments\": {\"path\": \"notes.txt\"}}");
  printf("%s", trial.report);
  run("{\"tool\": \"edit_file\", \"arguments\": {\"path\": \"prod.yaml\"}}");
  expect("outcome: TP_ERR_DENIED, deny of guard: prod is edited by people");
  expect("run: guard succeeded, deny");
  end();

  begin("the match", "look twice", all);
  run("{\"tool\": \"read_file\", \"arguments\": {\"path\": \"prod.yaml\"}}");
  expect("run: guard skipped, match");
  end();

  begin("the capabilities: a reminder without its capability", "look twice", TP_CAPABILITY_DECIDE);
  run("{\"tool\": \"edit_file\"}");
  expect("run: adviser failed, capability");
  end();

  begin("the failure policy, and its diagnostic", NULL, all);
  run("{\"tool\": \"edit_file\"}");
  expect("outcome: TP_OK, allow");
  expect("diagnostic of adviser: error = failed: error: no advice today");
  end();

  begin("the descriptors", "look twice", all);
  if (tp_trial_plan(&trial, "tool.pre") == TP_OK) printf("%s", trial.report);
  end();

  begin("what is wrong with a payload", "look twice", all);
  run("{\"tool\": 7}");
  run("{\"toll\": \"edit_file\"}");
  run("{\"tool\": \"edit_file\"");
  end();
  return failures;
}
