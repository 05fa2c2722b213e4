/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/reminders.h"

enum { WAITING_MAX = 64 };

void tp__reminders_init(tp__reminders *reminders, const tp_allocator *allocator) {
  *reminders = (tp__reminders){.allocator = allocator};
}

void tp__reminders_fini(tp__reminders *reminders) {
  tp__reminders_drop(reminders, reminders->count);
  tp__release(reminders->allocator, reminders->items, reminders->capacity * sizeof *reminders->items);
}

static char *copy(const tp_allocator *allocator, tp_text text) {
  char *string = tp__alloc(allocator, text.size + 1);
  if (!string) return NULL;
  if (text.size > 0) memcpy(string, text.data, text.size);
  string[text.size] = 0;
  return string;
}

static void free_one(tp__reminders *reminders, tp__reminder *reminder) {
  tp__string_free(reminders->allocator, reminder->subscription);
  tp__string_free(reminders->allocator, reminder->text);
}

bool tp__reminders_add(tp__reminders *reminders, const char *subscription, tp_text text) {
  if (reminders->count == WAITING_MAX) tp__reminders_drop(reminders, 1);
  void *items = reminders->items;
  if (tp__array_grow(reminders->allocator, &items, &reminders->capacity, reminders->count + 1, sizeof(tp__reminder)) !=
      TP_OK)
    return false;
  reminders->items = items;
  tp__reminder reminder = {copy(reminders->allocator, tp_text_of(subscription)), copy(reminders->allocator, text)};
  if (!reminder.subscription || !reminder.text) {
    free_one(reminders, &reminder);
    return false;
  }
  reminders->items[reminders->count++] = reminder;
  return true;
}

bool tp__reminders_list(const tp__reminders *reminders, tp__arena *arena, tp__merged_list *ret_list) {
  *ret_list = (tp__merged_list){0};
  if (reminders->count == 0) return true;
  tp__merged_item *items = tp__arena_zero(arena, reminders->count * sizeof *items);
  tp_contribution *contributions = tp__arena_zero(arena, reminders->count * sizeof *contributions);
  if (!items || !contributions) return false;
  for (size_t i = 0; i < reminders->count; i++) {
    contributions[i] = (tp_contribution){.kind = TP_KIND_REMINDER, .text = tp_text_of(reminders->items[i].text)};
    items[i].entry =
        (tp_merged_entry){.contribution = &contributions[i], .subscription = reminders->items[i].subscription};
  }
  *ret_list = (tp__merged_list){items, reminders->count};
  return true;
}

void tp__reminders_drop(tp__reminders *reminders, size_t count) {
  for (size_t i = 0; i < count; i++) free_one(reminders, &reminders->items[i]);
  reminders->count -= count;
  if (count > 0) memmove(reminders->items, reminders->items + count, reminders->count * sizeof *reminders->items);
}
