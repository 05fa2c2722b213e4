/* SPDX-License-Identifier: Apache-2.0
 *
 * The content that passed through phases, as sizes and keyed hashes. It waits in the queue of records unchanged; the
 * writing thread hashes it. The stored row is deleted with its entry. */
#include "stores/sqlite/sqlite.h"

static const tp__column text_columns[] = {TP__COLUMN(tp_content_record, content)};
static const tp__columns texts = TP__COLUMNS(tp_content_record, text_columns);

tp_status tp__sqlite_content(void *ctx, const tp_content_record *theirs) {
  return tp__sqlite_queue_copy(ctx, TP__WAITS_CONTENT, &texts, "tp_content_record", theirs);
}

static void log_once_without_key(tp__sqlite_store *s, tp_status status, const tp_fault *fault) {
  if (!s->has_no_key) tp__writer_log(&s->writer, TP_LOG_WARNING, status, fault->message);
  s->has_no_key = true;
}

int tp__sqlite_write_content_locked(tp__sqlite_store *s, const tp_content_record *c, int64_t *ret_row) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_CONTENT];
  unsigned char hash[TP__HASH_BYTES];
  tp_fault fault = {0};
  tp_status status = tp__sqlite_hash_locked(s, c->content, hash, &fault);
  if (status != TP_OK) log_once_without_key(s, status, &fault); /* the size is kept */
  tp_content_record kept = *c;
  kept.bytes = c->content.size;
  kept.hash = (tp_text){(const char *)hash, status == TP_OK ? sizeof hash : 0};
  int rc = tp__sqlite_run(statement, tp__sqlite_bind_struct(statement, 1, &tp__content_columns, &kept));
  *ret_row = sqlite3_last_insert_rowid(s->db);
  return rc;
}

static const char list_sql[] =
    "SELECT " TP__SQL_NAMES(TP__CONTENT_LIST) " FROM content WHERE process = ?1 AND entry = ?2 ORDER BY row";

typedef struct receiver {
  tp_content_record_fn each;
  void *ctx;
} receiver;

static bool show_content(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_content_record record;
  (void)parts;
  tp__sqlite_read_struct(row, 0, &tp__content_columns, &record);
  return to->each(to->ctx, &record);
}

tp_status tp__sqlite_contents(void *ctx, const tp_content_query *theirs, tp_content_record_fn each, void *each_ctx,
                              tp_fault *fault) {
  tp_content_query query = {.struct_size = 0};
  tp_status status = tp__store_read_query(ctx, &query, sizeof query, theirs, "tp_content_query", fault);
  const int64_t values[] = {(int64_t)query.process_run_id, (int64_t)query.entry_id};
  const tp__listing listing = {
      .sql = list_sql, .values = values, .count = 2, .show = show_content, .ctx = &(receiver){each, each_ctx}};
  return status == TP_OK ? tp__store_list(ctx, &listing, "read what is kept of content", fault) : status;
}

tp_status tp_sqlite_store_hash(const tp_store *store, tp_text content, unsigned char ret_hash[32], tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  if (!s || !ret_hash || s->options.read_only)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_hash needs a writable store and a buffer");
  tp__lock_acquire(&s->mutex);
  tp_status status = tp__sqlite_hash_locked(s, content, ret_hash, fault);
  tp__lock_release(&s->mutex);
  return status;
}
