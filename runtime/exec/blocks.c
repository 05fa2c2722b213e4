/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/blocks.h"

enum { LIST_BYTES_MAX = 8 << 20 /* of each class */, MAGAZINE_BYTES = 64 << 10, MAGAZINE_MAX = 32 };

/* 0: 1024; 1: 1536; 2: 2048; 3: 3072; … */
static int class_of(size_t size) {
  if (size <= TP__BLOCK_BYTES_MIN) return 0;
  size_t halves = (size - 1) / (TP__BLOCK_BYTES_MIN / 2);
  TP__ASSERT(halves > 0);
  int highest = 63 - __builtin_clzll(halves);
  return 2 * highest - 1 + (int)(halves >> (highest - 1) & 1);
}

static size_t class_size(int class) {
  TP__ASSERT(class >= 0 && class < TP__BLOCK_CLASSES);
  return (size_t)(class & 1 ? 3 : 2) * (TP__BLOCK_BYTES_MIN / 2) << class / 2;
}

/* How many blocks a magazine holds: a thread cache has at most twice as many. */
static uint32_t most(int class) {
  size_t fits = MAGAZINE_BYTES / class_size(class);
  return fits > MAGAZINE_MAX ? MAGAZINE_MAX : fits < 1 ? 1 : (uint32_t)fits;
}

static void *allocate_block(void *ctx, size_t size) {
  size_t got;
  return tp__block_take(ctx, size, &got);
}

static void free_block(void *ctx, void *memory, size_t size) { tp__block_give(ctx, memory, size); }

tp_status tp__blocks_init(tp__blocks *blocks, const tp_allocator *allocator, const tp__thread_caches *caches) {
  memset(blocks, 0, sizeof *blocks);
  blocks->allocator = allocator;
  blocks->caches = caches;
  blocks->as_allocator = (tp_allocator){allocate_block, free_block, blocks};
  return tp__mutex_init(&blocks->mutex, TP__RANK_blocks);
}

static void release_all(const tp__blocks *blocks, tp__magazine magazine, int class) {
  while (magazine.count-- > 0) {
    void *block = magazine.items;
    memcpy(&magazine.items, block, sizeof(void *));
    tp__release(blocks->allocator, block, class_size(class));
  }
}

void tp__blocks_fini(tp__blocks *blocks) {
  for (int class = 0; class < TP__BLOCK_CLASSES; class ++) {
    for (uint32_t i = 0; i < blocks->caches->count; i++) {
      tp__magazines *magazines = &tp__thread_cache_at(blocks->caches, i)->blocks[class];
      release_all(blocks, magazines->loaded, class);
      release_all(blocks, magazines->previous, class);
      *magazines = (tp__magazines){0};
    }
    while (blocks->magazines[class].count > 0)
      release_all(blocks, tp__magazine_list_pop(&blocks->magazines[class]), class);
  }
  tp__mutex_fini(&blocks->mutex);
}

/* The thread cache is empty: takes a magazine from the list. */
static void *take_beyond(tp__blocks *blocks, tp__thread_cache *cache, int class) {
  tp__mutex_lock(&blocks->mutex);
  tp__magazine magazine = tp__magazine_list_pop(&blocks->magazines[class]);
  tp__mutex_unlock(&blocks->mutex);
  if (magazine.count == 0) return NULL;
  TP__ASSERT(cache->blocks[class].loaded.count == 0); /* else its blocks would be lost */
  cache->blocks[class].loaded = magazine;
  return tp__magazines_take(&cache->blocks[class]);
}

void *tp__block_take(tp__blocks *blocks, size_t size, size_t *ret_size) {
  int class = class_of(size);
  if (class >= TP__BLOCK_CLASSES) {
    *ret_size = size;
    return tp__alloc(blocks->allocator, size);
  }
  *ret_size = class_size(class);
  tp__thread_cache *cache = tp__thread_cache_here(blocks->caches);
  tp__thread_cache_lock(cache);
  void *block = tp__magazines_take(&cache->blocks[class]);
  if (!block) block = take_beyond(blocks, cache, class);
  tp__thread_cache_unlock(cache);
  return block ? block : tp__alloc(blocks->allocator, *ret_size);
}

static void give_beyond(tp__blocks *blocks, tp__magazine magazine, int class) {
  tp__mutex_lock(&blocks->mutex);
  tp__magazine_list *list = &blocks->magazines[class];
  bool fits = (list->count + magazine.count) * class_size(class) <= LIST_BYTES_MAX;
  if (fits) tp__magazine_list_push(list, magazine);
  tp__mutex_unlock(&blocks->mutex);
  if (!fits) release_all(blocks, magazine, class);
}

void tp__block_give(tp__blocks *blocks, void *block, size_t size) {
  int class = class_of(size);
  TP__ASSERT(block && (class >= TP__BLOCK_CLASSES || size <= class_size(class)));
  if (class >= TP__BLOCK_CLASSES) {
    tp__release(blocks->allocator, block, size);
    return;
  }
  tp__magazine full;
  tp__thread_cache *cache = tp__thread_cache_here(blocks->caches);
  tp__thread_cache_lock(cache);
  bool fits = tp__magazines_put(&cache->blocks[class], block, most(class), &full);
  tp__thread_cache_unlock(cache);
  if (!fits) give_beyond(blocks, full, class);
}
