/* SPDX-License-Identifier: Apache-2.0
 *
 * forget: erasing what a data directory has of a tenant, or of a person of it. */
#ifndef CLI_FORGET_H
#define CLI_FORGET_H

#include "cli/common/options.h"

/** Finishes an erasure of the directory that was interrupted. To be called before anything of it is used.
 *  @return CLI_OK, also when there is none; CLI_RETRY: a process erases just now, or uses the directory; what forget
 *          returns; each after saying so. */
int cli_forget_finish(const char *directory);
/** Asks whether what was counted is to be erased, unless --yes has said so.
 *  @return CLI_OK; CLI_NEGATIVE: no; CLI_USAGE: there is no terminal; the last two after saying so. */
int cli_forget_confirm(const cli_arguments *arguments);

#endif
