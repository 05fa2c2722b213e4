/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of turns and the budgets on the command line: how a turn ends, the exit status, the records, and what a
 * later run knows about the day. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

FOR_ALL_TESTS(scratch_make, scratch_remove);

/* Calls a tool that is not there, again and again, and costs something. */
static const char loops[] =
    "repeat: true\nresponses:\n  - tool_calls: [{name: nothing, arguments: {a: 1}}]\n"
    "    usage: {input_tokens: 60, output_tokens: 40, cost_micros: 250000}\n";
static const char answers[] =
    "repeat: true\nresponses:\n  - text: I see.\n"
    "    usage: {input_tokens: 60, output_tokens: 40, cost_micros: 250000}\n";
#define TALK "{\"session\": \"s\", \"turn\": \"t\", \"user\": \"Hi\"}\n"

TEST(each_limit_has_an_option_a_word_and_an_exit_status) {
  static const struct {
    const char *option, *value, *code, *ending;
    int64_t requests, calls;
  } rows[] = {{"--max-requests", "2", "TP_ERR_MAX_REQUESTS", "max_requests", 2, 2},
              {"--max-tool-calls", "3", "TP_ERR_MAX_TOOL_CALLS", "max_tool_calls", 4, 3},
              {"--max-turn-tokens", "250", "TP_ERR_MAX_TOKENS", "max_tokens", 3, 2},
              {"--max-cost", "0.5", "TP_ERR_MAX_COST", "max_cost", 2, 1},
              {"--max-repeats", "4", "TP_ERR_REPEATED_CALL", "repeated_call", 5, 4},
              {"--budget", "session-requests=1", "TP_ERR_OVER_BUDGET", "budget", 1, 0},
              {"--budget", "session-tokens=101", "TP_ERR_OVER_BUDGET", "budget", 2, 1},
              {"--budget", "session-cost=0.250001", "TP_ERR_OVER_BUDGET", "budget", 2, 1},
              {"--budget", "tenant-requests=3", "TP_ERR_OVER_BUDGET", "budget", 3, 2},
              {"--budget", "tenant-tokens=1", "TP_ERR_OVER_BUDGET", "budget", 1, 0},
              {"--budget", "tenant-cost=1", "TP_ERR_OVER_BUDGET", "budget", 4, 3},
              {"--budget", "day-requests=2", "TP_ERR_OVER_BUDGET", "budget", 2, 1},
              {"--budget", "day-tokens=300", "TP_ERR_OVER_BUDGET", "budget", 3, 2},
              {"--budget", "day-cost=0.3", "TP_ERR_OVER_BUDGET", "budget", 2, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.arguments = {"run", "--json", "--no-memory", "--script", scratch_string("loops.yaml", loops),
                               rows[i].option, rows[i].value},
                 .input = TALK};
    assert_status(&c, 3);
    events e = events_read(&c.out);
    tp_text result = events_find(&e, "result", "t", NULL, NULL);
    if (!event_is(result, "code", rows[i].code) || !event_is(result, "ending", rows[i].ending))
      fail_msg("%s %s: %s", rows[i].option, rows[i].value, c.out.data);
    assert_int_equal(event_int(result, "iterations"), rows[i].requests);
    assert_int_equal(event_int(result, "tool_calls"), rows[i].calls);
    events_free(&e);
    command_free(&c);
  }
}

TEST(last_line_of_a_turn_names_its_limit) {
  command c = {
      .arguments = {"run", "--no-memory", "--script", scratch_string("loops.yaml", loops), "--max-requests", "2"},
      .input = TALK};
  assert_status(&c, 3);
  assert_holds(&c.out, "failed (max_requests): the turn reached its limit of requests to the model: 2");
  command_free(&c);
}

TEST(limit_of_cost_without_a_price_and_repeated_calls_are_notes_of_the_turn) {
  static const char free_of_charge[] =
      "repeat: true\nresponses:\n  - tool_calls: [{name: nothing, arguments: {a: 1}}]\n"
      "    usage: {input_tokens: 60, output_tokens: 40}\n";
  command c = {.arguments = {"run", "--no-memory", "--script", scratch_string("free.yaml", free_of_charge),
                             "--max-cost", "1", "--max-repeats", "3"},
               .input = TALK};
  assert_status(&c, 3);
  assert_holds(&c.out, "note     a limit of cost has no effect: the model reported tokens and no cost; give it prices");
  assert_holds(&c.out, "note     The tool nothing was called 2 times in one turn with the same arguments.");
  assert_holds(&c.out, "failed (repeated_call): ");
  command_free(&c);
}

TEST(budget_of_a_day_holds_over_runs_that_keep_their_data) {
  const char *data = scratch_path("day");
  static const int statuses[] = {0, 0, 3};
  for (int i = 0; i < 3; i++) {
    command c = {
        .arguments = {"run", "--json", "--no-memory", "--data", data, "--tenant", "acme", "--script",
                      scratch_string("answers.yaml", answers), "--budget", "tenant-cost=0.5", "--if-exists", "run"},
        .input = TALK};
    assert_status(&c, statuses[i]);
    command_free(&c);
  }
  command other = {.arguments = {"run", "--json", "--no-memory", "--data", data, "--tenant", "other", "--script",
                                 scratch_string("answers.yaml", answers), "--budget", "tenant-cost=0.5"},
                   .input = TALK};
  assert_status(&other, 0);
  command_free(&other);
  command show = {.arguments = {"show", data, "t", "--json"}};
  assert_status(&show, 0);
  assert_holds(&show.out, "\"ending\":\"budget\"");
  command_free(&show);
}

#define AGENTS(limits) \
  "agents:\n  - id: a\n    limits: " limits "\nsessions:\n  - {id: s, agent: a, turns: [{id: t, user: hi}]}\n"

TEST(limits_of_an_agent_come_before_those_of_the_command) {
  static const struct {
    const char *yaml, *ending;
    int64_t requests;
  } rows[] = {
      {AGENTS("{requests: 2}"), "max_requests", 2}, {AGENTS("{tool_calls: 2}"), "max_tool_calls", 3},
      {AGENTS("{tokens: 150}"), "max_tokens", 2},   {AGENTS("{cost: 0.75}"), "max_cost", 3},
      {AGENTS("{cost: \"0.25\"}"), "max_cost", 1},  {AGENTS("{cost: 1}"), "max_cost", 4},
      {AGENTS("{repeats: 2}"), "repeated_call", 3}, {AGENTS("{time: 60}"), "max_requests", 5}}; /* the command's */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.arguments = {"run", "--json", "--no-memory", "--script", scratch_string("loops.yaml", loops),
                               "--max-requests", "5", scratch_string("agents.yaml", rows[i].yaml)}};
    assert_status(&c, 3);
    events e = events_read(&c.out);
    tp_text result = events_find(&e, "result", "t", NULL, NULL);
    if (!event_is(result, "ending", rows[i].ending)) fail_msg("%zu: %s", i, c.out.data);
    assert_int_equal(event_int(result, "iterations"), rows[i].requests);
    events_free(&e);
    command_free(&c);
  }
}

TEST(limits_that_are_wrong_are_refused_with_their_remedy) {
  static const struct {
    const char *option, *value, *message;
  } rows[] = {{"--max-requests", "0", "from 1"},
              {"--max-turn-tokens", "many", "whole number"},
              {"--max-cost", "0", "above 0"},
              {"--max-cost", "-1", "above 0"},
              {"--max-cost", "1e3", "above 0"},
              {"--max-cost", "0.1234567", "above 0"},
              {"--max-cost", "1.", "above 0"},
              {"--max-time", "0", "from 1"},
              {"--budget", "tenant=5", "session, tenant or day"},
              {"--budget", "tenant-tokens", "session, tenant or day"},
              {"--budget", "user-tokens=5", "session, tenant or day"},
              {"--budget", "tenant-tokens=0.5", "whole number above 0"},
              {"--budget", "day-tokens=0", "whole number above 0"},
              {"--budget", "day-tokens=99999999999999999999", "whole number above 0"},
              {"--budget", "day-cost=x", "such as 0.5"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.arguments = {"run", "--script", scratch_string("loops.yaml", loops), rows[i].option, rows[i].value},
                 .input = TALK};
    assert_status(&c, 2);
    if (!strstr(c.err.data, rows[i].message)) fail_msg("%s %s: %s", rows[i].option, rows[i].value, c.err.data);
    command_free(&c);
  }
  static const char *const yaml[] = {AGENTS("{reqests: 2}"), AGENTS("{requests: many}"), AGENTS("{cost: -1}"),
                                     AGENTS("{tokens: 0}"),  AGENTS("{time: 1.5}"),      AGENTS("3")};
  for (size_t i = 0; i < sizeof yaml / sizeof *yaml; i++) {
    command c = {
        .arguments = {"run", "--script", scratch_string("loops.yaml", loops), scratch_string("wrong.yaml", yaml[i])}};
    assert_status(&c, 78);
    assert_holds(&c.err, "limit");
    command_free(&c);
  }
}

TEST(budget_that_is_given_twice_is_refused) {
  command c = {.arguments = {"run", "--script", scratch_string("loops.yaml", loops), "--budget", "day-cost=1",
                             "--budget", "day-cost=2"},
               .input = TALK};
  assert_status(&c, 2);
  assert_holds(&c.err, "given twice");
  command_free(&c);
}

TEST(chat_ends_with_the_status_of_a_limit_and_names_it) {
  command c = {
      .arguments = {"chat", "--no-memory", "--script", scratch_string("loops.yaml", loops), "--max-requests", "2"},
      .input = "hi\n"};
  assert_status(&c, 3);
  assert_holds(&c.out, "[max_requests]");
  command_free(&c);
}
