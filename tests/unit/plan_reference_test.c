/* SPDX-License-Identifier: Apache-2.0
 *
 * Order, cycles and layout, compared with a reference that shares no code and no idea with the compiler: an adjacency
 * matrix, and "take the first of all that may run", as a search through everything, again and again. */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

enum { MAX = 20, SORT_GRAPHS = 100000, PLAN_GRAPHS = 6000, AFTER = 1, REQUIRES = 2 };

static uint64_t random_state;
static uint64_t random_bits(void) { /* splitmix64 */
  uint64_t z = random_state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
static uint32_t random_below(uint32_t limit) { return (uint32_t)(random_bits() % limit); }
static bool one_in(uint32_t count) { return random_below(count) == 0; }

/* ---- the reference ---- */

typedef struct graph {
  uint32_t count;
  int32_t priority[MAX];
  char id[MAX][16];
  bool by_id;               /* ties: by id, else by index */
  uint8_t before[MAX][MAX]; /* [a][b]: a runs before b: 0, AFTER, or AFTER | REQUIRES */
} graph;

static bool first_of(const graph *g, uint32_t a, uint32_t b) {
  if (g->priority[a] != g->priority[b]) return g->priority[a] < g->priority[b];
  return g->by_id ? strcmp(g->id[a], g->id[b]) < 0 : a < b;
}

static bool may_run(const graph *g, const bool *done, uint32_t node) {
  for (uint32_t other = 0; other < g->count; other++) {
    if (!done[other] && g->before[other][node]) return false;
  }
  return true;
}

static int reference_next(const graph *g, const bool *done) {
  int best = -1;
  for (uint32_t node = 0; node < g->count; node++) {
    if (done[node] || !may_run(g, done, node)) continue;
    if (best < 0 || first_of(g, node, (uint32_t)best)) best = (int)node;
  }
  return best;
}

/* @return how many could be ordered. */
static uint32_t reference_order(const graph *g, uint32_t *order, bool *done) {
  memset(done, 0, MAX * sizeof *done);
  for (uint32_t placed = 0; placed < g->count; placed++) {
    int next = reference_next(g, done);
    if (next < 0) return placed;
    order[placed] = (uint32_t)next;
    done[next] = true;
  }
  return g->count;
}

static uint32_t first_left(const graph *g, const bool *done, const uint32_t *before_node) {
  uint32_t best = UINT32_MAX;
  for (uint32_t node = 0; node < g->count; node++) {
    if (done[node] || (before_node && !g->before[node][*before_node])) continue;
    if (best == UINT32_MAX || first_of(g, node, best)) best = node;
  }
  return best;
}

/* The walk back is recorded step by step; the cycle is its end, read backwards and rotated to its first member. */
static uint32_t reference_cycle(const graph *g, const bool *done, uint32_t *cycle) {
  uint32_t walk[MAX + 1], steps = 0, again;
  walk[0] = first_left(g, done, NULL);
  for (;;) {
    uint32_t back = first_left(g, done, &walk[steps]);
    for (again = 0; again <= steps && walk[again] != back; again++) {}
    if (again <= steps) break;
    walk[++steps] = back;
  }
  uint32_t size = steps - again + 1, start = 0;
  for (uint32_t i = 0; i < size; i++) cycle[i] = walk[steps - i];
  for (uint32_t i = 1; i < size; i++) {
    if (first_of(g, cycle[i], cycle[start])) start = i;
  }
  uint32_t turned[MAX + 1];
  for (uint32_t i = 0; i <= size; i++) turned[i] = cycle[(start + i) % size];
  memcpy(cycle, turned, (size + 1) * sizeof *cycle);
  return size + 1;
}

/* ---- sort ---- */

static void random_graph(graph *g) {
  memset(g, 0, sizeof *g);
  g->count = 1 + random_below(MAX);
  g->by_id = one_in(2);
  uint32_t density = 1 + random_below(40);
  for (uint32_t a = 0; a < g->count; a++) {
    g->priority[a] = (int32_t)random_below(3) - 1;
    snprintf(g->id[a], sizeof g->id[a], "%c%u", (char)('a' + random_below(3)), a);
  }
  bool forward_only = one_in(2); /* half of the graphs have no cycle */
  uint32_t shuffle[MAX];
  for (uint32_t i = 0; i < g->count; i++) shuffle[i] = i;
  for (uint32_t i = g->count; i > 1; i--) {
    uint32_t other = random_below(i), swap = shuffle[i - 1];
    shuffle[i - 1] = shuffle[other];
    shuffle[other] = swap;
  }
  for (uint32_t a = 0; a < g->count; a++) {
    for (uint32_t b = 0; b < g->count; b++) {
      if (forward_only && shuffle[a] >= shuffle[b]) continue;
      if (random_below(100) < density / 2) g->before[a][b] = AFTER;
    }
  }
}

/* Edges in random order, some of them twice. */
static uint32_t edges_of(const graph *g, tp__sort_edge *edges) {
  uint32_t count = 0;
  for (uint32_t a = 0; a < g->count; a++) {
    for (uint32_t b = 0; b < g->count; b++) {
      for (uint32_t copies = g->before[a][b] ? 1 + one_in(5) : 0; copies > 0; copies--) {
        uint32_t at = random_below(count + 1);
        edges[count++] = edges[at];
        edges[at] = (tp__sort_edge){a, b};
      }
    }
  }
  return count;
}

static void assert_same(uint32_t number, const uint32_t *ours, const uint32_t *theirs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (ours[i] != theirs[i])
      fail_msg("graph %u: place %u holds node %u, the reference says %u", number, i, ours[i], theirs[i]);
  }
}

static uint32_t compare_sort(uint32_t number, const graph *g) {
  static tp__sort_edge edges[2 * MAX * MAX];
  tp__sort_node nodes[MAX];
  uint32_t order[MAX], cycle[MAX + 1], cycle_count = 0, expected[MAX + 1];
  bool done[MAX];
  const tp_allocator allocator = tp__allocator_of(NULL);
  for (uint32_t i = 0; i < g->count; i++) nodes[i] = (tp__sort_node){g->priority[i], g->by_id ? g->id[i] : NULL, i};
  uint32_t edge_count = edges_of(g, edges);
  tp_status status = tp__sort(&allocator, nodes, g->count, edges, edge_count, order, cycle, &cycle_count);
  if (reference_order(g, expected, done) == g->count) {
    assert_int_equal(status, TP_OK);
    assert_same(number, order, expected, g->count);
    return 0;
  }
  assert_int_equal(status, TP_ERR_CYCLE);
  uint32_t size = reference_cycle(g, done, expected);
  assert_int_equal(cycle_count, size);
  assert_same(number, cycle, expected, size);
  for (uint32_t i = 0; i + 1 < size; i++) assert_true(g->before[cycle[i]][cycle[i + 1]]);
  return 1;
}

TEST(order_and_cycles_agree_on_random_graphs) {
  random_state = 1;
  uint32_t cycles = 0;
  const uint32_t graphs = (uint32_t)test_rounds(SORT_GRAPHS);
  for (uint32_t number = 0; number < graphs; number++) {
    graph g;
    random_graph(&g);
    cycles += compare_sort(number, &g);
  }
  assert_true(cycles > graphs / 10 && cycles < graphs / 2); /* both kinds were really seen */
}

/* ---- whole plans ---- */

typedef struct requested { /* what a random subscription says */
  tp_edge edges[3][4];     /* after, before, needs */
  const tp_edge *after[4], *before[4], *needs[4];
  size_t after_count, before_count, needs_count;
  bool disabled, detached, sequential;
} requested;

typedef struct case_ {
  uint32_t phase;
  graph g; /* nodes are the enabled subscriptions, by registration */
  bool sees[MAX][MAX];
  char ids[MAX][16];
  requested requests[MAX];
  uint32_t count;     /* disabled ones included */
  uint32_t node[MAX]; /* of the graph; UINT32_MAX for a disabled one */
} case_;

static const tp_edge missing = EDGE_TO("nobody", true);

static void add_edge(const case_ *c, const tp_edge **list, tp_edge *edges, size_t *count, uint32_t own) {
  uint32_t target = random_below(c->count);
  if (*count == 4 || target == own || c->requests[target].detached) return;
  edges[*count] = (tp_edge)EDGE_TO(c->ids[target], c->requests[target].disabled || one_in(4));
  list[*count] = &edges[*count];
  (*count)++;
}

static void random_requests(case_ *c) {
  static const uint32_t phases[] = {GATHER, STOP, REVERSE, OBSERVE};
  memset(c, 0, sizeof *c);
  c->phase = phases[random_below(4)];
  c->count = 1 + random_below(MAX);
  uint32_t detached_in = one_in(2) ? 4 : 1000, sequential_in = one_in(2) ? 3 : 1000;
  for (uint32_t i = 0; i < c->count; i++) {
    snprintf(c->ids[i], sizeof c->ids[i], "%c%u", (char)('a' + random_below(5)), i);
    c->requests[i].disabled = one_in(8);
    c->requests[i].detached = one_in(detached_in);
    c->requests[i].sequential = one_in(sequential_in);
  }
  for (uint32_t edges = random_below(c->count + 3); edges > 0; edges--) {
    uint32_t own = random_below(c->count);
    requested *w = &c->requests[own];
    uint32_t kind = random_below(3);
    if (kind == 0) add_edge(c, w->after, w->edges[0], &w->after_count, own);
    else if (kind == 1) add_edge(c, w->before, w->edges[1], &w->before_count, own);
    else if (c->phase != OBSERVE) add_edge(c, w->needs, w->edges[2], &w->needs_count, own);
  }
  if (one_in(4) && c->requests[0].after_count < 4) c->requests[0].after[c->requests[0].after_count++] = &missing;
}

static uint32_t find(const case_ *c, const char *id) {
  for (uint32_t i = 0; i < c->count; i++) {
    if (strcmp(c->ids[i], id) == 0) return c->node[i];
  }
  return UINT32_MAX;
}

/* The rules once more, in the words of the design: which node runs before which, and which result a node may read. */
static void expect_graph(case_ *c) {
  graph *g = &c->g;
  g->by_id = c->phase == GATHER || c->phase == OBSERVE;
  for (uint32_t i = 0; i < c->count; i++) {
    c->node[i] = c->requests[i].disabled ? UINT32_MAX : g->count++;
    if (c->node[i] == UINT32_MAX) continue;
    strcpy(g->id[c->node[i]], c->ids[i]);
    g->priority[c->node[i]] = (int32_t)random_below(3) - 1;
  }
  for (uint32_t i = 0; i < c->count; i++) {
    const requested *w = &c->requests[i];
    uint32_t own = c->node[i], other;
    if (own == UINT32_MAX) continue;
    for (size_t e = 0; e < w->after_count; e++) {
      if ((other = find(c, w->after[e]->target)) == UINT32_MAX) continue;
      g->before[other][own] |= AFTER;
      c->sees[own][other] = true;
    }
    for (size_t e = 0; e < w->needs_count; e++) {
      if ((other = find(c, w->needs[e]->target)) == UINT32_MAX) continue;
      g->before[other][own] |= AFTER | REQUIRES;
      c->sees[own][other] = true;
    }
    for (size_t e = 0; e < w->before_count; e++) {
      if ((other = find(c, w->before[e]->target)) != UINT32_MAX) g->before[own][other] |= AFTER;
    }
  }
  uint32_t previous = UINT32_MAX;
  for (uint32_t step = 0; step < c->count; step++) {
    uint32_t i = c->phase == REVERSE ? c->count - 1 - step : step;
    if (c->node[i] == UINT32_MAX || !c->requests[i].sequential) continue;
    if (previous != UINT32_MAX) g->before[previous][c->node[i]] |= AFTER;
    if (!c->requests[i].detached) previous = c->node[i];
  }
}

static void register_case(world *w, const case_ *c, tp_edit *edit) {
  for (uint32_t i = 0; i < c->count; i++) {
    const requested *from = &c->requests[i];
    tp_subscription sub = subscription_of(c->ids[i], c->phase);
    sub.priority = from->disabled ? 0 : c->g.priority[c->node[i]];
    sub.failure = TP_FAILURE_BEST_EFFORT;
    sub.execution = from->detached ? TP_EXECUTION_FIRE_AND_RECORD : TP_EXECUTION_BLOCKING;
    sub.sequential = from->sequential ? TP_SEQUENTIAL_ON : TP_SEQUENTIAL_DEFAULT;
    sub.disabled = from->disabled;
    sub.after = from->after;
    sub.after_count = from->after_count;
    sub.before = from->before;
    sub.before_count = from->before_count;
    sub.needs = from->needs;
    sub.needs_count = from->needs_count;
    add(edit, sub);
  }
  (void)w;
}

static void turn_graph(graph *g) {
  graph turned = *g;
  for (uint32_t a = 0; a < MAX; a++) {
    for (uint32_t b = 0; b < MAX; b++) turned.before[a][b] = g->before[b][a];
  }
  *g = turned;
}

/* In running order. A reverse phase is the mirror image of a chain with its edges turned. */
static bool expect_order(case_ *c, uint32_t *order, uint32_t *cycle, uint32_t *cycle_count) {
  uint32_t straight[MAX];
  bool done[MAX], reverse = c->phase == REVERSE;
  if (reverse) turn_graph(&c->g);
  bool whole = reference_order(&c->g, straight, done) == c->g.count;
  if (!whole) {
    uint32_t found[MAX + 1];
    *cycle_count = reference_cycle(&c->g, done, found);
    for (uint32_t i = 0; i < *cycle_count; i++) cycle[i] = found[reverse ? *cycle_count - 1 - i : i];
  }
  for (uint32_t i = 0; whole && i < c->g.count; i++) order[i] = straight[reverse ? c->g.count - 1 - i : i];
  if (reverse) turn_graph(&c->g);
  return whole;
}

static void compare_cycle(const case_ *c, const uint32_t *cycle, uint32_t cycle_count, const tp_fault *fault) {
  char path[512] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < cycle_count; i++) {
    used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", i ? " -> " : "", c->g.id[cycle[i]]);
  }
  const char *said = strstr(fault->message, ": ");
  assert_non_null(said);
  assert_string_equal(said + 2, path);
}

static void compare_plan(uint32_t number, case_ *c, const uint32_t *order, const tp__plan *plan) {
  graph *g = &c->g;
  uint32_t level[MAX] = {0}, edge_count = 0, root_count = 0;
  assert_int_equal(plan->node_count, g->count);
  bool chain = plan->row->mode == TP_MODE_CHAIN;
  for (uint32_t i = 0; chain && i + 1 < g->count; i++) g->before[order[i]][order[i + 1]] |= AFTER;
  for (uint32_t to = 0; to < g->count; to++) {
    const tp__node *node = &plan->nodes[to];
    if (strcmp(node->sub->desc.id, g->id[order[to]]) != 0) {
      fail_msg("graph %u: place %u holds %s, the reference says %s", number, to, node->sub->desc.id, g->id[order[to]]);
    }
    uint32_t indegree = 0, seen = 0, next = 0;
    for (uint32_t from = 0; from < g->count; from++) {
      if (g->before[order[from]][order[to]]) {
        indegree++;
        if (level[to] < level[from] + 1) level[to] = level[from] + 1;
      }
      if (c->sees[order[to]][order[from]]) assert_int_equal(plan->deps[node->first_dep + seen++], from);
      if (g->before[order[to]][order[from]]) {
        uint32_t requires = g->before[order[to]][order[from]] & REQUIRES ? 1 : 0;
        assert_int_equal(plan->edges[node->first_edge + next++], from << 1 | requires);
      }
    }
    assert_int_equal(plan->indegree[to], indegree);
    assert_int_equal(node->dep_count, seen);
    assert_int_equal(node->edge_count, next);
    assert_int_equal(node->level, level[to]);
    if (indegree == 0) assert_int_equal(plan->roots[root_count++], to);
    edge_count += next;
  }
  assert_int_equal(plan->edge_count, edge_count);
  assert_int_equal(plan->root_count, root_count);
}

static bool compare_case(uint32_t number, case_ *c) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  uint32_t order[MAX], cycle[MAX + 1], cycle_count = 0;
  register_case(w, c, edit);
  bool whole = expect_order(c, order, cycle, &cycle_count);
  tp_status status = tp_edit_commit(edit, NULL, &w->fault);
  if (whole && status != TP_OK) fail_msg("graph %u: %s", number, w->fault.message);
  if (whole) {
    tp__snapshot *snapshot = tp__registry_pin(w->registry);
    if (c->g.count > 0) compare_plan(number, c, order, snapshot->plans[c->phase]);
    else assert_null(snapshot->plans[c->phase]);
    tp__snapshot_unpin(snapshot);
  } else {
    assert_int_equal(status, TP_ERR_CYCLE);
    compare_cycle(c, cycle, cycle_count, &w->fault);
    tp_edit_discard(edit);
  }
  world_close(w);
  return whole;
}

TEST(plans_agree_on_random_registrations) {
  random_state = 2;
  uint32_t whole = 0;
  const uint32_t graphs = (uint32_t)test_rounds(PLAN_GRAPHS);
  for (uint32_t number = 0; number < graphs; number++) {
    case_ c;
    random_requests(&c);
    expect_graph(&c);
    whole += compare_case(number, &c);
  }
  assert_true(whole > graphs / 2 && whole < graphs - graphs / 20);
}
