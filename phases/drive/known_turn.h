/* SPDX-License-Identifier: Apache-2.0
 *
 * known_turn: a turn whose id the history has. It is answered from there: its result is the stored one, and no handler,
 * request or tool runs, but for turn.post_turn of a run whose process died before it. The last message of a turn whose
 * host gave it an id carries how the turn ended (tp_message.ending); of a history that does not keep that, the result
 * is made of the messages. The owner's; no lock. */
#ifndef TP__KNOWN_TURN_H
#define TP__KNOWN_TURN_H

#include "phases/drive/drive.h"

/** How this turn ended, for the last message of its batch. Empty where the library made the id.
 *  @return false without memory. */
bool tp__known_turn_ending(tp__drive *drive, tp_text *ret_ending);
/** Looks for the turn in its session's past, which was loaded.
 *  @return false: the turn runs. True: it goes another way, and what follows was begun. */
bool tp__known_turn_answer(tp__drive *drive);

#endif
