/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers of MCP as tools: both eras, calls and their results, lists that change, servers that end and are started
 * again; and a table of hostile servers, each with its expected outcome. After each case no process and no descriptor
 * is left. The servers are tests/support/mcp_server.c. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/inbox.h"
#include "tests/support/json_text.h"
#include "tests/support/json_value.h"
#include "tests/support/leftovers.h"
#include <sys/stat.h>
#include "domains/mcp/session.h"
#include "domains/mcp/stdio.h"
#include "support/text.h"
#include "turnphase/inspect.h"
#include "turnphase/mcp.h"
#include "turnphase/task.h"
#include "turnphase/store.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { WORDS_MAX = 8, TEXT_SIZE = 8192 };

typedef struct world {
  tp_runtime *runtime;
  tp_writer *writer;
  size_t descriptors;
  pthread_mutex_t lock;
  char diagnostics[TEXT_SIZE]; /* under lock; a line each */
  char progress[TEXT_SIZE];    /* of calls; under lock */
  latch progressed;
  /* of the last call */
  char text[TEXT_SIZE], value[TEXT_SIZE], parts[TEXT_SIZE];
  tp_tool_result_kind kind;
  char listing[TEXT_SIZE]; /* names of tools, each with a blank after it */
} world;

static void note(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind == TP_EVENT_TOOL_PROGRESS) {
    pthread_mutex_lock(&w->lock);
    size_t used = strlen(w->progress);
    snprintf(w->progress + used, sizeof w->progress - used, "%g/%g:%.*s ", event->done, event->total,
             (int)event->text.size, event->text.size ? event->text.data : "");
    pthread_mutex_unlock(&w->lock);
    latch_hit(&w->progressed);
  }
  if (event->kind != TP_EVENT_DIAGNOSTIC) return;
  pthread_mutex_lock(&w->lock);
  size_t used = strlen(w->diagnostics);
  snprintf(w->diagnostics + used, sizeof w->diagnostics - used, "%.*s: %.*s\n", (int)event->contribution->key.size,
           event->contribution->key.data, (int)event->contribution->text.size, event->contribution->text.data);
  pthread_mutex_unlock(&w->lock);
}

static int set_up(void **state) {
  static world w;
  w = (world){.lock = PTHREAD_MUTEX_INITIALIZER, .progressed = LATCH};
  if (!getenv("TURNPHASE_MCP_SERVER")) fail_msg("TURNPHASE_MCP_SERVER is not set");
  snprintf(marker, sizeof marker, "MCP_MARKER=%d-%lld", (int)getpid(), (long long)now_ns());
  w.descriptors = open_descriptors();
  w.runtime = open_runtime(NULL);
  assert_int_equal(tp_writer_new(NULL, &w.writer), TP_OK);
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = note, .ctx = &w};
  assert_int_equal(tp_runtime_listen(w.runtime, &listener, NULL, NULL), TP_OK);
  *state = &w;
  return 0;
}

/* Ends the runtime; nothing is left of it. */
static void end(world *w) {
  if (w->runtime) expect_no_tokens(w->runtime);
  tp_runtime_free(w->runtime);
  w->runtime = NULL;
  assert_int_equal(processes_left(), 0);
  await_descriptors(w->descriptors);
}

static int tear_down(void **state) {
  world *w = *state;
  end(w);
  tp_writer_free(w->writer);
  return 0;
}

FOR_EACH_TEST(set_up, tear_down);

/* @param words  arguments of the server, separated by blanks. */
static tp_status try_add(world *w, const char *name, const char *words, tp_mcp_options options, tp_fault *fault) {
  char copy[512];
  const char *arguments[WORDS_MAX + 2] = {getenv("TURNPHASE_MCP_SERVER")};
  const char *environment[] = {marker, "MCP_OWN=given", NULL};
  size_t count = 1;
  char *rest = NULL;
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word = strtok_r(copy, " ", &rest); word && count <= WORDS_MAX; word = strtok_r(NULL, " ", &rest))
    arguments[count++] = word;
  options.struct_size = sizeof options;
  options.name = name;
  if (!options.arguments) options.arguments = arguments;
  if (!options.environment) options.environment = environment;
  return tp_mcp_add(w->runtime, &options, fault);
}

static void add_server(world *w, const char *name, const char *words, tp_mcp_options options) {
  tp_fault fault = {0};
  if (try_add(w, name, words, options, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static bool list_tool(void *ctx, const tp_tool_listing *listing) {
  world *w = ctx;
  size_t used = strlen(w->listing);
  snprintf(w->listing + used, sizeof w->listing - used, "%s ", listing->tool->name);
  return true;
}

static const char *list(world *w) {
  tp_fault fault = {0};
  w->listing[0] = '\0';
  if (tp_runtime_tools(w->runtime, list_tool, w, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  return w->listing;
}

static void copy_json(char *to, tp_text value) {
  char *json = value.size > 0 ? json_text(value) : strdup("");
  snprintf(to, TEXT_SIZE, "%s", json);
  free(json);
}

static tp_status try_call(world *w, const char *tool, const char *arguments, uint32_t limit_ms) {
  const tp_task_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .limit_ms = limit_ms};
  const tp_task_spec spec = {.struct_size = sizeof spec,
                             .tool = tool,
                             .arguments = json_value(w->writer, arguments),
                             .request = limit_ms ? &request : NULL};
  tp_fault fault = {0};
  tp_status status = tp_task_call(w->runtime, &spec, &result, &fault);
  w->text[0] = w->value[0] = w->parts[0] = '\0';
  if (status != TP_OK) {
    snprintf(w->text, sizeof w->text, "%s", fault.message);
    return status;
  }
  w->kind = result->kind;
  snprintf(w->text, sizeof w->text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  copy_json(w->value, result->value);
  copy_json(w->parts, result->parts);
  tp_task_result_free(result);
  return TP_OK;
}

static const char *call(world *w, const char *tool, const char *arguments) {
  assert_int_equal(try_call(w, tool, arguments, 0), TP_OK);
  return w->text;
}

static void expect_diagnostic(world *w, const char *words) {
  pthread_mutex_lock(&w->lock);
  bool has = strstr(w->diagnostics, words) != NULL;
  pthread_mutex_unlock(&w->lock);
  if (!has) fail_msg("no \"%s\" in: %s", words, w->diagnostics);
}

#define OPTIONS(...) \
  (tp_mcp_options) { __VA_ARGS__ }

#define TOOLS_OF(name)                                                                         \
  "mcp__" name "__change mcp__" name "__die mcp__" name "__echo mcp__" name "__env mcp__" name \
  "__fail "                                                                                    \
  "mcp__" name "__never mcp__" name "__parts mcp__" name "__refuse mcp__" name "__value "

/* ---- good servers ---- */

TEST(a_server_of_each_era_gives_its_tools) {
  static const char *const rows[] = {
      "",          "new",      "version=2024-11-05", "version=2025-03-26", "version=2025-06-18",
      "no-answer", "no-probe", "banner=3",           "stderr=300",         "twice",
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    add_server(w, "one", rows[i], OPTIONS(.start_limit_ms = 2000));
    assert_string_equal(list(w), TOOLS_OF("one"));
    assert_string_equal(call(w, "mcp__one__echo", "{'text':'hi'}"), "hi");
    assert_int_equal(w->kind, TP_TOOL_OK);
    assert_int_equal(tp_mcp_remove(w->runtime, "one", NULL), TP_OK);
    assert_string_equal(list(w), "");
    if (strcmp(rows[i], "banner=3") == 0) expect_diagnostic(w, "wrote what is no message");
    end(w);
    w->runtime = open_runtime(NULL);
    const tp_listener listener = {.struct_size = sizeof listener, .on_event = note, .ctx = w};
    assert_int_equal(tp_runtime_listen(w->runtime, &listener, NULL, NULL), TP_OK);
  }
}

TEST(what_a_tool_answers_is_an_answer) {
  world *w = *state;
  add_server(w, "s", "", OPTIONS(0));
  assert_string_equal(call(w, "mcp__s__fail", "{}"), "no such file");
  assert_int_equal(w->kind, TP_TOOL_HANDLER_ERROR);
  assert_non_null(strstr(call(w, "mcp__s__refuse", "{}"), "refused the call: not like this (code -32602)"));
  assert_int_equal(w->kind, TP_TOOL_HANDLER_ERROR);
  assert_string_equal(call(w, "mcp__s__value", "{}"), "{\"rain_mm\":7}");
  assert_string_equal(w->value, "{\"rain_mm\":7}");
  assert_string_equal(call(w, "mcp__s__parts", "{}"),
                      "one\ntwo\n[an item that is not base64 with a mimeType is left out: audio]\n"
                      "[an item of an unknown type is left out: hologram]");
  assert_string_equal(w->parts,
                      "[{\"image\":\"iVBORw==\",\"media_type\":\"image/png\"},{\"link\":\"file:///r\",\"name\":\"r\"},"
                      "{\"file\":\"aW5zaWRl\",\"uri\":\"file:///t\",\"media_type\":\"text/plain\"}]");
  assert_int_equal(try_call(w, "mcp__s__echo", "{}", 0), TP_OK);
  assert_int_equal(w->kind, TP_TOOL_INVALID_ARGUMENTS); /* by the schema of the server */
}

TEST(a_program_gets_few_variables_and_its_own) {
  world *w = *state;
  assert_int_equal(setenv("MCP_SECRET", "1", 1), 0);
  add_server(w, "s", "", OPTIONS(0));
  assert_string_equal(call(w, "mcp__s__env", "{'text':'MCP_OWN'}"), "given");
  assert_string_equal(call(w, "mcp__s__env", "{'text':'MCP_SECRET'}"), "(none)");
  assert_string_equal(call(w, "mcp__s__env", "{'text':'PATH'}"), getenv("PATH"));
  unsetenv("MCP_SECRET");
}

TEST(a_program_is_found_in_path) {
  world *w = *state;
  char path[4096];
  const char *file = getenv("TURNPHASE_MCP_SERVER"), *slash = strrchr(file, '/');
  snprintf(path, sizeof path, "PATH=/nowhere:%.*s", (int)(slash - file), file);
  const char *environment[] = {marker, path, NULL}, *arguments[] = {slash + 1, NULL};
  add_server(w, "s", "", OPTIONS(.arguments = arguments, .environment = environment));
  assert_string_equal(call(w, "mcp__s__echo", "{'text':'found'}"), "found");
}

static bool has_type(void *ctx, const tp_tool_listing *listing) {
  bool *all = ctx;
  *all = *all && (listing->tool->schema.size == 0 ||
                  tp_text_is(tp_value_text(tp_value_get(listing->tool->schema, "type")), "object"));
  return true;
}

TEST(a_schema_without_a_type_is_one_of_an_object) {
  world *w = *state;
  bool all = true;
  add_server(w, "s", "", OPTIONS(0));
  assert_int_equal(tp_runtime_tools(w->runtime, has_type, &all, NULL, NULL), TP_OK);
  assert_true(all);
}

TEST(allow_and_deny_choose_tools) {
  static const char *const allow[] = {"e*", "f*"}, *const deny[] = {"env"};
  world *w = *state;
  add_server(w, "s", "", OPTIONS(.allow = allow, .allow_count = 2, .deny = deny, .deny_count = 1));
  assert_string_equal(list(w), "mcp__s__echo mcp__s__fail ");
}

TEST(pages_are_read_in_their_order) {
  world *w = *state;
  add_server(w, "s", "pages=4", OPTIONS(0));
  list(w);
  assert_non_null(strstr(w->listing, "mcp__s__page0 mcp__s__page1 mcp__s__page2 "));
  assert_non_null(strstr(w->listing, "mcp__s__echo "));
}

TEST(a_changed_list_is_that_of_the_next_turn) {
  world *w = *state;
  add_server(w, "s", "", OPTIONS(0));
  assert_null(strstr(list(w), "added"));
  assert_string_equal(call(w, "mcp__s__change", "{}"), "changed");
  for (int round = 0; round < 1000 && !strstr(list(w), "mcp__s__added "); round++) usleep(1000);
  assert_non_null(strstr(w->listing, "mcp__s__added "));
}

TEST(a_server_says_how_far_a_call_is) {
  world *w = *state;
  static const char *const eras[] = {"progress", "new progress"};
  for (size_t i = 0; i < COUNT(eras); i++) {
    w->progress[0] = w->diagnostics[0] = '\0';
    add_server(w, "s", eras[i], OPTIONS(0));
    assert_string_equal(call(w, "mcp__s__echo", "{\"text\": \"done\"}"), "done");
    assert_string_equal(w->progress, "1/4:one 2.5/0: 4/4:Ä ");
    call(w, "mcp__s__echo", "{\"text\": \"again\"}");
    list(w);
    expect_diagnostic(w, "the server s reports progress that is no number from 0");
    assert_null(strstr(strstr(w->diagnostics, "reports progress") + 1, "reports progress")); /* once */
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  }
}

TEST(a_server_may_ask_its_client) {
  world *w = *state;
  add_server(w, "s", "ask", OPTIONS(.workspace = "/work/a b"));
  assert_string_equal(call(w, "mcp__s__echo", "{'text':'after'}"), "after");
}

/* ---- names ---- */

TEST(names_are_for_hooks_and_models) {
  static const char *const rows[] = {"", "a__b", "a b", "a.b", "ä", "012345678901234567890123456789012"};
  world *w = *state;
  tp_fault fault = {0};
  for (size_t i = 0; i < COUNT(rows); i++) {
    assert_int_equal(try_add(w, rows[i], "", OPTIONS(0), &fault), TP_ERR_BAD_ID);
    assert_non_null(strstr(fault.message, "1 to 32 letters"));
  }
  add_server(w, "01234567890123456789012345678901", "", OPTIONS(0));
  assert_non_null(strstr(list(w), "mcp__01234567890123456789012345678901__refuse "));
  assert_int_equal(try_add(w, "01234567890123456789012345678901", "", OPTIONS(0), &fault), TP_ERR_DUPLICATE_ID);
}

TEST(options_that_cannot_be_are_refused) {
  static const char *const program[] = {"x", NULL}, *const none[] = {NULL}, *const empty[] = {"", NULL};
  static const char *const header[] = {"no colon", NULL}, *const lines[] = {"A: b\r\nC: d", NULL};
  static const char *const variable[] = {"NOTHING", NULL}, *const good[] = {"A: b", NULL};
  static const struct {
    tp_mcp_options options;
    const char *words;
  } rows[] = {
      {{.name = "s"}, "exactly one"},
      {{.name = "s", .arguments = program, .url = "http://a"}, "exactly one"},
      {{.name = "s", .arguments = none}, "exactly one"},
      {{.name = "s", .arguments = empty}, "empty name"},
      {{.name = "s", .url = "ftp://a"}, "http://"},
      {{.name = "s", .url = "http://a", .headers = header}, "header 1"},
      {{.name = "s", .url = "http://a", .headers = lines}, "header 1"},
      {{.name = "s", .arguments = program, .headers = good}, "headers are of a url"},
      {{.name = "s", .url = "http://a", .directory = "/"}, "of programs"},
      {{.name = "s", .arguments = program, .environment = variable}, "NAME=value"},
      {{.name = "s", .arguments = program, .start_limit_ms = 300001}, "start_limit_ms"},
      {{.name = "s", .arguments = program, .message_bytes_max = 1u << 30}, "message_bytes_max"},
      {{.name = "s", .arguments = program, .allow_count = 1}, "lists"},
      {{.name = "s", .arguments = program, .workspace = "a"}, "absolute"},
      {{.name = "s", .arguments = program, .changed = (tp_mcp_changed)2}, "ask or deny"},
  };
  world *w = *state;
  tp_fault fault = {0};
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_mcp_options options = rows[i].options;
    options.struct_size = sizeof options;
    assert_int_equal(tp_mcp_add(w->runtime, &options, &fault), TP_ERR_USAGE);
    if (!strstr(fault.message, rows[i].words)) fail_msg("%zu: %s", i, fault.message);
  }
  assert_int_equal(tp_mcp_add(w->runtime, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_add(NULL, &rows[0].options, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_remove(w->runtime, "s", &fault), TP_ERR_NOT_FOUND);
}

/* ---- servers that end ---- */

TEST(a_server_that_dies_fails_its_call_and_no_other_server) {
  world *w = *state;
  add_server(w, "one", "", OPTIONS(0));
  add_server(w, "two", "", OPTIONS(0));
  call(w, "mcp__one__die", "{}");
  assert_int_equal(w->kind, TP_TOOL_HANDLER_ERROR);
  assert_non_null(strstr(w->text, "gave no answer: it exited with code 3: notifications/initialized out of order"));
  assert_non_null(strstr(w->text, "not known"));
  assert_string_equal(list(w), TOOLS_OF("two"));
  expect_diagnostic(w, "the server one is not there: it exited with code 3");
  expect_diagnostic(w, "started again in 1 s");
  assert_string_equal(call(w, "mcp__two__echo", "{'text':'here'}"), "here");
}

static void gather_text(void *ctx, const char *text, size_t size) {
  char *to = ctx;
  size_t used = strlen(to);
  snprintf(to + used, 16384 - used, "%.*s", (int)size, text);
}

/* @return the budget of the phase in which a turn gets its tools, in ms; negative: the host has set it. */
static int64_t budget_ms(const world *w) {
  static const char budget[] = "\"budget_ms\":";
  char *text = calloc(1, 16384);
  tp_status printed =
      tp_plan_print(w->runtime, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, TP_PLAN_JSON, gather_text, text);
  assert_int_equal(printed, TP_OK);
  const char *at = strstr(text, budget);
  int64_t ms = at ? strtoll(at + strlen(budget), NULL, 10) : 0;
  bool is_hosts = strstr(text, "\"budget_set_by_host\":true") != NULL;
  if (!at || (!is_hosts && !strstr(text, "\"budget_set_by_host\":false"))) fail_msg("%s", text);
  free(text);
  return is_hosts ? -ms : ms;
}

static void set_budget(const world *w, uint32_t ms) {
  const tp_owner host = {.struct_size = sizeof host, .name = "host", .trust = TP_TRUST_HOST};
  tp_edit *edit = NULL;
  assert_int_equal(tp_edit_begin(w->runtime, &host, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_set_budget(edit, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, ms, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
}

/* The phase ends no wait before the limit of a server, unless the host sets another budget, before or after the server
 * is added. */
TEST(the_phase_of_the_tools_has_the_time_of_its_slowest_server_and_the_hosts_budget_wins) {
  world *w = *state;
  add_server(w, "s", "", OPTIONS(0));
  assert_int_equal(budget_ms(w), 61000);
  add_server(w, "slow", "", OPTIONS(.start_limit_ms = 300000));
  add_server(w, "quick", "", OPTIONS(.start_limit_ms = 2000));
  assert_int_equal(budget_ms(w), 301000);
  assert_int_equal(tp_mcp_remove(w->runtime, "slow", NULL), TP_OK);
  assert_int_equal(budget_ms(w), 61000);
  set_budget(w, 5000);
  assert_int_equal(budget_ms(w), -5000);
  add_server(w, "slow", "", OPTIONS(.start_limit_ms = 300000));
  assert_int_equal(budget_ms(w), -5000);
  set_budget(w, 400000);
  assert_int_equal(budget_ms(w), -400000);
  assert_int_equal(tp_mcp_remove(w->runtime, "slow", NULL), TP_OK);
  assert_int_equal(budget_ms(w), -400000);
  set_budget(w, 0);
  assert_int_equal(budget_ms(w), 61000);
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  assert_int_equal(budget_ms(w), 3000);
}

/* The turn does not wait for a silent server longer than the host lets the phase take. */
TEST(a_hosts_budget_ends_the_wait_for_a_server) {
  world *w = *state;
  set_budget(w, 300);
  add_server(w, "silent", "silent", OPTIONS(.start_limit_ms = 300000));
  int64_t begin_ns = now_ns();
  assert_string_equal(list(w), "");
  assert_true(now_ns() - begin_ns < INT64_C(60000000000));
  expect_no_tokens(w->runtime); /* and nothing else waits on */
}

TEST(a_server_that_was_ready_is_started_again_by_itself) {
  world *w = *state;
  char file[64], words[128];
  struct stat starts = {0};
  snprintf(file, sizeof file, "/tmp/mcp_test_%d", (int)getpid());
  snprintf(words, sizeof words, "file=%s", file);
  unlink(file);
  add_server(w, "s", words, OPTIONS(0));
  call(w, "mcp__s__die", "{}");
  for (int round = 0; round < 10000 && starts.st_size < 2; round++) {
    usleep(1000);
    stat(file, &starts);
  }
  assert_int_equal(starts.st_size, 2);
  assert_string_equal(call(w, "mcp__s__echo", "{'text':'again'}"), "again");
  unlink(file);
}

TEST(a_call_that_passes_its_limit_is_cancelled_at_its_server) {
  world *w = *state;
  add_server(w, "s", "", OPTIONS(.call_limit_ms = 50));
  call(w, "mcp__s__never", "{}");
  assert_int_equal(w->kind, TP_TOOL_TIMED_OUT);
  add_server(w, "t", "", OPTIONS(0));
  list(w);                                                          /* it is there */
  assert_int_equal(try_call(w, "mcp__t__never", "{}", 100), TP_OK); /* the limit of its turn */
  assert_int_equal(w->kind, TP_TOOL_TIMED_OUT);
  assert_string_equal(call(w, "mcp__t__echo", "{'text':'next'}"), "next");
}

/* ---- hostile servers ---- */

TEST(each_hostile_server_has_its_outcome) {
  static const struct {
    const char *words;
    const char *diagnostic; /* of the first turn; NULL: its tools are there */
    uint32_t message_bytes_max;
  } rows[] = {
      {"silent", "not ready after 300 ms", 0},
      {"deaf", "not ready after 300 ms", 0},
      {"silent stubborn", "not ready after 300 ms", 0},
      {"exit", "exited with code 5", 0},
      {"flood", "more than 1000 lines that are no messages", 0},
      {"line=64", "a line of more than 65536 bytes", 65536},
      {"wrong-ids", "not ready after 300 ms", 0},
      {"text-ids", NULL, 0},
      {"mark", NULL, 0},
      {"raw=nan of=server/discover", NULL, 0},
      {"raw=both of=server/discover", NULL, 0},
      {"raw=array of=initialize", "answer cannot be read: an array of messages", 0},
      {"raw=deep of=tools/list", "nested deeper than 32 levels", 0},
      {"nothing", "offers no tools", 0},
      {"string-null", "result of an answer is no object", 0},
      {"version=1900-01-01", "wants version \"1900-01-01\"", 0},
      {"banner=2000", "more than 1000 lines", 0},
      {"endless", NULL, 0},
      {"stderr=4000", NULL, 0},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    w->diagnostics[0] = '\0';
    add_server(w, "bad", rows[i].words,
               OPTIONS(.start_limit_ms = rows[i].diagnostic && strstr(rows[i].diagnostic, "300 ms") ? 300 : 0,
                       .message_bytes_max = rows[i].message_bytes_max));
    add_server(w, "good", "", OPTIONS(0));
    list(w);
    if (!strstr(w->listing, TOOLS_OF("good"))) fail_msg("%s: %s", rows[i].words, w->listing);
    if (!rows[i].diagnostic) assert_non_null(strstr(w->listing, "mcp__bad__"));
    else assert_null(strstr(w->listing, "mcp__bad__"));
    if (rows[i].diagnostic) expect_diagnostic(w, rows[i].diagnostic);
    assert_int_equal(tp_mcp_remove(w->runtime, "bad", NULL), TP_OK);
    assert_int_equal(tp_mcp_remove(w->runtime, "good", NULL), TP_OK);
  }
  assert_int_equal(processes_left(), 0);
}

/* It reads server/discover and initialize together, after the limit of the first. */
TEST(a_server_that_begins_slowly_is_of_the_era_that_it_says) {
  world *w = *state;
  add_server(w, "s", "new late", OPTIONS(.start_limit_ms = 4000));
  assert_string_equal(list(w), TOOLS_OF("s"));
  assert_string_equal(call(w, "mcp__s__echo", "{'text':'late'}"), "late");
}

TEST(a_tool_that_is_too_large_leaves_room_for_its_siblings) {
  world *w = *state;
  add_server(w, "s", "large=300", OPTIONS(0));
  assert_string_equal(list(w), "mcp__s__z ");
  expect_diagnostic(
      w, "the tool \"a\" of the server s is left out: it has a description and a schema of more than 256 KiB");
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  add_server(w, "s", "large=250", OPTIONS(0));
  assert_string_equal(list(w), "mcp__s__a mcp__s__b mcp__s__c mcp__s__z ");
  expect_diagnostic(w, "of the 5 tools of the server s 4 are used");
}

/* The limit of the call is two minutes. */
TEST(an_answer_that_cannot_be_read_fails_its_call_at_once) {
  static const char *const rows[][2] = {{"nan", "cannot be read"},
                                        {"twice", "cannot be read"},
                                        {"bytes", "cannot be read"},
                                        {"half", "cannot be read"},
                                        {"deep", "nested deeper than 32 levels"},
                                        {"array", "only version 2025-03-26 has these batches"},
                                        {"no-version", "is not \"2.0\""},
                                        {"both", "a result and an error"}};
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char words[64];
    snprintf(words, sizeof words, "raw=%s", rows[i][0]);
    add_server(w, "s", words, OPTIONS(0));
    if (!strstr(call(w, "mcp__s__echo", "{'text':'x'}"), rows[i][1])) fail_msg("%s: %s", words, w->text);
    assert_non_null(strstr(w->text, "Whether the call had an effect is not known."));
    assert_int_equal(w->kind, TP_TOOL_HANDLER_ERROR);
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  }
}

TEST(a_program_that_is_not_there_is_a_diagnostic) {
  static const char *const rows[][2] = {{"mcp-no-such-program", NULL}, {"/etc/passwd", NULL}, {"/nowhere/x", NULL}};
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    w->diagnostics[0] = '\0';
    add_server(w, "s", "", OPTIONS(.arguments = rows[i]));
    assert_string_equal(list(w), "");
    expect_diagnostic(w, "the server s is not there: ");
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  }
}

/* ---- notes ---- */

static void expect_notes(const tp__mcp_notes *notes, uint32_t count, uint32_t left_out, const char *first,
                         const char *last) {
  tp_text left = tp__bytes_text(&notes->lines), line;
  uint32_t seen = 0;
  assert_int_equal(notes->count, count);
  assert_int_equal(notes->left_out, left_out);
  while (tp__mcp_next_line(&left, &line)) {
    if (seen++ == 0) assert_true(tp__is_word(line, first));
    if (seen == count) assert_true(tp__is_word(line, last));
  }
  assert_int_equal(seen, count);
  assert_int_equal(left.size, 0);
}

static void put_notes(tp__mcp_session *session, int from, int to) {
  tp__lock_acquire(&session->lock);
  for (int i = from; i < to; i++) tp__mcp_session_note_locked(session, "note\n%d", i); /* a line all the same */
  tp__lock_release(&session->lock);
}

TEST(notes_wait_for_the_turn_that_shows_them) {
  world *w = *state;
  tp__mcp_settings settings = {0};
  tp__mcp_session *session = NULL;
  tp__mcp_notes notes;
  const tp_mcp_options options = {
      .struct_size = sizeof options, .name = "s", .arguments = (const char *const[]){"true", NULL}};
  assert_int_equal(tp__mcp_settings_init(&settings, &options, NULL), TP_OK);
  assert_int_equal(tp__mcp_session_new(w->runtime, &settings, &tp__mcp_stdio, &session, NULL), TP_OK);
  tp__mcp_session_notes_take(session, &notes);
  expect_notes(&notes, 0, 0, "", "");
  put_notes(session, 0, 40);
  tp__mcp_session_notes_take(session, &notes);
  expect_notes(&notes, TP__MCP_NOTES_MAX, 8, "note 0", "note 31");
  put_notes(session, 40, 43);
  tp__mcp_session_notes_return(session, &notes); /* the turn was over */
  tp__mcp_session_notes_take(session, &notes);
  expect_notes(&notes, TP__MCP_NOTES_MAX, 11, "note 0", "note 31");
  tp__bytes_fini(&notes.lines);
  put_notes(session, 0, 2);
  tp__mcp_session_notes_take(session, &notes);
  put_notes(session, 2, 4);
  tp__mcp_session_notes_return(session, &notes);
  tp__mcp_session_notes_take(session, &notes);
  expect_notes(&notes, 4, 0, "note 0", "note 3");
  tp__mcp_session_notes_return(session, &notes); /* and are freed with the session */
  tp__mcp_session_close(session);
  tp__mcp_session_unref(session);
}

TEST(more_messages_than_a_turn_shows_are_counted) {
  world *w = *state;
  add_server(w, "s", "nameless=100", OPTIONS(0));
  assert_string_equal(list(w), TOOLS_OF("s"));
  expect_diagnostic(w, "is left out: it has no name");
  expect_diagnostic(w, "68 more messages about the server s are left out");
}

/* ---- files of other hosts ---- */

static void write_config(const char *file, const char *json) {
  FILE *to = fopen(file, "w");
  assert_non_null(to);
  for (const char *c = json; *c; c++) assert_true(fputc(*c == '\'' ? '"' : *c, to) != EOF);
  assert_int_equal(fclose(to), 0);
}

static void gather_note(void *ctx, const char *note) {
  char *notes = ctx;
  size_t used = strlen(notes);
  snprintf(notes + used, TEXT_SIZE - used, "%s\n", note);
}

static tp_status add_config(world *w, const char *json, char *notes, size_t *ret_count, tp_fault *fault) {
  char file[64];
  snprintf(file, sizeof file, "/tmp/mcp_config_%d.json", (int)getpid());
  write_config(file, json);
  notes[0] = '\0';
  const tp_mcp_config config = {
      .struct_size = sizeof config, .path = file, .on_note = gather_note, .on_note_ctx = notes};
  tp_status status = tp_mcp_config_add(w->runtime, &config, ret_count, fault);
  unlink(file);
  return status;
}

TEST(servers_are_read_from_the_file_that_people_have) {
  static char notes[TEXT_SIZE];
  world *w = *state;
  size_t count = 0;
  tp_fault fault = {0};
  setenv("MCP_PROGRAM", getenv("TURNPHASE_MCP_SERVER"), 1);
  setenv("MCP_EMPTY", "", 1);
  tp_status status = add_config(
      w,
      "{'mcpServers': {'one': {'type': 'stdio', 'command': '${MCP_PROGRAM}', 'args': ['pages=${MCP_EMPTY:-2}'],"
      "'env': {'MCP_A': 'x${MCP_NOT_SET:-y}z', 'MCP_B': '$HOME ${', 'MCP_C': '${MCP_EMPTY}'}, 'cwd': '/',"
      "'autoApprove': ['*'], 'timeout': 5}, 'off': {'command': 'x', 'disabled': true},"
      "'old': {'type': 'sse', 'url': 'http://127.0.0.1:1/sse'}}, 'inputs': []}",
      notes, &count, &fault);
  if (status != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(count, 1);
  assert_string_equal(call(w, "mcp__one__env", "{'text':'MCP_A'}"), "xyz");
  assert_string_equal(call(w, "mcp__one__env", "{'text':'MCP_B'}"), "$HOME ${");
  assert_string_equal(call(w, "mcp__one__env", "{'text':'MCP_C'}"), "");
  assert_non_null(strstr(list(w), "mcp__one__page0 "));
  assert_non_null(strstr(notes, "the server one: autoApprove has no effect here"));
  assert_non_null(strstr(notes, "the server one: timeout is not known here"));
  assert_non_null(strstr(notes, "the server off is disabled"));
  assert_non_null(strstr(notes, "its type \"sse\" is none that turnphase has"));
  unsetenv("MCP_PROGRAM");
  unsetenv("MCP_EMPTY");
}

TEST(a_file_that_cannot_be_read_says_where) {
  static const struct {
    const char *json;
    tp_status status;
    const char *words;
  } rows[] = {
      {"{'mcpServers': {'one': {'command': 'x',}}}", TP_ERR_MALFORMED, ""},
      {"[]", TP_ERR_MALFORMED, "no \"mcpServers\""},
      {"{'servers': {}}", TP_ERR_MALFORMED, "no \"mcpServers\""},
      {"{'mcpServers': []}", TP_ERR_MALFORMED, "not an object of servers"},
      {"{'mcpServers': {'one': 'npx'}}", TP_ERR_MALFORMED, "the server one is not an object"},
      {"{'mcpServers': {'one': {}}}", TP_ERR_MALFORMED, "neither a command nor a url"},
      {"{'mcpServers': {'one': {'command': ['npx']}}}", TP_ERR_MALFORMED, "command of the server one is not a text"},
      {"{'mcpServers': {'one': {'command': 'x', 'args': 'y'}}}", TP_ERR_MALFORMED, "args of the server one"},
      {"{'mcpServers': {'one': {'command': 'x', 'args': [1]}}}", TP_ERR_MALFORMED, "args of the server one"},
      {"{'mcpServers': {'one': {'command': 'x', 'env': ['A=b']}}}", TP_ERR_MALFORMED, "env of the server one"},
      {"{'mcpServers': {'one': {'command': 'x', 'env': {'A': 1}}}}", TP_ERR_MALFORMED, "env of the server one"},
      {"{'mcpServers': {'one': {'command': '${MCP_NOT_SET}'}}}", TP_ERR_NOT_FOUND, "MCP_NOT_SET: set it"},
      {"{'mcpServers': {'one': {'command': '${1}'}}}", TP_ERR_MALFORMED, "names no variable"},
      {"{'mcpServers': {'one': {'command': 'x\\u0000y'}}}", TP_ERR_MALFORMED, "has a NUL"},
      {"{'mcpServers': {'one': {'command': 'x', 'url': 'http://a'}}}", TP_ERR_USAGE, "exactly one"},
      {"{'mcpServers': {'a__b': {'command': 'x'}}}", TP_ERR_BAD_ID, "without two _"},
      {"{'mcpServers': {'one': {'url': 'http://a', 'headers': {'A\\n': 'b'}}}}", TP_ERR_USAGE, "header 1"},
  };
  static char notes[TEXT_SIZE];
  world *w = *state;
  tp_fault fault = {0};
  for (size_t i = 0; i < COUNT(rows); i++) {
    fault = (tp_fault){0};
    tp_status status = add_config(w, rows[i].json, notes, NULL, &fault);
    if (status != rows[i].status || !strstr(fault.message, rows[i].words))
      fail_msg("%s: %s: %s", rows[i].json, tp_status_name(status), fault.message);
  }
  const tp_mcp_config none = {.struct_size = sizeof none},
                      missing = {.struct_size = sizeof missing, .path = "/nowhere"};
  assert_int_equal(tp_mcp_config_add(w->runtime, &none, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_config_add(w->runtime, &missing, NULL, &fault), TP_ERR_IO);
  assert_int_equal(tp_mcp_config_add(w->runtime, NULL, NULL, &fault), TP_ERR_USAGE);
}

TEST(servers_of_this_library_have_its_options) {
  static const struct {
    const char *servers;
    tp_status status;
    const char *subject, *words;
  } rows[] = {
      {"{'one': {'command': 'x', 'alow': ['echo']}}", TP_ERR_MALFORMED, "one.alow", "has no member \"alow\", only:"},
      {"{'one': {'command': 'x', 'timeout': 5}}", TP_ERR_MALFORMED, "one.timeout", "call_limit_ms"},
      {"{'one': {'command': 'x', 'call_limit_ms': 0}}", TP_ERR_MALFORMED, "one.call_limit_ms", "from 1 to 4294967295"},
      {"{'one': {'command': 'x', 'call_limit_ms': -5}}", TP_ERR_MALFORMED, "one.call_limit_ms", "a whole number"},
      {"{'one': {'command': 'x', 'max_concurrent': 4294967296}}", TP_ERR_MALFORMED, "one.max_concurrent", "number"},
      {"{'one': {'command': 'x', 'max_concurrent': '4'}}", TP_ERR_MALFORMED, "one.max_concurrent", "number"},
      {"{'one': {'command': 'x', 'result_bytes_max': 1.5}}", TP_ERR_MALFORMED, "one.result_bytes_max", "number"},
      {"{'one': {'command': 'x', 'allow': 'echo'}}", TP_ERR_MALFORMED, "one.allow", "is not an array of texts"},
      {"{'one': {'command': 'x', 'deny': {'a': 'b'}}}", TP_ERR_MALFORMED, "one.deny", "is not an array of texts"},
      {"{'one': {'command': 'x', 'deny': ['']}}", TP_ERR_MALFORMED, "one.deny", "patterns of 1 to 255 bytes"},
      {"{'one': {'command': 'x', 'changed': 'allow'}}", TP_ERR_MALFORMED, "one.changed", "is not ask or deny"},
      {"{'one': {'command': 'x', 'changed': 1}}", TP_ERR_MALFORMED, "one.changed", "is not ask or deny"},
      {"{'one': {'command': 'x', 'env': {'PORT': 80}}}", TP_ERR_MALFORMED, "one.env", "put the value into quotes"},
      {"{'one': {'command': 'x', 'sampling': 'yes'}}", TP_ERR_MALFORMED, "one.sampling", "is not true or false"},
      {"{'one': {'command': 'x', 'sampling': true}}", TP_ERR_MALFORMED, "one.sampling", "there is no model"},
      {"{'one': {'command': 'x', 'workspace': 'here'}}", TP_ERR_USAGE, "one", "absolute path"},
      {"{'one': {'command': 'x', 'start_limit_ms': 300001}}", TP_ERR_USAGE, "one", "start_limit_ms is at most"},
  };
  world *w = *state;
  tp_fault fault = {0};
  char servers[1024];
  tp_mcp_config config = {.struct_size = sizeof config, .has_options = true};
  for (size_t i = 0; i < COUNT(rows); i++) {
    fault = (tp_fault){0};
    config.servers = json_value(w->writer, rows[i].servers);
    tp_status status = tp_mcp_config_add(w->runtime, &config, NULL, &fault);
    if (status != rows[i].status || strcmp(fault.subject, rows[i].subject) != 0 ||
        !strstr(fault.message, rows[i].words))
      fail_msg("%s: %s: %s: %s", rows[i].servers, tp_status_name(status), fault.subject, fault.message);
  }
  snprintf(servers, sizeof servers,
           "{'one': {'command': '%s', 'env': {'MCP_MARKER': 'x'}, 'allow': ['e*', 'fail'], 'deny': ['env'], "
           "'start_limit_ms': 5000, 'call_limit_ms': 200, 'result_bytes_max': 40, 'max_concurrent': 2, "
           "'message_bytes_max': 100000, 'changed': 'deny', 'workspace': '/', 'autoApprove': []}}",
           getenv("TURNPHASE_MCP_SERVER"));
  config.servers = json_value(w->writer, servers);
  assert_int_equal(tp_mcp_config_add(w->runtime, &config, NULL, &fault), TP_OK);
  assert_string_equal(list(w), "mcp__one__echo mcp__one__fail ");
  assert_non_null(
      strstr(call(w, "mcp__one__echo", "{'text':'a text of more than forty bytes, which is cut'}"), "bytes left out"));
  config.has_options = false; /* a file of other hosts */
  servers[2] = 't';
  config.servers = json_value(w->writer, servers);
  assert_int_equal(tp_mcp_config_add(w->runtime, &config, NULL, &fault), TP_OK);
  assert_non_null(strstr(list(w), "mcp__tne__env "));
}

/* ---- pins ---- */

static bool find_row(void *ctx, const tp_audit *row) {
  if (strcmp(row->action, "mcp.changed") == 0) (*(int *)ctx)++;
  return true;
}

TEST(a_tool_that_changes_is_asked_about_and_its_siblings_are_not) {
  world *w = *state;
  char pins[] = "/tmp/mcp_pins_XXXXXX", file[64];
  int rows = 0;
  assert_non_null(mkdtemp(pins));
  snprintf(file, sizeof file, "%s/mcp-s.json", pins);
  add_server(w, "s", "", OPTIONS(.pins = pins));
  assert_string_equal(call(w, "mcp__s__echo", "{'text':'as ever'}"), "as ever");
  assert_int_equal(access(file, R_OK), 0);
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);

  add_server(w, "s", "described=Says", OPTIONS(.pins = pins)); /* no person can be asked */
  call(w, "mcp__s__echo", "{'text':'no'}");
  assert_int_equal(w->kind, TP_TOOL_DENIED);
  assert_string_equal(call(w, "mcp__s__value", "{}"), "{\"rain_mm\":7}");
  expect_diagnostic(w, "the tool echo of the server s is not the one that was pinned: it is asked about");
  tp_runtime_audit(w->runtime, TP_VISIBILITY_INTERNAL, find_row, &rows);
  assert_int_equal(rows, 1);
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);

  add_server(w, "s", "described=Says", OPTIONS(.pins = pins, .changed = TP_MCP_CHANGED_DENY));
  assert_non_null(strstr(call(w, "mcp__s__echo", "{'text':'no'}"), "is not the one that was pinned"));
  assert_int_equal(w->kind, TP_TOOL_DENIED);
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);

  add_server(w, "s", "pages=2", OPTIONS(.pins = pins)); /* one more tool */
  call(w, "mcp__s__page0", "{}");
  assert_int_equal(w->kind, TP_TOOL_DENIED);
  assert_string_equal(call(w, "mcp__s__echo", "{'text':'as it was'}"), "as it was");
  expect_diagnostic(w, "was not there when its tools were pinned");
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);

  assert_int_equal(unlink(file), 0); /* pinned anew, with an outputSchema */
  for (int i = 0; i < 2; i++) {
    add_server(w, "s", i == 0 ? "outputs" : "outputs=other", OPTIONS(.pins = pins));
    call(w, "mcp__s__value", "{}");
    assert_int_equal(w->kind, i == 0 ? TP_TOOL_OK : TP_TOOL_DENIED);
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  }

  write_config(file, "{'tools': ");
  add_server(w, "s", "", OPTIONS(.pins = pins));
  call(w, "mcp__s__value", "{}");
  assert_int_equal(w->kind, TP_TOOL_DENIED);
  expect_diagnostic(w, "each of its tools counts as changed");
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  assert_int_equal(unlink(file), 0);
  assert_int_equal(rmdir(pins), 0);
}

TEST(pins_that_cannot_be_kept_are_a_diagnostic) {
  world *w = *state;
  add_server(w, "s", "", OPTIONS(.pins = "/nowhere"));
  assert_string_equal(call(w, "mcp__s__echo", "{'text':'x'}"), "x");
  expect_diagnostic(w, "cannot be pinned in /nowhere/mcp-s.json: No such file or directory");
}

/* ---- servers that want to know more ---- */

TEST(a_call_is_made_again_with_what_its_server_wants) {
  static const struct {
    const char *words, *text;
  } rows[] = {
      {"new wants=state", "yes"},
      {"new wants=person", "yes"},
      {"new wants=sampling", "wants sampling/createMessage, which this client does not have"},
      {"new wants=endless", "asks without end"},
      {"new wants=dream", "a result of the type dream, which this client does not take"},
      {"new wants=nothing", "asks without end, or in a form that is none"},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    add_server(w, "s", rows[i].words, OPTIONS(0));
    call(w, "mcp__s__echo", "{'text':'yes'}");
    if (!strstr(w->text, rows[i].text)) fail_msg("%s: %s", rows[i].words, w->text);
    assert_int_equal(w->kind, strcmp(rows[i].text, "yes") == 0 ? TP_TOOL_OK : TP_TOOL_HANDLER_ERROR);
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  }
}

/* ---- what a server asks a person ---- */

typedef struct person {
  tp_mcp_action action;
  const char *content; /* JSON; NULL: none */
  bool is_later;       /* it is answered by another thread */
  tp_writer *writer;
  int asked;
  char shown[512];
  tp_mcp_asked *open[17]; /* what was asked, where it is later */
  latch has_open;
  latch *all_wanted; /* the server has asked for all */
} person;

static void answer_person(person *p, tp_mcp_asked *asked) {
  tp_text content = p->content ? json_value(p->writer, p->content) : (tp_text){NULL, 0};
  tp_text other = {.data = "\x90", .size = 1};
  tp_fault fault = {0};
  /* what cannot be an answer leaves the question open */
  assert_int_equal(tp_mcp_answer(asked, (tp_mcp_action)0, (tp_text){NULL, 0}, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_answer(asked, (tp_mcp_action)4, (tp_text){NULL, 0}, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_answer(asked, TP_MCP_ACCEPT, other, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_answer(asked, TP_MCP_DECLINE, json_value(p->writer, "{}"), &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_answer(NULL, TP_MCP_DECLINE, (tp_text){NULL, 0}, &fault), TP_ERR_USAGE);
  if (p->content) content = json_value(p->writer, p->content);
  assert_int_equal(tp_mcp_answer(asked, p->action, content, NULL), TP_OK);
}

static void ask_person(void *ctx, const tp_mcp_question *question) {
  person *p = ctx;
  char *schema = json_text(question->schema);
  p->asked++;
  snprintf(p->shown, sizeof p->shown, "%s %.*s %.*s %s %zu", question->server, (int)question->tool.size,
           question->tool.data, (int)question->message.size, question->message.data, schema, question->url.size);
  free(schema);
  if (!p->is_later) {
    answer_person(p, question->asked);
    return;
  }
  p->open[p->asked - 1] = question->asked;
  latch_hit(&p->has_open);
}

static void *answer_later(void *arg) {
  person *p = arg;
  latch_wait(&p->has_open, 1);
  answer_person(p, p->open[0]);
  return NULL;
}

TEST(a_person_answers_what_a_server_asks) {
  static const struct {
    const char *words;
    tp_mcp_action action;
    const char *content;
    bool is_later;
    const char *text;
  } rows[] = {
      {"forms=1", TP_MCP_ACCEPT, "{\"name\": \"Ada\"}", false,
       "'result':{'action':'accept','content':{'name':'Ada'}}}"},
      {"forms=1", TP_MCP_ACCEPT, NULL, false, "'result':{'action':'accept'}}"},
      {"forms=1", TP_MCP_DECLINE, NULL, false, "'result':{'action':'decline'}}"},
      {"forms=1", TP_MCP_CANCEL, NULL, false, "'result':{'action':'cancel'}}"},
      {"forms=1", TP_MCP_DECLINE, NULL, true, "'result':{'action':'decline'}}"},
      {"forms=1 lists", TP_MCP_DECLINE, NULL, false, "'result':{'action':'decline'}}"},
      {"forms=3", TP_MCP_ACCEPT, "{}", false, "'result':{'action':'accept','content':{}}}"},
      {"new forms=1", TP_MCP_ACCEPT, "{\"name\": \"Ada\"}", false,
       "'inputResponses':{'f1':{'action':'accept','content':{'name':'Ada'}}}"},
      {"new forms=1", TP_MCP_DECLINE, NULL, true, "'inputResponses':{'f1':{'action':'decline'}}"},
      {"new forms=2", TP_MCP_CANCEL, NULL, false,
       "'inputResponses':{'f1':{'action':'cancel'},'f2':{'action':'cancel'}}"},
      {"new forms=16", TP_MCP_DECLINE, NULL, false, "'f16':{'action':'decline'}}"},
      {"new forms=17", TP_MCP_DECLINE, NULL, false, "in a form that is none"},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    person p = {.action = rows[i].action, .content = rows[i].content, .is_later = rows[i].is_later, .has_open = LATCH};
    pthread_t later;
    assert_int_equal(tp_writer_new(NULL, &p.writer), TP_OK);
    add_server(w, "s", rows[i].words, OPTIONS(.ask = ask_person, .ask_ctx = &p));
    if (p.is_later) assert_int_equal(pthread_create(&later, NULL, answer_later, &p), 0);
    call(w, "mcp__s__echo", "{\"text\": \"x\"}");
    if (p.is_later) pthread_join(later, NULL);
    if (!strstr(w->text, rows[i].text)) fail_msg("%s, %zu: %s", rows[i].words, i, w->text);
    if (p.asked)
      assert_string_equal(p.shown,
                          "s mcp__s__echo Which? "
                          "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}} 0");
    assert_int_equal(p.asked, strstr(rows[i].words, "17") ? 0 : atoi(strchr(rows[i].words, '=') + 1));
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
    tp_writer_free(p.writer);
  }
}

/* ---- servers that answer with a task ---- */

TEST(a_task_of_a_server_is_followed_to_its_end) {
  static const struct {
    const char *words, *text;
    int asked; /* a person */
  } rows[] = {
      {"new task=done", "done", 0},
      {"new task=asks", "answered", 1}, /* once, though the server asks for it twice */
      {"new task=asks-more", "asks without end", 8},
      {"new task=fails", "refused the call: no paper (code 7)", 0},
      {"new task=stops", "it has cancelled the task", 0},
      {"new task=lost", "refused the call: no such task (code -32602)", 0},
      {"new task=nameless", "a task without a taskId", 0},
      {"new task=dreams", "a task of the status dreaming, which this client does not take", 0},
      {"new task=dies", "gave no answer: it exited with code 3", 0},
      {"new task=leaves", "it exited with code 4", 0}, /* at once: nothing waits for the next poll */
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    person p = {.action = TP_MCP_ACCEPT, .content = "{\"name\": \"Ada\"}", .has_open = LATCH};
    assert_int_equal(tp_writer_new(NULL, &p.writer), TP_OK);
    add_server(w, "s", rows[i].words, OPTIONS(.ask = ask_person, .ask_ctx = &p));
    call(w, "mcp__s__echo", "{'text':'x'}");
    if (!strstr(w->text, rows[i].text)) fail_msg("%s: %s", rows[i].words, w->text);
    assert_int_equal(w->kind, i < 2 ? TP_TOOL_OK : TP_TOOL_HANDLER_ERROR);
    assert_int_equal(p.asked, rows[i].asked);
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
    tp_writer_free(p.writer);
  }
  add_server(w, "s", "task=done", OPTIONS(0)); /* of a version in which nothing is answered so */
  call(w, "mcp__s__echo", "{'text':'x'}");
  assert_string_equal(w->text, "The server answered without content.");
}

/* Its server hears of it, though no request is under way. */
TEST(a_task_whose_call_is_given_up_is_cancelled) {
  world *w = *state;
  char file[64], words[128], text[64] = "";
  snprintf(file, sizeof file, "/tmp/mcp_test_task_%d", (int)getpid());
  snprintf(words, sizeof words, "new task=works note=%s", file);
  unlink(file);
  add_server(w, "s", words, OPTIONS(0));
  list(w); /* it is there */
  assert_int_equal(try_call(w, "mcp__s__echo", "{'text':'x'}", 100), TP_OK);
  assert_int_equal(w->kind, TP_TOOL_TIMED_OUT);
  for (int round = 0; round < 10000 && !text[0]; round++) {
    FILE *said = fopen(file, "r");
    if (said && !fgets(text, sizeof text, said)) text[0] = '\0';
    if (said) fclose(said);
    usleep(1000);
  }
  assert_string_equal(text, "tasks/cancel\n");
  unlink(file);
}

TEST(without_a_person_it_is_declined) {
  world *w = *state;
  add_server(w, "old", "forms=1", OPTIONS(0));
  add_server(w, "new", "new forms=1", OPTIONS(0));
  assert_non_null(strstr(call(w, "mcp__old__echo", "{\"text\": \"x\"}"), "'result':{'action':'decline'}"));
  assert_non_null(strstr(call(w, "mcp__new__echo", "{\"text\": \"x\"}"), "'f1':{'action':'decline'}"));
}

static void *answer_all_later(void *arg) {
  person *p = arg;
  latch_wait(&p->has_open, 16);
  latch_wait(p->all_wanted, 1);
  for (int i = 0; i < 16; i++) answer_person(p, p->open[i]);
  return NULL;
}

/* The server answers the call when it has an answer to each of 17. */
TEST(more_questions_than_people_can_have_are_refused) {
  world *w = *state;
  pthread_t thread;
  person p = {.action = TP_MCP_DECLINE, .is_later = true, .has_open = LATCH, .all_wanted = &w->progressed};
  assert_int_equal(tp_writer_new(NULL, &p.writer), TP_OK);
  add_server(w, "s", "forms=17 reports-asked", OPTIONS(.ask = ask_person, .ask_ctx = &p));
  assert_int_equal(pthread_create(&thread, NULL, answer_all_later, &p), 0);
  assert_int_equal(try_call(w, "mcp__s__echo", "{\"text\": \"x\"}", 0), TP_OK);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(p.asked, 16);
  assert_int_equal(w->kind, TP_TOOL_OK);
  tp_writer_free(p.writer);
}

TEST(a_call_that_ends_while_a_person_is_asked_leaves_nothing) {
  static const char *const eras[] = {"forms=1", "new forms=1"};
  world *w = *state;
  for (size_t i = 0; i < COUNT(eras); i++) {
    person p = {.action = TP_MCP_ACCEPT, .is_later = true, .has_open = LATCH};
    assert_int_equal(tp_writer_new(NULL, &p.writer), TP_OK);
    add_server(w, "s", eras[i], OPTIONS(.ask = ask_person, .ask_ctx = &p));
    list(w);
    assert_int_equal(try_call(w, "mcp__s__echo", "{\"text\": \"x\"}", 200), TP_OK);
    assert_int_equal(w->kind, TP_TOOL_TIMED_OUT);
    latch_wait(&p.has_open, 1);
    expect_no_tokens(w->runtime); /* it does not wait for the person */
    if (i == 1) assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
    answer_person(&p, p.open[0]); /* of no effect */
    if (i == 0) assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
    tp_writer_free(p.writer);
  }
}

TEST(an_answer_to_a_server_that_has_ended_does_not_come_to_its_next_start) {
  world *w = *state;
  person p = {.action = TP_MCP_ACCEPT, .is_later = true, .has_open = LATCH};
  assert_int_equal(tp_writer_new(NULL, &p.writer), TP_OK);
  add_server(w, "s", "asks-dying", OPTIONS(.ask = ask_person, .ask_ctx = &p));
  assert_non_null(strstr(call(w, "mcp__s__die", "{}"), "exited with code 3"));
  latch_wait(&p.has_open, 1);
  for (int round = 0; round < 1000 && !strstr(list(w), "mcp__s__"); round++) usleep(10000); /* it is started again */
  answer_person(&p, p.open[0]);
  for (int i = 0; i < 2; i++) assert_string_equal(call(w, "mcp__s__echo", "{\"text\": \"there\"}"), "there");
  tp_writer_free(p.writer);
}

/* ---- what a server wants from a model ---- */

typedef struct thinker {
  tp_model model;
  const char *text;  /* what it answers; NULL: nothing until it is cancelled */
  const char *calls; /* a tool that it calls; NULL: none */
  tp_finish finish;
  _Atomic int asked, cancelled;
  pthread_mutex_t mutex; /* of the two below: a server may ask for several answers at once */
  char shown[4096];      /* what it was asked last */
  size_t tools;
  latch began;
} thinker;

static void note_request(thinker *t, const tp_model_request *request) {
  char *parameters = json_text(request->parameters);
  int used =
      snprintf(t->shown, sizeof t->shown, "%.*s|%s", (int)request->system.size, request->system.data, parameters);
  free(parameters);
  for (size_t i = 0; i < request->message_count; i++)
    used += snprintf(t->shown + used, sizeof t->shown - (size_t)used, "|%d:%.*s%s", (int)request->messages[i]->role,
                     (int)request->messages[i]->text.size, request->messages[i]->text.data,
                     request->messages[i]->parts.size ? "+parts" : "");
  t->tools = request->tool_count;
}

static void think(void *ctx, const tp_model_request *request, tp_token token) {
  thinker *t = ctx;
  static const char none[] = "\x80";
  pthread_mutex_lock(&t->mutex);
  note_request(t, request);
  pthread_mutex_unlock(&t->mutex);
  t->asked++;
  latch_hit(&t->began);
  if (!t->text) return;
  const tp_tool_call call = {.struct_size = sizeof call, .name = tp_text_of(t->calls), .arguments = {none, 1}};
  const tp_tool_call *const calls[] = {&call};
  const tp_model_response response = {.struct_size = sizeof response,
                                      .text = tp_text_of(t->text),
                                      .calls = calls,
                                      .call_count = t->calls != NULL,
                                      .finish = t->finish,
                                      .input_tokens = 40,
                                      .output_tokens = 10};
  (void)!tp_model_complete(token, &response, NULL);
}

static void stop_thinking(void *ctx, tp_token token) {
  thinker *t = ctx;
  (void)token;
  t->cancelled++;
}

static tp_mcp_sampling answered_by(thinker *t, tp_mcp_sampling options) {
  t->model = (tp_model){.struct_size = sizeof t->model,
                        .name = "thinker",
                        .ctx = t,
                        .start = think,
                        .cancel = stop_thinking,
                        .placement = TP_PLACEMENT_INLINE};
  t->began = (latch)LATCH;
  t->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  options.struct_size = sizeof options;
  options.model = &t->model;
  return options;
}

static void ask_thinker(world *w, const char *era, const char *words, thinker *t, tp_mcp_sampling options) {
  char all[256];
  const tp_mcp_sampling sampling = answered_by(t, options);
  snprintf(all, sizeof all, "%s %s", era, words);
  add_server(w, "s", all, OPTIONS(.sampling = &sampling));
  call(w, "mcp__s__echo", "{\"text\": \"x\"}");
  expect_no_tokens(w->runtime);
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
}

static const char *const eras[] = {"", "new"};

TEST(a_model_answers_what_a_server_wants) {
  static const struct {
    const char *words;
    tp_finish finish;
    const char *shown, *answer;
  } rows[] = {
      {"samples=1", TP_FINISH_UNKNOWN, "Be short.|{\"max_tokens\":7,\"temperature\":0.5}|1:one|2:two|1:three",
       "{'role':'assistant','content':{'type':'text','text':'It was me.'},'model':'thinker','stopReason':'endTurn'}"},
      {"samples=1 sample=list", TP_FINISH_LENGTH, "|{\"max_tokens\":100}|1:one\ntwo", "'stopReason':'maxTokens'"},
      {"samples=1 sample=much", TP_FINISH_REFUSAL, "|{\"max_tokens\":100}|1:hi", "'stopReason':'refusal'"},
      {"samples=1 sample=stops", TP_FINISH_STOP, "|{\"max_tokens\":100}|1:hi",
       "'text':'It '},'model':'thinker','stopReason':'stopSequence'}"},
      {"samples=1 sample=image", TP_FINISH_STOP, "|{\"max_tokens\":100}|1:+parts|1:what", "'text':'It was me.'"},
      {"samples=3", TP_FINISH_STOP, "Be short.|{\"max_tokens\":7,\"temperature\":0.5}|1:one|2:two|1:three",
       "'text':'It was me.'"},
  };
  world *w = *state;
  for (size_t i = 0; i < 2 * COUNT(rows); i++) {
    thinker t = {.text = "It was me.", .finish = rows[i / 2].finish};
    ask_thinker(w, eras[i % 2], rows[i / 2].words, &t, (tp_mcp_sampling){.answer_tokens_max = 100});
    if (!strstr(w->text, rows[i / 2].answer)) fail_msg("%s %s: %s", eras[i % 2], rows[i / 2].words, w->text);
    assert_int_equal(t.asked, rows[i / 2].words[8] - '0');
    assert_string_equal(t.shown, rows[i / 2].shown);
    assert_int_equal(t.tools, 0);
  }
}

TEST(what_is_no_question_to_a_model_is_refused) {
  static const struct {
    const char *kind, *words;
  } rows[] = {
      {"tools", "it has tools, which are not offered"},
      {"prefill", "its last message is not a text of the user"},
      {"role", "another role than user and assistant"},
      {"none", "it has 1 to 1000 messages"},
      {"nothing", "it has 1 to 1000 messages"},
      {"empty", "a message is empty"},
      {"unknown", "a message has other content than texts"},
      {"broken", "an image or audio is not base64 with a mimeType"},
      {"wrong-stop", "stopSequences is no array of texts"},
      {"wrong-temperature", "temperature is no number"},
  };
  world *w = *state;
  for (size_t i = 0; i < 2 * COUNT(rows); i++) {
    thinker t = {.text = "no"};
    char words[64];
    snprintf(words, sizeof words, "samples=1 sample=%s", rows[i / 2].kind);
    ask_thinker(w, eras[i % 2], words, &t, (tp_mcp_sampling){0});
    if (!strstr(w->text, rows[i / 2].words)) fail_msg("%s: %s", rows[i / 2].kind, w->text);
    assert_int_equal(w->kind, i % 2 ? TP_TOOL_HANDLER_ERROR : TP_TOOL_OK); /* of old, the server has the error */
    assert_int_equal(t.asked, 0);
  }
}

TEST(a_server_gets_as_many_answers_and_tokens_as_it_may) {
  static const struct {
    tp_mcp_sampling options;
    int asked;
    const char *words;
  } rows[] = {
      {{.count_max = 2}, 2, "as many answers of a model during the call as it may"},
      {{.tokens_max = 100}, 2, "the call has used the tokens"},
      {{.tokens_max = 101}, 3, "It was me."},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    thinker t = {.text = "It was me."};
    /* Gates and memory of a host: the text of a server's turn is judged, and other phases add texts that no server may
     * read. */
    ask_thinker(w, "new", "samples=3", &t, rows[i].options);
    if (!strstr(w->text, rows[i].words)) fail_msg("%zu: %s", i, w->text);
    assert_int_equal(t.asked, rows[i].asked);
  }
}

/* Gates and memory of a host: the text of a server's turn is judged, and other phases add what no server may read. */
typedef struct host_hooks {
  bool denies;
  _Atomic int intakes, parents, apart;
} host_hooks;

static tp_answer judge_text(void *ctx, tp_call *tp) {
  host_hooks *h = ctx;
  h->intakes++;
  h->parents += tp_call_parent_turn(tp).size > 0;
  h->apart += tp_text_is(tp_call_id(tp, TP_ID_WORKSPACE), "mcp.s");
  if (h->denies) return tp_call_deny(tp, "not for servers");
  const tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("a text that the gate left")};
  return tp_call_replace(tp, &field, 1, NULL) == TP_OK ? TP_ANSWER_DONE : tp_call_fail(tp, TP_ERR_HOOK, "no");
}

static tp_answer add_context(void *ctx, tp_call *tp) {
  (void)ctx;
  tp_status status = tp_call_emit_prompt_context(tp, "secret", "the user's secret", 0, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(tp, status, "no context");
}

static tp_answer add_section(void *ctx, tp_call *tp) {
  (void)ctx;
  tp_status status = tp_call_emit_prompt_section(tp, "secret", "Secret", "the user's secret", 0, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(tp, status, "no section");
}

static tp_answer add_reminder(void *ctx, tp_call *tp) {
  (void)ctx;
  tp_status status = tp_call_emit_reminder(tp, "the user's secret", NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(tp, status, "no reminder");
}

static void add_host_hooks(world *w, host_hooks *h) {
  const tp_hook hooks[] = {
      {.struct_size = sizeof(tp_hook), .phase = "turn.intake", .run = judge_text, .ctx = h},
      {.struct_size = sizeof(tp_hook), .phase = "turn.pre_prompt_context", .run = add_context},
      {.struct_size = sizeof(tp_hook), .phase = "turn.pre_prompt_compile", .run = add_section},
      {.struct_size = sizeof(tp_hook), .phase = "model.pre", .run = add_reminder},
  };
  for (size_t i = 0; i < COUNT(hooks); i++) assert_int_equal(tp_hook_add(w->runtime, &hooks[i], NULL), TP_OK);
}

TEST(a_request_that_a_server_wanted_has_nothing_of_the_host) {
  world *w = *state;
  host_hooks h = {.denies = false};
  add_host_hooks(w, &h);
  for (size_t i = 0; i < COUNT(eras); i++) {
    thinker t = {.text = "It was me."};
    ask_thinker(w, eras[i], "samples=1", &t, (tp_mcp_sampling){0});
    if (!t.asked) fail_msg("%s", w->text);
    assert_string_equal(t.shown,
                        "Be short.|{\"max_tokens\":7,\"temperature\":0.5}|1:one|2:two|1:a text that the gate left");
  }
  assert_int_equal(h.intakes, 2);
  assert_int_equal(h.parents, 2); /* they are nested turns */
  assert_int_equal(h.apart, 2);   /* a memory of the host keeps nothing of them for its users */
}

TEST(a_gate_that_denies_the_turn_refuses_the_server) {
  world *w = *state;
  host_hooks h = {.denies = true};
  add_host_hooks(w, &h);
  for (size_t i = 0; i < COUNT(eras); i++) {
    thinker t = {.text = "It was me."};
    ask_thinker(w, eras[i], "samples=1", &t, (tp_mcp_sampling){0});
    if (!strstr(w->text, "not for servers")) fail_msg("%s", w->text);
    assert_int_equal(t.asked, 0);
  }
}

TEST(a_file_says_which_servers_may_sample) {
  static const char *const wanted[] = {"'text':'It was me.'", "'text':'It was me.'", "'code':-32601"};
  static const char *const members[] = {"", ", 'sampling': true", ", 'sampling': false"};
  world *w = *state;
  thinker t = {.text = "It was me."};
  const tp_mcp_sampling sampling = answered_by(&t, (tp_mcp_sampling){0});
  tp_mcp_config config = {.struct_size = sizeof config, .has_options = true, .sampling = &sampling};
  for (size_t i = 0; i < COUNT(members); i++) {
    char servers[512];
    snprintf(servers, sizeof servers, "{'s': {'command': '%s', 'args': ['samples=1']%s}}",
             getenv("TURNPHASE_MCP_SERVER"), members[i]);
    config.servers = json_value(w->writer, servers);
    assert_int_equal(tp_mcp_config_add(w->runtime, &config, NULL, NULL), TP_OK);
    if (!strstr(call(w, "mcp__s__echo", "{'text': 'x'}"), wanted[i])) fail_msg("%zu: %s", i, w->text);
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  }
}

/* No gate is asked about the call, and the tool does not run: the server would end at a call of die. */
TEST(a_model_that_calls_a_tool_for_a_server_runs_none) {
  world *w = *state;
  thinker t = {.text = "", .calls = "mcp__s__die"};
  ask_thinker(w, "new", "samples=1", &t, (tp_mcp_sampling){0});
  if (!strstr(w->text, "got none: ")) fail_msg("%s", w->text);
  assert_null(strstr(w->text, "exited"));
  assert_int_equal(t.asked, 1);
}

typedef struct cancelled_call {
  tp_tool_result_kind kind;
  latch ended;
} cancelled_call;

static void call_ended(void *ctx, const tp_task_result *result) {
  cancelled_call *c = ctx;
  c->kind = result->kind;
  latch_hit(&c->ended);
}

TEST(what_a_server_wants_ends_with_its_call) {
  world *w = *state;
  static thinker thinkers[COUNT(eras)]; /* which the model may have until the end of the runtime */
  for (size_t i = 0; i < COUNT(eras); i++) {
    thinker *t = &thinkers[i];
    *t = (thinker){.text = NULL};
    const tp_mcp_sampling sampling = answered_by(t, (tp_mcp_sampling){0});
    char words[64];
    snprintf(words, sizeof words, "%s samples=1", eras[i]);
    add_server(w, "s", words, OPTIONS(.sampling = &sampling));
    cancelled_call c = {.ended = LATCH};
    tp_submission *submission = NULL;
    const tp_task_spec spec = {
        .struct_size = sizeof spec, .tool = "mcp__s__echo", .arguments = json_value(w->writer, "{\"text\": \"x\"}")};
    assert_int_equal(tp_task_submit(w->runtime, TP_TASK_CALL, &spec, call_ended, &c, &submission, NULL), TP_OK);
    latch_wait(&t->began, 1);
    tp_submission_cancel(submission);
    latch_wait(&c.ended, 1);
    assert_int_equal(c.kind, TP_TOOL_CANCELLED);
    tp_submission_unref(submission);
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
    expect_no_tokens(w->runtime);
    assert_int_equal(t->cancelled, 1);
  }
}

/* The server dies while the model thinks: its call fails at once, and the model is told. */
TEST(a_server_that_dies_ends_what_it_wanted) {
  world *w = *state;
  static thinker t; /* the turn of the model may end with the runtime only */
  t = (thinker){.text = NULL};
  const tp_mcp_sampling sampling = answered_by(&t, (tp_mcp_sampling){0});
  add_server(w, "s", "samples=1 wants-and-dies", OPTIONS(.sampling = &sampling));
  assert_non_null(strstr(call(w, "mcp__s__echo", "{\"text\": \"x\"}"), "exited with code 6"));
  assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  expect_no_tokens(w->runtime);
}

static bool count_turns(void *ctx, const tp_turn_record *turn) {
  *(int *)ctx += turn->parent_turn.size > 0;
  return true;
}

TEST(what_a_server_wanted_is_recorded) {
  world *w = *state;
  thinker t = {.text = "It was me."};
  int nested = 0;
  const tp_turn_query all = {.struct_size = sizeof all};
  ask_thinker(w, "", "samples=2", &t, (tp_mcp_sampling){0});
  assert_int_equal(tp_runtime_turns(w->runtime, &all, count_turns, &nested, NULL), TP_OK);
  assert_int_equal(nested, 2);
}

TEST(without_a_model_a_server_is_refused) {
  static const char *const wanted[] = {"'code':-32601", "wants sampling/createMessage, which this client does not have",
                                       "there is no client that answers it", "there is no client that answers it"};
  world *w = *state;
  for (size_t i = 0; i < 4; i++) {
    const tp_mcp_sampling clients = {.struct_size = sizeof clients};
    char words[64];
    snprintf(words, sizeof words, "%s samples=1", eras[i % 2]);
    add_server(w, "s", words, OPTIONS(.sampling = i < 2 ? NULL : &clients));
    call(w, "mcp__s__echo", "{\"text\": \"x\"}");
    if (!strstr(w->text, wanted[i])) fail_msg("%zu: %s", i, w->text);
    assert_int_equal(tp_mcp_remove(w->runtime, "s", NULL), TP_OK);
  }
}

TEST(options_of_sampling_that_cannot_be_are_refused) {
  world *w = *state;
  tp_fault fault;
  tp_mcp_sampling sampling = {.struct_size = sizeof sampling, .tokens_max = -1};
  assert_int_equal(try_add(w, "s", "", OPTIONS(.sampling = &sampling), &fault), TP_ERR_USAGE);
  sampling = (tp_mcp_sampling){.struct_size = 3};
  assert_int_equal(try_add(w, "s", "", OPTIONS(.sampling = &sampling), &fault), TP_ERR_VERSION);
  const tp_model model = {.struct_size = 3};
  sampling = (tp_mcp_sampling){.struct_size = sizeof sampling, .model = &model};
  assert_int_equal(try_add(w, "s", "", OPTIONS(.sampling = &sampling), &fault), TP_ERR_VERSION);
}
