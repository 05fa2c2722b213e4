/* SPDX-License-Identifier: Apache-2.0
 *
 * Erasing turns in sessions that go on: the turns of a person, turns that contain a text, turns that are older than a
 * time. The unit of erasure is the turn, because an answer repeats the question and each call needs its result. A job
 * and a task are units of their own, and a job is erased with its turn. All rows of each session are read, as
 * tp_sqlite_session_rows() passes them. So everything that is exported is also searched. An export selects in the same
 * way. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sessions.h"
#include "support/text.h"
#include "turnphase/handler.h"

static const char table_sql[] =
    "CREATE TEMP TABLE unit (tenant TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, kind TEXT NOT NULL, id,"
    " last_ms INTEGER NOT NULL, matches INTEGER NOT NULL, is_persons INTEGER NOT NULL, is_known INTEGER NOT NULL,"
    " chosen INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tenant, session, turn, kind, id)) WITHOUT ROWID";
static const char seen_sql[] =
    "INSERT INTO temp.unit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0) ON CONFLICT DO UPDATE SET"
    " last_ms = max(last_ms, excluded.last_ms), matches = max(matches, excluded.matches),"
    " is_persons = max(is_persons, excluded.is_persons), is_known = max(is_known, excluded.is_known)";
/* ?1: before this time; ?2: with a text; ?3: of a person, ?4: the person whose session it is. */
static const char choose_sql[] =
    "UPDATE temp.unit SET chosen = (?1 = 0 OR (last_ms > 0 AND last_ms < ?1)) AND (?2 = 0 OR matches)"
    " AND (?3 = 0 OR ?4 OR is_persons) WHERE tenant = ?5 AND session = ?6";
static const char choose_jobs_sql[] =
    "UPDATE temp.unit AS job SET chosen = 1 WHERE kind = 'job' AND turn <> '' AND tenant = ?1 AND session = ?2 AND "
    "EXISTS"
    " (SELECT 1 FROM temp.unit AS u WHERE (u.tenant, u.session, u.turn, u.kind) = (job.tenant, job.session, job.turn, "
    "'')"
    " AND u.chosen)";

/* Ended jobs no longer name a turn, and have no content. They are deleted with the last turn of their session. */
static const char choose_rest_sql[] =
    "UPDATE temp.unit AS job SET chosen = 1 WHERE kind = 'job' AND turn = '' AND tenant = ?1 AND session = ?2"
    " AND EXISTS (SELECT 1 FROM temp.unit AS u WHERE (u.tenant, u.session) = (job.tenant, job.session) AND u.chosen)"
    " AND NOT EXISTS (SELECT 1 FROM temp.unit AS u WHERE (u.tenant, u.session) = (job.tenant, job.session)"
    "  AND u.kind <> 'job' AND NOT u.chosen)";

#define TURNS "(tenant, session, turn) IN (SELECT tenant, session, turn FROM temp.unit WHERE chosen AND kind = '')"
#define MESSAGES                                                                                                  \
  "(SELECT message.id FROM temp.unit AS u JOIN session ON session.tenant = u.tenant AND session.name = u.session" \
  " JOIN message ON message.session = session.id AND message.turn = u.turn WHERE u.chosen AND u.kind = '')"

static const char *const delete_sql[] = {
    "DELETE FROM tool_call WHERE message IN " MESSAGES,
    "DELETE FROM message WHERE id IN " MESSAGES,
    "DELETE FROM session WHERE running = 0 AND (tenant, name) IN (SELECT tenant, session FROM temp.unit WHERE chosen)"
    " AND NOT EXISTS (SELECT 1 FROM message WHERE message.session = session.id)",
    "DELETE FROM run WHERE entry IN (SELECT number FROM entry WHERE " TURNS ")",
    "DELETE FROM entry WHERE " TURNS,
    "DELETE FROM turn WHERE " TURNS,
    "DELETE FROM running WHERE " TURNS,
    "DELETE FROM audit WHERE turn <> '' AND " TURNS,
    "DELETE FROM tool_start WHERE " TURNS,
    "DELETE FROM question WHERE " TURNS,
    "DELETE FROM task WHERE key IN (SELECT id FROM temp.unit WHERE chosen AND kind = 'task')",
    "DELETE FROM job WHERE id IN (SELECT id FROM temp.unit WHERE chosen AND kind = 'job')"};

/* ---- what a row says ---- */

/** The selection of units, session by session. */
typedef struct selection {
  tp__sqlite_store *s;
  sqlite3 *db;
  const tp_kept_choice *request;
  bool with_in_use;
  tp__erased_turns *result;
  tp_writer *writer;
  sqlite3_stmt *seen;
  char tenant[TP_ID_BYTES_MAX + 1], session[TP_ID_BYTES_MAX + 1]; /* of the session that is read */
  uint64_t persons_rows, others_rows;                             /* of it, that name a workspace or a thread */
  int rc;
  tp_status status;
} selection;

static bool is_text(tp_text value, const char *wanted) { return tp__is_word(tp_value_text(value), wanted); }

/* Columns that are filled by the library or by the host's code, and the tenant, which the request names. */
static bool is_of_code(tp_text key) { return tp__is_one_of(key, "tenant role subscription handler owner action kind"); }

static bool row_has(tp_text row, const char *text) {
  for (tp_value_walk walk = {0}; tp_value_next(row, &walk);) {
    tp_value_kind kind = tp_value_kind_of(walk.value);
    bool is_number = kind == TP_VALUE_NULL || kind == TP_VALUE_INT || kind == TP_VALUE_DOUBLE || kind == TP_VALUE_BOOL;
    if (!is_number && !is_of_code(walk.key) && memmem(walk.value.data, walk.value.size, text, strlen(text)))
      return true;
  }
  return false;
}

static int64_t newest_of(tp_text row) {
  static const char *const keys[] = {"unix_ms",     "ended_unix_ms",   "started_unix_ms", "asked_ms",
                                     "answered_ms", "created_unix_ms", "inserted_ms",     "ended_ms"};
  int64_t newest = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    int64_t time = tp_value_int(tp_value_get(row, keys[i]), 0);
    if (time > newest) newest = time;
  }
  return newest;
}

/* "NAME: " begins a message when several persons speak in a session. */
static bool is_said_by(tp_text row, const char *person) {
  tp_text text = tp_value_text(tp_value_get(row, "text"));
  size_t size = strlen(person);
  return is_text(tp_value_get(row, "role"), "user") && tp__begins(text, person) && text.size > size &&
         text.data[size] == ':';
}

/* @return 1: the row belongs to a turn of the person, by its workspace or thread; 0: to another person's turn; -1: it
 *   names none. */
static int whose(tp_text row, const char *person) {
  tp_text workspace = tp_value_get(row, "workspace"), thread = tp_value_get(row, "thread");
  if (!workspace.size && !thread.size) return -1;
  return is_text(workspace, person) || is_text(thread, person);
}

/* A job has the ids of its turn in its payload until it has ended. */
tp_text tp__sqlite_turn_of_row(const char *kind, tp_text row) {
  if (strcmp(kind, "job") != 0) return tp_value_text(tp_value_get(row, "turn"));
  tp_text ids = tp_value_get(tp_value_get(row, "payload"), "ids");
  int at = 0;
  for (tp_value_walk walk = {0}; tp_value_next(ids, &walk); at++)
    if (at == TP_ID_TURN) return tp_value_text(walk.value);
  return (tp_text){NULL, 0};
}

/** What is known of a unit by one row. */
typedef struct sighting {
  tp_text turn;
  const char *kind; /* "" for a turn */
  tp_text key;      /* of a task */
  int64_t id;       /* of a job */
  int64_t values[4];
} sighting;

static int put_sighting(selection *c, const sighting *g) {
  const tp_text texts[] = {tp_text_of(c->tenant), tp_text_of(c->session), g->turn, tp_text_of(g->kind)};
  int rc = tp__sqlite_bind_texts(c->seen, 1, texts, 4);
  if (rc == SQLITE_OK)
    rc = g->key.size ? tp__sqlite_bind_text(c->seen, 5, g->key) : sqlite3_bind_int64(c->seen, 5, g->id);
  for (int i = 0; i < 4 && rc == SQLITE_OK; i++) rc = sqlite3_bind_int64(c->seen, 6 + i, g->values[i]);
  return tp__sqlite_run(c->seen, rc);
}

static bool see_row(void *ctx, const char *kind, tp_text row) {
  selection *c = ctx;
  const tp_kept_choice *r = c->request;
  const bool is_job = strcmp(kind, "job") == 0, is_task = strcmp(kind, "task") == 0;
  int is_persons = r->person ? whose(row, r->person) : -1;
  if (is_persons >= 0) ++*(is_persons ? &c->persons_rows : &c->others_rows);
  const bool is_known = is_persons >= 0;
  if (r->person && strcmp(kind, "message") == 0 && is_said_by(row, r->person)) is_persons = 1;
  sighting g = {.turn = tp__sqlite_turn_of_row(kind, row),
                .kind = "",
                .values = {newest_of(row), r->matching && row_has(row, r->matching), is_persons == 1, is_known}};
  if (!is_task && (!is_job || g.turn.size)) c->rc = put_sighting(c, &g);
  if (c->rc != SQLITE_OK || (!is_task && !is_job)) return c->rc == SQLITE_OK;
  g.kind = is_job ? "job" : "task";
  if (is_job) g.id = tp_value_int(tp_value_get(row, "id"), 0);
  else g.key = tp_value_text(tp_value_get(row, "key"));
  c->rc = put_sighting(c, &g);
  return c->rc == SQLITE_OK;
}

/* ---- a session ---- */

static int run_with(sqlite3 *db, const char *sql, const int64_t *numbers, int count, const selection *c) {
  sqlite3_stmt *statement = NULL;
  const tp_text texts[] = {tp_text_of(c->tenant), tp_text_of(c->session)};
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  if (rc == SQLITE_OK && count) rc = tp__sqlite_bind_ints(statement, numbers, count);
  rc = tp__sqlite_run(statement, rc == SQLITE_OK ? tp__sqlite_bind_texts(statement, count + 1, texts, 2) : rc);
  sqlite3_finalize(statement);
  return rc;
}

static int choose_of_session(selection *c) {
  const tp_kept_choice *r = c->request;
  const bool is_whole = r->person && c->persons_rows && !c->others_rows;
  const int64_t numbers[] = {r->turns_before_unix_ms, r->matching != NULL, r->person != NULL, is_whole};
  int rc = run_with(c->db, choose_sql, numbers, 4, c);
  if (rc == SQLITE_OK) rc = run_with(c->db, choose_jobs_sql, NULL, 0, c);
  return rc == SQLITE_OK ? run_with(c->db, choose_rest_sql, NULL, 0, c) : rc;
}

static int64_t select_number(sqlite3 *db, const char *sql) {
  int64_t number = 0;
  return tp__sqlite_once(db, sql, NULL, 0, &number) == SQLITE_OK ? number : 0;
}

static bool see_session(void *ctx, const tp_kept_session *session) {
  selection *c = ctx;
  static const char count_sql[] = "SELECT count(*) FROM temp.unit WHERE chosen";
  sqlite3 *db = c->db;
  snprintf(c->tenant, sizeof c->tenant, "%.*s", (int)session->tenant.size, session->tenant.data);
  snprintf(c->session, sizeof c->session, "%.*s", (int)session->session.size, session->session.data);
  c->persons_rows = c->others_rows = 0;
  int64_t before = select_number(db, count_sql);
  int rc = tp__sqlite_each_row(db, c->tenant, c->session, c->writer, see_row, c, &c->status);
  if (c->rc == SQLITE_OK) c->rc = rc;
  if (c->rc == SQLITE_OK && c->status == TP_OK) c->rc = choose_of_session(c);
  if (c->rc != SQLITE_OK || c->status != TP_OK) return false;
  if (select_number(db, count_sql) == before) return true;
  c->result->sessions++;
  if (!session->process_id || c->with_in_use) return true;
  c->result->sessions--;
  if (c->result->sessions_in_use++ == 0) c->result->process_id = session->process_id;
  c->rc = run_with(db, "UPDATE temp.unit SET chosen = 0 WHERE tenant = ?1 AND session = ?2", NULL, 0, c);
  return c->rc == SQLITE_OK;
}

int tp__sqlite_choose_turns(tp__sqlite_store *s, sqlite3 *db, const tp_kept_choice *request, bool with_in_use,
                            tp__erased_turns *ret_chosen, tp_status *ret_status) {
  const tp_kept_query query = {.struct_size = sizeof query,
                               .tenant = request->tenant,
                               .session = request->session,
                               .before_unix_ms = request->before_unix_ms};
  selection c = {.s = s, .db = db, .request = request, .with_in_use = with_in_use, .result = ret_chosen};
  *ret_chosen = (tp__erased_turns){.sessions = 0};
  c.status = tp_writer_new(NULL, &c.writer);
  int rc = sqlite3_exec(db, table_sql, NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(db, seen_sql, -1, &c.seen, NULL);
  if (rc == SQLITE_OK && c.status == TP_OK) rc = tp__sqlite_each_session(s, db, &query, see_session, &c);
  sqlite3_finalize(c.seen);
  tp_writer_free(c.writer);
  *ret_status = c.status;
  if (rc == SQLITE_OK) rc = c.rc;
  if (rc != SQLITE_OK || c.status != TP_OK) return rc;
  ret_chosen->turns = (uint64_t)select_number(db, "SELECT count(*) FROM temp.unit WHERE chosen AND kind = ''");
  if (request->person)
    ret_chosen->turns_unknown = (uint64_t)select_number(
        db,
        "SELECT count(*) FROM temp.unit AS u WHERE NOT chosen AND NOT is_persons AND NOT is_known AND kind <> 'job'"
        " AND NOT EXISTS (SELECT 1 FROM temp.unit AS w WHERE w.chosen AND w.tenant = u.tenant"
        "  AND w.session = u.session AND w.turn = u.turn)");
  return SQLITE_OK;
}

int tp__sqlite_erase_turns_locked(tp__sqlite_store *s, const tp_kept_choice *request, tp__erased_turns *ret_erased,
                                  tp_status *ret_status) {
  TP__LOCKED(&s->mutex);
  int rc = tp__sqlite_choose_turns(s, s->db, request, false, ret_erased, ret_status);
  if (rc != SQLITE_OK || *ret_status != TP_OK) return rc;
  int64_t rows = sqlite3_total_changes64(s->db);
  rc = tp__sqlite_exec_each(s->db, delete_sql, sizeof delete_sql / sizeof *delete_sql);
  ret_erased->rows = (uint64_t)(sqlite3_total_changes64(s->db) - rows);
  return rc;
}
