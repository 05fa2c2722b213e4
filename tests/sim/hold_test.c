/* SPDX-License-Identifier: Apache-2.0
 *
 * A listener that holds an answer back, in virtual time: a model that asks before each piece emits none while the
 * answer is held, and goes on when the last hold is released. A cancel, the limit of the turn and a drain still end the
 * turn. A host takes notes, the test judges. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "runtime/os/os.h"
#include "runtime/os/sim.h"
#include "turnphase/turnphase.h"

enum { PIECES = 24, SEEDS = 24, HOLDS_MAX = 64, LAST_MS = 3000, LIMIT_MS = 200 };

/* Times in ms after the submit; 0: not at all. */
typedef struct hold_case {
  const char *name;
  uint32_t every;      /* the listener holds at each piece of that number */
  uint32_t release_ms; /* ms after the hold; 0: never */
  uint32_t twice;      /* a second hold of the same piece, which is released this much later */
  int cancel_ms, drain_ms;
  uint32_t limit_ms;
  bool forgets; /* the holds are released after the runtime was freed */
  tp_turn_outcome outcome;
} hold_case;

static const hold_case cases[] = {
    {.name = "none", .outcome = TP_TURN_COMPLETED},
    {.name = "each", .every = 1, .release_ms = 3, .outcome = TP_TURN_COMPLETED},
    {.name = "some", .every = 5, .release_ms = 1, .outcome = TP_TURN_COMPLETED},
    {.name = "two holds", .every = 4, .release_ms = 2, .twice = 4, .outcome = TP_TURN_COMPLETED},
    {.name = "cancelled", .every = 3, .cancel_ms = 20, .forgets = true, .outcome = TP_TURN_CANCELLED},
    {.name = "cancelled, and released", .every = 3, .release_ms = 40, .cancel_ms = 20, .outcome = TP_TURN_CANCELLED},
    {.name = "the limit passes", .every = 3, .limit_ms = 30, .forgets = true, .outcome = TP_TURN_TIMED_OUT},
    {.name = "drained", .every = 2, .drain_ms = 15, .forgets = true, .outcome = TP_TURN_CANCELLED},
};

typedef struct world {
  const hold_case *c;
  bool refuses;
  tp_runtime *runtime;
  tp_session *session;
  tp__mutex mutex;
  tp__parker parker; /* used by the model's thread */
  /* under mutex */
  tp_token token;
  tp_hold *holds[HOLDS_MAX];
  int64_t due_ns[HOLDS_MAX];
  uint32_t hold_count;
  bool asked, resumed, cancelled, model_over;
  uint32_t resumes, emitted, heard, fast_heard, emitted_held, ended;
  tp_turn_outcome outcome;
  int64_t submitted_ns, ended_ns;
  char wrong[256];
} world;

#define EXPECT(world_, truth)                                                                    \
  do {                                                                                           \
    if (!(truth) && !(world_)->wrong[0])                                                         \
      snprintf((world_)->wrong, sizeof(world_)->wrong, "%s:%d: %s", __func__, __LINE__, #truth); \
  } while (0)

/* ---- the model: a thread that reads from nowhere ---- */

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  world *w = ctx;
  (void)request;
  tp__mutex_lock(&w->mutex);
  w->token = token;
  w->asked = true;
  tp__mutex_unlock(&w->mutex);
  tp__parker_unpark(&w->parker);
}

static void model_resume(void *ctx, tp_token token) {
  world *w = ctx;
  tp__mutex_lock(&w->mutex);
  EXPECT(w, w->asked && token.bits == w->token.bits);
  w->resumed = true;
  w->resumes++;
  tp__mutex_unlock(&w->mutex);
  tp__parker_unpark(&w->parker);
}

static void model_cancel(void *ctx, tp_token token) {
  world *w = ctx;
  (void)token;
  tp__mutex_lock(&w->mutex);
  w->cancelled = true;
  tp__mutex_unlock(&w->mutex);
  tp__parker_unpark(&w->parker);
}

static bool may_go_on(world *w, bool held) {
  tp__mutex_lock(&w->mutex);
  bool goes_on = !held || w->resumed || w->cancelled;
  w->resumed = false;
  tp__mutex_unlock(&w->mutex);
  return goes_on;
}

static void emit_all(world *w) {
  for (uint32_t i = 0; i < PIECES && !w->cancelled;) {
    bool held = tp_model_held(w->token);
    if (!may_go_on(w, held)) {
      (void)tp__parker_park_until(&w->parker, TP__NEVER);
      continue;
    }
    if (held && !w->cancelled) continue; /* the model asks again */
    tp__mutex_lock(&w->mutex);
    w->emitted_held += w->hold_count > 0;
    tp__mutex_unlock(&w->mutex);
    tp_status status = i % 3 == 2 ? tp_model_thinking(w->token, tp_text_of("t"), NULL)
                                  : tp_model_delta(w->token, tp_text_of("d"), NULL);
    EXPECT(w, status == TP_OK || status == TP_ERR_STALE || w->refuses);
    if (status == TP_OK) w->emitted++;
    i++;
    tp__sim_sleep_ns((int64_t)tp__sim_random(3) * TP__NS_PER_MS);
  }
}

static void run_model(void *arg) {
  world *w = arg;
  while (!w->asked && !w->cancelled) (void)tp__parker_park_until(&w->parker, TP__NEVER);
  if (w->asked) {
    static const tp_model_response response = {.struct_size = sizeof response, .text = {"done", 4}};
    emit_all(w);
    tp_status status = w->cancelled ? tp_model_fail(w->token, TP_ERR_CANCELLED, "cancelled", false, NULL)
                                    : tp_model_complete(w->token, &response, NULL);
    EXPECT(w, status == TP_OK || status == TP_ERR_STALE);
    EXPECT(w, !tp_model_held(w->token));
  }
  w->model_over = true;
}

/* ---- the listeners ---- */

static void on_slow(void *ctx, const tp_event *event) {
  world *w = ctx;
  const hold_case *c = w->c;
  tp_hold *hold = NULL, *again = NULL;
  if (event->kind == TP_EVENT_TURN_BEGIN) EXPECT(w, !tp_event_hold(event));
  if (event->kind != TP_EVENT_MODEL_DELTA && event->kind != TP_EVENT_THINKING) return;
  w->heard += (uint32_t)event->text.size;
  if (c->every == 0 || w->heard % c->every != 0) return;
  hold = tp_event_hold(event);
  if (c->twice) again = tp_event_hold(event);
  EXPECT(w, hold || w->refuses);
  tp__mutex_lock(&w->mutex);
  for (int i = 0; i < 2; i++) {
    if (!(i ? again : hold)) continue;
    w->due_ns[w->hold_count] =
        c->release_ms ? tp__now_ns() + (c->release_ms + (i ? c->twice : 0)) * TP__NS_PER_MS : INT64_MAX;
    w->holds[w->hold_count++] = i ? again : hold;
  }
  tp__mutex_unlock(&w->mutex);
}

static void on_fast(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind == TP_EVENT_MODEL_DELTA || event->kind == TP_EVENT_THINKING)
    w->fast_heard += (uint32_t)event->text.size;
}

/* Releases the holds whose time has come, on the host's thread. */
static void release_due(world *w, int64_t now_ns) {
  tp__mutex_lock(&w->mutex);
  for (uint32_t i = 0; i < w->hold_count;) {
    if (w->due_ns[i] > now_ns) {
      i++;
      continue;
    }
    tp_hold *hold = w->holds[i];
    w->holds[i] = w->holds[--w->hold_count];
    w->due_ns[i] = w->due_ns[w->hold_count];
    tp__mutex_unlock(&w->mutex);
    tp_hold_release(hold);
    tp__mutex_lock(&w->mutex);
  }
  tp__mutex_unlock(&w->mutex);
}

/* ---- the host ---- */

static void turn_ended(void *ctx, const tp_turn_result *result) {
  world *w = ctx;
  w->ended++;
  w->outcome = result->outcome;
  w->ended_ns = tp__now_ns();
}

static void closed(void *ctx) { (void)ctx; }

static tp_status open(world *w) {
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = tp__sim_allocator(),
                                      .engine_workers = 1 + (uint32_t)tp__sim_random(2)};
  TP__TRY(tp_runtime_new(&options, &w->runtime, NULL));
  const tp_model model = {.struct_size = sizeof model,
                          .name = "m",
                          .ctx = w,
                          .start = model_start,
                          .cancel = model_cancel,
                          .resume = model_resume,
                          .delivers = tp__sim_random(2) > 0,
                          .placement = TP_PLACEMENT_INLINE};
  const tp_session_options session = {.struct_size = sizeof session, .id = "s", .model = &model};
  TP__TRY(tp_session_open(w->runtime, &session, &w->session, NULL));
  const tp_listener slow = {.struct_size = sizeof slow, .on_event = on_slow, .ctx = w},
                    fast = {.struct_size = sizeof fast, .on_event = on_fast, .ctx = w};
  TP__TRY(tp_session_listen(w->session, &slow, NULL, NULL));
  return tp_session_listen(w->session, &fast, NULL, NULL);
}

static void wait_for_end(world *w, tp_submission *submission) {
  const hold_case *c = w->c;
  bool cancelled = false, drained = false;
  for (int ms = 0; ms < LAST_MS && !(w->ended && w->model_over && (w->hold_count == 0 || c->forgets)); ms++) {
    release_due(w, tp__now_ns());
    if (c->cancel_ms && ms >= c->cancel_ms && !cancelled) tp_submission_cancel(submission);
    cancelled |= c->cancel_ms && ms >= c->cancel_ms;
    if (c->drain_ms && ms >= c->drain_ms && !drained) EXPECT(w, tp_runtime_drain(w->runtime, 0, NULL, NULL) == TP_OK);
    drained |= c->drain_ms && ms >= c->drain_ms;
    tp__sim_sleep_ns(TP__NS_PER_MS);
  }
}

static void check(world *w) {
  const hold_case *c = w->c;
  EXPECT(w, w->ended == 1);
  EXPECT(w, w->outcome == c->outcome);
  EXPECT(w, w->fast_heard == w->heard);
  if (c->outcome == TP_TURN_COMPLETED) EXPECT(w, w->heard == PIECES && w->emitted == PIECES);
  else EXPECT(w, w->heard < PIECES); /* the answer was held when the turn ended */
  /* For each hold, one piece may have been on its way between the question and the emission. */
  EXPECT(w, w->emitted_held <= w->resumes + 1);
  if (c->every && c->release_ms && c->outcome == TP_TURN_COMPLETED) {
    EXPECT(w, w->resumes >= 1 && w->resumes <= PIECES / c->every);
    EXPECT(w, w->ended_ns - w->submitted_ns >= (int64_t)c->release_ms * TP__NS_PER_MS);
  }
  if (c->every && !c->release_ms) EXPECT(w, w->resumes == 0);
  if (c->limit_ms) EXPECT(w, w->ended_ns - w->submitted_ns <= (c->limit_ms + 2) * TP__NS_PER_MS);
}

static void main_of_case(void *arg) {
  world *w = arg;
  const hold_case *c = w->c;
  const tp_turn_request request = {.struct_size = sizeof request,
                                   .text = {"hello", 5},
                                   .limit_ms = c->limit_ms,
                                   .each_delta = tp__sim_random(2) > 0};
  tp_submission *submission = NULL;
  tp__thread *thread = NULL;
  const tp_allocator allocator = tp__sim_allocator();
  tp__sim_refusals(false);
  EXPECT(w, tp__mutex_init(&w->mutex, TP__RANK_NONE) == TP_OK && tp__parker_init(&w->parker) == TP_OK);
  bool has_thread = tp__thread_start(&allocator, "model", run_model, w, &thread) == TP_OK;
  EXPECT(w, has_thread);
  tp__sim_refusals(w->refuses);
  tp_status status = open(w);
  w->submitted_ns = tp__now_ns();
  if (status == TP_OK) status = tp_turn_submit(w->session, &request, turn_ended, w, &submission, NULL);
  EXPECT(w, w->refuses || status == TP_OK);
  if (status == TP_OK) {
    wait_for_end(w, submission);
    EXPECT(w, w->ended == 1);
    if (!w->refuses) check(w);
    tp_submission_unref(submission);
  }
  tp__sim_refusals(false);
  if (!w->model_over) model_cancel(w, w->token);
  tp__thread_join(thread);
  if (w->session) tp_session_close(w->session, closed, w);
  tp_runtime_free(w->runtime);
  release_due(w, INT64_MAX);
  tp__parker_fini(&w->parker);
  tp__mutex_fini(&w->mutex);
}

static void play(const hold_case *c, bool refuses, uint64_t seed) {
  const tp__sim_options options = {
      .seed = seed, .clock_jump_inverse = UINT32_MAX, .alloc_refuse_inverse = refuses ? 12 : 0, .steps_max = 50000000};
  world w = {.c = c, .refuses = refuses};
  tp__sim_report report = tp__sim_run(&options, main_of_case, &w);
  if (w.wrong[0] || report.end != TP__SIM_DONE || tp__sim_bytes_open() != 0)
    fail_msg("%s, refuses %d, seed %llu: %s %s, %zu bytes", c->name, refuses, (unsigned long long)seed, w.wrong,
             report.message, tp__sim_bytes_open());
}

TEST(answer_that_is_held_pauses_its_model_and_goes_on_when_it_is_released) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++) play(&cases[i], false, seed);
}

TEST(refused_memory_leaves_no_answer_held) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++) play(&cases[i], true, seed);
}
