/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/mcp/server/server.h"
#include "support/clock.h"

enum { HTTP_OK = 200, HTTP_BAD_REQUEST = 400, HTTP_NOT_FOUND = 404, LEVELS = 8, CACHE_MS = 60000 };

#define TASKS_KEY "io.modelcontextprotocol/tasks"
#define SUBSCRIPTION_KEY "io.modelcontextprotocol/subscriptionId"

/* ---- an exchange ---- */

void tp__mcp_exchange_free(tp__mcp_exchange *exchange) {
  if (!exchange) return;
  tp__mcp_server_session_unref(exchange->session);
  tp__mcp_sink_unref(exchange->sink);
  tp_writer_free(exchange->writer);
  tp__heap_free(exchange, sizeof *exchange);
}

/* Sends the last message of an exchange; without memory for a message the exchange ends without one. */
static void send_last(tp__mcp_exchange *exchange, tp_writer *writer, unsigned status) {
  tp_text json = {0};
  if (writer && tp__mcp_encode(writer, &json, NULL) == TP_OK) exchange->sink->send(exchange->sink, json, true, status);
  else exchange->sink->drop(exchange->sink);
  tp_writer_free(writer);
  tp__mcp_exchange_free(exchange);
}

static bool is_modern(const tp__mcp_exchange *exchange) {
  return tp__mcp_version_has(exchange->version, TP__MCP_HAS_META);
}

static void write_server_info(tp_writer *writer, const tp_mcp_server *server) {
  tp_write_map(writer, 2);
  tp_write_string(writer, "name");
  tp_write_string(writer, server->name);
  tp_write_string(writer, "version");
  tp_write_string(writer, server->version);
}

static void begin_reply(tp_writer *writer, const tp__mcp_exchange *exchange, const char *result_type, bool is_list,
                        size_t pairs) {
  tp__mcp_begin_result(writer, exchange->id);
  if (!is_modern(exchange)) {
    tp_write_map(writer, pairs);
    return;
  }
  tp_write_map(writer, pairs + 2 + (is_list ? 2 : 0));
  tp_write_string(writer, "resultType");
  tp_write_string(writer, result_type);
  tp_write_string(writer, "_meta");
  tp_write_map(writer, 1);
  tp_write_string(writer, "io.modelcontextprotocol/serverInfo");
  write_server_info(writer, exchange->server);
  if (!is_list) return;
  tp_write_string(writer, "ttlMs");
  tp_write_int(writer, CACHE_MS);
  tp_write_string(writer, "cacheScope");
  tp_write_string(writer, "private");
}

void tp__mcp_reply(tp__mcp_exchange *exchange, const char *result_type, bool is_list, size_t pairs,
                   tp__mcp_write_fn write, const void *ctx) {
  tp_writer *writer = NULL;
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    begin_reply(writer, exchange, result_type, is_list, pairs);
    if (pairs > 0) write(writer, ctx);
  }
  send_last(exchange, writer, HTTP_OK);
}

static void write_pairs(tp_writer *writer, const void *ctx) {
  const tp_text *map = ctx;
  tp_value_walk walk = {0};
  while (tp_value_next(*map, &walk)) {
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
}

/* a result of resources/read may be cached as long as a list */
void tp__mcp_reply_map(tp__mcp_exchange *exchange, const char *result_type, tp_text map) {
  bool is_list = tp__is_word(exchange->method, "resources/read") && strcmp(result_type, "complete") == 0;
  tp__mcp_reply(exchange, result_type, is_list, tp_value_count(map), write_pairs, &map);
}

void tp__mcp_reply_error(tp__mcp_exchange *exchange, int64_t code, const char *words, tp_text data) {
  bool is_malformed = code == TP__MCP_HEADER_MISMATCH || code == TP__MCP_MISSING_CAPABILITY ||
                      code == TP__MCP_UNSUPPORTED_VERSION || code == TP__MCP_INVALID_REQUEST;
  unsigned status = is_malformed ? HTTP_BAD_REQUEST : HTTP_OK;
  if (code == TP__MCP_METHOD_NOT_FOUND && is_modern(exchange)) status = HTTP_NOT_FOUND;
  bool has_meta = exchange->meta.capabilities.size > 0 && exchange->meta.version_text.size > 0;
  if (code == TP__MCP_INVALID_PARAMS && !has_meta && is_modern(exchange)) status = HTTP_BAD_REQUEST;
  tp_writer *writer = NULL;
  if (tp_writer_new(NULL, &writer) == TP_OK) tp__mcp_write_error(writer, exchange->id, code, tp_text_of(words), data);
  send_last(exchange, writer, status);
}

void tp__mcp_send_notification(tp__mcp_sink *sink, const char *method, size_t pairs, tp__mcp_write_fn write,
                               const void *ctx) {
  tp_writer *writer = NULL;
  tp_text json = {0};
  if (tp_writer_new(NULL, &writer) != TP_OK) return;
  tp__mcp_begin_notification(writer, method);
  tp_write_map(writer, pairs);
  if (pairs > 0) write(writer, ctx);
  if (tp__mcp_encode(writer, &json, NULL) == TP_OK) sink->send(sink, json, false, HTTP_OK);
  tp_writer_free(writer);
}

/* ---- what a client is ---- */

int tp__mcp_level(tp_text text) {
  static const char *const names[LEVELS] = {"debug", "info",     "notice", "warning",
                                            "error", "critical", "alert",  "emergency"};
  for (int i = 0; i < LEVELS; i++)
    if (tp__is_word(text, names[i])) return i;
  return -1;
}

unsigned tp__mcp_can_of(tp_text capabilities) {
  tp_text elicitation = tp_value_get(capabilities, "elicitation");
  unsigned can = 0;
  bool has_url = tp_value_get(elicitation, "url").size > 0;
  if (elicitation.size > 0 && (!has_url || tp_value_get(elicitation, "form").size > 0)) can |= TP__MCP_CAN_FORM;
  if (has_url) can |= TP__MCP_CAN_URL;
  if (tp_value_get(capabilities, "sampling").size > 0) can |= TP__MCP_CAN_SAMPLE;
  if (tp_value_get(capabilities, "roots").size > 0) can |= TP__MCP_CAN_ROOTS;
  if (tp_value_get(tp_value_get(capabilities, "extensions"), TASKS_KEY).size > 0) can |= TP__MCP_CAN_TASKS;
  return can;
}

/* ---- the methods that are answered at once ---- */

static bool has_list(tp_mcp_server *server, tp_mcp_list list) {
  tp__lock_acquire(&server->lock);
  bool has = server->lists[list].size > 0;
  tp__lock_release(&server->lock);
  return has;
}

static void write_flag(tp_writer *writer, const char *name, int count, ...) {
  va_list flags;
  tp_write_string(writer, name);
  tp_write_map(writer, (size_t)count);
  va_start(flags, count);
  for (int i = 0; i < count; i++) {
    tp_write_string(writer, va_arg(flags, const char *));
    tp_write_bool(writer, true);
  }
  va_end(flags);
}

static bool has_prompts(tp_mcp_server *s) { return s->options.get_prompt && has_list(s, TP_MCP_LIST_PROMPTS); }
static bool has_resources(tp_mcp_server *s) {
  return s->options.read_resource && (has_list(s, TP_MCP_LIST_RESOURCES) || has_list(s, TP_MCP_LIST_TEMPLATES));
}

static void write_capabilities(tp_writer *writer, tp_mcp_server *s, bool has_extensions) {
  tp_write_string(writer, "capabilities");
  tp_write_map(writer, 2U + has_extensions + has_prompts(s) + has_resources(s) + (s->options.complete != NULL));
  write_flag(writer, "tools", 1, "listChanged");
  write_flag(writer, "logging", 0);
  if (has_prompts(s)) write_flag(writer, "prompts", 1, "listChanged");
  if (has_resources(s)) write_flag(writer, "resources", 2, "listChanged", "subscribe");
  if (s->options.complete) write_flag(writer, "completions", 0);
  if (!has_extensions) return;
  tp_write_string(writer, "extensions");
  tp_write_map(writer, 1);
  tp_write_string(writer, TASKS_KEY);
  tp_write_map(writer, 0);
}

static void write_instructions(tp_writer *writer, const tp_mcp_server *server) {
  if (!server->instructions) return;
  tp_write_string(writer, "instructions");
  tp_write_string(writer, server->instructions);
}

static void write_discovery(tp_writer *writer, const void *ctx) {
  tp_mcp_server *server = ((const tp__mcp_exchange *)ctx)->server;
  tp_write_string(writer, "supportedVersions");
  tp__mcp_versions_write(writer, TP__MCP_HAS_META);
  write_capabilities(writer, server, true);
  write_instructions(writer, server);
}

static void discover(tp__mcp_exchange *exchange) {
  tp__mcp_reply(exchange, "complete", true, 2 + (exchange->server->instructions != NULL), write_discovery, exchange);
}

static void write_initialized(tp_writer *writer, const void *ctx) {
  const tp__mcp_exchange *exchange = ctx;
  tp_write_string(writer, "protocolVersion");
  tp_write_string(writer, tp_mcp_version_name(exchange->version));
  write_capabilities(writer, exchange->server, false);
  tp_write_string(writer, "serverInfo");
  write_server_info(writer, exchange->server);
  write_instructions(writer, exchange->server);
}

/* Answers initialize. For an unknown version it names the newest one with a handshake. */
static void initialize(tp__mcp_exchange *exchange) {
  tp_mcp_server *server = exchange->server;
  tp_mcp_version wanted = tp__mcp_version_of(tp_value_text(tp_value_get(exchange->params, "protocolVersion")));
  if (!tp__mcp_version_has(wanted, TP__MCP_HAS_INITIALIZE)) wanted = TP__MCP_VERSION_HANDSHAKE;
  tp__lock_acquire(&server->lock);
  exchange->session->version = exchange->version = wanted;
  exchange->session->can =
      tp__mcp_can_of(tp_value_get(exchange->params, "capabilities")) & ~(unsigned)TP__MCP_CAN_TASKS;
  tp__lock_release(&server->lock);
  tp__mcp_reply(exchange, "complete", false, 3 + (server->instructions != NULL), write_initialized, exchange);
}

void tp__mcp_reply_empty(tp__mcp_exchange *exchange) { tp__mcp_reply(exchange, "complete", false, 0, NULL, NULL); }

static void set_level(tp__mcp_exchange *exchange) {
  int level = tp__mcp_level(tp_value_text(tp_value_get(exchange->params, "level")));
  if (level < 0) {
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, "level is none of debug, info, notice, …", (tp_text){0});
    return;
  }
  tp__lock_acquire(&exchange->server->lock);
  exchange->session->log_level = level;
  tp__lock_release(&exchange->server->lock);
  tp__mcp_reply_empty(exchange);
}

/* ---- lists ---- */

typedef struct page {
  const char *key;
  tp_text items;
  size_t first, count, total;
} page;

static void write_page(tp_writer *writer, const void *ctx) {
  const page *p = ctx;
  tp_value_walk walk = {0};
  size_t index = 0;
  tp_write_string(writer, p->key);
  tp_write_array(writer, p->count);
  while (tp_value_next(p->items, &walk)) {
    if (index >= p->first && index < p->first + p->count) tp_write_value(writer, walk.value);
    index++;
  }
  if (p->first + p->count == p->total) return;
  char cursor[24];
  snprintf(cursor, sizeof cursor, "%zu", p->first + p->count);
  tp_write_string(writer, "nextCursor");
  tp_write_string(writer, cursor);
}

static void reply_page(tp__mcp_exchange *exchange, const char *key, tp_text items) {
  tp_text cursor = tp_value_text(tp_value_get(exchange->params, "cursor"));
  page p = {.key = key, .items = items, .total = tp_value_count(items)};
  for (size_t i = 0; i < cursor.size; i++) {
    bool is_digit = cursor.data[i] >= '0' && cursor.data[i] <= '9';
    p.first = is_digit && p.first <= p.total ? p.first * 10 + (size_t)(cursor.data[i] - '0') : SIZE_MAX;
  }
  if (p.first > p.total || (tp_value_get(exchange->params, "cursor").size > 0) != (cursor.size > 0)) {
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, "cursor is none that this server gave", (tp_text){0});
    return;
  }
  p.count = p.total - p.first < TP__MCP_PAGE_ITEMS ? p.total - p.first : TP__MCP_PAGE_ITEMS;
  tp__mcp_reply(exchange, "complete", true, 1 + (p.first + p.count < p.total), write_page, &p);
}

/* @param list  which list; 0: the tools. */
static void reply_list(tp__mcp_exchange *exchange, const char *key, int list) {
  tp_mcp_server *server = exchange->server;
  tp__bytes copy = {0};
  tp__lock_acquire(&server->lock);
  const tp__bytes *of = list == 0 ? &server->tools : &server->lists[list];
  if (of->size > 0) tp__bytes_put(&copy, of->data, of->size);
  tp__lock_release(&server->lock);
  static const char empty[] = "\x90";
  reply_page(exchange, key, copy.size > 0 ? tp__bytes_text(&copy) : (tp_text){empty, 1});
  tp__bytes_fini(&copy);
}

void tp__mcp_reply_tools(tp__mcp_exchange *exchange) { reply_list(exchange, "tools", 0); }

/* ---- subscriptions/listen ---- */

static bool wants(tp_text filter, const char *key) { return tp_value_bool(tp_value_get(filter, key), false); }

static void write_accepted(tp_writer *writer, const void *ctx) {
  const tp__mcp_listener *l = ctx;
  tp_write_string(writer, "notifications");
  tp_write_map(writer, (size_t)l->tools + l->prompts + l->resources);
  if (l->tools) tp_write_string(writer, "toolsListChanged"), tp_write_bool(writer, true);
  if (l->prompts) tp_write_string(writer, "promptsListChanged"), tp_write_bool(writer, true);
  if (l->resources) tp_write_string(writer, "resourcesListChanged"), tp_write_bool(writer, true);
  tp_write_string(writer, "_meta");
  tp_write_map(writer, 1);
  tp_write_string(writer, SUBSCRIPTION_KEY);
  tp_write_value(writer, l->exchange->id);
}

static void listen_to(tp__mcp_exchange *exchange) {
  tp_mcp_server *server = exchange->server;
  tp_text filter = tp_value_get(exchange->params, "notifications");
  if (tp_value_get(filter, "taskIds").size > 0 && !(exchange->can & TP__MCP_CAN_TASKS)) {
    tp__mcp_task_refuse(exchange);
    return;
  }
  tp__mcp_listener *listener = tp__heap_alloc(sizeof *listener);
  if (tp_value_kind_of(filter) != TP_VALUE_MAP || !exchange->sink->can_stream || !listener) {
    tp__heap_free(listener, sizeof *listener);
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS,
                        "notifications is an object, and the client accepts text/event-stream", (tp_text){0});
    return;
  }
  *listener = (tp__mcp_listener){.exchange = exchange,
                                 .tools = wants(filter, "toolsListChanged"),
                                 .prompts = wants(filter, "promptsListChanged") && has_prompts(server),
                                 .resources = wants(filter, "resourcesListChanged") && has_resources(server)};
  tp__lock_acquire(&server->lock);
  tp__mcp_send_notification(exchange->sink, "notifications/subscriptions/acknowledged", 2, write_accepted, listener);
  listener->next = server->listeners;
  server->listeners = listener;
  tp__lock_release(&server->lock);
}

static void write_subscription(tp_writer *writer, const void *ctx) {
  const tp__mcp_exchange *exchange = ctx;
  tp_write_string(writer, "_meta");
  tp_write_map(writer, 1);
  tp_write_string(writer, SUBSCRIPTION_KEY);
  tp_write_value(writer, exchange->id);
}

static void notify_session_locked(tp_mcp_server *server, const tp__mcp_server_session *session, const char *method) {
  TP__LOCKED(&server->lock);
  (void)server; /* called without checks */
  if (session && session->stream && session->version != TP_MCP_VERSION_NONE)
    tp__mcp_send_notification(session->stream, method, 0, NULL, NULL);
}

void tp__mcp_notify_changed(tp_mcp_server *server, const char *list) {
  char method[64];
  snprintf(method, sizeof method, "notifications/%s/list_changed", list);
  tp__lock_acquire(&server->lock);
  for (tp__mcp_listener *l = server->listeners; l; l = l->next) {
    bool is_wanted = list[0] == 't' ? l->tools : list[0] == 'p' ? l->prompts : l->resources;
    if (is_wanted) tp__mcp_send_notification(l->exchange->sink, method, 1, write_subscription, l->exchange);
  }
  for (tp__mcp_server_session *s = server->sessions; s; s = s->next) notify_session_locked(server, s, method);
  notify_session_locked(server, server->stdio_session, method);
  tp__lock_release(&server->lock);
}

/* ---- dispatch ---- */

typedef enum era { OLD = 1, NEW = 2, BOTH = 3 } era;
typedef enum need { NOTHING, PROMPTS, RESOURCES, COMPLETIONS } need;

static void list_tools(tp__mcp_exchange *e) { (void)tp__mcp_work_add(e->server, TP__MCP_WORK_TOOLS, e, NULL); }
static void list_prompts(tp__mcp_exchange *e) { reply_list(e, "prompts", TP_MCP_LIST_PROMPTS); }
static void list_resources(tp__mcp_exchange *e) { reply_list(e, "resources", TP_MCP_LIST_RESOURCES); }
static void list_templates(tp__mcp_exchange *e) { reply_list(e, "resourceTemplates", TP_MCP_LIST_TEMPLATES); }

static const struct method_row {
  const char *name;
  era era;
  need need;
  void (*run)(tp__mcp_exchange *exchange);
} methods[] = {
    {"tools/call", BOTH, NOTHING, tp__mcp_call_tool},
    {"tools/list", BOTH, NOTHING, list_tools},
    {"prompts/list", BOTH, PROMPTS, list_prompts},
    {"prompts/get", BOTH, PROMPTS, tp__mcp_call_host},
    {"resources/list", BOTH, RESOURCES, list_resources},
    {"resources/templates/list", BOTH, RESOURCES, list_templates},
    {"resources/read", BOTH, RESOURCES, tp__mcp_call_host},
    {"resources/subscribe", OLD, RESOURCES, tp__mcp_reply_empty},
    {"resources/unsubscribe", OLD, RESOURCES, tp__mcp_reply_empty},
    {"completion/complete", BOTH, COMPLETIONS, tp__mcp_call_host},
    {"initialize", OLD, NOTHING, initialize},
    {"ping", OLD, NOTHING, tp__mcp_reply_empty},
    {"logging/setLevel", OLD, NOTHING, set_level},
    {"tasks/get", NEW, NOTHING, tp__mcp_task_get},
    {"tasks/update", NEW, NOTHING, tp__mcp_task_update},
    {"tasks/cancel", NEW, NOTHING, tp__mcp_task_cancel},
    {"server/discover", NEW, NOTHING, discover},
    {"subscriptions/listen", NEW, NOTHING, listen_to},
};

static bool is_met(tp_mcp_server *server, need what) {
  if (what == PROMPTS) return has_prompts(server);
  if (what == RESOURCES) return has_resources(server);
  return what == NOTHING || server->options.complete;
}

static void run_method(tp__mcp_exchange *exchange) {
  era now = is_modern(exchange) ? NEW : OLD;
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    const struct method_row *row = &methods[i];
    if (!(row->era & now) || !tp__is_word(exchange->method, row->name)) continue;
    if (!is_met(exchange->server, row->need)) break;
    row->run(exchange);
    return;
  }
  char words[160];
  snprintf(words, sizeof words, "there is no method %.*s here", tp__cut(exchange->method, 100), exchange->method.data);
  tp__mcp_reply_error(exchange, TP__MCP_METHOD_NOT_FOUND, words, (tp_text){0});
}

/* Reads the members that every request has. @return false: the request was answered. */
static bool read_request(tp__mcp_exchange *exchange) {
  tp_fault fault = {0};
  tp__mcp_server_session *session = exchange->session;
  bool is_initialize = session && tp__is_word(exchange->method, "initialize");
  if (session && session->version == TP_MCP_VERSION_NONE && !is_initialize && !tp__is_word(exchange->method, "ping")) {
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_REQUEST, "the first request is initialize, or has _meta",
                        (tp_text){0});
    return false;
  }
  tp_status status = tp__mcp_meta_read(exchange->params, &exchange->meta, &fault);
  if (status == TP_OK && !session) status = tp__mcp_meta_check(&exchange->meta, &fault);
  if (status != TP_OK) {
    tp__mcp_reply_error(exchange, TP__MCP_INVALID_PARAMS, fault.message, (tp_text){0});
    return false;
  }
  if (session) return true;
  if (!tp__mcp_version_has(exchange->meta.version, TP__MCP_HAS_META)) {
    tp_writer *writer = NULL;
    tp_text data = {0};
    if (tp_writer_new(NULL, &writer) == TP_OK) {
      tp_write_map(writer, 2);
      tp_write_string(writer, "supported");
      tp__mcp_versions_write(writer, TP__MCP_HAS_META);
      tp_write_string(writer, "requested");
      tp_write_text(writer, exchange->meta.version_text);
      if (tp_writer_finish(writer, &data) != TP_OK) data = (tp_text){0};
    }
    tp__mcp_reply_error(exchange, TP__MCP_UNSUPPORTED_VERSION, "the server does not have this version", data);
    tp_writer_free(writer);
    return false;
  }
  int level = tp__mcp_level(exchange->meta.log_level);
  exchange->log_level = level >= 0 ? level : LEVELS;
  exchange->can = tp__mcp_can_of(exchange->meta.capabilities);
  return true;
}

static void begin_exchange(tp__mcp_exchange *exchange, const tp__mcp_message *message, const char *principal) {
  tp_mcp_server *server = exchange->server;
  exchange->id = message->id;
  exchange->method = message->method;
  exchange->params = message->params;
  exchange->version = TP__MCP_VERSION_NEWEST;
  snprintf(exchange->principal, sizeof exchange->principal, "%s", principal);
  tp__lock_acquire(&server->lock);
  if (exchange->session) {
    exchange->version = exchange->session->version;
    exchange->can = exchange->session->can;
    exchange->log_level = exchange->session->log_level;
    exchange->session->used_ms = tp__monotonic_ms();
  }
  bool stops = server->stops;
  tp__lock_release(&server->lock);
  if (stops) {
    tp__mcp_reply_error(exchange, TP__MCP_INTERNAL_ERROR, "the server is stopping", (tp_text){0});
    return;
  }
  if (!read_request(exchange)) return;
  if (!exchange->sink->can_stream)
    exchange->can &= TP__MCP_CAN_TASKS; /* such sinks cannot ask the client, so only
                                                                          tasks are left */
  run_method(exchange);
}

bool tp__mcp_dispatch(tp_mcp_server *server, tp__mcp_sink *sink, tp__mcp_server_session *session, const char *principal,
                      const tp__mcp_message *message, tp_writer *writer) {
  assert(message->kind != TP__MCP_BROKEN);
  if (message->kind == TP__MCP_NOTIFICATION) {
    if (tp__is_word(message->method, "notifications/cancelled"))
      tp__mcp_call_cancel(server, sink, session, tp_value_get(message->params, "requestId"));
  }
  if (message->kind == TP__MCP_RESULT || message->kind == TP__MCP_ERROR)
    tp__mcp_call_answered(server, principal, message);
  if (message->kind != TP__MCP_REQUEST) return false;
  tp__mcp_exchange *exchange = tp__heap_alloc(sizeof *exchange);
  if (!exchange) {
    sink->drop(sink);
    return false;
  }
  *exchange = (tp__mcp_exchange){.server = server, .sink = sink, .session = session, .writer = writer};
  tp__mcp_sink_ref(sink);
  if (session) tp__references_ref(&session->refs);
  begin_exchange(exchange, message, principal);
  return true;
}

void tp__mcp_answer_broken(tp__mcp_sink *sink, const tp__mcp_message *message, const char *words, bool is_last) {
  tp_writer *writer = NULL;
  tp_text json = {0};
  assert(message->kind == TP__MCP_BROKEN);
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp__mcp_write_error(writer, message->id, message->code, tp_text_of(words), (tp_text){0});
    if (tp__mcp_encode(writer, &json, NULL) == TP_OK) sink->send(sink, json, is_last, HTTP_BAD_REQUEST);
  }
  if (json.size == 0 && is_last) sink->drop(sink);
  tp_writer_free(writer);
}

void tp__mcp_answer_unread(tp__mcp_sink *sink, tp_text json, const tp__mcp_message *broken, const char *words,
                           bool is_last) {
  tp__mcp_message message = *broken;
  tp__mcp_unread unread;
  char bytes[9];
  size_t at = 0;
  if (tp__mcp_next_unread(json, &at, &unread) && !unread.is_answer) message.id = tp__mcp_number_value(unread.id, bytes);
  tp__mcp_answer_broken(sink, &message, words, is_last);
}

/* Each message of a batch has memory of its own, since it lives until its answer. */
static void dispatch_one(tp_mcp_server *server, tp__mcp_sink *sink, tp__mcp_server_session *session,
                         const char *principal, tp_text value) {
  tp_writer *writer = NULL;
  tp_text copy = {0};
  tp__mcp_packet one = {0};
  tp__mcp_message message = {0};
  bool taken = false;
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_value(writer, value);
    one.value = tp_writer_finish(writer, &copy) == TP_OK ? copy : (tp_text){0};
    if (copy.size > 0 && tp__mcp_next(&one, &message, NULL) && message.kind != TP__MCP_BROKEN)
      taken = tp__mcp_dispatch(server, sink, session, principal, &message, writer);
  }
  if (!taken) tp_writer_free(writer);
}

void tp__mcp_dispatch_batch(tp_mcp_server *server, tp__mcp_sink *sink, tp__mcp_server_session *session,
                            const char *principal, tp__mcp_packet *packet) {
  tp__mcp_message message;
  tp_fault fault = {0};
  assert(packet->is_batch);
  while (tp__mcp_next(packet, &message, &fault)) {
    if (message.kind == TP__MCP_BROKEN) tp__mcp_answer_broken(sink, &message, fault.message, false);
    else dispatch_one(server, sink, session, principal, packet->walk.value);
  }
}
