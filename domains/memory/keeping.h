/* SPDX-License-Identifier: Apache-2.0
 *
 * keeping: the deferred writer of memories. The texts of a turn are submitted together and copied. The store's thread
 * writes everything that waits in one transaction, in the order of arrival. No handler thread waits for the disk, so
 * the number of sessions that share a sync is not limited by the number of threads. It never calls back under a lock,
 * and does not know calls of handlers. */
#ifndef TP__MEMORY_KEEPING_H
#define TP__MEMORY_KEEPING_H

#include "domains/memory/store.h"

/** Texts of one scope that are kept together, or not at all. */
typedef struct tp__memory_keeping tp__memory_keeping;

/** Receives the outcome, on the store's thread, without a lock: TP_OK after the commit, durable unless the store is
 *  async; else why nothing was kept. It may close the store. When there is no memory to submit the texts, it is called
 *  at once, on the calling thread. */
typedef void (*tp__memory_kept_fn)(uint64_t tag, tp_status status);

/** Copies everything. @param count  above 0.   @return NULL without memory. */
tp__memory_keeping *tp__memory_keeping_new(tp__memory_store *store, const tp__memory_scope *scope,
                                           const tp__memory *memories, size_t count);
/** Frees texts that were not submitted. Accepts NULL. */
void tp__memory_keeping_free(tp__memory_keeping *keeping);
/** Submits the texts: the store takes them, and `end` is called once, also when the store is closed before. The effect
 *  is that of tp__memory_put(). Any thread, without a lock. */
void tp__memory_keep_later(tp__memory_keeping *keeping, tp__memory_kept_fn end, uint64_t tag);

#endif
