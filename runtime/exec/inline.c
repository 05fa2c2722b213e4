/* SPDX-License-Identifier: Apache-2.0
 *
 * inline.c: the fast loop for plans whose nodes are all inline. For each node it reads half a cache line, calls the
 * handler, reads the clock once (with TP_TIMESTAMPS_COARSE, once for all nodes) and writes four words. At the first
 * node or answer that it cannot handle, entry.c goes on. */
#include "runtime/exec/inline.h"

#include "runtime/exec/exec.h"
#include "runtime/exec/begin.h"
#include "runtime/exec/breaker.h"
#include "runtime/exec/breadcrumb.h"
#include "runtime/exec/records.h"
#include "runtime/exec/settle.h"

void tp__inline_call_set(tp__entry *e, tp_call *call, tp__arena *arena, uint32_t index) {
  call->entry = e;
  call->arena = arena;
  call->index = index;
  call->attempt_number = 1;
  call->fields = e->fields;
  call->field_count = e->field_count;
  call->touched = call->sealed = false;
  call->attempt = NULL;
}

/* ---- an entry whose nodes are all on the fast path ----
 *
 * The nodes are called in plan order. In this order each node follows all nodes that it waits for. So the counters are
 * not needed as long as every answer is unexceptional. At the first exceptional answer they are laid out, and entry.c
 * goes on from there. */

/* Sets the borrowed pointers of the entry and its call. When the last entry borrowed the same, nothing is done. */
static inline void set_borrowed(tp__entry *e, const tp_field *fields, uint32_t field_count) {
  if (e->is_call_set && e->call.fields == fields && e->call.field_count == field_count) return;
  tp__entry_set_payload(e, fields, field_count);
  e->payload_borrowed = true;
  tp__inline_call_set(e, &e->call, &e->arena, 0);
  e->is_call_set = true;
}

/* Lays out the counters as they are when all nodes before `from` have settled. */
static __attribute__((noinline, cold)) void lay_out_from(tp__entry *e, uint32_t from) {
  const tp__plan *plan = e->plan;
  tp__entry_lay_out(e);
  for (uint32_t i = 0; i < from; i++) {
    const uint32_t *edge = &plan->edges[plan->inline_nodes[i].first_edge];
    for (const uint32_t *end = edge + plan->inline_nodes[i].edge_count; edge < end; edge++) {
      TP__ASSERT(e->counters[*edge >> 1] > 0);
      e->counters[*edge >> 1]--;
    }
  }
  e->unsettled = plan->node_count - from;
  memset(e->ready.bits, 0, tp__ready_words(plan->node_count) * sizeof *e->ready.bits);
  e->ready.count = 0;
  for (uint32_t i = from; i < plan->node_count; i++)
    if (e->counters[i] == 0) tp__ready_push(&e->ready, i);
  TP__CHECK(tp__entry_check(e));
}

/* A node was called, and its answer is exceptional or too late. */
static __attribute__((noinline, cold)) void leave_plan_order(tp__entry *e, uint32_t index, tp_answer kind,
                                                             int64_t ended_ns) {
  lay_out_from(e, index);
  (void)tp__ready_pop(&e->ready); /* this node is the first ready one */
  e->is_call_set = false;
  e->now_ns = ended_ns;
  e->running = true;
  tp__entry_called(e, index, &e->call, kind, ended_ns);
  e->running = false;
}

/* TP_TIMESTAMPS_COARSE: the rows of the nodes before `count` share one measured duration. */
static void set_durations(tp__entry *e, uint32_t count, int64_t ended_ns) {
  int64_t duration_ns = ended_ns - e->begin_ns;
  uint32_t capped_ns = duration_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)duration_ns;
  for (uint32_t i = 0; i < count; i++) e->rows[i].duration_ns = capped_ns;
}

/* TP_TIMESTAMPS_COARSE: all nodes were called. The one time-stamp decides, by the last node, whether all were in time.
 * @return as run_in_plan_order(). */
static bool end_with_one_stamp(tp__entry *e) {
  TP__ASSERT(e->plan->node_count > 0);
  uint32_t last = e->plan->node_count - 1;
  int64_t ended_ns = tp__now_ns();
  set_durations(e, last, ended_ns);
  if (!tp__entry_put_row(e, &e->plan->inline_nodes[last], last, e->begin_ns, ended_ns)) {
    leave_plan_order(e, last, TP_ANSWER_DONE, ended_ns);
    return false;
  }
  e->ended_ns = ended_ns;
  return true;
}

/* The loop. The compiler makes a separate loop of it for each kind of time-stamps, with breadcrumbs and without.
 * @param breadcrumb NULL: the store has none.
 * @return true when all nodes have settled; false: the general machine must handle a node, or has handled it. */
static inline __attribute__((always_inline)) bool run_with(tp__entry *e, tp_timestamps timestamps,
                                                           tp_breadcrumb *breadcrumb) {
  const tp__plan *plan = e->plan;
  const tp_runtime *runtime = e->turn->runtime;
  const tp__inline_node *node = plan->inline_nodes;
  int64_t now_ns = e->now_ns;
  bool in_time = now_ns < e->fast_path_until_ns;
  for (uint32_t index = 0; index < plan->node_count; index++, node++) {
    if (!in_time || tp__a32_load_relaxed(&runtime->breaker_state.stopped_subscriptions)) {
      if (timestamps == TP_TIMESTAMPS_COARSE) set_durations(e, index, now_ns = tp__now_ns());
      lay_out_from(e, index);
      e->now_ns = now_ns;
      return false;
    }
    e->call.index = index;
    e->call.started_ns = now_ns;
    if (breadcrumb) tp__breadcrumb_enter(breadcrumb, &plan->nodes[index]);
    tp_answer kind = node->run(node->ctx, &e->call);
    tp__breadcrumb_leave(breadcrumb);
    int64_t ended_ns = timestamps == TP_TIMESTAMPS_FULL ? tp__now_ns() : now_ns;
    if (kind != TP_ANSWER_DONE || e->call.touched || !tp__entry_put_row(e, node, index, now_ns, ended_ns)) {
      if (timestamps == TP_TIMESTAMPS_COARSE) set_durations(e, index, ended_ns = tp__now_ns());
      leave_plan_order(e, index, kind, ended_ns);
      return false;
    }
    now_ns = ended_ns;
  }
  if (timestamps == TP_TIMESTAMPS_COARSE && plan->node_count > 0) return end_with_one_stamp(e);
  e->ended_ns = now_ns;
  return true;
}

static inline __attribute__((always_inline)) bool run_in(tp__entry *e, tp_breadcrumb *breadcrumb) {
  switch (e->turn->runtime->options.timestamps) {
    case TP_TIMESTAMPS_COARSE:
      return run_with(e, TP_TIMESTAMPS_COARSE, breadcrumb);
    case TP_TIMESTAMPS_OFF:
      return run_with(e, TP_TIMESTAMPS_OFF, breadcrumb);
    case TP_TIMESTAMPS_FULL:
    case TP_TIMESTAMPS_FORCE_32:
      break;
  }
  return run_with(e, TP_TIMESTAMPS_FULL, breadcrumb);
}

static __attribute__((noinline)) bool run_with_breadcrumbs(tp__entry *e) {
  tp_breadcrumb *breadcrumb = tp__breadcrumb_here(e->turn->runtime);
  tp__breadcrumb_turn(breadcrumb, e->turn, e->plan->phase, e->id, e->begin_ns);
  return run_in(e, breadcrumb);
}

static inline bool run_in_plan_order(tp__entry *e) {
  return e->turn->runtime->breadcrumbs ? run_with_breadcrumbs(e) : run_in(e, NULL);
}

tp__entry *tp__entry_run_inline(tp__turn *turn, const tp__plan *plan, const tp_field *fields, uint32_t field_count) {
  TP__OWNED(&turn->strand);
  if (!plan->on_fast_path || turn->is_cancelled || plan->has_parallel) return NULL;
  if (turn->runtime->options.durability == TP_DURABILITY_SYNC) return NULL; /* its end waits for a commit */
  tp__entry *e = tp__entry_begin(turn, plan, 0, false);
  if (!e) return NULL;
  set_borrowed(e, fields, field_count);
  if (tp__breaker_suspects(&turn->runtime->breaker_state, plan->phase, e->now_ns))
    e->fast_path_until_ns = 0; /* each is counted */
  if (!run_in_plan_order(e)) return e;
  if (e != turn->cached_entry) tp__list_push(&turn->entries, &e->link); /* tp__turn_over() releases it there */
  e->ended = true;
  TP__CHECK(tp__entry_check(e));
  tp__entry_record_fast_path(e);
  return e;
}
