/* SPDX-License-Identifier: Apache-2.0
 *
 * turn.h: for hosts: agents, sessions, turns, phases and tool calls. A synchronous call and its submit form are one
 * machine: the synchronous caller owns the turn and helps; a submitted turn is owned by an engine worker while it has
 * something to do, and has no owner while it waits.
 * Threads: any for what takes a runtime, an agent, a session or a submission; the call that ends one (close, remove,
 * unref) is the last with it. One thread at a time uses a begun turn and what its phases gave, but for
 * tp_turn_cancel(). Callbacks come on the thread that owns the turn: an engine worker, the caller that helps, or the
 * handler thread that has run a handler of the turn and goes on with it. Only with no_engine_workers all callbacks of a
 * synchronous call come on the thread of its caller. */
#ifndef TURNPHASE_TURN_H
#define TURNPHASE_TURN_H

#include "turnphase/runtime.h"

TP_BEGIN_DECLS

typedef struct tp_agent tp_agent;
typedef struct tp_session tp_session;
/** A turn that its host drives: tp_turn_begin(). */
typedef struct tp_turn tp_turn;

/* ---- events ---------------------------------------------------------------------------------------------------- */

typedef enum tp_event_kind {
  TP_EVENT_TURN_BEGIN = 1,
  TP_EVENT_PHASE_BEGIN = 2,
  TP_EVENT_RUN = 3, /* a subscription of the phase settled: run is set */
  TP_EVENT_PHASE_END = 4,
  TP_EVENT_MODEL_BEGIN = 5,
  TP_EVENT_MODEL_DELTA = 6, /* text: a piece, or several that were joined (tp_turn_request.each_delta) */
  TP_EVENT_MODEL_END = 7,   /* text: the whole response; the tokens and the cost of this call */
  TP_EVENT_TOOL_BEGIN = 8,  /* tool_call */
  TP_EVENT_TOOL_END = 9,    /* tool_result; in completion order */
  TP_EVENT_CONTEXT = 10,    /* an entry of prompt context that goes into the request: contribution, subscription */
  TP_EVENT_REMINDER = 11,   /* contribution, subscription */
  TP_EVENT_DIAGNOSTIC = 12, /* contribution (of kind diagnostic or manifest_diagnostic), subscription. One with
                                   the key model.fallback says that another model is asked, and why */
  TP_EVENT_TURN_END = 13,   /* status */
  TP_EVENT_AUDIT = 14,      /* contribution of kind audit, subscription */
  TP_EVENT_QUESTION = 15,   /* question: it is put to the channel now (people.h); tool_call, subscription, text: why.
                               Its end is the answer's row in the audit, and what becomes of the call */
  TP_EVENT_JOB = 16,        /* job: it was stored, or an attempt of it has ended, as its state says: QUEUED,
                                   SUCCEEDED or DEAD. Of no turn: see tp_runtime_listen() */
  TP_EVENT_LOST = 17,       /* of a listener with an inbox: `lost` events of its turns and jobs found no room or no
                                   memory, and would stand here. Of no turn; comes whatever the filter is */
  TP_EVENT_FORCE_32 = 0x7fffffff
} tp_event_kind;

TP_API const char *tp_event_name(tp_event_kind kind);

/** Something that happened in a turn. struct_size is set by the library. Delivered in order, never two at once per
 *  turn. Everything is borrowed till the callback returns; taken from an inbox, it is a copy and may be read until it
 *  is released. */
typedef struct tp_event {
  size_t struct_size;
  tp_event_kind kind;
  tp_phase_id phase;            /* PHASE_BEGIN, RUN, PHASE_END, CONTEXT, REMINDER, DIAGNOSTIC, AUDIT, QUESTION */
  uint64_t sequence;            /* from 1, per turn, without gaps; JOB, LOST: 0 */
  int64_t time_ns;              /* monotonic */
  int64_t unix_ms;              /* wall clock of the same moment */
  const tp_text *ids;           /* by TP_ID_* */
  uint32_t id_count;
  tp_status status;             /* PHASE_END, MODEL_END, TURN_END */
  tp_visibility visibility;     /* of the subscription that it comes from; USER_VISIBLE where it comes from none */
  uint32_t call_index;          /* TOOL_BEGIN, TOOL_END: place of the call in its response */
  tp_text text;
  const char *subscription;     /* whose contribution it is; PHASE_END: who denied, asked or failed */
  const tp_run_record *run;
  const tp_contribution *contribution;
  const tp_tool_call *tool_call;
  const tp_tool_result *tool_result;
  const tp_job *job;
  int64_t input_tokens, output_tokens, cost_micros; /* MODEL_END */
  int64_t started_ns, ended_ns; /* PHASE_END, MODEL_END, TOOL_END, TURN_END */
  const void *turn;             /* internal: for tp_event_data() */
  const void *copied;           /* internal: for tp_event_data() */
  uint64_t lost;                /* LOST; TURN_END from an inbox: so many were lost right before it, where the host had
                                   not given back the last LOST; else 0 */
  tp_text model;                /* MODEL_BEGIN, MODEL_END: which one was asked, by tp_turn_request.model_name, the
                                   agent's, or tp_model.name; else empty. */
  const tp_question *question;  /* QUESTION: who has the event may answer it, by its token */
  tp_text parent_turn;          /* TURN_BEGIN of a nested turn: the id of the turn whose call runs it; else empty */
} tp_event;
/** The host's own pointer, as tp_call_data(). Of an event from an inbox: as it was when the event happened.
 *  Threads: the one that the event was given to. */
TP_API void *tp_event_data(const tp_event *event, tp_id_kind id);

/** Called by the thread that owns the turn: a worker of the engine, or the host's thread that runs the turn. It must be
 *  quick and must not block. A listener of several turns may be called from several threads at once. */
typedef void (*tp_event_fn)(void *ctx, const tp_event *event);

/** Who receives events, and which. */
typedef struct tp_listener {
  size_t struct_size;
  tp_event_fn on_event;         /* exactly one of on_event and inbox */
  void *ctx;
  void (*destroy)(void *ctx);   /* exactly once, when no call of on_event is under way or will come: when
                                   the last turn that has the listener has ended; with an inbox also not
                                   before the last event that was taken is released. From any thread, without
                                   any lock; must not block. Taken on success only; may be NULL */
  uint64_t kinds;               /* bits 1 << TP_EVENT_*; 0: all that are of turns, which JOB is not */
  const tp_phase_id *phases;    /* TP_PHASE_*: of the events that name a phase only these; NULL: all. Copied */
  size_t phase_count;
  tp_visibility visibility_min; /* events that come from a subscription of lower visibility are left out; a PHASE_END
                                   is not, but says neither which such subscription decided nor why */
  uint32_t reserved_;           /* must be zero */
  tp_inbox *inbox;              /* of this runtime (inbox.h): its events wait there, copied, in the order in which the
                                   library delivers them. One that finds no room is lost, and so are all behind it but
                                   ends of turns until the host has taken the TP_EVENT_LOST that stands for them.
                                   Kept as long as the listener */
} tp_listener;

/** Adds a listener to every turn of the runtime that begins from now on, bare turns and those of agents among them.
 *  With the kind JOB it also receives what becomes of background jobs from now on: on the thread that stores one, or
 *  on the library's own that runs them, beside events of turns; ids are empty, the job has no payload, its order_key is
 *  the session's id by default.
 *  @param ret_id  a number for tp_runtime_unlisten(), never used twice in a runtime; may be NULL.
 *  @return TP_OK; TP_ERR_VERSION; TP_ERR_USAGE for a missing on_event or inbox, both, an inbox of another runtime, an
 *          unknown kind or visibility;
 *          TP_ERR_UNKNOWN_PHASE; TP_ERR_FULL above 64 listeners; TP_ERR_NO_MEMORY; TP_ERR_FORKED.
 *  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_runtime_listen(tp_runtime *runtime, const tp_listener *listener, uint64_t *ret_id,
    tp_fault *fault) TP_MUST_USE;
/** Removes a listener: no call of its on_event begins after the return, also in turns that run; of its inbox, no event
 *  of it is taken any more. A call that another
 *  thread has begun may still be under way: destroy says when none is.
 *  @return TP_OK; TP_ERR_NOT_FOUND; TP_ERR_FORKED.  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_runtime_unlisten(tp_runtime *runtime, uint64_t id, tp_fault *fault);
/** The same for the turns of one session. A turn notifies the runtime's listeners first, then the session's, each
 *  in the order in which they were added. A session's listeners end with the last of its turns.
 *  @return as tp_runtime_listen(); TP_ERR_USAGE for the kind JOB. */
TP_API tp_status tp_session_listen(tp_session *session, const tp_listener *listener, uint64_t *ret_id,
    tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_session_unlisten(tp_session *session, uint64_t id, tp_fault *fault);

/* ---- agents ---------------------------------------------------------------------------------------------------- */

/** What an agent is made of. Strings and values are copied; the model is copied and taken on success. */
typedef struct tp_agent_config {
  size_t struct_size;
  const char *id;
  const char *system;           /* standing system text */
  const char *model_name;
  const tp_model *model;        /* taken on success; NULL: the session's */
  tp_text extra;                /* value: a map whose pairs stand in TP_FIELD_AGENT_CONFIG beside system and model:
                                   tools and skills (arrays of text), resources, and any key that the host and its
                                   handlers agree on. Empty: none. As agent.build leaves it, tools is the agent's scope:
                                   its turns show no other tool to the model, and a call of another one is out_of_scope
                                   before any gate; without the key they may use all. Where tools or skills are given
                                   the system text ends with both lists in a scope block. resources is a map of arrays
                                   of texts, such as {mcp_servers: […], skills: […]}: what there is, as a block before
                                   the scope. environment is a map of texts, as a block right behind `system` */
  void *data;                   /* the host's: tp_call_data(TP_ID_AGENT), tp_agent_data() */
  const tp_model *const *fallbacks; /* fallback_count pointers, as tp_session_options.fallbacks; with model alone.
                                   */
  size_t fallback_count;
  bool environment;             /* the config begins with the key environment: os and platform (uname(2)) and shell
                                   ($SHELL, read with getenv()) of this process; a host whose tools run elsewhere gives
                                   the key in extra instead */
  uint8_t reserved_[7];         /* must be zero */
} tp_agent_config;

/** Builds (agent.build), registers (agent.register, which sees the config as agent.build left it and may refuse), then
 *  makes visible. When the registration is refused, agent.unregister is called for those that had registered, in
 *  reverse: for a handler that had registered itself, and for one that does not register when another handler of its
 *  owner had. Blocks.
 *  @return TP_OK; TP_ERR_DENIED when a handler refused; TP_ERR_HOOK when a required one failed; TP_ERR_DUPLICATE_ID;
 *          TP_ERR_VERSION, TP_ERR_BAD_ID; TP_ERR_MALFORMED for extra and for a built config that is no map or has
 *          another kind of tools, skills, environment or resources; as
 *          tp_turn_begin(), since it takes a turn; TP_ERR_CANCELLED by a drain; TP_ERR_USAGE from inside a handler or a
 *          callback. */
TP_API tp_status tp_agent_add(tp_runtime *runtime, const tp_agent_config *config, tp_agent **ret_agent,
    tp_fault *fault) TP_MUST_USE;
/** Makes invisible, then runs agent.unregister, unless a drain has. Sessions that use the agent keep it till they
 *  close. A drain runs agent.unregister for the agents that are left, the newest first; the handles stay the host's.
 *  Blocks. */
TP_API void tp_agent_remove(tp_agent *agent);

/** How adding or removing ended. struct_size is set by the library; borrowed till the callback returns. */
typedef struct tp_agent_result {
  size_t struct_size;
  tp_status status;             /* as tp_agent_add() */
  uint32_t reserved_;
  tp_agent *agent;              /* added: the host's from now on; else NULL */
  const tp_fault *fault;        /* NULL with TP_OK */
} tp_agent_result;
typedef void (*tp_agent_end_fn)(void *ctx, const tp_agent_result *result);
/** The same on the engine workers, without waiting; on_end is called once, by the thread that owns the work. Everything
 *  in config is copied before the return, but the model is the host's until on_end says TP_OK.
 *  @param on_end  of add required.
 *  @return TP_OK; what tp_agent_add() says before it runs a phase; TP_ERR_USAGE without engine workers: then nothing
 *          was begun, and on_end is not called.  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_agent_add_submit(tp_runtime *runtime, const tp_agent_config *config, tp_agent_end_fn on_end,
    void *ctx, tp_fault *fault) TP_MUST_USE;
/** @param on_end  may be NULL; called before the return when a drain has run agent.unregister. */
TP_API tp_status tp_agent_remove_submit(tp_agent *agent, tp_agent_end_fn on_end, void *ctx,
    tp_fault *fault) TP_MUST_USE;

/** The agent of this id that is registered and not removed, or NULL. Give it back with tp_agent_unref().
 *  Threads: any. */
TP_API tp_agent *tp_agent_find(tp_runtime *runtime, const char *id);
/** Drops a reference of tp_agent_find(), never the one of tp_agent_add(). Accepts NULL. Threads: any. */
TP_API void tp_agent_unref(tp_agent *agent);
/** The agent is borrowed till the callback returns; false stops. */
typedef bool (*tp_agent_fn)(void *ctx, tp_agent *agent);
/** The visible agents in the order in which they were added. @param each  may be NULL.
 *  @return how many.  Threads: any. */
TP_API size_t tp_runtime_agents(tp_runtime *runtime, tp_agent_fn each, void *ctx);
/** Both live as long as the agent. */
TP_API const char *tp_agent_id(const tp_agent *agent);
/** The config as agent.build left it: a value, a map. */
TP_API tp_text tp_agent_config_get(const tp_agent *agent);
/** What the config had as data. */
TP_API void *tp_agent_data(const tp_agent *agent);

/** A tool of a listing. struct_size is set by the library; borrowed till the callback returns. */
typedef struct tp_tool_listing {
  size_t struct_size;
  const tp_tool *tool;          /* a copy: do not emit it */
  const char *owner;            /* of the handler that brings it */
} tp_tool_listing;
/** False stops. */
typedef bool (*tp_tool_listing_fn)(void *ctx, const tp_tool_listing *listing);
/** The tools that a turn of the runtime has when no policy takes one away, in the order in which a model sees them:
 *  turn.pre_tool_materialization is run in a turn of its own, with no other phase.
 *  @param each  may be NULL.
 *  @param ret_count  how many there are, or up to the one at which each stopped; may be NULL.
 *  @return TP_OK; TP_ERR_TOOL_CONFLICT, TP_ERR_HOOK when the phase failed, with the one that failed in the fault; as
 *          tp_turn_begin(), since it takes a turn; TP_ERR_USAGE from inside a handler or a callback.
 *  Threads: any. each comes on the calling one.  Blocks: up to the phase's own limit. */
TP_API tp_status tp_runtime_tools(tp_runtime *runtime, tp_tool_listing_fn each, void *ctx, size_t *ret_count,
    tp_fault *fault);
/** Those of them that are in the agent's scope. Handlers read the agent's id and config, as in its turns. */
TP_API tp_status tp_agent_tools(tp_agent *agent, tp_tool_listing_fn each, void *ctx, size_t *ret_count,
    tp_fault *fault);

/* ---- sessions -------------------------------------------------------------------------------------------------- */

/** What a compaction callback is asked. Made by the library; borrowed till the callback returns. */
typedef struct tp_compaction {
  size_t struct_size;
  tp_session *session;
  int64_t tokens, tokens_max;   /* what the history holds, as tp_message_tokens() counts, and what it may: the session's
                                   history_tokens_max; where a provider called the context too long, half of what
                                   there is */
  const tp_message *const *messages; /* the history: message_count pointers */
  size_t message_count;
  tp_message_fn each;           /* called for each message that replaces them, in order */
  void *each_ctx;
} tp_compaction;
/** Replaces a history that is too long by what it gives to each, which may be none. Each assistant's message with calls
 *  must have exactly their results right behind it, and the whole must have fewer tokens than before: else the history
 *  stays as it is, as with any status but TP_OK and after 30 s.
 *  Threads: a handler thread, one call per session at a time; may block. */
typedef tp_status (*tp_compact_fn)(void *ctx, const tp_compaction *compaction, tp_fault *fault);
/** An estimate without a tokenizer: a quarter of the bytes of text, names and arguments, rounded up, and 4; 0 for an
 *  end mark, which no model reads.  Threads: any. */
TP_API int64_t tp_message_tokens(const tp_message *message);
/** A tp_compact_fn: keeps the newest turns that have half of tokens_max, whole, at least the newest one where it fits,
 *  and drops the others. ctx is not used. */
TP_API tp_status tp_compact_drop_oldest(void *ctx, const tp_compaction *compaction, tp_fault *fault);
/** A tp_compact_fn that only the library runs: keeps the same turns, and puts before them one message of the user with
 *  a summary of the others, for which it asks the session's own model: without tools, about as much of them as half of
 *  tokens_max holds, the newest first. Its tokens and cost are the turn's. ctx is not used.
 *  @return TP_ERR_USAGE, when a host calls it. */
TP_API tp_status tp_compact_summarize(void *ctx, const tp_compaction *compaction, tp_fault *fault);

/** Options of a session. Strings are copied; on success model and history are taken, shared_history is referenced. */
typedef struct tp_session_options {
  size_t struct_size;
  const char *id;               /* required */
  const char *tenant, *workspace, *thread;
  tp_agent *agent;              /* may be NULL: a bare agent without system text */
  const tp_model *model;        /* taken on success; NULL: the agent's */
  const tp_history *history;    /* NULL: shared_history */
  tp_shared_history *shared_history; /* TP_ERR_USAGE beside history. NULL: the runtime's; where that has none, in
                                   memory, for as long as the session */
  tp_event_fn on_event;         /* short for a tp_session_listen() of everything; NULL: none */
  void *event_ctx;
  uint32_t turns_queued_max;    /* submitted turns that wait; 0: 64 */
  uint32_t reserved_;           /* must be zero */
  void *data;                   /* the host's: tp_call_data(TP_ID_SESSION), tp_session_data() */
  int64_t history_tokens_max;   /* a longer history is compacted before a turn's first request; 0: none.
                                   TP_ERR_USAGE without compact */
  tp_compact_fn compact;        /* makes the session's history shorter, behind turn.pre_compaction: above that limit,
                                   and once for a request whose context the provider calls too long
                                   (TP_ERR_CONTEXT_LENGTH), which is then made again, from model.pre on. Where it fails
                                   a turn goes on with the long history, with a diagnostic, or fails with the
                                   provider's error. What a tp_history stores stays whole: a session that is opened
                                   again is compacted again. Not of turns that bring messages of their own */
  void *compact_ctx;            /* TP_ERR_USAGE without compact */
  tp_question_fn ask;           /* the channel for questions (people.h); NULL: the runtime's */
  void *ask_ctx;                /* TP_ERR_USAGE without ask */
  tp_permission_fn permission;  /* NULL: the runtime's */
  void *permission_ctx;         /* TP_ERR_USAGE without permission */
  const tp_model *const *fallbacks; /* fallback_count pointers, at most 16, each to another model, taken as model is:
                                   TP_ERR_USAGE without model. Asked in their order: the next one when a request to the
                                   one before failed, could have been repeated (or TP_ERR_MODEL_UNAVAILABLE), and its
                                   attempts are used up, or when the breaker of its provider is open
                                   (tp_runtime_options.breaker_failures); never behind a first delta. The turn stays
                                   with the one that it came to. They get no model_name: each has its own name.
                                   */
  size_t fallback_count;
} tp_session_options;

/** Opens a session. Never blocks: history and session.start are the first step of its first driven turn.
 *  A tenant has one session of an id: the second open is refused until the on_end of the first one's close.
 *  @return TP_OK; TP_ERR_VERSION, TP_ERR_BAD_ID, TP_ERR_NO_MEMORY; TP_ERR_BUSY for an id that is open, or that is being
 *          deleted from the shared history; TP_ERR_USAGE for two histories or a wrong one; TP_ERR_SHUTDOWN once a drain
 *          has begun; what tp_runtime_start() says. With anything but TP_OK model and history were not taken. */
TP_API tp_status tp_session_open(tp_runtime *runtime, const tp_session_options *options, tp_session **ret_session,
    tp_fault *fault) TP_MUST_USE;
/** Runs session.end once after the turns in the queue, then on_end (may be NULL), when all their ends were notified.
 *  Where a drain was first to ask for session.end it is not run again; on_end waits for it all the same, and comes at
 *  once when it is over. Where as many sessions as turns_max (at least 1,024) are being closed at one moment
 *  session.end is not run, which is logged; a drain waits instead. What was taken (model, history) is destroyed when
 *  the last turn and call of the session no longer refers to it: before on_end or after. In the child of a fork it only
 *  calls on_end. Never blocks, but with no_engine_workers, where it runs session.end itself. Accepts NULL. */
TP_API void tp_session_close(tp_session *session, void (*on_end)(void *ctx), void *ctx);

/** What session.end carries of a session, or of a logical phase of it, besides times and outcome. Copied. A value that
 *  is empty is not in the payload. */
typedef struct tp_session_end {
  size_t struct_size;
  const char *reason;           /* TP_FIELD_REASON; NULL: "closed" at a close, "phase" at the end of a phase */
  tp_text changed_files;        /* value: array of texts, at most 1 MiB; TP_FIELD_CHANGED_FILES */
  tp_text abilities_used;       /* the same; TP_FIELD_ABILITIES_USED. Empty: the tools whose functions turns of the
                                   session have called since its last session.end, each once; at most 1,000 */
  tp_text tasks_summary;        /* value: array of maps, at most 1 MiB; TP_FIELD_TASKS_SUMMARY */
} tp_session_end;
/** tp_session_close() with more for session.end. Where a drain was first to ask for session.end, its reason is
 *  "drained": `end` comes too late, which is logged.
 *  @param end  NULL: as tp_session_close().
 *  @return TP_OK; TP_ERR_VERSION, TP_ERR_UTF8, TP_ERR_MALFORMED, TP_ERR_TOO_LARGE for what is wrong with end: then the
 *          session was not closed.  Threads: any.  Blocks: as tp_session_close(). */
TP_API tp_status tp_session_close_with(tp_session *session, const tp_session_end *end, void (*on_end)(void *ctx),
    void *ctx, tp_fault *fault) TP_MUST_USE;
/** Fires session.end at the end of a logical phase, behind the turns in the queue, with the session left open.
 *  @param end  may be NULL.
 *  @return TP_OK when it was run; as tp_session_close_with(); TP_ERR_FULL, TP_ERR_SHUTDOWN, TP_ERR_NO_MEMORY,
 *          TP_ERR_FORKED; TP_ERR_USAGE from inside a handler or a callback.
 *  Threads: any.  Blocks: while the turns before it run, then up to the phase's own limit. */
TP_API tp_status tp_session_end_phase(tp_session *session, const tp_session_end *end, tp_fault *fault) TP_MUST_USE;
/** The same on the engine workers, without waiting.
 *  @param on_end  once, behind session.end, on the thread that owns the turn; may be NULL.
 *  @return as tp_session_end_phase(); TP_ERR_USAGE without engine workers. With anything but TP_OK on_end is not
 *          called.
 *  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_session_end_phase_submit(tp_session *session, const tp_session_end *end,
    void (*on_end)(void *ctx), void *ctx, tp_fault *fault) TP_MUST_USE;

/** What a session was opened with. Texts live as long as the session; "" where the options had none.
 *  Threads: any, till tp_session_close() is called; in a callback of tp_runtime_sessions() and in handlers and
 *  callbacks of the session's turns also then. */
TP_API const char *tp_session_id(const tp_session *session);
TP_API const char *tp_session_tenant(const tp_session *session);
TP_API const char *tp_session_workspace(const tp_session *session);
TP_API const char *tp_session_thread(const tp_session *session);
/** NULL: a bare one. */
TP_API tp_agent *tp_session_agent(const tp_session *session);
TP_API tp_runtime *tp_session_runtime(const tp_session *session);
TP_API void *tp_session_data(const tp_session *session);
/** Turns that wait for the one that runs.
 *  @param ret_running  whether one runs, be it the session's end; may be NULL. */
TP_API size_t tp_session_queue_length(const tp_session *session, bool *ret_running);

/** The open session of this tenant (NULL or "": none) and id, or NULL: there is none, or its close was asked for. The
 *  pointer is the host's own handle; it stays readable until tp_session_unref(), also when another thread closes it.
 *  Call tp_session_unref() before tp_runtime_free().  Threads: any.  Blocks: no. */
TP_API tp_session *tp_session_find(tp_runtime *runtime, const char *tenant, const char *id);
/** Drops a reference of tp_session_find(); closes nothing. Accepts NULL.  Threads: any. */
TP_API void tp_session_unref(tp_session *session);

/** The session is borrowed till the callback returns, also when it is closed meanwhile; false stops. */
typedef bool (*tp_session_fn)(void *ctx, tp_session *session);
/** The sessions whose close has not ended, in the order in which they were opened. One that is opened or closed by
 *  another thread meanwhile is seen or not; each of the others is seen exactly once. No lock is held while each
 *  runs: it may open and close sessions and submit turns.
 *  @param each  may be NULL.
 *  @return how many there are, or up to the one at which each stopped; 0 in the child of a fork.
 *  Threads: any. each comes on the calling one. */
TP_API size_t tp_runtime_sessions(tp_runtime *runtime, tp_session_fn each, void *ctx);

/* ---- turns ----------------------------------------------------------------------------------------------------- */

/** How a turn ended. */
typedef enum tp_turn_outcome {
  TP_TURN_NONE = 0,             /* in no result */
  TP_TURN_COMPLETED = 1,
  TP_TURN_FAILED = 2,
  TP_TURN_DENIED = 3,
  TP_TURN_CANCELLED = 4,
  TP_TURN_TIMED_OUT = 5,
  TP_TURN_OUTCOME_FORCE_32 = 0x7fffffff
} tp_turn_outcome;

TP_API const char *tp_turn_outcome_name(tp_turn_outcome outcome);

/** One turn. Copied at begin. Limits: 0 means default. */
typedef struct tp_turn_request {
  size_t struct_size;
  const char *id;               /* turn id; NULL: generated */
  const char *task, *run;       /* ids */
  const char *mode;
  tp_caller caller;
  tp_text text;                 /* the user's message, UTF-8 */
  tp_text files;                /* value: array of str; may be empty. As turn.intake left them they are parts of the
                                   user's message (tp_message.parts), and stay in the history of a turn that
                                   completed */
  uint32_t limit_ms;            /* wall clock; 0: 600,000. What comes at the end of every turn has its own limits:
                                   tool.result, tool.post, the history's append, runtime.error, turn.post_turn */
  uint32_t iterations_max;      /* model requests; 0: 50 */
  uint32_t tool_calls_max;      /* 0: 1,000 */
  int64_t tokens_max;           /* input and output together; 0: none */
  int64_t cost_micros_max;      /* 0: none */
  uint32_t model_attempts;      /* 0: 3 */
  bool each_delta;              /* each piece of tp_model_delta() is an event of its own, in order; false: pieces that
                                   come faster than they are taken are joined. tp_turn_begin() refuses it, as those
                                   below */
  uint8_t reserved_[3];         /* must be zero */
  void *data;                   /* the host's: tp_call_data(TP_ID_TURN), tp_turn_data() */
  /* Of turns that the library drives: tp_turn_begin() refuses them. */
  const tp_message *const *messages; /* message_count pointers: what the turn has as its whole history, in place of the
                                   session's; `text` follows them and must not be empty. Roles user, assistant, tool
                                   and system; each call of an assistant has exactly one result right behind it. At
                                   most 100,000 and 64 MiB. NULL: the session's history. The turn's own exchange is
                                   appended to that all the same, these messages are not */
  size_t message_count;
  const char *model_name;       /* for this turn, in place of the agent's; at most 128 bytes */
  tp_text system;               /* standing system text for this turn, in place of the agent's; empty: the agent's */
  tp_text parameters;           /* value: a map of at most 1 MiB, for the provider (tp_model_request.parameters) and for
                                   turn.post_prompt_compile (`parameters` in TP_FIELD_REQUEST); empty: none */
  int64_t said_unix_ms;         /* when the user said the text, Unix milliseconds (UTC), for an old conversation that is
                                   played again: TP_FIELD_SAID_AT of turn.post_turn, by which the memory dates what it
                                   keeps. Events and records keep their own clock. From 1973-03-03 (what is less was
                                   given in seconds) to five minutes ahead of the machine's clock. 0: the time at which
                                   the turn is submitted */
  const char *caller_job;       /* of a caller that is a job (background_job, ci_pipeline): its id, such as a number
                                   that tp_call_job_id() gave, or that of a pipeline; tp_call_caller_job() */
  const char *triggered_by;     /* who or what made the caller call: a person, a schedule, a commit;
                                   tp_call_triggered_by(). As ids: at most 128 bytes */
} tp_turn_request;

/** What a turn came to. Made by the library. */
typedef struct tp_turn_result {
  size_t struct_size;
  tp_turn_outcome outcome;
  tp_status code;
  tp_text text;                 /* the last response's text */
  tp_text reason;               /* of a turn that did not complete, as one sentence: safe to show */
  tp_text turn_id;
  /* Whose subscription ended the turn; empty and 0 when none did. */
  tp_phase_id phase;
  tp_state state;               /* TP_STATE_SUCCEEDED: it answered, and denied (a server says 403). Any other: it is
                                   required and did not answer (503) */
  tp_reason why;                /* why it did not answer: TP_REASON_TIMEOUT, TP_REASON_ERROR, …; NONE: it denied */
  uint32_t iterations;
  uint32_t tool_calls;
  uint32_t reserved_;
  tp_text subscription;
  tp_text bare_reason;          /* its own words */
  int64_t input_tokens, output_tokens, cost_micros;
  int64_t started_ns, ended_ns; /* started_ns is 0 for a turn that never began */
} tp_turn_result;
/** Frees a result of tp_turn_run(). Accepts NULL. Threads: any. Also after tp_runtime_free(). */
TP_API void tp_turn_result_free(const tp_turn_result *result);

/** Runs a turn through every phase on the calling thread, which helps. Waits its turn behind queued ones.
 *  @param ret_result  freed by tp_turn_result_free(); untouched when the turn was not run. May be NULL.
 *  @return whether it was run: TP_OK and a result, whatever its outcome; TP_ERR_FULL, TP_ERR_SHUTDOWN,
 *          TP_ERR_NO_MEMORY; for what is wrong with the request TP_ERR_VERSION, TP_ERR_BAD_ID, TP_ERR_UTF8,
 *          TP_ERR_MALFORMED, TP_ERR_TOO_LARGE and TP_ERR_USAGE; TP_ERR_USAGE from inside a handler or a callback.
 *  Threads: any. Blocks: while the turns before it run, then up to what is left of the turn's limit, which counts from
 *  this call, and what comes at the end of every turn. */
TP_API tp_status tp_turn_run(tp_session *session, const tp_turn_request *request, const tp_turn_result **ret_result,
    tp_fault *fault) TP_MUST_USE;

/** Receives a submitted turn's result, once, on the thread that owns the turn; borrowed till return. */
typedef void (*tp_turn_end_fn)(void *ctx, const tp_turn_result *result);
/** A turn that was submitted, as its submitter holds it. It outlives the turn, and may be given back after
 *  tp_runtime_free(), as long as the runtime's allocator can be used. */
typedef struct tp_submission tp_submission;
/** Queues a turn. While it waits for the turns before it, a cancel and its limit end it at once: it fires no phase, its
 *  message enters no history, and its end is reported before theirs.
 *  @param on_end  may be NULL: then tp_submission_wait() says how it ended.
 *  @param ret_submission  to wait for the turn or to cancel it; give it back with tp_submission_unref(). May be NULL.
 *  Errors as tp_turn_run(); then on_end is not called. Threads: any. Blocks: no. */
TP_API tp_status tp_turn_submit(tp_session *session, const tp_turn_request *request, tp_turn_end_fn on_end, void *ctx,
                                tp_submission **ret_submission, tp_fault *fault) TP_MUST_USE;
/** Waits until the turn has ended and its on_end has returned.
 *  @param limit_ms  0: only looks.
 *  @param ret_result  valid till tp_submission_unref(); untouched unless TP_OK. May be NULL.
 *  @return TP_OK; TP_ERR_TIMEOUT when it has not; TP_ERR_USAGE from inside a handler or a callback, unless limit_ms is
 *          0; TP_ERR_FORKED.
 *  Threads: any, several at once. Blocks: up to limit_ms. */
TP_API tp_status tp_submission_wait(tp_submission *submission, uint32_t limit_ms, const tp_turn_result **ret_result,
    tp_fault *fault) TP_MUST_USE;
/** Sets the turn's deadline to now. Harmless on a turn that has ended. Accepts NULL. Threads: any. Blocks: no. */
TP_API void tp_submission_cancel(tp_submission *submission);
/** Cancels one call of the response whose calls run, or all of them; the turn goes on with their results. A call that
 *  has none yet ends as TP_TOOL_CANCELLED: its function, also one that has deferred or waits in an inbox, is cancelled
 *  and given up, a question about it is over, its gates end. Where the function was called tool.result and tool.post
 *  come. A call that has its result keeps it; where there is nothing to cancel the log has a line.
 *  @param call_id  tp_tool_result.call_id; empty: all. Copied.
 *  @return TP_OK: it was asked for; TP_ERR_STALE when the turn has ended; TP_ERR_NO_MEMORY; TP_ERR_USAGE without a
 *          submission; TP_ERR_FORKED.
 *  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_submission_cancel_calls(tp_submission *submission, tp_text call_id, tp_fault *fault);
/** The submitter's reference goes, and the result with it; the turn is not cancelled. Accepts NULL. Threads: any, also
 *  from on_end and after tp_runtime_free(). */
TP_API void tp_submission_unref(tp_submission *submission);

/* ---- nested turns ---------------------------------------------------------------------------------------------- */

/** Runs a turn of another session for a call of a handler or tool (a subagent), and waits for it. The nested turn
 *  - passes every phase and gate and leaves records as any turn does;
 *  - has the agent, history and people of its session;
 *  - uses the registrations with which the turn of the call began;
 *  - takes no room of its own (tp_runtime_options.turns_running_max);
 *  - ends at the latest with the call's deadline, also while a person is asked, and is cancelled with the call.
 *  Turns nest four deep: a turn, and four below it. While the call waits it occupies neither one of the handler_threads
 *  nor a permit of its subscription or tool, so that the nested turn may use the same ones. It gets both back before
 *  this returns, and may wait for them.
 *  @param call     of a handler of placement thread, on its own thread, that has not deferred.
 *  @param session  of the same runtime. Its other turns come first, as with tp_turn_run(). Where the turns of two
 *                  sessions wait for each other's, that ends at the calls' deadlines.
 *  @param request  as tp_turn_run().
 *  @param ret_result  freed by tp_turn_result_free(); untouched when the turn was not run. May be NULL.
 *  @return whether it was run, as tp_turn_run(). TP_ERR_TOO_DEEP; TP_ERR_CANCELLED when the call was given up;
 *          TP_ERR_FULL also where 1,024 calls of the runtime wait so; TP_ERR_USAGE from a call that may not wait, for a
 *          session of another runtime and for one whose own turn waits for this call.
 *  Threads: that of the call.  Blocks: up to the call's deadline. */
TP_API tp_status tp_call_run_turn(tp_call *call, tp_session *session, const tp_turn_request *request,
    const tp_turn_result **ret_result, tp_fault *fault) TP_MUST_USE;
/** The same for a run of a tool. */
TP_API tp_status tp_tool_run_turn(tp_tool_run *run, tp_session *session, const tp_turn_request *request,
    const tp_turn_result **ret_result, tp_fault *fault) TP_MUST_USE;
/** The same without waiting, for calls that defer, are inline or come from an inbox: on_end brings the result and may
 *  complete the call's token. The nested turn ends at the call's deadline. Where the call is cancelled before,
 *  tp_deferral.cancel calls tp_submission_cancel(). A call of an inbox keeps its permit meanwhile.
 *  @return as tp_turn_submit(), and as above.
 *  Threads: that of the call, as long as its function runs; of an inbox, until its token is completed.  Blocks: no. */
TP_API tp_status tp_call_submit_turn(tp_call *call, tp_session *session, const tp_turn_request *request,
    tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_tool_submit_turn(tp_tool_run *run, tp_session *session, const tp_turn_request *request,
    tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) TP_MUST_USE;
/** Of a call in a nested turn: the id of the turn whose call runs it; else empty. A background job, which is stored,
 *  does not know it: a job that runs a turn in which it is asked for again has to see by other means that it does.
 *  Borrowed till the handler returns.
 *  Threads: that of the call. */
TP_API tp_text tp_call_parent_turn(const tp_call *call);
/** The same for a match. Threads: that of the match. */
TP_API tp_text tp_match_parent_turn(const tp_match_view *view);

/* ---- phases alone ---------------------------------------------------------------------------------------------- */

/** For hosts with a loop of their own: begins a turn without driving it; fires no phase. One operation at a time.
 *  A turn of a session gives its events to the listeners that the session had when it began, until it ends, also when
 *  the session is closed before. What its phases gather of policies and prompt context is kept till the end, 64 MiB at
 *  most.
 *  @return TP_OK; TP_ERR_FULL at turns_max; TP_ERR_VERSION, TP_ERR_BAD_ID, TP_ERR_UTF8; what tp_value_check() says of
 *          files; TP_ERR_NO_MEMORY, TP_ERR_SHUTDOWN, TP_ERR_FORKED, and what tp_runtime_start() says. */
TP_API tp_status tp_turn_begin(tp_session *session, const tp_turn_request *request, tp_turn **ret_turn,
    tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_turn_begin_bare(tp_runtime *runtime, const tp_turn_request *request, tp_turn **ret_turn,
    tp_fault *fault) TP_MUST_USE;
/** Sets the deadline of a begun turn to now: the operation under way ends as cancelled. Accepts NULL. Threads: any,
 *  till tp_turn_end() is called. Blocks: no. */
TP_API void tp_turn_cancel(tp_turn *turn);
/** As tp_submission_cancel_calls(), for the calls of tp_tools_run() and tp_tools_submit(). Threads: any, till
 *  tp_turn_end() is called. */
TP_API tp_status tp_turn_cancel_calls(tp_turn *turn, tp_text call_id, tp_fault *fault);
/** Ends it and frees its phase and tool results. No operation may be under way. Accepts NULL. */
TP_API void tp_turn_end(tp_turn *turn);

/** The turn's id, the request's or a generated one; borrowed till tp_turn_end(). Threads: one at a time, while no
 *  submitted operation of the turn is under way; or a callback or handler of the turn. */
TP_API tp_text tp_turn_id(tp_turn *turn);
/** What the turn was begun with: the session (the host's own handle: not to be used once it was closed) or NULL for a
 *  bare turn, the runtime, the request's data. Threads: any, till tp_turn_end(). */
TP_API tp_session *tp_turn_session(const tp_turn *turn);
TP_API tp_runtime *tp_turn_runtime(const tp_turn *turn);
TP_API void *tp_turn_data(const tp_turn *turn);

/** The payload of a phase. Borrowed by tp_phase_run() till it returns, copied by tp_phase_submit(). A field that does
 *  not exist, that the phase does not carry, that is given twice or as another kind than its own is refused with
 *  TP_ERR_USAGE with and without subscriptions; a text that is not UTF-8 or a value that is not msgpack is refused
 *  where there is a subscription. */
typedef struct tp_phase_input {
  size_t struct_size;
  const tp_field *fields;
  size_t field_count;
  uint32_t budget_ms;           /* of this entry; 0: the phase's */
  uint32_t reserved_;           /* must be zero */
} tp_phase_input;

typedef struct tp_merged tp_merged;

/** What an entry came to. The caller sets struct_size; a longer struct of a newer program is filled as far as this
 *  library knows it, and struct_size says how far. What it points to is valid till tp_turn_end() or
 *  tp_phase_result_release(). */
typedef struct tp_phase_result {
  size_t struct_size;
  tp_status outcome;            /* TP_OK, TP_ERR_DENIED, TP_ERR_HOOK (failed closed), TP_ERR_CANCELLED; of a submitted
                                   phase that could not be run TP_ERR_NO_MEMORY, run_count 0 */
  tp_verdict verdict;           /* the strictest */
  const char *subscription;     /* who denied, asked or failed; NULL */
  tp_text reason;               /* its own words, or the name of `why` */
  tp_state state;               /* of the run of `subscription`: TP_STATE_SUCCEEDED when it answered (it denied or
                                   asked), any other when it did not; NONE without one */
  tp_reason why;                /* why it did not answer: TP_REASON_TIMEOUT, TP_REASON_ERROR, …; NONE: it answered */
  uint32_t run_count;           /* subscriptions of the phase */
  uint32_t reserved_;
  const tp_merged *merged;      /* NULL when nothing was contributed or replaced */
  void *entry;                  /* internal; NULL for an empty phase */
} tp_phase_result;

/** Runs a phase on the calling thread, which helps. Blocks: up to the entry's deadline.
 *  Threads: one at a time. TP_ERR_BUSY says that a submitted operation, or one of another thread that has begun, is
 *  under way; two threads that begin at the same moment are not distinguished, since that would cost each phase a
 *  locked instruction. A phase without subscriptions is refused for its payload only: nothing is run.
 *  @param input  NULL: an empty payload.
 *  @return whether it was run: TP_OK and *ret_result; TP_ERR_UNKNOWN_PHASE, TP_ERR_BUSY, TP_ERR_NO_MEMORY,
 *          TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_FORKED; TP_ERR_SHUTDOWN when the limit of a drain is over. */
TP_API tp_status tp_phase_run(tp_turn *turn, tp_phase_id phase, const tp_phase_input *input,
    tp_phase_result *ret_result, tp_fault *fault) TP_MUST_USE;
typedef void (*tp_phase_end_fn)(void *ctx, const tp_phase_result *result);
/** Runs it on the engine workers; on_end may begin the next operation of the turn, or end the turn.
 *  @param on_end  required: TP_ERR_USAGE without it, since nothing else says when the phase has ended.
 *  @return as tp_phase_run(); with anything but TP_OK nothing was begun. */
TP_API tp_status tp_phase_submit(tp_turn *turn, tp_phase_id phase, const tp_phase_input *input, tp_phase_end_fn on_end,
    void *ctx, tp_fault *fault) TP_MUST_USE;
/** Zero-fills a result but for struct_size and frees its memory before the turn ends; does nothing where there is no
 *  entry.
 *  Threads: any that may begin an operation of the turn, and no other of these at the same time; any callback, any
 *  handler. In a callback or handler that the turn's own thread runs for a submitted operation of it the memory is
 *  freed at once; in any other it stays till the turn's end.
 *  Blocks: while the thread that ran the turn's last operation leaves it; never in a handler or a callback of a turn.
 *  Calls nothing of the host's. */
TP_API void tp_phase_result_release(tp_turn *turn, tp_phase_result *result);

/** The row of a subscription, in plan order. The rows are made at the first call, in the memory of the result, and live
 *  as it does. Threads: one at a time for each result.
 *  @return NULL when index is not below run_count, and without memory. */
TP_API const tp_run_record *tp_phase_result_run(const tp_phase_result *result, uint32_t index);

/** A merged contribution with where it came from. Made by the library. */
typedef struct tp_merged_entry {
  size_t struct_size;
  const tp_contribution *contribution;
  const char *subscription;
  const char *owner;
  uint32_t attempt;
  uint32_t reserved_;
} tp_merged_entry;

/** The merged contributions of one kind (0: of all kinds), in merged order; diagnostics of the merge are among
 *  TP_KIND_DIAGNOSTIC. Lives as long as the result; NULL when index is not below the count. */
TP_API size_t tp_merged_count(const tp_merged *merged, tp_kind kind);
TP_API const tp_merged_entry *tp_merged_get(const tp_merged *merged, tp_kind kind, size_t index);
/** A payload field as the chain left it (replaced or not); empty / 0 when there is none. */
TP_API tp_text tp_merged_text(const tp_merged *merged, tp_field_id field);
TP_API bool tp_merged_replaced(const tp_merged *merged, tp_field_id field);
/** The canonical bytes of the merged result: equal for equal plans, payloads and attempt outcomes, whatever the number
 *  of threads. Written to the writer. */
TP_API tp_status tp_merged_write(const tp_merged *merged, tp_writer *writer) TP_MUST_USE;

/* ---- tools ------------------------------------------------------------------------------------------------------ */

/** Dispatches the calls of one response concurrently, each through its gates, with the tools that this turn's
 *  turn.pre_tool_materialization brought.
 *  @param calls  count pointers; borrowed till return; each struct is read by its struct_size.
 *  @param ret_results  count pointers: (*ret_results)[i] is the result of calls[i]; they live till tp_turn_end().
 *  @return whether they were run, as tp_phase_run(). */
TP_API tp_status tp_tools_run(tp_turn *turn, const tp_tool_call *const *calls, size_t count,
    const tp_tool_result *const **ret_results, tp_fault *fault) TP_MUST_USE;
typedef void (*tp_tools_end_fn)(void *ctx, const tp_tool_result *const *results, size_t count);
/** The same on the engine workers, without waiting. The calls are copied: at the return they are the caller's again.
 *  on_end is called once, as that of tp_phase_submit() is, and required as there; results[i] is that of calls[i], and
 *  they live till tp_turn_end().
 *  @return as tp_phase_submit(); with anything but TP_OK nothing was begun. */
TP_API tp_status tp_tools_submit(tp_turn *turn, const tp_tool_call *const *calls, size_t count, tp_tools_end_fn on_end,
    void *ctx, tp_fault *fault) TP_MUST_USE;
/** The same without a copy of the calls. It saves time for many calls and for long arguments. A tool's function reads a
 *  copy where it may outlive its call.
 *  @param calls  borrowed until on_end is called: the list, the structs and everything they point to must not change
 *                before.
 *  @return as tp_tools_submit().
 *  Threads: one at a time, while no other operation of the turn is under way.  Blocks: no. */
TP_API tp_status tp_tools_submit_borrowed(tp_turn *turn, const tp_tool_call *const *calls, size_t count,
    tp_tools_end_fn on_end, void *ctx, tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
