/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>

#include "tests/support/test.h"
#include "domains/declared/text.h"
#include "tests/unit/value_support.h"
#include "turnphase/declared.h"

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

static tp_status decode(tp_text json, tp_writer *writer, tp_fault *fault) {
  tp_text copy = exact_copy(json);
  tp_writer_reset(writer);
  tp_status status = tp_json_decode(copy, writer, fault);
  exact_free(copy);
  return status;
}

/* Gathers what is printed. */
typedef struct printed {
  char *text;
  size_t size, capacity, calls;
} printed;

static void gather(void *ctx, const char *text, size_t size) {
  printed *p = ctx;
  if (p->size + size + 1 > p->capacity) {
    p->capacity = 2 * (p->size + size + 1);
    p->text = realloc(p->text, p->capacity);
    if (!p->text) abort();
  }
  memcpy(p->text + p->size, text, size);
  p->size += size;
  p->text[p->size] = '\0';
  p->calls++;
}

static tp_text encoded(tp_text value, printed *p) {
  p->size = 0;
  assert_int_equal(tp_json_encode(value, gather, p, NULL), TP_OK);
  return (tp_text){p->text, p->size};
}

/* ---- decoding ---- */

TEST(every_kind_is_decoded) {
  tp_writer *writer = new_writer();
  tp_text json = tp_text_of(
      " {\"n\": null, \"t\": true, \"f\": false, \"i\": -7, \"d\": 2.5, \"s\": \"caf\\u00e9\","
      " \"a\": [1, [], {}], \"\": {\"z\": 1, \"a\": 2}}\n");
  assert_int_equal(decode(json, writer, NULL), TP_OK);
  tp_text value = finished(writer);
  assert_int_equal(tp_value_check(value, NULL), TP_OK);
  assert_int_equal(tp_value_count(value), 8);
  assert_int_equal(tp_value_kind_of(tp_value_get(value, "n")), TP_VALUE_NULL);
  assert_true(tp_value_bool(tp_value_get(value, "t"), false));
  assert_false(tp_value_bool(tp_value_get(value, "f"), true));
  assert_int_equal(tp_value_int(tp_value_get(value, "i"), 0), -7);
  assert_true(tp_value_double(tp_value_get(value, "d"), 0) == 2.5);
  assert_true(same_bytes(tp_value_text(tp_value_get(value, "s")), tp_text_of("caf\xc3\xa9")));
  assert_int_equal(tp_value_count(tp_value_get(value, "a")), 3);
  tp_text last = tp_value_get(value, "");
  assert_true(same_bytes(tp_value_key_at(last, 0), tp_text_of("z"))); /* in the order of the text */
  tp_writer_free(writer);
}

TEST(numbers_keep_their_kind_and_all_their_bits) {
  static const struct {
    const char *json;
    int64_t number;
  } ints[] = {{"0", 0},
              {"-0", 0},
              {"9223372036854775807", INT64_MAX},
              {"-9223372036854775808", INT64_MIN},
              {"9007199254740993", INT64_C(9007199254740993)}};
  static const struct {
    const char *json;
    double number;
  } floats[] = {{"0.0", 0.0},
                {"-0.0", -0.0},
                {"1e2", 100},
                {"1E+2", 100},
                {"0.1", 0.1},
                {"1e-400", 0},
                {"1.7976931348623157e308", 1.7976931348623157e308},
                {"5e-324", 5e-324},
                {"1.0", 1}};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
    assert_int_equal(decode(tp_text_of(ints[i].json), writer, NULL), TP_OK);
    tp_text value = finished(writer);
    assert_int_equal(tp_value_kind_of(value), TP_VALUE_INT);
    assert_true(tp_value_int(value, 4711) == ints[i].number);
  }
  for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
    assert_int_equal(decode(tp_text_of(floats[i].json), writer, NULL), TP_OK);
    tp_text value = finished(writer);
    assert_int_equal(tp_value_kind_of(value), TP_VALUE_DOUBLE);
    double number = tp_value_double(value, 4711);
    assert_true(number == floats[i].number && signbit(number) == signbit(floats[i].number));
  }
  tp_writer_free(writer);
}

TEST(nul_in_text_is_kept) {
  tp_writer *writer = new_writer();
  assert_int_equal(decode(tp_text_of("\"a\\u0000b\""), writer, NULL), TP_OK);
  assert_true(same_bytes(tp_value_text(finished(writer)), (tp_text){"a\0b", 3}));
  tp_writer_free(writer);
}

TEST(bad_json_is_refused_with_line_and_column) {
  static const struct {
    const char *json;
    tp_status status;
    uint32_t line, column;
  } rows[] = {
      {"", TP_ERR_MALFORMED, 1, 1},
      {"  ", TP_ERR_MALFORMED, 1, 3},
      {"[1,]", TP_ERR_MALFORMED, 1, 4},
      {"[1,\n 2\n", TP_ERR_MALFORMED, 3, 1},
      {"{\"a\": 1,\n \"b\" 2}", TP_ERR_MALFORMED, 2, 6},
      {"{\"a\":1}}", TP_ERR_MALFORMED, 1, 8},
      {"1 2", TP_ERR_MALFORMED, 1, 3}, /* trailing text */
      {"{}\n\nnull", TP_ERR_MALFORMED, 3, 4},
      {"nul", TP_ERR_MALFORMED, 1, 3},
      {"True", TP_ERR_MALFORMED, 1, 4},
      {"'a'", TP_ERR_MALFORMED, 1, 1},
      {"\x1b[31m", TP_ERR_MALFORMED, 1, 1}, /* what the message quotes is made harmless */
      {"\xc3\xa9", TP_ERR_MALFORMED, 1, 1},
      {"01", TP_ERR_MALFORMED, 1, 1},
      {"1.", TP_ERR_MALFORMED, 1, 2},
      {".5", TP_ERR_MALFORMED, 1, 1},
      {"+1", TP_ERR_MALFORMED, 1, 1},
      {"NaN", TP_ERR_MALFORMED, 1, 3},
      {"-Infinity", TP_ERR_MALFORMED, 1, 1},
      {"[1 /* no */]", TP_ERR_MALFORMED, 1, 4},
      {"{a: 1}", TP_ERR_MALFORMED, 1, 2},
      {"{1: 1}", TP_ERR_MALFORMED, 1, 2},
      {"\"open", TP_ERR_MALFORMED, 1, 6},
      {"\"tab\there\"", TP_ERR_MALFORMED, 1, 4},
      {"\"\\x41\"", TP_ERR_MALFORMED, 1, 3},
      {"{\"a\" \"b\"}", TP_ERR_MALFORMED, 1, 8},
      {"[\"a\" \"b\"]", TP_ERR_MALFORMED, 1, 8},
      {"{\"a\": 1, 'b'}", TP_ERR_MALFORMED, 1, 10},
      {"\xef\xbb\xbf{}", TP_ERR_MALFORMED, 1, 1},         /* byte order mark */
      {"\"\xc3\xa9\xc3\xa9\" x", TP_ERR_MALFORMED, 1, 6}, /* columns are code points */
      {"9223372036854775808", TP_ERR_MALFORMED, 1, 19},   /* out of range */
      {"[-9223372036854775809]", TP_ERR_MALFORMED, 1, 21},
      {"18446744073709551615", TP_ERR_MALFORMED, 1, 20},
      {"[1e400]", TP_ERR_MALFORMED, 1, 6},
      {"-1e999", TP_ERR_MALFORMED, 1, 6},
      {"{\"a\": 1,\n \"a\": 2}", TP_ERR_MALFORMED, 2, 4}, /* duplicate keys */
      {"{\"a\": 1, \"\\u0061\": 2}", TP_ERR_MALFORMED, 1, 17},
      {"[{\"k\": {\"a\": 1, \"b\": 2, \"a\": 3}}]", TP_ERR_MALFORMED, 1, 27},
      {"{\"a\\u0000\": 1}", TP_ERR_MALFORMED, 1, 10}, /* NUL in a key */
      {"[\"\\ud800\"]", TP_ERR_MALFORMED, 1, 9},      /* lone surrogates */
      {"[\"\\udc00\"]", TP_ERR_MALFORMED, 1, 9},
      {"[\"\\ud800\\u0041\"]", TP_ERR_MALFORMED, 1, 15},
      {"[\n\"\xff\"]", TP_ERR_UTF8, 2, 2},
      {"\"\xc3\xa9\xc3\x28\"", TP_ERR_UTF8, 1, 3},
      {"\"\xed\xa0\x80\"", TP_ERR_UTF8, 1, 2},
      {"\"\xc0\xaf\"", TP_ERR_UTF8, 1, 2},
  };
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_fault fault = {0};
    tp_text untouched = {"x", 1};
    tp_status status = decode(tp_text_of(rows[i].json), writer, &fault);
    if (status != rows[i].status || fault.line != rows[i].line || fault.column != rows[i].column) {
      fail_msg("%s: %s at %u:%u: %s", rows[i].json, tp_status_name(status), fault.line, fault.column, fault.message);
    }
    assert_int_equal(fault.code, status);
    assert_true(strlen(fault.message) > 10 && tp_utf8_valid(tp_text_of(fault.message), NULL));
    assert_null(strpbrk(fault.message, "\x1b\n"));
    assert_int_equal(decode(tp_text_of(rows[i].json), writer, NULL), rows[i].status);
    assert_int_equal(tp_writer_finish(writer, &untouched), TP_ERR_MALFORMED); /* nothing was written */
  }
  tp_writer_free(writer);
}

TEST(raw_nul_is_refused) {
  static const char json[] = "[1,\0 2]";
  tp_writer *writer = new_writer();
  tp_fault fault = {0};
  assert_int_equal(decode((tp_text){json, sizeof json - 1}, writer, &fault), TP_ERR_MALFORMED);
  assert_int_equal(fault.line, 1);
  tp_writer_free(writer);
}

/* A NUL directly behind a number or a word was swallowed: what stood behind it was not read, or read as if it stood
 * alone. */
TEST(raw_nul_behind_any_value_is_refused) {
  static const tp_text texts[] = {{"{\"continue\":0\0}", 15},
                                  {"[true\0]", 7},
                                  {"[false\0,1]", 10},
                                  {"[null\0]", 7},
                                  {"1\0", 2},
                                  {"[1.5\0]", 7},
                                  {"[1e3\0]", 7},
                                  {"\"a\"\0", 4},
                                  {"\0"
                                   "1",
                                   2},
                                  {"null\0\0", 6},
                                  {"{}\0", 3}};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    tp_fault fault = {0};
    tp_status status = decode(texts[i], writer, &fault);
    if (status != TP_ERR_MALFORMED) fail_msg("text %zu: %s", i, tp_status_name(status));
    assert_true(fault.line == 1 && fault.column > 0);
    tp_writer_reset(writer);
  }
  tp_writer_free(writer);
}

TEST(byte_order_mark_is_named) {
  tp_writer *writer = new_writer();
  tp_fault fault = {0};
  assert_int_equal(decode(tp_text_of("\xEF\xBB\xBF{}"), writer, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "byte-order mark"));
  tp_writer_free(writer);
}

TEST(nesting_is_refused_from_the_33rd_level_on) {
  tp_writer *writer = new_writer();
  static const char *const opens[] = {"[", "{\"k\":"}, *const closes[] = {"]", "}"};
  for (size_t i = 0; i < 2; i++) {
    for (size_t depth = 32; depth <= 33; depth++) {
      tp_text open = repeated(opens[i], depth), close = repeated(closes[i], depth);
      printed p = {0};
      gather(&p, open.data, open.size);
      gather(&p, "1", 1);
      gather(&p, close.data, close.size);
      tp_fault fault = {0};
      assert_int_equal(decode((tp_text){p.text, p.size}, writer, &fault), depth == 32 ? TP_OK : TP_ERR_TOO_DEEP);
      if (depth == 32) assert_int_equal(tp_value_check(finished(writer), NULL), TP_OK);
      if (depth == 33) assert_int_equal(fault.column, 32 * strlen(opens[i]) + 1);
      free(p.text);
      exact_free(open);
      exact_free(close);
    }
  }
  tp_writer_free(writer);
}

TEST(bombs_are_refused_in_time_near_their_size) {
  static const struct {
    const char *unit;
    size_t count;
    tp_status status;
  } rows[] = {
      {"[", 100000, TP_ERR_TOO_DEEP},        {"[", 1000000, TP_ERR_TOO_DEEP},  {"{", 1000000, TP_ERR_TOO_DEEP},
      {"[{\"a\":", 200000, TP_ERR_TOO_DEEP}, {"]", 1000000, TP_ERR_MALFORMED}, {"\"", 1000001, TP_ERR_MALFORMED},
      {"\"\\", 500000, TP_ERR_MALFORMED},    {"9", 1000000, TP_ERR_MALFORMED}, {"[],", 1000000, TP_ERR_TOO_LARGE},
      {",", 2000000, TP_ERR_TOO_LARGE},      {" ", 1000000, TP_ERR_MALFORMED}, {"\n", 1000000, TP_ERR_MALFORMED},
      {"\xff", 1000000, TP_ERR_UTF8},        {"-", 1000000, TP_ERR_MALFORMED}, {"\"a\":", 250000, TP_ERR_MALFORMED},
  };
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_text bomb = repeated(rows[i].unit, rows[i].count);
    tp_fault fault = {0};
    double before = seconds();
    assert_int_equal(decode(bomb, writer, &fault), rows[i].status);
    assert_true(seconds() - before < 2);
    assert_true(fault.line >= 1 && fault.column >= 1);
    exact_free(bomb);
  }
  tp_writer_free(writer);
}

TEST(large_but_honest_json_is_decoded) {
  tp_writer *writer = new_writer();
  printed p = {0};
  gather(&p, "{", 1);
  for (int i = 200000; i > 0; i--) {
    char pair[64];
    gather(&p, pair, (size_t)snprintf(pair, sizeof pair, "\"the key of number %d\":%d%s", i, i, i > 1 ? "," : "}"));
  }
  double before = seconds();
  assert_int_equal(decode((tp_text){p.text, p.size}, writer, NULL), TP_OK);
  assert_int_equal(tp_value_count(finished(writer)), 200000);
  assert_true(seconds() - before < 20);
  tp_text brackets = repeated("[{,", 600000); /* in a text they are no structure */
  p.size = 0;
  gather(&p, "\"\\\"", 3);
  gather(&p, brackets.data, brackets.size);
  gather(&p, "\"", 1);
  assert_int_equal(decode((tp_text){p.text, p.size}, writer, NULL), TP_OK);
  assert_int_equal(tp_value_text(finished(writer)).size, brackets.size + 1);
  exact_free(brackets);
  free(p.text);
  tp_writer_free(writer);
}

TEST(json_above_64_mib_is_too_large) {
  size_t size = ((size_t)64 << 20) + 1;
  char *json = calloc(1, size);
  assert_non_null(json);
  tp_writer *writer = new_writer();
  tp_fault fault = {0};
  assert_int_equal(tp_json_decode((tp_text){json, size}, writer, &fault), TP_ERR_TOO_LARGE);
  assert_int_equal(fault.line, 0);
  tp_writer_free(writer);
  free(json);
}

/* ---- encoding ---- */

TEST(values_are_written_compactly_in_their_order) {
  static const char *const texts[] = {"null",
                                      "true",
                                      "false",
                                      "0",
                                      "-9223372036854775808",
                                      "9223372036854775807",
                                      "0.1",
                                      "-0.0",
                                      "1.0",
                                      "1e+300",
                                      "\"\"",
                                      "[]",
                                      "{}",
                                      "[1,[2.5,null],{}]",
                                      "{\"z\":1,\"a\":[true],\"m\":{\"b\":\"x\"}}",
                                      "\"caf\xc3\xa9 \xf0\x9f\x98\x80\"",
                                      "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f/\"",
                                      "{\"\\\"\":\"'\"}",
                                      "100000000000000.0",
                                      "1e+17",
                                      "4.94065645841247e-324"};
  tp_writer *writer = new_writer();
  printed p = {0};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    assert_int_equal(decode(tp_text_of(texts[i]), writer, NULL), TP_OK);
    tp_text json = encoded(finished(writer), &p);
    if (!same_bytes(json, tp_text_of(texts[i]))) fail_msg("%s became %s", texts[i], p.text);
  }
  free(p.text);
  tp_writer_free(writer);
}

TEST(bytes_become_base64) {
  static const char *const rows[][2] = {{"", "\"\""},
                                        {"f", "\"Zg==\""},
                                        {"fo", "\"Zm8=\""},
                                        {"foo", "\"Zm9v\""},
                                        {"foob", "\"Zm9vYg==\""},
                                        {"fooba", "\"Zm9vYmE=\""},
                                        {"foobar", "\"Zm9vYmFy\""},
                                        {"\xff\xef\xbe", "\"/+++\""}};
  tp_writer *writer = new_writer();
  printed p = {0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_writer_reset(writer);
    tp_write_bytes(writer, tp_text_of(rows[i][0]));
    encoded(finished(writer), &p);
    assert_string_equal(p.text, rows[i][1]);
  }
  free(p.text);
  tp_writer_free(writer);
}

TEST(what_json_has_no_number_for_becomes_null) {
  tp_writer *writer = new_writer();
  printed p = {0};
  tp_write_array(writer, 3);
  tp_write_double(writer, (double)NAN);
  tp_write_double(writer, (double)INFINITY);
  tp_write_double(writer, -(double)INFINITY);
  encoded(finished(writer), &p);
  assert_string_equal(p.text, "[null,null,null]");
  free(p.text);
  tp_writer_free(writer);
}

TEST(broken_value_prints_nothing) {
  printed p = {0};
  tp_fault fault = {0};
  assert_int_equal(tp_json_encode((tp_text){"\x92\x01", 2}, gather, &p, &fault), TP_ERR_MALFORMED);
  assert_int_equal(tp_json_encode((tp_text){"\xa1\xff", 2}, gather, &p, NULL), TP_ERR_UTF8);
  assert_int_equal(p.calls, 0);
  assert_non_null(strstr(fault.message, "at byte 0 of 2"));
}

TEST(long_text_is_printed_whole) {
  tp_writer *writer = new_writer();
  printed p = {0};
  for (size_t size = 1000; size < 1040; size++) { /* around the size of the buffer between */
    tp_text text = repeated("x", size);
    tp_writer_reset(writer);
    tp_write_array(writer, 2);
    tp_write_text(writer, text);
    tp_write_string(writer, "\n");
    tp_text json = encoded(finished(writer), &p);
    assert_int_equal(json.size, size + 9);
    assert_memory_equal(json.data + 2, text.data, size);
    assert_string_equal(json.data + 2 + size, "\",\"\\n\"]");
    exact_free(text);
  }
  free(p.text);
  tp_writer_free(writer);
}

TEST(every_float_reads_back_as_the_same_float) {
  random_values random = {.state = 17};
  for (int i = 0; i < 50000; i++) {
    double number = random_double(&random);
    char text[TP__DOUBLE_TEXT_SIZE];
    tp__double_print(number, text);
    double again = strtod(text, NULL);
    bool same = memcmp(&again, &number, sizeof number) == 0;
    if (!same || !strpbrk(text, ".e") || strlen(text) > 24) fail_msg("%a: %s", number, text);
  }
}

/* ---- both ---- */

static void canonical_into(tp_text value, tp_writer *writer) {
  tp_writer_reset(writer);
  assert_int_equal(tp_value_write_canonical(value, writer, NULL), TP_OK);
}

TEST(random_values_survive_the_way_through_json) {
  random_values random = {.state = 23};
  tp_writer *first = new_writer(), *second = new_writer(), *third = new_writer();
  printed p = {0};
  for (int i = 0; i < 3000; i++) {
    tp_writer_reset(first);
    write_random_value(&random, first, 0);
    tp_text value = finished(first);
    assert_int_equal(tp_value_check(value, NULL), TP_OK);
    canonical_into(value, second);
    tp_text json = encoded(finished(second), &p);
    assert_int_equal(decode(json, third, NULL), TP_OK);
    assert_true(same_bytes(finished(third), finished(second))); /* canonical order is kept, so no need to sort again */
    encoded(value, &p);
    assert_int_equal(decode((tp_text){p.text, p.size}, third, NULL), TP_OK);
    canonical_into(finished(third), first);
    assert_true(same_bytes(finished(first), finished(second)));
  }
  free(p.text);
  tp_writer_free(first);
  tp_writer_free(second);
  tp_writer_free(third);
}

/* ---- memory refused ---- */

static counting jansson_memory;

static void *jansson_alloc(size_t size) { return counting_alloc(&jansson_memory, size); }

static void jansson_release(void *memory) {
  if (memory) counting_release(&jansson_memory, memory, *(size_t *)((char *)memory - 16));
}

/* Every token is shorter than jansson's first buffer for one: from the growth of that buffer jansson 2.14 does not
 * recover (its issue 362), and json.c asks for memory beforehand instead. */
TEST(refused_memory_is_an_error_and_leaks_nothing) {
  tp_text json = tp_text_of(
      "{\"a\": [1, 2.5, \"text\", {\"b\": null}], \"c\": {\"d\": [true, false]},"
      " \"e\": 12345678901}");
  json_set_alloc_funcs(jansson_alloc, jansson_release);
  size_t refusals = 0;
  for (size_t n = 1;; n++) {
    jansson_memory = (counting){.refuse_at = n};
    tp_writer *writer = new_writer();
    tp_fault fault = {0};
    tp_text value;
    tp_status status = tp_json_decode(json, writer, &fault);
    bool finishes = tp_writer_finish(writer, &value) == TP_OK;
    tp_writer_free(writer);
    assert_int_equal(jansson_memory.open, 0);
    assert_int_equal(finishes, status == TP_OK);
    if (status == TP_OK) {
      assert_true(jansson_memory.requests < n);
      break;
    }
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
    refusals++;
  }
  json_set_alloc_funcs(malloc, free);
  assert_true(refusals > 20);
}

TEST(writer_without_memory_says_so_when_it_finishes) {
  tp_text json = repeated("x", 100000);
  ((char *)json.data)[0] = ((char *)json.data)[json.size - 1] = '"';
  counting memory = {.refuse_at = 2};
  tp_allocator allocator = allocator_over(&memory);
  tp_writer *writer;
  tp_text value;
  assert_int_equal(tp_writer_new(&allocator, &writer), TP_OK);
  assert_int_equal(tp_json_decode(json, writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_NO_MEMORY);
  tp_writer_free(writer);
  assert_int_equal(memory.open, 0);
  exact_free(json);
}
