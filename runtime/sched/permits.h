/* SPDX-License-Identifier: Apache-2.0
 *
 * permits: how many handler threads one subscription, or one thing of the layer above, occupies. */
#ifndef TP__PERMITS_H
#define TP__PERMITS_H

#include "runtime/base/base.h"

/** Set up once by tp__permits_init(), then under the pool's mutex. */
typedef struct tp__permits {
  uint32_t used; /* functions that run, abandoned ones included */
  uint32_t abandoned;
  uint32_t returning; /* functions that waited, and wait for their permit: they come before the queue */
  tp__link queue; /* attempts that wait for a permit */
} tp__permits;

static inline void tp__permits_init(tp__permits *permits) {
  permits->used = permits->abandoned = permits->returning = 0;
  tp__list_init(&permits->queue);
}

#endif
