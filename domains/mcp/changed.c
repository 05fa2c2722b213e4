/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/changed.h"

#include <assert.h>

#include "support/lock.h"

static struct {
  tp__lock lock;
  tp__mcp_watch *watches; /* under lock */
} changed = {.lock = TP__LOCK_INITIALIZER(TP__LOCK_mcp_changed)};

void tp__mcp_changed_enter(tp__mcp_watch *watch) {
  assert(watch->runtime && watch->on_changed && watch->find && !watch->next);
  tp__lock_acquire(&changed.lock);
  watch->next = changed.watches;
  changed.watches = watch;
  tp__lock_release(&changed.lock);
}

void tp__mcp_changed_leave(tp__mcp_watch *watch) {
  tp__lock_acquire(&changed.lock);
  tp__mcp_watch **at = &changed.watches;
  while (*at && *at != watch) at = &(*at)->next;
  if (*at) *at = watch->next;
  tp__lock_release(&changed.lock);
}

void tp__mcp_changed_notify(const tp_runtime *runtime) {
  tp__lock_acquire(&changed.lock);
  for (tp__mcp_watch *watch = changed.watches; watch; watch = watch->next)
    if (watch->runtime == runtime) watch->on_changed(watch->ctx);
  tp__lock_release(&changed.lock);
}

tp_mcp_call *tp__mcp_changed_find(const tp_runtime *runtime, const void *data) {
  tp_mcp_call *call = NULL;
  tp__lock_acquire(&changed.lock);
  for (const tp__mcp_watch *watch = changed.watches; watch && !call; watch = watch->next)
    if (watch->runtime == runtime) call = watch->find(watch->ctx, data);
  tp__lock_release(&changed.lock);
  return call;
}
