/* SPDX-License-Identifier: Apache-2.0
 *
 * database: opens a SQLite file that is ours alone, and says in tp_status what SQLite says. It is compiled into each
 * library that keeps such a file, and owns nothing but the mutex under which files are born. Never: touches a file that
 * is not ours, makes a damaged or newer file new. */
#ifndef TP__SQLITE_DATABASE_H
#define TP__SQLITE_DATABASE_H

#include <sqlite3.h>

#include "support/fault.h"

/** How long opening waits for a lock that another process holds. */
enum { TP__SQLITE_BUSY_MS = 5000 };

/** What a file of ours holds, and how. Both numbers stand in its header (PRAGMA application_id, user_version). */
typedef struct tp__sqlite_schema {
  const char *noun;       /* "a history of sessions" */
  int32_t application_id; /* never 0 */
  int32_t version;        /* from 1; a file of another version is refused, unless there is an upgrade */
  const char *const *sql; /* makes the tables in an empty file: pieces, run in their order; NULL ends them */
  const char *const
      *upgrades;           /* version - 1 of them: the first takes a file from version 1 to 2; NULL: there are none */
  int busy_ms;             /* how long a statement waits for a lock once the file is open; 0: as long as opening */
  bool overwrites_deleted; /* whatever is deleted, else only where that costs no write more */
  bool shrinks;            /* the file may lose its free pages (auto_vacuum = INCREMENTAL); of a new file only */
} tp__sqlite_schema;

/** What a SQLite result code means to a host. */
tp_status tp__sqlite_status(int rc);

/** Fills fault (may be NULL) with the path, what was being done, SQLite's own words and what helps; returns the status
 *  of rc.
 *  @param db    the connection that failed; may be NULL.
 *  @param path  NULL: in memory. */
tp_status tp__sqlite_fail(sqlite3 *db, const char *path, const char *doing, int rc, tp_fault *fault);

/** Opens the file for writing, making it (mode 0600 from birth) when there is none: WAL, synchronous FULL, checked. A
 *  file of an earlier version is upgraded, in one transaction.
 *  @param path    NULL: in memory, gone with the connection.
 *  @param ret_db  close with sqlite3_close(); used by one thread at a time (opened without SQLite's own mutexes).
 *  @return TP_OK; TP_ERR_STORE_SCHEMA, TP_ERR_STORE_CORRUPT, TP_ERR_STORE_BUSY, TP_ERR_STORE_READONLY,
 *          TP_ERR_STORE_FULL, TP_ERR_IO, TP_ERR_NO_MEMORY, with the path in the fault. A refused file is left as it
 *          was. */
tp_status tp__sqlite_open(const char *path, const tp__sqlite_schema *schema, sqlite3 **ret_db, tp_fault *fault);

/** Runs a statement of one step once, with integers bound at 1 and after it.
 *  @param ret_number  the first column of its row; 0: it gave none, or NULL. May be NULL.
 *  @return SQLITE_OK or the error. */
int tp__sqlite_once(sqlite3 *db, const char *sql, const int64_t *values, int count, int64_t *ret_number);

/** @return TP_OK; TP_ERR_IO: the path is a FIFO, a socket or a device, which SQLite would wait for. What SQLite says of
 *          a directory and of a file that is not there stands. */
tp_status tp__sqlite_check_type(const char *path, tp_fault *fault);

/** Opens one more connection to a file that tp__sqlite_open() accepted, for reading only. */
tp_status tp__sqlite_open_reader(const char *path, sqlite3 **ret_db, tp_fault *fault);

/** Opens a file for reading only, as it is, also in a directory that cannot be written (read_only.c).
 *  @return as tp__sqlite_open(); TP_ERR_STORE_SCHEMA for a file of an earlier schema, too. */
tp_status tp__sqlite_open_read_only(const char *path, const tp__sqlite_schema *schema, sqlite3 **ret_db,
                                    tp_fault *fault);

#endif
