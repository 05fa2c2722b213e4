/* SPDX-License-Identifier: Apache-2.0
 *
 * script_model.c: makes a script model from its YAML form. Every field is read once, with its place for errors. The
 * values of all arguments are written into one array, and each call gets its slice of it. */
#include <string.h>

#include "domains/declared/yaml.h"

/* A script on its way. */
struct script {
  tp__yaml yaml;
  const char *name;
  tp_fault *fault;
  tp_writer *arguments; /* an array: one map for each call */
  tp_model_response *responses;
  const tp_model_response **list; /* their addresses, as the model wants them */
  size_t response_count, responses_size, list_size;
  tp_tool_call *calls;            /* of all responses, in order */
  const tp_tool_call **call_list; /* their addresses */
  size_t call_count, calls_size, call_list_size;
  bool repeat;
};

static tp_status refuse_at(struct script *script, uint32_t index, const char *what) {
  return tp__refuse_at(script->fault, TP_ERR_MALFORMED, script->name, script->yaml.items[index].place, "%s", what);
}

static tp_status refuse_model_memory(struct script *script) {
  return tp__refuse(script->fault, TP_ERR_NO_MEMORY, script->name, "no memory for the script");
}

/* ---- fields of a map ---- */

static const char *value_kind_name(tp_value_kind kind) {
  static const char *const names[] = {
      [TP_VALUE_NULL] = "nothing",   [TP_VALUE_BOOL] = "a bool", [TP_VALUE_INT] = "an integer",
      [TP_VALUE_DOUBLE] = "a float", [TP_VALUE_TEXT] = "text",   [TP_VALUE_ARRAY] = "a list",
      [TP_VALUE_MAP] = "a map"};
  return names[kind]; /* YAML has no others */
}

static tp_status expect_kind(struct script *script, uint32_t index, const char *field, tp_value_kind kind) {
  const tp__yaml_item *item = &script->yaml.items[index];
  if (item->kind == kind) return TP_OK;
  bool is_scalar = item->kind != TP_VALUE_ARRAY && item->kind != TP_VALUE_MAP && item->kind != TP_VALUE_NULL;
  return tp__refuse_at(script->fault, TP_ERR_MALFORMED, script->name, item->place, "%s must be %s, not %s%s", field,
                       value_kind_name(kind), value_kind_name(item->kind),
                       kind == TP_VALUE_TEXT && is_scalar ? ": put it into quotes" : "");
}

/* Finds a field of the given kind; *ret_index is 0 when it is missing. */
static tp_status find_field(struct script *script, uint32_t map, const char *field, tp_value_kind kind,
                            uint32_t *ret_index) {
  *ret_index = tp__yaml_get(&script->yaml, map, field);
  return *ret_index == 0 ? TP_OK : expect_kind(script, *ret_index, field, kind);
}

/* Text that is not there stays as it was. */
static tp_status read_script_field(struct script *script, uint32_t map, const char *field, tp_text *text) {
  uint32_t index;
  tp_status status = find_field(script, map, field, TP_VALUE_TEXT, &index);
  if (status == TP_OK && index != 0) *text = tp__yaml_text(&script->yaml, index);
  return status;
}

static tp_status read_count(struct script *script, uint32_t map, const char *field, int64_t *count) {
  uint32_t index;
  tp_status status = find_field(script, map, field, TP_VALUE_INT, &index);
  if (status != TP_OK || index == 0) return status;
  *count = script->yaml.items[index].as.integer;
  return *count >= 0 ? TP_OK : refuse_at(script, index, "a count must not be negative");
}

/* Checks that the item is a map with only known keys. */
static tp_status expect_map(struct script *script, uint32_t index, const char *what, const char *known) {
  tp_status status = expect_kind(script, index, what, TP_VALUE_MAP);
  if (status != TP_OK) return status;
  return tp__yaml_check_map(&script->yaml, index, what, known, script->name, script->fault);
}

/* ---- the script ---- */

static tp_status read_call_arguments(struct script *script, uint32_t map) {
  uint32_t index;
  tp_status status = find_field(script, map, "arguments", TP_VALUE_MAP, &index);
  if (status != TP_OK) return status;
  if (index != 0) {
    tp__yaml_write(&script->yaml, index, script->arguments);
  } else {
    tp_write_map(script->arguments, 0);
  }
  return TP_OK;
}

static tp_status read_model_call(struct script *script, uint32_t index) {
  tp_tool_call *call = &script->calls[script->call_count];
  call->struct_size = sizeof *call;
  script->call_list[script->call_count++] = call;
  tp_status status = expect_map(script, index, "a tool call", "id, name, arguments");
  if (status == TP_OK) status = read_script_field(script, index, "id", &call->id);
  if (status == TP_OK) status = read_script_field(script, index, "name", &call->name);
  if (status == TP_OK && call->name.size == 0) status = refuse_at(script, index, "a tool call needs a name");
  return status == TP_OK ? read_call_arguments(script, index) : status;
}

static tp_status read_calls(struct script *script, uint32_t response_index, tp_model_response *response) {
  uint32_t list;
  tp_status status = find_field(script, response_index, "tool_calls", TP_VALUE_ARRAY, &list);
  if (status != TP_OK || list == 0) return status;
  response->calls = script->call_list + script->call_count;
  response->call_count = script->yaml.items[list].count;
  for (uint32_t at = list + 1; at < script->yaml.items[list].end && status == TP_OK; at = script->yaml.items[at].end) {
    status = read_model_call(script, at);
  }
  return status;
}

static tp_status read_usage(struct script *script, uint32_t response_index, tp_model_response *response) {
  uint32_t usage = tp__yaml_get(&script->yaml, response_index, "usage");
  if (usage == 0) return TP_OK;
  tp_status status = expect_map(script, usage, "usage", "input_tokens, output_tokens, cost_micros");
  if (status == TP_OK) status = read_count(script, usage, "input_tokens", &response->input_tokens);
  if (status == TP_OK) status = read_count(script, usage, "output_tokens", &response->output_tokens);
  if (status == TP_OK) status = read_count(script, usage, "cost_micros", &response->cost_micros);
  return status;
}

static tp_status read_finish(struct script *script, uint32_t response, tp_finish *finish) {
  uint32_t index;
  tp_status status = find_field(script, response, "finish", TP_VALUE_TEXT, &index);
  if (status != TP_OK || index == 0) return status;
  tp_text name = tp__yaml_text(&script->yaml, index);
  for (tp_finish i = TP_FINISH_STOP; i <= TP_FINISH_PAUSE; i++)
    if (tp__is_word(name, tp_finish_name(i))) *finish = i;
  if (*finish != TP_FINISH_UNKNOWN) return TP_OK;
  return refuse_at(script, index, "finish must be stop, length, filter, refusal, tool_calls, error or pause");
}

/* The keys of a response of which one is required. */
#define ANSWERS "text, tool_calls, finish"

static tp_status read_response(struct script *script, uint32_t index) {
  tp_model_response *response = &script->responses[script->response_count];
  script->list[script->response_count++] = response;
  response->struct_size = sizeof *response;
  tp_status status = expect_map(script, index, "a response", ANSWERS ", stop_reason, usage");
  if (status == TP_OK) status = read_script_field(script, index, "text", &response->text);
  if (status == TP_OK) status = read_calls(script, index, response);
  if (status == TP_OK) status = read_usage(script, index, response);
  if (status == TP_OK) status = read_finish(script, index, &response->finish);
  bool has_finish = response->finish != TP_FINISH_UNKNOWN;
  if (!has_finish) response->stop_reason = tp_text_of(response->call_count > 0 ? "tool_use" : "end_turn");
  if (status == TP_OK) status = read_script_field(script, index, "stop_reason", &response->stop_reason);
  if (status != TP_OK) return status;
  if (has_finish || response->call_count > 0 || tp__yaml_get(&script->yaml, index, "text") != 0) return TP_OK;
  return refuse_at(script, index, "a response needs one of " ANSWERS);
}

/* The most calls that there may be: at least as many as read_calls() will find. */
static size_t count_script_calls(const tp__yaml *yaml, uint32_t list) {
  size_t count = 0;
  for (uint32_t at = list + 1; at < yaml->items[list].end; at = yaml->items[at].end) {
    uint32_t calls = yaml->items[at].kind == TP_VALUE_MAP ? tp__yaml_get(yaml, at, "tool_calls") : 0;
    if (calls != 0) count += yaml->items[calls].count;
  }
  return count;
}

static void *new_array(const struct script *script, size_t count, size_t item_size, size_t *ret_size) {
  *ret_size = (count + 1) * item_size; /* never nothing */
  void *array = script->yaml.allocator->alloc(script->yaml.allocator->ctx, *ret_size);
  if (array) memset(array, 0, *ret_size);
  return array;
}

static tp_status reserve_script(struct script *script, uint32_t list) {
  size_t calls = count_script_calls(&script->yaml, list);
  size_t responses = script->yaml.items[list].count;
  script->responses = new_array(script, responses, sizeof *script->responses, &script->responses_size);
  script->calls = new_array(script, calls, sizeof *script->calls, &script->calls_size);
  script->call_list = new_array(script, calls, sizeof *script->call_list, &script->call_list_size);
  script->list = new_array(script, responses, sizeof *script->list, &script->list_size);
  if (!script->responses || !script->calls || !script->list || !script->call_list) return refuse_model_memory(script);
  if (tp_writer_new(script->yaml.allocator, &script->arguments) != TP_OK) return refuse_model_memory(script);
  tp_write_array(script->arguments, calls);
  return TP_OK;
}

static tp_status read_responses(struct script *script, uint32_t list) {
  tp_status status = reserve_script(script, list);
  for (uint32_t at = list + 1; at < script->yaml.items[list].end && status == TP_OK; at = script->yaml.items[at].end) {
    status = read_response(script, at);
  }
  return status;
}

static tp_status give_arguments(struct script *script) {
  tp_text all;
  tp_status status = tp_writer_finish(script->arguments, &all);
  if (status != TP_OK) {
    return tp__refuse(script->fault, status, script->name, "the arguments of the calls: %s", tp_status_text(status));
  }
  tp_value_walk walk = {0};
  for (size_t i = 0; tp_value_next(all, &walk); i++) script->calls[i].arguments = walk.value;
  return TP_OK;
}

static tp_status read_script(struct script *script) {
  uint32_t repeat, list = 0;
  tp_status status = expect_map(script, 0, "a script", "repeat, responses");
  if (status == TP_OK) status = find_field(script, 0, "repeat", TP_VALUE_BOOL, &repeat);
  if (status == TP_OK && repeat != 0) script->repeat = script->yaml.items[repeat].as.boolean;
  if (status == TP_OK) status = find_field(script, 0, "responses", TP_VALUE_ARRAY, &list);
  if (status == TP_OK && list == 0) status = refuse_at(script, 0, "a script needs the key responses");
  if (status == TP_OK) status = read_responses(script, list);
  return status == TP_OK ? give_arguments(script) : status;
}

static void release_script(struct script *script) {
  const tp_allocator *allocator = script->yaml.allocator;
  if (script->responses) allocator->release(allocator->ctx, script->responses, script->responses_size);
  if (script->list) allocator->release(allocator->ctx, script->list, script->list_size);
  if (script->call_list) allocator->release(allocator->ctx, script->call_list, script->call_list_size);
  if (script->calls) allocator->release(allocator->ctx, script->calls, script->calls_size);
  tp_writer_free(script->arguments);
  tp__yaml_fini(&script->yaml);
}

tp_status tp__script_model_load(tp_text yaml, const char *name, const tp_allocator *allocator, tp_model **ret_model,
                                tp_fault *fault) {
  struct script script = {.name = name, .fault = fault};
  tp_status status = tp__yaml_read(yaml, name, allocator, &script.yaml, fault);
  if (status != TP_OK) return status;
  status = read_script(&script);
  if (status == TP_OK) {
    status = tp_script_model_new(script.list, script.response_count, script.repeat, ret_model, fault);
  }
  release_script(&script);
  return status;
}

tp_status tp_script_model_load(tp_text yaml, const char *name, tp_model **ret_model, tp_fault *fault) {
  return tp__script_model_load(yaml, name, &tp__malloc_allocator, ret_model, fault);
}
