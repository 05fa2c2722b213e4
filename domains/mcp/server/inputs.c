/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs: asks the client of a call for inputs: forms, samples, roots. In versions with sessions the server sends
 * requests; in others it answers with the result input_required. */
#include <stdio.h>
#include <string.h>

#include "domains/mcp/server/call.h"
#include "support/clock.h"

void tp__mcp_call_clear_inputs(tp_mcp_call *call) {
  for (size_t i = 0; i < call->input_count; i++) {
    tp__heap_string_free(call->inputs[i].key);
    tp__heap_string_free(call->inputs[i].method);
    tp__bytes_fini(&call->inputs[i].params);
    tp__bytes_fini(&call->inputs[i].answer);
  }
  memset(call->inputs, 0, sizeof call->inputs);
  call->input_count = 0;
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
  char bound[TP__MCP_BOUND_BYTES], state[TP__MCP_STATE_BYTES];
  tp_write_string(writer, "inputRequests");
  tp__mcp_call_write_inputs(writer, call);
  tp__mcp_call_bind_state(call, bound);
  tp__mcp_request_state content = {.expires_ms = tp__wall_ms() + TP__MCP_PARKED_MS};
  memcpy(content.nonce, call->nonce, sizeof content.nonce);
  memcpy(content.about, call->about, sizeof content.about);
  tp__mcp_state_write(call->server->secret, &content, bound, state);
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
    if (tp_writer_new(NULL, &writer) != TP_OK)
      continue; /* without memory the input is answered when the call's time is
                                                            over */
    tp__mcp_begin_request(writer, in->request, in->method);
    write_request(writer, in);
    if (tp__mcp_encode(writer, &json, NULL) == TP_OK)
      call->exchange->sink->send(call->exchange->sink, json, false, 200);
    tp_writer_free(writer);
  }
}

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

bool tp__mcp_call_is_answered_locked(const tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  for (size_t i = 0; i < call->input_count; i++)
    if (!call->inputs[i].answered) return false;
  return true;
}

/* Passes the answers on, once. */
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
  tp__mcp_call_clear_inputs(call);
  tp__lock_release(&call->server->lock);
  if (on_answers) on_answers(ctx, answers);
  tp_writer_free(writer);
}

/* Asks for the inputs that are not answered yet; passes on the answers when there is none left. */
void tp__mcp_call_ask_inputs(tp_mcp_call *call) {
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  bool is_answered = tp__mcp_call_is_answered_locked(call);
  tp__mcp_exchange *parked = NULL;
  if (!is_answered && call->exchange && tp__mcp_version_has(call->exchange->version, TP__MCP_HAS_META)) {
    parked = call->exchange;
    call->exchange = NULL;
    tp__mcp_call_park_locked(call, tp__monotonic_ms() + TP__MCP_PARKED_MS);
    if (!tp__mcp_random(call->nonce)) call->parked_until_ms = 1; /* without a nonce no request can repeat the call */
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
    in->key = tp__heap_copy(tp_text_of(is_again ? key : inputs[i]->key)); /* a task never uses a key twice */
    in->method = tp__heap_copy(tp_text_of(inputs[i]->method));
    tp__bytes_put_text(&in->params, inputs[i]->params);
    failed |= !in->key || !in->method || in->params.failed;
  }
  if (!failed) return TP_OK;
  tp__mcp_call_clear_inputs(call);
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to ask the client");
}

/* Takes the answers that came with the request itself. */
static void take_known_locked(tp_mcp_call *call, bool may_know) {
  TP__LOCKED(&call->server->lock);
  bool is_answered = call->about[0] && strcmp(call->about, call->answers_about) == 0;
  call->answers_about[0] = 0;
  if (!call->exchange) return;
  if (is_answered || (may_know && tp_value_get(call->exchange->params, "requestState").size == 0))
    (void)tp__mcp_call_take_responses_locked(call, tp_value_get(call->exchange->params, "inputResponses"));
}

tp_status tp__mcp_call_ask(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count, bool may_know,
                           const char *about, tp_mcp_inputs_fn on_answers, void *ctx, tp_fault *fault) {
  tp__lock_acquire(&call->server->lock);
  tp_status status = check_inputs_locked(call, inputs, count, fault);
  if (status == TP_OK) status = take_inputs_locked(call, inputs, count, fault);
  if (status == TP_OK) {
    call->on_answers = on_answers;
    call->answers_ctx = ctx;
    call->updated_ms = tp__wall_ms();
    snprintf(call->about, sizeof call->about, "%s", about ? about : "");
    take_known_locked(call, may_know);
  }
  tp__lock_release(&call->server->lock);
  if (status == TP_OK) tp__mcp_call_ask_inputs(call);
  return status;
}

tp_status tp_mcp_call_ask(tp_mcp_call *call, const tp_mcp_input *const *inputs, size_t count,
                          tp_mcp_inputs_fn on_answers, void *ctx, tp_fault *fault) {
  if (!call || !inputs || !on_answers)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_mcp_call_ask() needs a call, inputs and on_answers");
  return tp__mcp_call_ask(call, inputs, count, true, NULL, on_answers, ctx, fault);
}

bool tp__mcp_call_pass_on(tp_mcp_call *call, const char *method, tp_text params, tp_mcp_inputs_fn on_answer,
                          void *ctx) {
  const tp_mcp_input wanted = {.struct_size = sizeof wanted, .key = "asked", .method = method, .params = params};
  const tp_mcp_input *const inputs[] = {&wanted};
  return tp__mcp_call_ask(call, inputs, 1, false, NULL, on_answer, ctx, NULL) == TP_OK;
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
  if (found) tp__mcp_call_unref(found);
}
