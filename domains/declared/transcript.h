/* SPDX-License-Identifier: Apache-2.0
 *
 * transcript: the file in which programs of other hosts read the conversation: transcript_path. It is JSON Lines in the
 * form of Claude Code, with mode 0600 in a directory with mode 0700. It is written anew before each program that gets
 * its path, and replaced as a whole, so that a reader sees one state. When a session has ended, its file is removed at
 * the next start of a program of another session, or with the hooks (another commit, the end of the runtime). */
#ifndef TP__DECLARED_TRANSCRIPT_H
#define TP__DECLARED_TRANSCRIPT_H

#include "domains/declared/hook.h"

enum { TP__TRANSCRIPT_PATH_SIZE = 512 };

/** Writes the conversation of a call under the names that its hook has for tools.
 *  @param ret_path  the path; empty: the turn has no session, or the file could not be written. */
void tp__transcript_write(const tp__hook *hook, tp_call *call, char ret_path[TP__TRANSCRIPT_PATH_SIZE]);
/** Removes every file, and the directory. */
void tp__transcripts_fini(tp_hooks *hooks);

#endif
