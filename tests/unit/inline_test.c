/* SPDX-License-Identifier: Apache-2.0
 *
 * A phase of inline handlers takes the fast path when its turn has no listener. The outcome must be the same as on the
 * general path. So most cases run on both, in turns with and without an event callback, and the outcomes are compared
 * line by line. */
#include "tests/support/test.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/share.h"
#include "tests/support/counting.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, CHAIN = TP_PHASE_TURN_INTAKE, NODES = 5, THIRD = 2 };

static const char *const node_ids[NODES] = {"n0", "n1", "n2", "n3", "n4"};

/* Without helpers: a slow machine would make the nodes expensive and share them, and nodes that run at once have no
 * order. */
static tp_runtime *open_alone(const tp_runtime_options *options) {
  tp_runtime *runtime = open_runtime(options);
  tp__runtime_helpers(runtime)->max = 0;
  return runtime;
}

/* ---- what the third node does in the armed run ---- */

typedef enum behavior {
  SUCCEEDS,
  EMITS,
  EMITS_WHAT_IT_MAY_NOT,
  FAILS,
  FAILS_REQUIRED,
  FAILS_TO_FALLBACK,
  FAILS_ONCE,
  DENIES,
  ALLOWS,
  REPLACES,
  TALKS_NONSENSE,
  DEFERS,
  DEFERS_AND_IS_ANSWERED_FIRST,
  DEFERS_FOR_EVER,
  OVERRUNS_ITS_LIMIT,
  OVERRUNS_THE_BUDGET,
  KILLS_THE_THIRD,
  CANCELS_THE_TURN,
  BEHAVIORS
} behavior;

static const char *const behavior_names[BEHAVIORS] = {"succeeds",
                                                      "emits",
                                                      "emits what it may not",
                                                      "fails",
                                                      "fails, required",
                                                      "fails, with a fallback",
                                                      "fails once",
                                                      "denies",
                                                      "allows",
                                                      "replaces",
                                                      "talks nonsense",
                                                      "defers",
                                                      "is answered before it returns",
                                                      "defers for ever",
                                                      "overruns its limit",
                                                      "overruns the budget",
                                                      "kills the third",
                                                      "cancels the turn"};

typedef struct scene {
  tp_runtime *runtime;
  tp_turn *turn;
  behavior behavior;
  bool armed;
  pthread_t completer;
  bool completer_runs;
  tp_token token;
  uint32_t calls[NODES];
  int64_t begun_ns; /* of the phase */
  bool disturbed;   /* the machine was so slow that a limit may have passed by accident */
} scene;

typedef struct part {
  scene *s;
  uint32_t node;
} part;

static const tp_contribution late_words = {.struct_size = sizeof(tp_contribution),
                                           .kind = TP_CONTRIBUTION_AUDIT,
                                           .key = TEXT("late"),
                                           .text = TEXT("from elsewhere")};

static void *complete(void *arg) {
  scene *s = arg;
  tp_outcome outcome = {.struct_size = sizeof(tp_outcome),
                        .kind = TP_ANSWER_DONE,
                        .contributions = (const tp_contribution *[]){&late_words},
                        .contribution_count = 1};
  (void)!tp_token_complete(s->token, &outcome, NULL);
  return NULL;
}

static void spin_ms(int64_t ms) {
  int64_t end_ns = now_ns() + ms * 1000000;
  while (now_ns() < end_ns) {}
}

static tp_answer defer(scene *s, tp_call *call) {
  tp_answer outcome = tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &s->token);
  if (s->behavior == DEFERS_FOR_EVER) return outcome;
  s->completer_runs = pthread_create(&s->completer, NULL, complete, s) == 0;
  if (s->behavior != DEFERS_AND_IS_ANSWERED_FIRST || !s->completer_runs) return outcome;
  pthread_join(s->completer, NULL);
  s->completer_runs = false;
  return outcome;
}

static void note_delay(scene *s) {
  if (now_ns() - s->begun_ns > 15 * 1000000) s->disturbed = true;
}

static tp_answer behave(scene *s, tp_call *call) {
  note_delay(s);
  switch (s->behavior) {
    case SUCCEEDS:
    case KILLS_THE_THIRD:
    case BEHAVIORS:
      break;
    case EMITS:
      (void)!tp_call_emit_audit(call, "a", "first", NULL);
      (void)!tp_call_emit_prompt_context(call, "c", "some words", 3, NULL);
      break;
    case EMITS_WHAT_IT_MAY_NOT:
      (void)!tp_call_emit_audit(call, "a", "first", NULL);
      (void)!tp_call_emit_policy(call, "d", "k", "v", 1, NULL);
      break;
    case FAILS:
    case FAILS_REQUIRED:
    case FAILS_TO_FALLBACK:
      (void)!tp_call_emit_audit(call, "a", "is discarded", NULL);
      return tp_call_fail(call, 77, "no luck");
    case FAILS_ONCE:
      return tp_call_attempt(call) == 1 ? tp_call_fail_retryable(call, 78, "once") : TP_ANSWER_DONE;
    case DENIES:
      return tp_call_deny(call, "not here");
    case ALLOWS:
      return tp_call_allow(call);
    case REPLACES:
      (void)!tp_call_replace_text(call, TP_FIELD_TEXT, "replaced", NULL);
      break;
    case TALKS_NONSENSE:
      return 99;
    case DEFERS:
    case DEFERS_AND_IS_ANSWERED_FIRST:
    case DEFERS_FOR_EVER:
      (void)!tp_call_emit_audit(call, "early", "before the deferral", NULL);
      return defer(s, call);
    case OVERRUNS_ITS_LIMIT:
    case OVERRUNS_THE_BUDGET:
      spin_ms(60);
      break;
    case CANCELS_THE_TURN:
      tp_turn_cancel(s->turn);
      break;
  }
  return TP_ANSWER_DONE;
}

static tp_answer run_part(void *ctx, tp_call *call) {
  part *p = ctx;
  scene *s = p->s;
  s->calls[p->node]++;
  if (s->armed && s->behavior == KILLS_THE_THIRD && p->node == 0)
    (void)!tp_subscription_kill(s->runtime, node_ids[THIRD], true, NULL);
  return s->armed && p->node == THIRD ? behave(s, call) : TP_ANSWER_DONE;
}

/* ---- what a phase came to, in words ---- */

typedef struct account {
  char text[8192];
  size_t size;
} account;

static void say(account *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(account *a, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(a->text + a->size, sizeof a->text - a->size, format, args);
  va_end(args);
  assert_true(size >= 0 && (size_t)size < sizeof a->text - a->size);
  a->size += (size_t)size;
}

static void say_run(account *a, const tp_run_record *run) {
  say(a,
      "  %s of %s by %s: %s %s, verdict %u, %u attempts, contributed %u, code %u, "
      "execution %u, failure %u%s",
      run->subscription, run->handler, run->owner, tp_state_name(run->state), tp_reason_name(run->reason), run->verdict,
      run->attempts, run->contribution_count, run->code, run->execution, run->failure,
      run->fallback_used ? ", fallback" : "");
  say(a, "%s%s%s%s\n", run->queued_ns ? ", queued" : "", run->started_ns ? ", started" : "",
      run->ended_ns ? ", ended" : "", run->late_ns ? ", late" : "");
}

static void say_contribution(account *a, const tp_merged_entry *entry) {
  const tp_contribution *c = entry->contribution;
  say(a, "  kind %u `%.*s` `%.*s` of %s by %s, attempt %u\n", c->kind, (int)c->key.size, c->key.size ? c->key.data : "",
      (int)c->text.size, c->text.size ? c->text.data : "", entry->subscription, entry->owner, entry->attempt);
}

static void say_result(account *a, const tp_phase_result *result) {
  say(a, "%s, verdict %d, by %s: %.*s\n", tp_status_name(result->outcome), result->verdict,
      result->subscription ? result->subscription : "none", (int)result->reason.size,
      result->reason.size ? result->reason.data : "");
  for (uint32_t i = 0; i < result->run_count; i++) {
    tp_run_record run = *tp_phase_result_run(result, i);
    say_run(a, &run);
  }
  size_t count = result->merged ? tp_merged_count(result->merged, 0) : 0;
  for (size_t i = 0; i < count; i++) {
    const tp_merged_entry *entry = tp_merged_get(result->merged, 0, i);
    say_contribution(a, entry);
  }
  if (!result->merged) return;
  tp_text text = tp_merged_text(result->merged, TP_FIELD_TEXT);
  say(a, "  text `%.*s`%s\n", (int)text.size, text.size ? text.data : "",
      tp_merged_replaced(result->merged, TP_FIELD_TEXT) ? ", replaced" : "");
}

/* The record of an entry must say what its result said. */
typedef struct record_search {
  tp_run_record rows[NODES];
  int64_t first_queued_ns;
  bool found, same;
} record_search;

static bool compare_record(void *ctx, const tp_entry_record *record) {
  record_search *search = ctx;
  if (record->run_count != NODES || record_row(record, 0).queued_ns != search->first_queued_ns) return true;
  search->found = search->same = true;
  for (uint32_t i = 0; i < NODES; i++) {
    tp_run_record run = record_row(record, i);
    const tp_run_record *want = &search->rows[i];
    search->same = search->same && run.subscription == want->subscription && run.state == want->state &&
                   run.reason == want->reason && run.attempts == want->attempts && run.queued_ns == want->queued_ns &&
                   run.started_ns == want->started_ns && run.ended_ns == want->ended_ns && run.code == want->code &&
                   run.contribution_count == want->contribution_count && run.verdict == want->verdict &&
                   run.late_ns == want->late_ns && run.fallback_used == want->fallback_used &&
                   run.execution == want->execution && run.failure == want->failure;
  }
  return false;
}

static record_search searched_for(const tp_phase_result *result) {
  record_search search = {.found = false};
  for (uint32_t i = 0; i < NODES; i++) search.rows[i] = *tp_phase_result_run(result, i);
  search.first_queued_ns = search.rows[0].queued_ns;
  return search;
}

static void assert_recorded(tp_runtime *runtime, record_search *search) {
  assert_int_equal(read_records(runtime, 100, compare_record, search), TP_OK);
  assert_true(search->found);
  assert_true(search->same);
}

/* ---- one scene ---- */

typedef enum shape { APART, IN_A_ROW, FANNED, SHAPES } shape;

typedef struct setting {
  behavior behavior;
  uint32_t phase;
  shape shape;
  tp_timestamps timestamps;
} setting;

static void set_policy(behavior third, hook *h) {
  static const tp_contribution fallback = {.struct_size = sizeof(tp_contribution),
                                           .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                           .key = TEXT("f"),
                                           .text = TEXT("instead")};
  static const tp_contribution *const list[] = {&fallback};
  if (third == FAILS_REQUIRED) h->sub.failure = TP_FAILURE_REQUIRED;
  if (third == FAILS_ONCE) h->sub.attempts = 2;
  h->idempotent = true;
  if (third == OVERRUNS_ITS_LIMIT || third == DEFERS_FOR_EVER) h->sub.limit_ms = 30;
  if (third != FAILS_TO_FALLBACK) return;
  h->sub.failure = TP_FAILURE_FALLBACK;
  h->sub.fallback = list;
  h->sub.fallback_count = 1;
}

static void register_nodes(const setting *set, tp_runtime *runtime, part *parts) {
  hook hooks[NODES] = {{.id = NULL}};
  for (uint32_t i = 0; i < NODES; i++) {
    hooks[i] = (hook){.id = node_ids[i], .phase = set->phase, .run = run_part, .ctx = &parts[i]};
    hooks[i].sub.limit_ms = 20000;
    if (i == THIRD) set_policy(set->behavior, &hooks[i]);
    if (set->shape == IN_A_ROW && i > 0) hooks[i].after = node_ids[i - 1];
    if (set->shape == FANNED && i > THIRD) hooks[i].needs = node_ids[THIRD];
    if (set->shape == FANNED && i == THIRD) hooks[i].after = node_ids[0];
  }
  add_hooks(runtime, hooks, NODES);
  if (set->behavior != OVERRUNS_THE_BUDGET) return;
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_set_budget(edit, set->phase, 50, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
}

static void ignore_event(void *ctx, const tp_event *event) {
  (void)event;
  ++*(_Atomic uint32_t *)ctx;
}

static tp_phase_result run_bare(tp_turn *turn, uint32_t phase) {
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault = {0};
  tp_status status = tp_phase_run(turn, phase, NULL, &result, &fault);
  if (status != TP_OK) fail_msg("not run: %s: %s", tp_status_name(status), fault.message);
  return result;
}

static void run_and_say(scene *s, uint32_t phase, account *a) {
  s->begun_ns = now_ns();
  tp_phase_result result = run_bare(s->turn, phase);
  note_delay(s);
  say_result(a, &result);
  tp_phase_result_release(s->turn, &result);
}

/* Runs the phase five times. In the third run the third node behaves as set, and its result is read at the end.
 * @return false: a slow machine disturbed it. */
static bool play_scene(const setting *set, bool has_listener, account *a) {
  static _Atomic uint32_t events;
  events = 0;
  a->size = 0;
  tp_runtime_options options = {
      .struct_size = sizeof options, .allocator = counting, .timestamps = set->timestamps, .engine_workers = 1};
  scene s = {.runtime = open_alone(&options), .behavior = set->behavior};
  part parts[NODES];
  for (uint32_t i = 0; i < NODES; i++) parts[i] = (part){&s, i};
  register_nodes(set, s.runtime, parts);
  tp_session_options session_options = {.struct_size = sizeof session_options, .id = "s", .event_ctx = &events};
  if (has_listener) session_options.on_event = ignore_event;
  tp_session *session;
  assert_int_equal(tp_session_open(s.runtime, &session_options, &session, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request};
  assert_int_equal(tp_turn_begin(session, &request, &s.turn, NULL), TP_OK);
  for (int i = 0; i < 2; i++) run_and_say(&s, set->phase, a);
  s.armed = true;
  s.begun_ns = now_ns();
  tp_phase_result armed_result = run_bare(s.turn, set->phase);
  s.armed = false;
  if (s.completer_runs) pthread_join(s.completer, NULL);
  for (int i = 0; i < 2; i++) run_and_say(&s, set->phase, a);
  if (set->behavior == KILLS_THE_THIRD)
    assert_int_equal(tp_subscription_kill(s.runtime, node_ids[THIRD], false, NULL), TP_OK);
  run_and_say(&s, set->phase, a);
  say_result(a, &armed_result);
  record_search search = searched_for(&armed_result);
  tp_phase_result_release(s.turn, &armed_result);
  tp_turn_end(s.turn);
  if (set->timestamps == TP_TIMESTAMPS_FULL) assert_recorded(s.runtime, &search);
  for (uint32_t i = 0; i < NODES; i++) say(a, "%u calls of %s\n", s.calls[i], node_ids[i]);
  tp_session_close(session, NULL, NULL);
  close_runtime(s.runtime);
  assert_int_equal(blocks_open, 0);
  assert_int_equal(events > 0, has_listener);
  return !s.disturbed;
}

static void compare(const setting *set) {
  static account with_listener, without_listener;
  while (!play_scene(set, true, &with_listener)) {}
  while (!play_scene(set, false, &without_listener)) {}
  if (strcmp(with_listener.text, without_listener.text) == 0) return;
  size_t at = 0;
  for (size_t i = 0; with_listener.text[i] && with_listener.text[i] == without_listener.text[i]; i++)
    if (with_listener.text[i] == '\n') at = i + 1;
  print_message("with a listener: %.200s\nwithout: %.200s\n", with_listener.text + at, without_listener.text + at);
  fail_msg("the third node %s: phase %u, shape %d, time-stamps %d", behavior_names[set->behavior], set->phase,
           set->shape, set->timestamps);
}

/* Without a listener there is one time-stamp for all nodes, so it is not visible which of them ran long (runtime.h). */
static bool is_comparable(behavior third, tp_timestamps timestamps) {
  return timestamps != TP_TIMESTAMPS_COARSE || (third != OVERRUNS_ITS_LIMIT && third != OVERRUNS_THE_BUDGET);
}

static void compare_all(const behavior *behaviors, size_t count) {
  static const uint32_t phases[] = {GATHER, CHAIN};
  for (size_t i = 0; i < count; i++)
    for (size_t phase = 0; phase < COUNT(phases); phase++)
      for (shape s = APART; s < SHAPES; s++)
        for (tp_timestamps t = TP_TIMESTAMPS_FULL; t <= TP_TIMESTAMPS_OFF; t++)
          if (is_comparable(behaviors[i], t))
            compare(&(setting){.behavior = behaviors[i], .phase = phases[phase], .shape = s, .timestamps = t});
}

#define COMPARE(...)                                    \
  do {                                                  \
    static const behavior behaviors_[] = {__VA_ARGS__}; \
    compare_all(behaviors_, COUNT(behaviors_));         \
  } while (0)

TEST(phase_in_which_nothing_happens_ends_as_with_a_listener) { COMPARE(SUCCEEDS); }
TEST(phase_whose_third_node_contributes_ends_as_with_a_listener) { COMPARE(EMITS, EMITS_WHAT_IT_MAY_NOT, REPLACES); }
TEST(phase_whose_third_node_fails_ends_as_with_a_listener) {
  COMPARE(FAILS, FAILS_REQUIRED, FAILS_TO_FALLBACK, FAILS_ONCE, TALKS_NONSENSE);
}
TEST(phase_whose_third_node_decides_ends_as_with_a_listener) { COMPARE(DENIES, ALLOWS); }
TEST(phase_whose_third_node_defers_ends_as_with_a_listener) {
  COMPARE(DEFERS, DEFERS_AND_IS_ANSWERED_FIRST, DEFERS_FOR_EVER);
}
TEST(phase_whose_third_node_takes_too_long_ends_as_with_a_listener) {
  COMPARE(OVERRUNS_ITS_LIMIT, OVERRUNS_THE_BUDGET);
}
TEST(phase_whose_third_node_is_switched_off_meanwhile_ends_as_with_a_listener) { COMPARE(KILLS_THE_THIRD); }
TEST(phase_that_cancels_its_own_turn_ends_as_with_a_listener) { COMPARE(CANCELS_THE_TURN); }

/* ---- what the comparison rests on: some of it, said outright ---- */

static void open_scene(scene *s, behavior third, uint32_t phase, shape how, part *parts) {
  *s = (scene){.runtime = open_alone(NULL), .behavior = third};
  for (uint32_t i = 0; i < NODES; i++) parts[i] = (part){s, i};
  register_nodes(&(setting){.behavior = third, .phase = phase, .shape = how}, s->runtime, parts);
  s->turn = begin_bare(s->runtime, 0);
}

static void close_scene(scene *s) {
  tp_turn_end(s->turn);
  close_runtime(s->runtime);
}

TEST(denial_of_the_third_in_a_chain_skips_the_rest_and_the_next_phase_is_whole) {
  scene s;
  part parts[NODES];
  open_scene(&s, DENIES, CHAIN, APART, parts);
  tp_phase_result fast = run_bare(s.turn, CHAIN);
  tp_phase_result_release(s.turn, &fast);
  s.armed = true;
  tp_phase_result armed_result = run_bare(s.turn, CHAIN);
  assert_int_equal(armed_result.outcome, TP_ERR_DENIED);
  assert_string_equal(armed_result.subscription, "n2");
  assert_text(armed_result.reason, "not here");
  assert_run(&armed_result, "n0", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_run(&armed_result, "n2", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_run(&armed_result, "n3", TP_STATE_SKIPPED, TP_REASON_PHASE_FAILED);
  assert_run(&armed_result, "n4", TP_STATE_SKIPPED, TP_REASON_PHASE_FAILED);
  s.armed = false;
  fast = run_bare(s.turn, CHAIN);
  assert_int_equal(fast.outcome, TP_OK);
  for (uint32_t i = 0; i < NODES; i++) assert_run(&fast, node_ids[i], TP_STATE_SUCCEEDED, TP_REASON_NONE);
  close_scene(&s);
}

TEST(turn_that_was_cancelled_calls_nothing_more) {
  scene s;
  part parts[NODES];
  open_scene(&s, SUCCEEDS, GATHER, APART, parts);
  for (int i = 0; i < 3; i++) {
    tp_phase_result fast = run_bare(s.turn, GATHER);
    tp_phase_result_release(s.turn, &fast);
  }
  tp_turn_cancel(s.turn);
  for (int i = 0; i < 3; i++) {
    tp_phase_result result = run_bare(s.turn, GATHER);
    assert_int_equal(result.outcome, TP_ERR_CANCELLED);
    for (uint32_t n = 0; n < NODES; n++) assert_int_equal(run_of(&result, node_ids[n]).state, TP_STATE_SKIPPED);
    if (i % 2) tp_phase_result_release(s.turn, &result);
  }
  for (uint32_t n = 0; n < NODES; n++) assert_int_equal(s.calls[n], 3);
  close_scene(&s);
}

TEST(killed_subscription_is_skipped_from_the_next_phase_on_and_runs_again_when_restored) {
  scene s;
  part parts[NODES];
  open_scene(&s, SUCCEEDS, GATHER, FANNED, parts);
  for (int round = 0; round < 6; round++) {
    bool killed = round % 2;
    assert_int_equal(tp_subscription_kill(s.runtime, "n2", killed, NULL), TP_OK);
    for (int i = 0; i < 3; i++) {
      tp_phase_result result = run_bare(s.turn, GATHER);
      assert_int_equal(run_of(&result, "n2").state, killed ? TP_STATE_SKIPPED : TP_STATE_SUCCEEDED);
      assert_run(&result, "n3", TP_STATE_SUCCEEDED, TP_REASON_NONE); /* killed is no failure */
      tp_phase_result_release(s.turn, &result);
    }
  }
  assert_int_equal(s.calls[THIRD], 9);
  close_scene(&s);
}

/* ---- results that are kept ---- */

TEST(result_stays_readable_while_the_next_phases_run) {
  enum { KEPT = 12 };
  scene s;
  part parts[NODES];
  open_scene(&s, EMITS, GATHER, IN_A_ROW, parts);
  hook other = {.id = "other", .phase = TP_PHASE_TURN_PRE_POLICY, .run = run_part, .ctx = &parts[0]};
  tp_turn_end(s.turn);
  add_hooks(s.runtime, &other, 1); /* a smaller plan takes over the blocks of a larger one */
  s.turn = begin_bare(s.runtime, 0);
  tp_phase_result kept[KEPT];
  static account before[KEPT], after;
  tp_run_record rows[KEPT][NODES];
  for (int i = 0; i < KEPT; i++) {
    s.armed = i % 4 == 3;
    uint32_t phase = i % 3 == 1 ? (uint32_t)TP_PHASE_TURN_PRE_POLICY : (uint32_t)GATHER;
    kept[i] = run_bare(s.turn, phase);
    before[i].size = 0;
    say_result(&before[i], &kept[i]);
    for (uint32_t n = 0; n < kept[i].run_count; n++) rows[i][n] = *tp_phase_result_run(&kept[i], n);
    tp_phase_result passing = run_bare(s.turn, phase);
    tp_phase_result_release(s.turn, &passing);
    if (i % 5 == 4) tp_phase_result_release(s.turn, &kept[i - 1]);
  }
  for (int i = KEPT; i-- > 0;) {
    if (!kept[i].entry) continue;
    after.size = 0;
    say_result(&after, &kept[i]);
    assert_string_equal(after.text, before[i].text);
    for (uint32_t n = 0; n < kept[i].run_count; n++) {
      tp_run_record run = *tp_phase_result_run(&kept[i], n);
      assert_int_equal(run.started_ns, rows[i][n].started_ns);
      assert_int_equal(run.ended_ns, rows[i][n].ended_ns);
    }
    if (i % 2) tp_phase_result_release(s.turn, &kept[i]);
  }
  close_scene(&s);
}

/* During a release on the host's thread, the answer of the turn's next phase comes. That phase ends there, and its
 * callback releases its result, too. */
typedef struct meanwhile {
  tp_turn *turn;
  tp_token token;
  latch deferred, first, second;
  tp_phase_result kept;
  bool defers;
  tp_status nested; /* of a phase that the callback tried to run */
} meanwhile;
static meanwhile m;
static _Thread_local bool completes; /* with the next memory that this thread frees */

static void release_and_complete(void *ctx, void *memory, size_t size) {
  static const tp_outcome done = {.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE};
  (void)ctx;
  (void)size;
  free(memory);
  if (!completes) return;
  completes = false;
  assert_int_equal(tp_token_complete(m.token, &done, NULL), TP_OK);
}

static void *forward_alloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}

static tp_answer say_or_defer(void *ctx, tp_call *call) {
  static const tp_contribution said = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                       .domain = TEXT("d"),
                                       .key = TEXT("k"),
                                       .text = TEXT("so that the result shows the payload")};
  (void)ctx;
  if (!m.defers) {
    assert_int_equal(tp_call_emit(call, &said, NULL), TP_OK);
    return TP_ANSWER_DONE;
  }
  tp_answer outcome = tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &m.token);
  latch_hit(&m.deferred);
  return outcome;
}

static void keep_result(void *ctx, const tp_phase_result *result) {
  (void)ctx;
  m.kept = *result;
  latch_hit(&m.first);
}

static void release_result(void *ctx, const tp_phase_result *result) {
  (void)ctx;
  tp_phase_result mine = *result, other = {.struct_size = sizeof other};
  m.nested = tp_phase_run(m.turn, GATHER, NULL, &other, NULL);
  tp_phase_result_release(m.turn, &mine);
  latch_hit(&m.second);
}

TEST(release_in_which_the_next_phase_ends_does_not_wait_for_itself) {
  static const tp_allocator completing = {forward_alloc, release_and_complete, NULL};
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = completing};
  tp_runtime *runtime = open_runtime(&options);
  m = (meanwhile){.deferred = LATCH, .first = LATCH, .second = LATCH};
  add_hooks(runtime, &(hook){.id = "n", .phase = GATHER, .run = say_or_defer, .sub = {.limit_ms = 60000}}, 1);
  m.turn = begin_bare(runtime, 0);
  static char much[2 << 20]; /* too large for the cache: the release frees it to the host */
  memset(much, 'a', sizeof much);
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = {much, sizeof much}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  assert_int_equal(tp_phase_submit(m.turn, GATHER, &input, keep_result, NULL, NULL), TP_OK);
  latch_wait(&m.first, 1);
  m.defers = true;
  tp_status status;
  while ((status = tp_phase_submit(m.turn, GATHER, NULL, release_result, NULL, NULL)) == TP_ERR_BUSY) sched_yield();
  assert_int_equal(status, TP_OK);
  latch_wait(&m.deferred, 1);
  completes = true;
  tp_phase_result_release(m.turn, &m.kept);
  assert_false(completes);
  latch_wait(&m.second, 1);
  assert_int_equal(m.nested, TP_ERR_USAGE);
  tp_turn_end(m.turn);
  close_runtime(runtime);
}

TEST(row_behind_the_last_and_rows_of_a_released_result_are_empty) {
  scene s;
  part parts[NODES];
  open_scene(&s, SUCCEEDS, GATHER, APART, parts);
  tp_phase_result result = run_bare(s.turn, GATHER);
  assert_null(tp_phase_result_run(&result, NODES));
  assert_null(tp_phase_result_run(&result, UINT32_MAX));
  tp_phase_result_release(s.turn, &result);
  assert_null(result.entry);
  assert_null(tp_phase_result_run(&result, 0));
  tp_phase_result_release(s.turn, &result);
  close_scene(&s);
}

/* ---- times ---- */

typedef struct span {
  int64_t from_ns, to_ns;
  tp_timestamps timestamps;
  uint32_t records;
  bool right;
} span;

/* With coarse time-stamps each row has the times of its phase. */
static bool check_times(void *ctx, const tp_entry_record *record) {
  span *sp = ctx;
  int64_t last_ns = record->started_ns, slack_ns = 1000000;
  bool coarse = sp->timestamps == TP_TIMESTAMPS_COARSE;
  sp->records++;
  if (record->started_ns < sp->from_ns - slack_ns || record->ended_ns > sp->to_ns + 1000000) sp->right = false;
  if (record->run_count != NODES || record->status != TP_OK || record->phase != GATHER) sp->right = false;
  for (uint32_t i = 0; i < record->run_count; i++) {
    tp_run_record run = record_row(record, i);
    if (run.queued_ns != run.started_ns || run.started_ns < last_ns || run.ended_ns < run.started_ns) sp->right = false;
    if (strcmp(run.subscription, node_ids[i]) != 0 || run.state != TP_STATE_SUCCEEDED) sp->right = false;
    if (sp->timestamps == TP_TIMESTAMPS_OFF && run.ended_ns != record->started_ns) sp->right = false;
    if (coarse && (run.started_ns != record->started_ns || run.ended_ns != record->ended_ns)) sp->right = false;
    if (!coarse) last_ns = run.ended_ns;
  }
  if (record->ended_ns < last_ns) sp->right = false;
  return sp->right;
}

static void check_fast_phases(tp_timestamps timestamps) {
  enum { PHASES = 200 };
  tp_runtime_options options = {.struct_size = sizeof options, .timestamps = timestamps};
  scene s = {.runtime = open_alone(&options)};
  part parts[NODES];
  for (uint32_t i = 0; i < NODES; i++) parts[i] = (part){&s, i};
  register_nodes(&(setting){.phase = GATHER, .shape = IN_A_ROW}, s.runtime, parts);
  span sp = {.timestamps = timestamps, .right = true, .from_ns = now_ns()};
  for (int turn = 0; turn < 2; turn++) {
    s.turn = begin_bare(s.runtime, 0);
    for (int i = 0; i < PHASES / 2; i++) {
      tp_phase_result result = run_bare(s.turn, GATHER);
      assert_int_equal(result.outcome, TP_OK);
      assert_int_equal(result.verdict, TP_VERDICT_NONE);
      assert_int_equal(result.run_count, NODES);
      assert_null(result.merged);
      assert_null(result.subscription);
      for (uint32_t n = 0; n < NODES; n++) {
        tp_run_record run = *tp_phase_result_run(&result, n);
        assert_string_equal(run.subscription, node_ids[n]);
        assert_int_equal(run.state, TP_STATE_SUCCEEDED);
        assert_int_equal(run.attempts, 1);
      }
      tp_phase_result_release(s.turn, &result);
    }
    tp_turn_end(s.turn);
  }
  sp.to_ns = now_ns();
  assert_int_equal(read_records(s.runtime, 10000, check_times, &sp), TP_OK);
  assert_true(sp.right);
  assert_int_equal(sp.records, PHASES);
  close_runtime(s.runtime);
}

TEST(phases_on_the_fast_path_are_notified_and_recorded_right_with_every_kind_of_time_stamp) {
  sleep_ms(25); /* by then the process knows its clock */
  for (int i = 0; i < 2; i++)
    for (tp_timestamps t = TP_TIMESTAMPS_FULL; t <= TP_TIMESTAMPS_OFF; t++) check_fast_phases(t);
}

/* Runs the phase once with one time-stamp for all nodes; the third node exceeds its limit. */
static tp_phase_result overrun(scene *s, behavior third, part *parts) {
  tp_runtime_options options = {.struct_size = sizeof options, .timestamps = TP_TIMESTAMPS_COARSE};
  *s = (scene){.runtime = open_alone(&options), .behavior = third, .armed = true};
  for (uint32_t i = 0; i < NODES; i++) parts[i] = (part){s, i};
  register_nodes(&(setting){.behavior = third, .phase = GATHER, .shape = IN_A_ROW}, s->runtime, parts);
  s->turn = begin_bare(s->runtime, 0);
  return run_bare(s->turn, GATHER);
}

TEST(one_time_stamp_shows_the_time_of_all_nodes_and_enforces_no_limit_of_one) {
  scene s;
  part parts[NODES];
  tp_phase_result result = overrun(&s, OVERRUNS_ITS_LIMIT, parts);
  assert_int_equal(result.outcome, TP_OK);
  const tp_run_record *first = tp_phase_result_run(&result, 0);
  assert_true(first->ended_ns - first->started_ns > 30 * INT64_C(1000000)); /* the limit of the third */
  for (uint32_t i = 0; i < NODES; i++) {
    const tp_run_record *run = tp_phase_result_run(&result, i);
    assert_int_equal(run->state, TP_STATE_SUCCEEDED);
    assert_int_equal(run->started_ns, first->started_ns);
    assert_int_equal(run->ended_ns, first->ended_ns);
    assert_int_equal(s.calls[i], 1);
  }
  tp_phase_result_release(s.turn, &result);
  close_scene(&s);
}

TEST(one_time_stamp_shows_a_phase_that_overran_by_its_last_node) {
  scene s;
  part parts[NODES];
  tp_phase_result result = overrun(&s, OVERRUNS_THE_BUDGET, parts);
  for (uint32_t i = 0; i < NODES; i++) {
    const tp_run_record *run = tp_phase_result_run(&result, i);
    assert_int_equal(run->state, i + 1 < NODES ? TP_STATE_SUCCEEDED : TP_STATE_TIMED_OUT);
    assert_int_equal(s.calls[i], 1);
  }
  tp_phase_result_release(s.turn, &result);
  close_scene(&s);
}

/* ---- payloads ---- */

typedef struct reader {
  char text[64];
  int64_t number;
  bool has_text, has_number;
} reader;

static tp_answer read_fields(void *ctx, tp_call *call) {
  reader *r = ctx;
  tp_text text = tp_call_text(call, TP_FIELD_MODEL);
  snprintf(r->text, sizeof r->text, "%.*s", (int)text.size, text.size ? text.data : "");
  r->has_text = tp_call_has(call, TP_FIELD_MODEL);
  r->number = tp_call_int(call, TP_FIELD_ATTEMPT);
  r->has_number = tp_call_has(call, TP_FIELD_ATTEMPT);
  return TP_ANSWER_DONE;
}

TEST(phase_sees_its_own_payload_and_never_that_of_the_one_before) {
  tp_runtime *runtime = open_runtime(NULL);
  reader r;
  hook h = {.id = "reads", .phase = TP_PHASE_MODEL_PRE, .run = read_fields, .ctx = &r};
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  for (int i = 0; i < 12; i++) {
    char text[64];
    snprintf(text, sizeof text, "text number %d", i);
    tp_field fields[] = {{.id = TP_FIELD_MODEL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)},
                         {.id = TP_FIELD_ATTEMPT, .kind = TP_FIELD_KIND_INT, .number = 100 + i}};
    tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = (size_t)(i % 3)};
    tp_phase_result result = {.struct_size = sizeof result};
    assert_int_equal(tp_phase_run(turn, TP_PHASE_MODEL_PRE, i % 2 ? &input : NULL, &result, NULL), TP_OK);
    size_t given = i % 2 ? input.field_count : 0;
    assert_int_equal(r.has_text, given > 0);
    assert_string_equal(r.text, given > 0 ? text : "");
    assert_int_equal(r.has_number, given > 1);
    assert_int_equal(r.number, given > 1 ? 100 + i : 0);
    tp_phase_result_release(turn, &result);
  }
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(payload_that_was_borrowed_is_copied_into_a_result_that_shows_it) {
  scene s;
  part parts[NODES];
  open_scene(&s, EMITS, CHAIN, APART, parts);
  tp_phase_result fast = run_bare(s.turn, CHAIN);
  tp_phase_result_release(s.turn, &fast);
  char text[] = "hello";
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  s.armed = true;
  assert_int_equal(tp_phase_run(s.turn, CHAIN, &input, &result, NULL), TP_OK);
  memset(text, 'x', sizeof text - 1);
  field.text = (tp_text){NULL, 0};
  assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "hello");
  s.armed = false;
  fast = run_bare(s.turn, CHAIN);
  assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "hello");
  close_scene(&s);
}

/* ---- no way back in ---- */

typedef struct intruder {
  tp_turn *own, *other;
  tp_status statuses[4];
  uint32_t calls;
} intruder;

static void ignore_end(void *ctx, const tp_phase_result *result) {
  (void)ctx;
  (void)result;
}

static tp_answer intrude(void *ctx, tp_call *call) {
  (void)call;
  intruder *in = ctx;
  tp_phase_result result = {.struct_size = sizeof result};
  in->calls++;
  in->statuses[0] = tp_phase_run(in->own, GATHER, NULL, &result, NULL);
  in->statuses[1] = tp_phase_run(in->other, GATHER, NULL, &result, NULL);
  in->statuses[2] = tp_phase_run(in->own, 9999, NULL, &result, NULL);
  in->statuses[3] = tp_phase_submit(in->own, GATHER, NULL, ignore_end, NULL, NULL);
  return TP_ANSWER_DONE;
}

TEST(handler_that_runs_a_phase_itself_is_refused_and_does_no_harm) {
  tp_runtime *runtime = open_runtime(NULL);
  intruder in = {.own = NULL};
  hook h = {.id = "intrudes", .phase = GATHER, .run = intrude, .ctx = &in};
  add_hooks(runtime, &h, 1);
  in.own = begin_bare(runtime, 0);
  in.other = begin_bare(runtime, 0);
  for (uint32_t i = 1; i <= 4; i++) {
    tp_phase_result result = run_bare(in.own, GATHER);
    assert_int_equal(in.calls, i);
    assert_int_equal(in.statuses[0], TP_ERR_USAGE);
    assert_int_equal(in.statuses[1], TP_ERR_USAGE);
    assert_int_equal(in.statuses[2], TP_ERR_UNKNOWN_PHASE);
    assert_int_equal(in.statuses[3], TP_ERR_BUSY);
    assert_int_equal(result.outcome, TP_OK);
    assert_run(&result, "intrudes", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    tp_phase_result_release(in.own, &result);
  }
  tp_turn_end(in.other);
  tp_turn_end(in.own);
  close_runtime(runtime);
}

/* ---- memory ---- */

TEST(steady_phase_takes_no_memory) {
  enum { WARM = 20000, STEADY = 10000 };
  static const tp_timestamps kinds[] = {TP_TIMESTAMPS_FULL, TP_TIMESTAMPS_OFF};
  for (size_t k = 0; k < COUNT(kinds); k++) {
    tp_runtime_options options = {.struct_size = sizeof options, .allocator = counting, .timestamps = kinds[k]};
    scene s = {.runtime = open_alone(&options)};
    part parts[NODES];
    for (uint32_t i = 0; i < NODES; i++) parts[i] = (part){&s, i};
    register_nodes(&(setting){.phase = GATHER, .shape = FANNED}, s.runtime, parts);
    s.turn = begin_bare(s.runtime, 0);
    tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("hello")};
    tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
    for (int i = 0; i < WARM + STEADY; i++) {
      if (i == WARM) takes_here = 0;
      tp_phase_result result = {.struct_size = sizeof result};
      assert_int_equal(tp_phase_run(s.turn, GATHER, i % 2 ? &input : NULL, &result, NULL), TP_OK);
      tp_phase_result_release(s.turn, &result);
    }
    assert_int_equal(takes_here, 0);
    close_scene(&s);
    assert_int_equal(blocks_open, 0);
  }
}

TEST(results_that_are_not_released_go_with_their_turn) {
  enum { WARM = 200, STEADY = 1000, KEPT = 5 };
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = counting, .timestamps = TP_TIMESTAMPS_OFF};
  scene s = {.runtime = open_alone(&options)};
  part parts[NODES];
  for (uint32_t i = 0; i < NODES; i++) parts[i] = (part){&s, i};
  register_nodes(&(setting){.phase = GATHER, .shape = FANNED}, s.runtime, parts);
  for (int i = 0; i < WARM + STEADY; i++) {
    if (i == WARM) takes_here = 0;
    s.turn = begin_bare(s.runtime, 0);
    for (int n = 0; n < KEPT; n++) (void)run_bare(s.turn, GATHER);
    if (i < WARM + STEADY - 1) tp_turn_end(s.turn);
  }
  /* The store has some. */
  if (takes_here > STEADY / 10) fail_msg("%ld calls of the allocator in %d turns", takes_here, STEADY);
  close_scene(&s);
  assert_int_equal(blocks_open, 0);
}
