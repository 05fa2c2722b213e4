/* SPDX-License-Identifier: Apache-2.0
 *
 * talk: the messages of a conversation, as handlers may walk them while the turn goes on. Whenever a phase begins, the
 * owner of a driven turn publishes a list of the messages so far. A list never changes, and stays as long as the turn's
 * memory, even when the history was shortened meanwhile. Published by the owner; read by any thread that has a call of
 * the turn. No lock. */
#ifndef TP__TALK_H
#define TP__TALK_H

#include "phases/model/past.h"

typedef struct tp__drive tp__drive;

/** One state: messages from before the turn, and its own. */
typedef struct tp__talk {
  struct tp__talk *before; /* the state before it */
  tp__past *past;          /* referenced */
  tp_message *const *past_items;
  tp_message *const *own_items;
  size_t past_count, own_count;
  bool is_kept; /* the turn's own messages have become the past's */
} tp__talk;

/** Called when the turn's memory is freed. tp__drive_show_talk() (turn.h) publishes a state. */
void tp__talk_fini(tp__drive *drive);

#endif
