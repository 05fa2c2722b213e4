/* SPDX-License-Identifier: Apache-2.0
 *
 * permits: how many handler threads one subscription, or one object of the agent layer, occupies, and the line of those
 * that wait for a permit. A function holds its permit until it returns, also when it was abandoned; one that waits for
 * something of its own runtime returns it meanwhile, and comes before the line when it wants it back. How many permits
 * there are is given with each call: the same permits may be used by plans with different numbers. No lock of its
 * own: the caller holds the pool's. */
#ifndef TP__PERMITS_H
#define TP__PERMITS_H

#include "runtime/base/base.h"

typedef struct tp__permits {
  uint32_t used; /* functions that run, abandoned ones included */
  uint32_t abandoned;
  uint32_t returning; /* functions that waited, and wait for their permit */
  tp__link line;      /* of pool items */
} tp__permits;

void tp__permits_init(tp__permits *permits);
/** Takes one for a function that has not begun. @return false when there is none. */
bool tp__permits_try(tp__permits *permits, uint32_t most);
/** Whether abandoned functions hold all of them. */
static inline bool tp__permits_are_lost(const tp__permits *permits, uint32_t most) {
  return permits->abandoned >= most;
}
/** The function that holds one is abandoned from now on. */
void tp__permits_abandon(tp__permits *permits);
/** Returns one. @param abandoned  whether its function was. */
void tp__permits_return(tp__permits *permits, bool abandoned);
/** The function that returned one wants it back: nothing else takes one before tp__permits_resume() has. */
void tp__permits_reserve(tp__permits *permits);
/** Takes what was reserved. @return false when there is none. */
bool tp__permits_resume(tp__permits *permits, uint32_t most);
/** The first in line; NULL: none. */
static inline tp__link *tp__permits_first(const tp__permits *permits) {
  return tp__list_empty(&permits->line) ? NULL : permits->line.next;
}

#endif
