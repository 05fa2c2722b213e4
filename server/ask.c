/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: reads the body of a request. Every field has a row for its effect. A field without a row is refused, since every
 * accepted field has an effect, or is documented to have none (docs/serve.md). null counts as a missing field. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/server.h"
#include "turnphase/value.h"

enum { MESSAGES_MAX = 100000, CALLS_MAX = 100000, TOOLS_MAX = 128, SHOWN = 64 };

typedef struct reader {
  tp__ask *ask;
  const char *list; /* "messages" or "input" */
  tp__refusal *refusal;
  size_t parameter_count;
  bool no_tools;
  tp_text effort;     /* the effort of reasoning, for the provider; empty: none */
  size_t *message_of; /* for each item of an input the index of its message; SIZE_MAX: none */
  size_t item_count;
  char where[SHOWN]; /* the place in the body, such as "messages[3]" */
} reader;

typedef bool (*take_fn)(reader *r, tp_text value);

/** The effect of a field. */
typedef struct field {
  const char *name;
  tp_value_kind kind; /* NONE: any kind */
  take_fn take;       /* NULL: the field has no effect */
  const char *as;     /* the name of the parameter for providers (that of chat completions); NULL: name */
} field;

/* ---- helpers ---- */

static bool refuse_ask(const reader *r, const char *param, const char *format, ...) TP__PRINTF(3, 4);
static bool refuse_ask(const reader *r, const char *param, const char *format, ...) {
  char words[TP_FAULT_MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  return tp__refusal_fill(r->refusal, 400, "invalid_value", param, "%s", words);
}

static bool refuse_memory(const reader *r) {
  return tp__refusal_fill(r->refusal, 503, "overloaded", NULL, "no memory for the request");
}

static const char *kind_name(tp_value_kind kind) {
  static const char *const names[] = {"nothing",  "null",  "a boolean", "an integer", "a number",
                                      "a string", "bytes", "an array",  "an object"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : names[0];
}

static bool is_kind(tp_text value, tp_value_kind kind) {
  tp_value_kind is = tp_value_kind_of(value);
  return kind == TP_VALUE_NONE || is == kind || (kind == TP_VALUE_DOUBLE && is == TP_VALUE_INT);
}

/* Returns the member of a map; NONE when it is missing or null. */
static tp_text member(tp_text map, const char *key) {
  tp_text value = tp_value_get(map, key);
  return tp_value_kind_of(value) == TP_VALUE_NULL ? (tp_text){0} : value;
}

static tp_text text_member(tp_text map, const char *key) { return tp_value_text(member(map, key)); }

/* ---- content ---- */

static bool is_text_part(tp_text type) {
  return tp__is_word(type, "text") || tp__is_word(type, "input_text") || tp__is_word(type, "output_text");
}

/* Returns the URL of an image: {"image_url": {"url": …}} in chat completions, {"image_url": …} in responses. */
static tp_text image_of(tp_text part) {
  tp_text image = member(part, "image_url");
  return tp_value_kind_of(image) == TP_VALUE_MAP ? text_member(image, "url") : tp_value_text(image);
}

/* Whether it is a URL: a path is refused, since the provider would read it on this machine. */
static bool is_url(tp_text url) {
  return (tp__begins(url, "data:image/") || tp__begins(url, "https://") || tp__begins(url, "http://")) &&
         !memchr(url.data, 0, url.size);
}

static bool is_image_part(tp_text type) { return tp__is_word(type, "image_url") || tp__is_word(type, "input_image"); }

static size_t count_images(tp_text content) {
  size_t count = 0;
  if (tp_value_kind_of(content) != TP_VALUE_ARRAY) return 0;
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);)
    count += is_image_part(text_member(walk.value, "type"));
  return count;
}

static bool read_part(reader *r, tp_text part, tp__bytes *out) {
  tp_text type = text_member(part, "type"), text = {0};
  if (is_image_part(type)) {
    if (is_url(image_of(part))) return true;
    return refuse_ask(r, r->list, "%s.content: an image is a URL that begins with data:image/ or https://", r->where);
  }
  if (is_text_part(type)) text = text_member(part, "text");
  else if (tp__is_word(type, "refusal")) text = text_member(part, "refusal");
  else
    return refuse_ask(r, r->list, "%s.content has a part of type '%.*s', and this server takes texts and images",
                      r->where, tp__cut(type, SHOWN), type.size > 0 ? type.data : "");
  if (out->size > 0 && text.size > 0) tp__bytes_put(out, "\n", 1);
  tp__bytes_put_text(out, text);
  return true;
}

/* Reads a text, or parts. Images are written as parts of the message: an array, which is empty without images. */
static bool read_content(reader *r, tp_text content, tp__bytes *out) {
  tp_value_kind kind = tp_value_kind_of(content);
  size_t images = count_images(content);
  tp_write_array(r->ask->parts, images);
  if (kind == TP_VALUE_TEXT) tp__bytes_put_text(out, tp_value_text(content));
  if (kind == TP_VALUE_TEXT || kind == TP_VALUE_NONE || kind == TP_VALUE_NULL) return true;
  if (kind != TP_VALUE_ARRAY)
    return refuse_ask(r, r->list, "%s.content is a string or an array of parts, not %s", r->where, kind_name(kind));
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);) {
    if (!read_part(r, walk.value, out)) return false;
    if (!is_image_part(text_member(walk.value, "type"))) continue;
    tp_write_map(r->ask->parts, 1);
    tp_write_string(r->ask->parts, "image");
    tp_write_text(r->ask->parts, image_of(walk.value));
  }
  return true;
}

/* ---- messages ---- */

static tp_role role_of(tp_text role) {
  if (tp__is_word(role, "user")) return TP_ROLE_USER;
  if (tp__is_word(role, "assistant")) return TP_ROLE_ASSISTANT;
  if (tp__is_word(role, "tool")) return TP_ROLE_TOOL;
  return tp__is_word(role, "system") || tp__is_word(role, "developer") ? TP_ROLE_SYSTEM : (tp_role)0;
}

/* Reads a call. Arguments that are no JSON stay as the model wrote them. */
static bool read_call(reader *r, tp_text value, tp_tool_call *call) {
  tp_text function = member(value, "function"), arguments = text_member(function, "arguments");
  *call = (tp_tool_call){
      .struct_size = sizeof *call, .id = text_member(value, "id"), .name = text_member(function, "name")};
  if (call->id.size == 0 || call->name.size == 0)
    return refuse_ask(r, r->list, "%s.tool_calls: each has an id and a function with a name", r->where);
  call->arguments = arguments;
  call->malformed = true;
  return true;
}

static bool read_calls(reader *r, tp_text calls, tp_message *message) {
  tp__ask *ask = r->ask;
  size_t count = tp_value_count(calls);
  if (count == 0) return true;
  if (ask->call_count + count > ask->call_capacity) return refuse_memory(r);
  message->calls = ask->call_list + ask->call_count;
  for (tp_value_walk walk = {0}; tp_value_next(calls, &walk);) {
    tp_tool_call *call = &ask->calls[ask->call_count];
    if (!read_call(r, walk.value, call)) return false;
    ask->call_list[ask->call_count++] = call;
  }
  message->call_count = count;
  return true;
}

static bool read_message(reader *r, tp_text value, size_t index) {
  tp__ask *ask = r->ask;
  tp_message *message = &ask->messages[ask->message_count];
  tp__bytes *text = &ask->texts[ask->message_count];
  tp_text role = text_member(value, "role");
  snprintf(r->where, sizeof r->where, "messages[%zu]", index);
  *message = (tp_message){.struct_size = sizeof *message, .role = role_of(role)};
  *text = (tp__bytes){0};
  if (tp_value_kind_of(value) != TP_VALUE_MAP || !message->role)
    return refuse_ask(r, "messages", "%s.role is system, developer, user, assistant or tool, not '%.*s'", r->where,
                      tp__cut(role, SHOWN), role.size > 0 ? role.data : "");
  ask->message_list[ask->message_count++] = message;
  if (!read_content(r, member(value, "content"), text)) return false;
  message->text = tp__bytes_text(text);
  message->call_id = text_member(value, "tool_call_id");
  if (message->role != TP_ROLE_TOOL) message->call_id = (tp_text){0};
  else if (message->call_id.size == 0) return refuse_ask(r, r->list, "%s.tool_call_id is missing", r->where);
  tp_text calls = member(value, "tool_calls");
  if (message->role == TP_ROLE_ASSISTANT && !read_calls(r, calls, message)) return false;
  return !text->failed || refuse_memory(r);
}

static size_t count_calls(tp_text messages) {
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk);)
    count += tp_value_count(tp_value_get(walk.value, "tool_calls"));
  return count;
}

/* Fills in the tools' names of results: the runtime needs them, and the API does not have them. */
static void name_results(tp__ask *ask) {
  for (size_t i = 0; i < ask->message_count; i++) {
    tp_message *result = &ask->messages[i];
    if (result->role != TP_ROLE_TOOL) continue;
    for (size_t k = ask->call_count; k > 0 && result->name.size == 0; k--)
      if (tp__same(ask->calls[k - 1].id, result->call_id)) result->name = ask->calls[k - 1].name;
  }
}

/* Replaces the text of arguments by the decoded value. */
static bool decode_arguments(reader *r) {
  tp__ask *ask = r->ask;
  tp_text all;
  if (ask->call_count == 0) return true;
  if (tp_writer_new(NULL, &ask->arguments) != TP_OK) return refuse_memory(r);
  tp_write_array(ask->arguments, ask->call_count);
  for (size_t i = 0; i < ask->call_count; i++) {
    tp_tool_call *call = &ask->calls[i];
    bool is_empty = call->arguments.size == 0;
    if (!is_empty && tp_json_decode(call->arguments, ask->arguments, NULL) == TP_OK) call->malformed = false;
    else tp_write_null(ask->arguments);
    if (is_empty) call->malformed = false;
  }
  if (tp_writer_finish(ask->arguments, &all) != TP_OK) return refuse_memory(r);
  size_t i = 0;
  for (tp_value_walk walk = {0}; tp_value_next(all, &walk); i++) {
    tp_tool_call *call = &ask->calls[i];
    bool is_map = tp_value_kind_of(walk.value) == TP_VALUE_MAP;
    if (is_map) call->arguments = walk.value;
    else if (!call->malformed && call->arguments.size > 0) call->malformed = true;
  }
  return true;
}

static bool finish_parts(reader *r) {
  tp__ask *ask = r->ask;
  tp_text all;
  size_t i = 0;
  if (tp_writer_finish(ask->parts, &all) != TP_OK) return refuse_memory(r);
  for (tp_value_walk walk = {0}; tp_value_next(all, &walk); i++) {
    if (tp_value_count(walk.value) == 0) continue;
    tp_message *message = &ask->messages[r->message_of ? r->message_of[i] : i];
    snprintf(r->where, sizeof r->where, "%s[%zu]", r->list, i);
    if (message->role != TP_ROLE_USER && message->role != TP_ROLE_TOOL)
      return refuse_ask(r, r->list, "%s: images stand in messages of the user", r->where);
    message->parts = walk.value;
  }
  return true;
}

static bool begin_messages(reader *r, size_t count, size_t calls) {
  tp__ask *ask = r->ask;
  ask->message_capacity = count;
  ask->call_capacity = calls;
  ask->messages = tp__heap_alloc(count * sizeof *ask->messages);
  ask->message_list = tp__heap_alloc(count * sizeof *ask->message_list);
  ask->texts = tp__heap_alloc(count * sizeof *ask->texts);
  if (calls > 0) ask->calls = tp__heap_alloc(calls * sizeof *ask->calls);
  if (calls > 0) ask->call_list = tp__heap_alloc(calls * sizeof *ask->call_list);
  bool has_writer = tp_writer_new(NULL, &ask->parts) == TP_OK;
  if (!has_writer || !ask->messages || !ask->message_list || !ask->texts ||
      (calls > 0 && (!ask->calls || !ask->call_list)))
    return refuse_memory(r);
  tp_write_array(ask->parts, count);
  return true;
}

static bool take_messages(reader *r, tp_text messages) {
  size_t count = tp_value_count(messages), calls = count_calls(messages), index = 0;
  if (count == 0 || count > MESSAGES_MAX || calls > CALLS_MAX)
    return refuse_ask(r, "messages", "messages has 1 to %d messages, with at most %d calls", MESSAGES_MAX, CALLS_MAX);
  if (!begin_messages(r, count, calls)) return false;
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk);)
    if (!read_message(r, walk.value, index++)) return false;
  return finish_parts(r);
}

/* ---- fields ---- */

static bool take_model(reader *r, tp_text value) {
  r->ask->model = tp_value_text(value);
  return true;
}

static bool take_stream(reader *r, tp_text value) {
  r->ask->streams = tp_value_bool(value, false);
  return true;
}

static bool take_stream_options(reader *r, tp_text value) {
  r->ask->wants_usage = tp_value_bool(member(value, "include_usage"), false);
  return true;
}

static bool take_n(reader *r, tp_text value) {
  return tp_value_int(value, 0) == 1 || refuse_ask(r, "n", "n is 1: this server gives one answer to a request");
}

static bool take_logprobs(reader *r, tp_text value) {
  return !tp_value_bool(value, false) || refuse_ask(r, "logprobs", "logprobs are not given by this server");
}

static bool take_functions(reader *r, tp_text value) {
  return tp_value_count(value) == 0 || refuse_ask(r, "functions", "functions are not taken: name them in tools");
}

/* Reads a tool. In chat completions its members are in `function`. */
static bool read_tool(reader *r, tp_text tool) {
  tp_text type = text_member(tool, "type"), function = member(tool, "function");
  tp_text of = tp_value_kind_of(function) == TP_VALUE_MAP ? function : tool;
  tp_text name = text_member(of, "name"), schema = member(of, "parameters");
  tp_writer *w = r->ask->tools_writer;
  if (!tp__is_word(type, "function"))
    return refuse_ask(r, "tools",
                      "tools: a tool of type '%.*s' is not taken: this server runs its own tools, and hands "
                      "functions to the client",
                      tp__cut(type, SHOWN), type.size > 0 ? type.data : "");
  if (name.size == 0 || name.size > TP_ID_BYTES_MAX || memchr(name.data, 0, name.size))
    return refuse_ask(r, "tools", "tools: each has a name of 1 to %d bytes", TP_ID_BYTES_MAX);
  tp_write_map(w, 3);
  tp_write_string(w, "name");
  tp_write_text(w, name);
  tp_write_string(w, "description");
  tp_write_text(w, text_member(of, "description"));
  tp_write_string(w, "schema");
  if (tp_value_kind_of(schema) == TP_VALUE_MAP && tp_value_count(schema) > 0) {
    tp_write_value(w, schema);
    return true;
  }
  tp_write_map(w, 1);
  tp_write_string(w, "type");
  tp_write_string(w, "object");
  return true;
}

static bool take_tools(reader *r, tp_text value) {
  tp__ask *ask = r->ask;
  if (tp_value_count(value) == 0) return true;
  if (tp_value_count(value) > TOOLS_MAX) return refuse_ask(r, "tools", "tools has at most %d tools", TOOLS_MAX);
  if (tp_writer_new(NULL, &ask->tools_writer) != TP_OK) return refuse_memory(r);
  tp_write_array(ask->tools_writer, tp_value_count(value));
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
    if (!read_tool(r, walk.value)) return false;
  return tp_writer_finish(ask->tools_writer, &ask->tools) == TP_OK || refuse_memory(r);
}

/* Refuses a choice that demands a call, since it would hold for every request of the turn, also for the one that should
 * give the answer. */
static bool take_tool_choice(reader *r, tp_text value) {
  tp_text word = tp_value_text(value);
  r->no_tools = tp__is_word(word, "none");
  return r->no_tools || tp__is_word(word, "auto") ||
         refuse_ask(r, "tool_choice", "tool_choice is auto or none: this server demands no call");
}

static bool take_parallel(reader *r, tp_text value) {
  r->parameter_count += !tp_value_bool(value, true);
  return true;
}

static bool take_modalities(reader *r, tp_text value) {
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
    if (!tp__is_word(tp_value_text(walk.value), "text"))
      return refuse_ask(r, "modalities", "modalities: this server answers with text");
  return true;
}

/* @param schema  the schema in the format. */
static bool read_format(reader *r, const char *param, tp_text type, tp_text schema) {
  if (type.size == 0 || tp__is_word(type, "text")) return true;
  if (tp__is_word(type, "json_object")) {
    tp__bytes_put_string(&r->ask->schema, "{\"type\":\"object\"}");
  } else if (tp__is_word(type, "json_schema") && tp_value_kind_of(schema) == TP_VALUE_MAP) {
    tp_writer *writer = NULL;
    tp_text json = {0};
    if (tp_writer_new(NULL, &writer) != TP_OK) return refuse_memory(r);
    if (tp_json_encode(schema, writer, &json, NULL) == TP_OK) tp__bytes_put_text(&r->ask->schema, json);
    tp_writer_free(writer);
    if (json.size == 0) return refuse_memory(r);
  } else {
    return refuse_ask(r, param, "%s: the format is text, json_object, or json_schema with a schema", param);
  }
  return !r->ask->schema.failed || refuse_memory(r);
}

static bool take_response_format(reader *r, tp_text value) {
  return read_format(r, "response_format", text_member(value, "type"), member(member(value, "json_schema"), "schema"));
}

/* Passes a parameter to the provider unchanged. */
static bool take_parameter(reader *r, tp_text value) {
  (void)value;
  r->parameter_count++;
  return true;
}

static const field chat_fields[] = {
    {"messages", TP_VALUE_ARRAY, take_messages, NULL},
    {"model", TP_VALUE_TEXT, take_model, NULL},
    {"stream", TP_VALUE_BOOL, take_stream, NULL},
    {"stream_options", TP_VALUE_MAP, take_stream_options, NULL},
    {"response_format", TP_VALUE_MAP, take_response_format, NULL},
    {"tools", TP_VALUE_ARRAY, take_tools, NULL},
    {"functions", TP_VALUE_ARRAY, take_functions, NULL},
    {"tool_choice", TP_VALUE_NONE, take_tool_choice, NULL},
    {"parallel_tool_calls", TP_VALUE_BOOL, take_parallel, NULL},
    {"n", TP_VALUE_INT, take_n, NULL},
    {"logprobs", TP_VALUE_BOOL, take_logprobs, NULL},
    {"modalities", TP_VALUE_ARRAY, take_modalities, NULL},
    {"temperature", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"top_p", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"top_k", TP_VALUE_INT, take_parameter, NULL},
    {"min_p", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"max_tokens", TP_VALUE_INT, take_parameter, NULL},
    {"max_completion_tokens", TP_VALUE_INT, take_parameter, NULL},
    {"presence_penalty", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"frequency_penalty", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"repetition_penalty", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"seed", TP_VALUE_INT, take_parameter, NULL},
    {"stop", TP_VALUE_NONE, take_parameter, NULL},
    {"logit_bias", TP_VALUE_MAP, take_parameter, NULL},
    {"reasoning_effort", TP_VALUE_TEXT, take_parameter, NULL},
    {"verbosity", TP_VALUE_TEXT, take_parameter, NULL},
    /* These have no effect: they are for the accounts and caches of one provider. */
    {"user", TP_VALUE_TEXT, NULL, NULL},
    {"metadata", TP_VALUE_MAP, NULL, NULL},
    {"store", TP_VALUE_BOOL, NULL, NULL},
    {"service_tier", TP_VALUE_TEXT, NULL, NULL},
    {"safety_identifier", TP_VALUE_TEXT, NULL, NULL},
    {"prompt_cache_key", TP_VALUE_TEXT, NULL, NULL},
    {"prompt_cache_retention", TP_VALUE_TEXT, NULL, NULL},
};
enum { CHAT_FIELDS = sizeof chat_fields / sizeof *chat_fields };

static const field *field_of(const field *fields, size_t count, tp_text name) {
  for (size_t i = 0; i < count; i++)
    if (tp__is_word(name, fields[i].name)) return &fields[i];
  return NULL;
}

static bool take_field(reader *r, const field *fields, size_t count, tp_text name, tp_text value) {
  const field *f = field_of(fields, count, name);
  if (tp_value_kind_of(value) == TP_VALUE_NULL) return true;
  if (!f) {
    char shown[SHOWN];
    tp__show(shown, sizeof shown, name);
    return tp__refusal_fill(r->refusal, 400, "unknown_parameter", NULL,
                            "Unrecognized request argument supplied: %s. docs/serve.md has those of this server",
                            shown);
  }
  if (!is_kind(value, f->kind))
    return refuse_ask(r, f->name, "%s is %s, not %s", f->name, kind_name(f->kind), kind_name(tp_value_kind_of(value)));
  return !f->take || f->take(r, value);
}

static bool read_parameters(reader *r, const field *fields, size_t count, tp_text body) {
  tp__ask *ask = r->ask;
  r->parameter_count += r->effort.size > 0;
  if (r->parameter_count == 0) return true;
  if (tp_writer_new(NULL, &ask->parameters) != TP_OK) return refuse_memory(r);
  tp_write_map(ask->parameters, r->parameter_count);
  for (tp_value_walk walk = {0}; tp_value_next(body, &walk);) {
    const field *f = field_of(fields, count, walk.key);
    bool is_parallel = f && f->take == take_parallel && !tp_value_bool(walk.value, true);
    if (!f || (f->take != take_parameter && !is_parallel) || tp_value_kind_of(walk.value) == TP_VALUE_NULL) continue;
    if (f->as) tp_write_string(ask->parameters, f->as);
    else tp_write_text(ask->parameters, walk.key);
    tp_write_value(ask->parameters, walk.value);
  }
  if (r->effort.size > 0) {
    tp_write_string(ask->parameters, "reasoning_effort");
    tp_write_text(ask->parameters, r->effort);
  }
  return tp_writer_finish(ask->parameters, &ask->parameters_value) == TP_OK || refuse_memory(r);
}

static bool read_fields(reader *r, const field *fields, size_t count, tp_text body) {
  tp_fault fault = {0};
  tp_text value = {0};
  tp__ask *ask = r->ask;
  if (tp_writer_new(NULL, &ask->body) != TP_OK) return refuse_memory(r);
  tp_status status = tp_json_decode(body, ask->body, &fault);
  if (status == TP_OK) status = tp_writer_finish(ask->body, &value);
  if (status == TP_ERR_NO_MEMORY) return refuse_memory(r);
  if (status != TP_OK)
    return tp__refusal_fill(r->refusal, 400, "invalid_json", NULL, "the body is no JSON that this server reads: %s",
                            fault.message);
  if (tp_value_kind_of(value) != TP_VALUE_MAP) return refuse_ask(r, NULL, "the body is a JSON object");
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
    if (!take_field(r, fields, count, walk.key, walk.value)) return false;
  return read_parameters(r, fields, count, value);
}

/* ---- chat completions ---- */

/* Takes the images of the turn's message as the files of the turn. */
static bool take_files(reader *r, const tp_message *message) {
  tp__ask *ask = r->ask;
  if (message->parts.size == 0) return true;
  if (tp_writer_new(NULL, &ask->files_writer) != TP_OK) return refuse_memory(r);
  tp_write_array(ask->files_writer, tp_value_count(message->parts));
  for (tp_value_walk walk = {0}; tp_value_next(message->parts, &walk);)
    tp_write_value(ask->files_writer, tp_value_get(walk.value, "image"));
  return tp_writer_finish(ask->files_writer, &ask->files) == TP_OK || refuse_memory(r);
}

/* The last message is the turn's text, and the messages before it are the whole conversation. When there is only one
 * message, of the user, a session continues its own history. Results for a turn that does not wait for them any more
 * are handled as any other conversation: the model is asked to go on. */
static bool split_messages(reader *r) {
  tp__ask *ask = r->ask;
  if (ask->message_count == 0) return refuse_ask(r, r->list, "%s is missing", r->list);
  tp_message *last = &ask->messages[ask->message_count - 1];
  bool ends_with_results = last->role == TP_ROLE_TOOL;
  if (last->role != TP_ROLE_USER && !ends_with_results)
    return refuse_ask(r, r->list, "the last message is the user's, or the result of a tool");
  /* The results with which the messages end, or after which only the user's last message follows. */
  size_t end = ask->message_count - !ends_with_results;
  size_t from = end;
  while (from > 0 && ask->messages[from - 1].role == TP_ROLE_TOOL) from--;
  ask->result_at = from;
  ask->results = end - from;
  if (!ends_with_results) {
    if (last->text.size == 0 && last->parts.size == 0) return refuse_ask(r, r->list, "the last message is empty");
    if (!take_files(r, last)) return false;
    tp__bytes_put_text(&ask->text, last->text);
    ask->message_count--;
  }
  ask->goes_on = !ends_with_results;
  for (size_t i = 0; i < ask->message_count; i++) ask->goes_on &= ask->messages[i].role == TP_ROLE_SYSTEM;
  for (size_t i = 0; ask->goes_on && i < ask->message_count; i++) {
    if (i > 0) tp__bytes_put(&ask->system, "\n\n", 2);
    tp__bytes_put_text(&ask->system, ask->messages[i].text);
  }
  if (r->no_tools) ask->tools = (tp_text){0};
  return (!ask->text.failed && !ask->system.failed) || refuse_memory(r);
}

bool tp__ask_read_chat(tp__ask *ask, tp_text body, tp__refusal *refusal) {
  reader r = {.ask = ask, .refusal = refusal, .list = "messages"};
  assert(!ask->body && ask->message_count == 0);
  if (!read_fields(&r, chat_fields, CHAT_FIELDS, body)) return false;
  if (!decode_arguments(&r)) return false;
  name_results(ask);
  return split_messages(&r);
}

/* ---- responses ---- */

static bool take_instructions(reader *r, tp_text value) {
  r->ask->instructions = tp_value_text(value);
  return true;
}

static bool take_previous(reader *r, tp_text value) {
  r->ask->previous = tp_value_text(value);
  return true;
}

static bool take_conversation(reader *r, tp_text value) {
  r->ask->session = tp_value_kind_of(value) == TP_VALUE_MAP ? text_member(value, "id") : tp_value_text(value);
  return r->ask->session.size > 0 || refuse_ask(r, "conversation", "conversation is a string or an object with an id");
}

static bool take_store(reader *r, tp_text value) {
  r->ask->stores = tp_value_bool(value, true);
  return true;
}

static bool take_background(reader *r, tp_text value) {
  return !tp_value_bool(value, false) ||
         refuse_ask(r, "background", "background responses are not given by this server");
}

static bool take_reasoning(reader *r, tp_text value) {
  r->effort = text_member(value, "effort");
  return true;
}

static bool take_text(reader *r, tp_text value) {
  tp_text format = member(value, "format");
  return read_format(r, "text", text_member(format, "type"), member(format, "schema"));
}

static bool take_max_calls(reader *r, tp_text value) {
  int64_t count = tp_value_int(value, 0);
  if (count < 1 || count > INT32_MAX) return refuse_ask(r, "max_tool_calls", "max_tool_calls is at least 1");
  r->ask->tool_calls_max = (uint32_t)count;
  return true;
}

/* The kind of an item of an input. */
typedef enum item_kind { ITEM_NONE, ITEM_MESSAGE, ITEM_CALL, ITEM_RESULT, ITEM_REASONING } item_kind;

static item_kind item_of(tp_text item) {
  tp_text type = text_member(item, "type");
  if (tp__is_word(type, "message") || (type.size == 0 && text_member(item, "role").size > 0)) return ITEM_MESSAGE;
  if (tp__is_word(type, "function_call")) return ITEM_CALL;
  if (tp__is_word(type, "function_call_output")) return ITEM_RESULT;
  return tp__is_word(type, "reasoning") ? ITEM_REASONING : ITEM_NONE;
}

static tp_message *add_message(reader *r, tp_role role) {
  tp__ask *ask = r->ask;
  tp_message *message = &ask->messages[ask->message_count];
  *message = (tp_message){.struct_size = sizeof *message, .role = role};
  ask->message_list[ask->message_count++] = message;
  return message;
}

/* Adds a call to the message of the assistant before it, or to a new one. */
static bool read_call_item(reader *r, tp_text item) {
  tp__ask *ask = r->ask;
  tp_message *last = ask->message_count > 0 ? &ask->messages[ask->message_count - 1] : NULL;
  if (!last || last->role != TP_ROLE_ASSISTANT) last = add_message(r, TP_ROLE_ASSISTANT);
  tp_tool_call *call = &ask->calls[ask->call_count];
  *call = (tp_tool_call){.struct_size = sizeof *call,
                         .id = text_member(item, "call_id"),
                         .name = text_member(item, "name"),
                         .arguments = text_member(item, "arguments"),
                         .malformed = true};
  if (call->id.size == 0 || call->name.size == 0)
    return refuse_ask(r, "input", "%s: a function_call has a call_id and a name", r->where);
  if (!last->calls) last->calls = ask->call_list + ask->call_count;
  ask->call_list[ask->call_count++] = call;
  last->call_count++;
  return true;
}

static bool read_item(reader *r, tp_text item, item_kind kind) {
  tp__ask *ask = r->ask;
  tp_text role = text_member(item, "role");
  tp_role of = kind == ITEM_RESULT ? TP_ROLE_TOOL : role_of(role);
  if (kind == ITEM_CALL) return read_call_item(r, item);
  if (!of || (kind == ITEM_MESSAGE && of == TP_ROLE_TOOL))
    return refuse_ask(r, "input", "%s.role is system, developer, user or assistant, not '%.*s'", r->where,
                      tp__cut(role, SHOWN), role.size > 0 ? role.data : "");
  tp_message *message = add_message(r, of);
  tp__bytes *text = &ask->texts[ask->message_count - 1];
  if (!read_content(r, member(item, kind == ITEM_RESULT ? "output" : "content"), text)) return false;
  message->text = tp__bytes_text(text);
  if (kind == ITEM_RESULT) message->call_id = text_member(item, "call_id");
  if (kind == ITEM_RESULT && message->call_id.size == 0)
    return refuse_ask(r, "input", "%s.call_id is missing", r->where);
  return !text->failed || refuse_memory(r);
}

static bool read_items(reader *r, tp_text items) {
  size_t count = tp_value_count(items), i = 0;
  r->message_of = tp__heap_alloc(count * sizeof *r->message_of);
  r->item_count = count;
  if (!r->message_of) return refuse_memory(r);
  for (tp_value_walk walk = {0}; tp_value_next(items, &walk); i++) {
    item_kind kind = item_of(walk.value);
    tp_text type = text_member(walk.value, "type");
    snprintf(r->where, sizeof r->where, "input[%zu]", i);
    if (kind == ITEM_NONE)
      return refuse_ask(r, "input", "%s: an item of type '%.*s' is not taken", r->where, tp__cut(type, SHOWN),
                        type.size > 0 ? type.data : "");
    bool has_content = kind == ITEM_MESSAGE || kind == ITEM_RESULT;
    if (!has_content) tp_write_array(r->ask->parts, 0);
    if (kind != ITEM_REASONING && !read_item(r, walk.value, kind)) return false;
    r->message_of[i] = r->ask->message_count > 0 ? r->ask->message_count - 1 : 0;
  }
  return finish_parts(r);
}

static bool take_input(reader *r, tp_text input) {
  tp__ask *ask = r->ask;
  tp_value_kind kind = tp_value_kind_of(input);
  size_t count = tp_value_count(input), calls = 0;
  if (kind == TP_VALUE_TEXT) {
    if (!begin_messages(r, 1, 0)) return false;
    tp_message *message = add_message(r, TP_ROLE_USER);
    tp__bytes_put_text(&ask->texts[0], tp_value_text(input));
    message->text = tp__bytes_text(&ask->texts[0]);
    return !ask->texts[0].failed || refuse_memory(r);
  }
  if (kind != TP_VALUE_ARRAY || count == 0 || count > MESSAGES_MAX)
    return refuse_ask(r, "input", "input is a string, or an array of 1 to %d items", MESSAGES_MAX);
  for (tp_value_walk walk = {0}; tp_value_next(input, &walk);) calls += item_of(walk.value) == ITEM_CALL;
  return begin_messages(r, count, calls) && read_items(r, input);
}

static const field response_fields[] = {
    {"input", TP_VALUE_NONE, take_input, NULL},
    {"model", TP_VALUE_TEXT, take_model, NULL},
    {"instructions", TP_VALUE_TEXT, take_instructions, NULL},
    {"stream", TP_VALUE_BOOL, take_stream, NULL},
    {"previous_response_id", TP_VALUE_TEXT, take_previous, NULL},
    {"conversation", TP_VALUE_NONE, take_conversation, NULL},
    {"store", TP_VALUE_BOOL, take_store, NULL},
    {"background", TP_VALUE_BOOL, take_background, NULL},
    {"text", TP_VALUE_MAP, take_text, NULL},
    {"reasoning", TP_VALUE_MAP, take_reasoning, NULL},
    {"tools", TP_VALUE_ARRAY, take_tools, NULL},
    {"tool_choice", TP_VALUE_NONE, take_tool_choice, NULL},
    {"parallel_tool_calls", TP_VALUE_BOOL, take_parallel, NULL},
    {"max_tool_calls", TP_VALUE_INT, take_max_calls, NULL},
    {"temperature", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"top_p", TP_VALUE_DOUBLE, take_parameter, NULL},
    {"max_output_tokens", TP_VALUE_INT, take_parameter, "max_tokens"},
    /* These have no effect: they are for the accounts, caches and answers of one provider. */
    {"include", TP_VALUE_ARRAY, NULL, NULL},
    {"stream_options", TP_VALUE_MAP, NULL, NULL},
    {"truncation", TP_VALUE_TEXT, NULL, NULL},
    {"user", TP_VALUE_TEXT, NULL, NULL},
    {"metadata", TP_VALUE_MAP, NULL, NULL},
    {"service_tier", TP_VALUE_TEXT, NULL, NULL},
    {"safety_identifier", TP_VALUE_TEXT, NULL, NULL},
    {"prompt_cache_key", TP_VALUE_TEXT, NULL, NULL},
    {"prompt_cache_retention", TP_VALUE_TEXT, NULL, NULL},
};
enum { RESPONSE_FIELDS = sizeof response_fields / sizeof *response_fields };

/* Puts the instructions before the system messages of the input. */
static bool join_instructions(reader *r) {
  tp__ask *ask = r->ask;
  tp__bytes joined = {0};
  if (ask->instructions.size == 0) return true;
  tp__bytes_put_text(&joined, ask->instructions);
  if (ask->system.size > 0) tp__bytes_put(&joined, "\n\n", 2);
  tp__bytes_put_text(&joined, tp__bytes_text(&ask->system));
  tp__bytes_fini(&ask->system);
  ask->system = joined;
  return !joined.failed || refuse_memory(r);
}

static bool read_response(reader *r, tp_text body) {
  tp__ask *ask = r->ask;
  if (!read_fields(r, response_fields, RESPONSE_FIELDS, body) || !decode_arguments(r)) return false;
  name_results(ask);
  if (!split_messages(r) || !join_instructions(r)) return false;
  if (ask->previous.size > 0 && ask->session.size > 0)
    return refuse_ask(r, "previous_response_id", "give previous_response_id or conversation, not both");
  if (ask->previous.size > 0 && !ask->goes_on && ask->results == 0)
    return refuse_ask(r, "input",
                      "with previous_response_id the input has one message of the user, or results of calls");
  return true;
}

bool tp__ask_read_response(tp__ask *ask, tp_text body, tp__refusal *refusal) {
  reader r = {.ask = ask, .refusal = refusal, .list = "input"};
  assert(!ask->body && ask->message_count == 0);
  ask->stores = true;
  bool reads = read_response(&r, body);
  tp__heap_free(r.message_of, r.item_count * sizeof *r.message_of);
  return reads;
}

void tp__ask_fini(tp__ask *ask) {
  tp_writer_free(ask->body);
  tp_writer_free(ask->parameters);
  tp_writer_free(ask->arguments);
  tp_writer_free(ask->tools_writer);
  tp_writer_free(ask->parts);
  tp_writer_free(ask->files_writer);
  tp__bytes_fini(&ask->text);
  tp__bytes_fini(&ask->system);
  tp__bytes_fini(&ask->schema);
  for (size_t i = 0; ask->texts && i < ask->message_capacity; i++) tp__bytes_fini(&ask->texts[i]);
  tp__heap_free(ask->texts, ask->message_capacity * sizeof *ask->texts);
  tp__heap_free(ask->messages, ask->message_capacity * sizeof *ask->messages);
  tp__heap_free(ask->message_list, ask->message_capacity * sizeof *ask->message_list);
  tp__heap_free(ask->calls, ask->call_capacity * sizeof *ask->calls);
  tp__heap_free(ask->call_list, ask->call_capacity * sizeof *ask->call_list);
  *ask = (tp__ask){0};
}
