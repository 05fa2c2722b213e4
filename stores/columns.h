/* SPDX-License-Identifier: Apache-2.0
 *
 * columns: the members of the structs of records, which stores keep in columns or as one value. It has no source, since
 * each library of a store has a copy. A store that keeps values reads old ones by these lists: they grow at the end
 * only, and no member moves or changes its type. It owns nothing and has no lock. */
#ifndef TP__STORES_COLUMNS_H
#define TP__STORES_COLUMNS_H

#include <stddef.h>

#include "turnphase/store.h"

/** A member of a struct that stands in a column of its own. */
typedef struct tp__column {
  uint16_t offset;
  enum {
    TP__COLUMN_U8,
    TP__COLUMN_U16,
    TP__COLUMN_U32,
    TP__COLUMN_I32,
    TP__COLUMN_I64, /* uint64_t, too: the same bits */
    TP__COLUMN_BOOL,
    TP__COLUMN_STRING, /* const char *; NULL: as '' */
    TP__COLUMN_TEXT,
    TP__COLUMN_BLOB
  } type;
} tp__column;

#define TP__COLUMN(of, member)                                                                                        \
  {                                                                                                                   \
    offsetof(of, member), _Generic(((of *)0)->member, uint8_t : TP__COLUMN_U8, uint16_t : TP__COLUMN_U16, uint32_t  \
                                   : TP__COLUMN_U32, int32_t : TP__COLUMN_I32, int64_t : TP__COLUMN_I64, uint64_t   \
                                   : TP__COLUMN_I64, bool : TP__COLUMN_BOOL, const char * : TP__COLUMN_STRING, tp_text \
                                   : TP__COLUMN_TEXT) \
  }
#define TP__BLOB_COLUMN(of, member) \
  { offsetof(of, member), TP__COLUMN_BLOB }

/** The members of a struct in the order of their columns. Of a public struct struct_size comes first. */
typedef struct tp__columns {
  size_t size; /* of the struct */
  int count;
  const tp__column *items;
} tp__columns;

#define TP__COLUMNS(of, items) \
  { sizeof(of), (int)(sizeof(items) / sizeof(items)[0]), items }

/** A number in a member, and into it. */
static inline int64_t tp__column_int(const tp__column *column, const void *at) {
  switch (column->type) {
    case TP__COLUMN_U8:
      return *(const uint8_t *)at;
    case TP__COLUMN_U16:
      return *(const uint16_t *)at;
    case TP__COLUMN_U32:
      return *(const uint32_t *)at;
    case TP__COLUMN_I32:
      return *(const int32_t *)at;
    case TP__COLUMN_BOOL:
      return *(const bool *)at;
    default:
      return *(const int64_t *)at;
  }
}

static inline void tp__column_put_int(const tp__column *column, void *at, int64_t value) {
  switch (column->type) {
    case TP__COLUMN_U8:
      *(uint8_t *)at = (uint8_t)value;
      break;
    case TP__COLUMN_U16:
      *(uint16_t *)at = (uint16_t)value;
      break;
    case TP__COLUMN_U32:
    case TP__COLUMN_I32:
      *(uint32_t *)at = (uint32_t)value;
      break;
    case TP__COLUMN_BOOL:
      *(bool *)at = value != 0;
      break;
    default:
      *(int64_t *)at = value;
  }
}

/* ---- the structs of records ---- */

#define TP__OF_ENTRY(member) TP__COLUMN(tp_entry_record, member)
static const tp__column tp__entry_items[] = {
    TP__OF_ENTRY(process_run_id), TP__OF_ENTRY(entry_id),        TP__OF_ENTRY(plan_hash), TP__OF_ENTRY(started_ns),
    TP__OF_ENTRY(ended_ns),       TP__OF_ENTRY(started_unix_ms), TP__OF_ENTRY(phase),     TP__OF_ENTRY(status)};
static const tp__columns tp__entry_columns = TP__COLUMNS(tp_entry_record, tp__entry_items);

#define TP__OF_RUN(member) TP__COLUMN(tp_run_record, member)
static const tp__column tp__run_items[] = {
    TP__OF_RUN(queued_ns),     TP__OF_RUN(started_ns),   TP__OF_RUN(ended_ns),
    TP__OF_RUN(late_ns),       TP__OF_RUN(code),         TP__OF_RUN(contribution_count),
    TP__OF_RUN(attempts),      TP__OF_RUN(state),        TP__OF_RUN(reason),
    TP__OF_RUN(verdict),       TP__OF_RUN(execution),    TP__OF_RUN(failure),
    TP__OF_RUN(fallback_used), TP__OF_RUN(visibility),   TP__OF_RUN(limit_ms),
    TP__OF_RUN(thread),        TP__OF_RUN(subscription), TP__OF_RUN(handler),
    TP__OF_RUN(owner)};
static const tp__columns tp__run_columns = TP__COLUMNS(tp_run_record, tp__run_items);

#define TP__OF_TURN(member) TP__COLUMN(tp_turn_record, member)
static const tp__column tp__turn_items[] = {
    TP__OF_TURN(process_run_id), TP__OF_TURN(number),      TP__OF_TURN(outcome),         TP__OF_TURN(code),
    TP__OF_TURN(started_ns),     TP__OF_TURN(ended_ns),    TP__OF_TURN(started_unix_ms), TP__OF_TURN(ended_unix_ms),
    TP__OF_TURN(load_ns),        TP__OF_TURN(model_ns),    TP__OF_TURN(tools_ns),        TP__OF_TURN(append_ns),
    TP__OF_TURN(iterations),     TP__OF_TURN(tool_calls),  TP__OF_TURN(input_tokens),    TP__OF_TURN(output_tokens),
    TP__OF_TURN(cost_micros),    TP__OF_TURN(phase),       TP__OF_TURN(steps_dropped),   TP__OF_TURN(subscription),
    TP__OF_TURN(reason),         TP__OF_TURN(parent_turn), TP__OF_TURN(finish),          TP__OF_TURN(finish_word)};
static const tp__columns tp__turn_columns = TP__COLUMNS(tp_turn_record, tp__turn_items);

#define TP__OF_STEP(member) TP__COLUMN(tp_turn_step, member)
static const tp__column tp__step_items[] = {TP__OF_STEP(kind),    TP__OF_STEP(round),      TP__OF_STEP(place),
                                            TP__OF_STEP(outcome), TP__OF_STEP(started_ns), TP__OF_STEP(ended_ns),
                                            TP__OF_STEP(name)};
static const tp__columns tp__step_columns = TP__COLUMNS(tp_turn_step, tp__step_items);

#define TP__OF_AUDIT(member) TP__COLUMN(tp_audit, member)
static const tp__column tp__audit_items[] = {
    TP__OF_AUDIT(unix_ms),     TP__OF_AUDIT(status),  TP__OF_AUDIT(phase),       TP__OF_AUDIT(snapshot_hash),
    TP__OF_AUDIT(duration_ns), TP__OF_AUDIT(state),   TP__OF_AUDIT(reason),      TP__OF_AUDIT(visibility),
    TP__OF_AUDIT(owner),       TP__OF_AUDIT(action),  TP__OF_AUDIT(detail),      TP__OF_AUDIT(turn),
    TP__OF_AUDIT(tenant),      TP__OF_AUDIT(session), TP__OF_AUDIT(subscription)};
static const tp__columns tp__audit_columns = TP__COLUMNS(tp_audit, tp__audit_items);

#define TP__OF_LATE(member) TP__COLUMN(tp_late_record, member)
static const tp__column tp__late_items[] = {TP__OF_LATE(process_run_id), TP__OF_LATE(entry_id), TP__OF_LATE(run_index),
                                            TP__OF_LATE(late_ns)};
static const tp__columns tp__late_columns = TP__COLUMNS(tp_late_record, tp__late_items);

#define TP__OF_ATTEMPT(member) TP__COLUMN(tp_attempt_record, member)
static const tp__column tp__attempt_items[] = {
    TP__OF_ATTEMPT(process_run_id), TP__OF_ATTEMPT(entry_id),   TP__OF_ATTEMPT(run_index), TP__OF_ATTEMPT(attempt),
    TP__OF_ATTEMPT(queued_ns),      TP__OF_ATTEMPT(started_ns), TP__OF_ATTEMPT(ended_ns),  TP__OF_ATTEMPT(late_ns),
    TP__OF_ATTEMPT(state),          TP__OF_ATTEMPT(reason),     TP__OF_ATTEMPT(verdict),   TP__OF_ATTEMPT(code),
    TP__OF_ATTEMPT(message)};
static const tp__columns tp__attempt_columns = TP__COLUMNS(tp_attempt_record, tp__attempt_items);

#define TP__OF_CONTENT(member) TP__COLUMN(tp_content_record, member)
static const tp__column tp__content_items[] = {TP__OF_CONTENT(process_run_id),
                                               TP__OF_CONTENT(entry_id),
                                               TP__OF_CONTENT(run_index),
                                               TP__OF_CONTENT(field),
                                               TP__OF_CONTENT(kind),
                                               TP__OF_CONTENT(bytes),
                                               TP__BLOB_COLUMN(tp_content_record, hash)};
static const tp__columns tp__content_columns = TP__COLUMNS(tp_content_record, tp__content_items);

#endif
