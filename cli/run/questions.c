/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/questions.h"

#include <assert.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/run/host.h"

int cli_questions_open(cli_questions *questions, const char *store_path, tp_postgres *database,
                       const cli_arguments *arguments) {
  tp_fault fault = {0};
  void *log_ctx = (void *)(uintptr_t)arguments;
  if (!arguments->keeps_questions) return CLI_OK;
  const tp_sqlite_questions_options of_file = {
      .struct_size = sizeof of_file, .path = store_path, .log = cli_log, .log_ctx = log_ctx};
  tp_status status = database ? cli_database_questions(database, cli_log, log_ctx, &questions->database, &fault)
                              : tp_sqlite_questions_open(&of_file, &questions->file, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(store_path, status, &fault);
}

bool cli_questions_are_open(const cli_questions *questions) { return questions->file || questions->database; }

void cli_questions_put(void *ctx, const tp_question *question) {
  const cli_questions *questions = ctx;
  assert(cli_questions_are_open(questions)); /* no turn begins before */
  if (questions->database) cli_database_question_put(questions->database, question);
  else tp_sqlite_questions_put(questions->file, question);
}

void cli_questions_close(cli_questions *questions) {
  cli_database_questions_close(questions->database);
  tp_sqlite_questions_close(questions->file);
  *questions = (cli_questions){0};
}
