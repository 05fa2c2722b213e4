/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry records. The calling thread copies them into a block; records of one turn are copied together, in packed form.
 * The writer's thread writes them. Reading uses a snapshot. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sqlite.h"
#include "stores/sqlite/statement.h"
#include "turnphase/turn.h"

/* ---- on the way in ---- */

static bool read_run(const tp_entry_record *record, size_t index, tp_run_record *run) {
  *run = (tp_run_record){.struct_size = sizeof *run};
  return record->run(record->source, index, run);
}

enum { RUNS_ON_STACK = 32 };

/* @return how many bytes the texts need; SIZE_MAX when a run is missing. */
static size_t take_runs(const tp_entry_record *record, tp_run_record *list) {
  size_t bytes = 0;
  for (size_t i = 0; i < record->run_count; i++) {
    if (!read_run(record, i, &list[i])) return SIZE_MAX;
    bytes += tp__sqlite_texts_bytes(&tp__run_columns, &list[i]);
  }
  return bytes;
}

/* Makes a node with a copy of the ids. @param ret_texts  space after the rows for this many bytes of texts. */
static tp__waiting *node_new(int kind, const tp_text *ids, size_t id_count, size_t rows_bytes, size_t texts_bytes,
                             char **ret_texts) {
  size_t bytes = sizeof(tp__waiting) + rows_bytes + texts_bytes;
  if (id_count > TP_ID_COUNT) id_count = TP_ID_COUNT;
  for (size_t i = 0; i < id_count; i++) bytes += ids[i].size;
  tp__waiting *node = sqlite3_malloc64(bytes);
  if (!node) return NULL;
  *node = (tp__waiting){.queued = {.bytes = bytes, .count = 1}, .kind = kind};
  *ret_texts = (char *)(node + 1) + rows_bytes;
  for (size_t i = 0; i < id_count; i++) node->ids[i] = tp__sqlite_put_text(ret_texts, ids[i]);
  return node;
}

tp_status tp__sqlite_queue_copy(void *ctx, int kind, const tp__columns *columns, const char *name, const void *theirs) {
  assert(kind >= 0 && kind < TP__WAITS_KINDS);
  tp__waiting taken;
  char *at;
  tp_status status = tp__struct_read(&taken.record, columns->size, theirs, name, NULL);
  if (status != TP_OK) return status;
  tp__waiting *node = node_new(kind, NULL, 0, 0, tp__sqlite_texts_bytes(columns, &taken.record), &at);
  if (!node) return TP_ERR_NO_MEMORY;
  memcpy(&node->record, &taken.record, columns->size);
  tp__sqlite_put_texts(columns, &node->record, &at);
  return tp__sqlite_queue(ctx, node);
}

bool tp__sqlite_waiting_run(const void *source, size_t index, tp_run_record *record) {
  const tp__waiting *node = source;
  if (index >= node->record.run_count) return false;
  *record = node->runs[index]; /* read_run() alone asks */
  return true;
}

/* Each run is read only once, because a store gets thousands of them. */
static tp_status copy_record(const tp_entry_record *record, tp_run_record *list, tp__waiting **ret_node) {
  size_t bytes = take_runs(record, list), list_bytes = record->run_count * sizeof *list;
  char *at;
  if (bytes == SIZE_MAX) return TP_ERR_MALFORMED;
  tp__waiting *node = *ret_node = node_new(TP__WAITS_ENTRY, record->ids, record->id_count, list_bytes, bytes, &at);
  if (!node) return TP_ERR_NO_MEMORY;
  node->runs = (tp_run_record *)(node + 1);
  node->record = *record;
  node->record.ids = node->ids;
  node->record.run = tp__sqlite_waiting_run;
  node->record.source = node;
  if (list_bytes) memcpy(node->runs, list, list_bytes);
  for (size_t i = 0; i < record->run_count; i++) tp__sqlite_put_texts(&tp__run_columns, &node->runs[i], &at);
  return TP_OK;
}

tp_status tp__sqlite_record_refused(void *ctx, const tp_entry_record *record) {
  (void)ctx;
  (void)record;
  return TP_ERR_STORE_READONLY;
}

tp_status tp__sqlite_record(void *ctx, const tp_entry_record *theirs) {
  tp_entry_record record;
  tp_run_record few[RUNS_ON_STACK], *list = few;
  tp__waiting *node = NULL;
  tp_status status = tp__struct_read(&record, sizeof record, theirs, "tp_entry_record", NULL);
  if (status != TP_OK) return status;
  if (record.run_count > RUNS_ON_STACK) list = sqlite3_malloc64(record.run_count * sizeof *list);
  status = list ? copy_record(&record, list, &node) : TP_ERR_NO_MEMORY;
  if (list != few) sqlite3_free(list);
  return status == TP_OK ? tp__sqlite_queue(ctx, node) : status;
}

/* Copies the records in packed form; the writer's thread unpacks them. */
tp_status tp__sqlite_record_batch(void *ctx, const tp_entry_batch *theirs) {
  tp_entry_batch batch;
  char *at;
  tp_status status = tp__struct_read(&batch, sizeof batch, theirs, "tp_entry_batch", NULL);
  if (status != TP_OK) return status;
  if (!batch.entry || batch.entry_count == 0) return TP_ERR_MALFORMED;
  tp__waiting *node = node_new(TP__WAITS_ENTRIES, batch.ids, batch.id_count, batch.packed_bytes, 0, &at);
  if (!node) return TP_ERR_NO_MEMORY;
  memcpy(node + 1, batch.packed, batch.packed_bytes);
  node->queued.count = batch.entry_count;
  node->batch = batch;
  node->batch.ids = node->ids;
  node->batch.id_count = TP_ID_COUNT;
  node->batch.packed = node + 1;
  return tp__sqlite_queue(ctx, node);
}

/* If its entry still waits in the queue, the late record is queued after it. */
tp_status tp__sqlite_record_late(void *ctx, const tp_late_record *theirs) {
  return tp__sqlite_queue_copy(ctx, TP__WAITS_LATE, &tp__late_columns, "tp_late_record", theirs);
}

static bool read_step(const tp_turn_record *record, size_t index, tp_turn_step *step) {
  *step = (tp_turn_step){.struct_size = sizeof *step};
  return record->step && record->step(record->step_source, index, step);
}

static tp_status queue_turn(void *ctx, int kind, const tp_turn_record *theirs) {
  tp_turn_record record;
  tp_turn_step step;
  char *at;
  tp_status status = tp__struct_read(&record, sizeof record, theirs, "tp_turn_record", NULL);
  if (status != TP_OK) return status;
  size_t bytes = tp__sqlite_texts_bytes(&tp__turn_columns, &record);
  for (size_t i = 0; i < record.step_count; i++) {
    if (!read_step(&record, i, &step)) return TP_ERR_MALFORMED;
    bytes += step.name.size;
  }
  tp__waiting *node = node_new(kind, record.ids, record.id_count, record.step_count * sizeof step, bytes, &at);
  if (!node) return TP_ERR_NO_MEMORY;
  node->steps = (tp_turn_step *)(node + 1);
  node->turn = record;
  tp__sqlite_put_texts(&tp__turn_columns, &node->turn, &at);
  for (size_t i = 0; i < record.step_count; i++) {
    (void)read_step(&record, i, &node->steps[i]);
    tp__sqlite_put_texts(&tp__step_columns, &node->steps[i], &at);
  }
  return tp__sqlite_queue(ctx, node);
}

tp_status tp__sqlite_turn_record(void *ctx, const tp_turn_record *record) {
  return queue_turn(ctx, TP__WAITS_TURN, record);
}

tp_status tp__sqlite_turn_running(void *ctx, const tp_turn_record *record) {
  return queue_turn(ctx, TP__WAITS_RUNNING, record);
}

tp_status tp__sqlite_audit(void *ctx, const tp_audit *theirs) {
  return tp__sqlite_queue_copy(ctx, TP__WAITS_AUDIT, &tp__audit_columns, "tp_audit", theirs);
}

/* ---- on the writer's thread ---- */

static int write_run_locked(tp__sqlite_store *s, int64_t entry, int64_t position, const tp_run_record *run) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_RUN];
  int rc = tp__sqlite_bind_ints(statement, (const int64_t[]){entry, position}, 2);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(statement, 3, &tp__run_columns, run);
  return tp__sqlite_run(statement, rc);
}

static int delete_runs_locked(tp__sqlite_store *s, int64_t entry) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__DELETE_RUNS];
  return tp__sqlite_run(statement, tp__sqlite_bind_ints(statement, &entry, 1));
}

static int find_entry_locked(tp__sqlite_store *s, const tp_entry_record *record, int64_t *ret_number) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *find = s->statements[TP__FIND_ENTRY];
  const int64_t values[] = {(int64_t)record->process_run_id, (int64_t)record->entry_id};
  int rc = tp__sqlite_bind_ints(find, values, 2);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  *ret_number = rc == SQLITE_ROW ? sqlite3_column_int64(find, 0) : 0;
  tp__sqlite_release(find);
  return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

/* A record with the name of an earlier one replaces it: the earlier one was written while the entry ran. */
static int write_entry_locked(tp__sqlite_store *s, const tp_entry_record *record, int64_t *ret_number) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_ENTRY];
  tp_run_record run;
  int rc = tp__sqlite_bind_struct(statement, 1, &tp__entry_columns, record);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(statement, 1 + tp__entry_columns.count, record->ids, TP_ID_COUNT);
  sqlite3_set_last_insert_rowid(s->db, 0);
  rc = tp__sqlite_run(statement, rc);
  int64_t number = sqlite3_last_insert_rowid(s->db);
  const bool is_new = number != 0;
  if (rc == SQLITE_OK && !is_new) rc = find_entry_locked(s, record, &number);
  if (rc == SQLITE_OK && !is_new) rc = delete_runs_locked(s, number);
  for (size_t i = 0; i < record->run_count && rc == SQLITE_OK && read_run(record, i, &run); i++)
    rc = write_run_locked(s, number, (int64_t)i, &run);
  if (is_new) *ret_number = number;
  return rc;
}

static int write_batch_locked(tp__sqlite_store *s, const tp_entry_batch *batch, int64_t *ret_number) {
  TP__LOCKED(&s->mutex);
  tp_entry_record record = {.struct_size = sizeof record};
  size_t offset = 0;
  int rc = SQLITE_OK;
  for (size_t i = 0; i < batch->entry_count && rc == SQLITE_OK && batch->entry(batch, &offset, &record); i++)
    rc = write_entry_locked(s, &record, ret_number);
  return rc;
}

static int write_late_locked(tp__sqlite_store *s, const tp_late_record *late) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__NOTE_LATE];
  return tp__sqlite_run(statement, tp__sqlite_bind_struct(statement, 1, &tp__late_columns, late));
}

static int write_step_locked(tp__sqlite_store *s, int64_t row, int64_t position, const tp_turn_step *step) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_STEP];
  int rc = tp__sqlite_bind_ints(statement, (const int64_t[]){row, position}, 2);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(statement, 3, &tp__step_columns, step);
  return tp__sqlite_run(statement, rc);
}

static int write_turn_locked(tp__sqlite_store *s, const tp__waiting *node, int64_t *ret_row) {
  TP__LOCKED(&s->mutex);
  const tp_turn_record *turn = &node->turn;
  sqlite3_stmt *statement = s->statements[TP__INSERT_TURN];
  int rc = tp__sqlite_bind_struct(statement, 1, &tp__turn_columns, turn);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(statement, 1 + tp__turn_columns.count, node->ids, TP_ID_COUNT);
  rc = tp__sqlite_run(statement, rc);
  *ret_row = sqlite3_last_insert_rowid(s->db);
  for (size_t i = 0; i < turn->step_count && rc == SQLITE_OK; i++)
    rc = write_step_locked(s, *ret_row, (int64_t)i, &node->steps[i]);
  if (rc == SQLITE_OK && turn->running_number)
    rc = tp__sqlite_delete_running_locked(s, turn->process_run_id, turn->running_number);
  return rc == SQLITE_OK ? tp__sqlite_clear_results_locked(s, node->ids) : rc;
}

static int write_audit_locked(tp__sqlite_store *s, const tp_audit *audit, int64_t *ret_row) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_AUDIT];
  int rc = sqlite3_bind_int64(statement, 1, (int64_t)s->process_run_id);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(statement, 2, &tp__audit_columns, audit);
  if (rc == SQLITE_OK && !audit->subscription) rc = sqlite3_bind_null(statement, 1 + tp__audit_columns.count);
  rc = tp__sqlite_run(statement, rc);
  *ret_row = sqlite3_last_insert_rowid(s->db);
  return rc;
}

/* Deletes the rows that are older than the newest `most`; the newest has this number. */
static int trim_below_locked(tp__sqlite_store *s, int statement, int64_t newest, size_t most) {
  TP__LOCKED(&s->mutex);
  int64_t last = newest - (int64_t)most;
  if (last <= 0) return SQLITE_OK;
  return tp__sqlite_run(s->statements[statement], tp__sqlite_bind_ints(s->statements[statement], &last, 1));
}

enum { CONTENTS_OF_ENTRY = 8 }; /* on average; those of an entry go with it */

/* @param newest  for each kind the number of the newest row; 0: none was written. */
static int trim_locked(tp__sqlite_store *s, const int64_t newest[TP__WAITS_KINDS]) {
  TP__LOCKED(&s->mutex);
  const tp_sqlite_store_options *o = &s->options;
  const struct {
    int statement, kind;
    size_t most;
  } rows[] = {{TP__TRIM_RUNS, TP__WAITS_ENTRY, o->records_max},
              {TP__TRIM_ENTRIES, TP__WAITS_ENTRY, o->records_max},
              {TP__TRIM_ATTEMPTS, TP__WAITS_ATTEMPT, o->records_max},
              {TP__TRIM_CONTENTS, TP__WAITS_CONTENT, CONTENTS_OF_ENTRY * o->records_max},
              {TP__TRIM_TURNS, TP__WAITS_TURN, o->turns_max},
              {TP__TRIM_AUDITS, TP__WAITS_AUDIT, o->audits_max}};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rc == SQLITE_OK; i++)
    rc = trim_below_locked(s, rows[i].statement, newest[rows[i].kind], rows[i].most);
  return rc;
}

static int write_one_locked(tp__sqlite_store *s, const tp__waiting *node, int64_t *ret_row) {
  TP__LOCKED(&s->mutex);
  switch (node->kind) {
    case TP__WAITS_ENTRY:
      return write_entry_locked(s, &node->record, ret_row);
    case TP__WAITS_ENTRIES:
      return write_batch_locked(s, &node->batch, ret_row);
    case TP__WAITS_LATE:
      return write_late_locked(s, &node->late);
    case TP__WAITS_TURN:
      return write_turn_locked(s, node, ret_row);
    case TP__WAITS_RUNNING:
      return tp__sqlite_write_running_locked(s, node);
    case TP__WAITS_AUDIT:
      return write_audit_locked(s, &node->audit, ret_row);
    case TP__WAITS_ATTEMPT:
      return tp__sqlite_write_attempt_locked(s, &node->attempt, ret_row);
    case TP__WAITS_CONTENT:
      return tp__sqlite_write_content_locked(s, &node->content, ret_row);
    case TP__WAITS_KINDS:
      break;
  }
  return SQLITE_MISUSE;
}

int tp__sqlite_write_locked(tp__sqlite_store *s, const tp__waiting *first) {
  TP__LOCKED(&s->mutex);
  int64_t newest[TP__WAITS_KINDS] = {0};
  int rc = SQLITE_OK;
  for (const tp__waiting *node = first; node && rc == SQLITE_OK; node = (const tp__waiting *)node->queued.next)
    rc = write_one_locked(s, node, &newest[node->kind]);
  if (newest[TP__WAITS_ENTRIES] > newest[TP__WAITS_ENTRY]) newest[TP__WAITS_ENTRY] = newest[TP__WAITS_ENTRIES];
  return rc == SQLITE_OK ? trim_locked(s, newest) : rc;
}

/* ---- reading ---- */

static const char entries_sql[] = "SELECT number, " TP__SQL_NAMES(TP__ENTRY_LIST) ", " TP__SQL_NAMES(
    TP__ID_LIST) " FROM entry WHERE number > (SELECT max(number) FROM entry) - ?1";
static const char runs_sql[] = "SELECT " TP__SQL_NAMES(TP__RUN_LIST) " FROM run WHERE entry = ?1 ORDER BY position";
static const char turns_sql[] =
    "SELECT row, " TP__TURN_COLUMNS " FROM turn WHERE row > (SELECT max(row) FROM turn) - ?1";
static const char steps_sql[] = "SELECT " TP__SQL_NAMES(TP__STEP_LIST) " FROM step WHERE turn = ?1 ORDER BY position";
static const char audits_sql[] =
    "SELECT " TP__SQL_NAMES(TP__AUDIT_LIST) " FROM audit WHERE row > (SELECT max(row) FROM audit) - ?1";

#define ID_COLUMN(id, column, type) [TP_ID_##id] = #column,
static const char *const id_columns[TP_ID_COUNT] = {TP__ID_LIST(ID_COLUMN, ID_COLUMN)};

/** A part of a statement that is used when its condition is set. */
typedef struct condition {
  bool is_given;
  const char *sql;
} condition;

enum { CONDITIONS_MAX = 5, FIRST_ID = 8 };

/* Numbers rise without a gap, so the newest N rows are those above a certain number. Older rows wait to be deleted. */
static tp_status list_newest(tp__sqlite_store *s, const char *select, const condition conditions[CONDITIONS_MAX],
                             const char *order, tp__listing *listing, const char *doing, tp_fault *fault) {
  sqlite3_str *sql = sqlite3_str_new(NULL);
  sqlite3_str_appendall(sql, select);
  for (int i = 0; i < CONDITIONS_MAX; i++)
    if (conditions[i].is_given) sqlite3_str_appendall(sql, conditions[i].sql);
  if (listing->text_count > TP_ID_COUNT) listing->text_count = TP_ID_COUNT;
  for (size_t i = 0; i < listing->text_count; i++)
    if (listing->texts[i].size) sqlite3_str_appendf(sql, " AND %s = ?%d", id_columns[i], (int)(FIRST_ID + i));
  sqlite3_str_appendall(sql, order);
  char *text = sqlite3_str_finish(sql);
  listing->sql = text;
  listing->first_text = FIRST_ID;
  tp_status status = tp__store_list(s, listing, doing, fault);
  sqlite3_free(text);
  return status;
}

static int64_t sql_limit(size_t limit) { return limit && limit <= INT64_MAX ? (int64_t)limit : -1; }

/** What the rows of a list are given to. */
typedef struct receiver {
  union {
    tp_record_fn entry;
    tp_turn_record_fn turn;
    tp_audit_fn audit;
  };
  void *ctx;
  tp__sqlite_store *s; /* of entries */
  uint64_t process;    /* that was looked at last; 0: none */
  bool is_left;        /* that process is gone, and no recovery has found that yet */
} receiver;

static bool show_run(const void *source, size_t index, tp_run_record *record) {
  return tp__rows_show(source, index, record);
}

static void read_ids(sqlite3_stmt *row, int first, tp_text ids[TP_ID_COUNT]) {
  for (int i = 0; i < TP_ID_COUNT; i++) ids[i] = tp__sqlite_column(row, first + i);
}

/* As a recovery will leave it. */
static bool show_cut_run(const void *source, size_t index, tp_run_record *record) {
  if (!tp__rows_show(source, index, record)) return false;
  if (record->state == TP_STATE_RUNNING || record->state == TP_STATE_QUEUED) {
    record->state = TP_STATE_INTERRUPTED;
    record->reason = TP_REASON_CRASH;
  }
  return true;
}

/* Whether the entry has no end because its process is gone, and no recovery has found that yet. */
static bool was_cut(receiver *to, const tp_entry_record *record) {
  sqlite3 *db = NULL;
  if (record->ended_ns || record->status != TP_OK) return false;
  if (record->process_run_id == to->process) return to->is_left;
  if (tp__store_take_reader(to->s, &db, NULL) != TP_OK) return false;
  int rc = tp__sqlite_left_process(to->s, db, (int64_t)record->process_run_id, &to->is_left);
  tp__store_return_reader(to->s, db);
  to->process = record->process_run_id;
  to->is_left = to->is_left && rc == SQLITE_OK;
  return to->is_left;
}

static bool show_entry(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  receiver *to = ctx;
  tp_text ids[TP_ID_COUNT];
  tp_entry_record record;
  tp__sqlite_read_struct(row, 1, &tp__entry_columns, &record);
  read_ids(row, 1 + tp__entry_columns.count, ids);
  record.ids = ids;
  record.id_count = TP_ID_COUNT;
  record.run_count = parts->count;
  bool is_cut = was_cut(to, &record);
  if (is_cut) record.status = TP_ERR_HOOK;
  record.run = is_cut ? show_cut_run : show_run;
  record.source = parts;
  return to->entry(to->ctx, &record);
}

tp_status tp__sqlite_records(void *ctx, const tp_record_query *theirs, tp_record_fn each, void *each_ctx,
                             tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp_record_query query;
  tp_status status = tp__store_read_query(s, &query, sizeof query, theirs, "tp_record_query", fault);
  if (status != TP_OK) return status;
  const condition conditions[CONDITIONS_MAX] = {
      {query.before_entry_id, " AND number < (SELECT number FROM entry WHERE process = ?2 AND id = ?3)"},
      {query.from_unix_ms, " AND started_unix_ms >= ?4"},
      {query.to_unix_ms, " AND started_unix_ms <= ?5"},
      {query.phase, " AND phase = ?6"},
      {query.only_failed, " AND status <> 0"}};
  const int64_t values[] = {(int64_t)s->options.records_max,
                            (int64_t)query.before_process_run_id,
                            (int64_t)query.before_entry_id,
                            query.from_unix_ms,
                            query.to_unix_ms,
                            query.phase,
                            sql_limit(query.limit)};
  tp__listing listing = {.values = values,
                         .count = 7,
                         .texts = query.ids,
                         .text_count = query.id_count,
                         .parts_sql = runs_sql,
                         .parts = &tp__run_columns,
                         .show = show_entry,
                         .ctx = &(receiver){.entry = each, .ctx = each_ctx, .s = s}};
  return list_newest(s, entries_sql, conditions, " ORDER BY number DESC LIMIT ?7", &listing, "read records", fault);
}

/* ---- turns ---- */

bool tp__sqlite_show_step(const void *source, size_t index, tp_turn_step *step) {
  return tp__rows_show(source, index, step);
}

static bool show_turn(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_text ids[TP_ID_COUNT];
  tp_turn_record record;
  tp__sqlite_read_struct(row, 1, &tp__turn_columns, &record);
  read_ids(row, 1 + tp__turn_columns.count, ids);
  record.ids = ids;
  record.id_count = TP_ID_COUNT;
  record.step_count = parts->count;
  record.step = tp__sqlite_show_step;
  record.step_source = parts;
  return to->turn(to->ctx, &record);
}

tp_status tp__sqlite_turns(void *ctx, const tp_turn_query *theirs, tp_turn_record_fn each, void *each_ctx,
                           tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp_turn_query query;
  tp_status status = tp__store_read_query(s, &query, sizeof query, theirs, "tp_turn_query", fault);
  if (status != TP_OK) return status;
  const condition conditions[CONDITIONS_MAX] = {
      {query.before_number, " AND row < (SELECT row FROM turn WHERE process = ?2 AND number = ?3)"},
      {query.from_unix_ms, " AND ended_unix_ms >= ?4"},
      {query.to_unix_ms, " AND ended_unix_ms <= ?5"},
      {query.only_failed, " AND outcome <> ?6"}};
  const int64_t values[] = {(int64_t)s->options.turns_max,
                            (int64_t)query.before_process_run_id,
                            (int64_t)query.before_number,
                            query.from_unix_ms,
                            query.to_unix_ms,
                            TP_TURN_COMPLETED,
                            sql_limit(query.limit)};
  tp__listing listing = {.values = values,
                         .count = 7,
                         .texts = query.ids,
                         .text_count = query.id_count,
                         .parts_sql = steps_sql,
                         .parts = &tp__step_columns,
                         .show = show_turn,
                         .ctx = &(receiver){.turn = each, .ctx = each_ctx}};
  return list_newest(s, turns_sql, conditions, " ORDER BY row DESC LIMIT ?7", &listing, "read turns", fault);
}

/* ---- audit rows ---- */

static bool show_audit(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_audit audit;
  (void)parts;
  tp__sqlite_read_struct(row, 0, &tp__audit_columns, &audit);
  return to->audit(to->ctx, &audit);
}

tp_status tp__sqlite_audits(void *ctx, const tp_audit_query *theirs, tp_audit_fn each, void *each_ctx,
                            tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp_audit_query query;
  tp_status status = tp__store_read_query(s, &query, sizeof query, theirs, "tp_audit_query", fault);
  if (status != TP_OK) return status;
  const condition conditions[CONDITIONS_MAX] = {{query.from_unix_ms, " AND unix_ms >= ?2"},
                                                {query.to_unix_ms, " AND unix_ms <= ?3"},
                                                {query.phase, " AND phase = ?4"}};
  const int64_t values[] = {(int64_t)s->options.audits_max, query.from_unix_ms, query.to_unix_ms, query.phase,
                            sql_limit(query.limit)};
  tp__listing listing = {
      .values = values, .count = 5, .show = show_audit, .ctx = &(receiver){.audit = each, .ctx = each_ctx}};
  return list_newest(s, audits_sql, conditions, " ORDER BY row DESC LIMIT ?5", &listing, "read audit rows", fault);
}
