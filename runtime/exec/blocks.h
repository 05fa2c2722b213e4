/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks: the allocator cache for entries, attempts and records. In steady state the host's allocator is not called.
 * Sizes are powers of two from 1 KiB, and half-way between; more than 1 MiB is not cached. A thread takes blocks from
 * its thread cache first (thread_cache.h; an engine worker without a lock). It takes the newest block first, which is
 * likely in the processor's cache. Lock: `blocks`, for the lists of full magazines. */
#ifndef TP__BLOCKS_H
#define TP__BLOCKS_H

#include "runtime/exec/thread_cache.h"

typedef struct tp__blocks {
  /* never changes after init */
  const tp_allocator *allocator;
  const tp__thread_caches *caches;
  tp_allocator as_allocator; /* an allocator that uses blocks, for arenas and writers */
  tp__mutex mutex;
  /* under mutex */
  tp__magazine_list magazines[TP__BLOCK_CLASSES];
} tp__blocks;

tp_status tp__blocks_init(tp__blocks *blocks, const tp_allocator *allocator, const tp__thread_caches *caches);
/** Frees all cached memory, including that in the thread caches. */
void tp__blocks_fini(tp__blocks *blocks);
/** @return uninitialised memory of *ret_size >= size bytes, aligned for any type, or NULL. */
void *tp__block_take(tp__blocks *blocks, size_t size, size_t *ret_size);
void tp__block_give(tp__blocks *blocks, void *block, size_t size);

#endif
