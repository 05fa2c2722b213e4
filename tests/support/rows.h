/* SPDX-License-Identifier: Apache-2.0
 *
 * rows: the rows in a SQLite file, as another connection sees them. */
#ifndef TEST_ROWS_H
#define TEST_ROWS_H

#include <sqlite3.h>
#include <stdint.h>

/* The one number that a question gives. */
static inline int64_t number_in(const char *file, const char *sql) {
  sqlite3 *db = NULL;
  sqlite3_stmt *row = NULL;
  assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(row), SQLITE_ROW);
  int64_t number = sqlite3_column_int64(row, 0);
  sqlite3_finalize(row);
  sqlite3_close(db);
  return number;
}

#endif
