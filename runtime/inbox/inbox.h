/* SPDX-License-Identifier: Apache-2.0
 *
 * inbox: a bounded queue from which threads of a host take work, with a descriptor that shows whether there is work. It
 * knows items, not the objects that they belong to. Events have a bound of their own. Ends, cancels and destroys have
 * no bound: the memory of each exists before it is needed. References: the host's handle, each registered object that
 * names the inbox, each item that was put in and not yet released. Lock: `inbox`; under it, only the descriptor is
 * called. */
#ifndef TP__INBOX_H
#define TP__INBOX_H

#include "runtime/os/os.h"
#include "turnphase/inbox.h"

/** The inbox's part of an attempt or event; work.kind says which of the two. Zero-filled: it is in no inbox. */
typedef struct tp__inbox_item {
  tp_inbox *inbox; /* referenced, from the put on */
  tp__link link;   /* under the inbox's lock, as waits */
  bool waits;      /* in the queue, or in the line for it */
  bool in_line;
  tp_work work;
} tp__inbox_item;

/** An item that does not belong to an attempt, and that the host releases. */
typedef struct tp__inbox_note {
  tp__inbox_item item;
  /** Called when the item was taken out. @return true: the host gets the item, and ends it by tp_work_release(); false:
   *  the item has ended. Any thread, without a lock. */
  bool (*take)(struct tp__inbox_note *note);
  /** Called when the host has released the item, or when the inbox is freed while it has the item. Any thread, without
   *  a lock. */
  void (*end)(struct tp__inbox_note *note);
} tp__inbox_note;

/** @return NULL: the item is an attempt's. */
static inline tp__inbox_note *tp__inbox_note_of(tp__inbox_item *item) {
  return item->work.kind >= TP_WORK_EVENT ? TP__CONTAINER(item, tp__inbox_note, item) : NULL;
}

/** Reads the options and makes an inbox.
 *  @param owner  the runtime that may register it; compared, never followed.
 *  @param capacity  used when the options set none. */
tp_status tp__inbox_new(const tp_allocator *allocator, const void *owner, const tp_inbox_options *options,
                        uint32_t capacity, tp_inbox **ret_inbox, tp_fault *fault);
/** Whether the pointer is the mark for "the inbox of the session", and no inbox itself. */
static inline bool tp__inbox_is_of_session(const tp_inbox *inbox) { return inbox == TP_INBOX_OF_SESSION; }
/** Resolves that mark. @param of_session NULL: the session has no inbox. @return NULL: the session's inbox is meant,
 *  and there is none. */
static inline tp_inbox *tp__inbox_meant(tp_inbox *named, tp_inbox *of_session) {
  return tp__inbox_is_of_session(named) ? of_session : named;
}
/** Both accept NULL and TP_INBOX_OF_SESSION; these have no references. */
void tp__inbox_ref(tp_inbox *inbox);
void tp__inbox_unref(tp_inbox *inbox);
const tp_allocator *tp__inbox_allocator(const tp_inbox *inbox);
/** TP_INBOX_OF_SESSION belongs to every runtime. */
bool tp__inbox_is_of(const tp_inbox *inbox, const void *owner);
/** A look; any thread. */
bool tp__inbox_is_closed(tp_inbox *inbox);
/** In the child of a fork the descriptor is shared with the parent. */
bool tp__inbox_is_forked(const tp_inbox *inbox);

/** Any thread may take the item from here on. When the inbox is full, the item first waits in a line until there is
 *  space.
 *  @return false when the inbox is closed: nothing was done. */
bool tp__inbox_put(tp_inbox *inbox, tp__inbox_item *item);
typedef enum tp__inbox_put_end { TP__INBOX_PUT = 0, TP__INBOX_FULL = 1, TP__INBOX_CLOSED = 2 } tp__inbox_put_end;
/** The same for an event. @param beyond  how many may wait above the capacity for events. */
tp__inbox_put_end tp__inbox_put_event(tp_inbox *inbox, tp__inbox_note *event, uint32_t beyond);
/** The same for an end, a cancel or a destroy, for which there is always space. @return false: closed. */
bool tp__inbox_put_note(tp_inbox *inbox, tp__inbox_note *note);
/** @return whether the item was still waiting; then it will not be taken. */
bool tp__inbox_withdraw(tp__inbox_item *item);
/** The item that has waited longest; NULL when none waits. */
tp__inbox_item *tp__inbox_take(tp_inbox *inbox);
/** Refuses later items, and closes the descriptor. Waiting items may still be taken. */
void tp__inbox_close(tp_inbox *inbox);

#ifdef TP_SIM
/** The host's poll(). @return false when deadline_ns has passed and nothing waits. */
bool tp__inbox_wait_until(tp_inbox *inbox, int64_t deadline_ns);
#endif

#endif
