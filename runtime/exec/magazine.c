/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/magazine.h"

typedef struct first {
  void *next; /* in the magazine */
  void *next_magazine;
  size_t count;
} first;

void tp__magazine_list_push(tp__magazine_list *list, tp__magazine magazine) {
  if (magazine.count == 0) return;
  first *f = magazine.items;
  TP__ASSERT(f && f != list->first);
  f->next_magazine = list->first;
  f->count = magazine.count;
  list->first = f;
  list->count += magazine.count;
}

tp__magazine tp__magazine_list_pop(tp__magazine_list *list) {
  first *f = list->first;
  if (!f) return (tp__magazine){NULL, 0};
  TP__ASSERT(f->count > 0 && f->count <= list->count);
  list->first = f->next_magazine;
  list->count -= f->count;
  return (tp__magazine){f, (uint32_t)f->count};
}
