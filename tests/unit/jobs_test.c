/* SPDX-License-Identifier: Apache-2.0
 *
 * Background work: stored before it counts, run once, in the order of its session, tried again, then given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/host.h"

enum { POST = TP_PHASE_TURN_POST_TURN };

/* ---- a worker that notes what it is given ---- */

typedef struct notes {
  pthread_mutex_t mutex;
  char text[512];
  latch runs;
  latch *waits_for;
  int fails; /* so many times */
  bool retryable;
  tp_caller caller;
  int running, running_max;
} notes;

static tp_answer note(void *self, tp_call *call) {
  notes *n = self;
  tp_text outcome = tp_call_text(call, TP_FIELD_OUTCOME);
  pthread_mutex_lock(&n->mutex);
  size_t used = strlen(n->text);
  snprintf(n->text + used, sizeof n->text - used, "%.*s ", (int)outcome.size, outcome.size ? outcome.data : "");
  n->caller = tp_call_caller(call);
  if (++n->running > n->running_max) n->running_max = n->running;
  bool fail = n->fails > 0;
  if (fail) n->fails--;
  pthread_mutex_unlock(&n->mutex);
  latch_hit(&n->runs);
  if (n->waits_for) latch_wait(n->waits_for, 1);
  pthread_mutex_lock(&n->mutex);
  n->running--;
  pthread_mutex_unlock(&n->mutex);
  return fail ? tp_call_fail(call, 1, "not yet") : TP_ANSWER_DONE;
}

#define NOTES \
  { .mutex = PTHREAD_MUTEX_INITIALIZER, .runs = LATCH }

static hook background(notes *n) {
  return (hook){
      .id = "job", .phase = POST, .run = note, .self = n, .slow = true, .sub = {.execution = TP_EXECUTION_BACKGROUND}};
}

static tp_session *open_session(tp_runtime *runtime, const char *id) {
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = id};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  return session;
}

/* post_turn on a turn of the session that the host drives. */
static void post(tp_session *session, const char *outcome) {
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_turn_begin(session, NULL, &turn, NULL), TP_OK);
  tp_field field = {.id = TP_FIELD_OUTCOME, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(outcome)};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  assert_int_equal(tp_phase_run(turn, POST, &input, &result, NULL), TP_OK);
  assert_run(&result, "job", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  tp_turn_end(turn);
}

static void job_runs_with_its_payload_after_its_turn_is_gone(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  notes n = NOTES;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  post(session, "completed");
  assert_int_equal(tp_jobs_wait(runtime, "s", 10000), TP_OK);
  assert_string_equal(n.text, "completed ");
  assert_int_equal(tp_jobs_wait(runtime, "", 10000), TP_OK);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  assert_int_equal(stats.jobs_run, 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

static void jobs_of_a_session_run_in_order_and_of_several_at_once(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  notes n = NOTES;
  n.waits_for = &leave;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *a = open_session(runtime, "a"), *b = open_session(runtime, "b");
  post(a, "a1");
  post(a, "a2");
  post(a, "a3");
  latch_wait(&n.runs, 1);
  post(b, "b1");
  latch_wait(&n.runs, 2); /* b's runs beside a's first */
  assert_string_equal(n.text, "a1 b1 ");
  assert_int_equal(tp_jobs_wait(runtime, "a", 20), TP_ERR_TIMEOUT);
  latch_hit(&leave);
  assert_int_equal(tp_jobs_wait(runtime, "", 10000), TP_OK);
  assert_string_equal(n.text, "a1 b1 a2 a3 ");
  assert_int_equal(n.running_max, 2);
  tp_session_close(a, NULL, NULL);
  tp_session_close(b, NULL, NULL);
  close_runtime(runtime);
}

static void failing_job_is_tried_again_and_given_up_after_five(void **state) {
  (void)state;
  static const struct { int fails, runs; } cases[] = {{1, 2}, {99, 5}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    notes n = NOTES;
    n.fails = cases[i].fails;
    hook h = background(&n);
    add_hooks(runtime, &h, 1);
    tp_session *session = open_session(runtime, "s");
    post(session, "x");
    assert_int_equal(tp_jobs_wait(runtime, "s", 30000), TP_OK);
    assert_int_equal(latch_count(&n.runs), cases[i].runs);
    post(session, "next"); /* the queue goes on */
    assert_int_equal(tp_jobs_wait(runtime, "s", 30000), TP_OK);
    assert_true(latch_count(&n.runs) > cases[i].runs);
    tp_session_close(session, NULL, NULL);
    close_runtime(runtime);
  }
}

static void job_whose_handler_is_gone_waits_for_a_commit_that_brings_it_back(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  notes n = NOTES, again = NOTES;
  hook h = background(&n), g = background(&again);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  tp_turn *turn;
  assert_int_equal(tp_turn_begin(session, NULL, &turn, NULL), TP_OK); /* keeps its plans */
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "job", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_handler(edit, "job", NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, POST, NULL, &result, NULL), TP_OK);
  assert_run(&result, "job", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  tp_turn_end(turn);
  assert_int_equal(tp_jobs_wait(runtime, "s", 30), TP_ERR_TIMEOUT);
  assert_int_equal(latch_count(&n.runs), 0);
  add_hooks(runtime, &g, 1);
  assert_int_equal(tp_jobs_wait(runtime, "s", 10000), TP_OK);
  assert_int_equal(latch_count(&again.runs), 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

static int32_t matches_nothing(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_NO;
}

static void detached_runs_and_jobs_may_ask_for_jobs(void **state) {
  (void)state;
  static const tp_contribution first = {
      .kind = TP_KIND_BACKGROUND_JOB, .key = TEXT("1"), .domain = TEXT("middle"), .value = TEXT("\x80")};
  static const tp_contribution second = {
      .kind = TP_KIND_BACKGROUND_JOB, .key = TEXT("2"), .domain = TEXT("last"), .value = TEXT("\x80")};
  tp_runtime *runtime = open_runtime(NULL);
  act fire = {.emits = &first, .emit_count = 1}, middle = {.emits = &second, .emit_count = 1}, last = {0};
  const tp_match never = {.matches = matches_nothing, .description = "never by itself"};
  hook hooks[] = {{.id = "job", .phase = POST, .self = &fire, .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}},
                  {.id = "middle", .phase = POST, .self = &middle, .slow = true, .sub = {.match = never}},
                  {.id = "last", .phase = TP_PHASE_SESSION_END, .self = &last, .sub = {.match = never}}};
  add_hooks(runtime, hooks, 3);
  tp_session *session = open_session(runtime, "s");
  post(session, "x");
  tp_drain_report report;
  assert_int_equal(tp_runtime_drain(runtime, 20000, &report), TP_OK);
  assert_int_equal(report.jobs_lost, 0);
  assert_int_equal(fire.calls, 1);
  assert_int_equal(middle.calls, 1);
  assert_int_equal(last.calls, 1);
  close_runtime(runtime);
}

static void drain_runs_open_jobs_within_its_limit(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  notes n = NOTES;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  for (int i = 0; i < 20; i++) post(session, "x");
  tp_drain_report report;
  assert_int_equal(tp_runtime_drain(runtime, 20000, &report), TP_OK);
  assert_true(report.complete);
  assert_int_equal(report.jobs_lost, 0);
  assert_int_equal(latch_count(&n.runs), 20);
  close_runtime(runtime);
}

typedef struct patient {
  latch runs;
} patient;

static tp_answer wait_for_cancel(void *self, tp_call *call) {
  patient *p = self;
  latch_hit(&p->runs);
  while (!tp_call_cancelled(call)) sleep_ms(1);
  return TP_ANSWER_DONE;
}

static void drain_gives_up_jobs_behind_its_limit_and_reports_them_as_lost(void **state) {
  (void)state;
  for (int round = 0; round < 10; round++) {
    tp_runtime *runtime = open_runtime(NULL);
    patient p = {.runs = LATCH};
    hook h = {.id = "job",
              .phase = POST,
              .run = wait_for_cancel,
              .self = &p,
              .slow = true,
              .sub = {.execution = TP_EXECUTION_BACKGROUND}};
    add_hooks(runtime, &h, 1);
    tp_session *a = open_session(runtime, "a"), *b = open_session(runtime, "b");
    for (int i = 0; i < 3; i++) post(a, "a");
    post(b, "b");
    latch_wait(&p.runs, 2);
    tp_drain_report report;
    int64_t began_ns = now_ns();
    assert_int_equal(tp_runtime_drain(runtime, 5, &report), TP_OK);
    assert_in_range((now_ns() - began_ns) / 1000000, 0, 5000); /* not the 180 s of a job */
    assert_int_equal(report.jobs_lost, 4);
    close_runtime(runtime);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(job_runs_with_its_payload_after_its_turn_is_gone),
      cmocka_unit_test(jobs_of_a_session_run_in_order_and_of_several_at_once),
      cmocka_unit_test(failing_job_is_tried_again_and_given_up_after_five),
      cmocka_unit_test(job_whose_handler_is_gone_waits_for_a_commit_that_brings_it_back),
      cmocka_unit_test(detached_runs_and_jobs_may_ask_for_jobs),
      cmocka_unit_test(drain_runs_open_jobs_within_its_limit),
      cmocka_unit_test(drain_gives_up_jobs_behind_its_limit_and_reports_them_as_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
