/* SPDX-License-Identifier: Apache-2.0
 *
 * strand: the rule of one owner. A strand is a queue of messages of which at most one thread at a time is the owner:
 * only the owner delivers them and touches what belongs to the strand. A turn is a strand, and so is a detached run.
 * Every other thread pushes a message; the push that finds no owner schedules the strand. A synchronous caller is an
 * owner that parks instead of leaving. It is woken when what it waits for has happened, or when the strand is
 * scheduled.
 *
 * A handler thread whose answer finds no owner becomes the owner itself (tp__strand_push_own_if_free): it runs the
 * strand on, through inline handlers and phases, and wakes no other thread. It leaves before it calls the next function
 * that may block, so that any thread can become the owner meanwhile: the timer's message schedules the strand, and the
 * deadline is handled by an engine worker or the parked caller while the function hangs.
 *
 * The whole state is one word, `inbox`:
 *   IDLE          no thread owns it
 *   NULL          owned (or scheduled), no message
 *   a message     owned or scheduled, messages newest first
 *   CLOSED        ended; pushes are dropped
 *
 * Time: `timers` lists the timer entries. The owner fires the expired ones before it leaves or parks, and a strand
 * without owner is armed with the timer at its earliest entry. wake_ns is a lower bound of that: it may be too early
 * after an entry was removed, never too late. */
#ifndef TP__STRAND_H
#define TP__STRAND_H

#include "runtime/os/os.h"

struct tp__sched;
typedef struct tp__strand tp__strand;
typedef struct tp__waiter tp__waiter;
typedef struct tp__sleeper tp__sleeper;

typedef struct tp__message {
  struct tp__message *next;                     /* the queue's */
  void (*deliver)(struct tp__message *message); /* on the owner; the message is the receiver's again */
} tp__message;

/** Something that happens at a time. Owner only. */
typedef struct tp__timer_entry {
  tp__link link;
  int64_t at_ns;
  /** Taken off the list before; may list itself again with a later time. */
  void (*fire)(struct tp__timer_entry *timer, int64_t now_ns);
} tp__timer_entry;

/* The first cache line holds all that a strand needs in the common case: the thread that begins a strand writes no
 * other, and the next owner reads no other. */
struct tp__strand {
  /* never changes after init */
  struct tp__sched *sched;
  /* atomic: acq_rel, publishes everything below from owner to owner */
  tp__aptr inbox;
  /* owner only */
  tp__message *own; /* what the owner gave itself: the newest of a ring, whose next is the oldest; NULL: nothing */
  bool was_armed;   /* the timer may know it: disarm before the end */
  bool begins_more; /* the owner starts more after what it submits now, which must not wait for the owner's thread */
#ifdef TP_SIM
  bool is_turn;
#endif
#ifdef TP_CHECKS
  uint32_t working; /* the thread that does an owner's work; 0: none does, or a host's that has not begun to */
#endif
  int64_t wake_ns;
  void (*end)(tp__strand *strand); /* set by a delivered message: called last, by the owner, after the close */
  tp__waiter *handoff;             /* synchronous callers that wait to become the owner, the first first */
  tp__sleeper *sleeper;            /* the synchronous owner, while it sleeps */
  tp__link timers;
  struct tp__pool_thread *to_wake; /* handler threads, when the owner leaves: their answer is to find the strand free */
  /* under the timer's lock */
  int64_t armed_ns; /* 0: not armed */
  struct tp__strand *heap_child, *heap_next, *heap_prev;
  /* from the timer to the owner */
  tp__message timer_message;
  tp__a32 timer_pending; /* 1: timer_message is in the inbox */
};

/** Sets up an idle strand, which begins by tp__strand_begin(). */
void tp__strand_clear(tp__strand *strand);
/** The same for one that has ended. */
void tp__strand_reset(tp__strand *strand);
/** Begins a strand that is set up; owned by the caller or, with owned = false, by no thread. */
void tp__strand_begin(tp__strand *strand, struct tp__sched *sched, bool owned);
static inline void tp__strand_init(tp__strand *strand, struct tp__sched *sched, bool owned) {
  tp__strand_clear(strand);
  tp__strand_begin(strand, sched, owned);
}
/** Any thread. @return false when the strand has ended: the message was not taken. */
bool tp__strand_push(tp__strand *strand, tp__message *message);
/** The same for a thread that can run the strand: where no thread owns it, the caller is the owner from here on, and
 *  must call tp__strand_run_on(). The strand has not ended. @return whether the caller is the owner. */
bool tp__strand_push_own_if_free(tp__strand *strand, tp__message *message);
/** The same for a message that any thread may deliver: where no thread owns the strand, the caller becomes the owner,
 *  delivers this message and leaves; whatever has come meanwhile is for the engine workers. Where the owner sleeps in a
 *  synchronous call, and where threads of the host pump, as tp__strand_push(). Holds no lock. @return false when the
 *  strand has ended: the message was not taken. */
bool tp__strand_deliver_here(tp__strand *strand, tp__message *message);
/** Owner: the same for what it gives itself, without a wake-up: delivered before it leaves. */
void tp__strand_push_own(tp__strand *strand, tp__message *message);
/** What a thread runs, innermost first. */
typedef struct tp__running {
  const tp__strand *strand; /* NULL: it has ended */
  const struct tp__running *outer;
  struct tp__pool_thread *thread; /* the handler thread that this is, as the strand's owner; NULL: another thread */
} tp__running;
/** Whether the calling thread is running the strand (tp__strand_run), and so is its owner. */
static inline bool tp__strand_is_here(const tp__strand *strand) {
  const tp__running *running = tp__here_get()->running;
  while (running && running->strand != strand) running = running->outer;
  return running != NULL;
}
/** Whether no other thread does the owner's work. Any function that is the owner's alone asserts it: TP__OWNED(). */
static inline bool tp__strand_may_be_mine(const tp__strand *strand) {
#ifdef TP_CHECKS
  return !strand->working || strand->working == (uint32_t)(uintptr_t)tp__here_get();
#else
  return strand != NULL;
#endif
}
#define TP__OWNED(strand) TP__ASSERT(tp__strand_may_be_mine(strand))
/** Owner: asserts what always holds (strand.c). */
void tp__strand_check(const tp__strand *strand);
/** Becomes the owner on the calling thread, waiting until the present one leaves. */
void tp__strand_acquire(tp__strand *strand);
/** The same if no thread owns it. */
bool tp__strand_try_acquire(tp__strand *strand);
/** The owner delivers and fires until there is nothing to do, then leaves. The strand may be gone afterwards. */
void tp__strand_run(tp__strand *strand);
/** The same on a handler thread, which runs nothing else meanwhile: one attempt may be left to it (pool.h). */
void tp__strand_run_on(tp__strand *strand, struct tp__pool_thread *thread);
/** The handler thread that runs this strand and is the caller; NULL: the caller is another thread. */
static inline struct tp__pool_thread *tp__strand_thread(const tp__strand *strand) {
  const tp__running *running = tp__here_get()->running;
  return running && running->strand == strand ? running->thread : NULL;
}
/** The owner delivers, fires and parks until *done; then still owns it. */
void tp__strand_wait(tp__strand *strand, const bool *done);
/** The owner delivers and fires what there is, and stays. */
void tp__strand_catch_up(tp__strand *strand);
/** The owner submits the strand to the engine workers, which run it. */
void tp__strand_submit(tp__strand *strand);
/** The owner leaves without having waited: as tp__strand_run(). */
void tp__strand_leave(tp__strand *strand);
/** The same for an owner that must not deliver what has come: the engine workers do. */
void tp__strand_leave_to_workers(tp__strand *strand);
#ifdef TP_SIM
/** What the simulator checks: that one thread at a time does an owner's work, and that no owner leaves work behind. */
typedef struct tp__strand_observer {
  void (*broken)(const char *how);          /* NULL: it does not look */
  bool (*is_ready)(const tp__strand *turn); /* something of the turn is ready, or can never become so */
} tp__strand_observer;
extern tp__strand_observer tp__strand_observed_by;
#endif

/** Owner only. */
void tp__strand_timer_add(tp__strand *strand, tp__timer_entry *timer, int64_t at_ns);
void tp__strand_timer_remove(tp__timer_entry *timer);
/** Fires the timer entries that have expired at now_ns. Owner only. */
void tp__strand_fire(tp__strand *strand, int64_t now_ns);

#endif
