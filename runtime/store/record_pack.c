/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/record_pack.h"

static tp_run_record run_at(const void *source, size_t index) { return ((const tp_run_record *)source)[index]; }

tp_entry_record tp__packed_view(const tp__packed_entry *entry, const tp_text *ids) {
  return (tp_entry_record){.entry_id = entry->entry_id,
                           .phase = entry->phase,
                           .plan_hash = entry->plan_hash,
                           .outcome = (tp_status)entry->outcome,
                           .started_ns = entry->started_ns,
                           .ended_ns = entry->ended_ns,
                           .ids = ids,
                           .run_count = entry->run_count,
                           .run = run_at,
                           .source = tp__packed_runs(entry)};
}

tp__packed_entry *tp__record_batch_add(tp__record_batch *batch, uint32_t run_count) {
  size_t size = tp__packed_size(run_count);
  if (batch->capacity - batch->used < size) return NULL;
  tp__packed_entry *entry = (tp__packed_entry *)(batch->memory + batch->used);
  entry->run_count = run_count;
  batch->used += size;
  batch->count++;
  return entry;
}
