/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/job_insert.h"

#include "runtime/exec/runtime.h"
#include "runtime/exec/settle.h"

struct tp__job_insert {
  tp__attempt base;
  tp__turn *turn;   /* referenced */
  tp__entry *entry; /* the owner's entry, which does not end before this attempt */
  uint32_t index, news_seen;
  bool waits;
  tp__link link; /* under the lock of the jobs */
  tp_job job;    /* its texts follow the struct, except the names of the node */
  size_t size;
  tp_reason refused; /* of the thread, before it answers */
};

static tp__job_insert *job_insert_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__job_insert, base); }

/* ---- the attempt ---- */

static void settle_job_insert(tp__attempt *attempt, tp__attempt_end end) {
  tp__job_insert *insert = job_insert_of(attempt);
  tp__entry *e = insert->entry;
  uint32_t index = insert->index, news_seen = insert->news_seen;
  tp_reason refused = insert->refused;
  TP__OWNED(&e->turn->strand);
  TP__ASSERT(end == TP__ANSWERED && e->runs[index].attempt == attempt); /* it has no deadline, and no cancel ends it */
  e->runs[index].attempt = NULL;
  tp__entry_detached(e, index, news_seen, refused);
  tp__attempt_unref(attempt);
}

static void free_job_insert(tp__attempt *attempt) {
  tp__job_insert *insert = job_insert_of(attempt);
  tp__turn *turn = insert->turn;
  tp__release(tp__runtime_allocator(turn->runtime), insert, insert->size);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {
    .what = "job", .settled = settle_job_insert, .release = free_job_insert, .outlasts_cancel = true};

static tp__job_insert *insert_new(tp__entry *e, uint32_t index, const tp__job_insert_spec *spec) {
  tp__turn *turn = e->turn;
  const tp_allocator *allocator = tp__runtime_allocator(turn->runtime);
  const tp_job *job = spec->job;
  size_t size = sizeof(tp__job_insert) + job->idempotency_key.size + job->order_key.size + job->payload.size;
  tp__job_insert *insert = tp__alloc(allocator, size);
  if (!insert) return NULL;
  *insert = (tp__job_insert){.turn = turn,
                             .entry = e,
                             .index = index,
                             .news_seen = spec->news_seen,
                             .waits = spec->waits,
                             .job = *job,
                             .size = size};
  char *at = (char *)(insert + 1);
  insert->job.idempotency_key = tp__text_put(&at, job->idempotency_key);
  insert->job.order_key = tp__text_put(&at, job->order_key);
  insert->job.payload = tp__text_put(&at, job->payload);
  if (tp__attempt_init(&insert->base, &class, &turn->strand) != TP_OK) {
    tp__release(allocator, insert, size);
    return NULL;
  }
  insert->base.pool_item.name = e->plan->nodes[index].subscription_name;
  tp__turn_hold(turn);
  return insert;
}

/* @return false: no thread takes the job, or no longer. */
static bool wait_for_thread(tp__jobs *jobs, tp__job_insert *insert) {
  tp__mutex_lock(&jobs->mutex);
  bool is_taken = jobs->takes_inserts;
  if (is_taken) {
    bool is_first = tp__list_empty(&jobs->inserts);
    tp__list_push(&jobs->inserts, &insert->link);
    if (is_first) tp__cond_broadcast(&jobs->changed);
  }
  tp__mutex_unlock(&jobs->mutex);
  return is_taken;
}

bool tp__job_insert_later(tp__entry *e, uint32_t index, const tp__job_insert_spec *spec) {
  TP__OWNED(&e->turn->strand);
  tp__job_insert *insert = insert_new(e, index, spec);
  tp_token token;
  if (!insert) return false;
  if (tp__attempt_defer(&insert->base, NULL, &token) != TP_OK) {
    tp__attempt_fini(&insert->base);
    tp__attempt_unref(&insert->base);
    return false;
  }
  tp__a64_store_relaxed(&insert->base.started_ns, (uint64_t)tp__now_ns()); /* no other thread knows it yet */
  tp__attempt_await(&insert->base, TP__NEVER);
  tp__run_make(e, index)->attempt = &insert->base;
  if (wait_for_thread(tp__runtime_jobs(e->turn->runtime), insert)) return true;
  e->runs[index].attempt = NULL;
  tp__strand_timer_remove(&insert->base.timer);
  bool is_revoked = tp__attempt_revoke(&insert->base);
  TP__ASSERT(is_revoked); /* no other thread has the token */
  tp__attempt_unref(&insert->base);
  return false;
}

/* ---- the thread ---- */

static void answer_job_insert(tp__jobs *jobs, tp__job_insert *insert, const tp__job_inserted *result) {
  const tp__answer done = {.kind = TP_ANSWER_DONE};
  insert->refused = tp__job_was_inserted(jobs->runtime, &insert->job, insert->waits, result);
  tp_status status = tp__token_answer(insert->base.token, &class, &done, NULL, NULL); /* then it is the owner's */
  TP__ASSERT(status == TP_OK);
}

static void insert_one(tp__jobs *jobs, tp__job_insert *insert) {
  const tp_store *store = tp__runtime_store(jobs->runtime);
  tp_fault fault = {0};
  tp__job_inserted result = {.fault = &fault};
  result.status = store->job_insert(store->ctx, &insert->job, &result.id, &result.existed, &fault);
  answer_job_insert(jobs, insert, &result);
}

bool tp__job_inserts_run_locked(tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  tp__job_insert *inserts[TP__JOB_INSERTS_MAX];
  size_t count = 0;
  while (count < TP__JOB_INSERTS_MAX && !tp__list_empty(&jobs->inserts)) {
    inserts[count] = TP__CONTAINER(jobs->inserts.next, tp__job_insert, link);
    tp__list_remove(&inserts[count++]->link);
  }
  if (count == 0) return false;
  jobs->inserting++;
  tp__mutex_unlock(&jobs->mutex);
  /* All jobs are inserted in one transaction. If that fails, each is inserted by itself, so that a job that cannot be
   * written does not affect the others. */
  const tp_store *store = tp__runtime_store(jobs->runtime);
  const tp_job *list[TP__JOB_INSERTS_MAX];
  uint64_t ids[TP__JOB_INSERTS_MAX] = {0};     /* for a job that it refuses, a store need not set the id */
  bool existed[TP__JOB_INSERTS_MAX] = {false}; /* likewise */
  tp_status statuses[TP__JOB_INSERTS_MAX];
  TP__ASSERT(count > 0 && count <= TP__JOB_INSERTS_MAX);
  for (size_t i = 0; i < count; i++) list[i] = &inserts[i]->job;
  bool together = count > 1 && store->job_insert_all(store->ctx, list, count, ids, existed, statuses, NULL) == TP_OK;
  for (size_t i = 0; i < count; i++) {
    if (together) answer_job_insert(jobs, inserts[i], &(tp__job_inserted){statuses[i], ids[i], existed[i], NULL});
    else insert_one(jobs, inserts[i]);
  }
  tp__mutex_lock(&jobs->mutex);
  TP__ASSERT(jobs->inserting > 0);
  jobs->inserting--;
  jobs->news++;
  tp__cond_broadcast(&jobs->changed);
  return true;
}
