/* SPDX-License-Identifier: Apache-2.0
 *
 * ready: the quick nodes of an entry that may be called now, as a binary heap of their indexes: the first in plan order
 * is taken first, whichever became ready when. (Indexes by rising number are such a heap.) */
#ifndef TP__READY_H
#define TP__READY_H

#include <stdint.h>

/** @param count  before; the heap has room for one more. */
static inline void tp__ready_push(uint16_t *heap, uint32_t count, uint16_t index) {
  uint32_t at = count;
  while (at > 0 && heap[(at - 1) / 2] > index) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = index;
}

/** @param count  before, more than 0. @return the lowest. */
static inline uint16_t tp__ready_pop(uint16_t *heap, uint32_t count) {
  uint16_t first = heap[0], last = heap[--count];
  uint32_t at = 0;
  for (uint32_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= last) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return first;
}

#endif
