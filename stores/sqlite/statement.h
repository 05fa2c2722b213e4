/* SPDX-License-Identifier: Apache-2.0
 *
 * statement: prepared statements and structs of the caller's, as the history, the store and the memory need them. Like
 * database.h it is compiled into each library that keeps a SQLite file. It owns nothing and has no lock. */
#ifndef TP__SQLITE_STATEMENT_H
#define TP__SQLITE_STATEMENT_H

#include <sqlite3.h>

#include "stores/columns.h"

/** The columns of a list of columns.h in SQL: their names, as many parameters, and what creates them. */
#define TP__SQL_NAMES(list) list(TP__SQL_FIRST_NAME, TP__SQL_NAME)
#define TP__SQL_FIRST_NAME(member, column, type) #column
#define TP__SQL_NAME(member, column, type) ", " #column
#define TP__SQL_PARAMETERS(list) list(TP__SQL_FIRST_PARAMETER, TP__SQL_PARAMETER)
#define TP__SQL_FIRST_PARAMETER(member, column, type) "?"
#define TP__SQL_PARAMETER(member, column, type) ", ?"
#define TP__SQL_COLUMNS(list) list(TP__SQL_FIRST_COLUMN, TP__SQL_COLUMN)
#define TP__SQL_FIRST_COLUMN(member, column, type) #column TP__SQL_##type
#define TP__SQL_COLUMN(member, column, type) ", " #column TP__SQL_##type
#define TP__SQL_INTEGER " INTEGER NOT NULL"
#define TP__SQL_TEXT " TEXT NOT NULL"
#define TP__SQL_BLOB " BLOB NOT NULL"
#define TP__SQL_NULL_TEXT " TEXT"
#define TP__SQL_UNIQUE_TEXT " TEXT NOT NULL UNIQUE"
#define TP__SQL_ROW_ID " INTEGER PRIMARY KEY AUTOINCREMENT"

/** Prepares a statement that is kept. */
int tp__sqlite_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement);
/** An empty text is '', never NULL. The bytes are borrowed until the statement is reset. */
int tp__sqlite_bind_text(sqlite3_stmt *statement, int index, tp_text text);
int tp__sqlite_bind_blob(sqlite3_stmt *statement, int index, tp_text bytes);
/** Binds integers at 1, 2 and so on. */
int tp__sqlite_bind_ints(sqlite3_stmt *statement, const int64_t *values, int count);
/** Binds texts at first and after it. */
int tp__sqlite_bind_texts(sqlite3_stmt *statement, int first, const tp_text *texts, int count);
/** Binds the members of a struct at first and after it. */
int tp__sqlite_bind_struct(sqlite3_stmt *statement, int first, const tp__columns *columns, const void *from);
/** Ends a use of a cached statement: nothing of the caller's stays bound. */
void tp__sqlite_release(sqlite3_stmt *statement);
/** Runs a statement that gives no row, unless rc, that of its binding, is an error. @return SQLITE_OK or the error. */
int tp__sqlite_run(sqlite3_stmt *statement, int rc);
/** Begins a transaction that writes. A transaction that could not be rolled back for lack of memory still holds all its
 *  locks: it is rolled back first.
 *  @return SQLITE_OK; SQLITE_READONLY_DBMOVED when the file was removed or replaced: what were written to it would be
 *          lost with its last connection; what SQLite says. */
int tp__sqlite_begin(sqlite3 *db);
/** Commits it when rc is SQLITE_OK, else undoes it.
 *  @return SQLITE_OK, or the first error: SQLITE_FULL also for what SQLite calls an error of input and output: a quota,
 *          and a limit of the file's size; of an error of a commit a connection does not keep errno. */
int tp__sqlite_end(sqlite3 *db, int rc);
/** Borrowed until the statement's next step. */
tp_text tp__sqlite_column(sqlite3_stmt *statement, int index);
/** Fills a public struct with a row's columns from first on, and with zeros; its texts are borrowed until the
 *  statement's next step. */
void tp__sqlite_read_struct(sqlite3_stmt *row, int first, const tp__columns *columns, void *ret_struct);
/** As tp__sqlite_read_struct(), with the texts after it in one block of sqlite3_malloc64(). @return NULL without
 *  memory. */
void *tp__sqlite_copy_struct(sqlite3_stmt *row, int first, const tp__columns *columns);

/** How many bytes the texts of a struct take. */
size_t tp__sqlite_texts_bytes(const tp__columns *columns, const void *of);
/** Copies the texts of a struct to *at, which moves after them. */
void tp__sqlite_put_texts(const tp__columns *columns, void *of, char **at);
tp_text tp__sqlite_put_text(char **at, tp_text text);

/** The rows of a statement as public structs. Starts as {.columns}. */
typedef struct tp__rows {
  const tp__columns *columns;
  void **items; /* each of tp__sqlite_copy_struct() */
  size_t count, capacity;
} tp__rows;

/** Reads those of a number, in place of those that were read before. */
int tp__rows_read(tp__rows *rows, sqlite3_stmt *statement, int64_t number);
/** Fills a struct of the caller's, as tp__sqlite_show(). @return false when there is no such row. */
bool tp__rows_show(const tp__rows *rows, size_t index, void *theirs);
void tp__rows_fini(tp__rows *rows);

/** A list that is read. */
typedef struct tp__listing {
  const char *sql;
  const int64_t *values; /* bound at 1 and after it */
  int count;
  const tp_text *texts; /* bound at first_text and after it; an empty one is not bound */
  int first_text;
  size_t text_count;
  const char *parts_sql; /* gives the parts of a row by the number in its first column; NULL: it has none */
  const tp__columns *parts;
  /** @return false to stop. */
  bool (*show)(sqlite3_stmt *row, const tp__rows *parts, void *ctx);
  void *ctx;
} tp__listing;

/** Shows row after row. */
int tp__sqlite_list(sqlite3 *db, const tp__listing *listing);

/** Fills a struct of the caller's as far as its struct_size reaches, and says there how far; a longer one's rest is
 *  zeroed.
 *  @return TP_OK; TP_ERR_VERSION for a size that no caller can mean. */
tp_status tp__sqlite_show(void *theirs, void *ours, size_t our_size);

#endif
