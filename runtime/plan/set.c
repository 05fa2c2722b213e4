/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c: the handlers and subscriptions that are registered at one version. A set begins by sharing everything with the
 * set before it. A commit then copies only the parts that it changes. So a small change costs as much as the phase that
 * it touches. */
#include "runtime/plan/registry.h"

static void handler_ref(void *handler) { tp__handler_ref(handler); }
static void handler_unref(void *handler) { tp__handler_unref(handler); }
static void subscription_ref(void *subscription) { tp__subscription_ref(subscription); }
static void subscription_unref(void *subscription) { tp__subscription_unref(subscription); }

static const tp__map_kind handler_kind = {.ref = handler_ref, .unref = handler_unref};
static const tp__map_kind subscription_kind = {.ref = subscription_ref, .unref = subscription_unref};

void tp__set_init(tp__set *set, const tp_allocator *allocator) {
  memset(set->members_of_phase, 0, sizeof set->members_of_phase);
  set->allocator = allocator;
  tp__map_init(&set->handlers, allocator, &handler_kind);
  tp__map_init(&set->subscriptions, allocator, &subscription_kind);
}

void tp__set_fini(tp__set *set) {
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) tp__members_unref(set->members_of_phase[phase]);
  tp__map_fini(&set->subscriptions);
  tp__map_fini(&set->handlers);
}

void tp__set_begin(tp__set *set) {
  memset(set->budgets_ms, 0, sizeof set->budgets_ms);
  memset(set->limits_ms, 0, sizeof set->limits_ms);
  set->next_registration = 1;
}

tp_status tp__set_share(tp__set *set, const tp__set *base, size_t more_handlers, size_t more_subscriptions) {
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    set->members_of_phase[phase] = base->members_of_phase[phase];
    if (set->members_of_phase[phase]) tp__members_ref(set->members_of_phase[phase]);
  }
  memcpy(set->budgets_ms, base->budgets_ms, sizeof set->budgets_ms);
  memcpy(set->limits_ms, base->limits_ms, sizeof set->limits_ms);
  set->next_registration = base->next_registration;
  TP__TRY(tp__map_begin(&set->handlers, &base->handlers, more_handlers));
  return tp__map_begin(&set->subscriptions, &base->subscriptions, more_subscriptions);
}

tp_status tp__set_touch(tp__set *set, const tp__set *base, uint32_t phase, size_t more) {
  const tp__members *shared = base->members_of_phase[phase];
  if (set->members_of_phase[phase] != shared) return TP_OK;
  tp__members *own = tp__members_new(set->allocator, shared, more);
  if (!own) return TP_ERR_NO_MEMORY;
  tp__members_unref(set->members_of_phase[phase]);
  set->members_of_phase[phase] = own;
  return TP_OK;
}

tp__handler *tp__set_handler(const tp__set *set, const char *id) { return tp__map_get(&set->handlers, id); }

tp__subscription *tp__set_subscription(const tp__set *set, const char *id) {
  return tp__map_get(&set->subscriptions, id);
}

uint32_t tp__set_limit_ms(const tp__set *set, const tp_phase *row, uint32_t phase) {
  if (set->limits_ms[phase]) return set->limits_ms[phase];
  return row->limit_ms ? row->limit_ms : TP__LIMIT_DEFAULT_MS;
}

const tp__set_item *tp__set_find(const tp__set *set, const char *id) {
  tp__subscription *sub = tp__set_subscription(set, id);
  if (!sub) return NULL;
  const tp__members *members = set->members_of_phase[sub->desc.phase];
  return &members->items[tp__members_find(members, sub)];
}
