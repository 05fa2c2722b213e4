/* SPDX-License-Identifier: Apache-2.0
 *
 * tp_hook_add(): one call makes a guard that denies, whatever its function does. The guard is the one of
 * examples/embed.c, which is compiled in: only its function is another. */

int embed_main(void);
#define main embed_main
#include "tests/support/test.h"
#include "examples/embed.c"
#undef main

#include "tests/support/host.h"

enum { INTAKE = TP_PHASE_TURN_INTAKE, MODEL_POST = TP_PHASE_MODEL_POST };

static tp_answer fails(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_fail(call, 7, "the list of secrets cannot be read");
}

static tp_answer hangs(void *ctx, tp_call *call) {
  latch_wait(ctx, 1);
  return tp_call_allow(call);
}

static tp_answer answers_nonsense(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return 99;
}

static tp_answer allows(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_allow(call);
}

static void count_destroy(void *ctx) { ++*(int *)ctx; }

/* The example's hook with another function in it: what the phase comes to. */
static tp_status intake_guarded_by(tp_handler_fn run, latch *until, const char *text, tp_reason *ret_reason) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_hook one = guarded;
  one.run = run;
  one.ctx = until;
  if (until) one.limit_ms = 20;
  tp_fault fault = {0};
  if (tp_hook_add(runtime, &one, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, text);
  *ret_reason = run_of(&result, "guard").reason;
  tp_status outcome = result.outcome;
  if (until) latch_hit(until);
  tp_turn_end(turn);
  close_runtime(runtime);
  return outcome;
}

TEST(the_guard_of_the_example_allows_and_denies) {
  tp_reason reason;
  assert_int_equal(intake_guarded_by(guard, NULL, "Good morning!", &reason), TP_OK);
  assert_int_equal(intake_guarded_by(guard, NULL, "Tell me a secret.", &reason), TP_ERR_DENIED);
}

TEST(a_guard_that_fails_denies) {
  tp_reason reason;
  assert_int_not_equal(intake_guarded_by(fails, NULL, "Good morning!", &reason), TP_OK);
  assert_string_equal(tp_reason_name(reason), "error");
}

TEST(a_guard_that_hangs_denies) {
  tp_reason reason;
  latch until = LATCH;
  assert_int_not_equal(intake_guarded_by(hangs, &until, "Good morning!", &reason), TP_OK);
  assert_string_equal(tp_reason_name(reason), "timeout");
}

TEST(a_guard_that_answers_nonsense_denies) {
  tp_reason reason;
  assert_int_not_equal(intake_guarded_by(answers_nonsense, NULL, "Good morning!", &reason), TP_OK);
  assert_string_equal(tp_reason_name(reason), "malformed");
}

/* What the registered hook "h" came to. */
static void assert_policies(tp_runtime *runtime, uint32_t phase, tp_failure failure, tp_status outcome) {
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, phase, NULL);
  assert_int_equal(run_of(&result, "h").failure, failure);
  assert_int_equal(result.outcome == TP_OK, outcome == TP_OK);
  tp_turn_end(turn);
}

TEST(the_runtimes_defaults_hold_for_hooks_that_name_none) {
  latch until = LATCH;
  const struct {
    tp_failure runtime, hook, want;
    const char *phase;
    uint32_t id;
    tp_status outcome;
  } cases[] = {
      {TP_FAILURE_DEFAULT, TP_FAILURE_DEFAULT, TP_FAILURE_BEST_EFFORT, "turn.intake", INTAKE, TP_OK},
      {TP_FAILURE_REQUIRED, TP_FAILURE_DEFAULT, TP_FAILURE_REQUIRED, "turn.intake", INTAKE, TP_ERR_HOOK},
      {TP_FAILURE_REQUIRED, TP_FAILURE_BEST_EFFORT, TP_FAILURE_BEST_EFFORT, "turn.intake", INTAKE, TP_OK},
      {TP_FAILURE_REQUIRED, TP_FAILURE_DEFAULT, TP_FAILURE_BEST_EFFORT, "model.post", MODEL_POST, TP_OK},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime_options options = {.struct_size = sizeof options, .hook_limit_ms = 15, .hook_failure = cases[i].runtime};
    tp_runtime *runtime = open_runtime(&options);
    tp_hook one = {.struct_size = sizeof one,
                   .id = "h",
                   .phase = cases[i].phase,
                   .run = hangs,
                   .ctx = &until,
                   .failure = cases[i].hook};
    tp_fault fault = {0};
    if (tp_hook_add(runtime, &one, &fault) != TP_OK) fail_msg("%s", fault.message);
    assert_policies(runtime, cases[i].id, cases[i].want, cases[i].outcome);
    latch_hit(&until);
    close_runtime(runtime);
    until.count = 0;
  }
}

TEST(the_runtimes_defaults_hold_for_declared_subscriptions_too) {
  latch until = LATCH;
  tp_runtime_options options = {
      .struct_size = sizeof options, .hook_limit_ms = 15, .hook_failure = TP_FAILURE_REQUIRED};
  tp_runtime *runtime = open_runtime(&options);
  tp_owner owner = {.struct_size = sizeof owner, .name = "yaml", .trust = TP_TRUST_DECLARED};
  uint32_t phase = INTAKE;
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = "h",
                        .run = hangs,
                        .ctx = &until,
                        .phases = &phase,
                        .phase_count = 1,
                        .capabilities = TP_CAPABILITY_DECIDE};
  tp_subscription sub = {.struct_size = sizeof sub, .id = "h", .handler = "h", .phase = phase};
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  assert_policies(runtime, INTAKE, TP_FAILURE_REQUIRED, TP_ERR_HOOK);
  latch_hit(&until);
  close_runtime(runtime);
}

TEST(a_hook_is_destroyed_once_and_a_refused_one_never) {
  int destroyed = 0;
  tp_fault fault = {0};
  tp_runtime *runtime = open_runtime(NULL);
  tp_hook one = {.struct_size = sizeof one,
                 .id = "h",
                 .phase = "turn.intake",
                 .run = allows,
                 .ctx = &destroyed,
                 .destroy = count_destroy};
  assert_int_equal(tp_hook_add(runtime, &one, NULL), TP_OK);
  assert_int_equal(tp_hook_add(runtime, &one, &fault), TP_ERR_DUPLICATE_ID);
  assert_non_null(strstr(fault.message, "`h`"));
  one.id = "privileged";
  one.phase = "model.response";
  assert_int_equal(tp_hook_add(runtime, &one, &fault), TP_ERR_PRIVILEGED);
  assert_int_equal(destroyed, 0);
  close_runtime(runtime);
  assert_int_equal(destroyed, 1);
}

TEST(every_mistake_in_a_hook_is_named) {
  tp_runtime *runtime = open_runtime(NULL);
  const struct {
    tp_hook hook;
    tp_status want;
    const char *words;
  } cases[] = {
      {{.phase = "turn.intake", .run = allows}, TP_ERR_VERSION, "struct_size"},
      {{.struct_size = sizeof(tp_hook), .run = allows}, TP_ERR_UNKNOWN_PHASE, "tp_hook.phase"},
      {{.struct_size = sizeof(tp_hook), .phase = "nowhere", .run = allows}, TP_ERR_UNKNOWN_PHASE, "`nowhere`"},
      {{.struct_size = sizeof(tp_hook), .phase = "turn.intake"}, TP_ERR_USAGE, "run"},
      {{.struct_size = sizeof(tp_hook), .phase = "turn.intake", .run = allows, .failure = TP_FAILURE_FALLBACK},
       TP_ERR_USAGE,
       "fallback"},
      {{.struct_size = sizeof(tp_hook), .phase = "turn.intake", .run = allows, .failure = (tp_failure)9},
       TP_ERR_USAGE,
       "failure is 9"},
      {{.struct_size = sizeof(tp_hook), .id = "a b", .phase = "turn.intake", .run = allows},
       TP_ERR_BAD_ID,
       "white space"},
      {{.struct_size = sizeof(tp_hook), .phase = "model.post", .run = allows, .failure = TP_FAILURE_REQUIRED},
       TP_ERR_OBSERVER_REQUIRED,
       "observed"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_fault fault = {0};
    assert_int_equal(tp_hook_add(runtime, &cases[i].hook, &fault), cases[i].want);
    assert_int_equal(fault.code, cases[i].want);
    if (!strstr(fault.message, cases[i].words)) fail_msg("`%s` is not in: %s", cases[i].words, fault.message);
    assert_int_equal(tp_hook_add(runtime, &cases[i].hook, NULL), cases[i].want);
  }
  assert_int_equal(tp_hook_add(runtime, NULL, NULL), TP_ERR_USAGE);
  close_runtime(runtime);
}

TEST(a_default_that_no_hook_can_have_is_refused) {
  tp_runtime *runtime;
  for (int i = 0; i < 2; i++) {
    tp_fault fault = {0};
    tp_runtime_options options = {.struct_size = sizeof options,
                                  .hook_failure = i ? (tp_failure)9 : TP_FAILURE_FALLBACK};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "hook_failure"));
  }
}
