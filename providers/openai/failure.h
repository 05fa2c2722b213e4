/* SPDX-License-Identifier: Apache-2.0
 *
 * failure: the error of a request, and whether another try may help. One table has the statuses, one the codes, and one
 * the phrases with which endpoints say that the context is too long. An error within an answer that began with status
 * 200 is treated like an error with its own status, which follows from the error's code (a number or a word). */
#ifndef TP__OPENAI_FAILURE_H
#define TP__OPENAI_FAILURE_H

#include "support/bytes.h"
#include "support/fault.h"
#include "support/secrets.h"

typedef struct tp__openai_failure {
  tp_status code; /* TP_OK: none */
  bool retryable;
  char message[TP_FAULT_MESSAGE_SIZE];
} tp__openai_failure;

/** @return failure->code, so that a caller may return it. Only the first failure is kept. */
tp_status tp__openai_fail(tp__openai_failure *failure, tp_status code, bool retryable, const char *format, ...)
    TP__PRINTF(4, 5);

/** A failure that an endpoint reports.
 *  @param place   "HTTP 429 from example.com" or the like.
 *  @param status  0: the error came in the middle of a stream.
 *  @param body    the body: JSON in one of the known shapes, or anything else.
 *  @param secrets  removed from the message; NULL: none. */
void tp__openai_fail_said(tp__openai_failure *failure, const char *place, long status, tp_text body,
                          const tp__secrets *secrets);
/** The same for a body that is already a value. The error's words are found in all known shapes, including lists of
 *  details. */
void tp__openai_fail_value(tp__openai_failure *failure, const char *place, long status, tp_text value,
                           const tp__secrets *secrets);

/** Fails because of an answer that cannot be read. The message quotes its first 200 bytes, escaped; for an HTML page,
 *  the first 200 bytes of its visible words.
 *  @param what   "what the endpoint sent has no answer in it" or the like.
 *  @param bytes  the answer; may be empty. */
void tp__openai_fail_unread(tp__openai_failure *failure, const char *what, bool retryable, tp_text bytes,
                            const tp__secrets *secrets);

/** Whether a map declares itself an error, in addition to an answer or instead of one.
 *  @param ret_type  the text under its key "type"; empty: there is none. */
bool tp__openai_is_error(tp_text value, tp_text *ret_type);
/** Whether a map without any part of an answer has the words of an error. */
bool tp__openai_looks_like_error(tp_text value);
/** A value as a number; digits in a text count, too. -1: it is no number, or below 0. */
int64_t tp__openai_int(tp_text value);

#endif
