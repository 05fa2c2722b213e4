/* SPDX-License-Identifier: Apache-2.0
 *
 * event_inbox: copies the events of one listener into an inbox. When an event finds no space or no memory, it is
 * counted and not put, and so are all later events except ends of turns. One event reports their number
 * (TP_EVENT_LOST); its memory exists from the beginning. It is at the place of the lost events, in the order of each
 * turn. When the host has taken it, later events are put again. While the host has not returned it, the end of a turn
 * itself reports the events that were lost before it. Lock: `event_inbox`, for the count of lost events; the inbox's
 * lock is taken under it. References: an item in the inbox, or taken from it, holds the listener. */
#ifndef TP__EVENT_INBOX_H
#define TP__EVENT_INBOX_H

#include "phases/turn/listeners.h"
#include "runtime/inbox/inbox.h"

typedef struct tp__event_inbox tp__event_inbox;

/** The target of tp_event.copied: the host's own pointers. */
typedef struct tp__event_data {
  void *of_ids[TP_ID_COUNT];
  void *of_runtime;
} tp__event_data;

/** @param listener the owner of the result, which frees it. @param inbox referenced. @return NULL without memory. */
tp__event_inbox *tp__event_inbox_new(tp__listener *listener, tp_inbox *inbox);
/** Called with the listener's last reference. Accepts NULL. */
void tp__event_inbox_free(tp__event_inbox *through);
/** Any thread. The events of one turn come from its owner, so they are in order. */
void tp__event_inbox_put(tp__event_inbox *through, const tp_event *event);

#endif
