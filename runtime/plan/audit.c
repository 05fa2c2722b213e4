/* SPDX-License-Identifier: Apache-2.0
 *
 * audit.c: keeps audit rows: which owner changed registrations, and which runs failed or denied. The newest rows are
 * retained. The rings are allocated once, with the registry. So a refused commit or a use of the kill switch is never
 * lost because memory is missing. */
#include "runtime/plan/registry.h"

void tp__audit_copy(char *target, size_t target_size, tp_text text) {
  size_t size = tp__utf8_cut(text, target_size - 1);
  if (size > 0) memcpy(target, text.data, size);
  target[size] = '\0';
}

void tp__audit_fill(const tp__registry *registry, tp__audit_row *row, const char *owner, const char *action,
                    tp_text detail, tp_status status, uint64_t snapshot_hash) {
  char buffer[TP__REDACT_SIZE];
  *row = (tp__audit_row){.unix_ms = tp__unix_ms(),
                         .status = status,
                         .snapshot_hash = snapshot_hash,
                         .visibility = TP_VISIBILITY_USER_VISIBLE};
  tp__audit_copy(row->action, sizeof row->action, tp_text_of(action));
  tp__audit_copy(row->owner, sizeof row->owner, tp_text_of(owner));
  tp_text text = tp__redact(&registry->redactor, TP_REDACT_AUDIT, detail, buffer, sizeof buffer);
  tp__audit_copy(row->detail, sizeof row->detail, text);
}

void tp__audit_of_turn(tp__audit_row *row, const tp_text *ids) {
  tp__audit_copy(row->turn, sizeof row->turn, ids[TP_ID_TURN]);
  tp__audit_copy(row->tenant, sizeof row->tenant, ids[TP_ID_TENANT]);
  tp__audit_copy(row->session, sizeof row->session, ids[TP_ID_SESSION]);
}

void tp__audit_add_locked(tp__registry *registry, const tp__audit_row *row) {
  TP__LOCKED(&registry->lock);
  tp__audit_ring *ring = &registry->audit[row->subscription ? TP__AUDIT_RUN : TP__AUDIT_REGISTRATION];
  tp__audit_row *place = &ring->rows[ring->count++ % TP__AUDIT_ROWS];
  *place = *row;
  place->number = registry->audit_number++;
}

void tp__audit_add(tp__registry *registry, const tp__audit_row *row) {
  tp__mutex_lock(&registry->lock);
  tp__audit_add_locked(registry, row);
  tp__mutex_unlock(&registry->lock);
  if (registry->on_audit) registry->on_audit(registry->on_audit_ctx);
}

static bool is_action(const char *action) {
  size_t size = action ? strspn(action, "abcdefghijklmnopqrstuvwxyz0123456789_.") : 0;
  return size > 0 && size < TP__AUDIT_ACTION_SIZE && !action[size];
}

tp_status tp__registry_audit_add(tp__registry *registry, const char *owner, const char *action, tp_text detail,
                                 tp_status decision, tp_fault *fault) {
  tp__audit_row row;
  TP__TRY(tp__id_check(owner, "the owner of an audit row", fault));
  if (!is_action(action))
    return tp__fail(fault, TP_ERR_USAGE, owner, "the action of an audit row is 1 to %d of a to z, 0 to 9, '_' and '.'",
                    TP__AUDIT_ACTION_SIZE - 1);
  if (!tp__status_is_known(decision))
    return tp__fail(fault, TP_ERR_USAGE, owner, "the decision of an audit row is no status: %d", (int)decision);
  if (!tp_utf8_valid(detail, NULL))
    return tp__fail(fault, TP_ERR_UTF8, owner, "the detail of an audit row is no UTF-8");
  tp__audit_fill(registry, &row, owner, action, detail, decision, 0);
  tp__audit_add(registry, &row);
  return TP_OK;
}

/* The oldest row of a ring whose place is at or after *place; moves *place to it. NULL: there is none. */
static const tp__audit_row *next_locked(const tp__audit_ring *ring, uint64_t *place) {
  if (ring->count > TP__AUDIT_ROWS && *place < ring->count - TP__AUDIT_ROWS) *place = ring->count - TP__AUDIT_ROWS;
  return *place < ring->count ? &ring->rows[*place % TP__AUDIT_ROWS] : NULL;
}

/* Takes the oldest of the rows that are next in their rings. @return false when there is none. */
static bool take_next(tp__registry *registry, uint64_t places[TP__AUDIT_CLASSES], tp__audit_row *ret_row) {
  const tp__audit_row *oldest = NULL;
  int of = 0;
  tp__mutex_lock(&registry->lock);
  for (int i = 0; i < TP__AUDIT_CLASSES; i++) {
    const tp__audit_row *row = next_locked(&registry->audit[i], &places[i]);
    if (!row || (oldest && oldest->number < row->number)) continue;
    oldest = row;
    of = i;
  }
  if (oldest) *ret_row = *oldest;
  tp__mutex_unlock(&registry->lock);
  if (oldest) places[of]++;
  return oldest != NULL;
}

static tp_audit shown(const tp__audit_row *row) {
  return (tp_audit){.struct_size = sizeof(tp_audit),
                    .unix_ms = row->unix_ms,
                    .owner = row->owner,
                    .action = row->action,
                    .detail = row->detail,
                    .status = row->status,
                    .phase = row->phase,
                    .snapshot_hash = row->snapshot_hash,
                    .subscription = row->subscription,
                    .turn = row->turn,
                    .tenant = row->tenant,
                    .session = row->session,
                    .duration_ns = row->duration_ns,
                    .state = (tp_state)row->state,
                    .reason = (tp_reason)row->reason,
                    .visibility = (tp_visibility)row->visibility};
}

/* Each row is copied out, so that the callback runs without the lock. Rows that are written meanwhile are shown, too,
 * up to the capacity of the rings. So a writer that never pauses cannot keep the reader for ever. */
size_t tp__registry_audit(tp__registry *registry, tp_visibility visibility_min, tp_audit_fn each, void *ctx) {
  tp__audit_row row;
  uint64_t places[TP__AUDIT_CLASSES] = {0};
  size_t seen = 0;
  for (int i = 0; i < TP__AUDIT_CLASSES * TP__AUDIT_ROWS && take_next(registry, places, &row); i++) {
    if (row.visibility < visibility_min) continue;
    seen++;
    tp_audit face = shown(&row);
    if (each && !each(ctx, &face)) break;
  }
  return seen;
}

void tp__registry_on_audit(tp__registry *registry, void (*call)(void *ctx), void *ctx) {
  registry->on_audit = call;
  registry->on_audit_ctx = ctx;
}

void tp__registry_audit_new(tp__registry *registry, tp__audit_cursor *cursor,
                            void (*each)(void *ctx, const tp_audit *row), void *ctx) {
  static_assert(sizeof cursor->places / sizeof *cursor->places == TP__AUDIT_CLASSES, "one place for each ring");
  tp__audit_row row;
  while (take_next(registry, cursor->places, &row)) {
    cursor->missed += row.number - cursor->number;
    cursor->number = row.number + 1;
    tp_audit face = shown(&row);
    each(ctx, &face);
  }
}
