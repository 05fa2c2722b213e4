/* SPDX-License-Identifier: Apache-2.0
 *
 * inspect.h: for operators and tools: what is registered, how the plans look, what ran.
 * Threads: any. Callbacks come on the calling thread, before the call returns. */
#ifndef TURNPHASE_INSPECT_H
#define TURNPHASE_INSPECT_H

#include "turnphase/turn.h"

TP_BEGIN_DECLS

/** Receives printed text piece by piece; borrowed till return. Threads: the calling one. */
typedef void (*tp_print_fn)(void *ctx, const char *text, size_t size);

/** How plans are printed. */
typedef enum tp_plan_format {
  TP_PLAN_TABLE = 0,
  TP_PLAN_JSON = 1,
  TP_PLAN_DOT = 2,
  TP_PLAN_FORCE_32 = 0x7fffffff
} tp_plan_format;

/** Prints the plans of the newest snapshot: for each phase the subscriptions in plan order with level, policies,
 *  limits, placement, edges, the alias that they came through and what the kill switch has switched off; after them
 *  those that are disabled, marked so; critical path, worst case, budget and hash.
 *  @param phase  0: every phase that has subscriptions, enabled or not.
 *  @return TP_OK; TP_ERR_UNKNOWN_PHASE; TP_ERR_NO_MEMORY.
 *  Threads: any. */
TP_API tp_status tp_plan_print(const tp_runtime *runtime, tp_phase_id phase, tp_plan_format format, tp_print_fn print,
                               void *ctx) TP_MUST_USE;

/** Prints the table of phases (TP_PLAN_TABLE or TP_PLAN_JSON), with their aliases, how many subscriptions each has,
 *  through which alias, and how many of these are disabled or switched off. Threads: any. */
TP_API tp_status tp_phases_print(const tp_runtime *runtime, tp_plan_format format, tp_print_fn print,
                                 void *ctx) TP_MUST_USE;

/** A registered subscription, with its policies as resolved. struct_size is set by the library. Everything is
 *  borrowed till the callback returns. */
typedef struct tp_subscription_info {
  size_t struct_size;
  const char *id;
  const char *handler; /* its id */
  const char *owner;
  tp_trust trust; /* of the owner, as are the grants */
  tp_phase_id phase;
  tp_grant grants;
  const char *phase_name;
  const char *alias;      /* the name of the phase through which it was subscribed; empty: its own */
  bool disabled;          /* disabled by its owner or by a later edit: no plan has it */
  bool killed;            /* skipped by the operator's kill switch */
  bool sequential;        /* as resolved */
  bool tripped;           /* its breaker was opened by the operator */
  bool breaker_open;      /* its breaker has opened by itself, and no call is let through now */
  uint8_t reserved_[3];   /* zero */
  tp_execution execution; /* this and what follows as resolved: never 0 */
  tp_failure failure;
  tp_placement placement; /* of its handler */
  uint32_t limit_ms;
  uint32_t max_concurrent; /* 0: it needs no permit */
  uint32_t attempts;
  int32_t priority;
  tp_visibility visibility;
  uint32_t order;              /* its rank in the plan, from 1; 0: disabled */
  int32_t level;               /* the longest path of edges to it, from 0; -1: disabled */
  const char *match;           /* the description of its match; empty: none */
  const char *metadata;        /* tp_subscription.metadata; empty: none */
  const tp_edge *const *after; /* as subscribed: after_count pointers */
  const tp_edge *const *before;
  const tp_edge *const *needs;
  size_t after_count, before_count, needs_count;
  const char *origin_file; /* of its handler; NULL: not known */
  uint32_t origin_line;    /* 0: not known */
  tp_handler_kind kind;    /* of its handler; never 0 */
} tp_subscription_info;
/** Receives a subscription; false stops the walk. Threads: the calling one. */
typedef bool (*tp_subscription_fn)(void *ctx, const tp_subscription_info *info);

/** Which subscriptions to show. Zero or NULL: any. */
typedef struct tp_subscription_query {
  size_t struct_size;
  const char *owner; /* its name */
  tp_trust trust;
  tp_phase_id phase;
  uint32_t only_enabled; /* 1: without the disabled ones */
  uint32_t reserved_;    /* zero */
} tp_subscription_query;

/** Walks the matching subscriptions of the newest snapshot: phase by phase, the enabled ones in the order of the plan,
 *  then the disabled ones in the order in which they were registered. The walk reads one snapshot: a concurrent
 *  commit does not change it. killed is the current state of the kill switch.
 *  @param query  NULL: all.
 *  @param each   required; called without any lock; may call functions that do not wait, also those of an edit.
 *  @return TP_OK, also when there are none; TP_ERR_UNKNOWN_PHASE; TP_ERR_USAGE without each, for an unknown trust and
 *          for an only_enabled that is neither 0 nor 1; TP_ERR_VERSION; TP_ERR_FORKED.
 *  Threads: any.   Blocks: no. */
TP_API tp_status tp_runtime_subscriptions(const tp_runtime *runtime, const tp_subscription_query *query,
                                          tp_subscription_fn each, void *ctx, tp_fault *fault) TP_MUST_USE;

/** Walks the audit: the newest 1,024 rows of registration and the newest 1,024 rows of runs, merged, oldest first. The
 *  two are kept apart, so that failing handlers never displace a commit.
 *  @param visibility_min  rows of subscriptions of lower visibility are left out; with TP_VISIBILITY_INTERNAL no row is
 *          left out.
 *  @param each  may be NULL. Must not begin anything of the runtime.
 *  @return how many there are, or up to the one at which each stopped. Threads: any. */
TP_API size_t tp_runtime_audit(const tp_runtime *runtime, tp_visibility visibility_min, tp_audit_fn each, void *ctx);

/** Adds a row about what the host has decided, such as whom it trusts. It counts among the rows of registration. A row
 *  that is added before the start is given to the store at the start, or by tp_runtime_free() of a runtime that never
 *  started. An action that the host adds again and again, such as one for each call, displaces commits: the host bounds
 *  it.
 *  @param owner     who decided: an id.
 *  @param action    1 to 31 lower-case letters, digits, '_' or '.'; "trust" is also that of declared hooks.
 *  @param detail    UTF-8; redacted (TP_REDACT_AUDIT), then cut at 255 bytes.
 *  @param decision  TP_OK, or the status of what was refused.
 *  @return TP_OK; TP_ERR_USAGE for an action of another form and an unknown decision; TP_ERR_BAD_ID; TP_ERR_UTF8;
 *          TP_ERR_FORKED; TP_ERR_SHUTDOWN. A store that does not take the row is a line of the log.
 *  Threads: any.   Blocks: as the store's audit().   From a hook: yes; not from the callback that redacts. */
TP_API tp_status tp_runtime_audit_add(tp_runtime *runtime, const char *owner, const char *action, tp_text detail,
                                      tp_status decision, tp_fault *fault) TP_MUST_USE;

/** Walks the matching records of entries in the store, newest first; false from each stops the walk. A turn passes its
 *  records to the store in batches, the last ones at its end. Records of turns that one thread ran alternately are in
 *  the order in which the batches were passed.
 *  @param query  NULL: all of them.
 *  @return TP_OK; TP_ERR_VERSION for a query of a wrong size; TP_ERR_USAGE for an unknown visibility_min;
 *          TP_ERR_STORE where the store cannot read; TP_ERR_NO_MEMORY; TP_ERR_FORKED.
 *  Threads: any.   Blocks: as the store does. */
TP_API tp_status tp_runtime_records(const tp_runtime *runtime, const tp_record_query *query, tp_record_fn each,
                                    void *ctx, tp_fault *fault) TP_MUST_USE;
/** Makes the store commit the records that turns have passed to it so far.
 *  @return TP_OK, also where the store has nothing to commit; what the store returns; TP_ERR_FORKED.   Threads: any.
 *  Blocks: as the store does. */
TP_API tp_status tp_runtime_records_commit(tp_runtime *runtime, tp_fault *fault) TP_MUST_USE;

/** Walks the matching records of driven turns in the store, newest first; false from each stops the walk. A turn's
 *  record is there when its end is notified.
 *  @param query  NULL: all of them.
 *  @return as tp_runtime_records().   Threads: any.   Blocks: as the store does. */
TP_API tp_status tp_runtime_turns(const tp_runtime *runtime, const tp_turn_query *query, tp_turn_record_fn each,
                                  void *ctx, tp_fault *fault) TP_MUST_USE;
/** Walks the matching records of driven turns that run, or that ran when their process ended (tp_turn_record.state), of
 *  this runtime and of any other with the same store; the one that was written last comes first; false from each stops
 *  the walk. They are written with durability ASYNC and SYNC only (tp_store.turn_running).
 *  @param query  NULL: all of them.
 *  @return as tp_runtime_records().   Threads: any.   Blocks: as the store does. */
TP_API tp_status tp_runtime_turns_running(const tp_runtime *runtime, const tp_turn_query *query, tp_turn_record_fn each,
                                          void *ctx, tp_fault *fault) TP_MUST_USE;

/** Lists background jobs by rising id; false from each stops the walk. A concurrent change may be seen or not.
 *  @param query  NULL: the open ones and the dead letters, without their payloads.
 *  @return TP_OK; TP_ERR_VERSION for a query of a wrong size; TP_ERR_STORE where the store cannot list; TP_ERR_FORKED.
 *  Threads: any; each is called on the calling one and may call anything that does not wait.
 *  Blocks: as the store does. */
TP_API tp_status tp_jobs_list(const tp_runtime *runtime, const tp_job_query *query, tp_job_each_fn each, void *ctx,
                              tp_fault *fault) TP_MUST_USE;
/** Makes a dead letter an open job again. It becomes the newest job of its order key, and has all its attempts again.
 *  @return TP_OK; TP_ERR_NOT_FOUND when there is no such dead letter; TP_ERR_FULL; TP_ERR_STORE; TP_ERR_FORKED.
 *  Threads: any.   Blocks: as the store does. */
TP_API tp_status tp_job_redrive(tp_runtime *runtime, uint64_t id, tp_fault *fault) TP_MUST_USE;
/** Discards a job that waits, or a dead letter: its payload is deleted, its key stays known for a while.
 *  @return TP_OK; TP_ERR_NOT_FOUND when it has ended or never was; TP_ERR_BUSY while it runs; TP_ERR_STORE;
 *          TP_ERR_FORKED.   Threads: any.   Blocks: as the store does. */
TP_API tp_status tp_job_discard(tp_runtime *runtime, uint64_t id, tp_fault *fault) TP_MUST_USE;

/** Counters since the start of the runtime, and current numbers (marked "now"). The caller sets struct_size. Fields
 *  that a shorter struct does not have are not written, further fields of a longer one are zeroed, and struct_size is
 *  set to the size that was filled. Each number is exact; two of them may be of different moments. */
typedef struct tp_runtime_stats {
  size_t struct_size;
  /** Now: those that run or wait, and those that their hosts drive. */
  uint64_t turns_open;
  /** Now: deferred handlers, tools and model calls whose token was not completed, also when the turn no longer
   *  waits for it. A token that its own function completed counts until that function returns. */
  uint64_t tokens_open;
  /** Now. */
  uint64_t attempts_abandoned;
  /** Now. */
  uint64_t handler_threads;
  /** Runs of background jobs that have ended; each attempt counts. */
  uint64_t jobs_run;
  /** Now: queued or running in the store. */
  uint64_t jobs_open;
  /** Jobs that failed for good: dead letters. */
  uint64_t jobs_dead;
  /** Jobs that the store did not take. Where an entry waited for space, the job counts when that wait is over. */
  uint64_t jobs_refused;
  /** Now: those whose close has not ended. */
  uint64_t sessions_open;
  /** Now: turns, and ends of sessions, that wait for the turn before them in their session. */
  uint64_t turns_queued;
  /* Turns of tp_turn_run() and tp_turn_submit() that have ended, by outcome; those that never began among them. */
  uint64_t turns_completed, turns_failed, turns_denied, turns_cancelled, turns_timed_out;
  /** Denials by handlers, and of tool calls by policies. */
  uint64_t denials;
  /** Runs of handlers that did not answer, whatever the reason. */
  uint64_t failures;
  /** Now: calls of handlers, tools, models, histories and jobs that are ready and wait for a handler thread or for
   *  a permit (max_concurrent); not what waits in an inbox. */
  uint64_t attempts_waiting;
  /** Now: turns that wait because tp_runtime_options.turns_running_max run. */
  uint64_t turns_waiting;
  /** Turns that were refused because they would have waited too long, or too many of their tenant waited. */
  uint64_t turns_refused;
  /** Runs of handlers that were shed because too many calls waited for a handler thread
   *  (tp_runtime_options.handler_queue_max). Refused turns are among turns_refused. */
  uint64_t attempts_shed;
  /** Breakers of subscriptions that opened by themselves: see tp_subscription_trip(). */
  uint64_t breakers_opened;
  /** Runs of background jobs that were postponed (tp_call_postpone()), and do not count as attempts. */
  uint64_t jobs_postponed;
  /** Detached runs that were skipped for want of space (TP_BACKLOG_SHED). */
  uint64_t jobs_shed;
  /** Now: entries that wait for space in the backlog of jobs (TP_BACKLOG_WAIT). */
  uint64_t jobs_in_line;
} tp_runtime_stats;
/** With a struct_size that is not set nothing is written. After tp_runtime_free() and in the child of a fork every
 *  counter is 0. Threads: any. */
TP_API void tp_runtime_stats_get(const tp_runtime *runtime, tp_runtime_stats *stats);

TP_END_DECLS
#endif
