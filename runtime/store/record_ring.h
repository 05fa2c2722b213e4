/* SPDX-License-Identifier: Apache-2.0
 *
 * record_ring: the newest entry records, in slots of one batch each that keep their memory. It has no lock: its owner's
 * guards it. What it keeps is bounded by the number of entries and by bytes; the oldest goes first. */
#ifndef TP__RECORD_RING_H
#define TP__RECORD_RING_H

#include "runtime/store/record_pack.h"

/** A batch as it is kept: the texts of the ids, then the packed entries. */
typedef struct tp__record_slot {
  char *memory;
  size_t capacity;
  size_t used; /* 0: empty */
  uint32_t entry_count;
  uint32_t texts_size; /* rounded up to 8 */
  uint16_t id_sizes[TP_ID_COUNT];
} tp__record_slot;

typedef struct tp__record_ring {
  const tp_allocator *allocator;
  tp__record_slot *slots;
  size_t slot_count, newest, oldest; /* indexes; equal when there is at most one */
  size_t entry_count, entries_max;
  size_t bytes;
} tp__record_ring;

tp_status tp__record_ring_init(tp__record_ring *ring, const tp_allocator *allocator, size_t entries_max);
void tp__record_ring_fini(tp__record_ring *ring);
/** Keeps the entries of a batch, all under the same ids.
 *  @return TP_OK, TP_ERR_NO_MEMORY, TP_ERR_TOO_LARGE for a batch that alone is above the bounds. */
tp_status tp__record_ring_add(tp__record_ring *ring, const tp_text *ids, const tp__record_batch *batch);
void tp__record_ring_late(tp__record_ring *ring, uint64_t entry_id, uint32_t run_index, int64_t late_ns);
/** A copy of the i-th newest slot, to be read without the lock; its memory is the caller's to release.
 *  @return false when there is none, or no memory. */
bool tp__record_ring_copy(const tp__record_ring *ring, size_t i, tp__record_slot *ret_copy);
/** Gives the entries of a slot to each, newest first; false stops. @return whether all were given. */
bool tp__record_slot_each(const tp__record_slot *slot, bool (*each)(void *ctx, const tp_entry_record *record),
                          void *ctx, size_t *limit);

#endif
