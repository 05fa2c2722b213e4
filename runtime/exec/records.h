/* SPDX-License-Identifier: Apache-2.0
 *
 * records: passes records of entries and turns to the store. Owner only; calls the store without any lock. */
#ifndef TP__RECORDS_H
#define TP__RECORDS_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

/** Packs the record of an entry that has ended. */
void tp__entry_record(tp__entry *entry);
/** The same, for one that ended on the fast path. */
void tp__entry_record_fast_path(tp__entry *entry);
/** Passes the record of an attempt that the run's row does not describe to the store. The row has its times.
 *  @param message  of its answer, safe to show; may be NULL. */
void tp__entry_record_attempt(tp__entry *entry, uint32_t index, tp_state state, tp_reason reason, const char *message);
/** Passes the records that the turn has packed to the store. */
void tp__turn_flush_records(tp__turn *turn);
/** Records an entry of one node that is about to run; with durability SYNC also commits that. The record at the end of
 *  the entry replaces this one. @return TP_OK; with SYNC the result of the store. */
tp_status tp__entry_record_running(tp__entry *entry);

/** Passes new audit rows to the store, if the store takes them and is open. */
void tp__audit_give(tp_runtime *runtime);

#endif
