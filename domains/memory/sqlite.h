/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite: the store of memories over a SQLite file, as a table of functions. It owns a connection that writes and one
 * that reads, so that no recall waits for the disk, each with its prepared statements and used by one thread at a time
 * under its mutex. A thread that needs both takes the reader's first. It takes its memory from SQLite
 * (sqlite3_malloc64), so a bound on SQLite's memory also bounds that of the store. The callbacks of a read run under
 * the reader's mutex. */
#ifndef TP__MEMORY_SQLITE_H
#define TP__MEMORY_SQLITE_H

#include "stores/sqlite/group.h"
#include "turnphase/memory_store.h"

typedef struct tp__memory_sqlite tp__memory_sqlite;

/** @param path       NULL: in memory.
 *  @param read_only  functions that write return TP_ERR_STORE_READONLY.
 *  @return as tp__memory_database_open(), or with read_only as tp__sqlite_open_read_only(). */
tp_status tp__memory_sqlite_open(const char *path, bool read_only, tp_memory_store *ret_store, tp_fault *fault);
/** From now on writes do not wait for the disk (tp_memory_options.async). Call it before other threads use the
 *  store. */
tp_status tp__memory_sqlite_make_async(const tp_memory_store *store, tp_fault *fault);
/** The group of its writes: all that wait for the disk share one sync. */
tp__group *tp__memory_sqlite_group(const tp_memory_store *store);

#endif
