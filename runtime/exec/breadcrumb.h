/* SPDX-License-Identifier: Apache-2.0
 *
 * breadcrumb: which function a thread calls, in memory of the store that outlives the process. A thread writes its own
 * breadcrumb, found by its number. When functions are nested, the breadcrumb names the innermost one. */
#ifndef TP__BREADCRUMB_H
#define TP__BREADCRUMB_H

#include "runtime/exec/exec.h"

/** Sets the turn and the phase of the next call. @param b may be NULL, also in the functions below. */
void tp__breadcrumb_turn(tp_breadcrumb *b, const tp__turn *turn, tp_phase_id phase, uint64_t entry_id,
                         int64_t started_ns);
/** Writes up to 32 bytes as two words that may overlap: an inline handler takes less time than a call of memcpy.
 *  @param size  at least 1. */
static inline void tp__breadcrumb_copy(char *to, const char *from, size_t size) {
  if (size > 32 || size < 4) {
    memcpy(to, from, size);
  } else if (size >= 16) {
    memcpy(to, from, 16);
    memcpy(to + size - 16, from + size - 16, 16);
  } else if (size >= 8) {
    memcpy(to, from, 8);
    memcpy(to + size - 8, from + size - 8, 8);
  } else {
    memcpy(to, from, 4);
    memcpy(to + size - 4, from + size - 4, 4);
  }
}
/** @param size  below TP_ID_BYTES_MAX. */
static inline void tp__breadcrumb_put(char to[TP_ID_BYTES_MAX], const char *from, size_t size) {
  if (size > 0) tp__breadcrumb_copy(to, from, size);
  to[size] = '\0';
}
/** Before a node's function is called. */
static inline void tp__breadcrumb_enter(tp_breadcrumb *b, const tp__node *node) {
  tp__breadcrumb_put(b->subscription, node->subscription_name, node->subscription_bytes);
  tp__breadcrumb_put(b->handler, node->handler_name, node->handler_bytes);
  tp__a32_store_release(tp__breadcrumb_flag(b), 1);
}
/** Writes the whole breadcrumb for a node of an entry. @return the breadcrumb to leave afterwards. */
tp_breadcrumb *tp__breadcrumb_of_node(const tp__entry *e, uint32_t index, int64_t started_ns);
#endif
