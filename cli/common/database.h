/* SPDX-License-Identifier: Apache-2.0
 *
 * database: a PostgreSQL database instead of a data directory. It has sessions, records, jobs and questions. Commands
 * that need something else refuse a database. */
#ifndef CLI_DATABASE_H
#define CLI_DATABASE_H

#include "cli/common/options.h"
#include "turnphase/postgres.h"

/** Whether the word names a database: postgres://… or postgresql://…   @param data  may be NULL. */
bool cli_database_is(const char *data);
/** Checks --data and the operands of a command, before it runs.
 *  @return CLI_OK; CLI_USAGE after a message that names the option or operand that cannot take a database, or a
 *          password that every user of the machine could see. */
int cli_database_check(const cli_command *command, const cli_arguments *arguments);

/** Opens a database that cli_database_check() has accepted.
 *  @param existing_only  its schema must exist. @param log  may be NULL.
 *  @param ret_database  belongs to the caller. @return as tp_postgres_open(). */
tp_status cli_database_open(const char *data, bool existing_only, tp_log_fn log, void *log_ctx,
                            tp_postgres **ret_database, tp_fault *fault) TP_MUST_USE;
/** Its history. @return as tp_postgres_history(). */
tp_status cli_database_history(tp_postgres *database, tp_history **ret_history, tp_fault *fault) TP_MUST_USE;
/** Its store. @return as tp_postgres_store(). */
tp_status cli_database_store(tp_postgres *database, tp_store **ret_store, tp_fault *fault) TP_MUST_USE;
/** Its channel for questions: as tp_postgres_questions_open() and the functions that follow it. */
tp_status cli_database_questions(tp_postgres *database, tp_log_fn log, void *log_ctx,
                                 tp_postgres_questions **ret_questions, tp_fault *fault) TP_MUST_USE;
void cli_database_question_put(tp_postgres_questions *questions, const tp_question *question);
void cli_database_questions_close(tp_postgres_questions *questions);
tp_status cli_database_questions_list(tp_postgres *database, bool open_only, tp_kept_question_fn each, void *ctx,
                                      tp_fault *fault) TP_MUST_USE;
tp_status cli_database_question_answer(tp_postgres *database, uint64_t number, const tp_decision *decision,
                                       tp_fault *fault) TP_MUST_USE;
/** Its sessions: as tp_postgres_sessions_list() and the functions after it. */
tp_status cli_database_sessions_list(tp_postgres *database, const tp_kept_query *query, tp_kept_session_fn each,
                                     void *ctx, tp_fault *fault) TP_MUST_USE;
tp_status cli_database_session_rows(tp_postgres *database, const char *tenant, const char *session, tp_kept_row_fn each,
                                    void *ctx, tp_fault *fault) TP_MUST_USE;
tp_status cli_database_session_fork(tp_postgres *database, const tp_kept_fork *request, uint64_t *ret_messages,
                                    tp_fault *fault) TP_MUST_USE;
tp_status cli_database_sessions_erase(tp_postgres *database, const tp_kept_choice *request, tp_kept_erased *ret_erased,
                                      tp_fault *fault) TP_MUST_USE;
tp_status cli_database_sessions_export(tp_postgres *database, const tp_kept_choice *request, tp_kept_export_fn each,
                                       void *ctx, tp_kept_erased *ret_passed, tp_fault *fault) TP_MUST_USE;
/** Ends a reference. Accepts NULL. */
void cli_database_close(tp_postgres *database);

#endif
