/* SPDX-License-Identifier: Apache-2.0
 *
 * database: opens a SQLite file that belongs to this library alone, and translates SQLite's results into tp_status. It
 * is compiled into each library that has such a file. It owns only the mutex under which files are created. It never
 * touches a file of another program, and never replaces a damaged or newer file by a new one. */
#ifndef TP__SQLITE_DATABASE_H
#define TP__SQLITE_DATABASE_H

#include <sqlite3.h>

#include "support/fault.h"

/** How long opening waits for a lock of another process. */
enum { TP__SQLITE_BUSY_MS = 5000 };

/** Content and settings of a file of the library. Both numbers are in its header (PRAGMA application_id,
 *  user_version). */
typedef struct tp__sqlite_schema tp__sqlite_schema;
/** What rows of a file get in a column that the file lacked, where 0 or an empty text is wrong. */
typedef struct tp__sqlite_fill {
  const char *table;
  const char *column; /* NULL: the whole table was lacking */
  const char *sql;    /* without ';' at its end. Fills run when all tables are there; triggers are not there yet */
} tp__sqlite_fill;

struct tp__sqlite_schema {
  const char *noun;             /* "a history of sessions" */
  int32_t application_id;       /* never 0 */
  int32_t version;              /* from 1; it rises with each change of sql. A file of a later version is refused */
  const char *const *sql;       /* makes the tables in an empty file: statements in their order; NULL ends them */
  const tp__sqlite_fill *fills; /* for files of earlier versions (upgrade.h); a table of NULL ends them; NULL: none */
  int busy_ms;             /* how long a statement waits for a lock once the file is open; 0: as long as opening does */
  bool overwrites_deleted; /* overwrites everything that is deleted; otherwise only if that needs no additional write */
  bool shrinks;            /* the file may give back its free pages (auto_vacuum = INCREMENTAL); only for new files */
};

/** The status for a result code of SQLite. */
tp_status tp__sqlite_status(int rc);

/** Fills fault (may be NULL) with the path, the failed action, SQLite's own message and a remedy; returns the status of
 *  rc.
 *  @param db    the connection that failed; may be NULL.
 *  @param path  NULL: in memory. */
tp_status tp__sqlite_fail(sqlite3 *db, const char *path, const char *doing, int rc, tp_fault *fault);

/** Opens the file for writing: WAL, synchronous FULL, checked. If there is no file, it is created, with mode 0600 from
 *  the beginning. A file of an earlier version is upgraded, in one transaction.
 *  @param path    NULL: in memory, freed with the connection.
 *  @param ret_db  to be closed with sqlite3_close(); for one thread at a time (opened without SQLite's own mutexes).
 *  @return TP_OK; TP_ERR_STORE_SCHEMA, TP_ERR_STORE_CORRUPT, TP_ERR_STORE_BUSY, TP_ERR_STORE_READONLY,
 *          TP_ERR_STORE_FULL, TP_ERR_IO, TP_ERR_NO_MEMORY, with the path in the fault. A refused file is left as it
 *          was. */
tp_status tp__sqlite_open(const char *path, const tp__sqlite_schema *schema, sqlite3 **ret_db, tp_fault *fault);

/** A number of the file that no other file has while it is open (tp_history_claim.origin); 0: it is not known, as of a
 *  database in memory. */
uint64_t tp__sqlite_origin(sqlite3 *db);

/** Runs a statement of one step once, with integers bound at 1 and after it.
 *  @param ret_number  the first column of its row; 0 when it gave no row, or NULL. May be NULL.
 *  @return SQLITE_OK or the error. */
int tp__sqlite_once(sqlite3 *db, const char *sql, const int64_t *values, int count, int64_t *ret_number);

/** @return TP_OK; TP_ERR_IO: the path is a FIFO, a socket or a device, for which SQLite would wait. A directory and a
 *            missing file are left to SQLite. */
tp_status tp__sqlite_check_type(const char *path, tp_fault *fault);

/** Opens one more connection, for reading only, to a file that tp__sqlite_open() has accepted. */
tp_status tp__sqlite_open_reader(const char *path, sqlite3 **ret_db, tp_fault *fault);

/** Opens a file for reading only, without changing it, also in a directory that cannot be written (read_only.c).
 *  @return as tp__sqlite_open(); TP_ERR_STORE_SCHEMA for a file of an earlier schema, too. */
tp_status tp__sqlite_open_read_only(const char *path, const tp__sqlite_schema *schema, sqlite3 **ret_db,
                                    tp_fault *fault);

#endif
