/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tests/support/test.h"
#include "runtime/base/base.h"

typedef struct counting {
  size_t open_bytes, requests, refuse_from; /* refuse_from 0: never; else that request and all later ones */
} counting;

static void *counting_alloc(void *ctx, size_t size) {
  counting *c = ctx;
  if (++c->requests >= c->refuse_from && c->refuse_from > 0) return NULL;
  void *memory = malloc(size);
  if (memory) c->open_bytes += size;
  return memory;
}

static void counting_release(void *ctx, void *memory, size_t size) {
  counting *c = ctx;
  c->open_bytes -= size;
  free(memory);
}

static tp_allocator allocator_over(counting *c) { return (tp_allocator){counting_alloc, counting_release, c}; }

TEST(pieces_are_aligned_and_apart) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  unsigned char *pieces[500];
  for (size_t i = 0; i < 500; i++) {
    pieces[i] = tp__arena_alloc(&arena, i);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 8, 0);
    memset(pieces[i], (int)(i % 251), i);
  }
  for (size_t i = 0; i < 500; i++) {
    for (size_t k = 0; k < i; k++) assert_int_equal(pieces[i][k], i % 251);
  }
  assert_int_equal(arena.bytes, c.open_bytes);
  tp__arena_fini(&arena);
  assert_int_equal(c.open_bytes, 0);
}

TEST(chunks_are_few) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  for (int i = 0; i < 10000; i++) assert_non_null(tp__arena_alloc(&arena, 32));
  assert_true(c.requests < 16);
  tp__arena_fini(&arena);
}

TEST(first_buffer_is_used_before_any_chunk) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  _Alignas(8) char first[256];
  tp__arena arena;
  tp__arena_init(&arena, &allocator, first, sizeof first, 0);
  char *a = tp__arena_alloc(&arena, 200);
  assert_ptr_equal(a, first);
  assert_int_equal(c.requests, 0);
  char *b = tp__arena_alloc(&arena, 100);
  assert_true(b < first || b >= first + sizeof first);
  assert_int_equal(c.requests, 1);
  tp__arena_fini(&arena);
  assert_int_equal(c.open_bytes, 0);
}

TEST(crooked_first_buffer_gives_aligned_memory) {
  _Alignas(8) char first[64];
  for (size_t skew = 0; skew < 8; skew++) {
    for (size_t size = 0; size <= 64 - skew; size++) {
      tp__arena arena;
      tp__arena_init(&arena, NULL, first + skew, size, 0);
      char *memory;
      while ((memory = tp__arena_alloc(&arena, 8))) {
        assert_int_equal((uintptr_t)memory % 8, 0);
        assert_true(memory >= first + skew && memory + 8 <= first + skew + size);
      }
      tp__arena_fini(&arena);
    }
  }
}

TEST(arena_without_allocator_ends_with_its_buffer) {
  _Alignas(8) char first[32];
  tp__arena arena;
  tp__arena_init(&arena, NULL, first, sizeof first, 0);
  for (int i = 0; i < 4; i++) assert_non_null(tp__arena_alloc(&arena, 8));
  assert_null(tp__arena_alloc(&arena, 1));
  tp__arena_fini(&arena);
  tp__arena_init(&arena, NULL, NULL, 0, 0);
  assert_null(tp__arena_alloc(&arena, 0));
  tp__arena_fini(&arena);
}

TEST(nothing_is_still_somewhere) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  assert_non_null(tp__arena_alloc(&arena, 0));
  assert_non_null(tp__arena_zero(&arena, 0));
  tp__arena_fini(&arena);
}

TEST(cap_bounds_what_is_taken) {
  static const size_t caps[] = {1, 100, 1000, 1024, 5000, 100000};
  for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
    counting c = {0};
    tp_allocator allocator = allocator_over(&c);
    tp__arena arena;
    tp__arena_init(&arena, &allocator, NULL, 0, caps[i]);
    size_t given = 0;
    while (tp__arena_alloc(&arena, 64)) given += 64;
    assert_true(c.open_bytes <= caps[i]);
    if (caps[i] >= 1000) assert_true(given >= caps[i] * 8 / 10); /* the cap is used, too */
    tp__arena_fini(&arena);
    assert_int_equal(c.open_bytes, 0);
  }
}

TEST(refused_size_does_not_spoil_smaller_ones) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 4096);
  assert_null(tp__arena_alloc(&arena, 10000));
  assert_null(tp__arena_alloc(&arena, SIZE_MAX));
  assert_null(tp__arena_alloc(&arena, SIZE_MAX - 8));
  assert_null(tp__arena_alloc(&arena, SIZE_MAX / 2));
  assert_int_equal(c.requests, 0);
  assert_non_null(tp__arena_alloc(&arena, 1000));
  tp__arena_fini(&arena);
}

TEST(big_piece_leaves_the_current_chunk_in_use) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  char *a = tp__arena_alloc(&arena, 16);
  assert_non_null(tp__arena_alloc(&arena, 100000));
  char *b = tp__arena_alloc(&arena, 16);
  assert_ptr_equal(b, a + 16);
  tp__arena_fini(&arena);
}

TEST(allocation_refused_at_every_n_is_clean) {
  for (size_t n = 1; n < 12; n++) {
    counting c = {.refuse_from = n};
    tp_allocator allocator = allocator_over(&c);
    tp__arena arena;
    tp__arena_init(&arena, &allocator, NULL, 0, 0);
    size_t given = 0;
    while (given < 5000 && tp__arena_alloc(&arena, 48)) given++;
    if (n == 1) assert_int_equal(given, 0);
    else assert_true(given > 0);
    assert_null(given < 5000 ? tp__arena_alloc(&arena, 48) : NULL);
    tp__arena_fini(&arena);
    assert_int_equal(c.open_bytes, 0);
  }
}

TEST(arena_may_be_used_again_after_fini) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  assert_non_null(tp__arena_alloc(&arena, 10));
  tp__arena_fini(&arena);
  assert_int_equal(arena.bytes, 0);
  assert_non_null(tp__arena_alloc(&arena, 10));
  tp__arena_fini(&arena);
  tp__arena_fini(&arena);
  assert_int_equal(c.open_bytes, 0);
}

TEST(zeroed_piece_is_zero) {
  _Alignas(8) char first[128];
  memset(first, 0xee, sizeof first);
  tp__arena arena;
  tp__arena_init(&arena, NULL, first, sizeof first, 0);
  char *memory = tp__arena_zero(&arena, 100);
  for (int i = 0; i < 100; i++) assert_int_equal(memory[i], 0);
}

TEST(text_is_copied_with_a_nul_behind) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  tp_text copy = {NULL, 0};
  assert_true(tp__arena_text(&arena, (tp_text){"", 0}, &copy));
  assert_int_equal(copy.size, 0);
  assert_int_equal(c.requests, 0); /* empty text needs no memory */
  char source[] = {'a', '\0', 'b'};
  assert_true(tp__arena_text(&arena, (tp_text){source, 3}, &copy));
  assert_int_equal(copy.size, 3);
  assert_memory_equal(copy.data, "a\0b", 4);
  assert_ptr_not_equal(copy.data, source);
  const char *string;
  assert_true(tp__arena_string(&arena, "abc", &string));
  assert_string_equal(string, "abc");
  assert_true(tp__arena_string(&arena, "", &string));
  assert_string_equal(string, "");
  assert_true(tp__arena_string(&arena, NULL, &string));
  assert_null(string);
  tp__arena_fini(&arena);
}

TEST(refused_text_leaves_the_result_alone) {
  tp__arena arena;
  tp__arena_init(&arena, NULL, NULL, 0, 0);
  tp_text copy = {"before", 6};
  const char *string = "before";
  assert_false(tp__arena_text(&arena, tp_text_of("abc"), &copy));
  assert_false(tp__arena_string(&arena, "abc", &string));
  assert_string_equal(copy.data, "before");
  assert_string_equal(string, "before");
  assert_int_equal(tp__arena_printf(&arena, "%d", 1).size, 0);
}

TEST(printf_fits_what_it_writes) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  tp__arena arena;
  tp__arena_init(&arena, &allocator, NULL, 0, 0);
  tp_text text = tp__arena_printf(&arena, "%s-%0*d", "x", 3000, 7);
  assert_int_equal(text.size, 3002);
  assert_int_equal(text.data[3001], '7');
  assert_int_equal(text.data[3002], '\0');
  text = tp__arena_printf(&arena, "%s", "");
  assert_int_equal(text.size, 0);
  assert_string_equal(text.data, "");
  tp__arena_fini(&arena);
}
