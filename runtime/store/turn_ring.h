/* SPDX-License-Identifier: Apache-2.0
 *
 * turn_ring: the newest records of turns, and the records of turns that run. It has no lock: a lock of the caller
 * guards it. When the memory of a row suffices for the row that replaces it, that row uses it again. */
#ifndef TP__TURN_RING_H
#define TP__TURN_RING_H

#include "runtime/base/base.h"
#include "turnphase/store.h"

/** A record with all its texts in one block. */
typedef struct tp__turn_row {
  tp_turn_record record;
  tp_text ids[TP_ID_COUNT];
  tp_turn_step *steps;       /* in the block */
  size_t size;               /* of the block */
  struct tp__turn_row *next; /* of copies */
} tp__turn_row;

typedef struct tp__turn_ring {
  const tp_allocator *allocator;
  tp__turn_row **rows; /* capacity places; a row's place is its number in the ring modulo turns_max */
  size_t capacity, turns_max;
  uint64_t count; /* that were ever added */
} tp__turn_ring;

void tp__turn_ring_init(tp__turn_ring *ring, const tp_allocator *allocator, size_t turns_max);
void tp__turn_ring_fini(tp__turn_ring *ring);
/** @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__turn_ring_add(tp__turn_ring *ring, const tp_turn_record *record);
/** Where reading begins: one above the newest row, or at the row of the cursor. @return 0: there is nothing to read. */
uint64_t tp__turn_ring_start(const tp__turn_ring *ring, const tp_turn_query *query);
/** The newest row below *place that fits the query; moves *place to it. @return NULL: there is none. */
const tp__turn_row *tp__turn_ring_next(const tp__turn_ring *ring, const tp_turn_query *query, uint64_t *place);
/** The records of turns that run, one for each; the one that was noted last is at the end. A lock of the caller guards
 *  it. */
typedef struct tp__turn_list {
  const tp_allocator *allocator;
  tp__turn_row **rows;
  size_t count, capacity, count_max;
} tp__turn_list;

void tp__turn_list_init(tp__turn_list *list, const tp_allocator *allocator, size_t count_max);
void tp__turn_list_fini(tp__turn_list *list);
/** Keeps a record in place of the turn's earlier record. When the turn has none and the list has count_max records, it
 *  replaces the oldest one.
 *  @return TP_OK; TP_ERR_NO_MEMORY: the earlier record stays. */
tp_status tp__turn_list_put(tp__turn_list *list, const tp_turn_record *record);
void tp__turn_list_remove(tp__turn_list *list, uint64_t process_run_id, uint64_t number);
/** Copies the rows that fit the query, the last one first, chained by `next`. The caller frees them with
 *  tp__turn_row_free().
 *  @return TP_OK; TP_ERR_NO_MEMORY: there are no copies. */
tp_status tp__turn_list_copy(const tp__turn_list *list, const tp_turn_query *query, tp__turn_row **ret_first);

/** A copy, which the caller frees with tp__turn_row_free(). @return NULL without memory. */
tp__turn_row *tp__turn_row_copy(const tp_allocator *allocator, const tp_turn_record *record);
void tp__turn_row_free(const tp_allocator *allocator, tp__turn_row *row);

#endif
