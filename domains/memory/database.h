/* SPDX-License-Identifier: Apache-2.0
 *
 * database: the SQLite file in which memories are kept: its tables, and how they are kept. How such a file is opened,
 * and what SQLite's results mean, stores/sqlite/database.h says. */
#ifndef TP__MEMORY_DATABASE_H
#define TP__MEMORY_DATABASE_H

#include <sqlite3.h>

#include "turnphase/base.h"

/** Opens the file, as tp__sqlite_open() does, with its tables. A path that is empty is TP_ERR_USAGE. */
tp_status tp__memory_database_open(const char *path, sqlite3 **ret_db, tp_fault *fault);
/** One more connection to a file that it opened, for reading only. */
tp_status tp__memory_database_open_reader(const char *path, sqlite3 **ret_db, tp_fault *fault);
/** A file that cannot be written, for reading only. @return as tp__sqlite_open_read_only(). */
tp_status tp__memory_database_open_read_only(const char *path, sqlite3 **ret_db, tp_fault *fault);

#endif
