/* SPDX-License-Identifier: Apache-2.0
 *
 * record_pack: entry records on their way to a store, as they lie in memory: one head and its rows after the other. A
 * turn packs its own without a lock and hands them over together, with the ids that they share: recording was half of
 * what a phase cost.
 *
 * Rows come in two forms. A compact one says in four words what there is to say of nearly every run, with times counted
 * from the entry's begin; the engine writes it while it runs. Where one run of an entry does not fit, all of its rows
 * are full: tp_run_record as everybody reads them. */
#ifndef TP__RECORD_PACK_H
#define TP__RECORD_PACK_H

#include "runtime/store/run_names.h"
#include "turnphase/store.h"

/** A run that was ready when it was called and made at most 15 attempts, in 4.2 s from the entry's begin. */
typedef struct tp__compact_row {
  uint32_t name;    /* tp__run_names */
  uint32_t started_ns;  /* ns from the entry's begin; of a run that was never called: queued */
  uint32_t duration_ns; /* ns */
  uint32_t flags;       /* tp__row_flags() and what run brought: bits as TP__ROW_* begin */
} tp__compact_row;

enum {
  TP__ROW_STATE = 0,         /* 4 bits */
  TP__ROW_ATTEMPTS = 4,      /* 4 */
  TP__ROW_REASON = 8,        /* 8 */
  TP__ROW_EXECUTION = 16,    /* 3 */
  TP__ROW_FAILURE = 19,      /* 2 */
  TP__ROW_VERDICT = 21,      /* 2: tp_verdict - 1 */
  TP__ROW_FALLBACK = 23,     /* 1 */
  TP__ROW_CONTRIBUTIONS = 24 /* 8: contributions */
};
/** Of a run without reason, verdict, fallback and contributions. */
static inline uint32_t tp__row_flags(uint32_t state, uint32_t attempts, uint32_t execution, uint32_t failure) {
  return state << TP__ROW_STATE | attempts << TP__ROW_ATTEMPTS | execution << TP__ROW_EXECUTION |
         failure << TP__ROW_FAILURE;
}

/** Four words at a time, in one load and one store each: a row that was written a moment ago is read as it was written,
 *  which a wider copy would have to wait for. */
typedef uint32_t tp__row_words __attribute__((vector_size(16), aligned(8), may_alias));
static inline void tp__row_put(tp__compact_row *row, uint32_t name, uint32_t started_ns, uint32_t duration_ns,
                               uint32_t flags) {
  *(tp__row_words *)row = (tp__row_words){name, started_ns, duration_ns, flags};
}
static inline void tp__rows_copy(tp__compact_row *to, const tp__compact_row *from, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    ((tp__row_words *)to)[i] = ((const tp__row_words *)from)[i];
    __asm__("" ::: "memory"); /* else the compiler makes it a wider copy again */
  }
}

/** @return false when the run does not fit; then *ret_row is untouched. */
bool tp__row_compact(const tp_run_record *run, int64_t begin_ns, uint32_t name, tp__compact_row *ret_row);
tp_run_record tp__row_full(const tp__compact_row *row, int64_t begin_ns, const tp__run_names *names);

/** The head of a packed entry; run_count rows follow. */
typedef struct tp__packed_entry {
  uint64_t entry_id, plan_hash;
  int64_t started_ns, ended_ns;
  const tp__run_names *names; /* its rows are compact; NULL: full */
  uint32_t phase, run_count;
  int32_t outcome;
  uint32_t reserved;
} tp__packed_entry;

static inline size_t tp__packed_size(size_t run_count, bool compact) {
  return sizeof(tp__packed_entry) + run_count * (compact ? sizeof(tp__compact_row) : sizeof(tp_run_record));
}
static inline void *tp__packed_rows(const tp__packed_entry *entry) { return (void *)(uintptr_t)(entry + 1); }
static inline const tp__packed_entry *tp__packed_next(const tp__packed_entry *entry) {
  return (const tp__packed_entry *)((const char *)entry + tp__packed_size(entry->run_count, entry->names != NULL));
}
/** What all entries of a batch share. */
typedef struct tp__record_source {
  uint64_t process_run_id;
  int64_t unix_offset_ns; /* what is added to a monotonic time to get the wall clock's */
  const tp_text *ids;     /* TP_ID_COUNT */
} tp__record_source;

/** As a store reads it; borrowed as the entry and its source are. */
tp_entry_record tp__packed_view(const tp__packed_entry *entry, const tp__record_source *from);

/** Entries of one turn that wait to be handed over. */
typedef struct tp__record_batch {
  char *memory; /* NULL: none yet */
  size_t capacity, used;
  uint32_t count;
} tp__record_batch;

/** Room for one more entry, its head's names and run_count set. @return NULL when it does not fit. */
static inline tp__packed_entry *tp__record_batch_add(tp__record_batch *batch, uint32_t run_count,
                                                     const tp__run_names *names) {
  size_t size = tp__packed_size(run_count, names != NULL);
  if (batch->capacity - batch->used < size) return NULL;
  tp__packed_entry *entry = (tp__packed_entry *)(batch->memory + batch->used);
  entry->names = names;
  entry->run_count = run_count;
  batch->used += size;
  batch->count++;
  return entry;
}

#endif
