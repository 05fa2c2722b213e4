/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions: reads the sessions of a file (sessions.c), exports them (export.c) and erases them (erase.c,
 * erase_turns.c). */
#ifndef TP__SQLITE_SESSIONS_H
#define TP__SQLITE_SESSIONS_H

#include "stores/choice.h"
#include "stores/sqlite/sqlite.h"

/** Passes the sessions of a query to `each`, in the order of their last activity, the oldest first. process_id is the
 *  one of a living process. On a connection that no other thread uses meanwhile. @return SQLITE_OK or the error. */
int tp__sqlite_each_session(tp__sqlite_store *s, sqlite3 *db, const tp_kept_query *query, tp_kept_session_fn each,
                            void *ctx);
/** Passes all rows of one session to `each`, as tp_sqlite_session_rows() does, on a connection that no other thread
 *  uses meanwhile.
 *  @param ret_status  TP_OK; the error of a row that could not be written as a value. @return SQLITE_OK or the
 *                     error. */
int tp__sqlite_each_row(sqlite3 *db, const char *tenant, const char *session, tp_writer *writer, tp_kept_row_fn each,
                        void *ctx, tp_status *ret_status);

/** What was chosen, or deleted. */
typedef struct tp__erased_turns {
  uint64_t sessions, turns, rows;
  uint64_t sessions_in_use, turns_unknown;
  int64_t process_id; /* the first process that uses one of the sessions in use */
} tp__erased_turns;
/** Selects the turns, jobs and tasks of one session that a request names by person, matching or turns_before_unix_ms.
 *  @param choice      with the request; is cleared before.
 *  @param ret_status  TP_OK; why rows could not be read. @return SQLITE_OK or the error. */
int tp__sqlite_choose_of_session(sqlite3 *db, const tp_kept_session *session, tp__choice *choice, tp_writer *writer,
                                 tp_status *ret_status);
/** Deletes what a request selects of sessions that are not in use, inside of a transaction. The temporary table `unit`
 *  has the selection then.
 *  @param ret_status  TP_OK; why rows could not be read. @return SQLITE_OK or the error. */
int tp__sqlite_erase_turns_locked(tp__sqlite_store *s, const tp_kept_choice *request, tp__erased_turns *ret_erased,
                                  tp_status *ret_status);
/** Runs statements without parameters, until one fails. @return SQLITE_OK or the error. */
int tp__sqlite_exec_each(sqlite3 *db, const char *const *sql, size_t count);

#endif
