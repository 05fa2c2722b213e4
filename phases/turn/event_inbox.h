/* SPDX-License-Identifier: Apache-2.0
 *
 * event_inbox: the events of one listener on their way into an inbox, copied. From the first event that finds no space
 * or no memory, all after it but ends of turns are counted and not put, until the host has taken the one event that
 * stands for them (TP_EVENT_LOST): so that event stands where they would, in the order of each turn, and needs no
 * memory of its own. Where the host has that event, and has not returned it, the end of a turn says itself what was
 * lost before it. Lock: `event_inbox`, for that count; the inbox's is taken inside of it. References: an item in the
 * inbox, or taken from it, holds the listener. */
#ifndef TP__EVENT_INBOX_H
#define TP__EVENT_INBOX_H

#include "phases/turn/listeners.h"
#include "runtime/inbox/inbox.h"

typedef struct tp__event_inbox tp__event_inbox;

/** Where tp_event.copied leads to: the host's own pointers. */
typedef struct tp__event_data {
  void *of_ids[TP_ID_COUNT];
  void *of_runtime;
} tp__event_data;

/** @param listener  whose it will be: it frees it. @param inbox  referenced. @return NULL without memory. */
tp__event_inbox *tp__event_inbox_new(tp__listener *listener, tp_inbox *inbox);
/** With the listener's last reference. Accepts NULL. */
void tp__event_inbox_free(tp__event_inbox *through);
/** Any thread; of one turn its owner, so in order. */
void tp__event_inbox_put(tp__event_inbox *through, const tp_event *event);

#endif
