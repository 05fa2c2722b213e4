/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h: an allocator that counts. It costs an atomic addition or two for each call of it, so whatever is timed and
 * allocates should rather go without. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stdatomic.h>

#include "turnphase/turnphase.h"

typedef struct bench_memory {
  _Atomic size_t calls; /* of alloc, ever */
  _Atomic size_t bytes; /* held now */
} bench_memory;

/** @param memory  must live as long as what uses the allocator. */
tp_allocator bench_memory_allocator(bench_memory *memory);

#endif
