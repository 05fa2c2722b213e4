/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/strand.h"

#include "runtime/exec/runtime.h"
#include "runtime/exec/timer.h"
#include "runtime/exec/worker.h"

static char idle_mark, closed_mark;
#define IDLE ((void *)&idle_mark)
#define CLOSED ((void *)&closed_mark)

static void timer_delivered(tp__message *message) {
  tp__strand *strand = TP__CONTAINER(message, tp__strand, timer_message);
  tp__a32_store_release(&strand->timer_pending, 0); /* pairs with the timer's exchange: the message is free again */
}

void tp__strand_clear(tp__strand *strand) {
  tp__strand_rest(strand);
  tp__list_init(&strand->dues);
  strand->armed_ns = 0;
  strand->heap_child = strand->heap_next = strand->heap_prev = NULL;
  strand->timer_message.deliver = timer_delivered;
  tp__a32_store_relaxed(&strand->timer_pending, 0);
}

/* What else there is comes to rest by itself: nothing is due or armed, and the timer's message was delivered. */
void tp__strand_rest(tp__strand *strand) {
  strand->was_armed = false;
  strand->wake_ns = TP__NEVER;
  strand->end = NULL;
  strand->parker = NULL;
  strand->handoff = NULL;
}

void tp__strand_begin(tp__strand *strand, struct tp_runtime *runtime, bool owned) {
  strand->runtime = runtime;
  strand->own = NULL;
  tp__aptr_store_relaxed(&strand->inbox, owned ? NULL : IDLE);
}

/* The push that ended IDLE calls this, once per IDLE: the strand is this thread's to hand on. A sleeping synchronous
 * owner has published its parker by the release that made the strand IDLE. */
static void schedule(tp__strand *strand) {
  if (strand->parker) tp__parker_unpark(strand->parker);
  else tp__workers_push(strand->runtime, strand);
}

bool tp__strand_push(tp__strand *strand, tp__message *message) {
  void *old = tp__aptr_load_acquire(&strand->inbox);
  do {
    if (old == CLOSED) return false;
    message->next = old == IDLE ? NULL : old;
  } while (!tp__aptr_cas_acq_rel(&strand->inbox, &old, message));
  if (old == IDLE) schedule(strand);
  return true;
}

bool tp__strand_try_acquire(tp__strand *strand) {
  void *expected = IDLE;
  return tp__aptr_cas_acq_rel(&strand->inbox, &expected, NULL);
}

/* A caller that waits its turn behind the present owner. */
struct tp__waiter {
  tp__message message;
  tp__strand *strand;
  tp__waiter *next; /* who came after it */
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
  if (tp__strand_push(strand, &w.message)) tp__parker_park_until(&w.parker, TP__NEVER);
  tp__parker_fini(&w.parker);
}

/* Oldest first. */
static void deliver(tp__message *newest) {
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
  deliver(tp__aptr_exchange_acq_rel(&strand->inbox, NULL));
  return true;
}

void tp__strand_due(tp__strand *strand, tp__due *due, int64_t at_ns) {
  due->at_ns = at_ns;
  tp__list_push(&strand->dues, &due->link);
  if (at_ns < strand->wake_ns) strand->wake_ns = at_ns;
}

void tp__strand_undue(tp__due *due) { tp__list_remove(&due->link); }

void tp__strand_fire(tp__strand *strand, int64_t now_ns) {
  /* First collect what is due, in order of listing; then run it: a fire may list or unlist anything. */
  tp__link fired;
  tp__list_init(&fired);
  strand->wake_ns = TP__NEVER;
  for (tp__link *link = strand->dues.next, *next; link != &strand->dues; link = next) {
    next = link->next;
    tp__due *due = TP__CONTAINER(link, tp__due, link);
    if (due->at_ns <= now_ns) {
      tp__list_remove(link);
      tp__list_push(&fired, link);
    } else if (due->at_ns < strand->wake_ns) {
      strand->wake_ns = due->at_ns;
    }
  }
  while (!tp__list_empty(&fired)) {
    tp__due *due = TP__CONTAINER(fired.next, tp__due, link);
    tp__list_remove(&due->link);
    due->fire(due, now_ns);
  }
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
  return any;
}

/* What was pushed in the last moment is delivered all the same: messages carry references. From the end on its memory
 * may be another one's, which does not run here. */
static void close_and_end(tp__strand *strand, tp__running *running) {
  if (strand->was_armed) tp__timer_disarm(strand);
  deliver(tp__aptr_exchange_acq_rel(&strand->inbox, CLOSED));
  deliver_own(strand);
  running->strand = NULL;
  strand->end(strand);
}

static void run(tp__strand *strand, tp__running *running) {
  for (;;) {
    while (work(strand) && !strand->end) {}
    if (strand->end) {
      close_and_end(strand, running);
      return;
    }
    if (strand->handoff) {
      tp__waiter *next_owner = strand->handoff;
      strand->handoff = next_owner->next;
      tp__parker_unpark(&next_owner->parker);
      return;
    }
    if (strand->wake_ns != TP__NEVER) {
      strand->was_armed = true;
      tp__timer_arm(strand, strand->wake_ns);
    }
    void *expected = NULL;
    if (tp__aptr_cas_acq_rel(&strand->inbox, &expected, IDLE)) return;
  }
}

/* Inside of another one's when a callback of that one's ends or lets go of this one; on a thread of the host's when
 * that lets go of something: what is called there is on an owner's thread all the same. */
void tp__strand_run(tp__strand *strand) {
  tp__here *here = tp__here_get();
  tp__running running = {strand, here->running};
  tp__inside frame;
  here->running = &running;
  tp__inside_enter(&frame, strand->runtime, TP__THREAD_OWNER);
  run(strand, &running);
  tp__inside_leave(&frame);
  here->running = running.outer;
}

void tp__strand_catch_up(tp__strand *strand) {
  while (work(strand) && !strand->end) {}
}

void tp__strand_hand_over(tp__strand *strand) { tp__workers_push(strand->runtime, strand); }

/* @return whether there was nothing to do for an owner, who has left then. */
static bool try_leave(tp__strand *strand) {
  void *expected = NULL;
  if (strand->end || strand->own || strand->handoff || strand->wake_ns != TP__NEVER) return false;
  return tp__aptr_cas_acq_rel(&strand->inbox, &expected, IDLE);
}

void tp__strand_leave(tp__strand *strand) {
  if (!try_leave(strand)) tp__strand_run(strand);
}

void tp__strand_give_back(tp__strand *strand) {
  if (!try_leave(strand)) tp__strand_hand_over(strand);
}

/* Sleeps as an owner: IDLE while asleep, owned again on return. */
static void sleep_as_owner(tp__strand *strand, tp__parker *parker) {
  strand->parker = parker;
  void *expected = NULL;
  if (tp__aptr_cas_acq_rel(&strand->inbox, &expected, IDLE)) {
    bool woken = tp__parker_park_until(parker, strand->wake_ns);
    /* Either nobody pushed, and it is ours again; or a push ended IDLE and its wake-up was or will be given: take it,
     * so that nobody touches the parker afterwards. */
    if (!tp__strand_try_acquire(strand) && !woken) tp__parker_park_until(parker, TP__NEVER);
  }
  strand->parker = NULL;
}

void tp__strand_wait(tp__strand *strand, const bool *done) {
  while (!*done && work(strand)) {}
  if (*done) return;
  tp__parker parker;
  tp_status status = tp__parker_init(&parker);
  assert(status == TP_OK);
  (void)status;
  while (!*done) {
    if (!work(strand)) sleep_as_owner(strand, &parker);
  }
  tp__parker_fini(&parker);
}
