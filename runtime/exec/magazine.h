/* SPDX-License-Identifier: Apache-2.0
 *
 * magazine: lists of free memory of one size (Bonwick and Adams, "Magazines and Vmem", 2001). A thread cache has two
 * magazines per size, a loaded and a previous one, and exchanges a whole magazine with a list of them, which all
 * threads share, when both are empty or both full. With two magazines, a thread that alternates between taking and
 * returning does not lock the list each time. The links are stored in the free memory itself, in its first three words.
 * No lock of its own: the caller holds the lock of the cache or of the list. */
#ifndef TP__MAGAZINE_H
#define TP__MAGAZINE_H

#include "runtime/base/base.h"

typedef struct tp__magazine {
  /* linked by their first word; in the first item, the second word links magazines and the third is the count */
  void *items;
  uint32_t count;
} tp__magazine;

typedef struct tp__magazines {
  tp__magazine loaded, previous;
} tp__magazines;

typedef struct tp__magazine_list {
  void *first;  /* the first item of the first magazine; magazines are linked by their first items */
  size_t count; /* items of all of them */
} tp__magazine_list;

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

/** @param most the most items of a magazine. @return false when both magazines were full: *ret_full was taken out, for
 *    the list. */
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

void tp__magazine_list_push(tp__magazine_list *list, tp__magazine magazine);
/** @return an empty magazine when there is none. */
tp__magazine tp__magazine_list_pop(tp__magazine_list *list);

#endif
