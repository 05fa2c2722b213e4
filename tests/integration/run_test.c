/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run stores, its exit status, and its events. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";
static const char statement[] =
    "{\"session\": \"one\", \"turn\": \"t1\", \"user\": \"My rabbit is called Amadeus.\"}\n";
static const char asked[] = "{\"session\": \"two\", \"turn\": \"t2\", \"user\": \"What is my rabbit called?\"}\n";

static events play(command *c, const char *input, const char *const options[]) {
  *c = (command){.arguments = {"run", "--json", "--script", scratch_string("model.yaml", script)}, .input = input};
  for (int i = 0; options[i]; i++) c->arguments[4 + i] = options[i];
  assert_status(c, 0);
  return events_read(&c->out);
}

static bool recalls(const char *input, const char *const options[]) {
  command c;
  events e = play(&c, input, options);
  bool found = events_recalled(&e, "t2", "t1");
  events_free(&e);
  command_free(&c);
  return found;
}

/* ---- what is kept ---- */

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(without_a_directory_nothing_is_kept) {
  const char *const none[] = {NULL};
  assert_false(recalls(statement, none));
  assert_false(recalls(asked, none));
}

TEST(what_is_said_is_recalled_in_a_later_run) {
  const char *const kept[] = {"--data", scratch_path("kept"), NULL};
  assert_false(recalls(statement, kept));
  assert_true(recalls(asked, kept));
}

TEST(nothing_is_recalled_without_the_memory_domain) {
  char both[512];
  const char *const none[] = {"--no-memory", NULL};
  snprintf(both, sizeof both, "%s%s", statement, asked);
  assert_false(recalls(both, none));
}

TEST(tenants_and_workspaces_know_nothing_of_each_other) {
  const char *data = scratch_path("tenants");
  const char *const mine[] = {"--data", data, "--tenant", "me", "--workspace", "w", "--if-exists", "run", NULL};
  const char *const other_tenant[] = {"--data", data, "--tenant", "you", "--workspace", "w", NULL};
  const char *const other_place[] = {"--data", data, "--tenant", "me", "--workspace", "v", NULL};
  assert_false(recalls(statement, mine));
  assert_false(recalls(asked, other_tenant));
  assert_false(recalls(asked, other_place));
  assert_true(recalls(asked, mine));
}

/* Options, the expected result, and the expected number of requests. */
TEST(a_turn_that_the_history_has_is_answered_from_it) {
  static const struct {
    const char *input, *option;
    int status;
    const char *code;
    int asked;
    bool stored;
  } rows[] = {
      {"{\"session\": \"s\", \"turn\": \"a\", \"user\": \"one\"}\n", "answer", 0, "TP_OK", 1, false},
      {"{\"session\": \"s\", \"turn\": \"a\", \"user\": \"one\"}\n", "answer", 0, "TP_OK", 0, true},
      {"{\"session\": \"s\", \"turn\": \"a\", \"user\": \"two\"}\n", "answer", 1, "TP_ERR_EXISTS", 0, false},
      {"{\"session\": \"s\", \"turn\": \"a\", \"user\": \"one\"}\n", "refuse", 1, "TP_ERR_EXISTS", 0, false},
      {"{\"session\": \"s\", \"turn\": \"b\", \"user\": \"one\"}\n", "refuse", 0, "TP_OK", 1, false},
      {"{\"session\": \"t\", \"turn\": \"a\", \"user\": \"two\"}\n", "answer", 0, "TP_OK", 1, false},
      {"{\"session\": \"s\", \"turn\": \"a\", \"user\": \"two\"}\n", "run", 0, "TP_OK", 1, false},
      {"{\"session\": \"s\", \"turn\": \"a\", \"user\": \"two\"}\n", "answer", 0, "TP_OK", 0, true},
      {"{\"session\": \"s\", \"user\": \"one\"}\n", "refuse", 0, "TP_OK", 1, false},
  };
  char data[512], model[512];
  snprintf(data, sizeof data, "%s", scratch_path("known"));
  snprintf(model, sizeof model, "%s", scratch_string("model.yaml", script));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {
        .arguments = {"run", "--json", "--script", model, "--data", data, "--no-memory", "--if-exists", rows[i].option},
        .input = rows[i].input};
    assert_status(&c, rows[i].status);
    char code[64];
    snprintf(code, sizeof code, "\"code\":\"%s\"", rows[i].code);
    assert_holds(&c.out, code);
    assert_int_equal(strstr(c.out.data, "\"stored\":true") != NULL, rows[i].stored);
    assert_int_equal(strstr(c.out.data, "\"event\":\"model_begin\"") != NULL, rows[i].asked);
    assert_int_equal(strstr(c.out.data, "\"text\":\"I see.\"") != NULL, rows[i].status == 0);
    command_free(&c);
  }
  command c = {.arguments = {"run", "--script", model, "--data", data, "--no-memory"}, .input = rows[7].input};
  assert_status(&c, 0);
  assert_holds(&c.out, "not asked: the history has this turn");
  assert_holds(&c.out, "I see.");
  command_free(&c);
}

#define LONG "The walnut tree behind the house of my aunt has grown taller than the roof since last spring"

TEST(a_session_goes_on_where_it_ended) {
  const char *const kept[] = {"--data", scratch_path("history"), "--no-memory", NULL};
  const char *inputs[] = {"{\"session\": \"s\", \"turn\": \"a\", \"user\": \"one\"}\n",
                          "{\"session\": \"s\", \"turn\": \"b\", \"user\": \"two\"}\n"};
  const char *turns[] = {"a", "b"};
  for (int i = 0; i < 2; i++) {
    command c;
    events e = play(&c, inputs[i], kept);
    assert_int_equal(event_int(events_find(&e, "model_end", turns[i], NULL, NULL), "request.message_count"), 1 + 2 * i);
    events_free(&e);
    command_free(&c);
  }
}

/* Without a directory, too, a session that is used again has its earlier messages. */
/* Three turns of some 30 tokens each, with space for two: the request of the third has fewer messages than came before
 * it. */
TEST(a_history_that_is_too_long_is_compacted) {
  static const char talk[] = "{\"session\": \"s\", \"turn\": \"a\", \"user\": \"" LONG
                             "\"}\n"
                             "{\"session\": \"s\", \"turn\": \"b\", \"user\": \"" LONG
                             "\"}\n"
                             "{\"session\": \"s\", \"turn\": \"c\", \"user\": \"" LONG "\"}\n";
  static const struct {
    const char *how;
    int64_t messages; /* messages of the third request; without an option 5 */
  } rows[] = {{"drop", 3}, {"summarize", 4}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c;
    const char *const options[] = {"--compact", rows[i].how, "--history-tokens", "50", NULL};
    events e = play(&c, talk, options);
    tp_text third = events_find(&e, "model_end", "c", NULL, NULL);
    assert_int_equal(event_int(third, "request.message_count"), rows[i].messages);
    events_free(&e);
    command_free(&c);
  }
  command wrong = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--history-tokens", "50"},
                   .input = talk};
  assert_status(&wrong, 2);
  assert_holds(&wrong.err, "--compact");
  command_free(&wrong);
}

TEST(a_session_that_comes_again_goes_on) {
  command c;
  const char *const options[] = {"--no-memory", NULL};
  events e = play(
      &c,
      "{\"session\": \"s\", \"turn\": \"a\", \"user\": \"1\"}\n{\"session\": \"r\", \"turn\": \"b\", \"user\": \"2\"}\n"
      "{\"session\": \"s\", \"turn\": \"c\", \"user\": \"3\"}\n",
      options);
  assert_int_equal(event_int(events_find(&e, "model_end", "b", NULL, NULL), "request.message_count"), 1);
  assert_int_equal(event_int(events_find(&e, "model_end", "c", NULL, NULL), "request.message_count"), 3);
  events_free(&e);
  command_free(&c);
}

TEST(what_is_kept_is_for_its_owner_alone) {
  const char *data = scratch_path("private");
  const char *const kept[] = {"--data", data, NULL};
  static const char *const files[] = {"", "/turnphase.db", "/memory.db"};
  mode_t before = umask(0);
  recalls(statement, kept);
  umask(before);
  for (int i = 0; i < 3; i++) {
    char path[256];
    struct stat found;
    snprintf(path, sizeof path, "%s%s", data, files[i]);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 077, 0);
  }
}

/* ---- data that cannot be used ---- */

static void cannot_be_used(const char *data, int status, const char *words) {
  command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", data},
               .input = statement};
  assert_status(&c, status);
  assert_holds(&c.err, data);
  assert_holds(&c.err, words);
  assert_int_equal(c.out.size, 0);
  command_free(&c);
}

TEST(a_directory_that_cannot_be_written_is_named) {
  cannot_be_used(scratch_string("file", "x"), 74, "Not a directory");
  cannot_be_used("/no/such/parent", 74, "No such file or directory");
  cannot_be_used("/proc/turnphase", 74, "No such file or directory"); /* exists, and no process may write there */
}

TEST(a_store_that_is_no_store_is_named_and_left_alone) {
  static const char *const names[] = {"turnphase.db", "memory.db"};
  for (int i = 0; i < 2; i++) {
    char words[8192], now[8192], path[256];
    const char *data = scratch_path(i ? "bad-memory" : "bad-history");
    assert_int_equal(mkdir(data, 0700), 0);
    memset(words, 'x', sizeof words);
    snprintf(path, sizeof path, "bad-%s/%s", i ? "memory" : "history", names[i]);
    const char *file = scratch_write(path, words, sizeof words);
    command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", data},
                 .input = statement};
    assert_true(command_run(&c) == 74 || c.status == 78);
    assert_holds(&c.err, names[i]);
    assert_int_equal(c.out.size, 0);
    FILE *left = fopen(file, "r");
    assert_non_null(left);
    assert_int_equal(fread(now, 1, sizeof now, left), sizeof now);
    fclose(left);
    assert_memory_equal(now, words, sizeof now);
    command_free(&c);
  }
}

/* ---- what it ends with ---- */

TEST(a_failed_turn_is_a_negative_answer_and_the_rest_is_played) {
  command c = {.arguments = {"run", "--json", "--script", scratch_string("short.yaml", "responses:\n  - text: a\n")},
               .input =
                   "{\"session\": \"s\", \"turn\": \"1\", \"user\": \"a\"}\n{\"session\": \"s\", \"turn\": \"2\", "
                   "\"user\": \"b\"}\n"
                   "{\"session\": \"r\", \"turn\": \"3\", \"user\": \"c\"}\n"};
  assert_status(&c, 1);
  events e = events_read(&c.out);
  assert_true(event_is(events_find(&e, "result", "1", NULL, NULL), "outcome", "completed"));
  assert_true(event_is(events_find(&e, "result", "2", NULL, NULL), "outcome", "failed"));
  assert_true(event_is(events_find(&e, "result", "3", NULL, NULL), "outcome", "failed"));
  assert_true(event_is(events_find(&e, "result", "3", NULL, NULL), "reason",
                       "the model failed: the script has no more responses"));
  events_free(&e);
  command_free(&c);
}

TEST(a_denied_turn_is_a_result) {
  command c = {
      .arguments = {"run", "--script", scratch_string("model.yaml", script), "--load", getenv("TURNPHASE_DEMO")},
      .input = "{\"session\": \"s\", \"turn\": \"1\", \"user\": \"Send Papa an e-mail.\"}\n"};
  assert_status(&c, 0);
  assert_holds(&c.out, "1 turn: 1 denied");
  assert_holds(&c.out, "trip.surprise");
  command_free(&c);
}

/* ---- events ---- */

TEST(files_are_written_when_that_is_allowed_and_read_again) {
  static const char writes[] =
      "responses:\n"
      "  - tool_calls: [{name: files_write, arguments: {path: new/b.txt, text: walnuts}}]\n"
      "  - tool_calls: [{name: files_read, arguments: {path: new/b.txt}}]\n"
      "  - text: Done.\n";
  const char *model = scratch_string("model.yaml", writes), *root = scratch_path("");
  command asks = {.arguments = {"run", "--no-memory", "--script", model, "--files", root}, .input = statement};
  assert_status(&asks, 0);
  assert_holds(&asks.out, "files.write_guard");
  assert_holds(&asks.out, "there is no such file");
  command_free(&asks);
  command may = {.arguments = {"run", "--no-memory", "--script", model, "--files", root, "--files-writes", "allow"},
                 .input = statement};
  assert_status(&may, 0);
  assert_holds(&may.out, "Wrote 7 bytes to new/b.txt.");
  assert_holds(&may.out, "walnuts");
  command_free(&may);
  command ignored = {.arguments = {"run", "--script", model, "--files-writes", "allow"}, .input = statement};
  assert_status(&ignored, 2);
  assert_holds(&ignored.err, "--files-writes is for the tools of --files DIR");
  command_free(&ignored);
}

TEST(events_of_a_turn_are_numbered_without_gaps) {
  command c;
  const char *const none[] = {NULL};
  int64_t expected = 1;
  events e = play(&c, statement, none);
  for (size_t i = 0; i < e.count; i++) {
    tp_text event = event_at(&e, i);
    if (!event_is(event, "ids.turn", "t1") || event_is(event, "event", "result")) continue;
    assert_int_equal(event_int(event, "sequence"), expected++);
    assert_true(event_int(event, "time_ns") > 0);
    assert_true(event_int(event, "unix_ms") > 0);
    assert_true(event_is(event, "ids.session", "one"));
  }
  assert_true(expected > 10);
  events_free(&e);
  command_free(&c);
}

TEST(every_run_has_its_record) {
  command c;
  const char *const none[] = {NULL};
  events e = play(&c, statement, none);
  tp_text run = events_find(&e, "run", "t1", "run.subscription", "memory.policy_classifier");
  assert_true(event_is(run, "phase", "turn.pre_policy"));
  assert_true(event_is(run, "run.handler", "memory.policy_classifier"));
  assert_true(event_is(run, "run.owner", "memory"));
  assert_true(event_is(run, "run.state", "succeeded"));
  assert_true(event_is(run, "run.execution", "blocking"));
  assert_int_equal(event_int(run, "run.attempts"), 1);
  assert_true(event_int(run, "run.ended_ns") >= event_int(run, "run.started_ns"));
  tp_text kept = events_find(&e, "run", "t1", "run.subscription", "memory.post_turn_extractor");
  assert_true(event_is(kept, "run.state", "backgrounded"));
  assert_true(event_is(kept, "run.execution", "background"));
  events_free(&e);
  command_free(&c);
}

/* ---- while it goes on ---- */

static command hanging(const char *format) {
  static const char talk[] =
      "{\"session\": \"s\", \"turn\": \"t1\", \"user\": \"Are you there?\"}\n"
      "{\"session\": \"s\", \"turn\": \"t2\", \"user\": \"Hello?\"}\n";
  setenv("TURNPHASE_TEST_DOMAIN", "hangs", 1);
  return (command){.arguments = {"run", "--script", scratch_string("model.yaml", script), "--no-memory", "--load",
                                 getenv("TURNPHASE_DOMAIN"), format},
                   .input = talk};
}

/* The command ends only by an interrupt, which is sent when something is shown. So the turn must be shown while it
 * hangs. */
TEST(turn_is_shown_while_it_hangs_and_ends_when_it_is_interrupted) {
  command c = hanging(NULL);
  c.interrupt_at = "Are you there?";
  double began = command_seconds();
  assert_status(&c, 130);
  assert_true(command_seconds() - began < 25); /* neither the handler's minute nor the 30 s of its phase */
  assert_holds(&c.out, "cancelled");
  assert_holds(&c.out, "In short");
  assert_holds(&c.err, "interrupted");
  assert_false(holds(&c.out, "Hello?"));
  command_free(&c);
}

TEST(events_come_while_the_turn_hangs_and_its_result_behind_an_interrupt) {
  command c = hanging("--json");
  c.interrupt_at = "\"phase_begin\"";
  assert_status(&c, 130);
  events e = events_read(&c.out);
  assert_true(event_is(events_find(&e, "result", "t1", NULL, NULL), "outcome", "cancelled"));
  events_free(&e);
  command_free(&c);
}

/* ---- for eyes ---- */

TEST(what_a_terminal_would_obey_or_hide_is_shown_as_its_number) {
  command c = {.arguments = {"run", "--no-memory", "--script", scratch_string("model.yaml", script)},
               .input = "{\"session\": \"s\", \"user\": \"a\u202e b\\u001b[31m c\u200b\"}\n"};
  assert_status(&c, 0);
  assert_holds(&c.out, "a<U+202E> b [31m c<U+200B>");
  assert_false(holds(&c.out, "\u202e"));
  command_free(&c);
  command e = {.arguments = {"plan", "\u202enalp"}};
  assert_status(&e, 2);
  assert_holds(&e.err, "<U+202E>nalp");
  command_free(&e);
}

static size_t longest_line(const bytes *b) {
  size_t longest = 0, columns = 0;
  for (const char *at = b->data; *at; at++) {
    columns = *at == '\n' ? 0 : columns + (((unsigned char)*at & 0xC0) != 0x80);
    if (columns > longest) longest = columns;
  }
  return longest;
}

TEST(lines_are_folded_at_the_width_of_the_terminal) {
  setenv("COLUMNS", "72", 1);
  command folded = {.arguments = {"phases"}}, data = {.arguments = {"phases", "--json"}};
  assert_status(&folded, 0);
  assert_status(&data, 0);
  unsetenv("COLUMNS");
  command phases = {.arguments = {"phases"}};
  assert_status(&phases, 0);
  assert_in_range(longest_line(&folded.out), 40, 72);
  assert_true(longest_line(&phases.out) > 120);
  assert_true(longest_line(&data.out) > 2000);
  assert_holds(&folded.out, "user.prompt.submit");
  command_free(&folded);
  command_free(&data);
  command_free(&phases);
}

TEST(phases_that_lasted_no_time_are_left_out_unless_all_is_wanted) {
  for (int verbose = 0; verbose < 2; verbose++) {
    command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), verbose ? "--verbose" : NULL},
                 .input = statement};
    assert_status(&c, 0);
    bool any = false;
    for (const char *at = c.out.data; (at = strstr(at, "  phase  ")) != NULL; at++) {
      const char *end = strchr(at, '\n');
      bool nothing = strncmp(end - 8, " 0.00 ms", 8) == 0;
      any = any || (nothing && strncmp(at + 11, "turn.post_turn", 14) != 0); /* a phase whose row shows nothing */
    }
    if (!verbose) assert_false(any);
    if (verbose) assert_holds(&c.out, "turn.pre_prompt_compile");
    command_free(&c);
  }
}
