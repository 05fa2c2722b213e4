/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/floor.h"

#include <stdlib.h>
#include <string.h>

typedef struct outcome {
  uint64_t ended;
  uint64_t rest[3];
} outcome;

typedef outcome (*node_fn)(void *ctx);

typedef struct floor_phase {
  bench_flat flat;
  node_fn *runs;
  /* for one run */
  uint64_t began, deadline;
  uint16_t *counters;
  uint32_t *ready;
  outcome *outcomes;
} floor_phase;

typedef struct floor_graph {
  uint32_t phase_count;
  floor_phase phases[BENCH_PHASES_MAX];
} floor_graph;

static outcome nothing(void *ctx) {
  (void)ctx;
  return (outcome){0};
}

/* ---- the loop; compiled once for each kind of time-stamp ---- */

typedef enum stamp { STAMP_NONE, STAMP_COUNTER, STAMP_CLOCK } stamp;

static inline uint64_t read_stamp(stamp how, const floor_phase *phase) {
  if (how == STAMP_COUNTER) return bench_counter();
  if (how == STAMP_CLOCK) return (uint64_t)bench_now_ns();
  return phase->began;
}

__attribute__((always_inline)) static inline void run_phase(floor_phase *phase, stamp how) {
  const bench_flat flat = phase->flat; /* a local copy, here and below: the compiler must assume that a called function
                                          changes what a pointer points to */
  const node_fn *runs = phase->runs;
  uint16_t *counters = phase->counters;
  uint32_t *top = phase->ready;
  outcome *outcomes = phase->outcomes;
  uint64_t now = phase->began = read_stamp(how, phase), deadline = phase->deadline;
  if (flat.root_count == 0) return;
  memcpy(counters, flat.indegree, flat.node_count * sizeof *counters);
  memcpy(top, flat.roots, flat.root_count * sizeof *top);
  top += flat.root_count;
  while (top > phase->ready) {
    uint32_t n = *--top;
    if (now > deadline) return;
    outcomes[n] = runs[n](NULL);
    outcomes[n].ended = now = read_stamp(how, phase);
    for (uint32_t e = flat.first_edge[n], end = flat.first_edge[n + 1]; e < end; e++)
      if (--counters[flat.edges[e]] == 0) *top++ = flat.edges[e];
  }
}

static int64_t run_times(floor_graph *graph, uint32_t times, void (*run)(floor_phase *phase)) {
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++)
    for (uint32_t p = 0; p < graph->phase_count; p++) run(&graph->phases[p]);
  return bench_now_ns() - began;
}

static void phase_bare(floor_phase *phase) { run_phase(phase, STAMP_NONE); }
static void phase_by_counter(floor_phase *phase) { run_phase(phase, STAMP_COUNTER); }
static void phase_by_clock(floor_phase *phase) { run_phase(phase, STAMP_CLOCK); }
static int64_t run_bare(void *ctx, uint32_t times) { return run_times(ctx, times, phase_bare); }
static int64_t run_by_counter(void *ctx, uint32_t times) { return run_times(ctx, times, phase_by_counter); }
static int64_t run_by_clock(void *ctx, uint32_t times) { return run_times(ctx, times, phase_by_clock); }

/* ---- making ---- */

static void phase_init(floor_phase *phase, const bench_graph *graph) {
  bench_flat_init(&phase->flat, graph);
  phase->deadline = UINT64_MAX;
  phase->runs = bench_alloc(graph->node_count, sizeof *phase->runs);
  phase->counters = bench_alloc(graph->node_count, sizeof *phase->counters);
  phase->ready = bench_alloc(graph->node_count, sizeof *phase->ready);
  phase->outcomes = bench_alloc(graph->node_count, sizeof *phase->outcomes);
  for (uint32_t n = 0; n < graph->node_count; n++) phase->runs[n] = nothing;
}

static void graph_close(void *ctx) {
  floor_graph *graph = ctx;
  for (uint32_t p = 0; p < graph->phase_count; p++) {
    floor_phase *phase = &graph->phases[p];
    bench_flat_fini(&phase->flat);
    free(phase->runs);
    free(phase->counters);
    free(phase->ready);
    free(phase->outcomes);
  }
  free(graph);
}

bench_contestant bench_floor(const bench_workload *workload, bool stamps) {
  floor_graph *graph = bench_alloc(1, sizeof *graph);
  graph->phase_count = workload->phase_count;
  for (uint32_t p = 0; p < workload->phase_count; p++) phase_init(&graph->phases[p], &workload->graphs[p]);
  return (bench_contestant){.name = stamps ? "floor" : "floor, no time-stamps",
                            .run = !stamps                  ? run_bare
                                   : bench_counter_steady() ? run_by_counter
                                                            : run_by_clock,
                            .close = graph_close,
                            .ctx = graph};
}

/* ---- calls ---- */

typedef struct call_result {
  uint64_t ended;
  uint32_t kind, completion_order;
  const char *text;
  size_t text_size;
} call_result;

typedef struct floor_calls {
  uint32_t count;
  call_result (*run)(void *ctx);
  void (*on_event)(void *ctx, uint32_t kind, const call_result *result);
  uint64_t *expires;
  call_result *results;
} floor_calls;

static call_result answer(void *ctx) {
  (void)ctx;
  return (call_result){.text = "done", .text_size = 4};
}

static void ignore_event(void *ctx, uint32_t kind, const call_result *result) {
  (void)ctx;
  (void)kind;
  (void)result;
}

static int64_t calls_run(void *ctx, uint32_t times) {
  floor_calls *calls = ctx;
  bool counter = bench_counter_steady();
  int64_t began = bench_now_ns();
  for (uint32_t t = 0; t < times; t++) {
    for (uint32_t i = 0; i < calls->count; i++) {
      calls->on_event(calls, 0, NULL);
      calls->results[i] = calls->run(NULL);
      calls->results[i].ended = counter ? bench_counter() : (uint64_t)bench_now_ns();
      calls->results[i].completion_order = i;
      calls->on_event(calls, 1, &calls->results[i]);
    }
  }
  return bench_now_ns() - began;
}

static int64_t timers_run(void *ctx, uint32_t times) {
  enum { GROUP = 64, DELAY_NS = 1000000 };
  floor_calls *calls = ctx;
  bench_wake_exactly(true);
  int64_t began = bench_now_ns();
  for (uint32_t t = 0; t < times; t++) {
    int64_t expires = 0;
    for (uint32_t i = 0; i < calls->count; i++) {
      if (i % GROUP == 0) expires = bench_now_ns() + DELAY_NS;
      calls->expires[i] = (uint64_t)expires;
    }
    for (uint32_t i = 0; i < calls->count; i++) {
      if (i % GROUP == 0) bench_sleep_until((int64_t)calls->expires[i]);
      calls->results[i] = calls->run(NULL);
      calls->results[i].completion_order = i;
    }
  }
  int64_t duration_ns = bench_now_ns() - began;
  bench_wake_exactly(false);
  return duration_ns;
}

static void calls_close(void *ctx) {
  floor_calls *calls = ctx;
  free(calls->expires);
  free(calls->results);
  free(calls);
}

static bench_contestant calls_new(uint32_t count, int64_t (*run)(void *ctx, uint32_t times)) {
  floor_calls *calls = bench_alloc(1, sizeof *calls);
  *calls = (floor_calls){.count = count,
                         .run = answer,
                         .on_event = ignore_event,
                         .expires = bench_alloc(count, sizeof *calls->expires),
                         .results = bench_alloc(count, sizeof *calls->results)};
  return (bench_contestant){.name = "floor", .run = run, .close = calls_close, .ctx = calls};
}

bench_contestant bench_floor_timers(uint32_t calls) { return calls_new(calls, timers_run); }
bench_contestant bench_floor_calls(uint32_t calls) { return calls_new(calls, calls_run); }
