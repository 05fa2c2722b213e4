/* SPDX-License-Identifier: Apache-2.0
 *
 * reminders: the reminders that a session adds to its next request. Owned by a session; used by the owner of its
 * running turn. A request takes at most 16 reminders and 8,000 bytes, in order; it always takes the reasons of blocked
 * actions. The others wait for the next request. At most 64 reminders wait; beyond that, the oldest one that is not
 * such a reason is dropped. */
#ifndef TP__REMINDERS_H
#define TP__REMINDERS_H

#include "phases/merge/merge.h"

typedef struct tp__reminder {
  char *subscription;
  char *text;
  bool block;       /* it says why an action was blocked, and is never cut */
  bool in_request;  /* goes with the request under way */
  uint32_t attempt; /* the attempt of a request whose model.pre contributed it, and which has not succeeded; 0: none */
} tp__reminder;

typedef struct tp__reminders {
  const tp_allocator *allocator;
  tp__reminder *items;
  size_t count, capacity;
  uint32_t dropped; /* ever, for want of space */
  uint32_t attempt; /* the newest of a request */
  bool in_attempt;  /* what is added comes from its model.pre */
} tp__reminders;

void tp__reminders_init(tp__reminders *reminders, const tp_allocator *allocator);
void tp__reminders_fini(tp__reminders *reminders);
/** Adds copies. @return false when there was no memory: the reminder is lost. */
bool tp__reminders_add(tp__reminders *reminders, const char *subscription, tp_text text, bool block);
/** Says whether later reminders come from model.pre of a new attempt of a request (begins). A reminder of a
 *  subscription replaces the subscription's reminders of earlier attempts that failed. A reminder that is not replaced
 *  stays. */
void tp__reminders_set_attempt(tp__reminders *reminders, bool begins);
/** The reminders of this request, as a list for tp__render_reminders(); it points into the reminders. */
bool tp__reminders_take(tp__reminders *reminders, tp__arena *arena, tp__merged_list *ret_list);
/** The request succeeded, so its reminders were delivered. */
void tp__reminders_delivered(tp__reminders *reminders);

#endif
