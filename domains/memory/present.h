/* SPDX-License-Identifier: Apache-2.0
 *
 * present: which memories stand already in the messages of a turn's request, so that none is recalled into it twice.
 * The messages are those of tp_call_messages(): what a compaction took out is not among them. Takes its memory from
 * SQLite; never reads a store. */
#ifndef TP__MEMORY_PRESENT_H
#define TP__MEMORY_PRESENT_H

#include "domains/memory/score.h"
#include "turnphase/model.h"

enum {
  TP__MEMORY_PRESENT_BYTES = 24 /* a text of so many bytes or more may stand anywhere in a message; a shorter one
                                   must be all of it, since "Oslo" says less than a sentence that names it */
};

/** Removes from the list what the messages hold: its text, as far as it is recalled (a passage, without the ellipses),
 *  in a message of any role or in the arguments of a call; or a message of its turn and party that holds
 *  it once redacted as memories are.
 *  The order stays. Costs one walk over the messages.
 *  @return TP_OK; TP_ERR_NO_MEMORY: the list is as it was.  Threads: that of the call. */
tp_status tp__memory_drop_present(tp_call *call, tp__memory_list *list);

#endif
