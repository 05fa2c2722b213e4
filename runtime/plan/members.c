/* SPDX-License-Identifier: Apache-2.0
 *
 * members.c: the member list of a phase: its subscriptions by rising registration number, and the plan that was
 * compiled from them. Consecutive versions in which the phase is equal share the list and its plan. The list is freed
 * with the last of these versions. It holds no references to its members; the map of each set that has the list holds
 * them (set.c). */
#include "runtime/plan/registry.h"

tp__members *tp__members_new(const tp_allocator *allocator, const tp__members *from, size_t more) {
  size_t count = from ? from->item_count : 0;
  tp__members *members = tp__alloc_zero(allocator, sizeof *members);
  if (!members) return NULL;
  members->allocator = allocator;
  tp__a32_store_relaxed(&members->refs, 1);
  tp__arena_init(&members->arena, allocator, NULL, 0, 0);
  members->items = tp__arena_alloc(&members->arena, (count + more) * sizeof *members->items);
  if (!members->items) {
    tp__members_unref(members);
    return NULL;
  }
  if (count > 0) memcpy(members->items, from->items, count * sizeof *members->items);
  members->item_count = count;
  return members;
}

void tp__members_ref(tp__members *members) { tp__a32_add_relaxed(&members->refs, 1); }

void tp__members_unref(tp__members *members) {
  if (!members || tp__a32_sub_acq_rel(&members->refs, 1) > 1) return;
  tp__arena_fini(&members->arena);
  tp__release(members->allocator, members, sizeof *members);
}

size_t tp__members_find(const tp__members *members, const tp__subscription *subscription) {
  size_t low = 0, high = members->item_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (members->items[middle].sub->registration <= subscription->registration) low = middle;
    else high = middle;
  }
  assert(low < high && members->items[low].sub == subscription);
  return low;
}

void tp__members_append(tp__members *members, tp__subscription *subscription, bool disabled) {
  size_t count = members->item_count;
  assert(count == 0 || members->items[count - 1].sub->registration < subscription->registration);
  members->items[members->item_count++] = (tp__set_item){.sub = subscription, .disabled = disabled};
}

void tp__members_close_gaps(tp__members *members) {
  size_t left = 0;
  for (size_t i = 0; i < members->item_count; i++) {
    if (members->items[i].sub) members->items[left++] = members->items[i];
  }
  assert(!members->compiled); /* a plan's members never change */
  members->item_count = left;
}
