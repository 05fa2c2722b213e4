/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tool_lot.h"

#include "runtime/exec/slot.h"

enum { LOT_BYTES_MAX = 8192 };

static void *take_block(void *blocks, size_t size) {
  size_t block_size;
  return tp__block_take(blocks, size, &block_size);
}

static void give_block(void *blocks, void *memory, size_t size) { tp__block_give(blocks, memory, size); }

tp_allocator tp__tool_blocks(tp_runtime *runtime) { return (tp_allocator){take_block, give_block, &runtime->blocks}; }

struct tp__tool_lot {
  tp__turn *turn; /* referenced */
  tp_allocator blocks;
  size_t block_size;
  tp__a32 refs; /* acq_rel: one of each cell; those never taken are given back by tp__tool_lots_end() */
  _Alignas(16) char cells[];
};

const tp_allocator *tp__tool_lot_blocks(const tp__tool_lot *lot) { return &lot->blocks; }

void tp__tool_lot_give(tp__tool_lot *lot, uint32_t count) {
  if (tp__a32_sub_acq_rel(&lot->refs, count) != count) return;
  tp__turn *turn = lot->turn;
  tp__block_give(&turn->runtime->blocks, lot, lot->block_size);
  tp__turn_unref(turn);
}

void tp__tool_lots_end(tp__tool_lots *lots) {
  if (lots->left > 0) {
    tp__slots_close(lots->tokens, lots->left);
    tp__tool_lot_give(lots->lot, lots->left);
  }
  lots->left = 0;
  lots->bytes = 0;
}

/* Each lot twice as large as the one before: a turn that waits for one call holds little, one that waits for thousands
 * seldom asks. */
static bool next_lot(tp__tool_lots *lots, tp__turn *turn, size_t size) {
  size_t bytes = lots->bytes == 0 ? TP__BLOCK_BYTES_MIN : lots->bytes < LOT_BYTES_MAX ? lots->bytes * 2 : lots->bytes;
  size_t block_size;
  tp__tool_lot *lot = tp__block_take(&turn->runtime->blocks, bytes, &block_size);
  if (!lot) return false;
  uint32_t count = (uint32_t)((block_size - sizeof *lot) / size);
  if (count > TP__LOT_CELLS_MAX) count = TP__LOT_CELLS_MAX;
  count = tp__slots_take(turn->runtime, count, lots->tokens);
  if (count == 0) {
    tp__block_give(&turn->runtime->blocks, lot, block_size);
    return false;
  }
  lot->turn = turn;
  lot->blocks = tp__tool_blocks(turn->runtime);
  lot->block_size = block_size;
  tp__turn_hold(turn);
  atomic_init(&lot->refs.v, count);
  lots->lot = lot;
  lots->next = lot->cells;
  lots->left = count;
  lots->bytes = block_size;
  return true;
}

void *tp__tool_lots_take(tp__tool_lots *lots, tp__turn *turn, size_t size, tp__tool_lot **ret_lot,
                         tp_token *ret_token) {
  if (lots->left == 0 && !next_lot(lots, turn, size)) return NULL;
  void *cell = lots->next;
  lots->next += size;
  *ret_token = lots->tokens[--lots->left];
  *ret_lot = lots->lot;
  return cell;
}

void tp__tool_lots_untake(tp__tool_lots *lots, size_t size) {
  lots->next -= size;
  lots->left++;
}
