/* SPDX-License-Identifier: Apache-2.0
 *
 * begin: how an entry comes into being. A turn keeps the block of the last one; where that one was quiet (nothing about
 * any of its runs was out of the ordinary) the block is clean: all that an entry has at birth it still has, and only
 * what differs from one entry to the next is set. In a header because a phase of one quick node costs little more. */
#ifndef TP__BEGIN_H
#define TP__BEGIN_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

enum { TP__ENTRY_ARENA_BYTES = 512 };
typedef uint64_t __attribute__((may_alias)) tp__word;

/* The struct, its rows, what the plan says it starts from, runs, and the first bytes of its arena. */
static inline size_t tp__entry_runs_offset(const tp__plan *plan) {
  return sizeof(tp__entry) + plan->node_count * sizeof(tp__narrow_row) + plan->start_bytes;
}
static inline size_t tp__entry_arena_offset(const tp__plan *plan) {
  return tp__entry_runs_offset(plan) + plan->node_count * sizeof(tp__run);
}
static inline size_t tp__entry_bytes(const tp__plan *plan) {
  return tp__entry_arena_offset(plan) + TP__ENTRY_ARENA_BYTES;
}

/** What is the same for every entry of a turn in this block, and stays so while entries are quiet. */
static inline void tp__entry_set_block(tp__entry *e, tp__turn *turn, size_t block_size) {
  e->turn = turn;
  e->block_size = block_size;
  e->rows = (tp__narrow_row *)(e + 1);
  e->odd = 0;
  e->running = false;
  e->verdict = TP_OUTCOME_DONE;
  e->decider = UINT32_MAX;
  e->on_run = NULL;
  e->share = NULL;
  e->arena = (tp__arena){.allocator = &turn->runtime->allocator, .end = (char *)e + block_size};
  atomic_init(&e->refs.v, 1);
  atomic_init(&e->kept_attempts.v, NULL);
}

/* Most plans are small: some words, without a call. */
static inline void tp__entry_copy_start(tp__entry *e, const tp__plan *plan) {
  enum { SMALL_BYTES = 64 };
  if (plan->start_bytes > SMALL_BYTES) {
    memcpy(e->ready, plan->start, plan->start_bytes);
    return;
  }
  for (uint32_t i = 0; i < plan->start_bytes / sizeof(uint64_t); i++) {
    ((tp__word *)e->ready)[i] = ((const tp__word *)plan->start)[i];
    __asm__("" ::: "memory"); /* else the compiler makes a call of it again */
  }
}

static inline void tp__entry_set_plan(tp__entry *e, const tp__plan *plan) {
  uint32_t n = plan->node_count;
  e->plan = plan;
  e->ready = (uint16_t *)(e->rows + n);
  e->counters = e->ready + n;
  e->marks = (uint8_t *)(e->counters + n);
  e->runs = (tp__run *)((char *)e + tp__entry_runs_offset(plan));
  e->arena.next = (char *)e + tp__entry_arena_offset(plan);
  e->unsettled = n;
  e->ready_count = plan->ready_count;
  e->leaving_count = plan->leaving_count;
  tp__entry_copy_start(e, plan);
}

static inline void tp__entry_set_payload(tp__entry *e, const tp_field *fields, uint32_t field_count) {
  e->fields = e->begin_fields = fields;
  e->field_count = e->begin_field_count = field_count;
}

/** @param budget_ns  0: the plan's. */
static inline void tp__entry_set_times(tp__entry *e, int64_t budget_ns, bool sheltered) {
  int64_t now_ns = tp__now_ns();
  if (!budget_ns) budget_ns = e->plan->budget_ns;
  int64_t end_ns = now_ns > TP__NEVER - budget_ns ? TP__NEVER : now_ns + budget_ns;
  if (!sheltered && e->turn->deadline_ns < end_ns) end_ns = e->turn->deadline_ns;
  int64_t easy_ns = end_ns - e->plan->tail_ns_max, row_end_ns = now_ns + UINT32_MAX;
  e->begin_ns = e->now_ns = now_ns;
  e->end_ns = end_ns;
  e->easy_ns = easy_ns < row_end_ns ? easy_ns : row_end_ns;
}

/** What every birth ends with. */
static inline void tp__entry_enlist(tp__entry *e) {
  e->sets = e->turn->sets;
  e->id = tp__turn_entry_id(e->turn);
  e->ended = e->is_call_set = false;
  tp__list_push(&e->turn->entries, &e->link);
}

#endif
