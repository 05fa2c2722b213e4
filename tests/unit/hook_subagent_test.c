/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of other hosts in nested turns: the events of a subagent, the input of programs, and the effect of a block. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "tests/support/model.h"

typedef struct world {
  tp_runtime *runtime;
  tp_agent *agent;
  tp_session *session, *sub;
  recorder *model, *sub_model;
  tp_status status;
  char text[128]; /* of the nested turn */
} world;

/* Runs the nested turn, in the turn of the session "main" alone. */
static tp_answer delegate(void *ctx, tp_call *call) {
  world *w = ctx;
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .id = "nested", .text = TEXT("look")};
  if (tp_call_parent_turn(call).size > 0) return TP_ANSWER_DONE;
  w->status = tp_call_run_turn(call, w->sub, &request, &result, NULL);
  if (w->status != TP_OK) return TP_ANSWER_DONE;
  snprintf(w->text, sizeof w->text, "%.*s", (int)result->text.size, result->text.data);
  tp_turn_result_free(result);
  return TP_ANSWER_DONE;
}

static void add_hook_file(const char *event, const char *more, const char *line) {
  char name[64], yaml[512];
  snprintf(name, sizeof name, "%s.yaml", event);
  snprintf(yaml, sizeof yaml, "id: %s\nprotocol: claude-code\nevent: %s\n%shandler: {command: [sh, -c, '%s']}\n", event,
           event, more, line);
  write_named(name, yaml);
}

static void open_world(world *w, const reply *replies, size_t count) {
  static const reply done = {.text = "main is done"};
  tp_model model;
  w->runtime = open_with_hooks(NULL);
  w->model = recorder_new(&done, 1);
  w->sub_model = recorder_new(replies, count);
  const hook asks = {.id = "asks",
                     .phase = TP_PHASE_TURN_PRE_POLICY,
                     .run = delegate,
                     .ctx = w,
                     .slow = true,
                     .sub = {.limit_ms = 30000}};
  add_hooks(w->runtime, &asks, 1);
  model = *recorder_model(w->sub_model, true);
  const tp_agent_config config = {.struct_size = sizeof config, .id = "researcher", .model = &model};
  assert_int_equal(tp_agent_add(w->runtime, &config, &w->agent, NULL), TP_OK);
  const tp_session_options sub = {.struct_size = sizeof sub, .id = "sub-1", .agent = w->agent};
  assert_int_equal(tp_session_open(w->runtime, &sub, &w->sub, NULL), TP_OK);
  const tp_session_options main_session = {
      .struct_size = sizeof main_session, .id = "main", .model = recorder_model(w->model, true)};
  assert_int_equal(tp_session_open(w->runtime, &main_session, &w->session, NULL), TP_OK);
}

static void run_turn(world *w) {
  const tp_turn_result *result;
  const tp_turn_request request = {.struct_size = sizeof request, .id = "outer", .text = TEXT("go")};
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_text(result->text, "main is done");
  tp_turn_result_free(result);
  assert_int_equal(w->status, TP_OK);
}

static void close_world(world *w) {
  tp_session_close(w->session, NULL, NULL);
  tp_session_close(w->sub, NULL, NULL);
  tp_agent_remove(w->agent);
  close_runtime(w->runtime);
  recorder_free(w->model);
  recorder_free(w->sub_model);
}

/* The folder of transcripts has a new name each time, so it is removed before the comparison. */
static void leave_folders_out(char *text) {
  static const char head[] = "transcript_path\":\"";
  for (char *at = text; (at = strstr(at, head)); at += sizeof head - 1) {
    char *start = at + sizeof head - 1, *end = strchr(start, '"'), *name = end;
    while (name > start && name[-1] != '/') name--;
    memmove(start, name, strlen(name) + 1);
  }
}

static void assert_wrote(const char *name, const char *want) {
  char got[4096], expected[4096];
  read_back(name, got, sizeof got);
  leave_folders_out(got);
  const char *at = strchr(want, '@');
  snprintf(expected, sizeof expected, "%.*s%s%s", (int)(at - want), want, directory, at + 1);
  assert_string_equal(got, expected);
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(each_event_is_of_its_kind_of_turn) {
  static const char *const events[] = {"UserPromptSubmit", "SessionStart", "Stop", "SubagentStart", "SubagentStop"};
  const reply replies[] = {{.text = "found"}};
  world w = {.status = TP_ERR_USAGE};
  for (size_t i = 0; i < COUNT(events); i++) {
    char line[64];
    snprintf(line, sizeof line, "cat >> got.%s", events[i]);
    add_hook_file(events[i], "", line);
  }
  open_world(&w, replies, 1);
  run_turn(&w);
  assert_string_equal(w.text, "found");
  close_world(&w);
  assert_wrote("got.SubagentStart",
               "{\"session_id\":\"sub-1\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"nested\","
               "\"hook_event_name\":\"SubagentStart\",\"agent_id\":\"sub-1\",\"agent_type\":\"researcher\"}\n");
  assert_wrote("got.SubagentStop",
               "{\"session_id\":\"sub-1\",\"transcript_path\":\"sub-1.jsonl\",\"cwd\":\"@\",\"prompt_id\":\"nested\","
               "\"permission_mode\":\"default\",\"hook_event_name\":\"SubagentStop\",\"agent_id\":\"sub-1\","
               "\"agent_type\":\"researcher\",\"agent_transcript_path\":\"sub-1.jsonl\",\"stop_hook_active\":false,"
               "\"last_assistant_message\":\"found\"}\n");
  assert_wrote("got.UserPromptSubmit",
               "{\"session_id\":\"main\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"outer\","
               "\"permission_mode\":\"default\",\"hook_event_name\":\"UserPromptSubmit\",\"prompt\":\"go\"}\n");
  assert_wrote("got.Stop",
               "{\"session_id\":\"main\",\"transcript_path\":\"main.jsonl\",\"cwd\":\"@\",\"prompt_id\":\"outer\","
               "\"permission_mode\":\"default\",\"hook_event_name\":\"Stop\",\"stop_hook_active\":false,"
               "\"last_assistant_message\":\"main is done\"}\n");
  assert_wrote("got.SessionStart",
               "{\"session_id\":\"main\",\"transcript_path\":\"\",\"cwd\":\"@\",\"hook_event_name\":\"SessionStart\","
               "\"source\":\"startup\",\"model\":\"recorder\"}\n");
}

/* As with Stop: its reason is the next message to the model, and the second time its input says that it is active. */
TEST(a_block_keeps_a_subagent_running) {
  const reply replies[] = {{.text = "half"}, {.text = "whole"}};
  world w = {.status = TP_ERR_USAGE};
  add_hook_file("SubagentStop", "match: {matcher: research.*}\n", "grep -q true || { echo look again >&2; exit 2; }");
  open_world(&w, replies, 2);
  run_turn(&w);
  assert_string_equal(w.text, "whole");
  assert_int_equal(w.sub_model->asked, 2);
  assert_non_null(strstr(w.sub_model->requests[1], "look again"));
  close_world(&w);
}

TEST(the_matcher_is_asked_about_the_agent) {
  const reply replies[] = {{.text = "half"}};
  world w = {.status = TP_ERR_USAGE};
  add_hook_file("SubagentStop", "match: {matcher: writer}\n", "echo look again >&2; exit 2");
  open_world(&w, replies, 1);
  run_turn(&w);
  assert_string_equal(w.text, "half");
  assert_int_equal(w.sub_model->asked, 1);
  close_world(&w);
}

/* What a start says goes into the subagent; a block of it is logged alone. */
TEST(a_start_is_reported_and_not_asked_about) {
  const reply replies[] = {{.text = "found"}};
  world w = {.status = TP_ERR_USAGE};
  add_hook_file("SubagentStart", "", "echo no >&2; exit 2");
  write_named("context.yaml",
              "id: context\nprotocol: claude-code\nevent: SubagentStart\nhandler: {command: [sh, -c, 'echo "
              "\"{\\\"hookSpecificOutput\\\": {\\\"hookEventName\\\": \\\"SubagentStart\\\", "
              "\\\"additionalContext\\\": \\\"mind the step\\\"}}\"']}\n");
  open_world(&w, replies, 1);
  run_turn(&w);
  assert_string_equal(w.text, "found");
  assert_non_null(strstr(w.sub_model->requests[0], "mind the step"));
  assert_null(strstr(w.model->requests[0], "mind the step"));
  close_world(&w);
}
