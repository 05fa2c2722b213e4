/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "server/admin.h"
#include "server/live.h"
#include "server/metrics.h"
#include "server/operator.h"
#include "server/server.h"
#include "support/access.h"
#include "support/clock.h"
#include "support/sha256.h"

enum {
  SESSIONS_MAX = 10000,
  BODY_BYTES_MAX = 32 << 20,
  CONNECTIONS_MAX = 16384,
  STREAM_BYTES_MAX = (64 << 10) - 1, /* with a NUL a power of two; about as much may also wait in the exchange */
  CANCEL_LOOK_MS = 20
};
#define KEEP_ALIVE ": \n\n"

/* ---- who may ---- */

/* @param ret_tenant  the tenant of the key's sessions; "" for none.   @param ret_key  the index of the key; -1: no key
 *         is needed.
 * @return false: the request was refused. */
static bool admit(const tp_server *server, tp__http_request *request, const char **ret_tenant, int *ret_key,
                  tp__refusal *refusal) {
  tp_text key = tp__http_header(request, "Authorization");
  *ret_tenant = server->options.tenant ? server->options.tenant : "";
  if (server->is_local && !tp__is_local_host(tp__http_header(request, "Host")))
    return tp__refusal_fill(refusal, 403, "wrong_host", NULL, "this server answers to localhost and 127.0.0.1 only");
  if (!server->keys[0] && !server->options.keys_required) return true;
  bool is_bearer = key.size > 7 && strncasecmp(key.data, "Bearer ", 7) == 0;
  int index = is_bearer ? tp__key_find(server->keys, (tp_text){key.data + 7, key.size - 7}) : -1;
  if (index < 0)
    return tp__refusal_fill(refusal, 401, "invalid_api_key", NULL, "a key is needed: Authorization: Bearer KEY");
  if (server->tenants[index][0]) *ret_tenant = server->tenants[index];
  *ret_key = index;
  return true;
}

/* ---- routes ---- */

typedef void (*route_fn)(tp_server *server, tp__http_request *request, const char *tenant);

static void answer_json(tp__http_request *request, unsigned status, tp_text body) {
  static const tp__http_field fields[] = {
      {"Content-Type", "application/json"}, {"Cache-Control", "no-store"}, {NULL, NULL}};
  tp__http_answer(request, status, fields, body);
}

/* Takes an idempotency key: its hash becomes the id of the turn, since an id has a fixed form. A request without a
 * session gets one that belongs to the key, so that the same request finds its turn. */
static void take_idempotency(tp__ask *ask, tp_text key, char session[TP__EXCHANGE_ID_BYTES]) {
  char hex[65];
  tp__sha256 hash;
  if (key.size == 0) return;
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, key.data, key.size);
  tp__sha256_finish(&hash, hex);
  snprintf(ask->turn_id, sizeof ask->turn_id, "key-%.40s", hex);
  snprintf(session, TP__EXCHANGE_ID_BYTES, "key-%.40s", hex);
  if (ask->session.size == 0 && ask->previous.size == 0) ask->session = tp_text_of(session);
}

static void take_chat(tp_server *server, tp__http_request *request, const char *tenant) {
  tp__ask ask = {0};
  tp__refusal refusal;
  if (tp__ask_read_chat(&ask, tp__http_body(request), &refusal)) {
    char session[TP__EXCHANGE_ID_BYTES];
    ask.session = tp__http_header(request, "X-Session-Id");
    take_idempotency(&ask, tp__http_header(request, "Idempotency-Key"), session);
    tp__exchange_begin(server, request, &tp__chat_form, "chatcmpl-", &ask, tenant);
  } else {
    tp__refusal_answer(&refusal, request);
  }
  tp__ask_fini(&ask);
}

enum { RESP_DIGITS = 24 };
#define NO_SESSION "000000000000000000000000"

/* Checks digits that become a part of a session's id, so that only ids which this server has made are used. */
static bool are_digits(const char *at, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f'))) return false;
  return true;
}

/* Finds the session of the response that a request continues. The id of a response names its session, so this works
 * also after a restart of the server.
 * @param prefix   the prefix of the id.   @param session  memory for the session's id.   @return false: the refusal has
 *         the reason. */
static bool find_chain(tp__ask *ask, char prefix[40], char session[40], tp__refusal *refusal) {
  char digits[RESP_DIGITS + 1] = NO_SESSION;
  tp_text previous = ask->previous;
  bool is_ours = tp__begins(previous, "resp_") && previous.size >= 5 + 2 * RESP_DIGITS &&
                 are_digits(previous.data + 5, RESP_DIGITS);
  if (is_ours) memcpy(digits, previous.data + 5, RESP_DIGITS);
  if (previous.size > 0 && (!is_ours || strcmp(digits, NO_SESSION) == 0))
    return tp__refusal_fill(refusal, 400, "previous_response_not_found", "previous_response_id",
                            "Previous response with id '%.*s' was not stored: its input had more than one message, it "
                            "had store: false, or it belongs to a conversation that is to be named",
                            tp__cut(previous, TP__EXCHANGE_ID_BYTES), previous.data);
  bool begins_chain = previous.size == 0 && ask->session.size == 0 && ask->stores && ask->goes_on;
  if (begins_chain && !tp__server_random(digits, RESP_DIGITS))
    return tp__refusal_fill(refusal, 503, "overloaded", NULL, "there is no randomness");
  ask->stores = ask->stores && (begins_chain || previous.size > 0);
  snprintf(prefix, 40, "resp_%s", digits);
  snprintf(session, 40, "resp-%s", digits);
  if (begins_chain || previous.size > 0) ask->session = tp_text_of(session);
  return true;
}

static void take_response(tp_server *server, tp__http_request *request, const char *tenant) {
  tp__ask ask = {0};
  tp__refusal refusal;
  char prefix[40], chain[40], key[TP__EXCHANGE_ID_BYTES];
  bool reads = tp__ask_read_response(&ask, tp__http_body(request), &refusal);
  if (reads && ask.session.size == 0 && ask.previous.size == 0) ask.session = tp__http_header(request, "X-Session-Id");
  if (reads) take_idempotency(&ask, tp__http_header(request, "Idempotency-Key"), key);
  reads = reads && find_chain(&ask, prefix, chain, &refusal);
  if (reads) tp__exchange_begin(server, request, &tp__responses_form, prefix, &ask, tenant);
  else tp__refusal_answer(&refusal, request);
  tp__ask_fini(&ask);
}

static bool put_model(void *ctx, tp_agent *agent) {
  tp__bytes *out = ctx;
  if (out->size > 0) tp__bytes_put(out, ",", 1);
  tp__bytes_put_string(out, "{\"id\":");
  tp__put_json(out, tp_text_of(tp_agent_id(agent)));
  tp__bytes_put_string(out, ",\"object\":\"model\",\"created\":0,\"owned_by\":\"turnphase\"}");
  return true;
}

static void take_models(tp_server *server, tp__http_request *request, const char *tenant) {
  tp__bytes list = {0}, out = {0};
  (void)tenant;
  (void)tp_runtime_agents(server->runtime, put_model, &list);
  tp__bytes_put_string(&out, "{\"object\":\"list\",\"data\":[");
  tp__bytes_put_text(&out, tp__bytes_text(&list));
  tp__bytes_put_string(&out, "]}\n");
  bool failed = list.failed || out.failed;
  answer_json(request, failed ? 503 : 200, failed ? (tp_text){0} : tp__bytes_text(&out));
  tp__bytes_fini(&list);
  tp__bytes_fini(&out);
}

static void take_live(tp_server *server, tp__http_request *request, const char *tenant) {
  (void)server, (void)tenant;
  answer_json(request, 200, tp_text_of("{\"status\":\"ok\"}\n"));
}

static bool is_draining(tp_server *server) {
  tp__lock_acquire(&server->lock);
  bool drains = server->drains;
  tp__lock_release(&server->lock);
  return drains;
}

static void take_ready(tp_server *server, tp__http_request *request, const char *tenant) {
  (void)tenant;
  const char *unready = tp__server_unready(server);
  tp__bytes out = {0};
  tp__bytes_printf(&out, "{\"status\":\"%s\"}\n", unready ? unready : "ok");
  answer_json(request, unready ? 503 : 200, out.failed ? (tp_text){0} : tp__bytes_text(&out));
  tp__bytes_fini(&out);
}

/** A path, which is compared byte by byte, and its function. */
static const struct route {
  const char *path, *method;
  route_fn take;
  bool is_open;                                                   /* set when it needs no key */
  bool is_a_turn;                                                 /* refused while the server drains */
  tp__operator_fn answer;                                         /* for operators, on their thread; in place of take */
  void (*take_now)(tp_server *server, tp__http_request *request); /* for operators, on the front's thread */
  bool is_admin;                                                  /* exists only with a key of operators */
  bool is_mount;                                                  /* exists only with a mount, which knows its
                                                                     methods */
} routes[] = {
    {.path = "/v1/chat/completions", .method = "POST", .take = take_chat, .is_a_turn = true},
    {.path = "/v1/responses", .method = "POST", .take = take_response, .is_a_turn = true},
    {.path = "/v1/models", .method = "GET", .take = take_models},
    {.path = "/mcp", .is_mount = true},
    {.path = "/health", .method = "GET", .take = take_ready, .is_open = true},
    {.path = "/health/live", .method = "GET", .take = take_live, .is_open = true},
    {.path = "/health/ready", .method = "GET", .take = take_ready, .is_open = true},
    {.path = "/metrics", .method = "GET", .answer = tp__operator_metrics},
    {.path = "/admin", .method = "GET", .take_now = tp__page_answer, .is_admin = true, .is_open = true},
    {.path = "/admin/events", .method = "GET", .take_now = tp__admin_events, .is_admin = true},
    {.path = "/admin/state", .method = "GET", .answer = tp__admin_state, .is_admin = true},
    {.path = "/admin/turns", .method = "GET", .answer = tp__admin_turns, .is_admin = true},
    {.path = "/admin/turns/cancel", .method = "POST", .answer = tp__admin_cancel, .is_admin = true},
    {.path = "/admin/questions", .method = "GET", .answer = tp__admin_questions, .is_admin = true},
    {.path = "/admin/questions/answer", .method = "POST", .answer = tp__admin_answer, .is_admin = true},
    {.path = "/admin/denials", .method = "GET", .answer = tp__admin_denials, .is_admin = true},
    {.path = "/admin/handlers", .method = "GET", .answer = tp__admin_handlers, .is_admin = true},
    {.path = "/admin/breakers", .method = "GET", .answer = tp__admin_breakers, .is_admin = true},
    {.path = "/admin/handlers/trip", .method = "POST", .answer = tp__admin_trip, .is_admin = true},
    {.path = "/admin/jobs", .method = "GET", .answer = tp__admin_jobs, .is_admin = true},
    {.path = "/admin/jobs/redrive", .method = "POST", .answer = tp__admin_redrive, .is_admin = true},
    {.path = "/admin/jobs/discard", .method = "POST", .answer = tp__admin_discard, .is_admin = true},
    {.path = "/admin/plan", .method = "GET", .answer = tp__admin_plan, .is_admin = true},
    {.path = "/admin/drain", .method = "POST", .answer = tp__admin_drain, .is_admin = true},
};

static const struct route *route_of(const tp_server *server, const tp__http_request *request, tp__refusal *refusal) {
  const char *allow = NULL;
  for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
    if (routes[i].is_admin && !server->operator_keys[0]) continue;
    if (routes[i].is_mount && !server->options.mount) continue;
    if (strcmp(tp__http_path(request), routes[i].path) != 0) continue;
    if (routes[i].is_mount || strcmp(tp__http_method(request), routes[i].method) == 0) return &routes[i];
    allow = routes[i].method;
  }
  if (allow) (void)tp__refusal_fill(refusal, 405, "method_not_allowed", NULL, "the method is %s here", allow);
  else (void)tp__refusal_fill(refusal, 404, "unknown_url", NULL, "there is nothing at this path");
  refusal->allow = allow;
  return NULL;
}

const char *tp__server_route_path(const void *route) { return route ? ((const struct route *)route)->path : ""; }

static void take_operator(tp_server *server, tp__http_request *request, const struct route *route) {
  tp__refusal refusal;
  if (!route->is_open && !tp__operator_admit(server, request, !route->is_admin, &refusal))
    tp__refusal_answer(&refusal, request);
  else if (route->take_now) route->take_now(server, request);
  else tp__operator_pass(server, request, route->answer);
}

static void on_gone(void *ctx, void *data) {
  if (data && ((tp__client *)data)->watches) tp__live_watcher_gone(data);
  else tp__exchange_gone(ctx, data);
}

static void on_drained(void *ctx, tp__http_request *request, void *data) {
  if (data && ((tp__client *)data)->watches) tp__live_watcher_drained(data);
  else tp__exchange_drained(ctx, request, data);
}

static void on_released(void *ctx, void *data) {
  if (data && ((tp__client *)data)->watches) tp__live_watcher_free(data);
  else tp__exchange_released(ctx, data);
}

static void on_request(void *ctx, tp__http_request *request) {
  tp_server *server = ctx;
  tp__refusal refusal;
  const char *tenant = "";
  const struct route *route = route_of(server, request, &refusal);
  if (route && (route->answer || route->take_now)) {
    tp__http_set_route(request, route, "");
    take_operator(server, request, route);
    return;
  }
  int key = -1;
  bool passes = route && (route->is_open || admit(server, request, &tenant, &key, &refusal));
  tp__http_set_route(request, route, passes ? tenant : "");
  if (passes && route->is_a_turn && is_draining(server))
    passes = tp__refusal_fill(&refusal, 503, "shutting_down", NULL, "the server ends: it takes no more requests");
  if (passes && route->is_mount) tp__mount_answer(server, request, key, tenant, is_draining(server));
  else if (passes) route->take(server, request, tenant);
  else tp__refusal_answer(&refusal, request);
}

/* ---- start and end ---- */

/* Reads the address of a socket that the host has opened, in place of options.address. */
static tp_status read_socket(tp_server_options *o, char text[INET6_ADDRSTRLEN], tp_fault *fault) {
  struct sockaddr_storage at = {0};
  socklen_t size = sizeof at;
  if (!o->socket) return TP_OK;
  if (o->address || o->port)
    return tp__refuse(fault, TP_ERR_USAGE, "socket", "a socket has its address and port: leave both out");
  bool is_v6 = getsockname(o->socket, (struct sockaddr *)&at, &size) == 0 && at.ss_family == AF_INET6;
  const void *address = is_v6 ? (const void *)&((struct sockaddr_in6 *)&at)->sin6_addr
                              : (const void *)&((struct sockaddr_in *)&at)->sin_addr;
  if ((!is_v6 && at.ss_family != AF_INET) || !inet_ntop(at.ss_family, address, text, INET6_ADDRSTRLEN))
    return tp__refuse(fault, TP_ERR_USAGE, "socket", "descriptor %d is no TCP socket", o->socket);
  o->address = text;
  return TP_OK;
}

static tp_status check_options(const tp_server_options *o, tp_fault *fault) {
  if (o->port > UINT16_MAX) return tp__refuse(fault, TP_ERR_USAGE, "port", "port is at most 65535");
  if (o->on_request_ctx && !o->on_request)
    return tp__refuse(fault, TP_ERR_USAGE, "on_request_ctx", "on_request_ctx is set, and on_request is NULL");
  if (o->on_begin_ctx && !o->on_begin)
    return tp__refuse(fault, TP_ERR_USAGE, "on_begin_ctx", "on_begin_ctx is set, and on_begin is NULL");
  if (o->busy > TP_BUSY_WAIT || (o->busy_wait_ms && o->busy != TP_BUSY_WAIT))
    return tp__refuse(fault, TP_ERR_USAGE, "busy", "busy is %u: it must be a tp_busy; busy_wait_ms is of TP_BUSY_WAIT",
                      o->busy);
  if (o->address && !tp__is_this_machine(o->address) && o->key_count == 0)
    return tp__refuse(fault, TP_ERR_USAGE, o->address,
                      "%s is reached from other machines: set tp_server_options.keys, or listen on 127.0.0.1",
                      o->address);
  return TP_OK;
}

static tp_status fill(tp_server *server, const tp_server_options *o, tp_fault *fault) {
  tp_server_options *ours = &server->options;
  *ours = *o;
  ours->keys = NULL;
  if (o->shared_history) ours->shared_history = tp_shared_history_ref(o->shared_history);
  ours->address = tp__heap_copy(tp_text_of(o->address ? o->address : "127.0.0.1"));
  ours->tenant = o->tenant ? tp__heap_copy(tp_text_of(o->tenant)) : NULL;
  ours->environment = o->environment ? tp__heap_copy(tp_text_of(o->environment)) : NULL;
  ours->default_agent = ours->admin_key = NULL;
  if (!ours->sessions_max) ours->sessions_max = SESSIONS_MAX;
  if (!ours->body_bytes_max) ours->body_bytes_max = BODY_BYTES_MAX;
  if (!ours->connections_max) ours->connections_max = CONNECTIONS_MAX;
  if (!ours->address || !ours->tenant != !o->tenant || !ours->environment != !o->environment)
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
  server->is_local = tp__is_this_machine(ours->address);
  return tp__server_take_keys(server, o, fault);
}

static tp_status listen_for(tp_server *server, tp_fault *fault) {
  const tp_server_options *o = &server->options;
  const tp__http_options http = {.address = o->address,
                                 .port = (uint16_t)o->port,
                                 .socket = o->socket,
                                 .body_bytes_max = o->body_bytes_max,
                                 .connections_max = o->connections_max,
                                 .receive_limit_ms = o->receive_limit_ms,
                                 .stream_bytes_max = STREAM_BYTES_MAX,
                                 .keep_alive = KEEP_ALIVE};
  const tp__http_handlers handlers = {.request = on_request,
                                      .gone = on_gone,
                                      .drained = on_drained,
                                      .done = tp__exchange_done,
                                      .released = on_released,
                                      .ctx = server};
  return tp__http_start(&http, &handlers, &server->http, fault);
}

void tp__server_unref(tp_server *server) {
  if (!tp__references_unref(&server->refs)) return;
  assert(!server->turns && server->turn_count == 0 && server->open_count == 0);
  tp__server_free_keys(server);
  tp__operator_free(server->operators);
  tp__live_free(server->live);
  tp__bytes_fini(&server->page);
  tp__bytes_fini(&server->page_policy);
  tp__metrics_free(server->metrics);
  tp_shared_history_unref(server->options.shared_history);
  tp__heap_string_free((char *)(uintptr_t)server->options.address);
  tp__heap_string_free((char *)(uintptr_t)server->options.tenant);
  tp__heap_string_free((char *)(uintptr_t)server->options.environment);
  tp__lock_condition_fini(&server->changed);
  tp__lock_fini(&server->lock);
  tp__heap_free(server, sizeof *server);
}

tp_status tp_server_start(tp_runtime *runtime, const tp_server_options *options, tp_server **ret_server,
                          tp_fault *fault) {
  tp_server_options ours;
  if (!runtime || !ret_server)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_server_start() needs a runtime and a place for the server");
  tp_status status = tp__struct_read(&ours, sizeof ours, options, "tp_server_options", fault);
  char address[INET6_ADDRSTRLEN];
  if (status == TP_OK) status = read_socket(&ours, address, fault);
  if (status == TP_OK) status = check_options(&ours, fault);
  if (status != TP_OK) return status;
  tp_server *server = tp__heap_alloc(sizeof *server);
  if (!server) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
  tp__references_init(&server->refs);
  server->runtime = runtime;
  tp__lock_init(&server->lock, TP__LOCK_server);
  tp__lock_condition_init(&server->changed);
  status = fill(server, &ours, fault);
  if (status == TP_OK) status = tp__client_tools_add(server, fault);
  if (status == TP_OK) status = tp__operator_start(server, fault);
  if (status == TP_OK) status = tp__mount_start(server, fault);
  else server->options.mount = NULL; /* the mount has not begun */
  if (status == TP_OK) status = listen_for(server, fault);
  if (status == TP_OK) {
    *ret_server = server;
    return status;
  }
  tp__mount_end(server);
  tp__operator_unlisten(server);
  tp__operator_stop(server);
  tp__client_tools_remove(server);
  tp__server_unref(server);
  return status;
}

const char *tp_server_address(const tp_server *server) { return server ? server->options.address : ""; }

tp_status tp_server_print(tp_server *server, tp_print_fn print, void *ctx) {
  tp__bytes out = {0};
  if (!print) return TP_ERR_USAGE;
  if (!server) return TP_OK;
  tp__admin_put_state(server, &out);
  tp__bytes_put(&out, "\n", 1);
  if (!out.failed) print(ctx, out.data, out.size);
  tp_status status = out.failed ? TP_ERR_NO_MEMORY : TP_OK;
  tp__bytes_fini(&out);
  return status;
}

uint32_t tp_server_port(const tp_server *server) { return server ? tp__http_port(server->http) : 0; }

void tp_server_drain(tp_server *server) {
  if (!server) return;
  tp__lock_acquire(&server->lock);
  server->drains = true;
  tp__lock_release(&server->lock);
}

/* @return whether all turns have ended. */
static bool wait_for_turns(tp_server *server, int64_t until_ms) {
  bool in_time = true;
  tp__lock_acquire(&server->lock);
  while (server->turn_count > 0 && in_time)
    in_time = tp__lock_condition_wait_until(&server->changed, &server->lock, until_ms * TP__NS_IN_MS);
  bool ended = server->turn_count == 0;
  tp__lock_release(&server->lock);
  return ended;
}

void tp_server_free(tp_server *server, uint32_t limit_ms) {
  if (!server) return;
  tp_server_drain(server);
  tp__http_stop_accepting(server->http);
  tp__client_calls_cancel(server, NULL); /* the clients of these turns cannot come back */
  int64_t until_ms = tp__monotonic_ms() + (int64_t)limit_ms;
  bool ended = wait_for_turns(server, until_ms);
  while (!ended) {
    tp__server_turns_cancel(server);
    ended = wait_for_turns(server, tp__monotonic_ms() + CANCEL_LOOK_MS);
  }
  tp__mount_stop(server, until_ms);
  tp__http_free(server->http);
  tp__mount_end(server);
  tp__operator_stop(server);
  tp__operator_unlisten(server);
  while (!wait_for_turns(server, INT64_MAX / TP__NS_IN_MS)) {} /* turns whose request has ended */
  tp__server_sessions_close(server);
  tp__client_tools_remove(server);
  tp__server_unref(server);
}
