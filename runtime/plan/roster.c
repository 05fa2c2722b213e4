/* SPDX-License-Identifier: Apache-2.0
 *
 * roster.c: the subscriptions of one phase, by rising registration number, with the plan that was compiled of them. All
 * versions in which nothing of the phase differs share it, plan included, and it is freed with the last of them. It
 * counts no members: whoever has a roster has a map that holds them (set.c). */
#include "runtime/plan/registry.h"

tp__roster *tp__roster_new(const tp_allocator *allocator, const tp__roster *from, size_t more) {
  size_t count = from ? from->item_count : 0;
  tp__roster *roster = tp__alloc_zero(allocator, sizeof *roster);
  if (!roster) return NULL;
  roster->allocator = allocator;
  tp__a32_store_relaxed(&roster->refs, 1);
  tp__arena_init(&roster->arena, allocator, NULL, 0, 0);
  roster->items = tp__arena_alloc(&roster->arena, (count + more) * sizeof *roster->items);
  if (!roster->items) {
    tp__roster_unref(roster);
    return NULL;
  }
  if (count > 0) memcpy(roster->items, from->items, count * sizeof *roster->items);
  roster->item_count = count;
  return roster;
}

void tp__roster_ref(tp__roster *roster) { tp__a32_add_relaxed(&roster->refs, 1); }

void tp__roster_unref(tp__roster *roster) {
  if (!roster || tp__a32_sub_acq_rel(&roster->refs, 1) > 1) return;
  tp__arena_fini(&roster->arena);
  tp__release(roster->allocator, roster, sizeof *roster);
}

size_t tp__roster_at(const tp__roster *roster, const tp__subscription *subscription) {
  size_t low = 0, high = roster->item_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (roster->items[middle].sub->registration <= subscription->registration) low = middle;
    else high = middle;
  }
  assert(low < high && roster->items[low].sub == subscription);
  return low;
}

void tp__roster_append(tp__roster *roster, tp__subscription *subscription, bool disabled) {
  size_t count = roster->item_count;
  assert(count == 0 || roster->items[count - 1].sub->registration < subscription->registration);
  roster->items[roster->item_count++] = (tp__set_item){.sub = subscription, .disabled = disabled};
}

void tp__roster_close_gaps(tp__roster *roster) {
  size_t kept = 0;
  for (size_t i = 0; i < roster->item_count; i++) {
    if (roster->items[i].sub) roster->items[kept++] = roster->items[i];
  }
  roster->item_count = kept;
}
