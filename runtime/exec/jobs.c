/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/jobs.h"

#include "runtime/exec/exec.h"
#include <stdio.h>

#include "runtime/base/bug.h"
#include "runtime/exec/backlog.h"
#include "runtime/exec/detached.h"
#include "runtime/exec/job_insert.h"
#include "runtime/exec/runtime.h"
#include "runtime/value/value.h"

enum {
  LIMIT_MS = 180000,
  PAUSE_MS = 200,
  POLL_MS = 500,
  RECOVER_MS = 7500,
  STORE_PAUSE_MS = 5000,
  CLOCK_STEP_NS = 1000000000, /* a greater difference between two looks means that the clock was set, not adjusted */
  MESSAGE_BYTES_MAX = 200,
  BATCH_MAX = 64, /* the most jobs that one call of the store claims or ends */
  WAITS_MAX = 1024,
  WIDTH_MAX = 4,      /* the jobs that are claimed for each thread, while all of them defer */
  DEFERRED_TIMES = 16 /* while handlers defer, up to this many times as many jobs run as there are threads */
};

/* A wait that was submitted. */
typedef struct job_wait {
  tp__link link;     /* the value of `news` when it was checked last; 0: not yet */
  tp_text order_key; /* after the struct */
  int64_t deadline_ns;
  tp_jobs_wait_fn on_end;
  void *ctx;
  uint64_t seen; /* the news that it was looked at with; 0: none yet */
} job_wait;

/* A claimed job while it runs. */
typedef struct running_job {
  tp__link link; /* under the lock, once it ended */
  tp__link live;
  tp__turn *turn; /* the turn of its run, held; NULL: the run was not started */
  tp__jobs *jobs;
  tp_job desc; /* without payload and message */
  char handler[TP_ID_BYTES_MAX];
  char *texts; /* the texts of desc, except the handler's id; NULL without memory, and then they are empty */
  size_t texts_size;
  /* how it ended */
  tp_job_end end;
  tp_state state;
  tp_reason reason;
  uint32_t code;
  char message[MESSAGE_BYTES_MAX];
  size_t message_size;
  bool started, gave_place;
} running_job;

/** What one call of the store claims. */
typedef struct batch {
  tp__jobs *jobs;
  running_job *items[BATCH_MAX]; /* allocated before the claim, so that no claim fails for lack of memory */
  size_t made, taken;
} batch;

tp_status tp__jobs_init(tp__jobs *jobs, tp_runtime *runtime, const tp_runtime_options *options) {
  memset(jobs, 0, sizeof *jobs);
  jobs->runtime = runtime;
  jobs->running_max = options->detached_threads;
  jobs->lease_ms = options->job_lease_ms;
  jobs->postpone_ms = options->job_postpone_ms < INT64_MAX ? (int64_t)options->job_postpone_ms : INT64_MAX;
  tp__list_init(&jobs->ended);
  tp__list_init(&jobs->waits);
  tp__list_init(&jobs->line);
  tp__list_init(&jobs->inserts);
  tp__list_init(&jobs->live);
  jobs->news = 1;
  jobs->width = 1;
  tp__random(&jobs->mark, sizeof jobs->mark);
  TP__TRY(tp__mutex_init(&jobs->mutex, TP__RANK_jobs));
  tp_status status = tp__cond_init(&jobs->changed);
  if (status != TP_OK) tp__mutex_fini(&jobs->mutex);
  return status;
}

void tp__jobs_fini(tp__jobs *jobs) {
  tp__cond_fini(&jobs->changed);
  tp__mutex_fini(&jobs->mutex);
}

static tp__sched *jobs_sched(const tp__jobs *jobs) { return tp__runtime_sched(jobs->runtime); }

static void changed_locked(tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  tp__cond_broadcast(&jobs->changed);
  tp__sched_wake(jobs_sched(jobs));
}

/* ---- running one ---- */

/* The rule is that of an awaited run: a failure is tried again when the handler's answer is retryable. A run that did
 * not come to its end counts as one of the attempts that the subscription allows. A run that never began does not
 * count, and neither does a postponed run, within the longest time that a job may be postponed. */
static tp_job_end job_end_of(const running_job *job, const tp__detached_end *end) {
  if (end->state == TP_STATE_SUCCEEDED) return TP_JOB_END_SUCCEEDED;
  if (!end->was_called) return TP_JOB_END_RELEASED;
  if (end->reason == TP_REASON_POSTPONED && job->desc.postponed_ms < job->jobs->postpone_ms &&
      !TP__BUG(TP__BUG_POSTPONED_COUNTS))
    return TP_JOB_END_RELEASED;
  bool unfinished = end->state == TP_STATE_TIMED_OUT || end->state == TP_STATE_CANCELLED;
  return end->retryable || unfinished ? TP_JOB_END_RETRY : TP_JOB_END_FAILED;
}

static void run_ended(void *ctx, const tp__detached_end *end) {
  running_job *job = ctx;
  tp__jobs *jobs = job->jobs;
  char buffer[TP__REDACT_SIZE];
  tp_text message = tp__redact(tp__runtime_redactor(jobs->runtime), TP_REDACT_RECORD, tp_text_of(end->message), buffer,
                               sizeof buffer);
  job->end = job_end_of(job, end);
  job->state = end->state;
  job->reason = end->reason;
  job->code = end->code;
  job->gave_place = end->gave_place;
  job->message_size = tp__utf8_cut(message, sizeof job->message);
  if (job->message_size > 0) memcpy(job->message, message.data, job->message_size);
  tp__mutex_lock(&jobs->mutex);
  jobs->run_count++;
  if (job->end == TP_JOB_END_RELEASED && end->was_called) jobs->postponed_count++;
  tp__list_push(&jobs->ended, &job->link);
  changed_locked(jobs);
  tp__mutex_unlock(&jobs->mutex);
}

/* @return NONE when the run was accepted. */
static tp_reason start_job(tp_runtime *runtime, running_job *job, const tp_job *claimed) {
  char memory[1024];
  tp__arena arena;
  tp__arena_init(&arena, tp__runtime_allocator(runtime), memory, sizeof memory, 0);
  tp_reason refused = TP_REASON_MALFORMED;
  tp__detached_spec spec = {.on_end = run_ended, .ctx = job, .ret_turn = &job->turn};
  tp_status status = tp__payload_read(claimed->payload, &arena, &spec.payload);
  if (status == TP_ERR_NO_MEMORY) refused = TP_REASON_NO_MEMORY;
  if (status == TP_OK) {
    spec.snapshot = tp__registry_find_handler(tp__runtime_registry(runtime), claimed->handler,
                                              claimed->contract_version, claimed->phase, &spec.node, &spec.plan);
    refused = TP_REASON_SHUTDOWN; /* the subscription that could run it was removed after the filter looked */
    if (spec.snapshot) {
      uint32_t limit_ms = claimed->limit_ms ? claimed->limit_ms : LIMIT_MS;
      spec.timeout_ns = (int64_t)limit_ms * TP__NS_PER_MS;
      spec.payload.caller = TP_CALLER_BACKGROUND_JOB;
      spec.job = (tp__detached_job){.id = claimed->id, .attempt = claimed->attempt, .key = claimed->idempotency_key};
      refused = tp__detached_run(runtime, &spec);
      tp__snapshot_unpin(spec.snapshot);
    }
  }
  tp__arena_fini(&arena);
  return refused;
}

/* ---- the thread ---- */

static bool can_run(void *ctx, const tp_job *candidate) {
  tp__registry *registry = tp__runtime_registry(((batch *)ctx)->jobs->runtime);
  const tp__node *node;
  const tp__plan *plan;
  tp__snapshot *snapshot =
      tp__registry_find_handler(registry, candidate->handler, candidate->contract_version, TP_PHASE_NONE, &node, &plan);
  if (snapshot) tp__snapshot_unpin(snapshot);
  return snapshot != NULL;
}

/* For the report of its end. */
static void copy_texts(running_job *job, const tp_job *claimed) {
  tp_text *texts[] = {&job->desc.subscription, &job->desc.idempotency_key, &job->desc.order_key};
  const tp_text *theirs[] = {&claimed->subscription, &claimed->idempotency_key, &claimed->order_key};
  for (int i = 0; i < 3; i++) job->texts_size += theirs[i]->size;
  job->texts = job->texts_size > 0 ? tp__alloc(tp__runtime_allocator(job->jobs->runtime), job->texts_size) : NULL;
  size_t used = 0;
  for (int i = 0; i < 3; i++) {
    bool has_copy = job->texts && theirs[i]->size > 0;
    *texts[i] = has_copy ? (tp_text){job->texts + used, theirs[i]->size} : (tp_text){NULL, 0};
    if (has_copy) memcpy(job->texts + used, theirs[i]->data, theirs[i]->size);
    used += texts[i]->size;
  }
}

static void take_claimed(running_job *job, const tp_job *claimed) {
  job->desc = *claimed;
  job->desc.payload = job->desc.message = (tp_text){NULL, 0};
  copy_texts(job, claimed);
  job->desc.handler.size = tp__utf8_cut(claimed->handler, sizeof job->handler);
  job->desc.handler.data = memcpy(job->handler, claimed->handler.data, job->desc.handler.size);
  tp_reason refused = start_job(job->jobs->runtime, job, claimed);
  job->started = refused == TP_REASON_NONE;
  if (job->started) return; /* run_ended() sets the rest */
  /* A payload that cannot be read, or a subscription that the operator has switched off, will not be better soon. */
  bool for_good = refused == TP_REASON_MALFORMED || refused == TP_REASON_KILL_SWITCH;
  job->end = for_good ? TP_JOB_END_FAILED : TP_JOB_END_RELEASED;
  job->state = TP_STATE_FAILED;
  job->reason = refused;
}

/* The thing that the job waits for becomes available in its own time. So each pause is longer than the one before,
 * however often the job was started. */
static int64_t postponed_pause_ms(const running_job *job) {
  int64_t pause = job->desc.postponed_ms / 4;
  return pause < PAUSE_MS ? PAUSE_MS : pause < TP_JOB_PAUSE_MS_MAX ? pause : TP_JOB_PAUSE_MS_MAX;
}

/* The subscription's back-off, with a jitter of half. A job that could not begin, or was cancelled, is not tried at
 * once. */
static int64_t pause_ms(const running_job *job) {
  if (job->reason == TP_REASON_POSTPONED) return postponed_pause_ms(job);
  int64_t pause = job->desc.backoff == TP_BACKOFF_NONE ? 0 : job->desc.backoff_ms;
  for (uint32_t i = 1; job->desc.backoff == TP_BACKOFF_EXPONENTIAL && i < job->desc.attempt; i++)
    if (pause < TP_JOB_PAUSE_MS_MAX) pause *= 2;
  bool soon = job->end == TP_JOB_END_RELEASED || job->state == TP_STATE_CANCELLED;
  if (soon && pause < PAUSE_MS) pause = PAUSE_MS;
  return pause < TP_JOB_PAUSE_MS_MAX ? pause : TP_JOB_PAUSE_MS_MAX;
}

static int64_t with_jitter_ms(int64_t pause) {
  uint32_t dice;
  if (pause < 2) return pause;
  tp__random(&dice, sizeof dice);
  return pause / 2 + dice % (pause / 2 + 1);
}

/* @param handler of a job that failed for good; the note has the reason of its last attempt. */
static void note_dead(tp__jobs *jobs, uint64_t id, tp_text handler, uint32_t attempts, tp_reason reason,
                      tp_text message) {
  tp__mutex_lock(&jobs->mutex);
  jobs->dead_count++;
  tp__mutex_unlock(&jobs->mutex);
  tp__log(jobs->runtime, TP_LOG_ERROR, &(tp__log_subject){.status = TP_ERR_HOOK},
          "background job %llu of handler `%.*s` failed for good and is a dead letter after %u attempts (%s)%s%.*s; it "
          "is kept, and tp_job_redrive() or `turnphase jobs redrive` runs it again",
          (unsigned long long)id, (int)handler.size, handler.size ? handler.data : "", attempts, tp_reason_name(reason),
          message.size ? ": " : "", (int)message.size, message.size ? message.data : "");
}

static void notify_job(tp_runtime *runtime, const tp_job *job, tp_job_state state) {
  tp_job shown = *job;
  shown.state = state;
  shown.payload = (tp_text){NULL, 0};
  if (tp__runtime_layer_ops(runtime)->job_notify) tp__runtime_layer_ops(runtime)->job_notify(runtime, &shown);
}

static void lost(void *ctx, const tp_job *job) {
  note_dead(((batch *)ctx)->jobs, job->id, job->handler, job->attempt, TP_REASON_TIMEOUT,
            tp_text_of("its last lease ran out"));
  notify_job(((batch *)ctx)->jobs->runtime, job, TP_JOB_DEAD);
  tp__backlog_offer(((batch *)ctx)->jobs->runtime);
}

static tp_job_finish end_of_claim(const running_job *job, int64_t now_ms) {
  int64_t pause = with_jitter_ms(pause_ms(job));
  TP__ASSERT(pause >= 0 && pause <= TP_JOB_PAUSE_MS_MAX && job->desc.postponed_ms >= 0);
  return (tp_job_finish){.struct_size = sizeof(tp_job_finish),
                         .id = job->desc.id,
                         .claim = job->desc.claim,
                         .now_ms = now_ms,
                         .retry_at_ms = now_ms + pause,
                         .postponed_ms = job->desc.postponed_ms + (job->reason == TP_REASON_POSTPONED ? pause : 0),
                         .end = job->end,
                         .reason = job->reason,
                         .code = job->code,
                         .message = {job->message, job->message_size}};
}

static void release_job(tp_runtime *runtime, running_job *job) {
  tp__release(tp__runtime_allocator(runtime), job->texts, job->texts ? job->texts_size : 0);
  tp__release(tp__runtime_allocator(runtime), job, sizeof *job);
}

/* Handles the answer of the store; releases the job. @param state of the job, when the status is TP_OK. */
static void report_finished(tp__jobs *jobs, running_job *job, tp_status status, uint32_t state, int64_t now_ms) {
  tp_runtime *runtime = jobs->runtime;
  tp_text message = {job->message, job->message_size};
  bool is_dead = status == TP_OK && state == TP_JOB_DEAD;
  if (is_dead) note_dead(jobs, job->desc.id, job->desc.handler, job->desc.attempt, job->reason, message);
  if (is_dead && job->state == TP_STATE_CANCELLED) {
    tp__mutex_lock(&jobs->mutex);
    jobs->interrupted_count++;
    tp__mutex_unlock(&jobs->mutex);
  }
  if (status != TP_OK)
    tp__log(runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status}, "the end of a job was not stored: %s",
            tp_status_text(status));
  else if (job->end != TP_JOB_END_RELEASED || job->reason == TP_REASON_POSTPONED) {
    tp_job shown = job->desc;
    shown.reason = job->end == TP_JOB_END_SUCCEEDED ? TP_REASON_NONE : job->reason;
    shown.code = job->code;
    shown.message = (tp_text){job->message, job->message_size};
    shown.ended_ms = state == TP_JOB_QUEUED ? 0 : now_ms;
    notify_job(job->jobs->runtime, &shown, (tp_job_state)state);
  }
  if (status == TP_OK && state != TP_JOB_QUEUED) tp__backlog_offer(runtime);
  release_job(runtime, job);
}

static void finish_one(tp__jobs *jobs, running_job *job) {
  const tp_store *store = tp__runtime_store(jobs->runtime);
  tp_job_finish request = end_of_claim(job, tp__unix_ms());
  uint32_t state = TP_JOB_QUEUED;
  tp_status status = store->job_finish(store->ctx, &request, &state, NULL);
  report_finished(jobs, job, status, state, request.now_ms);
}

/* Uses one transaction if the store can. If that fails, each job is ended by itself, so that a job that cannot be
 * written does not affect the others. */
static void finish_jobs(tp__jobs *jobs, running_job **ended, size_t count) {
  const tp_store *store = tp__runtime_store(jobs->runtime);
  tp_job_finish requests[BATCH_MAX];
  const tp_job_finish *list[BATCH_MAX];
  uint32_t states[BATCH_MAX];
  tp_status statuses[BATCH_MAX];
  TP__ASSERT(count > 0 && count <= BATCH_MAX);
  bool together = count > 1 && store->job_finish_all;
  if (together) {
    int64_t now_ms = tp__unix_ms();
    for (size_t i = 0; i < count; i++) {
      requests[i] = end_of_claim(ended[i], now_ms);
      list[i] = &requests[i];
    }
    together = store->job_finish_all(store->ctx, list, count, states, statuses, NULL) == TP_OK;
  }
  for (size_t i = 0; i < count; i++) {
    if (together) report_finished(jobs, ended[i], statuses[i], states[i], requests[i].now_ms);
    else finish_one(jobs, ended[i]);
  }
}

/* ---- heartbeat ---- */

static int64_t next_renewal_ns(const tp__jobs *jobs) {
  return tp__deadline_after_ms(tp__now_ns(), (uint64_t)jobs->lease_ms / 3);
}

/* Cancels the run of a job whose lease was lost: another worker may have claimed it and would do the same work a second
 * time. */
static void give_up_lost(tp__jobs *jobs, const running_job *job) {
  tp__log(jobs->runtime, TP_LOG_WARNING, &(tp__log_subject){.status = TP_ERR_STALE},
          "background job %llu of handler `%.*s` is cancelled: its lease ran out before it was renewed, and another "
          "worker has it; where processes are stopped for long, give a longer job_lease_ms",
          (unsigned long long)job->desc.id, (int)job->desc.handler.size, job->handler);
  tp__turn_cancel(job->turn);
}

/* @return false when the store failed: the renewal is tried again with the next ones. */
static bool renew(tp__jobs *jobs, const running_job *job) {
  const tp_store *store = tp__runtime_store(jobs->runtime);
  tp_job_renew request = {.struct_size = sizeof request,
                          .id = job->desc.id,
                          .claim = job->desc.claim,
                          .now_ms = tp__unix_ms(),
                          .lease_ms = jobs->lease_ms};
  tp_status status = store->job_renew(store->ctx, &request, NULL);
  bool is_lost = status == TP_ERR_STALE || status == TP_ERR_NOT_FOUND, failed = status != TP_OK && !is_lost;
  if (is_lost) give_up_lost(jobs, job);
  if (failed && !jobs->renewal_failed)
    tp__log(jobs->runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status},
            "the lease of background job %llu could not be renewed, and is tried again: %s",
            (unsigned long long)job->desc.id, tp_status_text(status));
  return !failed;
}

/* ---- claiming ---- */

static void take_into_batch(void *ctx, const tp_job *claimed) {
  batch *b = ctx;
  TP__ASSERT(b->taken < b->made);
  take_claimed(b->items[b->taken++], claimed);
}

static void make_batch(batch *b, size_t count) {
  while (b->made < count) {
    running_job *job = tp__alloc_zero(tp__runtime_allocator(b->jobs->runtime), sizeof *job);
    if (!job) return;
    job->jobs = b->jobs;
    b->items[b->made++] = job;
  }
}

/* Removes the items that were not claimed, and the claimed jobs that could not be started. */
static void settle_batch(tp__jobs *jobs, batch *b) {
  running_job *refused[BATCH_MAX];
  size_t count = 0;
  for (size_t i = 0; i < b->taken; i++) {
    if (b->items[i]->started) {
      if (tp__list_empty(&jobs->live)) jobs->renew_at_ns = next_renewal_ns(jobs);
      tp__list_push(&jobs->live, &b->items[i]->live);
    } else {
      refused[count++] = b->items[i];
    }
  }
  if (count > 0) finish_jobs(jobs, refused, count);
  for (size_t i = b->taken; i < b->made; i++) release_job(jobs->runtime, b->items[i]);
  count += b->made - b->taken;
  if (count == 0) return;
  tp__mutex_lock(&jobs->mutex);
  TP__ASSERT(jobs->running >= count);
  jobs->running -= (uint32_t)count;
  changed_locked(jobs);
  tp__mutex_unlock(&jobs->mutex);
}

/* @param places  how many more jobs may run.
 * @return true when jobs were claimed; else *ret_next_ms is the time to look again; 0: at the next news. */
static bool claim(tp__jobs *jobs, uint32_t places, int64_t *ret_next_ms) {
  tp_runtime *runtime = jobs->runtime;
  const tp_store *store = tp__runtime_store(runtime);
  batch b = {.jobs = jobs};
  *ret_next_ms = 0;
  make_batch(&b, !store->job_finish_all ? 1 : places < BATCH_MAX ? places : BATCH_MAX);
  if (b.made == 0) {
    *ret_next_ms = tp__unix_ms() + PAUSE_MS;
    return false;
  }
  tp__mutex_lock(&jobs->mutex);
  jobs->running += (uint32_t)b.made; /* before any can end */
  tp__mutex_unlock(&jobs->mutex);
  tp_job_claim request = {.struct_size = sizeof request,
                          .now_ms = tp__unix_ms(),
                          .lease_ms = jobs->lease_ms,
                          .filter = can_run,
                          .take = take_into_batch,
                          .dead = lost,
                          .ctx = &b,
                          .count_max = store->job_finish_all ? b.made : 0};
  tp_status status = store->job_claim(store->ctx, &request, ret_next_ms, NULL);
  if (status != TP_OK && status != TP_ERR_NOT_FOUND) {
    tp__log(runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status}, "no job could be claimed: %s",
            tp_status_text(status));
    *ret_next_ms = tp__unix_ms() + STORE_PAUSE_MS;
    jobs->poll_at_ns = tp__deadline_after_ms(tp__now_ns(), STORE_PAUSE_MS);
  }
  settle_batch(jobs, &b);
  return b.taken > 0;
}

/* Frees the places of jobs that have ended. A job that has not deferred kept its thread for its whole run. Then no more
 * jobs are claimed than there are threads. */
static void leave_places_locked(tp__jobs *jobs, uint32_t ended, uint32_t gave_place) {
  TP__LOCKED(&jobs->mutex);
  TP__ASSERT(jobs->running >= ended && ended >= gave_place);
  jobs->running -= ended;
  jobs->given -= (int32_t)gave_place;
  if (gave_place < ended) jobs->width = 1;
  else if (jobs->width < WIDTH_MAX) jobs->width *= 2;
}

/* How many may be claimed now. */
static uint32_t places_locked(const tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  const int64_t running = jobs->running, held = running - jobs->given;
  const int64_t of_threads = (int64_t)jobs->running_max * jobs->width - held;
  const int64_t in_all = (int64_t)jobs->running_max * DEFERRED_TIMES - running;
  const int64_t places = of_threads < in_all ? of_threads : in_all;
  return places > 0 ? (uint32_t)places : 0;
}

/* Ends all jobs that ended while the store was busy in one call. @return whether there was one. */
static bool finish_ended_locked(tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  running_job *ended[BATCH_MAX];
  size_t count = 0;
  while (count < BATCH_MAX && !tp__list_empty(&jobs->ended)) {
    ended[count] = TP__CONTAINER(jobs->ended.next, running_job, link);
    tp__list_remove(&ended[count++]->link);
  }
  if (count == 0) return false;
  tp__mutex_unlock(&jobs->mutex);
  uint32_t gave_place = 0;
  for (size_t i = 0; i < count; i++) {
    gave_place += ended[i]->gave_place;
    tp__list_remove(&ended[i]->live);
    tp__turn_unref(ended[i]->turn);
  }
  finish_jobs(jobs, ended, count);
  tp__mutex_lock(&jobs->mutex);
  leave_places_locked(jobs, (uint32_t)count, gave_place);
  jobs->news++; /* their order keys may have next ones */
  changed_locked(jobs);
  return true;
}

/* ---- submitted waits: checked when there are news, and when their time is up ---- */

static job_wait *wait_to_check_locked(const tp__jobs *jobs, int64_t now_ns) {
  TP__LOCKED(&jobs->mutex);
  for (tp__link *link = jobs->waits.next; link != &jobs->waits; link = link->next) {
    job_wait *wait = TP__CONTAINER(link, job_wait, link);
    if (wait->seen != jobs->news || wait->deadline_ns <= now_ns || jobs->stop) return wait;
  }
  return NULL;
}

/* @return true when a wait was checked: then the lock was released meanwhile. */
static bool look_at_wait_locked(tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  const tp_store *store = tp__runtime_store(jobs->runtime);
  int64_t now_ns = tp__now_ns();
  job_wait *wait = wait_to_check_locked(jobs, now_ns);
  if (!wait) return false;
  tp__list_remove(&wait->link);
  uint64_t news = jobs->news, open = 0;
  bool last = jobs->stop && jobs->running == 0;
  tp__mutex_unlock(&jobs->mutex);
  tp_status status = store->job_open(store->ctx, wait->order_key, &open, NULL);
  bool ended = status != TP_OK || open == 0 || wait->deadline_ns <= now_ns || last;
  if (status == TP_OK && open > 0) status = wait->deadline_ns <= now_ns ? TP_ERR_TIMEOUT : TP_ERR_SHUTDOWN;
  if (ended) {
    const tp_jobs_wait_result result = {.struct_size = sizeof result, .status = status};
    wait->on_end(wait->ctx, &result);
    tp__release(tp__runtime_allocator(jobs->runtime), wait, sizeof *wait + wait->order_key.size);
  }
  tp__mutex_lock(&jobs->mutex);
  if (ended) {
    TP__ASSERT(jobs->wait_count > 0);
    jobs->wait_count--;
  } else {
    wait->seen = news;
    tp__list_push(&jobs->waits, &wait->link);
  }
  return true;
}

static int64_t next_wait_locked(const tp__jobs *jobs, int64_t next_ns) {
  TP__LOCKED(&jobs->mutex);
  for (tp__link *link = jobs->waits.next; link != &jobs->waits; link = link->next) {
    const job_wait *wait = TP__CONTAINER(link, job_wait, link);
    if (wait->deadline_ns < next_ns) next_ns = wait->deadline_ns;
  }
  return next_ns;
}

/* When the wall clock was set, leases end too early or too late, because they are times of that clock. @return whether
 * it was set since the last look. */
static bool clock_was_set_locked(tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  int64_t before_ns = jobs->wall_ns, step_ns;
  jobs->wall_ns = tp__unix_offset_ns();
  step_ns = jobs->wall_ns - before_ns;
  return before_ns != 0 && (step_ns > CLOCK_STEP_NS || step_ns < -CLOCK_STEP_NS);
}

/* A process that died cannot report it, so the living processes look for it. */
static void recover(tp__jobs *jobs) {
  tp_fault fault = {0};
  int64_t half_ms = jobs->lease_ms / 2;
  tp_status status = tp__runtime_recover(jobs->runtime, &fault);
  if (status != TP_OK && !jobs->recovery_failed)
    tp__log(jobs->runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status},
            "what processes that ended left in the store could not be looked for, and that is tried again: %s",
            fault.message[0] ? fault.message : tp_status_text(status));
  jobs->recovery_failed = status != TP_OK;
  jobs->recover_at_ns = tp__deadline_after_ms(tp__now_ns(), (uint64_t)(half_ms < RECOVER_MS ? half_ms : RECOVER_MS));
}

/* Does the work that is due by its time only. @return true when there was some: then the lock was released
 * meanwhile. */
static bool run_timed_locked(tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  int64_t now_ns = tp__now_ns();
  if (tp__runtime_store(jobs->runtime)->durable && now_ns >= jobs->poll_at_ns) {
    jobs->poll_at_ns = tp__deadline_after_ms(now_ns, POLL_MS);
    jobs->news++;
    changed_locked(jobs);
    tp__mutex_unlock(&jobs->mutex);
    tp__backlog_offer(jobs->runtime); /* other processes end jobs, too */
    if (now_ns >= jobs->recover_at_ns) recover(jobs);
    tp__mutex_lock(&jobs->mutex);
    return true;
  }
  /* before the next claim, because a job that runs here must not be claimed again here */
  if (clock_was_set_locked(jobs)) {
    jobs->renew_at_ns = now_ns;
    jobs->news++;
  }
  if (tp__list_empty(&jobs->live) || now_ns < jobs->renew_at_ns) return false;
  tp__mutex_unlock(&jobs->mutex);
  bool failed = false;
  for (tp__link *link = jobs->live.next; link != &jobs->live; link = link->next)
    if (!renew(jobs, TP__CONTAINER(link, running_job, live))) failed = jobs->renewal_failed = true;
  jobs->renewal_failed = failed;
  jobs->renew_at_ns = next_renewal_ns(jobs);
  tp__mutex_lock(&jobs->mutex);
  return true;
}

static int64_t next_look_locked(const tp__jobs *jobs, int64_t next_ns) {
  TP__LOCKED(&jobs->mutex);
  if (tp__runtime_store(jobs->runtime)->durable && jobs->poll_at_ns < next_ns) next_ns = jobs->poll_at_ns;
  if (!tp__list_empty(&jobs->live) && jobs->renew_at_ns < next_ns) next_ns = jobs->renew_at_ns;
  return next_wait_locked(jobs, next_ns);
}

/* @return whether there was work. If not, *ret_next_ns is the time of the next work, if nothing changes before. */
static bool step_locked(tp__jobs *jobs, int64_t *ret_next_ns) {
  TP__LOCKED(&jobs->mutex);
  /* then the other work is done, too, because more jobs may come all the time */
  bool has_inserted = tp__job_inserts_run_locked(jobs);
  if (finish_ended_locked(jobs) || run_timed_locked(jobs)) return true;
  /* when the stop is seen here, nothing more is claimed, and the running jobs are all there are */
  if (jobs->stop && !jobs->cancelled) {
    jobs->cancelled = true;
    tp__mutex_unlock(&jobs->mutex);
    tp__runtime_cancel_all(jobs->runtime);
    tp__mutex_lock(&jobs->mutex);
    return true;
  }
  if (!jobs->stop && look_at_wait_locked(jobs)) return true;
  const uint32_t places = places_locked(jobs);
  bool may_look = !jobs->stop && places > 0;
  if (!may_look || (jobs->news == jobs->seen && tp__now_ns() < jobs->look_again_ns)) {
    *ret_next_ns = next_look_locked(jobs, may_look ? jobs->look_again_ns : TP__NEVER);
    return has_inserted;
  }
  jobs->seen = jobs->news;
  int64_t next_ms;
  tp__mutex_unlock(&jobs->mutex);
  bool again = claim(jobs, places, &next_ms);
  int64_t wait_ms = next_ms ? next_ms - tp__unix_ms() : 0;
  if (wait_ms > TP_JOB_PAUSE_MS_MAX)
    wait_ms = TP_JOB_PAUSE_MS_MAX; /* if the clock was set meanwhile, the job may be due earlier */
  jobs->look_again_ns = again     ? 0
                        : next_ms ? tp__deadline_after_ms(tp__now_ns(), wait_ms > 0 ? (uint64_t)wait_ms : 1)
                                  : TP__NEVER;
  tp__mutex_lock(&jobs->mutex);
  return true;
}

static void end_waits_locked(tp__jobs *jobs) {
  TP__LOCKED(&jobs->mutex);
  while (look_at_wait_locked(jobs)) {}
}

/* ---- news of the store, which come on a thread of its own ---- */

static void has_news(void *ctx) { tp__jobs_wake(ctx); }

/* Before the first look, so that nothing comes between the two; no lock is held. */
static void watch(tp__jobs *jobs, bool watches) {
  const tp_store *store = tp__runtime_store(jobs->runtime);
  if (jobs->watches == watches || !store->job_watch) return;
  jobs->watches = watches;
  store->job_watch(store->ctx, watches ? has_news : NULL, watches ? jobs : NULL);
}

static void thread_run(void *arg) {
  tp__jobs *jobs = arg;
  int64_t next_ns;
  tp__inside frame;
  tp__inside_enter(&frame, jobs->runtime, TP__INSIDE_CALLBACK); /* it calls the store */
  watch(jobs, true);
  tp__mutex_lock(&jobs->mutex);
  while (!jobs->stop || jobs->running > 0 || !tp__list_empty(&jobs->inserts))
    if (!step_locked(jobs, &next_ns)) tp__cond_wait_until(&jobs->changed, &jobs->mutex, next_ns);
  end_waits_locked(jobs);
  tp__mutex_unlock(&jobs->mutex);
  watch(jobs, false);
}

bool tp__jobs_pump(tp__jobs *jobs, int64_t *ret_next_ns) {
  tp__inside frame;
  tp__inside_enter(&frame, jobs->runtime, TP__INSIDE_CALLBACK);
  tp__mutex_lock(&jobs->mutex);
  bool any = jobs->is_pumped, ends = jobs->stop && jobs->running == 0;
  if (any && jobs->watches == ends) {
    tp__mutex_unlock(&jobs->mutex);
    watch(jobs, !ends);
    tp__mutex_lock(&jobs->mutex);
  }
  if (any && ends) {
    end_waits_locked(jobs);
    jobs->is_pumped = false;
    changed_locked(jobs);
  } else if (any) {
    any = step_locked(jobs, ret_next_ns);
  }
  tp__mutex_unlock(&jobs->mutex);
  tp__inside_leave(&frame);
  return any;
}

tp_status tp__jobs_start(tp__jobs *jobs) {
  jobs->stop = jobs->cancelled = false;
  jobs->seen = 0;
  jobs->look_again_ns = 0;
  jobs->recover_at_ns = tp__now_ns(); /* the start has recovered a moment ago; this finds processes that died since */
  jobs->is_pumped = jobs_sched(jobs)->options.pumped;
  if (jobs->is_pumped) return TP_OK;
  const tp_store *store = tp__runtime_store(jobs->runtime);
  tp_status status = tp__thread_start(tp__runtime_allocator(jobs->runtime), "tp-jobs", thread_run, jobs, &jobs->thread);
  tp__mutex_lock(&jobs->mutex);
  jobs->takes_inserts = status == TP_OK && store->durable && store->job_insert_all;
  tp__mutex_unlock(&jobs->mutex);
  return status;
}

void tp__jobs_stop(tp__jobs *jobs) {
  if (!jobs->thread && !jobs_sched(jobs)->options.pumped) return;
  tp__mutex_lock(&jobs->mutex);
  jobs->stop = true;
  jobs->takes_inserts = false;
  changed_locked(jobs);
  while (jobs->is_pumped) (void)tp__sched_wait_until(jobs_sched(jobs), &jobs->changed, &jobs->mutex, TP__NEVER);
  tp__mutex_unlock(&jobs->mutex);
  if (jobs->thread) tp__thread_join(jobs->thread);
  jobs->thread = NULL;
}

void tp__jobs_place_given(tp__jobs *jobs, int32_t count) {
  tp__mutex_lock(&jobs->mutex);
  const bool had_none = places_locked(jobs) == 0;
  jobs->given += count;
  if (had_none && count > 0) changed_locked(jobs);
  tp__mutex_unlock(&jobs->mutex);
}

void tp__jobs_wake(tp__jobs *jobs) {
  tp__mutex_lock(&jobs->mutex);
  jobs->news++;
  changed_locked(jobs);
  tp__mutex_unlock(&jobs->mutex);
}

/* ---- adding ---- */

static tp_reason reason_of_refusal(tp_status status) {
  switch (status) {
    case TP_ERR_FULL:
      return TP_REASON_SHED;
    case TP_ERR_NO_MEMORY:
      return TP_REASON_NO_MEMORY;
    case TP_ERR_FENCED:
      return TP_REASON_FENCED;
    default:
      return TP_REASON_STORE;
  }
}

static void refuse_job(tp_runtime *runtime, tp_text handler, tp_status status, const char *why) {
  tp__jobs *jobs = tp__runtime_jobs(runtime);
  tp__mutex_lock(&jobs->mutex);
  jobs->refused_count++;
  tp__mutex_unlock(&jobs->mutex);
  tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = status},
          "a background job of handler `%.*s` was not stored: %s", (int)handler.size, handler.size ? handler.data : "",
          why);
}

void tp__jobs_refuse(tp_runtime *runtime, const tp__node *node, const char *why) {
  refuse_job(runtime, tp_text_of(node->handler_name), TP_ERR_FULL, why);
}

void tp__jobs_shed(tp__jobs *jobs) {
  tp__mutex_lock(&jobs->mutex);
  jobs->shed_count++;
  tp__mutex_unlock(&jobs->mutex);
}

tp_reason tp__job_was_inserted(tp_runtime *runtime, const tp_job *job, bool waits, const tp__job_inserted *inserted) {
  tp__inside frame;
  const tp_fault *fault = inserted->fault;
  if (inserted->status != TP_OK) {
    if (inserted->status != TP_ERR_FULL || !waits)
      refuse_job(runtime, job->handler, inserted->status,
                 fault && fault->message[0] ? fault->message : tp_status_text(inserted->status));
    return reason_of_refusal(inserted->status);
  }
  if (!inserted->existed) {
    tp_job stored = *job;
    stored.id = inserted->id;
    tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
    notify_job(runtime, &stored, TP_JOB_QUEUED);
    tp__inside_leave(&frame);
  }
  return TP_REASON_NONE;
}

static tp_reason insert(tp_runtime *runtime, const tp_job *job, bool waits) {
  tp_fault fault = {0};
  tp__inside frame;
  tp__job_inserted inserted = {.fault = &fault};
  void *store_ctx = tp__store_enter(&frame, runtime);
  inserted.status = tp__store_left(
      &frame, tp__runtime_store(runtime)->job_insert(store_ctx, job, &inserted.id, &inserted.existed, &fault));
  tp_reason reason = tp__job_was_inserted(runtime, job, waits, &inserted);
  if (reason == TP_REASON_NONE) tp__jobs_wake(tp__runtime_jobs(runtime));
  return reason;
}

/** The node whose job it is. */
typedef struct job_of_node {
  tp__entry *entry;
  uint32_t index;
  tp__job_insert_spec spec; /* but for the job */
  bool may_leave;           /* to the thread of the jobs */
} job_of_node;

/* When several threads have a job at the same time, the first thread stores its job itself, and waits for the disk. The
 * others leave theirs to the thread of the jobs.
 * @return false: the thread of the jobs has the job. */
static bool insert_of_node(job_of_node *of, const tp_job *job, tp_reason *ret_refused) {
  tp_runtime *runtime = of->entry->turn->runtime;
  tp__jobs *jobs = tp__runtime_jobs(runtime);
  of->spec.job = job;
  tp__mutex_lock(&jobs->mutex);
  bool is_busy = of->may_leave && jobs->takes_inserts && (jobs->inserting > 0 || !tp__list_empty(&jobs->inserts));
  if (!is_busy) jobs->inserting++;
  tp__mutex_unlock(&jobs->mutex);
  if (is_busy && tp__job_insert_later(of->entry, of->index, &of->spec)) return false;
  *ret_refused = insert(runtime, job, of->spec.waits);
  if (is_busy) return true;
  tp__mutex_lock(&jobs->mutex);
  TP__ASSERT(jobs->inserting > 0);
  jobs->inserting--;
  tp__mutex_unlock(&jobs->mutex);
  return true;
}

/* @param of  NULL: the job belongs to no node, and is stored here.
 * @return false: the thread of the jobs will store it. */
static bool insert_with(tp_runtime *runtime, tp_job *job, const tp__payload *payload, job_of_node *of,
                        tp_reason *ret_refused) {
  tp_writer writer;
  bool is_settled = true;
  tp__value_writer_init(&writer, tp__runtime_allocator(runtime));
  tp__payload_write(payload, &writer);
  *ret_refused = TP_REASON_NO_MEMORY;
  if (tp_writer_finish(&writer, &job->payload) == TP_OK) {
    if (tp_value_check(job->payload, NULL) != TP_OK)
      *ret_refused = TP_REASON_MALFORMED; /* a payload that cannot be read back must not be accepted */
    else if (of) is_settled = insert_of_node(of, job, ret_refused);
    else *ret_refused = insert(runtime, job, false);
  }
  tp__value_writer_fini(&writer);
  return is_settled;
}

/* The retry values are the subscription's; so is the limit of the detached run, if it has one of its own. */
static void set_policies(tp_job *job, const tp__node *node) {
  const tp_subscription *desc = &node->sub->desc;
  job->attempts_max = desc->attempts > 1 ? desc->attempts : 1;
  job->backoff = desc->backoff;
  job->backoff_ms = desc->backoff_ms;
  job->contract_version = node->handler->desc.contract_version;
  if (node->flags & TP__NODE_DETACHED) job->limit_ms = (uint32_t)(node->timeout_ns / TP__NS_PER_MS);
}

/* Entries and turns are numbered within a runtime, so the key has the mark of the runtime, which differs from those of
 * other processes and runtimes. A job that may be made again after a crash has the key of its turn. */
static tp_text job_key_of(const tp__entry *e, char *buffer, size_t size, const char *subscription) {
  const tp__turn *turn = e->turn;
  bool is_of_turn = turn->jobs_turn != 0;
  uint64_t mark = is_of_turn ? turn->jobs_process : tp__runtime_run_id(turn->runtime);
  int length = snprintf(buffer, size, "%016llx-%s%llu-%s", (unsigned long long)mark, is_of_turn ? "turn" : "",
                        (unsigned long long)(is_of_turn ? turn->jobs_turn : e->id), subscription);
  return (tp_text){buffer, (size_t)length < size ? (size_t)length : size - 1};
}

bool tp__jobs_add(tp__entry *e, uint32_t index, const tp__payload *payload, const tp__backlog_place *where,
                  tp_reason *ret_refused) {
  tp_runtime *runtime = e->turn->runtime;
  const tp__node *node = &e->plan->nodes[index];
  const void *sets = e->sets;
  tp_writer writer;
  tp__value_writer_init(&writer, tp__runtime_allocator(runtime));
  tp__payload with_sets = *payload;
  tp_status status = TP_OK;
  if (sets && tp__runtime_layer_ops(runtime)->sets_write) {
    tp__runtime_layer_ops(runtime)->sets_write(sets, &writer);
    status = tp_writer_finish(&writer, &with_sets.sets);
  }
  char buffer[TP_ID_BYTES_MAX + 64];
  tp_text key = job_key_of(e, buffer, sizeof buffer, node->subscription_name);
  tp_job job = {.struct_size = sizeof job,
                .inserted_ms = tp__unix_ms(),
                .phase = e->plan->phase,
                .handler = tp_text_of(node->handler_name),
                .subscription = tp_text_of(node->subscription_name),
                .idempotency_key = key,
                .order_key = payload->ids[TP_ID_SESSION],
                .fence = TP__BUG(TP__BUG_UNFENCED_JOB) ? 0 : e->turn->fence,
                .origin = e->turn->fence_origin};
  set_policies(&job, node);
  job_of_node of = {.entry = e,
                    .index = index,
                    .spec = {.news_seen = where->news_seen, .waits = tp__backlog_of(node) != TP_BACKLOG_REFUSE},
                    .may_leave = !where->at_head};
  bool is_settled = true;
  *ret_refused = TP_REASON_NO_MEMORY;
  if (status == TP_OK) is_settled = insert_with(runtime, &job, &with_sets, &of, ret_refused);
  tp__value_writer_fini(&writer);
  return is_settled;
}

tp_reason tp__jobs_add_contributed(const tp__turn *turn, const tp_contribution *contribution) {
  tp_field field = {.id = TP_FIELD_REQUEST, .kind = TP_FIELD_KIND_VALUE, .text = contribution->value};
  tp__payload payload = {.mode = turn->mode, .caller = TP_CALLER_BACKGROUND_JOB, .fields = &field, .field_count = 1};
  memcpy(payload.ids, turn->ids, sizeof payload.ids);
  tp_job job = {.struct_size = sizeof job,
                .inserted_ms = tp__unix_ms(),
                .attempts_max = 1,
                .phase = TP_PHASE_NONE,
                .limit_ms = LIMIT_MS,
                .handler = contribution->domain,
                .subscription = contribution->domain,
                .idempotency_key = contribution->key,
                .order_key = contribution->text.size ? contribution->text : turn->ids[TP_ID_SESSION],
                .fence = turn->fence,
                .origin = turn->fence_origin};
  const tp__node *node;
  const tp__plan *plan;
  tp__snapshot *snapshot =
      tp__registry_find_handler(tp__runtime_registry(turn->runtime), job.handler, 0, TP_PHASE_NONE, &node, &plan);
  if (snapshot) { /* otherwise a later commit may register the handler, in any version */
    set_policies(&job, node);
    tp__snapshot_unpin(snapshot);
  }
  tp_reason reason;
  (void)insert_with(turn->runtime, &job, &payload, NULL, &reason);
  return reason;
}

/* ---- waiting ---- */

tp_status tp__jobs_wait(tp__jobs *jobs, tp_text order_key, int64_t deadline_ns) {
  const tp_store *store = tp__runtime_store(jobs->runtime);
  tp__inside frame;
  for (;;) {
    uint64_t open = 0;
    tp__mutex_lock(&jobs->mutex);
    uint64_t seen = jobs->news;
    tp__mutex_unlock(&jobs->mutex);
    TP__TRY(tp__store_left(&frame, store->job_open(tp__store_enter(&frame, jobs->runtime), order_key, &open, NULL)));
    if (open == 0) return TP_OK;
    bool in_time = true;
    tp__mutex_lock(&jobs->mutex);
    while (in_time && jobs->news == seen)
      in_time = tp__sched_wait_until(jobs_sched(jobs), &jobs->changed, &jobs->mutex, deadline_ns);
    tp__mutex_unlock(&jobs->mutex);
    if (!in_time) return TP_ERR_TIMEOUT;
  }
}

tp_status tp__jobs_wait_submit(tp__jobs *jobs, tp_text order_key, int64_t deadline_ns, tp_jobs_wait_fn on_end,
                               void *ctx) {
  const tp_allocator *allocator = tp__runtime_allocator(jobs->runtime);
  size_t size = sizeof(job_wait) + order_key.size;
  job_wait *wait = tp__alloc_zero(allocator, size);
  if (!wait) return TP_ERR_NO_MEMORY;
  char *key = (char *)(wait + 1);
  if (order_key.size > 0) memcpy(key, order_key.data, order_key.size);
  *wait = (job_wait){.order_key = {key, order_key.size}, .deadline_ns = deadline_ns, .on_end = on_end, .ctx = ctx};
  tp_status status = TP_OK;
  tp__mutex_lock(&jobs->mutex);
  if (jobs->stop) status = TP_ERR_SHUTDOWN;
  else if (jobs->wait_count >= WAITS_MAX) status = TP_ERR_FULL;
  if (status == TP_OK) {
    jobs->wait_count++;
    tp__list_push(&jobs->waits, &wait->link);
    changed_locked(jobs);
  }
  tp__mutex_unlock(&jobs->mutex);
  if (status != TP_OK) tp__release(allocator, wait, size);
  return status;
}

tp__job_counts tp__jobs_counts(tp__jobs *jobs) {
  const tp_store *store = tp__runtime_store(jobs->runtime);
  tp__job_counts counts = {0};
  tp__mutex_lock(&jobs->mutex);
  counts.run = jobs->run_count;
  counts.dead = jobs->dead_count;
  counts.refused = jobs->refused_count;
  counts.interrupted = jobs->interrupted_count;
  counts.postponed = jobs->postponed_count;
  counts.shed = jobs->shed_count;
  counts.in_line = tp__a32_load_relaxed(&jobs->line_count);
  tp__mutex_unlock(&jobs->mutex);
  tp__inside frame;
  void *store_ctx = tp__store_enter(&frame, jobs->runtime);
  (void)!tp__store_left(&frame, store->job_open(store_ctx, (tp_text){NULL, 0}, &counts.open, NULL));
  return counts;
}
