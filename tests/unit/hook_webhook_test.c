/* SPDX-License-Identifier: Apache-2.0
 *
 * Webhooks: the meaning of an endpoint's answer, which endpoints may be asked, and files that are refused. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/endpoint.h"
#include "tests/support/hook_files.h"
#include "tests/support/json_value.h"

static char allowed[64]; /* the endpoint, as the operator allows it */

static tp_hooks_options webhook_options(const char *const *hosts) {
  tp_hooks_options options = hooks_options();
  options.webhook_hosts = hosts;
  options.webhook_helper = getenv("TURNPHASE_WEBHOOK"); /* the build sets it; NULL: libcurl is not there */
  return options;
}

/* A guard that asks the endpoint; more: of the file, and of its handler. */
static void write_webhook(const endpoint *e, const char *more, const char *of_handler) {
  char text[512];
  snprintf(text, sizeof text,
           "id: guard\nevent: tool.pre\n%shandler: {kind: webhook, url: 'http://127.0.0.1:%d/guard?a=b', timeout_ms: "
           "20000%s}\n",
           more, e->port, of_handler);
  write_named("a.yaml", text);
  snprintf(allowed, sizeof allowed, "127.0.0.1:%d", e->port);
}

static tp_runtime *open_with_webhook(void) {
  const char *const hosts[] = {"guard.example", allowed, NULL};
  tp_hooks_options options = webhook_options(hosts);
  return open_with_hooks(&options);
}

static tp_phase_result gate(tp_turn *turn) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_field fields[] = {
      {.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("shell")},
      {.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = json_value(writer, "{'command': 'ls'}")}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2, .budget_ms = 60000};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, NULL), TP_OK);
  tp_writer_free(writer);
  return result;
}

/* ---- what an answer means ---- */

static char long_answer[(1 << 20) + 2];

typedef struct row {
  const char *name;
  endpoint_reply reply;
  const char *more; /* of the file */
  tp_status outcome;
  tp_verdict verdict;
  tp_reason why;
  const char *reason; /* a part; NULL: any */
} row;

#define DENY TP_ERR_DENIED, TP_VERDICT_DENY

static const row rows[] = {
    {"nothing", {.body = ""}, "", DENY, TP_REASON_MALFORMED, "this one said none"},
    {"blanks", {.body = " \r\n"}, "", DENY, TP_REASON_MALFORMED, "this one said none"},
    {"204", {.status = 204, .body = ""}, "", DENY, TP_REASON_MALFORMED, "this one said none"},
    {"202", {.status = 202, .body = ""}, "", DENY, TP_REASON_MALFORMED, "this one said none"},
    {"nothing, and best effort", {.body = ""}, "failure: best_effort\n", TP_OK, TP_VERDICT_NONE, 0, NULL},
    {"an empty object", {.body = "{}"}, "", DENY, TP_REASON_MALFORMED, "this one said none"},
    {"an object of a gateway", {.body = "{\"status\": \"ok\"}"}, "", DENY, TP_REASON_MALFORMED, NULL},
    {"a reason only", {.body = "{\"reason\": \"fine\"}"}, "", DENY, TP_REASON_MALFORMED, "this one said none"},
    {"an array", {.body = "[true]"}, "", DENY, TP_REASON_MALFORMED, "no JSON object"},
    {"a word", {.body = "true"}, "", DENY, TP_REASON_MALFORMED, "no JSON object"},
    {"allows without more", {.body = "{\"continue\": true}"}, "", TP_OK, TP_VERDICT_ALLOW, 0, NULL},
    {"allows", {.body = "{\"continue\": true}"}, "verdict: json\n", TP_OK, TP_VERDICT_ALLOW, 0, NULL},
    {"denies", {.body = "{\"continue\": false, \"reason\": \"not here\"}"}, "", DENY, 0, "not here"},
    {"denies with 201", {.status = 201, .body = "{\"continue\": false, \"reason\": \"no\"}"}, "", DENY, 0, "no"},
    {"asks",
     {.body = "{\"hook_signals\": [{\"kind\": \"ability_guard\", \"code\": \"REQUIRES_HUMAN\"}]}"},
     "",
     TP_OK,
     TP_VERDICT_ASK,
     0,
     NULL},
    {"text", {.body = "look out"}, "", TP_ERR_DENIED, TP_VERDICT_DENY, TP_REASON_MALFORMED, NULL},
    {"a page",
     {.body = "<html><body>Log in</body></html>"},
     "",
     TP_ERR_DENIED,
     TP_VERDICT_DENY,
     TP_REASON_MALFORMED,
     NULL},
    {"text where a verdict is wanted",
     {.body = "fine"},
     "verdict: json\n",
     DENY,
     TP_REASON_MALFORMED,
     "no JSON object"},
    {"half an object", {.body = "{\"continue\": tr"}, "", DENY, TP_REASON_MALFORMED, "not exactly one"},
    {"an error", {.body = "{\"error\": \"no disk\"}"}, "", DENY, TP_REASON_MALFORMED, "no disk"},
    {"500", {.status = 500, .body = "{\"continue\": true}"}, "", DENY, TP_REASON_ERROR, "HTTP status 500"},
    {"404", {.status = 404, .body = ""}, "", DENY, TP_REASON_ERROR, "HTTP status 404"},
    {"403 is no verdict", {.status = 403, .body = ""}, "failure: best_effort\n", TP_OK, TP_VERDICT_NONE, 0, NULL},
    {"a redirect",
     {.status = 307, .headers = "Location: http://localhost:1/x\r\n", .body = ""},
     "",
     DENY,
     TP_REASON_ERROR,
     "HTTP status 307, to: http://localhost:1/x"},
    {"a redirect with a secret",
     {.status = 307, .headers = "Location: http://me:pass@localhost:1/x?key=sk-1#k\r\n", .body = ""},
     "",
     DENY,
     TP_REASON_ERROR,
     "HTTP status 307, to: http://[key]@localhost:1/x"},
    {"a redirect to itself",
     {.status = 302, .headers = "Location: /other\r\n", .body = ""},
     "",
     DENY,
     TP_REASON_ERROR,
     "HTTP status 302, to: http://127.0.0.1:"},
    {"cut off",
     {.body = "{\"continue\": true}", .stops_at = 5, .then = ENDPOINT_CLOSES},
     "",
     DENY,
     TP_REASON_ERROR,
     "no whole answer"},
    {"reset",
     {.body = "{\"continue\": true}", .stops_at = 5, .then = ENDPOINT_RESETS},
     "",
     DENY,
     TP_REASON_ERROR,
     "no whole answer"},
    {"as long as it may be", {.body = long_answer, .size = 1 << 20}, "", TP_OK, TP_VERDICT_ALLOW, 0, NULL},
    {"one byte more", {.body = long_answer, .size = (1 << 20) + 1}, "", DENY, TP_REASON_ERROR, "longer than 1 MiB"},
    {"for ever", {.body = "more and more ", .then = ENDPOINT_REPEATS}, "", DENY, TP_REASON_ERROR, "longer than 1 MiB"},
};

FOR_EACH_TEST(make_directory, remove_directory);

TEST(an_answer_is_judged_as_the_output_of_a_script) {
  memset(long_answer, ' ', sizeof long_answer - 1);
  memcpy(long_answer, "{\"continue\": true}", strlen("{\"continue\": true}"));
  for (size_t i = 0; i < COUNT(rows); i++) {
    const row *r = &rows[i];
    endpoint *e = endpoint_open(&r->reply, 1);
    write_webhook(e, r->more, "");
    tp_runtime *runtime = open_with_webhook();
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    char reason[1024];
    snprintf(reason, sizeof reason, "%.*s", (int)result.reason.size, result.reason.size ? result.reason.data : "");
    if (result.outcome != r->outcome || result.verdict != r->verdict || result.why != r->why)
      fail_msg("%s: %s, %s, %s: %s", r->name, tp_status_name(result.outcome), tp_verdict_name(result.verdict),
               tp_reason_name(result.why), reason);
    if (r->reason && !strstr(reason, r->reason)) fail_msg("%s: %s", r->name, reason);
    if (strstr(reason, "sk-1")) fail_msg("%s: %s", r->name, reason);
    assert_int_equal(endpoint_count(e, &e->request_count), 1);
    tp_turn_end(turn);
    close_runtime(runtime);
    endpoint_close(e);
  }
}

/* As their type http: what is no answer lets the action go on. */
TEST(an_answer_to_a_hook_of_another_host_is_judged_by_its_protocol) {
  static const struct {
    endpoint_reply reply;
    tp_status outcome;
    tp_verdict verdict;
  } cases[] = {
      {{.body = "{\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\", \"permissionDecision\": \"deny\", "
                "\"permissionDecisionReason\": \"no\"}}"},
       TP_ERR_DENIED,
       TP_VERDICT_DENY},
      {{.body = "{\"decision\": \"approve\"}"}, TP_OK, TP_VERDICT_ALLOW},
      {{.body = "{\"continue\": false}"}, TP_ERR_DENIED, TP_VERDICT_DENY},
      {{.body = ""}, TP_OK, TP_VERDICT_NONE},
      {{.body = "text"}, TP_OK, TP_VERDICT_NONE},
      {{.status = 500, .body = "{\"decision\": \"block\", \"reason\": \"no\"}"}, TP_OK, TP_VERDICT_NONE},
      {{.status = 403, .body = ""}, TP_OK, TP_VERDICT_NONE},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    endpoint *e = endpoint_open(&cases[i].reply, 1);
    char text[256];
    snprintf(text, sizeof text,
             "id: guard\nprotocol: claude-code\nevent: PreToolUse\nhandler: {kind: webhook, url: "
             "'http://127.0.0.1:%d/', timeout_ms: 20000}\n",
             e->port);
    write_named("a.yaml", text);
    snprintf(allowed, sizeof allowed, "127.0.0.1:%d", e->port);
    tp_runtime *runtime = open_with_webhook();
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    if (result.outcome != cases[i].outcome || result.verdict != cases[i].verdict)
      fail_msg("case %zu: %s, %s", i, tp_status_name(result.outcome), tp_verdict_name(result.verdict));
    assert_non_null(strstr(endpoint_body(e, 0), "\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"shell\""));
    tp_turn_end(turn);
    close_runtime(runtime);
    endpoint_close(e);
  }
}

TEST(the_endpoint_gets_the_context_and_the_headers_of_the_file) {
  const endpoint_reply reply = {.body = "{\"continue\": true}"};
  endpoint *e = endpoint_open(&reply, 1);
  setenv("GUARD_KEY", "secret:1", 1);
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  write_webhook(e, "", ", headers: {Authorization: 'Bearer ${GUARD_KEY}', X-Two: 'a $b', Content-Type: text/json}");
  tp_runtime *runtime = open_with_webhook();
  unsetenv("GUARD_KEY");
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  unsetenv("http_proxy");
  const char *request = endpoint_request(e, 0);
  static const char *const parts[] = {"POST /guard?a=b HTTP/1.1\r\n", "\r\nAuthorization: Bearer secret:1\r\n",
                                      "\r\nX-Two: a $b\r\n", "\r\nUser-Agent: turnphase\r\n"};
  for (size_t i = 0; i < COUNT(parts); i++)
    if (!strstr(request, parts[i])) fail_msg("`%s` is not in:\n%s", parts[i], request);
  assert_non_null(strstr(endpoint_body(e, 0), "{\"event_type\":\"tool.pre\",\"hook_id\":\"guard\""));
  assert_non_null(strstr(endpoint_body(e, 0), "\"arguments\":{\"command\":\"ls\"}}}\n"));
  endpoint_close(e);
}

TEST(an_endpoint_that_cannot_be_reached_could_not_be_started) {
  const endpoint_reply reply = {.body = ""};
  endpoint *e = endpoint_open(&reply, 1);
  write_webhook(e, "", "");
  endpoint_close(e);
  tp_runtime *runtime = open_with_webhook();
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(result.why, TP_REASON_CANNOT_START);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(an_endpoint_that_does_not_answer_is_left_at_the_deadline) {
  const endpoint_reply reply = {.body = "{\"continue\": true}", .waits_before = true};
  endpoint *e = endpoint_open(&reply, 1);
  char text[256];
  snprintf(text, sizeof text,
           "id: guard\nevent: tool.pre\nhandler: {kind: webhook, url: 'http://127.0.0.1:%d', timeout_ms: 300}\n",
           e->port);
  write_named("a.yaml", text);
  snprintf(allowed, sizeof allowed, "127.0.0.1:%d", e->port);
  tp_runtime *runtime = open_with_webhook();
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(result.why, TP_REASON_TIMEOUT);
  endpoint_await_closed(e); /* the helper was killed */
  tp_turn_end(turn);
  close_runtime(runtime);
  endpoint_close(e);
}

static bool has_no_secret(void *ctx, const tp_hook_info *info) {
  (void)ctx;
  if (strstr(info->target, "secret") || strncasecmp(info->target, "https://g.example", 17) != 0)
    fail_msg("listed as %s", info->target);
  return true;
}

TEST(what_is_listed_of_a_webhook_has_no_part_of_its_path_query_and_headers) {
  static const char *const urls[] = {"https://g.example", "https://g.example:443/path-secret",
                                     "https://g.example:443/x?key=path-secret", "https://G.example?path-secret",
                                     "https://g.example/path-secret/x?y=path-secret"};
  for (size_t i = 0; i < COUNT(urls); i++) {
    char yaml[512];
    const char *const hosts[] = {"g.example", NULL};
    snprintf(yaml, sizeof yaml,
             "id: guard\nevent: tool.pre\nhandler: {kind: webhook, url: '%s', headers: {A: header-secret}}\n", urls[i]);
    write_named("a.yaml", yaml);
    tp_hooks_options options = webhook_options(hosts);
    tp_runtime *runtime = open_runtime(NULL);
    tp_hooks *hooks;
    assert_int_equal(read_hooks(runtime, &options, &hooks, NULL), TP_OK);
    assert_int_equal(tp_hooks_each(hooks, has_no_secret, NULL), 1);
    tp_hooks_free(hooks);
    close_runtime(runtime);
  }
}

/* ---- which endpoints ---- */

typedef struct place {
  const char *url, *host; /* what is allowed */
  bool is_allowed;
  const char *part; /* of the message */
} place;

static const place places[] = {
    {"https://guard.example/x", "guard.example", true, NULL},
    {"https://GUARD.example", "guard.EXAMPLE", true, NULL},
    {"HTTPS://guard.example?a", "guard.example:443", true, NULL},
    {"https://guard.example:443/", "guard.example", true, NULL},
    {"https://guard.example:8443/", "guard.example:8443", true, NULL},
    {"https://[2001:db8::1]:444/", "[2001:db8::1]:444", true, NULL},
    {"http://localhost:8080/", "localhost:8080", true, NULL},
    {"http://[::1]:8080/", "[::1]:8080", true, NULL},
    {"https://guard.example:8443/", "guard.example", false, "webhooks to guard.example:8443"},
    {"https://guard.example/", "guard.example:8443", false, "webhooks to guard.example:443"},
    {"https://guard.example.evil.example/", "guard.example", false, "does not allow"},
    {"https://evil.example/guard.example", "guard.example", false, "does not allow"},
    {"https://evil.example?guard.example", "guard.example", false, "does not allow"},
    {"https://xguard.example/", "guard.example", false, "does not allow"},
    {"https://guard.example./", "guard.example", false, "does not allow"},
    {"https://guard.example@evil.example/", "guard.example", false, "users and passwords"},
    {"https://guard.example:443@evil.example/", "guard.example", false, "users and passwords"},
    {"https://evil.example\\\\@guard.example/", "guard.example", false, "a path or nothing"},
    {"https://evil.example#@guard.example/", "guard.example", false, "a path or nothing"},
    {"https://guard.example/#x", "guard.example", false, "must be escaped"},
    {"https://guard.example/a b", "guard.example", false, "must be escaped"},
    {"https://guard.example%2eevil.example/", "guard.example", false, "a path or nothing"},
    {"https://gu\xc3\xa4rd.example/", "guard.example", false, "a path or nothing"},
    {"https://guard.example:0/", "guard.example", false, "a number from 1"},
    {"https://guard.example:65536/", "guard.example", false, "a number from 1"},
    {"https://guard.example:/", "guard.example", false, "a number from 1"},
    {"https:///x", "guard.example", false, "no host"},
    {"https://", "guard.example", false, "no host"},
    {"guard.example", "guard.example", false, "begins with https://"},
    {"file:///etc/passwd", "guard.example", false, "begins with https://"},
    {"http://guard.example/", "guard.example:80", false, "this machine alone"},
    {"http://127.0.0.1.evil.example:80/", "127.0.0.1.evil.example:80", false, "this machine alone"},
};

TEST(hooks_ask_no_endpoint_that_the_operator_did_not_allow) {
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(places); i++) {
    const place *p = &places[i];
    char text[256];
    snprintf(text, sizeof text, "id: a\nevent: tool.pre\nhandler: {kind: webhook, url: \"%s\"}\n", p->url);
    write_named("a.yaml", text);
    const char *const hosts[] = {"other.example", p->host, NULL};
    tp_hooks_options options = webhook_options(hosts);
    tp_hooks *hooks = NULL;
    tp_fault fault = {0};
    tp_status status = read_hooks(runtime, &options, &hooks, &fault);
    if ((status == TP_OK) != p->is_allowed) fail_msg("%s, %s: %s", p->url, p->host, fault.message);
    if (p->part && !strstr(fault.message, p->part)) fail_msg("%s: %s", p->url, fault.message);
    if (status != TP_OK) assert_int_equal(fault.line, 3);
    tp_hooks_free(hooks);
    assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), p->is_allowed ? TP_ERR_PRIVILEGED : status);
  }
  tp_runtime_free(runtime);
}

/* Two readers of one URL: the host that the library reads differs from the host to which libcurl would connect. */
TEST(the_helper_goes_to_no_host_that_it_reads_otherwise) {
  const endpoint_reply reply = {.body = "{\"continue\": true}"};
  endpoint *e = endpoint_open(&reply, 1);
  char text[256];
  snprintf(text, sizeof text,
           "id: guard\nevent: tool.pre\nhandler: {kind: webhook, url: 'http://127.1:%d/', timeout_ms: 20000}\n",
           e->port);
  write_named("a.yaml", text);
  snprintf(allowed, sizeof allowed, "127.1:%d", e->port);
  tp_runtime *runtime = open_with_webhook();
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(result.why, TP_REASON_CANNOT_START);
  assert_non_null(strstr(result.reason.data, "not of the host that was allowed"));
  assert_int_equal(endpoint_count(e, &e->request_count), 0);
  tp_turn_end(turn);
  close_runtime(runtime);
  endpoint_close(e);
}

/* ---- what is refused ---- */

TEST(wrong_webhook_is_refused_with_its_place) {
  static const struct {
    const char *handler;
    uint32_t column;
    const char *part;
  } cases[] = {
      {"{kind: webhook}", 10, "needs url"},
      {"{kind: webhook, url: 7}", 31, "text"},
      {"{kind: webhook, url: 'https://g.example', command: x}", 61, "has no command"},
      {"{kind: webhook, url: 'https://g.example', sandbox: true}", 61, "has no sandbox"},
      {"{kind: script, command: ./x, url: 'https://g.example'}", 44, "has no url"},
      {"{kind: webhook, url: 'https://g.example', headers: [a]}", 61, "a map of headers"},
      {"{kind: webhook, url: 'https://g.example', headers: {'a b': c}}", 62, "letters, digits and -"},
      {"{kind: webhook, url: 'https://g.example', headers: {'': c}}", 62, "letters, digits and -"},
      {"{kind: webhook, url: 'https://g.example', headers: {Content-Length: '2'}}", 62, "belongs to the request"},
      {"{kind: webhook, url: 'https://g.example', headers: {transfer-encoding: chunked}}", 62, "leave it out"},
      {"{kind: webhook, url: 'https://g.example', headers: {HOST: other.example}}", 62, "belongs to the request"},
      {"{kind: webhook, url: 'https://g.example', headers: {Expect: 100-continue}}", 62, "belongs to the request"},
      {"{kind: webhook, url: 'https://g.example', headers: {a: \"c\\r\\nd: e\"}}", 65, "line end"},
      {"{kind: webhook, url: 'https://g.example', headers: {a: '${NO_SUCH_VARIABLE}'}}", 65, "NO_SUCH_VARIABLE"},
      {"{kind: webhook, url: 'https://g.example', headers: {a: 1, b: 1}}", 65, "text"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  const char *const hosts[] = {"g.example", NULL};
  tp_hooks_options options = webhook_options(hosts);
  for (size_t i = 0; i < COUNT(cases); i++) {
    char text[256];
    snprintf(text, sizeof text, "id: a\nevent: tool.pre\nhandler: %s\n", cases[i].handler);
    write_named("a.yaml", text);
    tp_hooks *hooks;
    tp_fault fault = {0};
    if (read_hooks(runtime, &options, &hooks, &fault) != TP_ERR_MALFORMED) fail_msg("%s is taken", cases[i].handler);
    if (!strstr(fault.message, cases[i].part)) fail_msg("%s: %s", cases[i].handler, fault.message);
    if (fault.line != 3 || fault.column != cases[i].column)
      fail_msg("%s: %u:%u %s", cases[i].handler, fault.line, fault.column, fault.message);
  }
  tp_runtime_free(runtime);
}

TEST(a_webhook_has_at_most_16_headers) {
  const char *const hosts[] = {"g.example", NULL};
  tp_hooks_options options = webhook_options(hosts);
  tp_runtime *runtime = open_runtime(NULL);
  for (int count = 16; count <= 17; count++) {
    char text[512];
    int size = snprintf(text, sizeof text,
                        "id: a\nevent: tool.pre\nhandler: {kind: webhook, url: 'https://g.example', headers: {");
    for (int i = 0; i < count; i++) size += snprintf(text + size, sizeof text - (size_t)size, "h%d: x, ", i);
    snprintf(text + size, sizeof text - (size_t)size, "}}\n");
    write_named("a.yaml", text);
    tp_hooks *hooks = NULL;
    tp_fault fault = {0};
    assert_int_equal(read_hooks(runtime, &options, &hooks, &fault), count == 16 ? TP_OK : TP_ERR_TOO_LARGE);
    tp_hooks_free(hooks);
  }
  tp_runtime_free(runtime);
}

TEST(wrong_hosts_and_a_helper_that_is_not_there_are_refused) {
  static const char *const wrong[] = {"https://g.example", "", "g.example:", "g.example:99999", "*.example", "a/b"};
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  tp_fault fault = {0};
  write_named("a.yaml", "id: a\nevent: tool.pre\nhandler: {kind: webhook, url: 'https://g.example'}\n");
  for (size_t i = 0; i < COUNT(wrong); i++) {
    const char *const hosts[] = {"g.example", wrong[i], NULL};
    tp_hooks_options options = webhook_options(hosts);
    assert_int_equal(read_hooks(runtime, &options, &hooks, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "webhook_hosts"));
  }
  const char *const hosts[] = {"g.example", NULL};
  tp_hooks_options options = webhook_options(hosts);
  options.webhook_helper = "/no/such/helper";
  assert_int_equal(read_hooks(runtime, &options, &hooks, &fault), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_ERR_SYSTEM);
  assert_non_null(strstr(fault.message, "turnphase-webhook"));
  assert_non_null(strstr(fault.subject, "a.yaml"));
  tp_hooks_free(hooks);
  tp_runtime_free(runtime);
}

TEST(watch_keeps_the_hosts_that_it_was_given) {
  const endpoint_reply reply = {.body = "{\"continue\": true}"};
  endpoint *e = endpoint_open(&reply, 1);
  write_webhook(e, "", "");
  char host[64];
  memcpy(host, allowed, sizeof host);
  const char *hosts[] = {host, NULL};
  tp_hooks_options hooks = webhook_options(hosts);
  const tp_hooks_watch_options options = {.struct_size = sizeof options, .hooks = &hooks};
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks_watch *watch;
  tp_fault fault = {0};
  if (tp_hooks_watch_new(runtime, &options, &watch, &fault) != TP_OK) fail_msg("%s", fault.message);
  memset(host, 'x', sizeof host - 1);
  hosts[0] = NULL;
  if (tp_hooks_watch_reload(watch, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  assert_int_equal(endpoint_count(e, &e->request_count), 1);
  tp_turn_end(turn);
  tp_hooks_watch_free(watch);
  close_runtime(runtime);
  endpoint_close(e);
}

TEST_MAIN(count, arguments) {
  if (!getenv("TURNPHASE_WEBHOOK")) {
    printf("1..0 # SKIP turnphase-webhook is not built: it needs libcurl\n");
    return 0;
  }
  return test_main(count, arguments);
}
