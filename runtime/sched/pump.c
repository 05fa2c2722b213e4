/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/pump.h"

#include "runtime/base/bug.h"
#include "runtime/sched/sched.h"

tp_status tp__pump_init(tp__pump *pump) {
  memset(pump, 0, sizeof *pump);
  TP__TRY(tp__mutex_init(&pump->mutex, TP__RANK_pump));
  tp_status status = tp__cond_init(&pump->changed);
  if (status != TP_OK) tp__mutex_fini(&pump->mutex);
  return status;
}

tp_status tp__pump_open(tp__pump *pump) {
  if (tp__pump_is_open(pump)) return TP_OK;
  TP__TRY(tp__pollable_init(&pump->pollable));
  tp__a32_store_release(&pump->is_open, 1);
  return TP_OK;
}

void tp__pump_fini(tp__pump *pump) {
  assert(!pump->by && pump->depth == 0 && pump->waiting == 0);
  if (tp__pump_is_open(pump)) tp__pollable_fini(&pump->pollable);
  tp__cond_fini(&pump->changed);
  tp__mutex_fini(&pump->mutex);
}

#ifdef TP_CHECKS
void tp__pump_check_locked(const tp__pump *pump) {
  TP__LOCKED(&pump->mutex);
  /* Only what is open can be set. */
  assert(tp__pump_is_open(pump) || !pump->is_set);
  /* A contending thread, which waits until another thread leaves, is one of the waiting threads. */
  assert(pump->host_wakes_ns >= 0 && pump->contending <= pump->waiting);
}
#endif

#define NOT_CLEAN UINT64_MAX

static uint64_t news_of(const tp__pump *pump) { return tp__a64_load_acquire(&pump->news); }

static void set_locked(tp__pump *pump) {
  TP__LOCKED(&pump->mutex);
  if (pump->is_set || !tp__pump_is_open(pump) || TP__BUG(TP__BUG_PUMP_NOT_WOKEN)) return;
  pump->is_set = true;
  tp__pollable_set(&pump->pollable);
}

static void clear_locked(tp__pump *pump) {
  TP__LOCKED(&pump->mutex);
  if (pump->is_set) (void)tp__pollable_clear(&pump->pollable);
  pump->is_set = false;
}

void tp__pump_wake(tp__pump *pump) {
  tp__mutex_lock(&pump->mutex);
  tp__a64_add_acq_rel(&pump->news, 1);
  if (pump->waiting > 0) tp__cond_broadcast(&pump->changed);
  if (!pump->by) set_locked(pump);
  tp__mutex_unlock(&pump->mutex);
}

/* ---- items ---- */

enum { SOURCE_STRANDS, SOURCE_FUNCTIONS, SOURCE_OWNER, SOURCES };

static int64_t earlier(int64_t a_ns, int64_t b_ns) { return a_ns < b_ns ? a_ns : b_ns; }

/* @param ret_next_ns lowered to the time at which the source may have something. */
static bool run_from(tp__sched *sched, uint32_t source, int64_t *next_ns) {
  int64_t owner_ns = TP__NEVER;
  switch (source) {
    case SOURCE_STRANDS:
      return tp__workers_run_one(&sched->workers);
    case SOURCE_FUNCTIONS:
      return tp__pool_run_one(&sched->pool);
    default:
      if (!sched->options.step) return false;
      if (sched->options.step(sched->options.owner, &owner_ns)) return true;
      *next_ns = earlier(*next_ns, owner_ns);
      return false;
  }
}

/* The sources are served in turns, so that none waits for long. @return whether there was an item. If not, *ret_next_ns
 * is the time at which there may be one without a wake-up of the pump. */
static bool run_one(tp__sched *sched, int64_t *ret_next_ns) {
  tp__pump *pump = &sched->pump;
  int64_t next_ns = tp__timer_fire(&sched->timer);
  for (uint32_t i = 0; i < SOURCES; i++) {
    uint32_t source = pump->source;
    pump->source = (source + 1) % SOURCES;
    if (run_from(sched, source, &next_ns)) return true;
  }
  *ret_next_ns = next_ns;
  return false;
}

/* ---- the thread that pumps ---- */

/* @param is_host  the host's pump: when another thread pumps, the flag is cleared until that thread has left.
 * @param ret_outer  this thread's own entry when it pumps already; else NULL. */
static bool try_enter(tp__pump *pump, bool is_host, const tp__here **ret_outer) {
  const tp__here *here = tp__here_get();
  tp__mutex_lock(&pump->mutex);
  bool entered = !pump->by || pump->by == here;
  *ret_outer = pump->by;
  if (entered) {
    pump->by = here;
    pump->depth++;
  }
  if (!entered && is_host) {
    pump->host_missed = true;
    clear_locked(pump);
  }
  TP__CHECK(tp__pump_check_locked(pump));
  tp__mutex_unlock(&pump->mutex);
  return entered;
}

static void leave_locked(tp__pump *pump, const tp__here *outer) {
  TP__LOCKED(&pump->mutex);
  TP__ASSERT(pump->by == tp__here_get() && pump->depth > 0);
  pump->by = outer;
  pump->depth--;
  if (!outer && pump->contending > 0) tp__cond_broadcast(&pump->changed);
  if (!outer && pump->host_missed) {
    pump->host_missed = false;
    set_locked(pump);
  }
  TP__CHECK(tp__pump_check_locked(pump));
}

/* The pumping thread has run an item, or has found nothing in a look that it began after these news. */
static void looked_locked(tp__pump *pump, bool any, uint64_t news, int64_t next_ns) {
  TP__LOCKED(&pump->mutex);
  pump->clean_news = any ? NOT_CLEAN : news;
  pump->next_ns = any ? 0 : next_ns;
}

tp_status tp__pump_run(tp__sched *sched, uint32_t items_max, int64_t *ret_next_ns) {
  tp__pump *pump = &sched->pump;
  const tp__here *outer;
  uint32_t items = 0;
  bool is_left = true; /* something is, for all that is known */
  if (!try_enter(pump, true, &outer)) return TP_ERR_BUSY;
  for (;;) {
    uint64_t seen = news_of(pump);
    int64_t next_ns = 0;
    bool is_full = items_max > 0 && items == items_max;
    if (!is_full && run_one(sched, &next_ns)) {
      items++;
      continue;
    }
    tp__mutex_lock(&pump->mutex);
    if (!is_full) is_left = news_of(pump) != seen;
    if (is_full || !is_left) {
      looked_locked(pump, is_left, seen, next_ns);
      pump->host_wakes_ns = is_left ? 0 : next_ns;
      if (is_left) set_locked(pump);
      else clear_locked(pump);
      leave_locked(pump, outer);
      tp__mutex_unlock(&pump->mutex);
      *ret_next_ns = is_left ? 0 : next_ns;
      return TP_OK;
    }
    tp__mutex_unlock(&pump->mutex);
  }
}

/* ---- threads that wait ---- */

/* Sleeps until there are news after `seen`, until the deadline, or until something is due. When a look has found
 * nothing since the last news, woken threads do not look again; otherwise each of them would wake the others. */
static void sleep_locked(tp__pump *pump, uint64_t seen, int64_t deadline_ns) {
  TP__LOCKED(&pump->mutex);
  while (news_of(pump) == seen) {
    bool is_other = pump->by && pump->by != tp__here_get();
    if (!is_other && pump->clean_news != seen) return;
    int64_t until_ns = is_other ? deadline_ns : earlier(pump->next_ns, deadline_ns);
    if (until_ns != TP__NEVER && until_ns <= tp__now_ns()) return;
    pump->waiting++;
    pump->contending += is_other;
    (void)tp__cond_wait_until(&pump->changed, &pump->mutex, until_ns);
    pump->contending -= is_other;
    pump->waiting--;
  }
}

/* Runs one item. When there is none, sleeps until there are news after `seen`, or until the deadline. */
static void run_or_sleep(tp__sched *sched, uint64_t seen, int64_t deadline_ns) {
  tp__pump *pump = &sched->pump;
  const tp__here *outer;
  int64_t next_ns = TP__NEVER;
  bool entered = try_enter(pump, false, &outer);
  uint64_t looked = news_of(pump);
  bool any = entered && run_one(sched, &next_ns);
  tp__mutex_lock(&pump->mutex);
  if (entered) {
    looked_locked(pump, any, looked, next_ns);
    leave_locked(pump, outer);
  }
  bool is_left = any || news_of(pump) != looked;                         /* the thread may leave without another look */
  if (entered && !outer && (is_left || next_ns < pump->host_wakes_ns)) { /* what the host knows is out of date */
    pump->host_wakes_ns = 0;
    set_locked(pump);
  }
  if (!any) sleep_locked(pump, seen, deadline_ns);
  tp__mutex_unlock(&pump->mutex);
}

bool tp__sched_wait_until(tp__sched *sched, tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns) {
  if (!sched->options.pumped) return tp__cond_wait_until(cond, mutex, deadline_ns);
  /* the caller has checked its condition under its mutex, so earlier news are in that check */
  uint64_t seen = news_of(&sched->pump);
  tp__mutex_unlock(mutex);
  run_or_sleep(sched, seen, deadline_ns);
  tp__mutex_lock(mutex);
  return deadline_ns == TP__NEVER || tp__now_ns() < deadline_ns;
}

void tp__sched_wake(tp__sched *sched) {
  if (sched->options.pumped) tp__pump_wake(&sched->pump);
}

bool tp__sched_park(tp__sched *sched, tp__parker *parker, int64_t deadline_ns) {
  if (!sched->options.pumped) return tp__parker_park_until(parker, deadline_ns);
  for (;;) {
    uint64_t seen = news_of(&sched->pump);
    if (tp__parker_take(parker)) return true;
    if (deadline_ns != TP__NEVER && tp__now_ns() >= deadline_ns) return false;
    run_or_sleep(sched, seen, deadline_ns);
  }
}
