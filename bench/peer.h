/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h: other runtimes that can do the same work. Each peer is one file, which is built when its library is found. It
 * is written as by a programmer who knows that library well and wants speed; `form` describes how. No peer records
 * outcomes, tests deadlines or can be cancelled; when peers are compared at equal duty, the host does this work for
 * them. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "bench/flat.h"
#include "bench/measure.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Functions that make contestants. They are NULL, or leave run NULL, where the library has nothing for the work. Each
 *  node runs the job. */
typedef struct bench_peer {
  const char *name;
  const char *(*version)(void);
  /** W1 to W6: the phases of the workload, one after the other, each a graph of nodes. heavy: a node's work is worth a
   *  thread. */
  void (*graph)(const bench_workload *workload, bench_job job, bool heavy, bench_contestant *ret);
  /** W7: a number of turns at once, each with the phases of the workload one after the other. */
  void (*turns)(const bench_workload *workload, bench_job job, uint32_t turns, bench_contestant *ret);
  /** W8: a number of calls at once, each ended by a timer of its own a millisecond later. */
  void (*timers)(uint32_t calls, bench_contestant *ret);
  /** W9: a number of calls at once that do nothing; each writes its result to its place. equal_duty: each also does the
   *  work of duty.h, with one event at a time. */
  void (*calls)(uint32_t calls, bool equal_duty, bench_contestant *ret);
} bench_peer;

extern const bench_peer *const bench_peers[];
extern const size_t bench_peer_count;

extern const bench_peer bench_peer_tbb_group, bench_peer_tbb_flow, bench_peer_openmp, bench_peer_glib, bench_peer_uv;

/** How many processors the peers may use. */
uint32_t bench_processors(void);

#ifdef __cplusplus
}
#endif
#endif
