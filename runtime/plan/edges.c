/* SPDX-License-Identifier: Apache-2.0
 *
 * edges.c: turns the ids that subscriptions name into edges between the nodes of one phase. Every edge is stored as
 * "from runs before to", whichever of the two subscriptions named it. */
#include "runtime/plan/registry.h"

typedef struct edge_reader {
  const tp__drafts *drafts;
  tp__draft *draft;
  const tp__subscription *sub; /* that names the edge */
  tp_fault *fault;
} edge_reader;

#define REFUSE(r, code, ...) tp__subscription_refuse((r)->fault, (r)->drafts->registry, (r)->sub, (code), __VA_ARGS__)

/* ---- finds the item of a subscription of the phase: hashes its registration number, open addressing ---- */

static uint32_t finder_home(const tp__draft *draft, const tp__subscription *sub) {
  return (uint32_t)(sub->registration * UINT64_C(0x9E3779B97F4A7C15) >> (64 - draft->finder_bits));
}

static bool finder_fill(const tp__drafts *drafts, tp__draft *draft) {
  const tp__members *members = draft->members;
  draft->finder_bits = 1;
  while ((size_t)1 << draft->finder_bits < 2 * members->item_count) draft->finder_bits++;
  uint32_t mask = (UINT32_C(1) << draft->finder_bits) - 1;
  draft->finder = tp__arena_zero(drafts->scratch, ((size_t)mask + 1) * sizeof *draft->finder);
  if (!draft->finder) return false;
  for (uint32_t i = 0; i < members->item_count; i++) {
    uint32_t at = finder_home(draft, members->items[i].sub);
    while (draft->finder[at] != 0) at = (at + 1) & mask;
    draft->finder[at] = i + 1;
  }
  return true;
}

static uint32_t finder_get(const tp__draft *draft, const tp__subscription *sub) {
  uint32_t mask = (UINT32_C(1) << draft->finder_bits) - 1, at = finder_home(draft, sub);
  while (draft->members->items[draft->finder[at] - 1].sub != sub) at = (at + 1) & mask;
  return draft->finder[at] - 1;
}

/* ---- */

/* @param ret_place  TP__NO_PLACE for an optional edge without a target. */
static tp_status resolve_edge(const edge_reader *r, const tp_edge *edge, const char *word, uint32_t *ret_place) {
  if (strcmp(edge->target, r->sub->desc.id) == 0) {
    return REFUSE(r, TP_ERR_SELF_DEPENDENCY, "%s `%s` is an edge to itself", word, edge->target);
  }
  *ret_place = TP__NO_PLACE;
  const tp__subscription *sub = tp__set_subscription(r->drafts->set, edge->target);
  if (!sub) {
    if (edge->optional) {
      tp__absent *absent = tp__arena_alloc(&r->draft->members->arena, sizeof *absent);
      if (!absent) return tp__fail(r->fault, TP_ERR_NO_MEMORY, NULL, "no memory for the plan");
      *absent = (tp__absent){.next = r->draft->members->absent, .id = edge->target};
      r->draft->members->absent = absent;
      return TP_OK;
    }
    return REFUSE(r, TP_ERR_MISSING_DEPENDENCY,
                  "%s `%s`: no such subscription is registered; register it or make the edge optional", word,
                  edge->target);
  }
  if (sub->desc.phase != r->draft->phase) {
    return REFUSE(r, TP_ERR_CROSS_PHASE, "%s `%s`: that one belongs to %s, and an edge stays within its phase", word,
                  edge->target, r->drafts->registry->phases[sub->desc.phase]->name);
  }
  uint32_t place = r->draft->places[finder_get(r->draft, sub)];
  if (place == TP__NO_PLACE) {
    if (edge->optional) return TP_OK;
    return REFUSE(r, TP_ERR_DISABLED_DEPENDENCY, "%s `%s`: that one is disabled; enable it or make the edge optional",
                  word, edge->target);
  }
  const tp__node *target = &r->draft->nodes[place];
  if (!tp__node_awaited(target)) {
    return REFUSE(r, TP_ERR_DETACHED_TARGET,
                  "%s `%s`: that one is %s, and only blocking and deadline subscriptions are waited for", word,
                  edge->target, tp_execution_name(target->execution));
  }
  *ret_place = place;
  return TP_OK;
}

static void add_edge(tp__draft *draft, uint32_t from, uint32_t to, uint8_t flags) {
  draft->edges[draft->edge_count] = (tp__sort_edge){.from = from, .to = to};
  draft->edge_flags[draft->edge_count++] = flags;
}

/* @param later true: the targets run after this subscription (edges `before`); false: they run before it (`after` and
 *   `needs`). */
static tp_status read_edges(const edge_reader *r, uint32_t own, const tp_edge *const *edges, size_t count,
                            const char *word, bool later, uint8_t flags) {
  for (size_t i = 0; i < count; i++) {
    uint32_t target = TP__NO_PLACE;
    TP__TRY(resolve_edge(r, edges[i], word, &target));
    if (target != TP__NO_PLACE) add_edge(r->draft, later ? own : target, later ? target : own, flags);
  }
  return TP_OK;
}

static uint64_t edges_max(const tp__draft *draft) {
  uint64_t count = draft->node_count; /* the sequential ones */
  for (uint32_t i = 0; i < draft->node_count; i++) {
    const tp_subscription *desc = &draft->nodes[i].sub->desc;
    count += desc->after_count + desc->before_count + desc->needs_count;
  }
  return count;
}

tp_status tp__draft_edges(const tp__drafts *drafts, tp__draft *draft, tp_fault *fault) {
  uint64_t count = edges_max(draft);
  if (count - draft->node_count > TP__PHASE_EDGES_MAX) {
    tp__fail(fault, TP_ERR_TOO_LARGE, draft->row->name, "%s has %llu edges: at most %d are allowed in a phase",
             draft->row->name, (unsigned long long)(count - draft->node_count), TP__PHASE_EDGES_MAX);
    if (fault) fault->phase = draft->phase;
    return TP_ERR_TOO_LARGE;
  }
  draft->edges = tp__arena_alloc(drafts->scratch, count * sizeof *draft->edges);
  draft->edge_flags = tp__arena_alloc(drafts->scratch, count);
  if (!draft->edges || !draft->edge_flags || !finder_fill(drafts, draft)) {
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the plan");
  }
  for (uint32_t own = 0; own < draft->node_count; own++) {
    const tp_subscription *desc = &draft->nodes[own].sub->desc;
    edge_reader r = {.drafts = drafts, .draft = draft, .sub = draft->nodes[own].sub, .fault = fault};
    TP__TRY(read_edges(&r, own, desc->after, desc->after_count, "after", false, TP__EDGE_DEP));
    TP__TRY(read_edges(&r, own, desc->needs, desc->needs_count, "needs", false, TP__EDGE_DEP | TP__EDGE_REQUIRES));
    TP__TRY(read_edges(&r, own, desc->before, desc->before_count, "before", true, 0));
  }
  /* The sequential subscriptions form a line by registration number; in a reverse row the line runs backwards. A
   * detached subscription has its place in the line, but no subscription waits for it. */
  uint32_t previous = TP__NO_PLACE;
  for (uint32_t i = 0; i < draft->node_count; i++) {
    uint32_t own = draft->row->reverse ? draft->node_count - 1 - i : i;
    const tp__node *node = &draft->nodes[own];
    if (!tp__subscription_sequential(node->sub)) continue;
    if (previous != TP__NO_PLACE) add_edge(draft, previous, own, 0);
    if (tp__node_awaited(node)) previous = own;
  }
  return TP_OK;
}
