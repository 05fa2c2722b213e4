/* SPDX-License-Identifier: Apache-2.0
 *
 * database: opens the SQLite file in which memories are kept, and says in tp_status what SQLite says. Never: touches a
 * file that is not ours, makes a damaged or newer file new. */
#ifndef TP__MEMORY_DATABASE_H
#define TP__MEMORY_DATABASE_H

#include <sqlite3.h>

#include "turnphase/base.h"

enum {
  TP__MEMORY_OPEN_BUSY_MS = 5000, /* how long opening waits for a lock that another process holds */
  TP__MEMORY_BUSY_MS = 250        /* and everything after: a job or a model can try again, a turn cannot wait */
};

/** What a SQLite result code means to a host. */
tp_status tp__memory_status(int rc);

/** Fills fault (may be NULL) with one sentence; returns code. subject may be NULL. */
tp_status tp__memory_refuse(tp_fault *fault, tp_status code, const char *subject, const char *format, ...)
    TP_PRINTF(4, 5);

/** Opens the file, making it (mode 0600 from birth) when there is none: WAL, synchronous FULL, checked.
 *  @param path    NULL: in memory, gone with the connection.
 *  @param ret_db  close with sqlite3_close(); used by one thread at a time (opened without SQLite's own mutexes).
 *  @return TP_OK; TP_ERR_STORE_SCHEMA, TP_ERR_STORE_CORRUPT, TP_ERR_STORE_BUSY, TP_ERR_STORE_READONLY,
 *          TP_ERR_STORE_FULL, TP_ERR_IO, TP_ERR_NO_MEMORY, with the path in the fault. A refused file is left as it
 *          was. */
tp_status tp__memory_database_open(const char *path, sqlite3 **ret_db, tp_fault *fault);

#endif
