/* SPDX-License-Identifier: Apache-2.0
 *
 * added: messages of the user that threads of the host add to a running turn (tp_turn_add_message()). They wait in the
 * drive, in order. Before a request to a model, the turn's owner takes them, one after the other. A turn that is about
 * to end accepts none any more. That is decided under the lock, so an accepted message is never lost. Lock: that of the
 * session. Owns the waiting messages. */
#ifndef TP__ADDED_H
#define TP__ADDED_H

#include "phases/drive/drive.h"

/** Owner: whether any waits. */
bool tp__added_waits(const tp__drive *drive);
/** Owner: if none waits, the turn accepts none from here on. @return whether that is so. */
bool tp__added_close_if_none(tp__drive *drive);
/** Owner of a turn that ends: from here on the turn accepts none. Waiting messages stay. */
void tp__added_close(tp__drive *drive);
/** Owner of an ending turn that accepts none any more: waiting messages enter its batch, unanswered, and are reported.
 *  If turn.intake has subscriptions, they have not seen these messages; then each message is followed by a mark that
 *  keeps models from reading it.
 *  @return TP_ERR_NO_MEMORY: all messages still wait. */
tp_status tp__added_keep_unanswered(tp__drive *drive, tp__messages *batch);
/** Called when the drive's memory is freed: drops the waiting messages. */
void tp__added_fini(tp__drive *drive);

#endif
