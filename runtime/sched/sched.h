/* SPDX-License-Identifier: Apache-2.0
 *
 * sched: the threads on which strands and attempts run (engine workers, the timer and the handler threads), and the
 * count of open tokens. Or no threads, and a pump (pump.h). It knows strands and attempts, but not the objects that
 * they belong to. `owner` is a pointer that it compares and never follows; its threads are inside of that owner
 * (tp__inside). */
#ifndef TP__SCHED_H
#define TP__SCHED_H

#include "runtime/sched/pool.h"
#include "runtime/sched/pump.h"
#include "runtime/sched/timer.h"
#include "runtime/sched/worker.h"

/** What a thread does inside of an owner. From inside, no function of that owner that waits is allowed. */
#define TP__THREAD_OWNER ((void *)(uintptr_t)2)   /* the thread owns a strand: inline handlers and callbacks run here */
#define TP__THREAD_HANDLER ((void *)(uintptr_t)3) /* runs functions that may block */

typedef struct tp__sched_options {
  const void *owner;
  const tp_allocator *allocator; /* outlives the sched */
  uint32_t workers;
  size_t strands_max; /* how many may be scheduled at once */
  uint32_t handler_threads, layer_threads, detached_threads, abandoned_max;
  uint32_t tokens_max;     /* how many tokens may be open */
  bool pumped;             /* no threads: threads of the host pump */
  bool answers_to_workers; /* a handler thread never becomes the owner of the strand that it has answered */
  /** Only when pumped: one step of the work for which the owner has threads of its own otherwise. Called without lock.
   *  May be NULL.
   *  @return whether there was a step. If not, *ret_next_ns is the time at which there may be one; it is not changed
   *    when there will be none. */
  bool (*step)(const void *owner, int64_t *ret_next_ns);
  /** Called when abandoned functions hold every handler thread that there may be, once until one of these functions has
   *  returned. Without lock. May be NULL. */
  void (*on_exhausted)(const void *owner, uint32_t abandoned);
  /** Gives the tp__here.home of the worker with this index. May be NULL. */
  void *(*worker_home)(const void *owner, uint32_t index);
  /** A worker will run this strand after the next one: prefetches the data that its owner will read. May be NULL. */
  void (*prefetch)(const tp__strand *strand);
} tp__sched_options;

typedef struct tp__sched {
  tp__sched_options options; /* never changes after init */
  tp__workers workers;
  tp__pool pool;
  tp__timer timer;
  tp__pump pump;
  /* atomic */
  tp__a32 tokens_open;
  tp__a32 completers; /* threads that answer by token at this moment: the owner is not freed while there are any */
} tp__sched;

tp_status tp__sched_init(tp__sched *sched, const tp__sched_options *options);
/** Starts the timer and the workers, all or none. Handler threads start when there is work and none is idle. */
tp_status tp__sched_start(tp__sched *sched);
/** Stops the timer, then the workers, which let their queue run empty. */
void tp__sched_stop(tp__sched *sched);
/** The sched is stopped, and nothing is armed or queued. */
void tp__sched_fini(tp__sched *sched);

#endif
