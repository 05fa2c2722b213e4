/* SPDX-License-Identifier: Apache-2.0
 *
 * changed: finds the changed files from version control, for the end of a session. */
#ifndef CLI_CHANGED_H
#define CLI_CHANGED_H

#include "turnphase/value.h"

/** The list of `git status` in the working directory: files that were changed, added or deleted, and untracked files
 *  that git does not ignore, as paths below the top of the repository.
 *  @param ret_value  an array of texts in the writer's memory. @return false, after a message, when git cannot list
 *                    them. */
bool cli_changed_by_git(tp_writer *writer, tp_text *ret_value);

#endif
