/* SPDX-License-Identifier: Apache-2.0
 *
 * present: finds the memories that are already in the messages of a turn's request, so that none is recalled into it
 * again. The messages are those of tp_call_messages(): messages that a compaction removed are not among them. Takes its
 * memory from SQLite; never reads a store. */
#ifndef TP__MEMORY_PRESENT_H
#define TP__MEMORY_PRESENT_H

#include "domains/memory/score.h"
#include "turnphase/model.h"

enum {
  TP__MEMORY_PRESENT_BYTES = 24 /* a text of at least this many bytes may be anywhere in a message; a shorter text must
                                   be the whole message, since "Oslo" says less than a sentence that names it */
};

/** Removes memories from the list that the messages hold. Either the recalled text of a memory (a passage, without the
 *  ellipses) is in a message of any role, or in the arguments of a call. Or a message of the memory's turn and party
 *  holds it after the redaction of memories.
 *  The order is kept. It costs one walk over the messages.
 *  @return TP_OK; TP_ERR_NO_MEMORY: the list is unchanged.  Threads: that of the call. */
tp_status tp__memory_drop_present(tp_call *call, tp__memory_list *list);

#endif
