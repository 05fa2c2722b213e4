/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of many turns at once: W7, the throughput of a server whose turns do not wait for a model, compared with a
 * floor and the peers that are built; CPU time of a turn by the number of turns in flight; calls of the allocator;
 * memory of a turn that waits. README.md says how to read it. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/floor.h"
#include "bench/latch.h"
#include "bench/memory.h"
#include "bench/peer.h"
#include "bench/report.h"

#define ROWS "W7 flight driven allocator waiting "

enum { TURNS = 1024, TURNS_QUICK = 64 };

/* ---- a host of many turns, in several lines: in each line one turn follows the other ---- */

typedef struct host host;

typedef struct line {
  _Alignas(64) host *of; /* in a cache line of its own: the workers write here */
  tp_turn *turn;
  uint32_t phase, turns_left;
} line;

struct host {
  tp_runtime *runtime;
  uint32_t line_count, turns_each, phase_count;
  line *lines;
  bench_latch ended;
};

static void begin_turn(line *l);

/* The end of a phase begins the next one; the end of the last phase ends the turn. */
static void phase_ended(void *ctx, const tp_phase_result *result) {
  line *l = ctx;
  tp_phase_result ended = *result;
  tp_phase_result_release(l->turn, &ended);
  if (++l->phase < l->of->phase_count) {
    bench_must(tp_phase_submit(l->turn, TP_PHASE_HOST + l->phase, NULL, phase_ended, l, NULL), NULL);
    return;
  }
  tp_turn_end(l->turn);
  if (--l->turns_left > 0) begin_turn(l);
  else bench_latch_hit(&l->of->ended, 1);
}

static void begin_turn(line *l) {
  l->phase = 0;
  l->turn = bench_turn_begin(l->of->runtime);
  bench_must(tp_phase_submit(l->turn, TP_PHASE_HOST, NULL, phase_ended, l, NULL), NULL);
}

static int64_t host_run(void *ctx, uint32_t times) {
  host *h = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    bench_latch_set(&h->ended, h->line_count);
    for (uint32_t n = 0; n < h->line_count; n++) {
      h->lines[n].turns_left = h->turns_each;
      begin_turn(&h->lines[n]);
    }
    bench_latch_wait(&h->ended);
  }
  return bench_now_ns() - began;
}

static void host_close(void *ctx) {
  host *h = ctx;
  tp_runtime_free(h->runtime);
  free(h->lines);
  free(h);
}

static void *alloc_aligned(size_t size) {
  void *memory = aligned_alloc(128, (size + 127) / 128 * 128);
  if (!memory) exit(70);
  return memory;
}

static host *host_new(const bench_workload *workload, const tp_runtime_options *options, uint32_t lines,
                      uint32_t turns_each) {
  host *h = alloc_aligned(sizeof *h);
  *h = (host){.runtime = bench_workload_runtime(workload, options, NULL, NULL),
              .line_count = lines,
              .turns_each = turns_each,
              .phase_count = workload->phase_count,
              .lines = alloc_aligned(lines * sizeof *h->lines)};
  for (uint32_t i = 0; i < lines; i++) h->lines[i] = (line){.of = h};
  return h;
}

static bench_contestant contestant_of(host *h, const char *name) {
  return (bench_contestant){.name = name, .run = host_run, .close = host_close, .ctx = h, .threads = true};
}

/* ---- W7 ---- */

/* Each peer in its own best form, or writing an outcome with a time-stamp for each node. @return how many. */
static size_t add_turns_peers(bench_row *row, const bench_workload *workload, uint32_t turns, bool recorded) {
  static char names[BENCH_CONTESTANTS_MAX][64];
  size_t first = row->count;
  for (size_t i = 0; i < bench_peer_count; i++) {
    bench_contestant peer = {0};
    if (!bench_peers[i]->turns) continue;
    bench_peers[i]->turns(workload, recorded ? bench_recorded : bench_nothing, turns, &peer);
    if (!peer.run) continue;
    if (recorded) {
      snprintf(names[i], sizeof names[i], "%s, recording", peer.name);
      peer.name = names[i];
    }
    bench_row_add(row, peer, (bench_bound){.against = 1});
  }
  return row->count - first;
}

static void w7(bench_program *program, const bench_workload *workload) {
  uint32_t turns = program->quick ? TURNS_QUICK : TURNS;
  tp_runtime_options no_stamps = {.struct_size = sizeof no_stamps, .timestamps = TP_TIMESTAMPS_OFF};
  tp_runtime_options coarse = {.struct_size = sizeof coarse, .timestamps = TP_TIMESTAMPS_COARSE};
  bench_row row = {.name = "W7",
                   .what = "1,024 turns of 5 phases with a diamond of 4 inline handlers, all in flight",
                   .unit = "a turn",
                   .per = turns};
  if (!bench_wanted(program, "W7")) return;
  bench_row_add(&row, contestant_of(host_new(workload, NULL, turns, 1), "turnphase"),
                (bench_bound){.against = 1, .ratio = 1.54});
  bench_row_add(&row, bench_floor_turns(workload, turns), (bench_bound){.against = 1});
  bench_row_add(&row, contestant_of(host_new(workload, &no_stamps, turns, 1), "turnphase, time-stamps off"),
                (bench_bound){0});
  size_t with_coarse = bench_row_add(
      &row, contestant_of(host_new(workload, &coarse, turns, 1), "turnphase, coarse time-stamps"), (bench_bound){0});
  size_t peers = row.count, peer_count = add_turns_peers(&row, workload, turns, false);
  (void)add_turns_peers(&row, workload, turns, true);
  bench_row_run(program, &row, NULL);
  bench_figure(program, "W7", "turnphase", turns * 1e3 / row.results[0].all.median, "million turns a second", 0);
  bench_figure_best(program, &row, 0, peers + peer_count, peer_count, "to the best peer that records", 0.8);
  bench_figure_best(program, &row, with_coarse, peers, peer_count, "coarse, to the best peer that records nothing",
                    0.9);
}

/* ---- CPU time of a turn by the number of turns in flight ---- */

static void flight(bench_program *program, const bench_workload *workload) {
  /* A line has several turns, one after the other, so that the first lines still run when the last one begins. */
  enum { FEW = 64, MANY = 10000, MANY_QUICK = 640, TURNS_EACH = 4 };
  uint32_t many = program->quick ? MANY_QUICK : MANY, turns = many / FEW * FEW * TURNS_EACH;
  bench_row row = {.name = "flight",
                   .what = "40,000 turns of W7, of which so many are in flight at any time",
                   .unit = "a turn",
                   .per = turns};
  if (!bench_wanted(program, "flight")) return;
  bench_row_add(&row, contestant_of(host_new(workload, NULL, FEW, turns / FEW), "turnphase, 64"), (bench_bound){0});
  bench_row_add(&row, contestant_of(host_new(workload, NULL, turns / TURNS_EACH, TURNS_EACH), "turnphase, 10,000"),
                (bench_bound){0});
  bench_row_run(program, &row, NULL);
  bench_figure(program, "flight", "CPU time of a turn with 10,000 in flight to that with 64",
               row.results[1].cpu_ns / row.results[0].cpu_ns, "times", 2);
}

/* ---- a whole turn, driven through every phase ---- */

typedef struct driven {
  tp_runtime *runtime;
  tp_model *model;
  uint32_t behind;     /* how many turns a session has had before its first measured one */
  tp_session *session; /* a session with so many turns; NULL: none yet */
  uint32_t measured;   /* how many of its turns were measured */
  bench_latch closed;
} driven;

static void session_closed(void *ctx) { bench_latch_hit(ctx, 1); }

static tp_session *driven_open(driven *d) {
  tp_model borrowed = *d->model;
  borrowed.destroy = NULL; /* the model stays the caller's */
  tp_session_options options = {.struct_size = sizeof options, .id = "bench", .model = &borrowed};
  tp_session *session;
  tp_fault fault;
  bench_must(tp_session_open(d->runtime, &options, &session, &fault), &fault);
  return session;
}

static void driven_shut(driven *d, tp_session *session) {
  bench_latch_set(&d->closed, 1);
  tp_session_close(session, session_closed, &d->closed);
  bench_latch_wait(&d->closed);
}

/* @return the duration of the turn. */
static int64_t driven_turn(tp_session *session) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("What time is it?")};
  const tp_turn_result *result = NULL;
  tp_fault fault;
  int64_t began = bench_now_ns();
  bench_must(tp_turn_run(session, &request, &result, &fault), &fault);
  int64_t duration_ns = bench_now_ns() - began;
  bench_must(result->code, NULL);
  tp_turn_result_free(result);
  return duration_ns;
}

/* Each time the first turn of a new session, so that all turns send the model the same. */
static int64_t driven_run(void *ctx, uint32_t times) {
  driven *d = ctx;
  int64_t duration_ns = 0;
  for (uint32_t i = 0; i < times; i++) {
    tp_session *session = driven_open(d);
    duration_ns += driven_turn(session);
    driven_shut(d, session);
  }
  return duration_ns;
}

/* Runs a turn of a session that has had many. From time to time a new session is made, so that it does not grow on. */
static int64_t driven_run_late(void *ctx, uint32_t times) {
  enum { MEASURED_MAX = 500 };
  driven *d = ctx;
  int64_t duration_ns = 0;
  for (uint32_t i = 0; i < times; i++, d->measured++) {
    if (d->session && d->measured == MEASURED_MAX) {
      driven_shut(d, d->session);
      d->session = NULL;
    }
    if (!d->session) {
      d->session = driven_open(d);
      d->measured = 0;
      for (uint32_t k = 0; k < d->behind; k++) (void)driven_turn(d->session);
    }
    duration_ns += driven_turn(d->session);
  }
  return duration_ns;
}

static void driven_close(void *ctx) {
  driven *d = ctx;
  if (d->session) driven_shut(d, d->session);
  tp_runtime_free(d->runtime);
  tp_model_free(d->model);
  free(d);
}

static tp_answer do_nothing(void *ctx, tp_call *call) {
  (void)call;
  (void)ctx;
  return TP_ANSWER_DONE;
}

/* Two inline handlers in each of six phases of every turn. */
static void add_hooks(tp_runtime *runtime) {
  static const uint32_t phases[] = {TP_PHASE_TURN_INTAKE,
                                    TP_PHASE_TURN_PRE_POLICY,
                                    TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
                                    TP_PHASE_TURN_PRE_PROMPT_COMPILE,
                                    TP_PHASE_MODEL_POST,
                                    TP_PHASE_TURN_POST_TURN};
  enum { PHASES = sizeof phases / sizeof *phases };
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = "node",
                        .run = do_nothing,
                        .phases = phases,
                        .phase_count = PHASES,
                        .placement = TP_PLACEMENT_INLINE};
  tp_edit *edit;
  tp_fault fault;
  bench_must(tp_edit_begin(runtime, NULL, &edit, NULL), NULL);
  bench_must(tp_edit_add_handler(edit, &handler, NULL), NULL);
  for (uint32_t i = 0; i < 2 * PHASES; i++) {
    char id[16];
    snprintf(id, sizeof id, "hook-%u", i);
    tp_subscription subscription = {
        .struct_size = sizeof subscription, .id = id, .handler = "node", .phase = phases[i / 2]};
    bench_must(tp_edit_add_subscription(edit, &subscription, NULL), NULL);
  }
  bench_must(tp_edit_commit(edit, NULL, &fault), &fault);
}

static bench_contestant driven_new(const char *name, bool hooks, uint32_t behind) {
  tp_model_response response = {
      .struct_size = sizeof response, .text = tp_text_of("Noon."), .stop_reason = tp_text_of("end_turn")};
  const tp_model_response *responses[] = {&response};
  tp_fault fault;
  driven *d = alloc_aligned(sizeof *d);
  d->behind = behind;
  d->session = NULL;
  bench_must(tp_runtime_new(NULL, &d->runtime, &fault), &fault);
  bench_must(tp_script_model_new(responses, 1, true, &d->model, &fault), &fault);
  if (hooks) add_hooks(d->runtime);
  return (bench_contestant){
      .name = name, .run = behind ? driven_run_late : driven_run, .close = driven_close, .ctx = d, .threads = true};
}

static void driven_turns(bench_program *program) {
  bench_row row = {.name = "driven", .what = "tp_turn_run with a model that answers at once"};
  if (!bench_wanted(program, "driven")) return;
  bench_row_add(&row, driven_new("turnphase, no handlers", false, 0), (bench_bound){0});
  bench_row_add(&row, driven_new("turnphase, no handlers, 10 turns behind it", false, 10), (bench_bound){0});
  bench_row_add(&row, driven_new("turnphase, no handlers, 2,000 turns behind it", false, 2000), (bench_bound){0});
  bench_row_add(&row, driven_new("turnphase, two inline handlers in six phases", true, 0), (bench_bound){0});
  bench_row_run(program, &row, NULL);
}

/* ---- calls of the allocator ---- */

static void allocator(bench_program *program, const bench_workload *workload) {
  enum { TURNS_TO_COUNT = 20480 }; /* and as many before, which fill the store of records */
  bench_memory memory = {0};
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = bench_memory_allocator(&memory)};
  uint32_t turns = program->quick ? TURNS_QUICK : TURNS, rounds = TURNS_TO_COUNT / turns;
  if (!bench_wanted(program, "allocator")) return;
  host *h = host_new(workload, &options, turns, 1);
  (void)host_run(h, rounds);
  size_t before = atomic_load(&memory.calls);
  (void)host_run(h, rounds);
  double calls = (double)(atomic_load(&memory.calls) - before);
  /* A worker may have more turns at once than ever before, and allocate a block: that is not the steady state. */
  bench_figure(program, "allocator", "calls of the allocator in a turn", calls / (rounds * turns), "calls", 0.01);
  host_close(h);
}

/* ---- memory of a turn that waits ---- */

typedef struct waiting {
  tp_token token;
  tp_turn *turn;
  bench_latch *started, *ended;
} waiting;

static waiting *all_waiting;
static _Atomic uint32_t next_waiting;

static tp_answer answers_later(void *ctx, tp_call *call) {
  waiting *w = &all_waiting[atomic_fetch_add(&next_waiting, 1)];
  (void)ctx;
  tp_answer outcome = tp_call_defer(call, NULL, &w->token);
  bench_latch_hit(w->started, 1);
  return outcome;
}

static void waited(void *ctx, const tp_phase_result *result) {
  waiting *w = ctx;
  (void)result;
  tp_turn_end(w->turn);
  bench_latch_hit(w->ended, 1);
}

static void wait_memory(bench_program *program) {
  enum { COUNT = 10000, COUNT_QUICK = 100, LIMIT_BYTES = 4096 };
  uint32_t count = program->quick ? COUNT_QUICK : COUNT;
  bench_memory memory = {0};
  bench_latch started, ended;
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = bench_memory_allocator(&memory)};
  uint32_t no_edges[1] = {0};
  bench_workload one = {.name = "waiting", .phase_count = 1, .graphs = {{1, 0, no_edges, no_edges}}};
  if (!bench_wanted(program, "waiting")) return;
  tp_runtime *runtime = bench_workload_runtime(&one, &options, answers_later, NULL);
  tp_fault fault;
  bench_must(tp_runtime_start(runtime, &fault), &fault);
  all_waiting = bench_alloc(count, sizeof *all_waiting);
  bench_latch_set(&started, count);
  bench_latch_set(&ended, count);
  for (uint32_t i = 0; i < count; i++) all_waiting[i] = (waiting){.started = &started, .ended = &ended};
  size_t before = atomic_load(&memory.bytes);
  for (uint32_t i = 0; i < count; i++) {
    waiting *w = &all_waiting[i];
    w->turn = bench_turn_begin(runtime);
    bench_must(tp_phase_submit(w->turn, TP_PHASE_HOST, NULL, waited, w, NULL), NULL);
  }
  bench_latch_wait(&started);
  size_t held = atomic_load(&memory.bytes) - before;
  for (uint32_t i = 0; i < count; i++)
    bench_must(tp_token_complete(all_waiting[i].token,
                                 &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE}, NULL),
               NULL);
  bench_latch_wait(&ended);
  tp_runtime_free(runtime);
  free(all_waiting);
  bench_figure(program, "waiting", "memory of a turn that waits for a deferred handler", (double)held / count, "bytes",
               LIMIT_BYTES);
}

int main(int argc, char **argv) {
  bench_program program;
  bench_workload workload;
  bench_open(&program, "turns", "What many turns at once cost.", ROWS, argc, argv);
  if (!bench_workload_make(&workload, "diamond")) return 70;
  w7(&program, &workload);
  flight(&program, &workload);
  driven_turns(&program);
  allocator(&program, &workload);
  wait_memory(&program);
  bench_workload_fini(&workload);
  return bench_close(&program);
}
