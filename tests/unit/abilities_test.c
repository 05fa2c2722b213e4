/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the tools that a session has used, and its tasks: each once, in order, with a bound. */
#include "tests/support/test.h"
#include "phases/session/abilities.h"
#include "phases/session/task_list.h"
#include "tests/support/host.h"
#include "turnphase/value.h"

TEST(names_are_listed_once_in_the_order_of_their_first_use) {
  tp_allocator allocator = tp__allocator_of(NULL);
  tp__abilities abilities;
  tp__arena arena;
  tp_text value = TEXT("x");
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  tp__abilities_init(&abilities, &allocator);
  assert_true(tp__abilities_write(&abilities, &arena, &value));
  assert_int_equal(value.size, 0);
  static const char *const used[] = {"b", "a", "b", "", "a"};
  for (size_t i = 0; i < COUNT(used); i++) tp__abilities_add(&abilities, tp_text_of(used[i]));
  assert_true(tp__abilities_write(&abilities, &arena, &value));
  assert_text(value,
              "\x93\xa1"
              "b\xa1"
              "a\xa0");
  assert_int_equal(abilities.dropped, 0);
  tp__abilities_fini(&abilities);
  tp__arena_fini(&arena);
}

TEST(names_above_the_bound_are_counted) {
  tp_allocator allocator = tp__allocator_of(NULL);
  tp__abilities abilities;
  tp__abilities_init(&abilities, &allocator);
  for (int i = 0; i < TP__ABILITIES_MAX + 2; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    tp__abilities_add(&abilities, tp_text_of(name));
  }
  tp__abilities_add(&abilities, (tp_text)TEXT("t7"));
  assert_int_equal(abilities.count, TP__ABILITIES_MAX);
  assert_int_equal(abilities.dropped, 2);
  tp__abilities_fini(&abilities);
}

TEST(tasks_above_the_bound_are_counted_and_those_that_are_listed_may_change) {
  tp_allocator allocator = tp__allocator_of(NULL);
  tp__task_list tasks;
  tp__task_list_init(&tasks, &allocator);
  for (int i = 0; i < TP__TASK_LIST_MAX + 2; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    tp__task_list_put(&tasks, tp_text_of(key), tp_text_of("t"), TP__TASK_PARTIAL);
  }
  tp__task_list_put(&tasks, tp_text_of("k7"), tp_text_of("t"), TP__TASK_SUCCESS);
  assert_int_equal(tasks.count, TP__TASK_LIST_MAX);
  assert_int_equal(tasks.dropped, 2);
  assert_int_equal(tasks.items[7].status, TP__TASK_SUCCESS);
  assert_int_equal(tasks.items[8].status, TP__TASK_PARTIAL);
  tp__task_list_fini(&tasks);
}
