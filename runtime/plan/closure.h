/* SPDX-License-Identifier: Apache-2.0
 *
 * closure: what a copy of a host's struct holds of the host's beyond its bytes: an object with its destroy function,
 * and an inbox. Counted, since copies of one struct are made in several places: the entry that a tool was emitted in,
 * the turn's tools, an attempt of the tool. The first copy makes it; destroy is called once, without any lock, when the
 * last reference goes. No lock; any thread. */
#ifndef TP__CLOSURE_H
#define TP__CLOSURE_H

#include "runtime/inbox/inbox.h"

typedef struct tp__closure tp__closure;

/** A place whose end unrefs the closures in it. */
typedef struct tp__closure_home {
  const tp_allocator *allocator; /* copied into each */
  const void *inside_of;         /* what a thread that runs destroy is inside of: compared, never followed */
  const void *inbox_owner;       /* whose an inbox must be: tp__inbox_is_of() */
  tp_inbox *of_session;          /* of the turn, where it is one's; NULL: none */
  tp__aptr *closures;            /* acq_rel: the newest of a list; NULL at first */
} tp__closure_home;

/** With one reference. @param inbox  referenced; may be NULL. @param destroy  may be NULL.
 *  @return NULL without memory. */
tp__closure *tp__closure_new(const tp__closure_home *home, tp_inbox *inbox, void *ctx, void (*destroy)(void *ctx));
/** Accepts NULL. */
tp__closure *tp__closure_ref(tp__closure *closure);
/** Accepts NULL. */
void tp__closure_unref(tp__closure *closure);
/** Frees what was not taken after all, without destroy. The caller has the only reference. Accepts NULL. */
void tp__closure_cancel(tp__closure *closure);

/** The home has the caller's reference from now on. Any thread. */
void tp__closure_add(const tp__closure_home *home, tp__closure *closure);
/** The end of a home: no thread adds any more. */
void tp__closures_unref(tp__aptr *closures);
/** The same of a home that was never used: nothing of it was taken after all. */
void tp__closures_cancel(tp__aptr *closures);

#endif
