/* SPDX-License-Identifier: Apache-2.0
 *
 * database: a PostgreSQL database in the place of a data directory. It has sessions only, so far: run, chat and serve
 * take one, and every other command refuses it by name. */
#ifndef CLI_DATABASE_H
#define CLI_DATABASE_H

#include "cli/common/options.h"

/** Whether the word names a database: postgres://… or postgresql://…   @param data  may be NULL. */
bool cli_database_is(const char *data);
/** Checks --data and the operands of a command, before it runs.
 *  @return CLI_OK; CLI_USAGE after naming what cannot take a database, or a password that every user of the machine
 *          sees. */
int cli_database_check(const cli_command *command, const cli_arguments *arguments);

#endif
