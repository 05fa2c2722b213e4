/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions: lists the sessions of a database and reads the rows of one (sessions.c), forks them (session_changes.c),
 * and erases and exports them (session_erase.c). */
#ifndef TP__POSTGRES_SESSIONS_H
#define TP__POSTGRES_SESSIONS_H

#include "stores/postgres/request.h"
#include "stores/postgres/store.h"

#define TP__PG_RUNS "CASE WHEN x.state = 2 AND " TP__PG_LIVES("x.process") " THEN x.process ELSE 0 END"
/** The tables, besides those of the history, whose rows name a session: PART(what, table, first, last, process). The
 *  table is called x; what is a number of the list; first and last are the times of a row in ms, 0 where there is none;
 *  process has not ended it, 0 where there is none. Audit rows without a turn are of operators. */
#define TP__PG_TABLES_OF_SESSIONS(PART)                                                   \
  PART("1", "@.turn x", "x.ended_unix_ms", "x.ended_unix_ms", "0")                        \
  PART("1", "@.running x", "x.ended_unix_ms", "x.ended_unix_ms", TP__PG_RUNS)             \
  PART("2", "@.entry x", "x.started_unix_ms", "x.started_unix_ms", "0")                   \
  PART("3", "@.job x", "x.inserted_ms", "x.inserted_ms", TP__PG_RUNS)                     \
  PART("3", "@.job_ended x", "x.inserted_ms", "greatest(x.inserted_ms, x.ended_ms)", "0") \
  PART("4", "@.question x", "x.asked_ms", "greatest(x.asked_ms, x.answered_ms)", "0")     \
  PART("5", "@.task x", "x.created_unix_ms", "x.created_unix_ms", "0")                    \
  PART("6", "@.tool_start x", "x.started_unix_ms", "x.started_unix_ms", "0")              \
  PART("7", "(SELECT * FROM @.audit WHERE turn <> '') x", "x.unix_ms", "x.unix_ms", "0")

/** The rows of one session, as they were read. */
typedef struct tp__pg_session_rows {
  tp__pg_request records, work;
} tp__pg_session_rows;
/** Reads the rows of a session.   @param rows  ended by tp__pg_session_rows_fini(), also after a failure. */
tp_status tp__pg_session_rows_read(tp_postgres *postgres, tp_text tenant, tp_text session, tp__pg_session_rows *rows,
                                   tp_fault *fault);
/** Passes the rows, as tp_postgres_session_rows() does; it may be called several times.
 *  @return TP_OK, also where each has stopped; TP_ERR_TOO_LARGE, TP_ERR_STORE_CORRUPT, TP_ERR_NO_MEMORY. */
tp_status tp__pg_session_rows_pass(const tp__pg_session_rows *rows, tp_text session, tp_writer *writer,
                                   tp_kept_row_fn each, void *ctx, tp_fault *fault);
void tp__pg_session_rows_fini(tp__pg_session_rows *rows);

#endif
