/* SPDX-License-Identifier: Apache-2.0
 *
 * export.c: passes the rows that an erasure would delete to the host's function, and deletes nothing. erase_turns.c
 * selects them, into a temporary table in memory. The connection can write that table, so it is closed at the end and
 * not used by other readers. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sessions.h"

static const char chosen_sql[] =
    "SELECT chosen FROM temp.unit WHERE tenant = ?1 AND session = ?2 AND turn = ?3 AND kind = ?4 AND id = ?5";
static const char has_chosen_sql[] = "SELECT 1 FROM temp.unit WHERE tenant = ?1 AND session = ?2 AND chosen LIMIT 1";

/** Who gets the rows. */
typedef struct export {
  tp__sqlite_store *s;
  sqlite3 *db;
  tp_kept_export_fn each;
  void *ctx;
  tp_writer *writer;
  sqlite3_stmt *chosen, *has_chosen; /* NULL: whole sessions are passed */
  const tp_kept_session *session;    /* whose rows are passed now */
  tp__erased_turns passed;
  bool stopped;
  int rc;
  tp_status status;
}
export;

/* ---- rows ---- */

/* Whether an erasure would delete the row, with its turn or by itself; the same rules as in the statements of
 * erase_turns.c. */
static bool is_chosen(export *x, const char *kind, tp_text row) {
  const bool is_task = strcmp(kind, "task") == 0, is_job = strcmp(kind, "job") == 0;
  const tp_text texts[] = {x->session->tenant, x->session->session, tp__sqlite_turn_of_row(kind, row),
                           tp_text_of(is_task || is_job ? kind : "")};
  int64_t chosen = 0;
  x->rc = tp__sqlite_bind_texts(x->chosen, 1, texts, 4);
  if (x->rc == SQLITE_OK)
    x->rc = is_task ? tp__sqlite_bind_text(x->chosen, 5, tp_value_text(tp_value_get(row, "key")))
                    : sqlite3_bind_int64(x->chosen, 5, is_job ? tp_value_int(tp_value_get(row, "id"), 0) : 0);
  if (x->rc == SQLITE_OK && sqlite3_step(x->chosen) == SQLITE_ROW) chosen = sqlite3_column_int64(x->chosen, 0);
  if (x->rc == SQLITE_OK) x->rc = sqlite3_reset(x->chosen);
  return x->rc == SQLITE_OK && chosen;
}

static bool pass_row(void *ctx, const char *kind, tp_text row) {
  export *x = ctx;
  if (x->chosen && !is_chosen(x, kind, row)) return x->rc == SQLITE_OK;
  x->passed.rows++;
  x->stopped = !x->each(x->ctx, x->session, kind, row);
  return !x->stopped;
}

/* ---- sessions ---- */

static bool has_chosen(export *x) {
  if (!x->has_chosen) return true;
  x->rc = tp__sqlite_bind_texts(x->has_chosen, 1, (const tp_text[]){x->session->tenant, x->session->session}, 2);
  bool has = x->rc == SQLITE_OK && sqlite3_step(x->has_chosen) == SQLITE_ROW;
  if (x->rc == SQLITE_OK) x->rc = sqlite3_reset(x->has_chosen);
  return has;
}

static bool pass_session(void *ctx, const tp_kept_session *session) {
  export *x = ctx;
  char tenant[TP_ID_BYTES_MAX + 1], name[TP_ID_BYTES_MAX + 1];
  x->session = session;
  if (!has_chosen(x)) return x->rc == SQLITE_OK;
  x->passed.sessions++;
  snprintf(tenant, sizeof tenant, "%.*s", (int)session->tenant.size, session->tenant.data);
  snprintf(name, sizeof name, "%.*s", (int)session->session.size, session->session.data);
  int rc = tp__sqlite_each_row(x->db, tenant, name, x->writer, pass_row, x, &x->status);
  if (x->rc == SQLITE_OK) x->rc = rc;
  return x->rc == SQLITE_OK && x->status == TP_OK && !x->stopped;
}

static int choose_turns(export *x, const tp_kept_choice *request) {
  int rc = tp__sqlite_choose_turns(x->s, x->db, request, true, &x->passed, &x->status);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(x->db, chosen_sql, -1, &x->chosen, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(x->db, has_chosen_sql, -1, &x->has_chosen, NULL);
  return rc;
}

static int pass_all(export *x, const tp_kept_choice *request) {
  const tp_kept_query query = {.struct_size = sizeof query,
                               .tenant = request->tenant,
                               .session = request->session,
                               .before_unix_ms = request->before_unix_ms};
  int rc = tp__sqlite_erase_is_by_turn(request) ? choose_turns(x, request) : SQLITE_OK;
  x->passed.sessions = 0; /* counted as they are passed */
  if (rc == SQLITE_OK && x->status == TP_OK) rc = tp__sqlite_each_session(x->s, x->db, &query, pass_session, x);
  sqlite3_finalize(x->chosen);
  sqlite3_finalize(x->has_chosen);
  return rc == SQLITE_OK ? x->rc : rc;
}

/* ---- the whole of it ---- */

static tp_status export_from(tp__sqlite_store *s, const tp_kept_choice *request, export *x, tp_fault *fault) {
  static const char begin_sql[] = "PRAGMA query_only = OFF; PRAGMA temp_store = MEMORY; BEGIN";
  tp_status status = tp__store_take_reader(s, &x->db, fault);
  if (status != TP_OK) return status;
  int rc = sqlite3_exec(x->db, begin_sql, NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = pass_all(x, request);
  if (rc != SQLITE_OK) status = tp__store_fail(s, x->db, "export sessions", rc, fault);
  else if (x->status != TP_OK) status = tp__refuse(fault, x->status, s->path, "%s: a row is too large", s->path);
  sqlite3_close(x->db);
  return status;
}

tp_status tp_sqlite_sessions_export(const tp_store *store, const tp_kept_choice *theirs, tp_kept_export_fn each,
                                    void *ctx, tp_kept_erased *ret_passed, tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  tp_kept_choice request;
  if (!s || !theirs || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_sessions_export needs a store of this library, a request and a callback");
  tp_status status = tp__sqlite_erase_read(&request, theirs, fault);
  if (status != TP_OK) return status;
  if (!s->options.read_only) (void)!tp__sqlite_commit(s, NULL); /* what was written before is worth seeing */
  export x = {.s = s, .each = each, .ctx = ctx, .rc = SQLITE_OK, .status = TP_OK};
  status = tp_writer_new(NULL, &x.writer);
  if (status == TP_OK) status = export_from(s, &request, &x, fault);
  tp_writer_free(x.writer);
  if (status != TP_OK || !ret_passed) return status;
  tp_kept_erased report = {.struct_size = sizeof report,
                           .sessions = x.passed.sessions,
                           .rows = x.passed.rows,
                           .turns = x.passed.turns,
                           .turns_unknown = x.passed.turns_unknown};
  return tp__sqlite_show(ret_passed, &report, sizeof report);
}
