/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/json_text.h"
#include "domains/declared/yaml.h"
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

static tp_status decode(tp_text yaml, tp_writer *writer, tp_fault *fault) {
  tp_text copy = exact_copy(yaml);
  tp_writer_reset(writer);
  tp_status status = tp_yaml_decode(copy, "hooks/a.yaml", writer, fault);
  exact_free(copy);
  return status;
}

static void assert_decodes_to(const char *yaml, const char *json) {
  tp_writer *writer = new_writer();
  tp_fault fault = {0};
  if (decode(tp_text_of(yaml), writer, &fault) != TP_OK) {
    fail_msg("%s: %u:%u %s", yaml, fault.line, fault.column, fault.message);
  }
  char *decoded = json_text(finished(writer));
  if (strcmp(decoded, json) != 0) fail_msg("%s became %s, not %s", yaml, decoded, json);
  free(decoded);
  tp_writer_free(writer);
}

/* ---- decoding ---- */

TEST(documents_become_values) {
  static const char *const rows[][2] = {
      {"a: 1\nb:\n  - x\n  - {c: [1, 2], d: }\n", "{\"a\":1,\"b\":[\"x\",{\"c\":[1,2],\"d\":null}]}"},
      {"- - 1\n  - 2\n-\n- []\n- {}\n", "[[1,2],null,[],{}]"},
      {"z: 1\na: 2\n", "{\"z\":1,\"a\":2}"},
      {"text: |\n  one\n   two\n\n  three\nfolded: >-\n  one\n  two\n",
       "{\"text\":\"one\\n two\\n\\nthree\\n\",\"folded\":\"one two\"}"},
      {"'it''s': \"tab\\t\\u00e9\\x41\\\n  joined\"\n",
       "{\"it's\":\"tab\\t\xc3\xa9"
       "Ajoined\"}"},
      {"plain text: over\n  two lines # and a comment\n", "{\"plain text\":\"over two lines\"}"},
      {"{\"json\": [true, null, 1.5e3, \"\\U0001f600\"]}", "{\"json\":[true,null,1500.0,\"\xf0\x9f\x98\x80\"]}"},
      {"{\"a\":1,\"b\":[\"x\\/y\",{}]}", "{\"a\":1,\"b\":[\"x/y\",{}]}"},
      {"%YAML 1.2\n---\n1\n...\n", "1"},
      {"---\n", "null"},
      {"# a comment\n\n---\nx\n# the end\n", "\"x\""},
      {"\xef\xbb\xbf"
       "a: b\r\nc: d\r\n",
       "{\"a\":\"b\",\"c\":\"d\"}"},
      {"? a\n: b\n? c\n", "{\"a\":\"b\",\"c\":null}"},
      {"{a, b: c}", "{\"a\":null,\"b\":\"c\"}"},
      {"[a: 1, b]", "[{\"a\":1},\"b\"]"},
      {"\"\": 1\n'<<': 2\n", "{\"\":1,\"<<\":2}"},
      {"1: a\ntrue: b\nnull: c\n~: d\n1.0: e\n",
       "{\"1\":\"a\",\"true\":\"b\",\"null\":\"c\",\"~\":\"d\",\"1.0\":\"e\"}"},
      {"a: \"nul \\0 inside\"\n", "{\"a\":\"nul \\u0000 inside\"}"},
      {"a: << \nb: <<", "{\"a\":\"<<\",\"b\":\"<<\"}"},
      {"cmd: grep -c '[{' *.c # & !x\n", "{\"cmd\":\"grep -c '[{' *.c\"}"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) assert_decodes_to(rows[i][0], rows[i][1]);
}

TEST(plain_scalars_mean_what_the_core_schema_says) {
  static const char *const rows[][2] = {
      {"null", "null"},
      {"Null", "null"},
      {"NULL", "null"},
      {"~", "null"},
      {"nULL", "\"nULL\""},
      {"nil", "\"nil\""},
      {"true", "true"},
      {"True", "true"},
      {"TRUE", "true"},
      {"false", "false"},
      {"False", "false"},
      {"FALSE", "false"},
      {"yes", "\"yes\""},
      {"no", "\"no\""},
      {"on", "\"on\""},
      {"off", "\"off\""},
      {"y", "\"y\""},
      {"tRUE", "\"tRUE\""},
      {"0", "0"},
      {"-0", "0"},
      {"+12", "12"},
      {"-19", "-19"},
      {"0777", "777"},
      {"0o17", "15"},
      {"0x1F", "31"},
      {"0xff", "255"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"0x7fffffffffffffff", "9223372036854775807"},
      {"00000000000000000000001", "1"},
      {"-0x1", "\"-0x1\""},
      {"0o8", "\"0o8\""},
      {"0x", "\"0x\""},
      {"0b1", "\"0b1\""},
      {"1_000", "\"1_000\""},
      {"+", "\"+\""},
      {"12:30", "\"12:30\""},
      {"1,5", "\"1,5\""},
      {"2001-01-01", "\"2001-01-01\""},
      {"1 2", "\"1 2\""},
      {"1.2.3", "\"1.2.3\""},
      {"1.5", "1.5"},
      {".5", "0.5"},
      {"1.", "1.0"},
      {"-.5e-1", "-0.05"},
      {"+1.5E+2", "150.0"},
      {"1e3", "1000.0"},
      {"1e", "\"1e\""},
      {"e3", "\"e3\""},
      {".", "\".\""},
      {".e1", "\".e1\""},
      {"1e400x", "\"1e400x\""},
      {"1e-400", "0.0"},
      /* JSON has null for what is no number */
      {".inf", "null"},
      {"-.INF", "null"},
      {"+.Inf", "null"},
      {".nan", "null"},
      {".NaN", "null"},
      {".NAN", "null"},
      {"inf", "\"inf\""},
      {"nan", "\"nan\""},
      {".iNf", "\".iNf\""},
      {"-.nan", "\"-.nan\""},
      {"Infinity", "\"Infinity\""},
      {"'1'", "\"1\""},
      {"\"true\"", "\"true\""},
      {"''", "\"\""},
      {"|-\n  1", "\"1\""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char yaml[128], json[128];
    snprintf(yaml, sizeof yaml, "[%s]", rows[i][0]);
    snprintf(json, sizeof json, "[%s]", rows[i][1]);
    if (strchr(rows[i][0], ',')) snprintf(yaml, sizeof yaml, "- %s", rows[i][0]); /* a comma parts items in a flow */
    if (rows[i][0][0] == '|') snprintf(yaml, sizeof yaml, "- %s", rows[i][0]);
    if (strchr(rows[i][0], ':')) snprintf(yaml, sizeof yaml, "- %s", rows[i][0]);
    assert_decodes_to(yaml, json);
  }
}

TEST(infinities_and_nan_are_floats) {
  tp_writer *writer = new_writer();
  assert_int_equal(decode(tp_text_of("[.inf, -.inf, .nan]"), writer, NULL), TP_OK);
  tp_text value = finished(writer);
  assert_true(tp_value_double(tp_value_at(value, 0), 0) == (double)INFINITY);
  assert_true(tp_value_double(tp_value_at(value, 1), 0) == -(double)INFINITY);
  assert_true(isnan(tp_value_double(tp_value_at(value, 2), 0)));
  tp_writer_free(writer);
}

TEST(items_know_their_places) {
  tp_text text = tp_text_of("\"caf\xc3\xa9\": [1,\n  'two', {three: }]\n");
  static const struct {
    tp_value_kind kind;
    uint32_t line, column, end;
  } expected[] = {
      {TP_VALUE_MAP, 1, 1, 8},  {TP_VALUE_TEXT, 1, 1, 2}, {TP_VALUE_ARRAY, 1, 9, 8}, {TP_VALUE_INT, 1, 10, 4},
      {TP_VALUE_TEXT, 2, 3, 5}, {TP_VALUE_MAP, 2, 10, 8}, {TP_VALUE_TEXT, 2, 11, 7}, {TP_VALUE_NULL, 2, 18, 8},
  };
  tp__yaml yaml;
  assert_int_equal(tp__yaml_read(text, NULL, &tp__malloc_allocator, &yaml, NULL), TP_OK);
  assert_int_equal(yaml.count, 8);
  for (size_t i = 0; i < 8; i++) {
    const tp__yaml_item *item = &yaml.items[i];
    if (item->kind != expected[i].kind || item->place.line != expected[i].line ||
        item->place.column != expected[i].column || item->end != expected[i].end) {
      fail_msg("item %zu: kind %d at %u:%u, end %u", i, item->kind, item->place.line, item->place.column, item->end);
    }
  }
  assert_int_equal(tp__yaml_get(&yaml, 0, "caf\xc3\xa9"), 2);
  assert_int_equal(tp__yaml_get(&yaml, 0, "caf"), 0);
  assert_int_equal(tp__yaml_get(&yaml, 5, "three"), 7);
  assert_true(same_bytes(tp__yaml_text(&yaml, 4), tp_text_of("two")));
  tp__yaml_fini(&yaml);
}

/* ---- refusing ---- */

TEST(a_key_has_a_place) {
  static const struct {
    const char *keys[4];
    size_t count;
    uint32_t line, column; /* 0: there is none */
  } rows[] = {
      {{"a"}, 1, 2, 1},           {{"a", "b"}, 2, 3, 3},
      {{"a", "b", "ü"}, 3, 4, 5}, {{"a", "b", "d"}, 3, 5, 5},
      {{"e"}, 1, 6, 1},           {{"a", "x"}, 2, 0, 0},
      {{"x"}, 1, 0, 0},           {{"e", "f"}, 2, 0, 0},
      {{"g", "h"}, 2, 7, 5},      {{"a", "b", "ü", "i"}, 4, 0, 0},
      {{"j", "0"}, 2, 9, 5},      {{"j", "1", "l"}, 3, 11, 5},
      {{"j", "2"}, 2, 0, 0},      {{"j", "1x"}, 2, 0, 0},
      {{"j", ""}, 2, 0, 0},       {{"j", "0", "k", "0"}, 4, 0, 0},
      {{"m", "0"}, 2, 0, 0},
  };
  static const char text[] =
      "# first\na:\n  b:\n    'ü': 1\n    d: {}\ne: [f]\ng: {h: 1}\nj:\n  - {k: 1, n: [2]}\n  - k: 1\n    l: 2\nm: "
      "[]\n";
  tp_fault fault;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint32_t line = 0, column = 0;
    tp_status status = tp_yaml_place(tp_text_of(text), rows[i].keys, rows[i].count, &line, &column, &fault);
    assert_int_equal(status, rows[i].line ? TP_OK : TP_ERR_NOT_FOUND);
    if (rows[i].line) assert_int_equal(line, rows[i].line);
    if (rows[i].line) assert_int_equal(column, rows[i].column);
  }
  uint32_t line;
  assert_int_equal(tp_yaml_place(tp_text_of("a: ["), rows[0].keys, 1, &line, NULL, &fault), TP_ERR_MALFORMED);
  assert_int_equal(tp_yaml_place(tp_text_of(text), rows[0].keys, 0, &line, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_yaml_place(tp_text_of(text), NULL, 1, &line, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_yaml_place(tp_text_of(text), (const char *const[]){NULL}, 1, &line, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_yaml_place(tp_text_of(text), rows[0].keys, 1, NULL, NULL, &fault), TP_ERR_USAGE);
}

TEST(bad_yaml_is_refused_with_line_and_column) {
  static const struct {
    const char *yaml;
    tp_status status;
    uint32_t line, column;
    const char *message;
  } rows[] = {
      {"", TP_ERR_MALFORMED, 1, 1, "no document"},
      {"# only a comment\n", TP_ERR_MALFORMED, 1, 1, "no document"},
      {"a: 1\n---\nb: 2\n", TP_ERR_MALFORMED, 2, 1, "second document"},
      {"a: 1\n...\n---\n", TP_ERR_MALFORMED, 3, 1, "second document"},
      {"a: &x 1\n", TP_ERR_MALFORMED, 1, 4, "anchors"},
      {"a: 1\nb:\n  - &list [1]\n", TP_ERR_MALFORMED, 3, 5, "anchors"},
      {"a: &m\n  b: 1\n", TP_ERR_MALFORMED, 1, 4, "anchors"},
      {"a: 1\nb: *a\n", TP_ERR_MALFORMED, 2, 4, "aliases"},
      {"*a : 1\n", TP_ERR_MALFORMED, 1, 1, "aliases"},
      {"a: {b: 1}\n<<: {b: 2}\n", TP_ERR_MALFORMED, 2, 1, "merge keys"},
      {"{<<: {b: 2}}\n", TP_ERR_MALFORMED, 1, 2, "merge keys"},
      {"a: !!str 1\n", TP_ERR_MALFORMED, 1, 4, "tags"},
      {"a: ! 1\n", TP_ERR_MALFORMED, 1, 4, "tags"},
      {"- !!map {a: 1}\n", TP_ERR_MALFORMED, 1, 3, "tags"},
      {"- !local [1]\n", TP_ERR_MALFORMED, 1, 3, "tags"},
      {"a: 1\nb: 2\na: 3\n", TP_ERR_MALFORMED, 3, 1, "\"a\" is repeated: it stands in line 1"},
      {"x:\n  - {k: 1, l: 2, \"k\": 3}\n", TP_ERR_MALFORMED, 2, 18, "repeated"},
      {"1: a\n'1': b\n", TP_ERR_MALFORMED, 2, 1, "repeated"},
      {"a:\n  b: 1\n  b: 2\na: 1\n", TP_ERR_MALFORMED, 4, 1, "repeated"},
      {"[a]: 1\n", TP_ERR_MALFORMED, 1, 1, "must be a scalar"},
      {"? {a: 1}\n: 1\n", TP_ERR_MALFORMED, 1, 3, "must be a scalar"},
      {"x: 1\n: 2\n", TP_ERR_MALFORMED, 2, 1, "did not find expected key"},
      {"{: 1}", TP_ERR_MALFORMED, 1, 2, "not valid YAML"},
      {"{? , b: 1}", TP_ERR_MALFORMED, 1, 4, "a key is missing"},
      {"?\n: 1\n", TP_ERR_MALFORMED, 1, 2, "a key is missing"},
      {"a: 9223372036854775808\n", TP_ERR_MALFORMED, 1, 4, "out of range"},
      {"- 1\n- -9223372036854775809\n", TP_ERR_MALFORMED, 2, 3, "out of range"},
      {"0x8000000000000000", TP_ERR_MALFORMED, 1, 1, "out of range"},
      {"[1, 99999999999999999999999999]", TP_ERR_MALFORMED, 1, 5, "out of range"},
      {"a: 1e400\n", TP_ERR_MALFORMED, 1, 4, "out of range"},
      {"%YAML 1.1\n---\na\n", TP_ERR_MALFORMED, 1, 1, "only YAML 1.2"},
      {"# \n%YAML 2.0\n---\na\n", TP_ERR_MALFORMED, 2, 1, "incompatible"},
      {"%NEW x\n---\na\n", TP_ERR_MALFORMED, 1, 5,
       "unknown directive name (while scanning a directive from line 1, column 1)"},
      {"a: b: c\n", TP_ERR_MALFORMED, 1, 5, "not valid YAML"},
      {"a:\n\t- b\n", TP_ERR_MALFORMED, 2, 1, "found character that cannot start any token"},
      {"a: 'x\n", TP_ERR_MALFORMED, 2, 1, "end of stream (while scanning a quoted scalar from line 1, column 4)"},
      {"a: [1, 2\n", TP_ERR_MALFORMED, 2, 1, "not valid YAML"},
      {"a: ]\n", TP_ERR_MALFORMED, 1, 4, "not valid YAML"},
      {"a: 1\n b: 2\n", TP_ERR_MALFORMED, 2, 3, "not valid YAML"},
      {"a: \"\\q\"\n", TP_ERR_MALFORMED, 1, 5, "not valid YAML"},
      {"a: \"\\ud800\"\n", TP_ERR_MALFORMED, 1, 7, "not valid YAML"},
      {"a: \"\\ud83d\\ude00\"\n", TP_ERR_MALFORMED, 1, 7, "not valid YAML"}, /* pairs are JSON's: YAML has \\U */
      {"a: @x\n", TP_ERR_MALFORMED, 1, 4, "not valid YAML"},
      {"caf\xc3\xa9: \x01\n", TP_ERR_MALFORMED, 1, 7, "control character"},
      {"a: \x7f\n", TP_ERR_MALFORMED, 1, 4, "control character"},
      {"a: \xc2\x85 b\n", TP_ERR_MALFORMED, 1, 4, "break lines"},
      {"a: \"\xe2\x80\xa8\"\n", TP_ERR_MALFORMED, 1, 5, "break lines"},
      {"a: '\xe2\x80\xa9'\n", TP_ERR_MALFORMED, 1, 5, "escape in double quotes"},
      {"a\xef\xbb\xbf: b\n", TP_ERR_MALFORMED, 1, 2, "escape in double quotes"},
      {"# \xef\xbf\xbf\n", TP_ERR_MALFORMED, 1, 3, "escape in double quotes"},
      {"a: \xff\n", TP_ERR_UTF8, 1, 4, "not UTF-8"},
      {"# caf\xc3\xa9\nb: \xc3(\n", TP_ERR_UTF8, 2, 4, "not UTF-8"},
      {"\xff\xfe"
       "a",
       TP_ERR_UTF8, 1, 1, "not UTF-8"},
  };
  tp_writer *writer = new_writer();
  size_t wrong = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_fault fault = {0};
    tp_text value;
    tp_status status = decode(tp_text_of(rows[i].yaml), writer, &fault);
    if (status != rows[i].status || fault.line != rows[i].line || fault.column != rows[i].column ||
        !strstr(fault.message, rows[i].message)) {
      print_error("%s: %s at %u:%u: %s\n", rows[i].yaml, tp_status_name(status), fault.line, fault.column,
                  fault.message);
      wrong++;
    }
    assert_int_equal(fault.code, status);
    assert_string_equal(fault.subject, "hooks/a.yaml");
    assert_int_equal(decode(tp_text_of(rows[i].yaml), writer, NULL), rows[i].status);
    assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_MALFORMED); /* nothing was written */
  }
  assert_int_equal(wrong, 0);
  tp_writer_free(writer);
}

TEST(raw_nul_is_refused) {
  tp_writer *writer = new_writer();
  tp_fault fault = {0};
  assert_int_equal(decode((tp_text){"a: b\0c\n", 7}, writer, &fault), TP_ERR_MALFORMED);
  assert_int_equal(fault.column, 5);
  assert_int_equal(decode((tp_text){"a\0:\0 \0b\0", 8}, writer, &fault), TP_ERR_MALFORMED); /* UTF-16 */
  tp_writer_free(writer);
}

TEST(nesting_is_refused_from_the_33rd_level_on) {
  static const struct { const char *open, *close; } rows[] = {{"[", "]"}, {"{k: ", "}"}, {"- ", ""}};
  tp_writer *writer = new_writer();
  for (size_t i = 0; i < 3; i++) {
    for (size_t depth = 32; depth <= 33; depth++) {
      tp_text open = repeated(rows[i].open, depth), close = repeated(rows[i].close, depth);
      char yaml[512];
      int size = snprintf(yaml, sizeof yaml, "%.*s1%.*s\n", (int)open.size, open.data, (int)close.size, close.data);
      tp_fault fault = {0};
      assert_int_equal(decode((tp_text){yaml, (size_t)size}, writer, &fault), depth == 32 ? TP_OK : TP_ERR_TOO_DEEP);
      if (depth == 32) assert_int_equal(tp_value_check(finished(writer), NULL), TP_OK);
      if (depth == 33) assert_int_equal(fault.line, 1);
      if (depth == 33) assert_int_equal(fault.column, 32 * strlen(rows[i].open) + 1);
      exact_free(open);
      exact_free(close);
    }
  }
  tp_writer_free(writer);
}

TEST(bombs_are_refused_in_time_near_their_size) {
  static const char *const units[] = {
      "[",      "{",    "[{",  "[\n",      "- ",     "? ", "? - ", "a: ",          "[a: ",          "{a: ",
      "&a ",    "!a ",  "*a ", "\"",       ": ",     ", ", "[? ",  "- &a\n- *a\n", "a: |-\n x\n\n", "---\n",
      "%TAG\n", "[]\n", "\t",  "<<: {}\n", "k: 1\n", "'",  "9",    "\xff",         "\x01",          "{} "};
  tp_writer *writer = new_writer();
  for (size_t size = 100000; size <= (size_t)test_rounds(1000000); size *= 10) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
      if (!strcmp(units[i], "'") && size / 2 * 2 == size) continue; /* an even number of quotes is a text */
      tp_text bomb = repeated(units[i], size / strlen(units[i]));
      tp_fault fault = {0};
      double before = seconds();
      tp_status status = decode(bomb, writer, &fault);
      double duration_s = seconds() - before;
      if (status == TP_OK || status == TP_ERR_NO_MEMORY || fault.line == 0 || duration_s > 10) {
        fail_msg("%s: %s at %u:%u after %.2f s: %s", units[i], tp_status_name(status), fault.line, fault.column,
                 duration_s, fault.message);
      }
      exact_free(bomb);
    }
  }
  tp_writer_free(writer);
}

TEST(large_but_honest_yaml_is_decoded) {
  tp_writer *writer = new_writer();
  size_t capacity = 16 << 20, size = 0;
  char *yaml = malloc(capacity);
  assert_non_null(yaml);
  int pairs = test_rounds(300000);
  for (int i = pairs; i > 0; i--) {
    size += (size_t)snprintf(yaml + size, capacity - size, "the key of number %d: %d\n", i, i);
  }
  double before = seconds();
  assert_int_equal(decode((tp_text){yaml, size}, writer, NULL), TP_OK);
  assert_int_equal(tp_value_count(finished(writer)), pairs);
  assert_true(seconds() - before < 20);
  memset(yaml, 'x', capacity);
  assert_int_equal(decode((tp_text){yaml, capacity}, writer, NULL), TP_OK);
  assert_int_equal(tp_value_text(finished(writer)).size, capacity);
  free(yaml);
  tp_writer_free(writer);
}

TEST(yaml_above_16_mib_or_a_million_items_is_too_large) {
  tp_text yaml = repeated("x", (16 << 20) + 1), items = repeated("-\n", 1 << 20);
  tp_writer *writer = new_writer();
  tp_fault fault = {0};
  assert_int_equal(decode(yaml, writer, &fault), TP_ERR_TOO_LARGE);
  assert_non_null(strstr(fault.message, "16777217"));
  assert_int_equal(decode(items, writer, &fault), TP_ERR_TOO_LARGE); /* with their list they are one too many */
  assert_int_equal(fault.line, 1 << 20);
  items.size -= 2;
  assert_int_equal(decode(items, writer, &fault), TP_OK);
  assert_int_equal(tp_value_count(finished(writer)), (1 << 20) - 1);
  exact_free(items);
  exact_free(yaml);
  tp_writer_free(writer);
}

TEST(long_name_and_long_key_are_cut_at_a_code_point) {
  tp_writer *writer = new_writer();
  tp_text name = repeated("\xc3\xa9", 100); /* 200 bytes, of which 128 fit */
  char yaml[1024];
  snprintf(yaml, sizeof yaml, "x%.*s: 1\nx%.*s: 2\n", (int)name.size, name.data, (int)name.size, name.data);
  ((char *)name.data)[name.size] = '\0'; /* repeated() leaves space for it */
  tp_fault fault = {0};
  assert_int_equal(tp_yaml_decode(tp_text_of(yaml), name.data, writer, &fault), TP_ERR_MALFORMED);
  assert_int_equal(strlen(fault.subject), 128);
  assert_true(tp_utf8_valid(tp_text_of(fault.message), NULL));
  assert_non_null(strstr(fault.message, "is repeated"));
  assert_int_equal(tp_yaml_decode(tp_text_of("a: *b"), NULL, writer, &fault), TP_ERR_MALFORMED);
  assert_string_equal(fault.subject, "");
  exact_free(name);
  tp_writer_free(writer);
}

TEST(nothing_is_printed) {
  int saved = dup(STDERR_FILENO), ends[2];
  assert_true(saved >= 0 && pipe(ends) == 0);
  tp_writer *writer = new_writer();
  fflush(stderr);
  dup2(ends[1], STDERR_FILENO);
  tp_status first = decode(tp_text_of("a: b: c\n"), writer, NULL);
  tp_status second = decode(tp_text_of("%NEW\n---\n[ *a, 'x"), writer, NULL);
  fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(ends[1]);
  char byte;
  ssize_t count = read(ends[0], &byte, 1);
  close(ends[0]);
  close(saved);
  assert_int_equal(first, TP_ERR_MALFORMED);
  assert_int_equal(second, TP_ERR_MALFORMED);
  assert_int_equal(count, 0);
  tp_writer_free(writer);
}

/* ---- JSON is YAML ---- */

TEST(random_values_survive_the_way_through_json_read_as_yaml) {
  random_values random = {.state = 29};
  tp_writer *first = new_writer(), *second = new_writer();
  for (int i = 0; i < test_rounds(1500); i++) {
    tp_writer_reset(first);
    write_random_value(&random, first, 0);
    tp_writer_reset(second);
    assert_int_equal(tp_value_write_canonical(finished(first), second, NULL), TP_OK);
    tp_text value = finished(second);
    tp_text json;
    assert_int_equal(tp_json_encode(value, second, &json, NULL), TP_OK);
    tp_fault fault = {0};
    if (decode(json, first, &fault) != TP_OK || !same_bytes(finished(first), value)) {
      fail_msg("value %d: %u:%u %s\n%.*s", i, fault.line, fault.column, fault.message, (int)json.size, json.data);
    }
  }
  tp_writer_free(first);
  tp_writer_free(second);
}

/* ---- memory refused ---- */

typedef struct buffer {
  char *text;
  size_t size, capacity;
} buffer;

static void gather_all(void *ctx, const char *text, size_t size) {
  buffer *b = ctx;
  if (b->size + size > b->capacity) {
    b->capacity = 2 * (b->size + size);
    b->text = realloc(b->text, b->capacity);
    if (!b->text) abort();
  }
  memcpy(b->text + b->size, text, size);
  b->size += size;
}

TEST(refused_memory_is_an_error_and_leaks_nothing) {
  buffer yaml = {0};
  for (int i = 0; i < 100; i++) {
    char line[64];
    gather_all(&yaml, line, (size_t)snprintf(line, sizeof line, "key %d: [1, text of some length, {a: b}]\n", i));
  }
  size_t refusals = 0;
  for (size_t n = 1;; n++) {
    counting memory = {.refuse_at = n};
    tp_allocator allocator = allocator_over(&memory);
    tp__yaml read;
    tp_fault fault = {0};
    tp_status status = tp__yaml_read((tp_text){yaml.text, yaml.size}, NULL, &allocator, &read, &fault);
    if (status == TP_OK) tp__yaml_fini(&read);
    assert_int_equal(memory.open, 0);
    assert_false(memory.wrong_size);
    if (status == TP_OK) {
      assert_true(memory.requests < n);
      break;
    }
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
    refusals++;
  }
  assert_true(refusals > 5);
  free(yaml.text);
}
