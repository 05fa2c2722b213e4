/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase bench: exact counts, lower bounds of times, refusals, and the output for people. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

enum { LEAST_NS = 1990000 /* of a sleep of 2 ms, which is measured by another clock */ };

/* ---- the report as a value ---- */

typedef struct report {
  command command;
  tp_writer *writer;
  tp_text value;
} report;

/* @param options  up to a NULL. */
static void bench(report *r, int status, const char *const options[]) {
  *r = (report){.command = {.arguments = {"bench", "--json"}}};
  for (int i = 0; options[i]; i++) r->command.arguments[2 + i] = options[i];
  assert_status(&r->command, status);
  tp_fault fault;
  assert_int_equal(tp_writer_new(NULL, &r->writer), TP_OK);
  assert_int_equal(tp_json_decode((tp_text){r->command.out.data, r->command.out.size}, r->writer, &fault), TP_OK);
  assert_int_equal(tp_writer_finish(r->writer, &r->value), TP_OK);
}

static void report_free(report *r) {
  tp_writer_free(r->writer);
  command_free(&r->command);
}

/* Finds the map in a list whose text under key is name; empty when there is none. */
static tp_text find(tp_text list, const char *key, const char *name) {
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk);)
    if (event_is(walk.value, key, name)) return walk.value;
  return (tp_text){0};
}

static tp_text phase_of(const report *r, const char *name) {
  tp_text phase = find(tp_value_get(r->value, "phases"), "phase", name);
  assert_true(phase.size > 0);
  return phase;
}

static tp_text run_of(const report *r, const char *phase, const char *name) {
  tp_text run = find(tp_value_get(phase_of(r, phase), "subscriptions"), "subscription", name);
  assert_true(run.size > 0);
  return run;
}

static double mean_of(tp_text phase, const char *path) { return tp_value_double(event_value(phase, path), -1); }

static void assert_rises(tp_text figures) {
  static const char *const names[] = {"min", "median", "p90", "p99", "p99_9", "max"};
  for (int i = 1; i < 6; i++) assert_true(event_int(figures, names[i - 1]) <= event_int(figures, names[i]));
}

static int64_t sum_of_buckets(tp_text figures) {
  int64_t sum = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(figures, "histogram"), &walk);)
    sum += tp_value_int(tp_value_at(walk.value, 2), 0);
  return sum;
}

/* ---- what is measured ---- */

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(the_example_takes_as_long_as_it_sleeps) {
  report r;
  bench(&r, 0, (const char *const[]){"--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--turns", "25", NULL});
  assert_int_equal(tp_value_count(tp_value_get(r.value, "phases")), 2);
  tp_text phase = phase_of(&r, "turn.pre_prompt_context");
  tp_text run = run_of(&r, "turn.pre_prompt_context", "notes.look_up");
  assert_int_equal(event_int(phase, "outcomes.ok"), 25);
  assert_int_equal(event_int(phase, "duration_ns.count"), 25);
  assert_int_equal(event_int(run, "calls"), 25);
  assert_int_equal(event_int(run, "states.succeeded"), 25);
  assert_true(event_int(run, "duration_ns.min") >= LEAST_NS);
  assert_true(event_int(run, "duration_ns.median") >= LEAST_NS - LEAST_NS / 128);
  assert_true(event_int(phase, "duration_ns.min") >= LEAST_NS);
  assert_true(event_int(phase, "handlers_ns.min") >= LEAST_NS);
  assert_true(event_int(r.value, "turn.duration_ns.min") >= LEAST_NS);
  assert_true(event_int(r.value, "turn.elapsed_ns") >= 25 * (int64_t)LEAST_NS);
  assert_true(event_is(run, "owner", "notes") && event_is(run, "execution", "blocking"));
  assert_int_equal(event_int(run_of(&r, "turn.pre_prompt_context", "notes.count"), "calls"), 25);
  assert_int_equal(event_int(run_of(&r, "turn.intake", "notes.guard"), "calls"), 25);
  report_free(&r);
}

/* The slow handler is the handlers' part; the phase before it, of microseconds, is not. */
TEST(handlers_and_runtime_add_up_to_the_phase) {
  static const char *const phases[] = {"turn.intake", "turn.pre_prompt_context"};
  report r;
  bench(&r, 0, (const char *const[]){"--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--turns", "20", NULL});
  for (int i = 0; i < 2; i++) {
    tp_text phase = phase_of(&r, phases[i]);
    double apart = mean_of(phase, "handlers_ns.mean") + mean_of(phase, "runtime_ns.mean");
    double off = apart - mean_of(phase, "duration_ns.mean");
    assert_true(off > -1 && off < 1);
    assert_rises(tp_value_get(phase, "duration_ns"));
    assert_rises(tp_value_get(phase, "handlers_ns"));
    assert_rises(tp_value_get(phase, "runtime_ns"));
  }
  assert_rises(event_value(r.value, "turn.duration_ns"));
  report_free(&r);
}

TEST(the_report_says_where_and_how_it_was_measured) {
  report r;
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--turns", "3", "--warm-up", "2",
                              "--timestamps", "coarse", "--workers", "3", NULL});
  assert_int_equal(event_int(r.value, "version"), 1);
  assert_true(event_int(r.value, "machine.processors") >= 1);
  assert_true(tp_value_text(event_value(r.value, "machine.system")).size > 0);
  assert_true(tp_value_text(event_value(r.value, "build.compiler")).size > 0);
  assert_true(tp_value_text(event_value(r.value, "build.type")).size > 0);
  assert_true(event_is(r.value, "build.turnphase", tp_version()));
  assert_int_equal(event_int(r.value, "settings.turns"), 3);
  assert_int_equal(event_int(r.value, "settings.warm_up"), 2);
  assert_int_equal(event_int(r.value, "settings.concurrency"), 1);
  assert_int_equal(event_int(r.value, "settings.workers"), 3);
  assert_true(event_is(r.value, "settings.timestamps", "coarse"));
  assert_true(list_has(event_value(r.value, "settings.libraries"), getenv("TURNPHASE_EXAMPLE")));
  assert_true(tp_value_double(event_value(r.value, "clock.reading_ns"), 0) > 0);
  assert_true(tp_value_double(event_value(r.value, "runtime.first_handler_ns"), -1) >= 0);
  assert_true(tp_value_count(tp_value_get(r.value, "notes")) > 0);
  report_free(&r);
}

TEST(turns_at_once_are_all_counted) {
  static const char *const at_once[] = {"2", "7", "64", "5000"};
  for (int i = 0; i < 4; i++) {
    report r;
    bench(&r, 0,
          (const char *const[]){"--load", getenv("TURNPHASE_EXAMPLE"), "--phase", "turn.intake", "--turns", "1003",
                                "--warm-up", "10", "--concurrency", at_once[i], "--histogram", "all", NULL});
    tp_text phase = phase_of(&r, "turn.intake");
    assert_int_equal(tp_value_count(tp_value_get(r.value, "phases")), 1);
    assert_int_equal(event_int(phase, "outcomes.ok"), 1003);
    assert_int_equal(event_int(phase, "duration_ns.count"), 1003);
    assert_int_equal(sum_of_buckets(tp_value_get(phase, "duration_ns")), 1003);
    assert_int_equal(event_int(run_of(&r, "turn.intake", "notes.guard"), "calls"), 1003);
    assert_int_equal(sum_of_buckets(tp_value_get(run_of(&r, "turn.intake", "notes.guard"), "duration_ns")), 1003);
    assert_int_equal(event_int(r.value, "turn.duration_ns.count"), 1003);
    report_free(&r);
  }
}

/* Its handler waits until four turns have called it. If the turns ran one after the other, it would wait for ever. */
TEST(turns_at_once_overlap) {
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "together", 1);
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "40", "--warm-up", "8",
                              "--concurrency", "4", NULL});
  tp_text run = run_of(&r, "model.pre", "t.together");
  assert_int_equal(event_int(run, "states.succeeded"), 40);
  assert_int_equal(event_int(run, "duration_ns.count"), 40);
  assert_int_equal(event_int(run, "wait_ns.count"), 40);
  report_free(&r);
}

TEST(without_time_stamps_handlers_have_no_times) {
  report r;
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--turns", "5", "--timestamps",
                              "off", NULL});
  tp_text phase = phase_of(&r, "turn.intake"), run = run_of(&r, "turn.intake", "notes.guard");
  assert_int_equal(event_int(phase, "duration_ns.count"), 5);
  assert_int_equal(event_int(phase, "handlers_ns.count"), 0);
  assert_int_equal(event_int(run, "calls"), 5);
  assert_int_equal(event_int(run, "duration_ns.count"), 0);
  report_free(&r);
}

/* ---- an open loop ---- */

/* Each 500th call lasts 100 ms: one turn of 500 is slow itself, and a hundred wait for it. The second row is a closed
 * loop, whose p99 does not show the waiting turns. */
TEST(a_stall_is_in_the_p99_of_turns_that_were_due) {
  static const char *const rates[] = {"--rate=1000", "--concurrency=1"};
  setenv("TURNPHASE_TEST_DOMAIN", "stalls", 1);
  for (int i = 0; i < 2; i++) {
    report r;
    bench(&r, 0,
          (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "650", "--warm-up", "0",
                                rates[i], NULL});
    assert_int_equal(event_int(r.value, "settings.rate"), i == 0 ? 1000 : 0);
    assert_true(event_int(r.value, "turn.duration_ns.max") >= 99000000);
    if (i == 0) {
      assert_true(event_int(r.value, "turn.elapsed_ns") >= 649000000);
      assert_int_equal(event_int(r.value, "turn.response_ns.count"), 650);
      assert_int_equal(event_int(r.value, "turn.late_ns.count"), 650);
      assert_true(event_int(r.value, "turn.response_ns.p99") >= 80000000);
      assert_true(event_int(r.value, "turn.late_ns.p99") >= 80000000);
    } else {
      assert_true(event_int(r.value, "turn.duration_ns.p99") < 80000000);
      assert_int_equal(tp_value_get(event_value(r.value, "turn"), "response_ns").size, 0);
    }
    report_free(&r);
  }
}

/* With fewer clients than turns that should run, the turns wait for a client, and none is lost. */
TEST(turns_at_once_keep_the_schedule) {
  static const char *const at_once[] = {"2", "5", "64"};
  setenv("TURNPHASE_TEST_DOMAIN", "endings", 1);
  for (int i = 0; i < 3; i++) {
    report r;
    bench(&r, 0,
          (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "203", "--warm-up", "5",
                                "--rate", "4000", "--concurrency", at_once[i], NULL});
    assert_int_equal(event_int(r.value, "turn.response_ns.count"), 203);
    assert_int_equal(event_int(phase_of(&r, "turn.pre_prompt_context"), "outcomes.ok"), 203);
    assert_true(event_int(r.value, "turn.elapsed_ns") >= 202 * 250000);
    assert_true(event_int(r.value, "turn.response_ns.median") >= event_int(r.value, "turn.duration_ns.median") / 2);
    assert_true(event_int(r.value, "turn.response_ns.min") >= event_int(r.value, "turn.late_ns.min"));
    report_free(&r);
  }
}

/* Four turns end together; the fifth waits for three more, which idle clients begin. */
TEST(an_idle_client_begins_the_next_turn_while_others_have_theirs) {
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "together", 1);
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "8", "--warm-up", "0",
                              "--rate", "1000", "--concurrency", "5", NULL});
  assert_int_equal(event_int(r.value, "turn.response_ns.count"), 8);
  report_free(&r);
}

TEST(a_schedule_that_is_not_kept_is_named) {
  command c = {
      .arguments = {"bench", "--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--turns", "60", "--rate", "2000"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "2,000 scheduled a second");
  assert_holds(&c.out, "since scheduled");
  assert_holds(&c.out, "Note: the turns do not keep up with 2,000 a second");
  command_free(&c);
  command refused = {.arguments = {"bench", "--rate", "0"}};
  assert_status(&refused, 2);
  assert_holds(&refused.err, "--rate takes a whole number from 1 to 10000000, not '0'");
  command_free(&refused);
}

/* ---- rounds ---- */

#define SPINS "--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "20", "--warm-up", "2", "--rounds", "12"

/* Writes the durations of the handler to a file. @return its path, until the next file of that name. */
static const char *payload_of(const char *name, const char *time_ns) {
  static char path[256];
  char json[64];
  snprintf(json, sizeof json, "{\"text\": \"%s\"}", time_ns);
  setenv("TURNPHASE_TEST_DOMAIN", "spins", 1);
  snprintf(path, sizeof path, "%s", scratch_string(name, json));
  return path;
}

static tp_text row_of(const report *r, size_t index) { return tp_value_at(tp_value_get(r->value, "rows"), index); }

/* Twice the time is found even on a busy machine; tests/bench_long.py plants ten per cent. */
TEST(a_slower_handler_is_found_by_comparison) {
  char a[512], b[512];
  snprintf(a, sizeof a, "bench --payload '%s'", payload_of("a.json", "500000"));
  snprintf(b, sizeof b, "turnphase bench --payload \"%s\"", payload_of("b.json", "1000000"));
  report r;
  bench(&r, 0, (const char *const[]){SPINS, "--compare", a, b, NULL});
  tp_text turn = row_of(&r, 0);
  assert_true(event_is(turn, "name", "the whole turn") && event_is(turn, "figure", "median"));
  assert_int_equal(tp_value_count(tp_value_get(turn, "a_ns")), 12);
  assert_int_equal(tp_value_count(tp_value_get(turn, "b_ns")), 12);
  assert_true(event_is(turn, "verdict", "a is faster"));
  assert_true(mean_of(turn, "low") > 1 && mean_of(turn, "low") <= mean_of(turn, "ratio"));
  assert_true(mean_of(turn, "ratio") <= mean_of(turn, "high"));
  assert_true(mean_of(turn, "ratio") > 1.5 && mean_of(turn, "ratio") < 2.5);
  assert_true(event_is(row_of(&r, 2), "name", "turn.intake"));
  assert_int_equal(tp_value_count(tp_value_get(r.value, "sides")), 2);
  report_free(&r);
}

/* A stored result is compared with the same bench, which is a third slower, and refused by every other bench. */
TEST(a_stored_result_is_compared_and_of_another_bench_refused) {
  const char *payload = payload_of("now.json", "500000");
  report r;
  bench(&r, 0, (const char *const[]){SPINS, "--payload", payload, NULL});
  assert_int_equal(tp_value_count(tp_value_get(row_of(&r, 0), "samples_ns")), 12);
  char stored[65536];
  assert_true(r.command.out.size < sizeof stored);
  memcpy(stored, r.command.out.data, r.command.out.size);
  stored[r.command.out.size] = '\0';
  report_free(&r);
  const char *baseline = scratch_string("before.json", stored);
  payload_of("now.json", "1500000");
  command slower = {.arguments = {"bench", SPINS, "--payload", payload, "--baseline", baseline}};
  assert_status(&slower, 1);
  assert_holds(&slower.out, "The whole turn: before faster by ");
  command_free(&slower);
  static const struct {
    const char *option, *value, *from, *to, *words;
  } rows[] = {
      {"--concurrency", "3", "", "", "it is of another bench: settings.concurrency is 1 there, and 3 here"},
      {NULL, NULL, "\"version\":1", "\"version\":7", "it is of version 7, and this command reads 1"},
      {NULL, NULL, "\"version\"", "\"varsion\"", "it is no result of turnphase bench --rounds N --json"},
      {NULL, NULL, "\"rows\"", "\"raws\"", "it is no result of turnphase bench --rounds N --json"},
      {NULL, NULL, "\"samples_ns\"", "\"samples\"", "a row needs a name, a figure"},
      {NULL, NULL, "\"samples_ns\":[", "\"samples_ns\":[-1,", "samples_ns has what is no time"},
      {NULL, NULL, "{", "", "before.json:1:"},
      {NULL, NULL, "\"turn.intake\",\"fig", "\"turn.intoke\",\"fig", "it is of another bench: turn.in"},
      {NULL, NULL, "\"processors\":", "\"processors\":9", "it is of another bench: machine.processors is 9"},
      {NULL, NULL, "\"assertions\":", "\"assertions\":0,\"was\":", "build.assertions is 0 there, and "},
  };
  payload_of("now.json", "1000");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char changed[65536];
    const char *at = strstr(stored, rows[i].from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - stored), stored, rows[i].to, at + strlen(rows[i].from));
    const char *file = scratch_string("before.json", changed);
    command c = {
        .arguments = {"bench", SPINS, "--baseline", file, "--payload", payload, rows[i].option, rows[i].value}};
    assert_status(&c, 78);
    assert_holds(&c.err, rows[i].words);
    assert_int_equal(c.out.size, 0);
    command_free(&c);
  }
}

TEST(comparisons_that_cannot_be_made_are_refused) {
  static const struct {
    const char *options[6], *words;
  } rows[] = {
      {{"a.so"}, "operands are for --compare A B"},
      {{"--compare", "a.so"}, "--compare needs two benches, A and B"},
      {{"--compare"}, "--compare needs two benches, A and B"},
      {{"--compare", "a.so", "b.so", "--baseline", "x"}, "give one of them"},
      {{"--compare", "/no/hooks", "b.so"}, "--compare: /no/hooks is no library (.so), no directory of hooks"},
      {{"--compare", "bench --load 'a.so", "b.so"}, "a quote has no end"},
      {{"--compare", "b.so", "bench --rounds 9"}, "--compare: --rounds is an option of the comparison"},
      {{"--compare", "b.so", "bench --jso"}, "--compare: --jso is an option of the comparison"},
      {{"--rounds", "9", "--hdr", "x"}, "--hdr and --histogram are of a bench without rounds"},
      {{"--rounds", "9", "--payload", "-"}, "--payload takes a file here"},
      {{"--rounds", "7"}, "--rounds takes a whole number from 8 to 200, not '7'"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    command c = {.arguments = {"bench"}};
    for (int j = 0; j < 6 && rows[i].options[j]; j++) c.arguments[1 + j] = rows[i].options[j];
    assert_status(&c, 2);
    assert_holds(&c.err, rows[i].words);
    command_free(&c);
  }
  command missing = {.arguments = {"bench", "--compare", "/no/a.so", "/no/b.so"}};
  assert_status(&missing, 74);
  assert_holds(&missing.err, "/no/a.so");
  assert_holds(&missing.err, "the bench /no/a.so ended with status 74");
  command_free(&missing);
}

/* ---- whole turns ---- */

#define ONE_CALL "responses:\n  - tool_calls: [{id: a, name: shell, arguments: {}}]\n  - text: Done.\n"

/* Each turn plays the script from its beginning, also when several run at once, although the file does not say
 * `repeat`. */
TEST(whole_turns_have_their_phases_requests_and_calls) {
  static const char *const at_once[] = {"1", "4"};
  const char *script = scratch_string("script.yaml", ONE_CALL);
  setenv("TURNPHASE_TEST_DOMAIN", "tools", 1);
  for (int i = 0; i < 2; i++) {
    report r;
    bench(&r, 0,
          (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--script", script, "--turns",
                                "40", "--warm-up", "6", "--concurrency", at_once[i], NULL});
    assert_int_equal(event_int(r.value, "turn.duration_ns.count"), 40);
    assert_int_equal(event_int(r.value, "turn.outcomes.ok"), 40);
    assert_int_equal(event_int(r.value, "turn.model_ns.count"), 40);
    assert_int_equal(event_int(r.value, "turn.tools_ns.count"), 40);
    tp_text shell = find(event_value(r.value, "turn.tools"), "tool", "shell");
    assert_int_equal(event_int(shell, "calls"), 40);
    assert_int_equal(event_int(shell, "failed"), 0);
    assert_int_equal(event_int(shell, "duration_ns.count"), 40);
    tp_text phase = phase_of(&r, "turn.pre_tool_materialization");
    assert_int_equal(event_int(phase, "outcomes.ok"), 40);
    assert_int_equal(event_int(phase, "duration_ns.count"), 40);
    assert_int_equal(event_int(run_of(&r, "turn.pre_tool_materialization", "t.tools"), "calls"), 40);
    assert_true(event_int(phase, "duration_ns.max") <= event_int(r.value, "turn.duration_ns.max"));
    assert_true(event_is(r.value, "settings.script", script) && event_is(r.value, "settings.text", "Hello"));
    report_free(&r);
  }
}

TEST(handlers_after_whole_turns_are_timed) {
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "ledger", 1);
  setenv("TURNPHASE_LEDGER_MS", "2", 1);
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--script",
                              scratch_string("script.yaml", "responses: [{text: Hi.}]"), "--turns", "20", "--warm-up",
                              "5", "--rate", "500", NULL});
  tp_text run = run_of(&r, "turn.post_turn", "t.ledger");
  assert_int_equal(event_int(run, "states.backgrounded"), 20);
  assert_int_equal(event_int(run, "states.succeeded"), 20);
  assert_int_equal(event_int(run, "duration_ns.count"), 20);
  assert_true(event_int(run, "duration_ns.min") >= LEAST_NS);
  assert_int_equal(event_int(r.value, "turn.response_ns.count"), 20);
  assert_true(event_int(r.value, "turn.elapsed_ns") >= 19 * 2000000);
  unsetenv("TURNPHASE_LEDGER_MS");
  report_free(&r);
}

TEST(how_whole_turns_end_is_counted_and_why) {
  const char *script = scratch_string("script.yaml", "responses: [{text: Hi.}]");
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "flaky", 1);
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--script", script, "--turns", "30",
                              "--warm-up", "0", NULL});
  assert_int_equal(event_int(r.value, "turn.outcomes.ok"), 20);
  assert_int_equal(event_int(r.value, "turn.outcomes.denied"), 10);
  assert_int_equal(event_int(phase_of(&r, "turn.intake"), "outcomes.denied"), 10);
  report_free(&r);
  setenv("TURNPHASE_TEST_DOMAIN", "required", 1);
  command c = {
      .arguments = {"bench", "--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--script", script, "--turns", "7"}};
  assert_status(&c, 1);
  assert_holds(&c.out, "7 whole turns after 100 to warm up, one after the other on an engine worker");
  assert_holds(&c.out, "turns/s, 7 failed\n");
  assert_holds(&c.out, "Note: 7 turns failed; the first: ");
  assert_holds(&c.out, "it always does");
  command_free(&c);
}

TEST(what_cannot_be_a_whole_turn_is_refused) {
  static const struct {
    const char *yaml, *options[4], *words;
    int status;
  } rows[] = {
      {"responses: []", {NULL}, "responses is empty: a turn needs one", 78},
      {"responses:\n  - txt: Hi\n", {NULL}, "script.yaml:2:5: ", 78},
      {"responses: [{text: Hi.}]", {"--payload", "x.json"}, "--payload is for bare turns", 2},
      {"responses: [{text: Hi.}]", {"--script", "y.yaml"}, "--script may be given once", 2},
      {NULL, {"--script", "/no/script.yaml"}, "/no/script.yaml: No such file", 74},
      {NULL, {"--text", "Hi"}, "--text is for the turns of --script", 2},
      {NULL, {"--script", "-", "--rounds", "8"}, "--script takes a file here", 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    command c = {.arguments = {"bench", "--no-memory"}};
    int count = 2;
    if (rows[i].yaml) c.arguments[count++] = "--script";
    if (rows[i].yaml) c.arguments[count++] = scratch_string("script.yaml", rows[i].yaml);
    for (int j = 0; j < 4 && rows[i].options[j]; j++) c.arguments[count++] = rows[i].options[j];
    assert_status(&c, rows[i].status);
    assert_holds(&c.err, rows[i].words);
    assert_int_equal(c.out.size, 0);
    command_free(&c);
  }
}

TEST(whole_turns_are_compared) {
  char a[512], b[512];
  snprintf(a, sizeof a, "bench --script '%s'", scratch_string("a.yaml", ONE_CALL));
  snprintf(b, sizeof b, "bench --script '%s'", scratch_string("b.yaml", "responses: [{text: Hi.}]"));
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "tools", 1);
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "15", "--warm-up", "1",
                              "--rounds", "8", "--compare", a, b, NULL});
  assert_true(event_is(row_of(&r, 0), "name", "the whole turn"));
  assert_int_equal(tp_value_count(tp_value_get(row_of(&r, 0), "a_ns")), 8);
  assert_true(find(tp_value_get(r.value, "rows"), "name", "turn.pre_tool_materialization").size > 0);
  report_free(&r);
}

/* ---- how runs end ---- */

TEST(each_way_of_ending_is_counted) {
  static const char *const context = "turn.pre_prompt_context";
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "endings", 1);
  bench(&r, 0, (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "12", NULL});
  assert_int_equal(event_int(run_of(&r, context, "t.done"), "states.succeeded"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.fails"), "states.failed"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.fails"), "reasons.error"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.instead"), "fallbacks"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.again"), "calls"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.again"), "attempts"), 24);
  assert_int_equal(event_int(run_of(&r, context, "t.again"), "states.succeeded"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.never"), "states.timed_out"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.never"), "reasons.timeout"), 12);
  assert_true(event_int(run_of(&r, context, "t.never"), "duration_ns.max") >= 900000); /* its limit is 1 ms */
  assert_int_equal(event_int(run_of(&r, context, "t.skipped"), "calls"), 0);
  assert_int_equal(event_int(run_of(&r, context, "t.skipped"), "states.skipped"), 12);
  assert_int_equal(event_int(run_of(&r, context, "t.skipped"), "reasons.match"), 12);
  assert_int_equal(event_int(run_of(&r, "turn.post_turn", "t.behind"), "states.backgrounded"), 12);
  assert_int_equal(event_int(run_of(&r, "turn.post_turn", "t.behind"), "states.succeeded"), 12);
  assert_int_equal(event_int(run_of(&r, "turn.post_turn", "t.behind"), "calls"), 12);
  assert_int_equal(event_int(run_of(&r, "turn.post_turn", "t.behind"), "duration_ns.count"), 12);
  assert_int_equal(event_int(phase_of(&r, context), "outcomes.ok"), 12);
  report_free(&r);
}

/* Runs that no phase waits for are counted when their turn is measured, however late they end; those of the warm-up
 * turns are not. */
TEST(what_no_phase_waits_for_is_timed) {
  static const char *const at_once[] = {"1", "4"};
  setenv("TURNPHASE_TEST_DOMAIN", "ledger", 1);
  setenv("TURNPHASE_LEDGER_MS", "2", 1);
  for (int i = 0; i < 2; i++) {
    report r;
    bench(&r, 0,
          (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "30", "--warm-up", "7",
                                "--concurrency", at_once[i], NULL});
    tp_text run = run_of(&r, "turn.post_turn", "t.ledger");
    assert_int_equal(event_int(run, "calls"), 30);
    assert_int_equal(event_int(run, "attempts"), 30);
    assert_int_equal(event_int(run, "states.backgrounded"), 30);
    assert_int_equal(event_int(run, "states.succeeded"), 30);
    assert_int_equal(event_int(run, "duration_ns.count"), 30);
    assert_int_equal(event_int(run, "wait_ns.count"), 30);
    assert_true(event_int(run, "duration_ns.min") >= LEAST_NS);
    assert_true(event_is(run, "execution", "background"));
    assert_int_equal(event_int(phase_of(&r, "turn.post_turn"), "duration_ns.count"), 30);
    assert_int_equal(event_int(phase_of(&r, "turn.post_turn"), "handlers_ns.max"), 0);
    assert_int_equal(event_int(run_of(&r, "turn.pre_tool_materialization", "t.book"), "calls"), 30);
    report_free(&r);
  }
  unsetenv("TURNPHASE_LEDGER_MS");
}

TEST(people_read_how_runs_ended) {
  command c = {.arguments = {"bench", "--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "4"}};
  setenv("TURNPHASE_TEST_DOMAIN", "endings", 1);
  assert_status(&c, 0);
  assert_holds(&c.out, "4 failed (4 error)\n");
  assert_holds(&c.out, "4 failed (4 error); 4 by fallback\n");
  assert_holds(&c.out, "4 tried again\n");
  assert_holds(&c.out, "4 timed_out (4 timeout)\n");
  assert_holds(&c.out, "4 skipped (4 match)\n");
  assert_holds(&c.out, "4 backgrounded\n");
  command_free(&c);
}

TEST(denied_phases_are_results) {
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "flaky", 1);
  bench(&r, 0,
        (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "30", "--warm-up", "0",
                              NULL});
  assert_int_equal(event_int(phase_of(&r, "turn.intake"), "outcomes.ok"), 20);
  assert_int_equal(event_int(phase_of(&r, "turn.intake"), "outcomes.denied"), 10);
  report_free(&r);
}

TEST(a_phase_that_fails_is_a_negative_answer) {
  static const char *const at_once[] = {"1", "4"};
  setenv("TURNPHASE_TEST_DOMAIN", "required", 1);
  for (int i = 0; i < 2; i++) {
    report r;
    bench(&r, 1,
          (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "9", "--concurrency",
                                at_once[i], NULL});
    assert_int_equal(event_int(phase_of(&r, "turn.pre_policy"), "outcomes.failed"), 9);
    report_free(&r);
  }
}

/* ---- payloads ---- */

TEST(a_payload_reaches_the_phases_that_carry_it) {
  static const char *const at_once[] = {"1", "4"};
  const char *given =
      scratch_string("payload.json", "{\"tool\": \"hammer\", \"arguments\": {\"blows\": 3}, \"closed\": 1}");
  setenv("TURNPHASE_TEST_DOMAIN", "payload", 1);
  for (int i = 0; i < 2; i++) {
    report r;
    bench(&r, 0,
          (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "6", "--payload", given,
                                "--concurrency", at_once[i], NULL});
    assert_int_equal(event_int(phase_of(&r, "tool.pre"), "outcomes.ok"), 6);
    assert_int_equal(event_int(run_of(&r, "session.end", "t.closed"), "states.succeeded"), 6);
    report_free(&r);
  }
}

TEST(without_a_payload_there_is_none) {
  report r;
  setenv("TURNPHASE_TEST_DOMAIN", "payload", 1);
  bench(&r, 0, (const char *const[]){"--load", getenv("TURNPHASE_DOMAIN"), "--no-memory", "--turns", "6", NULL});
  assert_int_equal(event_int(phase_of(&r, "tool.pre"), "outcomes.denied"), 6);
  assert_int_equal(event_int(run_of(&r, "session.end", "t.closed"), "states.failed"), 6);
  report_free(&r);
}

TEST(a_payload_may_be_standard_input) {
  command c = {.arguments = {"bench", "--load", getenv("TURNPHASE_EXAMPLE"), "--phase", "onIntake", "--turns", "4",
                             "--payload", "-"},
               .input = "{\"text\": \"my secret\"}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "4 denied");
  command_free(&c);
}

TEST(wrong_payloads_are_refused_with_their_place) {
  static const struct {
    const char *json, *words;
    int status;
  } rows[] = {
      {"{\"text\": ", "p.json:1:", 78},
      {"{\n  \"text\": \"a\",\n  \"text\": \"b\"\n}", "p.json:3:", 78},
      {"[1, 2]", "p.json: a payload is one object", 78},
      {"{\"words\": \"Hello\"}", "p.json: the field \"words\" is none that a phase carries", 78},
      {"{\"text\": 5}", "p.json: the field \"text\" must be a text", 78},
      {"{\"closed\": \"yes\"}", "p.json: the field \"closed\" must be a whole number", 78},
      {"{\"tool\": \"hammer\"}", "p.json: no phase that is measured carries the field \"tool\"", 78},
      {"\xff", "p.json:1:1: the byte 0xFF is not UTF-8", 78},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *path = scratch_string("p.json", rows[i].json);
    command c = {.arguments = {"bench", "--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--payload", path}};
    assert_status(&c, rows[i].status);
    assert_holds(&c.err, rows[i].words);
    assert_int_equal(c.out.size, 0);
    command_free(&c);
  }
  command missing = {.arguments = {"bench", "--payload", "/no/such/payload.json"}};
  assert_status(&missing, 74);
  assert_holds(&missing.err, "/no/such/payload.json: ");
  command_free(&missing);
}

/* ---- refusals ---- */

/* @param domain  the domain that the test library registers. */
static void assert_refused(const char *library, const char *domain, const char *words) {
  command c = {.arguments = {"bench", "--load", library, "--no-memory"}};
  setenv("TURNPHASE_TEST_DOMAIN", domain, 1);
  assert_status(&c, strncmp(library, "/no/", 4) == 0 ? 74 : 78);
  assert_holds(&c.err, library);
  assert_holds(&c.err, words);
  assert_int_equal(c.out.size, 0);
  command_free(&c);
}

TEST(libraries_that_cannot_be_used_are_refused_with_the_reason) {
  const char *own = getenv("TURNPHASE_DOMAIN");
  assert_refused("/no/such/library.so", "", "cannot open");
  assert_refused(getenv("TURNPHASE_NO_DOMAIN"), "", "does not export tp_domain_export");
  assert_refused(getenv("TURNPHASE_OLD_DOMAIN"), "", "exports tp_domain_register, which does not say");
  assert_refused(own, "refuses", "its licence has run out");
  assert_refused(own, "refuses_silently", "`test` 1.0 refused to register: the call is not allowed here");
  assert_refused(own, "cycle", "t.a -> t.b -> t.a");
  assert_refused(own, "missing", "t.nothing");
}

TEST(what_has_no_subscriptions_is_not_measured) {
  const char *example = getenv("TURNPHASE_EXAMPLE");
  command nothing = {.arguments = {"bench", "--no-memory"}};
  command phase = {
      .arguments = {"bench", "--load", example, "--no-memory", "--phase", "turn.intake", "--phase", "tool.pre"}};
  assert_status(&nothing, 78);
  assert_holds(&nothing.err, "nothing is subscribed: --load a library");
  assert_status(&phase, 78);
  assert_holds(&phase.err, "tool.pre has no subscriptions: --load a library");
  command_free(&nothing);
  command_free(&phase);
}

TEST(a_report_that_cannot_be_written_is_an_error) {
  command c = {.arguments = {"bench", "--turns", "2"}, .output_path = "/dev/full"};
  assert_status(&c, 74);
  assert_holds(&c.err, "No space left on device");
  command_free(&c);
}

/* ---- what people see ---- */

TEST(people_see_tables) {
  static const char *const words[] = {"machine  ",
                                      "build  ",
                                      "measured  7 turns after 3 to warm up, one after the other",
                                      "clock  ",
                                      "runtime  ",
                                      "\nphase ",
                                      "\nturn.intake ",
                                      "\nthe whole turn ",
                                      "\nsubscription ",
                                      "\n  notes.look_up ",
                                      "\nNote: with fewer than 1,000 turns p99.9 is the slowest"};
  command c = {
      .arguments = {"bench", "--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--turns", "7", "--warm-up", "3"}};
  assert_status(&c, 0);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) assert_holds(&c.out, words[i]);
  assert_false(holds(&c.out, "█"));
  assert_false(holds(&c.out, "\033["));
  command_free(&c);
}

/* The numbers after the bars of one histogram, up to an empty line. */
static uint64_t sum_of_bars(const char *text) {
  uint64_t sum = 0;
  for (const char *line = text; *line && *line != '\n'; line = strchr(line, '\n') + 1) {
    const char *end = strchr(line, '\n'), *last = end;
    while (last > line && last[-1] != ' ') last--;
    if (end > last && *last >= '0' && *last <= '9') sum += strtoull(last, NULL, 10);
  }
  return sum;
}

TEST(histograms_hold_every_turn) {
  static const char *const which[] = {"phases", "all"};
  for (int i = 0; i < 2; i++) {
    command c = {.arguments = {"bench", "--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "--turns", "400",
                               "--phase", "turn.intake", "--histogram", which[i]}};
    assert_status(&c, 0);
    const char *phase = strstr(c.out.data, "\n\nturn.intake\n"), *run = strstr(c.out.data, "\n\n  notes.guard\n");
    assert_non_null(phase);
    assert_int_equal(sum_of_bars(strchr(phase + 2, '\n') + 1), 400);
    assert_int_equal(run != NULL, i == 1);
    if (run) assert_int_equal(sum_of_bars(strchr(run + 2, '\n') + 1), 400);
    command_free(&c);
  }
}

TEST(the_memory_domain_is_measured_unless_it_is_left_out) {
  report r;
  bench(&r, 0, (const char *const[]){"--turns", "3", "--phase", "turn.pre_policy", NULL});
  assert_int_equal(event_int(run_of(&r, "turn.pre_policy", "memory.policy_classifier"), "calls"), 3);
  report_free(&r);
}

/* The same library gives the same plan. */
TEST(plan_shows_what_bench_measures) {
  command c = {.arguments = {"plan", "--load", getenv("TURNPHASE_EXAMPLE"), "--no-memory", "turn.pre_prompt_context"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "notes.look_up");
  assert_holds(&c.out, "notes.count");
  command_free(&c);
}
