/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <math.h>

#include "tests/support/test.h"
#include "tests/unit/value_support.h"

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

/* Borrowed from the writer until its next text. */
static tp_text encoded(tp_text value, tp_writer *writer) {
  tp_text json = {NULL, 0};
  assert_int_equal(tp_json_encode(value, writer, &json, NULL), TP_OK);
  assert_int_equal(strlen(json.data), json.size);
  return json;
}

static void put(char *text, size_t *size, const char *piece) {
  memcpy(text + *size, piece, strlen(piece) + 1);
  *size += strlen(piece);
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
      {"{}\n\nnull", TP_ERR_MALFORMED, 3, 1},
      {"nul", TP_ERR_MALFORMED, 1, 1},
      {"True", TP_ERR_MALFORMED, 1, 1},
      {"'a'", TP_ERR_MALFORMED, 1, 1},
      {"\x1b[31m", TP_ERR_MALFORMED, 1, 1}, /* what the message quotes is made harmless */
      {"\xc3\xa9", TP_ERR_MALFORMED, 1, 1},
      {"01", TP_ERR_MALFORMED, 1, 1},
      {"1.", TP_ERR_MALFORMED, 1, 3},
      {".5", TP_ERR_MALFORMED, 1, 1},
      {"+1", TP_ERR_MALFORMED, 1, 1},
      {"NaN", TP_ERR_MALFORMED, 1, 1},
      {"-Infinity", TP_ERR_MALFORMED, 1, 2},
      {"[1 /* no */]", TP_ERR_MALFORMED, 1, 4},
      {"{a: 1}", TP_ERR_MALFORMED, 1, 2},
      {"{1: 1}", TP_ERR_MALFORMED, 1, 2},
      {"\"open", TP_ERR_MALFORMED, 1, 6},
      {"\"tab\there\"", TP_ERR_MALFORMED, 1, 5},
      {"\"\\x41\"", TP_ERR_MALFORMED, 1, 2},
      {"{\"a\" \"b\"}", TP_ERR_MALFORMED, 1, 6},
      {"[\"a\" \"b\"]", TP_ERR_MALFORMED, 1, 6},
      {"{\"a\": 1, 'b'}", TP_ERR_MALFORMED, 1, 10},
      {"\xef\xbb\xbf{}", TP_ERR_MALFORMED, 1, 1},         /* byte order mark */
      {"\"\xc3\xa9\xc3\xa9\" x", TP_ERR_MALFORMED, 1, 6}, /* columns are code points */
      {"9223372036854775808", TP_ERR_MALFORMED, 1, 1},    /* out of range */
      {"[-9223372036854775809]", TP_ERR_MALFORMED, 1, 2},
      {"18446744073709551615", TP_ERR_MALFORMED, 1, 1},
      {"[1e400]", TP_ERR_MALFORMED, 1, 2},
      {"-1e999", TP_ERR_MALFORMED, 1, 1},
      {"{\"a\": 1,\n \"a\": 2}", TP_ERR_MALFORMED, 2, 2}, /* duplicate keys */
      {"{\"a\": 1, \"\\u0061\": 2}", TP_ERR_MALFORMED, 1, 10},
      {"[{\"k\": {\"a\": 1, \"b\": 2, \"a\": 3}}]", TP_ERR_MALFORMED, 1, 25},
      {"[\"\\ud800\"]", TP_ERR_MALFORMED, 1, 3}, /* lone surrogates */
      {"[\"\\udc00\"]", TP_ERR_MALFORMED, 1, 3},
      {"[\"\\ud800\\u0041\"]", TP_ERR_MALFORMED, 1, 3},
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

/* A NUL directly after a number or a word used to be swallowed: the text after it was not read, or read as if it stood
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
      char json[512];
      int size = snprintf(json, sizeof json, "%.*s1%.*s", (int)open.size, open.data, (int)close.size, close.data);
      tp_fault fault = {0};
      assert_int_equal(decode((tp_text){json, (size_t)size}, writer, &fault), depth == 32 ? TP_OK : TP_ERR_TOO_DEEP);
      if (depth == 32) assert_int_equal(tp_value_check(finished(writer), NULL), TP_OK);
      if (depth == 33) assert_int_equal(fault.column, 32 * strlen(opens[i]) + 1);
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
  char *text = malloc(16 << 20);
  size_t size = 0;
  assert_non_null(text);
  put(text, &size, "{");
  for (int i = 200000; i > 0; i--) {
    char pair[64];
    snprintf(pair, sizeof pair, "\"the key of number %d\":%d%s", i, i, i > 1 ? "," : "}");
    put(text, &size, pair);
  }
  double before = seconds();
  assert_int_equal(decode((tp_text){text, size}, writer, NULL), TP_OK);
  assert_int_equal(tp_value_count(finished(writer)), 200000);
  assert_true(seconds() - before < 20);
  tp_text brackets = repeated("[{,", 600000); /* in a text they are no structure */
  size = (size_t)snprintf(text, 16 << 20, "\"\\\"%.*s\"", (int)brackets.size, brackets.data);
  assert_int_equal(decode((tp_text){text, size}, writer, NULL), TP_OK);
  assert_int_equal(tp_value_text(finished(writer)).size, brackets.size + 1);
  exact_free(brackets);
  free(text);
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
                                      "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\\u007f/\"",
                                      "{\"\\\"\":\"'\"}",
                                      "100000000000000.0",
                                      "1e+17",
                                      "4.94065645841247e-324"};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    assert_int_equal(decode(tp_text_of(texts[i]), writer, NULL), TP_OK);
    tp_text json = encoded(finished(writer), writer);
    if (!same_bytes(json, tp_text_of(texts[i]))) fail_msg("%s became %s", texts[i], json.data);
  }
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
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_writer_reset(writer);
    tp_write_bytes(writer, tp_text_of(rows[i][0]));
    assert_string_equal(encoded(finished(writer), writer).data, rows[i][1]);
  }
  for (size_t size = 180; size < 400; size++) { /* around the size of the buffer between */
    tp_text bytes = repeated("x", size);
    tp_writer_reset(writer);
    tp_write_bytes(writer, bytes);
    tp_text json = encoded(finished(writer), writer);
    assert_int_equal(json.size, 2 + (size + 2) / 3 * 4);
    for (size_t i = 0; i < size / 3; i++) assert_memory_equal(json.data + 1 + 4 * i, "eHh4", 4);
    exact_free(bytes);
  }
  tp_writer_free(writer);
}

TEST(what_json_has_no_number_for_becomes_null) {
  tp_writer *writer = new_writer();
  tp_write_array(writer, 3);
  tp_write_double(writer, (double)NAN);
  tp_write_double(writer, (double)INFINITY);
  tp_write_double(writer, -(double)INFINITY);
  assert_string_equal(encoded(finished(writer), writer).data, "[null,null,null]");
  tp_writer_free(writer);
}

TEST(broken_value_gives_no_json) {
  tp_writer *writer = new_writer();
  tp_text json = {"x", 1};
  tp_fault fault = {0};
  assert_int_equal(tp_json_encode((tp_text){"\x92\x01", 2}, writer, &json, &fault), TP_ERR_MALFORMED);
  assert_int_equal(tp_json_encode((tp_text){"\xa1\xff", 2}, writer, &json, NULL), TP_ERR_UTF8);
  assert_int_equal(json.size, 1);
  assert_non_null(strstr(fault.message, "at byte 0 of 2"));
  tp_writer_free(writer);
}

TEST(json_stands_beside_the_value_of_the_writer) {
  tp_writer *writer = new_writer();
  tp_write_array(writer, 2);
  assert_int_equal(tp_json_decode(tp_text_of("{\"a\":[1]}"), writer, NULL), TP_OK); /* within a value */
  tp_text json = encoded((tp_text){"\xc3", 1}, writer);
  assert_string_equal(json.data, "true");
  tp_write_int(writer, 7);
  tp_text value = finished(writer);
  json = encoded(value, writer);
  assert_string_equal(json.data, "[{\"a\":[1]},7]");
  assert_true(same_bytes(finished(writer), value));
  tp_writer_reset(writer);
  assert_string_equal(json.data, "[{\"a\":[1]},7]");
  tp_writer_free(writer);
}

TEST(refused_json_leaves_what_was_begun) {
  static const char *const broken[] = {"[1,2", "{\"a\":1,\"a\":2}", "[\"\\ud800\"]", "[1] 2", ""};
  tp_writer *writer = new_writer();
  tp_write_array(writer, 2);
  tp_write_int(writer, 1);
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
    assert_int_equal(tp_json_decode(tp_text_of(broken[i]), writer, NULL), TP_ERR_MALFORMED);
  assert_int_equal(tp_json_decode(tp_text_of("2"), writer, NULL), TP_OK);
  assert_string_equal(encoded(finished(writer), writer).data, "[1,2]");
  assert_int_equal(tp_json_decode(tp_text_of("3"), writer, NULL), TP_ERR_MALFORMED); /* it has its value */
  tp_writer_free(writer);
}

TEST(characters_that_are_more_than_characters_are_escapes) {
  static const char *const rows[][2] = {{"\x7f", "\"\\u007f\""},
                                        {"\xc2\x80", "\"\\u0080\""},
                                        {"\xc2\x85", "\"\\u0085\""},
                                        {"\xc2\x9f", "\"\\u009f\""},
                                        {"\xc2\xa0", "\"\xc2\xa0\""},
                                        {"\xe2\x80\xa7", "\"\xe2\x80\xa7\""},
                                        {"\xe2\x80\xa8", "\"\\u2028\""},
                                        {"\xe2\x80\xa9", "\"\\u2029\""},
                                        {"\xe2\x80\xaa", "\"\xe2\x80\xaa\""},
                                        {"\xef\xbb\xbf", "\"\\ufeff\""},
                                        {"\xef\xbf\xbd", "\"\xef\xbf\xbd\""},
                                        {"\xef\xbf\xbe", "\"\\ufffe\""},
                                        {"\xef\xbf\xbf", "\"\\uffff\""},
                                        {"<&>", "\"<&>\""}};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_writer_reset(writer);
    tp_write_string(writer, rows[i][0]);
    assert_string_equal(encoded(finished(writer), writer).data, rows[i][1]);
  }
  tp_writer_free(writer);
}

TEST(every_float_reads_back_as_the_same_float) {
  random_values random = {.state = 17};
  tp_writer *writer = new_writer();
  for (int i = test_rounds(50000); i > 0; i--) {
    double number = random_double(&random);
    if (i % 4 == 0) number = (double)random_int(&random) / (1 << i % 16);
    tp_writer_reset(writer);
    tp_write_double(writer, number);
    tp_text json = encoded(finished(writer), writer);
    double c_library = strtod(json.data, NULL);
    assert_int_equal(decode(json, writer, NULL), TP_OK);
    double again = tp_value_double(finished(writer), 4711);
    bool same = memcmp(&again, &number, sizeof number) == 0 && c_library == again;
    if (!same || !strpbrk(json.data, ".e") || json.size > 24) fail_msg("%a: %s", number, json.data);
  }
  tp_writer_free(writer);
}

/* Numbers around a tie of two doubles, with more digits than any buffer has: 2^-1074 / 2, 1 + 2^-53, and others. */
TEST(long_numbers_are_rounded_once) {
  static const char tie[] = "1.00000000000000011102230246251565404236316680908203125"; /* 1 + 2^-53 */
  tp_writer *writer = new_writer();
  char text[4096];
  for (int zeros = 0; zeros < 3000; zeros += 97) {
    for (int above = 0; above <= 1; above++) {
      int size = snprintf(text, sizeof text, "%s%0*d", tie, zeros + 1, above);
      assert_int_equal(decode((tp_text){text, (size_t)size}, writer, NULL), TP_OK);
      double number = tp_value_double(finished(writer), 0);
      if (number != (above ? 1.0000000000000002 : 1.0)) fail_msg("%d zeros and %d: %a", zeros, above, number);
      size = snprintf(text, sizeof text, "0.%0*d1e%d", zeros + 1, 0, zeros + 2);
      assert_int_equal(decode((tp_text){text, (size_t)size}, writer, NULL), TP_OK);
      assert_true(tp_value_double(finished(writer), 0) == 1.0);
      size = snprintf(text, sizeof text, "1%0*d.5e-%d", zeros + 1, 0, zeros + 1);
      assert_int_equal(decode((tp_text){text, (size_t)size}, writer, NULL), TP_OK);
      assert_true(tp_value_double(finished(writer), 0) == strtod(text, NULL));
    }
  }
  tp_writer_free(writer);
}

TEST(exponents_of_any_size_are_read) {
  static const struct {
    const char *json;
    double number; /* NAN: refused */
  } rows[] = {{"1e99999999999999999999", (double)NAN},
              {"-1e99999999999999999999", (double)NAN},
              {"1e-99999999999999999999", 0},
              {"0e99999999999999999999", 0},
              {"0.000e+400", 0},
              {"1e309", (double)NAN},
              {"17976931348623157e292", 17976931348623157e292}};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_status status = decode(tp_text_of(rows[i].json), writer, NULL);
    assert_int_equal(status, isnan(rows[i].number) ? TP_ERR_MALFORMED : TP_OK);
    if (status == TP_OK) assert_true(tp_value_double(finished(writer), 4711) == rows[i].number);
  }
  tp_writer_free(writer);
}

TEST(no_locale_changes_a_number) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
  const char *found = NULL;
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < 4 && !found; i++) found = setlocale(LC_NUMERIC, names[i]);
  /* Without such a locale this only repeats earlier checks. The first number is converted by the C library. */
  assert_int_equal(decode(tp_text_of("[1.2345678901234567,-1234.5,1e-300]"), writer, NULL), TP_OK);
  assert_string_equal(encoded(finished(writer), writer).data, "[1.2345678901234567,-1234.5,1e-300]");
  setlocale(LC_NUMERIC, "C");
  tp_writer_free(writer);
}

/* ---- both ---- */

static void canonical_into(tp_text value, tp_writer *writer) {
  tp_writer_reset(writer);
  assert_int_equal(tp_value_write_canonical(value, writer, NULL), TP_OK);
}

TEST(random_values_survive_the_way_through_json) {
  random_values random = {.state = 23};
  tp_writer *first = new_writer(), *second = new_writer(), *third = new_writer();
  for (int i = test_rounds(3000); i > 0; i--) {
    tp_writer_reset(first);
    write_random_value(&random, first, 0);
    tp_text value = finished(first);
    assert_int_equal(tp_value_check(value, NULL), TP_OK);
    canonical_into(value, second);
    assert_int_equal(decode(encoded(finished(second), second), third, NULL), TP_OK);
    assert_true(same_bytes(finished(third), finished(second))); /* canonical order is kept, so no need to sort again */
    assert_int_equal(decode(encoded(value, first), third, NULL), TP_OK);
    canonical_into(finished(third), first);
    assert_true(same_bytes(finished(first), finished(second)));
  }
  tp_writer_free(first);
  tp_writer_free(second);
  tp_writer_free(third);
}

/* ---- other parsers ---- */

/* Named as in JSONTestSuite: y_ must be accepted, n_ must be refused, and for i_ the parser may decide; the letter
 * after i_ is the decision of this parser. Texts that the suite accepts and this parser refuses have i_. */
static const struct {
  const char *name;
  tp_text json;
} vectors[] = {
#define VECTOR(name, json) {#name, {json, sizeof json - 1}},
#include "tests/unit/json_vectors.def"
#undef VECTOR
};

TEST(vectors_are_accepted_and_refused_as_they_are_named) {
  tp_writer *writer = new_writer();
  size_t accepted = 0;
  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
    tp_fault fault = {0};
    tp_status status = decode(vectors[i].json, writer, &fault);
    const char *name = vectors[i].name;
    bool wanted = strncmp(name, "y_", 2) == 0 || strncmp(name, "i_y_", 4) == 0;
    if ((status == TP_OK) != wanted) fail_msg("%s: %s: %s", name, tp_status_name(status), fault.message);
    if (status == TP_OK) assert_int_equal(tp_value_check(finished(writer), NULL), TP_OK);
    else assert_true(fault.line >= 1 && fault.column >= 1);
    accepted += status == TP_OK;
  }
  assert_in_range(accepted, 80, sizeof vectors / sizeof vectors[0] - 80);
  tp_writer_free(writer);
}

/* Changes a few bytes: to some that mean something in JSON, mostly. */
static size_t mutate(random_values *random, char *text, size_t size) {
  static const char bytes[] = "[]{}:,\"\\0123456789.eE+-u \n\ttrfn/\x80\xc3\xff\x01";
  for (size_t left = random_below(random, 4); left > 0 && size > 0; left--) {
    size_t at = random_below(random, size);
    char byte = bytes[random_below(random, sizeof bytes - 1)];
    if (random_below(random, 3) == 0) {
      memmove(text + at, text + at + 1, size - at - 1);
      size--;
    } else if (random_below(random, 2) == 0) {
      memmove(text + at + 1, text + at, size - at);
      text[at] = byte;
      size++;
    } else {
      text[at] = byte;
    }
  }
  return size;
}

static void put_hex(FILE *file, tp_text text) {
  for (size_t i = 0; i < text.size; i++) fprintf(file, "%02x", (unsigned)(unsigned char)text.data[i]);
}

/* The result of this parser for a text, for the comparison with another one: "TEXT JSON" or "TEXT -", in hexadecimal
 * digits. */
static void tell_oracle(FILE *oracle, tp_text json, tp_writer *writer) {
  put_hex(oracle, json);
  fputs(" ", oracle);
  if (decode(json, writer, NULL) == TP_OK) put_hex(oracle, encoded(finished(writer), writer));
  else fputs("-", oracle);
  fputs("\n", oracle);
}

TEST(pythons_json_reads_the_same) {
  const char *source = getenv("TURNPHASE_SOURCE");
  char command[4096];
  if (!source || system("python3 -c '' 2>/dev/null") != 0) {
    print_message("# skipped: there is no python3\n");
    return;
  }
  snprintf(command, sizeof command, "python3 '%s/tests/unit/json_oracle.py'", source);
  FILE *oracle = popen(command, "w");
  assert_non_null(oracle);
  random_values random = {.state = 31};
  tp_writer *first = new_writer(), *second = new_writer();
  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) tell_oracle(oracle, vectors[i].json, second);
  for (int i = test_rounds(6000); i > 0; i--) {
    tp_writer_reset(first);
    write_random_value(&random, first, 0);
    tp_text json = encoded(finished(first), first);
    char *text = malloc(json.size + 8);
    assert_non_null(text);
    memcpy(text, json.data, json.size);
    tell_oracle(oracle, (tp_text){text, mutate(&random, text, json.size)}, second);
    free(text);
  }
  tp_writer_free(first);
  tp_writer_free(second);
  assert_int_equal(pclose(oracle), 0);
}

/* ---- memory refused ---- */

/* More keys of maps, and more members of containers, than fit without an allocation. */
static tp_text text_that_needs_memory(void) {
  char *text = malloc(1 << 16);
  size_t size = 0;
  if (!text) abort();
  put(text, &size, "[{");
  for (int i = 0; i < 100; i++) {
    char pair[32];
    snprintf(pair, sizeof pair, "%s\"%d\":[%d]", i > 0 ? "," : "", 999 - i, i);
    put(text, &size, pair);
  }
  put(text, &size,
      "},\"caf\\u00e9 and so on, longer than what a head has before it, which is some sixty-four bytes\"]");
  return (tp_text){text, size};
}

TEST(refused_memory_is_an_error_and_leaks_nothing) {
  tp_text text = text_that_needs_memory();
  size_t refusals = 0;
  for (size_t n = 1;; n++) {
    counting memory = {.refuse_at = n};
    tp_allocator allocator = allocator_over(&memory);
    tp_writer *writer = NULL;
    tp_fault fault = {0};
    tp_text value, json = {NULL, 0};
    tp_status status = tp_writer_new(&allocator, &writer);
    if (status == TP_OK) status = tp_json_decode(text, writer, &fault);
    if (status == TP_OK) status = tp_writer_finish(writer, &value);
    if (status == TP_OK) status = tp_json_encode(value, writer, &json, &fault);
    if (status == TP_OK) assert_int_equal(json.size, text.size - 4); /* an escape of six bytes became two */
    tp_writer_free(writer);
    assert_int_equal(memory.open, 0);
    assert_false(memory.wrong_size);
    if (status == TP_OK) break;
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    if (memory.requests > 1) assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
    refusals++;
  }
  assert_in_range(refusals, 6, 100);
  exact_free(text);
}

TEST(writer_without_memory_refuses_and_stays_refused) {
  tp_text json = repeated("x", 100000);
  ((char *)json.data)[0] = ((char *)json.data)[json.size - 1] = '"';
  counting memory = {.refuse_at = 2};
  tp_allocator allocator = allocator_over(&memory);
  tp_writer *writer;
  tp_text value;
  tp_fault fault = {0};
  assert_int_equal(tp_writer_new(&allocator, &writer), TP_OK);
  assert_int_equal(tp_json_decode(json, writer, &fault), TP_ERR_NO_MEMORY);
  assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
  assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_NO_MEMORY);
  tp_writer_free(writer);
  assert_int_equal(memory.open, 0);
  exact_free(json);
}
