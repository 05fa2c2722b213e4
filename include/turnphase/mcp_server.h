/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp_server.h: a server of the Model Context Protocol over a runtime, in the library turnphase-mcp: the tools of the
 * runtime for any host that speaks MCP. Each tools/call is a task (task.h): every gate is asked, the call is recorded,
 * and a denial is a tool error with the gate's reason. It speaks all versions of mcp.h, on standard input and output or
 * over HTTP (one endpoint, /mcp), by itself or on the port of another server (tp_server_options.mount). No call has a
 * thread.
 *
 * A gate that asks is answered by the client's user where the client can show a form (elicitation, or input_required
 * in 2026-07-28). Where it cannot, the question goes to the runtime's channel (tp_runtime_options.ask): the call waits
 * for ask_wait_ms, and then answers with an error that has the question's key; the same call again waits for, or gets,
 * the result of the first one, which runs once. Without a channel the call is denied.
 *
 * A client of 2026-07-28 that declares the extension for tasks gets a task where a call takes longer than
 * task_after_ms, and at once where the channel is asked about it. What the call asks the client then is a part of the
 * task. Tasks live in the process, for an hour.
 *
 * The tool mcp__SERVER__TOOL is offered as SERVER__TOOL, since hosts add such a prefix themselves; gates see the whole
 * name. Threads: any, but for what a function says. */
#ifndef TURNPHASE_MCP_SERVER_H
#define TURNPHASE_MCP_SERVER_H

#include "turnphase/mcp.h"
#include "turnphase/tool.h"
#include "turnphase/turn.h"

TP_BEGIN_DECLS

typedef struct tp_mcp_server tp_mcp_server;
/** A request of a client that is being answered: of a tool, a prompt, a resource or a completion. */
typedef struct tp_mcp_call tp_mcp_call;

/** The lists that a server has in addition to that of its tools. */
typedef enum tp_mcp_list {
  TP_MCP_LIST_PROMPTS = 1,
  TP_MCP_LIST_RESOURCES = 2,
  TP_MCP_LIST_TEMPLATES = 3, /* of resources */
  TP_MCP_LIST_FORCE_32 = 0x7fffffff
} tp_mcp_list;

/** Whether a tool is offered: one that is not is unknown to clients. It must not block.
 *  Threads: any, several at once. */
typedef bool (*tp_mcp_offers_fn)(void *ctx, const tp_tool_listing *listing);

/** Zero means default. Strings are copied. */
typedef struct tp_mcp_server_options {
  size_t struct_size;
  /** What the server calls itself; NULL: "turnphase", the library's version. */
  const char *name, *version;
  /** How the tools are used, for the client's model; NULL: nothing. */
  const char *instructions;
  /** One client on descriptors input and output, a JSON text a line; nothing else may write to output. */
  bool stdio;
  /** Requests without a key are refused, though keys is empty. */
  bool keys_required;
  /** The runtime has a channel for questions. Then calls of one tool by one client with the same arguments have the
   *  same turn id, so that a channel that outlives the process, as tp_sqlite_questions, has the answer for the
   *  repetition. */
  bool has_channel;
  /** It has no port of its own: tp_mcp_server_mount() is answered by a server that has, with its keys. TP_ERR_USAGE
   *  beside stdio, http_address and keys. */
  bool mounted;
  /** Gates that ask never ask by a form of the client, but the channel only. */
  bool channel_only;
  uint8_t reserved_[3];
  int input, output;
  /** Listens there: a numeric address. Other addresses than those of this machine need keys. NULL: no HTTP. */
  const char *http_address;
  /** 0: any free port, which tp_mcp_server_port() returns. */
  uint32_t http_port;
  /** How long a call waits for a person whom the channel asks; 0: 20,000. */
  uint32_t ask_wait_ms;
  /** Each client has one of these keys (Authorization: Bearer KEY); NULL at the end. NULL: none is needed. */
  const char *const *keys;
  /** Origins of web pages that may call, as browsers send them ("https://example.org"), in addition to pages of this
   *  machine; NULL at the end. NULL: none. */
  const char *const *origins;
  /** Prompts, resources and completions, answered by tp_mcp_call_answer() or tp_mcp_call_fail(), also later. On a
   *  thread of the server, one at a time. NULL: the server has none. */
  void (*get_prompt)(void *ctx, tp_mcp_call *call, tp_text name, tp_text arguments);
  void (*read_resource)(void *ctx, tp_mcp_call *call, tp_text uri);
  void (*complete)(void *ctx, tp_mcp_call *call, tp_text params);
  /** The client of stdio has closed its end, or cannot be written to. On the thread of stdio; not after
   *  tp_mcp_server_free() has begun. May be NULL. */
  void (*on_end)(void *ctx);
  void *ctx;
  /** The first lists, as tp_mcp_server_set_list() takes them, copied: no client is answered before they are set. Empty:
   *  none yet. */
  tp_text prompts, resources, templates;
  /** Milliseconds after which an unanswered call becomes a task, if the client takes tasks; 0: 10,000. */
  uint32_t task_after_ms;
  /** Must be zero. */
  uint32_t reserved_more_;
  /** An existing directory, with which a question that a form asked outlives the process. It keeps the key of
   *  requestState (mcp-state.key) and, until an hour after they have expired, the states that were used (mcp-state/). A
   *  server that starts with this directory accepts a state that an earlier server gave to the same client. Nothing of
   *  that call has run: it passes its gates, and where a gate asks the same question again, the client's answer counts.
   *  With has_channel the form is shown again, so that what was answered in the channel meanwhile counts first. NULL: a
   *  state ends with the process. */
  const char *state_directory;
  /** Which tools clients see and can call; gets ctx. NULL: all. */
  tp_mcp_offers_fn offers;
} tp_mcp_server_options;

/** Starts a server. What handlers, tools and policies the runtime has is registered before.
 *  @param runtime  kept until tp_mcp_server_free().
 *  @return TP_OK; TP_ERR_USAGE for wrong options: neither stdio nor HTTP nor mounted, an address that is none, one of
 *          another machine without keys, a list that is no array or has no function that answers for it; what
 *          tp_value_check() returns; TP_ERR_NOT_FOUND for HTTP in a library that was built without it; TP_ERR_IO; what
 *          tp_runtime_tools() returns, since a server that cannot list its tools does not start; TP_ERR_NO_THREAD;
 *          TP_ERR_NO_MEMORY; TP_ERR_VERSION.
 *  Threads: any.  Blocks: as tp_runtime_tools(). */
TP_API tp_status tp_mcp_server_start(tp_runtime *runtime, const tp_mcp_server_options *options,
                                     tp_mcp_server **ret_server, tp_fault *fault) TP_MUST_USE;
/** Where it listens; 0: nowhere. Threads: any. */
TP_API uint32_t tp_mcp_server_port(const tp_mcp_server *server);
/** For tp_server_options.mount: that server passes the requests for /mcp, each with the tenant of its client's key, and
 *  answers what this server answers. NULL where the options do not have mounted. The server's, as long as it lives.
 *  Threads: any. */
TP_API tp_mount *tp_mcp_server_mount(tp_mcp_server *server);
/** Sets anew what prompts/list and its like return: a value, an array of maps as the protocol has them, copied; and
 *  notifies clients. @return TP_OK; TP_ERR_USAGE; what tp_value_check() returns; TP_ERR_NO_MEMORY. Threads: any. */
TP_API tp_status tp_mcp_server_set_list(tp_mcp_server *server, tp_mcp_list list, tp_text items,
                                        tp_fault *fault) TP_MUST_USE;
/** The runtime's tools have changed: clients are notified. Threads: any. */
TP_API void tp_mcp_server_tools_changed(tp_mcp_server *server);
/** Accepts nothing new, waits until the calls have ended, at most limit_ms, then cancels them, and frees the server.
 *  Before the runtime is freed, and after tp_server_free() of the server that it is mounted in; not from a callback.
 *  Accepts NULL. Threads: any. Blocks: at most limit_ms, and then until the cancelled calls have ended. */
TP_API void tp_mcp_server_free(tp_mcp_server *server, uint32_t limit_ms);

/* ---- a call ---- */

/** The call that a tool's run serves, if a server has begun the run's turn, and only until that turn has ended. NULL
 *  where the turn has no data. Threads: that of the run. */
TP_API tp_mcp_call *tp_mcp_call_of(const tp_tool_run *run);
/** Reports how far the call is; sent when the client wants to know. @param total  0: not known. @param message  may be
 *  NULL. Threads: any, until the call is answered. */
TP_API void tp_mcp_call_progress(tp_mcp_call *call, double progress, double total, const char *message);
/** Writes a line of the log, which is sent when the client wants lines of that level. @param level  "debug", "info",
 *  "notice", "warning", "error", "critical", "alert", "emergency". @param data  value. Threads: any, until the call is
 *  answered. */
TP_API void tp_mcp_call_log(tp_mcp_call *call, const char *level, const char *logger, tp_text data);

/** Something that the client is asked for. It is passed by pointer, in lists of pointers. */
typedef struct tp_mcp_input {
  size_t struct_size;
  const char *key;    /* its name among those of the call */
  const char *method; /* "elicitation/create", "sampling/createMessage", "roots/list" */
  tp_text params;     /* value: a map; empty: none */
} tp_mcp_input;

/** Gets what the client answered: a value, an array with a result for each input, in order; null for one that the
 *  client refused. Empty: nothing came, since the client left, the call was cancelled or ten minutes passed.
 *  Threads: any; it must not block. */
typedef void (*tp_mcp_inputs_fn)(void *ctx, tp_text answers);
/** Asks the client, in the way of its version. One batch of a call at a time, 1 to 16.
 *  @return TP_OK: on_answers is called once, also before this returns; TP_ERR_CAPABILITY for what the client did not
 *          declare, with its name as the fault's subject; TP_ERR_USAGE; TP_ERR_STALE when the call was answered;
 *          TP_ERR_FULL when too many calls wait; TP_ERR_NO_MEMORY.
 *  Threads: any, until the call is answered. */
TP_API tp_status tp_mcp_call_ask(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count,
                                 tp_mcp_inputs_fn on_answers, void *ctx, tp_fault *fault) TP_MUST_USE;
/** Whether the client declared a capability: "elicitation", "sampling", "roots", "tasks".
 *  Threads: any, until the call is answered. */
TP_API bool tp_mcp_call_can(tp_mcp_call *call, const char *capability);
/** Answers get_prompt and the other callbacks; once. @param result  value: a map as the protocol has it; copied.
 *  Threads: any. */
TP_API void tp_mcp_call_answer(tp_mcp_call *call, tp_text result);
/** Answers with an error of the protocol. For a call of a tool, the error takes the place of what the tool answers
 *  afterwards.
 *  @param data  value, or empty. Threads: any. */
TP_API void tp_mcp_call_fail(tp_mcp_call *call, int64_t code, const char *message, tp_text data);

TP_END_DECLS
#endif
