/* SPDX-License-Identifier: Apache-2.0
 *
 * What a phase costs: the workloads W1 to W5 through the public API, with quick handlers that do nothing, against a
 * floor loop in the same run. The floor is what any engine must do: counters from a flat array, a stack of ready
 * nodes, a call through a pointer, one time-stamp and one outcome stored per node. It has no deadlines, policies,
 * contributions, cancellation or records. Both are measured in turns, batch by batch, so that their ratio holds on a
 * noisy machine.
 *
 *   phases [--json] [W1 … W5]      exits with 1 when a ratio is above LIMIT_RATIO */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "turnphase/turnphase.h"

enum { BATCHES = 1000, WARM_UP = 100, NODES_MAX = 1000, EDGES_MAX = 3000, PHASES_MAX = 5, LIMIT_RATIO = 3 };

typedef struct graph {
  uint32_t node_count, edge_count;
  uint32_t from[EDGES_MAX], to[EDGES_MAX];
} graph;

typedef struct workload {
  const char *name, *what;
  uint32_t phase_count;
  graph graphs[PHASES_MAX];
  uint32_t per_batch; /* runs in a batch, so that a batch takes some microseconds at least */
} workload;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- the floor ---- */

typedef struct floor_outcome {
  int64_t ended_ns;
  uint64_t rest[3];
} floor_outcome;

typedef struct floor_node {
  floor_outcome (*run)(void *self);
  void *self;
  uint32_t first_edge, edge_count;
} floor_node;

typedef struct floor_plan {
  uint32_t node_count, root_count;
  floor_node nodes[NODES_MAX];
  uint32_t edges[EDGES_MAX], roots[NODES_MAX];
  uint16_t indegree[NODES_MAX];
  /* of one run */
  uint16_t counters[NODES_MAX];
  uint32_t ready[NODES_MAX];
  floor_outcome outcomes[NODES_MAX];
} floor_plan;

static floor_outcome floor_nothing(void *self) {
  (void)self;
  return (floor_outcome){0};
}

static void floor_compile(const graph *g, floor_plan *plan) {
  memset(plan, 0, sizeof *plan);
  plan->node_count = g->node_count;
  uint32_t next = 0;
  for (uint32_t n = 0; n < g->node_count; n++) {
    plan->nodes[n] = (floor_node){.run = floor_nothing, .first_edge = next};
    for (uint32_t e = 0; e < g->edge_count; e++)
      if (g->from[e] == n) plan->edges[next++] = g->to[e];
    plan->nodes[n].edge_count = next - plan->nodes[n].first_edge;
  }
  for (uint32_t e = 0; e < g->edge_count; e++) plan->indegree[g->to[e]]++;
  for (uint32_t n = 0; n < g->node_count; n++)
    if (plan->indegree[n] == 0) plan->roots[plan->root_count++] = n;
}

static void floor_run(floor_plan *plan) {
  uint32_t ready = plan->root_count;
  if (ready == 0) return;
  memcpy(plan->counters, plan->indegree, plan->node_count * sizeof *plan->counters);
  memcpy(plan->ready, plan->roots, ready * sizeof *plan->ready);
  while (ready > 0) {
    uint32_t n = plan->ready[--ready];
    const floor_node *node = &plan->nodes[n];
    plan->outcomes[n] = node->run(node->self);
    plan->outcomes[n].ended_ns = now_ns();
    for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++)
      if (--plan->counters[plan->edges[e]] == 0) plan->ready[ready++] = plan->edges[e];
  }
}

/* ---- turnphase ---- */

static void must(tp_status status, const tp_fault *fault) {
  if (status == TP_OK) return;
  fprintf(stderr, "bench: %s: %s\n", tp_status_name(status), fault ? fault->message : "");
  exit(70);
}

static tp_outcome nothing(void *self, tp_call *call) {
  (void)self;
  return tp_call_done(call);
}

static void subscribe(tp_edit *edit, uint32_t phase, const graph *g) {
  char(*ids)[16] = calloc(g->node_count + 1, sizeof *ids);
  tp_edge *edges = calloc(g->edge_count + 1, sizeof *edges);
  if (!ids || !edges) exit(70);
  for (uint32_t n = 0; n < g->node_count; n++) snprintf(ids[n], sizeof ids[n], "p%u-%04u", phase, n);
  for (uint32_t n = 0; n < g->node_count; n++) {
    size_t count = 0;
    for (uint32_t e = 0; e < g->edge_count; e++)
      if (g->to[e] == n) edges[count++].target = ids[g->from[e]];
    tp_subscription subscription = {.struct_size = sizeof subscription,
                                    .id = ids[n],
                                    .handler = "nothing",
                                    .phase = phase,
                                    .after = edges,
                                    .after_count = count};
    must(tp_edit_add_subscription(edit, &subscription), NULL);
  }
  free(ids);
  free(edges);
}

static tp_runtime *make_runtime(const workload *w) {
  static const char *const names[PHASES_MAX] = {"bench.1", "bench.2", "bench.3", "bench.4", "bench.5"};
  static const uint32_t phases[PHASES_MAX] = {TP_PHASE_HOST, TP_PHASE_HOST + 1, TP_PHASE_HOST + 2, TP_PHASE_HOST + 3,
                                              TP_PHASE_HOST + 4};
  tp_phase rows[PHASES_MAX];
  for (int i = 0; i < PHASES_MAX; i++)
    rows[i] = (tp_phase){.struct_size = sizeof rows[i], .name = names[i], .mode = TP_MODE_GATHER};
  tp_runtime_options options = {.struct_size = sizeof options, .phases = rows, .phase_count = PHASES_MAX};
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = "nothing",
                        .run = nothing,
                        .phases = phases,
                        .phase_count = PHASES_MAX,
                        .quick = true};
  tp_runtime *runtime;
  tp_edit *edit;
  tp_fault fault;
  must(tp_runtime_new(&options, &runtime, &fault), &fault);
  must(tp_edit_begin(runtime, NULL, &edit), NULL);
  must(tp_edit_add_handler(edit, &handler), NULL);
  for (uint32_t i = 0; i < w->phase_count; i++) subscribe(edit, TP_PHASE_HOST + i, &w->graphs[i]);
  must(tp_edit_commit(edit, NULL, &fault), &fault);
  return runtime;
}

static void turnphase_run(const workload *w, tp_turn *turn) {
  for (uint32_t i = 0; i < w->phase_count; i++) {
    tp_phase_result result;
    must(tp_phase_run(turn, TP_PHASE_HOST + i, NULL, &result, NULL), NULL);
    tp_phase_release(turn, &result);
  }
}

/* ---- the workloads ---- */

static void edge(graph *g, uint32_t from, uint32_t to) {
  g->from[g->edge_count] = from;
  g->to[g->edge_count++] = to;
}

static uint64_t dice(uint64_t *state) { /* xorshift64*: the same graph in every run */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1Du;
}

static void make(workload *w, int which) {
  static const char *const names[] = {"W1", "W2", "W3", "W4", "W5"};
  static const char *const what[] = {"a phase without subscriptions", "a chain of 6", "fan-out and fan-in 1-8-1",
                                     "6 handlers over 5 phases", "random graph, 1,000 nodes, 3,000 edges"};
  static const uint32_t sizes[] = {1, 2, 1, 1, 1};
  uint64_t state = 88172645463325252u;
  *w = (workload){.name = names[which], .what = what[which], .phase_count = 1, .per_batch = 200};
  switch (which) {
    case 0:
      break;
    case 1:
      w->graphs[0].node_count = 6;
      for (uint32_t n = 1; n < 6; n++) edge(&w->graphs[0], n - 1, n);
      break;
    case 2:
      w->graphs[0].node_count = 10;
      for (uint32_t n = 1; n < 9; n++) {
        edge(&w->graphs[0], 0, n);
        edge(&w->graphs[0], n, 9);
      }
      break;
    case 3:
      w->phase_count = 5;
      for (uint32_t p = 0; p < 5; p++) w->graphs[p].node_count = sizes[p];
      edge(&w->graphs[1], 0, 1);
      break;
    default:
      w->per_batch = 1;
      w->graphs[0].node_count = NODES_MAX;
      while (w->graphs[0].edge_count < EDGES_MAX) {
        uint32_t a = (uint32_t)(dice(&state) % NODES_MAX), b = (uint32_t)(dice(&state) % NODES_MAX);
        if (a < b) edge(&w->graphs[0], a, b);
      }
      break;
  }
}

/* ---- measuring ---- */

typedef struct spread {
  double median, p99, least;
} spread;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static spread spread_of(double *samples) {
  qsort(samples, BATCHES, sizeof *samples, compare);
  return (spread){samples[BATCHES / 2], samples[BATCHES * 99 / 100], samples[0]};
}

static void measure(const workload *w, spread *ours, spread *floors) {
  static double our_samples[BATCHES], floor_samples[BATCHES];
  floor_plan *plans = calloc(PHASES_MAX, sizeof *plans);
  if (!plans) exit(70);
  for (uint32_t i = 0; i < w->phase_count; i++) floor_compile(&w->graphs[i], &plans[i]);
  tp_runtime *runtime = make_runtime(w);
  tp_turn *turn;
  tp_fault fault;
  must(tp_turn_begin_bare(runtime, NULL, &turn, &fault), &fault);
  for (int batch = -WARM_UP; batch < BATCHES; batch++) {
    int64_t t0 = now_ns();
    for (uint32_t i = 0; i < w->per_batch; i++) turnphase_run(w, turn);
    int64_t t1 = now_ns();
    for (uint32_t i = 0; i < w->per_batch; i++)
      for (uint32_t p = 0; p < w->phase_count; p++) floor_run(&plans[p]);
    int64_t t2 = now_ns();
    if (batch < 0) continue;
    our_samples[batch] = (double)(t1 - t0) / w->per_batch;
    floor_samples[batch] = (double)(t2 - t1) / w->per_batch;
  }
  tp_turn_end(turn);
  tp_runtime_free(runtime);
  free(plans);
  *ours = spread_of(our_samples);
  *floors = spread_of(floor_samples);
}

/* An empty phase has no floor of its own: what it may cost is one time-stamp. */
static double clock_cost(void) {
  enum { READS = 100000 };
  int64_t t0 = now_ns();
  for (int i = 0; i < READS; i++) (void)now_ns();
  return (double)(now_ns() - t0) / READS;
}

static void print_header(bool json) {
  struct utsname machine;
  if (uname(&machine) != 0) exit(70);
#ifdef __clang__
  const char *compiler = "clang " __clang_version__;
#else
  const char *compiler = "gcc " __VERSION__;
#endif
  if (json) return;
  printf("machine  %s %s, %ld processors; %s; turnphase %s\n", machine.sysname, machine.machine,
         sysconf(_SC_NPROCESSORS_ONLN), compiler, tp_version());
  printf("%d batches after %d to warm up; nanoseconds a run: median, 99th percentile, least\n\n", BATCHES, WARM_UP);
  printf("%-4s %-40s %10s %10s %10s   %10s %10s   %s\n", "", "", "turnphase", "p99", "least", "floor", "p99", "ratio");
}

static bool wanted(const char *name, int count, char **names) {
  bool any = false;
  for (int i = 1; i < count; i++) {
    if (names[i][0] == '-') continue;
    any = true;
    if (strcmp(names[i], name) == 0) return true;
  }
  return !any;
}

int main(int argc, char **argv) {
  bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
  static workload w;
  int above = 0;
  double stamp = clock_cost();
  print_header(json);
  for (int which = 0; which < 5; which++) {
    spread ours, floors;
    make(&w, which);
    if (!wanted(w.name, argc, argv)) continue;
    measure(&w, &ours, &floors);
    double floor = which == 0 ? stamp : floors.median, ratio = ours.median / floor;
    above += ratio > LIMIT_RATIO;
    if (json)
      printf(
          "{\"workload\":\"%s\",\"median_ns\":%.1f,\"p99_ns\":%.1f,\"least_ns\":%.1f,\"floor_median_ns\":%.1f,"
          "\"floor_p99_ns\":%.1f,\"ratio\":%.2f}\n",
          w.name, ours.median, ours.p99, ours.least, floor, floors.p99, ratio);
    else
      printf("%-4s %-40s %10.1f %10.1f %10.1f   %10.1f %10.1f   %.2f%s\n", w.name, w.what, ours.median, ours.p99,
             ours.least, floor, floors.p99, ratio, ratio > LIMIT_RATIO ? "  above 3" : "");
  }
  return above > 0;
}
