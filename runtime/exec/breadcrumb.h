/* SPDX-License-Identifier: Apache-2.0
 *
 * breadcrumb: which function a thread calls, in memory of the store that outlives the process. A thread writes its own
 * one, found by its number; of functions inside each other the inner one is named. */
#ifndef TP__BREADCRUMB_H
#define TP__BREADCRUMB_H

#include "runtime/exec/runtime.h"

enum { TP__BREADCRUMBS = 256 }; /* a power of two */

_Static_assert(sizeof(tp__a32) == sizeof(uint32_t), "a flag of a breadcrumb is written as an atomic");
static inline tp__a32 *tp__breadcrumb_flag(tp_breadcrumb *b) { return (tp__a32 *)(void *)&b->is_running; }
/** The calling thread's; NULL where the store has none. */
static inline tp_breadcrumb *tp__breadcrumb_here(const tp_runtime *runtime) {
  return runtime->breadcrumbs ? &runtime->breadcrumbs[tp__thread_number() % TP__BREADCRUMBS] : NULL;
}
/** The turn and phase of what is called next. @param b  may be NULL, as below. */
void tp__breadcrumb_turn(tp_breadcrumb *b, const tp__turn *turn, tp_phase_id phase, uint64_t entry_id,
                         int64_t started_ns);
/** Before the function is called. */
void tp__breadcrumb_enter(tp_breadcrumb *b, const char *subscription, const char *handler);
/** When it has returned. */
static inline void tp__breadcrumb_leave(tp_breadcrumb *b) {
  if (b) tp__a32_store_release(tp__breadcrumb_flag(b), 0);
}

/** All of it for a node of an entry. @return what to leave. */
tp_breadcrumb *tp__breadcrumb_of_node(const tp__entry *e, uint32_t index, int64_t started_ns);
/** The same for a function of the layer above. */
tp_breadcrumb *tp__breadcrumb_of_function(const tp__turn *turn, const char *name, int64_t started_ns);

#endif
