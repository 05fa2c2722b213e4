/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/record_ring.h"

enum { BYTES_MAX = 16 << 20, ID_BYTES_MAX = UINT16_MAX };

static tp__packed_entry *first_of(const tp__record_slot *slot) {
  return (tp__packed_entry *)(slot->memory + slot->texts_size);
}

/* ---- room: the slots behind the newest are the oldest ---- */

static void drop(tp__record_ring *ring, tp__record_slot *slot) {
  ring->entry_count -= slot->used ? slot->entry_count : 0;
  slot->used = 0;
}

static void release(tp__record_ring *ring, tp__record_slot *slot) {
  drop(ring, slot);
  if (!slot->memory) return;
  tp__release(ring->allocator, slot->memory, slot->capacity);
  ring->bytes -= slot->capacity;
  slot->memory = NULL;
  slot->capacity = 0;
}

static size_t after(const tp__record_ring *ring, size_t index) { return index + 1 < ring->slot_count ? index + 1 : 0; }

static void drop_oldest(tp__record_ring *ring, void (*let_go)(tp__record_ring *ring, tp__record_slot *slot)) {
  let_go(ring, &ring->slots[ring->oldest]);
  ring->oldest = after(ring, ring->oldest);
}

static bool grow(tp__record_ring *ring, tp__record_slot *slot, size_t size) {
  release(ring, slot);
  while (ring->bytes + size > BYTES_MAX && ring->oldest != ring->newest) drop_oldest(ring, release);
  slot->memory = tp__alloc(ring->allocator, size);
  if (!slot->memory) return false;
  slot->capacity = size;
  ring->bytes += size;
  return true;
}

/* The slot for a new batch; the oldest batches go where there are too many entries. */
static tp__record_slot *next_slot(tp__record_ring *ring, size_t entry_count) {
  size_t next = after(ring, ring->newest);
  if (next == ring->oldest) drop_oldest(ring, drop);
  ring->newest = next;
  while (ring->entry_count + entry_count > ring->entries_max && ring->oldest != ring->newest) drop_oldest(ring, drop);
  drop(ring, &ring->slots[next]);
  return &ring->slots[next];
}

/* ---- doors ---- */

tp_status tp__record_ring_init(tp__record_ring *ring, const tp_allocator *allocator, size_t entries_max) {
  /* One slot more than entries, so that newest and oldest differ when all hold one. */
  *ring = (tp__record_ring){.allocator = allocator, .entries_max = entries_max, .slot_count = entries_max + 1};
  ring->slots = tp__alloc_zero(allocator, ring->slot_count * sizeof *ring->slots);
  return ring->slots ? TP_OK : TP_ERR_NO_MEMORY;
}

void tp__record_ring_fini(tp__record_ring *ring) {
  for (size_t i = 0; i < ring->slot_count; i++) release(ring, &ring->slots[i]);
  tp__release(ring->allocator, ring->slots, ring->slot_count * sizeof *ring->slots);
}

static size_t size_of_texts(const tp_text *ids) {
  size_t size = 0;
  for (int id = 0; id < TP_ID_COUNT; id++) size += ids[id].size;
  return (size + 7) & ~(size_t)7;
}

static void put_texts(tp__record_slot *slot, const tp_text *ids) {
  char *text = slot->memory;
  for (int id = 0; id < TP_ID_COUNT; id++) {
    slot->id_sizes[id] = (uint16_t)ids[id].size;
    if (ids[id].size > 0) memcpy(text, ids[id].data, ids[id].size);
    text += ids[id].size;
  }
}

tp_status tp__record_ring_add(tp__record_ring *ring, const tp_text *ids, const tp__record_batch *batch) {
  size_t texts_size = size_of_texts(ids), size = texts_size + batch->used;
  if (size > BYTES_MAX || texts_size > ID_BYTES_MAX || batch->count > ring->entries_max) return TP_ERR_TOO_LARGE;
  tp__record_slot *slot = next_slot(ring, batch->count);
  if (slot->capacity < size && !grow(ring, slot, size)) return TP_ERR_NO_MEMORY;
  slot->texts_size = (uint32_t)texts_size;
  slot->entry_count = batch->count;
  slot->used = size;
  ring->entry_count += batch->count;
  put_texts(slot, ids);
  memcpy(slot->memory + texts_size, batch->memory, batch->used);
  return TP_OK;
}

static bool note_late(tp__record_slot *slot, uint64_t entry_id, uint32_t run_index, int64_t late_ns) {
  const tp__packed_entry *entry = first_of(slot);
  for (uint32_t i = 0; i < slot->entry_count; i++, entry = tp__packed_next(entry)) {
    if (entry->entry_id != entry_id) continue;
    if (run_index < entry->run_count && !entry->names)
      ((tp_run_record *)tp__packed_rows(entry))[run_index].late_ns = late_ns;
    return true;
  }
  return false;
}

static size_t newest_but(const tp__record_ring *ring, size_t i) {
  return (ring->newest + ring->slot_count - i) % ring->slot_count;
}

/* From the newest back: an attempt is seldom late by many entries. */
void tp__record_ring_late(tp__record_ring *ring, uint64_t entry_id, uint32_t run_index, int64_t late_ns) {
  for (size_t i = 0; i < ring->slot_count; i++) {
    tp__record_slot *slot = &ring->slots[newest_but(ring, i)];
    if (slot->used && note_late(slot, entry_id, run_index, late_ns)) return;
  }
}

bool tp__record_ring_copy(const tp__record_ring *ring, size_t i, tp__record_slot *ret_copy) {
  const tp__record_slot *slot = &ring->slots[newest_but(ring, i)];
  if (!slot->used) return false;
  *ret_copy = *slot;
  ret_copy->memory = tp__alloc(ring->allocator, slot->used);
  if (!ret_copy->memory) return false;
  memcpy(ret_copy->memory, slot->memory, slot->used);
  ret_copy->capacity = slot->used;
  return true;
}

static const tp__packed_entry *entry_at(const tp__record_slot *slot, uint32_t index) {
  const tp__packed_entry *entry = first_of(slot);
  while (index-- > 0) entry = tp__packed_next(entry);
  return entry;
}

bool tp__record_slot_each(const tp__record_slot *slot, bool (*each)(void *ctx, const tp_entry_record *record),
                          void *ctx, size_t *limit) {
  tp_text ids[TP_ID_COUNT];
  const char *text = slot->memory;
  for (int id = 0; id < TP_ID_COUNT; id++) {
    ids[id] = (tp_text){text, slot->id_sizes[id]};
    text += slot->id_sizes[id];
  }
  for (uint32_t i = slot->entry_count; i-- > 0;) {
    if ((*limit)-- == 0) return false;
    tp_entry_record record = tp__packed_view(entry_at(slot, i), ids);
    if (!each(ctx, &record)) return false;
  }
  return true;
}
