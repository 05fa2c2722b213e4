/* SPDX-License-Identifier: Apache-2.0
 *
 * Erasing turns in sessions that go on: the turns of a person, turns that contain a text, turns that are older than a
 * time. All rows of each session are read, as tp_sqlite_session_rows() passes them; what they say selects turns, jobs
 * and tasks (stores/choice.h), which are put into a temporary table. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sessions.h"

/* kind and id as in tp__unit: id is the number of a job or the key of a task. */
static const char table_sql[] =
    "CREATE TEMP TABLE unit (tenant TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, kind INTEGER NOT NULL,"
    " id, PRIMARY KEY (tenant, session, turn, kind, id)) WITHOUT ROWID";
static const char insert_sql[] = "INSERT INTO temp.unit VALUES (?1, ?2, ?3, ?4, ?5)";

#define TURNS "(tenant, session, turn) IN (SELECT tenant, session, turn FROM temp.unit WHERE kind = 0)"
#define MESSAGES                                                                                                  \
  "(SELECT message.id FROM temp.unit AS u JOIN session ON session.tenant = u.tenant AND session.name = u.session" \
  " JOIN message ON message.session = session.id AND message.turn = u.turn WHERE u.kind = 0)"

static const char *const delete_sql[] = {
    "DELETE FROM tool_call WHERE message IN " MESSAGES,
    "DELETE FROM message WHERE id IN " MESSAGES,
    "DELETE FROM session WHERE running = 0 AND (tenant, name) IN (SELECT tenant, session FROM temp.unit)"
    " AND NOT EXISTS (SELECT 1 FROM message WHERE message.session = session.id)",
    "DELETE FROM run WHERE entry IN (SELECT number FROM entry WHERE " TURNS ")",
    "DELETE FROM entry WHERE " TURNS,
    "DELETE FROM turn WHERE " TURNS,
    "DELETE FROM running WHERE " TURNS,
    "DELETE FROM audit WHERE turn <> '' AND " TURNS,
    "DELETE FROM tool_start WHERE " TURNS,
    "DELETE FROM question WHERE " TURNS,
    "DELETE FROM task WHERE key IN (SELECT id FROM temp.unit WHERE kind = 2)",
    "DELETE FROM job WHERE id IN (SELECT id FROM temp.unit WHERE kind = 1)"};

/* ---- sessions ---- */

/** The selection, session by session. */
typedef struct selection {
  tp__sqlite_store *s;
  tp__choice choice;
  tp__erased_turns *result;
  tp_writer *writer;
  sqlite3_stmt *insert;
  int rc;
  tp_status status;
} selection;

static bool see_row(void *ctx, const char *kind, tp_text row) { return tp__choice_see(ctx, kind, row); }

int tp__sqlite_choose_of_session(sqlite3 *db, const tp_kept_session *session, tp__choice *choice, tp_writer *writer,
                                 tp_status *ret_status) {
  char tenant[TP_ID_BYTES_MAX + 1], name[TP_ID_BYTES_MAX + 1];
  snprintf(tenant, sizeof tenant, "%.*s", (int)session->tenant.size, session->tenant.data);
  snprintf(name, sizeof name, "%.*s", (int)session->session.size, session->session.data);
  tp__choice_clear(choice);
  int rc = tp__sqlite_each_row(db, tenant, name, writer, see_row, choice, ret_status);
  if (choice->failed) *ret_status = TP_ERR_NO_MEMORY;
  if (rc == SQLITE_OK && *ret_status == TP_OK) tp__choice_decide(choice);
  return rc;
}

static int put_unit(selection *c, const tp_kept_session *session, const tp__unit *unit) {
  int rc = tp__sqlite_bind_texts(c->insert, 1, (const tp_text[]){session->tenant, session->session, unit->turn}, 3);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(c->insert, 4, unit->kind);
  if (rc == SQLITE_OK)
    rc = unit->kind == TP__UNIT_TASK ? tp__sqlite_bind_text(c->insert, 5, unit->key)
                                     : sqlite3_bind_int64(c->insert, 5, unit->id);
  return tp__sqlite_run(c->insert, rc);
}

static bool choose_session(void *ctx, const tp_kept_session *session) {
  selection *c = ctx;
  c->rc = tp__sqlite_choose_of_session(c->s->db, session, &c->choice, c->writer, &c->status);
  if (c->rc != SQLITE_OK || c->status != TP_OK) return false;
  c->result->turns_unknown += c->choice.unknown;
  if (c->choice.chosen == 0) return true;
  if (session->process_id) {
    if (c->result->sessions_in_use++ == 0) c->result->process_id = session->process_id;
    return true;
  }
  c->result->sessions++;
  c->result->turns += c->choice.turns;
  for (size_t i = 0; i < c->choice.count && c->rc == SQLITE_OK; i++)
    if (c->choice.units[i].is_chosen) c->rc = put_unit(c, session, &c->choice.units[i]);
  return c->rc == SQLITE_OK;
}

static int choose_turns_locked(tp__sqlite_store *s, const tp_kept_choice *request, tp__erased_turns *ret_chosen,
                               tp_status *ret_status) {
  TP__LOCKED(&s->mutex);
  const tp_kept_query query = tp__choice_query(request);
  selection c = {.s = s, .choice = {.request = request}, .result = ret_chosen};
  *ret_chosen = (tp__erased_turns){.sessions = 0};
  c.status = tp_writer_new(NULL, &c.writer);
  int rc = sqlite3_exec(s->db, table_sql, NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(s->db, insert_sql, -1, &c.insert, NULL);
  if (rc == SQLITE_OK && c.status == TP_OK) rc = tp__sqlite_each_session(s, s->db, &query, choose_session, &c);
  sqlite3_finalize(c.insert);
  tp_writer_free(c.writer);
  tp__choice_fini(&c.choice);
  *ret_status = c.status;
  return rc == SQLITE_OK ? c.rc : rc;
}

int tp__sqlite_erase_turns_locked(tp__sqlite_store *s, const tp_kept_choice *request, tp__erased_turns *ret_erased,
                                  tp_status *ret_status) {
  TP__LOCKED(&s->mutex);
  int rc = choose_turns_locked(s, request, ret_erased, ret_status);
  if (rc != SQLITE_OK || *ret_status != TP_OK) return rc;
  int64_t rows = sqlite3_total_changes64(s->db);
  rc = tp__sqlite_exec_each(s->db, delete_sql, sizeof delete_sql / sizeof *delete_sql);
  ret_erased->rows = (uint64_t)(sqlite3_total_changes64(s->db) - rows);
  return rc;
}
