/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_judge: an answer while it is made of a program's end. For hook_judge.c and hook_protocol_judge.c. */
#ifndef TP__DECLARED_HOOK_JUDGE_H
#define TP__DECLARED_HOOK_JUDGE_H

#include "domains/declared/hook.h"

#define VERDICT_UNSAID ((tp_verdict)0)

typedef struct tp__judge {
  const tp__hook *hook;
  tp__judged *judged;
  const tp__asked *asked;
  tp_verdict verdict; /* the strictest so far; 0: none was said */
  bool has_explicit_verdict;
} tp__judge;

/** Keeps a reason, without the white space at its end. */
void tp__judge_set_reason(tp__judge *judge, tp_text text);
/** Says that there is none, where none was given. */
void tp__judge_need_reason(tp__judge *judge);
/** The program gave no answer; what it contributed goes. */
void tp__judge_fail(tp__judge *judge, tp_reason why, const char *format, ...) TP__PRINTF(3, 4);
static inline bool tp__judge_has_failed(const tp__judge *judge) {
  return judge->judged->outcome.kind == TP_ANSWER_FAILED;
}
/** Contribute what the phase takes. text is borrowed till the answer was given. */
void tp__judge_diagnose(tp__judge *judge, const char *code, tp_severity severity, tp_text text);
/** The same of a text that is made, of at most 127 bytes. */
void tp__judge_diagnose_made(tp__judge *judge, const char *code, tp_severity severity, const char *format, ...)
    TP__PRINTF(4, 5);
void tp__judge_remind(tp__judge *judge, tp_text text, const char *what);
/** Replaces a field of the payload, unless the answer is a denial or a failure. text is borrowed till the answer was
 *  given. */
void tp__judge_replace(tp__judge *judge, uint32_t field, uint32_t kind, tp_text text);
/** Without the white space around it. */
tp_text tp__judge_trimmed(tp_text text);

/** Whether a text that is no object has parts of one: an answer after a banner, two objects, an object that is cut, or
 *  a structure of the program's language. The program meant to answer. */
bool tp__judge_hides_answer(tp_text text);
/** The key of a member that decides in another protocol, or in another case of its letters, and not in this one; empty:
 *  there is none. The program meant to answer.   @param known  what this protocol reads, with a space between two. */
tp_text tp__judge_foreign_key(tp_text object, const char *known);
/** The program gave no answer, since its text has parts of one. */
void tp__judge_fail_hidden(tp__judge *judge, tp_text text);

/** What the end of a program means in the protocol of its hook.
 *  @return false, and nothing is said, for an end that all protocols read alike (a deadline, a limit of output, …). */
bool tp__protocol_judge(tp__judge *judge, const tp_process_result *result);
/** What the answer of a model means there: no is a block, with its reason. */
void tp__protocol_judge_prompt(tp__judge *judge, bool ok, tp_text reason);

#endif
