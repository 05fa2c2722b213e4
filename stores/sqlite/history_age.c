/* SPDX-License-Identifier: Apache-2.0
 *
 * The age of a history: deletes turns that are older than a bound. Messages have no index by time. But their ids rise
 * with time, unless a clock was set back. So a step reads a window of ids, from the lowest on. If one of the window's
 * messages is old, the next step reads the next window. For each session in a window, all turns before its first turn
 * that is young enough are deleted. So the rest of a conversation is its end, from the first message of a turn on, and
 * no result remains without its call. A session on which a process works, or in which a question is open, is not
 * changed until that has ended. */
#include "stores/sqlite/history_age.h"

#include <string.h>

#include "stores/sqlite/claims.h"

enum { WINDOW = 500 };

/** A session in the window. */
typedef struct found {
  int64_t ids[WINDOW];
  int count;
} found;

static int find_sessions(sqlite3 *db, int64_t after, int64_t oldest_ms, found *f) {
  static const char sql[] =
      "SELECT DISTINCT session FROM (SELECT id, session, unix_ms FROM message WHERE id > ?1 ORDER BY id LIMIT 500)"
      " WHERE unix_ms < ?2";
  sqlite3_stmt *rows = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &rows, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(rows, (const int64_t[]){after, oldest_ms}, 2);
  while (rc == SQLITE_OK && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    assert(f->count < WINDOW);
    f->ids[f->count++] = sqlite3_column_int64(rows, 0);
    rc = SQLITE_OK;
  }
  sqlite3_finalize(rows);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- what stays ---- */

static int is_worked_on(tp__sqlite_store *s, int64_t session, bool *ret_is) {
  static const char sql[] =
      "SELECT process FROM session JOIN running ON running.session = session.name AND running.tenant = session.tenant"
      " WHERE session.id = ?1 AND state = 2 UNION "
      "SELECT process FROM session JOIN entry ON entry.session = session.name AND entry.tenant = session.tenant"
      " WHERE session.id = ?1 AND ended_ns = 0";
  sqlite3_stmt *rows = NULL;
  int64_t owner = 0;
  tp__holder holder = {0, 0};
  int rc = tp__sqlite_once(s->db, "SELECT owner FROM session WHERE id = ?1 AND running = 1", &session, 1, &owner);
  if (rc == SQLITE_OK && owner)
    rc = tp__sqlite_find_holder(s->db, owner, (tp_text){s->boot_id, strlen(s->boot_id)}, &holder);
  *ret_is = holder.process_id != 0;
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(s->db, sql, -1, &rows, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(rows, &session, 1);
  while (rc == SQLITE_OK && !*ret_is && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    int64_t process_id = 0;
    rc = tp__sqlite_live_process(s, s->db, sqlite3_column_int64(rows, 0), &process_id);
    *ret_is = process_id != 0;
  }
  sqlite3_finalize(rows);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int is_in_use(tp__sqlite_store *s, int64_t session, bool *ret_is) {
  static const char open_question[] =
      "SELECT EXISTS (SELECT 1 FROM session JOIN question ON question.session = session.name"
      " AND question.tenant = session.tenant WHERE session.id = ?1 AND state = 0 AND expires_ms > ?2)";
  int64_t is_asked = 0;
  *ret_is = false;
  int rc = tp__sqlite_once(s->db, open_question, (const int64_t[]){session, tp__wall_ms()}, 2, &is_asked);
  if (rc != SQLITE_OK || is_asked) {
    *ret_is = is_asked != 0;
    return rc;
  }
  return is_worked_on(s, session, ret_is);
}

/* The id from which on the session stays; INT64_MAX: no message of it stays. */
static int find_cut(sqlite3 *db, int64_t session, int64_t oldest_ms, int64_t *ret_cut) {
  static const char first_young[] = "SELECT id FROM message WHERE session = ?1 AND unix_ms >= ?2 ORDER BY id LIMIT 1";
  static const char its_turn[] =
      "SELECT min(id) FROM message WHERE session = ?1 AND turn <> ''"
      " AND turn = (SELECT turn FROM message WHERE id = ?2)";
  int64_t young = 0, first = 0;
  int rc = tp__sqlite_once(db, first_young, (const int64_t[]){session, oldest_ms}, 2, &young);
  if (rc == SQLITE_OK && young) rc = tp__sqlite_once(db, its_turn, (const int64_t[]){session, young}, 2, &first);
  *ret_cut = !young ? INT64_MAX : first && first < young ? first : young;
  return rc;
}

static int delete_before_cut(sqlite3 *db, int64_t session, int64_t cut, tp__aged *aged) {
  static const char *const sql[] = {
      "DELETE FROM tool_call WHERE message IN (SELECT id FROM message WHERE session = ?1 AND id < ?2)",
      "DELETE FROM message WHERE session = ?1 AND id < ?2",
      "DELETE FROM session WHERE id = ?1 AND ?2 AND NOT EXISTS (SELECT 1 FROM message WHERE session = ?1)"};
  const int64_t values[] = {session, cut};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof sql / sizeof *sql && rc == SQLITE_OK; i++) {
    rc = tp__sqlite_once(db, sql[i], values, 2, NULL);
    if (rc != SQLITE_OK || i != 1) continue;
    aged->messages += (uint64_t)sqlite3_changes64(db);
    aged->sessions += sqlite3_changes64(db) > 0;
  }
  return rc;
}

/* ---- a step ---- */

static int age_step(tp__sqlite_store *s, int64_t oldest_ms, tp__aged *aged) {
  static const char last_of_window[] =
      "SELECT max(id) FROM (SELECT id FROM message WHERE id > ?1 ORDER BY id LIMIT 500)";
  found f = {.count = 0};
  int64_t last = 0;
  int rc = tp__sqlite_once(s->db, last_of_window, &aged->looked_at, 1, &last);
  if (rc == SQLITE_OK) rc = find_sessions(s->db, aged->looked_at, oldest_ms, &f);
  for (int i = 0; i < f.count && rc == SQLITE_OK; i++) {
    bool stays = false;
    int64_t cut = 0;
    rc = is_in_use(s, f.ids[i], &stays);
    if (rc == SQLITE_OK && stays) aged->sessions_in_use++;
    if (rc == SQLITE_OK && !stays) rc = find_cut(s->db, f.ids[i], oldest_ms, &cut);
    if (rc == SQLITE_OK && !stays) rc = delete_before_cut(s->db, f.ids[i], cut, aged);
  }
  aged->has_more = f.count > 0;
  aged->looked_at = last;
  return rc;
}

int tp__sqlite_age_history_locked(tp__sqlite_store *s, int64_t oldest_ms, tp__aged *aged) {
  TP__LOCKED(&s->mutex);
  tp__aged before = *aged;
  int rc = tp__sqlite_begin(s->db);
  if (rc == SQLITE_OK) rc = age_step(s, oldest_ms, aged);
  rc = tp__sqlite_end(s->db, rc);
  if (rc != SQLITE_OK) *aged = before;
  return rc;
}
