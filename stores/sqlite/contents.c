/* SPDX-License-Identifier: Apache-2.0
 *
 * What passed through phases, as sizes and keyed hashes. It waits in the queue of records as it is, is hashed by the
 * thread that writes, and what is kept of it goes with its entry. */
#include <string.h>

#include "stores/sqlite/sqlite.h"
#include "stores/sqlite/statement.h"

tp_status tp__sqlite_content(void *self, const tp_content_record *theirs) {
  tp_content_record record;
  tp_status status = tp__sqlite_read(&record, sizeof record, theirs, "tp_content_record", NULL);
  if (status != TP_OK) return status;
  size_t bytes = sizeof(tp__waiting) + record.content.size;
  tp__waiting *node = sqlite3_malloc64(bytes);
  if (!node) return TP_ERR_NO_MEMORY;
  *node = (tp__waiting){.queued = {.bytes = bytes, .count = 1}, .kind = TP__WAITS_CONTENT, .content = record};
  if (record.content.size) memcpy(node + 1, record.content.data, record.content.size);
  node->content.content.data = (const char *)(node + 1);
  return tp__sqlite_queue(self, node);
}

static void log_once_without_key(tp__sqlite_store *s, tp_status status, const tp_fault *fault) {
  if (!s->has_no_key) tp__writer_log(&s->writer, TP_LOG_WARNING, status, fault->message);
  s->has_no_key = true;
}

int tp__sqlite_write_content_locked(tp__sqlite_store *s, const tp_content_record *c, int64_t *ret_row) {
  sqlite3_stmt *statement = s->statements[TP__INSERT_CONTENT];
  unsigned char hash[TP__HASH_BYTES];
  tp_fault fault = {0};
  tp_status status = tp__sqlite_hash_locked(s, c->content, hash, &fault);
  if (status != TP_OK) log_once_without_key(s, status, &fault); /* the size is kept */
  const int64_t values[] = {(int64_t)c->process_run_id, (int64_t)c->entry_id,    c->run_index, c->field,
                            (int64_t)c->kind,           (int64_t)c->content.size};
  int rc = tp__sqlite_bind_ints(statement, values, 6);
  tp_text kept = {(const char *)hash, status == TP_OK ? sizeof hash : 0};
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_blob(statement, 7, kept);
  rc = tp__sqlite_run(statement, rc);
  *ret_row = sqlite3_last_insert_rowid(s->db);
  return rc;
}

static const char list_sql[] =
    "SELECT position, field, kind, bytes, hash FROM content WHERE process = ?1 AND entry = ?2 ORDER BY row";

typedef struct listing {
  tp_content_query query;
  tp_content_record_fn each;
  void *ctx;
} listing;

static bool show(sqlite3_stmt *row, void *ctx) {
  const listing *l = ctx;
  tp_content_record record = {.struct_size = sizeof record,
                              .process_run_id = l->query.process_run_id,
                              .entry_id = l->query.entry_id,
                              .run_index = (uint32_t)sqlite3_column_int64(row, 0),
                              .field = (tp_field_id)sqlite3_column_int64(row, 1),
                              .kind = (tp_kind)sqlite3_column_int64(row, 2),
                              .bytes = (uint64_t)sqlite3_column_int64(row, 3),
                              .hash = tp__sqlite_column(row, 4)};
  return l->each(l->ctx, &record);
}

tp_status tp__sqlite_contents(void *self, const tp_content_query *theirs, tp_content_record_fn each, void *ctx,
                              tp_fault *fault) {
  listing l = {.each = each, .ctx = ctx};
  tp_status status = tp__sqlite_read(&l.query, sizeof l.query, theirs, "tp_content_query", fault);
  const int64_t values[] = {(int64_t)l.query.process_run_id, (int64_t)l.query.entry_id};
  if (status != TP_OK) return status;
  return tp__store_show_rows(self, list_sql, values, 2, show, &l, "read what is kept of content", fault);
}

tp_status tp_sqlite_store_hash(const tp_store *store, tp_text content, unsigned char ret_hash[32], tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  if (!s || !ret_hash || s->options.read_only)
    return tp__sqlite_refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_hash needs a writable store and a buffer");
  pthread_mutex_lock(&s->mutex);
  tp_status status = tp__sqlite_hash_locked(s, content, ret_hash, fault);
  pthread_mutex_unlock(&s->mutex);
  return status;
}
