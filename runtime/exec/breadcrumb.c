/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/breadcrumb.h"

static void put_text_cut(char to[TP_ID_BYTES_MAX], tp_text text) {
  tp__breadcrumb_put(to, text.data, text.size < TP_ID_BYTES_MAX ? text.size : TP_ID_BYTES_MAX - 1);
}

void tp__breadcrumb_turn(tp_breadcrumb *b, const tp__turn *turn, tp_phase_id phase, uint64_t entry_id,
                         int64_t started_ns) {
  if (!b) return;
  b->phase = phase;
  b->entry_id = entry_id;
  b->started_ns = started_ns;
  put_text_cut(b->turn, turn->ids[TP_ID_TURN]);
  put_text_cut(b->session, turn->ids[TP_ID_SESSION]);
}

tp_breadcrumb *tp__breadcrumb_of_node(const tp__entry *e, uint32_t index, int64_t started_ns) {
  tp_breadcrumb *b = tp__breadcrumb_here(e->turn->runtime);
  const tp__node *node = &e->plan->nodes[index];
  if (!b) return NULL;
  tp__breadcrumb_turn(b, e->turn, e->plan->phase, e->id, started_ns);
  tp__breadcrumb_enter(b, node);
  return b;
}

tp_breadcrumb *tp__breadcrumb_of_function(const tp__turn *turn, const char *name, int64_t started_ns) {
  tp_breadcrumb *b = tp__breadcrumb_here(turn->runtime);
  if (!b) return NULL;
  tp__breadcrumb_turn(b, turn, TP_PHASE_NONE, 0, started_ns);
  put_text_cut(b->subscription, tp_text_of(name));
  b->handler[0] = '\0';
  tp__a32_store_release(tp__breadcrumb_flag(b), 1);
  return b;
}
