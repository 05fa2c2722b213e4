/* SPDX-License-Identifier: Apache-2.0
 *
 * export.c: passes the rows that an erasure would delete to the host's function, and deletes nothing. Where turns are
 * selected, each session is read twice, in one snapshot: once to select (stores/choice.h), and once to pass. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sessions.h"

/** Who gets the rows. */
typedef struct export {
  tp__sqlite_store *s;
  sqlite3 *db;
  tp_kept_export_fn each;
  void *ctx;
  tp_writer *writer;
  tp__choice choice;
  bool is_by_turn;                /* else whole sessions are passed */
  const tp_kept_session *session; /* whose rows are passed now */
  tp__erased_turns passed;
  bool stopped;
  int rc;
  tp_status status;
}
export;

static bool pass_row(void *ctx, const char *kind, tp_text row) {
  export *x = ctx;
  if (x->is_by_turn && !tp__choice_has(&x->choice, kind, row)) return true;
  x->passed.rows++;
  x->stopped = !x->each(x->ctx, x->session, kind, row);
  return !x->stopped;
}

/* @return whether rows of the session are to be passed. */
static bool choose_of_session(export *x) {
  if (!x->is_by_turn) return true;
  x->rc = tp__sqlite_choose_of_session(x->db, x->session, &x->choice, x->writer, &x->status);
  if (x->rc != SQLITE_OK || x->status != TP_OK) return false;
  x->passed.turns += x->choice.turns;
  x->passed.turns_unknown += x->choice.unknown;
  return x->choice.chosen > 0;
}

static bool pass_session(void *ctx, const tp_kept_session *session) {
  export *x = ctx;
  char tenant[TP_ID_BYTES_MAX + 1], name[TP_ID_BYTES_MAX + 1];
  x->session = session;
  if (!choose_of_session(x)) return x->rc == SQLITE_OK && x->status == TP_OK;
  x->passed.sessions++;
  snprintf(tenant, sizeof tenant, "%.*s", (int)session->tenant.size, session->tenant.data);
  snprintf(name, sizeof name, "%.*s", (int)session->session.size, session->session.data);
  x->rc = tp__sqlite_each_row(x->db, tenant, name, x->writer, pass_row, x, &x->status);
  return x->rc == SQLITE_OK && x->status == TP_OK && !x->stopped;
}

/* ---- the whole of it ---- */

static tp_status export_from(tp__sqlite_store *s, const tp_kept_choice *request, export *x, tp_fault *fault) {
  const tp_kept_query query = tp__choice_query(request);
  tp_status status = tp__sqlite_begin_reading(s, &x->db, fault);
  if (status != TP_OK) return status;
  int rc = tp__sqlite_each_session(s, x->db, &query, pass_session, x);
  if (rc == SQLITE_OK) rc = x->rc;
  if (rc != SQLITE_OK) status = tp__store_fail(s, x->db, "export sessions", rc, fault);
  else if (x->status == TP_ERR_NO_MEMORY) status = tp__refuse(fault, x->status, s->path, "no memory to select turns");
  else if (x->status != TP_OK) status = tp__refuse(fault, x->status, s->path, "%s: a row is too large", s->path);
  tp__sqlite_end_reading(s, x->db);
  return status;
}

tp_status tp_sqlite_sessions_export(const tp_store *store, const tp_kept_choice *theirs, tp_kept_export_fn each,
                                    void *ctx, tp_kept_erased *ret_passed, tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  tp_kept_choice request;
  if (!s || !theirs || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_sessions_export needs a store of this library, a request and a callback");
  tp_status status = tp__choice_read(&request, theirs, fault);
  if (status != TP_OK) return status;
  if (!s->options.read_only) (void)!tp__sqlite_commit(s, NULL); /* what was written before is worth seeing */
  export x = {.s = s,
              .each = each,
              .ctx = ctx,
              .choice = {.request = &request},
              .is_by_turn = tp__choice_is_by_turn(&request),
              .rc = SQLITE_OK,
              .status = TP_OK};
  status = tp_writer_new(NULL, &x.writer);
  if (status == TP_OK) status = export_from(s, &request, &x, fault);
  tp_writer_free(x.writer);
  tp__choice_fini(&x.choice);
  if (status != TP_OK || !ret_passed) return status;
  tp_kept_erased report = {.struct_size = sizeof report,
                           .sessions = x.passed.sessions,
                           .rows = x.passed.rows,
                           .turns = x.passed.turns,
                           .turns_unknown = x.passed.turns_unknown};
  return tp__choice_show(ret_passed, &report);
}
