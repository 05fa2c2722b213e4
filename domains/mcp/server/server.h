/* SPDX-License-Identifier: Apache-2.0
 *
 * server: the parts of a server of the protocol (turnphase/mcp_server.h).
 *
 *   sink      the way of messages to a client: the output of stdio, or one HTTP request (stdio.c, web.c)
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
  TP__MCP_TASK_MS = 3600000, /* how long a task is kept, from its beginning */
  TP__MCP_SESSION_IDLE_MS = 3600000,
  TP__MCP_PRINCIPAL_BYTES = 80,
  TP__MCP_ABOUT_BYTES = 33
};

/** The capabilities of a client. */
enum tp__mcp_can {
  TP__MCP_CAN_FORM = 1,
  TP__MCP_CAN_URL = 2,
  TP__MCP_CAN_SAMPLE = 4,
  TP__MCP_CAN_ROOTS = 8,
  TP__MCP_CAN_TASKS = 16 /* the extension for tasks; only in requests with _meta */
};

typedef struct tp__mcp_sink tp__mcp_sink;
struct tp__mcp_sink {
  tp__references refs;
  /** Sends a message: a notification or a request; or, with is_last, the answer of one exchange, with its HTTP status.
   *  A message that no client reads may be dropped. */
  void (*send)(tp__mcp_sink *sink, tp_text json, bool is_last, unsigned status);
  /** Ends an exchange without an answer. */
  void (*drop)(tp__mcp_sink *sink);
  void (*free)(tp__mcp_sink *sink);
  bool can_stream; /* set when messages before the answer reach the client */
};

/** A session of a version with a handshake. The server's lock guards it, except members that never change. */
typedef struct tp__mcp_server_session {
  tp__references refs;
  char id[33]; /* in HTTP; "" for stdio */
  char principal[TP__MCP_PRINCIPAL_BYTES];
  tp_mcp_version version;
  unsigned can;
  int log_level;
  int64_t used_ms;
  tp__mcp_sink *stream; /* the sink of messages that belong to no request; NULL: none */
  struct tp__mcp_server_session *next;
} tp__mcp_server_session;

/** One request of a client. It belongs to one thread, or to its call. */
typedef struct tp__mcp_exchange {
  tp_mcp_server *server;
  tp__mcp_sink *sink;
  tp__mcp_server_session *session; /* NULL: a version without sessions */
  tp_mcp_version version;
  tp_writer *writer; /* the writer to which the next members point */
  tp_text id, method, params;
  tp__mcp_meta meta;
  unsigned can;
  int log_level; /* the lowest level that is sent; 8: none */
  char principal[TP__MCP_PRINCIPAL_BYTES];
} tp__mcp_exchange;

typedef enum tp__mcp_work_kind { TP__MCP_WORK_TOOLS, TP__MCP_WORK_HOST } tp__mcp_work_kind;
typedef struct tp__mcp_work {
  tp__mcp_work_kind kind;
  tp__mcp_exchange *exchange; /* with TOOLS; NULL: the list is only refreshed */
  tp_mcp_call *call;          /* with HOST */
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
  unsigned char secret[32]; /* the secret that protects states */
  char *states;             /* the directory of the states that were used; NULL: none */
  tp__mcp_sink *stdio;      /* NULL: none */
  void *web;                /* the server of web.c; NULL: none */
  pthread_t worker;
  bool worker_runs;
  uint64_t hears_id; /* the id of the listener for progress */
  tp__mcp_watch watch;
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  bool hears; /* set while that listener exists, or may still be called */
  tp_mcp_call *calls;
  size_t call_count, parked_count;  /* numbers of calls in the list */
  size_t live_count;                /* these and the calls that have left the list and are still being answered */
  tp__mcp_server_session *sessions; /* the sessions of HTTP */
  size_t session_count;
  tp__mcp_server_session *stdio_session; /* NULL: not initialized */
  tp__mcp_listener *listeners;
  tp__mcp_work *first_work, *last_work;
  bool refreshes;     /* a refresh is in that queue, so a further one is not needed */
  tp__bytes tools;    /* value: what tools/list returns */
  tp__bytes lists[4]; /* values, by tp_mcp_list */
  int64_t next_request;
  int64_t sweep_ms; /* when the worker next looks for calls that have waited long enough */
  bool stops, ends; /* stops: the end of a call broadcasts `changed` */
};

/* ---- server.c ---- */

void tp__mcp_sink_ref(tp__mcp_sink *sink);
void tp__mcp_sink_unref(tp__mcp_sink *sink);
void tp__mcp_server_session_unref(tp__mcp_server_session *session);
/** Writes 32 hexadecimal digits and a NUL. @return false: no random bytes were available. */
bool tp__mcp_random(char ret_text[33]);
/** Queues work that may block; exchange and call are taken. @return false: there is no memory, and the client was
 *  answered with an error. */
bool tp__mcp_work_add(tp_mcp_server *server, tp__mcp_work_kind kind, tp__mcp_exchange *exchange, tp_mcp_call *call);
/** Finds the tool that a client names: ret_name gets the name that gates see, empty for a tool that is not offered;
 *  ret_schema gets the tool's schema; ret_has_output is set when the tool is listed with an outputSchema. Each may be
 *  NULL.
 *  @return false without memory. */
bool tp__mcp_tool_find(tp_mcp_server *server, tp_text name, tp__bytes *ret_name, tp__bytes *ret_schema,
                       bool *ret_has_output);
/** Begins nothing new, waits until the calls have ended, at most until until_ms, and cancels the rest. */
void tp__mcp_server_end_calls(tp_mcp_server *server, int64_t until_ms);
/** Notifies every client that a list has changed: "tools", "prompts", "resources". */
void tp__mcp_notify_changed(tp_mcp_server *server, const char *list);

/* ---- dispatch.c ---- */

/** Handles a message of a client that was read from a packet. When it returns true, the exchange has taken the writer.
 *  @param session  NULL: none yet, or a version without sessions.
 *  @return whether the writer was taken. */
bool tp__mcp_dispatch(tp_mcp_server *server, tp__mcp_sink *sink, tp__mcp_server_session *session, const char *principal,
                      const tp__mcp_message *message, tp_writer *writer);
/** Handles the messages of a batch, each as tp__mcp_dispatch() does. */
void tp__mcp_dispatch_batch(tp_mcp_server *server, tp__mcp_sink *sink, tp__mcp_server_session *session,
                            const char *principal, tp__mcp_packet *packet);
/** Answers input that is not a message. */
void tp__mcp_answer_broken(tp__mcp_sink *sink, const tp__mcp_message *message, const char *words, bool is_last);
/** Answers JSON that tp__mcp_decode() cannot read, under the id of its request, if one can be found. */
void tp__mcp_answer_unread(tp__mcp_sink *sink, tp_text json, const tp__mcp_message *broken, const char *words,
                           bool is_last);
/** Ends the exchange with a result or an error, and frees it. The function `write` writes the pairs of the result. */
typedef void (*tp__mcp_write_fn)(tp_writer *writer, const void *ctx);
void tp__mcp_reply(tp__mcp_exchange *exchange, const char *result_type, bool is_list, size_t pairs,
                   tp__mcp_write_fn write, const void *ctx);
/** Ends the exchange with a result that has the pairs of a map. */
void tp__mcp_reply_map(tp__mcp_exchange *exchange, const char *result_type, tp_text map);
/** Ends the exchange with an empty result. */
void tp__mcp_reply_empty(tp__mcp_exchange *exchange);
void tp__mcp_reply_error(tp__mcp_exchange *exchange, int64_t code, const char *words, tp_text data);
/** Frees an exchange without an answer. */
void tp__mcp_exchange_free(tp__mcp_exchange *exchange);
/** Answers tools/list, once the list is fresh. */
void tp__mcp_reply_tools(tp__mcp_exchange *exchange);
/** Sends a notification whose params are the pairs that write writes. */
void tp__mcp_send_notification(tp__mcp_sink *sink, const char *method, size_t pairs, tp__mcp_write_fn write,
                               const void *ctx);
/** The number of a log level, 0 to 7; -1: no level. */
int tp__mcp_level(tp_text text);
unsigned tp__mcp_can_of(tp_text capabilities);

/* ---- call.c, tool.c, inputs.c, ends.c ---- */

/** Finds the call whose turn has this data; the data may also be a pointer of the host. @return with a reference; NULL:
 *  no call. */
tp_mcp_call *tp__mcp_call_find(tp_mcp_server *server, const void *data);
void tp__mcp_call_unref(tp_mcp_call *call);
/** Asks the client for one thing in the name of a server behind the gateway: an answer that the client sent unasked
 *  does not count.
 *  @return false: it cannot be asked, and on_answer is not called. */
bool tp__mcp_call_pass_on(tp_mcp_call *call, const char *method, tp_text params, tp_mcp_inputs_fn on_answer, void *ctx);
/** Adds the client's trace context (W3C Trace Context), if it sent one. */
void tp__mcp_call_trace(tp_mcp_call *call, tp__bytes *traceparent, tp__bytes *tracestate);
/** Reports the progress of a tool's run whose turn has this data. If the run belongs to a call, the call's client is
 *  notified. */
void tp__mcp_call_progressed(tp_mcp_server *server, const void *data, double progress, double total, tp_text message);

/** Each function takes the exchange. */
void tp__mcp_call_tool(tp__mcp_exchange *exchange);
void tp__mcp_call_host(tp__mcp_exchange *exchange);
/** Calls the host's function for the call, on the server's thread. */
void tp__mcp_call_run_host(tp_mcp_call *call);
/** Takes an answer of the client to a request of the server. */
void tp__mcp_call_answered(tp_mcp_server *server, const char *principal, const tp__mcp_message *message);
/** notifications/cancelled: the call of that sink and id, or with NULL that of the session, gets no answer. */
void tp__mcp_call_cancel(tp_mcp_server *server, const tp__mcp_sink *sink, const tp__mcp_server_session *session,
                         tp_text id);
/** Handles the end of a sink: its client has left. */
void tp__mcp_call_left(tp_mcp_server *server, const tp__mcp_sink *sink);
/** Ends the calls that have waited long enough. */
void tp__mcp_call_sweep(tp_mcp_server *server);
void tp__mcp_call_cancel_all(tp_mcp_server *server);
/** Frees the calls that ended while they were parked. */
void tp__mcp_call_drop_kept(tp_mcp_server *server);

/* ---- tasks.c ---- */

/** tasks/get, tasks/update, tasks/cancel: each takes the exchange. */
void tp__mcp_task_get(tp__mcp_exchange *exchange);
void tp__mcp_task_update(tp__mcp_exchange *exchange);
void tp__mcp_task_cancel(tp__mcp_exchange *exchange);
/** Refuses a request of the extension from a client that has not declared the extension; takes the exchange. */
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
/** The content of the state of a parked call. */
typedef struct tp__mcp_request_state {
  char nonce[33];
  char about[TP__MCP_ABOUT_BYTES]; /* the question that a gate asked before anything has run; "": a question of another
                                      kind */
  int64_t expires_ms;              /* Unix time */
} tp__mcp_request_state;
/** Writes a state as text. bound identifies the client and the request, and the state is valid for it only. */
void tp__mcp_state_write(const unsigned char secret[32], const tp__mcp_request_state *state, const char *bound,
                         char ret_text[TP__MCP_STATE_BYTES]);
/** @return whether the state was made with this secret for this bound text; it may have expired. */
bool tp__mcp_state_read(const unsigned char secret[32], tp_text text, const char *bound,
                        tp__mcp_request_state *ret_state);

/* ---- kept.c ---- */

/** Gets the secret of states: from the state_directory, which gets one if it has none; without a directory a random
 *  one. @return TP_OK; TP_ERR_IO, TP_ERR_STORE_FULL, TP_ERR_SYSTEM, TP_ERR_NO_MEMORY. */
tp_status tp__mcp_kept_open(tp_mcp_server *server, const char *directory, tp_fault *fault) TP_MUST_USE;
/** Uses a state: with a directory no other call, of any process, can use it from here on; without one this does
 *  nothing, since the parked call of this process counts it.
 *  @return TP_OK; TP_ERR_STALE: the state was used before; TP_ERR_IO, TP_ERR_NO_MEMORY: its use cannot be noted, so it
 *          must not count. */
tp_status tp__mcp_kept_use(tp_mcp_server *server, const tp__mcp_request_state *state, tp_fault *fault) TP_MUST_USE;

/* ---- stdio.c, web.c ---- */

tp_status tp__mcp_stdio_start(tp_mcp_server *server, tp_fault *fault) TP_MUST_USE;
/** After this no line is read; messages that wait are written. */
void tp__mcp_stdio_stop(tp_mcp_server *server);
tp_status tp__mcp_web_start(tp_mcp_server *server, tp_fault *fault) TP_MUST_USE;
uint32_t tp__mcp_web_port(const tp_mcp_server *server);
tp_mount *tp__mcp_web_mount(tp_mcp_server *server);
/** The session of a client of the server in which this server is mounted. Called on the front's thread, while it passes
 *  a request of that client.   @param ret_hold  ended by tp__mcp_web_release(), on any thread. */
tp_status tp__mcp_web_session(tp_mcp_server *server, const char *principal, tp_session **ret_session, void **ret_hold,
                              tp_fault *fault) TP_MUST_USE;
void tp__mcp_web_release(tp_mcp_server *server, void *hold);
void tp__mcp_web_stop_accepting(tp_mcp_server *server);
void tp__mcp_web_stop(tp_mcp_server *server);

#endif
