/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks of examples/hooks as a host loads them, in turns with calls. */
#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/model.h"

#include "examples/hooks/hooks.c"

/* ---- a session whose model makes one call ---- */

typedef struct world {
  tp_runtime *runtime;
  recorder *model;
  tp_session *session;
  reply replies[2];
  char result[256];
} world;

static tp_answer edit_or_write(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, (tp_text)TEXT("done"));
}

static const tp_tool tools[] = {
    {.struct_size = sizeof(tp_tool), .name = "edit_file", .run = edit_or_write, .placement = TP_PLACEMENT_INLINE},
    {.struct_size = sizeof(tp_tool),
     .name = "db.write.user_row",
     .run = edit_or_write,
     .placement = TP_PLACEMENT_INLINE}};
static const tp_tool *const tool_list[] = {&tools[0], &tools[1]};
static const tp_contribution bundle = {.struct_size = sizeof bundle,
                                       .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                       .key = TEXT("t"),
                                       .tools = tool_list,
                                       .tool_count = 2};
static act contributes = {.emits = &bundle, .emit_count = 1};

static void note_result(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind == TP_EVENT_TOOL_END)
    snprintf(w->result, sizeof w->result, "%s: %.*s", tp_tool_result_name(event->tool_result->kind),
             (int)event->tool_result->text.size, event->tool_result->text.data);
}

static void open_world(world *w, const char *environment, const char *tool, tp_text arguments) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "hooks", .trust = TP_TRUST_HOST};
  tp_edit *edit;
  tp_fault fault = {0};
  *w = (world){.runtime = open_runtime(NULL)};
  w->replies[0] = (reply){.text = "", .call_count = tool != NULL};
  if (tool) w->replies[0].calls[0] = (tp_tool_call){.id = TEXT("1"), .name = tp_text_of(tool), .arguments = arguments};
  w->replies[1] = (reply){.text = "ok"};
  w->model = recorder_new(w->replies, 2);
  setenv("HOOKS_DIR", directory, 1);
  setenv("DEPLOY_ENV", environment, 1);
  assert_int_equal(tp_edit_begin(w->runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(tp_domain_add(w->runtime, edit, &tp_domain_export, &fault), TP_OK);
  if (tp_edit_commit(edit, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  add_hooks(w->runtime, &(hook){.id = "t", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes}, 1);
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s",
                                .model = recorder_model(w->model, true),
                                .on_event = note_result,
                                .event_ctx = w};
  assert_int_equal(tp_session_open(w->runtime, &options, &w->session, NULL), TP_OK);
}

static void say(const world *w, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

/* The drain waits for detached runs. */
static void close_world(world *w, const tp_session_end *end) {
  assert_int_equal(tp_session_close_with(w->session, end, NULL, NULL, NULL), TP_OK);
  assert_int_equal(tp_runtime_drain(w->runtime, 60000, NULL, NULL), TP_OK);
  close_runtime(w->runtime);
  recorder_free(w->model);
}

/* What a log has, which goes. */
static const char *take_log(const char *name) {
  static char text[1024];
  char file[256];
  snprintf(file, sizeof file, "%s/%s", directory, name);
  FILE *in = fopen(file, "r");
  text[in ? fread(text, 1, sizeof text - 1, in) : 0] = '\0';
  if (in) fclose(in);
  unlink(file);
  return text;
}

#define PATH(size, path) \
  TEXT(                  \
      "\x81\xa9"         \
      "file_path" size path)

FOR_ALL_TESTS(make_directory, remove_directory);

TEST(calls_below_production_paths_are_denied) {
  world w;
  open_world(&w, "dev", "edit_file", (tp_text)PATH("\xab", "/srv/prod/x"));
  say(&w, "go");
  assert_non_null(strstr(w.result, "denied: "));
  assert_non_null(strstr(w.result, "Production paths are off-limits in this session."));
  assert_non_null(strstr(w.model->requests[1], "hook no-prod blocked the action: Production paths"));
  close_world(&w, NULL);
  assert_string_equal(take_log("ability_usage.log"), ""); /* the hook did not run */
  assert_string_equal(take_log("archive.log"), "s ended: closed, last turn completed\n");
}

TEST(other_calls_run_and_are_tracked) {
  world w;
  open_world(&w, "dev", "edit_file", (tp_text)PATH("\xa9", "/srv/dev/"));
  say(&w, "go");
  assert_string_equal(w.result, "ok: done");
  close_world(&w, NULL);
  const char *log = take_log("ability_usage.log");
  assert_memory_equal(log, "edit_file success ", 18);
  assert_non_null(strchr(log, '\n'));
  (void)take_log("archive.log");
}

TEST(edits_of_prod_config_are_asked_about) {
  world w;
  open_world(&w, "dev", "edit_file", (tp_text)PATH("\xad", "config/prod/x"));
  say(&w, "go");
  assert_non_null(strstr(w.result, "denied: ")); /* no person can be asked */
  assert_non_null(strstr(w.model->requests[1], "prod_config_guard"));
  close_world(&w, NULL);
  (void)take_log("archive.log");
}

TEST(operations_are_not_available_in_prod) {
  static const char *const environments[] = {"prod", "dev"};
  for (size_t i = 0; i < COUNT(environments); i++) {
    world w;
    open_world(&w, environments[i], "db.write.user_row", no_arguments);
    say(&w, "go");
    if (i == 0) assert_non_null(strstr(w.result, "denied: "));
    else assert_string_equal(w.result, "ok: done");
    assert_true((strstr(w.model->requests[1], "not enabled in prod environments") != NULL) == (i == 0));
    close_world(&w, NULL);
    (void)take_log("archive.log");
    (void)take_log("ability_usage.log");
  }
}

TEST(request_about_signup_gets_routing_hints) {
  world w;
  open_world(&w, "dev", NULL, no_arguments);
  say(&w, "run the signup tests");
  assert_non_null(strstr(w.model->requests[0], "\"kind\":\"routing_hint\",\"code\":\"ROUTE_SUGGESTION\""));
  assert_non_null(strstr(w.model->requests[0], "signup_e2e_test"));
  assert_non_null(strstr(w.model->requests[0], "normalized_intent"));
  say(&w, "hello");
  assert_null(strstr(strstr(w.model->requests[1], "U<hello"), "routing_hint"));
  close_world(&w, NULL);
  (void)take_log("archive.log");
}

TEST(build_is_checked_where_source_changed) {
  const struct {
    tp_text changed;
    const char *log;
  } ends[] = {{TEXT("\x92\xa8"
                    "apps/a.c\xa1x"),
               "s: 2 changed files, build them\n"},
              {TEXT("\x91\xaa"
                    "services/b"),
               "s: 1 changed files, build them\n"},
              {TEXT("\x91\xa9"
                    "docs/a.md"),
               ""},
              {{NULL, 0}, ""}};
  for (size_t i = 0; i < COUNT(ends); i++) {
    world w;
    open_world(&w, "dev", NULL, no_arguments);
    const tp_session_end end = {.struct_size = sizeof end, .reason = "done", .changed_files = ends[i].changed};
    close_world(&w, &end);
    assert_string_equal(take_log("build_check.log"), ends[i].log);
    assert_string_equal(take_log("archive.log"), "s ended: done, last turn none\n");
  }
}
