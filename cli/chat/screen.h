/* SPDX-License-Identifier: Apache-2.0
 *
 * screen: shows a turn of a conversation: the answer as it comes, tool calls when they begin and end, the model's
 * thinking, and, when more is wanted, recalled texts and notes. Owns nothing; one thread at a time.
 *
 * Thinking is dimmed, on lines of its own that begin with a mark, and never part of the answer. It is folded to one
 * line for each block, which grows as the thinking comes and is cut at the width. Without a terminal it is shown only
 * on request (thinks_whole, verbose). */
#ifndef CLI_CHAT_SCREEN_H
#define CLI_CHAT_SCREEN_H

#include "cli/chat/prose.h"
#include "cli/common/output.h"
#include "cli/run/event.h"

/** The caller sets output, width, verbose and terminal; the rest is zero. */
typedef struct cli_screen {
  cli_output *output;
  /* columns; 0: 80. Lines about tools are cut there, and with lays_out the answer is broken at words before it */
  size_t width;
  bool verbose;
  /* the answer is broken at words, and `prose` decides whether its Markdown is painted (cli/chat/prose.h) */
  bool lays_out;
  bool terminal;     /* the output is a terminal: duration, tokens and cost are shown below each answer */
  bool open;         /* the line with the cursor is not empty */
  bool streamed;     /* a part of this response was shown as it came */
  bool thinks_whole; /* thinking is shown whole, else folded */
  bool caret;        /* the terminal has written ^C at the end of the line */
  bool in_answer;    /* the prose has begun */
  cli_prose prose;   /* of the answer; the owner sets its marks */
  bool has_sign;     /* the line has a sign of life, which cli_screen_sign() erases */
  /* About the block of thinking that is shown now */
  bool in_thought, thought_full, thought_blank; /* it has begun; its line is full; a blank must precede the next text */
  size_t thought_columns;                       /* on its line; 0: the line has no mark yet */
} cli_screen;

/** Shows an event of a turn. */
void cli_screen_show(cli_screen *screen, const cli_event *event);
/** Shows the result of a turn, after its last event. */
void cli_screen_end(cli_screen *screen, const tp_turn_result *result);
/** Prints a text of others with its line ends, without characters that a terminal would obey or hide. */
void cli_screen_text(cli_screen *screen, tp_text text);
/** Shows that the turn goes on, after this many seconds without output: a faint line that the next output erases. Does
 *  nothing when the line is not empty.
 *  @param seconds  0: erases it. */
void cli_screen_sign(cli_screen *screen, unsigned seconds);
/** Ends the line, if it is not empty. */
void cli_screen_line_end(cli_screen *screen);

#endif
