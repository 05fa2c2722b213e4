/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request of a client to a server of MCP: the first byte chooses the client (without a session, with one
 * of each version, with one that has not begun), the rest is the body. Each request has one answer, which is a message
 * of the protocol on one line, with the request's id. When its client has gone, nothing of a request is left. */
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "domains/mcp/server/server.h"
#include "support/clock.h"
#include "support/text.h"
#include "tests/fuzz/must.h"
#include "turnphase/turnphase.h"

enum { BYTES_MAX = 1 << 16, WAIT_MS = 20000, CLIENTS = 6 };

/* A client. The messages to it are checked when they come. */
typedef struct client {
  tp__mcp_sink sink;
  char *id; /* the id of its only request, a value; NULL: none, or several */
  size_t id_size;
  _Atomic unsigned ended; /* requests that were answered, or dropped */
  _Atomic bool is_free;
} client;

static tp_runtime *runtime;
static tp_mcp_server *server;

/* ---- what is sent ---- */

static void client_send(tp__mcp_sink *sink, tp_text json, bool is_last, unsigned status) {
  client *c = (client *)sink;
  tp_writer *writer = NULL;
  tp__mcp_packet packet;
  tp__mcp_message message;
  tp_fault fault = {0};
  (void)status;
  MUST(json.size > 0 && !memchr(json.data, '\n', json.size));
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  MUST(tp__mcp_decode(json, SIZE_MAX, TP_MCP_VERSION_2026_07_28, writer, &packet, &message, &fault));
  MUST(tp__mcp_next(&packet, &message, &fault) && message.kind != TP__MCP_BROKEN);
  if (is_last) {
    MUST(message.kind == TP__MCP_RESULT || message.kind == TP__MCP_ERROR);
    if (c->id && message.id.size > 0) MUST(tp__mcp_id_equal(message.id, (tp_text){c->id, c->id_size}));
    c->ended++;
  } else {
    MUST(message.kind == TP__MCP_NOTIFICATION || message.kind == TP__MCP_REQUEST || message.kind == TP__MCP_ERROR);
  }
  tp_writer_free(writer);
}

static void client_drop(tp__mcp_sink *sink) { ((client *)sink)->ended++; }
static void client_free(tp__mcp_sink *sink) { ((client *)sink)->is_free = true; }

/* ---- the host ---- */

static tp_answer echo(void *ctx, tp_tool_run *run) {
  tp_text word = {"", 0};
  (void)ctx;
  (void)!tp_tool_run_argument_text(run, "word", &word, NULL);
  return tp_tool_ok(run, word);
}

/* The callbacks answer with a map, whatever bytes are asked for. */
static void answer(tp_mcp_call *call, tp_text said) {
  tp_writer *writer = NULL;
  tp_text value;
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  tp_write_map(writer, 1);
  tp_write_string(writer, "said");
  tp_write_text(writer, tp_utf8_valid(said, NULL) ? said : tp_text_of("?"));
  if (tp_writer_finish(writer, &value) == TP_OK) tp_mcp_call_answer(call, value);
  else tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, "no memory", (tp_text){NULL, 0});
  tp_writer_free(writer);
}

static void get_prompt(void *ctx, tp_mcp_call *call, tp_text name, tp_text arguments) {
  (void)ctx;
  (void)arguments;
  answer(call, name);
}

static void read_resource(void *ctx, tp_mcp_call *call, tp_text uri) {
  (void)ctx;
  answer(call, uri);
}

static void complete(void *ctx, tp_mcp_call *call, tp_text params) {
  (void)ctx;
  (void)params;
  answer(call, tp_text_of("one"));
}

static void set_list(tp_mcp_list list, const char *json) {
  tp_writer *writer = NULL;
  tp_text value;
  MUST(tp_writer_new(NULL, &writer) == TP_OK && tp_json_decode(tp_text_of(json), writer, NULL) == TP_OK);
  MUST(tp_writer_finish(writer, &value) == TP_OK && tp_mcp_server_set_list(server, list, value, NULL) == TP_OK);
  tp_writer_free(writer);
}

/* Starts stdio with a client that sends nothing. */
static void start(void) {
  static const char schema[] = "{\"type\":\"object\",\"properties\":{\"word\":{\"type\":\"string\"}}}";
  const tp_runtime_options options = {.struct_size = sizeof options};
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "echo",
                        .description = "says it",
                        .schema_json = schema,
                        .run = echo,
                        .placement = TP_PLACEMENT_INLINE};
  int in[2], out[2];
  MUST(pipe(in) == 0 && pipe(out) == 0);
  const tp_mcp_server_options of_server = {.struct_size = sizeof of_server,
                                           .stdio = true,
                                           .input = in[0],
                                           .output = out[1],
                                           .get_prompt = get_prompt,
                                           .read_resource = read_resource,
                                           .complete = complete};
  MUST(tp_runtime_new(&options, &runtime, NULL) == TP_OK && tp_tool_add(runtime, &tool, NULL) == TP_OK);
  MUST(tp_mcp_server_start(runtime, &of_server, &server, NULL) == TP_OK);
  set_list(TP_MCP_LIST_PROMPTS, "[{\"name\":\"p\"}]");
  set_list(TP_MCP_LIST_RESOURCES, "[{\"uri\":\"file:///r\",\"name\":\"r\"}]");
}

/* ---- a request ---- */

static tp__mcp_server_session *new_session(unsigned which) {
  tp__mcp_server_session *session = tp__heap_alloc(sizeof *session);
  MUST(session);
  tp__references_init(&session->refs);
  session->version = which == CLIENTS - 1 ? TP_MCP_VERSION_NONE : (tp_mcp_version)which;
  session->log_level = 1;
  snprintf(session->principal, sizeof session->principal, "fuzz");
  return session;
}

static void await_ends(const client *c, unsigned count) {
  int64_t until_ms = tp__monotonic_ms() + WAIT_MS;
  while (c->ended < count) {
    MUST(tp__monotonic_ms() < until_ms);
    sched_yield();
  }
}

static void note_id(client *c, tp_text id) {
  c->id = malloc(id.size);
  MUST(c->id);
  memcpy(c->id, id.data, id.size);
  c->id_size = id.size;
}

/* @return how many answers come. */
static unsigned take_body(client *c, tp__mcp_server_session *session, tp_text body) {
  tp_writer *writer = NULL;
  tp__mcp_packet packet;
  tp__mcp_message message = {0};
  tp_fault fault = {0};
  unsigned answers = 0;
  bool is_taken = false;
  tp_mcp_version version = session ? session->version : TP_MCP_VERSION_2026_07_28;
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  if (!tp__mcp_decode(body, BYTES_MAX, version, writer, &packet, &message, &fault)) {
    tp__mcp_answer_broken(&c->sink, &message, fault.message, true);
    answers = 1;
  } else if (packet.is_batch) {
    tp__mcp_dispatch_batch(server, &c->sink, session, "fuzz", &packet);
  } else if (tp__mcp_next(&packet, &message, &fault)) {
    bool is_request = message.kind == TP__MCP_REQUEST;
    if (is_request) note_id(c, message.id);
    bool has_answer = is_request && !tp__is_word(message.method, "subscriptions/listen");
    answers = has_answer || message.kind == TP__MCP_BROKEN ? 1 : 0;
    if (message.kind == TP__MCP_BROKEN) tp__mcp_answer_broken(&c->sink, &message, fault.message, true);
    else is_taken = tp__mcp_dispatch(server, &c->sink, session, "fuzz", &message, writer);
  }
  if (!is_taken) tp_writer_free(writer);
  return answers;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > BYTES_MAX) return 0;
  if (!server) start();
  client c = {.sink = {.send = client_send, .drop = client_drop, .free = client_free, .can_stream = data[0] & 0x40}};
  const unsigned which = data[0] % CLIENTS;
  tp__mcp_server_session *session = which == 0 ? NULL : new_session(which);
  tp__references_init(&c.sink.refs);
  unsigned answers = take_body(&c, session, (tp_text){(const char *)data + 1, size - 1});
  await_ends(&c, answers);
  tp__mcp_call_left(server, &c.sink); /* streams and calls end with it */
  tp__mcp_sink_unref(&c.sink);
  for (int64_t until_ms = tp__monotonic_ms() + WAIT_MS; !c.is_free; sched_yield()) MUST(tp__monotonic_ms() < until_ms);
  if (session) tp__mcp_server_session_unref(session);
  free(c.id);
  return 0;
}
