/* SPDX-License-Identifier: Apache-2.0
 *
 * An inbox: a thread of the host takes calls of handlers and answers them itself. The host here has one thread, which
 * polls the inbox's descriptor and also submits. */
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/inbox.h"

/* ---- a call that a host answers itself ---- */

TEST(work_is_read_and_answered_by_the_thread_that_takes_it) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turn = begin_bare(runtime, 0);
  assert_false(is_readable(inbox));
  assert_null(take(inbox));
  ran r;
  submit(turn, GATHER, "hello", &r);
  const tp_work *work = take_next(inbox);
  assert_false(is_readable(inbox));
  assert_int_equal(work->struct_size, sizeof *work);
  assert_int_equal(work->kind, TP_WORK_HANDLER);
  assert_string_equal(work->ctx, "ctx");
  assert_text(tp_call_text(work->call, TP_FIELD_TEXT), "hello");
  assert_string_equal(tp_call_subscription(work->call), "g");
  assert_int_equal(tp_call_attempt(work->call), 1);
  assert_in_range(tp_call_time_left_ms(work->call), 1, LONG_MS);
  assert_false(tp_call_cancelled(work->call));
  assert_true(tp_token_open(work->token));
  assert_int_equal(tp_call_emit_prompt_context(work->call, "first", "emitted", 0, NULL), TP_OK);
  tp_token token;
  assert_int_equal(tp_call_defer(work->call, NULL, &token), TP_ANSWER_FAILED);
  assert_int_equal(token.bits, 0);
  tp_contribution more = {.struct_size = sizeof(tp_contribution),
                          .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                          .key = TEXT("second"),
                          .text = TEXT("contributed")};
  token = work->token;
  assert_int_equal(tp_token_complete(token,
                                     &(tp_outcome){.struct_size = sizeof(tp_outcome),
                                                   .kind = TP_ANSWER_DONE,
                                                   .contributions = (const tp_contribution *[]){&more},
                                                   .contribution_count = 1},
                                     NULL),
                   TP_OK);
  assert_int_equal(
      tp_token_complete(token, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE}, NULL),
      TP_ERR_STALE);
  assert_false(tp_token_open(token));
  latch_wait(&r.ended, 1);
  assert_run(&r.result, "g", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_int_equal(run_of(&r.result, "g").contribution_count, 2);
  assert_text(tp_merged_get(r.result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT, 0)->contribution->text, "emitted");
  assert_text(tp_merged_get(r.result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->contribution->text, "contributed");
  assert_int_equal(handler_threads(runtime), 0);
  assert_int_equal(open_tokens(runtime), 0);
  tp_turn_end(turn);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(guard_in_an_inbox_denies) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "guard", GUARD, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turn = begin_bare(runtime, 0);
  ran r;
  submit(turn, GUARD, "rm", &r);
  const tp_work *work = take_next(inbox);
  assert_text(tp_call_text(work->call, TP_FIELD_TOOL), "rm");
  assert_int_equal(answer(work, TP_ANSWER_DENY, "not this one"), TP_OK);
  latch_wait(&r.ended, 1);
  assert_int_equal(r.result.outcome, TP_ERR_DENIED);
  assert_text(r.result.reason, "not this one");
  tp_turn_end(turn);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(refused_emit_rejects_the_whole_answer) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turn = begin_bare(runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  const tp_work *work = take_next(inbox);
  assert_int_equal(tp_call_emit_reminder(work->call, "not here", NULL), TP_ERR_CAPABILITY);
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  assert_run(&r.result, "g", TP_STATE_FAILED, TP_REASON_CAPABILITY);
  tp_turn_end(turn);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(retried_attempt_is_work_of_its_own) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  assert_int_equal(add_status(runtime, "g", GATHER, inbox, (tp_handler){.idempotent = true},
                              (tp_subscription){.limit_ms = LONG_MS, .attempts = 2}),
                   TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  const tp_work *work = take_next(inbox);
  assert_int_equal(
      tp_token_complete(work->token,
                        &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_FAILED, .retryable = 1},
                        NULL),
      TP_OK);
  work = take_next(inbox);
  assert_int_equal(tp_call_attempt(work->call), 2);
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  assert_run(&r.result, "g", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  tp_turn_end(turn);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(detached_run_goes_through_the_inbox) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS, .execution = TP_EXECUTION_FIRE_AND_RECORD});
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, "hello");
  assert_run(&result, "g", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  tp_turn_end(turn);
  const tp_work *work = take_next(inbox);
  assert_text(tp_call_text(work->call, TP_FIELD_TEXT), "hello");
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

/* ---- bounds ---- */

TEST(attempt_that_finds_the_inbox_full_waits_in_the_order_of_arrival) {
  enum { TURNS = 20 };
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 2);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turns[TURNS];
  ran r[TURNS];
  char texts[TURNS][4];
  for (int i = 0; i < TURNS; i++) {
    snprintf(texts[i], sizeof texts[i], "%d", i);
    turns[i] = begin_bare(runtime, 0);
    submit(turns[i], GATHER, texts[i], &r[i]);
    while (open_tokens(runtime) < (uint64_t)i + 1) sleep_ms(1); /* it has come: the next one is after it */
  }
  for (int i = 0; i < TURNS; i++) {
    const tp_work *work = take(inbox);
    assert_non_null(work);
    assert_text(tp_call_text(work->call, TP_FIELD_TEXT), texts[i]);
    assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
  }
  assert_false(is_readable(inbox));
  for (int i = 0; i < TURNS; i++) {
    latch_wait(&r[i].ended, 1);
    assert_run(&r[i].result, "g", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    tp_turn_end(turns[i]);
  }
  assert_int_equal(open_tokens(runtime), 0);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(attempt_in_line_for_a_full_inbox_ends_at_its_limit) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 1);
  add(runtime, "first", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  add(runtime, "guard", GUARD, inbox, (tp_subscription){.limit_ms = 20});
  tp_turn *waiting = begin_bare(runtime, 0), *late = begin_bare(runtime, 0);
  ran r;
  submit(waiting, GATHER, NULL, &r);
  wait_readable(inbox);
  tp_phase_result result = run_phase(late, GUARD, NULL);
  assert_run(&result, "guard", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_int_equal(result.outcome, TP_ERR_DENIED); /* required: it fails closed */
  assert_int_equal(answer(take_next(inbox), TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  assert_run(&r.result, "first", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_false(is_readable(inbox));
  assert_int_equal(open_tokens(runtime), 0);
  tp_turn_end(waiting);
  tp_turn_end(late);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(attempts_in_line_for_a_freed_inbox_fail) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 1);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turns[3];
  ran r[3];
  for (int i = 0; i < 3; i++) {
    turns[i] = begin_bare(runtime, 0);
    submit(turns[i], GATHER, NULL, &r[i]);
  }
  while (open_tokens(runtime) < 3) sleep_ms(1);
  tp_inbox_free(inbox);
  for (int i = 0; i < 3; i++) {
    latch_wait(&r[i].ended, 1);
    assert_run(&r[i].result, "g", TP_STATE_FAILED, TP_REASON_NO_WORKER);
    tp_turn_end(turns[i]);
  }
  assert_int_equal(open_tokens(runtime), 0);
  close_runtime(runtime);
}

TEST(many_pieces_are_taken_at_a_time) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 3);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  const tp_work *works[8];
  size_t count = 99;
  assert_int_equal(tp_inbox_take(NULL, works, 8, &count), TP_ERR_USAGE);
  assert_int_equal(tp_inbox_take(inbox, NULL, 8, &count), TP_ERR_USAGE);
  assert_int_equal(tp_inbox_take(inbox, works, 8, NULL), TP_ERR_USAGE);
  assert_int_equal(count, 99);
  assert_int_equal(tp_inbox_take(inbox, works, 8, &count), TP_OK);
  assert_int_equal(count, 0);
  tp_turn *turns[5];
  ran r[5];
  for (int i = 0; i < 5; i++) {
    turns[i] = begin_bare(runtime, 0);
    submit(turns[i], GATHER, NULL, &r[i]);
  }
  while (open_tokens(runtime) < 5) sleep_ms(1);
  assert_int_equal(tp_inbox_take(inbox, NULL, 0, &count), TP_OK);
  assert_int_equal(count, 0);
  assert_int_equal(tp_inbox_take(inbox, works, 2, &count), TP_OK);
  assert_int_equal(count, 2);
  assert_true(is_readable(inbox));
  assert_int_equal(tp_inbox_take(inbox, works + 2, 6, &count), TP_OK); /* those in line come in meanwhile */
  assert_int_equal(count, 3);
  assert_false(is_readable(inbox));
  for (int i = 0; i < 5; i++) assert_int_equal(answer(works[i], TP_ANSWER_DONE, NULL), TP_OK);
  for (int i = 0; i < 5; i++) {
    latch_wait(&r[i].ended, 1);
    tp_turn_end(turns[i]);
  }
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(work_counts_as_an_open_token) {
  tp_runtime_options options = {.struct_size = sizeof options, .deferred_max = 1};
  tp_runtime *runtime = open_runtime(&options);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *a = begin_bare(runtime, 0), *b = begin_bare(runtime, 0);
  ran r;
  submit(a, GATHER, NULL, &r);
  const tp_work *work = take_next(inbox);
  tp_phase_result result = run_phase(b, GATHER, NULL);
  assert_run(&result, "g", TP_STATE_FAILED, TP_REASON_NO_WORKER);
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  tp_turn_end(a);
  tp_turn_end(b);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

/* ---- attempts that are over ---- */

TEST(deadline_removes_work_that_was_not_taken) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "guard", GUARD, inbox, (tp_subscription){.limit_ms = 5});
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GUARD, NULL);
  assert_run(&result, "guard", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_int_equal(run_of(&result, "guard").started_ns, 0);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_false(is_readable(inbox));
  assert_null(take(inbox));
  assert_int_equal(open_tokens(runtime), 0);
  tp_turn_end(turn);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(deadline_makes_the_token_of_taken_work_stale_and_leaves_it_readable) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "guard", GUARD, inbox, (tp_subscription){.limit_ms = 300});
  tp_turn *turn = begin_bare(runtime, 0);
  ran r;
  submit(turn, GUARD, "rm", &r);
  const tp_work *work = take_next(inbox);
  latch_wait(&r.ended, 1);
  assert_run(&r.result, "guard", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_int_not_equal(run_of(&r.result, "guard").started_ns, 0);
  tp_turn_end(turn);
  assert_false(tp_token_open(work->token));
  assert_true(tp_call_cancelled(work->call));
  assert_text(tp_call_text(work->call, TP_FIELD_TOOL), "rm");
  assert_int_equal(open_tokens(runtime), 1);
  assert_int_equal(answer(work, TP_ANSWER_ALLOW, NULL), TP_ERR_STALE);
  assert_int_equal(open_tokens(runtime), 0);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

TEST(cancel_takes_work_out) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "g", GATHER, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turn = begin_bare(runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  wait_readable(inbox);
  tp_turn_cancel(turn);
  latch_wait(&r.ended, 1);
  assert_int_equal(r.result.outcome, TP_ERR_CANCELLED);
  assert_null(take(inbox));
  assert_false(is_readable(inbox));
  assert_int_equal(open_tokens(runtime), 0);
  tp_turn_end(turn);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

/* ---- the end of an inbox ---- */

TEST(free_fails_the_work_in_it_and_all_that_comes_later) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "guard", GUARD, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turn = begin_bare(runtime, 0), *taken_of = begin_bare(runtime, 0);
  ran waits, taken;
  submit(taken_of, GUARD, NULL, &taken);
  const tp_work *work = take_next(inbox);
  submit(turn, GUARD, NULL, &waits);
  wait_readable(inbox);
  tp_inbox_free(inbox);
  latch_wait(&waits.ended, 1);
  assert_run(&waits.result, "guard", TP_STATE_FAILED, TP_REASON_NO_WORKER);
  assert_int_equal(waits.result.outcome, TP_ERR_DENIED);
  tp_phase_result later = run_phase(turn, GUARD, NULL);
  assert_run(&later, "guard", TP_STATE_FAILED, TP_REASON_NO_WORKER);
  assert_int_equal(answer(work, TP_ANSWER_ALLOW, NULL), TP_OK); /* what was taken is the host's to answer */
  latch_wait(&taken.ended, 1);
  assert_run(&taken.result, "guard", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_int_equal(open_tokens(runtime), 0);
  tp_turn_end(turn);
  tp_turn_end(taken_of);
  close_runtime(runtime);
}

TEST(inbox_may_be_freed_after_its_runtime) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "guard", GUARD, inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turn = begin_bare(runtime, 0);
  ran r;
  submit(turn, GUARD, NULL, &r);
  tp_token token = take_next(inbox)->token;
  tp_turn_cancel(turn);
  latch_wait(&r.ended, 1);
  tp_turn_end(turn);
  tp_runtime_free(runtime);
  assert_false(tp_token_open(token));
  assert_int_equal(
      tp_token_complete(token, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE}, NULL),
      TP_ERR_STALE);
  assert_null(take(inbox));
  tp_inbox_free(inbox);
  tp_inbox_free(NULL);
}

/* ---- several threads ---- */

enum { TAKERS = 2, TURNS = 64 };

typedef struct taker {
  tp_inbox *inbox;
  _Atomic int *left;
  int taken;
  pthread_t thread;
} taker;

static void *take_and_answer(void *arg) {
  taker *t = arg;
  while (*t->left > 0) {
    struct pollfd polled = {.fd = tp_inbox_fd(t->inbox), .events = POLLIN};
    const tp_work *work = NULL;
    if (poll(&polled, 1, 1) < 1 || tp_inbox_next(t->inbox, &work) != TP_OK || !work) continue;
    t->taken +=
        tp_token_complete(work->token, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_ALLOW},
                          NULL) == TP_OK;
    --*t->left;
  }
  return NULL;
}

TEST(two_takers_share_an_inbox_and_each_work_is_taken_once) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add(runtime, "guard", GUARD, inbox, (tp_subscription){.limit_ms = LONG_MS});
  _Atomic int left = TURNS;
  taker takers[TAKERS];
  for (int i = 0; i < TAKERS; i++) {
    takers[i] = (taker){.inbox = inbox, .left = &left};
    pthread_create(&takers[i].thread, NULL, take_and_answer, &takers[i]);
  }
  tp_turn *turns[TURNS];
  static ran rs[TURNS];
  for (int i = 0; i < TURNS; i++) submit(turns[i] = begin_bare(runtime, 0), GUARD, NULL, &rs[i]);
  for (int i = 0; i < TURNS; i++) latch_wait(&rs[i].ended, 1);
  int taken = 0;
  for (int i = 0; i < TAKERS; i++) {
    pthread_join(takers[i].thread, NULL);
    taken += takers[i].taken;
  }
  assert_int_equal(taken, TURNS);
  for (int i = 0; i < TURNS; i++) {
    assert_run(&rs[i].result, "guard", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    tp_turn_end(turns[i]);
  }
  assert_false(is_readable(inbox));
  tp_inbox_free(inbox);
  close_runtime(runtime);
}

/* ---- what is refused ---- */

TEST(what_does_not_go_together_is_refused) {
  tp_runtime *runtime = open_runtime(NULL), *other = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0), *strange = open_inbox(other, 0);
  const tp_subscription unbounded = {0}, bounded = {.max_concurrent = 4};
  assert_int_equal(add_status(runtime, "g", GATHER, NULL, (tp_handler){0}, unbounded), TP_ERR_USAGE);
  assert_int_equal(add_status(runtime, "g", GATHER, inbox, (tp_handler){.run = play}, unbounded), TP_ERR_USAGE);
  assert_int_equal(add_status(runtime, "g", GATHER, inbox, (tp_handler){.placement = TP_PLACEMENT_INLINE}, unbounded),
                   TP_ERR_USAGE);
  assert_int_equal(add_status(runtime, "g", GATHER, strange, (tp_handler){0}, unbounded), TP_ERR_USAGE);
  assert_int_equal(add_status(runtime, "g", GATHER, inbox, (tp_handler){0}, bounded), TP_ERR_USAGE);
  tp_inbox *none = NULL;
  tp_fault fault = {0};
  tp_inbox_options huge = {.struct_size = sizeof huge, .capacity = UINT32_MAX};
  assert_int_equal(tp_inbox_new(runtime, &huge, &none, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "capacity"));
  tp_inbox_options many = {.struct_size = sizeof many, .event_capacity = UINT32_MAX};
  assert_int_equal(tp_inbox_new(runtime, &many, &none, &fault), TP_ERR_USAGE);
  assert_null(none);
  const tp_work *work;
  assert_int_equal(tp_inbox_next(NULL, &work), TP_ERR_USAGE);
  assert_false(tp_token_open((tp_token){0}));
  tp_inbox_free(inbox);
  tp_inbox_free(strange);
  close_runtime(runtime);
  close_runtime(other);
}

TEST(child_of_a_fork_leaves_the_inbox_alone) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  pid_t child = fork();
  if (child == 0) {
    const tp_work *work;
    bool refused = tp_inbox_next(inbox, &work) == TP_ERR_FORKED;
    tp_inbox_free(inbox);
    _exit(refused ? 0 : 1);
  }
  int ended = 1;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  tp_inbox_free(inbox);
  close_runtime(runtime);
}
