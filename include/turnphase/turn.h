/* SPDX-License-Identifier: Apache-2.0
 *
 * turn.h: for hosts: agents, sessions, turns, phases and tool calls. A synchronous function and its submit form run the
 * same steps. The caller of a synchronous function owns the turn and runs its steps. A submitted turn is owned by an
 * engine worker while it can go on, and has no owner while it waits.
 * Threads: any, for functions that take a runtime, an agent, a session or a submission; the call that ends one of these
 * (close, remove, unref) must be the last with it. A begun turn and the results of its phases are used by one thread at
 * a time ("one at a time"), except by tp_turn_cancel(). The library calls callbacks on the thread that owns the turn:
 * an engine worker, the caller of the synchronous function, or a handler thread that has run a handler of the turn and
 * goes on with it. With a model that has tp_model.delivers, a thread that emits a piece of its answer owns the turn
 * while it delivers that piece to the listeners, and for nothing else. With no_engine_workers all callbacks of a
 * synchronous call come on the thread of its caller. */
#ifndef TURNPHASE_TURN_H
#define TURNPHASE_TURN_H

#include "turnphase/runtime.h"

TP_BEGIN_DECLS

/** A configuration that sessions share: tp_agent_add(). */
typedef struct tp_agent tp_agent;
/** A conversation: its turns run one after the other. tp_session_open() opens one. */
typedef struct tp_session tp_session;
/** A turn that its host drives: tp_turn_begin(). */
typedef struct tp_turn tp_turn;

/* ---- events ---------------------------------------------------------------------------------------------------- */

/** The kinds of events. The comments name the fields of tp_event that a kind sets. */
typedef enum tp_event_kind {
  TP_EVENT_TURN_BEGIN = 1,
  TP_EVENT_PHASE_BEGIN = 2,
  TP_EVENT_RUN = 3, /* a subscription of the phase settled: run is set */
  TP_EVENT_PHASE_END = 4,
  TP_EVENT_MODEL_BEGIN = 5,
  TP_EVENT_MODEL_DELTA = 6, /* text: a piece, or several that were joined (tp_turn_request.each_delta). In turns where a
                                 handler of model.response may replace or deny the text, the deltas, the thinking and
                                 the end come after that phase, with the text that it left; delta and thinking are then
                                 one piece each */
  TP_EVENT_MODEL_END = 7,   /* text: the whole response; the tokens and the cost of this call */
  TP_EVENT_TOOL_BEGIN = 8,  /* tool_call */
  TP_EVENT_TOOL_END = 9,    /* tool_result; in completion order */
  TP_EVENT_CONTEXT = 10,    /* an entry of prompt context that goes into the request: contribution, subscription */
  TP_EVENT_REMINDER = 11,   /* contribution, subscription */
  TP_EVENT_DIAGNOSTIC = 12, /* contribution (of kind diagnostic or manifest_diagnostic), subscription. One with
                                   the key model.fallback says that another model is asked, and why */
  TP_EVENT_TURN_END = 13, /* status. Comes for every turn that was submitted, also for one that never began (started_ns
                               is 0, and no TURN_BEGIN came). A callback gets it before on_end; in an inbox it can be
                               taken when the submission has ended */
  TP_EVENT_AUDIT = 14,    /* contribution of kind audit, subscription */
  TP_EVENT_QUESTION = 15, /* question: it is passed to the channel now (people.h); tool_call; subscription; text: the
                               reason. No event marks its end: the audit has a row for the answer, and the call ends */
  TP_EVENT_JOB = 16,      /* job: it was stored, or an attempt of it has ended, as its state shows: QUEUED, SUCCEEDED or
                                   DEAD. It belongs to no turn: see tp_runtime_listen() */
  /* For a listener with an inbox: at this point `lost` events of its turns and jobs were dropped, because the inbox was
   * full or memory was short. It belongs to no turn, and is not filtered. */
  TP_EVENT_LOST = 17,
  TP_EVENT_THINKING =
      18, /* text: a piece of what the model thinks, or several that were joined; no part of the answer */
  TP_EVENT_MESSAGE = 19, /* once for each message that was added to a turn that began: text; status: TP_OK when the
                            message has entered the turn, with the text as turn.intake left it; TP_ERR_DENIED when that
                            phase did not let it in, with subscription and phase; TP_ERR_STALE when the turn ended
                            before it */
  TP_EVENT_TOOL_PROGRESS = 20, /* how far a run is (tp_tool_run_progress()): tool_call; done, total; text: the
                                  message. Between TOOL_BEGIN and TOOL_END of its call */
  TP_EVENT_FORCE_32 = 0x7fffffff
} tp_event_kind;

/** The constant's word in small letters: "turn_begin"; "unknown" for any other number. Static text. Threads: any. */
TP_API const char *tp_event_name(tp_event_kind kind);

/** Something that happened in a turn. struct_size is set by the library. Delivered in order, never two at once per
 *  turn. Everything is borrowed till the callback returns; taken from an inbox, it is a copy and may be read until it
 *  is released. */
typedef struct tp_event {
  size_t struct_size;
  tp_event_kind kind;
  /** Set in PHASE_BEGIN, RUN, PHASE_END, CONTEXT, REMINDER, DIAGNOSTIC, AUDIT, QUESTION. */
  tp_phase_id phase;
  /** Counts from 1 in each turn, without gaps; JOB, LOST: 0. */
  uint64_t sequence;
  /** Monotonic. */
  int64_t time_ns;
  /** Wall clock of the same moment. */
  int64_t unix_ms;
  /** By TP_ID_*. */
  const tp_text *ids;
  uint32_t id_count;
  /** Set in PHASE_END, MODEL_END, TURN_END, MESSAGE. */
  tp_status status;
  /** The visibility of the subscription that it comes from; USER_VISIBLE where it comes from none. */
  tp_visibility visibility;
  /** TOOL_BEGIN, TOOL_PROGRESS, TOOL_END: index of the call in its response. */
  uint32_t call_index;
  tp_text text;
  /** The subscription that made the contribution; PHASE_END, MESSAGE: the one that denied, asked or failed. */
  const char *subscription;
  const tp_run_record *run;
  const tp_contribution *contribution;
  const tp_tool_call *tool_call;
  const tp_tool_result *tool_result;
  const tp_job *job;
  /** Set in MODEL_END. */
  int64_t input_tokens, output_tokens, cost_micros;
  /** PHASE_END, MODEL_END, TOOL_END, TURN_END; MESSAGE: when it was added, and when it entered the turn or was left
   *  out. */
  int64_t started_ns, ended_ns;
  /** Internal: for tp_event_data(). */
  const void *turn;
  /** Internal: for tp_event_data(). */
  const void *copied;
  /** LOST: how many events were dropped; TURN_END from an inbox: how many were dropped right before it, when the
   *  host had not released the last LOST; else 0. */
  uint64_t lost;
  /** MODEL_BEGIN, MODEL_END: the model that was asked: tp_turn_request.model_name, else the agent's model_name, else
   *  tp_model.name; else empty. */
  tp_text model;
  /** QUESTION: the receiver of the event may answer it, by its token. */
  const tp_question *question;
  /** TURN_BEGIN of a nested turn: the id of the turn whose call runs it; else empty. */
  tp_text parent_turn;
  /** MODEL_END: how the answer ended, ERROR where the request failed; and the provider's own word, or empty. */
  tp_finish finish;
  /** Zero. */
  uint32_t reserved_;
  tp_text finish_word;
  /** TOOL_PROGRESS: as the tool counts; total is 0 where it is not known. */
  double done, total;
} tp_event;
/** The host's own pointer, as tp_call_data(). Of an event from an inbox: as it was when the event happened.
 *  Threads: the one that the event was given to. */
TP_API void *tp_event_data(const tp_event *event, tp_id_kind id);

/** An answer that is held back: tp_event_hold(). */
typedef struct tp_hold tp_hold;
/** Holds back the model's answer to which this piece belongs, for a listener that cannot pass on pieces as fast as they
 *  come. The model pauses (tp_model_held()), and the listeners of the turn get only the pieces that it has emitted
 *  until then. An answer may be held several times, by one listener or by several: it goes on when every hold is
 *  released. The deadline of the turn does not wait, and a cancel ends the turn as usual.
 *  @param event  MODEL_DELTA or THINKING, within its on_event.
 *  @return ended by tp_hold_release(); NULL: nothing is held, since the answer is complete (a model without deltas; a
 *          handler of model.response has seen it), or the event came through an inbox (tp_listener.held_bytes holds
 *          there), or there is no memory.  Threads: that of on_event.  Blocks: no. */
TP_API tp_hold *tp_event_hold(const tp_event *event);
/** Ends a hold. The end of the last hold of an answer that is not complete calls the model's resume, so the caller must
 *  hold no lock that resume acquires. It may come after the end of the turn, and after tp_runtime_free(). Accepts NULL.
 *  Threads: any.  Blocks: no. */
TP_API void tp_hold_release(tp_hold *hold);

/** Receives an event. It must return within microseconds and must not block. A listener of several turns may be called
 *  from several threads at once.
 *  Threads: the one that owns the turn; for MODEL_DELTA and THINKING that may be a thread of the model
 *  (tp_model.delivers, tp_listener.on_owner); for the kind JOB see tp_runtime_listen(). */
typedef void (*tp_event_fn)(void *ctx, const tp_event *event);

/** A receiver of events, and its filter. */
typedef struct tp_listener {
  size_t struct_size;
  /** Exactly one of on_event and inbox. */
  tp_event_fn on_event;
  void *ctx;
  /** Called exactly once, after the last call of on_event: when the last turn that has the listener has ended; with an
   *  inbox not before the last event that was taken is released. On any thread, without any lock; must not block. Taken
   *  on success only; may be NULL. */
  void (*destroy)(void *ctx);
  /** Bits 1 << TP_EVENT_*; 0: all kinds but JOB. */
  uint64_t kinds;
  /** TP_PHASE_*: filters the events that have a phase; NULL: all. Copied. */
  const tp_phase_id *phases;
  size_t phase_count;
  /** Events that come from a subscription of lower visibility are left out. A PHASE_END that such a subscription
   *  decided comes without subscription and reason. */
  tp_visibility visibility_min;
  /** Set when no MODEL_DELTA or THINKING of its turns may come on a thread of a model (tp_model.delivers): for a
   *  callback that is slow, such as one that prints, since the model's thread may serve all streams of the process.
   *  Each piece then wakes a thread that becomes the owner. Must be false with an inbox. */
  bool on_owner;
  /** Must be zero. */
  uint8_t reserved_[3];
  /** An inbox of this runtime (inbox.h): copies of the listener's events wait there, in the order in which the library
   *  delivers them. When the inbox is full, an event and all later ones, except ends of turns, are dropped and counted,
   *  until the host has taken the TP_EVENT_LOST that has their number. Kept as long as the listener.
   *  TP_INBOX_OF_SESSION only for a listener of a session. */
  tp_inbox *inbox;
  /** With an inbox: when the pieces of answers (MODEL_DELTA, THINKING) that the host has not released have more bytes
   *  of text than this, the next piece holds its answer back (tp_event_hold()) until it is released. For a listener of
   *  a session the pieces of one turn are counted. 0: nothing is held back, and what does not find space in the inbox
   *  is dropped. Must be 0 with on_event, which calls tp_event_hold() itself. */
  size_t held_bytes;
} tp_listener;

/** Adds a listener to every turn of the runtime that begins from now on, bare turns and those of agents among them.
 *  With the kind JOB it also receives the changes of background jobs from now on, on the thread that stores a job or on
 *  the thread of the library that runs it, also while another thread delivers an event of a turn. ids are empty, the
 *  job has no payload, and its order_key is by default the session's id.
 *  @param ret_id  a number for tp_runtime_unlisten(), never used twice in a runtime; may be NULL.
 *  @return TP_OK; TP_ERR_VERSION; TP_ERR_USAGE for a missing on_event or inbox, both, an inbox of another runtime, an
 *          unknown kind or visibility;
 *          TP_ERR_UNKNOWN_PHASE; TP_ERR_FULL above 64 listeners; TP_ERR_NO_MEMORY; TP_ERR_FORKED.
 *  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_runtime_listen(tp_runtime *runtime, const tp_listener *listener, uint64_t *ret_id,
                                   tp_fault *fault) TP_MUST_USE;
/** Removes a listener, also from turns that run. After the return no call of its on_event begins, and none of its
 *  events is taken from an inbox. A call that another thread has begun may still run; destroy is called after it.
 *  @return TP_OK; TP_ERR_NOT_FOUND; TP_ERR_FORKED.  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_runtime_unlisten(tp_runtime *runtime, uint64_t id, tp_fault *fault);
/** tp_runtime_listen() and tp_runtime_unlisten() for the turns of one session. A turn notifies the runtime's listeners
 *  first, then the session's, each in the order in which they were added. A session's listeners end with the last of
 *  its turns.
 *  @return as tp_runtime_listen(); TP_ERR_USAGE for the kind JOB.
 *  Threads: any. */
TP_API tp_status tp_session_listen(tp_session *session, const tp_listener *listener, uint64_t *ret_id,
                                   tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_session_unlisten(tp_session *session, uint64_t id, tp_fault *fault);

/* ---- agents ---------------------------------------------------------------------------------------------------- */

/** The configuration of an agent. Strings and values are copied; the model is copied and taken on success. */
typedef struct tp_agent_config {
  size_t struct_size;
  const char *id;
  /** Standing system text. */
  const char *system;
  const char *model_name;
  /** Taken on success; NULL: the session's. */
  const tp_model *model;
  /** value: a map whose pairs stand in TP_FIELD_AGENT_CONFIG beside system and model: tools and skills (arrays of
   *  text), resources, and any key that the host and its handlers agree on. Empty: none. As agent.build leaves it,
   *  tools is the agent's scope, patterns (as of tp_match) of names: its turns show no other tool to the model, and a
   *  call of another one is out_of_scope before any gate; without the key they may use all. tools_denied, an array of
   *  patterns, takes tools out of this scope; no text names it to the model. memory: see tp_memory_register(). When
   *  tools or skills are given, the system text ends with both lists, in a scope block. resources is a map of arrays of
   *  texts, such as {mcp_servers: […], skills: […]}: what there is, as a block before the scope. environment is a map
   *  of texts, as a block right after `system`. */
  tp_text extra;
  /** The host's own pointer: tp_call_data(TP_ID_AGENT), tp_agent_data(). */
  void *data;
  /** fallback_count pointers, as tp_session_options.fallbacks; only with model. */
  const tp_model *const *fallbacks;
  size_t fallback_count;
  /** The config begins with the key environment: os and platform (uname(2)) and shell ($SHELL, read with getenv()) of
   *  this process; a host whose tools run elsewhere gives the key in extra instead. */
  bool environment;
  /** Must be zero. */
  uint8_t reserved_[7];
} tp_agent_config;

/** Adds an agent: runs agent.build, then agent.register, which reads the built config and may refuse it, then makes the
 *  agent visible. When the registration is refused, agent.unregister is run in reverse order: for handlers whose
 *  agent.register succeeded; and for handlers that have no agent.register, if another handler of their owner succeeded.
 *  @return TP_OK; TP_ERR_DENIED when a handler refused; TP_ERR_HOOK when a required one failed; TP_ERR_DUPLICATE_ID;
 *          TP_ERR_VERSION, TP_ERR_BAD_ID; TP_ERR_MALFORMED for extra and for a built config that is no map or has
 *          another kind of tools, skills, environment or resources; as tp_turn_begin(), since it begins a
 *          turn; TP_ERR_CANCELLED by a drain; TP_ERR_USAGE from inside a handler or a callback.
 *  Threads: any.  Blocks: up to the limits of the two phases. */
TP_API tp_status tp_agent_add(tp_runtime *runtime, const tp_agent_config *config, tp_agent **ret_agent,
                              tp_fault *fault) TP_MUST_USE;
/** Makes an agent invisible, then runs agent.unregister, unless a drain has run it. Sessions that use the agent keep it
 *  until they close. A drain runs agent.unregister for the remaining agents, the newest first; their handles stay valid
 *  until the host removes them.
 *  Threads: any.  Blocks: up to the limit of the phase. */
TP_API void tp_agent_remove(tp_agent *agent);

/** How the adding or removing of an agent ended. struct_size is set by the library; borrowed till the callback
 *  returns. */
typedef struct tp_agent_result {
  size_t struct_size;
  tp_status status; /* as tp_agent_add() */
  uint32_t reserved_;
  tp_agent *agent;       /* the added agent, which is the host's from now on; else NULL */
  const tp_fault *fault; /* NULL with TP_OK */
} tp_agent_result;
/** Receives the end of an add or a remove. Threads: the one that owns the work. */
typedef void (*tp_agent_end_fn)(void *ctx, const tp_agent_result *result);
/** Adds an agent on the engine workers, without waiting; on_end is called once, by the thread that owns the work.
 *  Everything in config is copied before the return, but the model is taken only when on_end gets TP_OK.
 *  @param on_end  required.
 *  @return TP_OK; what tp_agent_add() returns before it runs a phase; TP_ERR_USAGE without engine workers: then nothing
 *          was begun, and on_end is not called.  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_agent_add_submit(tp_runtime *runtime, const tp_agent_config *config, tp_agent_end_fn on_end,
                                     void *ctx, tp_fault *fault) TP_MUST_USE;
/** Removes an agent on the engine workers, without waiting.
 *  @param on_end  may be NULL; called before the return when a drain has run agent.unregister.
 *  @return as tp_agent_add_submit().
 *  Threads: any. */
TP_API tp_status tp_agent_remove_submit(tp_agent *agent, tp_agent_end_fn on_end, void *ctx,
                                        tp_fault *fault) TP_MUST_USE;

/** What to do with one agent: tp_agents_change(). Passed by pointer, in a list of pointers. */
typedef struct tp_agent_change {
  size_t struct_size;
  /** The handle of tp_agent_add(); NULL: config is added. */
  tp_agent *before;
  /** The config that takes the place of `before`, with the same id; NULL: `before` is removed. */
  const tp_agent_config *config;
  /** Out: the agent that was made of config, the host's from now on; NULL without a config. */
  tp_agent *agent;
} tp_agent_change;

/** Adds, replaces and removes agents as one change, or changes nothing. First agent.build runs for every config; then,
 *  in the order of the list, agent.unregister for `before` and agent.register for config; then all that are new become
 *  visible at once, in the places of those that they replace, and agent.unregister runs for those that are only
 *  removed. When a handler refuses or fails, the new agents that were registered are unregistered, and agent.register
 *  runs again for each `before` that was unregistered; if that fails, it is logged, and the agent stays.
 *
 *  On success each `before` is ended, as by tp_agent_remove(). A session of an agent that was replaced uses the new one
 *  from its next turn on: its system text, its models (unless the session has its own), its scope. Turns that were
 *  begun keep the agent that they began with, and so do turns nested in them.
 *  @param changes  count pointers, count >= 1. A config without a model, in place of an agent with one, leaves its
 *                  sessions without.
 *  @return as tp_agent_add(); TP_ERR_USAGE for a change of nothing, an agent or an id that is listed twice, another id
 *          than that of `before`, an agent that was removed or is of another runtime, and a model with
 *          TP_INBOX_OF_SESSION in place of another agent. Then every model is still the host's.
 *  Threads: any, one change at a time for an agent.  Blocks: up to the limits of the phases of each. */
TP_API tp_status tp_agents_change(tp_runtime *runtime, tp_agent_change *const *changes, size_t count,
                                  tp_fault *fault) TP_MUST_USE;

/** The agent of this id that is registered and not removed, or NULL. The caller gets a reference, and ends it with
 *  tp_agent_unref().
 *  Threads: any. */
TP_API tp_agent *tp_agent_find(tp_runtime *runtime, const char *id);
/** Ends a reference of tp_agent_find(), never the one of tp_agent_add(). Accepts NULL. Threads: any. */
TP_API void tp_agent_unref(tp_agent *agent);
/** Receives an agent, which is borrowed till the callback returns; false stops the walk. Threads: the calling one. */
typedef bool (*tp_agent_fn)(void *ctx, tp_agent *agent);
/** Walks the visible agents in the order in which they were added. An agent that is added or removed meanwhile is seen
 *  or not; each of the others is seen exactly once. No lock is held while each runs: it may add and remove agents.
 *  @param each  may be NULL.
 *  @return how many there are, or up to the one at which each stopped; 0 in the child of a fork.
 *  Threads: any. each comes on the calling one. */
TP_API size_t tp_runtime_agents(tp_runtime *runtime, tp_agent_fn each, void *ctx);
/** False while the breaker of each of the agent's models is open (tp_runtime_options.breaker_failures). An agent with a
 *  single model has no breaker. For an agent without models it is true, since its sessions have models of their own.
 *  Threads: any. */
TP_API bool tp_agent_is_reachable(const tp_agent *agent);
/** The agent's id. Lives as long as the agent. Threads: any. */
TP_API const char *tp_agent_id(const tp_agent *agent);
/** The config as agent.build left it: a value, a map. Lives as long as the agent. Threads: any. */
TP_API tp_text tp_agent_config_get(const tp_agent *agent);
/** Whether a tool with this name is in the agent's scope: it fits one of the patterns `tools` of the agent's config, if
 *  there are any, and none of `tools_denied`. The tool need not exist (tp_agent_tools()). Threads: any. */
TP_API bool tp_agent_has_in_scope(const tp_agent *agent, tp_text tool);
/** tp_agent_config.data. Threads: any. */
TP_API void *tp_agent_data(const tp_agent *agent);

/** A tool of a listing. struct_size is set by the library; borrowed till the callback returns. */
typedef struct tp_tool_listing {
  size_t struct_size;
  const tp_tool *tool; /* a copy: do not emit it */
  const char *owner;   /* the owner of the handler that contributes it */
} tp_tool_listing;
/** Receives a tool; false stops the walk. Threads: the calling one. */
typedef bool (*tp_tool_listing_fn)(void *ctx, const tp_tool_listing *listing);
/** Lists the tools of a turn as if no policy restricted them, in the order in which a model sees them. It runs
 *  turn.pre_tool_materialization, and no other phase, in a turn of its own.
 *  @param each  may be NULL.
 *  @param ret_count  how many there are, or up to the one at which each stopped; may be NULL.
 *  @return TP_OK; TP_ERR_TOOL_CONFLICT, TP_ERR_HOOK when the phase failed, with the failed subscription in the fault;
 *          as tp_turn_begin(), since it begins a turn; TP_ERR_USAGE from inside a handler or a callback.
 *  Threads: any. each comes on the calling one.  Blocks: up to the phase's own limit. */
TP_API tp_status tp_runtime_tools(tp_runtime *runtime, tp_tool_listing_fn each, void *ctx, size_t *ret_count,
                                  tp_fault *fault);
/** Lists the tools of tp_runtime_tools() that are in the agent's scope. Handlers read the agent's id and config, as in
 *  its turns.
 *  @return as tp_runtime_tools().
 *  Threads: any. */
TP_API tp_status tp_agent_tools(tp_agent *agent, tp_tool_listing_fn each, void *ctx, size_t *ret_count,
                                tp_fault *fault);
/** Lists the tools of the turn whose call this is that are in its agent's scope, in the order in which a model sees
 *  them, without running a phase. The tools of the listings are borrowed as long as the run is valid.
 *  @param run  of a tool of placement inline, that has not deferred.
 *  @return TP_OK; TP_ERR_USAGE for any other run.
 *  Threads: that of the run.  Blocks: no. */
TP_API tp_status tp_tool_run_tools(const tp_tool_run *run, tp_tool_listing_fn each, void *ctx, size_t *ret_count,
                                   tp_fault *fault);

/* ---- sessions -------------------------------------------------------------------------------------------------- */

/** What makes a session's history shorter. */
typedef enum tp_compaction {
  TP_COMPACTION_NONE = 0, /* nothing: the history grows */
  /** Keeps the newest whole turns that together have at most half of the bound (at least the newest turn, if it fits),
   *  and drops the others. */
  TP_COMPACTION_DROP_OLDEST = 1,
  /** Keeps the same turns, and puts before them one message of the user with a summary of the others. The session's own
   *  model makes the summary, without tools, from the newest of them that fit into half of the bound. The turn's tokens
   *  and cost include this request. */
  TP_COMPACTION_SUMMARIZE = 2,
  /** Calls tp_session_options.compact. */
  TP_COMPACTION_HOST = 3,
  TP_COMPACTION_FORCE_32 = 0x7fffffff
} tp_compaction;

/** The request to a compaction callback. Made by the library; borrowed until the callback returns. */
typedef struct tp_compaction_request {
  size_t struct_size;
  tp_session *session;
  /** What the history holds, as tp_message_tokens() counts, and its bound: the session's history_tokens_max, or
   *  half of `tokens` where a provider called the context too long. */
  int64_t tokens, tokens_max;
  /** The history: message_count pointers. */
  const tp_message *const *messages;
  size_t message_count;
  /** Called for each message of the new history, in order. */
  tp_message_fn each;
  void *each_ctx;
} tp_compaction_request;
/** Shortens a history: the messages that it passes to each, which may be none, replace it. The results of the calls of
 *  an assistant's message must directly follow it, exactly one for each call, and the whole must have fewer tokens than
 *  before. Otherwise the history stays as it is, as with any status but TP_OK, and when the callback takes longer than
 *  30 s.
 *  Threads: a handler thread, one call per session at a time; may block. */
typedef tp_status (*tp_compact_fn)(void *ctx, const tp_compaction_request *request, tp_fault *fault);
/** An estimate without a tokenizer: a quarter of the bytes of text, names, arguments and provider_data, rounded up, and
 *  4; 0 for an end mark. Parts that are texts, links, or files whose media type begins with "text/" count in the same
 *  way. Any other part has a quarter of the bytes of its name, media type and description, and for its content: 1,500
 *  for an image and for a part that is only named by its URI; audio a 500th of its bytes; any other file a 32nd of its
 *  bytes, but at least 1,500. tp_message.value does not count: no model reads it.  Threads: any. */
TP_API int64_t tp_message_tokens(const tp_message *message);

/** What a turn does when a turn of another runtime or process has its session in a shared history. */
typedef enum tp_busy {
  TP_BUSY_REFUSE = 0, /* it fails with TP_ERR_BUSY, whose message names the holder and the rest of its lease */
  TP_BUSY_WAIT = 1,   /* it waits until the session is free, or the holder's lease has ended */
  TP_BUSY_FORCE_32 = 0x7fffffff
} tp_busy;

/** Options of a session. Strings are copied; on success model and history are taken, shared_history is referenced. */
typedef struct tp_session_options {
  size_t struct_size;
  /** Required. */
  const char *id;
  const char *tenant, *workspace, *thread;
  /** May be NULL: then the turns have no agent config and no system text of an agent. */
  tp_agent *agent;
  /** Taken on success; NULL: the agent's model. */
  const tp_model *model;
  /** NULL: shared_history. */
  const tp_history *history;
  /** TP_ERR_USAGE together with history. NULL: the runtime's; if it has none, a history in memory that ends with the
   *  session. */
  tp_shared_history *shared_history;
  /** Short for a tp_session_listen() with all kinds; NULL: none. */
  tp_event_fn on_event;
  void *event_ctx;
  /** The most submitted turns that wait; 0: 64. */
  uint32_t turns_queued_max;
  /** Makes the session's history shorter, after turn.pre_compaction: above history_tokens_max, and once for a request
   *  whose context the provider calls too long (TP_ERR_CONTEXT_LENGTH), which is then repeated from model.pre on. When
   *  it fails, a turn above the limit goes on with the long history and a diagnostic, and a turn with a refused request
   *  fails with the provider's error. The stored history is not changed: a session that is opened again is compacted
   *  again. Not for turns with tp_turn_request.messages. */
  tp_compaction compaction;
  /** The host's own pointer: tp_call_data(TP_ID_SESSION), tp_session_data(). */
  void *data;
  /** A longer history is compacted before a turn's first request; 0: none. TP_ERR_USAGE without compaction. */
  int64_t history_tokens_max;
  /** Required with TP_COMPACTION_HOST, and refused otherwise. */
  tp_compact_fn compact;
  /** TP_ERR_USAGE without compact. */
  void *compact_ctx;
  /** The channel for questions (people.h); NULL: the runtime's. */
  tp_question_fn ask;
  /** TP_ERR_USAGE without ask. */
  void *ask_ctx;
  /** NULL: the runtime's. */
  tp_permission_fn permission;
  /** TP_ERR_USAGE without permission. */
  void *permission_ctx;
  /** fallback_count pointers, at most 16, each to another model, taken as model is: TP_ERR_USAGE without model. The
   *  turn goes on to the next one in their order when a request failed with a retryable error and has no attempt left,
   *  when it failed with TP_ERR_MODEL_UNAVAILABLE, or when the breaker of the provider is open
   *  (tp_runtime_options.breaker_failures); never after a first delta. It does not go back. They get no model_name:
   *  each has its own name. */
  const tp_model *const *fallbacks;
  size_t fallback_count;
  /** The environment of its turns that name none (tp_turn_request.environment); NULL: none. */
  const char *environment;
  /** An inbox of this runtime (inbox.h) that gets, in turns of this session, the work of everything that names
   *  TP_INBOX_OF_SESSION. Kept as long as the session and its turns. NULL: none; then its models must not name it
   *  (TP_ERR_USAGE). */
  tp_inbox *inbox;
  /** The budget of all its turns from now on, whatever the day; NULL: none. */
  const tp_budget *budget;
  /** What a turn does when a turn of another process has the session: tp_busy. TP_BUSY_WAIT with a history that is not
   *  shared (tp_history.shared) is TP_ERR_USAGE, since only a shared session can be busy. */
  uint32_t busy;
  /** With TP_BUSY_WAIT: the longest wait, in ms; 0: until the turn's own limit. TP_ERR_USAGE without it. */
  uint32_t busy_wait_ms;
} tp_session_options;

/** Opens a session. The history is loaded, and session.start run, in the first step of its first driven turn. An id is
 *  open once in a tenant: a second open is refused until the on_end of the first one's close.
 *  @return TP_OK; TP_ERR_VERSION, TP_ERR_BAD_ID, TP_ERR_NO_MEMORY; TP_ERR_BUSY for an id that is open, or that is being
 *          deleted from the shared history; TP_ERR_USAGE for two histories or a wrong one, and for an agent or an
 *          inbox of another runtime; TP_ERR_SHUTDOWN once a drain has begun; what tp_runtime_start() returns. With
 *          anything but TP_OK model and history were not taken.
 *  Threads: any.  Blocks: no. */
TP_API tp_status tp_session_open(tp_runtime *runtime, const tp_session_options *options, tp_session **ret_session,
                                 tp_fault *fault) TP_MUST_USE;
/** Closes a session: after the turns in its queue have ended it runs session.end once, then calls on_end (may be NULL).
 *  By then the ends of all these turns have been notified. Where a drain has begun session.end for this session, it is
 *  not run again, and on_end is called when it has ended. When turns_max sessions (at least 1,024) are being closed at
 *  the same time, session.end is not run, and a line is logged; a drain waits instead. The model and the history of the
 *  session are destroyed when its last turn and call no longer refer to them, before on_end or after it. In the
 *  child of a fork the function only calls on_end. Accepts NULL.
 *  Threads: any.  Blocks: no; with no_engine_workers it runs session.end itself. */
TP_API void tp_session_close(tp_session *session, void (*on_end)(void *ctx), void *ctx);

/** The host's fields for the payload of session.end. Copied. An empty field is not in the payload. */
typedef struct tp_session_end {
  size_t struct_size;
  /** TP_FIELD_REASON. NULL: how the last turn of the session ended, by tp_turn_ending_name(), where that turn did not
   *  complete; else "closed" at a close, "phase" at the end of a phase. */
  const char *reason;
  /** Value: array of texts, at most 1 MiB; TP_FIELD_CHANGED_FILES. Empty: the files that write keys of the form
   *  files/PATH of the session's calls named (tool.h), each once; at most 1,000. */
  tp_text changed_files;
  /** As changed_files, for TP_FIELD_ABILITIES_USED. Empty: the tools whose functions turns of the session have called
   *  since its last session.end, each once; at most 1,000. */
  tp_text abilities_used;
  /** Value: array of maps, at most 1 MiB; TP_FIELD_TASKS_SUMMARY. Empty: the tasks that were created or run for the
   *  session (task.h) since its last session.end, each a map of task_key, ability_id and status: success or failure
   *  of its last run, partial before one; at most 1,000. */
  tp_text tasks_summary;
} tp_session_end;
/** tp_session_close() with fields for the payload of session.end. Where a drain has begun session.end for this session,
 *  the reason is "drained", `end` is not used, and a line is logged.
 *  @param end  NULL: as tp_session_close().
 *  @return TP_OK; TP_ERR_VERSION, TP_ERR_UTF8, TP_ERR_MALFORMED, TP_ERR_TOO_LARGE for what is wrong with end: then the
 *          session was not closed.  Threads: any.  Blocks: as tp_session_close(). */
TP_API tp_status tp_session_close_with(tp_session *session, const tp_session_end *end, void (*on_end)(void *ctx),
                                       void *ctx, tp_fault *fault) TP_MUST_USE;
/** Runs session.end at the end of a logical phase of the session, after the turns in its queue. The session stays
 *  open.
 *  @param end  may be NULL.
 *  @return TP_OK when it was run; as tp_session_close_with(); TP_ERR_FULL, TP_ERR_SHUTDOWN, TP_ERR_NO_MEMORY,
 *          TP_ERR_FORKED; TP_ERR_USAGE from inside a handler or a callback.
 *  Threads: any.  Blocks: while the turns before it run, then up to the phase's own limit. */
TP_API tp_status tp_session_end_phase(tp_session *session, const tp_session_end *end, tp_fault *fault) TP_MUST_USE;
/** tp_session_end_phase() on the engine workers, without waiting.
 *  @param on_end  called once, after session.end, on the thread that owns the turn; may be NULL.
 *  @return as tp_session_end_phase(); TP_ERR_USAGE without engine workers. With anything but TP_OK on_end is not
 *          called.
 *  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_session_end_phase_submit(tp_session *session, const tp_session_end *end, void (*on_end)(void *ctx),
                                             void *ctx, tp_fault *fault) TP_MUST_USE;

/** The options that a session was opened with. Texts live as long as the session; "" where the options had none.
 *  Threads: any, till tp_session_close() is called; after that only threads that run a callback of
 *  tp_runtime_sessions(), or a handler or callback of the session's turns. */
TP_API const char *tp_session_id(const tp_session *session);
TP_API const char *tp_session_tenant(const tp_session *session);
TP_API const char *tp_session_workspace(const tp_session *session);
TP_API const char *tp_session_thread(const tp_session *session);
/** The agent (NULL: none), the runtime, and tp_session_options.data. Threads: as tp_session_id(). */
TP_API tp_agent *tp_session_agent(const tp_session *session);
TP_API tp_runtime *tp_session_runtime(const tp_session *session);
TP_API void *tp_session_data(const tp_session *session);
/** The number of turns that wait for the running one.
 *  @param ret_running  whether a turn, or the session's end, runs; may be NULL.
 *  Threads: as tp_session_id(). */
TP_API size_t tp_session_queue_length(const tp_session *session, bool *ret_running);

/** The open session of this tenant (NULL or "": none) and id, or NULL: there is none, or it was closed. The
 *  pointer is the host's own handle; it stays readable until tp_session_unref(), also when another thread closes it.
 *  Call tp_session_unref() before tp_runtime_free().  Threads: any.  Blocks: no. */
TP_API tp_session *tp_session_find(tp_runtime *runtime, const char *tenant, const char *id);
/** Ends a reference of tp_session_find(); closes nothing. Accepts NULL.  Threads: any. */
TP_API void tp_session_unref(tp_session *session);

/** Receives a session, which is borrowed till the callback returns, also when it is closed meanwhile; false stops the
 *  walk.
 *  Threads: the calling one. */
typedef bool (*tp_session_fn)(void *ctx, tp_session *session);
/** Walks the sessions whose close has not ended, in the order in which they were opened. A session that another thread
 *  opens or closes meanwhile is seen or not; each of the others is seen exactly once. No lock is held while each
 *  runs: it may open and close sessions and submit turns.
 *  @param each  may be NULL.
 *  @return how many there are, or up to the one at which each stopped; 0 in the child of a fork.
 *  Threads: any. each comes on the calling one. */
TP_API size_t tp_runtime_sessions(tp_runtime *runtime, tp_session_fn each, void *ctx);

/* ---- turns ----------------------------------------------------------------------------------------------------- */

/** How a turn ended. */
typedef enum tp_turn_outcome {
  TP_TURN_NONE = 0, /* never in a result */
  TP_TURN_COMPLETED = 1,
  TP_TURN_FAILED = 2,
  TP_TURN_DENIED = 3,
  TP_TURN_CANCELLED = 4,
  TP_TURN_TIMED_OUT = 5,
  TP_TURN_OUTCOME_FORCE_32 = 0x7fffffff
} tp_turn_outcome;

/** The constant's word in small letters: "completed"; "unknown" for any other number. Static text. Threads: any. */
TP_API const char *tp_turn_outcome_name(tp_turn_outcome outcome);
/** One word for how a turn ended, of the outcome and the code of its result or record: "completed", "denied",
 *  "cancelled"; of limits "max_requests", "max_tool_calls", "max_tokens", "max_cost", "max_time", "budget" and
 *  "repeated_call"; "bad_answer"; "error" for any other failure. "unknown" for TP_TURN_NONE and any other number.
 *  Static text. Threads: any. */
TP_API const char *tp_turn_ending_name(tp_turn_outcome outcome, tp_status code);

/** What happens when a turn is submitted whose id the session's history has. A turn that was cancelled or timed out
 *  always runs again: it was stopped from outside, and has no end of its own. */
typedef enum tp_if_exists {
  TP_IF_EXISTS_ANSWER = 0, /* the turn gets the stored result, and no handler, request or tool runs. When its text or
                              files differ from the stored turn's: TP_ERR_EXISTS */
  TP_IF_EXISTS_REFUSE = 1, /* the turn fails with TP_ERR_EXISTS, and nothing runs */
  TP_IF_EXISTS_RUN = 2,    /* the turn runs, and the history then has it twice */
  TP_IF_EXISTS_FORCE_32 = 0x7fffffff
} tp_if_exists;

/** One turn. Copied at begin. Limits: 0 means default. A turn that reaches a limit ends with a code of its own
 *  (TP_ERR_MAX_REQUESTS, TP_ERR_MAX_TOOL_CALLS, TP_ERR_MAX_TOKENS, TP_ERR_MAX_COST, TP_ERR_REPEATED_CALL;
 *  TP_ERR_TIMEOUT with the outcome timed_out), and its messages and results stay in the history. Limits are checked
 *  before each request, and before the calls of each response, which are not run when a limit is reached. So a turn
 *  exceeds its tokens and its cost by at most one request. */
typedef struct tp_turn_request {
  size_t struct_size;
  /** The turn's id; NULL: generated. For a turn that the library drives it is unique in the session's history: see
   *  if_exists. A generated id is not looked up. */
  const char *id;
  /** Further ids. When run is NULL, a turn of a session has its own id there. */
  const char *task, *run;
  const char *mode;
  tp_caller caller;
  /** The user's message, UTF-8. */
  tp_text text;
  /** value: array of str; may be empty. As turn.intake left them they are parts of the user's message
   *  (tp_message.parts), and stay in the history of a turn that completed. */
  tp_text files;
  /** The limit of the turn's duration; 0: 600,000. The steps at the end of every turn have limits of their own:
   *  tool.result, tool.post, the history's append, runtime.error, turn.post_turn. */
  uint32_t limit_ms;
  /** The most model requests; 0: 50. */
  uint32_t iterations_max;
  /** The most tool calls; 0: 1,000. */
  uint32_t tool_calls_max;
  /** The most tokens, input and output together; 0: none. */
  int64_t tokens_max;
  /** The highest cost; 0: none. */
  int64_t cost_micros_max;
  /** The most attempts of one model request; 0: 3. */
  uint32_t model_attempts;
  /** Each piece of tp_model_delta() is an event of its own, in order; false: pieces that come faster than they are
   *  taken are joined. tp_turn_begin() refuses it, as it does the members below. */
  bool each_delta;
  /** tp_if_exists: what happens when the history has the turn's id. TP_ERR_USAGE without id. */
  uint8_t if_exists;
  /** Must be zero. */
  uint8_t reserved_[2];
  /** The host's own pointer: tp_call_data(TP_ID_TURN), tp_turn_data(). */
  void *data;
  /* The members below are for turns that the library drives: tp_turn_begin() refuses them. */
  /** message_count pointers: the whole history of the turn, in place of the session's; `text` follows them and must not
   *  be empty. Roles user, assistant, tool and system; each call of an assistant has exactly one result right after it.
   *  At most 100,000 and 64 MiB. NULL: the session's history. The turn's own exchange is appended to the session's
   *  history all the same; these messages are not. */
  const tp_message *const *messages;
  size_t message_count;
  /** The model name for this turn, in place of the agent's; at most 128 bytes. */
  const char *model_name;
  /** Standing system text for this turn, in place of the agent's; empty: the agent's. */
  tp_text system;
  /** value: a map of at most 1 MiB, for the provider (tp_model_request.parameters) and for turn.post_prompt_compile
   *  (`parameters` in TP_FIELD_REQUEST); empty: none. */
  tp_text parameters;
  /** When the user said the text, Unix milliseconds (UTC), to replay an old conversation: TP_FIELD_SAID_AT of
   *  turn.post_turn, with which the memory dates its entries. Events and records have the time of the replay. From
   *  1973-03-03 (a smaller number is a time in seconds) to five minutes ahead of the machine's clock. 0: the time at
   *  which the turn is submitted. */
  int64_t said_unix_ms;
  /** The id of a caller that is a job (background_job, ci_pipeline), such as a number of tp_call_job_id(), or the id of
   *  a pipeline; read by tp_call_caller_job(). */
  const char *caller_job;
  /** What started the caller: a person, a schedule, a commit; read by tp_call_triggered_by(). At most 128 bytes, as an
   *  id. */
  const char *triggered_by;
  /** Where the turn works, such as dev, staging or prod: tp_call_environment(), and TP_FIELD_ENVIRONMENT of
   *  tool.create. At most 128 bytes, as an id. NULL: the session's; for a nested turn whose session has none, that of
   *  the turn around it. */
  const char *environment;
  /** How often the model may make the same call (the same tool and arguments) in the turn: one more ends it with
   *  TP_ERR_REPEATED_CALL. 0: no limit. */
  uint32_t call_repeats_max;
  /** From this number of equal calls on, a reminder with the results shows the repetition to the model, and a
   *  diagnostic call.repeated shows it to the user; at least 2. 0: from half of call_repeats_max on; never without
   *  it. */
  uint32_t call_repeats_named;
  /** A JSON Schema as JSON text: the turn's final answer is one JSON value that fits it; NULL: any text. The system
   *  text demands it, and the request passes the schema to the provider, if the provider has a way of its own for it
   *  (tp_model_request.answer_schema). White space and a code fence around the value are no part of it. An answer that
   *  does not fit is followed by a message with the reason, which stays in the history, and by another request, up to
   *  answer_attempts. After that the turn ends with TP_ERR_BAD_ANSWER, and it does so at once for an answer that is
   *  cut, filtered or refused. Answers before tool calls, and before a message that is added to the turn, are not
   *  checked. */
  const char *answer_schema;
  /** How many answers in a row may fail to fit; 0: 3. */
  uint32_t answer_attempts;
  /** Must be zero. */
  uint32_t reserved2_;
} tp_turn_request;

/** The result of a turn. Made by the library. */
typedef struct tp_turn_result {
  size_t struct_size;
  tp_turn_outcome outcome;
  tp_status code;
  /** The text of the last response. */
  tp_text text;
  /** Why a turn did not complete, as one sentence: safe to show. */
  tp_text reason;
  tp_text turn_id;
  /* The phase of the subscription that ended the turn; subscription is empty and this is 0 when none did. */
  tp_phase_id phase;
  /** The state of that subscription. TP_STATE_SUCCEEDED: it answered, and denied (a server answers HTTP status 403).
   *  Any other: it is required and did not answer (503). */
  tp_state state;
  /** Why that subscription did not answer: TP_REASON_TIMEOUT, TP_REASON_ERROR, …; NONE: it denied. */
  tp_reason why;
  uint32_t iterations;
  uint32_t tool_calls;
  /** How the last answer of the turn ended, as its MODEL_END has it; UNKNOWN: there was none; STOP also where a hook
   *  ended the turn after its tools. An answer that is cut, filtered or refused completes the turn all the same. */
  tp_finish finish;
  tp_text subscription;
  /** The reason of the subscription, as it was given. */
  tp_text bare_reason;
  int64_t input_tokens, output_tokens, cost_micros;
  /** started_ns is 0 for a turn that never began. */
  int64_t started_ns, ended_ns;
  /** The provider's own word for finish, such as "max_tokens"; may be empty. */
  tp_text finish_word;
  /** Value: the answer of a turn that completed with tp_turn_request.answer_schema; `text` is then its JSON. Empty when
   *  the turn has no schema, and when a hook ended it after its tools. */
  tp_text value;
  /** Set when the result comes from the history and nothing was run (tp_turn_request.if_exists). The times are those of
   *  this submission. If the history does not keep tp_message.ending, finish, tokens and cost are 0, and the code of a
   *  failed turn is TP_ERR_STORE. */
  bool is_stored;
  /** Zero. */
  uint8_t reserved_[7];
  /** With code TP_ERR_BUSY, when a turn of another process has the session: how long that process's lease still lasts.
   *  After that the session is free, unless the lease is renewed. 0: not known. */
  uint64_t retry_ms;
} tp_turn_result;
/** Frees a result of tp_turn_run(). Accepts NULL. Threads: any. Also after tp_runtime_free(). */
TP_API void tp_turn_result_free(const tp_turn_result *result);

/** Runs a turn through every phase, after the turns that are queued in the session. The calling thread runs its steps.
 *  @param ret_result  freed by tp_turn_result_free(); untouched when the turn was not run. May be NULL.
 *  @return whether it was run: TP_OK and a result, whatever its outcome; TP_ERR_FULL, TP_ERR_SHUTDOWN,
 *          TP_ERR_NO_MEMORY; for what is wrong with the request TP_ERR_VERSION, TP_ERR_BAD_ID, TP_ERR_UTF8,
 *          TP_ERR_MALFORMED, TP_ERR_TOO_LARGE and TP_ERR_USAGE; TP_ERR_USAGE from inside a handler or a callback.
 *  Threads: any. Blocks: while the turns before it run, then up to the rest of the turn's limit, which counts from
 *  this call, and the limits of the phases at the end of every turn. */
TP_API tp_status tp_turn_run(tp_session *session, const tp_turn_request *request, const tp_turn_result **ret_result,
                             tp_fault *fault) TP_MUST_USE;

/** Runs one turn in a session of its own and gives the text of its answer: for small programs and tests. Short for
 *  tp_session_open() with a generated id and a history in memory, tp_turn_run() and tp_session_close(). Its session.end
 *  may still run when this returns. A conversation needs a session, which the host opens.
 *  @param model   kept until tp_runtime_free(), and not taken: several calls may use it. After that, tp_model_free()
 *                 frees it.
 *  @param text    the user's message; NULL: empty.
 *  @param answer  gets the text with a NUL. When the text does not fit, it gets the whole characters that do, and the
 *                 status is TP_ERR_TOO_LARGE. Untouched on other failures.
 *  @param size    at least 1.
 *  @return TP_OK when the turn completed and answer has its whole text; TP_ERR_TOO_LARGE when it has a part; else
 *          tp_turn_result.code, such as TP_ERR_DENIED, with the result's reason, phase and subscription in the fault;
 *          as tp_session_open() and tp_turn_run().
 *  Threads: any.  Blocks: as tp_turn_run(). */
TP_API tp_status tp_turn_once(tp_runtime *runtime, const tp_model *model, const char *text, char *answer, size_t size,
                              tp_fault *fault) TP_MUST_USE;
/** tp_turn_once() with a script in place of the model, for a first look at tools and hooks without a network.
 *  @param script  JSON text, as of tp_script_model_decode(). Each call plays it from its start.
 *  @return as tp_turn_once() and tp_script_model_decode().
 *  Threads: any.  Blocks: as tp_turn_run(). */
TP_API tp_status tp_script_play(tp_runtime *runtime, const char *script, const char *text, char *answer, size_t size,
                                tp_fault *fault) TP_MUST_USE;

/** Receives a submitted turn's result, once, on the thread that owns the turn; borrowed till return.
 *  Threads: the one that owns the turn. */
typedef void (*tp_turn_end_fn)(void *ctx, const tp_turn_result *result);
/** A reference to a submitted turn or task (task.h). It stays valid after the end, and may be ended by
 *  tp_submission_unref() after tp_runtime_free(), as long as the runtime's allocator can be used. */
typedef struct tp_submission tp_submission;
/** Queues a turn. While it waits for the turns before it, a cancel or its limit ends it at once: it runs no phase, its
 *  message enters no history, and its end is reported before the ends of those turns.
 *  @param on_end  may be NULL: tp_submission_wait() returns the result, too.
 *  @param ret_submission  to wait for the turn or to cancel it; ended by tp_submission_unref(). May be NULL.
 *  @return as tp_turn_run(); with anything but TP_OK on_end is not called. Threads: any. Blocks: no. */
TP_API tp_status tp_turn_submit(tp_session *session, const tp_turn_request *request, tp_turn_end_fn on_end, void *ctx,
                                tp_submission **ret_submission, tp_fault *fault) TP_MUST_USE;
/** Waits until the turn has ended and its on_end has returned.
 *  @param limit_ms  0: does not wait.
 *  @param ret_result  valid till tp_submission_unref(); untouched unless TP_OK. May be NULL; of a task it must be.
 *  @return TP_OK; TP_ERR_TIMEOUT when the turn has not ended; TP_ERR_USAGE from inside a handler or a callback, unless
 *          limit_ms is 0, and for ret_result of a task; TP_ERR_FORKED.
 *  Threads: any, several at once. Blocks: up to limit_ms. */
TP_API tp_status tp_submission_wait(tp_submission *submission, uint32_t limit_ms, const tp_turn_result **ret_result,
                                    tp_fault *fault) TP_MUST_USE;
/** Sets the turn's deadline to now. Does nothing when the turn has ended. Accepts NULL. Threads: any. Blocks: no. */
TP_API void tp_submission_cancel(tp_submission *submission);
/** Cancels one tool call of the current response, or all its calls; the turn goes on with their results. A call without
 *  a result ends as TP_TOOL_CANCELLED: its function is cancelled and abandoned, also one that has deferred or waits in
 *  an inbox; a question about it is closed, and its gates end. When the function was called, tool.result and tool.post
 *  are run. A call that has its result keeps it. When there is nothing to cancel a line is logged.
 *  @param call_id  tp_tool_result.call_id; empty: all. Copied.
 *  @return TP_OK: the cancel was submitted; TP_ERR_STALE when the turn has ended; TP_ERR_NO_MEMORY; TP_ERR_USAGE
 *          without a submission; TP_ERR_FORKED.
 *  Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_submission_cancel_calls(tp_submission *submission, tp_text call_id, tp_fault *fault);

/** A message of the user for a turn that is under way. Copied; one of text and files may be empty. */
typedef struct tp_added_message {
  size_t struct_size;
  /** UTF-8. */
  tp_text text;
  /** value: array of str, as tp_turn_request.files. Together with text at most 16 MiB. */
  tp_text files;
} tp_added_message;

/** Adds a message of the user to a turn (steering). It enters the turn before the turn's next request to a model, after
 *  the messages that were added before it, and stays in the history. Before it enters, turn.intake is run for it, as
 *  for the turn's own text: it may replace text and files, and its signals are in the next request, before the last
 *  message that entered. Where that phase denies, also for a required handler that fails, the message is left out, and
 *  the turn goes on; the diagnostic message.denied has the reason.
 *  - A turn that waits or has not come to its first request takes the message before that request.
 *  - A turn whose answer is coming, or complete, makes another request, within its limits, and turn.stop is run only
 *    after that. A turn that a handler of tool.batch ends makes no such request.
 *  - A message that is added while a provider pauses enters the turn after the provider has gone on and ended its
 *    answer.
 *  - When a turn is cancelled, fails or reaches a limit, messages that have not entered are in the history before its
 *    end mark, without their files. If turn.intake has subscriptions, these have not seen the messages, so no model
 *    reads them.
 *  - When a turn never begins, its added messages are dropped, as its text is.
 *  TP_EVENT_MESSAGE reports what has become of each message, and the turn's record has a step for each. A message does
 *  not go to nested turns of the turn's calls: add it through their submission or session.
 *  @param turn_id  the id of a turn of this session that runs or waits; NULL: the turn that runs.
 *  @return TP_OK: the turn has it; TP_ERR_STALE: there is no such turn, or it is ending and takes no more messages:
 *          submit a turn instead; TP_ERR_FULL when 64 messages wait for the turn; TP_ERR_TOO_LARGE; TP_ERR_UTF8,
 *          TP_ERR_MALFORMED, TP_ERR_VERSION; TP_ERR_USAGE for one without text and files; TP_ERR_NO_MEMORY;
 *          TP_ERR_FORKED.
 *  Threads: any, till tp_session_close() is called.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_turn_add_message(tp_session *session, const char *turn_id, const tp_added_message *message,
                                     tp_fault *fault) TP_MUST_USE;
/** tp_turn_add_message() for a submitted turn.
 *  @return as tp_turn_add_message(); TP_ERR_USAGE also for the submission of a task.
 *  Threads: any, also after the turn has ended.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_submission_add_message(tp_submission *submission, const tp_added_message *message,
                                           tp_fault *fault) TP_MUST_USE;

/** Ends the submitter's reference, and frees the result with it; the turn is not cancelled. Accepts NULL. Threads: any,
 *  also from on_end and after tp_runtime_free(). */
TP_API void tp_submission_unref(tp_submission *submission);

/* ---- nested turns ---------------------------------------------------------------------------------------------- */

/** Runs a turn of another session from a handler or tool (a subagent), and waits for it. The nested turn
 *  - passes every phase and gate and leaves records as any turn does;
 *  - has the agent, history and people of its session;
 *  - uses the registrations with which the turn of the call began;
 *  - does not count against tp_runtime_options.turns_running_max;
 *  - ends at the latest with the call's deadline, also while a person is asked, and is cancelled with the call.
 *  Turns nest four deep: a turn, and four below it. While the call waits it holds neither one of the handler_threads
 *  nor a permit of its subscription or tool, so that the nested turn may use them. The call gets both again before this
 *  function returns, and may wait for them.
 *  @param call     of a handler of placement thread, on its own thread, that has not deferred.
 *  @param session  of the same runtime. Its queued turns run first, as with tp_turn_run(). When turns of two
 *                  sessions wait for each other, both waits end at the deadlines of their calls.
 *  @param request  as tp_turn_run().
 *  @param ret_result  freed by tp_turn_result_free(); untouched when the turn was not run. May be NULL.
 *  @return whether it was run, as tp_turn_run(). TP_ERR_TOO_DEEP; TP_ERR_CANCELLED when the call was cancelled;
 *          TP_ERR_FULL also where 1,024 calls of the runtime wait in this function; TP_ERR_USAGE from a call that may
 *          not wait, for a session of another runtime and for one whose own turn waits for this call.
 *  Threads: that of the call.  Blocks: up to the call's deadline. */
TP_API tp_status tp_call_run_turn(tp_call *call, tp_session *session, const tp_turn_request *request,
                                  const tp_turn_result **ret_result, tp_fault *fault) TP_MUST_USE;
/** tp_call_run_turn() for a run of a tool. Threads: that of the run. */
TP_API tp_status tp_tool_run_turn(tp_tool_run *run, tp_session *session, const tp_turn_request *request,
                                  const tp_turn_result **ret_result, tp_fault *fault) TP_MUST_USE;
/** tp_call_run_turn() and tp_tool_run_turn() without waiting, for calls that defer, are inline or come from an inbox.
 *  on_end gets the result, and may complete the call's token. The nested turn ends at the call's deadline. To end it
 *  when the call is cancelled, the host's tp_deferral.cancel calls tp_submission_cancel(). A call that defers returns
 *  its permit when its function ends, also where max_concurrent counts deferred runs, so that the nested turn may use
 *  it; it takes no other permit. A call from an inbox keeps its permit meanwhile.
 *  @return as tp_turn_submit() and tp_call_run_turn().
 *  Threads: that of the call, as long as its function runs; of an inbox, until its token is completed.  Blocks: no. */
TP_API tp_status tp_call_submit_turn(tp_call *call, tp_session *session, const tp_turn_request *request,
                                     tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission,
                                     tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_tool_submit_turn(tp_tool_run *run, tp_session *session, const tp_turn_request *request,
                                     tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission,
                                     tp_fault *fault) TP_MUST_USE;
/** tp_tool_submit_turn() after the tool's function has returned: for a turn that is needed in the middle of a call that
 *  has deferred, or that was taken from an inbox. The call keeps its permit.
 *  @param token  of a call of a tool.
 *  @return as tp_tool_submit_turn(); TP_ERR_STALE when the token was completed or the call given up; TP_ERR_USAGE for a
 *          token of something else.
 *  Threads: any, at any time.  Blocks: no. */
TP_API tp_status tp_tool_submit_turn_late(tp_token token, tp_session *session, const tp_turn_request *request,
                                          tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission,
                                          tp_fault *fault) TP_MUST_USE;
/** In a nested turn: the id of the turn whose call runs this turn; else empty. It is empty in a background job: a job
 *  that runs turns must prevent by other means that these turns store the same job again and again. Borrowed until the
 *  handler returns.
 *  Threads: that of the call. */
TP_API tp_text tp_call_parent_turn(const tp_call *call);
/** tp_call_parent_turn() for a match. Threads: that of the match. */
TP_API tp_text tp_match_parent_turn(const tp_match_view *view);

/* ---- phases alone ---------------------------------------------------------------------------------------------- */

/** For hosts that drive turns themselves: begins a turn, of a session or of none, and runs no phase. The turn takes one
 *  operation at a time. The events of a turn of a session go to the listeners that the session had when the turn began,
 *  until the turn ends, also when the session is closed before. The policies and prompt contexts that its phases
 *  contribute are kept until its end, at most 64 MiB.
 *  @return TP_OK; TP_ERR_FULL at turns_max; TP_ERR_VERSION, TP_ERR_BAD_ID, TP_ERR_UTF8; what tp_value_check() returns
 *          for files; TP_ERR_NO_MEMORY, TP_ERR_SHUTDOWN, TP_ERR_FORKED, and what tp_runtime_start() returns.
 *  Threads: any. */
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
/** Ends a begun turn and frees its phase and tool results. No operation may be under way. Accepts NULL. While an
 *  attempt of a cancelled or late run has not returned, the turn's last records are not given to the store:
 *  tp_runtime_drain() waits for them.
 *  Threads: one at a time; the last call of the turn. */
TP_API void tp_turn_end(tp_turn *turn);

/** The turn's id, the request's or a generated one; borrowed till tp_turn_end(). Threads: one at a time, while no
 *  submitted operation of the turn is under way; or a callback or handler of the turn. */
TP_API tp_text tp_turn_id(tp_turn *turn);
/** The session (the host's handle, which must not be used after its close; NULL for a bare turn), the runtime, and
 *  tp_turn_request.data. Threads: any, till tp_turn_end(). */
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
  uint32_t budget_ms; /* the budget of this entry; 0: the phase's */
  uint32_t reserved_; /* must be zero */
} tp_phase_input;

/** What the handlers of an entry contributed and replaced, merged; read by tp_merged_get() and its like. */
typedef struct tp_merged tp_merged;

/** The result of an entry. The caller sets struct_size; of a longer struct of a newer program only the fields that this
 *  library has are filled, and struct_size is set to the size that was filled. Its pointers are valid until
 *  tp_turn_end() or tp_phase_result_release(). */
typedef struct tp_phase_result {
  size_t struct_size;
  /** TP_OK, TP_ERR_DENIED, TP_ERR_HOOK (failed closed), TP_ERR_CANCELLED; of a submitted phase that could not be
   *  run TP_ERR_NO_MEMORY, run_count 0. */
  tp_status outcome;
  /** The strictest verdict of the handlers. */
  tp_verdict verdict;
  /** The subscription that denied, asked or failed; NULL: none. */
  const char *subscription;
  /** The reason as the subscription gave it, or the name of `why`. */
  tp_text reason;
  /** The state of the run of `subscription`: TP_STATE_SUCCEEDED when it answered (it denied or asked), any other when
   *  it did not answer; NONE when there is no subscription. */
  tp_state state;
  /** Why it did not answer: TP_REASON_TIMEOUT, TP_REASON_ERROR, …; NONE: it answered. */
  tp_reason why;
  /** How many subscriptions the phase has. */
  uint32_t run_count;
  uint32_t reserved_;
  /** NULL when nothing was contributed or replaced. */
  const tp_merged *merged;
  /** Internal; NULL for an empty phase. */
  void *entry;
} tp_phase_result;

/** Runs a phase; the calling thread runs its inline handlers. For a phase without subscriptions only the payload is
 *  checked, and nothing is run.
 *  TP_ERR_BUSY means that an operation of the turn is under way, which was submitted or which another thread has begun.
 *  Two threads that begin at the same moment are not detected, since that would cost each phase a locked instruction.
 *  @param input  NULL: an empty payload.
 *  @return whether it was run: TP_OK and *ret_result; TP_ERR_UNKNOWN_PHASE, TP_ERR_BUSY, TP_ERR_NO_MEMORY,
 *          TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_FORKED; TP_ERR_SHUTDOWN when the limit of a drain is over.
 *  Threads: one at a time.  Blocks: up to the entry's deadline. */
TP_API tp_status tp_phase_run(tp_turn *turn, tp_phase_id phase, const tp_phase_input *input,
                              tp_phase_result *ret_result, tp_fault *fault) TP_MUST_USE;
/** Receives the end of a submitted phase; the result as that of tp_phase_run(). Threads: the one that owns the turn. */
typedef void (*tp_phase_end_fn)(void *ctx, const tp_phase_result *result);
/** Runs a phase on the engine workers; on_end may begin the next operation of the turn, or end the turn.
 *  @param on_end  required: TP_ERR_USAGE without it, since the end of the phase is not notified in any other way.
 *  @return as tp_phase_run(); with anything but TP_OK nothing was begun.
 *  Threads: one at a time. */
TP_API tp_status tp_phase_submit(tp_turn *turn, tp_phase_id phase, const tp_phase_input *input, tp_phase_end_fn on_end,
                                 void *ctx, tp_fault *fault) TP_MUST_USE;
/** Frees the memory of a result before the turn ends, and zero-fills the result except struct_size. Does nothing for a
 *  result without entry. Calls no function of the host.
 *  In a callback or handler that the turn's owner runs for a submitted operation of the turn the memory is freed at
 *  once; in any other callback or handler it stays until the turn's end.
 *  Threads: one at a time, of those that may begin an operation of the turn; any callback, any handler.
 *  Blocks: until the thread that ran the turn's last operation no longer owns the turn; never in a handler or a
 *  callback of a turn. */
TP_API void tp_phase_result_release(tp_turn *turn, tp_phase_result *result);

/** Makes the row of a subscription, in plan order. The first call makes all rows, in the memory of the result; they are
 *  valid as long as the result. Threads: one at a time for each result.
 *  @return NULL when index is not below run_count, and without memory. */
TP_API const tp_run_record *tp_phase_result_run(const tp_phase_result *result, uint32_t index);

/** A merged contribution and its origin. Made by the library. */
typedef struct tp_merged_entry {
  size_t struct_size;
  const tp_contribution *contribution;
  const char *subscription;
  const char *owner;
  uint32_t attempt;
  uint32_t reserved_;
} tp_merged_entry;

/** The merged contributions of one kind (0: of all kinds), in merged order; diagnostics of the merge are among
 *  TP_CONTRIBUTION_DIAGNOSTIC. Lives as long as the result; NULL when index is not below the count.
 *  Threads: one at a time for each result. */
TP_API size_t tp_merged_count(const tp_merged *merged, tp_contribution_kind kind);
TP_API const tp_merged_entry *tp_merged_get(const tp_merged *merged, tp_contribution_kind kind, size_t index);
/** A payload field as the chain left it (replaced or not); empty / 0 when there is none.
 *  Threads: one at a time for each result. */
TP_API tp_text tp_merged_text(const tp_merged *merged, tp_field_id field);
TP_API bool tp_merged_replaced(const tp_merged *merged, tp_field_id field);
/** Writes the canonical bytes of the merged result to the writer: they are equal for equal plans, payloads and attempt
 *  outcomes, whatever the number of threads. @param merged  NULL: nothing was merged. Threads: one at a time for each
 *  result. */
TP_API tp_status tp_merged_write(const tp_merged *merged, tp_writer *writer) TP_MUST_USE;

/* ---- tools ------------------------------------------------------------------------------------------------------ */

/** Dispatches the calls of one response concurrently, each through its gates, with the tools that this turn's
 *  turn.pre_tool_materialization has contributed.
 *  @param calls  count pointers; borrowed till return; each struct is read by its struct_size.
 *  @param ret_results  count pointers: (*ret_results)[i] is the result of calls[i]; they live till tp_turn_end().
 *  @return whether the calls were run, as tp_phase_run().
 *  Threads: one at a time. */
TP_API tp_status tp_tools_run(tp_turn *turn, const tp_tool_call *const *calls, size_t count,
                              const tp_tool_result *const **ret_results, tp_fault *fault) TP_MUST_USE;
/** Receives the results of submitted calls. Threads: the one that owns the turn. */
typedef void (*tp_tools_end_fn)(void *ctx, const tp_tool_result *const *results, size_t count);
/** tp_tools_run() on the engine workers, without waiting. on_end is required and is called once, as that of
 *  tp_phase_submit(). results[i] is the result of calls[i]; they are valid until tp_turn_end().
 *  @param calls  borrowed until this returns: they are copied.
 *  @return as tp_phase_submit(); with anything but TP_OK nothing was begun.
 *  Threads: one at a time. */
TP_API tp_status tp_tools_submit(tp_turn *turn, const tp_tool_call *const *calls, size_t count, tp_tools_end_fn on_end,
                                 void *ctx, tp_fault *fault) TP_MUST_USE;
/** tp_tools_submit() without a copy of the calls. It saves time for many calls and for long arguments. A tool's
 *  function reads a copy where it may outlive its call.
 *  @param calls  borrowed until on_end is called: the list, the structs and everything they point to must not change
 *                before.
 *  @return as tp_tools_submit().
 *  Threads: one at a time, while no other operation of the turn is under way.  Blocks: no. */
TP_API tp_status tp_tools_submit_borrowed(tp_turn *turn, const tp_tool_call *const *calls, size_t count,
                                          tp_tools_end_fn on_end, void *ctx, tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
