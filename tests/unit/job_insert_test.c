/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of turns that come at the same time go into a durable store together. The thread of the first turn stores its
 * job; the thread of the jobs stores those that come meanwhile, in one call, while no turn holds a thread. A store that
 * says when other processes have inserted jobs is asked at once. */
#include "tests/support/test.h"
#include "tests/support/host.h"

#include "runtime/exec/jobs.h"
#include "runtime/exec/runtime.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, POST = TP_PHASE_TURN_POST_TURN, TURNS = 8, QUEUED = TURNS - 2 };

static tp_store *inner;

static struct {
  latch entered, leave; /* of the calls of job_insert while it is closed */
  bool closed;
  _Atomic int single, together, most;
  _Atomic bool together_fails, single_fails; /* the last: for the key that was seen last */
} gate = {.entered = LATCH, .leave = LATCH};

static tp_status insert_one(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  int call = ++gate.single;
  if (gate.closed && call <= 2) {
    latch_hit(&gate.entered);
    latch_wait(&gate.leave, 1);
  }
  if (gate.single_fails && call == TURNS) return TP_ERR_STORE;
  return inner->job_insert(ctx, job, ret_id, ret_existed, fault);
}

static tp_status insert_all(void *ctx, const tp_job *const *jobs, size_t count, uint64_t *ret_ids, bool *ret_existed,
                            tp_status *ret_statuses, tp_fault *fault) {
  gate.together++;
  if ((int)count > gate.most) gate.most = (int)count;
  if (gate.together_fails) return TP_ERR_STORE;
  return inner->job_insert_all(ctx, jobs, count, ret_ids, ret_existed, ret_statuses, fault);
}

static tp_runtime *runtime;
static _Atomic int ran;

static tp_answer work(void *ctx, tp_call *call) {
  (void)ctx, (void)call;
  ran++;
  return TP_ANSWER_DONE;
}

static void start(uint64_t jobs_max, bool durable, tp_subscription sub) {
  const tp_store_memory_options memory = {.struct_size = sizeof memory, .jobs_max = jobs_max};
  assert_int_equal(tp_store_memory_new(NULL, &memory, &inner, NULL), TP_OK);
  tp_store store = *inner;
  store.durable = durable;
  store.job_insert = insert_one;
  store.job_insert_all = insert_all;
  tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = 2, .store = &store};
  gate.entered.count = gate.leave.count = 0;
  gate.single = gate.together = gate.most = ran = 0;
  gate.together_fails = gate.single_fails = false;
  gate.closed = true;
  runtime = open_runtime(&options);
  sub.execution = TP_EXECUTION_BACKGROUND;
  add_hooks(runtime, &(hook){.id = "job", .phase = GATHER, .run = work, .slow = true, .sub = sub}, 1);
}

static void stop(void) { close_runtime(runtime); }

static size_t count_queued(void) {
  tp__jobs *jobs = tp__runtime_jobs(runtime);
  size_t count = 0;
  tp__mutex_lock(&jobs->mutex);
  for (tp__link *link = jobs->inserts.next; link != &jobs->inserts; link = link->next) count++;
  tp__mutex_unlock(&jobs->mutex);
  return count;
}

typedef struct submitted {
  tp_turn *turn;
  tp_state state;
  tp_reason reason;
  tp_status outcome;
  latch ended;
} submitted;

static void note_end(void *ctx, const tp_phase_result *result) {
  submitted *s = ctx;
  tp_run_record run = run_of(result, "job");
  s->state = run.state;
  s->reason = run.reason;
  s->outcome = result->outcome;
  latch_hit(&s->ended);
}

static void submit(submitted *s) {
  *s = (submitted){.turn = begin_bare(runtime, 0), .ended = LATCH};
  assert_int_equal(tp_phase_submit(s->turn, GATHER, NULL, note_end, s, NULL), TP_OK);
}

/* One thread of the engine stores the first job, the thread of the jobs the second one; the others wait. */
static void submit_all(submitted all[TURNS]) {
  for (int i = 0; i < 2; i++) {
    submit(&all[i]);
    latch_wait(&gate.entered, i + 1);
  }
  for (int i = 2; i < TURNS; i++) submit(&all[i]);
  while (count_queued() != QUEUED) sleep_ms(1);
}

static void end_all(submitted all[TURNS]) {
  for (int i = 0; i < TURNS; i++) {
    latch_wait(&all[i].ended, 1);
    tp_turn_end(all[i].turn);
  }
}

static int count_of(const submitted all[TURNS], tp_state state, tp_reason reason) {
  int count = 0;
  for (int i = 0; i < TURNS; i++) count += all[i].state == state && all[i].reason == reason;
  return count;
}

static void note_other(void *ctx, const tp_phase_result *result) {
  (void)result;
  latch_hit(ctx);
}

TEST(jobs_that_come_at_the_same_time_are_stored_by_one_call_and_hold_no_thread) {
  submitted all[TURNS];
  start(0, true, (tp_subscription){0});
  submit_all(all);
  latch ended = LATCH; /* one of the two threads is in the store, and the other one is free */
  tp_turn *other = begin_bare(runtime, 0);
  assert_int_equal(tp_phase_submit(other, POST, NULL, note_other, &ended, NULL), TP_OK);
  latch_wait(&ended, 1);
  tp_turn_end(other);
  assert_int_equal(gate.together, 0);
  latch_hit(&gate.leave);
  end_all(all);
  assert_int_equal(count_of(all, TP_STATE_BACKGROUNDED, TP_REASON_NONE), TURNS);
  assert_int_equal(gate.single, 2);
  assert_int_equal(gate.together, 1);
  assert_int_equal(gate.most, QUEUED);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  assert_int_equal(ran, TURNS);
  stop();
}

TEST(one_job_that_cannot_be_stored_keeps_no_other) {
  submitted all[TURNS];
  start(0, true, (tp_subscription){0});
  gate.together_fails = gate.single_fails = true;
  submit_all(all);
  latch_hit(&gate.leave);
  end_all(all);
  assert_int_equal(gate.together, 1);
  assert_int_equal(gate.single, TURNS);
  assert_int_equal(count_of(all, TP_STATE_BACKGROUNDED, TP_REASON_NONE), TURNS - 1);
  assert_int_equal(count_of(all, TP_STATE_FAILED, TP_REASON_STORE), 1);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  assert_int_equal(ran, TURNS - 1);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  assert_int_equal(stats.jobs_refused, 1);
  stop();
}

TEST(without_space_a_job_is_refused_where_its_policy_is_to) {
  submitted all[TURNS];
  start(2, true, (tp_subscription){.backlog = TP_BACKLOG_REFUSE});
  submit_all(all);
  latch_hit(&gate.leave);
  end_all(all);
  int stored = count_of(all, TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  assert_int_equal(count_of(all, TP_STATE_FAILED, TP_REASON_SHED), TURNS - stored);
  assert_true(stored >= 2 && stored < TURNS);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  assert_int_equal(ran, stored);
  stop();
}

TEST(without_space_a_job_waits_for_it_as_one_does_that_is_stored_by_its_turn) {
  submitted all[TURNS];
  start(2, true, (tp_subscription){0});
  submit_all(all);
  latch_hit(&gate.leave);
  end_all(all);
  assert_int_equal(count_of(all, TP_STATE_BACKGROUNDED, TP_REASON_NONE), TURNS);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  assert_int_equal(ran, TURNS);
  stop();
}

/* A job that may already be in the store is not reported as cancelled. */
TEST(a_turn_that_is_cancelled_waits_for_the_store) {
  submitted all[TURNS];
  start(0, true, (tp_subscription){0});
  submit_all(all);
  for (int i = 0; i < TURNS; i++) tp_turn_cancel(all[i].turn);
  assert_int_equal(count_queued(), QUEUED);
  latch_hit(&gate.leave);
  end_all(all);
  assert_int_equal(count_of(all, TP_STATE_BACKGROUNDED, TP_REASON_NONE), TURNS);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  assert_int_equal(ran, TURNS);
  stop();
}

TEST(a_store_that_keeps_nothing_is_asked_by_each_turn_itself) {
  submitted all[TURNS];
  start(0, false, (tp_subscription){0});
  gate.closed = false;
  for (int i = 0; i < TURNS; i++) submit(&all[i]);
  end_all(all);
  assert_int_equal(count_of(all, TP_STATE_BACKGROUNDED, TP_REASON_NONE), TURNS);
  assert_int_equal(gate.single, TURNS);
  assert_int_equal(gate.together, 0);
  stop();
}

/* ---- a store that says when other processes have inserted jobs ---- */

static struct {
  pthread_mutex_t lock; /* as a store that calls under its own */
  void (*news)(void *ctx);
  void *ctx;
  _Atomic int watched, unwatched, claims;
  _Atomic bool ends;
} watching = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void watch(void *ctx, void (*news)(void *), void *news_ctx) {
  (void)ctx;
  assert_int_equal(!news, !news_ctx);
  pthread_mutex_lock(&watching.lock);
  watching.news = news;
  watching.ctx = news_ctx;
  pthread_mutex_unlock(&watching.lock);
  if (news) watching.watched++;
  else watching.unwatched++;
}

static void tell(void) {
  pthread_mutex_lock(&watching.lock);
  if (watching.news) watching.news(watching.ctx);
  pthread_mutex_unlock(&watching.lock);
}

static tp_status count_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  watching.claims++;
  return inner->job_claim(ctx, request, ret_next_ms, fault);
}

static tp_runtime *open_watched(bool pump) {
  assert_int_equal(tp_store_memory_new(NULL, NULL, &inner, NULL), TP_OK);
  tp_store store = *inner;
  store.durable = 1;
  store.job_watch = watch;
  store.job_claim = count_claim;
  const tp_runtime_options options = {
      .struct_size = sizeof options, .engine_workers = pump ? 0 : 2, .pump = pump, .store = &store};
  watching.watched = watching.unwatched = watching.claims = 0;
  tp_runtime *watched = open_runtime(&options);
  assert_int_equal(tp_runtime_start(watched, NULL), TP_OK);
  return watched;
}

/* By looks, twice a second, they would take 20 s. */
TEST(store_that_has_news_is_asked_for_jobs_at_once) {
  enum { NEWS = 40, LIMIT_MS = 8000 };
  tp_runtime *watched = open_watched(false);
  while (watching.claims == 0) sleep_ms(1); /* it watches before it looks */
  assert_int_equal(watching.watched, 1);
  int64_t began_ns = now_ns();
  for (int i = 0; i < NEWS; i++) {
    int before = watching.claims;
    tell();
    while (watching.claims == before) sleep_ms(1);
  }
  assert_true(now_ns() - began_ns < LIMIT_MS * INT64_C(1000000));
  assert_int_equal(watching.unwatched, 0);
  close_runtime(watched);
  assert_true(watching.watched == 1 && watching.unwatched == 1 && !watching.news);
}

TEST(runtime_that_is_pumped_watches_from_its_first_pump_to_its_end) {
  tp_runtime *watched = open_watched(true);
  while (watching.claims == 0) assert_int_equal(tp_runtime_pump(watched, 0, NULL, NULL), TP_OK);
  assert_int_equal(watching.watched, 1);
  int before = watching.claims;
  tell();
  for (int i = 0; watching.claims == before && i < 100; i++)
    assert_int_equal(tp_runtime_pump(watched, 0, NULL, NULL), TP_OK);
  assert_int_equal(watching.claims, before + 1);
  assert_int_equal(watching.unwatched, 0);
  close_runtime(watched);
  assert_true(watching.watched == 1 && watching.unwatched == 1 && !watching.news);
}

static void *tell_always(void *ctx) {
  (void)ctx;
  while (!watching.ends) tell();
  return NULL;
}

TEST(news_come_at_any_time_until_nobody_watches) {
  enum { RUNTIMES = 20 };
  pthread_t thread;
  watching.ends = false;
  assert_int_equal(pthread_create(&thread, NULL, tell_always, NULL), 0);
  for (int i = 0; i < RUNTIMES; i++) {
    tp_runtime *watched = open_watched(false);
    if (i % 2) sleep_ms(1);
    close_runtime(watched);
    assert_true(watching.watched == 1 && watching.unwatched == 1);
  }
  watching.ends = true;
  pthread_join(thread, NULL);
}
