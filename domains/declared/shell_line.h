/* SPDX-License-Identifier: Apache-2.0
 *
 * shell_line: finds the commands of a shell line, as far as the line shows them without being run. Quotes, escapes,
 * assignments, redirections, here-documents and comments are read as a shell reads them. Lists, pipes, subshells,
 * substitutions, documents, and the lines of `sh -c`, `eval` and `trap` are searched, too, up to 8 levels deep. In
 * doubt, more commands are found than would run. The values of variables, aliases and substitutions, and the contents
 * of scripts, are not seen. */
#ifndef TP__DECLARED_SHELL_LINE_H
#define TP__DECLARED_SHELL_LINE_H

#include "turnphase/base.h"

/** The text in a word that replaces a substitution, whose result is not known. */
#define TP__SHELL_UNKNOWN "$()"

/** @param words  the words of one command, with one space between two. The program is passed as it is written, and also
 *    without its folders. */
typedef bool (*tp__command_fn)(void *ctx, tp_text words);

/** @return whether the function returned true for a command, or it cannot be decided: lines are nested too deep, or
 *            there is no memory. */
bool tp__shell_line_any(tp_text line, tp__command_fn matches, void *ctx);

/** A command of a line, as it is written. Its words include assignments and words of the grammar. They also include the
 *  targets of its redirections, each with a bit. Variables are not expanded. */
typedef struct tp__shell_command {
  const tp_text *words;
  size_t count;             /* at most 64; the last word is then the whole rest */
  uint64_t inputs, outputs; /* the words that are targets of `<`, and of `>` and similar operators */
} tp__shell_command;
typedef void (*tp__shell_command_fn)(void *ctx, const tp__shell_command *command);

/** Calls the function for each command of the line, but not for the commands in `sh -c`, `eval` and `trap`.
 *  @return false: lines are too deep, or there was no memory. */
bool tp__shell_line_each(tp_text line, tp__shell_command_fn each, void *ctx);

/** Whether the program runs another program that its arguments name, after options of its own. */
bool tp__shell_is_wrapper(tp_text program);
bool tp__shell_is_shell(tp_text program);
/** Whether an option of a shell has a value, which is the next word. */
bool tp__shell_option_has_value(tp_text option);

#endif
