/* SPDX-License-Identifier: Apache-2.0
 *
 * permits: how many handler threads one subscription, or one object of the agent layer, may occupy, and the line of
 * functions that wait for a permit. A function holds its permit until it returns, also when it was abandoned. A
 * function that waits for something of its own runtime returns its permit meanwhile; when it wants the permit back, it
 * comes before the line. The number of permits is a parameter of each call, because plans with different numbers may
 * use the same permits. No lock of its own: the caller holds the pool's. */
#ifndef TP__PERMITS_H
#define TP__PERMITS_H

#include "runtime/base/base.h"

typedef struct tp__permits {
  uint32_t used; /* functions that run, abandoned ones included */
  uint32_t abandoned;
  uint32_t returning; /* functions that had paused, and now wait to get their permit back */
  tp__link line;      /* of pool items */
} tp__permits;

void tp__permits_init(tp__permits *permits);
/** Takes a permit for a function that has not begun. @return false when there is none. */
bool tp__permits_try(tp__permits *permits, uint32_t most);
/** Whether abandoned functions hold all permits. */
static inline bool tp__permits_are_lost(const tp__permits *permits, uint32_t most) {
  return permits->abandoned >= most;
}
/** A function that holds a permit becomes abandoned. */
void tp__permits_abandon(tp__permits *permits);
/** Returns a permit. @param abandoned whether its function was abandoned. */
void tp__permits_return(tp__permits *permits, bool abandoned);
/** The function that returned a permit wants it back: no other function gets one before tp__permits_resume() has taken
 *  it. */
void tp__permits_reserve(tp__permits *permits);
/** Takes the reserved permit. @return false when there is none yet. */
bool tp__permits_resume(tp__permits *permits, uint32_t most);
/** The first in line; NULL: none. */
static inline tp__link *tp__permits_first(const tp__permits *permits) {
  return tp__list_empty(&permits->line) ? NULL : permits->line.next;
}

#endif
