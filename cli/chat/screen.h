/* SPDX-License-Identifier: Apache-2.0
 *
 * screen: what a conversation shows of a turn: the answer as it comes, tool calls when they begin and end, what the
 * model thinks, and, where more is wanted, what was recalled and noted. Owns nothing; one thread at a time.
 *
 * Thinking is dimmed, on lines of its own that begin with a mark, and never part of the answer. It is folded to one
 * line for each block, which grows as the thinking comes and is cut at the width. Where no person looks it is shown
 * only when it was asked for (thinks_whole, verbose). */
#ifndef CLI_CHAT_SCREEN_H
#define CLI_CHAT_SCREEN_H

#include "cli/chat/prose.h"
#include "cli/common/output.h"

/** Set output, width, verbose and terminal; the rest is zero. */
typedef struct cli_screen {
  cli_output *output;
  size_t width; /* columns: lines about tools are cut there; 0: 80. The answer is wrapped by the terminal */
  bool verbose;
  bool lays_out; /* the answer is broken at words, and its Markdown painted where `prose` says so (cli/chat/prose.h) */
  bool terminal; /* the output is a terminal: duration, tokens and cost are shown below each answer */
  bool open;     /* something stands on the line that the cursor is in */
  bool streamed; /* some of this response was shown as it came */
  bool thinks_whole; /* thinking is shown whole, else folded */
  bool caret;        /* the terminal has written ^C after what stands on the line */
  bool in_answer;    /* the prose has begun */
  cli_prose prose;   /* of the answer: its marks are set by the owner */
  bool has_sign;     /* a sign of life stands on the line, which cli_screen_sign() erases */
  /* of the block of thinking that is shown now */
  bool in_thought, thought_full, thought_blank; /* it has begun; its line is full; a blank is due before what follows */
  size_t thought_columns;                       /* on its line; 0: the line has no mark yet */
} cli_screen;

/** Shows an event of a turn (cli/run/event.h). */
void cli_screen_show(cli_screen *screen, tp_text event);
/** Shows what a turn came to, after its last event. */
void cli_screen_end(cli_screen *screen, const tp_turn_result *result);
/** A text of others with its line ends, and without what a terminal would obey or hide. */
void cli_screen_text(cli_screen *screen, tp_text text);
/** Shows that the turn goes on, after so many seconds without output: a faint line that what follows erases. Nothing
 *  where something stands on the line.
 *  @param seconds  0: erases it. */
void cli_screen_sign(cli_screen *screen, unsigned seconds);
/** Ends the line, when something stands on it. */
void cli_screen_line_end(cli_screen *screen);

#endif
