/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks: the extension io.modelcontextprotocol/tasks. A call that is not answered soon, or about which the channel asks
 * a person, is answered with a task: the call goes on without an exchange, parked, and its client asks for its state.
 * ends.c decides which call becomes a task, and when. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "domains/mcp/server/call.h"
#include "support/clock.h"
#include "support/text.h"

enum { POLL_MS = 1000, POLL_PERSON_MS = 5000, DATE_BYTES = 40, PAIRS = 6 };

bool tp__mcp_task_begin_locked(tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  assert(!call->task_id[0]);
  if (!tp__mcp_random(call->task_id)) return false;
  call->created_ms = call->updated_ms = tp__wall_ms();
  return true;
}

/* ---- what a task is ---- */

static void write_date(tp_writer *writer, const char *key, int64_t unix_ms) {
  char date[DATE_BYTES] = "1970-01-01T00:00:00", text[DATE_BYTES + 8];
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm utc;
  if (gmtime_r(&seconds, &utc)) (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(text, sizeof text, "%s.%03dZ", date, (int)(unix_ms % 1000));
  tp_write_string(writer, key);
  tp_write_string(writer, text);
}

static bool wants_input(const tp_mcp_call *call) {
  return !call->done && call->on_answers && !tp__mcp_call_is_answered_locked(call);
}

static bool waits_for_person(const tp_mcp_call *call) {
  return !call->done && call->question_key[0] && !wants_input(call) && tp_token_open(call->question);
}

static const char *status_of(const tp_mcp_call *call) {
  if (!call->done) return wants_input(call) ? "input_required" : "working";
  return call->was_cancelled ? "cancelled" : call->failed ? "failed" : "completed";
}

/* Writes six pairs, and one more when a person is asked. The caller holds the server's lock. */
static void write_task(tp_writer *writer, const tp_mcp_call *call) {
  char words[96];
  bool waits = waits_for_person(call);
  tp_write_string(writer, "taskId");
  tp_write_string(writer, call->task_id);
  tp_write_string(writer, "status");
  tp_write_string(writer, status_of(call));
  write_date(writer, "createdAt", call->created_ms);
  write_date(writer, "lastUpdatedAt", call->updated_ms);
  tp_write_string(writer, "ttlMs");
  tp_write_int(writer, TP__MCP_TASK_MS);
  tp_write_string(writer, "pollIntervalMs");
  tp_write_int(writer, waits ? POLL_PERSON_MS : POLL_MS);
  if (!waits) return;
  snprintf(words, sizeof words, "A person is asked whether the call may run: %s", call->question_key);
  tp_write_string(writer, "statusMessage");
  tp_write_string(writer, words);
}

static void write_handle(tp_writer *writer, const void *ctx) { write_task(writer, ctx); }

static void write_details(tp_writer *writer, const void *ctx) {
  const tp_mcp_call *call = ctx;
  static const char empty[] = "\x80";
  write_task(writer, call);
  if (wants_input(call)) {
    tp_write_string(writer, "inputRequests");
    tp__mcp_call_write_inputs(writer, call);
  } else if (call->done && !call->was_cancelled && call->failed) {
    tp_write_string(writer, "error");
    tp_text data = tp__bytes_text(&call->error_data);
    tp_write_map(writer, 2U + (data.size > 0));
    tp_write_string(writer, "code");
    tp_write_int(writer, call->error_code);
    tp_write_string(writer, "message");
    tp_write_string(writer, call->error_words);
    if (data.size > 0) tp_write_string(writer, "data"), tp_write_value(writer, data);
  } else if (call->done && !call->was_cancelled) {
    tp_write_string(writer, "result");
    tp_write_value(writer, call->kept.size > 0 ? tp__bytes_text(&call->kept) : (tp_text){empty, 1});
  }
}

void tp__mcp_task_reply(tp_mcp_call *call, tp__mcp_exchange *exchange) {
  tp__lock_acquire(&call->server->lock);
  tp__mcp_reply(exchange, "task", false, PAIRS + (size_t)waits_for_person(call), write_handle, call);
  tp__lock_release(&call->server->lock);
}

/* ---- what a client asks of it ---- */

void tp__mcp_task_refuse(tp__mcp_exchange *exchange) {
  static const char needed[] = "{\"requiredCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}";
  tp_writer *writer = NULL;
  tp_text data = {0};
  if (tp_writer_new(NULL, &writer) != TP_OK || tp_json_decode(tp_text_of(needed), writer, NULL) != TP_OK ||
      tp_writer_finish(writer, &data) != TP_OK)
    data = (tp_text){0};
  tp__mcp_reply_error(exchange, TP__MCP_MISSING_CAPABILITY, "the client does not declare the extension for tasks",
                      data);
  tp_writer_free(writer);
}

/* @return with a reference; NULL: the exchange was taken. */
static tp_mcp_call *find(tp__mcp_exchange *exchange) {
  tp_mcp_server *server = exchange->server;
  tp_text id = tp_value_text(tp_value_get(exchange->params, "taskId"));
  if (!(exchange->can & TP__MCP_CAN_TASKS)) {
    tp__mcp_task_refuse(exchange);
    return NULL;
  }
  tp__lock_acquire(&server->lock);
  tp_mcp_call *call = id.size > 0 ? server->calls : NULL;
  while (call && !(tp__is_word(id, call->task_id) && strcmp(call->principal, exchange->principal) == 0))
    call = call->next;
  if (call) tp__mcp_call_ref(call);
  tp__lock_release(&server->lock);
  if (!call) tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, "there is no such task, or no longer", (tp_text){0});
  return call;
}

void tp__mcp_task_get(tp__mcp_exchange *exchange) {
  tp_mcp_call *call = find(exchange);
  if (!call) return;
  tp__lock_acquire(&call->server->lock);
  bool has_more = wants_input(call) || (call->done && !call->was_cancelled);
  tp__mcp_reply(exchange, "complete", false, PAIRS + (size_t)waits_for_person(call) + has_more, write_details, call);
  tp__lock_release(&call->server->lock);
  tp__mcp_call_unref(call);
}

void tp__mcp_task_update(tp__mcp_exchange *exchange) {
  tp_mcp_call *call = find(exchange);
  if (!call) return;
  tp_text responses = tp_value_get(exchange->params, "inputResponses");
  const char *wrong = tp_value_kind_of(responses) == TP_VALUE_MAP ? NULL : "inputResponses is an object";
  tp__lock_acquire(&call->server->lock);
  bool was_wanting = wants_input(call);
  if (!wrong && was_wanting) {
    wrong = tp__mcp_call_take_responses_locked(call, responses);
    call->updated_ms = tp__wall_ms();
  }
  bool is_whole = was_wanting && !wants_input(call);
  tp__lock_release(&call->server->lock);
  if (wrong) tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, wrong, (tp_text){0});
  else tp__mcp_reply_empty(exchange);
  if (is_whole) tp__mcp_call_deliver(call);
  tp__mcp_call_unref(call);
}

void tp__mcp_task_cancel(tp__mcp_exchange *exchange) {
  tp_mcp_call *call = find(exchange);
  if (!call) return;
  tp__lock_acquire(&call->server->lock);
  bool stops = !call->done && !call->cancelled;
  call->cancelled = call->cancelled || stops;
  tp__lock_release(&call->server->lock);
  tp__mcp_reply_empty(exchange);
  if (stops) tp__mcp_call_stop(call, NULL);
  else tp__mcp_call_unref(call);
}
