/* SPDX-License-Identifier: Apache-2.0
 *
 * The demonstration shows everything that its description promises, judged by its events, not by its prose. The
 * environment variable TURNPHASE_DEMO has the path of its domain. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

static char model[4096], conversation[4096];
static command played;
static events seen;

static int play(void **state) {
  (void)state;
  const char *source = getenv("TURNPHASE_SOURCE"), *domain = getenv("TURNPHASE_DEMO");
  assert_non_null(source);
  assert_non_null(domain);
  snprintf(model, sizeof model, "%s/examples/demo/model.yaml", source);
  snprintf(conversation, sizeof conversation, "%s/examples/demo/conversation.yaml", source);
  played = (command){.arguments = {"run", "--json", "--load", domain, "--script", model, conversation}};
  assert_status(&played, 0);
  seen = events_read(&played.out);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  events_free(&seen);
  command_free(&played);
  return 0;
}

FOR_ALL_TESTS(play, teardown);

static tp_text session_of(const char *turn) {
  return tp_value_text(event_value(events_find(&seen, "turn_begin", turn, NULL, NULL), "ids.session"));
}

TEST(every_turn_ends_as_it_should) {
  assert_int_equal(events_count(&seen, "turn_begin", NULL), 9);
  assert_int_equal(events_count(&seen, "result", NULL), 9);
  for (size_t i = 0; i < seen.count; i++) {
    tp_text event = event_at(&seen, i);
    if (!event_is(event, "event", "result")) continue;
    assert_true(event_is(event, "outcome", event_is(event, "ids.turn", "dinner-2") ? "denied" : "completed"));
  }
}

TEST(facts_said_in_one_session_are_recalled_in_a_later_one) {
  assert_true(tp_text_is(session_of("ideas-2"), "first-ideas"));
  assert_true(tp_text_is(session_of("dinner-1"), "birthday-dinner"));
  assert_true(events_recalled(&seen, "dinner-1", "ideas-2"));
  assert_true(events_recalled(&seen, "dinner-3", "ideas-3"));
  assert_false(events_recalled(&seen, "ideas-1", "ideas-2"));
}

TEST(nothing_of_an_earlier_session_reaches_the_model_but_by_recall) {
  tp_text first = events_find(&seen, "model_end", "dinner-1", NULL, NULL);
  assert_int_equal(event_int(first, "request.message_count"), 1);
}

static int64_t call_time(const char *kind, const char *id, const char *path) {
  tp_text event = events_find(&seen, kind, "rooms-1", "tool_call.id", id);
  assert_int_equal(tp_value_kind_of(event), TP_VALUE_MAP);
  return event_int(event, path);
}

TEST(three_tools_run_at_once_and_end_in_another_order) {
  static const char *const called[] = {"call-train", "call-rooms", "call-weather"};
  int64_t last_begin = 0, first_end = INT64_MAX;
  assert_int_equal(events_count(&seen, "tool_end", "rooms-1"), 3);
  for (int i = 0; i < 3; i++) {
    int64_t begin = call_time("tool_begin", called[i], "time_ns"), end = call_time("tool_end", called[i], "ended_ns");
    assert_int_equal(call_time("tool_end", called[i], "call_index"), i);
    assert_int_equal(call_time("tool_end", called[i], "tool_result.completion_order"), 2 - i);
    if (begin > last_begin) last_begin = begin;
    if (end < first_end) first_end = end;
  }
  assert_true(last_begin < first_end); /* all three were under way together */
}

TEST(events_of_tools_come_in_the_order_in_which_they_ended) {
  int64_t order = 0;
  for (size_t i = 0; i < seen.count; i++) {
    tp_text event = event_at(&seen, i);
    if (!event_is(event, "event", "tool_end") || !event_is(event, "ids.turn", "rooms-1")) continue;
    assert_int_equal(event_int(event, "tool_result.completion_order"), order++);
  }
  assert_int_equal(order, 3);
}

/* The request after the calls, as the model had it. */
TEST(the_model_reads_the_results_in_call_order) {
  static const char *const called[] = {"call-train", "call-rooms", "call-weather"};
  tp_text results = {0};
  for (size_t i = 0; i < seen.count; i++) {
    tp_text event = event_at(&seen, i), list = event_value(event, "request.tool_results");
    if (event_is(event, "ids.turn", "rooms-1") && tp_value_count(list) > 0) results = list;
  }
  assert_int_equal(tp_value_count(results), 3);
  for (size_t i = 0; i < 3; i++) assert_true(tp_text_is(tp_value_text(tp_value_at(results, i)), called[i]));
}

TEST(a_handler_misses_its_deadline_and_the_turn_goes_on) {
  tp_text run = events_find(&seen, "run", "rooms-1", "run.subscription", "trip.events");
  assert_true(event_is(run, "run.state", "timed_out"));
  assert_true(event_is(run, "run.reason", "timeout"));
  assert_true(event_is(run, "run.execution", "deadline"));
  int64_t waited_ns = event_int(run, "run.ended_ns") - event_int(run, "run.queued_ns");
  assert_true(waited_ns >= 60 * INT64_C(1000000));
  tp_text phase = events_find(&seen, "phase_end", "rooms-1", "phase", "turn.pre_prompt_context");
  assert_true(event_is(phase, "outcome", "TP_OK"));
  assert_true(event_is(events_find(&seen, "result", "rooms-1", NULL, NULL), "outcome", "completed"));
}

TEST(a_handler_whose_match_says_no_is_skipped) {
  tp_text run = events_find(&seen, "run", "ideas-1", "run.subscription", "trip.events");
  assert_true(event_is(run, "run.state", "skipped"));
  assert_true(event_is(run, "run.reason", "match"));
}

TEST(a_guard_denies_a_call_and_the_turn_goes_on) {
  tp_text end = events_find(&seen, "tool_end", "rooms-2", "tool_call.id", "call-suite");
  assert_true(event_is(end, "tool_result.kind", "denied"));
  assert_false(tp_value_bool(event_value(end, "tool_result.started"), true));
  assert_int_equal(events_count(&seen, "tool_begin", "rooms-2"), 0);
  tp_text run = events_find(&seen, "run", "rooms-2", "run.subscription", "trip.spending_limit");
  assert_true(event_is(run, "run.verdict", "deny"));
  assert_true(event_is(events_find(&seen, "result", "rooms-2", NULL, NULL), "outcome", "completed"));
}

TEST(a_call_within_the_limit_is_made) {
  tp_text end = events_find(&seen, "tool_end", "rooms-3", "tool_call.id", "call-pension");
  assert_true(event_is(end, "tool_result.kind", "ok"));
  assert_true(event_is(end, "tool_result.text", "booked: Pension Marija, 285 euros"));
}

TEST(a_guard_denies_a_turn_before_the_model_sees_it) {
  tp_text result = events_find(&seen, "result", "dinner-2", NULL, NULL);
  assert_true(event_is(result, "code", "TP_ERR_DENIED"));
  assert_int_equal(events_count(&seen, "model_begin", "dinner-2"), 0);
}

TEST(each_session_ends_once_behind_its_turns) {
  static const char *const sessions[] = {"first-ideas", "tickets-and-rooms", "birthday-dinner"};
  size_t ended = 0;
  for (size_t i = 0; i < seen.count; i++) {
    tp_text event = event_at(&seen, i);
    if (!event_is(event, "run.subscription", "trip.diary")) continue;
    assert_true(event_is(event, "phase", "session.end"));
    assert_true(event_is(event, "run.state", "succeeded"));
    assert_true(ended < 3 && event_is(event, "ids.session", sessions[ended]));
    for (size_t j = i; j < seen.count; j++) /* no turn of the session follows it */
      assert_false(event_is(event_at(&seen, j), "event", "turn_begin") &&
                   event_is(event_at(&seen, j), "ids.session", sessions[ended]));
    ended++;
  }
  assert_int_equal(ended, 3);
}

TEST(the_timeline_for_people_shows_the_same) {
  command c = {.arguments = {"run", "--load", getenv("TURNPHASE_DEMO"), "--script", model, conversation}};
  assert_status(&c, 0);
  assert_holds(&c.err, "warning: failure of hook trip.events in turn.pre_prompt_context: timed_out"); /* the log */
  const char *line_end = strchr(c.err.data, '\n');
  assert_true(line_end && line_end[1] == '\0'); /* and nothing else is there */
  assert_false(holds(&c.out, "\033"));
  assert_holds(&c.out, "recalled ideas-2");
  assert_holds(&c.out, "end of the session");
  assert_holds(&c.out, "ended in another order than they were called: weather, find_room, train_times");
  assert_holds(&c.out, "read the results of train_times, find_room, weather (in call order)");
  assert_holds(&c.out, "missed its deadline");
  assert_holds(&c.out, "3 sessions, 9 turns: 8 completed, 1 denied");
  command_free(&c);
}
