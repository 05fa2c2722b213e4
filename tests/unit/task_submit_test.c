/* SPDX-License-Identifier: Apache-2.0
 *
 * Submitted tasks: a task that waits for a person, a token or a store occupies no thread. Its host is told of its
 * question, and it has one end, wherever it is cancelled, drained or freed. */
#include "tests/support/test.h"

#include <dirent.h>

#include "tests/support/model.h"
#include "turnphase/inbox.h"
#include "turnphase/task.h"

/* ---- a host with one tool and a gate in each phase of its way ---- */

enum { GATES = 7 };
static const uint32_t gate_phases[GATES] = {TP_PHASE_TURN_PRE_POLICY, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
                                            TP_PHASE_TOOL_CREATE,     TP_PHASE_TOOL_REWRITE,
                                            TP_PHASE_TOOL_PRE,        TP_PHASE_TOOL_RESULT,
                                            TP_PHASE_TOOL_POST};
static const char *const gate_names[GATES] = {"policy", "tools", "create", "rewrite", "pre", "result", "post"};

typedef struct world {
  tp_runtime *runtime;
  act gates[GATES];
  tp_tool tool;
  _Atomic int runs, questions; /* questions: that came to the channel of the runtime */
  bool defers;                 /* the tool does */
  tp_verdict answers;          /* of the channel, at once; 0: it keeps the token */
  latch entered;               /* a gate or the tool has deferred */
  tp_token token;
} world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  w->runs++;
  if (!w->defers) return tp_tool_ok(run, tp_text_of("ran"));
  tp_answer answer = tp_tool_defer(run, NULL, &w->token);
  latch_hit(&w->entered);
  return answer;
}

static tp_answer contribute(void *ctx, tp_call *call) {
  world *w = ctx;
  const tp_tool *const tools[] = {&w->tool};
  return tp_call_emit_tool_bundle(call, "b", tools, 1, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static void answer(tp_token token, tp_text hash, tp_verdict verdict) {
  tp_decision decision = {.struct_size = sizeof decision, .verdict = verdict, .arguments_hash = hash};
  if (tp_question_answer(token, &decision, NULL) != TP_OK) abort();
}

static void channel(void *ctx, const tp_question *question) {
  world *w = ctx;
  w->questions++;
  if (w->answers) answer(question->token, question->arguments_hash, w->answers);
}

static void open_world(world *w, bool has_channel) {
  tp_runtime_options options = {.struct_size = sizeof options};
  hook hooks[GATES + 1] = {
      {.id = "contributes", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = contribute, .ctx = w}};
  if (has_channel) {
    options.ask = channel;
    options.ask_ctx = w;
  }
  w->runtime = open_runtime(&options);
  w->entered = (latch)LATCH;
  w->tool = (tp_tool){
      .struct_size = sizeof w->tool, .name = "t", .run = run_tool, .ctx = w, .placement = TP_PLACEMENT_INLINE};
  for (int i = 0; i < GATES; i++) {
    if (w->gates[i].defers) w->gates[i].deferred = &w->entered;
    hooks[i + 1] = (hook){.id = gate_names[i], .phase = gate_phases[i], .ctx = &w->gates[i]};
  }
  add_hooks(w->runtime, hooks, GATES + 1);
}

/** What a host hears of one task. */
typedef struct heard {
  latch ends, asked;
  tp_status status;
  tp_tool_result_kind kind;
  bool started, asked_first; /* asked_first: the notice came before the channel had the question */
  char key[160], text[160], asked_key[160], question_key[64], hash[64], fault[TP_FAULT_MESSAGE_SIZE];
  tp_token token;
  world *w;
  tp_submission *submission;
} heard;

static void copy(char *to, size_t size, tp_text text) {
  snprintf(to, size, "%.*s", (int)text.size, text.size ? text.data : "");
}

static void on_end(void *ctx, const tp_task_result *result) {
  heard *h = ctx;
  h->status = result->status;
  h->kind = result->kind;
  h->started = result->started;
  copy(h->key, sizeof h->key, result->key);
  copy(h->text, sizeof h->text, result->text);
  if (result->fault) snprintf(h->fault, sizeof h->fault, "%s", result->fault->message);
  if (result->asked || result->question) abort();
  latch_hit(&h->ends);
}

static void on_asked(void *ctx, const tp_task_result *result) {
  heard *h = ctx;
  if (!result->asked || result->kind != TP_TOOL_NONE || result->status != TP_OK || result->started) abort();
  if (result->question->call->id.size == 0) abort(); /* by which its end is found */
  copy(h->asked_key, sizeof h->asked_key, result->key);
  copy(h->question_key, sizeof h->question_key, result->question->key);
  copy(h->hash, sizeof h->hash, result->question->arguments_hash);
  h->token = result->question->token;
  h->asked_first = h->w->questions == 0;
  latch_hit(&h->asked);
}

static void hear(heard *h, world *w) {
  *h = (heard){.w = w, .status = TP_ERR_INTERNAL};
  h->ends = h->asked = (latch)LATCH;
}

static tp_status submit(heard *h, world *w, tp_task_operation operation, const char *key, tp_fault *fault) {
  tp_task_spec spec = {.struct_size = sizeof spec, .key = key, .on_asked = on_asked, .on_asked_ctx = h};
  hear(h, w);
  if (operation != TP_TASK_RUN) spec.tool = "t";
  return tp_task_submit(w->runtime, operation, &spec, on_end, h, &h->submission, fault);
}

static void begin(heard *h, world *w, tp_task_operation operation, const char *key) {
  tp_fault fault = {0};
  if (submit(h, w, operation, key, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void end(heard *h, tp_tool_result_kind kind) {
  latch_wait(&h->ends, 1);
  if (h->status != TP_OK) fail_msg("%s", h->fault);
  assert_string_equal(tp_tool_result_name(h->kind), tp_tool_result_name(kind));
  assert_int_equal(tp_submission_wait(h->submission, 60000, NULL, NULL), TP_OK);
  tp_submission_unref(h->submission);
}

static int thread_count(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count - 2;
}

static const act asks = {.kind = TP_ANSWER_ASK, .reason = "in prod?"};
enum { POLICY, TOOLS, CREATE, REWRITE, PRE, RESULT, POST };

/* ---- many at once ---- */

TEST(thousand_tasks_wait_for_a_person_on_a_handful_of_threads) {
  enum { TASKS = 1000 };
  world w = {.gates[CREATE] = asks};
  heard *tasks = calloc(TASKS, sizeof *tasks);
  open_world(&w, false);
  for (int i = 0; i < TASKS; i++) begin(&tasks[i], &w, i % 2 ? TP_TASK_CREATE : TP_TASK_CALL, NULL);
  for (int i = 0; i < TASKS; i++) latch_wait(&tasks[i].asked, 1);
  int threads = thread_count();
  print_message("# %d tasks wait for a person: the process has %d threads\n", TASKS, threads);
  if (!HAS_THREAD_SANITIZER && !HAS_ADDRESS_SANITIZER) assert_true(threads <= 8);
  assert_int_equal(w.runs, 0);
  for (int i = 0; i < TASKS; i++)
    answer(tasks[i].token, tp_text_of(tasks[i].hash), i % 4 < 2 ? TP_VERDICT_ALLOW : TP_VERDICT_DENY);
  for (int i = 0; i < TASKS; i++) {
    end(&tasks[i], i % 4 < 2 ? TP_TOOL_OK : TP_TOOL_DENIED);
    assert_int_equal(latch_count(&tasks[i].asked), 1);
    assert_int_equal(latch_count(&tasks[i].ends), 1);
    assert_int_equal(tasks[i].started, i % 4 == 0);
    assert_int_equal(tasks[i].key[0] != 0, i % 4 == 1); /* a created one that was allowed */
    assert_int_equal(tasks[i].asked_key[0] != 0, i % 2);
  }
  assert_int_equal(w.runs, TASKS / 4);
  assert_int_equal(w.questions, 0);
  close_runtime(w.runtime);
  free(tasks);
}

/* ---- cancel ---- */

/** Where a task of an operation waits when it is cancelled. */
typedef struct place {
  const char *name;
  tp_task_operation operation;
  int gate; /* that defers; -1: none */
  bool asks, tool_defers;
  tp_tool_result_kind want;
  bool started, stays; /* stays: the task can be run later */
} place;

static const place places[] = {
    {"policies of a call", TP_TASK_CALL, POLICY, false, false, TP_TOOL_CANCELLED, false, false},
    {"policies of a creation", TP_TASK_CREATE, POLICY, false, false, TP_TOOL_CANCELLED, false, false},
    {"policies of a run", TP_TASK_RUN, POLICY, false, false, TP_TOOL_CANCELLED, false, true},
    {"tools of a call", TP_TASK_CALL, TOOLS, false, false, TP_TOOL_CANCELLED, false, false},
    {"tools of a run", TP_TASK_RUN, TOOLS, false, false, TP_TOOL_CANCELLED, false, true},
    {"creation", TP_TASK_CREATE, CREATE, false, false, TP_TOOL_CANCELLED, false, false},
    {"creation of a call", TP_TASK_CALL, CREATE, false, false, TP_TOOL_CANCELLED, false, false},
    {"rewrite of a run", TP_TASK_RUN, REWRITE, false, false, TP_TOOL_CANCELLED, false, true},
    {"gate of a run", TP_TASK_RUN, PRE, false, false, TP_TOOL_CANCELLED, false, true},
    {"question of a creation", TP_TASK_CREATE, -1, true, false, TP_TOOL_CANCELLED, false, false},
    {"question of a call", TP_TASK_CALL, -1, true, false, TP_TOOL_CANCELLED, false, false},
    {"question of a run", TP_TASK_RUN, -1, true, false, TP_TOOL_CANCELLED, false, true},
    {"tool of a call", TP_TASK_CALL, -1, false, true, TP_TOOL_CANCELLED, true, false},
    {"tool of a run", TP_TASK_RUN, -1, false, true, TP_TOOL_CANCELLED, true, false},
    {"result of a call", TP_TASK_CALL, RESULT, false, false, TP_TOOL_OK, true, false},
    {"post of a run", TP_TASK_RUN, POST, false, false, TP_TOOL_OK, true, false},
};

static bool ends_late(const place *p) { return p->gate == RESULT || p->gate == POST; }

/* A run's task is created by a world without the obstacle. */
static void wait_at(const place *p, world *w, heard *h) {
  if (p->gate >= 0) w->gates[p->gate].defers = true;
  w->defers = p->tool_defers;
  open_world(w, false);
  if (p->operation == TP_TASK_RUN) {
    bool at_creation = p->gate == POLICY || p->gate == TOOLS; /* these phases are the creation's as well */
    tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t", .key = "k"};
    if (at_creation) w->gates[p->gate].defers = false;
    assert_int_equal(tp_task_create(w->runtime, &spec, NULL, NULL), TP_OK);
    if (at_creation) w->gates[p->gate].defers = true;
  }
  if (p->asks) w->gates[p->operation == TP_TASK_RUN ? PRE : CREATE] = asks;
  begin(h, w, p->operation, p->operation == TP_TASK_CALL ? NULL : "k");
  if (p->asks) latch_wait(&h->asked, 1);
  else latch_wait(&w->entered, 1);
}

static tp_outcome done(void) { return (tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE}; }

TEST(cancelled_task_has_one_end_wherever_it_waits) {
  for (size_t i = 0; i < COUNT(places); i++) {
    const place *p = &places[i];
    world w = {.runtime = NULL};
    heard h;
    tp_outcome outcome = done();
    print_message("# %s\n", p->name);
    wait_at(p, &w, &h);
    tp_submission_cancel(h.submission);
    if (ends_late(p)) assert_int_equal(tp_token_complete(w.gates[p->gate].token, &outcome, NULL), TP_OK);
    end(&h, p->want);
    assert_int_equal(h.started, p->started);
    assert_int_equal(w.runs, p->started);
    if (p->gate >= 0 && !ends_late(p)) (void)!tp_token_complete(w.gates[p->gate].token, &outcome, NULL);
    if (p->tool_defers) (void)!tp_tool_complete(w.token, false, tp_text_of("late"), NULL);
    if (p->operation != TP_TASK_CALL) {
      assert_string_equal(h.key, p->stays ? "k" : "");
      tp_status left = tp_task_discard(w.runtime, "k", NULL);
      assert_string_equal(tp_status_name(left), tp_status_name(p->stays ? TP_OK : TP_ERR_NOT_FOUND));
    }
    assert_int_equal(latch_count(&h.ends), 1);
    close_runtime(w.runtime);
  }
}

TEST(drain_cancels_what_waits_and_hears_each_end) {
  for (size_t i = 0; i < COUNT(places); i++) {
    const place *p = &places[i];
    world w = {.runtime = NULL};
    heard h;
    tp_drain_report report = {.struct_size = sizeof report};
    if (ends_late(p)) continue; /* nothing completes them */
    wait_at(p, &w, &h);
    assert_int_equal(tp_runtime_drain(w.runtime, 1, &report, NULL), TP_OK);
    assert_int_equal(report.turns_cancelled, 1);
    assert_int_equal(latch_count(&h.ends), 1); /* before the drain has ended */
    end(&h, TP_TOOL_CANCELLED);
    heard more;
    assert_int_equal(submit(&more, &w, TP_TASK_CALL, NULL, NULL), TP_ERR_SHUTDOWN);
    assert_int_equal(latch_count(&more.ends), 0);
    tp_outcome outcome = done();
    if (p->gate >= 0) (void)!tp_token_complete(w.gates[p->gate].token, &outcome, NULL);
    if (p->tool_defers) (void)!tp_tool_complete(w.token, false, tp_text_of("late"), NULL);
    close_runtime(w.runtime);
  }
}

TEST(runtime_is_freed_with_open_tasks) {
  enum { TASKS = 50 };
  world w = {.gates[CREATE] = asks};
  heard *tasks = calloc(TASKS, sizeof *tasks);
  open_world(&w, false);
  for (int i = 0; i < TASKS; i++) begin(&tasks[i], &w, i % 2 ? TP_TASK_CREATE : TP_TASK_CALL, NULL);
  for (int i = 0; i < TASKS; i++) latch_wait(&tasks[i].asked, 1);
  close_runtime(w.runtime);
  for (int i = 0; i < TASKS; i++) {
    assert_int_equal(latch_count(&tasks[i].ends), 1);
    assert_string_equal(tp_tool_result_name(tasks[i].kind), "cancelled");
    tp_decision decision = {.struct_size = sizeof decision, .verdict = TP_VERDICT_ALLOW};
    assert_int_equal(tp_question_answer(tasks[i].token, &decision, NULL), TP_ERR_STALE);
    tp_submission_cancel(tasks[i].submission); /* its turn is gone */
    tp_submission_unref(tasks[i].submission);
  }
  free(tasks);
}

TEST(cancels_and_answers_race_to_one_end) {
  enum { TASKS = 400 };
  world w = {.gates[PRE] = asks};
  heard *tasks = calloc(TASKS, sizeof *tasks);
  open_world(&w, false);
  for (int i = 0; i < TASKS; i++) begin(&tasks[i], &w, TP_TASK_CALL, NULL);
  for (int i = 0; i < TASKS; i++) {
    latch_wait(&tasks[i].asked, 1);
    tp_decision decision = {
        .struct_size = sizeof decision, .verdict = TP_VERDICT_ALLOW, .arguments_hash = tp_text_of(tasks[i].hash)};
    if (i % 2) tp_submission_cancel(tasks[i].submission);
    (void)!tp_question_answer(tasks[i].token, &decision, NULL);
    if (i % 2 == 0) tp_submission_cancel(tasks[i].submission);
  }
  int ran = 0;
  for (int i = 0; i < TASKS; i++) {
    latch_wait(&tasks[i].ends, 1);
    assert_true(tasks[i].kind == TP_TOOL_OK || tasks[i].kind == TP_TOOL_CANCELLED);
    assert_int_equal(tasks[i].started, tasks[i].kind == TP_TOOL_OK);
    ran += tasks[i].started;
    tp_submission_unref(tasks[i].submission);
  }
  assert_int_equal(w.runs, ran);
  close_runtime(w.runtime);
  for (int i = 0; i < TASKS; i++) assert_int_equal(latch_count(&tasks[i].ends), 1);
  free(tasks);
}

TEST(cancel_of_the_call_only_is_a_cancel_of_the_task) {
  world w = {.gates[CREATE] = asks};
  heard h;
  open_world(&w, false);
  begin(&h, &w, TP_TASK_CREATE, "k");
  latch_wait(&h.asked, 1);
  assert_int_equal(tp_submission_cancel_calls(h.submission, (tp_text){NULL, 0}, NULL), TP_OK);
  end(&h, TP_TOOL_CANCELLED);
  close_runtime(w.runtime);
}

TEST(limit_of_the_request_ends_a_task) {
  for (size_t i = 0; i < 9; i++) { /* those in which only a gate waits: a question has a limit of its own */
    const place *p = &places[i];
    world w = {.runtime = NULL};
    heard h;
    if (p->operation == TP_TASK_RUN) continue;
    w.gates[p->gate].defers = true;
    open_world(&w, false);
    hear(&h, &w);
    tp_turn_request request = {.struct_size = sizeof request, .limit_ms = 30};
    tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t", .request = &request};
    assert_int_equal(tp_task_submit(w.runtime, p->operation, &spec, on_end, &h, &h.submission, NULL), TP_OK);
    latch_wait(&w.entered, 1);
    end(&h, TP_TOOL_TIMED_OUT);
    tp_outcome outcome = done();
    (void)!tp_token_complete(w.gates[p->gate].token, &outcome, NULL);
    close_runtime(w.runtime);
  }
}

/* ---- the question ---- */

TEST(host_hears_of_a_question_before_the_channel_gets_it) {
  for (tp_verdict says = TP_VERDICT_ALLOW; says <= TP_VERDICT_DENY; says += 2) {
    world w = {.gates[CREATE] = asks, .answers = says};
    heard h;
    open_world(&w, true);
    begin(&h, &w, TP_TASK_CREATE, "k");
    end(&h, says == TP_VERDICT_ALLOW ? TP_TOOL_OK : TP_TOOL_DENIED);
    assert_int_equal(latch_count(&h.asked), 1);
    assert_true(h.asked_first);
    assert_int_equal(w.questions, 1);
    assert_string_equal(h.asked_key, "k");
    assert_int_equal(strlen(h.question_key), 32);
    close_runtime(w.runtime);
  }
}

TEST(question_without_channel_and_on_asked_is_a_denial) {
  world w = {.gates[CREATE] = asks};
  heard h;
  open_world(&w, false);
  hear(&h, &w);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
  assert_int_equal(tp_task_submit(w.runtime, TP_TASK_CALL, &spec, on_end, &h, &h.submission, NULL), TP_OK);
  end(&h, TP_TOOL_DENIED);
  assert_int_equal(latch_count(&h.asked), 0);
  close_runtime(w.runtime);
}

TEST(caller_that_waits_hears_of_a_question_too) {
  world w = {.gates[CREATE] = asks, .answers = TP_VERDICT_ALLOW};
  heard h;
  open_world(&w, true);
  hear(&h, &w);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t", .on_asked = on_asked, .on_asked_ctx = &h};
  const tp_task_result *result = NULL;
  assert_int_equal(tp_task_call(w.runtime, &spec, &result, NULL), TP_OK);
  assert_string_equal(tp_tool_result_name(result->kind), "ok");
  assert_false(result->asked);
  assert_int_equal(latch_count(&h.asked), 1);
  tp_task_result_free(result);
  close_runtime(w.runtime);
}

/** A call about which a person is asked, and whether its question has the same key as the first. */
typedef struct asking {
  const char *name, *turn, *key;
  tp_text arguments;
  tp_task_operation operation;
  bool same;
} asking;

TEST(key_of_a_question_is_that_of_the_call) {
  static const asking calls[] = {
      {"the first", "turn-1", NULL, TEXT("\x81\xa1n\x07"), TP_TASK_CALL, true},
      {"the same again", "turn-1", NULL, TEXT("\x81\xa1n\x07"), TP_TASK_CALL, true},
      {"another turn", "turn-2", NULL, TEXT("\x81\xa1n\x07"), TP_TASK_CALL, false},
      {"a turn without id", NULL, NULL, TEXT("\x81\xa1n\x07"), TP_TASK_CALL, false},
      {"other arguments", "turn-1", NULL, TEXT("\x81\xa1n\x08"), TP_TASK_CALL, false},
      {"no arguments", "turn-1", NULL, {NULL, 0}, TP_TASK_CALL, false},
      {"a creation, whose key is the call's id", "turn-1", "k", TEXT("\x81\xa1n\x07"), TP_TASK_CREATE, false},
      {"a turn id that is longer by what the call id is", "turn-1k", NULL, TEXT("\x81\xa1n\x07"), TP_TASK_CALL, false},
      {"another name of an argument", "turn-1", NULL, TEXT("\x81\xa1m\x07"), TP_TASK_CALL, false},
      {"the first once more", "turn-1", NULL, TEXT("\x81\xa1n\x07"), TP_TASK_CALL, true},
  };
  char first[64] = "";
  for (size_t i = 0; i < COUNT(calls); i++) { /* each in a runtime of its own, as if in another process */
    world w = {.gates[CREATE] = asks};
    heard h;
    open_world(&w, false);
    hear(&h, &w);
    tp_turn_request request = {.struct_size = sizeof request, .id = calls[i].turn};
    tp_task_spec spec = {.struct_size = sizeof spec,
                         .tool = "t",
                         .key = calls[i].key,
                         .arguments = calls[i].arguments,
                         .request = &request,
                         .on_asked = on_asked,
                         .on_asked_ctx = &h};
    assert_int_equal(tp_task_submit(w.runtime, calls[i].operation, &spec, on_end, &h, &h.submission, NULL), TP_OK);
    latch_wait(&h.asked, 1);
    if (i == 0) strcpy(first, h.question_key);
    if ((strcmp(first, h.question_key) == 0) != calls[i].same) fail_msg("%s: %s", calls[i].name, h.question_key);
    answer(h.token, tp_text_of(h.hash), TP_VERDICT_ALLOW);
    end(&h, TP_TOOL_OK);
    close_runtime(w.runtime);
  }
}

/* ---- the way of a task ---- */

TEST(created_task_is_run_from_the_end_of_its_creation) {
  world w = {.runtime = NULL};
  heard created, ran;
  open_world(&w, false);
  begin(&created, &w, TP_TASK_CREATE, NULL);
  end(&created, TP_TOOL_OK);
  assert_true(created.key[0]);
  assert_false(created.started);
  begin(&ran, &w, TP_TASK_RUN, created.key);
  end(&ran, TP_TOOL_OK);
  assert_true(ran.started);
  assert_string_equal(ran.text, "ran");
  assert_string_equal(ran.key, "");
  assert_int_equal(submit(&ran, &w, TP_TASK_RUN, created.key, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(w.runs, 1);
  close_runtime(w.runtime);
}

/** Submits the run of the task that was created, from its end. */
typedef struct chain {
  heard created, ran;
  tp_status status;
} chain;

static void run_next(void *ctx, const tp_task_result *result) {
  chain *c = ctx;
  c->status = submit(&c->ran, c->created.w, TP_TASK_RUN, result->key.data, NULL);
  on_end(&c->created, result);
}

TEST(end_of_a_task_may_begin_the_next) {
  world w = {.runtime = NULL};
  chain c = {.status = TP_ERR_INTERNAL};
  open_world(&w, false);
  hear(&c.created, &w);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
  assert_int_equal(tp_task_submit(w.runtime, TP_TASK_CREATE, &spec, run_next, &c, NULL, NULL), TP_OK);
  latch_wait(&c.created.ends, 1);
  assert_int_equal(c.status, TP_OK);
  end(&c.ran, TP_TOOL_OK);
  close_runtime(w.runtime);
}

TEST(task_in_use_is_busy_and_free_after_its_end) {
  world w = {.gates[PRE] = asks};
  heard first, second;
  open_world(&w, false);
  begin(&first, &w, TP_TASK_CREATE, "k");
  end(&first, TP_TOOL_OK);
  begin(&first, &w, TP_TASK_RUN, "k");
  latch_wait(&first.asked, 1);
  assert_int_equal(submit(&second, &w, TP_TASK_RUN, "k", NULL), TP_ERR_BUSY);
  assert_int_equal(submit(&second, &w, TP_TASK_CREATE, "k", NULL), TP_ERR_DUPLICATE_ID);
  assert_int_equal(tp_task_discard(w.runtime, "k", NULL), TP_ERR_BUSY);
  answer(first.token, tp_text_of(first.hash), TP_VERDICT_DENY);
  end(&first, TP_TOOL_DENIED);
  assert_string_equal(first.key, "k");
  begin(&second, &w, TP_TASK_RUN, "k");
  latch_wait(&second.asked, 1);
  answer(second.token, tp_text_of(second.hash), TP_VERDICT_ALLOW);
  end(&second, TP_TOOL_OK);
  assert_int_equal(latch_count(&first.ends) + latch_count(&second.ends), 2);
  close_runtime(w.runtime);
}

TEST(failure_of_a_phase_is_the_status_of_the_end) {
  const int gates[] = {POLICY, TOOLS};
  for (size_t i = 0; i < COUNT(gates); i++) {
    world w = {.runtime = NULL};
    heard h;
    w.gates[gates[i]].kind = TP_ANSWER_FAILED;
    w.gates[gates[i]].reason = "no rules";
    tp_runtime_options options = {.struct_size = sizeof options, .hook_failure = TP_FAILURE_REQUIRED};
    w.runtime = open_runtime(&options);
    w.entered = (latch)LATCH;
    const hook failing[] = {{.id = "fails",
                             .phase = gate_phases[gates[i]],
                             .ctx = &w.gates[gates[i]],
                             .sub = {.failure = TP_FAILURE_REQUIRED}}};
    add_hooks(w.runtime, failing, 1);
    begin(&h, &w, TP_TASK_CREATE, "k");
    latch_wait(&h.ends, 1);
    assert_string_equal(tp_status_name(h.status), tp_status_name(TP_ERR_HOOK));
    assert_non_null(strstr(h.fault, "no rules"));
    assert_int_equal(h.kind, TP_TOOL_NONE);
    assert_int_equal(tp_task_discard(w.runtime, "k", NULL), TP_ERR_NOT_FOUND);
    tp_submission_unref(h.submission);
    close_runtime(w.runtime);
  }
}

/* ---- what is refused ---- */

TEST(wrong_submits_are_refused_and_end_nothing) {
  world w = {.runtime = NULL};
  heard h;
  const tp_task_spec ok = {.struct_size = sizeof ok, .tool = "t"};
  tp_task_spec specs[14];
  for (size_t i = 0; i < COUNT(specs); i++) specs[i] = ok;
  specs[1].tool = NULL;
  specs[2].tool = "a b";
  specs[3].key = "a b";
  specs[4].arguments = (tp_text)TEXT("\x91\x01");
  specs[5].arguments = (tp_text)TEXT("\x81\xa1n");
  specs[6].agent = "nobody";
  specs[7].struct_size = 3;
  specs[8].on_asked_ctx = &w;
  specs[9].key = "k";
  specs[10] = (tp_task_spec){.struct_size = sizeof ok};
  specs[11].key = "k";
  specs[12] = (tp_task_spec){.struct_size = sizeof ok, .key = "k", .agent = "nobody"};
  specs[13] = (tp_task_spec){.struct_size = sizeof ok, .key = "k"};
  const struct {
    const char *why;
    tp_task_operation operation;
    const tp_task_spec *spec;
    tp_task_fn on_end;
    tp_status want;
  } rows[] = {
      {"no spec", TP_TASK_CALL, NULL, on_end, TP_ERR_USAGE},
      {"no on_end", TP_TASK_CALL, &specs[0], NULL, TP_ERR_USAGE},
      {"no operation", (tp_task_operation)0, &specs[0], on_end, TP_ERR_USAGE},
      {"an unknown operation", (tp_task_operation)4, &specs[0], on_end, TP_ERR_USAGE},
      {"no tool", TP_TASK_CALL, &specs[1], on_end, TP_ERR_BAD_ID},
      {"a bad tool", TP_TASK_CREATE, &specs[2], on_end, TP_ERR_BAD_ID},
      {"a bad key", TP_TASK_CREATE, &specs[3], on_end, TP_ERR_BAD_ID},
      {"arguments that are no map", TP_TASK_CALL, &specs[4], on_end, TP_ERR_USAGE},
      {"arguments that are no value", TP_TASK_CALL, &specs[5], on_end, TP_ERR_USAGE},
      {"an unknown agent", TP_TASK_CREATE, &specs[6], on_end, TP_ERR_NOT_FOUND},
      {"a wrong size", TP_TASK_CALL, &specs[7], on_end, TP_ERR_VERSION},
      {"a context without its function", TP_TASK_CALL, &specs[8], on_end, TP_ERR_USAGE},
      {"a key of a call", TP_TASK_CALL, &specs[9], on_end, TP_ERR_USAGE},
      {"a run without key", TP_TASK_RUN, &specs[10], on_end, TP_ERR_USAGE},
      {"a run with a tool", TP_TASK_RUN, &specs[11], on_end, TP_ERR_USAGE},
      {"a run with an agent", TP_TASK_RUN, &specs[12], on_end, TP_ERR_USAGE},
      {"a run of nothing", TP_TASK_RUN, &specs[13], on_end, TP_ERR_NOT_FOUND},
  };
  open_world(&w, false);
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_fault fault = {0};
    hear(&h, &w);
    tp_status status =
        tp_task_submit(w.runtime, rows[i].operation, rows[i].spec, rows[i].on_end, &h, &h.submission, &fault);
    if (status != rows[i].want || !fault.message[0] || h.submission)
      fail_msg("%s: %s: %s", rows[i].why, tp_status_name(status), fault.message);
    assert_int_equal(latch_count(&h.ends), 0);
  }
  begin(&h, &w, TP_TASK_CREATE, "k"); /* no refused creation holds a key */
  end(&h, TP_TOOL_OK);
  close_runtime(w.runtime);
}

TEST(submission_of_a_task_has_no_result_of_a_turn) {
  world w = {.gates[CREATE] = asks};
  heard h;
  const tp_turn_result *result = NULL;
  open_world(&w, false);
  begin(&h, &w, TP_TASK_CALL, NULL);
  latch_wait(&h.asked, 1);
  assert_int_equal(tp_submission_wait(h.submission, 0, &result, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_submission_wait(h.submission, 0, NULL, NULL), TP_ERR_TIMEOUT);
  answer(h.token, tp_text_of(h.hash), TP_VERDICT_ALLOW);
  end(&h, TP_TOOL_OK);
  assert_null(result);
  close_runtime(w.runtime);
}

TEST(runtime_without_engine_workers_refuses_a_submit) {
  world w = {.runtime = NULL};
  heard h;
  tp_fault fault = {0};
  tp_runtime_options options = {.struct_size = sizeof options, .no_engine_workers = true};
  w.runtime = open_runtime(&options);
  assert_int_equal(submit(&h, &w, TP_TASK_CALL, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "tp_task_call"));
  close_runtime(w.runtime);
}

/** A handler that submits a task. */
typedef struct from_handler {
  world *w;
  heard h;
  tp_status status;
} from_handler;

static tp_answer submit_from_handler(void *ctx, tp_call *call) {
  from_handler *f = ctx;
  f->status = submit(&f->h, f->w, TP_TASK_CALL, NULL, NULL);
  return tp_call_allow(call);
}

TEST(handler_may_submit_a_task) {
  world w = {.runtime = NULL};
  from_handler f = {.w = &w, .status = TP_ERR_INTERNAL};
  open_world(&w, false);
  const hook submits[] = {{.id = "submits", .phase = TP_PHASE_TURN_INTAKE, .run = submit_from_handler, .ctx = &f}};
  add_hooks(w.runtime, submits, 1);
  tp_turn *turn = begin_bare(w.runtime, 10000);
  (void)run_phase(turn, TP_PHASE_TURN_INTAKE, "hi");
  tp_turn_end(turn);
  assert_int_equal(f.status, TP_OK);
  end(&f.h, TP_TOOL_OK);
  close_runtime(w.runtime);
}

/* ---- by an inbox ---- */

/* A host that takes everything from one inbox, on one thread: questions, ends, and runs of created tasks. */
TEST(ends_and_questions_of_tasks_come_through_an_inbox) {
  enum { TASKS = 30 };
  world w = {.gates[CREATE] = asks};
  tp_submission *submissions[TASKS];
  tp_end *notices[TASKS];
  int kinds[TASKS] = {0}, questions = 0, ends = 0;
  tp_inbox *inbox;
  open_world(&w, false);
  assert_int_equal(tp_inbox_new(w.runtime, NULL, &inbox, NULL), TP_OK);
  for (int i = 0; i < TASKS; i++) {
    tp_end *end;
    assert_int_equal(tp_end_new(inbox, &kinds[i], &end, NULL), TP_OK);
    assert_int_equal(tp_end_new(inbox, &kinds[i], &notices[i], NULL), TP_OK);
    tp_task_spec spec = {.struct_size = sizeof spec,
                         .tool = i % 3 == 2 ? "other" : "t",
                         .on_asked = tp_end_of_task,
                         .on_asked_ctx = notices[i]};
    tp_task_operation operation = i % 2 ? TP_TASK_CREATE : TP_TASK_CALL;
    assert_int_equal(tp_task_submit(w.runtime, operation, &spec, tp_end_of_task, end, &submissions[i], NULL), TP_OK);
  }
  while (ends < TASKS) {
    const tp_work *work;
    assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
    if (!work) continue;
    assert_int_equal(work->kind, TP_WORK_END);
    assert_int_equal(work->end->kind, TP_END_TASK);
    const tp_task_result *result = work->end->task;
    int index = (int)((int *)work->ctx - kinds);
    if (result->asked) {
      assert_int_equal(tp_submission_wait(submissions[index], 0, NULL, NULL), TP_ERR_TIMEOUT);
      assert_int_equal(result->question->key.size, 32);
      assert_text(result->question->call->name, "t");
      answer(result->question->token, result->question->arguments_hash, TP_VERDICT_ALLOW);
      notices[index] = NULL;
      questions++;
    } else {
      assert_int_equal(tp_submission_wait(submissions[index], 0, NULL, NULL), TP_OK);
      assert_int_equal(result->kind, index % 3 == 2 ? TP_TOOL_UNKNOWN_TOOL : TP_TOOL_OK);
      assert_int_equal(result->key.size > 0, index % 3 != 2 && index % 2);
      if (index % 3 != 2 && index % 2 == 0) assert_text(result->text, "ran");
      kinds[index]++;
      ends++;
    }
    assert_int_equal(tp_work_release(work), TP_OK);
  }
  assert_int_equal(questions, TASKS / 3 * 2);
  for (int i = 0; i < TASKS; i++) {
    assert_int_equal(kinds[i], 1);
    tp_end_free(notices[i]); /* of a task that no gate asked about */
    tp_submission_unref(submissions[i]);
  }
  close_runtime(w.runtime);
  tp_inbox_free(inbox);
}
