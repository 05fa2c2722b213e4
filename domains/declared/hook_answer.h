/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_answer: the meaning of the end of a program, of the reply of a worker, and of the answer of a model. */
#ifndef TP__DECLARED_HOOK_ANSWER_H
#define TP__DECLARED_HOOK_ANSWER_H

#include "domains/declared/hook_judge.h"

/** @param ret_judged  borrows from the result; to be freed by tp__judged_fini(). */
void tp__hook_judge(const tp__hook *hook, const tp__asked *asked, const tp_process_result *result,
                    tp__judged *ret_judged);
/** For the reply of a worker. @param reply  a map with `result`, or `error`.
 *  @param replaced  how many bytes of the reply were not UTF-8. */
void tp__hook_judge_reply(const tp__hook *hook, const tp__asked *asked, tp_text reply, size_t replaced,
                          tp__judged *ret_judged);
/** What became of a request to a model. */
typedef struct tp__replied {
  tp_status status;    /* as of tp_call_ask_model() */
  tp_text text;        /* with TP_OK */
  const char *message; /* else */
  bool is_retryable;
} tp__replied;

/** Of a model. */
void tp__hook_judge_prompt(const tp__hook *hook, const tp__asked *asked, const tp__replied *replied,
                           tp__judged *ret_judged);
void tp__judged_fini(tp__judged *judged);

#endif
