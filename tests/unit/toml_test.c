/* SPDX-License-Identifier: Apache-2.0
 *
 * TOML as a value: the results of Python's tomllib for the same texts, and refusals. */
#include <stdio.h>

#include "tests/support/test.h"
#include "cli/common/toml.h"
#include "tests/support/json_text.h"

static tp_status decode(const char *toml, char ret_json[1024], tp_fault *fault) {
  tp_writer *writer;
  tp_text value;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_status status = cli_toml_decode(tp_text_of(toml), writer, fault);
  if (status == TP_OK) {
    assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
    char *json = json_text(value);
    snprintf(ret_json, 1024, "%s", json);
    free(json);
  }
  tp_writer_free(writer);
  return status;
}

TEST(a_text_is_the_value_that_it_says) {
  static const struct {
    const char *toml, *json;
  } cases[] = {
      {"", "{}"},
      {"a = 1", "{\"a\":1}"},
      {"a = \"x\"\nb = 'y'", "{\"a\":\"x\",\"b\":\"y\"}"},
      {"[hooks]\nA = true", "{\"hooks\":{\"A\":true}}"},
      {"[[hooks.PreToolUse]]\nmatcher = \"Bash\"\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"exit "
       "2\"\ntimeout = 10\n[[hooks.PreToolUse.hooks]]\ncommand = "
       "\"b\"\n[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ncommand=\"c\"",
       "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"Bash\",\"hooks\":[{\"type\":\"command\",\"command\":\"exit "
       "2\",\"timeout\":10},{\"command\":\"b\"}]},{\"hooks\":[{\"command\":\"c\"}]}]}}"},
      {"a.b.c = 1\na.b.d = 2", "{\"a\":{\"b\":{\"c\":1,\"d\":2}}}"},
      {"[a]\nb.c = 1\n[a.d]\ne = 2", "{\"a\":{\"b\":{\"c\":1},\"d\":{\"e\":2}}}"},
      {"\"a b\" = 1\n'c.d' = 2", "{\"a b\":1,\"c.d\":2}"},
      {"a = [1, 2, # x\n 3,\n]", "{\"a\":[1,2,3]}"},
      {"a = {b = 1, c = {d = \"x\"}}", "{\"a\":{\"b\":1,\"c\":{\"d\":\"x\"}}}"},
      {"a = \"\"\"\nx\\\n   y\"z\n\"\"\"", "{\"a\":\"xy\\\"z\\n\"}"},
      {"a = '''\nx\\n'y'''", "{\"a\":\"x\\\\n'y\"}"},
      {"a = \"\\u00e9\\U0001F600\\t\\\"\\\\\"", "{\"a\":\"\303\251\360\237\230\200\\t\\\"\\\\\"}"},
      {"a = 0x1F\nb = 0o17\nc = 0b11\nd = 1_000\ne = -7\nf = +7",
       "{\"a\":31,\"b\":15,\"c\":3,\"d\":1000,\"e\":-7,\"f\":7}"},
      {"a = 1.5\nb = -2e3\nc = 6.02E+2\nd = 1_0.5", "{\"a\":1.5,\"b\":-2000.0,\"c\":602.0,\"d\":10.5}"},
      {"a = 2026-11-26\nb = 07:32:00\nc = 1979-05-27T07:32:00Z\nd = 1979-05-27 07:32:00.5",
       "{\"a\":\"2026-11-26\",\"b\":\"07:32:00\",\"c\":\"1979-05-27T07:32:00Z\",\"d\":\"1979-05-27 07:32:00.5\"}"},
      {"a = 1 # c\n# d\n\n  b = 2\r\nc = 3", "{\"a\":1,\"b\":2,\"c\":3}"},
      {"a = []\nb = {}\nc = [[1],[\"x\"]]", "{\"a\":[],\"b\":{},\"c\":[[1],[\"x\"]]}"},
      {"[a.b]\nx=1\n[a]\ny=2", "{\"a\":{\"b\":{\"x\":1},\"y\":2}}"},
      {"a = \"\"\"a\"\"\"\"\"", "{\"a\":\"a\\\"\\\"\"}"},
      {"[ a . \"b\" ]\nc . d = 1", "{\"a\":{\"b\":{\"c\":{\"d\":1}}}}"},
      {"a = \"#\"\nb = \"]\"", "{\"a\":\"#\",\"b\":\"]\"}"},
      {"a = false", "{\"a\":false}"},
      {"[[a]]\nx=1\n[a.b]\ny=2\n[[a]]\n[a.b]\ny=3", "{\"a\":[{\"x\":1,\"b\":{\"y\":2}},{\"b\":{\"y\":3}}]}"},
      {"a-b_1 = 0", "{\"a-b_1\":0}"},
      {"1 = 2", "{\"1\":2}"},
      {"a = [\"x\", {b=1}]", "{\"a\":[\"x\",{\"b\":1}]}"},
      {"\xef\xbb\xbf"
       "a = 1",
       "{\"a\":1}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char json[1024];
    tp_fault fault = {0};
    if (decode(cases[i].toml, json, &fault) != TP_OK) fail_msg("%s: %u: %s", cases[i].toml, fault.line, fault.message);
    if (strcmp(json, cases[i].json) != 0) fail_msg("%s: %s", cases[i].toml, json);
  }
}

TEST(what_is_not_toml_is_refused_with_its_place) {
  static const char *const cases[] = {
      "a",
      "a =",
      "= 1",
      "a = b",
      "a = \"x",
      "a = \"x\ny\"",
      "a = 1 2",
      "a = 1\na = 2",
      "[a]\n[a]",
      "[a",
      "[[a]",
      "a = [1 2]",
      "a = [1,",
      "a = {b=1",
      "a = {b=1,}",
      "a = {b=1\n}",
      "a = \"\\x\"",
      "a = \"\\u12\"",
      "a = \"\\ud800\"",
      "a = 01",
      "a = 1__0",
      "a = _1",
      "a = 1.",
      "a = .5",
      "a = 1e",
      "a = True",
      "a.b = 1\na = 2",
      "a = 1\na.b = 2",
      "a = {b=1}\n[a.c]",
      "a = [1]\n[[a]]",
      "[a]\n[[a]]",
      "[[a]]\n[a]",
      "a = 0x",
      "a = +0x1",
      "a = \"\001\"",
      "[]",
      "[a]x",
      "a = 1\nb",
      "\"\"\"a\"\"\" = 1",
      "a.b.c=1\n[a.b]",
      "a = {b.c=1}\n[a]",
      "[a.b]\n[a]\nb.c = 1",
      "a = 99999999999999999999",
      "# \001",
      "a = nope",
      "a = 'x",
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char json[1024];
    tp_fault fault = {0};
    if (decode(cases[i], json, &fault) != TP_ERR_MALFORMED) fail_msg("%s: taken", cases[i]);
    if (fault.line == 0 || fault.column == 0 || !fault.message[0]) fail_msg("%s: no place", cases[i]);
  }
}

TEST(a_place_is_where_it_is_wrong) {
  static const struct {
    const char *toml;
    uint32_t line, column;
  } cases[] = {{"a = 1\nb", 2, 2},          {"a = \"x", 1, 5},        {"[a]\nb = 1\n\n[a]", 4, 1},
               {"a = [\n 1,\n 2 3]", 3, 4}, {"a = 1\n  a = 2", 2, 3}, {"a = 1 # \001", 1, 9},
               {"x = \"\\q\"", 1, 6},       {"a = yes", 1, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char json[1024];
    tp_fault fault = {0};
    assert_int_equal(decode(cases[i].toml, json, &fault), TP_ERR_MALFORMED);
    if (fault.line != cases[i].line || fault.column != cases[i].column)
      fail_msg("%s: %u:%u: %s", cases[i].toml, fault.line, fault.column, fault.message);
  }
}

/* Nothing of it may be deeper than what reads it can bear. */
TEST(a_text_that_is_too_deep_is_refused) {
  char toml[20000] = "a = ";
  memset(toml + 4, '[', 9000);
  char json[1024];
  tp_fault fault = {0};
  assert_int_equal(decode(toml, json, &fault), TP_ERR_MALFORMED);
  memcpy(toml, "[a", 3);
  for (size_t i = 2; i < 9000; i += 2) memcpy(toml + i, ".a", 3);
  assert_int_equal(decode(toml, json, &fault), TP_ERR_MALFORMED);
}
