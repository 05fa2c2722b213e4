/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of quick nodes: what most phases spend their time in. It reads half a cache line of a node, calls it, looks
 * at the clock once, writes four words, and counts down what waits for it. Whatever is not ordinary goes to engine.c:
 * a node that needs a look before it is called, by returning; an answer that needs one, by tp__entry_called(). */
#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

void tp__quick_call_set(tp__entry *e, uint32_t index) {
  tp_call *call = &e->call;
  call->index = index;
  call->attempt_number = 1;
  call->fields = e->fields;
  call->field_count = e->field_count;
  call->touched = call->sealed = false;
  call->output = (tp__output){0};
  call->attempt = NULL;
}

/* What the loop keeps in registers. */
typedef struct loop {
  const tp__quick_node *nodes;
  uint16_t *ready, *counters;
  uint32_t ready_count, leaving_count;
  int64_t now_ns;
} loop;

static inline void load(loop *l, const tp__entry *e) {
  l->ready_count = e->ready_count;
  l->leaving_count = e->leaving_count;
  l->now_ns = e->now_ns;
}

static inline void store(const loop *l, tp__entry *e) {
  e->ready_count = l->ready_count;
  e->leaving_count = l->leaving_count;
  e->now_ns = l->now_ns;
}

static inline void write_row(tp__entry *e, const tp__quick_node *node, uint32_t index, int64_t started_ns,
                             int64_t ended_ns) {
  e->rows[index] = (tp__narrow_row){.name = node->run_name,
                                    .started = (uint32_t)(started_ns - e->begin_ns),
                                    .took = (uint32_t)(ended_ns - started_ns),
                                    .state_attempts = tp__row_state_attempts(TP_STATE_SUCCEEDED, 1),
                                    .manner = node->manner};
}

/* As make_ready() and propagate() in engine.c do it for all others. */
static inline void count_down(loop *l, const tp__plan *plan, const tp__quick_node *node) {
  const uint32_t *edge = &plan->edges[node->first_edge], *end = &plan->edges[node->end_edge];
  for (; edge < end; edge++) {
    uint32_t target = *edge >> 1;
    if (--l->counters[target] != 0) continue;
    if (plan->all_plain || !l->nodes[target].leaves) l->ready[l->ready_count++] = (uint16_t)target;
    else l->ready[plan->node_count - ++l->leaving_count] = (uint16_t)target;
  }
}

bool tp__quick_run(tp__entry *e, uint32_t *ret_index) {
  const tp__plan *plan = e->plan;
  const tp_runtime *runtime = e->turn->runtime;
  loop l = {.nodes = plan->quick, .ready = e->ready, .counters = e->counters};
  load(&l, e);
  while (l.ready_count > 0 && l.leaving_count == 0) {
    uint32_t index = l.ready[--l.ready_count];
    const tp__quick_node *node = &l.nodes[index];
    bool ordinary = node->plain && e->marks[index] == 0 && e->fate == TP__FATE_OPEN && !e->on_run &&
                    l.now_ns < e->easy_ns && tp__a32_load_relaxed(&runtime->kills) == 0;
    if (!ordinary) {
      store(&l, e);
      *ret_index = index;
      return false;
    }
    if (!e->is_call_set) tp__quick_call_set(e, index);
    e->is_call_set = true;
    e->call.index = index;
    e->call.started_ns = l.now_ns;
    tp_outcome outcome = node->run(node->self, &e->call);
    int64_t started_ns = l.now_ns;
    l.now_ns = tp__stamp(runtime, started_ns);
    if (outcome.kind != TP_OUTCOME_DONE || e->call.touched || l.now_ns >= e->easy_ns ||
        l.now_ns - started_ns > plan->limit_ns_min) {
      store(&l, e);
      tp__entry_called(e, index, &outcome, started_ns);
      load(&l, e);
      continue;
    }
    write_row(e, node, index, started_ns, l.now_ns);
    e->unsettled--;
    count_down(&l, plan, node);
  }
  store(&l, e);
  return true;
}
