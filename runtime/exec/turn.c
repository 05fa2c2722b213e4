/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/turn.h"

#include "runtime/exec/blocks.h"
#include "runtime/exec/entry.h"
#include "runtime/exec/records.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/turn_table.h"

enum { ARENA_BYTES_MAX = 64 << 20 };

#ifdef TP_CHECKS
void tp__turn_check(const tp__turn *turn) {
  TP__OWNED(&turn->strand);
  /* A turn belongs to a runtime and has a snapshot from its begin to its end. */
  assert(turn->runtime && turn->snapshot && turn->snapshot->registry == tp__runtime_registry(turn->runtime));
  /* The depth of a nested turn is that of its parent plus one. */
  assert(turn->kind < TP__TURN_KINDS && turn->depth <= TP__NESTED_MAX);
  assert(turn->depth == 0 || (turn->parent && turn->parent->depth <= turn->depth));
  /* Entry ids are taken in batches. */
  assert(turn->last_entry_id <= turn->last_of_batch);
  /* The turn's list holds entries with a block of their own that is in use, and that no other thread may end. */
  const tp__link *link = turn->entries.next;
  for (uint32_t i = 0; i < TP__CHECK_ITEMS_MAX && link != &turn->entries; i++, link = link->next) {
    const tp__entry *entry = TP__CONTAINER((tp__link *)(uintptr_t)link, tp__entry, link);
    assert(entry->turn == turn && entry->taken && link->next->prev == link);
  }
}
#endif

/* ---- cancel ---- */

/* The end of an entry may end other entries or change the whole list, so the search begins again after each. */
static tp__entry *next_to_cancel(const tp__turn *turn) {
  for (tp__link *link = turn->entries.next; link != &turn->entries; link = link->next) {
    tp__entry *entry = TP__CONTAINER(link, tp__entry, link);
    if (!entry->ended && !entry->ignores_cancel && !entry->cancelled) return entry;
  }
  return NULL;
}

static void cancel_delivered(tp__message *message) {
  tp__turn *turn = TP__CONTAINER(message, tp__turn, cancel_message);
  int64_t now_ns = tp__now_ns();
  turn->is_cancelled = true;
  if (turn->deadline_ns > now_ns) turn->deadline_ns = now_ns;
  TP__CHECK(tp__turn_check(turn));
  tp__turn_hold(turn);
  if (!turn->strand.end)
    for (tp__entry *entry; !turn->strand.end && (entry = next_to_cancel(turn));) tp__entry_cancel(entry);
  if (!turn->strand.end && turn->cancelled) turn->cancelled(turn);
  tp__turn_unref(turn); /* the strand's own reference is held until the strand ends */
}

void tp__turn_cancel(tp__turn *turn) {
  if (tp__a32_exchange_acq_rel(&turn->cancel_asked, 1) == 0) tp__strand_push(&turn->strand, &turn->cancel_message);
}

/* ---- life ---- */

static const tp_text empty = {"", 0};

static void clear_ids(tp__turn *turn, tp_runtime *runtime) {
  for (uint32_t id = 0; id < TP_ID_COUNT; id++) turn->ids[id] = empty;
  turn->mode = turn->caller_job = turn->triggered_by = turn->environment = empty;
  turn->has_ids = false;
  const tp_allocator *allocator = &tp__runtime_blocks(runtime)->as_allocator;
  tp__arena_init(&turn->arena, allocator, turn->identity, sizeof turn->identity, ARENA_BYTES_MAX);
}

void tp__turn_clear(tp__turn *turn, tp_runtime *runtime) {
  tp__strand_clear(&turn->strand);
  turn->block_size = 0;
  turn->sets = NULL;
  turn->cancel_message.deliver = cancel_delivered;
  tp__a32_store_relaxed(&turn->busy, 0);
  tp__a32_store_relaxed(&turn->cancel_asked, 0);
  turn->cleared = true;
  turn->is_cancelled = turn->is_fenced = false;
  turn->parent = turn->origin = NULL;
  turn->inbox = NULL;
  turn->last_entry_id = turn->last_of_batch = 0;
  turn->jobs_process = turn->jobs_turn = turn->fence = 0;
  tp__list_init(&turn->entries);
  turn->records = (tp__record_batch){0};
  turn->cached_entry = NULL;
  tp__list_init(&turn->runtime_link);
  clear_ids(turn, runtime);
}

/* Resets a turn that has ended. Fields that are idle at the end are not written, and neither are ids if the turn had
 * none. The next turn uses the rest of the batch of entry ids. */
static void reset(tp__turn *turn) {
  TP__ASSERT(!turn->cached_entry && !turn->records.memory && !turn->parent && !turn->inbox && !turn->jobs_turn &&
             !turn->fence && tp__list_empty(&turn->entries));
  tp__strand_reset(&turn->strand);
  turn->sets = NULL;
  tp__a32_store_relaxed(&turn->busy, 0);
  tp__a32_store_relaxed(&turn->cancel_asked, 0);
  turn->is_cancelled = turn->is_fenced = false;
  if (turn->has_ids || turn->arena.next != turn->identity) clear_ids(turn, turn->runtime);
}

static bool copy_identity(tp__turn *turn, const tp__turn_spec *spec) {
  for (uint32_t id = 0; id < TP_ID_COUNT; id++)
    if (spec->ids[id].size > 0 && !tp__arena_text(&turn->arena, spec->ids[id], &turn->ids[id])) return false;
  tp_text job = spec->caller_job, by = spec->triggered_by, environment = spec->environment;
  if (job.size > 0 && !tp__arena_text(&turn->arena, job, &turn->caller_job)) return false;
  if (by.size > 0 && !tp__arena_text(&turn->arena, by, &turn->triggered_by)) return false;
  if (environment.size > 0 && !tp__arena_text(&turn->arena, environment, &turn->environment)) return false;
  return spec->mode.size == 0 || tp__arena_text(&turn->arena, spec->mode, &turn->mode);
}

tp_text tp__turn_generated_id(const tp__turn *turn, char *buffer) {
  const tp_runtime *runtime = turn->runtime;
  char decimal[20], *at = buffer;
  uint64_t number = turn->number;
  int count = 0;
  tp_text prefix = tp__runtime_turn_prefix(runtime);
  memcpy(at, prefix.data, prefix.size);
  at += prefix.size;
  do decimal[count++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  while (count > 0) *at++ = decimal[--count];
  return (tp_text){buffer, (size_t)(at - buffer)};
}

void tp__turn_name(tp__turn *turn) {
  turn->ids[TP_ID_TURN] = tp__turn_generated_id(turn, turn->own_id);
  turn->is_named = true;
}

static tp_status init_here(tp__turn *turn, tp_runtime *runtime, const tp__turn_spec *spec) {
  turn->owes_quota = false;
  turn->snapshot = NULL;
  /* From here on the turn may be cancelled; its owner will see that. */
  TP__TRY(tp__runtime_enlist(runtime, turn, spec->kind));
  if (spec->snapshot) tp__snapshot_hold(spec->snapshot);
  turn->snapshot = spec->snapshot ? spec->snapshot : tp__registry_pin(tp__runtime_registry(runtime));
  return TP_OK;
}

static void begin_core(tp__turn *turn, tp_runtime *runtime, const tp__turn_spec *spec) {
  tp__strand_begin(&turn->strand, tp__runtime_sched(runtime), true);
  turn->runtime = runtime;
  turn->deadline_ns = spec->deadline_ns;
  turn->caller = (uint8_t)spec->caller;
  turn->depth = 0;
  turn->kind = (uint8_t)spec->kind;
  turn->in_table = spec->in_table;
  turn->host_held = false;
  turn->has_inbox = false;
#ifdef TP_SIM
  turn->strand.is_turn = true;
#endif
  turn->has_ids = turn->is_named = spec->ids != NULL;
}

/* It has a pin of the newest snapshot. */
static void nest(tp__turn *turn, tp__turn *parent) {
  TP__ASSERT(parent->runtime == turn->runtime && parent->depth < TP__NESTED_MAX);
  tp__turn_hold(parent);
  turn->parent = parent;
  turn->depth = (uint8_t)(parent->depth + 1);
  tp__snapshot_hold(parent->snapshot);
  tp__snapshot_unpin(turn->snapshot);
  turn->snapshot = parent->snapshot;
}

tp_status tp__turn_init(tp__turn *turn, tp_runtime *runtime, const tp__turn_spec *spec) {
  if (!spec->in_table || !turn->cleared) tp__turn_clear(turn, runtime);
  begin_core(turn, runtime, spec);
  tp_status status = !spec->ids || copy_identity(turn, spec) ? TP_OK : TP_ERR_NO_MEMORY;
  if (status == TP_OK && !spec->in_table) status = init_here(turn, runtime, spec);
  if (status == TP_OK) {
    if (spec->parent) nest(turn, spec->parent);
    if (spec->inbox) {
      tp__inbox_ref(spec->inbox);
      turn->inbox = spec->inbox;
      turn->has_inbox = true;
    }
    TP__CHECK(tp__turn_check(turn));
    tp__a32_store_release(&turn->refs, 1); /* the strand's reference; pairs with a walk of the turn table */
    return TP_OK;
  }
  if (spec->in_table) tp__turn_fini(turn);
  else tp__arena_fini(&turn->arena);
  return status;
}

void tp__turn_take_entry_ids(tp__turn *turn) {
  enum { BATCH = 16 };
  TP__OWNED(&turn->strand);
  turn->last_entry_id = tp__entry_ids_take(turn->runtime, BATCH, &turn->last_of_batch);
  TP__ASSERT(turn->last_entry_id < turn->last_of_batch);
}

tp_status tp__turn_begin_operation(tp__turn *turn) {
  uint32_t idle = 0;
  if (tp__runtime_is_of_parent(turn->runtime)) return TP_ERR_FORKED;
  if (!tp__a32_cas_seq_cst(&turn->busy, &idle, 1)) return TP_ERR_BUSY; /* pairs with refuse_operations() */
  if (tp__a32_load_seq_cst(&tp__runtime_state_of(turn->runtime)->life) < TP__LIFE_STOPPING) return TP_OK;
  tp__a32_store_release(&turn->busy, 0);
  return TP_ERR_SHUTDOWN;
}

static void note_strand_end(tp__strand *strand) {
  tp__turn *turn = TP__CONTAINER(strand, tp__turn, strand);
  TP__CHECK(tp__turn_check(turn));
  TP__ASSERT(tp__list_empty(&turn->entries) && !(turn->cached_entry && turn->cached_entry->taken));
  tp__turn_flush_records(turn);
  tp_runtime *runtime = turn->runtime;
  tp__blocks *blocks = tp__runtime_blocks(runtime);
  if (turn->records.memory) tp__block_give(blocks, turn->records.memory, turn->records.capacity);
  turn->records = (tp__record_batch){0};
  if (turn->cached_entry) tp__block_give(blocks, turn->cached_entry, turn->cached_entry->block_size);
  turn->cached_entry = NULL;
  if (turn->in_table) tp__turn_table_close(turn);
  else tp__runtime_delist(turn);
  if (tp__runtime_life(runtime) >= TP__LIFE_DRAINING) tp__runtime_wake_drain(runtime);
  tp__turn_unref(turn);
}

void tp__turn_finish(tp__turn *turn) {
  assert(tp__list_empty(&turn->entries));
  TP__CHECK(tp__turn_check(turn));
  TP__ASSERT(!turn->strand.end); /* it ends once */
  turn->strand.end = note_strand_end;
}

void tp__turn_hold(tp__turn *turn) {
  uint32_t before = tp__a32_add_relaxed(&turn->refs, 1);
  TP__ASSERT(before > 0); /* the caller has a reference, or the strand has not ended */
  (void)before;
}

void tp__turn_unref(tp__turn *turn) {
  uint32_t before = tp__a32_sub_acq_rel(&turn->refs, 1);
  TP__ASSERT(before > 0);
  if (before == 1) turn->release(turn);
}

void tp__turn_fini(tp__turn *turn) {
  tp__turn *parent = turn->depth > 0 ? turn->parent : NULL;
  if (parent) turn->parent = NULL;
  if (turn->has_inbox) {
    tp__inbox_unref(turn->inbox);
    turn->inbox = NULL;
  }
  if (turn->arena.chunks) tp__arena_fini(&turn->arena);
  if (turn->in_table) {
    reset(turn);
    tp__turn_table_recycle(turn);
  } else if (turn->snapshot) {
    tp__snapshot_unpin(turn->snapshot);
  }
  if (parent) tp__turn_unref(parent);
}
