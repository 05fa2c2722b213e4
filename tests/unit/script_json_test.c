/* SPDX-License-Identifier: Apache-2.0
 *
 * Script models from JSON text: the effect of each key, and refusals with their place. */
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/support/host.h"
#include "turnphase/model.h"

typedef struct played {
  char lines[2048];
  int64_t input_tokens, output_tokens, cost_micros;
} played;

static void note(void *ctx, const tp_event *event) {
  played *p = ctx;
  size_t used = strlen(p->lines);
  char *to = p->lines + used;
  size_t left = sizeof p->lines - used;
  if (event->kind == TP_EVENT_MODEL_END) {
    p->input_tokens += event->input_tokens;
    p->output_tokens += event->output_tokens;
    p->cost_micros += event->cost_micros;
    snprintf(to, left, "<%.*s>", (int)event->text.size, event->text.data);
  } else if (event->kind == TP_EVENT_TOOL_BEGIN) {
    const tp_tool_call *call = event->tool_call;
    snprintf(to, left, "%.*s:%.*s(%zu)", (int)call->id.size, call->id.data, (int)call->name.size, call->name.data,
             tp_value_count(call->arguments));
  }
}

static tp_answer answer_nothing(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, (tp_text){0});
}

/* Two turns with the script. */
static played play_twice(const char *json, tp_turn_outcome *ret_second) {
  played p = {0};
  tp_fault fault;
  tp_model *model;
  tp_runtime *runtime = open_runtime(NULL);
  for (int i = 0; i < 2; i++) {
    const tp_tool tool = {.struct_size = sizeof tool, .name = i ? "u" : "t", .run = answer_nothing};
    assert_int_equal(tp_tool_add(runtime, &tool, &fault), TP_OK);
  }
  if (tp_script_model_decode(json, &model, &fault) != TP_OK) fail_msg("%s", fault.message);
  const tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = model, .on_event = note, .event_ctx = &p};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  for (int i = 0; i < 2; i++) {
    const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Hi")};
    const tp_turn_result *result;
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    *ret_second = result->outcome;
    tp_turn_result_free(result);
  }
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  return p;
}

TEST(every_key_has_its_effect) {
  tp_turn_outcome second;
  played p = play_twice(
      "{\"responses\": [{\"text\": \"a\", \"tool_calls\": [{\"id\": \"c1\", \"name\": \"t\","
      " \"arguments\": {\"n\": 1, \"m\": {}}}, {\"name\": \"u\"}], \"stop_reason\": \"tool_use\","
      " \"usage\": {\"input_tokens\": 3, \"output_tokens\": 5, \"cost_micros\": 7}}, {\"text\": \"b\"}],"
      " \"repeat\": true}",
      &second);
  assert_string_equal(p.lines, "<a>c1:t(2)call-1-1:u(0)<b><a>c1:t(2)call-1-1:u(0)<b>");
  assert_int_equal(second, TP_TURN_COMPLETED);
  assert_int_equal(p.input_tokens, 6);
  assert_int_equal(p.output_tokens, 10);
  assert_int_equal(p.cost_micros, 14);
}

TEST(a_script_ends_unless_it_repeats) {
  tp_turn_outcome second;
  assert_string_equal(play_twice("{\"responses\": [{\"text\": \"a\"}]}", &second).lines, "<a><>");
  assert_int_equal(second, TP_TURN_FAILED);
  assert_string_equal(play_twice("{\"responses\": [{\"text\": \"a\"}], \"repeat\": false}", &second).lines, "<a><>");
  assert_string_equal(play_twice("{\"responses\": []}", &second).lines, "<><>");
}

TEST(each_answer_key_is_enough) {
  static const char *const responses[] = {"\"text\": \"\"", "\"tool_calls\": [{\"name\": \"t\"}]",
                                          "\"finish\": \"refusal\""};
  for (size_t i = 0; i < sizeof responses / sizeof *responses; i++) {
    char json[80];
    tp_fault fault = {0};
    tp_model *model = NULL;
    snprintf(json, sizeof json, "{\"responses\": [{%s}]}", responses[i]);
    if (tp_script_model_decode(json, &model, &fault) != TP_OK) fail_msg("%s: %s", json, fault.message);
    tp_model_free(model);
  }
}

static const struct {
  const char *json;
  tp_status status;
  const char *message;
} refused[] = {
    {"", TP_ERR_MALFORMED, NULL},
    {"{\"responses\": [}", TP_ERR_MALFORMED, NULL},
    {"{\"responses\": [{\"text\": \"\xFF\"}]}", TP_ERR_UTF8, NULL},
    {"[]", TP_ERR_MALFORMED, "the script must be a map"},
    {"\"text\"", TP_ERR_MALFORMED, "the script must be a map"},
    {"{}", TP_ERR_MALFORMED, "the script needs the key responses"},
    {"{\"response\": []}", TP_ERR_MALFORMED, "the script has the unknown key response"},
    {"{\"responses\": {}}", TP_ERR_MALFORMED, "the script: responses must be a list"},
    {"{\"responses\": null}", TP_ERR_MALFORMED, "the script: responses must be a list"},
    {"{\"responses\": [], \"repeat\": 1}", TP_ERR_MALFORMED, "the script: repeat must be true or false"},
    {"{\"responses\": [1]}", TP_ERR_MALFORMED, "responses[0] must be a map"},
    {"{\"responses\": [{\"text\": \"a\"}, {}]}", TP_ERR_MALFORMED,
     "responses[1] needs one of text, tool_calls, finish"},
    {"{\"responses\": [{\"tool_calls\": []}]}", TP_ERR_MALFORMED, "responses[0] needs one of text, tool_calls, finish"},
    {"{\"responses\": [{\"stop_reason\": \"s\", \"usage\": {}}]}", TP_ERR_MALFORMED,
     "responses[0] needs one of text, tool_calls, finish"},
    {"{\"responses\": [{\"text\": \"a\", \"finish\": \"\"}]}", TP_ERR_MALFORMED,
     "responses[0]: finish must be stop, length, filter, refusal, tool_calls, error or pause, not "},
    {"{\"responses\": [{\"text\": 1}]}", TP_ERR_MALFORMED, "responses[0]: text must be text"},
    {"{\"responses\": [{\"text\": null}]}", TP_ERR_MALFORMED, "responses[0]: text must be text"},
    {"{\"responses\": [{\"text\": \"a\", \"texts\": 1}]}", TP_ERR_MALFORMED, "responses[0] has the unknown key texts"},
    {"{\"responses\": [{\"text\": \"a\", \"stop_reason\": 1}]}", TP_ERR_MALFORMED,
     "responses[0]: stop_reason must be text"},
    {"{\"responses\": [{\"tool_calls\": {}}]}", TP_ERR_MALFORMED, "responses[0]: tool_calls must be a list"},
    {"{\"responses\": [{\"tool_calls\": [1]}]}", TP_ERR_MALFORMED, "responses[0].tool_calls[0] must be a map"},
    {"{\"responses\": [{\"tool_calls\": [{\"name\": \"t\"}, {\"id\": \"c\"}]}]}", TP_ERR_MALFORMED,
     "responses[0].tool_calls[1] needs a name"},
    {"{\"responses\": [{\"tool_calls\": [{\"name\": \"t\", \"arguments\": \"{}\"}]}]}", TP_ERR_MALFORMED,
     "responses[0].tool_calls[0]: arguments must be a map"},
    {"{\"responses\": [{\"tool_calls\": [{\"name\": \"t\", \"tool\": 1}]}]}", TP_ERR_MALFORMED,
     "responses[0].tool_calls[0] has the unknown key tool"},
    {"{\"responses\": [{\"tool_calls\": [{\"name\": \"t\", \"id\": 1}]}]}", TP_ERR_MALFORMED,
     "responses[0].tool_calls[0]: id must be text"},
    {"{\"responses\": [{\"text\": \"a\", \"usage\": 1}]}", TP_ERR_MALFORMED, "responses[0].usage must be a map"},
    {"{\"responses\": [{\"text\": \"a\", \"usage\": {\"tokens\": 1}}]}", TP_ERR_MALFORMED,
     "responses[0].usage has the unknown key tokens"},
    {"{\"responses\": [{\"text\": \"a\", \"usage\": {\"input_tokens\": 1.5}}]}", TP_ERR_MALFORMED,
     "responses[0].usage: input_tokens must be an integer"},
    {"{\"responses\": [{\"text\": \"a\", \"usage\": {\"cost_micros\": -1}}]}", TP_ERR_MALFORMED,
     "responses[0].usage: cost_micros must not be negative"},
};

TEST(what_is_no_script_is_refused_with_its_place) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    tp_fault fault = {0};
    tp_model *model = NULL;
    tp_status status = tp_script_model_decode(refused[i].json, &model, &fault);
    if (status != refused[i].status) fail_msg("%s: %s", refused[i].json, tp_status_name(status));
    assert_null(model);
    assert_int_equal(fault.code, status);
    if (refused[i].message) assert_string_equal(fault.message, refused[i].message);
    assert_int_equal(tp_script_model_decode(refused[i].json, &model, NULL), status);
  }
  assert_int_equal(tp_script_model_decode(NULL, &(tp_model *){NULL}, NULL), TP_ERR_USAGE);
}
