/* SPDX-License-Identifier: Apache-2.0
 *
 * messages: a growing list of messages with all their texts in one arena. */
#ifndef TP__MESSAGES_H
#define TP__MESSAGES_H

#include "phases/model.h"
#include "runtime/os/os.h"

typedef struct tp__messages {
  const tp_allocator *allocator;
  tp__arena arena;
  tp_message *items; /* moves when it grows; the texts do not */
  size_t count, capacity;
} tp__messages;

void tp__messages_init(tp__messages *messages, const tp_allocator *allocator);
void tp__messages_fini(tp__messages *messages);
/** Copies deeply. On failure nothing is added. */
tp_status tp__messages_add(tp__messages *messages, const tp_message *message);
/** Copies all of a list behind the last message without counting them: who adds their number to `count`, before
 *  anything else is added, adds them, and that cannot fail. */
tp_status tp__messages_stage(tp__messages *messages, const tp__messages *more);
/** A session's messages, counted: a request that was made of them may read their texts when the session has others. */
typedef struct tp__past {
  tp__a32 refs;
  tp__messages list; /* the owner of the session's running turn adds to it */
} tp__past;
/** @return NULL without memory. */
tp__past *tp__past_new(const tp_allocator *allocator);
tp__past *tp__past_ref(tp__past *past);
/** Accepts NULL. */
void tp__past_unref(tp__past *past);
/** Copies calls deeply into an arena, as a list of structs of this library's size. They are such as
 *  tp__tool_call_read() accepts. @return false without memory. */
bool tp__calls_copy(tp__arena *arena, const tp_tool_call *const *calls, size_t count,
                    const tp_tool_call *const **ret_calls);
/** Deep copy into an arena, of a message such as tp__message_read() accepts. */
bool tp__message_copy(tp__arena *arena, const tp_message *message, tp_message *ret_copy);

#endif
