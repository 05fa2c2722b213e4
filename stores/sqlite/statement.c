/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/check.h"
#include "stores/sqlite/statement.h"

#include <errno.h>
#include <string.h>

#include "stores/sqlite/database.h"

int tp__sqlite_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement) {
  assert(db && sql && ret_statement);
  return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL);
}

int tp__sqlite_bind_text(sqlite3_stmt *statement, int index, tp_text text) {
  assert(index >= 1 && (text.data || text.size == 0));
  return sqlite3_bind_text64(statement, index, text.size ? text.data : "", text.size, SQLITE_STATIC, SQLITE_UTF8);
}

int tp__sqlite_bind_blob(sqlite3_stmt *statement, int index, tp_text bytes) {
  assert(index >= 1 && (bytes.data || bytes.size == 0));
  return sqlite3_bind_blob64(statement, index, bytes.size ? bytes.data : "", bytes.size, SQLITE_STATIC);
}

int tp__sqlite_bind_ints(sqlite3_stmt *statement, const int64_t *values, int count) {
  assert(count >= 0 && count <= sqlite3_bind_parameter_count(statement));
  int rc = SQLITE_OK;
  for (int i = 0; i < count && rc == SQLITE_OK; i++) rc = sqlite3_bind_int64(statement, i + 1, values[i]);
  return rc;
}

int tp__sqlite_bind_texts(sqlite3_stmt *statement, int first, const tp_text *texts, int count) {
  assert(first >= 1 && count >= 0);
  int rc = SQLITE_OK;
  for (int i = 0; i < count && rc == SQLITE_OK; i++) rc = tp__sqlite_bind_text(statement, first + i, texts[i]);
  return rc;
}

int tp__sqlite_bind_struct(sqlite3_stmt *statement, int first, const tp__columns *columns, const void *from) {
  assert(first >= 1 && from);
  int rc = SQLITE_OK;
  for (int i = 0; i < columns->count && rc == SQLITE_OK; i++) {
    const tp__column *column = &columns->items[i];
    const void *at = (const char *)from + column->offset;
    if (column->type == TP__COLUMN_BLOB) rc = tp__sqlite_bind_blob(statement, first + i, *(const tp_text *)at);
    else if (column->type == TP__COLUMN_TEXT) rc = tp__sqlite_bind_text(statement, first + i, *(const tp_text *)at);
    else if (column->type == TP__COLUMN_STRING)
      rc = tp__sqlite_bind_text(statement, first + i, tp_text_of(*(const char *const *)at));
    else rc = sqlite3_bind_int64(statement, first + i, tp__column_int(column, at));
  }
  return rc;
}

void tp__sqlite_release(sqlite3_stmt *statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

int tp__sqlite_run(sqlite3_stmt *statement, int rc) {
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  tp__sqlite_release(statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A database in memory has no file that could be moved; its VFS does not support the question. */
static bool is_moved(sqlite3 *db) {
  int moved = 0;
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

int tp__sqlite_begin(sqlite3 *db) {
  assert(db);
  int rc = SQLITE_OK;
  if (!sqlite3_get_autocommit(db)) rc = sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  if (rc == SQLITE_OK && is_moved(db)) return SQLITE_READONLY_DBMOVED;
  return rc == SQLITE_OK ? sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) : rc;
}

int tp__sqlite_end(sqlite3 *db, int rc) {
  errno = 0;
  if (rc == SQLITE_OK) rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
  if ((rc & 0xff) == SQLITE_IOERR && (errno == EFBIG || errno == EDQUOT || errno == ENOSPC)) rc = SQLITE_FULL;
  if (!sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return rc;
}

tp_text tp__sqlite_column(sqlite3_stmt *statement, int index) {
  assert(index >= 0 && index < sqlite3_column_count(statement));
  const char *data = (const char *)sqlite3_column_blob(statement, index);
  return (tp_text){data ? data : "", (size_t)sqlite3_column_bytes(statement, index)};
}

void tp__sqlite_read_struct(sqlite3_stmt *row, int first, const tp__columns *columns, void *ret_struct) {
  assert(first >= 0 && first + columns->count <= sqlite3_column_count(row));
  memset(ret_struct, 0, columns->size);
  memcpy(ret_struct, &columns->size, sizeof columns->size);
  for (int i = 0; i < columns->count; i++) {
    const tp__column *column = &columns->items[i];
    void *at = (char *)ret_struct + column->offset;
    if (column->type >= TP__COLUMN_TEXT) *(tp_text *)at = tp__sqlite_column(row, first + i);
    else if (column->type == TP__COLUMN_STRING) *(const char **)at = (const char *)sqlite3_column_text(row, first + i);
    else tp__column_put_int(column, at, sqlite3_column_int64(row, first + i));
  }
}

size_t tp__sqlite_texts_bytes(const tp__columns *columns, const void *of) {
  size_t bytes = 0;
  for (int i = 0; i < columns->count; i++) {
    const void *at = (const char *)of + columns->items[i].offset;
    if (columns->items[i].type >= TP__COLUMN_TEXT) bytes += ((const tp_text *)at)->size;
    else if (columns->items[i].type == TP__COLUMN_STRING && *(const char *const *)at)
      bytes += strlen(*(const char *const *)at) + 1;
  }
  return bytes;
}

tp_text tp__sqlite_put_text(char **at, tp_text text) {
  tp_text copy = {*at, text.size};
  if (text.size) memcpy(*at, text.data, text.size);
  *at += text.size;
  return copy;
}

void tp__sqlite_put_texts(const tp__columns *columns, void *of, char **at) {
  for (int i = 0; i < columns->count; i++) {
    void *member = (char *)of + columns->items[i].offset;
    const char **string = member;
    if (columns->items[i].type >= TP__COLUMN_TEXT) *(tp_text *)member = tp__sqlite_put_text(at, *(tp_text *)member);
    else if (columns->items[i].type == TP__COLUMN_STRING && *string)
      *string = tp__sqlite_put_text(at, (tp_text){*string, strlen(*string) + 1}).data;
  }
}

void *tp__sqlite_copy_struct(sqlite3_stmt *row, int first, const tp__columns *columns) {
  assert(columns->size >= sizeof(size_t));
  size_t bytes = columns->size;
  for (int i = 0; i < columns->count; i++)
    if (columns->items[i].type >= TP__COLUMN_STRING) bytes += (size_t)sqlite3_column_bytes(row, first + i) + 1;
  char *copy = sqlite3_malloc64(bytes);
  if (!copy) return NULL;
  char *at = copy + columns->size;
  tp__sqlite_read_struct(row, first, columns, copy);
  tp__sqlite_put_texts(columns, copy, &at);
  return copy;
}

/* ---- lists ---- */

static void clear_rows(tp__rows *rows) {
  for (size_t i = 0; i < rows->count; i++) sqlite3_free(rows->items[i]);
  rows->count = 0;
}

void tp__rows_fini(tp__rows *rows) {
  assert(rows->count <= rows->capacity);
  clear_rows(rows);
  sqlite3_free(rows->items);
}

static int keep_row(tp__rows *rows, sqlite3_stmt *row) {
  if (rows->count == rows->capacity) {
    size_t capacity = rows->capacity ? 2 * rows->capacity : 16;
    void **items = sqlite3_realloc64(rows->items, capacity * sizeof *items);
    if (!items) return SQLITE_NOMEM;
    rows->items = items;
    rows->capacity = capacity;
  }
  rows->items[rows->count] = tp__sqlite_copy_struct(row, 0, rows->columns);
  if (!rows->items[rows->count]) return SQLITE_NOMEM;
  rows->count++;
  return SQLITE_OK;
}

int tp__rows_read(tp__rows *rows, sqlite3_stmt *statement, int64_t number) {
  assert(rows->columns && rows->count <= rows->capacity);
  clear_rows(rows);
  int rc = sqlite3_bind_int64(statement, 1, number);
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) rc = keep_row(rows, statement);
  sqlite3_reset(statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool tp__rows_show(const tp__rows *rows, size_t index, void *theirs) {
  return index < rows->count && tp__sqlite_show(theirs, rows->items[index], rows->columns->size) == TP_OK;
}

static int bind_listing(sqlite3_stmt *statement, const tp__listing *listing) {
  int rc = tp__sqlite_bind_ints(statement, listing->values, listing->count);
  for (size_t i = 0; i < listing->text_count && rc == SQLITE_OK; i++)
    if (listing->texts[i].size) rc = tp__sqlite_bind_text(statement, listing->first_text + (int)i, listing->texts[i]);
  return rc;
}

int tp__sqlite_list(sqlite3 *db, const tp__listing *listing) {
  assert(listing->sql && listing->show && listing->count >= 0);
  sqlite3_stmt *row = NULL, *part = NULL;
  tp__rows parts = {.columns = listing->parts};
  int rc = sqlite3_prepare_v2(db, listing->sql, -1, &row, NULL);
  if (rc == SQLITE_OK && listing->parts_sql) rc = sqlite3_prepare_v2(db, listing->parts_sql, -1, &part, NULL);
  if (rc == SQLITE_OK) rc = bind_listing(row, listing);
  while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
    rc = part ? tp__rows_read(&parts, part, sqlite3_column_int64(row, 0)) : SQLITE_OK;
    if (rc == SQLITE_OK && !listing->show(row, &parts, listing->ctx)) rc = SQLITE_DONE;
  }
  tp__rows_fini(&parts);
  sqlite3_finalize(part);
  sqlite3_finalize(row);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

enum { SIZE_LIMIT = 4096 };

tp_status tp__sqlite_show(void *theirs, void *ours, size_t our_size) {
  assert(our_size >= sizeof(size_t));
  size_t size;
  memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > SIZE_LIMIT || size % sizeof size != 0) return TP_ERR_VERSION;
  size_t shown = size < our_size ? size : our_size;
  memcpy(ours, &shown, sizeof shown);
  memset(theirs, 0, size);
  memcpy(theirs, ours, shown);
  return TP_OK;
}
