/* SPDX-License-Identifier: Apache-2.0
 *
 * skills.h: the library turnphase-skills: instructions in Markdown files that a user calls by name. It uses public
 * headers only.
 *
 * A skill is a file NAME.md in one directory; NAME has 1 to 64 lower-case letters, digits, - and _. A front matter
 * between two lines `---` is not part of its body; the line `description:` in it, else the first line of the body, is
 * its summary. A message that begins with `/NAME` becomes the body in a frame, with what follows the name after it:
 *
 *   /review the last commit    <skill name="review">
 *                              …
 *                              </skill>
 *
 *                              the last commit
 *
 * Each further line of such a message that begins with `/NAME` begins the next skill. The turn is denied, with a
 * reason, for a name without a file, a name that no skill can have, and a name that is not in the list `skills` of the
 * agent's config. A message whose first word holds another slash (`/etc/hosts`) or begins with a blank is no command.
 * Threads: the one that uses the edit calls tp_skills_register(). */
#ifndef TURNPHASE_SKILLS_H
#define TURNPHASE_SKILLS_H

#include "turnphase/runtime.h"

TP_BEGIN_DECLS

/** Strings are copied. */
typedef struct tp_skills_options {
  size_t struct_size;
  /** Required. The directory is opened once: renaming it later changes nothing. Files that do not end in .md and those
   *  whose name begins with a point are not looked at. */
  const char *directory;
} tp_skills_options;

/** Adds to the edit:
 *    skills.list    agent.build, required: a section of the agent's system text with each skill that the config allows
 *                   and its summary. A name in the config without a file is a diagnostic
 *    skills.call    turn.intake, required: as above
 *  Files are read when they are used, so that a change needs no commit. On failure the edit may hold one of the two:
 *  discard it.
 *  @return TP_OK; what tp_edit_add_…() returns; for the directory and what is in it, with the file in the fault:
 *          TP_ERR_IO, TP_ERR_BAD_ID for a name that no skill can have, TP_ERR_UTF8, TP_ERR_MALFORMED for a skill
 *          without a body, TP_ERR_TOO_LARGE above 256 KiB for one skill, TP_ERR_FULL above 256 skills; TP_ERR_USAGE,
 *          TP_ERR_VERSION for wrong options; TP_ERR_NO_MEMORY.
 *  Threads: the one that uses the edit. */
TP_API tp_status tp_skills_register(tp_edit *edit, const tp_skills_options *options, tp_fault *fault) TP_MUST_USE;

/** A skill of a directory, as its file is now. Made by the library; borrowed till the callback returns. */
typedef struct tp_skill {
  size_t struct_size;
  tp_text name, summary, body;
} tp_skill;
/** Receives a skill; false stops the walk. Threads: the calling one. */
typedef bool (*tp_skill_fn)(void *ctx, const tp_skill *skill);
/** Reads the skills of a directory, in the order of their names.
 *  @param only  a name: the others are not read; NULL: all.
 *  @return TP_OK, also when each has stopped the walk; TP_ERR_USAGE; TP_ERR_NOT_FOUND for a name that no skill has; for
 *          the directory and what is in it as tp_skills_register().
 *  Threads: any.  Blocks: reads the files. */
TP_API tp_status tp_skills_each(const char *directory, const char *only, tp_skill_fn each, void *ctx,
                                tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
