/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of quick nodes: what most phases spend their time in. It reads half a cache line of a node, calls it, looks
 * at the clock once, writes four words, and counts down what waits for it. Whatever is not ordinary goes to engine.c:
 * a node that needs a look before it is called, by stopping; an answer that needs one, by tp__entry_called(). */
#include "runtime/exec/quick_loop.h"

void tp__quick_call_set(tp__entry *e, tp_call *call, tp__arena *arena, uint32_t index) {
  call->entry = e;
  call->arena = arena;
  call->index = index;
  call->attempt_number = 1;
  call->fields = e->fields;
  call->field_count = e->field_count;
  call->touched = call->sealed = false;
  call->attempt = NULL;
}

bool tp__quick_run(tp__entry *e, uint32_t *ret_index) {
  tp__loop l = tp__loop_of(e);
  bool measured = tp__share_measures(e);
  while (l.ready_count > 0 && l.leaving_count == 0) {
    if (!tp__loop_next(&l, ret_index)) return false;
    if (!e->is_call_set) tp__quick_call_set(e, &e->call, &e->arena, *ret_index);
    e->is_call_set = true;
    if (!tp__loop_call(&l, &l.nodes[*ret_index], *ret_index, measured)) l = tp__loop_of(e);
  }
  tp__loop_leave(&l);
  return true;
}

/* ---- an entry that is nothing but quick nodes ---- */

static tp__entry *begin_clean(tp__turn *turn, const tp__plan *plan, const tp_field *fields, uint32_t field_count) {
  if (!turn->spare_clean || turn->spare_size < tp__entry_bytes(plan)) return NULL;
  if (!plan->all_plain || turn->is_cancelled || tp__share_cares(plan)) return NULL;
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
  tp__loop l = tp__loop_of(e);
  tp__quick_call_set(e, &e->call, &e->arena, 0);
  e->running = true;
  bool ordinary = true;
  while (ordinary && l.ready_count > 0 && tp__loop_may_call(&l)) {
    uint32_t index = l.ready[--l.ready_count];
    ordinary = tp__loop_call(&l, &l.nodes[index], index, false);
  }
  e->running = false;
  *ret_quiet = ordinary && l.ready_count == 0;
  if (ordinary) tp__loop_leave(&l);
  if (*ret_quiet) {
    e->ended = true;
    e->ended_ns = e->now_ns;
    tp__entry_record_quiet(e);
  }
  return e;
}
