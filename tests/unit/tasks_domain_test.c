/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools of tasks, used by a model: a task that was created in one turn is run in a later one, by agents that may
 * run it, in the scope of an agent, in a tenant, and within the limits of the call. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/json_text.h"
#include "tests/support/json_value.h"
#include "turnphase/tasks.h"

enum { ANSWER_SIZE = 8192, CALLS_MAX = 4 };

/* ---- a runtime with two abilities, gates, and a model that makes the calls of the test ---- */

typedef struct world {
  tp_runtime *runtime;
  act create, pre, contributes;
  tp_tool abilities[2];
  const tp_tool *list[2];
  tp_contribution bundle;
  _Atomic int runs;
  /* what the model asks for next */
  const char *calls[CALLS_MAX][2]; /* a tool and its arguments in JSON with single quotes; NULL: no more */
  /* how they ended, in call order */
  char answers[CALLS_MAX][ANSWER_SIZE];
  tp_tool_result_kind kinds[CALLS_MAX];
  /* what gates and the end of a session have seen last */
  char key[128], session[64], caller[32], summary[512], changed[256], used[256];
} world;

static void note(char *to, size_t size, tp_text text) {
  snprintf(to, size, "%.*s", (int)text.size, text.size ? text.data : "");
}

static tp_answer run_ability(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  w->runs++;
  char *text = json_text(tp_tool_run_arguments(run));
  tp_answer answer = tp_tool_ok(run, tp_text_of(text));
  free(text);
  return answer;
}

static tp_answer at_create(void *ctx, tp_call *call) {
  world *w = ctx;
  return tp_text_equal(tp_call_text(call, TP_FIELD_ABILITY_REF), tp_text_of("edit")) ? play(&w->create, call)
                                                                                     : TP_ANSWER_DONE;
}

static tp_answer at_pre(void *ctx, tp_call *call) {
  world *w = ctx;
  if (!tp_text_equal(tp_call_text(call, TP_FIELD_TOOL), tp_text_of("edit"))) return TP_ANSWER_DONE;
  note(w->key, sizeof w->key, tp_call_text(call, TP_FIELD_TASK_KEY));
  note(w->session, sizeof w->session, tp_call_id(call, TP_ID_SESSION));
  note(w->caller, sizeof w->caller, tp_text_of(tp_caller_name(tp_call_caller(call))));
  return play(&w->pre, call);
}

static void note_value(char *to, size_t size, tp_text value) {
  char *text = value.size > 0 ? json_text(value) : strdup("");
  snprintf(to, size, "%s", text);
  free(text);
}

/* Sessions may end at once, each on a thread. */
static tp_answer at_end(void *ctx, tp_call *call) {
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  world *w = ctx;
  pthread_mutex_lock(&one_at_a_time);
  note_value(w->summary, sizeof w->summary, tp_call_text(call, TP_FIELD_TASKS_SUMMARY));
  note_value(w->changed, sizeof w->changed, tp_call_text(call, TP_FIELD_CHANGED_FILES));
  note_value(w->used, sizeof w->used, tp_call_text(call, TP_FIELD_ABILITIES_USED));
  pthread_mutex_unlock(&one_at_a_time);
  return TP_ANSWER_DONE;
}

static tp_status edit_keys(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  char key[64];
  (void)ctx;
  tp_text path = tp_value_text(tp_value_get(arguments, "path"));
  int size = snprintf(key, sizeof key, "files/%.*s", (int)path.size, path.size ? path.data : "");
  return path.size > 0 ? tp_tool_keys_add(keys, TP_TOOL_WRITE, (tp_text){key, (size_t)size}, NULL) : TP_OK;
}

static tp_status register_tasks(world *w, const tp_tasks_options *options, tp_fault *fault) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "tasks", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(w->runtime, &owner, &edit, NULL), TP_OK);
  tp_status status = tp_tasks_register(edit, options, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static void open_world(world *w, const tp_tasks_options *options) {
  w->runtime = open_runtime(NULL);
  w->abilities[0] = (tp_tool){.struct_size = sizeof(tp_tool),
                              .name = "edit",
                              .description = "edits a file",
                              .schema_json = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}",
                              .run = run_ability,
                              .ctx = w,
                              .keys = edit_keys,
                              .placement = TP_PLACEMENT_THREAD};
  w->abilities[1] =
      (tp_tool){.struct_size = sizeof(tp_tool), .name = "db.write", .run = run_ability, .ctx = w, .is_operation = true};
  w->list[0] = &w->abilities[0];
  w->list[1] = &w->abilities[1];
  w->bundle = (tp_contribution){.struct_size = sizeof w->bundle,
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("abilities"),
                                .tools = w->list,
                                .tool_count = 2};
  w->contributes = (act){.emits = &w->bundle, .emit_count = 1};
  const hook hooks[] = {{.id = "bundle", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &w->contributes},
                        {.id = "creates", .phase = TP_PHASE_TOOL_CREATE, .run = at_create, .ctx = w},
                        {.id = "guards", .phase = TP_PHASE_TOOL_PRE, .run = at_pre, .ctx = w},
                        {.id = "ends", .phase = TP_PHASE_SESSION_END, .run = at_end, .ctx = w}};
  add_hooks(w->runtime, hooks, COUNT(hooks));
  assert_int_equal(register_tasks(w, options, NULL), TP_OK);
}

static void start_model(void *ctx, const tp_model_request *request, tp_token token) {
  world *w = ctx;
  tp_tool_call calls[CALLS_MAX];
  const tp_tool_call *list[CALLS_MAX];
  tp_writer *writers[CALLS_MAX];
  size_t count = 0;
  bool calls_now = request->messages[request->message_count - 1]->role == TP_ROLE_USER;
  for (; calls_now && count < CALLS_MAX && w->calls[count][0]; count++) {
    assert_int_equal(tp_writer_new(NULL, &writers[count]), TP_OK);
    calls[count] = (tp_tool_call){.struct_size = sizeof(tp_tool_call),
                                  .name = tp_text_of(w->calls[count][0]),
                                  .arguments = json_value(writers[count], w->calls[count][1])};
    list[count] = &calls[count];
  }
  const tp_model_response response = {
      .struct_size = sizeof response, .text = tp_text_of("done"), .calls = list, .call_count = count};
  assert_int_equal(tp_model_complete(token, &response, NULL), TP_OK);
  for (size_t i = 0; i < count; i++) tp_writer_free(writers[i]);
}

static void on_event(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind != TP_EVENT_TOOL_END) return;
  w->kinds[event->call_index] = event->tool_result->kind;
  note(w->answers[event->call_index], ANSWER_SIZE, event->tool_result->text);
}

static tp_session *open_session(world *w, const char *id, const char *tenant, tp_agent *agent) {
  const tp_model model = {
      .struct_size = sizeof model, .name = "caller", .start = start_model, .ctx = w, .placement = TP_PLACEMENT_INLINE};
  const tp_session_options options = {.struct_size = sizeof options,
                                      .id = id,
                                      .tenant = tenant,
                                      .agent = agent,
                                      .model = &model,
                                      .on_event = on_event,
                                      .event_ctx = w};
  tp_session *session;
  assert_int_equal(tp_session_open(w->runtime, &options, &session, NULL), TP_OK);
  return session;
}

static void turn(world *w, tp_session *session) {
  const tp_turn_request request = {
      .struct_size = sizeof request, .text = tp_text_of("go"), .caller = TP_CALLER_AI_SESSION};
  const tp_turn_result *result;
  memset(w->answers, 0, sizeof w->answers);
  memset(w->kinds, 0, sizeof w->kinds);
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

/* One call in a turn of its own. */
static const char *call(world *w, tp_session *session, const char *tool, const char *arguments) {
  memset(w->calls, 0, sizeof w->calls);
  w->calls[0][0] = tool;
  w->calls[0][1] = arguments;
  turn(w, session);
  return w->answers[0];
}

#define assert_call(kind, words, w, session, tool, arguments)                                                   \
  do {                                                                                                          \
    const char *said_ = call(w, session, tool, arguments);                                                      \
    if ((w)->kinds[0] != (kind)) fail_msg("%s: it is %s: %s", tool, tp_tool_result_name((w)->kinds[0]), said_); \
    if (!strstr(said_, (words))) fail_msg("%s: \"%s\" does not hold \"%s\"", tool, said_, (words));             \
  } while (0)

/* ---- the way of a task ---- */

TEST(task_of_one_turn_is_run_in_a_later_one) {
  world w = {0};
  open_world(&w, NULL);
  tp_session *session = open_session(&w, "s", NULL, NULL);
  assert_call(TP_TOOL_OK, "{\"task_key\":\"k\",\"ability_id\":\"edit\"}\n", &w, session, "task_create",
              "{'ability_id': 'edit', 'arguments': {'path': 'a.c'}, 'task_key': 'k'}");
  assert_int_equal(w.runs, 0);
  assert_call(TP_TOOL_OK, "{\"path\":\"a.c\"}", &w, session, "task_run", "{'task_key': 'k'}");
  assert_int_equal(w.runs, 1);
  assert_string_equal(w.key, "k");
  assert_string_equal(w.session, "s");
  assert_string_equal(w.caller, "ai_session");
  assert_call(TP_TOOL_HANDLER_ERROR, "there is no task of this key", &w, session, "task_run", "{'task_key': 'k'}");
  assert_int_equal(tp_session_end_phase(session, NULL, NULL), TP_OK);
  assert_string_equal(w.summary, "[{\"task_key\":\"k\",\"ability_id\":\"edit\",\"status\":\"success\"}]");
  assert_string_equal(w.changed, "[\"a.c\"]");
  assert_non_null(strstr(w.used, "\"edit\""));
  assert_int_equal(tp_session_end_phase(session, NULL, NULL), TP_OK);
  assert_string_equal(w.summary, ""); /* it was listed */
  tp_session_close(session, NULL, NULL);
  close_runtime(w.runtime);
}

TEST(task_gets_a_key_where_the_model_gives_none) {
  world w = {0};
  char keys[2][64], arguments[128];
  open_world(&w, NULL);
  tp_session *session = open_session(&w, "s", NULL, NULL);
  for (int i = 0; i < 2; i++) {
    const char *said = call(&w, session, "task_create", "{'ability_id': 'db.write'}");
    assert_int_equal(sscanf(said, "{\"task_key\":\"%63[^\"]", keys[i]), 1);
  }
  assert_string_not_equal(keys[0], keys[1]);
  snprintf(arguments, sizeof arguments, "{'task_key': '%s'}", keys[1]);
  assert_call(TP_TOOL_OK, "{}", &w, session, "task_run", arguments);
  assert_int_equal(tp_session_end_phase(session, NULL, NULL), TP_OK);
  assert_non_null(strstr(w.summary, "\"status\":\"partial\"},{"));
  assert_non_null(strstr(w.summary, "\"status\":\"success\"}]"));
  tp_session_close(session, NULL, NULL);
  close_runtime(w.runtime);
}

TEST(calls_of_one_response_that_name_a_task_run_in_their_order) {
  world w = {0};
  open_world(&w, NULL);
  tp_session *session = open_session(&w, "s", NULL, NULL);
  const char *const calls[][2] = {{"task_create", "{'ability_id': 'edit', 'task_key': 'k'}"},
                                  {"task_run", "{'task_key': 'k'}"},
                                  {"task_create", "{'ability_id': 'db.write', 'task_key': 'k'}"},
                                  {"task_run", "{'task_key': 'k'}"}};
  memcpy(w.calls, calls, sizeof calls);
  turn(&w, session);
  for (int i = 0; i < CALLS_MAX; i++)
    if (w.kinds[i] != TP_TOOL_OK) fail_msg("%d: %s", i, w.answers[i]);
  assert_int_equal(w.runs, 2);
  tp_session_close(session, NULL, NULL);
  close_runtime(w.runtime);
}

TEST(gate_that_denies_creation_keeps_nothing_and_one_that_denies_the_run_keeps_the_task) {
  world w = {.create = {.kind = TP_ANSWER_DENY, .reason = "not in this environment"}};
  open_world(&w, NULL);
  tp_session *session = open_session(&w, "s", NULL, NULL);
  static const char task[] = "{'ability_id': 'edit', 'task_key': 'k'}";
  assert_call(TP_TOOL_HANDLER_ERROR, "not in this environment", &w, session, "task_create", task);
  assert_call(TP_TOOL_HANDLER_ERROR, "there is no task", &w, session, "task_run", "{'task_key': 'k'}");
  w.create.kind = 0;
  w.pre = (act){.kind = TP_ANSWER_DENY, .reason = "not now"};
  assert_call(TP_TOOL_OK, "\"k\"", &w, session, "task_create", task);
  assert_call(TP_TOOL_HANDLER_ERROR, "there is a task of this key", &w, session, "task_create", task);
  assert_call(TP_TOOL_HANDLER_ERROR, "not now", &w, session, "task_run", "{'task_key': 'k'}");
  assert_int_equal(tp_session_end_phase(session, NULL, NULL), TP_OK);
  assert_string_equal(w.summary, "[{\"task_key\":\"k\",\"ability_id\":\"edit\",\"status\":\"failure\"}]");
  w.pre.kind = 0;
  assert_call(TP_TOOL_OK, "{}", &w, session, "task_run", "{'task_key': 'k'}");
  assert_int_equal(w.runs, 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(w.runtime);
}

/* ---- who may run it ---- */

TEST(task_of_a_tenant_is_run_by_no_other) {
  world w = {0};
  open_world(&w, NULL);
  tp_session *a = open_session(&w, "s", "a", NULL), *b = open_session(&w, "s", "b", NULL);
  tp_session *none = open_session(&w, "s", NULL, NULL);
  assert_call(TP_TOOL_OK, "\"task_key\":\"k\"", &w, a, "task_create", "{'ability_id': 'edit', 'task_key': 'k'}");
  assert_call(TP_TOOL_HANDLER_ERROR, "there is no task", &w, b, "task_run", "{'task_key': 'k'}");
  assert_call(TP_TOOL_HANDLER_ERROR, "there is no task", &w, none, "task_run", "{'task_key': 'k'}");
  assert_call(TP_TOOL_HANDLER_ERROR, "does not begin with 'tenant-'", &w, none, "task_run",
              "{'task_key': 'tenant-ca978112ca1bbdca.k'}");
  assert_call(TP_TOOL_OK, "\"task_key\":\"k\"", &w, b, "task_create", "{'ability_id': 'edit', 'task_key': 'k'}");
  assert_call(TP_TOOL_OK, "{}", &w, a, "task_run", "{'task_key': 'k'}");
  assert_string_equal(w.key, "tenant-ca978112ca1bbdca.k"); /* the SHA-256 of "a" begins with these digits */
  tp_session_close(a, NULL, NULL);
  tp_session_close(b, NULL, NULL);
  tp_session_close(none, NULL, NULL);
  close_runtime(w.runtime);
}

TEST(agent_cannot_call_through_a_task_what_is_out_of_its_scope) {
  world w = {0};
  tp_agent *agent;
  tp_writer *writer;
  open_world(&w, NULL);
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  const tp_agent_config config = {
      .struct_size = sizeof config,
      .id = "limited",
      .extra = json_value(writer, "{'tools': ['db.write', 'task_create', 'task_run', 'abilities_list']}")};
  assert_int_equal(tp_agent_add(w.runtime, &config, &agent, NULL), TP_OK);
  tp_writer_free(writer);
  tp_session *limited = open_session(&w, "l", NULL, agent), *other = open_session(&w, "o", NULL, NULL);
  assert_call(TP_TOOL_HANDLER_ERROR, "may not use this tool", &w, limited, "task_create",
              "{'ability_id': 'edit', 'task_key': 'k'}");
  assert_call(TP_TOOL_OK, "\"k\"", &w, other, "task_create", "{'ability_id': 'edit', 'task_key': 'k'}");
  assert_call(TP_TOOL_HANDLER_ERROR, "", &w, limited, "task_run", "{'task_key': 'k'}");
  assert_int_equal(w.runs, 0);
  assert_call(TP_TOOL_OK, "{}", &w, other, "task_run", "{'task_key': 'k'}");
  const char *listed = call(&w, limited, "abilities_list", "{}");
  assert_string_equal(listed, "[{\"ability_id\":\"db.write\",\"kind\":\"operation_key\",\"description\":\"\"}]");
  tp_session_close(limited, NULL, NULL);
  tp_session_close(other, NULL, NULL);
  tp_agent_remove(agent);
  close_runtime(w.runtime);
}

TEST(task_of_the_host_is_run_by_a_model_and_that_of_a_model_by_the_host) {
  world w = {0};
  open_world(&w, NULL);
  tp_session *session = open_session(&w, "s", NULL, NULL);
  const tp_task_spec spec = {.struct_size = sizeof spec, .tool = "edit", .key = "h", .session = session};
  assert_int_equal(tp_task_create(w.runtime, &spec, NULL, NULL), TP_OK);
  assert_call(TP_TOOL_OK, "{}", &w, session, "task_run", "{'task_key': 'h'}");
  assert_call(TP_TOOL_OK, "\"m\"", &w, session, "task_create", "{'ability_id': 'edit', 'task_key': 'm'}");
  assert_int_equal(tp_task_run(w.runtime, "m", NULL, NULL, NULL), TP_OK);
  assert_string_equal(w.session, ""); /* of no session */
  const tp_task_spec direct = {.struct_size = sizeof direct, .tool = "edit", .session = session};
  assert_int_equal(tp_task_call(w.runtime, &direct, NULL, NULL), TP_OK);
  assert_string_equal(w.session, "s");
  const tp_task_spec twice = {.struct_size = sizeof twice, .tool = "edit", .session = session, .agent = "a"};
  assert_int_equal(tp_task_call(w.runtime, &twice, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_session_end_phase(session, NULL, NULL), TP_OK);
  assert_string_equal(w.summary,
                      "[{\"task_key\":\"h\",\"ability_id\":\"edit\",\"status\":\"success\"},"
                      "{\"task_key\":\"m\",\"ability_id\":\"edit\",\"status\":\"partial\"}]");
  tp_session_close(session, NULL, NULL);
  close_runtime(w.runtime);
}

/* ---- limits ---- */

typedef struct ended {
  latch latch;
  tp_turn_outcome outcome;
} ended;

static void turn_ended(void *ctx, const tp_turn_result *result) {
  ended *e = ctx;
  e->outcome = result->outcome;
  latch_hit(&e->latch);
}

TEST(cancel_of_a_turn_ends_the_task_that_it_runs) {
  latch entered = LATCH;
  world w = {.pre = {.entered = &entered, .defers = true}};
  open_world(&w, NULL);
  tp_session *session = open_session(&w, "s", NULL, NULL);
  assert_call(TP_TOOL_OK, "\"k\"", &w, session, "task_create", "{'ability_id': 'edit', 'task_key': 'k'}");
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  ended e = {.latch = LATCH};
  tp_submission *submission;
  w.calls[0][0] = "task_run";
  w.calls[0][1] = "{'task_key': 'k'}";
  assert_int_equal(tp_turn_submit(session, &request, turn_ended, &e, &submission, NULL), TP_OK);
  latch_wait(&entered, 1);
  tp_submission_cancel(submission);
  latch_wait(&e.latch, 1);
  assert_int_equal(e.outcome, TP_TURN_CANCELLED);
  tp_submission_unref(submission);
  tp_session_close(session, NULL, NULL);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(w.runtime, 60000, &report, NULL), TP_OK);
  assert_true(report.complete);
  assert_int_equal(w.runs, 0);
  tp_runtime_free(w.runtime);
}

/* ---- what is refused, and what is listed ---- */

TEST(what_a_model_says_wrong_is_refused_in_words) {
  static const struct {
    const char *tool, *arguments, *words;
    tp_tool_result_kind kind;
  } rows[] = {
      {"task_create", "{'ability_id': 'nobody'}", "there is no tool of that name", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': ''}", "there is no such ability", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'two words'}", "without white space", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'task_run'}", "it is an action on tasks", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'CREATE_TASK'}", "it is an action on tasks", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'edit', 'task_key': ''}", "a task_key is 1 to 64", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'edit', 'task_key': 'a/b'}", "a task_key is 1 to 64", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'edit', 'task_key': '..'}", "a task_key is 1 to 64", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'edit', 'task_key': 'tenant-x'}", "tenant-", TP_TOOL_HANDLER_ERROR},
      {"task_create", "{'ability_id': 'edit', 'arguments': []}", "arguments", TP_TOOL_INVALID_ARGUMENTS},
      {"task_create", "{}", "ability_id", TP_TOOL_INVALID_ARGUMENTS},
      {"task_run", "{}", "task_key", TP_TOOL_INVALID_ARGUMENTS},
      {"task_run", "{'task_key': 'a b'}", "a task_key is 1 to 64", TP_TOOL_HANDLER_ERROR},
      {"abilities_list", "{'ability_id': 'nobody'}", "[]", TP_TOOL_OK},
      {"abilities_list", "{'ability_id': 'edit'}", "\"arguments\":{\"type\":\"object\"", TP_TOOL_OK},
      {"abilities_list", "{}", "{\"ability_id\":\"edit\",\"kind\":\"ability_id\",\"description\":\"edits a file\"}",
       TP_TOOL_OK},
  };
  world w = {0};
  open_world(&w, NULL);
  tp_session *session = open_session(&w, "s", NULL, NULL);
  for (size_t i = 0; i < COUNT(rows); i++)
    assert_call(rows[i].kind, rows[i].words, &w, session, rows[i].tool, rows[i].arguments);
  assert_int_equal(w.runs, 0);
  tp_session_close(session, NULL, NULL);
  close_runtime(w.runtime);
}

static bool note_name(void *ctx, const tp_tool_listing *listing) {
  char *names = ctx;
  size_t used = strlen(names);
  if (strcmp(listing->owner, "tasks") == 0) snprintf(names + used, 256 - used, "%s ", listing->tool->name);
  return true;
}

TEST(tools_have_the_names_that_are_asked_for) {
  static const char *const names[] = {"abilities_list task_create task_run ", "LIST_ABILITIES CREATE_TASK RUN_TASK ",
                                      "abilities_list LIST_ABILITIES task_create CREATE_TASK task_run RUN_TASK "};
  for (uint32_t i = 0; i < COUNT(names); i++) {
    world w = {0};
    char found[256] = "";
    const tp_tasks_options options = {.struct_size = sizeof options, .names = (tp_tasks_names)i};
    open_world(&w, &options);
    assert_int_equal(tp_runtime_tools(w.runtime, note_name, found, NULL, NULL), TP_OK);
    assert_string_equal(found, names[i]);
    close_runtime(w.runtime);
  }
}

TEST(options_that_make_no_sense_are_refused) {
  world w = {.runtime = open_runtime(NULL)};
  const tp_tasks_options unknown = {.struct_size = sizeof unknown, .names = (tp_tasks_names)3};
  const tp_tasks_options reserved = {.struct_size = sizeof reserved, .reserved_ = 1};
  const tp_tasks_options no_size = {0};
  tp_fault fault = {0};
  assert_int_equal(register_tasks(&w, &unknown, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "names is 3"));
  assert_int_equal(register_tasks(&w, &reserved, &fault), TP_ERR_USAGE);
  assert_int_equal(register_tasks(&w, &no_size, &fault), TP_ERR_VERSION);
  assert_int_equal(tp_tasks_register(NULL, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(register_tasks(&w, NULL, &fault), TP_OK);
  assert_int_not_equal(register_tasks(&w, NULL, &fault), TP_OK); /* its handler is there */
  close_runtime(w.runtime);
}
