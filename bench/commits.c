/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of changes of the registrations: a commit of 10,000 subscriptions, the next small commit on top of them, and
 * the effect of a thousand commits a second on phases that run on another thread. README.md says how to read it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/measure.h"
#include "bench/report.h"

#define ROWS "large small running "

enum { PHASES = 40, SUBSCRIPTIONS = 10000, SUBSCRIPTIONS_QUICK = 400 };

static tp_answer nothing(void *ctx, tp_call *call) {
  (void)call;
  (void)ctx;
  return TP_ANSWER_DONE;
}

/* ---- a registry of many phases ---- */

static tp_runtime *runtime_new(void) {
  static char names[PHASES][16];
  tp_phase rows[PHASES];
  const tp_phase *list[PHASES];
  for (int i = 0; i < PHASES; i++) {
    snprintf(names[i], sizeof names[i], "bench.%d", i);
    rows[i] = (tp_phase){.struct_size = sizeof rows[i], .name = names[i], .mode = TP_MODE_GATHER};
    list[i] = &rows[i];
  }
  tp_runtime_options options = {.struct_size = sizeof options, .phases = list, .phase_count = PHASES};
  tp_runtime *runtime;
  tp_fault fault;
  bench_must(tp_runtime_new(&options, &runtime, &fault), &fault);
  return runtime;
}

static void add_handler(tp_edit *edit) {
  uint32_t phases[PHASES];
  for (uint32_t i = 0; i < PHASES; i++) phases[i] = TP_PHASE_HOST + i;
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = "node",
                        .run = nothing,
                        .phases = phases,
                        .phase_count = PHASES,
                        .placement = TP_PLACEMENT_INLINE};
  bench_must(tp_edit_add_handler(edit, &handler, NULL), NULL);
}

/* Each subscription comes after the one before it in its phase; every third also after the one before that. */
static void add_subscription(tp_edit *edit, uint32_t number) {
  char ids[3][32];
  const tp_edge one = {.struct_size = sizeof one, .target = ids[1]},
                two = {.struct_size = sizeof two, .target = ids[2]};
  const tp_edge *const edges[] = {&one, &two};
  uint32_t place = number / PHASES;
  for (uint32_t back = 0; back < 3; back++)
    snprintf(ids[back], sizeof ids[back], "subscription-%05u", number - (place >= back ? back * PHASES : 0));
  tp_subscription subscription = {.struct_size = sizeof subscription,
                                  .id = ids[0],
                                  .handler = "node",
                                  .phase = TP_PHASE_HOST + number % PHASES,
                                  .after = edges,
                                  .after_count = place == 0                 ? 0
                                                 : place == 1 || number % 3 ? 1
                                                                            : 2};
  bench_must(tp_edit_add_subscription(edit, &subscription, NULL), NULL);
}

static tp_edit *edit_begin(tp_runtime *runtime) {
  tp_edit *edit;
  bench_must(tp_edit_begin(runtime, NULL, &edit, NULL), NULL);
  return edit;
}

static int64_t timed_commit(tp_edit *edit) {
  tp_fault fault;
  int64_t began = bench_now_ns();
  bench_must(tp_edit_commit(edit, NULL, &fault), &fault);
  return bench_now_ns() - began;
}

/* ---- one commit of them all ---- */

typedef struct registry {
  tp_runtime *runtime;
  uint32_t count;
} registry;

static int64_t large_run(void *ctx, uint32_t times) {
  registry *r = ctx;
  int64_t duration_ns = 0;
  for (uint32_t i = 0; i < times; i++) {
    tp_runtime *runtime = runtime_new();
    tp_edit *edit = edit_begin(runtime);
    add_handler(edit);
    for (uint32_t n = 0; n < r->count; n++) add_subscription(edit, n);
    duration_ns += timed_commit(edit);
    tp_runtime_free(runtime);
  }
  return duration_ns;
}

/* ---- the next commit, which adds or removes one subscription ---- */

static int64_t small_run(void *ctx, uint32_t times) {
  registry *r = ctx;
  int64_t duration_ns = 0;
  for (uint32_t i = 0; i < times; i++) {
    tp_edit *edit = edit_begin(r->runtime);
    char id[32];
    snprintf(id, sizeof id, "subscription-%05u", r->count);
    if (i % 2 == 0) add_subscription(edit, r->count);
    else bench_must(tp_edit_remove_subscription(edit, id, NULL), NULL);
    duration_ns += timed_commit(edit);
  }
  return duration_ns;
}

/* An even number of commits: each added subscription is removed again. */
static int64_t small_run_twice(void *ctx, uint32_t times) { return small_run(ctx, 2 * times) / 2; }

static void large_and_small(bench_program *program) {
  uint32_t count = program->quick ? SUBSCRIPTIONS_QUICK : SUBSCRIPTIONS;
  registry r = {.runtime = runtime_new(), .count = count};
  bench_settings settings = bench_settings_of(program);
  bench_row large = {.name = "large", .what = "a commit of 10,000 subscriptions over 40 phases, the first one"};
  bench_row small = {.name = "small", .what = "a commit that adds or removes one subscription beside those 10,000"};
  settings.single = true;
  settings.seconds_max /= 2;
  bench_row_add(&large, (bench_contestant){.name = "turnphase", .run = large_run, .ctx = &r},
                (bench_bound){.ns = 50e6});
  bench_row_add(&small, (bench_contestant){.name = "turnphase", .run = small_run_twice, .ctx = &r},
                (bench_bound){.ns = 50e6});
  if (bench_wanted(program, "large")) bench_row_run(program, &large, &settings);
  if (bench_wanted(program, "small")) {
    tp_edit *edit = edit_begin(r.runtime);
    add_handler(edit);
    for (uint32_t n = 0; n < count; n++) add_subscription(edit, n);
    (void)timed_commit(edit);
    bench_row_run(program, &small, &settings);
  }
  tp_runtime_free(r.runtime);
}

/* ---- phases that run meanwhile ---- */

enum { PERIOD_NS = 1000000 };

/* One thread runs turns. While `active` is set, another thread commits a thousand times a second: it adds and removes a
   subscription of another phase. Each thread has a processor of its own, since otherwise only the scheduler's choices
   would be measured. */
typedef struct meeting {
  const bench_workload *workload;
  tp_runtime *runtime;
  uint32_t windows, runs; /* windows of each kind; runs in each window */
  double *p99[2];         /* of each window, without and with commits */
  int64_t active_ns;
  _Atomic bool active, stop;
  _Atomic uint32_t commits;
} meeting;

static void *commit_on(void *arg) {
  meeting *m = arg;
  int64_t next = bench_now_ns();
  bench_bind(1);
  bench_wake_exactly(true);
  for (uint32_t i = 0; !atomic_load_explicit(&m->stop, memory_order_relaxed); i++) {
    next += PERIOD_NS;
    bench_sleep_until(next);
    if (!atomic_load_explicit(&m->active, memory_order_relaxed)) continue;
    tp_edit *edit = edit_begin(m->runtime);
    bench_must(tp_edit_enable(edit, "toggled", i % 2, NULL), NULL);
    (void)timed_commit(edit);
    atomic_fetch_add_explicit(&m->commits, 1, memory_order_relaxed);
  }
  return NULL;
}

/* Each run is measured by itself, in a turn of its own: the snapshot is pinned, used and unpinned. */
static double p99_of_window(const meeting *m, double *samples) {
  for (uint32_t i = 0; i < m->runs; i++) {
    int64_t began = bench_now_ns();
    tp_turn *turn = bench_turn_begin(m->runtime);
    bench_workload_run(m->workload, turn);
    tp_turn_end(turn);
    samples[i] = (double)(bench_now_ns() - began);
  }
  return bench_spread_of(samples, m->runs).p99;
}

/* Windows with and without commits alternate. Each window's 99th percentile is one sample, so that a few disturbed
   windows do not decide the result. */
static void *run_windows(void *arg) {
  meeting *m = arg;
  double *samples = bench_alloc(m->runs, sizeof *samples);
  bench_bind(0);
  (void)p99_of_window(m, samples);
  for (uint32_t i = 0; i < 2 * m->windows; i++) {
    int64_t began = bench_now_ns();
    atomic_store_explicit(&m->active, i % 2, memory_order_relaxed);
    m->p99[i % 2][i / 2] = p99_of_window(m, samples);
    if (i % 2) m->active_ns += bench_now_ns() - began;
  }
  atomic_store_explicit(&m->stop, true, memory_order_relaxed);
  free(samples);
  return NULL;
}

static void add_toggled(tp_runtime *runtime) {
  tp_subscription subscription = {
      .struct_size = sizeof subscription, .id = "toggled", .handler = "node", .phase = TP_PHASE_HOST + 4};
  tp_edit *edit = edit_begin(runtime);
  bench_must(tp_edit_add_subscription(edit, &subscription, NULL), NULL);
  (void)timed_commit(edit);
}

static void report_meeting(bench_program *program, const meeting *m) {
  char what[96];
  double without = bench_spread_of(m->p99[0], m->windows).median, with = bench_spread_of(m->p99[1], m->windows).median;
  snprintf(what, sizeof what, "99th percentile of a turn with %s, without commits", m->workload->name);
  bench_figure(program, "running", what, without, "ns", 0);
  snprintf(what, sizeof what, "the same, with %.0f commits a second",
           atomic_load(&m->commits) * 1e9 / (double)(m->active_ns > 0 ? m->active_ns : 1));
  bench_figure(program, "running", what, with, "ns", 0);
  bench_figure(program, "running", "how much that is of the former", with / without, "times", 1.2);
}

static void running(bench_program *program, const char *name, uint32_t windows, uint32_t runs) {
  bench_workload workload;
  pthread_t committer, runner;
  if (!bench_workload_make(&workload, name)) exit(70);
  meeting m = {.workload = &workload,
               .runtime = bench_workload_runtime(&workload, NULL, NULL, NULL),
               .windows = windows,
               .runs = runs,
               .p99 = {bench_alloc(windows, sizeof(double)), bench_alloc(windows, sizeof(double))}};
  add_toggled(m.runtime);
  bench_must(tp_runtime_start(m.runtime, NULL), NULL); /* before a thread is bound: the runtime's threads must not
                                                          inherit that */
  if (pthread_create(&committer, NULL, commit_on, &m) != 0) exit(70);
  if (pthread_create(&runner, NULL, run_windows, &m) != 0) exit(70);
  pthread_join(runner, NULL);
  pthread_join(committer, NULL);
  report_meeting(program, &m);
  tp_runtime_free(m.runtime);
  bench_workload_fini(&workload);
  free(m.p99[0]);
  free(m.p99[1]);
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "commits", "What changing the registered costs.", ROWS, argc, argv);
  large_and_small(&program);
  if (bench_wanted(&program, "running")) {
    uint32_t windows = program.quick ? 5 : 200;
    running(&program, "W3", windows, program.quick ? 2000 : 20000);
    running(&program, "W5", windows, program.quick ? 100 : 1000);
  }
  return bench_close(&program);
}
