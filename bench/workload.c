/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W5_NODES = 1000, EDGES_PER_NODE = 3 };

void bench_must(tp_status status, const tp_fault *fault) {
  if (status == TP_OK) return;
  fprintf(stderr, "bench: %s: %s\n", tp_status_name(status), fault ? fault->message : tp_status_text(status));
  exit(70);
}

void *bench_alloc(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (memory) return memory;
  fprintf(stderr, "bench: no memory\n");
  exit(70);
}

/* ---- graphs ---- */

static void graph_init(bench_graph *graph, uint32_t node_count, uint32_t edges_max) {
  *graph = (bench_graph){.node_count = node_count,
                         .from = bench_alloc(edges_max, sizeof *graph->from),
                         .to = bench_alloc(edges_max, sizeof *graph->to)};
}

static void edge(bench_graph *graph, uint32_t from, uint32_t to) {
  graph->from[graph->edge_count] = from;
  graph->to[graph->edge_count++] = to;
}

static void make_chain(bench_graph *graph, uint32_t node_count) {
  graph_init(graph, node_count, node_count);
  for (uint32_t n = 1; n < node_count; n++) edge(graph, n - 1, n);
}

static void make_fan(bench_graph *graph, uint32_t width) {
  graph_init(graph, width + 2, 2 * width);
  for (uint32_t n = 1; n <= width; n++) {
    edge(graph, 0, n);
    edge(graph, n, width + 1);
  }
}

static uint64_t dice(uint64_t *state) { /* xorshift64*: the same graph in every run */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1Du;
}

static void make_random(bench_graph *graph, uint32_t node_count) {
  uint64_t state = 88172645463325252u;
  graph_init(graph, node_count, EDGES_PER_NODE * node_count);
  while (graph->edge_count < EDGES_PER_NODE * node_count) {
    uint32_t a = (uint32_t)(dice(&state) % node_count), b = (uint32_t)(dice(&state) % node_count);
    if (a < b) edge(graph, a, b);
  }
}

/* ---- workloads ---- */

static void make_empty(bench_workload *workload) { graph_init(&workload->graphs[0], 0, 0); }
static void make_w2(bench_workload *workload) { make_chain(&workload->graphs[0], 6); }
static void make_w3(bench_workload *workload) { make_fan(&workload->graphs[0], 8); }

static void make_w4(bench_workload *workload) {
  static const uint32_t sizes[BENCH_PHASES_MAX] = {1, 2, 1, 1, 1};
  workload->phase_count = BENCH_PHASES_MAX;
  for (uint32_t p = 0; p < BENCH_PHASES_MAX; p++) make_chain(&workload->graphs[p], sizes[p]);
}

static void make_w5(bench_workload *workload) { make_random(&workload->graphs[0], W5_NODES); }

static void make_diamonds(bench_workload *workload) {
  workload->phase_count = BENCH_PHASES_MAX;
  for (uint32_t p = 0; p < BENCH_PHASES_MAX; p++) make_fan(&workload->graphs[p], 2);
}

static const struct kind {
  const char *name, *what;
  void (*make)(bench_workload *workload);
} kinds[] = {
    {"W1", "a phase without subscriptions", make_empty},
    {"W2", "a chain of 6", make_w2},
    {"W3", "fan-out and fan-in 1-8-1", make_w3},
    {"W4", "6 handlers over 5 phases", make_w4},
    {"W5", "random graph, 1,000 nodes, 3,000 edges", make_w5},
    {"W6", "the same with 5 µs of work a node", make_w5},
    {"diamond", "5 phases of a diamond of 4", make_diamonds},
};

bool bench_workload_make(bench_workload *workload, const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, name) != 0) continue;
    *workload = (bench_workload){.name = kinds[i].name, .what = kinds[i].what, .phase_count = 1};
    kinds[i].make(workload);
    return true;
  }
  return false;
}

void bench_workload_make_random(bench_workload *workload, uint32_t node_count) {
  *workload = (bench_workload){.name = "growth", .what = "random graph of the shape of W5", .phase_count = 1};
  make_random(&workload->graphs[0], node_count);
}

void bench_workload_fini(bench_workload *workload) {
  for (uint32_t p = 0; p < workload->phase_count; p++) {
    free(workload->graphs[p].from);
    free(workload->graphs[p].to);
  }
}

uint32_t bench_workload_nodes(const bench_workload *workload) {
  uint32_t count = 0;
  for (uint32_t p = 0; p < workload->phase_count; p++) count += workload->graphs[p].node_count;
  return count;
}

/* ---- as a runtime ---- */

static tp_answer nothing(void *ctx, tp_call *call) {
  (void)call;
  (void)ctx;
  return TP_ANSWER_DONE;
}

/* One subscription per node. The edges that lead to a node are found by sorting them by target first: so that a graph
   of 10,000 nodes is subscribed fast. */
static void subscribe(tp_edit *edit, uint32_t phase, const bench_graph *graph) {
  char(*ids)[16] = bench_alloc(graph->node_count, sizeof *ids);
  uint32_t *first = bench_alloc(graph->node_count + 2, sizeof *first);
  tp_edge *edges = bench_alloc(graph->edge_count, sizeof *edges);
  const tp_edge **list = bench_alloc(graph->edge_count, sizeof *list);
  for (uint32_t n = 0; n < graph->node_count; n++) snprintf(ids[n], sizeof ids[n], "p%u-%05u", phase, n);
  for (uint32_t e = 0; e < graph->edge_count; e++) first[graph->to[e] + 2]++;
  for (uint32_t n = 2; n < graph->node_count + 2; n++) first[n] += first[n - 1];
  for (uint32_t e = 0; e < graph->edge_count; e++) {
    uint32_t at = first[graph->to[e] + 1]++;
    edges[at] = (tp_edge){.struct_size = sizeof *edges, .target = ids[graph->from[e]]};
    list[at] = &edges[at];
  }
  for (uint32_t n = 0; n < graph->node_count; n++) {
    tp_subscription subscription = {.struct_size = sizeof subscription,
                                    .id = ids[n],
                                    .handler = "node",
                                    .phase = phase,
                                    .after = list + first[n],
                                    .after_count = first[n + 1] - first[n]};
    bench_must(tp_edit_add_subscription(edit, &subscription, NULL), NULL);
  }
  free(ids);
  free(first);
  free(edges);
  free(list);
}

static void register_in(tp_runtime *runtime, const bench_workload *workload, tp_handler_fn run, void *ctx) {
  static const uint32_t phases[BENCH_PHASES_MAX] = {TP_PHASE_HOST, TP_PHASE_HOST + 1, TP_PHASE_HOST + 2,
                                                    TP_PHASE_HOST + 3, TP_PHASE_HOST + 4};
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = "node",
                        .run = run ? run : nothing,
                        .ctx = ctx,
                        .phases = phases,
                        .phase_count = BENCH_PHASES_MAX,
                        /* A workload with a handler of its own has work that is worth another core. */
                        .placement = run ? TP_PLACEMENT_PARALLEL : TP_PLACEMENT_INLINE};
  tp_edit *edit;
  tp_fault fault;
  bench_must(tp_edit_begin(runtime, NULL, &edit, NULL), NULL);
  bench_must(tp_edit_add_handler(edit, &handler, NULL), NULL);
  for (uint32_t p = 0; p < workload->phase_count; p++) subscribe(edit, TP_PHASE_HOST + p, &workload->graphs[p]);
  bench_must(tp_edit_commit(edit, NULL, &fault), &fault);
}

tp_runtime *bench_workload_runtime(const bench_workload *workload, const tp_runtime_options *options, tp_handler_fn run,
                                   void *ctx) {
  static const char *const names[BENCH_PHASES_MAX] = {"bench.1", "bench.2", "bench.3", "bench.4", "bench.5"};
  tp_phase rows[BENCH_PHASES_MAX];
  const tp_phase *list[BENCH_PHASES_MAX];
  for (int i = 0; i < BENCH_PHASES_MAX; i++) {
    rows[i] = (tp_phase){.struct_size = sizeof rows[i], .name = names[i], .mode = TP_MODE_GATHER};
    list[i] = &rows[i];
  }
  tp_runtime_options with_phases = options ? *options : (tp_runtime_options){.struct_size = sizeof with_phases};
  with_phases.no_breakers = true; /* so that a handler that should hang hangs each time */
  with_phases.phases = list;
  with_phases.phase_count = BENCH_PHASES_MAX;
  tp_runtime *runtime;
  tp_fault fault;
  bench_must(tp_runtime_new(&with_phases, &runtime, &fault), &fault);
  register_in(runtime, workload, run, ctx);
  return runtime;
}

tp_turn *bench_turn_begin(tp_runtime *runtime) {
  tp_turn *turn;
  tp_fault fault;
  bench_must(tp_turn_begin_bare(runtime, NULL, &turn, &fault), &fault);
  return turn;
}

void bench_workload_run(const bench_workload *workload, tp_turn *turn) {
  for (uint32_t p = 0; p < workload->phase_count; p++) {
    tp_phase_result result = {.struct_size = sizeof result};
    bench_must(tp_phase_run(turn, TP_PHASE_HOST + p, NULL, &result, NULL), NULL);
    tp_phase_result_release(turn, &result);
  }
}
