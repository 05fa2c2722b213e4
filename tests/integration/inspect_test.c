/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator's commands about a turn: time, blame, critical-chain, explain and plot, with the data directory of the
 * demonstration. */
#include <sqlite3.h>
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

static char data[512];

static int play(void **state) {
  char model[4096], conversation[4096];
  const char *source = getenv("TURNPHASE_SOURCE"), *domain = getenv("TURNPHASE_DEMO");
  if (scratch_make(state) != 0) return -1;
  snprintf(data, sizeof data, "%s/kept", scratch);
  snprintf(model, sizeof model, "%s/examples/demo/model.yaml", source);
  snprintf(conversation, sizeof conversation, "%s/examples/demo/conversation.yaml", source);
  command c = {.arguments = {"run", "--load", domain, "--script", model, "--data", data, conversation}};
  assert_status(&c, 0);
  command_free(&c);
  return 0;
}

FOR_ALL_TESTS(play, scratch_remove);

static command run_on(const char *directory, const char *what, const char *turn, const char *option) {
  command c = {.arguments = {what, directory, turn, option}};
  assert_status(&c, 0);
  return c;
}

/* The line that holds both words. */
static bool line_holds(const bytes *b, const char *first, const char *second) {
  for (const char *at = b->data; (at = strstr(at, first)) != NULL; at++) {
    const char *end = strchr(at, '\n'), *found = strstr(at, second);
    if (found && (!end || found < end)) return true;
  }
  return false;
}

static void assert_line(const command *c, const char *first, const char *second) {
  if (!line_holds(&c->out, first, second))
    print_message("# no line with \"%s\" and \"%s\": %s\n", first, second, c->out.data);
  assert_true(line_holds(&c->out, first, second));
}

/* ---- the demonstration ---- */

TEST(explain_names_the_late_handler_and_the_guard_that_denied) {
  command c = run_on(data, "explain", "rooms-1", NULL);
  assert_line(&c, "trip.events", "timed_out");
  assert_holds(&c.out, "why: missed its deadline of 60.0 ms by");
  assert_line(&c, "memory.active_recall", "memory.deterministic_recall"); /* after which it ran */
  assert_line(&c, "tool train_times", "call 1 of response 1");
  assert_line(&c, "model request 2, script", "ok");
  assert_line(&c, "memory.post_turn_extractor", "backgrounded");
  assert_holds(&c.out, "after the turn");
  command_free(&c);
  c = run_on(data, "explain", "rooms-2", NULL);
  assert_line(&c, "tool.pre", "denied");
  assert_line(&c, "trip.spending_limit", "deny");
  assert_holds(&c.out, "640 euros are more than the 400");
  assert_holds(&c.out, "why: its match does not fit");
  assert_line(&c, "tool book_room", "denied");
  command_free(&c);
  c = run_on(data, "explain", "dinner-2", NULL);
  assert_line(&c, "dinner-2", "denied");
  assert_line(&c, "trip.surprise", "deny");
  assert_holds(&c.out, "why: the journey is a surprise");
  command_free(&c);
}

/* ---- which call a gate was about, and why it was denied ---- */

static const char calls_model[] =
    "responses:\n"
    "  - tool_calls:\n"
    "      - {id: c1, name: files_read, arguments: {path: prod.env}}\n"
    "      - {id: c2, name: unknown, arguments: {}}\n"
    "      - {id: c3, name: files_write, arguments: {path: notes.txt, text: hi}}\n"
    "      - {id: c4, name: files_read, arguments: {paths: x}}\n"
    "      - {id: c5, name: files_list, arguments: {}}\n"
    "  - tool_calls: [{id: c6, name: files_search, arguments: {text: x}}]\n"
    "  - text: I may not.\n";
static const char calls_talk[] = "{\"session\": \"s\", \"turn\": \"t1\", \"user\": \"Read.\"}\n";
#define WHY_NO_ENV                                                                                      \
  "keys are edited by people who have asked the owner of the service before and who write down in the " \
  "log of the week what they have changed and why"
static const char denies_env[] =
    "id: no_env\nevent_type: tool.pre\nmatch: {arguments: {path: '**.env'}}\n"
    "handler: {kind: deny, reason: " WHY_NO_ENV "}\n";
static const char asks_of_lists[] =
    "id: no_lists\nevent_type: tool.pre\nmatch: {ability_scope: files_list}\nhandler: {kind: ask, reason: lists}\n";
static const char create_hook[] =
    "id: made\nevent_type: tool.create\nmatch: {ability_scope: files_list}\nhandler: {kind: allow}\n";

/* Plays a turn of six calls with these hooks. @return its directory. */
static const char *play_calls(const char *name, const char *more) {
  static char hooks[512], kept[600], path[600];
  snprintf(hooks, sizeof hooks, "%s", scratch_path(name));
  snprintf(kept, sizeof kept, "%s/kept", hooks);
  setenv("XDG_CONFIG_HOME", scratch_path("config"), 1);
  assert_int_equal(mkdir(hooks, 0700), 0);
  const char *const texts[] = {denies_env, asks_of_lists, more};
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%d.yaml", name, i);
    if (texts[i]) scratch_string(path, texts[i]);
  }
  command c = {.arguments = {"hooks", "trust", hooks}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"run", "--script", scratch_string("calls.yaml", calls_model), "--files", hooks,
                              "--files-writes", "allow", "--hooks", hooks, "--data", kept},
                .input = calls_talk};
  command_run(&c);
  assert_holds(&c.out, "    hook no_env blocked the action: " WHY_NO_ENV); /* no line of a pipe is cut */
  command_free(&c);
  return kept;
}

TEST(gates_of_calls_are_shown_with_their_tool_and_denials_with_their_reason) {
  const char *kept = play_calls("gates", NULL);
  command c = run_on(kept, "show", "t1", NULL);
  assert_line(&c, "tool.pre files_read", "denied");
  assert_line(&c, "tool.pre files_write", "ok");
  assert_line(&c, "tool.pre files_search", "ok");
  assert_holds(&c.out, "tool.pre files_list");
  assert_line(&c, "  why ", "keys are edited by people");
  assert_false(holds(&c.out, "tool.pre unknown"));
  command_free(&c);
  c = run_on(kept, "explain", "t1", NULL);
  assert_line(&c, "tool.pre of files_read, call 1 of response 1", "denied");
  assert_holds(&c.out, "tool.pre of files_write, call 3 of response 1");
  assert_holds(&c.out, "tool.pre of files_list, call 5 of response 1");
  assert_holds(&c.out, "tool.pre of files_search, call 1 of response 2");
  command_free(&c);
  c = run_on(kept, "runs", "--phase", "tool.pre");
  assert_line(&c, "tool.pre files_read", "deny");
  assert_line(&c, "tool.pre files_list", "ask");
  command_free(&c);
  c = run_on(kept, "runs", "--json", NULL);
  assert_line(&c, "\"tool\":\"files_read\"", "keys are edited by people");
  assert_line(&c, "\"ids\":{\"turn\":\"tools-listed\"}", "");
  assert_false(line_holds(&c.out, "\"tool\":\"files_write\"", "\"why\":"));
  command_free(&c);
}

TEST(gate_after_another_gate_is_shown_with_its_tool) {
  const char *kept = play_calls("made", create_hook);
  command c = run_on(kept, "show", "t1", NULL);
  assert_line(&c, "tool.pre files_read", "denied");
  assert_line(&c, "tool.pre files_write", "ok");
  assert_line(&c, "  why ", "keys are edited by people");
  command_free(&c);
  c = run_on(kept, "explain", "t1", "--json");
  assert_holds(&c.out, "\"phase\":\"tool.pre\",\"tool\":\"files_list\",\"round\":1,\"place\":4,");
  command_free(&c);
}

TEST(session_is_shown_with_its_calls_in_their_place) {
  const char *kept = play_calls("said", NULL);
  command c = {.arguments = {"sessions", "show", kept, "s"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "user: Read.\nassistant calls files_read {\"path\":\"prod.env\"}\n");
  assert_line(&c, "tool files_read: ", "keys are edited by people");
  assert_false(holds(&c.out, "assistant\n"));
  command_free(&c);
  c = (command){.arguments = {"sessions", "list", kept}};
  assert_status(&c, 0);
  assert_holds(&c.out, "  s  ");
  assert_ptr_equal(strchr(c.out.data, '\n'), c.out.data + c.out.size - 1); /* a line, and no other session */
  command_free(&c);
}

static tp_text parse(const command *c, tp_writer **ret_writer) {
  tp_text value;
  tp_fault fault = {0};
  assert_int_equal(tp_writer_new(NULL, ret_writer), TP_OK);
  assert_int_equal(tp_json_decode((tp_text){c->out.data, c->out.size}, *ret_writer, &fault), TP_OK);
  assert_int_equal(tp_writer_finish(*ret_writer, &value), TP_OK);
  return value;
}

static tp_text member(tp_text list, const char *key, const char *is) {
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk);)
    if (tp_text_is(tp_value_text(tp_value_get(walk.value, key)), is)) return walk.value;
  return (tp_text){NULL, 0};
}

TEST(blame_names_the_slowest_tool_and_the_late_handler_first) {
  command c = run_on(data, "blame", "rooms-1", "--json");
  tp_writer *writer;
  tp_text value = parse(&c, &writer), list = tp_value_get(value, "blame");
  tp_text slowest = member(list, "what", "tool"); /* the first of them */
  assert_true(tp_text_is(tp_value_text(tp_value_get(slowest, "name")), "train_times"));
  tp_text late = member(list, "name", "trip.events");
  assert_true(tp_text_is(tp_value_text(tp_value_get(late, "outcome")), "timed_out"));
  assert_true(tp_value_int(tp_value_get(late, "duration_ns"), 0) > 0);
  assert_true(tp_value_int(tp_value_get(late, "queued_ns"), 0) > 0);
  int64_t before = INT64_MAX;
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk);) {
    int64_t sum = tp_value_int(tp_value_get(walk.value, "duration_ns"), -1) +
                  tp_value_int(tp_value_get(walk.value, "queued_ns"), -1);
    assert_true(sum >= 0 && sum <= before);
    before = sum;
  }
  tp_writer_free(writer);
  command_free(&c);
  c = run_on(data, "blame", "rooms-2", NULL);
  assert_line(&c, "trip.spending_limit", "640 euros are more");
  assert_null(strstr(c.out.data, "trip.events")); /* the handler was not called */
  command_free(&c);
}

TEST(time_splits_the_turn_into_parts_that_add_up) {
  static const char *const parts[] = {"phases_ns", "model_ns", "tools_ns", "history_ns", "rest_ns"};
  command c = run_on(data, "time", "rooms-1", "--json");
  tp_writer *writer;
  tp_text value = parse(&c, &writer);
  int64_t sum = 0;
  for (size_t i = 0; i < 5; i++) sum += tp_value_int(tp_value_get(value, parts[i]), INT64_MIN / 8);
  assert_int_equal(sum, tp_value_int(tp_value_get(value, "duration_ns"), 0));
  assert_true(tp_value_int(tp_value_get(value, "tools_ns"), 0) >= 75000000);
  tp_text gates = member(tp_value_get(value, "phases"), "phase", "tool.post");
  assert_true(tp_value_bool(tp_value_get(gates, "in_tools"), false));
  assert_int_equal(tp_value_int(tp_value_get(gates, "runs"), 0), 3);
  tp_text job = member(tp_value_get(value, "detached"), "subscription", "memory.post_turn_extractor");
  assert_true(tp_value_int(tp_value_get(job, "duration_ns"), 0) > 0);
  assert_true(tp_text_is(tp_value_text(tp_value_get(job, "phase")), "turn.post_turn"));
  tp_writer_free(writer);
  command_free(&c);
  c = run_on(data, "time", "rooms-1", NULL);
  assert_line(&c, "memory.post_turn_extractor", "of turn.post_turn");
  assert_line(&c, "tools", "3 calls");
  assert_holds(&c.out, "turn.pre_prompt_context\n");
  command_free(&c);
}

/* The chain goes from the end of the turn to its beginning, and no link begins before the one below it has ended. */
TEST(critical_chain_leads_from_the_end_to_the_begin) {
  command c = run_on(data, "critical-chain", "rooms-1", "--json");
  tp_writer *writer;
  tp_text value = parse(&c, &writer), chain = tp_value_get(value, "chain");
  int64_t before = INT64_MAX, covered = 0;
  for (tp_value_walk walk = {0}; tp_value_next(chain, &walk);) {
    int64_t at = tp_value_int(tp_value_get(walk.value, "at_ns"), -1);
    int64_t duration_ns = tp_value_int(tp_value_get(walk.value, "duration_ns"), -1);
    assert_true(at >= 0 && duration_ns >= 0 && at + duration_ns <= before);
    before = at;
    covered += duration_ns;
  }
  assert_true(covered * 10 >= tp_value_int(tp_value_get(value, "duration_ns"), 0) * 5);
  tp_text context = member(chain, "phase", "turn.pre_prompt_context");
  assert_int_equal(tp_value_count(tp_value_get(context, "chain")), 1);
  assert_true(member(tp_value_get(context, "chain"), "subscription", "trip.events").size > 0);
  assert_true(member(chain, "step", "train_times").size > 0);
  assert_int_equal(member(chain, "step", "weather").size, 0); /* the turn did not wait for it */
  tp_writer_free(writer);
  command_free(&c);
  c = run_on(data, "critical-chain", "rooms-1", NULL);
  assert_line(&c, "train_times @", "+");
  command_free(&c);
}

/* ---- plot ---- */

static size_t count_in(const bytes *b, const char *what) {
  size_t count = 0;
  for (const char *at = b->data; (at = strstr(at, what)) != NULL; at++) count++;
  return count;
}

static command plot(const char *directory, const char *turn, const char *format) {
  command c = {.arguments = {"plot", directory, turn, "--format", format}};
  assert_status(&c, 0);
  return c;
}

TEST(picture_has_lanes_bars_and_what_went_wrong) {
  static const char *const formats[] = {"html", "svg"};
  static const char *const words[] = {"phases",
                                      ">turn thread<",
                                      ">thread ",
                                      ">model<",
                                      ">tools 1<",
                                      ">tools 3<",
                                      ">history<",
                                      ">after the turn<",
                                      ">trip.events<",
                                      ">train_times<",
                                      ">turn.pre_prompt_context<",
                                      "missed its deadline of 60.0 ms",
                                      "prefers-color-scheme:dark",
                                      "class=\"bar handler bad\"",
                                      "class=\"deadline\""};
  for (size_t i = 0; i < 2; i++) {
    command c = plot(data, "rooms-1", formats[i]);
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) assert_holds(&c.out, words[w]);
    assert_true(count_in(&c.out, ">thread ") >= 2); /* two handlers at once */
    assert_int_equal(count_in(&c.out, "<g class=\"bar tool"), 3);
    assert_int_equal(count_in(&c.out, "<g class=\"bar model"), 2);
    assert_int_equal(count_in(&c.out, "<g class=\"bar handler bad\""), 1);
    assert_int_equal(count_in(&c.out, "://"), count_in(&c.out, "http://www.w3.org/2000/svg")); /* the page loads nothing
                                                                                                  from elsewhere */
    assert_int_equal(count_in(&c.out, "<script>"), i == 0);
    command_free(&c);
  }
}

/* Bars of one lane do not overlap. */
TEST(bars_lie_in_lanes_where_there_is_space) {
  command c = plot(data, "rooms-1", "chrome-trace");
  tp_writer *writer;
  tp_text list = tp_value_get(parse(&c, &writer), "traceEvents");
  double until[64] = {0};
  char lane_names[64][32] = {""};
  int64_t threads[64] = {0}; /* the thread that ran the bars of the lane */
  size_t bars = 0, deadlines = 0, names = 0;
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk);) {
    tp_text ph = tp_value_text(tp_value_get(walk.value, "ph"));
    size_t lane = (size_t)tp_value_int(tp_value_get(walk.value, "tid"), 0);
    double ts = tp_value_double(tp_value_get(walk.value, "ts"), -1);
    assert_in_range(lane, 1, 63);
    deadlines += tp_text_is(ph, "i");
    tp_text args = tp_value_get(walk.value, "args"), name = tp_value_text(tp_value_get(args, "name"));
    bool names_lane = tp_text_is(tp_value_text(tp_value_get(walk.value, "name")), "thread_name");
    names += names_lane;
    if (names_lane) snprintf(lane_names[lane], sizeof lane_names[lane], "%.*s", (int)name.size, name.data);
    if (!tp_text_is(ph, "X")) continue;
    int64_t thread = tp_value_int(tp_value_get(args, "thread"), 0);
    if (thread > 0) threads[lane] = thread;
    assert_true(ts >= until[lane] - 0.001);
    until[lane] = ts + tp_value_double(tp_value_get(walk.value, "dur"), -1);
    assert_true(until[lane] >= ts);
    bars++;
  }
  assert_in_range(deadlines, 1, 3); /* most lie far after the turn */
  assert_in_range(names, 10, 20);
  size_t lanes_of_threads = 0;
  for (size_t lane = 1; lane < 64; lane++) {
    char name[32];
    snprintf(name, sizeof name, "thread %d", (int)threads[lane]);
    bool is_thread = strncmp(lane_names[lane], "thread ", 7) == 0;
    if (is_thread) assert_string_equal(lane_names[lane], name);
    lanes_of_threads += is_thread;
  }
  assert_in_range(lanes_of_threads, 2, 12);
  assert_true(bars > 25);
  tp_text late = member(list, "name", "trip.events"), why = tp_value_get(tp_value_get(late, "args"), "why");
  assert_true(tp_value_text(why).size > 20);
  tp_writer_free(writer);
  command_free(&c);
}

static void sql(const char *directory, const char *statements) {
  char path[600];
  sqlite3 *db = NULL;
  snprintf(path, sizeof path, "%s/turnphase.db", directory);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static const char *copy_of_data(const char *name) {
  char line[1200];
  const char *path = scratch_path(name);
  snprintf(line, sizeof line, "cp -r '%s' '%s'", data, path);
  assert_int_equal(system(line), 0);
  return path;
}

/* The limit of a Deadline execution counts from ready, other limits from the call. A denial is shown with the run that
 * denied. */
TEST(slack_and_reasons_are_those_of_the_run) {
  const char *path = copy_of_data("exact");
  sql(path,
      "UPDATE run SET queued_ns = 1000000000, started_ns = 1010000000, ended_ns = 1075000000, late_ns = 0"
      " WHERE subscription = 'trip.events' AND state = 5;"
      "UPDATE run SET started_ns = queued_ns + 7000000, ended_ns = queued_ns + 9000000, limit_ms = 10"
      " WHERE subscription = 'memory.deterministic_recall';"
      "INSERT INTO audit SELECT 1000, process, unix_ms, 501, 5, 0, 0, 3, 0, 0, 'trip', 'denial',"
      " 'not of this run', 'rooms-1', '', '', 'trip.surprise' FROM audit WHERE turn = 'rooms-1' LIMIT 1");
  command c = run_on(path, "explain", "rooms-1", "--json");
  tp_writer *writer;
  tp_text phase = member(tp_value_get(parse(&c, &writer), "phases"), "phase", "turn.pre_prompt_context");
  tp_text runs = tp_value_get(phase, "subscriptions"), late = member(runs, "subscription", "trip.events");
  assert_int_equal(tp_value_int(tp_value_get(late, "slack_ns"), 0), -15000000);
  assert_int_equal(tp_value_int(tp_value_get(late, "queued_ns"), 0), 10000000);
  assert_int_equal(tp_value_int(tp_value_get(late, "ran_ns"), 0), 65000000);
  assert_true(tp_text_is(tp_value_text(tp_value_get(late, "why")), "missed its deadline of 60.0 ms by 15.0 ms"));
  tp_text blocking = member(runs, "subscription", "memory.deterministic_recall");
  assert_int_equal(tp_value_int(tp_value_get(blocking, "slack_ns"), 0), 8000000);
  assert_null(strstr(c.out.data, "not of this run"));
  assert_holds(&c.out, "\"model\":\"script\"");
  tp_writer_free(writer);
  command_free(&c);
}

/* A call whose arguments a person changed has gates that no step names. */
TEST(gate_that_no_step_names_is_that_of_the_only_call_of_its_response) {
  const char *kept = play_calls("unnamed", NULL);
  sql(kept, "UPDATE step SET entry_id = 0");
  command c = run_on(kept, "show", "t1", NULL);
  assert_line(&c, "tool.pre files_search", "ok");
  assert_false(holds(&c.out, "tool.pre files_read"));
  assert_false(holds(&c.out, "tool.pre files_list"));
  command_free(&c);
  sql(kept, "UPDATE turn SET steps_dropped = 1");
  c = run_on(kept, "explain", "t1", NULL);
  assert_false(holds(&c.out, "tool.pre of "));
  command_free(&c);
}

/* One subscription may deny in two phases of a turn: the newer denial belongs to the other phase. */
TEST(reason_is_that_of_the_phase_that_denied) {
  const char *kept = play_calls("phases", NULL);
  sql(kept,
      "CREATE TEMP TABLE other AS SELECT * FROM audit WHERE action = 'denial' AND subscription = 'no_env';"
      "UPDATE other SET row = (SELECT max(row) + 1 FROM audit), phase = 5, detail = 'of another phase';"
      "INSERT INTO audit SELECT * FROM other");
  command c = run_on(kept, "show", "t1", NULL);
  assert_line(&c, "  why ", "keys are edited by people");
  assert_false(holds(&c.out, "of another phase"));
  command_free(&c);
  c = run_on(kept, "explain", "t1", NULL);
  assert_line(&c, "why: ", "keys are edited by people");
  assert_false(holds(&c.out, "of another phase"));
  command_free(&c);
}

/* Names come from handlers and models, so they must not act as markup or as control characters of a terminal. */
TEST(names_in_a_picture_are_text) {
  const char *hostile = copy_of_data("hostile");
  sql(hostile,
      "UPDATE run SET late_ns = ended_ns + 5000000, subscription = '</title></text><script>alert(1)</script>\"''&'"
      " WHERE subscription = 'trip.events'; UPDATE step SET name = '<img src=x onerror=a>' || char(27) ||"
      " char(8238) WHERE name = 'train_times'; UPDATE turn SET turn = '<b>', reason = '</p><script>'"
      " WHERE turn = 'rooms-1'; UPDATE entry SET turn = '<b>' WHERE turn = 'rooms-1'");
  static const char *const formats[] = {"html", "svg"};
  for (size_t i = 0; i < 2; i++) {
    command c = plot(hostile, "<b>", formats[i]);
    assert_int_equal(count_in(&c.out, "<script>"), i == 0);
    assert_null(strstr(c.out.data, "<img"));
    assert_int_equal(count_in(&c.out, "<rect class=\"late\""), 1);
    assert_holds(&c.out, "its answer came 5.00 ms later and was discarded");
    assert_null(strstr(c.out.data, "turn <b>"));
    assert_holds(&c.out, "&lt;/title&gt;&lt;/text&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;");
    assert_holds(&c.out, "&lt;img src=x onerror=a&gt; &lt;U+202E&gt;");
    assert_null(strchr(c.out.data, 27));
    command_free(&c);
  }
  static const char *const commands[] = {"explain", "blame", "critical-chain", "time"};
  for (size_t i = 0; i < 4; i++) {
    command c = run_on(hostile, commands[i], "<b>", NULL);
    assert_null(strchr(c.out.data, 27));
    assert_null(strstr(c.out.data, "\xE2\x80\xAE"));
    command_free(&c);
  }
}

TEST(picture_is_written_where_it_is_asked_for) {
  const char *path = scratch_path("turn.html");
  struct stat made;
  command c = {.arguments = {"plot", data, "rooms-2", "-o", path}};
  assert_status(&c, 0);
  assert_int_equal(c.out.size, 0);
  assert_holds(&c.err, "the turn is drawn in ");
  assert_int_equal(stat(path, &made), 0);
  assert_true(made.st_size > 10000);
  command_free(&c);
  c = (command){.arguments = {"plot", data, "rooms-2", "-o", "/no/such/place.html"}};
  assert_status(&c, 74);
  assert_holds(&c.err, "/no/such/place.html");
  assert_false(holds(&c.err, "standard output"));
  command_free(&c);
}

/* ---- data directories as they are found ---- */

static const char *const all_commands[] = {"time", "blame", "critical-chain", "explain", "plot"};
enum { COMMANDS = sizeof all_commands / sizeof all_commands[0] };

static void assert_all(const char *directory, const char *turn, int status, const char *said) {
  for (size_t i = 0; i < COMMANDS; i++) {
    command c = {.arguments = {all_commands[i], directory, turn}};
    assert_status(&c, status);
    if (said) assert_holds(status ? &c.err : &c.out, said);
    if (status) assert_int_equal(c.out.size, 0);
    command_free(&c);
  }
}

TEST(wrong_words_are_refused_with_what_helps) {
  const char *newer = copy_of_data("newer"), *none = scratch_path("none");
  sql(newer, "PRAGMA user_version = 99");
  assert_int_equal(mkdir(none, 0700), 0);
  assert_all(data, "no-such-turn", 1, "there is no turn 'no-such-turn'");
  assert_all(data, NULL, 2, "needs a data directory and a turn");
  assert_all(data, "", 2, "needs a data directory and a turn"); /* and not the runs of all turns as if they were one */
  assert_all(newer, "rooms-1", 78, "use the turnphase that wrote it");
  assert_all(none, "rooms-1", 74, "nothing was kept here: there is no turnphase.db; give the directory");
  assert_all("/no/such/place", "rooms-1", 74, "--data");
  command c = {.arguments = {"plot", data, "rooms-1", "--format", "png"}};
  assert_status(&c, 2);
  assert_holds(&c.err, "html, svg or chrome-trace");
  command_free(&c);
  c = (command){.arguments = {"explain", data, "rooms-1", "--session", "first-ideas"}};
  assert_status(&c, 1);
  assert_holds(&c.err, "in session first-ideas");
  command_free(&c);
}

/* The message names what was searched, where, and a command that helps. */
TEST(negative_answers_name_the_place_and_the_remedy) {
  static const struct {
    const char *arguments[6];
    int status;
    const char *says[3];
  } cases[] = {
      {{"sessions", "show", "DATA", "nosuch"}, 1, {"there is no session nosuch in ", "see: turnphase sessions list "}},
      {{"jobs", "show", "DATA", "99999"}, 1, {"there is no job 99999 in ", "see: turnphase jobs list "}},
      {{"ask", "answer", "DATA", "99", "allow"}, 1, {"there is no question 99 in ", "see: turnphase ask list "}},
      {{"ask", "answer", "DATA", "1", "perhaps"}, 2, {"allow or deny, not 'perhaps'"}},
      {{"ask", "answer", "DATA", "one", "allow"}, 2, {"the number of a question", "not 'one'"}},
      {{"jobs", "list", "DATA"}, 0, {"no job in ", "/turnphase.db waits, runs or is dead"}},
      {{"jobs", "list", "DATA", "--state", "dead"}, 0, {"no job in ", "turnphase.db fits"}},
      {{"runs", "DATA", "--turn", "nosuch"}, 0, {"no run in ", "turnphase.db fits"}},
      {{"audit", "DATA", "--handler", "nosuch"}, 0, {"no row of the audit in ", "turnphase.db fits"}},
      {{"hooks", "stats", "DATA", "--since", "1s"}, 0, {"no hook ran in ", "turnphase.db in that time"}},
      {{"jobs", "lst", "DATA"}, 2, {"jobs has no action 'lst'; did you mean 'list'?", "show, redrive or discard"}},
      {{"memory", "lst", "DATA"}, 2, {"memory has no action 'lst'; did you mean 'list'?", "export, import or stats"}},
      {{"ask", "lst", "DATA"}, 2, {"ask has no action 'lst'; did you mean 'list'?", "list or answer"}},
      {{"tool", "call", "nosuch", "--files", "."}, 78, {"nosuch: unknown_tool", "see: turnphase tool list"}},
      {{"plot", "DATA", "rooms-1", "-o", "/no/such/x.html"}, 74, {"/no/such/x.html: No such file"}},
      {{"worker", "/no/such", "--until-empty"}, 74, {"/no/such: No such file", "give the directory that run --data"}},
      {{"runs", "DATA/turnphase.db"}, 74, {"Not a directory; give the directory that run --data was given"}},
      {{"mcp", "serve", "--http", "10.0.0.1:80"}, 78, {"set --keys, or listen on 127.0.0.1"}},
      {{"exit-status", "--verison"}, 2, {"exit-status does not take '--verison'"}},
      {{"run", "--scritp", "x.yaml"}, 2, {"did you mean '--script'?", "see: turnphase run --help"}},
      {{"pln"}, 2, {"there is no command 'pln'; did you mean 'plan'?"}},
      {{"--version", "extra"}, 2, {"--version does not take 'extra'"}},
  };
  char file[600];
  snprintf(file, sizeof file, "%s/turnphase.db", data);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    command c = {0};
    for (size_t k = 0; k < 6 && cases[i].arguments[k]; k++) {
      const char *word = cases[i].arguments[k];
      c.arguments[k] = strcmp(word, "DATA") == 0 ? data : strcmp(word, "DATA/turnphase.db") == 0 ? file : word;
    }
    assert_status(&c, cases[i].status);
    for (size_t k = 0; k < 3 && cases[i].says[k]; k++) assert_holds(&c.err, cases[i].says[k]);
    if (strstr(c.err.data, "tp_")) fail_msg("a name of C: %s", c.err.data);
    command_free(&c);
  }
}

TEST(turn_of_a_directory_that_cannot_be_written_is_shown) {
  char line[1200];
  const char *path = copy_of_data("read-only");
  assert_int_equal(chmod(scratch, 0755), 0);
  snprintf(line, sizeof line, "chmod 444 '%s'/* && chmod 555 '%s'", path, path);
  assert_int_equal(system(line), 0);
  snprintf(line, sizeof line, "%s '%s' explain '%s' rooms-1 | grep -q 'missed its deadline'",
           geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups" : "", getenv("TURNPHASE"), path);
  assert_int_equal(system(line), 0);
  snprintf(line, sizeof line, "%s '%s' jobs discard '%s' 1 2>&1 | grep -q 'cannot be written'",
           geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups" : "", getenv("TURNPHASE"), path);
  assert_int_equal(system(line), 0);
  snprintf(line, sizeof line, "chmod 755 '%s'", path);
  assert_int_equal(system(line), 0);
}

/* The record is read while the process lives, and after it was killed. */
TEST(turn_that_has_not_ended_is_shown_as_far_as_it_came) {
  const char *path = copy_of_data("killed");
  sql(path,
      "DELETE FROM turn WHERE turn = 'rooms-1'; DELETE FROM entry WHERE turn = 'rooms-1' AND phase <> 7;"
      "UPDATE entry SET ended_ns = 0 WHERE turn = 'rooms-1'; UPDATE run SET state = 2, ended_ns = 0, late_ns = 0"
      " WHERE subscription = 'trip.events' AND state = 5");
  assert_all(path, "rooms-1", 0, NULL);
  command c = run_on(path, "explain", "rooms-1", NULL);
  assert_line(&c, "turn rooms-1", "not ended");
  assert_line(&c, "trip.events", "running");
  assert_line(&c, "turn.pre_prompt_context", "running");
  command_free(&c);
  c = plot(path, "rooms-1", "html");
  assert_holds(&c.out, ">trip.events<");
  command_free(&c);
  sql(path, "UPDATE entry SET status = 504 WHERE ended_ns = 0; UPDATE run SET state = 8 WHERE state = 2");
  c = run_on(path, "explain", "rooms-1", NULL);
  assert_line(&c, "trip.events", "interrupted");
  assert_holds(&c.out, "its process ended while it ran");
  command_free(&c);
}

/* Another process is in the middle of a write, and none of the commands waits for it. */
TEST(turn_is_shown_beside_a_process_that_writes) {
  const char *path = copy_of_data("live");
  char file[600];
  sqlite3 *db = NULL;
  snprintf(file, sizeof file, "%s/turnphase.db", path);
  assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE; DELETE FROM turn; DELETE FROM entry", NULL, NULL, NULL),
                   SQLITE_OK);
  double began = command_seconds();
  assert_all(path, "rooms-1", 0, NULL);
  assert_true(command_seconds() - began < 4);
  sqlite3_close(db);
}

/* A process is killed in the middle of a turn: everything that had ended before is shown. */
TEST(directory_of_a_killed_process_is_read) {
  char model[4096], conversation[4096], piece[4096];
  const char *source = getenv("TURNPHASE_SOURCE"), *path = scratch_path("struck");
  bytes out = {0};
  int ends[3], status;
  snprintf(model, sizeof model, "%s/examples/demo/model.yaml", source);
  snprintf(conversation, sizeof conversation, "%s/examples/demo/conversation.yaml", source);
  command c = {
      .arguments = {"run", "--load", getenv("TURNPHASE_DEMO"), "--script", model, "--data", path, conversation}};
  bytes_add(&out, "", 0);
  pid_t child = command_spawn(&c, ends);
  while (!strstr(out.data, "train_times, begins")) {
    struct pollfd polls = {.fd = ends[1], .events = POLLIN};
    poll(&polls, 1, COMMAND_LIMIT_S * 1000);
    ssize_t got = read(ends[1], piece, sizeof piece);
    assert_true(got > 0 || (got < 0 && errno == EAGAIN));
    if (got > 0) bytes_add(&out, piece, (size_t)got);
  }
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, &status, 0), child);
  for (int i = 0; i < 3; i++) close(ends[i]);
  free(out.data);
  assert_all(path, "ideas-2", 0, NULL);
  command verify = {.arguments = {"store", "verify", path}};
  assert_status(&verify, 0);
  command_free(&verify);
}

/* ---- runs --follow ---- */

static void read_until(int end, bytes *out, const char *words) {
  char piece[4096];
  while (!strstr(out->data, words)) {
    struct pollfd polls = {.fd = end, .events = POLLIN};
    assert_int_equal(poll(&polls, 1, COMMAND_LIMIT_S * 1000), 1);
    ssize_t got = read(end, piece, sizeof piece);
    assert_true(got > 0 || (got < 0 && errno == EAGAIN));
    if (got > 0) bytes_add(out, piece, (size_t)got);
  }
}

TEST(follow_shows_what_another_process_writes) {
  const char *path = copy_of_data("followed");
  bytes out = {0};
  int ends[3], status;
  bytes_add(&out, "", 0);
  command follow = {.arguments = {"runs", path, "--follow", "--json", "--handler", "memory.policy_classifier"}};
  pid_t child = command_spawn(&follow, ends);
  command before = {.arguments = {"runs", path, "--follow", "--limit", "3"}, .output_max = 1};
  command_run(&before); /* ends when its reader is gone */
  command_free(&before);
  const char *script = scratch_string("model.yaml", "responses:\n  - text: I see.\n  - text: Yes.\n");
  static const char said[] =
      "{\"session\": \"new\", \"turn\": \"followed-1\", \"user\": \"Hello.\"}\n"
      "{\"session\": \"new\", \"turn\": \"followed-2\", \"user\": \"Are you there?\"}\n";
  command run = {.arguments = {"run", "--script", script, "--data", path}, .input = said};
  assert_status(&run, 0);
  command_free(&run);
  read_until(ends[1], &out, "\"turn\":\"followed-2\"");
  assert_true(strstr(out.data, "followed-1") < strstr(out.data, "followed-2"));
  assert_int_equal(count_in(&out, "\"turn\":\"followed-1\""), 1);
  kill(child, SIGTERM);
  assert_int_equal(waitpid(child, &status, 0), child);
  for (int i = 0; i < 3; i++) close(ends[i]);
  free(out.data);
}

/* The end of a running turn has a row of its own. */
TEST(follow_shows_that_what_ran_has_ended) {
  const char *path = copy_of_data("ending");
  bytes out = {0};
  int ends[3], status;
  sql(path,
      "UPDATE entry SET ended_ns = 0 WHERE number = (SELECT max(number) FROM entry);"
      "UPDATE run SET state = 2 WHERE entry = (SELECT max(number) FROM entry)");
  bytes_add(&out, "", 0);
  command follow = {.arguments = {"runs", path, "--follow", "--json", "--limit", "1"}};
  pid_t child = command_spawn(&follow, ends);
  read_until(ends[1], &out, "\"state\":\"running\"");
  sql(path,
      "BEGIN; UPDATE entry SET ended_ns = started_ns + 5 WHERE ended_ns = 0;"
      "UPDATE run SET state = 4 WHERE entry = (SELECT max(number) FROM entry); COMMIT");
  read_until(ends[1], &out, "\"state\":\"failed\"");
  assert_int_equal(count_in(&out, "\n"), 2);
  kill(child, SIGTERM);
  assert_int_equal(waitpid(child, &status, 0), child);
  for (int i = 0; i < 3; i++) close(ends[i]);
  free(out.data);
}
