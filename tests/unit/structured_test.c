/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers with a JSON Schema: which answers fit, which are asked again and how often, how the turn ends, and what the
 * model reads. */
#include "tests/support/test.h"
#include "tests/support/world.h"

#define SCHEMA "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]}"
#define DEMAND \
  "Your final answer is one JSON value that fits this JSON Schema, with nothing before or after it:\n" SCHEMA
#define AGAIN(why) \
  "U<The answer does not fit its JSON Schema: " why ". Answer again with one JSON value that fits, and nothing else.>"

typedef struct world {
  WORLD;
} world;

static void open_world(world *w, const reply *replies, size_t count) {
  world_open(&w->stage, &(world_options){.replies = replies, .reply_count = count});
}

static const tp_turn_result *run(world *w, tp_turn_request request) {
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  request.struct_size = sizeof request;
  request.text = tp_text_of("go");
  if (!request.answer_schema) request.answer_schema = SCHEMA;
  if (tp_turn_run(w->session, &request, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  return result;
}

TEST(answer_that_fits_is_a_value) {
  static const char *const rows[][2] = {
      {"{\"n\": 7}", "{\"n\": 7}"},
      {" \n{\"n\": 7}\n\n", "{\"n\": 7}"},
      {"```json\n{\"n\": 7}\n```", "{\"n\": 7}"},
      {"```\n{\"n\": 7}\n```\n", "{\"n\": 7}"},
      {"\n```JSON\r\n  {\"n\": 7}  \r\n```", "{\"n\": 7}"},
      {"{\"n\": 7, \"more\": [1, null]}", "{\"n\": 7, \"more\": [1, null]}"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    const reply replies[] = {{.text = rows[i][0]}};
    world w;
    open_world(&w, replies, 1);
    const tp_turn_result *result = run(&w, (tp_turn_request){0});
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    assert_int_equal(result->iterations, 1);
    assert_text(result->text, rows[i][1]);
    assert_int_equal(tp_value_int(tp_value_get(result->value, "n"), 0), 7);
    tp_turn_result_free(result);
    assert_string_equal(w.model->requests[0], "S<" DEMAND ">U<go>");
    world_close(&w.stage);
  }
}

TEST(answer_that_does_not_fit_is_asked_again_with_its_reason) {
  static const char *const rows[] = {
      "",     "seven",         "{\"n\": \"7\"}",        "{}",           "[7]",      "7",
      "null", "{\"n\": 7",     "{\"n\": 7} and more",   "{\"n\": 7.5}", "{'n': 7}", "```\n```",
      "```",  "{\"n\": null}", "{\"n\": 7}\n{\"n\": 8}"};
  for (size_t i = 0; i < COUNT(rows); i++) {
    const reply replies[] = {{.text = rows[i]}, {.text = "{\"n\": 7}"}};
    world w;
    open_world(&w, replies, COUNT(replies));
    const tp_turn_result *result = run(&w, (tp_turn_request){0});
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    assert_int_equal(result->iterations, 2);
    assert_int_equal(tp_value_int(tp_value_get(result->value, "n"), 0), 7);
    tp_turn_result_free(result);
    assert_non_null(strstr(w.model->requests[1], "U<The answer does not fit its JSON Schema: answer"));
    world_close(&w.stage);
  }
}

TEST(turn_ends_when_no_answer_fits) {
  static const struct {
    uint32_t attempts, requests_max, asked;
    tp_status code;
  } rows[] = {{0, 0, 3, TP_ERR_BAD_ANSWER},
              {1, 0, 1, TP_ERR_BAD_ANSWER},
              {5, 0, 5, TP_ERR_BAD_ANSWER},
              {5, 2, 2, TP_ERR_MAX_REQUESTS}};
  static const reply replies[] = {{.text = "{\"n\": \"7\"}"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    world w;
    open_world(&w, replies, 1);
    const tp_turn_result *result =
        run(&w, (tp_turn_request){.answer_attempts = rows[i].attempts, .iterations_max = rows[i].requests_max});
    assert_int_equal(result->outcome, TP_TURN_FAILED);
    assert_int_equal(result->code, rows[i].code);
    assert_int_equal(result->value.size, 0);
    assert_int_equal(w.model->asked, rows[i].asked);
    if (i == 0)
      assert_text(result->reason,
                  "the answer does not fit the schema of the turn: answer.n: expected integer, got string (3 of 3 "
                  "answers)");
    if (rows[i].code == TP_ERR_BAD_ANSWER)
      assert_string_equal(tp_turn_ending_name(result->outcome, result->code), "bad_answer");
    tp_turn_result_free(result);
    if (i == 0)
      assert_string_equal(w.model->requests[1],
                          "S<" DEMAND ">U<go>A<{\"n\": \"7\"}>" AGAIN("answer.n: expected integer, got string"));
    world_close(&w.stage);
  }
}

TEST(answers_before_tools_are_not_checked) {
  static const reply replies[] = {
      {.text = "let me see", .calls = {{.name = TEXT("none"), .arguments = TEXT("\x80")}}, .call_count = 1},
      {.text = "{\"n\": 7}"}};
  world w;
  open_world(&w, replies, COUNT(replies));
  const tp_turn_result *result = run(&w, (tp_turn_request){.answer_attempts = 1});
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_text(result->text, "{\"n\": 7}");
  tp_turn_result_free(result);
  world_close(&w.stage);
}

/* ---- what no further request would change ---- */

typedef struct ending {
  const char *text;
  tp_finish finish;
} ending;

static void answer_as_set(void *ctx, const tp_model_request *request, tp_token token) {
  const ending *e = ctx;
  (void)request;
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of(e->text), .finish = e->finish};
  (void)!tp_model_complete(token, &response, NULL);
}

TEST(answer_that_is_cut_filtered_or_refused_is_named_and_not_asked_again) {
  static ending rows[] = {
      {"{\"n\": 7", TP_FINISH_LENGTH}, {"{\"n\": 7}", TP_FINISH_FILTER}, {"No.", TP_FINISH_REFUSAL}};
  static const char *const reasons[] = {"the answer is cut: it reached the limit of tokens",
                                        "the provider filtered the answer", "the model refused to answer"};
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_model model = {.struct_size = sizeof model, .name = "m", .ctx = &rows[i], .start = answer_as_set};
    world w;
    world_open(&w.stage, &(world_options){.session.model = &model});
    const tp_turn_result *result = run(&w, (tp_turn_request){0});
    assert_int_equal(result->outcome, TP_TURN_FAILED);
    assert_int_equal(result->code, TP_ERR_BAD_ANSWER);
    assert_int_equal(result->finish, rows[i].finish);
    assert_int_equal(result->iterations, 1);
    assert_text(result->reason, reasons[i]);
    tp_turn_result_free(result);
    world_close(&w.stage);
  }
}

TEST(filter_of_answers_decides_what_is_checked) {
  static const reply replies[] = {{.text = "{\"n\": \"secret\"}"}};
  act filter = {.replaces = TP_FIELD_RESPONSE_TEXT, .text = "{\"n\": 1}"};
  const hook hooks[] = {{.id = "filter", .phase = TP_PHASE_MODEL_RESPONSE, .ctx = &filter}};
  world w;
  world_open(&w.stage, &(world_options){.hooks = hooks, .hook_count = 1, .replies = replies, .reply_count = 1});
  const tp_turn_result *result = run(&w, (tp_turn_request){0});
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_text(result->text, "{\"n\": 1}");
  assert_int_equal(tp_value_int(tp_value_get(result->value, "n"), 0), 1);
  tp_turn_result_free(result);
  world_close(&w.stage);
}

TEST(schema_that_is_wrong_is_refused_with_its_place) {
  static const struct {
    tp_turn_request request;
    tp_status status;
  } rows[] = {{{.answer_schema = "{"}, TP_ERR_MALFORMED},
              {{.answer_schema = ""}, TP_ERR_MALFORMED},
              {{.answer_schema = "{\"type\": 7}"}, TP_ERR_BAD_SCHEMA},
              {{.answer_schema = "{\"properties\": {\"a\": {\"$ref\": \"#/none\"}}}"}, TP_ERR_BAD_SCHEMA},
              {{.answer_attempts = 2}, TP_ERR_USAGE},
              {{.answer_schema = "{}", .reserved2_ = 1}, TP_ERR_USAGE}};
  static const reply replies[] = {{.text = "7"}};
  world w;
  open_world(&w, replies, 1);
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_turn_request request = rows[i].request;
    const tp_turn_result *result;
    tp_fault fault = {0};
    tp_turn *turn;
    request.struct_size = sizeof request;
    assert_int_equal(tp_turn_run(w.session, &request, &result, &fault), rows[i].status);
    assert_non_null(strstr(fault.message, "tp_turn_request."));
    if (request.answer_schema) assert_int_equal(tp_turn_begin(w.session, &request, &turn, NULL), TP_ERR_USAGE);
  }
  const tp_turn_result *result = run(&w, (tp_turn_request){.answer_schema = "{\"type\": \"integer\"}"});
  assert_int_equal(tp_value_int(result->value, 0), 7); /* the root need not be an object */
  tp_turn_result_free(result);
  world_close(&w.stage);
}
