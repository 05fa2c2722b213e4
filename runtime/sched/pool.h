/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: the handler threads. Each holds one attempt at a time; they are started when work finds none idle and end when
 * they were idle for a while. What has permits (permits.h) takes one first: they bound the threads that it occupies.
 * Lock: `pool`. No function of a handler's is ever called under it.
 *
 * An attempt is somewhere on this way: waiting for a permit -> queued -> running -> done. Where a thread is idle it is
 * offered to that one thread, which wakes and takes it without the lock. tp__pool_abandon() takes it off the way, also
 * out of the offer, or marks the thread that runs it as lost until the function returns.
 *
 * When a function has answered, its thread runs the turn on, if that has no owner (strand.h). What the turn submits
 * then is offered to the same thread, one attempt at most and only where nothing waits for a thread: the thread takes
 * it when it has left the turn, and no other one is woken.
 *
 * A function that waits for something of its own runtime is paused (tp__pool_pause): it occupies no permit and another
 * thread may be started in its place, so that what it waits for finds both. It gets both back before it goes on. One
 * that defers and leaves the waiting to its token, and would keep its permit, yields it (tp__pool_yield_permit).
 *
 * Where the scheduler is pumped there are no threads, and none is missing: what is queued is called by the thread that
 * pumps, and functions run above those that wait, which are paused.
 *
 * A thread that has nothing to do takes over what is offered to a thread that was woken and has not taken it yet: a
 * wake-up may take longer than the work. The woken thread counts as idle again, and is not woken for its next offer. */
#ifndef TP__POOL_H
#define TP__POOL_H

#include "runtime/os/os.h"
#include "runtime/sched/permits.h"
#include "turnphase/inbox.h"
#include "turnphase/runtime.h"

struct tp__attempt;
struct tp__sched_options;

/** What a thread is used for: handlers of a phase, histories, tools, detached runs. Awaited handlers have no cap of
 *  their own, so that one always finds a thread. */
typedef enum tp__lane {
  TP__LANE_AWAITED = 0,
  TP__LANE_HISTORY = 1,
  TP__LANE_LAYER = 2,
  TP__LANE_DETACHED = 3,
  TP__LANES = 4
} tp__lane;

/** How many of the threads histories take: a quarter, but two at least. */
static inline uint32_t tp__history_threads(uint32_t threads_max) { return threads_max / 4 > 2 ? threads_max / 4 : 2; }

/** So many functions of a pool wait at once: each of them occupies a thread. Where it is pumped, fewer (pump.h). */
enum { TP__PAUSED_MAX = 1024 };

typedef enum tp__pool_place {
  TP__POOL_OUTSIDE = 0,
  TP__POOL_WAITING = 1, /* for a permit */
  TP__POOL_QUEUED = 2,
  TP__POOL_RUNNING = 3,
  TP__POOL_IN_INBOX = 4, /* or taken from it: with a permit, until its token is completed */
  TP__POOL_PAUSED = 5,   /* running, and it waits: without a permit and a place in its lane */
  TP__POOL_DEFERRED = 6  /* keeps_permit: its function has returned and deferred, and its token is open */
} tp__pool_place;

/** The pool's part of an attempt. */
typedef struct tp__pool_item {
  /* set by the owner before submit */
  tp__lane lane;
  tp__permits *permits; /* NULL: needs none */
  uint32_t permits_max;
  bool is_patient;    /* waits in line also where abandoned functions hold all permits: they will return */
  uint32_t queue_max; /* it is shed where so many wait for a thread already; 0: never */
  bool keeps_permit;  /* also while its token is open after a deferral */
  tp_inbox *inbox;    /* not NULL: it goes there when there is a permit, and never to a thread. Kept by the owner */
  const char *name;   /* for people: what runs */
  uint32_t phase;
  /* under the pool's lock */
  tp__pool_place place;
  bool abandoned;
  bool token_ended;      /* keeps_permit: the token was completed before the function returned */
  bool yields_permit;    /* keeps_permit: only until the function returns */
  tp__link link;         /* in the permits' line, a lane's, pool->offered or pool->unput */
  tp__link running_link; /* in pool->running */
  uint16_t ran_on;       /* the number of the thread that runs it: written before its function is called; 0: not yet */
  struct tp__pool_thread *thread; /* that it was offered to; NULL: its thread removed it under the lock */
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
  tp__cond may_resume; /* for functions that were paused: a permit or a place in a lane may be free */
  /* under mutex */
  tp__link lanes[TP__LANES];
  uint32_t lane_running[TP__LANES]; /* without the abandoned and the paused */
  tp__a32 queued_count;             /* in all lanes; read without the lock (relaxed) by tp__pool_queued_count() alone */
  uint32_t line_count;              /* in the lines of all permits */
  tp__link running;
  tp__link threads; /* tp__pool_thread, live */
  tp__link ended;   /* to be joined */
  tp__link offered; /* items that were offered to idle threads, which may have taken them */
  tp__link unput;   /* items that got a permit, and whose inbox refused them: to be refused without the lock */
  struct tp__pool_thread *idle; /* parked; the last one that went idle first */
  uint32_t thread_count, idle_count;
  uint32_t started_count;   /* threads, ever */
  uint32_t abandoned_count; /* without the paused */
  uint32_t running_count;   /* in all lanes */
  uint32_t paused_count;    /* with those that were abandoned: */
  uint32_t paused_abandoned_count;
  uint32_t lane_returning[TP__LANES], returning_count; /* of these, those that wait for a place: before the queued */
  uint32_t abandoned_max;                              /* of them so many have another thread in their place */
  bool is_exhausted;                                   /* on_exhausted was called */
  bool stop;
  void (*last_out)(void *ctx); /* set when the owner is gone */
  void *last_out_ctx;
} tp__pool;

/** @param options  kept. */
tp_status tp__pool_init(tp__pool *pool, const struct tp__sched_options *options);
/** Where there are no threads: calls the function that is queued first. @return false when none may run. */
bool tp__pool_run_one(tp__pool *pool);
/** Nothing may be queued. Joins every thread but those that run abandoned attempts.
 *  @return how many are still running. */
uint32_t tp__pool_stop(tp__pool *pool);
/** After the stop: the last thread that is still inside an abandoned attempt calls last_out when it is out.
 *  @return false when there is none, and last_out will not be called. */
bool tp__pool_orphan(tp__pool *pool, void (*last_out)(void *ctx), void *ctx);
void tp__pool_fini(tp__pool *pool);

/** Asserts what always holds (pool.c). */
void tp__pool_check_locked(const tp__pool *pool);
/** How many abandoned attempts have another thread in their place from now on. */
void tp__pool_set_abandoned_max(tp__pool *pool, uint32_t count);
/** Whether abandoned attempts hold every thread that there may be. */
bool tp__pool_is_exhausted(tp__pool *pool);
/** Gives the attempt to a thread, now or when there are a permit and a thread.
 *  @param here  the handler thread that is the caller and takes the offer soon; NULL: another thread is to run it.
 *  @param later  threads that the caller wakes soon, by tp__pool_wake(): this adds to them; NULL: they are woken here.
 *  @return TP_REASON_NONE; or why it never will be run: NO_PERMIT (abandoned attempts hold all), NO_WORKER (no thread
 *          runs and none could be started), SHUTDOWN. */
tp_reason tp__pool_submit(tp__pool *pool, tp__pool_item *item, struct tp__pool_thread *here,
                          struct tp__pool_thread **later);
void tp__pool_wake(struct tp__pool_thread *threads);
/** The same for an item with an inbox.
 *  @return NONE: it is in the inbox, or will be when there is a permit; NO_PERMIT; NO_WORKER (closed);
 *          SHUTDOWN. */
tp_reason tp__pool_offer(tp__pool *pool, tp__pool_item *item);
/** The token of an item with an inbox, or that keeps its permit, has ended: the permit goes to the next in line. */
void tp__pool_token_ended(tp__pool *pool, tp__pool_item *item);
/** The thread that runs the item: its deferral will wait for something that may need a permit of its own. Whatever
 *  keeps_permit says, the permit goes to the next in line when the function returns. */
void tp__pool_yield_permit(tp__pool *pool, tp__pool_item *item);
/** The owner no longer waits for it.
 *  @return true when it was still waiting or queued: it will never run. Attempts of the same permits that can now never
 *  get one are refused with NO_PERMIT, and what waits for a thread with NO_WORKER where none is left. */
bool tp__pool_abandon(tp__pool *pool, tp__pool_item *item);
/** The thread that runs the item is about to wait for something that may need a thread or a permit of this pool.
 *  @return TP_OK: tp__pool_resume() follows. TP_ERR_CANCELLED: it was abandoned. TP_ERR_FULL: TP__PAUSED_MAX are.
 *          TP_ERR_USAGE: no thread of the pool runs it. */
tp_status tp__pool_pause(tp__pool *pool, tp__pool_item *item);
/** It has what it waited for. Waits until there are a permit and a place in its lane. */
void tp__pool_resume(tp__pool *pool, tp__pool_item *item);
/** Names the functions that run abandoned, at most 256. @return how many there are. */
size_t tp__pool_leaks(tp__pool *pool, bool (*each)(void *ctx, const tp_leak *leak), void *ctx);
/** How many wait for a permit or a thread. */
uint32_t tp__pool_waiting_count(tp__pool *pool);
/** Of these, those that wait for a thread. Without the lock the count may be a moment old. */
static inline uint32_t tp__pool_queued_count(const tp__pool *pool) { return tp__a32_load_relaxed(&pool->queued_count); }
uint32_t tp__pool_thread_count(tp__pool *pool);

#endif
