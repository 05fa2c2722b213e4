/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: the tables of a data directory's one file (turnphase.db): the history of sessions, entry records, jobs, and
 * the processes that opened the file. It owns nothing. */
#ifndef TP__SQLITE_SCHEMA_H
#define TP__SQLITE_SCHEMA_H

#include "stores/sqlite/database.h"

/* The columns in which members of a message and of a call are stored; lists as in columns.h. */
/* clang-format off */
#define TP__MESSAGE_LIST(FIRST, C)                                                                                \
  FIRST(role, role, INTEGER) C(is_error, is_error, INTEGER) C(turn_id, turn, TEXT) C(text, text, TEXT)            \
  C(call_id, call_id, TEXT) C(name, name, TEXT) C(parts, parts, BLOB) C(value, value, BLOB)                       \
  C(provider_data, provider_data, BLOB) C(ending, ending, BLOB)
#define TP__CALL_LIST(FIRST, C) \
  FIRST(id, id, TEXT) C(name, name, TEXT) C(malformed, malformed, INTEGER) C(arguments, arguments, BLOB)
/* clang-format on */

extern const tp__sqlite_schema tp__sqlite_store_schema;

#endif
