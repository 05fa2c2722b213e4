/* SPDX-License-Identifier: Apache-2.0
 *
 * made_request: a request to a model that handlers of model.request see and may change: written as payload fields, read
 * back, and made whole. It is a copy: the history never changes, nor what another request reads.
 *
 * What holds of a request that was read back:
 *   - a result stands right after the message of its call, in the order of the calls; a call without result and a
 *     result without call are left out, and so is a message with which nothing is left;
 *   - a message that is what it was keeps what its provider gave with it (provider_data); any other has none;
 *   - its tools are some of those that it had.
 *
 * The request is the turn owner's until a model call takes it; then the call frees it, on any thread. No lock. */
#ifndef TP__MADE_REQUEST_H
#define TP__MADE_REQUEST_H

#include "phases/model/past.h"
#include "turnphase/handler.h"

typedef struct tp__made_request {
  const tp_allocator *allocator;
  tp__arena arena;
  tp_model_request request;
  tp__past_view view;         /* what it reads of the past */
  tp_model_response response; /* in the model's place; struct_size 0: the model is asked */
  /* what was left out, and what of the replacement means nothing */
  uint32_t calls_left_out, results_left_out, messages_left_out;
  uint32_t ids_unknown, tools_unknown;
} tp__made_request;

/** @return NULL without memory. */
tp__made_request *tp__made_request_new(const tp_allocator *allocator);
/** Accepts NULL. Threads: any. */
void tp__made_request_free(tp__made_request *made);

/** The messages and the tools of the request as values, in its arena.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_TOO_LARGE: they have more than a value may have. */
tp_status tp__made_request_write_messages(tp__made_request *made, tp_text *ret_value);
tp_status tp__made_request_write_tools(tp__made_request *made, tp_text *ret_value);

/** Takes what tp__request_flaw() accepts. The value is copied.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_MALFORMED when no message is left. */
tp_status tp__made_request_take_messages(tp__made_request *made, tp_text value);
tp_status tp__made_request_take_tools(tp__made_request *made, tp_text value);
/** @param value  null: none. */
tp_status tp__made_request_take_response(tp__made_request *made, tp_text value);

/** request_shape.c: what a field of a request must be and is not, static text; NULL: nothing is wrong. */
const char *tp__request_flaw(const tp_field *field);
/** The kind of an answer's end by its name; TP_FINISH_UNKNOWN: there is none of that name. */
tp_finish tp__finish_of_name(tp_text name);

#endif
