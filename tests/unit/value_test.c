/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "tests/support/test.h"
#include "runtime/value/value.h"
#include "tests/unit/value_support.h"

#define BYTES(literal) ((tp_text){literal, sizeof(literal) - 1})

static tp_writer *new_writer(void) {
  tp_writer *writer = NULL;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  return writer;
}

static tp_text finished(tp_writer *writer) {
  tp_text value = {NULL, 0};
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  return value;
}

static tp_status check(tp_text value, tp_fault *fault) {
  tp_text copy = exact_copy(value);
  tp_status status = tp_value_check(copy, fault);
  exact_free(copy);
  return status;
}

static void assert_bytes(tp_text actual, tp_text expected) {
  assert_int_equal(actual.size, expected.size);
  assert_memory_equal(actual.data, expected.data, expected.size);
}

/* ---- written and read back ---- */

TEST(scalars_read_back_as_written) {
  tp_writer *writer = new_writer();
  tp_write_array(writer, 6);
  tp_write_null(writer);
  tp_write_bool(writer, true);
  tp_write_bool(writer, false);
  tp_write_double(writer, 0.1);
  tp_write_string(writer, "text");
  tp_write_bytes(writer, BYTES("\x00\xff"));
  tp_text value = finished(writer);
  assert_int_equal(check(value, NULL), TP_OK);
  assert_int_equal(tp_value_kind_of(tp_value_at(value, 0)), TP_VALUE_NULL);
  assert_true(tp_value_bool(tp_value_at(value, 1), false));
  assert_false(tp_value_bool(tp_value_at(value, 2), true));
  assert_true(tp_value_double(tp_value_at(value, 3), 0) == 0.1);
  assert_bytes(tp_value_text(tp_value_at(value, 4)), BYTES("text"));
  assert_int_equal(tp_value_kind_of(tp_value_at(value, 5)), TP_VALUE_BYTES);
  assert_bytes(tp_value_text(tp_value_at(value, 5)), BYTES("\x00\xff"));
  tp_writer_free(writer);
}

TEST(every_int_keeps_its_64_bits) {
  static const int64_t edges[] = {0,
                                  1,
                                  127,
                                  128,
                                  255,
                                  256,
                                  32767,
                                  65535,
                                  65536,
                                  INT32_MAX,
                                  UINT32_MAX,
                                  (int64_t)UINT32_MAX + 1,
                                  INT64_MAX,
                                  INT64_MAX - 1,
                                  -1,
                                  -32,
                                  -33,
                                  -128,
                                  -129,
                                  -32768,
                                  -32769,
                                  INT32_MIN,
                                  (int64_t)INT32_MIN - 1,
                                  INT64_MIN,
                                  INT64_MIN + 1,
                                  INT64_C(9007199254740993)};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
    tp_writer_reset(writer);
    tp_write_int(writer, edges[i]);
    tp_text value = finished(writer);
    assert_int_equal(check(value, NULL), TP_OK);
    assert_int_equal(tp_value_kind_of(value), TP_VALUE_INT);
    assert_true(tp_value_int(value, 4711) == edges[i]);
  }
  tp_writer_free(writer);
}

TEST(ints_and_lengths_get_their_shortest_form) {
  static const struct {
    int64_t number;
    size_t size;
  } ints[] = {{0, 1},
              {127, 1},
              {128, 2},
              {255, 2},
              {256, 3},
              {65535, 3},
              {65536, 5},
              {UINT32_MAX, 5},
              {(int64_t)UINT32_MAX + 1, 9},
              {-32, 1},
              {-33, 2},
              {-128, 2},
              {-129, 3},
              {-32768, 3},
              {-32769, 5},
              {INT32_MIN, 5},
              {(int64_t)INT32_MIN - 1, 9},
              {INT64_MIN, 9}};
  static const struct {
    size_t length, head;
  } texts[] = {{0, 1}, {31, 1}, {32, 2}, {255, 2}, {256, 3}, {65535, 3}, {65536, 5}};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
    tp_writer_reset(writer);
    tp_write_int(writer, ints[i].number);
    assert_int_equal(finished(writer).size, ints[i].size);
  }
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    tp_text text = repeated("x", texts[i].length);
    tp_writer_reset(writer);
    tp_write_text(writer, text);
    tp_text value = finished(writer);
    assert_int_equal(value.size, texts[i].head + text.size);
    assert_bytes(tp_value_text(value), text);
    exact_free(text);
  }
  tp_writer_free(writer);
}

static tp_text write_sample(tp_writer *writer) {
  tp_write_map(writer, 3);
  tp_write_string(writer, "list");
  tp_write_array(writer, 3);
  for (int i = 0; i < 3; i++) tp_write_int(writer, 10 * i);
  tp_write_string(writer, "inner");
  tp_write_map(writer, 1);
  tp_write_string(writer, "a");
  tp_write_string(writer, "b");
  tp_write_string(writer, "last");
  tp_write_double(writer, 2.5);
  return finished(writer);
}

TEST(containers_are_read_by_index_key_and_walk) {
  tp_writer *writer = new_writer();
  tp_text value = write_sample(writer);
  assert_int_equal(tp_value_kind_of(value), TP_VALUE_MAP);
  assert_int_equal(tp_value_count(value), 3);
  tp_text list = tp_value_get(value, "list");
  assert_int_equal(tp_value_count(list), 3);
  assert_int_equal(tp_value_int(tp_value_at(list, 2), -1), 20);
  assert_int_equal(tp_value_at(list, 3).size, 0);
  assert_bytes(tp_value_key_at(value, 1), BYTES("inner"));
  assert_bytes(tp_value_text(tp_value_get(tp_value_get(value, "inner"), "a")), BYTES("b"));
  assert_true(tp_value_double(tp_value_at(value, 2), 0) == 2.5);
  assert_int_equal(tp_value_key_at(value, 3).size, 0);

  static const char *const keys[] = {"list", "inner", "last"};
  size_t steps = 0;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); steps++) {
    assert_bytes(walk.key, tp_text_of(keys[steps]));
    assert_bytes(walk.value, tp_value_get(value, keys[steps]));
    assert_true(walk.value.data > value.data && walk.value.data + walk.value.size <= value.data + value.size);
  }
  assert_int_equal(steps, 3);
  tp_writer_free(writer);
}

TEST(walk_that_ended_stays_at_its_end) {
  tp_text value = BYTES("\x92\x01\x02");
  tp_value_walk walk = {0};
  assert_true(tp_value_next(value, &walk));
  assert_int_equal(walk.key.size, 0);
  assert_true(tp_value_next(value, &walk));
  for (int i = 0; i < 3; i++) {
    assert_false(tp_value_next(value, &walk));
    assert_int_equal(walk.value.size, 0);
  }
}

TEST(what_is_not_there_or_of_another_kind_reads_as_nothing) {
  tp_text text = BYTES("\xa1x"), number = BYTES("\x07"), map = BYTES("\x81\xa1k\x01"), none = {NULL, 0};
  tp_text all[] = {text, number, map, none, BYTES("\xc1"), BYTES("\xdb\xff\xff\xff\xff")};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (i != 0) assert_int_equal(tp_value_text(all[i]).size, 0);
    if (i != 1) assert_int_equal(tp_value_int(all[i], -5), -5);
    if (i != 1) assert_true(tp_value_double(all[i], -5) == -5);
    assert_true(tp_value_bool(all[i], true));
    assert_false(tp_value_bool(all[i], false));
    assert_int_equal(tp_value_count(all[i]), i == 2 ? 1 : 0);
    if (i != 2) assert_int_equal(tp_value_at(all[i], 0).size, 0);
    assert_int_equal(tp_value_key_at(all[i], 0).size, i == 2 ? 1 : 0);
    assert_int_equal(tp_value_get(all[i], "missing").size, 0);
    assert_int_equal(tp_value_get(all[i], NULL).size, 0);
    tp_value_walk walk = {0};
    assert_int_equal(tp_value_next(all[i], &walk), i == 2);
  }
  assert_int_equal(tp_value_kind_of(none), TP_VALUE_NONE);
  assert_int_equal(tp_value_kind_of(BYTES("\xc1")), TP_VALUE_NONE);
  assert_true(tp_value_double(number, 0) == 7);                              /* an int reads as double, too */
  assert_int_equal(tp_value_int(BYTES("\xcb\x40\x1c\0\0\0\0\0\0"), -5), -5); /* a double as int does not */
}

TEST(every_spelling_of_a_number_is_read) {
  const struct {
    tp_text bytes;
    int64_t number;
  } ints[] = {
      {BYTES("\x7f"), 127},
      {BYTES("\xe0"), -32},
      {BYTES("\xcc\xff"), 255},
      {BYTES("\xcd\x00\x01"), 1},
      {BYTES("\xce\xff\xff\xff\xff"), UINT32_MAX},
      {BYTES("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff"), INT64_MAX},
      {BYTES("\xd0\x80"), -128},
      {BYTES("\xd0\x7f"), 127},
      {BYTES("\xd1\xff\xff"), -1},
      {BYTES("\xd2\x80\0\0\0"), INT32_MIN},
      {BYTES("\xd3\x80\0\0\0\0\0\0\0"), INT64_MIN},
      {BYTES("\xd3\0\0\0\0\0\0\0\x05"), 5},
  };
  for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
    assert_int_equal(check(ints[i].bytes, NULL), TP_OK);
    assert_true(tp_value_int(ints[i].bytes, 4711) == ints[i].number);
  }
  assert_true(tp_value_double(BYTES("\xca\x3f\xc0\0\0"), 0) == 1.5);
  assert_true(tp_value_double(BYTES("\xcb\xbf\xf8\0\0\0\0\0\0"), 0) == -1.5);
}

/* ---- checking ---- */

TEST(bad_bytes_are_refused_with_their_offset) {
  const struct {
    tp_text bytes;
    tp_status status;
    const char *place; /* in the message */
  } rows[] = {
      {{NULL, 0}, TP_ERR_MALFORMED, "no bytes"},
      {BYTES("\xc1"), TP_ERR_MALFORMED, "at byte 0 of 1"},
      {BYTES("\x92\x01\xc1"), TP_ERR_MALFORMED, "at byte 2 "},
      {BYTES("\xc4"), TP_ERR_MALFORMED, "at byte 0 "}, /* cut within the head */
      {BYTES("\xcd\x01"), TP_ERR_MALFORMED, "at byte 0 "},
      {BYTES("\xa3xy"), TP_ERR_MALFORMED, "at byte 0 "},        /* within the text */
      {BYTES("\x92\x01"), TP_ERR_MALFORMED, "at byte 0 "},      /* an element short */
      {BYTES("\x92\x91\x01"), TP_ERR_MALFORMED, "at byte 3 "},  /* further in */
      {BYTES("\x81\xa1k"), TP_ERR_MALFORMED, "at byte 3 of 3"}, /* a key without value */
      {BYTES("\x01\x02"), TP_ERR_MALFORMED, "at byte 1 "},      /* something after */
      {BYTES("\x90\x00"), TP_ERR_MALFORMED, "bytes follow"},
      {BYTES("\x81\x01\x02"), TP_ERR_MALFORMED, "at byte 1 "}, /* keys that are no text */
      {BYTES("\x81\xc4\x01k\x02"), TP_ERR_MALFORMED, "at byte 1 "},
      {BYTES("\x81\x90\x02"), TP_ERR_MALFORMED, "key of a map is not text at byte 1 "},
      {BYTES("\x82\xa1k\x01\xa1k\x02"), TP_ERR_MALFORMED, "repeated at byte 4 "},
      {BYTES("\x82\xa1k\x01\xd9\x01k\x02"), TP_ERR_MALFORMED, "repeated at byte 4 "}, /* spelled otherwise */
      {BYTES("\x91\x83\xa1z\x01\xa1k\x81\xa1k\x01\xa1z\x02"), TP_ERR_MALFORMED, "repeated at byte 11 "},
      {BYTES("\x82\xa0\x01\xa0\x02"), TP_ERR_MALFORMED, "repeated at byte 3 "},            /* empty keys */
      {BYTES("\x83\xa1k\x01\xa1l\x02\xa1k\x03"), TP_ERR_MALFORMED, "repeated at byte 7 "}, /* not the last one */
      {BYTES("\x83\xa1k\x01\xa1l\x02\xa1l\x03"), TP_ERR_MALFORMED, "repeated at byte 7 "}, /* the last one of several */
      {BYTES("\x83\xa1k\x01\xa2kk\x02\xa1k\x03"), TP_ERR_MALFORMED, "repeated at byte 8 "}, /* it begins the last */
      {BYTES("\x83\xa1l\x01\xa1k\x02\xa1k\x03"), TP_ERR_MALFORMED, "repeated at byte 7 "},  /* after a smaller one */
      {BYTES("\x83\xa1k\x01\xa1j\x02\xa1k\x03"), TP_ERR_MALFORMED, "repeated at byte 7 "},  /* on both sides of it */
      {BYTES("\x82\xa1k\x81\xa1z\x01\xa1k\x02"), TP_ERR_MALFORMED, "repeated at byte 7 "},  /* a map between them */
      {BYTES("\x82\xa1k\x82\xa1z\x01\xa1j\x01\xa1k\x02"), TP_ERR_MALFORMED, "repeated at byte 10 "}, /* unsorted */
      {BYTES("\xa2\xc3("), TP_ERR_UTF8, "at byte 1 "},
      {BYTES("\x92\x01\xa3x\xed\xa0"), TP_ERR_UTF8, "at byte 4 "},
      {BYTES("\x81\xa1\xff\x01"), TP_ERR_UTF8, "at byte 2 "},              /* in a key */
      {BYTES("\xcf\x80\0\0\0\0\0\0\0"), TP_ERR_MALFORMED, "out of range"}, /* INT64_MAX + 1 */
      {BYTES("\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), TP_ERR_MALFORMED, "at byte 1 "},
      {BYTES("\xc7\x01\x05x"), TP_ERR_MALFORMED, "extension"},
      {BYTES("\xc8\0\x01\x05x"), TP_ERR_MALFORMED, "extension"},
      {BYTES("\xc9\0\0\0\x01\x05x"), TP_ERR_MALFORMED, "extension"},
      {BYTES("\xd4\x05x"), TP_ERR_MALFORMED, "extension"},
      {BYTES("\xd5\x05xx"), TP_ERR_MALFORMED, "extension"},
      {BYTES("\xd6\xff\0\0\0\0"), TP_ERR_MALFORMED, "extension"}, /* a time */
      {BYTES("\xd7\x05xxxxxxxx"), TP_ERR_MALFORMED, "extension"},
      {BYTES("\xd8\x05xxxxxxxxxxxxxxxx"), TP_ERR_MALFORMED, "extension"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_fault fault = {0};
    assert_int_equal(check(rows[i].bytes, &fault), rows[i].status);
    assert_int_equal(check(rows[i].bytes, NULL), rows[i].status);
    assert_int_equal(fault.code, rows[i].status);
    if (strstr(fault.message, rows[i].place)) continue;
    fail_msg("row %zu: \"%s\" lacks \"%s\"", i, fault.message, rows[i].place);
  }
}

TEST(same_key_in_different_maps_is_no_repetition) {
  assert_int_equal(check(BYTES("\x82\xa1k\x81\xa1k\x01\xa1l\x81\xa1k\x01"), NULL), TP_OK);
  assert_int_equal(check(BYTES("\x83\xa0\x01\xa1\0\x01\xa2\0\0\x01"), NULL), TP_OK); /* one begins the other */
  assert_int_equal(check(BYTES("\x83\xa1k\x01\xa1j\x01\xa1i\x01"), NULL), TP_OK);
  assert_int_equal(check(BYTES("\x82\xa1k\x82\xa1j\x01\xa1i\x01\xa1l\x81\xa1k\x01"), NULL), TP_OK);
}

TEST(five_bytes_that_declare_gigabytes_allocate_nothing) {
  const tp_text bombs[] = {
      BYTES("\xdd\x08\0\0\0"),
      BYTES("\xdd\xff\xff\xff\xff"),
      BYTES("\xdf\xff\xff\xff\xff"),
      BYTES("\xdf\x80\0\0\0"),
      BYTES("\xdb\xff\xff\xff\xff"),
      BYTES("\xc6\xff\xff\xff\xff"),
      BYTES("\xdc\xff\xff"),
      BYTES("\xde\xff\xff"),
      BYTES("\x81\xa1k\xdd\x08\0\0\0"),
      BYTES("\xdd\0\0\0\x03\xdd\xff\xff\xff\xff"),
  };
  for (size_t i = 0; i < sizeof bombs / sizeof bombs[0]; i++) {
    counting memory = {0};
    tp_allocator allocator = allocator_over(&memory);
    tp_text bomb = exact_copy(bombs[i]);
    assert_int_equal(tp__value_check(bomb, &allocator, NULL), TP_ERR_MALFORMED);
    assert_int_equal(memory.requests, 0);
    tp_value_walk walk = {0};
    while (tp_value_next(bomb, &walk)) continue;
    assert_int_equal(tp_value_at(bomb, 1u << 31).size, 0);
    exact_free(bomb);
  }
}

static tp_text nested(const char *unit, size_t depth, const char *end) {
  tp_text units = repeated(unit, depth);
  char *text = malloc(units.size + strlen(end) + 1);
  assert_non_null(text);
  memcpy(text, units.data, units.size);
  memcpy(text + units.size, end, strlen(end));
  tp_text all = {text, units.size + strlen(end)};
  exact_free(units);
  return all;
}

TEST(nesting_is_refused_from_the_33rd_level_on) {
  static const char *const units[] = {"\x91", "\x81\xa1k"};
  for (size_t i = 0; i < 2; i++) {
    tp_text deep = nested(units[i], 32, "\x01"), deeper = nested(units[i], 32, "\x90");
    tp_fault fault = {0};
    assert_int_equal(check(deep, NULL), TP_OK);
    assert_int_equal(check(deeper, &fault), TP_ERR_TOO_DEEP);
    char place[32];
    snprintf(place, sizeof place, "at byte %zu ", 32 * strlen(units[i]));
    assert_non_null(strstr(fault.message, place));
    exact_free(deep);
    exact_free(deeper);
  }
}

TEST(nesting_bombs_cost_no_more_than_their_size) {
  tp_text arrays = nested("\x91", 1000000, "\x01"), maps = nested("\x81\xa1k", 300000, "\x01");
  double before = seconds();
  assert_int_equal(check(arrays, NULL), TP_ERR_TOO_DEEP);
  assert_int_equal(check(maps, NULL), TP_ERR_TOO_DEEP);
  /* Readers meet bytes that were not checked. */
  assert_int_equal(tp_value_at(arrays, 0).size, arrays.size - 1);
  assert_int_equal(tp_value_get(maps, "k").size, maps.size - 3);
  assert_true(seconds() - before < 2);
  exact_free(arrays);
  exact_free(maps);
}

/* Keys in falling order with a long common beginning: the worst order for simple sorts. */
static tp_text write_large_map(tp_writer *writer, size_t count, bool repeat_one) {
  tp_write_map(writer, count);
  for (size_t i = 0; i < count; i++) {
    char key[64];
    size_t number = repeat_one && i == count - 1 ? count / 2 : count - i;
    snprintf(key, sizeof key, "the same long start of every key %08zu", number);
    tp_write_string(writer, key);
    tp_write_null(writer);
  }
  return finished(writer);
}

TEST(large_maps_are_checked_in_time_and_memory_near_their_size) {
  tp_writer *writer = new_writer();
  for (int repeat = 0; repeat < 2; repeat++) {
    counting memory = {0};
    tp_allocator allocator = allocator_over(&memory);
    tp_writer_reset(writer);
    tp_text value = write_large_map(writer, 100000, repeat == 1);
    double before = seconds();
    tp_fault fault = {0};
    assert_int_equal(tp__value_check(value, &allocator, &fault), repeat == 1 ? TP_ERR_MALFORMED : TP_OK);
    assert_true(seconds() - before < 20);
    assert_true(memory.peak_bytes <= value.size);
    assert_int_equal(memory.open, 0);
    assert_false(memory.wrong_size);
    if (repeat == 1) assert_non_null(strstr(fault.message, "repeated"));
  }
  tp_writer_free(writer);
}

TEST(value_above_64_mib_is_too_large) {
  size_t size = ((size_t)64 << 20) + 1;
  char *bytes = calloc(1, size);
  assert_non_null(bytes);
  tp_fault fault = {0};
  assert_int_equal(tp_value_check((tp_text){bytes, size}, &fault), TP_ERR_TOO_LARGE);
  assert_non_null(strstr(fault.message, "67108865"));
  free(bytes);
}

TEST(no_prefix_of_a_value_is_a_value) {
  random_values random = {.state = 7, .bytes = true};
  tp_writer *writer = new_writer();
  for (int i = 0; i < 200; i++) {
    tp_writer_reset(writer);
    write_random_value(&random, writer, 2);
    tp_text value = finished(writer);
    for (size_t size = 0; size < value.size && size < 1000; size++) {
      tp_text prefix = {value.data, size};
      if (check(prefix, NULL) == TP_OK) fail_msg("value %d, prefix of %zu", i, size);
    }
  }
  tp_writer_free(writer);
}

/* Reads all that can be reached; the sum keeps the compiler honest. */
static size_t read_everything(tp_text value, size_t depth) {
  size_t sum = tp_value_count(value) + tp_value_text(value).size + (size_t)tp_value_int(value, 0);
  sum += tp_value_bool(value, false) + (tp_value_double(value, 0) > 0) + tp_value_get(value, "k").size;
  sum += tp_value_at(value, 1).size + tp_value_key_at(value, 1).size;
  for (tp_value_walk walk = {0}; depth < 8 && tp_value_next(value, &walk);) {
    assert_true(walk.value.size > 0);
    sum += walk.key.size + read_everything(walk.value, depth + 1);
  }
  return sum;
}

TEST(readers_survive_any_bytes) {
  random_values random = {.state = 11, .bytes = true, .not_finite = true};
  tp_writer *writer = new_writer();
  size_t refused = 0;
  for (int i = 0; i < 3000; i++) {
    tp_writer_reset(writer);
    write_random_value(&random, writer, 3);
    tp_text value = exact_copy(finished(writer));
    char *bytes = (char *)value.data;
    for (size_t k = 1 + random_below(&random, 4); k-- > 0;) {
      bytes[random_below(&random, value.size)] = (char)random_bits(&random);
    }
    read_everything(value, 0);
    refused += tp_value_check(value, NULL) != TP_OK;
    exact_free(value);
  }
  assert_true(refused > 1000);
  tp_writer_free(writer);
}

/* ---- writers ---- */

TEST(what_is_not_exactly_one_value_does_not_finish) {
  tp_writer *writer = new_writer();
  tp_text value = {"untouched", 9};
  assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_MALFORMED); /* nothing */
  tp_write_array(writer, 2);
  tp_write_null(writer);
  assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_MALFORMED); /* not all */
  assert_int_equal(value.size, 9);
  tp_write_null(writer);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  assert_bytes(value, BYTES("\x92\xc0\xc0"));
  tp_write_null(writer); /* one too many, and that sticks */
  assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_MALFORMED);
  tp_writer_reset(writer);
  tp_write_map(writer, 1);
  tp_write_string(writer, "key without value");
  assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_MALFORMED);
  tp_writer_reset(writer);
  tp_write_map(writer, 0);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  assert_bytes(value, BYTES("\x80"));
  tp_writer_free(writer);
}

TEST(only_whole_values_are_copied) {
  const tp_text broken[] = {
      {NULL, 0}, BYTES("\x92\x01"), BYTES("\x01\x02"), BYTES("\xc1"), BYTES("\xdd\xff\xff\xff\xff")};
  tp_writer *writer = new_writer();
  tp_text value;
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    tp_writer_reset(writer);
    tp_write_value(writer, broken[i]);
    tp_write_null(writer); /* ignored */
    assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_MALFORMED);
  }
  tp_writer_reset(writer);
  tp_write_array(writer, 2);
  tp_write_value(writer, BYTES("\x92\x01\xcd\x00\x01"));
  tp_write_null(writer);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  assert_bytes(value, BYTES("\x92\x92\x01\xcd\x00\x01\xc0")); /* as it was spelled */
  tp_writer_free(writer);
}

TEST(what_cannot_fit_in_64_mib_is_refused_before_it_is_copied) {
  size_t limit = (size_t)64 << 20;
  counting memory = {0};
  tp_allocator allocator = allocator_over(&memory);
  tp_writer *writer;
  assert_int_equal(tp_writer_new(&allocator, &writer), TP_OK);
  tp_text value, large = {calloc(1, limit + 1), limit + 1};
  assert_non_null(large.data);
  for (int what = 0; what < 8; what++) {
    tp_writer_reset(writer);
    switch (what) {
      case 0:
        tp_write_text(writer, large);
        break;
      case 1:
        tp_write_bytes(writer, large);
        break;
      case 2:
        tp_write_text(writer, (tp_text){large.data, limit});
        break; /* there is a head, too */
      case 3:
        tp_write_array(writer, limit + 1);
        break;
      case 4:
        tp_write_map(writer, limit / 2 + 1);
        break;
      case 5:
        tp_write_map(writer, SIZE_MAX / 2 + 1);
        break; /* twice that is 0 */
      case 6:
        tp_write_array(writer, SIZE_MAX);
        break;
      default:
        tp_write_array(writer, limit / 2);
        tp_write_array(writer, limit / 2 + 2);
        break;
    }
    assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_TOO_LARGE);
    tp_write_null(writer);
    assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_TOO_LARGE);
  }
  assert_true(memory.peak_bytes < 4096);
  tp_writer_free(writer);
  free((void *)large.data);
  assert_int_equal(memory.open, 0);
}

/* Piece by piece, up to each size; the writer's own memory ends at TP__WRITER_BYTES_FIRST. */
TEST(short_values_need_no_memory_but_the_writer) {
  enum { HEAD = 3 /* of an array with more than 15 elements */ };
  for (size_t size = TP__WRITER_BYTES_FIRST - 1; size <= TP__WRITER_BYTES_FIRST + 1; size++) {
    counting memory = {0};
    tp_allocator allocator = allocator_over(&memory);
    tp_writer *writer;
    assert_int_equal(tp_writer_new(&allocator, &writer), TP_OK);
    tp_write_array(writer, size - HEAD);
    for (size_t i = 0; i < size - HEAD; i++) tp_write_int(writer, (int64_t)(i % 128));
    tp_text value = finished(writer);
    assert_int_equal(value.size, size);
    for (size_t i = 0; i < size - HEAD; i++) assert_int_equal((unsigned char)value.data[HEAD + i], i % 128);
    assert_int_equal(memory.requests, size <= TP__WRITER_BYTES_FIRST ? 1 : 2);
    tp_writer_free(writer);
    assert_int_equal(memory.open, 0);
    assert_false(memory.wrong_size);
  }
}

TEST(reset_clears_and_keeps_the_memory) {
  counting memory = {0};
  tp_allocator allocator = allocator_over(&memory);
  tp_writer *writer;
  assert_int_equal(tp_writer_new(&allocator, &writer), TP_OK);
  write_sample(writer);
  size_t requests = memory.requests;
  for (int i = 0; i < 10; i++) {
    tp_writer_reset(writer);
    write_sample(writer);
  }
  assert_int_equal(memory.requests, requests);
  tp_writer_free(writer);
  assert_int_equal(memory.open, 0);
  assert_false(memory.wrong_size);
  tp_writer_free(NULL);
}

/* ---- canonical form ---- */

static tp_text canonical_of(tp_text value, tp_writer *writer) {
  tp_writer_reset(writer);
  assert_int_equal(tp_value_write_canonical(value, writer, NULL), TP_OK);
  return finished(writer);
}

TEST(canonical_form_is_sorted_and_shortest) {
  const struct {
    tp_text value, canonical;
  } rows[] = {
      {BYTES("\xcd\x00\x01"), BYTES("\x01")},
      {BYTES("\xd3\xff\xff\xff\xff\xff\xff\xff\xff"), BYTES("\xff")},
      {BYTES("\xd3\0\0\0\0\0\0\0\xc8"), BYTES("\xcc\xc8")},
      {BYTES("\xdb\0\0\0\x01x"), BYTES("\xa1x")},
      {BYTES("\xc6\0\0\0\x01x"), BYTES("\xc4\x01x")},
      {BYTES("\xdd\0\0\0\x01\xdc\0\x01\x05"), BYTES("\x91\x91\x05")},
      {BYTES("\xca\x3f\xc0\0\0"), BYTES("\xcb\x3f\xf8\0\0\0\0\0\0")},   /* float 32 */
      {BYTES("\xca\x7f\xc0\0\x01"), BYTES("\xcb\x7f\xf8\0\0\0\0\0\0")}, /* NaN */
      {BYTES("\xcb\xff\xf8\0\0\0\0\x12\x34"), BYTES("\xcb\x7f\xf8\0\0\0\0\0\0")},
      {BYTES("\xcb\x80\0\0\0\0\0\0\0"), BYTES("\xcb\x80\0\0\0\0\0\0\0")}, /* -0.0 stays */
      {BYTES("\xde\0\x02\xa1"
             "b\x01\xa1"
             "a\x02"),
       BYTES("\x82\xa1"
             "a\x02\xa1"
             "b\x01")},
      {BYTES("\x84\xa2\xc3\xa9\x01\xa2zz\x02\xa1z\x03\xa0\x04"),
       BYTES("\x84\xa0\x04\xa1z\x03\xa2zz\x02\xa2\xc3\xa9\x01")},
      {BYTES("\x81\xa1k\x82\xa1"
             "b\x82\xa1y\x01\xa1x\x02\xa1"
             "a\xc0"),
       BYTES("\x81\xa1k\x82\xa1"
             "a\xc0\xa1"
             "b\x82\xa1x\x02\xa1y\x01")},
  };
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_bytes(canonical_of(rows[i].value, writer), rows[i].canonical);
  }
  tp_writer_free(writer);
}

/* Writes the same content in another form: pairs in another order, heads longer than necessary. */
static void write_otherwise(random_values *random, tp_text value, tp_writer *writer) {
  size_t count = tp_value_count(value);
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_MAP: {
      tp_write_map(writer, count);
      size_t step = count > 0 ? random_below(random, count) : 0;
      for (size_t i = 0; i < count; i++) {
        size_t at = (count - 1 - i + step) % count;
        tp_write_text(writer, tp_value_key_at(value, at));
        write_otherwise(random, tp_value_at(value, at), writer);
      }
      break;
    }
    case TP_VALUE_ARRAY:
      tp_write_array(writer, count);
      for (size_t i = 0; i < count; i++) write_otherwise(random, tp_value_at(value, i), writer);
      break;
    case TP_VALUE_INT: {
      uint64_t number = (uint64_t)tp_value_int(value, 0);
      char bytes[9] = {'\xd3'};
      for (int i = 0; i < 8; i++) bytes[8 - i] = (char)(number >> 8 * i);
      tp_write_value(writer, (tp_text){bytes, 9});
      break;
    }
    default:
      tp_write_value(writer, value);
      break;
  }
}

TEST(values_with_the_same_content_have_the_same_canonical_bytes) {
  random_values random = {.state = 3, .bytes = true, .not_finite = true};
  tp_writer *first = new_writer(), *second = new_writer(), *third = new_writer();
  for (int i = 0; i < 600; i++) {
    tp_writer_reset(first);
    write_random_value(&random, first, 0);
    tp_text value = finished(first);
    assert_int_equal(tp_value_check(value, NULL), TP_OK);
    tp_writer_reset(second);
    write_otherwise(&random, value, second);
    tp_text canonical = canonical_of(finished(second), third);
    tp_text directly = canonical_of(value, second);
    assert_int_equal(tp_value_check(canonical, NULL), TP_OK);
    if (!same_bytes(canonical, directly)) fail_msg("value %d", i);
    tp_writer_reset(first);
    assert_bytes(canonical_of(directly, first), directly); /* it is its own canonical form */
  }
  tp_writer_free(first);
  tp_writer_free(second);
  tp_writer_free(third);
}

TEST(refused_value_leaves_the_writer_as_it_was) {
  tp_writer *writer = new_writer();
  tp_fault fault = {0};
  tp_write_array(writer, 2);
  tp_write_int(writer, 1);
  assert_int_equal(tp_value_write_canonical(BYTES("\x82\xa1k\x01\xa1k\x02"), writer, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "at byte 4"));
  assert_int_equal(tp_value_write_canonical(BYTES("\xcd\0\x02"), writer, &fault), TP_OK);
  assert_bytes(finished(writer), BYTES("\x92\x01\x02"));
  assert_int_equal(tp_value_write_canonical(BYTES("\x01"), writer, &fault), TP_ERR_MALFORMED); /* the writer is full */
  tp_writer_free(writer);
}

TEST(canonical_form_of_hostile_maps_takes_time_near_their_size) {
  tp_writer *from = new_writer(), *to = new_writer();
  tp_text large = write_large_map(from, 100000, false);
  double before = seconds();
  canonical_of(large, to);
  tp_text maps = repeated("\x81\xa1k", 31); /* 31 maps around an array */
  tp_writer_reset(from);
  tp_write_array(from, 100000);
  for (int i = 0; i < 100000; i++) tp_write_int(from, i);
  tp_text array = finished(from);
  char *deep = malloc(maps.size + array.size);
  assert_non_null(deep);
  memcpy(deep, maps.data, maps.size);
  memcpy(deep + maps.size, array.data, array.size);
  tp_text value = {deep, maps.size + array.size};
  assert_bytes(canonical_of(value, to), value);
  assert_true(seconds() - before < 20);
  free(deep);
  exact_free(maps);
  tp_writer_free(from);
  tp_writer_free(to);
}

/* ---- memory refused ---- */

static tp_status write_and_canonicalise(const tp_allocator *allocator) {
  tp_writer *from = NULL, *to = NULL;
  tp_text value;
  tp_fault fault = {0};
  tp_status status = tp_writer_new(allocator, &from);
  if (status == TP_OK) status = tp_writer_new(allocator, &to);
  if (status == TP_OK) {
    tp_write_map(from, 300);
    for (int i = 0; i < 300; i++) {
      char key[16];
      snprintf(key, sizeof key, "%d", i);
      tp_write_string(from, key);
      tp_write_string(from, "value");
    }
    status = tp_writer_finish(from, &value);
  }
  if (status == TP_OK) {
    status = tp_value_write_canonical(value, to, &fault);
    assert_int_equal(fault.code, status);
    assert_int_equal(tp_writer_finish(to, &value) == TP_OK, status == TP_OK); /* nothing half-written finishes */
  }
  tp_writer_free(from);
  tp_writer_free(to);
  return status;
}

TEST(refused_memory_is_an_error_and_leaks_nothing) {
  size_t refusals = 0;
  for (size_t n = 1;; n++) {
    counting memory = {.refuse_at = n};
    tp_allocator allocator = allocator_over(&memory);
    tp_status status = write_and_canonicalise(&allocator);
    assert_int_equal(memory.open, 0);
    assert_false(memory.wrong_size);
    if (memory.requests < n) {
      assert_int_equal(status, TP_OK);
      break;
    }
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    refusals++;
  }
  assert_true(refusals > 10);
}

TEST(failed_check_for_want_of_memory_says_so) {
  tp_writer *writer = new_writer();
  tp_text value = write_large_map(writer, 65, false);
  counting memory = {.refuse_at = 1};
  tp_allocator allocator = allocator_over(&memory);
  tp_fault fault = {0};
  assert_int_equal(tp__value_check(value, &allocator, &fault), TP_ERR_NO_MEMORY);
  assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
  assert_int_equal(tp__value_check(value, &allocator, NULL), TP_OK); /* the second request is granted */
  assert_int_equal(memory.open, 0);
  tp_writer_free(writer);
}

TEST(members_are_read_by_name_and_kind) {
  static const char *const keys[] = {"text", "int", "real", "yes", "null", "list", "map", "none"};
  tp_writer *writer;
  tp_text map;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_decode(tp_text_of("{\"text\":\"a\",\"int\":7,\"real\":2.5,\"yes\":true,\"null\":null,"
                                             "\"list\":[],\"map\":{}}"),
                                  writer, NULL),
                   TP_OK);
  assert_int_equal(tp_writer_finish(writer, &map), TP_OK);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    bool is_missing = i == 4 || i == 7;
    tp_text text = {"x", 1};
    int64_t number = -1;
    double real = -1;
    bool flag = false;
    tp_status otherwise = is_missing ? TP_ERR_NOT_FOUND : TP_ERR_MALFORMED;
    assert_int_equal(tp_value_get_text(map, keys[i], &text, NULL), i == 0 ? TP_OK : otherwise);
    assert_true(tp_text_is(text, i == 0 ? "a" : "x"));
    assert_int_equal(tp_value_get_int(map, keys[i], &number, NULL), i == 1 ? TP_OK : otherwise);
    assert_int_equal(number, i == 1 ? 7 : -1);
    assert_int_equal(tp_value_get_double(map, keys[i], &real, NULL), i == 1 || i == 2 ? TP_OK : otherwise);
    assert_true(real == (i == 1 ? 7 : i == 2 ? 2.5 : -1));
    assert_int_equal(tp_value_get_bool(map, keys[i], &flag, NULL), i == 3 ? TP_OK : otherwise);
    assert_int_equal(flag, i == 3);
  }
  tp_writer_free(writer);
}

TEST(fault_of_a_member_names_key_and_kind) {
  tp_fault fault;
  tp_text text;
  double real;
  static const tp_text map = {
      "\x81\xa4"
      "city\x80",
      7};
  assert_int_equal(tp_value_get_text(map, "city", &text, &fault), TP_ERR_MALFORMED);
  assert_string_equal(fault.message, "city must be text, not a map");
  assert_int_equal(tp_value_get_double(map, "city", &real, &fault), TP_ERR_MALFORMED);
  assert_string_equal(fault.message, "city must be a number, not a map");
  assert_int_equal(tp_value_get_text(map, "day", &text, &fault), TP_ERR_NOT_FOUND);
  assert_string_equal(fault.message, "day is missing");
  assert_int_equal(tp_value_get_text((tp_text){"\x07", 1}, "day", &text, &fault), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_value_get_text(map, NULL, &text, &fault), TP_ERR_NOT_FOUND);
}
