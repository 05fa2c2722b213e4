/* SPDX-License-Identifier: Apache-2.0
 *
 * pump: does the work of a scheduler that has no threads (tp__sched_options.pumped). A thread of the host pumps: it
 * fires timers, runs scheduled strands, calls the functions that are queued for handler threads, and does steps of the
 * owner's work, one item after the other. One thread pumps at a time. Lock: `pump`, held only to change which thread
 * pumps and what has woken the pump.
 *
 * A thread that waits for something of the scheduler pumps while it waits (tp__sched_wait_until, tp__sched_park). If
 * another thread pumps, it waits until that thread has left. A function that waits is paused (pool.h) and pumps above
 * its own frames: the work that it waits for runs there, and so does other work that is ready.
 *
 * Every event that may make something ready wakes the pump. The pump has a flag that a descriptor shows to the host. A
 * wake-up sets the flag while no thread pumps. The host's pump (tp__pump_run) clears it when nothing is left to run. A
 * thread that pumped while it waited sets the flag in three cases: it has run anything, there were news after its last
 * look, or a timer is due before the time at which the host will pump by itself. */
#ifndef TP__PUMP_H
#define TP__PUMP_H

#include "runtime/os/os.h"

struct tp__sched;

/** How many functions of a pumped scheduler may wait at once: the frames of all of them are on stacks. */
enum { TP__PUMP_PAUSED_MAX = 16 };

typedef struct tp__pump {
  tp__mutex mutex;
  tp__cond changed; /* news, or no thread pumps any more */
  tp__pollable pollable;
  tp__a32 is_open; /* the pollable is there; release, acquire */
  uint32_t source; /* used only by the pumping thread: where it looks first */
  uint32_t depth;  /* used only by the pumping thread: how many pumps are nested in its frames */
  tp__a64 news;    /* counts wake-ups; changed under mutex, relaxed */
  /* under mutex */
  const tp__here *by;  /* the thread that pumps; NULL: none */
  bool is_set;         /* the pollable */
  bool host_missed;    /* the host's pump found another thread pumping: the host is woken when that thread leaves */
  uint32_t waiting;    /* threads that wait for `changed` */
  uint32_t contending; /* of the waiting threads, those that found another thread pumping */
  uint64_t clean_news; /* the news at which a look found nothing: nothing is ready before next_ns */
  int64_t next_ns;
  int64_t host_wakes_ns; /* when the host pumps again by itself */
} tp__pump;

tp_status tp__pump_init(tp__pump *pump);
/** Opens the descriptor, in the process in which the scheduler runs. */
tp_status tp__pump_open(tp__pump *pump);
void tp__pump_fini(tp__pump *pump);
static inline bool tp__pump_is_open(const tp__pump *pump) { return tp__a32_load_acquire(&pump->is_open); }
/** Asserts what always holds (pump.c). */
void tp__pump_check_locked(const tp__pump *pump);
/** On the thread that pumps: whether it pumps above a function that waits, whose frames are below. */
static inline bool tp__pump_is_nested(const tp__pump *pump) { return pump->depth > 1; }
/** Says that something may be ready. May be called under any lock of a lower rank. */
void tp__pump_wake(tp__pump *pump);
/** Called by the host: runs the ready items, at most items_max of them (0: all).
 *  @param ret_next_ns  when to pump again even without a wake-up; 0: at once, because items are left; TP__NEVER.
 *  @return TP_OK; TP_ERR_BUSY: another thread pumps. */
tp_status tp__pump_run(struct tp__sched *sched, uint32_t items_max, int64_t *ret_next_ns);

/** tp__cond_wait_until() for a scheduler of either kind. If the scheduler has no threads, the caller pumps meanwhile,
 *  without the mutex. The condition that it waits for is changed under the mutex, and then signalled by
 *  tp__sched_wake().
 *  @return false when deadline_ns has passed. May return early with true. */
bool tp__sched_wait_until(struct tp__sched *sched, tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns);
/** Called after each change for which a thread may wait by tp__sched_wait_until() or tp__sched_park(), and after the
 *  signal of its condition. Does nothing in a scheduler with threads. */
void tp__sched_wake(struct tp__sched *sched);
/** tp__parker_park_until() for a scheduler of either kind: its unpark is followed by tp__sched_wake(). */
bool tp__sched_park(struct tp__sched *sched, tp__parker *parker, int64_t deadline_ns);

#endif
