/* SPDX-License-Identifier: Apache-2.0
 *
 * commit.c: applies all changes that an edit requests, or none of them. The new set begins as the old one, shared. The
 * changes are applied to it, and each phase that they touch gets a member list of its own. These lists are compiled.
 * Then the new snapshot takes the old one's place. Until that one pointer is swapped, nothing has changed that a turn
 * can see, so there is nothing to undo.
 *
 * A phase that no change touches keeps its members and its plan with the same hash, because compiling it again would
 * give the same plan: a plan is made of its members, their handlers, and the phase's budget, limit and row. Two changes
 * reach across phases: a replaced handler, and a new id that an optional edge of another phase had named without
 * finding it. Both touch the phases that name them. */
#include <stdio.h>

#include "runtime/plan/registry.h"

/* What a commit did, for the audit row. */
typedef struct tally {
  size_t handlers_added, handlers_removed, added, removed, enabled, disabled, budgets, limits;
} tally;

typedef struct work {
  const tp_edit *edit;
  const tp__set *base;
  tp__set *set;
  tally done;
  uint32_t coming[TP_PHASE_LIMIT]; /* how many subscriptions the edit adds to each phase */
  bool gaps[TP_PHASE_LIMIT];       /* some were removed from its members */
  tp_fault *fault;
} work;

/* ---- applying ---- */

static tp_status touch(work *w, uint32_t phase) { return tp__set_touch(w->set, w->base, phase, w->coming[phase]); }

static tp_status check_owner(const work *w, const char *what, const char *id, const char *owner) {
  const tp_edit *edit = w->edit;
  if (edit->owner.trust == TP_TRUST_BUILTIN || strcmp(owner, edit->owner_name) == 0) return TP_OK;
  return tp__fail(w->fault, TP_ERR_USAGE, id, "%s `%s` belongs to owner `%s`: `%s` may not change it", what, id, owner,
                  edit->owner_name);
}

static bool names_handler(const tp__members *members, const char *id) {
  for (size_t i = 0; members && i < members->item_count; i++) {
    if (strcmp(members->items[i].sub->desc.handler, id) == 0) return true;
  }
  return false;
}

/* A subscription that names a removed handler must find another handler with that id; otherwise the commit is
 * refused. */
static tp_status touch_users(work *w, const tp__handler *handler) {
  for (size_t i = 0; i < handler->desc.phase_count; i++) {
    uint32_t phase = handler->desc.phases[i];
    if (names_handler(w->base->members_of_phase[phase], handler->desc.id)) TP__TRY(touch(w, phase));
  }
  return TP_OK;
}

static tp_status add_handlers(work *w) {
  for (size_t i = 0; i < w->edit->handlers.count; i++) {
    const tp__change *change = &w->edit->handlers.items[i];
    const tp__handler *there = tp__set_handler(w->base, change->id);
    if (change->removed && !there) {
      return tp__fail(w->fault, TP_ERR_NOT_FOUND, change->id, "handler `%s` is not registered, so it cannot be removed",
                      change->id);
    }
    if (!change->handler) continue;
    if (there && !change->removed) {
      return tp__fail(w->fault, TP_ERR_DUPLICATE_ID, change->id,
                      "handler `%s` is registered already, by owner `%s`: choose another id, or remove that one first",
                      change->id, there->owner);
    }
    TP__TRY(tp__map_add(&w->set->handlers, change->handler->desc.id, change->handler));
    w->done.handlers_added++;
  }
  return TP_OK;
}

static tp_status remove_item(work *w, const tp__subscription *sub) {
  uint32_t phase = sub->desc.phase;
  TP__TRY(touch(w, phase));
  w->set->members_of_phase[phase]->items[tp__members_find(w->base->members_of_phase[phase], sub)].sub = NULL;
  w->gaps[phase] = true;
  w->done.removed++;
  return tp__map_remove(&w->set->subscriptions, sub->desc.id);
}

static void count_requested(work *w, bool disabled, bool becomes) {
  if (becomes != disabled) *(becomes ? &w->done.disabled : &w->done.enabled) += 1;
}

static tp_status request_item(work *w, const tp__subscription *sub, tp__requested requested) {
  uint32_t phase = sub->desc.phase;
  size_t at = tp__members_find(w->base->members_of_phase[phase], sub);
  bool disabled = w->base->members_of_phase[phase]->items[at].disabled, becomes = requested == TP__REQUESTED_DISABLE;
  if (becomes == disabled) return TP_OK;
  TP__TRY(touch(w, phase));
  w->set->members_of_phase[phase]->items[at].disabled = becomes;
  count_requested(w, disabled, becomes);
  return TP_OK;
}

static tp_status change_items(work *w) {
  for (size_t i = 0; i < w->edit->subscriptions.count; i++) {
    const tp__change *change = &w->edit->subscriptions.items[i];
    bool is_requested = !change->sub && change->requested != TP__REQUESTED_NONE;
    const tp__subscription *sub = change->removed || is_requested ? tp__set_subscription(w->base, change->id) : NULL;
    if (!sub) continue;
    TP__TRY(check_owner(w, "subscription", sub->desc.id, sub->owner));
    TP__TRY(change->removed ? remove_item(w, sub) : request_item(w, sub, tp__edit_requested(w->edit, change, 0, sub)));
  }
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    if (w->gaps[phase]) tp__members_close_gaps(w->set->members_of_phase[phase]);
  }
  return TP_OK;
}

/* A subscription that the edit removes or changes by its own id is skipped here, because that request was handled
 * already. */
static tp_status request_group_item(work *w, const tp__subscription *sub) {
  tp__requested requested = tp__edit_requested(w->edit, NULL, 0, sub);
  if (requested == TP__REQUESTED_NONE) return TP_OK;
  const tp__change *change = tp__changes_find(&w->edit->subscriptions, sub->desc.id);
  if (change && (change->removed || (change->requested != TP__REQUESTED_NONE && !change->sub))) return TP_OK;
  TP__TRY(check_owner(w, "subscription", sub->desc.id, sub->owner));
  return request_item(w, sub, requested);
}

static bool added_has(const tp_edit *edit, const tp__group_request *group) {
  for (size_t i = 0; i < edit->subscriptions.count; i++) {
    const tp__change *change = &edit->subscriptions.items[i];
    if (change->sub && change->added_at < group->at && tp__group_has(group, change->sub)) return true;
  }
  return false;
}

static bool registered_has(const work *w, const tp__group_request *group) {
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    const tp__members *members = w->base->members_of_phase[phase];
    for (size_t i = 0; members && i < members->item_count; i++) {
      const tp__subscription *sub = members->items[i].sub;
      const tp__change *change =
          tp__group_has(group, sub) ? tp__changes_find(&w->edit->subscriptions, sub->desc.id) : NULL;
      if (tp__group_has(group, sub) && !(change && change->removed)) return true;
    }
  }
  return false;
}

static tp_status check_groups(const work *w) {
  for (size_t i = 0; i < w->edit->group_count; i++) {
    const tp__group_request *group = &w->edit->groups[i];
    if (added_has(w->edit, group) || registered_has(w, group)) continue;
    if (group->owner)
      return tp__fail(w->fault, TP_ERR_NOT_FOUND, group->owner,
                      "owner `%s` has no subscription that could be enabled or disabled", group->owner);
    return tp__fail(w->fault, TP_ERR_NOT_FOUND, NULL,
                    "no owner of trust %s has a subscription that could be enabled or disabled",
                    tp_trust_name(group->trust));
  }
  return TP_OK;
}

static tp_status add_items(work *w) {
  for (size_t i = 0; i < w->edit->subscriptions.count; i++) {
    const tp__change *change = &w->edit->subscriptions.items[i];
    const tp__subscription *there = tp__set_subscription(w->base, change->id);
    bool speaks_of_it = change->removed || (change->requested != TP__REQUESTED_NONE && !change->sub);
    if ((speaks_of_it && !there) || (change->removed && change->requested != TP__REQUESTED_NONE && !change->sub)) {
      return tp__fail(w->fault, TP_ERR_NOT_FOUND, change->id,
                      "subscription `%s` is not registered, so it cannot be removed, enabled or disabled", change->id);
    }
    if (!change->sub) continue;
    if (there && !change->removed) {
      return tp__fail(
          w->fault, TP_ERR_DUPLICATE_ID, change->id,
          "subscription `%s` is registered already, by owner `%s`: choose another id, or remove that one first",
          change->id, there->owner);
    }
    tp__subscription *sub = change->sub;
    bool disabled = sub->desc.disabled;
    tp__requested requested = tp__edit_requested(w->edit, change, change->added_at, sub);
    bool becomes = requested == TP__REQUESTED_NONE ? disabled : requested == TP__REQUESTED_DISABLE;
    TP__TRY(touch(w, sub->desc.phase));
    TP__TRY(tp__map_add(&w->set->subscriptions, sub->desc.id, sub));
    sub->registration = w->set->next_registration++;
    tp__members_append(w->set->members_of_phase[sub->desc.phase], sub, becomes);
    count_requested(w, disabled, becomes);
    w->done.added++;
  }
  return TP_OK;
}

static tp_status apply_changes(work *w) {
  TP__TRY(tp__set_share(w->set, w->base, w->edit->handlers.count, w->edit->subscriptions.count));
  for (size_t i = 0; i < w->edit->subscriptions.count; i++) {
    const tp__subscription *sub = w->edit->subscriptions.items[i].sub;
    if (sub) w->coming[sub->desc.phase]++;
  }
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    if (!w->edit->budget_set[phase]) continue;
    w->done.budgets++;
    w->set->budgets_ms[phase] = w->edit->budgets_ms[phase];
    if (w->base->members_of_phase[phase] && w->set->budgets_ms[phase] != w->base->budgets_ms[phase])
      TP__TRY(touch(w, phase));
  }
  for (size_t i = 0; i < w->edit->limit_count; i++) {
    uint32_t phase = w->edit->limits[i].phase;
    w->set->limits_ms[phase] = w->edit->limits[i].limit_ms;
    if (w->base->members_of_phase[phase] && w->set->limits_ms[phase] != w->base->limits_ms[phase])
      TP__TRY(touch(w, phase));
  }
  w->done.limits = w->edit->limit_count;
  for (size_t i = 0; i < w->edit->handlers.count; i++) {
    const tp__change *change = &w->edit->handlers.items[i];
    const tp__handler *there = change->removed ? tp__set_handler(w->base, change->id) : NULL;
    if (!there) continue;
    TP__TRY(check_owner(w, "handler", there->desc.id, there->owner));
    TP__TRY(touch_users(w, there));
    TP__TRY(tp__map_remove(&w->set->handlers, there->desc.id));
    w->done.handlers_removed++;
  }
  TP__TRY(add_handlers(w));
  TP__TRY(check_groups(w));
  for (uint32_t phase = 0; w->edit->group_count > 0 && phase < TP_PHASE_LIMIT; phase++) {
    const tp__members *members = w->base->members_of_phase[phase];
    for (size_t i = 0; members && i < members->item_count; i++) TP__TRY(request_group_item(w, members->items[i].sub));
  }
  TP__TRY(change_items(w));
  TP__TRY(add_items(w));
  /* When a subscription with a new id is added, each phase whose optional edge had named that id without finding it is
   * compiled again. */
  for (uint32_t phase = 0; w->done.added > 0 && phase < TP_PHASE_LIMIT; phase++) {
    const tp__absent *absent = w->base->members_of_phase[phase] ? w->base->members_of_phase[phase]->absent : NULL;
    while (absent && !tp__set_subscription(w->set, absent->id)) absent = absent->next;
    if (absent) TP__TRY(touch(w, phase));
  }
  return TP_OK;
}

static tp_status apply_edit(const tp_edit *edit, const tp__set *base, tp__set *set, tally *ret_done, tp_fault *fault) {
  work w = {.edit = edit, .base = base, .set = set, .fault = fault};
  tp_status status = apply_changes(&w);
  if (status == TP_ERR_NO_MEMORY) return tp__fail(fault, status, NULL, "no memory for the registered set");
  *ret_done = w.done;
  return status;
}

/* ---- publishing ---- */

static tp_status conflict(const tp_edit *edit, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_CONFLICT, edit->owner_name,
                  "another commit came in between: this edit began at version %llu; begin again",
                  (unsigned long long)edit->base_version);
}

static void describe(const tp_edit *edit, const tally *t, char *ret_detail, size_t size) {
  snprintf(ret_detail, size,
           "trust %s%s%s: handlers +%zu -%zu, subscriptions +%zu -%zu, enabled %zu, disabled %zu, budgets %zu, "
           "limits %zu",
           tp_trust_name(edit->owner.trust),
           edit->owner.grants & TP_GRANT_PRIVILEGED_HOOKS ? ", granted privileged_hooks" : "",
           edit->owner.grants & TP_GRANT_REWRITE ? ", granted rewrite" : "", t->handlers_added, t->handlers_removed,
           t->added, t->removed, t->enabled, t->disabled, t->budgets, t->limits);
}

/* Adds the ids of subscriptions that were added or removed, as far as there is space for whole names. */
static void name_changes(const tp_edit *edit, char *ret_detail, size_t size) {
  size_t used = strlen(ret_detail);
  const char *separator = ": ";
  TP__ASSERT(used < size);
  for (size_t i = 0; i < edit->subscriptions.count; i++) {
    const tp__change *change = &edit->subscriptions.items[i];
    char words[2 * TP_ID_BYTES_MAX + 16];
    if (!change->sub && !change->removed) continue;
    snprintf(words, sizeof words, "%s%c%s%s%s", separator, change->sub ? '+' : '-', change->id,
             change->sub ? " in " : "", change->sub ? edit->registry->phases[change->sub->desc.phase]->name : "");
    bool fits = used + strlen(words) + sizeof ", …" <= size;
    used += (size_t)snprintf(ret_detail + used, size - used, "%s", fits ? words : ", …");
    if (!fits) break;
    separator = ", ";
  }
}

static void fill_report(tp__snapshot *snapshot, tp_commit_report *ret_report) {
  const tp__set *set = tp__snapshot_set(snapshot);
  tp_commit_report report = {.snapshot_version = snapshot->version,
                             .snapshot_hash = snapshot->hash,
                             .handlers = (uint32_t)set->handlers.count,
                             .subscriptions = (uint32_t)set->subscriptions.count};
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    const tp__plan *plan = snapshot->plans[phase];
    if (!plan || plan->worst_ns <= plan->budget_ns) continue;
    if (report.warnings++ == 0) report.warning_phase = phase;
  }
  *ret_report = report;
}

static tp_status publish(const tp_edit *edit, const tp__snapshot *base, tp__snapshot *snapshot, const tally *t,
                         tp_fault *fault) {
  char detail[TP__AUDIT_DETAIL_SIZE];
  tp__audit_row row;
  describe(edit, t, detail, sizeof detail);
  name_changes(edit, detail, sizeof detail);
  tp__audit_fill(edit->registry, &row, edit->owner_name, "commit", tp_text_of(detail), TP_OK, snapshot->hash);
  return tp__registry_publish(edit->registry, base, snapshot, &row) ? TP_OK : conflict(edit, fault);
}

static tp_status commit_over(const tp_edit *edit, tp__snapshot *base, tp_commit_report *report, tp_fault *fault) {
  if (base->version != edit->base_version) return conflict(edit, fault);
  tp__snapshot *snapshot;
  tally t = {0};
  tp_status status = tp__snapshot_new(edit->registry, base->version + 1, &snapshot);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "no memory for the snapshot");
  status = apply_edit(edit, tp__snapshot_set(base), tp__snapshot_set(snapshot), &t, fault);
  if (status == TP_OK) status = tp__compile(snapshot, fault);
  /* The report is made before the publication, because other threads may replace and free the snapshot after it. */
  if (status == TP_OK) fill_report(snapshot, report);
  if (status == TP_OK) status = publish(edit, base, snapshot, &t, fault);
  if (status != TP_OK) tp__snapshot_retire(snapshot);
  return status;
}

tp_status tp_edit_commit(tp_edit *edit, tp_commit_report *ret_report, tp_fault *fault) {
  if (!edit) return tp__fail(fault, TP_ERR_USAGE, NULL, "a commit needs an edit");
  if (ret_report) TP__TRY(tp__size_check(ret_report, "tp_commit_report", fault));
  tp__registry *registry = edit->registry;
  tp_fault why = {.code = TP_OK};
  tp_commit_report found;
  tp__snapshot *base = tp__registry_pin(registry);
  tp_status status = commit_over(edit, base, &found, &why);
  if (status != TP_OK) {
    tp__audit_row row;
    tp__audit_fill(registry, &row, edit->owner_name, "commit", tp_text_of(why.message), status, base->hash);
    tp__audit_add(registry, &row);
    if (fault) *fault = why;
  }
  tp__snapshot_unpin(base);
  if (status != TP_OK) return status;
  if (ret_report) (void)tp__shown_fill(ret_report, &found, sizeof found);
  tp_edit_discard(edit);
  if (registry->on_commit) registry->on_commit(registry->on_commit_ctx);
  return TP_OK;
}
