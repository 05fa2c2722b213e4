/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of run names: rising numbers, names that never move, and refused memory. */
#include "tests/support/test.h"
#include "runtime/store/run_names.h"
#include "tests/support/counting.h"

enum { MANY = TP__RUN_NAMES_FIRST * 31 + 5 }; /* in six chunks, the last of them hardly begun */

static char texts[MANY + 1];
static tp__run_name name_of(uint32_t id) {
  return (tp__run_name){&texts[id], &texts[id] + 1, &texts[MANY - id], (uint8_t)(id % 4)};
}

static void assert_name(const tp__run_names *names, uint32_t id) {
  const tp__run_name *name = tp__run_name_of(names, id);
  tp__run_name want = name_of(id);
  assert_ptr_equal(name->subscription, want.subscription);
  assert_ptr_equal(name->handler, want.handler);
  assert_ptr_equal(name->owner, want.owner);
  assert_int_equal(name->visibility, want.visibility);
}

static void add(tp__run_names *names, uint32_t want_id) {
  uint32_t id = UINT32_MAX;
  assert_int_equal(tp__run_names_add(names, &counting, name_of(want_id), &id), TP_OK);
  assert_int_equal(id, want_id);
}

TEST(numbers_rise_across_chunks_and_names_never_move) {
  tp__run_names names = {0};
  const tp__run_name *at[MANY];
  for (uint32_t i = 0; i < MANY; i++) {
    add(&names, i);
    at[i] = tp__run_name_of(&names, i);
  }
  assert_int_equal(names.count, MANY);
  for (uint32_t i = 0; i < MANY; i++) {
    assert_ptr_equal(tp__run_name_of(&names, i), at[i]);
    assert_name(&names, i);
  }
  tp__run_names_fini(&names, &counting);
  assert_int_equal(blocks_open, 0);
}

TEST(first_and_last_name_of_each_chunk_stand_beside_each_other) {
  tp__run_names names = {0};
  for (uint32_t i = 0; i < MANY; i++) add(&names, i);
  uint32_t first = 0, size = TP__RUN_NAMES_FIRST;
  for (int chunk = 0; chunk < 5; chunk++, first += size, size *= 2) {
    assert_ptr_equal(tp__run_name_of(&names, first), names.chunks[chunk]);
    assert_ptr_equal(tp__run_name_of(&names, first + size - 1), names.chunks[chunk] + size - 1);
    assert_ptr_equal(tp__run_name_of(&names, first + size), names.chunks[chunk + 1]);
  }
  tp__run_names_fini(&names, &counting);
  assert_int_equal(blocks_open, 0);
}

TEST(refused_chunk_costs_no_number_and_none_of_the_names) {
  tp__run_names names = {0};
  uint32_t border = 0, size = TP__RUN_NAMES_FIRST, added = 0, id = 77;
  for (int chunk = 0; chunk < 5; chunk++) {
    while (added < border) add(&names, added++);
    refuse_at = 0;
    assert_int_equal(tp__run_names_add(&names, &counting, name_of(border), &id), TP_ERR_NO_MEMORY);
    assert_int_equal(tp__run_names_add(&names, &counting, name_of(border), &id), TP_ERR_NO_MEMORY);
    assert_int_equal(id, 77);
    assert_int_equal(names.count, border);
    refuse_at = -1;
    add(&names, added++);
    refuse_at = 0; /* the rest of the chunk needs none */
    while (added < border + size) add(&names, added++);
    refuse_at = -1;
    border += size;
    size *= 2;
  }
  for (uint32_t i = 0; i < added; i++) assert_name(&names, i);
  tp__run_names_fini(&names, &counting);
  assert_int_equal(blocks_open, 0);
}

TEST(table_that_was_never_used_or_was_given_up_is_empty) {
  tp__run_names names = {0};
  tp__run_names_fini(&names, &counting);
  add(&names, 0);
  tp__run_names_fini(&names, &counting);
  assert_int_equal(names.count, 0);
  tp__run_names_fini(&names, &counting);
  assert_int_equal(blocks_open, 0);
  add(&names, 0);
  assert_name(&names, 0);
  tp__run_names_fini(&names, &counting);
  assert_int_equal(blocks_open, 0);
}

TEST(there_is_no_number_behind_the_last) {
  uint32_t last = TP__RUN_NAMES_FIRST * ((UINT32_C(1) << TP__RUN_NAMES_CHUNKS) - 1), id = 77;
  tp__run_names names = {.count = last};
  assert_int_equal(tp__run_names_add(&names, &counting, name_of(0), &id), TP_ERR_TOO_LARGE);
  assert_int_equal(id, 77);
  assert_int_equal(names.count, last);
  assert_int_equal(blocks_open, 0);
}
