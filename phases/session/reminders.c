/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/reminders.h"

enum { WAITING_MAX = 64 };

static void free_one(tp__reminders *reminders, tp__reminder *reminder) {
  tp__string_free(reminders->allocator, reminder->subscription);
  tp__string_free(reminders->allocator, reminder->text);
}

static void remove_at(tp__reminders *reminders, size_t index) {
  free_one(reminders, &reminders->items[index]);
  reminders->count--;
  memmove(&reminders->items[index], &reminders->items[index + 1],
          (reminders->count - index) * sizeof *reminders->items);
}

void tp__reminders_init(tp__reminders *reminders, const tp_allocator *allocator) {
  *reminders = (tp__reminders){.allocator = allocator};
}

void tp__reminders_fini(tp__reminders *reminders) {
  while (reminders->count > 0) remove_at(reminders, reminders->count - 1);
  tp__release(reminders->allocator, reminders->items, reminders->capacity * sizeof *reminders->items);
}

static char *copy_reminder_text(const tp_allocator *allocator, tp_text text) {
  char *string = tp__alloc(allocator, text.size + 1);
  if (!string) return NULL;
  if (text.size > 0) memcpy(string, text.data, text.size);
  string[text.size] = 0;
  return string;
}

static void make_reminder_space(tp__reminders *reminders) {
  for (size_t i = 0; reminders->count >= WAITING_MAX && i < reminders->count; i++) {
    if (reminders->items[i].block) continue;
    remove_at(reminders, i);
    reminders->dropped++;
    return;
  }
}

void tp__reminders_set_attempt(tp__reminders *reminders, bool begins) {
  reminders->in_attempt = begins;
  if (begins && ++reminders->attempt == 0) reminders->attempt = 1;
}

static void remove_of_failed_attempts(tp__reminders *reminders, const char *subscription) {
  for (size_t i = reminders->count; i-- > 0;) {
    const tp__reminder *reminder = &reminders->items[i];
    bool failed = reminder->attempt != 0 && reminder->attempt != reminders->attempt;
    if (failed && strcmp(reminder->subscription, subscription) == 0) remove_at(reminders, i);
  }
}

bool tp__reminders_add(tp__reminders *reminders, const char *subscription, tp_text text, bool block) {
  if (reminders->in_attempt) remove_of_failed_attempts(reminders, subscription);
  make_reminder_space(reminders);
  void *items = reminders->items;
  if (tp__array_grow(reminders->allocator, &items, &reminders->capacity, reminders->count + 1, sizeof(tp__reminder)) !=
      TP_OK)
    return false;
  reminders->items = items;
  tp__reminder reminder = {.subscription = copy_reminder_text(reminders->allocator, tp_text_of(subscription)),
                           .text = copy_reminder_text(reminders->allocator, text),
                           .block = block,
                           .attempt = reminders->in_attempt ? reminders->attempt : 0};
  if (!reminder.subscription || !reminder.text) {
    free_one(reminders, &reminder);
    return false;
  }
  reminders->items[reminders->count++] = reminder;
  return true;
}

/* Marks the reminders that fit. Those that have waited longest go first. @return how many. */
static size_t choose_reminders(tp__reminders *reminders) {
  size_t chosen = 0, count = 0, bytes = 0;
  for (size_t i = 0; i < reminders->count; i++) {
    tp__reminder *reminder = &reminders->items[i];
    size_t size = strlen(reminder->text);
    bool fits = count < TP__REMINDER_COUNT_MAX && bytes + size <= TP__REMINDER_BYTES_MAX;
    reminder->in_request = reminder->block || fits;
    if (!reminder->in_request) continue;
    chosen++;
    count++;
    bytes += size;
  }
  return chosen;
}

bool tp__reminders_take(tp__reminders *reminders, tp__arena *arena, tp__merged_list *ret_list) {
  size_t chosen = choose_reminders(reminders);
  *ret_list = (tp__merged_list){0};
  if (chosen == 0) return true;
  tp__merged_item *items = tp__arena_zero(arena, chosen * sizeof *items);
  tp_contribution *contributions = tp__arena_zero(arena, chosen * sizeof *contributions);
  if (!items || !contributions) return false;
  for (size_t i = 0, at = 0; i < reminders->count; i++) {
    const tp__reminder *reminder = &reminders->items[i];
    if (!reminder->in_request) continue;
    contributions[at] = (tp_contribution){
        .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = tp_text_of(reminder->text)};
    items[at].entry = (tp_merged_entry){.contribution = &contributions[at], .subscription = reminder->subscription};
    at++;
  }
  *ret_list = (tp__merged_list){items, chosen};
  return true;
}

void tp__reminders_delivered(tp__reminders *reminders) {
  for (size_t i = reminders->count; i-- > 0;) {
    if (reminders->items[i].in_request) remove_at(reminders, i);
    else reminders->items[i].attempt = 0; /* its attempt did not fail, so it waits like any other reminder */
  }
}
