/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_sessions: the sessions of a data directory or of a database. */
#ifndef CLI_KEPT_SESSIONS_H
#define CLI_KEPT_SESSIONS_H

#include "cli/common/data.h"
#include "turnphase/sqlite.h"

/** One session of a file or a database, with its numbers; borrowed till the callback returns. */
typedef struct cli_session {
  tp_sqlite_session kept;
  tp_text holder; /* of a database: the process that works on it; else empty, and kept has its number */
} cli_session;
/** False stops. */
typedef bool (*cli_session_fn)(void *ctx, const cli_session *session);

/** As tp_sqlite_sessions_list(). */
tp_status cli_sessions_each(const cli_data *data, const tp_sqlite_session_query *query, cli_session_fn each, void *ctx,
                            tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_session_rows(). */
tp_status cli_session_rows(const cli_data *data, const char *tenant, const char *session, tp_sqlite_row_fn each,
                           void *ctx, tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_session_fork(). */
tp_status cli_session_fork(const cli_data *data, const tp_sqlite_fork *request, uint64_t *ret_messages,
                           tp_fault *fault) TP_MUST_USE;
/** Erases whole sessions, as tp_sqlite_sessions_erase(). Of a directory no other process may use it; in a database
 *  sessions that are in use stay (TP_ERR_BUSY), and is_complete is 0: the server has copies until it vacuums. */
tp_status cli_sessions_erase(const cli_data *data, const tp_sqlite_session_query *query, tp_sqlite_erased *ret_erased,
                             tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_erasure_is_left(); false for a database. */
tp_status cli_sessions_erasure_is_left(const cli_data *data, bool *ret_is_left, tp_fault *fault) TP_MUST_USE;

#endif
