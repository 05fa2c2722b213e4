/* SPDX-License-Identifier: Apache-2.0
 *
 * job_rows: the columns of the tables job and job_ended, and a row as a tp_job. */
#ifndef TP__POSTGRES_JOB_ROWS_H
#define TP__POSTGRES_JOB_ROWS_H

#include "stores/postgres/store.h"

/** The members of a tp_job between id and payload, and their columns, which have the same names. */
/* clang-format off */
#define TP__PG_JOB_LIST(C)                                                                                       \
  C(state) C(claim) C(attempt) C(attempts_max) C(backoff) C(backoff_ms) C(limit_ms) C(phase) C(contract_version) \
  C(reason) C(code) C(inserted_ms) C(claimable_ms) C(lease_end_ms) C(ended_ms) C(postponed_ms) C(handler)        \
  C(subscription) C(idempotency_key) C(order_key) C(message)
/* clang-format on */
#define TP__PG_JOB_NAME(column) #column ", "
#define TP__PG_JOB_NAME_OF_J(column) "j." #column ", "
/** The columns of both tables, in addition to id, place and number. */
#define TP__PG_JOB_COLUMNS \
  TP__PG_JOB_LIST(TP__PG_JOB_NAME) "payload, key_hash, order_hash, process, batch, mark, tenant, session"
/** The columns that tp__pg_job_read() reads, of a table or statement with the alias j; with the payload or ''. */
#define TP__PG_JOB_SHOWN(payload) "j.id, " TP__PG_JOB_LIST(TP__PG_JOB_NAME_OF_J) payload
/** The same of the row that a statement changed, without an alias. */
#define TP__PG_JOB_RETURNED "id, " TP__PG_JOB_LIST(TP__PG_JOB_NAME) "payload"

/** Reads a job. Its texts are borrowed until the rows are freed. */
void tp__pg_job_read(const PGresult *rows, int row, tp_job *ret_job);
/** Puts an array of count texts: the first one is at `first`, the following ones every `stride` bytes. */
void tp__pg_put_texts(tp__pg_parameters *parameters, const void *first, size_t stride, size_t count);
/** The same for numbers of 32 or 64 bits. */
void tp__pg_put_ints(tp__pg_parameters *parameters, const void *first, size_t size, size_t stride, size_t count);
/** Puts an array of the numbers 0, 1, 2 … */
void tp__pg_put_indexes(tp__pg_parameters *parameters, size_t count);
/** The hash of a job's order key. */
int64_t tp__pg_order_hash(tp_text order_key);

#endif
