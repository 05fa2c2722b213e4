/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers of MCP with a URL: sessions and their loss, both kinds of answers, streams that are resumed, the headers of
 * 2026-07-28, and a table of malformed answers. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/endpoint.h"
#include "tests/support/inbox.h"
#include "tests/support/json_text.h"
#include "tests/support/json_value.h"
#include "tests/support/leftovers.h"
#include "turnphase/mcp.h"
#include "turnphase/task.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { TEXT_SIZE = 4096, REPLIES_MAX = 64 };

/* How the server behaves. */
typedef struct manner {
  bool is_new;                       /* 2026-07-28 */
  bool in_stream;                    /* answers calls by events */
  bool cuts_streams;                 /* the first stream of a call ends before its answer, which a GET gets */
  bool loses_session;                /* answers the first call with 404 */
  int call_status;                   /* of calls; 0: 200 */
  const char *call_type, *call_body; /* instead of an answer */
  endpoint_then then;
} manner;

typedef struct world {
  tp_runtime *runtime;
  tp_writer *writer;
  size_t descriptors;
  endpoint *endpoint;
  manner manner;
  /* the endpoint's thread */
  endpoint_reply replies[REPLIES_MAX];
  char bodies[REPLIES_MAX][TEXT_SIZE], headers[REPLIES_MAX][128];
  int count, calls, sessions;
  /* of the last call */
  char text[TEXT_SIZE];
  tp_tool_result_kind kind;
  pthread_mutex_t lock;
  char diagnostics[TEXT_SIZE];
} world;

/* The id as the request has it. */
static void id_of(const char *request, char id[32]) {
  const char *at = strstr(request, "\"id\":");
  snprintf(id, 32, "%.*s", at ? (int)strcspn(at + 5, ",}") : 4, at ? at + 5 : "null");
}

static endpoint_reply *next_reply(world *w) {
  if (w->count == REPLIES_MAX) abort();
  endpoint_reply *next = &w->replies[w->count];
  *next = (endpoint_reply){.type = "application/json", .body = w->bodies[w->count], .headers = w->headers[w->count]};
  w->headers[w->count][0] = '\0';
  w->count++;
  return next;
}

static const endpoint_reply *answer_request(void *ctx, const char *request) {
  static const char tools[] =
      "{\"tools\":[{\"name\":\"say.it\",\"inputSchema\":{}},{\"name\":\"say\",\"inputSchema\":{\"type\":\"object\","
      "\"properties\":{\"to\":{\"type\":\"string\",\"x-mcp-header\":\"To\"},\"n\":{\"type\":\"integer\",\"x-mcp-"
      "header\":"
      "\"N\"}}}},{\"name\":\"bad\",\"inputSchema\":{\"properties\":{\"a\":{\"type\":\"number\",\"x-mcp-header\":\"A\"}}"
      "}}]}";
  static const char said[] = "{\"content\":[{\"type\":\"text\",\"text\":\"said\"}]}";
  world *w = ctx;
  const manner *m = &w->manner;
  char id[32];
  id_of(request, id);
  endpoint_reply *said_reply = next_reply(w);
  char *body = w->bodies[w->count - 1], *headers = w->headers[w->count - 1];
  body[0] = '\0';
  if (strstr(request, "\"server/discover\"") && m->is_new) {
    snprintf(
        body, TEXT_SIZE,
        "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"
        "\"capabilities\":{\"tools\":{}}}}",
        id);
  } else if (strstr(request, "\"server/discover\"")) {
    said_reply->status = 400;
    snprintf(body, TEXT_SIZE,
             "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"No session\"}}");
  } else if (strstr(request, "\"initialize\"")) {
    w->sessions++;
    snprintf(headers, 128, "Mcp-Session-Id: session-%d\r\n", w->sessions);
    snprintf(body, TEXT_SIZE,
             "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{"
             "\"tools\":{}}}}",
             id);
  } else if (strstr(request, "\"tools/list\"")) {
    snprintf(body, TEXT_SIZE, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, tools);
  } else if (strncmp(request, "GET", 3) == 0) {
    said_reply->status = endpoint_header(request, "Last-Event-ID") ? 200 : 405;
    said_reply->type = "text/event-stream";
    if (said_reply->status == 200)
      snprintf(body, TEXT_SIZE, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":%s}\n\n", 4, said);
  } else if (!strstr(request, "\"tools/call\"")) {
    said_reply->status = 202;
  } else if (m->loses_session && w->calls++ == 0) {
    said_reply->status = 404;
  } else if (m->call_body) {
    *said_reply = (endpoint_reply){
        .status = m->call_status, .type = m->call_type, .body = m->call_body, .then = m->then, .stops_at = 0};
  } else if (m->cuts_streams) {
    said_reply->type = "text/event-stream";
    snprintf(body, TEXT_SIZE, "id: 7\nretry: 1\ndata:\n\n");
  } else if (m->in_stream) {
    said_reply->type = "text/event-stream; charset=utf-8";
    snprintf(body, TEXT_SIZE,
             ": comment\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"
             "id: 1\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":%s,\"result\":%s}\r\n\r\n",
             id, said);
  } else {
    snprintf(body, TEXT_SIZE, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, said);
  }
  return said_reply;
}

static void note(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind != TP_EVENT_DIAGNOSTIC) return;
  pthread_mutex_lock(&w->lock);
  size_t used = strlen(w->diagnostics);
  snprintf(w->diagnostics + used, sizeof w->diagnostics - used, "%.*s\n", (int)event->contribution->text.size,
           event->contribution->text.data);
  pthread_mutex_unlock(&w->lock);
}

static void open_world(world *w, manner m) {
  static const endpoint_reply none = {.status = 500};
  static const char *const headers[] = {"Authorization: Bearer secret", NULL};
  memset(w, 0, sizeof *w);
  pthread_mutex_init(&w->lock, NULL);
  w->manner = m;
  w->descriptors = open_descriptors();
  w->endpoint = endpoint_open(&none, 1);
  endpoint_answer_with(w->endpoint, answer_request, w);
  w->runtime = open_runtime(NULL);
  assert_int_equal(tp_writer_new(NULL, &w->writer), TP_OK);
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = note, .ctx = w};
  assert_int_equal(tp_runtime_listen(w->runtime, &listener, NULL, NULL), TP_OK);
  const tp_mcp_options options = {.struct_size = sizeof options,
                                  .name = "s",
                                  .url = w->endpoint->url,
                                  .headers = headers,
                                  .message_bytes_max = 100000};
  tp_fault fault = {0};
  if (tp_mcp_add(w->runtime, &options, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void close_world(world *w) {
  expect_no_tokens(w->runtime);
  tp_runtime_free(w->runtime);
  tp_writer_free(w->writer);
  endpoint_close(w->endpoint);
  await_descriptors(w->descriptors);
}

static const char *call(world *w, const char *tool, const char *arguments) {
  const tp_task_result *result = NULL;
  const tp_task_spec spec = {.struct_size = sizeof spec, .tool = tool, .arguments = json_value(w->writer, arguments)};
  tp_fault fault = {0};
  if (tp_task_call(w->runtime, &spec, &result, &fault) != TP_OK) fail_msg("%s: %s", fault.message, w->diagnostics);
  w->kind = result->kind;
  snprintf(w->text, sizeof w->text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  tp_task_result_free(result);
  return w->text;
}

/* The first request that has the words, which comes at the latest soon. */
static const char *request_with(world *w, const char *words) {
  for (int round = 0; round < 5000; round++) {
    pthread_mutex_lock(&w->endpoint->mutex);
    int count = w->endpoint->request_count;
    pthread_mutex_unlock(&w->endpoint->mutex);
    for (int i = 0; i < count && i < ENDPOINT_REQUESTS_KEPT; i++)
      if (strstr(w->endpoint->requests[i], words)) return w->endpoint->requests[i];
    usleep(1000);
  }
  fail_msg("no request has %s", words);
  return NULL;
}

static world w;

static int place_of(world *in, const char *words) {
  const char *request = request_with(in, words);
  int place = 0;
  while (in->endpoint->requests[place] != request) place++;
  return place;
}

static bool has_header(const char *request, const char *name, const char *value) {
  const char *found = endpoint_header(request, name);
  return found && strncmp(found, value, strlen(value)) == 0 && found[strlen(value)] == '\r';
}

TEST(a_session_is_kept_and_ended) {
  open_world(&w, (manner){0});
  assert_string_equal(call(&w, "mcp__s__say", "{'to':'me'}"), "said");
  const char *request = request_with(&w, "\"tools/call\"");
  assert_true(has_header(request, "Mcp-Session-Id", "session-1"));
  assert_true(has_header(request, "MCP-Protocol-Version", "2025-11-25"));
  assert_true(has_header(request, "Authorization", "Bearer secret"));
  assert_true(has_header(request, "Accept", "application/json, text/event-stream"));
  assert_null(endpoint_header(request, "Mcp-Method"));
  assert_true(place_of(&w, "notifications/initialized") < place_of(&w, "\"tools/list\"")); /* none overtakes it */
  assert_true(has_header(request_with(&w, "notifications/initialized"), "Mcp-Session-Id", "session-1"));
  assert_true(has_header(request_with(&w, "GET /"), "Mcp-Session-Id", "session-1"));
  assert_int_equal(tp_mcp_remove(w.runtime, "s", NULL), TP_OK);
  assert_true(has_header(request_with(&w, "DELETE /"), "Mcp-Session-Id", "session-1"));
  close_world(&w);
}

TEST(an_answer_may_be_a_stream) {
  open_world(&w, (manner){.in_stream = true});
  assert_string_equal(call(&w, "mcp__s__say", "{}"), "said");
  assert_string_equal(call(&w, "mcp__s__say_it", "{}"), "said");
  close_world(&w);
}

TEST(a_stream_that_ends_early_is_resumed) {
  open_world(&w, (manner){.cuts_streams = true});
  assert_string_equal(call(&w, "mcp__s__say", "{}"), "said");
  assert_true(has_header(request_with(&w, "Last-Event-ID"), "Last-Event-ID", "7"));
  close_world(&w);
}

TEST(a_lost_session_is_begun_again_and_no_call_repeated) {
  open_world(&w, (manner){.loses_session = true});
  assert_non_null(strstr(call(&w, "mcp__s__say", "{}"), "it has lost the session, which is begun again"));
  assert_int_equal(w.kind, TP_TOOL_HANDLER_ERROR);
  assert_string_equal(call(&w, "mcp__s__say", "{}"), "said");
  request_with(&w, "session-2");
  assert_int_equal(w.sessions, 2);
  close_world(&w);
}

TEST(requests_of_the_newest_version_have_their_headers) {
  open_world(&w, (manner){.is_new = true});
  assert_string_equal(call(&w, "mcp__s__say", "{'to':' me ','n':-7}"), "said");
  const char *request = request_with(&w, "\"tools/call\"");
  assert_true(has_header(request, "MCP-Protocol-Version", "2026-07-28"));
  assert_true(has_header(request, "Mcp-Method", "tools/call"));
  assert_true(has_header(request, "Mcp-Name", "say"));
  assert_true(has_header(request, "Mcp-Param-To", "=?base64?IG1lIA==?="));
  assert_true(has_header(request, "Mcp-Param-N", "-7"));
  assert_null(endpoint_header(request, "Mcp-Session-Id"));
  assert_non_null(strstr(request, "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"turnphase\""));
  assert_true(has_header(request_with(&w, "\"server/discover\""), "Mcp-Method", "server/discover"));
  assert_non_null(strstr(w.diagnostics, "the tool \"bad\" of the server s is left out"));
  w.kind = TP_TOOL_NONE;
  assert_non_null(strstr(call(&w, "mcp__s__say", "{'n':9007199254740993}"), "no form there"));
  assert_int_equal(w.kind, TP_TOOL_HANDLER_ERROR);
  close_world(&w);
}

TEST(what_is_no_answer_fails_its_call_with_the_reason) {
  static const struct {
    manner manner;
    const char *words;
  } rows[] = {
      {{.call_status = 401, .call_body = "who?", .call_type = "text/plain"}, "HTTP 401: it wants other headers"},
      {{.call_status = 500, .call_body = "<html>", .call_type = "text/html"}, "HTTP 500: <html>"},
      {{.call_status = 302, .call_body = "there", .call_type = "text/plain"}, "HTTP 302: another URL is not followed"},
      {{.call_body = "<html>", .call_type = "text/html"}, "ended without an answer"},
      {{.call_body = "", .call_type = "application/json"}, "ended without an answer"},
      {{.call_body = "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n", .call_type = "text/event-stream"},
       "its stream ended without an answer"},
      {{.call_body = "data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\n", .call_type = "text/event-stream"},
       "its stream ended without an answer"},
      {{.call_body = "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        .call_type = "text/event-stream",
        .then = ENDPOINT_REPEATS},
       "more than 100000 bytes"},
      {{.call_body = "[xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        .call_type = "application/json",
        .then = ENDPOINT_REPEATS},
       "more than 100000 bytes"},
      {{.call_body = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}",
        .call_status = 400,
        .call_type = "application/json"},
       "HTTP 400"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    open_world(&w, rows[i].manner);
    call(&w, "mcp__s__say", "{}");
    assert_int_equal(w.kind, TP_TOOL_HANDLER_ERROR);
    if (!strstr(w.text, rows[i].words)) fail_msg("%zu: %s", i, w.text);
    close_world(&w);
  }
}
