/* SPDX-License-Identifier: Apache-2.0
 *
 * worker: the engine workers. They take scheduled strands from one queue (several at a time when many wait), and own
 * each strand until it has nothing to do. They never call anything that may block. Lock: `workers`, for sleeping.
 *
 * An idle worker searches or sleeps. There are two kinds of searchers: a worker that was woken, and the one worker that
 * still looks at the queue for some microseconds after its last work. The second kind searches for at most a tenth of
 * the time of its work. While there is a searcher, a push wakes no worker, because the searcher finds the pushed
 * strand. When the only searcher finds work and there is more, it wakes the next sleeper. So a push wakes at most one
 * thread, and so does a burst of pushes: each woken worker wakes the next. */
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
  tp__queue_mpmc *queue; /* has capacity for every strand that may exist, so a push never finds it full */
  tp__worker *each;
  uint32_t count;
  tp__mutex mutex;
  tp__cond work;
  /* under mutex */
  bool stop;
  uint32_t wakes; /* given and not yet taken; the worker that each is for counts as a searcher already */
  /* Atomic: the counts of sleepers and searchers, the end, and whether there are no threads (worker.c). acq_rel: a
   * worker writes it before its last look at the queue, and pushers read it by read-modify-write after their push. It
   * has cache lines of its own, and so has the next field. */
  char before[128];
  tp__a32 idle;
  char between[124];
  tp__a64 worked_ns, searched_ns; /* of threads that have ended */
  /* relaxed: how many workers have no work; a hint for workers that have taken more strands than they run */
  tp__a32 idle_workers;
  char after[124];
} tp__workers;

/** @param options  kept. */
tp_status tp__workers_init(tp__workers *workers, const struct tp__sched_options *options);
/** Starts all threads, or none. A pumped scheduler has none. */
tp_status tp__workers_start(tp__workers *workers);
/** Lets the queue run empty, then joins the threads. A strand that is pushed later runs on the thread that pushes it.
 *  That thread must not hold a lock of the library, so the timer must be stopped first. */
void tp__workers_stop(tp__workers *workers);
void tp__workers_fini(tp__workers *workers);
/** For a scheduler without threads: runs the strand that was scheduled first. @return false when there is none. */
bool tp__workers_run_one(tp__workers *workers);
/** Schedules a strand; the caller has just ended its IDLE state. */
void tp__workers_push(tp__workers *workers, tp__strand *strand);
/** Whether a worker has nothing to do. The answer may be out of date when this returns. */
static inline bool tp__workers_idle(const tp__workers *workers) {
  return tp__a32_load_relaxed(&workers->idle_workers) > 0;
}

#endif
