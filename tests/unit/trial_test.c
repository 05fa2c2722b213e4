/* SPDX-License-Identifier: Apache-2.0
 *
 * The kit for tests of handlers: the report about each way in which a run can end, and which payloads are refused. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "turnphase/test/trial.h"

static tp_trial trial;

static int open_trial(void **state) {
  (void)state;
  return tp_trial_open(&trial, NULL) == TP_OK ? 0 : -1;
}

static int close_trial(void **state) {
  (void)state;
  tp_trial_close(&trial);
  return 0;
}

FOR_EACH_TEST(open_trial, close_trial);

static void add(const tp_hook *described) {
  tp_fault fault = {0};
  tp_hook own = *described;
  own.struct_size = sizeof own;
  if (tp_hook_add(trial.runtime, &own, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void run(const char *phase, const char *payload) {
  if (tp_trial_run(&trial, phase, payload) != TP_OK) fail_msg("%s: %s", phase, trial.fault.message);
}

static void assert_line(const char *line) {
  if (!tp_trial_has(&trial, line)) fail_msg("no line `%s` in:\n%s", line, trial.report);
}

/* ---- handlers ---- */

static tp_answer denies(void *ctx, tp_call *call) { return tp_call_deny(call, ctx); }

static tp_answer fails(void *ctx, tp_call *call) {
  return ctx ? tp_call_fail_retryable(call, 7, ctx) : tp_call_fail(call, 7, "broken");
}

static tp_answer waits(void *ctx, tp_call *call) {
  (void)ctx;
  while (!tp_call_cancelled(call)) sleep_ms(1);
  return TP_ANSWER_DONE;
}

static tp_answer reminds(void *ctx, tp_call *call) {
  return tp_call_emit_reminder(call, ctx, NULL) == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, 1, "not taken");
}

static tp_answer states_policy(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_emit_policy(call, "memory", "write", "no", 3, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_NONE;
}

static tp_answer names_caller(void *ctx, tp_call *call) {
  char text[128];
  (void)ctx;
  tp_text mode = tp_call_mode(call);
  snprintf(text, sizeof text, "%s, %.*s, %d", tp_caller_name(tp_call_caller(call)), (int)mode.size, mode.data,
           (int)tp_call_int(call, TP_FIELD_DURATION_MS));
  return reminds(text, call);
}

static tp_answer replaces_text(void *ctx, tp_call *call) {
  return tp_call_replace_text(call, TP_FIELD_TEXT, ctx, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_NONE;
}

static const tp_edge later = {.struct_size = sizeof later, .target = "second"};
static const tp_edge *const edges[] = {&later};

/* ---- reports ---- */

TEST(each_item_of_the_checklist_is_a_line_of_the_report) {
  static char reason[] = "not here", advice[] = "look\ntwice", again[] = "again", other[] = "hello";
  static const struct {
    tp_hook hook;
    const char *phase, *payload, *lines[4];
    tp_status outcome;
  } cases[] = {
      {{.run = denies, .ctx = reason},
       "tool.pre",
       "{\"tool\": \"a\"}",
       {"outcome: TP_ERR_DENIED, deny of h: not here", "run: h succeeded, deny"},
       TP_ERR_DENIED},
      {{.run = denies, .ctx = reason}, /* an alias is a name of the phase */
       "PreAbilityCall",
       NULL,
       {"outcome: TP_ERR_DENIED, deny of h: not here"},
       TP_ERR_DENIED},
      {{.run = fails, .failure = TP_FAILURE_BEST_EFFORT},
       "tool.pre",
       NULL,
       {"run: h failed, error", "diagnostic of h: error = failed: error: broken"},
       TP_OK},
      {{.run = fails, .failure = TP_FAILURE_REQUIRED},
       "turn.pre_prompt_context",
       NULL,
       {"run: h failed, error"},
       TP_ERR_HOOK},
      {{.run = fails, .ctx = again, .attempts = 3, .failure = TP_FAILURE_BEST_EFFORT},
       "turn.pre_prompt_context",
       NULL,
       {"run: h failed, error, 3 attempts"},
       TP_OK},
      {{.run = waits, .limit_ms = 20, .failure = TP_FAILURE_BEST_EFFORT},
       "turn.pre_prompt_context",
       NULL,
       {"run: h timed_out, timeout"},
       TP_OK},
      {{.run = reminds, .ctx = advice}, "tool.post", NULL, {"outcome: TP_OK", "reminder of h: look\\ntwice"}, TP_OK},
      {{.run = reminds, .ctx = advice, .capabilities = TP_CAPABILITY_EMIT_SIGNAL, .failure = TP_FAILURE_BEST_EFFORT},
       "tool.post",
       NULL,
       {"run: h failed, capability"},
       TP_OK},
      {{.run = states_policy}, "turn.pre_policy", NULL, {"policy of h: memory/write = no, weight 3"}, TP_OK},
      {{.run = names_caller},
       "tool.post",
       "{\"tool\": \"a\", \"duration_ms\": 250}",
       {"reminder of h: ci_pipeline, careful, 250"},
       TP_OK},
      {{.run = replaces_text, .ctx = other}, "turn.intake", "{\"text\": \"hi\"}", {"field text: hello"}, TP_OK},
      {{.run = reminds, .ctx = advice, .phase = "turn.pre_prompt_context"},
       "tool.post",
       NULL,
       {"outcome: TP_OK"},
       TP_OK},
  };
  trial.request.mode = "careful";
  trial.request.caller = TP_CALLER_CI_PIPELINE;
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_hook described = cases[i].hook;
    described.id = "h";
    if (!described.phase) described.phase = cases[i].phase;
    add(&described);
    run(cases[i].phase, cases[i].payload);
    if (trial.outcome != cases[i].outcome) fail_msg("%zu: %s\n%s", i, tp_status_name(trial.outcome), trial.report);
    for (size_t j = 0; j < 4 && cases[i].lines[j]; j++) assert_line(cases[i].lines[j]);
    assert_int_equal(tp_hook_remove(trial.runtime, "h", NULL), TP_OK);
  }
}

TEST(order_and_descriptor_are_read_from_report_and_plan) {
  static char reason[] = "not here";
  static char plan[sizeof trial.report];
  add(&(tp_hook){.id = "first", .phase = "tool.pre", .run = denies, .ctx = reason, .priority = 9});
  add(&(tp_hook){.id = "second",
                 .phase = "tool.pre",
                 .run = fails,
                 .failure = TP_FAILURE_BEST_EFFORT,
                 .limit_ms = 70,
                 .priority = 10});
  run("tool.pre", NULL);
  assert_int_equal(trial.verdict, TP_VERDICT_DENY);
  assert_non_null(strstr(trial.report, "run: first succeeded, deny\nrun: second skipped, "));
  assert_int_equal(tp_hook_remove(trial.runtime, "first", NULL), TP_OK);
  add(&(tp_hook){.id = "first",
                 .phase = "tool.pre",
                 .run = denies,
                 .ctx = reason,
                 .priority = 9,
                 .after = edges,
                 .after_count = 1});
  run("tool.pre", NULL);
  assert_non_null(strstr(trial.report, "run: second failed, error\nrun: first succeeded, deny\n"));
  assert_int_equal(tp_trial_plan(&trial, "tool.pre"), TP_OK);
  snprintf(plan, sizeof plan, "%s", trial.report);
  assert_non_null(strstr(plan, "70 ms"));
  assert_null(strstr(plan, "hash"));
  assert_int_equal(tp_hook_remove(trial.runtime, "first", NULL), TP_OK);
  assert_int_equal(tp_hook_remove(trial.runtime, "second", NULL), TP_OK);
  add(&(tp_hook){.id = "second",
                 .phase = "tool.pre",
                 .run = fails,
                 .failure = TP_FAILURE_BEST_EFFORT,
                 .limit_ms = 70,
                 .priority = 10});
  add(&(tp_hook){.id = "first",
                 .phase = "tool.pre",
                 .run = denies,
                 .ctx = reason,
                 .priority = 9,
                 .after = edges,
                 .after_count = 1});
  assert_int_equal(tp_trial_plan(&trial, "tool.pre"), TP_OK);
  assert_string_equal(trial.report, plan);
  assert_int_not_equal(tp_trial_plan(&trial, "no.phase"), TP_OK);
}

TEST(payload_that_is_wrong_is_refused_by_name) {
  static const struct {
    const char *phase, *payload, *message;
    tp_status status;
  } cases[] = {
      {"tool.before", "{}", "there is no phase `tool.before`", TP_ERR_UNKNOWN_PHASE},
      {NULL, "{}", "there is no phase ``", TP_ERR_UNKNOWN_PHASE},
      {"tool.pre", "", "", TP_ERR_MALFORMED},
      {"tool.pre", "{\"tool\": ", "", TP_ERR_MALFORMED},
      {"tool.pre", "[]", "payload: it is no JSON object", TP_ERR_USAGE},
      {"tool.pre", "7", "payload: it is no JSON object", TP_ERR_USAGE},
      {"tool.pre", "{\"toll\": \"a\"}", "payload: there is no field `toll`", TP_ERR_USAGE},
      {"tool.pre", "{\"\": \"a\"}", "payload: there is no field ``", TP_ERR_USAGE},
      {"tool.pre", "{\"tool\": 7}", "payload: `tool` is a text", TP_ERR_USAGE},
      {"tool.pre", "{\"tool\": null}", "payload: `tool` is a text", TP_ERR_USAGE},
      {"tool.post", "{\"duration_ms\": \"7\"}", "payload: `duration_ms` is an integer", TP_ERR_USAGE},
      {"tool.post", "{\"duration_ms\": 7.5}", "payload: `duration_ms` is an integer", TP_ERR_USAGE},
      {"tool.pre", "{\"duration_ms\": 7}", "", TP_ERR_USAGE}, /* a field of another phase */
  };
  add(&(tp_hook){.id = "h", .phase = "tool.pre", .run = fails});
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_status status = tp_trial_run(&trial, cases[i].phase, cases[i].payload);
    if (status != cases[i].status || trial.fault.code != status)
      fail_msg("%zu: %s, %s", i, tp_status_name(status), trial.fault.message);
    if (cases[i].message[0]) assert_string_equal(trial.fault.message, cases[i].message);
    assert_true(trial.fault.message[0] != '\0');
    assert_string_equal(trial.report, "");
  }
  run("tool.pre", NULL); /* and what it says is gone */
  assert_string_equal(trial.fault.message, "");
}

static tp_answer signals_much(void *ctx, tp_call *call) {
  bool is_taken = true;
  for (int i = 0; i < 12; i++) {
    char code[64];
    snprintf(code, sizeof code, "%p.%d", ctx, i);
    is_taken &= tp_call_emit_signal(call, "routing_hint", code, TP_SEVERITY_INFO, ctx, NULL) == TP_OK;
  }
  return is_taken ? TP_ANSWER_DONE : tp_call_fail(call, 1, "not taken");
}

TEST(report_that_does_not_fit_ends_with_dots) {
  enum { HANDLERS = 24 };
  static char texts[HANDLERS][1000], ids[HANDLERS][8];
  for (int i = 0; i < HANDLERS; i++) {
    snprintf(ids[i], sizeof ids[i], "h%d", i);
    memset(texts[i], 'x', sizeof texts[i] - 1);
    add(&(tp_hook){.id = ids[i], .phase = "turn.intake", .run = signals_much, .ctx = texts[i]});
  }
  run("turn.intake", NULL);
  assert_true(strlen(trial.report) < sizeof trial.report);
  assert_line("...");
  assert_string_equal(trial.report + strlen(trial.report) - 5, "\n...\n");
  for (int i = 1; i < HANDLERS; i++) assert_int_equal(tp_hook_remove(trial.runtime, ids[i], NULL), TP_OK);
  run("turn.intake", NULL); /* and one that fits is whole again */
  assert_false(tp_trial_has(&trial, "..."));
}
