/* SPDX-License-Identifier: Apache-2.0
 *
 * kept: what each thread keeps at hand of a runtime, so that turns that begin, run and end in steady state write no
 * line that another thread writes at the same time. An engine worker has one of its own; all other threads share some,
 * by their number. Lock: `kept`, one of each, which two threads seldom want at once.
 *
 * What is counted here is true in the sum only: a turn that begins on one thread and ends on another takes a pin of the
 * snapshot and a place from the first one's and gives them to the second one's. */
#ifndef TP__KEPT_H
#define TP__KEPT_H

#include "runtime/exec/shelf.h"
#include "runtime/plan/plan.h"

enum { TP__BLOCK_BYTES_MIN = 1024, TP__BLOCK_CLASSES = 21, TP__KEPT_SHARED = 16, TP__COUNTS = 8 };

typedef struct tp__kept {
  tp__mutex mutex;
  /* under mutex */
  tp__pins pins;
  uint32_t places;       /* turns that may begin from here before the other kept ones are asked (berth.c) */
  tp__shelf berths;      /* berth.c */
  uint64_t next_turn_number, end_turn_number;
  /* a worker's: that thread's only; a shared one's: under mutex */
  bool is_own;
  uint64_t last_entry_id, last_entry_id_of_lot;
  tp__shelf blocks[TP__BLOCK_CLASSES]; /* blocks.c */
  /* atomic, relaxed */
  tp__a64 counts[TP__COUNTS]; /* of the layer above; one that is counted up here may be counted down elsewhere */
} tp__kept;

enum { TP__KEPT_STRIDE = 128 * ((sizeof(tp__kept) + 127) / 128) }; /* two never share a pair of lines */

typedef struct tp__keep {
  /* never changes after init */
  const tp_allocator *allocator;
  void *memory;
  size_t memory_size;
  char *all; /* TP__KEPT_SHARED of all threads, then one of each worker */
  uint32_t count;
} tp__keep;

tp_status tp__keep_init(tp__keep *keep, const tp_allocator *allocator, uint32_t workers);
/** Blocks and berths are gone. */
void tp__keep_fini(tp__keep *keep);

static inline tp__kept *tp__kept_at(const tp__keep *keep, uint32_t index) {
  return (tp__kept *)(void *)(keep->all + (size_t)index * TP__KEPT_STRIDE);
}
/** That of an engine worker, which makes it its home. */
static inline tp__kept *tp__kept_of_worker(const tp__keep *keep, uint32_t worker) {
  return tp__kept_at(keep, TP__KEPT_SHARED + worker);
}
/** The calling thread's. */
static inline tp__kept *tp__kept_here(const tp__keep *keep) {
  tp__here *here = tp__here_get();
  uintptr_t from = (uintptr_t)here->home - (uintptr_t)keep->all; /* a worker of another runtime is far away */
  if (from < (size_t)keep->count * TP__KEPT_STRIDE) return here->home;
  return tp__kept_at(keep, tp__thread_number() % TP__KEPT_SHARED);
}
/** Around what is a worker's own, or shared. */
static inline void tp__kept_enter(tp__kept *kept) {
  if (!kept->is_own) tp__mutex_lock(&kept->mutex);
}
static inline void tp__kept_leave(tp__kept *kept) {
  if (!kept->is_own) tp__mutex_unlock(&kept->mutex);
}

/** Counts for statistics. by: 1 or -1 as an unsigned number. */
static inline void tp__keep_count(const tp__keep *keep, uint32_t index, uint64_t by) {
  tp__a64_add_relaxed(&tp__kept_here(keep)->counts[index], by);
}
/** The sum of all threads. */
uint64_t tp__keep_counted(const tp__keep *keep, uint32_t index);

/** For the registry: every kept one counts pins of this snapshot from now on. */
void tp__keep_renew_pins(void *keep, tp__snapshot *newest);

#endif
