/* SPDX-License-Identifier: Apache-2.0
 *
 * What the module `plan` costs: sorting and committing the graph of W5, holding a snapshot, finding a phase. */
#include <stdlib.h>

#include "bench/modules/module.h"
#include "runtime/plan/plan.h"

typedef struct plan_bench {
  bench_workload workload;
  tp_runtime *runtime;
  tp__sort_node *nodes;
  tp__sort_edge *edges;
  uint32_t *order, *cycle;
} plan_bench;

static int64_t sort(void *ctx, uint32_t times) {
  plan_bench *module = ctx;
  const bench_graph *graph = &module->workload.graphs[0];
  tp_allocator allocator = tp__allocator_of(NULL);
  uint32_t length;
  MODULE_TIMED(times, bench_must(tp__sort(&allocator, module->nodes, graph->node_count, module->edges,
                                          graph->edge_count, module->order, module->cycle, &length),
                                 NULL));
}

/* Each commit adds or removes a subscription. */
static int64_t commit(void *ctx, uint32_t times) {
  plan_bench *module = ctx;
  tp_subscription extra = {.struct_size = sizeof extra, .id = "extra", .handler = "node", .phase = TP_PHASE_HOST};
  int64_t duration_ns = 0;
  for (uint32_t i = 0; i < 2 * times; i++) {
    tp_edit *edit;
    bench_must(tp_edit_begin(module->runtime, NULL, &edit, NULL), NULL);
    bench_must(i % 2 ? tp_edit_remove_subscription(edit, "extra", NULL) : tp_edit_add_subscription(edit, &extra, NULL),
               NULL);
    int64_t began = bench_now_ns();
    bench_must(tp_edit_commit(edit, NULL, NULL), NULL);
    duration_ns += bench_now_ns() - began;
  }
  return duration_ns / 2;
}

static int64_t turn(void *ctx, uint32_t times) {
  plan_bench *module = ctx;
  MODULE_TIMED(times, tp_turn_end(bench_turn_begin(module->runtime)));
}

static int64_t find(void *ctx, uint32_t times) {
  plan_bench *module = ctx;
  MODULE_TIMED(times, MODULE_KEEP(tp_phase_find(module->runtime, "turn.pre_tool_materialization")));
}

int main(int argc, char **argv) {
  bench_program program;
  plan_bench module = {0};
  bench_row row = {.name = "plan", .what = "a registry with the graph of W5"};
  bench_open(&program, "plan", "What the module plan costs.", "plan ", argc, argv);
  if (!bench_workload_make(&module.workload, "W5")) return 70;
  const bench_graph *graph = &module.workload.graphs[0];
  module.runtime = bench_workload_runtime(&module.workload, NULL, NULL, NULL);
  module.nodes = bench_alloc(graph->node_count, sizeof *module.nodes);
  module.edges = bench_alloc(graph->edge_count, sizeof *module.edges);
  module.order = bench_alloc(graph->node_count, sizeof *module.order);
  module.cycle = bench_alloc(graph->node_count + 1, sizeof *module.cycle);
  for (uint32_t n = 0; n < graph->node_count; n++) module.nodes[n].tie_number = n;
  for (uint32_t e = 0; e < graph->edge_count; e++) module.edges[e] = (tp__sort_edge){graph->from[e], graph->to[e]};
  module_add(&row, "sort 1,000 nodes, 3,000 edges", sort, &module);
  module_add(&row, "commit that compiles their phase anew", commit, &module);
  module_add(&row, "begin and end a turn: hold and unpin a snapshot", turn, &module);
  module_add(&row, "find a phase by its name", find, &module);
  bench_row_run(&program, &row, NULL);
  tp_runtime_free(module.runtime);
  bench_workload_fini(&module.workload);
  free(module.nodes);
  free(module.edges);
  free(module.order);
  free(module.cycle);
  return bench_close(&program);
}
