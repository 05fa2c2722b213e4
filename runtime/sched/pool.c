/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/pool.h"

#include "runtime/sched/attempt.h"
#include "runtime/sched/sched.h"

enum { IDLE_MS = 10000, LEAKS_NAMED_MAX = 256 };

typedef struct tp__pool_thread {
  tp__pool *pool;
  tp__thread *thread;
  uint16_t number;   /* from 1; never changes */
  tp__parker parker; /* one token for each time that the thread was taken from the idle threads */
  /* atomic: from the offering thread to this one. The item belongs to the thread that takes it out: this thread, or an
   * owner that abandons the item */
  tp__aptr offer;
  /* under the pool's lock */
  tp__link link;
  bool is_idle;
  bool is_woken; /* idle, but woken for an offer that another thread took over: its token is still to be consumed */
  struct tp__pool_thread *next;       /* of the idle */
  struct tp__pool_thread *next_woken; /* used from the removal from the idle threads until the wake-up */
} tp__pool_thread;

tp_status tp__pool_init(tp__pool *pool, const tp__sched_options *options) {
  memset(pool, 0, sizeof *pool);
  pool->options = options;
  pool->threads_max = options->handler_threads;
  pool->paused_max = options->pumped ? TP__PUMP_PAUSED_MAX : TP__PAUSED_MAX;
  pool->abandoned_max = options->abandoned_max;
  pool->lane_max[TP__LANE_AWAITED] = options->handler_threads;
  pool->lane_max[TP__LANE_HISTORY] = tp__history_threads(options->handler_threads);
  pool->lane_max[TP__LANE_LAYER] = options->layer_threads;
  pool->lane_max[TP__LANE_DETACHED] = options->detached_threads;
  for (int lane = 0; lane < TP__LANES; lane++) tp__list_init(&pool->lanes[lane]);
  tp__list_init(&pool->running);
  tp__list_init(&pool->threads);
  tp__list_init(&pool->ended);
  tp__list_init(&pool->offered);
  tp__list_init(&pool->unput);
  TP__TRY(tp__mutex_init(&pool->mutex, TP__RANK_pool));
  tp_status status = tp__cond_init(&pool->ended_one);
  if (status == TP_OK && (status = tp__cond_init(&pool->may_resume)) != TP_OK) tp__cond_fini(&pool->ended_one);
  if (status != TP_OK) tp__mutex_fini(&pool->mutex);
  return status;
}

void tp__pool_fini(tp__pool *pool) {
  assert(tp__pool_queued_count(pool) == 0 && pool->line_count == 0);
  assert(tp__list_empty(&pool->threads) && tp__list_empty(&pool->ended));
  tp__cond_fini(&pool->may_resume);
  tp__cond_fini(&pool->ended_one);
  tp__mutex_fini(&pool->mutex);
}

#ifdef TP_CHECKS
/* The length of a list; `most` when the list is too long to be counted. */
static uint32_t count_up_to(const tp__link *head, uint32_t most) {
  uint32_t count = 0;
  for (const tp__link *link = head->next; link != head && count < most; link = link->next) count++;
  return count;
}

void tp__pool_check_locked(const tp__pool *pool) {
  uint32_t queued = 0, running = 0, returning = 0, most = TP__CHECK_ITEMS_MAX;
  TP__LOCKED(&pool->mutex);
  for (int lane = 0; lane < TP__LANES; lane++) {
    queued += count_up_to(&pool->lanes[lane], most);
    running += pool->lane_running[lane];
    returning += pool->lane_returning[lane];
    /* In each lane at most lane_max functions run. */
    assert(pool->lane_running[lane] <= pool->lane_max[lane]);
  }
  /* A queued item is in a lane. A running function is counted in its lane, and so is a function that wants its place
   * back. */
  assert(queued >= most || queued == tp__pool_queued_count(pool));
  assert(running == pool->running_count && returning == pool->returning_count);
  /* Each function that was begun has a place, or lost it to another function, or waits for its place. */
  uint32_t begun = count_up_to(&pool->running, most);
  assert(begun >= most || begun == pool->running_count + pool->abandoned_count + pool->paused_count);
  /* Only paused functions wait for their place, or are abandoned during that wait. */
  assert(pool->returning_count <= pool->paused_count && pool->paused_abandoned_count <= pool->paused_count);
  assert(pool->paused_count <= pool->paused_max);
  /* The idle threads are among the existing threads, and idle_count agrees with the list. */
  assert(pool->idle_count <= pool->thread_count && !pool->idle == (pool->idle_count == 0));
  assert(!pool->idle || pool->idle->is_idle);
  /* Threads have numbers in the order in which they were started. */
  assert(pool->started_count >= pool->thread_count || pool->started_count == UINT16_MAX);
}
#endif

static tp__sched *pool_sched(tp__pool *pool) { return TP__CONTAINER(pool, tp__sched, pool); }

/* ---- the queue of a lane, the line of a permit ---- */

static tp__pool_item *item_of(tp__link *link) { return TP__CONTAINER(link, tp__pool_item, link); }

static void queue_locked(tp__pool *pool, tp__pool_item *item) {
  item->place = TP__POOL_QUEUED;
  tp__a32_store_relaxed(&pool->queued_count, tp__pool_queued_count(pool) + 1);
  tp__list_push(&pool->lanes[item->lane], &item->link);
  tp__sched_wake(pool_sched(pool));
}

/* Of an item in a lane. */
static void unqueue_locked(tp__pool *pool, tp__pool_item *item, tp__pool_place place) {
  item->place = place;
  tp__a32_store_relaxed(&pool->queued_count, tp__pool_queued_count(pool) - 1);
  tp__list_remove(&item->link);
}

static void line_up_locked(tp__pool *pool, tp__pool_item *item) {
  item->place = TP__POOL_WAITING;
  pool->line_count++;
  tp__list_push(&item->permits->line, &item->link);
}

/* Of an item in the line of its permits. */
static void leave_line_locked(tp__pool *pool, tp__pool_item *item) {
  item->place = TP__POOL_OUTSIDE;
  pool->line_count--;
  tp__list_remove(&item->link);
}

/* ---- places in the lanes ---- */

/* Wakes functions that waited, because a permit or a place has become free. */
static void may_resume_locked(tp__pool *pool) {
  tp__cond_broadcast(&pool->may_resume);
  tp__sched_wake(pool_sched(pool));
}

static void occupy_locked(tp__pool *pool, tp__lane lane) {
  pool->lane_running[lane]++;
  pool->running_count++;
}

static void vacate_locked(tp__pool *pool, tp__lane lane) {
  pool->lane_running[lane]--;
  pool->running_count--;
  if (pool->returning_count > 0) may_resume_locked(pool);
}

/* How many functions may run in addition to abandoned ones. Up to abandoned_max abandoned functions have another thread
 * in their place. Threads beyond that number stood in for functions that waited, and run nothing. */
static uint32_t places(const tp__pool *pool) {
  uint32_t held = pool->abandoned_count > pool->abandoned_max ? pool->abandoned_count - pool->abandoned_max : 0;
  return held < pool->threads_max ? pool->threads_max - held : 0;
}

static bool has_place(const tp__pool *pool, tp__lane lane) {
  return pool->lane_running[lane] < pool->lane_max[lane] && pool->running_count < places(pool);
}

/* For what is queued. */
static bool has_place_left(const tp__pool *pool, tp__lane lane) {
  return pool->lane_running[lane] + pool->lane_returning[lane] < pool->lane_max[lane] &&
         pool->running_count + pool->returning_count < places(pool);
}

/* @param thread the thread to which the item is offered; NULL: the caller runs it. */
static void set_running_locked(tp__pool *pool, tp__pool_item *item, tp__pool_thread *thread) {
  tp__list_init(&item->link);
  item->place = TP__POOL_RUNNING;
  item->thread = thread;
  item->running_since_ns = tp__now_ns();
  occupy_locked(pool, item->lane);
  tp__list_push(&pool->running, &item->running_link);
  if (thread) tp__aptr_store_release(&thread->offer, item); /* pairs with take_offer and withdraw_locked */
}

static tp__pool_item *take_item_locked(tp__pool *pool, tp__pool_thread *thread) {
  for (int lane = 0; lane < TP__LANES; lane++) {
    if (tp__list_empty(&pool->lanes[lane]) || !has_place_left(pool, (tp__lane)lane)) continue;
    tp__pool_item *item = item_of(pool->lanes[lane].next);
    unqueue_locked(pool, item, TP__POOL_OUTSIDE);
    set_running_locked(pool, item, thread);
    return item;
  }
  return NULL;
}

/* The item has a permit. The lock of the inbox is taken under the pool's lock, so that an abandon finds the item either
 * in the pool or in the inbox. */
static bool put_locked(tp__pool_item *item) {
  item->place = TP__POOL_IN_INBOX;
  if (tp__attempt_put(tp__attempt_of(item))) return true;
  item->place = TP__POOL_OUTSIDE;
  tp__permits_return(item->permits, false);
  return false;
}

/* Queues the next items of the line while there are permits. */
static void serve_line_locked(tp__pool *pool, tp__permits *permits) {
  for (tp__link *first; (first = tp__permits_first(permits));) {
    tp__pool_item *next = item_of(first);
    if (!tp__permits_try(permits, next->permits_max)) return;
    leave_line_locked(pool, next);
    if (!next->inbox) queue_locked(pool, next);
    else if (!put_locked(next)) tp__list_push(&pool->unput, &next->link); /* its token keeps it until it is ended */
  }
}

static void permit_back_locked(tp__pool *pool, tp__pool_item *item) {
  tp__permits *permits = item->permits;
  if (!permits) return;
  tp__permits_return(permits, item->abandoned);
  if (permits->returning > 0) may_resume_locked(pool);
  else serve_line_locked(pool, permits);
}

/* deferred: the function has returned, and its token may be open. */
static void end_running_locked(tp__pool *pool, tp__pool_item *item, bool deferred) {
  bool keeps = deferred && item->keeps_permit && !item->token_ended && !item->yields_permit;
  tp__list_remove(&item->running_link);
  tp__list_remove(&item->link); /* of the offered */
  item->place = keeps ? TP__POOL_DEFERRED : TP__POOL_OUTSIDE;
  if (item->abandoned) {
    pool->abandoned_count--;
    pool->is_exhausted = false;
  } else vacate_locked(pool, item->lane);
  if (!keeps) permit_back_locked(pool, item);
}

/* ---- idle threads: woken after the lock is released, because otherwise they would wait for it ---- */

/* The thread that became idle last is used first, because its memory is probably still in a cache. */
static void push_idle_locked(tp__pool *pool, tp__pool_thread *thread) {
  thread->is_idle = true;
  thread->next = pool->idle;
  pool->idle = thread;
  pool->idle_count++;
}

static void remove_idle_locked(tp__pool *pool, tp__pool_thread *thread) {
  tp__pool_thread **place = &pool->idle;
  while (*place != thread) place = &(*place)->next;
  TP__ASSERT(thread->is_idle && pool->idle_count > 0);
  *place = thread->next;
  thread->is_idle = false;
  pool->idle_count--;
}

/* Called by a thread without work: takes an item that was offered to a thread which has not taken it yet. */
static tp__pool_item *take_over_locked(tp__pool *pool) {
  while (!tp__list_empty(&pool->offered)) {
    tp__pool_item *item = item_of(pool->offered.next);
    tp__pool_thread *thread = item->thread;
    void *expected = item;
    tp__list_remove(&item->link);
    if (!tp__aptr_cas_acq_rel(&thread->offer, &expected, NULL)) continue;
    item->thread = NULL;
    thread->is_woken = true;
    push_idle_locked(pool, thread);
    return item;
  }
  return NULL;
}

/* A woken thread is no longer idle. @return the item that was offered to it since its last look. */
static tp__pool_item *arrive_locked(tp__pool *pool, tp__pool_thread *self) {
  if (self->is_idle) remove_idle_locked(pool, self);
  self->is_woken = false;
  return tp__aptr_exchange_acq_rel(&self->offer, NULL);
}

/* Offers items that may run to idle threads. @return these threads, to be woken, followed by those that the caller has
 * to wake in any case. */
static tp__pool_thread *offer_locked(tp__pool *pool, tp__pool_thread *woken) {
  tp__pool_item *item;
  while (pool->idle && (item = take_item_locked(pool, pool->idle))) {
    tp__pool_thread *thread = pool->idle;
    tp__list_push(&pool->offered, &item->link);
    remove_idle_locked(pool, thread);
    if (thread->is_woken) { /* its token is on the way, or taken */
      thread->is_woken = false;
      continue;
    }
    thread->next_woken = woken;
    woken = thread;
  }
  return woken;
}

void tp__pool_wake(tp__pool_thread *woken) {
  while (woken) {
    tp__pool_thread *next = woken->next_woken; /* a woken one may be gone at once */
    tp__parker_unpark(&woken->parker);
    woken = next;
  }
}

static void unlock_and_wake(tp__pool *pool) {
  tp__pool_thread *woken = offer_locked(pool, NULL);
  TP__CHECK(tp__pool_check_locked(pool));
  tp__mutex_unlock(&pool->mutex);
  tp__pool_wake(woken);
}

static tp__pool_item *take_offer(tp__pool_thread *thread) { return tp__aptr_exchange_acq_rel(&thread->offer, NULL); }

/* @return true when the thread to which the item was offered had not taken it, and will not take it. */
static bool withdraw_locked(tp__pool *pool, tp__pool_item *item) {
  void *expected = item;
  if (!item->thread || !tp__aptr_cas_acq_rel(&item->thread->offer, &expected, NULL)) return false;
  end_running_locked(pool, item, false);
  return true;
}

/* ---- threads ---- */

/* Parks among the idle threads. @return false when nothing came for so long that the thread may end. */
static bool wait_unlocked(tp__pool_thread *self) {
  tp__pool *pool = self->pool;
  if (tp__parker_park_until(&self->parker, tp__deadline_after_ms(tp__now_ns(), IDLE_MS))) return true;
  tp__mutex_lock(&pool->mutex);
  bool token_comes = !self->is_idle || self->is_woken;
  if (!token_comes) remove_idle_locked(pool, self);
  tp__mutex_unlock(&pool->mutex);
  if (token_comes) tp__parker_park_until(&self->parker, TP__NEVER);
  return token_comes;
}

/* The last thread of a pool whose owner is gone frees the rest of the pool. */
static void leave_locked(tp__pool *pool, tp__pool_thread *self) {
  void (*last_out)(void *ctx) = NULL;
  void *ctx = pool->last_out_ctx;
  pool->thread_count--;
  tp__list_remove(&self->link);
  tp__parker_fini(&self->parker);
  if (pool->last_out) { /* no thread will join this one */
    tp__thread_detach(self->thread);
    tp__release(pool->options->allocator, self, sizeof *self);
    if (pool->thread_count == 0) last_out = pool->last_out;
  } else {
    tp__list_push(&pool->ended, &self->link);
    tp__cond_broadcast(&pool->ended_one);
  }
  tp__mutex_unlock(&pool->mutex);
  if (last_out) last_out(ctx);
}

static void refuse_unput(tp__pool *pool) {
  for (;;) {
    tp__mutex_lock(&pool->mutex);
    tp__pool_item *item = tp__list_empty(&pool->unput) ? NULL : item_of(pool->unput.next);
    if (item) tp__list_remove(&item->link);
    tp__mutex_unlock(&pool->mutex);
    if (!item) return;
    tp__attempt_refuse(tp__attempt_of(item), TP_REASON_NO_WORKER);
  }
}

static bool staff_locked(tp__pool *pool);

/* A thread that runs a turn does not take queued items: they are for other threads. self: NULL for a thread that
 * pumps. */
static void run_item(tp__pool *pool, tp__pool_thread *self, tp__pool_item *item) {
  tp__attempt *attempt = tp__attempt_of(item);
  item->ran_on = self ? self->number : 1;
  tp__strand *owned = tp__attempt_call(attempt);
  tp__mutex_lock(&pool->mutex);
  end_running_locked(pool, item, tp__attempt_deferred(attempt));
  bool any_unput = !tp__list_empty(&pool->unput);
  if (owned && tp__pool_queued_count(pool) > 0) {
    (void)staff_locked(pool); /* this thread is there in any case */
    unlock_and_wake(pool);
  } else {
    tp__mutex_unlock(&pool->mutex);
  }
  tp__attempt_unref(attempt);
  if (any_unput) refuse_unput(pool);
  if (owned) tp__strand_run_on(owned, self);
}

/* Runs items one after the other, while the turn that the thread runs leaves it a next item. @return whether it ran
 * any. */
static bool run_items(tp__pool_thread *self, tp__pool_item *item) {
  bool any = item != NULL;
  for (; item; item = take_offer(self)) run_item(self->pool, self, item);
  return any;
}

bool tp__pool_run_one(tp__pool *pool) {
  tp__inside frame;
  if (tp__pool_queued_count(pool) == 0) return false; /* an item that is queued from now on wakes the pump */
  tp__mutex_lock(&pool->mutex);
  tp__pool_item *item = take_item_locked(pool, NULL);
  tp__mutex_unlock(&pool->mutex);
  if (!item) return false;
  tp__inside_enter(&frame, pool->options->owner, TP__THREAD_HANDLER);
  run_item(pool, NULL, item);
  tp__inside_leave(&frame);
  return true;
}

static void thread_run(void *arg) {
  tp__pool_thread *self = arg;
  tp__pool *pool = self->pool;
  bool idle_for_long = false;
  tp__inside frame;
  tp__inside_enter(&frame, pool->options->owner, TP__THREAD_HANDLER);
  tp__mutex_lock(&pool->mutex);
  for (;;) {
    tp__pool_item *item = arrive_locked(pool, self);
    if (!item) item = take_item_locked(pool, NULL);
    if (!item && !pool->stop) item = take_over_locked(pool);
    if (!item && (pool->stop || idle_for_long)) break;
    if (!item) push_idle_locked(pool, self);
    tp__mutex_unlock(&pool->mutex);
    if (!item) {
      idle_for_long = !wait_unlocked(self);
      item = take_offer(self);
    }
    if (run_items(self, item)) idle_for_long = false;
    tp__mutex_lock(&pool->mutex);
  }
  leave_locked(pool, self);
}

static void join_ended_locked(tp__pool *pool) {
  while (!tp__list_empty(&pool->ended)) {
    tp__pool_thread *ended = TP__CONTAINER(pool->ended.next, tp__pool_thread, link);
    tp__list_remove(&ended->link);
    tp__mutex_unlock(&pool->mutex);
    tp__thread_join(ended->thread);
    tp__release(pool->options->allocator, ended, sizeof *ended);
    tp__mutex_lock(&pool->mutex);
  }
}

/* Abandoned attempts (up to a cap of their own) and paused attempts do not count against the cap of threads. */
static bool may_start_locked(const tp__pool *pool) {
  uint32_t lost = pool->abandoned_count < pool->abandoned_max ? pool->abandoned_count : pool->abandoned_max;
  return pool->thread_count < pool->threads_max + lost + pool->paused_count;
}

static bool start_thread_locked(tp__pool *pool) {
  tp__pool_thread *thread = tp__alloc_zero(pool->options->allocator, sizeof *thread);
  if (!thread) return false;
  if (tp__parker_init(&thread->parker) != TP_OK) {
    tp__release(pool->options->allocator, thread, sizeof *thread);
    return false;
  }
  thread->pool = pool;
  if (pool->started_count < UINT16_MAX) pool->started_count++;
  thread->number = (uint16_t)pool->started_count;
  tp__list_push(&pool->threads, &thread->link);
  pool->thread_count++;
  /* The first action of the new thread is to take the lock, so thread->thread is written before a join. */
  if (tp__thread_start(pool->options->allocator, "tp-handler", thread_run, thread, &thread->thread) == TP_OK)
    return true;
  pool->thread_count--;
  tp__list_remove(&thread->link);
  tp__parker_fini(&thread->parker);
  tp__release(pool->options->allocator, thread, sizeof *thread);
  return false;
}

/* ---- API ---- */

/* True when an abandoned or paused attempt holds every thread. It is also true when no thread exists, because none
 * could be started without memory. */
static bool is_lost_locked(const tp__pool *pool) {
  if (pool->options->pumped) return false;
  return pool->thread_count <= pool->abandoned_count + pool->paused_count || places(pool) == 0;
}

/* Starts one more thread when more items are queued than idle threads can take. @return false when no thread would ever
 * run the items. */
static bool staff_locked(tp__pool *pool) {
  if (pool->options->pumped) return true;
  if (tp__pool_queued_count(pool) > pool->idle_count && may_start_locked(pool)) start_thread_locked(pool);
  return !is_lost_locked(pool);
}

/* @return how many functions are abandoned, for on_exhausted; 0: it was called already, or a thread may still be
 *   started. */
static uint32_t note_exhausted_locked(tp__pool *pool) {
  if (pool->is_exhausted || !is_lost_locked(pool) || may_start_locked(pool)) return 0;
  pool->is_exhausted = true;
  return pool->abandoned_count;
}

static void report_exhausted(const tp__pool *pool, uint32_t abandoned) {
  const tp__sched_options *options = pool->options;
  if (abandoned > 0 && options->on_exhausted) options->on_exhausted(options->owner, abandoned);
}

void tp__pool_set_abandoned_max(tp__pool *pool, uint32_t count) {
  tp__mutex_lock(&pool->mutex);
  pool->abandoned_max = count;
  pool->is_exhausted = false;
  tp__mutex_unlock(&pool->mutex);
}

bool tp__pool_is_exhausted(tp__pool *pool) {
  tp__mutex_lock(&pool->mutex);
  bool exhausted = pool->abandoned_count > 0 && is_lost_locked(pool) && !may_start_locked(pool);
  tp__mutex_unlock(&pool->mutex);
  return exhausted;
}

/* The item may stay with the calling handler thread: nothing is queued, which would come first, and the thread has no
 * other offer. */
static bool may_stay_locked(const tp__pool *pool, const tp__pool_item *item, const tp__pool_thread *here) {
  return here && tp__pool_queued_count(pool) == 0 && has_place_left(pool, item->lane) &&
         !tp__aptr_load_relaxed(&here->offer);
}

tp_reason tp__pool_submit(tp__pool *pool, tp__pool_item *item, tp__pool_thread *here, tp__pool_thread **later) {
  tp_reason refused = TP_REASON_NONE;
  tp__permits *permits = item->permits;
  tp__mutex_lock(&pool->mutex);
  join_ended_locked(pool);
  if (pool->stop) {
    refused = TP_REASON_SHUTDOWN;
  } else if (permits && !item->is_patient && tp__permits_are_lost(permits, item->permits_max)) {
    refused = TP_REASON_NO_PERMIT;
  } else if (permits && !tp__permits_try(permits, item->permits_max)) {
    line_up_locked(pool, item);
  } else if (item->queue_max > 0 && tp__pool_queued_count(pool) >= item->queue_max) {
    if (permits) tp__permits_return(permits, false);
    refused = TP_REASON_SHED;
  } else {
    bool stays = may_stay_locked(pool, item, here);
    if (stays) set_running_locked(pool, item, here);
    else queue_locked(pool, item);
    if (!stays && !staff_locked(pool)) {
      unqueue_locked(pool, item, TP__POOL_OUTSIDE);
      if (permits) tp__permits_return(permits, false);
      refused = TP_REASON_NO_WORKER;
    }
  }
  uint32_t exhausted = refused == TP_REASON_NO_WORKER ? note_exhausted_locked(pool) : 0;
  tp__pool_thread *woken = offer_locked(pool, later ? *later : NULL);
  TP__CHECK(tp__pool_check_locked(pool));
  tp__mutex_unlock(&pool->mutex);
  if (later) *later = woken;
  else tp__pool_wake(woken);
  report_exhausted(pool, exhausted);
  return refused;
}

tp_reason tp__pool_offer(tp__pool *pool, tp__pool_item *item) {
  tp_reason refused = TP_REASON_NONE;
  tp__permits *permits = item->permits;
  tp__mutex_lock(&pool->mutex);
  if (pool->stop) {
    refused = TP_REASON_SHUTDOWN;
  } else if (tp__permits_are_lost(permits, item->permits_max)) {
    refused = TP_REASON_NO_PERMIT;
  } else if (!tp__permits_try(permits, item->permits_max)) {
    line_up_locked(pool, item);
  } else if (!put_locked(item)) {
    refused = TP_REASON_NO_WORKER;
  }
  tp__mutex_unlock(&pool->mutex);
  return refused;
}

static tp__pool_item *take_queued_locked(tp__pool *pool) {
  for (int lane = 0; lane < TP__LANES; lane++) {
    if (tp__list_empty(&pool->lanes[lane])) continue;
    tp__pool_item *item = item_of(pool->lanes[lane].next);
    unqueue_locked(pool, item, TP__POOL_OUTSIDE);
    permit_back_locked(pool, item);
    return item;
  }
  return NULL;
}

/* No thread is left, and none may be started. Without this refusal, queued items would wait for their deadlines, and
 * their records would have no reason. */
static void refuse_queued(tp__pool *pool) {
  for (;;) {
    tp__mutex_lock(&pool->mutex);
    tp__pool_item *item = is_lost_locked(pool) ? take_queued_locked(pool) : NULL;
    uint32_t exhausted = item ? note_exhausted_locked(pool) : 0;
    tp__mutex_unlock(&pool->mutex);
    report_exhausted(pool, exhausted);
    if (!item) return;
    tp__attempt_refuse(tp__attempt_of(item), TP_REASON_NO_WORKER);
    refuse_unput(pool);
  }
}

void tp__pool_token_ended(tp__pool *pool, tp__pool_item *item) {
  tp__mutex_lock(&pool->mutex);
  bool is_running = item->place == TP__POOL_RUNNING || item->place == TP__POOL_PAUSED;
  bool had_permit = item->place == TP__POOL_IN_INBOX || item->place == TP__POOL_DEFERRED;
  if (is_running) item->token_ended = true;
  else item->place = TP__POOL_OUTSIDE;
  if (had_permit) permit_back_locked(pool, item);
  /* if it had no permit, the item may itself be one of these */
  bool any_unput = had_permit && !tp__list_empty(&pool->unput);
  bool staffed = tp__pool_queued_count(pool) == 0 || staff_locked(pool); /* all threads may have gone meanwhile */
  unlock_and_wake(pool);
  if (any_unput) refuse_unput(pool);
  if (!staffed) refuse_queued(pool);
}

void tp__pool_yield_permit(tp__pool *pool, tp__pool_item *item) {
  tp__mutex_lock(&pool->mutex);
  if (item->place == TP__POOL_RUNNING) item->yields_permit = true;
  tp__mutex_unlock(&pool->mutex);
}

/* Abandoned attempts hold all permits, so the items in line will not get one. */
static void refuse_line(tp__pool *pool, tp__permits *permits) {
  for (;;) {
    tp__mutex_lock(&pool->mutex);
    tp__link *first = tp__permits_first(permits);
    tp__pool_item *item = NULL;
    if (first && !item_of(first)->is_patient && tp__permits_are_lost(permits, item_of(first)->permits_max)) {
      item = item_of(first);
      leave_line_locked(pool, item);
    }
    tp__mutex_unlock(&pool->mutex);
    if (!item) return;
    tp__attempt_refuse(tp__attempt_of(item), TP_REASON_NO_PERMIT);
  }
}

bool tp__pool_abandon(tp__pool *pool, tp__pool_item *item) {
  bool never_runs = false, staffed = true;
  tp__permits *line = NULL;
  tp__mutex_lock(&pool->mutex);
  switch (item->place) {
    case TP__POOL_WAITING:
      never_runs = true;
      leave_line_locked(pool, item);
      break;
    case TP__POOL_QUEUED:
      never_runs = true;
      unqueue_locked(pool, item, TP__POOL_OUTSIDE);
      permit_back_locked(pool, item);
      break;
    case TP__POOL_RUNNING:
      never_runs = withdraw_locked(pool, item);
      if (never_runs) break;
      item->abandoned = true;
      vacate_locked(pool, item->lane);
      pool->abandoned_count++;
      line = item->permits;
      if (line) tp__permits_abandon(line);
      staffed = staff_locked(pool);
      break;
    case TP__POOL_IN_INBOX:
      never_runs = tp__inbox_withdraw(&tp__attempt_of(item)->inbox_item);
      if (never_runs) {
        item->place = TP__POOL_OUTSIDE;
        permit_back_locked(pool, item);
      } else {
        item->abandoned = true;
        line = item->permits;
        tp__permits_abandon(line);
      }
      break;
    case TP__POOL_PAUSED: /* it holds no permit, and no longer needs a place */
      item->abandoned = true;
      pool->paused_abandoned_count++;
      if (pool->returning_count > 0) may_resume_locked(pool);
      break;
    case TP__POOL_DEFERRED: /* its token returns the permit, if it is ever completed */
      item->abandoned = true;
      line = item->permits;
      tp__permits_abandon(line);
      break;
    case TP__POOL_OUTSIDE:
      break;
  }
  bool any_unput = !tp__list_empty(&pool->unput);
  unlock_and_wake(pool);
  if (any_unput) refuse_unput(pool);
  if (line) refuse_line(pool, line);
  if (!staffed) refuse_queued(pool);
  return never_runs;
}

/* ---- functions that wait ---- */

static tp_status pause_locked(tp__pool *pool, tp__pool_item *item) {
  if (item->place != TP__POOL_RUNNING) return TP_ERR_USAGE;
  if (item->abandoned) return TP_ERR_CANCELLED;
  if (pool->paused_count == pool->paused_max) return TP_ERR_FULL;
  item->place = TP__POOL_PAUSED;
  vacate_locked(pool, item->lane);
  pool->paused_count++;
  permit_back_locked(pool, item);
  return TP_OK;
}

tp_status tp__pool_pause(tp__pool *pool, tp__pool_item *item) {
  tp__mutex_lock(&pool->mutex);
  tp_status status = pause_locked(pool, item);
  bool staffed = status != TP_OK || staff_locked(pool), any_unput = !tp__list_empty(&pool->unput);
  unlock_and_wake(pool);
  if (any_unput) refuse_unput(pool);
  if (!staffed) refuse_queued(pool);
  return status;
}

static void take_permit_back_locked(tp__pool *pool, tp__pool_item *item) {
  tp__permits *permits = item->permits;
  tp__permits_reserve(permits);
  while (!tp__permits_resume(permits, item->permits_max))
    (void)tp__sched_wait_until(pool_sched(pool), &pool->may_resume, &pool->mutex, TP__NEVER);
  if (permits->returning == 0) serve_line_locked(pool, permits); /* more than one may have come back */
}

static void take_place_back_locked(tp__pool *pool, tp__pool_item *item) {
  pool->lane_returning[item->lane]++;
  pool->returning_count++;
  while (!item->abandoned && !has_place(pool, item->lane))
    (void)tp__sched_wait_until(pool_sched(pool), &pool->may_resume, &pool->mutex, TP__NEVER);
  pool->lane_returning[item->lane]--;
  pool->returning_count--;
  pool->paused_count--;
  if (!item->abandoned) occupy_locked(pool, item->lane);
}

/* A function that was abandoned while it waited holds its permit and a thread until it returns, like every abandoned
 * function. */
static void become_abandoned_locked(tp__pool *pool, tp__pool_item *item) {
  pool->paused_abandoned_count--;
  pool->abandoned_count++;
  if (item->permits) tp__permits_abandon(item->permits);
}

/* Waits for the permit first: so a function that has a place never waits for a permit. */
void tp__pool_resume(tp__pool *pool, tp__pool_item *item) {
  tp__mutex_lock(&pool->mutex);
  assert(item->place == TP__POOL_PAUSED);
  if (item->permits) take_permit_back_locked(pool, item);
  take_place_back_locked(pool, item);
  item->place = TP__POOL_RUNNING;
  bool abandoned = item->abandoned;
  if (abandoned) become_abandoned_locked(pool, item);
  bool staffed = staff_locked(pool), any_unput = !tp__list_empty(&pool->unput);
  unlock_and_wake(pool);
  if (any_unput) refuse_unput(pool);
  if (abandoned && item->permits) refuse_line(pool, item->permits);
  if (!staffed) refuse_queued(pool);
}

/* The callback is called without the lock. */
size_t tp__pool_leaks(tp__pool *pool, bool (*each)(void *ctx, const tp_leak *leak), void *ctx) {
  tp_leak leaks[LEAKS_NAMED_MAX];
  size_t count = 0;
  tp__mutex_lock(&pool->mutex);
  int64_t now_ns = tp__now_ns();
  for (tp__link *link = pool->running.next; link != &pool->running; link = link->next) {
    const tp__pool_item *item = TP__CONTAINER(link, tp__pool_item, running_link);
    if (!item->abandoned) continue;
    int64_t running_ms = (now_ns - item->running_since_ns) / TP__NS_PER_MS;
    if (count < LEAKS_NAMED_MAX)
      leaks[count] = (tp_leak){
          .struct_size = sizeof(tp_leak), .subscription = item->name, .phase = item->phase, .running_ms = running_ms};
    count++;
  }
  tp__mutex_unlock(&pool->mutex);
  for (size_t i = 0; each && i < count && i < LEAKS_NAMED_MAX && each(ctx, &leaks[i]); i++) continue;
  return count;
}

uint32_t tp__pool_waiting_count(tp__pool *pool) {
  tp__mutex_lock(&pool->mutex);
  uint32_t count = tp__pool_queued_count(pool) + pool->line_count;
  tp__mutex_unlock(&pool->mutex);
  return count;
}

uint32_t tp__pool_thread_count(tp__pool *pool) {
  tp__mutex_lock(&pool->mutex);
  uint32_t count = pool->thread_count;
  tp__mutex_unlock(&pool->mutex);
  return count;
}

uint32_t tp__pool_stop(tp__pool *pool) {
  tp__pool_thread *woken = NULL;
  tp__mutex_lock(&pool->mutex);
  pool->stop = true;
  for (tp__pool_thread *thread; (thread = pool->idle);) {
    remove_idle_locked(pool, thread);
    if (thread->is_woken) continue; /* its token is on the way */
    thread->next_woken = woken;
    woken = thread;
  }
  tp__mutex_unlock(&pool->mutex);
  tp__pool_wake(woken);
  tp__mutex_lock(&pool->mutex);
  while (pool->thread_count > pool->abandoned_count + pool->paused_abandoned_count)
    tp__cond_wait(&pool->ended_one, &pool->mutex);
  join_ended_locked(pool);
  uint32_t left = pool->thread_count;
  tp__mutex_unlock(&pool->mutex);
  return left;
}

bool tp__pool_orphan(tp__pool *pool, void (*last_out)(void *ctx), void *ctx) {
  tp__mutex_lock(&pool->mutex);
  join_ended_locked(pool);
  bool any = pool->thread_count > 0;
  if (any) {
    pool->last_out = last_out;
    pool->last_out_ctx = ctx;
  }
  tp__mutex_unlock(&pool->mutex);
  return any;
}
