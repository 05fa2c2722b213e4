/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/kept.h"

enum { ALIGNMENT = 128 };

tp_status tp__keep_init(tp__keep *keep, const tp_allocator *allocator, uint32_t workers) {
  *keep = (tp__keep){.allocator = allocator};
  keep->memory_size = ((size_t)workers + TP__KEPT_SHARED) * TP__KEPT_STRIDE + ALIGNMENT;
  keep->memory = tp__alloc_zero(allocator, keep->memory_size);
  if (!keep->memory) return TP_ERR_NO_MEMORY;
  keep->all = (char *)keep->memory + (ALIGNMENT - (uintptr_t)keep->memory % ALIGNMENT);
  for (uint32_t i = 0; i < TP__KEPT_SHARED + workers; i++) {
    tp__kept *kept = tp__kept_at(keep, i);
    kept->is_own = i >= TP__KEPT_SHARED;
    tp_status status = tp__mutex_init(&kept->mutex);
    if (status != TP_OK) {
      tp__keep_fini(keep);
      return status;
    }
    keep->count++;
  }
  return TP_OK;
}

void tp__keep_fini(tp__keep *keep) {
  for (uint32_t i = 0; i < keep->count; i++) tp__mutex_fini(&tp__kept_at(keep, i)->mutex);
  tp__release(keep->allocator, keep->memory, keep->memory_size);
}

void tp__keep_renew_pins(void *ctx, tp__snapshot *newest) {
  tp__keep *keep = ctx;
  for (uint32_t i = 0; i < keep->count; i++) {
    tp__kept *kept = tp__kept_at(keep, i);
    tp__mutex_lock(&kept->mutex);
    tp__pins_renew(&kept->pins, newest);
    tp__mutex_unlock(&kept->mutex);
  }
}

uint64_t tp__keep_counted(const tp__keep *keep, uint32_t index) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < keep->count; i++) sum += tp__a64_load_relaxed(&tp__kept_at(keep, i)->counts[index]);
  return sum < UINT64_MAX / 2 ? sum : 0; /* counted down here already, and up there not yet seen */
}
