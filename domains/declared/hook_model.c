/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/hook_model.h"

/* ---- names ---- */

/* Parameters of a request: their name there, and turnphase's. If several of turnphase's map to one, the one that the
 * request has counts, else the first. */
static const struct parameter {
  const char *theirs, *ours[3];
} parameters[] = {{"temperature", {"temperature"}},
                  {"maxOutputTokens", {"max_tokens", "max_completion_tokens", "max_output_tokens"}},
                  {"topP", {"top_p"}},
                  {"topK", {"top_k"}},
                  {"stopSequences", {"stop", "stop_sequences"}},
                  {"presencePenalty", {"presence_penalty"}},
                  {"frequencyPenalty", {"frequency_penalty"}},
                  {"seed", {"seed"}}};
enum { PARAMETERS = sizeof parameters / sizeof parameters[0], OURS_MAX = 3 };

static const char *ours_of(const struct parameter *row, tp_text request) {
  assert(row->ours[0]);
  for (size_t i = 0; i < OURS_MAX && row->ours[i]; i++)
    if (tp__judge_is_said(tp_value_get(request, row->ours[i]))) return row->ours[i];
  return row->ours[0];
}

const char *tp__hook_model_parameter(tp_text theirs, tp_text request) {
  for (size_t i = 0; i < PARAMETERS; i++)
    if (tp__is_word(theirs, parameters[i].theirs)) return ours_of(&parameters[i], request);
  return NULL;
}

const char *tp__hook_model_role(tp_text message) {
  tp_text role = tp_value_text(tp_value_get(message, "role"));
  return tp__is_word(role, "assistant") ? "model" : tp__is_word(role, "system") ? "system" : "user";
}

bool tp__hook_model_shows(tp_text message) {
  bool is_of_tool = tp__is_word(tp_value_text(tp_value_get(message, "role")), "tool");
  return !is_of_tool && tp_value_text(tp_value_get(message, "text")).size > 0;
}

tp_text tp__hook_model_tool(const tp__hook *hook, tp_text tool) {
  bool is_map = tp_value_kind_of(tool) == TP_VALUE_MAP;
  return tp__protocol_tool(hook, tp_value_text(is_map ? tp_value_get(tool, "name") : tool));
}

/* ---- what a program gets ---- */

static void write_one(tp_writer *writer, const char *role, tp_text text) {
  tp_write_map(writer, 2);
  tp_write_string(writer, "role");
  tp_write_string(writer, role);
  tp_write_string(writer, "content");
  tp_write_text(writer, text);
}

static void write_request_messages(tp_text messages, tp_writer *writer) {
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk);) count += tp__hook_model_shows(walk.value);
  tp_write_array(writer, count);
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk);)
    if (tp__hook_model_shows(walk.value))
      write_one(writer, tp__hook_model_role(walk.value), tp_value_text(tp_value_get(walk.value, "text")));
}

/* After the answer, its request is gone, so it is rebuilt from the conversation. */
struct said_before {
  tp_writer *writer; /* NULL: they are counted */
  size_t count;
};

static bool add_said_before(void *ctx, const tp_message *message) {
  static const char *const roles[] = {[TP_ROLE_USER] = "user", [TP_ROLE_ASSISTANT] = "model"};
  struct said_before *before = ctx;
  bool is_role = message->role == TP_ROLE_USER || message->role == TP_ROLE_ASSISTANT;
  if (!is_role || message->text.size == 0) return true;
  before->count++;
  if (before->writer) write_one(before->writer, roles[message->role], message->text);
  return true;
}

static void write_conversation(const tp_call *call, tp_writer *writer) {
  struct said_before before = {0};
  (void)tp_call_messages(call, add_said_before, &before);
  tp_write_array(writer, before.count);
  before.writer = writer;
  (void)tp_call_messages(call, add_said_before, &before);
}

static void add_config(tp__input *in) {
  tp_text request = tp_call_text(in->call, TP_FIELD_PARAMETERS);
  for (size_t i = 0; i < PARAMETERS; i++) {
    tp_text value = tp_value_get(request, ours_of(&parameters[i], request));
    if (tp__judge_is_said(value) && tp__input_begin(in, parameters[i].theirs)) tp_write_value(in->writer, value);
  }
}

static void add_tools(tp__input *in) {
  tp_text choice = tp_value_text(tp_value_get(tp_call_text(in->call, TP_FIELD_PARAMETERS), "tool_choice"));
  tp_text tools = tp_call_text(in->call, TP_FIELD_TOOLS);
  tp__input_string(in, "mode", tp__is_word(choice, "required") ? "ANY" : tp__is_word(choice, "none") ? "NONE" : "AUTO");
  if (!tp__input_begin(in, "allowedFunctionNames")) return;
  tp_write_array(in->writer, tp_value_count(tools));
  for (tp_value_walk walk = {0}; tp_value_next(tools, &walk);)
    tp_write_text(in->writer, tp__hook_model_tool(in->hook, walk.value));
}

/* The other host's guide reads the inner object, while its reference has the members next to it. So both forms are
 * written. */
static void add_tool_config(tp__input *in) {
  add_tools(in);
  if (tp__input_begin(in, "functionCallingConfig")) tp__input_write(in->hook, in->call, in->writer, add_tools);
}

static void add_request(tp__input *in) {
  const tp_call *call = in->call;
  bool is_before = tp_call_phase(call) == TP_PHASE_MODEL_REQUEST;
  tp__input_text(in, "model", tp_call_text(call, TP_FIELD_MODEL));
  if (tp__input_begin(in, "messages")) {
    if (is_before) write_request_messages(tp_call_text(call, TP_FIELD_MESSAGES), in->writer);
    else write_conversation(call, in->writer);
  }
  if (tp__input_begin(in, "config")) tp__input_write(in->hook, call, in->writer, add_config);
  if (is_before && tp__input_begin(in, "toolConfig")) tp__input_write(in->hook, call, in->writer, add_tool_config);
}

static const char *finish_there(tp_text stop_reason) {
  if (tp__is_one_of(stop_reason, "length max_tokens max_output_tokens")) return "MAX_TOKENS";
  return tp__is_one_of(stop_reason, "content_filter refusal safety") ? "SAFETY" : "STOP";
}

static void add_content(tp__input *in) {
  tp_text text = tp_call_text(in->call, TP_FIELD_RESPONSE_TEXT);
  tp__input_string(in, "role", "model");
  if (!tp__input_begin(in, "parts")) return;
  tp_write_array(in->writer, text.size > 0);
  if (text.size > 0) tp_write_text(in->writer, text);
}

static void add_candidate(tp__input *in) {
  if (tp__input_begin(in, "content")) tp__input_write(in->hook, in->call, in->writer, add_content);
  tp__input_string(in, "finishReason", finish_there(tp_call_text(in->call, TP_FIELD_STOP_REASON)));
  tp__input_int(in, "index", 0);
}

static int64_t call_count_of(const tp_call *call, tp_field_id field) {
  int64_t count = tp_call_int(call, field);
  return count > 0 ? count : 0;
}

static void add_usage(tp__input *in) {
  int64_t asked = call_count_of(in->call, TP_FIELD_INPUT_TOKENS),
          answered = call_count_of(in->call, TP_FIELD_OUTPUT_TOKENS);
  tp__input_int(in, "promptTokenCount", asked);
  tp__input_int(in, "candidatesTokenCount", answered);
  tp__input_int(in, "totalTokenCount", asked + answered);
}

static void add_response(tp__input *in) {
  tp__input_text(in, "text", tp_call_text(in->call, TP_FIELD_RESPONSE_TEXT));
  if (tp__input_begin(in, "candidates")) {
    tp_write_array(in->writer, 1);
    tp__input_write(in->hook, in->call, in->writer, add_candidate);
  }
  if (tp__input_begin(in, "usageMetadata")) tp__input_write(in->hook, in->call, in->writer, add_usage);
}

void tp__hook_model_add_input(tp__input *in) {
  assert(tp__hook_model_is_event(in->hook->protocol_event->id));
  if (tp__input_begin(in, "llm_request")) tp__input_write(in->hook, in->call, in->writer, add_request);
  if (in->hook->protocol_event->id != TP__EVENT_AFTER_MODEL) return;
  if (tp__input_begin(in, "llm_response")) tp__input_write(in->hook, in->call, in->writer, add_response);
}

void tp__hook_model_ask(const tp__hook *hook, const tp_call *call, tp__asked *asked) {
  assert(tp__hook_model_is_event(hook->protocol_event->id));
  if (tp_call_phase(call) == TP_PHASE_MODEL_RESPONSE) {
    asked->text = tp_call_text(call, TP_FIELD_RESPONSE_TEXT);
    return;
  }
  asked->model = tp_call_text(call, TP_FIELD_MODEL);
  asked->messages = tp_call_text(call, TP_FIELD_MESSAGES);
  asked->tools = tp_call_text(call, TP_FIELD_TOOLS);
  asked->parameters = tp_call_text(call, TP_FIELD_PARAMETERS);
}
