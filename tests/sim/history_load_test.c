/* SPDX-License-Identifier: Apache-2.0
 *
 * A history that loads through a token, in virtual time: it answers in time, at the last moment, late, twice, with a
 * failure or never, while turns are cancelled, their limit passes, their session is closed and their runtime drained;
 * with threads and without. A host takes notes, the test judges. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "runtime/os/os.h"
#include "runtime/os/sim.h"
#include "turnphase/turnphase.h"

enum { NEVER = -1, LIMIT_MS = 30000, LAST_MS = LIMIT_MS + 50, SEEDS = 12 };

/* When each event happens, in ms after the turn's submit; 0: never, except for the answer. */
typedef struct load_case {
  const char *name;
  int answer_ms; /* NEVER; 0: before load_start returns */
  int again_ms;  /* a second answer */
  bool fails;
  int cancel_ms, close_ms, drain_ms;
  uint32_t limit_ms;
  tp_turn_outcome outcome;
  tp_status code;
  int ends_ms; /* when the turn ends, in ms */
  uint32_t load_cancels;
} load_case;

static const load_case cases[] = {
    {.name = "at once", .outcome = TP_TURN_COMPLETED},
    {.name = "in time", .answer_ms = 7, .outcome = TP_TURN_COMPLETED, .ends_ms = 7},
    {.name = "twice", .answer_ms = 7, .again_ms = 9, .outcome = TP_TURN_COMPLETED, .ends_ms = 7},
    {.name = "at once and again", .again_ms = 9, .outcome = TP_TURN_COMPLETED},
    {.name = "just in time", .answer_ms = LIMIT_MS - 1, .outcome = TP_TURN_COMPLETED, .ends_ms = LIMIT_MS - 1},
    {.name = "late",
     .answer_ms = LIMIT_MS + 1,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_TIMEOUT,
     .ends_ms = LIMIT_MS,
     .load_cancels = 1},
    {.name = "late and again",
     .answer_ms = LIMIT_MS + 1,
     .again_ms = LIMIT_MS + 5,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_TIMEOUT,
     .ends_ms = LIMIT_MS,
     .load_cancels = 1},
    {.name = "never",
     .answer_ms = NEVER,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_TIMEOUT,
     .ends_ms = LIMIT_MS,
     .load_cancels = 1},
    {.name = "fails at once", .fails = true, .outcome = TP_TURN_FAILED, .code = TP_ERR_STORE_FULL},
    {.name = "fails",
     .answer_ms = 7,
     .fails = true,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_STORE_FULL,
     .ends_ms = 7},
    {.name = "fails late",
     .answer_ms = LIMIT_MS + 1,
     .fails = true,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_TIMEOUT,
     .ends_ms = LIMIT_MS,
     .load_cancels = 1},
    {.name = "cancelled while it loads",
     .answer_ms = 20,
     .cancel_ms = 5,
     .outcome = TP_TURN_CANCELLED,
     .code = TP_ERR_CANCELLED,
     .ends_ms = 5,
     .load_cancels = 1},
    {.name = "cancelled, and never answered",
     .answer_ms = NEVER,
     .cancel_ms = 5,
     .outcome = TP_TURN_CANCELLED,
     .code = TP_ERR_CANCELLED,
     .ends_ms = 5,
     .load_cancels = 1},
    {.name = "the limit of the turn passes",
     .answer_ms = 50,
     .limit_ms = 30,
     .outcome = TP_TURN_TIMED_OUT,
     .code = TP_ERR_TIMEOUT,
     .ends_ms = 30,
     .load_cancels = 1},
    {.name = "closed while it loads", .answer_ms = 20, .close_ms = 5, .outcome = TP_TURN_COMPLETED, .ends_ms = 20},
    {.name = "closed, and never answered",
     .answer_ms = NEVER,
     .close_ms = 5,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_TIMEOUT,
     .ends_ms = LIMIT_MS,
     .load_cancels = 1},
    {.name = "drained while it loads",
     .answer_ms = 20,
     .drain_ms = 5,
     .outcome = TP_TURN_CANCELLED,
     .code = TP_ERR_CANCELLED,
     .ends_ms = 5,
     .load_cancels = 1},
};

typedef struct world {
  const load_case *c;
  bool pumped, refuses;
  tp_runtime *runtime;
  tp_session *session;
  tp__mutex handing; /* protects the passing of the token from the turn's owner to the host */
  tp_token token;
  bool loads;
  uint32_t begun, accepted, cancels, destroys, closes, turns_ended;
  tp_turn_outcome outcome;
  tp_status code;
  int64_t submitted_ns, ended_ns;
  char wrong[256];
} world;

#define EXPECT(world_, truth)                                                                    \
  do {                                                                                           \
    if (!(truth) && !(world_)->wrong[0])                                                         \
      snprintf((world_)->wrong, sizeof(world_)->wrong, "%s:%d: %s", __func__, __LINE__, #truth); \
  } while (0)

/* ---- the history, the model ---- */

static void answer(world *w, bool is_first) {
  static const tp_message before = {
      .struct_size = sizeof before, .role = TP_ROLE_USER, .turn_id = {"t0", 2}, .text = {"before", 6}};
  static const tp_message *const messages[] = {&before};
  static const tp_fault full = {.code = TP_ERR_STORE_FULL, .message = "the disk is full"};
  bool was_ended = w->turns_ended > 0;
  tp__mutex_lock(&w->handing);
  tp__mutex_unlock(&w->handing);
  tp_status status = w->c->fails ? tp_history_complete_load(w->token, TP_ERR_STORE_FULL, NULL, 0, &full, NULL)
                                 : tp_history_complete_load(w->token, TP_OK, messages, 1, NULL, NULL);
  EXPECT(w, status == TP_OK || status == TP_ERR_STALE);
  EXPECT(w, status != TP_OK || (is_first && !was_ended));
  w->accepted += status == TP_OK;
}

static void load_start(void *ctx, const tp_history_load *request, tp_token token) {
  world *w = ctx;
  EXPECT(w, tp_text_is(request->session, "s"));
  if (++w->begun > 1) { /* a request of a later turn */
    (void)tp_history_complete_load(token, TP_OK, NULL, 0, NULL, NULL);
    return;
  }
  tp__mutex_lock(&w->handing);
  w->token = token;
  w->loads = true;
  tp__mutex_unlock(&w->handing);
  if (w->c->answer_ms == 0) answer(w, true);
}

static void load_cancel(void *ctx, tp_token token) {
  world *w = ctx;
  EXPECT(w, token.bits == w->token.bits);
  w->cancels++;
}

static tp_status append(void *ctx, const tp_history_append *batch, tp_fault *fault) {
  (void)ctx, (void)batch, (void)fault;
  return TP_OK;
}

static void destroy(void *ctx) { ((world *)ctx)->destroys++; }

static void start_model(void *ctx, const tp_model_request *request, tp_token token) {
  world *w = ctx;
  const tp_model_response response = {.struct_size = sizeof response, .text = {"hi", 2}};
  EXPECT(w, w->begun > 1 || (!w->c->fails && request->message_count >= 2)); /* the loaded messages and the turn's own */
  if (tp_model_complete(token, &response, NULL) != TP_OK) (void)!tp_token_abandon(token, NULL);
}

/* ---- the host ---- */

static void turn_ended(void *ctx, const tp_turn_result *result) {
  world *w = ctx;
  if (w->turns_ended++ > 0) return;
  w->outcome = result->outcome;
  w->code = result->code;
  w->ended_ns = tp__now_ns();
}

static void closed(void *ctx) { ((world *)ctx)->closes++; }

static void close_session(world *w) {
  if (!w->closes) tp_session_close(w->session, closed, w);
  w->session = NULL;
}

/* Lets time pass up to that moment; without threads it pumps at the times that the last pump returned. */
static void go_to(world *w, int64_t ms) {
  int64_t at_ns = w->submitted_ns + ms * TP__NS_PER_MS;
  for (;;) {
    int wait_ms = -1;
    if (w->pumped) EXPECT(w, tp_runtime_pump(w->runtime, 0, &wait_ms, NULL) == TP_OK);
    int64_t left_ns = at_ns - tp__now_ns(), wait_ns = (int64_t)wait_ms * TP__NS_PER_MS;
    if (left_ns <= 0) return;
    tp__sim_sleep_ns(wait_ms >= 0 && wait_ns < left_ns ? wait_ns : left_ns);
  }
}

static int earlier(int a, int b) { return a < b ? a : b; }

/* Returns the next event after `ms`. */
static int next_after(const load_case *c, int ms) {
  const int moments[] = {c->answer_ms, c->again_ms, c->cancel_ms, c->close_ms, c->drain_ms, c->ends_ms, LAST_MS};
  int next = LAST_MS;
  for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
    if (moments[i] > ms) next = earlier(next, moments[i]);
  return next;
}

static void do_what_is_due(world *w, int ms, tp_submission *submission) {
  const load_case *c = w->c;
  if (c->answer_ms == ms && w->loads) answer(w, true);
  if (c->again_ms == ms && w->loads) answer(w, false);
  if (c->cancel_ms == ms) tp_submission_cancel(submission);
  if (c->close_ms == ms) close_session(w);
  if (c->drain_ms == ms) EXPECT(w, tp_runtime_drain(w->runtime, 0, NULL, NULL) == TP_OK);
}

static tp_status open(world *w) {
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = tp__sim_allocator(),
                                      .pump = w->pumped,
                                      .engine_workers = w->pumped ? 0 : 1};
  TP__TRY(tp_runtime_new(&options, &w->runtime, NULL));
  const tp_model model = {
      .struct_size = sizeof model, .name = "m", .ctx = w, .start = start_model, .placement = TP_PLACEMENT_INLINE};
  const tp_history history = {.struct_size = sizeof history,
                              .ctx = w,
                              .load_start = load_start,
                              .load_cancel = load_cancel,
                              .append = append,
                              .destroy = destroy};
  const tp_session_options session = {.struct_size = sizeof session, .id = "s", .model = &model, .history = &history};
  return tp_session_open(w->runtime, &session, &w->session, NULL);
}

static void check(world *w) {
  const load_case *c = w->c;
  int64_t ended_ms = (w->ended_ns - w->submitted_ns) / TP__NS_PER_MS;
  EXPECT(w, w->turns_ended == 1);
  EXPECT(w, w->outcome == c->outcome);
  EXPECT(w, w->code == c->code);
  EXPECT(w, w->begun == 1 && w->cancels == c->load_cancels);
  EXPECT(w, ended_ms >= c->ends_ms && ended_ms <= c->ends_ms + 2);
  EXPECT(w, w->accepted == (c->load_cancels == 0));
}

/* The session goes on: after a failure the messages are loaded again. */
static void check_next_turn(world *w) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"again", 5}};
  bool loaded = w->c->outcome == TP_TURN_COMPLETED;
  const tp_turn_result *ended = NULL;
  EXPECT(w, tp_turn_run(w->session, &request, &ended, NULL) == TP_OK);
  EXPECT(w, ended && ended->outcome == TP_TURN_COMPLETED);
  EXPECT(w, w->begun == (loaded ? 1 : 2));
  tp_turn_result_free(ended);
}

static void main_of_case(void *arg) {
  world *w = arg;
  const load_case *c = w->c;
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"hello", 5}, .limit_ms = c->limit_ms};
  tp_submission *submission = NULL;
  EXPECT(w, tp__mutex_init(&w->handing, TP__RANK_NONE) == TP_OK);
  tp__sim_refusals(w->refuses);
  tp_status status = open(w);
  EXPECT(w, w->refuses || status == TP_OK);
  bool taken = status == TP_OK;
  w->submitted_ns = tp__now_ns();
  if (taken) status = tp_turn_submit(w->session, &request, turn_ended, w, &submission, NULL);
  EXPECT(w, w->refuses || status == TP_OK);
  if (status == TP_OK) {
    for (int ms = 0; ms < LAST_MS;) {
      ms = next_after(c, ms);
      go_to(w, ms);
      do_what_is_due(w, ms, submission);
    }
    EXPECT(w, w->turns_ended == 1);
    if (!w->refuses) check(w);
    if (!w->refuses && w->session && !c->drain_ms) check_next_turn(w);
    tp_submission_unref(submission);
  }
  if (w->session) close_session(w);
  tp_runtime_free(w->runtime);
  if (w->loads && c->answer_ms == NEVER) answer(w, false); /* after everything is freed: the answer is ignored */
  EXPECT(w, !taken || (w->closes == 1 && w->destroys == 1));
  tp__mutex_fini(&w->handing);
}

static void play(const load_case *c, bool pumped, bool refuses, uint64_t seed) {
  const tp__sim_options options = {
      .seed = seed, .clock_jump_inverse = UINT32_MAX, .alloc_refuse_inverse = refuses ? 12 : 0, .steps_max = 50000000};
  world w = {.c = c, .pumped = pumped, .refuses = refuses};
  tp__sim_report report = tp__sim_run(&options, main_of_case, &w);
  if (w.wrong[0] || report.end != TP__SIM_DONE || tp__sim_bytes_open() != 0)
    fail_msg("%s, %s, refuses %d, seed %llu: %s %s, %zu bytes", c->name, pumped ? "pumped" : "threads", refuses,
             (unsigned long long)seed, w.wrong, report.message, tp__sim_bytes_open());
}

TEST(load_ends_as_its_history_answers_and_by_its_limit) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      play(&cases[i], false, false, seed);
      play(&cases[i], true, false, seed);
    }
}

TEST(refused_memory_while_a_history_loads_leaves_nothing) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      play(&cases[i], false, true, seed);
      play(&cases[i], true, true, seed);
    }
}
