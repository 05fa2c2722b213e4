/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/worker.h"

#include "runtime/base/bug.h"
#include "runtime/sched/sched.h"

/* workers->idle */
#define SLEEPER UINT32_C(1)
#define SEARCHER (UINT32_C(1) << 15)
#define STOPPED (UINT32_C(1) << 31) /* the threads are gone */
#define PUMPED (UINT32_C(1) << 30)  /* there are no threads; until the stop this is the only bit */
#define SLEEPERS(idle) ((idle) % SEARCHER)
#define SEARCHERS(idle) ((idle) % STOPPED / SEARCHER)

#ifdef TP_SIM
enum { BATCH = 16, SHARES = 1, LOOKS_PER_CLOCK = 2, SEARCH_NS = 100, SEARCH_NS_MIN = 1, CREDIT_INVERSE = 1 };
#else
enum {
  BATCH = 16,
  SHARES = 2,
  LOOKS_PER_CLOCK = 16,
  SEARCH_NS = 30 * TP__NS_PER_US,
  SEARCH_NS_MIN = 1 * TP__NS_PER_US, /* less is not worth the marks */
  CREDIT_INVERSE = 10                /* searching takes at most a tenth of the time of the work that was found */
};
#endif
enum { CREDIT_NS_MAX = 4 * SEARCH_NS };

tp_status tp__workers_init(tp__workers *workers, const tp__sched_options *options) {
  memset(workers, 0, sizeof *workers);
  workers->options = options;
  workers->count = options->workers;
  TP__TRY(tp__queue_mpmc_new(options->allocator, options->strands_max, &workers->queue));
  tp_status status = tp__mutex_init(&workers->mutex, TP__RANK_workers);
  if (status == TP_OK && (status = tp__cond_init(&workers->work)) != TP_OK) tp__mutex_fini(&workers->mutex);
  if (status != TP_OK) tp__queue_mpmc_free(workers->queue);
  return status;
}

void tp__workers_fini(tp__workers *workers) {
  assert(!workers->each && tp__queue_mpmc_empty(workers->queue)); /* nothing is left, and no thread runs */
  tp__cond_fini(&workers->work);
  tp__mutex_fini(&workers->mutex);
  tp__queue_mpmc_free(workers->queue);
}

/* ---- idle ---- */

/* There is work, and no worker searches: makes one sleeper a searcher and wakes it. */
static void wake_one(tp__workers *workers, uint32_t idle) {
  do {
    if (SLEEPERS(idle) == 0 || SEARCHERS(idle) > 0) return;
  } while (!tp__a32_cas_acq_rel(&workers->idle, &idle, idle + SEARCHER));
  tp__mutex_lock(&workers->mutex);
  workers->wakes++;
  tp__mutex_unlock(&workers->mutex);
  tp__cond_signal(&workers->work); /* after the lock is released, because the woken thread takes it first */
}

/* A searcher found work. Strands that were pushed during its search woke no worker. */
static void found(tp__workers *workers) {
  uint32_t idle = tp__a32_sub_acq_rel(&workers->idle, SEARCHER) - SEARCHER;
  TP__ASSERT(SEARCHERS(idle) < workers->count); /* it was counted */
  if (SLEEPERS(idle) > 0 && SEARCHERS(idle) == 0 && !tp__queue_mpmc_empty(workers->queue)) wake_one(workers, idle);
}

/* One at a time. */
static bool may_search(tp__workers *workers) {
  uint32_t idle = tp__a32_load_relaxed(&workers->idle); /* the compare-and-swap does the ordering */
  while (SEARCHERS(idle) == 0)
    if (tp__a32_cas_acq_rel(&workers->idle, &idle, idle + SEARCHER)) return true;
  return false;
}

/* A worker's own account: how long it may still search, and how long it has searched. */
typedef struct credit {
  int64_t ns, worked_ns, searched_ns;
} credit;

/* Waking a thread takes some microseconds, and the next work of a server often comes sooner, so an idle worker searches
 * first. If work comes later, every search is in vain. So a worker pays for its searches out of a credit: a tenth of
 * the time for which it had work. */
static bool search_work(tp__workers *workers, credit *c) {
  int64_t begin_ns = tp__now_ns(), now_ns;
  int64_t end_ns = begin_ns + (c->ns < SEARCH_NS ? c->ns : SEARCH_NS);
  bool found_some = false;
  do {
    for (int i = 0; i < LOOKS_PER_CLOCK && !found_some; i++) {
      found_some = !tp__queue_mpmc_empty(workers->queue);
      if (!found_some) tp__cpu_relax();
    }
    now_ns = tp__now_ns();
  } while (!found_some && now_ns < end_ns);
  c->ns -= now_ns - begin_ns;
  c->searched_ns += now_ns - begin_ns;
  return found_some;
}

#ifdef TP_CHECKS
static void workers_check_locked(const tp__workers *workers, uint32_t idle) {
  TP__LOCKED(&workers->mutex);
  /* There are at most `count` sleepers, and at most `count` searchers. */
  assert(SLEEPERS(idle) <= workers->count && SEARCHERS(idle) <= workers->count);
  /* Each wake-up is for one sleeper, and is taken once. */
  assert(workers->wakes <= workers->count);
}
#endif

/* Sleeps until there may be work. No wake-up is lost: the worker is counted as a sleeper, and no longer as a searcher,
 * before its last look at the queue. A pusher reads the counts after its push. Both use read-modify-write, so the later
 * one sees the change of the other.
 * @param searching in: whether it is counted as a searcher; out: whether it was woken, and so is counted as one.
 * @return false to stop. */
static bool sleep_for_work(tp__workers *workers, bool *searching) {
  bool empty = TP__BUG(TP__BUG_LOST_WAKEUP) ? tp__queue_mpmc_empty(workers->queue) : true;
  tp__mutex_lock(&workers->mutex);
  tp__a32_add_acq_rel(&workers->idle, *searching ? SLEEPER - SEARCHER : SLEEPER);
  if (!TP__BUG(TP__BUG_LOST_WAKEUP)) empty = tp__queue_mpmc_empty(workers->queue);
  TP__CHECK(workers_check_locked(workers, tp__a32_load_relaxed(&workers->idle)));
  while (empty && workers->wakes == 0 && !workers->stop) tp__cond_wait(&workers->work, &workers->mutex);
  *searching = workers->wakes > 0;
  if (*searching) workers->wakes--;
  TP__CHECK(workers_check_locked(workers, tp__a32_load_relaxed(&workers->idle)));
  bool stop = workers->stop && (empty || TP__BUG(TP__BUG_LEFT_QUEUED));
  tp__a32_sub_acq_rel(&workers->idle, SLEEPER);
  tp__mutex_unlock(&workers->mutex);
  return !stop;
}

/* The worker has had work since then. */
static void earn(credit *c, int64_t since_ns) {
  int64_t worked_ns = tp__now_ns() - since_ns;
  c->worked_ns += worked_ns;
  c->ns += worked_ns / CREDIT_INVERSE;
  if (c->ns > CREDIT_NS_MAX) c->ns = CREDIT_NS_MAX;
}

/* @return false to stop. */
static bool wait_for_work(tp__workers *workers, bool *searching, credit *c) {
  tp__a32_add_relaxed(&workers->idle_workers, 1);
  bool has_credit = c->ns >= SEARCH_NS_MIN;
  if (!*searching && has_credit) *searching = may_search(workers);
  bool go_on = (*searching && has_credit && search_work(workers, c)) || sleep_for_work(workers, searching);
  tp__a32_sub_acq_rel(&workers->idle_workers, 1);
  return go_on;
}

/* ---- work ---- */

/* Takes several strands at a time when many wait, because two workers that take one at a time contend for the same
 * cache line. */
static uint32_t take_batch(tp__workers *workers, void **batch) {
  uint32_t share = (uint32_t)(tp__queue_mpmc_count(workers->queue) / (SHARES * workers->count));
  return tp__queue_mpmc_pop_some(workers->queue, batch, share < 1 ? 1 : share > BATCH ? BATCH : share);
}

/* Whether a worker is idle and the queue is empty. Then the other strands that this worker has taken must not wait. An
 * answer that is a moment old is good enough. */
static bool has_idle_worker(const tp__workers *workers) {
  return tp__a32_load_relaxed(&workers->idle_workers) != 0 && tp__queue_mpmc_empty(workers->queue);
}

static void return_rest(tp__workers *workers, void **batch, uint32_t count) {
  TP__ASSERT(count < BATCH);
  for (uint32_t i = 0; i < count; i++) tp__workers_push(workers, batch[i]);
}

static void run_batch(tp__workers *workers, void **batch, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (i + 1 < count && workers->options->prefetch) workers->options->prefetch(batch[i + 1]);
    if (count - i > 1 && has_idle_worker(workers)) {
      return_rest(workers, batch + i + 1, count - i - 1);
      count = i + 1;
    }
    tp__strand_run(batch[i]);
  }
}

static void worker_run(void *arg) {
  tp__worker *self = arg;
  tp__workers *workers = self->all;
  void *batch[BATCH];
  bool searching = false;
  credit c = {0, 0, 0};
  tp__here_get()->home = self->home;
  do {
    uint32_t count;
    int64_t since_ns = tp__now_ns();
    while ((count = take_batch(workers, batch)) > 0) {
      if (searching) found(workers);
      searching = false;
      run_batch(workers, batch, count);
    }
    earn(&c, since_ns);
  } while (wait_for_work(workers, &searching, &c));
  if (searching) found(workers);
  tp__a64_add_relaxed(&workers->worked_ns, (uint64_t)c.worked_ns);
  tp__a64_add_relaxed(&workers->searched_ns, (uint64_t)c.searched_ns);
}

/* ---- life ---- */

tp_status tp__workers_start(tp__workers *workers) {
  const tp__sched_options *options = workers->options;
  if (options->pumped) {
    tp__a32_store_release(&workers->idle, PUMPED);
    return TP_OK;
  }
  const tp_allocator *allocator = options->allocator;
  workers->each = tp__alloc_zero(allocator, workers->count * sizeof *workers->each);
  if (!workers->each) return TP_ERR_NO_MEMORY;
  workers->stop = false;
  workers->wakes = 0;
  tp__a32_store_release(&workers->idle, 0);
  for (uint32_t i = 0; i < workers->count; i++) {
    tp__worker *worker = &workers->each[i];
    *worker = (tp__worker){.all = workers};
    if (options->worker_home) worker->home = options->worker_home(options->owner, i);
    tp_status status = tp__thread_start(allocator, "tp-engine", worker_run, worker, &worker->thread);
    if (status == TP_OK) continue;
    tp__workers_stop(workers);
    return status;
  }
  return TP_OK;
}

/* Runs on a thread of the host: a turn that its host still holds may get a message, a cancel or its end. */
static void run_rest(tp__workers *workers) {
  tp__strand *strand;
  while ((strand = tp__queue_mpmc_pop(workers->queue))) tp__strand_run(strand);
}

bool tp__workers_run_one(tp__workers *workers) {
  tp__strand *strand = tp__queue_mpmc_pop(workers->queue);
  if (strand) tp__strand_run(strand);
  return strand != NULL;
}

void tp__workers_stop(tp__workers *workers) {
  if (workers->each) {
    tp__mutex_lock(&workers->mutex);
    workers->stop = true;
    tp__cond_broadcast(&workers->work);
    tp__mutex_unlock(&workers->mutex);
    for (uint32_t i = 0; i < workers->count && workers->each[i].thread; i++) tp__thread_join(workers->each[i].thread);
    tp__release(workers->options->allocator, workers->each, workers->count * sizeof *workers->each);
    workers->each = NULL;
  } else if (!workers->options->pumped) return;
  /* pairs with tp__workers_push: at least one of the two sees the other's change */
  tp__a32_or_acq_rel(&workers->idle, STOPPED);
  if (!TP__BUG(TP__BUG_LEFT_QUEUED)) run_rest(workers);
}

void tp__workers_push(tp__workers *workers, tp__strand *strand) {
  bool pushed = tp__queue_mpmc_push(workers->queue, strand);
  assert(pushed);
  (void)pushed;
  uint32_t idle = tp__a32_add_acq_rel(&workers->idle, 0); /* pairs with sleep_for_work, found and tp__workers_stop */
  if (idle == 0) return;
  if (idle & STOPPED) {
    if (!TP__BUG(TP__BUG_LEFT_QUEUED)) run_rest(workers);
    return;
  }
  if (idle & PUMPED) tp__pump_wake(&TP__CONTAINER(workers, tp__sched, workers)->pump);
  else wake_one(workers, idle);
}
