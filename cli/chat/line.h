/* SPDX-License-Identifier: Apache-2.0
 *
 * line: reads the lines that a user types: with line editing on a terminal (libedit), else without. One thread. */
#ifndef CLI_CHAT_LINE_H
#define CLI_CHAT_LINE_H

#include "turnphase/turnphase.h"

typedef struct cli_line cli_line;

typedef enum cli_line_kind {
  CLI_LINE_NONE,      /* of cli_line_typed(): nothing stands there */
  CLI_LINE_TEXT,      /* a line, without its end; with line editing, a text that was pasted or has Alt-Enter is one */
  CLI_LINE_END,       /* the end of the input: Ctrl-D */
  CLI_LINE_INTERRUPT, /* Ctrl-C in a line that is not empty; the line is dropped */
  CLI_LINE_LEAVE,     /* Ctrl-C in an empty line, or when the content of the line is not known */
  CLI_LINE_TOO_LONG,  /* more than CLI_LINE_BYTES_MAX; the whole line is dropped */
  CLI_LINE_FAILED     /* errno */
} cli_line_kind;

enum { CLI_LINE_BYTES_MAX = 1 << 20 };

/** @param edits   at a terminal: with line editing, if it was built.
 *  @param bell    a descriptor that becomes readable after SIGINT; -1: none. Not closed. */
cli_line *cli_line_open(bool edits, int bell);
/** Waits for a line.
 *  @param prompt  printed before the line; NULL: none.
 *  @param ret_text  borrowed until the next call; empty unless the result is CLI_LINE_TEXT. */
cli_line_kind cli_line_read(cli_line *line, const char *prompt, tp_text *ret_text);
/** Takes a line that a person typed while no line was being read; the terminal itself has edited it. Never waits.
 *  @param ret_text  as cli_line_read(). */
cli_line_kind cli_line_typed(cli_line *line, tp_text *ret_text);
/** Tab completes the first word of a line from these words, and any other word as a file name.
 *  @param words  end with NULL; borrowed until the close. */
void cli_line_complete(cli_line *line, const char *const *words);
/** Accepts NULL. */
void cli_line_close(cli_line *line);

#endif
