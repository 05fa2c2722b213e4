/* SPDX-License-Identifier: Apache-2.0
 *
 * peer_run.h: shared code of the peers without graphs of their own: counters over a flat graph, and a run that
 * continues with the first node that it makes ready and gives the others to the library; and turns and calls as a user
 * would write them. */
#ifndef BENCH_PEER_RUN_H
#define BENCH_PEER_RUN_H

#include <stdatomic.h>
#include <stdlib.h>

#include "bench/duty.h"
#include "bench/peer.h"

typedef struct bench_peer_phase {
  bench_flat flat;
  _Atomic uint16_t *left;
  bench_job job;
} bench_peer_phase;

static inline void bench_peer_phase_init(bench_peer_phase *phase, const bench_graph *graph, bench_job job) {
  bench_flat_init(&phase->flat, graph);
  phase->left = bench_alloc(graph->node_count, sizeof *phase->left);
  phase->job = job;
}

static inline void bench_peer_phase_fini(bench_peer_phase *phase) {
  bench_flat_fini(&phase->flat);
  free((void *)phase->left);
}

static inline void bench_peer_phase_reset(bench_peer_phase *phase) {
  for (uint32_t n = 0; n < phase->flat.node_count; n++)
    atomic_store_explicit(&phase->left[n], phase->flat.indegree[n], memory_order_relaxed);
}

/* Runs a node, and then the first node that becomes ready by it, and so on; give(ctx, node) gets the others. @return
 * how many nodes it ran. */
static inline uint32_t bench_peer_run_from(bench_peer_phase *phase, uint32_t node,
                                           void (*give)(void *ctx, uint32_t node), void *ctx) {
  const bench_flat *flat = &phase->flat;
  for (uint32_t ran = 1;; ran++) {
    uint32_t next = UINT32_MAX;
    phase->job.run(phase->job.ctx);
    for (uint32_t e = flat->first_edge[node]; e < flat->first_edge[node + 1]; e++) {
      uint32_t to = flat->edges[e];
      /* The thread that counts down to zero sees the effects of all threads before it. */
      if (atomic_fetch_sub_explicit(&phase->left[to], 1, memory_order_acq_rel) != 1) continue;
      if (next == UINT32_MAX) next = to;
      else give(ctx, to);
    }
    if (next == UINT32_MAX) return ran;
    node = next;
  }
}

/* ---- turns whose graphs a loop of the user's own runs ---- */

enum { BENCH_PEER_NODES_MAX = 16 };

typedef struct bench_peer_turns {
  uint32_t count, phase_count;
  bench_flat flats[BENCH_PHASES_MAX];
  bench_job job;
} bench_peer_turns;

static inline void bench_peer_turns_init(bench_peer_turns *turns, const bench_workload *workload, bench_job job,
                                         uint32_t count) {
  *turns = (bench_peer_turns){.count = count, .phase_count = workload->phase_count, .job = job};
  for (uint32_t p = 0; p < turns->phase_count; p++) {
    if (workload->graphs[p].node_count > BENCH_PEER_NODES_MAX) exit(70);
    bench_flat_init(&turns->flats[p], &workload->graphs[p]);
  }
}

static inline void bench_peer_turns_fini(bench_peer_turns *turns) {
  for (uint32_t p = 0; p < turns->phase_count; p++) bench_flat_fini(&turns->flats[p]);
}

/* Runs a phase on this thread, from a stack of its own. */
static inline void bench_peer_run_alone(const bench_peer_turns *turns, uint32_t phase) {
  const bench_flat *flat = &turns->flats[phase];
  uint16_t left[BENCH_PEER_NODES_MAX];
  uint32_t stack[BENCH_PEER_NODES_MAX], ready = 0;
  for (uint32_t n = 0; n < flat->node_count; n++) left[n] = flat->indegree[n];
  for (uint32_t r = 0; r < flat->root_count; r++) stack[ready++] = flat->roots[r];
  while (ready > 0) {
    uint32_t n = stack[--ready];
    turns->job.run(turns->job.ctx);
    for (uint32_t e = flat->first_edge[n]; e < flat->first_edge[n + 1]; e++)
      if (--left[flat->edges[e]] == 0) stack[ready++] = flat->edges[e];
  }
}

/* ---- calls ---- */

/* As large as the floor's. */
typedef struct bench_peer_result {
  uint64_t ended, rest[3];
} bench_peer_result;

typedef struct bench_peer_calls {
  uint32_t count;
  bench_job job;
  bench_peer_result *results;
  bench_duty *duty; /* NULL: only the job is done */
} bench_peer_calls;

static inline bench_peer_calls bench_peer_calls_of(uint32_t count, bool equal_duty) {
  return (bench_peer_calls){.count = count,
                            .job = bench_nothing,
                            .results = bench_alloc(count, sizeof(bench_peer_result)),
                            .duty = equal_duty ? bench_duty_new(count) : NULL};
}

static inline void bench_peer_calls_fini(bench_peer_calls *calls) {
  if (calls->duty) bench_duty_free(calls->duty);
  free(calls->results);
}

#endif
