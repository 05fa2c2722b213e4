/* SPDX-License-Identifier: Apache-2.0
 *
 * listing.c: walks everything that is registered at one version: for each phase its plan in order, then its disabled
 * subscriptions. A disabled subscription is in no plan, so validate.c computes its policies. */
#include "runtime/plan/registry.h"

typedef struct walk {
  tp__registry *registry;
  tp__snapshot *snapshot;
  const tp_subscription_query *query;
  tp_subscription_fn each;
  void *ctx;
} walk;

static bool subscription_fits(const tp_subscription_query *query, const tp__subscription *sub) {
  if (query->trust != TP_TRUST_NONE && sub->trust != query->trust) return false;
  return !query->owner || strcmp(sub->owner, query->owner) == 0;
}

static const char *or_empty(const char *text) { return text ? text : ""; }

static tp_subscription_info info_of(const tp__registry *registry, const tp__node *node) {
  const tp__subscription *sub = node->sub;
  const tp_subscription *desc = &sub->desc;
  const tp_handler *handler = &node->handler->desc;
  return (tp_subscription_info){.struct_size = sizeof(tp_subscription_info),
                                .id = desc->id,
                                .handler = desc->handler,
                                .owner = sub->owner,
                                .trust = sub->trust,
                                .phase = desc->phase,
                                .grants = sub->grants,
                                .phase_name = registry->phases[desc->phase]->name,
                                .alias = tp__subscription_alias(registry, sub),
                                .killed = tp__a32_load_relaxed(&sub->killed),
                                .tripped = tp__a32_load_relaxed(&sub->tripped),
                                .breaker_open = !tp__circuit_would_admit(&sub->circuit, tp__now_ns()),
                                .sequential = tp__subscription_sequential(sub),
                                .execution = node->execution,
                                .failure = node->failure,
                                .placement = handler->placement,
                                .limit_ms = (uint32_t)(node->timeout_ns / TP__NS_PER_MS),
                                .max_concurrent = node->permits,
                                .attempts = desc->attempts > 1 ? desc->attempts : 1,
                                .priority = desc->priority,
                                .visibility = desc->visibility,
                                .match = or_empty(sub->match.description),
                                .metadata = or_empty(desc->metadata),
                                .after = desc->after,
                                .before = desc->before,
                                .needs = desc->needs,
                                .after_count = desc->after_count,
                                .before_count = desc->before_count,
                                .needs_count = desc->needs_count,
                                .origin_file = handler->origin_file,
                                .origin_line = handler->origin_line,
                                .kind = handler->kind};
}

/* @return false when the callback returned false. */
static bool show_plan(const walk *w, const tp__plan *plan) {
  for (uint32_t i = 0; plan && i < plan->node_count; i++) {
    if (!subscription_fits(w->query, plan->nodes[i].sub)) continue;
    tp_subscription_info info = info_of(w->registry, &plan->nodes[i]);
    info.order = i + 1;
    info.level = (int32_t)plan->nodes[i].level;
    if (!w->each(w->ctx, &info)) return false;
  }
  return true;
}

static bool show_disabled(const walk *w, const tp__members *members) {
  for (size_t i = 0; members && i < members->item_count; i++) {
    tp__node node;
    const tp__set_item *item = &members->items[i];
    if (!item->disabled || !subscription_fits(w->query, item->sub)) continue;
    tp__disabled_node(w->snapshot, item->sub, &node);
    tp_subscription_info info = info_of(w->registry, &node);
    info.disabled = true;
    info.level = -1;
    if (!w->each(w->ctx, &info)) return false;
  }
  return true;
}

static bool show_phase(const walk *w, uint32_t phase) {
  if (!show_plan(w, w->snapshot->plans[phase])) return false;
  return w->query->only_enabled || show_disabled(w, tp__snapshot_set(w->snapshot)->members_of_phase[phase]);
}

static tp_status query_read(const tp__registry *registry, const tp_subscription_query *theirs,
                            tp_subscription_query *query, tp_fault *fault) {
  *query = (tp_subscription_query){.struct_size = sizeof *query};
  if (theirs) TP__TRY(tp__options_read(query, sizeof *query, theirs, "tp_subscription_query", fault));
  if ((unsigned)query->trust > TP_TRUST_DECLARED)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_subscription_query.trust %d is none of TP_TRUST_*",
                    (int)query->trust);
  if (query->only_enabled > 1)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_subscription_query.only_enabled is %u: 0 or 1", query->only_enabled);
  if (query->reserved_ != 0) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_subscription_query.reserved_ must be zero");
  if (query->phase != TP_PHASE_NONE && !tp__registry_phase(registry, query->phase))
    return tp__fail(fault, TP_ERR_UNKNOWN_PHASE, NULL, "tp_subscription_query.phase: there is no phase %u",
                    query->phase);
  return TP_OK;
}

tp_status tp__registry_subscriptions(tp__registry *registry, const tp_subscription_query *theirs,
                                     tp_subscription_fn each, void *ctx, tp_fault *fault) {
  tp_subscription_query query;
  if (!each) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_runtime_subscriptions needs a function to call (each)");
  TP__TRY(query_read(registry, theirs, &query, fault));
  walk w = {.registry = registry, .snapshot = tp__registry_pin(registry), .query = &query, .each = each, .ctx = ctx};
  bool goes_on = true;
  for (uint32_t phase = 1; goes_on && phase < TP_PHASE_LIMIT; phase++) {
    if (query.phase == TP_PHASE_NONE || query.phase == phase) goes_on = show_phase(&w, phase);
  }
  tp__snapshot_unpin(w.snapshot);
  return TP_OK;
}
