/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts that the row of their run does not show: they wait in the queue of records, and go with their entry. */
#include <string.h>

#include "stores/sqlite/sqlite.h"
#include "stores/sqlite/statement.h"

tp_status tp__sqlite_attempt(void *self, const tp_attempt_record *theirs) {
  tp_attempt_record record;
  tp_status status = tp__sqlite_read(&record, sizeof record, theirs, "tp_attempt_record", NULL);
  if (status != TP_OK) return status;
  size_t bytes = sizeof(tp__waiting) + record.message.size;
  tp__waiting *node = sqlite3_malloc64(bytes);
  if (!node) return TP_ERR_NO_MEMORY;
  *node = (tp__waiting){.queued = {.bytes = bytes, .count = 1}, .kind = TP__WAITS_ATTEMPT, .attempt = record};
  if (record.message.size) memcpy(node + 1, record.message.data, record.message.size);
  node->attempt.message.data = (const char *)(node + 1);
  return tp__sqlite_queue(self, node);
}

int tp__sqlite_write_attempt_locked(tp__sqlite_store *s, const tp_attempt_record *a, int64_t *ret_row) {
  sqlite3_stmt *statement = s->statements[TP__INSERT_ATTEMPT];
  const int64_t values[] = {(int64_t)a->process_run_id,
                            (int64_t)a->entry_id,
                            a->run_index,
                            a->attempt,
                            a->queued_ns,
                            a->started_ns,
                            a->ended_ns,
                            a->late_ns,
                            a->state,
                            a->reason,
                            a->verdict,
                            a->code};
  int rc = tp__sqlite_bind_ints(statement, values, 12);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(statement, 13, a->message);
  rc = tp__sqlite_run(statement, rc);
  *ret_row = sqlite3_last_insert_rowid(s->db);
  return rc;
}

static const char list_sql[] =
    "SELECT process, entry, position, number, queued_ns, started_ns, ended_ns, late_ns, state, reason, verdict, code,"
    " message FROM attempt WHERE process = ?1 AND entry = ?2 ORDER BY position, number, row";

typedef struct listing {
  tp_attempt_record_fn each;
  void *ctx;
} listing;

static bool show(sqlite3_stmt *row, void *ctx) {
  const listing *l = ctx;
  tp_attempt_record record = {.struct_size = sizeof record,
                              .process_run_id = (uint64_t)sqlite3_column_int64(row, 0),
                              .entry_id = (uint64_t)sqlite3_column_int64(row, 1),
                              .run_index = (uint32_t)sqlite3_column_int64(row, 2),
                              .attempt = (uint32_t)sqlite3_column_int64(row, 3),
                              .queued_ns = sqlite3_column_int64(row, 4),
                              .started_ns = sqlite3_column_int64(row, 5),
                              .ended_ns = sqlite3_column_int64(row, 6),
                              .late_ns = sqlite3_column_int64(row, 7),
                              .state = (uint32_t)sqlite3_column_int64(row, 8),
                              .reason = (uint32_t)sqlite3_column_int64(row, 9),
                              .verdict = (uint32_t)sqlite3_column_int64(row, 10),
                              .code = (uint32_t)sqlite3_column_int64(row, 11),
                              .message = tp__sqlite_column(row, 12)};
  return l->each(l->ctx, &record);
}

tp_status tp__sqlite_attempts(void *self, const tp_attempt_query *theirs, tp_attempt_record_fn each, void *ctx,
                              tp_fault *fault) {
  tp_attempt_query query;
  listing l = {each, ctx};
  tp_status status = tp__sqlite_read(&query, sizeof query, theirs, "tp_attempt_query", fault);
  const int64_t values[] = {(int64_t)query.process_run_id, (int64_t)query.entry_id};
  return status == TP_OK ? tp__store_show_rows(self, list_sql, values, 2, show, &l, "read attempts", fault) : status;
}
