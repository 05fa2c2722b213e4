/* SPDX-License-Identifier: Apache-2.0
 *
 * timer: one thread that wakes strands without an owner. It owns a pairing heap (Fredman et al., 1986) of armed
 * strands, linked through the strands themselves, so that arming cannot fail. Lock: `timer`. The timer pushes the
 * strand's own timer message under that lock. So after a disarm the timer no longer touches the strand. */
#ifndef TP__TIMER_H
#define TP__TIMER_H

#include "runtime/sched/strand.h"

typedef struct tp__timer {
  tp__mutex mutex;
  tp__cond changed;
  tp__thread *thread; /* NULL: not started, or the scheduler is pumped */
  /* under mutex */
  tp__strand *root;
  /* When the timer thread, or the pumping thread, next looks at the heap by itself. Arming a strand for a later time
   * wakes no thread. */
  int64_t looks_ns;
  bool stop;
} tp__timer;

tp_status tp__timer_init(tp__timer *timer);
tp_status tp__timer_start(tp__timer *timer, const tp_allocator *allocator);
/** For a scheduler without threads: wakes the strands that are due. @return when the next one is due; TP__NEVER. */
int64_t tp__timer_fire(tp__timer *timer);
/** Joins the thread. Nothing may be armed. */
void tp__timer_stop(tp__timer *timer);
void tp__timer_fini(tp__timer *timer);
/** Asserts what always holds (timer.c). */
void tp__timer_check_locked(const tp__timer *timer);
/** Wakes the strand at at_ns, or earlier if it is armed for an earlier time. */
void tp__timer_arm(tp__strand *strand, int64_t at_ns);
void tp__timer_disarm(tp__strand *strand);

#endif
