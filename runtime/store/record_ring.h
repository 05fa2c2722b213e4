/* SPDX-License-Identifier: Apache-2.0
 *
 * record_ring: the newest entry records, in batches that lie in segments. A segment is used again when all its records
 * are old. The ring has no lock: a lock of its owner guards it. The number of entries and the number of bytes are
 * bounded. Whole segments are dropped, the oldest first. So adding costs one copy and, once the bound is reached, no
 * allocation. */
#ifndef TP__RECORD_RING_H
#define TP__RECORD_RING_H

#include "runtime/os/os.h"
#include "runtime/store/record_pack.h"

enum { TP__SEGMENT_BYTES = 64 << 10 };

/** Batches as they are stored, oldest first. */
typedef struct tp__record_segment {
  tp__link link;     /* in ring->segments */
  uint64_t sequence; /* rises with each use */
  size_t capacity, used;
  uint32_t entry_count, batch_count;
  char memory[];
} tp__record_segment;

typedef struct tp__record_ring {
  const tp_allocator *allocator;
  tp__link segments; /* oldest first; entries are added to the last */
  uint64_t last_sequence;
  size_t entry_count, entries_max;
  tp__a64 *bytes; /* of all rings that share a bound */
  size_t bytes_max;
} tp__record_ring;

/** @param bytes counts the bytes of all rings that get this pointer; bytes_max bounds it. */
void tp__record_ring_init(tp__record_ring *ring, const tp_allocator *allocator, size_t entries_max, tp__a64 *bytes,
                          size_t bytes_max);
void tp__record_ring_fini(tp__record_ring *ring);
/** Stores the entries of a batch.
 *  @return TP_OK, TP_ERR_NO_MEMORY, TP_ERR_TOO_LARGE for a batch that by itself exceeds the bounds. */
tp_status tp__record_ring_add(tp__record_ring *ring, const tp__record_source *from, const tp__record_batch *batch);
/** Notes that a run was late. @return whether the entry is here. */
bool tp__record_ring_late(tp__record_ring *ring, const tp_late_record *late);
/** A copy of the newest segment that is older than sequence, so that the caller can read it without the lock. The
 *  caller frees it with tp__release(…, sizeof **ret_copy + (*ret_copy)->capacity).
 *  @return TP_OK, TP_ERR_NOT_FOUND, TP_ERR_NO_MEMORY. */
tp_status tp__record_ring_copy(const tp__record_ring *ring, uint64_t sequence, tp__record_segment **ret_copy);

/* ---- reading a segment ---- */

/** One batch in a segment: the turn that it belongs to, and its entries. */
typedef struct tp__stored_batch {
  tp__record_source from; /* its ids are those below */
  tp_text ids[TP_ID_COUNT];
  const tp__packed_entry *first;
  uint32_t entry_count;
} tp__stored_batch;

/** The batch at an offset. @return the offset after it. */
size_t tp__record_segment_batch(const tp__record_segment *segment, size_t offset, tp__stored_batch *ret_batch);

#endif
