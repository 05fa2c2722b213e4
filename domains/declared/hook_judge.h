/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_judge: an answer while it is made of a program's end. For the sources that read answers: hook_answer.c,
 * hook_protocol_judge.c, hook_model_judge.c. */
#ifndef TP__DECLARED_HOOK_JUDGE_H
#define TP__DECLARED_HOOK_JUDGE_H

#include "domains/declared/hook.h"

enum { TP__JUDGED_MAX = 64, TP__JUDGED_REASON_SIZE = 4096, TP__JUDGED_FIELDS_MAX = 5 };

/** The answer of an attempt while the judge makes it, with the memory of its texts. */
typedef struct tp__judged {
  tp_outcome outcome;
  char reason[TP__JUDGED_REASON_SIZE];
  tp_contribution contributions[TP__JUDGED_MAX];
  const tp_contribution *list[TP__JUDGED_MAX];
  char texts[TP__JUDGED_MAX][128]; /* of formatted diagnostics */
  tp_writer *writer;               /* has the object that the program printed, and what replaces a result */
  tp_writer *other;                /* has what replaces arguments, a request or an answer; or NULL */
  tp__bytes output, errors;        /* what the program printed, where it is not UTF-8 */
  tp_field replacements[TP__JUDGED_FIELDS_MAX];
  size_t replacement_count;
} tp__judged;

/** What an attempt was asked, as far as its answer depends on it. */
typedef struct tp__asked {
  bool is_required;        /* the failure policy in force: a block is then a failure in a phase without verdicts */
  tp_text tool, arguments; /* of a hook that rewrites; arguments are a map, or empty */
  tp_text model, messages, tools, parameters; /* of a request to a model, for the hooks of another host */
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
/** Keeps a reason, without the white space at its end. */
void tp__judge_set_reason(tp__judge *judge, tp_text text);
/** Sets "hook ID gave no reason" as the reason, if none was set. */
void tp__judge_need_reason(tp__judge *judge);
/** Makes the attempt fail: the text becomes the reason, and all contributions so far are dropped. */
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

/** What a failure says of the standard error of the program that failed, as the end of a sentence: the text, where the
 *  file of the hook has keep_stderr: true, and else where to find it. Empty without errors.
 *  @param errors  UTF-8. */
void tp__hook_errors_show(const tp__hook *hook, tp_text errors, char *ret_text, size_t size);

/** Whether a text that is no object has parts of one: an answer after a banner, two objects, an object that is cut, or
 *  a structure of the program's language. The program meant to answer. */
bool tp__judge_hides_answer(tp_text text);
/** The key of a member that decides in another protocol, or in another case of its letters, and not in this one; empty:
 *  there is none. The program meant to answer.   @param known  what this protocol reads, with a space between two. */
tp_text tp__judge_foreign_key(tp_text object, const char *known);
/** Makes the attempt fail, since the text has parts of an answer and is none: see tp__judge_hides_answer(). */
void tp__judge_fail_hidden(tp__judge *judge, tp_text text);

/** Takes what a program printed: an object that answers, or text. A program that blocks by its exit code blocks
 *  whatever it printed; all others answer for their output. */
void tp__judge_read_output(tp__judge *judge, tp_text output, bool blocks);
/** Takes the members of an object that answers; and of the object of an error. */
void tp__judge_read_object(tp__judge *judge, tp_text object);
void tp__judge_read_error(tp__judge *judge, tp_text error);

/** What the end of a program means in the protocol of its hook.
 *  @return false, and nothing is said, for an end that all protocols read alike (a deadline, a limit of output, …). */
bool tp__protocol_judge(tp__judge *judge, const tp_process_result *result);
/** Judges the answer of a model in the protocol of its hook. @param ok  false: a block, with the reason. */
void tp__protocol_judge_prompt(tp__judge *judge, bool ok, tp_text reason);

#endif
