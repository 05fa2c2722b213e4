/* SPDX-License-Identifier: Apache-2.0
 *
 * How many driven turns run at once, which is next, and which are refused. The model answers when the test says so, so
 * the order in which turns begin is the order of its requests. */
#include "tests/support/test.h"
#include "tests/support/counting.h"
#include "tests/support/host.h"

enum { SESSIONS_MAX = 16 };

typedef struct world {
  tp_runtime *runtime;
  tp_session *sessions[SESSIONS_MAX];
  tp_submission *turns[SESSIONS_MAX];
  int count;
  /* under mutex: who was asked, in order */
  pthread_mutex_t mutex;
  char order[256];
  tp_token tokens[SESSIONS_MAX];
  char log[2048];
  latch asked, closed;
} world;

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  world *w = ctx;
  pthread_mutex_lock(&w->mutex);
  tp_text tenant = request->ids[TP_ID_TENANT];
  size_t used = strlen(w->order);
  w->tokens[used] = token;
  w->order[used] = tenant.size ? tenant.data[0] : '-';
  pthread_mutex_unlock(&w->mutex);
  latch_hit(&w->asked);
}

static void note_log(void *ctx, const tp_log_record *record) {
  world *w = ctx;
  pthread_mutex_lock(&w->mutex);
  size_t used = strlen(w->log);
  snprintf(w->log + used, sizeof w->log - used, "%s\n", record->message);
  pthread_mutex_unlock(&w->mutex);
}

static void open_world(world *w, uint32_t running_max, uint32_t waiting_max) {
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = counting,
                                      .turns_running_max = running_max,
                                      .turns_waiting_max = waiting_max,
                                      .log = note_log,
                                      .log_ctx = w};
  pthread_mutex_init(&w->mutex, NULL);
  w->asked = w->closed = (latch)LATCH;
  w->runtime = open_runtime(&options);
}

/* @return its number. */
static int open_session(world *w, const char *tenant) {
  char id[8];
  snprintf(id, sizeof id, "s%d", w->count);
  const tp_model model = {
      .struct_size = sizeof model, .name = "m", .ctx = w, .start = model_start, .placement = TP_PLACEMENT_INLINE};
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .tenant = tenant, .model = &model};
  assert_int_equal(tp_session_open(w->runtime, &options, &w->sessions[w->count], NULL), TP_OK);
  return w->count++;
}

static tp_status submit(world *w, int session, uint32_t limit_ms, tp_submission **ret_turn, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hi"), .limit_ms = limit_ms};
  return tp_turn_submit(w->sessions[session], &request, NULL, NULL, ret_turn, fault);
}

/* A session of the tenant with a turn. */
static int begin(world *w, const char *tenant) {
  int n = open_session(w, tenant);
  assert_int_equal(submit(w, n, 0, &w->turns[n], NULL), TP_OK);
  return n;
}

static void answer(world *w, int n) {
  const tp_model_response response = {
      .struct_size = sizeof response, .text = TEXT("ok"), .stop_reason = TEXT("end_turn")};
  latch_wait(&w->asked, n + 1);
  pthread_mutex_lock(&w->mutex);
  tp_token token = w->tokens[n];
  pthread_mutex_unlock(&w->mutex);
  assert_int_equal(tp_model_complete(token, &response, NULL), TP_OK);
}

static void on_closed(void *ctx) { latch_hit(&((world *)ctx)->closed); }

static void close_world(world *w) {
  for (int i = 0; i < w->count; i++) {
    tp_submission_unref(w->turns[i]);
    tp_session_close(w->sessions[i], on_closed, w);
  }
  latch_wait(&w->closed, w->count);
  close_runtime(w->runtime);
  assert_int_equal(blocks_open, 0); /* no tenant is left */
}

static tp_runtime_stats stats_of(const world *w) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(w->runtime, &stats);
  return stats;
}

static tp_turn_outcome outcome_of(const world *w, int n) {
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(w->turns[n], 60000, &result, NULL), TP_OK);
  return result->outcome;
}

/* ---- whose turn is next ---- */

TEST(tenants_that_wait_are_served_in_turn) {
  world w = {.count = 0};
  open_world(&w, 1, 0);
  begin(&w, "a");
  latch_wait(&w.asked, 1);
  static const char *const tenants[] = {"a", "a", "a", "a", "a", "b", "b", "c"};
  for (size_t i = 0; i < COUNT(tenants); i++) begin(&w, tenants[i]);
  assert_int_equal(stats_of(&w).turns_waiting, COUNT(tenants));
  for (int i = 0; i <= (int)COUNT(tenants); i++) answer(&w, i);
  for (int i = 0; i < w.count; i++) assert_int_equal(outcome_of(&w, i), TP_TURN_COMPLETED);
  assert_string_equal(w.order, "aabcabaaa");
  assert_int_equal(stats_of(&w).turns_waiting, 0);
  assert_int_equal(stats_of(&w).turns_refused, 0);
  close_world(&w);
}

TEST(as_many_run_at_once_as_there_is_capacity_for) {
  world w = {.count = 0};
  open_world(&w, 3, 0);
  for (int i = 0; i < 5; i++) begin(&w, NULL);
  latch_wait(&w.asked, 3);
  assert_int_equal(stats_of(&w).turns_waiting, 2);
  answer(&w, 1);
  latch_wait(&w.asked, 4);
  assert_int_equal(stats_of(&w).turns_waiting, 1);
  answer(&w, 0);
  latch_wait(&w.asked, 5);
  begin(&w, NULL); /* those that had waited take capacity as well */
  assert_int_equal(stats_of(&w).turns_waiting, 1);
  for (int i = 2; i < 6; i++) answer(&w, i);
  for (int i = 0; i < 6; i++) assert_int_equal(outcome_of(&w, i), TP_TURN_COMPLETED);
  close_world(&w);
}

static void *run_here(void *arg) {
  world *w = arg;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hi")};
  const tp_turn_result *result;
  bool ok = tp_turn_run(w->sessions[1], &request, &result, NULL) == TP_OK && result->outcome == TP_TURN_COMPLETED;
  tp_turn_result_free(result);
  return ok ? w : NULL;
}

TEST(synchronous_turn_waits_for_capacity_as_well) {
  world w = {.count = 0};
  pthread_t thread;
  void *ok;
  open_world(&w, 1, 0);
  begin(&w, "a");
  open_session(&w, "b");
  pthread_create(&thread, NULL, run_here, &w);
  while (stats_of(&w).turns_waiting == 0) sleep_ms(1);
  answer(&w, 0);
  answer(&w, 1);
  pthread_join(thread, &ok);
  assert_non_null(ok);
  assert_string_equal(w.order, "ab");
  close_world(&w);
}

/* ---- a turn that waits ---- */

TEST(turn_that_waits_ends_at_its_cancel_and_its_limit) {
  world w = {.count = 0};
  tp_submission *behind;
  open_world(&w, 1, 0);
  begin(&w, "a");
  int cancelled = begin(&w, "a"), late = open_session(&w, "a");
  assert_int_equal(submit(&w, cancelled, 0, &behind, NULL), TP_OK); /* in its session's queue */
  assert_int_equal(submit(&w, late, 20, &w.turns[late], NULL), TP_OK);
  assert_int_equal(outcome_of(&w, late), TP_TURN_TIMED_OUT);
  tp_submission_cancel(w.turns[cancelled]);
  assert_int_equal(outcome_of(&w, cancelled), TP_TURN_CANCELLED);
  while (stats_of(&w).turns_waiting == 0) sleep_ms(1); /* the one after it comes to wait in its place */
  assert_int_equal(stats_of(&w).turns_waiting, 1);
  answer(&w, 0);
  answer(&w, 1);
  assert_int_equal(outcome_of(&w, 0), TP_TURN_COMPLETED);
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(behind, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(latch_count(&w.asked), 2);
  tp_submission_unref(behind);
  close_world(&w);
}

TEST(drain_ends_turns_that_wait) {
  world w = {.count = 0};
  open_world(&w, 1, 0);
  for (int i = 0; i < 4; i++) begin(&w, i % 2 ? "a" : "b");
  latch_wait(&w.asked, 1);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(w.runtime, 1, &report, NULL), TP_OK);
  assert_true(report.complete);
  for (int i = 0; i < 4; i++) assert_int_equal(outcome_of(&w, i), TP_TURN_CANCELLED);
  /* One turn may have begun, and asked its model, in the place of one that was cancelled before it. */
  assert_int_equal(stats_of(&w).turns_waiting, 0);
  close_world(&w);
}

/* ---- refusal ---- */

TEST(tenant_with_too_many_that_wait_is_refused_and_no_other) {
  world w = {.count = 0};
  tp_fault fault = {0};
  tp_submission *none = NULL;
  open_world(&w, 1, 2);
  for (int i = 0; i < 3; i++) begin(&w, "a");
  int refused = open_session(&w, "a");
  for (int i = 0; i < 2; i++) assert_int_equal(submit(&w, refused, 0, &none, &fault), TP_ERR_FULL);
  assert_null(none);
  assert_non_null(strstr(fault.message, "turns_waiting_max"));
  assert_string_equal(fault.subject, "a");
  begin(&w, "b");
  assert_int_equal(stats_of(&w).turns_waiting, 3);
  assert_int_equal(stats_of(&w).turns_refused, 2);
  for (int i = 0; i < 4; i++) answer(&w, i);
  for (int i = 0; i < 3; i++) assert_int_equal(outcome_of(&w, i), TP_TURN_COMPLETED);
  assert_int_equal(submit(&w, refused, 0, &w.turns[refused], NULL), TP_OK);
  answer(&w, 4);
  assert_int_equal(outcome_of(&w, refused), TP_TURN_COMPLETED);
  close_world(&w);
  const char *line = strstr(w.log, "turns of tenant `a` are refused: 2 turns of the tenant wait already");
  assert_non_null(line);
  assert_null(strstr(line + 40, "are refused"));
  line = strstr(line, "turns of tenant `a` wait no more: 2 were refused");
  assert_non_null(line);
  assert_null(strstr(line + 40, "wait no more"));
}

TEST(turn_that_would_wait_longer_than_its_limit_is_refused_at_once) {
  world w = {.count = 0};
  tp_fault fault = {0};
  tp_submission *none = NULL;
  open_world(&w, 1, 0);
  begin(&w, "a");
  latch_wait(&w.asked, 1);
  sleep_ms(50); /* so long a turn takes of late */
  answer(&w, 0);
  assert_int_equal(outcome_of(&w, 0), TP_TURN_COMPLETED);
  begin(&w, "a");
  latch_wait(&w.asked, 2);
  int late = open_session(&w, "b");
  assert_int_equal(submit(&w, late, 40, &none, &fault), TP_ERR_FULL);
  assert_non_null(strstr(fault.message, "longer than its limit of 40 ms"));
  assert_int_equal(submit(&w, late, 60000, &w.turns[late], NULL), TP_OK);
  answer(&w, 1);
  answer(&w, 2);
  assert_int_equal(outcome_of(&w, late), TP_TURN_COMPLETED);
  close_world(&w);
}

TEST(options_that_do_not_fit_are_refused) {
  const tp_runtime_options options = {.struct_size = sizeof options, .turns_waiting_max = 1};
  tp_runtime *runtime = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "turns_running_max"));
}
