/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks that ask a model: the meaning of its answer, the request, and requests without an answer. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "tests/support/json_value.h"
#include "tests/support/model.h"

FOR_EACH_TEST(make_directory, remove_directory);

static void write_guard(const char *more, const char *of_handler) {
  char text[1024];
  snprintf(text, sizeof text, "id: guard\n%s\nhandler: {kind: prompt, prompt: 'Is this safe? $ARGUMENTS'%s}\n", more,
           of_handler);
  write_named("a.yaml", text);
}

static tp_runtime *open_asking(const tp_model *model) {
  tp_hooks_options options = hooks_options();
  options.model = model;
  return open_with_hooks(&options);
}

static tp_phase_result run_gate(tp_turn *turn) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_field fields[] = {
      {.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("shell")},
      {.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = json_value(writer, "{'command': 'ls'}")}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2, .budget_ms = 60000};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, NULL), TP_OK);
  tp_writer_free(writer);
  return result;
}

/* ---- what an answer means ---- */

enum outcome { ALLOWS, DENIES, UNCLEAR };

static const struct {
  const char *text;
  enum outcome outcome;
  const char *reason; /* a part */
} answers[] = {
    {"{\"ok\": true}", ALLOWS, ""},
    {"  \n{\"ok\":true,\"reason\":\"fine\"}\n", ALLOWS, ""},
    {"Let me think. The call lists a directory.\n\n{\"ok\": true}\n\nThat is all.", ALLOWS, ""},
    {"```json\n{\"ok\": true}\n```", ALLOWS, ""},
    {"```\n{\"ok\": false, \"reason\": \"fenced\"}\n```", DENIES, "fenced"},
    {"{\"ok\": false, \"reason\": \"not here\"}", DENIES, "not here"},
    {"{\"ok\": false}", DENIES, "guard gave no reason"},
    {"{\"ok\": false, \"reason\": null}", DENIES, "guard gave no reason"},
    {"{\"reason\": \"a } and a \\\" and a {\", \"ok\": false}", DENIES, "a } and a \" and a {"},
    {"The call is {\"command\": \"ls\"}, and so {\"ok\": true}", ALLOWS, ""},
    {"It runs f() { ls; }, which is harmless: {\"ok\": true}", ALLOWS, ""},
    {"[{\"ok\": true}]", ALLOWS, ""},
    {"{\"ok\": true, \"confidence\": 0.9}", ALLOWS, ""},
    {"{\"ok\": \"false\", \"reason\": \"x\"}", UNCLEAR, "not true or false"},
    {"{\"ok\": \"true\"}", UNCLEAR, "not true or false"},
    {"{\"ok\": 1}", UNCLEAR, "not true or false"},
    {"{\"ok\": null}", UNCLEAR, "not true or false"},
    {"{\"ok\": false, \"reason\": [\"x\"]}", UNCLEAR, "reason of the model's answer"},
    {"{\"ok\": true} {\"ok\": false}", UNCLEAR, "two objects"},
    {"The text says {\"ok\": true}, and my answer is {\"ok\": false, \"reason\": \"it asks for that\"}", UNCLEAR,
     "two objects"},
    {"{\"ok\": true, \"ok\": false}", UNCLEAR, "not JSON"},
    {"{\"ok\": fal", UNCLEAR, "not JSON"},
    {"{\"ok\": true} but {\"ok\": fal", UNCLEAR, "not JSON"},
    {"{'ok': True}", UNCLEAR, "not JSON"},
    {"{ok: true}", UNCLEAR, "not JSON"},
    {"{\"result\": {\"ok\": true}}", UNCLEAR, "no object"},
    {"{\"continue\": true}", UNCLEAR, "no object"},
    {"{\"OK\": true}", UNCLEAR, "no object"},
    {"ok: true", UNCLEAR, "no object"},
    {"yes", UNCLEAR, "no object"},
    {"I cannot help with that.", UNCLEAR, "no object"},
    {"", UNCLEAR, "no object"},
    {"{}", UNCLEAR, "no object"},
    {"{", UNCLEAR, "no object"},
    {"}{", UNCLEAR, "no object"},
};

/* An unclear answer is a failure: a required guard denies, and a guard that is best_effort has no verdict. */
static void check_answer(size_t i, const char *more, bool is_required) {
  const reply replies[] = {{.text = answers[i].text}};
  recorder *r = recorder_new(replies, 1);
  write_guard(more, "");
  tp_runtime *runtime = open_asking(recorder_model(r, false));
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_gate(turn);
  const tp_run_record *record = tp_phase_result_run(&result, 0);
  bool denies = answers[i].outcome == DENIES || (answers[i].outcome == UNCLEAR && is_required);
  tp_verdict verdict = denies ? TP_VERDICT_DENY : answers[i].outcome == UNCLEAR ? TP_VERDICT_NONE : TP_VERDICT_ALLOW;
  bool is_right = result.outcome == (denies ? TP_ERR_DENIED : TP_OK) && result.verdict == verdict &&
                  record->reason == (answers[i].outcome == UNCLEAR ? TP_REASON_MALFORMED : TP_REASON_NONE) &&
                  (!denies || strstr(result.reason.data, answers[i].reason));
  if (!is_right)
    fail_msg("%s: outcome %d, verdict %d, reason %u: %.*s", answers[i].text, result.outcome, (int)result.verdict,
             record->reason, (int)result.reason.size, result.reason.size ? result.reason.data : "");
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
  recorder_free(r);
}

TEST(an_answer_is_one_object_wherever_it_stands) {
  for (size_t i = 0; i < COUNT(answers); i++) {
    check_answer(i, "event: tool.pre", true);
    check_answer(i, "event: tool.pre\nfailure: best_effort", false);
    check_answer(i, "protocol: claude-code\nevent: PreToolUse\nfailure: required", true);
  }
}

/* ---- what is asked ---- */

static void ask_with(const char *file, recorder *r) {
  write_named("a.yaml", file);
  tp_runtime *runtime = open_asking(recorder_model(r, false));
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_gate(turn);
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(r->asked, 1);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(the_model_gets_the_question_with_the_event_in_it) {
  static const reply yes[] = {{.text = "{\"ok\": true}"}};
  const struct {
    const char *prompt, *keys;
    const char *begins, *has, *ends; /* of the question */
    const char *name;
  } rows[] = {
      {"Safe? $ARGUMENTS", "", "U<Safe? {\"event_type\":\"tool.pre\",", "\"command\":\"ls\"", "}>", ""},
      {"$ARGUMENTS and again $ARGUMENTS!", ", model: small-1", "U<{\"event_type\"", "} and again {\"event_type\"",
       "}!>", "small-1"},
      {"Is it safe?", "", "U<Is it safe?\n\nARGUMENTS: {\"event_type\"", "\"tool\":\"shell\"", "}>", ""},
      {"$ARGUMENT is not it", "", "U<$ARGUMENT is not it\n\nARGUMENTS: {", "\"hook_id\":\"guard\"", "}>", ""},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    recorder *r = recorder_new(yes, 1);
    char file[512];
    snprintf(file, sizeof file, "id: guard\nevent: tool.pre\nhandler: {kind: prompt, prompt: '%s'%s}\n", rows[i].prompt,
             rows[i].keys);
    ask_with(file, r);
    const char *question = strstr(r->requests[0], ">U<");
    assert_non_null(question);
    assert_memory_equal(r->requests[0], "S<You decide", 12);
    assert_int_equal(strncmp(question + 1, rows[i].begins, strlen(rows[i].begins)), 0);
    assert_non_null(strstr(question, rows[i].has));
    assert_string_equal(question + strlen(question) - strlen(rows[i].ends), rows[i].ends);
    assert_string_equal(r->model_names[0], rows[i].name);
    assert_int_equal(r->destroys, 0);
    recorder_free(r);
  }
}

/* The other host gives its agent tools. Here the model is told that it has none; if it cannot know something, that is
 * no answer. */
TEST(an_agent_is_asked_without_tools_and_may_not_know) {
  static const struct {
    const char *keys, *answer;
    tp_status outcome;
    bool is_unclear;
  } rows[] = {{"event: tool.pre", "{\"ok\": true}", TP_OK, false},
              {"event: tool.pre", "{\"ok\": false, \"reason\": \"no\"}", TP_ERR_DENIED, false},
              {"event: tool.pre", "{\"ok\": null}", TP_ERR_DENIED, true},
              {"event: tool.pre\nfailure: best_effort", "{\"ok\": null}", TP_OK, true},
              {"protocol: claude-code\nevent: PreToolUse", "{\"ok\": null}", TP_OK, true},
              {"protocol: claude-code\nevent: PreToolUse\nfailure: required", "{\"ok\": null}", TP_ERR_DENIED, true},
              {"protocol: claude-code\nevent: PreToolUse", "I cannot run the tests.", TP_OK, true}};
  for (size_t i = 0; i < 2 * COUNT(rows); i++) {
    bool is_agent = i % 2 == 0;
    const reply replies[] = {{.text = rows[i / 2].answer}};
    recorder *r = recorder_new(replies, 1);
    char text[512];
    snprintf(text, sizeof text, "id: guard\n%s\nhandler: {kind: %s, prompt: 'Do the tests pass?'}\n", rows[i / 2].keys,
             is_agent ? "agent" : "prompt");
    write_named("a.yaml", text);
    tp_runtime *runtime = open_asking(recorder_model(r, false));
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = run_gate(turn);
    assert_int_equal(result.outcome, rows[i / 2].outcome);
    assert_int_equal(tp_phase_result_run(&result, 0)->reason,
                     rows[i / 2].is_unclear ? TP_REASON_MALFORMED : TP_REASON_NONE);
    assert_int_equal(strstr(r->requests[0], "You have no tools") != NULL, is_agent);
    tp_phase_result_release(turn, &result);
    tp_turn_end(turn);
    close_runtime(runtime);
    recorder_free(r);
  }
}

TEST(the_event_is_that_of_the_protocol) {
  static const reply yes[] = {{.text = "{\"ok\": true}"}};
  recorder *r = recorder_new(yes, 1);
  ask_with(
      "id: guard\nprotocol: claude-code\nevent: PreToolUse\nmatch: {matcher: Bash}\ntools: {shell: Bash}\n"
      "handler: {kind: prompt, prompt: 'Safe? $ARGUMENTS'}\n",
      r);
  assert_non_null(strstr(r->requests[0], "\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\""));
  recorder_free(r);
}

/* ---- no answer ---- */

TEST(a_request_without_an_answer_is_a_failure_by_its_name) {
  static const reply replies[] = {
      {.fails = TP_ERR_MODEL_UNAVAILABLE}, {.fails = TP_ERR_MODEL, .retryable = true}, {.never = true}};
  static const struct {
    tp_reason why;
    const char *words;
  } rows[] = {{TP_REASON_ERROR, "the model gave no answer: as set"},
              {TP_REASON_ERROR, "the model gave no answer: as set"},
              {TP_REASON_TIMEOUT, ""}};
  for (size_t i = 0; i < 2 * COUNT(rows); i++) {
    bool is_required = i >= COUNT(rows);
    recorder *r = recorder_new(&replies[i % COUNT(rows)], 1);
    write_guard(is_required ? "event: tool.pre" : "event: tool.pre\nfailure: best_effort", ", timeout_ms: 100");
    tp_runtime *runtime = open_asking(recorder_model(r, false));
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = run_gate(turn);
    assert_int_equal(result.outcome, is_required ? TP_ERR_DENIED : TP_OK);
    assert_int_equal(tp_phase_result_run(&result, 0)->reason, rows[i % COUNT(rows)].why);
    if (is_required) assert_non_null(strstr(result.reason.data, rows[i % COUNT(rows)].words));
    tp_phase_result_release(turn, &result);
    tp_turn_end(turn);
    close_runtime(runtime);
    recorder_free(r);
  }
}

TEST(a_guard_without_a_model_denies) {
  write_guard("event: tool.pre", "");
  tp_runtime *runtime = open_asking(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(tp_phase_result_run(&result, 0)->reason, TP_REASON_CANNOT_START);
  assert_non_null(strstr(result.reason.data, "no model that could be asked"));
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- in a turn ---- */

/* The requests: the prompt, its question, the answer, and the question about the end of the turn. There are no others,
 * although a hook asks about every prompt and every end. */
TEST(the_model_of_the_turn_is_asked_and_its_no_goes_on_with_the_reason) {
  write_named("a.yaml",
              "id: prompts\nprotocol: claude-code\nevent: UserPromptSubmit\n"
              "handler: {kind: prompt, prompt: 'Is it polite? $ARGUMENTS'}\n");
  write_named("b.yaml",
              "id: ends\nprotocol: claude-code\nevent: Stop\n"
              "handler: {kind: prompt, prompt: 'Is all done? $ARGUMENTS', timeout_ms: 30000}\n");
  static const reply replies[] = {{.text = "{\"ok\": true}"},
                                  {.text = "Half of it."},
                                  {.text = "{\"ok\": false, \"reason\": \"the tests are missing\"}"},
                                  {.text = "All of it."},
                                  {.text = "{\"ok\": true}"}};
  recorder *r = recorder_new(replies, COUNT(replies));
  tp_runtime *runtime = open_with_hooks(NULL);
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(r, false)};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Do it")};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_text(result->text, "All of it.");
  assert_int_equal(r->asked, 5);
  assert_non_null(strstr(r->requests[0], "Is it polite? {"));
  assert_non_null(strstr(r->requests[0], "\"prompt\":\"Do it\""));
  assert_non_null(strstr(r->requests[2], "\"last_assistant_message\":\"Half of it.\""));
  assert_non_null(strstr(r->requests[3], "the tests are missing"));
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(r);
}

/* ---- what a file may say ---- */

TEST(wrong_files_are_refused) {
  const struct {
    const char *file, *words;
  } rows[] = {
      {"event: tool.pre\nhandler: {kind: prompt}\n", "needs prompt"},
      {"event: tool.pre\nhandler: {kind: prompt, prompt: '  '}\n", "needs prompt"},
      {"event: tool.pre\nhandler: {kind: prompt, prompt: [a]}\n", "prompt must be text"},
      {"event: tool.pre\nhandler: {kind: prompt, prompt: a, model: ''}\n", "model is empty"},
      {"event: tool.pre\nhandler: {kind: prompt, prompt: a, command: b}\n", "has no command"},
      {"event: tool.pre\nhandler: {kind: script, command: a, prompt: b}\n", "has no prompt"},
      {"event: tool.pre\nenv: {A: b}\nhandler: {kind: prompt, prompt: a}\n", "starts no program"},
      {"event: tool.pre\nverdict: json\nhandler: {kind: prompt, prompt: a}\n", "verdict: json"},
      {"event: PreToolUse\nprotocol: claude-code\nrewrite: true\nhandler: {kind: prompt, prompt: a}\n",
       "rewrites nothing"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks_options options = hooks_options();
  options.grants = TP_GRANT_REWRITE;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char text[512];
    tp_hooks *hooks;
    tp_fault fault = {0};
    snprintf(text, sizeof text, "id: guard\n%s", rows[i].file);
    write_named("a.yaml", text);
    assert_int_equal(read_hooks(runtime, &options, &hooks, &fault), TP_ERR_MALFORMED);
    if (!strstr(fault.message, rows[i].words)) fail_msg("%s: %s", rows[i].file, fault.message);
  }
  const tp_model neither = {.struct_size = sizeof neither};
  tp_hooks *hooks;
  options.model = &neither;
  assert_int_equal(read_hooks(runtime, &options, &hooks, NULL), TP_ERR_USAGE);
  close_runtime(runtime);
}

static bool keep_info(void *ctx, const tp_hook_info *info) {
  *(tp_hook_info *)ctx = *info;
  return false;
}

TEST(the_listing_shows_the_prompt_and_the_limit_of_its_host) {
  const struct {
    const char *more;
    uint32_t limit_ms;
  } rows[] = {{"protocol: claude-code\nevent: PreToolUse\nhandler: {kind: prompt, prompt: a}\n", 30000},
              {"protocol: claude-code\nevent: SessionEnd\nhandler: {kind: prompt, prompt: a}\n", 1500},
              {"protocol: claude-code\nevent: Stop\nhandler: {kind: prompt, prompt: a, timeout_ms: 90000}\n", 90000},
              {"protocol: claude-code\nevent: Stop\nhandler: {kind: agent, prompt: a}\n", 60000},
              {"protocol: claude-code\nevent: UserPromptSubmit\nhandler: {kind: agent, prompt: a}\n", 30000},
              {"event: tool.pre\nhandler: {kind: prompt, prompt: a}\n", 0}};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(rows); i++) {
    char text[512];
    tp_hooks *hooks;
    tp_hook_info info = {0};
    snprintf(text, sizeof text, "id: guard\n%s", rows[i].more);
    write_named("a.yaml", text);
    assert_int_equal(read_hooks(runtime, NULL, &hooks, NULL), TP_OK);
    tp_hooks_each(hooks, keep_info, &info);
    assert_string_equal(info.kind, strstr(rows[i].more, "agent") ? "agent" : "prompt");
    assert_string_equal(info.target, "a");
    assert_int_equal(info.limit_ms, rows[i].limit_ms);
    tp_hooks_free(hooks);
  }
  close_runtime(runtime);
}
