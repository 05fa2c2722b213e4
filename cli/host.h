/* SPDX-License-Identifier: Apache-2.0
 *
 * host: the runtime of the command, with the domains that the command line asked for. */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include "cli/options.h"

/** Makes a runtime, registers the memory domain (unless told not to) and every loaded library, each as an owner of its
 *  own, in the order of the command line, and the hooks of a directory that is trusted.
 *  @param memory_path  the file of the memory; NULL: in memory.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_host_open(const cli_arguments *arguments, const char *memory_path, tp_runtime **ret_runtime);

#endif
