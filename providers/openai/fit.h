/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: one step between a conversation and its request. A history has what happened, from several providers, with turns
 * that ended early; an API takes what its form demands. The step makes a copy that the API takes, by a table with a row
 * for each form (fit.c), and counts what it had to repair. Nothing that was stored is changed.
 *
 * What holds of a fitted request, in every form:
 *   - no message is empty; the first one that is not of the system is the user's, the last one the user's, a
 *     result, or the answer in which the endpoint paused;
 *   - each call has exactly one result, right after the message of its calls, in their order; each result has a call;
 *   - ids and names have the pattern and length that the form takes; no id stands twice;
 *   - arguments are an object;
 *   - two messages of the assistant do not follow one another, but after a pause, nor, where the form says so, a user's
 *     a result.
 * A tool that was renamed is found again by its name in the answer (tp__openai_names). It owns its memory; no lock. */
#ifndef TP__OPENAI_FIT_H
#define TP__OPENAI_FIT_H

#include "providers/openai/config.h"

/** What was repaired. */
typedef enum tp__openai_fit_repair {
  TP__OPENAI_REPAIR_EMPTY,     /* a message without content: left out, or given a line */
  TP__OPENAI_REPAIR_ROLE,      /* messages of one role joined, or a line between two that may not follow one another */
  TP__OPENAI_REPAIR_RESULT,    /* a call without its result: a result was added */
  TP__OPENAI_REPAIR_ORPHAN,    /* a result without its call: left out */
  TP__OPENAI_REPAIR_ORDER,     /* a result was moved to its call */
  TP__OPENAI_REPAIR_ID,        /* an id of a call */
  TP__OPENAI_REPAIR_NAME,      /* a name of a tool or call */
  TP__OPENAI_REPAIR_ARGUMENTS, /* arguments that are no object: put into one */
  TP__OPENAI_REPAIR_THINKING,  /* reasoning that is due and was not given: filled, or not asked for */
  TP__OPENAI_REPAIRS
} tp__openai_fit_repair;

/** The tools that are sent under another name. Zero-filled: none. */
typedef struct tp__openai_names {
  struct tp__openai_name *rows; /* of the heap */
  size_t count, capacity;
} tp__openai_names;
void tp__openai_names_fini(tp__openai_names *names);
/** The tool's own name for one that an answer has; the name itself where it was not changed. Borrowed from names. */
tp_text tp__openai_names_find(const tp__openai_names *names, tp_text sent);
/** The same for each call of a response, which is the caller's own. */
void tp__openai_names_restore(const tp__openai_names *names, const tp_model_response *response);

typedef struct tp__openai_fit {
  tp_model_request request; /* the copy; valid until fini */
  uint32_t repairs[TP__OPENAI_REPAIRS];
  bool thinks;                         /* chat: the provider has given reasoning that each of its messages needs */
  bool no_thinking;                    /* messages: thinking cannot be asked for in this request */
  tp__openai_names names;              /* may be taken: then it is zeroed */
  struct tp__openai_fit_block *blocks; /* its memory */
} tp__openai_fit;

/** @param fit  zero-filled; fini in either case. The request is read until then.
 *  @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__openai_fit_init(tp__openai_fit *fit, const tp__openai_config *config, const tp_model_request *request);
void tp__openai_fit_fini(tp__openai_fit *fit);
/** What was repaired in words: "2 ids, 1 empty message". @return the bytes; 0: nothing was. */
size_t tp__openai_fit_describe(const tp__openai_fit *fit, char *buffer, size_t size);

/** What the provider of this model gave with an assistant's message: tp_message.provider_data, or an empty text where
 *  it is of another provider or API. */
tp_text tp__openai_own_data(const tp__openai_config *config, const tp_message *message);

#endif
