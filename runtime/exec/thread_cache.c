/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/thread_cache.h"

enum { ALIGNMENT = 128 };

tp_status tp__thread_caches_init(tp__thread_caches *caches, const tp_allocator *allocator, uint32_t workers) {
  *caches = (tp__thread_caches){.allocator = allocator};
  caches->memory_size = ((size_t)workers + TP__THREAD_CACHES_SHARED) * TP__THREAD_CACHE_STRIDE + ALIGNMENT;
  caches->memory = tp__alloc_zero(allocator, caches->memory_size);
  if (!caches->memory) return TP_ERR_NO_MEMORY;
  caches->all = (char *)caches->memory + (ALIGNMENT - (uintptr_t)caches->memory % ALIGNMENT);
  for (uint32_t i = 0; i < TP__THREAD_CACHES_SHARED + workers; i++) {
    tp__thread_cache *cache = tp__thread_cache_at(caches, i);
    cache->is_own = i >= TP__THREAD_CACHES_SHARED;
    tp_status status = tp__mutex_init(&cache->mutex, TP__RANK_thread_cache);
    if (status != TP_OK) {
      tp__thread_caches_fini(caches);
      return status;
    }
    caches->count++;
  }
  return TP_OK;
}

void tp__thread_caches_fini(tp__thread_caches *caches) {
  for (uint32_t i = 0; i < caches->count; i++) tp__mutex_fini(&tp__thread_cache_at(caches, i)->mutex);
  tp__release(caches->allocator, caches->memory, caches->memory_size);
}

void tp__thread_caches_renew_pins(void *ctx, tp__snapshot *newest) {
  tp__thread_caches *caches = ctx;
  for (uint32_t i = 0; i < caches->count; i++) {
    tp__thread_cache *cache = tp__thread_cache_at(caches, i);
    tp__mutex_lock(&cache->mutex);
    tp__pins_renew(&cache->pins, newest);
    tp__mutex_unlock(&cache->mutex);
  }
}

uint64_t tp__thread_caches_sum(const tp__thread_caches *caches, uint32_t index) {
  TP__ASSERT(index < TP__COUNTS);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < caches->count; i++)
    sum += tp__a64_load_relaxed(&tp__thread_cache_at(caches, i)->counts[index]);
  return sum < UINT64_MAX / 2 ? sum : 0; /* a decrement was seen here before the increment in another cache */
}
