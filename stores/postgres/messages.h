/* SPDX-License-Identifier: Apache-2.0
 *
 * messages: converts messages to columns of the table `message`, and back from the rows of an answer. Each text is kept
 * as its bytes (bytea): PostgreSQL's type text does not allow a NUL. The calls of a message are one value: an array of
 * [id, name, arguments, malformed]. No lock. */
#ifndef TP__POSTGRES_MESSAGES_H
#define TP__POSTGRES_MESSAGES_H

#include "stores/postgres/parameters.h"
#include "turnphase/model.h"

/** The columns, in this order everywhere: role, is_error, turn, text, call_id, name, parts, value, provider_data,
 *  ending, calls. */
enum { TP__PG_MESSAGE_COLUMNS = 11 };
#define TP__PG_MESSAGE_NAMES "role, is_error, turn, text, call_id, name, parts, value, provider_data, ending, calls"

/** Messages to be inserted: the elements of each column. Zero-filled: no messages. */
typedef struct tp__pg_messages {
  size_t count;
  tp__bytes columns[TP__PG_MESSAGE_COLUMNS];
} tp__pg_messages;

/** Adds copies of messages.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_TOO_LARGE: one batch has more than 256 MiB, or the calls of a message more
 *          than 64 MiB. */
tp_status tp__pg_messages_put(tp__pg_messages *messages, const tp_message *const *from, size_t count, tp_fault *fault);
/** How many bytes they have. */
size_t tp__pg_messages_size(const tp__pg_messages *messages);
void tp__pg_messages_fini(tp__pg_messages *messages);
/** The type of a column's elements. */
tp__pg_type tp__pg_message_type(int column);

/** Messages that were read. Zero-filled: no messages. */
typedef struct tp__pg_loaded {
  const tp_message **list; /* count of them */
  size_t count;
  /* ---- the memory that they point to */
  tp_message *messages;
  tp_tool_call *calls;
  const tp_tool_call **call_list;
  size_t capacity, list_capacity, call_count, call_capacity, call_list_capacity;
} tp__pg_loaded;

/** Reads rows; the texts are borrowed from them.
 *  @param first  the number of the column with the role.   @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_STORE_CORRUPT. */
tp_status tp__pg_loaded_read(tp__pg_loaded *loaded, const PGresult *rows, int first_row, int row_count, int first,
                             tp_fault *fault);
void tp__pg_loaded_fini(tp__pg_loaded *loaded);

#endif
