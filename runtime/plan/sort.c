/* SPDX-License-Identifier: Apache-2.0
 *
 * sort.c: computes the one order of a graph, with Kahn's algorithm. A node without an unsorted predecessor is ready. Of
 * the ready nodes, the first in the total order (priority, tie, index) is next. So the order depends only on the graph,
 * never on the order in which nodes or edges were given. n log n + m. */
#include "runtime/plan/plan.h"

typedef struct sort {
  const tp__sort_node *nodes;
  const tp__sort_edge *edges;
  uint32_t node_count, edge_count;
  /* the bytes in which ids begin to differ, so that few ids are compared as strings; NULL: some have no id */
  uint64_t *heads;
  uint32_t *first;    /* node_count + 1: index of each node's first successor */
  uint32_t *targets;  /* edge_count */
  uint32_t *indegree; /* predecessors that are not sorted yet */
  uint32_t *heap;     /* node_count */
  uint32_t heap_count;
} sort;

static bool comes_before(const sort *s, uint32_t a, uint32_t b) {
  const tp__sort_node *x = &s->nodes[a], *y = &s->nodes[b];
  if (x->priority != y->priority) return x->priority < y->priority;
  if (s->heads && s->heads[a] != s->heads[b]) return s->heads[a] < s->heads[b];
  if (x->tie_id && y->tie_id) {
    int order = strcmp(x->tie_id, y->tie_id); /* bytewise: strcmp compares as unsigned char */
    if (order != 0) return order < 0;
  } else if (x->tie_number != y->tie_number) {
    return x->tie_number < y->tie_number;
  }
  return a < b;
}

/* ---- heads of ids ---- */

static bool all_have_ids(const sort *s) {
  for (uint32_t i = 0; i < s->node_count; i++) {
    if (!s->nodes[i].tie_id) return false;
  }
  return s->node_count > 0;
}

/* The first bytes as a number: less when the bytes come before in the order. A text that ends comes before a text that
 * goes on. */
static uint64_t head_of(const char *id) {
  uint64_t head = 0;
  for (int i = 0; i < 8; i++) {
    head = head << 8 | (unsigned char)*id;
    if (*id) id++;
  }
  return head;
}

static void fill_heads(sort *s) {
  const char *first = s->nodes[0].tie_id;
  size_t skip = strlen(first);
  for (uint32_t i = 1; i < s->node_count; i++) {
    size_t same = 0;
    while (same < skip && s->nodes[i].tie_id[same] == first[same]) same++;
    skip = same;
  }
  for (uint32_t i = 0; i < s->node_count; i++) s->heads[i] = head_of(s->nodes[i].tie_id + skip);
}

/* ---- heap of ready nodes ---- */

static void heap_push(sort *s, uint32_t node) {
  uint32_t at = s->heap_count++;
  for (; at > 0; at = (at - 1) / 2) {
    uint32_t parent = s->heap[(at - 1) / 2];
    if (!comes_before(s, node, parent)) break;
    s->heap[at] = parent;
  }
  s->heap[at] = node;
}

static uint32_t heap_pop(sort *s) {
  uint32_t top = s->heap[0];
  uint32_t node = s->heap[--s->heap_count];
  uint32_t at = 0;
  for (uint32_t child = 1; child < s->heap_count; child = 2 * at + 1) {
    if (child + 1 < s->heap_count && comes_before(s, s->heap[child + 1], s->heap[child])) child++;
    if (!comes_before(s, s->heap[child], node)) break;
    s->heap[at] = s->heap[child];
    at = child;
  }
  s->heap[at] = node;
  return top;
}

/* ---- successors ---- */

static void lay_out_successors(sort *s) {
  memset(s->first, 0, ((size_t)s->node_count + 1) * sizeof *s->first);
  memset(s->indegree, 0, (size_t)s->node_count * sizeof *s->indegree);
  for (uint32_t i = 0; i < s->edge_count; i++) {
    assert(s->edges[i].from < s->node_count && s->edges[i].to < s->node_count);
    s->first[s->edges[i].from + 1]++;
    s->indegree[s->edges[i].to]++;
  }
  for (uint32_t i = 0; i < s->node_count; i++) s->first[i + 1] += s->first[i];
  /* The heap is not in use yet, so its memory holds how far the part of each node is filled. */
  memcpy(s->heap, s->first, (size_t)s->node_count * sizeof *s->heap);
  for (uint32_t i = 0; i < s->edge_count; i++) s->targets[s->heap[s->edges[i].from]++] = s->edges[i].to;
}

static uint32_t sort_ready(sort *s, uint32_t *ret_order) {
  uint32_t sorted = 0;
  s->heap_count = 0;
  for (uint32_t i = 0; i < s->node_count; i++) {
    if (s->indegree[i] == 0) heap_push(s, i);
  }
  while (s->heap_count > 0) {
    uint32_t node = heap_pop(s);
    ret_order[sorted++] = node;
    for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++) {
      if (--s->indegree[s->targets[i]] == 0) heap_push(s, s->targets[i]);
    }
  }
  return sorted;
}

/* ---- the cycle ---- */

#define NO_NODE UINT32_MAX

/* Finds for each unsorted node its first unsorted predecessor. Each has one, because otherwise it would have become
 * ready. */
static void first_predecessors(const sort *s, uint32_t *ret_back) {
  for (uint32_t i = 0; i < s->node_count; i++) ret_back[i] = NO_NODE;
  for (uint32_t i = 0; i < s->edge_count; i++) {
    uint32_t from = s->edges[i].from, to = s->edges[i].to;
    if (s->indegree[from] == 0 || s->indegree[to] == 0) continue; /* sorted */
    if (ret_back[to] == NO_NODE || comes_before(s, from, ret_back[to])) ret_back[to] = from;
  }
}

static uint32_t first_unsorted(const sort *s) {
  uint32_t first = NO_NODE;
  for (uint32_t i = 0; i < s->node_count; i++) {
    if (s->indegree[i] > 0 && (first == NO_NODE || comes_before(s, i, first))) first = i;
  }
  return first;
}

/* Going back from an unsorted node never ends, so it comes to some node for the second time. That node is on a
 * cycle. */
static void find_cycle(sort *s, uint32_t *ret_cycle, uint32_t *ret_count) {
  uint32_t *back = s->first, *seen = s->heap;
  memset(seen, 0, (size_t)s->node_count * sizeof *seen);
  first_predecessors(s, back);
  uint32_t node = first_unsorted(s);
  for (; !seen[node]; node = back[node]) seen[node] = true;
  uint32_t first = node, count = 1;
  for (uint32_t on = back[node]; on != node; on = back[on], count++) {
    if (comes_before(s, on, first)) first = on;
  }
  ret_cycle[0] = ret_cycle[count] = first;
  for (uint32_t i = count, on = back[first]; i-- > 1; on = back[on]) ret_cycle[i] = on;
  *ret_count = count + 1;
}

/* ---- */

static size_t bytes_needed(const sort *s) {
  size_t numbers = 3 * (size_t)s->node_count + 1 + s->edge_count;
  return s->node_count * sizeof *s->heads + numbers * sizeof *s->first;
}

tp_status tp__sort(const tp_allocator *allocator, const tp__sort_node *nodes, uint32_t node_count,
                   const tp__sort_edge *edges, uint32_t edge_count, uint32_t *ret_order, uint32_t *ret_cycle,
                   uint32_t *ret_cycle_count) {
  sort s = {.nodes = nodes, .edges = edges, .node_count = node_count, .edge_count = edge_count};
  uint64_t *memory = tp__alloc(allocator, bytes_needed(&s));
  if (!memory) return TP_ERR_NO_MEMORY;
  s.first = (uint32_t *)(memory + node_count);
  s.indegree = s.first + node_count + 1;
  s.heap = s.indegree + node_count;
  s.targets = s.heap + node_count;
  if (all_have_ids(&s)) {
    s.heads = memory;
    fill_heads(&s);
  }
  lay_out_successors(&s);
  bool whole = sort_ready(&s, ret_order) == node_count;
  if (!whole) find_cycle(&s, ret_cycle, ret_cycle_count);
  tp__release(allocator, memory, bytes_needed(&s));
  return whole ? TP_OK : TP_ERR_CYCLE;
}
