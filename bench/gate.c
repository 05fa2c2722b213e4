/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c: the work whose instructions bench/gate.py counts. It runs each row below, warmed up, a fixed number of times
 * within gate_counted(), during which the counter is on, and after which it writes its value; so the start, the commit
 * and the end are not counted. Counts are repeatable, and times are not. But the counts say nothing about cores, caches
 * or threads.
 *
 *   gate --rows         the rows in their order: name, how often each is run
 *   gate --conditions   what the counts depend on, apart from the sources */
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/driven.h"
#include "bench/tools.h"
#include "bench/workload.h"

enum { CLOCK_MS = 60, WARM_UP_RUNS = 200, CHANGE_PHASES = 5, CHANGE_NODES = 50 };
enum { CALLS = 64, RUNS_IN_TURN = 16 /* the results of calls live as long as their turn */ };

typedef struct row {
  const char *name, *workload;
  uint32_t nodes; /* of a random graph, in a row without a workload; 0: the phases of a small commit */
  uint32_t times; /* how many runs are counted */
  tp_timestamps timestamps;
  bool parallel;   /* the workload's nodes have placement parallel: entry.c calls them, not the loop of inline.c */
  bool commits;    /* one run is a commit that changes one of the subscriptions */
  bool calls;      /* one run is 64 tool calls */
  bool turns;      /* one run is a whole turn with seven inline handlers and two tool calls */
  uint32_t behind; /* how many turns its session had before */
} row;

/* Each row runs so often that rare events, such as a full block of records, weigh the same in each count. */
static const row rows[] = {
    {.name = "W1", .workload = "W1", .times = 4000},
    {.name = "W2", .workload = "W2", .times = 2000},
    {.name = "W3", .workload = "W3", .times = 2000},
    {.name = "W4", .workload = "W4", .times = 2000},
    {.name = "W5", .workload = "W5", .times = 40},
    {.name = "W5.parallel", .workload = "W5", .times = 40, .parallel = true},
    {.name = "W1.bare", .workload = "W1", .times = 4000, .timestamps = TP_TIMESTAMPS_OFF},
    {.name = "W2.bare", .workload = "W2", .times = 2000, .timestamps = TP_TIMESTAMPS_OFF},
    {.name = "W3.bare", .workload = "W3", .times = 2000, .timestamps = TP_TIMESTAMPS_OFF},
    {.name = "W4.bare", .workload = "W4", .times = 2000, .timestamps = TP_TIMESTAMPS_OFF},
    {.name = "W5.bare", .workload = "W5", .times = 40, .timestamps = TP_TIMESTAMPS_OFF},
    {.name = "W2.coarse", .workload = "W2", .times = 2000, .timestamps = TP_TIMESTAMPS_COARSE},
    {.name = "W3.coarse", .workload = "W3", .times = 2000, .timestamps = TP_TIMESTAMPS_COARSE},
    {.name = "W4.coarse", .workload = "W4", .times = 2000, .timestamps = TP_TIMESTAMPS_COARSE},
    {.name = "W9", .times = 160, .timestamps = TP_TIMESTAMPS_FULL, .calls = true},
    {.name = "turn", .times = 400, .timestamps = TP_TIMESTAMPS_FULL, .turns = true},
    {.name = "turn.coarse", .times = 400, .timestamps = TP_TIMESTAMPS_COARSE, .turns = true},
    {.name = "turn.late", .times = 400, .timestamps = TP_TIMESTAMPS_FULL, .turns = true, .behind = 2000},
    {.name = "commit", .times = 200, .commits = true},
    {.name = "grown.10", .nodes = 10, .times = 1000},
    {.name = "grown.100", .nodes = 100, .times = 200},
    {.name = "grown.1000", .nodes = 1000, .times = 40},
    {.name = "grown.10000", .nodes = 10000, .times = 10},
    {.name = "compiled.10", .nodes = 10, .times = 100, .commits = true},
    {.name = "compiled.100", .nodes = 100, .times = 20, .commits = true},
    {.name = "compiled.1000", .nodes = 1000, .times = 4, .commits = true},
    {.name = "compiled.10000", .nodes = 10000, .times = 2, .commits = true},
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct work {
  const row *row;
  bench_workload workload;
  tp_runtime *runtime;
  tp_turn *turn;
  bool off; /* the subscription that commits switch */
  bench_tools tools;
  bench_driven driven;
} work;

/* ---- one run ---- */

/* The last node of the first phase; no other node waits for it. */
static void switch_one(work *w) {
  char id[32];
  tp_edit *edit;
  tp_fault fault;
  snprintf(id, sizeof id, "p%d-%05u", TP_PHASE_HOST, w->workload.graphs[0].node_count - 1);
  w->off = !w->off;
  bench_must(tp_edit_begin(w->runtime, NULL, &edit, NULL), NULL);
  bench_must(tp_edit_enable(edit, id, !w->off, NULL), NULL);
  bench_must(tp_edit_commit(edit, NULL, &fault), &fault);
}

static void run(work *w, uint32_t times) {
  for (uint32_t i = 0; i < times; i++) {
    if (w->row->calls && i % RUNS_IN_TURN == 0) bench_tools_renew(&w->tools);
    if (w->row->turns) bench_driven_run(&w->driven);
    else if (w->row->calls) bench_tools_run(&w->tools);
    else if (w->row->commits) switch_one(w);
    else bench_workload_run(&w->workload, w->turn);
  }
}

void gate_counted(work *w);
/* The counter finds the function by its name, so it is neither inlined nor cloned. */
__attribute__((noinline)) void gate_counted(work *w) { run(w, w->row->times); }

/* ---- around it ---- */

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Runs until everything that is kept for reuse exists. It does not run for a time, since the state of the heap would
 * depend on it. */
static void warm_up(work *w) { run(w, w->row->behind + (w->row->times < WARM_UP_RUNS ? w->row->times : WARM_UP_RUNS)); }

/* CHANGE_NODES subscriptions over CHANGE_PHASES phases, each a chain. */
static void make_change(bench_workload *workload) {
  enum { LENGTH = CHANGE_NODES / CHANGE_PHASES };
  *workload = (bench_workload){.name = "commit", .what = "one change", .phase_count = CHANGE_PHASES};
  for (uint32_t p = 0; p < CHANGE_PHASES; p++) {
    bench_graph *graph = &workload->graphs[p];
    *graph = (bench_graph){.node_count = LENGTH, .edge_count = LENGTH - 1};
    graph->from = bench_alloc(LENGTH, sizeof *graph->from);
    graph->to = bench_alloc(LENGTH, sizeof *graph->to);
    for (uint32_t n = 1; n < LENGTH; n++) {
      graph->from[n - 1] = n - 1;
      graph->to[n - 1] = n;
    }
  }
}

static void make(work *w) {
  if (w->row->workload) bench_workload_make(&w->workload, w->row->workload);
  else if (w->row->nodes) bench_workload_make_random(&w->workload, w->row->nodes);
  else make_change(&w->workload);
}

static tp_answer do_nothing(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_DONE;
}

static void open_work(work *w, const row *of) {
  *w = (work){.row = of};
  /* Without engine workers nothing is shared, so nothing depends on the seeming duration of a handler under the
   * counter. */
  tp_runtime_options options = {.struct_size = sizeof options, .timestamps = of->timestamps, .no_engine_workers = true};
  if (of->calls) {
    bench_tools_spec spec = {
        .options = &options, .count = CALLS, .has_arguments = true, .on_event = bench_ignore_event};
    bench_tools_open(&w->tools, &spec);
    return;
  }
  if (of->turns) {
    bench_driven_spec spec = {.options = &options, .hooks = BENCH_DRIVEN_HOOKS_MAX, .placement = TP_PLACEMENT_INLINE};
    bench_driven_open(&w->driven, &spec);
    return;
  }
  make(w);
  w->runtime = bench_workload_runtime(&w->workload, &options, of->parallel ? do_nothing : NULL, NULL);
  w->turn = bench_turn_begin(w->runtime);
}

static void close_work(work *w) {
  if (w->row->calls) {
    bench_tools_close(&w->tools);
    return;
  }
  if (w->row->turns) {
    bench_driven_close(&w->driven);
    return;
  }
  tp_turn_end(w->turn);
  tp_runtime_free(w->runtime);
  bench_workload_fini(&w->workload);
}

static void count(const row *of) {
  work w;
  open_work(&w, of);
  warm_up(&w);
  gate_counted(&w);
  close_work(&w);
}

/* Waits until the clock knows its rate: in its first 20 ms it uses another path. */
static void wait_for_the_clock(void) {
  work w;
  open_work(&w, &rows[0]);
  for (int64_t end_ms = now_ms() + CLOCK_MS; now_ms() < end_ms;) run(&w, 1);
  close_work(&w);
}

/* ---- what is printed ---- */

static void print_rows(void) {
  for (int i = 0; i < ROWS; i++) printf("%s %u\n", rows[i].name, rows[i].times);
}

static const char *machine(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") ? "x86-64 with AVX2" : "x86-64"; /* libc selects its memcpy by it */
#elif defined(__aarch64__)
  return "arm64";
#else
  return "of another kind";
#endif
}

/* Which clock a time-stamp reads (runtime/os/posix_clock.c). */
static void print_clock(void) {
  char name[32] = "unknown";
  FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
  if (file && fscanf(file, "%31s", name) != 1) snprintf(name, sizeof name, "unknown");
  if (file) fclose(file);
  printf("clock %s\n", name);
}

static void print_conditions(void) {
  printf("machine %s\n", machine());
#ifdef __clang__
  printf("compiler clang %s\n", __clang_version__);
#else
  printf("compiler gcc %s\n", __VERSION__);
#endif
  printf("libc %s\n", gnu_get_libc_version());
  print_clock();
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--rows") == 0) {
    print_rows();
  } else if (argc == 2 && strcmp(argv[1], "--conditions") == 0) {
    print_conditions();
  } else if (argc == 1) {
    wait_for_the_clock();
    for (int i = 0; i < ROWS; i++) count(&rows[i]);
  } else {
    fprintf(stderr, "usage: gate [--rows | --conditions]\n");
    return 2;
  }
  return 0;
}
