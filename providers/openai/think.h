/* SPDX-License-Identifier: Apache-2.0
 *
 * think: separates thinking from answer in a text that has both, with tags between them. It reads the text in pieces
 * that may end anywhere, and keeps only the bytes that it cannot assign yet. It owns these bytes; no lock.
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
 * Any closing tag closes any opening tag. Blanks at the beginning of a block are left out. So are blanks before the
 * first text of the answer, also between blocks there. A text without tags is not changed. */
#ifndef TP__OPENAI_THINK_H
#define TP__OPENAI_THINK_H

#include "support/bytes.h"
#include "support/text.h"

typedef struct tp__openai_think {
  /** Gets what was decided, in order. */
  void (*out)(void *ctx, tp_text piece, bool thinking);
  void *ctx;
  bool begins_inside; /* the answer begins inside of a block whose opening tag did not come */
  bool begun;         /* a piece has come */
  bool has_block;     /* a block has begun or was left out */
  bool has_said;      /* something was said that is no blank */
  bool is_fresh;      /* nothing of the block has come but blanks */
  bool is_assumed;    /* its opening tag may still come */
  bool is_undecided;  /* a closing tag has come in the block, but more closing tags are due */
  uint32_t blocks;    /* that have begun */
  uint32_t depth;     /* how many closing tags are due; 0: outside of a block */
  size_t ticks, code; /* backticks that have just come; and how many began the code in which the text is, or 0 */
  tp__bytes held;     /* the beginning of what may be a tag */
  tp__bytes blanks;   /* at the beginning of the answer */
  tp__bytes after;    /* the text after the newest closing tag, while is_undecided */
  bool failed;        /* no memory */
} tp__openai_think;

/** @param think  zero-filled except out, ctx and begins_inside. */
void tp__openai_think_feed(tp__openai_think *think, tp_text piece);
/** The text is over. */
void tp__openai_think_end(tp__openai_think *think);
void tp__openai_think_fini(tp__openai_think *think);

#endif
