/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the tools that a session has used: each once, in order, with a bound. */
#include "tests/support/test.h"
#include "phases/session/abilities.h"
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
