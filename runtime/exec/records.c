/* SPDX-License-Identifier: Apache-2.0
 *
 * records.c: passes records of entries to the store. A turn packs them into a block of its own. It passes them on when
 * the block is full, when an attempt may still come late (the store notes when), and at its end. */
#include "runtime/exec/records.h"

#include "runtime/exec/exec.h"
#include "runtime/exec/record_commit.h"
#include "runtime/exec/runtime_object.h"
#include "runtime/store/memory_store.h"

enum { BLOCK_BYTES = 4096, ATTEMPT_MESSAGE_MAX = 512 };

/* Writes the rows of the nodes that have a run. A run whose attempt left this thread may still be late, which its
 * details say. @return how many runs have details. */
static uint32_t write_rows(tp__entry *e) {
  uint32_t detail_count = 0;
  if (!e->has_more) return 0;
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    const tp__run *run = tp__entry_more(e, i);
    if (!run) continue;
    uint32_t name = e->plan->inline_nodes[i].run_name;
    if (e->holds_turn || !tp__row_pack(&run->row, e->begin_ns, name, &e->rows[i]))
      tp__row_put_details(&e->rows[i], name, detail_count++);
  }
  return detail_count;
}

static inline void pack_head(tp__packed_entry *packed, const tp__entry *e, tp_status outcome) {
  packed->entry_id = e->id;
  packed->plan_hash = e->plan->hash;
  packed->started_ns = e->begin_ns;
  packed->ended_ns = e->ended_ns;
  packed->names = e->plan->run_names;
  packed->phase = e->plan->phase;
  packed->outcome = outcome;
}

static void pack(tp__packed_entry *packed, const tp__entry *e) {
  pack_head(packed, e, tp__entry_outcome(e));
  tp__rows_copy(tp__packed_rows(packed), e->rows, e->plan->node_count);
  tp__row_details *details = tp__packed_details(packed);
  for (uint32_t i = 0; packed->detail_count > 0 && i < e->plan->node_count; i++)
    if (tp__row_has_details(&e->rows[i])) details[e->rows[i].started_ns] = e->runs[i].row;
}

/* A refused record does not lose the others. @return the first refusal. */
static tp_status give_one_by_one(tp_runtime *runtime, const tp__record_source *from, const tp__record_batch *batch) {
  const tp__packed_entry *entry = (const tp__packed_entry *)batch->memory;
  tp_status first = TP_OK;
  tp__inside frame; /* the host's own thread may end a turn */
  void *store_ctx = tp__store_enter(&frame, runtime);
  for (uint32_t i = 0; i < batch->count; i++, entry = tp__packed_next(entry)) {
    tp_entry_record record = tp__packed_view(entry, from);
    tp_status status = runtime->store.record(store_ctx, &record);
    if (first == TP_OK) first = status;
  }
  return tp__store_left(&frame, first);
}

static tp_status give_batch(tp_runtime *runtime, const tp__record_source *from, const tp__record_batch *batch) {
  tp__inside frame;
  if (!runtime->store.record_batch) return give_one_by_one(runtime, from, batch);
  tp_entry_batch view = tp__record_batch_view(batch, from);
  void *store_ctx = tp__store_enter(&frame, runtime);
  return tp__store_left(&frame, runtime->store.record_batch(store_ctx, &view));
}

/* A store whose queue is full refuses many records in a row. Only the first refusal and the end of the refusals are
 * logged. */
static void log_refusal(tp__turn *turn, const tp__record_batch *batch, tp_status status) {
  tp_runtime *runtime = turn->runtime;
  tp__log_subject subject = {.status = status, .ids = turn->ids};
  if (status != TP_OK) {
    if (tp__a64_add_relaxed(&runtime->counters.records_refused, batch->count) == 0)
      tp__log(runtime, TP_LOG_WARNING, &subject, "records of a turn were not kept: %s", tp_status_text(status));
    return;
  }
  uint64_t refused = tp__a64_load_relaxed(&runtime->counters.records_refused);
  if (refused == 0) return;
  tp__a64_store_relaxed(&runtime->counters.records_refused, 0);
  tp__log(runtime, TP_LOG_WARNING, &subject, "the store takes records again; up to %llu were not kept",
          (unsigned long long)refused);
}

static void give_records(tp__turn *turn, const tp__record_batch *batch) {
  tp_runtime *runtime = turn->runtime;
  tp__record_source from = {
      .process_run_id = runtime->jobs.mark, .unix_offset_ns = tp__unix_offset_ns(), .ids = turn->ids};
  tp_status status = tp__memory_store_is(&runtime->store) ? tp__memory_store_take(runtime->store.ctx, &from, batch)
                                                          : give_batch(runtime, &from, batch);
  if (status != TP_OK) turn->record_refusal = status;
  log_refusal(turn, batch, status);
}

void tp__turn_flush_records(tp__turn *turn) {
  tp__record_batch *batch = &turn->records;
  if (batch->count > 0) give_records(turn, batch);
  batch->used = batch->count = 0;
}

/* An entry that is larger than a block gets a block of its own. */
static void record_large(tp__entry *e, uint32_t detail_count) {
  tp__blocks *blocks = &e->turn->runtime->blocks;
  tp__record_batch batch = {0};
  batch.memory = tp__block_take(blocks, tp__packed_size(e->plan->node_count, detail_count), &batch.capacity);
  if (!batch.memory) {
    tp__log_subject subject = {.status = TP_ERR_NO_MEMORY, .phase = e->plan->phase, .ids = e->turn->ids};
    e->turn->record_refusal = TP_ERR_NO_MEMORY;
    tp__log(e->turn->runtime, TP_LOG_WARNING, &subject, "the record of an entry was not kept: no memory");
    return;
  }
  pack(tp__record_batch_add(&batch, e->plan->node_count, detail_count), e);
  give_records(e->turn, &batch);
  tp__block_give(blocks, batch.memory, batch.capacity);
}

/* Called when the turn's block is full, or there is none yet. */
static tp__packed_entry *add_to_block(tp__turn *turn, uint32_t run_count, uint32_t detail_count) {
  tp__record_batch *batch = &turn->records;
  if (batch->memory) tp__turn_flush_records(turn);
  else batch->memory = tp__block_take(&turn->runtime->blocks, BLOCK_BYTES, &batch->capacity);
  if (!batch->memory) batch->capacity = 0;
  return tp__record_batch_add(batch, run_count, detail_count);
}

/* ---- content ---- */

static void give_content(tp__entry *e, uint32_t run_index, tp_field_id field, tp_contribution_kind kind,
                         tp_text content) {
  tp_runtime *runtime = e->turn->runtime;
  tp__inside frame;
  tp_content_record record = {.struct_size = sizeof record,
                              .process_run_id = runtime->jobs.mark,
                              .entry_id = e->id,
                              .run_index = run_index,
                              .field = field,
                              .kind = kind,
                              .bytes = content.size,
                              .content = content};
  tp_status status = tp__store_left(&frame, runtime->store.content(tp__store_enter(&frame, runtime), &record));
  if (status != TP_OK)
    tp__log(runtime, TP_LOG_DEBUG, &(tp__log_subject){.status = status, .phase = e->plan->phase, .ids = e->turn->ids},
            "the hash of content was not kept: %s", tp_status_text(status));
}

/* ---- entries ---- */

void tp__entry_record(tp__entry *e) {
  tp__turn *turn = e->turn;
  if (turn->runtime->store.content) {
    for (uint32_t i = 0; i < e->field_count; i++)
      if (e->fields[i].kind != TP_FIELD_KIND_INT) give_content(e, 0, e->fields[i].id, 0, e->fields[i].text);
    for (uint32_t i = 0; e->has_more && i < e->plan->node_count; i++) {
      const tp__run *run = tp__entry_more(e, i);
      const tp__emitted *each = run ? run->first : NULL;
      for (uint32_t n = run ? run->row.contribution_count : 0; n > 0; n--, each = each->next) {
        const tp_contribution *c = &each->contribution;
        give_content(e, i, 0, c->kind, c->text.size ? c->text : c->value);
      }
    }
  }
  uint32_t run_count = e->plan->node_count, detail_count = write_rows(e);
  tp__packed_entry *packed = tp__record_batch_add(&turn->records, run_count, detail_count);
  if (!packed) packed = add_to_block(turn, run_count, detail_count);
  if (packed) pack(packed, e);
  else record_large(e, detail_count);
  if (e->holds_turn) tp__turn_flush_records(turn); /* attempts left this thread */
}

static bool show_running_entry(const void *source, size_t index, tp_run_record *record) {
  const tp__entry *e = source;
  size_t size = record->struct_size;
  if (index > 0 || size == 0) return false;
  const tp__node *node = &e->plan->nodes[0];
  tp_run_record row = {.struct_size = size,
                       .subscription = node->subscription_name,
                       .handler = node->handler_name,
                       .owner = node->owner_name,
                       .queued_ns = e->begin_ns,
                       .attempts = 1,
                       .state = TP_STATE_RUNNING,
                       .verdict = TP_VERDICT_NONE,
                       .execution = (uint8_t)node->execution,
                       .failure = (uint8_t)node->failure,
                       .visibility = (uint8_t)node->sub->desc.visibility};
  memset(record, 0, size);
  memcpy(record, &row, size < sizeof row ? size : sizeof row);
  return true;
}

tp_status tp__entry_record_running(tp__entry *e) {
  tp_runtime *runtime = e->turn->runtime;
  tp__inside frame;
  if (runtime->options.durability < TP_DURABILITY_ASYNC) return TP_OK;
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = runtime->jobs.mark,
                            .entry_id = e->id,
                            .plan_hash = e->plan->hash,
                            .started_ns = e->begin_ns,
                            .started_unix_ms = (e->begin_ns + tp__unix_offset_ns()) / 1000000,
                            .phase = e->plan->phase,
                            .ids = e->turn->ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = 1,
                            .run = show_running_entry,
                            .source = e};
  tp_status status = runtime->store.record(tp__store_enter(&frame, runtime), &record);
  status = tp__store_left(&frame, status);
  if (runtime->options.durability != TP_DURABILITY_SYNC) return TP_OK; /* the store counts what it drops */
  tp_fault fault = {0};
  if (status == TP_OK) status = tp__store_commit(runtime, &fault);
  if (status != TP_OK)
    tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = status, .phase = e->plan->phase, .ids = e->turn->ids},
            "a detached handler was not started: the store did not commit its record: %s",
            fault.message[0] ? fault.message : tp_status_text(status));
  return status;
}

/* ---- entries that have not ended, while no thread runs their turn ---- */

/* A node with a counter above 0 and without a run waits for others. A node with counter 0 and without a run has ended
 * silently. */
static tp_run_record open_run(const tp__entry *e, uint32_t index) {
  const tp__run *run = tp__entry_more(e, index);
  const tp__run_name *name = tp__run_name_of(e->plan->run_names, e->plan->inline_nodes[index].run_name);
  const tp__node *node = &e->plan->nodes[index];
  tp__row_details row = {.state = TP_STATE_QUEUED, .verdict = TP_VERDICT_NONE};
  if ((run && run->settled) || (!run && e->counters[index] == 0)) return tp__entry_run(e, index);
  if (run) row = run->row;
  row.started_ns = run && run->attempt ? tp__attempt_called_ns(run->attempt) : 0;
  row.ended_ns = 0;
  row.state = row.started_ns ? TP_STATE_RUNNING : TP_STATE_QUEUED;
  row.execution = (uint8_t)node->execution;
  row.failure = (uint8_t)node->failure;
  return tp__run_shown(&row, name);
}

static bool show_open(const void *source, size_t index, tp_run_record *record) {
  const tp__entry *e = source;
  if (index >= e->plan->node_count) return false;
  tp_run_record run = open_run(e, (uint32_t)index);
  return tp__shown_fill(record, &run, sizeof run);
}

static void give_open(tp__entry *e) {
  tp_runtime *runtime = e->turn->runtime;
  tp__inside frame;
  TP__ASSERT(!e->running && e->on_end); /* its turn waits */
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = runtime->jobs.mark,
                            .entry_id = e->id,
                            .plan_hash = e->plan->hash,
                            .started_ns = e->begin_ns,
                            .started_unix_ms = (e->begin_ns + tp__unix_offset_ns()) / TP__NS_PER_MS,
                            .phase = e->plan->phase,
                            .ids = e->turn->ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = e->plan->node_count,
                            .run = show_open,
                            .source = e};
  (void)tp__store_left(&frame, runtime->store.record(tp__store_enter(&frame, runtime), &record)); /* it counts them */
}

void tp__turn_record_entries(tp__turn *turn) {
  TP__OWNED(&turn->strand);
  tp__turn_flush_records(turn);
  for (tp__link *link = turn->entries.next; link != &turn->entries; link = link->next) {
    tp__entry *e = TP__CONTAINER(link, tp__entry, link);
    bool is_laid_out = e->marks != e->plan->no_marks; /* else it ended on the fast path */
    if (is_laid_out && !e->ended && e->unsettled > 0) give_open(e);
  }
}

void tp__entry_record_fast_path(tp__entry *e) {
  uint32_t run_count = e->plan->node_count;
  bool gives = e->turn->runtime->store.content != NULL;
  tp__packed_entry *packed = gives ? NULL : tp__record_batch_add(&e->turn->records, run_count, 0);
  if (!packed) {
    tp__entry_record(e);
    return;
  }
  pack_head(packed, e, TP_OK);
  tp__rows_copy(tp__packed_rows(packed), e->rows, run_count);
}

/* ---- attempts ---- */

void tp__entry_record_attempt(tp__entry *e, uint32_t index, tp_state state, tp_reason reason, const char *message) {
  tp_runtime *runtime = e->turn->runtime;
  const tp__row_details *row = &e->runs[index].row;
  char buffer[TP__REDACT_SIZE];
  tp__inside frame;
  if (!runtime->store.attempt) return;
  tp_text text = tp__redact(&runtime->redactor, TP_REDACT_RECORD, tp_text_of(message), buffer, sizeof buffer);
  text.size = tp__utf8_cut(text, ATTEMPT_MESSAGE_MAX);
  tp_attempt_record record = {.struct_size = sizeof record,
                              .process_run_id = runtime->jobs.mark,
                              .entry_id = e->id,
                              .run_index = index,
                              .attempt = row->attempts,
                              .queued_ns = row->queued_ns,
                              .started_ns = row->started_ns,
                              .ended_ns = row->ended_ns,
                              .late_ns = row->late_ns,
                              .state = (uint32_t)state,
                              .reason = (uint32_t)reason,
                              .verdict = row->verdict,
                              .code = row->code,
                              .message = text};
  tp_status status = tp__store_left(&frame, runtime->store.attempt(tp__store_enter(&frame, runtime), &record));
  if (status != TP_OK)
    tp__log(runtime, TP_LOG_DEBUG, &(tp__log_subject){.status = status, .phase = e->plan->phase, .ids = e->turn->ids},
            "an attempt was not kept: %s", tp_status_text(status));
}

/* ---- turns and audit rows ---- */

void tp__turn_record_give(tp_runtime *runtime, tp_turn_record *record) {
  tp__inside frame;
  const tp_store *store = &runtime->store;
  tp_status (*keep)(void *ctx, const tp_turn_record *kept) = record->state ? store->turn_running : store->turn_record;
  if (!keep) return;
  record->process_run_id = runtime->jobs.mark;
  tp_status status = tp__store_left(&frame, keep(tp__store_enter(&frame, runtime), record));
  if (status == TP_OK) return;
  tp__log(runtime, record->state ? TP_LOG_DEBUG : TP_LOG_WARNING,
          &(tp__log_subject){.status = status, .ids = record->ids}, "the record of a turn%s was not kept: %s",
          record->state ? " that runs" : "", tp_status_text(status));
}

static void give_audit(void *ctx, const tp_audit *row) {
  tp_runtime *runtime = ctx;
  tp__inside frame;
  tp_status status = tp__store_left(&frame, runtime->store.audit(tp__store_enter(&frame, runtime), row));
  if (status != TP_OK)
    tp__log(runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status}, "an audit row was not kept: %s",
            tp_status_text(status));
}

static void give_new_rows(tp_runtime *runtime) {
  uint64_t missed = runtime->audit_cursor.missed;
  tp__registry_audit_new(runtime->registry, &runtime->audit_cursor, give_audit, runtime);
  if (runtime->audit_cursor.missed > missed)
    tp__log(runtime, TP_LOG_WARNING, &(tp__log_subject){.status = TP_ERR_FULL},
            "%llu audit rows were gone before the store could be given them",
            (unsigned long long)(runtime->audit_cursor.missed - missed));
}

/* One thread at a time passes rows, without any lock. It also passes the rows that are added meanwhile, even by the
 * store's own function. */
void tp__audit_give(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  bool mine = runtime->store_opened && !runtime->audit_gives;
  runtime->audit_again = true;
  runtime->audit_gives |= mine;
  while (mine && runtime->audit_again) {
    runtime->audit_again = false;
    tp__mutex_unlock(&runtime->mutex);
    give_new_rows(runtime);
    tp__mutex_lock(&runtime->mutex);
  }
  if (mine) runtime->audit_gives = false;
  tp__mutex_unlock(&runtime->mutex);
}
