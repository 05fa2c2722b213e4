/* SPDX-License-Identifier: Apache-2.0
 *
 * added: messages of the user that threads of the host add to a turn under way (tp_turn_add_message()). They wait in
 * the drive, in order, until the turn's owner takes them, one after the other, before a request to a model. A turn that
 * is about to end takes none any more: whether it does is decided under the lock, so that what was accepted is never
 * lost. Lock: that of the session. Owns the messages that wait. */
#ifndef TP__ADDED_H
#define TP__ADDED_H

#include "phases/drive/drive.h"

/** Owner: whether any waits. */
bool tp__added_waits(const tp__drive *drive);
/** Owner: from here on the turn takes none, if none waits. @return whether that is so. */
bool tp__added_close_if_none(tp__drive *drive);
/** Owner of a turn that ends: from here on it takes none. What waits stays. */
void tp__added_close(tp__drive *drive);
/** Owner of a closed turn that ends: what waits enters its batch, unanswered, and is reported. Where turn.intake has
 *  subscriptions, which have not seen it, each is followed by a mark that keeps models from reading it.
 *  @return TP_ERR_NO_MEMORY: all of it still waits. */
tp_status tp__added_keep_unanswered(tp__drive *drive, tp__messages *batch);
/** With the drive's memory: drops what waits. */
void tp__added_fini(tp__drive *drive);

#endif
