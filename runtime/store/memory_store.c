/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory store, the reference of the interface: the newest entry records, and jobs. Nothing survives the process.
 * Lock: `memory_store`, for the jobs and the names of records; no callback is called under it. */
#include "runtime/store/memory_store.h"

#include "runtime/os/os.h"
#include "runtime/store/job_queue.h"
#include "runtime/store/record_log.h"
#include "runtime/store/turn_ring.h"

enum {
  NAMES_MAX = 65536,
  NAMES_BYTES_MAX = 16 << 20,
  RECORDS_MAX = 10000,
  JOBS_MAX = 65536,
  JOBS_ENDED_MAX = 1024,
  TURNS_MAX = 1024
};

typedef struct memory_store {
  tp_store face; /* what tp_store_memory_new() returns; its taker copies it */
  tp_allocator allocator;
  tp__record_log records; /* has locks of its own */
  tp__mutex mutex;
  tp__job_queue jobs;         /* under mutex */
  tp__run_names names;        /* of records that came one at a time; added under mutex, read without it */
  tp__hash_table given_names; /* under mutex: finds them */
  tp__arena names_arena;      /* under mutex: their strings and links */
  size_t names_bytes;         /* under mutex: at most NAMES_BYTES_MAX */
  tp__mutex turns_mutex;
  tp__turn_ring turns;   /* under turns_mutex */
  tp__turn_list running; /* likewise */
} memory_store;

static tp_status refuse_reserved(const char *name, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_USAGE, NULL, "%s.reserved_ must be zero", name);
}

/* ---- records ---- */

tp_status tp__memory_store_take(void *ctx, const tp__record_source *from, const tp__record_batch *batch) {
  return tp__record_log_add(&((memory_store *)ctx)->records, from, batch);
}

/* The names of a run that did not come from the engine. */
typedef struct given_name {
  tp__hash_link by_text; /* in given_names */
  uint32_t id;           /* in names */
} given_name;

static bool is_same_run_name(const tp__run_name *name, const tp_run_record *run) {
  return name->visibility == run->visibility && strcmp(name->subscription, run->subscription) == 0 &&
         strcmp(name->handler, run->handler) == 0 && strcmp(name->owner, run->owner) == 0;
}

static uint64_t hash_of_names(const memory_store *store, const tp_run_record *run) {
  uint64_t hash = tp__hash_text(tp_text_of(run->subscription), store->jobs.seed ^ run->visibility);
  return tp__hash_text(tp_text_of(run->owner), tp__hash_text(tp_text_of(run->handler), hash));
}

/* Copies the names, which are borrowed. */
static tp_status add_name_locked(memory_store *store, const tp_run_record *run, uint64_t hash, uint32_t *ret_id) {
  TP__LOCKED(&store->mutex);
  tp_text texts[] = {tp_text_of(run->subscription), tp_text_of(run->handler), tp_text_of(run->owner)}, copies[3];
  size_t bytes = sizeof(given_name) + texts[0].size + texts[1].size + texts[2].size;
  if (store->names.count == NAMES_MAX || bytes > NAMES_BYTES_MAX - store->names_bytes) return TP_ERR_FULL;
  TP__TRY(tp__hash_table_reserve(&store->given_names, &store->allocator));
  given_name *given = tp__arena_alloc(&store->names_arena, sizeof *given);
  if (!given) return TP_ERR_NO_MEMORY;
  for (int i = 0; i < 3; i++)
    if (!tp__arena_text(&store->names_arena, texts[i], &copies[i])) return TP_ERR_NO_MEMORY;
  tp__run_name name = {.subscription = copies[0].data,
                       .handler = copies[1].data,
                       .owner = copies[2].data,
                       .visibility = run->visibility};
  TP__TRY(tp__run_names_add(&store->names, &store->allocator, name, &given->id));
  tp__hash_table_add(&store->given_names, &given->by_text, hash);
  store->names_bytes += bytes;
  *ret_id = given->id;
  return TP_OK;
}

/* The number of a run's names. */
static tp_status name_of_locked(memory_store *store, const tp_run_record *run, uint32_t *ret_id) {
  TP__LOCKED(&store->mutex);
  uint64_t hash = hash_of_names(store, run);
  for (tp__hash_link *link = tp__hash_table_first(&store->given_names, hash); link; link = tp__hash_table_next(link)) {
    uint32_t id = TP__CONTAINER(link, given_name, by_text)->id;
    if (!is_same_run_name(tp__run_name_of(&store->names, id), run)) continue;
    *ret_id = id;
    return TP_OK;
  }
  return add_name_locked(store, run, hash, ret_id);
}

static tp_status pack_run(memory_store *store, const tp_entry_record *record, uint32_t index, tp__packed_entry *entry) {
  tp_run_record run = {.struct_size = sizeof run};
  uint32_t name = 0;
  if (!record->run(record->source, index, &run) || !run.subscription || !run.handler || !run.owner)
    return TP_ERR_MALFORMED;
  tp__mutex_lock(&store->mutex);
  tp_status status = name_of_locked(store, &run, &name);
  tp__mutex_unlock(&store->mutex);
  TP__TRY(status);
  tp__row_put_details(&tp__packed_rows(entry)[index], name, index);
  tp__packed_details(entry)[index] = (tp__row_details){.queued_ns = run.queued_ns,
                                                       .started_ns = run.started_ns,
                                                       .ended_ns = run.ended_ns,
                                                       .late_ns = run.late_ns,
                                                       .code = run.code,
                                                       .contribution_count = run.contribution_count,
                                                       .limit_ms = run.limit_ms,
                                                       .attempts = run.attempts,
                                                       .thread = run.thread,
                                                       .state = run.state,
                                                       .reason = run.reason,
                                                       .verdict = run.verdict,
                                                       .execution = run.execution,
                                                       .failure = run.failure,
                                                       .fallback_used = run.fallback_used};
  return TP_OK;
}

/* For every caller but the engine: takes one record at a time, and copies its strings. */
static tp_status record(void *ctx, const tp_entry_record *theirs) {
  memory_store *store = ctx;
  tp_entry_record ours, *record = &ours;
  TP__TRY(tp__options_read(&ours, sizeof ours, theirs, "tp_entry_record", NULL));
  tp_text ids[TP_ID_COUNT] = {{0}};
  for (size_t i = 0; i < record->id_count && i < TP_ID_COUNT; i++) ids[i] = record->ids[i];
  tp__record_source from = {.process_run_id = record->process_run_id,
                            .unix_offset_ns = record->started_unix_ms * TP__NS_PER_MS - record->started_ns,
                            .ids = ids};
  uint32_t run_count = (uint32_t)record->run_count;
  tp__record_batch batch = {.capacity = tp__packed_size(run_count, run_count)};
  batch.memory = tp__alloc(&store->allocator, batch.capacity);
  if (!batch.memory) return TP_ERR_NO_MEMORY;
  tp__packed_entry *entry = tp__record_batch_add(&batch, run_count, run_count);
  *entry = (tp__packed_entry){.entry_id = record->entry_id,
                              .plan_hash = record->plan_hash,
                              .started_ns = record->started_ns,
                              .ended_ns = record->ended_ns,
                              .names = &store->names,
                              .phase = record->phase,
                              .run_count = run_count,
                              .outcome = record->status,
                              .detail_count = run_count};
  tp_status status = TP_OK;
  for (uint32_t i = 0; i < run_count && status == TP_OK; i++) status = pack_run(store, record, i, entry);
  if (status == TP_OK) status = tp__memory_store_take(store, &from, &batch);
  tp__release(&store->allocator, batch.memory, batch.capacity);
  return status;
}

static tp_status record_late(void *ctx, const tp_late_record *theirs) {
  tp_late_record late;
  TP__TRY(tp__options_read(&late, sizeof late, theirs, "tp_late_record", NULL));
  if (late.reserved_ != 0) return TP_ERR_USAGE;
  tp__record_log_late(&((memory_store *)ctx)->records, &late);
  return TP_OK;
}

bool tp__memory_store_is(const tp_store *store) { return store->record == record; }

static tp_status records(void *ctx, const tp_record_query *theirs, tp_record_fn each, void *each_ctx, tp_fault *fault) {
  tp_record_query query;
  TP__TRY(tp__options_read(&query, sizeof query, theirs, "tp_record_query", fault));
  if (query.reserved_ != 0) return refuse_reserved("tp_record_query", fault);
  tp_status status = tp__record_log_read(&((memory_store *)ctx)->records, &query, each, each_ctx);
  return status == TP_OK ? TP_OK : tp__fail(fault, status, NULL, "no memory to read records");
}

/* ---- turns ---- */

static tp_status turn_record(void *ctx, const tp_turn_record *theirs) {
  memory_store *store = ctx;
  tp_turn_record record;
  TP__TRY(tp__options_read(&record, sizeof record, theirs, "tp_turn_record", NULL));
  tp__mutex_lock(&store->turns_mutex);
  tp_status status = tp__turn_ring_add(&store->turns, &record);
  if (record.running_number) tp__turn_list_remove(&store->running, record.process_run_id, record.running_number);
  tp__mutex_unlock(&store->turns_mutex);
  return status;
}

static tp_status turn_running(void *ctx, const tp_turn_record *theirs) {
  memory_store *store = ctx;
  tp_turn_record record;
  TP__TRY(tp__options_read(&record, sizeof record, theirs, "tp_turn_record", NULL));
  tp__mutex_lock(&store->turns_mutex);
  tp_status status = tp__turn_list_put(&store->running, &record);
  tp__mutex_unlock(&store->turns_mutex);
  return status;
}

static tp_status turns_running(void *ctx, const tp_turn_query *theirs, tp_turn_record_fn each, void *each_ctx,
                               tp_fault *fault) {
  memory_store *store = ctx;
  tp_turn_query query;
  tp__turn_row *row = NULL;
  TP__TRY(tp__options_read(&query, sizeof query, theirs, "tp_turn_query", fault));
  if (query.reserved_ != 0) return refuse_reserved("tp_turn_query", fault);
  tp__mutex_lock(&store->turns_mutex);
  tp_status status = tp__turn_list_copy(&store->running, &query, &row);
  tp__mutex_unlock(&store->turns_mutex);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "no memory to read the records of turns that run");
  for (bool goes_on = true; row;) {
    tp__turn_row *next = row->next;
    if (goes_on) goes_on = each(each_ctx, &row->record);
    tp__turn_row_free(&store->allocator, row);
    row = next;
  }
  return TP_OK;
}

/* Each row is copied out, so that the callback runs without the lock. */
static tp_status turns(void *ctx, const tp_turn_query *theirs, tp_turn_record_fn each, void *each_ctx,
                       tp_fault *fault) {
  memory_store *store = ctx;
  tp_turn_query query;
  TP__TRY(tp__options_read(&query, sizeof query, theirs, "tp_turn_query", fault));
  if (query.reserved_ != 0) return refuse_reserved("tp_turn_query", fault);
  tp__mutex_lock(&store->turns_mutex);
  uint64_t place = tp__turn_ring_start(&store->turns, &query);
  tp__mutex_unlock(&store->turns_mutex);
  size_t left = query.limit ? query.limit : SIZE_MAX;
  while (left > 0) {
    tp__mutex_lock(&store->turns_mutex);
    const tp__turn_row *row = tp__turn_ring_next(&store->turns, &query, &place);
    tp__turn_row *copy = row ? tp__turn_row_copy(&store->allocator, &row->record) : NULL;
    tp__mutex_unlock(&store->turns_mutex);
    if (!row) break;
    if (!copy) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory to read the records of turns");
    left = each(each_ctx, &copy->record) ? left - 1 : 0;
    tp__turn_row_free(&store->allocator, copy);
  }
  return TP_OK;
}

/* ---- jobs ---- */

static tp_status job_insert(void *ctx, const tp_job *theirs, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  memory_store *store = ctx;
  tp_job desc;
  TP__TRY(tp__options_read(&desc, sizeof desc, theirs, "tp_job", fault));
  desc.fence = 0; /* it has no sessions */
  tp__mutex_lock(&store->mutex);
  tp_status status = tp__job_queue_insert(&store->jobs, &desc, ret_id, ret_existed);
  tp__mutex_unlock(&store->mutex);
  if (status == TP_ERR_FULL)
    return tp__fail(fault, status, NULL, "%llu jobs are open, the most that the memory store takes (jobs_max)",
                    (unsigned long long)store->jobs.open_max);
  return status == TP_OK ? TP_OK : tp__fail(fault, status, NULL, "no memory for a job");
}

static tp_status job_insert_all(void *ctx, const tp_job *const *theirs, size_t count, uint64_t *ret_ids,
                                bool *ret_existed, tp_status *ret_statuses, tp_fault *fault) {
  tp_job desc;
  for (size_t i = 0; i < count; i++) TP__TRY(tp__options_read(&desc, sizeof desc, theirs[i], "tp_job", fault));
  for (size_t i = 0; i < count; i++) ret_statuses[i] = job_insert(ctx, theirs[i], &ret_ids[i], &ret_existed[i], NULL);
  return TP_OK;
}

/* The view of a job that a callback gets while nothing is locked. The caller holds a reference, so the texts stay. */
static tp_job view_of(tp__queued_job *job, bool with_payload) {
  tp_job view = job->desc;
  tp__queued_job_hold(job);
  if (!with_payload) view.payload = (tp_text){NULL, 0};
  return view;
}

static void bury_lost_locked(memory_store *store, const tp_job_claim *request) {
  TP__LOCKED(&store->mutex);
  for (tp__queued_job *job; (job = tp__job_queue_bury_lost(&store->jobs, request->now_ms));) {
    if (!request->dead) continue;
    tp_job view = view_of(job, false);
    tp__mutex_unlock(&store->mutex);
    request->dead(request->ctx, &view);
    tp__mutex_lock(&store->mutex);
    tp__queued_job_unref(&store->jobs, job);
  }
}

/* The filter takes locks of its own, so it is called between two locked parts. */
static bool may_take_locked(memory_store *store, tp__queued_job *job, const tp_job_claim *request) {
  TP__LOCKED(&store->mutex);
  if (!request->filter) return true;
  tp_job view = view_of(job, false);
  tp__mutex_unlock(&store->mutex);
  bool accepted = request->filter(request->ctx, &view);
  tp__mutex_lock(&store->mutex);
  tp__queued_job_unref(&store->jobs, job);
  return accepted;
}

/* @return NULL when no job may be claimed; else the job that `take` sees, with a reference held. */
static tp__queued_job *claim_one_locked(memory_store *store, const tp_job_claim *request, tp_job *ret_view,
                                        int64_t *ret_next_ms) {
  TP__LOCKED(&store->mutex);
  for (uint64_t after_id = 0;;) {
    tp__queued_job *job = tp__job_queue_candidate(&store->jobs, after_id, request->now_ms, ret_next_ms);
    if (!job) return NULL;
    after_id = job->desc.id;
    tp__queued_job_hold(job); /* it may be discarded while the filter is asked */
    bool claimed = may_take_locked(store, job, request) &&
                   tp__job_queue_claim(&store->jobs, job, request->now_ms, request->lease_ms);
    if (claimed) *ret_view = view_of(job, true);
    tp__queued_job_unref(&store->jobs, job);
    if (claimed) return job;
  }
}

static tp_status job_claim(void *ctx, const tp_job_claim *theirs, int64_t *ret_next_ms, tp_fault *fault) {
  memory_store *store = ctx;
  tp_job_claim request;
  TP__TRY(tp__options_read(&request, sizeof request, theirs, "tp_job_claim", fault));
  size_t count = 0, most = request.count_max ? request.count_max : 1;
  tp__mutex_lock(&store->mutex);
  bury_lost_locked(store, &request);
  tp_job view;
  for (tp__queued_job *job; count < most && (job = claim_one_locked(store, &request, &view, ret_next_ms)); count++) {
    tp__mutex_unlock(&store->mutex);
    request.take(request.ctx, &view);
    tp__mutex_lock(&store->mutex);
    tp__queued_job_unref(&store->jobs, job);
  }
  tp__mutex_unlock(&store->mutex);
  return count > 0 ? TP_OK : TP_ERR_NOT_FOUND;
}

static tp_status refuse_claim(tp_status status, uint64_t id, tp_fault *fault) {
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status, NULL, "the claim of job %llu is not the current one", (unsigned long long)id);
}

static tp_status read_job_finish(const tp_job_finish *theirs, tp_job_finish *ours, tp_fault *fault) {
  TP__TRY(tp__options_read(ours, sizeof *ours, theirs, "tp_job_finish", fault));
  if (ours->reserved_ != 0) return refuse_reserved("tp_job_finish", fault);
  if (ours->end >= TP_JOB_END_SUCCEEDED && ours->end <= TP_JOB_END_RELEASED) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_job_finish.end is %u: it must be a tp_job_end", ours->end);
}

static tp_status job_finish(void *ctx, const tp_job_finish *theirs, uint32_t *ret_state, tp_fault *fault) {
  memory_store *store = ctx;
  tp_job_finish request;
  TP__TRY(read_job_finish(theirs, &request, fault));
  tp__mutex_lock(&store->mutex);
  tp_status status = tp__job_queue_finish(&store->jobs, &request, ret_state);
  tp__mutex_unlock(&store->mutex);
  return refuse_claim(status, request.id, fault);
}

static tp_status job_finish_all(void *ctx, const tp_job_finish *const *theirs, size_t count, uint32_t *ret_states,
                                tp_status *ret_statuses, tp_fault *fault) {
  tp_job_finish request;
  for (size_t i = 0; i < count; i++) TP__TRY(read_job_finish(theirs[i], &request, fault));
  for (size_t i = 0; i < count; i++) ret_statuses[i] = job_finish(ctx, theirs[i], &ret_states[i], NULL);
  return TP_OK;
}

static tp_status job_renew(void *ctx, const tp_job_renew *theirs, tp_fault *fault) {
  memory_store *store = ctx;
  tp_job_renew request;
  TP__TRY(tp__options_read(&request, sizeof request, theirs, "tp_job_renew", fault));
  tp__mutex_lock(&store->mutex);
  tp_status status = tp__job_queue_renew(&store->jobs, &request);
  tp__mutex_unlock(&store->mutex);
  return refuse_claim(status, request.id, fault);
}

static tp_status job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  memory_store *store = ctx;
  (void)fault;
  tp__mutex_lock(&store->mutex);
  *ret_count = tp__job_queue_open(&store->jobs, order_key);
  tp__mutex_unlock(&store->mutex);
  return TP_OK;
}

static bool job_fits(const tp_job *job, const tp_job_query *query) {
  uint32_t states = query->states ? query->states : 1u << TP_JOB_QUEUED | 1u << TP_JOB_RUNNING | 1u << TP_JOB_DEAD;
  return (!query->id || job->id == query->id) && (states & 1u << job->state) &&
         (query->handler.size == 0 || tp_text_equal(query->handler, job->handler)) &&
         (query->order_key.size == 0 || tp_text_equal(query->order_key, job->order_key));
}

static tp_status jobs(void *ctx, const tp_job_query *theirs, tp_job_each_fn each, void *each_ctx, tp_fault *fault) {
  memory_store *store = ctx;
  tp_job_query query;
  TP__TRY(tp__options_read(&query, sizeof query, theirs, "tp_job_query", fault));
  uint64_t after_id = query.id > query.after_id ? query.id - 1 : query.after_id;
  size_t left = query.limit ? query.limit : SIZE_MAX;
  tp__queued_job mark, *job;
  tp__mutex_lock(&store->mutex);
  tp__job_queue_mark(&store->jobs, &mark, after_id);
  while (left > 0 && (job = tp__job_queue_next(&store->jobs, &mark)) && (!query.id || job->desc.id <= query.id)) {
    if (!job_fits(&job->desc, &query)) continue;
    tp_job view = view_of(job, query.with_payload);
    tp__mutex_unlock(&store->mutex);
    left = each(each_ctx, &view) ? left - 1 : 0;
    tp__mutex_lock(&store->mutex);
    tp__queued_job_unref(&store->jobs, job);
  }
  tp__job_queue_unmark(&mark);
  tp__mutex_unlock(&store->mutex);
  return TP_OK;
}

static tp_status job_redrive(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  memory_store *store = ctx;
  (void)now_ms;
  tp__mutex_lock(&store->mutex);
  tp_status status = tp__job_queue_redrive(&store->jobs, id);
  tp__mutex_unlock(&store->mutex);
  if (status == TP_OK) return TP_OK;
  const char *why = status == TP_ERR_NOT_FOUND ? "there is no such dead letter" : tp_status_text(status);
  return tp__fail(fault, status, NULL, "job %llu cannot be redriven: %s", (unsigned long long)id, why);
}

static tp_status job_discard(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  memory_store *store = ctx;
  tp__mutex_lock(&store->mutex);
  tp_status status = tp__job_queue_discard(&store->jobs, id, now_ms);
  tp__mutex_unlock(&store->mutex);
  if (status == TP_OK) return TP_OK;
  const char *why = status == TP_ERR_BUSY ? "it is running" : "there is no such job, or it has ended";
  return tp__fail(fault, status, NULL, "job %llu cannot be discarded: %s", (unsigned long long)id, why);
}

/* ---- life ---- */

static void destroy_memory_store(void *ctx) {
  memory_store *store = ctx;
  tp__job_queue_fini(&store->jobs);
  tp_allocator allocator = store->allocator; /* the log points to the store's own */
  tp__turn_ring_fini(&store->turns);
  tp__turn_list_fini(&store->running);
  tp__mutex_fini(&store->turns_mutex);
  tp__mutex_fini(&store->mutex);
  tp__record_log_fini(&store->records);
  tp__run_names_fini(&store->names, &allocator);
  tp__hash_table_fini(&store->given_names, &allocator);
  tp__arena_fini(&store->names_arena);
  tp__release(&allocator, store, sizeof *store);
}

void tp_store_free(tp_store *store) {
  if (store && store->destroy) store->destroy(store->ctx);
}

static tp_status init(memory_store *store, const tp_store_memory_options *options) {
  size_t records_max = options->records_max ? options->records_max : RECORDS_MAX;
  tp__arena_init(&store->names_arena, &store->allocator, NULL, 0, 0);
  tp__job_queue_init(&store->jobs, &store->allocator, options->jobs_max ? options->jobs_max : JOBS_MAX,
                     options->jobs_ended_max ? options->jobs_ended_max : JOBS_ENDED_MAX);
  size_t turns_max = options->turns_max ? options->turns_max : TURNS_MAX;
  tp__turn_ring_init(&store->turns, &store->allocator, turns_max);
  tp__turn_list_init(&store->running, &store->allocator, turns_max);
  TP__TRY(tp__record_log_init(&store->records, &store->allocator, records_max));
  tp_status status = tp__mutex_init(&store->mutex, TP__RANK_memory_store);
  if (status == TP_OK && (status = tp__mutex_init(&store->turns_mutex, TP__RANK_turn_ring)) != TP_OK)
    tp__mutex_fini(&store->mutex);
  if (status != TP_OK) tp__record_log_fini(&store->records);
  return status;
}

tp_status tp_store_memory_new(const tp_allocator *theirs, const tp_store_memory_options *their_options,
                              tp_store **ret_store, tp_fault *fault) {
  tp_store_memory_options options;
  TP__TRY(tp__options_read(&options, sizeof options, their_options, "tp_store_memory_options", fault));
  tp_allocator allocator = tp__allocator_of(theirs);
  memory_store *store = tp__alloc_zero(&allocator, sizeof *store);
  if (!store) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the memory store");
  store->allocator = allocator;
  tp_status status = init(store, &options);
  if (status != TP_OK) {
    tp__release(&allocator, store, sizeof *store);
    return tp__fail(fault, status, NULL, "the memory store was not made: %s", tp_status_text(status));
  }
  store->face = (tp_store){.struct_size = sizeof store->face,
                           .ctx = store,
                           .name = "memory",
                           .record = record,
                           .record_late = record_late,
                           .records = records,
                           .turn_record = turn_record,
                           .turns = turns,
                           .turn_running = turn_running,
                           .turns_running = turns_running,
                           .job_insert = job_insert,
                           .job_claim = job_claim,
                           .job_finish_all = job_finish_all,
                           .job_insert_all = job_insert_all,
                           .job_finish = job_finish,
                           .job_renew = job_renew,
                           .job_open = job_open,
                           .jobs = jobs,
                           .job_redrive = job_redrive,
                           .job_discard = job_discard,
                           .destroy = destroy_memory_store};
  *ret_store = &store->face;
  return TP_OK;
}
