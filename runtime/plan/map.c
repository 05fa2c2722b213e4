/* SPDX-License-Identifier: Apache-2.0
 *
 * map.c: the registered objects of one version by id. The map shares most of its parts with the versions before and
 * after it. Ids are distributed over shards by their hash. A commit copies the shards that it changes, and takes a
 * reference to the others. A shard holds the references to its members, so a map that shares a shard only needs to
 * count the shard. */
#include "runtime/plan/registry.h"

enum { SHARD_IDS = 32 /* what a shard has when the map is made anew; twice that on average makes it anew */ };

struct tp__shard {
  tp__a32 refs;
  tp__index ids; /* the values are pointers; never changes once the snapshot is published */
};

/* ---- shards ---- */

static void shard_unref(tp__shard *shard, const tp__map_kind *kind) {
  if (!shard || tp__a32_sub_acq_rel(&shard->refs, 1) > 1) return;
  const tp_allocator *allocator = shard->ids.allocator;
  for (size_t i = 0; i < shard->ids.slot_count; i++) {
    if (shard->ids.slots[i].id) kind->unref((void *)(uintptr_t)shard->ids.slots[i].value);
  }
  tp__index_fini(&shard->ids);
  tp__release(allocator, shard, sizeof *shard);
}

static tp__shard *shard_new(const tp_allocator *allocator) {
  tp__shard *shard = tp__alloc_zero(allocator, sizeof *shard);
  if (!shard) return NULL;
  tp__index_init(&shard->ids, allocator);
  tp__a32_store_relaxed(&shard->refs, 1);
  return shard;
}

static tp__shard *shard_copy(const tp__shard *from, const tp__map_kind *kind) {
  tp__shard *shard = shard_new(from->ids.allocator);
  if (!shard) return NULL;
  if (tp__index_copy(&shard->ids, &from->ids) != TP_OK) {
    tp__release(from->ids.allocator, shard, sizeof *shard);
    return NULL;
  }
  for (size_t i = 0; i < shard->ids.slot_count; i++) {
    if (shard->ids.slots[i].id) kind->ref((void *)(uintptr_t)shard->ids.slots[i].value);
  }
  return shard;
}

/* The low bits of a hash choose the slot within a shard, so other bits choose the shard. */
static size_t shard_of(const tp__map *map, uint64_t hash) { return (hash >> 32) & (map->shard_count - 1); }

/* Makes the shard this map's own, so that it can be changed. */
static tp_status shard_own(tp__map *map, size_t at, tp__shard **ret_shard) {
  tp__shard *shard = map->shards[at];
  if (!shard || tp__a32_load_relaxed(&shard->refs) > 1) {
    tp__shard *own = shard ? shard_copy(shard, map->kind) : shard_new(map->allocator);
    if (!own) return TP_ERR_NO_MEMORY;
    shard_unref(shard, map->kind); /* never the last reference: the count showed another one */
    map->shards[at] = own;
  }
  *ret_shard = map->shards[at];
  return TP_OK;
}

/* ---- life ---- */

void tp__map_init(tp__map *map, const tp_allocator *allocator, const tp__map_kind *kind) {
  *map = (tp__map){.allocator = allocator, .kind = kind};
}

void tp__map_fini(tp__map *map) {
  for (size_t i = 0; i < map->shard_count; i++) shard_unref(map->shards[i], map->kind);
  tp__release(map->allocator, map->shards, map->shard_count * sizeof *map->shards);
  tp__map_init(map, map->allocator, map->kind);
}

static tp_status put_member(tp__map *map, const char *id, uint64_t hash, void *member) {
  TP__ASSERT(member && map->shard_count > 0);
  tp__shard *shard;
  TP__TRY(shard_own(map, shard_of(map, hash), &shard));
  TP__TRY(tp__index_reserve(&shard->ids, shard->ids.id_count + 1));
  map->kind->ref(member);
  tp__index_put_hashed(&shard->ids, id, hash, (size_t)(uintptr_t)member);
  map->count++;
  return TP_OK;
}

static tp_status put_all(tp__map *map, const tp__shard *shard) {
  for (size_t i = 0; shard && i < shard->ids.slot_count; i++) {
    const tp__index_slot *slot = &shard->ids.slots[i];
    if (slot->id) TP__TRY(put_member(map, slot->id, slot->hash, (void *)(uintptr_t)slot->value));
  }
  return TP_OK;
}

static void share_all(tp__map *map, const tp__map *base) {
  for (size_t i = 0; i < base->shard_count; i++) {
    map->shards[i] = base->shards[i];
    if (map->shards[i]) tp__a32_add_relaxed(&map->shards[i]->refs, 1);
  }
  map->count = base->count;
}

/* A new shard is half full at most, so that many commits follow before the map is rebuilt. */
tp_status tp__map_begin(tp__map *map, const tp__map *base, size_t more) {
  assert(map->shard_count == 0);
  size_t shard_count = base->shard_count ? base->shard_count : 1, needed = base->count + more;
  if (needed > 2 * SHARD_IDS * shard_count) {
    while (SHARD_IDS * shard_count < needed) shard_count *= 2;
  }
  map->shards = tp__alloc_zero(map->allocator, shard_count * sizeof *map->shards);
  if (!map->shards) return TP_ERR_NO_MEMORY;
  map->shard_count = shard_count;
  if (shard_count == base->shard_count) {
    share_all(map, base);
    return TP_OK;
  }
  for (size_t i = 0; i < base->shard_count; i++) TP__TRY(put_all(map, base->shards[i]));
  return TP_OK;
}

/* ---- members ---- */

tp_status tp__map_add(tp__map *map, const char *id, void *member) {
  return put_member(map, id, tp__index_hash(id), member);
}

tp_status tp__map_remove(tp__map *map, const char *id) {
  uint64_t hash = tp__index_hash(id);
  tp__shard *shard;
  TP__TRY(shard_own(map, shard_of(map, hash), &shard));
  size_t member = tp__index_remove(&shard->ids, id, hash);
  assert(map->count > 0);
  map->count--;
  map->kind->unref((void *)(uintptr_t)member); /* not the last reference: the version before has one, too */
  return TP_OK;
}

void *tp__map_get(const tp__map *map, const char *id) {
  if (map->count == 0) return NULL;
  uint64_t hash = tp__index_hash(id);
  const tp__shard *shard = map->shards[shard_of(map, hash)];
  size_t member;
  return shard && tp__index_get_hashed(&shard->ids, id, hash, &member) ? (void *)(uintptr_t)member : NULL;
}
