/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases on a bare turn: rows, outcome and merged result of an entry for everything that handlers can do and that can
 * happen to them. Deadlines are in deadline_test.c, tokens in token_test.c, dependents in dependents_test.c,
 * combinations of policies and causes in policies_test.c. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, INTAKE = TP_PHASE_TURN_INTAKE, TOOL_PRE = TP_PHASE_TOOL_PRE };

static const tp_contribution context_a = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                          .key = TEXT("a"),
                                          .text = TEXT("text of a")};
static const tp_contribution context_b = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                          .key = TEXT("b"),
                                          .text = TEXT("text of b")};

/* ---- nothing subscribed ---- */

static bool count_record(void *ctx, const tp_entry_record *record) {
  (void)record;
  ++*(int *)ctx;
  return true;
}

TEST(phase_without_subscriptions_gives_a_zero_result_and_writes_nothing) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "hello");
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(result.verdict, TP_VERDICT_NONE);
  assert_int_equal(result.run_count, 0);
  assert_null(result.merged);
  assert_null(result.entry);
  int records = 0;
  assert_int_equal(read_records(runtime, 10, count_record, &records), TP_OK);
  assert_int_equal(records, 0);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(unknown_phase_is_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault = {0};
  assert_int_equal(tp_phase_run(turn, 60, NULL, &result, &fault), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp_phase_run(turn, 0, NULL, &result, &fault), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp_phase_run(turn, 4000000000u, NULL, &result, &fault), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp_phase_submit(turn, 60, NULL, NULL, NULL, &fault), TP_ERR_UNKNOWN_PHASE);
  tp_phase_input bad = {.struct_size = 1};
  act a = {0};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a}, 1);
  tp_turn_end(turn);
  turn = begin_bare(runtime, 0);
  assert_int_equal(tp_phase_run(turn, GATHER, &bad, &result, &fault), TP_ERR_VERSION);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- gather ---- */

typedef struct kept_record {
  uint32_t phase;
  tp_status outcome;
  size_t run_count;
  tp_state states[8];
} kept_record;

static bool keep_newest(void *ctx, const tp_entry_record *record) {
  kept_record *kept = ctx;
  kept->phase = record->phase;
  kept->outcome = record->status;
  kept->run_count = record->run_count;
  for (size_t i = 0; i < record->run_count && i < COUNT(kept->states); i++)
    kept->states[i] = record_row(record, i).state;
  return false;
}

TEST(every_subscription_has_its_row_and_the_entry_its_record) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {.emits = &context_a, .emit_count = 1}, b = {.kind = TP_ANSWER_FAILED, .code = 77, .reason = "no luck"};
  act c = {.emits = &context_b, .emit_count = 1};
  hook hooks[] = {{.id = "a", .phase = GATHER, .ctx = &a},
                  {.id = "b", .phase = GATHER, .ctx = &b, .slow = true},
                  {.id = "c", .phase = GATHER, .ctx = &c, .slow = true}};
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, "x");
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(result.run_count, 3);
  assert_run(&result, "a", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_run(&result, "b", TP_STATE_FAILED, TP_REASON_ERROR);
  assert_run(&result, "c", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  tp_run_record row = run_of(&result, "b");
  assert_int_equal(row.code, 77);
  assert_int_equal(row.attempts, 1);
  assert_int_equal(row.execution, TP_EXECUTION_BLOCKING);
  assert_int_equal(row.failure, TP_FAILURE_BEST_EFFORT);
  assert_string_equal(row.owner, "test");
  assert_string_equal(row.handler, "b");
  assert_true(row.queued_ns > 0 && row.queued_ns <= row.started_ns && row.started_ns <= row.ended_ns);
  assert_int_equal(row.late_ns, 0);
  assert_int_equal(run_of(&result, "a").contribution_count, 1);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 2);
  assert_string_equal(tp_merged_get(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT, 0)->subscription, "a");
  assert_string_equal(tp_merged_get(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->subscription, "c");
  /* The failure became a diagnostic that names the run. */
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC), 1);
  assert_string_equal(tp_merged_get(result.merged, TP_CONTRIBUTION_DIAGNOSTIC, 0)->subscription, "b");
  tp_turn_end(turn);
  kept_record kept = {0};
  assert_int_equal(read_records(runtime, 1, keep_newest, &kept), TP_OK);
  assert_int_equal(kept.phase, GATHER);
  assert_int_equal(kept.outcome, TP_OK);
  assert_int_equal(kept.run_count, 3);
  assert_int_equal(kept.states[0], TP_STATE_SUCCEEDED);
  assert_int_equal(kept.states[1], TP_STATE_FAILED);
  assert_int_equal(kept.states[2], TP_STATE_SUCCEEDED);
  close_runtime(runtime);
}

TEST(handlers_of_a_gather_run_at_the_same_time) {
  tp_runtime *runtime = open_runtime(NULL);
  latch a_in = LATCH, b_in = LATCH;
  act a = {.entered = &a_in, .waits_for = &b_in}, b = {.entered = &b_in, .waits_for = &a_in}, c = {0};
  hook hooks[] = {{.id = "a", .phase = GATHER, .ctx = &a, .slow = true},
                  {.id = "b", .phase = GATHER, .ctx = &b, .slow = true},
                  {.id = "inline", .phase = GATHER, .ctx = &c}};
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_run(&result, "a", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_run(&result, "b", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  uint16_t of_a = run_of(&result, "a").thread, of_b = run_of(&result, "b").thread;
  assert_true(of_a >= 1 && of_a <= 2 && of_b >= 1 && of_b <= 2 && of_a != of_b);
  assert_int_equal(run_of(&result, "inline").thread, 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(failing_observer_never_affects_another) {
  tp_runtime *runtime = open_runtime(NULL);
  static const tp_contribution reminder = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("think of it")};
  act bad = {.kind = TP_ANSWER_FAILED}, verdict = {.kind = TP_ANSWER_DENY, .reason = "no"};
  act good = {.emits = &reminder, .emit_count = 1};
  hook hooks[] = {{.id = "bad", .phase = TP_PHASE_TOOL_POST, .ctx = &bad},
                  {.id = "verdict", .phase = TP_PHASE_TOOL_POST, .ctx = &verdict},
                  {.id = "good", .phase = TP_PHASE_TOOL_POST, .ctx = &good}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_POST, NULL);
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(result.verdict, TP_VERDICT_NONE);
  assert_run(&result, "bad", TP_STATE_FAILED, TP_REASON_ERROR);
  assert_int_equal(run_of(&result, "verdict").state, TP_STATE_FAILED);
  assert_run(&result, "good", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_REMINDER), 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- what a handler reads ---- */

typedef struct reading {
  bool ok;
  char text[64], mode[16], turn_id[32], sub[32];
  int64_t number, left_ms;
  uint32_t phase, attempt;
  uint64_t hash;
  tp_caller caller;
  bool has_text, has_files, cancelled;
} reading;

static void copy_text(char *to, size_t size, tp_text text) {
  snprintf(to, size, "%.*s", (int)text.size, text.size ? text.data : "");
}

static tp_answer read_all(void *ctx, tp_call *call) {
  reading *r = ctx;
  copy_text(r->text, sizeof r->text, tp_call_text(call, TP_FIELD_MODEL));
  copy_text(r->mode, sizeof r->mode, tp_call_mode(call));
  copy_text(r->turn_id, sizeof r->turn_id, tp_call_id(call, TP_ID_TURN));
  snprintf(r->sub, sizeof r->sub, "%s", tp_call_subscription(call));
  r->number = tp_call_int(call, TP_FIELD_ATTEMPT);
  r->left_ms = tp_call_time_left_ms(call);
  r->phase = tp_call_phase(call);
  r->attempt = tp_call_attempt(call);
  r->hash = tp_call_plan_hash(call);
  r->caller = tp_call_caller(call);
  r->has_text = tp_call_has(call, TP_FIELD_MODEL);
  r->has_files = tp_call_has(call, TP_FIELD_FILES);
  r->cancelled = tp_call_cancelled(call);
  r->ok =
      tp_call_id(call, 99).size == 0 && tp_call_text(call, 9999).size == 0 && tp_call_int(call, TP_FIELD_MODEL) == 0;
  return TP_ANSWER_DONE;
}

TEST(handler_reads_payload_identity_and_time_left) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    reading r = {0};
    add_hooks(runtime, &(hook){.id = "reader", .phase = TP_PHASE_MODEL_PRE, .run = read_all, .ctx = &r, .slow = slow},
              1);
    tp_turn *turn;
    tp_turn_request request = {
        .struct_size = sizeof request, .id = "t1", .mode = "plan", .caller = TP_CALLER_CI_PIPELINE};
    assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, NULL), TP_OK);
    tp_field fields[] = {{.id = TP_FIELD_MODEL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("words")},
                         {.id = TP_FIELD_ATTEMPT, .kind = TP_FIELD_KIND_INT, .number = 3}};
    tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
    tp_phase_result result = {.struct_size = sizeof result};
    assert_int_equal(tp_phase_run(turn, TP_PHASE_MODEL_PRE, &input, &result, NULL), TP_OK);
    assert_true(r.ok && r.has_text && !r.has_files && !r.cancelled);
    assert_string_equal(r.text, "words");
    assert_string_equal(r.mode, "plan");
    assert_string_equal(r.turn_id, "t1");
    assert_string_equal(r.sub, "reader");
    assert_int_equal(r.number, 3);
    assert_int_equal(r.phase, TP_PHASE_MODEL_PRE);
    assert_int_equal(r.attempt, 1);
    assert_int_equal(r.caller, TP_CALLER_CI_PIPELINE);
    assert_true(r.hash != 0);
    assert_in_range(r.left_ms, 1000, 5000);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- what a host reads ---- */

typedef struct newer_result {
  tp_phase_result known;
  uint64_t newer[2];
} newer_result;

TEST(result_is_filled_as_far_as_both_sides_know_it) {
  act deny = {.kind = TP_ANSWER_DENY, .reason = "no"};
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, &(hook){.id = "a", .phase = TOOL_PRE, .ctx = &deny}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  static const size_t wrong[] = {0, 4, sizeof(tp_phase_result) + 1, 1 << 20, SIZE_MAX};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    tp_phase_result result = {.struct_size = sizeof result};
    memset(&result, 0xee, sizeof result);
    result.struct_size = wrong[i];
    tp_fault fault = {0};
    assert_int_equal(tp_phase_run(turn, TOOL_PRE, NULL, &result, &fault), TP_ERR_VERSION);
    assert_non_null(strstr(fault.message, "tp_phase_result"));
    assert_int_equal(result.outcome, (tp_status)0xeeeeeeee); /* untouched */
  }
  for (int empty = 0; empty < 2; empty++) {
    newer_result result;
    memset(&result, 0xee, sizeof result);
    result.known.struct_size = sizeof result;
    uint32_t phase = empty ? (uint32_t)GATHER : (uint32_t)TOOL_PRE;
    assert_int_equal(tp_phase_run(turn, phase, NULL, &result.known, NULL), TP_OK);
    assert_int_equal(result.known.struct_size, sizeof result.known);
    assert_int_equal(result.known.outcome, empty ? TP_OK : TP_ERR_DENIED);
    assert_true(result.newer[0] == 0 && result.newer[1] == 0);
    tp_phase_result_release(turn, &result.known);
    assert_int_equal(result.known.struct_size, sizeof result.known);
    assert_null(result.known.entry);
  }
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(guard_that_denied_and_one_that_did_not_answer_are_distinguished) {
  static const struct {
    act act;
    tp_state state;
    tp_reason why;
  } cases[] = {{{.kind = TP_ANSWER_DENY, .reason = "no"}, TP_STATE_SUCCEEDED, TP_REASON_NONE},
               {{.kind = TP_ANSWER_FAILED, .reason = "broken"}, TP_STATE_FAILED, TP_REASON_ERROR},
               {{.defers = true}, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    act guard;
    memcpy(&guard, &cases[i].act, sizeof guard);
    tp_runtime *runtime = open_runtime(NULL);
    add_hooks(runtime,
              &(hook){.id = "guard",
                      .phase = TOOL_PRE,
                      .ctx = &guard,
                      .sub = {.failure = TP_FAILURE_REQUIRED, .limit_ms = guard.defers ? 5 : 60000}},
              1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    assert_string_equal(result.subscription, "guard");
    assert_int_equal(result.state, cases[i].state);
    assert_int_equal(result.why, cases[i].why);
    const tp_run_record *row = tp_phase_result_run(&result, 0);
    assert_ptr_equal(tp_phase_result_run(&result, 0), row);
    assert_int_equal(row->state, cases[i].state);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(submit_without_on_end_is_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_fault fault = {0};
  assert_int_equal(tp_phase_submit(turn, GATHER, NULL, NULL, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "on_end"));
  assert_int_equal(tp_tools_submit(turn, NULL, 0, NULL, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "on_end"));
  const tp_tool_call call = {.struct_size = sizeof call, .name = TEXT("t")}, *const calls[] = {&call, NULL};
  const tp_tool_result *const *results;
  assert_int_equal(tp_tools_run(turn, calls, 2, &results, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "call 1"));
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- chains with verdicts ---- */

typedef struct verdicts {
  tp_answer first, second, third;
  tp_answer want;
  int ran;
  const char *denier;
} verdicts;

#define D TP_ANSWER_DENY
#define A TP_ANSWER_ALLOW
#define Q TP_ANSWER_ASK
#define N TP_ANSWER_DONE

static const char *verdict_word(tp_answer kind) {
  return kind == A ? "allow" : kind == D ? "deny" : kind == Q ? "ask" : "none";
}

TEST(deny_beats_ask_beats_allow) {
  static const verdicts cases[] = {
      {N, N, N, N, 3, NULL}, {A, N, N, A, 3, NULL}, {N, A, A, A, 3, NULL}, {A, Q, A, Q, 3, "2"},
      {Q, Q, A, Q, 3, "1"},  {Q, A, N, Q, 3, "1"},  {D, A, A, D, 1, "1"},  {A, D, A, D, 2, "2"},
      {Q, D, A, D, 2, "2"},  {A, A, D, D, 3, "3"},  {Q, A, D, D, 3, "3"},  {N, N, D, D, 3, "3"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    for (int slow = 0; slow < 2; slow++) {
      const verdicts *v = &cases[i];
      tp_runtime *runtime = open_runtime(NULL);
      act acts[3] = {
          {.kind = v->first, .reason = "r1"}, {.kind = v->second, .reason = "r2"}, {.kind = v->third, .reason = "r3"}};
      hook hooks[3] = {{.id = "1", .phase = TOOL_PRE, .ctx = &acts[0], .slow = slow},
                       {.id = "2", .phase = TOOL_PRE, .ctx = &acts[1], .slow = slow},
                       {.id = "3", .phase = TOOL_PRE, .ctx = &acts[2], .slow = slow}};
      add_hooks(runtime, hooks, 3);
      tp_turn *turn = begin_bare(runtime, 0);
      tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
      assert_int_equal(result.outcome, v->want == D ? TP_ERR_DENIED : TP_OK);
      assert_string_equal(tp_verdict_name(result.verdict), verdict_word(v->want));
      assert_int_equal(acts[0].calls + acts[1].calls + acts[2].calls, v->ran);
      if (v->denier) {
        assert_string_equal(result.subscription, v->denier);
        assert_int_equal(result.reason.size, 2);
        assert_int_equal(result.reason.data[1], v->denier[0]);
      } else {
        assert_null(result.subscription);
      }
      for (int h = v->ran; h < 3; h++) assert_run(&result, hooks[h].id, TP_STATE_SKIPPED, TP_REASON_PHASE_FAILED);
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

TEST(ask_outside_tool_phases_is_malformed) {
  tp_runtime *runtime = open_runtime(NULL);
  act asks = {.kind = TP_ANSWER_ASK, .reason = "may I?"}, allows = {.kind = TP_ANSWER_ALLOW};
  hook hooks[] = {{.id = "asks", .phase = INTAKE, .ctx = &asks}, {.id = "allows", .phase = INTAKE, .ctx = &allows}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "x");
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(result.verdict, TP_VERDICT_ALLOW);
  assert_run(&result, "asks", TP_STATE_FAILED, TP_REASON_MALFORMED);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(verdict_in_a_phase_that_takes_none_is_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  act denies = {.kind = TP_ANSWER_DENY, .reason = "no"}, with = denies;
  hook hooks[] = {{.id = "undeclared", .phase = GATHER, .ctx = &denies},
                  {.id = "denies", .phase = INTAKE, .ctx = &with, .capabilities = TP_CAPABILITY_EMIT_AUDIT}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(run_of(&result, "undeclared").state, TP_STATE_FAILED);
  result = run_phase(turn, INTAKE, NULL);
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(result.verdict, TP_VERDICT_NONE);
  assert_run(&result, "denies", TP_STATE_FAILED, TP_REASON_CAPABILITY);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(required_failure_in_a_stop_chain_denies_with_it_as_the_reason) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    act allows = {.kind = TP_ANSWER_ALLOW}, fails = {.kind = TP_ANSWER_FAILED, .reason = "the guard is ill"},
        after = {0};
    hook hooks[] = {{.id = "allows", .phase = TOOL_PRE, .ctx = &allows},
                    {.id = "guard", .phase = TOOL_PRE, .ctx = &fails, .slow = slow},
                    {.id = "after", .phase = TOOL_PRE, .ctx = &after}};
    add_hooks(runtime, hooks, 3);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    assert_int_equal(result.verdict, TP_VERDICT_DENY);
    assert_string_equal(result.subscription, "guard");
    assert_text(result.reason, "the guard is ill");
    assert_int_equal(after.calls, 0);
    assert_run(&result, "after", TP_STATE_SKIPPED, TP_REASON_PHASE_FAILED);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- chains that replace ---- */

TEST(rewriters_work_on_what_the_one_before_left) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    act one = {.replaces = TP_FIELD_TEXT, .appends = "-1"}, two = {.replaces = TP_FIELD_TEXT, .appends = "-2"};
    hook hooks[] = {{.id = "one", .phase = INTAKE, .ctx = &one, .slow = slow},
                    {.id = "two", .phase = INTAKE, .ctx = &two, .slow = slow}};
    add_hooks(runtime, hooks, 2);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, INTAKE, "x");
    assert_true(tp_merged_replaced(result.merged, TP_FIELD_TEXT));
    assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "x-1-2");
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* Before the replacement, an inline handler without contributions was called; its call might be used again. */
TEST(inline_handler_sees_what_one_on_a_thread_has_replaced) {
  tp_runtime *runtime = open_runtime(NULL);
  act silent = {.kind = TP_ANSWER_DONE};
  act one = {.replaces = TP_FIELD_TEXT, .appends = "-1"}, two = {.replaces = TP_FIELD_TEXT, .appends = "-2"};
  hook hooks[] = {{.id = "a", .phase = INTAKE, .ctx = &silent},
                  {.id = "b", .phase = INTAKE, .ctx = &one, .slow = true},
                  {.id = "c", .phase = INTAKE, .ctx = &two}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "x");
  assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "x-1-2");
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(failed_late_or_absent_answer_leaves_the_previous_payload) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    act first = {.replaces = TP_FIELD_TEXT, .appends = "-kept"};
    act fails = {.replaces = TP_FIELD_TEXT, .text = "of the failed", .kind = TP_ANSWER_FAILED};
    act late = {.replaces = TP_FIELD_TEXT, .text = "of the late", .sleeps_ms = 30};
    act silent = {0};
    act foreign = {.replaces = TP_FIELD_MODEL, .text = "not replaceable here"};
    hook hooks[] = {{.id = "first", .phase = INTAKE, .ctx = &first, .slow = slow},
                    {.id = "fails", .phase = INTAKE, .ctx = &fails, .slow = slow},
                    {.id = "late", .phase = INTAKE, .ctx = &late, .slow = slow, .sub = {.limit_ms = 5}},
                    {.id = "silent", .phase = INTAKE, .ctx = &silent, .slow = slow},
                    {.id = "foreign", .phase = INTAKE, .ctx = &foreign, .slow = slow}};
    add_hooks(runtime, hooks, COUNT(hooks));
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, INTAKE, "x");
    assert_int_equal(result.outcome, TP_OK);
    assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "x-kept");
    assert_run(&result, "fails", TP_STATE_FAILED, TP_REASON_ERROR);
    assert_run(&result, "late", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    assert_run(&result, "silent", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_run(&result, "foreign", TP_STATE_FAILED, TP_REASON_MALFORMED);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(payload_that_was_not_replaced_is_readable_as_long_as_the_result) {
  tp_runtime *runtime = open_runtime(NULL);
  static const char files[] = "\x91\xa1x"; /* ["x"] */
  act a = {.replaces = TP_FIELD_TEXT, .text = "new"};
  add_hooks(runtime, &(hook){.id = "a", .phase = INTAKE, .ctx = &a}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  char *mine = malloc(sizeof files - 1);
  memcpy(mine, files, sizeof files - 1);
  tp_field fields[] = {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("old")},
                       {.id = TP_FIELD_FILES, .kind = TP_FIELD_KIND_VALUE, .text = {mine, sizeof files - 1}}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, INTAKE, &input, &result, NULL), TP_OK);
  memset(mine, 'z', sizeof files - 1); /* borrowed till the run returned: ours again */
  free(mine);
  assert_text(tp_merged_text(result.merged, TP_FIELD_FILES), files);
  assert_false(tp_merged_replaced(result.merged, TP_FIELD_FILES));
  assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "new");
  tp_turn_end(turn);
  close_runtime(runtime);
}

typedef struct waiting_end {
  latch ended;
  tp_phase_result result;
  char text[64];
} waiting_end;

static void note_end(void *ctx, const tp_phase_result *result) {
  waiting_end *w = ctx;
  w->result = *result;
  copy_text(w->text, sizeof w->text, tp_merged_text(result->merged, TP_FIELD_MODEL));
  latch_hit(&w->ended);
}

TEST(submitted_payload_is_copied_and_readable_at_the_end) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {.emits = &context_a, .emit_count = 1};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  char *mine = strdup("a model");
  tp_field field = {.id = TP_FIELD_MODEL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(mine)};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  waiting_end w = {.ended = LATCH};
  assert_int_equal(tp_phase_submit(turn, GATHER, &input, note_end, &w, NULL), TP_OK);
  memset(mine, 'z', 7);
  free(mine);
  latch_wait(&w.ended, 1);
  assert_string_equal(w.text, "a model");
  assert_text(tp_merged_text(w.result.merged, TP_FIELD_MODEL), "a model");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- an answer is taken whole or rejected whole ---- */

TEST(one_undeclared_kind_rejects_the_whole_answer) {
  static const tp_contribution mixed[] = {
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
       .key = TEXT("k"),
       .text = TEXT("good")},
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_REMINDER,
       .text = TEXT("not allowed in this phase")},
  };
  static const tp_contribution undeclared[] = {
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
       .key = TEXT("k2"),
       .text = TEXT("allowed, not declared")},
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_DIAGNOSTIC,
       .key = TEXT("d"),
       .text = TEXT("always allowed")},
  };
  static const tp_contribution broken[] = {
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
       .key = TEXT("k3"),
       .text = TEXT("good")},
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
       .key = TEXT("k4"),
       .text = TEXT("\xff\xfe")},
  };
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    act a = {.emits = mixed, .emit_count = 2}, b = {.emits = undeclared, .emit_count = 2},
        c = {.emits = broken, .emit_count = 2};
    act good = {.emits = &context_a, .emit_count = 1};
    hook hooks[] = {{.id = "mixed", .phase = GATHER, .ctx = &a, .slow = slow},
                    {.id = "undeclared", .phase = GATHER, .ctx = &b, .slow = slow, .no_capability = true},
                    {.id = "broken", .phase = GATHER, .ctx = &c, .slow = slow},
                    {.id = "good", .phase = GATHER, .ctx = &good, .slow = slow}};
    add_hooks(runtime, hooks, COUNT(hooks));
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "mixed", TP_STATE_FAILED, TP_REASON_CAPABILITY);
    assert_run(&result, "undeclared", TP_STATE_FAILED, TP_REASON_CAPABILITY);
    assert_run(&result, "broken", TP_STATE_FAILED, TP_REASON_MALFORMED);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 1);
    assert_string_equal(tp_merged_get(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT, 0)->subscription, "good");
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC),
                     3); /* one for each failure, none of theirs */
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(replacing_without_the_capability_rejects_the_answer) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {.replaces = TP_FIELD_TEXT, .text = "new"};
  add_hooks(runtime, &(hook){.id = "a", .phase = INTAKE, .ctx = &a, .no_capability = true}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "old");
  assert_run(&result, "a", TP_STATE_FAILED, TP_REASON_CAPABILITY);
  assert_false(tp_merged_replaced(result.merged, TP_FIELD_TEXT));
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- failing closed ---- */

TEST(required_failure_in_a_gather_fails_closed_and_keeps_only_audit_and_diagnostic) {
  static const tp_contribution all[] = {
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
       .key = TEXT("k"),
       .text = TEXT("dropped")},
      {.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = TEXT("who"), .text = TEXT("kept")},
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_DIAGNOSTIC,
       .key = TEXT("what"),
       .text = TEXT("kept")},
  };
  tp_runtime *runtime = open_runtime(NULL);
  act good = {.emits = all, .emit_count = 3}, bad = {.kind = TP_ANSWER_FAILED, .reason = "broken"}, never = {0};
  hook hooks[] = {{.id = "good", .phase = GATHER, .ctx = &good},
                  {.id = "bad", .phase = GATHER, .ctx = &bad, .after = "good", .sub = {.failure = TP_FAILURE_REQUIRED}},
                  {.id = "never", .phase = GATHER, .ctx = &never, .after = "bad"}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(result.outcome, TP_ERR_HOOK);
  assert_string_equal(result.subscription, "bad");
  assert_text(result.reason, "broken");
  assert_int_equal(never.calls, 0);
  assert_run(&result, "never", TP_STATE_SKIPPED, TP_REASON_PHASE_FAILED);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 0);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_AUDIT), 1);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC), 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

typedef struct patient {
  latch *entered;
  _Atomic bool saw_cancel;
} patient;

static tp_answer until_cancelled(void *ctx, tp_call *call) {
  patient *p = ctx;
  latch_hit(p->entered);
  while (!tp_call_cancelled(call)) sleep_ms(1);
  p->saw_cancel = true;
  return TP_ANSWER_DONE;
}

TEST(failing_closed_cancels_what_runs_and_waits_for_it) {
  tp_runtime *runtime = open_runtime(NULL);
  latch entered = LATCH;
  patient p = {.entered = &entered};
  act bad = {.kind = TP_ANSWER_FAILED, .waits_for = &entered};
  hook hooks[] = {
      {.id = "patient", .phase = GATHER, .run = until_cancelled, .ctx = &p, .slow = true, .sub = {.limit_ms = 60000}},
      {.id = "bad", .phase = GATHER, .ctx = &bad, .slow = true, .sub = {.failure = TP_FAILURE_REQUIRED}}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(result.outcome, TP_ERR_HOOK);
  assert_true(p.saw_cancel); /* it was waited for */
  assert_run(&result, "patient", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_int_equal(tp_runtime_leaks(runtime, NULL, NULL), 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(first_failure_in_plan_order_is_reported) {
  tp_runtime *runtime = open_runtime(NULL);
  latch second_failed = LATCH;
  act first = {.kind = TP_ANSWER_FAILED, .reason = "one", .waits_for = &second_failed};
  act second = {.kind = TP_ANSWER_FAILED, .reason = "two", .entered = &second_failed};
  hook hooks[] = {{.id = "1", .phase = GATHER, .ctx = &first, .slow = true, .sub = {.failure = TP_FAILURE_REQUIRED}},
                  {.id = "2", .phase = GATHER, .ctx = &second, .slow = true, .sub = {.failure = TP_FAILURE_REQUIRED}}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(result.outcome, TP_ERR_HOOK);
  assert_string_equal(result.subscription, "1");
  assert_text(result.reason, "one");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- retry ---- */

TEST(retryable_error_is_tried_again_with_its_back_off) {
  for (int slow = 0; slow < 2; slow++) {
    for (int backoff = 0; backoff < 3; backoff++) {
      tp_runtime *runtime = open_runtime(NULL);
      act a = {.kind = TP_ANSWER_FAILED, .retryable = true, .succeeds_at = 3, .emits = &context_a, .emit_count = 1};
      hook h = {.id = "a", .phase = GATHER, .ctx = &a, .slow = slow, .idempotent = true};
      h.sub.attempts = 3;
      h.sub.backoff = (tp_backoff)backoff;
      h.sub.backoff_ms = 4;
      add_hooks(runtime, &h, 1);
      tp_turn *turn = begin_bare(runtime, 0);
      int64_t began_ns = now_ns();
      tp_phase_result result = run_phase(turn, GATHER, NULL);
      int64_t duration_ms = (now_ns() - began_ns) / 1000000;
      assert_run(&result, "a", TP_STATE_SUCCEEDED, TP_REASON_NONE);
      assert_int_equal(a.calls, 3);
      assert_int_equal(run_of(&result, "a").attempts, 3);
      static const int least_ms[] = {0, 8, 12}; /* none; 4+4; 4+8 */
      assert_true(duration_ms >= least_ms[backoff]);
      assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT),
                       1); /* of the last attempt alone */
      assert_int_equal(tp_merged_get(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT, 0)->attempt, 3);
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

TEST(what_is_not_retryable_is_not_tried_again) {
  tp_runtime *runtime = open_runtime(NULL);
  act fails = {.kind = TP_ANSWER_FAILED}, slow = {.sleeps_ms = 20},
      exhausted = {.kind = TP_ANSWER_FAILED, .retryable = true};
  hook hooks[] = {{.id = "fails", .phase = GATHER, .ctx = &fails, .idempotent = true, .sub = {.attempts = 5}},
                  {.id = "timeout",
                   .phase = GATHER,
                   .ctx = &slow,
                   .slow = true,
                   .idempotent = true,
                   .sub = {.attempts = 5, .limit_ms = 2}},
                  {.id = "exhausted", .phase = GATHER, .ctx = &exhausted, .idempotent = true, .sub = {.attempts = 4}}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_run(&result, "fails", TP_STATE_FAILED, TP_REASON_ERROR);
  assert_int_equal(fails.calls, 1);
  assert_run(&result, "timeout", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_int_equal(slow.calls, 1);
  assert_run(&result, "exhausted", TP_STATE_FAILED, TP_REASON_ERROR);
  assert_int_equal(exhausted.calls, 4);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(retry_without_time_left_is_not_made) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {.kind = TP_ANSWER_FAILED, .retryable = true};
  hook h = {.id = "a", .phase = GATHER, .ctx = &a, .idempotent = true};
  h.sub.execution = TP_EXECUTION_DEADLINE;
  h.sub.limit_ms = 50;
  h.sub.attempts = 3;
  h.sub.backoff = TP_BACKOFF_FIXED;
  h.sub.backoff_ms = 10000;
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_run(&result, "a", TP_STATE_FAILED, TP_REASON_ERROR);
  assert_int_equal(a.calls, 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- one operation at a time ---- */

typedef struct second_caller {
  tp_turn *turn;
  latch *entered, *leave;
  tp_status run_status, submit_status;
} second_caller;

static void never_notified(void *ctx, const tp_phase_result *result) {
  (void)result;
  ++*(int *)ctx;
}

static void *call_meanwhile(void *arg) {
  second_caller *s = arg;
  tp_phase_result result = {.struct_size = sizeof result};
  int notified = 0;
  latch_wait(s->entered, 1);
  s->run_status = tp_phase_run(s->turn, GATHER, NULL, &result, NULL);
  s->submit_status = tp_phase_submit(s->turn, GATHER, NULL, never_notified, &notified, NULL);
  latch_hit(s->leave);
  return NULL;
}

TEST(second_operation_of_a_turn_is_busy) {
  for (int submitted = 0; submitted < 2; submitted++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch entered = LATCH, leave = LATCH;
    act a = {.entered = &entered, .waits_for = &leave};
    add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a, .slow = true}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    second_caller s = {.turn = turn, .entered = &entered, .leave = &leave};
    pthread_t thread;
    pthread_create(&thread, NULL, call_meanwhile, &s);
    waiting_end w = {.ended = LATCH};
    if (submitted) {
      assert_int_equal(tp_phase_submit(turn, GATHER, NULL, note_end, &w, NULL), TP_OK);
      latch_wait(&w.ended, 1);
    } else {
      assert_int_equal(run_phase(turn, GATHER, NULL).outcome, TP_OK);
    }
    pthread_join(thread, NULL);
    assert_int_equal(s.run_status, TP_ERR_BUSY);
    assert_int_equal(s.submit_status, TP_ERR_BUSY);
    assert_int_equal(a.calls, 1);
    assert_int_equal(run_phase(turn, GATHER, NULL).outcome, TP_OK); /* and afterwards it works */
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

typedef struct chain_of_submits {
  tp_turn *turn;
  int left;
  latch done;
  int bad;
} chain_of_submits;

static void submit_next(void *ctx, const tp_phase_result *result) {
  chain_of_submits *c = ctx;
  if (result->outcome != TP_OK) c->bad++;
  if (c->left-- > 0) {
    if (tp_phase_submit(c->turn, GATHER, NULL, submit_next, c, NULL) != TP_OK) c->bad++;
    return;
  }
  tp_turn_end(c->turn); /* the end of the turn may come from its own callback */
  latch_hit(&c->done);
}

TEST(end_of_a_submitted_phase_may_begin_the_next_or_end_the_turn) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {0}, b = {0};
  hook hooks[] = {{.id = "a", .phase = GATHER, .ctx = &a}, {.id = "b", .phase = GATHER, .ctx = &b, .slow = true}};
  add_hooks(runtime, hooks, 2);
  chain_of_submits c = {.turn = begin_bare(runtime, 0), .left = 200, .done = LATCH};
  assert_int_equal(tp_phase_submit(c.turn, GATHER, NULL, submit_next, &c, NULL), TP_OK);
  latch_wait(&c.done, 1);
  assert_int_equal(c.bad, 0);
  assert_int_equal(a.calls, 201);
  assert_int_equal(b.calls, 201);
  close_runtime(runtime);
}

typedef struct insider {
  tp_runtime *runtime;
  tp_turn *other;
  tp_status phase, drain, wait;
} insider;

static tp_answer call_from_inside(void *ctx, tp_call *call) {
  (void)call;
  insider *in = ctx;
  tp_phase_result result = {.struct_size = sizeof result};
  in->phase = tp_phase_run(in->other, GATHER, NULL, &result, NULL);
  in->drain = tp_runtime_drain(in->runtime, 10, NULL, NULL);
  in->wait = tp_jobs_wait(in->runtime, "", 10, NULL);
  return TP_ANSWER_DONE;
}

TEST(waiting_from_inside_a_handler_is_refused) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    insider in = {.runtime = runtime};
    add_hooks(runtime, &(hook){.id = "in", .phase = GATHER, .run = call_from_inside, .ctx = &in, .slow = slow}, 1);
    in.other = begin_bare(runtime, 0);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "in", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_int_equal(in.phase, TP_ERR_USAGE);
    assert_int_equal(in.drain, TP_ERR_USAGE);
    assert_int_equal(in.wait, TP_ERR_USAGE);
    tp_turn_end(turn);
    tp_turn_end(in.other);
    close_runtime(runtime);
  }
}

TEST(submit_needs_engine_workers_and_run_does_not) {
  tp_runtime *runtime =
      open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .no_engine_workers = true});
  act a = {0}, b = {0};
  hook hooks[] = {{.id = "a", .phase = GATHER, .ctx = &a}, {.id = "b", .phase = GATHER, .ctx = &b, .slow = true}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  int notified = 0;
  assert_int_equal(tp_phase_submit(turn, GATHER, NULL, never_notified, &notified, NULL), TP_ERR_USAGE);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_run(&result, "b", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_int_equal(notified, 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- cancel ---- */

typedef struct canceller {
  tp_turn *turn;
  latch *when;
} canceller;

static void *cancel_when(void *arg) {
  canceller *c = arg;
  latch_wait(c->when, 1);
  tp_turn_cancel(c->turn);
  return NULL;
}

TEST(cancelling_the_turn_ends_the_phase_at_once) {
  tp_runtime *runtime = open_runtime(NULL);
  latch entered = LATCH, leave = LATCH;
  act hangs = {.entered = &entered, .waits_for = &leave}, later = {0};
  hook hooks[] = {{.id = "hangs", .phase = GATHER, .ctx = &hangs, .slow = true, .sub = {.limit_ms = 60000}},
                  {.id = "later", .phase = GATHER, .ctx = &later, .after = "hangs"}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  canceller c = {turn, &entered};
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_when, &c);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  pthread_join(thread, NULL);
  assert_int_equal(result.outcome, TP_ERR_CANCELLED);
  assert_run(&result, "hangs", TP_STATE_CANCELLED, TP_REASON_CANCELLED);
  assert_int_equal(run_of(&result, "later").state, TP_STATE_SKIPPED);
  assert_int_equal(later.calls, 0);
  assert_int_equal(tp_runtime_leaks(runtime, NULL, NULL), 1);
  tp_turn_cancel(turn); /* a second time is harmless */
  latch_hit(&leave);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- snapshots ---- */

TEST(turn_keeps_the_plans_it_began_with) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {0}, b = {0};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a}, 1);
  tp_turn *old = begin_bare(runtime, 0);
  add_hooks(runtime, &(hook){.id = "b", .phase = GATHER, .ctx = &b}, 1);
  tp_turn *new = begin_bare(runtime, 0);
  assert_int_equal(run_phase(old, GATHER, NULL).run_count, 1);
  assert_int_equal(run_phase(new, GATHER, NULL).run_count, 2);
  assert_int_equal(a.calls, 2);
  assert_int_equal(b.calls, 1);
  tp_turn_end(old);
  tp_turn_end(new);
  close_runtime(runtime);
}

TEST(kill_switch_works_at_once_in_all_snapshots_and_back) {
  tp_runtime *runtime = open_runtime(NULL);
  act guard = {.kind = TP_ANSWER_DENY, .reason = "no"};
  add_hooks(runtime, &(hook){.id = "guard", .phase = TOOL_PRE, .ctx = &guard}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(run_phase(turn, TOOL_PRE, NULL).outcome, TP_ERR_DENIED);
  assert_int_equal(tp_subscription_kill(runtime, "guard", true, NULL), TP_OK);
  assert_int_equal(tp_subscription_kill(runtime, "guard", true, NULL), TP_OK);
  tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
  assert_int_equal(result.outcome, TP_OK); /* required and skipped, but by the operator's own switch */
  assert_run(&result, "guard", TP_STATE_SKIPPED, TP_REASON_KILL_SWITCH);
  assert_int_equal(tp_subscription_kill(runtime, "guard", false, NULL), TP_OK);
  assert_int_equal(run_phase(turn, TOOL_PRE, NULL).outcome, TP_ERR_DENIED);
  assert_int_equal(tp_subscription_kill(runtime, "nobody", true, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(guard.calls, 2);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(tripped_guard_denies_and_others_are_a_diagnostic_until_it_is_closed) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    act guard = {0}, helper = {0};
    const hook hooks[] = {
        {.id = "guard", .phase = TOOL_PRE, .ctx = &guard, .slow = slow},
        {.id = "helper", .phase = TOOL_PRE, .ctx = &helper, .slow = slow, .sub.failure = TP_FAILURE_BEST_EFFORT}};
    add_hooks(runtime, hooks, COUNT(hooks));
    tp_turn *turn = begin_bare(runtime, 0);
    assert_int_equal(tp_subscription_trip(runtime, "helper", true, NULL), TP_OK);
    tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
    assert_int_equal(result.outcome, TP_OK);
    assert_run(&result, "guard", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_run(&result, "helper", TP_STATE_FAILED, TP_REASON_BREAKER_OPEN);
    assert_int_equal(tp_subscription_trip(runtime, "guard", true, NULL), TP_OK);
    assert_int_equal(tp_subscription_trip(runtime, "guard", true, NULL), TP_OK);
    result = run_phase(turn, TOOL_PRE, NULL);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    assert_string_equal(result.subscription, "guard");
    assert_int_equal(result.why, TP_REASON_BREAKER_OPEN);
    assert_int_equal(tp_subscription_kill(runtime, "guard", true, NULL), TP_OK); /* beside it the switch comes first */
    assert_int_equal(run_phase(turn, TOOL_PRE, NULL).outcome, TP_OK);
    assert_int_equal(tp_subscription_kill(runtime, "guard", false, NULL), TP_OK);
    assert_int_equal(run_phase(turn, TOOL_PRE, NULL).outcome, TP_ERR_DENIED);
    assert_int_equal(tp_subscription_trip(runtime, "guard", false, NULL), TP_OK);
    assert_int_equal(tp_subscription_trip(runtime, "helper", false, NULL), TP_OK);
    assert_int_equal(run_phase(turn, TOOL_PRE, NULL).outcome, TP_OK);
    assert_int_equal(guard.calls, 2);
    assert_int_equal(helper.calls, 1);
    assert_int_equal(tp_subscription_trip(runtime, "nobody", true, NULL), TP_ERR_NOT_FOUND);
    assert_int_equal(tp_subscription_trip(runtime, NULL, true, NULL), TP_ERR_USAGE);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- one-line hooks and aliases ---- */

static tp_answer append_digit(void *ctx, tp_call *call) {
  char text[64];
  tp_text old = tp_call_text(call, TP_FIELD_TEXT);
  snprintf(text, sizeof text, "%.*s%s", (int)old.size, old.data, (const char *)ctx);
  if (tp_call_replace_text(call, TP_FIELD_TEXT, text, NULL) != TP_OK) return tp_call_fail(call, 1, "not replaced");
  return TP_ANSWER_DONE;
}

static tp_answer remind(void *ctx, tp_call *call) {
  (void)ctx;
  static const tp_contribution reminder = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("think of it")};
  if (tp_call_emit(call, &reminder, NULL) != TP_OK) return tp_call_fail(call, 1, "not taken");
  return TP_ANSWER_DONE;
}

TEST(one_line_hooks_run_in_registration_order) {
  tp_runtime *runtime = open_runtime(NULL);
  static const char *const phases[] = {"turn.intake", "onIntake", "user.prompt.submit", "PromptSubmit", "preprocess"};
  static char digits[] = "1\0002\0003\0004\0005";
  for (int i = 0; i < 5; i++)
    assert_int_equal(tp_hook_add(runtime, HOOK(phases[i], append_digit, digits + 2 * i), NULL), TP_OK);
  tp_fault fault = {0};
  assert_int_equal(tp_hook_add(runtime, HOOK("no.such.phase", append_digit, digits), &fault), TP_ERR_UNKNOWN_PHASE);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "x");
  assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "x12345");
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(reminders_through_an_infra_alias_are_dropped_with_a_diagnostic) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_hook_add(runtime, HOOK("PostAbilityCall", remind, NULL), NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_POST, NULL);
  assert_int_equal(tp_phase_result_run(&result, 0)->state, TP_STATE_SUCCEEDED);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_REMINDER), 0);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC), 1);
  tp_turn_end(turn);
  assert_int_equal(tp_hook_add(runtime, HOOK("tool.post", remind, NULL), NULL), TP_OK);
  turn = begin_bare(runtime, 0);
  result = run_phase(turn, TP_PHASE_TOOL_POST, NULL);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_REMINDER), 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- life ---- */

TEST(child_of_a_fork_is_refused_and_the_parent_goes_on) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {0};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a, .slow = true}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(run_phase(turn, GATHER, NULL).outcome, TP_OK);
  pid_t child = fork();
  if (child == 0) {
    tp_turn *mine = NULL;
    tp_phase_result result = {.struct_size = sizeof result};
    bool ok = tp_turn_begin_bare(runtime, NULL, &mine, NULL) == TP_ERR_FORKED;
    ok = ok && tp_phase_run(turn, GATHER, NULL, &result, NULL) == TP_ERR_FORKED;
    tp_session *session;
    tp_session_options options = {.struct_size = sizeof options, .id = "s"};
    ok = ok && tp_session_open(runtime, &options, &session, NULL) == TP_ERR_FORKED;
    ok = ok && tp_runtime_drain(runtime, 0, NULL, NULL) == TP_ERR_FORKED;
    ok = ok && tp_runtime_start(runtime, NULL) == TP_ERR_FORKED;
    ok = ok && tp_jobs_wait(runtime, "", 60000, NULL) == TP_ERR_FORKED;
    tp_edit *edit;
    ok = ok && tp_edit_begin(runtime, NULL, &edit, NULL) == TP_ERR_FORKED;
    ok = ok && tp_subscription_kill(runtime, "a", true, NULL) == TP_ERR_FORKED;
    tp_fault fault = {.code = TP_OK};
    ok = ok && tp_hook_add(runtime, HOOK("turn.intake", play, &a), &fault) == TP_ERR_FORKED;
    ok = ok && fault.code == TP_ERR_FORKED;
    ok = ok && tp_runtime_records(runtime, NULL, NULL, NULL, NULL) == TP_ERR_FORKED;
    ok = ok && tp_runtime_records_commit(runtime, NULL) == TP_ERR_FORKED;
    ok = ok && tp_jobs_list(runtime, NULL, NULL, NULL, NULL) == TP_ERR_FORKED;
    ok = ok && tp_job_redrive(runtime, 1, NULL) == TP_ERR_FORKED && tp_job_discard(runtime, 1, NULL) == TP_ERR_FORKED;
    ok = ok && tp_plan_print(runtime, TP_PHASE_NONE, TP_PLAN_TABLE, NULL, NULL) == TP_ERR_FORKED;
    ok = ok && tp_runtime_leaks(runtime, NULL, NULL) == 0;
    ok = ok && tp_runtime_audit(runtime, TP_VISIBILITY_INTERNAL, NULL, NULL) == 0;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  int tries = 0;
  while (waitpid(child, &status, WNOHANG) == 0 && tries++ < 2000) sleep_ms(5);
  if (tries >= 2000) {
    kill(child, 9);
    waitpid(child, &status, 0);
    fail_msg("the child hung");
  }
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_int_equal(run_phase(turn, GATHER, NULL).outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(runtime_is_freed_with_a_turn_that_the_host_did_not_end) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {.emits = &context_a, .emit_count = 1};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a, .slow = true}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(run_phase(turn, GATHER, NULL).outcome, TP_OK);
  tp_runtime_free(runtime); /* sessions, agents and turns of the runtime are gone afterwards */
}

TEST(drain_does_not_wait_for_a_turn_that_rests_with_its_host) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {.emits = &context_a, .emit_count = 1};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 10, &report, NULL), TP_OK);
  assert_int_equal(report.turns_cancelled, 1);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT),
                   1); /* its results stay till its end */
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(nothing_begins_after_a_drain) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {0};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_turn_end(turn);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 1000, &report, NULL), TP_OK);
  assert_true(report.complete);
  assert_int_equal(report.leaks, 0);
  assert_int_equal(report.turns_cancelled, 0);
  assert_int_equal(tp_turn_begin_bare(runtime, NULL, &turn, NULL), TP_ERR_SHUTDOWN);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_ERR_SHUTDOWN);
  assert_int_equal(tp_runtime_drain(runtime, 1000, NULL, NULL), TP_OK);
  close_runtime(runtime);
  tp_runtime_free(NULL);
}

TEST(runtime_that_was_never_started_is_drained_and_freed) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 0, &report, NULL), TP_OK);
  assert_true(report.complete);
  close_runtime(runtime);
  tp_runtime_free(open_runtime(NULL));
}

/* ---- determinism ---- */

typedef struct jitter {
  act base;
  _Atomic uint32_t delay_us;
} jitter;

static tp_answer play_later(void *ctx, tp_call *call) {
  jitter *j = ctx;
  struct timespec t = {0, (long)j->delay_us * 1000};
  nanosleep(&t, NULL);
  return play(&j->base, call);
}

TEST(two_rewriters_with_swapped_delays_give_one_result_always) {
  tp_runtime *runtime = open_runtime(NULL);
  jitter one = {.base = {.replaces = TP_FIELD_TEXT, .appends = "-1"}},
         two = {.base = {.replaces = TP_FIELD_TEXT, .appends = "-2"}};
  hook hooks[] = {{.id = "one", .phase = INTAKE, .run = play_later, .ctx = &one, .slow = true},
                  {.id = "two", .phase = INTAKE, .run = play_later, .ctx = &two, .slow = true}};
  add_hooks(runtime, hooks, 2);
  for (int i = 0; i < 1000; i++) {
    one.delay_us = i % 2 ? 60 : 0;
    two.delay_us = i % 2 ? 0 : 60;
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, INTAKE, "x");
    assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "x-1-2");
    tp_turn_end(turn);
  }
  close_runtime(runtime);
}

enum { MANY = 12 };

static void shuffle_delays(jitter *jitters, unsigned *seed) {
  for (int i = 0; i < MANY; i++)
    jitters[i].delay_us = (unsigned)rand_r(seed) % 4 == 0 ? (unsigned)rand_r(seed) % 300 : 0;
}

static void merged_bytes_of(tp_turn *turn, tp_writer *writer, tp_text *ret_bytes) {
  waiting_end w = {.ended = LATCH};
  assert_int_equal(tp_phase_submit(turn, GATHER, NULL, note_end, &w, NULL), TP_OK);
  latch_wait(&w.ended, 1);
  assert_int_equal(w.result.outcome, TP_OK);
  tp_writer_reset(writer);
  assert_int_equal(tp_merged_write(w.result.merged, writer), TP_OK);
  assert_int_equal(tp_writer_finish(writer, ret_bytes), TP_OK);
}

TEST(merged_bytes_are_the_same_on_1_2_and_8_workers) {
  static const uint32_t workers[] = {1, 2, 8};
  char *reference = NULL;
  size_t reference_size = 0;
  unsigned seed = 7;
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t w = 0; w < COUNT(workers); w++) {
    tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = workers[w], .no_breakers = true};
    tp_runtime *runtime = open_runtime(&options);
    static char ids[MANY][8], keys[MANY][8], texts[MANY][32];
    static tp_contribution emits[MANY][2];
    jitter jitters[MANY];
    hook hooks[MANY];
    memset(jitters, 0, sizeof jitters);
    memset(hooks, 0, sizeof hooks);
    for (int i = 0; i < MANY; i++) {
      snprintf(ids[i], sizeof ids[i], "h%d", i);
      snprintf(keys[i], sizeof keys[i], "k%d", i % 5);
      snprintf(texts[i], sizeof texts[i], "words of %d", i);
      emits[i][0] = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                      .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                      .weight = i % 3,
                                      .key = tp_text_of(keys[i]),
                                      .text = tp_text_of(texts[i])};
      emits[i][1] = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                      .kind = TP_CONTRIBUTION_AUDIT,
                                      .key = tp_text_of(ids[i]),
                                      .text = tp_text_of(texts[i])};
      jitters[i].base = (act){
          .emits = emits[i], .emit_count = 2, .kind = i == 4 ? TP_ANSWER_FAILED : TP_ANSWER_DONE, .reason = "always"};
      hooks[i] = (hook){.id = ids[i], .phase = GATHER, .run = play_later, .ctx = &jitters[i], .slow = i % 3 != 0};
      if (i >= 3) hooks[i].after = ids[i - 3];
    }
    add_hooks(runtime, hooks, MANY);
    for (int round = 0; round < 40; round++) {
      shuffle_delays(jitters, &seed);
      tp_turn *turn = begin_bare(runtime, 0);
      tp_text bytes;
      merged_bytes_of(turn, writer, &bytes);
      if (!reference) {
        reference = malloc(bytes.size);
        reference_size = bytes.size;
        memcpy(reference, bytes.data, bytes.size);
      }
      assert_int_equal(bytes.size, reference_size);
      assert_memory_equal(bytes.data, reference, reference_size);
      tp_turn_end(turn);
    }
    close_runtime(runtime);
  }
  free(reference);
  tp_writer_free(writer);
}

/* ---- limits of the runtime ---- */

TEST(begin_above_the_limit_of_turns_is_refused) {
  tp_runtime *runtime = open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .turns_max = 2});
  tp_turn *one = begin_bare(runtime, 0), *two = begin_bare(runtime, 0), *three = NULL;
  assert_int_equal(tp_turn_begin_bare(runtime, NULL, &three, NULL), TP_ERR_FULL);
  tp_turn_end(one);
  three = begin_bare(runtime, 0);
  tp_turn_end(two);
  tp_turn_end(three);
  close_runtime(runtime);
}

TEST(host_phase_works_like_ours) {
  static const uint32_t fields[] = {TP_FIELD_HOST};
  tp_phase mine = {.struct_size = sizeof mine,
                   .name = "my.phase",
                   .mode = TP_MODE_CHAIN,
                   .replace = true,
                   .stop = true,
                   .kinds = TP_CAPABILITY_EMIT_REMINDER,
                   .fields = fields,
                   .field_count = 1,
                   .replaceable = fields,
                   .replaceable_count = 1};
  tp_runtime *runtime = open_runtime(&(tp_runtime_options){
      .struct_size = sizeof(tp_runtime_options), .phases = (const tp_phase *const[]){&mine}, .phase_count = 1});
  uint32_t phase = tp_phase_find(runtime, "my.phase");
  assert_int_equal(phase, TP_PHASE_HOST);
  act a = {.replaces = TP_FIELD_HOST, .text = "mine"}, b = {.kind = TP_ANSWER_DENY, .reason = "enough"};
  hook hooks[] = {{.id = "a", .phase = phase, .ctx = &a}, {.id = "b", .phase = phase, .ctx = &b}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, phase, NULL, &result, NULL), TP_OK);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_text(tp_merged_text(result.merged, TP_FIELD_HOST), "mine");
  tp_turn_end(turn);
  close_runtime(runtime);
}
