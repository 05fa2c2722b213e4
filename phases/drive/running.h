/* SPDX-License-Identifier: Apache-2.0
 *
 * running: reports a driven turn to its store before the turn has ended (tp_store.turn_running): a record with its open
 * steps, and records of its open entries. With durability ASYNC, a timer of the turn's strand passes them when the turn
 * has run for 250 ms and something has changed, and then at most every 250 ms. So a shorter turn costs only one entry
 * in a list. With SYNC they are passed when the owner has nothing left to do, so when the turn begins to wait. The turn
 * does not wait for the store. Owner only. */
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
/** The turn ends: from here on nothing is passed. */
void tp__running_end(tp__drive *drive);

/** The fields that the records of a running turn and of an ended turn share.
 *  @param ended_ns  the current time, or the end of the turn. */
tp_turn_record tp__drive_record(const tp__drive *drive, int64_t ended_ns);

#endif
