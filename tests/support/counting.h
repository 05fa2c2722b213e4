/* SPDX-License-Identifier: Apache-2.0
 *
 * counting: an allocator that counts what it gave, to any thread, and refuses when a test with one thread says so. */
#ifndef TEST_COUNTING_H
#define TEST_COUNTING_H

#include <stdlib.h>

#include "turnphase/base.h"

/* how many allocations are still granted before all are refused; below 0: all are granted */
static long refuse_at = -1;
static _Atomic long blocks_open;      /* given and not yet taken back */
static _Atomic long takes;            /* granted so far */
static _Thread_local long takes_here; /* to this thread: that of the jobs asks for some now and then */

static void *counting_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (refuse_at == 0) return NULL;
  if (refuse_at > 0) refuse_at--;
  void *memory = malloc(size);
  if (!memory) return NULL;
  blocks_open++;
  takes++;
  takes_here++;
  return memory;
}

static void counting_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  blocks_open--;
  free(memory);
}

static const tp_allocator counting = {counting_alloc, counting_release, NULL};

#endif
