/* SPDX-License-Identifier: Apache-2.0
 *
 * libuv: a node is a request to the thread pool, which has a thread for each processor. The second half of a request
 * runs on the loop's thread, which has counters without atomics and queues the nodes that became ready. Timers are
 * those of the loop. */
#include <string.h>
#include <uv.h>

#include "bench/peer_run.h"

static const char *version(void) { return uv_version_string(); }

/* The pool is made once in a process, with the first request. */
static void size_pool(void) {
  char text[16];
  snprintf(text, sizeof text, "%u", bench_processors());
  (void)uv_os_setenv("UV_THREADPOOL_SIZE", text);
}

static uv_loop_t *loop_new(void) {
  uv_loop_t *loop = bench_alloc(1, sizeof *loop);
  size_pool();
  if (uv_loop_init(loop) != 0) exit(70);
  return loop;
}

static void loop_free(uv_loop_t *loop) {
  (void)uv_run(loop, UV_RUN_DEFAULT);
  if (uv_loop_close(loop) != 0) exit(70);
  free(loop);
}

/* ---- graphs ---- */

typedef struct phase phase;
typedef struct node {
  uv_work_t request;
  phase *of;
  uint32_t index;
} node;

struct phase {
  bench_flat flat;
  bench_job job;
  uv_loop_t *loop;
  uint16_t *left;
  node *nodes;
};

typedef struct graph {
  uint32_t phase_count;
  phase phases[BENCH_PHASES_MAX];
  uv_loop_t *loop;
} graph;

static void node_run(uv_work_t *request) {
  node *n = (node *)request;
  n->of->job.run(n->of->job.ctx);
}

static void node_ended(uv_work_t *request, int status) {
  node *n = (node *)request;
  phase *p = n->of;
  (void)status;
  for (uint32_t e = p->flat.first_edge[n->index]; e < p->flat.first_edge[n->index + 1]; e++) {
    uint32_t to = p->flat.edges[e];
    if (--p->left[to] == 0) (void)uv_queue_work(p->loop, &p->nodes[to].request, node_run, node_ended);
  }
}

static int64_t graph_run(void *ctx, uint32_t times) {
  graph *g = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    for (uint32_t n = 0; n < g->phase_count; n++) {
      phase *p = &g->phases[n];
      memcpy(p->left, p->flat.indegree, p->flat.node_count * sizeof *p->left);
      for (uint32_t r = 0; r < p->flat.root_count; r++)
        (void)uv_queue_work(g->loop, &p->nodes[p->flat.roots[r]].request, node_run, node_ended);
      (void)uv_run(g->loop, UV_RUN_DEFAULT);
    }
  }
  return bench_now_ns() - began;
}

static void graph_close(void *ctx) {
  graph *g = ctx;
  for (uint32_t n = 0; n < g->phase_count; n++) {
    bench_flat_fini(&g->phases[n].flat);
    free(g->phases[n].left);
    free(g->phases[n].nodes);
  }
  loop_free(g->loop);
  free(g);
}

static void graph_new(const bench_workload *workload, bench_job job, bool heavy, bench_contestant *ret) {
  graph *g = bench_alloc(1, sizeof *g);
  (void)heavy;
  g->phase_count = workload->phase_count;
  g->loop = loop_new();
  for (uint32_t n = 0; n < g->phase_count; n++) {
    phase *p = &g->phases[n];
    bench_flat_init(&p->flat, &workload->graphs[n]);
    p->job = job;
    p->loop = g->loop;
    p->left = bench_alloc(p->flat.node_count, sizeof *p->left);
    p->nodes = bench_alloc(p->flat.node_count, sizeof *p->nodes);
    for (uint32_t i = 0; i < p->flat.node_count; i++) p->nodes[i] = (node){.of = p, .index = i};
  }
  *ret = (bench_contestant){.name = "libuv queue_work",
                            .form = "a request a node, counters on the loop",
                            .run = graph_run,
                            .close = graph_close,
                            .ctx = g,
                            .threads = true};
}

/* ---- turns: one request for each phase ---- */

typedef struct turns turns;
typedef struct turn {
  uv_work_t request;
  turns *of;
  uint32_t phase;
} turn;

struct turns {
  bench_peer_turns all;
  turn *each;
  uv_loop_t *loop;
};

static void turn_run(uv_work_t *request) {
  turn *t = (turn *)request;
  bench_peer_run_alone(&t->of->all, t->phase);
}

static void turn_ended(uv_work_t *request, int status) {
  turn *t = (turn *)request;
  (void)status;
  if (++t->phase < t->of->all.phase_count) (void)uv_queue_work(t->of->loop, request, turn_run, turn_ended);
}

static int64_t turns_run(void *ctx, uint32_t times) {
  turns *t = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    for (uint32_t n = 0; n < t->all.count; n++) {
      t->each[n].phase = 0;
      (void)uv_queue_work(t->loop, &t->each[n].request, turn_run, turn_ended);
    }
    (void)uv_run(t->loop, UV_RUN_DEFAULT);
  }
  return bench_now_ns() - began;
}

static void turns_close(void *ctx) {
  turns *t = ctx;
  bench_peer_turns_fini(&t->all);
  loop_free(t->loop);
  free(t->each);
  free(t);
}

static void turns_new(const bench_workload *workload, bench_job job, uint32_t count, bench_contestant *ret) {
  turns *t = bench_alloc(1, sizeof *t);
  bench_peer_turns_init(&t->all, workload, job, count);
  t->each = bench_alloc(count, sizeof *t->each);
  t->loop = loop_new();
  for (uint32_t n = 0; n < count; n++) t->each[n].of = t;
  *ret = (bench_contestant){.name = "libuv queue_work",
                            .form = "a request a phase, its graph by a loop of the user's",
                            .run = turns_run,
                            .close = turns_close,
                            .ctx = t,
                            .threads = true};
}

/* ---- calls and timers ---- */

typedef struct calls {
  bench_peer_calls all;
  uv_work_t *requests;
  uv_timer_t *timers;
  uv_loop_t *loop;
} calls;

static void call_run(uv_work_t *request) {
  calls *c = request->data;
  c->all.job.run(c->all.job.ctx);
}

static void call_ended(uv_work_t *request, int status) {
  calls *c = request->data;
  (void)status;
  c->all.results[request - c->requests] = (bench_peer_result){0};
}

static int64_t calls_run(void *ctx, uint32_t times) {
  calls *c = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    for (uint32_t n = 0; n < c->all.count; n++) (void)uv_queue_work(c->loop, &c->requests[n], call_run, call_ended);
    (void)uv_run(c->loop, UV_RUN_DEFAULT);
  }
  return bench_now_ns() - began;
}

/* Emits both events on the loop's thread, so that no lock is needed: for the host a call begins when it is queued. */
static void duty_run(uv_work_t *request) {
  calls *c = request->data;
  bench_duty_run(c->all.duty, (uint32_t)(request - c->requests));
}

static void duty_ended(uv_work_t *request, int status) {
  calls *c = request->data;
  (void)status;
  bench_duty_end(c->all.duty, (uint32_t)(request - c->requests));
}

static int64_t calls_run_on_duty(void *ctx, uint32_t times) {
  calls *c = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    bench_duty_start(c->all.duty);
    for (uint32_t n = 0; n < c->all.count; n++) {
      bench_duty_begin(c->all.duty, n);
      (void)uv_queue_work(c->loop, &c->requests[n], duty_run, duty_ended);
    }
    (void)uv_run(c->loop, UV_RUN_DEFAULT);
    bench_duty_finish(c->all.duty);
  }
  return bench_now_ns() - began;
}

static void time_out(uv_timer_t *timer) {
  calls *c = timer->data;
  c->all.results[timer - c->timers] = (bench_peer_result){0};
}

static int64_t timers_run(void *ctx, uint32_t times) {
  calls *c = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    uv_update_time(c->loop);
    for (uint32_t n = 0; n < c->all.count; n++) (void)uv_timer_start(&c->timers[n], time_out, 1, 0);
    (void)uv_run(c->loop, UV_RUN_DEFAULT);
  }
  return bench_now_ns() - began;
}

static void calls_close(void *ctx) {
  calls *c = ctx;
  for (uint32_t n = 0; c->timers && n < c->all.count; n++) uv_close((uv_handle_t *)&c->timers[n], NULL);
  loop_free(c->loop);
  free(c->requests);
  free(c->timers);
  bench_peer_calls_fini(&c->all);
  free(c);
}

static calls *calls_alloc(uint32_t count, bool equal_duty) {
  calls *c = bench_alloc(1, sizeof *c);
  c->all = bench_peer_calls_of(count, equal_duty);
  c->loop = loop_new();
  return c;
}

static void calls_new(uint32_t count, bool equal_duty, bench_contestant *ret) {
  calls *c = calls_alloc(count, equal_duty);
  c->requests = bench_alloc(count, sizeof *c->requests);
  for (uint32_t n = 0; n < count; n++) c->requests[n].data = c;
  *ret = (bench_contestant){
      .name = "libuv queue_work",
      .form = equal_duty ? "a request a call" : "a request a call, results in their places, no events",
      .run = equal_duty ? calls_run_on_duty : calls_run,
      .close = calls_close,
      .ctx = c,
      .threads = true};
}

static void timers_new(uint32_t count, bench_contestant *ret) {
  calls *c = calls_alloc(count, false);
  c->timers = bench_alloc(count, sizeof *c->timers);
  for (uint32_t n = 0; n < count; n++) {
    (void)uv_timer_init(c->loop, &c->timers[n]);
    c->timers[n].data = c;
  }
  *ret = (bench_contestant){
      .name = "libuv timers", .form = "a timer a call", .run = timers_run, .close = calls_close, .ctx = c};
}

const bench_peer bench_peer_uv = {.name = "libuv",
                                  .version = version,
                                  .graph = graph_new,
                                  .turns = turns_new,
                                  .timers = timers_new,
                                  .calls = calls_new};
