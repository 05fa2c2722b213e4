/* SPDX-License-Identifier: Apache-2.0
 *
 * talk: what was said in a conversation, as handlers may walk it while the turn goes on. The owner of a driven turn
 * shows a list of what there is whenever a phase begins. A list never changes and stays as long as the turn's memory,
 * also when the history was made shorter meanwhile. Shown by the owner; read by any thread that has a call of the turn.
 * No lock. */
#ifndef TP__TALK_H
#define TP__TALK_H

#include "phases/model/past.h"

typedef struct tp__drive tp__drive;

/** One state: messages of before the turn, and its own. */
typedef struct tp__talk {
  struct tp__talk *before; /* the state before it */
  tp__past *past;          /* referenced */
  tp_message *const *past_items;
  tp_message *const *own_items;
  size_t past_count, own_count;
  bool is_kept; /* its own messages have become the past's */
} tp__talk;

/** With the turn's memory. tp__drive_show_talk() (turn.h) shows a state. */
void tp__talk_fini(tp__drive *drive);

#endif
