/* SPDX-License-Identifier: Apache-2.0
 *
 * call: a request of a client that the host works on. Its files share the declarations here:
 *
 *   call.c    the list of calls, their references, answers, waits, progress and log; prompts and resources
 *   begin.c   a request begins a call, or repeats one that is parked
 *   tool.c    a call of a tool as a task of the runtime, and the gate of it that asks
 *   inputs.c  what the client is asked for
 *   ends.c    calls that end otherwise than by their answer
 *   tasks.c   a call that is a task of the protocol
 *
 * Threads: any; functions whose name ends in _locked are called under the server's lock, all others without it. */
#ifndef TP__MCP_SERVER_CALL_H
#define TP__MCP_SERVER_CALL_H

#include "domains/mcp/server/server.h"
#include "support/sha256.h"
#include "turnphase/task.h"

enum { TP__MCP_INPUTS_MAX = 16, TP__MCP_HASH_BYTES = 65, TP__MCP_BOUND_BYTES = 240 };

/** An input for which the client was asked. */
typedef struct tp__mcp_asked_input {
  char *key, *method;
  tp__bytes params, answer; /* values */
  int64_t request;          /* the id of the request that this side sent; 0: none */
  bool answered;
} tp__mcp_asked_input;

struct tp_mcp_call {
  /* never change */
  tp_mcp_server *server;
  tp__references refs; /* references: of the list until the call is done and taken, of the task, of the host */
  char principal[TP__MCP_PRINCIPAL_BYTES];
  char hash[TP__MCP_HASH_BYTES]; /* a hash of the called name and its arguments */
  bool is_tool;
  bool has_output;    /* the tool is listed with an outputSchema */
  void *session_hold; /* what tp__mcp_web_session() gave, held until its task has ended; NULL: no session */
  tp__bytes traceparent, tracestate;
  /* under the server's lock */
  tp__mcp_exchange *exchange; /* NULL: the call is parked, or answered */
  tp_submission *submission;
  bool cancelled, done, linked;
  bool was_cancelled; /* its task ended as cancelled */
  bool failed;        /* set when `error` is the answer */
  int64_t error_code;
  char error_words[256];
  tp__bytes error_data;
  tp__bytes kept; /* the result, a map, of a call that ended while it was parked */
  tp__mcp_asked_input inputs[TP__MCP_INPUTS_MAX];
  size_t input_count;
  tp_mcp_inputs_fn on_answers; /* NULL: the client is not being asked */
  void *answers_ctx;
  char nonce[33];                  /* a random part of the state with which the request may be repeated; "": none */
  char about[TP__MCP_ABOUT_BYTES]; /* the question that this state is for */
  /* The question that the request answers already: it was asked by an earlier call, which ended with its process. "":
   * none. It counts for the first question of this call only. */
  char answers_about[TP__MCP_ABOUT_BYTES];
  int64_t parked_until_ms; /* 0: it is not parked */
  int64_t wait_until_ms;   /* when the call is answered because it waits for a person, or becomes a task; 0: neither */
  unsigned can;            /* the capabilities of the client of the newest exchange */
  tp_token question;
  char question_key[40], question_hash[80];
  char task_id[33];               /* "": the call is no task. A task has no exchange, and is parked until it is
                                     dropped */
  int64_t created_ms, updated_ms; /* times of a task, Unix */
  uint32_t batches;               /* how often inputs were asked for */
  tp_mcp_call *previous, *next;
};

/* ---- call.c ---- */

/** Makes a call with this exchange and adds it to the list, which has the only reference.
 *  @return NULL: there are too many, or there is no memory; the exchange was not taken. */
tp_mcp_call *tp__mcp_call_new(tp__mcp_exchange *exchange);
/** Adds a reference. */
void tp__mcp_call_ref(tp_mcp_call *call);
/** Takes a call out of the list; the caller then drops the list's reference. */
void tp__mcp_call_unlink_locked(tp_mcp_call *call);
/** Parks a call, which has no exchange: it is dropped at this time, unless the request is repeated. 0: it is not parked
 *  any more. */
void tp__mcp_call_park_locked(tp_mcp_call *call, int64_t until_ms);
/** After this time the call is answered because it waits for a person, or becomes a task. */
void tp__mcp_call_wait_locked(tp_mcp_call *call, uint32_t limit_ms);
/** The same if the client takes tasks; else it does nothing. */
void tp__mcp_call_wait_for_task_locked(tp_mcp_call *call);
/** Ends a call, once, with a result (a map) or with the error that it has: it is answered, or the result is kept while
 *  the call is parked.
 *  Drops the reference of the task or the host. */
void tp__mcp_call_finish(tp_mcp_call *call, tp_text result);
/** Answers with the result that was kept; takes the exchange. */
void tp__mcp_call_reply_kept(tp__mcp_exchange *exchange, tp_mcp_call *call);

/* ---- begin.c ---- */

/** Checks a request, and begins its call.
 *  @param name       content: the name of the tool or prompt, the uri, or the method.
 *  @param arguments  value: a map; or empty.
 *  @return the call, whose one reference is the list's; NULL: the exchange was taken, as by the parked call that the
 *          request repeats. */
tp_mcp_call *tp__mcp_call_begin(tp__mcp_exchange *exchange, tp_text name, tp_text arguments, bool is_tool);
/** Adds a text with its size, so that different lists of texts have different hashes. */
void tp__mcp_hash_add(tp__sha256 *hash, tp_text text);
/** Adds the identity of the caller: its key, independent of the key's place in the list. */
void tp__mcp_hash_add_principal(tp__sha256 *hash, const tp_mcp_call *call);
/** Writes the text to which the state of a parked call is bound: the client, the called name and the arguments. */
void tp__mcp_call_bind_state(const tp_mcp_call *call, char text[TP__MCP_BOUND_BYTES]);

/* ---- tool.c ---- */

#define TP__MCP_APPROVAL_KEY "approval" /* the key of the input by which a gate asks the client */
/** Whether the answer to a gate's form allows the call. */
bool tp__mcp_call_is_allowed(tp_text answer);

/* ---- inputs.c ---- */

/** Asks the client.
 *  @param may_know   set when answers that came with the request count, although the client was not asked for them.
 *  @param about      identifies the question: an answer that came with a state of the same question counts; NULL: no
 *          such answer counts.
 *  @param on_answers gets them once.
 *  @return TP_OK; TP_ERR_STALE: the call was answered, or its client has left; TP_ERR_USAGE; TP_ERR_FULL;
 *          TP_ERR_CAPABILITY: the client did not declare it; TP_ERR_NO_MEMORY. */
tp_status tp__mcp_call_ask(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count, bool may_know,
                           const char *about, tp_mcp_inputs_fn on_answers, void *ctx, tp_fault *fault);
/** Asks for the inputs that are not answered yet; passes on the answers when there is none left. */
void tp__mcp_call_ask_inputs(tp_mcp_call *call);
/** Frees the inputs. */
void tp__mcp_call_clear_inputs(tp_mcp_call *call);
/** Takes the client's answers to the inputs; other keys are ignored.
 *  @param responses  value: a map.   @return NULL, or what is wrong with the responses. */
const char *tp__mcp_call_take_responses_locked(tp_mcp_call *call, tp_text responses);
/** Whether all inputs are answered. */
bool tp__mcp_call_is_answered_locked(const tp_mcp_call *call);
/** Passes the answers to the callback that asked for them, once. */
void tp__mcp_call_deliver(tp_mcp_call *call);
/** Writes a map with the inputs that are not answered yet. */
void tp__mcp_call_write_inputs(tp_writer *writer, const tp_mcp_call *call);

/* ---- ends.c ---- */

/** Ends a running call, and drops the caller's reference.   @param exchange  it gets no answer; taken; may be NULL. */
void tp__mcp_call_stop(tp_mcp_call *call, tp__mcp_exchange *exchange);

/* ---- tasks.c ---- */

/** Makes a call whose exchange was taken away a task.   @return false: no random bytes were available. */
bool tp__mcp_task_begin_locked(tp_mcp_call *call);
/** Answers with the task; takes the exchange. The caller does not hold the server's lock. */
void tp__mcp_task_reply(tp_mcp_call *call, tp__mcp_exchange *exchange);

#endif
