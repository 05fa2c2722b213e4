/* SPDX-License-Identifier: Apache-2.0
 *
 * drain: stops a runtime: at once for a caller that waits, on a thread of its own, or step by step in a pumped runtime.
 * A submitted drain is owned here, and freed after its on_end. Lock: that of the runtime. */
#ifndef TP__DRAIN_H
#define TP__DRAIN_H

#include "runtime/exec/runtime.h"

/** Takes one step of a drain that was submitted to a runtime without threads. On the thread that pumps.
 *  @return whether the pump has more to do at once. If not, it looks again at *ret_next_ns, if that was set. */
bool tp__drain_pump(tp_runtime *runtime, int64_t *ret_next_ns);
/** Waits until the on_end of a submitted drain has returned. The runtime is drained. */
void tp__drain_join(tp_runtime *runtime);

#endif
