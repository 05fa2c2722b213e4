/* SPDX-License-Identifier: Apache-2.0
 *
 * quick_loop: the step that quick.c and share.c have in common: one plain node, called by its entry's owner. */
#ifndef TP__QUICK_LOOP_H
#define TP__QUICK_LOOP_H

#include "runtime/exec/begin.h"
#include "runtime/exec/share.h"

/** What a loop keeps in registers of its entry. */
typedef struct tp__loop {
  tp__entry *e;
  const tp__plan *plan;
  const tp_runtime *runtime;
  const tp__quick_node *nodes;
  uint16_t *counters;
  tp__ready ready;
  uint32_t leaving_count;
  int64_t now_ns;
} tp__loop;

static inline tp__loop tp__loop_of(tp__entry *e) {
  return (tp__loop){.e = e,
                    .plan = e->plan,
                    .runtime = e->turn->runtime,
                    .nodes = e->plan->quick,
                    .ready = e->ready,
                    .counters = e->counters,
                    .leaving_count = e->leaving_count,
                    .now_ns = e->now_ns};
}

static inline void tp__loop_leave(const tp__loop *l) {
  l->e->ready = l->ready;
  l->e->leaving_count = l->leaving_count;
  l->e->now_ns = l->now_ns;
}

/* As make_ready() and propagate() in settle.c do it for all others. */
static inline void tp__loop_count_down(tp__loop *l, const tp__quick_node *node) {
  const uint32_t *edge = &l->plan->edges[node->first_edge], *end = edge + node->edge_count;
  for (; edge < end; edge++) {
    uint32_t target = *edge >> 1;
    if (--l->counters[target] != 0) continue;
    if (!l->nodes[target].plain) tp__entry_note_ready(l->e, target, l->now_ns);
    if (l->nodes[target].leaves) l->e->leaving[l->leaving_count++] = (uint16_t)target;
    else tp__ready_push(&l->ready, target);
  }
}

/** A node was called and had nothing to say. @return whether that was in time, and its row written; else nothing was
 *  done. */
static inline bool tp__quick_put_row(tp__entry *e, const tp__quick_node *node, uint32_t index, int64_t started_ns,
                                     int64_t ended_ns) {
  int64_t took_ns = ended_ns - started_ns;
  if (ended_ns >= e->easy_ns || took_ns > e->plan->limit_ns_min) return false;
  tp__row_put(&e->rows[index], node->run_name, (uint32_t)(started_ns - e->begin_ns), (uint32_t)took_ns, node->how);
  return true;
}

/** The same, and what waited for the node is counted down. */
static inline bool tp__loop_settle(tp__loop *l, const tp__quick_node *node, uint32_t index, int64_t started_ns,
                                   int64_t ended_ns) {
  if (!tp__quick_put_row(l->e, node, index, started_ns, ended_ns)) return false;
  l->e->unsettled--;
  tp__loop_count_down(l, node);
  return true;
}

/** @return whether its answer was ordinary, and is taken; else the entry was left and the loop is to be made anew. */
static inline bool tp__loop_call(tp__loop *l, const tp__quick_node *node, uint32_t index) {
  tp__entry *e = l->e;
  int64_t started_ns = l->now_ns;
  e->call.index = index;
  e->call.started_ns = started_ns;
  tp_answer kind = node->run(node->self, &e->call);
  l->now_ns = tp__stamp(l->runtime, started_ns);
  if (kind == TP_ANSWER_DONE && !e->call.touched &&
      tp__loop_settle(l, node, index, started_ns, l->now_ns))
    return true;
  tp__loop_leave(l);
  e->is_call_set = false;
  tp__entry_called(e, index, &e->call, kind, l->now_ns);
  return false;
}

/** The next ready node. @return false: it must be looked at closer, and the entry was left. */
static inline bool tp__loop_next(tp__loop *l, uint32_t *ret_index) {
  tp__entry *e = l->e;
  uint32_t index = *ret_index = tp__ready_pop(&l->ready);
  bool may_call = l->now_ns < e->easy_ns && tp__a32_load_relaxed(&l->runtime->kills) == 0;
  if (l->nodes[index].plain && !e->marks[index] && e->fate == TP__FATE_OPEN && !e->watched && may_call) return true;
  tp__loop_leave(l);
  return false;
}

#endif
