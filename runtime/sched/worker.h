/* SPDX-License-Identifier: Apache-2.0
 *
 * worker: the engine workers. They take scheduled strands from one queue, some at a time where many wait, and own each
 * until it has nothing to do. They never call anything that may block. Lock: `workers`, for sleeping.
 *
 * An idle worker searches or sleeps. A searcher is a worker that was woken, or the one that still looks at the queue
 * for some microseconds after its last work, as long as its searches lasted no more than a tenth of the time of its
 * work. While there is a searcher, a push wakes no worker: the searcher finds what was pushed. A searcher that found
 * work and was the only one wakes the next sleeper if there is more. So a push wakes one thread at most, and so does a
 * burst of them: each woken worker wakes the next. */
#ifndef TP__WORKER_H
#define TP__WORKER_H

#include "runtime/os/queue.h"
#include "runtime/sched/strand.h"

struct tp__sched;
struct tp__sched_options;
struct tp__workers;

typedef struct tp__worker {
  struct tp__workers *all;
  void *home; /* tp__here.home of its thread */
  tp__thread *thread;
} tp__worker;

typedef struct tp__workers {
  /* never changes after start */
  const struct tp__sched_options *options;
  tp__queue_mpmc *queue; /* holds every strand that may exist: a push cannot find it full */
  tp__worker *each;
  uint32_t count;
  tp__mutex mutex;
  tp__cond work;
  /* under mutex */
  bool stop;
  uint32_t wakes; /* given and not yet taken: each is a searcher already */
  /* atomic: sleepers, searchers, the end, and whether there are no threads (worker.c); acq_rel: written by a worker
   * before its last look at the queue, read by read-modify-write by pushers after their push. On lines of its own, and
   * so is the next. */
  char before[128];
  tp__a32 idle;
  char between[124];
  tp__a64 worked_ns, searched_ns; /* of threads that have ended */
  tp__a32 idle_workers; /* relaxed: how many have no work; a hint for those that have taken more than they run */
  char after[124];
} tp__workers;

/** @param options  kept. */
tp_status tp__workers_init(tp__workers *workers, const struct tp__sched_options *options);
/** Starts the threads, all or none; none where the scheduler is pumped. */
tp_status tp__workers_start(tp__workers *workers);
/** Lets the queue run empty, then joins. What is pushed afterwards runs on the thread that pushes it, which must hold
 *  no lock of ours: the timer has to be stopped before. */
void tp__workers_stop(tp__workers *workers);
void tp__workers_fini(tp__workers *workers);
/** Where there are no threads: runs the strand that was scheduled first. @return false when there is none. */
bool tp__workers_run_one(tp__workers *workers);
/** Schedules a strand that the caller just made non-idle. */
void tp__workers_push(tp__workers *workers, tp__strand *strand);
/** A look, which may be over when it returns: whether a worker has nothing to do. */
static inline bool tp__workers_idle(const tp__workers *workers) {
  return tp__a32_load_relaxed(&workers->idle_workers) > 0;
}

#endif
