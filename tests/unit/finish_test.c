/* SPDX-License-Identifier: Apache-2.0
 *
 * How an answer ended: from the response of a model, or the word of a provider, to the event, the result and the record
 * of its turn. */
#include "tests/support/test.h"
#include "tests/support/world.h"

typedef struct seen {
  tp_finish event_finish, record_finish;
  char event_word[64], record_word[64];
  tp_status status;
  int model_ends;
} seen;

static void copy_text(char to[64], tp_text text) {
  snprintf(to, 64, "%.*s", (int)text.size, text.size ? text.data : "");
}

static void note_event(void *ctx, const tp_event *event) {
  seen *s = ctx;
  if (event->kind != TP_EVENT_MODEL_END) return;
  s->event_finish = event->finish;
  copy_text(s->event_word, event->finish_word);
  s->status = event->status;
  s->model_ends++;
}

static bool note_record(void *ctx, const tp_turn_record *record) {
  seen *s = ctx;
  s->record_finish = (tp_finish)record->finish;
  copy_text(s->record_word, record->finish_word);
  return false;
}

/* Plays one turn of a script. The result is to be freed. */
static const tp_turn_result *play_script(const char *script, seen *s) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_model *model;
  tp_session *session;
  tp_fault fault = {0};
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Hello")};
  const tp_turn_query query = {.struct_size = sizeof query};
  *s = (seen){.status = TP_OK};
  if (tp_script_model_decode(script, &model, &fault) != TP_OK) fail_msg("%s: %s", script, fault.message);
  const tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = model, .on_event = note_event, .event_ctx = s};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(tp_runtime_turns(runtime, &query, note_record, s, NULL), TP_OK);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  return result;
}

TEST(how_an_answer_ended_is_in_event_result_and_record) {
  static const struct {
    const char *script;
    tp_finish finish;
    const char *word;
  } rows[] = {
      {"{'responses':[{'text':'a'}]}", TP_FINISH_STOP, "end_turn"},
      {"{'responses':[{'text':'a','stop_reason':'stop'}]}", TP_FINISH_STOP, "stop"},
      {"{'responses':[{'text':'a','stop_reason':'max_tokens'}]}", TP_FINISH_LENGTH, "max_tokens"},
      {"{'responses':[{'text':'a','stop_reason':'content_filter'}]}", TP_FINISH_FILTER, "content_filter"},
      {"{'responses':[{'text':'a','stop_reason':'SAFETY'}]}", TP_FINISH_FILTER, "SAFETY"},
      {"{'responses':[{'text':'','stop_reason':'refusal'}]}", TP_FINISH_REFUSAL, "refusal"},
      {"{'repeat':true,'responses':[{'text':'a','stop_reason':'pause_turn'}]}", TP_FINISH_PAUSE, "pause_turn"},
      {"{'responses':[{'text':'a','stop_reason':'a word of its own'}]}", TP_FINISH_STOP, "a word of its own"},
      {"{'responses':[{'text':'a','finish':'length'}]}", TP_FINISH_LENGTH, ""},
      {"{'responses':[{'text':'a','finish':'length','stop_reason':'out of breath'}]}", TP_FINISH_LENGTH,
       "out of breath"},
      {"{'responses':[{'finish':'refusal'}]}", TP_FINISH_REFUSAL, ""},
      {"{'responses':[{'finish':'filter'}]}", TP_FINISH_FILTER, ""},
      {"{'repeat':true,'responses':[{'text':'a','finish':'pause'}]}", TP_FINISH_PAUSE, ""},
      {"{'responses':[{'tool_calls':[{'name':'x'}]},{'text':'a','finish':'stop'}]}", TP_FINISH_STOP, ""},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char script[256];
    seen s;
    snprintf(script, sizeof script, "%s", rows[i].script);
    for (char *at = script; *at; at++)
      if (*at == '\'') *at = '"';
    const tp_turn_result *result = play_script(script, &s);
    if (result->outcome != TP_TURN_COMPLETED || result->finish != rows[i].finish || s.event_finish != rows[i].finish ||
        s.record_finish != rows[i].finish)
      fail_msg("%s: %s %s %s", script, tp_finish_name(result->finish), tp_finish_name(s.event_finish),
               tp_finish_name(s.record_finish));
    assert_true(tp_text_is(result->finish_word, rows[i].word));
    assert_string_equal(s.event_word, rows[i].word);
    assert_string_equal(s.record_word, rows[i].word);
    tp_turn_result_free(result);
  }
}

/* The provider is asked to go on, up to a limit; calls come first. */
TEST(a_pause_is_no_end_of_the_turn) {
  static const struct {
    const char *script;
    tp_finish finish;
    const char *text;
    uint32_t requests;
  } rows[] = {
      {"{'responses':[{'text':'a','finish':'pause'},{'text':'b'}]}", TP_FINISH_STOP, "b", 2},
      {"{'responses':[{'finish':'pause'},{'finish':'pause'},{'text':'b','finish':'length'}]}", TP_FINISH_LENGTH, "b",
       3},
      {"{'responses':[{'finish':'pause'},{'tool_calls':[{'name':'x'}]},{'text':'c'}]}", TP_FINISH_STOP, "c", 3},
      {"{'repeat':true,'responses':[{'text':'a','finish':'pause'}]}", TP_FINISH_PAUSE, "a", 9},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char script[256];
    seen s;
    snprintf(script, sizeof script, "%s", rows[i].script);
    for (char *at = script; *at; at++)
      if (*at == '\'') *at = '"';
    const tp_turn_result *result = play_script(script, &s);
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    assert_int_equal(result->finish, rows[i].finish);
    assert_int_equal(result->iterations, rows[i].requests);
    assert_int_equal(s.model_ends, rows[i].requests);
    assert_true(tp_text_is(result->text, rows[i].text));
    tp_turn_result_free(result);
  }
}

TEST(a_response_with_calls_ends_with_them_whatever_its_word) {
  static const char *const scripts[] = {
      "{\"responses\":[{\"tool_calls\":[{\"name\":\"x\"}]}]}",
      "{\"responses\":[{\"tool_calls\":[{\"name\":\"x\"}],\"stop_reason\":\"stop\"}]}",
      "{\"responses\":[{\"tool_calls\":[{\"name\":\"x\"}],\"finish\":\"stop\"}]}",
      "{\"responses\":[{\"tool_calls\":[{\"name\":\"x\"}],\"stop_reason\":\"function_call\"}]}",
  };
  for (size_t i = 0; i < COUNT(scripts); i++) {
    seen s; /* the script is over after the call: the turn fails */
    const tp_turn_result *result = play_script(scripts[i], &s);
    assert_int_equal(result->outcome, TP_TURN_FAILED);
    assert_int_equal(result->finish, TP_FINISH_ERROR);
    assert_int_equal(s.event_finish, TP_FINISH_ERROR);
    tp_turn_result_free(result);
  }
}

TEST(an_answer_that_failed_is_a_failed_request) {
  seen s;
  const tp_turn_result *result =
      play_script("{\"responses\":[{\"text\":\"a\",\"stop_reason\":\"error\"}],\"repeat\":true}", &s);
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_MODEL);
  assert_true(tp_text_is(result->reason, "the model failed: the answer ended with an error (error); try again"));
  assert_int_equal(s.model_ends, 3); /* it was repeated */
  assert_int_equal(s.status, TP_ERR_MODEL);
  assert_int_equal(result->finish, TP_FINISH_ERROR);
  assert_string_equal(s.event_word, "error");
  assert_string_equal(s.record_word, "error");
  tp_turn_result_free(result);
  result = play_script("{\"responses\":[{\"finish\":\"error\"},{\"text\":\"recovered\"}]}", &s);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_true(tp_text_is(result->text, "recovered"));
  assert_int_equal(result->finish, TP_FINISH_STOP);
  tp_turn_result_free(result);
}

TEST(a_turn_without_an_answer_has_no_finish) {
  seen s;
  const tp_turn_result *result = play_script("{\"responses\":[]}", &s);
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(result->finish, TP_FINISH_ERROR);
  assert_int_equal(result->finish_word.size, 0);
  tp_turn_result_free(result);
}

TEST(words_of_providers_have_one_meaning_each) {
  static const struct {
    const char *word;
    tp_finish finish;
  } rows[] = {
      {"stop", TP_FINISH_STOP},
      {"END_TURN", TP_FINISH_STOP},
      {"stop_sequence", TP_FINISH_STOP},
      {"eos_token", TP_FINISH_STOP},
      {"length", TP_FINISH_LENGTH},
      {"MAX_TOKENS", TP_FINISH_LENGTH},
      {"max_output_tokens", TP_FINISH_LENGTH},
      {"model_context_window_exceeded", TP_FINISH_LENGTH},
      {"content_filter", TP_FINISH_FILTER},
      {"RECITATION", TP_FINISH_FILTER},
      {"guardrail_intervened", TP_FINISH_FILTER},
      {"refusal", TP_FINISH_REFUSAL},
      {"tool_calls", TP_FINISH_TOOL_CALLS},
      {"tool_use", TP_FINISH_TOOL_CALLS},
      {"function_call", TP_FINISH_TOOL_CALLS},
      {"error", TP_FINISH_ERROR},
      {"insufficient_system_resource", TP_FINISH_ERROR},
      {"pause_turn", TP_FINISH_PAUSE},
      {"", TP_FINISH_UNKNOWN},
      {"stopped by the moon", TP_FINISH_UNKNOWN},
      {"sto", TP_FINISH_UNKNOWN},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    if (tp_finish_of(tp_text_of(rows[i].word)) != rows[i].finish) fail_msg("%s", rows[i].word);
  assert_string_equal(tp_finish_name(TP_FINISH_TOOL_CALLS), "tool_calls");
  assert_string_equal(tp_finish_name(TP_FINISH_UNKNOWN), "unknown");
  assert_string_equal(tp_finish_name((tp_finish)99), "unknown");
}

TEST(a_script_names_the_finish_that_it_does_not_know) {
  tp_model *model = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_script_model_decode("{\"responses\":[{\"text\":\"a\",\"finish\":\"later\"}]}", &model, &fault),
                   TP_ERR_MALFORMED);
  assert_string_equal(
      fault.message,
      "responses[0]: finish must be stop, length, filter, refusal, tool_calls, error or pause, not later");
  assert_int_equal(tp_script_model_decode("{\"responses\":[{\"finish\":7}]}", &model, &fault), TP_ERR_MALFORMED);
  const tp_model_response odd = {.struct_size = sizeof odd, .finish = (tp_finish)8}, *const list[] = {&odd};
  assert_int_equal(tp_script_model_new(list, 1, false, &model, &fault), TP_ERR_USAGE);
  assert_string_equal(fault.message, "8 is no tp_model_response.finish");
}
