/* SPDX-License-Identifier: Apache-2.0
 *
 * Deadlines, limits and budgets on the real clock. An event may come much too late (the machine may be loaded), but
 * never too early. tests/torture measures the precision under load. */
#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, TOOL_PRE = TP_PHASE_TOOL_PRE, LATE_MS = 3000 };

typedef struct timed {
  tp_phase_result result;
  int64_t duration_ms;
} timed;

static timed run_timed(tp_turn *turn, uint32_t phase, uint32_t budget_ms) {
  timed t;
  tp_phase_input input = {.struct_size = sizeof input, .budget_ms = budget_ms};
  int64_t began_ns = now_ns();
  t.result.struct_size = sizeof t.result;
  assert_int_equal(tp_phase_run(turn, phase, &input, &t.result, NULL), TP_OK);
  t.duration_ms = (now_ns() - began_ns) / 1000000;
  return t;
}

static const tp_contribution words = {.struct_size = sizeof(tp_contribution),
                                      .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                      .key = TEXT("k"),
                                      .text = TEXT("words")};

TEST(required_deadline_handler_that_hangs_fails_the_phase_at_the_deadline) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  act hangs = {.waits_for = &leave}, other = {.emits = &words, .emit_count = 1};
  hook hooks[] = {{.id = "hangs",
                   .phase = GATHER,
                   .ctx = &hangs,
                   .slow = true,
                   .sub = {.execution = TP_EXECUTION_DEADLINE, .limit_ms = 40, .failure = TP_FAILURE_REQUIRED}},
                  {.id = "other", .phase = GATHER, .ctx = &other}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  timed t = run_timed(turn, GATHER, 0);
  assert_int_equal(t.result.outcome, TP_ERR_HOOK);
  assert_string_equal(t.result.subscription, "hangs");
  assert_text(t.result.reason, "timeout");
  assert_run(&t.result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_in_range(t.duration_ms, 40, LATE_MS);
  assert_int_equal(tp_merged_count(t.result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 0);
  tp_turn_end(turn);
  latch_hit(&leave);
  close_runtime(runtime);
}

TEST(best_effort_handler_that_hangs_is_left_behind) {
  for (int blocking = 0; blocking < 2; blocking++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch leave = LATCH;
    act hangs = {.waits_for = &leave, .emits = &words, .emit_count = 1}, after = {0};
    hook hooks[] = {{.id = "hangs", .phase = GATHER, .ctx = &hangs, .slow = true, .sub = {.limit_ms = 40}},
                    {.id = "after", .phase = GATHER, .ctx = &after, .after = "hangs"}};
    hooks[0].sub.execution = blocking ? TP_EXECUTION_BLOCKING : TP_EXECUTION_DEADLINE;
    add_hooks(runtime, hooks, 2);
    tp_turn *turn = begin_bare(runtime, 0);
    timed t = run_timed(turn, GATHER, 60000);
    assert_int_equal(t.result.outcome, TP_OK);
    assert_run(&t.result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    assert_run(&t.result, "after", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_in_range(t.duration_ms, 40, LATE_MS);
    assert_int_equal(tp_merged_count(t.result.merged, TP_CONTRIBUTION_DIAGNOSTIC), 1);
    if (blocking) assert_int_equal(tp_runtime_leaks(runtime, NULL, NULL), 1); /* the limit counts from its call */
    latch_hit(&leave);                                                        /* what it says now is discarded */
    await_abandoned(runtime);
    assert_int_equal(tp_merged_count(t.result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 0);
    assert_run(&t.result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

static bool keep_late(void *ctx, const tp_entry_record *record) {
  if (record->phase != GATHER) return true;
  *(int64_t *)ctx = record_row(record, 0).late_ns;
  return false;
}

TEST(late_answer_is_noted_in_the_record_and_nowhere_else) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  act hangs = {.waits_for = &leave, .emits = &words, .emit_count = 1};
  add_hooks(runtime, &(hook){.id = "hangs", .phase = GATHER, .ctx = &hangs, .slow = true, .sub = {.limit_ms = 10}}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  timed t = run_timed(turn, GATHER, 60000);
  assert_run(&t.result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  tp_turn_end(turn);
  int64_t late_ns = -1;
  assert_int_equal(read_records(runtime, 1, keep_late, &late_ns), TP_OK);
  assert_int_equal(late_ns, 0);
  /* Another turn uses the same slots meanwhile, and never sees the answer. */
  act inlined = {0};
  add_hooks(runtime, &(hook){.id = "inline", .phase = TP_PHASE_SESSION_START, .ctx = &inlined, .slow = true}, 1);
  turn = begin_bare(runtime, 0);
  latch_hit(&leave);
  for (int i = 0; i < 50; i++) {
    tp_phase_result result = run_phase(turn, TP_PHASE_SESSION_START, NULL);
    assert_null(result.merged);
    tp_phase_result_release(turn, &result);
  }
  await_abandoned(runtime);
  tp_turn_end(turn);
  assert_int_equal(read_records(runtime, 100, keep_late, &late_ns), TP_OK);
  assert_true(late_ns > 0);
  close_runtime(runtime);
}

static bool keep_late_second(void *ctx, const tp_entry_record *record) {
  if (record->phase != GATHER) return true;
  *(int64_t *)ctx = record_row(record, 1).late_ns;
  return false;
}

/* The row of the run has no thread and no limit, so the lateness is noted after the record was written. */
TEST(late_answer_of_an_inline_handler_that_deferred_is_noted_in_the_record) {
  tp_runtime *runtime = open_runtime(NULL);
  act first = {0}, late = {.defers = true};
  hook hooks[] = {{.id = "a", .phase = GATHER, .ctx = &first},
                  {.id = "b", .phase = GATHER, .ctx = &late, .sub = {.limit_ms = 10}}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  timed t = run_timed(turn, GATHER, 60000);
  assert_run(&t.result, "b", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  tp_outcome outcome = {.struct_size = sizeof outcome, .kind = TP_ANSWER_DONE};
  assert_int_equal(tp_token_complete(late.token, &outcome, NULL), TP_ERR_STALE);
  await_abandoned(runtime);
  tp_turn_end(turn);
  int64_t late_ns = 0;
  assert_int_equal(read_records(runtime, 100, keep_late_second, &late_ns), TP_OK);
  assert_true(late_ns > 0);
  close_runtime(runtime);
}

typedef struct other_turn {
  tp_turn *turn;
  tp_phase_result result;
} other_turn;

static void *run_other(void *arg) {
  other_turn *o = arg;
  o->result.struct_size = sizeof o->result;
  if (tp_phase_run(o->turn, GATHER, NULL, &o->result, NULL) != TP_OK) o->result.outcome = TP_ERR_INTERNAL;
  return NULL;
}

TEST(waiting_for_a_permit_counts_for_a_deadline_and_not_for_a_blocking_limit) {
  for (int deadline = 0; deadline < 2; deadline++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch in = LATCH, leave = LATCH;
    act slow = {.entered = &in, .waits_for = &leave};
    hook h = {.id = "s", .phase = GATHER, .ctx = &slow, .slow = true, .sub = {.max_concurrent = 1}};
    h.sub.limit_ms = deadline ? 60 : 20000;
    h.sub.execution = deadline ? TP_EXECUTION_DEADLINE : TP_EXECUTION_BLOCKING;
    add_hooks(runtime, &h, 1);
    other_turn o = {.turn = begin_bare(runtime, 0)};
    tp_turn *mine = begin_bare(runtime, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, run_other, &o);
    latch_wait(&in, 1); /* the one permit is taken */
    if (deadline) {
      timed t = run_timed(mine, GATHER, 0);
      tp_reason reason = run_of(&t.result, "s").reason;
      assert_true(reason == TP_REASON_TIMEOUT || reason == TP_REASON_NO_PERMIT); /* the holder may be given up first */
      assert_int_equal(slow.calls, 1);
      latch_hit(&leave);
    } else {
      latch_hit(&leave);
      timed t = run_timed(mine, GATHER, 0);
      assert_run(&t.result, "s", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    }
    pthread_join(thread, NULL);
    assert_int_equal(o.result.outcome, TP_OK);
    tp_turn_end(o.turn);
    tp_turn_end(mine);
    close_runtime(runtime);
  }
}

TEST(five_hanging_optional_handlers_end_with_the_budget) {
  for (int chained = 0; chained < 2; chained++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch leave = LATCH;
    act acts[5];
    hook hooks[5];
    static const char *const ids[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++) {
      acts[i] = (act){.waits_for = &leave};
      hooks[i] = (hook){.id = ids[i], .phase = GATHER, .ctx = &acts[i], .slow = true, .sub = {.limit_ms = 10000}};
      if (chained && i > 0) hooks[i].after = ids[i - 1];
    }
    add_hooks(runtime, hooks, 5);
    tp_turn *turn = begin_bare(runtime, 0);
    timed t = run_timed(turn, GATHER, 200);
    assert_int_equal(t.result.outcome, TP_OK);
    assert_in_range(t.duration_ms, 200, LATE_MS);
    assert_run(&t.result, "a", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    if (chained) assert_run(&t.result, "e", TP_STATE_SKIPPED, TP_REASON_NO_SLACK);
    else assert_run(&t.result, "e", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    tp_turn_end(turn);
    latch_hit(&leave);
    close_runtime(runtime);
  }
}

TEST(optional_handler_leaves_time_for_the_required_one_behind_it) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  act hangs = {.waits_for = &leave}, guard = {.sleeps_ms = 5};
  hook hooks[] = {{.id = "hangs", .phase = GATHER, .ctx = &hangs, .slow = true, .sub = {.limit_ms = 10000}},
                  {.id = "guard",
                   .phase = GATHER,
                   .ctx = &guard,
                   .slow = true,
                   .after = "hangs",
                   .sub = {.limit_ms = 900, .failure = TP_FAILURE_REQUIRED}}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  timed t = run_timed(turn, GATHER, 1000);
  assert_int_equal(t.result.outcome, TP_OK);
  assert_run(&t.result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_run(&t.result, "guard", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_in_range(t.duration_ms, 100, 990);
  tp_turn_end(turn);
  latch_hit(&leave);
  close_runtime(runtime);
}

TEST(inline_handler_that_overruns_its_limit_is_timed_out) {
  tp_runtime *runtime = open_runtime(NULL);
  act slow = {.sleeps_ms = 15, .emits = &words, .emit_count = 1};
  add_hooks(runtime, &(hook){.id = "q", .phase = GATHER, .ctx = &slow, .sub = {.limit_ms = 3}}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_run(&result, "q", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_true(run_of(&result, "q").late_ns > 0);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* A Deadline counts from ready, also while the owner calls another inline handler. */
TEST(inline_deadline_handler_behind_a_long_one_is_not_called_any_more) {
  tp_runtime *runtime = open_runtime(NULL);
  act takes_long = {.sleeps_ms = 30}, waits = {0}, follows = {0};
  hook hooks[] = {
      {.id = "a", .phase = GATHER, .ctx = &takes_long},
      {.id = "b",
       .phase = GATHER,
       .ctx = &waits,
       .sub = {.execution = TP_EXECUTION_DEADLINE, .limit_ms = 10, .failure = TP_FAILURE_REQUIRED}},
      {.id = "c", .phase = GATHER, .ctx = &follows, .after = "a", .sub = {.execution = TP_EXECUTION_DEADLINE}}};
  hooks[2].sub.limit_ms = 5000;
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  tp_run_record a = *tp_phase_result_run(&result, 0), b = *tp_phase_result_run(&result, 1);
  assert_int_equal(result.outcome, TP_ERR_HOOK);
  assert_string_equal(result.subscription, "b");
  assert_string_equal(a.subscription, "a");
  assert_int_equal(b.state, TP_STATE_TIMED_OUT);
  assert_int_equal(waits.calls, 0);
  assert_true(b.queued_ns <= a.started_ns);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(turn_deadline_bounds_every_phase) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  act hangs = {.waits_for = &leave}, again = {0}, guard = {0};
  hook hooks[] = {{.id = "hangs", .phase = GATHER, .ctx = &hangs, .slow = true, .sub = {.limit_ms = 20000}},
                  {.id = "again", .phase = TP_PHASE_SESSION_START, .ctx = &again},
                  {.id = "guard", .phase = TOOL_PRE, .ctx = &guard}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 50);
  timed t = run_timed(turn, GATHER, 0);
  assert_run(&t.result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_in_range(t.duration_ms, 20, LATE_MS);
  /* Handlers that would begin after the deadline: the optional one is skipped, the required one fails closed. */
  tp_phase_result result = run_phase(turn, TP_PHASE_SESSION_START, NULL);
  assert_run(&result, "again", TP_STATE_SKIPPED, TP_REASON_NO_SLACK);
  result = run_phase(turn, TOOL_PRE, NULL);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_run(&result, "guard", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_int_equal(again.calls + guard.calls, 0);
  tp_turn_end(turn);
  latch_hit(&leave);
  close_runtime(runtime);
}

/* A deferred run that is never completed holds its permit, like a function that does not return. */
TEST(deferral_that_is_never_completed_blocks_until_its_token_ends) {
  tp_runtime *runtime = open_runtime(NULL);
  act guard = {.kind = TP_ANSWER_ALLOW, .defers = true};
  hook h = {
      .id = "guard", .phase = TOOL_PRE, .ctx = &guard, .slow = true, .sub = {.limit_ms = 10, .max_concurrent = 1}};
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
  assert_run(&result, "guard", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  result = run_phase(turn, TOOL_PRE, NULL);
  assert_run(&result, "guard", TP_STATE_FAILED, TP_REASON_NO_PERMIT); /* at once: its turn has no limit */
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(guard.calls, 1);
  const tp_outcome late = {.struct_size = sizeof late, .kind = TP_ANSWER_ALLOW};
  assert_int_equal(tp_token_complete(guard.token, &late, NULL), TP_ERR_STALE);
  guard.defers = false;
  for (int i = 0; i < 100; i++) { /* a loaded machine may need more than 10 ms for a wake-up */
    result = run_phase(turn, TOOL_PRE, NULL);
    if (result.outcome == TP_OK) break;
    await_abandoned(runtime);
  }
  assert_int_equal(result.outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(hung_guard_blocks_and_heals_without_a_restart) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  act guard = {.kind = TP_ANSWER_ALLOW, .waits_for = &leave};
  add_hooks(
      runtime,
      &(hook){
          .id = "guard", .phase = TOOL_PRE, .ctx = &guard, .slow = true, .sub = {.limit_ms = 10, .max_concurrent = 2}},
      1);
  tp_turn *turn = begin_bare(runtime, 0);
  for (int i = 0; i < 4; i++) {
    tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    assert_string_equal(result.subscription, "guard");
    if (i < 2) assert_run(&result, "guard", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    else assert_run(&result, "guard", TP_STATE_FAILED, TP_REASON_NO_PERMIT); /* at once */
  }
  assert_int_equal(tp_runtime_leaks(runtime, NULL, NULL), 2);
  latch_hit(&leave); /* cured */
  await_abandoned(runtime);
  tp_phase_result result = {0};
  for (int i = 0; i < 100; i++) { /* a loaded machine may need more than 10 ms for a wake-up */
    result = run_phase(turn, TOOL_PRE, NULL);
    if (result.outcome == TP_OK) break;
    await_abandoned(runtime);
  }
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(result.verdict, TP_VERDICT_ALLOW);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* There is one thread. A handler that waited for it until its limit was never called, and one that waited to be tried
 * again is not called again. */
TEST(attempts_of_a_record_are_calls) {
  tp_runtime *runtime =
      open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .handler_threads = 1});
  act first = {.kind = TP_ANSWER_FAILED, .retryable = true}, holds = {.sleeps_ms = 80}, never = {0};
  const tp_subscription limited = {
      .execution = TP_EXECUTION_DEADLINE, .limit_ms = 30, .attempts = 4, .backoff = TP_BACKOFF_FIXED, .backoff_ms = 1};
  hook hooks[] = {{.id = "first", .phase = GATHER, .ctx = &first, .slow = true, .idempotent = true, .sub = limited},
                  {.id = "holds", .phase = GATHER, .ctx = &holds, .slow = true},
                  {.id = "never", .phase = GATHER, .ctx = &never, .slow = true, .idempotent = true, .sub = limited}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_run(&result, "first", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_run(&result, "never", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_int_equal(run_of(&result, "first").attempts, first.calls);
  assert_true(first.calls == 0 || run_of(&result, "first").started_ns > 0);
  assert_int_equal(run_of(&result, "never").attempts, never.calls);
  assert_int_equal(run_of(&result, "never").limit_ms, 30);
  assert_int_equal(run_of(&result, "holds").attempts, 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

static bool name_leak(void *ctx, const tp_leak *leak) {
  char *names = ctx;
  strcat(names, leak->subscription);
  strcat(names, leak->phase == GATHER && leak->running_ms >= 0 ? ";" : "?");
  return true;
}

static bool stop_at_once(void *ctx, const tp_leak *leak) {
  int *calls = ctx;
  (*calls)++;
  assert_int_equal(leak->struct_size, sizeof *leak);
  return false;
}

TEST(leaks_are_named) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  act one = {.waits_for = &leave}, two = {.waits_for = &leave}, fine = {0};
  hook hooks[] = {{.id = "one", .phase = GATHER, .ctx = &one, .slow = true, .sub = {.limit_ms = 10}},
                  {.id = "two", .phase = GATHER, .ctx = &two, .slow = true, .after = "one", .sub = {.limit_ms = 10}},
                  {.id = "fine", .phase = GATHER, .ctx = &fine, .slow = true}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, GATHER, NULL);
  char names[128] = "";
  assert_int_equal(tp_runtime_leaks(runtime, name_leak, names), 2);
  assert_string_equal(names, "one;two;");
  int calls = 0;
  assert_int_equal(tp_runtime_leaks(runtime, stop_at_once, &calls), 2);
  assert_int_equal(calls, 1);
  tp_turn_end(turn);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 1000, &report, NULL), TP_OK);
  assert_int_equal(report.leaks, 2);
  assert_false(report.complete);
  latch_hit(&leave);
  close_runtime(runtime);
}

/* A handler answers around its deadline: there is always exactly one outcome, and the merged result agrees with it. */
TEST(answer_around_the_deadline_has_exactly_one_outcome) {
  const tp_runtime_options options = {.struct_size = sizeof options, .no_breakers = true};
  tp_runtime *runtime = open_runtime(&options);
  act edge = {.sleeps_ms = 2, .emits = &words, .emit_count = 1};
  add_hooks(runtime,
            &(hook){.id = "edge",
                    .phase = GATHER,
                    .ctx = &edge,
                    .slow = true,
                    .sub = {.execution = TP_EXECUTION_DEADLINE, .limit_ms = 2}},
            1);
  int answered = 0, timed_out = 0;
  for (int i = 0; i < 300; i++) {
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    tp_run_record run = run_of(&result, "edge");
    size_t merged = tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT);
    if (run.state == TP_STATE_SUCCEEDED) {
      assert_int_equal(merged, 1);
      answered++;
    } else if (run.reason == TP_REASON_TIMEOUT) {
      assert_int_equal(run.state, TP_STATE_TIMED_OUT);
      assert_int_equal(merged, 0);
      timed_out++;
    } else {
      assert_int_equal(run.reason, TP_REASON_NO_PERMIT); /* all sixteen are still on their way home */
    }
    tp_turn_end(turn);
  }
  assert_true(answered + timed_out > 0);
  close_runtime(runtime);
}

/* ---- whose time it is ---- */

enum { ALLOCATION_MS = 20 };

typedef struct slow_memory {
  pthread_t owner;
  bool armed;            /* the owner's: an allocation takes its time */
  int64_t last_ended_ns; /* of those */
} slow_memory;

static void *take_long(void *ctx, size_t size) {
  slow_memory *d = ctx;
  if (pthread_equal(d->owner, pthread_self()) && d->armed) {
    sleep_ms(ALLOCATION_MS);
    d->last_ended_ns = now_ns();
  }
  return malloc(size);
}

static void release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

static tp_answer disarm(void *ctx, tp_call *call) {
  (void)call;
  ((slow_memory *)ctx)->armed = false;
  return TP_ANSWER_DONE;
}

/* The first attempt allocates memory, so handing it to a thread takes long here. That time used to count for the next
 * handler. */
TEST(handing_a_sibling_to_a_thread_is_not_the_time_of_the_next_handler) {
  slow_memory memory = {.owner = pthread_self()};
  act sibling = {0};
  tp_runtime_options options = {.struct_size = sizeof options,
                                .allocator = {.alloc = take_long, .release = release, .ctx = &memory}};
  tp_runtime *runtime = open_runtime(&options);
  hook hooks[] = {{.id = "a.sibling", .phase = GATHER, .ctx = &sibling, .slow = true},
                  {.id = "b.next", .phase = GATHER, .run = disarm, .ctx = &memory}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, TP_PHASE_TURN_INTAKE, NULL); /* its memory is there */
  memory.armed = true;
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  memory.armed = false;
  assert_true(memory.last_ended_ns > 0); /* else nothing is shown */
  const int64_t started_ns = run_of(&result, "b.next").started_ns;
  assert_true(started_ns > memory.last_ended_ns - ALLOCATION_MS * 1000000 / 2);
  tp_turn_end(turn);
  close_runtime(runtime);
}
