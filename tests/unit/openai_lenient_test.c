/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as servers send it: repairs of invalid texts, the end of a text, and characters that are divided between two
 * pieces. */
#include "tests/support/test.h"
#include "tests/support/answers.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define BAD "\xEF\xBF\xBD"
#define MARK_F0 "\xF4\x8F\xBF\xB0"

static const char *repaired(tp__bytes *to, const char *text) {
  bool has_marks;
  tp__bytes_clear(to);
  tp__openai_repair(tp_text_of(text), to, &has_marks);
  return tp__bytes_string(to);
}

TEST(what_json_forbids_is_repaired) {
  static const struct {
    const char *text, *json;
  } rows[] = {
      {"{\"a\": 1}", "{\"a\":1}"},
      {"{\"a\": NaN, \"b\": -Infinity, \"c\": Infinity}", "{\"a\":null,\"b\":null,\"c\":null}"},
      {"[nan, inf, -inf, +Infinity, -NaN]", "[null,null,null,null,null]"},
      {"[01, -007, +5, .5, 1., -.5, 1.e3, 00]", "[1,-7,5,0.5,1.0,-0.5,1.0e3,0]"},
      {"[1e999, 123456789012345678901234567890, -1e400, 1e5]", "[null,null,null,1e5]"},
      {"{\"a\":1,\"a\":2}", "{\"a\":2}"},
      {"{\"a\":1,\"b\":{\"x\":1,\"x\":2},\"a\":{\"a\":3}}", "{\"b\":{\"x\":2},\"a\":{\"a\":3}}"},
      {"{\"a\":1,\"a\":2,\"a\":3,\"b\":4}", "{\"a\":3,\"b\":4}"},
      {"{\"\\u0061\":1,\"a\":2}", "{\"a\":2}"},
      {"{\"a\":[1,2,],}", "{\"a\":[1,2]}"},
      {"[,1,,2,]", "[1,2]"},
      {"{'a': 'it\\'s', \"b\": None, 'c': True, 'd': False}", "{\"a\":\"it's\",\"b\":null,\"c\":true,\"d\":false}"},
      {"{'a': 'say \"x\"'}", "{\"a\":\"say \\\"x\\\"\"}"},
      {"{\"a\": undefined}", "{\"a\":null}"},
      {"[\"a\nb\tc\"]", "[\"a\\u000ab\\u0009c\"]"},
      {"[\"C:\\dir\\x\"]", "[\"C:\\\\dir\\\\x\"]"},
      {"[\"\\ud83d\\ude00\"]", "[\"\xF0\x9F\x98\x80\"]"},
      {"[\"a\\ud83d\"]", "[\"a" BAD "\"]"},
      {"[\"\\ude00a\"]", "[\"" BAD "a\"]"},
      {"[\"a\xF0\x9F\"]", "[\"a" BAD BAD "\"]"},
      {"[\"\xff\xc0\x80\"]", "[\"" BAD BAD BAD "\"]"},
      {"\xEF\xBB\xBF{\"a\":1}", "{\"a\":1}"},
      {" {\n} ", "{}"},
      {"\"a\"", "\"a\""},
  };
  tp__bytes json = {0};
  for (size_t i = 0; i < COUNT(rows); i++)
    if (strcmp(repaired(&json, rows[i].text), rows[i].json) != 0)
      fail_msg("%s\n  %s\n  not\n  %s", rows[i].text, tp__bytes_string(&json), rows[i].json);
  tp__bytes_fini(&json);
}

/* What is cut, or no JSON at all, does not become a whole text. */
TEST(what_is_cut_stays_cut) {
  static const char *const rows[] = {
      "",     "{",    "{\"a",       "{\"a\"", "{\"a\":",   "{\"a\":1", "[", "[1",      "[\"a", "{a:1}", "{\"a\":oops}",
      "{} x", "{}{}", "{\"a\":1]}", "[1}",    "{\"a\" 1}", "hello",    "'", "{\"a\":'"};
  tp__bytes json = {0};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_writer_reset(writer);
    if (tp_json_decode(tp_text_of(repaired(&json, rows[i])), writer, NULL) == TP_OK)
      fail_msg("%s became %s", rows[i], tp__bytes_string(&json));
  }
  tp_writer_free(writer);
  tp__bytes_fini(&json);
}

TEST(a_text_of_many_members_or_levels_costs_little) {
  tp__bytes text = {0}, json = {0};
  bool has_marks;
  tp__bytes_put_string(&text, "{");
  for (int i = 0; i < 100000; i++) tp__bytes_printf(&text, "\"%d\":NaN,", i);
  tp__bytes_put_string(&text, "}");
  tp__openai_repair(tp__bytes_text(&text), &json, &has_marks);
  assert_true(tp__openai_is_whole(tp__bytes_text(&json)));
  tp__bytes_clear(&text);
  tp__bytes_clear(&json);
  for (int i = 0; i < 100000; i++) tp__bytes_put_string(&text, "[");
  tp__openai_repair(tp__bytes_text(&text), &json, &has_marks);
  assert_false(tp__openai_is_whole(tp__bytes_text(&json)));
  tp__bytes_fini(&text);
  tp__bytes_fini(&json);
}

TEST(where_a_text_ends_is_known) {
  static const struct {
    const char *text;
    bool whole;
  } rows[] = {
      {"{}", true},
      {"[1,2]", true},
      {" {\"a\":\"}\"} ", true},
      {"{\"a\":\"\\\"}\"}", true},
      {"{", false},
      {"{\"a\":\"", false},
      {"{}}", false},
      {"{}{}", false},
      {"1", false},
      {"\"a\"", false},
      {"", false},
      {"x{}", false},
      {"[DONE]", true},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp__openai_scan scan = {0};
    for (const char *at = rows[i].text; *at; at++) tp__openai_scan_text(&scan, (tp_text){at, 1});
    bool seen = tp__openai_is_whole(tp_text_of(rows[i].text));
    if (tp__openai_scan_is_whole(&scan) != rows[i].whole || seen != rows[i].whole) fail_msg("%s", rows[i].text);
  }
  assert_true(tp__openai_same_json(tp_text_of("{\"a b\": [1, 2]}"), tp_text_of("{ \"a b\":[1,2] }")));
  assert_false(tp__openai_same_json(tp_text_of("{\"a b\":1}"), tp_text_of("{\"ab\":1}")));
  assert_false(tp__openai_same_json(tp_text_of("{\"a\":1}"), tp_text_of("{\"a\":12}")));
}

/* ---- characters in pieces ---- */

#define CONTENT(text) "data: {\"choices\":[{\"delta\":{\"content\":\"" text "\"}}]}\n\n"
#define STOP "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

TEST(characters_that_two_pieces_share_are_joined) {
  static const struct {
    const char *bytes, *text;
  } rows[] = {
      {CONTENT("hi \xF0\x9F") CONTENT("\x98\x80 there"), "hi \xF0\x9F\x98\x80 there"},
      {CONTENT("a\xF0") CONTENT("\x9F") CONTENT("\x98") CONTENT("\x80"), "a\xF0\x9F\x98\x80"},
      {CONTENT("\xC3") CONTENT("\xB6"), "\xC3\xB6"},
      {CONTENT("\xE2\x82") CONTENT("\xAC") CONTENT("5"),
       "\xE2\x82\xAC"
       "5"},
      {CONTENT("\\ud83d") CONTENT("\\ude00"), "\xF0\x9F\x98\x80"},
      {CONTENT("a \\ud83d") CONTENT("\\ude00\\ud83d") CONTENT("\\ude00 b"), "a \xF0\x9F\x98\x80\xF0\x9F\x98\x80 b"},
      {CONTENT("hi \xF0\x9F") CONTENT("there"), "hi " BAD "there"},
      {CONTENT("hi \xF0\x9F") CONTENT("") CONTENT("\x98\x80"), "hi \xF0\x9F\x98\x80"},
      {CONTENT("hi \xF0\x9F"), "hi " BAD},
      {CONTENT("\\ud83d") CONTENT("x"), BAD "x"},
      {CONTENT("\\ud83d"), BAD},
      {CONTENT("\\ude00"), BAD},
      {CONTENT("\\ud83d") CONTENT("\\ud83d\\ude00"), BAD "\xF0\x9F\x98\x80"},
      {CONTENT("\x98\x80 x"), BAD BAD " x"},
      {CONTENT("\xff") CONTENT("\xfe"), BAD BAD},
      {CONTENT("\xED\xA0\xBD") CONTENT("\xED\xB8\x80"), "\xF0\x9F\x98\x80"}, /* each half as if it were a character */
      {CONTENT(MARK_F0 " \xF0\x9F") CONTENT("\x98\x80"), MARK_F0 " \xF0\x9F\x98\x80"}, /* a character that is a mark */
      {CONTENT(MARK_F0), MARK_F0},
      {CONTENT("\\udbff\\udff0 \xF0\x9F") CONTENT("\x98\x80"), MARK_F0 " \xF0\x9F\x98\x80"},
      {CONTENT("\xF0\x9F") "data: {\"choices\":[{\"delta\":{\"refusal\":null}}]}\n\n" CONTENT("\x98\x80"),
       "\xF0\x9F\x98\x80"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char *bytes = NULL, *expected = NULL;
    assert_true(asprintf(&bytes, "%s%s", rows[i].bytes, STOP) > 0);
    assert_true(asprintf(&expected, "%s|end_turn|0,0", rows[i].text) > 0);
    for (size_t split = 0; split < 2; split++) {
      tp__openai_stream stream = begin(TP_OPENAI_CHAT, 1 << 20);
      char *seen = come_to(&stream, tp_text_of(bytes), split ? strlen(bytes) + 1 : 0);
      if (strcmp(seen, expected) != 0) fail_msg("row %zu: %s not %s", i, seen, expected);
      assert_true(tp__same(tp__bytes_text(&deltas), tp_text_of(rows[i].text)));
      free(seen);
    }
    free(bytes);
    free(expected);
  }
}

#define ARGUMENTS(text)                                                                                     \
  "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\"," \
  "\"arguments\":\"" text "\"}}]}}]}\n\n"
#define TEXT_DELTA(text) \
  "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" text "\"}}\n\n"
#define OUTPUT_DELTA(text) \
  "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"" text "\"}\n\n"

TEST(arguments_and_names_are_characters_too) {
  assert_comes_to(TP_OPENAI_CHAT, ARGUMENTS("{\\\"t\\\":\\\"\xF0\x9F") ARGUMENTS("\x98\x80\\\"}") STOP,
                  "|end_turn|0,0|c f {\"t\":\"\xF0\x9F\x98\x80\"}");
  assert_comes_to(TP_OPENAI_CHAT, ARGUMENTS("{\\\"t\\\":\\\"\\ud83d") ARGUMENTS("\\ude00\\\"}") STOP,
                  "|end_turn|0,0|c f {\"t\":\"\xF0\x9F\x98\x80\"}");
  assert_comes_to(TP_OPENAI_CHAT, ARGUMENTS("{\\\"t\\\":\\\"\xF0\x9F\\\"}") STOP,
                  "|end_turn|0,0|c f {\"t\":\"" BAD "\"}");
  assert_comes_to(TP_OPENAI_CHAT, /* in arguments that are an object */
                  "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"c\xff\",\"function\":{\"name\":\"f\xff\","
                  "\"arguments\":{\"text\":\"\xff\"}}}]}}]}\n\n" STOP,
                  "|end_turn|0,0|c" BAD " f" BAD " {\"text\":\"" BAD "\"}");
  assert_comes_to(TP_OPENAI_MESSAGES,
                  TEXT_DELTA("\xC3") TEXT_DELTA(
                      "\xB6") "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
                  "\xC3\xB6|end_turn|0,0");
  assert_comes_to(
      TP_OPENAI_RESPONSES,
      OUTPUT_DELTA("\xC3") OUTPUT_DELTA(
          "\xB6") "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
      "\xC3\xB6|end_turn|0,0");
}

FOR_ALL_TESTS(NULL, free_deltas);
