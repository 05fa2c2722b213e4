/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer is an integer, and 0 is no answer: the value that a binding returns for a callback that raised an error
 * must fail, for a handler, a tool and a match. */
#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, GUARDED = TP_PHASE_TOOL_PRE };

static const tp_answer no_answers[] = {TP_ANSWER_NONE,         -1,        TP_ANSWER_DEFERRED,
                                       TP_ANSWER_DEFERRED + 1, INT32_MAX, INT32_MIN};

static tp_answer return_it(void *ctx, tp_call *call) {
  (void)call;
  return *(const tp_answer *)ctx;
}

TEST(required_guard_without_an_answer_denies) {
  for (size_t i = 0; i < COUNT(no_answers); i++) {
    for (int slow = 0; slow < 2; slow++) {
      tp_runtime *runtime = open_runtime(NULL);
      add_hooks(runtime,
                &(hook){.id = "guard",
                        .phase = GUARDED,
                        .run = return_it,
                        .ctx = (void *)(uintptr_t)&no_answers[i],
                        .slow = slow,
                        .sub = {.failure = TP_FAILURE_REQUIRED}},
                1);
      tp_turn *turn = begin_bare(runtime, 0);
      tp_phase_result result = run_phase(turn, GUARDED, NULL);
      assert_int_equal(result.outcome, TP_ERR_DENIED);
      assert_int_equal(result.verdict, TP_VERDICT_DENY);
      assert_run(&result, "guard", TP_STATE_FAILED, TP_REASON_MALFORMED);
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

static tp_answer deny_and_return_nothing(void *ctx, tp_call *call) {
  (void)ctx;
  (void)tp_call_deny(call, "kept, but not returned");
  return TP_ANSWER_NONE;
}

static tp_answer deny_bare(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_DENY;
}

static tp_answer fail_then_deny(void *ctx, tp_call *call) {
  (void)ctx;
  (void)tp_call_fail(call, 7, "the reason of a failure");
  return TP_ANSWER_DENY;
}

/* The returned kind counts. A stored reason is used only with an answer of its own kind. */
TEST(reason_goes_with_the_answer_that_it_was_kept_for) {
  static const struct {
    tp_handler_fn run;
    tp_state state;
    tp_verdict verdict;
  } cases[] = {{deny_and_return_nothing, TP_STATE_FAILED, TP_VERDICT_NONE},
               {deny_bare, TP_STATE_SUCCEEDED, TP_VERDICT_DENY},
               {fail_then_deny, TP_STATE_SUCCEEDED, TP_VERDICT_DENY}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    for (int slow = 0; slow < 2; slow++) {
      tp_runtime *runtime = open_runtime(NULL);
      act denies = {.kind = TP_ANSWER_ASK, .reason = "of the one before"};
      hook hooks[] = {
          {.id = "1", .phase = GUARDED, .ctx = &denies, .slow = slow},
          {.id = "2", .phase = GUARDED, .run = cases[i].run, .slow = slow, .sub = {.failure = TP_FAILURE_BEST_EFFORT}}};
      add_hooks(runtime, hooks, 2);
      tp_turn *turn = begin_bare(runtime, 0);
      tp_phase_result result = run_phase(turn, GUARDED, NULL);
      tp_run_record run = run_of(&result, "2");
      assert_int_equal(run.state, cases[i].state);
      assert_int_equal(run.verdict, cases[i].verdict);
      assert_int_equal(run.code, 0);
      if (cases[i].verdict == TP_VERDICT_DENY) assert_text(result.reason, "");
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

/* ---- match ---- */

static int32_t match_it(void *ctx, const tp_match_view *view) {
  (void)view;
  return *(const int32_t *)ctx;
}

static tp_phase_result run_matched(tp_runtime *runtime, tp_turn **ret_turn, int32_t answer, tp_failure failure,
                                   act *guard) {
  static int32_t returned;
  returned = answer;
  hook h = {.id = "guard", .phase = GUARDED, .ctx = guard, .sub = {.failure = failure}};
  h.sub.match = &(tp_match){
      .struct_size = sizeof(tp_match), .matches = match_it, .ctx = &returned, .description = "as the test says"};
  if (failure == TP_FAILURE_FALLBACK) h.sub.fallback_verdict = TP_VERDICT_DENY;
  add_hooks(runtime, &h, 1);
  *ret_turn = begin_bare(runtime, 0);
  return run_phase(*ret_turn, GUARDED, NULL);
}

TEST(match_without_an_answer_fails_as_its_handler_would_have) {
  static const int32_t answers[] = {TP_MATCH_NONE, 3, -1, INT32_MIN};
  static const struct {
    tp_failure failure;
    tp_status outcome;
  } policies[] = {
      {TP_FAILURE_REQUIRED, TP_ERR_DENIED}, {TP_FAILURE_BEST_EFFORT, TP_OK}, {TP_FAILURE_FALLBACK, TP_ERR_DENIED}};
  for (size_t i = 0; i < COUNT(answers); i++) {
    for (size_t p = 0; p < COUNT(policies); p++) {
      tp_runtime *runtime = open_runtime(NULL);
      act guard = {0};
      tp_turn *turn;
      tp_phase_result result = run_matched(runtime, &turn, answers[i], policies[p].failure, &guard);
      assert_int_equal(result.outcome, policies[p].outcome);
      assert_run(&result, "guard", TP_STATE_FAILED, TP_REASON_MALFORMED);
      assert_int_equal(guard.calls, 0);
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

TEST(match_that_answers_decides_whether_the_handler_is_called) {
  static const int32_t answers[] = {TP_MATCH_YES, TP_MATCH_NO};
  for (size_t i = 0; i < COUNT(answers); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    act guard = {0};
    tp_turn *turn;
    tp_phase_result result = run_matched(runtime, &turn, answers[i], TP_FAILURE_REQUIRED, &guard);
    assert_int_equal(result.outcome, TP_OK);
    assert_int_equal(guard.calls, answers[i] == TP_MATCH_YES ? 1 : 0);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- tools ---- */

static tp_answer tool_returns(void *ctx, tp_tool_run *run) {
  (void)tp_tool_ok(run, tp_text_of("said, but not returned"));
  return *(const tp_answer *)ctx;
}

TEST(tool_without_an_answer_is_an_error) {
  static const tp_answer answers[] = {TP_ANSWER_NONE, -1,        TP_ANSWER_ALLOW, TP_ANSWER_DENY,
                                      TP_ANSWER_ASK,  INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < COUNT(answers); i++) {
    for (int slow = 0; slow < 2; slow++) {
      tp_runtime *runtime = open_runtime(NULL);
      tp_tool tool = {.struct_size = sizeof tool,
                      .name = "t",
                      .run = tool_returns,
                      .ctx = (void *)(uintptr_t)&answers[i],
                      .placement = slow ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE};
      const tp_tool *list[] = {&tool};
      tp_contribution bundle = {.struct_size = sizeof(tp_contribution),
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = list,
                                .tool_count = 1};
      act contributes = {.emits = &bundle, .emit_count = 1};
      add_hooks(runtime, &(hook){.id = "b", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes}, 1);
      tp_turn *turn = begin_bare(runtime, 0);
      (void)run_phase(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL);
      tp_tool_call call = {.name = TEXT("t"), .arguments = TEXT("\x80")};
      tp_tool_result result;
      assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
      assert_string_equal(tp_tool_result_name(result.kind), "handler_error");
      assert_text(result.text, "the tool gave no answer");
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

/* ---- tokens ---- */

static void note_end(void *ctx, const tp_phase_result *result) {
  (void)result;
  latch_hit(ctx);
}

TEST(completion_that_is_no_answer_leaves_the_token_open) {
  static const tp_answer kinds[] = {TP_ANSWER_NONE, TP_ANSWER_DEFERRED, -1, INT32_MAX};
  tp_runtime *runtime = open_runtime(NULL);
  latch deferred = LATCH;
  act later = {.defers = true, .deferred = &deferred};
  add_hooks(runtime, &(hook){.id = "later", .phase = GATHER, .ctx = &later}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(tp_phase_submit(turn, GATHER, NULL, note_end, &deferred, NULL), TP_OK);
  latch_wait(&deferred, 1);
  for (size_t i = 0; i < COUNT(kinds); i++) {
    tp_outcome wrong = {.struct_size = sizeof wrong, .kind = kinds[i]};
    assert_int_equal(tp_token_complete(later.token, &wrong, NULL), TP_ERR_USAGE);
  }
  tp_outcome nothing = {.struct_size = sizeof nothing, .kind = TP_ANSWER_DONE, .contribution_count = 1};
  assert_int_equal(tp_token_complete(later.token, &nothing, NULL), TP_ERR_USAGE);
  tp_outcome sizeless = {.kind = TP_ANSWER_DONE};
  assert_int_equal(tp_token_complete(later.token, &sizeless, NULL), TP_ERR_VERSION);
  assert_int_equal(tp_token_complete(later.token, NULL, NULL), TP_ERR_USAGE);
  tp_outcome right = {.struct_size = sizeof right, .kind = TP_ANSWER_DONE};
  assert_int_equal(tp_token_complete(later.token, &right, NULL), TP_OK);
  latch_wait(&deferred, 2);
  tp_turn_end(turn);
  close_runtime(runtime);
}
