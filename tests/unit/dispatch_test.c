/* SPDX-License-Identifier: Apache-2.0
 *
 * What the short path of a call must do as well as the whole one: memory, ids, events, cancel and deadline between
 * calls, policies, and tools that defer. On bare turns, mostly through tp_tools_run(). */
#include <limits.h>
#include <sched.h>

#include "tests/support/test.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, MANY = 64, CALLS_MAX = 300 };

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result).kind), tp_tool_result_name(want))

/* ---- an allocator that counts the requests of dispatches; other threads of the runtime start at any time ---- */

static _Thread_local bool counts;
static _Thread_local long asked;
static _Atomic long grants = LONG_MAX; /* how many are granted, to whatever thread, before all are refused */

static void *asked_alloc(void *ctx, size_t size) {
  (void)ctx;
  asked += counts;
  if (grants-- <= 0) return NULL;
  return malloc(size);
}

static void asked_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

/* ---- tools ---- */

static _Atomic uint32_t said_nothing, runs;
static tp_turn *turn_to_cancel;
static tp_token last_token, open_token;
static tp_status completed;

static tp_answer say_nothing(void *ctx, tp_tool_run *run) {
  (void)ctx;
  said_nothing++;
  return tp_tool_ok(run, (tp_text){NULL, 0});
}

static tp_answer say_id(void *ctx, tp_tool_run *run) {
  (void)ctx;
  runs++;
  return tp_tool_ok(run, tp_tool_run_call_id(run));
}

static tp_answer omit_answer(void *ctx, tp_tool_run *run) {
  (void)ctx;
  (void)run;
  return TP_ANSWER_DONE;
}

static tp_answer be_unlucky(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_error(run, tp_text_of("no luck"));
}

/* The tool waits for an event that it causes itself, so that no other thread is needed. */
static tp_answer defer_and_complete(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_answer outcome = tp_tool_defer(run, NULL, &last_token);
  completed = tp_tool_complete(last_token, false, tp_text_of("later"), NULL);
  return outcome;
}

static tp_answer defer_and_answer(void *ctx, tp_tool_run *run) {
  (void)ctx;
  (void)tp_tool_defer(run, NULL, &last_token);
  return tp_tool_ok(run, tp_text_of("and at once"));
}

static tp_answer defer_twice(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_token again;
  tp_answer outcome = tp_tool_defer(run, NULL, &last_token);
  (void)tp_tool_defer(run, NULL, &again);
  completed = again.bits ? TP_OK : tp_tool_complete(last_token, false, tp_text_of("once"), NULL);
  return outcome;
}

static tp_answer pretend_to_defer(void *ctx, tp_tool_run *run) {
  (void)ctx;
  (void)run;
  return TP_ANSWER_DEFERRED;
}

static tp_answer open_one(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_defer(run, NULL, &open_token);
}

static tp_answer close_one(void *ctx, tp_tool_run *run) {
  (void)ctx;
  completed = tp_tool_complete(open_token, false, tp_text_of("closed"), NULL);
  return tp_tool_ok(run, (tp_text){NULL, 0});
}

static tp_answer mistake_it(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  completed = tp_model_fail(open_token, TP_ERR_HOOK, "not a model's", false, NULL);
  if (completed == TP_ERR_USAGE) completed = tp_token_complete(open_token, &done, NULL);
  if (tp_tool_complete(open_token, false, tp_text_of("closed"), NULL) != TP_OK) completed = TP_ERR_STALE;
  return tp_tool_ok(run, (tp_text){NULL, 0});
}

static tp_answer cancel_its_turn(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_turn_cancel(turn_to_cancel);
  return tp_tool_ok(run, tp_text_of("cancelled"));
}

static tp_answer use_up_the_time(void *ctx, tp_tool_run *run) {
  (void)ctx;
  while (tp_tool_run_time_left_ms(run) > 0) {}
  while (!tp_tool_run_cancelled(run)) {}
  return tp_tool_ok(run, tp_text_of("too late"));
}

#define INLINE_TOOL(tool_name, function)                                                                 \
  &(const tp_tool) {                                                                                     \
    .struct_size = sizeof(tp_tool), .name = tool_name, .run = function, .placement = TP_PLACEMENT_INLINE \
  }
#define APART(tool_name, function) \
  &(const tp_tool) { .struct_size = sizeof(tp_tool), .name = tool_name, .run = function }
static const tp_tool *const tools[] = {INLINE_TOOL("nothing", say_nothing),
                                       INLINE_TOOL("id", say_id),
                                       INLINE_TOOL("silent", omit_answer),
                                       INLINE_TOOL("fails", be_unlucky),
                                       INLINE_TOOL("later", defer_and_complete),
                                       INLINE_TOOL("both", defer_and_answer),
                                       INLINE_TOOL("twice", defer_twice),
                                       INLINE_TOOL("pretends", pretend_to_defer),
                                       INLINE_TOOL("cancels", cancel_its_turn),
                                       INLINE_TOOL("slow", use_up_the_time),
                                       INLINE_TOOL("open", open_one),
                                       INLINE_TOOL("close", close_one),
                                       INLINE_TOOL("mistake", mistake_it),
                                       APART("both_apart", defer_and_answer),
                                       APART("pretends_apart", pretend_to_defer)};
static const tp_contribution bundle = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                       .key = TEXT("b"),
                                       .tools = tools,
                                       .tool_count = COUNT(tools)};
static act contributes_tools = {.emits = &bundle, .emit_count = 1};

static tp_tool_call calls[CALLS_MAX];
static tp_tool_result results[CALLS_MAX];

static void call(size_t index, const char *id, const char *name) {
  calls[index] = (tp_tool_call){.id = tp_text_of(id), .name = tp_text_of(name), .arguments = no_arguments};
}

static void call_all(size_t count, const char *id, const char *name) {
  for (size_t i = 0; i < count; i++) call(i, id, name);
}

static tp_runtime *open_with_tools(const tp_runtime_options *options) {
  tp_runtime *runtime = open_runtime(options);
  add_hooks(runtime, &(hook){.id = "tools", .phase = TOOLS, .ctx = &contributes_tools}, 1);
  return runtime;
}

static tp_turn *begin_with_tools(tp_runtime *runtime, uint32_t limit_ms) {
  tp_turn *turn = begin_bare(runtime, limit_ms);
  tp_phase_result contributed = run_phase(turn, TOOLS, NULL);
  assert_int_equal(contributed.outcome, TP_OK);
  tp_phase_result_release(turn, &contributed);
  return turn;
}

static void run(tp_turn *turn, size_t count) {
  counts = true;
  tp_status status = tools_run(turn, calls, count, results, NULL);
  counts = false;
  assert_int_equal(status, TP_OK);
}

/* ---- memory ---- */

TEST(a_steady_dispatch_allocates_nothing) {
  static const char *const names[] = {"nothing", "id", "later", "fails", "nobody"};
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = {asked_alloc, asked_release, NULL}};
  tp_runtime *runtime = open_with_tools(&options);
  for (size_t i = 0; i < COUNT(names); i++) {
    call_all(MANY, i % 2 ? "an id" : NULL, names[i]);
    long before = 0;
    for (int round = 0; round < 20; round++) {
      if (round == 10) before = asked;
      tp_turn *turn = begin_with_tools(runtime, 0);
      run(turn, MANY);
      run(turn, MANY);
      tp_turn_end(turn);
    }
    if (asked != before) fail_msg("%ld allocations for calls of %s", asked - before, names[i]);
  }
  close_runtime(runtime);
}

/* Results live until the turn's end: only they make it grow, and in large pieces. */
TEST(a_turn_that_dispatches_for_long_grows_by_its_results_alone) {
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = {asked_alloc, asked_release, NULL}};
  tp_runtime *runtime = open_with_tools(&options);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call_all(MANY, NULL, "nothing");
  run(turn, MANY);
  long before = asked;
  for (int round = 0; round < 1000; round++) run(turn, MANY);
  assert_in_range(asked, before, before + 200);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(results_of_every_dispatch_stay_till_the_turn_ends) {
  enum { ROUNDS = 50 };
  static tp_tool_result kept[ROUNDS][4];
  tp_runtime *runtime = open_with_tools(NULL);
  tp_turn *turn = begin_with_tools(runtime, 0);
  for (int round = 0; round < ROUNDS; round++) {
    char ids[2][16], missing[] = "nobody";
    for (int i = 0; i < 2; i++) snprintf(ids[i], sizeof ids[i], "round-%d-%d", round, i);
    call(0, ids[0], "id");
    call(1, ids[1], "later");
    call(2, "x", missing);
    call(3, NULL, "id");
    assert_int_equal(tools_run(turn, calls, 4, kept[round], NULL), TP_OK);
    memset(ids, '#', sizeof ids); /* the library borrows the ids only until the call returned */
    memset(missing, '#', sizeof missing);
  }
  for (int round = 0; round < ROUNDS; round++) {
    char id[16];
    snprintf(id, sizeof id, "round-%d-0", round);
    assert_text(kept[round][0].call_id, id);
    assert_text(kept[round][0].text, id);
    assert_text(kept[round][0].name, "id");
    assert_text(kept[round][1].text, "later");
    assert_text(kept[round][2].name, "nobody");
    assert_text(kept[round][3].text, "call-3");
  }
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- names and order ---- */

TEST(calls_without_ids_are_numbered) {
  tp_runtime *runtime = open_with_tools(NULL);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call_all(CALLS_MAX, NULL, "id");
  call(150, "its own", "id");
  run(turn, CALLS_MAX);
  for (int i = 0; i < CALLS_MAX; i++) {
    char id[16];
    snprintf(id, sizeof id, "call-%d", i);
    assert_text(results[i].call_id, i == 150 ? "its own" : id);
    assert_text(results[i].text, i == 150 ? "its own" : id);
    assert_int_equal(results[i].completion_order, i);
    assert_true(results[i].started);
  }
  tp_turn_end(turn);
  close_runtime(runtime);
}

typedef struct submitted {
  _Atomic bool ended;
  const tp_tool_result *const *results;
} submitted;

static void submitted_ended(void *ctx, const tp_tool_result *const *all, size_t count) {
  submitted *s = ctx;
  assert_int_equal(count, CALLS_MAX);
  s->results = all;
  s->ended = true;
}

/* From the return of on_end on, the calls belong to the host, which changes them; the results have their own copies. */
TEST(borrowed_calls_are_read_until_their_end_and_not_after_it) {
  tp_runtime *runtime = open_with_tools(NULL);
  for (int round = 0; round < 50; round++) {
    tp_turn *turn = begin_with_tools(runtime, 0);
    submitted s = {.ended = false};
    const tp_tool_call *borrowed[CALLS_MAX];
    tp_tool_call *copies = malloc(CALLS_MAX * sizeof *copies);
    char(*ids)[16] = malloc(CALLS_MAX * sizeof *ids), *name = strdup("nothing");
    for (int i = 0; i < CALLS_MAX; i++) {
      snprintf(ids[i], sizeof ids[i], "borrowed-%d", i);
      copies[i] = (tp_tool_call){.struct_size = sizeof copies[i],
                                 .id = tp_text_of(ids[i]),
                                 .name = tp_text_of(name),
                                 .arguments = no_arguments};
      borrowed[i] = &copies[i];
    }
    assert_int_equal(tp_tools_submit_borrowed(turn, borrowed, CALLS_MAX, submitted_ended, &s, NULL), TP_OK);
    while (!s.ended) sched_yield();
    free(copies);
    free(ids);
    free(name);
    for (int i = 0; i < CALLS_MAX; i++) {
      char id[16];
      snprintf(id, sizeof id, "borrowed-%d", i);
      assert_text(s.results[i]->call_id, id);
      assert_text(s.results[i]->name, "nothing");
    }
    tp_turn_end(turn);
  }
  const tp_tool_call *none = NULL;
  tp_turn *turn = begin_with_tools(runtime, 0);
  assert_int_equal(tp_tools_submit_borrowed(turn, &none, 1, submitted_ended, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_tools_submit_borrowed(turn, NULL, 0, NULL, NULL, NULL), TP_ERR_USAGE);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* @return whether it was taken. */
static bool submit_with_grants(tp_turn *turn, long granted) {
  submitted s = {.ended = false};
  grants = granted;
  tp_status status = tools_submit(turn, calls, CALLS_MAX, submitted_ended, &s, NULL);
  while (status == TP_OK && !s.ended) sched_yield();
  grants = LONG_MAX;
  if (status != TP_OK) {
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    return false;
  }
  for (int i = 0; i < CALLS_MAX; i++) {
    char id[16];
    snprintf(id, sizeof id, "call-%d", i);
    assert_text(s.results[i]->call_id, id);
    assert_text(s.results[i]->name, "nothing");
    assert_int_equal(s.results[i]->completion_order, i);
  }
  return true;
}

TEST(dispatch_without_memory_for_its_ids_is_not_begun) {
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = {asked_alloc, asked_release, NULL}};
  call_all(CALLS_MAX, NULL, "nothing");
  bool taken = false;
  for (long granted = 0; !taken && granted < 20; granted++) {
    tp_runtime *runtime = open_with_tools(&options);
    tp_turn *turn = begin_with_tools(runtime, 0);
    taken = submit_with_grants(turn, granted);
    if (!taken) assert_true(submit_with_grants(turn, LONG_MAX)); /* the turn is as it was before */
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  assert_true(taken);
}

TEST(each_name_finds_its_tool) {
  enum { COUNT_OF_TOOLS = 200 };
  static char names[COUNT_OF_TOOLS][40];
  static tp_tool many[COUNT_OF_TOOLS];
  const tp_tool *list[COUNT_OF_TOOLS];
  for (int i = 0; i < COUNT_OF_TOOLS; i++) {
    snprintf(names[i], sizeof names[i], i % 3 ? "tool_%d" : "a_tool_with_a_much_longer_name_%d", i);
    list[i] = &many[i];
    many[i] =
        (tp_tool){.struct_size = sizeof(tp_tool), .name = names[i], .run = say_id, .placement = TP_PLACEMENT_INLINE};
  }
  tp_contribution all = {.struct_size = sizeof(tp_contribution),
                         .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                         .key = TEXT("all"),
                         .tools = list,
                         .tool_count = COUNT_OF_TOOLS};
  act contributes = {.emits = &all, .emit_count = 1};
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, &(hook){.id = "tools", .phase = TOOLS, .ctx = &contributes}, 1);
  tp_turn *turn = begin_with_tools(runtime, 0);
  for (int i = 0; i < COUNT_OF_TOOLS; i++) call((size_t)i, names[i], names[i]);
  call(COUNT_OF_TOOLS, "x", "tool_");
  call(COUNT_OF_TOOLS + 1, "x", "");
  run(turn, COUNT_OF_TOOLS + 2);
  for (int i = 0; i < COUNT_OF_TOOLS; i++) {
    assert_text(results[i].name, names[i]);
    assert_text(results[i].text, names[i]);
  }
  assert_kind(results[COUNT_OF_TOOLS], TP_TOOL_UNKNOWN_TOOL);
  assert_kind(results[COUNT_OF_TOOLS + 1], TP_TOOL_UNKNOWN_TOOL);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(what_one_call_says_is_not_said_by_the_next) {
  tp_runtime *runtime = open_with_tools(NULL);
  tp_turn *turn = begin_with_tools(runtime, 0);
  static const char *const names[] = {"id", "silent", "fails", "silent", "later", "silent", "both", "nothing"};
  for (size_t i = 0; i < COUNT(names); i++) call(i, NULL, names[i]);
  run(turn, COUNT(names));
  assert_text(results[0].text, "call-0");
  for (size_t i = 1; i < COUNT(names); i += 2) {
    assert_kind(results[i], TP_TOOL_OK);
    assert_int_equal(results[i].text.size, 0);
  }
  assert_kind(results[2], TP_TOOL_HANDLER_ERROR);
  assert_text(results[2].text, "no luck");
  assert_text(results[4].text, "later");
  assert_kind(results[6], TP_TOOL_HANDLER_ERROR);
  assert_int_equal(results[4].completion_order, COUNT(names) - 1); /* the others ended where they began */
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(answers_of_every_length_come_whole) {
  static char ids[40][48];
  tp_runtime *runtime = open_with_tools(NULL);
  tp_turn *turn = begin_with_tools(runtime, 0);
  for (int accent = 0; accent < 2; accent++) {
    for (int size = 1; size < 40; size++) { /* a tool that answers with its call's id */
      for (int i = 0; i < size; i++) ids[size][i] = (char)('a' + i % 26);
      ids[size][size] = '\0';
      if (accent && size > 1) memcpy(ids[size] + (size - 2) / 2, "\xc3\xa9", 2);
      call((size_t)size - 1, ids[size], "id");
    }
    run(turn, 39);
    for (int size = 1; size < 40; size++) {
      assert_kind(results[size - 1], TP_TOOL_OK);
      assert_text(results[size - 1].text, ids[size]);
      assert_int_equal(results[size - 1].text.data[results[size - 1].text.size], '\0');
      assert_ptr_not_equal(results[size - 1].text.data, ids[size]);
    }
  }
  tp_turn_end(turn);
  close_runtime(runtime);
}

static char statuses[64]; /* the statuses of the calls, as tool.post sees them */

static tp_answer note_status(void *ctx, tp_call *call_of) {
  (void)ctx;
  tp_text status = tp_call_text(call_of, TP_FIELD_STATUS);
  size_t used = strlen(statuses);
  snprintf(statuses + used, sizeof statuses - used, "%.*s ", (int)status.size, status.data);
  return TP_ANSWER_DONE;
}

TEST(answers_are_checked_and_cut_wherever_the_tool_runs) {
  static const tp_placement placements[] = {TP_PLACEMENT_INLINE, TP_PLACEMENT_THREAD};
  for (size_t i = 0; i < COUNT(placements); i++) {
    const tp_tool strict = {.struct_size = sizeof(tp_tool),
                            .name = "id",
                            .run = say_id,
                            .placement = placements[i],
                            .max_concurrent = 1,
                            .result_bytes_max = 5};
    const tp_tool *list[] = {&strict};
    tp_contribution one = {.struct_size = sizeof(tp_contribution),
                           .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                           .key = TEXT("b"),
                           .tools = list,
                           .tool_count = 1};
    act contributes = {.emits = &one, .emit_count = 1};
    tp_runtime *runtime = open_runtime(NULL);
    const hook hooks[] = {{.id = "tools", .phase = TOOLS, .ctx = &contributes},
                          {.id = "post", .phase = TP_PHASE_TOOL_POST, .run = note_status}};
    add_hooks(runtime, hooks, 2);
    tp_turn *turn = begin_with_tools(runtime, 0);
    statuses[0] = '\0';
    call(0, "exact", "id");
    call(1, "longer", "id");
    call(2, "a\xff\xff\xff\xff", "id");
    run(turn, 3);
    assert_kind(results[0], TP_TOOL_OK);
    assert_text(results[0].text, "exact");
    assert_kind(results[1], TP_TOOL_OK);
    assert_non_null(memmem(results[1].text.data, results[1].text.size, "left out", 8));
    assert_kind(results[2], TP_TOOL_OK);
    assert_true(tp_utf8_valid(results[2].text, NULL));
    assert_string_equal(statuses, "success partial partial ");
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- deferral ---- */

TEST(inline_tool_answers_through_its_token_alone) {
  tp_runtime *runtime = open_with_tools(NULL);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call(0, NULL, "both");
  call(1, NULL, "pretends");
  run(turn, 2);
  for (int i = 0; i < 2; i++) {
    assert_kind(results[i], TP_TOOL_HANDLER_ERROR);
    assert_text(results[i].text, "the tool deferred and answered at once");
  }
  assert_int_equal(tp_tool_complete(last_token, false, tp_text_of("late"), NULL), TP_ERR_STALE);
  call(0, NULL, "twice");
  run(turn, 1);
  assert_int_equal(completed, TP_OK);
  assert_kind(results[0], TP_TOOL_OK);
  assert_text(results[0].text, "once");
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(tool_on_a_thread_answers_through_its_token_alone) {
  tp_runtime *runtime = open_with_tools(NULL);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call(0, NULL, "both_apart");
  call(1, NULL, "pretends_apart");
  run(turn, 2);
  for (int i = 0; i < 2; i++) {
    assert_kind(results[i], TP_TOOL_HANDLER_ERROR);
    assert_text(results[i].text, "the tool deferred and answered at once");
  }
  assert_int_equal(tp_tool_complete(last_token, false, tp_text_of("late"), NULL), TP_ERR_STALE);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(token_that_is_taken_for_a_models_or_a_handlers_stays_open) {
  tp_runtime *runtime = open_with_tools(NULL);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call_all(3, NULL, "open");
  call(1, NULL, "mistake");
  call(2, NULL, "nothing");
  run(turn, 3);
  assert_int_equal(completed, TP_ERR_USAGE);
  assert_kind(results[0], TP_TOOL_OK);
  assert_text(results[0].text, "closed");
  assert_kind(results[1], TP_TOOL_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(call_beyond_the_open_tokens_fails_with_that_reason) {
  tp_runtime_options options = {.struct_size = sizeof options, .deferred_max = 1};
  tp_runtime *runtime = open_with_tools(&options);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call_all(3, NULL, "open");
  call(1, NULL, "later");
  call(2, NULL, "close");
  run(turn, 3);
  assert_text(results[0].text, "closed");
  assert_kind(results[1], TP_TOOL_HANDLER_ERROR);
  assert_text(results[1].text, "too many calls are waiting");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- cancel and deadline are looked at before each start ---- */

TEST(inline_calls_behind_a_cancel_never_run) {
  tp_runtime *runtime = open_with_tools(NULL);
  turn_to_cancel = begin_with_tools(runtime, 0);
  runs = 0;
  call_all(8, NULL, "id");
  call(3, NULL, "cancels");
  run(turn_to_cancel, 8);
  for (int i = 0; i < 8; i++) {
    assert_kind(results[i], i <= 3 ? TP_TOOL_OK : TP_TOOL_CANCELLED);
    assert_int_equal(results[i].started, i <= 3);
  }
  assert_int_equal(runs, 3);
  tp_turn_end(turn_to_cancel);
  close_runtime(runtime);
}

TEST(inline_calls_behind_the_turns_deadline_never_run) {
  for (int without = 0; without < 2; without++) {
    tp_runtime_options options = {.struct_size = sizeof options,
                                  .timestamps = without ? TP_TIMESTAMPS_COARSE : TP_TIMESTAMPS_FULL};
    tp_runtime *runtime = open_with_tools(&options);
    tp_turn *turn = begin_with_tools(runtime, 30);
    runs = 0;
    call_all(4, NULL, "id");
    call(0, NULL, "slow");
    run(turn, 4);
    assert_kind(results[0], TP_TOOL_TIMED_OUT);
    assert_true(results[0].started);
    for (int i = 1; i < 4; i++) {
      assert_kind(results[i], TP_TOOL_TIMED_OUT);
      assert_false(results[i].started);
    }
    assert_int_equal(runs, 0);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- policies ---- */

TEST(policy_that_comes_between_two_dispatches_counts) {
  tp_contribution policy = {.struct_size = sizeof(tp_contribution),
                            .kind = TP_CONTRIBUTION_POLICY,
                            .domain = TEXT("tool"),
                            .key = TEXT("id"),
                            .text = TEXT("deny")};
  act says = {.emits = &policy, .emit_count = 1};
  tp_runtime *runtime = open_with_tools(NULL);
  add_hooks(runtime, &(hook){.id = "policy", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &says}, 1);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call(0, NULL, "id");
  call(1, NULL, "nothing");
  run(turn, 2);
  assert_kind(results[0], TP_TOOL_OK);
  run_phase(turn, TP_PHASE_TURN_PRE_POLICY, NULL);
  run(turn, 2);
  assert_kind(results[0], TP_TOOL_DENIED);
  assert_kind(results[1], TP_TOOL_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- phases of tools ---- */

static tp_answer signal_for_the_first(void *ctx, tp_call *gate) {
  _Atomic uint32_t *calls_seen = ctx;
  if ((*calls_seen)++ == 0)
    (void)tp_call_emit_signal(gate, "ability_guard", "ALLOWED", TP_SEVERITY_WARNING, "only of the first", NULL);
  return tp_call_allow(gate);
}

TEST(signals_of_one_call_do_not_join_the_next) {
  _Atomic uint32_t seen = 0;
  tp_runtime *runtime = open_with_tools(NULL);
  add_hooks(runtime, &(hook){.id = "gate", .phase = TP_PHASE_TOOL_PRE, .run = signal_for_the_first, .ctx = &seen}, 1);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call_all(4, NULL, "id");
  call(2, NULL, "later");
  run(turn, 4);
  assert_int_equal(seen, 4);
  assert_non_null(memmem(results[0].text.data, results[0].text.size, "only of the first", 17));
  assert_text(results[1].text, "call-1");
  assert_text(results[2].text, "later");
  assert_text(results[3].text, "call-3");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- events ---- */

typedef struct log {
  struct {
    tp_event_kind kind;
    uint32_t index;
    tp_tool_result_kind result;
    uint64_t sequence;
    int64_t time_ns, started_ns, ended_ns;
    bool whole;
  } events[CALLS_MAX];
  size_t count;
  int64_t unix_ms;
} log;

static void note(void *ctx, const tp_event *event) {
  log *l = ctx;
  if (event->kind != TP_EVENT_TOOL_BEGIN && event->kind != TP_EVENT_TOOL_END) return;
  bool end = event->kind == TP_EVENT_TOOL_END;
  l->events[l->count].kind = event->kind;
  l->events[l->count].index = event->call_index;
  l->events[l->count].result = end ? event->tool_result->kind : TP_TOOL_OK;
  l->events[l->count].sequence = event->sequence;
  l->events[l->count].time_ns = event->time_ns;
  l->events[l->count].started_ns = event->started_ns;
  l->events[l->count].ended_ns = event->ended_ns;
  l->events[l->count++].whole =
      event->ids[TP_ID_SESSION].size > 0 && event->tool_call->name.data == calls[event->call_index].name.data &&
      end == (event->tool_result != NULL) && (end || (event->text.size == 0 && event->ended_ns == 0));
  l->unix_ms = event->unix_ms;
}

TEST(events_come_in_order_of_completion_with_times_that_never_go_back) {
  static log l;
  memset(&l, 0, sizeof l);
  tp_runtime *runtime = open_with_tools(NULL);
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .on_event = note, .event_ctx = &l};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn *turn;
  assert_int_equal(tp_turn_begin(session, NULL, &turn, NULL), TP_OK);
  run_phase(turn, TOOLS, NULL);
  static const char *const names[] = {"id", "later", "nobody", "fails", "id"};
  for (size_t i = 0; i < COUNT(names); i++) call(i, NULL, names[i]);
  int64_t before_ms = (int64_t)time(NULL) * 1000;
  for (int round = 0; round < 2; round++) run(turn, COUNT(names));
  tp_turn_end(turn);
  static const struct {
    tp_event_kind kind;
    uint32_t index;
    tp_tool_result_kind result;
  } wanted[] = {{TP_EVENT_TOOL_BEGIN, 0, TP_TOOL_OK}, {TP_EVENT_TOOL_END, 0, TP_TOOL_OK},
                {TP_EVENT_TOOL_BEGIN, 1, TP_TOOL_OK}, {TP_EVENT_TOOL_END, 2, TP_TOOL_UNKNOWN_TOOL},
                {TP_EVENT_TOOL_BEGIN, 3, TP_TOOL_OK}, {TP_EVENT_TOOL_END, 3, TP_TOOL_HANDLER_ERROR},
                {TP_EVENT_TOOL_BEGIN, 4, TP_TOOL_OK}, {TP_EVENT_TOOL_END, 4, TP_TOOL_OK},
                {TP_EVENT_TOOL_END, 1, TP_TOOL_OK}};
  assert_int_equal(l.count, 2 * COUNT(wanted));
  for (size_t i = 0; i < l.count; i++) {
    assert_int_equal(l.events[i].kind, wanted[i % COUNT(wanted)].kind);
    assert_int_equal(l.events[i].index, wanted[i % COUNT(wanted)].index);
    assert_int_equal(l.events[i].result, wanted[i % COUNT(wanted)].result);
    assert_true(l.events[i].whole);
    assert_true(l.events[i].started_ns <= l.events[i].ended_ns);
    if (i > 0) assert_int_equal(l.events[i].sequence, l.events[i - 1].sequence + 1);
    if (i > 0) assert_true(l.events[i].time_ns >= l.events[i - 1].time_ns);
  }
  assert_true(l.unix_ms >= before_ms);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(without_time_stamps_the_results_are_the_same) {
  tp_runtime_options options = {.struct_size = sizeof options, .timestamps = TP_TIMESTAMPS_OFF};
  tp_runtime *runtime = open_with_tools(&options);
  tp_turn *turn = begin_with_tools(runtime, 0);
  call_all(MANY, NULL, "id");
  run(turn, MANY);
  for (int i = 0; i < MANY; i++) {
    assert_kind(results[i], TP_TOOL_OK);
    assert_int_equal(results[i].completion_order, i);
    assert_int_equal(results[i].duration_ns, 0);
  }
  tp_turn_end(turn);
  close_runtime(runtime);
}
