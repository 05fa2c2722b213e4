/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_judge.c: the meaning of the end of a program. The strictest of exit code, continue and signals wins. An end that
 * is no answer is a failure, whose text says why. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_judge.h"
#include "domains/declared/hook_protocol.h"
#include "domains/declared/webhook.h"

/* ---- reason and contributions ---- */

void tp__judge_set_reason(tp__judge *judge, tp_text text) {
  char *reason = judge->judged->reason;
  int size = tp__cut_word(text, TP__JUDGED_REASON_SIZE - 1);
  if (size > 0) memcpy(reason, text.data, (size_t)size);
  reason[size] = '\0';
  for (int i = 0; i < size; i++) {
    if (reason[i] == '\0') reason[i] = '?';
  }
  for (int i = (int)strlen(reason); i > 0 && strchr(" \t\r\n", reason[i - 1]); i--) reason[i - 1] = '\0';
}

void tp__judge_need_reason(tp__judge *judge) {
  if (!judge->judged->reason[0])
    snprintf(judge->judged->reason, TP__JUDGED_REASON_SIZE, "hook %s gave no reason", judge->hook->id);
}

void tp__judge_fail(tp__judge *judge, tp_reason why, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  tp__judge_set_reason(judge, tp_text_of(text));
  judge->judged->outcome.kind = TP_ANSWER_FAILED;
  judge->judged->outcome.why = (uint32_t)why;
  judge->judged->outcome.contribution_count = 0;
}

static tp_contribution *add_judged(tp__judge *judge, uint32_t kind) {
  tp__judged *judged = judge->judged;
  size_t count = judged->outcome.contribution_count;
  if (count == TP__JUDGED_MAX) return NULL; /* the rest is dropped */
  tp_contribution *contribution = &judged->contributions[count];
  *contribution = (tp_contribution){.struct_size = sizeof *contribution, .kind = kind};
  judged->list[count] = contribution;
  judged->outcome.contribution_count++;
  return contribution;
}

void tp__judge_diagnose(tp__judge *judge, const char *code, tp_severity severity, tp_text text) {
  tp_contribution *diagnostic = add_judged(judge, TP_CONTRIBUTION_DIAGNOSTIC);
  if (!diagnostic) return;
  diagnostic->key = tp_text_of(code);
  diagnostic->severity = severity;
  diagnostic->text = text;
}

void tp__judge_diagnose_made(tp__judge *judge, const char *code, tp_severity severity, const char *format, ...) {
  size_t at = judge->judged->outcome.contribution_count;
  if (at < TP__JUDGED_MAX) {
    va_list args;
    va_start(args, format);
    vsnprintf(judge->judged->texts[at], sizeof judge->judged->texts[at], format, args);
    va_end(args);
  }
  tp__judge_diagnose(judge, code, severity, tp_text_of(at < TP__JUDGED_MAX ? judge->judged->texts[at] : ""));
}

static void diagnose_dropped(tp__judge *judge, const char *what) {
  const char *why = judge->hook->is_blocking ? judge->hook->row->name : "a hook that does not block";
  tp__judge_diagnose_made(judge, "field_dropped", TP_SEVERITY_WARNING, "%s: %s does not take it", what, why);
}

void tp__judge_remind(tp__judge *judge, tp_text text, const char *what) {
  if (text.size == 0) return;
  if (!tp__judge_takes(judge, TP_CONTRIBUTION_REMINDER)) {
    diagnose_dropped(judge, what);
    return;
  }
  tp_contribution *reminder = add_judged(judge, TP_CONTRIBUTION_REMINDER);
  if (reminder) reminder->text = text;
}

void tp__judge_replace(tp__judge *judge, uint32_t field, uint32_t kind, tp_text text) {
  tp__judged *judged = judge->judged;
  assert(field != 0 && judged->replacement_count < TP__JUDGED_FIELDS_MAX);
  judged->replacements[judged->replacement_count++] = (tp_field){.id = field, .kind = kind, .text = text};
}

/* ---- the object ---- */

static tp_severity severity_of(tp_text name) {
  if (tp__is_word(name, "error")) return TP_SEVERITY_ERROR;
  return tp__is_word(name, "warning") ? TP_SEVERITY_WARNING : TP_SEVERITY_INFO;
}

static bool signal_is_at_home(const tp__judge *judge, tp_text kind) {
  switch (judge->hook->phase) {
    case TP_PHASE_TURN_INTAKE:
      return tp__is_word(kind, "routing_hint") || tp__is_word(kind, "normalized_intent");
    case TP_PHASE_TOOL_CREATE:
      return tp__is_word(kind, "ability_preflight");
    case TP_PHASE_TOOL_PRE:
      return tp__is_word(kind, "ability_guard");
    default:
      return false;
  }
}

static void read_signal(tp__judge *judge, tp_text signal) {
  tp_text kind = tp_value_text(tp_value_get(signal, "kind")), code = tp_value_text(tp_value_get(signal, "code"));
  tp_text payload = tp_value_get(signal, "payload");
  bool is_guard = tp__is_word(kind, "ability_guard");
  bool is_known = is_guard || tp__is_word(kind, "ability_preflight") || tp__is_word(kind, "routing_hint") ||
                  tp__is_word(kind, "normalized_intent");
  if (!is_known || code.size == 0) {
    tp__judge_fail(judge, TP_REASON_MALFORMED, "a signal of hook_signals has no known kind, or no code");
    return;
  }
  if (is_guard || tp__is_word(kind, "ability_preflight")) {
    tp_verdict verdict;
    tp_status status = tp_signal_verdict(kind, code, payload, &verdict);
    if (tp_value_bool(tp_value_get(signal, "require_human"), false)) {
      if (status != TP_OK) code = tp_text_of("REQUIRES_HUMAN");
      verdict = TP_VERDICT_ASK;
    } else if (status != TP_OK) {
      tp__judge_fail(judge, TP_REASON_MALFORMED, "a signal has the unknown code %.*s", tp__cut_word(code, 64),
                     code.data);
      return;
    }
    if (judge->hook->row->stop && judge->hook->is_blocking) judge->has_explicit_verdict = true;
    tp__judge_decide(judge, verdict);
    tp_text reason = tp_value_text(tp_value_get(payload, "reason"));
    if (verdict != TP_VERDICT_ALLOW && reason.size > 0 && !judge->judged->reason[0])
      tp__judge_set_reason(judge, reason);
  }
  if (!tp__judge_takes(judge, TP_CONTRIBUTION_SIGNAL) || !signal_is_at_home(judge, kind)) {
    diagnose_dropped(judge, "a signal");
    return;
  }
  tp_contribution *contribution = add_judged(judge, TP_CONTRIBUTION_SIGNAL);
  if (!contribution) return;
  contribution->domain = kind;
  contribution->key = code;
  contribution->value = payload;
  contribution->severity = severity_of(tp_value_text(tp_value_get(signal, "severity")));
}

/* Reads a field of the result. A field of another kind fails the attempt. @return whether the field has this kind. */
static bool field(tp__judge *judge, tp_text object, const char *key, tp_value_kind kind, tp_text *ret_value) {
  *ret_value = tp_value_get(object, key);
  if (tp__judge_has_failed(judge) || !tp__judge_is_said(*ret_value)) return false;
  if (tp_value_kind_of(*ret_value) == kind) return true;
  tp__judge_fail(judge, TP_REASON_MALFORMED, "%s of the result is of the wrong type", key);
  return false;
}

void tp__judge_read_error(tp__judge *judge, tp_text error) {
  tp_text message = tp_value_text(tp_value_kind_of(error) == TP_VALUE_MAP ? tp_value_get(error, "message") : error);
  tp__judge_fail(judge, TP_REASON_MALFORMED, "the program reports an error: %.*s", tp__cut_word(message, 512),
                 message.size > 0 ? message.data : "");
}

tp_text tp__judge_foreign_key(tp_text object, const char *known) {
  static const char deciding[] =
      "continue decision permissiondecision permission behavior hookspecificoutput hook_signals ok allow allowed deny "
      "denied block blocked approve approved";
  char lower[32];
  for (tp_value_walk walk = {0}; tp_value_next(object, &walk);) {
    if (walk.key.size >= sizeof lower || tp__is_one_of(walk.key, known)) continue;
    for (size_t i = 0; i < walk.key.size; i++) lower[i] = (char)tolower((unsigned char)walk.key.data[i]);
    if (tp__is_one_of((tp_text){lower, walk.key.size}, deciding)) return walk.key;
  }
  return (tp_text){NULL, 0};
}

/* A guard that uses another protocol did not allow the call; neither did a guard whose result is unknown. */
static void check_guard(tp__judge *judge, tp_text object, const char *known) {
  bool is_guard = judge->hook->row->stop && judge->hook->is_blocking && !judge->has_explicit_verdict;
  tp_text foreign = tp__judge_foreign_key(object, known), any = {NULL, 0};
  bool has_known = false;
  for (tp_value_walk walk = {0}; tp_value_next(object, &walk); any = walk.key)
    has_known = has_known || tp__is_one_of(walk.key, known);
  if (foreign.size == 0 && !has_known) foreign = any;
  if (is_guard && foreign.size > 0)
    tp__judge_fail(judge, TP_REASON_MALFORMED,
                   "the result has %.*s, which says nothing here: a guard says continue: false, or a signal",
                   tp__cut_word(foreign, 64), foreign.data);
}

static void read_fields_unknown(tp__judge *judge, tp_text object) {
  static const char known[] = "continue reason output additionalContext hook_signals logs error usage_recorded";
  check_guard(judge, object, known);
  for (tp_value_walk walk = {0}; tp_value_next(object, &walk);)
    if (!tp__is_one_of(walk.key, known))
      tp__judge_diagnose_made(judge, "field_unknown", TP_SEVERITY_INFO, "the result has the unknown field %.*s",
                              tp__cut_word(walk.key, 64), walk.key.data);
}

void tp__judge_read_object(tp__judge *judge, tp_text object) {
  tp_text value;
  if (tp__judge_is_said(tp_value_get(object, "error"))) {
    tp__judge_read_error(judge, tp_value_get(object, "error"));
    return;
  }
  if (field(judge, object, "reason", TP_VALUE_TEXT, &value)) tp__judge_set_reason(judge, tp_value_text(value));
  if (field(judge, object, "continue", TP_VALUE_BOOL, &value)) {
    judge->has_explicit_verdict = true;
    tp__judge_decide(judge, tp_value_bool(value, false) ? TP_VERDICT_ALLOW : TP_VERDICT_DENY);
  }
  if (field(judge, object, "hook_signals", TP_VALUE_ARRAY, &value)) {
    for (tp_value_walk walk = {0}; !tp__judge_has_failed(judge) && tp_value_next(value, &walk);)
      read_signal(judge, walk.value);
  }
  if (field(judge, object, "output", TP_VALUE_TEXT, &value)) tp__judge_remind(judge, tp_value_text(value), "output");
  if (field(judge, object, "additionalContext", TP_VALUE_TEXT, &value))
    tp__judge_remind(judge, tp_value_text(value), "additionalContext");
  if (field(judge, object, "logs", TP_VALUE_ARRAY, &value)) {
    for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
      tp__judge_diagnose(judge, "log", TP_SEVERITY_INFO, tp_value_text(walk.value));
  }
  if (!tp__judge_has_failed(judge)) read_fields_unknown(judge, object);
}

tp_text tp__judge_trimmed(tp_text text) {
  while (text.size > 0 && strchr(" \t\r\n", text.data[0])) {
    text.data++;
    text.size--;
  }
  while (text.size > 0 && strchr(" \t\r\n", text.data[text.size - 1])) text.size--;
  return text;
}

/* Finds members that decide, in quotes of any kind: "continue": false, {'decision': 'block'}. */
bool tp__judge_hides_answer(tp_text text) {
  static const char *const names[] = {"continue",          "decision",     "permissionDecision", "hookSpecificOutput",
                                      "hook_signals",      "updatedInput", "stopReason",         "llm_response",
                                      "additionalContext", "llm_request",  "toolConfig"};
  if (text.size == 0) return false; /* it may have no address to count from */
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    size_t size = strlen(names[i]);
    const char *end = text.data + text.size;
    for (const char *at = text.data; (at = memmem(at, (size_t)(end - at), names[i], size)); at++) {
      const char *after = at + size;
      bool is_quoted = at > text.data && strchr("\"'", at[-1]) && at[-1];
      while (after < end && strchr("\\\"' \t", *after) && *after) after++;
      if (is_quoted && after < end && *after == ':') return true;
    }
  }
  return false;
}

void tp__judge_fail_hidden(tp__judge *judge, tp_text text) {
  tp__judge_fail(judge, TP_REASON_MALFORMED,
                 "stdout has an answer, and is not exactly one JSON object: nothing else may be printed there: %.*s",
                 tp__cut_word(text, 200), text.data);
}

/* A program that blocks by its exit code blocks, whatever it printed. The output of any other program must be an
 * answer. */
void tp__judge_read_output(tp__judge *judge, tp_text output, bool blocks) {
  output = tp__judge_trimmed(output);
  if (output.size == 0) return;
  if (output.data[0] != '{') {
    bool is_guard = judge->hook->row->stop && judge->hook->is_blocking;
    if (blocks) return;
    if (is_guard && judge->hook->kind == TP__HOOK_WEBHOOK)
      tp__judge_fail(judge, TP_REASON_MALFORMED, "the endpoint answered with no JSON object: %.*s",
                     tp__cut_word(output, 200), output.data);
    else if (is_guard && tp__judge_hides_answer(output)) tp__judge_fail_hidden(judge, output);
    else tp__judge_remind(judge, output, "output");
    return;
  }
  tp_fault fault = {0};
  tp_text object = {0};
  tp_status status = tp_writer_new(NULL, &judge->judged->writer);
  if (status == TP_OK) status = tp_json_decode(output, judge->judged->writer, &fault);
  if (status == TP_OK) status = tp_writer_finish(judge->judged->writer, &object);
  if (status == TP_OK) {
    tp__judge_read_object(judge, object);
    if (!blocks || !tp__judge_has_failed(judge)) return;
    judge->judged->outcome.kind = 0;
    judge->judged->outcome.why = 0;
    judge->judged->reason[0] = '\0';
    return;
  }
  if (blocks) {
    tp__judge_diagnose(judge, "output_malformed", TP_SEVERITY_WARNING,
                       tp_text_of("stdout begins with { and is not one object"));
    return;
  }
  tp__judge_fail(judge, TP_REASON_MALFORMED, "stdout begins with { and is not exactly one JSON object: %s",
                 fault.message);
}

void tp__hook_errors_show(const tp__hook *hook, tp_text errors, char *ret_text, size_t size) {
  tp_text text = tp__judge_trimmed(errors);
  if (text.size == 0) ret_text[0] = '\0';
  else if (hook->keeps_errors) snprintf(ret_text, size, ": %.*s", tp__cut_word(text, size - 3), text.data);
  else
    snprintf(ret_text, size, "; its standard error is not kept: %skeep it with keep_stderr: true",
             hook->kind == TP__HOOK_WORKER ? "" : "see it with `turnphase hooks run`, or ");
}
