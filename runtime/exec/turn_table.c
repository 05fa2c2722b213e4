/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/turn_table.h"

#include "runtime/exec/exec.h"
#include "runtime/exec/runtime.h"

enum { SLAB_SLOTS = 8, MAGAZINE = 32, BATCH_MAX = 64, NUMBERS = 256, ENTRY_IDS = 4096, LINE = 64 };

typedef struct slab {
  struct slab *next; /* never changes */
  void *memory;      /* as the allocator gave it */
  char *slots;       /* aligned */
} slab;

static size_t slab_size(const tp__turn_table *table) { return sizeof(slab) + LINE + SLAB_SLOTS * table->slot_size; }

tp_status tp__turn_table_init(tp__turn_table *table, const tp_allocator *allocator, const tp__thread_caches *caches,
                              size_t turn_size, uint32_t quota) {
  memset(table, 0, sizeof *table);
  table->allocator = allocator;
  table->caches = caches;
  table->slot_size = (turn_size + LINE - 1) / LINE * LINE;
  table->quota = table->quota_all = quota;
  table->batch = quota / (4 * caches->count);
  if (table->batch > BATCH_MAX) table->batch = BATCH_MAX;
  if (table->batch < 1) table->batch = 1;
  return tp__mutex_init(&table->mutex, TP__RANK_turn_table);
}

void tp__turn_table_fini(tp__turn_table *table) {
  TP__ASSERT(!table->magazines.count || tp__aptr_load_relaxed(&table->slabs));
  slab *s = tp__aptr_load_acquire(&table->slabs);
  while (s) {
    slab *next = s->next;
    tp__release(table->allocator, s, slab_size(table));
    s = next;
  }
  tp__mutex_fini(&table->mutex);
}

#ifdef TP_CHECKS
/* Under the cache's lock. */
static void cache_check_locked(const tp__thread_cache *cache, const tp__turn_table *table) {
  TP__LOCKED(&cache->mutex);
  /* The quota that a cache took is returned to some cache once, so no cache has more than there is in total. */
  assert(cache->quota <= table->quota_all);
  /* A magazine with a count has items, and a magazine with items has a count. */
  assert(!cache->free_turns.loaded.count == !cache->free_turns.loaded.items);
  assert(!cache->free_turns.previous.count == !cache->free_turns.previous.items);
  /* Numbers and ids are taken in batches. */
  assert(cache->next_turn_number <= cache->end_turn_number);
}

/* Under the table's lock. */
static void table_check_locked(const tp__turn_table *table) {
  TP__LOCKED(&table->mutex);
  /* The quota of the table is the part that no thread cache has taken. */
  assert(table->quota <= table->quota_all && table->batch > 0);
  /* The list's count agrees with its magazines. */
  assert(!table->magazines.count == !table->magazines.first);
}
#endif

/* ---- getting more ---- */

/* The memory is zero: `open` and `refs` show that no turn is in a slot. */
static slab *new_slab(const tp__turn_table *table) {
  slab *s = tp__alloc_zero(table->allocator, slab_size(table));
  if (!s) return NULL;
  s->slots = (char *)(s + 1);
  s->slots += (LINE - (uintptr_t)s->slots % LINE) % LINE;
  return s;
}

static tp__magazine slots_of(const tp__turn_table *table, slab *s) {
  tp__magazine magazine = {NULL, 0};
  for (uint32_t i = SLAB_SLOTS; i-- > 0;) {
    void *slot = s->slots + i * table->slot_size;
    memcpy(slot, &magazine.items, sizeof(void *));
    magazine = (tp__magazine){slot, magazine.count + 1};
  }
  return magazine;
}

/* Called when the cache of the calling thread has no free slot. */
static tp_status more_slots(tp__turn_table *table, tp__thread_cache *cache) {
  tp__mutex_lock(&table->mutex);
  tp__magazine magazine = tp__magazine_list_pop(&table->magazines);
  tp__mutex_unlock(&table->mutex);
  if (magazine.count == 0) {
    slab *s = new_slab(table);
    if (!s) return TP_ERR_NO_MEMORY;
    magazine = slots_of(table, s);
    tp__mutex_lock(&table->mutex);
    s->next = tp__aptr_load_relaxed(&table->slabs); /* written under this lock */
    tp__aptr_store_release(&table->slabs, s);       /* pairs with a walk */
    tp__mutex_unlock(&table->mutex);
  }
  tp__mutex_lock(&cache->mutex);
  if (cache->free_turns.loaded.count == 0) {
    cache->free_turns.loaded = magazine;
    magazine.count = 0;
  }
  tp__mutex_unlock(&cache->mutex);
  tp__mutex_lock(&table->mutex); /* another thread that uses the same cache was faster */
  tp__magazine_list_push(&table->magazines, magazine);
  tp__mutex_unlock(&table->mutex);
  return TP_OK;
}

static void gather_quota_locked(tp__turn_table *table) {
  TP__LOCKED(&table->mutex);
  for (uint32_t i = 0; i < table->caches->count; i++) {
    tp__thread_cache *cache = tp__thread_cache_at(table->caches, i);
    tp__mutex_lock(&cache->mutex);
    table->quota += cache->quota;
    cache->quota = 0;
    tp__mutex_unlock(&cache->mutex);
  }
}

/* Called when the cache of the calling thread has no quota. The cache gets a batch before another thread can collect
 * all quota. */
static tp_status more_quota(tp__turn_table *table, tp__thread_cache *cache) {
  TP__ASSERT(table->batch > 0);
  tp__mutex_lock(&table->mutex);
  if (table->quota == 0) gather_quota_locked(table);
  uint32_t batch = table->quota < table->batch ? table->quota : table->batch;
  table->quota -= batch;
  TP__CHECK(table_check_locked(table));
  tp__mutex_lock(&cache->mutex);
  cache->quota += batch;
  TP__CHECK(cache_check_locked(cache, table));
  tp__mutex_unlock(&cache->mutex);
  tp__mutex_unlock(&table->mutex);
  return batch > 0 ? TP_OK : TP_ERR_FULL;
}

/* ---- numbers ---- */

static uint64_t next_number_locked(tp_runtime *runtime, tp__thread_cache *cache) {
  TP__LOCKED(&cache->mutex);
  if (cache->next_turn_number == cache->end_turn_number) {
    cache->next_turn_number = 1 + tp__a64_add_relaxed(&tp__runtime_turn_table(runtime)->turn_numbers_taken, NUMBERS);
    cache->end_turn_number = cache->next_turn_number + NUMBERS;
  }
  return cache->next_turn_number++;
}

uint64_t tp__turn_number(tp_runtime *runtime) {
  tp__thread_cache *cache = tp__thread_cache_here(tp__runtime_caches(runtime));
  tp__mutex_lock(&cache->mutex);
  uint64_t number = next_number_locked(runtime, cache);
  tp__mutex_unlock(&cache->mutex);
  return number;
}

uint64_t tp__entry_ids_take(tp_runtime *runtime, uint32_t count, uint64_t *ret_last) {
  tp__thread_cache *cache = tp__thread_cache_here(tp__runtime_caches(runtime));
  tp__thread_cache_lock(cache);
  if (cache->last_entry_id_of_batch - cache->last_entry_id < count) {
    cache->last_entry_id = tp__a64_add_relaxed(&tp__runtime_turn_table(runtime)->entry_ids_taken, ENTRY_IDS);
    cache->last_entry_id_of_batch = cache->last_entry_id + ENTRY_IDS;
  }
  uint64_t before = cache->last_entry_id;
  cache->last_entry_id += count;
  *ret_last = cache->last_entry_id;
  tp__thread_cache_unlock(cache);
  return before;
}

/* ---- taking and returning a slot ---- */

/* All parts of a turn are taken under the same lock under which the runtime was seen as started. A drain sets `life`
 * and then passes every such lock (tp__turn_table_fence). So it finds each turn that began before. */
static tp_status take_turn_locked(tp_runtime *runtime, tp__thread_cache *cache, tp__turn_kind kind,
                                  tp__turn **ret_turn) {
  TP__LOCKED(&cache->mutex);
  if (tp__runtime_life(runtime) != TP__LIFE_STARTED) return TP_ERR_SHUTDOWN;
  tp__turn *turn = cache->quota > 0 ? tp__magazines_take(&cache->free_turns) : NULL;
  *ret_turn = turn;
  if (!turn) return TP_OK;
  if (cache->free_turns.loaded.items) tp__turn_prefetch(cache->free_turns.loaded.items); /* the next turn's slot */
  cache->quota--;
  turn->snapshot = tp__pins_take(&cache->pins);
  turn->number = next_number_locked(runtime, cache);
  turn->owes_quota = true;
  TP__ASSERT(tp__a32_load_relaxed(&turn->refs) == 0 && tp__a32_load_relaxed(&turn->open) == 0); /* the slot was free */
  TP__CHECK(cache_check_locked(cache, tp__runtime_turn_table(runtime)));
  tp__a32_store_relaxed(&turn->open, 1 + (uint32_t)kind); /* the lock publishes it to a drain */
  return TP_OK;
}

tp_status tp__turn_table_take(tp_runtime *runtime, tp__turn_kind kind, tp__turn **ret_turn) {
  tp__turn_table *table = tp__runtime_turn_table(runtime);
  tp__thread_cache *cache = tp__thread_cache_here(table->caches);
  for (;;) {
    tp__mutex_lock(&cache->mutex);
    tp_status status = take_turn_locked(runtime, cache, kind, ret_turn);
    bool no_quota = cache->quota == 0;
    tp__mutex_unlock(&cache->mutex);
    if (status != TP_OK || *ret_turn) return status;
    status = no_quota ? more_quota(table, cache) : more_slots(table, cache);
    if (status != TP_OK) return status;
  }
}

void tp__turn_table_recycle(tp__turn *turn) {
  TP__ASSERT(turn->in_table && tp__a32_load_relaxed(&turn->refs) == 0 && turn->snapshot);
  tp__turn_table *table = tp__runtime_turn_table(turn->runtime);
  tp__thread_cache *cache = tp__thread_cache_here(table->caches);
  tp__snapshot *snapshot = turn->snapshot;
  tp__magazine full;
  tp__a32_store_relaxed(&turn->open, 0);
  tp__mutex_lock(&cache->mutex);
  bool unpinned = tp__pins_give(&cache->pins, snapshot);
  cache->quota += turn->owes_quota;
  bool fits = tp__magazines_put(&cache->free_turns, turn, MAGAZINE, &full);
  TP__CHECK(cache_check_locked(cache, table));
  tp__mutex_unlock(&cache->mutex);
  if (!unpinned) tp__snapshot_unpin(snapshot);
  if (fits) return;
  tp__mutex_lock(&table->mutex);
  tp__magazine_list_push(&table->magazines, full);
  TP__CHECK(table_check_locked(table));
  tp__mutex_unlock(&table->mutex);
}

/* The quota is returned with the slot, unless other references keep the slot in use. */
void tp__turn_table_close(tp__turn *turn) {
  TP__ASSERT(turn->in_table && tp__a32_load_relaxed(&turn->open) == 1u + turn->kind);
  tp__thread_cache *cache = tp__thread_cache_here(tp__runtime_caches(turn->runtime));
  if (tp__a32_load_acquire(&turn->refs) > 1) {
    TP__ASSERT(turn->owes_quota); /* it is returned once */
    turn->owes_quota = false;
    tp__mutex_lock(&cache->mutex);
    cache->quota++;
    tp__mutex_unlock(&cache->mutex);
  }
  tp__a32_store_release(&turn->open, 0); /* pairs with the acquire loads of open, such as in tp__turn_table_count() */
}

/* ---- walking ---- */

static tp__turn *turn_at(const tp__turn_table *table, const slab *s, uint32_t i) {
  return (tp__turn *)(void *)(s->slots + i * table->slot_size);
}

#define EACH_TURN(table, turn)                                               \
  for (slab *s_ = tp__aptr_load_acquire(&(table)->slabs); s_; s_ = s_->next) \
    for (uint32_t i_ = 0; i_ < SLAB_SLOTS && ((turn) = turn_at((table), s_, i_)); i_++)

/* The memory of a slot is always a turn's, so `refs` may be read even when no turn is in use there. */
static bool try_hold(tp__turn *turn) {
  uint32_t refs = tp__a32_load_acquire(&turn->refs);
  while (refs > 0)
    if (tp__a32_cas_acq_rel(&turn->refs, &refs, refs + 1)) return true;
  return false;
}

void tp__turn_table_each(tp__turn_table *table, void (*each)(void *ctx, tp__turn *turn), void *ctx) {
  tp__turn *turn;
  EACH_TURN(table, turn) {
    if (!tp__a32_load_acquire(&turn->open) || !try_hold(turn)) continue;
    if (tp__a32_load_acquire(&turn->open)) each(ctx, turn);
    tp__turn_unref(turn);
  }
}

uint64_t tp__turn_table_count(tp__turn_table *table, tp__turn_kind kind) {
  uint64_t count = 0;
  tp__turn *turn;
  EACH_TURN(table, turn) count += tp__a32_load_acquire(&turn->open) == 1 + (uint32_t)kind;
  return count;
}

bool tp__turn_table_is_busy(tp__turn_table *table) {
  tp__turn *turn;
  EACH_TURN(table, turn) {
    if (tp__a32_load_acquire(&turn->open) && tp__a32_load_seq_cst(&turn->busy)) return true;
  }
  return false;
}

void tp__turn_table_fence(tp__turn_table *table) {
  for (uint32_t i = 0; i < table->caches->count; i++) {
    tp__mutex_lock(&tp__thread_cache_at(table->caches, i)->mutex);
    tp__mutex_unlock(&tp__thread_cache_at(table->caches, i)->mutex);
  }
}
