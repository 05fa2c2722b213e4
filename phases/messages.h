/* SPDX-License-Identifier: Apache-2.0
 *
 * messages: a growing list of messages, which lie with all their texts in one arena. */
#ifndef TP__MESSAGES_H
#define TP__MESSAGES_H

#include "phases/model.h"
#include "runtime/os/os.h"

typedef struct tp__messages {
  const tp_allocator *allocator;
  tp__arena arena;
  tp_message **items; /* the list moves when it grows; the messages and their texts do not */
  size_t count, capacity;
} tp__messages;

void tp__messages_init(tp__messages *messages, const tp_allocator *allocator);
void tp__messages_fini(tp__messages *messages);
/** Copies deeply. On failure nothing is added. */
tp_status tp__messages_add(tp__messages *messages, const tp_message *message);
/** Copies all of a list behind the last message without counting them: who adds their number to `count`, before
 *  anything else is added, adds them, and that cannot fail. */
tp_status tp__messages_stage(tp__messages *messages, const tp__messages *more);
/** Copies calls deeply into an arena, as a list of structs of this library's size. They are such as
 *  tp__tool_call_read() accepts. @return false without memory. */
bool tp__calls_copy(tp__arena *arena, const tp_tool_call *const *calls, size_t count,
                    const tp_tool_call *const **ret_calls);
/** Deep copy into an arena, of a message such as tp__message_read() accepts. */
bool tp__message_copy(tp__arena *arena, const tp_message *message, tp_message *ret_copy);

#endif
