/* SPDX-License-Identifier: Apache-2.0
 *
 * thread_cache: free memory, quota, pins and numbers of a runtime, cached per thread, so that turns in steady state
 * write no cache line that another thread writes at the same time. An engine worker has a cache of its own; all other
 * threads share TP__THREAD_CACHES_SHARED of them, by thread number. Lock: `thread_cache`, one per cache, seldom
 * contended.
 *
 * Only the sum of a counter over all caches is correct: a turn that begins on one thread and ends on another takes a
 * pin of the snapshot and quota from the first cache, and returns them to the second. */
#ifndef TP__THREAD_CACHE_H
#define TP__THREAD_CACHE_H

#include "runtime/exec/magazine.h"
#include "runtime/plan/plan.h"

enum { TP__BLOCK_BYTES_MIN = 1024, TP__BLOCK_CLASSES = 21, TP__THREAD_CACHES_SHARED = 16, TP__COUNTS = 8 };

typedef struct tp__thread_cache {
  tp__mutex mutex;
  /* under mutex */
  tp__pins pins;
  uint32_t quota;           /* turns that may begin before the cache needs more quota from the table (turn_table.c) */
  tp__magazines free_turns; /* turn_table.c */
  uint64_t next_turn_number, end_turn_number;
  /* In a worker's cache only that thread uses these; in a shared cache they are under mutex */
  bool is_own;
  uint64_t last_entry_id, last_entry_id_of_batch;
  tp__magazines blocks[TP__BLOCK_CLASSES]; /* blocks.c */
  /* atomic, relaxed */
  tp__a64 counts[TP__COUNTS]; /* counters of the agent layer; counted up in one cache and down in another */
} tp__thread_cache;

enum { TP__THREAD_CACHE_STRIDE = 128 * ((sizeof(tp__thread_cache) + 127) / 128) }; /* two never share a pair of lines */

typedef struct tp__thread_caches {
  /* never changes after init */
  const tp_allocator *allocator;
  void *memory;
  size_t memory_size;
  char *all; /* TP__THREAD_CACHES_SHARED shared caches, then one per engine worker */
  uint32_t count;
} tp__thread_caches;

tp_status tp__thread_caches_init(tp__thread_caches *caches, const tp_allocator *allocator, uint32_t workers);
/** Blocks and the turn table must be freed before. */
void tp__thread_caches_fini(tp__thread_caches *caches);

static inline tp__thread_cache *tp__thread_cache_at(const tp__thread_caches *caches, uint32_t index) {
  return (tp__thread_cache *)(void *)(caches->all + (size_t)index * TP__THREAD_CACHE_STRIDE);
}
/** The cache of an engine worker, which the worker stores as its home. */
static inline tp__thread_cache *tp__thread_cache_of_worker(const tp__thread_caches *caches, uint32_t worker) {
  return tp__thread_cache_at(caches, TP__THREAD_CACHES_SHARED + worker);
}
/** The calling thread's. */
static inline tp__thread_cache *tp__thread_cache_here(const tp__thread_caches *caches) {
  tp__here *here = tp__here_get();
  /* for a worker of another runtime the result is out of range */
  uintptr_t from = (uintptr_t)here->home - (uintptr_t)caches->all;
  if (from < (size_t)caches->count * TP__THREAD_CACHE_STRIDE) return here->home;
  return tp__thread_cache_at(caches, tp__thread_number() % TP__THREAD_CACHES_SHARED);
}
/** Locks a shared cache; a worker's own needs no lock. */
static inline void tp__thread_cache_lock(tp__thread_cache *cache) {
  if (!cache->is_own) tp__mutex_lock(&cache->mutex);
}
static inline void tp__thread_cache_unlock(tp__thread_cache *cache) {
  if (!cache->is_own) tp__mutex_unlock(&cache->mutex);
}

/** Adds to a counter for statistics. by: 1, or -1 as an unsigned number. */
static inline void tp__thread_caches_count(const tp__thread_caches *caches, uint32_t index, uint64_t by) {
  tp__a64_add_relaxed(&tp__thread_cache_here(caches)->counts[index], by);
}
/** The sum over all caches. */
uint64_t tp__thread_caches_sum(const tp__thread_caches *caches, uint32_t index);

/** Called by the registry: every cache counts pins of this snapshot from now on. */
void tp__thread_caches_renew_pins(void *caches, tp__snapshot *newest);

#endif
