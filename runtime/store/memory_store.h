/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_store: what the engine knows of the memory store beside its public interface: it takes a turn's packed
 * records at once. */
#ifndef TP__MEMORY_STORE_H
#define TP__MEMORY_STORE_H

#include "runtime/store/record_pack.h"

/** Whether the records of a store are those of a memory store, whatever its other functions are. */
bool tp__memory_store_is(const tp_store *store);
/** @param ctx  of such a store. */
tp_status tp__memory_store_take(void *ctx, const tp__record_source *from, const tp__record_batch *batch);

#endif
