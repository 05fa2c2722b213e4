/* SPDX-License-Identifier: Apache-2.0
 *
 * The resources that functions which do not return may hold: threads up to one cap, memory up to another; the reports
 * when a cap is reached, and how a host can go on. */
#include "tests/support/test.h"
#include "runtime/exec/runtime.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, GUARD = TP_PHASE_TOOL_PRE, LONG_MS = 60000, NODES = 32 };

static const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};

/* ---- functions that hang until they may return ---- */

typedef struct hanging {
  latch entered, may_return;
} hanging;

static tp_answer hang(void *ctx, tp_call *call) {
  hanging *h = ctx;
  latch_hit(&h->entered);
  latch_wait(&h->may_return, 1);
  (void)call;
  return TP_ANSWER_DONE;
}

static tp_answer answer(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_DONE;
}

static _Atomic int logged;

static void count_log(void *ctx, const tp_log_record *record) {
  (void)ctx;
  if (record->level == TP_LOG_ERROR && strstr(record->message, "hold every thread")) logged++;
}

/* One handler thread, and as many more for abandoned ones as it says. */
static tp_runtime *open_small(uint32_t abandoned_max, hanging *h) {
  tp_runtime_options options = {
      .struct_size = sizeof options, .handler_threads = 1, .abandoned_threads_max = abandoned_max, .log = count_log};
  tp_runtime *runtime = open_runtime(&options);
  *h = (hanging){LATCH, LATCH};
  logged = 0;
  add_hooks(runtime,
            (hook[]){{.id = "hangs",
                      .phase = GATHER,
                      .run = hang,
                      .ctx = h,
                      .slow = true,
                      .sub = {.limit_ms = 20, .max_concurrent = 100}},
                     {.id = "guard", .phase = GUARD, .run = answer, .slow = true, .sub = {.limit_ms = LONG_MS}}},
            2);
  return runtime;
}

/* Loses one thread after the other. */
static void lose(tp_runtime *runtime, hanging *h, int count) {
  for (int i = 0; i < count; i++) {
    int before = latch_count(&h->entered);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    latch_wait(&h->entered, before + 1);
    tp_turn_end(turn);
  }
}

static void assert_guard(tp_runtime *runtime, tp_state state, tp_reason reason) {
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GUARD, NULL);
  assert_run(&result, "guard", state, reason);
  assert_int_equal(result.outcome, state == TP_STATE_SUCCEEDED ? TP_OK : TP_ERR_DENIED);
  tp_turn_end(turn);
}

static uint64_t waiting(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats.attempts_waiting;
}

static uint64_t threads(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats.handler_threads;
}

static void close_when_returned(tp_runtime *runtime, hanging *h) {
  latch_hit(&h->may_return);
  close_runtime(runtime);
}

/* ---- threads ---- */

TEST(abandoned_functions_have_so_many_threads_more_and_then_handlers_fail) {
  for (uint32_t cap = 1; cap <= 3; cap++) {
    hanging h;
    tp_runtime *runtime = open_small(cap, &h);
    lose(runtime, &h, (int)cap);
    assert_guard(runtime, TP_STATE_SUCCEEDED, TP_REASON_NONE);
    lose(runtime, &h, 1);
    assert_int_equal(threads(runtime), cap + 1);
    assert_guard(runtime, TP_STATE_FAILED, TP_REASON_NO_WORKER);
    assert_guard(runtime, TP_STATE_FAILED, TP_REASON_NO_WORKER);
    assert_int_equal(threads(runtime), cap + 1);
    assert_int_equal(logged, 1);
    close_when_returned(runtime, &h);
  }
}

TEST(handlers_run_again_when_a_function_has_returned) {
  hanging h;
  tp_runtime *runtime = open_small(0, &h);
  lose(runtime, &h, 2);
  assert_guard(runtime, TP_STATE_FAILED, TP_REASON_NO_WORKER);
  latch_hit(&h.may_return);
  await_abandoned(runtime);
  assert_guard(runtime, TP_STATE_SUCCEEDED, TP_REASON_NONE);
  close_runtime(runtime);
}

TEST(host_grants_more_threads_while_functions_hang) {
  hanging h;
  tp_runtime *runtime = open_small(0, &h);
  lose(runtime, &h, 2);
  assert_guard(runtime, TP_STATE_FAILED, TP_REASON_NO_WORKER);
  assert_int_equal(tp_subscription_kill(runtime, "hangs", true, NULL), TP_OK);
  assert_int_equal(tp_runtime_set_abandoned_max(runtime, 2, 0, NULL), TP_OK);
  assert_guard(runtime, TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_int_equal(tp_subscription_kill(runtime, "hangs", false, NULL), TP_OK);
  lose(runtime, &h, 1);
  assert_guard(runtime, TP_STATE_FAILED, TP_REASON_NO_WORKER);
  assert_int_equal(logged, 2); /* once for each time that they run out */
  close_when_returned(runtime, &h);
}

TEST(inline_handlers_go_on_without_threads) {
  hanging h;
  tp_runtime *runtime = open_small(0, &h);
  add_hooks(runtime, &(hook){.id = "inline", .phase = TP_PHASE_TURN_PRE_POLICY, .run = answer}, 1);
  lose(runtime, &h, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_PRE_POLICY, NULL);
  assert_run(&result, "inline", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  tp_turn_end(turn);
  close_when_returned(runtime, &h);
}

typedef struct ran {
  latch ended;
  tp_phase_result result;
} ran;

static void phase_ended(void *ctx, const tp_phase_result *result) {
  ran *r = ctx;
  r->result = *result;
  latch_hit(&r->ended);
}

static void submit(tp_turn *turn, uint32_t phase, ran *r) {
  tp_phase_input input = {.struct_size = sizeof input, .budget_ms = LONG_MS};
  *r = (ran){.ended = LATCH};
  assert_int_equal(tp_phase_submit(turn, phase, &input, phase_ended, r, NULL), TP_OK);
}

/* Before, it waited for its own deadline and ended as late. */
TEST(what_is_queued_when_the_last_thread_is_lost_fails_with_the_reason) {
  hanging h;
  tp_runtime *runtime = open_small(0, &h);
  lose(runtime, &h, 1);
  tp_turn *last = begin_bare(runtime, 0), *behind = begin_bare(runtime, 0);
  ran lost, queued;
  submit(last, GATHER, &lost);
  latch_wait(&h.entered, 2); /* the last thread hangs, and is not given up yet */
  submit(behind, GUARD, &queued);
  latch_wait(&lost.ended, 1);
  latch_wait(&queued.ended, 1);
  assert_run(&queued.result, "guard", TP_STATE_FAILED, TP_REASON_NO_WORKER);
  tp_turn_end(last);
  tp_turn_end(behind);
  close_when_returned(runtime, &h);
}

/* ---- what waits is counted ---- */

/* Nothing shows that an attempt has begun to wait but the counter itself. */
static void wait_until_waiting(tp_runtime *runtime, uint64_t count) {
  for (int i = 0; waiting(runtime) != count; i++) {
    if (i == 20000) fail_msg("%llu wait, not %llu", (unsigned long long)waiting(runtime), (unsigned long long)count);
    sleep_ms(1);
  }
}

/* Three turns run a handler that hangs until it is released; one of them at a time. */
static void assert_counts_two_of_three(const tp_runtime_options *options, uint32_t max_concurrent) {
  tp_runtime *runtime = open_runtime(options);
  hanging h = {LATCH, LATCH};
  const tp_subscription sub = {.limit_ms = LONG_MS, .max_concurrent = max_concurrent};
  add_hooks(runtime, &(hook){.id = "hangs", .phase = GATHER, .run = hang, .ctx = &h, .slow = true, .sub = sub}, 1);
  assert_int_equal(waiting(runtime), 0);
  tp_turn *turns[3];
  ran runs[3];
  for (int i = 0; i < 3; i++) {
    turns[i] = begin_bare(runtime, 0);
    submit(turns[i], GATHER, &runs[i]);
    latch_wait(&h.entered, 1); /* the first one runs before another is there */
    wait_until_waiting(runtime, (uint64_t)i);
  }
  tp_turn_cancel(turns[2]); /* one that is given up waits no more */
  latch_wait(&runs[2].ended, 1);
  assert_int_equal(waiting(runtime), 1);
  latch_hit(&h.may_return);
  latch_wait(&runs[0].ended, 1);
  latch_wait(&runs[1].ended, 1);
  assert_int_equal(waiting(runtime), 0);
  for (int i = 0; i < 3; i++) tp_turn_end(turns[i]);
  close_runtime(runtime);
}

TEST(attempts_that_wait_for_a_thread_are_counted) {
  assert_counts_two_of_three(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .handler_threads = 1},
                             100);
}

TEST(attempts_that_wait_for_a_permit_are_counted) {
  assert_counts_two_of_three(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .handler_threads = 8}, 1);
}

/* ---- memory ---- */

typedef struct deferrer {
  tp_token tokens[NODES];
  _Atomic uint32_t count;
} deferrer;

static tp_answer defer(void *ctx, tp_call *call) {
  deferrer *d = ctx;
  tp_token token;
  tp_answer outcome = tp_call_defer(call, NULL, &token);
  d->tokens[d->count++] = token;
  return outcome;
}

static uint64_t pinned(tp_runtime *runtime) {
  return tp__a64_load_acquire(&tp__runtime_counters(runtime)->abandoned_bytes);
}

static tp_runtime *open_deferring(deferrer *d, const tp_runtime_options *options, char ids[NODES][8]) {
  tp_runtime *runtime = open_runtime(options);
  static hook hooks[NODES];
  for (int i = 0; i < NODES; i++) {
    snprintf(ids[i], sizeof ids[i], "d%d", i);
    hooks[i] = (hook){.id = ids[i], .phase = GATHER, .run = defer, .ctx = d, .sub = {.limit_ms = 10}};
  }
  add_hooks(runtime, hooks, NODES);
  d->count = 0;
  return runtime;
}

TEST(abandoned_attempts_of_one_entry_pin_its_block_once_and_give_all_of_it_back) {
  static deferrer d;
  static char ids[NODES][8];
  tp_runtime *runtime = open_deferring(&d, NULL, ids);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_run(&result, ids[0], TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  tp_turn_end(turn);
  uint64_t all = pinned(runtime), left = all, each = 0;
  for (int i = 0; i < NODES - 1; i++) {
    assert_int_equal(tp_token_complete(d.tokens[i], &done, NULL), TP_ERR_STALE);
    uint64_t now = pinned(runtime);
    if (i > 0) assert_int_equal(left - now, each);
    each = left - now;
    left = now;
  }
  assert_true(each > 0);
  assert_true(left > each); /* the entry's block, still, beside the last attempt's own */
  assert_int_equal(tp_token_complete(d.tokens[NODES - 1], &done, NULL), TP_ERR_STALE);
  assert_int_equal(pinned(runtime), 0);
  close_runtime(runtime);
}

TEST(attempts_fail_for_want_of_memory_until_it_is_freed_or_more_is_granted) {
  for (int grants = 0; grants < 2; grants++) {
    static deferrer d;
    static char ids[NODES][8];
    tp_runtime_options options = {.struct_size = sizeof options, .abandoned_bytes_max = 1};
    tp_runtime *runtime = open_deferring(&d, &options, ids);
    add_hooks(runtime, &(hook){.id = "guard", .phase = GUARD, .run = answer, .slow = true}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    (void)run_phase(turn, GATHER, NULL);
    tp_turn_end(turn);
    assert_guard(runtime, TP_STATE_FAILED, TP_REASON_NO_MEMORY);
    if (grants) assert_int_equal(tp_runtime_set_abandoned_max(runtime, 0, 1 << 30, NULL), TP_OK);
    for (int i = 0; i < NODES && !grants; i++)
      assert_int_equal(tp_token_complete(d.tokens[i], &done, NULL), TP_ERR_STALE);
    assert_guard(runtime, TP_STATE_SUCCEEDED, TP_REASON_NONE);
    close_runtime(runtime);
  }
}

TEST(where_threads_are_gone_the_reason_is_no_worker_whatever_memory_says) {
  hanging h;
  tp_runtime *runtime = open_small(0, &h);
  lose(runtime, &h, 2);
  assert_int_equal(tp_runtime_set_abandoned_max(runtime, 0, 1, NULL), TP_OK);
  assert_guard(runtime, TP_STATE_FAILED, TP_REASON_NO_WORKER);
  close_when_returned(runtime, &h);
}
