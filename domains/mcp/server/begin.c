/* SPDX-License-Identifier: Apache-2.0
 *
 * begin: for each request, a new call begins, or the request repeats a call that is parked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/mcp/server/call.h"
#include "support/clock.h"
#include "support/text.h"
#include "turnphase/inspect.h"

/* ---- what is asked for ---- */

void tp__mcp_hash_add(tp__sha256 *hash, tp_text text) {
  uint64_t size = text.size;
  tp__sha256_add(hash, &size, sizeof size);
  if (text.size > 0) tp__sha256_add(hash, text.data, text.size);
}

/* Adds the request to a hash; equal requests get equal hashes. @return false for arguments without a canonical form. */
static bool hash_request(tp_mcp_call *call, tp_text method, tp_text name, tp_text arguments) {
  tp_writer *writer = NULL;
  tp_text canonical = {0};
  tp__sha256 hash;
  tp__sha256_init(&hash);
  bool is_written = tp_writer_new(NULL, &writer) == TP_OK;
  if (is_written && arguments.size > 0)
    is_written =
        tp_value_write_canonical(arguments, writer, NULL) == TP_OK && tp_writer_finish(writer, &canonical) == TP_OK;
  tp__mcp_hash_add(&hash, method);
  tp__mcp_hash_add(&hash, name);
  tp__mcp_hash_add(&hash, canonical);
  tp__sha256_finish(&hash, call->hash);
  tp_writer_free(writer);
  return is_written;
}

/* ---- a request that is repeated ---- */

/* The key itself is hashed, not its place in the list: so a client is the same one after a restart with the keys in
 * another order, and another key in its place is not. */
void tp__mcp_hash_add_principal(tp__sha256 *hash, const tp_mcp_call *call) {
  char **keys = call->server->keys, *end;
  bool is_key = strncmp(call->principal, "key-", 4) == 0;
  size_t index = is_key ? (size_t)strtoul(call->principal + 4, &end, 10) : 0;
  tp__mcp_hash_add(hash, tp_text_of(is_key ? "key" : call->principal));
  if (is_key) tp__mcp_hash_add(hash, tp_text_of(keys[index - 1]));
}

void tp__mcp_call_bind_state(const tp_mcp_call *call, char text[TP__MCP_BOUND_BYTES]) {
  char client[TP__MCP_HASH_BYTES];
  tp__sha256 hash;
  tp__sha256_init(&hash);
  tp__mcp_hash_add_principal(&hash, call);
  tp__sha256_finish(&hash, client);
  snprintf(text, TP__MCP_BOUND_BYTES, "%s|%s", client, call->hash);
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

/* Lets a parked call go on with this exchange. Drops the caller's reference of the call. */
static void attach(tp_mcp_call *call, tp__mcp_exchange *exchange, bool has_state) {
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  bool is_taken = call->parked_until_ms == 0; /* another repetition was faster */
  const char *wrong = NULL;
  if (!is_taken && has_state && !call->done)
    wrong = tp__mcp_call_take_responses_locked(call, tp_value_get(exchange->params, "inputResponses"));
  bool is_done = !is_taken && !wrong && call->done;
  bool asks = !is_taken && !wrong && !is_done && call->on_answers;
  if (is_done) tp__mcp_call_unlink_locked(call);
  else if (!is_taken && !wrong) {
    tp__mcp_call_park_locked(call, 0);
    call->exchange = exchange;
    call->can = exchange->can;
    if (has_state) tp__mcp_call_wait_for_task_locked(call);
    else tp__mcp_call_wait_locked(call, server->options.ask_wait_ms);
  }
  tp__lock_release(&server->lock);
  if (is_taken || wrong)
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, wrong ? wrong : "this requestState was used", (tp_text){0});
  else if (is_done) {
    tp__mcp_call_reply_kept(exchange, call);
    tp__mcp_call_unref(call);
  } else if (asks) {
    tp__mcp_call_ask_inputs(call);
  }
  tp__mcp_call_unref(call);
}

static bool is_task_of(const tp_mcp_call *call) {
  tp__lock_acquire(&call->server->lock);
  bool is_task = call->task_id[0] != 0;
  tp__lock_release(&call->server->lock);
  return is_task;
}

static bool repeat_without_state(const tp_mcp_call *call, tp__mcp_exchange *exchange) {
  tp_mcp_call *parked = call->is_tool ? find_parked(exchange->server, call, NULL) : NULL;
  bool is_task = parked && is_task_of(parked); /* the call stays a task */
  if (is_task) tp__mcp_task_reply(parked, exchange);
  if (is_task) tp__mcp_call_unref(parked);
  else if (parked) attach(parked, exchange, false);
  return parked != NULL;
}

/* Ends a repetition that the client declined: nothing runs, whatever the gates would decide now. @return true: the
 * exchange was taken. */
static bool decline(const tp_mcp_call *call, tp__mcp_exchange *exchange) {
  char detail[200];
  tp_text response = tp_value_get(tp_value_get(exchange->params, "inputResponses"), TP__MCP_APPROVAL_KEY);
  if (response.size == 0 || tp__mcp_call_is_allowed(response)) return false;
  tp_text name = tp_value_text(tp_value_get(exchange->params, "name"));
  snprintf(detail, sizeof detail, "%s did not allow %.*s, asked by a process that has ended", call->principal,
           tp__cut(name, 100), name.data);
  (void)!tp_runtime_audit_add(call->server->runtime, "mcp-server", "mcp.declined", tp_text_of(detail), TP_ERR_DENIED,
                              NULL);
  tp__mcp_content_reply_error(exchange, "the user did not allow it");
  return true;
}

/* Resumes a call whose process has ended after it asked. With a channel the form is shown again, since an answer that
 * came there meanwhile counts first. @return false: the call begins again, since nothing of it had run. */
static bool resume(tp_mcp_call *call, tp__mcp_exchange *exchange, const tp__mcp_request_state *state) {
  tp_mcp_server *server = call->server;
  if (!server->states || !state->about[0]) {
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS,
                        server->states
                            ? "the call of this requestState has ended, and may have had an effect: it is not repeated"
                            : "this requestState was used, or its call has ended",
                        (tp_text){0});
    return true;
  }
  if (decline(call, exchange)) return true;
  tp__lock_acquire(&server->lock);
  if (!server->options.has_channel) memcpy(call->answers_about, state->about, sizeof call->answers_about);
  tp__lock_release(&server->lock);
  return false;
}

/* @return true: the request is a repetition, and its exchange was taken. `call` is the new call that it would be
 *         otherwise. */
static bool repeat(tp_mcp_call *call, tp__mcp_exchange *exchange) {
  tp_mcp_server *server = exchange->server;
  tp_text text = tp_value_get(exchange->params, "requestState");
  char bound[TP__MCP_BOUND_BYTES];
  tp__mcp_request_state state;
  tp_fault fault = {0};
  const char *wrong = NULL;
  if (text.size == 0) return repeat_without_state(call, exchange);
  tp__mcp_call_bind_state(call, bound);
  if (!tp__mcp_state_read(server->secret, tp_value_text(text), bound, &state)) wrong = "this requestState is not ours";
  else if (state.expires_ms < tp__wall_ms()) wrong = "this requestState is too old";
  tp_status used = wrong ? TP_OK : tp__mcp_kept_use(server, &state, &fault);
  if (used == TP_ERR_STALE) wrong = "this requestState was used";
  if (wrong || used != TP_OK) {
    tp__mcp_reply_error(exchange, wrong ? TP__MCP_INVALID_PARAMS : TP__MCP_INTERNAL_ERROR,
                        wrong ? wrong : fault.message, (tp_text){0});
    return true;
  }
  tp_mcp_call *parked = find_parked(server, call, state.nonce);
  if (!parked) return resume(call, exchange, &state);
  attach(parked, exchange, true);
  return true;
}

/* Drops a call that did not begin; its exchange stays. */
static void abandon(tp_mcp_call *call) {
  tp__lock_acquire(&call->server->lock);
  call->exchange = NULL;
  call->done = true;
  tp__mcp_call_unlink_locked(call);
  tp__lock_release(&call->server->lock);
  tp__mcp_call_unref(call);
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

/* @return the new call; NULL: the request repeated an earlier call, or was answered with an error. Then the exchange
 * must not be used any more. */
tp_mcp_call *tp__mcp_call_begin(tp__mcp_exchange *exchange, tp_text name, tp_text arguments, bool is_tool) {
  const char *wrong = check_params(exchange, name, arguments);
  if (wrong) {
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, wrong, (tp_text){0});
    return NULL;
  }
  tp_mcp_call *call = tp__mcp_call_new(exchange);
  if (!call) {
    tp__mcp_reply_error(exchange, TP__MCP_INTERNAL_ERROR, "too many calls at once: try again later", (tp_text){0});
    return NULL;
  }
  call->is_tool = is_tool;
  if (hash_request(call, exchange->method, name, arguments) && !repeat(call, exchange)) return call;
  abandon(call);
  return NULL;
}
