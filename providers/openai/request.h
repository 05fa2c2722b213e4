/* SPDX-License-Identifier: Apache-2.0
 *
 * request: the body of a request as JSON: the fields of the form's table, and what the host adds to them. */
#ifndef TP__OPENAI_REQUEST_H
#define TP__OPENAI_REQUEST_H

#include "providers/openai/fit.h"
#include "providers/openai/image.h"

/** What the answer and the turn need of a request that was written. Zero-filled before. */
typedef struct tp__openai_sent {
  tp__openai_names names; /* fini, or taken */
  char repairs[256];      /* tp__openai_fit_describe() */
} tp__openai_sent;

/** @param json  gets the body.
 *  @param ret_sent  may be NULL; untouched on failure.
 *  @return TP_OK, or why not, with a message that names the part: as the fault says. */
tp_status tp__openai_request_write(const tp__openai_config *config, const tp_model_request *request, tp__bytes *json,
                                   tp__openai_sent *ret_sent, tp_fault *fault);
/** The name of the model that the request goes to; empty: none is named. */
tp_text tp__openai_request_model(const tp__openai_config *config, const tp_model_request *request);

#endif
