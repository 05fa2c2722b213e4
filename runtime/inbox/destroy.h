/* SPDX-License-Identifier: Apache-2.0
 *
 * destroy: the destroy function of an object of the host's that names an inbox. It comes there as work and is called
 * when the host releases that, on its thread; where the inbox was freed, the thread that drops the last reference calls
 * it. The memory of the work is made with the object, so that its end needs none. No lock; any thread. */
#ifndef TP__DESTROY_H
#define TP__DESTROY_H

#include "runtime/inbox/inbox.h"

typedef struct tp__destroy tp__destroy;

/** @param inside_of  what a thread that calls destroy is inside of: compared, never followed.
 *  @param inbox      referenced.
 *  @return NULL without memory. */
tp__destroy *tp__destroy_new(const tp_allocator *allocator, const void *inside_of, tp_inbox *inbox, void *ctx,
                             void (*destroy)(void *ctx));
/** The end of the object: the work is put, or destroy is called. Without any lock. Accepts NULL. */
void tp__destroy_now(tp__destroy *destroy);
/** The object stays the host's after all. Accepts NULL. */
void tp__destroy_cancel(tp__destroy *destroy);

#endif
