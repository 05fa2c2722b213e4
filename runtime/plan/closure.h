/* SPDX-License-Identifier: Apache-2.0
 *
 * closure: the objects of the host that a copy of a host's struct holds: an object with its destroy function, and an
 * inbox. Closures are counted, because copies of one struct are made in several places: the entry in which a tool was
 * emitted, the turn's tools, an attempt of the tool. The first copy makes the closure. destroy is called once, without
 * any lock, when the last reference is dropped. No lock; any thread. */
#ifndef TP__CLOSURE_H
#define TP__CLOSURE_H

#include "runtime/inbox/inbox.h"

typedef struct tp__closure tp__closure;

/** A list of closures with its owner; at the end of the home they are unreferenced. */
typedef struct tp__closure_home {
  const tp_allocator *allocator; /* copied into each */
  const void *inside_of;   /* the object that a thread is inside of while it runs destroy: compared, never followed */
  const void *inbox_owner; /* the owner that an inbox must have: tp__inbox_is_of() */
  tp_inbox *of_session;    /* the inbox of the turn's session; NULL: none */
  tp__aptr *closures;      /* acq_rel: the newest closure of a list; NULL at first */
} tp__closure_home;

/** Makes a closure with one reference. @param inbox referenced; may be NULL. @param destroy may be NULL.
 *  @return NULL without memory. */
tp__closure *tp__closure_new(const tp__closure_home *home, tp_inbox *inbox, void *ctx, void (*destroy)(void *ctx));
/** Accepts NULL. */
tp__closure *tp__closure_ref(tp__closure *closure);
/** Accepts NULL. */
void tp__closure_unref(tp__closure *closure);
/** Frees a closure whose objects stay the host's after all, without destroy. The caller has the only reference. Accepts
 *  NULL. */
void tp__closure_cancel(tp__closure *closure);

/** The home takes over the caller's reference. Any thread. */
void tp__closure_add(const tp__closure_home *home, tp__closure *closure);
/** The end of a home: no thread adds closures any more. */
void tp__closures_unref(tp__aptr *closures);
/** As tp__closures_unref(), for a home that was never used: its objects stay the host's. */
void tp__closures_cancel(tp__aptr *closures);

#endif
