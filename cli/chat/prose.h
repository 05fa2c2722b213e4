/* SPDX-License-Identifier: Apache-2.0
 *
 * prose: the answer of a model for a person: lines broken at words, and light Markdown: headings, bold, code and
 * items of lists are painted, with their marks left out. Pieces are shown as they come: a word that grows over the
 * end of its line is moved to the next one, and only marks are kept back until it is known what they are. Lines of a
 * code block are shown as they stand. Needs a terminal that moves its cursor. One thread at a time. */
#ifndef CLI_CHAT_PROSE_H
#define CLI_CHAT_PROSE_H

#include "cli/common/output.h"

enum { CLI_PROSE_WORD_BYTES = 512 };

/** Set output, width and marks; the rest is zero. */
typedef struct cli_prose {
  cli_output *output;
  size_t width; /* 0: lines are not broken */
  bool marks;   /* Markdown is painted; without colours nothing is */
  /* of the line that is on its way */
  char word[CLI_PROSE_WORD_BYTES];
  size_t word_size, word_columns, column;
  size_t indent; /* of the lines that follow, where the item of a list is broken */
  size_t blanks; /* not shown yet: at the end of a line they are dropped */
  char mark;     /* one of several that came: `*` or '`'; '\0': none */
  size_t mark_count;
  bool has_begun; /* something but blanks stands on the line, or in the word */
  bool bold, code, heading, block;
  bool is_fence; /* the line is the fence of a block: it is not shown */
} cli_prose;

/** Takes a piece: visible text and line ends. */
void cli_prose_put(cli_prose *prose, tp_text text);
/** Shows what is kept back, ends every paint, and begins anew. @return whether something stands on the line. */
bool cli_prose_end(cli_prose *prose);

#endif
