/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_store: what the engine knows of the store of the house beside its public interface: it takes a turn's packed
 * records at once. */
#ifndef TP__MEMORY_STORE_H
#define TP__MEMORY_STORE_H

#include "runtime/store/record_pack.h"

/** @param self  of a tp_store that tp_memory_store_new() made. */
tp_status tp__memory_store_take(void *self, const tp_text *ids, const tp__record_batch *batch);

#endif
