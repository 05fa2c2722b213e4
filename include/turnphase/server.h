/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h: the library turnphase-server: an HTTP server over a runtime, for clients that exist already: only their
 * base URL changes, and their requests become turns with guards, memory, tools and records. It speaks the API of
 * OpenAI:
 *
 *   POST /v1/chat/completions    one answer, or a stream
 *   POST /v1/responses           likewise, and a response continues an earlier one
 *   GET  /v1/models              the agents of the runtime
 *   GET  /health/live, /health/ready, /health
 *   GET  /metrics                what Prometheus reads
 *   GET  /admin, /admin/…        for operators, with a key of their own
 *   POST, GET, DELETE  /mcp      for clients of MCP, with tp_server_options.mount
 *
 * The field `model` of a request names an agent. Without a session, the messages of a request are the whole
 * conversation. With the header X-Session-Id it belongs to the session of that id and of the key's tenant: then a
 * request with one message of the user continues the session's history, and a request with more messages has its own
 * history.
 *
 * The pointer of a turn (tp_call_data() with TP_ID_TURN) is the server's own in turns of its clients: so a host whose
 * handlers read the pointer of its own turns must look at the session first.
 *
 * The limits of an agent's turns are in its config (tp_agent_config.extra): `limits`, a map of whole numbers above 0:
 * requests, tool_calls, tokens, cost_micros, time_ms, repeats, as the limits of tp_turn_request. time_ms comes before
 * turn_limit_ms; a client's max_tool_calls can only make tool_calls smaller. A map that cannot be read refuses every
 * turn of its agent (500).
 *
 * A client that leaves cancels its turn. docs/serve.md has every field and every status that a client meets. One thread
 * serves all connections; no request has a thread. Threads: any, but for what a function says. */
#ifndef TURNPHASE_SERVER_H
#define TURNPHASE_SERVER_H

#include "turnphase/inspect.h"
#include "turnphase/store.h"
#include "turnphase/turn.h"

TP_BEGIN_DECLS

typedef struct tp_server tp_server;

/** A key of clients. It is passed by pointer, in lists of pointers; strings are copied. */
typedef struct tp_server_key {
  size_t struct_size;
  /** At least 16 characters, which the client sends as Authorization: Bearer KEY. */
  const char *key;
  /** The tenant of the sessions of its clients; NULL: tp_server_options.tenant. */
  const char *tenant;
} tp_server_key;

/** A request of a client that has ended: the data of a line of an access log, and nothing of the content of the request
 *  or its answer. struct_size is set by the library; borrowed until the callback returns. */
typedef struct tp_server_request {
  size_t struct_size;
  /** The wall clock when the first line of the request was read. */
  int64_t unix_ms;
  /** From that moment until the answer, or its stream, began (-1: it never did); and until the last byte was passed to
   *  the system, or the client had left. */
  int64_t answered_ns, duration_ns;
  /** The bytes of the bodies of the request and of its answer. */
  uint64_t bytes_in, bytes_out;
  /** The status that was sent; 0: the client left before. */
  uint32_t status;
  /** The client left before the end of the answer. What was ready by then was sent nevertheless. */
  bool left;
  bool streams;
  uint8_t reserved_[2];
  /** The path of a route, "" for a path that is none; and the tenant of the request's key, or empty. */
  const char *route, *tenant;
  /** Of a request that became a turn, or continues one; else empty: the id that the client reads; the ids of the turn,
   *  its session and its agent; and the name that the client gave for the model. */
  tp_text id, turn_id, session, agent, model;
  /** The tokens of the turn's requests to models, as far as this answer reports them in its usage. */
  int64_t input_tokens, output_tokens;
} tp_server_request;
/** Receives a request that has ended. It must return within microseconds, and must not block: all connections wait
 *  for it. Threads: that of the connections, and the one in tp_server_free(); never two at once. */
typedef void (*tp_server_request_fn)(void *ctx, const tp_server_request *request);

/** A request that is about to become a turn. Borrowed until the callback returns. */
typedef struct tp_server_begin {
  size_t struct_size;
  /** By TP_ID_*: tenant, agent, session and turn; the others are empty. */
  const tp_text *ids;
  uint32_t id_count;
  uint32_t reserved_;
  /** The header traceparent as the client has sent it; or empty. */
  tp_text traceparent;
} tp_server_begin;
/** Is called right before a turn of a client is submitted, such as for tp_traces_begin(). It must return within
 *  microseconds, and must not block.   Threads: that of the connections. */
typedef void (*tp_server_begin_fn)(void *ctx, const tp_server_begin *begin);

/** Zero means default. Strings are copied. */
typedef struct tp_server_options {
  size_t struct_size;
  /** A numeric address; NULL: 127.0.0.1. An address that other machines reach needs keys. */
  const char *address;
  /** 0: any free port, which tp_server_port() returns. */
  uint32_t port;
  /** Every request needs a key, though keys is empty. */
  bool keys_required;
  /** A client that leaves does not cancel its turn. */
  bool goes_on;
  uint8_t reserved_[2];
  /** key_count pointers; none: every client of the address may call. */
  const tp_server_key *const *keys;
  size_t key_count;
  /** The tenant of sessions whose key names none; NULL: none. */
  const char *tenant;
  /** The environment of sessions, as tp_session_options.environment; NULL: none. */
  const char *environment;
  /** The agent of requests whose `model` is no agent's name; NULL: they are refused. */
  const char *default_agent;
  /** How long a turn takes at most; 0: the runtime's default. */
  uint32_t turn_limit_ms;
  /** The most sessions of clients that are open at once; 0: 10,000. For a new session, the one that was not used for
   *  the longest time is closed; when all are in use, the request is refused. */
  uint32_t sessions_max;
  /** The most bytes of the body of a request; 0: 33,554,432. */
  size_t body_bytes_max;
  /** The most connections at once; 0: 16,384. Later clients wait. */
  uint32_t connections_max;
  /** How long a request may take to arrive; 0: 30,000. */
  uint32_t receive_limit_ms;
  uint32_t reserved2_;
  /** The history of the sessions of clients; referenced. NULL: the runtime's. */
  tp_shared_history *shared_history;
  /** Called for each request whose head was read, after its end; NULL: none. */
  tp_server_request_fn on_request;
  /** TP_ERR_USAGE without on_request. */
  void *on_request_ctx;
  /** The key of those who operate the server: at least 16 characters. With it /admin is there: turns, questions,
   *  denials, jobs, the plan, a stream of events, what operators do, and a page for a browser (docs/serve.md). NULL:
   *  /admin is not there, and GET /metrics answers where clients need no key, and is refused elsewhere. */
  const char *admin_key;
  /** A TCP socket that listens, such as one of systemd, in place of address and port: TP_ERR_USAGE with either. It is
   *  duplicated: the host closes its own descriptor. An address that other machines reach needs keys here, too. 0:
   *  none. */
  int32_t socket;
  uint32_t reserved3_;
  /** Called for each turn of a client, before it begins; NULL: none. */
  tp_server_begin_fn on_begin;
  /** TP_ERR_USAGE without on_begin. */
  void *on_begin_ctx;
  /** For sessions of clients, as tp_session_options.busy and busy_wait_ms: a request whose session is in use by a turn
   *  of another process is refused (409, with the rest of that process's lease as Retry-After), or waits. TP_BUSY_WAIT
   *  needs a history that is shared. TP_ERR_USAGE for any other number, and for busy_wait_ms without TP_BUSY_WAIT. */
  uint32_t busy, busy_wait_ms;
  /** Answers /mcp on this port, for clients that have a key: tp_mcp_server_mount(). What it runs has the tenant of the
   *  client's key, the environment, and a session for each key; it ends with the turns of tp_server_free(), after which
   *  its own library frees it. TP_ERR_VERSION for a mount of a library of another version; TP_ERR_USAGE for one that
   *  has a server. NULL: /mcp is not there. */
  tp_mount *mount;
} tp_server_options;

/** Starts a server.
 *  @param runtime  kept until tp_server_free(). Agents, handlers and tools may be added and removed meanwhile.
 *  @param options  NULL: the defaults.
 *  @return TP_OK; TP_ERR_USAGE for an address that is none, one of another machine without keys, a key that is too
 *          short; TP_ERR_IO when it cannot listen there; TP_ERR_NO_THREAD; TP_ERR_NO_MEMORY; TP_ERR_VERSION.
 *  Threads: any. */
TP_API tp_status tp_server_start(tp_runtime *runtime, const tp_server_options *options, tp_server **ret_server,
                                 tp_fault *fault) TP_MUST_USE;
/** The port on which it listens. Threads: any. */
TP_API uint32_t tp_server_port(const tp_server *server);
/** The numeric address that it listens on; lives as long as the server. Threads: any. */
TP_API const char *tp_server_address(const tp_server *server);
/** Prints the state as one JSON object, as GET /admin/state has it, and a newline. Accepts NULL: nothing is printed.
 *  @param print  required; called on the calling thread, under no lock.
 *  @return TP_OK; TP_ERR_USAGE without print; TP_ERR_NO_MEMORY.   Threads: any. */
TP_API tp_status tp_server_print(tp_server *server, tp_print_fn print, void *ctx) TP_MUST_USE;
/** The settings that a server has from now on, in place of its earlier ones: tp_server_revise(). Strings are copied. */
typedef struct tp_server_revision {
  size_t struct_size;
  /** As in tp_server_options, with the same demands. */
  const tp_server_key *const *keys;
  size_t key_count;
  const char *default_agent;
  /** NULL if the server began without a key of operators, and only then. */
  const char *admin_key;
  /** Does the host's own part, such as tp_agents_change() and a commit of hooks; NULL: there is none. It is called on
   *  the thread of the connections: no request of a client begins a turn meanwhile, and streams wait for it. With any
   *  other status than TP_OK nothing of the revision takes effect. */
  tp_status (*apply)(void *ctx, tp_fault *fault);
  void *ctx;
} tp_server_revision;
/** Changes the settings of a running server at one moment: a request has the keys, the agents and the hooks from before
 *  the change or those from after it.
 *  @return TP_OK; TP_ERR_USAGE for keys that tp_server_start() refuses, and for an admin_key that comes or goes; what
 *          apply returns; TP_ERR_NO_MEMORY; TP_ERR_VERSION.
 *  Threads: any, one call at a time; not from a callback of the server, and not at the same time as tp_server_free().
 *  Blocks: while apply runs. */
TP_API tp_status tp_server_revise(tp_server *server, const tp_server_revision *revision, tp_fault *fault) TP_MUST_USE;
/** Notes for operators how a revision ended: the state (GET /admin/state, tp_server_print()) shows the time as
 *  `revised_ms`, and the reason of a refusal as `revision_refused`. Accepts NULL for the server.
 *  @param refused  the reason of a refusal; copied, up to 1,023 bytes; NULL: the revision was made.   Threads: any. */
TP_API void tp_server_note_revision(tp_server *server, const char *refused);
/** Begins the end of a server: it reports that it is not ready, and refuses new turns (503); turns that run go on. So a
 *  load balancer can send clients elsewhere before tp_server_free(). Accepts NULL.  Threads: any. */
TP_API void tp_server_drain(tp_server *server);
/** Accepts nothing new, waits until the turns have ended, at most limit_ms, then cancels them; closes its sessions and
 *  frees the server. Before the runtime is drained and freed; not from a callback. Accepts NULL.
 *  Threads: any.  Blocks: up to limit_ms, and then until turns and sessions have ended. */
TP_API void tp_server_free(tp_server *server, uint32_t limit_ms);

TP_END_DECLS
#endif
