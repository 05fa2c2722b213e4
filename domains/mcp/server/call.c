/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "domains/mcp/server/call.h"
#include "support/clock.h"
#include "support/sha256.h"
#include "support/text.h"
#include "turnphase/task.h"

enum { SHOWN_BYTES = 2000, BOUND_BYTES = 240, TURN_ID_BYTES = 48 };

/* ---- the list ---- */

void tp__mcp_call_ref(tp_mcp_call *call) { tp__references_ref(&call->refs); }

static void clear_inputs(tp_mcp_call *call) {
  for (size_t i = 0; i < call->input_count; i++) {
    tp__heap_string_free(call->inputs[i].key);
    tp__heap_string_free(call->inputs[i].method);
    tp__bytes_fini(&call->inputs[i].params);
    tp__bytes_fini(&call->inputs[i].answer);
  }
  memset(call->inputs, 0, sizeof call->inputs);
  call->input_count = 0;
}

static void call_unref(tp_mcp_call *call) {
  if (!tp__references_unref(&call->refs)) return;
  assert(!call->exchange && !call->linked);
  tp_submission_unref(call->submission);
  clear_inputs(call);
  tp__bytes_fini(&call->traceparent);
  tp__bytes_fini(&call->tracestate);
  tp__bytes_fini(&call->kept);
  tp__bytes_fini(&call->error_data);
  tp_mcp_server *server = call->server;
  tp__heap_free(call, sizeof *call);
  tp__lock_acquire(&server->lock); /* the server may be freed after this */
  assert(server->live_count > server->call_count);
  server->live_count--;
  if (server->stops) tp__lock_condition_broadcast(&server->changed); /* else only the worker waits, and not for this */
  tp__lock_release(&server->lock);
}

static void set_parked_locked(tp_mcp_call *call, int64_t until_ms) {
  TP__LOCKED(&call->server->lock);
  assert(call->server->parked_count > 0 || call->parked_until_ms == 0);
  if ((call->parked_until_ms != 0) != (until_ms != 0)) {
    if (until_ms) call->server->parked_count++;
    else call->server->parked_count--;
  }
  call->parked_until_ms = until_ms;
  if (!until_ms) call->nonce[0] = 0;
}

/* The caller then drops the list's reference. */
static void unlink_locked(tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  tp_mcp_server *server = call->server;
  assert(call->linked && server->call_count > 0);
  set_parked_locked(call, 0);
  *(call->previous ? &call->previous->next : &server->calls) = call->next;
  if (call->next) call->next->previous = call->previous;
  server->call_count--;
  call->linked = false;
  if (server->stops) tp__lock_condition_broadcast(&server->changed);
}

static tp_mcp_call *call_new(tp__mcp_exchange *exchange) {
  tp_mcp_server *server = exchange->server;
  tp_mcp_call *call = tp__heap_alloc(sizeof *call);
  if (!call) return NULL;
  call->server = server;
  tp__references_init(&call->refs);
  memcpy(call->principal, exchange->principal, sizeof call->principal);
  if (exchange->meta.traceparent.size > 0) {
    tp__bytes_put_text(&call->traceparent, exchange->meta.traceparent);
    tp__bytes_put_text(&call->tracestate, exchange->meta.tracestate);
  }
  tp__lock_acquire(&server->lock);
  bool is_full = server->call_count >= TP__MCP_CALLS_MAX;
  server->live_count++;
  if (!is_full) {
    call->exchange = exchange;
    call->can = exchange->can;
    call->next = server->calls;
    if (call->next) call->next->previous = call;
    server->calls = call;
    server->call_count++;
    call->linked = true;
  }
  tp__lock_release(&server->lock);
  if (is_full) call_unref(call);
  return is_full ? NULL : call;
}

/* ---- the answer ---- */

static void reply_failed(tp__mcp_exchange *exchange, const tp_mcp_call *call) {
  tp__mcp_reply_error(exchange, call->error_code, call->error_words, tp__bytes_text(&call->error_data));
}

static void reply_kept(tp__mcp_exchange *exchange, tp_mcp_call *call) {
  if (call->failed) reply_failed(exchange, call);
  else tp__mcp_reply_map(exchange, "complete", tp__bytes_text(&call->kept));
}

/* The call has ended with a result, a map, or with the error that it has. Drops the task's or host's reference. */
static void finish(tp_mcp_call *call, tp_text result) {
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  assert(!call->done);
  tp__mcp_exchange *exchange = call->exchange;
  bool is_task = call->task_id[0] != 0;
  bool may_be_asked_for = !exchange && call->linked && call->parked_until_ms != 0 && !server->stops;
  bool is_kept = may_be_asked_for && (is_task || !call->cancelled);
  call->done = true;
  call->updated_ms = tp__wall_ms();
  call->exchange = NULL;
  call->wait_until_ms = 0;
  tp_mcp_inputs_fn on_answers = call->on_answers;
  call->on_answers = NULL;
  if (is_kept && !call->failed) tp__bytes_put_text(&call->kept, result);
  if (call->kept.failed) {
    call->failed = true;
    call->error_code = TP__MCP_INTERNAL_ERROR;
    (void)tp__copy_cut(call->error_words, sizeof call->error_words, tp_text_of("no memory for the result"));
  }
  bool drop = call->linked && !is_kept;
  if (drop) unlink_locked(call);
  tp__lock_release(&server->lock);
  if (on_answers) on_answers(call->answers_ctx, (tp_text){0});
  if (exchange && call->failed) reply_failed(exchange, call);
  else if (exchange) tp__mcp_reply_map(exchange, "complete", result);
  if (drop) call_unref(call);
  call_unref(call);
}

void tp_mcp_call_answer(tp_mcp_call *call, tp_text result) {
  if (!call || call->is_tool) return;
  static const char empty[] = "\x80";
  finish(call, tp_value_kind_of(result) == TP_VALUE_MAP ? result : (tp_text){empty, 1});
}

void tp_mcp_call_fail(tp_mcp_call *call, int64_t code, const char *message, tp_text data) {
  if (!call) return;
  tp__lock_acquire(&call->server->lock);
  bool is_first = !call->failed && !call->done;
  if (is_first) {
    call->failed = true;
    call->error_code = code;
    (void)tp__copy_cut(call->error_words, sizeof call->error_words, tp_text_of(message));
    tp__bytes_put_text(&call->error_data, data);
  }
  tp__lock_release(&call->server->lock);
  if (is_first && !call->is_tool) finish(call, (tp_text){0});
}

/* ---- waits ---- */

static void set_wait_locked(tp_mcp_call *call, uint32_t limit_ms) {
  TP__LOCKED(&call->server->lock);
  tp_mcp_server *server = call->server;
  call->wait_until_ms = tp__monotonic_ms() + limit_ms;
  if (call->wait_until_ms < server->sweep_ms) server->sweep_ms = call->wait_until_ms;
  tp__lock_condition_broadcast(&server->changed);
}

/* What a client that takes tasks has no answer to in time is a task then. */
static void set_task_wait_locked(tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  bool can_wait = call->exchange && (call->exchange->can & TP__MCP_CAN_TASKS);
  if (can_wait) set_wait_locked(call, call->server->options.task_after_ms);
}

/* ---- tools ---- */

static void add_hashed(tp__sha256 *hash, tp_text text) {
  uint64_t size = text.size;
  tp__sha256_add(hash, &size, sizeof size);
  if (text.size > 0) tp__sha256_add(hash, text.data, text.size);
}

/* Two requests that mean the same have the same hash. @return false for arguments that have no form. */
static bool hash_request(tp_mcp_call *call, tp_text method, tp_text name, tp_text arguments) {
  tp_writer *writer = NULL;
  tp_text canonical = {0};
  tp__sha256 hash;
  tp__sha256_init(&hash);
  bool is_written = tp_writer_new(NULL, &writer) == TP_OK;
  if (is_written && arguments.size > 0)
    is_written =
        tp_value_write_canonical(arguments, writer, NULL) == TP_OK && tp_writer_finish(writer, &canonical) == TP_OK;
  add_hashed(&hash, method);
  add_hashed(&hash, name);
  add_hashed(&hash, canonical);
  tp__sha256_finish(&hash, call->hash);
  tp_writer_free(writer);
  return is_written;
}

/* A client refuses a result without the value that the tool's outputSchema promises: it gets an error that says that
 * the tool has run (docs/decisions/output-schemas.md). */
static void end_task(tp_mcp_call *call, bool is_error, tp_text text, tp_text value, tp_text parts) {
  static const char lacks[] =
      "The tool was run, but its structured result, which its outputSchema promises, was left out or never given. ";
  tp_writer *writer = NULL;
  tp_text result = {0};
  tp__bytes words = {0};
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  tp_mcp_version version = call->exchange ? call->exchange->version : TP__MCP_VERSION_NEWEST;
  tp__lock_release(&server->lock);
  if (call->has_output && tp__mcp_content_lacks_value(version, is_error, value)) {
    is_error = true;
    tp__bytes_put_string(&words, lacks);
    tp__bytes_put_text(&words, text);
    text = words.failed ? tp_text_of(lacks) : tp__bytes_text(&words);
  }
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_map(writer, tp__mcp_content_write(NULL, version, is_error, text, value, parts));
    tp__mcp_content_write(writer, version, is_error, text, value, parts);
  }
  if (!writer || tp_writer_finish(writer, &result) != TP_OK)
    tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, "no memory for the result", (tp_text){0});
  finish(call, result);
  tp_writer_free(writer);
  tp__bytes_fini(&words);
}

/* An unknown tool and a call that could not be begun are errors of the protocol; all else is read by the model. */
static void task_ended(void *ctx, const tp_task_result *result) {
  tp_mcp_call *call = ctx;
  if (result->status != TP_OK)
    tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, result->fault ? result->fault->message : "the call could not begin",
                     (tp_text){0});
  else if (result->kind == TP_TOOL_UNKNOWN_TOOL)
    tp_mcp_call_fail(call, TP__MCP_INVALID_PARAMS, "there is no such tool", (tp_text){0});
  tp__lock_acquire(&call->server->lock);
  call->was_cancelled = result->kind == TP_TOOL_CANCELLED;
  tp__lock_release(&call->server->lock);
  end_task(call, result->kind != TP_TOOL_OK, result->text, result->value, result->parts);
}

static void set_submission(tp_mcp_call *call, tp_submission *submission) {
  tp__lock_acquire(&call->server->lock);
  call->submission = submission;
  bool cancelled = call->cancelled;
  tp__lock_release(&call->server->lock);
  if (cancelled) tp_submission_cancel(submission);
}

static void task_asks(void *ctx, const tp_task_result *result);

/* Of a call about which a person may be asked: the same when the client makes it again, also after this process has
 * ended, so that the channel finds the answer to what was asked before. */
static const char *name_turn(const tp_mcp_call *call, char id[TURN_ID_BYTES]) {
  char hex[TP__MCP_HASH_BYTES];
  tp__sha256 hash;
  tp__sha256_init(&hash);
  add_hashed(&hash, tp_text_of(call->principal));
  add_hashed(&hash, tp_text_of(call->hash));
  tp__sha256_finish(&hash, hex);
  snprintf(id, TURN_ID_BYTES, "mcp-%.32s", hex);
  return id;
}

static void submit(tp_mcp_call *call, const char *tool, tp_text arguments) {
  char id[TURN_ID_BYTES];
  tp_turn_request request = {.struct_size = sizeof request, .data = call, .triggered_by = "mcp"};
  if (call->server->options.has_channel) request.id = name_turn(call, id);
  tp_task_spec spec = {.struct_size = sizeof spec,
                       .tool = tool,
                       .arguments = arguments,
                       .request = &request,
                       .on_asked = task_asks,
                       .on_asked_ctx = call};
  tp_submission *submission = NULL;
  tp_fault fault = {0};
  tp__mcp_call_ref(call); /* of this function */
  tp__lock_acquire(&call->server->lock);
  set_task_wait_locked(call);
  tp__lock_release(&call->server->lock);
  tp_status status = tp_task_submit(call->server->runtime, TP_TASK_CALL, &spec, task_ended, call, &submission, &fault);
  if (status == TP_OK) {
    set_submission(call, submission);
  } else {
    tp_mcp_call_fail(call, status == TP_ERR_USAGE ? TP__MCP_INVALID_PARAMS : TP__MCP_INTERNAL_ERROR, fault.message,
                     (tp_text){0});
    finish(call, (tp_text){0});
  }
  call_unref(call);
}

/* ---- a request that is repeated ---- */

static void bind_state(const tp_mcp_call *call, char text[BOUND_BYTES]) {
  snprintf(text, BOUND_BYTES, "%s|%s", call->principal, call->hash);
}

/* @return with a reference; NULL: none. */
static tp_mcp_call *find_parked(tp_mcp_server *server, const tp_mcp_call *like, const char *nonce) {
  tp__lock_acquire(&server->lock);
  tp_mcp_call *found = server->parked_count > 0 ? server->calls : NULL;
  for (; found; found = found->next) {
    bool is_same = found != like && found->parked_until_ms != 0 && strcmp(found->hash, like->hash) == 0 &&
                   strcmp(found->principal, like->principal) == 0;
    bool is_meant = found->task_id[0] == 0 || (!found->done && (like->can & TP__MCP_CAN_TASKS));
    if (nonce ? is_same && strcmp(found->nonce, nonce) == 0
              : is_same && is_meant && found->question_key[0] != 0 && !found->nonce[0])
      break;
  }
  if (found) tp__mcp_call_ref(found);
  tp__lock_release(&server->lock);
  return found;
}

static void ask_inputs(tp_mcp_call *call);

/* Takes what the client says to what it was asked for. @return NULL, or what is wrong with it. */
const char *tp__mcp_call_take_responses_locked(tp_mcp_call *call, tp_text responses) {
  TP__LOCKED(&call->server->lock);
  for (size_t i = 0; i < call->input_count; i++) {
    tp_text response = tp_value_get(responses, call->inputs[i].key);
    if (response.size == 0 || call->inputs[i].answered) continue;
    if (tp_value_kind_of(response) != TP_VALUE_MAP) return "each of inputResponses is an object";
    tp__bytes_put_text(&call->inputs[i].answer, response);
    call->inputs[i].answered = true;
  }
  return NULL;
}

/* The parked call goes on with this exchange. The caller's reference of it is dropped. */
static void attach(tp_mcp_call *call, tp__mcp_exchange *exchange, bool has_state) {
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  bool is_taken = call->parked_until_ms == 0; /* another repetition was faster */
  const char *wrong = NULL;
  if (!is_taken && has_state && !call->done)
    wrong = tp__mcp_call_take_responses_locked(call, tp_value_get(exchange->params, "inputResponses"));
  bool is_done = !is_taken && !wrong && call->done;
  bool asks = !is_taken && !wrong && !is_done && call->on_answers;
  if (is_done) unlink_locked(call);
  else if (!is_taken && !wrong) {
    set_parked_locked(call, 0);
    call->exchange = exchange;
    call->can = exchange->can;
    if (has_state) set_task_wait_locked(call);
    else set_wait_locked(call, server->options.ask_wait_ms);
  }
  tp__lock_release(&server->lock);
  if (is_taken || wrong)
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, wrong ? wrong : "this requestState was used", (tp_text){0});
  else if (is_done) {
    reply_kept(exchange, call);
    call_unref(call);
  } else if (asks) {
    ask_inputs(call);
  }
  call_unref(call);
}

static bool is_task_of(const tp_mcp_call *call) {
  tp__lock_acquire(&call->server->lock);
  bool is_task = call->task_id[0] != 0;
  tp__lock_release(&call->server->lock);
  return is_task;
}

/* @return true: the request is a repetition, and its exchange was taken. `call` is only what it would be. */
static bool repeat(tp_mcp_call *call, tp__mcp_exchange *exchange) {
  tp_mcp_server *server = exchange->server;
  tp_text state = tp_value_get(exchange->params, "requestState");
  char bound[BOUND_BYTES], nonce[33];
  tp_mcp_call *parked = NULL;
  if (state.size == 0) {
    parked = call->is_tool ? find_parked(server, call, NULL) : NULL;
    bool is_task = parked && is_task_of(parked); /* which it stays */
    if (is_task) tp__mcp_task_reply(parked, exchange);
    if (is_task) call_unref(parked);
    else if (parked) attach(parked, exchange, false);
    return parked != NULL;
  }
  bind_state(call, bound);
  if (tp__mcp_state_read(server->secret, tp_value_text(state), tp__wall_ms(), bound, nonce))
    parked = find_parked(server, call, nonce);
  if (parked) attach(parked, exchange, true);
  else
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, "this requestState was used, is too old, or is not ours",
                        (tp_text){0});
  return true;
}

/* Drops a call that did not begin: its exchange lives on. */
static void abandon(tp_mcp_call *call) {
  tp__lock_acquire(&call->server->lock);
  call->exchange = NULL;
  call->done = true;
  unlink_locked(call);
  tp__lock_release(&call->server->lock);
  call_unref(call);
}

static const char *check_params(const tp__mcp_exchange *exchange, tp_text name, tp_text arguments) {
  tp_text responses = tp_value_get(exchange->params, "inputResponses");
  tp_value_walk walk = {0};
  if (name.size == 0) return "the request has no name, or uri";
  if (arguments.size > 0 && tp_value_kind_of(arguments) != TP_VALUE_MAP) return "arguments is an object";
  if (responses.size > 0 && tp_value_kind_of(responses) != TP_VALUE_MAP) return "inputResponses is an object";
  while (tp_value_next(responses, &walk))
    if (tp_value_kind_of(walk.value) != TP_VALUE_MAP) return "each of inputResponses is an object";
  return NULL;
}

/* @return the call of a request that is not a repetition; NULL: the exchange was taken. */
static tp_mcp_call *begin(tp__mcp_exchange *exchange, tp_text name, tp_text arguments, bool is_tool) {
  const char *wrong = check_params(exchange, name, arguments);
  if (wrong) {
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, wrong, (tp_text){0});
    return NULL;
  }
  tp_mcp_call *call = call_new(exchange);
  if (!call) {
    tp__mcp_reply_error(exchange, TP__MCP_INTERNAL_ERROR, "too many calls at once: try again later", (tp_text){0});
    return NULL;
  }
  call->is_tool = is_tool;
  if (hash_request(call, exchange->method, name, arguments) && !repeat(call, exchange)) return call;
  abandon(call);
  return NULL;
}

void tp__mcp_call_tool(tp__mcp_exchange *exchange) {
  tp_text name = tp_value_text(tp_value_get(exchange->params, "name"));
  tp_text arguments = tp_value_get(exchange->params, "arguments");
  tp__bytes tool = {0};
  if (tp_value_kind_of(arguments) == TP_VALUE_NULL) arguments.size = 0;
  tp_mcp_call *call = begin(exchange, name, arguments, true);
  if (!call) return;
  tp__mcp_call_ref(call); /* the task's */
  if (tp__mcp_tool_find(call->server, name, &tool, NULL, &call->has_output)) {
    submit(call, tp__bytes_string(&tool), arguments);
  } else {
    tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, "no memory for the call", (tp_text){0});
    finish(call, (tp_text){0});
  }
  tp__bytes_fini(&tool);
}

/* ---- prompts, resources, completions ---- */

void tp__mcp_call_host(tp__mcp_exchange *exchange) {
  bool is_resource = tp__is_word(exchange->method, "resources/read");
  bool is_prompt = tp__is_word(exchange->method, "prompts/get");
  tp_text params = exchange->params;
  tp_text name =
      is_resource || is_prompt ? tp_value_text(tp_value_get(params, is_resource ? "uri" : "name")) : exchange->method;
  tp_mcp_call *call = begin(exchange, name, is_prompt ? tp_value_get(params, "arguments") : (tp_text){0}, false);
  if (!call) return;
  tp__mcp_call_ref(call); /* the host's */
  (void)tp__mcp_work_add(exchange->server, TP__MCP_WORK_HOST, NULL, call);
}

void tp__mcp_call_run_host(tp_mcp_call *call) {
  const tp_mcp_server_options *o = &call->server->options;
  tp__lock_acquire(&call->server->lock);
  tp__mcp_exchange *exchange = call->exchange;
  tp_text method = {0}, params = {0};
  tp__bytes copy = {0};
  if (exchange) { /* what the host reads stays, though the client leaves meanwhile */
    method = exchange->method;
    params = exchange->params;
    tp__bytes_put_text(&copy, method);
    tp__bytes_put_text(&copy, params);
  }
  tp__lock_release(&call->server->lock);
  if (!exchange || copy.failed) {
    finish(call, (tp_text){0});
    tp__bytes_fini(&copy);
    return;
  }
  method = (tp_text){copy.data, method.size};
  params = (tp_text){copy.data + method.size, params.size};
  if (tp__is_word(method, "prompts/get"))
    o->get_prompt(o->ctx, call, tp_value_text(tp_value_get(params, "name")), tp_value_get(params, "arguments"));
  else if (tp__is_word(method, "resources/read"))
    o->read_resource(o->ctx, call, tp_value_text(tp_value_get(params, "uri")));
  else o->complete(o->ctx, call, params);
  tp__bytes_fini(&copy);
}

/* ---- what a client is asked for ---- */

static unsigned can_of_method(const char *method, tp_text params, const char **ret_name) {
  bool is_url = tp__is_word(tp_value_text(tp_value_get(params, "mode")), "url");
  *ret_name = strcmp(method, "sampling/createMessage") == 0 ? "sampling"
              : strcmp(method, "roots/list") == 0           ? "roots"
                                                            : "elicitation";
  if (strcmp(method, "sampling/createMessage") == 0) return TP__MCP_CAN_SAMPLE;
  if (strcmp(method, "roots/list") == 0) return TP__MCP_CAN_ROOTS;
  if (strcmp(method, "elicitation/create") == 0) return is_url ? TP__MCP_CAN_URL : TP__MCP_CAN_FORM;
  return 0;
}

static void write_request(tp_writer *writer, const void *ctx) {
  const tp__mcp_asked_input *in = ctx;
  if (in->params.size > 0) tp_write_value(writer, tp__bytes_text(&in->params));
  else tp_write_map(writer, 0);
}

void tp__mcp_call_write_inputs(tp_writer *writer, const tp_mcp_call *call) {
  size_t open = 0;
  for (size_t i = 0; i < call->input_count; i++) open += !call->inputs[i].answered;
  tp_write_map(writer, open);
  for (size_t i = 0; i < call->input_count; i++) {
    const tp__mcp_asked_input *in = &call->inputs[i];
    if (in->answered) continue;
    tp_write_string(writer, in->key);
    tp_write_map(writer, 2);
    tp_write_string(writer, "method");
    tp_write_string(writer, in->method);
    tp_write_string(writer, "params");
    write_request(writer, in);
  }
}

static void write_inputs(tp_writer *writer, const void *ctx) {
  const tp_mcp_call *call = ctx;
  char bound[BOUND_BYTES], state[TP__MCP_STATE_BYTES];
  tp_write_string(writer, "inputRequests");
  tp__mcp_call_write_inputs(writer, call);
  bind_state(call, bound);
  tp__mcp_state_write(call->server->secret, call->nonce, tp__wall_ms() + TP__MCP_PARKED_MS, bound, state);
  tp_write_string(writer, "requestState");
  tp_write_string(writer, state);
}

static void send_requests_locked(tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  for (size_t i = 0; i < call->input_count; i++) {
    tp__mcp_asked_input *in = &call->inputs[i];
    tp_writer *writer = NULL;
    tp_text json = {0};
    if (in->answered || in->request != 0) continue;
    in->request = ++call->server->next_request;
    if (tp_writer_new(NULL, &writer) != TP_OK) continue; /* it is answered when the call's time is over */
    tp__mcp_begin_request(writer, in->request, in->method);
    write_request(writer, in);
    if (tp__mcp_encode(writer, &json, NULL) == TP_OK)
      call->exchange->sink->send(call->exchange->sink, json, false, 200);
    tp_writer_free(writer);
  }
}

bool tp__mcp_call_is_answered_locked(const tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  for (size_t i = 0; i < call->input_count; i++)
    if (!call->inputs[i].answered) return false;
  return true;
}

/* Passes on what came, once. */
void tp__mcp_call_deliver(tp_mcp_call *call) {
  tp_writer *writer = NULL;
  tp_text answers = {0};
  tp__lock_acquire(&call->server->lock);
  tp_mcp_inputs_fn on_answers = call->on_answers;
  void *ctx = call->answers_ctx;
  call->on_answers = NULL;
  if (on_answers && tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_array(writer, call->input_count);
    for (size_t i = 0; i < call->input_count; i++) {
      if (call->inputs[i].answer.size > 0) tp_write_value(writer, tp__bytes_text(&call->inputs[i].answer));
      else tp_write_null(writer);
    }
    if (!tp__mcp_call_is_answered_locked(call) || tp_writer_finish(writer, &answers) != TP_OK) answers = (tp_text){0};
  }
  clear_inputs(call);
  tp__lock_release(&call->server->lock);
  if (on_answers) on_answers(ctx, answers);
  tp_writer_free(writer);
}

/* Asks for what is not answered yet, or passes on what is. */
static void ask_inputs(tp_mcp_call *call) {
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  bool is_answered = tp__mcp_call_is_answered_locked(call);
  tp__mcp_exchange *parked = NULL;
  if (!is_answered && call->exchange && tp__mcp_version_has(call->exchange->version, TP__MCP_HAS_META)) {
    parked = call->exchange;
    call->exchange = NULL;
    set_parked_locked(call, tp__monotonic_ms() + TP__MCP_PARKED_MS);
    if (!tp__mcp_random(call->nonce)) call->parked_until_ms = 1; /* nothing can repeat it */
    tp__mcp_reply(parked, "input_required", false, 2, write_inputs, call);
  } else if (!is_answered && call->exchange) {
    send_requests_locked(call);
  }
  tp__lock_release(&server->lock);
  if (is_answered) tp__mcp_call_deliver(call);
}

static tp_status check_inputs_locked(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count,
                                     tp_fault *fault) {
  TP__LOCKED(&call->server->lock);
  if (call->done || call->cancelled || (!call->exchange && !call->task_id[0]))
    return tp__refuse(fault, TP_ERR_STALE, NULL, "the call was answered, or its client has left");
  if (count == 0 || count > TP__MCP_INPUTS_MAX || call->on_answers)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "1 to %d inputs at a time", TP__MCP_INPUTS_MAX);
  if (call->server->parked_count >= TP__MCP_PARKED_MAX)
    return tp__refuse(fault, TP_ERR_FULL, NULL, "too many calls wait for their clients");
  for (size_t i = 0; i < count; i++) {
    const char *name = "";
    tp_mcp_input in;
    tp_status status = tp__struct_read(&in, sizeof in, inputs[i], "tp_mcp_input", fault);
    if (status != TP_OK) return status;
    if (!in.key || !in.method) return tp__refuse(fault, TP_ERR_USAGE, NULL, "an input has a key and a method");
    unsigned can = can_of_method(in.method, in.params, &name);
    if (!can) return tp__refuse(fault, TP_ERR_USAGE, in.method, "is nothing that a client is asked for");
    if (!(call->can & can)) return tp__refuse(fault, TP_ERR_CAPABILITY, name, "the client did not declare it");
  }
  return TP_OK;
}

static tp_status take_inputs_locked(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count,
                                    tp_fault *fault) {
  TP__LOCKED(&call->server->lock);
  bool failed = false, is_again = call->task_id[0] && call->batches++ > 0;
  char key[160];
  for (size_t i = 0; i < count; i++) {
    tp__mcp_asked_input *in = &call->inputs[call->input_count++];
    if (is_again) snprintf(key, sizeof key, "%.120s-%u", inputs[i]->key, (unsigned)call->batches);
    in->key = tp__heap_copy(tp_text_of(is_again ? key : inputs[i]->key)); /* no key of a task comes back */
    in->method = tp__heap_copy(tp_text_of(inputs[i]->method));
    tp__bytes_put_text(&in->params, inputs[i]->params);
    failed |= !in->key || !in->method || in->params.failed;
  }
  if (!failed) return TP_OK;
  clear_inputs(call);
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to ask the client");
}

/* @param may_know  answers that came with the request count, though the client was not asked yet. */
static tp_status ask(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count, bool may_know,
                     tp_mcp_inputs_fn on_answers, void *ctx, tp_fault *fault) {
  tp__lock_acquire(&call->server->lock);
  tp_status status = check_inputs_locked(call, inputs, count, fault);
  if (status == TP_OK) status = take_inputs_locked(call, inputs, count, fault);
  if (status == TP_OK) {
    call->on_answers = on_answers;
    call->answers_ctx = ctx;
    call->updated_ms = tp__wall_ms();
    if (may_know && call->exchange && tp_value_get(call->exchange->params, "requestState").size == 0)
      (void)tp__mcp_call_take_responses_locked(call, tp_value_get(call->exchange->params, "inputResponses"));
  }
  tp__lock_release(&call->server->lock);
  if (status == TP_OK) ask_inputs(call);
  return status;
}

tp_status tp_mcp_call_ask(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count,
                          tp_mcp_inputs_fn on_answers, void *ctx, tp_fault *fault) {
  if (!call || !inputs || !on_answers)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_mcp_call_ask() needs a call, inputs and on_answers");
  return ask(call, inputs, count, true, on_answers, ctx, fault);
}

tp_mcp_call *tp__mcp_call_find(tp_mcp_server *server, const void *data) {
  tp__lock_acquire(&server->lock);
  tp_mcp_call *call = server->calls; /* the data may be another host's: it is compared only */
  while (call && call != data) call = call->next;
  if (call) tp__mcp_call_ref(call);
  tp__lock_release(&server->lock);
  return call;
}

void tp__mcp_call_unref(tp_mcp_call *call) { call_unref(call); }

void tp__mcp_call_trace(tp_mcp_call *call, tp__bytes *traceparent, tp__bytes *tracestate) {
  if (call->traceparent.size == 0 || call->traceparent.failed || call->tracestate.failed) return;
  tp__bytes_put_text(traceparent, tp__bytes_text(&call->traceparent));
  tp__bytes_put_text(tracestate, tp__bytes_text(&call->tracestate));
}

bool tp__mcp_call_pass_on(tp_mcp_call *call, const char *method, tp_text params, tp_mcp_inputs_fn on_answer,
                          void *ctx) {
  const tp_mcp_input wanted = {.struct_size = sizeof wanted, .key = "asked", .method = method, .params = params};
  const tp_mcp_input *const inputs[] = {&wanted};
  return ask(call, inputs, 1, false, on_answer, ctx, NULL) == TP_OK;
}

bool tp_mcp_call_can(tp_mcp_call *call, const char *capability) {
  if (!call || !capability) return false;
  unsigned wanted = strcmp(capability, "elicitation") == 0 ? TP__MCP_CAN_FORM | TP__MCP_CAN_URL
                    : strcmp(capability, "sampling") == 0  ? TP__MCP_CAN_SAMPLE
                    : strcmp(capability, "roots") == 0     ? TP__MCP_CAN_ROOTS
                    : strcmp(capability, "tasks") == 0     ? TP__MCP_CAN_TASKS
                                                           : 0;
  tp__lock_acquire(&call->server->lock);
  bool can = (call->exchange || call->task_id[0]) && (call->can & wanted);
  tp__lock_release(&call->server->lock);
  return can;
}

void tp__mcp_call_answered(tp_mcp_server *server, const char *principal, const tp__mcp_message *message) {
  int64_t id = tp__mcp_id_number(message->id);
  tp_mcp_call *found = NULL;
  bool is_whole = false;
  tp__lock_acquire(&server->lock);
  for (tp_mcp_call *call = server->calls; call && !found && id > 0; call = call->next) {
    if (strcmp(call->principal, principal) != 0) continue;
    for (size_t i = 0; i < call->input_count && !found; i++) {
      tp__mcp_asked_input *in = &call->inputs[i];
      if (in->request != id || in->answered) continue;
      if (message->kind == TP__MCP_RESULT) tp__bytes_put_text(&in->answer, message->result);
      in->answered = true;
      found = call;
    }
  }
  if (found) {
    tp__mcp_call_ref(found);
    is_whole = tp__mcp_call_is_answered_locked(found);
  }
  tp__lock_release(&server->lock);
  if (is_whole) tp__mcp_call_deliver(found);
  if (found) call_unref(found);
}

/* ---- a gate that asks ---- */

static void answer_question(tp_mcp_call *call, bool allow, const char *reason) {
  tp__lock_acquire(&call->server->lock);
  tp_token token = call->question;
  tp_decision decision = {.struct_size = sizeof decision,
                          .verdict = allow ? TP_VERDICT_ALLOW : TP_VERDICT_DENY,
                          .arguments_hash = tp_text_of(call->question_hash),
                          .reason = tp_text_of(reason),
                          .person = tp_text_of(call->principal)};
  tp__lock_release(&call->server->lock);
  (void)!tp_question_answer(token, &decision, NULL); /* stale: the channel was faster, or it is over */
}

static void client_decided(void *ctx, tp_text answers) {
  tp_mcp_call *call = ctx;
  tp_text answer = tp_value_at(answers, 0);
  bool is_accepted = tp__is_word(tp_value_text(tp_value_get(answer, "action")), "accept");
  bool allow = is_accepted && tp_value_bool(tp_value_get(tp_value_get(answer, "content"), "allow"), false);
  answer_question(call, allow, allow ? "" : answers.size ? "the user did not allow it" : "the user did not answer");
}

static bool write_form(tp_writer *writer, const tp_question *question) {
  static const char schema[] =
      "{\"type\":\"object\",\"properties\":{\"allow\":{\"type\":\"boolean\",\"title\":\"Allow this call\","
      "\"default\":false}},\"required\":[\"allow\"]}";
  tp_writer *json = NULL;
  tp_text arguments = {0};
  tp__bytes message = {0};
  if (tp_writer_new(NULL, &json) != TP_OK) return false;
  if (question->call->arguments.size > 0 && tp_json_encode(question->call->arguments, json, &arguments, NULL) != TP_OK)
    arguments = (tp_text){0};
  tp__bytes_printf(&message, "Allow %.*s", (int)question->call->name.size, question->call->name.data);
  if (arguments.size > 0)
    tp__bytes_printf(&message, " with %.*s%s", tp__cut(arguments, SHOWN_BYTES), arguments.data,
                     arguments.size > SHOWN_BYTES ? " … (cut)" : "");
  if (question->reason.size > 0)
    tp__bytes_printf(&message, "?\n%.*s", tp__cut(question->reason, SHOWN_BYTES), question->reason.data);
  else tp__bytes_put_string(&message, "?");
  tp_write_map(writer, 2);
  tp_write_string(writer, "message");
  tp_write_text(writer, tp__bytes_text(&message));
  tp_write_string(writer, "requestedSchema");
  bool is_written = !message.failed && tp_json_decode(tp_text_of(schema), writer, NULL) == TP_OK;
  tp__bytes_fini(&message);
  tp_writer_free(json);
  return is_written;
}

static bool ask_client(tp_mcp_call *call, const tp_question *question) {
  tp_writer *writer = NULL;
  tp_mcp_input one = {.struct_size = sizeof one, .key = "approval", .method = "elicitation/create"};
  bool asked = tp_writer_new(NULL, &writer) == TP_OK && write_form(writer, question) &&
               tp_writer_finish(writer, &one.params) == TP_OK;
  const tp_mcp_input *ones[] = {&one};
  if (asked) asked = ask(call, ones, 1, false, client_decided, call, NULL) == TP_OK;
  tp_writer_free(writer);
  return asked;
}

/* On the thread that owns the turn. */
static void task_asks(void *ctx, const tp_task_result *result) {
  tp_mcp_call *call = ctx;
  const tp_question *question = result->question;
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  call->question = question->token;
  snprintf(call->question_key, sizeof call->question_key, "%.*s", (int)question->key.size, question->key.data);
  snprintf(call->question_hash, sizeof call->question_hash, "%.*s", (int)question->arguments_hash.size,
           question->arguments_hash.data);
  bool has_client = call->exchange || call->task_id[0], can = has_client && (call->can & TP__MCP_CAN_FORM);
  tp__lock_release(&server->lock);
  if (can && ask_client(call, question)) return;
  if (!server->options.has_channel) {
    answer_question(call, false,
                    "a person must allow it, and none can be asked: the client shows no forms, and the server has no "
                    "other channel");
    return;
  }
  tp__lock_acquire(&server->lock);
  set_wait_locked(call, call->can & TP__MCP_CAN_TASKS ? 0 : server->options.ask_wait_ms); /* a task at once */
  tp__lock_release(&server->lock);
}

/* ---- the end of a wait ---- */

/* No person has answered in time: the client gets the key, and the call waits on. */
static void answer_waiting(tp_mcp_call *call, tp__mcp_exchange *exchange) {
  char words[400];
  snprintf(words, sizeof words,
           "needs approval: %s. A person was asked and has not answered yet. When it is allowed the call runs once; "
           "make the same call again to wait for its result.",
           call->question_key);
  tp_writer *writer = NULL;
  tp_text map = {0};
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_map(writer,
                 tp__mcp_content_write(NULL, exchange->version, true, tp_text_of(words), (tp_text){0}, (tp_text){0}));
    tp__mcp_content_write(writer, exchange->version, true, tp_text_of(words), (tp_text){0}, (tp_text){0});
    (void)!tp_writer_finish(writer, &map);
  }
  tp__mcp_reply_map(exchange, "complete", map);
  tp_writer_free(writer);
}

typedef enum late { LATE_NOT, LATE_WAIT, LATE_TASK, LATE_PARKED, LATE_KEPT } late;

static late is_late_locked(tp_mcp_call *call, int64_t now_ms) {
  TP__LOCKED(&call->server->lock);
  if (call->exchange && call->wait_until_ms != 0 && now_ms >= call->wait_until_ms)
    return call->exchange->can & TP__MCP_CAN_TASKS ? LATE_TASK : LATE_WAIT;
  if (call->parked_until_ms == 0 || now_ms < call->parked_until_ms) return LATE_NOT;
  return call->done ? LATE_KEPT : LATE_PARKED;
}

/* @return false: it waits on, as without tasks. */
static bool begin_task_locked(tp_mcp_call *call, int64_t now_ms) {
  TP__LOCKED(&call->server->lock);
  bool is_begun = call->server->parked_count < TP__MCP_PARKED_MAX && tp__mcp_task_begin_locked(call);
  if (is_begun) set_parked_locked(call, now_ms + TP__MCP_TASK_MS);
  else call->wait_until_ms = 0;
  return is_begun;
}

/* Takes the next call that has waited long enough. @return NULL: none; with a reference. */
static tp_mcp_call *take_late(tp_mcp_server *server, int64_t now_ms, late *ret_late, tp__mcp_exchange **ret_exchange) {
  tp__lock_acquire(&server->lock);
  tp_mcp_call *call = server->calls;
  *ret_exchange = NULL;
  for (; call; call = call->next) {
    *ret_late = is_late_locked(call, now_ms);
    if (*ret_late == LATE_TASK && !begin_task_locked(call, now_ms)) *ret_late = LATE_NOT;
    if (*ret_late != LATE_NOT) break;
    bool waits = call->exchange && call->wait_until_ms != 0;
    if (waits && call->wait_until_ms < server->sweep_ms) server->sweep_ms = call->wait_until_ms;
  }
  if (call) tp__mcp_call_ref(call);
  if (call && (*ret_late == LATE_WAIT || *ret_late == LATE_TASK)) {
    *ret_exchange = call->exchange;
    call->exchange = NULL;
    call->wait_until_ms = 0;
    if (*ret_late == LATE_WAIT) set_parked_locked(call, now_ms + TP__MCP_PARKED_MS * 3); /* its question ends first */
  } else if (call && *ret_late == LATE_PARKED) {
    call->cancelled = true;
    set_parked_locked(call, 0);
  } else if (call) {
    unlink_locked(call);
  }
  tp__lock_release(&server->lock);
  return call;
}

/* Drops the caller's reference. */
void tp__mcp_call_stop(tp_mcp_call *call, tp__mcp_exchange *exchange) {
  tp__mcp_call_deliver(call);
  tp__lock_acquire(&call->server->lock);
  tp_submission *submission = call->submission;
  tp__lock_release(&call->server->lock);
  tp_submission_cancel(submission);
  if (exchange) exchange->sink->drop(exchange->sink);
  tp__mcp_exchange_free(exchange);
  call_unref(call);
}

void tp__mcp_call_sweep(tp_mcp_server *server) {
  int64_t now_ms = tp__monotonic_ms();
  tp__mcp_exchange *exchange;
  late how = LATE_NOT;
  for (tp_mcp_call *call; (call = take_late(server, now_ms, &how, &exchange));) {
    if (how == LATE_WAIT) answer_waiting(call, exchange);
    if (how == LATE_TASK) tp__mcp_task_reply(call, exchange);
    if (how == LATE_KEPT) call_unref(call); /* the list's */
    if (how == LATE_PARKED) tp__mcp_call_stop(call, NULL);
    else call_unref(call);
  }
}

/* ---- cancel ---- */

/* @return with a reference. */
static tp_mcp_call *take_cancelled(tp_mcp_server *server, const tp__mcp_sink *sink,
                                   const tp__mcp_server_session *session, tp_text id, bool all,
                                   tp__mcp_exchange **ret_exchange) {
  tp__lock_acquire(&server->lock);
  tp_mcp_call *call = server->calls;
  for (; call; call = call->next) {
    tp__mcp_exchange *e = call->exchange;
    if (all && !call->cancelled && !call->done) break;
    if (all || !e || call->cancelled) continue;
    bool is_of = session ? e->session == session : e->sink == sink;
    if (is_of && (id.size == 0 || tp__mcp_id_equal(e->id, id))) break;
  }
  *ret_exchange = NULL;
  if (call) {
    call->cancelled = true;
    *ret_exchange = call->exchange;
    call->exchange = NULL;
    call->wait_until_ms = 0;
    tp__mcp_call_ref(call);
  }
  tp__lock_release(&server->lock);
  return call;
}

/* A stream of subscriptions/listen ends as a call does. */
static void end_listener(tp_mcp_server *server, const tp__mcp_sink *sink, tp_text id) {
  tp__lock_acquire(&server->lock);
  tp__mcp_listener **at = &server->listeners;
  while (*at && !((*at)->exchange->sink == sink && (id.size == 0 || tp__mcp_id_equal((*at)->exchange->id, id))))
    at = &(*at)->next;
  tp__mcp_listener *listener = *at;
  if (listener) *at = listener->next;
  tp__lock_release(&server->lock);
  if (!listener) return;
  listener->exchange->sink->drop(listener->exchange->sink);
  tp__mcp_exchange_free(listener->exchange);
  tp__heap_free(listener, sizeof *listener);
}

void tp__mcp_call_cancel(tp_mcp_server *server, const tp__mcp_sink *sink, const tp__mcp_server_session *session,
                         tp_text id) {
  tp__mcp_exchange *exchange;
  if (id.size == 0) return;
  tp_mcp_call *call = take_cancelled(server, sink, session, id, false, &exchange);
  if (call) tp__mcp_call_stop(call, exchange);
  else end_listener(server, sink, id);
}

void tp__mcp_call_left(tp_mcp_server *server, const tp__mcp_sink *sink) {
  tp__mcp_exchange *exchange;
  for (tp_mcp_call *call; (call = take_cancelled(server, sink, NULL, (tp_text){0}, false, &exchange));)
    tp__mcp_call_stop(call, exchange);
  end_listener(server, sink, (tp_text){0});
}

void tp__mcp_call_cancel_all(tp_mcp_server *server) {
  tp__mcp_exchange *exchange;
  for (tp_mcp_call *call; (call = take_cancelled(server, NULL, NULL, (tp_text){0}, true, &exchange));) {
    if (exchange) {
      tp__mcp_reply_error(exchange, TP__MCP_INTERNAL_ERROR, "the server is stopping", (tp_text){0});
      exchange = NULL;
    }
    tp__mcp_call_stop(call, NULL);
  }
  for (;;) {
    tp__lock_acquire(&server->lock);
    tp__mcp_sink *sink = server->listeners ? server->listeners->exchange->sink : NULL;
    if (sink) tp__mcp_sink_ref(sink);
    tp__lock_release(&server->lock);
    if (!sink) return;
    end_listener(server, sink, (tp_text){0});
    tp__mcp_sink_unref(sink);
  }
}

void tp__mcp_call_drop_kept(tp_mcp_server *server) {
  for (;;) {
    tp__lock_acquire(&server->lock);
    tp_mcp_call *call = server->calls;
    while (call && !(call->done && call->parked_until_ms != 0)) call = call->next;
    if (call) unlink_locked(call);
    tp__lock_release(&server->lock);
    if (!call) return;
    call_unref(call);
  }
}

/* ---- progress and log ---- */

tp_mcp_call *tp_mcp_call_of(const tp_tool_run *run) { return run ? tp_tool_run_data(run, TP_ID_TURN) : NULL; }

typedef struct progress_of {
  tp_text token;
  double progress, total;
  tp_text message;
} progress_of;

static void write_progress(tp_writer *writer, const void *ctx) {
  const progress_of *p = ctx;
  tp_write_string(writer, "progressToken");
  tp_write_value(writer, p->token);
  tp_write_string(writer, "progress");
  tp_write_double(writer, p->progress);
  if (p->total > 0) tp_write_string(writer, "total"), tp_write_double(writer, p->total);
  if (p->message.size > 0) tp_write_string(writer, "message"), tp_write_text(writer, p->message);
}

static void send_progress_locked(const tp_mcp_call *call, double progress, double total, tp_text message) {
  TP__LOCKED(&call->server->lock);
  const tp__mcp_exchange *e = call->exchange;
  if (!e || e->meta.progress_token.size == 0) return;
  if (!tp__mcp_version_has(e->version, TP__MCP_HAS_STREAMS)) message = (tp_text){0};
  progress_of p = {e->meta.progress_token, progress, total, message};
  tp__mcp_send_notification(e->sink, "notifications/progress", 2U + (total > 0) + (message.size > 0), write_progress,
                            &p);
}

void tp_mcp_call_progress(tp_mcp_call *call, double progress, double total, const char *message) {
  if (!call) return;
  tp__lock_acquire(&call->server->lock);
  send_progress_locked(call, progress, total, tp_text_of(message));
  tp__lock_release(&call->server->lock);
}

void tp__mcp_call_progressed(tp_mcp_server *server, const void *data, double progress, double total, tp_text message) {
  tp_mcp_call *call = tp__mcp_call_find(server, data);
  if (!call) return;
  tp__lock_acquire(&server->lock);
  send_progress_locked(call, progress, total, message);
  tp__lock_release(&server->lock);
  call_unref(call);
}

typedef struct line_of {
  const char *level, *logger;
  tp_text data;
} line_of;

static void write_line(tp_writer *writer, const void *ctx) {
  const line_of *line = ctx;
  tp_write_string(writer, "level");
  tp_write_string(writer, line->level);
  if (line->logger) tp_write_string(writer, "logger"), tp_write_string(writer, line->logger);
  tp_write_string(writer, "data");
  tp_write_value(writer, line->data);
}

void tp_mcp_call_log(tp_mcp_call *call, const char *level, const char *logger, tp_text data) {
  int number = call && level ? tp__mcp_level(tp_text_of(level)) : -1;
  if (number < 0 || data.size == 0) return;
  line_of line = {level, logger, data};
  tp__lock_acquire(&call->server->lock);
  const tp__mcp_exchange *e = call->exchange;
  if (e && number >= e->log_level)
    tp__mcp_send_notification(e->sink, "notifications/message", 2U + (logger != NULL), write_line, &line);
  tp__lock_release(&call->server->lock);
}
