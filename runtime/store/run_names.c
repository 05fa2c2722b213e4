/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/run_names.h"

static uint32_t chunk_of(uint32_t id) { return 31u - (uint32_t)__builtin_clz(id / TP__RUN_NAMES_FIRST + 1); }
static uint32_t first_of(uint32_t chunk) { return TP__RUN_NAMES_FIRST * ((UINT32_C(1) << chunk) - 1); }
static size_t chunk_size(uint32_t chunk) { return ((size_t)TP__RUN_NAMES_FIRST << chunk) * sizeof(tp__run_name); }

void tp__run_names_fini(tp__run_names *names, const tp_allocator *allocator) {
  for (uint32_t i = 0; i < TP__RUN_NAMES_CHUNKS; i++) tp__release(allocator, names->chunks[i], chunk_size(i));
  *names = (tp__run_names){0};
}

tp_status tp__run_names_add(tp__run_names *names, const tp_allocator *allocator, tp__run_name name, uint32_t *ret_id) {
  uint32_t id = names->count, chunk = chunk_of(id);
  if (chunk >= TP__RUN_NAMES_CHUNKS) return TP_ERR_TOO_LARGE;
  if (!names->chunks[chunk]) names->chunks[chunk] = tp__alloc(allocator, chunk_size(chunk));
  if (!names->chunks[chunk]) return TP_ERR_NO_MEMORY;
  names->chunks[chunk][id - first_of(chunk)] = name;
  names->count++;
  *ret_id = id;
  return TP_OK;
}

const tp__run_name *tp__run_name_of(const tp__run_names *names, uint32_t id) {
  uint32_t chunk = chunk_of(id);
  return &names->chunks[chunk][id - first_of(chunk)];
}
