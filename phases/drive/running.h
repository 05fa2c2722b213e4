/* SPDX-License-Identifier: Apache-2.0
 *
 * running: what a driven turn does before it has ended, for its store (tp_store.turn_running): a record with its open
 * steps, and records of its open entries. With durability ASYNC a timer of the turn's strand gives them when the turn
 * has run for 250 ms and something has changed, and then at most every 250 ms: a shorter turn costs one entry in a
 * list. With SYNC they are given when the owner has nothing left to do, which is when the turn begins to wait. Nothing
 * waits for the store. Owner only. */
#ifndef TP__RUNNING_H
#define TP__RUNNING_H

#include "phases/drive/drive.h"

/** The turn has begun. */
void tp__running_begin(tp__drive *drive);
/** Lists the timer, where it is not. */
void tp__running_arm(tp__drive *drive);
/** A step, a request or a call has begun or ended. */
static inline void tp__running_changed(tp__drive *drive) {
  if (drive->shows_running && tp__list_empty(&drive->running_timer.link)) tp__running_arm(drive);
}
/** The turn ends: nothing is given from here on. */
void tp__running_end(tp__drive *drive);

/** What the records of a turn that runs, and of one that has ended, have in common.
 *  @param ended_ns  now, or its end. */
tp_turn_record tp__drive_record(const tp__drive *drive, int64_t ended_ns);

#endif
