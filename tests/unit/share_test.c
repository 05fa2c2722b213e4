/* SPDX-License-Identifier: Apache-2.0
 *
 * Inline nodes of placement parallel are shared with idle engine workers. The nodes of each case wait for each other,
 * so each case proves by an event that they run at once. The number of helpers is set here, so that a machine with one
 * processor shares, too. tests/torture checks the results of many such phases. */
#include <sched.h>

#include "tests/support/test.h"
#include "phases/turn/turn.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/share.h"
#include "tests/support/counting.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, NODES_MAX = 40, AMPLE_MS = 60000 };

static void spin_us(int64_t us) {
  int64_t end_ns = now_ns() + us * 1000;
  while (now_ns() < end_ns) {}
}

/* ---- a stage: many nodes that behave as the case sets, once they are expensive ---- */

typedef struct stage stage;
typedef tp_answer (*scene_fn)(stage *s, uint32_t node, tp_call *call);

struct stage {
  tp_runtime *runtime;
  tp_turn *turn;
  uint32_t node_count;
  scene_fn scene; /* NULL: they only take their time */
  _Atomic uint32_t calls[NODES_MAX];
  pthread_t threads[NODES_MAX]; /* who called it last */
  tp_token tokens[NODES_MAX];
  _Atomic uint32_t first_calls;
  _Atomic uint32_t inside, together; /* calls at once, and the most of them */
  latch entered, leave, ended, deferred, cancelled;
  pthread_t owner;    /* where the case says who it is */
  uint32_t by_helper; /* the node that one waits in */
  bool contributes;
  tp_phase_result result;
};

typedef struct node {
  stage *s;
  uint32_t index;
} node;

static tp_answer act_on_stage(void *ctx, tp_call *call) {
  node *n = ctx;
  stage *s = n->s;
  s->calls[n->index]++;
  s->threads[n->index] = pthread_self();
  uint32_t inside = ++s->inside, most = s->together;
  while (inside > most && !atomic_compare_exchange_weak(&s->together, &most, inside)) {}
  tp_answer outcome = TP_ANSWER_DONE;
  if (s->scene) outcome = s->scene(s, n->index, call);
  else spin_us(20);
  s->inside--;
  return outcome;
}

/* @param short_ms  the first node's limit; 0: as the others'. */
static stage *stage_with(const tp_runtime_options *options, uint32_t node_count, uint32_t helpers, uint32_t short_ms,
                         bool all_inline) {
  static char ids[NODES_MAX][16];
  static node nodes[NODES_MAX];
  hook hooks[NODES_MAX];
  stage *s = calloc(1, sizeof *s);
  s->entered = s->leave = s->ended = s->deferred = s->cancelled = (latch)LATCH;
  s->runtime = open_runtime(options);
  tp__runtime_helpers(s->runtime)->max = helpers;
  s->node_count = node_count;
  for (uint32_t i = 0; i < node_count; i++) {
    snprintf(ids[i], sizeof ids[i], "n%02u", i);
    nodes[i] = (node){s, i};
    hooks[i] = (hook){.id = ids[i], .phase = GATHER, .run = act_on_stage, .ctx = &nodes[i], .parallel = !all_inline};
    hooks[i].sub.limit_ms = short_ms && i == 0 ? short_ms : AMPLE_MS;
  }
  add_hooks(s->runtime, hooks, node_count);
  s->turn = begin_bare(s->runtime, 0);
  return s;
}

static stage *stage_on(const tp_runtime_options *options, uint32_t node_count, uint32_t helpers, uint32_t short_ms) {
  return stage_with(options, node_count, helpers, short_ms, false);
}

static stage *open_inline_stage(uint32_t node_count, uint32_t helpers) {
  tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = helpers + 1, .allocator = counting};
  return stage_with(&options, node_count, helpers, 0, true);
}

static stage *open_stage(uint32_t node_count, uint32_t helpers, uint32_t short_ms) {
  tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = helpers + 1};
  options.allocator = counting;
  return stage_on(&options, node_count, helpers, short_ms);
}

static void run_stage(stage *s) {
  s->result.struct_size = sizeof s->result;
  assert_int_equal(tp_phase_run(s->turn, GATHER, NULL, &s->result, NULL), TP_OK);
}

/* A look: it may be over when the phase begins. */
static void await_idle_worker(stage *s) {
  while (!tp__workers_idle(&tp__runtime_sched(s->runtime)->workers)) sleep_ms(1);
}

static void note_phase_end(void *ctx, const tp_phase_result *result) {
  stage *s = ctx;
  s->result = *result;
  latch_hit(&s->ended);
}

static void submit_stage(stage *s) {
  assert_int_equal(tp_phase_submit(s->turn, GATHER, NULL, note_phase_end, s, NULL), TP_OK);
}

static void close_stage(stage *s) {
  tp_turn_end(s->turn);
  close_runtime(s->runtime);
  assert_int_equal(blocks_open, 0);
  free(s);
}

static void assert_all_called_once(stage *s) {
  for (uint32_t i = 0; i < s->node_count; i++) assert_int_equal(s->calls[i], 1);
}

static void assert_all_succeeded(stage *s) {
  for (uint32_t i = 0; i < s->node_count; i++) {
    tp_run_record run = *tp_phase_result_run(&s->result, i);
    if (run.state != TP_STATE_SUCCEEDED)
      fail_msg("node %u: %s, %s", i, tp_state_name(run.state), tp_reason_name(run.reason));
    assert_int_equal(run.attempts, 1);
    assert_true(run.queued_ns <= run.started_ns && run.started_ns <= run.ended_ns);
  }
}

/* ---- an idle worker helps ---- */

/* The first call waits for a second one, which is possible only when they run at once. It does not wait for ever: the
 * machine decides whether a worker is idle when its help is wanted, and another phase may have more luck. */
static bool await_second(stage *s) {
  int64_t end_ns = now_ns() + 20 * 1000000;
  latch_hit(&s->entered);
  while (latch_count(&s->entered) < 2 && now_ns() < end_ns) sched_yield();
  return latch_count(&s->entered) >= 2;
}

static tp_answer meet(stage *s, uint32_t index, tp_call *call) {
  (void)call;
  (void)index;
  (void)await_second(s);
  return TP_ANSWER_DONE;
}

TEST(idle_worker_calls_nodes_while_the_owner_calls_others) {
  for (int submitted = 0; submitted < 2; submitted++) {
    stage *s = open_stage(8, 1, 0);
    for (uint32_t tries = 1; s->together < 2; tries++) {
      s->scene = NULL;
      for (uint32_t i = 0; i < s->node_count; i++) s->calls[i] = 0;
      s->scene = meet;
      s->entered.count = 0;
      await_idle_worker(s);
      if (submitted) {
        submit_stage(s);
        latch_wait(&s->ended, (int)tries);
      } else {
        run_stage(s);
      }
      assert_int_equal(s->result.outcome, TP_OK);
      assert_all_succeeded(s);
      for (uint32_t i = 0; i < s->node_count; i++) assert_int_equal(s->calls[i], 1);
      if (s->together < 2) tp_phase_result_release(s->turn, &s->result);
    }
    uint32_t elsewhere = 0;
    for (uint32_t i = 1; i < s->node_count; i++) elsewhere += !pthread_equal(s->threads[i], s->threads[0]);
    assert_true(elsewhere > 0);
    close_stage(s);
  }
}

TEST(inline_nodes_stay_with_the_owner) {
  stage *s = open_inline_stage(8, 1);
  await_idle_worker(s);
  for (int i = 0; i < 20; i++) {
    run_stage(s);
    tp_phase_result_release(s->turn, &s->result);
    for (uint32_t n = 0; n < s->node_count; n++) assert_true(pthread_equal(s->threads[n], pthread_self()));
  }
  assert_int_equal(s->together, 1);
  close_stage(s);
}

TEST(shared_phases_take_no_memory_once_they_are_steady) {
  enum { WARM = 2000, STEADY = 1500, WORKERS = 2, MAGAZINE = 32, KEPT = WORKERS * 2 * 2 * MAGAZINE };
  stage *s = open_stage(8, 1, 0);
  for (int i = 0; i < WARM + STEADY; i++) {
    if (i == WARM) takes = 0;
    run_stage(s);
    tp_phase_result_release(s->turn, &s->result);
  }
  /* A worker that comes late drops the last references to the entry and its share, and keeps their blocks: two
   * magazines of each. */
  assert_in_range(takes, 0, KEPT + STEADY / 100);
  close_stage(s);
}

/* ---- what an answer that comes from a helper may be ---- */

static const tp_contribution word = {
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = TEXT("k"), .text = TEXT("a word")};
static const tp_contribution *const words[] = {&word};

static tp_answer meet_and_emit(stage *s, uint32_t index, tp_call *call) {
  meet(s, index, call);
  char key[16];
  snprintf(key, sizeof key, "k%02u", index);
  if (index % 3 != 0) (void)!tp_call_emit_audit(call, key, "from wherever it was called", NULL);
  return index % 5 == 4 ? tp_call_fail(call, index, "as it likes") : TP_ANSWER_DONE;
}

TEST(what_nodes_contribute_is_read_after_the_phase_whichever_thread_called_them) {
  stage *s = open_stage(30, 2, 0);
  s->scene = meet_and_emit;
  await_idle_worker(s);
  run_stage(s);
  assert_all_called_once(s);
  size_t want = 0;
  for (uint32_t i = 0; i < s->node_count; i++) {
    tp_run_record run = *tp_phase_result_run(&s->result, i);
    assert_int_equal(run.state, i % 5 == 4 ? TP_STATE_FAILED : TP_STATE_SUCCEEDED);
    assert_int_equal(run.code, i % 5 == 4 ? i : 0);
    assert_int_equal(run.contribution_count, i % 5 != 4 && i % 3 != 0);
    want += run.contribution_count;
  }
  tp_phase_result kept = s->result;
  s->scene = NULL;
  for (int i = 0; i < 3; i++) run_stage(s);
  assert_int_equal(tp_merged_count(kept.merged, TP_CONTRIBUTION_AUDIT), want);
  for (size_t i = 0; i < want; i++) {
    const tp_merged_entry *entry = tp_merged_get(kept.merged, TP_CONTRIBUTION_AUDIT, i);
    assert_memory_equal(entry->contribution->key.data + 1, entry->subscription + 1, 2);
    assert_text(entry->contribution->text, "from wherever it was called");
  }
  close_stage(s);
}

static tp_answer meet_and_defer(stage *s, uint32_t index, tp_call *call) {
  meet(s, index, call);
  (void)!tp_call_emit_audit(call, "early", "a word", NULL);
  tp_answer outcome = tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &s->tokens[index]);
  latch_hit(&s->leave);
  return outcome;
}

TEST(nodes_that_defer_are_answered_whichever_thread_called_them) {
  stage *s = open_stage(20, 1, 0);
  s->scene = meet_and_defer;
  await_idle_worker(s);
  submit_stage(s);
  latch_wait(&s->leave, (int)s->node_count);
  tp_outcome done = {
      .struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .contributions = words, .contribution_count = 1};
  for (uint32_t i = 0; i < s->node_count; i++) assert_int_equal(tp_token_complete(s->tokens[i], &done, NULL), TP_OK);
  latch_wait(&s->ended, 1);
  assert_all_called_once(s);
  assert_all_succeeded(s);
  assert_int_equal(tp_merged_count(s->result.merged, TP_CONTRIBUTION_AUDIT), 2 * s->node_count);
  close_stage(s);
}

static tp_answer defer_and_answer(stage *s, uint32_t index, tp_call *call) {
  meet(s, index, call);
  tp_answer outcome = tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &s->tokens[index]);
  tp_outcome done = {
      .struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .contributions = words, .contribution_count = 1};
  if (tp_token_complete(s->tokens[index], &done, NULL) != TP_OK) latch_hit(&s->leave);
  spin_us(index % 2 * 50); /* the owner may get the answer before the helper has published the batch */
  return outcome;
}

TEST(nodes_that_are_answered_before_they_return_count_once) {
  stage *s = open_stage(20, 1, 0);
  s->scene = defer_and_answer;
  for (int round = 0; round < 10; round++) {
    await_idle_worker(s);
    run_stage(s);
    assert_int_equal(latch_count(&s->leave), 0);
    assert_all_succeeded(s);
    assert_int_equal(tp_merged_count(s->result.merged, TP_CONTRIBUTION_AUDIT), s->node_count);
    tp_phase_result_release(s->turn, &s->result);
  }
  close_stage(s);
}

/* ---- a decision while a helper is inside ---- */

/* The first thread lets the second in and fails; the second then waits until it is released. */
static tp_answer fail_beside_another(stage *s, uint32_t index, tp_call *call) {
  (void)index;
  if (s->first_calls++ == 0) {
    (void)await_second(s);
    return tp_call_fail(call, 5, "no luck");
  }
  latch_hit(&s->entered);
  latch_wait(&s->leave, 1);
  return TP_ANSWER_DONE;
}

TEST(cancelled_turn_waits_for_what_a_helper_calls_and_starts_no_other) {
  stage *s = open_stage(20, 1, 0);
  s->scene = fail_beside_another;
  await_idle_worker(s);
  submit_stage(s);
  latch_wait(&s->entered, 2);
  tp_turn_cancel(s->turn);
  sleep_ms(2); /* usually it was delivered by then; in both cases the result is complete */
  latch_hit(&s->leave);
  latch_wait(&s->ended, 1);
  for (uint32_t i = 0; i < s->node_count; i++) {
    tp_run_record run = *tp_phase_result_run(&s->result, i);
    assert_int_equal(run.attempts, s->calls[i]);
    assert_in_range(run.attempts, 0, 1);
    if (run.attempts == 0) assert_int_equal(run.state, TP_STATE_SKIPPED);
  }
  close_stage(s);
}

static tp_answer kill_the_rest(stage *s, uint32_t index, tp_call *call) {
  (void)call;
  (void)await_second(s);
  for (uint32_t i = 0; i < s->node_count; i++) {
    char id[16];
    snprintf(id, sizeof id, "n%02u", i);
    if (i != index) (void)!tp_subscription_kill(s->runtime, id, true, NULL);
  }
  return TP_ANSWER_DONE;
}

TEST(nodes_that_are_switched_off_meanwhile_are_not_called_by_a_helper_either) {
  stage *s = open_stage(30, 2, 0);
  s->scene = kill_the_rest;
  await_idle_worker(s);
  run_stage(s);
  uint32_t called = 0;
  for (uint32_t i = 0; i < s->node_count; i++) {
    tp_run_record run = *tp_phase_result_run(&s->result, i);
    called += run.attempts;
    assert_int_equal(run.attempts, s->calls[i]);
    if (run.attempts == 0) assert_int_equal(run.reason, TP_REASON_KILL_SWITCH);
    else assert_int_equal(run.state, TP_STATE_SUCCEEDED);
  }
  assert_in_range(called, 1, 3); /* one on each thread */
  close_stage(s);
}

/* ---- what the clock and the machine do to it ---- */

static tp_answer wait_to_leave(stage *s, uint32_t index, tp_call *call) {
  (void)call;
  (void)index;
  latch_hit(&s->entered);
  latch_wait(&s->leave, 1);
  return TP_ANSWER_DONE;
}

/* The owner's first call defers when a helper is inside; the helper's call waits until it is released. */
static void on_cancel(void *ctx) { latch_hit(&((stage *)ctx)->cancelled); }

static tp_answer be_cancelled(stage *s, uint32_t index, tp_call *call) {
  if (pthread_equal(pthread_self(), s->owner)) {
    if (s->tokens[0].bits) return TP_ANSWER_DONE;
    latch_wait(&s->entered, 1);
    tp_answer outcome = tp_call_defer(
        call, &(tp_deferral){.struct_size = sizeof(tp_deferral), .cancel = on_cancel, .ctx = s}, &s->tokens[0]);
    latch_hit(&s->deferred);
    return outcome;
  }
  if (latch_count(&s->entered) > 0) return TP_ANSWER_DONE;
  s->by_helper = index;
  latch_hit(&s->entered);
  latch_wait(&s->leave, 1);
  if (s->contributes) (void)!tp_call_emit_audit(call, "k", "too late", NULL);
  return TP_ANSWER_DONE;
}

static void *run_from_elsewhere(void *arg) {
  stage *s = arg;
  s->owner = pthread_self();
  s->result.struct_size = sizeof s->result;
  if (tp_phase_run(s->turn, GATHER, NULL, &s->result, NULL) != TP_OK) abort();
  return NULL;
}

TEST(answer_of_a_helper_that_comes_after_the_cancel_is_too_late_whatever_it_contributes) {
  for (int contributes = 1; contributes >= 0; contributes--) {
    stage *s = open_stage(3, 1, 0);
    s->scene = be_cancelled;
    s->contributes = contributes;
    await_idle_worker(s);
    pthread_t host;
    pthread_create(&host, NULL, run_from_elsewhere, s);
    latch_wait(&s->deferred, 1);
    tp_turn_cancel(s->turn);
    latch_wait(&s->cancelled, 1);
    latch_hit(&s->leave);
    pthread_join(host, NULL);
    tp_run_record run = *tp_phase_result_run(&s->result, s->by_helper);
    assert_string_equal(tp_state_name(run.state), tp_state_name(TP_STATE_CANCELLED));
    assert_int_equal(s->result.outcome, TP_ERR_CANCELLED);
    close_stage(s);
  }
}

TEST(host_that_asked_for_no_engine_workers_gets_every_call_on_its_own_thread) {
  tp_runtime_options options = {.struct_size = sizeof options, .no_engine_workers = true};
  options.allocator = counting;
  tp_runtime *probe = open_runtime(&options);
  uint32_t helpers = tp__runtime_helpers(probe)->max;
  tp_runtime_free(probe);
  stage *s = stage_on(&options, 8, helpers, 0);
  for (int i = 0; i < 2000; i++) {
    run_stage(s);
    tp_phase_result_release(s->turn, &s->result);
    for (uint32_t n = 0; n < s->node_count; n++) assert_true(pthread_equal(s->threads[n], pthread_self()));
  }
  close_stage(s);
}

/* The only worker is busy, and counted as idle. */
static void keep_the_worker_busy(stage *s) {
  await_idle_worker(s);
  s->scene = wait_to_leave;
  submit_stage(s);
  latch_wait(&s->entered, 1);
  tp__a32_add_relaxed(&tp__runtime_sched(s->runtime)->workers.idle_workers, 1);
}

/* A worker that was woken counts as idle until it gets a processor. Here a worker gets none for as long as the case
 * wants. */
TEST(worker_that_is_woken_and_does_not_run_yet_is_not_asked_without_bound) {
  enum { PHASES = 20000, TURNS_MAX = 4 };
  tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = 1, .turns_max = TURNS_MAX};
  options.allocator = counting;
  stage *s = stage_on(&options, 4, 1, 0);
  keep_the_worker_busy(s);
  s->scene = NULL;
  tp_turn *turn = begin_bare(s->runtime, 0);
  long open_before = blocks_open;
  for (int i = 0; i < PHASES; i++) {
    tp_phase_result result = {.struct_size = sizeof result};
    assert_int_equal(tp_phase_run(turn, GATHER, NULL, &result, NULL), TP_OK);
    tp_phase_result_release(turn, &result);
  }
  assert_in_range(blocks_open - open_before, 0, 500);
  tp__a32_sub_acq_rel(&tp__runtime_sched(s->runtime)->workers.idle_workers, 1);
  latch_hit(&s->leave);
  latch_wait(&s->ended, 1);
  tp_turn_end(turn);
  close_stage(s);
}

/* No worker takes the offered nodes: they return to their places long before the turn of the last node. */
static _Atomic uint32_t place_of[NODES_MAX], places;

static tp_answer note_place(stage *s, uint32_t index, tp_call *call) {
  (void)call;
  (void)s;
  place_of[index] = ++places;
  spin_us(100);
  return TP_ANSWER_DONE;
}

TEST(what_no_worker_takes_returns_to_its_place_in_the_plan) {
  enum { NODES = 32 };
  tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = 1};
  options.allocator = counting;
  stage *s = stage_on(&options, NODES, 1, 0);
  keep_the_worker_busy(s);
  s->scene = note_place;
  places = 0;
  tp_turn *turn = begin_bare(s->runtime, 0);
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, GATHER, NULL, &result, NULL), TP_OK);
  for (uint32_t i = 0; i < NODES / 2; i++) assert_true(place_of[i] < place_of[NODES - 1]);
  tp__a32_sub_acq_rel(&tp__runtime_sched(s->runtime)->workers.idle_workers, 1);
  s->scene = NULL;
  latch_hit(&s->leave);
  latch_wait(&s->ended, 1);
  tp_turn_end(turn);
  close_stage(s);
}

/* In a batch, a node that ran longer than the least limit of the plan, but not longer than its own, comes before a node
 * that defers. */
static tp_answer take_long_or_defer(stage *s, uint32_t index, tp_call *call) {
  if (index == 0) return TP_ANSWER_DONE;
  if (index % 2) {
    spin_us(21000);
    return TP_ANSWER_DONE;
  }
  tp_answer outcome = tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &s->tokens[index]);
  latch_hit(&s->deferred);
  return outcome;
}

TEST(node_that_ran_long_is_not_mistaken_for_one_that_defers_behind_it) {
  stage *s = open_stage(31, 1, 20); /* no machine takes the first node's processor away for so long */
  s->scene = NULL;
  s->scene = take_long_or_defer;
  await_idle_worker(s);
  submit_stage(s);
  latch_wait(&s->deferred, 15);
  tp_outcome done = {.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE};
  for (uint32_t i = 2; i < s->node_count; i += 2) assert_int_equal(tp_token_complete(s->tokens[i], &done, NULL), TP_OK);
  latch_wait(&s->ended, 1);
  assert_all_called_once(s);
  assert_all_succeeded(s);
  close_stage(s);
}
