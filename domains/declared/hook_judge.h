/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_judge: makes an answer of a program's end. For the sources that read answers: hook_answer.c,
 * hook_protocol_judge.c, hook_model_judge.c. */
#ifndef TP__DECLARED_HOOK_JUDGE_H
#define TP__DECLARED_HOOK_JUDGE_H

#include "domains/declared/hook.h"

enum { TP__JUDGED_MAX = 64, TP__JUDGED_REASON_SIZE = 4096, TP__JUDGED_FIELDS_MAX = 5 };

/** The answer of an attempt while it is being made, with the memory of its texts. */
typedef struct tp__judged {
  tp_outcome outcome;
  char reason[TP__JUDGED_REASON_SIZE];
  tp_contribution contributions[TP__JUDGED_MAX];
  const tp_contribution *list[TP__JUDGED_MAX];
  char texts[TP__JUDGED_MAX][128]; /* of formatted diagnostics */
  tp_writer *writer;               /* holds the object that the program printed, and the replacement of a result */
  tp_writer *other;                /* holds the replacement of arguments, of a request or of an answer; or NULL */
  tp__bytes output, errors;        /* the output of the program with replacements, if it is not UTF-8 */
  tp_field replacements[TP__JUDGED_FIELDS_MAX];
  size_t replacement_count;
} tp__judged;

/** The part of an attempt's input on which its answer depends. */
typedef struct tp__asked {
  bool is_required;        /* by the failure policy in force; then a block in a phase without verdicts is a failure */
  tp_text tool, arguments; /* for a hook that rewrites; arguments are a map, or empty */
  tp_text model, messages, tools, parameters; /* of a request to a model, for hooks of another host */
  tp_text text;                               /* of its answer */
} tp__asked;

#define VERDICT_UNSAID ((tp_verdict)0)

typedef struct tp__judge {
  const tp__hook *hook;
  tp__judged *judged;
  const tp__asked *asked;
  tp_verdict verdict; /* the strictest so far; 0: none was said */
  bool has_explicit_verdict;
} tp__judge;

/** Whether a value is there, and not null. */
static inline bool tp__judge_is_said(tp_text value) {
  return value.size > 0 && tp_value_kind_of(value) != TP_VALUE_NULL;
}

/** Sets the verdict, unless a stricter one was set before. */
static inline void tp__judge_decide(tp__judge *judge, tp_verdict verdict) {
  if (verdict > judge->verdict) judge->verdict = verdict;
}
/** Whether the phase takes contributions of a kind. */
static inline bool tp__judge_takes(const tp__judge *judge, uint32_t kind) {
  return judge->hook->is_blocking && (judge->hook->row->kinds & 1u << kind) != 0;
}
/** Stores a reason, without the white space at its end. */
void tp__judge_set_reason(tp__judge *judge, tp_text text);
/** Sets "hook ID gave no reason" as the reason, if there is none. */
void tp__judge_need_reason(tp__judge *judge);
/** Fails the attempt: the text becomes the reason, and all contributions so far are dropped. */
void tp__judge_fail(tp__judge *judge, tp_reason why, const char *format, ...) TP__PRINTF(3, 4);
static inline bool tp__judge_has_failed(const tp__judge *judge) {
  return judge->judged->outcome.kind == TP_ANSWER_FAILED;
}
/** Contributes a diagnostic, unless TP__JUDGED_MAX is reached. text is borrowed until the answer was given. */
void tp__judge_diagnose(tp__judge *judge, const char *code, tp_severity severity, tp_text text);
/** The same with a formatted text, which the judge keeps, cut at 127 bytes. */
void tp__judge_diagnose_made(tp__judge *judge, const char *code, tp_severity severity, const char *format, ...)
    TP__PRINTF(4, 5);
/** Contributes a reminder, if the phase takes one; else a diagnostic says that `what` was dropped. */
void tp__judge_remind(tp__judge *judge, tp_text text, const char *what);
/** Replaces a field of the payload, unless the answer is a denial or a failure. text is borrowed until the answer was
 *  given. */
void tp__judge_replace(tp__judge *judge, uint32_t field, uint32_t kind, tp_text text);
/** @return the text without the white space around it. */
tp_text tp__judge_trimmed(tp_text text);

/** The end of a failure's message, about the standard error of the failed program: the text itself, if the hook's file
 *  has keep_stderr: true; otherwise where to find it. Empty when standard error is empty.
 *  @param errors  UTF-8. */
void tp__hook_errors_show(const tp__hook *hook, tp_text errors, char *ret_text, size_t size);

/** Whether a text that is no object contains parts of one: an answer after a banner, two objects, an object that is
 *  cut, or one in another notation, such as a dict that Python printed. If so, the program tried to answer. */
bool tp__judge_hides_answer(tp_text text);
/** The key of a member that decides in another protocol, or in another case of its letters, but not in this protocol;
 *  empty: there is none. Then the program tried to answer. @param known  the keys of this protocol, separated by
 *  spaces. */
tp_text tp__judge_foreign_key(tp_text object, const char *known);
/** Fails the attempt, because the text contains parts of an answer but is none: see tp__judge_hides_answer(). */
void tp__judge_fail_hidden(tp__judge *judge, tp_text text);

/** Takes the output of a program: an object that answers, or text. A program that blocks by its exit code blocks,
 *  whatever it printed. The output of any other program must be an answer. */
void tp__judge_read_output(tp__judge *judge, tp_text output, bool blocks);
/** The first takes the members of an object that answers; the second those of an error object. */
void tp__judge_read_object(tp__judge *judge, tp_text object);
void tp__judge_read_error(tp__judge *judge, tp_text error);

/** Applies the meaning of a program's end in the protocol of its hook.
 *  @return false, without any effect, for an end that means the same in all protocols (a deadline, a limit of output,
 *    …). */
bool tp__protocol_judge(tp__judge *judge, const tp_process_result *result);
/** Judges the answer of a model in the protocol of its hook. @param ok  false: a block, with the reason. */
void tp__protocol_judge_prompt(tp__judge *judge, bool ok, tp_text reason);

#endif
