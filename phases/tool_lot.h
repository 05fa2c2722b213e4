/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_lot: memory for the attempts of a dispatch whose calls wait, taken by the lot: one block, one reference of the
 * turn, one turn at the lock of the slots for many attempts. A lot goes away with the last attempt in it, which may be
 * long after the dispatch where a token is never completed; so lots begin small and stay moderate.
 *
 * The owner of the turn takes; whoever is last out of an attempt gives back, on any thread. */
#ifndef TP__TOOL_LOT_H
#define TP__TOOL_LOT_H

#include "runtime/exec/runtime.h"

/** The runtime's kept blocks as an allocator, for arenas. */
tp_allocator tp__tool_blocks(tp_runtime *runtime);

typedef struct tp__tool_lot tp__tool_lot;

enum { TP__LOT_CELLS_MAX = 24 };

/** The lot that is being filled. Zero-filled: none yet. */
typedef struct tp__tool_lots {
  tp__tool_lot *lot;
  char *next;    /* its first free cell */
  uint32_t left; /* cells, and slots that were taken for them: the last of tokens */
  size_t bytes;  /* of the block of the last lot */
  tp_token tokens[TP__LOT_CELLS_MAX];
} tp__tool_lots;

/** A cell of so many bytes, always the same of one tp__tool_lots, aligned to 16, and a slot that was taken for it.
 *  @param ret_lot  for tp__tool_lot_give(). @return NULL without memory. */
void *tp__tool_lots_take(tp__tool_lots *lots, tp__turn *turn, size_t size, tp__tool_lot **ret_lot, tp_token *ret_token);
/** The cell and the slot that were taken last, never used. */
void tp__tool_lots_untake(tp__tool_lots *lots, size_t size);
/** No more cells will be taken. */
void tp__tool_lots_end(tp__tool_lots *lots);
/** The same for arenas in its cells. */
const tp_allocator *tp__tool_lot_blocks(const tp__tool_lot *lot);
/** So many cells are not used any more. The turn may be gone afterwards. */
void tp__tool_lot_give(tp__tool_lot *lot, uint32_t count);

#endif
