/* SPDX-License-Identifier: Apache-2.0
 *
 * ends: calls that end otherwise than by their answer: because they have waited long enough, are cancelled, or their
 * client has left. */
#include <stdio.h>
#include <string.h>

#include "domains/mcp/server/call.h"
#include "support/clock.h"

/* ---- the end of a wait ---- */

/* Answers a call for which no person has answered in time: the client gets the key of the question, and the call waits
 * on. */
static void answer_waiting(tp_mcp_call *call, tp__mcp_exchange *exchange) {
  char words[400];
  snprintf(words, sizeof words,
           "needs approval: %s. A person was asked and has not answered yet. When it is allowed the call runs once; "
           "make the same call again to wait for its result.",
           call->question_key);
  tp__mcp_content_reply_error(exchange, words);
}

typedef enum late { LATE_NOT, LATE_WAIT, LATE_TASK, LATE_PARKED, LATE_KEPT } late;

static late is_late_locked(tp_mcp_call *call, int64_t now_ms) {
  TP__LOCKED(&call->server->lock);
  if (call->exchange && call->wait_until_ms != 0 && now_ms >= call->wait_until_ms)
    return call->exchange->can & TP__MCP_CAN_TASKS ? LATE_TASK : LATE_WAIT;
  if (call->parked_until_ms == 0 || now_ms < call->parked_until_ms) return LATE_NOT;
  return call->done ? LATE_KEPT : LATE_PARKED;
}

/* @return false: the call waits on, as without tasks. */
static bool begin_task_locked(tp_mcp_call *call, int64_t now_ms) {
  TP__LOCKED(&call->server->lock);
  bool is_begun = call->server->parked_count < TP__MCP_PARKED_MAX && tp__mcp_task_begin_locked(call);
  if (is_begun) tp__mcp_call_park_locked(call, now_ms + TP__MCP_TASK_MS);
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
    if (*ret_late == LATE_WAIT)
      tp__mcp_call_park_locked(call, now_ms + TP__MCP_PARKED_MS * 3); /* the question of the call ends before that */
  } else if (call && *ret_late == LATE_PARKED) {
    call->cancelled = true;
    tp__mcp_call_park_locked(call, 0);
  } else if (call) {
    tp__mcp_call_unlink_locked(call);
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
  tp__mcp_call_unref(call);
}

void tp__mcp_call_sweep(tp_mcp_server *server) {
  int64_t now_ms = tp__monotonic_ms();
  tp__mcp_exchange *exchange;
  late how = LATE_NOT;
  for (tp_mcp_call *call; (call = take_late(server, now_ms, &how, &exchange));) {
    if (how == LATE_WAIT) answer_waiting(call, exchange);
    if (how == LATE_TASK) tp__mcp_task_reply(call, exchange);
    if (how == LATE_KEPT) tp__mcp_call_unref(call); /* the list's reference */
    if (how == LATE_PARKED) tp__mcp_call_stop(call, NULL);
    else tp__mcp_call_unref(call);
  }
}

/* ---- cancel ---- */

/* @return with a reference; NULL: none. */
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

/* Ends a stream of subscriptions/listen, which is cancelled as a call is. */
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
    if (call) tp__mcp_call_unlink_locked(call);
    tp__lock_release(&server->lock);
    if (!call) return;
    tp__mcp_call_unref(call);
  }
}
