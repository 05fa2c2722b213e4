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

/** Whose messages to load. Shown by the library. */
typedef struct tp_history_load {
  size_t struct_size;
  tp_text tenant, session;
  tp_message_fn each;           /* called for each message, in order, before load returns */
  void *ctx;                    /* of each */
} tp_history_load;

/** A batch to append. Shown by the library; all of it is borrowed till append returns. */
typedef struct tp_history_append {
  size_t struct_size;
  tp_text tenant, session;
  const tp_message *const *messages;
  size_t message_count;
} tp_history_append;

/** Where the messages of sessions live. Filled by the host, or made by the library. Whoever is given one copies the
 *  struct, on success only; destroy is called exactly once.
 *  Threads: its functions come on handler threads, one call per session at a time. They may block. */
typedef struct tp_history {
  size_t struct_size;
  void *self;
  /** Required. Gives every message of the session in order to each. An unknown session has none. */
  tp_status (*load)(void *self, const tp_history_load *request, tp_fault *fault);
  /** Required. Appends a batch atomically: all of it or nothing. */
  tp_status (*append)(void *self, const tp_history_append *request, tp_fault *fault);
  /** Exactly once, when the runtime does not use it any more. May be NULL. */
  void (*destroy)(void *self);
} tp_history;

/** A history in memory. Give it to tp_session_options.history, which takes it, or free it with tp_history_free().
 *  @param allocator  NULL: malloc and free.   @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD.   Threads: any. */
TP_API tp_status tp_history_memory_new(const tp_allocator *allocator, tp_history **ret_history,
    tp_fault *fault) TP_MUST_USE;
/** Destroys a history that no session has taken. Accepts NULL.   Threads: any. */
TP_API void tp_history_free(tp_history *history);

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
  size_t struct_size;
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

/** One run of one phase: a row for every subscription of the phase, in plan order. Shown by the library; everything in
 *  it is borrowed till the callback returns. (process_run_id, entry_id) is its name, in every store and for ever. */
typedef struct tp_entry_record {
  size_t struct_size;
  uint64_t process_run_id;       /* random, of the runtime that wrote it */
  uint64_t entry_id;             /* from 1, unique in that runtime */
  uint64_t plan_hash;
  int64_t started_ns, ended_ns;  /* monotonic */
  int64_t started_unix_ms;       /* the wall clock at started_ns, as it stood when the record was written */
  uint32_t phase;
  int32_t status;                /* tp_status: TP_OK, TP_ERR_HOOK (failed), TP_ERR_DENIED, TP_ERR_CANCELLED,
                                    TP_ERR_TIMEOUT */
  const tp_text *ids;            /* by TP_ID_*; an id that the turn does not have is empty */
  size_t id_count;
  size_t run_count;
  /** Fills the row of one subscription, in plan order, as far as record->struct_size reaches; a longer struct's rest is
   *  zeroed. @return false, and nothing is written, for an index that is not below run_count, and for struct_size 0. */
  bool (*run)(const void *source, size_t index, tp_run_record *record);
  const void *source;
} tp_entry_record;
/** Receives records; false stops. The record is borrowed till return. */
typedef bool (*tp_record_fn)(void *ctx, const tp_entry_record *record);

/** The discarded answer of a run came in late. */
typedef struct tp_late_record {
  size_t struct_size;
  uint64_t process_run_id;
  uint64_t entry_id;
  int64_t late_ns;               /* monotonic */
  uint32_t run_index;            /* in plan order */
  uint32_t reserved_;            /* zero */
} tp_late_record;

/** A background job. Everything is borrowed for the call it is passed to. */
typedef struct tp_job {
  size_t struct_size;
  uint64_t id;                   /* given by the store */
  uint64_t claim;                /* token of this claim: a finish with another is refused */
  uint32_t attempt;              /* from 1 */
  uint32_t attempts_max;
  uint32_t phase;
  uint32_t contract_version;
  uint32_t limit_ms;
  uint32_t reserved_;            /* zero */
  tp_text handler;               /* handler id */
  tp_text subscription;
  tp_text idempotency_key;
  tp_text order_key;             /* only the oldest open job of a key is claimable */
  tp_text payload;               /* value: the fields and ids of the call; content */
} tp_job;

/** Which jobs a worker can run: asked with a job that may be claimed, without any lock of the store's held. The answer
 *  holds for every job of the same handler and contract version until the claim returns. */
typedef bool (*tp_job_filter_fn)(void *ctx, const tp_job *job);
/** Receives the claimed job; borrowed till return. */
typedef void (*tp_job_fn)(void *ctx, const tp_job *job);

typedef enum tp_job_end {
  TP_JOB_SUCCEEDED = 1,
  TP_JOB_FAILED = 2,
  TP_JOB_RETRY = 3,
  TP_JOB_END_FORCE_32 = 0x7fffffff
} tp_job_end;

/** What a worker asks for. Times are unix milliseconds. */
typedef struct tp_job_claim {
  size_t struct_size;
  int64_t now_ms;
  int64_t lease_ms;              /* the lease ends so long behind the job's own limit */
  tp_job_filter_fn filter;       /* NULL: every job */
  tp_job_fn take;                /* called once, when a job is claimed, without any lock of the store's held */
  void *ctx;                     /* of filter and take */
} tp_job_claim;

/** How a claim ended. */
typedef struct tp_job_finish {
  size_t struct_size;
  uint64_t id, claim;
  int64_t retry_at_ms;           /* unix milliseconds, with RETRY */
  uint32_t end;                  /* tp_job_end */
  uint32_t reserved_;            /* zero */
} tp_job_finish;

/** Where records and jobs go. Filled by the host, or made by the library. Functions may block; what is not marked
 *  required may be NULL: then the store does not have it. Whoever is given one copies the struct, on success only;
 *  destroy is called exactly once. Structs that the library shows have its own struct_size: a store reads no further.
 *  Threads: every function may be called from any thread, several at once. */
typedef struct tp_store {
  size_t struct_size;
  void *self;
  const char *name;
  /** Required. Keeps one entry record, borrowed till return. O(1) whatever the store holds. A turn hands its records
   *  over when some have gathered, at the latest with its end. */
  tp_status (*record)(void *self, const tp_entry_record *record);
  /** An entry that is no longer kept is not an error. */
  tp_status (*record_late)(void *self, const tp_late_record *late);
  /** Required. Inserts and commits; id, claim and attempt are not read. A key that is known already changes nothing and
   *  gives its id with *ret_existed = true. */
  tp_status (*job_insert)(void *self, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault);
  /** Required. Claims the oldest claimable job that the filter accepts: attempt + 1, a new claim token, a lease. A
   *  claim whose lease ran out may be claimed anew, or is a dead letter after its last attempt.
   *  @return TP_OK after take was called once; TP_ERR_NOT_FOUND with *ret_next_ms = when to ask again (0: unknown). */
  tp_status (*job_claim)(void *self, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault);
  /** Required. Ends a claim. RETRY makes it claimable again at retry_at_ms, or a dead letter after its last attempt.
   *  Payload of an ended job is deleted. @return TP_ERR_STALE when the claim is not the current one. */
  tp_status (*job_finish)(void *self, const tp_job_finish *request, tp_fault *fault);
  /** Required. How many jobs of the key are open (queued or running); an empty key counts all. */
  tp_status (*job_open)(void *self, tp_text order_key, uint64_t *ret_count, tp_fault *fault);
  /** Gives the newest records, newest first, at most limit. */
  tp_status (*records)(void *self, size_t limit, tp_record_fn each, void *ctx);
  /** Exactly once. */
  void (*destroy)(void *self);
  uint32_t durable;              /* 1: what is committed survives the process */
  uint32_t reserved_;            /* zero */
} tp_store;

/** Options of the memory store; zero means default. */
typedef struct tp_store_memory_options {
  size_t struct_size;
  size_t records_max;            /* the newest so many entry records are kept; 0: 10,000 */
} tp_store_memory_options;

/** The memory store. Give it to tp_runtime_options.store, which takes it, or free it with tp_store_free().
 *  @param allocator  NULL: malloc and free.   @param options  NULL: all defaults.
 *  @return TP_OK; TP_ERR_VERSION for options of a wrong size; TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD.   Threads: any. */
TP_API tp_status tp_store_memory_new(const tp_allocator *allocator, const tp_store_memory_options *options,
    tp_store **ret_store, tp_fault *fault) TP_MUST_USE;
/** Destroys a store that no runtime has taken. Accepts NULL.   Threads: any. */
TP_API void tp_store_free(tp_store *store);

TP_END_DECLS
#endif
