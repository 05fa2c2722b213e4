/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/blocks.h"

enum { KEPT_BYTES_MAX = 8 << 20 }; /* of each class */

static int class_of(size_t size) {
  int class = 0;
  while (class < TP__BLOCK_CLASSES && ((size_t)TP__BLOCK_BYTES_MIN << class) < size) class ++;
  return class;
}

tp_status tp__blocks_init(tp__blocks *blocks, const tp_allocator *allocator) {
  memset(blocks, 0, sizeof *blocks);
  blocks->allocator = allocator;
  return tp__mutex_init(&blocks->mutex);
}

void tp__blocks_fini(tp__blocks *blocks) {
  for (int class = 0; class < TP__BLOCK_CLASSES; class ++) {
    while (blocks->free[class]) {
      void *block = blocks->free[class];
      memcpy(&blocks->free[class], block, sizeof(void *));
      tp__release(blocks->allocator, block, (size_t)TP__BLOCK_BYTES_MIN << class);
    }
  }
  tp__mutex_fini(&blocks->mutex);
}

void *tp__block_take(tp__blocks *blocks, size_t size, size_t *ret_size) {
  int class = class_of(size);
  if (class == TP__BLOCK_CLASSES) {
    *ret_size = size;
    return tp__alloc(blocks->allocator, size);
  }
  *ret_size = (size_t)TP__BLOCK_BYTES_MIN << class;
  tp__mutex_lock(&blocks->mutex);
  void *block = blocks->free[class];
  if (block) {
    memcpy(&blocks->free[class], block, sizeof(void *));
    blocks->count[class]--;
  }
  tp__mutex_unlock(&blocks->mutex);
  return block ? block : tp__alloc(blocks->allocator, *ret_size);
}

void tp__block_give(tp__blocks *blocks, void *block, size_t size) {
  int class = class_of(size);
  if (class < TP__BLOCK_CLASSES) {
    tp__mutex_lock(&blocks->mutex);
    if (blocks->count[class] < ((size_t)KEPT_BYTES_MAX >> class) / TP__BLOCK_BYTES_MIN) {
      memcpy(block, &blocks->free[class], sizeof(void *));
      blocks->free[class] = block;
      blocks->count[class]++;
      block = NULL;
    }
    tp__mutex_unlock(&blocks->mutex);
  }
  if (block) tp__release(blocks->allocator, block, size);
}
