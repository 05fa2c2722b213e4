/* SPDX-License-Identifier: Apache-2.0
 *
 * shell_line: the commands of a line of a shell, as far as the line shows them without being run. Quotes, escapes,
 * assignments, redirections, here-documents and comments are read as a shell reads them; lists, pipes, subshells,
 * substitutions, documents, and the lines of `sh -c`, `eval` and `trap` are entered, at most 8 in one another. Where
 * it cannot be told, more commands are found than run. What a variable, an alias, a substitution or a script becomes is
 * not seen. */
#ifndef TP__DECLARED_SHELL_LINE_H
#define TP__DECLARED_SHELL_LINE_H

#include "turnphase/base.h"

/** What stands in a word for a substitution, which becomes what is not known. */
#define TP__SHELL_UNKNOWN "$()"

/** @param words  of one command, one space between two: the program as it is written, and without its folders. */
typedef bool (*tp__command_fn)(void *ctx, tp_text words);

/** @return whether the function returned true for a command, or it could not be told: lines that are too deep, or no
 *          memory. */
bool tp__shell_line_any(tp_text line, tp__command_fn matches, void *ctx);

/** A command of a line, as it is written: assignments and words of the grammar are among its words, and so are the
 *  targets of its redirections, each with a bit. Variables are not expanded. */
typedef struct tp__shell_command {
  const tp_text *words;
  size_t count;             /* at most 64; the last word is then all the rest */
  uint64_t inputs, outputs; /* the words that are targets of `<`, and of `>` and its like */
} tp__shell_command;
typedef void (*tp__shell_command_fn)(void *ctx, const tp__shell_command *command);

/** Calls the function for each command of the line, but not for those of `sh -c`, `eval` and `trap`.
 *  @return false: lines are too deep, or there was no memory. */
bool tp__shell_line_each(tp_text line, tp__shell_command_fn each, void *ctx);

/** Programs that run what their arguments name, after options of their own. */
bool tp__shell_is_wrapper(tp_text program);
bool tp__shell_is_shell(tp_text program);
/** Of an option of a shell: the next word belongs to it. */
bool tp__shell_option_has_value(tp_text option);

#endif
