/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns that stop waiting for a call to their history, in virtual time: they are cancelled or their time is over while
 * a load or an append that blocks still runs. The history gets one call of the session at a time, and the messages of a
 * later turn are stored. A host takes notes, the test judges. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "runtime/os/os.h"
#include "runtime/os/sim.h"
#include "turnphase/turnphase.h"

enum { TURNS = 3, LIMIT_MS = 30000, SEEDS = 20 };

/** A turn is submitted when the one before it has ended. Times are in ms. */
typedef struct turn_row {
  int load_ms, append_ms;     /* durations of the history's calls */
  int cancel_ms;              /* after the submit; 0: not */
  uint32_t limit_ms;          /* 0: the runtime's */
  tp_turn_outcome outcome;    /* NONE: there is no such turn */
  int ends_ms;                /* after the submit, to 500 ms: two of the longest pauses between two looks */
  bool is_lost, is_left_here; /* the turn was not stored, and its result says so; its reason names the abandoned call */
} turn_row;

typedef struct left_case {
  const char *name;
  bool is_private; /* a history of one process, without claims */
  turn_row turns[TURNS];
} left_case;

#define DONE(after_ms) .outcome = TP_TURN_COMPLETED, .ends_ms = (after_ms)

static const left_case cases[] = {
    {"nothing is left", false, {{.load_ms = 5, DONE(5)}, {.load_ms = 5, DONE(5)}}},
    {"cancelled while it loads",
     false,
     {{.load_ms = 1000, .cancel_ms = 100, .outcome = TP_TURN_CANCELLED, .ends_ms = 100}, {DONE(900)}}},
    {"out of time while it loads",
     false,
     {{.load_ms = 1000, .limit_ms = 100, .outcome = TP_TURN_TIMED_OUT, .ends_ms = 100}, {DONE(900)}}},
    {"cancelled as its load returns",
     false,
     {{.load_ms = 100, .cancel_ms = 100, .outcome = TP_TURN_CANCELLED, .ends_ms = 100}, {DONE(0)}}},
    {"two are cancelled, the second as it waits",
     false,
     {{.load_ms = 1000, .cancel_ms = 100, .outcome = TP_TURN_CANCELLED, .ends_ms = 100},
      {.cancel_ms = 100, .outcome = TP_TURN_CANCELLED, .ends_ms = 100},
      {DONE(800)}}},
    {"the second is out of time as it waits",
     false,
     {{.load_ms = 1000, .cancel_ms = 100, .outcome = TP_TURN_CANCELLED, .ends_ms = 100},
      {.limit_ms = 300, .outcome = TP_TURN_TIMED_OUT, .ends_ms = 300},
      {DONE(600)}}},
    {"the second waits, loads, and is cancelled",
     false,
     {{.load_ms = 500, .cancel_ms = 100, .outcome = TP_TURN_CANCELLED, .ends_ms = 100},
      {.load_ms = 2000, .cancel_ms = 1500, .outcome = TP_TURN_CANCELLED, .ends_ms = 1500},
      {DONE(900)}}},
    {"the load takes longer than anybody waits",
     false,
     {{.load_ms = 80000, .outcome = TP_TURN_FAILED, .ends_ms = LIMIT_MS},
      {.outcome = TP_TURN_FAILED, .ends_ms = LIMIT_MS, .is_left_here = true},
      {DONE(20000)}}},
    {"an append takes longer than its turn waits",
     false,
     {{.append_ms = LIMIT_MS + 1000, .outcome = TP_TURN_FAILED, .ends_ms = LIMIT_MS, .is_lost = true}, {DONE(1000)}}},
    {"private, cancelled while it loads: what was said is kept after the load",
     true,
     {{.load_ms = 1000, .cancel_ms = 100, .outcome = TP_TURN_CANCELLED, .ends_ms = 1000}, {DONE(0)}}},
    {"private, out of time while it loads",
     true,
     {{.load_ms = 1000, .limit_ms = 100, .outcome = TP_TURN_TIMED_OUT, .ends_ms = 1000}, {DONE(0)}}},
    {"private, the load takes longer than anybody waits",
     true,
     {{.load_ms = 100000, .outcome = TP_TURN_FAILED, .ends_ms = 2 * LIMIT_MS},
      {.outcome = TP_TURN_FAILED, .ends_ms = LIMIT_MS, .is_left_here = true},
      {DONE(10000)}}},
    {"private, an append takes longer than its turn waits",
     true,
     {{DONE(0)},
      {.append_ms = LIMIT_MS + 1000, .outcome = TP_TURN_FAILED, .ends_ms = LIMIT_MS, .is_lost = true},
      {DONE(1000)}}},
};

typedef struct world {
  const left_case *c;
  tp_runtime *runtime;
  tp_session *session, *other;
  uint32_t threads;
  bool cancels_first; /* before a turn of another session comes */
  uint32_t now;       /* index of the turn that was submitted last */
  tp__mutex mutex;
  /* under mutex */
  bool is_called;
  uint64_t epoch, running, position;
  bool is_kept[TURNS];
  /* used by the host's thread */
  bool has_ended[TURNS];
  char wrong[256];
} world;

#define EXPECT(world_, truth)                                                                                   \
  do {                                                                                                          \
    if (!(truth) && !(world_)->wrong[0])                                                                        \
      snprintf((world_)->wrong, sizeof(world_)->wrong, "%s:%d: turn %u: %s", __func__, __LINE__, (world_)->now, \
               #truth);                                                                                         \
  } while (0)

/* ---- the history, the model ---- */

/* The call first waits, like one that waits for the lock of its file. */
static void begin_call(world *w, int ms) {
  tp__mutex_lock(&w->mutex);
  EXPECT(w, !w->is_called);
  w->is_called = true;
  tp__mutex_unlock(&w->mutex);
  if (ms > 0) tp__sim_sleep_ns((int64_t)ms * TP__NS_PER_MS);
  tp__mutex_lock(&w->mutex);
}

static void end_call(world *w) {
  w->is_called = false;
  tp__mutex_unlock(&w->mutex);
}

static tp_status load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  world *w = ctx;
  (void)fault;
  begin_call(w, w->c->turns[w->now].load_ms);
  if (request->claim) {
    w->running = ++w->epoch;
    request->claim->number = 1;
    request->claim->fence = w->epoch;
    request->claim->position = w->position;
    request->claim->first = request->number == 1 && request->after == w->position ? w->position : 0;
  }
  end_call(w);
  return TP_OK;
}

static void release(void *ctx, const tp_history_release *request) {
  world *w = ctx;
  tp__mutex_lock(&w->mutex);
  if (request->claim->fence == w->epoch) w->running = 0;
  tp__mutex_unlock(&w->mutex);
}

static tp_status append(void *ctx, const tp_history_append *batch, tp_fault *fault) {
  world *w = ctx;
  (void)fault;
  uint32_t turn = w->now;
  begin_call(w, w->c->turns[turn].append_ms);
  bool is_fenced = batch->claim && (batch->claim->fence != w->epoch || w->running != w->epoch);
  if (!is_fenced) {
    w->running = 0;
    w->position += batch->message_count;
    if (batch->message_count) w->is_kept[turn] = true;
  }
  end_call(w);
  return is_fenced ? TP_ERR_FENCED : TP_OK;
}

static void start_model(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx, (void)request;
  const tp_model_response response = {.struct_size = sizeof response, .text = {"hi", 2}};
  if (tp_model_complete(token, &response, NULL) != TP_OK) (void)!tp_token_abandon(token, NULL);
}

/* ---- the host ---- */

/* Loads for a second session, which ends at once. */
static tp_status load_nothing(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

static tp_status append_nothing(void *ctx, const tp_history_append *batch, tp_fault *fault) {
  (void)ctx, (void)batch, (void)fault;
  return TP_OK;
}

static tp_status open(world *w) {
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = tp__sim_allocator(),
                                      .engine_workers = 1,
                                      .handler_threads = w->threads};
  TP__TRY(tp_runtime_new(&options, &w->runtime, NULL));
  const tp_model model = {
      .struct_size = sizeof model, .name = "m", .ctx = w, .start = start_model, .placement = TP_PLACEMENT_INLINE};
  const tp_history history = {.struct_size = sizeof history,
                              .ctx = w,
                              .load = load,
                              .append = append,
                              .release = w->c->is_private ? NULL : release,
                              .shared = !w->c->is_private};
  const tp_session_options session = {.struct_size = sizeof session, .id = "s", .model = &model, .history = &history};
  const tp_history nothing = {.struct_size = sizeof nothing, .load = load_nothing, .append = append_nothing};
  const tp_session_options other = {.struct_size = sizeof other, .id = "o", .model = &model, .history = &nothing};
  TP__TRY(tp_session_open(w->runtime, &other, &w->other, NULL));
  return tp_session_open(w->runtime, &session, &w->session, NULL);
}

static void judge(world *w, const turn_row *row, const tp_turn_result *result, int64_t took_ns) {
  int64_t ms = took_ns / TP__NS_PER_MS;
  bool names_it = strstr(result->reason.data ? result->reason.data : "", "has left still runs") != NULL;
  if (result->outcome != row->outcome && !w->wrong[0])
    snprintf(w->wrong, sizeof w->wrong, "turn %u: %s: %.*s", w->now, tp_turn_outcome_name(result->outcome),
             (int)result->reason.size, result->reason.data ? result->reason.data : "");
  EXPECT(w, ms >= row->ends_ms && ms <= row->ends_ms + 500);
  EXPECT(w, names_it == row->is_left_here);
  EXPECT(w, result->outcome != TP_TURN_COMPLETED || w->is_kept[w->now]);
  EXPECT(w, !row->is_lost || !w->is_kept[w->now]);
}

static void run_turn(world *w, const turn_row *row) {
  tp_submission *submission = NULL;
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"hello", 5}, .limit_ms = row->limit_ms};
  int64_t submitted_ns = tp__now_ns();
  EXPECT(w, tp_turn_submit(w->session, &request, NULL, NULL, &submission, NULL) == TP_OK);
  if (!submission) return;
  if (row->cancel_ms) {
    tp__sim_sleep_ns((int64_t)row->cancel_ms * TP__NS_PER_MS);
    tp_submission_cancel(submission);
  }
  EXPECT(w, tp_submission_wait(submission, 10 * LIMIT_MS, &result, NULL) == TP_OK);
  if (result) judge(w, row, result, tp__now_ns() - submitted_ns);
  tp_submission_unref(submission);
}

static void main_of_case(void *arg) {
  world *w = arg;
  tp__sim_refusals(false);
  EXPECT(w, tp__mutex_init(&w->mutex, TP__RANK_NONE) == TP_OK);
  EXPECT(w, open(w) == TP_OK);
  for (w->now = 0; w->now < TURNS && w->c->turns[w->now].outcome; w->now++) run_turn(w, &w->c->turns[w->now]);
  if (w->session) tp_session_close(w->session, NULL, NULL);
  if (w->other) tp_session_close(w->other, NULL, NULL);
  tp_runtime_free(w->runtime);
  tp__mutex_fini(&w->mutex);
}

/* With few threads the tenant may have one call at a time: the call of another session waits in line, even for a call
 * for which no turn waits. */
static void main_of_two(void *arg) {
  world *w = arg;
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"hello", 5}};
  tp_submission *first = NULL, *second = NULL;
  const tp_turn_result *result = NULL;
  tp__sim_refusals(false);
  EXPECT(w, tp__mutex_init(&w->mutex, TP__RANK_NONE) == TP_OK);
  EXPECT(w, open(w) == TP_OK);
  EXPECT(w, tp_turn_submit(w->session, &request, NULL, NULL, &first, NULL) == TP_OK);
  tp__sim_sleep_ns(10 * TP__NS_PER_MS);
  if (w->cancels_first) tp_submission_cancel(first);
  if (w->cancels_first) tp__sim_sleep_ns(10 * TP__NS_PER_MS);
  EXPECT(w, tp_turn_submit(w->other, &request, NULL, NULL, &second, NULL) == TP_OK);
  tp__sim_sleep_ns(10 * TP__NS_PER_MS);
  tp_submission_cancel(first);
  EXPECT(w, tp_submission_wait(second, LIMIT_MS, &result, NULL) == TP_OK);
  EXPECT(w, result && result->outcome == TP_TURN_COMPLETED);
  tp_submission_unref(first);
  tp_submission_unref(second);
  tp_session_close(w->session, NULL, NULL);
  tp_session_close(w->other, NULL, NULL);
  tp_runtime_free(w->runtime);
  tp__mutex_fini(&w->mutex);
}

TEST(call_that_a_turn_has_left_refuses_no_other_session) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    const tp__sim_options options = {.seed = seed, .clock_jump_inverse = UINT32_MAX, .steps_max = 50000000};
    world w = {.c = &cases[1], .threads = 4, .cancels_first = seed % 2 == 0};
    tp__sim_report report = tp__sim_run(&options, main_of_two, &w);
    if (w.wrong[0] || report.end != TP__SIM_DONE || tp__sim_bytes_open() != 0)
      fail_msg("seed %llu: %s %s, %zu bytes", (unsigned long long)seed, w.wrong, report.message, tp__sim_bytes_open());
  }
}

TEST(call_that_a_turn_has_left_takes_nothing_from_the_next) {
  static const uint32_t threads[] = {4, 16}; /* with 4 threads, one abandoned function occupies all that the tenant may
                                                have */
  for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      const tp__sim_options options = {.seed = seed, .clock_jump_inverse = UINT32_MAX, .steps_max = 50000000};
      world w = {.c = &cases[i / 2], .threads = threads[i % 2]};
      tp__sim_report report = tp__sim_run(&options, main_of_case, &w);
      if (w.wrong[0] || report.end != TP__SIM_DONE || tp__sim_bytes_open() != 0)
        fail_msg("%s, %u threads, seed %llu: %s %s, %zu bytes", cases[i / 2].name, threads[i % 2],
                 (unsigned long long)seed, w.wrong, report.message, tp__sim_bytes_open());
    }
}
