/* SPDX-License-Identifier: Apache-2.0
 *
 * A runtime without threads: a host pumps it from a poll loop, or waiting functions do. No case starts a thread unless
 * it says so, and after each case the process has no additional thread. */
#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/inbox.h"
#include "tests/support/world.h"

/* ---- the host ---- */

static int thread_count(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  assert_non_null(tasks);
  for (const struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static int threads_before;

static void *do_nothing(void *arg) { return arg; }

/* ThreadSanitizer starts a thread of its own together with the first thread of the process. */
static int count_threads_before(void **state) {
  (void)state;
  pthread_t first;
  if (!threads_before && (pthread_create(&first, NULL, do_nothing, NULL) != 0 || pthread_join(first, NULL) != 0))
    return -1;
  threads_before = thread_count();
  return 0;
}

/* A thread that was joined may be listed for a moment more. */
static int count_threads_after(void **state) {
  (void)state;
  int64_t end_ns = now_ns() + (int64_t)LONG_MS * 1000000;
  while (thread_count() != threads_before && now_ns() < end_ns) sched_yield();
  return thread_count() == threads_before ? 0 : -1;
}
FOR_EACH_TEST(count_threads_before, count_threads_after);

static tp_runtime_options pumped(void) {
  return (tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .pump = true};
}

static tp_runtime *open_pumped(void) {
  const tp_runtime_options options = pumped();
  tp_runtime *runtime = open_runtime(&options);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  return runtime;
}

static bool has_work(const tp_runtime *runtime) {
  struct pollfd polled = {.fd = tp_runtime_fd(runtime), .events = POLLIN};
  return poll(&polled, 1, 0) == 1;
}

static int pump_once(tp_runtime *runtime) {
  int wait_ms = -2;
  assert_int_equal(tp_runtime_pump(runtime, 0, &wait_ms, NULL), TP_OK);
  assert_int_not_equal(wait_ms, -2);
  return wait_ms;
}

/* The loop of a host, until done. */
static void pump_until(tp_runtime *runtime, const bool *done) {
  for (int i = 0; !*done; i++) {
    int wait_ms = pump_once(runtime);
    struct pollfd polled = {.fd = tp_runtime_fd(runtime), .events = POLLIN};
    if (!*done) assert_true(poll(&polled, 1, wait_ms < 0 ? LONG_MS : wait_ms) > 0 || wait_ms >= 0);
    assert_true(i < 100000);
  }
}

typedef struct ended {
  bool done;
  tp_turn_outcome outcome;
  char text[64];
  pthread_t thread;
} ended;

static void note_turn(void *ctx, const tp_turn_result *result) {
  ended *e = ctx;
  e->outcome = result->outcome;
  snprintf(e->text, sizeof e->text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  e->thread = pthread_self();
  e->done = true;
}

static tp_turn_request ask_for(const char *text) {
  return (tp_turn_request){.struct_size = sizeof(tp_turn_request), .text = tp_text_of(text), .limit_ms = LONG_MS};
}

static void submit_turn(tp_session *session, const char *text, ended *e) {
  const tp_turn_request request = ask_for(text);
  *e = (ended){.done = false};
  assert_int_equal(tp_turn_submit(session, &request, note_turn, e, NULL, NULL), TP_OK);
}

/* ---- a handler that says where it runs ---- */

typedef struct where {
  pthread_t thread;
  int threads, calls;
} where;

static tp_answer note_where(void *ctx, tp_call *call) {
  where *w = ctx;
  w->thread = pthread_self();
  w->threads = thread_count();
  w->calls++;
  (void)call;
  return TP_ANSWER_DONE;
}

/* ---- a turn ---- */

static const reply hello[] = {{.text = "hello"}};

TEST(synchronous_turn_runs_on_its_callers_thread) {
  where slow = {.calls = 0}, fast = {.calls = 0};
  const hook hooks[] = {{.id = "slow", .phase = TP_PHASE_TURN_POST_TURN, .run = note_where, .ctx = &slow, .slow = true},
                        {.id = "fast", .phase = TP_PHASE_TURN_POST_TURN, .run = note_where, .ctx = &fast}};
  world_stage w;
  world_open(&w,
             &(world_options){
                 .runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = COUNT(hooks)});
  const tp_turn_request request = ask_for("hi");
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_text(result->text, "hello");
  assert_int_equal(slow.calls + fast.calls, 2);
  assert_true(pthread_equal(slow.thread, pthread_self()) && pthread_equal(fast.thread, pthread_self()));
  assert_int_equal(slow.threads, threads_before);
  tp_turn_result_free(result);
  world_close(&w);
}

TEST(poll_loop_runs_a_submitted_turn_to_its_end) {
  where slow = {.calls = 0};
  const hook hooks[] = {{.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .run = note_where, .ctx = &slow, .slow = true}};
  world_stage w;
  ended e;
  world_open(&w,
             &(world_options){
                 .runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = COUNT(hooks)});
  assert_false(has_work(w.runtime));
  submit_turn(w.session, "hi", &e);
  assert_true(has_work(w.runtime));
  assert_int_equal(slow.calls, 0);
  pump_until(w.runtime, &e.done);
  assert_int_equal(e.outcome, TP_TURN_COMPLETED);
  assert_string_equal(e.text, "hello");
  assert_true(pthread_equal(e.thread, pthread_self()));
  assert_int_equal(slow.threads, threads_before);
  assert_int_equal(pump_once(w.runtime), -1);
  assert_false(has_work(w.runtime));
  world_close(&w);
}

TEST(many_turns_of_many_sessions_run_in_one_loop) {
  enum { SESSIONS = 50, TURNS = 4 };
  world_stage w;
  tp_session *sessions[SESSIONS];
  ended ends[SESSIONS][TURNS];
  world_open(&w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1});
  for (int s = 0; s < SESSIONS; s++) {
    char id[16];
    snprintf(id, sizeof id, "many-%d", s);
    recorder_model(w.model, s % 2);
    w.model->model.destroy = NULL;
    const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &w.model->model};
    assert_int_equal(tp_session_open(w.runtime, &options, &sessions[s], NULL), TP_OK);
    for (int t = 0; t < TURNS; t++) submit_turn(sessions[s], "hi", &ends[s][t]);
  }
  for (int s = 0; s < SESSIONS; s++) {
    for (int t = 0; t < TURNS; t++) {
      pump_until(w.runtime, &ends[s][t].done);
      assert_int_equal(ends[s][t].outcome, TP_TURN_COMPLETED);
    }
    tp_session_close(sessions[s], NULL, NULL);
  }
  assert_int_equal(thread_count(), threads_before);
  world_close(&w);
}

TEST(items_bound_what_one_pump_runs) {
  world_stage w;
  ended e;
  int pumps = 0, wait_ms;
  world_open(&w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1});
  submit_turn(w.session, "hi", &e);
  do {
    assert_int_equal(tp_runtime_pump(w.runtime, 1, &wait_ms, NULL), TP_OK);
    pumps++;
    assert_true(wait_ms != 0 || has_work(w.runtime)); /* the descriptor says it, too */
  } while (wait_ms == 0 && pumps < 1000);
  assert_true(e.done);
  assert_in_range(pumps, 2, 100);
  assert_false(has_work(w.runtime));
  world_close(&w);
}

static int pumps_of_turns(uint32_t items_max) {
  enum { TURNS = 6 };
  world_stage w;
  ended e[TURNS];
  int pumps = 0, wait_ms;
  world_open(&w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1});
  for (int i = 0; i < TURNS; i++) submit_turn(w.session, "hi", &e[i]);
  do assert_int_equal(tp_runtime_pump(w.runtime, items_max, &wait_ms, NULL), TP_OK);
  while (pumps++, wait_ms == 0);
  for (int i = 0; i < TURNS; i++) assert_true(e[i].done);
  world_close(&w);
  return pumps;
}

/* Turns have the same items each time, and the last pump may find fewer. */
TEST(twice_the_items_take_half_the_pumps) {
  int ones = pumps_of_turns(1), twos = pumps_of_turns(2);
  print_message("# %d pumps of one item, %d of two\n", ones, twos);
  assert_true(2 * twos <= ones + 1 && 2 * twos >= ones);
}

/* ---- time, and other threads ---- */

TEST(deadline_of_a_deferral_is_what_the_pump_waits_for) {
  act never = {.defers = true};
  world_stage w;
  ended e;
  const hook hooks[] = {{.id = "guard",
                         .phase = TP_PHASE_TURN_INTAKE,
                         .ctx = &never,
                         .slow = true,
                         .sub = {.limit_ms = 20, .failure = TP_FAILURE_REQUIRED}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  submit_turn(w.session, "hi", &e);
  int wait_ms = pump_once(w.runtime);
  assert_false(e.done);
  assert_in_range(wait_ms, 0, 20);
  pump_until(w.runtime, &e.done);
  assert_int_equal(e.outcome, TP_TURN_DENIED);
  assert_int_equal(tp_token_abandon(never.token, NULL), TP_OK);
  world_close(&w);
}

static void *complete(void *token) {
  const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  (void)!tp_token_complete(*(tp_token *)token, &done, NULL);
  return NULL;
}

TEST(completion_on_another_thread_shows_at_the_descriptor) {
  act later = {.defers = true};
  world_stage w;
  ended e;
  const hook hooks[] = {{.id = "slow",
                         .phase = TP_PHASE_TURN_INTAKE,
                         .ctx = &later,
                         .slow = true,
                         .sub = {.limit_ms = LONG_MS, .failure = TP_FAILURE_REQUIRED}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  submit_turn(w.session, "hi", &e);
  assert_in_range(pump_once(w.runtime), 1, LONG_MS);
  assert_false(has_work(w.runtime));
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, complete, &later.token), 0);
  struct pollfd polled = {.fd = tp_runtime_fd(w.runtime), .events = POLLIN};
  assert_int_equal(poll(&polled, 1, LONG_MS), 1);
  assert_false(e.done); /* the completing thread runs none of it */
  pump_until(w.runtime, &e.done);
  assert_int_equal(e.outcome, TP_TURN_COMPLETED);
  pthread_join(other, NULL);
  world_close(&w);
}

/* Waits for a turn that only pumping ends. */
static void *run_turn(void *session) {
  const tp_turn_request request = ask_for("hi");
  const tp_turn_result *result;
  if (tp_turn_run(session, &request, &result, NULL) != TP_OK) return NULL;
  bool completed = result->outcome == TP_TURN_COMPLETED;
  tp_turn_result_free(result);
  return completed ? session : NULL;
}

TEST(thread_that_waits_pumps_where_no_other_does) {
  world_stage w;
  where slow = {.calls = 0};
  const hook hooks[] = {{.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .run = note_where, .ctx = &slow, .slow = true}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  pthread_t other;
  void *got;
  assert_int_equal(pthread_create(&other, NULL, run_turn, w.session), 0);
  pthread_t number = other;
  pthread_join(other, &got);
  assert_ptr_equal(got, w.session);
  assert_true(pthread_equal(slow.thread, number));
  world_close(&w);
}

/* Many that wait at once look one after the other, and sleep: all turns end. */
TEST(many_threads_that_wait_share_the_pump) {
  enum { THREADS = 8 };
  world_stage w;
  where slow = {.calls = 0};
  tp_session *sessions[THREADS];
  pthread_t threads[THREADS];
  void *got;
  const hook hooks[] = {{.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .run = note_where, .ctx = &slow, .slow = true}};
  world_open(&w,
             &(world_options){
                 .runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = COUNT(hooks)});
  tp_model model = *recorder_model(w.model, false);
  model.destroy = NULL;
  for (int i = 0; i < THREADS; i++) {
    char id[16];
    snprintf(id, sizeof id, "many-%d", i);
    const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &model};
    assert_int_equal(tp_session_open(w.runtime, &options, &sessions[i], NULL), TP_OK);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_turn, sessions[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], &got);
    assert_ptr_equal(got, sessions[i]);
    tp_session_close(sessions[i], NULL, NULL);
  }
  assert_int_equal(slow.calls, THREADS); /* one at a time: the count needs no lock */
  world_close(&w);
}

typedef struct holder {
  latch entered, goes;
} holder;

static tp_answer hold_pump(void *ctx, tp_call *call) {
  holder *h = ctx;
  (void)call;
  latch_hit(&h->entered);
  latch_wait(&h->goes, 1);
  return TP_ANSWER_DONE;
}

TEST(second_thread_is_busy_while_one_pumps) {
  world_stage w;
  holder h = {LATCH, LATCH};
  tp_fault fault = {0};
  int wait_ms = 17;
  const hook hooks[] = {{.id = "slow",
                         .phase = TP_PHASE_TURN_INTAKE,
                         .run = hold_pump,
                         .ctx = &h,
                         .slow = true,
                         .sub = {.limit_ms = LONG_MS}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  pthread_t other;
  void *got;
  assert_int_equal(pthread_create(&other, NULL, run_turn, w.session), 0);
  latch_wait(&h.entered, 1);
  assert_int_equal(tp_runtime_pump(w.runtime, 0, &wait_ms, &fault), TP_ERR_BUSY);
  assert_string_equal(fault.message, "another thread pumps this runtime");
  assert_int_equal(wait_ms, 17);
  assert_false(has_work(w.runtime)); /* it shows again when that thread has left */
  latch_hit(&h.goes);
  pthread_join(other, &got);
  assert_ptr_equal(got, w.session);
  assert_true(has_work(w.runtime));
  assert_int_equal(tp_runtime_pump(w.runtime, 0, &wait_ms, &fault), TP_OK);
  world_close(&w);
}

/* ---- what waits, pumps ---- */

TEST(wait_for_a_submission_pumps) {
  world_stage w;
  tp_submission *submission;
  const tp_turn_result *result;
  const tp_turn_request request = ask_for("hi");
  where slow = {.calls = 0};
  const hook hooks[] = {{.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .run = note_where, .ctx = &slow, .slow = true}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  assert_int_equal(tp_submission_wait(submission, 0, &result, NULL), TP_ERR_TIMEOUT);
  assert_int_equal(tp_submission_wait(submission, LONG_MS, &result, NULL), TP_OK);
  assert_text(result->text, "hello");
  assert_int_equal(slow.calls, 1);
  tp_submission_unref(submission);
  world_close(&w);
}

/* The waiting thread is the only one, so it must wake for events that are due before its own limit. */
TEST(wait_for_a_submission_fires_the_deadlines_of_its_turn) {
  world_stage w;
  tp_submission *submission;
  const tp_turn_result *result;
  act never = {.defers = true};
  const tp_turn_request request = ask_for("hi");
  const hook hooks[] = {{.id = "guard",
                         .phase = TP_PHASE_TURN_INTAKE,
                         .ctx = &never,
                         .slow = true,
                         .sub = {.limit_ms = 20, .failure = TP_FAILURE_REQUIRED}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  assert_int_equal(tp_submission_wait(submission, LONG_MS, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_DENIED);
  tp_submission_unref(submission);
  assert_int_equal(tp_token_abandon(never.token, NULL), TP_OK);
  world_close(&w);
}

/* What was left of a pump that a wait ended shows to the poll loop. */
TEST(what_a_wait_has_left_shows_at_the_descriptor) {
  world_stage w;
  ended e;
  act never = {.defers = true};
  const tp_turn_result *result;
  const tp_turn_request request = ask_for("hi");
  const hook hooks[] = {
      {.id = "late", .phase = TP_PHASE_TURN_POST_TURN, .ctx = &never, .slow = true, .sub = {.limit_ms = 30}}};
  world_open(&w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1});
  assert_int_equal(pump_once(w.runtime), -1);
  assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_OK);
  tp_turn_result_free(result);
  pump_once(w.runtime);
  add_hooks(w.runtime, hooks, 1);
  submit_turn(w.session, "hi", &e);
  pump_until(w.runtime, &e.done);
  assert_int_equal(tp_token_abandon(never.token, NULL), TP_OK);
  world_close(&w);
}

TEST(drain_and_free_pump) {
  enum { TURNS = 20 };
  world_stage w;
  ended ends[TURNS];
  where slow = {.calls = 0};
  tp_drain_report report = {.struct_size = sizeof report};
  const hook hooks[] = {{.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .run = note_where, .ctx = &slow, .slow = true}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  for (int i = 0; i < TURNS; i++) submit_turn(w.session, "hi", &ends[i]);
  assert_int_equal(tp_runtime_drain(w.runtime, LONG_MS, &report, NULL), TP_OK);
  assert_int_equal(report.turns_cancelled, 0);
  assert_true(report.complete);
  for (int i = 0; i < TURNS; i++) assert_int_equal(ends[i].outcome, TP_TURN_COMPLETED);
  assert_int_equal(slow.calls, TURNS);
  assert_int_equal(pump_once(w.runtime), -1);
  world_close(&w);
}

TEST(free_cancels_what_was_never_pumped) {
  world_stage w;
  ended e;
  act never = {.defers = true};
  const hook hooks[] = {
      {.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .ctx = &never, .slow = true, .sub = {.limit_ms = LONG_MS}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  submit_turn(w.session, "hi", &e);
  tp_session_close(w.session, NULL, NULL);
  tp_runtime_free(w.runtime);
  assert_true(e.done);
  assert_int_equal(e.outcome, TP_TURN_CANCELLED);
  recorder_free(w.model);
}

/* ---- a drain that was submitted ---- */

typedef struct drained {
  bool done;
  tp_drain_report report;
} drained;

static void note_drain(void *ctx, const tp_drain_report *report) {
  drained *d = ctx;
  d->report = *report;
  d->done = true;
}

TEST(submitted_drain_goes_on_between_pumps) {
  world_stage w;
  ended e;
  drained d = {.done = false};
  world_open(&w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1});
  tp_inbox *inbox = open_inbox(w.runtime, 0);
  add(w.runtime, "guard", TP_PHASE_TURN_INTAKE, inbox, (tp_subscription){.limit_ms = LONG_MS});
  submit_turn(w.session, "hi", &e);
  assert_int_equal(tp_runtime_drain_submit(w.runtime, LONG_MS, note_drain, &d, NULL), TP_OK);
  assert_int_equal(tp_runtime_drain_submit(w.runtime, 0, note_drain, &d, NULL), TP_ERR_BUSY);
  for (int i = 0; i < 10; i++) assert_in_range(pump_once(w.runtime), 0, 1); /* it looks again soon, and does not wait */
  assert_false(d.done || e.done);
  assert_int_equal(answer(take_next(inbox), TP_ANSWER_DONE, NULL), TP_OK); /* by the thread that pumps */
  pump_until(w.runtime, &d.done);
  assert_true(e.done);
  assert_int_equal(e.outcome, TP_TURN_COMPLETED);
  assert_int_equal(d.report.turns_cancelled, 0);
  assert_true(d.report.complete);
  assert_int_equal(thread_count(), threads_before);
  tp_inbox_free(inbox);
  world_close(&w);
}

TEST(submitted_drain_cancels_after_its_limit) {
  world_stage w;
  ended e;
  drained d = {.done = false};
  act never = {.defers = true};
  const hook hooks[] = {
      {.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .ctx = &never, .slow = true, .sub = {.limit_ms = LONG_MS}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  submit_turn(w.session, "hi", &e);
  pump_once(w.runtime);
  assert_int_equal(tp_runtime_drain_submit(w.runtime, 5, note_drain, &d, NULL), TP_OK);
  pump_until(w.runtime, &d.done);
  assert_int_equal(e.outcome, TP_TURN_CANCELLED);
  assert_int_equal(d.report.turns_cancelled, 1);
  assert_int_equal(tp_token_abandon(never.token, NULL), TP_OK);
  world_close(&w);
}

TEST(submitted_drain_of_a_runtime_that_never_started_ends) {
  const tp_runtime_options options = pumped();
  tp_runtime *runtime = open_runtime(&options);
  drained d = {.done = false};
  assert_int_equal(tp_runtime_fd(runtime), -1);
  assert_int_equal(pump_once(runtime), -1);
  assert_int_equal(tp_runtime_drain_submit(runtime, 0, note_drain, &d, NULL), TP_OK);
  pump_until(runtime, &d.done);
  assert_true(d.report.complete);
  tp_runtime_free(runtime);
}

TEST(submitted_drain_that_is_never_pumped_ends_with_the_runtime) {
  tp_runtime *runtime = open_pumped();
  drained d = {.done = false};
  assert_int_equal(tp_runtime_drain_submit(runtime, LONG_MS, note_drain, &d, NULL), TP_OK);
  tp_runtime_free(runtime);
  assert_true(d.done);
}

/* ---- jobs ---- */

static void note_jobs(void *ctx, const tp_jobs_wait_result *result) { *(bool *)ctx = result->status == TP_OK; }

TEST(background_jobs_run_in_the_pump) {
  where job = {.calls = 0};
  world_stage w;
  ended e;
  bool over = false;
  const hook hooks[] = {{.id = "job",
                         .phase = TP_PHASE_TURN_POST_TURN,
                         .run = note_where,
                         .ctx = &job,
                         .slow = true,
                         .sub = {.execution = TP_EXECUTION_BACKGROUND}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  submit_turn(w.session, "hi", &e);
  pump_until(w.runtime, &e.done);
  assert_int_equal(tp_jobs_wait_submit(w.runtime, NULL, LONG_MS, note_jobs, &over, NULL), TP_OK);
  pump_until(w.runtime, &over);
  assert_int_equal(job.calls, 1);
  submit_turn(w.session, "hi", &e);
  pump_until(w.runtime, &e.done);
  assert_int_equal(tp_jobs_wait(w.runtime, "", LONG_MS, NULL), TP_OK);
  assert_int_equal(job.calls, 2);
  assert_int_equal(job.threads, threads_before);
  world_close(&w);
}

/* ---- functions that wait: they pump above their own frames ---- */

typedef struct nest {
  tp_runtime *runtime;
  const tp_model *model;
  tp_tool tool;
  int sessions, inside, inside_most, full;
} nest;

static const tp_answer done = TP_ANSWER_DONE;

/* Runs a turn of a session of its own, whose model asks for a summary by the same handler, up to the deepest
 * nesting. */
static tp_answer run_nested(void *ctx, tp_call *call) {
  nest *n = ctx;
  char id[32];
  tp_session *session;
  tp_fault fault = {0};
  const tp_turn_request request = ask_for("deeper");
  snprintf(id, sizeof id, "nested-%d", n->sessions++);
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = n->model};
  if (tp_session_open(n->runtime, &options, &session, NULL) != TP_OK) return TP_ANSWER_FAILED;
  if (++n->inside > n->inside_most) n->inside_most = n->inside;
  const tp_turn_result *result = NULL;
  tp_status status = tp_call_run_turn(call, session, &request, &result, &fault);
  n->full += status == TP_ERR_FULL;
  if (status == TP_OK) tp_turn_result_free(result);
  n->inside--;
  tp_session_close(session, NULL, NULL);
  return done;
}

TEST(nested_turns_run_above_the_call_that_waits) {
  nest n = {.sessions = 0};
  world_stage w;
  const hook hooks[] = {{.id = "nest",
                         .phase = TP_PHASE_TURN_INTAKE,
                         .run = run_nested,
                         .ctx = &n,
                         .slow = true,
                         .sub = {.limit_ms = LONG_MS}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  tp_model model = *recorder_model(w.model, true);
  model.destroy = NULL;
  n.runtime = w.runtime;
  n.model = &model;
  const tp_turn_request request = ask_for("hi");
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(n.sessions, 5); /* the deepest one may nest no more */
  assert_int_equal(n.inside_most, 5);
  tp_turn_result_free(result);
  world_close(&w);
}

/* Many sessions, each with a waiting call. Those that find the stack full are refused, and all turns end. */
TEST(at_most_sixteen_calls_wait_on_the_stack) {
  enum { SESSIONS = 20 };
  nest n = {.sessions = 0};
  world_stage w;
  tp_session *sessions[SESSIONS];
  ended ends[SESSIONS];
  const hook hooks[] = {{.id = "nest",
                         .phase = TP_PHASE_TURN_INTAKE,
                         .run = run_nested,
                         .ctx = &n,
                         .slow = true,
                         .sub = {.limit_ms = LONG_MS, .max_concurrent = 64}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  tp_model model = *recorder_model(w.model, true);
  model.destroy = NULL;
  n.runtime = w.runtime;
  n.model = &model;
  for (int s = 0; s < SESSIONS; s++) {
    char id[16];
    snprintf(id, sizeof id, "many-%d", s);
    const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &model};
    assert_int_equal(tp_session_open(w.runtime, &options, &sessions[s], NULL), TP_OK);
    submit_turn(sessions[s], "hi", &ends[s]);
  }
  for (int s = 0; s < SESSIONS; s++) {
    pump_until(w.runtime, &ends[s].done);
    assert_int_equal(ends[s].outcome, TP_TURN_COMPLETED);
    tp_session_close(sessions[s], NULL, NULL);
  }
  assert_in_range(n.inside_most, 5, 17);
  assert_true(n.full > 0);
  world_close(&w);
}

typedef struct asker {
  const tp_model *model;
  tp_status status;
  char text[32];
} asker;

static tp_answer ask_model(void *ctx, tp_call *call) {
  asker *a = ctx;
  static const tp_message hi = {.struct_size = sizeof hi, .role = TP_ROLE_USER, .text = TEXT("Hi")};
  static const tp_message *const messages[] = {&hi};
  const tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 1};
  tp_model_response response = {.struct_size = sizeof response};
  a->status = tp_call_ask_model(call, a->model, &request, &response, NULL, NULL);
  snprintf(a->text, sizeof a->text, "%.*s", (int)response.text.size, response.text.size ? response.text.data : "");
  return TP_ANSWER_DONE;
}

TEST(model_that_blocks_is_asked_above_the_call_that_waits) {
  asker a = {.status = TP_ERR_INTERNAL};
  world_stage w;
  ended e;
  const hook hooks[] = {{.id = "asker",
                         .phase = TP_PHASE_TURN_INTAKE,
                         .run = ask_model,
                         .ctx = &a,
                         .slow = true,
                         .sub = {.limit_ms = LONG_MS}}};
  world_open(
      &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
  tp_model model = *recorder_model(w.model, false);
  model.destroy = NULL;
  a.model = &model;
  submit_turn(w.session, "hi", &e);
  pump_until(w.runtime, &e.done);
  assert_int_equal(a.status, TP_OK);
  assert_string_equal(a.text, "hello");
  world_close(&w);
}

/* ---- what is refused ---- */

typedef struct inner {
  tp_runtime *runtime;
  tp_status pump, drain;
  char message[TP_FAULT_MESSAGE_SIZE];
} inner;

static tp_answer pump_inside(void *ctx, tp_call *call) {
  inner *i = ctx;
  tp_fault fault = {0};
  (void)call;
  i->pump = tp_runtime_pump(i->runtime, 0, NULL, &fault);
  snprintf(i->message, sizeof i->message, "%s", fault.message);
  i->drain = tp_runtime_drain(i->runtime, 0, NULL, NULL);
  return TP_ANSWER_DONE;
}

TEST(pump_inside_of_a_handler_is_refused) {
  for (int slow = 0; slow < 2; slow++) {
    inner i = {.pump = TP_OK};
    world_stage w;
    ended e;
    const hook hooks[] = {
        {.id = "inner", .phase = TP_PHASE_TURN_INTAKE, .run = pump_inside, .ctx = &i, .slow = slow == 1}};
    world_open(
        &w, &(world_options){.runtime = pumped(), .replies = hello, .reply_count = 1, .hooks = hooks, .hook_count = 1});
    i.runtime = w.runtime;
    submit_turn(w.session, "hi", &e);
    pump_until(w.runtime, &e.done);
    assert_int_equal(i.pump, TP_ERR_USAGE);
    assert_string_equal(i.message, "tp_runtime_pump() was called from inside a handler or a callback");
    assert_int_equal(i.drain, TP_ERR_USAGE);
    world_close(&w);
  }
}

TEST(pump_of_a_runtime_with_threads_is_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_fault fault = {0};
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  assert_int_equal(tp_runtime_pump(runtime, 0, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "tp_runtime_options.pump"));
  assert_int_equal(tp_runtime_fd(runtime), -1);
  tp_runtime_free(runtime);
}

TEST(options_that_count_threads_are_refused) {
  static const struct {
    const char *name;
    tp_runtime_options options;
  } rows[] = {
      {"engine_workers", {.engine_workers = 1}},   {"no_engine_workers", {.no_engine_workers = true}},
      {"handler_threads", {.handler_threads = 1}}, {"detached_threads", {.detached_threads = 1}},
      {"tool_threads", {.tool_threads = 1}},       {"abandoned_threads_max", {.abandoned_threads_max = 1}},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_runtime_options options = rows[i].options;
    tp_runtime *runtime = NULL;
    tp_fault fault = {0};
    options.struct_size = sizeof options;
    options.pump = true;
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, rows[i].name));
    assert_null(runtime);
  }
}

TEST(threads_of_abandoned_functions_are_refused) {
  tp_runtime *runtime = open_pumped();
  assert_int_equal(tp_runtime_set_abandoned_max(runtime, 5, 0, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_runtime_set_abandoned_max(runtime, 0, 1 << 20, NULL), TP_OK);
  tp_runtime_free(runtime);
}

TEST(child_of_a_fork_does_not_pump) {
  tp_runtime *runtime = open_pumped();
  pid_t child = fork();
  if (child == 0) {
    bool right = tp_runtime_pump(runtime, 0, NULL, NULL) == TP_ERR_FORKED && tp_runtime_fd(runtime) == -1;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  tp_runtime_free(runtime);
}
