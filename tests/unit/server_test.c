/* SPDX-License-Identifier: Apache-2.0
 *
 * The server for clients of the OpenAI API (turnphase/server.h), used through sockets: the content of its answers and
 * streams, the status for each end of a turn, keys, sessions, clients that leave, and malformed requests. */
#include "tests/support/world.h"
#include "tests/support/inbox.h"
#include "tests/support/leftovers.h"
#include "tests/support/web_client.h"
#include "server/mount.h"
#include "turnphase/server.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define CHAT "/v1/chat/completions"
#define HI "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define HI_STREAMED                                                                         \
  "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true," \
  "\"stream_options\":{\"include_usage\":true}}"

typedef struct served {
  WORLD;
  tp_server *server;
  uint32_t port;
  size_t descriptors;
} served;

/* What is not answered is not needed any more. */
static void abandon(void *ctx, tp_token token) {
  ((recorder *)ctx)->cancels++;
  (void)!tp_token_abandon(token, NULL);
}

/* A runtime with the agent `a`, whose model plays the replies. */
static void serve_with(served *s, world_options world, tp_server_options options) {
  recorder *model = recorder_new(world.replies, world.reply_count);
  tp_model scripted = *recorder_model(model, true);
  tp_fault fault = {0};
  scripted.cancel = abandon;
  memset(s, 0, sizeof *s);
  s->descriptors = open_descriptors();
  world.reply_count = 0;
  const tp_agent_config agent = {.struct_size = sizeof agent,
                                 .id = "a",
                                 .system = world.agent.system,
                                 .extra = world.agent.extra,
                                 .model = &scripted};
  world.agent = (tp_agent_config){0};
  world_open(&s->stage, &world);
  if (tp_agent_add(s->runtime, &agent, &s->agent, &fault) != TP_OK) fail_msg("%s", fault.message);
  s->model = model;
  options.struct_size = sizeof options;
  if (tp_server_start(s->runtime, &options, &s->server, &fault) != TP_OK) fail_msg("%s", fault.message);
  s->port = tp_server_port(s->server);
}

static void serve(served *s, const reply *replies, size_t count) {
  serve_with(s, (world_options){.replies = replies, .reply_count = count}, (tp_server_options){0});
}

/* Nothing is left: no turn, no session, no token, no descriptor. */
static void end_serving(served *s) {
  tp_server_free(s->server, 10000);
  assert_int_equal(tp_runtime_sessions(s->runtime, NULL, NULL), 0);
  expect_no_tokens(s->runtime);
  world_close(&s->stage);
  await_descriptors(s->descriptors);
}

static web_answer chat(const served *s, const char *headers, const char *body) {
  return web_ask(s->port, "POST", CHAT, headers, body);
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
}

static void expect_not_in(const char *text, const char *part) {
  if (strstr(text, part)) fail_msg("'%s' is in: %s", part, text);
}

static void expect_times(const char *text, const char *part, int times) {
  int count = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) count++;
  if (count != times) fail_msg("'%s' is %d times in: %s", part, count, text);
}

static void expect_error(web_answer answer, int status, const char *type, const char *code) {
  char want[256];
  if (answer.status != status) fail_msg("%d, not %d: %s", answer.status, status, answer.body);
  snprintf(want, sizeof want, "\"type\":\"%s\"", type);
  expect_in(answer.body, want);
  snprintf(want, sizeof want, "\"code\":\"%s\"", code);
  expect_in(answer.body, want);
}

/* ---- answers ---- */

static const reply one[] = {{.text = "Hello.", .input_tokens = 7, .output_tokens = 2}};
static const reply pieces[] = {{.text = "Hello \"you\"\n.", .delta = "Hello \"you\"\n.", .input_tokens = 7}};

TEST(an_answer_has_what_clients_read) {
  served s;
  serve(&s, one, COUNT(one));
  web_answer answer = chat(&s, "", HI);
  assert_int_equal(answer.status, 200);
  expect_in(answer.head, "Content-Type: application/json");
  expect_in(answer.body, "\"id\":\"chatcmpl-");
  expect_in(answer.body, "\"object\":\"chat.completion\"");
  expect_in(answer.body, "\"model\":\"a\"");
  expect_in(answer.body, "\"message\":{\"role\":\"assistant\",\"content\":\"Hello.\"");
  expect_in(answer.body, "\"finish_reason\":\"stop\"");
  expect_in(answer.body, "\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9");
  end_serving(&s);
}

TEST(a_stream_begins_with_the_role_and_ends_with_finish_reason_usage_and_done) {
  served s;
  serve(&s, pieces, COUNT(pieces));
  web_answer answer = chat(&s, "", HI_STREAMED);
  assert_int_equal(answer.status, 200);
  expect_in(answer.head, "text/event-stream");
  const char *role = strstr(answer.body, "\"delta\":{\"role\":\"assistant\"");
  const char *text = strstr(answer.body, "\"delta\":{\"content\":\"Hello \\\"you\\\"\\n.\"}");
  const char *finish = strstr(answer.body, "\"finish_reason\":\"stop\"");
  const char *usage = strstr(answer.body, "\"choices\":[],\"usage\":{\"prompt_tokens\":7");
  const char *done = strstr(answer.body, "data: [DONE]");
  assert_true(role && text && finish && usage && done);
  assert_true(role < text && text < finish && finish < usage && usage < done);
  expect_times(answer.body, "Hello ", 1);
  end_serving(&s);
  serve(&s, one, COUNT(one)); /* a model without deltas */
  expect_times(chat(&s, "", HI_STREAMED).body, "Hello.", 1);
  end_serving(&s);
}

TEST(the_models_are_the_agents) {
  served s;
  serve(&s, one, COUNT(one));
  web_answer answer = web_ask(s.port, "GET", "/v1/models", "", NULL);
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, "{\"object\":\"list\",\"data\":[{\"id\":\"a\",\"object\":\"model\"");
  expect_error(chat(&s, "", "{\"model\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"), 404,
               "invalid_request_error", "model_not_found");
  end_serving(&s);
  serve_with(&s, (world_options){.replies = one, .reply_count = 1}, (tp_server_options){.default_agent = "a"});
  answer = chat(&s, "", "{\"model\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, "\"model\":\"b\"");
  end_serving(&s);
}

TEST(the_model_reads_the_messages_of_the_request) {
  served s;
  serve_with(&s, (world_options){.replies = one, .reply_count = 1, .agent.system = "Standing."},
             (tp_server_options){0});
  web_answer answer = chat(
      &s, "",
      "{\"model\":\"a\",\"temperature\":0.5,\"messages\":[{\"role\":\"user\",\"content\":\"first\"},{\"role\":"
      "\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":"
      "\"look\",\"arguments\":\"{\\\"n\\\":1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"seen\"},"
      "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"and\"},{\"type\":\"text\",\"text\":\"now\"}]}]}");
  assert_int_equal(answer.status, 200);
  assert_string_equal(s.model->requests[0], "S<Standing.>U<first>A<>C<look>T<seen>=<c1>U<and\nnow>");
  end_serving(&s);
}

/* ---- statuses ---- */

static tp_answer deny(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_deny(call, "not here");
}
static tp_answer break_down(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_fail(call, 1, "the policy service does not answer");
}

static web_answer chat_with(served *s, const hook *guard, const reply *says, const char *body) {
  serve_with(s, (world_options){.replies = says, .reply_count = 1, .hooks = guard, .hook_count = guard ? 1 : 0},
             (tp_server_options){0});
  return chat(s, "", body);
}

TEST(a_denial_is_403_and_names_its_guard) {
  const hook guard = {.id = "guard", .phase = TP_PHASE_TURN_INTAKE, .run = deny};
  served s;
  web_answer answer = chat_with(&s, &guard, one, HI_STREAMED);
  expect_error(answer, 403, "permission_error", "denied");
  expect_in(answer.body, "\"message\":\"not here\"");
  expect_in(answer.body, "\"hook\":\"guard\",\"phase\":\"turn.intake\"");
  expect_in(answer.head, "x-should-retry: false");
  end_serving(&s);
}

TEST(a_required_guard_that_fails_is_503) {
  const hook guard = {
      .id = "guard", .phase = TP_PHASE_TURN_INTAKE, .run = break_down, .sub.failure = TP_FAILURE_REQUIRED};
  served s;
  web_answer answer = chat_with(&s, &guard, one, HI);
  expect_error(answer, 503, "server_error", "guard_failed");
  expect_in(answer.head, "x-should-retry: false"); /* the turn began */
  expect_not_in(answer.head, "Retry-After");
  end_serving(&s);
}

TEST(each_failure_of_a_model_has_its_status) {
  static const struct {
    tp_status fails;
    int status;
    const char *type, *code;
  } rows[] = {{TP_ERR_MODEL, 502, "server_error", "model_error"},
              {TP_ERR_MODEL_UNAVAILABLE, 503, "server_error", "model_unavailable"},
              {TP_ERR_CONTEXT_LENGTH, 400, "invalid_request_error", "context_length_exceeded"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    const reply fails = {.fails = rows[i].fails};
    served s;
    expect_error(chat_with(&s, NULL, &fails, HI), rows[i].status, rows[i].type, rows[i].code);
    end_serving(&s);
  }
}

TEST(a_stream_that_fails_after_its_begin_has_the_error_in_it) {
  const reply fails = {.delta = "Half", .fails = TP_ERR_MODEL};
  served s;
  web_answer answer = chat_with(&s, NULL, &fails, HI_STREAMED);
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, "\"content\":\"Half\"");
  expect_in(answer.body, "data: {\"error\":{\"message\":");
  expect_in(answer.body, "\"code\":\"model_error\"");
  expect_not_in(answer.body, "\"finish_reason\":\"stop\"");
  end_serving(&s);
}

TEST(a_deadline_is_504) {
  const reply never = {.never = true};
  served s;
  serve_with(&s, (world_options){.replies = &never, .reply_count = 1}, (tp_server_options){.turn_limit_ms = 1});
  expect_error(chat(&s, "", HI), 504, "server_error", "timeout");
  end_serving(&s);
}

TEST(a_runtime_that_is_full_is_429_with_the_time_of_a_retry) {
  const reply never = {.never = true};
  served s;
  serve_with(
      &s,
      (world_options){.replies = &never, .reply_count = 1, .runtime = {.turns_running_max = 1, .turns_waiting_max = 1}},
      (tp_server_options){0});
  int first = web_dial(s.port), second = web_dial(s.port);
  web_say_request(first, "POST", CHAT, "", HI);
  latch_wait(&s.model->started, 1);
  web_say_request(second, "POST", CHAT, "", HI);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  while (stats.turns_waiting == 0) tp_runtime_stats_get(s.runtime, &stats);
  web_answer answer = chat(&s, "", HI);
  expect_error(answer, 429, "rate_limit_error", "rate_limit_exceeded");
  expect_in(answer.head, "Retry-After: 1");
  close(first);
  close(second);
  end_serving(&s);
}

TEST(a_server_that_drains_takes_no_turns_and_is_not_ready) {
  served s;
  serve(&s, one, COUNT(one));
  assert_int_equal(web_ask(s.port, "GET", "/health/ready", "", NULL).status, 200);
  tp_server_drain(s.server);
  expect_error(chat(&s, "", HI), 503, "server_error", "shutting_down");
  assert_int_equal(web_ask(s.port, "GET", "/health/ready", "", NULL).status, 503);
  assert_int_equal(web_ask(s.port, "GET", "/health", "", NULL).status, 503);
  assert_int_equal(web_ask(s.port, "GET", "/health/live", "", NULL).status, 200);
  end_serving(&s);
}

static void expect_ready(const served *s, const char *word) {
  const web_answer answer = web_ask(s->port, "GET", "/health/ready", "", NULL);
  assert_int_equal(answer.status, strcmp(word, "ok") == 0 ? 200 : 503);
  expect_in(answer.body, word);
}

typedef struct failing {
  tp_history face;
  _Atomic tp_status status; /* of an append */
} failing;

static void load_none(void *ctx, const tp_history_load *request, tp_token token) {
  (void)ctx, (void)request;
  (void)!tp_history_complete_load(token, TP_OK, NULL, 0, NULL, NULL);
}

static void append_as_said(void *ctx, const tp_history_append *request, tp_token token) {
  (void)request;
  (void)!tp_history_complete(token, ((failing *)ctx)->status, NULL, NULL);
}

TEST(a_server_whose_store_fails_is_not_ready_until_a_turn_is_kept) {
  failing store = {.status = TP_OK};
  store.face = (tp_history){
      .struct_size = sizeof store.face, .ctx = &store, .load_start = load_none, .append_start = append_as_said};
  tp_shared_history *shared;
  assert_int_equal(tp_history_share(NULL, &store.face, &shared, NULL), TP_OK);
  static const reply hello = {.text = "hello"};
  served s;
  serve_with(&s, (world_options){.replies = &hello, .reply_count = 1}, (tp_server_options){.shared_history = shared});
  tp_shared_history_unref(shared);
  expect_ready(&s, "ok");
  store.status = TP_ERR_STORE;
  assert_int_equal(chat(&s, "X-Session-Id: s1\r\n", HI).status, 503);
  expect_ready(&s, "store_failing");
  assert_int_equal(chat(&s, "", HI).status, 200); /* of no session: it says nothing of the store */
  expect_ready(&s, "store_failing");
  store.status = TP_OK;
  assert_int_equal(chat(&s, "X-Session-Id: s2\r\n", HI).status, 200);
  expect_ready(&s, "ok");
  tp_server_drain(s.server);
  expect_ready(&s, "draining");
  end_serving(&s);
}

TEST(a_server_whose_models_are_all_down_is_not_ready) {
  static const reply down = {.fails = TP_ERR_MODEL_UNAVAILABLE}, up = {.text = "up"};
  recorder *models[] = {recorder_new(&down, 1), recorder_new(&down, 1)}, *other = recorder_new(&up, 1);
  tp_model faces[] = {*recorder_model(models[0], true), *recorder_model(models[1], true)};
  faces[0].name = "first";
  faces[1].name = "second";
  const tp_model *const fallbacks[] = {&faces[1]};
  served s;
  serve_with(
      &s,
      (world_options){.replies = &up, .reply_count = 1, .runtime = {.breaker_failures = 1, .breaker_open_ms = 600000}},
      (tp_server_options){0});
  const tp_agent_config config = {
      .struct_size = sizeof config, .id = "a", .model = &faces[0], .fallbacks = fallbacks, .fallback_count = 1};
  tp_agent_change change = {.struct_size = sizeof change, .before = s.agent, .config = &config};
  assert_int_equal(tp_agents_change(s.runtime, (tp_agent_change *[]){&change}, 1, NULL), TP_OK);
  s.agent = change.agent;
  expect_ready(&s, "ok");
  assert_int_equal(chat(&s, "", HI).status, 503);
  expect_ready(&s, "no_model");
  const tp_agent_config healthy = {.struct_size = sizeof healthy, .id = "b", .model = recorder_model(other, true)};
  tp_agent *agent;
  assert_int_equal(tp_agent_add(s.runtime, &healthy, &agent, NULL), TP_OK); /* one is enough */
  expect_ready(&s, "ok");
  tp_agent_remove(agent);
  expect_ready(&s, "no_model");
  end_serving(&s);
  for (int i = 0; i < 2; i++) recorder_free(models[i]);
  recorder_free(other);
}

/* ---- requests that have ended ---- */

typedef struct noted {
  tp_server_request request; /* the newest; its texts are not read */
  char turn[64], session[64], model[64], tenant[64];
  latch ended;
} noted;

static void note_request(void *ctx, const tp_server_request *request) {
  noted *n = ctx;
  n->request = *request;
  snprintf(n->turn, sizeof n->turn, "%.*s", (int)request->turn_id.size, request->turn_id.data);
  snprintf(n->session, sizeof n->session, "%.*s", (int)request->session.size, request->session.data);
  snprintf(n->model, sizeof n->model, "%.*s", (int)request->model.size, request->model.data);
  snprintf(n->tenant, sizeof n->tenant, "%s", request->tenant);
  latch_hit(&n->ended);
}

TEST(a_host_is_notified_of_each_request_that_has_ended) {
  static const reply says[] = {{.text = "Hello.", .input_tokens = 7, .output_tokens = 2}};
  noted n = {.ended = LATCH};
  served s;
  serve_with(&s, (world_options){.replies = says, .reply_count = 1},
             (tp_server_options){.tenant = "acme", .on_request = note_request, .on_request_ctx = &n});
  web_answer answer = chat(&s, "X-Session-Id: s1\r\n", HI);
  latch_wait(&n.ended, 1);
  assert_int_equal(n.request.status, 200);
  assert_int_equal(n.request.bytes_out, strlen(answer.body));
  assert_int_equal(n.request.bytes_in, strlen(HI));
  assert_int_equal(n.request.input_tokens, 7);
  assert_int_equal(n.request.output_tokens, 2);
  expect_in(answer.body, n.turn);
  assert_string_equal(n.session, "s1");
  assert_string_equal(n.model, "a");
  assert_string_equal(n.tenant, "acme");
  assert_string_equal(n.request.route, CHAT);
  (void)chat(&s, "Idempotency-Key: k\r\n", HI);
  latch_wait(&n.ended, 2);
  assert_memory_equal(n.turn, "key-", 4);
  (void)web_ask(s.port, "GET", "/nothing", "", NULL);
  latch_wait(&n.ended, 3);
  assert_int_equal(n.request.status, 404);
  assert_string_equal(n.request.route, "");
  assert_string_equal(n.turn, "");
  end_serving(&s);
}

/* ---- keys ---- */

static void note_tenant(void *ctx, const tp_event *event) {
  char *to = ctx;
  snprintf(to, 32, "%.*s", (int)event->ids[TP_ID_TENANT].size, event->ids[TP_ID_TENANT].data);
}

TEST(a_key_is_needed_and_decides_the_tenant) {
  static const char first[] = "first-key-0123456789", second[] = "second-key-0123456789";
  const tp_server_key a = {.struct_size = sizeof a, .key = first, .tenant = "acme"},
                      b = {.struct_size = sizeof b, .key = second};
  const tp_server_key *const keys[] = {&a, &b};
  static const char *const wrong[] = {"",
                                      "Authorization: Bearer first-key-012345678\r\n",
                                      "Authorization: Bearer first-key-01234567890\r\n",
                                      "Authorization: Bearer \r\n",
                                      "Authorization: Bearer\r\n",
                                      "Authorization: Basic first-key-0123456789\r\n",
                                      "Authorization: first-key-0123456789\r\n",
                                      "Authorization: Bearer FIRST-KEY-0123456789\r\n"};
  char tenant[32] = "";
  served s;
  serve_with(&s, (world_options){.replies = one, .reply_count = 1},
             (tp_server_options){.keys = keys, .key_count = 2, .tenant = "others"});
  const tp_listener listener = {
      .struct_size = sizeof listener, .on_event = note_tenant, .ctx = tenant, .kinds = 1u << TP_EVENT_TURN_END};
  assert_int_equal(tp_runtime_listen(s.runtime, &listener, NULL, NULL), TP_OK);
  for (size_t i = 0; i < COUNT(wrong); i++) {
    web_answer answer = chat(&s, wrong[i], HI);
    expect_error(answer, 401, "authentication_error", "invalid_api_key");
    expect_in(answer.head, "WWW-Authenticate: Bearer");
  }
  assert_int_equal(web_ask(s.port, "GET", "/v1/models", "", NULL).status, 401);
  assert_int_equal(web_ask(s.port, "GET", "/health/live", "", NULL).status, 200);
  assert_int_equal(s.model->asked, 0);
  assert_int_equal(chat(&s, "Authorization: Bearer first-key-0123456789\r\n", HI).status, 200);
  assert_string_equal(tenant, "acme");
  assert_int_equal(chat(&s, "authorization: bearer second-key-0123456789\r\n", HI).status, 200);
  assert_string_equal(tenant, "others");
  end_serving(&s);
}

TEST(a_page_of_another_name_that_leads_here_is_refused) {
  served s;
  serve(&s, one, COUNT(one));
  int fd = web_dial(s.port);
  web_say(fd, "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
  expect_error(web_answer_of(web_hear(fd, NULL)), 403, "permission_error", "wrong_host");
  close(fd);
  end_serving(&s);
}

TEST(what_is_wrong_with_the_options_is_refused) {
  const tp_server_key short_key = {.struct_size = sizeof short_key, .key = "short"},
                      no_key = {.struct_size = sizeof no_key};
  const tp_server_key *const shorts[] = {&short_key}, *const nones[] = {&no_key}, *const nulls[] = {NULL};
  const struct {
    tp_server_options options;
    tp_status status;
  } rows[] = {{{.address = "0.0.0.0"}, TP_ERR_USAGE},
              {{.address = "here"}, TP_ERR_USAGE},
              {{.port = 65536}, TP_ERR_USAGE},
              {{.keys = shorts, .key_count = 1}, TP_ERR_USAGE},
              {{.keys = nones, .key_count = 1}, TP_ERR_USAGE},
              {{.keys = nulls, .key_count = 1}, TP_ERR_USAGE},
              {{.on_request_ctx = (void *)1}, TP_ERR_USAGE},
              {{.admin_key = "short"}, TP_ERR_USAGE},
              {{.socket = 4, .port = 1}, TP_ERR_USAGE},
              {{.socket = 4, .address = "127.0.0.1"}, TP_ERR_USAGE},
              {{.socket = 1 << 20}, TP_ERR_USAGE},
              {{.key_count = 1}, TP_ERR_USAGE}};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_server_options options = rows[i].options;
    tp_fault fault = {0};
    tp_server *server = NULL;
    options.struct_size = sizeof options;
    assert_int_equal(tp_server_start(runtime, &options, &server, &fault), rows[i].status);
    assert_true(fault.message[0] && !server);
  }
  close_runtime(runtime);
}

static bool enter_nowhere(void *ctx, const tp__mount_server *server) {
  (*(int *)ctx)++;
  return !server;
}

TEST(a_mount_of_another_build_or_in_another_server_is_refused) {
  int entered = 0;
  const struct {
    const char *version;
    size_t bytes;
    tp_status status;
    int entered;
  } rows[] = {{"0.0.9", tp__http_request_bytes(), TP_ERR_VERSION, 0},
              {tp_version(), tp__http_request_bytes() + 8, TP_ERR_VERSION, 0},
              {tp_version(), tp__http_request_bytes(), TP_ERR_USAGE, 1}};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_mount mount = {
        .version = rows[i].version, .request_bytes = rows[i].bytes, .enter = enter_nowhere, .ctx = &entered};
    const tp_server_options options = {.struct_size = sizeof options, .mount = &mount};
    tp_fault fault = {0};
    tp_server *server = NULL;
    entered = 0;
    assert_int_equal(tp_server_start(runtime, &options, &server, &fault), rows[i].status);
    assert_true(fault.message[0] && !server && entered == rows[i].entered);
  }
  close_runtime(runtime);
}

static tp_status apply_as_said(void *ctx, tp_fault *fault) {
  tp_status status = *(tp_status *)ctx;
  if (status != TP_OK) snprintf(fault->message, sizeof fault->message, "not now");
  return status;
}

TEST(a_revision_takes_effect_as_a_whole_or_not_at_all) {
  const tp_server_key first = {.struct_size = sizeof first, .key = "key-number-one-123", .tenant = "t"},
                      second = {.struct_size = sizeof second, .key = "key-number-two-123", .tenant = "t"},
                      small = {.struct_size = sizeof small, .key = "small"};
  static const char first_header[] = "Authorization: Bearer key-number-one-123\r\n",
                    second_header[] = "Authorization: Bearer key-number-two-123\r\n";
  static const reply hello = {.text = "hello"};
  const tp_server_key *const firsts[] = {&first}, *const seconds[] = {&second}, *const smalls[] = {&small};
  served s;
  serve_with(&s, (world_options){.replies = &hello, .reply_count = 1},
             (tp_server_options){.keys = firsts, .key_count = 1});
  tp_status fails = TP_ERR_IO, works = TP_OK;
  const struct {
    tp_server_revision revision;
    tp_status status;
    const char *says;
  } rows[] = {{{.keys = smalls, .key_count = 1}, TP_ERR_USAGE, "16"},
              {{.key_count = 1}, TP_ERR_USAGE, "NULL"},
              {{.keys = seconds, .key_count = 1, .admin_key = "of-operators-1234"}, TP_ERR_USAGE, "start"},
              {{.keys = seconds, .key_count = 1, .apply = apply_as_said, .ctx = &fails}, TP_ERR_IO, "not now"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_server_revision revision = rows[i].revision;
    tp_fault fault = {0};
    revision.struct_size = sizeof revision;
    assert_int_equal(tp_server_revise(s.server, &revision, &fault), rows[i].status);
    expect_in(fault.message, rows[i].says);
    assert_int_equal(chat(&s, first_header, HI).status, 200);
    assert_int_equal(chat(&s, second_header, HI).status, 401);
  }
  const tp_server_revision revision = {.struct_size = sizeof revision,
                                       .keys = seconds,
                                       .key_count = 1,
                                       .default_agent = "a",
                                       .apply = apply_as_said,
                                       .ctx = &works};
  assert_int_equal(tp_server_revise(s.server, &revision, NULL), TP_OK);
  assert_int_equal(chat(&s, first_header, HI).status, 401);
  assert_int_equal(chat(&s, second_header, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}").status, 200);
  assert_int_equal(tp_server_revise(s.server, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_server_revise(NULL, &revision, NULL), TP_ERR_USAGE);
  tp_server_note_revision(NULL, "nobody");
  end_serving(&s);
}

static void think(void *ctx, const tp_model_request *request, tp_token token) {
  tp_model_response response = {
      .struct_size = sizeof response, .text = tp_text_of("So."), .stop_reason = tp_text_of("stop")};
  (void)ctx, (void)request;
  (void)!tp_model_thinking(token, tp_text_of("Hm"), NULL);
  (void)!tp_model_delta(token, tp_text_of("So."), NULL);
  (void)!tp_model_complete(token, &response, NULL);
}

/* ---- sessions ---- */

TEST(a_session_goes_on_with_its_history_when_the_user_says_one_thing) {
  served s;
  serve_with(&s, (world_options){.replies = one, .reply_count = 1, .agent.system = "Standing."},
             (tp_server_options){0});
  const char *session = "X-Session-Id: monday\r\n";
  assert_int_equal(chat(&s, session, HI).status, 200);
  assert_int_equal(chat(&s, session,
                        "{\"model\":\"a\",\"messages\":[{\"role\":\"developer\",\"content\":\"Be short.\"},{\"role\":"
                        "\"user\",\"content\":\"again\"}]}")
                       .status,
                   200);
  assert_string_equal(s.model->requests[1], "S<Standing.\n\nBe short.>U<hi>A<Hello.>U<again>");
  assert_int_equal(chat(&s, session,
                        "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\","
                        "\"content\":\"y\"},{\"role\":\"user\",\"content\":\"z\"}]}")
                       .status,
                   200);
  assert_string_equal(s.model->requests[2], "S<Standing.>U<x>A<y>U<z>");
  assert_int_equal(tp_runtime_sessions(s.runtime, NULL, NULL), 1);
  end_serving(&s);
}

TEST(a_session_is_its_tenants) {
  const tp_server_key a = {.struct_size = sizeof a, .key = "first-key-0123456789", .tenant = "acme"},
                      b = {.struct_size = sizeof b, .key = "second-key-0123456789", .tenant = "other"};
  const tp_server_key *const keys[] = {&a, &b};
  served s;
  serve_with(&s, (world_options){.replies = one, .reply_count = 1}, (tp_server_options){.keys = keys, .key_count = 2});
  assert_int_equal(chat(&s, "Authorization: Bearer first-key-0123456789\r\nX-Session-Id: s\r\n", HI).status, 200);
  assert_int_equal(chat(&s, "Authorization: Bearer second-key-0123456789\r\nX-Session-Id: s\r\n", HI).status, 200);
  assert_string_equal(s.model->requests[1], "S<>U<hi>");
  end_serving(&s);
}

TEST(a_session_belongs_to_one_agent) {
  const tp_model other = {.struct_size = sizeof other, .start = think, .placement = TP_PLACEMENT_INLINE};
  const tp_agent_config config = {.struct_size = sizeof config, .id = "b", .model = &other};
  tp_agent *agent;
  served s;
  serve(&s, one, COUNT(one));
  assert_int_equal(tp_agent_add(s.runtime, &config, &agent, NULL), TP_OK);
  assert_int_equal(chat(&s, "X-Session-Id: s\r\n", HI).status, 200);
  web_answer answer =
      chat(&s, "X-Session-Id: s\r\n", "{\"model\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
  expect_error(answer, 400, "invalid_request_error", "invalid_value");
  expect_in(answer.body, "belongs to the model a");
  tp_server_free(s.server, 1000);
  s.server = NULL;
  tp_agent_remove(agent);
  end_serving(&s);
}

/* A host may write a config that the command would refuse: no turn runs without a limit that cannot be read. */
TEST(limits_of_an_agent_that_cannot_be_read_allow_no_turn) {
#define LIMITS(map) "\x81\xa6limits" map
  static const struct {
    tp_text extra;
    const char *says; /* NULL: the turn runs */
  } rows[] = {
      {TEXT(LIMITS("\x81\xa8requests\x01")), NULL},
      {TEXT(LIMITS("\x80")), NULL},
      {TEXT(LIMITS("\x81\xa8requests\x00")), "requests must be a whole number above 0"},
      {TEXT(LIMITS("\x81\xa8requests\xff")), "requests must be a whole number above 0"}, /* -1 */
      {TEXT(LIMITS("\x81\xa8requests\xce\xff\xff\xff\xff")), "requests must be a whole number above 0"},
      {TEXT(LIMITS("\x81\xa8requests\xa1"
                   "1")),
       "requests must be a whole number above 0"},
      {TEXT(LIMITS("\x81\xaatool_calls\xc0")), "tool_calls must be a whole number above 0"},
      {TEXT(LIMITS("\x81\xa7time_ms\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00")), "time_ms must be a whole number above 0"},
      {TEXT(LIMITS("\x81\xa6tokens\xc3")), "tokens must be a whole number above 0"},
      {TEXT(LIMITS("\x81\xa7request\x01")), "request is no limit"},
      {TEXT(LIMITS("\x90")), "is no map"},
      {TEXT(LIMITS("\x01")), "is no map"},
  };
#undef LIMITS
  for (size_t i = 0; i < COUNT(rows); i++) {
    served s;
    world_options world = {.replies = one, .reply_count = 1, .agent = {.extra = rows[i].extra}};
    serve_with(&s, world, (tp_server_options){0});
    web_answer answer = chat(&s, "", HI);
    assert_int_equal(answer.status, rows[i].says ? 500 : 200);
    if (rows[i].says) expect_in(answer.body, rows[i].says);
    assert_int_equal(s.model->asked, rows[i].says ? 0 : 1);
    end_serving(&s);
  }
}

TEST(the_session_that_was_not_used_for_longest_makes_space) {
  served s;
  serve_with(&s, (world_options){.replies = one, .reply_count = 1}, (tp_server_options){.sessions_max = 2});
  for (int i = 0; i < 12; i++) {
    char header[64];
    snprintf(header, sizeof header, "X-Session-Id: s%d\r\n", i);
    assert_int_equal(chat(&s, header, HI).status, 200);
  }
  assert_int_equal(s.model->asked, 12);
  end_serving(&s);
}

TEST(an_id_that_is_none_is_refused) {
  served s;
  serve(&s, one, COUNT(one));
  expect_error(chat(&s, "X-Session-Id: a b\r\n", HI), 400, "invalid_request_error", "invalid_value");
  end_serving(&s);
}

/* ---- clients that leave ---- */

TEST(a_client_that_leaves_cancels_its_turn) {
  const reply never = {.delta = "x", .never = true};
  served s;
  serve(&s, &never, 1);
  for (int i = 0; i < 20; i++) {
    int fd = web_dial(s.port);
    web_say_request(fd, "POST", CHAT, "", i % 2 ? HI : HI_STREAMED);
    latch_wait(&s.model->started, i + 1);
    close(fd);
  }
  for (int i = 0; i < 20000 && s.model->cancels < 20; i++) sleep_ms(1);
  assert_int_equal(s.model->cancels, 20);
  end_serving(&s);
}

TEST(a_turn_goes_on_without_its_client_where_the_host_wants_it) {
  const reply never = {.delta = "x", .never = true};
  served s;
  serve_with(&s, (world_options){.replies = &never, .reply_count = 1}, (tp_server_options){.goes_on = true});
  int fd = web_dial(s.port);
  web_say_request(fd, "POST", CHAT, "X-Session-Id: s\r\n", HI_STREAMED);
  latch_wait(&s.model->started, 1);
  close(fd);
  assert_int_equal(web_ask(s.port, "GET", "/health/live", "", NULL).status, 200);
  const tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("late")};
  assert_int_equal(tp_model_complete(s.model->token, &response, NULL), TP_OK);
  assert_int_equal(s.model->cancels, 0);
  end_serving(&s);
}

TEST(a_server_that_ends_cancels_what_does_not_end) {
  const reply never = {.delta = "x", .never = true};
  served s;
  serve(&s, &never, 1);
  int fd = web_dial(s.port);
  web_say_request(fd, "POST", CHAT, "", HI_STREAMED);
  latch_wait(&s.model->started, 1);
  tp_server_free(s.server, 1);
  s.server = NULL;
  expect_in(web_hear(fd, NULL), "\"code\":\"cancelled\"");
  close(fd);
  end_serving(&s);
}

/* A turn of the host that began with the hooks of the server, and goes on after the server's end. */
TEST(a_turn_of_the_host_outlives_the_server) {
  const reply never = {.never = true};
  served s;
  serve(&s, &never, 1);
  tp_session *session;
  tp_submission *submission;
  int mine = 7; /* the host's data of the turn, which no hook of the server reads */
  const tp_session_options options = {.struct_size = sizeof options, .id = "host", .agent = s.agent};
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("hi"), .data = &mine};
  assert_int_equal(tp_session_open(s.runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&s.model->started, 1);
  tp_server_free(s.server, 1000);
  s.server = NULL;
  const tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("late")};
  assert_int_equal(tp_model_complete(s.model->token, &response, NULL), TP_OK); /* model.post is the server's */
  assert_int_equal(tp_submission_wait(submission, 20000, NULL, NULL), TP_OK);
  tp_submission_unref(submission);
  tp_session_close(session, NULL, NULL);
  while (tp_runtime_sessions(s.runtime, NULL, NULL) > 0) sleep_ms(1);
  end_serving(&s);
}

/* ---- what no client should send ---- */

TEST(a_body_that_cannot_be_used_is_refused_with_its_field) {
  static const struct {
    const char *body, *code, *words;
  } rows[] = {
      {"", "invalid_json", "the body is no JSON"},
      {"{", "invalid_json", "the body is no JSON"},
      {"[]", "invalid_value", "JSON object"},
      {"null", "invalid_value", "JSON object"},
      {"{\"model\":\"a\"}", "invalid_value", "messages is missing"},
      {"{\"model\":\"a\",\"messages\":null}", "invalid_value", "messages is missing"},
      {"{\"model\":\"a\",\"messages\":[]}", "invalid_value", "messages has 1"},
      {"{\"model\":\"a\",\"messages\":{}}", "invalid_value", "messages is an array, not an object"},
      {"{\"model\":\"a\",\"messages\":[1]}", "invalid_value", "messages[0].role"},
      {"{\"model\":\"a\",\"messages\":[{}]}", "invalid_value", "messages[0].role"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"god\",\"content\":\"x\"}]}", "invalid_value", "not 'god'"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":1}]}", "invalid_value", "messages[0].content"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}", "invalid_value", "empty"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"film\"}]}]}", "invalid_value",
       "film"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}", "invalid_value", "last message"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "invalid_value", "tool_call_id"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"x\"},{\"role\":\"user\","
       "\"content\":\"y\"}]}",
       "invalid_value", "messages[0]"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\"}]},{\"role\":\"user\","
       "\"content\":\"y\"}]}",
       "invalid_value", "tool_calls"},
      {"{\"model\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "invalid_value", "model is a string"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "invalid_value", "model is missing"},
      {"{\"model\":\"a\",\"n\":2,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "invalid_value", "n is 1"},
      {"{\"model\":\"a\",\"logprobs\":true,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "invalid_value",
       "logprobs"},
      {"{\"model\":\"a\",\"stream\":\"yes\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "invalid_value",
       "stream is a boolean"},
      {"{\"model\":\"a\",\"temprature\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "unknown_parameter",
       "temprature"},
      {"{\"model\":\"a\",\"response_format\":{\"type\":\"xml\"},\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
       "invalid_value", "response_format"},
      {"{\"model\":\"a\",\"model\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "invalid_json",
       "already"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "invalid_json", "no JSON"},
      {"{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}", "invalid_json", "no JSON"},
  };
  served s;
  serve(&s, one, COUNT(one));
  for (size_t i = 0; i < COUNT(rows); i++) {
    web_answer answer = chat(&s, "", rows[i].body);
    expect_error(answer, 400, "invalid_request_error", rows[i].code);
    expect_in(answer.body, rows[i].words);
  }
  assert_int_equal(s.model->asked, 0);
  end_serving(&s);
}

TEST(a_path_is_compared_as_it_came) {
  static const char *const paths[] = {"/",
                                      "/v1",
                                      "/v1/",
                                      "/v1/models/",
                                      "//v1/models",
                                      "/v1/../v1/models",
                                      "/v1/%6dodels",
                                      "/V1/models",
                                      "/v1/models%00",
                                      "/v1/chat/completions/x"};
  served s;
  serve(&s, one, COUNT(one));
  for (size_t i = 0; i < COUNT(paths); i++)
    expect_error(web_ask(s.port, "GET", paths[i], "", NULL), 404, "invalid_request_error", "unknown_url");
  web_answer answer = web_ask(s.port, "GET", CHAT, "", NULL);
  expect_error(answer, 405, "invalid_request_error", "method_not_allowed");
  expect_in(answer.head, "Allow: POST");
  expect_error(web_ask(s.port, "POST", "/v1/models", "", "{}"), 405, "invalid_request_error", "method_not_allowed");
  end_serving(&s);
}

TEST(a_body_above_the_limit_is_refused_before_it_is_read) {
  served s;
  serve_with(&s, (world_options){.replies = one, .reply_count = 1}, (tp_server_options){.body_bytes_max = 1000});
  int fd = web_dial(s.port);
  web_say(fd, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n{");
  assert_int_equal(web_answer_of(web_hear(fd, "}}")).status, 413);
  close(fd);
  assert_int_equal(s.model->asked, 0);
  end_serving(&s);
}

TEST(requests_that_follow_each_other_on_a_connection_are_answered_in_order) {
  static const char request[] =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 61\r\n\r\n"
      "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"hiya!!\"}]}";
  served s;
  serve(&s, one, COUNT(one));
  int fd = web_dial(s.port);
  char both[1024];
  snprintf(both, sizeof both, "%s%sGET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", request,
           request);
  web_say(fd, both);
  const char *text = web_hear(fd, NULL), *first = strstr(text, "Hello."),
             *second = first ? strstr(first + 1, "Hello.") : NULL;
  assert_true(second && strstr(second, "{\"status\":\"ok\"}"));
  close(fd);
  end_serving(&s);
}

/* ---- tools of the client ---- */

#define TOOLS                                                                                                    \
  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"Looks.\",\"parameters\":" \
  "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}}},{\"type\":\"function\",\"function\":"   \
  "{\"name\":\"go\"}}]"
#define ASK_WITH_TOOLS "{\"model\":\"a\"," TOOLS ",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static const char n_is_7[] = "\x81\xa1n\x07";
static const reply calls_then_answers[] = {
    {.text = "Let me look.",
     .calls = {{.id = {"x", 1}, .name = {"look", 4}, .arguments = {n_is_7, 4}}, {.id = {"y", 1}, .name = {"go", 2}}},
     .call_count = 2,
     .input_tokens = 5,
     .output_tokens = 3},
    {.text = "Seen.", .input_tokens = 11, .output_tokens = 1}};

/* The index-th id of a call in an answer. */
static void call_id(const char *body, int index, char ret_id[64]) {
  const char *at = body;
  for (int i = 0; i <= index; i++) {
    at = strstr(at, "\"id\":\"call_");
    if (!at) fail_msg("there are no %d calls in: %s", index + 1, body);
    at += 6;
  }
  snprintf(ret_id, 64, "%.*s", (int)strcspn(at, "\""), at);
}

/* The next request of a client: its earlier message, the calls, and results of its tools. */
static void write_results(char *body, size_t size, const char *first, const char *second, const char *more) {
  snprintf(body, size,
           "{\"model\":\"a\"," TOOLS
           ",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"Let me "
           "look.\",\"tool_calls\":[{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":"
           "\"{\\\"n\\\":7}\"}},{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"go\",\"arguments\":"
           "\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"%s\",\"content\":\"one\"},{\"role\":\"tool\","
           "\"tool_call_id\":\"%s\",\"content\":\"two\"}%s]}",
           first, second, first, second, more);
}

TEST(a_call_of_a_tool_of_the_client_is_handed_to_it_and_the_turn_goes_on) {
  char first[64], second[64], body[2048];
  served s;
  serve(&s, calls_then_answers, 2);
  web_answer answer = chat(&s, "", ASK_WITH_TOOLS "}");
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, "\"content\":\"Let me look.\"");
  expect_in(answer.body, "\"finish_reason\":\"tool_calls\"");
  expect_in(answer.body, "\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"n\\\":7}\"}}");
  expect_in(answer.body, "\"function\":{\"name\":\"go\",\"arguments\":\"{}\"}}");
  expect_in(answer.body, "\"prompt_tokens\":5,\"completion_tokens\":3");
  call_id(answer.body, 0, first);
  call_id(answer.body, 1, second);
  write_results(body, sizeof body, first, second, "");
  answer = chat(&s, "", body);
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, "\"content\":\"Seen.\"");
  expect_in(answer.body, "\"finish_reason\":\"stop\"");
  expect_in(answer.body, "\"prompt_tokens\":11,\"completion_tokens\":1");
  assert_int_equal(s.model->asked, 2);
  assert_int_equal(s.model->tool_counts[0], 2);
  assert_string_equal(s.model->requests[1], "S<>U<hi>A<Let me look.>C<look>C<go>T<one>=<x>T<two>=<y>");
  end_serving(&s);
}

TEST(a_stream_hands_calls_over_too) {
  char first[64], second[64], body[2048];
  served s;
  serve(&s, calls_then_answers, 2);
  web_answer answer = chat(&s, "", ASK_WITH_TOOLS ",\"stream\":true}");
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_");
  expect_in(answer.body, "{\"index\":1,\"id\":\"call_");
  expect_in(answer.body, "\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]");
  call_id(answer.body, 0, first);
  call_id(answer.body, 1, second);
  write_results(body, sizeof body, first, second, ",{\"role\":\"user\",\"content\":\"be quick\"}");
  answer = chat(&s, "", body);
  expect_in(answer.body, "\"content\":\"Seen.\"");
  assert_string_equal(s.model->requests[1], "S<>U<hi>A<Let me look.>C<look>C<go>T<one>=<x>T<two>=<y>U<be quick>");
  end_serving(&s);
}

static tp_answer deny_go(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_text_is(tp_call_text(call, TP_FIELD_TOOL), "go") ? tp_call_deny(call, "not go") : tp_call_allow(call);
}

TEST(a_call_that_a_guard_denies_is_not_handed_over) {
  const hook guard = {.id = "guard", .phase = TP_PHASE_TOOL_PRE, .run = deny_go};
  char first[64], body[2048];
  served s;
  serve_with(&s, (world_options){.replies = calls_then_answers, .reply_count = 2, .hooks = &guard, .hook_count = 1},
             (tp_server_options){0});
  web_answer answer = chat(&s, "", ASK_WITH_TOOLS "}");
  expect_in(answer.body, "\"name\":\"look\"");
  expect_not_in(answer.body, "\"name\":\"go\"");
  call_id(answer.body, 0, first);
  snprintf(
      body, sizeof body,
      "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
      "\"tool_calls\":[{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"\"}}]},"
      "{\"role\":\"tool\",\"tool_call_id\":\"%s\",\"content\":\"one\"}]}",
      first, first);
  answer = chat(&s, "", body);
  expect_in(answer.body, "\"content\":\"Seen.\"");
  expect_in(s.model->requests[1], "T<one>=<x>T!<");
  expect_in(s.model->requests[1], "not go");
  end_serving(&s);
}

static tp_answer run_go(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("gone"));
}

TEST(a_tool_of_the_server_runs_beside_one_of_the_client) {
  const tp_tool go = {.struct_size = sizeof go, .name = "go", .run = run_go};
  const tp_tool *const tools[] = {&go};
  char first[64], body[2048];
  served s;
  serve_with(&s, (world_options){.replies = calls_then_answers, .reply_count = 2, .tools = tools, .tool_count = 1},
             (tp_server_options){0});
  web_answer answer = chat(&s, "",
                           "{\"model\":\"a\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\"}}],"
                           "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
  expect_in(answer.body, "\"name\":\"look\"");
  expect_not_in(answer.body, "\"name\":\"go\"");
  call_id(answer.body, 0, first);
  snprintf(body, sizeof body,
           "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"tool\",\"tool_call_id\":"
           "\"%s\",\"content\":\"one\"}]}",
           first);
  expect_in(chat(&s, "", body).body, "\"content\":\"Seen.\"");
  expect_in(s.model->requests[1], "T<one>=<x>T<gone>=<y>");
  expect_error(chat(&s, "", ASK_WITH_TOOLS "}"), 400, "invalid_request_error", "tool_conflict");
  end_serving(&s);
}

TEST(results_that_do_not_fit_the_calls_are_refused_and_the_turn_waits) {
  char first[64], second[64], body[2048];
  served s;
  serve(&s, calls_then_answers, 2);
  web_answer answer = chat(&s, "", ASK_WITH_TOOLS "}");
  call_id(answer.body, 0, first);
  call_id(answer.body, 1, second);
  write_results(body, sizeof body, first, first, "");
  expect_error(chat(&s, "", body), 400, "invalid_request_error", "invalid_value");
  write_results(body, sizeof body, first, second, ",{\"role\":\"tool\",\"tool_call_id\":\"z\",\"content\":\"\"}");
  expect_error(chat(&s, "", body), 400, "invalid_request_error", "invalid_value");
  write_results(body, sizeof body, first, second, "");
  expect_in(chat(&s, "", body).body, "\"content\":\"Seen.\"");
  end_serving(&s);
}

TEST(results_of_a_turn_that_does_not_wait_are_a_conversation) {
  char body[2048];
  served s;
  serve(&s, calls_then_answers + 1, 1);
  write_results(body, sizeof body, "call_1", "call_2", "");
  expect_in(chat(&s, "", body).body, "\"content\":\"Seen.\"");
  assert_string_equal(s.model->requests[0],
                      "S<>U<hi>A<Let me look.>C<look>C<go>T<one>=<call_1>T<two>=<call_2>U<Go on with these results.>");
  end_serving(&s);
}

TEST(calls_belong_to_the_tenant_of_their_turn) {
  const tp_server_key a = {.struct_size = sizeof a, .key = "first-key-0123456789", .tenant = "acme"},
                      b = {.struct_size = sizeof b, .key = "second-key-0123456789", .tenant = "other"};
  const tp_server_key *const keys[] = {&a, &b};
  char first[64], second[64], body[2048];
  served s;
  serve_with(&s, (world_options){.replies = calls_then_answers, .reply_count = 2},
             (tp_server_options){.keys = keys, .key_count = 2});
  web_answer answer = chat(&s, "Authorization: Bearer first-key-0123456789\r\n", ASK_WITH_TOOLS "}");
  call_id(answer.body, 0, first);
  call_id(answer.body, 1, second);
  write_results(body, sizeof body, first, second, "");
  assert_int_equal(chat(&s, "Authorization: Bearer second-key-0123456789\r\n", body).status, 200);
  expect_in(s.model->requests[1], "Go on with these results."); /* another conversation */
  assert_int_equal(chat(&s, "Authorization: Bearer first-key-0123456789\r\n", body).status, 200);
  expect_not_in(s.model->requests[2], "Go on with these results.");
  end_serving(&s);
}

TEST(a_session_that_goes_on_without_the_results_cancels_the_calls) {
  const char *session = "X-Session-Id: s\r\n";
  served s;
  serve(&s, calls_then_answers, 2);
  expect_in(chat(&s, session, ASK_WITH_TOOLS "}").body, "\"finish_reason\":\"tool_calls\"");
  expect_in(chat(&s, session, HI).body, "\"content\":\"Seen.\"");
  end_serving(&s);
}

TEST(turns_whose_clients_do_not_come_back_end_with_the_server) {
  served s;
  serve(&s, calls_then_answers, 1);
  for (int i = 0; i < 20; i++) expect_in(chat(&s, "", ASK_WITH_TOOLS "}").body, "\"tool_calls\"");
  end_serving(&s);
}

TEST(what_a_request_says_of_tools_has_an_effect_or_is_refused) {
  static const struct {
    const char *fields, *words; /* NULL: 200 without tools */
  } rows[] = {{TOOLS ",\"tool_choice\":\"none\"", NULL},
              {"\"tools\":[]", NULL},
              {"\"tools\":null", NULL},
              {"\"functions\":[]", NULL},
              {TOOLS ",\"tool_choice\":\"required\"", "tool_choice"},
              {TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"go\"}}", "tool_choice"},
              {"\"tools\":[{\"type\":\"web_search\"}]", "web_search"},
              {"\"tools\":[{\"type\":\"function\"}]", "a name"},
              {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"\"}}]", "a name"},
              {"\"tools\":[1]", "not taken"},
              {"\"functions\":[{\"name\":\"go\"}]", "functions"}};
  served s;
  serve(&s, one, COUNT(one));
  for (size_t i = 0; i < COUNT(rows); i++) {
    char body[2048];
    snprintf(body, sizeof body, "{\"model\":\"a\",%s,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
             rows[i].fields);
    web_answer answer = chat(&s, "", body);
    if (rows[i].words) expect_error(answer, 400, "invalid_request_error", "invalid_value");
    else assert_int_equal(answer.status, 200);
    if (rows[i].words) expect_in(answer.body, rows[i].words);
  }
  for (size_t i = 0; i < s.model->asked; i++) assert_int_equal(s.model->tool_counts[i], 0);
  end_serving(&s);
}

TEST(text_before_a_call_and_the_answer_after_it_are_two_paragraphs) {
  static const reply with_deltas[] = {
      {.text = "Let me.", .delta = "Let me.", .calls = {{.id = {"x", 1}, .name = {"go", 2}}}, .call_count = 1},
      {.text = "Seen.", .delta = "Seen."}};
  const tp_tool go = {.struct_size = sizeof go, .name = "go", .run = run_go};
  const tp_tool *const tools[] = {&go};
  served s;
  serve_with(&s, (world_options){.replies = with_deltas, .reply_count = 2, .tools = tools, .tool_count = 1},
             (tp_server_options){0});
  expect_in(chat(&s, "", HI).body, "\"content\":\"Let me.\\n\\nSeen.\"");
  end_serving(&s);
  serve_with(&s, (world_options){.replies = with_deltas, .reply_count = 2, .tools = tools, .tool_count = 1},
             (tp_server_options){0});
  web_answer answer = chat(&s, "", HI_STREAMED);
  expect_times(answer.body, "Let me.", 1);
  expect_times(answer.body, "\"content\":\"\\n\\n\"", 1);
  expect_times(answer.body, "Seen.", 1);
  end_serving(&s);
}

/* ---- images, schemas, keys of requests ---- */

TEST(an_image_is_a_url_and_never_a_path) {
  static const char *const wrong[] = {"/etc/passwd", "file:///etc/passwd",         "picture.png", "",
                                      "../x.png",    "data:text/plain;base64,eA=="};
  char body[1024];
  served s;
  serve(&s, one, COUNT(one));
  for (size_t i = 0; i < COUNT(wrong); i++) {
    snprintf(body, sizeof body,
             "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"see\"},"
             "{\"type\":\"image_url\",\"image_url\":{\"url\":\"%s\"}}]}]}",
             wrong[i]);
    expect_error(chat(&s, "", body), 400, "invalid_request_error", "invalid_value");
  }
  assert_int_equal(s.model->asked, 0);
  assert_int_equal(
      chat(&s, "",
           "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{"
           "\"url\":\"https://x.example/a.png\"}},{\"type\":\"text\",\"text\":\"see\"}]},{\"role\":\"assistant\","
           "\"content\":\"ok\"},{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
           "\"data:image/png;base64,iVBORw0KGgo=\",\"detail\":\"low\"}},{\"type\":\"text\",\"text\":\"and\"}]}]}")
          .status,
      200);
  assert_string_equal(s.model->requests[0], "S<>U<see>A<ok>U<and>");
  end_serving(&s);
}

TEST(an_answer_that_must_fit_a_schema_is_asked_again_and_shown_once) {
  static const reply tries[] = {{.text = "no", .delta = "no"}, {.text = "{\"a\":1}", .delta = "{\"a\":1}"}};
  static const char format[] =
      "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"strict\":true,\"schema\":{"
      "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}}}";
  for (int streams = 0; streams < 2; streams++) {
    char body[1024];
    served s;
    serve(&s, tries, 2);
    snprintf(body, sizeof body,
             "{\"model\":\"a\",\"stream\":%s,%s,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
             streams ? "true" : "false", format);
    web_answer answer = chat(&s, "", body);
    assert_int_equal(answer.status, 200);
    expect_in(answer.body, "\"content\":\"{\\\"a\\\":1}\"");
    expect_not_in(answer.body, "\"no\"");
    expect_times(answer.body, "{\\\"a\\\":1}", 1);
    assert_int_equal(s.model->asked, 2);
    end_serving(&s);
  }
}

TEST(the_same_request_with_the_same_key_is_answered_from_the_history) {
  const char *key = "Idempotency-Key: order 66 / first\r\n";
  served s;
  serve(&s, one, COUNT(one));
  for (int i = 0; i < 3; i++) expect_in(chat(&s, key, HI).body, "\"content\":\"Hello.\"");
  expect_in(chat(&s, key, HI_STREAMED).body, "\"content\":\"Hello.\"");
  assert_int_equal(s.model->asked, 1);
  expect_error(chat(&s, key, "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"other\"}]}"), 409,
               "invalid_request_error", "idempotency_conflict");
  expect_in(chat(&s, "Idempotency-Key: another\r\n", HI).body, "\"content\":\"Hello.\"");
  assert_int_equal(s.model->asked, 2);
  end_serving(&s);
}

/* ---- responses ---- */

#define RESPONSES "/v1/responses"

static web_answer respond(const served *s, const char *headers, const char *body) {
  return web_ask(s->port, "POST", RESPONSES, headers, body);
}

static void id_of(const char *body, char ret_id[80]) {
  const char *at = strstr(body, "\"id\":\"resp_");
  if (!at) fail_msg("there is no id in: %s", body);
  snprintf(ret_id, 80, "%.*s", (int)strcspn(at + 6, "\""), at + 6);
}

/* The types of the events, each followed by a blank; events are numbered from 0. */
static void types_of(const char *body, char *ret_types, size_t size) {
  int number = 0;
  ret_types[0] = '\0';
  for (const char *at = strstr(body, "event: "); at; at = strstr(at + 1, "event: ")) {
    size_t used = strlen(ret_types);
    char want[64];
    snprintf(ret_types + used, size - used, "%.*s ", (int)strcspn(at + 7, "\n"), at + 7);
    snprintf(want, sizeof want, "\"sequence_number\":%d,", number++);
    const char *found = strstr(at, want);
    if (!found || found - at > 200) fail_msg("event %d has not its number: %.200s", number - 1, at);
  }
}

TEST(a_response_has_what_clients_read) {
  served s;
  serve(&s, one, COUNT(one));
  web_answer answer =
      respond(&s, "", "{\"model\":\"a\",\"input\":\"hi\",\"instructions\":\"Be short.\",\"include\":[]}");
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, "\"object\":\"response\"");
  expect_in(answer.body, "\"status\":\"completed\"");
  expect_in(answer.body, "\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\"");
  expect_in(answer.body, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"Hello.\"}");
  expect_in(answer.body, "\"usage\":{\"input_tokens\":7,");
  expect_in(answer.body, "\"total_tokens\":9}");
  assert_string_equal(s.model->requests[0], "S<Be short.>U<hi>");
  end_serving(&s);
}

TEST(the_events_of_a_response_come_in_their_order) {
  static const char text[] =
      "response.created response.in_progress response.output_item.added response.content_part.added "
      "response.output_text.delta response.output_text.done response.content_part.done response.output_item.done ";
  char types[2048], want[2048];
  served s;
  serve(&s, pieces, COUNT(pieces));
  web_answer answer = respond(&s, "", "{\"model\":\"a\",\"input\":\"hi\",\"stream\":true}");
  types_of(answer.body, types, sizeof types);
  snprintf(want, sizeof want, "%sresponse.completed ", text);
  assert_string_equal(types, want);
  const char *completed = strstr(answer.body, "event: response.completed");
  expect_in(completed, "\"text\":\"Hello \\\"you\\\"\\n.\"");
  expect_in(completed, "\"usage\":{\"input_tokens\":7");
  expect_in(completed, "data: [DONE]");
  end_serving(&s);
  serve(&s, calls_then_answers, 2);
  answer = respond(&s, "",
                   "{\"model\":\"a\",\"input\":\"hi\",\"stream\":true,\"tools\":[{\"type\":\"function\",\"name\":"
                   "\"look\",\"parameters\":{\"type\":\"object\"}},{\"type\":\"function\",\"name\":\"go\"}]}");
  types_of(answer.body, types, sizeof types);
  static const char call[] =
      "response.output_item.added response.function_call_arguments.delta "
      "response.function_call_arguments.done response.output_item.done ";
  snprintf(want, sizeof want, "%s%s%sresponse.completed ", text, call, call);
  assert_string_equal(types, want);
  completed = strstr(answer.body, "event: response.completed");
  expect_times(completed, "\"type\":\"function_call\"", 2);
  expect_times(completed, "Let me look.", 1);
  end_serving(&s);
}

TEST(a_response_that_fails_in_its_stream_has_an_error_that_clients_throw) {
  const reply fails = {.delta = "Half", .fails = TP_ERR_MODEL};
  char types[2048];
  served s;
  serve(&s, &fails, 1);
  web_answer answer = respond(&s, "", "{\"model\":\"a\",\"input\":\"hi\",\"stream\":true}");
  types_of(answer.body, types, sizeof types);
  expect_in(types, "response.output_text.delta response.failed error ");
  expect_in(strstr(answer.body, "event: error"), "\"error\":{\"message\":\"");
  end_serving(&s);
}

TEST(what_a_model_thinks_is_apart_from_its_answer) {
  const tp_model thinker = {.struct_size = sizeof thinker, .start = think, .placement = TP_PLACEMENT_INLINE};
  const tp_agent_config config = {.struct_size = sizeof config, .id = "t", .model = &thinker};
  tp_agent *agent;
  char types[2048];
  served s;
  serve(&s, one, COUNT(one));
  assert_int_equal(tp_agent_add(s.runtime, &config, &agent, NULL), TP_OK);
  web_answer answer = respond(&s, "", "{\"model\":\"t\",\"input\":\"hi\",\"stream\":true}");
  types_of(answer.body, types, sizeof types);
  expect_in(types,
            "response.output_item.added response.reasoning_summary_part.added "
            "response.reasoning_summary_text.delta response.reasoning_summary_text.done "
            "response.reasoning_summary_part.done response.output_item.done response.output_item.added "
            "response.content_part.added response.output_text.delta");
  answer = respond(&s, "", "{\"model\":\"t\",\"input\":\"hi\"}");
  expect_in(answer.body, "\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"Hm\"}]}");
  expect_in(answer.body, "\"text\":\"So.\"");
  const char *body = "{\"model\":\"t\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
  expect_in(chat(&s, "", body).body, "\"content\":\"So.\",\"reasoning_content\":\"Hm\"");
  tp_server_free(s.server, 1000);
  s.server = NULL;
  tp_agent_remove(agent);
  end_serving(&s);
}

TEST(a_response_continues_the_newest_of_its_conversation) {
  char first[80], second[80], body[512];
  served s;
  serve(&s, one, COUNT(one));
  id_of(respond(&s, "", "{\"model\":\"a\",\"input\":\"hi\"}").body, first);
  snprintf(body, sizeof body, "{\"model\":\"a\",\"input\":\"again\",\"previous_response_id\":\"%s\"}", first);
  web_answer answer = respond(&s, "", body);
  assert_int_equal(answer.status, 200);
  expect_in(answer.body, first);
  id_of(answer.body, second);
  assert_string_equal(s.model->requests[1], "S<>U<hi>A<Hello.>U<again>");
  expect_error(respond(&s, "", body), 400, "invalid_request_error", "previous_response_not_found");
  snprintf(
      body, sizeof body,
      "{\"model\":\"a\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"third\"}]}],"
      "\"previous_response_id\":\"%s\"}",
      second);
  assert_int_equal(respond(&s, "", body).status, 200); /* a refused one in between counts for nothing */
  expect_in(s.model->requests[2], "U<again>A<Hello.>");
  expect_in(s.model->requests[2], "U<third>");
  end_serving(&s);
}

TEST(a_response_that_is_not_there_is_continued_by_nobody) {
  static const char *const ids[] = {"x",
                                    "resp_",
                                    "resp_1",
                                    "resp_000000000000000000000000000000000000000000000000",
                                    "resp_111111111111111111111111111111111111111111111111",
                                    "resp_../../../../../../../../../../../../../../../../.",
                                    "resp_11111111111111111111111g111111111111111111111111",
                                    "resp_11111111111111111111111A111111111111111111111111",
                                    "chatcmpl-111111111111111111111111111111111111111111111"};
  char id[80], body[512];
  served s;
  serve(&s, one, COUNT(one));
  for (size_t i = 0; i < COUNT(ids); i++) {
    snprintf(body, sizeof body, "{\"model\":\"a\",\"input\":\"hi\",\"previous_response_id\":\"%s\"}", ids[i]);
    expect_error(respond(&s, "", body), 400, "invalid_request_error", "previous_response_not_found");
  }
  assert_int_equal(s.model->asked, 0);
  static const char *const kept_by_none[] = {
      "{\"model\":\"a\",\"input\":\"hi\",\"store\":false}",
      "{\"model\":\"a\",\"input\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"},"
      "{\"role\":\"user\",\"content\":\"z\"}]}"};
  for (size_t i = 0; i < COUNT(kept_by_none); i++) {
    web_answer answer = respond(&s, "", kept_by_none[i]);
    expect_in(answer.body, "\"store\":false");
    id_of(answer.body, id);
    snprintf(body, sizeof body, "{\"model\":\"a\",\"input\":\"hi\",\"previous_response_id\":\"%s\"}", id);
    expect_error(respond(&s, "", body), 400, "invalid_request_error", "previous_response_not_found");
  }
  end_serving(&s);
}

TEST(results_of_calls_continue_a_response) {
  char id[80], first[64], second[64], body[1024];
  served s;
  serve(&s, calls_then_answers, 2);
  web_answer answer = respond(&s, "",
                              "{\"model\":\"a\",\"input\":\"hi\",\"tools\":[{\"type\":\"function\",\"name\":\"look\"},"
                              "{\"type\":\"function\",\"name\":\"go\"}]}");
  const char *calls = strstr(answer.body, "\"call_id\":\"");
  if (!calls) fail_msg("no calls in: %s", answer.body);
  snprintf(first, sizeof first, "%.*s", (int)strcspn(calls + 11, "\""), calls + 11);
  calls = strstr(calls + 1, "\"call_id\":\"");
  if (!calls) fail_msg("one call in: %s", answer.body);
  snprintf(second, sizeof second, "%.*s", (int)strcspn(calls + 11, "\""), calls + 11);
  id_of(answer.body, id);
  snprintf(body, sizeof body,
           "{\"model\":\"a\",\"previous_response_id\":\"%s\",\"input\":[{\"type\":\"function_call_output\",\"call_id\":"
           "\"%s\",\"output\":\"two\"},{\"type\":\"function_call_output\",\"call_id\":\"%s\",\"output\":\"one\"}]}",
           id, second, first);
  answer = respond(&s, "", body);
  expect_in(answer.body, "\"text\":\"Seen.\"");
  expect_in(s.model->requests[1], "T<one>=<x>T<two>=<y>");
  id_of(answer.body, id);
  expect_error(respond(&s, "", body), 400, "invalid_request_error", "calls_ended");
  snprintf(body, sizeof body, "{\"model\":\"a\",\"input\":\"more\",\"previous_response_id\":\"%s\"}", id);
  assert_int_equal(respond(&s, "", body).status, 200);
  expect_in(s.model->requests[2], "A<Seen.>U<more>");
  end_serving(&s);
}

TEST(an_input_of_items_is_a_conversation) {
  served s;
  serve(&s, one, COUNT(one));
  web_answer answer = respond(
      &s, "",
      "{\"model\":\"a\",\"max_output_tokens\":9,\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":\"u\"},"
      "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]},{\"type\":\"message\",\"role\":\"assistant\","
      "\"content\":[{\"type\":\"output_text\",\"text\":\"t\"}]},{\"type\":\"function_call\",\"call_id\":\"c1\","
      "\"name\":"
      "\"look\",\"arguments\":\"{}\"},{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"go\",\"arguments\":"
      "\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"1\"},{\"type\":\"function_call_"
      "output\","
      "\"call_id\":\"c2\",\"output\":[{\"type\":\"input_text\",\"text\":\"2\"}]},{\"role\":\"user\",\"content\":[{"
      "\"type\":"
      "\"input_image\",\"image_url\":\"https://x.example/a.png\"},{\"type\":\"input_text\",\"text\":\"v\"}]}]}");
  assert_int_equal(answer.status, 200);
  assert_string_equal(s.model->requests[0], "S<>U<u>A<t>C<look>C<go>T<1>=<c1>T<2>=<c2>U<v>");
  end_serving(&s);
}

TEST(a_response_that_cannot_be_given_is_refused_with_its_field) {
  static const struct {
    const char *fields, *words;
  } rows[] = {{"\"x\":1", "argument supplied: x"},
              {"\"input\":1", "input is a string"},
              {"\"input\":[]", "input is a string"},
              {"\"input\":null", "input is missing"},
              {"\"input\":\"\"", "empty"},
              {"\"input\":[1]", "input[0]"},
              {"\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]", "item_reference"},
              {"\"input\":[{\"role\":\"tool\",\"content\":\"x\"}]", "input[0].role"},
              {"\"input\":[{\"type\":\"function_call_output\",\"output\":\"x\"}]", "call_id"},
              {"\"input\":[{\"type\":\"function_call\",\"name\":\"x\"}]", "call_id"},
              {"\"input\":\"x\",\"background\":true", "background"},
              {"\"input\":\"x\",\"max_tool_calls\":0", "max_tool_calls"},
              {"\"input\":\"x\",\"conversation\":{}", "conversation"},
              {"\"input\":\"x\",\"conversation\":\"c\",\"previous_response_id\":\"r\"", "not both"},
              {"\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}]", "web_search"},
              {"\"input\":\"x\",\"text\":{\"format\":{\"type\":\"json_schema\"}}", "text"}};
  served s;
  serve(&s, one, COUNT(one));
  for (size_t i = 0; i < COUNT(rows); i++) {
    char body[512];
    snprintf(body, sizeof body, "{\"model\":\"a\",%s}", rows[i].fields);
    web_answer answer = respond(&s, "", body);
    if (answer.status != 400) fail_msg("%s: %d", body, answer.status);
    expect_in(answer.body, rows[i].words);
  }
  assert_int_equal(s.model->asked, 0);
  end_serving(&s);
}

TEST(a_conversation_is_a_session) {
  served s;
  serve(&s, one, COUNT(one));
  static const char named[] = "{\"model\":\"a\",\"input\":\"hi\",\"conversation\":{\"id\":\"c\"}}";
  assert_int_equal(respond(&s, "", named).status, 200);
  assert_int_equal(respond(&s, "", named).status, 200);
  assert_string_equal(s.model->requests[1], "S<>U<hi>A<Hello.>U<hi>");
  assert_int_equal(respond(&s, "X-Session-Id: c\r\n", "{\"model\":\"a\",\"input\":\"hi\"}").status, 200);
  expect_times(s.model->requests[2], "U<hi>", 3);
  end_serving(&s);
}
