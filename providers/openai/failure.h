/* SPDX-License-Identifier: Apache-2.0
 *
 * failure: what went wrong with a request, and whether to try again is worth it. The statuses, the codes and the words
 * by which endpoints say that the context is too long stand in one table each. */
#ifndef TP__OPENAI_FAILURE_H
#define TP__OPENAI_FAILURE_H

#include "support/bytes.h"
#include "support/fault.h"

typedef struct tp__openai_failure {
  tp_status code; /* TP_OK: none */
  bool retryable;
  char message[TP_FAULT_MESSAGE_SIZE];
} tp__openai_failure;

/** @return failure->code, so that a caller may return it; the first failure stays. */
tp_status tp__openai_fail(tp__openai_failure *failure, tp_status code, bool retryable, const char *format, ...)
    TP__PRINTF(4, 5);

/** A failure that an endpoint reports.
 *  @param place   "HTTP 429 from example.com" or what stands for it.
 *  @param status  0: in the middle of a stream.
 *  @param body    what it sent: JSON of one of the known shapes, or anything.
 *  @param secret  cut out of what is shown; may be NULL. */
void tp__openai_fail_said(tp__openai_failure *failure, const char *place, long status, tp_text body,
                          const char *secret);
/** The same for a body that is a value already. */
void tp__openai_fail_value(tp__openai_failure *failure, const char *place, long status, tp_text value,
                           const char *secret);

/** Appends text with every occurrence of the secret as "[key]". */
void tp__openai_put_without(tp__bytes *bytes, tp_text text, const char *secret);

#endif
