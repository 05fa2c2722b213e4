/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h: for authors of model providers: messages, requests, responses, and the one asynchronous interface.
 * Threads: any. The functions of a tp_model come on any thread of the runtime, several at once. */
#ifndef TURNPHASE_MODEL_H
#define TURNPHASE_MODEL_H

#include "turnphase/tool.h"

TP_BEGIN_DECLS

typedef enum tp_role {
  TP_ROLE_USER = 1,
  TP_ROLE_ASSISTANT = 2,
  TP_ROLE_TOOL = 3,             /* the result of a call */
  TP_ROLE_END = 4               /* typed end mark of a turn that did not complete; never sent to a model */
} tp_role;

/** One message of a conversation. */
typedef struct tp_message {
  tp_role role;
  bool is_error;                /* tool */
  tp_text turn_id;              /* the turn it belongs to */
  tp_text text;
  const tp_tool_call *calls;    /* assistant */
  size_t call_count;
  tp_text call_id;              /* tool: which call it answers */
  tp_text name;                 /* tool: the tool's name; end: the outcome */
} tp_message;

/** What a model is asked. Borrowed till tp_model.start returns. */
typedef struct tp_model_request {
  size_t struct_size;
  uint32_t attempt;             /* from 1 */
  tp_text model;                /* the agent's model name; may be empty */
  tp_text system;
  const tp_message *messages;
  size_t message_count;
  const tp_tool *tools;
  size_t tool_count;
} tp_model_request;

/** What it answered. */
typedef struct tp_model_response {
  size_t struct_size;
  tp_text text;
  const tp_tool_call *calls;
  size_t call_count;
  tp_text stop_reason;          /* "end_turn", "tool_use", "max_tokens", … */
  int64_t input_tokens, output_tokens, cost_micros;
} tp_model_response;

/** A model provider. */
typedef struct tp_model {
  size_t struct_size;
  const char *name;
  void *self;
  /** Starts one request; exactly one of tp_model_complete() and tp_model_fail() follows, from any thread, also before
   *  start returns. */
  void (*start)(void *self, const tp_model_request *request, tp_token token);
  /** The answer is no longer wanted; at most once per token. May be NULL. */
  void (*cancel)(void *self, tp_token token);
  /** Exactly once, when the runtime lets go of the model. May be NULL. */
  void (*destroy)(void *self);
  tp_placement placement;       /* where start is called; parallel is refused */
  bool no_tools;                /* the provider cannot call tools */
} tp_model;

/** Ends a request; everything is copied. Returns as tp_token_complete(). Threads: any. */
TP_API tp_status tp_model_complete(tp_token token, const tp_model_response *response);
/** @param code  TP_ERR_CONTEXT_LENGTH when the context is too long, else TP_ERR_MODEL. */
TP_API tp_status tp_model_fail(tp_token token, tp_status code, const char *message, bool retryable);
/** Brings a piece of the answer's text to the host's events; copied. Returns as tp_token_complete(). */
TP_API tp_status tp_model_delta(tp_token token, tp_text piece);

/** The script model: plays a list of responses, one per request, shared by all sessions that use it.
 *  After the last one every request is a fault, or with repeat the list starts again.
 *  @param responses  copied.
 *  @param ret_model  give it to tp_session_options.model or tp_agent_config.model; freed through its destroy. */
TP_API tp_status tp_script_model_new(const tp_model_response *responses, size_t count, bool repeat, tp_model *ret_model,
                                     tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
