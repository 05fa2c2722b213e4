/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: the tables of a data directory's one file (turnphase.db): the history of sessions, entry records, jobs, and
 * the processes that opened the file. It owns nothing. */
#ifndef TP__SQLITE_SCHEMA_H
#define TP__SQLITE_SCHEMA_H

#include "stores/sqlite/database.h"

/* Lists as in columns.h: the members of a message and of its calls, of tp_kept_question, of the task of tasks.c, of the
 * start of a call in tool_starts.c, and of tp_tool_end_record, which is in columns of the same row. */
/* clang-format off */
#define TP__MESSAGE_LIST(FIRST, C)                                                                                \
  FIRST(role, role, INTEGER) C(is_error, is_error, INTEGER) C(turn_id, turn, TEXT) C(text, text, TEXT)            \
  C(call_id, call_id, TEXT) C(name, name, TEXT) C(parts, parts, BLOB) C(value, value, BLOB)                       \
  C(provider_data, provider_data, BLOB) C(ending, ending, BLOB)
#define TP__CALL_LIST(FIRST, C) \
  FIRST(id, id, TEXT) C(name, name, TEXT) C(malformed, malformed, INTEGER) C(arguments, arguments, BLOB)
#define TP__QUESTION_LIST(FIRST, C)                                                                               \
  FIRST(number, number, ROW_ID) C(state, state, INTEGER) C(is_waited_for, waits, INTEGER)                         \
  C(asked_unix_ms, asked_ms, INTEGER) C(expires_unix_ms, expires_ms, INTEGER)                                     \
  C(answered_unix_ms, answered_ms, INTEGER) C(used_unix_ms, used_ms, INTEGER) C(tenant, tenant, TEXT)             \
  C(agent, agent, TEXT) C(session, session, TEXT) C(turn, turn, TEXT) C(tool, tool, TEXT)                         \
  C(call_id, call_id, TEXT) C(arguments, arguments, BLOB) C(arguments_hash, hash, TEXT)                           \
  C(subscription, subscription, TEXT) C(reason, reason, TEXT) C(person, person, TEXT) C(answer, answer, TEXT)     \
  C(edited_arguments, edited, BLOB)
#define TP__TASK_LIST(FIRST, C)                                                                                   \
  FIRST(task.key, key, KEY_TEXT) C(is_begun, is_begun, INTEGER) C(task.created_unix_ms, created_unix_ms, INTEGER) \
  C(task.tool, tool, TEXT) C(task.agent, agent, TEXT) C(task.arguments, arguments, BLOB) C(hash, hash, BLOB)      \
  C(task.tenant, tenant, TEXT) C(task.session, session, TEXT)
#define TP__TOOL_START_LIST(FIRST, C)                                                                             \
  FIRST(run_process, run_process, INTEGER) C(run_turn, run_turn, INTEGER) C(call_index, call_index, INTEGER)      \
  C(kind, kind, INTEGER) C(started_unix_ms, started_unix_ms, INTEGER) C(tenant, tenant, TEXT)                     \
  C(session, session, TEXT) C(turn, turn, TEXT) C(tool, tool, TEXT) C(call_id, call_id, TEXT)                     \
  C(hash, arguments, BLOB)
#define TP__TOOL_END_LIST(FIRST, C) \
  FIRST(text, result, NULL_TEXT) C(value, value, NULL_BLOB) C(parts, parts, NULL_BLOB)
/* clang-format on */

extern const tp__sqlite_schema tp__sqlite_store_schema;

#endif
