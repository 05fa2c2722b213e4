/* SPDX-License-Identifier: Apache-2.0
 *
 * database: opens a SQLite file that is ours alone, and says in tp_status what SQLite says. It owns nothing but the
 * mutex under which files are born. Never: touches a file that is not ours, makes a damaged or newer file new. */
#ifndef TP__SQLITE_DATABASE_H
#define TP__SQLITE_DATABASE_H

#include <sqlite3.h>

#include "turnphase/base.h"

/** How long a statement waits for a lock that another process holds. */
enum { TP__SQLITE_BUSY_MS = 5000 };

/** What a file of ours holds. Both numbers stand in its header (PRAGMA application_id, user_version). */
typedef struct tp__sqlite_schema {
  const char *noun;       /* "a history of sessions" */
  int32_t application_id; /* never 0 */
  int32_t version;        /* from 1 */
  const char *sql;        /* makes the tables of this version in an empty file */
} tp__sqlite_schema;

/** What a SQLite result code means to a host. */
tp_status tp__sqlite_status(int rc);

/** Fills fault (may be NULL) with the path, what was being done and SQLite's own words; returns the status of rc.
 *  @param db  the connection that failed; may be NULL. */
tp_status tp__sqlite_fail(sqlite3 *db, const char *path, const char *doing, int rc, tp_fault *fault);

/** Fills fault (may be NULL), its subject with the path, and returns code. */
tp_status tp__sqlite_refuse(tp_fault *fault, tp_status code, const char *path, int system_error, const char *format,
                            ...) TP_PRINTF(5, 6);

/** Opens the file for writing, making it (mode 0600 from birth) when there is none: WAL, synchronous FULL, checked.
 *  @param ret_db  close with sqlite3_close(); used by one thread at a time (opened without SQLite's own mutexes).
 *  @return TP_OK; TP_ERR_STORE_SCHEMA, TP_ERR_STORE_CORRUPT, TP_ERR_STORE_BUSY, TP_ERR_STORE_READONLY,
 *          TP_ERR_STORE_FULL, TP_ERR_IO, TP_ERR_NO_MEMORY; a file that is refused is left as it was. */
tp_status tp__sqlite_open(const char *path, const tp__sqlite_schema *schema, sqlite3 **ret_db, tp_fault *fault);

/** Opens one more connection to a file that tp__sqlite_open() accepted, for reading only. */
tp_status tp__sqlite_open_reader(const char *path, sqlite3 **ret_db, tp_fault *fault);

#endif
