/* SPDX-License-Identifier: Apache-2.0
 *
 * node_attempt: how an entry runs the nodes that leave its owner's thread. */
#ifndef TP__NODE_ATTEMPT_H
#define TP__NODE_ATTEMPT_H

#include "runtime/exec/entry.h"

/** Submits the node to a handler thread. @return a reason when it is refused at once. */
tp_reason tp__node_submit(tp__entry *entry, uint32_t index, int64_t deadline_ns, int64_t timeout_ns);
/** The attempts of handlers. */
extern const tp__attempt_class tp__node_attempt_class;
/** Makes the attempt after an inline call has deferred. */
tp_status tp__node_defer_inline(tp_call *call, const tp_deferral *deferral, tp_token *ret_token);

/** Frees the ended attempts that were kept for the entry; the entry's last reference is gone. Any thread. */
void tp__node_attempts_free(tp__entry *entry);

#endif
