/* SPDX-License-Identifier: Apache-2.0
 *
 * record_pack: entry records as they lie in memory on their way to a store: a head and its rows, entry after entry. A
 * turn packs its own records without a lock, and passes them on together with the ids that they share. (Before this,
 * recording took half of the time of a phase.)
 *
 * A row describes nearly every run in four words, with times counted from the entry's begin. The engine writes it
 * during the run. What does not fit into a row, or may still change, is in details after the rows. The row of such a
 * run then has the index of its details. */
#ifndef TP__RECORD_PACK_H
#define TP__RECORD_PACK_H

#include "runtime/store/run_names.h"
#include "turnphase/store.h"

/** One run. A row without details means: the run was never called, or it was ready at the moment of its call, and it
 *  made at most 14 attempts within 4.2 s from the entry's begin. */
typedef struct tp__row {
  uint32_t name; /* tp__run_names */
  uint32_t
      /* ns from the entry's begin; of a run that was never called: when it was queued. With details: their index. */
      started_ns;
  uint32_t duration_ns; /* ns */
  uint32_t flags;       /* tp__row_flags(), and bits that begin at TP__ROW_*; with details: only TP__ROW_HAS_DETAILS */
} tp__row;

/** A run in full, without its names: the members of a tp_run_record, which store.h describes. */
typedef struct tp__row_details {
  int64_t queued_ns, started_ns, ended_ns, late_ns;
  uint32_t code, contribution_count;
  uint32_t limit_ms;
  uint16_t attempts, thread;
  uint8_t state, reason, verdict, execution, failure;
  bool fallback_used;
} tp__row_details;

enum {
  TP__ROW_STATE = 0,         /* 4 bits */
  TP__ROW_ATTEMPTS = 4,      /* 4; 15: TP__ROW_HAS_DETAILS */
  TP__ROW_REASON = 8,        /* 8 */
  TP__ROW_EXECUTION = 16,    /* 3 */
  TP__ROW_FAILURE = 19,      /* 2 */
  TP__ROW_VERDICT = 21,      /* 2: tp_verdict - 1 */
  TP__ROW_FALLBACK = 23,     /* 1 */
  TP__ROW_CONTRIBUTIONS = 24 /* 8: contributions */
};
enum { TP__ROW_ATTEMPTS_MAX = 14, TP__ROW_HAS_DETAILS = 15 << TP__ROW_ATTEMPTS };
static inline bool tp__row_has_details(const tp__row *row) {
  return (row->flags & TP__ROW_HAS_DETAILS) == TP__ROW_HAS_DETAILS;
}
/** The flags of a run without reason, verdict, fallback and contributions. */
static inline uint32_t tp__row_flags(uint32_t state, uint32_t attempts, uint32_t execution, uint32_t failure) {
  return state << TP__ROW_STATE | attempts << TP__ROW_ATTEMPTS | execution << TP__ROW_EXECUTION |
         failure << TP__ROW_FAILURE;
}

/** Copies four words with one load and one store each. A row that was written a moment ago is so read in the width in
 *  which it was written. A wider load would have to wait for these stores. */
typedef uint32_t tp__row_words __attribute__((vector_size(16), aligned(8), may_alias));
static inline void tp__row_put(tp__row *row, uint32_t name, uint32_t started_ns, uint32_t duration_ns, uint32_t flags) {
  *(tp__row_words *)row = (tp__row_words){name, started_ns, duration_ns, flags};
}
static inline void tp__rows_copy(tp__row *to, const tp__row *from, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    ((tp__row_words *)to)[i] = ((const tp__row_words *)from)[i];
    __asm__("" ::: "memory"); /* otherwise the compiler makes one wider copy of it */
  }
}

/** Writes a run as a row. @return false when it does not fit; then *ret_row is untouched. */
bool tp__row_pack(const tp__row_details *run, int64_t begin_ns, uint32_t name, tp__row *ret_row);
/** Writes the row of a run whose details are those of this index. */
static inline void tp__row_put_details(tp__row *row, uint32_t name, uint32_t index) {
  tp__row_put(row, name, index, 0, TP__ROW_HAS_DETAILS);
}
/** A run as a store's reader sees it. */
tp_run_record tp__run_shown(const tp__row_details *run, const tp__run_name *name);
/** The same of a row without details. */
tp_run_record tp__row_shown(const tp__row *row, int64_t begin_ns, const tp__run_name *name);

/** The head of a packed entry. Its rows follow, then details. */
typedef struct tp__packed_entry {
  uint64_t entry_id, plan_hash;
  int64_t started_ns, ended_ns;
  const tp__run_names *names;
  uint32_t phase, run_count;
  int32_t outcome;
  uint32_t detail_count;
} tp__packed_entry;

static inline size_t tp__packed_size(size_t run_count, size_t detail_count) {
  return sizeof(tp__packed_entry) + run_count * sizeof(tp__row) + detail_count * sizeof(tp__row_details);
}
static inline tp__row *tp__packed_rows(const tp__packed_entry *entry) { return (tp__row *)(uintptr_t)(entry + 1); }
static inline tp__row_details *tp__packed_details(const tp__packed_entry *entry) {
  return (tp__row_details *)(void *)(tp__packed_rows(entry) + entry->run_count);
}
static inline const tp__packed_entry *tp__packed_next(const tp__packed_entry *entry) {
  return (const tp__packed_entry *)((const char *)entry + tp__packed_size(entry->run_count, entry->detail_count));
}
/** What all entries of a batch share. */
typedef struct tp__record_source {
  uint64_t process_run_id;
  int64_t unix_offset_ns; /* what is added to a monotonic time to get the wall clock's */
  const tp_text *ids;     /* TP_ID_COUNT */
} tp__record_source;

/** The entry as a store reads it; borrowed for as long as the entry and its source. */
tp_entry_record tp__packed_view(const tp__packed_entry *entry, const tp__record_source *from);

/** Entries of one turn that were not yet passed to the store. */
typedef struct tp__record_batch {
  char *memory; /* NULL: none yet */
  size_t capacity, used;
  uint32_t count;
} tp__record_batch;

/** Appends an entry with the counts in its head set; the caller writes the rest. @return NULL when it does not fit. */
static inline tp__packed_entry *tp__record_batch_add(tp__record_batch *batch, uint32_t run_count,
                                                     uint32_t detail_count) {
  size_t size = tp__packed_size(run_count, detail_count);
  if (batch->capacity - batch->used < size) return NULL;
  tp__packed_entry *entry = (tp__packed_entry *)(batch->memory + batch->used);
  entry->run_count = run_count;
  entry->detail_count = detail_count;
  batch->used += size;
  batch->count++;
  return entry;
}
/** The batch as a store takes it; borrowed for as long as the batch and its source. */
tp_entry_batch tp__record_batch_view(const tp__record_batch *batch, const tp__record_source *from);

#endif
