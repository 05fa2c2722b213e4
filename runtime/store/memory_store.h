/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_store: the part of the memory store that only the engine uses: it takes all packed records of a turn at
 * once. */
#ifndef TP__MEMORY_STORE_H
#define TP__MEMORY_STORE_H

#include "runtime/store/record_pack.h"

/** Whether a memory store keeps the records of this store, whatever the other functions of the store are. */
bool tp__memory_store_is(const tp_store *store);
/** @param ctx  of such a store. */
tp_status tp__memory_store_take(void *ctx, const tp__record_source *from, const tp__record_batch *batch);

#endif
