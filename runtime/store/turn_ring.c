/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/turn_ring.h"

enum { CAPACITY_MIN = 16, OUTCOME_COMPLETED = 1 }; /* tp_turn_outcome is of the agent layer */

void tp__turn_ring_init(tp__turn_ring *ring, const tp_allocator *allocator, size_t turns_max) {
  *ring = (tp__turn_ring){.allocator = allocator, .turns_max = turns_max};
}

void tp__turn_row_free(const tp_allocator *allocator, tp__turn_row *row) {
  if (row) tp__release(allocator, row, row->size);
}

void tp__turn_ring_fini(tp__turn_ring *ring) {
  for (size_t i = 0; i < ring->capacity; i++) tp__turn_row_free(ring->allocator, ring->rows[i]);
  tp__release(ring->allocator, ring->rows, ring->capacity * sizeof *ring->rows);
}

/* ---- rows ---- */

static size_t id_count(const tp_turn_record *record) {
  return record->id_count < TP_ID_COUNT ? record->id_count : TP_ID_COUNT;
}

static bool read_step(const tp_turn_record *record, size_t index, tp_turn_step *step) {
  *step = (tp_turn_step){.struct_size = sizeof *step};
  return record->step && record->step(record->step_source, index, step);
}

static size_t row_size(const tp_turn_record *record) {
  size_t size = sizeof(tp__turn_row) + record->subscription.size + record->reason.size + record->parent_turn.size +
                record->finish_word.size;
  for (size_t i = 0; i < id_count(record); i++) size += record->ids[i].size;
  for (size_t i = 0; i < record->step_count; i++) {
    tp_turn_step step;
    size += sizeof step + (read_step(record, i, &step) ? step.name.size : 0);
  }
  return size;
}

static bool show_row_step(const void *source, size_t index, tp_turn_step *step) {
  const tp__turn_row *row = source;
  return index < row->record.step_count && tp__shown_fill(step, &row->steps[index], sizeof *step);
}

static void fill_row(tp__turn_row *row, const tp_turn_record *record) {
  row->record = *record;
  row->steps = (tp_turn_step *)(row + 1);
  char *at = (char *)(row->steps + record->step_count);
  for (size_t i = 0; i < TP_ID_COUNT; i++)
    row->ids[i] = i < id_count(record) ? tp__text_put(&at, record->ids[i]) : (tp_text){NULL, 0};
  row->record.ids = row->ids;
  row->record.id_count = TP_ID_COUNT;
  row->record.subscription = tp__text_put(&at, record->subscription);
  row->record.reason = tp__text_put(&at, record->reason);
  row->record.parent_turn = tp__text_put(&at, record->parent_turn);
  row->record.finish_word = tp__text_put(&at, record->finish_word);
  for (size_t i = 0; i < record->step_count; i++)
    if (read_step(record, i, &row->steps[i])) row->steps[i].name = tp__text_put(&at, row->steps[i].name);
  row->record.step = show_row_step;
  row->record.step_source = row;
}

static tp__turn_row *new_row(const tp_allocator *allocator, size_t size) {
  tp__turn_row *row = tp__alloc(allocator, size);
  if (row) row->size = size;
  return row;
}

tp__turn_row *tp__turn_row_copy(const tp_allocator *allocator, const tp_turn_record *record) {
  tp__turn_row *row = new_row(allocator, row_size(record));
  if (row) fill_row(row, record);
  if (row) row->next = NULL;
  return row;
}

/* ---- the ring ---- */

tp_status tp__turn_ring_add(tp__turn_ring *ring, const tp_turn_record *record) {
  size_t place = (size_t)(ring->count % ring->turns_max);
  if (place >= ring->capacity) {
    size_t capacity = ring->capacity ? ring->capacity * 2 : CAPACITY_MIN;
    if (capacity > ring->turns_max) capacity = ring->turns_max;
    tp__turn_row **rows = tp__alloc_zero(ring->allocator, capacity * sizeof *rows);
    if (!rows) return TP_ERR_NO_MEMORY;
    if (ring->capacity > 0) memcpy(rows, ring->rows, ring->capacity * sizeof *rows);
    tp__release(ring->allocator, ring->rows, ring->capacity * sizeof *rows);
    ring->rows = rows;
    ring->capacity = capacity;
  }
  tp__turn_row *row = ring->rows[place];
  size_t size = row_size(record);
  if (!row || row->size < size) {
    tp__turn_row *wider = new_row(ring->allocator, size);
    if (!wider) return TP_ERR_NO_MEMORY;
    tp__turn_row_free(ring->allocator, row);
    ring->rows[place] = row = wider;
  }
  fill_row(row, record);
  ring->count++;
  return TP_OK;
}

/* ---- reading ---- */

static const tp__turn_row *at(const tp__turn_ring *ring, uint64_t index) { return ring->rows[index % ring->turns_max]; }

static uint64_t oldest(const tp__turn_ring *ring) {
  return ring->count > ring->turns_max ? ring->count - ring->turns_max : 0;
}

uint64_t tp__turn_ring_start(const tp__turn_ring *ring, const tp_turn_query *query) {
  if (!query->before_number) return ring->count;
  for (uint64_t i = ring->count; i > oldest(ring); i--) {
    const tp_turn_record *record = &at(ring, i - 1)->record;
    if (record->number == query->before_number && record->process_run_id == query->before_process_run_id) return i - 1;
  }
  return 0;
}

static bool turn_fits(const tp_turn_record *record, const tp_turn_query *query) {
  if (query->only_failed && record->outcome == OUTCOME_COMPLETED) return false;
  if (record->ended_unix_ms < query->from_unix_ms) return false;
  if (query->to_unix_ms && record->ended_unix_ms > query->to_unix_ms) return false;
  for (size_t i = 0; i < query->id_count && i < TP_ID_COUNT; i++)
    if (query->ids[i].size > 0 && !tp_text_equal(query->ids[i], record->ids[i])) return false;
  return true;
}

const tp__turn_row *tp__turn_ring_next(const tp__turn_ring *ring, const tp_turn_query *query, uint64_t *place) {
  while (*place > oldest(ring)) {
    const tp__turn_row *row = at(ring, --*place);
    if (turn_fits(&row->record, query)) return row;
  }
  return NULL;
}

/* ---- turns that run ---- */

void tp__turn_list_init(tp__turn_list *list, const tp_allocator *allocator, size_t count_max) {
  *list = (tp__turn_list){.allocator = allocator, .count_max = count_max};
}

void tp__turn_list_fini(tp__turn_list *list) {
  for (size_t i = 0; i < list->count; i++) tp__turn_row_free(list->allocator, list->rows[i]);
  tp__release(list->allocator, list->rows, list->capacity * sizeof *list->rows);
}

static void remove_at(tp__turn_list *list, size_t index) {
  TP__ASSERT(index < list->count);
  tp__turn_row_free(list->allocator, list->rows[index]);
  list->count--;
  memmove(&list->rows[index], &list->rows[index + 1], (list->count - index) * sizeof *list->rows);
}

void tp__turn_list_remove(tp__turn_list *list, uint64_t process_run_id, uint64_t number) {
  for (size_t i = list->count; i-- > 0;)
    if (list->rows[i]->record.number == number && list->rows[i]->record.process_run_id == process_run_id)
      remove_at(list, i);
}

tp_status tp__turn_list_put(tp__turn_list *list, const tp_turn_record *record) {
  TP__TRY(tp__array_grow(list->allocator, (void **)&list->rows, &list->capacity, list->count + 1, sizeof *list->rows));
  tp__turn_row *row = tp__turn_row_copy(list->allocator, record);
  if (!row) return TP_ERR_NO_MEMORY;
  tp__turn_list_remove(list, record->process_run_id, record->number);
  if (list->count >= list->count_max) remove_at(list, 0);
  list->rows[list->count++] = row;
  return TP_OK;
}

/* Where reading begins: one above the last row, or at the row of the cursor. */
static size_t list_start(const tp__turn_list *list, const tp_turn_query *query) {
  if (!query->before_number) return list->count;
  for (size_t i = list->count; i > 0; i--) {
    const tp_turn_record *record = &list->rows[i - 1]->record;
    if (record->number == query->before_number && record->process_run_id == query->before_process_run_id) return i - 1;
  }
  return 0;
}

static void free_copies(const tp_allocator *allocator, tp__turn_row *first) {
  for (tp__turn_row *row = first, *next; row; row = next) {
    next = row->next;
    tp__turn_row_free(allocator, row);
  }
}

tp_status tp__turn_list_copy(const tp__turn_list *list, const tp_turn_query *query, tp__turn_row **ret_first) {
  tp__turn_row *first = NULL, **end = &first;
  size_t left = query->limit ? query->limit : SIZE_MAX;
  for (size_t i = list_start(list, query); i-- > 0 && left > 0;) {
    if (!turn_fits(&list->rows[i]->record, query)) continue;
    tp__turn_row *copy = tp__turn_row_copy(list->allocator, &list->rows[i]->record);
    if (!copy) {
      free_copies(list->allocator, first);
      return TP_ERR_NO_MEMORY;
    }
    left--;
    *end = copy;
    end = &copy->next;
  }
  *ret_first = first;
  return TP_OK;
}
