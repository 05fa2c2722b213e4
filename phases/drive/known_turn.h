/* SPDX-License-Identifier: Apache-2.0
 *
 * known_turn: a turn whose id the history has. Its result is the stored one, and no handler, request or tool runs. The
 * exception is turn.post_turn of a run whose process died before it. If the host gave the turn an id, the last message
 * of the turn tells how it ended (tp_message.ending). If the history does not keep endings, the result is made from the
 * messages. For the owner; no lock. */
#ifndef TP__KNOWN_TURN_H
#define TP__KNOWN_TURN_H

#include "phases/drive/drive.h"

/** How this turn ended, for the last message of its batch. Empty if the library made the id.
 *  @return false without memory. */
bool tp__known_turn_ending(tp__drive *drive, tp_text *ret_ending);
/** Searches for the turn in its session's past, which was loaded.
 *  @return false: the turn runs. True: it is answered from the history, and the next step was begun. */
bool tp__known_turn_answer(tp__drive *drive);

#endif
