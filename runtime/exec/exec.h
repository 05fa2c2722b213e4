/* SPDX-License-Identifier: Apache-2.0
 *
 * exec: the interface of this module: the functions of the engine that `phases` calls, in addition to the entries
 * (entry.h), the runtime (runtime.h) and its memory (blocks.h). It owns nothing: each function, with its locks, belongs
 * to the file that its paragraph names. The other headers of this folder are only for its own files. */
#ifndef TP__EXEC_H
#define TP__EXEC_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

/* ---- inline.c, call.c: a phase, and the call of a handler. The first is for the owner, the second for the thread of
 * the call ---- */

/** Begins an entry and calls its nodes at once, if nothing else is needed to run it. The turn has no listener.
 *  @return NULL, and nothing was done: a node is not on the fast path, or there are parallel nodes; the turn was
 *    cancelled; there is no memory. Otherwise the entry. If the entry has ended, no answer was exceptional, and on_end
 *    is not called. If not, set on_end and ctx, then call tp__entry_go(). */
tp__entry *tp__entry_run_inline(tp__turn *turn, const tp__plan *plan, const tp_field *fields, uint32_t field_count);
/** When the call must have answered. */
int64_t tp__call_deadline(const tp_call *call);

/* ---- turn_table.c: turns. Any thread ---- */

/** Takes a slot, with a pin of the newest snapshot, marked open and not yet referenced. It is zero, except for fields
 *  that the turn before left. @return TP_OK, TP_ERR_SHUTDOWN, TP_ERR_FULL, TP_ERR_NO_MEMORY. */
tp_status tp__turn_table_take(struct tp_runtime *runtime, tp__turn_kind kind, tp__turn **ret_turn);
/** Calls `each` for every open turn of the runtime, with a reference to it. A turn that begins meanwhile may be left
 *  out. */
void tp__runtime_each_turn(tp_runtime *runtime, void (*each)(void *ctx, tp__turn *turn), void *ctx);
/** A number for a turn without an id. */
uint64_t tp__turn_number(struct tp_runtime *runtime);

/* ---- thread_cache.c: the counters of statistics. Any thread ---- */

/** @param index chosen by the caller, below TP__COUNTS. @param by 1, or -1 as an unsigned number. */
void tp__runtime_count(const tp_runtime *runtime, uint32_t index, uint64_t by);
/** The sum of the counts of all threads. */
uint64_t tp__runtime_counted(const tp_runtime *runtime, uint32_t index);

/* ---- report.c: failures, denials and audits, for operators. Owner ---- */

typedef struct tp__report {
  const char *action; /* static text: "failure", "denial", "audit" */
  uint32_t phase;
  const char *subscription; /* as long as the runtime; never NULL */
  const char *owner;
  tp_text subject; /* the thing that the report is about, such as a name in the payload; may be empty */
  tp_text detail;
  tp_status status;
  tp_state state;
  tp_reason reason;
  tp_visibility visibility;
  int64_t duration_ns;
} tp__report;

/** Adds the audit row, and logs it unless level is 0. */
void tp__report_add(const tp__turn *turn, tp_log_level level, const tp__report *report);
/** Whether each attempt is logged. Then no phase takes its fast path. */
static inline bool tp__logs_attempts(const tp_runtime *runtime) {
  const tp_runtime_options *options = tp__runtime_options(runtime);
  return options->log && options->log_level >= TP_LOG_DEBUG;
}

/* ---- records.c, jobs.c: data for the store. Owner ---- */

/** Passes the records that the turn has packed to the store, and records of its entries that have not ended; the
 *  records of their ends will replace those. With durability ASYNC or SYNC. */
void tp__turn_record_entries(tp__turn *turn);
/** Gives the store the record of a turn, which runs (its state says so) or has ended. process_run_id is set here. */
void tp__turn_record_give(tp_runtime *runtime, tp_turn_record *record);
/** Stores a job that a handler of the turn requested by a background_job contribution; a refusal is logged. The job
 *  names a handler, so any phase of that handler may run it. */
tp_reason tp__jobs_add_contributed(const struct tp__turn *turn, const tp_contribution *job);

/* ---- breadcrumb.c: what a thread runs, for an examination after a crash. Only for the thread itself ---- */

enum { TP__BREADCRUMBS = 256 }; /* a power of two */

_Static_assert(sizeof(tp__a32) == sizeof(uint32_t), "a flag of a breadcrumb is written as an atomic");
static inline tp__a32 *tp__breadcrumb_flag(tp_breadcrumb *b) { return (tp__a32 *)(void *)&b->is_running; }
/** The breadcrumb of the calling thread; NULL when the store has none. */
static inline tp_breadcrumb *tp__breadcrumb_here(const tp_runtime *runtime) {
  tp_breadcrumb *all = tp__runtime_breadcrumbs(runtime);
  return all ? &all[tp__thread_number() % TP__BREADCRUMBS] : NULL;
}
/** Says that the calling thread calls a function of the agent layer for a turn.
 *  @return the breadcrumb to leave afterwards; NULL: the store has none. */
tp_breadcrumb *tp__breadcrumb_of_function(const tp__turn *turn, const char *name, int64_t started_ns);
/** When it has returned. */
static inline void tp__breadcrumb_leave(tp_breadcrumb *b) {
  if (b) tp__a32_store_release(tp__breadcrumb_flag(b), 0);
}

#endif
