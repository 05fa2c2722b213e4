/* SPDX-License-Identifier: Apache-2.0
 *
 * destroy: the destroy function of a host's object that names an inbox. The call of the function comes to the inbox as
 * work, and the function runs when the host releases that work, on the host's thread. If the inbox was freed before,
 * the thread that drops the last reference calls it. The memory of the work is allocated with the object, so that the
 * end of the object needs none. No lock; any thread. */
#ifndef TP__DESTROY_H
#define TP__DESTROY_H

#include "runtime/inbox/inbox.h"

typedef struct tp__destroy tp__destroy;

/** @param inside_of  the object that a thread is inside of while it calls destroy (tp__inside): compared, never
 *                    followed.
 *  @param inbox      referenced.
 *  @return NULL without memory. */
tp__destroy *tp__destroy_new(const tp_allocator *allocator, const void *inside_of, tp_inbox *inbox, void *ctx,
                             void (*destroy)(void *ctx));
/** Ends the object: puts the work, or calls destroy. The caller holds no lock. Accepts NULL. */
void tp__destroy_now(tp__destroy *destroy);
/** Cancels: the object stays the host's. Accepts NULL. */
void tp__destroy_cancel(tp__destroy *destroy);

#endif
