/* SPDX-License-Identifier: Apache-2.0
 *
 * prose: shows the answer of a model to a person: lines are broken at words, and light Markdown (headings, bold, code
 * and list items) is painted, with its marks left out. Pieces are shown as they come. A word that grows beyond the end
 * of its line is moved to the next line. Only marks are held back until their meaning is known. Lines of a code block
 * are not changed. Needs a terminal that can move its cursor. One thread at a time. */
#ifndef CLI_CHAT_PROSE_H
#define CLI_CHAT_PROSE_H

#include "cli/common/output.h"

enum { CLI_PROSE_WORD_BYTES = 512 };

/** The caller sets output, width and marks; the rest is zero. */
typedef struct cli_prose {
  cli_output *output;
  size_t width; /* 0: lines are not broken */
  bool marks;   /* Markdown is painted; without colours it is not */
  /* of the line that is on its way */
  char word[CLI_PROSE_WORD_BYTES];
  size_t word_size, word_columns, column;
  size_t indent; /* of continuation lines, when a list item is broken */
  size_t blanks; /* not shown yet; dropped at the end of a line */
  char mark;     /* a mark of which several may come: `*` or '`'; '\\0': none */
  size_t mark_count;
  bool has_begun; /* the line, or the word, has something other than blanks */
  bool bold, code, heading, block;
  bool is_fence; /* the line is the fence of a block, which is not shown */
} cli_prose;

/** Shows a piece: visible text and line ends. */
void cli_prose_put(cli_prose *prose, tp_text text);
/** Shows everything that was held back, ends every paint, and resets. @return whether there is something on the
 *  line. */
bool cli_prose_end(cli_prose *prose);

#endif
