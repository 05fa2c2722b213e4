/* SPDX-License-Identifier: Apache-2.0
 *
 * changed: which files were changed, as version control lists them, for the end of a session. */
#ifndef CLI_CHANGED_H
#define CLI_CHANGED_H

#include "turnphase/value.h"

/** What `git status` lists in the working directory: files that were changed, added, deleted or are not tracked, and
 *  that git does not ignore, as paths below the top of the repository.
 *  @param ret_value  an array of texts, the writer's. @return false where git cannot list them: it is said why not. */
bool cli_changed_by_git(tp_writer *writer, tp_text *ret_value);

#endif
