/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/job_queue.h"

#include "runtime/os/os.h"

static tp__queued_job *by_id(tp__hash_link *link) { return TP__CONTAINER(link, tp__queued_job, by_id); }
static tp__queued_job *by_key(tp__hash_link *link) { return TP__CONTAINER(link, tp__queued_job, by_key); }
static tp__queued_job *in_all(tp__link *link) { return TP__CONTAINER(link, tp__queued_job, all); }
static bool is_running(const tp__queued_job *job) { return job->desc.state == TP_JOB_RUNNING; }
static bool is_open(const tp__queued_job *job) { return job->order != NULL; }

static uint64_t hash_of_text(const tp__job_queue *queue, tp_text text) { return tp__hash_text(text, queue->seed); }
static uint64_t hash_of_id(const tp__job_queue *queue, uint64_t id) {
  return hash_of_text(queue, (tp_text){(const char *)&id, sizeof id});
}

/* ---- heaps ---- */

static int64_t time_of(const tp__queued_job *job) {
  return is_running(job) ? job->desc.lease_end_ms : job->desc.claimable_ms;
}

static bool is_before(const tp__job_heap *heap, const tp__queued_job *a, const tp__queued_job *b) {
  if (heap->by_time && time_of(a) != time_of(b)) return time_of(a) < time_of(b);
  return a->desc.id < b->desc.id;
}

static void heap_put(tp__job_heap *heap, size_t index, tp__queued_job *job) {
  heap->items[index] = job;
  job->heap_index = index;
}

static void sift_up(tp__job_heap *heap, size_t index, tp__queued_job *job) {
  while (index > 0 && is_before(heap, job, heap->items[(index - 1) / 2])) {
    heap_put(heap, index, heap->items[(index - 1) / 2]);
    index = (index - 1) / 2;
  }
  heap_put(heap, index, job);
}

static void sift_down(tp__job_heap *heap, size_t index, tp__queued_job *job) {
  for (size_t child; (child = 2 * index + 1) < heap->count; index = child) {
    if (child + 1 < heap->count && is_before(heap, heap->items[child + 1], heap->items[child])) child++;
    if (!is_before(heap, heap->items[child], job)) break;
    heap_put(heap, index, heap->items[child]);
  }
  heap_put(heap, index, job);
}

static void heap_add(tp__job_heap *heap, tp__queued_job *job) {
  assert(!job->heap && heap->count < heap->capacity);
  job->heap = heap;
  sift_up(heap, heap->count++, job);
}

static void heap_remove(tp__queued_job *job) {
  tp__job_heap *heap = job->heap;
  if (!heap) return;
  size_t index = job->heap_index;
  tp__queued_job *last = heap->items[--heap->count];
  job->heap = NULL;
  if (last == job) return;
  if (index > 0 && is_before(heap, last, heap->items[(index - 1) / 2])) sift_up(heap, index, last);
  else sift_down(heap, index, last);
}

static tp_status heap_reserve(const tp_allocator *allocator, tp__job_heap *heap, size_t need) {
  void *items = heap->items;
  TP__TRY(tp__array_grow(allocator, &items, &heap->capacity, need, sizeof *heap->items));
  heap->items = items;
  return TP_OK;
}

static void heap_fini(const tp_allocator *allocator, tp__job_heap *heap) {
  tp__release(allocator, heap->items, heap->capacity * sizeof *heap->items);
}

#ifdef TP_CHECKS
static void heap_check(const tp__job_heap *heap) {
  /* The capacity of a heap suffices for all jobs that may be in it. */
  assert(heap->count <= heap->capacity);
  for (size_t i = 0; i < heap->count && i < TP__CHECK_ITEMS_MAX; i++) {
    const tp__queued_job *job = heap->items[i];
    /* Each job in a heap knows its place there, is open, and is the first job of its order key. */
    assert(job->heap == heap && job->heap_index == i && is_open(job));
    assert(job->order->jobs.next == &job->in_order);
    /* None is before the one above it. */
    assert(i == 0 || !is_before(heap, job, heap->items[(i - 1) / 2]));
  }
}

void tp__job_queue_check(const tp__job_queue *queue) {
  uint64_t jobs = 0, classes = 0;
  const tp__link *link = queue->classes.next;
  for (; classes < TP__CHECK_ITEMS_MAX && link != &queue->classes; classes++, link = link->next) {
    const tp__job_class *class = TP__CONTAINER((tp__link *)(uintptr_t)link, tp__job_class, link);
    /* A class exists while it has open jobs, and its heap has capacity for them. */
    assert(class->job_count > 0 && class->ready.count <= class->job_count);
    jobs += class->job_count;
    heap_check(&class->ready);
  }
  heap_check(&queue->waiting);
  /* Every open job belongs to a class. There are at most open_max open jobs. Of the ended jobs the newest are kept. */
  assert(classes == TP__CHECK_ITEMS_MAX || jobs == queue->open_count);
  assert(queue->open_count <= queue->open_max);
  assert(queue->done_count <= queue->ended_max && queue->dead_count <= queue->ended_max);
  assert(queue->waiting.count <= queue->open_count && queue->open_count <= queue->last_id);
}
#endif

/* ---- order keys and classes: each exists while it has open jobs ---- */

static tp__job_order *find_order(const tp__job_queue *queue, tp_text key) {
  tp__hash_link *link = tp__hash_table_first(&queue->orders, hash_of_text(queue, key));
  while (link && !tp_text_equal(TP__CONTAINER(link, tp__job_order, by_key)->key, key)) link = tp__hash_table_next(link);
  return link ? TP__CONTAINER(link, tp__job_order, by_key) : NULL;
}

static tp__job_order *make_order(tp__job_queue *queue, tp_text key) {
  tp__job_order *order = find_order(queue, key);
  if (order) return order;
  if (tp__hash_table_reserve(&queue->orders, queue->allocator) != TP_OK) return NULL;
  order = tp__alloc_zero(queue->allocator, sizeof *order + key.size);
  if (!order) return NULL;
  char *at = (char *)(order + 1);
  order->key = tp__text_put(&at, key);
  tp__list_init(&order->jobs);
  tp__hash_table_add(&queue->orders, &order->by_key, hash_of_text(queue, key));
  return order;
}

static void leave_order(tp__job_queue *queue, tp__job_order *order) {
  if (order->count > 0) return;
  tp__hash_table_remove(&queue->orders, &order->by_key);
  tp__release(queue->allocator, order, sizeof *order + order->key.size);
}

static tp__job_class *make_class(tp__job_queue *queue, const tp_job *desc) {
  for (tp__link *link = queue->classes.next; link != &queue->classes; link = link->next) {
    tp__job_class *class = TP__CONTAINER(link, tp__job_class, link);
    if (class->contract_version == desc->contract_version && tp_text_equal(class->handler, desc->handler)) return class;
  }
  tp__job_class *class = tp__alloc_zero(queue->allocator, sizeof *class + desc->handler.size);
  if (!class) return NULL;
  class->contract_version = desc->contract_version;
  char *at = (char *)(class + 1);
  class->handler = tp__text_put(&at, desc->handler);
  tp__list_push(&queue->classes, &class->link);
  return class;
}

static void leave_class(tp__job_queue *queue, tp__job_class *class) {
  if (class->job_count > 0) return;
  tp__list_remove(&class->link);
  heap_fini(queue->allocator, &class->ready);
  tp__release(queue->allocator, class, sizeof *class + class->handler.size);
}

/* ---- opening and ending ---- */

/* Puts the first job of an order key into the heap or list of the thing that the job waits for. The other jobs of the
 * key wait for that job. */
static void place(tp__job_queue *queue, tp__queued_job *job) {
  bool is_first = job->order->jobs.next == &job->in_order;
  if (!is_first || job->heap) return;
  bool waits = is_running(job) || job->desc.claimable_ms > 0;
  heap_add(waits ? &queue->waiting : &job->class->ready, job);
}

/* Everything that may fail comes first, so that no step of an open job's life needs memory. */
static tp_status open_job(tp__job_queue *queue, tp__queued_job *job) {
  tp__job_order *order = make_order(queue, job->desc.order_key);
  if (!order) return TP_ERR_NO_MEMORY;
  tp__job_class *class = make_class(queue, &job->desc);
  tp_status status = class ? heap_reserve(queue->allocator, &class->ready, class->job_count + 1) : TP_ERR_NO_MEMORY;
  if (status == TP_OK) status = heap_reserve(queue->allocator, &queue->waiting, queue->open_count + 1);
  if (status != TP_OK) {
    if (class) leave_class(queue, class);
    leave_order(queue, order);
    return status;
  }
  job->order = order;
  job->class = class;
  order->count++;
  class->job_count++;
  queue->open_count++;
  tp__list_push(&order->jobs, &job->in_order);
  place(queue, job);
  return TP_OK;
}

static void free_content(tp__job_queue *queue, tp__queued_job *job) {
  tp__release(queue->allocator, job->payload, job->payload_size);
  job->payload = NULL;
  job->desc.payload = (tp_text){NULL, 0};
}

static void set_message(tp__job_queue *queue, tp__queued_job *job, tp_text message) {
  char *copy = message.size ? tp__alloc(queue->allocator, message.size) : NULL;
  if (copy) memcpy(copy, message.data, message.size);
  tp__release(queue->allocator, job->message, job->message_size);
  job->message = copy;
  job->message_size = copy ? message.size : 0;
  job->desc.message = (tp_text){copy, job->message_size};
}

void tp__queued_job_unref(tp__job_queue *queue, tp__queued_job *job) {
  TP__ASSERT(job->refs > 0);
  bool has_content = job->desc.state != TP_JOB_SUCCEEDED && job->desc.state != TP_JOB_DISCARDED;
  if (--job->refs == 1 && job->is_known && !has_content) free_content(queue, job);
  if (job->refs > 0) return;
  free_content(queue, job);
  set_message(queue, job, (tp_text){NULL, 0});
  tp__release(queue->allocator, job, job->size);
}

static void remove_job(tp__job_queue *queue, tp__queued_job *job) {
  tp__hash_table_remove(&queue->by_id, &job->by_id);
  tp__hash_table_remove(&queue->by_key, &job->by_key);
  tp__list_remove(&job->all);
  tp__list_remove(&job->ended);
  job->is_known = false;
  tp__queued_job_unref(queue, job);
}

static void close_job(tp__job_queue *queue, tp__queued_job *job) {
  tp__job_order *order = job->order;
  tp__job_class *class = job->class;
  heap_remove(job);
  tp__list_remove(&job->in_order);
  job->order = NULL;
  job->class = NULL;
  TP__ASSERT(queue->open_count > 0 && class->job_count > 0 && order->count > 0);
  queue->open_count--;
  class->job_count--;
  if (--order->count > 0) place(queue, TP__CONTAINER(order->jobs.next, tp__queued_job, in_order));
  leave_order(queue, order);
  leave_class(queue, class);
}

/* Keeps the key of an ended job for a while. Keeps the content only of a dead letter, because it may be redriven. */
static void retain_ended(tp__job_queue *queue, tp__queued_job *job, tp_job_state state, int64_t now_ms) {
  bool is_dead = state == TP_JOB_DEAD;
  tp__link *list = is_dead ? &queue->dead : &queue->done;
  uint64_t *count = is_dead ? &queue->dead_count : &queue->done_count;
  job->desc.state = state;
  job->desc.ended_ms = now_ms;
  job->desc.lease_end_ms = job->desc.claimable_ms = 0;
  if (!is_dead && job->refs == 1) free_content(queue, job); /* else its last reader does */
  tp__list_push(list, &job->ended);
  if (++*count <= queue->ended_max) return;
  --*count;
  remove_job(queue, TP__CONTAINER(list->next, tp__queued_job, ended));
}

static void end_job(tp__job_queue *queue, tp__queued_job *job, tp_job_state state, int64_t now_ms) {
  close_job(queue, job);
  retain_ended(queue, job, state, now_ms);
  TP__CHECK(tp__job_queue_check(queue));
}

/* ---- inserting ---- */

static tp__queued_job *find_id(const tp__job_queue *queue, uint64_t id) {
  tp__hash_link *link = tp__hash_table_first(&queue->by_id, hash_of_id(queue, id));
  while (link && by_id(link)->desc.id != id) link = tp__hash_table_next(link);
  return link ? by_id(link) : NULL;
}

static tp__queued_job *copy_job(tp__job_queue *queue, const tp_job *desc) {
  size_t texts = desc->handler.size + desc->subscription.size + desc->idempotency_key.size + desc->order_key.size;
  tp__queued_job *job = tp__alloc_zero(queue->allocator, sizeof *job + texts);
  if (!job) return NULL;
  job->size = sizeof *job + texts;
  job->refs = 1;
  tp__list_init(&job->all);
  tp__list_init(&job->in_order);
  tp__list_init(&job->ended);
  job->payload = desc->payload.size ? tp__alloc(queue->allocator, desc->payload.size) : NULL;
  if (desc->payload.size && !job->payload) {
    tp__release(queue->allocator, job, job->size);
    return NULL;
  }
  char *at = (char *)(job + 1);
  job->payload_size = desc->payload.size;
  if (job->payload) memcpy(job->payload, desc->payload.data, desc->payload.size);
  job->desc = *desc;
  job->desc.struct_size = sizeof job->desc;
  job->desc.state = TP_JOB_QUEUED;
  job->desc.claim = 0;
  job->desc.attempt = job->desc.reason = job->desc.code = 0;
  job->desc.claimable_ms = job->desc.lease_end_ms = job->desc.ended_ms = job->desc.postponed_ms = 0;
  job->desc.handler = tp__text_put(&at, desc->handler);
  job->desc.subscription = tp__text_put(&at, desc->subscription);
  job->desc.idempotency_key = tp__text_put(&at, desc->idempotency_key);
  job->desc.order_key = tp__text_put(&at, desc->order_key);
  job->desc.payload = (tp_text){job->payload, desc->payload.size};
  job->desc.message = (tp_text){NULL, 0};
  return job;
}

tp_status tp__job_queue_insert(tp__job_queue *queue, const tp_job *desc, uint64_t *ret_id, bool *ret_existed) {
  uint64_t hash = hash_of_text(queue, desc->idempotency_key);
  tp_text key = desc->idempotency_key;
  tp__hash_link *link = tp__hash_table_first(&queue->by_key, hash);
  while (link && !tp_text_equal(by_key(link)->desc.idempotency_key, key)) link = tp__hash_table_next(link);
  tp__queued_job *known = link ? by_key(link) : NULL;
  if (known) {
    *ret_id = known->desc.id;
    *ret_existed = true;
    return TP_OK;
  }
  if (queue->open_count >= queue->open_max) return TP_ERR_FULL;
  TP__TRY(tp__hash_table_reserve(&queue->by_id, queue->allocator));
  TP__TRY(tp__hash_table_reserve(&queue->by_key, queue->allocator));
  tp__queued_job *job = copy_job(queue, desc);
  if (!job) return TP_ERR_NO_MEMORY;
  job->desc.id = queue->last_id + 1;
  tp_status status = open_job(queue, job);
  if (status != TP_OK) {
    tp__queued_job_unref(queue, job);
    return status;
  }
  queue->last_id++;
  job->is_known = true;
  tp__list_push(&queue->all, &job->all);
  tp__hash_table_add(&queue->by_id, &job->by_id, hash_of_id(queue, job->desc.id));
  tp__hash_table_add(&queue->by_key, &job->by_key, hash);
  TP__CHECK(tp__job_queue_check(queue));
  *ret_id = job->desc.id;
  *ret_existed = false;
  return TP_OK;
}

/* ---- claiming and finishing ---- */

static bool is_lost(const tp__queued_job *job) {
  return is_running(job) && job->desc.attempt >= job->desc.attempts_max;
}

/* When the clock was set back, a job may seem to wait for longer than any pause. Such a job may be claimed. */
static void bound_pauses(tp__job_queue *queue, int64_t now_ms) {
  int64_t last_ms = now_ms < INT64_MAX - TP_JOB_PAUSE_MS_MAX ? now_ms + TP_JOB_PAUSE_MS_MAX : INT64_MAX;
  tp__job_heap *heap = &queue->waiting;
  bool went_back = now_ms < queue->looked_ms;
  queue->looked_ms = now_ms;
  if (!went_back) return;
  for (size_t i = 0; i < heap->count; i++) {
    tp__queued_job *job = heap->items[i];
    if (!is_running(job) && job->desc.claimable_ms > last_ms) job->desc.claimable_ms = now_ms;
    sift_up(heap, i, job); /* those before it are a heap */
  }
}

/* Makes every job claimable whose wait is over, except lost jobs. */
static void make_claimable(tp__job_queue *queue, int64_t now_ms) {
  bound_pauses(queue, now_ms);
  while (queue->waiting.count > 0) {
    tp__queued_job *job = queue->waiting.items[0];
    if (time_of(job) > now_ms || is_lost(job)) return;
    heap_remove(job);
    heap_add(&job->class->ready, job);
  }
}

tp__queued_job *tp__job_queue_bury_lost(tp__job_queue *queue, int64_t now_ms) {
  make_claimable(queue, now_ms);
  tp__queued_job *job = queue->waiting.count > 0 ? queue->waiting.items[0] : NULL;
  if (!job || time_of(job) > now_ms) return NULL;
  job->desc.reason = TP_REASON_TIMEOUT;
  end_job(queue, job, TP_JOB_DEAD, now_ms);
  return job;
}

tp__queued_job *tp__job_queue_candidate(tp__job_queue *queue, uint64_t after_id, int64_t now_ms, int64_t *ret_next_ms) {
  tp__queued_job *best = NULL;
  make_claimable(queue, now_ms);
  for (tp__link *link = queue->classes.next; link != &queue->classes; link = link->next) {
    const tp__job_heap *ready = &TP__CONTAINER(link, tp__job_class, link)->ready;
    tp__queued_job *first = ready->count > 0 ? ready->items[0] : NULL;
    if (first && first->desc.id > after_id && (!best || first->desc.id < best->desc.id)) best = first;
  }
  *ret_next_ms = queue->waiting.count > 0 ? time_of(queue->waiting.items[0]) : 0;
  return best;
}

bool tp__job_queue_claim(tp__job_queue *queue, tp__queued_job *job, int64_t now_ms, int64_t lease_ms) {
  if (!is_open(job) || job->heap != &job->class->ready) return false;
  heap_remove(job);
  job->desc.state = TP_JOB_RUNNING;
  job->desc.lease_end_ms = now_ms + lease_ms;
  job->desc.claim = ++queue->last_claim;
  job->desc.attempt++;
  place(queue, job);
  TP__CHECK(tp__job_queue_check(queue));
  return true;
}

static void requeue(tp__job_queue *queue, tp__queued_job *job, const tp_job_finish *request) {
  heap_remove(job);
  job->desc.state = TP_JOB_QUEUED;
  job->desc.lease_end_ms = 0;
  job->desc.claimable_ms = request->retry_at_ms;
  job->desc.postponed_ms = request->postponed_ms;
  place(queue, job);
  TP__CHECK(tp__job_queue_check(queue));
}

/* The job of a claim, if the claim is still the current one. */
static tp_status find_claim(const tp__job_queue *queue, uint64_t id, uint64_t claim, tp__queued_job **ret_job) {
  tp__queued_job *job = find_id(queue, id);
  if (!job || !is_open(job)) return TP_ERR_NOT_FOUND;
  if (!is_running(job) || job->desc.claim != claim) return TP_ERR_STALE;
  *ret_job = job;
  return TP_OK;
}

tp_status tp__job_queue_renew(tp__job_queue *queue, const tp_job_renew *request) {
  tp__queued_job *job;
  TP__TRY(find_claim(queue, request->id, request->claim, &job));
  heap_remove(job);
  job->desc.lease_end_ms = request->now_ms + request->lease_ms;
  place(queue, job);
  TP__CHECK(tp__job_queue_check(queue));
  return TP_OK;
}

tp_status tp__job_queue_finish(tp__job_queue *queue, const tp_job_finish *request, uint32_t *ret_state) {
  tp__queued_job *job;
  TP__TRY(find_claim(queue, request->id, request->claim, &job));
  job->desc.reason = request->reason;
  job->desc.code = request->code;
  if (job->refs == 1) set_message(queue, job, request->message); /* else it is being read */
  switch ((tp_job_end)request->end) {
    case TP_JOB_END_SUCCEEDED:
      end_job(queue, job, TP_JOB_SUCCEEDED, request->now_ms);
      break;
    case TP_JOB_END_RELEASED:
      job->desc.attempt--;
      requeue(queue, job, request);
      break;
    case TP_JOB_END_RETRY:
      if (job->desc.attempt < job->desc.attempts_max) requeue(queue, job, request);
      else end_job(queue, job, TP_JOB_DEAD, request->now_ms);
      break;
    case TP_JOB_END_FAILED:
    case TP_JOB_END_FORCE_32:
      end_job(queue, job, TP_JOB_DEAD, request->now_ms);
      break;
  }
  *ret_state = job->desc.state;
  return TP_OK;
}

/* ---- what operators do ---- */

uint64_t tp__job_queue_open(const tp__job_queue *queue, tp_text order_key) {
  if (order_key.size == 0) return queue->open_count;
  const tp__job_order *order = find_order(queue, order_key);
  return order ? order->count : 0;
}

tp_status tp__job_queue_redrive(tp__job_queue *queue, uint64_t id) {
  tp__queued_job *job = find_id(queue, id);
  if (!job || job->desc.state != TP_JOB_DEAD) return TP_ERR_NOT_FOUND;
  if (queue->open_count >= queue->open_max) return TP_ERR_FULL;
  tp_job before = job->desc;
  job->desc.state = TP_JOB_QUEUED;
  job->desc.attempt = job->desc.reason = job->desc.code = 0;
  job->desc.ended_ms = job->desc.postponed_ms = 0;
  tp_status status = open_job(queue, job);
  if (status != TP_OK) {
    job->desc = before;
    return status;
  }
  tp__list_remove(&job->ended);
  queue->dead_count--;
  return TP_OK;
}

tp_status tp__job_queue_discard(tp__job_queue *queue, uint64_t id, int64_t now_ms) {
  tp__queued_job *job = find_id(queue, id);
  if (!job || (job->desc.state != TP_JOB_QUEUED && job->desc.state != TP_JOB_RUNNING && job->desc.state != TP_JOB_DEAD))
    return TP_ERR_NOT_FOUND;
  if (is_running(job)) return TP_ERR_BUSY;
  if (is_open(job)) {
    close_job(queue, job);
  } else {
    tp__list_remove(&job->ended);
    queue->dead_count--;
  }
  retain_ended(queue, job, TP_JOB_DISCARDED, now_ms);
  return TP_OK;
}

/* ---- reading ---- */

void tp__job_queue_mark(tp__job_queue *queue, tp__queued_job *mark, uint64_t after_id) {
  tp__link *at = queue->all.next;
  while (at != &queue->all && (in_all(at)->is_mark || in_all(at)->desc.id <= after_id)) at = at->next;
  *mark = (tp__queued_job){.is_mark = true};
  tp__list_push(at, &mark->all); /* before it */
}

tp__queued_job *tp__job_queue_next(tp__job_queue *queue, tp__queued_job *mark) {
  tp__link *at = mark->all.next;
  while (at != &queue->all && in_all(at)->is_mark) at = at->next;
  if (at == &queue->all) return NULL;
  tp__list_remove(&mark->all);
  tp__list_push(at->next, &mark->all); /* after it */
  return in_all(at);
}

/* ---- life ---- */

void tp__job_queue_init(tp__job_queue *queue, const tp_allocator *allocator, uint64_t open_max, uint64_t ended_max) {
  *queue = (tp__job_queue){
      .allocator = allocator, .open_max = open_max, .ended_max = ended_max, .waiting = {.by_time = true}};
  tp__random(&queue->seed, sizeof queue->seed);
  tp__list_init(&queue->all);
  tp__list_init(&queue->done);
  tp__list_init(&queue->dead);
  tp__list_init(&queue->classes);
}

void tp__job_queue_fini(tp__job_queue *queue) {
  while (!tp__list_empty(&queue->all)) {
    tp__queued_job *job = in_all(queue->all.next);
    if (is_open(job)) close_job(queue, job);
    remove_job(queue, job);
  }
  heap_fini(queue->allocator, &queue->waiting);
  tp__hash_table_fini(&queue->by_id, queue->allocator);
  tp__hash_table_fini(&queue->by_key, queue->allocator);
  tp__hash_table_fini(&queue->orders, queue->allocator);
}
