/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/flat.h"

#include <stdlib.h>

#include "bench/measure.h"

static void nothing(void *ctx) { (void)ctx; }

const bench_job bench_nothing = {nothing, NULL};

enum { RECORDS = 64 };
typedef struct record {
  uint64_t ended, rest[3];
} record;
static _Thread_local record records[RECORDS];
static _Thread_local uint32_t record_count;

static void write_record(void *ctx) {
  record *r = &records[record_count++ % RECORDS];
  *r = (record){.ended = *(const bool *)ctx ? bench_counter() : (uint64_t)bench_now_ns()};
  __asm__ volatile("" : : "r"(r) : "memory"); /* no code reads it; this forces the compiler to write it */
}

static bool has_counter;
__attribute__((constructor)) static void look_at_counter(void) { has_counter = bench_counter_steady(); }
const bench_job bench_recorded = {write_record, &has_counter};

void bench_flat_init(bench_flat *flat, const bench_graph *graph) {
  *flat = (bench_flat){.node_count = graph->node_count,
                       .edge_count = graph->edge_count,
                       .first_edge = bench_alloc(graph->node_count + 2, sizeof(uint32_t)),
                       .edges = bench_alloc(graph->edge_count, sizeof(uint32_t)),
                       .roots = bench_alloc(graph->node_count, sizeof(uint32_t)),
                       .indegree = bench_alloc(graph->node_count, sizeof(uint16_t))};
  /* Counts are stored one place too far, so that filling in the edges moves every beginning to its place. */
  for (uint32_t e = 0; e < graph->edge_count; e++) {
    flat->indegree[graph->to[e]]++;
    flat->first_edge[graph->from[e] + 2]++;
  }
  for (uint32_t n = 2; n < graph->node_count + 2; n++) flat->first_edge[n] += flat->first_edge[n - 1];
  for (uint32_t e = 0; e < graph->edge_count; e++) flat->edges[flat->first_edge[graph->from[e] + 1]++] = graph->to[e];
  for (uint32_t n = 0; n < graph->node_count; n++)
    if (flat->indegree[n] == 0) flat->roots[flat->root_count++] = n;
}

void bench_flat_fini(bench_flat *flat) {
  free(flat->first_edge);
  free(flat->edges);
  free(flat->roots);
  free(flat->indegree);
}
