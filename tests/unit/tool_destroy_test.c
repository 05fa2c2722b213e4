/* SPDX-License-Identifier: Apache-2.0
 *
 * tp_tool.destroy is called once for each time that a tool is taken, and not before the last run that could use it is
 * over. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION };

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result).kind), tp_tool_result_name(want))

static _Atomic int destroyed, runs;
static latch gone, entered, go_on;
static tp_token token;
static tp_status said;

static int begin_case(void **state) {
  (void)state;
  destroyed = runs = 0;
  gone = entered = go_on = (latch)LATCH;
  token.bits = 0;
  return 0;
}

FOR_EACH_TEST(begin_case, NULL);

static void destroy(void *ctx) {
  assert_string_equal(ctx, "closure");
  destroyed++;
  latch_hit(&gone);
}

static tp_answer run_it(void *ctx, tp_tool_run *run) {
  runs++;
  return tp_tool_ok(run, tp_text_of(ctx));
}

static tp_answer hang(void *ctx, tp_tool_run *run) {
  (void)ctx;
  latch_hit(&entered);
  latch_wait(&go_on, 1);
  return tp_tool_ok(run, tp_text_of("late"));
}

static tp_answer defer_it(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_answer deferred = tp_tool_defer(run, NULL, &token);
  latch_hit(&entered);
  return deferred;
}

/* ---- bundles ---- */

typedef struct bundle {
  tp_tool tools[2];
  const tp_tool *list[2];
  tp_contribution contribution;
  act contributes;
} bundle;

static void make(bundle *b, const char *key, tp_tool_fn run, tp_placement placement, uint32_t count) {
  static const char *const names[] = {"t", "u"};
  *b = (bundle){.contribution = {.struct_size = sizeof b->contribution,
                                 .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                 .key = tp_text_of(key),
                                 .tools = b->list,
                                 .tool_count = count}};
  for (uint32_t i = 0; i < count; i++) {
    b->tools[i] = (tp_tool){.struct_size = sizeof(tp_tool),
                            .name = names[i],
                            .run = run,
                            .ctx = (void *)(uintptr_t) "closure",
                            .placement = placement,
                            .limit_ms = LONG_MS,
                            .destroy = destroy};
    b->list[i] = &b->tools[i];
  }
  b->contributes = (act){.emits = &b->contribution, .emit_count = 1};
}

static tp_runtime *open_with(bundle *b) {
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, &(hook){.id = "tools", .phase = TOOLS, .ctx = &b->contributes}, 1);
  return runtime;
}

static tp_turn *begin_with(tp_runtime *runtime, tp_status outcome) {
  tp_turn *turn = begin_bare(runtime, LONG_MS);
  tp_phase_result contributed = run_phase(turn, TOOLS, NULL);
  assert_int_equal(contributed.outcome, outcome);
  tp_phase_result_release(turn, &contributed);
  return turn;
}

static void call_one(tp_turn *turn, tp_tool_result *result) {
  tp_tool_call call = {.name = TEXT("t"), .arguments = no_arguments};
  assert_int_equal(tools_run(turn, &call, 1, result, NULL), TP_OK);
}

/* ---- the usual life ---- */

TEST(tool_of_a_turn_is_destroyed_with_the_turn) {
  bundle b;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 2);
  tp_runtime *runtime = open_with(&b);
  for (int i = 0; i < 3; i++) { /* the second and third in memory of the first */
    tp_turn *turn = begin_with(runtime, TP_OK);
    tp_tool_result result;
    call_one(turn, &result);
    assert_text(result.text, "closure");
    assert_int_equal(destroyed, 2 * i);
    tp_turn_end(turn);
    assert_int_equal(destroyed, 2 * i + 2);
  }
  close_runtime(runtime);
  assert_int_equal(destroyed, 6);
}

TEST(result_of_the_phase_keeps_its_tools) {
  bundle b, other;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 1);
  make(&other, "b", run_it, TP_PLACEMENT_INLINE, 1);
  other.tools[0].destroy = NULL;
  tp_runtime *runtime = open_with(&b);
  tp_turn *turn = begin_bare(runtime, LONG_MS);
  tp_phase_result first = run_phase(turn, TOOLS, NULL);
  b.contributes.emits = &other.contribution;
  tp_phase_result second = run_phase(turn, TOOLS, NULL); /* from now on these are the turn's */
  assert_int_equal(destroyed, 0);
  const tp_merged_entry *entry = tp_merged_get(first.merged, TP_CONTRIBUTION_TOOL_BUNDLE, 0);
  assert_string_equal(entry->contribution->tools[0]->ctx, "closure");
  assert_null(entry->contribution->tools[0]->destroy); /* shown, and not to be taken once more */
  tp_phase_result_release(turn, &first);
  assert_int_equal(destroyed, 1);
  tp_phase_result_release(turn, &second);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(destroyed, 1);
}

TEST(tools_of_a_driven_turn_are_destroyed_once_when_it_has_ended) {
  bundle b;
  make(&b, "b", run_it, TP_PLACEMENT_THREAD, 2);
  tp_runtime *runtime = open_with(&b);
  const reply replies[] = {{.calls = {{.name = TEXT("t"), .arguments = no_arguments}}, .call_count = 1},
                           {.text = "done"}};
  recorder *r = recorder_new(replies, 2);
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(r, true)};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go")};
  const tp_turn_result *result;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    tp_turn_result_free(result);
    latch_wait(&gone, 2 * i + 2);
  }
  assert_int_equal(runs, 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  assert_int_equal(destroyed, 4);
  recorder_free(r);
}

/* ---- tools that no turn gets ---- */

TEST(tool_that_the_merge_leaves_out_is_destroyed_like_the_others) {
  bundle b, again;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 2);
  make(&again, "c", run_it, TP_PLACEMENT_INLINE, 1); /* the same owner's `t` once more */
  tp_contribution three[] = {b.contribution, b.contribution, again.contribution};
  b.contributes = (act){.emits = three, .emit_count = 3};
  tp_runtime *runtime = open_with(&b);
  tp_turn *turn = begin_with(runtime, TP_OK);
  tp_tool_result result;
  call_one(turn, &result);
  assert_kind(result, TP_TOOL_OK);
  tp_turn_end(turn);
  assert_int_equal(destroyed, 5);
  close_runtime(runtime);
  assert_int_equal(destroyed, 5);
}

TEST(tools_of_an_attempt_that_failed_behind_the_emit_are_destroyed) {
  for (int threaded = 0; threaded < 2; threaded++) {
    bundle b;
    (void)begin_case(NULL);
    make(&b, "b", run_it, TP_PLACEMENT_INLINE, 2);
    b.contributes.kind = TP_ANSWER_FAILED;
    b.contributes.retryable = true;
    tp_runtime *runtime = open_runtime(NULL);
    add_hooks(runtime,
              &(hook){.id = "tools",
                      .phase = TOOLS,
                      .ctx = &b.contributes,
                      .slow = threaded,
                      .idempotent = true,
                      .sub = {.attempts = 3, .failure = TP_FAILURE_BEST_EFFORT}},
              1);
    tp_turn_end(begin_with(runtime, TP_OK));
    close_runtime(runtime);
    assert_int_equal(destroyed, 6);
  }
}

TEST(refused_emit_takes_nothing) {
  bundle b;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 2);
  b.tools[1].name = "t"; /* twice in one bundle */
  tp_runtime *runtime = open_with(&b);
  tp_turn_end(begin_with(runtime, TP_ERR_HOOK));
  b.tools[1].name = "u u";
  tp_turn_end(begin_with(runtime, TP_ERR_HOOK));
  close_runtime(runtime);
  assert_int_equal(destroyed, 0);
}

static tp_answer emit_behind_the_deferral(void *ctx, tp_call *call) {
  tp_answer deferred = tp_call_defer(call, NULL, &token);
  said = tp_call_emit(call, ctx, NULL);
  latch_hit(&entered);
  return deferred;
}

TEST(emit_behind_a_deferral_takes_nothing) {
  bundle b;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 1);
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, &(hook){.id = "h", .phase = TOOLS, .run = emit_behind_the_deferral, .ctx = &b.contribution}, 1);
  tp_turn *turn = begin_bare(runtime, LONG_MS);
  ran r;
  submit(turn, TOOLS, NULL, &r);
  latch_wait(&entered, 1);
  assert_int_equal(said, TP_ERR_USAGE);
  assert_int_equal(
      tp_token_complete(token, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE}, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(destroyed, 0);
}

static tp_answer emit_late(void *ctx, tp_call *call) {
  latch_hit(&entered);
  latch_wait(&go_on, 1);
  said = tp_call_emit(call, ctx, NULL);
  return TP_ANSWER_DONE;
}

TEST(tool_of_an_attempt_that_was_given_up_is_destroyed_when_it_returns) {
  bundle b;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 1);
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime,
            &(hook){.id = "h",
                    .phase = TOOLS,
                    .run = emit_late,
                    .ctx = &b.contribution,
                    .slow = true,
                    .sub = {.limit_ms = 20, .failure = TP_FAILURE_BEST_EFFORT}},
            1);
  tp_turn_end(begin_with(runtime, TP_OK));
  latch_wait(&entered, 1);
  assert_int_equal(destroyed, 0);
  latch_hit(&go_on);
  latch_wait(&gone, 1);
  assert_int_equal(said, TP_OK); /* taken, though nothing of the attempt is used */
  close_runtime(runtime);
  assert_int_equal(destroyed, 1);
}

/* ---- what comes through a token ---- */

static tp_status complete_with(const tp_contribution *const *contributions, size_t count) {
  return tp_token_complete(token,
                           &(tp_outcome){.struct_size = sizeof(tp_outcome),
                                         .kind = TP_ANSWER_DONE,
                                         .contributions = contributions,
                                         .contribution_count = count},
                           NULL);
}

TEST(tools_that_a_token_contributes_are_taken_with_ok_be_the_answer_refused_or_not) {
  bundle b, bad;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 1);
  make(&bad, "c", run_it, TP_PLACEMENT_INLINE, 2);
  bad.tools[0].name = "a name with spaces";
  tp_runtime *runtime = open_runtime(NULL);
  act defers = {.defers = true, .deferred = &entered};
  add_hooks(runtime, &(hook){.id = "h", .phase = TOOLS, .ctx = &defers}, 1);
  for (int i = 0; i < 2; i++) {
    tp_turn *turn = begin_bare(runtime, LONG_MS);
    ran r;
    submit(turn, TOOLS, NULL, &r);
    latch_wait(&entered, i + 1);
    token = defers.token;
    const tp_contribution *const both[] = {&b.contribution, &bad.contribution, &b.contribution};
    assert_int_equal(complete_with(both, i == 0 ? 1 : 3), TP_OK);
    latch_wait(&r.ended, 1);
    assert_int_equal(complete_with(both, 3), TP_ERR_STALE); /* takes nothing */
    assert_run(&r.result, "h", i == 0 ? TP_STATE_SUCCEEDED : TP_STATE_FAILED,
               i == 0 ? TP_REASON_NONE : TP_REASON_MALFORMED);
    assert_int_equal(destroyed, i == 0 ? 0 : 1 + 3);
    tp_turn_end(turn);
    latch_wait(&gone, i == 0 ? 1 : 1 + 4); /* a worker may be leaving the turn still */
  }
  close_runtime(runtime);
  assert_int_equal(destroyed, 5);
}

/* ---- fallbacks ---- */

static tp_status add_with_fallback(tp_runtime *runtime, const bundle *b, const tp_contribution *second, act *fails,
                                   bool commit) {
  const tp_contribution *const fallback[] = {&b->contribution, second};
  tp_edit *edit;
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  tp_status status = hook_add(
      edit, &(hook){.id = "f",
                    .phase = TOOLS,
                    .ctx = fails,
                    .sub = {.failure = TP_FAILURE_FALLBACK, .fallback = fallback, .fallback_count = second ? 2 : 1}});
  if (status == TP_OK && commit) assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  else tp_edit_discard(edit);
  return status;
}

TEST(tool_among_the_fallbacks_lives_as_long_as_its_subscription) {
  bundle b;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 1);
  tp_contribution bad = {.struct_size = sizeof bad, .kind = TP_CONTRIBUTION_TOOL_BUNDLE}; /* it has no key */
  act fails = {.kind = TP_ANSWER_FAILED};
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(add_with_fallback(runtime, &b, &bad, &fails, false), TP_ERR_MALFORMED);
  assert_int_equal(destroyed, 0);
  assert_int_equal(add_with_fallback(runtime, &b, NULL, &fails, false), TP_OK);
  assert_int_equal(destroyed, 1); /* discarded */
  assert_int_equal(add_with_fallback(runtime, &b, NULL, &fails, true), TP_OK);
  tp_turn *turn = begin_with(runtime, TP_OK);
  tp_edit *edit;
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "f", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_handler(edit, "f", NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  tp_tool_result result;
  call_one(turn, &result);
  assert_text(result.text, "closure");
  assert_int_equal(destroyed, 1);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(destroyed, 2);
}

/* ---- runs that outlive their turn ---- */

static void submit_one(tp_turn *turn, tp_tools_end_fn on_end, void *ctx) {
  tp_tool_call call = {.name = TEXT("t"), .arguments = no_arguments};
  assert_int_equal(tools_submit(turn, &call, 1, on_end, ctx, NULL), TP_OK);
}

static void hit(void *ctx, const tp_tool_result *const *results, size_t count) {
  (void)results;
  (void)count;
  latch_hit(ctx);
}

TEST(function_that_has_not_returned_keeps_its_tool) {
  bundle b;
  make(&b, "b", hang, TP_PLACEMENT_THREAD, 1);
  tp_runtime *runtime = open_with(&b);
  tp_turn *turn = begin_with(runtime, TP_OK);
  latch ended = LATCH;
  submit_one(turn, hit, &ended);
  latch_wait(&entered, 1);
  tp_turn_cancel(turn);
  latch_wait(&ended, 1);
  tp_turn_end(turn);
  assert_int_equal(destroyed, 0);
  latch_hit(&go_on);
  latch_wait(&gone, 1);
  close_runtime(runtime);
  assert_int_equal(destroyed, 1);
}

TEST(token_that_is_open_keeps_its_tool) {
  for (int apart = 0; apart < 2; apart++) {
    bundle b;
    (void)begin_case(NULL);
    make(&b, "b", defer_it, apart ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE, 1);
    tp_runtime *runtime = open_with(&b);
    tp_turn *turn = begin_with(runtime, TP_OK);
    latch ended = LATCH;
    submit_one(turn, hit, &ended);
    latch_wait(&entered, 1);
    tp_turn_cancel(turn);
    latch_wait(&ended, 1);
    tp_turn_end(turn);
    assert_int_equal(destroyed, 0);
    assert_int_equal(tp_tool_complete(token, false, tp_text_of("late"), NULL), TP_ERR_STALE);
    latch_wait(&gone, 1);
    tp_turn *next = begin_with(runtime, TP_OK); /* and one that is completed in time */
    submit_one(next, hit, &ended);
    latch_wait(&entered, 2);
    assert_int_equal(tp_tool_complete(token, false, tp_text_of("in time"), NULL), TP_OK);
    latch_wait(&ended, 2);
    assert_int_equal(destroyed, 1);
    tp_turn_end(next);
    latch_wait(&gone, 2);
    close_runtime(runtime);
    assert_int_equal(destroyed, 2);
  }
}

TEST(work_that_was_taken_keeps_its_tool) {
  bundle b;
  make(&b, "b", NULL, TP_PLACEMENT_THREAD, 1);
  tp_runtime *runtime = open_with(&b);
  tp_inbox *inbox = open_inbox(runtime, 0);
  b.tools[0].inbox = inbox;
  tp_turn *turn = begin_with(runtime, TP_OK);
  latch ended = LATCH;
  submit_one(turn, hit, &ended);
  const tp_work *work = take_next(inbox);
  tp_turn_cancel(turn);
  latch_wait(&ended, 1);
  tp_turn_end(turn);
  tp_inbox_free(inbox);
  assert_string_equal(work->ctx, "closure");
  assert_int_equal(destroyed, 0);
  assert_int_equal(tp_tool_complete(work->token, false, tp_text_of("late"), NULL), TP_ERR_STALE);
  latch_wait(&gone, 1); /* here, or where a worker leaves the turn */
  close_runtime(runtime);
  assert_int_equal(destroyed, 1);
}

TEST(end_of_the_runtime_destroys_the_tool_of_a_token_that_was_never_completed) {
  bundle b;
  make(&b, "b", defer_it, TP_PLACEMENT_INLINE, 1);
  tp_runtime *runtime = open_with(&b);
  tp_turn *turn = begin_with(runtime, TP_OK);
  latch ended = LATCH;
  submit_one(turn, hit, &ended);
  latch_wait(&entered, 1);
  tp_turn_cancel(turn);
  latch_wait(&ended, 1);
  tp_turn_end(turn);
  assert_int_equal(destroyed, 0);
  tp_runtime_free(runtime);
  assert_int_equal(destroyed, 1);
}

/* ---- memory ---- */

/* how many allocations are granted before all are refused; negative: all are granted */
static _Atomic long grants = -1;

static void *scarce_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (grants == 0) return NULL;
  if (grants > 0) grants--;
  return malloc(size);
}

static void scarce_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

static tp_answer emit_with_little(void *ctx, tp_call *call) {
  const bundle *b = ctx;
  grants = (long)b->contributes.kind;
  said = tp_call_emit(call, &b->contribution, NULL);
  grants = -1;
  return TP_ANSWER_DONE;
}

TEST(emit_without_memory_takes_nothing) {
  bundle b;
  make(&b, "b", run_it, TP_PLACEMENT_INLINE, 2);
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = {scarce_alloc, scarce_release, NULL}};
  tp_runtime *runtime = open_runtime(&options);
  add_hooks(runtime, &(hook){.id = "h", .phase = TOOLS, .run = emit_with_little, .ctx = &b}, 1);
  int taken = 0, refused = 0;
  for (b.contributes.kind = 0; b.contributes.kind < 20; b.contributes.kind++) {
    tp_turn *turn = begin_bare(runtime, LONG_MS);
    tp_phase_result result = run_phase(turn, TOOLS, NULL);
    tp_phase_result_release(turn, &result);
    tp_turn_end(turn);
    *(said == TP_OK ? &taken : &refused) += 1;
    assert_int_equal(destroyed, 2 * taken);
  }
  assert_in_range(refused, 1, 10);
  close_runtime(runtime);
}
