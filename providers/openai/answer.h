/* SPDX-License-Identifier: Apache-2.0
 *
 * answer: a response that is being received: text, tool calls (calls.h), blocks of other kinds, usage, the reason of
 * the end. The forms write it (form.h), and the end of the request reads it. It belongs to one thread at a time.
 *
 * Texts, calls and blocks come as pieces, as snapshots, or both. A piece is new content; a snapshot has the whole
 * content. Content that has come is never taken back, and a snapshot adds only content that no piece had. */
#ifndef TP__OPENAI_ANSWER_H
#define TP__OPENAI_ANSWER_H

#include "providers/openai/calls.h"
#include "providers/openai/failure.h"
#include "providers/openai/think.h"
#include "turnphase/model.h"

/** Token counts as endpoints give them; below 0: not given. */
typedef struct tp__openai_usage {
  int64_t input, output; /* input includes tokens that were read from a cache or put into it */
  int64_t cache_read, cache_write;
} tp__openai_usage;

/** The place to which a piece of text belongs: the number of the item or block, and of the part in it; 0, 0 if the API
 *  has no numbers. */
typedef struct tp__openai_spot {
  int64_t item, part;
} tp__openai_spot;

/** The text of one spot, as the bytes from begin to end of the answer's text. */
typedef struct tp__openai_span {
  tp__openai_spot spot;
  size_t begin, end;
  uint64_t pieces;
  size_t given, repeated; /* bytes that came with the block's start, and how many of them later pieces have repeated */
  size_t newest;          /* where the newest piece begins */
  bool is_flat;           /* a piece did not begin with the whole piece before it */
} tp__openai_span;

/** A block of the answer that is neither text nor a call, such as thinking. It is stored as it came, for the provider
 *  that gave it, and is no part of the text. */
typedef struct tp__openai_block {
  int64_t index;   /* the endpoint's number of the block or item; below 0: none was given */
  tp__bytes kind;  /* the endpoint's name ("thinking", "redacted_thinking", "reasoning", "reasoning_content", …), or a
                    kind of the library (given.c) */
  tp__bytes value; /* the block or item as a value, from its start or end event; empty when it has none */
  tp__bytes text;  /* the text of all its pieces, joined */
  tp__bytes signature;
  tp__openai_tail tail; /* the end of text */
} tp__openai_block;

enum { TP__OPENAI_BLOCKS_MAX = 4096 };

typedef struct tp__openai_answer {
  size_t bytes_max;
  /** Called for each piece of the text, and of thinking, as it comes; NULL: not wanted. @return TP_OK, or the error
   *  with which the answer ends here. */
  tp_status (*on_text)(void *ctx, tp_text piece, bool thinking);
  void *ctx;
  const tp__secrets *secrets; /* cut out of failures; may be NULL */
  uint64_t quirks;            /* TP_OPENAI_QUIRK_* */
  size_t bytes_left;          /* of bytes_max */
  bool has_marks;             /* for the event that is being read: see tp__openai_join() */
  tp__bytes text;             /* as it came, with tags of thinking if there are any */
  tp__openai_tail tail;       /* of text */
  tp__bytes said;             /* the text without thinking, when tags are read */
  tp__openai_think think;
  bool grows; /* each piece of a text contains the pieces before it: see TP_OPENAI_QUIRK_CUMULATIVE */
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
  bool is_unread; /* nothing in the event that is being read was understood */
  bool is_silent; /* text that comes now is no delta, because the answer came as a whole */
  bool done;      /* nothing more will come */
  tp__openai_failure failure;
  /* of tp__openai_answer_response() */
  tp_tool_call *tool_calls;
  const tp_tool_call **list;
  tp_writer *arguments;
} tp__openai_answer;

/** @param answer  zero-filled except bytes_max, on_text, ctx, secrets and quirks. */
void tp__openai_answer_init(tp__openai_answer *answer);
void tp__openai_answer_fini(tp__openai_answer *answer);

/** The next event begins. @param has_marks  its texts have marks; see tp__openai_repair(). */
void tp__openai_answer_event(tp__openai_answer *answer, bool has_marks);
/** No more content will come: incomplete characters become U+FFFD. */
void tp__openai_answer_end(tp__openai_answer *answer);
/** Whether text, a call or a block has come. */
bool tp__openai_answer_has_content(const tp__openai_answer *answer);

/** The text of the answer, without thinking. */
tp_text tp__openai_answer_said(const tp__openai_answer *answer);

/** Adds a piece of text. With TP_OPENAI_QUIRK_CUMULATIVE, also in tp__openai_answer_block_text():
 *
 *    the piece                                   what is taken
 *    begins with all of the text so far          what follows it
 *    is a beginning of the text so far, or all   nothing
 *    anything else                               all of it */
void tp__openai_answer_text(tp__openai_answer *answer, tp__openai_spot spot, tp_text piece);
/** Adds text from the start of a block; the first pieces after it may repeat that text. */
void tp__openai_answer_text_given(tp__openai_answer *answer, tp__openai_spot spot, tp_text text);
/** Takes the whole text of a spot: adds the part that has not come yet. For a new spot it adds nothing if another spot
 *  has the same text. */
void tp__openai_answer_text_whole(tp__openai_answer *answer, tp__openai_spot spot, tp_text text);
/** The same for a list of spots whose numbers may differ from those of the pieces. A text that has come is not added
 *  again, whatever its spot. */
void tp__openai_answer_text_listed(tp__openai_answer *answer, tp__openai_spot spot, tp_text text);

/** Whether the spot already has this text, and got it in several pieces or as a long text: then it is a last piece that
 *  repeats everything. */
bool tp__openai_answer_repeats(const tp__openai_answer *answer, tp__openai_spot spot, tp_text text);

/** Takes the words with which the model declines, as data of the provider. Their text is added separately.
 *  @param is_whole  these are all the words; ignored if some have come before. */
void tp__openai_answer_refusal(tp__openai_answer *answer, tp_text words, bool is_whole);

/** Sets why the answer ended, as in tp_model_response.stop_reason, and in the endpoint's own word. Both keep their
 *  values when the word is empty. @param reason  NULL: the word is used. */
void tp__openai_answer_stop(tp__openai_answer *answer, const char *reason, tp_text word);
/** How the answer ended, as far as known; UNKNOWN before an end has come. */
tp_finish tp__openai_answer_finish(const tp__openai_answer *answer);
/** Counts below 0 leave what is there. */
void tp__openai_answer_usage(tp__openai_answer *answer, const tp__openai_usage *usage);

/** What an event says of a call. */
void tp__openai_answer_call(tp__openai_answer *answer, const tp__openai_fragment *fragment);

/** The newest block with this index and kind, or a new block. NULL, with a failure, when there are too many blocks or
 *  no memory. Valid until the next block. */
tp__openai_block *tp__openai_answer_block(tp__openai_answer *answer, int64_t index, const char *kind);
/** The newest block with this index and kind; NULL: there is none. */
tp__openai_block *tp__openai_answer_find_block(const tp__openai_answer *answer, int64_t index, const char *kind);
/** Three functions: append to the text of a block; append to its signature; set or replace its value.
 *  @param block  may be NULL. */
void tp__openai_answer_block_text(tp__openai_answer *answer, tp__openai_block *block, tp_text piece);
void tp__openai_answer_block_signature(tp__openai_answer *answer, tp__openai_block *block, tp_text piece);
void tp__openai_answer_block_value(tp__openai_answer *answer, tp__openai_block *block, tp_text value);

/** The response; borrowed until fini. Arguments that are no JSON object are given as raw text, and marked as such.
 *  @return TP_OK, or the failure's code, which is then set. */
tp_status tp__openai_answer_response(tp__openai_answer *answer, tp_model_response *ret_response);

#endif
