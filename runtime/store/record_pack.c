/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/record_pack.h"

#include "runtime/os/os.h"

/* ---- rows ---- */

static bool times_fit(int64_t from_ns, int64_t to_ns) { return to_ns >= from_ns && to_ns - from_ns <= UINT32_MAX; }

/* Whether the times fit a row. A run that was never called has only the time at which it was ready. A called run has
 * all three times, and was ready at the moment of its call. */
static bool has_row_times(const tp__row_details *run, int64_t begin_ns) {
  if (run->late_ns != 0 || !times_fit(begin_ns, run->queued_ns)) return false;
  if (run->attempts == 0) return run->started_ns == 0 && run->ended_ns == 0;
  return run->queued_ns == run->started_ns && times_fit(run->started_ns, run->ended_ns);
}

bool tp__row_pack(const tp__row_details *run, int64_t begin_ns, uint32_t name, tp__row *ret_row) {
  if (!has_row_times(run, begin_ns)) return false;
  if (run->code != 0 || run->thread != 0 || run->limit_ms != 0 || run->attempts > TP__ROW_ATTEMPTS_MAX ||
      run->contribution_count > UINT8_MAX || run->state > 15 || run->verdict > TP_VERDICT_DENY || run->execution > 7 ||
      run->failure > 3)
    return false;
  uint32_t flags = tp__row_flags(run->state, run->attempts, run->execution, run->failure);
  *ret_row = (tp__row){.name = name,
                       .started_ns = (uint32_t)(run->queued_ns - begin_ns),
                       .duration_ns = run->attempts ? (uint32_t)(run->ended_ns - run->started_ns) : 0,
                       .flags = flags | (uint32_t)run->reason << TP__ROW_REASON |
                                (run->verdict ? run->verdict - 1u : 0) << TP__ROW_VERDICT |
                                (uint32_t)run->fallback_used << TP__ROW_FALLBACK |
                                run->contribution_count << TP__ROW_CONTRIBUTIONS};
  return true;
}

tp_run_record tp__run_shown(const tp__row_details *run, const tp__run_name *name) {
  return (tp_run_record){.struct_size = sizeof(tp_run_record),
                         .subscription = name->subscription,
                         .handler = name->handler,
                         .owner = name->owner,
                         .queued_ns = run->queued_ns,
                         .started_ns = run->started_ns,
                         .ended_ns = run->ended_ns,
                         .late_ns = run->late_ns,
                         .code = run->code,
                         .contribution_count = run->contribution_count,
                         .attempts = run->attempts,
                         .state = run->state,
                         .reason = run->reason,
                         .verdict = run->verdict,
                         .execution = run->execution,
                         .failure = run->failure,
                         .fallback_used = run->fallback_used,
                         .visibility = name->visibility,
                         .thread = run->thread,
                         .limit_ms = run->limit_ms};
}

static uint8_t bits(const tp__row *row, int from, int count) {
  return (uint8_t)(row->flags >> from & ((1u << count) - 1));
}

tp_run_record tp__row_shown(const tp__row *row, int64_t begin_ns, const tp__run_name *name) {
  uint16_t attempts = bits(row, TP__ROW_ATTEMPTS, 4);
  int64_t queued_ns = begin_ns + row->started_ns;
  tp__row_details run = {.queued_ns = queued_ns,
                         .started_ns = attempts ? queued_ns : 0,
                         .ended_ns = attempts ? queued_ns + row->duration_ns : 0,
                         .contribution_count = bits(row, TP__ROW_CONTRIBUTIONS, 8),
                         .attempts = attempts,
                         .state = bits(row, TP__ROW_STATE, 4),
                         .reason = bits(row, TP__ROW_REASON, 8),
                         .verdict = (uint8_t)(TP_VERDICT_NONE + bits(row, TP__ROW_VERDICT, 2)),
                         .execution = bits(row, TP__ROW_EXECUTION, 3),
                         .failure = bits(row, TP__ROW_FAILURE, 2),
                         .fallback_used = bits(row, TP__ROW_FALLBACK, 1)};
  return tp__run_shown(&run, name);
}

/* ---- entries ---- */

static bool run_at(const void *source, size_t index, tp_run_record *record) {
  const tp__packed_entry *entry = source;
  if (index >= entry->run_count) return false;
  const tp__row *row = &tp__packed_rows(entry)[index];
  const tp__run_name *name = tp__run_name_of(entry->names, row->name);
  tp_run_record shown = tp__row_has_details(row) ? tp__run_shown(&tp__packed_details(entry)[row->started_ns], name)
                                                 : tp__row_shown(row, entry->started_ns, name);
  return tp__shown_fill(record, &shown, sizeof shown);
}

tp_entry_record tp__packed_view(const tp__packed_entry *entry, const tp__record_source *from) {
  return (tp_entry_record){.struct_size = sizeof(tp_entry_record),
                           .process_run_id = from->process_run_id,
                           .entry_id = entry->entry_id,
                           .plan_hash = entry->plan_hash,
                           .started_ns = entry->started_ns,
                           .ended_ns = entry->ended_ns,
                           .started_unix_ms = (entry->started_ns + from->unix_offset_ns) / TP__NS_PER_MS,
                           .phase = entry->phase,
                           .status = entry->outcome,
                           .ids = from->ids,
                           .id_count = TP_ID_COUNT,
                           .run_count = entry->run_count,
                           .run = run_at,
                           .source = entry};
}

/* ---- batches ---- */

static bool entry_at(const tp_entry_batch *batch, size_t *offset, tp_entry_record *record) {
  if (*offset >= batch->packed_bytes) return false;
  const tp__packed_entry *entry = (const tp__packed_entry *)((const char *)batch->packed + *offset);
  tp__record_source from = {
      .process_run_id = batch->process_run_id, .unix_offset_ns = batch->unix_offset_ns, .ids = batch->ids};
  tp_entry_record view = tp__packed_view(entry, &from);
  view.id_count = batch->id_count;
  if (!tp__shown_fill(record, &view, sizeof view)) return false;
  *offset = (size_t)((const char *)tp__packed_next(entry) - (const char *)batch->packed);
  return true;
}

tp_entry_batch tp__record_batch_view(const tp__record_batch *batch, const tp__record_source *from) {
  return (tp_entry_batch){.struct_size = sizeof(tp_entry_batch),
                          .process_run_id = from->process_run_id,
                          .ids = from->ids,
                          .id_count = TP_ID_COUNT,
                          .entry_count = batch->count,
                          .unix_offset_ns = from->unix_offset_ns,
                          .packed = batch->memory,
                          .packed_bytes = batch->used,
                          .entry = entry_at};
}
