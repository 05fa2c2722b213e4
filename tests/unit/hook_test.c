/* SPDX-License-Identifier: Apache-2.0
 *
 * tp_hook_add(): one call makes a guard that denies, whatever its function does. The guard is the one of
 * examples/embed.c, which is compiled in; only its function is replaced. */

int embed_main(void);
#define main embed_main
#include "tests/support/test.h"
#include "examples/embed.c"
#undef main

#include "tests/support/host.h"
#include "turnphase/inspect.h"

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
       TP_ERR_BAD_FALLBACK,
       "no contributions and no verdict"},
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

/* ---- what a subscription has, a hook has ---- */

static tp_answer fails_again(void *ctx, tp_call *call) {
  ++*(int *)ctx;
  return tp_call_fail_retryable(call, 1, "not yet");
}

TEST(hook_is_tried_again_and_then_falls_back) {
  tp_runtime *runtime = open_runtime(NULL);
  int calls = 0;
  tp_hook one = {.struct_size = sizeof one,
                 .id = "retried",
                 .phase = "turn.intake",
                 .run = fails_again,
                 .ctx = &calls,
                 .attempts = 3,
                 .backoff = TP_BACKOFF_FIXED,
                 .backoff_ms = 1,
                 .failure = TP_FAILURE_FALLBACK,
                 .fallback_verdict = TP_VERDICT_DENY};
  assert_int_equal(tp_hook_add(runtime, &one, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "hi");
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(calls, 3);
  assert_true(run_of(&result, "retried").fallback_used);
  tp_turn_end(turn);
  close_runtime(runtime);
}

static tp_answer note_order(void *ctx, tp_call *call) {
  char *order = ctx;
  strcat(order, tp_call_subscription(call));
  return TP_ANSWER_DONE;
}

/* Each hook is added after the hooks before which it must run; the line of sequential hooks would forbid that. */
TEST(hooks_say_their_place_by_edges_and_priority) {
  const tp_edge to_a = {.struct_size = sizeof to_a, .target = "a"};
  const tp_edge *const edges[] = {&to_a};
  const tp_edge to_none = {.struct_size = sizeof to_none, .target = "none", .optional = true};
  const tp_edge *const optional[] = {&to_none};
  static const char *const wants[] = {"ab", "ba", "ba", "ab", "ab", "ba"};
  for (int i = 0; i < 6; i++) {
    tp_runtime *runtime = open_runtime(NULL);
    char order[16] = "";
    tp_hook a = {.struct_size = sizeof a,
                 .id = "a",
                 .phase = "turn.pre_prompt_context",
                 .run = note_order,
                 .ctx = order,
                 .placement = TP_PLACEMENT_INLINE};
    tp_hook b = a;
    b.id = "b";
    if (i == 1) b.before = edges, b.before_count = 1;
    if (i == 2) a.priority = 9, b.priority = -1;
    if (i == 3) b.after = edges, b.after_count = 1;
    if (i == 4) b.needs = edges, b.needs_count = 1;
    if (i == 5) a.priority = 2, b.before = optional, b.before_count = 1;
    tp_fault fault = {0};
    if (tp_hook_add(runtime, &a, &fault) != TP_OK || tp_hook_add(runtime, &b, &fault) != TP_OK)
      fail_msg("%d: %s", i, fault.message);
    tp_turn *turn = begin_bare(runtime, 0);
    run_phase(turn, TP_PHASE_TURN_PRE_PROMPT_CONTEXT, NULL);
    tp_turn_end(turn);
    if (strcmp(order, wants[i]) != 0) fail_msg("%d: %s", i, order);
    close_runtime(runtime);
  }
}

static bool check_shown(void *ctx, const tp_subscription_info *info) {
  *(bool *)ctx = true;
  assert_int_equal(info->execution, TP_EXECUTION_FIRE_AND_RECORD);
  assert_int_equal(info->failure, TP_FAILURE_BEST_EFFORT);
  assert_int_equal(info->limit_ms, 30000);
  assert_int_equal(info->visibility, TP_VISIBILITY_USER_VISIBLE);
  assert_int_equal(info->max_concurrent, 2);
  assert_string_equal(info->metadata, "any text");
  assert_string_equal(info->origin_file, "hooks.py");
  assert_int_equal(info->origin_line, 12);
  return true;
}

TEST(hook_may_be_detached_and_is_shown_as_it_was_given) {
  tp_runtime_options options = {.struct_size = sizeof options, .hook_limit_ms = 7, .hook_failure = TP_FAILURE_REQUIRED};
  tp_runtime *runtime = open_runtime(&options);
  tp_hook one = {.struct_size = sizeof one,
                 .id = "detached",
                 .phase = "turn.intake",
                 .run = allows,
                 .execution = TP_EXECUTION_FIRE_AND_RECORD,
                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                 .max_concurrent = 2,
                 .summary = "one line",
                 .metadata = "any text",
                 .origin_file = "hooks.py",
                 .origin_line = 12,
                 .kind = TP_HANDLER_SCRIPT};
  tp_fault fault = {0};
  if (tp_hook_add(runtime, &one, &fault) != TP_OK) fail_msg("%s", fault.message); /* nothing detached is required */
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "hi");
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(run_of(&result, "detached").state, TP_STATE_BACKGROUNDED);
  tp_turn_end(turn);
  bool seen = false;
  assert_int_equal(tp_runtime_subscriptions(runtime, NULL, check_shown, &seen, NULL), TP_OK);
  assert_true(seen);
  close_runtime(runtime);
}

TEST(hook_enters_a_privileged_phase_and_rewrites_by_its_grants) {
  static const struct {
    const char *phase;
    tp_grant grants;
    tp_status want;
  } cases[] = {{"tool.rewrite", 0, TP_ERR_PRIVILEGED},
               {"tool.rewrite", TP_GRANT_REWRITE, TP_OK},
               {"tool.rewrite", TP_GRANT_PRIVILEGED_HOOKS, TP_ERR_PRIVILEGED},
               {"model.response", 0, TP_ERR_PRIVILEGED},
               {"model.response", TP_GRANT_REWRITE, TP_ERR_PRIVILEGED},
               {"model.response", TP_GRANT_PRIVILEGED_HOOKS, TP_OK},
               {"tool.pre", TP_GRANT_REWRITE, TP_OK},
               {"tool.pre", 1u << 31, TP_ERR_USAGE}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    tp_fault fault = {0};
    tp_hook one = {.struct_size = sizeof one, .phase = cases[i].phase, .run = fails, .grants = cases[i].grants};
    tp_status status = tp_hook_add(runtime, &one, &fault);
    if (status != cases[i].want) fail_msg("%zu: %s: %s", i, tp_status_name(status), fault.message);
    close_runtime(runtime);
  }
}

static tp_answer contributes(void *ctx, tp_call *call) {
  *(tp_status *)ctx = tp_call_emit_prompt_context(call, "k", "text", 0, NULL);
  return TP_ANSWER_DONE;
}

TEST(hook_that_declares_capabilities_has_no_others) {
  static const struct {
    tp_capability capabilities;
    tp_status want;
  } cases[] = {{0, TP_OK},
               {TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT, TP_OK},
               {TP_CAPABILITY_EMIT_AUDIT, TP_ERR_CAPABILITY},
               {TP_CAPABILITY_EMIT_SIGNAL, TP_ERR_CAPABILITY}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    tp_status emitted = TP_ERR_INTERNAL;
    tp_hook one = {.struct_size = sizeof one,
                   .phase = "turn.pre_prompt_context",
                   .run = contributes,
                   .ctx = &emitted,
                   .capabilities = cases[i].capabilities};
    assert_int_equal(tp_hook_add(runtime, &one, NULL), TP_OK);
    tp_turn *turn = begin_bare(runtime, 0);
    run_phase(turn, TP_PHASE_TURN_PRE_PROMPT_CONTEXT, NULL);
    tp_turn_end(turn);
    assert_int_equal(emitted, cases[i].want);
    close_runtime(runtime);
  }
}

static tp_answer runs_tool(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("ran"));
}

static int32_t always(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_YES;
}

/* The host's objects of a hook: itself, its match, the tools of its fallback. */
TEST(refused_hook_takes_nothing_and_a_removed_one_gives_all_back) {
  for (int refused = 0; refused < 2; refused++) {
    tp_runtime *runtime = open_runtime(NULL);
    int self = 0, match_ends = 0, tool_ends = 0;
    tp_match match = {.struct_size = sizeof match,
                      .matches = always,
                      .destroy = count_destroy,
                      .ctx = &match_ends,
                      .description = "always"};
    tp_tool tool = {
        .struct_size = sizeof tool, .name = "t", .run = runs_tool, .ctx = &tool_ends, .destroy = count_destroy};
    const tp_tool *const tools[] = {&tool};
    tp_contribution bundle = {.struct_size = sizeof bundle,
                              .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                              .key = TEXT("b"),
                              .tools = tools,
                              .tool_count = 1};
    const tp_contribution *const fallback[] = {&bundle};
    const tp_edge missing = {.struct_size = sizeof missing, .target = "nothing"};
    const tp_edge *const edges[] = {&missing};
    tp_hook one = {.struct_size = sizeof one,
                   .id = "h",
                   .phase = "turn.pre_tool_materialization",
                   .run = allows,
                   .ctx = &self,
                   .destroy = count_destroy,
                   .failure = TP_FAILURE_FALLBACK,
                   .fallback = fallback,
                   .fallback_count = 1,
                   .match = &match,
                   .after = edges,
                   .after_count = refused};
    tp_status status = tp_hook_add(runtime, &one, NULL);
    assert_string_equal(tp_status_name(status), tp_status_name(refused ? TP_ERR_MISSING_DEPENDENCY : TP_OK));
    assert_int_equal(self + match_ends + tool_ends, 0);
    if (!refused) assert_int_equal(tp_hook_remove(runtime, "h", NULL), TP_OK);
    assert_int_equal(self + match_ends + tool_ends, refused ? 0 : 3);
    assert_int_equal(tp_hook_remove(runtime, "h", NULL), TP_ERR_NOT_FOUND);
    close_runtime(runtime);
    assert_int_equal(self + match_ends + tool_ends, refused ? 0 : 3);
  }
}
