/* SPDX-License-Identifier: Apache-2.0
 *
 * answer: a response while it comes: text, tool calls (calls.h), blocks of other kinds, usage, why it ended. The forms
 * write it (form.h), the request's end reads it. It belongs to one thread at a time.
 *
 * Texts, calls and blocks come as pieces, as snapshots, or both: a piece is what is new, a snapshot has all of it. What
 * has come is never taken back, and a snapshot adds only what no piece had. */
#ifndef TP__OPENAI_ANSWER_H
#define TP__OPENAI_ANSWER_H

#include "providers/openai/calls.h"
#include "providers/openai/failure.h"
#include "providers/openai/think.h"
#include "turnphase/model.h"

/** Token counts as endpoints give them; below 0: not given. */
typedef struct tp__openai_usage {
  int64_t input, output; /* input includes what was read from a cache or put there */
  int64_t cache_read, cache_write;
} tp__openai_usage;

/** Where a piece of text belongs: the number of the item or block, and of the part in it; 0, 0 where the API has none.
 */
typedef struct tp__openai_spot {
  int64_t item, part;
} tp__openai_spot;

/** The text of one spot, as bytes of the answer's text from begin to end. */
typedef struct tp__openai_span {
  tp__openai_spot spot;
  size_t begin, end;
  uint64_t pieces;
  size_t given, repeated; /* bytes that came with the block's start; how many of these later pieces have repeated */
  size_t newest;          /* where the newest piece begins */
  bool is_flat;           /* a piece has not begun with all of the piece before */
} tp__openai_span;

/** A block of the answer that is neither text nor a call, such as thinking: kept as it came, for the provider that gave
 *  it. No part of the text. */
typedef struct tp__openai_block {
  int64_t index;  /* the endpoint's number of the block or item; below 0: it gave none */
  tp__bytes kind; /* as the endpoint names it: "thinking", "redacted_thinking", "reasoning", "reasoning_content", …; or
                     one of the library's own (given.c) */
  tp__bytes value; /* the block or item as its start or its end had it, a value; empty where it has none */
  tp__bytes text;  /* of its pieces, joined */
  tp__bytes signature;
  tp__openai_tail tail; /* of text */
} tp__openai_block;

enum { TP__OPENAI_BLOCKS_MAX = 4096 };

typedef struct tp__openai_answer {
  size_t bytes_max;
  /** Gets each piece of the text, and of thinking, as it comes; NULL: none is wanted. @return TP_OK, or why the answer
   *  ends here. */
  tp_status (*on_text)(void *ctx, tp_text piece, bool thinking);
  void *ctx;
  const tp__secrets *secrets; /* cut out of failures; may be NULL */
  uint64_t quirks;            /* TP_OPENAI_QUIRK_* */
  size_t bytes_left;          /* of bytes_max */
  bool has_marks;             /* in the event that is read: see tp__openai_join() */
  tp__bytes text;             /* as it came; with tags of thinking, where there are some */
  tp__openai_tail tail;       /* of text */
  tp__bytes said;             /* of text what is no thinking, where tags are read */
  tp__openai_think think;
  bool grows; /* pieces of a text have the pieces before them in them: see TP_OPENAI_QUIRK_CUMULATIVE */
  tp__openai_span *spans;
  size_t span_count, span_capacity;
  tp__bytes stop; /* as tp_model_response.stop_reason has it */
  tp__bytes word; /* as the endpoint said it */
  bool refuses;   /* there is text in which the model declines */
  tp__openai_calls calls;
  tp__openai_block *blocks;
  size_t block_count, block_capacity;
  tp__openai_usage usage;
  bool is_whole;  /* a snapshot of the whole message has come */
  bool is_unread; /* nothing of the event that is read was understood */
  bool is_silent; /* text that is taken now is no delta: the answer came as a whole */
  bool done;      /* nothing more will come */
  tp__openai_failure failure;
  /* of tp__openai_answer_response() */
  tp_tool_call *tool_calls;
  const tp_tool_call **list;
  tp_writer *arguments;
} tp__openai_answer;

/** @param answer  zero-filled but for bytes_max, on_text, ctx, secrets and quirks. */
void tp__openai_answer_init(tp__openai_answer *answer);
void tp__openai_answer_fini(tp__openai_answer *answer);

/** The next event is read. @param has_marks  its texts have marks; see tp__openai_repair(). */
void tp__openai_answer_event(tp__openai_answer *answer, bool has_marks);
/** Nothing more will come: characters that did not come whole become U+FFFD. */
void tp__openai_answer_end(tp__openai_answer *answer);
/** Whether text, a call or a block has come. */
bool tp__openai_answer_has_content(const tp__openai_answer *answer);

/** The text of the answer, without thinking. */
tp_text tp__openai_answer_said(const tp__openai_answer *answer);

/** A piece of text. With TP_OPENAI_QUIRK_CUMULATIVE, here and in tp__openai_answer_block_text():
 *
 *    the piece                                   what is taken
 *    begins with all of the text so far          what follows it
 *    is a beginning of the text so far, or all   nothing
 *    anything else                               all of it
 */
void tp__openai_answer_text(tp__openai_answer *answer, tp__openai_spot spot, tp_text piece);
/** Text that the start of a block has: the first pieces after it may repeat it. */
void tp__openai_answer_text_given(tp__openai_answer *answer, tp__openai_spot spot, tp_text text);
/** Takes the whole text of a spot: adds what has not come yet. For a new spot it adds nothing if another spot has the
 *  same text. */
void tp__openai_answer_text_whole(tp__openai_answer *answer, tp__openai_spot spot, tp_text text);
/** The same of a list of spots that may be numbered in another way than the pieces were: a text that has come is not
 *  taken again, wherever it stands. */
void tp__openai_answer_text_listed(tp__openai_answer *answer, tp__openai_spot spot, tp_text text);

/** Whether the text is what the spot has already, in several pieces or long: a last piece that repeats all of it. */
bool tp__openai_answer_repeats(const tp__openai_answer *answer, tp__openai_spot spot, tp_text text);

/** Words in which the model declines: text, and what the provider gave. The text itself is taken apart from this.
 *  @param is_whole  all of them: not taken when some have come. */
void tp__openai_answer_refusal(tp__openai_answer *answer, tp_text words, bool is_whole);

/** Why it ended, as tp_model_response.stop_reason has it, and in the endpoint's own word; both stay what they were when
 *  the word is empty.   @param reason  NULL: the word. */
void tp__openai_answer_stop(tp__openai_answer *answer, const char *reason, tp_text word);
/** How it ended, as far as it is known; UNKNOWN before an end has come. */
tp_finish tp__openai_answer_finish(const tp__openai_answer *answer);
/** Counts below 0 leave what is there. */
void tp__openai_answer_usage(tp__openai_answer *answer, const tp__openai_usage *usage);

/** What an event says of a call. */
void tp__openai_answer_call(tp__openai_answer *answer, const tp__openai_fragment *fragment);

/** The newest block of the index and kind, or a new one. NULL, and a failure, when there are too many or no memory.
 *  Valid until the next block. */
tp__openai_block *tp__openai_answer_block(tp__openai_answer *answer, int64_t index, const char *kind);
/** The newest block of the index and kind; NULL: there is none. */
tp__openai_block *tp__openai_answer_find_block(const tp__openai_answer *answer, int64_t index, const char *kind);
/** Appends to the text of a block; appends to its signature; sets its value, in place of one that it had.
 *  @param block  may be NULL. */
void tp__openai_answer_block_text(tp__openai_answer *answer, tp__openai_block *block, tp_text piece);
void tp__openai_answer_block_signature(tp__openai_answer *answer, tp__openai_block *block, tp_text piece);
void tp__openai_answer_block_value(tp__openai_answer *answer, tp__openai_block *block, tp_text value);

/** The response; borrowed till fini. Arguments that are no JSON object are raw text and marked so.
 *  @return TP_OK, or the failure's code, which is then set. */
tp_status tp__openai_answer_response(tp__openai_answer *answer, tp_model_response *ret_response);

#endif
