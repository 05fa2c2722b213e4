/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_sessions: the sessions of a data directory or of a database. */
#ifndef CLI_KEPT_SESSIONS_H
#define CLI_KEPT_SESSIONS_H

#include "cli/common/data.h"
#include "turnphase/sqlite.h"

/** As tp_sqlite_sessions_list(). */
tp_status cli_sessions_each(const cli_data *data, const tp_kept_query *query, tp_kept_session_fn each, void *ctx,
                            tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_session_rows(). */
tp_status cli_session_rows(const cli_data *data, const char *tenant, const char *session, tp_kept_row_fn each,
                           void *ctx, tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_session_fork(). */
tp_status cli_session_fork(const cli_data *data, const tp_kept_fork *request, uint64_t *ret_messages,
                           tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_sessions_erase() or tp_postgres_sessions_erase(). */
tp_status cli_sessions_erase(const cli_data *data, const tp_kept_choice *request, tp_kept_erased *ret_erased,
                             tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_sessions_export() or tp_postgres_sessions_export(). */
tp_status cli_sessions_export(const cli_data *data, const tp_kept_choice *request, tp_kept_export_fn each, void *ctx,
                              tp_kept_erased *ret_passed, tp_fault *fault) TP_MUST_USE;
/** As tp_sqlite_erasure_is_left(); false for a database. */
tp_status cli_sessions_erasure_is_left(const cli_data *data, bool *ret_is_left, tp_fault *fault) TP_MUST_USE;

#endif
