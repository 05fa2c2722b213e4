/* SPDX-License-Identifier: Apache-2.0
 *
 * think: tells what a model thinks from what it says in a text that has both, with tags between them. It reads the text
 * in pieces, whatever their ends are, and keeps only what is not decided. It owns that; no lock.
 *
 * Tags:
 *   <NAME>, </NAME>, <NAME/>   NAME is think, thinking, thought, thoughts or reasoning, in letters of any case, after a
 *                              prefix that ends with a colon or none; blanks and attributes (a="b") may follow it
 *   <|begin_of_thought|>, <|end_of_thought|>; [THINK], [/THINK]; the same name between U+25C1 and U+25B7
 *
 *   what comes                        outside of a block            inside of one
 *   an opening tag                    the block begins              thought; a closing tag more is due
 *   an opening tag in code (` or ```) said                          -
 *   a closing tag                     said                          the last that is due ends the block
 *   a tag that closes itself          left out                      thought
 *   the end of the answer             -                             what follows the newest closing tag is said
 *
 * Any closing tag closes any opening one. Blanks at the beginning of a block are left out, and so are those between the
 * beginning of the answer, blocks there, and what is said first. A text without a tag stays as it is. */
#ifndef TP__OPENAI_THINK_H
#define TP__OPENAI_THINK_H

#include "support/bytes.h"
#include "support/text.h"

typedef struct tp__openai_think {
  /** Gets what was decided, in order. */
  void (*out)(void *ctx, tp_text piece, bool thinking);
  void *ctx;
  bool begins_inside; /* the answer begins in a block: what its opening tag is has not come */
  bool begun;         /* a piece has come */
  bool has_block;     /* a block has begun or was left out */
  bool has_said;      /* something was said that is no blank */
  bool is_fresh;      /* nothing of the block has come but blanks */
  bool is_assumed;    /* its opening tag may still come */
  bool is_undecided;  /* a closing tag has come in the block, which is not the last that is due */
  uint32_t blocks;    /* that have begun */
  uint32_t depth;     /* closing tags that are due; 0: outside of a block */
  size_t ticks, code; /* backticks that have just come; those that have begun the code that the text is in, or 0 */
  tp__bytes held;     /* the beginning of what may be a tag */
  tp__bytes blanks;   /* at the beginning of the answer */
  tp__bytes after;    /* what follows the newest closing tag while is_undecided */
  bool failed;        /* no memory */
} tp__openai_think;

/** @param think  zero-filled but for out, ctx and begins_inside. */
void tp__openai_think_feed(tp__openai_think *think, tp_text piece);
/** The text is over. */
void tp__openai_think_end(tp__openai_think *think);
void tp__openai_think_fini(tp__openai_think *think);

#endif
