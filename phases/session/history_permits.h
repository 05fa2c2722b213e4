/* SPDX-License-Identifier: Apache-2.0
 *
 * history_permits: how many calls of histories each tenant may run at once: half of what all tenants together may. So a
 * tenant with a slow store leaves threads to the others. Has no lock: the permits change under the pool's. */
#ifndef TP__HISTORY_PERMITS_H
#define TP__HISTORY_PERMITS_H

#include "runtime/sched/permits.h"
#include "turnphase/runtime.h"

/* A tenant's permits are found by a hash of its name, so two of many tenants may share them. */
enum { TP__HISTORY_PERMITS = 64 };

typedef struct tp__history_permits {
  uint32_t most; /* of one tenant; never changes after init */
  tp__permits by_tenant[TP__HISTORY_PERMITS];
} tp__history_permits;

/** @param handler_threads  of the runtime. */
void tp__history_permits_init(tp__history_permits *permits, uint32_t handler_threads);
/** Those of a runtime (agent_layer.c). */
tp__history_permits *tp__layer_history_permits(const tp_runtime *runtime);
/** @param tenant  NULL: none. */
tp__permits *tp__history_permits_of(tp__history_permits *permits, const char *tenant);

#endif
