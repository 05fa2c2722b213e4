/* SPDX-License-Identifier: Apache-2.0
 *
 * shell_line: the commands of a line of a shell, as far as the line shows them without being run. Quotes, escapes,
 * assignments, redirections and comments are read as a shell reads them; lists, pipes, subshells, substitutions, and
 * the lines of `sh -c` and `eval` are entered. Where it cannot be told, more commands are found than run. What a
 * variable, an alias or a script leads to is not seen. */
#ifndef TP__DECLARED_SHELL_LINE_H
#define TP__DECLARED_SHELL_LINE_H

#include "turnphase/base.h"

/** @param words  of one command, one space between two: the program as it is written, and without its folders. */
typedef bool (*tp__command_fn)(void *ctx, tp_text words);

/** @return whether the function returned true for a command, or there was no memory to look at them. */
bool tp__shell_line_any(tp_text line, tp__command_fn matches, void *ctx);

/** A command of a line, as it is written: assignments and words of the grammar are among its words, and so are the
 *  targets of its redirections, each with a bit. Variables are not expanded. */
typedef struct tp__shell_command {
  const tp_text *words;
  size_t count;             /* at most 64; the last word is then all the rest */
  uint64_t inputs, outputs; /* the words that are targets of `<`, and of `>` and its like */
} tp__shell_command;
typedef void (*tp__shell_command_fn)(void *ctx, const tp__shell_command *command);

/** Calls the function for each command of the line, but not for those of `sh -c` and `eval`.
 *  @return false: there was no memory. */
bool tp__shell_line_each(tp_text line, tp__shell_command_fn each, void *ctx);

#endif
