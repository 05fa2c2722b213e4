/* SPDX-License-Identifier: Apache-2.0
 *
 * index.c: finds an id among many. Open addressing; the table is at most half full. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/plan/registry.h"

enum { SLOTS_MIN = 16 };

void tp__index_init(tp__index *index, const tp_allocator *allocator) { *index = (tp__index){.allocator = allocator}; }

void tp__index_fini(tp__index *index) {
  tp__release(index->allocator, index->slots, index->slot_count * sizeof *index->slots);
  tp__index_init(index, index->allocator);
}

/* The slot of the id, or the empty slot where it belongs. */
static tp__index_slot *slot_of(const tp__index *index, const char *id, uint64_t hash) {
  for (size_t at = hash & (index->slot_count - 1);; at = (at + 1) & (index->slot_count - 1)) {
    tp__index_slot *slot = &index->slots[at];
    if (!slot->id || (slot->hash == hash && strcmp(slot->id, id) == 0)) return slot;
  }
}

static void move_into(tp__index *index, tp__index_slot *slots, size_t slot_count) {
  tp__index old = *index;
  index->slots = slots;
  index->slot_count = slot_count;
  for (size_t i = 0; i < old.slot_count; i++) {
    const tp__index_slot *slot = &old.slots[i];
    if (slot->id) *slot_of(index, slot->id, slot->hash) = *slot;
  }
  tp__release(old.allocator, old.slots, old.slot_count * sizeof *old.slots);
}

tp_status tp__index_reserve(tp__index *index, size_t id_count) {
  size_t slot_count = index->slot_count ? index->slot_count : SLOTS_MIN;
  while (slot_count / 2 < id_count) slot_count *= 2;
  if (slot_count == index->slot_count) return TP_OK;
  tp__index_slot *slots = tp__alloc_zero(index->allocator, slot_count * sizeof *slots);
  if (!slots) return TP_ERR_NO_MEMORY;
  move_into(index, slots, slot_count);
  return TP_OK;
}

tp_status tp__index_copy(tp__index *index, const tp__index *from) {
  assert(index->slot_count == 0);
  if (from->slot_count == 0) return TP_OK;
  index->slots = tp__alloc(index->allocator, from->slot_count * sizeof *index->slots);
  if (!index->slots) return TP_ERR_NO_MEMORY;
  memcpy(index->slots, from->slots, from->slot_count * sizeof *index->slots);
  index->slot_count = from->slot_count;
  index->id_count = from->id_count;
  return TP_OK;
}

uint64_t tp__index_hash(const char *id) { return XXH3_64bits(id, strlen(id)); }

void tp__index_put_hashed(tp__index *index, const char *id, uint64_t hash, size_t value) {
  tp__index_slot *slot = slot_of(index, id, hash);
  if (!slot->id) index->id_count++;
  assert(index->id_count <= index->slot_count / 2);
  *slot = (tp__index_slot){.id = id, .hash = hash, .value = value};
}

void tp__index_put(tp__index *index, const char *id, size_t value) {
  tp__index_put_hashed(index, id, tp__index_hash(id), value);
}

bool tp__index_get_hashed(const tp__index *index, const char *id, uint64_t hash, size_t *ret_value) {
  if (index->slot_count == 0) return false;
  const tp__index_slot *slot = slot_of(index, id, hash);
  if (!slot->id) return false;
  *ret_value = slot->value;
  return true;
}

bool tp__index_get(const tp__index *index, const char *id, size_t *ret_value) {
  return index->id_count > 0 && tp__index_get_hashed(index, id, tp__index_hash(id), ret_value);
}

/* The entries after the gap move into it, except those that would then lie before the place that their hash gives
 * them. */
size_t tp__index_remove(tp__index *index, const char *id, uint64_t hash) {
  size_t mask = index->slot_count - 1;
  tp__index_slot *gap = slot_of(index, id, hash);
  size_t value = gap->value;
  assert(gap->id);
  for (size_t at = (size_t)(gap - index->slots) + 1;; at++) {
    tp__index_slot *slot = &index->slots[at & mask];
    if (!slot->id) break;
    size_t from_home = (at - (slot->hash & mask)) & mask, from_gap = (at - (size_t)(gap - index->slots)) & mask;
    if (from_home < from_gap) continue;
    *gap = *slot;
    gap = slot;
  }
  *gap = (tp__index_slot){0};
  index->id_count--;
  return value;
}
