/* SPDX-License-Identifier: Apache-2.0
 *
 * A form that outlives its gateway. Each gateway is a process that is killed. Its client has the requestState, and
 * repeats the call at another gateway. The test counts how often the tool has run. */
#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/host.h"
#include "tests/support/inbox.h"
#include "tests/support/web_client.h"

#include "tests/support/directory.h" /* last: its `path` is a name of parameters above */

#include <sys/prctl.h>
#include <sys/stat.h>

#include "domains/mcp/server/call.h"
#include "support/clock.h"
#include "support/key_file.h"
#include "turnphase/inspect.h"
#include "turnphase/mcp_server.h"
#include "turnphase/sqlite.h"
#include "turnphase/store.h"

#define KEY_A "aaaaaaaaaaaaaaaa"
#define KEY_B "bbbbbbbbbbbbbbbb"

/* ---- the gateway ---- */

/* The tool asks its client in the middle of its run. */
static void take_answers(void *ctx, tp_text answers) { (void)ctx, (void)answers; }

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  const tp_mcp_input input = {.struct_size = sizeof input,
                              .key = "asked",
                              .method = "elicitation/create",
                              .params = {"\x81\xa7message\xa1?", 11}};
  const tp_mcp_input *const inputs[] = {&input};
  static tp_token token;
  tp_deferral deferral = {.struct_size = sizeof deferral};
  tp_text word = {0};
  child_say("ran\n");
  if (strcmp(ctx, "midway") == 0) {
    tp_mcp_call *call = tp_mcp_call_of(run);
    tp_answer answer = tp_tool_defer(run, &deferral, &token);
    if (tp_mcp_call_ask(call, inputs, 1, take_answers, NULL, NULL) != TP_OK) child_say("cannot ask\n");
    return answer;
  }
  if (strcmp(ctx, "hangs") == 0) return tp_tool_defer(run, &deferral, &token);
  if (tp_tool_run_argument_text(run, "word", &word, NULL) != TP_OK) word = tp_text_of("nothing");
  return tp_tool_printf(run, "ran with %.*s", (int)word.size, word.data);
}

static bool count_row(void *ctx, const tp_audit *row) {
  *(int *)ctx += strcmp(row->action, "mcp.declined") == 0 && strstr(row->detail, "key-1 did not allow tool") != NULL;
  return true;
}

/* How often the audit has that a client declined. */
static tp_answer run_rows(void *ctx, tp_tool_run *run) {
  int rows = 0;
  tp_runtime_audit(*(tp_runtime **)ctx, TP_VISIBILITY_INTERNAL, count_row, &rows);
  return tp_tool_printf(run, "%d rows", rows);
}

static tp_answer gate(void *ctx, tp_call *call) {
  if (tp_text_is(tp_call_text(call, TP_FIELD_TOOL), "rows")) return TP_ANSWER_ALLOW;
  if (strcmp(ctx, "allows") == 0) return TP_ANSWER_ALLOW;
  if (strcmp(ctx, "denies") == 0) return tp_call_deny(call, "closed by now");
  return tp_call_ask(call, strcmp(ctx, "other") == 0 ? "in staging?" : "in prod?");
}

/* @param words  directory or "-", keys "ab" or "ba", what gate and tool do, "channel" or "". */
static int be_gateway(const char *const *words) {
  static const char *const both[] = {KEY_A, KEY_B, NULL}, *const turned[] = {KEY_B, KEY_A, NULL};
  bool has_channel = strcmp(words[3], "channel") == 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* when a case has failed */
  char file[128];
  tp_fault fault = {0};
  tp_sqlite_questions *questions = NULL;
  tp_mcp_server *server = NULL;
  snprintf(file, sizeof file, "%s/file.db", words[0]);
  const tp_sqlite_questions_options channel = {.struct_size = sizeof channel, .path = file, .poll_ms = 1};
  if (has_channel && tp_sqlite_questions_open(&channel, &questions, NULL) != TP_OK) return 4;
  const tp_runtime_options runtime_options = {
      .struct_size = sizeof runtime_options, .ask = has_channel ? tp_sqlite_questions_put : NULL, .ask_ctx = questions};
  tp_runtime *runtime = open_runtime(&runtime_options);
  static const char *const names[] = {"tool", "other"};
  for (size_t i = 0; i < COUNT(names); i++) {
    const tp_tool tool = {.struct_size = sizeof tool,
                          .name = names[i],
                          .run = run_tool,
                          .ctx = (void *)(uintptr_t)words[2],
                          .placement = TP_PLACEMENT_INLINE,
                          .schema_json = "{\"type\":\"object\"}"};
    if (tp_tool_add(runtime, &tool, NULL) != TP_OK) return 4;
  }
  const tp_tool rows = {.struct_size = sizeof rows,
                        .name = "rows",
                        .run = run_rows,
                        .ctx = &runtime,
                        .placement = TP_PLACEMENT_INLINE,
                        .schema_json = "{\"type\":\"object\"}"};
  if (tp_tool_add(runtime, &rows, NULL) != TP_OK) return 4;
  const tp_hook guard = {.struct_size = sizeof guard,
                         .phase = "tool.pre",
                         .run = gate,
                         .ctx = (void *)(uintptr_t)words[2],
                         .placement = TP_PLACEMENT_INLINE};
  if (tp_hook_add(runtime, &guard, NULL) != TP_OK) return 4;
  const tp_mcp_server_options options = {.struct_size = sizeof options,
                                         .http_address = "127.0.0.1",
                                         .keys = strcmp(words[1], "ba") == 0 ? turned : both,
                                         .has_channel = has_channel,
                                         .state_directory = strcmp(words[0], "-") == 0 ? NULL : words[0]};
  if (tp_mcp_server_start(runtime, &options, &server, &fault) != TP_OK) {
    child_say("refused %s\n", fault.message);
    _exit(1);
  }
  child_say("port %u\n", tp_mcp_server_port(server));
  for (;;) pause();
}

/* ---- the client ---- */

typedef struct gateway {
  child process;
  uint32_t port;
  char refusal[600];
} gateway;

typedef struct world {
  char text[WEB_BYTES];
} world;

static int set_up(void **state) {
  static world w;
  memset(&w, 0, sizeof w);
  *state = &w;
  return make_directory_in_memory(NULL);
}

static int tear_down(void **state) {
  (void)state;
  return remove_directory(NULL);
}

FOR_EACH_TEST(set_up, tear_down);

static gateway start_in(const char *where, const char *keys, const char *does, const char *channel) {
  const char *const words[] = {where, keys, does, channel, NULL};
  char line[600] = "";
  gateway g = {.process = child_start(words)};
  if (!fgets(line, sizeof line, g.process.lines)) fail_msg("the gateway has ended");
  line[strcspn(line, "\n")] = 0;
  if (sscanf(line, "port %u", &g.port) != 1) snprintf(g.refusal, sizeof g.refusal, "%s", line);
  return g;
}

static gateway start(const char *does) { return start_in(directory, "ab", does, ""); }

static int line_runs;
static void count_line(const char *line) {
  if (strcmp(line, "cannot ask") == 0) fail_msg("%s", line);
  line_runs += strcmp(line, "ran") == 0;
}

/* @return how often its tool has run. */
static int kill_gateway(gateway *g) {
  line_runs = 0;
  kill(g->process.id, SIGKILL);
  (void)child_take_all(g->process, count_line);
  return line_runs;
}

#define META                                                               \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}"
#define ANSWER(words) ",\"inputResponses\":{\"approval\":{" words "}}"
#define ACCEPT ANSWER("\"action\":\"accept\",\"content\":{\"allow\":true}")
#define DECLINE ANSWER("\"action\":\"decline\"")

/* @return the answer's body. */
static const char *call_as(world *w, const gateway *g, const char *key, const char *tool, const char *rest) {
  char headers[512], body[2048];
  snprintf(headers, sizeof headers,
           "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
           "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n"
           "Authorization: Bearer %s\r\n",
           tool, key);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\"%s," META "}}", tool,
           rest);
  web_answer answer = web_ask(g->port, "POST", "/mcp", headers, body);
  snprintf(w->text, sizeof w->text, "%s", answer.body);
  return w->text;
}

static const char *repeat_as(world *w, const gateway *g, const char *key, const char *responses, const char *state) {
  char rest[1024];
  snprintf(rest, sizeof rest, "%s,\"requestState\":\"%s\"", responses, state);
  return call_as(w, g, key, "tool", rest);
}

static const char *repeat(world *w, const gateway *g, const char *responses, const char *state) {
  return repeat_as(w, g, KEY_A, responses, state);
}

static void expect(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in '%s'", part, text);
}

static void copy_state(const char *text, char state[256]) {
  const char *at = strstr(text, "\"requestState\":\"");
  if (!at) fail_msg("no requestState in '%s'", text);
  at += strlen("\"requestState\":\"");
  snprintf(state, 256, "%.*s", (int)strcspn(at, "\""), at);
}

/* Calls the tool at a gateway, which is killed while its client is asked. */
static void ask_and_kill_in(world *w, const char *where, const char *does, const char *channel, char state[256]) {
  gateway g = start_in(where, "ab", does, channel);
  copy_state(call_as(w, &g, KEY_A, "tool", ""), state);
  assert_int_equal(kill_gateway(&g), 0);
}

static void ask_and_kill(world *w, char state[256]) { ask_and_kill_in(w, directory, "asks", "", state); }

/* ---- the answer counts once ---- */

TEST(an_answer_after_a_kill_lets_the_call_run_once) {
  world *w = *state;
  char held[256];
  ask_and_kill(w, held);
  gateway second = start("asks");
  expect(repeat(w, &second, ACCEPT, held), "ran with nothing");
  expect(w->text, "\"resultType\":\"complete\"");
  expect(repeat(w, &second, ACCEPT, held), "-32602");
  expect(w->text, "was used");
  assert_int_equal(kill_gateway(&second), 1);
  gateway third = start("asks");
  expect(repeat(w, &third, ACCEPT, held), "was used"); /* the one that used it was killed, too */
  assert_int_equal(kill_gateway(&third), 0);
}

TEST(a_state_that_was_used_before_the_kill_does_not_count_after_it) {
  world *w = *state;
  char held[256];
  gateway first = start("asks");
  copy_state(call_as(w, &first, KEY_A, "tool", ""), held);
  expect(repeat(w, &first, ACCEPT, held), "ran with nothing");
  assert_int_equal(kill_gateway(&first), 1);
  gateway second = start("asks");
  expect(repeat(w, &second, ACCEPT, held), "was used");
  assert_int_equal(kill_gateway(&second), 0);
}

TEST(of_two_gateways_one_runs_the_call) {
  world *w = *state;
  char held[256];
  gateway first = start("asks"), second = start("asks");
  copy_state(call_as(w, &first, KEY_A, "tool", ""), held);
  expect(repeat(w, &second, ACCEPT, held), "ran with nothing");
  expect(repeat(w, &first, ACCEPT, held), "was used");
  assert_int_equal(kill_gateway(&first), 0);
  assert_int_equal(kill_gateway(&second), 1);
}

TEST(a_call_that_was_killed_in_its_run_is_not_repeated) {
  world *w = *state;
  char held[256], asked[256];
  gateway first = start("midway");
  copy_state(call_as(w, &first, KEY_A, "tool", ""), held);
  expect(repeat(w, &first, ACCEPT, held), "\"asked\"");
  copy_state(w->text, asked);
  assert_int_equal(kill_gateway(&first), 1);
  gateway second = start("midway");
  expect(repeat(w, &second, ACCEPT, held), "was used");
  expect(repeat(w, &second, ",\"inputResponses\":{\"asked\":{\"action\":\"accept\"}}", asked), "-32602");
  expect(w->text, "may have had an effect");
  expect(repeat(w, &second, ACCEPT, asked), "was used"); /* an answer of another name is none, too */
  assert_int_equal(kill_gateway(&second), 0);
}

/* ---- what is not allowed ---- */

TEST(what_the_client_declined_does_not_run_whatever_the_gates_say_now) {
  static const char *const answers[] = {DECLINE,
                                        ANSWER("\"action\":\"cancel\""),
                                        ANSWER(""),
                                        ANSWER("\"action\":\"accept\",\"content\":{\"allow\":false}"),
                                        ANSWER("\"action\":\"accept\",\"content\":{\"allow\":\"true\"}"),
                                        ANSWER("\"action\":\"accept\"")};
  static const char *const gates[] = {"asks", "allows", "other"};
  world *w = *state;
  for (size_t g = 0; g < COUNT(gates); g++) {
    char states[COUNT(answers)][256];
    gateway first = start("asks");
    for (size_t i = 0; i < COUNT(answers); i++) copy_state(call_as(w, &first, KEY_A, "tool", ""), states[i]);
    assert_int_equal(kill_gateway(&first), 0);
    gateway second = start(gates[g]);
    for (size_t i = 0; i < COUNT(answers); i++) {
      expect(repeat(w, &second, answers[i], states[i]), "\"isError\":true");
      expect(w->text, "did not allow");
    }
    expect(call_as(w, &second, KEY_A, "rows", ""), "\"6 rows\"");
    assert_int_equal(kill_gateway(&second), 0);
  }
}

TEST(gates_that_changed_meanwhile_decide_anew) {
  world *w = *state;
  char held[256], next[256];
  ask_and_kill(w, held);
  gateway other = start("other"); /* another question than the one that was answered */
  expect(repeat(w, &other, ACCEPT, held), "input_required");
  expect(w->text, "in staging?");
  copy_state(w->text, next);
  expect(repeat(w, &other, ACCEPT, next), "ran with nothing");
  assert_int_equal(kill_gateway(&other), 1);
  ask_and_kill(w, held);
  gateway denies = start("denies");
  expect(repeat(w, &denies, ACCEPT, held), "closed by now");
  assert_int_equal(kill_gateway(&denies), 0);
  ask_and_kill(w, held);
  gateway allows = start("allows");
  expect(repeat(w, &allows, ACCEPT, held), "ran with nothing");
  assert_int_equal(kill_gateway(&allows), 1);
}

TEST(a_repetition_without_an_answer_is_asked_again) {
  world *w = *state;
  char held[256], next[256];
  ask_and_kill(w, held);
  gateway second = start("asks");
  expect(repeat(w, &second, "", held), "input_required");
  copy_state(w->text, next);
  assert_string_not_equal(held, next);
  expect(repeat(w, &second, ACCEPT, held), "was used");
  expect(call_as(w, &second, KEY_A, "tool", ACCEPT), "input_required"); /* no state, no answer */
  assert_int_equal(kill_gateway(&second), 0);
  gateway third = start("asks");
  expect(repeat(w, &third, ACCEPT, next), "ran with nothing");
  assert_int_equal(kill_gateway(&third), 1);
}

/* ---- whose state it is ---- */

TEST(a_state_that_was_changed_is_not_ours) {
  world *w = *state;
  char held[256], other[260];
  ask_and_kill(w, held);
  gateway second = start("asks");
  for (size_t i = 0; i < strlen(held); i += 5) {
    snprintf(other, sizeof other, "%s", held);
    other[i] = other[i] == '0' ? '1' : '0';
    expect(repeat(w, &second, ACCEPT, other), "not ours");
  }
  snprintf(other, sizeof other, "%s0", held);
  expect(repeat(w, &second, ACCEPT, other), "not ours");
  snprintf(other, sizeof other, "%.*s", (int)strlen(held) - 1, held);
  expect(repeat(w, &second, ACCEPT, other), "not ours");
  expect(repeat(w, &second, ACCEPT, held), "ran with nothing"); /* none of that has used it */
  assert_int_equal(kill_gateway(&second), 1);
}

TEST(a_state_is_of_its_client_wherever_its_key_is_in_the_list) {
  world *w = *state;
  char held[256];
  ask_and_kill(w, held);
  gateway second = start_in(directory, "ba", "asks", "");
  expect(repeat_as(w, &second, KEY_B, ACCEPT, held), "not ours"); /* now the first key, as the other was */
  expect(repeat_as(w, &second, KEY_A, ACCEPT, held), "ran with nothing");
  assert_int_equal(kill_gateway(&second), 1);
}

TEST(a_state_is_of_its_call) {
  world *w = *state;
  char held[256], rest[1024];
  ask_and_kill(w, held);
  gateway second = start("asks");
  snprintf(rest, sizeof rest, ACCEPT ",\"requestState\":\"%s\"", held);
  expect(call_as(w, &second, KEY_A, "other", rest), "not ours");
  snprintf(rest, sizeof rest, ACCEPT ",\"arguments\":{\"word\":\"rm\"},\"requestState\":\"%s\"", held);
  expect(call_as(w, &second, KEY_A, "tool", rest), "not ours");
  assert_int_equal(kill_gateway(&second), 0);
}

/* The state of a call of the tool without arguments, as its gateway would have made it. */
static void make_state(int64_t expires_ms, const char *about, char text[TP__MCP_STATE_BYTES]) {
  char *keys[] = {(char[]){KEY_A}, NULL}, file[128], bound[TP__MCP_BOUND_BYTES];
  unsigned char secret[TP__KEY_FILE_BYTES];
  tp_mcp_server *server = calloc(1, sizeof *server);
  tp_mcp_call *call = calloc(1, sizeof *call);
  tp__mcp_request_state content = {.nonce = "0123456789abcdef0123456789abcdef", .expires_ms = expires_ms};
  tp__sha256 hash;
  snprintf(file, sizeof file, "%s/mcp-state.key", directory);
  assert_int_equal(tp__key_file_load(file, secret), 0);
  server->keys = keys;
  call->server = server;
  snprintf(call->principal, sizeof call->principal, "key-1");
  tp__sha256_init(&hash);
  tp__mcp_hash_add(&hash, tp_text_of("tools/call"));
  tp__mcp_hash_add(&hash, tp_text_of("tool"));
  tp__mcp_hash_add(&hash, (tp_text){0});
  tp__sha256_finish(&hash, call->hash);
  tp__mcp_call_bind_state(call, bound);
  snprintf(content.about, sizeof content.about, "%s", about);
  tp__mcp_state_write(secret, &content, bound, text);
  free(call);
  free(server);
}

TEST(a_state_that_is_too_old_runs_nothing) {
  world *w = *state;
  char text[TP__MCP_STATE_BYTES];
  gateway g = start("asks");
  make_state(tp__wall_ms() - 1, "0", text);
  expect(repeat(w, &g, ACCEPT, text), "too old");
  make_state(tp__wall_ms() + 60000, "0", text); /* the same in time asks, since its question is another one */
  expect(repeat(w, &g, ACCEPT, text), "input_required");
  assert_int_equal(kill_gateway(&g), 0);
}

/* ---- the directory ---- */

TEST(without_a_directory_a_state_ends_with_its_process) {
  world *w = *state;
  char held[256];
  ask_and_kill_in(w, "-", "asks", "", held);
  gateway second = start_in("-", "ab", "asks", "");
  expect(repeat(w, &second, ACCEPT, held), "not ours");
  expect(call_as(w, &second, KEY_A, "tool", ""), "input_required");
  assert_int_equal(kill_gateway(&second), 0);
}

static void file_of(const char *name, char file[128]) { snprintf(file, 128, "%s/%s", directory, name); }

TEST(another_key_makes_no_old_state_good) {
  world *w = *state;
  char held[256], file[128];
  ask_and_kill(w, held);
  file_of("mcp-state.key", file);
  struct stat found;
  assert_int_equal(stat(file, &found), 0);
  assert_int_equal(found.st_size, 32);
  assert_int_equal(found.st_mode & 0777, 0600);
  assert_int_equal(unlink(file), 0);
  gateway second = start("asks");
  expect(repeat(w, &second, ACCEPT, held), "not ours");
  assert_int_equal(kill_gateway(&second), 0);
}

TEST(a_key_that_cannot_be_trusted_stops_the_start) {
  world *w = *state;
  char held[256], file[128];
  ask_and_kill(w, held);
  file_of("mcp-state.key", file);
  assert_int_equal(chmod(file, 0644), 0);
  gateway open = start("asks");
  expect(open.refusal, "others than its owner");
  (void)kill_gateway(&open);
  assert_int_equal(chmod(file, 0600), 0);
  for (int size = 31; size <= 33; size += 2) {
    FILE *to = fopen(file, "w");
    for (int i = 0; i < size; i++) fputc('x', to);
    fclose(to);
    gateway g = start("asks");
    expect(g.refusal, "32 bytes");
    (void)kill_gateway(&g);
  }
  gateway nowhere = start_in("/nowhere", "ab", "asks", "");
  expect(nowhere.refusal, "mcp-state.key");
  (void)kill_gateway(&nowhere);
}

TEST(what_cannot_be_noted_as_used_does_not_run) {
  world *w = *state;
  char held[256], folder[128];
  gateway g = start("asks");
  copy_state(call_as(w, &g, KEY_A, "tool", ""), held);
  file_of("mcp-state", folder);
  assert_int_equal(rmdir(folder), 0);
  FILE *file = fopen(folder, "w"); /* no folder any more */
  fclose(file);
  expect(repeat(w, &g, ACCEPT, held), "nothing has run");
  assert_int_equal(unlink(folder), 0);
  expect(repeat(w, &g, ACCEPT, held), "ran with nothing"); /* it is made again */
  assert_int_equal(kill_gateway(&g), 1);
}

static bool is_there(const char *name) {
  char file[256];
  snprintf(file, sizeof file, "%s/mcp-state/%s", directory, name);
  return access(file, F_OK) == 0;
}

TEST(used_states_are_removed_an_hour_after_they_have_expired) {
  static const char nonce[] = "0123456789abcdef0123456789abcdef";
  char old[64], young[64], command[512];
  snprintf(old, sizeof old, "%s.%lld", nonce, (long long)tp__wall_ms() - 3700000);
  snprintf(young, sizeof young, "%s.%lld", nonce, (long long)tp__wall_ms() - 3500000);
  snprintf(command, sizeof command, "cd %s && mkdir -m 700 mcp-state && cd mcp-state && touch %s %s mine %s.x",
           directory, old, young, nonce);
  assert_int_equal(system(command), 0);
  gateway g = start("asks");
  assert_false(is_there(old));
  assert_true(is_there(young));
  assert_true(is_there("mine"));
  assert_int_equal(kill_gateway(&g), 0);
}

/* ---- an answer of another channel meanwhile ---- */

typedef struct open_question {
  uint64_t number;
  int count;
} open_question;

static bool take_question(void *ctx, const tp_kept_question *question) {
  open_question *open = ctx;
  open->number = question->number;
  open->count++;
  return true;
}

/* Repeats with the client's answer until the call has ended; meanwhile the channel is read. */
static void repeat_until_it_ends(world *w, const gateway *g, const char *responses, char held[256]) {
  for (int i = 0; i < 10000; i++) {
    repeat(w, g, responses, held);
    if (!strstr(w->text, "input_required")) return;
    copy_state(w->text, held);
  }
  fail_msg("%s", w->text);
}

/* The question of the first gateway is answered in its file while no gateway runs; the client answers differently. */
TEST(an_answer_of_the_channel_meanwhile_counts_first) {
  static const struct {
    tp_verdict verdict;
    const char *responses, *part;
    int runs;
  } rows[] = {{TP_VERDICT_DENY, "", "not today", 0}, {TP_VERDICT_ALLOW, "", "ran with nothing", 1}};
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char held[256];
    open_question open = {0};
    gateway first = start_in(directory, "ab", "asks", "channel");
    copy_state(call_as(w, &first, KEY_A, "tool", ""), held);
    for (int k = 0; k < 10000 && open.count == 0; k++) {
      assert_int_equal(tp_sqlite_questions_list(path, true, take_question, &open, NULL), TP_OK);
      sleep_ms(1);
    }
    assert_int_equal(open.count, 1);
    assert_int_equal(kill_gateway(&first), 0);
    const tp_decision decision = {
        .struct_size = sizeof decision, .verdict = rows[i].verdict, .reason = TEXT("not today")};
    assert_int_equal(tp_sqlite_question_answer(path, open.number, &decision, NULL), TP_OK);
    gateway second = start_in(directory, "ab", "asks", "channel");
    repeat_until_it_ends(w, &second, rows[i].responses, held);
    expect(w->text, rows[i].part);
    assert_int_equal(kill_gateway(&second), rows[i].runs);
  }
}

/* The question has no answer in the channel: the form is shown again, and then the client's answer counts. */
TEST(with_a_channel_the_form_is_shown_again) {
  world *w = *state;
  char held[256], next[256];
  ask_and_kill_in(w, directory, "asks", "channel", held);
  gateway second = start_in(directory, "ab", "asks", "channel");
  expect(repeat(w, &second, ACCEPT, held), "input_required");
  copy_state(w->text, next);
  expect(repeat(w, &second, ACCEPT, next), "ran with nothing");
  assert_int_equal(kill_gateway(&second), 1);
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words)) return be_gateway(words);
#ifndef TP_WITH_HTTP
  printf("1..0 # SKIP no libmicrohttpd\n");
  return 0;
#endif
  return test_main(count, arguments);
}
