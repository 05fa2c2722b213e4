/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c: ck_ring with many consumers and one producer at a time, the only part of ck in use.
 *
 * How it works: a producer writes a place and publishes it; a consumer claims a published place by compare-and-swap.
 * Producers take turns by a lock. ck_ring has also a form for many producers, in which each producer claims a place and
 * spins until the producers before it have published their places. When one of them was preempted in between, all
 * others burned their time slices (10,000 turns in flight: 16 us of processor time a turn instead of 1).
 *
 * Order: a push releases and a pop acquires. There is no full barrier (it would treble the cost of a push). A thread
 * that is about to sleep changes a word by read-modify-write, and then looks whether the queue is empty. A thread that
 * has pushed looks for sleepers by a read-modify-write of the same word. So the later of the two threads sees what the
 * earlier one did. If either of them only loaded the word, the load could overtake the push in the store buffer. The
 * simulator has no store buffer and cannot find that error. */
#if !defined(__x86_64__)
#define CK_USE_CC_BUILTINS 1 /* every fence is a full one: the fences of ck 0.7.1 for ARM-like machines are too weak */
#endif
#if defined(__SANITIZE_THREAD__)
#include "runtime/os/tsan_ck_pr.h"
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include "runtime/os/tsan_ck_pr.h"
#endif
#endif

#ifdef TP__TSAN_CK_PR_H
#define memcpy tp__ck_copy
#endif
#include <ck_ring.h>
#undef memcpy

#include "runtime/os/queue.h"

enum { PLACES_MIN = 4, PLACES_MAX = 1 << 28 };

struct tp__queue_mpmc {
  ck_ring_t ring; /* atomic, by ck; the producers' side is under the lock */
  tp__mutex producers;
  tp_allocator allocator; /* this and all below never change after init */
  size_t size;
  ck_ring_buffer_t places[];
};

tp_status tp__queue_mpmc_new(const tp_allocator *allocator, size_t capacity, tp__queue_mpmc **ret_queue) {
  if (capacity >= PLACES_MAX) return TP_ERR_TOO_LARGE;
  unsigned places = PLACES_MIN;
  while (places - 1 < capacity) places *= 2; /* ck leaves one place free */
  size_t size = sizeof(tp__queue_mpmc) + places * sizeof(ck_ring_buffer_t);
  tp__queue_mpmc *queue = tp__alloc_zero(allocator, size);
  if (!queue) return TP_ERR_NO_MEMORY;
  queue->allocator = *allocator;
  queue->size = size;
  tp_status status = tp__mutex_init(&queue->producers, TP__RANK_run_queue);
  if (status != TP_OK) {
    tp__release(allocator, queue, size);
    return status;
  }
  ck_ring_init(&queue->ring, places);
  *ret_queue = queue;
  return TP_OK;
}

void tp__queue_mpmc_free(tp__queue_mpmc *queue) {
  if (!queue) return;
  tp_allocator allocator = queue->allocator;
  tp__mutex_fini(&queue->producers);
  tp__release(&allocator, queue, queue->size);
}

bool tp__queue_mpmc_push(tp__queue_mpmc *queue, void *item) {
  assert(item); /* pop returns NULL when the queue is empty */
  tp__mutex_lock(&queue->producers);
  bool pushed = ck_ring_enqueue_spmc(&queue->ring, queue->places, item);
  tp__mutex_unlock(&queue->producers);
  return pushed;
}

void *tp__queue_mpmc_pop(tp__queue_mpmc *queue) {
  TP__POINT();
  void *item = NULL;
  return ck_ring_dequeue_spmc(&queue->ring, queue->places, &item) ? item : NULL;
}

uint32_t tp__queue_mpmc_pop_some(tp__queue_mpmc *queue, void **items, uint32_t most) {
  uint32_t count = 0;
  while (count < most && (items[count] = tp__queue_mpmc_pop(queue))) count++;
  return count;
}

size_t tp__queue_mpmc_count(const tp__queue_mpmc *queue) {
  TP__POINT();
  return ck_ring_size(&queue->ring);
}

bool tp__queue_mpmc_empty(const tp__queue_mpmc *queue) {
  TP__POINT();
  return ck_ring_size(&queue->ring) == 0;
}
