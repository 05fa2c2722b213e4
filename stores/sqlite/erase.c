/* SPDX-License-Identifier: Apache-2.0
 *
 * Erasing sessions. One transaction deletes all rows of the sessions, and notes in row -1 of counter that copies are
 * left. SQLite overwrites what it deletes, but when it moved rows between pages earlier, it may have left copies. So
 * the file is then written anew (VACUUM). After that the write-ahead log is written back and emptied, and the note is
 * deleted. If a process dies meanwhile, the note stays, and the next erasure does the rest. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sessions.h"

/* ---- the rows ---- */

#define ERASED "(tenant, session) IN (SELECT tenant, session FROM temp.erased)"
#define SESSIONS "(SELECT id FROM session WHERE (tenant, name) IN (SELECT tenant, session FROM temp.erased))"

static const char *const delete_sql[] = {
    "DELETE FROM tool_call WHERE message IN (SELECT id FROM message WHERE session IN " SESSIONS ")",
    "DELETE FROM message WHERE session IN " SESSIONS,
    "DELETE FROM session WHERE id IN " SESSIONS,
    "DELETE FROM run WHERE entry IN (SELECT number FROM entry WHERE " ERASED ")",
    "DELETE FROM entry WHERE " ERASED,
    "DELETE FROM turn WHERE " ERASED,
    "DELETE FROM running WHERE " ERASED,
    "DELETE FROM audit WHERE turn <> '' AND " ERASED,
    "DELETE FROM tool_start WHERE " ERASED,
    "DELETE FROM question WHERE " ERASED,
    "DELETE FROM task WHERE " ERASED,
    "DELETE FROM job WHERE " ERASED};

/* Run after any erasure. A deleted job may have blocked later jobs of its order key. Attempts are deleted with their
 * entry. Attempts of an entry that never got a record (its process died, or the queue was full) belong to no session,
 * and are deleted, too. */
static const char *const settle_sql[] = {
    "UPDATE job SET is_first = 1 WHERE is_first = 0 AND state IN (1, 2) AND place = (SELECT min(place) FROM job AS "
    "other"
    " WHERE other.order_key = job.order_key AND other.state IN (1, 2))",
    "DELETE FROM attempt WHERE process NOT IN (SELECT id FROM process)"
    " AND NOT EXISTS (SELECT 1 FROM entry WHERE entry.process = attempt.process AND entry.id = attempt.entry)",
    "DELETE FROM content WHERE process NOT IN (SELECT id FROM process)"
    " AND NOT EXISTS (SELECT 1 FROM entry WHERE entry.process = content.process AND entry.id = content.entry)"};

int tp__sqlite_exec_each(sqlite3 *db, const char *const *sql, size_t count) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < count && rc == SQLITE_OK; i++) rc = sqlite3_exec(db, sql[i], NULL, NULL, NULL);
  return rc;
}

/** Which sessions are chosen. */
typedef struct choice {
  sqlite3_stmt *insert;
  uint64_t chosen, kept;
  int64_t process_id; /* the first process that uses one of the sessions that are kept */
  int rc;
} choice;

static bool choose(void *ctx, const tp_kept_session *session) {
  choice *c = ctx;
  if (session->process_id) {
    if (c->kept++ == 0) c->process_id = session->process_id;
    return true;
  }
  c->chosen++;
  c->rc = tp__sqlite_run(c->insert,
                         tp__sqlite_bind_texts(c->insert, 1, (const tp_text[]){session->tenant, session->session}, 2));
  return c->rc == SQLITE_OK;
}

static int choose_locked(tp__sqlite_store *s, const tp_kept_query *query, choice *c) {
  TP__LOCKED(&s->mutex);
  static const char table[] =
      "CREATE TEMP TABLE erased (tenant TEXT NOT NULL, session TEXT NOT NULL, PRIMARY KEY (tenant, session))"
      " WITHOUT ROWID";
  int rc = sqlite3_exec(s->db, table, NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(s->db, "INSERT INTO temp.erased VALUES (?1, ?2)", -1, &c->insert, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_each_session(s, s->db, query, choose, c);
  sqlite3_finalize(c->insert);
  return rc == SQLITE_OK ? c->rc : rc;
}

static int erase_sessions_locked(tp__sqlite_store *s, const tp_kept_choice *request, tp__erased_turns *ret_erased) {
  TP__LOCKED(&s->mutex);
  const tp_kept_query query = tp__choice_query(request);
  choice c = {.rc = SQLITE_OK};
  int rc = choose_locked(s, &query, &c);
  int64_t before = sqlite3_total_changes64(s->db);
  if (rc == SQLITE_OK) rc = tp__sqlite_exec_each(s->db, delete_sql, sizeof delete_sql / sizeof *delete_sql);
  *ret_erased = (tp__erased_turns){.sessions = c.chosen,
                                   .sessions_in_use = c.kept,
                                   .process_id = c.process_id,
                                   .rows = (uint64_t)(sqlite3_total_changes64(s->db) - before)};
  return rc;
}

/* The note is written with the deletion, so that no crash leaves copies without a note. It counts erasures: a process
 * that overwrites must not remove the note of another process that has deleted meanwhile. */
static const char note_sql[] = "INSERT INTO counter VALUES (-1, 1) ON CONFLICT DO UPDATE SET value = value + 1";

/* When rows are only to be counted, they are deleted as well, and the transaction is rolled back. */
static int delete_counted_locked(tp__sqlite_store *s, const tp_kept_choice *request, tp__erased_turns *ret_erased,
                                 tp_status *ret_status) {
  TP__LOCKED(&s->mutex);
  *ret_status = TP_OK;
  *ret_erased = (tp__erased_turns){.sessions = 0};
  int rc = sqlite3_exec(s->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_begin(s->db);
  if (rc == SQLITE_OK)
    rc = tp__choice_is_by_turn(request) ? tp__sqlite_erase_turns_locked(s, request, ret_erased, ret_status)
                                        : erase_sessions_locked(s, request, ret_erased);
  if (rc == SQLITE_OK) rc = tp__sqlite_exec_each(s->db, settle_sql, sizeof settle_sql / sizeof *settle_sql);
  if (rc == SQLITE_OK && ret_erased->rows) rc = sqlite3_exec(s->db, note_sql, NULL, NULL, NULL);
  const bool is_undone = request->only_counts || *ret_status != TP_OK;
  int end = tp__sqlite_end(s->db, rc == SQLITE_OK && is_undone ? SQLITE_ABORT : rc);
  (void)sqlite3_exec(s->db, "PRAGMA temp_store = DEFAULT", NULL, NULL, NULL); /* drops the tables, too */
  return is_undone && rc == SQLITE_OK ? SQLITE_OK : end;
}

/* ---- the copies ---- */

static int read_note(sqlite3 *db, int64_t *ret_note) {
  return tp__sqlite_once(db, "SELECT value FROM counter WHERE id = -1", NULL, 0, ret_note);
}

/* Nothing where no erasure has left copies. */
static int overwrite_locked(tp__sqlite_store *s) {
  TP__LOCKED(&s->mutex);
  int64_t note = 0;
  int rc = read_note(s->db, &note);
  if (rc != SQLITE_OK || !note) return rc;
  rc = sqlite3_exec(s->db, "VACUUM", NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  return rc == SQLITE_OK ? tp__sqlite_once(s->db, "DELETE FROM counter WHERE id = -1 AND value = ?1", &note, 1, NULL)
                         : rc;
}

static tp_status overwrite_failed(tp__sqlite_store *s, int rc, tp_fault *fault) {
  tp_status status = tp__sqlite_status(rc);
  if (status == TP_ERR_STORE_BUSY)
    return tp__refuse(fault, status, s->path,
                      "%s: the rows are deleted; copies of them are left in the file or its log, since another process"
                      " uses it: erase again when it has ended",
                      s->path);
  return tp__store_fail(s, s->db, "overwrite copies of the deleted rows (erase again to do it)", rc, fault);
}

/* ---- the whole of it ---- */

static tp_status refuse_while_shared(tp__sqlite_store *s, tp_fault *fault) {
  int64_t process_id = 0;
  int rc = tp__sqlite_other_process(s, s->db, &process_id);
  if (rc != SQLITE_OK) return tp__store_fail(s, s->db, "look which processes use it", rc, fault);
  if (!process_id) return TP_OK;
  return tp__refuse(fault, TP_ERR_BUSY, s->path,
                    "%s: process %lld uses it, and may write again what it has of a session: end it first", s->path,
                    (long long)process_id);
}

static tp_status erase_locked(tp__sqlite_store *s, const tp_kept_choice *request, tp_kept_erased *report,
                              tp_fault *fault) {
  TP__LOCKED(&s->mutex);
  tp__erased_turns erased;
  tp_status status = request->with_others ? TP_OK : refuse_while_shared(s, fault);
  if (status != TP_OK) return status;
  int rc = delete_counted_locked(s, request, &erased, &status);
  if (status == TP_ERR_NO_MEMORY) return tp__refuse(fault, status, s->path, "no memory to select turns");
  if (status != TP_OK) return tp__refuse(fault, status, s->path, "%s: a row is too large to be searched", s->path);
  if (rc != SQLITE_OK) return tp__store_fail(s, s->db, "erase sessions", rc, fault);
  report->sessions = erased.sessions;
  report->rows = erased.rows;
  report->turns = erased.turns;
  report->turns_unknown = erased.turns_unknown;
  report->sessions_in_use = erased.sessions_in_use;
  report->process_id = erased.process_id;
  if (request->only_counts) return TP_OK;
  rc = overwrite_locked(s);
  report->is_complete = rc == SQLITE_OK;
  if (rc != SQLITE_OK) return overwrite_failed(s, rc, fault);
  if (erased.sessions_in_use == 0) return TP_OK;
  return tp__refuse(
      fault, TP_ERR_BUSY, s->path,
      "%s: %llu sessions stay: process %lld works on them; erase them when their turns and jobs have ended", s->path,
      (unsigned long long)erased.sessions_in_use, (long long)erased.process_id);
}

tp_status tp_sqlite_sessions_erase(const tp_store *store, const tp_kept_choice *theirs, tp_kept_erased *ret_erased,
                                   tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  tp_kept_choice request;
  tp_kept_erased report = {.struct_size = sizeof report};
  if (!s || !theirs)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_sessions_erase needs a store of this library and a request");
  tp_status status = tp__choice_read(&request, theirs, fault);
  if (status != TP_OK) return status;
  if (s->options.read_only)
    return tp__refuse(fault, TP_ERR_STORE_READONLY, s->path, "%s is open for reading only", s->path);
  status = tp__sqlite_commit(s, fault); /* otherwise waiting records would be written after the erasure */
  if (status != TP_OK) return status;
  tp__lock_acquire(&s->mutex);
  status = erase_locked(s, &request, &report, fault);
  tp__lock_release(&s->mutex);
  if (ret_erased) {
    tp_status shown = tp__choice_show(ret_erased, &report);
    if (status == TP_OK) status = shown;
  }
  return status;
}

tp_status tp_sqlite_erasure_is_left(const tp_store *store, bool *ret_is_left, tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  sqlite3 *db = NULL;
  int64_t note = 0;
  if (!s || !ret_is_left)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_erasure_is_left needs a store of this library and a place");
  tp_status status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = read_note(db, &note);
  if (rc == SQLITE_OK) *ret_is_left = note != 0;
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "look for an erasure", rc, fault);
  tp__store_return_reader(s, db);
  return status;
}
