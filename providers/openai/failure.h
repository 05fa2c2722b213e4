/* SPDX-License-Identifier: Apache-2.0
 *
 * failure: what went wrong with a request, and whether to try again is worth it. The statuses, the codes and the words
 * by which endpoints say that the context is too long stand in one table each. An error within an answer that began
 * with status 200 is judged as the same error with a status of its own: its code, a number or a word, says which. */
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

/** @return failure->code, so that a caller may return it; the first failure stays. */
tp_status tp__openai_fail(tp__openai_failure *failure, tp_status code, bool retryable, const char *format, ...)
    TP__PRINTF(4, 5);

/** A failure that an endpoint reports.
 *  @param place   "HTTP 429 from example.com" or what stands for it.
 *  @param status  0: in the middle of a stream.
 *  @param body    what it sent: JSON of one of the known shapes, or anything.
 *  @param secrets  cut out of what is shown; NULL: none. */
void tp__openai_fail_said(tp__openai_failure *failure, const char *place, long status, tp_text body,
                          const tp__secrets *secrets);
/** The same for a body that is a value already: its words wherever the shapes of the servers have them, lists of
 *  details included. */
void tp__openai_fail_value(tp__openai_failure *failure, const char *place, long status, tp_text value,
                           const tp__secrets *secrets);

/** Fails with an answer that cannot be read. The message has its first 200 bytes, escaped; for an HTML page, those of
 *  its visible words.
 *  @param what   "what the endpoint sent has no answer in it" or the like.
 *  @param bytes  what came; may be empty. */
void tp__openai_fail_unread(tp__openai_failure *failure, const char *what, bool retryable, tp_text bytes,
                            const tp__secrets *secrets);

/** Whether a map says of itself that it is an error: beside an answer, or in place of one.
 *  @param ret_type  the text under its key "type"; empty: there is none. */
bool tp__openai_is_error(tp_text value, tp_text *ret_type);
/** Whether a map in which there is nothing of an answer has the words of an error. */
bool tp__openai_looks_like_error(tp_text value);
/** The number that a value has or, as digits, is written as; -1: it has none, or one below 0. */
int64_t tp__openai_int(tp_text value);

#endif
