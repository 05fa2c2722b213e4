/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/strand.h"

#include "runtime/base/bug.h"
#include "runtime/sched/sched.h"

static char idle_mark, closed_mark;
#define IDLE ((void *)&idle_mark)
#define CLOSED ((void *)&closed_mark)

/* ---- checks: one thread at a time does the owner's work, and leaves none undone ---- */

#ifdef TP_SIM
tp__strand_observer tp__strand_observed_by;
#endif

#ifdef TP_CHECKS
void tp__strand_check(const tp__strand *strand) {
  /* A strand has a scheduler from its beginning to its end. */
  assert(strand->sched);
  /* The owner's own messages are a ring. */
  assert(!strand->own || (strand->own->next && strand->own->next->deliver));
  /* wake_ns is not later than any listed entry, and the list is intact. */
  const tp__link *link = strand->timers.next;
  for (uint32_t i = 0; i < TP__CHECK_ITEMS_MAX && link != &strand->timers; i++, link = link->next) {
    assert(TP__CONTAINER((tp__link *)(uintptr_t)link, tp__timer_entry, link)->at_ns >= strand->wake_ns);
    assert(link->next->prev == link);
  }
}

static void works(tp__strand *strand) {
  uint32_t me = (uint32_t)(uintptr_t)tp__here_get();
#ifdef TP_SIM
  if (strand->working && tp__strand_observed_by.broken) tp__strand_observed_by.broken("it has two owners");
#else
  assert(!strand->working); /* it has one owner */
#endif
  strand->working = me ? me : 1;
}

/* It is another thread's, or ends. */
static void stops(tp__strand *strand) {
  TP__OWNED(strand);
  strand->working = 0;
}
#else
static inline void works(const tp__strand *strand) { (void)strand; }
static inline void stops(const tp__strand *strand) { (void)strand; }
#endif

#ifdef TP_SIM
/* No thread will own it. */
static void leaves(tp__strand *strand) {
  stops(strand);
  if (!tp__strand_observed_by.broken) return;
  bool is_ready = strand->is_turn && tp__strand_observed_by.is_ready(strand);
  if (strand->own) tp__strand_observed_by.broken("its owner leaves a message to itself");
  if (is_ready) tp__strand_observed_by.broken("it has no owner, and is ready");
}
#else
/* When the owner leaves, no message that it gave itself is left. */
static inline void leaves(tp__strand *strand) {
  TP__ASSERT(!strand->own);
  stops(strand);
}
#endif

/* ---- life ---- */

static void timer_delivered(tp__message *message) {
  tp__strand *strand = TP__CONTAINER(message, tp__strand, timer_message);
  tp__a32_store_release(&strand->timer_pending, 0); /* pairs with the timer's exchange: the message may be used again */
}

void tp__strand_clear(tp__strand *strand) {
  tp__strand_reset(strand);
  tp__list_init(&strand->timers);
  strand->armed_ns = 0;
  strand->heap_child = strand->heap_next = strand->heap_prev = NULL;
  strand->timer_message.deliver = timer_delivered;
  tp__a32_store_relaxed(&strand->timer_pending, 0);
}

/* Only these fields need a reset. The others are idle when the strand ends: no timer entry is listed or armed, and the
 * timer's message was delivered. */
void tp__strand_reset(tp__strand *strand) {
  strand->was_armed = false;
  strand->wake_ns = TP__NEVER;
  strand->end = NULL;
  strand->begins_more = false;
  strand->sleeper = NULL;
  strand->to_wake = NULL;
  strand->handoff = NULL;
}

void tp__strand_begin(tp__strand *strand, struct tp__sched *sched, bool owned) {
  strand->sched = sched;
  strand->own = NULL;
#ifdef TP_SIM
  strand->is_turn = false;
#endif
#ifdef TP_CHECKS
  strand->working = 0;
#endif
  tp__aptr_store_relaxed(&strand->inbox, owned ? NULL : IDLE);
}

/* A synchronous owner that sleeps. */
struct tp__sleeper {
  tp__parker parker;
  const bool *done; /* the condition that it waits for: an owner that finds it set returns the strand */
};

/* Who waits by tp__sched_park(). */
static void unpark(tp__sched *sched, tp__parker *parker) {
  tp__parker_unpark(parker); /* it and what it is of may be gone now */
  tp__sched_wake(sched);
}

/* Called by the push that found IDLE, once per IDLE: this thread schedules the strand. A sleeping synchronous owner has
 * published itself by the release that made the strand IDLE. */
static void schedule(tp__strand *strand) {
  if (strand->sleeper) unpark(strand->sched, &strand->sleeper->parker);
  else tp__workers_push(&strand->sched->workers, strand);
}

/* @return what the inbox was. CLOSED: the message was not taken. IDLE: the caller must find the strand an owner. */
static void *push_message(tp__strand *strand, tp__message *message) {
  void *old = tp__aptr_load_acquire(&strand->inbox);
  do {
    if (old == CLOSED) return old;
    message->next = old == IDLE ? NULL : old;
  } while (!tp__aptr_cas_acq_rel(&strand->inbox, &old, message));
  return old;
}

bool tp__strand_push(tp__strand *strand, tp__message *message) {
  TP__ASSERT(message->deliver);
  const void *old = push_message(strand, message);
  if (old == IDLE) schedule(strand);
  return old != CLOSED;
}

bool tp__strand_push_own_if_free(tp__strand *strand, tp__message *message) {
  const void *old = push_message(strand, message);
  assert(old != CLOSED);
  return old == IDLE || TP__BUG(TP__BUG_TWO_OWNERS);
}

bool tp__strand_try_acquire(tp__strand *strand) {
  void *expected = IDLE;
  return tp__aptr_cas_acq_rel(&strand->inbox, &expected, NULL);
}

/* A caller that waits until the present owner leaves, to become the owner itself. */
struct tp__waiter {
  tp__message message;
  tp__strand *strand;
  tp__waiter *next; /* that came after it */
  tp__parker parker;
};

static void waiter_delivered(tp__message *message) {
  tp__waiter *w = TP__CONTAINER(message, tp__waiter, message), **last = &w->strand->handoff;
  while (*last) last = &(*last)->next;
  *last = w;
}

void tp__strand_acquire(tp__strand *strand) {
  if (tp__strand_try_acquire(strand)) return;
  tp__waiter w = {.message = {NULL, waiter_delivered}, .strand = strand};
  tp_status status = tp__parker_init(&w.parker);
  assert(status == TP_OK);
  (void)status;
  if (tp__strand_push(strand, &w.message)) tp__sched_park(strand->sched, &w.parker, TP__NEVER);
  tp__parker_fini(&w.parker);
}

/* Oldest first. */
static void deliver_messages(tp__message *newest) {
  tp__message *oldest = NULL;
  while (newest) {
    tp__message *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest) {
    tp__message *next = oldest->next;
    oldest->deliver(oldest);
    oldest = next;
  }
}

void tp__strand_push_own(tp__strand *strand, tp__message *message) {
  TP__OWNED(strand);
  TP__ASSERT(message->deliver);
  if (strand->own) {
    message->next = strand->own->next;
    strand->own->next = message;
  } else {
    message->next = message;
  }
  strand->own = message;
}

static void deliver_own(tp__strand *strand) {
  while (strand->own) {
    tp__message *oldest = strand->own->next;
    if (oldest == strand->own) strand->own = NULL;
    else strand->own->next = oldest->next;
    oldest->deliver(oldest);
  }
}

/* @return whether there was anything. */
static bool deliver_all(tp__strand *strand) {
  bool any = strand->own != NULL;
  deliver_own(strand);
  if (!tp__aptr_load_relaxed(&strand->inbox)) return any; /* the exchange below does the acquiring */
  deliver_messages(tp__aptr_exchange_acq_rel(&strand->inbox, NULL));
  return true;
}

void tp__strand_timer_add(tp__strand *strand, tp__timer_entry *timer, int64_t at_ns) {
  TP__OWNED(strand);
  TP__ASSERT(timer->fire && at_ns > 0);
  timer->at_ns = at_ns;
  tp__list_push(&strand->timers, &timer->link);
  if (at_ns < strand->wake_ns) strand->wake_ns = at_ns;
}

void tp__strand_timer_remove(tp__timer_entry *timer) { tp__list_remove(&timer->link); }

void tp__strand_fire(tp__strand *strand, int64_t now_ns) {
  TP__OWNED(strand);
  /* First collects the expired entries, in the order in which they were added; then fires them. A fire may add or
   * remove any entry. */
  tp__link fired;
  tp__list_init(&fired);
  strand->wake_ns = TP__NEVER;
  for (tp__link *link = strand->timers.next, *next; link != &strand->timers; link = next) {
    next = link->next;
    tp__timer_entry *timer = TP__CONTAINER(link, tp__timer_entry, link);
    if (timer->at_ns <= now_ns) {
      tp__list_remove(link);
      tp__list_push(&fired, link);
    } else if (timer->at_ns < strand->wake_ns) {
      strand->wake_ns = timer->at_ns;
    }
  }
  while (!tp__list_empty(&fired)) {
    tp__timer_entry *timer = TP__CONTAINER(fired.next, tp__timer_entry, link);
    tp__list_remove(&timer->link);
    timer->fire(timer, now_ns);
  }
  if (!strand->end) TP__CHECK(tp__strand_check(strand));
}

/* One round of the owner's work. @return whether there was any. */
static bool work(tp__strand *strand) {
  bool any = deliver_all(strand);
  if (strand->wake_ns != TP__NEVER) {
    int64_t now_ns = tp__now_ns();
    if (strand->wake_ns <= now_ns) {
      tp__strand_fire(strand, now_ns);
      any = true;
    }
  }
  if (!strand->end) TP__CHECK(tp__strand_check(strand));
  return any;
}

/* The owner takes these threads before it leaves. While it wakes them, they may answer already, and must find the
 * strand without an owner. */
static struct tp__pool_thread *take_to_wake(tp__strand *strand) {
  struct tp__pool_thread *threads = strand->to_wake;
  strand->to_wake = NULL;
  return TP__BUG(TP__BUG_NOT_WOKEN) ? NULL : threads;
}

/* Works until there is nothing to do. Handler threads that the strand has work for are woken even while messages keep
 * coming. */
static void work_off(tp__strand *strand) {
  for (bool any = work(strand); any && !strand->end;) {
    any = work(strand);
    if (any) tp__pool_wake(take_to_wake(strand));
  }
}

/* Messages that were pushed in the last moment are still delivered, because they carry references. From the end on, the
 * memory of the strand may belong to another strand, which does not run here. */
static void close_and_end(tp__strand *strand, tp__running *running) {
  TP__ASSERT(!strand->sleeper && !strand->handoff); /* no thread waits to become the owner of an ending strand */
  if (strand->was_armed) tp__timer_disarm(strand);
  deliver_messages(tp__aptr_exchange_acq_rel(&strand->inbox, CLOSED));
  deliver_own(strand);
  running->strand = NULL;
  stops(strand);
  strand->end(strand);
}

/* Returns the strand to the synchronous caller, if there is one and its condition is set. The strand may be gone
 * afterwards. */
static bool return_to_caller(tp__strand *strand) {
  if (!strand->sleeper || !*strand->sleeper->done) return false;
  stops(strand);
  unpark(strand->sched, &strand->sleeper->parker);
  return true;
}

static void run_strand(tp__strand *strand, tp__running *running) {
  for (;;) {
    works(strand);
    work_off(strand);
    struct tp__pool_thread *to_wake = take_to_wake(strand);
    bool leaves_for_none = !strand->end && !strand->handoff && !(strand->sleeper && *strand->sleeper->done);
    if (!leaves_for_none) tp__pool_wake(to_wake);
    if (return_to_caller(strand)) return;
    if (strand->end) {
      close_and_end(strand, running);
      return;
    }
    if (strand->handoff) {
      tp__waiter *next_owner = strand->handoff;
      strand->handoff = next_owner->next;
      stops(strand);
      unpark(strand->sched, &next_owner->parker);
      return;
    }
    if (strand->wake_ns != TP__NEVER) {
      strand->was_armed = true;
      tp__timer_arm(strand, strand->wake_ns);
    }
    leaves(strand);
    void *expected = NULL;
    bool has_left = tp__aptr_cas_acq_rel(&strand->inbox, &expected, IDLE);
    tp__pool_wake(to_wake);
    if (has_left) return;
  }
}

/* May be nested in the run of another strand, when a callback of that strand ends this one or drops its last reference.
 * May also run on a thread of the host that drops a reference. In each case the functions that are called run on an
 * owner's thread. */
void tp__strand_run_on(tp__strand *strand, struct tp__pool_thread *thread) {
  tp__here *here = tp__here_get();
  tp__running running = {strand, here->running, thread};
  tp__inside frame;
  here->running = &running;
  tp__inside_enter(&frame, strand->sched->options.owner, TP__THREAD_OWNER);
  run_strand(strand, &running);
  tp__inside_leave(&frame);
  here->running = running.outer;
}

void tp__strand_run(tp__strand *strand) { tp__strand_run_on(strand, NULL); }

/* The owner has armed the strand before, for the time of wake_ns. */
static void leave_after_message(tp__strand *strand, int64_t wake_ns) {
  void *expected = NULL;
  bool as_before = !strand->end && !strand->own && !strand->handoff && !strand->to_wake && strand->wake_ns == wake_ns;
  if (as_before) {
    leaves(strand);
    if (tp__aptr_cas_acq_rel(&strand->inbox, &expected, IDLE) || TP__BUG(TP__BUG_REST_LEFT)) return;
  } else {
    stops(strand);
  }
  tp__strand_submit(strand);
}

bool tp__strand_deliver_here(tp__strand *strand, tp__message *message) {
  TP__ASSERT(message->deliver);
  if (strand->sched->options.pumped || !tp__strand_try_acquire(strand)) return tp__strand_push(strand, message);
  if (strand->sleeper) { /* it waits for just this */
    (void)push_message(strand, message);
    schedule(strand);
    return true;
  }
  tp__here *here = tp__here_get();
  tp__running running = {strand, here->running, NULL};
  tp__inside frame;
  works(strand);
  here->running = &running;
  tp__inside_enter(&frame, strand->sched->options.owner, TP__THREAD_OWNER);
  int64_t wake_ns = strand->wake_ns;
  message->deliver(message);
  leave_after_message(strand, wake_ns);
  tp__inside_leave(&frame);
  here->running = running.outer;
  return true;
}

void tp__strand_catch_up(tp__strand *strand) {
  works(strand);
  work_off(strand);
  tp__pool_wake(take_to_wake(strand));
  stops(strand);
}

void tp__strand_submit(tp__strand *strand) { tp__workers_push(&strand->sched->workers, strand); }

/* @return true when the owner had nothing to do: then the caller has left. */
static bool try_leave(tp__strand *strand) {
  void *expected = NULL;
  if (strand->end || strand->own || strand->handoff || strand->wake_ns != TP__NEVER) return false;
  return tp__aptr_cas_acq_rel(&strand->inbox, &expected, IDLE);
}

void tp__strand_leave(tp__strand *strand) {
  if (!try_leave(strand)) tp__strand_run(strand);
}

void tp__strand_leave_to_workers(tp__strand *strand) {
  if (!try_leave(strand)) tp__strand_submit(strand);
}

/* Sleeps as an owner: other threads may own the strand meanwhile, and the caller owns it again on return. The sleeper
 * itself wakes for the timer entries that were listed when it fell asleep. An owner that leaves later has armed the
 * timer for later entries. */
static void sleep_as_owner(tp__strand *strand, tp__sleeper *sleeper) {
  int64_t wake_ns = strand->wake_ns;
  struct tp__pool_thread *to_wake = take_to_wake(strand);
  TP__ASSERT(!strand->sleeper); /* a strand has one synchronous owner */
  strand->sleeper = sleeper;
  leaves(strand);
  void *expected = NULL;
  bool has_left = tp__aptr_cas_acq_rel(&strand->inbox, &expected, IDLE);
  tp__pool_wake(to_wake);
  if (has_left) {
    bool woken = tp__sched_park(strand->sched, &sleeper->parker, wake_ns);
    /* When woken, this thread was given the strand. Otherwise the strand may be free: then this thread acquires it. Or
     * another thread owns it, and that owner or a later one will give the strand to this thread. Then this thread waits
     * for that wake-up, so that no thread touches the parker afterwards. */
    if (!woken && !tp__strand_try_acquire(strand)) tp__sched_park(strand->sched, &sleeper->parker, TP__NEVER);
  }
  works(strand);
  strand->sleeper = NULL;
}

void tp__strand_wait(tp__strand *strand, const bool *done) {
  works(strand);
  while (!*done && work(strand)) {}
  if (!*done) {
    tp__sleeper sleeper = {.done = done};
    tp_status status = tp__parker_init(&sleeper.parker);
    assert(status == TP_OK);
    (void)status;
    while (!*done) {
      if (!work(strand)) sleep_as_owner(strand, &sleeper);
    }
    tp__parker_fini(&sleeper.parker);
  }
  tp__pool_wake(take_to_wake(strand));
  stops(strand);
}
