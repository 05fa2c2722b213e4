/* SPDX-License-Identifier: Apache-2.0
 *
 * begin: how an entry is made. A turn caches one block, `cached_entry`, in which its entries are made one after the
 * other; an entry that begins while it is in use has a block of its own. When every run of the last entry ended on the
 * fast path, the block still has the initial state of a new entry, and only the fields that differ between entries are
 * set. The code is in a header because a phase of one inline node costs little more than this code.
 *
 * The ready nodes and the counters are laid out when they are first needed; an entry whose nodes are called in plan
 * order (inline.c) may never need them. Such an entry in the cached block is not in the turn's list either: no other
 * code looks for it while it runs, and when it has ended there is nothing to cancel. */
#ifndef TP__BEGIN_H
#define TP__BEGIN_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime_object.h"

enum { TP__ENTRY_ARENA_BYTES = 512 };

/* The struct, its rows, the plan's initial state, the runs, and at the end the first bytes of its arena. */
static inline size_t tp__entry_runs_offset(const tp__plan *plan) {
  return sizeof(tp__entry) + plan->node_count * sizeof(tp__row) + plan->start_bytes;
}
static inline size_t tp__entry_bytes(const tp__plan *plan) {
  return tp__entry_runs_offset(plan) + plan->node_count * sizeof(tp__run) + TP__ENTRY_ARENA_BYTES;
}
/** @return a block for an entry of the plan, initialised; NULL: no memory. */
tp__entry *tp__entry_take_block(tp__turn *turn, const tp__plan *plan);

/** Sets the fields that are the same for every entry of a turn in this block. They keep their values while entries end
 *  on the fast path. */
static inline void tp__entry_set_block(tp__entry *e, tp__turn *turn) {
  e->turn = turn;
  e->rows = (tp__row *)(e + 1);
  e->exceptional = 0;
  e->taken = true;
  e->running = e->is_call_set = e->ended = false;
  e->verdict = TP_VERDICT_NONE;
  e->deciding_node = UINT32_MAX;
  e->on_run = NULL;
  e->shown = NULL;
  e->share = NULL;
  e->arena = (tp__arena){.allocator = &turn->runtime->blocks.as_allocator, .end = (char *)e + e->block_size};
  tp__list_init(&e->link);
  atomic_init(&e->refs.v, 1);
  atomic_init(&e->pinned.v, 0);
  atomic_init(&e->retained_attempts.v, NULL);
  atomic_init(&e->payloads.v, NULL);
  atomic_init(&e->closures.v, NULL);
}

/** Until the entry is laid out, no node is marked, and the end of the block is the arena. */
static inline void tp__entry_set_plan(tp__entry *e, const tp__plan *plan) {
  e->plan = plan;
  e->marks = plan->no_marks;
  e->arena.next = (char *)e + e->block_size - TP__ENTRY_ARENA_BYTES;
}

/** Lays out counters and ready nodes in their initial state, and lists the entry for a cancel of the turn. */
static inline void tp__entry_lay_out(tp__entry *e) {
  const tp__plan *plan = e->plan;
  uint32_t n = plan->node_count;
  TP__ASSERT(e->marks == plan->no_marks && tp__list_empty(&e->link)); /* once for each entry */
  e->ready = (tp__ready){.bits = (uint64_t *)(void *)(e->rows + n), .count = plan->ready_count};
  e->counters = (uint16_t *)(e->ready.bits + tp__ready_words(n));
  e->leaving = e->counters + n;
  e->marks = (uint8_t *)(e->leaving + n);
  e->runs = (tp__run *)((char *)e + tp__entry_runs_offset(plan));
  e->unsettled = n;
  e->leaving_count = plan->leaving_count;
  memcpy(e->ready.bits, plan->start, plan->start_bytes);
  e->ended = false;
  tp__list_push(&e->turn->entries, &e->link);
}

static inline void tp__entry_set_payload(tp__entry *e, const tp_field *fields, uint32_t field_count) {
  e->fields = e->begin_fields = fields;
  e->field_count = e->begin_field_count = field_count;
}

/** Sets the entry's times, its id, and the sets that the turn had merged before it.
 *  @param budget_ns  0: the plan's; both are far from TP__NEVER. */
static inline void tp__entry_set_birth(tp__entry *e, int64_t budget_ns, bool ignores_cancel) {
  const tp__turn *turn = e->turn;
  int64_t now_ns = tp__now_ns(), end_ns = now_ns + (budget_ns ? budget_ns : e->plan->budget_ns);
  if (!ignores_cancel && turn->deadline_ns < end_ns) end_ns = turn->deadline_ns;
  int64_t fast_path_until_ns = end_ns - e->plan->required_tail_ns_max, row_end_ns = now_ns + UINT32_MAX;
  e->begin_ns = e->now_ns = now_ns;
  e->end_ns = end_ns;
  e->fast_path_until_ns = fast_path_until_ns < row_end_ns ? fast_path_until_ns : row_end_ns;
  e->sets = turn->sets;
  e->id = tp__turn_entry_id(e->turn);
}

/** Makes an entry in the turn's cached block, or in a block of its own; the payload is set next.
 *  @return NULL without memory. */
static inline tp__entry *tp__entry_begin(tp__turn *turn, const tp__plan *plan, int64_t budget_ns, bool ignores_cancel) {
  tp__entry *e = turn->cached_entry;
  if (!e || e->taken || e->exceptional || e->block_size < tp__entry_bytes(plan)) e = tp__entry_take_block(turn, plan);
  if (!e) return NULL;
  TP__ASSERT(e->turn == turn && e->block_size >= tp__entry_bytes(plan));
  e->taken = true;
  tp__entry_set_plan(e, plan);
  tp__entry_set_birth(e, budget_ns, ignores_cancel);
  return e;
}

#endif
