/* SPDX-License-Identifier: Apache-2.0
 *
 * counting: an allocator that knows what it gave, and refuses when it is told to. For tests of one thread. */
#ifndef TEST_COUNTING_H
#define TEST_COUNTING_H

#include <stdlib.h>

#include "turnphase/base.h"

static long refuse_at = -1; /* how many are still granted before all are refused; below 0: every one is granted */
static long blocks_open;    /* given and not yet taken back */

static void *counting_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (refuse_at == 0) return NULL;
  if (refuse_at > 0) refuse_at--;
  void *memory = malloc(size);
  if (memory) blocks_open++;
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
