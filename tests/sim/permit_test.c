/* SPDX-License-Identifier: Apache-2.0
 *
 * Permits of a subscription in a real engine, in virtual time: a call that deferred keeps its permit for longer than
 * idle threads live, and the call that waits for the permit still runs. */
#include <string.h>

#include "tests/support/test.h"
#include "runtime/os/os.h"
#include "runtime/os/sim.h"
#include "turnphase/turnphase.h"

enum {
  SEEDS = 40,
  CALLERS = 2,
  LINE = 8,
  RUN_MS = 5000,
  RUN_LIMIT_MS = 8000,
  KEPT_MS = 12000,
  LIMIT_MS = 29000,
  PHASE = TP_PHASE_TURN_PRE_PROMPT_CONTEXT
};

typedef struct world {
  tp_runtime *runtime;
  tp_token tokens[CALLERS]; /* in the order of the calls */
  uint32_t calls, ended, succeeded;
} world;

static tp_answer defer_each(void *ctx, tp_call *call) {
  world *w = ctx;
  static const tp_deferral deferral = {.struct_size = sizeof deferral};
  return tp_call_defer(call, &deferral, &w->tokens[w->calls++]);
}

static bool add(world *w) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  static const tp_phase_id phase = PHASE;
  tp_edit *edit = NULL;
  const tp_handler handler = {
      .struct_size = sizeof handler, .id = "h", .run = defer_each, .ctx = w, .phases = &phase, .phase_count = 1};
  const tp_subscription sub = {.struct_size = sizeof sub,
                               .id = "h",
                               .handler = "h",
                               .phase = phase,
                               .limit_ms = LIMIT_MS,
                               .max_concurrent = 1,
                               .failure = TP_FAILURE_BEST_EFFORT};
  return tp_edit_begin(w->runtime, &owner, &edit, NULL) == TP_OK &&
         tp_edit_add_handler(edit, &handler, NULL) == TP_OK && tp_edit_add_subscription(edit, &sub, NULL) == TP_OK &&
         tp_edit_commit(edit, NULL, NULL) == TP_OK;
}

/* Only one fiber runs at a time: what they count needs no lock. */
static void run_phase(void *arg) {
  world *w = arg;
  tp_turn *turn = NULL;
  static const tp_turn_request request = {.struct_size = sizeof request};
  static const tp_phase_input input = {.struct_size = sizeof input};
  tp_phase_result result = {.struct_size = sizeof result};
  if (tp_turn_begin_bare(w->runtime, &request, &turn, NULL) == TP_OK) {
    if (tp_phase_run(turn, PHASE, &input, &result, NULL) == TP_OK)
      w->succeeded += tp_phase_result_run(&result, 0)->state == TP_STATE_SUCCEEDED;
    tp_turn_end(turn);
  }
  w->ended++;
}

static void play(void *arg) {
  world *w = arg;
  static const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  const tp_runtime_options options = {
      .struct_size = sizeof options, .allocator = tp__sim_allocator(), .handler_threads = 2};
  tp__thread *callers[CALLERS] = {NULL};
  if (tp_runtime_new(&options, &w->runtime, NULL) != TP_OK) return;
  bool added = add(w);
  for (int i = 0; added && i < CALLERS; i++)
    if (tp__thread_start(&options.allocator, "caller", run_phase, w, &callers[i]) != TP_OK) added = false;
  for (uint32_t i = 0; added && i < CALLERS; i++) {
    tp__sim_sleep_ns((int64_t)KEPT_MS * TP__NS_PER_MS);
    if (w->calls == i + 1) (void)!tp_token_complete(w->tokens[i], &done, NULL);
  }
  for (int i = 0; i < CALLERS; i++)
    if (callers[i]) tp__thread_join(callers[i]);
  tp_runtime_free(w->runtime);
}

TEST(call_that_waits_for_a_permit_runs_after_all_threads_have_gone) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    world w = {0};
    const tp__sim_options options = {
        .seed = seed, .policy = seed % 2 ? TP__SIM_RANDOM : TP__SIM_PCT, .clock_jump_inverse = UINT32_MAX};
    tp__sim_report report = tp__sim_run(&options, play, &w);
    if (report.end != TP__SIM_DONE) fail_msg("seed %llu: %s", (unsigned long long)seed, report.message);
    assert_int_equal(w.ended, CALLERS);
    assert_int_equal(w.calls, CALLERS);
    assert_int_equal(w.succeeded, CALLERS);
  }
}

/* ---- a line before a permit: limits begin when the runs do ---- */

static tp_answer take_time(void *ctx, tp_call *call) {
  (void)call;
  world *w = ctx;
  tp__sim_sleep_ns((int64_t)RUN_MS * TP__NS_PER_MS);
  w->calls++;
  return TP_ANSWER_DONE;
}

static void observe(void *arg) {
  world *w = arg;
  tp_turn *turn = NULL;
  static const tp_turn_request request = {.struct_size = sizeof request};
  static const tp_phase_input input = {.struct_size = sizeof input};
  tp_phase_result result = {.struct_size = sizeof result};
  if (tp_turn_begin_bare(w->runtime, &request, &turn, NULL) == TP_OK) {
    w->succeeded += tp_phase_run(turn, TP_PHASE_TOOL_POST, &input, &result, NULL) == TP_OK;
    tp_turn_end(turn);
  }
  w->ended++;
}

typedef struct line {
  world w;
  tp_execution execution;
} line;

static void stand_in_line(void *arg) {
  line *l = arg;
  const tp_runtime_options options = {.struct_size = sizeof options, .allocator = tp__sim_allocator()};
  const tp_hook one = {.struct_size = sizeof one,
                       .id = "one",
                       .phase = "tool.post",
                       .run = take_time,
                       .ctx = &l->w,
                       .execution = l->execution,
                       .limit_ms = RUN_LIMIT_MS,
                       .max_concurrent = 1};
  tp_drain_report report = {.struct_size = sizeof report};
  tp__thread *callers[LINE] = {NULL};
  if (tp_runtime_new(&options, &l->w.runtime, NULL) != TP_OK) return;
  bool ok = tp_hook_add(l->w.runtime, &one, NULL) == TP_OK;
  for (int i = 0; ok && i < LINE; i++)
    ok = tp__thread_start(&options.allocator, "caller", observe, &l->w, &callers[i]) == TP_OK;
  for (int i = 0; i < LINE; i++)
    if (callers[i]) tp__thread_join(callers[i]);
  if (tp_runtime_drain(l->w.runtime, 10 * LINE * RUN_MS, &report, NULL) != TP_OK) return;
  tp_runtime_free(l->w.runtime);
}

TEST(all_that_stand_before_a_permit_run_with_their_own_limit) {
  static const tp_execution executions[] = {TP_EXECUTION_BLOCKING, TP_EXECUTION_FIRE_AND_RECORD};
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    line l = {.execution = executions[seed % 2]};
    const tp__sim_options options = {.seed = seed, .policy = TP__SIM_RANDOM, .clock_jump_inverse = UINT32_MAX};
    tp__sim_report report = tp__sim_run(&options, stand_in_line, &l);
    if (report.end != TP__SIM_DONE) fail_msg("seed %llu: %s", (unsigned long long)seed, report.message);
    assert_int_equal(l.w.ended, LINE);
    assert_int_equal(l.w.succeeded, LINE);
    assert_int_equal(l.w.calls, LINE);
  }
}
