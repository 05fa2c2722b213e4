/* SPDX-License-Identifier: Apache-2.0
 *
 * The history of sessions in a SQLite file. One connection writes, under a mutex. A load reads on a separate connection
 * and in a snapshot of its own (WAL), so the receiver of the messages runs without any lock of the library and may
 * append. Appends that wait at the same time share one transaction (group.h). An asynchronous history copies each batch
 * into a queue, and one thread writes all waiting batches in one transaction. A reader of a session waits until the
 * batches appended to it are written. Locks: the connection's; that of the lists, which may be taken before the
 * queue's.
 *
 * session: one row per (tenant, session). message: rows in the order of their ids, which is the order of the appends.
 * tool_call: the calls of an assistant message by index. Arguments are stored byte for byte as they came. */
#include <pthread.h>
#include <string.h>

#include "stores/sqlite/batch.h"
#include "stores/sqlite/claims.h"
#include "stores/sqlite/schema.h"
#include "stores/sqlite/statement.h"
#include "support/clock.h"
#include "turnphase/sqlite.h"

/** A connection that reads, with its statements. */
typedef struct reader {
  sqlite3 *db;
  sqlite3_stmt *messages;
  sqlite3_stmt *calls;
} reader;

enum {
  INSERT_SESSION,
  FIND_SESSION,
  NEXT_POSITION,
  INSERT_MESSAGE,
  INSERT_CALL,
  DELETE_CALLS,
  DELETE_MESSAGES,
  DELETE_SESSION,
  WRITE_STATEMENTS
};

typedef struct history {
  tp_history face;   /* the result of tp_sqlite_history_open*(); the runtime copies it */
  char *path;        /* never changes after open */
  tp__writer writer; /* of an asynchronous one */
  tp__group group;   /* of any other one */
  tp__claims claims;
  tp__lock mutex;
  /* ---- under mutex */

  sqlite3 *db;
  sqlite3_stmt *statements[WRITE_STATEMENTS];
  /* ---- under lists_mutex */
  tp__lock lists_mutex;
  reader *idle;       /* kept for the next load; NULL while it is in use */
  tp__batch *waiting; /* batches that are not written yet */
  uint64_t *lost;     /* sessions with a queued batch that was fenced: their next load gives all messages */
  size_t lost_count, lost_capacity;
  bool is_lost; /* there was no memory for such a number: then every load gives all messages */
} history;

static const char *const write_sql[WRITE_STATEMENTS] = {
    [INSERT_SESSION] =
        "INSERT INTO session (tenant, name, next, owner, epoch, running) VALUES (?1, ?2, 0, 0, 0, 0)"
        " ON CONFLICT DO NOTHING",
    [NEXT_POSITION] = "UPDATE session SET next = next + ?2 WHERE id = ?1 RETURNING next - ?2",
    [FIND_SESSION] = "SELECT id, next, epoch FROM session WHERE tenant = ?1 AND name = ?2",
    [INSERT_MESSAGE] = "INSERT INTO message (session, " TP__SQL_NAMES(
        TP__MESSAGE_LIST) ", unix_ms, position) VALUES (?, " TP__SQL_PARAMETERS(TP__MESSAGE_LIST) ", ?, ?)",
    [INSERT_CALL] = "INSERT INTO tool_call (message, position, " TP__SQL_NAMES(
        TP__CALL_LIST) ") VALUES (?, ?, " TP__SQL_PARAMETERS(TP__CALL_LIST) ")",
    [DELETE_CALLS] = "DELETE FROM tool_call WHERE message IN (SELECT id FROM message WHERE session = ?1)",
    [DELETE_MESSAGES] = "DELETE FROM message WHERE session = ?1",
    [DELETE_SESSION] = "DELETE FROM session WHERE id = ?1"};

static const char *const messages_sql =
    "SELECT id, " TP__SQL_NAMES(TP__MESSAGE_LIST)
    " FROM message WHERE session = (SELECT id FROM session WHERE tenant = ?1 AND name = ?2)"
    " AND position >= ?3 AND position < ?4 ORDER BY position";
static const char *const calls_sql =
    "SELECT " TP__SQL_NAMES(TP__CALL_LIST) " FROM tool_call WHERE message = ?1 ORDER BY position";
static const char *const sessions_sql =
    "SELECT id, tenant, name, (SELECT count(*) FROM message WHERE message.session = session.id) FROM session"
    " WHERE id > ?1 AND (?3 IS NULL OR tenant = ?3) AND next > 0 ORDER BY id LIMIT ?2";

#define MESSAGE(member, column, type) TP__ITEM_##type(tp_message, member),
static const tp__column message_columns[] = {TP__MESSAGE_LIST(MESSAGE, MESSAGE)};
static const tp__columns messages = TP__COLUMNS(tp_message, message_columns);

#define CALL(member, column, type) TP__ITEM_##type(tp_tool_call, member),
static const tp__column call_columns[] = {TP__CALL_LIST(CALL, CALL)};
static const tp__columns calls = TP__COLUMNS(tp_tool_call, call_columns);

#define SESSION(member) TP__COLUMN(tp_history_session, member)
static const tp__column session_columns[] = {SESSION(number), SESSION(tenant), SESSION(session),
                                             SESSION(message_count)};
static const tp__columns sessions = TP__COLUMNS(tp_history_session, session_columns);

/* ---- append ---- */

static int bind_session(sqlite3_stmt *statement, tp_text tenant, tp_text session) {
  return tp__sqlite_bind_texts(statement, 1, (const tp_text[]){tenant, session}, 2);
}

/* @param ret_next  the position of its next message. @return SQLITE_ROW with its id; SQLITE_DONE when there is no such
 *   session. */
static int find_session_locked(history *h, tp_text tenant, tp_text session, int64_t *ret_id, int64_t *ret_next) {
  TP__LOCKED(&h->mutex);
  sqlite3_stmt *find = h->statements[FIND_SESSION];
  int rc = bind_session(find, tenant, session);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  if (rc == SQLITE_ROW) {
    *ret_id = sqlite3_column_int64(find, 0);
    *ret_next = sqlite3_column_int64(find, 1);
  }
  tp__sqlite_release(find);
  return rc;
}

static int session_id_locked(history *h, tp_text tenant, tp_text session, int64_t *ret_id) {
  TP__LOCKED(&h->mutex);
  sqlite3_stmt *insert = h->statements[INSERT_SESSION];
  int64_t next = 0;
  int rc = tp__sqlite_run(insert, bind_session(insert, tenant, session));
  if (rc == SQLITE_OK) rc = find_session_locked(h, tenant, session, ret_id, &next);
  return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

static int insert_call_locked(history *h, int64_t message, size_t position, const tp_tool_call *call) {
  TP__LOCKED(&h->mutex);
  assert(message > 0);
  sqlite3_stmt *s = h->statements[INSERT_CALL];
  int rc = tp__sqlite_bind_ints(s, (const int64_t[]){message, (int64_t)position}, 2);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(s, 3, &calls, call);
  return tp__sqlite_run(s, rc);
}

static int insert_message_locked(history *h, int64_t session, int64_t position, const tp_message *message) {
  TP__LOCKED(&h->mutex);
  assert(session > 0 && position >= 0);
  sqlite3_stmt *s = h->statements[INSERT_MESSAGE];
  int rc = sqlite3_bind_int64(s, 1, session);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(s, 2, &messages, message);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 2 + messages.count, tp__wall_ms());
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 3 + messages.count, position);
  rc = tp__sqlite_run(s, rc);
  int64_t id = sqlite3_last_insert_rowid(h->db);
  for (size_t i = 0; rc == SQLITE_OK && i < message->call_count; i++)
    rc = insert_call_locked(h, id, i, message->calls[i]);
  return rc;
}

/* Without a claim, the messages are appended at the end. */
static int take_positions_locked(history *h, const tp_history_append *request, int64_t *ret_id, int64_t *ret_position) {
  TP__LOCKED(&h->mutex);
  sqlite3_stmt *next = h->statements[NEXT_POSITION];
  int rc = h->claims.is_weak ? SQLITE_NOMEM : session_id_locked(h, request->tenant, request->session, ret_id);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(next, (const int64_t[]){*ret_id, (int64_t)request->message_count}, 2);
  if (rc == SQLITE_OK) rc = sqlite3_step(next);
  if (rc == SQLITE_ROW) {
    *ret_position = sqlite3_column_int64(next, 0);
    rc = sqlite3_step(next);
  }
  tp__sqlite_release(next);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* For a turn that has looked at the session without a claim: checks that no other turn has appended in between. */
static int check_look_locked(history *h, const tp_history_append *request, bool *ret_is_fenced) {
  TP__LOCKED(&h->mutex);
  const tp_history_claim *claim = request->claim;
  sqlite3_stmt *find = h->statements[FIND_SESSION];
  int64_t id = 0, next = 0, epoch = 0;
  int rc = bind_session(find, request->tenant, request->session);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  if (rc == SQLITE_ROW) {
    id = sqlite3_column_int64(find, 0);
    next = sqlite3_column_int64(find, 1);
    epoch = sqlite3_column_int64(find, 2);
  }
  tp__sqlite_release(find);
  *ret_is_fenced = (uint64_t)next != claim->position || !tp__claims_look_holds(claim->fence, id, epoch) ||
                   (claim->number != TP__SESSION_NEW && (uint64_t)id != claim->number);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* @param ret_is_fenced  true: nothing was written. */
static int insert_batch_locked(history *h, const tp_history_append *request, bool *ret_is_fenced) {
  TP__LOCKED(&h->mutex);
  const tp_history_claim *claim = request->claim;
  bool has_looked = claim && h->writer.started, has_claimed = claim && !has_looked;
  int64_t session_id = claim ? (int64_t)claim->number : 0, position = claim ? (int64_t)claim->position : 0;
  *ret_is_fenced = false;
  int rc = has_looked    ? check_look_locked(h, request, ret_is_fenced)
           : has_claimed ? tp__claims_end_locked(&h->claims, claim, request->message_count, ret_is_fenced)
                         : SQLITE_OK;
  if (rc == SQLITE_OK && !has_claimed && !*ret_is_fenced)
    rc = take_positions_locked(h, request, &session_id, &position);
  for (size_t i = 0; rc == SQLITE_OK && !*ret_is_fenced && i < request->message_count; i++)
    rc = insert_message_locked(h, session_id, position + (int64_t)i, request->messages[i]);
  return rc;
}

static tp_status fenced(const history *h, const tp_history_append *request, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_FENCED, h->path,
                    "%s: session `%.*s` was taken over by another process, or deleted, while its turn ran: nothing of "
                    "the turn was appended",
                    h->path, (int)request->session.size, request->session.data);
}

/* Some failures end the transaction by themselves; the others are ended here. Nothing of the transaction stays. */
static tp_status end_locked(history *h, int rc, const char *doing, tp_fault *fault) {
  TP__LOCKED(&h->mutex);
  tp_status status = rc == SQLITE_OK ? TP_OK : tp__sqlite_fail(h->db, h->path, doing, rc, fault);
  int end = tp__sqlite_end(h->db, rc);
  return rc == SQLITE_OK && end != SQLITE_OK ? tp__sqlite_fail(h->db, h->path, doing, end, fault) : status;
}

typedef struct append {
  history *h;
  const tp_history_append *request;
  bool is_fenced;
} append;

static int write_append(void *ctx) {
  append *a = ctx;
  return insert_batch_locked(a->h, a->request, &a->is_fenced);
}

static const char append_doing[] = "append to a session";

static tp_status history_append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  append a = {ctx, request, false};
  tp__group_work work = {.write = write_append, .ctx = &a, .doing = append_doing};
  tp_status status = request->message_count || request->claim ? tp__group_run(&a.h->group, &work, fault) : TP_OK;
  return status == TP_OK && a.is_fenced ? fenced(a.h, request, fault) : status;
}

/* ---- append, with a completion when the data is on the disk ---- */

static int write_batch(void *ctx) {
  tp__batch *batch = ctx;
  return insert_batch_locked(batch->owner, &batch->request, &batch->is_fenced);
}

static void batch_ended(tp__group_work *work) {
  tp__batch *batch = work->ctx;
  if (work->status == TP_OK && batch->is_fenced) work->status = fenced(batch->owner, &batch->request, &work->fault);
  (void)!tp_history_complete(batch->token, work->status, &work->fault, NULL);
  sqlite3_free(batch);
}

/* The batch is copied, because the runtime may be freed before a hanging disk answers. */
static void history_append_start(void *ctx, const tp_history_append *request, tp_token token) {
  history *h = ctx;
  tp_fault fault = {0};
  bool is_empty = request->message_count == 0 && !request->claim;
  tp__batch *batch = is_empty ? NULL : tp__batch_new(request);
  if (!batch) {
    tp_status status = is_empty ? TP_OK : TP_ERR_NO_MEMORY;
    (void)!tp_history_complete(token, status, &fault, NULL);
    return;
  }
  batch->owner = h;
  batch->token = token;
  batch->work = (tp__group_work){.write = write_batch, .ctx = batch, .doing = append_doing, .end = batch_ended};
  tp__group_submit(&h->group, &batch->work);
}

/* ---- a claim that ends without an append: written like a batch without messages ---- */

static void release_ended(tp__group_work *work) { sqlite3_free(work->ctx); }

static tp_history_append release_request(const tp_history_release *request) {
  return (tp_history_append){.struct_size = sizeof(tp_history_append),
                             .tenant = request->tenant,
                             .session = request->session,
                             .claim = request->claim};
}

static void history_release(void *ctx, const tp_history_release *request) {
  history *h = ctx;
  tp_history_append empty = release_request(request);
  tp__batch *batch = tp__batch_new(&empty);
  if (!batch) {
    /* Without memory for a copy, the release is written at once on this thread. */
    bool is_fenced;
    tp__lock_acquire(&h->mutex);
    int rc = tp__sqlite_begin(h->db);
    if (rc == SQLITE_OK) rc = insert_batch_locked(h, &empty, &is_fenced);
    (void)tp__sqlite_end(h->db, rc);
    tp__lock_release(&h->mutex);
    return;
  }
  batch->owner = h;
  batch->work =
      (tp__group_work){.write = write_batch, .ctx = batch, .doing = "release a session", .end = release_ended};
  tp__group_submit(&h->group, &batch->work);
}

/* ---- append, later ---- */

static void list_locked(history *h, tp__batch *batch) {
  TP__LOCKED(&h->lists_mutex);
  assert(batch != h->waiting);
  batch->before = NULL;
  batch->after = h->waiting;
  if (h->waiting) h->waiting->before = batch;
  h->waiting = batch;
}

#ifdef TP_CHECKS
static void history_check_lists_locked(const history *h) {
  TP__LOCKED(&h->lists_mutex);
  size_t looked = 0;
  assert(!h->waiting || !h->waiting->before);
  for (const tp__batch *each = h->waiting; each && looked < TP__CHECK_ITEMS_MAX; each = each->after, looked++)
    assert(!each->after || each->after->before == each);
}
#endif

static void unlist_locked(history *h, tp__batch *batch) {
  TP__LOCKED(&h->lists_mutex);
  assert(batch->before ? batch->before->after == batch : h->waiting == batch);
  if (batch->before) batch->before->after = batch->after;
  else h->waiting = batch->after;
  if (batch->after) batch->after->before = batch->before;
  TP__CHECK(history_check_lists_locked(h));
}

/* The session as the process knows it differs from the file. */
static void note_lost_locked(history *h, uint64_t number) {
  TP__LOCKED(&h->lists_mutex);
  if (h->lost_count == h->lost_capacity) {
    size_t capacity = h->lost_capacity ? 2 * h->lost_capacity : 4;
    uint64_t *lost = sqlite3_realloc64(h->lost, capacity * sizeof *lost);
    if (!lost) {
      h->is_lost = true;
      return;
    }
    h->lost = lost;
    h->lost_capacity = capacity;
  }
  h->lost[h->lost_count++] = number;
}

static bool take_lost_locked(history *h, uint64_t number) {
  TP__LOCKED(&h->lists_mutex);
  size_t kept = 0, before = h->lost_count;
  for (size_t i = 0; i < before; i++)
    if (h->lost[i] != number) h->lost[kept++] = h->lost[i];
  h->lost_count = kept;
  return h->is_lost || kept < before;
}

/* The loss of a turn that was acknowledged. It is lost when its process stood still until another process had taken
 * over the session. */
static void log_lost(history *h, tp__queued *list) {
  tp_fault fault = {0};
  for (tp__queued *node = list; node; node = node->next) {
    const tp__batch *batch = (const tp__batch *)node;
    if (!batch->is_fenced) continue;
    tp__lock_acquire(&h->lists_mutex);
    note_lost_locked(h, batch->request.claim->number);
    tp__lock_release(&h->lists_mutex);
    (void)!fenced(h, &batch->request, &fault);
    tp__writer_log(&h->writer, TP_LOG_ERROR, TP_ERR_FENCED, fault.message);
  }
}

/* On the writer's thread. */
static tp_status write_list(void *ctx, tp__queued *list, tp_fault *fault) {
  history *h = ctx;
  tp__lock_acquire(&h->mutex);
  int rc = tp__sqlite_begin(h->db);
  for (tp__queued *node = list; node && rc == SQLITE_OK; node = node->next) {
    tp__batch *batch = (tp__batch *)node;
    rc = insert_batch_locked(h, &batch->request, &batch->is_fenced);
  }
  tp_status status = end_locked(h, rc, "append to a session", fault);
  tp__lock_release(&h->mutex);
  if (status != TP_OK) return status;
  log_lost(h, list);
  tp__lock_acquire(&h->lists_mutex);
  for (tp__queued *node = list; node; node = node->next) unlist_locked(h, (tp__batch *)node);
  tp__lock_release(&h->lists_mutex);
  return TP_OK;
}

static const tp__writer_class writer_class = {.noun = "turns", .refused = "fail", .write = write_list};

/* The batch is listed first, because the writer may remove it from the list as soon as it is in the queue. */
static tp_status queue(history *h, const tp_history_append *request, tp_fault *fault) {
  tp__batch *batch = tp__batch_new(request);
  if (!batch) return TP_ERR_NO_MEMORY;
  size_t bytes = batch->queued.bytes, bytes_max = h->writer.bytes_max; /* which never changes */
  if (bytes > bytes_max) { /* refused by itself; a full queue would refuse other batches for a while, too */
    sqlite3_free(batch);
    return tp__refuse(fault, TP_ERR_TOO_LARGE, h->path,
                      "%s: a turn of %zu bytes is more than the queue takes (queue_bytes_max is %zu)", h->path, bytes,
                      bytes_max);
  }
  tp__lock_acquire(&h->lists_mutex);
  list_locked(h, batch);
  tp__lock_release(&h->lists_mutex);
  if (tp__writer_add(&h->writer, &batch->queued) == TP_OK) return TP_OK;
  tp__lock_acquire(&h->lists_mutex);
  unlist_locked(h, batch);
  tp__lock_release(&h->lists_mutex);
  sqlite3_free(batch);
  return tp__refuse(fault, TP_ERR_STORE_FULL, h->path, "%s: the queue of turns that wait to be written is full",
                    h->path);
}

/* It has only looked. */
static void history_release_nothing(void *ctx, const tp_history_release *request) {
  (void)ctx;
  (void)request;
}

static void history_append_queued(void *ctx, const tp_history_append *request, tp_token token) {
  tp_fault fault = {0};
  tp_status status = request->message_count ? queue(ctx, request, &fault) : TP_OK;
  (void)!tp_history_complete(token, status, &fault, NULL);
}

/* Whether a batch of the session waits; with an empty session, of any session of the tenant; with both empty, any
 * batch. */
static bool waits(history *h, tp_text tenant, tp_text session) {
  tp__lock_acquire(&h->lists_mutex);
  const tp__batch *batch = h->waiting;
  while (batch && !((session.size == 0 || tp__same(batch->request.session, session)) &&
                    (tp__same(batch->request.tenant, tenant) || (session.size == 0 && tenant.size == 0))))
    batch = batch->after;
  tp__lock_release(&h->lists_mutex);
  return batch != NULL;
}

/* Called before a read: waits until all appended batches are written, or returns the error. */
static tp_status finish_appends(history *h, tp_text tenant, tp_text session, tp_fault *fault) {
  if (!h->writer.started) return tp__group_settle(&h->group, fault);
  if (!waits(h, tenant, session)) return TP_OK;
  return tp__writer_commit(&h->writer, fault);
}

/* ---- delete ---- */

static int delete_rows_locked(history *h, int statement, int64_t session) {
  TP__LOCKED(&h->mutex);
  return tp__sqlite_run(h->statements[statement], sqlite3_bind_int64(h->statements[statement], 1, session));
}

/** What became of a deletion. */
typedef struct deletion {
  bool found;         /* the session had messages */
  int64_t process_id; /* of a living process whose turn has the session: then nothing was deleted; 0: none */
} deletion;

static int delete_history_locked(history *h, const tp_history_delete *request, deletion *d) {
  TP__LOCKED(&h->mutex);
  int64_t session = 0, next = 0;
  int rc = tp__sqlite_begin(h->db);
  if (rc == SQLITE_OK) rc = find_session_locked(h, request->tenant, request->session, &session, &next);
  if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SQLITE_OK : rc;
  rc = tp__claims_find_live_locked(&h->claims, session, &d->process_id);
  if (rc != SQLITE_OK || d->process_id) return rc;
  d->found = next > 0;
  rc = delete_rows_locked(h, DELETE_CALLS, session);
  if (rc == SQLITE_OK) rc = delete_rows_locked(h, DELETE_MESSAGES, session);
  return rc == SQLITE_OK ? delete_rows_locked(h, DELETE_SESSION, session) : rc;
}

static tp_status history_delete(void *ctx, const tp_history_delete *request, tp_fault *fault) {
  history *h = ctx;
  deletion d = {false, 0};
  tp_status status = finish_appends(h, request->tenant, request->session, fault);
  if (status != TP_OK) return status;
  tp__lock_acquire(&h->mutex);
  int rc = delete_history_locked(h, request, &d);
  status = end_locked(h, rc, "delete a session", fault);
  tp__lock_release(&h->mutex);
  if (status != TP_OK || d.found) return status;
  if (d.process_id)
    return tp__refuse(fault, TP_ERR_BUSY, h->path, "a turn of process %lld has the session", (long long)d.process_id);
  return tp__refuse(fault, TP_ERR_NOT_FOUND, h->path, "the history has no messages of such a session");
}

/* ---- load ---- */

static void reader_free(reader *r) {
  if (!r) return;
  sqlite3_finalize(r->messages);
  sqlite3_finalize(r->calls);
  sqlite3_close(r->db);
  sqlite3_free(r);
}

static tp_status reader_new(const char *path, reader **ret_reader, tp_fault *fault) {
  reader *r = sqlite3_malloc64(sizeof *r);
  if (!r) return tp__sqlite_fail(NULL, path, "load a session", SQLITE_NOMEM, fault);
  *r = (reader){0};
  tp_status status = tp__sqlite_open_reader(path, &r->db, fault);
  if (status == TP_OK) {
    int rc = tp__sqlite_prepare(r->db, messages_sql, &r->messages);
    if (rc == SQLITE_OK) rc = tp__sqlite_prepare(r->db, calls_sql, &r->calls);
    if (rc != SQLITE_OK) status = tp__sqlite_fail(r->db, path, "load a session", rc, fault);
  }
  if (status == TP_OK) *ret_reader = r;
  else reader_free(r);
  return status;
}

static tp_status take_reader(history *h, reader **ret_reader, tp_fault *fault) {
  tp__lock_acquire(&h->lists_mutex);
  reader *r = h->idle;
  h->idle = NULL;
  tp__lock_release(&h->lists_mutex);
  if (!r) return reader_new(h->path, ret_reader, fault);
  *ret_reader = r;
  return TP_OK;
}

static void give_back_reader(history *h, reader *r) {
  tp__sqlite_release(r->calls);
  tp__sqlite_release(r->messages);
  tp__lock_acquire(&h->lists_mutex);
  reader *surplus = h->idle ? r : NULL;
  if (!surplus) h->idle = r;
  tp__lock_release(&h->lists_mutex);
  reader_free(surplus);
}

/* @param list  of the calls; the message points to its memory. */
static int read_history_message(reader *r, tp__rows *list, tp_message *message) {
  tp__sqlite_read_struct(r->messages, 1, &messages, message);
  if (message->role < TP_ROLE_USER || message->role > TP_ROLE_END) return SQLITE_CORRUPT;
  if (message->role != TP_ROLE_ASSISTANT) return SQLITE_OK;
  int rc = tp__rows_read(list, r->calls, sqlite3_column_int64(r->messages, 0));
  message->calls = list->count ? (const tp_tool_call *const *)list->items : NULL;
  message->call_count = list->count;
  return rc;
}

static tp_status deliver(reader *r, const char *path, const tp_history_load *request, tp_fault *fault) {
  tp__rows list = {.columns = &calls};
  tp_status status = TP_OK;
  int rc;
  while ((rc = sqlite3_step(r->messages)) == SQLITE_ROW) {
    tp_message message;
    rc = read_history_message(r, &list, &message);
    if (rc != SQLITE_OK) break;
    status = request->each(request->ctx, &message);
    if (status != TP_OK) break;
  }
  tp__rows_fini(&list);
  if (status != TP_OK || rc == SQLITE_DONE) return status;
  return tp__sqlite_fail(r->db, path, "load a session", rc, fault);
}

/* Whether the newest waiting batch belongs to the turn that had the session before. Then there can be no new
 * messages. */
static bool goes_on_with_turn(history *h, const tp_history_load *request) {
  bool does = false;
  tp__lock_acquire(&h->lists_mutex);
  const tp__batch *batch = h->waiting; /* the newest comes first */
  while (batch &&
         !(tp__same(batch->request.session, request->session) && tp__same(batch->request.tenant, request->tenant)))
    batch = batch->after;
  const tp_history_claim *claim = batch ? batch->request.claim : NULL;
  if (claim && claim->number == request->number && claim->position + batch->request.message_count == request->after) {
    *request->claim = *claim;
    request->claim->position = request->claim->first = request->after;
    does = true;
  }
  tp__lock_release(&h->lists_mutex);
  return does;
}

/* For an asynchronous history. A turn does not wait for the file, so it claims nothing. Messages that another process
 * has appended meanwhile are noticed when the batch is written. */
static tp_status look_at_session(history *h, const tp_history_load *request, tp_fault *fault) {
  reader *r = NULL;
  if (goes_on_with_turn(h, request)) return TP_OK;
  tp_status status = finish_appends(h, request->tenant, request->session, fault);
  if (status == TP_OK) status = take_reader(h, &r, fault);
  if (status != TP_OK) return status;
  tp__lock_acquire(&h->lists_mutex);
  bool is_lost = take_lost_locked(h, request->number);
  tp__lock_release(&h->lists_mutex);
  tp_history_load anew = *request;
  if (is_lost) anew.number = anew.after = 0;
  status = tp__claims_look(&h->claims, r->db, &anew, fault);
  give_back_reader(h, r);
  return status;
}

/* A batch for which no turn waits any more is fenced by the claim, so the claim need not wait for it. */
static tp_status claim_session(history *h, const tp_history_load *request, tp_fault *fault) {
  return h->writer.started ? look_at_session(h, request, fault) : tp__claims_claim(&h->claims, request, fault);
}

/* Messages that are appended after the claim are not given: the next load begins at the claim's position. */
static tp_status history_load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  history *h = ctx;
  reader *r = NULL;
  const tp_history_claim *claim = request->owner ? request->claim : NULL;
  tp_status status =
      claim ? claim_session(h, request, fault) : finish_appends(h, request->tenant, request->session, fault);
  if (status == TP_OK && claim && claim->first == claim->position) return TP_OK; /* nothing is new */
  if (status == TP_OK) status = take_reader(h, &r, fault);
  if (status != TP_OK) return status;
  int rc = bind_session(r->messages, request->tenant, request->session);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(r->messages, 3, claim ? (int64_t)claim->first : 0);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(r->messages, 4, claim ? (int64_t)claim->position : INT64_MAX);
  if (rc == SQLITE_OK) status = deliver(r, h->path, request, fault);
  else status = tp__sqlite_fail(r->db, h->path, "load a session", rc, fault);
  give_back_reader(h, r);
  return status;
}

/* ---- list ---- */

typedef struct receiver {
  tp_history_session_fn each;
  void *ctx;
} receiver;

static bool show_session(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_history_session session;
  (void)parts;
  tp__sqlite_read_struct(row, 0, &sessions, &session);
  return to->each(to->ctx, &session);
}

static int64_t int64_at_most(uint64_t number) { return number > INT64_MAX ? INT64_MAX : (int64_t)number; }

static tp_status history_list(void *ctx, const tp_history_query *query, tp_history_session_fn each, void *each_ctx,
                              tp_fault *fault) {
  history *h = ctx;
  reader *r = NULL;
  tp_status status = finish_appends(h, query->tenant, (tp_text){NULL, 0}, fault);
  if (status == TP_OK) status = take_reader(h, &r, fault);
  if (status != TP_OK) return status;
  const int64_t values[] = {int64_at_most(query->after_number), query->limit ? int64_at_most(query->limit) : -1};
  const tp__listing listing = {.sql = sessions_sql,
                               .values = values,
                               .count = 2,
                               .texts = &query->tenant,
                               .first_text = 3,
                               .text_count = 1,
                               .show = show_session,
                               .ctx = &(receiver){each, each_ctx}};
  int rc = tp__sqlite_list(r->db, &listing);
  if (rc != SQLITE_OK) status = tp__sqlite_fail(r->db, h->path, "list sessions", rc, fault);
  give_back_reader(h, r);
  return status;
}

/* ---- life ---- */

static void history_destroy(void *ctx) {
  history *h = ctx;
  if (tp__group_end_later(&h->group, history_destroy, h)) return;
  tp__writer_fini(&h->writer);
  tp__group_fini(&h->group);
  tp__claims_fini(&h->claims);
  reader_free(h->idle);
  sqlite3_free(h->lost);
  for (int i = 0; i < WRITE_STATEMENTS; i++) sqlite3_finalize(h->statements[i]);
  sqlite3_close(h->db);
  tp__lock_fini(&h->lists_mutex);
  tp__lock_fini(&h->mutex);
  sqlite3_free(h->path);
  sqlite3_free(h);
}

static tp_status prepare_all(history *h, tp_fault *fault) {
  for (int i = 0; i < WRITE_STATEMENTS; i++) {
    int rc = tp__sqlite_prepare(h->db, write_sql[i], &h->statements[i]);
    if (rc != SQLITE_OK) return tp__sqlite_fail(h->db, h->path, "prepare", rc, fault);
  }
  return TP_OK;
}

static history *history_new(const char *path) {
  history *h = sqlite3_malloc64(sizeof *h);
  if (!h) return NULL;
  memset(h, 0, sizeof *h);
  h->path = sqlite3_mprintf("%s", path);
  if (h->path) {
    tp__lock_init(&h->mutex, TP__LOCK_history);
    tp__lock_init(&h->lists_mutex, TP__LOCK_history_list);
    return h;
  }
  sqlite3_free(h->path);
  sqlite3_free(h);
  return NULL;
}

static tp_status open_history(const char *path, uint32_t lease_ms, history **ret_history, tp_fault *fault) {
  if (!path || !path[0]) return tp__refuse(fault, TP_ERR_USAGE, NULL, "a history needs the path of its file");
  history *h = history_new(path);
  if (!h) return tp__sqlite_fail(NULL, path, "open", SQLITE_NOMEM, fault);
  tp_status status = tp__sqlite_open(path, &tp__sqlite_store_schema, &h->db, fault);
  if (status == TP_OK) status = prepare_all(h, fault);
  if (status == TP_OK) status = tp__claims_init(&h->claims, &h->mutex, h->db, h->path, lease_ms, fault);
  if (status != TP_OK) {
    history_destroy(h);
    return status;
  }
  h->face = (tp_history){.struct_size = sizeof h->face,
                         .ctx = h,
                         .load = history_load,
                         .append = history_append,
                         .delete_session = history_delete,
                         .list_sessions = history_list,
                         .destroy = history_destroy,
                         .shared = 1,
                         .release = history_release};
  *ret_history = h;
  return TP_OK;
}

static tp_status open_synchronous(const char *path, uint32_t lease_ms, tp_history **ret_history, tp_fault *fault) {
  history *h;
  tp_status status = open_history(path, lease_ms, &h, fault);
  if (status != TP_OK) return status;
  status = tp__group_init(&h->group, &h->mutex, h->db, h->path, true, fault);
  if (status != TP_OK) {
    history_destroy(h);
    return status;
  }
  h->face.append_start = history_append_start;
  h->face.append_paired = history_append;
  *ret_history = &h->face;
  return TP_OK;
}

tp_status tp_sqlite_history_open(const char *path, tp_history **ret_history, tp_fault *fault) {
  if (!ret_history) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_history_open: ret_history is NULL");
  return open_synchronous(path, 0, ret_history, fault);
}

/* Options that concern only the queue would have no effect, so they are refused. */
tp_status tp_sqlite_history_open_sync(const tp_sqlite_history_options *theirs, tp_history **ret_history,
                                      tp_fault *fault) {
  tp_sqlite_history_options options;
  if (!theirs || !ret_history)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_history_open_sync: options and ret_history are needed");
  tp_status status = tp__struct_read(&options, sizeof options, theirs, "tp_sqlite_history_options", fault);
  if (status != TP_OK) return status;
  if (options.queue_bytes_max || options.log)
    return tp__refuse(fault, TP_ERR_USAGE, options.path,
                      "tp_sqlite_history_open_sync has no queue: queue_bytes_max and log are for "
                      "tp_sqlite_history_open_async");
  return open_synchronous(options.path, options.lease_ms, ret_history, fault);
}

tp_status tp_sqlite_history_open_async(const tp_sqlite_history_options *theirs, tp_history **ret_history,
                                       tp_fault *fault) {
  enum { QUEUE_BYTES_MAX = 8 << 20 };
  tp_sqlite_history_options options;
  history *h;
  if (!theirs || !ret_history)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_history_open_async: options and ret_history are needed");
  tp_status status = tp__struct_read(&options, sizeof options, theirs, "tp_sqlite_history_options", fault);
  if (status == TP_OK) status = open_history(options.path, options.lease_ms, &h, fault);
  if (status != TP_OK) return status;
  if (!options.queue_bytes_max) options.queue_bytes_max = QUEUE_BYTES_MAX;
  status = tp__writer_init(&h->writer, &writer_class, h, h->path, options.queue_bytes_max, options.log, options.log_ctx,
                           fault);
  if (status != TP_OK) {
    history_destroy(h);
    return status;
  }
  h->face.append = NULL;
  h->face.append_start = history_append_queued;
  h->face.release = history_release_nothing;
  *ret_history = &h->face;
  return TP_OK;
}
