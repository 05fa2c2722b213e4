/* SPDX-License-Identifier: Apache-2.0
 *
 * call: the life of a call: the list of them, its answer, its waits, and the progress and log lines that the host
 * reports meanwhile. */
#include "domains/mcp/server/call.h"

#include <string.h>

#include "support/clock.h"
#include "support/text.h"

/* ---- the list ---- */

void tp__mcp_call_ref(tp_mcp_call *call) { tp__references_ref(&call->refs); }

void tp__mcp_call_unref(tp_mcp_call *call) {
  if (!tp__references_unref(&call->refs)) return;
  assert(!call->exchange && !call->linked);
  tp_submission_unref(call->submission);
  tp__mcp_call_clear_inputs(call);
  tp__bytes_fini(&call->traceparent);
  tp__bytes_fini(&call->tracestate);
  tp__bytes_fini(&call->kept);
  tp__bytes_fini(&call->error_data);
  tp_mcp_server *server = call->server;
  tp__heap_free(call, sizeof *call);
  tp__lock_acquire(&server->lock); /* the server may be freed after this release */
  assert(server->live_count > server->call_count);
  server->live_count--;
  if (server->stops)
    tp__lock_condition_broadcast(&server->changed); /* else only the worker waits on the condition, and
                                                                        not for this event */
  tp__lock_release(&server->lock);
}

void tp__mcp_call_park_locked(tp_mcp_call *call, int64_t until_ms) {
  TP__LOCKED(&call->server->lock);
  assert(call->server->parked_count > 0 || call->parked_until_ms == 0);
  if ((call->parked_until_ms != 0) != (until_ms != 0)) {
    if (until_ms) call->server->parked_count++;
    else call->server->parked_count--;
    if (call->server->stops) tp__lock_condition_broadcast(&call->server->changed);
  }
  call->parked_until_ms = until_ms;
  if (!until_ms) call->nonce[0] = 0;
}

/* The caller drops the list's reference afterwards. */
void tp__mcp_call_unlink_locked(tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  tp_mcp_server *server = call->server;
  assert(call->linked && server->call_count > 0);
  tp__mcp_call_park_locked(call, 0);
  *(call->previous ? &call->previous->next : &server->calls) = call->next;
  if (call->next) call->next->previous = call->previous;
  server->call_count--;
  call->linked = false;
  if (server->stops) tp__lock_condition_broadcast(&server->changed);
}

tp_mcp_call *tp__mcp_call_new(tp__mcp_exchange *exchange) {
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
  if (is_full) tp__mcp_call_unref(call);
  return is_full ? NULL : call;
}

tp_mcp_call *tp__mcp_call_find(tp_mcp_server *server, const void *data) {
  tp__lock_acquire(&server->lock);
  tp_mcp_call *call = server->calls; /* the data may be another host's pointer, so it is only compared */
  while (call && call != data) call = call->next;
  if (call) tp__mcp_call_ref(call);
  tp__lock_release(&server->lock);
  return call;
}

void tp__mcp_call_trace(tp_mcp_call *call, tp__bytes *traceparent, tp__bytes *tracestate) {
  if (call->traceparent.size == 0 || call->traceparent.failed || call->tracestate.failed) return;
  tp__bytes_put_text(traceparent, tp__bytes_text(&call->traceparent));
  tp__bytes_put_text(tracestate, tp__bytes_text(&call->tracestate));
}

/* ---- the answer ---- */

static void reply_failed(tp__mcp_exchange *exchange, const tp_mcp_call *call) {
  tp__mcp_reply_error(exchange, call->error_code, call->error_words, tp__bytes_text(&call->error_data));
}

void tp__mcp_call_reply_kept(tp__mcp_exchange *exchange, tp_mcp_call *call) {
  if (call->failed) reply_failed(exchange, call);
  else tp__mcp_reply_map(exchange, "complete", tp__bytes_text(&call->kept));
}

/* Ends the call with a result, a map, or with the error that it has. Drops the reference of the task or the host. */
void tp__mcp_call_finish(tp_mcp_call *call, tp_text result) {
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
  if (drop) tp__mcp_call_unlink_locked(call);
  tp__lock_release(&server->lock);
  if (on_answers) on_answers(call->answers_ctx, (tp_text){0});
  if (exchange && call->failed) reply_failed(exchange, call);
  else if (exchange) tp__mcp_reply_map(exchange, "complete", result);
  if (drop) tp__mcp_call_unref(call);
  tp__mcp_call_unref(call);
}

void tp_mcp_call_answer(tp_mcp_call *call, tp_text result) {
  if (!call || call->is_tool) return;
  static const char empty[] = "\x80";
  tp__mcp_call_finish(call, tp_value_kind_of(result) == TP_VALUE_MAP ? result : (tp_text){empty, 1});
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
  if (is_first && !call->is_tool) tp__mcp_call_finish(call, (tp_text){0});
}

/* ---- waits ---- */

void tp__mcp_call_wait_locked(tp_mcp_call *call, uint32_t limit_ms) {
  TP__LOCKED(&call->server->lock);
  tp_mcp_server *server = call->server;
  call->wait_until_ms = tp__monotonic_ms() + limit_ms;
  if (call->wait_until_ms < server->sweep_ms) server->sweep_ms = call->wait_until_ms;
  tp__lock_condition_broadcast(&server->changed);
}

/* If the client takes tasks, a call that is not answered in time becomes a task. */
void tp__mcp_call_wait_for_task_locked(tp_mcp_call *call) {
  TP__LOCKED(&call->server->lock);
  bool can_wait = call->exchange && (call->exchange->can & TP__MCP_CAN_TASKS);
  if (can_wait) tp__mcp_call_wait_locked(call, call->server->options.task_after_ms);
}

/* ---- prompts, resources, completions ---- */

void tp__mcp_call_host(tp__mcp_exchange *exchange) {
  bool is_resource = tp__is_word(exchange->method, "resources/read");
  bool is_prompt = tp__is_word(exchange->method, "prompts/get");
  tp_text params = exchange->params;
  tp_text name =
      is_resource || is_prompt ? tp_value_text(tp_value_get(params, is_resource ? "uri" : "name")) : exchange->method;
  tp_mcp_call *call =
      tp__mcp_call_begin(exchange, name, is_prompt ? tp_value_get(params, "arguments") : (tp_text){0}, false);
  if (!call) return;
  tp__mcp_call_ref(call); /* a reference for the host */
  (void)tp__mcp_work_add(exchange->server, TP__MCP_WORK_HOST, NULL, call);
}

void tp__mcp_call_run_host(tp_mcp_call *call) {
  const tp_mcp_server_options *o = &call->server->options;
  tp__lock_acquire(&call->server->lock);
  tp__mcp_exchange *exchange = call->exchange;
  tp_text method = {0}, params = {0};
  tp__bytes copy = {0};
  if (exchange) { /* the host may read these texts even after the client has left */
    method = exchange->method;
    params = exchange->params;
    tp__bytes_put_text(&copy, method);
    tp__bytes_put_text(&copy, params);
  }
  tp__lock_release(&call->server->lock);
  if (!exchange || copy.failed) {
    tp__mcp_call_finish(call, (tp_text){0});
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
  tp__mcp_call_unref(call);
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
