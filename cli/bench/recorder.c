/* SPDX-License-Identifier: Apache-2.0
 *
 * recorder.c: each thread that records has a tray of its own, so that turns on two threads share nothing. The lock of a
 * tray is only needed at the end, when another thread takes its content. */
#include "cli/bench/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"
#include "support/lock.h"

enum { TRAY_BYTES = 65536 /* then it is counted, whatever is measured */ };

/** What one thread has recorded. */
typedef struct tray {
  tp__lock mutex;
  cli_statistics *statistics; /* under mutex */
  tp__bytes batches; /* under mutex: each is a tp_entry_batch followed by its packed entries, as multiples of 8 bytes */
  struct tray *next; /* never changes */
} tray;

struct cli_recorder {
  const uint32_t *phases; /* this and the next five never change after begin */
  size_t phase_count;
  int64_t step_ns;
  bool begun, timed, whole;
  tp__lock mutex;
  tray *trays; /* under mutex */
};

/* The functions of the store get the ctx of the memory store, so there is one recorder per process. */
static cli_recorder *this_recorder;
static _Thread_local tray *my_tray;

static tray *tray_of_thread(cli_recorder *r) {
  if (my_tray) return my_tray;
  my_tray = cli_alloc(sizeof *my_tray);
  tp__lock_init(&my_tray->mutex, TP__LOCK_recorder);
  my_tray->statistics = cli_statistics_new(r->phase_count, r->step_ns, r->timed);
  tp__lock_acquire(&r->mutex);
  my_tray->next = r->trays;
  r->trays = my_tray;
  tp__lock_release(&r->mutex);
  return my_tray;
}

/* @return the index of the phase among the measured ones; their count when it is not measured. */
static size_t index_of(const cli_recorder *r, uint32_t phase) {
  size_t index = 0;
  while (index < r->phase_count && r->phases[index] != phase) index++;
  return index;
}

static bool is_detached(const tp_run_record *row) {
  return (row->execution == TP_EXECUTION_FIRE_AND_RECORD || row->execution == TP_EXECUTION_BACKGROUND) &&
         row->state != TP_STATE_BACKGROUNDED && row->state != TP_STATE_SKIPPED;
}

/* ---- counting ---- */

static void count_entry(const cli_recorder *r, cli_statistics *statistics, const tp_entry_record *record) {
  tp_run_record row = {.struct_size = sizeof row};
  size_t index = index_of(r, record->phase);
  if (index == r->phase_count || record->ended_ns == 0) return;
  if (record->run_count == 1 && record->run(record->source, 0, &row) && is_detached(&row)) {
    cli_statistics_add_detached(statistics, index, &row);
    return;
  }
  const cli_statistics_entry entry = {.outcome = record->status,
                                      .duration_ns = record->ended_ns - record->started_ns,
                                      .run_count = (uint32_t)record->run_count,
                                      .run = record->run,
                                      .source = record->source};
  if (r->whole) cli_statistics_add(statistics, index, &entry);
}

static void count_batch(const cli_recorder *r, cli_statistics *statistics, const tp_entry_batch *batch) {
  tp_entry_record record = {.struct_size = sizeof record};
  for (size_t offset = 0; batch->entry(batch, &offset, &record);) count_entry(r, statistics, &record);
}

static size_t padded(size_t size) { return (size + 7) / 8 * 8; }

/* Under the tray's lock. */
static void count_tray(const cli_recorder *r, tray *t) {
  for (size_t at = 0; at < t->batches.size;) {
    tp_entry_batch batch;
    memcpy(&batch, t->batches.data + at, sizeof batch);
    at += padded(sizeof batch);
    batch.packed = t->batches.data + at;
    at += padded(batch.packed_bytes);
    count_batch(r, t->statistics, &batch);
  }
  tp__bytes_clear(&t->batches);
}

void cli_recorder_count(cli_recorder *recorder) {
  if (!my_tray) return;
  tp__lock_acquire(&my_tray->mutex);
  count_tray(recorder, my_tray);
  tp__lock_release(&my_tray->mutex);
}

/* ---- the functions of the store ---- */

static bool is_counted(const cli_recorder *r, const tp_text *ids, size_t id_count) {
  static const char first[] = CLI_UNCOUNTED_TURN;
  const size_t size = sizeof first - 1;
  if (!r->begun) return false;
  return id_count <= TP_ID_TURN || ids[TP_ID_TURN].size < size || memcmp(ids[TP_ID_TURN].data, first, size) != 0;
}

static void put(tp__bytes *bytes, const void *data, size_t size) {
  static const char zeros[8] = {0};
  cli_buffer_add(bytes, data, size);
  cli_buffer_add(bytes, zeros, padded(size) - size);
}

static tp_status take_batch(void *ctx, const tp_entry_batch *given) {
  (void)ctx;
  cli_recorder *r = this_recorder;
  tp_entry_batch batch = {0};
  if (!is_counted(r, given->ids, given->id_count)) return TP_OK;
  memcpy(&batch, given, given->struct_size < sizeof batch ? given->struct_size : sizeof batch);
  batch.ids = NULL;
  batch.id_count = 0;
  tray *t = tray_of_thread(r);
  tp__lock_acquire(&t->mutex);
  put(&t->batches, &batch, sizeof batch);
  put(&t->batches, given->packed, given->packed_bytes);
  if (t->batches.size > TRAY_BYTES) count_tray(r, t);
  tp__lock_release(&t->mutex);
  return TP_OK;
}

static tp_status take_record(void *ctx, const tp_entry_record *record) {
  (void)ctx;
  cli_recorder *r = this_recorder;
  if (!is_counted(r, record->ids, record->id_count)) return TP_OK;
  tray *t = tray_of_thread(r);
  tp__lock_acquire(&t->mutex);
  count_entry(r, t->statistics, record);
  tp__lock_release(&t->mutex);
  return TP_OK;
}

static tp_status take_turn(void *ctx, const tp_turn_record *record) {
  (void)ctx;
  cli_recorder *r = this_recorder;
  if (!r->whole || !is_counted(r, record->ids, record->id_count)) return TP_OK;
  tray *t = tray_of_thread(r);
  tp__lock_acquire(&t->mutex);
  cli_statistics_add_parts(t->statistics, record);
  tp__lock_release(&t->mutex);
  return TP_OK;
}

/* ---- its life ---- */

int cli_recorder_new(cli_recorder **ret_recorder, tp_store **ret_store) {
  tp_fault fault = {0};
  tp_status status = tp_store_memory_new(NULL, NULL, ret_store, &fault);
  if (status != TP_OK) return cli_fault("the store of the bench", status, &fault);
  assert(!this_recorder);
  this_recorder = cli_alloc(sizeof *this_recorder);
  tp__lock_init(&this_recorder->mutex, TP__LOCK_recorder);
  (*ret_store)->record = take_record;
  (*ret_store)->record_batch = take_batch;
  (*ret_store)->turn_record = take_turn;
  *ret_recorder = this_recorder;
  return CLI_OK;
}

void cli_recorder_begin(cli_recorder *recorder, const uint32_t *phases, size_t count, int64_t step_ns, bool timed,
                        bool whole) {
  assert(!recorder->trays);
  recorder->phases = phases;
  recorder->phase_count = count;
  recorder->step_ns = step_ns;
  recorder->begun = true;
  recorder->timed = timed;
  recorder->whole = whole;
}

void cli_recorder_take(cli_recorder *recorder, cli_statistics *into) {
  tp__lock_acquire(&recorder->mutex);
  tray *t = recorder->trays;
  tp__lock_release(&recorder->mutex);
  for (; t; t = t->next) {
    tp__lock_acquire(&t->mutex);
    count_tray(recorder, t);
    cli_statistics_merge(into, t->statistics);
    tp__lock_release(&t->mutex);
  }
}

void cli_recorder_free(cli_recorder *recorder) {
  for (tray *t = recorder ? recorder->trays : NULL; t;) {
    tray *next = t->next;
    cli_statistics_free(t->statistics);
    tp__bytes_fini(&t->batches);
    tp__lock_fini(&t->mutex);
    free(t);
    t = next;
  }
  if (recorder) tp__lock_fini(&recorder->mutex);
  free(recorder);
  this_recorder = NULL;
}
