/* SPDX-License-Identifier: Apache-2.0
 *
 * GLib: an exclusive thread pool with a thread for each processor, and atomic counters; an item continues with the
 * first node that it makes ready, and pushes the others. The caller sleeps on a condition. Timers are timeout sources
 * of a main context. */
#include <glib.h>

#include "bench/peer_run.h"

static const char *version(void) {
  static char text[32];
  g_snprintf(text, sizeof text, "%u.%u.%u", glib_major_version, glib_minor_version, glib_micro_version);
  return text;
}

/* ---- the remaining work, and the thread that waits for it ---- */

typedef struct rest {
  _Atomic uint32_t left;
  GMutex mutex;
  GCond none_left;
  bool ended; /* under mutex */
} rest;

static void rest_set(rest *r, uint32_t count) {
  r->ended = false;
  atomic_store_explicit(&r->left, count, memory_order_release); /* pairs with the subtraction below */
}

static void rest_take(rest *r, uint32_t count) {
  if (atomic_fetch_sub_explicit(&r->left, count, memory_order_acq_rel) != count) return;
  g_mutex_lock(&r->mutex);
  r->ended = true;
  g_cond_signal(&r->none_left);
  g_mutex_unlock(&r->mutex);
}

static void rest_wait(rest *r) {
  g_mutex_lock(&r->mutex);
  while (!r->ended) g_cond_wait(&r->none_left, &r->mutex);
  g_mutex_unlock(&r->mutex);
}

static GThreadPool *pool_new(GFunc run, void *ctx) {
  GThreadPool *pool = g_thread_pool_new(run, ctx, (gint)bench_processors(), TRUE, NULL);
  if (!pool) exit(70);
  return pool;
}

/* ---- graphs ---- */

typedef struct phase phase;
typedef struct item {
  phase *of;
  uint32_t node;
} item;

struct phase {
  bench_peer_phase graph;
  item *items;
  struct graph *of;
};

typedef struct graph {
  uint32_t phase_count;
  phase phases[BENCH_PHASES_MAX];
  GThreadPool *pool;
  rest rest;
} graph;

static void give(void *ctx, uint32_t node) {
  phase *p = ctx;
  g_thread_pool_push(p->of->pool, &p->items[node], NULL);
}

static void run_item(gpointer data, gpointer ctx) {
  item *i = data;
  (void)ctx;
  rest *r = &i->of->of->rest;
  rest_take(r, bench_peer_run_from(&i->of->graph, i->node, give, i->of));
}

static int64_t graph_run(void *ctx, uint32_t times) {
  graph *g = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    for (uint32_t n = 0; n < g->phase_count; n++) {
      phase *p = &g->phases[n];
      bench_peer_phase_reset(&p->graph);
      rest_set(&g->rest, p->graph.flat.node_count);
      for (uint32_t r = 0; r < p->graph.flat.root_count; r++) give(p, p->graph.flat.roots[r]);
      rest_wait(&g->rest);
    }
  }
  return bench_now_ns() - began;
}

static void graph_close(void *ctx) {
  graph *g = ctx;
  g_thread_pool_free(g->pool, FALSE, TRUE);
  for (uint32_t n = 0; n < g->phase_count; n++) {
    bench_peer_phase_fini(&g->phases[n].graph);
    free(g->phases[n].items);
  }
  free(g);
}

static void graph_new(const bench_workload *workload, bench_job job, bool heavy, bench_contestant *ret) {
  graph *g;
  (void)heavy;
  if (bench_workload_nodes(workload) == 0) return;
  g = bench_alloc(1, sizeof *g);
  g->phase_count = workload->phase_count;
  g->pool = pool_new(run_item, g);
  for (uint32_t n = 0; n < g->phase_count; n++) {
    phase *p = &g->phases[n];
    bench_peer_phase_init(&p->graph, &workload->graphs[n], job);
    p->of = g;
    p->items = bench_alloc(p->graph.flat.node_count, sizeof *p->items);
    for (uint32_t i = 0; i < p->graph.flat.node_count; i++) p->items[i] = (item){p, i};
  }
  *ret = (bench_contestant){.name = "GLib thread pool",
                            .form = "goes on inline, pushes the rest",
                            .run = graph_run,
                            .close = graph_close,
                            .ctx = g,
                            .threads = true};
}

/* ---- turns: one item each ---- */

typedef struct turns {
  bench_peer_turns all;
  GThreadPool *pool;
  rest rest;
} turns;

static void run_turn(gpointer data, gpointer ctx) {
  turns *t = ctx;
  (void)data;
  for (uint32_t p = 0; p < t->all.phase_count; p++) bench_peer_run_alone(&t->all, p);
  rest_take(&t->rest, 1);
}

static int64_t turns_run(void *ctx, uint32_t times) {
  turns *t = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    rest_set(&t->rest, t->all.count);
    for (uint32_t n = 0; n < t->all.count; n++) g_thread_pool_push(t->pool, t, NULL);
    rest_wait(&t->rest);
  }
  return bench_now_ns() - began;
}

static void turns_close(void *ctx) {
  turns *t = ctx;
  g_thread_pool_free(t->pool, FALSE, TRUE);
  bench_peer_turns_fini(&t->all);
  free(t);
}

static void turns_new(const bench_workload *workload, bench_job job, uint32_t count, bench_contestant *ret) {
  turns *t = bench_alloc(1, sizeof *t);
  bench_peer_turns_init(&t->all, workload, job, count);
  t->pool = pool_new(run_turn, t);
  *ret = (bench_contestant){.name = "GLib thread pool",
                            .form = "an item a turn, its graphs by a loop of the user's",
                            .run = turns_run,
                            .close = turns_close,
                            .ctx = t,
                            .threads = true};
}

/* ---- calls ---- */

typedef struct calls {
  bench_peer_calls all;
  uint32_t ended;
  GThreadPool *pool;
  GMainContext *context;
  GMutex events; /* protects the events of calls at equal duty */
  rest rest;
} calls;

static void run_call(gpointer data, gpointer ctx) {
  calls *c = ctx;
  c->all.job.run(c->all.job.ctx);
  *(bench_peer_result *)data = (bench_peer_result){0};
  rest_take(&c->rest, 1);
}

static void run_call_on_duty(gpointer data, gpointer ctx) {
  calls *c = ctx;
  uint32_t n = (uint32_t)((bench_peer_result *)data - c->all.results);
  g_mutex_lock(&c->events);
  bench_duty_begin(c->all.duty, n);
  g_mutex_unlock(&c->events);
  bench_duty_run(c->all.duty, n);
  g_mutex_lock(&c->events);
  bench_duty_end(c->all.duty, n);
  g_mutex_unlock(&c->events);
  rest_take(&c->rest, 1);
}

static int64_t calls_run(void *ctx, uint32_t times) {
  calls *c = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    if (c->all.duty) bench_duty_start(c->all.duty);
    rest_set(&c->rest, c->all.count);
    for (uint32_t n = 0; n < c->all.count; n++) g_thread_pool_push(c->pool, &c->all.results[n], NULL);
    rest_wait(&c->rest);
    if (c->all.duty) bench_duty_finish(c->all.duty);
  }
  return bench_now_ns() - began;
}

static void calls_close(void *ctx) {
  calls *c = ctx;
  if (c->pool) g_thread_pool_free(c->pool, FALSE, TRUE);
  if (c->context) g_main_context_unref(c->context);
  bench_peer_calls_fini(&c->all);
  free(c);
}

static void calls_new(uint32_t count, bool equal_duty, bench_contestant *ret) {
  calls *c = bench_alloc(1, sizeof *c);
  c->all = bench_peer_calls_of(count, equal_duty);
  c->pool = pool_new(equal_duty ? run_call_on_duty : run_call, c);
  *ret =
      (bench_contestant){.name = "GLib thread pool",
                         .form = equal_duty ? "an item a call" : "an item a call, results in their places, no events",
                         .run = calls_run,
                         .close = calls_close,
                         .ctx = c,
                         .threads = true};
}

/* ---- timers ---- */

static gboolean time_out(gpointer data) {
  calls *c = data;
  c->all.results[c->ended++] = (bench_peer_result){0};
  return G_SOURCE_REMOVE;
}

static int64_t timers_run(void *ctx, uint32_t times) {
  calls *c = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    c->ended = 0;
    for (uint32_t n = 0; n < c->all.count; n++) {
      GSource *source = g_timeout_source_new(1);
      g_source_set_callback(source, time_out, c, NULL);
      g_source_attach(source, c->context);
      g_source_unref(source);
    }
    while (c->ended < c->all.count) g_main_context_iteration(c->context, TRUE);
  }
  return bench_now_ns() - began;
}

static void timers_new(uint32_t count, bench_contestant *ret) {
  calls *c = bench_alloc(1, sizeof *c);
  c->all = bench_peer_calls_of(count, false);
  c->context = g_main_context_new();
  *ret = (bench_contestant){.name = "GLib main context",
                            .form = "a timeout source a call",
                            .run = timers_run,
                            .close = calls_close,
                            .ctx = c};
}

const bench_peer bench_peer_glib = {.name = "GLib",
                                    .version = version,
                                    .graph = graph_new,
                                    .turns = turns_new,
                                    .timers = timers_new,
                                    .calls = calls_new};
