/* SPDX-License-Identifier: Apache-2.0
 *
 * Forking a session: its messages up to the end of a turn become the beginning of a new session, in one transaction.
 * Turns keep their ids. So a turn in the copy is answered from there when it is submitted again, and no call of it runs
 * again. Records, jobs and questions stay with the old session. */
#include <string.h>

#include "stores/sqlite/schema.h"
#include "stores/sqlite/sqlite.h"
#include "support/text.h"

/** A fork that is written. */
typedef struct forking {
  tp__sqlite_store *s;
  const tp_kept_fork *request;
  int64_t from, to;    /* sessions; 0: there is none */
  int64_t first, last; /* positions of what is copied */
  bool exists;         /* a session with the new name exists: nothing was written */
} forking;

/* The statement has four parameters: tenant, session, new session, turn. */
static int find_fork_row(sqlite3 *db, const char *sql, const tp_kept_fork *request, int64_t session,
                         int64_t values[2]) {
  sqlite3_stmt *row = NULL;
  const tp_text texts[] = {tp_text_of(request->tenant), tp_text_of(request->session), tp_text_of(request->new_session),
                           tp_text_of(request->turn)};
  values[0] = values[1] = 0;
  int rc = sqlite3_prepare_v2(db, sql, -1, &row, NULL);
  for (int i = 0; i < 4 && rc == SQLITE_OK && i < sqlite3_bind_parameter_count(row); i++)
    rc = tp__sqlite_bind_text(row, i + 1, texts[i]);
  if (rc == SQLITE_OK && sqlite3_bind_parameter_count(row) == 5) rc = sqlite3_bind_int64(row, 5, session);
  if (rc == SQLITE_OK) rc = sqlite3_step(row);
  for (int i = 0; rc == SQLITE_ROW && i < sqlite3_column_count(row); i++) values[i] = sqlite3_column_int64(row, i);
  sqlite3_finalize(row);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Without a turn everything is copied. */
static int find_sessions_locked(forking *f) {
  static const char old_sql[] = "SELECT id, next FROM session WHERE tenant = ?1 AND name = ?2 AND next > 0";
  static const char new_sql[] = "SELECT id FROM session WHERE tenant = ?1 AND name = ?3";
  static const char range_sql[] =
      "SELECT min(position), coalesce(max(iif(?4 = '' OR turn = ?4, position, NULL)), -1) FROM message"
      " WHERE session = ?5";
  int64_t found[2];
  TP__LOCKED(&f->s->mutex);
  int rc = find_fork_row(f->s->db, new_sql, f->request, 0, found);
  f->exists = found[0] != 0;
  if (rc == SQLITE_OK) rc = find_fork_row(f->s->db, old_sql, f->request, 0, found);
  f->from = found[0];
  if (rc == SQLITE_OK && f->from) rc = find_fork_row(f->s->db, range_sql, f->request, f->from, found);
  f->first = found[0];
  f->last = found[1];
  return rc;
}

static int copy_locked(forking *f) {
  static const char new_sql[] =
      "INSERT INTO session (tenant, name, next, owner, epoch, running) SELECT tenant, ?4, ?3 - ?2 + 1, 0, 0, 0"
      " FROM session WHERE id = ?1";
  static const char messages_sql[] =
      "INSERT INTO message (session, unix_ms, position, " TP__SQL_NAMES(TP__MESSAGE_LIST)
      ") SELECT ?4, unix_ms, position - ?2, " TP__SQL_NAMES(TP__MESSAGE_LIST)
      " FROM message WHERE session = ?1 AND position <= ?3 ORDER BY position";
  static const char calls_sql[] =
      "INSERT INTO tool_call (message, position, id, name, malformed, arguments) SELECT copy.id, c.position, c.id,"
      " c.name, c.malformed, c.arguments FROM message AS original JOIN tool_call AS c ON c.message = original.id"
      " JOIN message AS copy ON copy.session = ?4 AND copy.position = original.position - ?2"
      " WHERE original.session = ?1 AND original.position <= ?3";
  TP__LOCKED(&f->s->mutex);
  sqlite3 *db = f->s->db;
  sqlite3_stmt *insert = NULL;
  int64_t values[] = {f->from, f->first, f->last, 0};
  assert(f->from && f->last >= f->first);
  int rc = sqlite3_prepare_v2(db, new_sql, -1, &insert, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(insert, values, 3);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(insert, 4, tp_text_of(f->request->new_session));
  if (insert) rc = tp__sqlite_run(insert, rc);
  sqlite3_finalize(insert);
  values[3] = f->to = sqlite3_last_insert_rowid(db);
  if (rc == SQLITE_OK) rc = tp__sqlite_once(db, messages_sql, values, 4, NULL);
  return rc == SQLITE_OK ? tp__sqlite_once(db, calls_sql, values, 4, NULL) : rc;
}

static int write_fork(void *ctx) {
  forking *f = ctx;
  f->to = 0;
  int rc = find_sessions_locked(f);
  return rc == SQLITE_OK && !f->exists && f->from && f->last >= f->first ? copy_locked(f) : rc;
}

/* As the core has it of ids. */
static tp_status check_fork(const forking *f, tp_fault *fault) {
  const tp_kept_fork *r = f->request;
  if (f->exists)
    return tp__refuse(fault, TP_ERR_DUPLICATE_ID, r->new_session, "there is a session %s already", r->new_session);
  if (!f->from) return tp__refuse(fault, TP_ERR_NOT_FOUND, r->session, "there is no session %s", r->session);
  if (!f->to) return tp__refuse(fault, TP_ERR_NOT_FOUND, r->turn, "session %s has no turn %s", r->session, r->turn);
  return TP_OK;
}

tp_status tp_sqlite_session_fork(const tp_store *store, const tp_kept_fork *theirs, uint64_t *ret_messages,
                                 tp_fault *fault) {
  tp_kept_fork request;
  forking f = {.s = tp__sqlite_store_of(store), .request = &request};
  if (!f.s || !theirs)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_session_fork needs a store of this library and a request");
  tp_status status = tp__struct_read(&request, sizeof request, theirs, "tp_kept_fork", fault);
  if (status != TP_OK) return status;
  if (!request.session) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_kept_fork.session is NULL");
  if (!tp__is_id(tp_text_of(request.new_session)))
    return tp__refuse(fault, TP_ERR_BAD_ID, request.new_session,
                      "the new session needs an id of 1 to 128 bytes without white space");
  if (f.s->options.read_only)
    return tp__refuse(fault, TP_ERR_STORE_READONLY, f.s->path, "%s is open for reading only", f.s->path);
  status = tp__store_write(f.s, write_fork, &f, "fork a session", fault);
  if (status == TP_OK) status = check_fork(&f, fault);
  if (status == TP_OK && ret_messages) *ret_messages = (uint64_t)(f.last - f.first + 1);
  return status;
}
