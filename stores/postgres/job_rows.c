/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/job_rows.h"

#include <assert.h>
#include <string.h>

#define JOB(member) TP__COLUMN(tp_job, member),
static const tp__column job_columns[] = {JOB(id) TP__PG_JOB_LIST(JOB) TP__BLOB_COLUMN(tp_job, payload)};
static const tp__columns jobs = TP__COLUMNS(tp_job, job_columns);

void tp__pg_job_read(const PGresult *rows, int row, tp_job *ret_job) {
  tp__pg_read_struct(rows, row, 0, &jobs, ret_job);
}

void tp__pg_put_texts(tp__pg_parameters *p, const void *first, size_t stride, size_t count) {
  tp__bytes *array = tp__pg_parameter_array(p, TP__PG_BYTEA, count);
  for (size_t i = 0; i < count; i++) {
    tp_text text;
    memcpy(&text, (const char *)first + i * stride, sizeof text);
    tp__pg_put_bytes(array, text);
  }
}

void tp__pg_put_ints(tp__pg_parameters *p, const void *first, size_t size, size_t stride, size_t count) {
  tp__bytes *array = tp__pg_parameter_array(p, TP__PG_INT8, count);
  assert(size == sizeof(int64_t) || size == sizeof(uint32_t));
  for (size_t i = 0; i < count; i++) {
    int64_t large;
    uint32_t small;
    const char *at = (const char *)first + i * stride;
    if (size == sizeof large) memcpy(&large, at, sizeof large);
    else memcpy(&small, at, sizeof small), large = small;
    tp__pg_put_int(array, large);
  }
}

void tp__pg_put_indexes(tp__pg_parameters *p, size_t count) {
  tp__bytes *array = tp__pg_parameter_array(p, TP__PG_INT8, count);
  for (size_t i = 0; i < count; i++) tp__pg_put_int(array, (int64_t)i);
}

int64_t tp__pg_order_hash(tp_text order_key) { return tp__pg_short_hash(&order_key, 1); }
