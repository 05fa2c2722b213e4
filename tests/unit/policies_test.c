/* SPDX-License-Identifier: Apache-2.0
 *
 * Causes and failure policies, end to end: every cause that can be provoked here with every failure policy; the outcome
 * of the entry is the one of decide(). Then the detached executions. */
#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, BEFORE = TP_PHASE_SESSION_START };

static const tp_contribution instead = {.struct_size = sizeof(tp_contribution),
                                        .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                        .key = TEXT("k"),
                                        .text = TEXT("instead")};
static const tp_contribution own = {.struct_size = sizeof(tp_contribution),
                                    .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                    .key = TEXT("own"),
                                    .text = TEXT("own")};
static const tp_contribution foreign = {
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("not here")};

typedef enum cause_class { FAILURE, DUTY_LEFT, NO_DUTY } cause_class;

typedef struct world {
  tp_runtime *runtime;
  tp_runtime_options options;
  act it, hang_a, hang_b, other;
  hook hooks[4];
  size_t count;
  latch leave;
  uint32_t budget_ms;
  bool kill;
  int runs; /* of BEFORE and of GATHER before the one that is judged */
} world;

static int32_t matches_nothing(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_NO;
}

/* Two other handlers that hang for ever, in the phase before. */
static void hang_before(world *w, int how_many) {
  static const char *const ids[] = {"hang-a", "hang-b"};
  act *acts[] = {&w->hang_a, &w->hang_b};
  for (int i = 0; i < how_many; i++) {
    acts[i]->waits_for = &w->leave;
    hook *h = &w->hooks[w->count++];
    *h = (hook){.id = ids[i], .phase = BEFORE, .ctx = acts[i], .slow = true, .sub = {.limit_ms = 10}};
    if (i > 0) h->after = ids[i - 1];
  }
}

static void error(world *w) { w->it.kind = TP_ANSWER_FAILED; }
static void error_slow(world *w) {
  w->it.kind = TP_ANSWER_FAILED;
  w->hooks[0].slow = true;
}
static void timeout(world *w) {
  w->it.waits_for = &w->leave;
  w->hooks[0].slow = true;
  w->hooks[0].sub.limit_ms = 10;
}
static void timeout_deadline(world *w) {
  timeout(w);
  w->hooks[0].sub.execution = TP_EXECUTION_DEADLINE;
}
static void timeout_inline(world *w) {
  w->it.sleeps_ms = 10;
  w->hooks[0].sub.limit_ms = 2;
}
static void malformed(world *w) { w->it.kind = TP_ANSWER_DEFERRED; }
static void capability(world *w) {
  w->it.emits = &foreign;
  w->it.emit_count = 1;
}
static void capability_slow(world *w) {
  capability(w);
  w->hooks[0].slow = true;
}
static void no_permit(world *w) {
  timeout(w);
  w->hooks[0].sub.max_concurrent = 1;
  w->runs = 1;
}
/* One handler thread, and one more for an abandoned one: both are lost. */
static void no_worker(world *w) {
  w->options.handler_threads = 1;
  w->hooks[0].slow = true;
  hang_before(w, 2);
}
static void no_memory(world *w) {
  w->options.abandoned_bytes_max = 1;
  w->hooks[0].slow = true;
  hang_before(w, 1);
}
static void match(world *w) {
  static const tp_match never = {.struct_size = sizeof(tp_match), .matches = matches_nothing, .description = "nothing"};
  w->hooks[0].sub.match = &never;
}
static void dependency(world *w) {
  w->other.kind = TP_ANSWER_FAILED;
  w->hooks[w->count++] = (hook){.id = "other", .phase = GATHER, .ctx = &w->other};
  w->hooks[0].needs = "other";
}
static void no_slack(world *w) {
  w->other.sleeps_ms = 30;
  w->hooks[w->count++] = (hook){.id = "other", .phase = GATHER, .ctx = &w->other};
  w->hooks[0].after = "other";
  w->budget_ms = 10;
}
static void kill_switch(world *w) { w->kill = true; }

typedef struct row {
  const char *name;
  void (*provoke)(world *w);
  tp_state state;
  tp_reason reason;
  cause_class class;
} row;

static const row table[] = {
    {"error", error, TP_STATE_FAILED, TP_REASON_ERROR, FAILURE},
    {"error of a slow one", error_slow, TP_STATE_FAILED, TP_REASON_ERROR, FAILURE},
    {"timeout", timeout, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT, FAILURE},
    {"timeout of a deadline", timeout_deadline, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT, FAILURE},
    {"timeout of an inline one", timeout_inline, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT, FAILURE},
    {"malformed", malformed, TP_STATE_FAILED, TP_REASON_MALFORMED, FAILURE},
    {"capability", capability, TP_STATE_FAILED, TP_REASON_CAPABILITY, FAILURE},
    {"capability of a slow one", capability_slow, TP_STATE_FAILED, TP_REASON_CAPABILITY, FAILURE},
    {"no_permit", no_permit, TP_STATE_FAILED, TP_REASON_NO_PERMIT, FAILURE},
    {"no_worker", no_worker, TP_STATE_FAILED, TP_REASON_NO_WORKER, FAILURE},
    {"no_memory", no_memory, TP_STATE_FAILED, TP_REASON_NO_MEMORY, FAILURE},
    {"dependency", dependency, TP_STATE_SKIPPED, TP_REASON_DEPENDENCY, DUTY_LEFT},
    {"match", match, TP_STATE_SKIPPED, TP_REASON_MATCH, NO_DUTY},
    {"kill_switch", kill_switch, TP_STATE_SKIPPED, TP_REASON_KILL_SWITCH, NO_DUTY},
};

static void set_policy(world *w, tp_failure failure) {
  w->hooks[0].sub.failure = failure;
  if (failure != TP_FAILURE_FALLBACK) return;
  static const tp_contribution *const list[] = {&instead};
  w->hooks[0].sub.fallback = list;
  w->hooks[0].sub.fallback_count = 1;
}

static tp_phase_result run_it(world *w, tp_turn *turn) {
  tp_phase_result result = {.struct_size = sizeof result};
  tp_phase_input input = {.struct_size = sizeof input, .budget_ms = w->budget_ms ? w->budget_ms : 60000};
  assert_int_equal(tp_phase_run(turn, GATHER, &input, &result, NULL), TP_OK);
  return result;
}

static size_t diagnostics_of(const tp_phase_result *result, const char *subscription) {
  size_t count = 0;
  for (size_t i = 0; i < tp_merged_count(result->merged, TP_CONTRIBUTION_DIAGNOSTIC); i++)
    count += strcmp(tp_merged_get(result->merged, TP_CONTRIBUTION_DIAGNOSTIC, i)->subscription, subscription) == 0;
  return count;
}

static void judge(const row *r, tp_failure failure, const tp_phase_result *result) {
  bool fails = failure == TP_FAILURE_REQUIRED && r->class != NO_DUTY;
  bool fallback = failure == TP_FAILURE_FALLBACK && r->class == FAILURE;
  bool diagnosed = failure != TP_FAILURE_REQUIRED && r->class == FAILURE;
  tp_run_record run = run_of(result, "it");
  if (run.state != r->state || run.reason != r->reason || result->outcome != (fails ? TP_ERR_HOOK : TP_OK))
    fail_msg("%s under policy %d: %s(%s), outcome %s", r->name, failure, tp_state_name(run.state),
             tp_reason_name(run.reason), tp_status_name(result->outcome));
  assert_int_equal(run.fallback_used, fallback);
  assert_int_equal(run.failure, failure);
  assert_int_equal(tp_merged_count(result->merged, TP_CONTRIBUTION_PROMPT_CONTEXT), fallback ? 1 : 0);
  assert_int_equal(diagnostics_of(result, "it"), diagnosed ? 1 : 0);
  if (fails) {
    assert_string_equal(result->subscription, "it");
    assert_true(result->reason.size > 0);
  } else {
    assert_null(result->subscription);
  }
}

static void run_row(const row *r, tp_failure failure) {
  world w = {.leave = LATCH, .count = 1, .options = {.struct_size = sizeof w.options}};
  w.hooks[0] = (hook){.id = "it", .phase = GATHER, .ctx = &w.it};
  set_policy(&w, failure);
  r->provoke(&w);
  w.runtime = open_runtime(&w.options);
  add_hooks(w.runtime, w.hooks, w.count);
  if (w.kill) assert_int_equal(tp_subscription_kill(w.runtime, "it", true, NULL), TP_OK);
  tp_turn *turn = begin_bare(w.runtime, 0);
  run_phase(turn, BEFORE, NULL);
  for (int i = 0; i < w.runs; i++) run_it(&w, turn);
  tp_phase_result result = run_it(&w, turn);
  judge(r, failure, &result);
  tp_turn_end(turn);
  latch_hit(&w.leave);
  close_runtime(w.runtime);
}

TEST(every_cause_meets_every_failure_policy) {
  static const tp_failure policies[] = {TP_FAILURE_BEST_EFFORT, TP_FAILURE_FALLBACK, TP_FAILURE_REQUIRED};
  for (size_t i = 0; i < COUNT(table); i++)
    for (size_t p = 0; p < COUNT(policies); p++) run_row(&table[i], policies[p]);
}

/* A required node has no slack to lose; without time it is timed out (deadline_test.c). */
TEST(without_slack_the_optional_is_skipped) {
  static const row late = {"no_slack", no_slack, TP_STATE_SKIPPED, TP_REASON_NO_SLACK, DUTY_LEFT};
  run_row(&late, TP_FAILURE_BEST_EFFORT);
  run_row(&late, TP_FAILURE_FALLBACK);
}

TEST(fallback_verdict_stands_in_a_chain) {
  static const tp_verdict verdicts[] = {TP_VERDICT_ALLOW, TP_VERDICT_ASK, TP_VERDICT_DENY};
  for (int i = 0; i < 3; i++) {
    tp_runtime *runtime = open_runtime(NULL);
    act fails = {.kind = TP_ANSWER_FAILED, .reason = "ill"}, next = {0};
    hook hooks[] = {{.id = "guard",
                     .phase = TP_PHASE_TOOL_PRE,
                     .ctx = &fails,
                     .sub = {.failure = TP_FAILURE_FALLBACK, .fallback_verdict = verdicts[i]}},
                    {.id = "next", .phase = TP_PHASE_TOOL_PRE, .ctx = &next}};
    add_hooks(runtime, hooks, 2);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_PRE, NULL);
    assert_int_equal(result.verdict, verdicts[i]);
    assert_int_equal(result.outcome, verdicts[i] == TP_VERDICT_DENY ? TP_ERR_DENIED : TP_OK);
    assert_run(&result, "guard", TP_STATE_FAILED, TP_REASON_ERROR);
    assert_true(run_of(&result, "guard").fallback_used);
    assert_int_equal(next.calls, verdicts[i] == TP_VERDICT_DENY ? 0 : 1);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(best_effort_failure_in_a_stop_chain_abstains) {
  tp_runtime *runtime = open_runtime(NULL);
  act fails = {.kind = TP_ANSWER_FAILED}, allows = {.kind = TP_ANSWER_ALLOW};
  hook hooks[] = {
      {.id = "fails", .phase = TP_PHASE_TOOL_PRE, .ctx = &fails, .sub = {.failure = TP_FAILURE_BEST_EFFORT}},
      {.id = "allows", .phase = TP_PHASE_TOOL_PRE, .ctx = &allows}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_PRE, NULL);
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(result.verdict, TP_VERDICT_ALLOW);
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC), 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- detached ---- */

typedef struct kept {
  char text[32];
  uint32_t phase;
  latch done;
} kept;

static latch *hold;

static tp_answer keep_text(void *ctx, tp_call *call) {
  kept *k = ctx;
  latch_wait(hold, 1);
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  snprintf(k->text, sizeof k->text, "%.*s", (int)text.size, text.size ? text.data : "");
  k->phase = tp_call_phase(call);
  latch_hit(&k->done);
  return TP_ANSWER_DONE;
}

TEST(fire_and_record_is_not_waited_for_and_has_its_own_copy) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  kept k = {.done = LATCH};
  hold = &leave;
  act inlined = {.emits = &own, .emit_count = 1};
  hook hooks[] = {{.id = "detached",
                   .phase = GATHER,
                   .run = keep_text,
                   .ctx = &k,
                   .slow = true,
                   .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD, .failure = TP_FAILURE_REQUIRED}},
                  {.id = "inline", .phase = GATHER, .ctx = &inlined}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  char *text = strdup("of the turn");
  tp_phase_result result = run_phase(turn, GATHER, text);
  memset(text, 'z', strlen(text));
  free(text);
  assert_int_equal(result.outcome, TP_OK);
  assert_run(&result, "detached", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  tp_turn_cancel(turn); /* not cancelled with the turn */
  tp_turn_end(turn);
  latch_hit(&leave);
  latch_wait(&k.done, 1);
  assert_string_equal(k.text, "of the turn");
  assert_int_equal(k.phase, GATHER);
  close_runtime(runtime);
}

typedef struct state_count {
  const char *subscription;
  int states[10];
  tp_reason reason;
} state_count;

static bool count_states(void *ctx, const tp_entry_record *record) {
  state_count *c = ctx;
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = record_row(record, i);
    if (strcmp(run.subscription, c->subscription) != 0) continue;
    c->states[run.state]++;
    if (run.state != TP_STATE_BACKGROUNDED) c->reason = run.reason;
  }
  return true;
}

static state_count states_of(tp_runtime *runtime, const char *subscription) {
  state_count c = {.subscription = subscription};
  assert_int_equal(read_records(runtime, 1000, count_states, &c), TP_OK);
  return c;
}

TEST(life_of_a_detached_run_is_recorded_and_drain_waits_for_it) {
  tp_runtime *runtime = open_runtime(NULL);
  act good = {.sleeps_ms = 20}, bad = {.kind = TP_ANSWER_FAILED, .sleeps_ms = 5}, late = {.sleeps_ms = 40},
      greedy = {.emits = &own, .emit_count = 1};
  hook hooks[] = {
      {.id = "good", .phase = GATHER, .ctx = &good},
      {.id = "bad", .phase = GATHER, .ctx = &bad},
      {.id = "late", .phase = GATHER, .ctx = &late, .slow = true, .sub = {.limit_ms = 5}},
      {.id = "greedy", .phase = GATHER, .ctx = &greedy, .capabilities = TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT}};
  for (int i = 0; i < 4; i++) hooks[i].sub.execution = TP_EXECUTION_FIRE_AND_RECORD;
  add_hooks(runtime, hooks, 4);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  for (int i = 0; i < 4; i++) assert_run(&result, hooks[i].id, TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  assert_int_equal(tp_merged_count(result.merged, 0), 0);
  tp_turn_end(turn);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 5000, &report, NULL), TP_OK);
  assert_int_equal(good.calls + bad.calls, 2);
  assert_int_equal(states_of(runtime, "good").states[TP_STATE_SUCCEEDED], 1);
  assert_int_equal(states_of(runtime, "bad").states[TP_STATE_FAILED], 1);
  assert_int_equal(states_of(runtime, "late").states[TP_STATE_TIMED_OUT], 1);
  assert_int_equal(states_of(runtime, "greedy").states[TP_STATE_FAILED], 1);
  assert_int_equal(states_of(runtime, "greedy").reason, TP_REASON_CAPABILITY);
  close_runtime(runtime);
}

TEST(detached_run_that_is_not_accepted_fails_as_its_policy_says) {
  for (int required = 0; required < 2; required++) {
    tp_runtime *runtime =
        open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .turns_max = 1});
    enum { OPEN_MAX = 1024 }; /* detached runs at once, where turns_max is small */
    latch go = LATCH;
    act d = {.waits_for = &go};
    hook h = {.id = "d", .phase = GATHER, .ctx = &d, .slow = true, .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}};
    h.sub.failure = required ? TP_FAILURE_REQUIRED : TP_FAILURE_BEST_EFFORT;
    add_hooks(runtime, &h, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = {.struct_size = sizeof result};
    for (int i = 0; i < OPEN_MAX; i++) {
      result = run_phase(turn, GATHER, NULL);
      assert_run(&result, "d", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
      tp_phase_result_release(turn, &result);
    }
    result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "d", TP_STATE_FAILED, TP_REASON_SHED);
    assert_int_equal(result.outcome, required ? TP_ERR_HOOK : TP_OK);
    latch_hit(&go);
    tp_turn_end(turn);
    assert_int_equal(tp_runtime_drain(runtime, 20000, NULL, NULL), TP_OK);
    assert_int_equal(d.calls, OPEN_MAX);
    close_runtime(runtime);
  }
}

TEST(drain_gives_up_detached_runs_behind_its_limit) {
  tp_runtime *runtime = open_runtime(NULL);
  latch entered = LATCH, leave = LATCH;
  act d = {.entered = &entered, .waits_for = &leave};
  add_hooks(
      runtime,
      &(hook){.id = "d", .phase = GATHER, .ctx = &d, .slow = true, .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}},
      1);
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, GATHER, NULL);
  tp_turn_end(turn);
  latch_wait(&entered, 1);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 20, &report, NULL), TP_OK);
  assert_int_equal(report.leaks, 1);
  assert_int_equal(states_of(runtime, "d").states[TP_STATE_CANCELLED], 1);
  latch_hit(&leave);
  close_runtime(runtime);
}

/* ---- background ---- */

static tp_status (*real_insert)(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault);
static _Atomic int inserts_refused;

static tp_status refuse_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  if (inserts_refused == 0) return real_insert(ctx, job, ret_id, ret_existed, fault);
  inserts_refused--;
  return TP_ERR_STORE_FULL;
}

TEST(job_that_the_store_does_not_take_fails_as_its_policy_says) {
  for (int required = 0; required < 2; required++) {
    tp_store *memory;
    assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
    tp_store store = *memory;
    real_insert = store.job_insert;
    store.job_insert = refuse_insert;
    tp_runtime_options options = {.struct_size = sizeof options, .store = &store};
    inserts_refused = 1;
    tp_runtime *runtime = open_runtime(&options);
    act job = {0};
    hook h = {.id = "job", .phase = GATHER, .ctx = &job, .sub = {.execution = TP_EXECUTION_BACKGROUND}};
    h.sub.failure = required ? TP_FAILURE_REQUIRED : TP_FAILURE_BEST_EFFORT;
    add_hooks(runtime, &h, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "job", TP_STATE_FAILED, TP_REASON_STORE);
    assert_int_equal(result.outcome, required ? TP_ERR_HOOK : TP_OK);
    /* Space has come back: the next one is taken, and run. */
    result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "job", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
    tp_turn_end(turn);
    assert_int_equal(tp_jobs_wait(runtime, "", 10000, NULL), TP_OK);
    assert_int_equal(job.calls, 1);
    close_runtime(runtime);
  }
}

static tp_status refuse_record(void *ctx, const tp_entry_record *record) {
  (void)ctx;
  (void)record;
  return TP_ERR_STORE;
}

static _Atomic int warnings;
static void count_warning(void *ctx, const tp_log_record *record) {
  (void)ctx;
  bool whole = record->struct_size == sizeof *record && record->unix_ms > 0 && record->status != TP_OK;
  if (record->level == TP_LOG_WARNING && record->message[0] && whole) warnings++;
}

TEST(record_that_the_store_does_not_keep_is_a_warning) {
  tp_store *memory;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
  tp_store store = *memory;
  store.record = refuse_record;
  tp_runtime_options options = {.struct_size = sizeof options, .log = count_warning, .store = &store};
  tp_runtime *runtime = open_runtime(&options);
  act a = {0};
  add_hooks(runtime, &(hook){.id = "a", .phase = GATHER, .ctx = &a}, 1);
  warnings = 0;
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(run_phase(turn, GATHER, NULL).outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(warnings, 1);
}
