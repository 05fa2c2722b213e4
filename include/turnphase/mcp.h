/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp.h: the library turnphase-mcp: servers of the Model Context Protocol as tools of a runtime. It uses public headers
 * only.
 *
 * A server is a program that speaks over its standard input and output, or an HTTP endpoint. Its tools are named
 * mcp__SERVER__TOOL, which is what the matchers of imported hooks guard. Versions 2024-11-05 to 2026-07-28 are spoken;
 * which one is found out when the server starts. A server starts with the first turn that could use its tools; that
 * turn waits for it up to start_limit_ms. A server that cannot be started, or that ends, takes only its own tools away:
 * a diagnostic says why, open calls fail at once, and it is started again after 1, 2, 4 … 60 s. No call is repeated by
 * itself. When the list of tools changes, the next turn uses the new list. What a server says of itself (annotations,
 * descriptions) lifts no gate.
 *
 * One thread of the process serves the timers and HTTP of all servers, and one the programs; no thread waits for a
 * call. Both end with the last server.
 * Threads: any. */
#ifndef TURNPHASE_MCP_H
#define TURNPHASE_MCP_H

#include "turnphase/runtime.h"

TP_BEGIN_DECLS

/** A version of the protocol. Values above the known ones may come from a newer library. */
typedef enum tp_mcp_version {
  TP_MCP_VERSION_NONE = 0, /* not known yet */
  TP_MCP_VERSION_2024_11_05 = 1,
  TP_MCP_VERSION_2025_03_26 = 2,
  TP_MCP_VERSION_2025_06_18 = 3,
  TP_MCP_VERSION_2025_11_25 = 4,
  TP_MCP_VERSION_2026_07_28 = 5, /* the first version without sessions, and with server/discover */
  TP_MCP_VERSION_FORCE_32 = 0x7fffffff
} tp_mcp_version;

/** "2025-11-25", …; "none"; "unknown" for any other number. Static text. Threads: any. */
TP_API const char *tp_mcp_version_name(tp_mcp_version version);

/** What becomes of a call of a tool that is not as it was pinned. */
typedef enum tp_mcp_changed {
  TP_MCP_CHANGED_ASK = 0,  /* a person is asked about each; without a channel to ask it is denied */
  TP_MCP_CHANGED_DENY = 1, /* it is denied */
  TP_MCP_CHANGED_FORCE_32 = 0x7fffffff
} tp_mcp_changed;

/** Something that a server wants to know from a person, and that has no answer yet. */
typedef struct tp_mcp_asked tp_mcp_asked;

/** What a server asks (elicitation/create). All of it is the server's: show it as such. Borrowed until the callback
 *  returns. */
typedef struct tp_mcp_question {
  size_t struct_size;
  /** For tp_mcp_answer(). */
  tp_mcp_asked *asked;
  const char *server;
  /** The tool whose call is under way, as models know it. In a version with sessions a server does not name the call
   *  that it asks about: then it is the tool of the newest call. Empty: no call is under way. */
  tp_text tool;
  tp_text message;
  /** Value: the schema of the content, an object whose members are texts, numbers, booleans or choices; or empty. */
  tp_text schema;
  /** A page that the person is to visit, in place of a form; or empty. Show it, and open nothing by yourself: to accept
   *  means that the person goes there. */
  tp_text url;
} tp_mcp_question;

/** Asks a person, and returns at once. One tp_mcp_answer() follows, from any thread, also before this returns. The time
 *  that the person takes counts in the limit of the call; an answer that comes after its end has no effect.
 *  Threads: the library's; it must not block. */
typedef void (*tp_mcp_ask_fn)(void *ctx, const tp_mcp_question *question);

/** What the person did. */
typedef enum tp_mcp_action {
  TP_MCP_ACCEPT = 1,
  TP_MCP_DECLINE = 2, /* said no */
  TP_MCP_CANCEL = 3,  /* decided nothing */
  TP_MCP_ACTION_FORCE_32 = 0x7fffffff
} tp_mcp_action;

/** How a server's request to a model (sampling/createMessage) in the middle of a call is answered. A client of a
 *  gateway (mcp_server.h) that offers sampling is asked first, about its own calls; if it refuses, the request is
 *  refused. Otherwise a turn that is nested in the call asks the model: it passes every gate of a turn, is recorded,
 *  takes part in budgets, and ends at the latest with the call. It has no history and no tools, and its requests have
 *  the server's texts and nothing of the host: no memory, context or reminder. Its session has the tenant of the call
 *  and the workspace "mcp.NAME", so that what a memory keeps of it is not recalled for users. Zero means default. */
typedef struct tp_mcp_sampling {
  size_t struct_size;
  /** The model that answers. The struct is copied, and not taken: what it points to stays until tp_runtime_free().
   *  NULL: only clients of a gateway answer. */
  const tp_model *model;
  /** The most tokens of one answer, also when the server wants more; 0: 4,096. */
  uint32_t answer_tokens_max;
  /** The most requests of the server during one call, clients of a gateway included; 0: 8. */
  uint32_t count_max;
  /** The most tokens, input and output, of all these requests during one call, but for those that clients answer; 0:
   *  100,000. Requests that are under way when it is reached may exceed it. */
  int64_t tokens_max;
} tp_mcp_sampling;

/** A server. Zero means default. Everything is copied. */
typedef struct tp_mcp_options {
  size_t struct_size;
  /** Required: 1 to 32 letters, digits, - and _; not two _ in a row. It is a part of the names of its tools. */
  const char *name;
  /** A program and its arguments, ended by NULL. The program is looked for in PATH unless its name has a slash. Exactly
   *  one of arguments and url. */
  const char *const *arguments;
  /** "NAME=value", ended by NULL; NULL: none. The program also gets HOME, LANG, LC_ALL, LC_CTYPE, LOGNAME, NODE_PATH,
   *  PATH, SHELL, TERM, TMPDIR, TZ, USER, XDG_CACHE_HOME and XDG_CONFIG_HOME of the host, and nothing else of it. */
  const char *const *environment;
  /** Where the program runs; NULL: where the host does. */
  const char *directory;
  /** The endpoint of a server that speaks streamable HTTP: http: or https:. */
  const char *url;
  /** "Name: value", ended by NULL, sent with each request to url; NULL: none. */
  const char *const *headers;
  /** The limit from the server's start until its tools are known; 0: 60,000; at most 300,000. For this limit to have an
   *  effect, the handler that waits extends the budget of turn.pre_tool_materialization
   *  (tp_subscription.extends_budget); where the host has set a budget for this phase, at any time, no turn waits
   *  longer than that budget. */
  uint32_t start_limit_ms;
  /** The limit of one call as a whole; 0: 120,000. */
  uint32_t call_limit_ms;
  /** The most bytes of the text of one result, as tp_tool.result_bytes_max; 0: 100,000. */
  uint32_t result_bytes_max;
  /** The most calls at once; 0: 16. */
  uint32_t max_concurrent;
  /** The most bytes of one message that is read; 0: 16 MiB; at most 64 MiB. A program that writes a longer line is
   *  ended. */
  uint32_t message_bytes_max;
  /** What becomes of calls of changed tools; only with pins. */
  tp_mcp_changed changed;
  /** Patterns (as of tp_match) of the tools' names as the server has them: only these are used. NULL: all. */
  const char *const *allow;
  size_t allow_count;
  /** Patterns of tools that are not used. */
  const char *const *deny;
  size_t deny_count;
  /** The directory that the server is given as its root when it asks (roots/list); an absolute path. NULL: none. */
  const char *workspace;
  /** An existing directory in which mcp-NAME.json keeps the SHA-256 of each tool's name, description, schemas and
   *  annotations, as they were when the server was first seen. A tool that differs later, or is new, gives a diagnostic
   *  and an audit row `mcp.changed`, and its calls are treated as `changed` says. Removing the file pins the tools
   *  anew. A file that cannot be read makes each tool a changed one. NULL: nothing is pinned. */
  const char *pins;
  /** Gets the questions of the server to a person. When the call came from a client of a gateway (mcp_server.h) that
   *  can show forms, this client is asked first. NULL: a question that no client answers is declined. */
  tp_mcp_ask_fn ask;
  void *ask_ctx;
  /** NULL: the client declares no sampling, and refuses what the server wants from a model. */
  const tp_mcp_sampling *sampling;
} tp_mcp_options;

/** Answers what a server asked, once; the pointer must not be used afterwards.
 *  @param content  value: a map, with ACCEPT; or empty.
 *  @return TP_OK; TP_ERR_USAGE; what tp_value_check() returns: then there is no answer yet.
 *  Threads: any.  Blocks: no. */
TP_API tp_status tp_mcp_answer(tp_mcp_asked *asked, tp_mcp_action action, tp_text content, tp_fault *fault) TP_MUST_USE;

/** Adds a server in one commit: owner mcp.NAME, trust host. It registers
 *    mcp.NAME.tools    turn.pre_tool_materialization: the tools of the server, and diagnostics of what was left out
 *    mcp.NAME.gate     tool.pre, required, with pins only: asks about tools that have changed, or denies them
 *    mcp.NAME.sampling model.request, required, with sampling.model only: takes out of requests that a server wanted
 *                      what is not the server's; then the owner is granted privileged_hooks
 *  tp_mcp_remove(), or the end of the runtime, removes the server. Then its program is ended: it gets end-of-file, a
 *  second later SIGTERM, and after half a second more SIGKILL.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_BAD_ID for wrong options; TP_ERR_DUPLICATE_ID: there is a server
 *          of this name; TP_ERR_NO_MEMORY, TP_ERR_NO_THREAD, TP_ERR_SYSTEM; what tp_edit_commit() returns, except
 *          TP_ERR_CONFLICT. That a server cannot be started is a diagnostic of turns, and no failure of this call.
 *  Threads: any.  Blocks: no. */
TP_API tp_status tp_mcp_add(tp_runtime *runtime, const tp_mcp_options *options, tp_fault *fault) TP_MUST_USE;
/** Removes a server, in one commit. Turns that run keep its tools until they end.
 *  @return as tp_hook_remove().  Threads: any. */
TP_API tp_status tp_mcp_remove(tp_runtime *runtime, const char *name, tp_fault *fault) TP_MUST_USE;

/** Receives a line about a part of a file that has no effect. Borrowed until it returns. Threads: the caller's. */
typedef void (*tp_mcp_note_fn)(void *ctx, const char *note);

/** Servers, declared as in files of other hosts. Borrowed until return. */
typedef struct tp_mcp_config {
  size_t struct_size;
  /** A file such as .mcp.json: {"mcpServers": {NAME: {"command", "args", "env", "cwd"}}}, or with "url" and "headers".
   *  Exactly one of path and servers. */
  const char *path;
  /** Value: the map of servers itself. */
  tp_text servers;
  /** As tp_mcp_options.workspace, for each server. */
  const char *workspace;
  /** Receives a line for each server that is left out (disabled, or of the type sse) and each member that has no effect
   *  here, such as autoApprove. May be NULL. */
  tp_mcp_note_fn on_note;
  void *on_note_ctx;
  /** As tp_mcp_options.pins and changed, for each server. */
  const char *pins;
  tp_mcp_changed changed;
  /** Set where the servers may have the options of this library as members, too, named as in tp_mcp_options: allow and
   *  deny (arrays of patterns), start_limit_ms, call_limit_ms, result_bytes_max, max_concurrent, message_bytes_max,
   *  changed ("ask" or "deny"), workspace, pins and sampling (true or false). Then an unknown member is refused, since
   *  it may be a misspelt guard. */
  bool has_options;
  /** Zero. */
  uint8_t reserved_[3];
  /** As tp_mcp_options.ask, for each server. */
  tp_mcp_ask_fn ask;
  void *ask_ctx;
  /** As tp_mcp_options.sampling, for each server that does not have the member sampling: false; NULL: none may have
   *  sampling: true. */
  const tp_mcp_sampling *sampling;
} tp_mcp_config;

/** Adds the servers of a file, as tp_mcp_add() each. In their texts ${NAME} is the environment variable, and
 *  ${NAME:-default} the default where that is not set or empty.
 *  @param ret_count  how many were added, also when one is refused after them; may be NULL.
 *  @return TP_OK; TP_ERR_IO, TP_ERR_TOO_LARGE (above 1 MiB, 256 servers); TP_ERR_MALFORMED with the place in the file
 *          or, as the fault's subject, "SERVER.MEMBER" or "SERVER"; TP_ERR_NOT_FOUND for a variable that is not set;
 *          TP_ERR_USAGE, TP_ERR_VERSION; what tp_mcp_add() returns.
 *  Threads: any.  Blocks: reads the file. */
TP_API tp_status tp_mcp_config_add(tp_runtime *runtime, const tp_mcp_config *config, size_t *ret_count,
                                   tp_fault *fault) TP_MUST_USE;

/* ---- tools that are found first --------------------------------------------------------------------------------- */

/** When requests leave tools of servers out until they are found. Zero means default. */
typedef struct tp_mcp_defer_options {
  size_t struct_size;
  /** When a request has more tools of servers than this, all servers counted together, it shows only those that were
   *  found. 0: 40. */
  uint32_t above;
  /** The most found tools in one request; beyond it, those that were found first are left out. 0: 64. */
  uint32_t found_max;
  /** The name of the tool that searches; it must not begin with mcp__. NULL: mcp_search. */
  const char *tool;
} tp_mcp_defer_options;

/** Adds the search in one commit: owner mcp-defer, trust host, granted privileged_hooks. A tool of a server has a
 *  name that begins with mcp__; other tools are always shown. It registers
 *    mcp-defer.tool     turn.pre_tool_materialization: the tool that searches
 *    mcp-defer.request  model.request: which tools a request shows
 *  Where there are more tools of servers than `above`, the system text of a request lists the names of all of them,
 *  found or not; above 24 KiB of names it lists how many tools each server has. The request's tools are those of no
 *  server, followed by the found ones in the order in which they were found. With at most `above` tools of servers, the
 *  request has all tools but the one that searches. A tool is found when a search result in the request's messages or
 *  the parameter tool_choice names it, or when a call of it, also a refused one, is in the messages. A tool that the
 *  messages name stays found as long as the history has them: in later turns, in another process, not after a
 *  compaction that dropped them, and not in nested turns. Nothing else is kept.
 *  A call of a tool that was not found is not run, and comes to no gate: no model has seen its schema. Its result says
 *  so, and the next request has the tool. A found tool passes every gate, as before. A turn whose agent may not use the
 *  tool that searches leaves nothing out.
 *  @param options  borrowed; NULL: all defaults.
 *  @return TP_OK; TP_ERR_DUPLICATE_ID: it is there already; TP_ERR_USAGE, TP_ERR_BAD_ID, TP_ERR_VERSION for wrong
 *          options; TP_ERR_NO_MEMORY; what tp_edit_commit() returns, except TP_ERR_CONFLICT.
 *  Threads: any.  Blocks: no. */
TP_API tp_status tp_mcp_defer_add(tp_runtime *runtime, const tp_mcp_defer_options *options,
                                  tp_fault *fault) TP_MUST_USE;
/** Removes the search: requests show all tools again.
 *  @return as tp_hook_remove().  Threads: any. */
TP_API tp_status tp_mcp_defer_remove(tp_runtime *runtime, tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
