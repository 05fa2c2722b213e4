/* SPDX-License-Identifier: Apache-2.0
 *
 * The data that reaches tp_script_model_new(). It is replaced here by a function that stores a description of its
 * arguments. */
#include "tests/support/test.h"
#include "domains/declared/yaml.h"
#include "runtime/base/printf.h"
#include "tests/support/json_text.h"
#include "tests/unit/value_support.h"

/* ---- the model that is made ---- */

static struct {
  char text[4096];
  size_t size;
  int made;
  tp_status answer;
} script;

static void describe(const char *format, ...) TP__PRINTF(1, 2);
static void describe(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(script.text + script.size, sizeof script.text - script.size, format, args);
  va_end(args);
  script.size += (size_t)size;
  if (script.size >= sizeof script.text) abort();
}

static void describe_response(const tp_model_response *response) {
  describe("[%.*s|%.*s|%lld,%lld,%lld", (int)response->text.size, response->text.data, (int)response->stop_reason.size,
           response->stop_reason.data, (long long)response->input_tokens, (long long)response->output_tokens,
           (long long)response->cost_micros);
  for (size_t i = 0; i < response->call_count; i++) {
    const tp_tool_call *call = response->calls[i];
    describe("|%.*s %.*s ", (int)call->id.size, call->id.data, (int)call->name.size, call->name.data);
    char *json = json_text(call->arguments);
    describe("%s", call->malformed ? "BROKEN" : json);
    free(json);
  }
  describe("%s]", response->struct_size == sizeof *response ? "" : "SIZE");
}

tp_status tp_script_model_new(const tp_model_response *const *responses, size_t count, bool repeat,
                              tp_model **ret_model, tp_fault *fault) {
  static tp_model made = {.struct_size = sizeof made, .name = "script"};
  script.made++;
  describe("%s%zu", repeat ? "repeat " : "", count);
  for (size_t i = 0; i < count; i++) describe_response(responses[i]);
  if (script.answer != TP_OK) {
    if (fault) fault->code = script.answer;
    return script.answer;
  }
  *ret_model = &made;
  return TP_OK;
}

static tp_status load(const char *yaml, tp_fault *fault) {
  memset(&script, 0, sizeof script);
  tp_model *model = NULL;
  tp_text copy = exact_copy(tp_text_of(yaml));
  tp_status status = tp_script_model_load(copy, "script.yaml", &model, fault);
  exact_free(copy);
  assert_int_equal(model != NULL, status == TP_OK);
  return status;
}

static void assert_makes(const char *yaml, const char *expected) {
  tp_fault fault = {0};
  if (load(yaml, &fault) != TP_OK) fail_msg("%s: %u:%u %s", yaml, fault.line, fault.column, fault.message);
  assert_string_equal(script.text, expected);
  assert_int_equal(script.made, 1);
}

/* ---- loading ---- */

TEST(example_of_the_header_becomes_a_model) {
  assert_makes(
      "repeat: true                      # optional\n"
      "responses:\n"
      "  - text: Hello.\n"
      "  - text: Let me look.            # optional beside tool_calls\n"
      "    tool_calls:\n"
      "      - {id: c1, name: weather, arguments: {city: Oslo}}\n"
      "    stop_reason: tool_use         # optional\n"
      "    usage: {input_tokens: 10, output_tokens: 5, cost_micros: 0}   # optional\n",
      "repeat 2[Hello.|end_turn|0,0,0][Let me look.|tool_use|10,5,0|c1 weather {\"city\":\"Oslo\"}]");
}

TEST(what_is_left_out_has_its_default) {
  assert_makes("responses: []", "0");
  assert_makes("{repeat: false, responses: [{text: ''}]}", "1[|end_turn|0,0,0]");
  assert_makes("{responses: [{tool_calls: [{name: a}]}]}", "1[|tool_use|0,0,0| a {}]");
  assert_makes("{responses: [{text: a, tool_calls: []}]}", "1[a|end_turn|0,0,0]");
  assert_makes("{responses: [{text: a, stop_reason: max_tokens, usage: {output_tokens: 7}}]}", "1[a|max_tokens|0,7,0]");
}

TEST(every_call_gets_its_own_arguments) {
  assert_makes(
      "responses:\n"
      "  - tool_calls:\n"
      "      - {id: '1', name: a, arguments: {n: 1, deep: [{x: ~}]}}\n"
      "      - {id: '2', name: b}\n"
      "      - {id: '3', name: c, arguments: {}}\n"
      "  - text: between\n"
      "  - {tool_calls: [{name: d, arguments: {n: 2.5, t: \"yes\"}}], text: last}\n",
      "3[|tool_use|0,0,0|1 a {\"n\":1,\"deep\":[{\"x\":null}]}|2 b {}|3 c {}][between|end_turn|0,0,0]"
      "[last|tool_use|0,0,0| d {\"n\":2.5,\"t\":\"yes\"}]");
}

/* ---- refusing ---- */

TEST(wrong_scripts_are_refused_with_line_and_column) {
  static const struct {
    const char *yaml;
    uint32_t line, column;
    const char *message;
  } rows[] = {
      {"", 1, 1, "no document"},
      {"hello", 1, 1, "a script must be a map, not text"},
      {"- text: a\n", 1, 1, "a script must be a map, not a list"},
      {"{}", 1, 1, "needs the key responses"},
      {"responses:\n", 1, 11, "responses must be a list, not nothing"},
      {"responses: {text: a}", 1, 12, "responses must be a list, not a map"},
      {"responses: []\nrepeats: true\n", 2, 1, "a script has no key \"repeats\", only repeat, responses"},
      {"repeat: yes\nresponses: []\n", 1, 9, "repeat must be a bool, not text"},
      {"repeat: 1\nresponses: []\n", 1, 9, "repeat must be a bool, not an integer"},
      {"responses:\n  - hello\n", 2, 5, "a response must be a map, not text"},
      {"responses:\n  - text: a\n    txt: b\n", 3, 5, "a response has no key \"txt\""},
      {"responses:\n  - text: 42\n", 2, 11, "text must be text, not an integer: put it into quotes"},
      {"responses:\n  - text: no\n  - text: true\n", 3, 11, "not a bool: put it into quotes"},
      {"responses:\n  - text:\n", 2, 10, "text must be text, not nothing"},
      {"responses:\n  - text: [a]\n", 2, 11, "text must be text, not a list"},
      {"responses:\n  - {}\n", 2, 5, "a response needs one of text, tool_calls, finish"},
      {"responses:\n  - tool_calls: []\n", 2, 5, "a response needs one of text, tool_calls, finish"},
      {"responses:\n  - stop_reason: end_turn\n", 2, 5, "a response needs one of text, tool_calls, finish"},
      {"responses:\n  - tool_calls: {name: a}\n", 2, 17, "tool_calls must be a list, not a map"},
      {"responses:\n  - tool_calls:\n    - name\n", 3, 7, "a tool call must be a map, not text"},
      {"responses:\n  - tool_calls:\n    - {id: a}\n", 3, 7, "a tool call needs a name"},
      {"responses:\n  - tool_calls:\n    - {name: ''}\n", 3, 7, "a tool call needs a name"},
      {"responses:\n  - tool_calls:\n    - {name: a, id: 1}\n", 3, 21, "id must be text, not an integer"},
      {"responses:\n  - tool_calls:\n    - {name: a, arguments: [1]}\n", 3, 28, "arguments must be a map, not a list"},
      {"responses:\n  - tool_calls:\n    - {name: a, arguments: 'raw'}\n", 3, 28, "arguments must be a map, not text"},
      {"responses:\n  - tool_calls:\n    - {name: a, argument: {}}\n", 3, 17,
       "no key \"argument\", only id, name, arguments"},
      {"responses:\n  - {text: a, usage: 5}\n", 2, 22, "usage must be a map, not an integer"},
      {"responses:\n  - {text: a, usage: {tokens: 5}}\n", 2, 23, "usage has no key \"tokens\""},
      {"responses:\n  - {text: a, usage: {input_tokens: 1.5}}\n", 2, 37,
       "input_tokens must be an integer, not a float"},
      {"responses:\n  - {text: a, usage: {cost_micros: -1}}\n", 2, 36, "must not be negative"},
      {"responses:\n  - {text: a, stop_reason: 1}\n", 2, 28, "stop_reason must be text"},
      {"responses:\n  - text: a\n  - text: b\n    text: c\n", 4, 5, "\"text\" is repeated"},
      {"responses:\n  - &r {text: a}\n  - *r\n", 2, 5, "anchors"},
      {"responses: [\n", 2, 1, "not valid YAML"},
  };
  size_t wrong = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_fault fault = {0};
    assert_int_equal(load(rows[i].yaml, &fault), TP_ERR_MALFORMED);
    assert_string_equal(fault.subject, "script.yaml");
    assert_int_equal(script.made, 0);
    if (fault.line != rows[i].line || fault.column != rows[i].column || !strstr(fault.message, rows[i].message)) {
      print_error("%s: %u:%u %s\n", rows[i].yaml, fault.line, fault.column, fault.message);
      wrong++;
    }
    assert_int_equal(load(rows[i].yaml, NULL), TP_ERR_MALFORMED);
  }
  assert_int_equal(wrong, 0);
}

TEST(refusal_of_the_model_itself_is_passed_on) {
  memset(&script, 0, sizeof script);
  script.answer = TP_ERR_NO_MEMORY;
  tp_model untouched, *model = &untouched;
  tp_fault fault = {0};
  assert_int_equal(tp_script_model_load(tp_text_of("responses: [{text: a}]"), NULL, &model, &fault), TP_ERR_NO_MEMORY);
  assert_ptr_equal(model, &untouched);
  assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
}

TEST(refused_memory_is_an_error_and_leaks_nothing) {
  tp_text yaml = tp_text_of("{responses: [{text: a}, {tool_calls: [{name: b, arguments: {c: d}}, {name: e}]}]}");
  size_t refusals = 0;
  for (size_t n = 1;; n++) {
    memset(&script, 0, sizeof script);
    counting memory = {.refuse_at = n};
    tp_allocator allocator = allocator_over(&memory);
    tp_model *model;
    tp_fault fault = {0};
    tp_status status = tp__script_model_load(yaml, NULL, &allocator, &model, &fault);
    assert_int_equal(memory.open, 0);
    assert_false(memory.wrong_size);
    assert_int_equal(script.made, status == TP_OK);
    if (status == TP_OK) {
      assert_true(memory.requests < n);
      break;
    }
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
    refusals++;
  }
  assert_true(refusals > 5);
}
