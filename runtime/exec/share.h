/* SPDX-License-Identifier: Apache-2.0
 *
 * share: quick nodes that take long enough to be worth another thread's time. The owner of an entry puts ready nodes
 * into parcels, some at a time; an engine worker that has nothing else to do opens them and calls; the owner takes the
 * answers and settles. So counters, rows and verdicts stay the owner's alone, and a parcel that nobody opened is taken
 * back.
 *
 * Giving a cheap node away costs more than calling it, so nodes are measured first. A call that took long makes the
 * next few entries of its plan watched ones; in these the cost of each node is averaged, so that a call that was merely
 * interrupted once is forgotten. A plan that has a dear node is measured for as long as it has one.
 *
 * A parcel is EMPTY (the owner's) -> OFFERED -> OPENED (a helper's) -> DONE -> EMPTY, or from OFFERED back to EMPTY.
 * The share lives as long as its entry, which every helper that was asked holds, and a wake-up that may come. */
#ifndef TP__SHARE_H
#define TP__SHARE_H

#include "runtime/exec/entry.h"

enum {
  TP__SHARE_SEARCH_NS = 30 * TP__NS_PER_US /* how long one looks for what may come before sleeping */
};

/** Owner: whether ready nodes of this entry may be worth giving away just now. */
bool tp__share_pays(const tp__entry *entry);
/** Owner: calls ready quick nodes here and elsewhere, until none is ready or a node must be looked at closer.
 *  @return false with *ret_index: look at this one. */
bool tp__share_run(tp__entry *entry, uint32_t *ret_index);
/** Owner: nothing is ready. Waits for a moment for answers from elsewhere.
 *  @return whether something became ready or settled; false: nothing is out, or a message will come when one is in. */
bool tp__share_wait(tp__entry *entry);
/** Owner: nothing more is to be called: the entry is decided, or has ended. */
void tp__share_stop(tp__entry *entry);
/** The entry's last reference is gone. */
void tp__share_free(tp__entry *entry);
/** Any thread: a quick node of the plan took long. */
void tp__share_watch(const tp__plan *plan);
/** Any thread that called a quick node of a measured entry: what it took. */
void tp__share_note(const tp__plan *plan, uint32_t index, int64_t took_ns);
/** Whether nodes of the plan may be worth giving away. */
static inline bool tp__share_has_dear(const tp__plan *plan) {
  return tp__a32_load_relaxed(&plan->costs->dear_count) != 0;
}
/** Owner: a watched entry is looked at: one that leaves plan order may count for several. */
void tp__share_count_watched(const tp__plan *plan);
/** Owner: whether this entry is measured. */
static inline bool tp__share_measures(const tp__plan *plan) {
  bool watched = tp__a32_load_relaxed(&plan->costs->watched) != 0;
  if (__builtin_expect(watched, 0)) tp__share_count_watched(plan);
  return watched || tp__share_has_dear(plan);
}

#endif
