/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/baseline.h"

#include <stdio.h>

#include "cli/bench/histogram.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "support/clock.h"

/* A batch is a turn with about as many phases as turns usually have. The median of many batches ignores
 * interruptions. */
enum { BATCHES = 501, WARM_UP = 50, PER_BATCH = 10, READINGS = 100, MANY = 17 };

/* The phases of its runtime: without subscriptions, with one, with MANY. */
enum { NONE = TP_PHASE_HOST, ONE = TP_PHASE_HOST + 1, SEVERAL = TP_PHASE_HOST + 2 };

static tp_answer do_nothing(void *ctx, tp_call *call) {
  (void)call;
  (void)ctx;
  return TP_ANSWER_DONE;
}

/* ---- its runtime ---- */

static tp_status subscribe(tp_edit *edit, uint32_t phase, int number, tp_fault *fault) {
  char id[32];
  snprintf(id, sizeof id, "nothing.%u.%d", phase, number);
  tp_subscription subscription = {.struct_size = sizeof subscription, .id = id, .handler = "nothing", .phase = phase};
  return tp_edit_add_subscription(edit, &subscription, fault);
}

static tp_status add_subscriptions(tp_edit *edit, tp_fault *fault) {
  static const uint32_t phases[] = {ONE, SEVERAL};
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = "nothing",
                        .run = do_nothing,
                        .phases = phases,
                        .phase_count = 2,
                        .placement = TP_PLACEMENT_INLINE};
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status == TP_OK) status = subscribe(edit, ONE, 0, fault);
  for (int i = 0; status == TP_OK && i < MANY; i++) status = subscribe(edit, SEVERAL, i, fault);
  return status;
}

static tp_status register_nothing(tp_runtime *runtime, tp_fault *fault) {
  tp_edit *edit;
  tp_status status = tp_edit_begin(runtime, NULL, &edit, fault);
  if (status != TP_OK) return status;
  status = add_subscriptions(edit, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static tp_status make_runtime(tp_timestamps timestamps, tp_runtime **ret_runtime, tp_fault *fault) {
  static const char *const names[] = {"bench.none", "bench.one", "bench.many"};
  tp_phase rows[3];
  for (int i = 0; i < 3; i++)
    rows[i] = (tp_phase){.struct_size = sizeof rows[i], .name = names[i], .mode = TP_MODE_GATHER};
  const tp_phase *const list[3] = {&rows[0], &rows[1], &rows[2]};
  tp_runtime_options options = {.struct_size = sizeof options,
                                .phases = list,
                                .phase_count = 3,
                                .timestamps = timestamps,
                                .no_engine_workers = true};
  tp_runtime *runtime;
  tp_status status = tp_runtime_new(&options, &runtime, fault);
  if (status != TP_OK) return status;
  status = register_nothing(runtime, fault);
  if (status == TP_OK) *ret_runtime = runtime;
  else tp_runtime_free(runtime);
  return status;
}

/* ---- measuring ---- */

static void measure_clock(cli_baseline *baseline) {
  cli_histogram duration = {0}, steps = {0};
  for (int batch = 0; batch < BATCHES; batch++) {
    int64_t began_ns = tp__monotonic_ns(), last_ns = began_ns, now_ns;
    for (int i = 0; i < READINGS; i++, last_ns = now_ns) {
      now_ns = tp__monotonic_ns();
      if (now_ns > last_ns) cli_histogram_add(&steps, now_ns - last_ns);
    }
    cli_histogram_add(&duration, last_ns - began_ns);
  }
  baseline->clock_ns = (double)cli_histogram_at(&duration, 500) / READINGS;
  baseline->clock_least_ns = steps.least;
  cli_histogram_free(&duration);
  cli_histogram_free(&steps);
}

/* Adds the durations in the records of all handlers except the first, which begins together with the phase. */
static void add_steps(cli_histogram *steps, const tp_phase_result *result) {
  for (uint32_t i = 1; i < result->run_count; i++) {
    tp_run_record run = *tp_phase_result_run(result, i);
    cli_histogram_add(steps, run.ended_ns - run.started_ns);
  }
}

static tp_status run_phases(tp_turn *turn, uint32_t phase, cli_histogram *steps, tp_fault *fault) {
  tp_status status = TP_OK;
  for (int i = 0; status == TP_OK && i < PER_BATCH; i++) {
    tp_phase_result result = {.struct_size = sizeof result};
    status = tp_phase_run(turn, phase, NULL, &result, fault);
    if (status != TP_OK) continue;
    if (steps) add_steps(steps, &result);
    tp_phase_result_release(turn, &result);
  }
  return status;
}

/** The cost of one turn: of several runs of a phase in it, and of its beginning and end. */
typedef struct batch {
  int64_t phases_ns, turn_ns;
} batch;

static tp_status run_batch(tp_runtime *runtime, uint32_t phase, cli_histogram *steps, batch *ret, tp_fault *fault) {
  tp_turn *turn;
  int64_t began_ns = tp__monotonic_ns();
  tp_status status = tp_turn_begin_bare(runtime, NULL, &turn, fault);
  if (status != TP_OK) return status;
  int64_t inside_ns = tp__monotonic_ns();
  status = run_phases(turn, phase, steps, fault);
  int64_t ending_ns = tp__monotonic_ns();
  tp_turn_end(turn);
  *ret = (batch){.phases_ns = ending_ns - inside_ns, .turn_ns = inside_ns - began_ns + tp__monotonic_ns() - ending_ns};
  return status;
}

static double above(double more, double less) { return more > less ? more - less : 0; }

/* @param steps  NULL, or gets the handlers' own times; then the phase's time has no meaning. */
static tp_status measure_phase(tp_runtime *runtime, uint32_t phase, cli_histogram *steps, cli_baseline *baseline,
                               double *ret_ns, tp_fault *fault) {
  cli_histogram phases = {0}, turns = {0};
  tp_status status = TP_OK;
  for (int i = -WARM_UP; status == TP_OK && i < BATCHES; i++) {
    batch b;
    status = run_batch(runtime, phase, steps, &b, fault);
    if (status != TP_OK || i < 0) continue;
    cli_histogram_add(&phases, b.phases_ns);
    cli_histogram_add(&turns, b.turn_ns);
  }
  *ret_ns = above((double)cli_histogram_at(&phases, 500), baseline->clock_ns) / PER_BATCH;
  baseline->turn_ns = above((double)cli_histogram_at(&turns, 500), 2 * baseline->clock_ns);
  cli_histogram_free(&phases);
  cli_histogram_free(&turns);
  return status;
}

static tp_status measure_runtime(tp_runtime *runtime, cli_baseline *baseline, tp_fault *fault) {
  cli_histogram steps = {0};
  double none_ns = 0, one_ns = 0, many_ns = 0, ignored_ns;
  tp_status status = measure_phase(runtime, NONE, NULL, baseline, &none_ns, fault);
  if (status == TP_OK) status = measure_phase(runtime, SEVERAL, &steps, baseline, &ignored_ns, fault);
  if (status == TP_OK) status = measure_phase(runtime, SEVERAL, NULL, baseline, &many_ns, fault);
  if (status == TP_OK) status = measure_phase(runtime, ONE, NULL, baseline, &one_ns, fault); /* its turns count */
  baseline->empty_phase_ns = none_ns;
  baseline->first_handler_ns = above(one_ns, none_ns);
  baseline->further_handler_ns = above(many_ns, one_ns) / (MANY - 1);
  baseline->step_ns = cli_histogram_at(&steps, 500);
  cli_histogram_free(&steps);
  return status;
}

int cli_baseline_read(tp_timestamps timestamps, cli_baseline *baseline) {
  tp_runtime *runtime;
  tp_fault fault = {0};
  measure_clock(baseline);
  tp_status status = make_runtime(timestamps, &runtime, &fault);
  if (status == TP_OK) {
    status = measure_runtime(runtime, baseline, &fault);
    tp_runtime_free(runtime);
  }
  return status == TP_OK ? CLI_OK : cli_fault("the baseline", status, &fault);
}
