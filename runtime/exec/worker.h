/* SPDX-License-Identifier: Apache-2.0
 *
 * worker: the engine workers. They take scheduled strands from one queue and own each until it has nothing to do. They
 * never call anything that may block. Lock: `workers`, for sleeping. */
#ifndef TP__WORKER_H
#define TP__WORKER_H

#include "runtime/exec/strand.h"
#include "runtime/os/queue.h"

#define TP__WORKERS_STOPPED (UINT32_C(1) << 31) /* in sleepers: the threads are gone */

typedef struct tp__workers {
  /* never changes after start */
  struct tp_runtime *runtime;
  tp__queue_mpmc *queue; /* holds every strand that may exist: a push cannot find it full */
  tp__thread **threads;
  uint32_t count;
  /* atomic: counted up before the last look at the queue, read by pushers after their push */
  tp__a32 sleepers;
  tp__mutex mutex;
  tp__cond work;
  bool stop; /* under mutex */
} tp__workers;

/** @param strands_max  how many strands may be scheduled at once. */
tp_status tp__workers_init(tp__workers *workers, struct tp_runtime *runtime, uint32_t count, size_t strands_max);
/** Starts the threads, all or none. */
tp_status tp__workers_start(tp__workers *workers);
/** Lets the queue run empty, then joins. What is pushed afterwards runs on the thread that pushes it, which must hold
 *  no lock of ours: the timer has to be stopped before. */
void tp__workers_stop(tp__workers *workers);
void tp__workers_fini(tp__workers *workers);
/** Schedules a strand that the caller just made non-idle. */
void tp__workers_push(struct tp_runtime *runtime, tp__strand *strand);
/** A look, which may be over when it returns: whether a worker has nothing to do. */
static inline bool tp__workers_idle(const tp__workers *workers) {
  return (tp__a32_load_relaxed(&workers->sleepers) & ~TP__WORKERS_STOPPED) > 0;
}

#endif
