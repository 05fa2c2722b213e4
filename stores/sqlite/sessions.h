/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions: the sessions of a file, read (sessions.c) and erased (erase.c). */
#ifndef TP__SQLITE_SESSIONS_H
#define TP__SQLITE_SESSIONS_H

#include "stores/sqlite/sqlite.h"

/** Passes the sessions of a query to each, those whose last activity is oldest first. process_id is that of a process
 *  that is alive. On a connection that no other thread uses meanwhile.  @return SQLITE_OK or the error. */
int tp__sqlite_each_session(tp__sqlite_store *s, sqlite3 *db, const tp_sqlite_session_query *query,
                            tp_sqlite_session_fn each, void *ctx);
/** Deletes the sessions in the table temp.erased, inside of a transaction. */
int tp__sqlite_delete_erased_locked(tp__sqlite_store *s);

#endif
