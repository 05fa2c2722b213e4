/* SPDX-License-Identifier: Apache-2.0
 *
 * questions: the channel of --ask data: questions about tool calls wait in the place of --data, for `turnphase ask`. It
 * owns what it opens; the database stays the caller's. */
#ifndef CLI_QUESTIONS_H
#define CLI_QUESTIONS_H

#include "cli/common/database.h"
#include "turnphase/sqlite.h"

/** Zero-filled is closed. */
typedef struct cli_questions {
  tp_sqlite_questions *file; /* one of both, or none */
  tp_postgres_questions *database;
} cli_questions;

/** With --ask data, opens the channel in the file of a data directory, or in a database. Otherwise it stays closed.
 *  @param database  NULL: it is the file.
 *  @return CLI_OK, or the exit status after a message. */
int cli_questions_open(cli_questions *questions, const char *store_path, tp_postgres *database,
                       const cli_arguments *arguments);
bool cli_questions_are_open(const cli_questions *questions);
/** A tp_question_fn; ctx is the channel, which is open. */
void cli_questions_put(void *ctx, const tp_question *question);
/** Called after the runtime was freed. Accepts a closed channel. */
void cli_questions_close(cli_questions *questions);

#endif
