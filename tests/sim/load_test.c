/* SPDX-License-Identifier: Apache-2.0
 *
 * A runtime with more load than fits, in virtual time: what is shed, in which order; and how long the turns of others
 * take while one tenant sends a hundred times its share. A host takes notes, the test judges. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "runtime/os/sim.h"
#include "turnphase/turnphase.h"

enum { PHASE = TP_PHASE_TOOL_PRE, QUEUE_MAX = 8, BLOCKERS = 16 };

typedef struct world {
  tp_runtime *runtime;
  bool open; /* the first blocker ends */
  bool begun, nested_done, released;
  uint32_t ended;     /* blockers */
  uint32_t lines;     /* log lines of refused turns */
  tp_session *nested; /* its turn runs at the end of the first blocker */
  uint32_t ends;      /* the handlers at the end of that turn */
  char wrong[256];
} world;

#define EXPECT(world_, truth)                                                                    \
  do {                                                                                           \
    if (!(truth) && !(world_)->wrong[0])                                                         \
      snprintf((world_)->wrong, sizeof(world_)->wrong, "%s:%d: %s", __func__, __LINE__, #truth); \
  } while (0)

static void pass_us(int64_t us) { tp__sim_sleep_ns(us * TP__NS_PER_US); }

static void judge(void (*main_of_run)(void *arg), world *w, uint64_t seed) {
  const tp__sim_options options = {.seed = seed, .clock_jump_inverse = UINT32_MAX, .steps_max = 50000000};
  tp__sim_report report = tp__sim_run(&options, main_of_run, w);
  if (w->wrong[0]) fail_msg("seed %llu: %s", (unsigned long long)seed, w->wrong);
  if (report.end != TP__SIM_DONE) fail_msg("seed %llu: %s", (unsigned long long)seed, report.message);
}

/* ---- what is shed, and when ---- */

static tp_runtime_stats stats_of(const world *w) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(w->runtime, &stats);
  return stats;
}

/* One call at a time, since the pool has one thread. */
static tp_answer block(void *ctx, tp_call *call) {
  world *w = ctx;
  bool first = !w->begun;
  w->begun = true;
  while (first && !w->open) pass_us(100);
  /* the others wait until the end of the nested turn waits for a thread, too: it would be shed if that were possible */
  while (!first && !w->released) {
    w->released = w->nested_done || stats_of(w).attempts_waiting >= QUEUE_MAX;
    pass_us(100);
  }
  if (!first) return TP_ANSWER_DONE;
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"go", 2}};
  const tp_turn_result *result = NULL;
  EXPECT(w, stats_of(w).attempts_waiting >= QUEUE_MAX);
  tp_status status = tp_call_run_turn(call, w->nested, &request, &result, NULL);
  EXPECT(w, status == TP_OK && result->outcome == TP_TURN_COMPLETED); /* it belongs to a turn that runs already */
  if (status == TP_OK) tp_turn_result_free(result);
  w->nested_done = true;
  return TP_ANSWER_DONE;
}

static tp_answer note_end(void *ctx, tp_call *call) {
  (void)call;
  ((world *)ctx)->ends++;
  return TP_ANSWER_DONE;
}

static void answer_at_once(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  (void)request;
  const tp_model_response response = {
      .struct_size = sizeof response, .text = {"ok", 2}, .stop_reason = {"end_turn", 8}};
  (void)!tp_model_complete(token, &response, NULL);
}

static tp_answer pass(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_DONE;
}

static void add(world *w, const char *id, uint32_t phase, tp_handler_fn run, tp_execution execution,
                tp_failure failure) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit = NULL;
  const tp_handler handler = {
      .struct_size = sizeof handler, .id = id, .run = run, .ctx = w, .phases = &phase, .phase_count = 1};
  const tp_subscription sub = {.struct_size = sizeof sub,
                               .id = id,
                               .handler = id,
                               .phase = phase,
                               .execution = execution,
                               .failure = failure,
                               .max_concurrent = 100,
                               .limit_ms = 60000};
  tp_status status = tp_edit_begin(w->runtime, &owner, &edit, NULL);
  if (status == TP_OK) status = tp_edit_add_handler(edit, &handler, NULL);
  if (status == TP_OK) status = tp_edit_add_subscription(edit, &sub, NULL);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
  EXPECT(w, status == TP_OK);
}

static void log_line(void *ctx, const tp_log_record *record) {
  ((world *)ctx)->lines += strstr(record->message, "new turns are refused") != NULL;
}

static tp_turn *begin(world *w, tp_status *ret_status) {
  tp_turn *turn = NULL;
  const tp_turn_request request = {.struct_size = sizeof request};
  *ret_status = tp_turn_begin_bare(w->runtime, &request, &turn, NULL);
  return turn;
}

static void blocker_ended(void *ctx, const tp_phase_result *result) {
  (void)result;
  ((world *)ctx)->ended++;
}

/* The reason in the row of a phase's only subscription, while others block. */
static tp_reason reason_in(world *w, uint32_t phase, tp_turn *turn) {
  const tp_phase_input input = {.struct_size = sizeof input, .budget_ms = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_status status = tp_phase_run(turn, phase, &input, &result, NULL);
  EXPECT(w, status == TP_OK && result.run_count == 1);
  return status == TP_OK ? (tp_reason)tp_phase_result_run(&result, 0)->reason : TP_REASON_NONE;
}

/* Phases that the nested turn, which calls no tool, does not have. */
enum { REQUIRED = TP_PHASE_TOOL_REWRITE, OPTIONAL = TP_PHASE_TOOL_POST, DETACHED = TP_PHASE_TOOL_BATCH };

static void main_of_shedding(void *arg) {
  world *w = arg;
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = tp__sim_allocator(),
                                      .engine_workers = 1,
                                      .handler_threads = 1,
                                      .handler_queue_max = QUEUE_MAX,
                                      .log = log_line,
                                      .log_ctx = w};
  EXPECT(w, tp_runtime_new(&options, &w->runtime, NULL) == TP_OK);
  add(w, "blocker", PHASE, block, TP_EXECUTION_BLOCKING, TP_FAILURE_REQUIRED);
  add(w, "required", REQUIRED, pass, TP_EXECUTION_BLOCKING, TP_FAILURE_REQUIRED);
  add(w, "optional", OPTIONAL, pass, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  add(w, "detached", DETACHED, pass, TP_EXECUTION_FIRE_AND_RECORD, TP_FAILURE_BEST_EFFORT);
  add(w, "end", TP_PHASE_TURN_POST_TURN, note_end, TP_EXECUTION_BLOCKING, TP_FAILURE_BEST_EFFORT);
  const tp_model model = {
      .struct_size = sizeof model, .name = "m", .start = answer_at_once, .placement = TP_PLACEMENT_INLINE};
  const tp_session_options session = {.struct_size = sizeof session, .id = "nested", .model = &model};
  EXPECT(w, tp_session_open(w->runtime, &session, &w->nested, NULL) == TP_OK);
  tp_turn *turns[BLOCKERS], *probe;
  tp_status status;
  probe = begin(w, &status);
  EXPECT(w, status == TP_OK);
  const tp_phase_input input = {.struct_size = sizeof input, .budget_ms = 600000};
  uint64_t shed = 0;
  uint32_t blockers = 0;
  for (uint32_t waiting = 0; waiting <= QUEUE_MAX; waiting++) {
    bool sheds_detached = waiting >= QUEUE_MAX / 2, sheds_optional = waiting >= QUEUE_MAX * 3 / 4;
    if (waiting == QUEUE_MAX / 2) { /* the last detached run that is taken: it waits, too */
      EXPECT(w, reason_in(w, DETACHED, probe) == TP_REASON_NONE);
    } else {
      turns[blockers] = begin(w, &status);
      EXPECT(w, status == TP_OK);
      EXPECT(w, tp_phase_submit(turns[blockers++], PHASE, &input, blocker_ended, w, NULL) == TP_OK);
    }
    while (stats_of(w).attempts_waiting < waiting) pass_us(10);
    pass_us(10);
    if (sheds_detached) EXPECT(w, reason_in(w, DETACHED, probe) == TP_REASON_SHED);
    EXPECT(w, (reason_in(w, OPTIONAL, probe) == TP_REASON_SHED) == sheds_optional);
    EXPECT(w, reason_in(w, REQUIRED, probe) == TP_REASON_TIMEOUT); /* it waits for its whole limit */
    shed += sheds_detached + sheds_optional;
  }
  EXPECT(w, stats_of(w).attempts_shed == shed && stats_of(w).turns_refused == 0);
  for (int i = 0; i < 3; i++) EXPECT(w, !begin(w, &status) && status == TP_ERR_FULL);
  EXPECT(w, stats_of(w).turns_refused == 3 && w->lines == 1);
  w->open = true;
  while (w->ended < blockers) pass_us(100);
  EXPECT(w, w->ends == 1);
  EXPECT(w, reason_in(w, OPTIONAL, probe) != TP_REASON_SHED);
  tp_turn *after = begin(w, &status);
  EXPECT(w, status == TP_OK);
  if (after) tp_turn_end(after);
  for (uint32_t n = 0; n < blockers; n++) tp_turn_end(turns[n]);
  tp_turn_end(probe);
  tp_session_close(w->nested, NULL, NULL);
  tp_runtime_free(w->runtime);
}

TEST(background_goes_first_then_best_effort_then_new_turns) {
  for (uint64_t seed = 1; seed <= 20; seed++) judge(main_of_shedding, &(world){.open = false}, seed);
}

/* ---- a flood of one tenant ---- */

enum { RUNNING = 4, TENANTS = 5, TURNS = 200, FLOOD_SESSIONS = 64, FLOOD_PAUSE_US = 10 };

typedef struct flooded {
  world w;
  bool floods;
  tp__a32 left; /* turns of the others that are left */
  tp__parker done;
  uint64_t sent, refused, ended;
  size_t bytes_early, bytes_late;
  int64_t durations_ns[TENANTS * TURNS];
  uint32_t count; /* needs no lock, since a fiber is not interrupted between two points */
} flooded;

typedef struct tenant {
  flooded *f;
  int index;
} tenant;

/* A millisecond, give or take a fifth. */
static void start_model(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  (void)request;
  pass_us(800 + (int64_t)tp__sim_random(400));
  const tp_model_response response = {
      .struct_size = sizeof response, .text = {"ok", 2}, .stop_reason = {"end_turn", 8}};
  (void)!tp_model_complete(token, &response, NULL);
}

static tp_session *open_session(flooded *f, const char *name, const char *id) {
  const tp_model model = {
      .struct_size = sizeof model, .name = "m", .ctx = f, .start = start_model, .placement = TP_PLACEMENT_THREAD};
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .tenant = name, .model = &model};
  tp_session *session = NULL;
  EXPECT(&f->w, tp_session_open(f->w.runtime, &options, &session, NULL) == TP_OK);
  return session;
}

static void run_tenant(void *arg) {
  const tenant *t = arg;
  flooded *f = t->f;
  char name[16];
  snprintf(name, sizeof name, "t%d", t->index);
  tp_session *session = open_session(f, name, name);
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"hi", 2}};
  for (int i = 0; session && i < TURNS; i++) {
    const tp_turn_result *result = NULL;
    int64_t begun_ns = tp__now_ns();
    tp_status status = tp_turn_run(session, &request, &result, NULL);
    EXPECT(&f->w, status == TP_OK && result->outcome == TP_TURN_COMPLETED); /* no turn is refused */
    f->durations_ns[f->count++] = tp__now_ns() - begun_ns;
    if (status == TP_OK) tp_turn_result_free(result);
  }
  if (session) tp_session_close(session, NULL, NULL);
  if (tp__a32_sub_acq_rel(&f->left, 1) == 1) tp__parker_unpark(&f->done);
}

static void flood_turn_ended(void *ctx, const tp_turn_result *result) {
  (void)result;
  ((flooded *)ctx)->ended++;
}

/* Submits one turn each 10 us, where 4 fit into a millisecond. */
static void flood(void *arg) {
  flooded *f = arg;
  tp_session *sessions[FLOOD_SESSIONS];
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"flood", 5}, .limit_ms = 600000};
  for (int i = 0; i < FLOOD_SESSIONS; i++) {
    char id[16];
    snprintf(id, sizeof id, "f%d", i);
    sessions[i] = open_session(f, "flood", id);
  }
  uint64_t taken = 0;
  for (int i = 0; tp__a32_load_relaxed(&f->left) > 0; i = (i + 1) % FLOOD_SESSIONS) {
    tp_status status = tp_turn_submit(sessions[i], &request, flood_turn_ended, f, NULL, NULL);
    f->sent++;
    taken += status == TP_OK;
    f->refused += status == TP_ERR_FULL;
    EXPECT(&f->w, status == TP_OK || status == TP_ERR_FULL);
    if (f->sent == 1000) f->bytes_early = tp__sim_bytes_open();
    f->bytes_late = tp__sim_bytes_open();
    pass_us(FLOOD_PAUSE_US);
  }
  while (f->ended < taken) pass_us(100);
  for (int i = 0; i < FLOOD_SESSIONS; i++) tp_session_close(sessions[i], NULL, NULL);
}

static void main_of_flood(void *arg) {
  flooded *f = arg;
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = tp__sim_allocator(),
                                      .engine_workers = 2,
                                      .turns_running_max = RUNNING,
                                      .turns_waiting_max = 8};
  EXPECT(&f->w, tp_runtime_new(&options, &f->w.runtime, NULL) == TP_OK);
  EXPECT(&f->w, tp__parker_init(&f->done) == TP_OK);
  tp__a32_store_relaxed(&f->left, TENANTS);
  tp_allocator allocator = tp__sim_allocator();
  tenant tenants[TENANTS];
  tp__thread *threads[TENANTS + 1] = {NULL};
  if (f->floods) EXPECT(&f->w, tp__thread_start(&allocator, "flood", flood, f, &threads[TENANTS]) == TP_OK);
  for (int i = 0; i < TENANTS; i++) {
    tenants[i] = (tenant){f, i};
    EXPECT(&f->w, tp__thread_start(&allocator, "tenant", run_tenant, &tenants[i], &threads[i]) == TP_OK);
  }
  tp__parker_park_until(&f->done, TP__NEVER);
  for (int i = 0; i <= TENANTS; i++)
    if (threads[i]) tp__thread_join(threads[i]);
  EXPECT(&f->w, stats_of(&f->w).turns_refused == f->refused);
  tp__parker_fini(&f->done);
  tp_runtime_free(f->w.runtime);
}

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t p99_of(flooded *f) {
  assert_int_equal(f->count, TENANTS * TURNS);
  qsort(f->durations_ns, f->count, sizeof *f->durations_ns, by_size);
  return f->durations_ns[f->count * 99 / 100];
}

TEST(others_take_at_most_twice_as_long_beside_a_flood) {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    static flooded alone, beside;
    alone = (flooded){.floods = false};
    beside = (flooded){.floods = true};
    judge(main_of_flood, &alone.w, seed);
    judge(main_of_flood, &beside.w, seed);
    int64_t alone_ns = p99_of(&alone), beside_ns = p99_of(&beside);
    printf("# p99 of a turn of the others: %.2f ms alone, %.2f ms beside a flood of %llu turns, %llu of them refused\n",
           (double)alone_ns / 1e6, (double)beside_ns / 1e6, (unsigned long long)beside.sent,
           (unsigned long long)beside.refused);
    assert_true(beside.sent >= 100 * TURNS / 2);
    assert_true(beside.refused * 10 >= beside.sent * 8);
    assert_true(beside_ns <= 2 * alone_ns);
    /* records and histories of turns that ran; the some 37,000 refused turns left nothing */
    assert_true(beside.bytes_late - beside.bytes_early <= 1024 * (beside.ended + TENANTS * TURNS));
  }
}

/* ---- the wall clock is set while jobs run and wait ---- */

typedef struct clocked {
  world w;
  int64_t step_ms;
  bool fails_first;
  uint32_t calls, inside, inside_max;
} clocked;

static tp_answer work_a_while(void *ctx, tp_call *call) {
  clocked *c = ctx;
  c->calls++;
  if (++c->inside > c->inside_max) c->inside_max = c->inside;
  pass_us(500000);
  c->inside--;
  if (c->fails_first && c->calls == 1) return tp_call_fail_retryable(call, 1, "once more");
  return TP_ANSWER_DONE;
}

static void main_of_clocked(void *arg) {
  clocked *c = arg;
  world *w = &c->w;
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  static const uint32_t phase = TP_PHASE_TURN_POST_TURN;
  const tp_runtime_options options = {.struct_size = sizeof options, .allocator = tp__sim_allocator()};
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = "job",
                              .run = work_a_while,
                              .ctx = c,
                              .phases = &phase,
                              .phase_count = 1,
                              .idempotent = true};
  const tp_subscription sub = {.struct_size = sizeof sub,
                               .id = "job",
                               .handler = "job",
                               .phase = phase,
                               .execution = TP_EXECUTION_BACKGROUND,
                               .attempts = 3,
                               .backoff = TP_BACKOFF_EXPONENTIAL,
                               .backoff_ms = 1000};
  tp_edit *edit = NULL;
  tp_phase_result result = {.struct_size = sizeof result};
  EXPECT(w, tp_runtime_new(&options, &w->runtime, NULL) == TP_OK);
  tp_status status = tp_edit_begin(w->runtime, &owner, &edit, NULL);
  if (status == TP_OK) status = tp_edit_add_handler(edit, &handler, NULL);
  if (status == TP_OK) status = tp_edit_add_subscription(edit, &sub, NULL);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
  EXPECT(w, status == TP_OK);
  tp_turn *turn = begin(w, &status);
  EXPECT(w, status == TP_OK && tp_phase_run(turn, phase, NULL, &result, NULL) == TP_OK);
  while (c->calls == 0) pass_us(1000);
  if (c->fails_first) pass_us(600000); /* the job waits for its second attempt */
  int64_t began_ns = tp__now_ns();
  tp__sim_wall_jump_ms(c->step_ms);
  EXPECT(w, tp_phase_run(turn, phase, NULL, &result, NULL) == TP_OK); /* news: the job thread looks */
  EXPECT(w, tp_jobs_wait(w->runtime, "", 600000, NULL) == TP_OK);
  EXPECT(w, tp__now_ns() - began_ns <= 62 * 1000 * (int64_t)TP__NS_PER_MS);
  tp_turn_end(turn);
  tp_runtime_free(w->runtime);
}

TEST(clock_that_is_set_makes_no_job_run_twice_or_wait_for_long) {
  static const int64_t day_ms = 86400000;
  static const struct {
    int64_t step_ms;
    bool fails_first;
  } rows[] = {{day_ms, false}, {-day_ms, false}, {3600000, false}, {-3600000, false}, {365 * day_ms, false},
              {day_ms, true},  {-day_ms, true},  {3600000, true},  {-3600000, true},  {-365 * day_ms, true},
              {-90000, true},  {400, true},      {-400, true},     {400, false}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (uint64_t seed = 1; seed <= 3; seed++) {
      clocked c = {.step_ms = rows[i].step_ms, .fails_first = rows[i].fails_first};
      judge(main_of_clocked, &c.w, seed);
      assert_int_equal(c.calls, rows[i].fails_first ? 3 : 2);
      assert_in_range(c.inside_max, 1, 2);
    }
}
