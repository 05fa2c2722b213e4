/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.h: a graph as flat arrays, from which the floor and the peers run it. */
#ifndef BENCH_FLAT_H
#define BENCH_FLAT_H

#include "bench/workload.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The work of a node, called through a pointer as every handler is. */
typedef struct bench_job {
  void (*run)(void *ctx);
  void *ctx;
} bench_job;

/** A job that does nothing. */
extern const bench_job bench_nothing;
/** A job that writes an outcome of 32 bytes with a time-stamp, as the floor does. They are written to a ring of the
 *  thread, which stays in its cache; that costs less than a place for each node would. */
extern const bench_job bench_recorded;

typedef struct bench_flat {
  uint32_t node_count, edge_count, root_count;
  uint32_t *first_edge; /* node_count + 1 of them: the edges out of node n are those from first_edge[n] to [n + 1] */
  uint32_t *edges;      /* the target of each edge */
  uint32_t *roots;
  uint16_t *indegree;
} bench_flat;

void bench_flat_init(bench_flat *flat, const bench_graph *graph);
void bench_flat_fini(bench_flat *flat);

#ifdef __cplusplus
}
#endif
#endif
