/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/worker.h"

#include "runtime/exec/bug.h"
#include "runtime/exec/runtime.h"

tp_status tp__workers_init(tp__workers *workers, struct tp_runtime *runtime, uint32_t count, size_t strands_max) {
  memset(workers, 0, sizeof *workers);
  workers->runtime = runtime;
  workers->count = count;
  TP__TRY(tp__queue_mpmc_new(&runtime->allocator, strands_max, &workers->queue));
  tp_status status = tp__mutex_init(&workers->mutex);
  if (status == TP_OK && (status = tp__cond_init(&workers->work)) != TP_OK) tp__mutex_fini(&workers->mutex);
  if (status != TP_OK) tp__queue_mpmc_free(workers->queue);
  return status;
}

void tp__workers_fini(tp__workers *workers) {
  tp__cond_fini(&workers->work);
  tp__mutex_fini(&workers->mutex);
  tp__queue_mpmc_free(workers->queue);
}

/* Sleeps until there may be work. The count of sleepers goes up before the last look at the queue, and a pusher reads
 * it after its push, both by read-modify-write: whichever comes second sees the other, so no wake-up is lost.
 * @return false to stop. */
static bool sleep_for_work(tp__workers *workers) {
  bool empty = TP__BUG(TP__BUG_LOST_WAKEUP) ? tp__queue_mpmc_empty(workers->queue) : true;
  tp__mutex_lock(&workers->mutex);
  tp__a32_add_acq_rel(&workers->sleepers, 1);
  if (!TP__BUG(TP__BUG_LOST_WAKEUP)) empty = tp__queue_mpmc_empty(workers->queue);
  bool stop = workers->stop && (empty || TP__BUG(TP__BUG_LEFT_QUEUED));
  if (!stop && empty) tp__cond_wait(&workers->work, &workers->mutex);
  tp__a32_sub_acq_rel(&workers->sleepers, 1);
  tp__mutex_unlock(&workers->mutex);
  return !stop;
}

static void worker_run(void *arg) {
  tp__workers *workers = arg;
  tp__thread_local_set(TP__THREAD_OWNER);
  do {
    tp__strand *strand;
    while ((strand = tp__queue_mpmc_pop(workers->queue))) tp__strand_run(strand);
  } while (sleep_for_work(workers));
}

tp_status tp__workers_start(tp__workers *workers) {
  const tp_allocator *allocator = &workers->runtime->allocator;
  workers->threads = tp__alloc_zero(allocator, workers->count * sizeof *workers->threads);
  if (!workers->threads) return TP_ERR_NO_MEMORY;
  workers->stop = false;
  tp__a32_store_release(&workers->sleepers, 0);
  for (uint32_t i = 0; i < workers->count; i++) {
    tp_status status = tp__thread_start(allocator, "tp-engine", worker_run, workers, &workers->threads[i]);
    if (status == TP_OK) continue;
    tp__workers_stop(workers);
    return status;
  }
  return TP_OK;
}

/* On a thread that is none of ours: a turn that its host still holds may get a message, a cancel or its end. */
static void run_rest(tp__workers *workers) {
  void *before = tp__thread_local_get();
  tp__strand *strand;
  tp__thread_local_set(TP__THREAD_OWNER);
  while ((strand = tp__queue_mpmc_pop(workers->queue))) tp__strand_run(strand);
  tp__thread_local_set(before);
}

void tp__workers_stop(tp__workers *workers) {
  if (!workers->threads) return;
  tp__mutex_lock(&workers->mutex);
  workers->stop = true;
  tp__cond_broadcast(&workers->work);
  tp__mutex_unlock(&workers->mutex);
  for (uint32_t i = 0; i < workers->count && workers->threads[i]; i++) tp__thread_join(workers->threads[i]);
  tp__release(&workers->runtime->allocator, workers->threads, workers->count * sizeof *workers->threads);
  workers->threads = NULL;
  /* Pairs with tp__workers_push: one of the two sees the other's. */
  tp__a32_or_acq_rel(&workers->sleepers, TP__WORKERS_STOPPED);
  if (!TP__BUG(TP__BUG_LEFT_QUEUED)) run_rest(workers);
}

void tp__workers_push(struct tp_runtime *runtime, tp__strand *strand) {
  tp__workers *workers = &runtime->workers;
  bool pushed = tp__queue_mpmc_push(workers->queue, strand);
  assert(pushed);
  (void)pushed;
  uint32_t sleepers = tp__a32_add_acq_rel(&workers->sleepers, 0);
  if (sleepers == 0) return; /* pairs with sleep_for_work */
  if (sleepers & TP__WORKERS_STOPPED) {
    if (!TP__BUG(TP__BUG_LEFT_QUEUED)) run_rest(workers);
    return;
  }
  tp__mutex_lock(&workers->mutex);
  tp__cond_signal(&workers->work);
  tp__mutex_unlock(&workers->mutex);
}
