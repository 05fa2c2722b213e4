/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/statement.h"

#include <errno.h>
#include <string.h>

#include "stores/sqlite/database.h"

int tp__sqlite_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement) {
  return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL);
}

int tp__sqlite_bind_text(sqlite3_stmt *statement, int index, tp_text text) {
  return sqlite3_bind_text64(statement, index, text.size ? text.data : "", text.size, SQLITE_STATIC, SQLITE_UTF8);
}

int tp__sqlite_bind_blob(sqlite3_stmt *statement, int index, tp_text bytes) {
  return sqlite3_bind_blob64(statement, index, bytes.size ? bytes.data : "", bytes.size, SQLITE_STATIC);
}

int tp__sqlite_bind_ints(sqlite3_stmt *statement, const int64_t *values, int count) {
  int rc = SQLITE_OK;
  for (int i = 0; i < count && rc == SQLITE_OK; i++) rc = sqlite3_bind_int64(statement, i + 1, values[i]);
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

/* A database in memory has no file that could be moved: its VFS does not know the question. */
static bool is_moved(sqlite3 *db) {
  int moved = 0;
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

int tp__sqlite_begin(sqlite3 *db) {
  int rc = SQLITE_OK;
  if (!sqlite3_get_autocommit(db)) rc = sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  if (rc == SQLITE_OK && is_moved(db)) return SQLITE_READONLY_DBMOVED;
  return rc == SQLITE_OK ? sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) : rc;
}

int tp__sqlite_end(sqlite3 *db) {
  errno = 0;
  int rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
  bool is_full = (rc & 0xff) == SQLITE_IOERR && (errno == EFBIG || errno == EDQUOT || errno == ENOSPC);
  return is_full ? SQLITE_FULL : rc;
}

tp_text tp__sqlite_column(sqlite3_stmt *statement, int index) {
  const char *data = (const char *)sqlite3_column_blob(statement, index);
  return (tp_text){data ? data : "", (size_t)sqlite3_column_bytes(statement, index)};
}

enum { SIZE_LIMIT = 4096 };

tp_status tp__sqlite_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault) {
  size_t size = our_size;
  if (theirs) memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > SIZE_LIMIT || size % sizeof size != 0)
    return tp__sqlite_refuse(fault, TP_ERR_VERSION, NULL, "%s: struct_size is %zu; set it to sizeof(%s)", name, size,
                             name);
  const char *bytes = theirs;
  for (size_t i = our_size; i < size; i++) {
    if (bytes[i] == 0) continue;
    return tp__sqlite_refuse(fault, TP_ERR_VERSION, NULL,
                             "%s: byte %zu is set, but this library knows the first %zu bytes only; leave the newer "
                             "field zero, or install a newer turnphase",
                             name, i, our_size);
  }
  memset(ours, 0, our_size);
  if (theirs) memcpy(ours, theirs, size < our_size ? size : our_size);
  memcpy(ours, &our_size, sizeof our_size);
  return TP_OK;
}

tp_status tp__sqlite_show(void *theirs, void *ours, size_t our_size) {
  size_t size;
  memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > SIZE_LIMIT || size % sizeof size != 0) return TP_ERR_VERSION;
  size_t shown = size < our_size ? size : our_size;
  memcpy(ours, &shown, sizeof shown);
  memset(theirs, 0, size);
  memcpy(theirs, ours, shown);
  return TP_OK;
}
