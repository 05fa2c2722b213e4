/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_permits: how many calls of each tool run at once, over all turns of a runtime. The permits of a tool exist from
 * the first turn that has the tool until the runtime is freed. Lock: `tool_permits`, for the list; the permits
 * themselves change under the pool's lock. */
#ifndef TP__TOOL_PERMITS_H
#define TP__TOOL_PERMITS_H

#include "runtime/os/os.h"
#include "runtime/sched/permits.h"
#include "turnphase/runtime.h"

typedef struct tp__tool_permits {
  const tp_allocator *allocator;
  /* under mutex */
  tp__mutex mutex;
  tp__link list;
} tp__tool_permits;

tp_status tp__tool_permits_init(tp__tool_permits *permits, const tp_allocator *allocator);
/** No attempt is left that counts permits. */
void tp__tool_permits_fini(tp__tool_permits *permits);
/** Those of a runtime (agent_layer.c). */
tp__tool_permits *tp__layer_tool_permits(const tp_runtime *runtime);

/** The permits of a tool of an owner, shared by all turns. Any thread.
 *  @param ret_name    the tool's name, for as long as the runtime lives.
 *  @param ret_is_new  whether the runtime sees the tool for the first time.
 *  @return NULL without memory. */
tp__permits *tp__tool_permits_of(tp__tool_permits *permits, const char *owner, const char *tool, const char **ret_name,
                                 bool *ret_is_new);

#endif
