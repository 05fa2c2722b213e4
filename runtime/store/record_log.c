/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/record_log.h"

enum { BYTES_MAX = 16 << 20 };

tp_status tp__record_log_init(tp__record_log *log, const tp_allocator *allocator, size_t entries_max) {
  memset(log, 0, sizeof *log);
  log->allocator = allocator;
  log->entries_max = entries_max;
  for (int i = 0; i < TP__RECORD_STRIPES; i++) {
    tp__record_ring_init(&log->stripes[i].ring, allocator, entries_max, &log->bytes, BYTES_MAX);
    tp_status status = tp__mutex_init(&log->stripes[i].mutex, TP__RANK_records);
    if (status == TP_OK) continue;
    while (i-- > 0) tp__mutex_fini(&log->stripes[i].mutex);
    return status;
  }
  return TP_OK;
}

void tp__record_log_fini(tp__record_log *log) {
  for (int i = 0; i < TP__RECORD_STRIPES; i++) {
    tp__record_ring_fini(&log->stripes[i].ring);
    tp__mutex_fini(&log->stripes[i].mutex);
  }
}

tp_status tp__record_log_add(tp__record_log *log, const tp__record_source *from, const tp__record_batch *batch) {
  tp__record_stripe *stripe = &log->stripes[tp__thread_number() % TP__RECORD_STRIPES];
  tp__mutex_lock(&stripe->mutex);
  tp_status status = tp__record_ring_add(&stripe->ring, from, batch);
  tp__mutex_unlock(&stripe->mutex);
  return status;
}

void tp__record_log_late(tp__record_log *log, const tp_late_record *late) {
  bool found = false;
  for (int i = 0; i < TP__RECORD_STRIPES && !found; i++) {
    tp__record_stripe *stripe = &log->stripes[i];
    tp__mutex_lock(&stripe->mutex);
    found = tp__record_ring_late(&stripe->ring, late);
    tp__mutex_unlock(&stripe->mutex);
  }
}

/* ---- reading: each ring has a cursor, and the cursor with the newest entry goes on ---- */

typedef struct cursor {
  tp__record_stripe *stripe;
  const tp_allocator *allocator;
  tp__record_segment *copy; /* NULL: none, or the last was read */
  uint64_t sequence;        /* of the copy; what is older comes next */
  size_t *offsets;          /* of its batches */
  uint32_t batches_left;
  tp__stored_batch batch;
  uint32_t entries_left;
  const tp__packed_entry *entry; /* the next to give; NULL: nothing is left */
} cursor;

static void free_copy(cursor *c) {
  if (!c->copy) return;
  tp__release(c->allocator, c->offsets, c->copy->batch_count * sizeof *c->offsets);
  tp__release(c->allocator, c->copy, sizeof *c->copy + c->copy->capacity);
  c->copy = NULL;
  c->offsets = NULL;
}

static tp_status next_segment(cursor *c) {
  free_copy(c);
  tp__mutex_lock(&c->stripe->mutex);
  tp_status status = tp__record_ring_copy(&c->stripe->ring, c->sequence, &c->copy);
  tp__mutex_unlock(&c->stripe->mutex);
  TP__TRY(status);
  c->sequence = c->copy->sequence;
  c->batches_left = c->copy->batch_count;
  c->offsets = tp__alloc(c->allocator, c->batches_left * sizeof *c->offsets);
  if (!c->offsets) return TP_ERR_NO_MEMORY;
  size_t at = 0;
  for (uint32_t i = 0; i < c->batches_left; i++) {
    c->offsets[i] = at;
    at = tp__record_segment_batch(c->copy, at, &c->batch);
  }
  return TP_OK;
}

static const tp__packed_entry *entry_at(const tp__stored_batch *batch, uint32_t index) {
  const tp__packed_entry *entry = batch->first;
  while (index-- > 0) entry = tp__packed_next(entry);
  return entry;
}

/* @return TP_OK also at the end; then there is no entry. */
static tp_status next_entry(cursor *c) {
  c->entry = NULL;
  while (c->entries_left == 0) {
    while (c->batches_left == 0) {
      tp_status status = next_segment(c);
      if (status != TP_OK) return status == TP_ERR_NOT_FOUND ? TP_OK : status;
    }
    tp__record_segment_batch(c->copy, c->offsets[--c->batches_left], &c->batch);
    c->entries_left = c->batch.entry_count;
  }
  c->entry = entry_at(&c->batch, --c->entries_left);
  return TP_OK;
}

static bool is_newer(const tp__packed_entry *a, const tp__packed_entry *b) {
  return a->ended_ns != b->ended_ns ? a->ended_ns > b->ended_ns : a->entry_id > b->entry_id;
}

static cursor *newest(cursor *cursors) {
  cursor *best = NULL;
  for (int i = 0; i < TP__RECORD_STRIPES; i++)
    if (cursors[i].entry && (!best || is_newer(cursors[i].entry, best->entry))) best = &cursors[i];
  return best;
}

static bool entry_fits(const tp_entry_record *record, const tp_record_query *query) {
  if (query->phase && record->phase != query->phase) return false;
  if (query->only_failed && record->status == TP_OK) return false;
  if (record->started_unix_ms < query->from_unix_ms) return false;
  if (query->to_unix_ms && record->started_unix_ms > query->to_unix_ms) return false;
  for (size_t i = 0; i < query->id_count; i++) {
    if (query->ids[i].size == 0) continue;
    if (i >= record->id_count || !tp_text_equal(query->ids[i], record->ids[i])) return false;
  }
  return true;
}

static bool is_cursor(const tp_entry_record *record, const tp_record_query *query) {
  return record->entry_id == query->before_entry_id && record->process_run_id == query->before_process_run_id;
}

tp_status tp__record_log_read(tp__record_log *log, const tp_record_query *query, tp_record_fn each, void *ctx) {
  cursor cursors[TP__RECORD_STRIPES];
  tp_status status = TP_OK;
  size_t left = query->limit ? query->limit : SIZE_MAX;
  bool begun = query->before_entry_id == 0;
  for (int i = 0; i < TP__RECORD_STRIPES; i++)
    cursors[i] = (cursor){.stripe = &log->stripes[i], .allocator = log->allocator, .sequence = UINT64_MAX};
  for (int i = 0; i < TP__RECORD_STRIPES && status == TP_OK; i++) status = next_entry(&cursors[i]);
  cursor *next;
  for (size_t seen = 0; status == TP_OK && left > 0 && seen < log->entries_max && (next = newest(cursors)); seen++) {
    tp_entry_record record = tp__packed_view(next->entry, &next->batch.from);
    if (begun && entry_fits(&record, query)) {
      left--;
      if (!each(ctx, &record)) break;
    }
    begun = begun || is_cursor(&record, query);
    status = next_entry(next);
  }
  for (int i = 0; i < TP__RECORD_STRIPES; i++) free_copy(&cursors[i]);
  return status;
}
