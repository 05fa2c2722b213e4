/* SPDX-License-Identifier: Apache-2.0
 *
 * request_shape.c: the check of values with which handlers replace fields of model.request. It is made when a handler
 * replaces a field: a wrong value fails the attempt, and the request stays as it was. */
#include "phases/model/made_request.h"
#include "phases/model/parts.h"

enum { PARAMETERS_BYTES_MAX = 1 << 20, MESSAGES_MAX = 100000 };

static bool is_kind(tp_text value, tp_value_kind kind) { return value.size == 0 || tp_value_kind_of(value) == kind; }

static bool is_filled(tp_text map, const char *key) { return tp_value_text(tp_value_get(map, key)).size > 0; }

/* Whether a map has only these keys. NULL ends the list. */
static bool has_only(tp_text map, const char *const *keys) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    size_t i = 0;
    while (keys[i] && !tp_text_is(walk.key, keys[i])) i++;
    if (!keys[i]) return false;
  }
  return true;
}

/* ---- calls ---- */

static const char *call_flaw(tp_text call, bool needs_id) {
  static const char *const keys[] = {"id", "tool", "arguments", "malformed", NULL};
  if (tp_value_kind_of(call) != TP_VALUE_MAP || !has_only(call, keys))
    return "calls that are maps of id, tool, arguments and malformed";
  if (needs_id && !is_filled(call, "id")) return "calls that each have an id, a text";
  if (!is_kind(tp_value_get(call, "id"), TP_VALUE_TEXT)) return "calls whose id is a text";
  if (tp_value_kind_of(tp_value_get(call, "tool")) != TP_VALUE_TEXT || !is_filled(call, "tool"))
    return "calls whose tool is the name of a tool";
  tp_text malformed = tp_value_get(call, "malformed");
  if (!is_kind(malformed, TP_VALUE_BOOL)) return "calls whose malformed is a bool";
  bool is_text = tp_value_bool(malformed, false);
  return is_kind(tp_value_get(call, "arguments"), is_text ? TP_VALUE_TEXT : TP_VALUE_MAP)
             ? NULL
             : "calls whose arguments are a map, or, with malformed, a text";
}

static const char *calls_flaw(tp_text calls, bool need_ids) {
  if (calls.size == 0) return NULL;
  if (tp_value_kind_of(calls) != TP_VALUE_ARRAY) return "calls that are an array";
  for (tp_value_walk walk = {0}; tp_value_next(calls, &walk);) {
    const char *flaw = call_flaw(walk.value, need_ids);
    if (flaw) return flaw;
  }
  return NULL;
}

/* ---- messages ---- */

static const char *message_flaw(tp_text message) {
  static const char *const of_system[] = {"id", "role", "text", NULL};
  static const char *const of_user[] = {"id", "role", "text", "parts", NULL};
  static const char *const of_assistant[] = {"id", "role", "text", "calls", NULL};
  static const char *const of_tool[] = {"id", "role", "text", "call_id", "tool", "is_error", "value", "parts", NULL};
  if (tp_value_kind_of(message) != TP_VALUE_MAP) return "an array of maps, one for each message";
  tp_text role = tp_value_text(tp_value_get(message, "role"));
  if (tp_value_kind_of(tp_value_get(message, "text")) != TP_VALUE_TEXT) return "messages that each have a text";
  if (tp_value_int(tp_value_get(message, "id"), tp_value_get(message, "id").size > 0 ? -1 : 0) < 0)
    return "messages whose id is the number of a message";
  if (tp_text_is(role, "system")) return has_only(message, of_system) ? NULL : "messages of the system of id and text";
  if (tp_text_is(role, "assistant"))
    return has_only(message, of_assistant) ? calls_flaw(tp_value_get(message, "calls"), true)
                                           : "messages of the assistant of id, text and calls";
  tp_text parts = tp_value_get(message, "parts");
  if (parts.size > 0 && !tp__parts_valid(parts)) return "messages whose parts are an array of parts (turnphase/part.h)";
  if (tp_text_is(role, "user")) return has_only(message, of_user) ? NULL : "messages of a user of id, text and parts";
  if (!tp_text_is(role, "tool")) return "messages whose role is user, assistant, tool or system";
  if (!has_only(message, of_tool)) return "messages of a tool of id, text, call_id, tool, is_error, value and parts";
  if (!is_filled(message, "call_id")) return "messages of a tool that each have a call_id";
  return is_kind(tp_value_get(message, "tool"), TP_VALUE_TEXT) &&
                 is_kind(tp_value_get(message, "is_error"), TP_VALUE_BOOL)
             ? NULL
             : "messages of a tool whose tool is a text and is_error a bool";
}

static const char *messages_flaw(tp_text value) {
  if (tp_value_kind_of(value) != TP_VALUE_ARRAY) return "an array of maps, one for each message";
  if (tp_value_count(value) == 0) return "at least one message";
  if (tp_value_count(value) > MESSAGES_MAX) return "at most 100,000 messages";
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
    const char *flaw = message_flaw(walk.value);
    if (flaw) return flaw;
  }
  return NULL;
}

/* ---- tools, parameters, the answer ---- */

static const char *tools_flaw(tp_text value) {
  static const char *const keys[] = {"name", "description", "schema", NULL};
  if (tp_value_kind_of(value) != TP_VALUE_ARRAY)
    return "an array of tools: names, or maps of name, description, schema";
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
    if (tp_value_kind_of(walk.value) == TP_VALUE_TEXT) continue;
    if (tp_value_kind_of(walk.value) != TP_VALUE_MAP || !has_only(walk.value, keys))
      return "an array of tools: names, or maps of name, description, schema";
    if (tp_value_kind_of(tp_value_get(walk.value, "name")) != TP_VALUE_TEXT) return "tools that each have a name";
    if (!is_kind(tp_value_get(walk.value, "description"), TP_VALUE_TEXT)) return "tools whose description is a text";
    if (!is_kind(tp_value_get(walk.value, "schema"), TP_VALUE_MAP)) return "tools whose schema is a map";
  }
  return NULL;
}

static const char *parameters_flaw(tp_text value) {
  return tp_value_kind_of(value) == TP_VALUE_MAP && value.size <= PARAMETERS_BYTES_MAX ? NULL
                                                                                       : "a map of at most 1 MiB";
}

tp_finish tp__finish_of_name(tp_text name) {
  for (tp_finish finish = TP_FINISH_STOP; finish <= TP_FINISH_PAUSE; finish++)
    if (tp_text_is(name, tp_finish_name(finish))) return finish;
  return TP_FINISH_UNKNOWN;
}

static const char *response_flaw(tp_text value) {
  static const char *const keys[] = {"text",         "calls",         "stop_reason", "finish",
                                     "input_tokens", "output_tokens", "cost_micros", NULL};
  if (tp_value_kind_of(value) == TP_VALUE_NULL) return NULL;
  if (tp_value_kind_of(value) != TP_VALUE_MAP || !has_only(value, keys))
    return "null, or a map of text, calls, stop_reason, finish, input_tokens, output_tokens and cost_micros";
  for (size_t i = 4; keys[i]; i++)
    if (!is_kind(tp_value_get(value, keys[i]), TP_VALUE_INT)) return "a map whose tokens and cost are integers";
  if (!is_kind(tp_value_get(value, "text"), TP_VALUE_TEXT) ||
      !is_kind(tp_value_get(value, "stop_reason"), TP_VALUE_TEXT))
    return "a map whose text and stop_reason are texts";
  tp_text finish = tp_value_get(value, "finish"), calls = tp_value_get(value, "calls");
  tp_finish known = tp__finish_of_name(tp_value_text(finish));
  if (finish.size > 0 && (known == TP_FINISH_UNKNOWN || known == TP_FINISH_ERROR))
    return "a map whose finish is stop, length, filter, refusal, tool_calls or pause";
  if (tp_value_get(value, "text").size == 0 && tp_value_count(calls) == 0) return "a map with a text or calls";
  return calls_flaw(calls, false);
}

const char *tp__request_flaw(const tp_field *field) {
  switch (field->id) {
    case TP_FIELD_MESSAGES:
      return messages_flaw(field->text);
    case TP_FIELD_TOOLS:
      return tools_flaw(field->text);
    case TP_FIELD_PARAMETERS:
      return parameters_flaw(field->text);
    default:
      TP__ASSERT(field->id == TP_FIELD_RESPONSE);
      return response_flaw(field->text);
  }
}
