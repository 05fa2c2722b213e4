/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/fit.h"

#include <string.h>

#include "runtime/base/check.h"

static const tp__openai_form *const forms[] = {
    [TP_OPENAI_CHAT] = &tp__openai_form_chat,
    [TP_OPENAI_RESPONSES] = &tp__openai_form_responses,
    [TP_OPENAI_MESSAGES] = &tp__openai_form_messages,
};
enum { FORMS = sizeof forms / sizeof *forms };

const tp__openai_form *tp__openai_form_of(tp_openai_api api) { return (unsigned)api < FORMS ? forms[api] : NULL; }

const char *tp_openai_api_name(tp_openai_api api) {
  const tp__openai_form *form = tp__openai_form_of(api);
  return form ? form->name : "unknown";
}

tp_status tp_openai_api_find(const char *name, tp_openai_api *ret_api) {
  for (unsigned i = 0; name && i < FORMS; i++) {
    if (strcmp(name, forms[i]->name) != 0) continue;
    *ret_api = (tp_openai_api)i;
    return TP_OK;
  }
  return TP_ERR_NOT_FOUND;
}

/* ---- writing ---- */

void tp__openai_write_model(tp__openai_draft_request *draft) { tp_write_text(draft->writer, draft->model); }
void tp__openai_write_stream(tp__openai_draft_request *draft) { tp_write_bool(draft->writer, draft->streams); }

/* ---- the schema of an answer ---- */

enum { CLOSED_DEPTH_MAX = 10 };

static bool has_name(tp_text names, tp_text name) {
  for (tp_value_walk walk = {0}; tp_value_next(names, &walk);)
    if (tp__same(tp_value_text(walk.value), name)) return true;
  return false;
}

static bool is_closed(tp_text schema, unsigned depth);

static bool are_closed(tp_text schemas, unsigned depth) {
  for (tp_value_walk walk = {0}; tp_value_next(schemas, &walk);)
    if (!is_closed(walk.value, depth)) return false;
  return true;
}

static bool is_plain_keyword(tp_text name) {
  static const char *const names[] = {"type",        "properties", "required", "additionalProperties",
                                      "items",       "enum",       "const",    "anyOf",
                                      "description", "title",      "$schema"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tp__is_word(name, names[i])) return true;
  return false;
}

static bool is_closed(tp_text schema, unsigned depth) {
  tp_text properties = tp_value_get(schema, "properties"), items = tp_value_get(schema, "items");
  tp_text others = tp_value_get(schema, "additionalProperties"), required = tp_value_get(schema, "required");
  if (tp_value_kind_of(schema) != TP_VALUE_MAP || depth == 0) return false;
  for (tp_value_walk walk = {0}; tp_value_next(schema, &walk);)
    if (!is_plain_keyword(walk.key)) return false;
  if (properties.size > 0 || tp__is_word(tp_value_text(tp_value_get(schema, "type")), "object")) {
    if (tp_value_kind_of(others) != TP_VALUE_BOOL || tp_value_bool(others, true)) return false;
    for (tp_value_walk walk = {0}; tp_value_next(properties, &walk);)
      if (!has_name(required, walk.key)) return false;
  }
  return are_closed(properties, depth - 1) && are_closed(tp_value_get(schema, "anyOf"), depth - 1) &&
         (items.size == 0 || is_closed(items, depth - 1));
}

bool tp__openai_has_schema(const tp__openai_draft_request *draft) {
  tp_text schema = draft->request->answer_schema;
  return schema.size > 0 && tp__is_word(tp_value_text(tp_value_get(schema, "type")), "object");
}
bool tp__openai_has_closed_schema(const tp__openai_draft_request *draft) {
  return tp__openai_has_schema(draft) && is_closed(draft->request->answer_schema, CLOSED_DEPTH_MAX);
}
void tp__openai_write_schema_pairs(tp__openai_draft_request *draft) {
  tp_write_string(draft->writer, "name");
  tp_write_string(draft->writer, "answer");
  tp_write_string(draft->writer, "schema");
  tp_write_value(draft->writer, draft->request->answer_schema);
  tp_write_string(draft->writer, "strict");
  tp_write_bool(draft->writer, tp__openai_has_closed_schema(draft));
}

/* ---- fields that several forms have ---- */

bool tp__openai_has_tools(const tp__openai_draft_request *draft) { return draft->request->tool_count > 0; }
bool tp__openai_has_system(const tp__openai_draft_request *draft) { return draft->request->system.size > 0; }

void tp__openai_write_pair_text(tp_writer *writer, const char *key, tp_text value) {
  tp_write_string(writer, key);
  tp_write_text(writer, value);
}

void tp__openai_write_pair(tp_writer *writer, const char *key, const char *value) {
  tp__openai_write_pair_text(writer, key, tp_text_of(value));
}

void tp__openai_write_arguments(tp__openai_draft_request *draft, const tp_tool_call *call) {
  assert(!call->malformed); /* the request is fitted */
  if (call->arguments.size == 0) {
    tp_write_string(draft->writer, "{}");
  } else {
    tp_text json = {NULL, 0};
    tp_status status = tp_json_encode(call->arguments, draft->writer, &json, NULL);
    if (status != TP_OK && draft->status == TP_OK) draft->status = status;
    tp_write_text(draft->writer, json);
  }
}

void tp__openai_write_arguments_map(tp__openai_draft_request *draft, const tp_tool_call *call) {
  assert(!call->malformed);
  if (call->arguments.size > 0) tp_write_value(draft->writer, call->arguments);
  else tp_write_map(draft->writer, 0);
}

/* Or that of any object. */
static void write_schema(tp__openai_draft_request *draft, const tp_tool *tool) {
  if (tool->schema.size > 0) {
    tp_write_value(draft->writer, tool->schema);
    return;
  }
  tp_write_map(draft->writer, 2);
  tp__openai_write_pair(draft->writer, "type", "object");
  tp_write_string(draft->writer, "properties");
  tp_write_map(draft->writer, 0);
}

size_t tp__openai_tool_pairs(const tp_tool *tool) { return tool->description ? 3 : 2; }

void tp__openai_write_tool_pairs(tp__openai_draft_request *draft, const tp_tool *tool, const char *schema_key) {
  tp__openai_write_pair(draft->writer, "name", tool->name);
  if (tool->description) tp__openai_write_pair(draft->writer, "description", tool->description);
  tp_write_string(draft->writer, schema_key);
  write_schema(draft, tool);
}

void tp__openai_write_typed(tp_writer *writer, const char *type, const char *key, tp_text value) {
  tp_write_map(writer, 2);
  tp__openai_write_pair(writer, "type", type);
  tp__openai_write_pair_text(writer, key, value);
}

tp_text tp__openai_system(tp__openai_draft_request *draft) {
  tp__bytes_clear(&draft->scratch);
  tp__bytes_put_text(&draft->scratch, draft->request->system);
  for (size_t i = 0; i < draft->request->message_count; i++) {
    const tp_message *message = draft->request->messages[i];
    if (message->role != TP_ROLE_SYSTEM) continue;
    if (draft->scratch.size > 0) tp__bytes_put_string(&draft->scratch, "\n\n");
    tp__bytes_put_text(&draft->scratch, message->text);
  }
  if (draft->scratch.failed) draft->status = TP_ERR_NO_MEMORY;
  return tp__bytes_text(&draft->scratch);
}

size_t tp__openai_write_given(const tp__openai_draft_request *draft, const tp_message *message, size_t at,
                              tp_writer *writer) {
  tp_text items = tp_value_get(tp__openai_own_data(draft->config, message), "items");
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(items, &walk);) {
    tp_text item = tp_value_get(walk.value, "item");
    int64_t place = tp_value_int(tp_value_get(walk.value, "at"), 0);
    if (tp_value_kind_of(item) != TP_VALUE_MAP || (at != SIZE_MAX && place != (int64_t)at)) continue;
    count++;
    if (writer) tp_write_value(writer, item);
  }
  return count;
}

size_t tp__openai_part_count(const tp__openai_draft_request *draft, size_t message) {
  assert(message < draft->request->message_count);
  return draft->first_part[message + 1] - draft->first_part[message];
}

size_t tp__openai_content_count(const tp__openai_draft_request *draft, size_t message) {
  assert(message < draft->request->message_count);
  return (draft->request->messages[message]->text.size > 0) + tp__openai_part_count(draft, message);
}

void tp__openai_write_content(tp__openai_draft_request *draft, size_t message, const tp__openai_content *content) {
  assert(message < draft->request->message_count);
  tp_text text = draft->request->messages[message]->text;
  if (text.size > 0) content->text(draft->writer, text);
  for (size_t i = draft->first_part[message]; i < draft->first_part[message + 1]; i++) {
    const tp__openai_part *part = &draft->parts[i];
    if (part->media) tp__openai_write_media(draft->writer, part->media, content);
    else content->text(draft->writer, part->text);
  }
}

void tp__openai_write_media(tp_writer *writer, const tp__openai_media *media, const tp__openai_content *content) {
  assert(media->kind == TP_PART_IMAGE || media->kind == TP_PART_AUDIO || media->kind == TP_PART_FILE);
  if (media->kind == TP_PART_IMAGE) content->image(writer, media);
  else if (media->kind == TP_PART_AUDIO) content->audio(writer, media);
  else content->file(writer, media);
}

/* ---- reading ---- */

int64_t tp__openai_count(tp_text map, const char *key) { return tp__openai_int(tp_value_get(map, key)); }
tp_text tp__openai_text(tp_text map, const char *key) { return tp_value_text(tp_value_get(map, key)); }

void tp__openai_take_unread(tp__openai_answer *answer, tp_text event) {
  answer->is_unread = true;
  if (tp__openai_looks_like_error(event)) tp__openai_take_error(answer, event);
}

void tp__openai_take_error(tp__openai_answer *answer, tp_text event) {
  tp__openai_fail_value(&answer->failure, "the endpoint broke the answer off", 0, event, answer->secrets);
}
