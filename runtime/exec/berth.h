/* SPDX-License-Identifier: Apache-2.0
 *
 * berth: where turns that hosts begin live, one after the other. A berth is memory that stays a turn's as long as the
 * runtime is there, so that whoever drains or cancels can walk all of them while turns begin and end, and turns need
 * neither a list nor its lock. What is open is told by two words of the turn itself, `open` and `refs`.
 *
 * How many may be open is counted in places. Threads have some of them at hand (kept.h), take one at the begin and get
 * one at the end; who runs out asks for more, and only when there are none in the middle are all threads' counted. A
 * place that comes free on one thread while the others' are being counted may be missed.
 * Locks: `kept` of the calling thread; `berths` for the rest. */
#ifndef TP__BERTH_H
#define TP__BERTH_H

#include "runtime/exec/kept.h"
#include "runtime/exec/turn.h"

typedef struct tp__berths {
  /* never changes after init */
  const tp_allocator *allocator;
  const tp__keep *keep;
  size_t berth_size;
  uint32_t lot; /* places that a thread asks for at once */
  /* atomic: release by who adds one, under mutex; acquire by who walks */
  tp__aptr slabs;
  tp__a64 turn_numbers_taken, entry_ids_taken; /* relaxed: they need only differ */
  tp__mutex mutex;
  /* under mutex */
  tp__depot depot;
  uint32_t places;
} tp__berths;

/** @param turn_size  of what has a tp__turn first; @param places  turns that may be open at once. */
tp_status tp__berths_init(tp__berths *berths, const tp_allocator *allocator, const tp__keep *keep, size_t turn_size,
                          uint32_t places);
void tp__berths_fini(tp__berths *berths);

/** A berth with a pin of the newest snapshot, marked open and not yet referenced; zero but for what a turn before it
 *  left. @return TP_OK, TP_ERR_SHUTDOWN, TP_ERR_FULL, TP_ERR_NO_MEMORY. */
tp_status tp__berth_take(struct tp_runtime *runtime, tp__turn_kind kind, tp__turn **ret_turn);
/** Gives it back, with the pin, and with its place unless that was given back before. */
void tp__berth_give(tp__turn *turn);
/** The turn is not open any more; others may still hold it. */
void tp__berth_close(tp__turn *turn);

/** Calls each for every turn that is open, and held meanwhile; a turn that is being born may be left out. */
void tp__berths_each(tp__berths *berths, void (*each)(void *ctx, tp__turn *turn), void *ctx);
/** How many are open, those that are being born counted. */
uint64_t tp__berths_count(tp__berths *berths, tp__turn_kind kind);
/** Whether an operation of an open turn is under way. */
bool tp__berths_busy(tp__berths *berths);
/** After this nothing is begun that did not see what the caller wrote before: see tp__berth_take(). */
void tp__berths_fence(tp__berths *berths);

/** A number for a turn without an id. */
uint64_t tp__turn_number(struct tp_runtime *runtime);
/** A lot of ids for entries: those behind what is returned, up to *ret_last. */
uint64_t tp__entry_ids_take(struct tp_runtime *runtime, uint32_t count, uint64_t *ret_last);

#endif
