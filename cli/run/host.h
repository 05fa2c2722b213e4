/* SPDX-License-Identifier: Apache-2.0
 *
 * host: the runtime of the command, with the domains that the command line names. */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include "cli/common/options.h"
#include "cli/run/ask.h"

/** Makes a runtime, registers the memory domain (unless it is left out) and every loaded library, each as an owner of
 *  its own, in the order of the command line, and the hooks of a directory that is trusted.
 *  @param memory_path  the file of the memory domain; NULL: in memory.
 *  @param store  for its records and jobs, taken in every case; NULL: in memory.
 *  @return CLI_OK, or an exit status after a message about the error. */
int cli_host_open(const cli_arguments *arguments, const char *memory_path, tp_store *store, tp_runtime **ret_runtime);
/** The same with a person, whom the gates of every turn ask. @param ask  started; NULL: no person can be asked. */
int cli_host_open_asking(const cli_arguments *arguments, const char *memory_path, tp_store *store, cli_ask *ask,
                         tp_runtime **ret_runtime);
/** The same with a channel for questions. @param ask  NULL: none. @param person  answers questions of MCP servers;
 *  started; NULL: no person can be asked. */
int cli_host_open_with(const cli_arguments *arguments, const char *memory_path, tp_store *store, tp_question_fn ask,
                       void *ask_ctx, cli_ask *person, tp_runtime **ret_runtime);
/** Frees the runtime after its drain. An abandoned function, such as one that is just starting a program, gets a moment
 *  to return. A program that is known ends with this process; a program that is still being started would otherwise go
 *  on without it. Accepts NULL. */
void cli_host_close(tp_runtime *runtime);
/** Prints log records of the library: errors and warnings, and with --verbose all others. A tp_log_fn. @param ctx  the
 *  cli_arguments. */
void cli_log(void *ctx, const tp_log_record *record);

/** Sets the directory from which the next cli_host_open() takes patterns of secrets, when its hooks are checked or
 *  tried. A wrong pattern is refused later, when the hooks are read. */
void cli_redactor_try(const char *directory);
/** After the last runtime. */
void cli_redactor_free(void);

#endif
