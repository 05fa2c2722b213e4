/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_protocol_judge.c: exit codes and results of other hosts' hooks. Exit code 2 blocks, whatever the output. Any
 * other code except 0 is no answer, unless an object was printed: then only the object decides. If a result asks for
 * something that turnphase's phases do not have, that is a diagnostic. If ignoring it would let through what the hook
 * wanted to change, it is a denial. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_model.h"
#include "domains/declared/stack_trace.h"

enum { TEXT_BYTES_MAX = 10000, BLOCKS = 2 };

/** The fields of a result that have a meaning here. */
struct said {
  tp_text object, specific; /* the whole, and hookSpecificOutput */
  tp_text decision, reason, permission, permission_reason, context, stop_reason, message;
  tp_text request;           /* what PermissionRequest decides, an object */
  tp_text input, output;     /* new arguments for the call; a new result of it */
  tp__hook_model_said model; /* another request, another answer */
  bool stops;                /* continue: false */
};

static bool is_there(tp_text value) { return value.size > 0 && tp_value_kind_of(value) != TP_VALUE_NULL; }

/* ---- reading the object ---- */

/* @return false for a field of another kind. */
static bool read_protocol_text(tp_text map, const char *key, tp_text *ret_text, const char **ret_wrong) {
  tp_text value = tp_value_get(map, key);
  if (!is_there(value)) return true;
  *ret_text = tp_value_text(value);
  if (tp_value_kind_of(value) == TP_VALUE_TEXT) return true;
  *ret_wrong = key;
  return false;
}

/* A missing word counts as a known one. */
static bool is_word(tp_text word, const char *known) { return word.size == 0 || tp__is_one_of(word, known); }

static bool check_words(const tp__hook *hook, const struct said *said, const char **ret_wrong) {
  bool is_gemini = hook->protocol == TP__PROTOCOL_GEMINI;
  if (!is_word(said->decision, is_gemini ? "allow approve deny block ask" : "approve block")) *ret_wrong = "decision";
  else if (!is_word(said->permission, "allow deny ask defer")) *ret_wrong = "permissionDecision";
  else return true;
  return false;
}

static bool read_rewrites(const tp__hook *hook, struct said *said, const char **ret_wrong) {
  bool is_gemini = hook->protocol == TP__PROTOCOL_GEMINI;
  const char *input = is_gemini ? "tool_input" : "updatedInput";
  tp_text value = tp_value_get(said->specific, input);
  *ret_wrong = input;
  if (is_there(value) && tp_value_kind_of(value) != TP_VALUE_MAP) return false;
  if (is_there(value)) said->input = value;
  if (hook->phase != TP_PHASE_TOOL_RESULT) return true;
  value = tp_value_get(said->specific, is_gemini ? "tool_output" : "updatedToolOutput");
  if (!is_there(value) && !is_gemini) value = tp_value_get(said->specific, "updatedMCPToolOutput");
  if (is_there(value)) said->output = value;
  return true;
}

/* {behavior: allow | deny, message, updatedInput}. */
static bool read_request(struct said *said, const char **ret_wrong) {
  tp_text request = tp_value_get(said->specific, "decision");
  if (!is_there(request)) return true;
  *ret_wrong = "decision";
  if (tp_value_kind_of(request) != TP_VALUE_MAP) return false;
  said->request = request;
  if (!read_protocol_text(request, "behavior", &said->permission, ret_wrong) ||
      !read_protocol_text(request, "message", &said->permission_reason, ret_wrong))
    return false;
  *ret_wrong = "behavior";
  if (said->permission.size == 0 || !is_word(said->permission, "allow deny")) return false;
  tp_text input = tp_value_get(request, "updatedInput");
  *ret_wrong = "updatedInput";
  if (is_there(input) && tp_value_kind_of(input) != TP_VALUE_MAP) return false;
  if (is_there(input)) said->input = input;
  return true;
}

/* In one host, results name their event; a result that names another event is refused as a whole. */
static bool read_specific(const tp__hook *hook, struct said *said, const char **ret_wrong) {
  tp_text specific = tp_value_get(said->object, "hookSpecificOutput"), event = {0};
  if (!is_there(specific)) return true;
  *ret_wrong = "hookSpecificOutput";
  if (tp_value_kind_of(specific) != TP_VALUE_MAP) return false;
  said->specific = specific;
  if (!read_protocol_text(specific, "hookEventName", &event, ret_wrong)) return false;
  bool optional = hook->protocol == TP__PROTOCOL_GEMINI && event.size == 0;
  *ret_wrong = "hookEventName";
  if (!optional && !tp__is_word(event, hook->event)) return false;
  if (tp__hook_model_is_event(hook->protocol_event->id) &&
      !tp__hook_model_read(hook, specific, &said->model, ret_wrong))
    return false;
  if (hook->protocol_event->id == TP__EVENT_PERMISSION_REQUEST) return read_request(said, ret_wrong);
  if (!read_rewrites(hook, said, ret_wrong)) return false;
  return read_protocol_text(specific, "permissionDecision", &said->permission, ret_wrong) &&
         read_protocol_text(specific, "permissionDecisionReason", &said->permission_reason, ret_wrong) &&
         read_protocol_text(specific, "additionalContext", &said->context, ret_wrong);
}

static bool read_said(const tp__hook *hook, tp_text object, struct said *said, const char **ret_wrong) {
  *said = (struct said){.object = object};
  tp_text goes_on = tp_value_get(object, "continue");
  *ret_wrong = "continue";
  if (is_there(goes_on) && tp_value_kind_of(goes_on) != TP_VALUE_BOOL) return false;
  said->stops = is_there(goes_on) && !tp_value_bool(goes_on, true);
  return read_protocol_text(object, "decision", &said->decision, ret_wrong) &&
         read_protocol_text(object, "reason", &said->reason, ret_wrong) &&
         read_protocol_text(object, "stopReason", &said->stop_reason, ret_wrong) &&
         read_protocol_text(object, "systemMessage", &said->message, ret_wrong) &&
         read_specific(hook, said, ret_wrong) && check_words(hook, said, ret_wrong);
}

/* ---- what it means ---- */

static tp_text cut(tp__judge *judge, tp_text text) {
  if (text.size <= TEXT_BYTES_MAX) return text;
  tp__judge_diagnose(judge, "text_cut", TP_SEVERITY_WARNING, tp_text_of("a text of the hook is cut at 10,000 bytes"));
  return (tp_text){text.data, (size_t)tp__cut(text, TEXT_BYTES_MAX)};
}

static void warn_of_answer(tp__judge *judge, const char *code, const char *text) {
  tp__judge_diagnose(judge, code, TP_SEVERITY_WARNING, tp_text_of(text));
}

/* The text goes to the model if the phase allows that, else to the log. */
static void remind_model(tp__judge *judge, tp_text text, const char *what) {
  if (text.size > 0) tp__judge_remind(judge, cut(judge, text), what);
}

static void log_text(tp__judge *judge, const char *code, tp_text text) {
  if (text.size > 0) tp__judge_diagnose(judge, code, TP_SEVERITY_INFO, cut(judge, text));
}

static void object_to(tp__judge *judge, tp_verdict verdict, tp_text reason) {
  if (verdict <= judge->verdict) return;
  judge->verdict = verdict;
  judge->judged->reason[0] = '\0';
  tp__judge_set_reason(judge, reason);
}

static void object_with(tp__judge *judge, tp_verdict verdict, const char *reason) {
  object_to(judge, verdict, tp_text_of(reason));
}

static bool is_before_call(const tp__judge *judge) { return judge->hook->protocol_event->id == TP__EVENT_PRE_TOOL; }

static bool answers_question(const tp__judge *judge) {
  return judge->hook->protocol_event->id == TP__EVENT_PERMISSION_REQUEST;
}

static bool is_of_model(const tp__judge *judge) { return tp__hook_model_is_event(judge->hook->protocol_event->id); }

/* Whether the hook can decide. The start of a subagent is only reported, and a filter of tools only filters, so these
 * hooks cannot deny. */
static bool has_verdict(const tp__judge *judge) {
  const tp__hook *hook = judge->hook;
  return hook->row->stop && hook->is_blocking && hook->protocol_event->id != TP__EVENT_SUBAGENT_START &&
         hook->protocol_event->id != TP__EVENT_TOOL_SELECTION;
}

/* For Gemini: a block after a call replaces the result by the reason. */
static bool hides_result(const tp__judge *judge) {
  return judge->hook->protocol == TP__PROTOCOL_GEMINI && judge->hook->phase == TP_PHASE_TOOL_RESULT;
}

static void hide_result(tp__judge *judge, tp_text reason) {
  tp__judge_set_reason(judge, cut(judge, reason));
  tp__judge_need_reason(judge);
  if (judge->judged->replacement_count > 0) return; /* exit code and decision */
  tp__judge_replace(judge, TP_FIELD_RESULT, TP_FIELD_KIND_TEXT, tp_text_of(judge->judged->reason));
}

/* A block, by exit code or by decision. */
static void block(tp__judge *judge, tp_text reason) {
  if (answers_question(judge)) { /* as in that host: only an object answers; otherwise the person is asked */
    warn_of_answer(judge, "block_dropped",
                   "a block answers no question: hookSpecificOutput.decision of a program does");
    log_text(judge, "blocked", reason);
    return;
  }
  if (has_verdict(judge)) {
    object_to(judge, TP_VERDICT_DENY, reason);
    return;
  }
  switch (judge->hook->protocol_event->id) {
    case TP__EVENT_PRE_TOOL:
    case TP__EVENT_PROMPT:
    case TP__EVENT_STOP:
    case TP__EVENT_SUBAGENT_STOP:
    case TP__EVENT_PRE_COMPACT:
    case TP__EVENT_TOOL_BATCH:
    case TP__EVENT_BEFORE_MODEL:
    case TP__EVENT_AFTER_MODEL:
      warn_of_answer(judge, "block_dropped", "the hook blocks, and no phase waits for it (blocking: false)");
      break;
    case TP__EVENT_TOOL_SELECTION:
      warn_of_answer(judge, "block_dropped",
                     "a block of BeforeToolSelection has no effect: it only says which tools are shown");
      break;
    case TP__EVENT_POST_TOOL:
    case TP__EVENT_POST_TOOL_FAILURE:
      if (hides_result(judge)) hide_result(judge, reason);
      else remind_model(judge, reason, "a block");
      return;
    default:
      break;
  }
  log_text(judge, "blocked", reason);
}

static void apply_decision(tp__judge *judge, const struct said *said) {
  if (answers_question(judge)) {
    if (said->decision.size > 0) block(judge, said->reason);
    return;
  }
  if (tp__is_word(said->decision, "block") || tp__is_word(said->decision, "deny")) block(judge, said->reason);
  else if (!has_verdict(judge)) return;
  else if (tp__is_word(said->decision, "ask") && !judge->hook->row->ask)
    tp__judge_fail(judge, TP_REASON_MALFORMED, "decision: ask has no place in %s", judge->hook->event);
  else if (tp__is_word(said->decision, "ask")) object_to(judge, TP_VERDICT_ASK, said->reason);
  else if (said->decision.size > 0) object_to(judge, TP_VERDICT_ALLOW, (tp_text){0});
}

static void apply_stop(tp__judge *judge, const struct said *said) {
  if (!said->stops) return;
  if (judge->hook->protocol_event->id == TP__EVENT_PRE_COMPACT) {
    warn_of_answer(judge, "continue_false", "continue: false has no effect on a compaction");
    return;
  }
  if (is_before_call(judge))
    warn_of_answer(judge, "continue_false", "continue: false stops this call; the turn goes on");
  else if (!has_verdict(judge)) warn_of_answer(judge, "continue_false", "continue: false has no effect in this phase");
  if (!has_verdict(judge)) log_text(judge, "stop_reason", said->stop_reason);
  else if (said->stop_reason.size > 0) object_to(judge, TP_VERDICT_DENY, said->stop_reason);
  else object_with(judge, TP_VERDICT_DENY, "the hook said continue: false");
}

/* ---- what it rewrites ---- */

static void fail_rewrite_memory(tp__judge *judge) {
  tp__judge_fail(judge, TP_REASON_ERROR, "no memory for what the hook rewrites");
}

static void replace_arguments(tp__judge *judge, tp_text input) {
  tp__judged *judged = judge->judged;
  tp_text value;
  if (tp_writer_new(NULL, &judged->other) != TP_OK) {
    fail_rewrite_memory(judge);
    return;
  }
  const tp__asked *asked = judge->asked;
  tp__protocol_write_arguments(judge->hook, asked->tool, asked->arguments, input, judged->other);
  if (tp_writer_finish(judged->other, &value) == TP_OK)
    tp__judge_replace(judge, TP_FIELD_ARGUMENTS, TP_FIELD_KIND_VALUE, value);
  else tp__judge_fail(judge, TP_REASON_MALFORMED, "the rewritten arguments name one argument twice");
}

/* The text in the forms that results of that host's tools have. */
static tp_text text_in(tp_text output) {
  static const char *const keys[] = {"stdout", "llmContent"};
  if (tp_value_kind_of(output) == TP_VALUE_TEXT) return tp_value_text(output);
  for (size_t i = 0; tp_value_kind_of(output) == TP_VALUE_MAP && i < sizeof keys / sizeof keys[0]; i++) {
    tp_text text = tp_value_get(output, keys[i]);
    if (text.size > 0 && tp_value_kind_of(text) == TP_VALUE_TEXT) return tp_value_text(text);
  }
  return (tp_text){NULL, 0};
}

static void replace_result(tp__judge *judge, tp_text output) {
  tp__judged *judged = judge->judged;
  tp_text text = text_in(output);
  tp_writer **writer = &judged->writer;
  bool is_written = text.data || ((*writer || tp_writer_new(NULL, writer) == TP_OK) &&
                                  tp_json_encode(output, *writer, &text, NULL) == TP_OK);
  if (!is_written) {
    fail_rewrite_memory(judge);
    return;
  }
  tp__judge_replace(judge, TP_FIELD_RESULT, TP_FIELD_KIND_TEXT, text);
}

/* A call whose arguments the hook wanted to change must not run with the old ones. */
static void apply_rewrite(tp__judge *judge, const struct said *said) {
  if (is_of_model(judge)) {
    /* In a phase without verdicts, the thing that the hook wanted to change goes on unchanged. */
    const char *what = tp__hook_model_apply(judge, &said->model);
    if (what && has_verdict(judge)) object_with(judge, TP_VERDICT_DENY, what);
    else if (what)
      warn_of_answer(judge, "field_dropped", "what the hook puts in its place is not taken: nothing waits for it");
  }
  bool decides = is_before_call(judge) || answers_question(judge);
  bool rewrites_input = judge->hook->rewrites && decides;
  if (said->output.size > 0 && judge->judged->replacement_count == 0) replace_result(judge, said->output);
  if (said->input.size == 0) return;
  if (rewrites_input) replace_arguments(judge, said->input);
  else if (decides && has_verdict(judge))
    object_with(judge, TP_VERDICT_DENY,
                "the hook rewrites the arguments of the call, which needs rewrite: true and the operator's grant");
  else warn_of_answer(judge, "field_dropped", "rewritten arguments have no place here");
}

static void note_unknown(tp__judge *judge, tp_text map, const char *known, const char *code, tp_severity severity,
                         const char *words) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);)
    if (!tp__is_one_of(walk.key, known) && is_there(walk.value))
      tp__judge_diagnose_made(judge, code, severity, "%.*s %s", tp__cut_word(walk.key, 64), walk.key.data, words);
}

static const char top[] = "continue decision reason stopReason systemMessage suppressOutput hookSpecificOutput";

/* A guard that uses another protocol, or puts its changes into members that its host does not read, has not answered
 * "nothing to object". */
static void check_guard(tp__judge *judge, const struct said *said) {
  tp_text foreign = tp__judge_foreign_key(said->object, top);
  for (tp_value_walk walk = {0}; is_of_model(judge) && tp_value_next(said->object, &walk);)
    if (tp__is_one_of(walk.key, "llm_request llm_response toolConfig")) foreign = walk.key;
  bool is_guard = (is_before_call(judge) && has_verdict(judge)) || is_of_model(judge);
  if (foreign.size > 0 && is_guard && judge->verdict == VERDICT_UNSAID)
    tp__judge_fail(judge, TP_REASON_MALFORMED, "the result has %.*s, which its host does not read there",
                   tp__cut_word(foreign, 64), foreign.data);
}

static void note_the_rest(tp__judge *judge, const struct said *said) {
  static const char before[] =
      "hookEventName permissionDecision permissionDecisionReason additionalContext updatedInput tool_input";
  static const char behind[] = "hookEventName additionalContext updatedToolOutput updatedMCPToolOutput tool_output";
  static const char asked[] = "hookEventName decision";
  static const char *const of_model[] = {"hookEventName additionalContext llm_request llm_response",
                                         "hookEventName additionalContext toolConfig",
                                         "hookEventName additionalContext llm_response"};
  bool is_result = judge->hook->phase == TP_PHASE_TOOL_RESULT;
  note_unknown(judge, said->object, top, "field_unknown", TP_SEVERITY_INFO, "is no field of a result");
  note_unknown(judge, said->specific,
               answers_question(judge) ? asked
               : is_of_model(judge)    ? of_model[judge->hook->protocol_event->id - TP__EVENT_BEFORE_MODEL]
               : is_result             ? behind
                                       : before,
               "field_dropped", TP_SEVERITY_WARNING, "has no place here");
  note_unknown(judge, said->request, "behavior message updatedInput", "field_dropped", TP_SEVERITY_WARNING,
               "has no place here");
}

/* At the end of a turn: continue: false wins over everything that would keep the turn going. Context keeps it going,
 * too. */
static void apply_to_end(tp__judge *judge, const struct said *said) {
  if (said->stops) {
    log_text(judge, "stop_reason", said->stop_reason);
    return;
  }
  apply_decision(judge, said);
  if (said->context.size > 0) block(judge, said->context);
}

static void apply(tp__judge *judge, const struct said *said) {
  if (tp__protocol_is_stop(judge->hook->protocol_event->id)) apply_to_end(judge, said);
  else {
    apply_stop(judge, said);
    bool decides = is_before_call(judge) || answers_question(judge);
    if (has_verdict(judge) && decides) {
      tp_text reason = said->permission_reason;
      if (tp__is_word(said->permission, "deny")) object_to(judge, TP_VERDICT_DENY, reason);
      else if (tp__is_word(said->permission, "ask")) object_to(judge, TP_VERDICT_ASK, reason);
      else if (tp__is_word(said->permission, "defer"))
        object_with(judge, TP_VERDICT_DENY, "the hook defers the call, which has no place here");
      else if (tp__is_word(said->permission, "allow")) object_to(judge, TP_VERDICT_ALLOW, (tp_text){0});
    }
    apply_decision(judge, said);
    remind_model(judge, said->context, "additionalContext");
  }
  apply_rewrite(judge, said);
  log_text(judge, "system_message", said->message);
  note_the_rest(judge, said);
  check_guard(judge, said);
}

/* ---- the end ---- */

static void set_verdict_answer(tp__judge *judge) {
  static const tp_answer answers[] = {
      [TP_VERDICT_ALLOW] = TP_ANSWER_ALLOW, [TP_VERDICT_ASK] = TP_ANSWER_ASK, [TP_VERDICT_DENY] = TP_ANSWER_DENY};
  tp__judged *judged = judge->judged;
  judged->outcome.kind = judge->verdict == VERDICT_UNSAID ? TP_ANSWER_DONE : answers[judge->verdict];
  if (judge->verdict > TP_VERDICT_ALLOW) tp__judge_need_reason(judge);
}

static tp_text first_line(tp_text text) {
  text = tp__judge_trimmed(text);
  const char *end = text.size > 0 ? memchr(text.data, '\n', text.size) : NULL;
  return end ? (tp_text){text.data, (size_t)(end - text.data)} : text;
}

static void fail_exit(tp__judge *judge, const tp_process_result *result) {
  char shown[516];
  tp_text error = tp__stack_trace_error(result->errors);
  tp__hook_errors_show(judge->hook, error.size > 0 ? error : first_line(result->errors), shown, sizeof shown);
  if (result->end == TP_PROCESS_KILLED)
    tp__judge_fail(judge, TP_REASON_KILLED, "the program was killed by signal %d (%s)", result->signal,
                   strsignal(result->signal));
  else tp__judge_fail(judge, TP_REASON_ERROR, "exit code %d%s", result->exit_code, shown);
}

/* Output of a program that tried to answer. If text counts as context, an object in it may be part of the context. An
 * endpoint can only answer. */
static bool is_answer_cut(const tp__judge *judge, tp_text output, bool is_context) {
  if (output.size > 0 && !is_context && (output.data[0] == '{' || judge->hook->kind == TP__HOOK_WEBHOOK)) return true;
  return tp__judge_hides_answer(output);
}

/* Exactly one object. */
static bool decode_answer_object(tp__judge *judge, tp_text output, tp_text *ret_object) {
  if (output.size == 0 || output.data[0] != '{') return false;
  tp_writer **writer = &judge->judged->writer;
  return tp_writer_new(NULL, writer) == TP_OK && tp_json_decode(output, *writer, NULL) == TP_OK &&
         tp_writer_finish(*writer, ret_object) == TP_OK;
}

static void judge_object(tp__judge *judge, const tp_process_result *result, bool blocks, tp_text object) {
  struct said said;
  const char *wrong = "";
  if (!read_said(judge->hook, object, &said, &wrong)) {
    if (blocks) block(judge, tp__judge_trimmed(result->errors));
    else tp__judge_fail(judge, TP_REASON_MALFORMED, "%s of the result is not what %s takes", wrong, judge->hook->event);
    return;
  }
  tp_text reason = tp__is_word(said.permission, "deny") ? said.permission_reason : said.reason;
  if (blocks) block(judge, reason.size > 0 ? reason : tp__judge_trimmed(result->errors));
  apply(judge, &said);
}

bool tp__protocol_judge(tp__judge *judge, const tp_process_result *result) {
  assert(judge->hook->protocol && judge->hook->protocol_event);
  if (result->end != TP_PROCESS_EXITED && result->end != TP_PROCESS_KILLED) return false;
  bool exited = result->end == TP_PROCESS_EXITED, blocks = exited && result->exit_code == BLOCKS;
  tp_text output = tp__judge_trimmed(result->output), object;
  judge->judged->outcome.code = exited ? (uint32_t)result->exit_code : 0;
  if (decode_answer_object(judge, output, &object)) judge_object(judge, result, blocks, object);
  else {
    bool is_context = (judge->hook->protocol_event->is & TP__EVENT_TEXT_IS_CONTEXT) != 0;
    bool decides = judge->hook->row->stop || !is_context;
    if (blocks) block(judge, tp__judge_trimmed(result->errors));
    else if (result->end != TP_PROCESS_EXITED || result->exit_code != 0) fail_exit(judge, result);
    else if (decides && is_answer_cut(judge, output, is_context)) tp__judge_fail_hidden(judge, output);
    else if (is_context) remind_model(judge, output, "output");
    else log_text(judge, "output", output);
  }
  if (!tp__judge_has_failed(judge)) set_verdict_answer(judge);
  return true;
}

/* A yes of the model to a question that a person is asked does not answer the question. */
void tp__protocol_judge_prompt(tp__judge *judge, bool ok, tp_text reason) {
  assert(judge->hook->protocol && judge->hook->protocol_event);
  if (!ok) block(judge, reason);
  else if (has_verdict(judge) && !answers_question(judge)) object_to(judge, TP_VERDICT_ALLOW, (tp_text){0});
  set_verdict_answer(judge);
}
