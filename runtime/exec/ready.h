/* SPDX-License-Identifier: Apache-2.0
 *
 * ready: the inline nodes of an entry that may be called now, a bit for each, so that the first in plan order is taken
 * first, whichever became ready when. Edges lead to higher indexes, so what is ready moves on through the words and is
 * looked for where the last one was. */
#ifndef TP__READY_H
#define TP__READY_H

#include "runtime/base/base.h"

typedef struct tp__ready {
  uint64_t *bits;
  uint32_t low;   /* no word before this one has a bit */
  uint32_t count; /* of bits */
} tp__ready;

static inline void tp__ready_push(tp__ready *ready, uint32_t index) {
  uint32_t word = index / 64;
  TP__ASSERT(!(ready->bits[word] >> index % 64 & 1)); /* a node becomes ready once */
  ready->bits[word] |= UINT64_C(1) << index % 64;
  if (word < ready->low) ready->low = word;
  ready->count++;
}

/** The first one. There must be one. */
static inline uint32_t tp__ready_first(tp__ready *ready) {
  TP__ASSERT(ready->count > 0);
  while (ready->bits[ready->low] == 0) ready->low++;
  return ready->low * 64 + (uint32_t)__builtin_ctzll(ready->bits[ready->low]);
}

/** Takes the first. */
static inline uint32_t tp__ready_pop(tp__ready *ready) {
  uint32_t first = tp__ready_first(ready);
  ready->bits[ready->low] &= ready->bits[ready->low] - 1;
  ready->count--;
  return first;
}

/** The next one behind an index. @return UINT32_MAX: there is none. */
static inline uint32_t tp__ready_behind(const tp__ready *ready, uint32_t index, uint32_t node_count) {
  for (uint32_t from = index + 1; from < node_count; from = (from / 64 + 1) * 64) {
    uint64_t bits = ready->bits[from / 64] >> from % 64;
    if (bits) return from + (uint32_t)__builtin_ctzll(bits);
  }
  return UINT32_MAX;
}

/** Takes one that is ready. */
static inline void tp__ready_take(tp__ready *ready, uint32_t index) {
  TP__ASSERT(ready->count > 0 && (ready->bits[index / 64] >> index % 64 & 1));
  ready->bits[index / 64] &= ~(UINT64_C(1) << index % 64);
  ready->count--;
}

#endif
