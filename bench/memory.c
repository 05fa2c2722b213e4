/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/memory.h"

#include <stdlib.h>

static void *counted_alloc(void *ctx, size_t size) {
  bench_memory *memory = ctx;
  atomic_fetch_add_explicit(&memory->calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&memory->bytes, size, memory_order_relaxed);
  return malloc(size);
}

static void counted_release(void *ctx, void *block, size_t size) {
  bench_memory *memory = ctx;
  atomic_fetch_sub_explicit(&memory->bytes, size, memory_order_relaxed);
  free(block);
}

tp_allocator bench_memory_allocator(bench_memory *memory) {
  return (tp_allocator){.alloc = counted_alloc, .release = counted_release, .ctx = memory};
}
