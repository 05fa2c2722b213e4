/* SPDX-License-Identifier: Apache-2.0
 *
 * parameters: the parameters of one statement in PostgreSQL's binary form, and the columns of its answer. A set-based
 * statement has arrays as parameters, one for each column: what is put into an array is counted by its caller. No
 * lock. */
#ifndef TP__POSTGRES_PARAMETERS_H
#define TP__POSTGRES_PARAMETERS_H

#include <libpq-fe.h>

#include "stores/columns.h"
#include "support/bytes.h"

enum { TP__PG_PARAMETERS_MAX = 28 };

/** Zero-filled: no parameters. The memory is reused for the next statement. */
typedef struct tp__pg_parameters {
  int count;
  tp__bytes values[TP__PG_PARAMETERS_MAX];
} tp__pg_parameters;

/** The element types of arrays, as they are in every PostgreSQL. */
typedef enum tp__pg_type {
  TP__PG_BOOL = 16,
  TP__PG_BYTEA = 17,
  TP__PG_INT8 = 20,
  TP__PG_TEXT = 25,
} tp__pg_type;

/** Removes all parameters, and frees memory beyond what is worth keeping. */
void tp__pg_parameters_clear(tp__pg_parameters *parameters);
void tp__pg_parameters_fini(tp__pg_parameters *parameters);
void tp__pg_parameter_int(tp__pg_parameters *parameters, int64_t value);
/** Replaces a number that was put before. */
void tp__pg_parameter_set_int(tp__pg_parameters *parameters, int index, int64_t value);
void tp__pg_parameter_bool(tp__pg_parameters *parameters, bool value);
void tp__pg_parameter_text(tp__pg_parameters *parameters, tp_text text);
/** Begins an array of count elements. @return where the caller must put exactly these. */
tp__bytes *tp__pg_parameter_array(tp__pg_parameters *parameters, tp__pg_type type, size_t count);
/** Puts an element into an array. */
void tp__pg_put_int(tp__bytes *array, int64_t value);
void tp__pg_put_bool(tp__bytes *array, bool value);
void tp__pg_put_bytes(tp__bytes *array, tp_text bytes);

/** Sends a statement in pipeline mode; the answer has binary form. @return false: no memory, or no connection. */
bool tp__pg_parameters_send(const tp__pg_parameters *parameters, PGconn *connection, const char *sql);
/** The same for a statement that the connection has prepared. */
bool tp__pg_parameters_send_prepared(const tp__pg_parameters *parameters, PGconn *connection, const char *name);

/** A column of a row; NULL reads as 0, false or empty. The text is borrowed until PQclear(). */
int64_t tp__pg_int(const PGresult *rows, int row, int column);
bool tp__pg_bool(const PGresult *rows, int row, int column);
tp_text tp__pg_text(const PGresult *rows, int row, int column);
/** Fills a public struct with the columns of a row from `first` on, and the rest with zeros. Its texts are borrowed
 *  until the rows are freed. */
void tp__pg_read_struct(const PGresult *rows, int row, int first, const tp__columns *columns, void *ret_struct);

#endif
