/* SPDX-License-Identifier: Apache-2.0
 *
 * owner.c: checks that a turn never has two owners, and is never without an owner while something of it is ready.
 * strand.c calls this when a thread begins an owner's work, and before it leaves the strand without an owner. */
#include "runtime/exec/entry.h"
#include "world.h"

static world *observed;

static void broken(const char *how) { world_fail(observed, "a turn has one owner while it has work", "%s", how); }

/* A node that has not settled waits for another one, or is under way. */
static bool is_under_way(const tp__entry *e) {
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    const tp__run *run = tp__entry_more(e, i);
    if (run && !run->settled && (run->attempt || run->retry)) return true;
  }
  return e->share != NULL; /* a helper may have one */
}

static bool entry_is_ready(const tp__entry *e) {
  if (e->ended) return false; /* a commit of its record may be under way */
  return e->leaving_count + e->ready.count > 0 || e->unsettled == 0 || !is_under_way(e);
}

static bool is_ready(const tp__strand *strand) {
  const tp__turn *turn = TP__CONTAINER(strand, tp__turn, strand);
  for (const tp__link *link = turn->entries.next; link != &turn->entries; link = link->next)
    if (entry_is_ready(TP__CONTAINER(link, tp__entry, link))) return true;
  return false;
}

void owner_watch(world *w) {
  observed = w;
  tp__strand_observed_by = (tp__strand_observer){broken, is_ready};
}
