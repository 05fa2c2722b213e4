/* SPDX-License-Identifier: Apache-2.0
 *
 * given: the data of a provider other than text and calls, as tp_model_response.provider_data. It is made from the
 * blocks of an answer, and the form that gave it sends it back (fit.h, the writing halves of the forms). A map:
 *
 *   "provider": str, "api": str     whose it is
 *   "thinking": str                 for people
 *   "refusal": str                  the words in which the model declined, which the text has, too
 *   "fields": {name: value}         chat: further fields of the message
 *   "items": [{"at": int, "item": map}]  messages and responses: blocks and items, each with its place: 0 is before the
 *                                   text, 1 + i before call i
 *   "paused": true                  messages: the endpoint goes on when it gets the message back as the last one
 *   "calls": [{"id": str, "extra": map}]  chat: further content of calls, one row for each call
 *
 * It owns nothing; no lock. */
#ifndef TP__OPENAI_GIVEN_H
#define TP__OPENAI_GIVEN_H

#include "providers/openai/config.h"

/** The kind of blocks of the Messages API whose content only the endpoint understands: its own tools, and their
 *  results. */
#define TP__OPENAI_OTHER_BLOCK "block of the endpoint"
/** The kinds of blocks that are text for people, for TP_EVENT_THINKING. */
bool tp__openai_is_thinking(tp_text kind);
/** Stores the data of a tool call of a chat completion other than the call itself. After tp__openai_answer_call(). */
void tp__openai_take_extra(tp__openai_answer *answer, tp_text call);
/** The same for the data of a message other than its text. */
void tp__openai_take_message_extra(tp__openai_answer *answer, tp_text message);
/** Stores the details of reasoning of a chat completion: a list of pieces, each of which belongs to one of several
 *  details. */
void tp__openai_take_details(tp__openai_answer *answer, tp_text details, bool is_whole);

/** Writes the data of a complete answer. @param ret_data borrowed from the writer; empty: there is none.
 *  @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__openai_given_write(const tp__openai_config *config, const tp__openai_answer *answer, tp_writer *writer,
                                 tp_text *ret_data);

#endif
