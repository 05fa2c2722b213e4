/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/record_ring.h"

enum { ID_BYTES_MAX = UINT16_MAX };

/* The head of each batch. It is followed by the texts of the batch's ids, padded to 8, and by the packed entries. */
typedef struct head {
  uint32_t size; /* of the batch, with this */
  uint32_t entry_count;
  uint64_t process_run_id;
  int64_t unix_offset_ns;
  uint16_t id_sizes[TP_ID_COUNT];
} head;

static size_t align8(size_t size) { return (size + 7) & ~(size_t)7; }
static tp__record_segment *segment_of(tp__link *link) { return TP__CONTAINER(link, tp__record_segment, link); }

/* ---- segments ---- */

static void remove_segment(tp__record_ring *ring, tp__record_segment *segment) {
  ring->entry_count -= segment->entry_count;
  segment->used = segment->entry_count = segment->batch_count = 0;
  tp__list_remove(&segment->link);
}

static void free_segment(tp__record_ring *ring, tp__record_segment *segment) {
  remove_segment(ring, segment);
  tp__a64_sub_acq_rel(ring->bytes, segment->capacity);
  tp__release(ring->allocator, segment, sizeof *segment + segment->capacity);
}

/* Takes the oldest segment, when the newer ones hold enough entries, or when no more memory is allowed. */
static tp__record_segment *take_oldest(tp__record_ring *ring, size_t need) {
  if (tp__list_empty(&ring->segments)) return NULL;
  tp__record_segment *oldest = segment_of(ring->segments.next);
  bool is_only = ring->segments.next == ring->segments.prev;
  bool enough = !is_only && ring->entry_count - oldest->entry_count >= ring->entries_max;
  bool full = !is_only && tp__a64_load_relaxed(ring->bytes) + need > ring->bytes_max;
  if (!enough && !full) return NULL;
  remove_segment(ring, oldest);
  return oldest;
}

static tp__record_segment *new_segment(tp__record_ring *ring, size_t need) {
  size_t capacity = need > TP__SEGMENT_BYTES ? need : TP__SEGMENT_BYTES;
  tp__record_segment *segment = tp__alloc(ring->allocator, sizeof *segment + capacity);
  if (!segment) return NULL;
  *segment = (tp__record_segment){.capacity = capacity};
  tp__list_init(&segment->link);
  tp__a64_add_relaxed(ring->bytes, capacity);
  return segment;
}

/* A segment with capacity for `need` bytes after the newest. A segment of another size is freed and not used again. */
static tp__record_segment *next_segment(tp__record_ring *ring, size_t need) {
  tp__record_segment *segment = NULL;
  while ((segment = take_oldest(ring, need)) && (segment->capacity < need || segment->capacity > TP__SEGMENT_BYTES))
    free_segment(ring, segment);
  if (!segment) segment = new_segment(ring, need);
  if (!segment) return NULL;
  segment->sequence = ++ring->last_sequence;
  tp__list_push(&ring->segments, &segment->link);
  return segment;
}

static char *reserve_segment(tp__record_ring *ring, size_t size, uint32_t entry_count) {
  tp__record_segment *newest = tp__list_empty(&ring->segments) ? NULL : segment_of(ring->segments.prev);
  if (!newest || newest->capacity - newest->used < size) newest = next_segment(ring, size);
  if (!newest) return NULL;
  char *memory = newest->memory + newest->used;
  newest->used += size;
  newest->entry_count += entry_count;
  newest->batch_count++;
  ring->entry_count += entry_count;
  return memory;
}

/* ---- API ---- */

void tp__record_ring_init(tp__record_ring *ring, const tp_allocator *allocator, size_t entries_max, tp__a64 *bytes,
                          size_t bytes_max) {
  *ring = (tp__record_ring){.allocator = allocator, .entries_max = entries_max, .bytes = bytes, .bytes_max = bytes_max};
  tp__list_init(&ring->segments);
}

void tp__record_ring_fini(tp__record_ring *ring) {
  while (!tp__list_empty(&ring->segments)) free_segment(ring, segment_of(ring->segments.next));
}

static size_t size_of_texts(const tp_text *ids) {
  size_t size = 0;
  for (int id = 0; id < TP_ID_COUNT; id++) size += ids[id].size;
  return size;
}

static char *put_texts(head *h, const tp_text *ids) {
  char *text = (char *)(h + 1);
  for (int id = 0; id < TP_ID_COUNT; id++) {
    h->id_sizes[id] = (uint16_t)ids[id].size;
    if (ids[id].size > 0) memcpy(text, ids[id].data, ids[id].size);
    text += ids[id].size;
  }
  return (char *)(h + 1) + align8((size_t)(text - (char *)(h + 1)));
}

tp_status tp__record_ring_add(tp__record_ring *ring, const tp__record_source *from, const tp__record_batch *batch) {
  size_t texts_size = size_of_texts(from->ids), size = sizeof(head) + align8(texts_size) + batch->used;
  if (size > ring->bytes_max || texts_size > ID_BYTES_MAX || batch->count > ring->entries_max) return TP_ERR_TOO_LARGE;
  head *h = (head *)reserve_segment(ring, size, batch->count);
  if (!h) return TP_ERR_NO_MEMORY;
  h->size = (uint32_t)size;
  h->entry_count = batch->count;
  h->process_run_id = from->process_run_id;
  h->unix_offset_ns = from->unix_offset_ns;
  memcpy(put_texts(h, from->ids), batch->memory, batch->used);
  return TP_OK;
}

static bool note_late(const tp__stored_batch *batch, const tp_late_record *late) {
  const tp__packed_entry *entry = batch->first;
  if (batch->from.process_run_id != late->process_run_id) return false;
  for (uint32_t i = 0; i < batch->entry_count; i++, entry = tp__packed_next(entry)) {
    if (entry->entry_id != late->entry_id) continue;
    if (late->run_index >= entry->run_count) return true;
    const tp__row *row = &tp__packed_rows(entry)[late->run_index];
    if (tp__row_has_details(row)) tp__packed_details(entry)[row->started_ns].late_ns = late->late_ns;
    return true;
  }
  return false;
}

/* Searches from the newest segment back, because few entries follow before an attempt turns out to be late. */
bool tp__record_ring_late(tp__record_ring *ring, const tp_late_record *late) {
  for (tp__link *link = ring->segments.prev; link != &ring->segments; link = link->prev) {
    const tp__record_segment *segment = segment_of(link);
    tp__stored_batch batch;
    for (size_t at = 0; at < segment->used;) {
      at = tp__record_segment_batch(segment, at, &batch);
      if (note_late(&batch, late)) return true;
    }
  }
  return false;
}

tp_status tp__record_ring_copy(const tp__record_ring *ring, uint64_t sequence, tp__record_segment **ret_copy) {
  tp__link *link = ring->segments.prev;
  while (link != &ring->segments && segment_of(link)->sequence >= sequence) link = link->prev;
  if (link == &ring->segments) return TP_ERR_NOT_FOUND;
  const tp__record_segment *segment = segment_of(link);
  tp__record_segment *copy = tp__alloc(ring->allocator, sizeof *copy + segment->used);
  if (!copy) return TP_ERR_NO_MEMORY;
  memcpy(copy, segment, sizeof *copy + segment->used);
  copy->capacity = copy->used;
  *ret_copy = copy;
  return TP_OK;
}

size_t tp__record_segment_batch(const tp__record_segment *segment, size_t offset, tp__stored_batch *ret_batch) {
  const head *h = (const head *)(segment->memory + offset);
  const char *text = (const char *)(h + 1);
  for (int id = 0; id < TP_ID_COUNT; id++) {
    ret_batch->ids[id] = (tp_text){text, h->id_sizes[id]};
    text += h->id_sizes[id];
  }
  ret_batch->from = (tp__record_source){
      .process_run_id = h->process_run_id, .unix_offset_ns = h->unix_offset_ns, .ids = ret_batch->ids};
  ret_batch->first = (const tp__packed_entry *)((const char *)(h + 1) + align8((size_t)(text - (const char *)(h + 1))));
  ret_batch->entry_count = h->entry_count;
  return offset + h->size;
}
