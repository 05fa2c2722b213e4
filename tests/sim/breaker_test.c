/* SPDX-License-Identifier: Apache-2.0
 *
 * Breakers of subscriptions in a real engine, in virtual time, over some seeds: a host takes notes, the test judges. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "runtime/os/sim.h"
#include "turnphase/turnphase.h"

enum { SEEDS = 20, FILLERS = 12, PHASE = TP_PHASE_TOOL_PRE, GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT };

typedef struct world {
  tp_runtime *runtime;
  uint32_t calls;
  bool fails, every_other; /* how the handler behaves */
  int64_t hangs_ms;        /* how long the first call hangs */
  tp_answer answer;        /* 0: DONE, or as above */
  bool is_retryable;
  uint32_t attempts, limit_ms; /* those of the subscription */
  uint32_t fillers;            /* other subscriptions of the phase, which succeed */
  uint32_t opened, closed;     /* log lines */
  char wrong[256];             /* the first thing that was not as it should be */
} world;

#define EXPECT(world_, truth)                                                                                   \
  do {                                                                                                          \
    if (!(truth) && !(world_)->wrong[0])                                                                        \
      snprintf((world_)->wrong, sizeof(world_)->wrong, "%s:%d: %s, after %u calls", __func__, __LINE__, #truth, \
               (world_)->calls);                                                                                \
  } while (0)

static tp_answer run_handler(void *ctx, tp_call *call) {
  world *w = ctx;
  w->calls++;
  if (w->hangs_ms) tp__sim_sleep_ns(w->hangs_ms * TP__NS_PER_MS);
  if (w->answer) return w->answer;
  if (w->is_retryable) return tp_call_fail_retryable(call, 7, "it is broken");
  if (w->fails && (!w->every_other || w->calls % 2 == 1)) return tp_call_fail(call, 7, "it is broken");
  return TP_ANSWER_DONE;
}

static void log_line(void *ctx, const tp_log_record *record) {
  world *w = ctx;
  w->opened += strstr(record->message, "breaker opened of hook h:") != NULL;
  w->closed += strstr(record->message, "breaker closed of hook h:") != NULL;
}

/* ---- a host ---- */

static void open_world(world *w, bool no_breakers) {
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = tp__sim_allocator(),
                                      .engine_workers = 3,
                                      .handler_threads = 1,
                                      .log = log_line,
                                      .log_ctx = w,
                                      .no_breakers = no_breakers};
  if (tp_runtime_new(&options, &w->runtime, NULL) != TP_OK) EXPECT(w, false);
}

static tp_answer run_filler(void *ctx, tp_call *call) {
  (void)call;
  if (((world *)ctx)->fillers == 1) tp__sim_sleep_ns(50 * TP__NS_PER_MS); /* it occupies the only thread */
  return TP_ANSWER_DONE;
}

static tp_status add_filler(world *w, tp_edit *edit, uint32_t phase, tp_placement placement, uint32_t i) {
  char id[16];
  snprintf(id, sizeof id, "f%u", i);
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = id,
                              .run = run_filler,
                              .ctx = w,
                              .phases = &phase,
                              .phase_count = 1,
                              .placement = placement};
  const tp_subscription sub = {.struct_size = sizeof sub,
                               .id = id,
                               .handler = id,
                               .phase = phase,
                               .priority = -100,
                               .failure = TP_FAILURE_BEST_EFFORT};
  tp_status status = tp_edit_add_handler(edit, &handler, NULL);
  return status == TP_OK ? tp_edit_add_subscription(edit, &sub, NULL) : status;
}

static void add(world *w, uint32_t phase, tp_placement placement, tp_execution execution, tp_failure failure) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit = NULL;
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = "h",
                              .run = run_handler,
                              .ctx = w,
                              .phases = &phase,
                              .phase_count = 1,
                              .idempotent = w->attempts > 0,
                              .placement = placement};
  const tp_subscription sub = {.struct_size = sizeof sub,
                               .attempts = w->attempts,
                               .limit_ms = w->limit_ms,
                               .id = "h",
                               .handler = "h",
                               .phase = phase,
                               .execution = execution,
                               .failure = failure};
  tp_status status = tp_edit_begin(w->runtime, &owner, &edit, NULL);
  if (status == TP_OK) status = tp_edit_add_handler(edit, &handler, NULL);
  if (status == TP_OK) status = tp_edit_add_subscription(edit, &sub, NULL);
  if (placement == TP_PLACEMENT_PARALLEL && execution == TP_EXECUTION_BLOCKING) w->fillers = FILLERS;
  for (uint32_t i = 0; i < w->fillers && status == TP_OK; i++) status = add_filler(w, edit, phase, placement, i);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
  EXPECT(w, status == TP_OK);
}

typedef struct outcome {
  tp_status status;
  tp_run_record run; /* the strings are not valid any more */
  tp_reason why;
} outcome;

/* A turn of its own, as of a server. */
static outcome run_phase(world *w, uint32_t phase) {
  outcome o = {.status = TP_ERR_INTERNAL};
  tp_turn *turn = NULL;
  const tp_turn_request request = {.struct_size = sizeof request};
  if (tp_turn_begin_bare(w->runtime, &request, &turn, NULL) != TP_OK) return o;
  const tp_phase_input input = {.struct_size = sizeof input};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_status status = tp_phase_run(turn, phase, &input, &result, NULL);
  EXPECT(w, status == TP_OK && result.run_count == 1 + w->fillers);
  for (uint32_t i = 0; status == TP_OK && i < result.run_count; i++)
    if (strcmp(tp_phase_result_run(&result, i)->subscription, "h") == 0)
      o = (outcome){.status = result.outcome, .run = *tp_phase_result_run(&result, i), .why = result.why};
  tp_turn_end(turn);
  return o;
}

static bool is_refused(const outcome *o) {
  return o->run.state == TP_STATE_FAILED && o->run.reason == TP_REASON_BREAKER_OPEN && o->run.attempts == 0;
}

static tp_runtime_stats stats_of(const world *w) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(w->runtime, &stats);
  return stats;
}

static bool keep_info(void *ctx, const tp_subscription_info *info) {
  if (strcmp(info->id, "h") != 0) return true;
  *(bool *)ctx = info->breaker_open && !info->tripped;
  return false;
}

static bool is_shown_open(const world *w) {
  bool open = false;
  (void)!tp_runtime_subscriptions(w->runtime, NULL, keep_info, &open, NULL);
  return open;
}

static void pass_ms(int64_t ms) { tp__sim_sleep_ns(ms * TP__NS_PER_MS); }

/* Fails calls until the breaker opens. */
static void fail_until_open(world *w, uint32_t phase) {
  w->fails = true;
  for (uint32_t i = 0; i < 20; i++) {
    outcome o = run_phase(w, phase);
    EXPECT(w, o.run.reason == TP_REASON_ERROR && o.run.attempts == 1);
  }
  EXPECT(w, w->calls == 20 && w->opened == 1);
}

static void for_each_placement(void (*play)(world *w, tp_placement placement), world *w, tp_placement placement) {
  open_world(w, false);
  if (!w->wrong[0]) play(w, placement);
  tp_runtime_free(w->runtime);
}

typedef struct play {
  void (*run)(world *w, tp_placement placement);
  tp_placement placement;
  world w;
} play;

static void main_of_run(void *arg) {
  play *p = arg;
  for_each_placement(p->run, &p->w, p->placement);
}

static void judge(void (*run)(world *w, tp_placement placement)) {
  static const tp_placement placements[] = {TP_PLACEMENT_INLINE, TP_PLACEMENT_THREAD, TP_PLACEMENT_PARALLEL};
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    for (int i = 0; i < 3; i++) {
      play p = {.run = run, .placement = placements[i]};
      const tp__sim_options options = {
          .seed = seed, .policy = seed % 2 ? TP__SIM_RANDOM : TP__SIM_PCT, .clock_jump_inverse = UINT32_MAX};
      tp__sim_report report = tp__sim_run(&options, main_of_run, &p);
      if (p.w.wrong[0]) fail_msg("seed %llu, placement %d: %s", (unsigned long long)seed, i, p.w.wrong);
      if (report.end != TP__SIM_DONE) fail_msg("seed %llu: %s", (unsigned long long)seed, report.message);
    }
  }
}

/* ---- what is expected ---- */

static void play_optional(world *w, tp_placement placement) {
  add(w, GATHER, placement, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  for (int i = 0; i < 5; i++) EXPECT(w, run_phase(w, GATHER).run.state == TP_STATE_SUCCEEDED);
  w->calls = 0;
  fail_until_open(w, GATHER);
  EXPECT(w, is_shown_open(w) && stats_of(w).breakers_opened == 1);
  outcome o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && o.status == TP_OK); /* with best effort the phase goes on */
  pass_ms(5000);
  EXPECT(w, !is_shown_open(w));
  EXPECT(w, run_phase(w, GATHER).run.reason == TP_REASON_ERROR); /* the probe */
  o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && w->calls == 21);
  pass_ms(9000);
  o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o)); /* the time was doubled */
  pass_ms(1100);
  w->fails = false;
  EXPECT(w, run_phase(w, GATHER).run.state == TP_STATE_SUCCEEDED && w->closed == 1);
  for (int i = 0; i < 30; i++) EXPECT(w, run_phase(w, GATHER).run.state == TP_STATE_SUCCEEDED);
  EXPECT(w, w->calls == 52 && stats_of(w).breakers_opened == 1 && w->opened == 2); /* opened once more by the failed
                                                                                      probe */
}

TEST(failing_handler_is_left_alone_and_probed) { judge(play_optional); }

static void play_guard(world *w, tp_placement placement) {
  add(w, PHASE, placement, TP_EXECUTION_BLOCKING, TP_FAILURE_REQUIRED);
  fail_until_open(w, PHASE);
  outcome o = run_phase(w, PHASE);
  EXPECT(w, is_refused(&o) && o.status == TP_ERR_DENIED && o.why == TP_REASON_BREAKER_OPEN);
  EXPECT(w, tp_subscription_trip(w->runtime, "h", false, NULL) == TP_OK); /* the operator has repaired the handler */
  w->fails = false;
  EXPECT(w, !is_shown_open(w) && run_phase(w, PHASE).status == TP_OK && w->calls == 21);
}

TEST(guard_whose_breaker_is_open_denies_until_it_is_closed) { judge(play_guard); }

static void play_some(world *w, tp_placement placement) {
  add(w, GATHER, placement, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  w->fails = w->every_other = true;
  for (int i = 0; i < 21; i++) EXPECT(w, run_phase(w, GATHER).run.attempts == 1);
  outcome o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && w->calls == 21); /* eleven of twenty-one, counted from the first */
}

TEST(successes_count_too) { judge(play_some); }

static void play_seldom(world *w, tp_placement placement) {
  add(w, GATHER, placement, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  w->fails = true;
  for (int i = 0; i < 60; i++) { /* one failure each 600 ms: fewer than twenty in ten seconds */
    EXPECT(w, run_phase(w, GATHER).run.attempts == 1);
    pass_ms(600);
  }
  EXPECT(w, w->opened == 0);
}

TEST(what_fails_seldom_is_called_each_time) { judge(play_seldom); }

static void play_detached(world *w, tp_placement placement) {
  add(w, GATHER, placement, TP_EXECUTION_FIRE_AND_RECORD, TP_FAILURE_BEST_EFFORT);
  w->fails = true;
  for (uint32_t i = 1; i <= 20; i++) {
    EXPECT(w, run_phase(w, GATHER).run.state == TP_STATE_BACKGROUNDED);
    for (int looks = 0; looks < 100 && stats_of(w).failures < i; looks++) pass_ms(1);
  }
  EXPECT(w, w->calls == 20 && w->opened == 1);
  outcome o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && w->calls == 20); /* seen in the entry's own row */
  pass_ms(5100);
  w->fails = false;
  EXPECT(w, run_phase(w, GATHER).run.state == TP_STATE_BACKGROUNDED);
  for (int looks = 0; looks < 100 && w->closed == 0; looks++) pass_ms(1);
  EXPECT(w, w->calls == 21 && w->closed == 1);
}

TEST(detached_run_is_refused_where_it_is_started) { judge(play_detached); }

static void play_job(world *w, tp_placement placement) {
  add(w, TP_PHASE_TURN_POST_TURN, placement, TP_EXECUTION_BACKGROUND, TP_FAILURE_BEST_EFFORT);
  w->fails = true;
  for (uint32_t i = 1; i <= 20; i++) {
    EXPECT(w, run_phase(w, TP_PHASE_TURN_POST_TURN).run.state == TP_STATE_BACKGROUNDED);
    EXPECT(w, tp_jobs_wait(w->runtime, "", 60000, NULL) == TP_OK);
  }
  EXPECT(w, w->calls == 20 && w->opened == 1 && stats_of(w).jobs_dead == 20);
  w->fails = false;
  EXPECT(w, run_phase(w, TP_PHASE_TURN_POST_TURN).run.state == TP_STATE_BACKGROUNDED);     /* the job is stored all the
                                                                                          same */
  EXPECT(w, tp_jobs_wait(w->runtime, "", 4000, NULL) == TP_ERR_TIMEOUT && w->calls == 20); /* but it waits */
  EXPECT(w, tp_jobs_wait(w->runtime, "", 60000, NULL) == TP_OK && w->calls == 21 && w->closed == 1);
  EXPECT(w, stats_of(w).jobs_dead == 20);
}

TEST(job_is_stored_and_waits) { judge(play_job); }

/* Plays answers that are not allowed, and results that are no answers. */
static void play_wrong_answers(world *w, tp_placement placement) {
  add(w, GATHER, placement, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  for (int i = 0; i < 20; i++) {
    w->answer = i % 2 ? TP_ANSWER_DENY : (tp_answer)99;
    EXPECT(w, run_phase(w, GATHER).run.reason == (i % 2 ? TP_REASON_CAPABILITY : TP_REASON_MALFORMED));
  }
  outcome o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && w->calls == 20);
}

TEST(wrong_answers_are_failures) { judge(play_wrong_answers); }

static void play_retries(world *w, tp_placement placement) {
  w->attempts = 5;
  w->is_retryable = true;
  add(w, GATHER, placement, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  for (int i = 0; i < 4; i++) EXPECT(w, run_phase(w, GATHER).run.attempts == 5);
  outcome o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && w->calls == 20);
}

TEST(each_attempt_counts) { judge(play_retries); }

static void play_hangs(world *w, tp_placement placement) {
  if (placement != TP_PLACEMENT_THREAD) return;
  w->hangs_ms = 50;
  w->limit_ms = 10;
  add(w, GATHER, placement, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  for (int i = 0; i < 20; i++) {
    EXPECT(w, run_phase(w, GATHER).run.reason == TP_REASON_TIMEOUT);
    pass_ms(100);
  }
  outcome o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && w->calls == 20);
}

TEST(calls_that_take_too_long_count) { judge(play_hangs); }

/* While its probe runs, the breaker stays open, however long that takes, even when no call has ended since it
 * opened. */
static void play_slow_probe(world *w, tp_placement placement) {
  if (placement != TP_PLACEMENT_THREAD) return;
  w->limit_ms = 30000;
  add(w, GATHER, placement, TP_EXECUTION_FIRE_AND_RECORD, TP_FAILURE_BEST_EFFORT);
  w->fails = true;
  for (uint32_t i = 1; i <= 20; i++) {
    EXPECT(w, run_phase(w, GATHER).run.state == TP_STATE_BACKGROUNDED);
    for (int looks = 0; looks < 100 && stats_of(w).failures < i; looks++) pass_ms(1);
  }
  w->hangs_ms = 20000;
  pass_ms(13000);
  EXPECT(w, run_phase(w, GATHER).run.state == TP_STATE_BACKGROUNDED);
  pass_ms(4000); /* ten seconds and one after the opening's interval are over */
  outcome o = run_phase(w, GATHER);
  EXPECT(w, is_refused(&o) && w->calls == 21);
}

TEST(probe_that_takes_long_keeps_it_open) { judge(play_slow_probe); }

static void play_starved(world *w, tp_placement placement) {
  if (placement != TP_PLACEMENT_THREAD) return;
  w->fillers = 1;
  w->limit_ms = 10;
  add(w, GATHER, placement, TP_EXECUTION_DEADLINE, TP_FAILURE_BEST_EFFORT);
  for (int i = 0; i < 40; i++) EXPECT(w, run_phase(w, GATHER).run.reason == TP_REASON_TIMEOUT);
  EXPECT(w, w->calls == 0 && w->opened == 0);
}

TEST(time_that_is_spent_waiting_for_a_thread_does_not_count) { judge(play_starved); }

static void main_without(void *arg) {
  world *w = arg;
  open_world(w, true);
  add(w, GATHER, TP_PLACEMENT_INLINE, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  w->fails = true;
  for (int i = 0; i < 100; i++) EXPECT(w, run_phase(w, GATHER).run.reason == TP_REASON_ERROR);
  EXPECT(w, w->calls == 100 && w->opened == 0 && stats_of(w).breakers_opened == 0);
  tp_runtime_free(w->runtime);
}

TEST(without_breakers_every_call_is_made) {
  world w = {.calls = 0};
  const tp__sim_options options = {.seed = 1, .clock_jump_inverse = UINT32_MAX};
  tp__sim_report report = tp__sim_run(&options, main_without, &w);
  assert_string_equal(w.wrong, "");
  assert_int_equal(report.end, TP__SIM_DONE);
}
