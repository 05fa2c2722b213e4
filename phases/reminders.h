/* SPDX-License-Identifier: Apache-2.0
 *
 * reminders: what a session has to tell the model with its next request. Owned by a session; used by the owner of its
 * running turn. At most 64 wait; past that the oldest goes. */
#ifndef TP__REMINDERS_H
#define TP__REMINDERS_H

#include "phases/merge.h"

typedef struct tp__reminder {
  char *subscription;
  char *text;
} tp__reminder;

typedef struct tp__reminders {
  const tp_allocator *allocator;
  tp__reminder *items;
  size_t count, capacity;
} tp__reminders;

void tp__reminders_init(tp__reminders *reminders, const tp_allocator *allocator);
void tp__reminders_fini(tp__reminders *reminders);
/** Copies. @return false when there was no memory: the reminder is lost. */
bool tp__reminders_add(tp__reminders *reminders, const char *subscription, tp_text text);
/** What waits, as a list for tp__render_reminders(); it points into the reminders. */
bool tp__reminders_list(const tp__reminders *reminders, tp__arena *arena, tp__merged_list *ret_list);
/** The first count were delivered. */
void tp__reminders_drop(tp__reminders *reminders, size_t count);

#endif
