/* SPDX-License-Identifier: Apache-2.0
 *
 * subscription.c: a registered subscription: a counted copy of its descriptor. This file checks the descriptor by
 * itself; validate.c checks it against everything else that is registered. */
#include "runtime/plan/registry.h"
#include "turnphase/value.h"

enum { FIRST_BYTES = 320 /* enough for the strings and edges of most, so that one allocation holds all */ };

typedef struct subscription_block {
  tp__subscription sub;
  _Alignas(8) char first[FIRST_BYTES];
} subscription_block;

/* ---- checking ---- */

#define REFUSE(desc, code, ...) tp__refuse_desc(fault, (code), "subscription", (desc)->id, __VA_ARGS__)

static tp_status phase_resolve(const tp__registry *registry, tp_subscription *desc, uint32_t *ret_flags,
                               tp_fault *fault) {
  uint32_t flags = 0;
  if (desc->phase_name) {
    uint32_t named = tp__rows_find(registry, desc->phase_name, &flags);
    if (named == 0)
      return REFUSE(desc, TP_ERR_UNKNOWN_PHASE, "no phase or alias is called `%s` (phase_name)", desc->phase_name);
    if (desc->phase != 0 && desc->phase != named)
      return REFUSE(desc, TP_ERR_USAGE, "phase is %u, but phase_name `%s` is phase %u: set one of the two", desc->phase,
                    desc->phase_name, named);
    desc->phase = named;
  }
  if (!tp__registry_phase(registry, desc->phase))
    return REFUSE(desc, TP_ERR_UNKNOWN_PHASE, "there is no phase %u: set phase or phase_name", desc->phase);
  *ret_flags = flags;
  return TP_OK;
}

static tp_status enums_check(const tp_subscription *desc, tp_fault *fault) {
  const struct {
    const char *field;
    int value, most;
  } enums[] = {{"execution", (int)desc->execution, TP_EXECUTION_BACKGROUND},
               {"failure", (int)desc->failure, TP_FAILURE_REQUIRED},
               {"backoff", (int)desc->backoff, TP_BACKOFF_EXPONENTIAL},
               {"backlog", (int)desc->backlog, TP_BACKLOG_SHED},
               {"sequential", (int)desc->sequential, TP_SEQUENTIAL_OFF},
               {"visibility", (int)desc->visibility, TP_VISIBILITY_USER_VISIBLE}};
  for (size_t i = 0; i < sizeof enums / sizeof *enums; i++) {
    if (enums[i].value >= 0 && enums[i].value <= enums[i].most) continue;
    return REFUSE(desc, TP_ERR_USAGE, "%s is %d, which this library does not know: 0 to %d", enums[i].field,
                  enums[i].value, enums[i].most);
  }
  return TP_OK;
}

static tp_status edges_check(const tp_subscription *desc, const tp_edge *const *edges, size_t count, const char *field,
                             tp_fault *fault) {
  if (count > TP__PHASE_EDGES_MAX)
    return REFUSE(desc, TP_ERR_TOO_LARGE, "%s has %zu edges: at most %d", field, count, TP__PHASE_EDGES_MAX);
  if (count > 0 && !edges) return REFUSE(desc, TP_ERR_USAGE, "%s has %zu edges, but is NULL", field, count);
  for (size_t i = 0; i < count; i++) {
    tp_edge edge;
    if (!edges[i]) return REFUSE(desc, TP_ERR_USAGE, "%s[%zu] is NULL", field, i);
    TP__TRY(tp__options_read(&edge, sizeof edge, edges[i], "tp_edge", fault));
    if (!tp__id_valid(edge.target)) return REFUSE(desc, TP_ERR_BAD_ID, "the target of %s[%zu] is no id", field, i);
    for (size_t k = 0; k < sizeof edge.reserved_; k++)
      if (edge.reserved_[k]) return REFUSE(desc, TP_ERR_USAGE, "reserved_ of %s[%zu] must be zero", field, i);
  }
  return TP_OK;
}

tp_status tp__subscription_check(const tp__registry *registry, tp_subscription *desc, uint32_t *ret_flags,
                                 tp_fault *fault) {
  TP__TRY(tp__id_check(desc->id, "tp_subscription.id", fault));
  if (!tp__id_valid(desc->handler)) return REFUSE(desc, TP_ERR_BAD_ID, "handler is no id: name a registered handler");
  if (desc->fallback_verdict == 0) desc->fallback_verdict = TP_VERDICT_NONE;
  TP__TRY(enums_check(desc, fault));
  for (size_t i = 0; i < sizeof desc->reserved_; i++)
    if (desc->reserved_[i])
      return REFUSE(desc, TP_ERR_USAGE, "reserved_ is %u: zero-fill the struct", desc->reserved_[i]);
  if (desc->fallback_count > 0 && !desc->fallback)
    return REFUSE(desc, TP_ERR_USAGE, "fallback_count is %zu, but fallback is NULL", desc->fallback_count);
  if (!tp_utf8_valid(tp_text_of(desc->metadata), NULL)) return REFUSE(desc, TP_ERR_UTF8, "metadata is not UTF-8");
  TP__TRY(edges_check(desc, desc->after, desc->after_count, "after", fault));
  TP__TRY(edges_check(desc, desc->before, desc->before_count, "before", fault));
  TP__TRY(edges_check(desc, desc->needs, desc->needs_count, "needs", fault));
  TP__TRY(tp__match_check(desc->id, desc->match, fault));
  return phase_resolve(registry, desc, ret_flags, fault);
}

/* ---- copying ---- */

static bool copy_edges(tp__arena *arena, const tp_edge *const *from, size_t count, const tp_edge *const **ret_copy) {
  tp_edge *edges = tp__arena_alloc(arena, count * sizeof *edges);
  const tp_edge **list = tp__arena_alloc(arena, count * sizeof *list);
  if (!edges || !list) return false;
  for (size_t i = 0; i < count; i++) {
    if (tp__options_read(&edges[i], sizeof *edges, from[i], "tp_edge", NULL) != TP_OK) return false; /* was checked */
    if (!tp__arena_string(arena, edges[i].target, &edges[i].target)) return false;
    list[i] = &edges[i];
  }
  *ret_copy = list;
  return true;
}

static bool copy_match(tp__subscription *sub) {
  if (!sub->desc.match) return true;
  if (!tp__match_copy(&sub->arena, sub->desc.match, &sub->match)) return false;
  sub->desc.match = &sub->match;
  return true;
}

static bool copy_desc(tp__subscription *sub, const tp_subscription *from, const tp_owner *owner) {
  tp__arena *arena = &sub->arena;
  tp_subscription *desc = &sub->desc;
  *desc = *from;
  return tp__arena_string(arena, from->id, &desc->id) && tp__arena_string(arena, from->handler, &desc->handler) &&
         tp__arena_string(arena, from->phase_name, &desc->phase_name) &&
         tp__arena_string(arena, from->metadata, &desc->metadata) &&
         tp__arena_string(arena, owner->name, &sub->owner) &&
         copy_edges(arena, from->after, from->after_count, &desc->after) &&
         copy_edges(arena, from->before, from->before_count, &desc->before) &&
         copy_edges(arena, from->needs, from->needs_count, &desc->needs) && copy_match(sub);
}

static tp_status copy_fallback(const tp__registry *registry, tp__subscription *sub, const tp_subscription *from,
                               tp_fault *fault) {
  if (from->fallback_count > SIZE_MAX / 4 / sizeof(tp_contribution))
    return REFUSE(from, TP_ERR_TOO_LARGE, "fallback_count is %zu", from->fallback_count);
  tp_contribution *copies = tp__arena_alloc(&sub->arena, from->fallback_count * sizeof *copies);
  const tp_contribution **list = tp__arena_alloc(&sub->arena, from->fallback_count * sizeof *list);
  if (!copies || !list) return TP_ERR_NO_MEMORY;
  tp__closure_home home = {
      .allocator = sub->allocator, .inside_of = sub->inside_of, .inbox_owner = registry, .closures = &sub->closures};
  for (size_t i = 0; i < from->fallback_count; i++) {
    if (!from->fallback[i]) return REFUSE(from, TP_ERR_USAGE, "fallback[%zu] is NULL", i);
    tp_fault why = {0};
    const tp__contribution_ops *ops = registry->ops;
    tp_status status = TP_OK;
    if (ops->check) status = ops->check(sub->arena.allocator, sub->desc.phase, from->fallback[i], &why);
    if (status == TP_OK) status = ops->copy(&sub->arena, sub->desc.phase, &home, from->fallback[i], &copies[i], &why);
    list[i] = &copies[i];
    if (status == TP_ERR_NO_MEMORY) return status;
    if (status != TP_OK)
      return REFUSE(from, status, "contribution %zu of its fallback is refused: %s", i + 1, why.message);
  }
  sub->desc.fallback = list;
  return TP_OK;
}

static void subscription_free(tp__subscription *sub) {
  tp__closures_unref(&sub->closures);
  tp__arena_fini(&sub->arena);
  tp__release(sub->allocator, TP__CONTAINER(sub, subscription_block, sub), sizeof(subscription_block));
}

tp_status tp__subscription_new(tp__registry *registry, const tp_subscription *desc, const tp_owner *owner,
                               uint32_t alias_flags, tp__subscription **ret_subscription, tp_fault *fault) {
  subscription_block *block = tp__alloc_zero(&registry->allocator, sizeof *block);
  if (!block) return REFUSE(desc, TP_ERR_NO_MEMORY, "no memory for it");
  tp__subscription *sub = &block->sub;
  sub->allocator = &registry->allocator;
  sub->inside_of = registry->inside_of;
  sub->alias_flags = alias_flags;
  sub->trust = owner->trust;
  sub->grants = owner->grants;
  tp__a32_store_relaxed(&sub->refs, 1);
  tp__permits_init(&sub->permits);
  tp__arena_init(&sub->arena, sub->allocator, block->first, sizeof block->first, 0);
  tp_status status = copy_desc(sub, desc, owner) ? copy_fallback(registry, sub, desc, fault) : TP_ERR_NO_MEMORY;
  if (status == TP_OK) status = tp__intern(registry, sub->desc.id, &sub->name);
  if (status == TP_OK) status = tp__intern(registry, sub->desc.handler, &sub->handler_name);
  if (status == TP_OK) status = tp__intern(registry, sub->owner, &sub->owner_name);
  tp__run_name name = {sub->name, sub->handler_name, sub->owner_name, (uint8_t)desc->visibility};
  if (status == TP_OK) status = tp__intern_run_name(registry, &name, &sub->run_name);
  if (status != TP_OK) {
    tp__closures_cancel(&sub->closures);
    subscription_free(sub);
    return status == TP_ERR_NO_MEMORY ? REFUSE(desc, status, "no memory for it") : status;
  }
  *ret_subscription = sub;
  return TP_OK;
}

void tp__subscription_ref(tp__subscription *subscription) { tp__a32_add_relaxed(&subscription->refs, 1); }

void tp__subscription_unref(tp__subscription *subscription) {
  if (!subscription || tp__a32_sub_acq_rel(&subscription->refs, 1) > 1) return;
  const tp_match *match = &subscription->match;
  tp__inside frame;
  tp__inside_enter(&frame, subscription->inside_of, TP__INSIDE_CALLBACK);
  if (match->destroy) match->destroy(match->ctx);
  tp__inside_leave(&frame);
  subscription_free(subscription);
}

bool tp__subscription_sequential(const tp__subscription *subscription) {
  if (subscription->desc.sequential != TP_SEQUENTIAL_DEFAULT) return subscription->desc.sequential == TP_SEQUENTIAL_ON;
  return (subscription->alias_flags & TP__ALIAS_SEQUENTIAL) != 0;
}

const char *tp__subscription_alias(const tp__registry *registry, const tp__subscription *subscription) {
  const char *name = subscription->desc.phase_name;
  return name && strcmp(name, registry->phases[subscription->desc.phase]->name) != 0 ? name : "";
}

int64_t tp__retry_pause_ns(const tp_subscription *desc, uint32_t attempt) {
  enum { PAUSE_MS_MAX = 60000, DOUBLINGS_MAX = 16 /* 1 ms doubled so often is above the cap */ };
  if (desc->backoff == TP_BACKOFF_NONE) return 0;
  uint64_t pause_ms = desc->backoff_ms;
  if (desc->backoff == TP_BACKOFF_EXPONENTIAL && attempt > 1) {
    uint32_t doublings = attempt - 1;
    pause_ms <<= doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX;
  }
  return (int64_t)(pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX) * TP__NS_PER_MS;
}
