/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/jobs.h"

#include <stdio.h>

#include "runtime/exec/detached.h"
#include "runtime/exec/runtime.h"

enum { ATTEMPTS_MAX = 5, LEASE_MS = 60000, LIMIT_MS = 180000, BACKOFF_MS = 200, BACKOFF_MS_MAX = 60000 };

/* A claimed job while it runs. */
typedef struct running_job {
  tp__link link; /* under the lock, once it ended */
  tp__jobs *jobs;
  uint64_t id, claim;
  uint32_t attempt;
  tp_job_end end;
  bool started;
} running_job;

tp_status tp__jobs_init(tp__jobs *jobs, tp_runtime *runtime, uint32_t running_max) {
  memset(jobs, 0, sizeof *jobs);
  jobs->runtime = runtime;
  jobs->running_max = running_max;
  tp__list_init(&jobs->ended);
  tp__random(&jobs->mark, sizeof jobs->mark);
  TP__TRY(tp__mutex_init(&jobs->mutex));
  tp_status status = tp__cond_init(&jobs->changed);
  if (status != TP_OK) tp__mutex_fini(&jobs->mutex);
  return status;
}

void tp__jobs_fini(tp__jobs *jobs) {
  tp__cond_fini(&jobs->changed);
  tp__mutex_fini(&jobs->mutex);
}

/* ---- running one ---- */

static void run_ended(void *ctx, tp_state state, tp_reason reason, bool retryable) {
  (void)reason;
  running_job *job = ctx;
  tp__jobs *jobs = job->jobs;
  job->end = state == TP_STATE_SUCCEEDED ? TP_JOB_SUCCEEDED : retryable ? TP_JOB_RETRY : TP_JOB_FAILED;
  tp__mutex_lock(&jobs->mutex);
  jobs->run_count++;
  tp__list_push(&jobs->ended, &job->link);
  tp__cond_broadcast(&jobs->changed);
  tp__mutex_unlock(&jobs->mutex);
}

/* @return NONE when the run was accepted. */
static tp_reason start(tp_runtime *runtime, running_job *job, const tp_job *claimed) {
  char memory[1024];
  tp__arena arena;
  tp__arena_init(&arena, &runtime->allocator, memory, sizeof memory, 0);
  tp_reason refused = TP_REASON_MALFORMED;
  tp__detached_spec spec = {.on_end = run_ended, .ctx = job};
  tp_status status = tp__payload_read(claimed->payload, &arena, &spec.payload);
  if (status == TP_ERR_NO_MEMORY) refused = TP_REASON_NO_MEMORY;
  if (status == TP_OK) {
    spec.snapshot = tp__registry_find_handler(runtime->registry, claimed->handler, claimed->contract_version,
                                              claimed->phase, &spec.node, &spec.plan);
    refused = TP_REASON_SHUTDOWN; /* what could run it was removed since the filter looked */
    if (spec.snapshot) {
      uint32_t limit_ms = claimed->limit_ms ? claimed->limit_ms : LIMIT_MS;
      spec.limit_ns = (int64_t)limit_ms * TP__NS_PER_MS;
      refused = tp__detached_run(runtime, &spec);
      tp__snapshot_unpin(spec.snapshot);
    }
  }
  tp__arena_fini(&arena);
  return refused;
}

/* ---- the thread ---- */

static bool can_run(void *ctx, const tp_job *candidate) {
  tp_runtime *runtime = ((running_job *)ctx)->jobs->runtime;
  const tp__node *node;
  const tp__plan *plan;
  tp__snapshot *snapshot =
      tp__registry_find_handler(runtime->registry, candidate->handler, candidate->contract_version, TP_PHASE_NONE,
                                &node, &plan);
  if (snapshot) tp__snapshot_unpin(snapshot);
  return snapshot != NULL;
}

static void take_claimed(void *ctx, const tp_job *claimed) {
  running_job *job = ctx;
  job->id = claimed->id;
  job->claim = claimed->claim;
  job->attempt = claimed->attempt;
  tp_reason refused = start(job->jobs->runtime, job, claimed);
  job->started = refused == TP_REASON_NONE;
  if (refused) job->end = refused == TP_REASON_MALFORMED ? TP_JOB_FAILED : TP_JOB_RETRY; /* else run_ended() says it */
}

/* Doubling, with jitter of half. */
static int64_t retry_at_ms(uint32_t attempt) {
  int64_t pause_ms = BACKOFF_MS;
  for (uint32_t i = 1; i < attempt && pause_ms < BACKOFF_MS_MAX; i++) pause_ms *= 2;
  uint32_t dice;
  tp__random(&dice, sizeof dice);
  return tp__unix_ms() + pause_ms / 2 + dice % (pause_ms / 2 + 1);
}

static void finish(tp__jobs *jobs, running_job *job) {
  tp_runtime *runtime = jobs->runtime;
  tp_store *store = &runtime->store;
  tp_job_finish request = {.struct_size = sizeof request,
                           .id = job->id,
                           .claim = job->claim,
                           .retry_at_ms = retry_at_ms(job->attempt),
                           .end = job->end};
  tp_status status = store->job_finish(store->self, &request, NULL);
  if (status != TP_OK) tp__log(runtime, TP_LOG_WARNING, "the end of a job was not stored: %s", tp_status_text(status));
  tp__release(&runtime->allocator, job, sizeof *job);
}

/* @return true when one was claimed; else *ret_next_ms is when to look again, 0 for at the next news. */
static bool claim_one(tp__jobs *jobs, int64_t *ret_next_ms) {
  tp_runtime *runtime = jobs->runtime;
  *ret_next_ms = 0;
  running_job *job = tp__alloc_zero(&runtime->allocator, sizeof *job);
  if (!job) {
    *ret_next_ms = tp__unix_ms() + BACKOFF_MS;
    return false;
  }
  job->jobs = jobs;
  tp__mutex_lock(&jobs->mutex);
  jobs->running++; /* before it can end */
  tp__mutex_unlock(&jobs->mutex);
  tp_job_claim request = {.struct_size = sizeof request,
                          .now_ms = tp__unix_ms(),
                          .lease_ms = LEASE_MS,
                          .filter = can_run,
                          .take = take_claimed,
                          .ctx = job};
  tp_status status = runtime->store.job_claim(runtime->store.self, &request, ret_next_ms, NULL);
  if (status == TP_OK && job->started) return true;
  bool claimed = status == TP_OK;
  if (claimed) finish(jobs, job);
  else tp__release(&runtime->allocator, job, sizeof *job);
  tp__mutex_lock(&jobs->mutex);
  jobs->running--;
  tp__cond_broadcast(&jobs->changed);
  tp__mutex_unlock(&jobs->mutex);
  return claimed;
}

/* @return whether there was one. */
static bool finish_one_locked(tp__jobs *jobs) {
  if (tp__list_empty(&jobs->ended)) return false;
  running_job *job = TP__CONTAINER(jobs->ended.next, running_job, link);
  tp__list_remove(&job->link);
  tp__mutex_unlock(&jobs->mutex);
  finish(jobs, job);
  tp__mutex_lock(&jobs->mutex);
  jobs->running--;
  jobs->news++; /* its order key may have a next one */
  tp__cond_broadcast(&jobs->changed);
  return true;
}

static void thread_run(void *arg) {
  tp__jobs *jobs = arg;
  uint64_t seen = 0;
  int64_t look_again_ns = 0;
  bool cancelled = false;
  tp__inside frame;
  tp__inside_enter(&frame, jobs->runtime, TP__INSIDE_CALLBACK); /* it calls the store */
  tp__mutex_lock(&jobs->mutex);
  while (!jobs->stop || jobs->running > 0) {
    if (finish_one_locked(jobs)) continue;
    if (jobs->stop && !cancelled) { /* seen here, so nothing is claimed any more: what runs is all there is */
      cancelled = true;
      tp__mutex_unlock(&jobs->mutex);
      tp__runtime_cancel_all(jobs->runtime);
      tp__mutex_lock(&jobs->mutex);
      continue;
    }
    bool look =
        !jobs->stop && jobs->running < jobs->running_max && (jobs->news != seen || tp__now_ns() >= look_again_ns);
    if (!look) {
      bool may_look = !jobs->stop && jobs->running < jobs->running_max;
      tp__cond_wait_until(&jobs->changed, &jobs->mutex, may_look ? look_again_ns : TP__NEVER);
      continue;
    }
    seen = jobs->news;
    int64_t next_ms;
    tp__mutex_unlock(&jobs->mutex);
    bool again = claim_one(jobs, &next_ms);
    int64_t wait_ms = next_ms ? next_ms - tp__unix_ms() : 0;
    look_again_ns = again     ? 0
                    : next_ms ? tp__deadline_after_ms(tp__now_ns(), wait_ms > 0 ? (uint64_t)wait_ms : 1)
                              : TP__NEVER;
    tp__mutex_lock(&jobs->mutex);
  }
  tp__mutex_unlock(&jobs->mutex);
}

tp_status tp__jobs_start(tp__jobs *jobs) {
  jobs->stop = false;
  return tp__thread_start(&jobs->runtime->allocator, "tp-jobs", thread_run, jobs, &jobs->thread);
}

void tp__jobs_stop(tp__jobs *jobs) {
  if (!jobs->thread) return;
  tp__mutex_lock(&jobs->mutex);
  jobs->stop = true;
  tp__cond_broadcast(&jobs->changed);
  tp__mutex_unlock(&jobs->mutex);
  tp__thread_join(jobs->thread);
  jobs->thread = NULL;
}

void tp__jobs_wake(tp__jobs *jobs) {
  tp__mutex_lock(&jobs->mutex);
  jobs->news++;
  tp__cond_broadcast(&jobs->changed);
  tp__mutex_unlock(&jobs->mutex);
}

/* ---- adding ---- */

static tp_reason insert(tp_runtime *runtime, const tp_job *job) {
  uint64_t id;
  bool existed;
  tp_status status = runtime->store.job_insert(runtime->store.self, job, &id, &existed, NULL);
  if (status != TP_OK) return status == TP_ERR_NO_MEMORY ? TP_REASON_NO_MEMORY : TP_REASON_STORE;
  tp__jobs_wake(&runtime->jobs);
  return TP_REASON_NONE;
}

static tp_reason insert_with(tp_runtime *runtime, tp_job *job, const tp__payload *payload) {
  tp_writer *writer;
  if (tp_writer_new(&runtime->allocator, &writer) != TP_OK) return TP_REASON_NO_MEMORY;
  tp__payload_write(payload, writer);
  tp_reason reason = TP_REASON_NO_MEMORY;
  /* What could not be read back is not acknowledged. */
  if (tp_writer_finish(writer, &job->payload) == TP_OK)
    reason = tp_value_check(job->payload, NULL) == TP_OK ? insert(runtime, job) : TP_REASON_MALFORMED;
  tp_writer_free(writer);
  return reason;
}

/* Entries are numbered within a runtime; its mark tells them from those of another process or runtime. */
static tp_text key_of(const tp__jobs *jobs, char *buffer, size_t size, uint64_t entry_id, const char *subscription) {
  int length = snprintf(buffer, size, "%016llx-%llu-%s", (unsigned long long)jobs->mark, (unsigned long long)entry_id,
                        subscription);
  return (tp_text){buffer, (size_t)length < size ? (size_t)length : size - 1};
}

tp_reason tp__jobs_add(tp_runtime *runtime, const tp__plan *plan, const tp__node *node, uint64_t entry_id,
                       const tp__payload *payload, const void *sets) {
  tp_writer *writer;
  if (tp_writer_new(&runtime->allocator, &writer) != TP_OK) return TP_REASON_NO_MEMORY;
  tp__payload with_sets = *payload;
  tp_status status = TP_OK;
  if (sets && runtime->above->sets_write) {
    runtime->above->sets_write(sets, writer);
    status = tp_writer_finish(writer, &with_sets.sets);
  }
  char key[TP_ID_BYTES_MAX + 64];
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = ATTEMPTS_MAX,
                .phase = plan->phase,
                .contract_version = node->handler->desc.contract_version,
                .limit_ms = (uint32_t)(node->limit_ns / TP__NS_PER_MS),
                .handler = tp_text_of(node->handler_name),
                .subscription = tp_text_of(node->subscription_name),
                .idempotency_key = key_of(&runtime->jobs, key, sizeof key, entry_id, node->subscription_name),
                .order_key = payload->ids[TP_ID_SESSION]};
  tp_reason reason = status == TP_OK ? insert_with(runtime, &job, &with_sets) : TP_REASON_NO_MEMORY;
  tp_writer_free(writer);
  return reason;
}

tp_reason tp__jobs_add_contributed(const tp__turn *turn, const tp_contribution *contribution) {
  tp_field field = {.id = TP_FIELD_REQUEST, .kind = TP_FIELD_KIND_VALUE, .text = contribution->value};
  tp__payload payload = {.mode = turn->mode, .caller = TP_CALLER_BACKGROUND_JOB, .fields = &field, .field_count = 1};
  memcpy(payload.ids, turn->ids, sizeof payload.ids);
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = ATTEMPTS_MAX,
                .phase = TP_PHASE_NONE,
                .contract_version = 1,
                .limit_ms = LIMIT_MS,
                .handler = contribution->domain,
                .subscription = contribution->domain,
                .idempotency_key = contribution->key,
                .order_key = contribution->text.size ? contribution->text : turn->ids[TP_ID_SESSION]};
  tp_reason reason = insert_with(turn->runtime, &job, &payload);
  if (reason != TP_REASON_NONE) tp__log(turn->runtime, TP_LOG_ERROR, "a background job was not stored");
  return reason;
}

/* ---- waiting ---- */

tp_status tp__jobs_wait(tp__jobs *jobs, tp_text order_key, int64_t deadline_ns) {
  tp_store *store = &jobs->runtime->store;
  tp__inside frame;
  for (;;) {
    uint64_t open = 0;
    tp__mutex_lock(&jobs->mutex);
    uint64_t seen = jobs->news;
    tp__mutex_unlock(&jobs->mutex);
    tp__inside_enter(&frame, jobs->runtime, TP__INSIDE_CALLBACK);
    tp_status status = store->job_open ? store->job_open(store->self, order_key, &open, NULL) : TP_OK;
    tp__inside_leave(&frame);
    TP__TRY(status);
    if (open == 0) return TP_OK;
    bool in_time = true;
    tp__mutex_lock(&jobs->mutex);
    while (in_time && jobs->news == seen) in_time = tp__cond_wait_until(&jobs->changed, &jobs->mutex, deadline_ns);
    tp__mutex_unlock(&jobs->mutex);
    if (!in_time) return TP_ERR_TIMEOUT;
  }
}

uint64_t tp__jobs_run_count(tp__jobs *jobs) {
  tp__mutex_lock(&jobs->mutex);
  uint64_t count = jobs->run_count;
  tp__mutex_unlock(&jobs->mutex);
  return count;
}
