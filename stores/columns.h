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

/* A list of a struct has one row for each member: (member, column, type), the first of them in FIRST(). The type is
 * that of a column of SQLite: INTEGER, TEXT, BLOB, or NULL_TEXT and NULL_BLOB, which may be NULL; ROW_ID, KEY_TEXT and
 * UNIQUE_TEXT are keys. */
#define TP__ITEM_INTEGER(of, member) TP__COLUMN(of, member)
#define TP__ITEM_TEXT(of, member) TP__COLUMN(of, member)
#define TP__ITEM_NULL_TEXT(of, member) TP__COLUMN(of, member)
#define TP__ITEM_BLOB(of, member) TP__BLOB_COLUMN(of, member)
#define TP__ITEM_NULL_BLOB(of, member) TP__BLOB_COLUMN(of, member)
#define TP__ITEM_ROW_ID(of, member) TP__COLUMN(of, member)
#define TP__ITEM_KEY_TEXT(of, member) TP__COLUMN(of, member)
#define TP__ITEM_UNIQUE_TEXT(of, member) TP__COLUMN(of, member)

/* clang-format off */
#define TP__ENTRY_LIST(FIRST, C)                                                                                      \
  FIRST(process_run_id, process, INTEGER) C(entry_id, id, INTEGER) C(plan_hash, plan_hash, INTEGER)                   \
  C(started_ns, started_ns, INTEGER) C(ended_ns, ended_ns, INTEGER) C(started_unix_ms, started_unix_ms, INTEGER)      \
  C(phase, phase, INTEGER) C(status, status, INTEGER)
#define TP__ENTRY_ITEM(member, column, type) TP__ITEM_##type(tp_entry_record, member),
static const tp__column tp__entry_items[] = {TP__ENTRY_LIST(TP__ENTRY_ITEM, TP__ENTRY_ITEM)};
static const tp__columns tp__entry_columns = TP__COLUMNS(tp_entry_record, tp__entry_items);

#define TP__RUN_LIST(FIRST, C)                                                                                        \
  FIRST(queued_ns, queued_ns, INTEGER) C(started_ns, started_ns, INTEGER) C(ended_ns, ended_ns, INTEGER)              \
  C(late_ns, late_ns, INTEGER) C(code, code, INTEGER) C(contribution_count, contribution_count, INTEGER)              \
  C(attempts, attempts, INTEGER) C(state, state, INTEGER) C(reason, reason, INTEGER) C(verdict, verdict, INTEGER)     \
  C(execution, execution, INTEGER) C(failure, failure, INTEGER) C(fallback_used, fallback_used, INTEGER)              \
  C(visibility, visibility, INTEGER) C(limit_ms, limit_ms, INTEGER) C(thread, handler_thread, INTEGER)                \
  C(subscription, subscription, TEXT) C(handler, handler, TEXT) C(owner, owner, TEXT)
#define TP__RUN_ITEM(member, column, type) TP__ITEM_##type(tp_run_record, member),
static const tp__column tp__run_items[] = {TP__RUN_LIST(TP__RUN_ITEM, TP__RUN_ITEM)};
static const tp__columns tp__run_columns = TP__COLUMNS(tp_run_record, tp__run_items);

#define TP__TURN_LIST(FIRST, C)                                                                                       \
  FIRST(process_run_id, process, INTEGER) C(number, number, INTEGER) C(outcome, outcome, INTEGER)                     \
  C(code, code, INTEGER) C(started_ns, started_ns, INTEGER) C(ended_ns, ended_ns, INTEGER)                            \
  C(started_unix_ms, started_unix_ms, INTEGER) C(ended_unix_ms, ended_unix_ms, INTEGER)                               \
  C(load_ns, load_ns, INTEGER) C(model_ns, model_ns, INTEGER) C(tools_ns, tools_ns, INTEGER)                          \
  C(append_ns, append_ns, INTEGER) C(iterations, iterations, INTEGER) C(tool_calls, tool_calls, INTEGER)              \
  C(input_tokens, input_tokens, INTEGER) C(output_tokens, output_tokens, INTEGER)                                     \
  C(cost_micros, cost_micros, INTEGER) C(phase, phase, INTEGER) C(steps_dropped, steps_dropped, INTEGER)              \
  C(subscription, subscription, TEXT) C(reason, reason, TEXT) C(parent_turn, parent_turn, TEXT)                       \
  C(finish, finish, INTEGER) C(finish_word, finish_word, TEXT)
#define TP__TURN_ITEM(member, column, type) TP__ITEM_##type(tp_turn_record, member),
static const tp__column tp__turn_items[] = {TP__TURN_LIST(TP__TURN_ITEM, TP__TURN_ITEM)};
static const tp__columns tp__turn_columns = TP__COLUMNS(tp_turn_record, tp__turn_items);

#define TP__STEP_LIST(FIRST, C)                                                                                       \
  FIRST(kind, kind, INTEGER) C(round, round, INTEGER) C(place, place, INTEGER) C(outcome, outcome, INTEGER)           \
  C(started_ns, started_ns, INTEGER) C(ended_ns, ended_ns, INTEGER) C(name, name, TEXT)                               \
  C(entry_id, entry_id, INTEGER)
#define TP__STEP_ITEM(member, column, type) TP__ITEM_##type(tp_turn_step, member),
static const tp__column tp__step_items[] = {TP__STEP_LIST(TP__STEP_ITEM, TP__STEP_ITEM)};
static const tp__columns tp__step_columns = TP__COLUMNS(tp_turn_step, tp__step_items);

#define TP__AUDIT_LIST(FIRST, C)                                                                                      \
  FIRST(unix_ms, unix_ms, INTEGER) C(status, status, INTEGER) C(phase, phase, INTEGER)                                \
  C(snapshot_hash, snapshot_hash, INTEGER) C(duration_ns, duration_ns, INTEGER) C(state, state, INTEGER)              \
  C(reason, reason, INTEGER) C(visibility, visibility, INTEGER) C(owner, owner, TEXT) C(action, action, TEXT)         \
  C(detail, detail, TEXT) C(turn, turn, TEXT) C(tenant, tenant, TEXT) C(session, session, TEXT)                       \
  C(subscription, subscription, NULL_TEXT)
#define TP__AUDIT_ITEM(member, column, type) TP__ITEM_##type(tp_audit, member),
static const tp__column tp__audit_items[] = {TP__AUDIT_LIST(TP__AUDIT_ITEM, TP__AUDIT_ITEM)};
static const tp__columns tp__audit_columns = TP__COLUMNS(tp_audit, tp__audit_items);

#define TP__ATTEMPT_LIST(FIRST, C)                                                                                    \
  FIRST(process_run_id, process, INTEGER) C(entry_id, entry, INTEGER) C(run_index, position, INTEGER)                 \
  C(attempt, number, INTEGER) C(queued_ns, queued_ns, INTEGER) C(started_ns, started_ns, INTEGER)                     \
  C(ended_ns, ended_ns, INTEGER) C(late_ns, late_ns, INTEGER) C(state, state, INTEGER) C(reason, reason, INTEGER)     \
  C(verdict, verdict, INTEGER) C(code, code, INTEGER) C(message, message, TEXT)
#define TP__ATTEMPT_ITEM(member, column, type) TP__ITEM_##type(tp_attempt_record, member),
static const tp__column tp__attempt_items[] = {TP__ATTEMPT_LIST(TP__ATTEMPT_ITEM, TP__ATTEMPT_ITEM)};
static const tp__columns tp__attempt_columns = TP__COLUMNS(tp_attempt_record, tp__attempt_items);

#define TP__CONTENT_LIST(FIRST, C)                                                                                    \
  FIRST(process_run_id, process, INTEGER) C(entry_id, entry, INTEGER) C(run_index, position, INTEGER)                 \
  C(field, field, INTEGER) C(kind, kind, INTEGER) C(bytes, bytes, INTEGER) C(hash, hash, BLOB)
#define TP__CONTENT_ITEM(member, column, type) TP__ITEM_##type(tp_content_record, member),
static const tp__column tp__content_items[] = {TP__CONTENT_LIST(TP__CONTENT_ITEM, TP__CONTENT_ITEM)};
static const tp__columns tp__content_columns = TP__COLUMNS(tp_content_record, tp__content_items);
/* clang-format on */

#define TP__OF_LATE(member) TP__COLUMN(tp_late_record, member)
static const tp__column tp__late_items[] = {TP__OF_LATE(process_run_id), TP__OF_LATE(entry_id), TP__OF_LATE(run_index),
                                            TP__OF_LATE(late_ns)};
static const tp__columns tp__late_columns = TP__COLUMNS(tp_late_record, tp__late_items);

#endif
