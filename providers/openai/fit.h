/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: adapts a conversation to an API. A history may have messages from several providers, and turns that ended early.
 * An API accepts only requests that follow its rules. This step makes a copy that the API accepts, by a table with a
 * row for each form (fit.c), and counts its repairs. The stored history is not changed.
 *
 * Properties of a fitted request, in every form:
 *   - no message is empty; the first message after the system's is the user's; the last message is the user's, a
 *     result, or the answer in which the endpoint paused;
 *   - each call has exactly one result, right after the message of its calls, in their order; each result has a call;
 *   - ids and names have the pattern and length that the form accepts; no id occurs twice;
 *   - the arguments of each call are an object;
 *   - two messages of the assistant never follow each other, except after a pause; if the form forbids it, no message
 *     of the user follows a result.
 * When an answer names a tool that was renamed, its own name is found again (tp__openai_names). The struct owns its
 * memory; no lock. */
#ifndef TP__OPENAI_FIT_H
#define TP__OPENAI_FIT_H

#include "providers/openai/config.h"

/** What was repaired. */
typedef enum tp__openai_fit_repair {
  TP__OPENAI_REPAIR_EMPTY, /* a message without content: left out, or filled with a line */
  /* messages of one role joined, or a line added between two messages that may not follow each other */
  TP__OPENAI_REPAIR_ROLE,
  TP__OPENAI_REPAIR_RESULT,    /* a call without its result: a result was added */
  TP__OPENAI_REPAIR_ORPHAN,    /* a result without its call: left out */
  TP__OPENAI_REPAIR_ORDER,     /* a result was moved to its call */
  TP__OPENAI_REPAIR_ID,        /* an id of a call */
  TP__OPENAI_REPAIR_NAME,      /* a name of a tool or call */
  TP__OPENAI_REPAIR_ARGUMENTS, /* arguments that are no object: wrapped in one */
  TP__OPENAI_REPAIR_THINKING,  /* required reasoning that is missing: filled, or thinking switched off */
  TP__OPENAI_REPAIRS
} tp__openai_fit_repair;

/** The tools that are sent under another name. Zero-filled: none. */
typedef struct tp__openai_names {
  struct tp__openai_name *rows; /* of the heap */
  size_t count, capacity;
} tp__openai_names;
void tp__openai_names_fini(tp__openai_names *names);
/** The tool's own name for a name in an answer; the name itself if it was not changed. Borrowed from names. */
tp_text tp__openai_names_find(const tp__openai_names *names, tp_text sent);
/** The same for each call of a response, which belongs to the caller. */
void tp__openai_names_restore(const tp__openai_names *names, const tp_model_response *response);

typedef struct tp__openai_fit {
  tp_model_request request; /* the copy; valid until fini */
  uint32_t repairs[TP__OPENAI_REPAIRS];
  bool thinks;            /* chat: the provider has given reasoning, and requires it in each of its messages */
  bool no_thinking;       /* messages: thinking cannot be requested in this request */
  tp__openai_names names; /* may be taken: then it is zeroed */
  struct tp__openai_fit_block *blocks; /* its memory */
} tp__openai_fit;

/** @param fit  zero-filled; call fini in either case. The request is read until then.
 *  @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__openai_fit_init(tp__openai_fit *fit, const tp__openai_config *config, const tp_model_request *request);
void tp__openai_fit_fini(tp__openai_fit *fit);
/** Describes the repairs: "2 ids, 1 empty message". @return the bytes; 0: there were none. */
size_t tp__openai_fit_describe(const tp__openai_fit *fit, char *buffer, size_t size);

/** The data that this model's provider gave with an assistant's message (tp_message.provider_data); an empty text if
 *  another provider or API gave it. */
tp_text tp__openai_own_data(const tp__openai_config *config, const tp_message *message);

#endif
