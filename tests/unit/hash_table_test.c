/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "runtime/base/hash_table.h"
#include "tests/unit/value_support.h"

enum { LINKS = 1000, HASHES = 400 };

/* Several links have one hash, and different hashes share a bucket. */
static uint64_t hash_of(size_t i) { return (uint64_t)(i % HASHES) << 4; }

static size_t found(const tp__hash_table *table, uint64_t hash) {
  size_t count = 0;
  for (tp__hash_link *link = tp__hash_table_first(table, hash); link; link = tp__hash_table_next(link)) {
    assert_true(link->hash == hash);
    count++;
  }
  return count;
}

static size_t expected(uint64_t hash, size_t from) {
  size_t count = 0;
  for (size_t i = from; i < LINKS; i++) count += hash_of(i) == hash;
  return count;
}

TEST(links_are_found_by_their_hash_until_they_are_removed) {
  static tp__hash_link links[LINKS];
  counting memory = {0};
  tp_allocator allocator = allocator_over(&memory);
  tp__hash_table table = {0};
  assert_int_equal(found(&table, 0), 0);
  for (size_t i = 0; i < LINKS; i++) {
    assert_int_equal(tp__hash_table_reserve(&table, &allocator), TP_OK);
    tp__hash_table_add(&table, &links[i], hash_of(i));
  }
  assert_int_equal(table.count, LINKS);
  assert_true(table.bucket_count >= LINKS); /* so a chain is short */
  for (size_t i = 0; i < LINKS; i++) {
    assert_int_equal(found(&table, hash_of(i)), expected(hash_of(i), i));
    tp__hash_table_remove(&table, &links[i]);
    assert_int_equal(found(&table, hash_of(i)), expected(hash_of(i), i + 1));
  }
  assert_int_equal(table.count, 0);
  tp__hash_table_fini(&table, &allocator);
  assert_int_equal(memory.open, 0);
  assert_false(memory.wrong_size);
}

TEST(table_that_cannot_grow_stays_as_it_is) {
  static tp__hash_link links[LINKS];
  counting memory = {.refuse_at = 1};
  tp_allocator allocator = allocator_over(&memory);
  tp__hash_table table = {0};
  assert_int_equal(tp__hash_table_reserve(&table, &allocator), TP_ERR_NO_MEMORY);
  memory.refuse_at = 3;
  for (size_t i = 0; i < LINKS; i++) {
    assert_int_equal(tp__hash_table_reserve(&table, &allocator), TP_OK); /* refused once on the way */
    tp__hash_table_add(&table, &links[i], hash_of(i));
  }
  assert_true(memory.requests > 3);
  for (size_t i = 0; i < HASHES; i++) assert_int_equal(found(&table, hash_of(i)), expected(hash_of(i), 0));
  tp__hash_table_fini(&table, &allocator);
  assert_int_equal(memory.open, 0);
}

TEST(hash_depends_on_the_text_and_on_what_comes_before) {
  uint64_t a = tp__hash_text(tp_text_of("a"), 0), empty = tp__hash_text((tp_text){NULL, 0}, 0);
  assert_true(a == tp__hash_text(tp_text_of("a"), 0));
  assert_true(empty == tp__hash_text(tp_text_of(""), 0));
  assert_true(a != empty);
  assert_true(a != tp__hash_text(tp_text_of("b"), 0));
  assert_true(a != tp__hash_text(tp_text_of("a"), 1));
}
