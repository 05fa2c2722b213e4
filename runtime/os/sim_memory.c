/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_memory.c: an allocator that refuses by the seed and counts the allocated bytes, and the memory that is never
 * freed. Each block has a header. With it a release with a wrong size is noticed, and the blocks that a broken run
 * leaves allocated can be freed when the next run begins. */
#include <stdlib.h>

#include "runtime/os/sim_internal.h"

#define sim tp__sim_state

typedef struct block {
  tp__link link;
  uint64_t run;
  size_t size;
} block;

_Static_assert(sizeof(block) % 16 == 0, "what follows a header is aligned for any type");

static tp__link blocks = {&blocks, &blocks};
static size_t bytes_open;

static void *sim_alloc(void *ctx, size_t size) {
  (void)ctx;
  assert(size > 0);
  if (sim.running && sim.refuses && tp__stream_one_in(&sim.refusal, sim.options.alloc_refuse_inverse)) return NULL;
  block *b = size <= SIZE_MAX - sizeof *b ? malloc(sizeof *b + size) : NULL;
  if (!b) return NULL;
  b->run = sim.run;
  b->size = size;
  tp__list_push(&blocks, &b->link);
  bytes_open += size;
  memset(b + 1, 0xA5, size); /* no caller may count on zeroes */
  return b + 1;
}

static void free_block(block *b) {
  bytes_open -= b->size;
  tp__list_remove(&b->link);
  free(b);
}

static void sim_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  block *b = (block *)memory - 1;
  assert(b->size == size);
  (void)size;
  free_block(b);
}

tp_allocator tp__sim_allocator(void) { return (tp_allocator){.alloc = sim_alloc, .release = sim_release}; }
size_t tp__sim_bytes_open(void) { return bytes_open; }
void tp__sim_refusals(bool on) { sim.refuses = on; }

/* ---- memory that is never freed, and the beginning and end of a run ---- */

typedef struct eternal {
  struct eternal *next;
  void *memory;
} eternal;

static eternal *eternals;
static void (*clear)(void);
static uint64_t broken_run; /* 0: none */

void *tp__os_alloc_forever(size_t size) {
  /* These refusals have a random stream of their own. Otherwise static memory that exists already would change which
   * other allocations are refused. */
  if (sim.running && sim.refuses && tp__stream_one_in(&sim.forever, sim.options.alloc_refuse_inverse)) return NULL;
  eternal *e = malloc(sizeof *e);
  void *memory = NULL;
  if (!e || posix_memalign(&memory, 64, size ? size : 1) != 0) {
    free(e);
    return NULL;
  }
  *e = (eternal){eternals, memory};
  eternals = e;
  return memset(memory, 0, size);
}

void tp__sim_on_clear(void (*function)(void)) { clear = function; }

static void free_eternals(void) {
  while (eternals) {
    eternal *e = eternals;
    eternals = e->next;
    free(e->memory);
    free(e);
  }
}

static void free_blocks_of(uint64_t run) {
  for (tp__link *link = blocks.next, *next; link != &blocks; link = next) {
    next = link->next;
    block *b = TP__CONTAINER(link, block, link);
    if (b->run == run) free_block(b);
  }
}

void tp__sim_memory_begin(void) {
  if (broken_run) free_blocks_of(broken_run);
  broken_run = 0;
  if (!clear) return;
  clear();
  free_eternals();
}

void tp__sim_memory_abandon(void) { broken_run = sim.run; }
