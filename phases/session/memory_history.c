/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_history.c: a history in memory that outlives its sessions, the reference of the interface. Lock:
 * `memory_history`. */
#include "phases/model/messages.h"
#include "runtime/base/hash_table.h"
#include "runtime/os/os.h"
#include "turnphase/store.h"

typedef struct conversation {
  tp__hash_link in_table; /* under mutex */
  uint64_t number;
  tp_text tenant, session; /* after the struct */
  size_t size;
  uint32_t refs;          /* under mutex: one of the list, and one of each call that works on it */
  uint64_t message_count; /* under mutex: how many messages were appended in total */
  /* under mutex: the newest claim */
  uint64_t fence, owner;
  bool running;          /* a turn of the owner has the session */
  tp__arena arena;       /* the messages */
  tp__messages messages; /* the session's call's */
} conversation;

typedef struct memory_history {
  tp_history face; /* the result of tp_history_memory_new(); the runtime copies it */
  tp_allocator allocator;
  tp__mutex mutex;
  /* under mutex */
  tp__hash_table table; /* by tenant and session */
  conversation **list;  /* sorted by rising number */
  size_t count, capacity;
  uint64_t last_number;
  uint64_t last_fence; /* over all sessions, so that a session that is begun again gets no fence of before */
} memory_history;

/* ---- conversations ---- */

static uint64_t hash_of_conversation(tp_text tenant, tp_text session) {
  return tp__hash_text(session, tp__hash_text(tenant, 0));
}

static conversation *conversation_of(tp__hash_link *link) { return TP__CONTAINER(link, conversation, in_table); }

static conversation *find_conversation_locked(memory_history *h, tp_text tenant, tp_text session) {
  TP__LOCKED(&h->mutex);
  tp__hash_link *link = tp__hash_table_first(&h->table, hash_of_conversation(tenant, session));
  while (link && !(tp_text_equal(conversation_of(link)->session, session) &&
                   tp_text_equal(conversation_of(link)->tenant, tenant)))
    link = tp__hash_table_next(link);
  return link ? conversation_of(link) : NULL;
}

/* The index of the first conversation whose number is above this one. */
static size_t index_above_locked(const memory_history *h, uint64_t number) {
  TP__LOCKED(&h->mutex);
  size_t low = 0, high = h->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (h->list[middle]->number > number) high = middle;
    else low = middle + 1;
  }
  return low;
}

static conversation *new_conversation(const tp_allocator *allocator, tp_text tenant, tp_text session) {
  size_t size = sizeof(conversation) + tenant.size + session.size;
  conversation *c = tp__alloc_zero(allocator, size);
  if (!c) return NULL;
  char *at = (char *)(c + 1);
  c->tenant = tp__text_put(&at, tenant);
  c->session = tp__text_put(&at, session);
  c->size = size;
  c->refs = 1;
  tp__arena_init(&c->arena, allocator, NULL, 0, 0);
  c->messages.arena = &c->arena;
  return c;
}

static conversation *add_conversation_locked(memory_history *h, tp_text tenant, tp_text session) {
  TP__LOCKED(&h->mutex);
  void *list = h->list;
  if (tp__hash_table_reserve(&h->table, &h->allocator) != TP_OK ||
      tp__array_grow(&h->allocator, &list, &h->capacity, h->count + 1, sizeof(conversation *)) != TP_OK)
    return NULL;
  h->list = list;
  conversation *c = new_conversation(&h->allocator, tenant, session);
  if (!c) return NULL;
  c->number = ++h->last_number;
  tp__hash_table_add(&h->table, &c->in_table, hash_of_conversation(tenant, session));
  h->list[h->count++] = c;
  return c;
}

static void remove_conversation_locked(memory_history *h, conversation *c) {
  TP__LOCKED(&h->mutex);
  tp__hash_table_remove(&h->table, &c->in_table);
  size_t index = index_above_locked(h, c->number) - 1;
  h->count--;
  memmove(&h->list[index], &h->list[index + 1], (h->count - index) * sizeof(conversation *));
}

static void unref_conversation(memory_history *h, conversation *c) {
  tp__mutex_lock(&h->mutex);
  bool last = --c->refs == 0;
  tp__mutex_unlock(&h->mutex);
  if (!last) return;
  tp__arena_fini(&c->arena);
  tp__release(&h->allocator, c, c->size);
}

/* ---- the functions ---- */

/* A runtime that holds the session lives as long as its turn, which appends or releases. So there are no leases. */
static tp_status claim_locked(memory_history *h, conversation *c, const tp_history_load *request, tp_fault *fault) {
  TP__LOCKED(&h->mutex);
  uint64_t process = request->owner->process_run_id;
  if (c->running && c->owner != process)
    return tp__fail(fault, TP_ERR_BUSY, NULL, "a turn of another runtime of this process has session `%.*s`",
                    (int)request->session.size, request->session.data);
  c->owner = process;
  c->running = true;
  bool goes_on = request->number == c->number && request->after <= c->message_count;
  request->claim->number = c->number;
  request->claim->fence = c->fence = ++h->last_fence;
  request->claim->position = c->message_count;
  request->claim->first = goes_on ? request->after : 0;
  return TP_OK;
}

/* @param ret_conversation referenced; NULL: there is none. @param ret_first index of the first message to give. */
static tp_status begin_load(memory_history *h, const tp_history_load *request, conversation **ret_conversation,
                            size_t *ret_first, tp_fault *fault) {
  tp_status status = TP_OK;
  tp__mutex_lock(&h->mutex);
  conversation *c = find_conversation_locked(h, request->tenant, request->session);
  if (!c && request->owner && !(c = add_conversation_locked(h, request->tenant, request->session)))
    status = tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a conversation");
  if (c && request->owner) status = claim_locked(h, c, request, fault);
  if (status != TP_OK) c = NULL;
  if (c) c->refs++;
  tp__mutex_unlock(&h->mutex);
  *ret_conversation = c;
  *ret_first = c && request->owner ? (size_t)request->claim->first : 0;
  return status;
}

/* The calls of one session come one at a time, so its messages do not move while they are given. */
static tp_status load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  memory_history *h = ctx;
  conversation *c;
  size_t first;
  TP__TRY(begin_load(h, request, &c, &first, fault));
  if (!c) return TP_OK;
  tp_status status = TP_OK;
  for (size_t i = first; i < c->messages.count && status == TP_OK; i++)
    status = request->each(request->ctx, c->messages.items[i]);
  unref_conversation(h, c);
  return status;
}

static void load_start(void *ctx, const tp_history_load *request, tp_token token) {
  memory_history *h = ctx;
  conversation *c;
  size_t first;
  tp_fault fault = {0};
  tp_status status = begin_load(h, request, &c, &first, &fault);
  size_t count = c ? c->messages.count - first : 0;
  const tp_message *const *messages = count ? (const tp_message *const *)c->messages.items + first : NULL;
  (void)!tp_history_complete_load(token, status, messages, count, status == TP_OK ? NULL : &fault, NULL);
  if (c) unref_conversation(h, c);
}

static bool has_claim_locked(const conversation *c, const tp_history_claim *claim) {
  return c->running && c->number == claim->number && c->fence == claim->fence && c->message_count == claim->position;
}

static void release_conversation(void *ctx, const tp_history_release *request) {
  memory_history *h = ctx;
  tp__mutex_lock(&h->mutex);
  conversation *c = find_conversation_locked(h, request->tenant, request->session);
  if (c && !has_claim_locked(c, request->claim)) c = NULL;
  if (c) c->running = false;
  bool is_empty = c && c->message_count == 0; /* it was made for this claim */
  if (is_empty) remove_conversation_locked(h, c);
  tp__mutex_unlock(&h->mutex);
  if (is_empty) unref_conversation(h, c);
}

/* All of it or nothing. */
static tp_status add_messages(conversation *c, const tp_history_append *request, tp_fault *fault) {
  size_t before = c->messages.count;
  for (size_t i = 0; i < request->message_count; i++) {
    if (tp__messages_add(&c->messages, request->messages[i]) == TP_OK) continue;
    c->messages.count = before;
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for %zu messages", request->message_count);
  }
  return TP_OK;
}

static tp_status append_messages(void *ctx, const tp_history_append *request, tp_fault *fault) {
  memory_history *h = ctx;
  if (request->message_count == 0 && !request->claim) return TP_OK;
  tp__mutex_lock(&h->mutex);
  conversation *c = find_conversation_locked(h, request->tenant, request->session);
  bool is_fenced = request->claim && !(c && has_claim_locked(c, request->claim));
  if (!c && !is_fenced) c = add_conversation_locked(h, request->tenant, request->session);
  if (c && !is_fenced) c->refs++;
  tp__mutex_unlock(&h->mutex);
  if (is_fenced)
    return tp__fail(fault, TP_ERR_FENCED, NULL, "session `%.*s` was taken over or deleted while its turn ran",
                    (int)request->session.size, request->session.data);
  if (!c) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a conversation");
  tp_status status = add_messages(c, request, fault);
  tp__mutex_lock(&h->mutex);
  c->message_count = c->messages.count;
  if (status == TP_OK && request->claim) c->running = false;
  bool is_empty = c->message_count == 0 && !c->running; /* it was made for this batch, or for its claim */
  if (is_empty) {
    remove_conversation_locked(h, c);
    c->refs--;
  }
  tp__mutex_unlock(&h->mutex);
  unref_conversation(h, c);
  return status;
}

static tp_status delete_session(void *ctx, const tp_history_delete *request, tp_fault *fault) {
  memory_history *h = ctx;
  tp__mutex_lock(&h->mutex);
  conversation *c = find_conversation_locked(h, request->tenant, request->session);
  bool is_busy = c && c->running;
  if (c && (is_busy || c->message_count == 0)) c = NULL;
  if (c) remove_conversation_locked(h, c);
  tp__mutex_unlock(&h->mutex);
  if (is_busy) return tp__fail(fault, TP_ERR_BUSY, NULL, "a turn of another runtime of this process has the session");
  if (!c) return tp__fail(fault, TP_ERR_NOT_FOUND, NULL, "the history has no messages of such a session");
  unref_conversation(h, c);
  return TP_OK;
}

/* @return the next conversation that fits the query, referenced; NULL: there is none. */
static conversation *next_listed(memory_history *h, const tp_history_query *query, uint64_t after,
                                 uint64_t *ret_message_count) {
  conversation *found = NULL;
  tp__mutex_lock(&h->mutex);
  for (size_t i = index_above_locked(h, after); i < h->count && !found; i++) {
    conversation *c = h->list[i];
    if (c->message_count == 0) continue; /* its first batch is being appended */
    if (query->tenant.size == 0 || tp_text_equal(query->tenant, c->tenant)) found = c;
  }
  if (found) {
    found->refs++;
    *ret_message_count = found->message_count;
  }
  tp__mutex_unlock(&h->mutex);
  return found;
}

static tp_status list_sessions(void *ctx, const tp_history_query *query, tp_history_session_fn each, void *each_ctx,
                               tp_fault *fault) {
  memory_history *h = ctx;
  uint64_t after = query->after_number, message_count;
  conversation *c;
  bool goes_on = true;
  (void)fault;
  for (size_t n = 0; goes_on && (!query->limit || n < query->limit); n++) {
    if (!(c = next_listed(h, query, after, &message_count))) break;
    after = c->number;
    tp_history_session row = {.struct_size = sizeof row,
                              .number = c->number,
                              .message_count = message_count,
                              .tenant = c->tenant,
                              .session = c->session};
    goes_on = each(each_ctx, &row);
    unref_conversation(h, c);
  }
  return TP_OK;
}

/* ---- life ---- */

static void destroy_memory_history(void *ctx) {
  memory_history *h = ctx;
  for (size_t i = 0; i < h->count; i++) unref_conversation(h, h->list[i]);
  tp_allocator allocator = h->allocator;
  tp__release(&allocator, h->list, h->capacity * sizeof(conversation *));
  tp__hash_table_fini(&h->table, &allocator);
  tp__mutex_fini(&h->mutex);
  tp__release(&allocator, h, sizeof *h);
}

tp_status tp_history_memory_new(const tp_allocator *theirs, tp_history **ret_history, tp_fault *fault) {
  tp_allocator allocator = tp__allocator_of(theirs);
  memory_history *h = tp__alloc_zero(&allocator, sizeof *h);
  tp_status status = h ? tp__mutex_init(&h->mutex, TP__RANK_memory_history) : TP_ERR_NO_MEMORY;
  if (status != TP_OK) {
    tp__release(&allocator, h, sizeof *h);
    return tp__fail(fault, status, NULL, "no memory for a history");
  }
  h->allocator = allocator;
  h->face = (tp_history){.struct_size = sizeof h->face,
                         .ctx = h,
                         .load = load,
                         .load_start = load_start,
                         .load_paired = load,
                         .shared = 1,
                         .release = release_conversation,
                         .append = append_messages,
                         .delete_session = delete_session,
                         .list_sessions = list_sessions,
                         .destroy = destroy_memory_history};
  *ret_history = &h->face;
  return TP_OK;
}
