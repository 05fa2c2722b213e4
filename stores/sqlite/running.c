/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns that run. Each has a row, which each report about the turn replaces, and which the record of its end deletes.
 * When the process of a turn is gone, the row stays, and counts as interrupted: a recovery writes that, and until then
 * each reader checks whether the process is alive. This file also keeps the processes that died: they tell whether a
 * turn in the history was cut at its end. */
#include <stdio.h>

#include "stores/sqlite/sqlite.h"
#include "turnphase/turn.h"

enum { DIED_MAX = 1000 /* processes that died, of which it is known */ };

/* ---- on the writer's thread ---- */

static int write_step_locked(tp__sqlite_store *s, int64_t row, int64_t position, const tp_turn_step *step) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *insert = s->statements[TP__INSERT_RUNNING_STEP];
  int rc = tp__sqlite_bind_ints(insert, (const int64_t[]){row, position}, 2);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(insert, 3, &tp__step_columns, step);
  return tp__sqlite_run(insert, rc);
}

int tp__sqlite_delete_running_locked(tp__sqlite_store *s, uint64_t process, uint64_t number) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *delete = s->statements[TP__DELETE_RUNNING];
  return tp__sqlite_run(delete, tp__sqlite_bind_ints(delete, (const int64_t[]){(int64_t)process, (int64_t)number}, 2));
}

int tp__sqlite_write_running_locked(tp__sqlite_store *s, const tp__waiting *node) {
  TP__LOCKED(&s->mutex);
  const tp_turn_record *turn = &node->turn;
  const tp__columns *columns = &tp__turn_columns;
  sqlite3_stmt *insert = s->statements[TP__INSERT_RUNNING];
  int rc = tp__sqlite_delete_running_locked(s, turn->process_run_id, turn->number);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(insert, 1, columns, turn);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(insert, 1 + columns->count, node->ids, TP_ID_COUNT);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(insert, 1 + columns->count + TP_ID_COUNT, turn->state);
  rc = tp__sqlite_run(insert, rc);
  int64_t row = sqlite3_last_insert_rowid(s->db);
  for (size_t i = 0; i < turn->step_count && rc == SQLITE_OK; i++)
    rc = write_step_locked(s, row, (int64_t)i, &node->steps[i]);
  return rc;
}

/* ---- reading ---- */

static const char running_sql[] =
    "SELECT row, " TP__TURN_COLUMNS
    ", state FROM running WHERE (?1 = 0 OR row < (SELECT row FROM running WHERE number = ?1 AND process = ?2))"
    " AND ended_unix_ms >= ?3 AND (?4 = 0 OR ended_unix_ms <= ?4) AND (?6 IS NULL OR tenant = ?6)"
    " AND (?7 IS NULL OR agent = ?7) AND (?8 IS NULL OR workspace = ?8) AND (?9 IS NULL OR session = ?9)"
    " AND (?10 IS NULL OR thread = ?10) AND (?11 IS NULL OR turn = ?11) AND (?12 IS NULL OR task = ?12)"
    " AND (?13 IS NULL OR run = ?13) ORDER BY row DESC LIMIT ?5";
static const char steps_sql[] =
    "SELECT " TP__SQL_NAMES(TP__STEP_LIST) " FROM running_step WHERE running = ?1 ORDER BY position";

/** Who gets the rows. */
typedef struct receiver {
  const tp__sqlite_store *s;
  sqlite3 *db;
  tp_turn_record_fn each;
  void *ctx;
  int rc;
} receiver;

static bool show_running(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  receiver *to = ctx;
  tp_turn_record record;
  tp_text ids[TP_ID_COUNT];
  bool is_left = false;
  int first_id = 1 + tp__turn_columns.count;
  tp__sqlite_read_struct(row, 1, &tp__turn_columns, &record);
  for (int i = 0; i < TP_ID_COUNT; i++) ids[i] = tp__sqlite_column(row, first_id + i);
  record.state = (uint32_t)sqlite3_column_int64(row, first_id + TP_ID_COUNT);
  to->rc = tp__sqlite_left_process(to->s, to->db, (int64_t)record.process_run_id, &is_left);
  if (to->rc != SQLITE_OK) return false;
  if (is_left) record.state = TP_STATE_INTERRUPTED;
  record.ids = ids;
  record.id_count = TP_ID_COUNT;
  record.step_count = parts->count;
  record.step = tp__sqlite_show_step;
  record.step_source = parts;
  return to->each(to->ctx, &record);
}

tp_status tp__sqlite_turns_running(void *ctx, const tp_turn_query *theirs, tp_turn_record_fn each, void *each_ctx,
                                   tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp_turn_query query;
  sqlite3 *db = NULL;
  tp_status status = tp__store_read_query(s, &query, sizeof query, theirs, "tp_turn_query", fault);
  if (status == TP_OK) status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  receiver to = {.s = s, .db = db, .each = each, .ctx = each_ctx, .rc = SQLITE_OK};
  const int64_t values[] = {(int64_t)query.before_number, (int64_t)query.before_process_run_id, query.from_unix_ms,
                            query.to_unix_ms, query.limit && query.limit < INT64_MAX ? (int64_t)query.limit : -1};
  const tp__listing listing = {.sql = running_sql,
                               .values = values,
                               .count = 5,
                               .texts = query.ids,
                               .first_text = 6,
                               .text_count = query.id_count < TP_ID_COUNT ? query.id_count : TP_ID_COUNT,
                               .parts_sql = steps_sql,
                               .parts = &tp__step_columns,
                               .show = show_running,
                               .ctx = &to};
  int rc = tp__sqlite_list(db, &listing);
  if (rc == SQLITE_OK) rc = to.rc;
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "read turns that run", rc, fault);
  tp__store_return_reader(s, db);
  return status;
}

/* ---- of a process that is gone ---- */

/* Requests and calls that were open, except calls whose function a breadcrumb has named. */
static int suspect_steps_locked(tp__sqlite_store *s, int64_t process, int64_t audits_before, uint64_t *ret_count) {
  TP__LOCKED(&s->mutex);
  static const char sql[] =
      "SELECT kind, name, turn, tenant, session FROM running JOIN running_step ON running_step.running = running.row"
      " WHERE process = ?1 AND state = 2 AND running_step.ended_ns = 0 AND kind IN (2, 3) AND NOT EXISTS"
      " (SELECT 1 FROM audit WHERE audit.row > ?2 AND action = 'crash_suspect' AND audit.turn = running.turn"
      " AND audit.subscription = running_step.name) ORDER BY running.row, position";
  sqlite3_stmt *rows = NULL;
  int rc = sqlite3_prepare_v2(s->db, sql, -1, &rows, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(rows, (const int64_t[]){process, audits_before}, 2);
  while (rc == SQLITE_OK && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(rows, 1), *turn = (const char *)sqlite3_column_text(rows, 2);
    const char *tenant = (const char *)sqlite3_column_text(rows, 3);
    const char *session = (const char *)sqlite3_column_text(rows, 4);
    if (!name || !turn || !tenant || !session) {
      rc = SQLITE_NOMEM;
      break;
    }
    bool is_tool = sqlite3_column_int(rows, 0) == TP_STEP_TOOL;
    const tp__suspect suspect = {.what = is_tool ? "the tool" : "a request to the model",
                                 .did = is_tool ? "was called" : "was open",
                                 .name = name,
                                 .turn = turn,
                                 .tenant = tenant,
                                 .session = session};
    rc = tp__sqlite_write_suspect_locked(s, &suspect);
    ++*ret_count;
  }
  sqlite3_finalize(rows);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Keeps the newest processes that died, each with the number of the newest turn record at that time, because no clock
 * orders them. */
static int note_death_locked(tp__sqlite_store *s, int64_t process) {
  TP__LOCKED(&s->mutex);
  const int64_t most = DIED_MAX;
  int rc =
      tp__sqlite_once(s->db, "INSERT OR IGNORE INTO died (process, turn) SELECT ?1, coalesce(max(row), 0) FROM turn",
                      &process, 1, NULL);
  if (rc == SQLITE_OK)
    rc = tp__sqlite_once(s->db, "DELETE FROM died WHERE row <= (SELECT max(row) FROM died) - ?1", &most, 1, NULL);
  return rc;
}

int tp__sqlite_interrupt_turns_locked(tp__sqlite_store *s, int64_t process, int64_t audits_before, bool by_itself,
                                      tp_store_recovery *recovery) {
  TP__LOCKED(&s->mutex);
  assert(audits_before >= 0);
  char sql[160];
  const int64_t most = (int64_t)s->options.turns_max;
  int rc = note_death_locked(s, process);
  if (rc == SQLITE_OK && by_itself) rc = suspect_steps_locked(s, process, audits_before, &recovery->crash_suspects);
  snprintf(sql, sizeof sql, "UPDATE running SET state = %d WHERE process = ?1 AND state = %d", TP_STATE_INTERRUPTED,
           TP_STATE_RUNNING);
  if (rc == SQLITE_OK) rc = tp__sqlite_once(s->db, sql, &process, 1, NULL);
  if (rc == SQLITE_OK) recovery->turns_interrupted += (uint64_t)sqlite3_changes(s->db);
  snprintf(sql, sizeof sql,
           "DELETE FROM running WHERE state = %d AND row NOT IN (SELECT row FROM running WHERE state = %d"
           " ORDER BY row DESC LIMIT ?1)",
           TP_STATE_INTERRUPTED, TP_STATE_INTERRUPTED);
  return rc == SQLITE_OK ? tp__sqlite_once(s->db, sql, &most, 1, NULL) : rc;
}

/* ---- turns that were cut at their end ---- */

/* A record of the turn belongs to the run itself, or to a later run whose record was stored after the death was
 * noted. */
static int is_cut(const tp__sqlite_store *s, sqlite3 *db, int64_t process, const tp_text ids[3], bool *ret_is_cut) {
  static const char sql[] =
      "SELECT (SELECT turn FROM died WHERE process = ?1), EXISTS (SELECT 1 FROM turn WHERE turn = ?4"
      " AND session = ?3 AND tenant = ?2"
      " AND (process = ?1 OR row > (SELECT turn FROM died WHERE process = ?1)))";
  sqlite3_stmt *row = NULL;
  bool is_left = false;
  int rc = sqlite3_prepare_v2(db, sql, -1, &row, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(row, &process, 1);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(row, 2, ids, 3);
  if (rc == SQLITE_OK) rc = sqlite3_step(row);
  bool has_died = rc == SQLITE_ROW && sqlite3_column_type(row, 0) != SQLITE_NULL;
  bool has_record = rc == SQLITE_ROW && sqlite3_column_int(row, 1);
  sqlite3_finalize(row);
  if (rc != SQLITE_ROW) return rc;
  rc = tp__sqlite_left_process(s, db, process, &is_left);
  *ret_is_cut = !has_record && (has_died || is_left);
  return rc;
}

tp_status tp__sqlite_turn_is_cut(void *ctx, uint64_t process_run_id, const tp_text *ids, size_t id_count,
                                 bool *ret_is_cut, tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  sqlite3 *db = NULL;
  static const tp_id_kind kinds[] = {TP_ID_TENANT, TP_ID_SESSION, TP_ID_TURN};
  tp_text three[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
  for (int i = 0; i < 3; i++)
    if (kinds[i] < id_count) three[i] = ids[kinds[i]];
  *ret_is_cut = false;
  (void)!tp__sqlite_commit(s, NULL); /* the record may wait in the queue */
  tp_status status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = is_cut(s, db, (int64_t)process_run_id, three, ret_is_cut);
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "look for the end of a turn", rc, fault);
  tp__store_return_reader(s, db);
  return status;
}
