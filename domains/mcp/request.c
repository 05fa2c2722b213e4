/* SPDX-License-Identifier: Apache-2.0
 *
 * request: sends messages to a server, and keeps the requests that have no answer yet. */

#include "domains/mcp/request.h"

#include <assert.h>
#include <string.h>

enum { REQUESTS_MAX = 4096 };

/* ---- sending ---- */

/* @param asker  who makes the request; NULL for a notification. */
static void write_params_locked(tp__mcp_session *s, const char *method, int64_t id, const tp__mcp_pair *pairs,
                                size_t count, const tp__mcp_asker *asker) {
  TP__LOCKED(&s->lock);
  tp_text constants = {"", 0};
  char token[9];
  tp__mcp_meta meta = {0};
  if (s->is_probing || tp__mcp_version_has(s->version, TP__MCP_HAS_META)) {
    (void)!tp_writer_finish(s->constants, &constants); /* this cannot fail: the value was finished before */
    meta.version = s->is_probing ? TP__MCP_VERSION_NEWEST : s->version;
    meta.client_info = tp_value_at(constants, 0);
    meta.capabilities = tp_value_at(constants, 2);
  }
  if (asker) meta.traceparent = asker->traceparent;
  if (asker) meta.tracestate = asker->tracestate;
  if (strcmp(method, "tools/call") == 0) meta.progress_token = tp__mcp_number_value(id, token);
  size_t has_meta = tp__mcp_meta_count(&meta) > 0;
  tp_write_map(s->writer, count + has_meta);
  for (size_t i = 0; i < count; i++) {
    tp_write_string(s->writer, pairs[i].key);
    if (pairs[i].is_value) tp_write_value(s->writer, pairs[i].content);
    else tp_write_text(s->writer, pairs[i].content);
  }
  if (!has_meta) return;
  tp_write_string(s->writer, "_meta");
  tp__mcp_meta_write(s->writer, &meta);
}

/* Sends the message that is in the writer. */
tp_status tp__mcp_session_send_locked(tp__mcp_session *s, int64_t id, const char *method, tp_fault *fault) {
  TP__LOCKED(&s->lock);
  tp_text json, value;
  tp_status status = tp__mcp_encode(s->writer, &json, fault);
  if (status != TP_OK) return status;
  (void)!tp_writer_finish(s->writer, &value);
  return s->transport->send_locked(s, id, method, tp_value_get(value, "params"), json, fault);
}

tp_status tp__mcp_session_request_locked(tp__mcp_session *s, const char *method, const tp__mcp_pair *pairs,
                                         size_t count, const tp__mcp_asker *asker, int64_t *ret_id, tp_fault *fault) {
  TP__LOCKED(&s->lock);
  struct tp__mcp_request *request = tp__heap_alloc(sizeof *request);
  if (!request) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a request");
  *request = (struct tp__mcp_request){.next = s->requests, .id = ++s->last_id, .asker = *asker};
  if (ret_id) *ret_id = request->id;
  tp__mcp_begin_request(s->writer, request->id, method);
  write_params_locked(s, method, request->id, pairs, count, asker);
  s->requests = request;
  tp_status status = tp__mcp_session_send_locked(s, request->id, method, fault);
  if (status == TP_OK) return TP_OK;
  assert(s->requests == request);
  s->requests = request->next;
  tp__heap_free(request, sizeof *request);
  return status;
}

tp_status tp__mcp_session_notify_locked(tp__mcp_session *s, const char *method, const tp__mcp_pair *pairs,
                                        size_t count) {
  TP__LOCKED(&s->lock);
  tp__mcp_begin_notification(s->writer, method);
  write_params_locked(s, method, 0, pairs, count, NULL);
  return tp__mcp_session_send_locked(s, -1, method, NULL);
}

/* ---- requests without an answer ---- */

struct tp__mcp_request *tp__mcp_session_take_request_locked(tp__mcp_session *s, int64_t id) {
  TP__LOCKED(&s->lock);
  for (struct tp__mcp_request **at = &s->requests; *at; at = &(*at)->next) {
    struct tp__mcp_request *request = *at;
    if (request->id != id) continue;
    *at = request->next;
    return request;
  }
  return NULL;
}

bool tp__mcp_session_waits(tp__mcp_session *s, int64_t id) {
  tp__lock_acquire(&s->lock);
  const struct tp__mcp_request *each = s->requests;
  while (each && each->id != id) each = each->next;
  tp__lock_release(&s->lock);
  return each != NULL;
}

tp_status tp__mcp_session_request(tp__mcp_session *s, const char *method, const tp__mcp_pair *pairs, size_t pair_count,
                                  const tp__mcp_asker *asker, int64_t *ret_id, tp_fault *fault) {
  tp_status status;
  size_t open = 0;
  tp__lock_acquire(&s->lock);
  for (const struct tp__mcp_request *each = s->requests; each; each = each->next) open++;
  if (s->state != TP__MCP_READY)
    status = tp__refuse(fault, TP_ERR_STALE, NULL, "The server %s is not there: %s. The call was not sent.",
                        s->settings.options.name, s->state == TP__MCP_PAUSED ? s->words : "it is being started");
  else if (open >= REQUESTS_MAX)
    status = tp__refuse(fault, TP_ERR_FULL, NULL, "The server %s has not answered %d requests. The call was not sent.",
                        s->settings.options.name, REQUESTS_MAX);
  else status = tp__mcp_session_request_locked(s, method, pairs, pair_count, asker, ret_id, fault);
  tp__lock_release(&s->lock);
  return status;
}

bool tp__mcp_session_give_up(tp__mcp_session *s, const int64_t *ret_id, const char *reason) {
  char bytes[9];
  tp__lock_acquire(&s->lock);
  int64_t id = *ret_id;
  const tp__mcp_pair pairs[] = {{"requestId", tp__mcp_number_value(id, bytes), true},
                                {"reason", tp_text_of(reason), false}};
  struct tp__mcp_request *request = tp__mcp_session_take_request_locked(s, id);
  if (request && s->transport->give_up_locked) s->transport->give_up_locked(s, id);
  if (request && (!s->transport->give_up_locked || tp__mcp_version_has(s->version, TP__MCP_HAS_INITIALIZE)))
    (void)!tp__mcp_session_notify_locked(s, "notifications/cancelled", pairs, 2);
  tp__lock_release(&s->lock);
  if (request) tp__heap_free(request, sizeof *request);
  return request != NULL;
}
