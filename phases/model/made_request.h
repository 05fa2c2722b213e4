/* SPDX-License-Identifier: Apache-2.0
 *
 * made_request: a request to a model that handlers of model.request can read and change. It is written as payload
 * fields, read back, and completed. It is a copy: neither the history nor the data of other requests change.
 *
 * Properties of a request that was read back:
 * - A result comes directly after the message of its call, in the order of the calls. A call without result and a
 *   result without call are left out, and so is a message that becomes empty by this.
 * - A message that is unchanged keeps the data that its provider gave with it (provider_data); a changed message has
 *   none.
 * - Its tools are a part of the tools that it had.
 *
 * The owner of the turn has the request until a model call takes it. Then the call frees it, on any thread. No lock. */
#ifndef TP__MADE_REQUEST_H
#define TP__MADE_REQUEST_H

#include "phases/model/past.h"
#include "turnphase/handler.h"

typedef struct tp__made_request {
  const tp_allocator *allocator;
  tp__arena arena;
  tp_model_request request;
  tp__past_view view;         /* the part of the past that the request reads */
  tp_model_response response; /* a response that replaces the model's; struct_size 0: the model is asked */
  /* How much was left out, and which parts of the replacement have no meaning */
  uint32_t calls_left_out, results_left_out, messages_left_out;
  uint32_t ids_unknown, tools_unknown;
} tp__made_request;

/** @return NULL without memory. */
tp__made_request *tp__made_request_new(const tp_allocator *allocator);
/** Accepts NULL. Threads: any. */
void tp__made_request_free(tp__made_request *made);

/** Writes the messages and the tools of the request as values, in its arena.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_TOO_LARGE: they exceed the bounds of a value. */
tp_status tp__made_request_write_messages(tp__made_request *made, tp_text *ret_value);
tp_status tp__made_request_write_tools(tp__made_request *made, tp_text *ret_value);

/** Takes a value that tp__request_flaw() has accepted. The value is copied.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_MALFORMED when no message is left. */
tp_status tp__made_request_take_messages(tp__made_request *made, tp_text value);
tp_status tp__made_request_take_tools(tp__made_request *made, tp_text value);
/** @param value  null: none. */
tp_status tp__made_request_take_response(tp__made_request *made, tp_text value);

/** request_shape.c: the error in a field of a request, as static text; NULL: there is none. */
const char *tp__request_flaw(const tp_field *field);
/** The kind of end of an answer, by its name; TP_FINISH_UNKNOWN: no kind has this name. */
tp_finish tp__finish_of_name(tp_text name);

#endif
