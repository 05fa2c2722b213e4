/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/registry.h"

static tp_status add_locked(tp__registry *registry, const char *id, const char **ret_id) {
  TP__TRY(tp__index_reserve(&registry->interned, registry->interned.id_count + 1));
  const char *copy;
  if (!tp__arena_string(&registry->interned_arena, id, &copy)) return TP_ERR_NO_MEMORY;
  tp__index_put(&registry->interned, copy, (size_t)(uintptr_t)copy);
  *ret_id = copy;
  return TP_OK;
}

tp_status tp__intern(tp__registry *registry, const char *id, const char **ret_id) {
  size_t known;
  tp_status status = TP_OK;
  tp__mutex_lock(&registry->lock);
  if (tp__index_get(&registry->interned, id, &known)) *ret_id = (const char *)(uintptr_t)known;
  else status = add_locked(registry, id, ret_id);
  tp__mutex_unlock(&registry->lock);
  return status;
}
