/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a phase: the workloads W1 to W6 through the public API, compared with a floor loop and the peers that are
 * built; the growth of the cost with the graph; the cost of a phase that arrives at an idle server; and that of a phase
 * whose handler runs on another thread. README.md says how to read it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/floor.h"
#include "bench/latch.h"
#include "bench/memory.h"
#include "bench/peer.h"
#include "bench/report.h"

#define ROWS "W1 W2 W3 W4 W5 W6 growth idle burn deadline late allocator "

/* ---- turnphase as a contestant ---- */

typedef struct ours {
  const bench_workload *workload;
  tp_runtime *runtime;
  tp_turn *turn;
} ours;

static int64_t ours_run(void *ctx, uint32_t times) {
  ours *o = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) bench_workload_run(o->workload, o->turn);
  return bench_now_ns() - began;
}

static void ours_close(void *ctx) {
  ours *o = ctx;
  tp_turn_end(o->turn);
  tp_runtime_free(o->runtime);
  free(o);
}

static bench_contestant ours_new(const bench_workload *workload, const tp_runtime_options *options, tp_handler_fn run,
                                 void *ctx, const char *name) {
  ours *o = bench_alloc(1, sizeof *o);
  o->workload = workload;
  o->runtime = bench_workload_runtime(workload, options, run, ctx);
  o->turn = bench_turn_begin(o->runtime);
  return (bench_contestant){.name = name, .run = ours_run, .close = ours_close, .ctx = o, .threads = run != NULL};
}

/* ---- W1 to W5 ---- */

/* The bounds that follow from the figures to reach (performance.md of the design): the ratio of turnphase to the floor,
 * with time-stamps and without. */
static const struct implied {
  const char *name;
  double full, bare;
} implied[] = {{"W1", 2, 0}, {"W2", 1.5, 1.5}, {"W3", 1.5, 1.75}, {"W4", 1.67, 2}, {"W5", 1.57, 2}};

static void add_peers(bench_row *row, const bench_workload *workload, bench_job job, bool heavy) {
  for (size_t i = 0; i < bench_peer_count; i++) {
    bench_contestant peer = {0};
    if (!bench_peers[i]->graph) continue;
    bench_peers[i]->graph(workload, job, heavy, &peer);
    if (peer.run) bench_row_add(row, peer, (bench_bound){.against = 1});
  }
}

static void empty_workload(bench_program *program, const struct implied *bounds) {
  tp_runtime_options off = {.struct_size = sizeof off, .timestamps = TP_TIMESTAMPS_OFF};
  bench_workload workload;
  if (!bench_wanted(program, bounds->name) || !bench_workload_make(&workload, bounds->name)) return;
  bench_row row = {.name = workload.name, .what = workload.what};
  bench_row_add(&row, ours_new(&workload, NULL, NULL, NULL, "turnphase"),
                (bench_bound){.against = 1, .ratio = bounds->full});
  bench_row_add(&row, bench_floor(&workload, true), (bench_bound){.against = 1});
  bench_row_add(&row, ours_new(&workload, &off, NULL, NULL, "turnphase, time-stamps off"),
                (bench_bound){.against = 3, .ratio = bounds->bare});
  bench_row_add(&row, bench_floor(&workload, false), (bench_bound){.against = 3});
  add_peers(&row, &workload, bench_nothing, false);
  bench_row_run(program, &row, NULL);
  bench_workload_fini(&workload);
}

/* ---- W6: nodes that are worth a thread ---- */

enum { WORK_NS = 5000, WORK_NS_QUICK = 500 };

static tp_answer handler_works(void *ctx, tp_call *call) {
  (void)call;
  bench_work_do(ctx);
  return TP_ANSWER_DONE;
}

typedef struct optimum {
  bench_work *work;
  uint32_t nodes;
} optimum;

/* All the work on one thread, and from it the time if every processor ran an equal part. */
static int64_t optimum_run(void *ctx, uint32_t times) {
  optimum *o = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times * o->nodes; i++) bench_work_do(o->work);
  return (bench_now_ns() - began) / bench_processors();
}

static void heavy_workload(bench_program *program) {
  bench_workload workload;
  if (!bench_wanted(program, "W6") || !bench_workload_make(&workload, "W6")) return;
  bench_work work = bench_work_of(program->quick ? WORK_NS_QUICK : WORK_NS);
  optimum o = {&work, bench_workload_nodes(&workload)};
  bench_row row = {.name = workload.name, .what = workload.what};
  bench_row_add(&row, ours_new(&workload, NULL, handler_works, &work, "turnphase"),
                (bench_bound){.against = 1, .ratio = 1.1});
  bench_row_add(&row,
                (bench_contestant){.name = "optimum", .form = "all work / processors", .run = optimum_run, .ctx = &o},
                (bench_bound){.against = 1});
  add_peers(&row, &workload, (bench_job){bench_work_do, &work}, true);
  bench_row_run(program, &row, NULL);
  bench_workload_fini(&workload);
}

/* ---- growth ---- */

/* Compares a large graph with a small one; the floor shows the effect of the caches. */
static void report_growth(bench_program *program, const bench_row *row, const uint32_t *sizes, size_t size_count) {
  double ratios[BENCH_CONTESTANTS_MAX];
  for (size_t i = 0; i < size_count; i++) {
    char what[48];
    double ours_ns = row->results[2 * i].all.median, floor = row->results[2 * i + 1].all.median;
    ratios[i] = ours_ns / floor;
    snprintf(what, sizeof what, "a node of %u; of the floor %.1f", sizes[i], floor / sizes[i]);
    bench_figure(program, "growth", what, ours_ns / sizes[i], "ns", 0);
  }
  bench_figure(program, "growth", "ratio to the floor with 10,000 nodes over that with 1,000",
               ratios[size_count - 1] / ratios[size_count - 2], "times", 1.25);
}

static void growth(bench_program *program) {
  static const uint32_t sizes[] = {10, 100, 1000, 10000};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  bench_workload workloads[SIZES];
  char names[SIZES][2][32];
  bench_row row = {.name = "growth", .what = "random graphs of the shape of W5, by number of nodes"};
  if (!bench_wanted(program, "growth")) return;
  for (size_t i = 0; i < SIZES; i++) {
    snprintf(names[i][0], sizeof names[i][0], "turnphase, %u", sizes[i]);
    snprintf(names[i][1], sizeof names[i][1], "floor, %u", sizes[i]);
    bench_workload_make_random(&workloads[i], sizes[i]);
    bench_contestant floor = bench_floor(&workloads[i], true);
    floor.name = names[i][1];
    bench_row_add(&row, ours_new(&workloads[i], NULL, NULL, NULL, names[i][0]), (bench_bound){.against = 2 * i + 1});
    bench_row_add(&row, floor, (bench_bound){.against = 2 * i + 1});
  }
  bench_row_run(program, &row, NULL);
  report_growth(program, &row, sizes, SIZES);
  for (int i = 0; i < SIZES; i++) bench_workload_fini(&workloads[i]);
}

/* ---- calls of the allocator ---- */

static void allocator(bench_program *program) {
  enum { NODE_RUNS = 15000000, RUNS_MAX = 300000 }; /* this number fills the store of records several times */
  bench_workload workload;
  if (!bench_wanted(program, "allocator")) return;
  for (size_t i = 0; i < sizeof implied / sizeof *implied; i++) {
    bench_memory memory = {0};
    tp_runtime_options options = {.struct_size = sizeof options, .allocator = bench_memory_allocator(&memory)};
    char what[48];
    if (!bench_workload_make(&workload, implied[i].name)) exit(70);
    bench_contestant host = ours_new(&workload, &options, NULL, NULL, "turnphase");
    uint32_t runs = NODE_RUNS / (bench_workload_nodes(&workload) + 1);
    if (runs > RUNS_MAX) runs = RUNS_MAX;
    if (program->quick) runs /= 100;
    (void)host.run(host.ctx, runs);
    size_t before = atomic_load(&memory.calls);
    (void)host.run(host.ctx, runs);
    snprintf(what, sizeof what, "calls of the allocator in a run of %s", implied[i].name);
    bench_figure(program, "allocator", what, (double)(atomic_load(&memory.calls) - before) / runs, "calls", 0.001);
    host.close(host.ctx);
    bench_workload_fini(&workload);
  }
}

/* ---- a phase that arrives at an idle server ---- */

enum { PAUSE_US = 100 };

typedef struct submitter {
  ours *o;
  bench_latch ended;
  int64_t ended_ns;
  bool until_submitted; /* set when only the part of the host is measured */
} submitter;

static void phase_ended(void *ctx, const tp_phase_result *result) {
  submitter *h = ctx;
  (void)result;
  h->ended_ns = bench_now_ns();
  bench_latch_hit(&h->ended, 1);
}

static int64_t submitter_run(void *ctx, uint32_t times) {
  submitter *h = ctx;
  int64_t sum = 0;
  for (uint32_t i = 0; i < times; i++) {
    bench_latch_set(&h->ended, 1);
    int64_t began = bench_now_ns();
    bench_must(tp_phase_submit(h->o->turn, TP_PHASE_HOST, NULL, phase_ended, h, NULL), NULL);
    int64_t submitted = bench_now_ns();
    bench_latch_wait(&h->ended);
    sum += (h->until_submitted ? submitted : h->ended_ns) - began;
    /* Each has a turn of its own, so that the memory of its phases is freed with it. */
    tp_turn_end(h->o->turn);
    h->o->turn = bench_turn_begin(h->o->runtime);
  }
  return sum;
}

static void submitter_close(void *ctx) {
  submitter *h = ctx;
  ours_close(h->o);
  free(h);
}

static bench_contestant submitter_new(const bench_workload *workload, const char *name, bool until_submitted) {
  submitter *h = aligned_alloc(128, (sizeof *h + 127) / 128 * 128);
  if (!h) exit(70);
  *h = (submitter){.o = ours_new(workload, NULL, NULL, NULL, name).ctx, .until_submitted = until_submitted};
  return (bench_contestant){.name = name, .run = submitter_run, .close = submitter_close, .ctx = h, .threads = true};
}

/* ---- the futex round trip: the least cost of a thread that sleeps ---- */

typedef struct pair {
  _Alignas(128) _Atomic uint32_t there, back;
  pthread_t thread;
  bool one_way;
  int64_t woken_ns; /* when the partner ran */
} pair;

enum { STOP = INT32_MAX };

static void *answer_each(void *arg) {
  pair *p = arg;
  for (uint32_t turn = 0;; turn++) {
    /* Both pair with the stores in pair_run(). */
    while (atomic_load_explicit(&p->there, memory_order_acquire) == turn) bench_futex_wait(&p->there, turn);
    if (atomic_load_explicit(&p->there, memory_order_acquire) == STOP) return NULL;
    p->woken_ns = bench_now_ns();
    atomic_store_explicit(&p->back, turn + 1, memory_order_release);
    bench_futex_wake(&p->back);
  }
}

static int64_t pair_run(void *ctx, uint32_t times) {
  pair *p = ctx;
  int64_t sum = 0;
  for (uint32_t i = 0; i < times; i++) {
    uint32_t turn = atomic_load_explicit(&p->there, memory_order_relaxed);
    int64_t began = bench_now_ns();
    atomic_store_explicit(&p->there, turn + 1, memory_order_release); /* pairs with the load in answer_each() */
    bench_futex_wake(&p->there);
    while (atomic_load_explicit(&p->back, memory_order_acquire) == turn) bench_futex_wait(&p->back, turn);
    sum += (p->one_way ? p->woken_ns : bench_now_ns()) - began;
  }
  return sum;
}

static void pair_close(void *ctx) {
  pair *p = ctx;
  atomic_store_explicit(&p->there, STOP, memory_order_release); /* pairs with the load in answer_each() */
  bench_futex_wake(&p->there);
  pthread_join(p->thread, NULL);
  free(p);
}

static bench_contestant pair_new(bool one_way) {
  pair *p = aligned_alloc(128, (sizeof *p + 127) / 128 * 128);
  if (!p) exit(70);
  *p = (pair){.one_way = one_way};
  if (pthread_create(&p->thread, NULL, answer_each, p) != 0) exit(70);
  return (bench_contestant){.name = one_way ? "futex, one way" : "futex, there and back",
                            .run = pair_run,
                            .close = pair_close,
                            .ctx = p,
                            .threads = true};
}

/* There are two rows, since a phase that leaves the thread also makes the caches cold for the next one. A submitted
   phase may need 2.5 µs where a futex round trip needs 4.4, half of it for each way. */
static void idle(bench_program *program) {
  bench_workload workload;
  bench_settings settings = bench_settings_of(program);
  bench_row here = {.name = "idle", .what = "a chain of 6 that arrives at an idle server, on the caller's thread"};
  bench_row there = {.name = "idle", .what = "the same submitted to workers that are parked"};
  if (!bench_wanted(program, "idle") || !bench_workload_make(&workload, "W2")) return;
  settings.pause_us = PAUSE_US;
  bench_row_add(&here, ours_new(&workload, NULL, NULL, NULL, "turnphase, tp_phase_run"),
                (bench_bound){.against = 1, .ratio = 1.39});
  bench_row_add(&here, bench_floor(&workload, true), (bench_bound){.against = 1});
  bench_row_run(program, &here, &settings);
  bench_row_add(&there, submitter_new(&workload, "turnphase, tp_phase_submit till it has ended", false),
                (bench_bound){.against = 2, .ratio = 1.14});
  bench_row_add(&there, submitter_new(&workload, "turnphase, tp_phase_submit till it returns", true),
                (bench_bound){.against = 2});
  bench_row_add(&there, pair_new(true), (bench_bound){.against = 2});
  bench_row_run(program, &there, &settings);
  bench_workload_fini(&workload);
}

/* ---- a handler with a deadline, on a thread of its own ---- */

static tp_answer answers_at_once(void *ctx, tp_call *call) {
  (void)call;
  (void)ctx;
  return TP_ANSWER_DONE;
}

static tp_runtime *deadline_runtime(tp_handler_fn run, void *ctx, uint32_t limit_ms) {
  static const uint32_t phases[] = {TP_PHASE_HOST};
  tp_phase phase = {.struct_size = sizeof phase, .name = "bench.1", .mode = TP_MODE_GATHER};
  tp_runtime_options options = {
      .struct_size = sizeof options, .phases = (const tp_phase *const[]){&phase}, .phase_count = 1};
  tp_handler handler = {
      .struct_size = sizeof handler, .id = "node", .run = run, .ctx = ctx, .phases = phases, .phase_count = 1};
  tp_subscription subscription = {.struct_size = sizeof subscription,
                                  .id = "node",
                                  .handler = "node",
                                  .phase = TP_PHASE_HOST,
                                  .execution = TP_EXECUTION_DEADLINE,
                                  .limit_ms = limit_ms};
  tp_runtime *runtime;
  tp_edit *edit;
  tp_fault fault;
  bench_must(tp_runtime_new(&options, &runtime, &fault), &fault);
  bench_must(tp_edit_begin(runtime, NULL, &edit, NULL), NULL);
  bench_must(tp_edit_add_handler(edit, &handler, NULL), NULL);
  bench_must(tp_edit_add_subscription(edit, &subscription, NULL), NULL);
  bench_must(tp_edit_commit(edit, NULL, &fault), &fault);
  return runtime;
}

static bench_contestant deadline_new(bench_workload *workload, const char *name) {
  ours *o = bench_alloc(1, sizeof *o);
  o->workload = workload;
  o->runtime = deadline_runtime(answers_at_once, NULL, 5000);
  o->turn = bench_turn_begin(o->runtime);
  return (bench_contestant){.name = name, .run = ours_run, .close = ours_close, .ctx = o, .threads = true};
}

static void deadline_row(bench_program *program, bench_workload *workload, const char *what, uint32_t pause_us,
                         double ratio) {
  bench_settings settings = bench_settings_of(program);
  bench_row row = {.name = "deadline", .what = what};
  settings.pause_us = pause_us;
  bench_row_add(&row, deadline_new(workload, "turnphase"), (bench_bound){.against = 1, .ratio = ratio});
  bench_row_add(&row, pair_new(false), (bench_bound){.against = 1});
  bench_row_run(program, &row, &settings);
}

/* Without a pause the kernel may put two threads on one processor (4 µs for a round trip) or on two (50 µs, when one
   must be woken), and may treat the two compared pairs differently. Only when the threads are bound, both pairs are
   treated the same. A thread is bound as the thread that made it. */
static void deadline(bench_program *program) {
  bench_workload workload = {.name = "deadline", .phase_count = 1};
  if (!bench_wanted(program, "deadline")) return;
  deadline_row(program, &workload, "a Deadline handler on a parked thread, after a pause", PAUSE_US, 1.5);
  bench_bind(0);
  deadline_row(program, &workload, "one after the other, both threads on one processor", 0, 1.5);
  bench_unbind();
  deadline_row(program, &workload, "one after the other, wherever the kernel puts them", 0, 0);
}

/* ---- a handler that does not answer in time ---- */

enum { LIMIT_MS = 2 };

typedef struct sleeper {
  ours *o;
  _Atomic uint32_t held; /* 1: the handler does not return */
} sleeper;

static tp_answer answers_too_late(void *ctx, tp_call *call) {
  (void)call;
  sleeper *s = ctx;
  while (atomic_load_explicit(&s->held, memory_order_acquire))
    bench_futex_wait(&s->held, 1); /* pairs with late_run() */
  return TP_ANSWER_DONE;
}

/* @return how long after its deadline the caller continued. */
static int64_t late_run(void *ctx, uint32_t times) {
  sleeper *s = ctx;
  int64_t sum = 0;
  for (uint32_t i = 0; i < times; i++) {
    atomic_store_explicit(&s->held, 1, memory_order_release); /* pairs with answers_too_late(), as does the store
                                                                 below */
    int64_t began = bench_now_ns();
    bench_workload_run(s->o->workload, s->o->turn);
    sum += bench_now_ns() - began - LIMIT_MS * 1000000;
    atomic_store_explicit(&s->held, 0, memory_order_release);
    bench_futex_wake(&s->held);
    (void)bench_settle(); /* the handler returns before it is held again */
  }
  return sum;
}

static void late_close(void *ctx) {
  sleeper *s = ctx;
  ours_close(s->o);
  free(s);
}

static void late(bench_program *program) {
  bench_settings settings = bench_settings_of(program);
  bench_workload workload = {.name = "late", .phase_count = 1};
  bench_row row = {.name = "late",
                   .what = "a Deadline handler that hangs: how long after its limit the caller goes on"};
  if (!bench_wanted(program, "late")) return;
  sleeper *s = bench_alloc(1, sizeof *s);
  s->o = bench_alloc(1, sizeof *s->o);
  *s->o = (ours){.workload = &workload, .runtime = deadline_runtime(answers_too_late, s, LIMIT_MS)};
  s->o->turn = bench_turn_begin(s->o->runtime);
  settings.single = true;
  bench_row_add(
      &row, (bench_contestant){.name = "turnphase", .run = late_run, .close = late_close, .ctx = s, .threads = true},
      (bench_bound){0});
  bench_row_run(program, &row, &settings);
}

/* ---- idle burn ---- */

/* CPU seconds per second of every contestant, while the workloads run one after the other. */
static void burn_of(bench_program *program, const char *name, bench_contestant *contestants, size_t count,
                    double limit) {
  enum { SLICE_NS = 50000000, SLICE_QUICK_NS = 1000000 };
  int64_t slice = program->quick ? SLICE_QUICK_NS : SLICE_NS, cpu = 0, duration_ns = 0;
  for (size_t i = 0; i < count; i++) {
    (void)bench_settle();
    int64_t cpu_before = bench_cpu_ns(), began = bench_now_ns();
    uint32_t times = 1;
    int64_t run = 0;
    for (int64_t left = slice; left > 0; left = slice - (bench_now_ns() - began)) {
      if (left < slice) /* one batch for the rest, since entering a region anew would look better than it is */
        times = (uint32_t)((double)left * times / (double)(run > 0 ? run : 1)) + 1;
      run = contestants[i].run(contestants[i].ctx, times);
    }
    cpu += bench_cpu_ns() - cpu_before;
    duration_ns += bench_now_ns() - began;
    contestants[i].close(contestants[i].ctx);
  }
  bench_figure(program, "burn", name, (double)cpu / (double)duration_ns, "CPU seconds a second on W2 to W5", limit);
}

static void burn(bench_program *program) {
  static const char *const names[] = {"W2", "W3", "W4", "W5"};
  enum { COUNT = sizeof names / sizeof *names };
  bench_workload workloads[COUNT];
  bench_contestant contestants[COUNT];
  if (!bench_wanted(program, "burn")) return;
  for (int i = 0; i < COUNT; i++) {
    if (!bench_workload_make(&workloads[i], names[i])) exit(70);
    contestants[i] = ours_new(&workloads[i], NULL, NULL, NULL, "turnphase");
  }
  burn_of(program, "turnphase", contestants, COUNT, 1.05);
  for (size_t p = 0; p < bench_peer_count; p++) {
    if (!bench_peers[p]->graph) continue;
    for (int i = 0; i < COUNT; i++) bench_peers[p]->graph(&workloads[i], bench_nothing, false, &contestants[i]);
    burn_of(program, bench_peers[p]->name, contestants, COUNT, 0);
  }
  for (int i = 0; i < COUNT; i++) bench_workload_fini(&workloads[i]);
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "phases", "What a phase costs.", ROWS, argc, argv);
  for (size_t i = 0; i < sizeof implied / sizeof *implied; i++) empty_workload(&program, &implied[i]);
  heavy_workload(&program);
  growth(&program);
  allocator(&program);
  idle(&program);
  deadline(&program);
  late(&program);
  burn(&program);
  return bench_close(&program);
}
