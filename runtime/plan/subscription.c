/* SPDX-License-Identifier: Apache-2.0
 *
 * subscription.c: a registered subscription: a copy of its descriptor, counted. What can be said about a descriptor
 * without looking at anything else that is registered is said here; the rest is validate.c's. */
#include "runtime/plan/registry.h"
#include "turnphase/value.h"

enum { FIRST_BYTES = 320 /* enough for the strings and edges of most, so that one allocation holds all */ };

typedef struct subscription_block {
  tp__subscription sub;
  _Alignas(8) char first[FIRST_BYTES];
} subscription_block;

/* ---- checking ---- */

static tp_status phase_resolve(const tp__registry *registry, tp_subscription *desc, uint32_t *ret_flags) {
  uint32_t flags = 0;
  if (desc->phase_name) {
    uint32_t named = tp__rows_find(registry, desc->phase_name, &flags);
    if (named == 0) return TP_ERR_UNKNOWN_PHASE;
    if (desc->phase != 0 && desc->phase != named) return TP_ERR_USAGE;
    desc->phase = named;
  }
  if (!tp__registry_phase(registry, desc->phase)) return TP_ERR_UNKNOWN_PHASE;
  *ret_flags = flags;
  return TP_OK;
}

static bool enums_known(const tp_subscription *desc) {
  return (unsigned)desc->execution <= TP_EXECUTION_BACKGROUND && (unsigned)desc->failure <= TP_FAILURE_REQUIRED &&
         (unsigned)desc->backoff <= TP_BACKOFF_EXPONENTIAL && (unsigned)desc->sequential <= TP_SEQUENTIAL_OFF &&
         (unsigned)desc->visibility <= TP_VISIBILITY_USER_VISIBLE;
}

static tp_status edges_check(const tp_edge *edges, size_t count) {
  if (count > TP__PHASE_EDGES_MAX) return TP_ERR_TOO_LARGE;
  if (count > 0 && !edges) return TP_ERR_USAGE;
  for (size_t i = 0; i < count; i++) {
    if (!tp__id_valid(edges[i].target)) return TP_ERR_BAD_ID;
  }
  return TP_OK;
}

static tp_status match_check(const tp_match *match) {
  if (match->field_count > TP_FIELD_LIMIT || (match->field_count > 0 && !match->fields)) return TP_ERR_USAGE;
  if (match->matches && !match->description) return TP_ERR_USAGE;
  return tp_utf8_valid(tp_text_of(match->description), NULL) ? TP_OK : TP_ERR_UTF8;
}

tp_status tp__subscription_check(const tp__registry *registry, tp_subscription *desc, uint32_t *ret_flags) {
  if (!tp__id_valid(desc->id) || !tp__id_valid(desc->handler)) return TP_ERR_BAD_ID;
  if (desc->fallback_verdict == 0) desc->fallback_verdict = TP_VERDICT_NONE;
  if (!enums_known(desc) || (desc->fallback_count > 0 && !desc->fallback)) return TP_ERR_USAGE;
  if (!tp_utf8_valid(tp_text_of(desc->metadata), NULL)) return TP_ERR_UTF8;
  TP__TRY(edges_check(desc->after, desc->after_count));
  TP__TRY(edges_check(desc->before, desc->before_count));
  TP__TRY(edges_check(desc->requires_, desc->requires_count));
  TP__TRY(match_check(&desc->match));
  return phase_resolve(registry, desc, ret_flags);
}

/* ---- copying ---- */

static bool copy_edges(tp__arena *arena, const tp_edge *from, size_t count, const tp_edge **ret_copy) {
  tp_edge *edges = tp__arena_alloc(arena, count * sizeof *edges);
  if (!edges) return false;
  for (size_t i = 0; i < count; i++) {
    edges[i].optional = from[i].optional;
    if (!tp__arena_string(arena, from[i].target, &edges[i].target)) return false;
  }
  *ret_copy = edges;
  return true;
}

static bool copy_match(tp__arena *arena, const tp_match *from, tp_match *ret_copy) {
  tp_match match = *from;
  uint32_t *fields = tp__arena_alloc(arena, from->field_count * sizeof *fields);
  if (!fields || !tp__arena_string(arena, from->description, &match.description)) return false;
  if (from->field_count > 0) memcpy(fields, from->fields, from->field_count * sizeof *fields);
  match.fields = fields;
  *ret_copy = match;
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
         copy_edges(arena, from->requires_, from->requires_count, &desc->requires_) &&
         copy_match(arena, &from->match, &desc->match);
}

static tp_status copy_fallback(const tp__contribution_ops *ops, tp__subscription *sub, const tp_subscription *from) {
  if (from->fallback_count > SIZE_MAX / 4 / sizeof(tp_contribution)) return TP_ERR_TOO_LARGE;
  tp_contribution *copies = tp__arena_alloc(&sub->arena, from->fallback_count * sizeof *copies);
  if (!copies) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < from->fallback_count; i++)
    TP__TRY(ops->copy(&sub->arena, sub->desc.phase, &from->fallback[i], &copies[i]));
  sub->desc.fallback = copies;
  return TP_OK;
}

static void subscription_free(tp__subscription *sub) {
  tp__arena_fini(&sub->arena);
  tp__release(sub->allocator, TP__CONTAINER(sub, subscription_block, sub), sizeof(subscription_block));
}

tp_status tp__subscription_new(tp__registry *registry, const tp_subscription *desc, const tp_owner *owner,
                               uint32_t alias_flags, tp__subscription **ret_subscription) {
  subscription_block *block = tp__alloc_zero(&registry->allocator, sizeof *block);
  if (!block) return TP_ERR_NO_MEMORY;
  tp__subscription *sub = &block->sub;
  sub->allocator = &registry->allocator;
  sub->alias_flags = alias_flags;
  sub->trust = owner->trust;
  sub->grants = owner->grants;
  tp__a32_store_relaxed(&sub->refs, 1);
  tp__permits_init(&sub->permits);
  tp__arena_init(&sub->arena, sub->allocator, block->first, sizeof block->first, 0);
  tp_status status = copy_desc(sub, desc, owner) ? copy_fallback(registry->ops, sub, desc) : TP_ERR_NO_MEMORY;
  if (status == TP_OK) status = tp__intern(registry, sub->desc.id, &sub->name);
  if (status == TP_OK) status = tp__intern(registry, sub->desc.handler, &sub->handler_name);
  if (status == TP_OK) status = tp__intern(registry, sub->owner, &sub->owner_name);
  tp__run_name name = {sub->name, sub->handler_name, sub->owner_name};
  if (status == TP_OK) status = tp__intern_run_name(registry, &name, &sub->run_name);
  if (status != TP_OK) {
    subscription_free(sub);
    return status;
  }
  *ret_subscription = sub;
  return TP_OK;
}

void tp__subscription_ref(tp__subscription *subscription) { tp__a32_add_relaxed(&subscription->refs, 1); }

void tp__subscription_unref(tp__subscription *subscription) {
  if (!subscription || tp__a32_sub_acq_rel(&subscription->refs, 1) > 1) return;
  const tp_match *match = &subscription->desc.match;
  if (match->destroy) match->destroy(match->ctx);
  subscription_free(subscription);
}

bool tp__subscription_sequential(const tp__subscription *subscription) {
  if (subscription->desc.sequential != TP_SEQUENTIAL_DEFAULT) return subscription->desc.sequential == TP_SEQUENTIAL_ON;
  return (subscription->alias_flags & TP__ALIAS_SEQUENTIAL) || subscription->trust == TP_TRUST_DECLARED;
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
