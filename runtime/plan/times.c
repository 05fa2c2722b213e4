/* SPDX-License-Identifier: Apache-2.0
 *
 * times.c: computes the times that follow from the limits. The length of a path is the sum of its nodes' weights. Every
 * edge leads to a higher index, so one pass from the end finds the longest path after each node. There are four
 * weightings. Awaited nodes give the worst case. Required nodes give the required time. Required nodes and nodes that
 * extend the budget give the least budget that makes sense. Required nodes, with inline handlers at their real
 * duration, tell how early the other nodes must end. */
#include "runtime/plan/registry.h"

#define INLINE_NS (INT64_C(10) * TP__NS_PER_MS)
#define BUDGET_CAP_NS (INT64_C(30000) * TP__NS_PER_MS)
#define BUDGET_MAX_NS (TP__NEVER / 4)
enum { ENTRIES_IN_LINE = 64 };

static int64_t sum(int64_t a, int64_t b) { return a > TP__NEVER - b ? TP__NEVER : a + b; }

static int64_t product(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? TP__NEVER : result;
}

/* All pauses between the attempts. From some attempt on the pauses stay equal. */
static int64_t pauses_ns(const tp_subscription *desc) {
  int64_t total = 0;
  for (uint32_t attempt = 1; attempt < desc->attempts; attempt++) {
    int64_t pause = tp__retry_pause_ns(desc, attempt);
    if (pause == tp__retry_pause_ns(desc, UINT32_MAX)) return sum(total, product(pause, desc->attempts - attempt));
    total = sum(total, pause);
  }
  return total;
}

/* How long the phase may wait for the node when each attempt takes attempt_ns. A deadline includes the retries. */
static int64_t node_ns(const tp__node *node, int64_t attempt_ns) {
  if (!tp__node_awaited(node)) return 0;
  const tp_subscription *desc = &node->sub->desc;
  int64_t all = desc->attempts > 1 ? sum(product(attempt_ns, desc->attempts), pauses_ns(desc)) : attempt_ns;
  return (node->flags & TP__NODE_DEADLINE) && all > node->timeout_ns ? node->timeout_ns : all;
}

static int64_t worst_weight(const tp__node *node) { return node_ns(node, node->timeout_ns); }

static int64_t required_weight(const tp__node *node) {
  return node->flags & TP__NODE_REQUIRED ? worst_weight(node) : 0;
}

/* The weight of a node for the lower bound of the default budget. */
static int64_t least_weight(const tp__node *node) {
  return node->flags & (TP__NODE_REQUIRED | TP__NODE_EXTENDS) ? worst_weight(node) : 0;
}

static int64_t tail_weight(const tp__node *node) {
  if (!(node->flags & TP__NODE_REQUIRED)) return 0;
  bool is_inline = (node->flags & TP__NODE_INLINE) && node->timeout_ns > INLINE_NS;
  return node_ns(node, is_inline ? INLINE_NS : node->timeout_ns);
}

/* @param ret_behind  for each node, the length of the longest path after it, without its own weight.
 * @return the length of the longest of all paths, with the weights of all its nodes. */
static int64_t longest(const tp__plan *plan, int64_t (*weight)(const tp__node *node), int64_t *ret_behind) {
  int64_t all = 0;
  for (uint32_t i = plan->node_count; i-- > 0;) {
    const tp__node *node = &plan->nodes[i];
    int64_t behind = 0;
    for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++) {
      uint32_t next = plan->edges[e] >> 1;
      int64_t path = sum(weight(&plan->nodes[next]), ret_behind[next]);
      if (path > behind) behind = path;
    }
    ret_behind[i] = behind;
    if (sum(weight(node), behind) > all) all = sum(weight(node), behind);
  }
  return all;
}

/* Marks the longest path; of several, the first in plan order. */
static void mark_critical(tp__plan *plan, const int64_t *behind) {
  int64_t left = plan->worst_ns;
  uint32_t i = 0;
  if (left == 0) return;
  while (sum(worst_weight(&plan->nodes[i]), behind[i]) != left) i++;
  for (;;) {
    tp__node *node = &plan->nodes[i];
    node->critical = true;
    left = behind[i];
    if (left == 0) return;
    uint32_t e = node->first_edge;
    for (;; e++) {
      assert(e < node->first_edge + node->edge_count);
      i = plan->edges[e] >> 1;
      if (sum(worst_weight(&plan->nodes[i]), behind[i]) == left) break;
    }
  }
}

int64_t tp__node_line_ns(const tp__node *node, int64_t run_ns) {
  uint32_t runs = node->sub->desc.max_concurrent;
  return runs == 0 || runs >= ENTRIES_IN_LINE ? 0 : product(run_ns, ENTRIES_IN_LINE / runs);
}

static int64_t longest_line(const tp__plan *plan) {
  int64_t most = 0;
  for (uint32_t i = 0; i < plan->node_count; i++) {
    int64_t line = tp__node_line_ns(&plan->nodes[i], worst_weight(&plan->nodes[i]));
    if (line > most) most = line;
  }
  return most;
}

/* The result is far from TP__NEVER, so that an entry may add it to the time without a check. A phase that observes has
 * the time of its longest path, or of its longest line of waiting runs: nothing in it is required, and each observer
 * has its own limit. */
static int64_t budget_of(const tp__plan *plan, int64_t least_ns) {
  if (plan->host_budget_ns > 0) return plan->host_budget_ns;
  if (plan->detached_count == plan->node_count) return plan->default_limit_ns;
  bool observes = plan->row->mode == TP_MODE_OBSERVE;
  int64_t line = observes ? longest_line(plan) : 0;
  int64_t budget = line > plan->worst_ns ? line : plan->worst_ns;
  if (!observes && budget > BUDGET_CAP_NS) budget = BUDGET_CAP_NS;
  if (budget < least_ns) budget = least_ns;
  return budget < BUDGET_MAX_NS ? budget : BUDGET_MAX_NS;
}

tp_status tp__plan_times(tp__plan *plan, tp__arena *scratch) {
  int64_t *behind = tp__arena_alloc(scratch, plan->node_count * sizeof *behind);
  if (!behind) return TP_ERR_NO_MEMORY;
  plan->required_ns = longest(plan, required_weight, behind);
  int64_t least_ns = longest(plan, least_weight, behind);
  longest(plan, tail_weight, behind);
  for (uint32_t i = 0; i < plan->node_count; i++) plan->nodes[i].required_tail_ns = behind[i];
  plan->worst_ns = longest(plan, worst_weight, behind);
  mark_critical(plan, behind);
  plan->budget_ns = budget_of(plan, least_ns);
  return TP_OK;
}
