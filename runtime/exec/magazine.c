/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/magazine.h"

typedef struct first {
  void *next; /* in the magazine */
  void *next_magazine;
  size_t count;
} first;

void tp__depot_put(tp__depot *depot, tp__magazine magazine) {
  if (magazine.count == 0) return;
  first *f = magazine.items;
  TP__ASSERT(f && f != depot->magazines);
  f->next_magazine = depot->magazines;
  f->count = magazine.count;
  depot->magazines = f;
  depot->count += magazine.count;
}

tp__magazine tp__depot_get(tp__depot *depot) {
  first *f = depot->magazines;
  if (!f) return (tp__magazine){NULL, 0};
  TP__ASSERT(f->count > 0 && f->count <= depot->count);
  depot->magazines = f->next_magazine;
  depot->count -= f->count;
  return (tp__magazine){f, (uint32_t)f->count};
}
