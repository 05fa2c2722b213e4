/* SPDX-License-Identifier: Apache-2.0
 *
 * host: the runtime of the command, with the domains that the command line asked for. */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include "cli/common/options.h"
#include "cli/run/ask.h"

/** Makes a runtime, registers the memory domain (unless it is left out) and every loaded library, each as an owner of
 *  its own, in the order of the command line, and the hooks of a directory that is trusted.
 *  @param memory_path  the file of the memory; NULL: in memory.
 *  @param store  of its records and jobs, taken whatever comes of it; NULL: in memory.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_host_open(const cli_arguments *arguments, const char *memory_path, tp_store *store, tp_runtime **ret_runtime);
/** The same with a person who is asked by gates of every turn. @param ask  started; NULL: no person can be asked. */
int cli_host_open_asking(const cli_arguments *arguments, const char *memory_path, tp_store *store, cli_ask *ask,
                         tp_runtime **ret_runtime);
/** The same with a channel for questions. @param ask  NULL: none. @param person  who answers what MCP servers ask;
 *  started; NULL: no person can be asked. */
int cli_host_open_with(const cli_arguments *arguments, const char *memory_path, tp_store *store, tp_question_fn ask,
                       void *ask_ctx, cli_ask *person, tp_runtime **ret_runtime);
/** Frees it after its drain. A function that was abandoned, such as one that is just starting a program, gets a moment
 *  to return: a program that is known ends with this process, and one that is not yet would go on without it. Accepts
 *  NULL. */
void cli_host_close(tp_runtime *runtime);
/** Prints what the library logs: errors and warnings, and with --verbose the rest. A tp_log_fn. @param ctx  the
 *  cli_arguments. */
void cli_log(void *ctx, const tp_log_record *record);

/** Patterns of secrets of a directory whose hooks are checked or tried, for the next cli_host_open(). A wrong pattern
 *  is left to the reading of the hooks, which refuses it. */
void cli_redactor_try(const char *directory);
/** After the last runtime. */
void cli_redactor_free(void);

#endif
