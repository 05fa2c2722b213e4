/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/messages.h"

void tp__messages_init(tp__messages *messages, const tp_allocator *allocator) {
  *messages = (tp__messages){.allocator = allocator};
  tp__arena_init(&messages->arena, allocator, NULL, 0, 0);
}

void tp__messages_fini(tp__messages *messages) {
  tp__arena_fini(&messages->arena);
  tp__release(messages->allocator, messages->items, messages->capacity * sizeof *messages->items);
}

static bool copy_calls(tp__arena *arena, const tp_message *message, tp_message *copy) {
  if (message->call_count == 0) return true;
  tp_tool_call *calls = tp__arena_alloc(arena, message->call_count * sizeof *calls);
  if (!calls) return false;
  for (size_t i = 0; i < message->call_count; i++) {
    calls[i] = message->calls[i];
    if (!tp__arena_text(arena, message->calls[i].id, &calls[i].id) ||
        !tp__arena_text(arena, message->calls[i].name, &calls[i].name) ||
        !tp__arena_text(arena, message->calls[i].arguments, &calls[i].arguments))
      return false;
  }
  copy->calls = calls;
  return true;
}

bool tp__message_copy(tp__arena *arena, const tp_message *message, tp_message *ret_copy) {
  tp_message copy = *message;
  if (!tp__arena_text(arena, message->turn_id, &copy.turn_id) || !tp__arena_text(arena, message->text, &copy.text) ||
      !tp__arena_text(arena, message->call_id, &copy.call_id) || !tp__arena_text(arena, message->name, &copy.name) ||
      !copy_calls(arena, message, &copy))
    return false;
  *ret_copy = copy;
  return true;
}

tp_status tp__messages_add(tp__messages *messages, const tp_message *message) {
  void *items = messages->items;
  TP__TRY(tp__array_grow(messages->allocator, &items, &messages->capacity, messages->count + 1, sizeof(tp_message)));
  messages->items = items;
  if (!tp__message_copy(&messages->arena, message, &messages->items[messages->count])) return TP_ERR_NO_MEMORY;
  messages->count++;
  return TP_OK;
}
