/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of a server whose turns wait for their models: 10,000 sessions with a turn each. Each turn has sent its
 * request, and a thread of the host answers the requests at a fixed rate. README.md says how to read it. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/latch.h"
#include "bench/memory.h"
#include "bench/report.h"

#define ROWS "models "

enum {
  SESSIONS = 10000,
  SESSIONS_QUICK = 100,
  ROUNDS = 4, /* the first round is not timed: its memory is counted */
  ROUNDS_QUICK = 2,
  ANSWERS_PER_SECOND = 5000,
  LIMIT_BYTES = 5120
};

typedef struct exchange {
  struct host *of;
  tp_session *session;
  tp_token token; /* the token of the model's request, until it is answered */
  int64_t answered_ns, ended_ns;
} exchange;

typedef struct host {
  tp_runtime *runtime;
  uint32_t count;
  exchange *exchanges;
  bench_latch asked, ended, closed;
  /* the results */
  double *samples; /* from the answer to the turn's end, ns */
  uint32_t sample_count;
  int64_t cpu_ns;
} host;

/* ---- one exchange ---- */

static void asked(void *ctx, const tp_model_request *request, tp_token token) {
  exchange *e = ctx;
  (void)request;
  e->token = token;
  bench_latch_hit(&e->of->asked, 1);
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  exchange *e = ctx;
  bench_must(result->code, NULL);
  e->ended_ns = bench_now_ns();
  bench_latch_hit(&e->of->ended, 1);
}

static void session_closed(void *ctx) { bench_latch_hit(ctx, 1); }

static void begin(exchange *e) {
  char id[32];
  tp_fault fault;
  tp_model model = {.struct_size = sizeof model, .ctx = e, .start = asked, .placement = TP_PLACEMENT_INLINE};
  snprintf(id, sizeof id, "bench-%td", e - e->of->exchanges);
  tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &model};
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("How warm is it there?")};
  bench_must(tp_session_open(e->of->runtime, &options, &e->session, &fault), &fault);
  bench_must(tp_turn_submit(e->session, &request, turn_ended, e, NULL, &fault), &fault);
}

/* ---- a round: all turns wait, all are answered, all sessions close ---- */

static void begin_all(host *h) {
  bench_latch_set(&h->asked, h->count);
  bench_latch_set(&h->ended, h->count);
  for (uint32_t i = 0; i < h->count; i++) begin(&h->exchanges[i]);
  bench_latch_wait(&h->asked);
}

/* Answers that are late are made up for, so that the rate is that of the whole round. */
static void answer_all(host *h) {
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("12 degrees.")};
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < h->count; i++) {
    exchange *e = &h->exchanges[i];
    bench_sleep_until(began + (int64_t)i * 1000000000 / ANSWERS_PER_SECOND);
    e->answered_ns = bench_now_ns();
    bench_must(tp_model_complete(e->token, &response, NULL), NULL);
  }
  bench_latch_wait(&h->ended);
}

static void close_all(host *h) {
  bench_latch_set(&h->closed, h->count);
  for (uint32_t i = 0; i < h->count; i++) tp_session_close(h->exchanges[i].session, session_closed, &h->closed);
  bench_latch_wait(&h->closed);
}

/* Threads go to sleep before the CPU time is read. */
static void timed_round(host *h) {
  (void)bench_settle();
  int64_t cpu_ns = bench_cpu_ns();
  begin_all(h);
  answer_all(h);
  h->cpu_ns += bench_cpu_ns() - cpu_ns;
  for (uint32_t i = 0; i < h->count; i++)
    h->samples[h->sample_count++] = (double)(h->exchanges[i].ended_ns - h->exchanges[i].answered_ns);
  close_all(h);
}

/* ---- the row ---- */

static double memory_of_a_turn(host *h, bench_memory *memory) {
  size_t before = atomic_load(&memory->bytes);
  begin_all(h);
  size_t held = atomic_load(&memory->bytes) - before;
  answer_all(h);
  close_all(h);
  return (double)held / h->count;
}

static void models(bench_program *program) {
  bench_memory memory = {0};
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = bench_memory_allocator(&memory)};
  uint32_t rounds = program->quick ? ROUNDS_QUICK : ROUNDS;
  host *h = aligned_alloc(_Alignof(host), sizeof *h);
  tp_fault fault;
  if (!h) exit(70);
  *h = (host){.count = program->quick ? SESSIONS_QUICK : SESSIONS};
  h->exchanges = bench_alloc(h->count, sizeof *h->exchanges);
  h->samples = bench_alloc((size_t)h->count * rounds, sizeof *h->samples);
  for (uint32_t i = 0; i < h->count; i++) h->exchanges[i].of = h;
  bench_must(tp_runtime_new(&options, &h->runtime, &fault), &fault);
  bench_must(tp_runtime_start(h->runtime, &fault), &fault);
  double bytes = memory_of_a_turn(h, &memory);
  bench_wake_exactly(true);
  for (uint32_t i = 1; i < rounds; i++) timed_round(h);
  bench_wake_exactly(false);
  bench_spread spread = bench_spread_of(h->samples, h->sample_count);
  bench_figure(program, "models", "memory of a turn that waits for its model, with its session", bytes, "bytes",
               LIMIT_BYTES);
  bench_figure(program, "models", "CPU of a turn, with the thread that answers 5,000 a second",
               (double)h->cpu_ns / h->sample_count / 1e3, "µs", 0);
  bench_figure(program, "models", "from the model's answer to the turn's end, median", spread.median / 1e3, "µs", 0);
  bench_figure(program, "models", "from the model's answer to the turn's end, p99", spread.p99 / 1e3, "µs", 0);
  tp_runtime_free(h->runtime);
  free(h->samples);
  free(h->exchanges);
  free(h);
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "models", "What turns that wait for their models cost.", ROWS, argc, argv);
  if (bench_wanted(&program, "models")) models(&program);
  return bench_close(&program);
}
