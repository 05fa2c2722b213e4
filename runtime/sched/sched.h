/* SPDX-License-Identifier: Apache-2.0
 *
 * sched: the threads on which strands and attempts run: engine workers, the timer and the handler threads, with the
 * count of open tokens; or no threads, and a pump (pump.h). It knows strands and attempts, and nothing of what they are
 * of: its owner, a pointer that it compares and never follows, is what its threads are inside of (tp__inside). */
#ifndef TP__SCHED_H
#define TP__SCHED_H

#include "runtime/sched/pool.h"
#include "runtime/sched/pump.h"
#include "runtime/sched/timer.h"
#include "runtime/sched/worker.h"

/** What a thread does inside of an owner: from there nothing of that owner that waits is allowed. */
#define TP__THREAD_OWNER ((void *)(uintptr_t)2)   /* owns a strand: inline handlers and callbacks run here */
#define TP__THREAD_HANDLER ((void *)(uintptr_t)3) /* runs functions that may block */

typedef struct tp__sched_options {
  const void *owner;
  const tp_allocator *allocator; /* outlives the sched */
  uint32_t workers;
  size_t strands_max; /* how many may be scheduled at once */
  uint32_t handler_threads, layer_threads, detached_threads, abandoned_max;
  uint32_t tokens_max;     /* how many tokens may be open */
  bool pumped;             /* no threads: threads of the host pump */
  bool answers_to_workers; /* a handler thread never becomes the owner of the strand that it answered */
  /** Where it is pumped: one step of what the owner does on threads of its own elsewhere, without lock. May be NULL.
   *  @return whether there was one; else *ret_next_ns is when there may be, and is left as it is for never. */
  bool (*step)(const void *owner, int64_t *ret_next_ns);
  /** Every handler thread there may be is held by a function that was abandoned. Without lock; once until one of them
   *  came back. May be NULL. */
  void (*on_exhausted)(const void *owner, uint32_t abandoned);
  /** What the worker of this index has as tp__here.home. May be NULL. */
  void *(*worker_home)(const void *owner, uint32_t index);
  /** A worker runs this strand after the next one: fetch what its owner reads. May be NULL. */
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
  tp__a32 completers; /* threads inside of an answer by token: the owner stays while there are any */
} tp__sched;

tp_status tp__sched_init(tp__sched *sched, const tp__sched_options *options);
/** Starts the timer and the workers, all or none; handler threads are started when work finds none idle. */
tp_status tp__sched_start(tp__sched *sched);
/** Stops the timer, then the workers, which let their queue run empty. */
void tp__sched_stop(tp__sched *sched);
/** Stopped, and nothing is armed or queued. */
void tp__sched_fini(tp__sched *sched);

#endif
