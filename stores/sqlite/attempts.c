/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts that the row of their run does not show: they wait in the queue of records, and go with their entry. */
#include "stores/sqlite/sqlite.h"

#define ATTEMPT(member) TP__COLUMN(tp_attempt_record, member)
static const tp__column attempt_columns[] = {
    ATTEMPT(process_run_id), ATTEMPT(entry_id), ATTEMPT(run_index), ATTEMPT(attempt), ATTEMPT(queued_ns),
    ATTEMPT(started_ns),     ATTEMPT(ended_ns), ATTEMPT(late_ns),   ATTEMPT(state),   ATTEMPT(reason),
    ATTEMPT(verdict),        ATTEMPT(code),     ATTEMPT(message)};
static const tp__columns attempts = TP__COLUMNS(tp_attempt_record, attempt_columns);

tp_status tp__sqlite_attempt(void *ctx, const tp_attempt_record *theirs) {
  return tp__sqlite_queue_copy(ctx, TP__WAITS_ATTEMPT, &attempts, "tp_attempt_record", theirs);
}

int tp__sqlite_write_attempt_locked(tp__sqlite_store *s, const tp_attempt_record *a, int64_t *ret_row) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_ATTEMPT];
  int rc = tp__sqlite_run(statement, tp__sqlite_bind_struct(statement, 1, &attempts, a));
  *ret_row = sqlite3_last_insert_rowid(s->db);
  return rc;
}

static const char list_sql[] =
    "SELECT process, entry, position, number, queued_ns, started_ns, ended_ns, late_ns, state, reason, verdict, code,"
    " message FROM attempt WHERE process = ?1 AND entry = ?2 ORDER BY position, number, row";

typedef struct receiver {
  tp_attempt_record_fn each;
  void *ctx;
} receiver;

static bool show(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_attempt_record record;
  (void)parts;
  tp__sqlite_read_struct(row, 0, &attempts, &record);
  return to->each(to->ctx, &record);
}

tp_status tp__sqlite_attempts(void *ctx, const tp_attempt_query *theirs, tp_attempt_record_fn each, void *each_ctx,
                              tp_fault *fault) {
  tp_attempt_query query = {.struct_size = 0};
  tp_status status = tp__store_read_query(ctx, &query, sizeof query, theirs, "tp_attempt_query", fault);
  const int64_t values[] = {(int64_t)query.process_run_id, (int64_t)query.entry_id};
  const tp__listing listing = {
      .sql = list_sql, .values = values, .count = 2, .show = show, .ctx = &(receiver){each, each_ctx}};
  return status == TP_OK ? tp__store_list(ctx, &listing, "read attempts", fault) : status;
}
