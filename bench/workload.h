/* SPDX-License-Identifier: Apache-2.0
 *
 * workload.h: the graphs of the workloads W1 to W6, how they become a runtime, and one run of them on a turn. All
 * programs that measure them (times, instructions, peers) take them from here, so that all measure the same work. A
 * workload is only data: a graph for each of its phases, the same in every run. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include "turnphase/turnphase.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_PHASES_MAX = 5 };

/** Edge i leads from node from[i] to node to[i]; from[i] < to[i], so the order of the nodes fits the edges. */
typedef struct bench_graph {
  uint32_t node_count, edge_count;
  uint32_t *from, *to;
} bench_graph;

typedef struct bench_workload {
  const char *name; /* "W3" */
  const char *what; /* one line for people */
  uint32_t phase_count;
  bench_graph graphs[BENCH_PHASES_MAX]; /* graph i belongs to phase TP_PHASE_HOST + i */
} bench_workload;

/** Makes a workload by name, "W1" to "W6" (W6 is the graph of W5) or "diamond" (five phases of 1-2-1, as W7 has them).
 *  bench_workload_fini() frees its graphs.
 *  @return false when there is none of that name. */
bool bench_workload_make(bench_workload *workload, const char *name);

/** Makes one phase with a random graph of W5's shape: three edges for each node. The same for the same node_count. */
void bench_workload_make_random(bench_workload *workload, uint32_t node_count);
void bench_workload_fini(bench_workload *workload);

/** How many nodes all its phases have. */
uint32_t bench_workload_nodes(const bench_workload *workload);

/** Makes a runtime with the phases of the workload as host phases and one inline handler subscribed for each node.
 *  @param options  its phases are set here; NULL means default options.
 *  @param run      the handler of every node; NULL: one that does nothing.
 *  Ends the program when anything is refused. */
tp_runtime *bench_workload_runtime(const bench_workload *workload, const tp_runtime_options *options, tp_handler_fn run,
                                   void *ctx);

/** Runs every phase of the workload once, on the calling thread, and releases its result. */
void bench_workload_run(const bench_workload *workload, tp_turn *turn);

/** Begins a turn that the caller drives. Ends the program when it is refused. */
tp_turn *bench_turn_begin(tp_runtime *runtime);

/** Ends the program with the message of a failure, unless status is TP_OK. Since a bench cannot continue with a part of
 *  its work, nothing is cleaned up. @param fault  may be NULL. */
void bench_must(tp_status status, const tp_fault *fault);

/** Allocates zero-filled memory; without memory it ends the program. */
void *bench_alloc(size_t count, size_t size);

#ifdef __cplusplus
}
#endif
#endif
