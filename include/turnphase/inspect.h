/* SPDX-License-Identifier: Apache-2.0
 *
 * inspect.h: for operators and tools: what is registered, how the plans look, what ran.
 * Threads: any. Callbacks come on the calling thread, before the call returns. */
#ifndef TURNPHASE_INSPECT_H
#define TURNPHASE_INSPECT_H

#include "turnphase/turn.h"

TP_BEGIN_DECLS

/** Receives printed text piece by piece; borrowed till return. */
typedef void (*tp_print_fn)(void *ctx, const char *text, size_t size);

typedef enum tp_plan_format {
  TP_PLAN_TABLE = 0,
  TP_PLAN_JSON = 1,
  TP_PLAN_DOT = 2,
  TP_PLAN_FORCE_32 = 0x7fffffff
} tp_plan_format;

/** Prints the plans of the newest snapshot: for each phase the subscriptions in plan order with level, policies,
 *  limits, placement, edges; critical path, worst case, budget and hash.
 *  @param phase  0: every phase that has subscriptions.
 *  @return TP_OK; TP_ERR_UNKNOWN_PHASE; TP_ERR_NO_MEMORY. */
TP_API tp_status tp_plan_print(tp_runtime *runtime, uint32_t phase, tp_plan_format format, tp_print_fn print,
    void *ctx) TP_MUST_USE;

/** Prints the table of phases (TP_PLAN_TABLE or TP_PLAN_JSON), with their aliases and how many subscriptions each has.
 *  */
TP_API tp_status tp_phases_print(tp_runtime *runtime, tp_plan_format format, tp_print_fn print, void *ctx) TP_MUST_USE;

/** An audit row: who registered what. Pointers are borrowed till the callback returns. */
typedef struct tp_audit {
  int64_t unix_ms;
  const char *owner;
  const char *action;           /* "commit", "kill_switch" */
  const char *detail;           /* what changed, or why it was refused */
  tp_status outcome;
  uint64_t snapshot_hash;
} tp_audit;
/** The newest 1,024 rows, oldest first. @param each  may be NULL. @return how many. Threads: any. */
TP_API size_t tp_runtime_audit(tp_runtime *runtime, void (*each)(void *ctx, const tp_audit *row), void *ctx);

/** The newest entry records, newest first; false stops. A turn hands its own over some at a time, the last ones with
 *  its end; those of turns that one thread ran by turns lie in the order in which they were handed over.
 *  @return as the store's records(). */
TP_API tp_status tp_runtime_records(tp_runtime *runtime, size_t limit, bool (*each)(void *ctx,
    const tp_entry_record *record), void *ctx) TP_MUST_USE;

/** Counters since the start of the runtime. Filled up to struct_size. */
typedef struct tp_runtime_stats {
  size_t struct_size;
  uint64_t turns_open;
  uint64_t tokens_open;
  uint64_t attempts_abandoned;  /* now */
  uint64_t handler_threads;     /* now */
  uint64_t jobs_run;            /* runs of background jobs that have ended, each attempt of one */
} tp_runtime_stats;
TP_API void tp_runtime_stats_get(tp_runtime *runtime, tp_runtime_stats *stats);

TP_END_DECLS
#endif
