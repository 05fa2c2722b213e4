/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h: for authors of stores: the history of sessions, run records and background jobs. The memory store in the
 * core is the reference; all stores pass one conformance suite (tests/store/).
 * Threads: any. The functions of a store come on any thread, several at once. */
#ifndef TURNPHASE_STORE_H
#define TURNPHASE_STORE_H

#include "turnphase/model.h"

TP_BEGIN_DECLS

/** Receives loaded messages in order; the message is borrowed till return. A status other than TP_OK stops the load,
 *  which returns it. Threads: the one that calls load. */
typedef tp_status (*tp_message_fn)(void *ctx, const tp_message *message);

/** A turn's claim of a session in a shared history (tp_history.shared): no other turn can use the session until this
 *  turn appends, the claim is released, or the lease of its process ends. load fills it; append and release take it
 *  back. Its position counts all messages that were ever appended, also those that were deleted for their age. */
typedef struct tp_history_claim {
  size_t struct_size;
  uint64_t number;   /* of the session; not 0; a session that was deleted and begun anew has another one */
  uint64_t fence;    /* not 0; rises with each claim of the session: the owner's epoch */
  uint64_t position; /* the position of the next message */
  uint64_t first;    /* position of the first message that load gave: tp_history_load.after; 0: it gave all */
  uint64_t retry_ms; /* with TP_ERR_BUSY: the rest of the holder's lease; 0: not known */
  /** Which file or database has the session: a store of the same one has the same number, and no other one has it
   *  meanwhile. 0: not known. It comes back with the fence, in tp_tool_start_record and in tp_job. */
  uint64_t origin;
} tp_history_claim;

struct tp_store_owner;

/** The session whose messages are loaded. Made by the library; borrowed till load returns, or till the token of
 *  load_start is completed or the runtime freed. */
typedef struct tp_history_load {
  size_t struct_size;
  tp_text tenant, session;
  tp_message_fn each; /* called for each message, in order, before load returns; NULL in a request of load_start */
  void *ctx;          /* passed to each */
  /** When a turn begins in a shared history: the process that claims the session. NULL: the messages are only read, all
   *  of them, and nothing is claimed. */
  const struct tp_store_owner *owner;
  /** What the owner has loaded before: the session's number, and the position up to which it has the messages. Only
   *  messages from there on are given, unless the session has another number now, or fewer messages. 0: nothing was
   *  loaded. */
  uint64_t number, after;
  /** With owner: filled when the session is claimed, also when giving the messages fails afterwards; else its fence
   *  stays 0. With TP_ERR_BUSY only retry_ms is filled. */
  tp_history_claim *claim;
} tp_history_load;

/** A batch to append. Made by the library; all of it is borrowed till append returns, or till the token of
 *  append_start is completed or the runtime freed. */
typedef struct tp_history_append {
  size_t struct_size;
  tp_text tenant, session;
  const tp_message *const *messages;
  size_t message_count;
  /** The turn's claim, which ends with a successful append, also with one of no messages. Nothing is appended, and the
   *  result is TP_ERR_FENCED, when the session has another number, fence or position now. NULL: the batch is appended
   *  without this check. */
  const tp_history_claim *claim;
} tp_history_append;

/** A claim that ends without an append. Made by the library; borrowed till release returns. */
typedef struct tp_history_release {
  size_t struct_size;
  tp_text tenant, session;
  const tp_history_claim *claim;
} tp_history_release;

/** The session whose messages are deleted. Made by the library. */
typedef struct tp_history_delete {
  size_t struct_size;
  tp_text tenant, session;
} tp_history_delete;

/** A session of which the history has messages. Made by the history; borrowed till the callback returns. */
typedef struct tp_history_session {
  size_t struct_size;
  uint64_t number; /* from 1: rises in the order of the sessions' first appends */
  uint64_t message_count;
  tp_text tenant, session;
} tp_history_session;
/** Receives a session; false stops the walk. Threads: the calling one. */
typedef bool (*tp_history_session_fn)(void *ctx, const tp_history_session *session);

/** Which sessions to list. Zero or empty: any. */
typedef struct tp_history_query {
  size_t struct_size;
  uint64_t after_number; /* cursor: only numbers above it */
  size_t limit;          /* the most sessions; 0: all */
  tp_text tenant;
} tp_history_query;

/** A store of the messages of sessions. Filled by the host, or made by the library. The function that takes it copies
 *  the struct, on success only; destroy is called exactly once. A function that is not marked required may be NULL:
 *  then the history does not support it.
 *  Threads: load, append and delete_session may block and come on handler threads or on that of a caller, one call per
 *  session at a time, also where a turn was cancelled and has left a call that still runs: the next call of the session
 *  comes after that has returned. Calls of several sessions come at once. */
typedef struct tp_history {
  size_t struct_size;
  void *ctx;
  /** Gives every message of the session in order to each. An unknown session has none. Required where there is no
   *  load_start. Where there are both, a turn uses load_start, and load is for callers that have no token: see
   *  load_paired. */
  tp_status (*load)(void *ctx, const tp_history_load *request, tp_fault *fault);
  /** In place of load: begins it and returns at once; exactly one tp_history_complete_load() with the token follows,
   *  from any thread, also before load_start returns. It is called on the thread that owns the turn, so it must not
   *  block, and no thread of the runtime waits while the history works. A load that is not completed within 30 s fails
   *  its turn (TP_ERR_TIMEOUT); the turn's limit and its cancel end the wait before. The token must still be completed,
   *  since the request is kept until then. */
  void (*load_start)(void *ctx, const tp_history_load *request, tp_token token);
  /** Notifies that the turn no longer waits for a load_start: at most once per token. May be NULL. */
  void (*load_cancel)(void *ctx, tp_token token);
  /** Appends a batch atomically: all of it or nothing. Required where there is no append_start. Where there are both, a
   *  turn uses append_start, and append is for callers that have no token: see append_paired. */
  tp_status (*append)(void *ctx, const tp_history_append *request, tp_fault *fault);
  /** Begins an append and returns at once; exactly one tp_history_complete() with the token follows, from any thread,
   *  also before append_start returns. It is called on the thread that owns the turn, so it must not block,
   *  and no handler thread is taken while the history works. An append that is not completed within 30 s fails its turn
   *  (TP_ERR_TIMEOUT). Its token must still be completed, since the batch is kept until then. */
  void (*append_start)(void *ctx, const tp_history_append *request, tp_token token);
  /** Notifies that the turn no longer waits for an append_start: at most once per token. May be NULL. */
  void (*append_cancel)(void *ctx, tp_token token);
  /** Deletes every message of a session, and the session. May be NULL.
   *  @return TP_OK; TP_ERR_NOT_FOUND when it has none. */
  tp_status (*delete_session)(void *ctx, const tp_history_delete *request, tp_fault *fault);
  /** Passes the matching sessions to each, by rising number. A concurrent change may be seen or not. each is called
   *  without any lock of the history. May be NULL. */
  tp_status (*list_sessions)(void *ctx, const tp_history_query *query, tp_history_session_fn each, void *each_ctx,
                             tp_fault *fault);
  /** Called exactly once, when the runtime does not use the history any more. May be NULL. */
  void (*destroy)(void *ctx);
  /** The append that belongs to append_start. It is read when both append and append_start are set, and must then be
   *  equal to append: else TP_ERR_USAGE. So a copy of a history in which only append was replaced is refused, since its
   *  turns would use append_start and bypass the new append. Clear append_start, too, or replace all three. */
  tp_status (*append_paired)(void *ctx, const tp_history_append *request, tp_fault *fault);
  /** 1: other runtimes or processes may append to a session. Then each turn begins with a load, which claims the
   *  session (tp_history_load.owner), and ends with an append or a release. A claim is refused with TP_ERR_BUSY, and a
   *  fault that names the holder, while a turn of another process has the session and the lease of that process has not
   *  ended. 0: the messages are loaded once, with the session's first turn, and the session must have no other user. */
  uint32_t shared;
  uint32_t reserved_; /* zero */
  /** Ends a claim when its turn does not append: after a load that came too late, or after a failed append. No turn
   *  waits for it. A claim that ended before is ignored. It must not block, and may come on any thread. Required where
   *  shared is 1, refused elsewhere. */
  void (*release)(void *ctx, const tp_history_release *request);
  /** The load that belongs to load_start, for callers that have no token; set both, or neither. */
  tp_status (*load_paired)(void *ctx, const tp_history_load *request, tp_fault *fault);
} tp_history;

/** Ends an append that append_start began.
 *  @param status  TP_OK, or why nothing of the batch was appended.
 *  @param why     with a status other than TP_OK: its message, which should be safe to show, is copied. May be NULL.
 *  @return TP_OK; TP_ERR_STALE when the append was completed before, or the turn no longer waits for it;
 *          TP_ERR_USAGE for a token of something else, and for a number that is no status: nothing is completed.
 *  Threads: any, at any time.  Blocks: no. */
TP_API tp_status tp_history_complete(tp_token token, tp_status status, const tp_fault *why, tp_fault *fault);

/** Ends a load that load_start began.
 *  @param status    TP_OK, or why the messages cannot be loaded: then there are no messages.
 *  @param messages  message_count pointers: every message of the session, in order; copied. NULL: none. Messages that
 *                   the library cannot use fail the turn, whose reason says why; that is TP_OK here.
 *  @param why       as in tp_history_complete().
 *  @return TP_OK; TP_ERR_STALE when the load was completed before, or the turn no longer waits for it; TP_ERR_USAGE for
 *          a token of something else, for a number that is no status, for a count without messages, and for messages
 *          together with a failure: nothing is completed.
 *  Threads: any, at any time.  Blocks: no. */
TP_API tp_status tp_history_complete_load(tp_token token, tp_status status, const tp_message *const *messages,
                                          size_t message_count, const tp_fault *why, tp_fault *fault);

/** A history in memory. Give it to tp_session_options.history or tp_history_share(), which take it, or free it with
 *  tp_history_free().
 *  @param allocator  NULL: malloc and free.   @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD.   Threads: any. */
TP_API tp_status tp_history_memory_new(const tp_allocator *allocator, tp_history **ret_history,
                                       tp_fault *fault) TP_MUST_USE;
/** Destroys a history that was not taken. Accepts NULL.   Threads: any. */
TP_API void tp_history_free(tp_history *history);

/** A reference-counted history of many sessions, also of several runtimes. Each session that names it, and each runtime
 *  whose sessions use it by default, has a reference; the history is destroyed with the last one. */
typedef struct tp_shared_history tp_shared_history;

/** Makes a history shareable. The caller has the first reference.
 *  @param allocator  NULL: malloc and free.   @param history  taken on success.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for a wrong history; TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD.
 *  Threads: any. */
TP_API tp_status tp_history_share(const tp_allocator *allocator, const tp_history *history,
                                  tp_shared_history **ret_shared, tp_fault *fault) TP_MUST_USE;
/** Adds a reference. @return the same; NULL for NULL.   Threads: any. */
TP_API tp_shared_history *tp_shared_history_ref(tp_shared_history *shared);
/** Ends a reference; with the last one the history's destroy is called, on this thread. Accepts NULL.
 *  Threads: any. */
TP_API void tp_shared_history_unref(tp_shared_history *shared);
/** Deletes everything that the history has of a session that is not open. Meanwhile the session cannot be opened
 *  (TP_ERR_BUSY).
 *  @param tenant  NULL: the session has none.
 *  @return TP_OK; TP_ERR_NOT_FOUND when it has no messages; TP_ERR_BUSY while a session of the tenant and id is open
 *          (until the on_end of its tp_session_close()), while an abandoned call of it still runs, and while another
 *          thread deletes it; TP_ERR_STORE where the history cannot delete; what the history returns;
 *          TP_ERR_USAGE without an id.
 *  Threads: any.   Blocks: as the history does. */
TP_API tp_status tp_shared_history_delete(tp_shared_history *shared, const char *tenant, const char *session,
                                          tp_fault *fault) TP_MUST_USE;
/** Lists the sessions of which the history has messages, open or not, by rising number.
 *  @param query  NULL: all.
 *  @return TP_OK; TP_ERR_VERSION for a query of a wrong size; TP_ERR_STORE where the history cannot list; what it
 *          returns.
 *  Threads: any; each is called on the calling one.   Blocks: as the history does. */
TP_API tp_status tp_shared_history_list(tp_shared_history *shared, const tp_history_query *query,
                                        tp_history_session_fn each, void *ctx, tp_fault *fault) TP_MUST_USE;

/** How an attempt or a subscription without one ended. Numbers are stored. */
typedef enum tp_state {
  TP_STATE_NONE = 0,
  TP_STATE_QUEUED = 1,
  TP_STATE_RUNNING = 2,
  TP_STATE_SUCCEEDED = 3,
  TP_STATE_FAILED = 4,
  TP_STATE_TIMED_OUT = 5,
  TP_STATE_CANCELLED = 6,
  TP_STATE_BACKGROUNDED = 7, /* detached: the run was started, or its job was committed */
  TP_STATE_INTERRUPTED = 8,
  TP_STATE_SKIPPED = 9,
  TP_STATE_FORCE_32 = 0x7fffffff
} tp_state;

/** The reason of a state. Numbers are stored. A run whose handler did not answer has failed; a run whose handler did
 *  not have to be called is skipped. */
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
  TP_REASON_NO_INBOX = 16,     /* failed: the handler names TP_INBOX_OF_SESSION, and the turn has no session with an
                                  inbox */
  TP_REASON_POSTPONED = 17,    /* failed: the handler could not try, since something that it needs is busy, full or out
                                  of reach */
  TP_REASON_FENCED = 18,       /* failed: another process has taken over its turn's session, so its job is not stored */
  TP_REASON_MATCH = 32,        /* skipped: its own match does not fit */
  TP_REASON_DEPENDENCY = 33,   /* skipped: a required dependency did not succeed */
  TP_REASON_PHASE_FAILED = 34, /* skipped: the entry had failed or was denied before it */
  TP_REASON_NO_SLACK = 35,     /* skipped: no time was left, or required handlers after it need the time */
  TP_REASON_KILL_SWITCH = 36,  /* skipped: the operator switched it off */
  TP_REASON_BACKLOG = 37,      /* skipped: there was no space for it, and its subscription sheds (TP_BACKLOG_SHED) */
  TP_REASON_FORCE_32 = 0x7fffffff
} tp_reason;

/** The constant's word in small letters: "succeeded", "timed_out"; "unknown" for any other number. Static text.
 *  Threads: any. */
TP_API const char *tp_state_name(tp_state state);
TP_API const char *tp_reason_name(tp_reason reason);

/** The row of one subscription in an entry record. Times are monotonic nanoseconds; 0 means never. Strings live as long
 *  as the runtime. The small fields hold values of the enum that stands beside them. */
typedef struct tp_run_record {
  size_t struct_size;
  const char *subscription;
  const char *handler;
  const char *owner;
  /** queued_ns: when the run was ready; of an inline run without a Deadline: when it was called. */
  int64_t queued_ns, started_ns, ended_ns, late_ns;
  uint32_t code;
  uint32_t contribution_count;
  /** How many attempts ran. */
  uint16_t attempts;
  /** tp_state. */
  uint8_t state;
  /** tp_reason. */
  uint8_t reason;
  /** tp_verdict. */
  uint8_t verdict;
  /** tp_execution. */
  uint8_t execution;
  /** tp_failure. */
  uint8_t failure;
  bool fallback_used;
  /** tp_visibility of the subscription. */
  uint8_t visibility;
  /** Zero. */
  uint8_t reserved_;
  /** The handler thread that called it, from 1 in the order in which they were started; 65,535 for all later ones.
   *  0: the turn's owner called it, or it was taken from an inbox, or not called. */
  uint16_t thread;
  /** Of a run on another thread than the owner's: its limit, which counts from queued_ns with execution DEADLINE,
   *  else from the call of each attempt. 0: not known. */
  uint32_t limit_ms;
} tp_run_record;

/** One run of one phase: a row for every subscription of the phase, in plan order. Made by the library; everything in
 *  it is borrowed till the callback returns. (process_run_id, entry_id) identifies it, in every store. */
typedef struct tp_entry_record {
  size_t struct_size;
  /** A random number of the runtime that wrote it. */
  uint64_t process_run_id;
  /** From 1, unique in that runtime. */
  uint64_t entry_id;
  uint64_t plan_hash;
  /** Monotonic. */
  int64_t started_ns, ended_ns;
  /** The wall clock at started_ns, as it stood when the record was written. */
  int64_t started_unix_ms;
  tp_phase_id phase;
  /** tp_status: TP_OK, TP_ERR_HOOK (failed), TP_ERR_DENIED, TP_ERR_CANCELLED, TP_ERR_TIMEOUT. */
  int32_t status;
  /** By TP_ID_*; an id that the turn does not have is empty. */
  const tp_text *ids;
  size_t id_count;
  size_t run_count;
  /** Fills the row of one subscription, in plan order, as far as record->struct_size reaches; a longer struct's rest is
   *  zeroed. @return false, and nothing is written, for an index that is not below run_count, and for struct_size 0. */
  bool (*run)(const void *source, size_t index, tp_run_record *record);
  const void *source;
} tp_entry_record;
/** Receives a record, which is borrowed till return; false stops the walk. Threads: the calling one. */
typedef bool (*tp_record_fn)(void *ctx, const tp_entry_record *record);

/** Entry records of one turn that are passed together, in the order in which the entries ended. Made by the
 *  library; all of it is borrowed till return. To read it later, on any thread, a store copies the struct, its ids and
 *  the bytes of packed (no pointer in these bytes points into them), and reads the copy. It must do so at the latest in
 *  its destroy, since the names in rows live only as long as the runtime. */
typedef struct tp_entry_batch {
  size_t struct_size; /* in a copy: the size that was copied */
  uint64_t process_run_id;
  const tp_text *ids; /* the ids of each entry, by TP_ID_* */
  size_t id_count;
  size_t entry_count;     /* at least 1 */
  int64_t unix_offset_ns; /* added to a monotonic time, it gives the time of the wall clock */
  const void *packed;     /* the entries, in a form of the library's own, aligned to 8 bytes */
  size_t packed_bytes;
  /** Fills the record of the entry at *offset (0: of the first), as far as record->struct_size reaches, and moves
   *  *offset to the next one. What the record points to is borrowed as the batch is.
   *  @return false, and nothing is written, after the last entry, and for struct_size 0. */
  bool (*entry)(const struct tp_entry_batch *batch, size_t *offset, tp_entry_record *record);
} tp_entry_batch;

/** Which records to read: newest first. Zero or empty: any. */
typedef struct tp_record_query {
  size_t struct_size;
  /** The most records; 0: all. */
  size_t limit;
  /** Cursor: only entries after this one, which was the last of the page before. When this entry is no longer kept,
   *  nothing is passed. */
  uint64_t before_process_run_id, before_entry_id;
  /** Only records whose started_unix_ms is between them, both included; to 0: no end. */
  int64_t from_unix_ms, to_unix_ms;
  tp_phase_id phase;
  /** 1: only entries whose status is not TP_OK. */
  uint32_t only_failed;
  /** By TP_ID_*; an empty id fits all. */
  const tp_text *ids;
  size_t id_count;
  /** tp_visibility: tp_runtime_records() leaves out rows of subscriptions of lower visibility, and does not count
   *  them in run_count; the entries stay. The library applies it; a store need not. */
  uint32_t visibility_min;
  /** Zero. */
  uint32_t reserved_;
} tp_record_query;

/** A late answer of a run, which was discarded. */
typedef struct tp_late_record {
  size_t struct_size;
  uint64_t process_run_id;
  uint64_t entry_id;
  int64_t late_ns;    /* monotonic */
  uint32_t run_index; /* in plan order */
  uint32_t reserved_; /* zero */
} tp_late_record;

/* ---- turns ---- */

/** A step of a driven turn that is not a phase. Numbers are stored. */
typedef enum tp_step_kind {
  TP_STEP_LOAD = 1,     /* the turn's history is loaded */
  TP_STEP_MODEL = 2,    /* a request to the model; each attempt is a step of its own */
  TP_STEP_TOOL = 3,     /* a tool call */
  TP_STEP_APPEND = 4,   /* the turn's messages are appended to the history */
  TP_STEP_MESSAGE = 5,  /* a message that was added to the turn enters it (turn.h); started_ns is ended_ns */
  TP_STEP_QUESTION = 6, /* in a turn that runs: a call waits for a person's answer; name is that of its tool */
  TP_STEP_FORCE_32 = 0x7fffffff
} tp_step_kind;
/** The constant's word in small letters: "model", "tool"; "unknown" for any other number. Static text. Threads: any. */
TP_API const char *tp_step_kind_name(tp_step_kind kind);

/** One step of a turn. Times are monotonic nanoseconds. ended_ns is 0 in an open step of a turn that has not ended. */
typedef struct tp_turn_step {
  size_t struct_size;
  int64_t started_ns, ended_ns; /* of a tool call: those of its function; equal when the function was not called */
  uint32_t kind;                /* tp_step_kind */
  /** In the step of a model request: its number in the turn, from 1. In that of a tool call: the number of the request
   *  whose response has the call. Else 0. */
  uint32_t round;
  uint32_t place;    /* of a tool call: its index in the response */
  int32_t outcome;   /* of a tool call its tp_tool_result_kind; else a tp_status */
  tp_text name;      /* the name of the tool; of a request that of the model that was asked; else empty */
  uint64_t entry_id; /* of a tool call that has ended: the entry of its newest tool.pre; else 0 */
} tp_turn_step;

/** One driven turn: at its end (state is 0), or while it runs (state is set). Made by the library; everything in it is
 *  borrowed till the call or callback returns. (process_run_id, number) identifies it among those that have ended, and
 *  among those that have a state. */
typedef struct tp_turn_record {
  size_t struct_size;
  /** The runtime that wrote it. */
  uint64_t process_run_id;
  /** From 1 in that runtime. It rises with the ends of turns; in records with a state, with their begins. */
  uint64_t number;
  /** By TP_ID_*; an id that the turn does not have is empty. */
  const tp_text *ids;
  size_t id_count;
  /** tp_turn_outcome. In a record with a state it is 0, and so are code, phase, subscription, reason, finish and
   *  finish_word. */
  uint32_t outcome;
  /** tp_status. */
  int32_t code;
  /** Monotonic. started_ns is 0 when the turn ended in its session's queue. In a record with a state, ended_ns is the
   *  time at which the record was written. */
  int64_t started_ns, ended_ns;
  /** The wall clock at those moments, as it was set at the end of the turn. */
  int64_t started_unix_ms, ended_unix_ms;
  /** How long it waited for its history to be loaded, for all requests to the model, for all dispatches of tools, and
   *  for the append to its history. */
  int64_t load_ns, model_ns, tools_ns, append_ns;
  uint32_t iterations, tool_calls;
  int64_t input_tokens, output_tokens, cost_micros;
  /** The phase of the subscription that ended the turn; 0: none did. */
  tp_phase_id phase;
  /** tp_finish, of the last answer. */
  uint32_t finish;
  /** The subscription that ended the turn; empty: none did. */
  tp_text subscription;
  /** Of a turn that did not complete: why; safe to show. */
  tp_text reason;
  /** How many steps there are, at most 1,024: the first ones, in the order of their ends. */
  size_t step_count;
  /** Fills one step, as tp_entry_record.run does a row. May be NULL where step_count is 0. */
  bool (*step)(const void *source, size_t index, tp_turn_step *step);
  const void *step_source;
  /** How many further steps there were. */
  uint64_t steps_dropped;
  /** Of a nested turn: the id of the turn whose call ran it; else empty. */
  tp_text parent_turn;
  /** The provider's own word for finish; may be empty. */
  tp_text finish_word;
  /** tp_state. 0: the turn has ended. RUNNING: it runs. INTERRUPTED: its process ended first. With these, the open
   *  steps stand at the end. */
  uint32_t state;
  /** Zero. */
  uint32_t reserved_;
  /** Of a turn that has ended: the number that its records had while it ran; 0: it had none. */
  uint64_t running_number;
} tp_turn_record;
/** Receives a turn record; false stops the walk. Threads: the calling one. */
typedef bool (*tp_turn_record_fn)(void *ctx, const tp_turn_record *record);

/** Which turn records to read: newest first. Zero or empty: any. */
typedef struct tp_turn_query {
  size_t struct_size;
  size_t limit;                                  /* the most records; 0: all */
  uint64_t before_process_run_id, before_number; /* cursor, as in tp_record_query */
  /** Only records whose ended_unix_ms is between them, both included; to 0: no end. */
  int64_t from_unix_ms, to_unix_ms;
  uint32_t only_failed; /* 1: only turns that did not complete */
  uint32_t reserved_;   /* zero */
  const tp_text *ids;   /* by TP_ID_*; an empty id fits all */
  size_t id_count;
} tp_turn_query;

/* ---- audit ---- */

/** An audit row: a registration with its owner, a subscription that failed, was late, was refused or denied, or an
 *  audit contribution of a handler. struct_size is set by the library. Pointers are borrowed till the callback
 *  returns. */
typedef struct tp_audit {
  size_t struct_size;
  int64_t unix_ms;
  const char *owner;
  /** "commit", "kill_switch"; of a run "failure", "denial" or "audit"; of a call that model.response dropped or
   *  changed "replacement"; of declared hooks "trust"; else what the host has added (tp_runtime_audit_add()). */
  const char *action;
  /** What changed, or why it was refused; of a run the reason, safe to show. */
  const char *detail;
  /** TP_OK; of a commit why it was refused; of a failure TP_ERR_HOOK, TP_ERR_TIMEOUT or TP_ERR_CAPABILITY; of a
   *  denial TP_ERR_DENIED. */
  tp_status status;
  /** Of a run; else 0, as all that follows. */
  tp_phase_id phase;
  /** The snapshot of a commit or of the kill switch. */
  uint64_t snapshot_hash;
  /** The subscription of a run; else NULL. */
  const char *subscription;
  /** The id of the turn; may be empty. */
  const char *turn;
  /** From the call of the last attempt to its end; 0: it was not called. */
  int64_t duration_ns;
  tp_state state;
  tp_reason reason;
  /** The visibility of the subscription; USER_VISIBLE where there is none. */
  tp_visibility visibility;
  uint32_t reserved_;
  /** Those of the turn; else NULL. */
  const char *tenant, *session;
} tp_audit;
/** Receives an audit row; false stops the walk. Threads: the calling one. */
typedef bool (*tp_audit_fn)(void *ctx, const tp_audit *row);

/** Which audit rows to read: newest first. Zero or empty: any. */
typedef struct tp_audit_query {
  size_t struct_size;
  size_t limit;                     /* the most rows; 0: all */
  int64_t from_unix_ms, to_unix_ms; /* only rows whose unix_ms is between them, both included; to 0: no end */
  tp_phase_id phase;
  uint32_t reserved_; /* zero */
} tp_audit_query;

/** An attempt that has a record of its own, in addition to the row of its run: an attempt that is or was tried again,
 *  that failed after it was called, or that has a message. Any other attempt is described by the row of its run
 *  only. */
typedef struct tp_attempt_record {
  size_t struct_size;
  uint64_t process_run_id, entry_id;
  uint32_t run_index, attempt; /* in plan order; from 1 */
  int64_t queued_ns, started_ns, ended_ns, late_ns;
  uint32_t state, reason, verdict, code; /* tp_state, tp_reason, tp_verdict, the handler's own number */
  tp_text message;                       /* safe to show; at most 512 bytes */
} tp_attempt_record;
/** Receives an attempt; false stops the walk. Threads: the calling one. */
typedef bool (*tp_attempt_record_fn)(void *ctx, const tp_attempt_record *record);

/** Which attempts to read: those of one entry, by run_index and attempt. */
typedef struct tp_attempt_query {
  size_t struct_size;
  uint64_t process_run_id, entry_id;
} tp_attempt_query;

/* ---- content ---- */

/** Content of a phase that a record must not hold: a field of its payload, as the phase left it, or the text of a
 *  contribution (its value where the text is empty). A store keeps the size and a keyed hash, with which a host that
 *  has the same content can find it again. */
typedef struct tp_content_record {
  size_t struct_size;
  uint64_t process_run_id, entry_id;
  uint32_t run_index;        /* the run of a contribution, in plan order; 0 for a field */
  tp_field_id field;         /* TP_FIELD_*; 0 for a contribution */
  tp_contribution_kind kind; /* TP_CONTRIBUTION_*; 0 for a field */
  uint32_t reserved_;        /* zero */
  uint64_t bytes;            /* how many bytes the content has */
  tp_text content;           /* when the record is given to the store; empty when it is read */
  tp_text hash;              /* when the record is read: the store's hash; else empty */
} tp_content_record;
/** Receives a record of content; false stops the walk. The record is borrowed till return. Threads: the calling one. */
typedef bool (*tp_content_record_fn)(void *ctx, const tp_content_record *record);

/** Which content to read: that of one entry, in the order in which it was recorded. */
typedef struct tp_content_query {
  size_t struct_size;
  uint64_t process_run_id, entry_id;
} tp_content_query;

/* ---- tasks ---- */

/** A task: a tool call that was allowed and may be run later, once (task.h). Borrowed until the call or callback
 *  returns. */
typedef struct tp_task_record {
  size_t struct_size;
  int64_t created_unix_ms;
  tp_text key, tool;
  tp_text arguments;       /* a value: a map, or empty */
  tp_text agent;           /* empty: none */
  tp_text tenant, session; /* of the turn that created it; may be empty */
} tp_task_record;
/** Receives the task that was taken. Threads: the calling one. */
typedef void (*tp_task_record_fn)(void *ctx, const tp_task_record *record);

/* ---- calls of tools that are not idempotent ---- */

/** The start of a tool call: with durability SYNC committed before its function runs. Made by the library. */
typedef struct tp_tool_start_record {
  size_t struct_size;
  uint64_t process_run_id, turn_number; /* this run of the turn */
  uint32_t call_index;                  /* its index in its response */
  uint32_t reserved_;                   /* zero */
  int64_t started_unix_ms;
  const tp_text *ids; /* by TP_ID_*: tenant, session and turn identify the turn */
  size_t id_count;
  tp_text call_id, tool;
  tp_text arguments; /* a value: content, of which a store keeps only a keyed hash */
  /** The fence of the turn's claim (tp_history_claim) of its session; 0: the turn has no claim. A store that also has
   *  the history returns TP_ERR_FENCED when the session has another fence now, so that a turn whose session was taken
   *  over begins no call. It returns that, too, when origin is its own and the session is gone: it was deleted. */
  uint64_t fence;
  /** The origin of that claim (tp_history_claim); 0: not known. */
  uint64_t origin;
} tp_tool_start_record;

/** The end of a tool call. */
typedef struct tp_tool_end_record {
  size_t struct_size;
  uint64_t start_id;  /* *ret_start_id of tp_store.tool_start */
  uint32_t kind;      /* tp_tool_result_kind */
  uint32_t reserved_; /* zero */
  tp_text text;       /* the tool's answer, before tool.result: content */
  tp_text value;      /* of the answer, and its parts: values, or empty; content */
  tp_text parts;
} tp_tool_end_record;
/** Receives the result of a call of an earlier run of the turn; borrowed till return. Threads: the calling one. */
typedef void (*tp_tool_end_fn)(void *ctx, const tp_tool_end_record *earlier);

/* ---- jobs ---- */

/** Numbers are stored. */
typedef enum tp_job_state {
  TP_JOB_QUEUED = 1,  /* open: waits to be claimed, or for its next attempt */
  TP_JOB_RUNNING = 2, /* open: claimed */
  TP_JOB_SUCCEEDED = 3,
  TP_JOB_DEAD = 4, /* a dead letter: it failed for good; it can be redriven or discarded */
  TP_JOB_DISCARDED = 5,
  TP_JOB_STATE_FORCE_32 = 0x7fffffff
} tp_job_state;
/** The constant's word in small letters: "queued", "dead"; "unknown" for any other number. Static text. Threads:
 *  any. */
TP_API const char *tp_job_state_name(tp_job_state state);

/** A background job. Everything is borrowed for the call it is passed to. Times are unix milliseconds; 0 means
 *  never. */
typedef struct tp_job {
  size_t struct_size;
  uint64_t id;           /* given by the store */
  uint64_t claim;        /* token of this claim: a finish with another is refused */
  uint32_t state;        /* tp_job_state */
  uint32_t attempt;      /* from 1; 0: it was never claimed */
  uint32_t attempts_max; /* after this many attempts it is a dead letter */
  uint32_t backoff;      /* tp_backoff: the pause between attempts */
  uint32_t backoff_ms;
  uint32_t limit_ms;         /* the limit of each attempt */
  tp_phase_id phase;         /* TP_PHASE_NONE: any phase that its handler is subscribed to */
  uint32_t contract_version; /* the contract version of its handler; 0: any */
  uint32_t reason;           /* tp_reason of the last attempt that ended */
  uint32_t code;             /* the handler's own number for it */
  int64_t inserted_ms, claimable_ms, lease_end_ms, ended_ms;
  tp_text handler; /* handler id */
  tp_text subscription;
  tp_text idempotency_key;
  tp_text order_key; /* only the oldest open job of a key is claimable */
  tp_text message;   /* the message of the last attempt that failed: safe to show */
  tp_text payload;   /* value: the fields and ids of the call; content */
  /** How long it has been postponed in all (tp_call_postpone()): the sum of its pauses, which setting a clock does not
   *  change. */
  int64_t postponed_ms;
  /** In an insert: the fence of the turn's claim (tp_history_claim) of the session that the payload's ids name; 0: the
   *  turn has no claim. It is not stored, and is 0 in a job that the store passes out. A store that also has the
   *  history returns TP_ERR_FENCED when the session has another fence now, so that a turn whose session was taken over
   *  inserts no new job. It returns that, too, when origin is its own and the session is gone: it was deleted. */
  uint64_t fence;
  /** In an insert: the origin of that claim (tp_history_claim); 0: not known. Not stored, as fence. */
  uint64_t origin;
} tp_job;

/** The function that tp_store.job_watch gives to the store. Threads: any. */
typedef void (*tp_job_news_fn)(void *news_ctx);
/** Whether a worker can run a job that may be claimed. Called without any lock of the store. The result is valid for
 *  every job of the same handler and contract version until the claim returns. Threads: the calling one. */
typedef bool (*tp_job_filter_fn)(void *ctx, const tp_job *job);
/** Receives a job, which is borrowed till return. Threads: the calling one. */
typedef void (*tp_job_fn)(void *ctx, const tp_job *job);
/** Receives jobs, oldest first; false stops the walk. Threads: the calling one. */
typedef bool (*tp_job_each_fn)(void *ctx, const tp_job *job);

/** The longest pause between two attempts of a job. */
enum tp_job_limits { TP_JOB_PAUSE_MS_MAX = 60000 };

/** How a claim ended. */
typedef enum tp_job_end {
  TP_JOB_END_SUCCEEDED = 1,
  TP_JOB_END_FAILED = 2,   /* it failed for good: a dead letter */
  TP_JOB_END_RETRY = 3,    /* it may be tried again; after its last attempt it is a dead letter */
  TP_JOB_END_RELEASED = 4, /* its handler was not called, or postponed it: the attempt does not count */
  TP_JOB_END_FORCE_32 = 0x7fffffff
} tp_job_end;

/** The request of a worker for a job. Times are unix milliseconds. */
typedef struct tp_job_claim {
  size_t struct_size;
  int64_t now_ms;
  /** The lease ends at now_ms + lease_ms, unless job_renew moves its end. */
  int64_t lease_ms;
  /** NULL: every job. */
  tp_job_filter_fn filter;
  /** Called once for each job that is claimed, without any lock of the store. */
  tp_job_fn take;
  /** Called for each job that became a dead letter because its last lease ran out, without any lock of the store;
   *  may be NULL. */
  tp_job_fn dead;
  /** Passed to filter, take and dead. */
  void *ctx;
  /** The most jobs that are claimed, in one transaction, the oldest first; 0: one. Above one only for a store with
   *  job_finish_all. */
  size_t count_max;
} tp_job_claim;

/** A claim whose lease is extended. Times are unix milliseconds. */
typedef struct tp_job_renew {
  size_t struct_size;
  uint64_t id, claim;
  int64_t now_ms, lease_ms; /* the lease ends at now_ms + lease_ms */
} tp_job_renew;

/** How a claim ended. Times are unix milliseconds. */
typedef struct tp_job_finish {
  size_t struct_size;
  uint64_t id, claim;
  int64_t now_ms;
  /** With RETRY and RELEASED: when it may be claimed again, at most TP_JOB_PAUSE_MS_MAX from now_ms. When a claim has
   *  an earlier now_ms than the claim before it (a clock was set back), a job whose wait would exceed that bound may be
   *  claimed at once. */
  int64_t retry_at_ms;
  uint32_t end;         /* tp_job_end */
  uint32_t reason;      /* tp_reason; 0 with SUCCEEDED */
  uint32_t code;        /* the handler's own number */
  uint32_t reserved_;   /* zero */
  tp_text message;      /* why it failed: safe to show; may be empty */
  int64_t postponed_ms; /* with RELEASED and RETRY: what the job's postponed_ms is from now on */
} tp_job_finish;

/** Which jobs to list. Zero or empty: any. */
typedef struct tp_job_query {
  size_t struct_size;
  uint64_t id;       /* only this job; 0: any */
  uint64_t after_id; /* cursor: only ids above it */
  size_t limit;      /* the most jobs; 0: all */
  tp_text handler, order_key;
  uint32_t states;       /* bits 1 << tp_job_state; 0: open ones and dead letters */
  uint32_t with_payload; /* 1: show payloads, which are content; else they are empty */
} tp_job_query;

/* ---- the owner of a store ---- */

/** The run of a process that opens a store. Its row lets a later run find out that the process has ended. */
typedef struct tp_store_owner {
  size_t struct_size;
  /** A random number of the runtime: in every record that it writes. */
  uint64_t process_run_id;
  /** The process id of the operating system. */
  int64_t process_id;
  /** Start time in the unit of the system; with process_id and boot_id it identifies the process. */
  int64_t process_started;
  int64_t opened_unix_ms;
  /** The id of this boot of the machine; empty where there is none. */
  tp_text boot_id;
  /** tp_durability of its entry records. */
  uint32_t durability;
  /** Bound of the store's queue of records, in place of its own; 0: its own. */
  uint32_t record_queue_bytes;
} tp_store_owner;

/** What a recovery found of processes that have ended. */
typedef struct tp_store_recovery {
  size_t struct_size;
  uint64_t owners;              /* rows of processes that have ended */
  uint64_t jobs_requeued;       /* jobs that can be claimed again */
  uint64_t jobs_dead;           /* jobs that became dead letters */
  uint64_t entries_interrupted; /* entries and attempts that were running */
  /** Handlers and tools whose function was running when their process died, and requests and tool calls that were
   *  open. */
  uint64_t crash_suspects;
  uint64_t turns_interrupted; /* driven turns that were running */
} tp_store_recovery;

/** The function that a thread calls now. It is written before each call of a handler or tool, into memory that outlives
 *  the process, so that a recovery can name the function in which a process died. Texts are cut to fit, and end with a
 *  zero. */
typedef struct tp_breadcrumb {
  uint32_t is_running; /* 1 while the function is called; written last before the call, and first after the call */
  tp_phase_id phase;   /* 0: a tool */
  uint64_t entry_id;   /* of a tool 0 */
  int64_t started_ns;  /* monotonic; for an inline handler the time when its phase began */
  char subscription[TP_ID_BYTES_MAX]; /* the id of the subscription, or the tool's name */
  char handler[TP_ID_BYTES_MAX];      /* empty for a tool */
  char turn[TP_ID_BYTES_MAX], session[TP_ID_BYTES_MAX];
} tp_breadcrumb;
TP_STATIC_ASSERT(sizeof(tp_breadcrumb) == 24 + 4 * TP_ID_BYTES_MAX, "tp_breadcrumb is frozen: files hold it");

/** When entry records are durable. Jobs are committed before they are acknowledged, with any value. */
typedef enum tp_durability {
  TP_DURABILITY_DEFAULT = 0, /* memory */
  TP_DURABILITY_MEMORY = 1,  /* a turn passes its records to the store and does not wait */
  TP_DURABILITY_ASYNC = 2,   /* needs a durable store. Nothing waits; records that do not fit into the queue of a
                                    slow or failing store are dropped, counted and logged. FireAndRecord runs have a
                                    record from their start, so that they are found interrupted after a crash */
  TP_DURABILITY_SYNC = 3,    /* needs a durable store. The record of an entry is committed before its outcome is
                                    reported, and that of a FireAndRecord run before it starts. When that fails, a
                                    required subscription fails the entry (TP_REASON_STORE), or is not started; for
                                    other subscriptions the failure is logged. No phase takes its fast path */
  TP_DURABILITY_FORCE_32 = 0x7fffffff
} tp_durability;

/** A store of records and jobs. Filled by the host, or made by the library. The function record and the group jobs are
 *  required; a store may lack the rest, and then the library keeps nothing of that kind. Each of the groups jobs, dead
 *  letters, tool calls, tasks and turns that run is whole or absent: a store with part of one is refused
 *  (TP_ERR_USAGE), and the fault names the missing function. The functions may block. The function that takes a store
 *  copies the struct, on success only; destroy is called exactly once. Structs that the library passes have the
 *  library's struct_size: a store reads
 *  no further. The functions of a store can also be called without a runtime, to read it. They may call the runtime
 *  that called them, except functions that wait, which return TP_ERR_USAGE there, as does tp_runtime_start() in open
 *  and recover.
 *
 *  Threads: every function may be called from any thread, several at once. */
typedef struct tp_store {
  size_t struct_size;
  void *ctx;
  const char *name;
  uint32_t durable; /* 1: committed changes survive the process; else 0 */

  /* ---- the store ---- */

  /** Called by tp_runtime_start() before any other function: makes the owner's row. When it fails, the start fails. */
  tp_status (*open)(void *ctx, const tp_store_owner *owner, tp_fault *fault);
  /** Called after open, before any other function. Handles what ended processes left running: it marks it as
   *  interrupted, or puts jobs into the queue again. For a durable store the runtime repeats the call while it runs:
   *  every 7.5 s, or every half of job_lease_ms where that is less. So a living process finds what a dead one left. A
   *  call that finds nothing should write nothing. */
  tp_status (*recover)(void *ctx, tp_store_recovery *ret_recovery, tp_fault *fault);
  /** Commits everything that was recorded so far. In a durable store it is durable when the call returns. */
  tp_status (*commit)(void *ctx, tp_fault *fault);
  /** With durability ASYNC and SYNC, called once after the first recover: returns memory for `count` breadcrumbs, all
   *  zero, which stays until destroy. After the death of the process a recovery reads it. Each of the first `count`
   *  threads writes one breadcrumb of its own. */
  tp_status (*breadcrumbs)(void *ctx, size_t count, tp_breadcrumb **ret_breadcrumbs, tp_fault *fault);
  /** Called exactly once. */
  void (*destroy)(void *ctx);

  /* ---- records of entries, and of their attempts ---- */

  /** Required. Keeps one entry record, which is borrowed till return, in O(1) whatever the store holds. A turn passes
   *  its
   *  records in batches, the last ones at its end. With durability ASYNC and SYNC a record may be replaced by a later
   *  one of the same entry (process_run_id, entry_id); ended_ns is 0 in the record of an entry that runs. */
  tp_status (*record)(void *ctx, const tp_entry_record *record);
  /** In place of record, for records that a turn passes together: keeps the entries of a batch, each as record would,
   *  in O(1) for each. May be NULL: then each record comes to record. The record of an entry that runs always comes
   *  there. So a copy of a store's struct in which record was replaced must have NULL here. Called on the thread that
   *  owns the turn.
   *  @return TP_OK; else the whole batch counts as refused, and is not given again. */
  tp_status (*record_batch)(void *ctx, const tp_entry_batch *batch);
  /** Keeps a late answer. An entry that is no longer kept is not an error. */
  tp_status (*record_late)(void *ctx, const tp_late_record *late);
  /** Passes the matching records to each, newest first. */
  tp_status (*records)(void *ctx, const tp_record_query *query, tp_record_fn each, void *each_ctx, tp_fault *fault);
  /** Keeps the record of an attempt. O(1) whatever the store holds. Called on the thread that owns the turn, before the
   *  record of its entry. */
  tp_status (*attempt)(void *ctx, const tp_attempt_record *record);
  /** Passes the attempts of an entry to each, in plan order. */
  tp_status (*attempts)(void *ctx, const tp_attempt_query *query, tp_attempt_record_fn each, void *each_ctx,
                        tp_fault *fault);

  /* ---- records of driven turns ---- */

  /** Keeps the record of a driven turn. O(1) whatever the store holds. Called on the thread that owns the turn, before
   *  its end is notified. */
  tp_status (*turn_record)(void *ctx, const tp_turn_record *record);
  /** Passes the matching turn records to each, newest first. */
  tp_status (*turns)(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx, tp_fault *fault);

  /* ---- audit rows: registrations, failures, denials, and what people decided ---- */

  /** Keeps an audit row. Rows come once each, in order, on any thread. Rows from before the start of the runtime come
   *  after open; if there were more than 1,024 of registration, or of runs, the lost ones are logged. */
  tp_status (*audit)(void *ctx, const tp_audit *row);
  /** Passes the matching audit rows to each, newest first. */
  tp_status (*audits)(void *ctx, const tp_audit_query *query, tp_audit_fn each, void *each_ctx, tp_fault *fault);

  /* ---- the size and the hash of content ---- */

  /** Keeps the size and the hash of content, which is borrowed till return. Called on the thread that owns the turn,
   *  before the record of its entry: the call makes every phase longer. */
  tp_status (*content)(void *ctx, const tp_content_record *record);
  /** Passes the records of content to each. */
  tp_status (*contents)(void *ctx, const tp_content_query *query, tp_content_record_fn each, void *each_ctx,
                        tp_fault *fault);

  /* ---- jobs ---- */

  /** Inserts and commits a queued job; id, claim, state and attempt are not read. A key that is known already
   *  changes nothing and gives its id with *ret_existed = true, whatever the job's fence.
   *  @return TP_OK; TP_ERR_FENCED, see tp_job.fence; TP_ERR_FULL when as many jobs are open as the store takes. */
  tp_status (*job_insert)(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault);
  /** Claims the oldest claimable job that the filter accepts: the job gets attempt + 1, a new claim token and a lease.
   *  A job whose lease ran out may be claimed anew; after its last attempt it is a dead letter.
   *  @return TP_OK after take was called, once for each that was claimed; TP_ERR_NOT_FOUND with *ret_next_ms = when to
   *          ask again (0: unknown). */
  tp_status (*job_claim)(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault);
  /** Moves the end of a claim's lease: the heartbeat of a job that runs, every third of the lease.
   *  @return TP_OK; TP_ERR_STALE when the claim is not the current one; TP_ERR_NOT_FOUND. */
  tp_status (*job_renew)(void *ctx, const tp_job_renew *request, tp_fault *fault);
  /** Ends a claim. The payload of a job that succeeded is deleted; a dead letter keeps it.
   *  @param ret_state  tp_job_state that the job is in now.
   *  @return TP_OK; TP_ERR_STALE when the claim is not the current one; TP_ERR_NOT_FOUND. */
  tp_status (*job_finish)(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault);
  /** How many jobs of the key are open (queued or running); an empty key counts all. */
  tp_status (*job_open)(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault);
  /** Lists jobs by rising id. May be NULL. A concurrent change may be seen or not. */
  tp_status (*jobs)(void *ctx, const tp_job_query *query, tp_job_each_fn each, void *each_ctx, tp_fault *fault);

  /* ---- dead letters ---- */

  /** Makes a dead letter the newest open job of its order key, with all its attempts again and a postponed_ms of 0.
   *  @return TP_OK; TP_ERR_NOT_FOUND when it is no dead letter; TP_ERR_FULL. */
  tp_status (*job_redrive)(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault);
  /** Discards a job that waits, or a dead letter, and deletes its payload.
   *  @return TP_OK; TP_ERR_NOT_FOUND when it has ended; TP_ERR_BUSY while it runs. */
  tp_status (*job_discard)(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault);

  /* ---- tool calls that are not idempotent ---- */

  /** Commits the start of a tool call. When an earlier run of the same turn (tenant, session and turn of ids) had a
   *  call of the same tool with the same arguments, and no call of this run was matched with that call before, the two
   *  are matched: the earlier result is passed to `earlier` (TP_TOOL_INTERRUPTED when it is not known or no longer
   *  kept), and no start is committed. May block.
   *  @param ret_start_id  not 0; set when the call is new. */
  tp_status (*tool_start)(void *ctx, const tp_tool_start_record *record, uint64_t *ret_start_id, tp_tool_end_fn earlier,
                          void *earlier_ctx, tp_fault *fault);
  /** Commits the end of a call that tool_start began. Text, value and parts are kept until the record of
   *  its turn comes: from then on the history has them. May block. */
  tp_status (*tool_end)(void *ctx, const tp_tool_end_record *record, tp_fault *fault);

  /* ---- tasks ---- */

  /** Keeps a task and commits it: any process with the same store may take it. May block.
   *  @return TP_OK; TP_ERR_DUPLICATE_ID for a key that is kept; TP_ERR_USAGE for a record without key or tool. */
  tp_status (*task_put)(void *ctx, const tp_task_record *record, tp_fault *fault);
  /** Begins a task, as one commit: one caller, of all processes, gets it, until it is settled. When its process dies it
   *  stays begun, since it is not known how much of it was done. May block.
   *  @return TP_OK after take was called once; TP_ERR_NOT_FOUND; TP_ERR_BUSY when it is begun; TP_ERR_STORE_CORRUPT
   *          when its arguments are not those that were put, and then it stays as it was. */
  tp_status (*task_take)(void *ctx, tp_text key, tp_task_record_fn take, void *take_ctx, tp_fault *fault);
  /** Commits the end of a task's run. May block.
   *  @param stays  true: the task may be taken again; false: it is deleted, begun or not.
   *  @return TP_OK; TP_ERR_NOT_FOUND. */
  tp_status (*task_settle)(void *ctx, tp_text key, bool stays, tp_fault *fault);

  /* ---- turns that run ---- */

  /** Keeps the record of a driven turn that has not ended, in place of its earlier one. The turn_record that has its
   *  running_number replaces it. With durability ASYNC it is called when a turn has run for 250 ms, and at most every
   *  250 ms; with SYNC when the turn begins to wait for something. Nothing waits for the store. O(1) whatever the store
   *  holds. Called on the thread that owns the turn. */
  tp_status (*turn_running)(void *ctx, const tp_turn_record *record);
  /** Passes to each the matching records of turns that run, or that ran when their process ended: the one that was
   *  written last comes first. The query's times are compared with ended_unix_ms, as for any turn; none of these turns
   *  has completed. */
  tp_status (*turns_running)(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                             tp_fault *fault);

  /* ---- turns whose process died at their end ---- */

  /** Finds out whether the process of a run of a turn died before it gave the turn's record to the store. When the
   *  history has that turn, turn.post_turn may not have run, and its jobs may be missing; it runs when the turn is
   *  submitted again. May be NULL: then it does not run again. May block.
   *  @param process_run_id  that of the run whose messages the history has.
   *  @param ids  by TP_ID_*: tenant, session and turn identify the turn. */
  tp_status (*turn_is_cut)(void *ctx, uint64_t process_run_id, const tp_text *ids, size_t id_count, bool *ret_is_cut,
                           tp_fault *fault);

  /* ---- jobs together ---- */

  /** Ends claims as job_finish() does, of different jobs, in one transaction. May be NULL: then they are ended one by
   *  one. A store that has it reads tp_job_claim.count_max, too.
   *  @param requests      count of them, at least one.
   *  @param ret_states    of each the tp_job_state that its job is in now, where its status is TP_OK.
   *  @param ret_statuses  of each what job_finish() returns: TP_OK, TP_ERR_STALE or TP_ERR_NOT_FOUND.
   *  @return TP_OK; else no claim was ended. */
  tp_status (*job_finish_all)(void *ctx, const tp_job_finish *const *requests, size_t count, uint32_t *ret_states,
                              tp_status *ret_statuses, tp_fault *fault);
  /** Inserts jobs as job_insert() does, in their order, in one transaction. May be NULL: then each is inserted by
   *  itself, by the thread that owns its turn. With a durable store, turns that have a job to insert at the same time
   *  wait for it without a thread. May block.
   *  @param jobs          count of them, at least one. Of several with one key the first is inserted, and the others
   *                       give its id, and existed.
   *  @param ret_ids       of each its id, where its status is TP_OK.
   *  @param ret_existed   of each, where its status is TP_OK.
   *  @param ret_statuses  of each what job_insert() returns: TP_OK, TP_ERR_FENCED or TP_ERR_FULL.
   *  @return TP_OK; else no job was inserted. */
  tp_status (*job_insert_all)(void *ctx, const tp_job *const *jobs, size_t count, uint64_t *ret_ids, bool *ret_existed,
                              tp_status *ret_statuses, tp_fault *fault);

  /* ---- jobs of other processes ---- */

  /** Gives the store a function to call when another process may have stored a job that can be claimed: then the
   *  runtime asks for jobs at once. It also asks a durable store twice a second, so a missing call only delays a job.
   *  May be NULL: then the runtime only asks twice a second. A runtime that has started calls this with a function
   *  before it first claims, and with NULL before it ends, with no lock held. A call replaces the earlier function.
   *  @param news      called on any thread, also before job_watch has returned. It returns at once and calls no
   *                   function of the store, so the store may hold a lock. NULL: once job_watch has returned, the
   *                   earlier function is not called any more, and no call of it is under way.
   *  @param news_ctx  passed to news; valid until a later job_watch has returned. */
  void (*job_watch)(void *ctx, tp_job_news_fn news, void *news_ctx);
} tp_store;

/** Options of the memory store; zero means default. */
typedef struct tp_store_memory_options {
  size_t struct_size;
  /** How many entry records are kept, the newest ones; 0: 10,000. */
  size_t records_max;
  /** The most open jobs; 0: 65,536; above it an insert gives TP_ERR_FULL. */
  size_t jobs_max;
  /** How many ended jobs are known by id and key, the newest ones: jobs that succeeded or were discarded, and dead
   *  letters; 0: 1,024. */
  size_t jobs_ended_max;
  /** How many turn records are kept, the newest ones; 0: 1,024. */
  size_t turns_max;
} tp_store_memory_options;

/** The memory store. Give it to tp_runtime_options.store, which takes it, or free it with tp_store_free(). Its `record`
 *  copies the names of runs; it gives TP_ERR_FULL after 65,536 different ones or 16 MiB of them.
 *  @param allocator  NULL: malloc and free.   @param options  NULL: all defaults.
 *  @return TP_OK; TP_ERR_VERSION for options of a wrong size; TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD.   Threads: any. */
TP_API tp_status tp_store_memory_new(const tp_allocator *allocator, const tp_store_memory_options *options,
                                     tp_store **ret_store, tp_fault *fault) TP_MUST_USE;
/** Destroys a store that no runtime has taken. Accepts NULL.   Threads: any. */
TP_API void tp_store_free(tp_store *store);

TP_END_DECLS
#endif
