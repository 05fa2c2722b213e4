/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks in a store: created in one runtime, run once in another runtime with the same file; by the functions that wait
 * and by tp_task_submit(). */
#include "tests/support/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/directory.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"
#include "turnphase/task.h"

/* ---- a host with one tool and a gate before it ---- */

typedef struct world {
  tp_runtime *runtime;
  _Atomic int runs, n;
  bool denies, dies;
  latch entered, go; /* go: the tool waits for it when waits is set */
  bool waits;
  char caller[32], key[64];
  bool asks;
  tp_sqlite_questions *questions;
} world;

static bool submits; /* the cases are run with both forms */

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  w->runs++;
  w->n = (int)tp_value_int(tp_value_get(tp_tool_run_arguments(run), "n"), -1);
  if (w->dies) kill(getpid(), SIGKILL);
  latch_hit(&w->entered);
  if (w->waits) latch_wait(&w->go, 1);
  return tp_tool_ok(run, tp_text_of("ran"));
}

static tp_answer contribute(void *ctx, tp_call *call) {
  tp_tool tool = {.struct_size = sizeof tool, .name = "deploy", .run = run_tool, .ctx = ctx};
  const tp_tool *const tools[] = {&tool};
  tp_contribution bundle = {.struct_size = sizeof bundle,
                            .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                            .key = TEXT("t"),
                            .tools = tools,
                            .tool_count = 1};
  return tp_call_emit(call, &bundle, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static tp_answer at_pre(void *ctx, tp_call *call) {
  world *w = ctx;
  if (w->asks) return tp_call_ask(call, "in prod?"); /* many at a time: they leave nothing in the world */
  tp_text key = tp_call_text(call, TP_FIELD_TASK_KEY);
  snprintf(w->caller, sizeof w->caller, "%s", tp_caller_name(tp_call_caller(call)));
  snprintf(w->key, sizeof w->key, "%.*s", (int)key.size, key.data);
  return w->denies ? tp_call_deny(call, "not now") : tp_call_allow(call);
}

static void open_world(world *w) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_runtime_options runtime_options = {.struct_size = sizeof runtime_options, .store = store};
  if (w->asks) {
    tp_sqlite_questions_options box = {.struct_size = sizeof box, .path = path, .poll_ms = 10};
    assert_int_equal(tp_sqlite_questions_open(&box, &w->questions, NULL), TP_OK);
    runtime_options.ask = tp_sqlite_questions_put;
    runtime_options.ask_ctx = w->questions;
  }
  w->entered = w->go = (latch)LATCH;
  w->runtime = open_runtime(&runtime_options);
  const hook hooks[] = {{.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = contribute, .ctx = w},
                        {.id = "pre", .phase = TP_PHASE_TOOL_PRE, .run = at_pre, .ctx = w}};
  add_hooks(w->runtime, hooks, 2);
}

/** What came of a task, by either form. */
typedef struct outcome {
  latch ended;
  tp_status status;
  tp_tool_result_kind kind;
  bool started;
  char key[64], fault[TP_FAULT_MESSAGE_SIZE];
  tp_submission *submission;
} outcome;

static void note(outcome *o, const tp_task_result *result) {
  o->kind = result->kind;
  o->started = result->started;
  snprintf(o->key, sizeof o->key, "%.*s", (int)result->key.size, result->key.data);
}

static void on_end(void *ctx, const tp_task_result *result) {
  outcome *o = ctx;
  o->status = result->status;
  note(o, result);
  if (result->fault) snprintf(o->fault, sizeof o->fault, "%s", result->fault->message);
  latch_hit(&o->ended);
}

static void begin(world *w, tp_task_operation operation, const tp_task_spec *spec, outcome *o) {
  tp_fault fault = {0};
  *o = (outcome){.status = TP_ERR_INTERNAL};
  o->ended = (latch)LATCH;
  tp_status status = tp_task_submit(w->runtime, operation, spec, on_end, o, &o->submission, &fault);
  if (status == TP_OK) return;
  o->status = status;
  snprintf(o->fault, sizeof o->fault, "%s", fault.message);
  latch_hit(&o->ended);
}

static void await(outcome *o) {
  latch_wait(&o->ended, 1);
  if (o->submission) assert_int_equal(tp_submission_wait(o->submission, 60000, NULL, NULL), TP_OK);
  tp_submission_unref(o->submission);
  assert_int_equal(latch_count(&o->ended), 1);
}

static void do_task(world *w, tp_task_operation operation, const tp_task_spec *spec, outcome *o) {
  const tp_task_result *result = NULL;
  tp_fault fault = {0};
  if (submits) {
    begin(w, operation, spec, o);
    await(o);
    return;
  }
  *o = (outcome){.status = TP_ERR_INTERNAL};
  o->status = operation == TP_TASK_CREATE ? tp_task_create(w->runtime, spec, &result, &fault)
                                          : tp_task_run(w->runtime, spec->key, spec->request, &result, &fault);
  assert_true(!result == (o->status != TP_OK));
  if (result) note(o, result);
  snprintf(o->fault, sizeof o->fault, "%s", fault.message);
  tp_task_result_free(result);
}

static tp_status create(world *w, const char *key, char ret_key[64]) {
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "deploy", .key = key, .arguments = TEXT("\x81\xa1n\x07")};
  outcome o;
  do_task(w, TP_TASK_CREATE, &spec, &o);
  if (o.status != TP_OK) return o.status;
  assert_int_equal(o.kind, TP_TOOL_OK);
  assert_false(o.started);
  snprintf(ret_key, 64, "%s", o.key);
  return TP_OK;
}

static tp_status run(world *w, const char *key, tp_tool_result_kind want) {
  tp_turn_request request = {.struct_size = sizeof request, .caller = TP_CALLER_CI_PIPELINE};
  tp_task_spec spec = {.struct_size = sizeof spec, .key = key, .request = &request};
  outcome o;
  do_task(w, TP_TASK_RUN, &spec, &o);
  if (o.status == TP_OK) assert_int_equal(o.kind, want);
  return o.status;
}

/* ---- the cases ---- */

static int set_up(void **state) {
  submits = *state != NULL;
  return make_directory(state);
}

FOR_EACH_TEST(set_up, remove_directory);

TEST(task_of_one_runtime_is_run_once_in_another) {
  world one = {0}, other = {0};
  char key[64], second[64];
  open_world(&one);
  assert_int_equal(create(&one, "d1", key), TP_OK);
  assert_string_equal(key, "d1");
  assert_int_equal(create(&one, NULL, second), TP_OK);
  close_runtime(one.runtime);
  open_world(&one);
  open_world(&other);
  assert_int_equal(create(&other, "d1", key), TP_ERR_DUPLICATE_ID);
  assert_int_equal(run(&other, "d1", TP_TOOL_OK), TP_OK);
  assert_int_equal(other.n, 7);
  assert_string_equal(other.caller, "ci_pipeline");
  assert_string_equal(other.key, "d1");
  assert_int_equal(run(&one, "d1", TP_TOOL_OK), TP_ERR_NOT_FOUND);
  assert_int_equal(run(&other, "d1", TP_TOOL_OK), TP_ERR_NOT_FOUND);
  assert_int_equal(run(&one, second, TP_TOOL_OK), TP_OK);
  assert_int_equal(one.runs + other.runs, 2);
  assert_int_equal(create(&one, "d1", key), TP_OK); /* the key is free again */
  close_runtime(one.runtime);
  close_runtime(other.runtime);
}

TEST(task_whose_run_was_denied_stays) {
  world w = {.denies = true};
  char key[64];
  open_world(&w);
  assert_int_equal(create(&w, "d1", key), TP_OK);
  assert_int_equal(run(&w, "d1", TP_TOOL_DENIED), TP_OK);
  close_runtime(w.runtime);
  world later = {0};
  open_world(&later);
  assert_int_equal(run(&later, "d1", TP_TOOL_OK), TP_OK);
  assert_int_equal(later.runs, 1);
  close_runtime(later.runtime);
}

TEST(discarded_task_cannot_be_run) {
  world one = {0}, other = {0};
  char key[64];
  open_world(&one);
  open_world(&other);
  assert_int_equal(create(&one, "d1", key), TP_OK);
  assert_int_equal(tp_task_discard(other.runtime, "d1", NULL), TP_OK);
  assert_int_equal(tp_task_discard(one.runtime, "d1", NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(run(&one, "d1", TP_TOOL_OK), TP_ERR_NOT_FOUND);
  close_runtime(one.runtime);
  close_runtime(other.runtime);
}

static void add_agent(world *w, tp_text config) {
  tp_agent_config agent_config = {.struct_size = sizeof agent_config, .id = "ops", .extra = config};
  tp_agent *agent;
  assert_int_equal(tp_agent_add(w->runtime, &agent_config, &agent, NULL), TP_OK);
}

/* The scope is that of the process that runs it. */
TEST(agent_of_a_kept_task_bounds_its_run) {
  world one = {0}, limited = {0}, none = {0};
  open_world(&one);
  open_world(&limited);
  open_world(&none);
  add_agent(&one, (tp_text){0});
  add_agent(&limited, (tp_text)TEXT("\x81\xa5tools\x91\xa5other"));
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "deploy", .key = "d1", .agent = "ops"};
  outcome o;
  do_task(&one, TP_TASK_CREATE, &spec, &o);
  assert_int_equal(o.status, TP_OK);
  assert_int_equal(run(&limited, "d1", TP_TOOL_OUT_OF_SCOPE), TP_OK);
  spec = (tp_task_spec){.struct_size = sizeof spec, .key = "d1"};
  do_task(&none, TP_TASK_RUN, &spec, &o);
  assert_int_equal(o.status, TP_ERR_NOT_FOUND);
  assert_non_null(strstr(o.fault, "no agent of this id"));
  assert_int_equal(run(&one, "d1", TP_TOOL_OK), TP_OK); /* it stayed */
  assert_int_equal(one.n, -1);                          /* without arguments */
  close_runtime(one.runtime);
  close_runtime(limited.runtime);
  close_runtime(none.runtime);
}

static void *run_there(void *arg) {
  world *w = arg;
  assert_int_equal(run(w, "d1", TP_TOOL_OK), TP_OK);
  return NULL;
}

TEST(task_that_is_being_run_is_refused_elsewhere) {
  world one = {.waits = true}, other = {0};
  char key[64];
  pthread_t thread;
  open_world(&one);
  open_world(&other);
  assert_int_equal(create(&one, "d1", key), TP_OK);
  assert_int_equal(pthread_create(&thread, NULL, run_there, &one), 0);
  latch_wait(&one.entered, 1);
  assert_int_equal(run(&other, "d1", TP_TOOL_OK), TP_ERR_BUSY);
  assert_int_equal(create(&other, "d1", key), TP_ERR_DUPLICATE_ID);
  latch_hit(&one.go);
  pthread_join(thread, NULL);
  assert_int_equal(run(&other, "d1", TP_TOOL_OK), TP_ERR_NOT_FOUND);
  assert_int_equal(other.runs, 0);
  close_runtime(one.runtime);
  close_runtime(other.runtime);
}

/* Before any thread of this process begins. */
TEST(task_whose_process_died_in_its_run_is_not_run_again) {
  pid_t child = fork();
  if (child == 0) {
    world w = {.dies = true};
    char key[64];
    open_world(&w);
    if (create(&w, "d1", key) == TP_OK && create(&w, "d2", key) == TP_OK) (void)run(&w, "d1", TP_TOOL_OK);
    _exit(1);
  }
  int ended = 0;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
  world w = {0};
  open_world(&w);
  assert_int_equal(run(&w, "d1", TP_TOOL_OK), TP_ERR_BUSY);
  assert_int_equal(run(&w, "d2", TP_TOOL_OK), TP_OK); /* it had not begun */
  assert_int_equal(tp_task_discard(w.runtime, "d1", NULL), TP_OK);
  assert_int_equal(run(&w, "d1", TP_TOOL_OK), TP_ERR_NOT_FOUND);
  assert_int_equal(w.runs, 1);
  close_runtime(w.runtime);
}

TEST(store_with_some_of_the_functions_is_refused) {
  static const char *const missing[] = {"tp_store.task_put is not", "tp_store.task_take is not",
                                        "tp_store.task_settle is not"};
  for (int left_out = 0; left_out < 3; left_out++) {
    tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
    tp_store *store = NULL;
    tp_runtime *runtime = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
    if (left_out == 0) store->task_put = NULL;
    if (left_out == 1) store->task_take = NULL;
    if (left_out == 2) store->task_settle = NULL;
    tp_runtime_options runtime_options = {.struct_size = sizeof runtime_options, .store = store};
    assert_int_equal(tp_runtime_new(&runtime_options, &runtime, &fault), TP_ERR_USAGE);
    if (!strstr(fault.message, missing[left_out])) fail_msg("`%s` is not in `%s`", missing[left_out], fault.message);
    tp_store_free(store);
  }
}

/* ---- a store and people ---- */

static bool allow_every_second(void *ctx, const tp_kept_question *question) {
  tp_decision decision = {.struct_size = sizeof decision,
                          .verdict = question->number % 2 ? TP_VERDICT_ALLOW : TP_VERDICT_DENY,
                          .arguments_hash = question->arguments_hash,
                          .person = TEXT("ann")};
  *(int *)ctx += tp_sqlite_question_answer(path, question->number, &decision, NULL) == TP_OK;
  return true;
}

static bool count_one(void *ctx, const tp_kept_question *question) {
  (void)question;
  ++*(int *)ctx;
  return true;
}

/* The answers are written into the file, as by another process. */
TEST(questions_of_submitted_tasks_are_answered_in_the_file) {
  enum { TASKS = 60 };
  world w = {.asks = true};
  outcome *tasks = calloc(TASKS, sizeof *tasks);
  char key[64];
  open_world(&w);
  for (int i = 0; i < TASKS; i++) {
    snprintf(key, sizeof key, "d%d", i);
    assert_int_equal(create(&w, key, key), TP_OK); /* the gate of its run asks */
    tp_task_spec spec = {.struct_size = sizeof spec, .key = key};
    begin(&w, TP_TASK_RUN, &spec, &tasks[i]);
  }
  for (int answered = 0; answered < TASKS; sleep_ms(1))
    assert_int_equal(tp_sqlite_questions_list(path, true, allow_every_second, &answered, NULL), TP_OK);
  int ran = 0;
  for (int i = 0; i < TASKS; i++) {
    await(&tasks[i]);
    assert_int_equal(tasks[i].status, TP_OK);
    assert_int_equal(tasks[i].kind, tasks[i].started ? TP_TOOL_OK : TP_TOOL_DENIED);
    snprintf(key, sizeof key, "d%d", i);
    assert_string_equal(tasks[i].key, tasks[i].started ? "" : key);
    assert_int_equal(tp_task_discard(w.runtime, key, NULL), tasks[i].started ? TP_ERR_NOT_FOUND : TP_OK);
    ran += tasks[i].started;
  }
  assert_int_equal(ran, TASKS / 2);
  assert_int_equal(w.runs, ran);
  close_runtime(w.runtime);
  tp_sqlite_questions_close(w.questions);
  free(tasks);
}

/* Also by a drain and by the end of the runtime. */
TEST(run_that_is_cancelled_leaves_the_task_to_another_process) {
  for (int how = 0; how < 3; how++) {
    world w = {.asks = true}, later = {0};
    outcome o;
    char key[64];
    int open = 0;
    open_world(&w);
    assert_int_equal(create(&w, "d1", key), TP_OK);
    tp_task_spec spec = {.struct_size = sizeof spec, .key = "d1"};
    begin(&w, TP_TASK_RUN, &spec, &o);
    while (!open) assert_int_equal(tp_sqlite_questions_list(path, true, count_one, &open, NULL), TP_OK);
    assert_int_equal(run(&w, "d1", TP_TOOL_OK), TP_ERR_BUSY);
    if (how == 0) tp_submission_cancel(o.submission);
    if (how == 1) assert_int_equal(tp_runtime_drain(w.runtime, 1, NULL, NULL), TP_OK);
    if (how < 2) await(&o);
    close_runtime(w.runtime);
    if (how == 2) await(&o);
    assert_int_equal(o.kind, TP_TOOL_CANCELLED);
    assert_string_equal(o.key, "d1");
    tp_sqlite_questions_close(w.questions);
    open_world(&later);
    assert_int_equal(run(&later, "d1", TP_TOOL_OK), TP_OK);
    assert_int_equal(later.runs, 1);
    close_runtime(later.runtime);
    assert_int_equal(remove(path), 0);
  }
}

TEST_MAIN(count, arguments) {
  const test_variant variants[] = {{"functions that wait", NULL}, {"submitted", &submits}};
  return test_main_for_each(count, arguments, variants, COUNT(variants));
}
