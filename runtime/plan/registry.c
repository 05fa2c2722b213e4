/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.c: pins, replaces and searches the newest snapshot. */
#include <stdio.h>

#include "runtime/plan/registry.h"

/* ---- life ---- */

static void built_in_rows_add(tp__registry *registry, const tp_phase *rows, size_t row_count) {
  assert(row_count <= TP_PHASE_HOST);
  for (size_t i = 1; i < row_count; i++) {
    registry->phases[i] = &rows[i];
    tp__phase_fields_fill(&registry->phase_fields[i], &rows[i]);
  }
}

static tp_status registry_fill(tp__registry *registry, const tp_phase *const *host_rows, size_t host_row_count,
                               tp_fault *fault) {
  TP__TRY(tp__rows_add_host(registry, host_rows, host_row_count, fault));
  for (int i = 0; i < TP__AUDIT_CLASSES; i++) {
    tp__audit_ring *ring = &registry->audit[i];
    ring->rows = tp__alloc(&registry->allocator, TP__AUDIT_ROWS * sizeof *ring->rows);
    if (!ring->rows) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the registry");
  }
  tp_status status = tp__snapshot_new(registry, 0, &registry->current);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "no memory for the registry");
  tp__set_begin(tp__snapshot_set(registry->current));
  registry->current->hash = tp__snapshot_hash(registry->current);
  return TP_OK;
}

static tp_status locks_init(tp__registry *registry) {
  TP__TRY(tp__mutex_init(&registry->lock, TP__RANK_registry));
  tp_status status = tp__mutex_init(&registry->names_lock, TP__RANK_names);
  if (status != TP_OK) tp__mutex_fini(&registry->lock);
  return status;
}

static void registry_release(tp__registry *registry) {
  tp_allocator allocator = registry->allocator;
  for (int i = 0; i < TP__AUDIT_CLASSES; i++)
    tp__release(&allocator, registry->audit[i].rows, TP__AUDIT_ROWS * sizeof *registry->audit[i].rows);
  tp__arena_fini(&registry->arena);
  tp__index_fini(&registry->interned);
  tp__index_fini(&registry->named);
  tp__run_names_fini(&registry->run_names, &allocator);
  tp__arena_fini(&registry->interned_arena);
  tp__mutex_fini(&registry->names_lock);
  tp__mutex_fini(&registry->lock);
  tp__release(&allocator, registry, sizeof *registry);
}

tp_status tp__registry_new(const tp_allocator *allocator, const tp_phase *rows, size_t row_count,
                           const tp__alias *aliases, size_t alias_count, const tp_phase *const *host_rows,
                           size_t host_row_count, const tp__contribution_ops *ops, tp__registry **ret_registry,
                           tp_fault *fault) {
  tp_allocator ours = tp__allocator_of(allocator);
  tp__registry *registry = tp__alloc_zero(&ours, sizeof *registry);
  if (!registry) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the registry");
  registry->allocator = ours;
  registry->aliases = aliases;
  registry->alias_count = alias_count;
  registry->ops = ops;
  tp_status status = locks_init(registry);
  if (status != TP_OK) {
    tp__release(&ours, registry, sizeof *registry);
    return tp__fail(fault, status, NULL, "no lock for the registry");
  }
  tp__arena_init(&registry->arena, &registry->allocator, NULL, 0, 0);
  tp__arena_init(&registry->interned_arena, &registry->allocator, NULL, 0, 0);
  tp__index_init(&registry->interned, &registry->allocator);
  tp__index_init(&registry->named, &registry->allocator);
  built_in_rows_add(registry, rows, row_count);
  status = registry_fill(registry, host_rows, host_row_count, fault);
  if (status != TP_OK) {
    registry_release(registry);
    return status;
  }
  *ret_registry = registry;
  return TP_OK;
}

void tp__registry_belongs_to(tp__registry *registry, const void *runtime) { registry->inside_of = runtime; }

void tp__registry_retire(tp__registry *registry) {
  if (!registry->current) return;
  assert(tp__a64_load_acquire(&registry->current->refs) == TP__SNAPSHOT_BIAS);
  tp__snapshot_retire(registry->current);
  registry->current = NULL;
}

void tp__registry_free(tp__registry *registry) {
  if (!registry) return;
  tp__registry_retire(registry);
  registry_release(registry);
}

/* ---- the newest snapshot ---- */

#ifdef TP_CHECKS
static void registry_check_locked(const tp__registry *registry) {
  uint64_t rows = 0;
  TP__LOCKED(&registry->lock);
  /* There always is a newest snapshot, and it belongs to the registry. */
  assert(registry->current && registry->current->registry == registry);
  /* The maker's pin outweighs all others, even when pins that other caches counted are subtracted. */
  assert(tp__a64_load_relaxed(&registry->current->refs) > TP__SNAPSHOT_BIAS / 2);
  /* Each audit row has a number, and is in a ring. */
  for (int i = 0; i < TP__AUDIT_CLASSES; i++) rows += registry->audit[i].count;
  assert(rows == registry->audit_number);
}
#endif

tp__snapshot *tp__registry_pin(tp__registry *registry) {
  tp__mutex_lock(&registry->lock);
  tp__snapshot *snapshot = registry->current;
  tp__snapshot_hold(snapshot);
  TP__CHECK(registry_check_locked(registry));
  tp__mutex_unlock(&registry->lock);
  return snapshot;
}

/* Under the lock, so that a thread that counts pins sees one newest snapshot after the other. */
static void replace_locked(tp__registry *registry, tp__snapshot *snapshot) {
  TP__LOCKED(&registry->lock);
  if (registry->on_publish) registry->on_publish(registry->on_publish_ctx, snapshot);
  registry->current = snapshot;
}

bool tp__registry_publish(tp__registry *registry, const tp__snapshot *base, tp__snapshot *snapshot,
                          const tp__audit_row *row) {
  tp__mutex_lock(&registry->lock);
  tp__snapshot *old = registry->current;
  bool newest = old == base;
  if (newest) {
    TP__ASSERT(snapshot->version == old->version + 1); /* versions have no gap */
    replace_locked(registry, snapshot);
    tp__audit_add_locked(registry, row);
    TP__CHECK(registry_check_locked(registry));
  }
  tp__mutex_unlock(&registry->lock);
  if (newest) tp__snapshot_retire(old);
  if (newest && registry->on_audit) registry->on_audit(registry->on_audit_ctx);
  return newest;
}

void tp__registry_on_publish(tp__registry *registry, void (*renew)(void *ctx, tp__snapshot *newest), void *ctx) {
  tp__mutex_lock(&registry->lock);
  registry->on_publish = renew;
  registry->on_publish_ctx = ctx;
  renew(ctx, registry->current);
  tp__mutex_unlock(&registry->lock);
}

void tp__registry_on_commit(tp__registry *registry, void (*call)(void *ctx), void *ctx) {
  registry->on_commit = call;
  registry->on_commit_ctx = ctx;
}

void tp__registry_redact(tp__registry *registry, const tp__redactor *redactor) { registry->redactor = *redactor; }

void tp__registry_hook_defaults(tp__registry *registry, uint32_t limit_ms, tp_failure failure) {
  registry->hook_limit_ms = limit_ms;
  registry->hook_failure = failure;
}

/* ---- what can be asked of it ---- */

static void put_switch(const tp__registry *registry, tp__audit_row *row, const tp__subscription *sub,
                       tp__operator_switch which, bool on, uint64_t hash) {
  char detail[TP__AUDIT_DETAIL_SIZE];
  if (which == TP__SWITCH_KILL)
    snprintf(detail, sizeof detail, "subscription `%s` switched %s", sub->desc.id, on ? "off" : "on again");
  else
    snprintf(detail, sizeof detail, "breaker of subscription `%s` %s", sub->desc.id, on ? "tripped" : "closed again");
  tp__audit_fill(registry, row, "operator", which == TP__SWITCH_KILL ? "kill_switch" : "trip", tp_text_of(detail),
                 TP_OK, hash);
}

tp_status tp__registry_switch(tp__registry *registry, const char *subscription, tp__operator_switch which, bool on,
                              bool *ret_was, tp_fault *fault) {
  if (!subscription)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the %s needs the id of a subscription",
                    which == TP__SWITCH_KILL ? "kill switch" : "trip of a breaker");
  tp__snapshot *snapshot = tp__registry_pin(registry);
  const tp__set_item *item = tp__set_find(tp__snapshot_set(snapshot), subscription);
  if (item) {
    tp__audit_row row;
    put_switch(registry, &row, item->sub, which, on, snapshot->hash);
    *ret_was = tp__a32_exchange_acq_rel(which == TP__SWITCH_KILL ? &item->sub->killed : &item->sub->tripped, on) != 0;
    if (which == TP__SWITCH_TRIP && !on) tp__circuit_reset(&item->sub->circuit);
    tp__audit_add(registry, &row);
  }
  tp__snapshot_unpin(snapshot);
  if (item) return TP_OK;
  return tp__fail(fault, TP_ERR_NOT_FOUND, subscription, "subscription `%s` is not registered", subscription);
}

static const tp__node *job_node(const tp__plan *plan, tp_text handler_id, uint32_t contract_version) {
  const tp__node *found = NULL;
  for (uint32_t i = 0; i < plan->node_count; i++) {
    const tp__node *node = &plan->nodes[i];
    if (contract_version && node->handler->desc.contract_version != contract_version) continue;
    if (!tp_text_is(handler_id, node->handler->desc.id)) continue;
    if (node->flags & TP__NODE_BACKGROUND) return node;
    if (!found) found = node;
  }
  return found;
}

tp__snapshot *tp__registry_find_handler(tp__registry *registry, tp_text handler_id, uint32_t contract_version,
                                        uint32_t phase, const tp__node **ret_node, const tp__plan **ret_plan) {
  tp__snapshot *snapshot = tp__registry_pin(registry);
  const tp__node *found = NULL;
  for (uint32_t at = 1; at < TP_PHASE_LIMIT; at++) {
    const tp__plan *plan = phase == TP_PHASE_NONE || phase == at ? snapshot->plans[at] : NULL;
    const tp__node *node = plan ? job_node(plan, handler_id, contract_version) : NULL;
    bool better = node && (!found || (!(found->flags & TP__NODE_BACKGROUND) && (node->flags & TP__NODE_BACKGROUND)));
    if (!better) continue;
    found = node;
    *ret_node = node;
    *ret_plan = plan;
  }
  if (found) return snapshot;
  tp__snapshot_unpin(snapshot);
  return NULL;
}

/* ---- one hook, one commit ---- */

static bool hook_is_awaited(const tp_hook *hook) {
  return !(tp__execution_policy(hook->execution)->flags & TP__NODE_DETACHED);
}

/* A hook that sets no failure policy gets the runtime's. But a hook that observes or is detached never becomes
 * required. */
static tp_failure hook_failure(const tp__registry *registry, const tp_hook *hook, const tp_phase *row) {
  if (hook->failure != TP_FAILURE_DEFAULT || row->mode == TP_MODE_OBSERVE || !hook_is_awaited(hook))
    return hook->failure;
  return registry->hook_failure;
}

/* In the line of the sequential subscriptions a priority would have no effect, and an edge to an earlier subscription
 * would close a cycle. */
static tp_sequential hook_sequential(const tp_hook *hook) {
  bool says_its_place = hook->priority != 0 || hook->after_count + hook->before_count + hook->needs_count > 0;
  if (hook->sequential != TP_SEQUENTIAL_DEFAULT) return hook->sequential;
  return says_its_place ? TP_SEQUENTIAL_OFF : TP_SEQUENTIAL_ON;
}

static tp_status hook_fill(tp_edit *edit, uint32_t phase, const tp_hook *hook, const char *id, tp_fault *fault) {
  const tp__registry *registry = edit->registry;
  const tp_phase *row = registry->phases[phase];
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = id,
                        .summary = hook->summary,
                        .run = hook->run,
                        .inbox = hook->inbox,
                        .placement = hook->placement,
                        .ctx = hook->ctx,
                        .destroy = hook->destroy,
                        .phases = &phase,
                        .phase_count = 1,
                        .capabilities = hook->capabilities,
                        .idempotent = hook->attempts > 1,
                        .origin_file = hook->origin_file,
                        .origin_line = hook->origin_line,
                        .kind = hook->kind};
  tp_subscription subscription = {
      .struct_size = sizeof subscription,
      .id = id,
      .handler = id,
      .phase_name = hook->phase,
      .priority = hook->priority,
      .execution = hook->execution,
      .limit_ms = hook->limit_ms || !hook_is_awaited(hook) ? hook->limit_ms : registry->hook_limit_ms,
      .failure = hook_failure(registry, hook, row),
      .fallback_verdict = hook->fallback_verdict,
      .fallback = hook->fallback,
      .fallback_count = hook->fallback_count,
      .attempts = hook->attempts,
      .backoff = hook->backoff,
      .backoff_ms = hook->backoff_ms,
      .max_concurrent = hook->max_concurrent,
      .sequential = hook_sequential(hook),
      .visibility = hook->visibility,
      .after = hook->after,
      .before = hook->before,
      .needs = hook->needs,
      .after_count = hook->after_count,
      .before_count = hook->before_count,
      .needs_count = hook->needs_count,
      .match = hook->match,
      .metadata = hook->metadata,
      .backlog = hook->backlog,
      .reserved_ = {hook->reserved_ != 0}};
  TP__TRY(tp_edit_add_handler(edit, &handler, fault));
  return tp_edit_add_subscription(edit, &subscription, fault);
}

/* A refused hook stays the caller's, so the edit must not destroy it. */
static void hook_give_back(tp_edit *edit, const char *id) {
  tp__change *change = tp__changes_find(&edit->handlers, id);
  if (change && change->handler) change->handler->desc.destroy = NULL;
  change = tp__changes_find(&edit->subscriptions, id);
  if (!change || !change->sub) return;
  change->sub->match.destroy = NULL;
  tp__closures_cancel(&change->sub->closures);
}

static tp_status hook_try(tp__registry *registry, uint32_t phase, const tp_hook *hook, tp_fault *fault) {
  char generated[32];
  const char *id = hook->id;
  if (!id) {
    snprintf(generated, sizeof generated, "hook-%llu",
             (unsigned long long)tp__a64_add_relaxed(&registry->hooks, 1) + 1);
    id = generated;
  }
  const tp_owner owner = {.struct_size = sizeof owner, .name = "host", .trust = TP_TRUST_HOST, .grants = hook->grants};
  tp_edit *edit;
  TP__TRY(tp__edit_new(registry, &owner, &edit, fault));
  tp_status status = hook_fill(edit, phase, hook, id, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) {
    hook_give_back(edit, id);
    tp_edit_discard(edit);
  }
  return status;
}

tp_status tp__hook_add(tp__registry *registry, const tp_hook *theirs, tp_fault *fault) {
  tp_hook hook;
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_hook_add needs a hook");
  TP__TRY(tp__options_read(&hook, sizeof hook, theirs, "tp_hook", fault));
  uint32_t phase = tp__registry_phase_find(registry, hook.phase);
  if (phase == TP_PHASE_NONE) {
    return tp__fail(fault, TP_ERR_UNKNOWN_PHASE, hook.phase, "no phase or alias is called `%s` (tp_hook.phase)",
                    hook.phase ? hook.phase : "");
  }
  if (!hook.run && !hook.inbox)
    return tp__fail(fault, TP_ERR_USAGE, hook.id, "a hook of %s needs a function (run), or an inbox", hook.phase);
  for (;;) {
    tp_status status = hook_try(registry, phase, &hook, fault);
    /* Another thread's commit came in between, or the generated id is in use. A new try solves both. */
    if (status != TP_ERR_CONFLICT && !(status == TP_ERR_DUPLICATE_ID && !hook.id)) return status;
  }
}

static tp_status hook_try_remove(tp__registry *registry, const char *id, tp_fault *fault) {
  tp_edit *edit;
  TP__TRY(tp__edit_new(registry, NULL, &edit, fault));
  tp_status status = tp_edit_remove_subscription(edit, id, fault);
  if (status == TP_OK) status = tp_edit_remove_handler(edit, id, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

tp_status tp__hook_remove(tp__registry *registry, const char *id, tp_fault *fault) {
  tp_status status;
  do status = hook_try_remove(registry, id, fault);
  while (status == TP_ERR_CONFLICT);
  return status;
}
