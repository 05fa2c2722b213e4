/* SPDX-License-Identifier: Apache-2.0
 *
 * database: the SQLite file in which memories are kept, and its tables. stores/sqlite/database.h describes how such a
 * file is opened, and what SQLite's results mean. */
#ifndef TP__MEMORY_DATABASE_H
#define TP__MEMORY_DATABASE_H

#include <sqlite3.h>

#include "turnphase/base.h"

/** Opens the file, as tp__sqlite_open() does, with its tables. An empty path gives TP_ERR_USAGE. */
tp_status tp__memory_database_open(const char *path, sqlite3 **ret_db, tp_fault *fault);
/** Opens one more connection to an open file, for reading only. */
tp_status tp__memory_database_open_reader(const char *path, sqlite3 **ret_db, tp_fault *fault);
/** Opens a file that cannot be written, for reading only. @return as tp__sqlite_open_read_only(). */
tp_status tp__memory_database_open_read_only(const char *path, sqlite3 **ret_db, tp_fault *fault);

#endif
