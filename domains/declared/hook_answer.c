/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_answer.c: the outcome of an attempt. */
#include "domains/declared/hook_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_judge.h"
#include "domains/declared/prompt_answer.h"
#include "domains/declared/stack_trace.h"
#include "domains/declared/webhook.h"

/* ---- the outcome ---- */

/* Nothing is blocked, so the standard error of the program is no reason, only the text of a failure. */
static void forget_errors(tp__judge *judge, tp_text errors) {
  char shown[256];
  if (errors.size == 0 || judge->hook->keeps_errors) return;
  tp__hook_errors_show(judge->hook, errors, shown, sizeof shown);
  snprintf(judge->judged->reason, TP__JUDGED_REASON_SIZE, "exit code %u%s", judge->judged->outcome.code, shown);
}

/* @param errors  standard error, when it is the reason; else empty. */
static void block_without_verdicts(tp__judge *judge, tp_text errors) {
  tp__judged *judged = judge->judged;
  bool fails = judge->asked->is_required && judge->hook->is_blocking;
  if (fails || !tp__judge_takes(judge, TP_CONTRIBUTION_REMINDER)) forget_errors(judge, errors);
  judged->outcome.kind = TP_ANSWER_DONE;
  if (fails) {
    judged->outcome.kind = TP_ANSWER_FAILED;
    judged->outcome.contribution_count = 0;
  } else if (tp__judge_takes(judge, TP_CONTRIBUTION_REMINDER)) {
    tp__judge_remind(judge, tp_text_of(judged->reason), "a block");
  } else {
    tp__judge_diagnose(judge, "blocked", TP_SEVERITY_WARNING, tp_text_of(judged->reason));
  }
}

/* A stack trace is of no use to a model, so the model reads that the program failed. */
static void set_reason_of(tp__judge *judge, tp_text errors) {
  char reason[TP__JUDGED_REASON_SIZE];
  tp_text error = tp__stack_trace_error(errors);
  bool is_guard = judge->hook->row->stop && judge->hook->is_blocking;
  if (error.size == 0) {
    tp__judge_set_reason(judge, errors);
    return;
  }
  snprintf(reason, sizeof reason, "the %s failed: %.*s", is_guard ? "guard" : "hook", tp__cut_word(error, 512),
           error.data);
  tp__judge_set_reason(judge, tp_text_of(reason));
  tp__judge_diagnose(judge, "stack_trace", TP_SEVERITY_ERROR, errors);
}

static void judge_object(tp__judge *judge, tp_text errors) {
  tp__judged *judged = judge->judged;
  bool objects = judge->verdict == TP_VERDICT_DENY || judge->verdict == TP_VERDICT_ASK;
  if (judged->reason[0]) errors = (tp_text){NULL, 0};
  errors = tp__judge_trimmed(errors);
  if (objects && errors.size > 0) set_reason_of(judge, errors);
  if (objects) tp__judge_need_reason(judge);
  if (!judge->hook->row->stop || !judge->hook->is_blocking) {
    if (objects) block_without_verdicts(judge, errors);
    else judged->outcome.kind = TP_ANSWER_DONE;
    return;
  }
  judged->outcome.kind = judge->verdict == TP_VERDICT_DENY  ? TP_ANSWER_DENY
                         : judge->verdict == TP_VERDICT_ASK ? TP_ANSWER_ASK
                                                            : TP_ANSWER_ALLOW;
}

static void answer_explicitly(tp__judge *judge, bool blocks, tp_text errors) {
  bool is_webhook = judge->hook->kind == TP__HOOK_WEBHOOK;
  bool is_guard = judge->hook->row->stop && judge->hook->is_blocking;
  bool needs_one = judge->hook->wants_json || (is_guard && is_webhook); /* a gateway in between answers 200, too */
  if (!needs_one || judge->has_explicit_verdict || blocks) judge_object(judge, errors);
  else
    tp__judge_fail(judge, TP_REASON_MALFORMED, "%s, and %s said none (continue or a signal)",
                   is_webhook ? "the verdict of an endpoint is JSON" : "verdict: json",
                   is_webhook ? "this one" : "the program");
}

static void judge_exited(tp__judge *judge, const tp_process_result *result) {
  bool blocks = result->exit_code != 0;
  judge->judged->outcome.code = (uint32_t)result->exit_code;
  if (blocks) tp__judge_decide(judge, TP_VERDICT_DENY);
  tp__judge_read_output(judge, result->output, blocks);
  if (tp__judge_has_failed(judge)) return;
  answer_explicitly(judge, blocks, result->errors);
}

static void judge_end(tp__judge *judge, const tp_process_result *result) {
  static const struct {
    tp_process_end end;
    tp_reason why;
    const char *words;
  } ends[] = {
      {TP_PROCESS_OUTPUT_LIMIT, TP_REASON_MALFORMED, "the program wrote more than its limit"},
      {TP_PROCESS_TIMED_OUT, TP_REASON_TIMEOUT, "the program did not end within its limit"},
      {TP_PROCESS_CANCELLED, TP_REASON_ERROR, "the program was cancelled"},
      {TP_PROCESS_LOST, TP_REASON_CRASH,
       "the status of the program is not known: the host ignores SIGCHLD, or has waited for it"},
  };
  if (result->end == TP_PROCESS_EXITED) judge_exited(judge, result);
  if (result->end == TP_PROCESS_KILLED)
    tp__judge_fail(judge, TP_REASON_KILLED, "the program was killed by signal %d (%s)", result->signal,
                   strsignal(result->signal));
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (ends[i].end == result->end) tp__judge_fail(judge, ends[i].why, "%s", ends[i].words);
}

/* The helper says on standard error why there is no answer. */
static bool is_unanswered(tp__judge *judge, const tp_process_result *result) {
  bool is_other = judge->hook->kind != TP__HOOK_WEBHOOK || result->end != TP_PROCESS_EXITED || result->exit_code == 0;
  if (is_other) return false;
  tp_text why = tp__judge_trimmed(result->errors);
  tp_reason reason = result->exit_code == TP__WEBHOOK_UNREACHABLE ? TP_REASON_CANNOT_START : TP_REASON_ERROR;
  tp__judge_fail(judge, reason, "the endpoint gave no answer: %.*s", tp__cut_word(why, 512),
                 why.size > 0 ? why.data : "");
  return true;
}

/* ---- bytes ---- */

static void diagnose_bytes(tp__judge *judge, size_t replaced) {
  if (replaced > 0 && !tp__judge_has_failed(judge))
    tp__judge_diagnose_made(judge, "output_not_utf8", TP_SEVERITY_WARNING,
                            "%zu %s not UTF-8 in what the program printed: U+FFFD stands for each", replaced,
                            replaced == 1 ? "byte is" : "bytes are");
}

/* Programs may print any bytes, but the readers of an answer require UTF-8. @return the number of bytes that were
 * replaced. */
static size_t replace_bytes(tp_text *text, tp__bytes *memory) {
  if (tp_utf8_valid(*text, NULL)) return 0;
  size_t replaced = tp__bytes_put_utf8(memory, *text);
  *text = tp__bytes_text(memory);
  return replaced;
}

/* An error is shown in messages, which end at a NUL. */
static size_t replace_bytes_of_errors(tp_text *errors, tp__bytes *memory) {
  size_t replaced = tp_utf8_valid(*errors, NULL) ? 0 : tp__bytes_put_utf8(memory, *errors);
  if (replaced == 0 && (errors->size == 0 || !memchr(errors->data, '\0', errors->size))) return 0;
  if (memory->size == 0) tp__bytes_put_text(memory, *errors);
  *errors = tp__bytes_text(memory);
  for (size_t i = 0; i < memory->size; i++)
    if (memory->data[i] == '\0') memory->data[i] = '?';
  return replaced;
}

static void judged_init(tp__judged *judged) {
  judged->outcome = (tp_outcome){.struct_size = sizeof judged->outcome};
  judged->reason[0] = '\0';
  judged->writer = judged->other = NULL;
  judged->output = judged->errors = (tp__bytes){0};
  judged->replacement_count = 0;
}

/* The outcome points to what was gathered. */
static void judged_seal(tp__judged *judged) {
  bool has_answered = judged->outcome.kind != TP_ANSWER_FAILED && judged->outcome.kind != TP_ANSWER_DENY;
  if (has_answered && judged->replacement_count > 0) {
    judged->outcome.replacements = judged->replacements;
    judged->outcome.replacement_count = judged->replacement_count;
  }
  if (judged->outcome.contribution_count > 0) judged->outcome.contributions = judged->list;
  if (judged->reason[0]) judged->outcome.reason = judged->reason;
}

void tp__hook_judge(const tp__hook *hook, const tp__asked *asked, const tp_process_result *result,
                    tp__judged *ret_judged) {
  judged_init(ret_judged);
  tp__judge judge = {.hook = hook, .judged = ret_judged, .asked = asked};
  tp_process_result printed = *result;
  size_t replaced = replace_bytes(&printed.output, &ret_judged->output);
  replaced += replace_bytes_of_errors(&printed.errors, &ret_judged->errors);
  if (ret_judged->output.failed || ret_judged->errors.failed) {
    tp__judge_fail(&judge, TP_REASON_NO_MEMORY, "no memory for what the program printed");
  } else {
    bool is_judged = is_unanswered(&judge, &printed) || (hook->protocol && tp__protocol_judge(&judge, &printed));
    if (!is_judged) judge_end(&judge, &printed);
    diagnose_bytes(&judge, replaced);
  }
  judged_seal(ret_judged);
}

void tp__hook_judge_reply(const tp__hook *hook, const tp__asked *asked, tp_text reply, size_t replaced,
                          tp__judged *ret_judged) {
  tp_text result = tp_value_get(reply, "result");
  judged_init(ret_judged);
  tp__judge judge = {.hook = hook, .judged = ret_judged, .asked = asked};
  if (tp__judge_is_said(tp_value_get(reply, "error"))) tp__judge_read_error(&judge, tp_value_get(reply, "error"));
  else if (tp__judge_is_said(result) && tp_value_kind_of(result) != TP_VALUE_MAP)
    tp__judge_fail(&judge, TP_REASON_MALFORMED, "result of the reply is no object");
  else if (tp__judge_is_said(result)) tp__judge_read_object(&judge, result);
  if (!tp__judge_has_failed(&judge)) answer_explicitly(&judge, false, (tp_text){NULL, 0});
  diagnose_bytes(&judge, replaced);
  judged_seal(ret_judged);
}

static void fail_reply(tp__judge *judge, const tp__replied *replied) {
  bool is_none = replied->status == TP_ERR_USAGE, is_late = replied->status == TP_ERR_TIMEOUT;
  tp_reason why = is_none ? TP_REASON_CANNOT_START : is_late ? TP_REASON_TIMEOUT : TP_REASON_ERROR;
  tp__judge_fail(judge, why, "the model gave no answer: %s", replied->message);
  judge->judged->outcome.code = (uint32_t)replied->status;
  judge->judged->outcome.retryable = replied->is_retryable;
}

/* No is an answer without a reason, too. */
static void judge_reply(tp__judge *judge, tp_text text) {
  tp__prompt_answer found;
  const char *wrong = tp__prompt_find(text, &judge->judged->writer, &found);
  if (wrong) {
    tp__judge_fail(judge, TP_REASON_MALFORMED, "%s: %.*s", wrong, tp__cut_word(text, 200),
                   text.size > 0 ? text.data : "");
    return;
  }
  for (tp_value_walk walk = {0}; tp_value_next(found.object, &walk);)
    if (!tp__is_one_of(walk.key, "ok reason"))
      tp__judge_diagnose_made(judge, "field_unknown", TP_SEVERITY_INFO, "the answer has the unknown field %.*s",
                              tp__cut_word(walk.key, 64), walk.key.data);
  if (judge->hook->protocol) {
    tp__protocol_judge_prompt(judge, found.ok, found.reason);
    return;
  }
  tp__judge_decide(judge, found.ok ? TP_VERDICT_ALLOW : TP_VERDICT_DENY);
  if (!found.ok) tp__judge_set_reason(judge, found.reason);
  judge_object(judge, (tp_text){NULL, 0});
}

void tp__hook_judge_prompt(const tp__hook *hook, const tp__asked *asked, const tp__replied *replied,
                           tp__judged *ret_judged) {
  judged_init(ret_judged);
  tp__judge judge = {.hook = hook, .judged = ret_judged, .asked = asked};
  if (replied->status == TP_OK) judge_reply(&judge, replied->text);
  else fail_reply(&judge, replied);
  judged_seal(ret_judged);
}

void tp__judged_fini(tp__judged *judged) {
  tp_writer_free(judged->writer);
  tp_writer_free(judged->other);
  tp__bytes_fini(&judged->output);
  tp__bytes_fini(&judged->errors);
}
