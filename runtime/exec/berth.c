/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/berth.h"

#include "runtime/exec/runtime.h"

enum { SLAB_BERTHS = 8, MAGAZINE = 32, LOT_MAX = 64, NUMBERS = 256, ENTRY_IDS = 4096, LINE = 64 };

typedef struct slab {
  struct slab *next; /* never changes */
  void *memory;      /* as the allocator gave it */
  char *berths;      /* aligned */
} slab;

static size_t slab_size(const tp__berths *berths) { return sizeof(slab) + LINE + SLAB_BERTHS * berths->berth_size; }

tp_status tp__berths_init(tp__berths *berths, const tp_allocator *allocator, const tp__keep *keep, size_t turn_size,
                          uint32_t places) {
  memset(berths, 0, sizeof *berths);
  berths->allocator = allocator;
  berths->keep = keep;
  berths->berth_size = (turn_size + LINE - 1) / LINE * LINE;
  berths->places = places;
  berths->lot = places / (4 * keep->count);
  if (berths->lot > LOT_MAX) berths->lot = LOT_MAX;
  if (berths->lot < 1) berths->lot = 1;
  return tp__mutex_init(&berths->mutex);
}

void tp__berths_fini(tp__berths *berths) {
  slab *s = tp__aptr_load_acquire(&berths->slabs);
  while (s) {
    slab *next = s->next;
    tp__release(berths->allocator, s, slab_size(berths));
    s = next;
  }
  tp__mutex_fini(&berths->mutex);
}

/* ---- getting more ---- */

/* Zero, so that `open` and `refs` say that nobody is there. */
static slab *new_slab(const tp__berths *berths) {
  slab *s = tp__alloc_zero(berths->allocator, slab_size(berths));
  if (!s) return NULL;
  s->berths = (char *)(s + 1);
  s->berths += (LINE - (uintptr_t)s->berths % LINE) % LINE;
  return s;
}

static tp__magazine berths_of(const tp__berths *berths, slab *s) {
  tp__magazine magazine = {NULL, 0};
  for (uint32_t i = SLAB_BERTHS; i-- > 0;) {
    void *berth = s->berths + i * berths->berth_size;
    memcpy(berth, &magazine.items, sizeof(void *));
    magazine = (tp__magazine){berth, magazine.count + 1};
  }
  return magazine;
}

/* The calling thread has no berth at hand. */
static tp_status more_berths(tp__berths *berths, tp__kept *kept) {
  tp__mutex_lock(&berths->mutex);
  tp__magazine magazine = tp__depot_get(&berths->depot);
  tp__mutex_unlock(&berths->mutex);
  if (magazine.count == 0) {
    slab *s = new_slab(berths);
    if (!s) return TP_ERR_NO_MEMORY;
    magazine = berths_of(berths, s);
    tp__mutex_lock(&berths->mutex);
    s->next = tp__aptr_load_relaxed(&berths->slabs); /* written under this lock */
    tp__aptr_store_release(&berths->slabs, s);       /* pairs with who walks */
    tp__mutex_unlock(&berths->mutex);
  }
  tp__mutex_lock(&kept->mutex);
  if (kept->berths.loaded.count == 0) {
    kept->berths.loaded = magazine;
    magazine.count = 0;
  }
  tp__mutex_unlock(&kept->mutex);
  tp__mutex_lock(&berths->mutex); /* somebody who shares it was faster */
  tp__depot_put(&berths->depot, magazine);
  tp__mutex_unlock(&berths->mutex);
  return TP_OK;
}

static void gather_places_locked(tp__berths *berths) {
  for (uint32_t i = 0; i < berths->keep->count; i++) {
    tp__kept *kept = tp__kept_at(berths->keep, i);
    tp__mutex_lock(&kept->mutex);
    berths->places += kept->places;
    kept->places = 0;
    tp__mutex_unlock(&kept->mutex);
  }
}

/* The calling thread has no place at hand. What it gets is in its kept before anybody else can count. */
static tp_status more_places(tp__berths *berths, tp__kept *kept) {
  tp__mutex_lock(&berths->mutex);
  if (berths->places == 0) gather_places_locked(berths);
  uint32_t lot = berths->places < berths->lot ? berths->places : berths->lot;
  berths->places -= lot;
  tp__mutex_lock(&kept->mutex);
  kept->places += lot;
  tp__mutex_unlock(&kept->mutex);
  tp__mutex_unlock(&berths->mutex);
  return lot > 0 ? TP_OK : TP_ERR_FULL;
}

/* ---- numbers ---- */

static uint64_t next_number_locked(tp_runtime *runtime, tp__kept *kept) {
  if (kept->next_turn_number == kept->end_turn_number) {
    kept->next_turn_number = 1 + tp__a64_add_relaxed(&runtime->berths.turn_numbers_taken, NUMBERS);
    kept->end_turn_number = kept->next_turn_number + NUMBERS;
  }
  return kept->next_turn_number++;
}

uint64_t tp__turn_number(tp_runtime *runtime) {
  tp__kept *kept = tp__kept_here(&runtime->keep);
  tp__mutex_lock(&kept->mutex);
  uint64_t number = next_number_locked(runtime, kept);
  tp__mutex_unlock(&kept->mutex);
  return number;
}

uint64_t tp__entry_ids_take(tp_runtime *runtime, uint32_t count, uint64_t *ret_last) {
  tp__kept *kept = tp__kept_here(&runtime->keep);
  tp__kept_enter(kept);
  if (kept->last_entry_id_of_lot - kept->last_entry_id < count) {
    kept->last_entry_id = tp__a64_add_relaxed(&runtime->berths.entry_ids_taken, ENTRY_IDS);
    kept->last_entry_id_of_lot = kept->last_entry_id + ENTRY_IDS;
  }
  uint64_t before = kept->last_entry_id;
  kept->last_entry_id += count;
  *ret_last = kept->last_entry_id;
  tp__kept_leave(kept);
  return before;
}

/* ---- take and give ---- */

/* What is taken is taken together, under the one lock under which the runtime was seen to be up: a drain that has
 * written its word and then passed every such lock (tp__berths_fence) finds each turn that did not see it. */
static tp_status take_locked(tp_runtime *runtime, tp__kept *kept, tp__turn_kind kind, tp__turn **ret_turn) {
  if (tp__a32_load_acquire(&runtime->life) != TP__LIFE_STARTED) return TP_ERR_SHUTDOWN;
  tp__turn *turn = kept->places > 0 ? tp__shelf_take(&kept->berths) : NULL;
  *ret_turn = turn;
  if (!turn) return TP_OK;
  if (kept->berths.loaded.items) tp__turn_prefetch(kept->berths.loaded.items); /* the next one: another thread had it */
  kept->places--;
  turn->snapshot = tp__pins_take(&kept->pins);
  turn->number = next_number_locked(runtime, kept);
  turn->owes_place = true;
  tp__a32_store_relaxed(&turn->open, 1 + (uint32_t)kind); /* the lock publishes it to a drain */
  return TP_OK;
}

tp_status tp__berth_take(tp_runtime *runtime, tp__turn_kind kind, tp__turn **ret_turn) {
  tp__kept *kept = tp__kept_here(&runtime->keep);
  for (;;) {
    tp__mutex_lock(&kept->mutex);
    tp_status status = take_locked(runtime, kept, kind, ret_turn);
    bool no_place = kept->places == 0;
    tp__mutex_unlock(&kept->mutex);
    if (status != TP_OK || *ret_turn) return status;
    status = no_place ? more_places(&runtime->berths, kept) : more_berths(&runtime->berths, kept);
    if (status != TP_OK) return status;
  }
}

void tp__berth_give(tp__turn *turn) {
  tp_runtime *runtime = turn->runtime;
  tp__berths *berths = &runtime->berths;
  tp__kept *kept = tp__kept_here(&runtime->keep);
  tp__snapshot *snapshot = turn->snapshot;
  tp__magazine full;
  tp__a32_store_relaxed(&turn->open, 0);
  tp__mutex_lock(&kept->mutex);
  bool unpinned = tp__pins_give(&kept->pins, snapshot);
  kept->places += turn->owes_place;
  bool room = tp__shelf_give(&kept->berths, turn, MAGAZINE, &full);
  tp__mutex_unlock(&kept->mutex);
  if (!unpinned) tp__snapshot_unpin(snapshot);
  if (room) return;
  tp__mutex_lock(&berths->mutex);
  tp__depot_put(&berths->depot, full);
  tp__mutex_unlock(&berths->mutex);
}

/* The place goes back with the berth when the turn is let go of at once, as nearly every one is. */
void tp__berth_close(tp__turn *turn) {
  tp__kept *kept = tp__kept_here(&turn->runtime->keep);
  if (tp__a32_load_acquire(&turn->refs) > 1) {
    turn->owes_place = false;
    tp__mutex_lock(&kept->mutex);
    kept->places++;
    tp__mutex_unlock(&kept->mutex);
  }
  tp__a32_store_release(&turn->open, 0); /* pairs with who counts */
}

/* ---- walking ---- */

static tp__turn *turn_at(const tp__berths *berths, const slab *s, uint32_t i) {
  return (tp__turn *)(void *)(s->berths + i * berths->berth_size);
}

#define EACH_TURN(berths, turn)                                               \
  for (slab *s_ = tp__aptr_load_acquire(&(berths)->slabs); s_; s_ = s_->next) \
    for (uint32_t i_ = 0; i_ < SLAB_BERTHS && ((turn) = turn_at((berths), s_, i_)); i_++)

/* A berth is a turn's for ever, so its count may be looked at when nobody is there. */
static bool try_hold(tp__turn *turn) {
  uint32_t refs = tp__a32_load_acquire(&turn->refs);
  while (refs > 0)
    if (tp__a32_cas_acq_rel(&turn->refs, &refs, refs + 1)) return true;
  return false;
}

void tp__berths_each(tp__berths *berths, void (*each)(void *ctx, tp__turn *turn), void *ctx) {
  tp__turn *turn;
  EACH_TURN(berths, turn) {
    if (!tp__a32_load_acquire(&turn->open) || !try_hold(turn)) continue;
    if (tp__a32_load_acquire(&turn->open)) each(ctx, turn);
    tp__turn_unref(turn);
  }
}

uint64_t tp__berths_count(tp__berths *berths, tp__turn_kind kind) {
  uint64_t count = 0;
  tp__turn *turn;
  EACH_TURN(berths, turn) count += tp__a32_load_acquire(&turn->open) == 1 + (uint32_t)kind;
  return count;
}

bool tp__berths_busy(tp__berths *berths) {
  tp__turn *turn;
  EACH_TURN(berths, turn) {
    if (tp__a32_load_acquire(&turn->open) && tp__a32_load_seq_cst(&turn->busy)) return true;
  }
  return false;
}

void tp__berths_fence(tp__berths *berths) {
  for (uint32_t i = 0; i < berths->keep->count; i++) {
    tp__mutex_lock(&tp__kept_at(berths->keep, i)->mutex);
    tp__mutex_unlock(&tp__kept_at(berths->keep, i)->mutex);
  }
}
