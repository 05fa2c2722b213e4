/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model/messages.h"

const char *tp__role_name(tp_role role) {
  static const char *const names[] = {[TP_ROLE_USER] = "user",
                                      [TP_ROLE_ASSISTANT] = "assistant",
                                      [TP_ROLE_TOOL] = "tool",
                                      [TP_ROLE_END] = "end",
                                      [TP_ROLE_SYSTEM] = "system"};
  return TP__NAME_AT(names, role, "end");
}

bool tp__calls_copy(tp__arena *arena, const tp_tool_call *const *calls, size_t count,
                    const tp_tool_call *const **ret_calls) {
  *ret_calls = NULL;
  if (count == 0) return true;
  tp_tool_call *copies = tp__arena_alloc(arena, count * sizeof *copies);
  const tp_tool_call **list = tp__arena_alloc(arena, count * sizeof *list);
  if (!copies || !list) return false;
  for (size_t i = 0; i < count; i++) {
    tp_tool_call *copy = &copies[i];
    if (tp__tool_call_read(calls[i], copy, NULL) != TP_OK || !tp__arena_text(arena, copy->id, &copy->id) ||
        !tp__arena_text(arena, copy->name, &copy->name) || !tp__arena_text(arena, copy->arguments, &copy->arguments))
      return false;
    list[i] = copy;
  }
  *ret_calls = list;
  return true;
}

bool tp__message_copy(tp__arena *arena, const tp_message *message, tp_message *ret_copy) {
  *ret_copy = *message;
  ret_copy->struct_size = sizeof *ret_copy;
  ret_copy->calls = NULL;
  return tp__arena_text(arena, message->turn_id, &ret_copy->turn_id) &&
         tp__arena_text(arena, message->text, &ret_copy->text) &&
         tp__arena_text(arena, message->parts, &ret_copy->parts) &&
         tp__arena_text(arena, message->value, &ret_copy->value) &&
         tp__arena_text(arena, message->provider_data, &ret_copy->provider_data) &&
         tp__arena_text(arena, message->call_id, &ret_copy->call_id) &&
         tp__arena_text(arena, message->name, &ret_copy->name) &&
         tp__arena_text(arena, message->ending, &ret_copy->ending) &&
         (message->call_count == 0 || tp__calls_copy(arena, message->calls, message->call_count, &ret_copy->calls));
}

static bool reserve_message(tp__messages *messages) {
  enum { CAPACITY_MIN = 8 };
  if (messages->count < messages->capacity) return true;
  size_t capacity = messages->capacity ? 2 * messages->capacity : CAPACITY_MIN;
  tp_message **items = tp__arena_alloc(messages->arena, capacity * sizeof *items);
  if (!items) return false;
  if (messages->count > 0) memcpy(items, messages->items, messages->count * sizeof *items);
  messages->items = items;
  messages->capacity = capacity;
  return true;
}

tp_status tp__messages_add(tp__messages *messages, const tp_message *message) {
  tp_message *copy = reserve_message(messages) ? tp__arena_alloc(messages->arena, sizeof *copy) : NULL;
  if (!copy || !tp__message_copy(messages->arena, message, copy)) return TP_ERR_NO_MEMORY;
  messages->items[messages->count++] = copy;
  return TP_OK;
}
