/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/job_rows.h"

#include <assert.h>
#include <string.h>

enum {
  ID,
  STATE,
  CLAIM,
  ATTEMPT,
  ATTEMPTS_MAX,
  BACKOFF,
  BACKOFF_MS,
  LIMIT_MS,
  PHASE,
  CONTRACT_VERSION,
  REASON,
  CODE,
  INSERTED_MS,
  CLAIMABLE_MS,
  LEASE_END_MS,
  ENDED_MS,
  POSTPONED_MS,
  HANDLER,
  SUBSCRIPTION,
  IDEMPOTENCY_KEY,
  ORDER_KEY,
  MESSAGE,
  PAYLOAD
};

void tp__pg_job_read(const PGresult *rows, int row, tp_job *ret_job) {
  int64_t numbers[HANDLER];
  for (int i = 0; i < HANDLER; i++) numbers[i] = tp__pg_int(rows, row, i);
  *ret_job = (tp_job){.struct_size = sizeof *ret_job,
                      .id = (uint64_t)numbers[ID],
                      .claim = (uint64_t)numbers[CLAIM],
                      .state = (uint32_t)numbers[STATE],
                      .attempt = (uint32_t)numbers[ATTEMPT],
                      .attempts_max = (uint32_t)numbers[ATTEMPTS_MAX],
                      .backoff = (uint32_t)numbers[BACKOFF],
                      .backoff_ms = (uint32_t)numbers[BACKOFF_MS],
                      .limit_ms = (uint32_t)numbers[LIMIT_MS],
                      .phase = (tp_phase_id)numbers[PHASE],
                      .contract_version = (uint32_t)numbers[CONTRACT_VERSION],
                      .reason = (uint32_t)numbers[REASON],
                      .code = (uint32_t)numbers[CODE],
                      .inserted_ms = numbers[INSERTED_MS],
                      .claimable_ms = numbers[CLAIMABLE_MS],
                      .lease_end_ms = numbers[LEASE_END_MS],
                      .ended_ms = numbers[ENDED_MS],
                      .postponed_ms = numbers[POSTPONED_MS],
                      .handler = tp__pg_text(rows, row, HANDLER),
                      .subscription = tp__pg_text(rows, row, SUBSCRIPTION),
                      .idempotency_key = tp__pg_text(rows, row, IDEMPOTENCY_KEY),
                      .order_key = tp__pg_text(rows, row, ORDER_KEY),
                      .message = tp__pg_text(rows, row, MESSAGE),
                      .payload = tp__pg_text(rows, row, PAYLOAD)};
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
