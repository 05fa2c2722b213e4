/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.c: all plans of one version, and the set from which they were compiled. The set owns the memory of the
 * plans. */
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

#ifdef TP_CHECKS
static void members_check(const tp__members *members, const tp__set *set, uint32_t phase) {
  size_t enabled = 0;
  assert(members->compiled);
  for (size_t i = 0; i < members->item_count; i++) {
    const tp__set_item *item = &members->items[i];
    /* Members are subscriptions of the phase, by rising registration number. */
    assert(item->sub && item->sub->desc.phase == phase && item->sub->registration < set->next_registration);
    assert(i == 0 || members->items[i - 1].sub->registration < item->sub->registration);
    enabled += !item->disabled;
    if (i >= TP__CHECK_ITEMS_MAX) continue;
    /* The map finds them. */
    assert(tp__set_subscription(set, item->sub->desc.id) == item->sub);
  }
  /* The plan has a node for each enabled subscription. */
  assert(enabled == (members->plan ? members->plan->node_count : 0));
}

void tp__snapshot_check(tp__snapshot *snapshot) {
  const tp__set *set = tp__snapshot_set(snapshot);
  /* The caller has a hold. */
  assert(tp__a64_load_relaxed(&snapshot->refs) > 0 && snapshot->registry);
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    const tp__members *members = set->members_of_phase[phase];
    const tp__plan *plan = snapshot->plans[phase];
    /* The plans are those of its members. */
    assert(plan == (members ? members->plan : NULL));
    /* A plan is in the place of its own phase, and that phase exists. */
    assert(!plan || (plan->phase == phase && plan->row == snapshot->registry->phases[phase]));
    if (members && members->item_count <= 8 * TP__CHECK_ITEMS_MAX) members_check(members, set, phase);
  }
}
#endif

void tp__snapshot_hold(tp__snapshot *snapshot) {
  uint64_t before = tp__a64_add_relaxed(&snapshot->refs, 1);
  assert(before > 0);
  (void)before;
}

static void unref_by(tp__snapshot *snapshot, uint64_t count) {
  TP__ASSERT(count == 1 || count == TP__SNAPSHOT_BIAS);
  uint64_t before = tp__a64_sub_acq_rel(&snapshot->refs, count);
  assert(before >= count);
  if (before > count) return;
  snapshot_block *block = block_of(snapshot);
  const tp_allocator *allocator = &snapshot->registry->allocator;
  tp__set_fini(&block->set);
  tp__release(allocator, block, sizeof *block);
}

void tp__snapshot_unpin(tp__snapshot *snapshot) { unref_by(snapshot, 1); }
void tp__snapshot_retire(tp__snapshot *snapshot) { unref_by(snapshot, TP__SNAPSHOT_BIAS); }

/* A negative count takes away pins that other caches add in the same renewal. acq_rel, because it also unpins for the
 * threads of those caches. */
void tp__pins_renew(tp__pins *pins, tp__snapshot *newest) {
  if (pins->count != 0) tp__a64_add_acq_rel(&pins->snapshot->refs, (uint64_t)pins->count);
  *pins = (tp__pins){newest, 0};
}
