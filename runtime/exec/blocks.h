/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks: memory of turns, entries and attempts, kept for the next of them, so that a steady state asks the allocator
 * for nothing. Sizes are powers of two from 1 KiB; larger than 1 MiB is not kept. Lock: `blocks`. */
#ifndef TP__BLOCKS_H
#define TP__BLOCKS_H

#include "runtime/os/os.h"

enum { TP__BLOCK_BYTES_MIN = 1024, TP__BLOCK_CLASSES = 11 };

typedef struct tp__blocks {
  const tp_allocator *allocator;
  tp__mutex mutex;
  void *free[TP__BLOCK_CLASSES];     /* under mutex: linked through the first word */
  uint32_t count[TP__BLOCK_CLASSES]; /* under mutex */
} tp__blocks;

tp_status tp__blocks_init(tp__blocks *blocks, const tp_allocator *allocator);
void tp__blocks_fini(tp__blocks *blocks);
/** @return uninitialised memory of *ret_size >= size bytes, aligned for any type, or NULL. */
void *tp__block_take(tp__blocks *blocks, size_t size, size_t *ret_size);
void tp__block_give(tp__blocks *blocks, void *block, size_t size);

#endif
