/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the sessions of a file, from all tables that mention them: history, records, jobs, questions, tasks and calls.
 * Read on a connection of its own; erase.c reads the same on the connection that writes. */
#include "stores/sqlite/sessions.h"

#include <string.h>

#include "stores/sqlite/claims.h"
#include "support/text.h"

/* ---- the numbers of each session ---- */

/* A row for each session in a table: the number of its rows, their first and last time, and a process that has not
 * ended one of them. */
#define PART(what, table, first, last, process)                                                        \
  " UNION ALL SELECT tenant, session, " what ", count(*), min(" first "), max(" last "), max(" process \
  "), 0 FROM " table " GROUP BY tenant, session"
#define OF_MESSAGES(which, order) \
  "(SELECT " which " FROM message WHERE message.session = session.id ORDER BY id " order " LIMIT 1)"

static const char sessions_sql[] =
    "WITH part (tenant, session, what, number, first, last, process, owner) AS ("
    "SELECT tenant, name, 0, (SELECT count(*) FROM message WHERE message.session = session.id),"
    " " OF_MESSAGES("unix_ms", "ASC") ", " OF_MESSAGES("unix_ms", "DESC") ", 0, iif(running, owner, 0) FROM session"
    PART("1", "turn", "started_unix_ms", "ended_unix_ms", "iif(ended_ns = 0, process, 0)")
    PART("1", "running", "started_unix_ms", "ended_unix_ms", "iif(state = 2, process, 0)")
    PART("2", "entry", "started_unix_ms", "started_unix_ms", "iif(ended_ns = 0, process, 0)")
    PART("3", "job", "inserted_ms", "max(inserted_ms, ended_ms)", "iif(state = 2, process, 0)")
    PART("4", "question", "asked_ms", "max(asked_ms, answered_ms)", "0")
    PART("5", "task", "created_unix_ms", "created_unix_ms", "0")
    PART("6", "tool_start", "started_unix_ms", "started_unix_ms", "0")
    PART("7", "audit WHERE turn <> ''", "unix_ms", "unix_ms", "0")
    ") SELECT sum(iif(what = 0, number, 0)), sum(iif(what = 1, number, 0)), sum(iif(what = 2, number, 0)),"
    " sum(iif(what = 3, number, 0)), sum(iif(what = 4, number, 0)), sum(iif(what = 5, number, 0)),"
    " sum(iif(what = 6, number, 0)), sum(iif(what = 7, number, 0)), coalesce(min(nullif(first, 0)), 0),"
    " coalesce(max(last), 0) AS last_ms, max(process), tenant, session, max(owner) FROM part"
    " WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR session = ?2) GROUP BY tenant, session"
    " HAVING ?3 = 0 OR (last_ms > 0 AND last_ms < ?3) ORDER BY last_ms, tenant, session LIMIT ?4";

#define SESSION(member) TP__COLUMN(tp_kept_session, member)
static const tp__column session_columns[] = {
    SESSION(messages),   SESSION(turns),  SESSION(entries), SESSION(jobs),          SESSION(questions),
    SESSION(tasks),      SESSION(calls),  SESSION(audits),  SESSION(first_unix_ms), SESSION(last_unix_ms),
    SESSION(process_id), SESSION(tenant), SESSION(session), SESSION(lease_ms)};
static const tp__columns sessions = TP__COLUMNS(tp_kept_session, session_columns);

static int bind_string(sqlite3_stmt *statement, int index, const char *string) {
  return string ? tp__sqlite_bind_text(statement, index, tp_text_of(string)) : SQLITE_OK; /* else NULL: any */
}

/* The column lease_ms has the process whose turn has the session. */
static int add_holder(const tp__sqlite_store *s, sqlite3 *db, tp_kept_session *session) {
  tp__holder holder = {0, 0};
  int64_t owner = session->lease_ms;
  int rc = SQLITE_OK;
  if (owner) rc = tp__sqlite_find_holder(db, owner, (tp_text){s->boot_id, strlen(s->boot_id)}, &holder);
  session->lease_ms = holder.lease_ms;
  if (holder.process_id) session->process_id = holder.process_id;
  return rc;
}

int tp__sqlite_each_session(tp__sqlite_store *s, sqlite3 *db, const tp_kept_query *query, tp_kept_session_fn each,
                            void *ctx) {
  assert(db && query && each);
  sqlite3_stmt *rows = NULL;
  bool goes_on = true;
  int rc = sqlite3_prepare_v2(db, sessions_sql, -1, &rows, NULL);
  if (rc == SQLITE_OK) rc = bind_string(rows, 1, query->tenant);
  if (rc == SQLITE_OK) rc = bind_string(rows, 2, query->session);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(rows, 3, query->before_unix_ms);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_int64(rows, 4, query->limit && query->limit < INT64_MAX ? (int64_t)query->limit : -1);
  while (rc == SQLITE_OK && goes_on && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    tp_kept_session session;
    tp__sqlite_read_struct(rows, 0, &sessions, &session);
    rc = tp__sqlite_live_process(s, db, session.process_id, &session.process_id);
    if (rc == SQLITE_OK) rc = add_holder(s, db, &session);
    if (rc == SQLITE_OK) goes_on = each(ctx, &session);
  }
  sqlite3_finalize(rows);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

tp_status tp_sqlite_sessions_list(const tp_store *store, const tp_kept_query *theirs, tp_kept_session_fn each,
                                  void *ctx, tp_fault *fault) {
  tp_kept_query query;
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  sqlite3 *db = NULL;
  if (!s || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_sessions_list needs a store of this library and a callback");
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_kept_query", fault);
  if (status != TP_OK) return status;
  if (!s->options.read_only) (void)!tp__sqlite_commit(s, NULL); /* what was written before is worth seeing */
  status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = tp__sqlite_each_session(s, db, &query, each, ctx);
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "list sessions", rc, fault);
  tp__store_return_reader(s, db);
  return status;
}

/* ---- everything of one ---- */

#define BY_IDS(columns, table, order) \
  "SELECT " columns " FROM " table " WHERE tenant = ?1 AND session = ?2 ORDER BY " order
#define OF_HISTORY "FROM session JOIN message ON message.session = session.id"
#define HISTORY_IDS " WHERE session.tenant = ?1 AND session.name = ?2 ORDER BY message.id"
#define OF_ENTRY(columns, table, join, order)                         \
  "SELECT entry.turn, " columns " FROM entry JOIN " table " ON " join \
  " WHERE entry.tenant = ?1 AND entry.session = ?2 ORDER BY entry.number, " order

static const struct kind {
  const char *name, *sql;
} kinds[] = {
    {"message",
     "SELECT message.id, unix_ms, CASE role WHEN 1 THEN 'user' WHEN 2 THEN 'assistant' WHEN 3 THEN 'tool'"
     " ELSE 'end' END AS role, is_error, turn, text, call_id, message.name, parts, value,"
     " provider_data, ending " OF_HISTORY HISTORY_IDS},
    {"tool_call",
     "SELECT turn, message, tool_call.position, tool_call.id, tool_call.name, malformed, arguments " OF_HISTORY
     " JOIN tool_call ON tool_call.message = message.id" HISTORY_IDS ", tool_call.position"},
    {"turn", BY_IDS("*", "turn", "row")},
    {"step",
     "SELECT turn.turn AS turn, step.kind, round, place, step.outcome, step.started_ns, step.ended_ns, step.name,"
     " entry_id"
     " FROM turn JOIN step ON step.turn = turn.row WHERE tenant = ?1 AND session = ?2 ORDER BY row, position"},
    {"running", BY_IDS("*", "running", "row")},
    {"running_step",
     "SELECT running.turn AS turn, s.kind, s.round, s.place, s.outcome, s.started_ns, s.ended_ns, s.name, s.entry_id"
     " FROM running JOIN running_step AS s ON s.running = running.row WHERE tenant = ?1 AND session = ?2"
     " ORDER BY row, position"},
    {"entry", BY_IDS("*", "entry", "number")},
    {"run", OF_ENTRY("run.*", "run", "run.entry = entry.number", "run.position")},
    {"attempt",
     OF_ENTRY("attempt.*", "attempt", "attempt.process = entry.process AND attempt.entry = entry.id", "attempt.row")},
    {"content",
     OF_ENTRY("content.*", "content", "content.process = entry.process AND content.entry = entry.id", "content.row")},
    {"audit", "SELECT * FROM audit WHERE tenant = ?1 AND session = ?2 AND turn <> '' ORDER BY row"},
    {"call", BY_IDS("*", "tool_start", "row")},
    {"job", BY_IDS("*", "job", "id")},
    {"question", BY_IDS("*", "question", "number")},
    {"task", BY_IDS("*", "task", "created_unix_ms, key")}};

/* A blob is written as a value if it can be read as one, else as bytes. */
static void write_column(sqlite3_stmt *row, int at, tp_writer *writer) {
  tp_text text = tp__sqlite_column(row, at);
  switch (sqlite3_column_type(row, at)) {
    case SQLITE_INTEGER:
      tp_write_int(writer, sqlite3_column_int64(row, at));
      return;
    case SQLITE_NULL:
      tp_write_null(writer);
      return;
    case SQLITE_BLOB:
      if (text.size == 0) tp_write_null(writer);
      else if (tp_value_check(text, NULL) == TP_OK) tp_write_value(writer, text);
      else tp_write_bytes(writer, text);
      return;
    default:
      if (tp_utf8_valid(text, NULL)) tp_write_text(writer, text);
      else tp_write_bytes(writer, text);
  }
}

/** Who gets the rows. */
typedef struct receiver {
  tp_kept_row_fn each;
  void *ctx;
  tp_writer *writer;
  tp_status status; /* of what was written */
} receiver;

static bool show_row(receiver *to, const char *kind, sqlite3_stmt *row) {
  tp_text value;
  tp_writer_reset(to->writer);
  tp_write_map(to->writer, (size_t)sqlite3_column_count(row));
  for (int i = 0; i < sqlite3_column_count(row); i++) {
    tp_write_string(to->writer, sqlite3_column_name(row, i));
    write_column(row, i, to->writer);
  }
  to->status = tp_writer_finish(to->writer, &value);
  return to->status == TP_OK && to->each(to->ctx, kind, value);
}

static int each_row_of(sqlite3 *db, const struct kind *kind, const char *tenant, const char *session, receiver *to,
                       bool *goes_on) {
  sqlite3_stmt *rows = NULL;
  int rc = sqlite3_prepare_v2(db, kind->sql, -1, &rows, NULL);
  if (rc == SQLITE_OK) rc = bind_string(rows, 1, tenant);
  if (rc == SQLITE_OK) rc = bind_string(rows, 2, session);
  while (rc == SQLITE_OK && *goes_on && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    *goes_on = show_row(to, kind->name, rows);
    rc = SQLITE_OK;
  }
  sqlite3_finalize(rows);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int tp__sqlite_each_row(sqlite3 *db, const char *tenant, const char *session, tp_writer *writer, tp_kept_row_fn each,
                        void *ctx, tp_status *ret_status) {
  receiver to = {each, ctx, writer, TP_OK};
  bool goes_on = true;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && goes_on && i < sizeof kinds / sizeof kinds[0]; i++)
    rc = each_row_of(db, &kinds[i], tenant, session, &to, &goes_on);
  *ret_status = to.status;
  return rc;
}

tp_status tp_sqlite_session_rows(const tp_store *store, const char *tenant, const char *session, tp_kept_row_fn each,
                                 void *ctx, tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  tp_writer *writer = NULL;
  tp_status written = TP_OK;
  sqlite3 *db = NULL;
  if (!s || !tenant || !session || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_session_rows needs a store of this library, a tenant, a session and a callback");
  if (!s->options.read_only) (void)!tp__sqlite_commit(s, NULL);
  tp_status status = tp_writer_new(NULL, &writer);
  if (status == TP_OK) status = tp__sqlite_begin_reading(s, &db, fault);
  if (status != TP_OK) {
    tp_writer_free(writer);
    return status;
  }
  int rc = tp__sqlite_each_row(db, tenant, session, writer, each, ctx, &written);
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "read a session", rc, fault);
  else if (written != TP_OK) status = tp__refuse(fault, written, s->path, "%s: a row is too large", s->path);
  tp__sqlite_end_reading(s, db);
  tp_writer_free(writer);
  return status;
}
