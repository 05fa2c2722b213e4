/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "domains/mcp/server/server.h"
#include "server/http.h"
#include "server/mount.h"
#include "support/access.h"
#include "support/clock.h"

#define PATH "/mcp"
#define KEEP_ALIVE ": \n\n"
#define ENDS "the server ends: it takes no more requests"

/** The HTTP side of the server: a front of its own, or requests that another server passes to it. */
typedef struct web {
  /* never change */
  tp_mcp_server *server;
  tp__http *http; /* NULL: the server is mounted in another one */
  bool is_local;  /* listens on an address of this machine only */
  tp_mount mount;
  tp__http_handlers handlers; /* the functions for requests that another server passes */
  /* set while it is mounted: the functions of the other server */
  tp__mount_server passes;
} web;

/** One HTTP request: it carries the answers of its exchanges, or the messages of a session that belong to no
 *  request. */
typedef struct web_sink {
  tp__mcp_sink sink;
  web *web;       /* never changes */
  bool is_modern; /* set for versions in which a client that leaves cancels its call */
  tp__lock lock;
  /* under lock */
  tp__http_request *request; /* NULL: the request was ended */
  size_t open;               /* how many answers are missing */
  bool streams;
  tp__bytes tail; /* an answer that waits until the stream has space */
  bool tail_ends; /* set when that answer is the last one */
  char session_id[33];
} web_sink;

/* ---- what is sent ---- */

static void answer_locked(web_sink *s, unsigned status, tp_text json) {
  TP__LOCKED(&s->lock);
  tp__http_field fields[4] = {{"Content-Type", "application/json"}};
  if (s->session_id[0]) fields[1] = (tp__http_field){"Mcp-Session-Id", s->session_id};
  tp__http_request *request = s->request;
  s->request = NULL;
  s->open = 0;
  tp__http_answer(request, status, json.size > 0 ? fields : NULL, json);
}

static void begin_stream_locked(web_sink *s) {
  TP__LOCKED(&s->lock);
  if (s->streams) return;
  tp__http_field fields[5] = {
      {"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  if (s->session_id[0]) fields[3] = (tp__http_field){"Mcp-Session-Id", s->session_id};
  s->streams = true;
  tp__http_stream_begin(s->request, 200, fields);
}

static void end_stream_locked(web_sink *s) {
  TP__LOCKED(&s->lock);
  tp__http_request *request = s->request;
  s->request = NULL;
  tp__http_stream_end(request);
}

/* Writes an event. When there is no space, an answer waits, and other messages are dropped. */
static void put_event_locked(web_sink *s, tp_text json, bool is_last) {
  TP__LOCKED(&s->lock);
  tp__bytes event = {0};
  assert(s->streams && s->request);
  tp__bytes_put_string(&event, "event: message\ndata: ");
  tp__bytes_put_text(&event, json);
  tp__bytes_put_string(&event, "\n\n");
  bool waits =
      s->tail.size > 0 || (!event.failed && tp__http_stream_put(s->request, tp__bytes_text(&event)) == TP_ERR_FULL);
  if (waits && is_last) tp__bytes_put_text(&s->tail, tp__bytes_text(&event));
  tp__bytes_fini(&event);
  if (!is_last || s->open > 0) return;
  if (waits) s->tail_ends = true;
  else end_stream_locked(s);
}

static void web_send(tp__mcp_sink *sink, tp_text json, bool is_last, unsigned status) {
  web_sink *s = (web_sink *)sink;
  tp__lock_acquire(&s->lock);
  bool is_only = is_last && !s->streams && s->open == 1;
  if (s->request && is_only) {
    answer_locked(s, status, json);
  } else if (s->request && !s->tail_ends && (is_last || sink->can_stream)) {
    begin_stream_locked(s);
    assert(!is_last || s->open > 0);
    if (is_last) s->open--;
    put_event_locked(s, json, is_last);
  }
  tp__lock_release(&s->lock);
}

static void web_drop(tp__mcp_sink *sink) {
  web_sink *s = (web_sink *)sink;
  tp__lock_acquire(&s->lock);
  if (s->open > 0) s->open--;
  if (s->request && s->open == 0 && s->streams && s->tail.size == 0) end_stream_locked(s);
  else if (s->request && s->open == 0 && s->streams) s->tail_ends = true;
  else if (s->request && s->open == 0) answer_locked(s, 202, (tp_text){0});
  tp__lock_release(&s->lock);
}

static void web_sink_free(tp__mcp_sink *sink) {
  web_sink *s = (web_sink *)sink;
  assert(!s->request);
  tp__bytes_fini(&s->tail);
  tp__lock_fini(&s->lock);
  tp__heap_free(s, sizeof *s);
}

/* Makes a sink with two references: the caller's, and that of the request's data. */
static web_sink *web_sink_new(web *w, tp__http_request *request, bool can_stream) {
  web_sink *s = tp__heap_alloc(sizeof *s);
  if (!s) return NULL;
  tp__references_init(&s->sink.refs);
  tp__references_ref(&s->sink.refs);
  s->sink.send = web_send;
  s->sink.drop = web_drop;
  s->sink.free = web_sink_free;
  s->sink.can_stream = can_stream;
  s->web = w;
  s->request = request;
  tp__lock_init(&s->lock, TP__LOCK_mcp_sink);
  tp__http_set_data(request, s);
  return s;
}

/* ---- what the front calls ---- */

static void on_released(void *ctx, void *data) {
  (void)ctx;
  if (data) tp__mcp_sink_unref(&((web_sink *)data)->sink);
}

static void on_drained(void *ctx, tp__http_request *request, void *data) {
  web_sink *s = data;
  (void)ctx;
  tp__lock_acquire(&s->lock);
  if (s->request == request && s->tail.size > 0 &&
      tp__http_stream_put(request, tp__bytes_text(&s->tail)) != TP_ERR_FULL) {
    tp__bytes_fini(&s->tail);
    if (s->tail_ends) end_stream_locked(s);
  }
  tp__lock_release(&s->lock);
}

/* The stream of a session ends with its client. */
static void leave_session(tp_mcp_server *server, web_sink *s) {
  bool is_stream = false;
  tp__lock_acquire(&server->lock);
  for (tp__mcp_server_session *session = server->sessions; session && !is_stream; session = session->next)
    if (session->stream == &s->sink) {
      session->stream = NULL;
      session->used_ms = tp__monotonic_ms();
      is_stream = true;
    }
  tp__lock_release(&server->lock);
  if (!is_stream) return;
  s->sink.drop(&s->sink);
  tp__mcp_sink_unref(&s->sink);
}

/* Handles a client that has left. In older versions this cancels nothing: the call goes on, and its answer is
 * dropped. */
static void on_gone(void *ctx, void *data) {
  web *w = ctx;
  web_sink *s = data;
  if (!s) return;
  if (s->is_modern) tp__mcp_call_left(w->server, &s->sink);
  else leave_session(w->server, s);
  tp__lock_acquire(&s->lock);
  tp__bytes_fini(&s->tail); /* nothing will make space any more */
  if (s->request && s->tail_ends) end_stream_locked(s);
  tp__lock_release(&s->lock);
}

/* ---- who may ---- */

static bool is_origin_allowed(const tp_mcp_server *server, const tp__http_request *request) {
  tp_text origin = tp__http_header(request, "Origin");
  const char *scheme = origin.size > 0 ? memmem(origin.data, origin.size, "://", 3) : NULL;
  if (tp__http_header_count(request, "Origin") > 1) return false;
  if (origin.size == 0) return true;
  for (size_t i = 0; server->origins[i]; i++)
    if (tp__is_word(origin, server->origins[i])) return true;
  if (!scheme) return false;
  size_t at = (size_t)(scheme - origin.data) + 3;
  return tp__is_local_host((tp_text){origin.data + at, origin.size - at});
}

static void refuse_request(tp__http_request *request, unsigned status, const char *why) {
  tp__http_field fields[] = {{"Content-Type", "application/json"}, {NULL, NULL}, {NULL, NULL}};
  char body[256];
  if (status == 401) fields[1] = (tp__http_field){"WWW-Authenticate", "Bearer"};
  if (status == 405) fields[1] = (tp__http_field){"Allow", "POST, GET, DELETE"};
  snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":%d,\"message\":\"%s\"}}",
           TP__MCP_INVALID_REQUEST, why);
  tp__http_answer(request, status, fields, tp_text_of(body));
}

/* @param ret_principal  the identity of the key.   @return false: the request was refused. */
static bool admit(web *w, tp__http_request *request, char ret_principal[TP__MCP_PRINCIPAL_BYTES]) {
  const tp_mcp_server *server = w->server;
  tp_text key = tp__http_header(request, "Authorization");
  snprintf(ret_principal, TP__MCP_PRINCIPAL_BYTES, "http");
  bool is_local = !w->is_local || tp__is_local_host(tp__http_header(request, "Host"));
  if (!is_local || !is_origin_allowed(server, request)) {
    refuse_request(request, 403, "this host or origin may not call");
    return false;
  }
  if (server->keys[0] || server->options.keys_required) {
    bool is_bearer = key.size > 7 && strncasecmp(key.data, "Bearer ", 7) == 0;
    int index = is_bearer ? tp__key_find(server->keys, (tp_text){key.data + 7, key.size - 7}) : -1;
    if (index < 0) {
      refuse_request(request, 401, "a key is needed: Authorization: Bearer KEY");
      return false;
    }
    snprintf(ret_principal, TP__MCP_PRINCIPAL_BYTES, "key-%d", index + 1);
  }
  return true;
}

static bool accepts(const tp__http_request *request, const char *type) {
  tp_text accept = tp__http_header(request, "Accept");
  return accept.size == 0 || memmem(accept.data, accept.size, type, strlen(type)) ||
         memmem(accept.data, accept.size, "*/*", 3);
}

/* ---- sessions ---- */

/* @return with a reference; NULL: there is no session of this id, or it belongs to another client. */
static tp__mcp_server_session *find_session(tp_mcp_server *server, tp_text id, const char *principal) {
  tp__lock_acquire(&server->lock);
  tp__mcp_server_session *session = server->sessions;
  while (session && !(tp__is_word(id, session->id) && strcmp(session->principal, principal) == 0))
    session = session->next;
  if (session) {
    session->used_ms = tp__monotonic_ms();
    tp__references_ref(&session->refs);
  }
  tp__lock_release(&server->lock);
  return session;
}

/* @return with a reference; NULL: there are too many sessions, or there is no memory. */
static tp__mcp_server_session *session_new(tp_mcp_server *server, const char *principal) {
  tp__mcp_server_session *session = tp__heap_alloc(sizeof *session);
  if (!session || !tp__mcp_random(session->id)) {
    tp__heap_free(session, sizeof *session);
    return NULL;
  }
  tp__references_init(&session->refs);
  tp__references_ref(&session->refs);
  snprintf(session->principal, sizeof session->principal, "%s", principal);
  session->log_level = 1;
  session->used_ms = tp__monotonic_ms();
  tp__lock_acquire(&server->lock);
  bool is_full = server->session_count >= TP__MCP_SESSIONS_MAX;
  if (!is_full) {
    session->next = server->sessions;
    server->sessions = session;
    server->session_count++;
  }
  tp__lock_release(&server->lock);
  if (!is_full) return session;
  tp__mcp_server_session_unref(session);
  tp__mcp_server_session_unref(session);
  return NULL;
}

static void end_session(tp_mcp_server *server, tp__mcp_server_session *session) {
  tp__lock_acquire(&server->lock);
  tp__mcp_server_session **at = &server->sessions;
  while (*at && *at != session) at = &(*at)->next;
  bool is_listed = *at != NULL;
  if (is_listed) {
    *at = session->next;
    server->session_count--;
  }
  tp__mcp_sink *stream = is_listed ? session->stream : NULL;
  if (stream) session->stream = NULL;
  tp__lock_release(&server->lock);
  if (stream) {
    stream->drop(stream);
    tp__mcp_sink_unref(stream);
  }
  if (is_listed) tp__mcp_server_session_unref(session);
}

/* ---- methods of HTTP ---- */

static void open_stream(web *w, tp__http_request *request, tp__mcp_server_session *session) {
  web_sink *s = web_sink_new(w, request, true);
  if (!s) {
    refuse_request(request, 503, "no memory");
    return;
  }
  s->open = 1;
  tp__lock_acquire(&s->lock);
  begin_stream_locked(s);
  tp__lock_release(&s->lock);
  tp__lock_acquire(&w->server->lock);
  tp__mcp_sink *before = session->stream;
  session->stream = &s->sink; /* the stream takes the caller's reference */
  tp__lock_release(&w->server->lock);
  if (!before) return;
  before->drop(before);
  tp__mcp_sink_unref(before);
}

static void take_delete(web *w, tp__http_request *request, const char *principal) {
  tp_text id = tp__http_header(request, "Mcp-Session-Id");
  tp__mcp_server_session *session = find_session(w->server, id, principal);
  if (id.size == 0 || !session) {
    refuse_request(request, id.size == 0 ? 405 : 404,
                   id.size == 0 ? "DELETE ends a session: name one" : "no such session");
    return;
  }
  end_session(w->server, session);
  tp__mcp_server_session_unref(session);
  tp__http_answer(request, 204, NULL, (tp_text){0});
}

/* ---- POST ---- */

/** A POST that is being checked. */
typedef struct post {
  web *web;
  tp__http_request *request;
  web_sink *sink;
  const char *principal;
  bool drains;       /* no request begins */
  tp_writer *writer; /* NULL when it was taken */
} post;

static void refuse_message(const post *p, const tp__mcp_message *message, int64_t code, const char *words,
                           unsigned status) {
  tp_writer *writer = NULL;
  tp_text json = {0};
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp__mcp_write_error(writer, message->id, code, tp_text_of(words), (tp_text){0});
    (void)!tp__mcp_encode(writer, &json, NULL);
  }
  tp__lock_acquire(&p->sink->lock);
  answer_locked(p->sink, status, json);
  tp__lock_release(&p->sink->lock);
  tp_writer_free(writer);
}

typedef struct header_check {
  const post *post;
  const char *wrong;
} header_check;

static bool check_param_header(void *ctx, const tp__mcp_header *header) {
  header_check *check = ctx;
  char name[160];
  tp__bytes decoded = {0};
  snprintf(name, sizeof name, "Mcp-Param-%.*s", (int)header->name.size, header->name.data);
  unsigned count = tp__http_header_count(check->post->request, name);
  tp_text value = tp__http_header(check->post->request, name);
  bool has_value = header->value.size > 0 && tp_value_kind_of(header->value) != TP_VALUE_NULL;
  bool fits = count == (has_value ? 1U : 0U);
  if (fits && has_value)
    fits = tp__mcp_header_decode(value, &decoded) && tp__mcp_header_matches(tp__bytes_text(&decoded), header->value);
  tp__bytes_fini(&decoded);
  if (!fits) check->wrong = "a header Mcp-Param- does not say what the arguments say";
  return fits;
}

static const char *check_params(const post *p, const tp__mcp_message *message) {
  header_check check = {.post = p};
  tp__bytes schema = {0};
  tp_text arguments = tp_value_get(message->params, "arguments");
  if (!tp__is_word(message->method, "tools/call") || tp_value_kind_of(arguments) != TP_VALUE_MAP) return NULL;
  if (tp__mcp_tool_find(p->web->server, tp_value_text(tp_value_get(message->params, "name")), NULL, &schema, NULL) &&
      schema.size > 0)
    (void)!tp__mcp_headers_of(tp__bytes_text(&schema), arguments, check_param_header, &check, NULL);
  tp__bytes_fini(&schema);
  return check.wrong;
}

/* @return NULL; or which header does not agree with the body. */
static const char *check_headers(const post *p, const tp__mcp_message *message, tp_text version) {
  const tp__http_request *r = p->request;
  tp_text method = tp__http_header(r, "Mcp-Method"), name = tp__mcp_header_name(message->method, message->params);
  tp__bytes decoded = {0};
  if (!tp__same(tp__http_header(r, "MCP-Protocol-Version"), version) ||
      tp__http_header_count(r, "MCP-Protocol-Version") != 1)
    return "the header MCP-Protocol-Version is not the version in _meta";
  if (message->kind == TP__MCP_REQUEST &&
      (!tp__same(method, message->method) || tp__http_header_count(r, "Mcp-Method") != 1))
    return "the header Mcp-Method is not the method";
  if (name.size == 0) return NULL;
  bool fits = tp__http_header_count(r, "Mcp-Name") == 1 &&
              tp__mcp_header_decode(tp__http_header(r, "Mcp-Name"), &decoded) &&
              tp__same(tp__bytes_text(&decoded), name);
  tp__bytes_fini(&decoded);
  return fits ? check_params(p, message) : "the header Mcp-Name is not the name or URI";
}

static void dispatch(post *p, tp__mcp_server_session *session, const tp__mcp_message *message) {
  if (message->kind == TP__MCP_REQUEST) {
    p->sink->open = 1;
  } else {
    tp__lock_acquire(&p->sink->lock);
    answer_locked(p->sink, 202, (tp_text){0});
    tp__lock_release(&p->sink->lock);
  }
  if (tp__mcp_dispatch(p->web->server, &p->sink->sink, session, p->principal, message, p->writer)) p->writer = NULL;
}

static void take_modern(post *p, const tp__mcp_message *message, tp_text version) {
  const char *wrong = version.size > 0 ? check_headers(p, message, version) : NULL;
  p->sink->is_modern = true;
  if (wrong) refuse_message(p, message, TP__MCP_HEADER_MISMATCH, wrong, 400);
  else dispatch(p, NULL, message);
}

static void take_initialize(post *p, const tp__mcp_message *message) {
  tp__mcp_server_session *session = session_new(p->web->server, p->principal);
  if (!session) {
    refuse_message(p, message, TP__MCP_INTERNAL_ERROR, "too many sessions", 503);
    return;
  }
  memcpy(p->sink->session_id, session->id, sizeof p->sink->session_id);
  dispatch(p, session, message);
  tp__mcp_server_session_unref(session);
}

static void take_batch(post *p, tp__mcp_server_session *session, tp__mcp_packet *packet) {
  tp_value_walk walk = {0};
  while (tp_value_next(packet->value, &walk))
    p->sink->open += tp_value_get(walk.value, "method").size > 0 && tp_value_get(walk.value, "id").size > 0;
  p->sink->open++; /* counts this function as an open answer */
  tp__mcp_dispatch_batch(p->web->server, &p->sink->sink, session, p->principal, packet);
  p->sink->sink.drop(&p->sink->sink);
}

static void take_message(post *p, tp__mcp_server_session *session, tp__mcp_packet *packet) {
  tp__mcp_message message = {0};
  tp_fault fault = {0};
  tp_text header = tp__http_header(p->request, "MCP-Protocol-Version");
  if (!tp__mcp_next(packet, &message, &fault) || message.kind == TP__MCP_BROKEN) {
    p->sink->open = 1;
    tp__mcp_answer_broken(&p->sink->sink, &message, fault.message, true);
    return;
  }
  if (p->drains && message.kind == TP__MCP_REQUEST) {
    refuse_message(p, &message, TP__MCP_INTERNAL_ERROR, ENDS, 503);
    return;
  }
  tp_text version =
      tp_value_text(tp_value_get(tp_value_get(message.params, "_meta"), "io.modelcontextprotocol/protocolVersion"));
  bool is_modern = version.size > 0 || tp__mcp_version_has(tp__mcp_version_of(header), TP__MCP_HAS_META) ||
                   (!session && tp__is_word(message.method, "server/discover"));
  if (is_modern) take_modern(p, &message, version);
  else if (session && header.size > 0 && tp__mcp_version_of(header) == TP_MCP_VERSION_NONE)
    refuse_message(p, &message, TP__MCP_INVALID_REQUEST, "the header MCP-Protocol-Version names an unknown version",
                   400);
  else if (tp__is_word(message.method, "initialize") && message.kind == TP__MCP_REQUEST) take_initialize(p, &message);
  else if (session) dispatch(p, session, &message);
  else refuse_message(p, &message, TP__MCP_INVALID_REQUEST, "no session: initialize first, or send _meta", 400);
}

static void take_post(web *w, tp__http_request *request, const char *principal, bool drains) {
  tp_text type = tp__http_header(request, "Content-Type"), id = tp__http_header(request, "Mcp-Session-Id");
  bool can_stream = accepts(request, "text/event-stream");
  tp__mcp_server_session *session = id.size > 0 ? find_session(w->server, id, principal) : NULL;
  tp__mcp_packet packet;
  tp__mcp_message broken = {0};
  tp_fault fault = {0};
  if (tp__http_body(request).size > TP__MCP_MESSAGE_BYTES_MAX) refuse_request(request, 413, "a message is too large");
  else if (type.size < 16 || strncasecmp(type.data, "application/json", 16) != 0)
    refuse_request(request, 415, "the body is application/json");
  else if (!can_stream && !accepts(request, "application/json"))
    refuse_request(request, 406, "accept application/json and text/event-stream");
  else if (id.size > 0 && !session) refuse_request(request, 404, "there is no such session: initialize again");
  else {
    post p = {.web = w,
              .request = request,
              .principal = principal,
              .drains = drains,
              .sink = web_sink_new(w, request, can_stream)};
    if (!p.sink || tp_writer_new(NULL, &p.writer) != TP_OK) {
      if (p.sink) p.sink->request = NULL;
      refuse_request(request, 503, "no memory");
    } else if (!tp__mcp_decode(tp__http_body(request), TP__MCP_MESSAGE_BYTES_MAX,
                               session ? session->version : TP_MCP_VERSION_NONE, p.writer, &packet, &broken, &fault)) {
      p.sink->open = 1;
      tp__mcp_answer_unread(&p.sink->sink, tp__http_body(request), &broken, fault.message, true);
    } else if (packet.is_batch && drains) {
      const tp__mcp_message batch = {.kind = TP__MCP_BROKEN};
      refuse_message(&p, &batch, TP__MCP_INTERNAL_ERROR, ENDS, 503);
    } else if (packet.is_batch) {
      take_batch(&p, session, &packet);
    } else {
      take_message(&p, session, &packet);
    }
    tp_writer_free(p.writer);
    if (p.sink) tp__mcp_sink_unref(&p.sink->sink);
  }
  tp__mcp_server_session_unref(session);
}

static void take_get(web *w, tp__http_request *request, const char *principal) {
  tp_text id = tp__http_header(request, "Mcp-Session-Id");
  tp__mcp_server_session *session = find_session(w->server, id, principal);
  if (id.size == 0) refuse_request(request, 405, "GET opens the stream of a session: name one");
  else if (!session) refuse_request(request, 404, "there is no such session");
  else if (!accepts(request, "text/event-stream")) refuse_request(request, 406, "accept text/event-stream");
  else open_stream(w, request, session);
  tp__mcp_server_session_unref(session);
}

/* @param drains  nothing new begins. */
static void take_request(web *w, tp__http_request *request, const char *principal, bool drains) {
  const char *method = tp__http_method(request);
  if (strcmp(method, "POST") == 0) take_post(w, request, principal, drains);
  else if (strcmp(method, "GET") == 0 && drains) refuse_request(request, 503, ENDS);
  else if (strcmp(method, "GET") == 0) take_get(w, request, principal);
  else if (strcmp(method, "DELETE") == 0) take_delete(w, request, principal);
  else refuse_request(request, 405, "POST, GET and DELETE are here");
}

static void on_request(void *ctx, tp__http_request *request) {
  web *w = ctx;
  char principal[TP__MCP_PRINCIPAL_BYTES];
  if (!admit(w, request, principal)) return;
  if (strcmp(tp__http_path(request), PATH) == 0) take_request(w, request, principal, false);
  else refuse_request(request, 404, "the endpoint is " PATH);
}

/* ---- in another server ---- */

static bool enter(void *ctx, const tp__mount_server *passes) {
  web *w = ctx;
  if (passes && w->passes.session_take) return false;
  w->passes = passes ? *passes : (tp__mount_server){0};
  return true;
}

static void on_passed(void *ctx, tp__http_request *request, const char *client, bool drains) {
  web *w = ctx;
  tp__http_hand_over(request, &w->handlers);
  if (is_origin_allowed(w->server, request)) take_request(w, request, client, drains);
  else refuse_request(request, 403, "this origin may not call");
}

static void stop_passed(void *ctx, int64_t until_ms) { tp__mcp_server_end_calls(((web *)ctx)->server, until_ms); }

tp_mount *tp__mcp_web_mount(tp_mcp_server *server) { return &((web *)server->web)->mount; }

tp_status tp__mcp_web_session(tp_mcp_server *server, const char *principal, tp_session **ret_session, void **ret_hold,
                              tp_fault *fault) {
  const tp__mount_server *passes = &((web *)server->web)->passes;
  return passes->session_take(passes->ctx, principal, ret_session, ret_hold, fault);
}

void tp__mcp_web_release(tp_mcp_server *server, void *hold) { ((web *)server->web)->passes.session_release(hold); }

/* ---- start and end ---- */

tp_status tp__mcp_web_start(tp_mcp_server *server, tp_fault *fault) {
  web *w = tp__heap_alloc(sizeof *w);
  if (!w) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for HTTP");
  w->server = server;
  w->handlers = (tp__http_handlers){.gone = on_gone, .drained = on_drained, .released = on_released, .ctx = w};
  w->mount = (tp_mount){.version = tp_version(),
                        .request_bytes = tp__http_request_bytes(),
                        .enter = enter,
                        .request = on_passed,
                        .stop = stop_passed,
                        .ctx = w};
  if (server->options.mounted) {
    server->web = w;
    return TP_OK;
  }
  w->is_local = tp__is_this_machine(server->options.http_address);
  const tp__http_options options = {.address = server->options.http_address,
                                    .port = (uint16_t)server->options.http_port,
                                    .body_bytes_max = TP__MCP_MESSAGE_BYTES_MAX,
                                    .keep_alive = KEEP_ALIVE};
  const tp__http_handlers handlers = {
      .request = on_request, .gone = on_gone, .drained = on_drained, .released = on_released, .ctx = w};
  tp_status status = tp__http_start(&options, &handlers, &w->http, fault);
  if (status == TP_OK) server->web = w;
  else tp__heap_free(w, sizeof *w);
  return status;
}

uint32_t tp__mcp_web_port(const tp_mcp_server *server) {
  const web *w = server->web;
  return w->http ? tp__http_port(w->http) : 0;
}

void tp__mcp_web_stop_accepting(tp_mcp_server *server) {
  const web *w = server->web;
  if (w->http) tp__http_stop_accepting(w->http);
}

/* The streams of sessions end with the front, which calls on_gone() for each. */
void tp__mcp_web_stop(tp_mcp_server *server) {
  web *w = server->web;
  assert(!w->passes.session_take); /* the other server has ended */
  tp__http_free(w->http);
  tp__heap_free(w, sizeof *w);
  server->web = NULL;
}
