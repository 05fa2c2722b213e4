/* SPDX-License-Identifier: Apache-2.0
 *
 * shelf: free memory of one size, kept for whoever needs it next. A thread has two magazines at hand and looks no
 * further until both are empty, or full; then it changes a whole one with the depot, which all threads share (Bonwick
 * and Adams, 2001). Two, so that one who takes and gives at the edge does not go to the depot each time. The links lie
 * in the free memory itself: three words of each. Neither has a lock: the shelf is its thread's or under a lock of its
 * owner's, and so is the depot. */
#ifndef TP__SHELF_H
#define TP__SHELF_H

#include "runtime/base/base.h"

typedef struct tp__magazine {
  void *items; /* linked through their first word; the first one's second links magazines, its third counts */
  uint32_t count;
} tp__magazine;

typedef struct tp__shelf {
  tp__magazine loaded, other;
} tp__shelf;

typedef struct tp__depot {
  void *magazines;
  size_t count; /* items in all of them */
} tp__depot;

/** @return NULL when it is empty. */
static inline void *tp__shelf_take(tp__shelf *shelf) {
  if (shelf->loaded.count == 0) {
    if (shelf->other.count == 0) return NULL;
    shelf->loaded = shelf->other;
    shelf->other = (tp__magazine){NULL, 0};
  }
  void *item = shelf->loaded.items;
  memcpy(&shelf->loaded.items, item, sizeof(void *));
  shelf->loaded.count--;
  return item;
}

/** @param most  in a magazine. @return false when the shelf was full: then *ret_full has left it, for the depot. */
static inline bool tp__shelf_give(tp__shelf *shelf, void *item, uint32_t most, tp__magazine *ret_full) {
  bool full = shelf->loaded.count >= most;
  if (full) {
    *ret_full = shelf->other;
    shelf->other = shelf->loaded;
    shelf->loaded = (tp__magazine){NULL, 0};
    full = ret_full->count > 0;
  }
  memcpy(item, &shelf->loaded.items, sizeof(void *));
  shelf->loaded.items = item;
  shelf->loaded.count++;
  return !full;
}

void tp__depot_put(tp__depot *depot, tp__magazine magazine);
/** @return an empty one when there is none. */
tp__magazine tp__depot_get(tp__depot *depot);

#endif
