/* SPDX-License-Identifier: Apache-2.0
 *
 * exit_status: the exit statuses of the command, and the status for each failure of the library. */
#ifndef CLI_EXIT_STATUS_H
#define CLI_EXIT_STATUS_H

#include "cli/common/output.h"

typedef enum cli_exit {
#define X(name, number, text) name = number,
#include "cli/common/exit_status.def"
#undef X
} cli_exit;

/** The exit status for a call of the library that failed. */
cli_exit cli_exit_of(tp_status status);
/** The exit status of a command that SIGINT, SIGTERM or SIGHUP has ended, as shells report it. */
cli_exit cli_exit_of_signal(int number);
/** Prints the table. */
void cli_exit_print(cli_output *output);
/** Prints the table as one line of JSON. @return as cli_map_print(). */
int cli_exit_print_json(cli_output *output);

#endif
