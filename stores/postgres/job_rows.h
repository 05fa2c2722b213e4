/* SPDX-License-Identifier: Apache-2.0
 *
 * job_rows: the columns of the tables job and job_ended, and a row as a tp_job. */
#ifndef TP__POSTGRES_JOB_ROWS_H
#define TP__POSTGRES_JOB_ROWS_H

#include "stores/postgres/store.h"

/** The columns that both tables have, besides id, place and number. */
#define TP__PG_JOB_COLUMNS                                                                                      \
  "state, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, reason, code, " \
  "inserted_ms, claimable_ms, lease_end_ms, ended_ms, postponed_ms, handler, subscription, idempotency_key, "   \
  "order_key, message, payload, key_hash, order_hash, process, batch, mark, tenant, session"
/** The columns that tp__pg_job_read() reads, of a table or statement with the alias j; with the payload or ''. */
#define TP__PG_JOB_SHOWN(payload)                                                                             \
  "j.id, j.state::bigint, j.claim, j.attempt, j.attempts_max, j.backoff, j.backoff_ms, j.limit_ms, j.phase, " \
  "j.contract_version, j.reason, j.code, j.inserted_ms, j.claimable_ms, j.lease_end_ms, j.ended_ms, "         \
  "j.postponed_ms, j.handler, j.subscription, j.idempotency_key, j.order_key, j.message, " payload
/** The same columns of a row that a statement changed, without an alias. */
#define TP__PG_JOB_RETURNED                                                                                   \
  "id, state, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, reason, " \
  "code, inserted_ms, claimable_ms, lease_end_ms, ended_ms, postponed_ms, handler, subscription, "            \
  "idempotency_key, order_key, message, payload"

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
