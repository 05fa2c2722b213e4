/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tests/support/test.h"
#include "runtime/os/queue.h"

static size_t open_bytes;

static void *counting_alloc(void *ctx, size_t size) {
  bool *refuse = ctx;
  if (*refuse) return NULL;
  open_bytes += size;
  return malloc(size);
}

static void counting_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  open_bytes -= size;
  free(memory);
}

static bool refuse;
static tp_allocator allocator = {counting_alloc, counting_release, &refuse};

static tp__queue_mpmc *new_queue(size_t capacity) {
  tp__queue_mpmc *queue = NULL;
  assert_int_equal(tp__queue_mpmc_new(&allocator, capacity, &queue), TP_OK);
  return queue;
}

TEST(new_queue_is_empty) {
  tp__queue_mpmc *queue = new_queue(10);
  assert_true(tp__queue_mpmc_empty(queue));
  assert_null(tp__queue_mpmc_pop(queue));
  tp__queue_mpmc_free(queue);
  assert_int_equal(open_bytes, 0);
}

TEST(first_in_is_first_out) {
  int items[5];
  tp__queue_mpmc *queue = new_queue(5);
  for (int i = 0; i < 5; i++) assert_true(tp__queue_mpmc_push(queue, &items[i]));
  assert_false(tp__queue_mpmc_empty(queue));
  for (int i = 0; i < 5; i++) assert_ptr_equal(tp__queue_mpmc_pop(queue), &items[i]);
  assert_true(tp__queue_mpmc_empty(queue));
  tp__queue_mpmc_free(queue);
}

TEST(queue_holds_at_least_its_capacity_and_then_says_full) {
  static const size_t capacities[] = {0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 1000};
  int item;
  for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
    tp__queue_mpmc *queue = new_queue(capacities[i]);
    size_t pushed = 0;
    while (tp__queue_mpmc_push(queue, &item)) pushed++;
    assert_true(pushed >= capacities[i]);
    assert_true(pushed <= 2 * capacities[i] + 4);
    assert_false(tp__queue_mpmc_push(queue, &item));
    assert_ptr_equal(tp__queue_mpmc_pop(queue), &item);
    assert_true(tp__queue_mpmc_push(queue, &item)); /* a place came free */
    tp__queue_mpmc_free(queue);
  }
  assert_int_equal(open_bytes, 0);
}

TEST(places_are_used_again_and_again) {
  uintptr_t in = 0, out = 0;
  tp__queue_mpmc *queue = new_queue(6);
  for (int round = 0; round < 10000; round++) {
    for (int i = 0; i <= round % 6; i++) assert_true(tp__queue_mpmc_push(queue, (void *)++in));
    for (int i = 0; i <= round % 6; i++) assert_int_equal((uintptr_t)tp__queue_mpmc_pop(queue), ++out);
  }
  assert_true(tp__queue_mpmc_empty(queue));
  tp__queue_mpmc_free(queue);
}

TEST(some_are_taken_at_once_and_in_order) {
  uintptr_t in = 0, out = 0;
  void *some[8];
  tp__queue_mpmc *queue = new_queue(4);
  for (int round = 0; round < 1000; round++) {
    for (int i = 0; i <= round % 4; i++) assert_true(tp__queue_mpmc_push(queue, (void *)++in));
    assert_int_equal(tp__queue_mpmc_count(queue), round % 4 + 1);
    uint32_t count = tp__queue_mpmc_pop_some(queue, some, 2); /* fewer than there are, or all */
    assert_int_equal(count, round % 4 == 0 ? 1 : 2);
    count += tp__queue_mpmc_pop_some(queue, some + count, 6); /* more than there are, over the end of the ring */
    assert_int_equal(count, round % 4 + 1);
    for (uint32_t i = 0; i < count; i++) assert_int_equal((uintptr_t)some[i], ++out);
    assert_int_equal(tp__queue_mpmc_pop_some(queue, some, 8), 0);
  }
  tp__queue_mpmc_free(queue);
}

TEST(queue_that_gets_no_memory_is_a_clean_error) {
  tp__queue_mpmc *queue = NULL;
  refuse = true;
  tp_status status = tp__queue_mpmc_new(&allocator, 10, &queue);
  refuse = false;
  assert_int_equal(status, TP_ERR_NO_MEMORY);
  assert_null(queue);
}

TEST(senseless_capacity_is_refused_before_any_allocation) {
  tp__queue_mpmc *queue = NULL;
  assert_int_equal(tp__queue_mpmc_new(&allocator, SIZE_MAX, &queue), TP_ERR_TOO_LARGE);
  assert_int_equal(tp__queue_mpmc_new(&allocator, (size_t)1 << 28, &queue), TP_ERR_TOO_LARGE);
  assert_null(queue);
  assert_int_equal(open_bytes, 0);
}

TEST(freeing_nothing_is_harmless) {
  tp__queue_mpmc_free(NULL);
  assert_int_equal(open_bytes, 0);
}
