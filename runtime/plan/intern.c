/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "runtime/plan/registry.h"

static tp_status add_id_locked(tp__registry *registry, const char *id, const char **ret_id) {
  TP__LOCKED(&registry->names_lock);
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
  tp__mutex_lock(&registry->names_lock);
  if (tp__index_get(&registry->interned, id, &known)) *ret_id = (const char *)(uintptr_t)known;
  else status = add_id_locked(registry, id, ret_id);
  tp__mutex_unlock(&registry->names_lock);
  return status;
}

/* Ids contain no white space, so a blank can separate them. */
static tp_status add_name_locked(tp__registry *registry, const tp__run_name *name, uint32_t *ret_id) {
  TP__LOCKED(&registry->names_lock);
  char key[3 * (TP_ID_BYTES_MAX + 1) + 2];
  const char *copy;
  size_t known;
  snprintf(key, sizeof key, "%s %s %s %u", name->subscription, name->handler, name->owner, name->visibility);
  if (tp__index_get(&registry->named, key, &known)) {
    *ret_id = (uint32_t)known;
    return TP_OK;
  }
  TP__TRY(tp__index_reserve(&registry->named, registry->named.id_count + 1));
  if (!tp__arena_string(&registry->interned_arena, key, &copy)) return TP_ERR_NO_MEMORY;
  TP__TRY(tp__run_names_add(&registry->run_names, &registry->allocator, *name, ret_id));
  tp__index_put(&registry->named, copy, *ret_id);
  return TP_OK;
}

tp_status tp__intern_run_name(tp__registry *registry, const tp__run_name *name, uint32_t *ret_id) {
  tp__mutex_lock(&registry->names_lock);
  tp_status status = add_name_locked(registry, name, ret_id);
  tp__mutex_unlock(&registry->names_lock);
  return status;
}
