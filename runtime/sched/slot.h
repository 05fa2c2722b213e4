/* SPDX-License-Identifier: Apache-2.0
 *
 * slot: finds the attempt of a token. Slots are in a process-wide slab that is recycled and never freed. So a token may
 * be completed at any time, also after its strand and its sched are gone. A slot's word has its generation and its
 * state. The thread that moves the word from OPEN wins the attempt. The handler, the holder of a token and the owner's
 * clock race only on that one compare-and-swap.
 *
 *   FREE -> OPEN       tp__slot_open      the owner, or the thread that runs the handler
 *   OPEN -> CLAIMED    tp__slot_claim     the answer came in time; the claimer pushes the attempt to its owner
 *   OPEN -> ABANDONED  tp__slot_abandon   the owner's deadline or cancel came first
 *   ABANDONED -> LATE  tp__slot_late      the discarded answer came after all
 *   CLAIMED, ABANDONED, LATE -> FREE      tp__slot_close, with the next generation
 *
 * Lock: `slots`, for the free list, for the move to LATE and for waiting until a LATE slot is closed. */
#ifndef TP__SLOT_H
#define TP__SLOT_H

#include "runtime/os/os.h"

struct tp__attempt;
struct tp__attempt_class;
struct tp__sched;

/** Takes a slot for the attempt. @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__slot_open(struct tp__attempt *attempt, const struct tp__sched *sched, tp_token *ret_token);
/** Any thread, any time. @return the attempt when this call won it, else NULL. */
struct tp__attempt *tp__slot_claim(tp_token token);
/** The owner. @return true when this call won it. */
bool tp__slot_abandon(tp_token token);
/** Any thread: the first answer to an abandoned attempt. @return the attempt, to the first caller, which calls
 *  tp__slot_close() at the end; NULL to others. */
struct tp__attempt *tp__slot_late(tp_token token);
/** Any thread: adds a reference to the attempt of an OPEN token. Also counts the caller as a completer of its sched, so
 *  that the sched stays. @return NULL when the token is not OPEN. */
struct tp__attempt *tp__slot_hold(tp_token token);
/** Any thread: a look. */
bool tp__slot_is_open(tp_token token);
/** Any thread. @return true when no answer has come so far, in time or late. May be out of date at once. */
bool tp__slot_is_unanswered(tp_token token);
/** Any thread. @return the class of the attempt when the token is open and the class is another one. May be out of date
 *  at once. */
const struct tp__attempt_class *tp__slot_of_another(tp_token token, const struct tp__attempt_class *class);
/** Any thread: calls `each` for each attempt of the sched whose token may still be completed, in time or late. Under
 *  the lock: `each` is short and calls nothing else of this module. */
void tp__slots_each_deferred(const struct tp__sched *sched, void (*each)(void *ctx, const struct tp__attempt *attempt),
                             void *ctx);
/** Frees the slot; every copy of the token is stale from now on. */
void tp__slot_close(tp_token token);
/** Takes one abandoned slot of the sched whose attempt deferred, as tp__slot_late() would. Before that, waits until no
 *  slot of the sched is LATE. @return NULL when there is none left. */
struct tp__attempt *tp__slot_late_any(const struct tp__sched *sched, tp_token *ret_token);

#ifdef TP_SIM
/** How many slots are not free. Called outside of a run. */
uint32_t tp__slots_in_use(void);
#endif

#endif
