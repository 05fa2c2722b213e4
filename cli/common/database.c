/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/database.h"

#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "support/text.h"

bool cli_database_is(const char *data) {
  return data && (tp__begins(tp_text_of(data), "postgres://") || tp__begins(tp_text_of(data), "postgresql://"));
}

/* Whether there is a password in the user's part, user:password@, or among the parameters. */
static bool has_password(const char *data) {
  const char *authority = strstr(data, "://") + 3, *end = authority + strcspn(authority, "?");
  const char *colon = strchr(authority, ':'), *at = memchr(authority, '@', (size_t)(end - authority));
  return (at && colon && colon < at) || strstr(end, "password=");
}

int cli_database_check(const cli_command *command, const cli_arguments *arguments) {
  bool given = cli_database_is(arguments->data);
  bool has_directory = command->operand && strstr(command->operand, "DIR");
  bool has_data = command->operand && strstr(command->operand, "ACTION DATA"); /* and texts after it */
  const char *operand = NULL;
  for (size_t i = 0; i < arguments->operand_count; i++)
    if ((has_directory || (has_data && i == 1)) && cli_database_is(arguments->operands[i]))
      operand = arguments->operands[i];
  if (!given && !operand) return CLI_OK;
  if (!command->takes_database) {
    if (command->id == CLI_STORE)
      cli_error(
          "store is for the file of a data directory. For a database: `turnphase forget --before` deletes what is old, "
          "`turnphase sessions list` counts, and tools of PostgreSQL do the rest (VACUUM, pg_amcheck): see "
          "docs/postgres.md");
    else cli_error("%s cannot use a database yet, only a directory", command->name);
    return CLI_USAGE;
  }
  if (has_password(operand ? operand : arguments->data)) {
    cli_error(
        "%s a password, which every user of this machine sees among the arguments: put it into ~/.pgpass, or into "
        "PGPASSWORD, and leave it out here",
        operand ? "the name of the database has" : "--data has");
    return CLI_USAGE;
  }
#ifdef CLI_POSTGRES
  return CLI_OK;
#else
  cli_error("this turnphase was built without turnphase-postgres: it takes a directory only");
  return CLI_USAGE;
#endif
}

#ifdef CLI_POSTGRES

tp_status cli_database_open(const char *data, bool existing_only, tp_log_fn log, void *log_ctx,
                            tp_postgres **ret_database, tp_fault *fault) {
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = data, .existing_only = existing_only, .log = log, .log_ctx = log_ctx};
  return tp_postgres_open(&options, ret_database, fault);
}

tp_status cli_database_history(tp_postgres *database, tp_history **ret_history, tp_fault *fault) {
  return tp_postgres_history(database, ret_history, fault);
}

tp_status cli_database_store(tp_postgres *database, tp_store **ret_store, tp_fault *fault) {
  const tp_postgres_store_options options = {.struct_size = sizeof options, .content_hashes = 1};
  return tp_postgres_store(database, &options, ret_store, fault);
}

tp_status cli_database_questions(tp_postgres *database, tp_log_fn log, void *log_ctx,
                                 tp_postgres_questions **ret_questions, tp_fault *fault) {
  const tp_postgres_questions_options options = {.struct_size = sizeof options, .log = log, .log_ctx = log_ctx};
  return tp_postgres_questions_open(database, &options, ret_questions, fault);
}

void cli_database_question_put(tp_postgres_questions *questions, const tp_question *question) {
  tp_postgres_questions_put(questions, question);
}

void cli_database_questions_close(tp_postgres_questions *questions) { tp_postgres_questions_close(questions); }

tp_status cli_database_questions_list(tp_postgres *database, bool open_only, tp_kept_question_fn each, void *ctx,
                                      tp_fault *fault) {
  return tp_postgres_questions_list(database, open_only, each, ctx, fault);
}

tp_status cli_database_question_answer(tp_postgres *database, uint64_t number, const tp_decision *decision,
                                       tp_fault *fault) {
  return tp_postgres_question_answer(database, number, decision, fault);
}

tp_status cli_database_sessions_list(tp_postgres *database, const tp_kept_query *query, tp_kept_session_fn each,
                                     void *ctx, tp_fault *fault) {
  return tp_postgres_sessions_list(database, query, each, ctx, fault);
}

tp_status cli_database_session_rows(tp_postgres *database, const char *tenant, const char *session, tp_kept_row_fn each,
                                    void *ctx, tp_fault *fault) {
  return tp_postgres_session_rows(database, tenant, session, each, ctx, fault);
}

tp_status cli_database_session_fork(tp_postgres *database, const tp_kept_fork *request, uint64_t *ret_messages,
                                    tp_fault *fault) {
  return tp_postgres_session_fork(database, request, ret_messages, fault);
}

tp_status cli_database_sessions_erase(tp_postgres *database, const tp_kept_choice *request, tp_kept_erased *ret_erased,
                                      tp_fault *fault) {
  return tp_postgres_sessions_erase(database, request, ret_erased, fault);
}

tp_status cli_database_sessions_export(tp_postgres *database, const tp_kept_choice *request, tp_kept_export_fn each,
                                       void *ctx, tp_kept_erased *ret_passed, tp_fault *fault) {
  return tp_postgres_sessions_export(database, request, each, ctx, ret_passed, fault);
}

void cli_database_close(tp_postgres *database) { tp_postgres_close(database); }

#else /* cli_database_check() lets none pass */

tp_status cli_database_open(const char *data, bool existing_only, tp_log_fn log, void *log_ctx,
                            tp_postgres **ret_database, tp_fault *fault) {
  (void)data, (void)existing_only, (void)log, (void)log_ctx, (void)ret_database, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_history(tp_postgres *database, tp_history **ret_history, tp_fault *fault) {
  (void)database, (void)ret_history, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_store(tp_postgres *database, tp_store **ret_store, tp_fault *fault) {
  (void)database, (void)ret_store, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_questions(tp_postgres *database, tp_log_fn log, void *log_ctx,
                                 tp_postgres_questions **ret_questions, tp_fault *fault) {
  (void)database, (void)log, (void)log_ctx, (void)ret_questions, (void)fault;
  return TP_ERR_USAGE;
}

void cli_database_question_put(tp_postgres_questions *questions, const tp_question *question) {
  (void)questions, (void)question;
}

void cli_database_questions_close(tp_postgres_questions *questions) { (void)questions; }

tp_status cli_database_questions_list(tp_postgres *database, bool open_only, tp_kept_question_fn each, void *ctx,
                                      tp_fault *fault) {
  (void)database, (void)open_only, (void)each, (void)ctx, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_question_answer(tp_postgres *database, uint64_t number, const tp_decision *decision,
                                       tp_fault *fault) {
  (void)database, (void)number, (void)decision, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_sessions_list(tp_postgres *database, const tp_kept_query *query, tp_kept_session_fn each,
                                     void *ctx, tp_fault *fault) {
  (void)database, (void)query, (void)each, (void)ctx, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_session_rows(tp_postgres *database, const char *tenant, const char *session, tp_kept_row_fn each,
                                    void *ctx, tp_fault *fault) {
  (void)database, (void)tenant, (void)session, (void)each, (void)ctx, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_session_fork(tp_postgres *database, const tp_kept_fork *request, uint64_t *ret_messages,
                                    tp_fault *fault) {
  (void)database, (void)request, (void)ret_messages, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_sessions_erase(tp_postgres *database, const tp_kept_choice *request, tp_kept_erased *ret_erased,
                                      tp_fault *fault) {
  (void)database, (void)request, (void)ret_erased, (void)fault;
  return TP_ERR_USAGE;
}

tp_status cli_database_sessions_export(tp_postgres *database, const tp_kept_choice *request, tp_kept_export_fn each,
                                       void *ctx, tp_kept_erased *ret_passed, tp_fault *fault) {
  (void)database, (void)request, (void)each, (void)ctx, (void)ret_passed, (void)fault;
  return TP_ERR_USAGE;
}

void cli_database_close(tp_postgres *database) { (void)database; }

#endif
