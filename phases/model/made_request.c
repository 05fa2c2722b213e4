/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model/made_request.h"

#include "phases/model/messages.h"
#include "runtime/base/bug.h"
#include "runtime/value/value.h"

/* ---- life ---- */

tp__made_request *tp__made_request_new(const tp_allocator *allocator) {
  tp__made_request *made = tp__alloc_zero(allocator, sizeof *made);
  if (!made) return NULL;
  made->allocator = allocator;
  tp__arena_init(&made->arena, allocator, NULL, 0, 0);
  return made;
}

void tp__made_request_free(tp__made_request *made) {
  if (!made) return;
  tp__past_view_fini(&made->view);
  tp__arena_fini(&made->arena);
  tp__release(made->allocator, made, sizeof *made);
}

/* ---- writing ---- */

static tp_status finish_request_value(tp__made_request *made, tp_writer *writer, tp_text *ret_value) {
  tp_text value;
  tp_status status = tp_writer_finish(writer, &value);
  if (status == TP_OK && !tp__arena_text(&made->arena, value, ret_value)) status = TP_ERR_NO_MEMORY;
  tp__value_writer_fini(writer);
  return status;
}

static void write_calls(tp_writer *writer, const tp_message *message) {
  tp_write_string(writer, "calls");
  tp_write_array(writer, message->call_count);
  for (size_t i = 0; i < message->call_count; i++) {
    const tp_tool_call *call = message->calls[i];
    tp_write_map(writer, call->malformed ? 4 : 3);
    tp_write_string(writer, "id");
    tp_write_text(writer, call->id);
    tp_write_string(writer, "tool");
    tp_write_text(writer, call->name);
    if (call->malformed) {
      tp_write_string(writer, "malformed");
      tp_write_bool(writer, true);
    }
    tp_write_string(writer, "arguments");
    if (call->malformed) tp_write_text(writer, call->arguments);
    else tp_write_value(writer, call->arguments);
  }
}

static void write_message_result(tp_writer *writer, const tp_message *message) {
  tp_write_string(writer, "call_id");
  tp_write_text(writer, message->call_id);
  tp_write_string(writer, "tool");
  tp_write_text(writer, message->name);
  tp_write_string(writer, "is_error");
  tp_write_bool(writer, message->is_error);
  if (message->value.size == 0) return;
  tp_write_string(writer, "value");
  tp_write_value(writer, message->value);
}

static void write_past_message(tp_writer *writer, const tp_message *message, size_t index) {
  bool is_result = message->role == TP_ROLE_TOOL;
  size_t keys = 3 + (message->call_count > 0) + (is_result ? 3 + (size_t)(message->value.size > 0) : 0) +
                (message->parts.size > 0);
  tp_write_map(writer, keys);
  tp_write_string(writer, "id");
  tp_write_int(writer, (int64_t)index);
  tp_write_string(writer, "role");
  tp_write_string(writer, tp__role_name(message->role));
  tp_write_string(writer, "text");
  tp_write_text(writer, message->text);
  if (message->call_count > 0) write_calls(writer, message);
  if (is_result) write_message_result(writer, message);
  if (message->parts.size == 0) return;
  tp_write_string(writer, "parts");
  tp_write_value(writer, message->parts);
}

tp_status tp__made_request_write_messages(tp__made_request *made, tp_text *ret_value) {
  tp_writer writer;
  tp__value_writer_init(&writer, made->allocator);
  tp_write_array(&writer, made->request.message_count);
  for (size_t i = 0; i < made->request.message_count; i++) write_past_message(&writer, made->request.messages[i], i);
  return finish_request_value(made, &writer, ret_value);
}

tp_status tp__made_request_write_tools(tp__made_request *made, tp_text *ret_value) {
  tp_writer w, *writer = &w;
  tp__value_writer_init(writer, made->allocator);
  tp_write_array(writer, made->request.tool_count);
  for (size_t i = 0; i < made->request.tool_count; i++) {
    const tp_tool *tool = made->request.tools[i];
    tp_write_map(writer, (size_t)1 + (tool->description != NULL) + (tool->schema.size > 0));
    tp_write_string(writer, "name");
    tp_write_string(writer, tool->name);
    if (tool->description) {
      tp_write_string(writer, "description");
      tp_write_string(writer, tool->description);
    }
    if (tool->schema.size == 0) continue;
    tp_write_string(writer, "schema");
    tp_write_value(writer, tool->schema);
  }
  return finish_request_value(made, writer, ret_value);
}

/* ---- reading messages ---- */

static tp_role role_of(tp_text name) {
  tp_role role = TP_ROLE_USER;
  while (role < TP_ROLE_SYSTEM && !tp_text_is(name, tp__role_name(role))) role++;
  return role;
}

static tp_text arguments_of(tp_text call, bool malformed) {
  tp_text arguments = tp_value_get(call, "arguments");
  if (malformed) return tp_value_text(arguments);
  return arguments.size > 0 ? arguments : (tp_text){"\x80", 1};
}

/* They point into the value. */
static tp_status read_message_calls(tp__arena *arena, tp_text value, const tp_tool_call *const **ret_calls,
                                    size_t *ret_count) {
  size_t count = tp_value_count(value), i = 0;
  *ret_count = 0;
  *ret_calls = NULL;
  if (count == 0) return TP_OK;
  tp_tool_call *calls = tp__arena_zero(arena, count * sizeof *calls);
  const tp_tool_call **list = tp__arena_alloc(arena, count * sizeof *list);
  if (!calls || !list) return TP_ERR_NO_MEMORY;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); i++) {
    bool malformed = tp_value_bool(tp_value_get(walk.value, "malformed"), false);
    calls[i] = (tp_tool_call){.struct_size = sizeof *calls,
                              .id = tp_value_text(tp_value_get(walk.value, "id")),
                              .name = tp_value_text(tp_value_get(walk.value, "tool")),
                              .malformed = malformed,
                              .arguments = arguments_of(walk.value, malformed)};
    list[i] = &calls[i];
  }
  *ret_calls = list;
  *ret_count = count;
  return TP_OK;
}

static bool same_calls(const tp_message *a, const tp_message *b) {
  bool same = a->call_count == b->call_count;
  for (size_t i = 0; same && i < a->call_count; i++)
    same = tp_text_equal(a->calls[i]->id, b->calls[i]->id) && tp_text_equal(a->calls[i]->name, b->calls[i]->name) &&
           a->calls[i]->malformed == b->calls[i]->malformed &&
           tp_text_equal(a->calls[i]->arguments, b->calls[i]->arguments);
  return same;
}

static bool same_message(const tp_message *a, const tp_message *b) {
  return a->role == b->role && a->is_error == b->is_error && tp_text_equal(a->text, b->text) &&
         tp_text_equal(a->call_id, b->call_id) && tp_text_equal(a->name, b->name) &&
         tp_text_equal(a->parts, b->parts) && tp_text_equal(a->value, b->value) && same_calls(a, b);
}

/* The message in a map; when it is unchanged, the request's own message. */
static tp_status read_changed_message(tp__made_request *made, tp_text map, const tp_message **ret_message) {
  int64_t id = tp_value_int(tp_value_get(map, "id"), -1);
  const tp_message *before = NULL;
  if (id >= 0 && (size_t)id < made->request.message_count) before = made->request.messages[id];
  else if (id >= 0) made->ids_unknown++;
  tp_message *message = tp__arena_zero(&made->arena, sizeof *message);
  if (!message) return TP_ERR_NO_MEMORY;
  *message = (tp_message){.struct_size = sizeof *message,
                          .role = role_of(tp_value_text(tp_value_get(map, "role"))),
                          .is_error = tp_value_bool(tp_value_get(map, "is_error"), false),
                          .text = tp_value_text(tp_value_get(map, "text")),
                          .call_id = tp_value_text(tp_value_get(map, "call_id")),
                          .name = tp_value_text(tp_value_get(map, "tool")),
                          .parts = tp_value_get(map, "parts"),
                          .value = tp_value_get(map, "value")};
  if (tp_value_count(message->parts) == 0) message->parts = (tp_text){NULL, 0};
  if (before) message->turn_id = before->turn_id;
  TP__TRY(read_message_calls(&made->arena, tp_value_get(map, "calls"), &message->calls, &message->call_count));
  *ret_message = before && same_message(before, message) ? before : message;
  return TP_OK;
}

/* ---- pairs ---- */

/* The messages that a handler left, with the result of each call. Calls are numbered through all messages. */
typedef struct pairs {
  const tp_message **messages;
  size_t count;
  size_t *first_call; /* of each message */
  size_t *results;    /* for each call: 1 + the index of its result; 0: none */
} pairs;

static bool pairs_init(tp__arena *arena, pairs *p) {
  size_t calls = 0;
  p->first_call = tp__arena_alloc(arena, p->count * sizeof *p->first_call);
  if (!p->first_call) return false;
  for (size_t i = 0; i < p->count; i++) {
    p->first_call[i] = calls;
    calls += p->messages[i]->call_count;
  }
  p->results = tp__arena_zero(arena, (calls + 1) * sizeof *p->results);
  return p->results != NULL;
}

/* A result answers a call of the nearest earlier message with calls, because ids may repeat in a conversation. */
static void find_results(tp__made_request *made, pairs *p) {
  size_t open = SIZE_MAX;
  for (size_t i = 0; i < p->count; i++) {
    const tp_message *message = p->messages[i];
    if (message->call_count > 0) open = i;
    if (message->role != TP_ROLE_TOOL) continue;
    const tp_message *asking = open == SIZE_MAX ? NULL : p->messages[open];
    size_t at = 0, count = asking ? asking->call_count : 0;
    while (at < count &&
           (p->results[p->first_call[open] + at] || !tp_text_equal(asking->calls[at]->id, message->call_id)))
      at++;
    if (at < count) p->results[p->first_call[open] + at] = 1 + i;
    else made->results_left_out++;
  }
}

/* The message with only those calls that have a result. It has no provider_data, which may be about the other calls. */
static tp_status without_calls(tp__made_request *made, const pairs *p, size_t index, const tp_message **ret_message) {
  const tp_message *message = p->messages[index];
  tp_message *copy = tp__arena_alloc(&made->arena, sizeof *copy);
  const tp_tool_call **calls = tp__arena_alloc(&made->arena, message->call_count * sizeof *calls);
  if (!copy || !calls) return TP_ERR_NO_MEMORY;
  *copy = *message;
  copy->provider_data = (tp_text){NULL, 0};
  copy->calls = calls;
  copy->call_count = 0;
  for (size_t i = 0; i < message->call_count; i++)
    if (p->results[p->first_call[index] + i]) calls[copy->call_count++] = message->calls[i];
  made->calls_left_out += (uint32_t)(message->call_count - copy->call_count);
  *ret_message = copy;
  return TP_OK;
}

static bool answers_all(const pairs *p, size_t index) {
  if (TP__BUG(TP__BUG_PAIR_BROKEN)) return true;
  for (size_t i = 0; i < p->messages[index]->call_count; i++)
    if (!p->results[p->first_call[index] + i]) return false;
  return true;
}

static tp_status keep_pairs(tp__made_request *made, pairs *p) {
  const tp_message **list = tp__arena_alloc(&made->arena, p->count * sizeof *list);
  if (!list || !pairs_init(&made->arena, p)) return TP_ERR_NO_MEMORY;
  find_results(made, p);
  size_t count = 0;
  for (size_t i = 0; i < p->count; i++) {
    const tp_message *message = p->messages[i];
    if (message->role == TP_ROLE_TOOL) continue; /* it comes with its call */
    if (!answers_all(p, i)) {
      TP__TRY(without_calls(made, p, i, &message));
      if (message->call_count == 0 && message->text.size == 0 && message->parts.size == 0) {
        made->messages_left_out++;
        continue;
      }
    }
    list[count++] = message;
    for (size_t c = 0; c < p->messages[i]->call_count; c++) {
      size_t result = p->results[p->first_call[i] + c];
      if (result) list[count++] = p->messages[result - 1];
    }
  }
  TP__ASSERT(count <= p->count);
  if (count == 0) return TP_ERR_MALFORMED;
  made->request.messages = list;
  made->request.message_count = count;
  return TP_OK;
}

tp_status tp__made_request_take_messages(tp__made_request *made, tp_text value) {
  pairs p = {.count = 0};
  p.messages = tp__arena_alloc(&made->arena, tp_value_count(value) * sizeof *p.messages);
  if (!p.messages || !tp__arena_text(&made->arena, value, &value)) return TP_ERR_NO_MEMORY;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); p.count++)
    TP__TRY(read_changed_message(made, walk.value, &p.messages[p.count]));
  return keep_pairs(made, &p);
}

/* ---- tools and the answer ---- */

static const tp_tool *find_tool(const tp__made_request *made, tp_text name) {
  for (size_t i = 0; i < made->request.tool_count; i++)
    if (tp_text_is(name, made->request.tools[i]->name)) return made->request.tools[i];
  return NULL;
}

/* A map over the tool that it names. */
static tp_status read_tool(tp__made_request *made, tp_text map, const tp_tool *tool, const tp_tool **ret_tool) {
  TP__ASSERT(tool);
  tp_text description = tp_value_get(map, "description");
  *ret_tool = tool;
  if (tp_value_kind_of(map) != TP_VALUE_MAP) return TP_OK;
  tp_tool *copy = tp__arena_alloc(&made->arena, sizeof *copy);
  if (!copy) return TP_ERR_NO_MEMORY;
  *copy = *tool;
  copy->description = NULL;
  copy->schema = tp_value_get(map, "schema");
  if (description.size > 0) {
    if (!tp__arena_copy(&made->arena, tp_value_text(description), &description)) return TP_ERR_NO_MEMORY;
    copy->description = description.data;
  }
  *ret_tool = copy;
  return TP_OK;
}

tp_status tp__made_request_take_tools(tp__made_request *made, tp_text value) {
  size_t count = 0;
  const tp_tool **tools = tp__arena_alloc(&made->arena, tp_value_count(value) * sizeof *tools);
  if (!tools || !tp__arena_text(&made->arena, value, &value)) return TP_ERR_NO_MEMORY;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
    bool is_map = tp_value_kind_of(walk.value) == TP_VALUE_MAP;
    tp_text name = tp_value_text(is_map ? tp_value_get(walk.value, "name") : walk.value);
    const tp_tool *tool = find_tool(made, name);
    for (size_t i = 0; tool && i < count; i++)
      if (strcmp(tools[i]->name, tool->name) == 0) tool = NULL; /* it is there already */
    if (tool) TP__TRY(read_tool(made, walk.value, tool, &tools[count++]));
    else made->tools_unknown++;
  }
  made->request.tools = count > 0 ? tools : NULL;
  made->request.tool_count = count;
  return TP_OK;
}

static int64_t number(tp_text map, const char *key) { return tp_value_int(tp_value_get(map, key), 0); }

tp_status tp__made_request_take_response(tp__made_request *made, tp_text value) {
  if (tp_value_kind_of(value) == TP_VALUE_NULL) return TP_OK;
  if (!tp__arena_text(&made->arena, value, &value)) return TP_ERR_NO_MEMORY;
  tp_model_response response = {.struct_size = sizeof response,
                                .text = tp_value_text(tp_value_get(value, "text")),
                                .stop_reason = tp_value_text(tp_value_get(value, "stop_reason")),
                                .finish = tp__finish_of_name(tp_value_text(tp_value_get(value, "finish"))),
                                .input_tokens = number(value, "input_tokens"),
                                .output_tokens = number(value, "output_tokens"),
                                .cost_micros = number(value, "cost_micros")};
  TP__TRY(read_message_calls(&made->arena, tp_value_get(value, "calls"), &response.calls, &response.call_count));
  tp__response_finish(&response);
  made->response = response;
  return TP_OK;
}
