/* SPDX-License-Identifier: Apache-2.0
 *
 * request: writes the body of a request as JSON: the fields of the form's table, and the fields that the host adds. */
#ifndef TP__OPENAI_REQUEST_H
#define TP__OPENAI_REQUEST_H

#include "providers/openai/fit.h"
#include "providers/openai/image.h"

/** Data about a written request that the answer and the turn need. Zero-filled before. */
typedef struct tp__openai_sent {
  tp__openai_names names; /* fini, or taken */
  char repairs[256];      /* tp__openai_fit_describe() */
} tp__openai_sent;

/** @param json  gets the body.
 *  @param ret_sent  may be NULL; untouched on failure.
 *  @return TP_OK, or the error in the fault, whose message names the part. */
tp_status tp__openai_request_write(const tp__openai_config *config, const tp_model_request *request, tp__bytes *json,
                                   tp__openai_sent *ret_sent, tp_fault *fault);
/** The name of the model to which the request goes; empty: none is named. */
tp_text tp__openai_request_model(const tp__openai_config *config, const tp_model_request *request);

#endif
