/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory store, the reference of the interface: the newest entry records, and jobs in a list by age. Nothing
 * survives the process. Lock: `memory_store`, for the jobs. */
#include "runtime/store/memory_store.h"
#include "runtime/os/os.h"
#include "runtime/store/record_log.h"

enum { RECORDS_MAX = 10000, ENDED_JOBS_MAX = 1024 };

typedef struct job {
  tp__link link;
  tp_job desc; /* texts point behind the struct; payload is memory of its own */
  bool running;
  int64_t claimable_ms, lease_end_ms;
  size_t size;
  char *payload; /* NULL: deleted */
  size_t payload_size;
} job;

typedef struct memory_store {
  tp_store face; /* what its maker gave out; a taker has a copy */
  tp_allocator allocator;
  tp__record_log records; /* has locks of its own */
  tp__mutex mutex;
  /* under mutex */
  tp__link jobs;       /* open ones, oldest first */
  tp__link ended_jobs; /* the newest ended ones, whose keys stay known */
  size_t ended_count;
  uint64_t last_job_id, last_claim;
} memory_store;

/* ---- records ---- */

tp_status tp__memory_store_take(void *self, const tp__record_source *from, const tp__record_batch *batch) {
  return tp__record_log_add(&((memory_store *)self)->records, from, batch);
}

/* The door for everybody else: one record at a time. */
static tp_status record(void *self, const tp_entry_record *record) {
  memory_store *store = self;
  tp_text ids[TP_ID_COUNT] = {{0}};
  for (size_t i = 0; i < record->id_count && i < TP_ID_COUNT; i++) ids[i] = record->ids[i];
  tp__record_source from = {.process_run_id = record->process_run_id,
                            .unix_offset_ns = record->started_unix_ms * TP__NS_PER_MS - record->started_ns,
                            .ids = ids};
  tp__record_batch batch = {.capacity = tp__packed_size(record->run_count, false)};
  batch.memory = tp__alloc(&store->allocator, batch.capacity);
  if (!batch.memory) return TP_ERR_NO_MEMORY;
  tp__packed_entry *entry = tp__record_batch_add(&batch, (uint32_t)record->run_count, NULL);
  *entry = (tp__packed_entry){.entry_id = record->entry_id,
                              .plan_hash = record->plan_hash,
                              .started_ns = record->started_ns,
                              .ended_ns = record->ended_ns,
                              .phase = record->phase,
                              .run_count = (uint32_t)record->run_count,
                              .outcome = record->status};
  tp_run_record *rows = tp__packed_rows(entry);
  bool complete = true;
  for (size_t i = 0; i < record->run_count && complete; i++) {
    rows[i] = (tp_run_record){.struct_size = sizeof rows[i]};
    complete = record->run(record->source, i, &rows[i]);
  }
  tp_status status = complete ? tp__memory_store_take(store, &from, &batch) : TP_ERR_MALFORMED;
  tp__release(&store->allocator, batch.memory, batch.capacity);
  return status;
}

static tp_status record_late(void *self, const tp_late_record *late) {
  tp__record_log_late(&((memory_store *)self)->records, late);
  return TP_OK;
}

bool tp__memory_store_is(const tp_store *store) { return store->record == record; }

static tp_status records(void *self, size_t limit, tp_record_fn each, void *ctx) {
  return tp__record_log_read(&((memory_store *)self)->records, limit, each, ctx);
}

/* ---- jobs ---- */

static tp_text put(char **at, tp_text text) {
  tp_text copy = {*at, text.size};
  if (text.size > 0) memcpy(*at, text.data, text.size);
  *at += text.size;
  return copy;
}

static job *copy_job(memory_store *store, const tp_job *desc) {
  size_t size =
      sizeof(job) + desc->handler.size + desc->subscription.size + desc->idempotency_key.size + desc->order_key.size;
  job *j = tp__alloc_zero(&store->allocator, size);
  if (!j) return NULL;
  j->payload_size = desc->payload.size;
  j->payload = desc->payload.size ? tp__alloc(&store->allocator, desc->payload.size) : NULL;
  if (desc->payload.size && !j->payload) {
    tp__release(&store->allocator, j, size);
    return NULL;
  }
  char *at = (char *)(j + 1);
  j->size = size;
  j->desc = *desc;
  j->desc.struct_size = sizeof j->desc;
  j->desc.attempt = 0;
  j->desc.handler = put(&at, desc->handler);
  j->desc.subscription = put(&at, desc->subscription);
  j->desc.idempotency_key = put(&at, desc->idempotency_key);
  j->desc.order_key = put(&at, desc->order_key);
  if (j->payload) memcpy(j->payload, desc->payload.data, desc->payload.size);
  j->desc.payload = (tp_text){j->payload, desc->payload.size};
  return j;
}

static void free_payload(memory_store *store, job *j) {
  tp__release(&store->allocator, j->payload, j->payload_size);
  j->payload = NULL;
  j->desc.payload = (tp_text){NULL, 0};
}

static job *job_of(tp__link *link) { return TP__CONTAINER(link, job, link); }

static job *find_key_in(tp__link *list, tp_text key) {
  for (tp__link *link = list->next; link != list; link = link->next)
    if (tp__text_equal(job_of(link)->desc.idempotency_key, key)) return job_of(link);
  return NULL;
}

static job *find_key_locked(memory_store *store, tp_text key) {
  job *known = find_key_in(&store->jobs, key);
  return known ? known : find_key_in(&store->ended_jobs, key);
}

static void free_job(memory_store *store, job *j) {
  free_payload(store, j);
  tp__release(&store->allocator, j, j->size);
}

/* Done, or a dead letter: its key stays known for a while, its content goes. */
static void end_job_locked(memory_store *store, job *j) {
  tp__list_remove(&j->link);
  free_payload(store, j);
  tp__list_push(&store->ended_jobs, &j->link);
  if (++store->ended_count <= ENDED_JOBS_MAX) return;
  job *oldest = job_of(store->ended_jobs.next);
  tp__list_remove(&oldest->link);
  store->ended_count--;
  free_job(store, oldest);
}

static tp_status job_insert(void *self, const tp_job *desc, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  memory_store *store = self;
  job *j = copy_job(store, desc);
  if (!j) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a job");
  tp__mutex_lock(&store->mutex);
  job *known = find_key_locked(store, desc->idempotency_key);
  if (!known) {
    j->desc.id = ++store->last_job_id;
    tp__list_push(&store->jobs, &j->link);
  }
  *ret_id = known ? known->desc.id : j->desc.id;
  *ret_existed = known != NULL;
  tp__mutex_unlock(&store->mutex);
  if (known) free_job(store, j);
  return TP_OK;
}

static bool is_oldest_of_its_key_locked(memory_store *store, const job *j) {
  for (tp__link *link = store->jobs.next; link != &j->link; link = link->next)
    if (tp__text_equal(job_of(link)->desc.order_key, j->desc.order_key)) return false;
  return true;
}

static job *claim_locked(memory_store *store, job *j, int64_t now_ms, int64_t lease_ms) {
  j->running = true;
  j->lease_end_ms = now_ms + j->desc.limit_ms + lease_ms;
  j->desc.claim = ++store->last_claim;
  j->desc.attempt++;
  return j;
}

/* Claims that ran out and were the last: whoever has such a job has had time enough. */
static void bury_lost_locked(memory_store *store, int64_t now_ms) {
  for (tp__link *link = store->jobs.next, *next; link != &store->jobs; link = next) {
    next = link->next;
    job *j = job_of(link);
    bool lost = j->running && j->lease_end_ms <= now_ms && j->desc.attempt >= j->desc.attempts_max;
    if (lost) end_job_locked(store, j);
  }
}

static job *next_candidate_locked(memory_store *store, uint64_t after_id, int64_t now_ms, int64_t *ret_next_ms) {
  for (tp__link *link = store->jobs.next; link != &store->jobs; link = link->next) {
    job *j = job_of(link);
    int64_t ready_ms = j->running ? j->lease_end_ms : j->claimable_ms;
    if (j->desc.id <= after_id || !is_oldest_of_its_key_locked(store, j)) continue;
    if (ready_ms <= now_ms) return j;
    if (*ret_next_ms == 0 || ready_ms < *ret_next_ms) *ret_next_ms = ready_ms;
  }
  return NULL;
}

/* The filter takes locks of its own, so it is asked between two locked parts. Only the one job thread claims and
 * finishes, so the candidate stays as it is meanwhile. */
static tp_status job_claim(void *self, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  memory_store *store = self;
  int64_t now_ms = request->now_ms;
  job *claimed = NULL;
  *ret_next_ms = 0;
  for (uint64_t after_id = 0; !claimed;) {
    tp__mutex_lock(&store->mutex);
    bury_lost_locked(store, now_ms);
    job *candidate = next_candidate_locked(store, after_id, now_ms, ret_next_ms);
    tp__mutex_unlock(&store->mutex);
    if (!candidate) return TP_ERR_NOT_FOUND;
    after_id = candidate->desc.id;
    if (request->filter && !request->filter(request->ctx, &candidate->desc)) continue;
    tp__mutex_lock(&store->mutex);
    claimed = claim_locked(store, candidate, now_ms, request->lease_ms);
    tp__mutex_unlock(&store->mutex);
  }
  (void)fault;
  request->take(request->ctx, &claimed->desc);
  return TP_OK;
}

static tp_status job_finish(void *self, const tp_job_finish *request, tp_fault *fault) {
  memory_store *store = self;
  tp_status status = TP_ERR_NOT_FOUND;
  tp__mutex_lock(&store->mutex);
  for (tp__link *link = store->jobs.next; link != &store->jobs && status == TP_ERR_NOT_FOUND; link = link->next) {
    job *j = job_of(link);
    if (j->desc.id != request->id) continue;
    status = j->running && j->desc.claim == request->claim ? TP_OK : TP_ERR_STALE;
    if (status != TP_OK) break;
    j->running = false;
    j->claimable_ms = request->retry_at_ms;
    if (request->end == TP_JOB_RETRY && j->desc.attempt < j->desc.attempts_max) break;
    end_job_locked(store, j);
    break;
  }
  tp__mutex_unlock(&store->mutex);
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status, NULL, "the claim of job %llu is not the current one", (unsigned long long)request->id);
}

static tp_status job_open(void *self, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  memory_store *store = self;
  (void)fault;
  uint64_t count = 0;
  tp__mutex_lock(&store->mutex);
  for (tp__link *link = store->jobs.next; link != &store->jobs; link = link->next)
    count += (!order_key.size || tp__text_equal(job_of(link)->desc.order_key, order_key));
  tp__mutex_unlock(&store->mutex);
  *ret_count = count;
  return TP_OK;
}

/* ---- life ---- */

static void free_jobs(memory_store *store, tp__link *list) {
  while (!tp__list_empty(list)) {
    job *j = job_of(list->next);
    tp__list_remove(&j->link);
    free_job(store, j);
  }
}

static void destroy(void *self) {
  memory_store *store = self;
  free_jobs(store, &store->jobs);
  free_jobs(store, &store->ended_jobs);
  tp_allocator allocator = store->allocator; /* the log points to the store's own */
  tp__mutex_fini(&store->mutex);
  tp__record_log_fini(&store->records);
  tp__release(&allocator, store, sizeof *store);
}

void tp_store_free(tp_store *store) {
  if (store && store->destroy) store->destroy(store->self);
}

static tp_status init(memory_store *store, size_t records_max) {
  tp__list_init(&store->jobs);
  tp__list_init(&store->ended_jobs);
  TP__TRY(tp__record_log_init(&store->records, &store->allocator, records_max ? records_max : RECORDS_MAX));
  tp_status status = tp__mutex_init(&store->mutex);
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
  tp_status status = init(store, options.records_max);
  if (status != TP_OK) {
    tp__release(&allocator, store, sizeof *store);
    return tp__fail(fault, status, NULL, "the memory store was not made: %s", tp_status_text(status));
  }
  store->face = (tp_store){.struct_size = sizeof store->face,
                           .self = store,
                           .name = "memory",
                           .record = record,
                           .record_late = record_late,
                           .job_insert = job_insert,
                           .job_claim = job_claim,
                           .job_finish = job_finish,
                           .job_open = job_open,
                           .records = records,
                           .destroy = destroy};
  *ret_store = &store->face;
  return TP_OK;
}
