/* SPDX-License-Identifier: Apache-2.0
 *
 * call: what the host works on for a client. Its files share what is here:
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

/** Something that the client was asked for. */
typedef struct tp__mcp_asked_input {
  char *key, *method;
  tp__bytes params, answer; /* values */
  int64_t request;          /* the id of our request; 0: none */
  bool answered;
} tp__mcp_asked_input;

struct tp_mcp_call {
  /* never change */
  tp_mcp_server *server;
  tp__references refs; /* of the list until it is done and taken, of the task, of the host */
  char principal[TP__MCP_PRINCIPAL_BYTES];
  char hash[TP__MCP_HASH_BYTES]; /* of what is called, with its arguments */
  bool is_tool;
  bool has_output;    /* the tool is listed with an outputSchema */
  void *session_hold; /* of tp__mcp_web_session(), until its task has ended; NULL: it has no session */
  tp__bytes traceparent, tracestate;
  /* under the server's lock */
  tp__mcp_exchange *exchange; /* NULL: parked, or answered */
  tp_submission *submission;
  bool cancelled, done, linked;
  bool was_cancelled; /* its task ended so */
  bool failed;        /* `error` is the answer */
  int64_t error_code;
  char error_words[256];
  tp__bytes error_data;
  tp__bytes kept; /* the result, a map, of a call that ended while it was parked */
  tp__mcp_asked_input inputs[TP__MCP_INPUTS_MAX];
  size_t input_count;
  tp_mcp_inputs_fn on_answers; /* NULL: nothing is asked */
  void *answers_ctx;
  char nonce[33];                  /* of the state with which the request may be repeated; "": none */
  char about[TP__MCP_ABOUT_BYTES]; /* of that state */
  /* The request has answered this question of a call that has ended with its process; "": none. For the first question
   * of this call only. */
  char answers_about[TP__MCP_ABOUT_BYTES];
  int64_t parked_until_ms; /* 0: it is not parked */
  int64_t wait_until_ms;   /* then it is answered, as what waits for a person or as a task; 0: it is not */
  unsigned can;            /* of the client of the newest exchange */
  tp_token question;
  char question_key[40], question_hash[80];
  char task_id[33];               /* "": it is no task. One has no exchange, and is parked until it is forgotten */
  int64_t created_ms, updated_ms; /* of a task, Unix */
  uint32_t batches;               /* of what it asked for */
  tp_mcp_call *previous, *next;
};

/* ---- call.c ---- */

/** A call of the list, whose reference is the only one, with this exchange.
 *  @return NULL: there are too many, or there is no memory; the exchange was not taken. */
tp_mcp_call *tp__mcp_call_new(tp__mcp_exchange *exchange);
/** Another reference. */
void tp__mcp_call_ref(tp_mcp_call *call);
/** Out of the list: the caller then drops the list's reference. */
void tp__mcp_call_unlink_locked(tp_mcp_call *call);
/** It has no exchange, and is dropped at this time, unless it is repeated; 0: it is not parked any more. */
void tp__mcp_call_park_locked(tp_mcp_call *call, int64_t until_ms);
/** After so long it is answered as what waits for a person, or as a task. */
void tp__mcp_call_wait_locked(tp_mcp_call *call, uint32_t limit_ms);
/** The same for a client that takes tasks; for others nothing. */
void tp__mcp_call_wait_for_task_locked(tp_mcp_call *call);
/** It has ended with a result, a map, or with the error that it has: answered, or kept while it is parked. Once.
 *  Drops the reference of the task or the host. */
void tp__mcp_call_finish(tp_mcp_call *call, tp_text result);
/** Answers with what was kept; takes the exchange. */
void tp__mcp_call_reply_kept(tp__mcp_exchange *exchange, tp_mcp_call *call);

/* ---- begin.c ---- */

/** Checks a request, and begins its call.
 *  @param name       content: of the tool or prompt, the uri, or the method.
 *  @param arguments  value: a map; or empty.
 *  @return the call, whose one reference is the list's; NULL: the exchange was taken, as by the parked call that the
 *          request repeats. */
tp_mcp_call *tp__mcp_call_begin(tp__mcp_exchange *exchange, tp_text name, tp_text arguments, bool is_tool);
/** Adds a text so that two lists of texts have two hashes. */
void tp__mcp_hash_add(tp__sha256 *hash, tp_text text);
/** Adds who calls: the key of a client that has one, wherever in the list it is. */
void tp__mcp_hash_add_principal(tp__sha256 *hash, const tp_mcp_call *call);
/** What the state of a parked call is bound to: who calls what with which arguments. */
void tp__mcp_call_bind_state(const tp_mcp_call *call, char text[TP__MCP_BOUND_BYTES]);

/* ---- tool.c ---- */

#define TP__MCP_APPROVAL_KEY "approval" /* of what a gate asks of the client */
/** Whether the answer to a gate's form allows the call. */
bool tp__mcp_call_is_allowed(tp_text answer);

/* ---- inputs.c ---- */

/** Asks the client.
 *  @param may_know   answers that came with the request count, though the client was not asked yet.
 *  @param about      which question this is: an answer that came with the state of this question counts; NULL: none.
 *  @param on_answers gets them once.
 *  @return TP_OK; TP_ERR_STALE: it was answered, or its client has left; TP_ERR_USAGE; TP_ERR_FULL; TP_ERR_CAPABILITY:
 *          the client did not declare it; TP_ERR_NO_MEMORY. */
tp_status tp__mcp_call_ask(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count, bool may_know,
                           const char *about, tp_mcp_inputs_fn on_answers, void *ctx, tp_fault *fault);
/** Asks for what is not answered yet, or passes on what is. */
void tp__mcp_call_ask_inputs(tp_mcp_call *call);
/** Frees what was asked for. */
void tp__mcp_call_clear_inputs(tp_mcp_call *call);
/** Takes what the client says to what it was asked for: other keys are ignored.
 *  @param responses  value: a map.   @return NULL, or what is wrong with it. */
const char *tp__mcp_call_take_responses_locked(tp_mcp_call *call, tp_text responses);
/** Whether nothing that was asked for is missing. */
bool tp__mcp_call_is_answered_locked(const tp_mcp_call *call);
/** Passes what came on to what has asked, once. */
void tp__mcp_call_deliver(tp_mcp_call *call);
/** Writes a map with what is not answered yet. */
void tp__mcp_call_write_inputs(tp_writer *writer, const tp_mcp_call *call);

/* ---- ends.c ---- */

/** Ends what runs, and drops the caller's reference.   @param exchange  gets no answer; taken; may be NULL. */
void tp__mcp_call_stop(tp_mcp_call *call, tp__mcp_exchange *exchange);

/* ---- tasks.c ---- */

/** The call, whose exchange was taken away, is a task from here on.   @return false: there is no randomness. */
bool tp__mcp_task_begin_locked(tp_mcp_call *call);
/** Answers with the task; takes the exchange. The lock of the server is not held. */
void tp__mcp_task_reply(tp_mcp_call *call, tp__mcp_exchange *exchange);

#endif
