/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/kept_sessions.h"

#include "cli/common/database.h"

/** Who gets the sessions. */
typedef struct receiver {
  cli_session_fn each;
  void *ctx;
} receiver;

static bool pass_of_file(void *ctx, const tp_sqlite_session *from) {
  const receiver *to = ctx;
  const cli_session session = {.kept = *from};
  return to->each(to->ctx, &session);
}

static bool pass_of_database(void *ctx, const tp_postgres_session *from) {
  const receiver *to = ctx;
  const cli_session session = {.kept = {.struct_size = sizeof session.kept,
                                        .messages = from->messages,
                                        .turns = from->turns,
                                        .entries = from->entries,
                                        .calls = from->calls,
                                        .audits = from->audits,
                                        .jobs = from->jobs,
                                        .questions = from->questions,
                                        .tasks = from->tasks,
                                        .first_unix_ms = from->first_unix_ms,
                                        .last_unix_ms = from->last_unix_ms,
                                        .tenant = from->tenant,
                                        .session = from->session,
                                        .lease_ms = from->lease_ms},
                               .holder = from->holder};
  return to->each(to->ctx, &session);
}

static tp_postgres_session_query query_of(const tp_sqlite_session_query *query) {
  return (tp_postgres_session_query){.struct_size = sizeof(tp_postgres_session_query),
                                     .tenant = query->tenant,
                                     .session = query->session,
                                     .before_unix_ms = query->before_unix_ms,
                                     .limit = query->limit};
}

tp_status cli_sessions_each(const cli_data *data, const tp_sqlite_session_query *query, cli_session_fn each, void *ctx,
                            tp_fault *fault) {
  receiver to = {each, ctx};
  if (!data->is_database) return tp_sqlite_sessions_list(data->store, query, pass_of_file, &to, fault);
  const tp_postgres_session_query theirs = query_of(query);
  return cli_database_sessions_list(data->database, &theirs, pass_of_database, &to, fault);
}

tp_status cli_session_rows(const cli_data *data, const char *tenant, const char *session, tp_sqlite_row_fn each,
                           void *ctx, tp_fault *fault) {
  return data->is_database ? cli_database_session_rows(data->database, tenant, session, each, ctx, fault)
                           : tp_sqlite_session_rows(data->store, tenant, session, each, ctx, fault);
}

tp_status cli_session_fork(const cli_data *data, const tp_sqlite_fork *request, uint64_t *ret_messages,
                           tp_fault *fault) {
  if (!data->is_database) return tp_sqlite_session_fork(data->store, request, ret_messages, fault);
  const tp_postgres_fork theirs = {.struct_size = sizeof theirs,
                                   .tenant = request->tenant,
                                   .session = request->session,
                                   .new_session = request->new_session,
                                   .turn = request->turn};
  return cli_database_session_fork(data->database, &theirs, ret_messages, fault);
}

static tp_status erase_in_file(const cli_data *data, const tp_sqlite_session_query *query, tp_sqlite_erased *ret_erased,
                               tp_fault *fault) {
  const tp_sqlite_erase request = {.struct_size = sizeof request,
                                   .tenant = query->tenant,
                                   .session = query->session,
                                   .before_unix_ms = query->before_unix_ms};
  return tp_sqlite_sessions_erase(data->store, &request, ret_erased, fault);
}

tp_status cli_sessions_erase(const cli_data *data, const tp_sqlite_session_query *query, tp_sqlite_erased *ret_erased,
                             tp_fault *fault) {
  *ret_erased = (tp_sqlite_erased){.struct_size = sizeof *ret_erased};
  if (!data->is_database) return erase_in_file(data, query, ret_erased, fault);
  const tp_postgres_session_query theirs = query_of(query);
  tp_postgres_erased erased = {.struct_size = sizeof erased};
  tp_status status = cli_database_sessions_erase(data->database, &theirs, &erased, fault);
  ret_erased->sessions = erased.sessions;
  ret_erased->rows = erased.rows;
  ret_erased->sessions_in_use = erased.sessions_in_use;
  return status;
}

tp_status cli_sessions_erasure_is_left(const cli_data *data, bool *ret_is_left, tp_fault *fault) {
  *ret_is_left = false;
  return data->is_database ? TP_OK : tp_sqlite_erasure_is_left(data->store, ret_is_left, fault);
}
