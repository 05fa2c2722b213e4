/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h: for authors of stores: the history of sessions, run records and background jobs. The memory store in the
 * core is the reference; all stores pass one conformance suite (tests/store/).
 * Threads: any. The functions of a store come on any thread, several at once. */
#ifndef TURNPHASE_STORE_H
#define TURNPHASE_STORE_H

#include "turnphase/model.h"

TP_BEGIN_DECLS

/** Receives loaded messages in order; the message is borrowed till return. Non-zero stops and is handed back. */
typedef tp_status (*tp_message_fn)(void *ctx, const tp_message *message);

/** Where the messages of sessions live. Called on handler threads, one call per session at a time. */
typedef struct tp_history {
  size_t struct_size;
  void *self;
  /** Gives every message of the session in order to each. An unknown session has none. */
  tp_status (*load)(void *self, tp_text tenant, tp_text session, tp_message_fn each, void *ctx, tp_fault *fault);
  /** Appends a batch atomically: all of it or nothing. */
  tp_status (*append)(void *self, tp_text tenant, tp_text session, const tp_message *messages, size_t count,
      tp_fault *fault);
  /** Exactly once, when the runtime lets go of it. May be NULL. */
  void (*destroy)(void *self);
} tp_history;

/** A history in memory; ends with its destroy. */
TP_API tp_status tp_memory_history_new(const tp_allocator *allocator, tp_history *ret_history,
    tp_fault *fault) TP_MUST_USE;

/** How an attempt or a subscription without one ended. Numbers are stored. */
typedef enum tp_state {
  TP_STATE_NONE = 0,
  TP_STATE_QUEUED = 1,
  TP_STATE_RUNNING = 2,
  TP_STATE_SUCCEEDED = 3,
  TP_STATE_FAILED = 4,
  TP_STATE_TIMED_OUT = 5,
  TP_STATE_CANCELLED = 6,
  TP_STATE_BACKGROUNDED = 7,  /* detached: started or committed */
  TP_STATE_INTERRUPTED = 8,
  TP_STATE_SKIPPED = 9,
  TP_STATE_FORCE_32 = 0x7fffffff
} tp_state;

/** Why. Numbers are stored. Every way of not answering is a failure with a reason; skipped means there was no duty. */
typedef enum tp_reason {
  TP_REASON_NONE = 0,
  TP_REASON_ERROR = 1,
  TP_REASON_TIMEOUT = 2,
  TP_REASON_CRASH = 3,
  TP_REASON_KILLED = 4,
  TP_REASON_CANNOT_START = 5,
  TP_REASON_MALFORMED = 6,
  TP_REASON_CAPABILITY = 7,
  TP_REASON_NO_PERMIT = 8,
  TP_REASON_NO_WORKER = 9,
  TP_REASON_BREAKER_OPEN = 10,
  TP_REASON_SHED = 11,
  TP_REASON_NO_MEMORY = 12,
  TP_REASON_STORE = 13,
  TP_REASON_SHUTDOWN = 14,
  TP_REASON_CANCELLED = 15,
  TP_REASON_MATCH = 32,        /* skipped: its own match */
  TP_REASON_DEPENDENCY = 33,   /* skipped: a required dependency did not succeed */
  TP_REASON_PHASE_FAILED = 34, /* skipped: the entry was decided before its place (failed or denied) */
  TP_REASON_NO_SLACK = 35,     /* skipped: no time was left, or what is required behind it needs it */
  TP_REASON_KILL_SWITCH = 36,  /* skipped: the operator switched it off */
  TP_REASON_FORCE_32 = 0x7fffffff
} tp_reason;

TP_API const char *tp_state_name(tp_state state);
TP_API const char *tp_reason_name(tp_reason reason);

/** The row of one subscription in an entry record. Times are monotonic nanoseconds; 0 means never. Strings live as long
 *  as the runtime. The small fields hold values of the enum that stands beside them. */
typedef struct tp_run_record {
  const char *subscription;
  const char *handler;
  const char *owner;
  int64_t queued_ns, started_ns, ended_ns, late_ns; /* queued: ready; of an inline run without a Deadline: called */
  uint32_t code;
  uint32_t contribution_count;
  uint16_t attempts;             /* how many ran */
  uint8_t state;                 /* tp_state */
  uint8_t reason;                /* tp_reason */
  uint8_t verdict;               /* tp_verdict */
  uint8_t execution;             /* tp_execution */
  uint8_t failure;               /* tp_failure */
  bool fallback_used;
} tp_run_record;

/** One run of one phase: a row for every subscription of the phase, in plan order. */
typedef struct tp_entry_record {
  uint64_t entry_id;             /* unique in the process, from 1 */
  uint32_t phase;
  uint64_t plan_hash;
  tp_status outcome;             /* TP_OK, TP_ERR_HOOK (failed), TP_ERR_DENIED, TP_ERR_CANCELLED, TP_ERR_TIMEOUT */
  int64_t started_ns, ended_ns;
  const tp_text *ids;            /* TP_ID_COUNT of them, by TP_ID_* */
  size_t run_count;
  /** The row of one subscription, in plan order; index < run_count. */
  tp_run_record (*run)(const void *source, size_t index);
  const void *source;
} tp_entry_record;

/** A background job. Everything is borrowed for the call it is passed to. */
typedef struct tp_job {
  uint64_t id;                   /* given by the store */
  uint64_t claim;                /* token of this claim: a finish with another is refused */
  uint32_t attempt;              /* from 1 */
  uint32_t attempts_max;
  uint32_t phase;
  uint32_t contract_version;
  uint32_t limit_ms;
  tp_text handler;               /* handler id */
  tp_text subscription;
  tp_text idempotency_key;
  tp_text order_key;             /* only the oldest open job of a key is claimable */
  tp_text payload;               /* value: the fields and ids of the call; content */
} tp_job;

/** Which jobs a worker can run. */
typedef bool (*tp_job_filter_fn)(void *ctx, tp_text handler, uint32_t contract_version);
/** Receives the claimed job; borrowed till return. */
typedef void (*tp_job_fn)(void *ctx, const tp_job *job);

typedef enum tp_job_end { TP_JOB_SUCCEEDED = 1, TP_JOB_FAILED = 2, TP_JOB_RETRY = 3 } tp_job_end;

/** Where records and jobs go. Version 1. Functions may block; every function may be called from any thread. Times are
 *  unix milliseconds. */
typedef struct tp_store {
  size_t struct_size;
  uint32_t version;
  void *self;
  const char *name;
  /** Keeps one entry record, borrowed till return. O(1) whatever the store holds. A turn hands its records over when
   *  some have gathered, at the latest with its end. */
  tp_status (*record)(void *self, const tp_entry_record *record);
  /** Notes when the discarded answer of a run came in. An entry that is no longer kept is not an error. */
  tp_status (*record_late)(void *self, uint64_t entry_id, uint32_t run_index, int64_t late_ns);
  /** Inserts and commits. A key that is known already changes nothing and gives its id with *ret_existed = true. */
  tp_status (*job_insert)(void *self, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault);
  /** Claims the oldest claimable job that filter accepts: attempt + 1, a new claim token, a lease that ends lease_ms
   *  behind the job's own limit. A claim whose lease ran out may be claimed anew, or is a dead letter after its last
   *  attempt.
   *  @return TP_OK after take was called once; TP_ERR_NOT_FOUND with *ret_next_ms = when to ask again (0: unknown). */
  tp_status (*job_claim)(void *self, int64_t now_ms, int64_t lease_ms, tp_job_filter_fn filter, void *filter_ctx,
                         tp_job_fn take, void *take_ctx, int64_t *ret_next_ms, tp_fault *fault);
  /** Ends a claim. RETRY makes it claimable again at retry_at_ms, or a dead letter after its last attempt. Payload of
   *  an ended job is deleted. @return TP_ERR_STALE when the claim is not the current one. */
  tp_status (*job_finish)(void *self, uint64_t id, uint64_t claim, tp_job_end end, int64_t retry_at_ms,
      tp_fault *fault);
  /** How many jobs of the key are open (queued or running); an empty key counts all. */
  tp_status (*job_open)(void *self, tp_text order_key, uint64_t *ret_count, tp_fault *fault);
  /** Gives the newest records, newest first, at most limit; the record is borrowed till return; false stops. */
  tp_status (*records)(void *self, size_t limit, bool (*each)(void *ctx, const tp_entry_record *record), void *ctx);
  /** Exactly once. May be NULL. */
  void (*destroy)(void *self);
  bool durable;                  /* what is committed survives the process */
} tp_store;

/** The memory store: keeps the newest records_max entry records (0: 10,000); ends with its destroy. */
TP_API tp_status tp_memory_store_new(const tp_allocator *allocator, size_t records_max, tp_store *ret_store,
                                     tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
