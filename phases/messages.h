/* SPDX-License-Identifier: Apache-2.0
 *
 * messages: a growing list of messages with all their texts in one arena. */
#ifndef TP__MESSAGES_H
#define TP__MESSAGES_H

#include "runtime/base/base.h"
#include "turnphase/model.h"

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
/** Deep copy into an arena. */
bool tp__message_copy(tp__arena *arena, const tp_message *message, tp_message *ret_copy);

#endif
