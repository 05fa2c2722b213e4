/* SPDX-License-Identifier: Apache-2.0
 *
 * statement: prepared statements, and callers' structs, for the history, the store and the memory. Like database.h, it
 * is compiled into each library that has a SQLite file. It owns nothing and has no lock. */
#ifndef TP__SQLITE_STATEMENT_H
#define TP__SQLITE_STATEMENT_H

#include <sqlite3.h>

#include "stores/columns.h"

/** The columns of a list (columns.h) in SQL: their names, as many parameters, and the text that creates them. */
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
#define TP__SQL_NULL_BLOB " BLOB"
#define TP__SQL_KEY_TEXT " TEXT PRIMARY KEY"
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
/** Binds the members of a struct to the parameters from `first` on. */
int tp__sqlite_bind_struct(sqlite3_stmt *statement, int first, const tp__columns *columns, const void *from);
/** Ends a use of a cached statement, so that no memory of the caller stays bound. */
void tp__sqlite_release(sqlite3_stmt *statement);
/** Runs a statement that gives no row, unless rc (the result of its binding) is an error. @return SQLITE_OK or the
 *  error. */
int tp__sqlite_run(sqlite3_stmt *statement, int rc);
/** Begins a transaction that writes. An earlier transaction that could not be rolled back without memory still holds
 *  its locks, so it is rolled back first.
 *  @return SQLITE_OK; SQLITE_READONLY_DBMOVED when the file was removed or replaced, because data written to it would
 *          be lost with its last connection; other errors of SQLite. */
int tp__sqlite_begin(sqlite3 *db);
/** Commits the transaction when rc is SQLITE_OK, else rolls it back.
 *  @return SQLITE_OK, or the first error. It is SQLITE_FULL also for a quota and for a limit of the file's size, which
 *          SQLite reports as I/O errors. After a failed commit the connection does not have the errno any more. */
int tp__sqlite_end(sqlite3 *db, int rc);
/** Borrowed until the statement's next step. */
tp_text tp__sqlite_column(sqlite3_stmt *statement, int index);
/** Fills a public struct with the columns of a row from `first` on, and the rest with zeros. Its texts are borrowed
 *  until the statement's next step. */
void tp__sqlite_read_struct(sqlite3_stmt *row, int first, const tp__columns *columns, void *ret_struct);
/** As tp__sqlite_read_struct(), but the struct is followed by its texts, in one block of sqlite3_malloc64(). @return
 *  NULL without memory. */
void *tp__sqlite_copy_struct(sqlite3_stmt *row, int first, const tp__columns *columns);

/** How many bytes the texts of a struct need. */
size_t tp__sqlite_texts_bytes(const tp__columns *columns, const void *of);
/** Copies the texts of a struct to *at, and moves *at to the end of the copies. */
void tp__sqlite_put_texts(const tp__columns *columns, void *of, char **at);
tp_text tp__sqlite_put_text(char **at, tp_text text);

/** The rows of a statement as public structs. Starts as {.columns}. */
typedef struct tp__rows {
  const tp__columns *columns;
  void **items; /* each of tp__sqlite_copy_struct() */
  size_t count, capacity;
} tp__rows;

/** Reads the rows of a number. They replace the rows that were read before. */
int tp__rows_read(tp__rows *rows, sqlite3_stmt *statement, int64_t number);
/** Fills a caller's struct, as tp__sqlite_show() does. @return false when there is no such row. */
bool tp__rows_show(const tp__rows *rows, size_t index, void *theirs);
void tp__rows_fini(tp__rows *rows);

/** A list that is read. */
typedef struct tp__listing {
  const char *sql;
  const int64_t *values; /* bound at 1 and after it */
  int count;
  const tp_text *texts; /* bound to the parameters from first_text on; an empty one is not bound */
  int first_text;
  size_t text_count;
  const char *parts_sql; /* gives the parts of a row by the number in its first column; NULL: rows have no parts */
  const tp__columns *parts;
  /** @return false to stop. */
  bool (*show)(sqlite3_stmt *row, const tp__rows *parts, void *ctx);
  void *ctx;
} tp__listing;

/** Shows row after row. */
int tp__sqlite_list(sqlite3 *db, const tp__listing *listing);

/** Fills a caller's struct up to its struct_size, and writes there how many bytes were filled. The rest of a longer
 *  struct is zeroed.
 *  @return TP_OK; TP_ERR_VERSION for an impossible size. */
tp_status tp__sqlite_show(void *theirs, void *ours, size_t our_size);

#endif
