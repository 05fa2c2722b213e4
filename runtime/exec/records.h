/* SPDX-License-Identifier: Apache-2.0
 *
 * records: what an entry or a turn that has ended passes to the store. Owner only; calls the store without any lock. */
#ifndef TP__RECORDS_H
#define TP__RECORDS_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

/** Packs the record of an entry that has ended. */
void tp__entry_record(tp__entry *entry);
/** The same, for one that ended on the fast path. */
void tp__entry_record_fast_path(tp__entry *entry);
/** Passes an attempt that the run's row does not describe to the store; the row has its times.
 *  @param message  of its answer, safe to show; may be NULL. */
void tp__entry_record_attempt(tp__entry *entry, uint32_t index, tp_state state, tp_reason reason, const char *message);
/** Passes what the turn has packed to the store. */
void tp__turn_flush_records(tp__turn *turn);
/** Records an entry of one node that is about to run, and with durability SYNC commits that: its record when it has
 *  ended replaces this one. @return TP_OK; with SYNC what the store returned. */
tp_status tp__entry_record_running(tp__entry *entry);

/** Gives the store the audit rows that it does not have yet, where it takes them and is open. */
void tp__audit_give(tp_runtime *runtime);

#endif
