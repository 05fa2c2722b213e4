/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenMP tasks. Everything that is timed is inside one parallel region, where the other threads of the team wait for
 * tasks. A task continues with the first node that it makes ready, and makes tasks of the others; a task group
 * waits. */
#include <omp.h>
#include <stdio.h>

#include "bench/peer_run.h"

static const char *version(void) {
  static char text[16];
  snprintf(text, sizeof text, "%d", _OPENMP);
  return text;
}

/* After a region gcc's team spins for longer than a run can wait. So its threads end here, and start again before the
 * clock of the next run starts. */
static void send_home(void) {
  if (omp_pause_resource_all(omp_pause_soft) != 0) {
    fprintf(stderr, "bench: OpenMP's team did not end\n");
    exit(70);
  }
}

/* ---- graphs ---- */

typedef struct graph {
  uint32_t phase_count;
  bench_peer_phase phases[BENCH_PHASES_MAX];
} graph;

static void give(void *ctx, uint32_t node) {
  bench_peer_phase *phase = ctx;
#pragma omp task firstprivate(phase, node)
  (void)bench_peer_run_from(phase, node, give, phase);
}

static void run_phase(bench_peer_phase *phase) {
  bench_peer_phase_reset(phase);
#pragma omp taskgroup
  {
    for (uint32_t r = 1; r < phase->flat.root_count; r++) give(phase, phase->flat.roots[r]);
    if (phase->flat.root_count > 0) (void)bench_peer_run_from(phase, phase->flat.roots[0], give, phase);
  }
}

static int64_t graph_run(void *ctx, uint32_t times) {
  graph *g = ctx;
  int64_t duration_ns = 0;
#pragma omp parallel num_threads(bench_processors())
#pragma omp single
  {
    int64_t began = bench_now_ns();
    for (uint32_t i = 0; i < times; i++)
      for (uint32_t p = 0; p < g->phase_count; p++) run_phase(&g->phases[p]);
    duration_ns = bench_now_ns() - began;
  }
  send_home();
  return duration_ns;
}

static void graph_close(void *ctx) {
  graph *g = ctx;
  for (uint32_t p = 0; p < g->phase_count; p++) bench_peer_phase_fini(&g->phases[p]);
  free(g);
}

static void graph_new(const bench_workload *workload, bench_job job, bool heavy, bench_contestant *ret) {
  graph *g = bench_alloc(1, sizeof *g);
  (void)heavy;
  g->phase_count = workload->phase_count;
  for (uint32_t p = 0; p < g->phase_count; p++) bench_peer_phase_init(&g->phases[p], &workload->graphs[p], job);
  *ret = (bench_contestant){.name = "OpenMP tasks",
                            .form = "in region, goes on inline, tasks for the rest",
                            .run = graph_run,
                            .close = graph_close,
                            .ctx = g,
                            .threads = true};
}

/* ---- turns ---- */

typedef struct turn turn;
typedef struct turns {
  uint32_t count, phase_count;
  turn *all;
} turns;

struct turn {
  turns *of;
  uint32_t phase;
  bench_peer_phase phases[BENCH_PHASES_MAX];
};

static void turn_give(void *ctx, uint32_t node);

/* The thread that ran the last node of a phase continues with the next phase, so nothing of a phase is left. */
static void turn_run_from(turn *t, uint32_t node) {
  for (;;) {
    bench_peer_phase *phase = &t->phases[t->phase];
    uint32_t last = phase->flat.node_count - 1;
    bool reaches = node == last;
    uint32_t ran = bench_peer_run_from(phase, node, turn_give, t);
    /* In a diamond the way from the first node to the last has three nodes, from a branch two. */
    reaches = reaches || (node == 0 ? ran == 3 : ran == 2);
    if (!reaches || ++t->phase == t->of->phase_count) return;
    bench_peer_phase_reset(&t->phases[t->phase]);
    node = 0;
  }
}

static void turn_give(void *ctx, uint32_t node) {
  turn *t = ctx;
#pragma omp task firstprivate(t, node)
  turn_run_from(t, node);
}

static int64_t turns_run(void *ctx, uint32_t times) {
  turns *all = ctx;
  int64_t duration_ns = 0;
#pragma omp parallel num_threads(bench_processors())
#pragma omp single
  {
    int64_t began = bench_now_ns();
    for (uint32_t i = 0; i < times; i++) {
#pragma omp taskgroup
      for (uint32_t n = 0; n < all->count; n++) {
        all->all[n].phase = 0;
        bench_peer_phase_reset(&all->all[n].phases[0]);
        turn_give(&all->all[n], 0);
      }
    }
    duration_ns = bench_now_ns() - began;
  }
  send_home();
  return duration_ns;
}

static void turns_close(void *ctx) {
  turns *all = ctx;
  for (uint32_t n = 0; n < all->count; n++)
    for (uint32_t p = 0; p < all->phase_count; p++) bench_peer_phase_fini(&all->all[n].phases[p]);
  free(all->all);
  free(all);
}

static void turns_new(const bench_workload *workload, bench_job job, uint32_t count, bench_contestant *ret) {
  turns *all = bench_alloc(1, sizeof *all);
  *all = (turns){.count = count, .phase_count = workload->phase_count, .all = bench_alloc(count, sizeof(turn))};
  for (uint32_t n = 0; n < count; n++) {
    all->all[n].of = all;
    for (uint32_t p = 0; p < all->phase_count; p++)
      bench_peer_phase_init(&all->all[n].phases[p], &workload->graphs[p], job);
  }
  *ret = (bench_contestant){.name = "OpenMP tasks",
                            .form = "in region, a task a turn and for the other branch",
                            .run = turns_run,
                            .close = turns_close,
                            .ctx = all,
                            .threads = true};
}

/* ---- calls ---- */

static int64_t calls_run(void *ctx, uint32_t times) {
  bench_peer_calls *all = ctx;
  int64_t duration_ns = 0;
#pragma omp parallel num_threads(bench_processors())
#pragma omp single
  {
    int64_t began = bench_now_ns();
    for (uint32_t i = 0; i < times; i++) {
#pragma omp taskloop
      for (uint32_t n = 0; n < all->count; n++) {
        all->job.run(all->job.ctx);
        all->results[n] = (bench_peer_result){0};
      }
    }
    duration_ns = bench_now_ns() - began;
  }
  send_home();
  return duration_ns;
}

static int64_t calls_run_on_duty(void *ctx, uint32_t times) {
  bench_peer_calls *all = ctx;
  int64_t duration_ns = 0;
#pragma omp parallel num_threads(bench_processors())
#pragma omp single
  {
    int64_t began = bench_now_ns();
    for (uint32_t i = 0; i < times; i++) {
      bench_duty_start(all->duty);
#pragma omp taskloop
      for (uint32_t n = 0; n < all->count; n++) {
#pragma omp critical(bench_events)
        bench_duty_begin(all->duty, n);
        bench_duty_run(all->duty, n);
#pragma omp critical(bench_events)
        bench_duty_end(all->duty, n);
      }
      bench_duty_finish(all->duty);
    }
    duration_ns = bench_now_ns() - began;
  }
  send_home();
  return duration_ns;
}

static void calls_close(void *ctx) {
  bench_peer_calls *all = ctx;
  bench_peer_calls_fini(all);
  free(all);
}

static void calls_new(uint32_t count, bool equal_duty, bench_contestant *ret) {
  bench_peer_calls *all = bench_alloc(1, sizeof *all);
  *all = bench_peer_calls_of(count, equal_duty);
  *ret = (bench_contestant){.name = "OpenMP taskloop",
                            .form = equal_duty ? "in region" : "in region, results in their places, no events",
                            .run = equal_duty ? calls_run_on_duty : calls_run,
                            .close = calls_close,
                            .ctx = all,
                            .threads = true};
}

const bench_peer bench_peer_openmp = {
    .name = "OpenMP", .version = version, .graph = graph_new, .turns = turns_new, .calls = calls_new};
