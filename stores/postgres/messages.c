/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/messages.h"

#include <assert.h>

#include "support/fault.h"
#include "turnphase/value.h"

enum { ROLE, IS_ERROR, TURN, TEXT, CALL_ID, NAME, PARTS, VALUE, PROVIDER_DATA, ENDING, CALLS };
enum { CALL_PARTS = 4, BATCH_BYTES_MAX = 256 << 20 };

tp__pg_type tp__pg_message_type(int column) {
  assert(column >= 0 && column < TP__PG_MESSAGE_COLUMNS);
  return column == ROLE ? TP__PG_INT8 : column == IS_ERROR ? TP__PG_BOOL : TP__PG_BYTEA;
}

/* ---- to the database ---- */

static tp_status put_calls(tp__bytes *to, const tp_message *m, tp_writer *writer) {
  tp_text value = {"", 0};
  if (m->call_count == 0) {
    tp__pg_put_bytes(to, value);
    return TP_OK;
  }
  tp_writer_reset(writer);
  tp_write_array(writer, m->call_count);
  for (size_t i = 0; i < m->call_count; i++) {
    const tp_tool_call *call = m->calls[i];
    tp_write_array(writer, CALL_PARTS);
    tp_write_bytes(writer, call->id);
    tp_write_bytes(writer, call->name);
    tp_write_bytes(writer, call->arguments);
    tp_write_bool(writer, call->malformed);
  }
  tp_status status = tp_writer_finish(writer, &value);
  if (status == TP_OK) tp__pg_put_bytes(to, value);
  return status;
}

static tp_status put_message(tp__pg_messages *to, const tp_message *m, tp_writer *writer) {
  const tp_text texts[] = {m->turn_id, m->text, m->call_id, m->name, m->parts, m->value, m->provider_data, m->ending};
  tp__pg_put_int(&to->columns[ROLE], m->role);
  tp__pg_put_bool(&to->columns[IS_ERROR], m->is_error);
  for (int i = TURN; i < CALLS; i++) {
    if (texts[i - TURN].size > BATCH_BYTES_MAX) return TP_ERR_TOO_LARGE;
    tp__pg_put_bytes(&to->columns[i], texts[i - TURN]);
  }
  return put_calls(&to->columns[CALLS], m, writer);
}

tp_status tp__pg_messages_put(tp__pg_messages *to, const tp_message *const *from, size_t count, tp_fault *fault) {
  tp_writer *writer = NULL;
  tp_status status = tp_writer_new(NULL, &writer);
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    status = put_message(to, from[i], writer);
    if (status == TP_OK && tp__pg_messages_size(to) > BATCH_BYTES_MAX) status = TP_ERR_TOO_LARGE;
  }
  tp_writer_free(writer);
  for (int i = 0; i < TP__PG_MESSAGE_COLUMNS; i++)
    if (to->columns[i].failed) status = TP_ERR_NO_MEMORY;
  to->count += count;
  if (status == TP_OK) return TP_OK;
  return tp__refuse(fault, status, NULL, "a turn of %zu messages is too large for one append, or for the memory",
                    count);
}

size_t tp__pg_messages_size(const tp__pg_messages *m) {
  size_t size = 0;
  for (int i = 0; i < TP__PG_MESSAGE_COLUMNS; i++) size += m->columns[i].size;
  return size;
}

void tp__pg_messages_fini(tp__pg_messages *m) {
  for (int i = 0; i < TP__PG_MESSAGE_COLUMNS; i++) tp__bytes_fini(&m->columns[i]);
  m->count = 0;
}

/* ---- from the database ---- */

/* The number of calls in a value. A value never has more elements than bytes, whatever its head says. */
static size_t count_calls(tp_text value) {
  size_t count = tp_value_count(value);
  return count < value.size ? count : 0;
}

static bool read_call(tp_text value, tp_tool_call *call) {
  tp_value_walk walk = {.offset = 0};
  tp_text *const texts[] = {&call->id, &call->name, &call->arguments};
  *call = (tp_tool_call){.struct_size = sizeof *call};
  if (tp_value_count(value) < CALL_PARTS) return false;
  for (int i = 0; i < CALL_PARTS - 1; i++) {
    if (!tp_value_next(value, &walk)) return false;
    *texts[i] = tp_value_text(walk.value);
  }
  if (!tp_value_next(value, &walk)) return false;
  call->malformed = tp_value_bool(walk.value, false);
  return true;
}

static bool read_message(tp__pg_loaded *l, const PGresult *rows, int row, int first, tp_message *m) {
  tp_text *const texts[] = {&m->turn_id, &m->text,  &m->call_id,       &m->name,
                            &m->parts,   &m->value, &m->provider_data, &m->ending};
  *m = (tp_message){.struct_size = sizeof *m,
                    .role = (tp_role)tp__pg_int(rows, row, first + ROLE),
                    .is_error = tp__pg_bool(rows, row, first + IS_ERROR)};
  for (int i = TURN; i < CALLS; i++) *texts[i - TURN] = tp__pg_text(rows, row, first + i);
  if (m->role < TP_ROLE_USER || m->role > TP_ROLE_END) return false;
  tp_text value = tp__pg_text(rows, row, first + CALLS);
  tp_value_walk walk = {.offset = 0};
  m->call_count = count_calls(value);
  m->calls = m->call_count ? l->call_list + l->call_count : NULL;
  for (size_t i = 0; i < m->call_count; i++) {
    tp_tool_call *call = &l->calls[l->call_count];
    if (!tp_value_next(value, &walk) || !read_call(walk.value, call)) return false;
    l->call_list[l->call_count++] = call;
  }
  return true;
}

/* Reserves the space, since later growth would invalidate pointers. */
static bool reserve(tp__pg_loaded *l, const PGresult *rows, int first_row, int row_count, int first) {
  size_t calls = 0;
  for (int i = 0; i < row_count; i++) calls += count_calls(tp__pg_text(rows, first_row + i, first + CALLS));
  return tp__grow(tp__heap, (void **)&l->list, &l->list_capacity, (size_t)row_count, sizeof *l->list) &&
         tp__grow(tp__heap, (void **)&l->messages, &l->capacity, (size_t)row_count, sizeof *l->messages) &&
         tp__grow(tp__heap, (void **)&l->call_list, &l->call_list_capacity, calls, sizeof *l->call_list) &&
         tp__grow(tp__heap, (void **)&l->calls, &l->call_capacity, calls, sizeof *l->calls);
}

tp_status tp__pg_loaded_read(tp__pg_loaded *l, const PGresult *rows, int first_row, int row_count, int first,
                             tp_fault *fault) {
  assert(l->count == 0 && first_row + row_count <= PQntuples(rows));
  if (!reserve(l, rows, first_row, row_count, first))
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for %d messages of a session", row_count);
  for (int i = 0; i < row_count; i++) {
    if (!read_message(l, rows, first_row + i, first, &l->messages[i]))
      return tp__refuse(fault, TP_ERR_STORE_CORRUPT, NULL, "message %d of what was loaded is not one of turnphase's",
                        i);
    l->list[l->count++] = &l->messages[i];
  }
  return TP_OK;
}

void tp__pg_loaded_fini(tp__pg_loaded *l) {
  tp__heap_free(l->list, l->list_capacity * sizeof *l->list);
  tp__heap_free(l->messages, l->capacity * sizeof *l->messages);
  tp__heap_free(l->call_list, l->call_list_capacity * sizeof *l->call_list);
  tp__heap_free(l->calls, l->call_capacity * sizeof *l->calls);
  *l = (tp__pg_loaded){0};
}
