/* SPDX-License-Identifier: Apache-2.0 */
#include "support/references.h"

void tp__references_init(tp__references *references) {
  tp__lock_init(&references->lock, TP__LOCK_references);
  references->count = 1;
}

void tp__references_ref(tp__references *references) {
  tp__lock_acquire(&references->lock);
  assert(references->count > 0); /* the caller holds one */
  references->count++;
  tp__lock_release(&references->lock);
}

bool tp__references_unref(tp__references *references) {
  tp__lock_acquire(&references->lock);
  assert(references->count > 0);
  bool is_last = --references->count == 0;
  tp__lock_release(&references->lock);
  if (is_last) tp__lock_fini(&references->lock);
  return is_last;
}
