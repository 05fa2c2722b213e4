/* SPDX-License-Identifier: Apache-2.0
 *
 * call: what the host works on for a client, and what tasks.c needs of it. */
#ifndef TP__MCP_SERVER_CALL_H
#define TP__MCP_SERVER_CALL_H

#include "domains/mcp/server/server.h"
#include "turnphase/task.h"

enum { TP__MCP_INPUTS_MAX = 16, TP__MCP_HASH_BYTES = 65 };

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
  bool has_output; /* the tool is listed with an outputSchema */
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
  char nonce[33];          /* of the state with which the request may be repeated; "": none */
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

/** Takes what the client says to what it was asked for: other keys are ignored.
 *  @param responses  value: a map.   @return NULL, or what is wrong with it. */
const char *tp__mcp_call_take_responses_locked(tp_mcp_call *call, tp_text responses);
/** Whether nothing that was asked for is missing. */
bool tp__mcp_call_is_answered_locked(const tp_mcp_call *call);
/** Passes what came on to what has asked, once. */
void tp__mcp_call_deliver(tp_mcp_call *call);
/** Writes a map with what is not answered yet. */
void tp__mcp_call_write_inputs(tp_writer *writer, const tp_mcp_call *call);
/** Ends what runs, and drops the caller's reference.   @param exchange  gets no answer; taken; may be NULL. */
void tp__mcp_call_stop(tp_mcp_call *call, tp__mcp_exchange *exchange);
/** Another reference. */
void tp__mcp_call_ref(tp_mcp_call *call);

/* ---- tasks.c ---- */

/** The call, whose exchange was taken away, is a task from here on.   @return false: there is no randomness. */
bool tp__mcp_task_begin_locked(tp_mcp_call *call);
/** Answers with the task; takes the exchange. The lock of the server is not held. */
void tp__mcp_task_reply(tp_mcp_call *call, tp__mcp_exchange *exchange);

#endif
