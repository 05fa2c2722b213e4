/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dependent does, for each way in which its dependency ends, along an `after` and along a `requires` edge, also
 * optional ones, with inline handlers and with handlers that leave the owner's thread. */
#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT };

typedef enum ending {
  SUCCEEDED,
  FALLBACK_USED,
  FAILED_ERROR,
  FAILED_MALFORMED,
  FAILED_CAPABILITY,
  TIMED_OUT,
  CANCELLED,
  SKIPPED_MATCH,
  SKIPPED_DEPENDENCY,
  SKIPPED_NO_SLACK,
  SKIPPED_KILL_SWITCH,
  OPTIONAL_MISSING,
  OPTIONAL_DISABLED
} ending;

enum { RUNS = 1, SKIPPED = 0 };

typedef struct row {
  ending ending;
  const char *name;
  int after, needs;
} row;

static const row table[] = {
    {SUCCEEDED, "succeeded", RUNS, RUNS},
    {FALLBACK_USED, "failed with fallback used", RUNS, RUNS},
    {FAILED_ERROR, "failed(error)", RUNS, SKIPPED},
    {FAILED_MALFORMED, "failed(malformed)", RUNS, SKIPPED},
    {FAILED_CAPABILITY, "failed(capability)", RUNS, SKIPPED},
    {TIMED_OUT, "timed_out", RUNS, SKIPPED},
    {SKIPPED_MATCH, "skipped(match)", RUNS, SKIPPED},
    {SKIPPED_DEPENDENCY, "skipped(dependency)", RUNS, SKIPPED},
    {SKIPPED_NO_SLACK, "skipped(no_slack)", RUNS, SKIPPED},
    {SKIPPED_KILL_SWITCH, "skipped(kill_switch)", RUNS, RUNS},
    {OPTIONAL_MISSING, "optional and missing", RUNS, RUNS},
    {OPTIONAL_DISABLED, "optional and disabled", RUNS, RUNS},
};

static int32_t matches_nothing(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_NO;
}

static const tp_contribution instead = {.struct_size = sizeof(tp_contribution),
                                        .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                        .key = TEXT("k"),
                                        .text = TEXT("instead")};
static const tp_contribution foreign = {
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("not here")};

typedef struct world {
  act dependency, before, dependent;
  hook hooks[3];
  size_t count;
} world;

static const tp_match never = {.struct_size = sizeof never, .matches = matches_nothing, .description = "nothing"};
static const tp_contribution *const instead_list[] = {&instead};

/* "dependency" ends as `how` says; "dependent" has the edge. */
static void make(world *w, ending how, bool needs, bool slow) {
  memset(w, 0, sizeof *w);
  hook *d = &w->hooks[0], *t = &w->hooks[1];
  *d = (hook){.id = "dependency", .phase = GATHER, .ctx = &w->dependency, .slow = slow};
  *t = (hook){.id = "dependent", .phase = GATHER, .ctx = &w->dependent, .slow = slow};
  bool optional = how == OPTIONAL_MISSING || how == OPTIONAL_DISABLED;
  const char **edge = optional ? (needs ? &t->optional_requires : &t->optional_after) : (needs ? &t->needs : &t->after);
  *edge = how == OPTIONAL_MISSING ? "nobody" : "dependency";
  w->count = 2;
  switch (how) {
    case FALLBACK_USED:
      w->dependency.kind = TP_ANSWER_FAILED;
      d->sub = (tp_subscription){.failure = TP_FAILURE_FALLBACK, .fallback = instead_list, .fallback_count = 1};
      break;
    case FAILED_ERROR:
      w->dependency.kind = TP_ANSWER_FAILED;
      break;
    case FAILED_MALFORMED:
      w->dependency.kind = TP_ANSWER_DEFERRED;
      break;
    case FAILED_CAPABILITY:
      w->dependency.emits = &foreign;
      w->dependency.emit_count = 1;
      break;
    case TIMED_OUT:
      w->dependency.sleeps_ms = 10;
      d->sub.limit_ms = 2;
      break;
    case SKIPPED_MATCH:
      d->sub.match = &never;
      break;
    case SKIPPED_DEPENDENCY: /* "before" fails, and the dependency requires it */
      w->before.kind = TP_ANSWER_FAILED;
      w->hooks[w->count++] = (hook){.id = "before", .phase = GATHER, .ctx = &w->before, .slow = slow};
      d->needs = "before";
      break;
    case OPTIONAL_DISABLED:
      d->sub.disabled = true;
      break;
    default:
      break;
  }
}

static void check_cell(const row *r, bool needs, bool slow) {
  int want = needs ? r->needs : r->after;
  world w;
  make(&w, r->ending, needs, slow);
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, w.hooks, w.count);
  if (r->ending == SKIPPED_KILL_SWITCH)
    assert_int_equal(tp_subscription_kill(runtime, "dependency", true, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(result.outcome, TP_OK);
  if ((int)w.dependent.calls != want)
    fail_msg("%s, %s, %s: the dependent ran %u times", r->name, needs ? "requires" : "after", slow ? "slow" : "inline",
             (unsigned)w.dependent.calls);
  if (want) assert_run(&result, "dependent", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  else assert_run(&result, "dependent", TP_STATE_SKIPPED, TP_REASON_DEPENDENCY);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(every_cell_of_the_table_holds) {
  for (size_t i = 0; i < COUNT(table); i++) {
    if (table[i].ending == SKIPPED_NO_SLACK) continue; /* below: the dependent must be required to have slack itself */
    for (int needs = 0; needs < 2; needs++) {
      for (int slow = 0; slow < 2; slow++) check_cell(&table[i], needs, slow);
    }
  }
}

/* The dependency's deadline has passed when it becomes ready: its own deadline is earlier than the entry's by the
 * required path after it. The dependent is required, so it may still run. */
TEST(no_slack_of_the_dependency) {
  for (int needs = 0; needs < 2; needs++) {
    tp_runtime *runtime = open_runtime(NULL);
    act slow = {.sleeps_ms = 60}, dependency = {0}, dependent = {0};
    hook hooks[] = {{.id = "slow", .phase = GATHER, .ctx = &slow, .slow = true},
                    {.id = "dependency", .phase = GATHER, .ctx = &dependency, .after = "slow"},
                    {.id = "dependent",
                     .phase = GATHER,
                     .ctx = &dependent,
                     .slow = true,
                     .sub = {.failure = TP_FAILURE_REQUIRED, .limit_ms = 960}}};
    if (needs) hooks[2].needs = "dependency";
    else hooks[2].after = "dependency";
    add_hooks(runtime, hooks, 3);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_input input = {.struct_size = sizeof input, .budget_ms = 1000};
    tp_phase_result result = {.struct_size = sizeof result};
    assert_int_equal(tp_phase_run(turn, GATHER, &input, &result, NULL), TP_OK);
    assert_run(&result, "dependency", TP_STATE_SKIPPED, TP_REASON_NO_SLACK);
    assert_int_equal(dependency.calls, 0);
    assert_int_equal(dependent.calls, needs ? 0 : 1);
    if (needs) {
      assert_run(&result, "dependent", TP_STATE_SKIPPED, TP_REASON_DEPENDENCY);
      assert_int_equal(result.outcome, TP_ERR_HOOK); /* a guard never vanishes silently */
    } else {
      assert_run(&result, "dependent", TP_STATE_SUCCEEDED, TP_REASON_NONE);
      assert_int_equal(result.outcome, TP_OK);
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(required_dependent_that_is_skipped_fails_the_entry) {
  static const ending endings[] = {FAILED_ERROR, FAILED_CAPABILITY, TIMED_OUT, SKIPPED_MATCH, SKIPPED_DEPENDENCY};
  for (size_t i = 0; i < COUNT(endings); i++) {
    world w;
    make(&w, endings[i], true, false);
    w.hooks[1].sub.failure = TP_FAILURE_REQUIRED;
    tp_runtime *runtime = open_runtime(NULL);
    add_hooks(runtime, w.hooks, w.count);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_int_equal(result.outcome, TP_ERR_HOOK);
    assert_string_equal(result.subscription, "dependent");
    assert_run(&result, "dependent", TP_STATE_SKIPPED, TP_REASON_DEPENDENCY);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(required_one_may_be_skipped_by_its_own_match_or_the_kill_switch) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {0}, b = {0};
  hook hooks[] = {{.id = "unmatched",
                   .phase = GATHER,
                   .ctx = &a,
                   .sub = {.failure = TP_FAILURE_REQUIRED,
                           .match = &(const tp_match){.struct_size = sizeof(tp_match),
                                                      .matches = matches_nothing,
                                                      .description = "nothing"}}},
                  {.id = "killed", .phase = GATHER, .ctx = &b, .sub = {.failure = TP_FAILURE_REQUIRED}}};
  add_hooks(runtime, hooks, 2);
  assert_int_equal(tp_subscription_kill(runtime, "killed", true, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(result.outcome, TP_OK);
  assert_run(&result, "unmatched", TP_STATE_SKIPPED, TP_REASON_MATCH);
  assert_run(&result, "killed", TP_STATE_SKIPPED, TP_REASON_KILL_SWITCH);
  assert_int_equal(a.calls + b.calls, 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- what a dependent sees ---- */

typedef struct sight {
  size_t count;
  tp_dependency seen[4];
  char names[4][32], texts[4][32];
} sight;

static tp_answer look(void *ctx, tp_call *call) {
  sight *s = ctx;
  s->count = tp_call_dependency_count(call);
  for (size_t i = 0; i < s->count && i < 4; i++) {
    s->seen[i].struct_size = sizeof s->seen[i];
    if (!tp_call_dependency(call, i, &s->seen[i])) s->count = 98;
    snprintf(s->names[i], sizeof s->names[i], "%s", s->seen[i].subscription);
    const tp_contribution *first = tp_call_dependency_contribution(call, i, 0);
    if (first) snprintf(s->texts[i], sizeof s->texts[i], "%.*s", (int)first->text.size, first->text.data);
    if (tp_call_dependency_contribution(call, i, s->seen[i].contribution_count)) s->count = 99;
  }
  return TP_ANSWER_DONE;
}

TEST(handler_sees_its_direct_dependencies_and_nothing_else) {
  static const tp_contribution mine = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                       .key = TEXT("m"),
                                       .text = TEXT("mine")};
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    act good = {.emits = &mine, .emit_count = 1}, bad = {.kind = TP_ANSWER_FAILED},
        far = {.emits = &mine, .emit_count = 1};
    sight s = {0};
    hook hooks[] = {{.id = "far", .phase = GATHER, .ctx = &far},
                    {.id = "good", .phase = GATHER, .ctx = &good, .after = "far", .slow = slow},
                    {.id = "bad",
                     .phase = GATHER,
                     .ctx = &bad,
                     .slow = slow,
                     .sub = {.failure = TP_FAILURE_FALLBACK, .fallback = instead_list, .fallback_count = 1}},
                    {.id = "looks",
                     .phase = GATHER,
                     .run = look,
                     .ctx = &s,
                     .after = "bad",
                     .needs = "good",
                     .optional_after = "nobody",
                     .slow = slow}};
    add_hooks(runtime, hooks, COUNT(hooks));
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "looks", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_int_equal(s.count, 2);
    for (size_t i = 0; i < 2; i++) {
      bool is_good = strcmp(s.names[i], "good") == 0;
      assert_true(is_good || strcmp(s.names[i], "bad") == 0);
      assert_int_equal(s.seen[i].succeeded, is_good);
      assert_int_equal(s.seen[i].fallback_used, !is_good);
      assert_int_equal(s.seen[i].contribution_count, 1);
      assert_string_equal(s.texts[i], is_good ? "mine" : "instead");
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(chain_runs_in_plan_order_and_reverse_phases_backwards) {
  static const uint32_t phases[] = {TP_PHASE_TURN_INTAKE, TP_PHASE_AGENT_UNREGISTER};
  for (int p = 0; p < 2; p++) {
    tp_runtime *runtime = open_runtime(NULL);
    _Atomic uint32_t clock = 0;
    act acts[3] = {{.clock = &clock}, {.clock = &clock}, {.clock = &clock}};
    hook hooks[] = {{.id = "z", .phase = phases[p], .ctx = &acts[0]},
                    {.id = "y", .phase = phases[p], .ctx = &acts[1], .slow = true},
                    {.id = "x", .phase = phases[p], .ctx = &acts[2]}};
    add_hooks(runtime, hooks, 3);
    tp_turn *turn = begin_bare(runtime, 0);
    assert_int_equal(run_phase(turn, phases[p], NULL).outcome, TP_OK);
    assert_int_equal(acts[0].order, p == 0 ? 1 : 3);
    assert_int_equal(acts[1].order, 2);
    assert_int_equal(acts[2].order, p == 0 ? 3 : 1);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}
