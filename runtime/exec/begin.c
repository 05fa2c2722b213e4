/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/begin.h"

/* Replaces a cached block that is too small. */
static tp__entry *new_block(tp__turn *turn, const tp__plan *plan) {
  tp__blocks *blocks = &turn->runtime->blocks;
  size_t size;
  tp__entry *e = tp__block_take(blocks, tp__entry_bytes(plan), &size);
  if (!e) return NULL;
  e->block_size = size;
  if (turn->cached_entry && turn->cached_entry->taken) return e;
  if (turn->cached_entry) tp__block_give(blocks, turn->cached_entry, turn->cached_entry->block_size);
  turn->cached_entry = e;
  return e;
}

tp__entry *tp__entry_take_block(tp__turn *turn, const tp__plan *plan) {
  tp__entry *e = turn->cached_entry;
  if (!e || e->taken || e->block_size < tp__entry_bytes(plan)) e = new_block(turn, plan);
  if (e) tp__entry_set_block(e, turn);
  return e;
}
