/* SPDX-License-Identifier: Apache-2.0
 *
 * compile.c: makes plans from the member lists that a commit touched. For each list it validates the members, resolves
 * their edges, sorts them, and lays everything out in flat arrays, indexed by plan order. Temporary data is in a
 * scratch arena; the plan is in the member list's arena. All steps take n log n + m. */
#include <stdio.h>

#include "runtime/plan/registry.h"
#include "runtime/store/record_pack.h"

enum { SCRATCH_BYTES = 4096 };

static tp_status no_plan_memory(tp_fault *fault) {
  return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the plans");
}

/* ---- members ---- */

static tp_status count_members(const tp__drafts *drafts, tp__draft *draft, tp_fault *fault) {
  for (size_t i = 0; i < draft->members->item_count; i++) {
    const tp__set_item *item = &draft->members->items[i];
    if (item->disabled || ++draft->node_count <= TP__PHASE_NODES_MAX) continue;
    return tp__subscription_refuse(fault, drafts->registry, item->sub, TP_ERR_TOO_LARGE,
                                   "the phase has %d subscriptions, and one more is not allowed", TP__PHASE_NODES_MAX);
  }
  return TP_OK;
}

static bool alloc_draft(const tp__drafts *drafts, tp__draft *draft) {
  draft->places = tp__arena_alloc(drafts->scratch, draft->members->item_count * sizeof *draft->places);
  draft->nodes = tp__arena_alloc(drafts->scratch, draft->node_count * sizeof *draft->nodes);
  draft->node_count = 0;
  return draft->places && draft->nodes;
}

/* @return the first item that is refused, or NULL. */
static const tp__set_item *read_members(const tp__drafts *drafts, tp__draft *draft) {
  for (size_t i = 0; i < draft->members->item_count; i++) {
    const tp__set_item *item = &draft->members->items[i];
    tp__node aside;
    tp__node *node = item->disabled ? &aside : &draft->nodes[draft->node_count];
    if (tp__validate(drafts->registry, drafts->set, item->sub, item->disabled, node, NULL) != TP_OK) return item;
    node->subscription_name = item->sub->name;
    node->handler_name = item->sub->handler_name;
    node->owner_name = item->sub->owner_name;
    node->subscription_bytes = (uint8_t)strnlen(node->subscription_name, TP_ID_BYTES_MAX - 1);
    node->handler_bytes = (uint8_t)strnlen(node->handler_name, TP_ID_BYTES_MAX - 1);
    draft->places[i] = item->disabled ? TP__NO_PLACE : draft->node_count++;
  }
  return NULL;
}

/* If several subscriptions are refused, the fault names the one that was registered first, whatever its phase. */
static tp_status read_all_drafts(tp__drafts *drafts, tp_fault *fault) {
  const tp__set_item *first = NULL;
  for (uint32_t i = 0; i < drafts->count; i++) {
    const tp__set_item *refused = read_members(drafts, &drafts->items[i]);
    if (refused && (!first || refused->sub->registration < first->sub->registration)) first = refused;
  }
  tp__node aside;
  return first ? tp__validate(drafts->registry, drafts->set, first->sub, first->disabled, &aside, fault) : TP_OK;
}

/* ---- order ---- */

static void turn_edges(tp__draft *draft) {
  for (uint32_t i = 0; i < draft->edge_count; i++) {
    tp__sort_edge edge = draft->edges[i];
    draft->edges[i] = (tp__sort_edge){.from = edge.to, .to = edge.from};
  }
}

static void turn_numbers(uint32_t *numbers, uint32_t count) {
  for (uint32_t i = 0; i < count / 2; i++) {
    uint32_t number = numbers[i];
    numbers[i] = numbers[count - 1 - i];
    numbers[count - 1 - i] = number;
  }
}

/* Writes "a -> b -> c -> a" into the fault. If the path is too long for it, its middle is left out. */
static tp_status refuse_cycle(const tp__draft *draft, const uint32_t *cycle, uint32_t count, tp_fault *fault) {
  char path[TP_FAULT_MESSAGE_SIZE] = "", left_out[32] = "";
  const char *first = draft->nodes[cycle[0]].sub->desc.id;
  size_t around = strlen("the edges of  form a cycle: ") + strlen(draft->row->name) + sizeof left_out + strlen(first);
  size_t size = 0, capacity = around < sizeof path ? sizeof path - around : 1; /* of the path, with its NUL */
  uint32_t shown = 0;
  for (; shown + 1 < count; shown++) {
    const char *id = draft->nodes[cycle[shown]].sub->desc.id;
    if (size + strlen(id) + sizeof " -> " > capacity) break;
    size += (size_t)snprintf(path + size, sizeof path - size, "%s -> ", id);
  }
  if (shown + 1 < count) snprintf(left_out, sizeof left_out, "(%u more) -> ", count - 1 - shown);
  tp__fail(fault, TP_ERR_CYCLE, first, "the edges of %s form a cycle: %s%s%s", draft->row->name, path, left_out, first);
  if (fault) fault->phase = draft->phase;
  return TP_ERR_CYCLE;
}

static void sort_keys(const tp__draft *draft, tp__sort_node *ret_keys) {
  for (uint32_t i = 0; i < draft->node_count; i++) {
    const tp__subscription *sub = draft->nodes[i].sub;
    ret_keys[i] = (tp__sort_node){.priority = sub->desc.priority, .tie_number = sub->registration};
    if (draft->row->mode != TP_MODE_CHAIN) ret_keys[i].tie_id = sub->desc.id;
  }
}

/* A reverse row is sorted with its edges turned around, and its order is then reversed. So edges keep their meaning,
 * and everything else runs backwards. */
static tp_status order_nodes(const tp__drafts *drafts, tp__draft *draft, uint32_t *ret_order, tp_fault *fault) {
  uint32_t count = draft->node_count, cycle_count = 0;
  tp__sort_node *keys = tp__arena_alloc(drafts->scratch, count * sizeof *keys);
  uint32_t *cycle = tp__arena_alloc(drafts->scratch, (count + 1) * sizeof *cycle);
  if (!keys || !cycle) return no_plan_memory(fault);
  sort_keys(draft, keys);
  if (draft->row->reverse) turn_edges(draft);
  tp_status status = tp__sort(drafts->scratch->allocator, keys, count, draft->edges, draft->edge_count, ret_order,
                              cycle, &cycle_count);
  if (draft->row->reverse) {
    turn_edges(draft);
    turn_numbers(cycle, cycle_count);
    if (status == TP_OK) turn_numbers(ret_order, count);
  }
  if (status == TP_ERR_CYCLE) return refuse_cycle(draft, cycle, cycle_count, fault);
  return status == TP_OK ? TP_OK : no_plan_memory(fault);
}

/* ---- layout ---- */

typedef struct link {
  uint32_t from, to; /* places in the plan */
  uint32_t flags;
} link;
typedef struct links {
  link *items, *target; /* of the same capacity: each pass sorts from one into the other */
  uint32_t count;
  uint32_t *starts; /* node_count + 1 */
} links;

/* Collects the draft's edges by place; for a chain also the edges between neighbours. */
static tp_status gather_links(const tp__drafts *drafts, const tp__draft *draft, const uint32_t *order,
                              links *ret_links) {
  uint32_t count = draft->node_count;
  size_t link_count = (size_t)draft->edge_count + count;
  uint32_t *place = tp__arena_alloc(drafts->scratch, count * sizeof *place);
  links all = {.items = tp__arena_alloc(drafts->scratch, link_count * sizeof *all.items),
               .target = tp__arena_alloc(drafts->scratch, link_count * sizeof *all.target),
               .starts = tp__arena_alloc(drafts->scratch, (count + 1) * sizeof *all.starts)};
  if (!place || !all.items || !all.target || !all.starts) return TP_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < count; i++) place[order[i]] = i;
  for (uint32_t i = 0; i < draft->edge_count; i++) {
    const tp__sort_edge *edge = &draft->edges[i];
    all.items[all.count++] = (link){.from = place[edge->from], .to = place[edge->to], .flags = draft->edge_flags[i]};
  }
  for (uint32_t i = 0; draft->row->mode == TP_MODE_CHAIN && i + 1 < count; i++) {
    all.items[all.count++] = (link){.from = i, .to = i + 1};
  }
  *ret_links = all;
  return TP_OK;
}

/* One stable pass of a bucket sort, by `from` or by `to`. */
static void sort_links(links *all, uint32_t node_count, bool by_to) {
  memset(all->starts, 0, ((size_t)node_count + 1) * sizeof *all->starts);
  for (uint32_t i = 0; i < all->count; i++) all->starts[(by_to ? all->items[i].to : all->items[i].from) + 1]++;
  for (uint32_t i = 0; i < node_count; i++) all->starts[i + 1] += all->starts[i];
  for (uint32_t i = 0; i < all->count; i++) {
    uint32_t key = by_to ? all->items[i].to : all->items[i].from;
    all->target[all->starts[key]++] = all->items[i];
  }
  link *sorted = all->target;
  all->target = all->items;
  all->items = sorted;
}

/* Leaves one link for each pair, with the flags of all links of the pair. */
static void collapse_links(links *all) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    link *last = left > 0 ? &all->items[left - 1] : NULL;
    if (last && last->from == all->items[i].from && last->to == all->items[i].to) {
      last->flags |= all->items[i].flags;
    } else {
      all->items[left++] = all->items[i];
    }
  }
  TP__ASSERT(left <= all->count);
  all->count = left;
}

static void lay_out_edges(tp__plan *plan, const links *all) {
  for (uint32_t i = 0; i < plan->node_count; i++) plan->indegree[i] = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    const link *edge = &all->items[i];
    assert(edge->from < edge->to);
    tp__node *from = &plan->nodes[edge->from], *to = &plan->nodes[edge->to];
    if (from->edge_count++ == 0) from->first_edge = i;
    plan->edges[i] = edge->to << 1 | (edge->flags & TP__EDGE_REQUIRES ? 1 : 0);
    plan->indegree[edge->to]++;
    /* the level of `from` is final, because no later edge leads to it */
    if (to->level < from->level + 1) to->level = from->level + 1;
  }
  plan->edge_count = all->count;
}

static void lay_out_deps(tp__plan *plan, const links *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    if (!(all->items[i].flags & TP__EDGE_DEP)) continue;
    tp__node *node = &plan->nodes[all->items[i].to];
    if (node->dep_count++ == 0) node->first_dep = plan->dep_count;
    plan->deps[plan->dep_count++] = all->items[i].from;
  }
}

static void sum_up(tp__plan *plan) {
  plan->all_inline = true;
  for (uint32_t i = 0; i < plan->node_count; i++) {
    const tp__node *node = &plan->nodes[i];
    if (plan->indegree[i] == 0) plan->roots[plan->root_count++] = i;
    if (plan->levels < node->level + 1) plan->levels = node->level + 1;
    if (!tp__node_awaited(node)) plan->detached_count++;
    if (tp__node_awaited(node) && !(node->flags & TP__NODE_INLINE)) plan->all_inline = false;
    if (plan->phase < TP_PHASE_HOST && tp__inbox_is_of_session(node->handler->desc.inbox) &&
        !(node->flags & TP__NODE_MATCH))
      plan->needs_inbox = node->subscription_name;
  }
}

/* ---- the fields that the loop of inline nodes reads ---- */

static bool is_on_fast_path(const tp__node *node) {
  return (node->flags & (TP__NODE_INLINE | TP__NODE_DETACHED | TP__NODE_MATCH | TP__NODE_DEADLINE)) == TP__NODE_INLINE;
}

static void condense(tp__plan *plan, const tp__registry *registry) {
  uint32_t parallel_count = 0;
  plan->on_fast_path = true;
  plan->timeout_ns_min = TP__NEVER;
  plan->run_names = &registry->run_names;
  for (uint32_t i = 0; i < plan->node_count; i++) {
    const tp__node *node = &plan->nodes[i];
    plan->inline_nodes[i] =
        (tp__inline_node){.run = node->run,
                          .ctx = node->ctx,
                          .first_edge = node->first_edge,
                          .edge_count = (uint16_t)node->edge_count,
                          .run_name = node->sub->run_name,
                          .flags = tp__row_flags(TP_STATE_SUCCEEDED, 1, node->execution, node->failure),
                          .on_fast_path = is_on_fast_path(node),
                          .leaves = !(node->flags & TP__NODE_INLINE) || !tp__node_awaited(node)};
    if (!plan->inline_nodes[i].on_fast_path) plan->on_fast_path = false;
    if (node->flags & TP__NODE_PARALLEL) parallel_count++;
    if (node->required_tail_ns > plan->required_tail_ns_max) plan->required_tail_ns_max = node->required_tail_ns;
    if (node->timeout_ns > 0 && node->timeout_ns < plan->timeout_ns_min) plan->timeout_ns_min = node->timeout_ns;
  }
  plan->has_parallel = parallel_count > 1;
}

/* Of tp__plan.start. */
static uint32_t start_bytes(uint32_t count) {
  size_t bytes = tp__ready_words(count) * sizeof(uint64_t) + count * (2 * sizeof(uint16_t) + 1);
  return (uint32_t)((bytes + 7) & ~(size_t)7);
}

/* Of the roots that leave the owner's thread, the first in plan order leaves first. */
static void set_start(tp__plan *plan) {
  uint64_t *ready = plan->start;
  uint16_t *counters = (uint16_t *)(ready + tp__ready_words(plan->node_count)), *leaving = counters + plan->node_count;
  memset(plan->start, 0, plan->start_bytes);
  memcpy(counters, plan->indegree, plan->node_count * sizeof *counters);
  plan->no_marks = (uint8_t *)(leaving + plan->node_count);
  for (uint32_t i = plan->root_count; i-- > 0;) {
    uint32_t root = plan->roots[i];
    if (plan->inline_nodes[root].leaves) {
      leaving[plan->leaving_count++] = (uint16_t)root;
    } else {
      ready[root / 64] |= UINT64_C(1) << root % 64;
      plan->ready_count++;
    }
  }
}

static tp__plan *plan_new(const tp__draft *draft, const uint32_t *order, uint32_t edge_count, tp__arena *arena) {
  uint32_t count = draft->node_count;
  tp__plan *plan = tp__arena_zero(arena, sizeof *plan);
  if (!plan) return NULL;
  plan->row = draft->row;
  plan->phase = draft->phase;
  plan->node_count = count;
  plan->nodes = tp__arena_alloc(arena, count * sizeof *plan->nodes);
  plan->start_bytes = start_bytes(count);
  plan->start = tp__arena_alloc(arena, plan->start_bytes);
  plan->inline_nodes = tp__arena_alloc(arena, count * sizeof *plan->inline_nodes);
  plan->edges = tp__arena_alloc(arena, edge_count * sizeof *plan->edges);
  plan->deps = tp__arena_alloc(arena, edge_count * sizeof *plan->deps);
  plan->indegree = tp__arena_alloc(arena, count * sizeof *plan->indegree);
  plan->roots = tp__arena_alloc(arena, count * sizeof *plan->roots);
  if (!plan->nodes || !plan->start || !plan->inline_nodes) return NULL;
  if (!plan->edges || !plan->deps || !plan->indegree || !plan->roots) return NULL;
  for (uint32_t i = 0; i < count; i++) plan->nodes[i] = draft->nodes[order[i]];
  return plan;
}

static tp_status lay_out(const tp__drafts *drafts, const tp__draft *draft, const uint32_t *order, tp__arena *arena,
                         tp__plan **ret_plan) {
  links all;
  TP__TRY(gather_links(drafts, draft, order, &all));
  sort_links(&all, draft->node_count, true);
  sort_links(&all, draft->node_count, false);
  collapse_links(&all);
  tp__plan *plan = plan_new(draft, order, all.count, arena);
  if (!plan) return TP_ERR_NO_MEMORY;
  lay_out_edges(plan, &all);
  sort_links(&all, draft->node_count, true);
  lay_out_deps(plan, &all);
  sum_up(plan);
  *ret_plan = plan;
  return TP_OK;
}

/* ---- what holds of a plan ---- */

#ifdef TP_CHECKS
static void edges_check(const tp__plan *plan, uint32_t index, uint32_t *edges_seen) {
  const tp__node *node = &plan->nodes[index];
  if (node->edge_count == 0) return;
  /* The edges of a node are stored together, after those of the nodes before it. */
  assert(node->first_edge == *edges_seen && node->first_edge + node->edge_count <= plan->edge_count);
  uint32_t before = index;
  for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++) {
    uint32_t target = plan->edges[e] >> 1;
    /* They lead to rising, higher indexes, each pair once, and to a higher level. */
    assert(target > before && target < plan->node_count && plan->nodes[target].level > node->level);
    before = target;
  }
  *edges_seen += node->edge_count;
}

static void deps_check(const tp__plan *plan, uint32_t index, uint32_t *deps_seen) {
  const tp__node *node = &plan->nodes[index];
  if (node->dep_count == 0) return;
  /* Likewise its dependencies are stored together. They are nodes before it, rising. */
  assert(node->first_dep == *deps_seen && node->first_dep + node->dep_count <= plan->dep_count);
  for (uint32_t d = node->first_dep; d < node->first_dep + node->dep_count; d++)
    assert(plan->deps[d] < index && (d == node->first_dep || plan->deps[d] > plan->deps[d - 1]));
  *deps_seen += node->dep_count;
}

static void node_check(const tp__plan *plan, uint32_t index) {
  const tp__node *node = &plan->nodes[index];
  const tp__inline_node *copy = &plan->inline_nodes[index];
  /* A node belongs to a subscription of this phase, with a handler, and all of its policies are resolved. */
  assert(node->sub && node->handler && node->sub->desc.phase == plan->phase);
  assert(node->execution != TP_EXECUTION_DEFAULT && node->failure != TP_FAILURE_DEFAULT);
  /* The copy for the loop of inline nodes agrees with the node. */
  assert(copy->run == node->run && copy->ctx == node->ctx && copy->edge_count == node->edge_count);
  assert(copy->leaves == (!(node->flags & TP__NODE_INLINE) || !tp__node_awaited(node)));
  assert(!copy->on_fast_path || !copy->leaves);
  /* The plan's bounds include those of its nodes. */
  assert(node->level < plan->levels && node->required_tail_ns <= plan->required_tail_ns_max);
  assert(node->timeout_ns <= 0 || node->timeout_ns >= plan->timeout_ns_min);
}

/* The initial state of an entry agrees with the arrays. */
static void start_check(const tp__plan *plan) {
  const uint64_t *ready = plan->start;
  const uint16_t *counters = (const uint16_t *)(ready + tp__ready_words(plan->node_count));
  uint32_t roots = 0, bits = 0;
  for (uint32_t i = 0; i < plan->node_count; i++) {
    /* The counters are the indegrees, and no node is marked. */
    assert(counters[i] == plan->indegree[i] && plan->no_marks[i] == 0);
    bool is_ready = ready[i / 64] >> i % 64 & 1;
    /* Each root that does not leave the owner's thread is ready. */
    assert(is_ready == (plan->indegree[i] == 0 && !plan->inline_nodes[i].leaves));
    bits += is_ready;
    if (plan->indegree[i] > 0) continue;
    /* The roots are the nodes without incoming edges, rising. */
    assert(roots < plan->root_count && plan->roots[roots] == i);
    roots++;
  }
  assert(roots == plan->root_count && bits == plan->ready_count);
  assert(plan->ready_count + plan->leaving_count == plan->root_count);
}

void tp__plan_check(const tp__plan *plan) {
  uint32_t edges = 0, deps = 0;
  uint64_t into = 0;
  /* A plan has nodes, and at least one of them waits for none. */
  assert(plan->row && plan->node_count > 0 && plan->node_count <= TP__PHASE_NODES_MAX && plan->root_count > 0);
  for (uint32_t i = 0; i < plan->node_count; i++) {
    edges_check(plan, i, &edges);
    deps_check(plan, i, &deps);
    node_check(plan, i);
    into += plan->indegree[i];
  }
  /* Every edge begins and ends at a node of the plan. */
  assert(edges == plan->edge_count && into == plan->edge_count && deps == plan->dep_count);
  start_check(plan);
  /* The required time is part of the worst case, and the budget is enough for it. */
  assert(plan->required_ns <= plan->worst_ns && plan->budget_ns > 0 && plan->budget_ns <= TP__NEVER / 4);
  /* Only inline, awaited nodes are on the fast path. */
  assert(plan->detached_count <= plan->node_count);
  assert(!plan->on_fast_path || (plan->all_inline && plan->detached_count == 0));
}
#endif

/* ---- */

static tp_status compile_phase(const tp__drafts *drafts, tp__draft *draft, tp_fault *fault) {
  uint32_t *order = tp__arena_alloc(drafts->scratch, draft->node_count * sizeof *order);
  if (!order) return no_plan_memory(fault);
  TP__TRY(tp__draft_edges(drafts, draft, fault));
  TP__TRY(order_nodes(drafts, draft, order, fault));
  tp__plan *plan;
  if (lay_out(drafts, draft, order, &draft->members->arena, &plan) != TP_OK) return no_plan_memory(fault);
  plan->host_budget_ns = (int64_t)drafts->set->budgets_ms[draft->phase] * TP__NS_PER_MS;
  plan->default_limit_ns = (int64_t)tp__set_limit_ms(drafts->set, plan->row, draft->phase) * TP__NS_PER_MS;
  plan->limit_set = drafts->set->limits_ms[draft->phase] > 0;
  if (tp__plan_times(plan, drafts->scratch) != TP_OK) return no_plan_memory(fault);
  condense(plan, drafts->registry);
  set_start(plan);
  plan->hash = tp__plan_hash(plan);
  TP__CHECK(tp__plan_check(plan));
  draft->members->plan = plan;
  return TP_OK;
}

static bool gather_drafts(tp__drafts *drafts) {
  uint32_t count = 0;
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    count += drafts->set->members_of_phase[phase] && !drafts->set->members_of_phase[phase]->compiled;
  }
  drafts->items = tp__arena_zero(drafts->scratch, count * sizeof *drafts->items);
  for (uint32_t phase = 0; drafts->items && phase < TP_PHASE_LIMIT; phase++) {
    tp__members *members = drafts->set->members_of_phase[phase];
    if (!members || members->compiled) continue;
    tp__draft draft = {.phase = phase, .row = drafts->registry->phases[phase], .members = members};
    drafts->items[drafts->count++] = draft;
  }
  return drafts->items;
}

static tp_status compile(tp__drafts *drafts, tp_fault *fault) {
  if (!gather_drafts(drafts)) return no_plan_memory(fault);
  for (uint32_t i = 0; i < drafts->count; i++) TP__TRY(count_members(drafts, &drafts->items[i], fault));
  for (uint32_t i = 0; i < drafts->count; i++) {
    if (!alloc_draft(drafts, &drafts->items[i])) return no_plan_memory(fault);
  }
  TP__TRY(read_all_drafts(drafts, fault));
  for (uint32_t i = 0; i < drafts->count; i++) {
    tp__draft *draft = &drafts->items[i];
    if (draft->node_count > 0) TP__TRY(compile_phase(drafts, draft, fault));
    draft->members->compiled = true;
  }
  return TP_OK;
}

tp_status tp__compile(tp__snapshot *snapshot, tp_fault *fault) {
  char first_bytes[SCRATCH_BYTES]; /* enough for a small change, so that such a change allocates nothing */
  tp__arena scratch;
  tp__arena_init(&scratch, &snapshot->registry->allocator, first_bytes, sizeof first_bytes, 0);
  const tp__set *set = tp__snapshot_set(snapshot);
  tp__drafts drafts = {.registry = snapshot->registry, .set = set, .scratch = &scratch};
  tp_status status = compile(&drafts, fault);
  tp__arena_fini(&scratch);
  if (status != TP_OK) return status;
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    if (set->members_of_phase[phase]) snapshot->plans[phase] = set->members_of_phase[phase]->plan;
    if (snapshot->plans[phase] && !snapshot->needs_inbox) snapshot->needs_inbox = snapshot->plans[phase]->needs_inbox;
  }
  snapshot->hash = tp__snapshot_hash(snapshot);
  TP__CHECK(tp__snapshot_check(snapshot));
  return TP_OK;
}
