/* SPDX-License-Identifier: Apache-2.0
 *
 * Background work: stored before it counts, run once, in the order of its session, tried again, then given up. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/host.h"

enum { POST = TP_PHASE_TURN_POST_TURN };

/* ---- a worker that notes what it is given ---- */

typedef struct notes {
  pthread_mutex_t mutex;
  char text[512];
  latch runs;
  latch *waits_for;
  int fails; /* the job fails so many times */
  bool retryable;
  tp_caller caller;
  uint32_t last_attempt;
  uint64_t job_id;
  char key[256];
  bool same_key; /* the key was the same in every attempt */
  int running, running_max;
} notes;

static tp_answer note(void *ctx, tp_call *call) {
  notes *n = ctx;
  tp_text outcome = tp_call_text(call, TP_FIELD_OUTCOME);
  pthread_mutex_lock(&n->mutex);
  size_t used = strlen(n->text);
  snprintf(n->text + used, sizeof n->text - used, "%.*s ", (int)outcome.size, outcome.size ? outcome.data : "");
  tp_text key = tp_call_idempotency_key(call);
  n->same_key = !n->key[0] || (strlen(n->key) == key.size && memcmp(n->key, key.data, key.size) == 0);
  snprintf(n->key, sizeof n->key, "%.*s", (int)key.size, key.size ? key.data : "");
  n->caller = tp_call_caller(call);
  n->last_attempt = tp_call_attempt(call);
  n->job_id = tp_call_job_id(call);
  if (++n->running > n->running_max) n->running_max = n->running;
  bool fail = n->fails > 0;
  if (fail) n->fails--;
  pthread_mutex_unlock(&n->mutex);
  latch_hit(&n->runs);
  if (n->waits_for) latch_wait(n->waits_for, 1);
  pthread_mutex_lock(&n->mutex);
  n->running--;
  pthread_mutex_unlock(&n->mutex);
  if (!fail) return TP_ANSWER_DONE;
  return n->retryable ? tp_call_fail_retryable(call, 1, "not yet") : tp_call_fail(call, 1, "never");
}

#define NOTES \
  { .mutex = PTHREAD_MUTEX_INITIALIZER, .runs = LATCH }

static hook background(notes *n) {
  return (hook){
      .id = "job", .phase = POST, .run = note, .ctx = n, .slow = true, .sub = {.execution = TP_EXECUTION_BACKGROUND}};
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

TEST(job_runs_with_its_payload_after_its_turn_is_gone) {
  tp_runtime *runtime = open_runtime(NULL);
  notes n = NOTES;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  post(session, "completed");
  assert_int_equal(tp_jobs_wait(runtime, "s", 10000, NULL), TP_OK);
  assert_string_equal(n.text, "completed ");
  assert_int_equal(tp_jobs_wait(runtime, "", 10000, NULL), TP_OK);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  assert_int_equal(stats.jobs_run, 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(jobs_of_a_session_run_in_order_and_of_several_at_once) {
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
  latch_wait(&n.runs, 2); /* b's job runs beside a's first one */
  assert_string_equal(n.text, "a1 b1 ");
  assert_int_equal(tp_jobs_wait(runtime, "a", 20, NULL), TP_ERR_TIMEOUT);
  latch_hit(&leave);
  assert_int_equal(tp_jobs_wait(runtime, "", 10000, NULL), TP_OK);
  assert_string_equal(n.text, "a1 b1 a2 a3 ");
  assert_int_equal(n.running_max, 2);
  tp_session_close(a, NULL, NULL);
  tp_session_close(b, NULL, NULL);
  close_runtime(runtime);
}

/* ---- failing ---- */

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

static tp_runtime *open_logging(tp_runtime_options options) {
  options.struct_size = sizeof options;
  options.log = keep_error;
  errors_logged = 0;
  last_error[0] = '\0';
  return open_runtime(&options);
}

static tp_runtime_stats stats_of(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats;
}

TEST(retry_values_of_the_subscription_govern_its_jobs) {
  static const struct {
    uint32_t attempts;
    bool retryable;
    int fails, runs;
  } cases[] = {{0, false, 99, 1}, {0, true, 99, 1}, {3, false, 99, 1}, {3, true, 1, 2}, {3, true, 99, 3}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_logging((tp_runtime_options){0});
    notes n = NOTES;
    n.fails = cases[i].fails;
    n.retryable = cases[i].retryable;
    hook h = background(&n);
    h.idempotent = cases[i].attempts > 1;
    h.sub.attempts = cases[i].attempts;
    add_hooks(runtime, &h, 1);
    tp_session *session = open_session(runtime, "s");
    post(session, "x");
    assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
    assert_int_equal(latch_count(&n.runs), cases[i].runs);
    assert_int_equal(n.last_attempt, cases[i].runs);
    assert_true(n.job_id > 0 && n.key[0] && n.same_key);
    assert_int_equal(n.caller, TP_CALLER_BACKGROUND_JOB);
    bool is_dead = cases[i].fails > cases[i].runs;
    assert_int_equal(stats_of(runtime).jobs_dead, is_dead);
    assert_int_equal(errors_logged, is_dead);
    if (is_dead) assert_non_null(strstr(last_error, cases[i].retryable ? "`job`" : "never"));
    n.fails = 0;
    post(session, "next"); /* the queue goes on */
    assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
    assert_int_equal(latch_count(&n.runs), cases[i].runs + 1);
    tp_session_close(session, NULL, NULL);
    tp_drain_report report = {.struct_size = sizeof report};
    assert_int_equal(tp_runtime_drain(runtime, 10000, &report, NULL), TP_OK);
    assert_int_equal(report.jobs_dead, is_dead);
    assert_int_equal(report.jobs_lost, 0);
    close_runtime(runtime);
  }
}

/* ---- what could not try ---- */

/** How a handler says that it could not try. */
typedef enum postpone_way { BY_CALL, BY_TOKEN, BY_TOKEN_LATER, INLINE_CALL, INLINE_TOKEN } postpone_way;

typedef struct fickle_row {
  postpone_way way;
  int postpones, fails; /* so many runs are postponed, and after them so many fail and may be tried again */
  uint32_t attempts;
  uint64_t limit_ms; /* tp_runtime_options.job_postpone_ms */
  /* the expected result */
  int runs;
  uint32_t last_attempt;
  bool is_dead;
} fickle_row;

typedef struct fickle {
  const fickle_row *row;
  tp_runtime *runtime;
  tp_session *session;
  pthread_t later;
  tp_token token;
  int runs;
  uint32_t last_attempt;
  bool has_later;
} fickle;

static const tp_outcome could_not_try = {.struct_size = sizeof could_not_try,
                                         .kind = TP_ANSWER_FAILED,
                                         .why = TP_REASON_POSTPONED,
                                         .code = 7,
                                         .reason = "busy"};

static void *answer_later(void *ctx) {
  assert_int_equal(tp_token_complete(((fickle *)ctx)->token, &could_not_try, NULL), TP_OK);
  return NULL;
}

static tp_answer be_fickle(void *ctx, tp_call *call) {
  fickle *f = ctx;
  const fickle_row *row = f->row;
  const tp_deferral deferral = {.struct_size = sizeof deferral};
  f->last_attempt = tp_call_attempt(call);
  if (++f->runs > row->postpones + row->fails) return TP_ANSWER_DONE;
  if (f->runs > row->postpones) return tp_call_fail_retryable(call, 1, "not yet");
  if (row->way == BY_CALL || row->way == INLINE_CALL) return tp_call_postpone(call, 7, "busy");
  tp_answer answer = tp_call_defer(call, &deferral, &f->token);
  if (row->way != BY_TOKEN_LATER) {
    assert_int_equal(tp_token_complete(f->token, &could_not_try, NULL), TP_OK);
    return answer;
  }
  if (f->has_later) assert_int_equal(pthread_join(f->later, NULL), 0);
  f->has_later = pthread_create(&f->later, NULL, answer_later, f) == 0;
  assert_true(f->has_later);
  return answer;
}

static void start_fickle(fickle *f, const fickle_row *row) {
  tp_runtime_options options = {.struct_size = sizeof options, .job_postpone_ms = row->limit_ms};
  *f = (fickle){.row = row, .runtime = open_runtime(&options)};
  hook h = {.id = "job",
            .phase = POST,
            .run = be_fickle,
            .ctx = f,
            .slow = row->way != INLINE_CALL && row->way != INLINE_TOKEN,
            .idempotent = true,
            .sub = {.execution = TP_EXECUTION_BACKGROUND, .attempts = row->attempts}};
  add_hooks(f->runtime, &h, 1);
  f->session = open_session(f->runtime, "s");
  post(f->session, "x");
}

static void check_fickle(fickle *f, size_t index) {
  const fickle_row *row = f->row;
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_jobs_wait(f->runtime, "s", 60000, NULL), TP_OK);
  const tp_runtime_stats stats = stats_of(f->runtime);
  const uint64_t postponed = stats.jobs_run - (row->is_dead ? row->attempts ? row->attempts : 1 : row->last_attempt);
  if (f->runs != row->runs || f->last_attempt != row->last_attempt || stats.jobs_dead != row->is_dead)
    fail_msg("row %zu: %d runs, the last attempt %u, %d dead", index, f->runs, f->last_attempt, (int)stats.jobs_dead);
  assert_int_equal(stats.jobs_postponed, postponed);
  if (f->has_later) assert_int_equal(pthread_join(f->later, NULL), 0);
  tp_session_close(f->session, NULL, NULL);
  assert_int_equal(tp_runtime_drain(f->runtime, 10000, &report, NULL), TP_OK);
  assert_int_equal(report.jobs_dead, row->is_dead);
  assert_int_equal(report.jobs_lost, 0);
  close_runtime(f->runtime);
}

/* Busy, full, locked and unreachable are no failures of the handler, in whatever way it reports them. */
TEST(run_that_could_not_try_is_no_attempt) {
  static const fickle_row rows[] = {{BY_CALL, 1, 0, 0, 0, 2, 1, false},
                                    {BY_CALL, 3, 0, 1, 0, 4, 1, false},
                                    {BY_CALL, 2, 0, 5, 0, 3, 1, false},
                                    {BY_CALL, 2, 1, 2, 0, 4, 2, false}, /* the second attempt does it */
                                    {BY_CALL, 2, 1, 0, 0, 3, 1, true},  /* a failure is one, after whatever was none */
                                    {BY_CALL, 1, 99, 3, 0, 4, 3, true},
                                    {BY_TOKEN, 2, 0, 1, 0, 3, 1, false},
                                    {BY_TOKEN_LATER, 2, 0, 1, 0, 3, 1, false},
                                    {BY_TOKEN_LATER, 1, 1, 2, 0, 3, 2, false},
                                    {INLINE_CALL, 2, 0, 0, 0, 3, 1, false},
                                    {INLINE_TOKEN, 2, 0, 0, 0, 3, 1, false},
                                    {INLINE_CALL, 1, 1, 1, 0, 2, 1, true},
                                    {BY_CALL, 99, 0, 1, 1, 2, 1, true}, /* for as long as it may: one pause */
                                    {BY_CALL, 99, 0, 3, 1, 4, 3, true},
                                    {BY_TOKEN, 99, 0, 2, 1, 3, 2, true},
                                    {BY_CALL, 2, 0, 2, 1, 3, 2, false}};
  fickle all[COUNT(rows)];
  for (size_t i = 0; i < COUNT(rows); i++) start_fickle(&all[i], &rows[i]); /* they pause at the same time */
  for (size_t i = 0; i < COUNT(rows); i++) check_fickle(&all[i], i);
}

static bool note_postponed(void *ctx, const tp_job *job) {
  *(tp_job *)ctx = *job;
  assert_true(tp_text_is(job->message, "busy"));
  return true;
}

TEST(postponed_job_shows_why_and_for_how_long) {
  static const fickle_row row = {.way = BY_CALL, .postpones = 99};
  fickle f;
  tp_job job = {.id = 0};
  start_fickle(&f, &row);
  while (stats_of(f.runtime).jobs_postponed < 3) sleep_ms(1);
  while (job.state != TP_JOB_QUEUED || job.postponed_ms == 0)
    assert_int_equal(tp_jobs_list(f.runtime, NULL, note_postponed, &job, NULL), TP_OK);
  assert_int_equal(job.reason, TP_REASON_POSTPONED);
  assert_string_equal(tp_reason_name((tp_reason)job.reason), "postponed");
  assert_int_equal(job.code, 7);
  assert_int_equal(job.attempt, 0);
  assert_in_range(job.postponed_ms, 100, 200 * stats_of(f.runtime).jobs_postponed); /* none is longer yet */
  assert_true(job.claimable_ms > job.inserted_ms && job.claimable_ms < job.inserted_ms + 60000);
  tp_session_close(f.session, NULL, NULL);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(f.runtime, 0, &report, NULL), TP_OK);
  assert_int_equal(report.jobs_lost, 1); /* the store is in memory */
  close_runtime(f.runtime);
}

/* In a phase that waits for its handlers, it is a failure that may be tried again, and the breaker does not count
 * it. */
TEST(run_that_could_not_try_is_tried_again_where_it_is_awaited) {
  static const fickle_row rows[] = {{.way = BY_CALL, .postpones = 1}, {.way = INLINE_TOKEN, .postpones = 1}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    fickle f = {.row = &rows[i]};
    tp_phase_result result = {.struct_size = sizeof result};
    tp_runtime *runtime = open_runtime(NULL);
    hook h = {.id = "h",
              .phase = POST,
              .run = be_fickle,
              .ctx = &f,
              .slow = rows[i].way == BY_CALL,
              .idempotent = true,
              .sub = {.attempts = 2}};
    add_hooks(runtime, &h, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    assert_int_equal(tp_phase_run(turn, POST, NULL, &result, NULL), TP_OK);
    assert_int_equal(f.runs, 2);
    assert_int_equal(f.last_attempt, 2);
    for (int call = 0; call < 40; call++) { /* each of both attempts */
      tp_phase_result failed = {.struct_size = sizeof failed};
      f.runs = -1;
      assert_int_equal(tp_phase_run(turn, POST, NULL, &failed, NULL), TP_OK);
      assert_run(&failed, "h", TP_STATE_FAILED, TP_REASON_POSTPONED);
    }
    assert_int_equal(stats_of(runtime).breakers_opened, 0);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(statuses_are_transient_or_not) {
  static const tp_status transient[] = {TP_ERR_BUSY,    TP_ERR_NO_MEMORY,        TP_ERR_FULL,
                                        TP_ERR_TIMEOUT, TP_ERR_STORE_BUSY,       TP_ERR_STORE_FULL,
                                        TP_ERR_SYSTEM,  TP_ERR_STORE_READONLY,   TP_ERR_NO_THREAD,
                                        TP_ERR_IO,      TP_ERR_MODEL_UNAVAILABLE},
                         lasting[] = {TP_OK,         TP_ERR_USAGE,         TP_ERR_NOT_FOUND, TP_ERR_MALFORMED,
                                      TP_ERR_DENIED, TP_ERR_STORE,         TP_ERR_MODEL,     TP_ERR_TOO_LARGE,
                                      TP_ERR_STALE,  TP_ERR_STORE_CORRUPT, TP_ERR_SHUTDOWN,  TP_ERR_STORE_SCHEMA,
                                      TP_ERR_HOOK,   (tp_status)4711};
  for (size_t i = 0; i < COUNT(transient); i++) assert_true(tp_status_is_transient(transient[i]));
  for (size_t i = 0; i < COUNT(lasting); i++) assert_false(tp_status_is_transient(lasting[i]));
}

/* What runs elsewhere has neither. */
/* The job was stored before its subscription was tripped: it waits, and loses no attempt. */
TEST(job_whose_subscription_is_tripped_waits) {
  tp_runtime *runtime = open_runtime(NULL);
  latch leave = LATCH;
  notes n = NOTES;
  n.waits_for = &leave;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  post(session, "first");
  latch_wait(&n.runs, 1);
  post(session, "second");
  assert_int_equal(tp_subscription_trip(runtime, "job", true, NULL), TP_OK);
  latch_hit(&leave);
  while (stats_of(runtime).jobs_run < 1) sleep_ms(1);
  assert_int_equal(tp_jobs_wait(runtime, "s", 20, NULL), TP_ERR_TIMEOUT);
  assert_int_equal(tp_subscription_trip(runtime, "job", false, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
  assert_string_equal(n.text, "first second ");
  assert_int_equal(n.last_attempt, 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(handler_that_is_no_job_has_no_id_and_key) {
  tp_runtime *runtime = open_runtime(NULL);
  notes n = NOTES;
  n.job_id = 99;
  hook h = {.id = "plain", .phase = POST, .run = note, .ctx = &n};
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, POST, NULL);
  tp_turn_end(turn);
  assert_int_equal(n.job_id, 0);
  assert_string_equal(n.key, "");
  assert_int_equal(n.last_attempt, 1);
  close_runtime(runtime);
}

typedef struct found_jobs {
  int count;
  uint64_t id;
  uint32_t state, attempt;
} found_jobs;

static bool find_job(void *ctx, const tp_job *job) {
  found_jobs *found = ctx;
  found->count++;
  found->id = job->id;
  found->state = job->state;
  found->attempt = job->attempt;
  return true;
}

static found_jobs jobs_of(tp_runtime *runtime) {
  found_jobs found = {.count = 0};
  assert_int_equal(tp_jobs_list(runtime, NULL, find_job, &found, NULL), TP_OK);
  return found;
}

TEST(dead_letter_is_listed_redriven_and_discarded) {
  tp_runtime *runtime = open_runtime(NULL);
  notes n = NOTES;
  n.fails = 2;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  post(session, "x");
  assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
  found_jobs dead = jobs_of(runtime);
  assert_int_equal(dead.count, 1);
  assert_int_equal(dead.state, TP_JOB_DEAD);
  assert_int_equal(tp_job_redrive(runtime, dead.id + 1, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_job_redrive(runtime, dead.id, NULL), TP_OK); /* fails again */
  assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
  assert_int_equal(stats_of(runtime).jobs_dead, 2);
  assert_int_equal(tp_job_redrive(runtime, dead.id, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
  assert_string_equal(n.text, "x x x ");
  assert_int_equal(jobs_of(runtime).count, 0); /* the job succeeded */
  n.fails = 1;
  post(session, "y");
  assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
  assert_int_equal(tp_job_discard(runtime, jobs_of(runtime).id, NULL), TP_OK);
  assert_int_equal(jobs_of(runtime).count, 0);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

static bool mask(void *ctx, tp_redaction *redaction) {
  static const char *const secrets[] = {"key-27", "never"};
  (void)ctx;
  for (size_t i = 0; i < COUNT(secrets); i++)
    for (char *at; (at = memmem(redaction->text, redaction->size, secrets[i], strlen(secrets[i])));)
      memset(at, '*', strlen(secrets[i]));
  return true;
}

static bool keep_message(void *ctx, const tp_job *job) {
  snprintf(ctx, 128, "%.*s", (int)job->message.size, job->message.size ? job->message.data : "");
  return true;
}

/* The payload is the input of the job, also after a redrive; the reason of its end is a record. */
TEST(payload_of_a_dead_letter_stays_and_its_message_is_redacted) {
  tp_runtime_options options = {.struct_size = sizeof options, .redact = mask};
  tp_runtime *runtime = open_runtime(&options);
  notes n = NOTES;
  char message[128] = "";
  n.fails = 1;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  post(session, "the key-27");
  assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
  assert_int_equal(jobs_of(runtime).state, TP_JOB_DEAD);
  assert_int_equal(tp_jobs_list(runtime, NULL, keep_message, message, NULL), TP_OK);
  assert_non_null(strstr(message, "*****"));
  assert_null(strstr(message, "never"));
  assert_int_equal(tp_job_redrive(runtime, jobs_of(runtime).id, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait(runtime, "s", 30000, NULL), TP_OK);
  assert_string_equal(n.text, "the key-27 the key-27 ");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

static int32_t never_matches(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_NO;
}

/* The contribution names a handler, and the handler has a version. */
TEST(contributed_job_is_run_whatever_its_handler_s_contract_version) {
  static const tp_contribution asks = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
                                       .key = TEXT("k"),
                                       .domain = TEXT("worker"),
                                       .value = TEXT("\x80")};
  for (uint32_t version = 1; version <= 3; version++) {
    tp_runtime *runtime = open_runtime(NULL);
    act fire = {.emits = &asks, .emit_count = 1};
    notes n = NOTES;
    const uint32_t phase = POST;
    tp_edit *edit;
    assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
    tp_handler handler = {.struct_size = sizeof handler,
                          .id = "worker",
                          .run = note,
                          .ctx = &n,
                          .phases = &phase,
                          .phase_count = 1,
                          .contract_version = version};
    assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
    tp_subscription sub = {
        .struct_size = sizeof sub,
        .id = "worker",
        .handler = "worker",
        .phase = POST,
        .match = &(const tp_match){
            .struct_size = sizeof(tp_match), .matches = never_matches, .description = "never by itself"}};
    assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_OK);
    assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
    hook h = {.id = "job", .phase = POST, .ctx = &fire, .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}};
    add_hooks(runtime, &h, 1);
    tp_session *session = open_session(runtime, "s");
    post(session, "x");
    tp_drain_report report = {.struct_size = sizeof report};
    assert_int_equal(tp_runtime_drain(runtime, 10000, &report, NULL), TP_OK);
    assert_int_equal(report.jobs_lost, 0);
    assert_int_equal(latch_count(&n.runs), 1);
    assert_string_equal(n.key, "k");
    close_runtime(runtime);
  }
}

/* ---- the store is opened before anything begins ---- */

typedef struct opening {
  int opens, recovers, commits;
  uint64_t process_run_id;
  bool refuses, named;
} opening;
static opening opened;

static tp_status note_open(void *ctx, const tp_store_owner *owner, tp_fault *fault) {
  (void)ctx;
  opened.opens++;
  opened.named = owner->struct_size == sizeof *owner && owner->process_id == getpid() && owner->process_started > 0 &&
                 owner->opened_unix_ms > 0 && owner->boot_id.size > 0;
  opened.process_run_id = owner->process_run_id;
  if (!opened.refuses) return TP_OK;
  snprintf(fault->message, sizeof fault->message, "no such file");
  return TP_ERR_IO;
}
static tp_status note_recover(void *ctx, tp_store_recovery *ret_recovery, tp_fault *fault) {
  (void)ctx;
  (void)fault;
  opened.recovers++;
  ret_recovery->owners = 1;
  return TP_OK;
}
static tp_status note_commit(void *ctx, tp_fault *fault) {
  (void)ctx;
  (void)fault;
  opened.commits++;
  return TP_OK;
}
static bool same_process(void *ctx, const tp_entry_record *record) {
  *(bool *)ctx = record->process_run_id == opened.process_run_id;
  return true;
}

TEST(store_is_opened_once_by_the_first_start_and_committed_by_a_drain) {
  tp_store *memory;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
  tp_store store = *memory;
  store.open = note_open;
  store.recover = note_recover;
  store.commit = note_commit;
  opened = (opening){.refuses = true};
  tp_runtime_options options = {.struct_size = sizeof options, .store = &store};
  tp_runtime *runtime = open_runtime(&options);
  assert_int_equal(opened.opens, 0);
  tp_fault fault = {0};
  assert_int_equal(tp_runtime_start(runtime, &fault), TP_ERR_IO);
  assert_non_null(strstr(fault.message, "no such file"));
  assert_int_equal(opened.recovers, 0);
  opened.refuses = false;
  act a = {0};
  hook h = {.id = "a", .phase = POST, .ctx = &a};
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0); /* starts it */
  run_phase(turn, POST, NULL);
  tp_turn_end(turn);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  assert_int_equal(opened.opens, 2);
  assert_int_equal(opened.recovers, 1);
  assert_true(opened.named);
  bool same = false;
  assert_int_equal(read_records(runtime, 1, same_process, &same), TP_OK);
  assert_true(same);
  assert_int_equal(tp_runtime_records_commit(runtime, NULL), TP_OK);
  assert_int_equal(opened.commits, 1);
  assert_int_equal(tp_runtime_drain(runtime, 1000, NULL, NULL), TP_OK);
  assert_int_equal(opened.commits, 2);
  close_runtime(runtime);
}

TEST(options_that_the_store_cannot_keep_are_refused) {
  tp_store *memory;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
  const struct {
    tp_runtime_options options;
    const char *words;
  } cases[] = {{{.durability = TP_DURABILITY_ASYNC}, "survive the process"},
               {{.durability = TP_DURABILITY_SYNC}, "survive the process"},
               {{.durability = TP_DURABILITY_SYNC, .store = memory}, "survive the process"},
               {{.durability = 9}, "must be a tp_durability"},
               {{.record_queue_bytes = 1}, "durable store"},
               {{.record_queue_bytes = 1, .store = memory}, "durable store"},
               {{.store = memory, .jobs_max = 1}, "jobs_max"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime_options options = cases[i].options;
    options.struct_size = sizeof options;
    tp_runtime *runtime = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, cases[i].words));
    assert_null(runtime);
  }
  tp_store_free(memory);
}

TEST(job_whose_handler_is_gone_waits_for_a_commit_that_adds_it_again) {
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
  assert_int_equal(tp_jobs_wait(runtime, "s", 30, NULL), TP_ERR_TIMEOUT);
  assert_int_equal(latch_count(&n.runs), 0);
  add_hooks(runtime, &g, 1);
  assert_int_equal(tp_jobs_wait(runtime, "s", 10000, NULL), TP_OK);
  assert_int_equal(latch_count(&again.runs), 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(detached_runs_and_jobs_may_ask_for_jobs) {
  static const tp_contribution first = {.struct_size = sizeof(tp_contribution),
                                        .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
                                        .key = TEXT("1"),
                                        .domain = TEXT("middle"),
                                        .value = TEXT("\x80")};
  static const tp_contribution second = {.struct_size = sizeof(tp_contribution),
                                         .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
                                         .key = TEXT("2"),
                                         .domain = TEXT("last"),
                                         .value = TEXT("\x80")};
  tp_runtime *runtime = open_runtime(NULL);
  act fire = {.emits = &first, .emit_count = 1}, middle = {.emits = &second, .emit_count = 1}, last = {0};
  const tp_match never = {.struct_size = sizeof never, .matches = never_matches, .description = "never by itself"};
  hook hooks[] = {{.id = "job", .phase = POST, .ctx = &fire, .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}},
                  {.id = "middle", .phase = POST, .ctx = &middle, .slow = true, .sub = {.match = &never}},
                  {.id = "last", .phase = TP_PHASE_SESSION_END, .ctx = &last, .sub = {.match = &never}}};
  add_hooks(runtime, hooks, 3);
  tp_session *session = open_session(runtime, "s");
  post(session, "x");
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 20000, &report, NULL), TP_OK);
  assert_int_equal(report.jobs_lost, 0);
  assert_int_equal(fire.calls, 1);
  assert_int_equal(middle.calls, 1);
  assert_int_equal(last.calls, 1);
  close_runtime(runtime);
}

TEST(drain_runs_open_jobs_within_its_limit) {
  tp_runtime *runtime = open_runtime(NULL);
  notes n = NOTES;
  hook h = background(&n);
  add_hooks(runtime, &h, 1);
  tp_session *session = open_session(runtime, "s");
  for (int i = 0; i < 20; i++) post(session, "x");
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 20000, &report, NULL), TP_OK);
  assert_true(report.complete);
  assert_int_equal(report.jobs_lost, 0);
  assert_int_equal(latch_count(&n.runs), 20);
  close_runtime(runtime);
}

typedef struct patient {
  latch runs;
} patient;

static tp_answer wait_for_cancel(void *ctx, tp_call *call) {
  patient *p = ctx;
  latch_hit(&p->runs);
  while (!tp_call_cancelled(call)) sleep_ms(1);
  return TP_ANSWER_DONE;
}

TEST(drain_gives_up_jobs_behind_its_limit_and_reports_them_as_lost) {
  for (int round = 0; round < 10; round++) {
    tp_runtime *runtime = open_logging((tp_runtime_options){0});
    patient p = {.runs = LATCH};
    hook h = {.id = "job",
              .phase = POST,
              .run = wait_for_cancel,
              .ctx = &p,
              .slow = true,
              .sub = {.execution = TP_EXECUTION_BACKGROUND}};
    add_hooks(runtime, &h, 1);
    tp_session *a = open_session(runtime, "a"), *b = open_session(runtime, "b");
    for (int i = 0; i < 3; i++) post(a, "a");
    post(b, "b");
    latch_wait(&p.runs, 2);
    tp_drain_report report = {.struct_size = sizeof report};
    int64_t began_ns = now_ns();
    assert_int_equal(tp_runtime_drain(runtime, 5, &report, NULL), TP_OK);
    assert_in_range((now_ns() - began_ns) / 1000000, 0, 5000); /* not the 180 s of a job */
    assert_int_equal(report.jobs_lost, 4);
    assert_non_null(strstr(last_error, "4 background jobs are lost"));
    close_runtime(runtime);
  }
}

/* ---- the heartbeat ---- */

static struct {
  tp_store inner;
  latch renewals;
  tp_status fails_with;     /* of the first renewal; TP_OK: it does not fail */
  _Atomic int64_t pause_ms; /* of the first end that was stored; below 0: there was none */
} heart;

static tp_status counted_renew(void *ctx, const tp_job_renew *request, tp_fault *fault) {
  bool first = latch_count(&heart.renewals) == 0;
  tp_status status = first && heart.fails_with ? heart.fails_with : heart.inner.job_renew(ctx, request, fault);
  latch_hit(&heart.renewals);
  return status;
}

static tp_status noted_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  if (heart.pause_ms < 0) heart.pause_ms = request->retry_at_ms - request->now_ms;
  return heart.inner.job_finish(ctx, request, ret_state, fault);
}

static tp_runtime *open_with_heart(tp_status fails_with, tp_log_fn log, void *ctx) {
  tp_store *store;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &store, NULL), TP_OK);
  heart.inner = *store;
  heart.renewals = (latch)LATCH;
  heart.fails_with = fails_with;
  heart.pause_ms = -1;
  tp_store shown = *store;
  shown.job_renew = counted_renew;
  shown.job_finish = noted_finish;
  return open_runtime(&(tp_runtime_options){
      .struct_size = sizeof(tp_runtime_options), .store = &shown, .job_lease_ms = 300, .log = log, .log_ctx = ctx});
}

typedef struct long_job {
  int waits_for; /* so many renewals */
  bool was_cancelled;
  _Atomic int runs;
} long_job;

static tp_answer run_long(void *ctx, tp_call *call) {
  long_job *job = ctx;
  if (job->runs++ > 0) return TP_ANSWER_DONE;
  latch_wait(&heart.renewals, job->waits_for);
  while (job->was_cancelled && !tp_call_cancelled(call)) sleep_ms(1);
  return TP_ANSWER_DONE;
}

static void add_long(tp_runtime *runtime, long_job *job) {
  hook h = {.id = "job",
            .phase = POST,
            .run = run_long,
            .ctx = job,
            .slow = true,
            .idempotent = true,
            .sub = {.execution = TP_EXECUTION_BACKGROUND, .attempts = 3}};
  add_hooks(runtime, &h, 1);
}

TEST(claim_of_a_job_that_runs_longer_than_its_lease_is_renewed) {
  tp_runtime *runtime = open_with_heart(TP_OK, NULL, NULL);
  long_job job = {.waits_for = 4}; /* a third of the lease each: it is over by then */
  add_long(runtime, &job);
  tp_session *session = open_session(runtime, "s");
  post(session, "completed");
  assert_int_equal(tp_jobs_wait(runtime, "s", 60000, NULL), TP_OK);
  assert_int_equal(job.runs, 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

typedef struct lease_log {
  latch lines;
  const char *wanted;
} lease_log;

static void note_line(void *ctx, const tp_log_record *record) {
  lease_log *log = ctx;
  if (strstr(record->message, log->wanted)) latch_hit(&log->lines);
}

TEST(run_whose_claim_is_lost_is_cancelled) {
  lease_log log = {.lines = LATCH, .wanted = "its lease ran out before it was renewed"};
  tp_runtime *runtime = open_with_heart(TP_ERR_STALE, note_line, &log);
  long_job job = {.waits_for = 1, .was_cancelled = true};
  add_long(runtime, &job);
  tp_session *session = open_session(runtime, "s");
  post(session, "completed");
  latch_wait(&log.lines, 1);
  assert_int_equal(tp_jobs_wait(runtime, "s", 60000, NULL), TP_OK);
  assert_int_equal(job.runs, 2); /* cancelled, so one attempt more, and not at once */
  assert_in_range(heart.pause_ms, 100, 200);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(renewal_that_failed_is_logged_once_and_tried_again) {
  lease_log log = {.lines = LATCH, .wanted = "could not be renewed, and is tried again"};
  tp_runtime *runtime = open_with_heart(TP_ERR_STORE_BUSY, note_line, &log);
  long_job job = {.waits_for = 3};
  add_long(runtime, &job);
  tp_session *session = open_session(runtime, "s");
  post(session, "completed");
  assert_int_equal(tp_jobs_wait(runtime, "s", 60000, NULL), TP_OK);
  assert_int_equal(job.runs, 1);
  assert_int_equal(latch_count(&log.lines), 1);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

static tp_status never_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  *ret_next_ms = 0;
  return TP_ERR_NOT_FOUND;
}
static void stay(void *ctx) { (void)ctx; }

static tp_runtime *open_on(tp_store *store, notes *n) {
  tp_runtime *runtime = open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .store = store});
  hook h = background(n);
  add_hooks(runtime, &h, 1);
  return runtime;
}

/* A host opens a store in which an earlier host left a job, and only waits. */
TEST(wait_for_jobs_starts_a_runtime_that_runs_them) {
  tp_store *store;
  notes n = NOTES;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &store, NULL), TP_OK);
  tp_store kept = *store;
  kept.destroy = stay;
  kept.job_claim = never_claim;
  tp_runtime *first = open_on(&kept, &n);
  tp_session *session = open_session(first, "s");
  post(session, "completed");
  tp_session_close(session, NULL, NULL);
  close_runtime(first);
  assert_string_equal(n.text, "");
  tp_runtime *second = open_on(store, &n);
  assert_int_equal(tp_jobs_wait(second, "s", 60000, NULL), TP_OK);
  assert_string_equal(n.text, "completed ");
  assert_int_equal(tp_runtime_drain(second, 1000, NULL, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait(second, "s", 0, NULL), TP_OK); /* it can be asked still */
  close_runtime(second);
}

/* ---- jobs that defer ---- */

enum { CROWD = 20, RUNNING_MAX = 16 }; /* so many times as there are threads */

typedef struct crowd {
  tp_runtime *runtime;
  tp_session *sessions[CROWD];
  pthread_mutex_t mutex;
  tp_token tokens[CROWD]; /* in the order in which their jobs began */
  int open, open_max;
  latch begun;
} crowd;

static tp_answer defer_job(void *ctx, tp_call *call) {
  crowd *c = ctx;
  const tp_deferral deferral = {.struct_size = sizeof deferral};
  pthread_mutex_lock(&c->mutex);
  tp_answer answer = tp_call_defer(call, &deferral, &c->tokens[latch_count(&c->begun)]);
  if (++c->open > c->open_max) c->open_max = c->open;
  latch_hit(&c->begun);
  pthread_mutex_unlock(&c->mutex);
  return answer;
}

static void open_crowd(crowd *c, hook job) {
  tp_runtime_options options = {.struct_size = sizeof options, .detached_threads = 1};
  c->runtime = open_runtime(&options);
  add_hooks(c->runtime, &job, 1);
  for (int i = 0; i < CROWD; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    c->sessions[i] = open_session(c->runtime, id);
    post(c->sessions[i], "completed");
  }
}

static void complete(crowd *c, int index) {
  const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  pthread_mutex_lock(&c->mutex);
  c->open--;
  tp_token token = c->tokens[index];
  pthread_mutex_unlock(&c->mutex);
  assert_int_equal(tp_token_complete(token, &done, NULL), TP_OK);
}

static void close_crowd(crowd *c) {
  assert_int_equal(tp_jobs_wait(c->runtime, "", 60000, NULL), TP_OK);
  for (int i = 0; i < CROWD; i++) tp_session_close(c->sessions[i], NULL, NULL);
  close_runtime(c->runtime);
}

TEST(jobs_that_defer_occupy_no_thread_and_are_bounded) {
  crowd c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .begun = LATCH};
  open_crowd(&c, (hook){.id = "job",
                        .phase = POST,
                        .run = defer_job,
                        .ctx = &c,
                        .slow = true,
                        .sub = {.execution = TP_EXECUTION_BACKGROUND}});
  latch_wait(&c.begun, RUNNING_MAX); /* with one thread */
  for (int i = 0; i < CROWD; i++) {
    latch_wait(&c.begun, RUNNING_MAX + i < CROWD ? RUNNING_MAX + i : CROWD);
    complete(&c, i);
  }
  close_crowd(&c);
  assert_int_equal(c.open_max, RUNNING_MAX);
}

/* However many jobs ran before: jobs for which there is no thread are left to the other processes of a store. */
static bool count_claimed(void *ctx, const tp_job *job) {
  if (job->state == TP_JOB_RUNNING) ++*(int *)ctx;
  return true;
}

TEST(no_more_jobs_are_claimed_than_there_are_threads_when_one_did_not_defer) {
  crowd c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .begun = LATCH};
  latch leave = LATCH;
  notes n = NOTES;
  int claimed = 0;
  n.waits_for = &leave;
  open_crowd(&c, background(&n));
  latch_wait(&n.runs, 1);
  assert_int_equal(tp_jobs_list(c.runtime, NULL, count_claimed, &claimed, NULL), TP_OK);
  assert_int_equal(claimed, 1);
  latch_hit(&leave);
  close_crowd(&c);
  assert_int_equal(n.running_max, 1);
}

/* ---- how many are claimed at once ---- */

static struct {
  tp_store inner;
  _Atomic size_t asked; /* for how many the last claim that found one has asked */
} claims;

static tp_status noted_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  const tp_status status = claims.inner.job_claim(ctx, request, ret_next_ms, fault);
  if (status == TP_OK) claims.asked = request->count_max;
  return status;
}

static tp_answer defer_or_not(void *ctx, tp_call *call) {
  const bool *defers = ctx;
  const tp_deferral deferral = {.struct_size = sizeof deferral};
  const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  tp_token token;
  if (!*defers || tp_call_defer(call, &deferral, &token) != TP_ANSWER_DEFERRED) return TP_ANSWER_DONE;
  (void)!tp_token_complete(token, &done, NULL);
  return TP_ANSWER_DEFERRED;
}

/* @return for how many jobs the claim of this one has asked. */
static size_t asked_for_one(tp_runtime *runtime, tp_session *session) {
  post(session, "completed");
  assert_int_equal(tp_jobs_wait(runtime, "", 60000, NULL), TP_OK);
  return claims.asked;
}

TEST(each_claim_asks_for_more_while_jobs_defer_and_for_one_when_one_did_not) {
  enum { THREADS = 2, WIDTH_MAX = 4 };
  tp_store *store;
  bool defers = true;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &store, NULL), TP_OK);
  claims.inner = *store;
  tp_store shown = *store;
  shown.job_claim = noted_claim;
  tp_runtime *runtime = open_runtime(
      &(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .store = &shown, .detached_threads = THREADS});
  add_hooks(runtime,
            &(hook){.id = "job",
                    .phase = POST,
                    .run = defer_or_not,
                    .ctx = &defers,
                    .slow = true,
                    .sub = {.execution = TP_EXECUTION_BACKGROUND}},
            1);
  tp_session *session = open_session(runtime, "s");
  const size_t deferring[] = {1, 2, WIDTH_MAX, WIDTH_MAX};
  for (size_t i = 0; i < COUNT(deferring); i++)
    assert_int_equal(asked_for_one(runtime, session), THREADS * deferring[i]);
  defers = false;
  assert_int_equal(asked_for_one(runtime, session), THREADS * WIDTH_MAX); /* it is claimed before it is known */
  assert_int_equal(asked_for_one(runtime, session), THREADS);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(lease_that_is_too_short_is_refused) {
  tp_runtime *runtime;
  tp_fault fault = {0};
  const tp_runtime_options options = {.struct_size = sizeof options, .job_lease_ms = 299};
  assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "the least is 300"));
}
