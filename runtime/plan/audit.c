/* SPDX-License-Identifier: Apache-2.0
 *
 * audit.c: who changed what is registered. The newest rows are kept; the ring is allocated once with the registry, so
 * that neither a refused commit nor the kill switch can go unnoticed for lack of memory. */
#include "runtime/plan/registry.h"

static void copy_cut(char *target, size_t target_size, const char *string) {
  size_t size = tp__utf8_cut(tp_text_of(string), target_size - 1);
  memcpy(target, string, size);
  target[size] = '\0';
}

void tp__audit_fill(tp__audit_row *row, const char *owner, const char *action, const char *detail, tp_status outcome,
                    uint64_t snapshot_hash) {
  *row =
      (tp__audit_row){.unix_ms = tp__unix_ms(), .action = action, .outcome = outcome, .snapshot_hash = snapshot_hash};
  copy_cut(row->owner, sizeof row->owner, owner);
  copy_cut(row->detail, sizeof row->detail, detail);
}

void tp__audit_add_locked(tp__registry *registry, const tp__audit_row *row) {
  tp__audit_ring *ring = &registry->audit;
  ring->rows[ring->count++ % TP__AUDIT_ROWS] = *row;
}

void tp__audit_add(tp__registry *registry, const tp__audit_row *row) {
  tp__mutex_lock(&registry->lock);
  tp__audit_add_locked(registry, row);
  tp__mutex_unlock(&registry->lock);
}

/* The row of a number, or the oldest that is left behind it. @return false when there is none. */
static bool row_at_or_after(tp__registry *registry, uint64_t *number, tp__audit_row *ret_row) {
  tp__mutex_lock(&registry->lock);
  const tp__audit_ring *ring = &registry->audit;
  if (ring->count > TP__AUDIT_ROWS && *number < ring->count - TP__AUDIT_ROWS) *number = ring->count - TP__AUDIT_ROWS;
  bool found = *number < ring->count;
  if (found) *ret_row = ring->rows[*number % TP__AUDIT_ROWS];
  tp__mutex_unlock(&registry->lock);
  return found;
}

/* Each row is copied out, so that the callback runs without the lock; rows that are written meanwhile are seen as well,
 * up to a ring's worth, so that a writer who never rests cannot hold the reader for ever. */
size_t tp__registry_audit(tp__registry *registry, void (*each)(void *ctx, const tp_audit *row), void *ctx) {
  tp__audit_row row;
  size_t seen = 0;
  for (uint64_t number = 0; seen < TP__AUDIT_ROWS && row_at_or_after(registry, &number, &row); number++, seen++) {
    tp_audit face = {.unix_ms = row.unix_ms,
                     .owner = row.owner,
                     .action = row.action,
                     .detail = row.detail,
                     .outcome = row.outcome,
                     .snapshot_hash = row.snapshot_hash};
    if (each) each(ctx, &face);
  }
  return seen;
}
