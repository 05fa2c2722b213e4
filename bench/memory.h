/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h: an allocator that counts. Each of its calls costs one or two atomic additions, so timed code that allocates
 * should not use it. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stdatomic.h>

#include "turnphase/turnphase.h"

typedef struct bench_memory {
  _Atomic size_t calls; /* how many calls of alloc there were */
  _Atomic size_t bytes; /* bytes that are allocated now */
} bench_memory;

/** @param memory  must live as long as what uses the allocator. */
tp_allocator bench_memory_allocator(bench_memory *memory);

#endif
