/* SPDX-License-Identifier: Apache-2.0
 *
 * references: a count of references, for objects that several handlers hold. */
#ifndef TP__SUPPORT_REFERENCES_H
#define TP__SUPPORT_REFERENCES_H

#include "support/lock.h"

typedef struct tp__references {
  tp__lock lock;
  unsigned count; /* under lock */
} tp__references;

/** With one reference, the caller's. */
void tp__references_init(tp__references *references);
void tp__references_ref(tp__references *references);
/** @return true: it was the last reference, and the count has ended. */
bool tp__references_unref(tp__references *references);

#endif
