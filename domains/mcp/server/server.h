/* SPDX-License-Identifier: Apache-2.0
 *
 * server: the parts of a server of the protocol (turnphase/mcp_server.h).
 *
 *   sink      where messages go: the output of stdio, or one HTTP request (stdio.c, web.c)
 *   session   what a client of a version with a handshake has said of itself
 *   exchange  one request of a client until its answer: what it says, and its sink
 *   call      what the host works on: a task, a prompt, a resource. Its exchange is replaced when the client repeats
 *             the request with what it was asked for; meanwhile the call is parked, without one (call.h)
 *
 * dispatch.c has the methods, tasks.c those of the extension for tasks, content.c what a task's result becomes, state.c
 * the protected state of a parked call, kept.c what of it outlives the process.
 * Locks: one of the server for calls, sessions, lists and the work queue; one for each sink. No callback of the host is
 * called under them. Threads: those of the transports, and one of the server for what may block. */
#ifndef TP__MCP_SERVER_H
#define TP__MCP_SERVER_H

#include "domains/mcp/changed.h"
#include "domains/mcp/message.h"
#include "support/lock.h"
#include "support/references.h"
#include "turnphase/mcp_server.h"

enum {
  TP__MCP_CALLS_MAX = 4096,
  TP__MCP_PARKED_MAX = 1024,
  TP__MCP_SESSIONS_MAX = 1024,
  TP__MCP_MESSAGE_BYTES_MAX = 8 << 20,
  TP__MCP_PAGE_ITEMS = 200,
  TP__MCP_PARKED_MS = 600000,
  TP__MCP_TASK_MS = 3600000, /* that a task is kept, from its beginning */
  TP__MCP_SESSION_IDLE_MS = 3600000,
  TP__MCP_PRINCIPAL_BYTES = 80,
  TP__MCP_ABOUT_BYTES = 33
};

/** What a client can. */
enum tp__mcp_can {
  TP__MCP_CAN_FORM = 1,
  TP__MCP_CAN_URL = 2,
  TP__MCP_CAN_SAMPLE = 4,
  TP__MCP_CAN_ROOTS = 8,
  TP__MCP_CAN_TASKS = 16 /* the extension; of requests with _meta only */
};

typedef struct tp__mcp_sink tp__mcp_sink;
struct tp__mcp_sink {
  tp__references refs;
  /** A message of the server: a notification or request; or with is_last the answer of one exchange, with its HTTP
   *  status. May be dropped when nothing reads it. */
  void (*send)(tp__mcp_sink *sink, tp_text json, bool is_last, unsigned status);
  /** An exchange ends without an answer. */
  void (*drop)(tp__mcp_sink *sink);
  void (*free)(tp__mcp_sink *sink);
  bool can_stream; /* messages before the answer reach the client */
};

/** Of a version with a handshake. Under the server's lock, but for what never changes. */
typedef struct tp__mcp_server_session {
  tp__references refs;
  char id[33]; /* of HTTP; "" for stdio */
  char principal[TP__MCP_PRINCIPAL_BYTES];
  tp_mcp_version version;
  unsigned can;
  int log_level;
  int64_t used_ms;
  tp__mcp_sink *stream; /* of messages that belong to no request; NULL: none */
  struct tp__mcp_server_session *next;
} tp__mcp_server_session;

/** Belongs to one thread, or to its call. */
typedef struct tp__mcp_exchange {
  tp_mcp_server *server;
  tp__mcp_sink *sink;
  tp__mcp_server_session *session; /* NULL: of a version without */
  tp_mcp_version version;
  tp_writer *writer; /* has what the next ones point to */
  tp_text id, method, params;
  tp__mcp_meta meta;
  unsigned can;
  int log_level; /* the least that is sent; 8: none */
  char principal[TP__MCP_PRINCIPAL_BYTES];
} tp__mcp_exchange;

typedef enum tp__mcp_work_kind { TP__MCP_WORK_TOOLS, TP__MCP_WORK_HOST } tp__mcp_work_kind;
typedef struct tp__mcp_work {
  tp__mcp_work_kind kind;
  tp__mcp_exchange *exchange; /* of TOOLS; may be NULL: only a refresh */
  tp_mcp_call *call;          /* of HOST */
  struct tp__mcp_work *next;
} tp__mcp_work;

/** A stream of subscriptions/listen. */
typedef struct tp__mcp_listener {
  tp__mcp_exchange *exchange;
  bool tools, prompts, resources;
  struct tp__mcp_listener *next;
} tp__mcp_listener;

struct tp_mcp_server {
  /* never change */
  tp_runtime *runtime;
  tp_mcp_server_options options;
  char *name, *version, *instructions;
  char **keys, **origins;
  unsigned char secret[32]; /* of the states */
  char *states;             /* the directory of those that were used; NULL: none */
  tp__mcp_sink *stdio;      /* NULL: none */
  void *web;                /* of web.c; NULL: none */
  pthread_t worker;
  bool worker_runs;
  uint64_t hears_id; /* of the listener for progress */
  tp__mcp_watch watch;
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  bool hears; /* that listener is there, or may be called still */
  tp_mcp_call *calls;
  size_t call_count, parked_count;  /* of the calls in the list */
  size_t live_count;                /* and those that are out of it, and are answered still */
  tp__mcp_server_session *sessions; /* those of HTTP */
  size_t session_count;
  tp__mcp_server_session *stdio_session; /* NULL: not initialized */
  tp__mcp_listener *listeners;
  tp__mcp_work *first_work, *last_work;
  bool refreshes;     /* a refresh is in that queue: another one would find the same */
  tp__bytes tools;    /* value: what tools/list returns */
  tp__bytes lists[4]; /* values, by tp_mcp_list */
  int64_t next_request;
  int64_t sweep_ms; /* when the worker looks at what waits */
  bool stops, ends; /* stops: calls that end broadcast `changed` */
};

/* ---- server.c ---- */

void tp__mcp_sink_ref(tp__mcp_sink *sink);
void tp__mcp_sink_unref(tp__mcp_sink *sink);
void tp__mcp_server_session_unref(tp__mcp_server_session *session);
/** 32 hexadecimal digits and a NUL. @return false: there is no randomness. */
bool tp__mcp_random(char ret_text[33]);
/** Queues what may block; the item is taken. @return false: there is no memory, and who waits for it was told. */
bool tp__mcp_work_add(tp_mcp_server *server, tp__mcp_work_kind kind, tp__mcp_exchange *exchange, tp_mcp_call *call);
/** The name that gates see of the tool that a client names, empty for one that is not offered; ret_schema gets the
 *  tool's schema; ret_has_output whether it is listed with an outputSchema. Each may be NULL.
 *  @return false without memory. */
bool tp__mcp_tool_find(tp_mcp_server *server, tp_text name, tp__bytes *ret_name, tp__bytes *ret_schema,
                       bool *ret_has_output);
/** Begins nothing new, waits until the calls have ended, at most until then, and cancels the rest. */
void tp__mcp_server_end_calls(tp_mcp_server *server, int64_t until_ms);
/** Notifies every client that a list has changed: "tools", "prompts", "resources". */
void tp__mcp_notify_changed(tp_mcp_server *server, const char *list);

/* ---- dispatch.c ---- */

/** A message of a client, read from a packet. The writer is the exchange's from here on where true is returned.
 *  @param session  NULL: none yet, or a version without.
 *  @return whether the writer was taken. */
bool tp__mcp_dispatch(tp_mcp_server *server, tp__mcp_sink *sink, tp__mcp_server_session *session, const char *principal,
                      const tp__mcp_message *message, tp_writer *writer);
/** The messages of a batch, each as tp__mcp_dispatch(). */
void tp__mcp_dispatch_batch(tp_mcp_server *server, tp__mcp_sink *sink, tp__mcp_server_session *session,
                            const char *principal, tp__mcp_packet *packet);
/** Answers what is no message. */
void tp__mcp_answer_broken(tp__mcp_sink *sink, const tp__mcp_message *message, const char *words, bool is_last);
/** Answers JSON that tp__mcp_decode() does not read: under the id of the request that it has, where one is seen. */
void tp__mcp_answer_unread(tp__mcp_sink *sink, tp_text json, const tp__mcp_message *broken, const char *words,
                           bool is_last);
/** Ends the exchange with a result or an error, and frees it. pairs of result: written by `write`. */
typedef void (*tp__mcp_write_fn)(tp_writer *writer, const void *ctx);
void tp__mcp_reply(tp__mcp_exchange *exchange, const char *result_type, bool is_list, size_t pairs,
                   tp__mcp_write_fn write, const void *ctx);
/** The same with the pairs of a map. */
void tp__mcp_reply_map(tp__mcp_exchange *exchange, const char *result_type, tp_text map);
/** With no pairs. */
void tp__mcp_reply_empty(tp__mcp_exchange *exchange);
void tp__mcp_reply_error(tp__mcp_exchange *exchange, int64_t code, const char *words, tp_text data);
/** Without an answer. */
void tp__mcp_exchange_free(tp__mcp_exchange *exchange);
/** tools/list, when the list is fresh. */
void tp__mcp_reply_tools(tp__mcp_exchange *exchange);
/** Sends a notification whose params are the pairs that write writes. */
void tp__mcp_send_notification(tp__mcp_sink *sink, const char *method, size_t pairs, tp__mcp_write_fn write,
                               const void *ctx);
/** 0 to 7; -1: no level. */
int tp__mcp_level(tp_text text);
unsigned tp__mcp_can_of(tp_text capabilities);

/* ---- call.c, tool.c, inputs.c, ends.c ---- */

/** The call whose turn has this data, which may be another host's: referenced; NULL: it is no call. */
tp_mcp_call *tp__mcp_call_find(tp_mcp_server *server, const void *data);
void tp__mcp_call_unref(tp_mcp_call *call);
/** Asks the client for one thing in the name of a server behind the gateway: what the client sends unasked is no
 *  answer to it.
 *  @return false: it cannot be asked, and on_answer is not called. */
bool tp__mcp_call_pass_on(tp_mcp_call *call, const char *method, tp_text params, tp_mcp_inputs_fn on_answer, void *ctx);
/** Adds what its client said of its trace (W3C Trace Context), if it did. */
void tp__mcp_call_trace(tp_mcp_call *call, tp__bytes *traceparent, tp__bytes *tracestate);
/** The run of the tool of a turn with this data reports how far it is: its client is told, if it is a call's. */
void tp__mcp_call_progressed(tp_mcp_server *server, const void *data, double progress, double total, tp_text message);

/** Each takes the exchange. */
void tp__mcp_call_tool(tp__mcp_exchange *exchange);
void tp__mcp_call_host(tp__mcp_exchange *exchange);
/** Calls the host for it, on the server's thread. */
void tp__mcp_call_run_host(tp_mcp_call *call);
/** An answer of the client to a request of the server. */
void tp__mcp_call_answered(tp_mcp_server *server, const char *principal, const tp__mcp_message *message);
/** notifications/cancelled: the call of that sink and id, or with NULL that of the session, gets no answer. */
void tp__mcp_call_cancel(tp_mcp_server *server, const tp__mcp_sink *sink, const tp__mcp_server_session *session,
                         tp_text id);
/** The client of a sink has left. */
void tp__mcp_call_left(tp_mcp_server *server, const tp__mcp_sink *sink);
/** What has waited long enough. */
void tp__mcp_call_sweep(tp_mcp_server *server);
void tp__mcp_call_cancel_all(tp_mcp_server *server);
/** Frees those that ended while they were parked. */
void tp__mcp_call_drop_kept(tp_mcp_server *server);

/* ---- tasks.c ---- */

/** tasks/get, tasks/update, tasks/cancel: each takes the exchange. */
void tp__mcp_task_get(tp__mcp_exchange *exchange);
void tp__mcp_task_update(tp__mcp_exchange *exchange);
void tp__mcp_task_cancel(tp__mcp_exchange *exchange);
/** The client must declare the extension for what it asks; takes the exchange. */
void tp__mcp_task_refuse(tp__mcp_exchange *exchange);

/* ---- content.c ---- */

/** Whether a result without this value must not be given to a client that has read the tool's outputSchema. */
bool tp__mcp_content_lacks_value(tp_mcp_version version, bool is_error, tp_text value);
/** Writes the pairs of a tools/call result. @return their number, or with NULL how many it would write. */
size_t tp__mcp_content_write(tp_writer *writer, tp_mcp_version version, bool is_error, tp_text text, tp_text value,
                             tp_text parts);
/** Answers a call of a tool with an error that its model reads; takes the exchange. */
void tp__mcp_content_reply_error(tp__mcp_exchange *exchange, const char *words);

/* ---- state.c ---- */

enum { TP__MCP_STATE_BYTES = 200 };
/** What the state of a parked call says. */
typedef struct tp__mcp_request_state {
  char nonce[33];
  char about[TP__MCP_ABOUT_BYTES]; /* the question that a gate asked, before anything has run; "": something else */
  int64_t expires_ms;              /* Unix */
} tp__mcp_request_state;
/** Its text, bound to what says who repeats what. */
void tp__mcp_state_write(const unsigned char secret[32], const tp__mcp_request_state *state, const char *bound,
                         char ret_text[TP__MCP_STATE_BYTES]);
/** @return whether it is ours and bound to that; it may have expired. */
bool tp__mcp_state_read(const unsigned char secret[32], tp_text text, const char *bound,
                        tp__mcp_request_state *ret_state);

/* ---- kept.c ---- */

/** Gets the secret of states: from the state_directory, where it is made first when it is not there; without one at
 *  random. @return TP_OK; TP_ERR_IO, TP_ERR_STORE_FULL, TP_ERR_SYSTEM, TP_ERR_NO_MEMORY. */
tp_status tp__mcp_kept_open(tp_mcp_server *server, const char *directory, tp_fault *fault) TP_MUST_USE;
/** Uses a state: with a directory no other call, of any process, can use it from here on; without one this does
 *  nothing, since the parked call of this process counts it.
 *  @return TP_OK; TP_ERR_STALE: it was used; TP_ERR_IO, TP_ERR_NO_MEMORY: it cannot be noted, and must not count. */
tp_status tp__mcp_kept_use(tp_mcp_server *server, const tp__mcp_request_state *state, tp_fault *fault) TP_MUST_USE;

/* ---- stdio.c, web.c ---- */

tp_status tp__mcp_stdio_start(tp_mcp_server *server, tp_fault *fault) TP_MUST_USE;
/** No line is read from here on; what waits is written. */
void tp__mcp_stdio_stop(tp_mcp_server *server);
tp_status tp__mcp_web_start(tp_mcp_server *server, tp_fault *fault) TP_MUST_USE;
uint32_t tp__mcp_web_port(const tp_mcp_server *server);
tp_mount *tp__mcp_web_mount(tp_mcp_server *server);
/** The session of a client of the server in which this one is mounted: on the front's thread, as long as that passes a
 *  request of the client.   @param ret_hold  ended by tp__mcp_web_release(), on any thread. */
tp_status tp__mcp_web_session(tp_mcp_server *server, const char *principal, tp_session **ret_session, void **ret_hold,
                              tp_fault *fault) TP_MUST_USE;
void tp__mcp_web_release(tp_mcp_server *server, void *hold);
void tp__mcp_web_stop_accepting(tp_mcp_server *server);
void tp__mcp_web_stop(tp_mcp_server *server);

#endif
