/* SPDX-License-Identifier: Apache-2.0
 *
 * What the room `plan` costs: sorting and committing the graph of W5, holding a snapshot, finding a phase. */
#include <stdlib.h>

#include "bench/rooms/room.h"
#include "runtime/plan/plan.h"

typedef struct plan_room {
  bench_workload workload;
  tp_runtime *runtime;
  tp__sort_node *nodes;
  tp__sort_edge *edges;
  uint32_t *order, *cycle;
} plan_room;

static int64_t sort(void *ctx, uint32_t times) {
  plan_room *room = ctx;
  const bench_graph *graph = &room->workload.graphs[0];
  tp_allocator allocator = tp__allocator_of(NULL);
  uint32_t length;
  ROOM_TIMED(times, bench_must(tp__sort(&allocator, room->nodes, graph->node_count, room->edges, graph->edge_count,
                                        room->order, room->cycle, &length),
                               NULL));
}

/* A subscription comes or goes. */
static int64_t commit(void *ctx, uint32_t times) {
  plan_room *room = ctx;
  tp_subscription extra = {.struct_size = sizeof extra, .id = "extra", .handler = "node", .phase = TP_PHASE_HOST};
  int64_t took = 0;
  for (uint32_t i = 0; i < 2 * times; i++) {
    tp_edit *edit;
    bench_must(tp_edit_begin(room->runtime, NULL, &edit, NULL), NULL);
    bench_must(i % 2 ? tp_edit_remove_subscription(edit, "extra", NULL)
                     : tp_edit_add_subscription(edit, &extra, NULL),
               NULL);
    int64_t began = bench_now_ns();
    bench_must(tp_edit_commit(edit, NULL, NULL), NULL);
    took += bench_now_ns() - began;
  }
  return took / 2;
}

static int64_t turn(void *ctx, uint32_t times) {
  plan_room *room = ctx;
  ROOM_TIMED(times, tp_turn_end(bench_turn_begin(room->runtime)));
}

static int64_t find(void *ctx, uint32_t times) {
  plan_room *room = ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp_phase_find(room->runtime, "turn.pre_tool_materialization")));
}

int main(int argc, char **argv) {
  bench_program program;
  plan_room room = {0};
  bench_row row = {.name = "plan", .what = "a registry with the graph of W5"};
  bench_open(&program, "plan", "What the room plan costs.", "plan ", argc, argv);
  if (!bench_workload_make(&room.workload, "W5")) return 70;
  const bench_graph *graph = &room.workload.graphs[0];
  room.runtime = bench_workload_runtime(&room.workload, NULL, NULL, NULL);
  room.nodes = bench_alloc(graph->node_count, sizeof *room.nodes);
  room.edges = bench_alloc(graph->edge_count, sizeof *room.edges);
  room.order = bench_alloc(graph->node_count, sizeof *room.order);
  room.cycle = bench_alloc(graph->node_count + 1, sizeof *room.cycle);
  for (uint32_t n = 0; n < graph->node_count; n++) room.nodes[n].tie_number = n;
  for (uint32_t e = 0; e < graph->edge_count; e++) room.edges[e] = (tp__sort_edge){graph->from[e], graph->to[e]};
  room_add(&row, "sort 1,000 nodes, 3,000 edges", sort, &room);
  room_add(&row, "commit that compiles their phase anew", commit, &room);
  room_add(&row, "begin and end a turn: hold and let go of a snapshot", turn, &room);
  room_add(&row, "find a phase by its name", find, &room);
  bench_row_run(&program, &row, NULL);
  tp_runtime_free(room.runtime);
  bench_workload_fini(&room.workload);
  free(room.nodes);
  free(room.edges);
  free(room.order);
  free(room.cycle);
  return bench_close(&program);
}
