/* SPDX-License-Identifier: Apache-2.0
 *
 * record_commit: the commit for which the end of an entry waits when the durability is SYNC. */
#ifndef TP__RECORD_COMMIT_H
#define TP__RECORD_COMMIT_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

/** Commits the records that were passed to the store. on_end is called on the owner, perhaps before this returns. */
void tp__entry_commit(tp__entry *entry, void (*on_end)(tp__entry *entry, tp_status status, const tp_fault *fault));

/** Commits everything that the store was given. Blocks. */
tp_status tp__store_commit(tp_runtime *runtime, tp_fault *fault);

#endif
