/* SPDX-License-Identifier: Apache-2.0
 *
 * turn_table: the memory of turns that hosts begin. A slot of the table holds only turns, one after the other, until
 * the runtime is freed. So a drain or a cancel can walk all slots while turns begin and end, and turns need neither a
 * list nor its lock. Two words of the turn, `open` and `refs`, show whether the slot is in use.
 *
 * The quota is the number of turns that may still begin. Each thread cache (thread_cache.h) has a part of it: a begin
 * takes one, an end returns one to the cache of its own thread. A cache without quota gets a batch from the table; when
 * the table has none either, it collects the quota of all caches. Quota that is returned during that may be missed.
 * Locks: `thread_cache` of the calling thread; `turn_table` for the rest. */
#ifndef TP__TURN_TABLE_H
#define TP__TURN_TABLE_H

#include "runtime/exec/thread_cache.h"
#include "runtime/exec/turn.h"

typedef struct tp__turn_table {
  /* never changes after init */
  const tp_allocator *allocator;
  const tp__thread_caches *caches;
  size_t slot_size;
  uint32_t batch;     /* quota that a thread cache gets at once */
  uint32_t quota_all; /* the quota of all caches and of the table, without that of open turns */
  /* atomic: stored with release when a slab is added, under mutex; loaded with acquire by a walk */
  tp__aptr slabs;
  tp__a64 turn_numbers_taken, entry_ids_taken; /* relaxed: they need only differ */
  tp__mutex mutex;
  /* under mutex */
  tp__magazine_list magazines; /* of free slots */
  uint32_t quota;
} tp__turn_table;

/** @param turn_size  bytes of the agent layer's turn, whose first member is a tp__turn
 *  @param quota      how many turns may be open at once */
tp_status tp__turn_table_init(tp__turn_table *table, const tp_allocator *allocator, const tp__thread_caches *caches,
                              size_t turn_size, uint32_t quota);
void tp__turn_table_fini(tp__turn_table *table);

/** Returns the slot, its pin, and its quota, unless tp__turn_table_close() has returned the quota already. */
void tp__turn_table_recycle(tp__turn *turn);
/** The turn is no longer open; references to it may remain. */
void tp__turn_table_close(tp__turn *turn);

/** Calls `each` for every open turn, with a reference to it. A turn that begins meanwhile may be left out. */
void tp__turn_table_each(tp__turn_table *table, void (*each)(void *ctx, tp__turn *turn), void *ctx);
/** How many turns are open, including those that are about to begin. */
uint64_t tp__turn_table_count(tp__turn_table *table, tp__turn_kind kind);
/** Whether an operation of an open turn is running. */
bool tp__turn_table_is_busy(tp__turn_table *table);
/** Every tp__turn_table_take() after this sees what the caller wrote before it. */
void tp__turn_table_fence(tp__turn_table *table);

/** Takes a batch of entry ids: those above the returned id, up to *ret_last. */
uint64_t tp__entry_ids_take(struct tp_runtime *runtime, uint32_t count, uint64_t *ret_last);

#endif
