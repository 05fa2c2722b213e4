/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.h: for hosts: the runtime object, and registration by edits.
 * Threads: any, unless a declaration says otherwise; one thread at a time uses an edit, and tp_runtime_free() is the
 * last call of its runtime. */
#ifndef TURNPHASE_RUNTIME_H
#define TURNPHASE_RUNTIME_H

#include "turnphase/people.h"
#include "turnphase/store.h"

TP_BEGIN_DECLS

/** Registrations, threads and a store, with which sessions run their turns: tp_runtime_new(). */
typedef struct tp_runtime tp_runtime;
/** A change of the registrations under way: tp_edit_begin(). */
typedef struct tp_edit tp_edit;

/** How the handlers of a phase work together. */
typedef enum tp_mode {
  TP_MODE_GATHER = 1,
  TP_MODE_CHAIN = 2,
  TP_MODE_OBSERVE = 3,
  TP_MODE_FORCE_32 = 0x7fffffff
} tp_mode;

/** A phase: one row of the table. */
typedef struct tp_phase {
  size_t struct_size;
  const char *name; /* "turn.intake" */
  tp_mode mode;
  bool replace; /* chain: handlers may return a new payload */
  bool stop;    /* chain: handlers may return a verdict */
  bool ask;     /* ask is a legal verdict */
  bool reverse; /* chain: runs backwards */
  bool privileged;
  bool code_only;
  bool rewrite_granted;      /* for owners with TP_GRANT_REWRITE, or of trust builtin. False in rows of the host */
  bool no_session;           /* it is run in turns of no session: TP_INBOX_OF_SESSION is refused in it */
  tp_capability kinds;       /* bit 1 << TP_CONTRIBUTION_*: what may be contributed besides diagnostic and audit */
  uint32_t limit_ms;         /* default limit of one handler; 0 means 5,000 */
  tp_failure failure;        /* default failure policy; 0 means best_effort */
  const tp_field_id *fields; /* the payload fields that it carries */
  size_t field_count;
  const tp_field_id *replaceable; /* those that a chain may replace */
  size_t replaceable_count;
} tp_phase;

/** Which time-stamps the rows of records have.
 *
 *  - FULL: each row has the begin and the end of its handler.
 *  - COARSE: in a phase whose handlers are all inline, each row has the begin and the duration of the phase (at most
 *    4.29 s) instead of those of its handler. The limits of the single handlers are not enforced. The deadline of the
 *    phase is: when the phase ends after it, the handler that was called last is recorded as timed out. From the
 *    first handler on that is not inline, and from the first answer on that is more than TP_ANSWER_DONE, the
 *    time-stamps of the phase are full.
 *  - OFF: rows have only the begin of their phase, and inline handlers have no deadline. */
typedef enum tp_timestamps {
  TP_TIMESTAMPS_FULL = 0,
  TP_TIMESTAMPS_COARSE = 1,
  TP_TIMESTAMPS_OFF = 2,
  TP_TIMESTAMPS_FORCE_32 = 0x7fffffff
} tp_timestamps;

/** What turns may use together: the turns of a session, or the turns of a day (UTC) of one tenant or of all tenants. It
 *  is checked where the limits of a turn are checked (tp_turn_request); when it is used up, the turn fails with
 *  TP_ERR_OVER_BUDGET. Turns that run at the same time may exceed it by one request each. Answered requests of driven
 *  turns and summaries of histories count; requests of tp_call_ask_model() do not. */
typedef struct tp_budget {
  size_t struct_size;
  /** Requests to models; 0: no limit. */
  int64_t requests_max;
  /** Input and output together; 0: no limit. */
  int64_t tokens_max;
  /** The cost that the models report; 0: no limit. With a model that reports no cost it has no effect, and the turn
   *  gets the diagnostic cost.unknown. */
  int64_t cost_micros_max;
} tp_budget;

/** Options of a runtime; zero means default. Everything is copied; the store is taken. */
typedef struct tp_runtime_options {
  size_t struct_size;
  tp_allocator allocator;
  tp_log_fn log;
  void *log_ctx;
  /** The level up to which records are logged; 0: TP_LOG_INFO. With TP_LOG_DEBUG each attempt has a line, and no phase
   *  takes its fast path: a phase that lasts some ns then lasts some µs. */
  tp_log_level log_level;
  /** 0: as many as cores. */
  uint32_t engine_workers;
  /** When set, submit functions return TP_ERR_USAGE, synchronous functions work, and inline handlers are called on the
   *  thread of their caller only. */
  bool no_engine_workers;
  /** The runtime has no threads: threads of the host run it by tp_runtime_pump(). Handlers, tools, models, callbacks
   *  and the store are called on the thread that pumps. TP_ERR_USAGE together with no_engine_workers and the options
   *  that count threads. */
  bool pump;
  /** 0: 64. At most a quarter of them (at least 2) run load and append of histories, and at most half of these those of
   *  one tenant. load_start and append_start need no handler thread. */
  uint32_t handler_threads;
  /** At most this many handler threads run detached attempts and jobs. 0: 16; at most a quarter of handler_threads. */
  uint32_t detached_threads;
  /** At most this many handler threads run tools. 0: 32; at most half of handler_threads. */
  uint32_t tool_threads;
  /** How many more threads may be started in place of those that abandoned attempts hold; 0: as many as
   *  handler_threads. See tp_runtime_set_abandoned_max(). */
  uint32_t abandoned_threads_max;
  /** The most turns in flight; 0: 65,536; begin and submit forms return TP_ERR_FULL above it. */
  uint32_t turns_max;
  /** The most open tokens; 0: 16,384. */
  uint32_t deferred_max;
  tp_timestamps timestamps;
  /** The most memory that abandoned attempts may hold; 0: 64 MiB. Above it, attempts that need a thread or a token fail
   *  (no_memory). */
  uint64_t abandoned_bytes_max;
  /** Phases of the host, phase_count pointers; the id of phases[i] is TP_PHASE_HOST + i. */
  const tp_phase *const *phases;
  /** At most 64. */
  size_t phase_count;
  /** The limit of hooks without a limit of their own. Hooks are here those of tp_hook_add(), and subscriptions that are
   *  waited for and whose owner has trust declared; 0: the phase's limit. */
  uint32_t hook_limit_ms;
  /** The failure policy of these hooks: BEST_EFFORT or REQUIRED; 0: the phase's. In a phase that observes they stay
   *  best_effort. */
  tp_failure hook_failure;
  /** Taken on success only, and the struct copied; NULL: the memory store. */
  const tp_store *store;
  /** The history of sessions that name none; referenced on success, until the runtime is freed; NULL: none. */
  tp_shared_history *shared_history;
  /** The most open background jobs of the runtime's own memory store; 0: 65,536. A store of the host has a bound of its
   *  own: with such a store this is TP_ERR_USAGE. */
  size_t jobs_max;
  /** The durability of entry records. ASYNC and SYNC need a durable store: else TP_ERR_USAGE. */
  tp_durability durability;
  /** Bounds a durable store's queue of records; 0: its own bound. TP_ERR_USAGE without such a store. */
  uint32_t record_queue_bytes;
  /** The host's own pointer: tp_call_data(TP_ID_RUNTIME), tp_runtime_data(). */
  void *data;
  /** The channel for questions (people.h) of sessions that name none, and of turns without a session; without one an
   *  ask is a denial. */
  tp_question_fn ask;
  /** TP_ERR_USAGE without ask. */
  void *ask_ctx;
  /** The permission callback of sessions that name none, and of turns without a session; NULL: auto. */
  tp_permission_fn permission;
  /** TP_ERR_USAGE without permission. */
  void *permission_ctx;
  /** How long a question waits for its answer; 0: 30 min. */
  uint32_t ask_limit_ms;
  /** For sessions with fallbacks: when this many requests in a row to the models of one provider have failed, the
   *  provider's breaker opens, and the next model of the list is asked at once; 0: 5. Opening and closing leave a log
   *  line and an audit row. */
  uint32_t breaker_failures;
  /** How long a breaker stays open, in ms; then one request per interval passes, and an answer closes it. 0: 30,000. */
  uint32_t breaker_open_ms;
  /** How long a claim of a job holds without a heartbeat; heartbeats come every third of this time. After it any worker
   *  may claim the job. It must be longer than a process may be stopped, or a store locked; 0: 60,000; at least 300. */
  uint32_t job_lease_ms;
  /** Driven turns that run at once; the others wait, and are begun round robin between their tenants
   *  (tp_session_options.tenant), the oldest of a tenant first. A turn whose expected wait, by the mean duration of
   *  recent turns, is longer than its limit_ms is refused with TP_ERR_FULL before anything is made for it. 0: no limit,
   *  and none waits. A turn that waits for the end of another turn counts as running, so the other turn needs a place
   *  of its own. */
  uint32_t turns_running_max;
  /** How many turns of one tenant may wait; further turns are refused; 0: 1,024. TP_ERR_USAGE without
   *  turns_running_max. */
  uint32_t turns_waiting_max;
  /** Only the operator opens the breaker of a subscription: see tp_subscription_trip(). */
  bool no_breakers;
  /** When this many calls are ready and wait for a handler thread, new turns are refused with TP_ERR_FULL; nested turns
   *  are not. From half of it on FireAndRecord runs are shed and stored jobs wait; from three quarters on best_effort
   *  handlers that need a thread are shed, too. A shed run is a failure (shed) in its row. Required handlers, tools,
   *  and the phases at the end of every turn are never shed. 0: 16,384. */
  uint32_t handler_queue_max;
  /** Takes secrets out of the texts of records, audit rows, log records, safe events and long-term memories
   *  (tp_redact_place). It does not get what the turn itself reads and writes: messages, arguments, results, the
   *  history, questions, the payloads of jobs. NULL: texts leave as they are. */
  tp_redact_fn redact;
  /** TP_ERR_USAGE without redact. */
  void *redact_ctx;
  /** Budgets for each day (UTC): of each tenant (tp_session_options.tenant; sessions without a tenant count as one),
   *  and of all tenants together. The start of the runtime reads from the records of the store what the turns of the
   *  day have used before; what other processes use with the same store meanwhile is not seen. NULL: none. */
  const tp_budget *tenant_day_budget;
  const tp_budget *day_budget;
  /** For how long in all a handler may postpone a job (tp_call_postpone()) before its attempts count; 0: 24 h. The
   *  job's pauses are added up, so a time in which no process runs does not count, and setting a clock changes
   *  nothing. */
  uint64_t job_postpone_ms;
  /** How long an entry waits for space in a full backlog of jobs (TP_BACKLOG_WAIT); 0: 30,000. */
  uint64_t backlog_wait_ms;
} tp_runtime_options;

/** Makes a runtime. Starts no thread and opens nothing: tp_runtime_start() does.
 *  @param options  may be NULL. Its store is taken on success only.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_BAD_ID, TP_ERR_DUPLICATE_ID
 *          for a host phase.
 *  Threads: any. */
TP_API tp_status tp_runtime_new(const tp_runtime_options *options, tp_runtime **ret_runtime,
                                tp_fault *fault) TP_MUST_USE;

/** Gives one tenant another budget of a day, from its next request on.
 *  @param tenant  NULL or "": sessions without one.
 *  @param budget  in place of tp_runtime_options.tenant_day_budget; NULL: that budget again.
 *  @return TP_OK; TP_ERR_USAGE where the runtime has no budget of a day, and for a negative number; TP_ERR_VERSION,
 *          TP_ERR_NO_MEMORY, TP_ERR_FORKED.  Threads: any.  Blocks: no. */
TP_API tp_status tp_runtime_set_tenant_budget(tp_runtime *runtime, const char *tenant, const tp_budget *budget,
                                              tp_fault *fault);
/** What turns have used of a day. The caller sets struct_size; it is filled that far, and struct_size says how far. */
typedef struct tp_usage {
  size_t struct_size;
  int64_t day_unix_ms; /* when the day began, UTC */
  int64_t requests, tokens, cost_micros;
} tp_usage;
/** What the turns of a tenant have used today. A runtime without a budget of a day counts nothing: all is 0.
 *  @param tenant  "": sessions without one; NULL: all tenants together.
 *  @return TP_OK; TP_ERR_VERSION without struct_size; TP_ERR_FORKED.  Threads: any.  Blocks: no. */
TP_API tp_status tp_runtime_usage_get(tp_runtime *runtime, const char *tenant, tp_usage *ret_usage, tp_fault *fault);

/** tp_runtime_options.data. Threads: any. */
TP_API void *tp_runtime_data(const tp_runtime *runtime);

/** Starts the threads, and opens and recovers the store. The first agent, session, phase or job calls it, so a host may
 *  fork before. Calling it again does nothing.
 *  A started runtime belongs to its process. In the child of a fork every function that would wait, take a lock or
 *  begin something returns TP_ERR_FORKED (0, or nothing, where it has no status). The child must not use an edit, a
 *  turn or any other object of the runtime that was made before the fork. It may make a runtime of its own.
 *  @return TP_OK; TP_ERR_NO_THREAD, TP_ERR_NO_MEMORY: nothing is left running; TP_ERR_SHUTDOWN after drain;
 *          TP_ERR_FORKED; TP_ERR_USAGE from the store's own open and recover.
 *  Threads: any. */
TP_API tp_status tp_runtime_start(tp_runtime *runtime, tp_fault *fault) TP_MUST_USE;

/** The outcome of a drain. The caller sets struct_size; it is filled that far, and struct_size says how far. */
typedef struct tp_drain_report {
  size_t struct_size;
  /** Turns that did not end within the limit and were cancelled. Turns of tp_turn_begin() stay until their host
   *  ends them. */
  uint64_t turns_cancelled;
  /** Attempts whose function has not returned. */
  uint64_t leaks;
  /** Of a store that is not durable: open jobs, and those whose last attempt the drain cancelled. */
  uint64_t jobs_lost;
  /** Jobs that failed for good since the start of the runtime: dead letters. */
  uint64_t jobs_dead;
  /** Nothing is left running. */
  bool complete;
  /** Zero. */
  uint8_t reserved_[7];
} tp_drain_report;

/** Refuses new turns; lets running ones end within limit_ms; cancels the rest; runs open jobs of a store that is not
 *  durable within the limit; closes open sessions (session.end); joins the threads that have ended. A second drain
 *  waits for the first one, whatever its own limit is, and reports no turns and no jobs.
 *  @param ret_report  may be NULL.
 *  @return TP_OK; TP_ERR_USAGE from inside a handler or a callback; TP_ERR_VERSION for a report without struct_size:
 *          nothing was drained; TP_ERR_FORKED in the child of a fork.
 *  Threads: any.
 *  Blocks: up to limit_ms, then as long as cancelled inline handlers run, and what comes at the end of every turn and
 *  session: the phases tool.result, tool.post, turn.post_turn, runtime.error and session.end, each up to its own
 *  limit, and the history's append, up to 30 s. A turn that runs only these still counts as cancelled. */
TP_API tp_status tp_runtime_drain(tp_runtime *runtime, uint32_t limit_ms, tp_drain_report *ret_report,
                                  tp_fault *fault) TP_MUST_USE;

/** Receives the end of a submitted drain. The library sets the report, which is borrowed till return. Threads: the
 *  thread of the drain. */
typedef void (*tp_drain_end_fn)(void *ctx, const tp_drain_report *report);
/** Drains without waiting, on a thread of its own: new turns are refused when this returns.
 *  @param on_end  called once, when the drain is over, on that thread. It must not call tp_runtime_free(), which waits
 *                 until it has returned. May be NULL.
 *  @return TP_OK; TP_ERR_BUSY when one was submitted before; TP_ERR_NO_THREAD, TP_ERR_NO_MEMORY: nothing was begun;
 *          TP_ERR_FORKED, TP_ERR_SHUTDOWN.  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_runtime_drain_submit(tp_runtime *runtime, uint32_t limit_ms, tp_drain_end_fn on_end, void *ctx,
                                         tp_fault *fault) TP_MUST_USE;

/** Drains with a limit of 0 and frees the runtime. While attempts are abandoned, the core of the runtime stays
 *  allocated until their functions return. Public functions that such a function or a destructor calls meanwhile return
 *  TP_ERR_SHUTDOWN (0, NULL or nothing where they have no status). Accepts NULL. Sessions, agents, turns and edits of
 *  the runtime are freed; tokens and inboxes may still be used. From inside a handler, a callback or a destructor of
 *  this runtime it writes an error to the log and frees nothing: call it from another thread, or later. No other thread
 *  may be in a call of this runtime, except in one that completes a token. In the child of a fork it does nothing.
 *  Threads: any, while no other one is in a call of the runtime. */
TP_API void tp_runtime_free(tp_runtime *runtime);
/** The callback of tp_runtime_options.redact, and its ctx. NULL: none.
 *  @param ret_ctx  may be NULL.
 *  Threads: any. */
TP_API tp_redact_fn tp_runtime_redact(const tp_runtime *runtime, void **ret_ctx);

/** An abandoned attempt: its outcome is settled, and its function has not returned. Made by the library. */
typedef struct tp_leak {
  size_t struct_size;
  const char *subscription; /* or the tool's name; borrowed till return of the callback */
  tp_phase_id phase;
  uint32_t reserved_; /* zero */
  int64_t running_ms; /* since its function was called */
} tp_leak;
/** Passes the abandoned attempts to each, at most 256; false stops the walk. Names live as long as the runtime. each
 *  may be NULL.
 *  @return how many there are, whether passed or not. Threads: any. */
TP_API size_t tp_runtime_leaks(const tp_runtime *runtime, bool (*each)(void *ctx, const tp_leak *leak), void *ctx);

/** Sets how many threads and how much memory abandoned attempts may hold, from now on. A function that does not return
 *  keeps its thread and its memory. Until it returns, another thread may be started in its place, at most `threads` of
 *  them, and its memory counts against `bytes`. Above these caps attempts fail at once (no_worker, no_memory), so
 *  required guards deny; the first such failure is written to the log. Handlers that need no thread (inline handlers,
 *  and those with an inbox) are not affected. All handlers run again when enough functions have returned. A host that
 *  cannot wait for that finds these handlers with tp_runtime_leaks(), switches them off with tp_subscription_kill(),
 *  and raises the caps here.
 *  @param threads  0: as it is.
 *  @param bytes    0: as it is.
 *  @return TP_OK; TP_ERR_FORKED; TP_ERR_SHUTDOWN when the runtime was freed.  Threads: any.  From a hook: yes. */
TP_API tp_status tp_runtime_set_abandoned_max(tp_runtime *runtime, uint32_t threads, uint64_t bytes,
                                              tp_fault *fault) TP_MUST_USE;

/* ---- a runtime without threads ---------------------------------------------------------------------------------- */

/** The descriptor to poll of a runtime with tp_runtime_options.pump: readable while there is something to pump
 *  (level-triggered; an eventfd). The host only polls it and never reads, writes or closes it. It stays the same until
 *  tp_runtime_free(). It may be readable once with nothing to pump.
 *  @return -1 before tp_runtime_start(), for a runtime with threads, and in the child of a fork.
 *  Threads: any. */
TP_API int tp_runtime_fd(const tp_runtime *runtime);

/** Runs what is ready in a runtime with tp_runtime_options.pump, on this thread: functions of handlers, tools, models
 *  and histories, callbacks, deadlines, background jobs, and the steps of a submitted drain. Call it when
 *  tp_runtime_fd() is readable, and when *ret_wait_ms have passed:
 *
 *    do {
 *      status = tp_runtime_pump(runtime, 0, &wait_ms, fault);
 *    } while (status == TP_OK && poll(fds, count, wait_ms) >= 0);
 *
 *  A function that blocks holds up the pump, and with it everything else of the runtime. When its own limit passes,
 *  that is reported after it has returned. A function that must not hold up other work has an inbox, or defers.
 *
 *  The functions that wait (tp_turn_run(), tp_submission_wait(), tp_runtime_drain(), tp_runtime_free() …) pump while
 *  they wait, on the thread that calls them. One thread pumps at a time; when it leaves the pump, another thread that
 *  waits goes on to pump. Functions that may wait inside of a handler or tool (tp_call_run_turn(), tp_call_ask_model()
 *  …) pump, too: other functions run above their frames on the same stack, and must return first. At most 16 functions
 *  wait in this way at once; a further one returns TP_ERR_FULL.
 *  @param items_max    how many functions, steps of turns and the like to run at most; 0: until nothing is ready.
 *  @param ret_wait_ms  when to pump again at the latest, in ms, for poll(): 0: something is left; -1: when the
 *                      descriptor is readable. May be NULL.
 *  @return TP_OK, also when nothing was ready, before the start and after a drain; TP_ERR_BUSY: another thread pumps
 *          (the descriptor becomes readable when that thread has left the pump); TP_ERR_USAGE: the runtime has threads,
 *          or this is inside of a handler or a callback of it; TP_ERR_FORKED.
 *  Threads: any, one at a time.  Blocks: as long as the functions that it calls. */
TP_API tp_status tp_runtime_pump(tp_runtime *runtime, uint32_t items_max, int *ret_wait_ms,
                                 tp_fault *fault) TP_MUST_USE;

/** Waits until the order key has no open job (an empty key: none at all). Starts the threads, which run the jobs.
 *  @return TP_OK; TP_ERR_TIMEOUT; TP_ERR_STORE…; TP_ERR_USAGE from inside a handler. Blocks: up to limit_ms.
 *  Threads: any. */
TP_API tp_status tp_jobs_wait(tp_runtime *runtime, const char *order_key, uint32_t limit_ms,
                              tp_fault *fault) TP_MUST_USE;
/** How a wait ended. struct_size is set by the library; borrowed till the callback returns. */
typedef struct tp_jobs_wait_result {
  size_t struct_size;
  tp_status status;   /* as tp_jobs_wait(); TP_ERR_SHUTDOWN when a drain came while jobs were open */
  uint32_t reserved_; /* zero */
} tp_jobs_wait_result;
/** Receives the end of a wait. Threads: the one that claims jobs. */
typedef void (*tp_jobs_wait_fn)(void *ctx, const tp_jobs_wait_result *result);
/** tp_jobs_wait() without waiting: on_end gets the result.
 *  @param order_key  copied; NULL or "": all jobs.
 *  @param limit_ms   0: on_end is called soon, whether jobs are open or not.
 *  @param on_end     required; called once, on the thread that claims jobs: no job is claimed until it returns.
 *  @return TP_OK; TP_ERR_USAGE without on_end; TP_ERR_FULL above 1,024 waits; TP_ERR_NO_MEMORY; what tp_runtime_start()
 *          returns. With anything but TP_OK on_end is not called.  Threads: any.  Blocks: no.  From a handler or
 *          callback: yes. */
TP_API tp_status tp_jobs_wait_submit(tp_runtime *runtime, const char *order_key, uint32_t limit_ms,
                                     tp_jobs_wait_fn on_end, void *ctx, tp_fault *fault) TP_MUST_USE;

/* ---- registration --------------------------------------------------------------------------------------------- */

/** How far the host trusts an owner. */
typedef enum tp_trust {
  TP_TRUST_NONE = 0,     /* not set: refused */
  TP_TRUST_HOST = 1,     /* the host's own code, or code that it trusts as much */
  TP_TRUST_BUILTIN = 2,  /* parts of the host that may be in privileged phases and change what others registered */
  TP_TRUST_DECLARED = 3, /* hooks that a file declares. A phase for code only refuses them, except that a phase of the
                            library accepts those with the grant rewrite. */
  TP_TRUST_FORCE_32 = 0x7fffffff
} tp_trust;

/** What an owner may do beyond its trust: bits. An unknown bit is refused. */
typedef uint32_t tp_grant;
enum tp_grants {
  TP_GRANT_PRIVILEGED_HOOKS = 1 << 0, /* subscribe in privileged phases */
  TP_GRANT_REWRITE = 1 << 1           /* subscribe to tool.rewrite: replace what a tool is called with; of trust
                                         declared: to tool.result, too */
};

/** The owner of registrations; set by the host, never by the handler. Strings are copied. */
typedef struct tp_owner {
  size_t struct_size;
  const char *name; /* as an id */
  tp_trust trust;   /* TP_TRUST_NONE is refused */
  tp_grant grants;  /* TP_GRANT_* */
} tp_owner;

/** Begins an edit of the registry. One thread uses an edit at a time; several edits may be open.
 *  @param owner  NULL: name "host", trust host.
 *  @return TP_OK; TP_ERR_BAD_ID, TP_ERR_USAGE, TP_ERR_VERSION for a wrong owner; TP_ERR_NO_MEMORY; TP_ERR_FORKED.
 *  Threads: any. */
TP_API tp_status tp_edit_begin(tp_runtime *runtime, const tp_owner *owner, tp_edit **ret_edit,
                               tp_fault *fault) TP_MUST_USE;
/** Add a handler or subscription. Only what is wrong with the descriptor itself is refused here (TP_ERR_BAD_ID,
 *  TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_UNKNOWN_PHASE, TP_ERR_UTF8, TP_ERR_MALFORMED and TP_ERR_TOO_LARGE for a
 *  fallback, TP_ERR_NO_MEMORY, TP_ERR_DUPLICATE_ID within the edit), with a fault that names the id, the field and the
 *  remedy; the rest at commit. A refused handler is not taken: its destroy is not called. A taken one's destroy is
 *  called also when the edit is discarded. Threads: the one that uses the edit. */
TP_API tp_status tp_edit_add_handler(tp_edit *edit, const tp_handler *handler, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_edit_add_subscription(tp_edit *edit, const tp_subscription *subscription,
                                          tp_fault *fault) TP_MUST_USE;
/** Remove, enable or disable a handler or subscription by id. An id that is not registered is refused at commit with
 *  TP_ERR_NOT_FOUND. An owner may change only its own registrations, unless its trust is builtin: else TP_ERR_USAGE at
 *  commit.
 *  @return TP_OK; TP_ERR_BAD_ID; TP_ERR_USAGE without an edit; TP_ERR_NO_MEMORY.
 *  Threads: the one that uses the edit. */
TP_API tp_status tp_edit_remove_handler(tp_edit *edit, const char *id, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_edit_remove_subscription(tp_edit *edit, const char *id, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_edit_enable(tp_edit *edit, const char *subscription, bool enabled, tp_fault *fault) TP_MUST_USE;
/** Enables or disables every subscription of an owner, or of a trust level: those that are registered, and those that
 *  this edit has added before. It has the effect of one tp_edit_enable() for each: subscriptions that are registered
 *  later are not affected, and each may be enabled again on its own. Of several calls in one edit about the same
 *  subscription the last one counts. When there is no such subscription, the commit is refused with TP_ERR_NOT_FOUND.
 *  When the edit's owner is not builtin and one of them belongs to another owner, it is refused with TP_ERR_USAGE.
 *  @return TP_OK; TP_ERR_BAD_ID for the name of an owner; TP_ERR_USAGE without an edit and for an unknown trust;
 *          TP_ERR_NO_MEMORY.  Threads: the one that uses the edit. */
TP_API tp_status tp_edit_enable_owner(tp_edit *edit, const char *owner, bool enabled, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_edit_enable_trust(tp_edit *edit, tp_trust trust, bool enabled, tp_fault *fault) TP_MUST_USE;
/** Sets the budget of a phase: how long one entry of it may take. It counts whatever tp_subscription.extends_budget
 *  says. 0 removes this budget: then the phase's budget follows from its subscriptions again.
 *  @return TP_OK; TP_ERR_UNKNOWN_PHASE; TP_ERR_USAGE without an edit. Threads: the one that uses the edit. */
TP_API tp_status tp_edit_set_budget(tp_edit *edit, tp_phase_id phase, uint32_t budget_ms, tp_fault *fault) TP_MUST_USE;

/** Sets the default limit of a phase, in place of tp_phase.limit_ms. A handler has it when its subscription names no
 *  limit and neither hook_limit_ms nor the default of a detached execution applies. It is also the limit of an entry
 *  that waits for no handler. It is in force from the commit on. tp_phase_get() still shows the old tp_phase.limit_ms;
 *  0 restores that limit.
 *  @return TP_OK; TP_ERR_UNKNOWN_PHASE; TP_ERR_USAGE without an edit, and for an owner of trust declared;
 *          TP_ERR_NO_MEMORY. A required subscription whose limit is then above the phase's budget is refused at commit
 *          (TP_ERR_BUDGET).
 *  Threads: the one that uses the edit. */
TP_API tp_status tp_edit_set_limit(tp_edit *edit, tp_phase_id phase, uint32_t limit_ms, tp_fault *fault) TP_MUST_USE;

/** The warnings of a commit. The caller sets struct_size; it is filled that far, and struct_size says how far. */
typedef struct tp_commit_report {
  size_t struct_size;
  uint64_t snapshot_version;
  uint64_t snapshot_hash;
  uint32_t handlers, subscriptions;
  uint32_t warnings;         /* phases whose path sum is above the budget */
  tp_phase_id warning_phase; /* the first of them */
} tp_commit_report;

/** Compiles and validates every phase and publishes one snapshot, or changes nothing. Turns that run keep theirs.
 *  On success the edit is freed; on failure it stays usable (correct it and commit again, or discard it).
 *  @return TP_OK; a code of its own for each refusal (status.def, 110–128), with the ids in the fault and cycles as a
 *          path `a -> b -> c -> a`; TP_ERR_CONFLICT when a commit came in between: begin again; TP_ERR_TOO_LARGE above
 *          65,535 subscriptions or 1,000,000 edges in a phase.  Threads: any. */
TP_API tp_status tp_edit_commit(tp_edit *edit, tp_commit_report *ret_report, tp_fault *fault) TP_MUST_USE;
/** Ends an edit that was not committed, and frees it. Nothing of it is registered. Accepts NULL. Threads: the one that
 *  uses the edit. */
TP_API void tp_edit_discard(tp_edit *edit);

/** One function in one phase, for tp_hook_add(): a handler and its subscription. Zero always means default. Strings are
 *  copied. Members that a tp_handler or a tp_subscription has, too, mean the same.
 *  A function that returns within microseconds and waits for nothing sets TP_PLACEMENT_INLINE: its call then costs some
 *  nanoseconds. Otherwise the function may block, its limit is enforced also when it does not return, and its call
 *  costs some microseconds; the first such call of a turn also wakes a thread. */
typedef struct tp_hook {
  size_t struct_size;
  /** Of the handler and the subscription. NULL: a generated one ("hook-1"). */
  const char *id;
  /** A name or an alias. */
  const char *phase;
  /** Exactly one of run and inbox. */
  tp_handler_fn run;
  /** As in tp_handler: an inbox, or TP_INBOX_OF_SESSION. */
  tp_inbox *inbox;
  void *ctx;
  /** Is called exactly once, without lock, after the last attempt returned; may be NULL. */
  void (*destroy)(void *ctx);
  /** 0: the runtime's hook_failure, else the phase's. A guard sets TP_FAILURE_REQUIRED: then a turn is denied also when
   *  the guard fails, exceeds its limit or returns an invalid answer. */
  tp_failure failure;
  /** 0: the runtime's hook_limit_ms, else the phase's; for a detached execution the default of detached runs. */
  uint32_t limit_ms;
  /** Where run is called. 0: TP_PLACEMENT_THREAD. */
  tp_placement placement;
  tp_execution execution;
  /** Lower runs earlier among those that no edge orders. */
  int32_t priority;
  /** 0: on for a hook without edges and priority, which then runs after the hooks that were added before it; off for a
   *  hook with edges or a priority. */
  tp_sequential sequential;
  tp_visibility visibility;
  /** How many attempts in all. Above 1, its function may run twice for one entry. 0: 1. */
  uint32_t attempts;
  tp_backoff backoff;
  uint32_t backoff_ms;
  uint32_t max_concurrent;
  /** With TP_FAILURE_FALLBACK, in a phase with verdicts. */
  tp_verdict fallback_verdict;
  /** With TP_FAILURE_FALLBACK: fallback_count contributions. */
  const tp_contribution *const *fallback;
  size_t fallback_count;
  /** TP_CAPABILITY_*. 0: all that the phase allows. */
  tp_capability capabilities;
  /** TP_GRANT_*: tool.rewrite needs TP_GRANT_REWRITE, a privileged phase TP_GRANT_PRIVILEGED_HOOKS. */
  tp_grant grants;
  /** When it runs. NULL: always. Copied. */
  const tp_match *match;
  const tp_edge *const *after;
  const tp_edge *const *before;
  const tp_edge *const *needs;
  size_t after_count, before_count, needs_count;
  /** For people: one line; any text; the file and line where it was declared. */
  const char *summary;
  const char *metadata;
  const char *origin_file;
  uint32_t origin_line;
  tp_handler_kind kind;
  /** Of a detached run: what the entry does when there is no space for the run. */
  tp_backlog backlog;
  /** Must be zero. */
  uint32_t reserved_;
} tp_hook;

/** Registers one function in one commit: owner "host", trust host. The hook, its match and the tools of its fallback
 *  are taken on success only: after a refusal no destroy is called.
 *  @return TP_OK; what tp_edit_add_handler(), tp_edit_add_subscription() and tp_edit_commit() return, except
 *          TP_ERR_CONFLICT: after another commit it tries again. Threads: any. */
TP_API tp_status tp_hook_add(tp_runtime *runtime, const tp_hook *hook, tp_fault *fault) TP_MUST_USE;

/** Registers a guard: short for a tp_hook_add() with TP_FAILURE_REQUIRED. What the guard watches over is denied when it
 *  denies, and also when it fails, exceeds the phase's limit or returns an invalid answer.
 *  @param id     of the hook, for tp_hook_remove() too; NULL: a generated one.
 *  @param phase  a name or an alias of a phase with verdicts, such as "turn.intake" (the user's message) and "tool.pre"
 *                (a tool call).
 *  @param run    required; on a handler thread, where it may block.
 *  @param ctx    of run; kept until the guard is removed and the last turn that has it has ended.
 *  @return as tp_hook_add(). Threads: any. */
TP_API tp_status tp_guard_add(tp_runtime *runtime, const char *id, const char *phase, tp_handler_fn run, void *ctx,
                              tp_fault *fault) TP_MUST_USE;

/** Removes what tp_hook_add() or tp_guard_add() registered, in one commit. Turns that run keep their hooks; its destroy
 *  is called when the last of them has ended.
 *  @return TP_OK; TP_ERR_NOT_FOUND, TP_ERR_BAD_ID; what tp_edit_commit() returns, except TP_ERR_CONFLICT, such as
 *          TP_ERR_MISSING_DEPENDENCY when an edge of another subscription leads to it.  Threads: any. */
TP_API tp_status tp_hook_remove(tp_runtime *runtime, const char *id, tp_fault *fault) TP_MUST_USE;

/** Registers one tool in one commit: every turn that begins afterwards has it. Owner "host", trust host; the library's
 *  own inline handler `tool:NAME` contributes it in turn.pre_tool_materialization.
 *  @param tool  copied. It is taken on success only, and once: its destroy is called after tp_tool_remove(), or the end
 *               of the runtime, when the last turn that has it has ended.
 *  @return TP_OK; TP_ERR_BAD_ID for its name (at most 123 bytes); TP_ERR_DUPLICATE_ID when it was added before;
 *          TP_ERR_BAD_SCHEMA, TP_ERR_MALFORMED, TP_ERR_VERSION for what is wrong with the struct; TP_ERR_NO_MEMORY, and
 *          what tp_edit_commit() returns, except TP_ERR_CONFLICT.  Threads: any. */
TP_API tp_status tp_tool_add(tp_runtime *runtime, const struct tp_tool *tool, tp_fault *fault) TP_MUST_USE;
/** Removes a tool of tp_tool_add(). Turns that run keep it. @return as tp_hook_remove().  Threads: any. */
TP_API tp_status tp_tool_remove(tp_runtime *runtime, const char *name, tp_fault *fault) TP_MUST_USE;

/** The operator's kill switch: the subscription is skipped (kill_switch) from now on, in all snapshots; with killed
 *  false it runs again.
 *  @return TP_OK; TP_ERR_NOT_FOUND; TP_ERR_USAGE without an id; TP_ERR_FORKED. Threads: any. */
TP_API tp_status tp_subscription_kill(tp_runtime *runtime, const char *subscription, bool killed,
                                      tp_fault *fault) TP_MUST_USE;

/** Opens the breaker of a subscription. While it is open the handler is not called, and each of its runs fails at once
 *  (breaker_open), in all snapshots. The failure policy applies: a required guard denies, whereas after
 *  tp_subscription_kill() it would be skipped. A stored background job waits, and loses no attempt.
 *
 *  A breaker also opens by itself, unless tp_runtime_options.no_breakers is set: when at least 20 calls of the
 *  subscription were counted within 10 s of a failure, and half of them have failed (error, timeout, crash, killed,
 *  cannot_start, malformed, capability; each attempt is a call). After 5 s it lets one call through as a probe: success
 *  closes the breaker, failure doubles the time, up to 5 min. Meanwhile jobs are stored and wait. A log line and an
 *  audit row record each change; tp_subscription_info and tp_runtime_stats show the state. See
 *  docs/decisions/circuit.md.
 *  @param tripped  false: closes the breaker, also one that opened by itself.
 *  @return TP_OK; TP_ERR_NOT_FOUND; TP_ERR_USAGE without an id; TP_ERR_FORKED. Threads: any. */
TP_API tp_status tp_subscription_trip(tp_runtime *runtime, const char *subscription, bool tripped,
                                      tp_fault *fault) TP_MUST_USE;

/** The id behind a phase name or alias. @return 0 when there is none. Threads: any. */
TP_API tp_phase_id tp_phase_find(const tp_runtime *runtime, const char *name_or_alias);
/** The row of a phase, or NULL. Lives as long as the runtime. Threads: any. */
TP_API const tp_phase *tp_phase_get(const tp_runtime *runtime, tp_phase_id phase);

/* ---- domains: libraries that a host loads ------------------------------------------------------------------------ */

/** What a domain registers with. Borrowed until return. struct_size is set by the library. */
typedef struct tp_domain_context {
  size_t struct_size;
  /** For queries, and for tp_runtime_listen(). A domain calls that function last, after everything that may fail, and
   *  begins no edit of its own. */
  tp_runtime *runtime;
  /** The edit to add to; the host commits it. */
  tp_edit *edit;
} tp_domain_context;

/** A library that a host loads exports one of these, as
 *      TP_API const tp_domain tp_domain_export = {…};
 *  so that the host can read its version before it calls any of its code. */
typedef struct tp_domain {
  size_t struct_size;
  uint32_t header_version; /* TP_VERSION_NUMBER of the headers it was built with */
  uint32_t reserved_;      /* zero */
  const char *name;        /* as an id */
  const char *version;     /* its own, for people; may be NULL */
  /** Adds handlers and subscriptions to context->edit, and does not commit. When it fails the host discards the
   *  edit. */
  tp_status (*register_with)(const tp_domain_context *context, tp_fault *fault);
} tp_domain;

/** The name of the symbol that a loaded library exports: its tp_domain. */
#define TP_DOMAIN_SYMBOL "tp_domain_export"

/** Checks the version of a domain, then calls its register_with.
 *  @param domain  the object of the symbol TP_DOMAIN_SYMBOL in a loaded library.
 *  @return TP_OK; TP_ERR_VERSION for a domain of another major version, or of another minor one before 1.0, or without
 *          struct_size; TP_ERR_BAD_ID for its name; TP_ERR_USAGE without register_with; the status that
 *          register_with returned, with a fault that names the domain. Threads: the one that uses the edit. */
TP_API tp_status tp_domain_add(tp_runtime *runtime, tp_edit *edit, const tp_domain *domain,
                               tp_fault *fault) TP_MUST_USE;

/* ---- names ------------------------------------------------------------------------------------------------------ */

/** As tp_execution_name(). Threads: any. */
TP_API const char *tp_mode_name(tp_mode mode);
TP_API const char *tp_trust_name(tp_trust trust);

TP_END_DECLS
#endif
