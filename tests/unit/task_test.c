/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: an allowed call is stored under a key and run later; a direct call does both; the gates are those of a turn,
 * whichever thread calls. */
#include "tests/support/test.h"
#include "phases/tools/task.h"
#include "tests/support/counting.h"
#include "tests/support/model.h"

/* ---- a host with one tool, a gate of creation and one of running ---- */

typedef struct world {
  tp_runtime *runtime;
  act create, pre, policy, contributes;
  tp_contribution bundle;
  tp_tool tool;
  const tp_tool *list[1];
  _Atomic int runs;
  int n;
  tp_verdict person; /* what a person answers; 0: none is there */
  int asked;
  /* what the gates saw last */
  char ability[32], environment[32], key_at_pre[64], key_at_post[64], caller[32], job[32], trigger[64], called[32];
} world;

static void copy(char *to, size_t size, tp_text text) {
  snprintf(to, size, "%.*s", (int)text.size, text.size ? text.data : "");
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  w->runs++;
  w->n = (int)tp_value_int(tp_value_get(tp_tool_run_arguments(run), "n"), -1);
  return tp_tool_ok(run, (tp_text)TEXT("ran"));
}

static tp_answer at_tools(void *ctx, tp_call *call) {
  world *w = ctx;
  tp_text calls = tp_call_text(call, TP_FIELD_CALLS);
  assert_int_equal(tp_value_count(calls), 1);
  copy(w->called, sizeof w->called, tp_value_text(tp_value_get(tp_value_at(calls, 0), "tool")));
  return play(&w->contributes, call);
}

static tp_answer at_create(void *ctx, tp_call *call) {
  world *w = ctx;
  copy(w->ability, sizeof w->ability, tp_call_text(call, TP_FIELD_ABILITY_REF));
  copy(w->environment, sizeof w->environment, tp_call_text(call, TP_FIELD_ENVIRONMENT));
  w->create.calls++;
  return answer_of(&w->create, call);
}

static tp_answer at_pre(void *ctx, tp_call *call) {
  world *w = ctx;
  copy(w->key_at_pre, sizeof w->key_at_pre, tp_call_text(call, TP_FIELD_TASK_KEY));
  snprintf(w->caller, sizeof w->caller, "%s", tp_caller_name(tp_call_caller(call)));
  copy(w->job, sizeof w->job, tp_call_caller_job(call));
  copy(w->trigger, sizeof w->trigger, tp_call_triggered_by(call));
  w->pre.calls++;
  return answer_of(&w->pre, call);
}

static tp_answer at_post(void *ctx, tp_call *call) {
  world *w = ctx;
  copy(w->key_at_post, sizeof w->key_at_post, tp_call_text(call, TP_FIELD_TASK_KEY));
  return TP_ANSWER_DONE;
}

static void ask(void *ctx, const tp_question *question) {
  world *w = ctx;
  tp_decision decision = {
      .struct_size = sizeof decision, .verdict = w->person, .arguments_hash = question->arguments_hash};
  w->asked++;
  assert_int_equal(tp_question_answer(question->token, &decision, NULL), TP_OK);
}

static void open_world(world *w) {
  tp_runtime_options options = {.struct_size = sizeof options};
  if (w->person) {
    options.ask = ask;
    options.ask_ctx = w;
  }
  w->runtime = open_runtime(&options);
  w->tool = (tp_tool){
      .struct_size = sizeof w->tool, .name = "t", .run = run_tool, .ctx = w, .placement = TP_PLACEMENT_INLINE};
  w->list[0] = &w->tool;
  w->bundle = (tp_contribution){.struct_size = sizeof w->bundle,
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = w->list,
                                .tool_count = 1};
  w->contributes = (act){.emits = &w->bundle, .emit_count = 1};
  const hook hooks[] = {{.id = "policy", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &w->policy},
                        {.id = "bundle", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = at_tools, .ctx = w},
                        {.id = "creates", .phase = TP_PHASE_TOOL_CREATE, .run = at_create, .ctx = w},
                        {.id = "guards", .phase = TP_PHASE_TOOL_PRE, .run = at_pre, .ctx = w},
                        {.id = "tracks", .phase = TP_PHASE_TOOL_POST, .run = at_post, .ctx = w}};
  add_hooks(w->runtime, hooks, COUNT(hooks));
}

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result)->kind), tp_tool_result_name(want))
#define assert_fails(want, call)                                       \
  do {                                                                 \
    tp_fault fault_ = {0};                                             \
    assert_string_equal(tp_status_name((call)), tp_status_name(want)); \
  } while (0)

static tp_task_spec spec_of(char bytes[4], int n, const char *key) {
  return (tp_task_spec){
      .struct_size = sizeof(tp_task_spec), .tool = "t", .arguments = argument_n(bytes, n), .key = key};
}

static const tp_task_result *create(world *w, const tp_task_spec *spec) {
  const tp_task_result *result = NULL;
  assert_int_equal(tp_task_create(w->runtime, spec, &result, NULL), TP_OK);
  return result;
}

static const tp_task_result *run(world *w, const char *key) {
  const tp_task_result *result = NULL;
  assert_int_equal(tp_task_run(w->runtime, key, NULL, &result, NULL), TP_OK);
  return result;
}

/* ---- the way of a task ---- */

TEST(task_is_kept_when_it_is_allowed_and_run_once) {
  world w = {0};
  char bytes[4];
  open_world(&w);
  tp_task_spec spec = spec_of(bytes, 7, NULL);
  tp_turn_request request = {.struct_size = sizeof request, .environment = "staging"};
  spec.request = &request;
  const tp_task_result *made = create(&w, &spec);
  assert_kind(made, TP_TOOL_OK);
  assert_false(made->started);
  assert_true(made->key.size > 0);
  assert_int_equal(w.runs, 0);
  assert_int_equal(w.pre.calls, 0);
  assert_string_equal(w.ability, "t");
  assert_string_equal(w.environment, "staging");
  const tp_task_result *ran = run(&w, made->key.data);
  assert_kind(ran, TP_TOOL_OK);
  assert_true(ran->started);
  assert_text(ran->text, "ran");
  assert_int_equal(w.n, 7);
  assert_int_equal(w.create.calls, 1);
  assert_string_equal(w.key_at_pre, made->key.data);
  assert_string_equal(w.key_at_post, made->key.data);
  assert_fails(TP_ERR_NOT_FOUND, tp_task_run(w.runtime, made->key.data, NULL, NULL, &fault_));
  assert_int_equal(w.runs, 1);
  tp_task_result_free(made);
  close_runtime(w.runtime);
  tp_task_result_free(ran);
  tp_task_result_free(NULL);
}

TEST(creation_that_is_denied_keeps_nothing_and_says_why) {
  world w = {.create = {.kind = TP_ANSWER_DENY, .reason = "not in this environment"}};
  char bytes[4];
  open_world(&w);
  tp_task_spec spec = spec_of(bytes, 7, "mine");
  const tp_task_result *made = create(&w, &spec);
  assert_kind(made, TP_TOOL_DENIED);
  assert_text(made->key, "");
  assert_non_null(strstr(made->text.data, "not in this environment"));
  assert_fails(TP_ERR_NOT_FOUND, tp_task_run(w.runtime, "mine", NULL, NULL, &fault_));
  tp_task_result_free(made);
  w.create.kind = 0; /* and the key is free again */
  made = create(&w, &spec);
  assert_text(made->key, "mine");
  tp_task_result_free(made);
  close_runtime(w.runtime);
}

TEST(run_that_is_denied_leaves_the_task_for_another) {
  world w = {.pre = {.kind = TP_ANSWER_DENY, .reason = "not now"}};
  char bytes[4];
  open_world(&w);
  tp_task_spec spec = spec_of(bytes, 7, "later");
  tp_task_result_free(create(&w, &spec));
  const tp_task_result *ran = run(&w, "later");
  assert_kind(ran, TP_TOOL_DENIED);
  assert_text(ran->key, "later");
  tp_task_result_free(ran);
  w.pre.kind = 0;
  ran = run(&w, "later");
  assert_kind(ran, TP_TOOL_OK);
  assert_text(ran->key, "");
  tp_task_result_free(ran);
  assert_int_equal(w.runs, 1);
  close_runtime(w.runtime);
}

TEST(direct_call_goes_through_both_gates) {
  world w = {0};
  char bytes[4];
  open_world(&w);
  tp_turn_request request = {.struct_size = sizeof request,
                             .caller = TP_CALLER_CI_PIPELINE,
                             .caller_job = "pipeline-7",
                             .triggered_by = "a commit of Ann's"};
  tp_task_spec spec = spec_of(bytes, 3, NULL);
  spec.request = &request;
  const tp_task_result *result = NULL;
  assert_int_equal(tp_task_call(w.runtime, &spec, &result, NULL), TP_OK);
  assert_kind(result, TP_TOOL_OK);
  assert_int_equal(w.create.calls, 1);
  assert_int_equal(w.pre.calls, 1);
  assert_int_equal(w.n, 3);
  assert_string_equal(w.caller, tp_caller_name(TP_CALLER_CI_PIPELINE));
  assert_string_equal(w.job, "pipeline-7");
  assert_string_equal(w.trigger, "a commit of Ann's");
  assert_string_equal(w.called, "t"); /* who contributes tools knows which one is needed */
  char too_long[200];
  memset(too_long, 'x', sizeof too_long - 1);
  too_long[sizeof too_long - 1] = '\0';
  request.triggered_by = too_long;
  const tp_task_result *none = NULL;
  assert_int_equal(tp_task_call(w.runtime, &spec, &none, NULL), TP_ERR_BAD_ID);
  assert_string_equal(w.key_at_pre, "");
  tp_task_result_free(result);
  close_runtime(w.runtime);
}

TEST(runner_of_a_task_may_be_another_caller_than_its_creator) {
  world w = {0};
  char bytes[4];
  open_world(&w);
  tp_task_spec spec = spec_of(bytes, 3, "k");
  tp_task_result_free(create(&w, &spec));
  tp_turn_request request = {.struct_size = sizeof request, .caller = TP_CALLER_MANUAL_CLI};
  const tp_task_result *result = NULL;
  assert_int_equal(tp_task_run(w.runtime, "k", &request, &result, NULL), TP_OK);
  assert_string_equal(w.caller, tp_caller_name(TP_CALLER_MANUAL_CLI));
  assert_string_equal(w.job, "");
  assert_string_equal(w.trigger, "");
  tp_task_result_free(result);
  close_runtime(w.runtime);
}

/* ---- people, policies, scope ---- */

TEST(person_is_asked_before_the_task_is_kept) {
  for (tp_verdict says = TP_VERDICT_ALLOW; says <= TP_VERDICT_DENY; says += 2) {
    world w = {.create = {.kind = TP_ANSWER_ASK, .reason = "in prod?"}, .person = says};
    char bytes[4];
    open_world(&w);
    tp_task_spec spec = spec_of(bytes, 1, "asked");
    const tp_task_result *made = create(&w, &spec);
    assert_int_equal(w.asked, 1);
    assert_kind(made, says == TP_VERDICT_ALLOW ? TP_TOOL_OK : TP_TOOL_DENIED);
    tp_task_result_free(made);
    if (says == TP_VERDICT_ALLOW) tp_task_result_free(run(&w, "asked"));
    assert_int_equal(w.asked, 1); /* what was allowed at creation is not asked again */
    assert_int_equal(w.runs, says == TP_VERDICT_ALLOW);
    close_runtime(w.runtime);
  }
}

TEST(policy_of_the_turn_denies_creation) {
  const tp_contribution policy = {.struct_size = sizeof policy,
                                  .kind = TP_CONTRIBUTION_POLICY,
                                  .domain = TEXT("tool"),
                                  .key = TEXT("t"),
                                  .text = TEXT("deny")};
  world w = {.policy = {.emits = &policy, .emit_count = 1}};
  char bytes[4];
  open_world(&w);
  tp_task_spec spec = spec_of(bytes, 1, NULL);
  const tp_task_result *made = create(&w, &spec);
  assert_kind(made, TP_TOOL_DENIED);
  assert_int_equal(w.create.calls, 0);
  tp_task_result_free(made);
  close_runtime(w.runtime);
}

TEST(agent_of_a_task_bounds_its_tools) {
  /* {"tools": ["other"]} */
  static const char config[] = "\x81\xa5tools\x91\xa5other";
  world w = {0};
  char bytes[4];
  open_world(&w);
  tp_agent_config agent_config = {
      .struct_size = sizeof agent_config, .id = "limited", .extra = {config, sizeof config - 1}};
  tp_agent *agent;
  assert_int_equal(tp_agent_add(w.runtime, &agent_config, &agent, NULL), TP_OK);
  tp_task_spec spec = spec_of(bytes, 1, NULL);
  spec.agent = "limited";
  const tp_task_result *made = create(&w, &spec);
  assert_kind(made, TP_TOOL_OUT_OF_SCOPE);
  assert_text(made->key, "");
  tp_task_result_free(made);
  spec.agent = "nobody";
  assert_fails(TP_ERR_NOT_FOUND, tp_task_create(w.runtime, &spec, NULL, &fault_));
  close_runtime(w.runtime);
}

/* ---- what is refused ---- */

TEST(specs_that_cannot_be_run_are_refused) {
  world w = {0};
  char bytes[4];
  open_world(&w);
  tp_task_spec good = spec_of(bytes, 1, "k"), bad = good;
  bad.tool = "two words";
  assert_fails(TP_ERR_BAD_ID, tp_task_create(w.runtime, &bad, NULL, &fault_));
  bad = good;
  bad.key = "";
  assert_fails(TP_ERR_BAD_ID, tp_task_create(w.runtime, &bad, NULL, &fault_));
  bad = good;
  bad.arguments = (tp_text)TEXT("\x05");
  assert_fails(TP_ERR_USAGE, tp_task_create(w.runtime, &bad, NULL, &fault_));
  assert_fails(TP_ERR_USAGE, tp_task_call(w.runtime, &good, NULL, &fault_)); /* it keeps no key */
  assert_fails(TP_ERR_USAGE, tp_task_create(w.runtime, NULL, NULL, &fault_));
  assert_fails(TP_ERR_NOT_FOUND, tp_task_discard(w.runtime, "k", &fault_));
  tp_task_result_free(create(&w, &good));
  assert_fails(TP_ERR_DUPLICATE_ID, tp_task_create(w.runtime, &good, NULL, &fault_));
  assert_fails(TP_OK, tp_task_discard(w.runtime, "k", &fault_));
  assert_fails(TP_ERR_NOT_FOUND, tp_task_run(w.runtime, "k", NULL, NULL, &fault_));
  bad = good;
  bad.tool = "missing";
  const tp_task_result *made = create(&w, &bad);
  assert_kind(made, TP_TOOL_UNKNOWN_TOOL);
  tp_task_result_free(made);
  bad = good;
  bad.arguments = (tp_text){0};
  tp_task_result_free(create(&w, &bad)); /* without members; freed with the runtime */
  close_runtime(w.runtime);
}

typedef struct nested {
  world *w;
  tp_status status;
} nested;

static tp_answer run_itself(void *ctx, tp_tool_run *run) {
  nested *n = ctx;
  n->status = tp_task_run(n->w->runtime, "k", NULL, NULL, NULL);
  return tp_tool_ok(run, (tp_text)TEXT("tried"));
}

TEST(task_that_is_being_run_cannot_be_run_or_discarded) {
  world w = {0};
  char bytes[4];
  nested n = {.w = &w};
  open_world(&w);
  w.tool.run = run_itself;
  w.tool.ctx = &n;
  tp_task_spec spec = spec_of(bytes, 1, "k");
  tp_task_result_free(create(&w, &spec));
  tp_task_result_free(run(&w, "k"));
  assert_string_equal(tp_status_name(n.status), tp_status_name(TP_ERR_BUSY));
  close_runtime(w.runtime);
}

static tp_answer run_other(void *ctx, tp_tool_run *run) {
  nested *n = ctx;
  n->status = tp_task_run(n->w->runtime, "other", NULL, NULL, NULL);
  return tp_tool_ok(run, (tp_text)TEXT("tried"));
}

TEST(what_waits_is_not_run_from_inside_a_tool_and_its_task_stays) {
  world w = {0};
  char bytes[4];
  nested n = {.w = &w};
  open_world(&w);
  w.tool.run = run_other;
  w.tool.ctx = &n;
  tp_task_spec spec = spec_of(bytes, 1, "k"), other = spec_of(bytes, 1, "other");
  tp_task_result_free(create(&w, &spec));
  tp_task_result_free(create(&w, &other));
  tp_task_result_free(run(&w, "k"));
  assert_string_equal(tp_status_name(n.status), tp_status_name(TP_ERR_USAGE));
  assert_int_equal(tp_task_discard(w.runtime, "other", NULL), TP_OK);
  close_runtime(w.runtime);
}

/* ---- the table ---- */

static tp__task *reserve(tp__tasks *tasks, int number, tp_status status) {
  char key[16];
  snprintf(key, sizeof key, "k%d", number);
  const tp_task_spec spec = {.struct_size = sizeof spec, .key = key, .tool = "t"};
  tp__task *task = NULL;
  assert_int_equal(tp__tasks_reserve(tasks, &counting, &spec, 1, &task, NULL), status);
  return task;
}

TEST(table_has_a_bound_and_loses_none) {
  static tp__tasks tasks;
  enum { GONE = TP_TASKS_MAX / 2 };
  tp__task *gone = NULL;
  assert_int_equal(tp__tasks_init(&tasks), TP_OK);
  for (int i = 0; i < TP_TASKS_MAX; i++) {
    tp__task *task = reserve(&tasks, i, TP_OK);
    if (i == GONE) gone = task;
  }
  reserve(&tasks, TP_TASKS_MAX, TP_ERR_FULL);
  tp__tasks_leave(&tasks, &counting, gone, true);
  assert_int_equal(tp__tasks_discard(&tasks, &counting, "k7", NULL), TP_ERR_BUSY);
  char key[16];
  snprintf(key, sizeof key, "k%d", GONE);
  assert_int_equal(tp__tasks_discard(&tasks, &counting, key, NULL), TP_OK);
  assert_int_equal(tp__tasks_take(&tasks, key, &gone, NULL), TP_ERR_NOT_FOUND);
  for (int i = 0; i < TP_TASKS_MAX; i += i < GONE - 1 || i > GONE ? 1 : 2) { /* also those of its bucket */
    snprintf(key, sizeof key, "k%d", i);
    tp__task *task;
    if (tp__tasks_take(&tasks, key, &task, NULL) != TP_ERR_BUSY) fail_msg("%s is not there", key);
  }
  reserve(&tasks, TP_TASKS_MAX, TP_OK);
  reserve(&tasks, TP_TASKS_MAX + 1, TP_ERR_FULL);
  tp__tasks_fini(&tasks, &counting);
  assert_int_equal(blocks_open, 0);
}
