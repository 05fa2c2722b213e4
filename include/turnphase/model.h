/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h: for authors of model providers: messages, requests, responses, and the one asynchronous interface.
 * Threads: any. The functions of a tp_model come on any thread of the runtime, several at once. */
#ifndef TURNPHASE_MODEL_H
#define TURNPHASE_MODEL_H

#include "turnphase/tool.h"

TP_BEGIN_DECLS

/** Values above the known ones may come from a newer library. */
typedef enum tp_role {
  TP_ROLE_USER = 1,
  TP_ROLE_ASSISTANT = 2,
  TP_ROLE_TOOL = 3,   /* the result of a call */
  TP_ROLE_END = 4,    /* the end mark of a turn that did not complete; a model reads it as a line of the user's role */
  TP_ROLE_SYSTEM = 5, /* only in tp_turn_request.messages: no history has such a message */
  TP_ROLE_FORCE_32 = 0x7fffffff
} tp_role;

/** One message of a conversation. It is passed by pointer, in lists of pointers; struct_size is set by the code that
 *  fills it. */
typedef struct tp_message {
  size_t struct_size;
  tp_role role;
  /** Of a tool's message. */
  bool is_error;
  /** The turn it belongs to. */
  tp_text turn_id;
  tp_text text;
  /** Assistant: call_count pointers. */
  const tp_tool_call *const *calls;
  size_t call_count;
  /** Tool: which call it answers. */
  tp_text call_id;
  /** Tool: the tool's name; end: the outcome. */
  tp_text name;
  /** User, tool: further parts after the text, in order; or empty. Value: an array of parts (part.h). TP_ERR_USAGE
   *  for other roles. */
  tp_text parts;
  /** Tool: the structured result, for programs: a model reads text and parts; or empty. Value. TP_ERR_USAGE for
   *  other roles. */
  tp_text value;
  /** Assistant: tp_model_response.provider_data of the response; or empty. Handlers do not get it: it is empty in what
   *  tp_call_messages() shows. TP_ERR_USAGE for other roles. */
  tp_text provider_data;
  /** In the last message of a turn that has an id of the host: how the turn ended, as a value in a form of the
   *  library's own, which a history keeps as it is; or empty. When the turn is submitted again, it is answered from
   *  this value. Only for histories: a model and handlers have no use for it, and in tp_turn_request.messages it is not
   *  read. */
  tp_text ending;
} tp_message;

/** A request to a model. Made by the library; borrowed till tp_model.start returns, or, taken from an inbox, until its
 *  token is completed. */
typedef struct tp_model_request {
  size_t struct_size;
  /** From 1. */
  uint32_t attempt;
  uint32_t id_count;
  /** By TP_ID_*: tenant, agent, session, turn and the others; empty where there is none. */
  const tp_text *ids;
  /** The time until the turn's deadline, as it was when start was called or the request came into the inbox; never
   *  negative. At the deadline cancel is called, and a later answer is stale. */
  int64_t time_left_ms;
  /** The model name of the turn's request, else the agent's; may be empty. */
  tp_text model;
  tp_text system;
  /** message_count pointers. */
  const tp_message *const *messages;
  size_t message_count;
  /** tool_count pointers. */
  const tp_tool *const *tools;
  size_t tool_count;
  /** Internal: for tp_model_request_data(). */
  const void *turn;
  /** Value: a map, tp_turn_request.parameters (temperature, max_tokens, …); or empty. */
  tp_text parameters;
  /** Value: array of str, tp_turn_request.files as turn.intake left them; or empty. They are also in the parts of
   *  this turn's message, for providers that read parts. Host and provider agree on what a name means. */
  tp_text files;
  /** Value: the JSON Schema that the turn's final answer must fit (tp_turn_request.answer_schema), for a provider with
   *  a way of its own to demand it; or empty. `system` has it, too, and the library checks the answer. */
  tp_text answer_schema;
} tp_model_request;
/** The host's own pointer, as tp_call_data(). Threads: any, as long as the request is valid. */
TP_API void *tp_model_request_data(const tp_model_request *request, tp_id_kind id);

/** How an answer ended. */
typedef enum tp_finish {
  TP_FINISH_UNKNOWN = 0,    /* there is no answer; in a response: the end follows from stop_reason */
  TP_FINISH_STOP = 1,       /* the model had said everything */
  TP_FINISH_LENGTH = 2,     /* it is cut: a limit of tokens was reached */
  TP_FINISH_FILTER = 3,     /* the provider left out content, or all of it */
  TP_FINISH_REFUSAL = 4,    /* the model declined to answer */
  TP_FINISH_TOOL_CALLS = 5, /* it calls tools */
  TP_FINISH_ERROR = 6,      /* it failed on the way: the request failed */
  TP_FINISH_PAUSE = 7,      /* the provider paused: the turn sends back what it said, up to 8 times, so that the
                               provider goes on */
  TP_FINISH_FORCE_32 = 0x7fffffff
} tp_finish;
/** The constant's word in small letters: "tool_calls"; "unknown" for any other number. Static text. Threads: any. */
TP_API const char *tp_finish_name(tp_finish finish);
/** What a provider's own word for the end of an answer means, in upper or lower case: "end_turn", "max_tokens",
 *  "SAFETY", ….
 *  @return TP_FINISH_UNKNOWN for a word that is not known. Threads: any. */
TP_API tp_finish tp_finish_of(tp_text word);

/** The response of a model. */
typedef struct tp_model_response {
  size_t struct_size;
  tp_text text;
  /** call_count pointers. */
  const tp_tool_call *const *calls;
  size_t call_count;
  /** "end_turn", "tool_use", "max_tokens", …. */
  tp_text stop_reason;
  /** Of this call only, as in its TP_EVENT_MODEL_END; negative ones count as 0. */
  int64_t input_tokens, output_tokens, cost_micros;
  /** What the provider gave besides text and calls and needs back with the message: reasoning, signatures, further
   *  content of calls; or empty. It stays with the message in the history. Value: a map with
   *    "provider" str: tp_model.provider, and "api" str: the form of the API. Only a model with the same provider and
   *    API sends it back; "thinking" str: the reasoning as a text for people; optional;
   *    "refusal" str: the words of an answer that refuses; optional.
   *  Other keys are the provider's own. It is no part of the answer. */
  tp_text provider_data;
  /** UNKNOWN: the library takes tp_finish_of(stop_reason); where that is not known, TOOL_CALLS when there are calls,
   *  else STOP. ERROR: the request failed, and may be repeated. */
  tp_finish finish;
  /** Must be zero. */
  uint32_t reserved_;
  /** The provider's own word, as it came; empty: stop_reason. */
  tp_text finish_word;
} tp_model_response;

/** A model provider: filled by the host, or made by the library (tp_script_model_new()). It is passed by
 *  pointer: the function that takes it (tp_session_open(), tp_agent_add()) copies the struct, on success only. The
 *  library calls destroy once, later; name must stay valid until then. */
typedef struct tp_model {
  size_t struct_size;
  /** Shown to handlers where the agent names no model; may be NULL. */
  const char *name;
  void *ctx;
  /** Exactly one of start and inbox. Starts one request; exactly one of tp_model_complete() and tp_model_fail()
   *  follows, from any thread, also before start returns. */
  void (*start)(void *ctx, const tp_model_request *request, tp_token token);
  /** Notifies that the answer is no longer needed; at most once per token. May be NULL. With an inbox it must be NULL:
   *  the host calls tp_token_open() instead. */
  void (*cancel)(void *ctx, tp_token token);
  /** Exactly once, when no turn or session uses the model and each of its tokens is completed or abandoned: on any
   *  thread, also within the last tp_model_complete() or tp_model_fail(), after which ctx is not to be used. May be
   *  NULL: then a token ends with its turn, and one that is never completed needs no tp_token_abandon(), except that of
   *  a request that was taken from an inbox. */
  void (*destroy)(void *ctx);
  /** Where start is called; parallel is refused, and with an inbox inline, too. */
  tp_placement placement;
  /** The provider cannot call tools. */
  bool no_tools;
  /** Set when tp_model_delta() and tp_model_thinking() may deliver their event themselves: where no thread owns the
   *  turn, on the thread that calls them, before they return. So no other thread must wake. The calling thread must
   *  hold no lock that a callback of a listener acquires, and must wait for no listener. False: each call wakes a
   *  thread that becomes the owner. */
  bool delivers;
  /** Must be zero. */
  uint8_t reserved_[2];
  /** An inbox of this runtime (inbox.h): the model's requests wait there until a thread of the host takes them. A
   *  request that finds it full or freed fails. Kept as long as the model. */
  tp_inbox *inbox;
  /** The service that answers, such as a host name: models of one provider share a breaker
   *  (tp_runtime_options.breaker_failures). NULL: name. At most 128 bytes; valid as long as name. */
  const char *provider;
  /** Notifies that no listener holds the answer back any more (tp_event_hold()): the provider, which paused because of
   *  tp_model_held(), reads on. Called on the thread that released the last hold; it must not block. The answer may
   *  have been held again meanwhile, or have ended, so the provider calls tp_model_held() again. May be NULL: then a
   *  provider that pauses calls tp_model_held() from time to time. With an inbox it must be NULL. */
  void (*resume)(void *ctx, tp_token token);
} tp_model;

/** Destroys a model that was not taken: calls its destroy, once. destroy also frees a struct that the library made. So
 *  the pointer to a struct that the library made, and that was taken, is valid until the library calls destroy, and
 *  must not be used afterwards. Accepts NULL. Threads: any. */
TP_API void tp_model_free(tp_model *model);

/** Ends a request; everything is copied.
 *  @return as tp_token_complete(). A response that the library cannot use (text that is not UTF-8, a call without a
 *          name, …) fails the turn, whose fault names the member; that is TP_OK here.  Threads: any. */
TP_API tp_status tp_model_complete(tp_token token, const tp_model_response *response, tp_fault *fault);
/** Ends a request that failed.
 *  @param code  TP_ERR_CONTEXT_LENGTH when the context is too long; TP_ERR_MODEL_UNAVAILABLE when the provider is down
 *               and must not be asked again in this turn; the next of tp_session_options.fallbacks is asked then; else
 *               TP_ERR_MODEL.
 *  @param retryable  whether the same request may succeed when it is sent again.
 *  @return as tp_token_complete().  Threads: any. */
TP_API tp_status tp_model_fail(tp_token token, tp_status code, const char *message, bool retryable, tp_fault *fault);
/** Emits a piece of the answer's text as an event; copied. Pieces that come faster than the turn's owner
 *  takes them are joined: a TP_EVENT_MODEL_DELTA has the text of one piece or of several, in their order. In a turn
 *  with tp_turn_request.each_delta each has an event of its own.
 *
 *  A model with tp_model.delivers: where no thread owns the turn at this moment, this call delivers the event itself
 *  before it returns, and runs nothing else of the turn. The owner's thread gets the piece all the same where a
 *  listener has tp_listener.on_owner, in a synchronous call (where the caller waits as the owner), and in a runtime
 *  with pump.
 *  @return as tp_token_complete(); TP_ERR_UTF8; TP_ERR_NO_MEMORY; TP_ERR_FULL when more than 16 MiB would wait for
 *          the turn's owner, each piece counted with 8 bytes more. A refused piece has no event and changes nothing of
 *          the answer. An empty piece gives TP_OK and no event.  Threads: any. */
TP_API tp_status tp_model_delta(tp_token token, tp_text piece, tp_fault *fault);
/** Emits a piece of what the model thinks as an event TP_EVENT_THINKING; copied. It is no part of the answer: a request
 *  that fails after it is repeated as if nothing had come. Its events are in order with those of tp_model_delta().
 *  @return as tp_model_delta().  Threads: any. */
TP_API tp_status tp_model_thinking(tp_token token, tp_text piece, tp_fault *fault);
/** Whether a listener holds this answer back, because its reader is slower than the model (tp_event_hold()). A provider
 *  that reads from a network calls this before each read, and reads nothing while the answer is held: so the sender
 *  stops, and nothing of the answer waits in this process. Pieces that are emitted nevertheless are delivered as usual.
 *  While the answer is held, the provider's own limits of silence do not count; the deadline of the turn and a cancel
 *  do.
 *  @return false also for a token that is not open.  Threads: any.  Blocks: no. */
TP_API bool tp_model_held(tp_token token);
/** Emits a note on the request or its answer as an event TP_EVENT_DIAGNOSTIC of severity info, whose subscription is
 *  empty; copied. Its events are in order with those of tp_model_delta().
 *  @param key   names the kind of note: "request.repaired".
 *  @param text  for people; not empty.
 *  @return as tp_model_delta(); TP_ERR_USAGE without a key or a text.  Threads: any. */
TP_API tp_status tp_model_note(tp_token token, tp_text key, tp_text text, tp_fault *fault);

/** Receives one message; false stops the walk. Threads: that of the call. */
typedef bool (*tp_call_message_fn)(void *ctx, const tp_message *message);
/** Walks what was said in the conversation of a driven turn: the messages before it (those of its session, or of its
 *  request), then its own so far, as they were when a phase of the turn last began. END marks are among them; what the
 *  user says now is there after turn.intake, results of tools after all calls of their response.
 *  @param each  NULL: they are only counted. Each message is borrowed until the handler returns.
 *  @return how many there are, also where each stopped; 0 for a turn that its host drives, and for a job.
 *  Threads: that of the call. */
TP_API size_t tp_call_messages(const tp_call *call, tp_call_message_fn each, void *ctx);
/** As tp_call_messages(), from the message with this index on: for a handler that has read the earlier ones.
 *  @param first  from 0; at the count or above it no message is shown.
 *  @return how many there are in all.  Threads: that of the call. */
TP_API size_t tp_call_messages_from(const tp_call *call, size_t first, tp_call_message_fn each, void *ctx);
/** Identifies the list that tp_call_messages() walks, for a handler that keeps for later turns what it made of the
 *  messages. Two calls with the same number have the same messages at the indices below the smaller one of their
 *  ret_settled. A history that is made shorter is another list.
 *  @param ret_settled  how many messages precede those of the turn; the turn's own messages may be dropped when it
 *                      ends; may be NULL.
 *  @return a number that no other list of this process has or had; 0 where tp_call_messages() returns 0 for want of a
 *          conversation.  Threads: that of the call. */
TP_API uint64_t tp_call_messages_list(const tp_call *call, size_t *ret_settled);

/** Sends a request to a model from a handler and waits for the answer: for jobs that extract or summarize, and handlers
 *  that classify. A model that is given belongs to the caller. No phase is run, nothing is repeated, and no event,
 *  step, token sum or cost of the turn includes the request: its cost is in the response.
 *  @param call      of a handler of placement thread or with an inbox, on its own thread.
 *  @param model     NULL: the model of the call's turn, by its name where the request has none. Else a model with
 *                   start, or with an inbox that another thread serves: this thread waits.
 *                   Copied; ctx, name and inbox must stay valid until nothing uses the model: after a request was
 *                   abandoned, its token may be open until the handler is destroyed. TP_INBOX_OF_SESSION stands for
 *                   that of the call's turn.
 *  @param request   model, system, messages and parameters are read, and copied; struct_size is set. Tools are refused;
 *                   the rest is the library's.
 *  @param ret_response  borrowed until the handler returns. Set on TP_OK alone; struct_size is set by the caller.
 *  @param ret_retryable whether the same request may succeed when it is sent again; may be NULL.
 *  @return TP_OK; the code of tp_model_fail(), with its message in the fault; TP_ERR_TIMEOUT at the deadline of the
 *          call; TP_ERR_CANCELLED when the call is cancelled: the model's cancel is called then, or TP_WORK_CANCEL
 *          comes to its inbox; TP_ERR_MODEL when its inbox was freed; TP_ERR_NO_THREAD,
 *          TP_ERR_SHUTDOWN, TP_ERR_FULL, TP_ERR_NO_MEMORY; TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_UTF8 for a wrong
 *          argument. Threads: that of the call. */
TP_API tp_status tp_call_ask_model(tp_call *call, const tp_model *model, const tp_model_request *request,
                                   tp_model_response *ret_response, bool *ret_retryable, tp_fault *fault) TP_MUST_USE;

/** Makes a script model: plays a list of responses, one per request, shared by all sessions that use it.
 *  After the last one every request fails, or with repeat the list starts again.
 *  @param responses  count pointers; everything is copied. Each is read by its struct_size.
 *  @param ret_model  for tp_session_options.model or tp_agent_config.model; tp_model_free() when it was not taken.
 *  @return TP_OK; TP_ERR_VERSION for a response with a wrong struct_size or a field that this library does not know;
 *          TP_ERR_USAGE for one that is NULL; TP_ERR_NO_MEMORY. Threads: any. */
TP_API tp_status tp_script_model_new(const tp_model_response *const *responses, size_t count, bool repeat,
                                     tp_model **ret_model, tp_fault *fault) TP_MUST_USE;

/** Makes a script model from JSON text, a map:
 *      {"responses": [{"text": "Let me look.",
 *                      "tool_calls": [{"id": "c1", "name": "search", "arguments": {"city": "Oslo"}}],
 *                      "stop_reason": "tool_use", "finish": "tool_calls",
 *                      "usage": {"input_tokens": 10, "output_tokens": 5, "cost_micros": 0}},
 *                     {"text": "Rain."}],
 *       "repeat": true}
 *  Only responses is required, of a call its name, and of a response text, tool_calls or finish. Unknown keys and
 *  wrong types are refused. It is the form of tp_script_model_load() (declared.h).
 *  @param json  NUL-terminated.
 *  @param ret_model  as of tp_script_model_new().
 *  @return TP_OK; TP_ERR_MALFORMED with the place: "responses[0].tool_calls[1] needs a name"; as tp_json_decode() and
 *          tp_script_model_new().
 *  Threads: any. */
TP_API tp_status tp_script_model_decode(const char *json, tp_model **ret_model, tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
