/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/breaker.h"

enum { FAILURES = 5, OPEN_MS = 30000 };

tp_status tp__breakers_init(tp__breakers *breakers, const tp_allocator *allocator, uint32_t failures_max,
                            uint32_t open_ms) {
  *breakers = (tp__breakers){.allocator = allocator,
                             .failures_max = failures_max ? failures_max : FAILURES,
                             .open_ns = (int64_t)(open_ms ? open_ms : OPEN_MS) * TP__NS_PER_MS};
  return tp__mutex_init(&breakers->mutex, TP__RANK_breakers);
}

void tp__breakers_fini(tp__breakers *breakers) {
  for (size_t i = 0; i < breakers->count; i++) tp__string_free(breakers->allocator, breakers->rows[i].provider);
  tp__release(breakers->allocator, breakers->rows, breakers->capacity * sizeof *breakers->rows);
  tp__mutex_fini(&breakers->mutex);
}

static tp__breaker *find_breaker_locked(tp__breakers *breakers, const char *provider) {
  TP__LOCKED(&breakers->mutex);
  for (size_t i = 0; i < breakers->count; i++)
    if (strcmp(breakers->rows[i].provider, provider) == 0) return &breakers->rows[i];
  return NULL;
}

static void remove_breaker_locked(tp__breakers *breakers, tp__breaker *row) {
  TP__LOCKED(&breakers->mutex);
  tp__string_free(breakers->allocator, row->provider);
  *row = breakers->rows[--breakers->count];
  tp__a32_store_relaxed(&breakers->row_count, (uint32_t)breakers->count);
}

static tp__breaker *oldest_locked(tp__breakers *breakers) {
  TP__LOCKED(&breakers->mutex);
  tp__breaker *oldest = &breakers->rows[0];
  for (size_t i = 1; i < breakers->count; i++)
    if (breakers->rows[i].failed_ns < oldest->failed_ns) oldest = &breakers->rows[i];
  return oldest;
}

static tp__breaker *add_breaker_locked(tp__breakers *breakers, const char *provider) {
  TP__LOCKED(&breakers->mutex);
  void *rows = breakers->rows;
  char *copy;
  if (breakers->count == TP__BREAKERS_MAX) remove_breaker_locked(breakers, oldest_locked(breakers));
  if (tp__array_grow(breakers->allocator, &rows, &breakers->capacity, breakers->count + 1, sizeof(tp__breaker)) !=
      TP_OK)
    return NULL;
  breakers->rows = rows;
  if (tp__string_copy(breakers->allocator, provider, &copy) != TP_OK) return NULL;
  tp__breaker *row = &breakers->rows[breakers->count++];
  *row = (tp__breaker){.provider = copy};
  tp__a32_store_relaxed(&breakers->row_count, (uint32_t)breakers->count);
  return row;
}

bool tp__breaker_admits(tp__breakers *breakers, const char *provider, int64_t now_ns) {
  if (!provider || tp__a32_load_relaxed(&breakers->row_count) == 0) return true;
  tp__mutex_lock(&breakers->mutex);
  tp__breaker *row = find_breaker_locked(breakers, provider);
  bool admits = !row || row->open_until_ns <= now_ns;
  if (admits && row && row->open_until_ns) row->open_until_ns = now_ns + breakers->open_ns; /* it tries; others wait */
  tp__mutex_unlock(&breakers->mutex);
  return admits;
}

bool tp__breaker_is_open(tp__breakers *breakers, const char *provider, int64_t now_ns) {
  if (!provider || tp__a32_load_relaxed(&breakers->row_count) == 0) return false;
  tp__mutex_lock(&breakers->mutex);
  const tp__breaker *row = find_breaker_locked(breakers, provider);
  bool is_open = row && row->open_until_ns > now_ns;
  tp__mutex_unlock(&breakers->mutex);
  return is_open;
}

uint32_t tp__breaker_failed(tp__breakers *breakers, const char *provider, int64_t now_ns) {
  uint32_t opened_by = 0;
  if (!provider) return 0;
  tp__mutex_lock(&breakers->mutex);
  tp__breaker *row = find_breaker_locked(breakers, provider);
  if (!row) row = add_breaker_locked(breakers, provider);
  if (row) {
    row->failed_ns = now_ns;
    if (row->failures < UINT32_MAX) row->failures++;
    bool opens = row->failures >= breakers->failures_max;
    if (opens && !row->open_until_ns) opened_by = row->failures;
    if (opens) row->open_until_ns = now_ns + breakers->open_ns;
  }
  tp__mutex_unlock(&breakers->mutex);
  return opened_by;
}

bool tp__breaker_answered(tp__breakers *breakers, const char *provider) {
  if (!provider || tp__a32_load_relaxed(&breakers->row_count) == 0) return false;
  tp__mutex_lock(&breakers->mutex);
  tp__breaker *row = find_breaker_locked(breakers, provider);
  bool was_open = row && row->open_until_ns;
  if (row) remove_breaker_locked(breakers, row);
  tp__mutex_unlock(&breakers->mutex);
  return was_open;
}
