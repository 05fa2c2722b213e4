/* SPDX-License-Identifier: Apache-2.0
 *
 * Submitted forms of functions that only block: a drain and a wait for jobs. */
#include "tests/support/test.h"
#include "tests/support/model.h"

typedef struct drained {
  latch ended, leave;
  bool waits;
  tp_drain_report report;
  tp_status inside; /* of a drain that on_end asked for */
  tp_runtime *runtime;
} drained;

static void on_drained(void *ctx, const tp_drain_report *report) {
  drained *d = ctx;
  d->report = *report;
  d->inside = tp_runtime_drain(d->runtime, 0, NULL, NULL);
  latch_hit(&d->ended);
  if (d->waits) latch_wait(&d->leave, 1);
}

static tp_session *open_session(tp_runtime *runtime, recorder *model) {
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  return session;
}

TEST(submitted_drain_refuses_new_turns_at_once_and_reports_when_it_is_over) {
  static const reply replies[] = {{.never = true}};
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, 1);
  tp_session *session = open_session(runtime, model);
  tp_submission *submission;
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&model->started, 1);
  drained d = {.ended = LATCH, .leave = LATCH, .runtime = runtime};
  assert_int_equal(tp_runtime_drain_submit(runtime, 60000, on_drained, &d, NULL), TP_OK);
  tp_fault fault = {0};
  assert_int_equal(tp_turn_run(session, &request, NULL, &fault), TP_ERR_SHUTDOWN);
  assert_int_equal(latch_count(&d.ended), 0); /* the turn runs: the drain waits, and the host does not */
  assert_int_equal(tp_runtime_drain_submit(runtime, 0, on_drained, &d, &fault), TP_ERR_BUSY);
  assert_non_null(strstr(fault.message, "submitted before"));
  tp_submission_cancel(submission);
  latch_wait(&d.ended, 1);
  assert_int_equal(d.report.struct_size, sizeof d.report);
  assert_true(d.report.complete);
  assert_int_equal(d.report.turns_cancelled, 0);
  assert_int_equal(d.inside, TP_ERR_USAGE);
  tp_submission_unref(submission);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  assert_int_equal(latch_count(&d.ended), 1);
  recorder_free(model);
}

TEST(submitted_drain_cancels_behind_its_limit) {
  static const reply replies[] = {{.never = true}};
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, 1);
  tp_session *session = open_session(runtime, model);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, NULL, NULL), TP_OK);
  latch_wait(&model->started, 1);
  drained d = {.ended = LATCH, .leave = LATCH, .runtime = runtime};
  assert_int_equal(tp_runtime_drain_submit(runtime, 10, on_drained, &d, NULL), TP_OK);
  latch_wait(&d.ended, 1);
  assert_int_equal(d.report.turns_cancelled, 1);
  close_runtime(runtime);
  recorder_free(model);
}

static tp_answer drain_from_inside(void *ctx, tp_call *call) {
  (void)call;
  drained *d = ctx;
  d->inside = tp_runtime_drain_submit(d->runtime, 20000, NULL, NULL, NULL);
  return TP_ANSWER_DONE;
}

TEST(handler_may_submit_a_drain) {
  static const reply replies[] = {{.text = "hi"}};
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, 1);
  drained d = {.runtime = runtime, .inside = TP_ERR_INTERNAL};
  add_hooks(runtime, &(hook){.id = "h", .phase = TP_PHASE_TURN_INTAKE, .run = drain_from_inside, .ctx = &d}, 1);
  tp_session *session = open_session(runtime, model);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED); /* the turn had the time that the drain gave */
  tp_turn_result_free(result);
  assert_int_equal(d.inside, TP_OK);
  close_runtime(runtime);
  recorder_free(model);
}

static void *free_runtime(void *runtime) {
  tp_runtime_free(runtime);
  return NULL;
}

TEST(free_waits_until_the_end_of_a_submitted_drain_was_notified) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  drained d = {.ended = LATCH, .leave = LATCH, .waits = true, .runtime = runtime};
  assert_int_equal(tp_runtime_drain_submit(runtime, 0, on_drained, &d, NULL), TP_OK);
  latch_wait(&d.ended, 1);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, free_runtime, runtime), 0);
  assert_ptr_equal(tp_runtime_data(runtime), NULL); /* the runtime is not freed yet, since on_end runs */
  latch_hit(&d.leave);
  pthread_join(thread, NULL);
}

TEST(runtime_that_was_never_started_or_is_drained_takes_a_submitted_drain) {
  for (int drains = 0; drains < 2; drains++) {
    tp_runtime *runtime = open_runtime(NULL);
    if (drains) assert_int_equal(tp_runtime_drain(runtime, 0, NULL, NULL), TP_OK);
    drained d = {.ended = LATCH, .runtime = runtime};
    assert_int_equal(tp_runtime_drain_submit(runtime, 0, on_drained, &d, NULL), TP_OK);
    latch_wait(&d.ended, 1);
    assert_true(d.report.complete);
    assert_int_equal(tp_runtime_start(runtime, NULL), TP_ERR_SHUTDOWN);
    close_runtime(runtime);
  }
}

/* ---- jobs ---- */

typedef struct waited {
  latch ended;
  tp_status status;
} waited;

static void on_waited(void *ctx, const tp_jobs_wait_result *result) {
  waited *w = ctx;
  w->status = result->struct_size == sizeof *result ? result->status : TP_ERR_INTERNAL;
  latch_hit(&w->ended);
}

typedef struct working {
  tp_runtime *runtime;
  tp_session *session;
  act job;
  latch entered, leave;
} working;

/* A job of session s that waits for `leave`. */
static void open_working(working *w) {
  *w = (working){.runtime = open_runtime(NULL), .entered = LATCH, .leave = LATCH};
  w->job = (act){.entered = &w->entered, .waits_for = &w->leave};
  hook h = {.id = "job",
            .phase = TP_PHASE_TURN_POST_TURN,
            .ctx = &w->job,
            .slow = true,
            .sub = {.execution = TP_EXECUTION_BACKGROUND}};
  add_hooks(w->runtime, &h, 1);
  tp_session_options options = {.struct_size = sizeof options, .id = "s"};
  assert_int_equal(tp_session_open(w->runtime, &options, &w->session, NULL), TP_OK);
  tp_turn *turn;
  assert_int_equal(tp_turn_begin(w->session, NULL, &turn, NULL), TP_OK);
  run_phase(turn, TP_PHASE_TURN_POST_TURN, NULL);
  tp_turn_end(turn);
  latch_wait(&w->entered, 1);
}

TEST(submitted_wait_ends_when_the_order_key_has_no_open_job) {
  working w;
  open_working(&w);
  waited all = {.ended = LATCH}, own = {.ended = LATCH}, other = {.ended = LATCH}, late = {.ended = LATCH};
  char key[] = "s";
  assert_int_equal(tp_jobs_wait_submit(w.runtime, NULL, 60000, on_waited, &all, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait_submit(w.runtime, key, 60000, on_waited, &own, NULL), TP_OK);
  key[0] = 'x'; /* the library has copied the key */
  assert_int_equal(tp_jobs_wait_submit(w.runtime, "other", 60000, on_waited, &other, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait_submit(w.runtime, "s", 5, on_waited, &late, NULL), TP_OK);
  latch_wait(&other.ended, 1);
  latch_wait(&late.ended, 1);
  assert_int_equal(other.status, TP_OK);
  assert_int_equal(late.status, TP_ERR_TIMEOUT);
  assert_int_equal(latch_count(&all.ended) + latch_count(&own.ended), 0);
  latch_hit(&w.leave);
  latch_wait(&all.ended, 1);
  latch_wait(&own.ended, 1);
  assert_int_equal(all.status, TP_OK);
  assert_int_equal(own.status, TP_OK);
  waited none = {.ended = LATCH};
  assert_int_equal(tp_jobs_wait_submit(w.runtime, "s", 0, on_waited, &none, NULL), TP_OK);
  latch_wait(&none.ended, 1);
  assert_int_equal(none.status, TP_OK);
  tp_session_close(w.session, NULL, NULL);
  close_runtime(w.runtime);
}

TEST(drain_ends_waits_for_jobs_that_it_does_not_run) {
  working w;
  open_working(&w);
  waited wait = {.ended = LATCH};
  assert_int_equal(tp_jobs_wait_submit(w.runtime, "s", 600000, on_waited, &wait, NULL), TP_OK);
  drained d = {.ended = LATCH, .runtime = w.runtime};
  assert_int_equal(tp_runtime_drain_submit(w.runtime, 0, on_drained, &d, NULL), TP_OK);
  latch_wait(&d.ended, 1);
  latch_wait(&wait.ended, 1);
  assert_true(wait.status == TP_ERR_SHUTDOWN || wait.status == TP_OK); /* the job was given up: a dead letter or open */
  tp_fault fault = {0};
  assert_int_equal(tp_jobs_wait_submit(w.runtime, "s", 0, on_waited, &wait, &fault), TP_ERR_SHUTDOWN);
  latch_hit(&w.leave);
  close_runtime(w.runtime);
  assert_int_equal(latch_count(&wait.ended), 1);
}

TEST(wait_without_a_callback_and_more_than_there_may_be_are_refused) {
  enum { MOST = 1024 };
  working w;
  open_working(&w);
  tp_fault fault = {0};
  assert_int_equal(tp_jobs_wait_submit(w.runtime, "s", 0, NULL, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "on_end"));
  waited wait = {.ended = LATCH};
  for (int i = 0; i < MOST; i++)
    assert_int_equal(tp_jobs_wait_submit(w.runtime, "s", 600000, on_waited, &wait, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait_submit(w.runtime, "s", 600000, on_waited, &wait, &fault), TP_ERR_FULL);
  latch_hit(&w.leave);
  latch_wait(&wait.ended, MOST);
  assert_int_equal(wait.status, TP_OK);
  tp_session_close(w.session, NULL, NULL);
  close_runtime(w.runtime);
  assert_int_equal(latch_count(&wait.ended), MOST);
}
