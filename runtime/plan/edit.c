/* SPDX-License-Identifier: Apache-2.0
 *
 * edit.c: collects requested changes. An edit holds the requested change of each id; no other code reads it until
 * commit.c applies it. A removal cancels an addition of the same edit, if there is one; else it removes the registered
 * object. So an addition that a commit refused can be corrected. */
#include <stdio.h>

#include "runtime/plan/registry.h"

/* ---- changes ---- */

static void changes_fini(tp__changes *changes, const tp_allocator *allocator) {
  tp__index_fini(&changes->index);
  for (size_t i = 0; i < changes->count; i++) {
    tp__subscription_unref(changes->items[i].sub);
    tp__handler_unref(changes->items[i].handler);
  }
  tp__release(allocator, changes->items, changes->capacity * sizeof *changes->items);
}

tp__change *tp__changes_find(const tp__changes *changes, const char *id) {
  size_t at;
  return tp__index_get(&changes->index, id, &at) ? &changes->items[at] : NULL;
}

/* Reserves memory for one more change and its id, so that the following steps cannot fail. */
static tp_status changes_reserve(tp_edit *edit, tp__changes *changes, const char *id, const char **ret_id) {
  void *items = changes->items;
  TP__TRY(tp__index_reserve(&changes->index, changes->index.id_count + 1));
  tp_status status = tp__array_grow(&edit->registry->allocator, &items, &changes->capacity, changes->count + 1,
                                    sizeof *changes->items);
  changes->items = items;
  if (status != TP_OK) return status;
  return tp__arena_string(&edit->arena, id, ret_id) ? TP_OK : TP_ERR_NO_MEMORY;
}

/* Appends the newest change of an id at the end. An earlier request for the same id is dropped. */
static tp__change *changes_append(tp__changes *changes, const char *id) {
  tp__change *before = tp__changes_find(changes, id);
  tp__change change = {.id = id};
  if (before) {
    change.removed = before->removed;
    change.requested = before->requested;
    change.requested_at = before->requested_at;
    before->removed = false;
    before->requested = TP__REQUESTED_NONE;
  }
  tp__change *added = &changes->items[changes->count];
  *added = change;
  tp__index_put(&changes->index, id, changes->count++);
  return added;
}

static tp_status no_edit_memory(const char *id, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_NO_MEMORY, id, "no memory for the edit");
}

static tp_status no_edit(const char *function, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_USAGE, NULL, "%s needs an edit: make one with tp_edit_begin()", function);
}

/* @param call  the public function, for the fault. */
static tp_status changes_get(tp_edit *edit, tp__changes *changes, const char *id, const char *call,
                             tp__change **ret_change, tp_fault *fault) {
  TP__TRY(tp__id_check(id, call, fault));
  tp__change *change = tp__changes_find(changes, id);
  if (!change) {
    const char *copy;
    if (changes_reserve(edit, changes, id, &copy) != TP_OK) return no_edit_memory(id, fault);
    change = changes_append(changes, copy);
  }
  *ret_change = change;
  return TP_OK;
}

/* ---- descriptors ---- */

static const char *id_flaw(const char *id) {
  if (!id) return "is not set";
  if (!*id) return "is empty";
  if (strnlen(id, TP_ID_BYTES_MAX + 1) > TP_ID_BYTES_MAX) return "is longer than 128 bytes";
  return "holds white space, a control byte or bytes that are not UTF-8";
}

tp_status tp__id_check(const char *id, const char *field, tp_fault *fault) {
  if (tp__id_valid(id)) return TP_OK;
  return tp__fail(fault, TP_ERR_BAD_ID, id, "%s %s: an id is 1 to 128 bytes of UTF-8 without white space", field,
                  id_flaw(id));
}

/* ---- life ---- */

static tp_status grants_check(const tp_owner *owner, tp_fault *fault) {
  const tp_grant known = TP_GRANT_PRIVILEGED_HOOKS | TP_GRANT_REWRITE;
  if (owner->grants & ~known)
    return tp__fail(fault, TP_ERR_USAGE, owner->name,
                    "owner `%s`: grants 0x%llx holds a bit that is none of TP_GRANT_*", owner->name,
                    (unsigned long long)owner->grants);
  return TP_OK;
}

static tp_status owner_read(const tp_owner *theirs, tp_edit *edit, tp_fault *fault) {
  tp_owner owner = {.struct_size = sizeof owner, .name = "host", .trust = TP_TRUST_HOST};
  if (theirs) TP__TRY(tp__options_read(&owner, sizeof owner, theirs, "tp_owner", fault));
  TP__TRY(tp__id_check(owner.name, "tp_owner.name", fault));
  if (owner.trust == TP_TRUST_NONE)
    return tp__fail(fault, TP_ERR_USAGE, owner.name,
                    "owner `%s`: trust is not set: say how far it is trusted (TP_TRUST_HOST, _BUILTIN or _DECLARED)",
                    owner.name);
  if ((unsigned)owner.trust > TP_TRUST_DECLARED)
    return tp__fail(fault, TP_ERR_USAGE, owner.name, "owner `%s`: trust %d is none of TP_TRUST_*", owner.name,
                    (int)owner.trust);
  TP__TRY(grants_check(&owner, fault));
  snprintf(edit->owner_name, sizeof edit->owner_name, "%s", owner.name);
  edit->owner = owner;
  edit->owner.name = edit->owner_name;
  return TP_OK;
}

tp_status tp__edit_new(tp__registry *registry, const tp_owner *owner, tp_edit **ret_edit, tp_fault *fault) {
  const tp_allocator *allocator = &registry->allocator;
  tp_edit *edit = tp__alloc_zero(allocator, sizeof *edit);
  if (!edit) return no_edit_memory(NULL, fault);
  tp_status status = owner_read(owner, edit, fault);
  if (status != TP_OK) {
    tp__release(allocator, edit, sizeof *edit);
    return status;
  }
  edit->registry = registry;
  tp__arena_init(&edit->arena, allocator, NULL, 0, 0);
  tp__index_init(&edit->handlers.index, allocator);
  tp__index_init(&edit->subscriptions.index, allocator);
  tp__snapshot *newest = tp__registry_pin(registry);
  edit->base_version = newest->version;
  tp__snapshot_unpin(newest);
  *ret_edit = edit;
  return TP_OK;
}

void tp_edit_discard(tp_edit *edit) {
  if (!edit) return;
  const tp_allocator *allocator = &edit->registry->allocator;
  changes_fini(&edit->subscriptions, allocator);
  changes_fini(&edit->handlers, allocator);
  tp__release(allocator, edit->limits, edit->limit_capacity * sizeof *edit->limits);
  tp__release(allocator, edit->groups, edit->group_capacity * sizeof *edit->groups);
  tp__arena_fini(&edit->arena);
  tp__release(allocator, edit, sizeof *edit);
}

/* ---- requested changes ---- */

static tp_status added_twice(const char *what, const char *id, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_DUPLICATE_ID, id,
                  "%s `%s` was added to this edit before: choose another id, or remove that one first", what, id);
}

tp_status tp_edit_add_handler(tp_edit *edit, const tp_handler *handler, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_add_handler", fault);
  if (!handler) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_edit_add_handler needs a handler");
  tp_handler desc;
  const char *id;
  tp__handler *copy;
  TP__TRY(tp__options_read(&desc, sizeof desc, handler, "tp_handler", fault));
  TP__TRY(tp__handler_check(edit->registry, &desc, &edit->owner, fault));
  const tp__change *before = tp__changes_find(&edit->handlers, desc.id);
  if (before && before->handler) return added_twice("handler", desc.id, fault);
  if (changes_reserve(edit, &edit->handlers, desc.id, &id) != TP_OK) return no_edit_memory(desc.id, fault);
  if (tp__handler_new(&edit->registry->allocator, edit->registry->inside_of, &desc, &edit->owner, &copy) != TP_OK)
    return no_edit_memory(id, fault);
  changes_append(&edit->handlers, id)->handler = copy;
  return TP_OK;
}

tp_status tp_edit_add_subscription(tp_edit *edit, const tp_subscription *subscription, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_add_subscription", fault);
  if (!subscription) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_edit_add_subscription needs a subscription");
  tp_subscription desc;
  uint32_t alias_flags;
  const char *id;
  tp__subscription *copy;
  TP__TRY(tp__options_read(&desc, sizeof desc, subscription, "tp_subscription", fault));
  TP__TRY(tp__subscription_check(edit->registry, &desc, &alias_flags, fault));
  const tp__change *before = tp__changes_find(&edit->subscriptions, desc.id);
  if (before && before->sub) return added_twice("subscription", desc.id, fault);
  if (changes_reserve(edit, &edit->subscriptions, desc.id, &id) != TP_OK) return no_edit_memory(desc.id, fault);
  TP__TRY(tp__subscription_new(edit->registry, &desc, &edit->owner, alias_flags, &copy, fault));
  tp__change *change = changes_append(&edit->subscriptions, id);
  change->sub = copy;
  change->added_at = ++edit->calls;
  return TP_OK;
}

tp_status tp_edit_remove_handler(tp_edit *edit, const char *id, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_remove_handler", fault);
  tp__change *change = NULL;
  TP__TRY(changes_get(edit, &edit->handlers, id, "tp_edit_remove_handler: the id", &change, fault));
  tp__handler *added = change->handler;
  change->handler = NULL;
  if (!added) change->removed = true;
  tp__handler_unref(added);
  return TP_OK;
}

tp_status tp_edit_remove_subscription(tp_edit *edit, const char *id, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_remove_subscription", fault);
  tp__change *change = NULL;
  TP__TRY(changes_get(edit, &edit->subscriptions, id, "tp_edit_remove_subscription: the id", &change, fault));
  tp__subscription *added = change->sub;
  change->sub = NULL;
  change->requested = TP__REQUESTED_NONE;
  if (!added) change->removed = true;
  tp__subscription_unref(added);
  return TP_OK;
}

static tp__requested requested_of(bool enabled) { return enabled ? TP__REQUESTED_ENABLE : TP__REQUESTED_DISABLE; }

tp_status tp_edit_enable(tp_edit *edit, const char *subscription, bool enabled, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_enable", fault);
  tp__change *change = NULL;
  TP__TRY(changes_get(edit, &edit->subscriptions, subscription, "tp_edit_enable: the id", &change, fault));
  change->requested = requested_of(enabled);
  change->requested_at = ++edit->calls;
  return TP_OK;
}

static tp_status group_add(tp_edit *edit, tp__group_request group, tp_fault *fault) {
  void *groups = edit->groups;
  tp_status status =
      tp__array_grow(&edit->registry->allocator, &groups, &edit->group_capacity, edit->group_count + 1, sizeof group);
  edit->groups = groups;
  if (status != TP_OK || !tp__arena_string(&edit->arena, group.owner, &group.owner)) return no_edit_memory(NULL, fault);
  group.at = ++edit->calls;
  edit->groups[edit->group_count++] = group;
  return TP_OK;
}

tp_status tp_edit_enable_owner(tp_edit *edit, const char *owner, bool enabled, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_enable_owner", fault);
  TP__TRY(tp__id_check(owner, "tp_edit_enable_owner: the owner's name", fault));
  return group_add(edit, (tp__group_request){.owner = owner, .requested = requested_of(enabled)}, fault);
}

tp_status tp_edit_enable_trust(tp_edit *edit, tp_trust trust, bool enabled, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_enable_trust", fault);
  if (trust == TP_TRUST_NONE || (unsigned)trust > TP_TRUST_DECLARED)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_edit_enable_trust: trust %d is none of TP_TRUST_*", (int)trust);
  return group_add(edit, (tp__group_request){.trust = trust, .requested = requested_of(enabled)}, fault);
}

bool tp__group_has(const tp__group_request *group, const tp__subscription *sub) {
  return group->owner ? strcmp(group->owner, sub->owner) == 0 : group->trust == sub->trust;
}

tp__requested tp__edit_requested(const tp_edit *edit, const tp__change *change, uint64_t since,
                                 const tp__subscription *sub) {
  tp__requested requested = change ? change->requested : TP__REQUESTED_NONE;
  uint64_t at = requested == TP__REQUESTED_NONE ? 0 : change->requested_at;
  for (size_t i = 0; i < edit->group_count; i++) {
    const tp__group_request *group = &edit->groups[i];
    if (group->at > at && group->at > since && tp__group_has(group, sub)) requested = group->requested;
  }
  return requested;
}

tp_status tp_edit_set_limit(tp_edit *edit, uint32_t phase, uint32_t limit_ms, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_set_limit", fault);
  if (!tp__registry_phase(edit->registry, phase))
    return tp__fail(fault, TP_ERR_UNKNOWN_PHASE, NULL, "tp_edit_set_limit: there is no phase %u", phase);
  if (edit->owner.trust == TP_TRUST_DECLARED)
    return tp__fail(fault, TP_ERR_USAGE, edit->owner_name,
                    "tp_edit_set_limit: owner `%s` has trust declared, and the limit of a phase is the host's to set",
                    edit->owner_name);
  void *limits = edit->limits;
  tp_status status = tp__array_grow(&edit->registry->allocator, &limits, &edit->limit_capacity, edit->limit_count + 1,
                                    sizeof *edit->limits);
  edit->limits = limits;
  if (status != TP_OK) return no_edit_memory(NULL, fault);
  edit->limits[edit->limit_count++] = (tp__limit_request){.phase = phase, .limit_ms = limit_ms};
  return TP_OK;
}

tp_status tp_edit_set_budget(tp_edit *edit, uint32_t phase, uint32_t budget_ms, tp_fault *fault) {
  if (!edit) return no_edit("tp_edit_set_budget", fault);
  if (!tp__registry_phase(edit->registry, phase))
    return tp__fail(fault, TP_ERR_UNKNOWN_PHASE, NULL, "tp_edit_set_budget: there is no phase %u", phase);
  edit->budget_set[phase] = true;
  edit->budgets_ms[phase] = budget_ms;
  return TP_OK;
}
