/* SPDX-License-Identifier: Apache-2.0
 *
 * reminders_test.c: the reminders that a session has for the model: how many may wait, and which are never left out. */
#include <stdio.h>

#include "tests/support/test.h"
#include "phases/session/reminders.h"
#include "tests/support/counting.h"

enum { WAITING_MAX = 64 };

static tp__reminders open_reminders(void) {
  tp__reminders reminders;
  tp__reminders_init(&reminders, &counting);
  return reminders;
}

static void close_reminders(tp__reminders *reminders) {
  tp__reminders_fini(reminders);
  assert_int_equal(blocks_open, 0);
}

static void add(tp__reminders *reminders, const char *label, uint32_t number, bool block) {
  char text[32];
  snprintf(text, sizeof text, "%s %u", label, number);
  assert_true(tp__reminders_add(reminders, "s", tp_text_of(text), block));
}

static size_t take(tp__reminders *reminders, const char *first) {
  tp__arena arena;
  tp__merged_list list;
  tp__arena_init(&arena, &counting, NULL, 0, 0);
  assert_true(tp__reminders_take(reminders, &arena, &list));
  size_t count = list.count;
  tp_text text = count ? list.items[0].entry.contribution->text : (tp_text){"", 0};
  assert_int_equal(text.size, strlen(first));
  assert_memory_equal(text.data, first, text.size);
  tp__arena_fini(&arena);
  return count;
}

TEST(the_oldest_goes_when_too_many_wait_but_never_the_reason_of_a_block) {
  tp__reminders reminders = open_reminders();
  add(&reminders, "blocked", 0, true);
  for (uint32_t i = 1; i < WAITING_MAX; i++) add(&reminders, "plain", i, false);
  assert_int_equal(reminders.count, WAITING_MAX);
  assert_int_equal(reminders.dropped, 0);
  add(&reminders, "plain", WAITING_MAX, false);
  assert_int_equal(reminders.count, WAITING_MAX);
  assert_int_equal(reminders.dropped, 1);
  assert_string_equal(reminders.items[0].text, "blocked 0");
  assert_true(reminders.items[0].block);
  assert_string_equal(reminders.items[1].text, "plain 2"); /* plain 1 is the one that went */
  assert_string_equal(reminders.items[WAITING_MAX - 1].text, "plain 64");
  close_reminders(&reminders);
}

TEST(reasons_of_blocks_alone_are_all_kept_and_all_shown) {
  tp__reminders reminders = open_reminders();
  for (uint32_t i = 0; i < WAITING_MAX + 10; i++) add(&reminders, "blocked", i, true);
  assert_int_equal(reminders.count, WAITING_MAX + 10);
  assert_int_equal(reminders.dropped, 0);
  assert_int_equal(take(&reminders, "blocked 0"), WAITING_MAX + 10); /* above the count of a request */
  tp__reminders_delivered(&reminders);
  assert_int_equal(reminders.count, 0);
  close_reminders(&reminders);
}

TEST(a_request_takes_so_many_and_leaves_the_rest_to_the_next) {
  tp__reminders reminders = open_reminders();
  for (uint32_t i = 0; i < TP__REMINDER_COUNT_MAX + 3; i++) add(&reminders, "plain", i, false);
  assert_int_equal(take(&reminders, "plain 0"), TP__REMINDER_COUNT_MAX);
  tp__reminders_delivered(&reminders);
  assert_int_equal(reminders.count, 3);
  assert_int_equal(take(&reminders, "plain 16"), 3);
  close_reminders(&reminders);
}

TEST(a_request_takes_so_many_bytes_to_the_last_one) {
  static char half[TP__REMINDER_BYTES_MAX / 2 + 1];
  memset(half, 'x', sizeof half);
  for (size_t more = 0; more < 2; more++) {
    tp__reminders reminders = open_reminders();
    const tp_text first = {half, TP__REMINDER_BYTES_MAX / 2}, second = {half, TP__REMINDER_BYTES_MAX / 2 + more};
    assert_true(tp__reminders_add(&reminders, "s", first, false));
    assert_true(tp__reminders_add(&reminders, "s", second, false));
    tp__arena arena;
    tp__merged_list list;
    tp__arena_init(&arena, &counting, NULL, 0, 0);
    assert_true(tp__reminders_take(&reminders, &arena, &list));
    assert_int_equal(list.count, 2 - more);
    tp__arena_fini(&arena);
    close_reminders(&reminders);
  }
}

TEST(an_attempt_takes_the_place_of_what_its_subscription_said_in_a_failed_one) {
  tp__reminders reminders = open_reminders();
  add(&reminders, "before", 0, false); /* in no attempt */
  tp__reminders_set_attempt(&reminders, true);
  add(&reminders, "first", 1, false);
  add(&reminders, "first", 2, false);
  assert_true(tp__reminders_add(&reminders, "other", (tp_text){"other 1", 7}, false));
  assert_int_equal(reminders.count, 4);
  tp__reminders_set_attempt(&reminders, false);
  tp__reminders_set_attempt(&reminders, true);
  add(&reminders, "second", 1, false);
  add(&reminders, "second", 2, false);
  static const char *const left[] = {"before 0", "other 1", "second 1", "second 2"};
  assert_int_equal(reminders.count, 4);
  for (size_t i = 0; i < 4; i++) assert_string_equal(reminders.items[i].text, left[i]);
  close_reminders(&reminders);
}

TEST(what_a_request_left_waits_through_later_attempts) {
  tp__reminders reminders = open_reminders();
  tp__reminders_set_attempt(&reminders, true);
  for (uint32_t i = 0; i < TP__REMINDER_COUNT_MAX + 1; i++) add(&reminders, "plain", i, false);
  assert_int_equal(take(&reminders, "plain 0"), TP__REMINDER_COUNT_MAX);
  tp__reminders_delivered(&reminders);
  tp__reminders_set_attempt(&reminders, false);
  tp__reminders_set_attempt(&reminders, true);
  add(&reminders, "next", 0, false);
  assert_int_equal(take(&reminders, "plain 16"), 2);
  close_reminders(&reminders);
}
