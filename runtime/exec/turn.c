/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/turn.h"

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

enum { ARENA_BYTES_MAX = 64 << 20 };

/* ---- the runtime's list ---- */

/* Detached runs and what closes something do not count in turns_max, and have a bound of their own. */
static bool is_full_locked(const tp_runtime *runtime, tp__turn_kind kind) {
  const uint32_t *counts = runtime->turn_counts;
  if (kind >= TP__TURN_DETACHED) return counts[kind] >= tp__detached_max(runtime);
  return counts[TP__TURN_DRIVEN] + counts[TP__TURN_HELD] >= runtime->options.turns_max;
}

static tp_status enlist(tp__turn *turn, const tp__turn_spec *spec) {
  tp_runtime *runtime = turn->runtime;
  tp_status status = TP_OK;
  tp__mutex_lock(&runtime->mutex);
  uint32_t life = tp__a32_load_relaxed(&runtime->life); /* written under this lock */
  if (spec->kind < TP__TURN_DETACHED && life != TP__LIFE_STARTED) status = TP_ERR_SHUTDOWN;
  else if (is_full_locked(runtime, spec->kind)) status = TP_ERR_FULL;
  if (status == TP_OK) {
    tp__list_push(&runtime->turns, &turn->runtime_link);
    runtime->turn_counts[spec->kind]++;
  }
  tp__mutex_unlock(&runtime->mutex);
  return status;
}

static void delist(tp__turn *turn) {
  tp_runtime *runtime = turn->runtime;
  tp__mutex_lock(&runtime->mutex);
  tp__list_remove(&turn->runtime_link);
  if (--runtime->turn_counts[turn->kind] == 0) tp__cond_broadcast(&runtime->changed);
  tp__mutex_unlock(&runtime->mutex);
}

/* ---- cancel ---- */

/* An entry's end may end others' or the whole list: begin again after each. */
static tp__entry *next_to_cancel(const tp__turn *turn) {
  for (tp__link *link = turn->entries.next; link != &turn->entries; link = link->next) {
    tp__entry *entry = TP__CONTAINER(link, tp__entry, link);
    if (!entry->ended && !entry->sheltered && !entry->cancelled) return entry;
  }
  return NULL;
}

static void cancel_entries(tp__turn *turn) {
  for (tp__entry *entry; !turn->strand.end && (entry = next_to_cancel(turn));) tp__entry_cancel(entry);
}

static void cancel_delivered(tp__message *message) {
  tp__turn *turn = TP__CONTAINER(message, tp__turn, cancel_message);
  int64_t now_ns = tp__now_ns();
  turn->is_cancelled = true;
  if (turn->deadline_ns > now_ns) turn->deadline_ns = now_ns;
  tp__turn_hold(turn);
  if (!turn->strand.end) cancel_entries(turn);
  if (!turn->strand.end && turn->cancelled) turn->cancelled(turn);
  tp__turn_unref(turn); /* the strand's own reference lasts till its end */
}

void tp__turn_cancel(tp__turn *turn) {
  if (tp__a32_exchange_acq_rel(&turn->cancel_asked, 1) == 0) tp__strand_push(&turn->strand, &turn->cancel_message);
}

/* ---- life ---- */

static bool copy_identity(tp__turn *turn, const tp__turn_spec *spec) {
  for (uint32_t id = 0; id < TP_ID_COUNT; id++)
    if (!tp__arena_text(&turn->arena, spec->ids[id], &turn->ids[id])) return false;
  return tp__arena_text(&turn->arena, spec->mode, &turn->mode);
}

tp_status tp__turn_init(tp__turn *turn, tp_runtime *runtime, const tp__turn_spec *spec) {
  memset(turn, 0, sizeof *turn);
  tp__strand_init(&turn->strand, runtime, spec->owned);
  turn->runtime = runtime;
  turn->caller = spec->caller;
  turn->deadline_ns = spec->deadline_ns;
  turn->kind = spec->kind;
  turn->cancel_message.deliver = cancel_delivered;
  tp__list_init(&turn->entries);
  tp__arena_init(&turn->arena, &runtime->allocator, turn->identity, sizeof turn->identity, ARENA_BYTES_MAX);
  atomic_init(&turn->refs.v, 1); /* the strand's */
  atomic_init(&turn->cancel_asked.v, 0);
  tp_status status = copy_identity(turn, spec) ? enlist(turn, spec) : TP_ERR_NO_MEMORY;
  if (status != TP_OK) {
    tp__arena_fini(&turn->arena);
    return status;
  }
  if (spec->snapshot) tp__snapshot_hold(spec->snapshot);
  turn->snapshot = spec->snapshot ? spec->snapshot : tp__registry_pin(runtime->registry);
  return TP_OK;
}

void tp__turn_take_entry_ids(tp__turn *turn) {
  enum { LOT = 64 };
  turn->last_entry_id = tp__a64_add_relaxed(&turn->runtime->entry_ids_taken, LOT);
  turn->last_of_lot = turn->last_entry_id + LOT;
}

tp_status tp__turn_begin_operation(tp__turn *turn) {
  uint32_t idle = 0;
  if (turn->runtime->process_generation != tp__process_generation()) return TP_ERR_FORKED;
  if (!tp__a32_cas_acq_rel(&turn->busy, &idle, 1)) return TP_ERR_BUSY;
  if (tp__a32_add_acq_rel(&turn->runtime->life, 0) < TP__LIFE_STOPPING) return TP_OK;
  tp__a32_store_release(&turn->busy, 0);
  return TP_ERR_SHUTDOWN;
}

static void ended(tp__strand *strand) {
  tp__turn *turn = TP__CONTAINER(strand, tp__turn, strand);
  tp__turn_flush_records(turn);
  if (turn->records.memory) tp__block_give(&turn->runtime->blocks, turn->records.memory, turn->records.capacity);
  turn->records.memory = NULL;
  if (turn->spare) tp__block_give(&turn->runtime->blocks, turn->spare, turn->spare_size);
  turn->spare = NULL;
  delist(turn);
  tp__turn_unref(turn);
}

void tp__turn_finish(tp__turn *turn) {
  assert(tp__list_empty(&turn->entries));
  turn->strand.end = ended;
}

void tp__turn_hold(tp__turn *turn) { tp__a32_add_relaxed(&turn->refs, 1); }

void tp__turn_unref(tp__turn *turn) {
  if (tp__a32_sub_acq_rel(&turn->refs, 1) == 1) turn->release(turn);
}

void tp__turn_fini(tp__turn *turn) {
  tp__arena_fini(&turn->arena);
  if (turn->snapshot) tp__snapshot_unpin(turn->snapshot);
  turn->snapshot = NULL;
}
