/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts that the row of their run does not describe. They wait in the queue of records, and are deleted with their
 * entry. */
#include "stores/sqlite/sqlite.h"

tp_status tp__sqlite_attempt(void *ctx, const tp_attempt_record *theirs) {
  return tp__sqlite_queue_copy(ctx, TP__WAITS_ATTEMPT, &tp__attempt_columns, "tp_attempt_record", theirs);
}

int tp__sqlite_write_attempt_locked(tp__sqlite_store *s, const tp_attempt_record *a, int64_t *ret_row) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_ATTEMPT];
  int rc = tp__sqlite_run(statement, tp__sqlite_bind_struct(statement, 1, &tp__attempt_columns, a));
  *ret_row = sqlite3_last_insert_rowid(s->db);
  return rc;
}

static const char list_sql[] = "SELECT " TP__SQL_NAMES(
    TP__ATTEMPT_LIST) " FROM attempt WHERE process = ?1 AND entry = ?2 ORDER BY position, number, row";

typedef struct receiver {
  tp_attempt_record_fn each;
  void *ctx;
} receiver;

static bool show_attempt(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_attempt_record record;
  (void)parts;
  tp__sqlite_read_struct(row, 0, &tp__attempt_columns, &record);
  return to->each(to->ctx, &record);
}

tp_status tp__sqlite_attempts(void *ctx, const tp_attempt_query *theirs, tp_attempt_record_fn each, void *each_ctx,
                              tp_fault *fault) {
  tp_attempt_query query = {.struct_size = 0};
  tp_status status = tp__store_read_query(ctx, &query, sizeof query, theirs, "tp_attempt_query", fault);
  const int64_t values[] = {(int64_t)query.process_run_id, (int64_t)query.entry_id};
  const tp__listing listing = {
      .sql = list_sql, .values = values, .count = 2, .show = show_attempt, .ctx = &(receiver){each, each_ctx}};
  return status == TP_OK ? tp__store_list(ctx, &listing, "read attempts", fault) : status;
}
