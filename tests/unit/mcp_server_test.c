/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of MCP over a runtime: calls of both eras through the gates, on stdio and over HTTP; gates that ask, with
 * every kind of answer; refusals; cancels, and the end. */
#include "tests/support/test.h"
#include "tests/support/json_text.h"

#include <arpa/inet.h>
#include <sched.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "domains/mcp/server/server.h"
#include "server/mount.h"
#include "tests/support/host.h"
#include "tests/support/inbox.h"
#include "turnphase/mcp_server.h"

/* Without libmicrohttpd there is no HTTP to test. */
#ifdef TP_WITH_HTTP
#define TEST_HTTP true
#else
#define TEST_HTTP false
#endif

enum { WAIT_MS = 20000, TEXT_SIZE = 1 << 16 };

#define META(capabilities)                                                 \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
  "\"io.modelcontextprotocol/clientCapabilities\":" capabilities "}"
#define NEW META("{}")
#define FORMS "{\"elicitation\":{}}"
#define OLD_INITIALIZE(version, capabilities)                                                          \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"" version \
  "\","                                                                                                \
  "\"capabilities\":" capabilities ",\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define CALL(id, tool, rest) \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool "\"" rest "}}"

/* ---- a host: tools, and a gate that denies, asks or allows by the tool's name ---- */

typedef struct world {
  tp_runtime *runtime;
  tp_mcp_server *server;
  int to, from; /* the client's ends */
  _Atomic int runs, cancels;
  latch held, ended, questions;
  tp_token token;    /* of the tool that waits */
  tp_mcp_call *call; /* and its call */
  tp_question question;
  char hash[80], key[40], text[TEXT_SIZE];
} world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  tp_text word = {0};
  w->runs++;
  if (tp_tool_run_argument_text(run, "word", &word, NULL) != TP_OK) word = tp_text_of("nothing");
  return tp_tool_printf(run, "ran with %.*s", (int)word.size, word.data);
}

static void note_cancel(void *ctx) {
  world *w = ctx;
  w->cancels++;
  (void)!tp_token_abandon(w->token, NULL);
  latch_hit(&w->ended);
}

static tp_answer run_waiting(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = note_cancel, .ctx = w};
  w->runs++;
  w->call = tp_mcp_call_of(run);
  tp_answer answer = tp_tool_defer(run, &deferral, &w->token);
  latch_hit(&w->held);
  return answer;
}

static tp_answer run_reporting(void *ctx, tp_tool_run *run) {
  const tp_tool_progress first = {.struct_size = sizeof first, .done = 1, .total = 2, .message = TEXT("half")},
                         second = {.struct_size = sizeof second, .done = 2};
  if (tp_tool_run_progress(run, &first, NULL) != TP_OK || tp_tool_run_progress(run, &second, NULL) != TP_OK)
    return tp_tool_error(run, tp_text_of("no progress"));
  return run_tool(ctx, run);
}

static tp_answer gate(void *ctx, tp_call *call) {
  tp_text name = tp_call_text(call, TP_FIELD_TOOL);
  (void)ctx;
  if (name.size == 6 && memcmp(name.data, "denied", 6) == 0) return tp_call_deny(call, "not on a Friday");
  if (name.size == 5 && memcmp(name.data, "asked", 5) == 0) return tp_call_ask(call, "in prod?");
  return TP_ANSWER_ALLOW;
}

static void take_question(void *ctx, const tp_question *question) {
  world *w = ctx;
  w->question = *question;
  snprintf(w->hash, sizeof w->hash, "%.*s", (int)question->arguments_hash.size, question->arguments_hash.data);
  snprintf(w->key, sizeof w->key, "%.*s", (int)question->key.size, question->key.data);
  latch_hit(&w->questions);
}

static void decide(world *w, tp_verdict verdict) {
  tp_decision decision = {.struct_size = sizeof decision, .verdict = verdict, .arguments_hash = tp_text_of(w->hash)};
  assert_int_equal(tp_question_answer(w->question.token, &decision, NULL), TP_OK);
}

static void add_tools(world *w) {
  static const char *const names[] = {"echo", "denied", "asked", "waits", "mcp__up__echo", "reports"};
  for (size_t i = 0; i < COUNT(names); i++) {
    tp_tool tool = {.struct_size = sizeof tool,
                    .name = names[i],
                    .description = "does it",
                    .run = i == 3   ? run_waiting
                           : i == 5 ? run_reporting
                                    : run_tool,
                    .ctx = w,
                    .placement = i == 5 ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE,
                    .schema_json =
                        "{\"type\":\"object\",\"properties\":{\"word\":{\"type\":\"string\","
                        "\"x-mcp-header\":\"Word\"}}}"};
    assert_int_equal(tp_tool_add(w->runtime, &tool, NULL), TP_OK);
  }
  tp_hook guard = {.struct_size = sizeof guard, .phase = "tool.pre", .run = gate, .placement = TP_PLACEMENT_INLINE};
  assert_int_equal(tp_hook_add(w->runtime, &guard, NULL), TP_OK);
}

static void open_runtime_of(world *w, bool has_channel) {
  tp_runtime_options options = {
      .struct_size = sizeof options, .ask = has_channel ? take_question : NULL, .ask_ctx = has_channel ? w : NULL};
  *w = (world){.held = LATCH, .ended = LATCH, .questions = LATCH, .to = -1, .from = -1};
  w->runtime = open_runtime(&options);
  add_tools(w);
}

static void note_end(void *ctx) { latch_hit(&((world *)ctx)->ended); }

static void start(world *w, tp_mcp_server_options options) {
  int in[2], out[2];
  tp_fault fault = {0};
  options.struct_size = sizeof options;
  if (options.stdio) {
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    options.input = in[0];
    options.output = out[1];
    options.on_end = note_end;
    options.ctx = w;
    w->to = in[1];
    w->from = out[0];
  }
  if (tp_mcp_server_start(w->runtime, &options, &w->server, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static world *open_world(tp_mcp_server_options options) {
  world *w = calloc(1, sizeof *w);
  open_runtime_of(w, options.has_channel);
  start(w, options);
  return w;
}

static void close_world(world *w) {
  tp_mcp_server_free(w->server, 1000);
  expect_no_tokens(w->runtime);
  tp_runtime_free(w->runtime);
  if (w->to >= 0) close(w->to);
  if (w->from >= 0) close(w->from);
  free(w);
}

/* ---- a client on stdio ---- */

static void say(world *w, const char *line) {
  assert_int_equal(write(w->to, line, strlen(line)), (ssize_t)strlen(line));
  assert_int_equal(write(w->to, "\n", 1), 1);
}

/* The next line. */
static const char *hear(world *w) {
  size_t size = 0;
  for (;;) {
    struct pollfd ready = {.fd = w->from, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    assert_int_equal(read(w->from, w->text + size, 1), 1);
    if (w->text[size] == '\n') break;
    assert_true(++size < sizeof w->text);
  }
  w->text[size] = 0;
  return w->text;
}

static void expect(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in '%s'", part, text);
}

static void expect_not(const char *text, const char *part) {
  if (strstr(text, part)) fail_msg("'%s' is in '%s'", part, text);
}

static void ask_for(world *w, const char *line, const char *part) {
  say(w, line);
  expect(hear(w), part);
}

static void initialize(world *w, const char *capabilities) {
  char line[512];
  snprintf(line, sizeof line, OLD_INITIALIZE("2025-11-25", "%s"), capabilities);
  ask_for(w, line, "\"protocolVersion\":\"2025-11-25\"");
  say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
}

/* The next line with the part, among others. */
static void wait_for(world *w, const char *part) {
  while (!strstr(hear(w), part)) {}
}

/* Copies what follows a key of the last answer, up to the next quote. */
static void copy_member(const world *w, const char *key, char *buffer, size_t size) {
  const char *at = strstr(w->text, key);
  if (!at) fail_msg("'%s' is not in '%s'", key, w->text);
  at += strlen(key);
  snprintf(buffer, size, "%.*s", (int)strcspn(at, "\",}"), at);
}

/* ---- calls ---- */

TEST(each_version_lists_the_tools_and_calls_them) {
  static const char *const versions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
  for (size_t i = 0; i < COUNT(versions); i++) {
    world *w = open_world((tp_mcp_server_options){.stdio = true});
    char line[512], part[64];
    snprintf(line, sizeof line, OLD_INITIALIZE("%s", "{}"), versions[i]);
    snprintf(part, sizeof part, "\"protocolVersion\":\"%s\"", versions[i]);
    ask_for(w, line, part);
    ask_for(w, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/list\"}", "\"id\":\"a\"");
    expect(w->text, "{\"name\":\"echo\",\"description\":\"does it\",\"inputSchema\":{\"type\":\"object\"");
    expect_not(w->text, "resultType");
    ask_for(w, CALL("2", "echo", ",\"arguments\":{\"word\":\"x\"}"),
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"ran with x\"}]}}");
    close_world(w);
  }
}

TEST(the_version_without_a_handshake_lists_the_tools_and_calls_them) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .name = "n", .version = "v", .instructions = "be kind"});
  ask_for(w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" NEW "}}",
          "\"supportedVersions\":[\"2026-07-28\"]");
  expect(w->text, "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"n\",\"version\":\"v\"}");
  expect(w->text, "\"instructions\":\"be kind\"");
  ask_for(w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" NEW "}}", "\"ttlMs\":");
  expect(w->text, "\"name\":\"echo\"");
  ask_for(w, CALL("2", "echo", "," NEW), "\"resultType\":\"complete\"");
  expect(w->text, "ran with nothing");
  close_world(w);
}

TEST(an_upstream_tool_is_offered_without_the_prefix_that_gates_see) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  ask_for(w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" NEW "}}", "\"name\":\"up__echo\"");
  expect_not(w->text, "mcp__");
  ask_for(w, CALL("2", "up__echo", "," NEW), "ran with nothing");
  close_world(w);
}

TEST(a_denied_call_is_a_tool_error_with_the_reason_of_the_gate) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  ask_for(w, CALL("1", "denied", "," NEW), "\"isError\":true");
  expect(w->text, "not on a Friday");
  assert_int_equal(w->runs, 0);
  close_world(w);
}

/* ---- what is refused ---- */

static const struct {
  const char *line, *part;
} refused[] = {
    {"{", "-32700"},
    {"[]", "-32600"},
    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "-32600"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", "-32600"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", "-32600"}, /* neither initialize nor _meta */
    {CALL("31", "echo", ",\"arguments\":{\"word\":NaN}," NEW), "\"id\":31,\"error\":{\"code\":-32700"},
    {CALL("\"31\"", "echo", ",\"arguments\":{\"word\":NaN}," NEW), "\"id\":null,\"error\":{\"code\":-32700"},
    {"{\"jsonrpc\":\"2.0\",\"id\":31,\"result\":NaN}", "\"id\":null,\"error\":{\"code\":-32700"},
    {CALL("1", "nothing", "," NEW), "-32602"},
    {CALL("1", "echo", ",\"arguments\":[]," NEW), "-32602"},
    {CALL("1", "echo", ",\"arguments\":{\"word\":5}," NEW), "\"isError\":true"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" NEW "}}", "-32602"},
    {CALL("1", "echo", ",\"inputResponses\":5," NEW), "-32602"},
    {CALL("1", "echo", ",\"inputResponses\":{\"a\":5}," NEW), "-32602"},
    {CALL("1", "echo", ",\"requestState\":\"abc\"," NEW), "-32602"},
    {CALL("1", "echo", ",\"requestState\":7," NEW), "-32602"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\",\"params\":{" NEW "}}", "-32601"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" NEW "}}", "-32601"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/list\",\"params\":{" NEW "}}", "-32601"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"," NEW "}}", "-32602"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"99999999999999999999\"," NEW
     "}}",
     "-32602"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{}}", "-32602"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{\"_meta\":{"
     "\"io.modelcontextprotocol/protocolVersion\":\"v9\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
     "-32022"},
};

TEST(what_is_wrong_is_answered_with_its_error_and_the_next_line_works) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  for (size_t i = 0; i < COUNT(refused); i++) ask_for(w, refused[i].line, refused[i].part);
  say(w, "");
  say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"no/such\"}"); /* notifications have no answer */
  say(w, "{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}");
  ask_for(w, CALL("9", "echo", "," NEW), "\"id\":9");
  assert_int_equal(w->runs, 1);
  close_world(w);
}

static void give_prompt(void *ctx, tp_mcp_call *call, tp_text name, tp_text arguments) {
  (void)ctx;
  (void)name;
  (void)arguments;
  tp_mcp_call_fail(call, -32602, "no prompt", (tp_text){0});
}
static void give_resource(void *ctx, tp_mcp_call *call, tp_text uri) { give_prompt(ctx, call, uri, uri); }

#define VALUE(bytes) \
  { bytes, sizeof(bytes) - 1 }

static const struct {
  tp_mcp_server_options options;
  tp_status status;
} wrong_options[] = {
    {{.stdio = false}, TP_ERR_USAGE},
    {{.stdio = true, .reserved_more_ = 1}, TP_ERR_USAGE},
    {{.http_address = "0.0.0.0"}, TP_ERR_USAGE},
    {{.http_address = "::"}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .http_port = 70000}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .keys = (const char *const[]){"short", NULL}}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .get_prompt = give_prompt, .prompts = VALUE("\xc0")}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .get_prompt = give_prompt, .prompts = VALUE("\x91")}, TP_ERR_MALFORMED},
    {{.http_address = "127.0.0.1", .read_resource = give_resource, .resources = VALUE("\xc0")}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .read_resource = give_resource, .templates = VALUE("\x80")}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .read_resource = give_resource, .prompts = VALUE("\x90")}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .get_prompt = give_prompt, .resources = VALUE("\x90")}, TP_ERR_USAGE},
    {{.http_address = "127.0.0.1", .get_prompt = give_prompt, .templates = VALUE("\x90")}, TP_ERR_USAGE},
    {{.mounted = true, .stdio = true}, TP_ERR_USAGE},
    {{.mounted = true, .http_address = "127.0.0.1"}, TP_ERR_USAGE},
    {{.mounted = true, .http_port = 1}, TP_ERR_USAGE},
    {{.mounted = true, .keys_required = true}, TP_ERR_USAGE},
    {{.mounted = true, .keys = (const char *const[]){"a-key-0123456789", NULL}}, TP_ERR_USAGE},
};

TEST(wrong_options_start_nothing) {
  world w;
  tp_fault fault = {0};
  open_runtime_of(&w, false);
  for (size_t i = 0; i < COUNT(wrong_options); i++) {
    tp_mcp_server_options options = wrong_options[i].options;
    options.struct_size = sizeof options;
    assert_int_equal(tp_mcp_server_start(w.runtime, &options, &w.server, &fault), wrong_options[i].status);
    assert_null(w.server);
  }
  assert_int_equal(tp_mcp_server_start(NULL, NULL, &w.server, &fault), TP_ERR_USAGE);
  tp_runtime_free(w.runtime);
}

static tp_status take_nothing(void *ctx, const char *client, tp_session **ret_session, void **ret_hold,
                              tp_fault *fault) {
  (void)ctx, (void)client, (void)ret_session, (void)ret_hold, (void)fault;
  return TP_ERR_FULL;
}

TEST(a_server_is_mounted_in_one_place_at_a_time) {
  if (!TEST_HTTP) return;
  world *w = open_world((tp_mcp_server_options){.mounted = true});
  tp_mount *mount = tp_mcp_server_mount(w->server);
  const tp__mount_server place = {.session_take = take_nothing, .session_release = free};
  assert_int_equal(tp_mcp_server_port(w->server), 0);
  assert_string_equal(mount->version, tp_version());
  assert_true(mount->enter(mount->ctx, &place));
  assert_false(mount->enter(mount->ctx, &place));
  assert_true(mount->enter(mount->ctx, NULL));
  assert_true(mount->enter(mount->ctx, &place));
  assert_true(mount->enter(mount->ctx, NULL));
  close_world(w);
  w = open_world((tp_mcp_server_options){.stdio = true});
  assert_null(tp_mcp_server_mount(w->server));
  assert_null(tp_mcp_server_mount(NULL));
  close_world(w);
}

/* ---- gates that ask ---- */

static const struct {
  const char *answer, *part;
  int runs;
} forms[] = {
    {"\"result\":{\"action\":\"accept\",\"content\":{\"allow\":true}}", "ran with", 1},
    {"\"result\":{\"action\":\"accept\",\"content\":{\"allow\":false}}", "\"isError\":true", 0},
    {"\"result\":{\"action\":\"accept\",\"content\":{\"allow\":\"true\"}}", "\"isError\":true", 0},
    {"\"result\":{\"action\":\"accept\"}", "\"isError\":true", 0},
    {"\"result\":{\"action\":\"decline\",\"content\":{\"allow\":true}}", "\"isError\":true", 0},
    {"\"result\":{\"action\":\"cancel\"}", "\"isError\":true", 0},
    {"\"result\":{}", "\"isError\":true", 0},
    {"\"error\":{\"code\":-32603,\"message\":\"no window\"}", "\"isError\":true", 0},
};

TEST(a_client_with_a_handshake_is_asked_by_a_form) {
  for (size_t i = 0; i < COUNT(forms); i++) {
    world *w = open_world((tp_mcp_server_options){.stdio = true});
    char id[32], line[512];
    initialize(w, FORMS);
    ask_for(w, CALL("7", "asked", ",\"arguments\":{\"word\":\"rm\"}"), "\"method\":\"elicitation/create\"");
    expect(w->text, "Allow asked with {\\\"word\\\":\\\"rm\\\"}?\\nin prod?");
    copy_member(w, "\"id\":", id, sizeof id);
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%s,%s}", id, forms[i].answer);
    ask_for(w, line, forms[i].part);
    expect(w->text, "\"id\":7");
    assert_int_equal(w->runs, forms[i].runs);
    say(w, line); /* a second answer is nobody's */
    ask_for(w, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}", "\"id\":8");
    close_world(w);
  }
}

/* Asks for a call, and copies the token with which the request must be repeated. */
static void require_input(world *w, char token[256]) {
  ask_for(w, CALL("1", "asked", "," META(FORMS)), "\"resultType\":\"input_required\"");
  expect(w->text, "\"inputRequests\":{\"approval\":{\"method\":\"elicitation/create\"");
  copy_member(w, "\"requestState\":\"", token, 256);
}

#define ALLOWED ",\"inputResponses\":{\"approval\":{\"action\":\"accept\",\"content\":{\"allow\":true}}}"

static void repeat(world *w, const char *tool, const char *responses, const char *token, const char *part) {
  char line[2048];
  snprintf(line, sizeof line, CALL("2", "%s", "%s,\"requestState\":\"%s\"," META(FORMS)), tool, responses, token);
  ask_for(w, line, part);
}

TEST(a_client_without_a_handshake_repeats_the_request_with_the_answer) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  char token[256], next[256];
  require_input(w, token);
  assert_int_equal(w->runs, 0);
  repeat(w, "asked", "", token, "\"input_required\""); /* without an answer it is asked again */
  copy_member(w, "\"requestState\":\"", next, sizeof next);
  assert_string_not_equal(token, next);
  repeat(w, "asked", ALLOWED, token, "-32602"); /* that token was used */
  repeat(w, "asked", ALLOWED, next, "ran with nothing");
  repeat(w, "asked", ALLOWED, next, "-32602");
  assert_int_equal(w->runs, 1);
  close_world(w);
}

TEST(a_state_that_was_changed_or_is_of_another_call_runs_nothing) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  char token[256], other[260];
  require_input(w, token);
  for (size_t i = 0; i < strlen(token); i++) {
    snprintf(other, sizeof other, "%s", token);
    other[i] = other[i] == '0' ? '1' : '0';
    repeat(w, "asked", ALLOWED, other, "-32602");
  }
  snprintf(other, sizeof other, "%s0", token);
  repeat(w, "asked", ALLOWED, other, "-32602");
  repeat(w, "echo", ALLOWED, token, "-32602");
  repeat(w, "asked", ALLOWED ",\"arguments\":{\"word\":\"other\"}", token, "-32602");
  repeat(w, "asked", ",\"inputResponses\":{\"approval\":{\"action\":\"decline\"}}", token, "\"isError\":true");
  assert_int_equal(w->runs, 0);
  close_world(w);
}

TEST(an_answer_without_a_question_allows_nothing) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  ask_for(w, CALL("1", "asked", ALLOWED "," META(FORMS)), "\"input_required\"");
  assert_int_equal(w->runs, 0);
  close_world(w);
}

TEST(a_client_that_shows_no_forms_is_denied_where_there_is_no_channel) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  ask_for(w, CALL("1", "asked", "," NEW), "\"isError\":true");
  expect(w->text, "none can be asked");
  assert_int_equal(w->runs, 0);
  close_world(w);
}

TEST(the_channel_is_asked_and_the_same_call_again_gets_the_result_of_the_first) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .has_channel = true, .ask_wait_ms = 1});
  ask_for(w, CALL("1", "asked", "," NEW), "needs approval: ");
  expect(w->text, "\"isError\":true");
  latch_wait(&w->questions, 1);
  ask_for(w, CALL("2", "asked", "," NEW), "needs approval: ");
  decide(w, TP_VERDICT_ALLOW);
  for (int i = 0; i < 1000 && w->runs == 0; i++) ask_for(w, CALL("3", "asked", "," NEW), "\"id\":3");
  if (strstr(w->text, "needs approval")) ask_for(w, CALL("3", "asked", "," NEW), "ran with nothing");
  expect(w->text, "ran with nothing");
  assert_int_equal(w->runs, 1);
  assert_int_equal(latch_count(&w->questions), 1);
  ask_for(w, CALL("4", "asked", "," NEW), "needs approval: "); /* a call of its own */
  latch_wait(&w->questions, 2);
  close_world(w);
}

/* @param ret_key  the key of the question about a call, from a gateway that was started for it. */
static void key_of_question(const char *call, char ret_key[40]) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .has_channel = true, .ask_wait_ms = WAIT_MS});
  say(w, call);
  latch_wait(&w->questions, 1);
  snprintf(ret_key, 40, "%s", w->key);
  decide(w, TP_VERDICT_DENY);
  expect(hear(w), "\"isError\":true");
  close_world(w);
}

TEST(a_question_is_the_same_for_another_process_and_of_no_other_call) {
  static const char *const others[] = {CALL("1", "asked", ",\"arguments\":{\"word\":\"a\"}," NEW),
                                       CALL("1", "asked", ",\"arguments\":{\"word\":\"b\"}," NEW)};
  char first[40], second[40];
  key_of_question(CALL("1", "asked", ",\"arguments\":{}," NEW), first);
  assert_int_equal(strlen(first), 32);
  key_of_question(CALL("2", "asked", ",\"arguments\":{}," NEW), second);
  assert_string_equal(first, second);
  for (size_t i = 0; i < COUNT(others); i++) {
    key_of_question(others[i], second);
    assert_string_not_equal(first, second);
    snprintf(first, sizeof first, "%s", second);
  }
}

TEST(the_channel_answers_in_time) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .has_channel = true, .ask_wait_ms = WAIT_MS});
  say(w, CALL("1", "asked", "," NEW));
  latch_wait(&w->questions, 1);
  decide(w, TP_VERDICT_ALLOW);
  expect(hear(w), "ran with nothing");
  close_world(w);
}

/* ---- tasks ---- */

#define TASKS "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define TASKS_FORMS "{\"elicitation\":{},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define TASK(method, id, rest, capabilities)                                                             \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tasks/" method "\",\"params\":{\"taskId\":\"" id "\"" rest \
  "," META(capabilities) "}}"

static const char *ask_task(world *w, const char *format, const char *id) {
  char line[1024];
  snprintf(line, sizeof line, format, id);
  say(w, line);
  return hear(w);
}

/* Asks for the task until it has the status. */
static void await_task(world *w, const char *id, const char *status) {
  char part[64];
  snprintf(part, sizeof part, "\"status\":\"%s\"", status);
  for (int i = 0; i < 5000; i++) {
    if (strstr(ask_task(w, TASK("get", "%s", "", TASKS_FORMS), id), part)) return;
    sched_yield();
  }
  fail_msg("no %s in %s", status, w->text);
}

/* @param line  a call that takes longer.   @param ret_id  of its task. */
static void begin_task(world *w, const char *line, char ret_id[40]) {
  ask_for(w, line, "\"resultType\":\"task\"");
  expect(w->text, "\"status\":\"working\"");
  expect(w->text, "\"ttlMs\":3600000");
  expect_not(w->text, "\"result\":{\"content");
  copy_member(w, "\"taskId\":\"", ret_id, 40);
  assert_int_equal(strlen(ret_id), 32);
}

TEST(a_call_that_takes_long_is_a_task_for_a_client_that_takes_tasks) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .task_after_ms = 1});
  char id[40];
  begin_task(w, CALL("1", "waits", "," META(TASKS)), id);
  latch_wait(&w->held, 1);
  expect(ask_task(w, TASK("get", "%s", "", TASKS), id), "\"status\":\"working\"");
  expect(ask_task(w, TASK("get", "%s", "", "{}"), id), "\"code\":-32021");
  expect(w->text, "\"requiredCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}");
  expect(ask_task(w, TASK("cancel", "%s", "", "{}"), id), "\"code\":-32021");
  expect(ask_task(w, TASK("update", "%s", ",\"inputResponses\":{}", "{}"), id), "\"code\":-32021");
  expect(ask_task(w, TASK("get", "%s", "", TASKS), "0123456789abcdef0123456789abcdef"), "\"code\":-32602");
  expect(ask_task(w, TASK("get", "%s", "", TASKS), ""), "\"code\":-32602");
  expect(ask_task(w, TASK("update", "%s", "", TASKS), id), "\"code\":-32602");
  say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1," META(TASKS) "}}");
  assert_int_equal(tp_tool_complete(w->token, false, tp_text_of("in the end"), NULL), TP_OK);
  await_task(w, id, "completed");
  expect(w->text, "\"resultType\":\"complete\"");
  expect(w->text, "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"in the end\"}]");
  expect(ask_task(w, TASK("cancel", "%s", "", TASKS), id), "\"resultType\":\"complete\"");
  expect_not(w->text, "status");
  expect(ask_task(w, TASK("get", "%s", "", TASKS), id), "in the end"); /* and again */
  assert_int_equal(w->cancels, 0);
  close_world(w);
}

TEST(a_task_that_is_cancelled_says_so) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .task_after_ms = 1});
  char id[40];
  begin_task(w, CALL("1", "waits", "," META(TASKS)), id);
  latch_wait(&w->held, 1);
  expect(ask_task(w, TASK("cancel", "%s", "", TASKS), id), "\"resultType\":\"complete\"");
  latch_wait(&w->ended, 1);
  await_task(w, id, "cancelled");
  expect_not(w->text, "\"error\":");
  expect(ask_task(w, TASK("cancel", "%s", "", TASKS), id), "\"resultType\":\"complete\"");
  assert_int_equal(w->cancels, 1);
  close_world(w);
}

TEST(a_task_ends_with_its_server) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .task_after_ms = 1});
  char id[40];
  begin_task(w, CALL("1", "waits", "," META(TASKS)), id);
  latch_wait(&w->held, 1);
  close_world(w);
}

TEST(no_other_client_gets_a_task) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .task_after_ms = 1});
  initialize(w, TASKS);
  say(w, CALL("1", "waits", ""));
  latch_wait(&w->held, 1);
  assert_int_equal(tp_tool_complete(w->token, false, tp_text_of("old"), NULL), TP_OK);
  expect(hear(w), "\"text\":\"old\"");
  say(w, CALL("2", "waits", "," META(FORMS)));
  latch_wait(&w->held, 2);
  assert_int_equal(tp_tool_complete(w->token, false, tp_text_of("new"), NULL), TP_OK);
  expect(hear(w), "\"text\":\"new\"");
  ask_for(w, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tasks/get\",\"params\":{\"taskId\":\"x\"}}", "-32601");
  ask_for(w,
          "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":{"
          "\"taskIds\":[\"x\"]}," NEW "}}",
          "-32021");
  close_world(w);
}

TEST(the_channel_is_asked_about_a_task_that_is_there_at_once) {
  world *w = open_world(
      (tp_mcp_server_options){.stdio = true, .has_channel = true, .ask_wait_ms = WAIT_MS, .task_after_ms = WAIT_MS});
  char id[40], again[40];
  begin_task(w, CALL("1", "asked", "," META(TASKS)), id);
  latch_wait(&w->questions, 1);
  expect(ask_task(w, TASK("get", "%s", "", TASKS), id), "\"statusMessage\":\"A person is asked");
  expect(w->text, w->key);
  begin_task(w, CALL("2", "asked", "," META(TASKS)), again);
  assert_string_equal(again, id); /* the same question, and no other */
  decide(w, TP_VERDICT_ALLOW);
  await_task(w, id, "completed");
  expect(w->text, "ran with nothing");
  expect_not(w->text, "statusMessage");
  begin_task(w, CALL("3", "asked", "," META(TASKS)), again); /* a call of its own */
  assert_string_not_equal(again, id);
  latch_wait(&w->questions, 2);
  decide(w, TP_VERDICT_DENY);
  await_task(w, again, "completed");
  expect(w->text, "\"isError\":true");
  assert_int_equal(w->runs, 1);
  close_world(w);
}

typedef struct answered {
  latch latch;
  char json[512];
} answered;

static void take_answers(void *ctx, tp_text answers) {
  answered *a = ctx;
  char *json = answers.size > 0 ? json_text(answers) : strdup("");
  snprintf(a->json, sizeof a->json, "%s", json);
  free(json);
  latch_hit(&a->latch);
}

static void ask_two(const world *w, answered *a) {
  static const tp_mcp_input one = {.struct_size = sizeof one, .key = "one", .method = "elicitation/create"},
                            two = {.struct_size = sizeof two, .key = "two", .method = "elicitation/create"};
  static const tp_mcp_input *const both[] = {&one, &two};
  assert_int_equal(tp_mcp_call_ask(w->call, both, 2, take_answers, a, NULL), TP_OK);
}

#define GIVES(key, value) ",\"inputResponses\":{\"" key "\":" value "}"

TEST(what_a_task_asks_for_is_a_part_of_it) {
  world *w = open_world((tp_mcp_server_options){.stdio = true, .task_after_ms = 1});
  char id[40];
  answered a = {.latch = LATCH};
  begin_task(w, CALL("1", "waits", "," META(TASKS_FORMS)), id);
  latch_wait(&w->held, 1);
  ask_two(w, &a);
  expect(ask_task(w, TASK("get", "%s", "", TASKS), id), "\"status\":\"input_required\"");
  expect(w->text, "\"inputRequests\":{\"one\":{\"method\":\"elicitation/create\",\"params\":{}},\"two\":");
  expect_not(w->text, "requestState");
  expect(ask_task(w, TASK("update", "%s", GIVES("three", "{}"), TASKS), id), "\"resultType\":\"complete\"");
  expect(ask_task(w, TASK("update", "%s", GIVES("one", "7"), TASKS), id), "-32602");
  expect(ask_task(w, TASK("update", "%s", GIVES("two", "{\"action\":\"accept\"}"), TASKS), id), "\"complete\"");
  expect(ask_task(w, TASK("get", "%s", "", TASKS), id), "\"inputRequests\":{\"one\":");
  expect_not(w->text, "\"two\"");
  ask_task(w, TASK("update", "%s", GIVES("two", "{\"action\":\"decline\"}"), TASKS), id); /* too late */
  expect(ask_task(w, TASK("update", "%s", GIVES("one", "{}"), TASKS), id), "\"resultType\":\"complete\"");
  latch_wait(&a.latch, 1);
  assert_string_equal(a.json, "[{},{\"action\":\"accept\"}]");
  expect(ask_task(w, TASK("get", "%s", "", TASKS), id), "\"status\":\"working\"");
  ask_two(w, &a); /* under keys that were not there before */
  expect(ask_task(w, TASK("get", "%s", "", TASKS), id), "\"inputRequests\":{\"one-2\":");
  expect(ask_task(w, TASK("cancel", "%s", "", TASKS), id), "\"resultType\":\"complete\"");
  latch_wait(&a.latch, 2);
  assert_string_equal(a.json, "");
  await_task(w, id, "cancelled");
  close_world(w);
}

/* ---- cancel, and the end ---- */

TEST(a_cancelled_call_ends_its_tool_and_has_no_answer) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  initialize(w, "{}");
  say(w, CALL("5", "waits", ""));
  latch_wait(&w->held, 1);
  say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}");
  latch_wait(&w->ended, 1);
  ask_for(w, "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}", "\"id\":6");
  close_world(w);
}

TEST(the_end_cancels_what_is_left_and_answers_it) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  say(w, CALL("5", "waits", "," NEW));
  latch_wait(&w->held, 1);
  char token[256];
  require_input(w, token); /* and one is parked */
  tp_mcp_server_free(w->server, 0);
  w->server = NULL;
  expect(hear(w), "the server is stopping");
  assert_int_equal(w->cancels, 1);
  close_world(w);
}

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define TRACED(more) "\"_meta\":{\"traceparent\":\"" PARENT "\"" more "}"

TEST(the_trace_of_a_client_goes_on_in_the_server_behind_the_gateway) {
  static const char *const eras[] = {"", "new"};
  for (size_t i = 0; i < COUNT(eras); i++) {
    world *w = calloc(1, sizeof *w);
    const char *program = getenv("TURNPHASE_MCP_SERVER");
    if (!program) fail_msg("TURNPHASE_MCP_SERVER is not set: run this by ./dev test");
    const tp_mcp_options up = {
        .struct_size = sizeof up, .name = "far", .arguments = (const char *const[]){program, "meta", eras[i], NULL}};
    open_runtime_of(w, false);
    assert_int_equal(tp_mcp_add(w->runtime, &up, NULL), TP_OK);
    start(w, (tp_mcp_server_options){.stdio = true});
    initialize(w, "{}");
    ask_for(w, CALL("2", "far__fail", ",\"arguments\":{}," TRACED(",\"tracestate\":\"a=b\",\"baggage\":\"user=ann\"")),
            "'traceparent':'" PARENT "'");
    expect(w->text, "'tracestate':'a=b'");
    expect_not(w->text, "ann"); /* what the client says of others is not for each server */
    ask_for(w, CALL("3", "far__fail", ",\"arguments\":{}," TRACED("")), "'traceparent':'" PARENT "'");
    expect_not(w->text, "tracestate");
    ask_for(w, CALL("4", "far__fail", ",\"arguments\":{}"), "progressToken");
    expect_not(w->text, "trace");
    close_world(w);
  }
}

TEST(clients_are_notified_when_a_server_behind_the_gateway_has_other_tools) {
  world *w = calloc(1, sizeof *w);
  const char *program = getenv("TURNPHASE_MCP_SERVER");
  if (!program) fail_msg("TURNPHASE_MCP_SERVER is not set: run this by ./dev test");
  const tp_mcp_options up = {
      .struct_size = sizeof up, .name = "far", .arguments = (const char *const[]){program, NULL}};
  open_runtime_of(w, false);
  assert_int_equal(tp_mcp_add(w->runtime, &up, NULL), TP_OK);
  start(w, (tp_mcp_server_options){.stdio = true});
  say(w,
      "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":"
      "{\"toolsListChanged\":true}," NEW "}}");
  expect(hear(w), "acknowledged");
  say(w, CALL("1", "far__change", "," NEW)); /* it says so itself */
  wait_for(w, "tools/list_changed");
  say(w, CALL("2", "far__die", "," NEW)); /* they are gone */
  wait_for(w, "tools/list_changed");
  say(w, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\",\"params\":{" NEW "}}");
  wait_for(w, "\"tools\":[");
  expect_not(w->text, "far__");
  wait_for(w, "tools/list_changed"); /* it was started again */
  say(w, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\",\"params\":{" NEW "}}");
  wait_for(w, "\"tools\":[");
  expect(w->text, "far__die");
  assert_int_equal(tp_mcp_remove(w->runtime, "far", NULL), TP_OK);
  wait_for(w, "tools/list_changed");
  close_world(w);
}

TEST(a_client_answers_what_a_server_behind_the_gateway_asks) {
  static const char *const eras[] = {"forms=1", "new"};
  const char *program = getenv("TURNPHASE_MCP_SERVER");
  if (!program) fail_msg("TURNPHASE_MCP_SERVER is not set: run this by ./dev test");
  for (size_t i = 0; i < COUNT(eras); i++) {
    world *w = calloc(1, sizeof *w);
    char number[16], held[512], line[1024];
    const tp_mcp_options up = {
        .struct_size = sizeof up, .name = "far", .arguments = (const char *const[]){program, eras[i], "forms=1", NULL}};
    open_runtime_of(w, false);
    assert_int_equal(tp_mcp_add(w->runtime, &up, NULL), TP_OK);
    start(w, (tp_mcp_server_options){.stdio = true});
    /* one that can show forms, of a version with a handshake */
    initialize(w, FORMS);
    ask_for(w, CALL("2", "far__echo", ",\"arguments\":{\"text\":\"x\"}"), "elicitation/create");
    expect(w->text, "\"message\":\"Which?\"");
    copy_member(w, "\"id\":", number, sizeof number);
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}}",
             number);
    ask_for(w, line, "'action':'accept','content':{'name':'Ada'}");
    ask_for(w, CALL("21", "far__echo", ",\"arguments\":{\"text\":\"x\"}"), "elicitation/create"); /* its user is gone */
    copy_member(w, "\"id\":", number, sizeof number);
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1,\"message\":\"no\"}}", number);
    ask_for(w, line, "'action':'cancel'");
    /* a client without a handshake repeats the call; a message that it sends without being asked is no answer */
    ask_for(w,
            CALL("3", "far__echo",
                 ",\"arguments\":{\"text\":\"x\"},\"inputResponses\":{\"asked\":{\"action\":\"accept\"}}," META(FORMS)),
            "input_required");
    expect(w->text, "Which?");
    copy_member(w, "\"requestState\":\"", held, sizeof held);
    snprintf(line, sizeof line,
             CALL("4", "far__echo",
                  ",\"arguments\":{\"text\":\"x\"},\"requestState\":\"%s\",\"inputResponses\":{\"asked\":"
                  "{\"action\":\"decline\"}}," META(FORMS)),
             held);
    ask_for(w, line, "'action':'decline'");
    /* one without forms */
    ask_for(w, CALL("5", "far__echo", ",\"arguments\":{\"text\":\"x\"}," NEW), "'action':'decline'");
    close_world(w);
  }
}

/* ---- outputSchema ---- */

static tp_answer take_value_away(void *ctx, tp_call *call) {
  static const char null[] = "\xC0";
  const tp_field fields[] = {{.id = TP_FIELD_RESULT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("seven")},
                             {.id = TP_FIELD_RESULT_VALUE, .kind = TP_FIELD_KIND_VALUE, .text = {null, 1}}};
  (void)ctx;
  return tp_call_replace(call, fields, COUNT(fields), NULL) == TP_OK ? TP_ANSWER_DONE
                                                                     : tp_call_fail(call, TP_ERR_HOOK, "not replaced");
}

static void add_taker(world *w) {
  static const uint32_t phase = TP_PHASE_TOOL_RESULT;
  const hook taker = {.id = "taker", .phase = phase, .run = take_value_away};
  add_hooks(w->runtime, &taker, 1);
}

#define RAIN(id, rest) CALL(id, "far__value", rest)
#define LISTS(rest) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" rest "}}"

/* A strict client: a tool that is listed with an outputSchema must give a value, or an error. */
TEST(a_result_has_the_value_that_the_schema_promises_or_is_an_error) {
  static const struct {
    const char *option, *lies;
    bool takes;
    bool is_listed;
    const char *result; /* of a client that knows values */
    bool is_error;
  } rows[] = {
      {"outputs", NULL, false, true, "\"structuredContent\":{\"rain_mm\":7}", false},
      {"outputs", "lies", false, true, "was left out or never given. rain\"", true},
      {"outputs", NULL, true, true, "was left out or never given. seven\"", true},
      {"outputs=any", NULL, true, false, "\"text\":\"seven\"", false},
      {"new", NULL, true, false, "\"text\":\"seven\"", false},
  };
  const char *program = getenv("TURNPHASE_MCP_SERVER");
  if (!program) fail_msg("TURNPHASE_MCP_SERVER is not set: run this by ./dev test");
  for (size_t i = 0; i < COUNT(rows); i++) {
    world *w = calloc(1, sizeof *w);
    const tp_mcp_options up = {.struct_size = sizeof up,
                               .name = "far",
                               .arguments = (const char *const[]){program, rows[i].option, rows[i].lies, NULL}};
    open_runtime_of(w, false);
    assert_int_equal(tp_mcp_add(w->runtime, &up, NULL), TP_OK);
    if (rows[i].takes) add_taker(w);
    start(w, (tp_mcp_server_options){.stdio = true});
    initialize(w, "{}");
    ask_for(w, LISTS(""), "far__value");
    assert_int_equal(strstr(w->text, "outputSchema") != NULL, rows[i].is_listed);
    if (rows[i].is_listed) expect(w->text, "\"required\":[\"rain_mm\"]");
    ask_for(w, RAIN("2", ""), rows[i].result);
    assert_int_equal(strstr(w->text, "\"isError\":true") != NULL, rows[i].is_error);
    ask_for(w, RAIN("3", "," NEW), rows[i].result);
    assert_int_equal(strstr(w->text, "\"isError\":true") != NULL, rows[i].is_error);
    close_world(w);
  }
}

/* A version without values has no schema to be true to. */
TEST(a_version_without_values_gets_the_text) {
  world *w = calloc(1, sizeof *w);
  const char *program = getenv("TURNPHASE_MCP_SERVER");
  if (!program) fail_msg("TURNPHASE_MCP_SERVER is not set: run this by ./dev test");
  const tp_mcp_options up = {
      .struct_size = sizeof up, .name = "far", .arguments = (const char *const[]){program, "outputs", NULL}};
  open_runtime_of(w, false);
  assert_int_equal(tp_mcp_add(w->runtime, &up, NULL), TP_OK);
  add_taker(w);
  start(w, (tp_mcp_server_options){.stdio = true});
  ask_for(w, OLD_INITIALIZE("2025-03-26", "{}"), "2025-03-26");
  ask_for(w, RAIN("2", ""), "\"text\":\"seven\"");
  expect_not(w->text, "isError");
  close_world(w);
}

/* ---- what a server behind the gateway wants from a model ---- */

static void never_asked(void *ctx, const tp_model_request *request, tp_token token) {
  (void)request;
  ++*(_Atomic int *)ctx;
  const tp_model_response response = {.struct_size = sizeof response, .text = TEXT("of the host")};
  (void)!tp_model_complete(token, &response, NULL);
}

#define SAMPLES "{\"sampling\":{}}"
#define ARGUMENTS ",\"arguments\":{\"text\":\"x\"}"

TEST(a_client_that_offers_sampling_answers_a_server_behind_the_gateway) {
  static const char *const eras[] = {"samples=1", "new"};
  static const char said[] =
      "{\"role\":\"assistant\",\"content\":{\"type\":\"text\",\"text\":\"of the client\"},\"model\":\"m\"}";
  const char *program = getenv("TURNPHASE_MCP_SERVER");
  if (!program) fail_msg("TURNPHASE_MCP_SERVER is not set: run this by ./dev test");
  for (size_t i = 0; i < COUNT(eras); i++) {
    world *w = calloc(1, sizeof *w);
    char number[16], held[512], line[1024];
    _Atomic int asked = 0;
    const tp_model model = {
        .struct_size = sizeof model, .ctx = &asked, .start = never_asked, .placement = TP_PLACEMENT_INLINE};
    const tp_mcp_sampling sampling = {.struct_size = sizeof sampling, .model = &model};
    const tp_mcp_options up = {.struct_size = sizeof up,
                               .name = "far",
                               .arguments = (const char *const[]){program, eras[i], "samples=1", NULL},
                               .sampling = &sampling};
    open_runtime_of(w, false);
    assert_int_equal(tp_mcp_add(w->runtime, &up, NULL), TP_OK);
    start(w, (tp_mcp_server_options){.stdio = true});
    initialize(w, SAMPLES);
    ask_for(w, CALL("2", "far__echo", ARGUMENTS), "sampling/createMessage");
    expect(w->text, "\"systemPrompt\":\"Be short.\"");
    copy_member(w, "\"id\":", number, sizeof number);
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", number, said);
    ask_for(w, line, "'text':'of the client'");
    ask_for(w, CALL("21", "far__echo", ARGUMENTS), "sampling/createMessage"); /* what its user refuses is refused */
    copy_member(w, "\"id\":", number, sizeof number);
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1,\"message\":\"no\"}}", number);
    ask_for(w, line, "the client refused it");
    ask_for(w, CALL("3", "far__echo", ARGUMENTS "," META(SAMPLES)), "input_required");
    copy_member(w, "\"requestState\":\"", held, sizeof held);
    snprintf(
        line, sizeof line,
        CALL("4", "far__echo", ARGUMENTS ",\"requestState\":\"%s\",\"inputResponses\":{\"asked\":%s}," META(SAMPLES)),
        held, said);
    ask_for(w, line, "'text':'of the client'");
    assert_int_equal(asked, 0);
    ask_for(w, CALL("5", "far__echo", ARGUMENTS "," NEW), "'text':'of the host'"); /* one without */
    assert_int_equal(asked, 1);
    /* one that gives its call up while it is asked */
    ask_for(w, CALL("6", "far__echo", ARGUMENTS), "sampling/createMessage");
    say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":6}}");
    ask_for(w, CALL("7", "far__echo", ARGUMENTS "," NEW), "'text':'of the host'");
    close_world(w);
  }
}

TEST(a_client_that_gives_a_token_is_told_how_far_its_call_is) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  initialize(w, "{}");
  say(w, CALL("2", "reports", ",\"_meta\":{\"progressToken\":\"p\"}"));
  expect(hear(w), "notifications/progress");
  expect(w->text, "\"progressToken\":\"p\",\"progress\":1.0,\"total\":2.0,\"message\":\"half\"");
  expect(hear(w), "\"progressToken\":\"p\",\"progress\":2.0}");
  expect(hear(w), "ran with nothing");
  ask_for(w, CALL("3", "reports", ""), "ran with nothing"); /* without a token there is nothing between */
  say(w, CALL("4", "reports", ",\"_meta\":{\"progressToken\":7}"));
  expect(hear(w), "\"progressToken\":7,\"progress\":1.0");
  expect(hear(w), "\"progressToken\":7,\"progress\":2.0");
  expect(hear(w), "ran with nothing");
  close_world(w);
}

TEST(a_client_that_closes_its_end_is_noticed_and_still_answered) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  say(w, CALL("5", "waits", "," NEW));
  latch_wait(&w->held, 1);
  close(w->to);
  w->to = -1;
  latch_wait(&w->ended, 1);
  assert_int_equal(tp_tool_complete(w->token, false, tp_text_of("in the end"), NULL), TP_OK);
  expect(hear(w), "in the end");
  close_world(w);
}

/* SIGPIPE would end this process: the thread that changes the list is the host's. */
TEST(a_client_that_does_not_read_any_more_sends_no_signal_to_the_host) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  initialize(w, "{}");
  assert_int_equal(tp_mcp_server_set_list(w->server, TP_MCP_LIST_PROMPTS, (tp_text){"\x90", 1}, NULL), TP_OK);
  expect(hear(w), "notifications/prompts/list_changed");
  close(w->from);
  w->from = -1;
  assert_int_equal(tp_mcp_server_set_list(w->server, TP_MCP_LIST_PROMPTS, (tp_text){"\x90", 1}, NULL), TP_OK);
  latch_wait(&w->ended, 1);
  assert_int_equal(tp_mcp_server_set_list(w->server, TP_MCP_LIST_PROMPTS, (tp_text){"\x90", 1}, NULL), TP_OK);
  close_world(w);
}

/* Those that the pipe takes at once, and those that wait for the client. */
TEST(messages_come_whole_and_in_their_order_however_slow_their_client_is) {
  enum { CALLS = 600, WORD = 500 };
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  char line[WORD + 512], word[WORD + 1], part[64];
  memset(word, 'x', WORD);
  word[WORD] = 0;
  initialize(w, "{}");
  for (int i = 1; i <= CALLS; i++) { /* more than a pipe takes */
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"no/%s\"}", i, word);
    say(w, line);
  }
  for (int i = 1; i <= CALLS; i++) {
    snprintf(part, sizeof part, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"error\"", i);
    expect(hear(w), part);
  }
  close_world(w);
}

/* Data that a pipe does not accept at once is written by a separate thread; no other thread waits. */
TEST(a_large_answer_that_nothing_reads_holds_no_thread_up) {
  enum { SIZE = 300000 };
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  char *large = calloc(1, SIZE + 1);
  size_t got = 0;
  memset(large, 'x', SIZE);
  initialize(w, "{}");
  say(w, CALL("5", "waits", ""));
  latch_wait(&w->held, 1);
  assert_int_equal(tp_tool_complete(w->token, false, tp_text_of(large), NULL), TP_OK);
  struct pollfd ready = {.fd = w->from, .events = POLLIN};
  assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
  assert_int_equal(tp_mcp_server_set_list(w->server, TP_MCP_LIST_PROMPTS, (tp_text){"\x90", 1}, NULL), TP_OK);
  for (char c = 0; c != '\n'; got++) assert_int_equal(read(w->from, &c, 1), 1);
  assert_true(got > 100000); /* the text of a result is cut, and says so */
  expect(hear(w), "notifications/prompts/list_changed");
  free(large);
  close_world(w);
}

TEST(clients_are_notified_of_changed_tools) {
  world *w = open_world((tp_mcp_server_options){.stdio = true});
  say(w,
      "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":"
      "{\"toolsListChanged\":true,\"promptsListChanged\":true}," NEW "}}");
  expect(hear(w),
         "notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":{\"toolsListChanged\":true}");
  tp_tool tool = {.struct_size = sizeof tool, .name = "another", .run = run_tool, .ctx = w};
  assert_int_equal(tp_tool_add(w->runtime, &tool, NULL), TP_OK);
  for (int i = 0; i < 1000; i++) { /* however often it is said, one refresh waits */
    size_t waiting = 0;
    tp_mcp_server_tools_changed(w->server);
    tp__lock_acquire(&w->server->lock);
    for (const tp__mcp_work *work = w->server->first_work; work; work = work->next) waiting++;
    tp__lock_release(&w->server->lock);
    assert_true(waiting <= 1);
  }
  expect(hear(w), "notifications/tools/list_changed");
  expect(w->text, "\"io.modelcontextprotocol/subscriptionId\":\"s\"");
  say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"s\"," NEW "}}");
  ask_for(w, CALL("9", "echo", "," NEW), "\"id\":9");
  close_world(w);
}

/* The requests are there before the server is. */
TEST(the_first_request_finds_what_is_offered) {
  world *w = calloc(1, sizeof *w);
  int in[2], out[2];
  tp_fault fault = {0};
  open_runtime_of(w, false);
  assert_int_equal(pipe(in), 0);
  assert_int_equal(pipe(out), 0);
  w->to = in[1];
  w->from = out[0];
  for (int i = 0; i < 3; i++) {
    static const char *const methods[] = {"prompts/list", "resources/list", "resources/templates/list"};
    char line[300];
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":{" NEW "}}", i,
             methods[i]);
    say(w, line);
  }
  const tp_mcp_server_options options = {.struct_size = sizeof options,
                                         .stdio = true,
                                         .input = in[0],
                                         .output = out[1],
                                         .get_prompt = give_prompt,
                                         .read_resource = give_resource,
                                         .prompts = VALUE("\x91\x81\xa4name\xa1p"),
                                         .resources = VALUE("\x91\x81\xa4name\xa1r"),
                                         .templates = VALUE("\x91\x81\xa4name\xa1t"),
                                         .on_end = note_end,
                                         .ctx = w};
  if (tp_mcp_server_start(w->runtime, &options, &w->server, &fault) != TP_OK) fail_msg("%s", fault.message);
  expect(hear(w), "\"prompts\":[{\"name\":\"p\"}]");
  expect(hear(w), "\"resources\":[{\"name\":\"r\"}]");
  expect(hear(w), "\"resourceTemplates\":[{\"name\":\"t\"}]");
  close_world(w);
}

/* ---- over HTTP ---- */

#define HEADERS "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
#define NEW_HEADERS HEADERS "MCP-Protocol-Version: 2026-07-28\r\n"

static int dial(const world *w) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)tp_mcp_server_port(w->server)),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
  return fd;
}

static int post(world *w, const char *headers, const char *body) {
  char text[8192];
  int fd = dial(w);
  int size = snprintf(text, sizeof text,
                      "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
                      headers, strlen(body), body);
  assert_int_equal(send(fd, text, (size_t)size, MSG_NOSIGNAL), size);
  return fd;
}

static const char *read_all(world *w, int fd) {
  size_t size = 0;
  ssize_t got;
  while ((got = recv(fd, w->text + size, sizeof w->text - 1 - size, 0)) > 0) size += (size_t)got;
  w->text[size] = 0;
  close(fd);
  return w->text;
}

#define DISCOVER "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" NEW "}}"

static const struct {
  const char *headers, *body, *status, *part;
} requests[] = {
    {NEW_HEADERS "Mcp-Method: server/discover\r\n", DISCOVER, "200", "supportedVersions"},
    {NEW_HEADERS "Mcp-Method: tools/list\r\n", DISCOVER, "400", "-32020"},
    {NEW_HEADERS, DISCOVER, "400", "-32020"},
    {HEADERS "Mcp-Method: server/discover\r\n", DISCOVER, "400", "-32020"},
    {HEADERS "MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: server/discover\r\n", DISCOVER, "400", "-32020"},
    {NEW_HEADERS "Mcp-Method: tools/call\r\nMcp-Name: echo\r\n", CALL("1", "echo", "," NEW), "200", "ran with"},
    {NEW_HEADERS "Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZWNobw==?=\r\n", CALL("1", "echo", "," NEW), "200",
     "ran with"},
    {NEW_HEADERS "Mcp-Method: tools/call\r\nMcp-Name: other\r\n", CALL("1", "echo", "," NEW), "400", "-32020"},
    {NEW_HEADERS "Mcp-Method: tools/call\r\n", CALL("1", "echo", "," NEW), "400", "-32020"},
    {NEW_HEADERS "Mcp-Method: tools/call\r\nMcp-Name: echo\r\nMcp-Param-Word: a\r\n",
     CALL("1", "echo", ",\"arguments\":{\"word\":\"a\"}," NEW), "200", "ran with a"},
    {NEW_HEADERS "Mcp-Method: tools/call\r\nMcp-Name: echo\r\nMcp-Param-Word: b\r\n",
     CALL("1", "echo", ",\"arguments\":{\"word\":\"a\"}," NEW), "400", "-32020"},
    {NEW_HEADERS "Mcp-Method: tools/call\r\nMcp-Name: echo\r\n",
     CALL("1", "echo", ",\"arguments\":{\"word\":\"a\"}," NEW), "400", "-32020"},
    {NEW_HEADERS "Mcp-Method: ping\r\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" NEW "}}",
     "404", "-32601"},
    {HEADERS "Origin: https://evil.example\r\n", DISCOVER, "403", "origin"},
    {HEADERS "Origin: http://localhost.evil.example\r\n", DISCOVER, "403", "origin"},
    {HEADERS "Origin: null\r\n", DISCOVER, "403", "origin"},
    {NEW_HEADERS "Mcp-Method: server/discover\r\nOrigin: http://localhost:3000\r\n", DISCOVER, "200", "supported"},
    {NEW_HEADERS "Mcp-Method: server/discover\r\nOrigin: https://friend.example\r\n", DISCOVER, "200", "supported"},
    {"Content-Type: text/plain\r\n", DISCOVER, "415", "application/json"},
    {"Content-Type: application/json\r\nAccept: text/html\r\n", DISCOVER, "406", "accept"},
    {HEADERS, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", "400", "no session"},
    {HEADERS "Mcp-Session-Id: 00000000000000000000000000000000\r\n", "{}", "404", "session"},
    {HEADERS, "{", "400", "-32700"},
    {HEADERS, OLD_INITIALIZE("2025-06-18", "{}"), "200", "Mcp-Session-Id: "},
};

TEST(requests_over_HTTP_have_their_status_and_answer) {
  if (!TEST_HTTP) return;
  world *w = open_world((tp_mcp_server_options){.http_address = "127.0.0.1",
                                                .origins = (const char *const[]){"https://friend.example", NULL}});
  for (size_t i = 0; i < COUNT(requests); i++) {
    char status[32];
    const char *text = read_all(w, post(w, requests[i].headers, requests[i].body));
    snprintf(status, sizeof status, "HTTP/1.1 %s", requests[i].status);
    if (strncmp(text, status, strlen(status)) != 0 || !strstr(text, requests[i].part))
      fail_msg("request %zu: %s", i, text);
  }
  close_world(w);
}

TEST(a_session_lives_until_it_is_deleted) {
  if (!TEST_HTTP) return;
  world *w = open_world((tp_mcp_server_options){.http_address = "127.0.0.1"});
  char id[40], headers[512], request[256];
  read_all(w, post(w, HEADERS, OLD_INITIALIZE("2025-11-25", "{}")));
  copy_member(w, "Mcp-Session-Id: ", id, sizeof id);
  id[32] = 0;
  snprintf(headers, sizeof headers, HEADERS "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n", id);
  expect(read_all(w, post(w, headers, CALL("2", "echo", ""))), "ran with nothing");
  int stream = dial(w);
  snprintf(request, sizeof request, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: %s\r\n\r\n", id);
  assert_int_equal(send(stream, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
  int fd = dial(w);
  snprintf(request, sizeof request,
           "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nMcp-Session-Id: %s\r\n\r\n", id);
  assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
  expect(read_all(w, fd), "HTTP/1.1 204");
  expect(read_all(w, post(w, headers, CALL("3", "echo", ""))), "HTTP/1.1 404");
  close(stream);
  close_world(w);
}

TEST(a_key_is_needed_where_there_are_keys) {
  static const char *const keys[] = {"0123456789abcdef0123", "fedcba98765432109876", NULL};
  static const struct {
    const char *header, *status;
  } rows[] = {{"", "401"},
              {"Authorization: Bearer 0123456789abcdef0123\r\n", "200"},
              {"Authorization: bearer fedcba98765432109876\r\n", "200"},
              {"Authorization: Bearer 0123456789abcdef012\r\n", "401"},
              {"Authorization: Bearer 0123456789abcdef01234\r\n", "401"},
              {"Authorization: Basic 0123456789abcdef0123\r\n", "401"},
              {"Authorization: Bearer \r\n", "401"}};
  if (!TEST_HTTP) return;
  world *w = open_world((tp_mcp_server_options){.http_address = "127.0.0.1", .keys = keys});
  for (size_t i = 0; i < COUNT(rows); i++) {
    char headers[512], status[32];
    snprintf(headers, sizeof headers, NEW_HEADERS "Mcp-Method: server/discover\r\n%s", rows[i].header);
    snprintf(status, sizeof status, "HTTP/1.1 %s", rows[i].status);
    expect(read_all(w, post(w, headers, DISCOVER)), status);
  }
  close_world(w);
}

/* A client with another key does not see the task, and the task stays when its client goes. */
TEST(a_task_over_HTTP_is_of_its_key_and_name) {
  static const char *const keys[] = {"0123456789abcdef0123", "fedcba98765432109876", NULL};
#define OF_FIRST NEW_HEADERS "Authorization: Bearer 0123456789abcdef0123\r\n"
#define OF_SECOND NEW_HEADERS "Authorization: Bearer fedcba98765432109876\r\n"
  if (!TEST_HTTP) return;
  world *w = open_world((tp_mcp_server_options){.http_address = "127.0.0.1", .keys = keys, .task_after_ms = 1});
  char id[40], headers[512], body[512];
  expect(read_all(
             w, post(w, OF_FIRST "Mcp-Method: tools/call\r\nMcp-Name: waits\r\n", CALL("1", "waits", "," META(TASKS)))),
         "\"resultType\":\"task\"");
  copy_member(w, "\"taskId\":\"", id, sizeof id);
  latch_wait(&w->held, 1);
  snprintf(body, sizeof body, TASK("get", "%s", "", TASKS), id);
  snprintf(headers, sizeof headers, OF_FIRST "Mcp-Method: tasks/get\r\nMcp-Name: %s\r\n", id);
  expect(read_all(w, post(w, headers, body)), "\"status\":\"working\"");
  snprintf(headers, sizeof headers, OF_SECOND "Mcp-Method: tasks/get\r\nMcp-Name: %s\r\n", id);
  expect(read_all(w, post(w, headers, body)), "\"code\":-32602");
  expect(read_all(w, post(w, OF_FIRST "Mcp-Method: tasks/get\r\nMcp-Name: x\r\n", body)), "\"code\":-32020");
  expect(read_all(w, post(w, OF_FIRST "Mcp-Method: tasks/get\r\n", body)), "\"code\":-32020");
  snprintf(body, sizeof body, TASK("get", "%s", "", "{}"), id);
  snprintf(headers, sizeof headers, OF_FIRST "Mcp-Method: tasks/get\r\nMcp-Name: %s\r\n", id);
  expect(read_all(w, post(w, headers, body)), "HTTP/1.1 400");
  assert_int_equal(w->cancels, 0);
  close_world(w);
}

TEST(a_client_that_leaves_its_stream_cancels_its_call) {
  if (!TEST_HTTP) return;
  world *w = open_world((tp_mcp_server_options){.http_address = "127.0.0.1"});
  int fd = post(w, NEW_HEADERS "Mcp-Method: tools/call\r\nMcp-Name: waits\r\n", CALL("1", "waits", "," NEW));
  latch_wait(&w->held, 1);
  close(fd);
  latch_wait(&w->ended, 1);
  close_world(w);
}

TEST(a_form_comes_on_the_stream_of_its_call) {
  if (!TEST_HTTP) return;
  world *w = open_world((tp_mcp_server_options){.http_address = "127.0.0.1"});
  char id[40], number[16], headers[512], answer[256];
  read_all(w, post(w, HEADERS, OLD_INITIALIZE("2025-11-25", FORMS)));
  copy_member(w, "Mcp-Session-Id: ", id, sizeof id);
  id[32] = 0;
  snprintf(headers, sizeof headers, HEADERS "Mcp-Session-Id: %s\r\n", id);
  int fd = post(w, headers, CALL("2", "asked", ""));
  size_t size = 0;
  while (!strstr(w->text, "elicitation/create") || !strstr(strstr(w->text, "elicitation/create"), "\n\n")) {
    ssize_t got = recv(fd, w->text + size, sizeof w->text - 1 - size, 0);
    assert_true(got > 0);
    w->text[size += (size_t)got] = 0;
  }
  copy_member(w, "\"id\":", number, sizeof number);
  snprintf(answer, sizeof answer, "{\"jsonrpc\":\"2.0\",\"id\":%s,%s}", number, forms[0].answer);
  int second = post(w, headers, answer);
  expect(read_all(w, fd), "ran with nothing");
  expect(read_all(w, second), "HTTP/1.1 202");
  close_world(w);
}

/* ---- states ---- */

TEST(a_state_is_bound_to_its_request) {
  static const unsigned char secret[32] = {1}, other[32] = {2};
  const tp__mcp_request_state content = {.nonce = "0123456789abcdef0123456789abcdef",
                                         .about = "0123456789abcdef0123456789abcdef",
                                         .expires_ms = INT64_MAX};
  char token[TP__MCP_STATE_BYTES];
  tp__mcp_request_state read;
  tp__mcp_state_write(secret, &content, "who|what", token);
  assert_true(tp__mcp_state_read(secret, tp_text_of(token), "who|what", &read));
  assert_string_equal(read.nonce, content.nonce);
  assert_string_equal(read.about, content.about);
  assert_int_equal(read.expires_ms, content.expires_ms);
  assert_false(tp__mcp_state_read(secret, tp_text_of(token), "who|else", &read));
  assert_false(tp__mcp_state_read(other, tp_text_of(token), "who|what", &read));
  assert_false(tp__mcp_state_read(secret, (tp_text){token, 5}, "who|what", &read));
  assert_false(tp__mcp_state_read(secret, (tp_text){0}, "who|what", &read));
}
