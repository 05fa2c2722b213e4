/* SPDX-License-Identifier: Apache-2.0
 *
 * record_pack: entry records on their way to a store, as they lie in memory: one head and its rows after the other, the
 * rows being tp_run_record as everybody reads them. A turn packs its own without a lock and hands them over together,
 * with the ids that they share: recording was half of what a phase cost. */
#ifndef TP__RECORD_PACK_H
#define TP__RECORD_PACK_H

#include "runtime/base/base.h"
#include "turnphase/store.h"

/** The head of a packed entry; run_count rows follow. */
typedef struct tp__packed_entry {
  uint64_t entry_id, plan_hash;
  int64_t started_ns, ended_ns;
  uint32_t phase, run_count;
  int32_t outcome;
  uint32_t reserved;
} tp__packed_entry;

static inline size_t tp__packed_size(size_t run_count) {
  return sizeof(tp__packed_entry) + run_count * sizeof(tp_run_record);
}
static inline tp_run_record *tp__packed_runs(const tp__packed_entry *entry) {
  return (tp_run_record *)(uintptr_t)(entry + 1);
}
static inline const tp__packed_entry *tp__packed_next(const tp__packed_entry *entry) {
  return (const tp__packed_entry *)((const char *)entry + tp__packed_size(entry->run_count));
}
/** As a store reads it. @param ids  TP_ID_COUNT; borrowed as the record is. */
tp_entry_record tp__packed_view(const tp__packed_entry *entry, const tp_text *ids);

/** Entries of one turn that wait to be handed over. */
typedef struct tp__record_batch {
  char *memory; /* NULL: none yet */
  size_t capacity, used;
  uint32_t count;
} tp__record_batch;

/** Room for one more entry, its head's run_count set. @return NULL when it does not fit. */
tp__packed_entry *tp__record_batch_add(tp__record_batch *batch, uint32_t run_count);

#endif
