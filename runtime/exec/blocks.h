/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks: memory of entries, attempts and records, kept for the next of them, so that a steady state asks the allocator
 * for nothing. Sizes are powers of two from 1 KiB, and half-way between; larger than 1 MiB is not kept. Each thread has
 * some at hand (kept.h), an engine worker without a lock: what it gave last is what it takes next, and still in its
 * cache. Lock: `blocks`, for what is kept beyond that. */
#ifndef TP__BLOCKS_H
#define TP__BLOCKS_H

#include "runtime/exec/kept.h"

typedef struct tp__blocks {
  /* never changes after init */
  const tp_allocator *allocator;
  const tp__keep *keep;
  tp__mutex mutex;
  /* under mutex */
  tp__depot depots[TP__BLOCK_CLASSES];
} tp__blocks;

tp_status tp__blocks_init(tp__blocks *blocks, const tp_allocator *allocator, const tp__keep *keep);
/** Frees what is kept, also what threads have at hand. */
void tp__blocks_fini(tp__blocks *blocks);
/** @return uninitialised memory of *ret_size >= size bytes, aligned for any type, or NULL. */
void *tp__block_take(tp__blocks *blocks, size_t size, size_t *ret_size);
void tp__block_give(tp__blocks *blocks, void *block, size_t size);

#endif
