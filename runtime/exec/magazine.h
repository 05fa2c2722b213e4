/* SPDX-License-Identifier: Apache-2.0
 *
 * magazine: lists of free memory of one size (Bonwick and Adams, "Magazines and Vmem", 2001). A thread cache has two
 * magazines per size, a loaded and a previous one, and exchanges a whole magazine with the depot, which all threads
 * share, when both are empty or both full. Two, so that a thread that alternates between taking and returning does not
 * go to the depot each time. The links are stored in the free memory itself, in its first three words. No lock of its
 * own: the caller holds the lock of the cache or of the depot. */
#ifndef TP__MAGAZINE_H
#define TP__MAGAZINE_H

#include "runtime/base/base.h"

typedef struct tp__magazine {
  void *items; /* linked by their first word; the second word of the first item links magazines, its third counts */
  uint32_t count;
} tp__magazine;

typedef struct tp__magazines {
  tp__magazine loaded, previous;
} tp__magazines;

typedef struct tp__depot {
  void *magazines;
  size_t count; /* items in all of them */
} tp__depot;

/** @return NULL when it is empty. */
static inline void *tp__magazines_take(tp__magazines *magazines) {
  if (magazines->loaded.count == 0) {
    if (magazines->previous.count == 0) return NULL;
    magazines->loaded = magazines->previous;
    magazines->previous = (tp__magazine){NULL, 0};
  }
  void *item = magazines->loaded.items;
  TP__ASSERT(item); /* a magazine that counts has items */
  memcpy(&magazines->loaded.items, item, sizeof(void *));
  magazines->loaded.count--;
  return item;
}

/** @param most  items of a magazine. @return false when both were full: *ret_full was taken out, for the depot. */
static inline bool tp__magazines_put(tp__magazines *magazines, void *item, uint32_t most, tp__magazine *ret_full) {
  TP__ASSERT(item && item != magazines->loaded.items && item != magazines->previous.items); /* it is returned once */
  bool full = magazines->loaded.count >= most;
  if (full) {
    *ret_full = magazines->previous;
    magazines->previous = magazines->loaded;
    magazines->loaded = (tp__magazine){NULL, 0};
    full = ret_full->count > 0;
  }
  memcpy(item, &magazines->loaded.items, sizeof(void *));
  magazines->loaded.items = item;
  magazines->loaded.count++;
  return !full;
}

void tp__depot_put(tp__depot *depot, tp__magazine magazine);
/** @return an empty one when there is none. */
tp__magazine tp__depot_get(tp__depot *depot);

#endif
