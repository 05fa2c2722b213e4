/* SPDX-License-Identifier: Apache-2.0
 *
 * statement: prepared statements and structs of the caller's, as the history and the store of the SQLite library need
 * them. It owns nothing and has no lock. */
#ifndef TP__SQLITE_STATEMENT_H
#define TP__SQLITE_STATEMENT_H

#include <sqlite3.h>

#include "turnphase/base.h"

/** Prepares a statement that is kept. */
int tp__sqlite_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement);
/** An empty text is '', never NULL. The bytes are borrowed until the statement is reset. */
int tp__sqlite_bind_text(sqlite3_stmt *statement, int index, tp_text text);
int tp__sqlite_bind_blob(sqlite3_stmt *statement, int index, tp_text bytes);
/** Binds integers at 1, 2 and so on. */
int tp__sqlite_bind_ints(sqlite3_stmt *statement, const int64_t *values, int count);
/** Ends a use of a cached statement: nothing of the caller's stays bound. */
void tp__sqlite_release(sqlite3_stmt *statement);
/** Runs a statement that gives no row, unless rc, that of its binding, is an error. @return SQLITE_OK or the error. */
int tp__sqlite_run(sqlite3_stmt *statement, int rc);
/** Begins a transaction that writes. A transaction that could not be rolled back for lack of memory still holds all its
 *  locks: it is rolled back first.
 *  @return SQLITE_OK; SQLITE_READONLY_DBMOVED when the file was removed or replaced: what were written to it would be
 *          lost with its last connection; what SQLite says. */
int tp__sqlite_begin(sqlite3 *db);
/** Commits it. @return SQLITE_FULL also for what SQLite calls an error of input and output: a quota, and a limit of the
 *          file's size; of an error of a commit a connection does not keep errno. The transaction may still be open. */
int tp__sqlite_end(sqlite3 *db);
/** Borrowed until the statement's next step. */
tp_text tp__sqlite_column(sqlite3_stmt *statement, int index);

/** Copies a struct of the caller's that begins with its struct_size, by the rule of growth.
 *  @return TP_OK; TP_ERR_VERSION for a size or a tail that this library does not know. */
tp_status tp__sqlite_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault);
/** Fills a struct of the caller's as far as its struct_size reaches, and says there how far; a longer one's rest is
 *  zeroed.
 *  @return TP_OK; TP_ERR_VERSION for a size that no caller can mean. */
tp_status tp__sqlite_show(void *theirs, void *ours, size_t our_size);

#endif
