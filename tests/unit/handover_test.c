/* SPDX-License-Identifier: Apache-2.0
 *
 * Which thread runs what: a turn goes on on the thread of its handler; the same thread runs the next function that may
 * block; a function that hangs holds nothing of the turn. */
#include <sys/resource.h>

#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, CHAIN = TP_PHASE_TURN_INTAKE, LONG_MS = 60000, MANY = 20 };

/* ---- handlers that say on which thread they were called ---- */

typedef struct place {
  pthread_t thread;
  latch *entered, *leaves; /* NULL: it returns at once */
} place;

static tp_answer note_thread(void *ctx, tp_call *call) {
  place *p = ctx;
  p->thread = pthread_self();
  (void)call;
  if (p->entered) latch_hit(p->entered);
  if (p->leaves) latch_wait(p->leaves, 1);
  return TP_ANSWER_DONE;
}

static bool is_same(const place *a, const place *b) { return pthread_equal(a->thread, b->thread); }
static bool is_mine(const place *p) { return pthread_equal(p->thread, pthread_self()); }

/* Waits in a chain, one after the other: thread, inline, thread. */
static tp_runtime *open_chain(const tp_runtime_options *options, place places[3]) {
  tp_runtime *runtime = open_runtime(options);
  const tp_subscription sub = {.limit_ms = LONG_MS};
  for (int i = 0; i < 3; i++) places[i] = (place){.entered = NULL};
  add_hooks(
      runtime,
      (hook[]){
          {.id = "a", .phase = CHAIN, .run = note_thread, .ctx = &places[0], .slow = true, .sub = sub},
          {.id = "b", .phase = CHAIN, .run = note_thread, .ctx = &places[1], .after = "a", .sub = sub},
          {.id = "c", .phase = CHAIN, .run = note_thread, .ctx = &places[2], .slow = true, .after = "b", .sub = sub}},
      3);
  return runtime;
}

static void run_chain(tp_runtime *runtime) {
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, CHAIN, NULL);
  assert_int_equal(result.outcome, TP_OK);
  tp_turn_end(turn);
}

/* Rarely the caller has not fallen asleep when the first handler answers, and then goes on itself. */
TEST(turn_goes_on_on_the_thread_of_its_handler) {
  place places[3];
  tp_runtime *runtime = open_chain(NULL, places);
  int tries = 0;
  do {
    assert_true(++tries < 1000);
    run_chain(runtime);
    assert_false(is_mine(&places[0]));
    assert_false(is_mine(&places[2]));
  } while (!is_same(&places[0], &places[1]) || !is_same(&places[1], &places[2]));
  close_runtime(runtime);
}

TEST(host_without_engine_workers_keeps_inline_handlers_on_its_thread) {
  place places[3];
  tp_runtime_options options = {.struct_size = sizeof options, .no_engine_workers = true};
  tp_runtime *runtime = open_chain(&options, places);
  for (int i = 0; i < 100; i++) {
    run_chain(runtime);
    assert_true(is_mine(&places[1]));
    assert_false(is_mine(&places[0]));
  }
  close_runtime(runtime);
}

/* ---- several at once ---- */

/* Each of two handlers waits until the other one runs. On one thread they would wait for ever. */
static tp_answer meet(void *ctx, tp_call *call) {
  latch *here = ctx;
  (void)call;
  latch_hit(here);
  latch_wait(here, 2);
  return TP_ANSWER_DONE;
}

TEST(all_that_are_ready_run_at_once) {
  latch here = LATCH;
  place first = {.entered = NULL}, last = {.entered = NULL};
  tp_runtime *runtime = open_runtime(NULL);
  const tp_subscription sub = {.limit_ms = LONG_MS};
  add_hooks(runtime,
            (hook[]){{.id = "a", .phase = GATHER, .run = note_thread, .ctx = &first, .slow = true, .sub = sub},
                     {.id = "b", .phase = GATHER, .run = meet, .ctx = &here, .slow = true, .after = "a", .sub = sub},
                     {.id = "c", .phase = GATHER, .run = meet, .ctx = &here, .slow = true, .after = "a", .sub = sub},
                     {.id = "d", .phase = GATHER, .run = note_thread, .ctx = &last, .after = "b", .sub = sub}},
            4);
  for (int i = 0; i < 200; i++) {
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "b", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_run(&result, "c", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    tp_turn_end(turn);
    here.count = 0;
  }
  close_runtime(runtime);
}

/* An inline handler is ready at the same time, and waits for it (which a handler should not do): another thread runs
 * the function that may block. */
TEST(what_may_block_does_not_wait_for_inline_handlers_beside_it) {
  latch entered = LATCH;
  place first = {.entered = NULL}, blocking = {.entered = &entered}, beside = {.leaves = &entered};
  tp_runtime *runtime = open_runtime(NULL);
  const tp_subscription sub = {.limit_ms = LONG_MS};
  add_hooks(
      runtime,
      (hook[]){
          {.id = "a", .phase = GATHER, .run = note_thread, .ctx = &first, .slow = true, .sub = sub},
          {.id = "b", .phase = GATHER, .run = note_thread, .ctx = &blocking, .slow = true, .after = "a", .sub = sub},
          {.id = "c", .phase = GATHER, .run = note_thread, .ctx = &beside, .after = "a", .sub = sub}},
      3);
  for (int i = 0; i < 200; i++) {
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "b", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_run(&result, "c", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    tp_turn_end(turn);
    entered.count = 0;
  }
  close_runtime(runtime);
}

/* ---- deadlines ---- */

typedef struct ended_phase {
  latch *ended;
  tp_phase_result result;
} ended_phase;

static void phase_ended(void *ctx, const tp_phase_result *result) {
  ended_phase *p = ctx;
  p->result = *result;
  latch_hit(p->ended);
}

static tp_phase_result run_as(tp_turn *turn, bool submitted, latch *ended) {
  ended_phase p = {.ended = ended};
  if (!submitted) return run_phase(turn, GATHER, NULL);
  assert_int_equal(tp_phase_submit(turn, GATHER, NULL, phase_ended, &p, NULL), TP_OK);
  latch_wait(ended, 1);
  return p.result;
}

/* The thread that hangs had run the turn until then. */
TEST(turn_is_taken_from_a_thread_that_hangs) {
  for (int submitted = 0; submitted < 2; submitted++) {
    latch entered = LATCH, leaves = LATCH, ended = LATCH;
    place first = {.entered = NULL}, hangs = {.entered = &entered, .leaves = &leaves}, after = {.entered = NULL};
    tp_runtime *runtime = open_runtime(NULL);
    add_hooks(runtime,
              (hook[]){{.id = "a", .phase = GATHER, .run = note_thread, .ctx = &first, .slow = true},
                       {.id = "hangs",
                        .phase = GATHER,
                        .run = note_thread,
                        .ctx = &hangs,
                        .slow = true,
                        .after = "a",
                        .sub = {.limit_ms = 200}},
                       {.id = "after",
                        .phase = GATHER,
                        .run = note_thread,
                        .ctx = &after,
                        .after = "hangs",
                        .sub = {.limit_ms = LONG_MS}}},
              3);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_as(turn, submitted, &ended);
    assert_run(&result, "hangs", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    assert_run(&result, "after", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    latch_wait(&entered, 1);
    assert_false(is_same(&hangs, &after));
    assert_int_equal(tp_runtime_leaks(runtime, NULL, NULL), 1);
    tp_turn_end(turn);
    latch_hit(&leaves);
    await_abandoned(runtime);
    close_runtime(runtime);
  }
}

/* ---- what is withdrawn before its thread was woken ---- */

typedef struct canceller {
  tp_turn *turn; /* NULL: it cancels none */
} canceller;

static tp_answer cancel_the_turn(void *ctx, tp_call *call) {
  const canceller *c = ctx;
  (void)call;
  if (c->turn) tp_turn_cancel(c->turn);
  return TP_ANSWER_DONE;
}

/* The cancel comes when the next handler was submitted, before the caller sleeps. The idle thread must still be woken;
 * otherwise it would be lost, and the runtime would wait for it for ever. A thread that was about to become idle may
 * take the handler before. */
TEST(thread_is_not_lost_when_its_work_is_withdrawn) {
  canceller c = {NULL};
  place never = {.entered = NULL};
  tp_runtime *runtime = open_runtime(NULL);
  const tp_subscription sub = {.limit_ms = LONG_MS};
  add_hooks(
      runtime,
      (hook[]){{.id = "a", .phase = GATHER, .run = cancel_the_turn, .ctx = &c, .sub = sub},
               {.id = "b", .phase = GATHER, .run = note_thread, .ctx = &never, .slow = true, .after = "a", .sub = sub}},
      2);
  for (int i = 0; i < 3; i++) {
    tp_turn *turn = begin_bare(runtime, 0);
    c.turn = i == 1 ? turn : NULL;
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    uint8_t state_of_b = run_of(&result, "b").state;
    assert_true(state_of_b == TP_STATE_SUCCEEDED || (i == 1 && state_of_b == TP_STATE_CANCELLED));
    tp_turn_end(turn);
  }
  close_runtime(runtime);
}

/* ---- the caller ---- */

static long sleeps_of_this_thread(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

TEST(synchronous_caller_sleeps_once) {
  static char ids[MANY][8];
  tp_runtime *runtime = open_runtime(NULL);
  place places[MANY] = {{.entered = NULL}};
  for (int i = 0; i < MANY; i++) {
    snprintf(ids[i], sizeof ids[i], "n%02d", i);
    hook h = {.id = ids[i],
              .phase = CHAIN,
              .run = note_thread,
              .ctx = &places[i],
              .slow = true,
              .after = i ? ids[i - 1] : NULL,
              .sub = {.limit_ms = LONG_MS}};
    add_hooks(runtime, &h, 1);
  }
  long least = MANY;
  for (int i = 0; i < 100 && least > 1; i++) {
    long before = sleeps_of_this_thread();
    run_chain(runtime);
    long slept = sleeps_of_this_thread() - before;
    if (slept > 0 && slept < least) least = slept;
  }
  assert_int_equal(least, 1);
  close_runtime(runtime);
}
