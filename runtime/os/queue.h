/* SPDX-License-Identifier: Apache-2.0
 *
 * queue: a bounded queue of pointers for many producers and many consumers, and the only code that uses Concurrency Kit
 * (ck_ring). It owns its buffer. Producers take turns by a lock, `run_queue`; consumers never block.
 * A push releases and a pop acquires: the thread that popped an item sees everything written before the push. Neither
 * is a full barrier. queue.c describes what else is needed when threads sleep until the queue has items.
 * ThreadSanitizer sees what a push orders (tsan_ck_pr.h). */
#ifndef TP__QUEUE_H
#define TP__QUEUE_H

#include "runtime/os/os.h"

typedef struct tp__queue_mpmc tp__queue_mpmc;

/** Holds at least capacity pointers (rounded up to a power of two). */
tp_status tp__queue_mpmc_new(const tp_allocator *allocator, size_t capacity, tp__queue_mpmc **ret_queue);
void tp__queue_mpmc_free(tp__queue_mpmc *queue);
/** @return false when full. */
bool tp__queue_mpmc_push(tp__queue_mpmc *queue, void *item);
/** Takes up to `most` items, one after the other. @return how many; 0 when the queue is empty. */
uint32_t tp__queue_mpmc_pop_some(tp__queue_mpmc *queue, void **items, uint32_t most);
/** @return NULL when empty. */
void *tp__queue_mpmc_pop(tp__queue_mpmc *queue);
/** The count and the emptiness at the moment of the call; both may have changed when the function returns. */
size_t tp__queue_mpmc_count(const tp__queue_mpmc *queue);
bool tp__queue_mpmc_empty(const tp__queue_mpmc *queue);

#endif
