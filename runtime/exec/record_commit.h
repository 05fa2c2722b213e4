/* SPDX-License-Identifier: Apache-2.0
 *
 * record_commit: the commit that the end of an entry waits for, with durability SYNC. */
#ifndef TP__RECORD_COMMIT_H
#define TP__RECORD_COMMIT_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

/** Commits what was handed to the store. on_end comes on the owner, be it before this returns. */
void tp__entry_commit(tp__entry *entry, void (*on_end)(tp__entry *entry, tp_status status, const tp_fault *fault));

/** Commits what the store was given. Blocks. */
tp_status tp__store_commit(tp_runtime *runtime, tp_fault *fault);

#endif
