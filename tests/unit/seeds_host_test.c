/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipes of tests/seeds/s4, unchanged, in a host. The directory is read and committed, and calls are checked by
 * tp_task_call() and by the turns of a session. Also the document's handleUserInput()
 * (tests/seeds/s4/handle_user_input.ts). tests/integration/seeds_test.py plays the recipes with the command. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "tests/support/json_text.h"
#include "tests/support/model.h"
#include "turnphase/task.h"

typedef struct host {
  tp_runtime *runtime;
} host;

static void shell(const char *format, const char *one, const char *two) {
  char line[1024];
  snprintf(line, sizeof line, format, one, two);
  if (system(line) != 0) fail_msg("%s", line);
}

/* Waits until programs of detached hooks have ended, because they hold their turn, and with it the model. */
static void drain(const host *h) {
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(h->runtime, 60000, &report, NULL), TP_OK);
  assert_true(report.complete);
}

/* A copy of the recipes as a repository of its own. */
static host open_host(void) {
  const char *source = getenv("TURNPHASE_SOURCE");
  host h = {0};
  tp_hooks *hooks;
  tp_fault fault = {0};
  static char hooks_path[200];
  assert_non_null(source);
  shell("cp -r %s/tests/seeds/s4/recipes/. %s", source, directory);
  shell("cp %s/tests/seeds/s4/tools/*.yaml %s/.system/hooks", source, directory);
  shell("cp %s/tests/seeds/s4/tools/edit_file.py %s/scripts", source, directory);
  shell("mkdir -p %s/%s", directory, "contexts");
  snprintf(hooks_path, sizeof hooks_path, "%s/.system/hooks", directory);
  tp_hooks_options options = {.struct_size = sizeof options, .directory = hooks_path, .root = directory};
  /* a machine under load needs more than the 5 s of a phase to start a program */
  const tp_runtime_options of_runtime = {.struct_size = sizeof of_runtime, .hook_limit_ms = 60000};
  h.runtime = open_runtime(&of_runtime);
  if (tp_hooks_read(h.runtime, &options, &hooks, &fault) != TP_OK) fail_msg("%s: %s", fault.subject, fault.message);
  if (tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_hooks_free(hooks);
  return h;
}

static int remove_repository(void **state) {
  shell("rm -rf %s/%s", directory, "*");
  shell("rm -rf %s/%s", directory, ".system");
  return remove_directory(state);
}

typedef struct asked {
  const char *tool, *arguments; /* JSON */
  tp_caller caller;
  const char *environment;
} asked;

static void assert_call(host *h, asked a, tp_tool_result_kind kind, const char *says) {
  tp_writer *writer;
  tp_text arguments;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_decode(tp_text_of(a.arguments), writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &arguments), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .caller = a.caller, .environment = a.environment};
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = a.tool, .arguments = arguments, .request = &request};
  const tp_task_result *result = NULL;
  tp_fault fault = {0};
  if (tp_task_call(h->runtime, &spec, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  char text[1024];
  snprintf(text, sizeof text, "%.*s", (int)result->text.size, result->text.data);
  if (result->kind != kind || !strstr(text, says))
    fail_msg("%s %s: %s: %s", a.tool, a.arguments, tp_tool_result_name(result->kind), text);
  tp_task_result_free(result);
  tp_writer_free(writer);
}

FOR_EACH_TEST(make_directory, remove_repository);

TEST(guard_of_the_document_denies_an_ai_and_lets_others_edit) {
  host h = open_host();
  static const char prod[] = "{\"path\":\"config/prod.yaml\"}", dev[] = "{\"path\":\"config/dev.yaml\"}";
  assert_call(&h, (asked){"edit_file", prod, TP_CALLER_AI_SESSION, NULL}, TP_TOOL_DENIED,
              "Editing prod config files is not allowed from ai_session.");
  assert_call(&h, (asked){"edit_file", dev, TP_CALLER_AI_SESSION, NULL}, TP_TOOL_OK, "edited config/dev.yaml");
  assert_call(&h, (asked){"edit_file", prod, TP_CALLER_MANUAL_CLI, NULL}, TP_TOOL_OK, "edited config/prod.yaml");
  close_runtime(h.runtime);
}

TEST(preflight_of_the_document_knows_the_environment_and_the_kind_of_an_ability) {
  host h = open_host();
  static const char row[] = "{\"id\":7}";
  assert_call(&h, (asked){"db.write.user_row", row, TP_CALLER_AI_SESSION, "prod"}, TP_TOOL_DENIED,
              "Operation is not enabled in prod environments.");
  assert_call(&h, (asked){"db.write.user_row", row, TP_CALLER_CI_PIPELINE, "staging"}, TP_TOOL_OK, "written");
  assert_call(&h, (asked){"db.write.user_row", row, TP_CALLER_CI_PIPELINE, NULL}, TP_TOOL_OK, "written");
  assert_call(&h, (asked){"edit_file", "{\"path\":\"a\"}", TP_CALLER_CI_PIPELINE, "prod"}, TP_TOOL_OK, "edited a");
  close_runtime(h.runtime);
}

TEST(tracker_of_the_document_counts_what_ran) {
  host h = open_host();
  assert_call(&h, (asked){"edit_file", "{\"path\":\"a\"}", TP_CALLER_AI_SESSION, NULL}, TP_TOOL_OK, "edited");
  assert_call(&h, (asked){"edit_file", "{\"path\":\"config/prod\"}", TP_CALLER_AI_SESSION, NULL}, TP_TOOL_DENIED, "");
  drain(&h);
  char usage[200];
  read_back(".system/cache/ability_usage.json", usage, sizeof usage);
  assert_string_equal(usage, "{\"edit_file\": {\"calls\": 1, \"failures\": 0}}");
  tp_runtime_free(h.runtime);
}

static tp_session *open_session(const host *h, recorder *model, const char *id) {
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = recorder_model(model, true)};
  tp_session *session;
  assert_int_equal(tp_session_open(h->runtime, &options, &session, NULL), TP_OK);
  return session;
}

static void run_turn(tp_session *session, const char *text) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

/* As handleUserInput() does: the hooks run, their signals are collected, and the planner gets the input and the
 * signals. */
TEST(user_input_of_the_document_reaches_the_planner_with_the_signals_of_the_hooks) {
  static const reply replies[] = {{.text = "planned"}};
  static const char input[] = "Run the signup regression.";
  char source[200];
  snprintf(source, sizeof source, "%s/tests/seeds/s4/handle_user_input.ts", getenv("TURNPHASE_SOURCE"));
  assert_int_equal(access(source, R_OK), 0);
  host h = open_host();
  recorder *model = recorder_new(replies, 1);
  tp_turn *turn = begin_bare(h.runtime, 60000);
  tp_phase_result results = run_phase(turn, TP_PHASE_TURN_INTAKE, input); /* runHooks("PromptSubmit", ...) */
  size_t count = tp_merged_count(results.merged, TP_CONTRIBUTION_SIGNAL); /* collectHookSignals(...) */
  assert_int_equal(count, 2);
  tp_session *session = open_session(&h, model, "s");
  run_turn(session, input); /* callAiPlanner(startControl, turnContext) */
  for (size_t i = 0; i < count; i++) {
    const tp_merged_entry *signal = tp_merged_get(results.merged, TP_CONTRIBUTION_SIGNAL, i);
    char *payload = json_text(signal->contribution->value);
    assert_string_equal(signal->subscription, "prompt_router");
    if (!strstr(model->requests[0], payload)) fail_msg("%s: %s", payload, model->requests[0]);
    free(payload);
  }
  assert_non_null(strstr(model->requests[0], "<hook-signals>"));
  assert_non_null(strstr(model->requests[0], "\"source_event\":\"PromptSubmit\""));
  assert_non_null(strstr(model->requests[0], input));
  tp_phase_result_release(turn, &results);
  tp_turn_end(turn);
  tp_session_close(session, NULL, NULL);
  drain(&h);
  close_runtime(h.runtime);
  recorder_free(model);
}

TEST(build_check_of_the_document_runs_where_services_or_apps_were_changed) {
  static const struct {
    const char *arguments;
  } rows[] = {{"\x81\xa4path\xaa"
               "docs/d.txt"},
              {"\x81\xa4path\xac"
               "services/a.c"}};
  recorder *models[COUNT(rows)];
  host h = open_host();
  for (size_t i = 0; i < COUNT(rows); i++) {
    const reply replies[] = {{.text = "",
                              .calls = {{.id = TEXT("1"),
                                         .name = TEXT("edit_file"),
                                         .arguments = {rows[i].arguments, strlen(rows[i].arguments)}}},
                              .call_count = 1},
                             {.text = "done"}};
    recorder *model = models[i] = recorder_new(replies, 2);
    tp_session *session = open_session(&h, model, i == 0 ? "docs" : "services");
    run_turn(session, "Edit.");
    if (!strstr(model->requests[1], "T<edited ")) fail_msg("%s", model->requests[1]);
    assert_int_equal(tp_session_end_phase(session, NULL, NULL), TP_OK);
    tp_session_close(session, NULL, NULL);
    if (i + 1 == COUNT(rows)) { /* the hook is waited for by nothing else */
      drain(&h);
    }
  }
  char log[200];
  read_back(".system/logs/build_check.log", log, sizeof log);
  if (strncmp(log, "build passed", 12) != 0 || strstr(log + 1, "build")) fail_msg("%s", log); /* once */
  tp_runtime_free(h.runtime);
  for (size_t i = 0; i < COUNT(rows); i++) recorder_free(models[i]);
}
