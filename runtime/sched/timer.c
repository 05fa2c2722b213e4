/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/timer.h"

#include "runtime/sched/sched.h"

/* ---- the heap: for a first child heap_prev is the parent, for other children the sibling before ---- */

static tp__strand *meld(tp__strand *a, tp__strand *b) {
  if (!a) return b;
  if (!b) return a;
  if (b->armed_ns < a->armed_ns) {
    tp__strand *swap = a;
    a = b;
    b = swap;
  }
  b->heap_prev = a;
  b->heap_next = a->heap_child;
  if (a->heap_child) a->heap_child->heap_prev = b;
  a->heap_child = b;
  return a;
}

/* Two passes: pairs are melded from the left, then the results from the right. */
static tp__strand *meld_siblings(tp__strand *first) {
  tp__strand *pairs = NULL;
  while (first) {
    tp__strand *a = first, *b = first->heap_next;
    first = b ? b->heap_next : NULL;
    a->heap_next = a->heap_prev = NULL;
    if (b) b->heap_next = b->heap_prev = NULL;
    a = meld(a, b);
    a->heap_next = pairs;
    pairs = a;
  }
  tp__strand *root = NULL;
  while (pairs) {
    tp__strand *next = pairs->heap_next;
    pairs->heap_next = NULL;
    root = meld(root, pairs);
    pairs = next;
  }
  return root;
}

#ifdef TP_CHECKS
void tp__timer_check_locked(const tp__timer *timer) {
  TP__LOCKED(&timer->mutex);
  const tp__strand *root = timer->root;
  if (!root) return;
  /* The root has neither a parent nor a sibling. */
  assert(!root->heap_prev && !root->heap_next && root->armed_ns > 0);
  /* No child is earlier than its parent, and each child knows its parent or the sibling before it. */
  const tp__strand *before = root, *child = root->heap_child;
  for (uint32_t i = 0; i < TP__CHECK_ITEMS_MAX && child; i++, before = child, child = child->heap_next)
    assert(child->armed_ns >= root->armed_ns && child->heap_prev == before);
}
#endif

static void remove_strand_locked(tp__timer *timer, tp__strand *strand) {
  TP__LOCKED(&timer->mutex);
  TP__ASSERT(strand->armed_ns > 0); /* it is in the heap */
  tp__strand *children = meld_siblings(strand->heap_child);
  if (timer->root == strand) {
    timer->root = children;
  } else {
    if (strand->heap_prev->heap_child == strand) strand->heap_prev->heap_child = strand->heap_next;
    else strand->heap_prev->heap_next = strand->heap_next;
    if (strand->heap_next) strand->heap_next->heap_prev = strand->heap_prev;
    timer->root = meld(timer->root, children);
  }
  strand->heap_child = strand->heap_next = strand->heap_prev = NULL;
  strand->armed_ns = 0;
  TP__CHECK(tp__timer_check_locked(timer));
}

/* ---- the thread ---- */

static void fire_locked(tp__timer *timer, tp__strand *strand) {
  TP__LOCKED(&timer->mutex);
  remove_strand_locked(timer, strand);
  if (tp__a32_exchange_acq_rel(&strand->timer_pending, 1) == 0) tp__strand_push(strand, &strand->timer_message);
}

static void timer_run(void *arg) {
  tp__timer *timer = arg;
  tp__mutex_lock(&timer->mutex);
  while (!timer->stop) {
    if (timer->root && timer->root->armed_ns <= tp__now_ns()) {
      fire_locked(timer, timer->root);
      continue;
    }
    timer->looks_ns = timer->root ? timer->root->armed_ns : TP__NEVER;
    tp__cond_wait_until(&timer->changed, &timer->mutex, timer->looks_ns);
  }
  tp__mutex_unlock(&timer->mutex);
}

int64_t tp__timer_fire(tp__timer *timer) {
  tp__mutex_lock(&timer->mutex);
  int64_t now_ns = timer->root ? tp__now_ns() : 0;
  while (timer->root && timer->root->armed_ns <= now_ns) fire_locked(timer, timer->root);
  int64_t next_ns = timer->root ? timer->root->armed_ns : TP__NEVER;
  timer->looks_ns = next_ns;
  tp__mutex_unlock(&timer->mutex);
  return next_ns;
}

tp_status tp__timer_init(tp__timer *timer) {
  memset(timer, 0, sizeof *timer);
  TP__TRY(tp__mutex_init(&timer->mutex, TP__RANK_timer));
  tp_status status = tp__cond_init(&timer->changed);
  if (status != TP_OK) tp__mutex_fini(&timer->mutex);
  return status;
}

tp_status tp__timer_start(tp__timer *timer, const tp_allocator *allocator) {
  timer->stop = false;
  timer->looks_ns = 0; /* the thread looks at the heap before its first wait */
  if (TP__CONTAINER(timer, tp__sched, timer)->options.pumped) {
    timer->looks_ns = TP__NEVER;
    return TP_OK;
  }
  return tp__thread_start(allocator, "tp-timer", timer_run, timer, &timer->thread);
}

void tp__timer_stop(tp__timer *timer) {
  if (!timer->thread) return;
  tp__mutex_lock(&timer->mutex);
  timer->stop = true;
  tp__cond_signal(&timer->changed);
  tp__mutex_unlock(&timer->mutex);
  tp__thread_join(timer->thread);
  timer->thread = NULL;
}

void tp__timer_fini(tp__timer *timer) {
  assert(!timer->root && !timer->thread);
  tp__cond_fini(&timer->changed);
  tp__mutex_fini(&timer->mutex);
}

void tp__timer_arm(tp__strand *strand, int64_t at_ns) {
  tp__timer *timer = &strand->sched->timer;
  TP__ASSERT(at_ns > 0); /* 0 says that it is not armed */
  tp__mutex_lock(&timer->mutex);
  if (!strand->armed_ns || at_ns < strand->armed_ns) {
    if (strand->armed_ns) remove_strand_locked(timer, strand);
    strand->armed_ns = at_ns;
    timer->root = meld(timer->root, strand);
    TP__CHECK(tp__timer_check_locked(timer));
    if (at_ns < timer->looks_ns) { /* done once for each earlier time: the woken thread sets looks_ns again */
      timer->looks_ns = at_ns;
      tp__cond_signal(&timer->changed);
      tp__sched_wake(strand->sched);
    }
  }
  tp__mutex_unlock(&timer->mutex);
}

void tp__timer_disarm(tp__strand *strand) {
  tp__timer *timer = &strand->sched->timer;
  tp__mutex_lock(&timer->mutex);
  if (strand->armed_ns) remove_strand_locked(timer, strand);
  tp__mutex_unlock(&timer->mutex);
}
