/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: the handler threads. Each holds one attempt at a time. A thread is started when there is work and no thread is
 * idle, and ends after it was idle for a while. An attempt that needs a permit (permits.h) takes the permit first:
 * permits bound the number of threads that its subscription occupies. Lock: `pool`. No function of a handler is called
 * under it.
 *
 * An attempt passes these places: waiting for a permit -> queued -> running -> done. If a thread is idle, the attempt
 * is offered to that thread, which wakes and takes it without the lock. tp__pool_abandon() takes an attempt out of each
 * of these places, also out of the offer; if a thread already runs it, the thread counts as lost until the function
 * returns.
 *
 * When a function has answered, its thread runs the turn, if the turn has no owner (strand.h). When the turn then
 * submits an attempt and nothing else waits for a thread, one attempt is offered to this same thread. The thread takes
 * it when it has left the turn, and no other thread is woken.
 *
 * A function that waits for something of its own runtime is paused (tp__pool_pause): it occupies no permit, and another
 * thread may be started in its place. So the thing that it waits for finds both a permit and a thread. The function
 * gets both back before it goes on. A function may also defer and leave the waiting to its token; if it would keep its
 * permit during that time, it yields it (tp__pool_yield_permit).
 *
 * A pumped scheduler has no threads, and none is missing: the thread that pumps calls the queued functions. Functions
 * run above those that wait, which are paused.
 *
 * A thread without work takes over an attempt that was offered to a woken thread which has not taken it yet, because a
 * wake-up may take longer than the work. The woken thread then counts as idle again, and is not woken for its next
 * offer. */
#ifndef TP__POOL_H
#define TP__POOL_H

#include "runtime/os/os.h"
#include "runtime/sched/permits.h"
#include "turnphase/inbox.h"
#include "turnphase/runtime.h"

struct tp__attempt;
struct tp__sched_options;

/** The use of a thread: handlers of a phase, histories, tools, detached runs. Awaited handlers have no cap of their
 *  own, so that such a handler always finds a thread. */
typedef enum tp__lane {
  TP__LANE_AWAITED = 0,
  TP__LANE_HISTORY = 1,
  TP__LANE_LAYER = 2,
  TP__LANE_DETACHED = 3,
  TP__LANES = 4
} tp__lane;

/** How many of the threads histories may take: a quarter, but at least two. */
static inline uint32_t tp__history_threads(uint32_t threads_max) { return threads_max / 4 > 2 ? threads_max / 4 : 2; }

/** The most functions of a pool that may wait at once; each of them occupies a thread. In a pumped scheduler: fewer
 *  (pump.h). */
enum { TP__PAUSED_MAX = 1024 };

typedef enum tp__pool_place {
  TP__POOL_OUTSIDE = 0,
  TP__POOL_WAITING = 1, /* for a permit */
  TP__POOL_QUEUED = 2,
  TP__POOL_RUNNING = 3,
  TP__POOL_IN_INBOX = 4, /* or taken out of it: with a permit, until its token is completed */
  TP__POOL_PAUSED = 5,   /* running, and it waits: without a permit and without a place in its lane */
  TP__POOL_DEFERRED = 6  /* keeps_permit: its function has returned and deferred, and its token is open */
} tp__pool_place;

/** The pool's part of an attempt. */
typedef struct tp__pool_item {
  /* set by the owner before submit */
  tp__lane lane;
  tp__permits *permits; /* NULL: needs none */
  uint32_t permits_max;
  bool is_patient;    /* waits in line even when abandoned functions hold all permits: they will return */
  uint32_t queue_max; /* the attempt is shed when this many already wait for a thread; 0: never */
  bool keeps_permit;  /* also after a deferral, while its token is open */
  /* not NULL: the attempt goes there when there is a permit, and never to a thread. The owner keeps a reference */
  tp_inbox *inbox;
  const char *name; /* for people: what runs */
  uint32_t phase;
  /* under the pool's lock */
  tp__pool_place place;
  bool abandoned;
  bool token_ended;      /* with keeps_permit: the token was completed before the function returned */
  bool yields_permit;    /* with keeps_permit: but only until the function returns */
  tp__link link;         /* in the permits' line, a lane's, pool->offered or pool->unput */
  tp__link running_link; /* in pool->running */
  uint16_t ran_on; /* the number of the thread that runs it, written before the call of the function; 0: not yet */
  struct tp__pool_thread *thread; /* the thread to which it was offered; NULL: that thread removed it under the lock */
  union {
    int64_t running_since_ns;
    tp__a64 offered_ns; /* with an inbox: when it was put there, 0 before; release, acquire by the owner */
  };
} tp__pool_item;

typedef struct tp__pool {
  /* never changes after init */
  const struct tp__sched_options *options;
  uint32_t threads_max, paused_max, lane_max[TP__LANES];
  tp__mutex mutex;
  tp__cond ended_one;  /* for the stop */
  tp__cond may_resume; /* for paused functions: a permit or a place in a lane may be free */
  /* under mutex */
  tp__link lanes[TP__LANES];
  uint32_t lane_running[TP__LANES]; /* without the abandoned and the paused */
  tp__a32 queued_count;             /* in all lanes; only tp__pool_queued_count() reads it without the lock (relaxed) */
  uint32_t line_count;              /* in the lines of all permits */
  tp__link running;
  tp__link threads;             /* tp__pool_thread, live */
  tp__link ended;               /* to be joined */
  tp__link offered;             /* items that were offered to idle threads and may have been taken by them */
  tp__link unput;               /* items with a permit that their inbox refused; they are refused without the lock */
  struct tp__pool_thread *idle; /* parked threads; the one that became idle last is first */
  uint32_t thread_count, idle_count;
  uint32_t started_count;   /* threads, ever */
  uint32_t abandoned_count; /* without the paused */
  uint32_t running_count;   /* in all lanes */
  uint32_t paused_count;    /* with those that were abandoned: */
  uint32_t paused_abandoned_count;
  /* of these, those that wait for a place; they come before queued items */
  uint32_t lane_returning[TP__LANES], returning_count;
  uint32_t abandoned_max; /* up to this many of them have another thread in their place */
  bool is_exhausted;      /* on_exhausted was called */
  bool stop;
  void (*last_out)(void *ctx); /* set when the owner is gone */
  void *last_out_ctx;
} tp__pool;

/** @param options  kept. */
tp_status tp__pool_init(tp__pool *pool, const struct tp__sched_options *options);
/** For a scheduler without threads: calls the function that was queued first. @return false when none may run. */
bool tp__pool_run_one(tp__pool *pool);
/** Nothing may be queued. Joins every thread except those that run abandoned attempts.
 *  @return how many are still running. */
uint32_t tp__pool_stop(tp__pool *pool);
/** After the stop: when the last thread has returned from an abandoned attempt, it calls last_out.
 *  @return false when no thread runs one; then last_out is not called. */
bool tp__pool_orphan(tp__pool *pool, void (*last_out)(void *ctx), void *ctx);
void tp__pool_fini(tp__pool *pool);

/** Asserts what always holds (pool.c). */
void tp__pool_check_locked(const tp__pool *pool);
/** Sets how many abandoned attempts have another thread in their place from now on. */
void tp__pool_set_abandoned_max(tp__pool *pool, uint32_t count);
/** Whether abandoned attempts hold every thread that there may be. */
bool tp__pool_is_exhausted(tp__pool *pool);
/** Gives the attempt to a thread, at once or when there are a permit and a thread.
 *  @param here  the calling handler thread, which takes the offer soon; NULL: another thread is to run it.
 *  @param later  threads that the caller wakes soon, by tp__pool_wake(): this adds to them; NULL: they are woken here.
 *  @return TP_REASON_NONE; or why it will never run: NO_PERMIT (abandoned attempts hold all permits), NO_WORKER (no
 *          thread runs and none could be started), SHUTDOWN. */
tp_reason tp__pool_submit(tp__pool *pool, tp__pool_item *item, struct tp__pool_thread *here,
                          struct tp__pool_thread **later);
void tp__pool_wake(struct tp__pool_thread *threads);
/** As tp__pool_submit(), for an item with an inbox.
 *  @return NONE: it is in the inbox, or will be when there is a permit; NO_PERMIT; NO_WORKER (closed);
 *          SHUTDOWN. */
tp_reason tp__pool_offer(tp__pool *pool, tp__pool_item *item);
/** The token of an item has ended; the item has an inbox or keeps its permit. The permit goes to the next in line. */
void tp__pool_token_ended(tp__pool *pool, tp__pool_item *item);
/** Called by the thread that runs the item: its deferral will wait for something that may need a permit of its own. So
 *  the permit goes to the next in line when the function returns, even with keeps_permit. */
void tp__pool_yield_permit(tp__pool *pool, tp__pool_item *item);
/** The owner no longer waits for the item.
 *  @return true when it was still waiting or queued: it will never run. Attempts that can now never get one of these
 *  permits are refused with NO_PERMIT. If no thread is left, queued attempts are refused with NO_WORKER. */
bool tp__pool_abandon(tp__pool *pool, tp__pool_item *item);
/** Called by the thread that runs the item, before it waits for something that may need a thread or a permit of this
 *  pool.
 *  @return TP_OK: tp__pool_resume() follows. TP_ERR_CANCELLED: it was abandoned. TP_ERR_FULL: TP__PAUSED_MAX functions
 *          are paused. TP_ERR_USAGE: no thread of the pool runs it. */
tp_status tp__pool_pause(tp__pool *pool, tp__pool_item *item);
/** The wait of the function is over. Waits until there are a permit and a place in its lane. */
void tp__pool_resume(tp__pool *pool, tp__pool_item *item);
/** Names the functions that still run although they were abandoned, at most 256. @return how many there are. */
size_t tp__pool_leaks(tp__pool *pool, bool (*each)(void *ctx, const tp_leak *leak), void *ctx);
/** How many wait for a permit or a thread. */
uint32_t tp__pool_waiting_count(tp__pool *pool);
/** How many items wait for a thread. Without the lock the count may be a moment old. */
static inline uint32_t tp__pool_queued_count(const tp__pool *pool) { return tp__a32_load_relaxed(&pool->queued_count); }
uint32_t tp__pool_thread_count(tp__pool *pool);

#endif
