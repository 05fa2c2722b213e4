/* SPDX-License-Identifier: Apache-2.0
 *
 * Text put together in two passes, and values as JSON. */
#include "tests/support/test.h"
#include "phases/merge/out.h"
#include "tests/support/counting.h"
#include "tests/support/json_value.h"

static tp_writer *writer;

static int setup(void **state) {
  (void)state;
  return tp_writer_new(NULL, &writer) == TP_OK ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  tp_writer_free(writer);
  return blocks_open == 0 ? 0 : -1;
}

FOR_EACH_TEST(setup, teardown);

/* What one call puts. */
typedef struct put {
  char text[512];
  tp__out out;
} put;

static put *start(void) {
  static put one;
  one.out = (tp__out){one.text, sizeof one.text, 0};
  return &one;
}

static void assert_put(put *one, const char *expected) {
  assert_in_range(one->out.size, 0, sizeof one->text - 1);
  one->text[one->out.size] = '\0';
  assert_string_equal(one->text, expected);
}

static void assert_json(tp_text value, const char *expected) {
  put *one = start();
  tp__out_json(&one->out, value);
  assert_put(one, expected);
}

TEST(what_does_not_fit_is_counted_and_lost) {
  char text[5] = "....";
  tp__out out = {text, 3, 0};
  tp__out_string(&out, "ab");
  tp__out_string(&out, "cdef");
  tp__out_char(&out, 'g');
  tp__out_text(&out, (tp_text){NULL, 0});
  assert_string_equal(text, "abc.");
  assert_int_equal(out.size, 7);
}

TEST(numbers_are_put_whole) {
  put *one = start();
  tp__out_int(&one->out, INT64_MIN);
  tp__out_int(&one->out, INT64_MAX);
  assert_put(one, "-92233720368547758089223372036854775807");
}

TEST(values_become_json) {
  assert_json(json_value(writer, "{'a': [1, -2.5, true, false, null], 'b': {}, 'c': 'text', 'd': []}"),
              "{\"a\":[1,-2.5,true,false,null],\"b\":{},\"c\":\"text\",\"d\":[]}");
  assert_json((tp_text){NULL, 0}, "null");
  assert_json((tp_text){"\xc1", 1}, "null");
}

TEST(text_is_escaped_so_that_it_stays_in_its_string_its_line_and_its_block) {
  static const char hostile[] = "\"\\/\n\t\r\0\x1f\x7f<b>&\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa7\xc3\xa9";
  put *one = start();
  tp__out_json_string(&one->out, (tp_text){hostile, sizeof hostile - 1});
  assert_put(one,
             "\"\\\"\\\\/\\n\\t\\r\\u0000\\u001f\\u007f\\u003cb\\u003e\\u0026\\u2028\\u2029\xe2\x80\xa7\xc3\xa9\"");
}

TEST(keys_are_escaped_as_text_is) { assert_json((tp_text){"\x81\xa4</a>\x01", 7}, "{\"\\u003c/a\\u003e\":1}"); }

TEST(a_text_that_ends_within_a_line_end_is_not_read_past) {
  put *one = start();
  tp__out_json_string(&one->out, (tp_text){"\xe2\x80", 2});
  assert_put(one, "\"\xe2\x80\"");
}

TEST(bytes_become_base64) {
  assert_json((tp_text){"\xc4\x00", 2}, "\"\"");
  assert_json((tp_text){"\xc4\x01\xff", 3}, "\"/w==\"");
  assert_json((tp_text){"\xc4\x02"
                        "ab",
                        4},
              "\"YWI=\"");
  assert_json((tp_text){"\xc4\x03"
                        "abc",
                        5},
              "\"YWJj\"");
  assert_json((tp_text){"\xc4\x04"
                        "abcd",
                        6},
              "\"YWJjZA==\"");
  assert_json((tp_text){"\x92\xc4\x01\xff\xff", 5}, "[\"/w==\",-1]"); /* what follows is not part of them */
}

static void put_twice(tp__out *out, const void *ctx) { tp__out_string(out, ctx); }

TEST(two_passes_give_exactly_what_was_put) {
  tp__arena arena;
  tp_text text = {NULL, 0};
  tp__arena_init(&arena, &counting, NULL, 0, 0);
  assert_int_equal(tp__out_twice(&arena, put_twice, "some text", &text), TP_OK);
  assert_string_equal(text.data, "some text");
  assert_int_equal(text.size, 9);
  assert_int_equal(tp__out_twice(&arena, put_twice, "", &text), TP_OK);
  assert_string_equal(text.data, "");
  tp__arena_fini(&arena);
  refuse_at = 0;
  text = (tp_text){"before", 6};
  assert_int_equal(tp__out_twice(&arena, put_twice, "some text", &text), TP_ERR_NO_MEMORY);
  refuse_at = -1;
  assert_string_equal(text.data, "before");
  tp__arena_fini(&arena);
}

TEST(summary_keeps_head_and_tail_of_long_texts_at_code_points) {
  put *one = start();
  tp__out_json_summary(&one->out, json_value(writer, "{'a': '0123456789abcdef', 'b': ['0123456789abcdefg<\\n']}"), 16);
  assert_put(one,
             "{\"a\":\"0123456789abcdef\",\"b\":[\"0123456789ab\xe2\x80\xa6"
             "fg<\\n\"]}");
  one = start();
  tp_writer_reset(writer);
  tp_write_string(writer, "0123456789a\xc3\xa9 in between \xc3\xa9xyz"); /* the cuts are within a character */
  tp_text value;
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  tp__out_json_summary(&one->out, value, 16);
  assert_put(one, "\"0123456789a\xe2\x80\xa6xyz\"");
}
