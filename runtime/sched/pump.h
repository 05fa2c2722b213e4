/* SPDX-License-Identifier: Apache-2.0
 *
 * pump: in place of the threads of a scheduler that has none (tp__sched_options.pumped). A thread of the host pumps: it
 * fires timers, runs scheduled strands, calls the functions that are queued for handler threads, and does a step of the
 * owner's work, one item after the other. One thread pumps at a time. Lock: `pump`, which is held only to change who
 * pumps and what woke it.
 *
 * A thread that waits for something of the scheduler pumps while it waits (tp__sched_wait_until, tp__sched_park); where
 * another thread pumps, it waits until that one has left. A function that waits is paused (pool.h) and pumps above its
 * own frames: what it waits for runs there, and so does what else is ready.
 *
 * Whatever may make something ready wakes the pump. A flag that a descriptor shows is set by a wake-up while no thread
 * pumps, and cleared by a pump of the host's (tp__pump_run) that has left nothing. A thread that pumped while it waited
 * sets it when it has run anything, when there were news after its look, or when a timer is due before the host pumps
 * by itself. */
#ifndef TP__PUMP_H
#define TP__PUMP_H

#include "runtime/os/os.h"

struct tp__sched;

/** How many functions of a pumped scheduler wait at once: each of them has its frames on a stack. */
enum { TP__PUMP_PAUSED_MAX = 16 };

typedef struct tp__pump {
  tp__mutex mutex;
  tp__cond changed; /* news, or no thread pumps any more */
  tp__pollable pollable;
  tp__a32 is_open; /* the pollable is there; release, acquire */
  uint32_t source; /* of the thread that pumps: where it looks first */
  uint32_t depth;  /* of the thread that pumps: how often it does, each time above the frames of the one before */
  tp__a64 news;    /* counts wake-ups; changed under mutex, relaxed */
  /* under mutex */
  const tp__here *by;  /* the thread that pumps; NULL: none */
  bool is_set;         /* the pollable */
  bool host_missed;    /* a pump of the host's found another thread: it is woken when that leaves */
  uint32_t waiting;    /* threads that wait for `changed` */
  uint32_t contending; /* of these, those that found another thread pumping */
  uint64_t clean_news; /* the news after which a look has found nothing: until next_ns nothing is ready */
  int64_t next_ns;
  int64_t host_wakes_ns; /* when the host pumps again by itself */
} tp__pump;

tp_status tp__pump_init(tp__pump *pump);
/** Opens the descriptor: in the process in which the scheduler runs. */
tp_status tp__pump_open(tp__pump *pump);
void tp__pump_fini(tp__pump *pump);
static inline bool tp__pump_is_open(const tp__pump *pump) { return tp__a32_load_acquire(&pump->is_open); }
/** Asserts what always holds (pump.c). */
void tp__pump_check_locked(const tp__pump *pump);
/** On the thread that pumps: whether it does so above a function that waits, whose frames are below. */
static inline bool tp__pump_is_nested(const tp__pump *pump) { return pump->depth > 1; }
/** Something may be ready. Under any lock of a lower rank. */
void tp__pump_wake(tp__pump *pump);
/** The host's: runs what is ready, at most items_max items (0: all).
 *  @param ret_next_ns  when to pump again though nothing woke it; 0: at once, something is left; TP__NEVER.
 *  @return TP_OK; TP_ERR_BUSY: another thread pumps. */
tp_status tp__pump_run(struct tp__sched *sched, uint32_t items_max, int64_t *ret_next_ns);

/** tp__cond_wait_until() for a scheduler of either kind: where it has no threads, the caller pumps meanwhile, without
 *  the mutex. What is waited for is changed under the mutex, and then signalled by tp__sched_wake().
 *  @return false when deadline_ns has passed. May return early with true. */
bool tp__sched_wait_until(struct tp__sched *sched, tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns);
/** After each change that a thread may wait for by tp__sched_wait_until(), and the signal of its condition. The same
 *  for tp__sched_park(). Nothing where there are threads. */
void tp__sched_wake(struct tp__sched *sched);
/** tp__parker_park_until() for a scheduler of either kind: its unpark is followed by tp__sched_wake(). */
bool tp__sched_park(struct tp__sched *sched, tp__parker *parker, int64_t deadline_ns);

#endif
