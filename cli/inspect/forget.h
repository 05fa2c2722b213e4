/* SPDX-License-Identifier: Apache-2.0
 *
 * forget: erases the data of a tenant, or of one person of a tenant, in a data directory. */
#ifndef CLI_FORGET_H
#define CLI_FORGET_H

#include "cli/common/options.h"

/** Finishes an interrupted erasure of the directory. Called before the directory is used.
 *  @return CLI_OK, also when there is none; or after a message: CLI_RETRY when a process is erasing or uses the
 *          directory; the other statuses of forget. */
int cli_forget_finish(const char *directory);
/** Asks the user to confirm the erasure of the counted data, unless --yes is given.
 *  @return CLI_OK; or after a message: CLI_NEGATIVE: no; CLI_USAGE: there is no terminal. */
int cli_forget_confirm(const cli_arguments *arguments);

#endif
