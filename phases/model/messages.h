/* SPDX-License-Identifier: Apache-2.0
 *
 * messages: a growing list of messages. The list, the messages and all their texts are in one arena, so a pointer into
 * the list is valid as long as the arena. */
#ifndef TP__MESSAGES_H
#define TP__MESSAGES_H

#include "phases/model/model.h"
#include "runtime/os/os.h"

typedef struct tp__messages {
  tp__arena *arena;   /* the arena of whoever made the list */
  tp_message **items; /* a new array when it grows; the messages do not move */
  size_t count, capacity;
} tp__messages;

/** "user", "assistant", "tool", "end", "system"; "end" for any other number. Static text. */
const char *tp__role_name(tp_role role);
/** Copies deeply. On failure nothing is added. */
tp_status tp__messages_add(tp__messages *messages, const tp_message *message);
/** Copies calls deeply into an arena, as a list of structs of this library's size. tp__tool_call_read() has accepted
 *  them. @return false without memory. */
bool tp__calls_copy(tp__arena *arena, const tp_tool_call *const *calls, size_t count,
                    const tp_tool_call *const **ret_calls);
/** Copies a message, which tp__message_read() has accepted, deeply into an arena. @return false without memory: then
 *  *ret_copy is not a valid message. */
bool tp__message_copy(tp__arena *arena, const tp_message *message, tp_message *ret_copy);

#endif
