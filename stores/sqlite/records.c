/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry records: copied into a block of their own on the calling thread, those of a turn together, as they are packed;
 * written by the writer's thread, read in a snapshot. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sqlite.h"
#include "stores/sqlite/statement.h"
#include "turnphase/turn.h"

/* ---- on the way in ---- */

static size_t size_of(const char *string) { return string ? strlen(string) + 1 : 0; }

static const char *put_string(char **at, const char *string) {
  size_t size = size_of(string);
  if (size == 0) return NULL;
  char *copy = *at;
  memcpy(copy, string, size);
  *at += size;
  return copy;
}

static tp_text put_text(char **at, tp_text text) {
  char *copy = *at;
  if (text.size) memcpy(copy, text.data, text.size);
  *at += text.size;
  return (tp_text){copy, text.size};
}

static bool read_run(const tp_entry_record *record, size_t index, tp_run_record *run) {
  *run = (tp_run_record){.struct_size = sizeof *run};
  return record->run(record->source, index, run);
}

enum { RUNS_ON_STACK = 32 };

/* @return how many bytes the texts take; SIZE_MAX when a run is missing. */
static size_t take_runs(const tp_entry_record *record, tp_run_record *runs) {
  size_t bytes = 0;
  for (size_t i = 0; i < record->id_count && i < TP_ID_COUNT; i++) bytes += record->ids[i].size;
  for (size_t i = 0; i < record->run_count; i++) {
    if (!read_run(record, i, &runs[i])) return SIZE_MAX;
    bytes += size_of(runs[i].subscription) + size_of(runs[i].handler) + size_of(runs[i].owner);
  }
  return bytes;
}

static tp__waiting *node_new(size_t rows_bytes, size_t texts) {
  size_t bytes = sizeof(tp__waiting) + TP_ID_COUNT * sizeof(tp_text) + rows_bytes + texts;
  tp__waiting *node = sqlite3_malloc64(bytes);
  if (!node) return NULL;
  memset(node, 0, sizeof *node);
  node->queued.bytes = bytes;
  node->queued.count = 1;
  return node;
}

bool tp__sqlite_waiting_run(const void *source, size_t index, tp_run_record *record) {
  const tp__waiting *node = source;
  if (index >= node->record.run_count) return false;
  *record = node->runs[index]; /* read_run() alone asks */
  return true;
}

static void fill(tp__waiting *node, const tp_entry_record *record, const tp_run_record *runs) {
  tp_text *ids = (tp_text *)(node + 1);
  node->runs = (tp_run_record *)(ids + TP_ID_COUNT);
  char *at = (char *)(node->runs + record->run_count);
  node->record = *record;
  for (size_t i = 0; i < TP_ID_COUNT; i++)
    ids[i] = i < record->id_count ? put_text(&at, record->ids[i]) : (tp_text){NULL, 0};
  node->record.ids = ids;
  node->record.id_count = TP_ID_COUNT;
  node->record.run = tp__sqlite_waiting_run;
  node->record.source = node;
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record *run = &node->runs[i];
    *run = runs[i];
    run->subscription = put_string(&at, run->subscription);
    run->handler = put_string(&at, run->handler);
    run->owner = put_string(&at, run->owner);
  }
}

/* Each run is read once: a store is given them by the thousand. */
static tp_status copy_record(const tp_entry_record *record, tp_run_record *runs, tp__waiting **ret_node) {
  size_t bytes = take_runs(record, runs);
  if (bytes == SIZE_MAX) return TP_ERR_MALFORMED;
  *ret_node = node_new(record->run_count * sizeof *runs, bytes);
  if (!*ret_node) return TP_ERR_NO_MEMORY;
  fill(*ret_node, record, runs);
  return TP_OK;
}

tp_status tp__sqlite_record(void *self, const tp_entry_record *theirs) {
  tp_entry_record record;
  tp_run_record few[RUNS_ON_STACK], *runs = few;
  tp__waiting *node = NULL;
  tp_status status = tp__sqlite_read(&record, sizeof record, theirs, "tp_entry_record", NULL);
  if (status != TP_OK) return status;
  if (record.run_count > RUNS_ON_STACK) runs = sqlite3_malloc64(record.run_count * sizeof *runs);
  status = runs ? copy_record(&record, runs, &node) : TP_ERR_NO_MEMORY;
  if (runs != few) sqlite3_free(runs);
  return status == TP_OK ? tp__sqlite_queue(self, node) : status;
}

/* As they are packed: the writer's thread reads them. */
static tp_status copy_batch(const tp_entry_batch *batch, tp__waiting **ret_node) {
  size_t texts = 0, id_count = batch->id_count < TP_ID_COUNT ? batch->id_count : TP_ID_COUNT;
  for (size_t i = 0; i < id_count; i++) texts += batch->ids[i].size;
  tp__waiting *node = *ret_node = node_new(batch->packed_bytes, texts);
  if (!node) return TP_ERR_NO_MEMORY;
  tp_text *ids = (tp_text *)(node + 1);
  char *packed = (char *)(ids + TP_ID_COUNT), *at = packed + batch->packed_bytes;
  memcpy(packed, batch->packed, batch->packed_bytes);
  for (size_t i = 0; i < TP_ID_COUNT; i++) ids[i] = i < id_count ? put_text(&at, batch->ids[i]) : (tp_text){NULL, 0};
  node->queued.count = batch->entry_count;
  node->kind = TP__WAITS_ENTRIES;
  node->batch = *batch;
  node->batch.ids = ids;
  node->batch.id_count = TP_ID_COUNT;
  node->batch.packed = packed;
  return TP_OK;
}

tp_status tp__sqlite_record_batch(void *self, const tp_entry_batch *theirs) {
  tp_entry_batch batch;
  tp__waiting *node;
  tp_status status = tp__sqlite_read(&batch, sizeof batch, theirs, "tp_entry_batch", NULL);
  if (status != TP_OK) return status;
  if (!batch.entry || batch.entry_count == 0) return TP_ERR_MALFORMED;
  status = copy_batch(&batch, &node);
  return status == TP_OK ? tp__sqlite_queue(self, node) : status;
}

/* In the queue behind its entry, if that waits too. */
tp_status tp__sqlite_record_late(void *self, const tp_late_record *theirs) {
  tp_late_record late;
  tp_status status = tp__sqlite_read(&late, sizeof late, theirs, "tp_late_record", NULL);
  if (status != TP_OK) return status;
  tp__waiting *node = node_new(0, 0);
  if (!node) return TP_ERR_NO_MEMORY;
  node->kind = TP__WAITS_LATE;
  node->late = late;
  return tp__sqlite_queue(self, node);
}

static bool read_step(const tp_turn_record *record, size_t index, tp_turn_step *step) {
  *step = (tp_turn_step){.struct_size = sizeof *step};
  return record->step && record->step(record->step_source, index, step);
}

tp_status tp__sqlite_turn_record(void *self, const tp_turn_record *theirs) {
  tp_turn_record record;
  tp_turn_step step;
  tp_status status = tp__sqlite_read(&record, sizeof record, theirs, "tp_turn_record", NULL);
  if (status != TP_OK) return status;
  size_t bytes = record.subscription.size + record.reason.size + record.parent_turn.size;
  for (size_t i = 0; i < record.id_count && i < TP_ID_COUNT; i++) bytes += record.ids[i].size;
  for (size_t i = 0; i < record.step_count; i++) {
    if (!read_step(&record, i, &step)) return TP_ERR_MALFORMED;
    bytes += step.name.size;
  }
  tp__waiting *node = node_new(record.step_count * sizeof step, bytes);
  if (!node) return TP_ERR_NO_MEMORY;
  tp_text *ids = (tp_text *)(node + 1);
  node->steps = (tp_turn_step *)(ids + TP_ID_COUNT);
  char *at = (char *)(node->steps + record.step_count);
  node->kind = TP__WAITS_TURN;
  node->turn = record;
  for (size_t i = 0; i < TP_ID_COUNT; i++)
    ids[i] = i < record.id_count ? put_text(&at, record.ids[i]) : (tp_text){NULL, 0};
  node->turn.ids = ids;
  node->turn.id_count = TP_ID_COUNT;
  node->turn.subscription = put_text(&at, record.subscription);
  node->turn.reason = put_text(&at, record.reason);
  node->turn.parent_turn = put_text(&at, record.parent_turn);
  for (size_t i = 0; i < record.step_count; i++) {
    (void)read_step(&record, i, &node->steps[i]);
    node->steps[i].name = put_text(&at, node->steps[i].name);
  }
  return tp__sqlite_queue(self, node);
}

tp_status tp__sqlite_audit(void *self, const tp_audit *theirs) {
  tp_audit row;
  tp_status status = tp__sqlite_read(&row, sizeof row, theirs, "tp_audit", NULL);
  if (status != TP_OK) return status;
  const char **texts[] = {&row.owner, &row.action, &row.detail, &row.subscription, &row.turn};
  size_t bytes = 0;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) bytes += size_of(*texts[i]);
  tp__waiting *node = node_new(0, bytes);
  if (!node) return TP_ERR_NO_MEMORY;
  char *at = (char *)(node + 1);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) *texts[i] = put_string(&at, *texts[i]);
  node->kind = TP__WAITS_AUDIT;
  node->audit = row;
  return tp__sqlite_queue(self, node);
}

/* ---- on the writer's thread ---- */

static int write_run_locked(tp__sqlite_store *s, int64_t entry, int64_t position, const tp_run_record *run) {
  sqlite3_stmt *statement = s->statements[TP__INSERT_RUN];
  const char *names[] = {run->subscription, run->handler, run->owner};
  int rc = SQLITE_OK;
  const int64_t values[] = {entry,          position,     run->queued_ns,     run->started_ns,
                            run->ended_ns,  run->late_ns, run->code,          run->contribution_count,
                            run->attempts,  run->state,   run->reason,        run->verdict,
                            run->execution, run->failure, run->fallback_used, run->visibility,
                            run->limit_ms,  run->thread};
  rc = tp__sqlite_bind_ints(statement, values, sizeof values / sizeof values[0]);
  for (int i = 0; i < 3 && rc == SQLITE_OK; i++)
    rc = tp__sqlite_bind_text(statement, 19 + i, (tp_text){names[i], names[i] ? strlen(names[i]) : 0});
  return tp__sqlite_run(statement, rc);
}

static int delete_runs_locked(tp__sqlite_store *s, int64_t entry) {
  sqlite3_stmt *statement = s->statements[TP__DELETE_RUNS];
  return tp__sqlite_run(statement, tp__sqlite_bind_ints(statement, &entry, 1));
}

/* A record with the name of an earlier one replaces it: the earlier one was of an entry that ran. */
static int write_entry_locked(tp__sqlite_store *s, const tp_entry_record *record, int64_t *ret_number) {
  sqlite3_stmt *statement = s->statements[TP__INSERT_ENTRY];
  tp_run_record run;
  const int64_t values[] = {(int64_t)record->process_run_id,
                            (int64_t)record->entry_id,
                            (int64_t)record->plan_hash,
                            record->started_ns,
                            record->ended_ns,
                            record->started_unix_ms,
                            record->phase,
                            record->status};
  int rc = tp__sqlite_bind_ints(statement, values, 8);
  for (int i = 0; i < TP_ID_COUNT && rc == SQLITE_OK; i++) rc = tp__sqlite_bind_text(statement, 9 + i, record->ids[i]);
  sqlite3_set_last_insert_rowid(s->db, 0);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  bool is_new = sqlite3_last_insert_rowid(s->db) != 0;
  if (rc == SQLITE_ROW) rc = sqlite3_step(statement);
  tp__sqlite_release(statement);
  if (rc != SQLITE_DONE) return rc;
  rc = is_new ? SQLITE_OK : delete_runs_locked(s, number);
  for (size_t i = 0; i < record->run_count && rc == SQLITE_OK && read_run(record, i, &run); i++)
    rc = write_run_locked(s, number, (int64_t)i, &run);
  if (is_new) *ret_number = number;
  return rc;
}

static int write_batch_locked(tp__sqlite_store *s, const tp_entry_batch *batch, int64_t *ret_number) {
  tp_entry_record record = {.struct_size = sizeof record};
  size_t offset = 0;
  int rc = SQLITE_OK;
  for (size_t i = 0; i < batch->entry_count && rc == SQLITE_OK && batch->entry(batch, &offset, &record); i++)
    rc = write_entry_locked(s, &record, ret_number);
  return rc;
}

static int write_late_locked(tp__sqlite_store *s, const tp_late_record *late) {
  sqlite3_stmt *statement = s->statements[TP__NOTE_LATE];
  const int64_t values[] = {(int64_t)late->process_run_id, (int64_t)late->entry_id, late->run_index, late->late_ns};
  return tp__sqlite_run(statement, tp__sqlite_bind_ints(statement, values, 4));
}

static int write_step_locked(tp__sqlite_store *s, int64_t row, int64_t position, const tp_turn_step *step) {
  sqlite3_stmt *statement = s->statements[TP__INSERT_STEP];
  const int64_t values[] = {row,         position,      step->kind,       step->round,
                            step->place, step->outcome, step->started_ns, step->ended_ns};
  int rc = tp__sqlite_bind_ints(statement, values, 8);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(statement, 9, step->name);
  return tp__sqlite_run(statement, rc);
}

static int write_turn_locked(tp__sqlite_store *s, const tp__waiting *node, int64_t *ret_row) {
  const tp_turn_record *turn = &node->turn;
  sqlite3_stmt *statement = s->statements[TP__INSERT_TURN];
  const int64_t values[] = {(int64_t)turn->process_run_id,
                            (int64_t)turn->number,
                            turn->outcome,
                            turn->code,
                            turn->started_ns,
                            turn->ended_ns,
                            turn->started_unix_ms,
                            turn->ended_unix_ms,
                            turn->load_ns,
                            turn->model_ns,
                            turn->tools_ns,
                            turn->append_ns,
                            turn->iterations,
                            turn->tool_calls,
                            turn->input_tokens,
                            turn->output_tokens,
                            turn->cost_micros,
                            turn->phase,
                            (int64_t)turn->steps_dropped};
  int rc = tp__sqlite_bind_ints(statement, values, 19);
  for (int i = 0; i < TP_ID_COUNT && rc == SQLITE_OK; i++) rc = tp__sqlite_bind_text(statement, 20 + i, turn->ids[i]);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(statement, 28, turn->subscription);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(statement, 29, turn->reason);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(statement, 30, turn->parent_turn);
  rc = tp__sqlite_run(statement, rc);
  *ret_row = sqlite3_last_insert_rowid(s->db);
  for (size_t i = 0; i < turn->step_count && rc == SQLITE_OK; i++)
    rc = write_step_locked(s, *ret_row, (int64_t)i, &node->steps[i]);
  return rc == SQLITE_OK ? tp__sqlite_clear_results_locked(s, turn->ids) : rc;
}

static int write_audit_locked(tp__sqlite_store *s, const tp_audit *audit, int64_t *ret_row) {
  sqlite3_stmt *statement = s->statements[TP__INSERT_AUDIT];
  const int64_t values[] = {
      (int64_t)s->process_run_id, audit->unix_ms, audit->status, audit->phase,     (int64_t)audit->snapshot_hash,
      audit->duration_ns,         audit->state,   audit->reason, audit->visibility};
  const char *const texts[] = {audit->owner, audit->action, audit->detail, audit->turn};
  int rc = tp__sqlite_bind_ints(statement, values, 9);
  for (int i = 0; i < 4 && rc == SQLITE_OK; i++) rc = tp__sqlite_bind_text(statement, 10 + i, tp_text_of(texts[i]));
  if (rc == SQLITE_OK && audit->subscription) rc = tp__sqlite_bind_text(statement, 14, tp_text_of(audit->subscription));
  rc = tp__sqlite_run(statement, rc);
  *ret_row = sqlite3_last_insert_rowid(s->db);
  return rc;
}

/* Deletes the rows that are older than the newest `most` when the newest has this number. */
static int trim_below_locked(tp__sqlite_store *s, int statement, int64_t newest, size_t most) {
  int64_t last = newest - (int64_t)most;
  if (last <= 0) return SQLITE_OK;
  return tp__sqlite_run(s->statements[statement], tp__sqlite_bind_ints(s->statements[statement], &last, 1));
}

enum { CONTENTS_OF_ENTRY = 8 }; /* on average; those of an entry go with it */

/* @param newest  by kind: the number of the newest row; 0: none was written. */
static int trim_locked(tp__sqlite_store *s, const int64_t newest[TP__WAITS_KINDS]) {
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
  switch (node->kind) {
    case TP__WAITS_ENTRY:
      return write_entry_locked(s, &node->record, ret_row);
    case TP__WAITS_ENTRIES:
      return write_batch_locked(s, &node->batch, ret_row);
    case TP__WAITS_LATE:
      return write_late_locked(s, &node->late);
    case TP__WAITS_TURN:
      return write_turn_locked(s, node, ret_row);
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
  int64_t newest[TP__WAITS_KINDS] = {0};
  int rc = SQLITE_OK;
  for (const tp__waiting *node = first; node && rc == SQLITE_OK; node = (const tp__waiting *)node->queued.next)
    rc = write_one_locked(s, node, &newest[node->kind]);
  if (newest[TP__WAITS_ENTRIES] > newest[TP__WAITS_ENTRY]) newest[TP__WAITS_ENTRY] = newest[TP__WAITS_ENTRIES];
  return rc == SQLITE_OK ? trim_locked(s, newest) : rc;
}

/* ---- reading ---- */

/** The runs of the entry that is being shown; names stands for all of their strings, one block. */
typedef struct run_list {
  tp_run_record *items;
  size_t count, capacity;
} run_list;

static void run_list_clear(run_list *list) {
  for (size_t i = 0; i < list->count; i++) sqlite3_free((char *)(uintptr_t)list->items[i].subscription);
  list->count = 0;
}

static bool show_run(const void *source, size_t index, tp_run_record *record) {
  const run_list *list = source;
  size_t size = record->struct_size;
  if (index >= list->count || size == 0) return false;
  tp_run_record run = list->items[index];
  run.struct_size = size;
  memset(record, 0, size);
  memcpy(record, &run, size < sizeof run ? size : sizeof run);
  return true;
}

/* subscription begins the block that all three names lie in. */
static int add_run(run_list *list, sqlite3_stmt *row) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    tp_run_record *items = sqlite3_realloc64(list->items, capacity * sizeof *items);
    if (!items) return SQLITE_NOMEM;
    list->items = items;
    list->capacity = capacity;
  }
  const char *names[3];
  size_t bytes = 3;
  for (int i = 0; i < 3; i++) {
    names[i] = (const char *)sqlite3_column_text(row, 13 + i);
    if (!names[i]) return SQLITE_NOMEM;
    bytes += strlen(names[i]);
  }
  char *at = sqlite3_malloc64(bytes);
  if (!at) return SQLITE_NOMEM;
  tp_run_record *run = &list->items[list->count++];
  *run = (tp_run_record){.struct_size = sizeof *run,
                         .queued_ns = sqlite3_column_int64(row, 0),
                         .started_ns = sqlite3_column_int64(row, 1),
                         .ended_ns = sqlite3_column_int64(row, 2),
                         .late_ns = sqlite3_column_int64(row, 3),
                         .code = (uint32_t)sqlite3_column_int64(row, 4),
                         .contribution_count = (uint32_t)sqlite3_column_int64(row, 5),
                         .attempts = (uint16_t)sqlite3_column_int(row, 6),
                         .state = (uint8_t)sqlite3_column_int(row, 7),
                         .reason = (uint8_t)sqlite3_column_int(row, 8),
                         .verdict = (uint8_t)sqlite3_column_int(row, 9),
                         .execution = (uint8_t)sqlite3_column_int(row, 10),
                         .failure = (uint8_t)sqlite3_column_int(row, 11),
                         .fallback_used = sqlite3_column_int(row, 12) != 0,
                         .visibility = (uint8_t)sqlite3_column_int(row, 16),
                         .limit_ms = (uint32_t)sqlite3_column_int64(row, 17),
                         .thread = (uint16_t)sqlite3_column_int64(row, 18)};
  run->subscription = put_string(&at, names[0]);
  run->handler = put_string(&at, names[1]);
  run->owner = put_string(&at, names[2]);
  return SQLITE_OK;
}

static int read_runs(sqlite3_stmt *runs, int64_t entry, run_list *list) {
  run_list_clear(list);
  int rc = sqlite3_bind_int64(runs, 1, entry);
  while (rc == SQLITE_OK && (rc = sqlite3_step(runs)) == SQLITE_ROW) rc = add_run(list, runs);
  sqlite3_reset(runs);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static const char runs_sql[] =
    "SELECT queued_ns, started_ns, ended_ns, late_ns, code, contribution_count, attempts, state, reason, verdict,"
    " execution, failure, fallback_used, subscription, handler, owner, visibility, limit_ms, handler_thread"
    " FROM run WHERE entry = ?1 ORDER BY position";

static const char *const id_columns[TP_ID_COUNT] = {
    [TP_ID_TENANT] = "tenant", [TP_ID_AGENT] = "agent", [TP_ID_WORKSPACE] = "workspace", [TP_ID_SESSION] = "session",
    [TP_ID_THREAD] = "thread", [TP_ID_TURN] = "turn",   [TP_ID_TASK] = "task",           [TP_ID_RUN] = "run"};

/* Numbers rise without a gap, so the newest so many are those above a number: others wait to be deleted. */
static int prepare_entries(sqlite3 *db, const tp_record_query *query, sqlite3_stmt **ret_statement) {
  sqlite3_str *sql = sqlite3_str_new(db);
  sqlite3_str_appendall(sql,
                        "SELECT number, process, id, plan_hash, started_ns, ended_ns, started_unix_ms, phase, status,"
                        " tenant, agent, workspace, session, thread, turn, task, run FROM entry"
                        " WHERE number > (SELECT max(number) FROM entry) - ?1");
  if (query->before_entry_id)
    sqlite3_str_appendall(sql, " AND number < (SELECT number FROM entry WHERE process = ?2 AND id = ?3)");
  if (query->from_unix_ms) sqlite3_str_appendall(sql, " AND started_unix_ms >= ?4");
  if (query->to_unix_ms) sqlite3_str_appendall(sql, " AND started_unix_ms <= ?5");
  if (query->phase) sqlite3_str_appendall(sql, " AND phase = ?6");
  if (query->only_failed) sqlite3_str_appendall(sql, " AND status <> 0");
  for (size_t i = 0; i < query->id_count && i < TP_ID_COUNT; i++)
    if (query->ids[i].size) sqlite3_str_appendf(sql, " AND %s = ?%d", id_columns[i], (int)(8 + i));
  sqlite3_str_appendall(sql, " ORDER BY number DESC LIMIT ?7");
  char *text = sqlite3_str_finish(sql);
  if (!text) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(db, text, -1, ret_statement, NULL);
  sqlite3_free(text);
  return rc;
}

static int64_t limit_of(size_t limit) { return limit && limit <= INT64_MAX ? (int64_t)limit : -1; }

static int bind_entries(sqlite3_stmt *statement, const tp_record_query *query, size_t records_max) {
  const int64_t values[] = {(int64_t)records_max,
                            (int64_t)query->before_process_run_id,
                            (int64_t)query->before_entry_id,
                            query->from_unix_ms,
                            query->to_unix_ms,
                            query->phase,
                            limit_of(query->limit)};
  int rc = tp__sqlite_bind_ints(statement, values, 7);
  for (size_t i = 0; i < query->id_count && i < TP_ID_COUNT && rc == SQLITE_OK; i++)
    if (query->ids[i].size) rc = tp__sqlite_bind_text(statement, (int)(8 + i), query->ids[i]);
  return rc;
}

static bool show_entry(sqlite3_stmt *row, const run_list *runs, tp_record_fn each, void *ctx) {
  tp_text ids[TP_ID_COUNT];
  for (int i = 0; i < TP_ID_COUNT; i++) ids[i] = tp__sqlite_column(row, 9 + i);
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = (uint64_t)sqlite3_column_int64(row, 1),
                            .entry_id = (uint64_t)sqlite3_column_int64(row, 2),
                            .plan_hash = (uint64_t)sqlite3_column_int64(row, 3),
                            .started_ns = sqlite3_column_int64(row, 4),
                            .ended_ns = sqlite3_column_int64(row, 5),
                            .started_unix_ms = sqlite3_column_int64(row, 6),
                            .phase = (uint32_t)sqlite3_column_int64(row, 7),
                            .status = sqlite3_column_int(row, 8),
                            .ids = ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = runs->count,
                            .run = show_run,
                            .source = runs};
  return each(ctx, &record);
}

static int show_entries(sqlite3_stmt *rows, sqlite3_stmt *runs, tp_record_fn each, void *ctx) {
  run_list list = {0};
  int rc;
  bool goes_on = true;
  while (goes_on && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    rc = read_runs(runs, sqlite3_column_int64(rows, 0), &list);
    if (rc != SQLITE_OK) break;
    goes_on = show_entry(rows, &list, each, ctx);
  }
  run_list_clear(&list);
  sqlite3_free(list.items);
  return !goes_on || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* What waits is written first. Where that fails, which the log says, what was written before is still worth seeing. */
tp_status tp__sqlite_records(void *self, const tp_record_query *theirs, tp_record_fn each, void *ctx, tp_fault *fault) {
  tp__sqlite_store *s = self;
  tp_record_query query;
  sqlite3 *db = NULL;
  sqlite3_stmt *rows = NULL, *runs = NULL;
  tp_status status = tp__sqlite_read(&query, sizeof query, theirs, "tp_record_query", fault);
  if (status != TP_OK) return status;
  (void)!tp__sqlite_commit(s, NULL);
  status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = prepare_entries(db, &query, &rows);
  if (rc == SQLITE_OK) rc = bind_entries(rows, &query, s->options.records_max);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(db, runs_sql, -1, &runs, NULL);
  if (rc == SQLITE_OK) rc = show_entries(rows, runs, each, ctx);
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "read records", rc, fault);
  sqlite3_finalize(runs);
  sqlite3_finalize(rows);
  tp__store_return_reader(s, db);
  return status;
}

/* ---- turns ---- */

static int prepare_turns(sqlite3 *db, const tp_turn_query *query, sqlite3_stmt **ret_statement) {
  sqlite3_str *sql = sqlite3_str_new(db);
  sqlite3_str_appendall(sql,
                        "SELECT process, number, outcome, code, started_ns, ended_ns, started_unix_ms, ended_unix_ms,"
                        " load_ns, model_ns, tools_ns, append_ns, iterations, tool_calls, input_tokens, output_tokens,"
                        " cost_micros, phase, subscription, reason, tenant, agent, workspace, session, thread, turn,"
                        " task, run, steps_dropped, row, parent_turn FROM turn"
                        " WHERE row > (SELECT max(row) FROM turn) - ?1");
  if (query->before_number)
    sqlite3_str_appendall(sql, " AND row < (SELECT row FROM turn WHERE process = ?2 AND number = ?3)");
  if (query->from_unix_ms) sqlite3_str_appendall(sql, " AND ended_unix_ms >= ?4");
  if (query->to_unix_ms) sqlite3_str_appendall(sql, " AND ended_unix_ms <= ?5");
  if (query->only_failed) sqlite3_str_appendf(sql, " AND outcome <> %d", (int)TP_TURN_COMPLETED);
  for (size_t i = 0; i < query->id_count && i < TP_ID_COUNT; i++)
    if (query->ids[i].size) sqlite3_str_appendf(sql, " AND %s = ?%d", id_columns[i], (int)(7 + i));
  sqlite3_str_appendall(sql, " ORDER BY row DESC LIMIT ?6");
  char *text = sqlite3_str_finish(sql);
  if (!text) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(db, text, -1, ret_statement, NULL);
  sqlite3_free(text);
  return rc;
}

static int bind_turns(sqlite3_stmt *statement, const tp_turn_query *query, size_t turns_max) {
  const int64_t values[] = {(int64_t)turns_max,
                            (int64_t)query->before_process_run_id,
                            (int64_t)query->before_number,
                            query->from_unix_ms,
                            query->to_unix_ms,
                            limit_of(query->limit)};
  int rc = tp__sqlite_bind_ints(statement, values, 6);
  for (size_t i = 0; i < query->id_count && i < TP_ID_COUNT && rc == SQLITE_OK; i++)
    if (query->ids[i].size) rc = tp__sqlite_bind_text(statement, (int)(7 + i), query->ids[i]);
  return rc;
}

/** The steps of the turn that is being shown, each with its name behind it. */
typedef struct step_list {
  tp_turn_step *items;
  size_t count, capacity;
} step_list;

static void step_list_clear(step_list *list) {
  for (size_t i = 0; i < list->count; i++) sqlite3_free((char *)(uintptr_t)list->items[i].name.data);
  list->count = 0;
}

static int add_step(step_list *list, sqlite3_stmt *row) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    tp_turn_step *items = sqlite3_realloc64(list->items, capacity * sizeof *items);
    if (!items) return SQLITE_NOMEM;
    list->items = items;
    list->capacity = capacity;
  }
  tp_text name = tp__sqlite_column(row, 6);
  char *copy = sqlite3_malloc64(name.size + 1);
  if (!copy) return SQLITE_NOMEM;
  if (name.size) memcpy(copy, name.data, name.size);
  list->items[list->count++] = (tp_turn_step){.struct_size = sizeof(tp_turn_step),
                                              .kind = (uint32_t)sqlite3_column_int64(row, 0),
                                              .round = (uint32_t)sqlite3_column_int64(row, 1),
                                              .place = (uint32_t)sqlite3_column_int64(row, 2),
                                              .outcome = sqlite3_column_int(row, 3),
                                              .started_ns = sqlite3_column_int64(row, 4),
                                              .ended_ns = sqlite3_column_int64(row, 5),
                                              .name = {copy, name.size}};
  return SQLITE_OK;
}

static int read_steps(sqlite3_stmt *steps, int64_t turn, step_list *list) {
  step_list_clear(list);
  int rc = sqlite3_bind_int64(steps, 1, turn);
  while (rc == SQLITE_OK && (rc = sqlite3_step(steps)) == SQLITE_ROW) rc = add_step(list, steps);
  sqlite3_reset(steps);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static const char steps_sql[] =
    "SELECT kind, round, place, outcome, started_ns, ended_ns, name FROM step WHERE turn = ?1 ORDER BY position";

static bool show_step(const void *source, size_t index, tp_turn_step *step) {
  const step_list *list = source;
  size_t size = step->struct_size;
  if (index >= list->count || size == 0) return false;
  tp_turn_step ours = list->items[index];
  ours.struct_size = size;
  memset(step, 0, size);
  memcpy(step, &ours, size < sizeof ours ? size : sizeof ours);
  return true;
}

static bool show_turn(sqlite3_stmt *row, const step_list *steps, tp_turn_record_fn each, void *ctx) {
  tp_text ids[TP_ID_COUNT];
  for (int i = 0; i < TP_ID_COUNT; i++) ids[i] = tp__sqlite_column(row, 20 + i);
  tp_turn_record record = {.struct_size = sizeof record,
                           .process_run_id = (uint64_t)sqlite3_column_int64(row, 0),
                           .number = (uint64_t)sqlite3_column_int64(row, 1),
                           .ids = ids,
                           .id_count = TP_ID_COUNT,
                           .outcome = (uint32_t)sqlite3_column_int64(row, 2),
                           .code = sqlite3_column_int(row, 3),
                           .started_ns = sqlite3_column_int64(row, 4),
                           .ended_ns = sqlite3_column_int64(row, 5),
                           .started_unix_ms = sqlite3_column_int64(row, 6),
                           .ended_unix_ms = sqlite3_column_int64(row, 7),
                           .load_ns = sqlite3_column_int64(row, 8),
                           .model_ns = sqlite3_column_int64(row, 9),
                           .tools_ns = sqlite3_column_int64(row, 10),
                           .append_ns = sqlite3_column_int64(row, 11),
                           .iterations = (uint32_t)sqlite3_column_int64(row, 12),
                           .tool_calls = (uint32_t)sqlite3_column_int64(row, 13),
                           .input_tokens = sqlite3_column_int64(row, 14),
                           .output_tokens = sqlite3_column_int64(row, 15),
                           .cost_micros = sqlite3_column_int64(row, 16),
                           .phase = (uint32_t)sqlite3_column_int64(row, 17),
                           .subscription = tp__sqlite_column(row, 18),
                           .reason = tp__sqlite_column(row, 19),
                           .step_count = steps->count,
                           .step = show_step,
                           .step_source = steps,
                           .steps_dropped = (uint64_t)sqlite3_column_int64(row, 28),
                           .parent_turn = tp__sqlite_column(row, 30)};
  return each(ctx, &record);
}

static int show_turns(sqlite3_stmt *rows, sqlite3_stmt *steps, tp_turn_record_fn each, void *ctx) {
  step_list list = {0};
  int rc;
  bool goes_on = true;
  while (goes_on && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    rc = read_steps(steps, sqlite3_column_int64(rows, 29), &list);
    if (rc != SQLITE_OK) break;
    goes_on = show_turn(rows, &list, each, ctx);
  }
  step_list_clear(&list);
  sqlite3_free(list.items);
  return !goes_on || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

tp_status tp__sqlite_turns(void *self, const tp_turn_query *theirs, tp_turn_record_fn each, void *ctx,
                           tp_fault *fault) {
  tp__sqlite_store *s = self;
  tp_turn_query query;
  sqlite3 *db = NULL;
  sqlite3_stmt *rows = NULL, *steps = NULL;
  tp_status status = tp__sqlite_read(&query, sizeof query, theirs, "tp_turn_query", fault);
  if (status != TP_OK) return status;
  (void)!tp__sqlite_commit(s, NULL); /* as tp__sqlite_records() */
  status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = prepare_turns(db, &query, &rows);
  if (rc == SQLITE_OK) rc = bind_turns(rows, &query, s->options.turns_max);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(db, steps_sql, -1, &steps, NULL);
  if (rc == SQLITE_OK) rc = show_turns(rows, steps, each, ctx);
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "read turns", rc, fault);
  sqlite3_finalize(steps);
  sqlite3_finalize(rows);
  tp__store_return_reader(s, db);
  return status;
}

/* ---- audit rows ---- */

static int prepare_audits(sqlite3 *db, const tp_audit_query *query, sqlite3_stmt **ret_statement) {
  sqlite3_str *sql = sqlite3_str_new(db);
  sqlite3_str_appendall(sql,
                        "SELECT unix_ms, status, phase, snapshot_hash, duration_ns, state, reason, visibility, owner,"
                        " action, detail, turn, subscription FROM audit WHERE row > (SELECT max(row) FROM audit) - ?1");
  if (query->from_unix_ms) sqlite3_str_appendall(sql, " AND unix_ms >= ?2");
  if (query->to_unix_ms) sqlite3_str_appendall(sql, " AND unix_ms <= ?3");
  if (query->phase) sqlite3_str_appendall(sql, " AND phase = ?4");
  sqlite3_str_appendall(sql, " ORDER BY row DESC LIMIT ?5");
  char *text = sqlite3_str_finish(sql);
  if (!text) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(db, text, -1, ret_statement, NULL);
  sqlite3_free(text);
  return rc;
}

static bool show_audit(sqlite3_stmt *row, tp_audit_fn each, void *ctx) {
  tp_audit audit = {.struct_size = sizeof audit,
                    .unix_ms = sqlite3_column_int64(row, 0),
                    .owner = (const char *)sqlite3_column_text(row, 8),
                    .action = (const char *)sqlite3_column_text(row, 9),
                    .detail = (const char *)sqlite3_column_text(row, 10),
                    .status = (tp_status)sqlite3_column_int(row, 1),
                    .phase = (uint32_t)sqlite3_column_int64(row, 2),
                    .snapshot_hash = (uint64_t)sqlite3_column_int64(row, 3),
                    .subscription = (const char *)sqlite3_column_text(row, 12),
                    .turn = (const char *)sqlite3_column_text(row, 11),
                    .duration_ns = sqlite3_column_int64(row, 4),
                    .state = (tp_state)sqlite3_column_int(row, 5),
                    .reason = (tp_reason)sqlite3_column_int(row, 6),
                    .visibility = (tp_visibility)sqlite3_column_int(row, 7)};
  return each(ctx, &audit);
}

tp_status tp__sqlite_audits(void *self, const tp_audit_query *theirs, tp_audit_fn each, void *ctx, tp_fault *fault) {
  tp__sqlite_store *s = self;
  tp_audit_query query;
  sqlite3 *db = NULL;
  sqlite3_stmt *rows = NULL;
  tp_status status = tp__sqlite_read(&query, sizeof query, theirs, "tp_audit_query", fault);
  if (status != TP_OK) return status;
  (void)!tp__sqlite_commit(s, NULL); /* as tp__sqlite_records() */
  status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = prepare_audits(db, &query, &rows);
  const int64_t values[] = {(int64_t)s->options.audits_max, query.from_unix_ms, query.to_unix_ms, query.phase,
                            limit_of(query.limit)};
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(rows, values, 5);
  while (rc == SQLITE_OK && (rc = sqlite3_step(rows)) == SQLITE_ROW)
    rc = show_audit(rows, each, ctx) ? SQLITE_OK : SQLITE_DONE;
  if (rc != SQLITE_DONE) status = tp__store_fail(s, db, "read audit rows", rc, fault);
  sqlite3_finalize(rows);
  tp__store_return_reader(s, db);
  return status;
}
