/* SPDX-License-Identifier: Apache-2.0
 *
 * strand: the rule of one owner. A strand is a queue of messages. At most one thread at a time is its owner, and only
 * the owner delivers the messages and touches the objects of the strand. A turn is a strand, and so is a detached run.
 * Other threads push messages; a push that finds no owner schedules the strand. A synchronous caller is an owner that
 * parks instead of leaving. It is woken when its condition is set, or when the strand is scheduled.
 *
 * When the answer of a handler thread finds no owner, that thread becomes the owner itself
 * (tp__strand_push_own_if_free). It runs the strand, through inline handlers and phases, and wakes no other thread. It
 * leaves before it calls the next function that may block, so that any thread can become the owner meanwhile. If that
 * function hangs, the timer's message schedules the strand, and an engine worker or the parked caller handles the
 * deadline.
 *
 * The whole state is one word, `inbox`:
 *   IDLE          no thread owns it
 *   NULL          owned (or scheduled), no message
 *   a message     owned or scheduled, messages newest first
 *   CLOSED        ended; pushes are dropped
 *
 * Time: `timers` lists the timer entries. The owner fires the expired entries before it leaves or parks. A strand
 * without owner is armed with the timer at its earliest entry. wake_ns is a lower bound of that time: after an entry
 * was removed it may be too early, never too late. */
#ifndef TP__STRAND_H
#define TP__STRAND_H

#include "runtime/os/os.h"

struct tp__sched;
typedef struct tp__strand tp__strand;
typedef struct tp__waiter tp__waiter;
typedef struct tp__sleeper tp__sleeper;

typedef struct tp__message {
  struct tp__message *next; /* the queue's */
  /* called on the owner; then the message belongs to its receiver again */
  void (*deliver)(struct tp__message *message);
} tp__message;

/** An event at a certain time. Owner only. */
typedef struct tp__timer_entry {
  tp__link link;
  int64_t at_ns;
  /** The entry is removed from the list before this call. The function may list it again with a later time. */
  void (*fire)(struct tp__timer_entry *timer, int64_t now_ns);
} tp__timer_entry;

/* The first cache line holds all fields that the common case needs: the thread that begins a strand writes no other
 * line, and the next owner reads no other. */
struct tp__strand {
  /* never changes after init */
  struct tp__sched *sched;
  /* atomic: acq_rel, publishes everything below from owner to owner */
  tp__aptr inbox;
  /* owner only */
  /* messages that the owner gave itself: the newest of a ring, whose next is the oldest; NULL: none */
  tp__message *own;
  bool was_armed; /* the timer may know the strand: disarm it before the end */
  /* the owner will start more after the function that it submits now, so that function must not wait for the owner's
   * thread */
  bool begins_more;
#ifdef TP_SIM
  bool is_turn;
#endif
#ifdef TP_CHECKS
  /* the thread that does the owner's work; 0: no thread does, or a host's thread that has not begun to */
  uint32_t working;
#endif
  int64_t wake_ns;
  void (*end)(tp__strand *strand); /* set by a delivered message: called last, by the owner, after the close */
  tp__waiter *handoff;             /* synchronous callers that wait to become the owner, in their order */
  tp__sleeper *sleeper;            /* the synchronous owner, while it sleeps */
  tp__link timers;
  /* handler threads to wake when the owner leaves, so that their answers find the strand free */
  struct tp__pool_thread *to_wake;
  /* under the timer's lock */
  int64_t armed_ns; /* 0: not armed */
  struct tp__strand *heap_child, *heap_next, *heap_prev;
  /* from the timer to the owner */
  tp__message timer_message;
  tp__a32 timer_pending; /* 1: timer_message is in the inbox */
};

/** Sets up an idle strand; tp__strand_begin() begins it. */
void tp__strand_clear(tp__strand *strand);
/** The same for one that has ended. */
void tp__strand_reset(tp__strand *strand);
/** Begins a strand that is set up. The caller owns it; with owned = false no thread does. */
void tp__strand_begin(tp__strand *strand, struct tp__sched *sched, bool owned);
static inline void tp__strand_init(tp__strand *strand, struct tp__sched *sched, bool owned) {
  tp__strand_clear(strand);
  tp__strand_begin(strand, sched, owned);
}
/** Any thread. @return false when the strand has ended: the message was not taken. */
bool tp__strand_push(tp__strand *strand, tp__message *message);
/** As tp__strand_push(), for a thread that can run the strand. If no thread owns the strand, the caller becomes the
 *  owner, and must call tp__strand_run_on(). The strand has not ended. @return whether the caller is the owner. */
bool tp__strand_push_own_if_free(tp__strand *strand, tp__message *message);
/** As tp__strand_push(), for a message that any thread may deliver. If no thread owns the strand, the caller becomes
 *  the owner, delivers this message and leaves; engine workers deliver the messages that came meanwhile. If the owner
 *  sleeps in a synchronous call, or threads of the host pump, it does no more than tp__strand_push(). The caller holds
 *  no lock. @return false when the strand has ended: the message was not taken. */
bool tp__strand_deliver_here(tp__strand *strand, tp__message *message);
/** The owner pushes a message to itself, without a wake-up. It is delivered before the owner leaves. */
void tp__strand_push_own(tp__strand *strand, tp__message *message);
/** What a thread runs, innermost first. */
typedef struct tp__running {
  const tp__strand *strand; /* NULL: it has ended */
  const struct tp__running *outer;
  struct tp__pool_thread *thread; /* the handler thread that runs the strand; NULL: another thread runs it */
} tp__running;
/** Whether the calling thread runs the strand (tp__strand_run) and so is its owner. */
static inline bool tp__strand_is_here(const tp__strand *strand) {
  const tp__running *running = tp__here_get()->running;
  while (running && running->strand != strand) running = running->outer;
  return running != NULL;
}
/** Whether no other thread does the owner's work. Every function that only the owner may call asserts it:
 *  TP__OWNED(). */
static inline bool tp__strand_may_be_mine(const tp__strand *strand) {
#ifdef TP_CHECKS
  return !strand->working || strand->working == (uint32_t)(uintptr_t)tp__here_get();
#else
  return strand != NULL;
#endif
}
#define TP__OWNED(strand) TP__ASSERT(tp__strand_may_be_mine(strand))
/** Owner: asserts the invariants (strand.c). */
void tp__strand_check(const tp__strand *strand);
/** Makes the calling thread the owner, after waiting until the present owner leaves. */
void tp__strand_acquire(tp__strand *strand);
/** The same if no thread owns it. */
bool tp__strand_try_acquire(tp__strand *strand);
/** The owner delivers messages and fires timers until there is nothing to do, then leaves. The strand may be gone
 *  afterwards. */
void tp__strand_run(tp__strand *strand);
/** As tp__strand_run(), on a handler thread, which runs nothing else meanwhile. One attempt may be left to this thread
 *  (pool.h). */
void tp__strand_run_on(tp__strand *strand, struct tp__pool_thread *thread);
/** The handler thread that runs this strand and is the caller; NULL: the caller is another thread. */
static inline struct tp__pool_thread *tp__strand_thread(const tp__strand *strand) {
  const tp__running *running = tp__here_get()->running;
  return running && running->strand == strand ? running->thread : NULL;
}
/** The owner delivers messages, fires timers and parks until *done is set. Then it still owns the strand. */
void tp__strand_wait(tp__strand *strand, const bool *done);
/** The owner delivers the waiting messages and fires the expired timers, and stays the owner. */
void tp__strand_catch_up(tp__strand *strand);
/** The owner submits the strand to the engine workers, which run it. */
void tp__strand_submit(tp__strand *strand);
/** The owner leaves without having waited; otherwise as tp__strand_run(). */
void tp__strand_leave(tp__strand *strand);
/** As tp__strand_leave(), for an owner that must not deliver the waiting messages: the engine workers do. */
void tp__strand_leave_to_workers(tp__strand *strand);
#ifdef TP_SIM
/** What the simulator checks: one thread at a time does the owner's work, and no owner leaves work undone. */
typedef struct tp__strand_observer {
  void (*broken)(const char *how);          /* NULL: it does not look */
  bool (*is_ready)(const tp__strand *turn); /* something of the turn is ready, or can never become ready */
} tp__strand_observer;
extern tp__strand_observer tp__strand_observed_by;
#endif

/** Owner only. */
void tp__strand_timer_add(tp__strand *strand, tp__timer_entry *timer, int64_t at_ns);
void tp__strand_timer_remove(tp__timer_entry *timer);
/** Fires the timer entries that have expired at now_ns. Owner only. */
void tp__strand_fire(tp__strand *strand, int64_t now_ns);

#endif
