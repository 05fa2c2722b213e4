/* SPDX-License-Identifier: Apache-2.0
 *
 * keeping: the deferred writer of memories. What a turn leaves is handed over whole and copied, and the store's thread
 * writes all that waits in one transaction, in the order in which it came. No thread of a handler waits for the disk,
 * so as many sessions share a sync as have jobs, and not as many as there are threads. Never: calls back under a lock,
 * knows a call. */
#ifndef TP__MEMORY_KEEPING_H
#define TP__MEMORY_KEEPING_H

#include "domains/memory/store.h"

/** Texts of one scope that are kept together, or not at all. */
typedef struct tp__memory_keeping tp__memory_keeping;

/** What became of it, on the store's thread, without a lock: TP_OK after the commit, durable unless the store is async;
 *  else why nothing of it is kept. It may close the store. Without memory to hand it over, it comes at once, on the
 *  calling thread. */
typedef void (*tp__memory_kept_fn)(uint64_t tag, tp_status status);

/** Copies everything. @param count  above 0.   @return NULL without memory. */
tp__memory_keeping *tp__memory_keeping_new(tp__memory_store *store, const tp__memory_scope *scope,
                                           const tp__memory *memories, size_t count);
/** Of one that was not handed over. Accepts NULL. */
void tp__memory_keeping_free(tp__memory_keeping *keeping);
/** Hands it over: it is the store's, and `end` comes once, also where the store is closed before. What is kept is what
 *  tp__memory_put() would keep. Any thread, without a lock. */
void tp__memory_keep_later(tp__memory_keeping *keeping, tp__memory_kept_fn end, uint64_t tag);

#endif
