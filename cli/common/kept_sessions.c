/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/kept_sessions.h"

#include "cli/common/database.h"

tp_status cli_sessions_each(const cli_data *data, const tp_kept_query *query, tp_kept_session_fn each, void *ctx,
                            tp_fault *fault) {
  return data->is_database ? cli_database_sessions_list(data->database, query, each, ctx, fault)
                           : tp_sqlite_sessions_list(data->store, query, each, ctx, fault);
}

tp_status cli_session_rows(const cli_data *data, const char *tenant, const char *session, tp_kept_row_fn each,
                           void *ctx, tp_fault *fault) {
  return data->is_database ? cli_database_session_rows(data->database, tenant, session, each, ctx, fault)
                           : tp_sqlite_session_rows(data->store, tenant, session, each, ctx, fault);
}

tp_status cli_session_fork(const cli_data *data, const tp_kept_fork *request, uint64_t *ret_messages, tp_fault *fault) {
  return data->is_database ? cli_database_session_fork(data->database, request, ret_messages, fault)
                           : tp_sqlite_session_fork(data->store, request, ret_messages, fault);
}

tp_status cli_sessions_erase(const cli_data *data, const tp_kept_choice *request, tp_kept_erased *ret_erased,
                             tp_fault *fault) {
  *ret_erased = (tp_kept_erased){.struct_size = sizeof *ret_erased};
  return data->is_database ? cli_database_sessions_erase(data->database, request, ret_erased, fault)
                           : tp_sqlite_sessions_erase(data->store, request, ret_erased, fault);
}

tp_status cli_sessions_export(const cli_data *data, const tp_kept_choice *request, tp_kept_export_fn each, void *ctx,
                              tp_kept_erased *ret_passed, tp_fault *fault) {
  *ret_passed = (tp_kept_erased){.struct_size = sizeof *ret_passed};
  return data->is_database ? cli_database_sessions_export(data->database, request, each, ctx, ret_passed, fault)
                           : tp_sqlite_sessions_export(data->store, request, each, ctx, ret_passed, fault);
}

tp_status cli_sessions_erasure_is_left(const cli_data *data, bool *ret_is_left, tp_fault *fault) {
  *ret_is_left = false;
  return data->is_database ? TP_OK : tp_sqlite_erasure_is_left(data->store, ret_is_left, fault);
}
