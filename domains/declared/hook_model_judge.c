/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_model_judge.c: applies the changes of hooks to a request to a model, or to its answer. */
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_model.h"

static bool is_map(tp_text value) { return tp_value_kind_of(value) == TP_VALUE_MAP; }

/* ---- the shape of what it says ---- */

static bool is_kind(tp_text value, tp_value_kind kind) {
  return !tp__judge_is_said(value) || tp_value_kind_of(value) == kind;
}

/* Whether it is a text, or a list of texts and of maps with a text each. */
static bool is_content(tp_text content) {
  if (tp_value_kind_of(content) == TP_VALUE_TEXT) return true;
  if (tp_value_kind_of(content) != TP_VALUE_ARRAY) return false;
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);) {
    tp_text text = is_map(walk.value) ? tp_value_get(walk.value, "text") : walk.value;
    if (tp_value_kind_of(text) != TP_VALUE_TEXT) return false;
  }
  return true;
}

static bool are_messages(tp_text messages) {
  if (tp_value_kind_of(messages) != TP_VALUE_ARRAY || tp_value_count(messages) == 0) return false;
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk);)
    if (!is_map(walk.value) || !tp__is_one_of(tp_value_text(tp_value_get(walk.value, "role")), "user model system") ||
        !is_content(tp_value_get(walk.value, "content")))
      return false;
  return true;
}

static bool is_tool_config(tp_text config) {
  tp_text inner = tp_value_get(config, "functionCallingConfig");
  if (!is_map(config) || !is_kind(inner, TP_VALUE_MAP)) return false;
  const tp_text levels[] = {config, inner};
  for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
    tp_text mode = tp_value_get(levels[i], "mode"), names = tp_value_get(levels[i], "allowedFunctionNames");
    if (tp__judge_is_said(mode) && !tp__is_one_of(tp_value_text(mode), "AUTO ANY NONE")) return false;
    if (!is_kind(names, TP_VALUE_ARRAY)) return false;
    for (tp_value_walk walk = {0}; tp_value_next(names, &walk);)
      if (tp_value_kind_of(walk.value) != TP_VALUE_TEXT) return false;
  }
  return true;
}

static const char *request_wrong(tp_text request) {
  tp_text messages = tp_value_get(request, "messages"), tools = tp_value_get(request, "toolConfig");
  if (!is_map(request)) return "llm_request";
  if (!is_kind(tp_value_get(request, "model"), TP_VALUE_TEXT)) return "llm_request.model";
  if (tp__judge_is_said(messages) && !are_messages(messages)) return "llm_request.messages";
  if (!is_kind(tp_value_get(request, "config"), TP_VALUE_MAP)) return "llm_request.config";
  return tp__judge_is_said(tools) && !is_tool_config(tools) ? "llm_request.toolConfig" : NULL;
}

/* The parts of the first candidate; empty: there are none. */
static tp_text parts_of(tp_text response) {
  tp_value_walk walk = {0};
  tp_text candidates = tp_value_get(response, "candidates");
  return tp_value_count(candidates) > 0 && tp_value_next(candidates, &walk)
             ? tp_value_get(tp_value_get(walk.value, "content"), "parts")
             : (tp_text){NULL, 0};
}

static const char *response_wrong(tp_text response) {
  tp_text parts = parts_of(response), usage = tp_value_get(response, "usageMetadata");
  if (!is_map(response)) return "llm_response";
  if (!is_kind(tp_value_get(response, "text"), TP_VALUE_TEXT)) return "llm_response.text";
  if (!is_kind(tp_value_get(response, "candidates"), TP_VALUE_ARRAY)) return "llm_response.candidates";
  if (tp__judge_is_said(parts) && (tp_value_kind_of(parts) != TP_VALUE_ARRAY || !is_content(parts))) return "parts";
  return is_kind(usage, TP_VALUE_MAP) ? NULL : "llm_response.usageMetadata";
}

bool tp__hook_model_read(const tp__hook *hook, tp_text specific, tp__hook_model_said *said, const char **ret_wrong) {
  tp__protocol_event_id event = hook->protocol_event->id;
  tp_text request = tp_value_get(specific, "llm_request"), response = tp_value_get(specific, "llm_response"),
          tools = tp_value_get(specific, "toolConfig");
  const char *wrong = NULL;
  if (event == TP__EVENT_BEFORE_MODEL && tp__judge_is_said(request)) {
    said->request = request;
    wrong = request_wrong(request);
  }
  if (!wrong && event != TP__EVENT_TOOL_SELECTION && tp__judge_is_said(response)) {
    said->response = response;
    wrong = response_wrong(response);
  }
  if (!wrong && event == TP__EVENT_TOOL_SELECTION && tp__judge_is_said(tools)) {
    said->tools = tools;
    wrong = is_tool_config(tools) ? NULL : "toolConfig";
  }
  if (wrong) *ret_wrong = wrong;
  return !wrong;
}

/* ---- what it changes ---- */

/* A message of the request that a program was shown. */
typedef struct shown {
  size_t index;  /* among all messages */
  size_t hidden; /* how many messages that are not shown follow this one */
} shown;

/* The changes of the answer to the request. The members are set before the first field is written. */
typedef struct change {
  const tp__asked *asked;
  const tp__hook *hook;
  tp__bytes scratch; /* the text of a content of several parts */
  /* the messages */
  tp_text said;
  tp_text *all;
  shown *before;
  size_t before_count, hidden_first, said_count;
  size_t same_first, same_last; /* how many messages are equal in both lists, at the beginning and at the end */
  bool messages;
  /* the parameters and the tools */
  tp_text config, allowed;
  bool parameters, tools, no_tools, drops_choice, demands_call;
  tp_text model; /* empty: the model stays as it is */
} change;

/* @return the text of a content, its parts joined. Borrowed until the next call. */
static tp_text content_text(tp_text content, tp__bytes *scratch) {
  if (tp_value_kind_of(content) == TP_VALUE_TEXT) return tp_value_text(content);
  scratch->size = 0;
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);)
    tp__bytes_put_text(scratch, tp_value_text(is_map(walk.value) ? tp_value_get(walk.value, "text") : walk.value));
  return tp__bytes_text(scratch);
}

/* ---- messages ---- */

static bool same_role(const change *c, const shown *before, tp_text said) {
  return tp__is_word(tp_value_text(tp_value_get(said, "role")), tp__hook_model_role(c->all[before->index]));
}

static bool is_same(change *c, const shown *before, tp_text said) {
  return same_role(c, before, said) && tp__same(content_text(tp_value_get(said, "content"), &c->scratch),
                                                tp_value_text(tp_value_get(c->all[before->index], "text")));
}

/* Counts the messages that are equal at the beginning of both lists, and those at the end. */
static void compare_ends(change *c) {
  size_t most = c->before_count < c->said_count ? c->before_count : c->said_count, at = 0, run = 0;
  bool is_begin = true;
  for (tp_value_walk walk = {0}; tp_value_next(c->said, &walk); at++) {
    is_begin = is_begin && at < c->before_count && is_same(c, &c->before[at], walk.value);
    c->same_first += is_begin;
    size_t left = c->said_count - at; /* messages from this one to the end, including this one */
    const shown *other = left <= c->before_count ? &c->before[c->before_count - left] : NULL;
    run = other && is_same(c, other, walk.value) ? run + 1 : 0;
  }
  c->same_last = run < most - c->same_first ? run : most - c->same_first;
}

/* Finds the shown message that became the message at a place of the new list; NULL: that one is new. Between the equal
 * ends, messages are paired in order: from the last if the new list is shorter, else from the first. */
static const shown *origin_of(const change *c, size_t at, tp_text said) {
  assert(at < c->said_count && c->same_first + c->same_last <= c->said_count);
  if (at < c->same_first) return &c->before[at];
  if (c->said_count - at <= c->same_last) return &c->before[c->before_count - (c->said_count - at)];
  size_t ours = c->before_count - c->same_first - c->same_last, theirs = c->said_count - c->same_first - c->same_last;
  size_t skipped = ours > theirs ? ours - theirs : 0, place = at - c->same_first;
  if (place >= ours) return NULL;
  const shown *before = &c->before[c->same_first + place + skipped];
  return same_role(c, before, said) ? before : NULL;
}

static void write_text_changed(tp_text map, tp_text text, tp_writer *writer) {
  tp_write_map(writer, tp_value_count(map));
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    tp_write_text(writer, walk.key);
    if (tp__is_word(walk.key, "text")) tp_write_text(writer, text);
    else tp_write_value(writer, walk.value);
  }
}

static void write_hidden(const change *c, size_t index, size_t count, tp_writer *writer) {
  for (size_t i = 0; i < count; i++) tp_write_value(writer, c->all[index + i]);
}

static void write_messages(change *c, tp_writer *writer) {
  size_t count = c->hidden_first, at = 0;
  for (tp_value_walk walk = {0}; tp_value_next(c->said, &walk); at++) {
    const shown *before = origin_of(c, at, walk.value);
    count += 1 + (before ? before->hidden : 0);
  }
  tp_write_array(writer, count);
  write_hidden(c, 0, c->hidden_first, writer);
  at = 0;
  for (tp_value_walk walk = {0}; tp_value_next(c->said, &walk); at++) {
    const shown *before = origin_of(c, at, walk.value);
    tp_text text = content_text(tp_value_get(walk.value, "content"), &c->scratch);
    if (!before) {
      tp_text said = walk.value;
      tp_text role = tp_value_text(tp_value_get(said, "role"));
      tp_write_map(writer, 2);
      tp_write_string(writer, "role");
      if (tp__is_word(role, "model")) tp_write_string(writer, "assistant");
      else tp_write_text(writer, role);
      tp_write_string(writer, "text");
      tp_write_text(writer, text);
    } else write_text_changed(c->all[before->index], text, writer);
    if (before) write_hidden(c, before->index + 1, before->hidden, writer);
  }
}

static bool find_messages(change *c, tp_text messages) {
  if (!tp__judge_is_said(messages)) return true;
  c->said = messages;
  c->said_count = tp_value_count(messages);
  size_t count = tp_value_count(c->asked->messages), at = 0;
  c->all = calloc(count + 1, sizeof *c->all);
  c->before = calloc(count + 1, sizeof *c->before);
  if (!c->all || !c->before) return false;
  for (tp_value_walk walk = {0}; tp_value_next(c->asked->messages, &walk); at++) {
    c->all[at] = walk.value;
    if (tp__hook_model_shows(walk.value)) c->before[c->before_count++].index = at;
    else if (c->before_count > 0) c->before[c->before_count - 1].hidden++;
    else c->hidden_first++;
  }
  compare_ends(c);
  c->messages = c->before_count != c->said_count || c->same_first + c->same_last != c->said_count;
  return true;
}

/* ---- parameters ---- */

/* The value in the answer's config for one of the request's parameters; NULL text: there is none, the parameter
 * stays. */
static tp_text config_for(const change *c, tp_text ours) {
  for (tp_value_walk walk = {0}; tp_value_next(c->config, &walk);) {
    const char *name = tp__hook_model_parameter(walk.key, c->asked->parameters);
    if (name && tp__is_word(ours, name)) return walk.value;
  }
  return (tp_text){NULL, 0};
}

/* Whether the request keeps a parameter, with its value or a new one. A null in the config removes it. */
static bool keeps_parameter(const change *c, tp_text name) {
  if ((c->drops_choice || c->demands_call) && tp__is_word(name, "tool_choice")) return false;
  tp_text value = config_for(c, name);
  return value.size == 0 || tp__judge_is_said(value);
}

static bool is_new(const change *c, tp_text theirs, tp_text value) {
  const char *name = tp__hook_model_parameter(theirs, c->asked->parameters);
  return name && tp__judge_is_said(value) && tp_value_get(c->asked->parameters, name).size == 0;
}

static void write_parameters(const change *c, tp_writer *writer) {
  size_t count = c->demands_call;
  for (tp_value_walk walk = {0}; tp_value_next(c->asked->parameters, &walk);) count += keeps_parameter(c, walk.key);
  for (tp_value_walk walk = {0}; tp_value_next(c->config, &walk);) count += is_new(c, walk.key, walk.value);
  tp_write_map(writer, count);
  for (tp_value_walk walk = {0}; tp_value_next(c->asked->parameters, &walk);) {
    tp_text other = config_for(c, walk.key);
    if (!keeps_parameter(c, walk.key)) continue;
    tp_write_text(writer, walk.key);
    tp_write_value(writer, tp__judge_is_said(other) ? other : walk.value);
  }
  for (tp_value_walk walk = {0}; tp_value_next(c->config, &walk);) {
    if (!is_new(c, walk.key, walk.value)) continue;
    tp_write_string(writer, tp__hook_model_parameter(walk.key, c->asked->parameters));
    tp_write_value(writer, walk.value);
  }
  if (!c->demands_call) return;
  tp_write_string(writer, "tool_choice");
  tp_write_string(writer, "required");
}

static void find_parameters(change *c, tp__judge *judge, tp_text config) {
  c->config = config;
  for (tp_value_walk walk = {0}; tp_value_next(config, &walk);) {
    const char *name = tp__hook_model_parameter(walk.key, c->asked->parameters);
    if (!name && tp__judge_is_said(walk.value))
      tp__judge_diagnose_made(judge, "field_dropped", TP_SEVERITY_WARNING, "config.%.*s has no place here",
                              tp__cut_word(walk.key, 64), walk.key.data);
    if (!name) continue;
    tp_text before = tp_value_get(c->asked->parameters, name);
    c->parameters = c->parameters || !tp__same(tp__judge_is_said(before) ? before : (tp_text){NULL, 0},
                                               tp__judge_is_said(walk.value) ? walk.value : (tp_text){NULL, 0});
  }
}

/* ---- tools ---- */

static tp_text of_tools(tp_text config, const char *key) {
  tp_text value = tp_value_get(config, key);
  return tp__judge_is_said(value) ? value : tp_value_get(tp_value_get(config, "functionCallingConfig"), key);
}

/* An empty list restricts nothing, as in the other host's protocol; the mode NONE allows no tool. */
static bool is_allowed(const change *c, tp_text tool) {
  if (c->no_tools) return false;
  if (tp_value_count(c->allowed) == 0) return true;
  tp_text name = tp__hook_model_tool(c->hook, tool);
  for (tp_value_walk walk = {0}; tp_value_next(c->allowed, &walk);)
    if (tp__same(tp_value_text(walk.value), name)) return true;
  return false;
}

static size_t allowed_count(const change *c) {
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(c->asked->tools, &walk);) count += is_allowed(c, walk.value);
  return count;
}

/* A call of a tool that is not shown cannot be required. */
static void find_tools(change *c, tp_text config) {
  tp_text mode = tp_value_text(of_tools(config, "mode"));
  tp_text choice = tp_value_get(c->asked->parameters, "tool_choice"), word = tp_value_text(choice);
  c->no_tools = tp__is_word(mode, "NONE");
  c->allowed = of_tools(config, "allowedFunctionNames");
  size_t left = allowed_count(c);
  c->tools = left != tp_value_count(c->asked->tools);
  c->demands_call = left > 0 && tp__is_word(mode, "ANY") && !tp__is_word(word, "required");
  bool is_free = tp__is_word(mode, "AUTO") && tp__is_one_of(word, "required none");
  c->drops_choice = tp__judge_is_said(choice) && ((left == 0 && !tp__is_word(word, "none")) || is_free);
  c->parameters = c->parameters || c->demands_call || c->drops_choice;
}

/* ---- the answer ---- */

/* Writes the response that a hook gives instead of the model's. */
static void write_response(tp_text response, tp_text text, tp_writer *writer) {
  tp_value_walk walk = {0};
  tp_text usage = tp_value_get(response, "usageMetadata"), reason = {NULL, 0};
  if (tp_value_next(tp_value_get(response, "candidates"), &walk))
    reason = tp_value_text(tp_value_get(walk.value, "finishReason"));
  int64_t asked = tp_value_int(tp_value_get(usage, "promptTokenCount"), 0);
  int64_t answered = tp_value_int(tp_value_get(usage, "candidatesTokenCount"), 0);
  tp_write_map(writer, 5);
  tp_write_string(writer, "text");
  tp_write_text(writer, text);
  tp_write_string(writer, "stop_reason");
  tp_write_text(writer, reason.size > 0 ? reason : tp_text_of("STOP"));
  tp_write_string(writer, "finish");
  tp_write_string(writer, tp__is_word(reason, "MAX_TOKENS")            ? "length"
                          : tp__is_one_of(reason, "SAFETY RECITATION") ? "filter"
                                                                       : "stop");
  tp_write_string(writer, "input_tokens");
  tp_write_int(writer, asked > 0 ? asked : 0);
  tp_write_string(writer, "output_tokens");
  tp_write_int(writer, answered > 0 ? answered : 0);
}

/* Writes all changed fields into one map; the replacements borrow its members. */
static bool write_changes(change *c, tp__judge *judge, tp_text response, tp_text text) {
  static const struct {
    const char *key;
    uint32_t field;
  } keys[] = {{"messages", TP_FIELD_MESSAGES},
              {"parameters", TP_FIELD_PARAMETERS},
              {"tools", TP_FIELD_TOOLS},
              {"response", TP_FIELD_RESPONSE}};
  tp_text all;
  if (tp_writer_new(NULL, &judge->judged->other) != TP_OK) return false;
  tp_writer *writer = judge->judged->other;
  tp_write_map(writer, (size_t)c->messages + c->parameters + c->tools + (response.size > 0));
  if (c->messages) tp_write_string(writer, "messages");
  if (c->messages) write_messages(c, writer);
  if (c->parameters) tp_write_string(writer, "parameters");
  if (c->parameters) write_parameters(c, writer);
  if (c->tools) tp_write_string(writer, "tools");
  if (c->tools) {
    tp_write_array(writer, allowed_count(c));
    for (tp_value_walk walk = {0}; tp_value_next(c->asked->tools, &walk);)
      if (is_allowed(c, walk.value)) tp_write_value(writer, walk.value);
  }
  if (response.size > 0) tp_write_string(writer, "response");
  if (response.size > 0) write_response(response, text, writer);
  if (c->scratch.failed || tp_writer_finish(writer, &all) != TP_OK) return false;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    tp_text value = tp_value_get(all, keys[i].key);
    if (value.size > 0) tp__judge_replace(judge, keys[i].field, TP_FIELD_KIND_VALUE, value);
  }
  if (c->model.size > 0) tp__judge_replace(judge, TP_FIELD_MODEL, TP_FIELD_KIND_TEXT, c->model);
  return true;
}

/* ---- both ---- */

static void note_keys(tp__judge *judge, tp_text map, const char *known, const char *what) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);)
    if (!tp__is_one_of(walk.key, known) && tp__judge_is_said(walk.value))
      tp__judge_diagnose_made(judge, "field_dropped", TP_SEVERITY_WARNING, "%s.%.*s has no place here", what,
                              tp__cut_word(walk.key, 64), walk.key.data);
}

/* @return the new text of an answer: that of its parts, or, if the parts did not change, its member "text". */
static tp_text answer_text(tp_text response, tp_text before, tp__bytes *scratch) {
  tp_text parts = parts_of(response), text = tp_value_text(tp_value_get(response, "text"));
  if (tp_value_count(parts) == 0) return text;
  tp_text said = content_text(parts, scratch);
  return tp__same(said, before) && tp_value_get(response, "text").size > 0 ? text : said;
}

static const char *apply_to_request(tp__judge *judge, const tp__hook_model_said *said) {
  change c = {.asked = judge->asked, .hook = judge->hook};
  tp_text model = tp_value_text(tp_value_get(said->request, "model"));
  tp_text tools = tp__judge_is_said(said->tools) ? said->tools : tp_value_get(said->request, "toolConfig");
  tp__bytes text = {0};
  tp_text answer = answer_text(said->response, (tp_text){NULL, 0}, &text);
  if (said->response.size > 0 && answer.size == 0) {
    tp__judge_fail(judge, TP_REASON_MALFORMED, "llm_response of the result has no text: candidates[0].content.parts");
    return NULL;
  }
  note_keys(judge, said->request, "model messages config toolConfig", "llm_request");
  if (model.size > 0 && !tp__same(model, judge->asked->model)) c.model = model;
  bool ok = find_messages(&c, tp_value_get(said->request, "messages"));
  if (tp__judge_is_said(tp_value_get(said->request, "config")))
    find_parameters(&c, judge, tp_value_get(said->request, "config"));
  if (tp__judge_is_said(tools)) find_tools(&c, tools);
  bool changes = c.messages || c.parameters || c.tools || c.model.size > 0 || said->response.size > 0;
  if (ok && changes && judge->hook->rewrites) ok = write_changes(&c, judge, said->response, answer);
  if (!ok) tp__judge_fail(judge, TP_REASON_ERROR, "no memory for what the hook changes, or it is too large");
  tp__bytes_fini(&text);
  tp__bytes_fini(&c.scratch);
  free(c.before);
  free(c.all);
  return changes ? "the hook changes the request to the model, which needs rewrite: true and the operator's grant"
                 : NULL;
}

static const char *apply_to_answer(tp__judge *judge, tp_text response) {
  tp__bytes scratch = {0};
  tp_text text = answer_text(response, judge->asked->text, &scratch), kept;
  bool is_said = tp_value_count(parts_of(response)) > 0 || tp_value_get(response, "text").size > 0;
  bool changes = is_said && !tp__same(text, judge->asked->text), ok = !scratch.failed;
  if (ok && changes && judge->hook->rewrites) {
    ok = tp_writer_new(NULL, &judge->judged->other) == TP_OK;
    if (ok) tp_write_text(judge->judged->other, text);
    ok = ok && tp_writer_finish(judge->judged->other, &kept) == TP_OK;
    if (ok) tp__judge_replace(judge, TP_FIELD_RESPONSE_TEXT, TP_FIELD_KIND_TEXT, tp_value_text(kept));
  }
  if (!ok) tp__judge_fail(judge, TP_REASON_ERROR, "no memory for what the hook changes, or it is too large");
  tp__bytes_fini(&scratch);
  return changes ? "the hook changes the answer of the model, which needs rewrite: true and the operator's grant"
                 : NULL;
}

const char *tp__hook_model_apply(tp__judge *judge, const tp__hook_model_said *said) {
  assert(tp__hook_model_is_event(judge->hook->protocol_event->id));
  const char *what = judge->hook->protocol_event->id == TP__EVENT_AFTER_MODEL ? apply_to_answer(judge, said->response)
                                                                              : apply_to_request(judge, said);
  return judge->hook->rewrites ? NULL : what;
}
