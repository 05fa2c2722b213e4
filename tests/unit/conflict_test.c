/* SPDX-License-Identifier: Apache-2.0
 *
 * Conflict keys: calls of one response whose keys conflict run in call order, the others at once; the results tell
 * which calls waited, and for which key. The calls of a dispatch begin in call order on one thread, so that a call
 * without keys after the others marks that all of them have begun or wait. */
#include "tests/support/test.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, CALLS_MAX = 8, CHAIN = 10000, STACK_BYTES = 16384 };

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result)->kind), tp_tool_result_name(want))

/* What call number n does. The call finds its number in its arguments. */
typedef struct plan {
  const char *read, *write; /* computed keys */
  bool defers;
  latch *waits_for; /* the function of the tool waits for it */
} plan;

typedef struct world {
  tp_runtime *runtime;
  tp_turn *turn;
  plan plans[CALLS_MAX];
  tp_token tokens[CALLS_MAX];
  pthread_mutex_t mutex;
  int order[CALLS_MAX]; /* the numbers of the calls in the order in which they began */
  int count;
  latch begun, ended;
  uintptr_t stack_low, stack_high; /* the stack addresses at which calls with number 1 ran */
  tp_status refused;               /* what tp_tool_keys_add() returned */
  tp_status says;                  /* what the keys function returns, where that is not TP_OK */
  const tp_tool_result *const *results;
  tp_tool_call calls[CALLS_MAX];
  char arguments[CALLS_MAX][4];
  size_t call_count;
  tp_tool tools[5];
  const tp_tool *list[5];
  tp_contribution contribution;
  act contributes;
} world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  int n = (int)tp_value_int(tp_value_get(tp_tool_run_arguments(run), "n"), 0);
  pthread_mutex_lock(&w->mutex);
  if (w->count < CALLS_MAX) w->order[w->count] = n;
  w->count++;
  uintptr_t frame = (uintptr_t)__builtin_frame_address(0); /* sanitizers put locals elsewhere */
  if (n == 1 && (w->stack_low == 0 || frame < w->stack_low)) w->stack_low = frame;
  if (n == 1 && frame > w->stack_high) w->stack_high = frame;
  pthread_mutex_unlock(&w->mutex);
  tp_answer answer = w->plans[n].defers ? tp_tool_defer(run, NULL, &w->tokens[n]) : TP_ANSWER_NONE;
  latch_hit(&w->begun);
  if (w->plans[n].waits_for) latch_wait(w->plans[n].waits_for, 1);
  return w->plans[n].defers ? answer : tp_tool_ok(run, tp_text_of("done"));
}

static tp_status compute_keys(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  world *w = ctx;
  const plan *p = &w->plans[tp_value_int(tp_value_get(arguments, "n"), 0)];
  if (p->read) w->refused = tp_tool_keys_add(keys, TP_TOOL_READ, tp_text_of(p->read), NULL);
  if (p->write) w->refused = tp_tool_keys_add(keys, TP_TOOL_WRITE, tp_text_of(p->write), NULL);
  return w->says;
}

static void on_end(void *ctx, const tp_tool_result *const *results, size_t count) {
  world *w = ctx;
  (void)count;
  w->results = results;
  latch_hit(&w->ended);
}

/* Tools: "a" and "b" each write a fixed key; "keyed" computes its keys; "slow" does so on a thread with a short limit;
 * "free" has none. */
static void open_world(world *w, const hook *more, size_t more_count) {
  static const char *const names[] = {"a", "b", "keyed", "slow", "free"};
  *w = (world){.begun = LATCH, .ended = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER};
  for (int i = 0; i < 5; i++) {
    w->tools[i] = (tp_tool){.struct_size = sizeof(tp_tool),
                            .name = names[i],
                            .description = "a tool",
                            .run = run_tool,
                            .ctx = w,
                            .placement = i == 3 ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE,
                            .limit_ms = i == 3 ? 20 : 0,
                            .write_key = i < 2 ? names[i] : NULL,
                            .keys = i == 2 || i == 3 ? compute_keys : NULL};
    w->list[i] = &w->tools[i];
  }
  w->contribution = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                      .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                      .key = TEXT("b"),
                                      .tools = w->list,
                                      .tool_count = 5};
  w->contributes = (act){.emits = &w->contribution, .emit_count = 1};
  w->runtime = open_runtime(NULL);
  add_hooks(w->runtime, &(hook){.id = "bundle", .phase = TOOLS, .ctx = &w->contributes}, 1);
  if (more_count) add_hooks(w->runtime, more, more_count);
  w->turn = begin_bare(w->runtime, 0);
  assert_int_equal(run_phase(w->turn, TOOLS, NULL).outcome, TP_OK);
}

static void close_world(world *w) {
  tp_turn_end(w->turn);
  close_runtime(w->runtime);
}

static void add_call(world *w, const char *tool, plan p) {
  size_t n = w->call_count++;
  w->plans[n] = p;
  w->calls[n] = (tp_tool_call){.name = tp_text_of(tool), .arguments = argument_n(w->arguments[n], (int)n)};
}

static void submit(world *w) {
  assert_int_equal(tools_submit(w->turn, w->calls, w->call_count, on_end, w, NULL), TP_OK);
}

static void complete(world *w, int n) {
  assert_int_equal(tp_tool_complete(w->tokens[n], false, tp_text_of("done"), NULL), TP_OK);
}

/* ---- order ---- */

TEST(four_calls_on_two_keys_run_in_order_per_key_and_one_without_at_once) {
  world w;
  open_world(&w, NULL, 0);
  static const char *const tools[] = {"a", "b", "a", "b", "free"};
  for (int i = 0; i < 5; i++) add_call(&w, tools[i], (plan){.defers = true});
  submit(&w);
  latch_wait(&w.begun, 3);
  assert_int_equal(w.order[0], 0);
  assert_int_equal(w.order[1], 1);
  assert_int_equal(w.order[2], 4);
  complete(&w, 1);
  latch_wait(&w.begun, 4);
  assert_int_equal(w.order[3], 3);
  complete(&w, 3);
  complete(&w, 0);
  latch_wait(&w.begun, 5);
  assert_int_equal(w.order[4], 2);
  complete(&w, 2);
  complete(&w, 4);
  latch_wait(&w.ended, 1);
  for (int i = 0; i < 5; i++) {
    bool waited = i == 2 || i == 3;
    assert_kind(w.results[i], TP_TOOL_OK);
    assert_int_equal(w.results[i]->waited_ns > 0, waited);
    assert_text(w.results[i]->waited_key, i == 2 ? "a" : i == 3 ? "b" : "");
  }
  printf("# overlap lost: %.3f ms to a, %.3f ms to b\n", (double)w.results[2]->waited_ns / 1e6,
         (double)w.results[3]->waited_ns / 1e6);
  close_world(&w);
}

/* @return whether the later of the two calls waits for the earlier one. */
static bool waits(plan earlier, plan later) {
  world w;
  open_world(&w, NULL, 0);
  earlier.defers = true;
  add_call(&w, "keyed", earlier);
  add_call(&w, "keyed", later);
  add_call(&w, "free", (plan){0});
  submit(&w);
  latch_wait(&w.begun, 2); /* the first call, and after it the second or the third: these are inline and run in call
                              order */
  bool waited = w.order[1] == 2;
  complete(&w, 0);
  latch_wait(&w.ended, 1);
  assert_int_equal(w.count, 3);
  for (int i = 0; i < 3; i++) assert_kind(w.results[i], TP_TOOL_OK);
  assert_int_equal(w.results[1]->waited_ns > 0, waited);
  close_world(&w);
  return waited;
}

TEST(keys_conflict_when_one_is_at_or_above_the_other) {
  static const struct {
    const char *one, *other;
    bool conflict;
  } pairs[] = {{"a", "a", true},     {"a", "a/b", true},   {"a/b", "a", true},     {"a/b", "a/b/c/d", true},
               {"a", "b", false},    {"a", "ab", false},   {"a/b", "a/bc", false}, {"a/b", "a/c", false},
               {"/", "/a/b", true},  {"/a/b", "/", true},  {"/", "a", false},      {"a", "/a", false},
               {"/a", "/a/b", true}, {"a/b/c", "b", false}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (waits((plan){.write = pairs[i].one}, (plan){.write = pairs[i].other}) != pairs[i].conflict)
      fail_msg("%s and %s", pairs[i].one, pairs[i].other);
}

TEST(readers_share_a_key_and_a_writer_has_it_alone) {
  assert_false(waits((plan){.read = "a"}, (plan){.read = "a/b"}));
  assert_true(waits((plan){.read = "a"}, (plan){.write = "a/b"}));
  assert_true(waits((plan){.write = "a"}, (plan){.read = "a"}));
  assert_false(waits((plan){.read = "a", .write = "b"}, (plan){.read = "a", .write = "c"}));
  assert_true(waits((plan){.read = "a", .write = "b"}, (plan){.read = "b", .write = "c"}));
}

/* A gate that defers only for call number 0. */
static tp_answer gate_of_the_first(void *ctx, tp_call *call) {
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  if (tp_value_int(tp_value_get(arguments, "n"), -1) != 0) return TP_ANSWER_DONE;
  return tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, ctx);
}

/* The tool of the earlier call computes its keys after the gate. Until then nobody knows whether the calls conflict. */
TEST(call_waits_until_the_keys_of_an_earlier_one_are_known) {
  world w;
  tp_token gate = {0};
  open_world(&w, &(hook){.id = "gate", .phase = TP_PHASE_TOOL_PRE, .run = gate_of_the_first, .ctx = &gate}, 1);
  add_call(&w, "keyed", (plan){.write = "c", .defers = true});
  add_call(&w, "a", (plan){0});
  add_call(&w, "free", (plan){0});
  submit(&w);
  latch_wait(&w.begun, 1);
  assert_int_equal(w.order[0], 2);
  tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  assert_int_equal(tp_token_complete(gate, &done, NULL), TP_OK);
  latch_wait(&w.begun, 3); /* the second call does not wait for the end of the first */
  complete(&w, 0);
  latch_wait(&w.ended, 1);
  assert_true(w.results[1]->waited_ns > 0);
  assert_text(w.results[1]->waited_key, "");
  close_world(&w);
}

/* Fixed keys are known from the start. */
TEST(call_does_not_wait_for_an_earlier_one_with_other_fixed_keys) {
  world w;
  tp_token gate = {0};
  open_world(&w, &(hook){.id = "gate", .phase = TP_PHASE_TOOL_PRE, .run = gate_of_the_first, .ctx = &gate}, 1);
  add_call(&w, "a", (plan){0});
  add_call(&w, "b", (plan){0});
  add_call(&w, "a", (plan){0});
  add_call(&w, "free", (plan){0});
  submit(&w);
  latch_wait(&w.begun, 2);
  assert_int_equal(w.order[0], 1);
  assert_int_equal(w.order[1], 3);
  tp_outcome deny = {.struct_size = sizeof deny, .kind = TP_ANSWER_DENY, .reason = "no"};
  assert_int_equal(tp_token_complete(gate, &deny, NULL), TP_OK);
  latch_wait(&w.ended, 1); /* no other call waits for a call that is denied */
  assert_kind(w.results[0], TP_TOOL_DENIED);
  assert_kind(w.results[2], TP_TOOL_OK);
  assert_int_equal(w.count, 3);
  close_world(&w);
}

TEST(ten_thousand_calls_that_wait_for_one_run_in_order_without_a_deep_stack) {
  world w;
  open_world(&w, NULL, 0);
  w.plans[0].defers = true;
  tp_tool_call *calls = calloc(CHAIN, sizeof *calls);
  calls[0] = (tp_tool_call){.name = TEXT("keyed"), .arguments = argument_n(w.arguments[0], 0)};
  w.plans[0].write = w.plans[1].write = "k";
  for (int i = 1; i < CHAIN; i++)
    calls[i] = (tp_tool_call){.name = TEXT("keyed"), .arguments = argument_n(w.arguments[1], 1)};
  assert_int_equal(tools_submit(w.turn, calls, CHAIN, on_end, &w, NULL), TP_OK);
  free(calls);
  latch_wait(&w.begun, 1);
  complete(&w, 0);
  latch_wait(&w.ended, 1);
  assert_in_range(w.stack_high - w.stack_low, 0, STACK_BYTES);
  for (int i = 0; i < CHAIN; i++) {
    assert_kind(w.results[i], TP_TOOL_OK);
    assert_int_equal(w.results[i]->completion_order, i);
    assert_int_equal(w.results[i]->waited_ns > 0, i > 0);
  }
  close_world(&w);
}

/* ---- ends ---- */

TEST(call_behind_one_that_was_given_up_is_shed) {
  world w;
  latch leave = LATCH;
  open_world(&w, NULL, 0);
  add_call(&w, "slow", (plan){.write = "a/b", .waits_for = &leave});
  add_call(&w, "a", (plan){0});
  add_call(&w, "b", (plan){0});
  submit(&w);
  latch_wait(&w.ended, 1);
  assert_kind(w.results[0], TP_TOOL_TIMED_OUT);
  assert_kind(w.results[1], TP_TOOL_SHED);
  assert_false(w.results[1]->started);
  assert_text(w.results[1]->text,
              "it was not run: an earlier call of this response with a conflicting key was given up "
              "and may still run: `a/b`");
  assert_true(w.results[1]->waited_ns > 0);
  assert_kind(w.results[2], TP_TOOL_OK);
  latch_hit(&leave);
  close_world(&w);
}

TEST(cancelled_turn_ends_calls_that_wait) {
  world w;
  open_world(&w, NULL, 0);
  add_call(&w, "a", (plan){.defers = true});
  add_call(&w, "a", (plan){0});
  add_call(&w, "a", (plan){0});
  add_call(&w, "free", (plan){0});
  submit(&w);
  latch_wait(&w.begun, 2);
  tp_turn_cancel(w.turn);
  latch_wait(&w.ended, 1);
  for (int i = 0; i < 3; i++) {
    assert_kind(w.results[i], TP_TOOL_CANCELLED);
    assert_int_equal(w.results[i]->started, i == 0);
  }
  assert_text(w.results[2]->waited_key, "a");
  assert_int_equal(w.count, 2);
  close_world(&w);
}

/* ---- keys that are none ---- */

static const char *const wrong_keys[] = {"", "a/", "//", "/a//b", "a//b", ".", "a/..", "./a", "a/./b", "\xc3(", "/a/"};

TEST(call_whose_keys_cannot_be_computed_does_not_run) {
  for (size_t i = 0; i <= sizeof wrong_keys / sizeof *wrong_keys; i++) {
    world w;
    bool refuses = i == sizeof wrong_keys / sizeof *wrong_keys;
    open_world(&w, NULL, 0);
    w.says = refuses ? TP_ERR_HOOK : TP_OK;
    add_call(&w, "keyed", (plan){.write = refuses ? NULL : wrong_keys[i]});
    add_call(&w, "a", (plan){0});
    submit(&w);
    latch_wait(&w.ended, 1);
    assert_int_equal(w.refused, refuses ? TP_OK : TP_ERR_USAGE);
    assert_kind(w.results[0], TP_TOOL_HANDLER_ERROR);
    assert_false(w.results[0]->started);
    assert_kind(w.results[1], TP_TOOL_OK);
    assert_int_equal(w.count, 1);
    close_world(&w);
  }
}

static tp_status add_many_keys(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  (void)arguments;
  world *w = ctx;
  char name[16];
  for (int i = 0; i < 65; i++) {
    snprintf(name, sizeof name, "k%d", i);
    w->refused = tp_tool_keys_add(keys, i % 2 ? TP_TOOL_READ : TP_TOOL_WRITE, tp_text_of(name), NULL);
    if ((w->refused != TP_OK) != (i == 64)) w->says = TP_ERR_BUSY;
  }
  if (tp_tool_keys_add(keys, (tp_tool_access)3, tp_text_of("a"), NULL) != TP_ERR_USAGE) w->says = TP_ERR_BUSY;
  return TP_OK;
}

static tp_answer emit_tool(void *ctx, tp_call *call) {
  world *w = ctx;
  const tp_tool *list[] = {&w->tools[0]};
  w->refused = tp_call_emit_tool_bundle(call, "own", list, 1, NULL);
  return TP_ANSWER_DONE;
}

TEST(more_keys_than_fit_and_unknown_accesses_are_refused) {
  world w = {.begun = LATCH, .ended = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER, .runtime = open_runtime(NULL)};
  w.tools[0] = (tp_tool){.struct_size = sizeof(tp_tool),
                         .name = "many",
                         .run = run_tool,
                         .ctx = &w,
                         .placement = TP_PLACEMENT_INLINE,
                         .keys = add_many_keys};
  add_hooks(w.runtime, &(hook){.id = "own", .phase = TOOLS, .run = emit_tool, .ctx = &w}, 1);
  w.turn = begin_bare(w.runtime, 0);
  run_phase(w.turn, TOOLS, NULL);
  assert_int_equal(w.refused, TP_OK);
  add_call(&w, "many", (plan){0});
  submit(&w);
  latch_wait(&w.ended, 1);
  assert_int_equal(w.refused, TP_ERR_FULL);
  assert_int_equal(w.says, TP_OK);
  assert_kind(w.results[0], TP_TOOL_HANDLER_ERROR);
  close_world(&w);
}

TEST(fixed_key_of_another_form_is_refused_with_its_tool) {
  for (size_t i = 0; i < 2 * sizeof wrong_keys / sizeof *wrong_keys; i++) {
    world w = {.runtime = open_runtime(NULL)};
    const char *key = wrong_keys[i / 2];
    w.tools[0] = (tp_tool){.struct_size = sizeof(tp_tool), .name = "t", .run = run_tool};
    if (i % 2) w.tools[0].read_key = key;
    else w.tools[0].write_key = key;
    add_hooks(w.runtime, &(hook){.id = "own", .phase = TOOLS, .run = emit_tool, .ctx = &w}, 1);
    w.turn = begin_bare(w.runtime, 0);
    run_phase(w.turn, TOOLS, NULL);
    assert_int_equal(w.refused, TP_ERR_MALFORMED);
    close_world(&w);
  }
}

/* ---- the report of the batch ---- */

static char report[256];

static tp_answer read_report(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text calls = tp_call_text(call, TP_FIELD_CALLS);
  report[0] = 0;
  for (tp_value_walk walk = {0}; tp_value_next(calls, &walk);) {
    tp_text key = tp_value_text(tp_value_get(walk.value, "waited_key"));
    bool waited = tp_value_int(tp_value_get(walk.value, "waited_ms"), -1) >= 0;
    size_t used = strlen(report);
    snprintf(report + used, sizeof report - used, "%d:%.*s ", waited, (int)key.size, key.size ? key.data : "");
  }
  return TP_ANSWER_DONE;
}

static tp_answer run_on_thread(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("done"));
}

TEST(batch_report_says_which_calls_waited_and_for_which_key) {
#define CALL(name_)                                                  \
  {                                                                  \
    .id = TEXT(name_), .name = TEXT("t"), .arguments = { "\x80", 1 } \
  }
  static const reply replies[] = {{.text = "", .calls = {CALL("1"), CALL("2")}, .call_count = 2}, {.text = "done"}};
#undef CALL
  tp_tool tool = {.struct_size = sizeof tool, .name = "t", .run = run_on_thread, .write_key = "/the/file"};
  const tp_tool *list[] = {&tool};
  tp_contribution bundle = {.struct_size = sizeof bundle,
                            .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                            .key = TEXT("b"),
                            .tools = list,
                            .tool_count = 1};
  act contributes = {.emits = &bundle, .emit_count = 1};
  const hook hooks[] = {{.id = "bundle", .phase = TOOLS, .ctx = &contributes},
                        {.id = "report", .phase = TP_PHASE_TOOL_BATCH, .run = read_report}};
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, hooks, 2);
  recorder *model = recorder_new(replies, 2);
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go")};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_string_equal(report, "0: 1:/the/file ");
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
}
