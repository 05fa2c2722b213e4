/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions: the sessions of a file, read (sessions.c), exported (export.c) and erased (erase.c, erase_turns.c). */
#ifndef TP__SQLITE_SESSIONS_H
#define TP__SQLITE_SESSIONS_H

#include "stores/sqlite/sqlite.h"

/** Passes the sessions of a query to each, those whose last activity is oldest first. process_id is that of a process
 *  that is alive. On a connection that no other thread uses meanwhile.  @return SQLITE_OK or the error. */
int tp__sqlite_each_session(tp__sqlite_store *s, sqlite3 *db, const tp_sqlite_session_query *query,
                            tp_sqlite_session_fn each, void *ctx);
/** Passes everything of one session to each, as tp_sqlite_session_rows() does, on a connection that no other thread
 *  uses meanwhile.
 *  @param ret_status  TP_OK; that of a row that could not be written as a value. @return SQLITE_OK or the error. */
int tp__sqlite_each_row(sqlite3 *db, const char *tenant, const char *session, tp_writer *writer, tp_sqlite_row_fn each,
                        void *ctx, tp_status *ret_status);

/** What was chosen, or deleted. */
typedef struct tp__erased_turns {
  uint64_t sessions, turns, rows;
  uint64_t sessions_in_use, turns_unknown;
  int64_t process_id; /* of the first process that has one of those in use */
} tp__erased_turns;
/** Reads a caller's request and checks it, for the function of that name.
 *  @return TP_OK; TP_ERR_VERSION, TP_ERR_USAGE with the fault filled. */
tp_status tp__sqlite_erase_read(tp_sqlite_erase *request, const tp_sqlite_erase *theirs, tp_fault *fault);
/** Whether a request chooses turns, and not whole sessions. */
bool tp__sqlite_erase_is_by_turn(const tp_sqlite_erase *request);
/** Chooses the turns, jobs and tasks that a request names by person, matching or turns_before_unix_ms. They are in the
 *  temporary table unit after that, which is dropped with the transaction that the caller has begun; the connection may
 *  write temporary tables, and no other thread uses it meanwhile.
 *  @param with_in_use  also those of sessions on which a live process works.
 *  @param ret_status   TP_OK; why rows could not be read. @return SQLITE_OK or the error. */
int tp__sqlite_choose_turns(tp__sqlite_store *s, sqlite3 *db, const tp_sqlite_erase *request, bool with_in_use,
                            tp__erased_turns *ret_chosen, tp_status *ret_status);
/** Deletes what tp__sqlite_choose_turns() chooses of sessions that are not in use, inside of a transaction.
 *  @param ret_status  TP_OK; why rows could not be read. @return SQLITE_OK or the error. */
int tp__sqlite_erase_turns_locked(tp__sqlite_store *s, const tp_sqlite_erase *request, tp__erased_turns *ret_erased,
                                  tp_status *ret_status);
/** The turn of a row of tp__sqlite_each_row(); empty: it names none. */
tp_text tp__sqlite_turn_of_row(const char *kind, tp_text row);
/** Runs statements that take no values, until one fails. @return SQLITE_OK or the error. */
int tp__sqlite_exec_each(sqlite3 *db, const char *const *sql, size_t count);

#endif
