/* SPDX-License-Identifier: Apache-2.0
 *
 * answer: a response while it comes: text, tool calls put together from fragments, usage, why it ended. The forms write
 * it (form.h), the request's end reads it. It belongs to one thread at a time. */
#ifndef TP__OPENAI_ANSWER_H
#define TP__OPENAI_ANSWER_H

#include "providers/openai/failure.h"
#include "turnphase/model.h"

enum { TP__OPENAI_CALLS_MAX = 1024 };

/** A tool call of which fragments have come. */
typedef struct tp__openai_draft {
  int64_t index; /* the endpoint's; -1: it gave none */
  tp__bytes id, name, arguments;
} tp__openai_draft;

/** Token counts as endpoints give them; below 0: not given. */
typedef struct tp__openai_usage {
  int64_t input, output; /* input includes what was read from a cache or put there */
  int64_t cache_read, cache_write;
} tp__openai_usage;

typedef struct tp__openai_answer {
  size_t bytes_max;
  /** Gets each piece of the text as it comes; NULL: none is wanted. @return TP_OK, or why the answer ends here. */
  tp_status (*on_text)(void *ctx, tp_text piece);
  void *ctx;
  const char *secret; /* cut out of failures; may be NULL */
  size_t bytes;       /* of text and calls */
  tp__bytes text;
  tp__bytes stop; /* as tp_model_response.stop_reason has it */
  tp__openai_draft *drafts;
  size_t draft_count, draft_capacity;
  tp__openai_usage usage;
  bool done; /* nothing more will come */
  tp__openai_failure failure;
  /* of tp__openai_answer_response() */
  tp_tool_call *calls;
  const tp_tool_call **list;
  tp_writer *arguments;
} tp__openai_answer;

/** @param answer  zero-filled but for bytes_max, on_text, ctx and secret. */
void tp__openai_answer_init(tp__openai_answer *answer);
void tp__openai_answer_fini(tp__openai_answer *answer);

void tp__openai_answer_text(tp__openai_answer *answer, tp_text piece);
/** The stop reason; stays what it was when reason is empty. */
void tp__openai_answer_stop(tp__openai_answer *answer, const char *reason);
void tp__openai_answer_stop_text(tp__openai_answer *answer, tp_text reason);
/** Counts below 0 leave what is there. */
void tp__openai_answer_usage(tp__openai_answer *answer, const tp__openai_usage *usage);

/** The draft of a call: by index; without one by id; without that the newest. A new one is begun where there is none,
 *  and for an id that differs where there is no index. NULL, and a failure, when there are too many or no memory. */
tp__openai_draft *tp__openai_answer_draft(tp__openai_answer *answer, int64_t index, tp_text id);
/** Fragments: id and name are set once, arguments appended. */
void tp__openai_answer_fragment(tp__openai_answer *answer, tp__openai_draft *draft, tp_text id, tp_text name,
                                tp_text arguments);
/** Sets the arguments as a whole, from text or from a value. */
void tp__openai_answer_arguments(tp__openai_answer *answer, tp__openai_draft *draft, tp_text text);
void tp__openai_answer_arguments_value(tp__openai_answer *answer, tp__openai_draft *draft, tp_text value);

/** The response; borrowed till fini. Arguments that are no JSON object are raw text and marked so.
 *  @return TP_OK, or the failure's code, which is then set. */
tp_status tp__openai_answer_response(tp__openai_answer *answer, tp_model_response *ret_response);

#endif
