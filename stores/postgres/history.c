/* SPDX-License-Identifier: Apache-2.0
 *
 * The history of sessions in a database: each of its functions submits a work to the pool. A load or an append that a
 * turn begins is completed on the pool's thread; the other functions wait for the work. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "stores/postgres/postgres.h"
#include "support/fault.h"

/* ---- operations ---- */

/* An FNV-1a hash of the two names, separated by a byte that UTF-8 does not have. Two sessions with the same key wait
 * for each other. */
static uint64_t key_of(tp_text tenant, tp_text session) {
  uint64_t key = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < tenant.size; i++) key = (key ^ (unsigned char)tenant.data[i]) * UINT64_C(0x100000001b3);
  key = (key ^ 0xff) * UINT64_C(0x100000001b3);
  for (size_t i = 0; i < session.size; i++) key = (key ^ (unsigned char)session.data[i]) * UINT64_C(0x100000001b3);
  return key ? key : 1;
}

static tp__pg_operation operation_of(tp_postgres *pg, tp__pg_kind kind, const char *doing, tp_text tenant,
                                     tp_text session) {
  bool reads = kind == TP__PG_OF_READ || kind == TP__PG_OF_LIST;
  return (tp__pg_operation){.work = {.class = &tp__pg_history_class,
                                     .lane = reads ? TP__PG_READS : TP__PG_WRITES,
                                     .key = kind == TP__PG_OF_LIST ? 0 : key_of(tenant, session),
                                     .bytes = tenant.size + session.size,
                                     .doing = doing,
                                     .exclusive = kind == TP__PG_OF_LIST},
                            .postgres = pg,
                            .kind = kind,
                            .tenant = tenant,
                            .session = session};
}

void tp__pg_operation_fini(tp__pg_operation *o) {
  tp__pg_messages_fini(&o->messages);
  if (o->names) tp__heap_free(o->names, o->tenant.size + o->session.size + 1);
  o->names = NULL;
}

static void operation_free(tp__pg_operation *o) {
  tp__pg_operation_fini(o);
  tp__heap_free(o, sizeof *o);
}

static void free_ended(tp__pg_work *work) { operation_free((tp__pg_operation *)(void *)work); }

/* Copies an operation with its names, because it outlives the call: a turn that stops waiting frees its request. */
static tp__pg_operation *operation_copy(const tp__pg_operation *from) {
  tp__pg_operation *o = tp__heap_alloc(sizeof *o);
  if (!o) return NULL;
  *o = *from;
  size_t size = o->tenant.size + o->session.size;
  o->names = tp__heap_alloc(size + 1);
  if (!o->names) {
    tp__heap_free(o, sizeof *o);
    return NULL;
  }
  if (o->tenant.size) memcpy(o->names, o->tenant.data, o->tenant.size);
  if (o->session.size) memcpy(o->names + o->tenant.size, o->session.data, o->session.size);
  o->tenant.data = o->names;
  o->session.data = o->names + o->tenant.size;
  return o;
}

static bool same_token(tp_token a, tp_token b) { return memcmp(&a, &b, sizeof a) == 0; }

/* ---- load ---- */

static tp__pg_operation load_operation(tp_postgres *pg, const tp_history_load *request) {
  const tp_store_owner *owner = request->owner;
  tp__pg_operation o = operation_of(pg, owner ? TP__PG_OF_CLAIM : TP__PG_OF_READ,
                                    owner ? "claim a session" : "load a session", request->tenant, request->session);
  if (!owner) return o;
  assert(request->claim && owner->process_run_id);
  o.process = o.work.process = (int64_t)owner->process_run_id;
  o.number = request->number;
  o.after = request->after;
  o.ret_claim = request->claim;
  return o;
}

/* Fills a claim; struct_size keeps the library's value. */
static void fill_claim(const tp__pg_operation *o, tp_history_claim *to) {
  if (o->work.status == TP_OK || o->claim.fence) {
    to->number = o->claim.number;
    to->fence = o->claim.fence;
    to->position = o->claim.position;
    to->first = o->claim.first;
    to->origin = tp__pg_origin(o->postgres);
  }
  if (o->work.status == TP_ERR_BUSY) to->retry_ms = o->claim.retry_ms;
}

static tp_status history_load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  tp_postgres *pg = ctx;
  tp__pg_loaded loaded = {.count = 0};
  tp__pg_operation o = load_operation(pg, request);
  tp_status status = tp__pg_run(pg->pool, &o.work, fault);
  if (o.ret_claim) fill_claim(&o, o.ret_claim);
  if (status == TP_OK && o.rows) status = tp__pg_loaded_read(&loaded, o.rows, o.first_row, o.row_count, 1, fault);
  for (size_t i = 0; status == TP_OK && i < loaded.count; i++) status = request->each(request->ctx, loaded.list[i]);
  tp__pg_loaded_fini(&loaded);
  PQclear(o.rows);
  return status;
}

/* ---- a load that a turn begins ---- */

/* Removes an open load and fills the turn's claim, under one lock: the claim is valid only while the turn waits. */
static bool take_off_and_fill(tp_postgres *pg, tp__pg_operation *o) {
  tp__lock_acquire(&pg->lock);
  if (o->before_open) o->before_open->after_open = o->after_open;
  else pg->open_loads = o->after_open;
  if (o->after_open) o->after_open->before_open = o->before_open;
  bool waits = !o->has_left;
  if (waits && o->ret_claim) fill_claim(o, o->ret_claim);
  tp__lock_release(&pg->lock);
  return waits;
}

/* Releases the claim of a turn that does not wait any more, by an append of no messages. Takes the operation. */
static void release_claim_of(tp__pg_operation *o) {
  tp__pg_operation empty = operation_of(o->postgres, TP__PG_OF_APPEND, "release a session", o->tenant, o->session);
  empty.names = o->names;
  empty.has_claim = true;
  empty.claim = o->claim;
  empty.work.stays = true;
  empty.work.end = free_ended;
  *o = empty;
  tp__pg_submit(o->postgres->pool, &o->work);
}

static void claimed_again(tp__pg_work *work) {
  tp__pg_operation *o = (tp__pg_operation *)(void *)work;
  if (work->status == TP_OK && o->claim.fence) release_claim_of(o);
  else operation_free(o);
}

/* Handles a claim that failed but may have been committed: no turn would end it. It is made once more, when the server
 * answers again, and released. Takes the operation. */
static void claim_again(tp__pg_operation *o) {
  tp__pg_operation again = operation_of(o->postgres, TP__PG_OF_CLAIM, "claim a session", o->tenant, o->session);
  again.names = o->names;
  again.process = again.work.process = o->process;
  again.has_token = true; /* no turn reads its messages */
  again.work.stays = true;
  again.work.end = claimed_again;
  *o = again;
  tp__pg_submit(o->postgres->pool, &o->work);
}

static void load_ended(tp__pg_work *work) {
  tp__pg_operation *o = (tp__pg_operation *)(void *)work;
  tp__pg_loaded loaded = {.count = 0};
  tp_token token = o->token;
  tp_fault fault = work->fault;
  tp_status status = work->status;
  bool waits = take_off_and_fill(o->postgres, o), has_claimed = o->kind == TP__PG_OF_CLAIM && o->claim.fence;
  bool is_lost = o->kind == TP__PG_OF_CLAIM && status != TP_OK && status != TP_ERR_BUSY && work->in_doubt;
  if (waits && status == TP_OK && o->rows)
    status = tp__pg_loaded_read(&loaded, o->rows, o->first_row, o->row_count, 1, &fault);
  if (!waits) status = TP_ERR_CANCELLED;
  if (!waits && has_claimed) release_claim_of(o);
  else if (is_lost) claim_again(o);
  else operation_free(o);
  size_t count = status == TP_OK ? loaded.count : 0;
  (void)!tp_history_complete_load(token, status, count ? loaded.list : NULL, count, status == TP_OK ? NULL : &fault,
                                  NULL);
  tp__pg_loaded_fini(&loaded);
}

static void history_load_start(void *ctx, const tp_history_load *request, tp_token token) {
  tp_postgres *pg = ctx;
  tp__pg_operation made = load_operation(pg, request);
  made.has_token = true;
  made.token = token;
  made.work.end = load_ended;
  tp__pg_operation *o = operation_copy(&made);
  if (!o) {
    (void)!tp_history_complete_load(token, TP_ERR_NO_MEMORY, NULL, 0, NULL, NULL);
    return;
  }
  tp__lock_acquire(&pg->lock);
  o->after_open = pg->open_loads;
  if (pg->open_loads) pg->open_loads->before_open = o;
  pg->open_loads = o;
  tp__lock_release(&pg->lock);
  tp__pg_submit(pg->pool, &o->work);
}

static void history_load_cancel(void *ctx, tp_token token) {
  tp_postgres *pg = ctx;
  tp__lock_acquire(&pg->lock);
  tp__pg_operation *o = pg->open_loads;
  while (o && !same_token(o->token, token)) o = o->after_open;
  if (o) o->has_left = true;
  tp__lock_release(&pg->lock);
}

/* ---- append ---- */

int64_t tp__pg_next_batch(tp_postgres *pg) {
  tp__lock_acquire(&pg->lock);
  int64_t number = ++pg->batches;
  tp__lock_release(&pg->lock);
  return (int64_t)(((uint64_t)pg->batch_base + 2 * (uint64_t)number) | 1); /* the number is never 0 */
}

static tp_status append_operation(tp_postgres *pg, const tp_history_append *request, tp__pg_operation *ret_operation,
                                  tp_fault *fault) {
  *ret_operation = operation_of(pg, TP__PG_OF_APPEND, "append to a session", request->tenant, request->session);
  ret_operation->has_claim = request->claim != NULL;
  if (request->claim) ret_operation->claim = *request->claim;
  ret_operation->batch = tp__pg_next_batch(pg);
  tp_status status = tp__pg_messages_put(&ret_operation->messages, request->messages, request->message_count, fault);
  if (status == TP_OK) ret_operation->work.bytes += tp__pg_messages_size(&ret_operation->messages);
  else tp__pg_operation_fini(ret_operation);
  return status;
}

static bool is_nothing(const tp_history_append *request) { return request->message_count == 0 && !request->claim; }

static tp_status history_append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  tp_postgres *pg = ctx;
  tp__pg_operation o;
  if (is_nothing(request)) return TP_OK;
  tp_status status = append_operation(pg, request, &o, fault);
  if (status != TP_OK) return status;
  status = tp__pg_run(pg->pool, &o.work, fault);
  tp__pg_operation_fini(&o);
  return status;
}

static void append_ended(tp__pg_work *work) {
  tp__pg_operation *o = (tp__pg_operation *)(void *)work;
  tp_token token = o->token;
  tp_status status = work->status;
  tp_fault fault = work->fault;
  operation_free(o);
  (void)!tp_history_complete(token, status, status == TP_OK ? NULL : &fault, NULL);
}

static void history_append_start(void *ctx, const tp_history_append *request, tp_token token) {
  tp_postgres *pg = ctx;
  tp__pg_operation made, *o = NULL;
  tp_fault fault = {0};
  tp_status status = is_nothing(request) ? TP_OK : append_operation(pg, request, &made, &fault);
  if (status == TP_OK && !is_nothing(request)) {
    made.token = token;
    made.work.end = append_ended;
    o = operation_copy(&made);
    if (!o) {
      tp__pg_operation_fini(&made);
      status = TP_ERR_NO_MEMORY;
    }
  }
  if (o) tp__pg_submit(pg->pool, &o->work);
  else (void)!tp_history_complete(token, status, status == TP_OK ? NULL : &fault, NULL);
}

/* Releases a claim. No turn waits for this work, and it has no deadline: an unneeded claim would keep other hosts from
 * the session as long as this process has another turn. Without memory for the work that happens, until this process
 * claims the session again, or ends. */
static void history_release(void *ctx, const tp_history_release *request) {
  tp_postgres *pg = ctx;
  tp__pg_operation made = operation_of(pg, TP__PG_OF_APPEND, "release a session", request->tenant, request->session);
  made.has_claim = true;
  made.claim = *request->claim;
  made.work.stays = true;
  made.work.end = free_ended;
  tp__pg_operation *o = operation_copy(&made);
  if (o) tp__pg_submit(pg->pool, &o->work);
}

/* ---- delete, list ---- */

static tp_status history_delete(void *ctx, const tp_history_delete *request, tp_fault *fault) {
  tp_postgres *pg = ctx;
  tp__pg_operation o = operation_of(pg, TP__PG_OF_DELETE, "delete a session", request->tenant, request->session);
  return tp__pg_run(pg->pool, &o.work, fault);
}

static tp_status history_list(void *ctx, const tp_history_query *query, tp_history_session_fn each, void *each_ctx,
                              tp_fault *fault) {
  tp_postgres *pg = ctx;
  tp__pg_operation o = operation_of(pg, TP__PG_OF_LIST, "list sessions", query->tenant, (tp_text){"", 0});
  o.query = query;
  tp_status status = tp__pg_run(pg->pool, &o.work, fault);
  bool goes_on = status == TP_OK;
  for (int i = 0; goes_on && i < PQntuples(o.rows); i++) {
    const tp_history_session session = {.struct_size = sizeof session,
                                        .number = (uint64_t)tp__pg_int(o.rows, i, 0),
                                        .tenant = tp__pg_text(o.rows, i, 1),
                                        .session = tp__pg_text(o.rows, i, 2),
                                        .message_count = (uint64_t)tp__pg_int(o.rows, i, 3)};
    goes_on = each(each_ctx, &session);
  }
  PQclear(o.rows);
  return status;
}

static void history_destroy(void *ctx) { tp__pg_unref(ctx); }

const tp_history tp__pg_history_face = {.struct_size = sizeof(tp_history),
                                        .load = history_load,
                                        .load_start = history_load_start,
                                        .load_cancel = history_load_cancel,
                                        .append = history_append,
                                        .append_start = history_append_start,
                                        .delete_session = history_delete,
                                        .list_sessions = history_list,
                                        .destroy = history_destroy,
                                        .append_paired = history_append,
                                        .shared = 1,
                                        .release = history_release,
                                        .load_paired = history_load};

tp_status tp_postgres_history(tp_postgres *postgres, tp_history **ret_history, tp_fault *fault) {
  if (!postgres || !ret_history)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_history: postgres and ret_history are needed");
  tp__references_ref(&postgres->references);
  *ret_history = &postgres->face;
  return TP_OK;
}
