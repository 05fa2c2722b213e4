/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of quick nodes: what most phases spend their time in. It reads half a cache line of a node, calls it, looks
 * at the clock once, writes four words, and counts down what waits for it. Whatever is not ordinary goes to engine.c:
 * a node that needs a look before it is called, by stopping; an answer that needs one, by tp__entry_called(). */
#include "runtime/exec/begin.h"

void tp__quick_call_set(tp__entry *e, uint32_t index) {
  tp_call *call = &e->call;
  call->entry = e;
  call->arena = &e->arena;
  call->index = index;
  call->attempt_number = 1;
  call->fields = e->fields;
  call->field_count = e->field_count;
  call->touched = call->sealed = false;
  call->attempt = NULL;
}

/* What the loop keeps in registers. */
typedef struct loop {
  tp__entry *e;
  const tp__plan *plan;
  const tp_runtime *runtime;
  const tp__quick_node *nodes;
  uint16_t *ready, *counters;
  uint32_t ready_count, leaving_count;
  int64_t now_ns;
} loop;

static inline loop loop_of(tp__entry *e) {
  return (loop){.e = e,
                .plan = e->plan,
                .runtime = e->turn->runtime,
                .nodes = e->plan->quick,
                .ready = e->ready,
                .counters = e->counters,
                .ready_count = e->ready_count,
                .leaving_count = e->leaving_count,
                .now_ns = e->now_ns};
}

static inline void leave(const loop *l) {
  l->e->ready_count = l->ready_count;
  l->e->leaving_count = l->leaving_count;
  l->e->now_ns = l->now_ns;
}

/* As make_ready() and propagate() in engine.c do it for all others. */
static inline void count_down(loop *l, const tp__quick_node *node) {
  const uint32_t *edge = &l->plan->edges[node->first_edge], *end = edge + node->edge_count;
  for (; edge < end; edge++) {
    uint32_t target = *edge >> 1;
    if (--l->counters[target] != 0) continue;
    if (l->plan->all_plain || !l->nodes[target].leaves) l->ready[l->ready_count++] = (uint16_t)target;
    else l->ready[l->plan->node_count - ++l->leaving_count] = (uint16_t)target;
  }
}

/* @return whether its answer was ordinary, and is taken. */
static inline bool call(loop *l, const tp__quick_node *node, uint32_t index) {
  tp__entry *e = l->e;
  int64_t started_ns = l->now_ns;
  e->call.index = index;
  e->call.started_ns = started_ns;
  tp_outcome outcome = node->run(node->self, &e->call);
  int64_t ended_ns = tp__stamp(l->runtime, started_ns);
  l->now_ns = ended_ns;
  if (outcome.kind == TP_OUTCOME_DONE && !e->call.touched && ended_ns < e->easy_ns &&
      ended_ns - started_ns <= l->plan->limit_ns_min) {
    tp__row_put(&e->rows[index], node->run_name, (uint32_t)(started_ns - e->begin_ns),
                (uint32_t)(ended_ns - started_ns), node->how);
    e->unsettled--;
    count_down(l, node);
    return true;
  }
  leave(l);
  tp__entry_called(e, index, &outcome, started_ns);
  return false;
}

/* What may stand between a plain node and its call, whatever its entry is like. */
static inline bool may_call(const loop *l) {
  return l->now_ns < l->e->easy_ns && tp__a32_load_relaxed(&l->runtime->kills) == 0;
}

bool tp__quick_run(tp__entry *e, uint32_t *ret_index) {
  loop l = loop_of(e);
  while (l.ready_count > 0 && l.leaving_count == 0) {
    uint32_t index = l.ready[--l.ready_count];
    const tp__quick_node *node = &l.nodes[index];
    if (!node->plain || e->marks[index] || e->fate != TP__FATE_OPEN || e->watched || !may_call(&l)) {
      leave(&l);
      *ret_index = index;
      return false;
    }
    if (!e->is_call_set) tp__quick_call_set(e, index);
    e->is_call_set = true;
    if (!call(&l, node, index)) l = loop_of(e);
  }
  leave(&l);
  return true;
}

/* ---- an entry that is nothing but quick nodes ---- */

static tp__entry *begin_clean(tp__turn *turn, const tp__plan *plan, const tp_field *fields, uint32_t field_count) {
  if (!turn->spare_clean || turn->spare_size < tp__entry_bytes(plan)) return NULL;
  if (!plan->all_plain || turn->is_cancelled) return NULL;
  tp__entry *e = turn->spare;
  turn->spare = NULL;
  turn->spare_clean = false;
  tp__entry_set_plan(e, plan);
  tp__entry_set_payload(e, fields, field_count);
  e->payload_borrowed = true;
  tp__entry_set_times(e, 0, false);
  tp__entry_enlist(e);
  return e;
}

tp__entry *tp__quick_entry(tp__turn *turn, const tp__plan *plan, const tp_field *fields, uint32_t field_count,
                           bool *ret_quiet) {
  tp__entry *e = begin_clean(turn, plan, fields, field_count);
  if (!e) return NULL;
  loop l = loop_of(e);
  tp__quick_call_set(e, 0);
  e->running = true;
  bool ordinary = true;
  while (ordinary && l.ready_count > 0 && may_call(&l)) {
    uint32_t index = l.ready[--l.ready_count];
    ordinary = call(&l, &l.nodes[index], index);
  }
  e->running = false;
  *ret_quiet = ordinary && l.ready_count == 0;
  if (ordinary) leave(&l);
  if (*ret_quiet) {
    e->ended = true;
    e->ended_ns = e->now_ns;
    tp__entry_record_quiet(e);
  }
  return e;
}
