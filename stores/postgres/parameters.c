/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/parameters.h"

#include <assert.h>
#include <string.h>

enum { KEPT_BYTES_MAX = 1 << 20, INT_BYTES = 8 };

/* Puts a number in big-endian order, as the protocol has it. */
static void put_number(tp__bytes *to, uint64_t value, int size) {
  char bytes[INT_BYTES];
  for (int i = 0; i < size; i++) bytes[i] = (char)(unsigned char)(value >> (8 * (size - 1 - i)));
  tp__bytes_put(to, bytes, (size_t)size);
}

void tp__pg_parameters_clear(tp__pg_parameters *p) {
  for (int i = 0; i < p->count; i++) {
    if (p->values[i].capacity > KEPT_BYTES_MAX || p->values[i].failed) tp__bytes_fini(&p->values[i]);
    else tp__bytes_clear(&p->values[i]);
  }
  p->count = 0;
}

void tp__pg_parameters_fini(tp__pg_parameters *p) {
  for (int i = 0; i < TP__PG_PARAMETERS_MAX; i++) tp__bytes_fini(&p->values[i]);
  p->count = 0;
}

static tp__bytes *next(tp__pg_parameters *p) {
  assert(p->count < TP__PG_PARAMETERS_MAX);
  return &p->values[p->count++];
}

void tp__pg_parameter_int(tp__pg_parameters *p, int64_t value) { put_number(next(p), (uint64_t)value, INT_BYTES); }

void tp__pg_parameter_set_int(tp__pg_parameters *p, int index, int64_t value) {
  assert(index >= 0 && index < p->count && p->values[index].size == INT_BYTES);
  tp__bytes_clear(&p->values[index]);
  put_number(&p->values[index], (uint64_t)value, INT_BYTES);
}

void tp__pg_parameter_bool(tp__pg_parameters *p, bool value) { put_number(next(p), value, 1); }

void tp__pg_parameter_text(tp__pg_parameters *p, tp_text text) { tp__bytes_put_text(next(p), text); }

tp__bytes *tp__pg_parameter_array(tp__pg_parameters *p, tp__pg_type type, size_t count) {
  tp__bytes *array = next(p);
  put_number(array, count ? 1 : 0, 4); /* number of dimensions */
  put_number(array, 0, 4);             /* no element is NULL */
  put_number(array, (uint64_t)type, 4);
  if (count == 0) return array;
  put_number(array, count, 4);
  put_number(array, 1, 4); /* index of the first element */
  return array;
}

void tp__pg_put_int(tp__bytes *array, int64_t value) {
  put_number(array, INT_BYTES, 4);
  put_number(array, (uint64_t)value, INT_BYTES);
}

void tp__pg_put_bool(tp__bytes *array, bool value) {
  put_number(array, 1, 4);
  put_number(array, value, 1);
}

void tp__pg_put_bytes(tp__bytes *array, tp_text bytes) {
  assert(bytes.size <= INT32_MAX);
  put_number(array, bytes.size, 4);
  tp__bytes_put_text(array, bytes);
}

/** As libpq takes parameters. */
typedef struct parameter_list {
  const char *values[TP__PG_PARAMETERS_MAX];
  int sizes[TP__PG_PARAMETERS_MAX], formats[TP__PG_PARAMETERS_MAX];
} parameter_list;

static bool list_parameters(const tp__pg_parameters *p, parameter_list *ret_list) {
  for (int i = 0; i < p->count; i++) {
    if (p->values[i].failed || p->values[i].size > INT32_MAX) return false;
    ret_list->values[i] = p->values[i].data ? p->values[i].data : "";
    ret_list->sizes[i] = (int)p->values[i].size;
    ret_list->formats[i] = 1;
  }
  return true;
}

bool tp__pg_parameters_send(const tp__pg_parameters *p, PGconn *connection, const char *sql) {
  parameter_list l;
  return list_parameters(p, &l) &&
         PQsendQueryParams(connection, sql, p->count, NULL, l.values, l.sizes, l.formats, 1) == 1;
}

bool tp__pg_parameters_send_prepared(const tp__pg_parameters *p, PGconn *connection, const char *name) {
  parameter_list l;
  return list_parameters(p, &l) &&
         PQsendQueryPrepared(connection, name, p->count, l.values, l.sizes, l.formats, 1) == 1;
}

int64_t tp__pg_int(const PGresult *rows, int row, int column) {
  const unsigned char *bytes = (const unsigned char *)PQgetvalue(rows, row, column);
  int size = PQgetlength(rows, row, column);
  if (PQgetisnull(rows, row, column)) return 0;
  assert(size == 2 || size == 4 || size == INT_BYTES);
  uint64_t value = bytes[0] & 0x80 ? ~UINT64_C(0) : 0;
  for (int i = 0; i < size; i++) value = value << 8 | bytes[i];
  return (int64_t)value;
}

bool tp__pg_bool(const PGresult *rows, int row, int column) {
  return PQgetlength(rows, row, column) == 1 && PQgetvalue(rows, row, column)[0] == 1;
}

tp_text tp__pg_text(const PGresult *rows, int row, int column) {
  return (tp_text){PQgetvalue(rows, row, column), (size_t)PQgetlength(rows, row, column)};
}

void tp__pg_read_struct(const PGresult *rows, int row, int first, const tp__columns *columns, void *ret_struct) {
  assert(first >= 0 && first + columns->count <= PQnfields(rows));
  memset(ret_struct, 0, columns->size);
  memcpy(ret_struct, &columns->size, sizeof columns->size);
  for (int i = 0; i < columns->count; i++) {
    const tp__column *column = &columns->items[i];
    void *at = (char *)ret_struct + column->offset;
    if (column->type >= TP__COLUMN_TEXT) *(tp_text *)at = tp__pg_text(rows, row, first + i);
    else tp__column_put_int(column, at, tp__pg_int(rows, row, first + i));
  }
}
