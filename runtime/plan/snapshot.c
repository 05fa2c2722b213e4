/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.c: all plans of one version, with the set that they were compiled of, which has their memory. */
#include "runtime/plan/registry.h"

typedef struct snapshot_block {
  tp__snapshot snapshot;
  tp__set set;
} snapshot_block;

static snapshot_block *block_of(tp__snapshot *snapshot) { return TP__CONTAINER(snapshot, snapshot_block, snapshot); }

tp_status tp__snapshot_new(tp__registry *registry, uint64_t version, tp__snapshot **ret_snapshot) {
  snapshot_block *block = tp__alloc(&registry->allocator, sizeof *block);
  if (!block) return TP_ERR_NO_MEMORY;
  memset(&block->snapshot, 0, sizeof block->snapshot);
  tp__set_init(&block->set, &registry->allocator);
  block->snapshot.registry = registry;
  block->snapshot.version = version;
  tp__a64_store_relaxed(&block->snapshot.refs, TP__SNAPSHOT_BIAS);
  *ret_snapshot = &block->snapshot;
  return TP_OK;
}

tp__set *tp__snapshot_set(tp__snapshot *snapshot) { return &block_of(snapshot)->set; }

void tp__snapshot_hold(tp__snapshot *snapshot) {
  uint64_t before = tp__a64_add_relaxed(&snapshot->refs, 1);
  assert(before > 0);
  (void)before;
}

static void let_go(tp__snapshot *snapshot, uint64_t count) {
  uint64_t before = tp__a64_sub_acq_rel(&snapshot->refs, count);
  assert(before >= count);
  if (before > count) return;
  snapshot_block *block = block_of(snapshot);
  const tp_allocator *allocator = &snapshot->registry->allocator;
  tp__set_fini(&block->set);
  tp__release(allocator, block, sizeof *block);
}

void tp__snapshot_unpin(tp__snapshot *snapshot) { let_go(snapshot, 1); }
void tp__snapshot_retire(tp__snapshot *snapshot) { let_go(snapshot, TP__SNAPSHOT_BIAS); }

/* A count below 0 takes away what others of the same moment add. acq_rel, since it may be given back for them. */
void tp__pins_renew(tp__pins *pins, tp__snapshot *newest) {
  if (pins->count != 0) tp__a64_add_acq_rel(&pins->snapshot->refs, (uint64_t)pins->count);
  *pins = (tp__pins){newest, 0};
}
