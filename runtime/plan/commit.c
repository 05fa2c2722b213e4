/* SPDX-License-Identifier: Apache-2.0
 *
 * commit.c: grants what an edit wishes, all of it or nothing. The wishes are applied to a copy of what is registered,
 * the copy is compiled, and only then does the new snapshot take the old one's place: until that one pointer is
 * swapped, nothing that a turn can see has changed, so there is nothing to undo. */
#include <stdio.h>

#include "runtime/plan/registry.h"

/* What a commit did, for the audit row. */
typedef struct tally {
  size_t handlers_added, handlers_removed, added, removed, enabled, disabled, budgets;
} tally;

/* ---- applying ---- */

static tp_status check_owner(const tp_edit *edit, const char *what, const char *id, const char *owner,
                             tp_fault *fault) {
  if (edit->owner.trust == TP_TRUST_BUILTIN || strcmp(owner, edit->owner_name) == 0) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, id, "%s `%s` belongs to owner `%s`: `%s` may not change it", what, id, owner,
                  edit->owner_name);
}

static tp_status keep_handlers(const tp_edit *edit, const tp__set *base, tp__set *set, tally *t, tp_fault *fault) {
  for (size_t i = 0; i < base->handler_count; i++) {
    tp__handler *handler = base->handlers[i];
    const tp__change *change = tp__changes_find(&edit->handlers, handler->desc.id);
    if (change && change->removed) {
      TP__TRY(check_owner(edit, "handler", handler->desc.id, handler->owner, fault));
      t->handlers_removed++;
    } else {
      tp__set_add_handler(set, handler);
    }
  }
  return TP_OK;
}

static tp_status add_handlers(const tp_edit *edit, const tp__set *base, tp__set *set, tally *t, tp_fault *fault) {
  for (size_t i = 0; i < edit->handlers.count; i++) {
    const tp__change *change = &edit->handlers.items[i];
    const tp__handler *there = tp__set_handler(base, change->id);
    if (change->removed && !there) {
      return tp__fail(fault, TP_ERR_NOT_FOUND, change->id, "handler `%s` is not registered, so it cannot be removed",
                      change->id);
    }
    if (!change->handler) continue;
    if (there && !change->removed) {
      return tp__fail(fault, TP_ERR_DUPLICATE_ID, change->id,
                      "handler `%s` is registered already, by owner `%s`: choose another id, or remove that one first",
                      change->id, there->owner);
    }
    tp__set_add_handler(set, change->handler);
    t->handlers_added++;
  }
  return TP_OK;
}

/* @param wish  NONE keeps what it was. */
static void add_item(tp__set *set, tp__subscription *sub, bool disabled, tp__wish wish, tally *t) {
  bool becomes = wish == TP__WISH_NONE ? disabled : wish == TP__WISH_DISABLE;
  if (becomes != disabled) *(becomes ? &t->disabled : &t->enabled) += 1;
  tp__set_add_item(set, sub, becomes);
}

static tp_status keep_items(const tp_edit *edit, const tp__set *base, tp__set *set, tally *t, tp_fault *fault) {
  for (size_t i = 0; i < base->item_count; i++) {
    const tp__set_item *item = &base->items[i];
    const tp__change *change = tp__changes_find(&edit->subscriptions, item->sub->desc.id);
    bool removed = change && change->removed;
    tp__wish wish = change && !removed && !change->sub ? change->wish : TP__WISH_NONE;
    if (removed || wish != TP__WISH_NONE) {
      TP__TRY(check_owner(edit, "subscription", item->sub->desc.id, item->sub->owner, fault));
    }
    if (removed)
      t->removed++;
    else
      add_item(set, item->sub, item->disabled, wish, t);
  }
  return TP_OK;
}

static tp_status add_items(const tp_edit *edit, const tp__set *base, tp__set *set, tally *t, tp_fault *fault) {
  for (size_t i = 0; i < edit->subscriptions.count; i++) {
    const tp__change *change = &edit->subscriptions.items[i];
    const tp__set_item *there = tp__set_find(base, change->id);
    bool speaks_of_it = change->removed || (change->wish != TP__WISH_NONE && !change->sub);
    if ((speaks_of_it && !there) || (change->removed && change->wish != TP__WISH_NONE && !change->sub)) {
      return tp__fail(fault, TP_ERR_NOT_FOUND, change->id,
                      "subscription `%s` is not registered, so it cannot be removed, enabled or disabled", change->id);
    }
    if (!change->sub) continue;
    if (there && !change->removed) {
      return tp__fail(
          fault, TP_ERR_DUPLICATE_ID, change->id,
          "subscription `%s` is registered already, by owner `%s`: choose another id, or remove that one first",
          change->id, there->sub->owner);
    }
    change->sub->registration = set->next_registration++;
    add_item(set, change->sub, change->sub->desc.disabled, change->wish, t);
    t->added++;
  }
  return TP_OK;
}

static void set_budgets(const tp_edit *edit, const tp__set *base, tp__set *set, tally *t) {
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    set->budgets_ms[phase] = edit->budget_set[phase] ? edit->budgets_ms[phase] : base->budgets_ms[phase];
    t->budgets += edit->budget_set[phase];
  }
}

static tp_status apply(const tp_edit *edit, const tp__set *base, tp__set *set, tally *t, tp_fault *fault) {
  tp_status status =
      tp__set_reserve(set, base->handler_count + edit->handlers.count, base->item_count + edit->subscriptions.count);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "no memory for the registered set");
  set->next_registration = base->next_registration;
  set_budgets(edit, base, set, t);
  TP__TRY(keep_handlers(edit, base, set, t, fault));
  TP__TRY(add_handlers(edit, base, set, t, fault));
  TP__TRY(keep_items(edit, base, set, t, fault));
  return add_items(edit, base, set, t, fault);
}

/* ---- publishing ---- */

static tp_status conflict(const tp_edit *edit, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_CONFLICT, edit->owner_name,
                  "another commit came in between: this edit began at version %llu; begin again",
                  (unsigned long long)edit->base_version);
}

static void describe(const tp_edit *edit, const tally *t, char *ret_detail, size_t size) {
  static const char *const trusts[] = {"host", "builtin", "declared"};
  snprintf(ret_detail, size,
           "trust %s%s: handlers +%zu -%zu, subscriptions +%zu -%zu, enabled %zu, disabled %zu, budgets %zu",
           trusts[edit->owner.trust],
           edit->owner.grants & TP_GRANT_PRIVILEGED_HOOKS ? ", granted privileged_hooks" : "", t->handlers_added,
           t->handlers_removed, t->added, t->removed, t->enabled, t->disabled, t->budgets);
}

static void fill_report(tp__snapshot *snapshot, tp_commit_report *ret_report) {
  const tp__set *set = tp__snapshot_set(snapshot);
  tp_commit_report report = {.snapshot_version = snapshot->version,
                             .snapshot_hash = snapshot->hash,
                             .handlers = (uint32_t)set->handler_count,
                             .subscriptions = (uint32_t)set->item_count};
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
  tp__audit_fill(&row, edit->owner_name, "commit", detail, TP_OK, snapshot->hash);
  return tp__registry_publish(edit->registry, base, snapshot, &row) ? TP_OK : conflict(edit, fault);
}

static tp_status commit_over(const tp_edit *edit, tp__snapshot *base, tp_commit_report *report, tp_fault *fault) {
  if (base->version != edit->base_version) return conflict(edit, fault);
  tp__snapshot *snapshot;
  tally t = {0};
  tp_status status = tp__snapshot_new(edit->registry, base->version + 1, &snapshot);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "no memory for the snapshot");
  status = apply(edit, tp__snapshot_set(base), tp__snapshot_set(snapshot), &t, fault);
  if (status == TP_OK) status = tp__compile(snapshot, fault);
  /* From its publication on the snapshot may be replaced and freed by others, so the report is made before. */
  if (status == TP_OK) fill_report(snapshot, report);
  if (status == TP_OK) status = publish(edit, base, snapshot, &t, fault);
  if (status != TP_OK) tp__snapshot_unpin(snapshot);
  return status;
}

tp_status tp_edit_commit(tp_edit *edit, tp_commit_report *report, tp_fault *fault) {
  if (!edit) return tp__fail(fault, TP_ERR_USAGE, NULL, "a commit needs an edit");
  tp__registry *registry = edit->registry;
  tp_fault story = {.code = TP_OK};
  tp_commit_report found;
  tp__snapshot *base = tp__registry_pin(registry);
  tp_status status = commit_over(edit, base, &found, &story);
  if (status != TP_OK) {
    tp__audit_row row;
    tp__audit_fill(&row, edit->owner_name, "commit", story.message, status, base->hash);
    tp__audit_add(registry, &row);
    if (fault) *fault = story;
  }
  tp__snapshot_unpin(base);
  if (status != TP_OK) return status;
  if (report) *report = found;
  tp_edit_discard(edit);
  if (registry->on_commit) registry->on_commit(registry->on_commit_ctx);
  return TP_OK;
}
