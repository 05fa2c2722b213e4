/* SPDX-License-Identifier: Apache-2.0
 *
 * What observers see of a turn: model.post for each response; turn.post_turn for the whole turn, after it is in the
 * history and before the caller has it. Also declared hooks with a condition on the duration of calls. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "tests/support/model.h"

/* ---- what is noted ---- */

typedef struct facts {
  tp_shared_history *history;
  char stop_reasons[64], outcome[32], user[64], assistant[64];
  int64_t input_tokens, output_tokens, cost_micros, calls, tool_events;
  char summary[64]; /* iterations, calls, tokens, cost */
  bool run_is_turn;
  int responses, messages_before_end;
  bool had_returned; /* when post_turn came */
  _Atomic bool returned;
} facts;

static void append(char *to, size_t size, tp_text text) {
  size_t used = strlen(to);
  snprintf(to + used, size - used, "%.*s ", (int)text.size, text.size ? text.data : "");
}

static tp_answer note_response(void *ctx, tp_call *call) {
  facts *f = ctx;
  append(f->stop_reasons, sizeof f->stop_reasons, tp_call_text(call, TP_FIELD_STOP_REASON));
  f->input_tokens += tp_call_int(call, TP_FIELD_INPUT_TOKENS);
  f->output_tokens += tp_call_int(call, TP_FIELD_OUTPUT_TOKENS);
  f->cost_micros += tp_call_int(call, TP_FIELD_COST_MICROS);
  f->calls += tp_call_int(call, TP_FIELD_CALL_COUNT);
  f->responses++;
  return TP_ANSWER_DONE;
}

static bool count_messages(void *ctx, const tp_history_session *session) {
  ((facts *)ctx)->messages_before_end += (int)session->message_count;
  return true;
}

static tp_answer note_turn(void *ctx, tp_call *call) {
  facts *f = ctx;
  tp_text text = tp_call_text(call, TP_FIELD_OUTCOME);
  snprintf(f->outcome, sizeof f->outcome, "%.*s", (int)text.size, text.data);
  text = tp_call_text(call, TP_FIELD_USER_PREVIEW);
  snprintf(f->user, sizeof f->user, "%.*s", (int)text.size, text.data);
  text = tp_call_text(call, TP_FIELD_ASSISTANT_PREVIEW);
  snprintf(f->assistant, sizeof f->assistant, "%.*s", (int)text.size, text.data);
  f->tool_events = (int64_t)tp_value_count(tp_call_text(call, TP_FIELD_TOOL_EVENTS));
  snprintf(f->summary, sizeof f->summary, "%d %d %d %d %d", (int)tp_call_int(call, TP_FIELD_ITERATIONS),
           (int)tp_call_int(call, TP_FIELD_CALL_COUNT), (int)tp_call_int(call, TP_FIELD_INPUT_TOKENS),
           (int)tp_call_int(call, TP_FIELD_OUTPUT_TOKENS), (int)tp_call_int(call, TP_FIELD_COST_MICROS));
  text = tp_call_id(call, TP_ID_RUN);
  f->run_is_turn = text.size > 0 && tp_text_equal(text, tp_call_id(call, TP_ID_TURN));
  f->had_returned = f->returned;
  (void)!tp_shared_history_list(f->history, NULL, count_messages, f, NULL);
  return TP_ANSWER_DONE;
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("sunny"));
}

/* ---- a turn of two responses, the first of which calls two tools ---- */

static void play_turn(facts *f) {
  static const tp_tool weather = {.struct_size = sizeof weather, .name = "weather", .run = run_tool};
  static const tp_tool *const tools[] = {&weather};
  const tp_contribution bundle = {.struct_size = sizeof bundle,
                                  .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                  .key = TEXT("b"),
                                  .tools = tools,
                                  .tool_count = 1};
  act contributes = {.emits = &bundle, .emit_count = 1};
  const reply replies[] = {{.calls = {{.id = TEXT("1"), .name = TEXT("weather"), .arguments = TEXT("\x80")},
                                      {.id = TEXT("2"), .name = TEXT("weather"), .arguments = TEXT("\x80")}},
                            .call_count = 2,
                            .input_tokens = 10,
                            .output_tokens = 3,
                            .cost_micros = 100},
                           {.text = "It is sunny.", .input_tokens = 20, .output_tokens = 4, .cost_micros = 200}};
  tp_history *history;
  assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
  assert_int_equal(tp_history_share(NULL, history, &f->history, NULL), TP_OK);
  recorder *model = recorder_new(replies, 2);
  tp_runtime *runtime = open_runtime(NULL);
  const hook hooks[] = {{.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes},
                        {.id = "response", .phase = TP_PHASE_MODEL_POST, .run = note_response, .ctx = f},
                        {.id = "turn", .phase = TP_PHASE_TURN_POST_TURN, .run = note_turn, .ctx = f}};
  add_hooks(runtime, hooks, 3);
  const tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = recorder_model(model, true), .shared_history = f->history};
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("How is the weather?")};
  tp_session *session;
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  f->returned = true;
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  tp_shared_history_unref(f->history);
  recorder_free(model);
}

TEST(model_post_reports_of_each_response_why_it_ended_and_what_it_cost) {
  facts f = {.responses = 0};
  play_turn(&f);
  assert_int_equal(f.responses, 2);
  assert_string_equal(f.stop_reasons, "tool_use end_turn ");
  assert_int_equal(f.input_tokens, 30);
  assert_int_equal(f.output_tokens, 7);
  assert_int_equal(f.cost_micros, 300);
  assert_int_equal(f.calls, 2);
}

/* What was said last, when model.post runs. */
typedef struct last_said {
  int runs;
  tp_role role;
  char text[64];
} last_said;

static bool keep_last(void *ctx, const tp_message *message) {
  last_said *last = ctx;
  last->role = message->role;
  snprintf(last->text, sizeof last->text, "%.*s", (int)message->text.size,
           message->text.size ? message->text.data : "");
  return true;
}

static tp_answer note_last(void *ctx, tp_call *call) {
  ((last_said *)ctx)->runs++;
  (void)tp_call_messages(call, keep_last, ctx);
  return tp_call_deny(call, "not this one");
}

TEST(model_post_comes_when_the_message_is_recorded_for_no_failed_request_and_stops_nothing) {
  static const reply replies[] = {{.fails = TP_ERR_MODEL, .retryable = true}, {.text = "It is sunny."}};
  last_said last = {.runs = 0};
  const hook hooks[] = {{.id = "meter", .phase = TP_PHASE_MODEL_POST, .run = note_last, .ctx = &last}};
  recorder *model = recorder_new(replies, 2);
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, hooks, 1);
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("How is the weather?")};
  tp_session *session;
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(model->asked, 2);
  assert_int_equal(last.runs, 1);
  assert_int_equal(last.role, TP_ROLE_ASSISTANT);
  assert_string_equal(last.text, "It is sunny.");
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
}

TEST(post_turn_gets_a_summary_behind_the_commit_and_before_the_return) {
  facts f = {.responses = 0};
  play_turn(&f);
  assert_string_equal(f.outcome, "completed");
  assert_string_equal(f.user, "How is the weather?");
  assert_string_equal(f.assistant, "It is sunny.");
  assert_int_equal(f.tool_events, 2);
  assert_string_equal(f.summary, "2 2 30 7 300");
  assert_int_equal(f.messages_before_end, 5); /* user, calls, two results, text: all are kept */
  assert_false(f.had_returned);
}

TEST(run_of_a_turn_is_the_turn_where_the_host_names_none) {
  facts f = {.responses = 0};
  play_turn(&f);
  assert_true(f.run_is_turn);
}

/* ---- a declared hook for calls of some length ---- */

static void post_a_call(tp_turn *turn, int64_t duration_ms, tp_state want, tp_reason why) {
  const tp_field fields[] = {{.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("shell")},
                             {.id = TP_FIELD_DURATION_MS, .kind = TP_FIELD_KIND_INT, .number = duration_ms}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_POST, &input, &result, NULL), TP_OK);
  assert_run(&result, "slow", want, why);
  tp_phase_result_release(turn, &result);
}

TEST_WITH(hook_for_slow_calls_does_not_see_short_ones, make_directory, remove_directory) {
  char text[4096];
  write_named("slow.yaml",
              "id: slow\nevent: tool.post\nblocking: true\nmatch: {min_duration_ms: 100}\n"
              "handler: {kind: log, path: slow.jsonl}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn_request request = {.struct_size = sizeof request};
  tp_turn *turn;
  assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, NULL), TP_OK);
  post_a_call(turn, 99, TP_STATE_SKIPPED, TP_REASON_MATCH);
  post_a_call(turn, 100, TP_STATE_SUCCEEDED, TP_REASON_NONE);
  tp_turn_end(turn);
  close_runtime(runtime);
  read_back("slow.jsonl", text, sizeof text);
  assert_non_null(strchr(text, '\n'));
  assert_null(strchr(strchr(text, '\n') + 1, '\n')); /* one line */
}
