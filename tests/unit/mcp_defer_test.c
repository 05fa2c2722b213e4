/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools of servers that requests leave out until they are found: which tools each request of a turn shows, its system
 * text, the results of a search, calls of such tools, and that only the history stores which tools were found. The
 * tools stand for those of servers; tests/unit/mcp_test.c has the servers. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/json_value.h"
#include "turnphase/mcp.h"

enum { REQUESTS = 16, TOOLS_MAX = 512, LISTING = 1024, SYSTEM = 40000 };

/* ---- tools ---- */

typedef struct thing {
  const char *name, *description, *schema;
} thing;

static const thing things[] = {
    {"mcp__db__query", "Runs a statement of SQL.",
     "{\"type\":\"object\",\"properties\":{\"statement\":{\"type\":\"string\"},\"options\":{\"type\":\"object\","
     "\"properties\":{\"rowLimit\":{\"type\":\"integer\",\"description\":\"Most lines of the outcome\"}}}}}"},
    {"mcp__fs__delete_file", "Removes a file for good.", "{\"type\":\"object\",\"properties\":{\"path\":{}}}"},
    {"mcp__fs__read_file", "Reads a file.\nSecond line.", NULL},
    {"mcp__fs__write_file", "Writes a file.", NULL},
    {"mcp__gh__createIssue", "Opens a ticket in a repository.", NULL},
    {"mcp__gh__list_pull_requests", "Lists proposed changes of a repository.", NULL},
    {"mcp__mail__send", "Sends a letter to a person.", NULL},
    {"mcp__wx__forecast", "Wetter für eine Stadt: Öl, Köln.", NULL},
    {"look", "A tool of the host.", NULL},
};

/* ---- a model that answers from a script, and keeps what it was shown ---- */

typedef struct step {
  const char *tools[2], *arguments[2]; /* none: the answer "done" */
} step;

typedef struct world {
  tp_runtime *runtime;
  tp_session *session;
  tp_model model;
  tp_writer *writer;
  const step *steps;
  size_t step_count, asked; /* after the last step: "done" */
  char shown[REQUESTS][LISTING];
  char system[REQUESTS][SYSTEM];
  size_t bytes[REQUESTS];
  char results[LISTING];  /* kinds, each with a blank after it */
  char text[LISTING * 4]; /* of the last result */
  size_t thing_count;
  thing things[TOOLS_MAX];
  _Atomic int runs, guarded;
} world;

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  world *w = ctx;
  size_t n = w->asked++;
  tp_tool_call calls[2];
  const tp_tool_call *list[2];
  tp_text arguments[2] = {{NULL, 0}};
  tp_model_response response = {.struct_size = sizeof response, .calls = list};
  for (size_t i = 0; n < REQUESTS && i < request->tool_count; i++) {
    const tp_tool *tool = request->tools[i];
    size_t used = strlen(w->shown[n]);
    snprintf(w->shown[n] + used, LISTING - used, "%s ", tool->name);
    w->bytes[n] += strlen(tool->name) + strlen(tool->description) + tool->schema.size;
  }
  if (n < REQUESTS) {
    w->bytes[n] += request->system.size;
    snprintf(w->system[n], SYSTEM, "%.*s", (int)request->system.size, request->system.size ? request->system.data : "");
  }
  tp_writer *writers[2] = {NULL, NULL};
  for (; n < w->step_count && response.call_count < 2 && w->steps[n].tools[response.call_count];
       response.call_count++) {
    size_t i = response.call_count;
    if (tp_writer_new(NULL, &writers[i]) != TP_OK ||
        tp_json_decode(tp_text_of(w->steps[n].arguments[i]), writers[i], NULL) != TP_OK ||
        tp_writer_finish(writers[i], &arguments[i]) != TP_OK)
      abort();
    calls[i] = (tp_tool_call){
        .struct_size = sizeof *calls, .name = tp_text_of(w->steps[n].tools[i]), .arguments = arguments[i]};
    list[i] = &calls[i];
  }
  if (response.call_count == 0) response.text = tp_text_of("done");
  (void)!tp_model_complete(token, &response, NULL);
  for (size_t i = 0; i < 2; i++) tp_writer_free(writers[i]);
}

static tp_answer run_thing(void *ctx, tp_tool_run *run) {
  ((world *)ctx)->runs++;
  return tp_tool_ok(run, tp_text_of("ran"));
}

static tp_answer contribute_things(void *ctx, tp_call *tp) {
  world *w = ctx;
  tp_tool *tools = calloc(w->thing_count + 1, sizeof *tools);
  const tp_tool **list = calloc(w->thing_count + 1, sizeof *list);
  for (size_t i = 0; i < w->thing_count; i++) {
    tools[i] = (tp_tool){.struct_size = sizeof *tools,
                         .name = w->things[i].name,
                         .description = w->things[i].description,
                         .schema_json = w->things[i].schema,
                         .run = run_thing,
                         .ctx = w,
                         .placement = TP_PLACEMENT_INLINE};
    list[i] = &tools[i];
  }
  tp_fault fault = {0};
  if (tp_call_emit_tool_bundle(tp, "things", list, w->thing_count, &fault) != TP_OK)
    fprintf(stderr, "%s\n", fault.message);
  free(list);
  free(tools);
  return TP_ANSWER_DONE;
}

/* Denies what deletes. */
static tp_answer guard(void *ctx, tp_call *tp) {
  ((world *)ctx)->guarded++;
  return tp_text_is(tp_call_text(tp, TP_FIELD_TOOL), "mcp__fs__delete_file") ? tp_call_deny(tp, "not that")
                                                                             : TP_ANSWER_DONE;
}

static void note_result(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind != TP_EVENT_TOOL_END) return;
  size_t used = strlen(w->results);
  snprintf(w->results + used, sizeof w->results - used, "%s ", tp_tool_result_name(event->tool_result->kind));
  snprintf(w->text, sizeof w->text, "%.*s", (int)event->tool_result->text.size, event->tool_result->text.data);
}

/* ---- the world ---- */

static void open_session(world *w, const char *id, tp_agent *agent, tp_shared_history *history) {
  const tp_session_options options = {
      .struct_size = sizeof options, .id = id, .model = &w->model, .agent = agent, .shared_history = history};
  tp_fault fault = {0};
  if (tp_session_open(w->runtime, &options, &w->session, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void open_world(world *w) {
  const hook hooks[] = {
      {.id = "things", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = contribute_things, .ctx = w},
      {.id = "guard", .phase = TP_PHASE_TOOL_PRE, .run = guard, .ctx = w}};
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = note_result, .ctx = w};
  w->runtime = open_runtime(NULL);
  w->model = (tp_model){.struct_size = sizeof w->model, .name = "script", .start = model_start, .ctx = w};
  add_hooks(w->runtime, hooks, COUNT(hooks));
  assert_int_equal(tp_runtime_listen(w->runtime, &listener, NULL, NULL), TP_OK);
}

static world *new_world(void) {
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  memcpy(w->things, things, sizeof things);
  w->thing_count = COUNT(things);
  open_world(w);
  return w;
}

static void close_world(world *w) {
  if (w->session) tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  free(w);
}

static void defer(world *w, tp_mcp_defer_options options) {
  tp_fault fault = {0};
  options.struct_size = sizeof options;
  if (tp_mcp_defer_add(w->runtime, &options, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void say(world *w, const step *steps, size_t count, tp_text parameters) {
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go"), .parameters = parameters};
  w->steps = steps;
  w->step_count = count;
  w->asked = 0;
  memset(w->shown, 0, sizeof w->shown);
  memset(w->system, 0, sizeof w->system);
  memset(w->bytes, 0, sizeof w->bytes);
  w->results[0] = w->text[0] = '\0';
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  if (result->outcome != TP_TURN_COMPLETED) fail_msg("%.*s", (int)result->reason.size, result->reason.data);
  tp_turn_result_free(result);
}

#define SEARCH(query)                                                     \
  {                                                                       \
    .tools = {"mcp_search"}, .arguments = { "{\"query\":\"" query "\"}" } \
  }
#define CALL(tool)                         \
  {                                        \
    .tools = {tool}, .arguments = { "{}" } \
  }
#define NONE ((tp_text){NULL, 0})
#define BASE "mcp_search look "

/* ---- what requests show ---- */

TEST(a_request_shows_what_was_found_after_all_others) {
  static const struct {
    const char *name;
    uint32_t above, found_max;
    step steps[4];
    size_t count;
    const char *shown[5], *results;
  } rows[] = {
      {"as many as may be shown: nothing is left out, and there is nothing to search",
       8,
       0,
       {CALL("mcp__fs__read_file")},
       1,
       {"mcp__db__query mcp__fs__delete_file mcp__fs__read_file mcp__fs__write_file mcp__gh__createIssue "
        "mcp__gh__list_pull_requests mcp__mail__send mcp__wx__forecast look "},
       "ok "},
      {"one more than that", 7, 0, {{.tools = {NULL}}}, 0, {BASE}, ""},
      {"found, and called",
       4,
       0,
       {SEARCH("ticket"), CALL("mcp__gh__createIssue")},
       2,
       {BASE, BASE "mcp__gh__createIssue ", BASE "mcp__gh__createIssue "},
       "ok ok "},
      {"what is found later comes later",
       4,
       0,
       {SEARCH("letter"), SEARCH("sql"), SEARCH("ticket")},
       3,
       {BASE, BASE "mcp__mail__send ", BASE "mcp__mail__send mcp__db__query ",
        BASE "mcp__mail__send mcp__db__query mcp__gh__createIssue "},
       "ok ok ok "},
      {"found twice",
       4,
       0,
       {SEARCH("letter"), SEARCH("sql"), SEARCH("letter")},
       3,
       {BASE, BASE "mcp__mail__send ", BASE "mcp__mail__send mcp__db__query ", BASE "mcp__mail__send mcp__db__query "},
       "ok ok ok "},
      {"a call of what was not found is not run, and finds it",
       4,
       0,
       {CALL("mcp__fs__write_file"), CALL("mcp__fs__write_file")},
       2,
       {BASE, BASE "mcp__fs__write_file ", BASE "mcp__fs__write_file "},
       "out_of_scope ok "},
      {"a guard holds for what was found",
       4,
       0,
       {SEARCH("delete"), CALL("mcp__fs__delete_file")},
       2,
       {BASE, BASE "mcp__fs__delete_file ", BASE "mcp__fs__delete_file "},
       "ok denied "},
      {"a guard holds for what was called first",
       4,
       0,
       {CALL("mcp__fs__delete_file"), CALL("mcp__fs__delete_file")},
       2,
       {BASE, BASE "mcp__fs__delete_file ", BASE "mcp__fs__delete_file "},
       "out_of_scope denied "},
      {"the search and the call in one answer",
       4,
       0,
       {{.tools = {"mcp_search", "mcp__mail__send"}, .arguments = {"{\"query\":\"letter\"}", "{}"}},
        CALL("mcp__mail__send")},
       2,
       {BASE, BASE "mcp__mail__send ", BASE "mcp__mail__send "},
       "ok out_of_scope ok "},
      {"no hit", 4, 0, {SEARCH("zzz")}, 1, {BASE, BASE}, "ok "},
      {"an empty query is refused by its schema", 4, 0, {SEARCH("")}, 1, {BASE, BASE}, "invalid_arguments "},
      {"a name that is no tool's", 4, 0, {CALL("mcp__no__such")}, 1, {BASE, BASE}, "unknown_tool "},
      {"more than may be shown: the first ones leave",
       4,
       2,
       {SEARCH("letter"), SEARCH("sql"), SEARCH("ticket")},
       3,
       {BASE, BASE "mcp__mail__send ", BASE "mcp__mail__send mcp__db__query ",
        BASE "mcp__db__query mcp__gh__createIssue "},
       "ok ok ok "},
      {"what has left and is called is refused",
       4,
       1,
       {SEARCH("letter"), SEARCH("sql"), CALL("mcp__mail__send")},
       3,
       {BASE, BASE "mcp__mail__send ", BASE "mcp__db__query ", BASE "mcp__db__query "},
       "ok ok out_of_scope "},
      {"a search finds no more than may be shown",
       4,
       1,
       {SEARCH("file")},
       1,
       {BASE, BASE "mcp__fs__delete_file "},
       "ok "},
      {"tools of the host are always there", 4, 0, {CALL("look")}, 1, {BASE, BASE}, "ok "},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    world *w = new_world();
    defer(w, (tp_mcp_defer_options){.above = rows[i].above, .found_max = rows[i].found_max});
    open_session(w, "s", NULL, NULL);
    say(w, rows[i].steps, rows[i].count, NONE);
    assert_int_equal(w->asked, rows[i].count + 1);
    for (size_t n = 0; n <= rows[i].count; n++)
      if (strcmp(w->shown[n], rows[i].shown[n] ? rows[i].shown[n] : rows[i].shown[0]) != 0)
        fail_msg("%s: request %zu shows %s", rows[i].name, n, w->shown[n]);
    if (strcmp(w->results, rows[i].results) != 0) fail_msg("%s: %s", rows[i].name, w->results);
    for (size_t n = 1; n <= rows[i].count; n++) assert_string_equal(w->system[n], w->system[0]); /* a prompt cache */
    close_world(w);
  }
}

TEST(the_system_text_names_every_tool_that_can_be_found) {
  world *w = new_world();
  defer(w, (tp_mcp_defer_options){.above = 7});
  open_session(w, "s", NULL, NULL);
  say(w, NULL, 0, NONE);
  assert_string_equal(
      w->system[0],
      "# Tools that mcp_search finds\n\nThese tools exist, too. Each can be called after mcp_search has "
      "found it, not before.\nmcp__db__query, mcp__fs__delete_file, mcp__fs__read_file, "
      "mcp__fs__write_file, mcp__gh__createIssue, mcp__gh__list_pull_requests, mcp__mail__send, "
      "mcp__wx__forecast");
  assert_int_equal(tp_mcp_defer_remove(w->runtime, NULL), TP_OK);
  say(w, NULL, 0, NONE);
  assert_string_equal(w->system[0], "");
  assert_null(strstr(w->shown[0], "mcp_search"));
  assert_non_null(strstr(w->shown[0], "mcp__db__query"));
  assert_int_equal(tp_mcp_defer_remove(w->runtime, NULL), TP_ERR_NOT_FOUND);
  close_world(w);
}

TEST(a_choice_of_the_request_is_shown) {
  static const char *const rows[] = {
      "{'tool_choice': {'type': 'function', 'function': {'name': 'mcp__mail__send'}}}",
      "{'tool_choice': {'type': 'tool', 'name': 'mcp__mail__send'}}",
      "{'tool_choice': 'mcp__mail__send'}",
      "{'tool_choice': {'type': 'allowed_tools', 'tools': [{'name': 'mcp__mail__send'}]}}",
  };
  world *w = new_world();
  defer(w, (tp_mcp_defer_options){.above = 4});
  open_session(w, "s", NULL, NULL);
  assert_int_equal(tp_writer_new(NULL, &w->writer), TP_OK);
  for (size_t i = 0; i < COUNT(rows); i++) {
    say(w, NULL, 0, json_value(w->writer, rows[i]));
    assert_string_equal(w->shown[0], BASE "mcp__mail__send ");
  }
  say(w, NULL, 0, json_value(w->writer, "{'tool_choice': 'auto', 'user': 'mcp__mail__send'}"));
  assert_string_equal(w->shown[0], BASE);
  tp_writer_free(w->writer);
  close_world(w);
}

/* ---- the search ---- */

TEST(a_search_finds_by_words_of_names_descriptions_and_parameters) {
  static const struct {
    const char *query, *found; /* the first ones, in their order */
    const char *not_found;
  } rows[] = {
      {"ticket", "mcp__gh__createIssue", "mcp__fs__"},
      {"issue", "mcp__gh__createIssue", "mcp__mail"},
      {"ISSUES", "mcp__gh__createIssue", "mcp__mail"},
      {"create an issue in the repository", "mcp__gh__createIssue mcp__gh__list_pull_requests", "mcp__mail"},
      {"pull request", "mcp__gh__list_pull_requests", "mcp__gh__createIssue"},
      {"delete a file", "mcp__fs__delete_file mcp__fs__read_file mcp__fs__write_file", "mcp__gh"},
      {"file write", "mcp__fs__write_file", "mcp__gh"},
      {"statement", "mcp__db__query", "mcp__fs"},
      {"row limit", "mcp__db__query", "mcp__fs"},
      {"outcome", "mcp__db__query", "mcp__fs"},
      {"mcp__mail__send", "mcp__mail__send", NULL},
      {"please use mcp__wx__forecast, read_file", "mcp__wx__forecast mcp__fs__read_file", NULL},
      {"send", "mcp__mail__send", "mcp__db"},
      {"delete file removes good mcp__mail__send", "mcp__mail__send mcp__fs__delete_file", NULL}, /* a name is first */
      {"delete file removes good send", "mcp__mail__send mcp__fs__delete_file", NULL},
      {"Öl", "mcp__wx__forecast", "mcp__db"},
      {"the", "mcp__db__query", "mcp__fs"}, /* a common word counts where there is no other */

      {"fo", "None of the 8 tools", NULL}, /* too short to be a beginning */
      {"zebra", "None of the 8 tools of servers has one of these words", "mcp__"},
      {"!?", "None of the 8 tools", NULL},
      {"host", "None of the 8 tools", "look"},
  };
  world *w = new_world();
  defer(w, (tp_mcp_defer_options){.above = 4});
  for (size_t i = 0; i < COUNT(rows); i++) {
    char arguments[256], found[512], id[16];
    snprintf(id, sizeof id, "s%zu", i);
    open_session(w, id, NULL, NULL);
    snprintf(arguments, sizeof arguments, "{\"query\":\"%s\"}", rows[i].query);
    const step steps[] = {{.tools = {"mcp_search"}, .arguments = {arguments}}};
    say(w, steps, 1, NONE);
    assert_string_equal(w->results, "ok ");
    bool is_none = strncmp(rows[i].found, "None", 4) == 0;
    const char *begin = is_none ? rows[i].found : NULL;
    if (begin && !strstr(w->text, begin)) fail_msg("%s: %s", rows[i].query, w->text);
    snprintf(found, sizeof found, BASE "%s ", is_none ? "" : rows[i].found);
    if (is_none) assert_string_equal(w->shown[1], BASE);
    else if (strncmp(w->shown[1], found, strlen(found)) != 0) fail_msg("%s: %s", rows[i].query, w->shown[1]);
    if (rows[i].not_found && strstr(w->shown[1] + strlen(BASE), rows[i].not_found))
      fail_msg("%s: %s", rows[i].query, w->shown[1]);
    tp_session_close(w->session, NULL, NULL);
    w->session = NULL;
  }
  close_world(w);
}

TEST(a_search_says_how_many_more_fit) {
  world *w = new_world();
  defer(w, (tp_mcp_defer_options){.above = 4});
  open_session(w, "s", NULL, NULL);
  const step steps[] = {{.tools = {"mcp_search"}, .arguments = {"{\"query\":\"file\",\"limit\":1}"}}};
  say(w, steps, 1, NONE);
  assert_string_equal(
      w->text,
      "This tool can be called from the next answer on:\nmcp__fs__delete_file: Removes a file for good.\n2 "
      "more fit less well: search with more words, or with other ones.\n");
  const step more[] = {SEARCH("reads file")};
  say(w, more, 1, NONE);
  assert_non_null(strstr(w->text, "These tools can be called"));
  assert_non_null(strstr(w->text, "mcp__fs__read_file: Reads a file.…\n")); /* its first line */
  const step many[] = {SEARCH("b1 b2 b3 b4 b5 b6 b7 b8 b9 c1 c2 c3 c4 c5 c6 c7 file")};
  say(w, many, 1, NONE);
  assert_non_null(strstr(w->text, "None of the 8 tools")); /* the seventeenth word is not looked for */
  close_world(w);
}

/* ---- where what was found is kept ---- */

TEST(what_was_found_stays_found_as_long_as_the_history_has_it) {
  world *w = new_world();
  tp_history *history = NULL;
  tp_shared_history *shared = NULL;
  const step find[] = {SEARCH("letter")};
  assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
  assert_int_equal(tp_history_share(NULL, history, &shared, NULL), TP_OK);
  defer(w, (tp_mcp_defer_options){.above = 4});
  open_session(w, "s", NULL, shared);
  say(w, find, 1, NONE);
  say(w, NULL, 0, NONE); /* the next turn */
  assert_string_equal(w->shown[0], BASE "mcp__mail__send ");
  tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  open_world(w); /* another process */
  defer(w, (tp_mcp_defer_options){.above = 4});
  open_session(w, "s", NULL, shared);
  say(w, NULL, 0, NONE);
  assert_string_equal(w->shown[0], BASE "mcp__mail__send ");
  tp_session_close(w->session, NULL, NULL);
  open_session(w, "other", NULL, shared);
  say(w, NULL, 0, NONE);
  assert_string_equal(w->shown[0], BASE); /* another session has found nothing */
  close_world(w);
  tp_shared_history_unref(shared);
}

TEST(a_tool_that_is_gone_is_shown_no_more) {
  world *w = new_world();
  const step find[] = {SEARCH("letter forecast")};
  defer(w, (tp_mcp_defer_options){.above = 4});
  open_session(w, "s", NULL, NULL);
  say(w, find, 1, NONE);
  assert_string_equal(w->shown[1], BASE "mcp__wx__forecast mcp__mail__send ");
  memmove(&w->things[6], &w->things[7], 2 * sizeof *w->things); /* without mcp__mail__send */
  w->thing_count--;
  say(w, NULL, 0, NONE);
  assert_string_equal(w->shown[0], BASE "mcp__wx__forecast ");
  assert_null(strstr(w->system[0], "mcp__mail__send"));
  memcpy(w->things, things, sizeof things);
  w->thing_count++;
  say(w, NULL, 0, NONE); /* it is back */
  assert_string_equal(w->shown[0], BASE "mcp__wx__forecast mcp__mail__send ");
  close_world(w);
}

TEST(an_agent_has_what_its_scope_has) {
  static const struct {
    const char *config, *shown;
  } rows[] = {
      {"{'tools': ['mcp_search', 'look', 'mcp__fs__read_file', 'mcp__fs__write_file', 'mcp__mail__send']}", BASE},
      {"{'tools': ['look', 'mcp__fs__read_file', 'mcp__fs__write_file', 'mcp__mail__send']}", /* nothing can search */
       "mcp__fs__read_file mcp__fs__write_file mcp__mail__send look "},
      {"{'tools': ['mcp_search', 'look', 'mcp__fs__read_file']}", "mcp__fs__read_file look "},
      {"{'tools': []}", ""},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    world *w = new_world();
    tp_agent *agent = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_writer_new(NULL, &w->writer), TP_OK);
    const tp_agent_config config = {
        .struct_size = sizeof config, .id = "a", .model = &w->model, .extra = json_value(w->writer, rows[i].config)};
    defer(w, (tp_mcp_defer_options){.above = 2});
    if (tp_agent_add(w->runtime, &config, &agent, &fault) != TP_OK) fail_msg("%s", fault.message);
    open_session(w, "s", agent, NULL);
    const step steps[] = {SEARCH("file letter ticket")};
    say(w, steps, i == 0, NONE);
    assert_string_equal(w->shown[0], rows[i].shown);
    if (i == 0) {
      assert_null(strstr(w->text, "mcp__gh__createIssue"));
      assert_null(strstr(w->system[0], "mcp__gh__createIssue"));
      assert_non_null(strstr(w->text, "mcp__mail__send"));
    }
    tp_agent_remove(agent);
    tp_writer_free(w->writer);
    close_world(w);
  }
}

/* ---- turns that calls run ---- */

/* Runs a turn in a session of its own, and has its answer. */
static tp_answer delegate(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  const tp_session_options options = {.struct_size = sizeof options, .id = "below", .model = &w->model};
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  const tp_turn_result *result = NULL;
  tp_session *below = NULL;
  tp_fault fault = {0};
  tp_status status = tp_session_open(w->runtime, &options, &below, &fault);
  if (status == TP_OK) status = tp_tool_run_turn(run, below, &request, &result, &fault);
  tp_session_close(below, NULL, NULL);
  if (status != TP_OK) return tp_tool_error(run, tp_text_of(fault.message));
  tp_answer answer = tp_tool_ok(run, result->text);
  tp_turn_result_free(result);
  return answer;
}

/* Tools that the surrounding turn has found are not available in a nested turn, nor the other way round. */
TEST(a_nested_turn_begins_with_nothing_found) {
  world *w = new_world();
  const tp_tool tool = {
      .struct_size = sizeof tool, .name = "delegate", .description = "Runs a turn.", .run = delegate, .ctx = w};
  const step none = {.tools = {NULL}};
  const step steps[] = {SEARCH("letter"), CALL("delegate"), CALL("mcp__mail__send"), SEARCH("ticket"), none, none};
  assert_int_equal(tp_tool_add(w->runtime, &tool, NULL), TP_OK);
  defer(w, (tp_mcp_defer_options){.above = 4});
  open_session(w, "s", NULL, NULL);
  say(w, steps, COUNT(steps), NONE);
  assert_int_equal(w->asked, 6);
  assert_string_equal(w->shown[0], BASE "delegate ");
  assert_string_equal(w->shown[1], BASE "delegate mcp__mail__send ");
  /* the nested turn: a call of a tool that only the other turn has found does not run, and reaches no gate */
  assert_string_equal(w->shown[2], BASE "delegate ");
  assert_string_equal(w->shown[3], BASE "delegate mcp__mail__send ");
  assert_string_equal(w->shown[4], BASE "delegate mcp__mail__send mcp__gh__createIssue ");
  assert_int_equal(w->runs, 0);
  assert_int_equal(w->guarded, 3); /* two searches, one delegate */
  /* the turn around it has found no more than before */
  assert_string_equal(w->shown[5], BASE "delegate mcp__mail__send ");
  close_world(w);
}

/* ---- histories that become shorter ---- */

static tp_status keep_all_but_results(void *ctx, const tp_compaction_request *request, tp_fault *fault) {
  const tp_message said = {.struct_size = sizeof said, .role = TP_ROLE_USER, .text = TEXT("mcp__mail__send was found")};
  (void)ctx, (void)fault;
  request->each(request->each_ctx, &said); /* words of a summary are no result of a search */
  return TP_OK;
}

static void open_compacted(world *w, tp_compaction how, tp_compact_fn compact, int64_t tokens_max) {
  const tp_session_options options = {.struct_size = sizeof options,
                                      .id = "s",
                                      .model = &w->model,
                                      .compaction = how,
                                      .compact = compact,
                                      .history_tokens_max = tokens_max};
  tp_fault fault = {0};
  if (tp_session_open(w->runtime, &options, &w->session, &fault) != TP_OK) fail_msg("%s", fault.message);
}

TEST(after_a_compaction_that_dropped_the_search_it_is_to_be_found_again) {
  static const struct {
    tp_compaction how;
    tp_compact_fn compact;
  } rows[] = {
      {TP_COMPACTION_DROP_OLDEST, NULL}, {TP_COMPACTION_HOST, keep_all_but_results}, {TP_COMPACTION_SUMMARIZE, NULL}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    world *w = new_world();
    const step find[] = {SEARCH("letter")};
    defer(w, (tp_mcp_defer_options){.above = 4});
    open_compacted(w, rows[i].how, rows[i].compact, 10);
    say(w, find, 1, NONE); /* the search is in its own turn, which is never made shorter */
    assert_string_equal(w->shown[1], BASE "mcp__mail__send ");
    say(w, NULL, 0, NONE);
    const char *last = w->shown[w->asked - 1]; /* before it a model may be asked for the summary */
    assert_string_equal(last, BASE);
    const step again[] = {SEARCH("letter"), CALL("mcp__mail__send")};
    w->runs = 0;
    say(w, i == 2 ? (const step[]){{.tools = {NULL}}, SEARCH("letter"), CALL("mcp__mail__send")} : again,
        i == 2 ? 3 : 2, NONE);
    assert_int_equal(w->runs, 1);
    close_world(w);
  }
}

TEST(a_compaction_that_keeps_the_search_keeps_what_was_found) {
  world *w = new_world();
  const step find[] = {SEARCH("letter")};
  defer(w, (tp_mcp_defer_options){.above = 4});
  open_compacted(w, TP_COMPACTION_DROP_OLDEST, NULL, 200);
  for (int i = 0; i < 20; i++) say(w, NULL, 0, NONE); /* a few tokens each: the oldest of them go */
  say(w, find, 1, NONE);
  say(w, NULL, 0, NONE);
  assert_string_equal(w->shown[0], BASE "mcp__mail__send ");
  for (int i = 0; i < 100 && strstr(w->shown[0], "mcp__mail__send"); i++) say(w, NULL, 0, NONE);
  assert_string_equal(w->shown[0], BASE); /* it has become one of the oldest */
  close_world(w);
}

/* ---- options ---- */

TEST(options_of_a_search_that_cannot_be_are_refused) {
  world *w = new_world();
  tp_fault fault = {0};
  tp_mcp_defer_options options = {.struct_size = sizeof options, .tool = "mcp__search"};
  assert_int_equal(tp_mcp_defer_add(w->runtime, &options, &fault), TP_ERR_BAD_ID);
  assert_non_null(strstr(fault.message, "does not begin with mcp__"));
  options.tool = "find tools";
  assert_int_equal(tp_mcp_defer_add(w->runtime, &options, &fault), TP_ERR_BAD_ID);
  options.tool = "";
  assert_int_equal(tp_mcp_defer_add(w->runtime, &options, &fault), TP_ERR_BAD_ID);
  options = (tp_mcp_defer_options){.struct_size = 0};
  assert_int_equal(tp_mcp_defer_add(w->runtime, &options, &fault), TP_ERR_VERSION);
  assert_int_equal(tp_mcp_defer_add(NULL, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_defer_remove(NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_mcp_defer_add(w->runtime, NULL, &fault), TP_OK);
  assert_int_equal(tp_mcp_defer_add(w->runtime, NULL, &fault), TP_ERR_DUPLICATE_ID);
  open_session(w, "s", NULL, NULL);
  say(w, NULL, 0, NONE); /* eight tools are below the default */
  assert_null(strstr(w->shown[0], "mcp_search"));
  assert_int_equal(tp_mcp_defer_remove(w->runtime, &fault), TP_OK);
  options = (tp_mcp_defer_options){.struct_size = sizeof options, .above = 1, .tool = "find"};
  assert_int_equal(tp_mcp_defer_add(w->runtime, &options, &fault), TP_OK);
  const step steps[] = {{.tools = {"find"}, .arguments = {"{\"query\":\"letter\"}"}}};
  say(w, steps, 1, NONE);
  assert_string_equal(w->shown[1], "find look mcp__mail__send ");
  assert_non_null(strstr(w->system[0], "# Tools that find finds"));
  close_world(w);
}

/* ---- many tools ---- */

/* Names and descriptions of many tools of some servers. */
static void make_many(world *w, size_t count, size_t name_bytes) {
  static char names[TOOLS_MAX][100], descriptions[TOOLS_MAX][300];
  for (size_t i = 0; i < count; i++) {
    snprintf(names[i], sizeof names[i], "mcp__server%zu__%s_%03zu%.*s", i / 100, i % 2 ? "update" : "create", i,
             (int)(name_bytes > 24 ? name_bytes - 24 : 0),
             "_of_a_name_that_is_as_long_as_names_of_tools_may_be_and_says_little");
    snprintf(
        descriptions[i], sizeof descriptions[i],
        "Changes record %zu of the service. Use it when the user wants that record to be changed, and not for other "
        "records; it returns the record as it is afterwards, with all of its fields.",
        i);
    w->things[i] =
        (thing){names[i], descriptions[i],
                "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"description\":\"The id of "
                "the record\"},\"fields\":{\"type\":\"object\",\"description\":\"What to change, by name\"},"
                "\"dry_run\":{\"type\":\"boolean\",\"description\":\"Only says what would change\"}},"
                "\"required\":[\"id\",\"fields\"]}"};
  }
  w->thing_count = count;
}

TEST(a_request_of_many_tools_is_small) {
  static const size_t counts[] = {100, 400};
  for (size_t i = 0; i < COUNT(counts); i++) {
    world *w = new_world();
    make_many(w, counts[i], 0);
    open_session(w, "s", NULL, NULL);
    say(w, NULL, 0, NONE);
    size_t before = w->bytes[0];
    defer(w, (tp_mcp_defer_options){0});
    const step steps[] = {SEARCH("record 57")};
    say(w, steps, 1, NONE);
    print_message("# %zu tools: %zu bytes of tools and system text; %zu with a search, %zu after one\n", counts[i],
                  before, w->bytes[0], w->bytes[1]);
    assert_non_null(strstr(w->shown[1], "mcp_search mcp__server0__update_057 "));
    assert_true(w->bytes[0] * 8 < before);
    close_world(w);
  }
}

TEST(too_many_names_become_numbers_for_each_server) {
  world *w = new_world();
  make_many(w, 400, 90);
  defer(w, (tp_mcp_defer_options){0});
  open_session(w, "s", NULL, NULL);
  say(w, NULL, 0, NONE);
  assert_non_null(strstr(w->system[0],
                         "not before.\nmcp__server0__*: 100 tools\nmcp__server1__*: 100 tools\n"
                         "mcp__server2__*: 100 tools\nmcp__server3__*: 100 tools\n"));
  assert_null(strstr(w->system[0], "_000"));
  close_world(w);
}
