/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c: the handlers and subscriptions that are registered at one version. */
#include "runtime/plan/registry.h"

void tp__set_init(tp__set *set, const tp_allocator *allocator, tp__arena *arena) {
  *set = (tp__set){.arena = arena, .next_registration = 1};
  tp__index_init(&set->handler_index, allocator);
  tp__index_init(&set->item_index, allocator);
}

void tp__set_fini(tp__set *set) {
  tp__index_fini(&set->handler_index);
  tp__index_fini(&set->item_index);
  for (size_t i = 0; i < set->item_count; i++) tp__subscription_unref(set->items[i].sub);
  for (size_t i = 0; i < set->handler_count; i++) tp__handler_unref(set->handlers[i]);
  set->item_count = set->handler_count = 0;
}

tp_status tp__set_reserve(tp__set *set, size_t handler_count, size_t item_count) {
  assert(set->handler_count == 0 && set->item_count == 0);
  set->handlers = tp__arena_alloc(set->arena, handler_count * sizeof *set->handlers);
  set->items = tp__arena_alloc(set->arena, item_count * sizeof *set->items);
  if (!set->handlers || !set->items) return TP_ERR_NO_MEMORY;
  TP__TRY(tp__index_reserve(&set->handler_index, handler_count));
  return tp__index_reserve(&set->item_index, item_count);
}

void tp__set_add_handler(tp__set *set, tp__handler *handler) {
  tp__handler_ref(handler);
  tp__index_put(&set->handler_index, handler->desc.id, set->handler_count);
  set->handlers[set->handler_count++] = handler;
}

void tp__set_add_item(tp__set *set, tp__subscription *subscription, bool disabled) {
  assert(set->item_count == 0 || set->items[set->item_count - 1].sub->registration < subscription->registration);
  tp__subscription_ref(subscription);
  tp__index_put(&set->item_index, subscription->desc.id, set->item_count);
  set->items[set->item_count++] = (tp__set_item){.sub = subscription, .disabled = disabled};
}

tp__handler *tp__set_handler(const tp__set *set, const char *id) {
  size_t at;
  return tp__index_get(&set->handler_index, id, &at) ? set->handlers[at] : NULL;
}

const tp__set_item *tp__set_find(const tp__set *set, const char *id) {
  size_t at;
  return tp__index_get(&set->item_index, id, &at) ? &set->items[at] : NULL;
}
