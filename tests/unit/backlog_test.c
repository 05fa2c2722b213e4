/* SPDX-License-Identifier: Apache-2.0
 *
 * What an entry does with a job for which there is no space: it waits in line, refuses the job or leaves it out. */
#include "tests/support/test.h"
#include "tests/support/host.h"

enum { POST = TP_PHASE_TURN_POST_TURN, GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT };

/* ---- a runtime whose backlog is full ---- */

static _Atomic int errors_logged;
static char last_error[512];
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

static void keep_error(void *ctx, const tp_log_record *record) {
  (void)ctx;
  if (record->level != TP_LOG_ERROR) return;
  pthread_mutex_lock(&log_mutex);
  snprintf(last_error, sizeof last_error, "%s", record->message);
  pthread_mutex_unlock(&log_mutex);
  errors_logged++;
}

static struct {
  pthread_mutex_t mutex;
  char text[256]; /* the outcomes of its jobs, in the order in which they ran */
  latch leave, runs;
} worker = {.mutex = PTHREAD_MUTEX_INITIALIZER, .leave = LATCH, .runs = LATCH};

static tp_answer work(void *ctx, tp_call *call) {
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  (void)ctx;
  pthread_mutex_lock(&worker.mutex);
  size_t used = strlen(worker.text);
  snprintf(worker.text + used, sizeof worker.text - used, "%.*s ", (int)text.size, text.size ? text.data : "");
  pthread_mutex_unlock(&worker.mutex);
  latch_hit(&worker.runs);
  latch_wait(&worker.leave, 1);
  return TP_ANSWER_DONE;
}

static tp_runtime *runtime;

static tp_runtime_stats stats_now(void) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats;
}

/* One job runs, until the latch, and the store takes no other. */
static void start_full(tp_subscription sub, uint32_t wait_ms) {
  tp_runtime_options options = {
      .struct_size = sizeof options, .jobs_max = 1, .backlog_wait_ms = wait_ms, .engine_workers = 1, .log = keep_error};
  worker.text[0] = last_error[0] = '\0';
  worker.leave.count = worker.runs.count = 0;
  errors_logged = 0;
  runtime = open_runtime(&options);
  sub.execution = TP_EXECUTION_BACKGROUND;
  hook h = {.id = "job", .phase = GATHER, .run = work, .slow = true, .sub = sub};
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result first = run_phase(turn, GATHER, "first");
  assert_run(&first, "job", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  tp_turn_end(turn);
  latch_wait(&worker.runs, 1);
}

static void stop(void) {
  latch_hit(&worker.leave);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  assert_int_equal(stats_now().jobs_in_line, 0);
  close_runtime(runtime);
}

/* Of its first diagnostic. */
static const char *diagnostic_of(const tp_phase_result *result) {
  assert_true(tp_merged_count(result->merged, TP_CONTRIBUTION_DIAGNOSTIC) > 0);
  return tp_merged_get(result->merged, TP_CONTRIBUTION_DIAGNOSTIC, 0)->contribution->text.data;
}

static tp_answer fail_at(void *ctx, tp_call *call) {
  latch_wait(ctx, 1);
  return tp_call_fail(call, 1, "it fails");
}

/* ---- an entry that waits ---- */

typedef struct waiter {
  const char *text;
  tp_turn *turn;
  pthread_t thread;
  tp_status status;
  tp_phase_result result;
} waiter;

static void *run_waiter(void *ctx) {
  waiter *w = ctx;
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(w->text)};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  w->result = (tp_phase_result){.struct_size = sizeof w->result};
  w->status = tp_phase_run(w->turn, GATHER, &input, &w->result, NULL);
  return NULL;
}

/* Returns when the waiter is in line; in_line is the length of the line then. */
static void start_waiter(waiter *w, const char *text, uint64_t in_line) {
  *w = (waiter){.text = text, .turn = begin_bare(runtime, 0)};
  assert_int_equal(pthread_create(&w->thread, NULL, run_waiter, w), 0);
  while (stats_now().jobs_in_line != in_line) sleep_ms(1);
}

static void join(waiter *w, tp_state state, tp_reason reason) {
  assert_int_equal(pthread_join(w->thread, NULL), 0);
  assert_int_equal(w->status, TP_OK);
  assert_run(&w->result, "job", state, reason);
}

static void end_waiter(waiter *w, tp_state state, tp_reason reason) {
  join(w, state, reason);
  assert_int_equal(w->result.outcome, TP_OK);
  tp_turn_end(w->turn);
}

TEST(entries_wait_for_space_and_the_oldest_goes_first) {
  waiter waiters[4];
  static const char *const names[] = {"a", "b", "c", "d"};
  start_full((tp_subscription){0}, 0);
  for (size_t i = 0; i < COUNT(waiters); i++) start_waiter(&waiters[i], names[i], i + 1);
  latch_hit(&worker.leave);
  for (size_t i = 0; i < COUNT(waiters); i++) end_waiter(&waiters[i], TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  assert_string_equal(worker.text, "first a b c d ");
  assert_int_equal(stats_now().jobs_refused, 0);
  assert_int_equal(errors_logged, 0);
  stop();
}

static void note_end(void *ctx, const tp_phase_result *result) {
  assert_int_equal(result->outcome, TP_OK);
  latch_hit(ctx);
}

/* The one engine worker runs another turn meanwhile. */
TEST(entry_that_waits_holds_no_thread) {
  waiter w;
  start_full((tp_subscription){0}, 0);
  start_waiter(&w, "a", 1);
  latch ended = LATCH;
  act nothing = {.kind = TP_ANSWER_DONE};
  add_hooks(runtime, &(hook){.id = "other", .phase = POST, .ctx = &nothing}, 1);
  tp_turn *other = begin_bare(runtime, 0);
  assert_int_equal(tp_phase_submit(other, POST, NULL, note_end, &ended, NULL), TP_OK);
  latch_wait(&ended, 1);
  tp_turn_end(other);
  latch_hit(&worker.leave);
  end_waiter(&w, TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  stop();
}

TEST(wait_for_space_ends_at_its_limit_and_is_notified) {
  start_full((tp_subscription){0}, 40);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, "a");
  assert_run(&result, "job", TP_STATE_FAILED, TP_REASON_SHED);
  assert_non_null(strstr(diagnostic_of(&result), "backlog_wait_ms"));
  tp_turn_end(turn);
  assert_int_equal(stats_now().jobs_refused, 1);
  assert_int_equal(errors_logged, 1);
  assert_non_null(strstr(last_error, "jobs_max"));
  stop();
  assert_string_equal(worker.text, "first ");
}

/* A guard that fails meanwhile ends the entry at once. */
TEST(entry_that_fails_does_not_wait_for_space) {
  latch fails = LATCH;
  waiter w;
  start_full((tp_subscription){0}, 0);
  hook h = {.id = "guard",
            .phase = GATHER,
            .run = fail_at,
            .ctx = &fails,
            .slow = true,
            .sub = {.failure = TP_FAILURE_REQUIRED}};
  add_hooks(runtime, &h, 1);
  start_waiter(&w, "a", 1);
  latch_hit(&fails);
  join(&w, TP_STATE_CANCELLED, TP_REASON_CANCELLED);
  assert_int_equal(w.result.outcome, TP_ERR_HOOK);
  tp_turn_end(w.turn);
  assert_int_equal(stats_now().jobs_in_line, 0);
  stop();
  assert_string_equal(worker.text, "first ");
}

TEST(turn_that_is_cancelled_leaves_the_line) {
  waiter a, b;
  start_full((tp_subscription){0}, 0);
  start_waiter(&a, "a", 1);
  start_waiter(&b, "b", 2);
  tp_turn_cancel(a.turn);
  join(&a, TP_STATE_CANCELLED, TP_REASON_CANCELLED);
  assert_int_equal(a.result.outcome, TP_ERR_CANCELLED);
  tp_turn_end(a.turn);
  assert_int_equal(stats_now().jobs_in_line, 1);
  latch_hit(&worker.leave);
  end_waiter(&b, TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  stop();
  assert_string_equal(worker.text, "first b ");
}

/* The effect on the run and on its entry, by backlog policy and failure policy. */
TEST(full_backlog_is_met_by_the_policy_of_the_subscription) {
  static const struct {
    tp_backlog backlog;
    tp_failure failure;
    uint32_t wait_ms;
    tp_state state;
    tp_reason reason;
    tp_status status;
    uint64_t refused, shed;
  } rows[] = {
      {TP_BACKLOG_DEFAULT, TP_FAILURE_BEST_EFFORT, 20, TP_STATE_FAILED, TP_REASON_SHED, TP_OK, 1, 0},
      {TP_BACKLOG_WAIT, TP_FAILURE_BEST_EFFORT, 20, TP_STATE_FAILED, TP_REASON_SHED, TP_OK, 1, 0},
      {TP_BACKLOG_WAIT, TP_FAILURE_REQUIRED, 20, TP_STATE_FAILED, TP_REASON_SHED, TP_ERR_HOOK, 1, 0},
      {TP_BACKLOG_REFUSE, TP_FAILURE_BEST_EFFORT, 60000, TP_STATE_FAILED, TP_REASON_SHED, TP_OK, 1, 0},
      {TP_BACKLOG_REFUSE, TP_FAILURE_REQUIRED, 60000, TP_STATE_FAILED, TP_REASON_SHED, TP_ERR_HOOK, 1, 0},
      {TP_BACKLOG_SHED, TP_FAILURE_BEST_EFFORT, 60000, TP_STATE_SKIPPED, TP_REASON_BACKLOG, TP_OK, 0, 1},
      {TP_BACKLOG_SHED, TP_FAILURE_REQUIRED, 60000, TP_STATE_SKIPPED, TP_REASON_BACKLOG, TP_OK, 0, 1},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    start_full((tp_subscription){.backlog = rows[i].backlog, .failure = rows[i].failure}, rows[i].wait_ms);
    tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("x")};
    tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
    tp_phase_result result = {.struct_size = sizeof result};
    tp_turn *turn = begin_bare(runtime, 0);
    assert_int_equal(tp_phase_run(turn, GATHER, &input, &result, NULL), TP_OK);
    assert_int_equal(result.outcome, rows[i].status);
    assert_run(&result, "job", rows[i].state, rows[i].reason);
    if (rows[i].status == TP_OK) assert_non_null(strstr(diagnostic_of(&result), "the backlog of jobs"));
    tp_turn_end(turn);
    assert_int_equal(stats_now().jobs_refused, rows[i].refused);
    assert_int_equal(stats_now().jobs_shed, rows[i].shed);
    assert_int_equal(errors_logged, rows[i].refused + (rows[i].status != TP_OK)); /* that of the entry, too */
    stop();
    assert_string_equal(worker.text, "first ");
    assert_string_equal(tp_reason_name(TP_REASON_BACKLOG), "backlog");
  }
}

TEST(policy_that_an_execution_cannot_have_is_refused) {
  static const struct {
    tp_execution execution;
    int backlog;
    tp_status status;
  } rows[] = {{TP_EXECUTION_BACKGROUND, TP_BACKLOG_WAIT, TP_OK},
              {TP_EXECUTION_BACKGROUND, TP_BACKLOG_REFUSE, TP_OK},
              {TP_EXECUTION_BACKGROUND, TP_BACKLOG_SHED, TP_OK},
              {TP_EXECUTION_FIRE_AND_RECORD, TP_BACKLOG_REFUSE, TP_OK},
              {TP_EXECUTION_FIRE_AND_RECORD, TP_BACKLOG_SHED, TP_OK},
              {TP_EXECUTION_FIRE_AND_RECORD, TP_BACKLOG_WAIT, TP_ERR_USAGE},
              {TP_EXECUTION_BLOCKING, TP_BACKLOG_WAIT, TP_ERR_USAGE},
              {TP_EXECUTION_BLOCKING, TP_BACKLOG_REFUSE, TP_ERR_USAGE},
              {TP_EXECUTION_DEADLINE, TP_BACKLOG_SHED, TP_ERR_USAGE},
              {TP_EXECUTION_BACKGROUND, TP_BACKLOG_SHED + 1, TP_ERR_USAGE},
              {TP_EXECUTION_BACKGROUND, -1, TP_ERR_USAGE}};
  tp_runtime *own = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_fault fault = {0};
    tp_hook h = {.struct_size = sizeof h,
                 .phase = "turn.post_turn",
                 .run = work,
                 .execution = rows[i].execution,
                 .backlog = (tp_backlog)rows[i].backlog};
    assert_int_equal(tp_hook_add(own, &h, &fault), rows[i].status);
    if (rows[i].status != TP_OK) assert_non_null(strstr(fault.message, "backlog"));
  }
  close_runtime(own);
}

/* A discarded job makes space, too; here a job that waits in the store for another one of its order key. */
TEST(discarded_job_makes_space) {
  waiter w;
  start_full((tp_subscription){0}, 0);
  stop();
  tp_runtime_options options = {.struct_size = sizeof options, .jobs_max = 2};
  worker.leave.count = worker.runs.count = 0;
  runtime = open_runtime(&options);
  hook h = {.id = "job", .phase = GATHER, .run = work, .slow = true, .sub = {.execution = TP_EXECUTION_BACKGROUND}};
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  (void)run_phase(turn, GATHER, "first");
  latch_wait(&worker.runs, 1);
  (void)run_phase(turn, GATHER, "second");
  tp_turn_end(turn);
  start_waiter(&w, "third", 1);
  assert_int_equal(tp_job_discard(runtime, 2, NULL), TP_OK);
  end_waiter(&w, TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  stop();
}
