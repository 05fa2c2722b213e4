/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation of two hundred turns, each with its id, whose answers a seed draws: up to three rounds of up to three
 * tool calls. The session compacts its history, by dropping and by a summary of the model, and the provider calls some
 * contexts too long. A child of this program plays it with the SQLite store and history and durability SYNC. It dies at
 * a write that the seed draws, and is started again. Then it submits the first and the last turn of the history once
 * more, and goes on, until there is no turn left. These two turns are answered with their results, whatever was
 * compacted. In every request that a model saw, and in the history, each call has exactly one result; no tool that is
 * not idempotent ran twice; each turn is there once.
 *
 * TURNPHASE_ROUNDS plays this many seeds of each kind; TURNPHASE_SEED replays one. */
#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/dying_writes.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

enum { TURNS = 200, ROUNDS_MAX = 3, CALLS_MAX = 3, TOKENS_MAX = 1500, CONTEXT_MAX = 1560, DEATHS_MAX = 400 };

/* ---- what the seed says ---- */

static uint32_t seed;

static uint32_t mixed(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t x = seed ^ (a * 0x9E3779B1u) ^ (b * 0x85EBCA6Bu) ^ (c * 0xC2B2AE35u);
  for (int i = 0; i < 3; i++) x = (x ^ (x >> 15)) * 0x2C1B3C6Du;
  return x ^ (x >> 16);
}

static uint32_t rounds_of(uint32_t turn) { return mixed(turn, 100, 0) % (ROUNDS_MAX + 1); }
static uint32_t calls_of(uint32_t turn, uint32_t round) { return 1 + mixed(turn, round, 101) % CALLS_MAX; }
static bool is_charge(uint32_t turn, uint32_t round, uint32_t call) { return mixed(turn, round, call) % 2; }

/* ---- pairs ---- */

typedef struct pairs {
  char asked[CALLS_MAX][32]; /* of the newest message of an assistant */
  uint32_t asked_count, answered_count;
  char wrong[128];
} pairs;

static void take_result(pairs *p, const tp_message *message) {
  uint32_t i = 0;
  while (i < p->asked_count && (strlen(p->asked[i]) != message->call_id.size ||
                                memcmp(p->asked[i], message->call_id.data, message->call_id.size) != 0))
    i++;
  if (i == p->asked_count)
    snprintf(p->wrong, sizeof p->wrong, "result %.*s without call", (int)message->call_id.size, message->call_id.data);
  else p->asked[i][0] = '\0';
  p->answered_count++;
}

static void end_results(pairs *p) {
  if (p->answered_count != p->asked_count)
    snprintf(p->wrong, sizeof p->wrong, "%u calls with %u results", p->asked_count, p->answered_count);
  p->asked_count = p->answered_count = 0;
}

static void take_message(pairs *p, const tp_message *message) {
  if (message->role == TP_ROLE_TOOL) {
    take_result(p, message);
    return;
  }
  end_results(p);
  for (size_t i = 0; i < message->call_count; i++)
    snprintf(p->asked[p->asked_count++], sizeof p->asked[0], "%.*s", (int)message->calls[i]->id.size,
             message->calls[i]->id.data);
}

/* ---- the child: its model ---- */

static const char *const filler = "that took some words to say, and some more to say it well";

static int64_t tokens_of(const tp_model_request *request) {
  int64_t tokens = 0;
  for (size_t i = 0; i < request->message_count; i++) tokens += tp_message_tokens(request->messages[i]);
  return tokens;
}

static void check_pairs(const tp_model_request *request) {
  pairs p = {.asked_count = 0};
  for (size_t i = 0; i < request->message_count; i++) take_message(&p, request->messages[i]);
  end_results(&p);
  if (p.wrong[0]) child_say("X a request has %s\n", p.wrong);
}

static void complete(tp_token token, const char *text, const tp_tool_call *const *calls, size_t count) {
  const tp_model_response response = {.struct_size = sizeof response,
                                      .text = tp_text_of(text),
                                      .calls = calls,
                                      .call_count = count,
                                      .stop_reason = tp_text_of(count ? "tool_use" : "end_turn")};
  (void)!tp_model_complete(token, &response, NULL);
}

static void call_tools(tp_token token, uint32_t turn, uint32_t round) {
  uint32_t count = calls_of(turn, round);
  tp_tool_call calls[CALLS_MAX];
  const tp_tool_call *list[CALLS_MAX];
  char ids[CALLS_MAX][32], arguments[CALLS_MAX][16];
  for (uint32_t i = 0; i < count; i++) {
    snprintf(ids[i], sizeof ids[i], "c%u.%u.%u", turn, round, i);
    size_t size = strlen(ids[i]); /* {"n": "c1.2.3"}, of which no other call of the turn has the same */
    memcpy(arguments[i], "\x81\xa1n", 3);
    arguments[i][3] = (char)(0xa0 | size);
    memcpy(arguments[i] + 4, ids[i], size);
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .id = tp_text_of(ids[i]),
                              .name = tp_text_of(is_charge(turn, round, i) ? "charge" : "look"),
                              .arguments = {arguments[i], 4 + size}};
    list[i] = &calls[i];
  }
  complete(token, filler, list, count);
}

/* The answer depends only on the request, so it is the same in each process. */
static void answer(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  uint32_t turn = 0, round = 0;
  check_pairs(request);
  if (request->tool_count == 0) {
    child_say("S\n");
    complete(token, "what was said before, in short", NULL, 0);
    return;
  }
  if (tokens_of(request) > CONTEXT_MAX && request->message_count > 8) {
    child_say("L\n");
    (void)!tp_model_fail(token, TP_ERR_CONTEXT_LENGTH, "the context is too long", false, NULL);
    return;
  }
  for (size_t i = request->message_count; i > 0; i--) {
    const tp_message *message = request->messages[i - 1];
    round += message->role == TP_ROLE_ASSISTANT;
    if (message->role == TP_ROLE_USER && sscanf(message->text.data, "turn %u:", &turn) == 1) break;
  }
  if (round < rounds_of(turn)) call_tools(token, turn, round);
  else complete(token, "all done", NULL, 0);
}

/* ---- the child: its tools and its turns ---- */

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  tp_text arguments = tp_tool_run_arguments(run);
  child_say("%s %.*s\n", (const char *)ctx, (int)arguments.size - 4, arguments.data + 4);
  return tp_tool_ok(run, tp_text_of("done: something that was looked up, or paid, at some length"));
}

static const tp_tool charge = {.struct_size = sizeof charge,
                               .name = "charge",
                               .run = run_tool,
                               .ctx = (void *)(uintptr_t) "F",
                               .placement = TP_PLACEMENT_THREAD};
static const tp_tool look = {
    .struct_size = sizeof look, .name = "look", .run = run_tool, .ctx = (void *)(uintptr_t) "L", .idempotent = true};

static tp_runtime *open_runtime_of_child(void) {
  static const tp_tool *const tools[] = {&charge, &look};
  static tp_contribution bundle = {.struct_size = sizeof bundle,
                                   .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                   .key = TEXT("b"),
                                   .tools = tools,
                                   .tool_count = 2};
  static act contributes = {.emits = &bundle, .emit_count = 1};
  const hook contribute = {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes};
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = path};
  tp_store *store = NULL;
  tp_runtime *runtime = NULL;
  if (tp_sqlite_store_open(&store_options, &store, NULL) != TP_OK) return NULL;
  tp_runtime_options options = {.struct_size = sizeof options, .store = store, .durability = TP_DURABILITY_SYNC};
  if (tp_runtime_new(&options, &runtime, NULL) != TP_OK || hooks_add(runtime, &contribute, 1, NULL) != TP_OK)
    return NULL;
  return runtime;
}

static tp_status count_turn(void *ctx, const tp_message *message) {
  uint32_t turn;
  if (message->role == TP_ROLE_USER && sscanf(message->text.data, "turn %u:", &turn) == 1) *(uint32_t *)ctx = turn + 1;
  return TP_OK;
}

static bool load(tp_history *history, tp_message_fn each, void *ctx) {
  tp_history_load request = {.struct_size = sizeof request, .session = TEXT("s"), .each = each, .ctx = ctx};
  return history->load(history->ctx, &request, NULL) == TP_OK;
}

static tp_session *open_session(tp_runtime *runtime, bool summarizes, uint32_t *ret_turn) {
  tp_history *history = NULL;
  tp_session *session = NULL;
  if (tp_sqlite_history_open(path, &history, NULL) != TP_OK || !load(history, count_turn, ret_turn)) return NULL;
  const tp_model model = {
      .struct_size = sizeof model, .name = "seeded", .start = answer, .placement = TP_PLACEMENT_THREAD};
  const tp_session_options options = {.struct_size = sizeof options,
                                      .id = "s",
                                      .model = &model,
                                      .history = history,
                                      .history_tokens_max = TOKENS_MAX,
                                      .compaction = summarizes ? TP_COMPACTION_SUMMARIZE : TP_COMPACTION_DROP_OLDEST};
  return tp_session_open(runtime, &options, &session, NULL) == TP_OK ? session : NULL;
}

/* @param has  how many turns the history has: these are answered from it. */
static int run_turn(tp_session *session, uint32_t turn, uint32_t has) {
  char id[16], text[256];
  snprintf(id, sizeof id, "t%u", turn);
  snprintf(text, sizeof text, "turn %u: %s", turn, mixed(turn, 7, 7) % 8 ? "go on" : filler);
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of(text)};
  const tp_turn_result *result = NULL;
  if (tp_turn_run(session, &request, &result, NULL) != TP_OK) return 6;
  if (result->outcome != TP_TURN_COMPLETED)
    child_say("X turn %u is %s: %.*s\n", turn, tp_turn_outcome_name(result->outcome), (int)result->reason.size,
              result->reason.data);
  if (result->is_stored != (turn < has)) child_say("X turn %u is %s\n", turn, turn < has ? "run again" : "not run");
  if (result->iterations != rounds_of(turn) + 1) child_say("X turn %u has %u requests\n", turn, result->iterations);
  tp_turn_result_free(result);
  return 0;
}

static int child_main(const char *file, uint32_t drawn, bool summarizes, int at) {
  snprintf(path, sizeof path, "%s", file);
  seed = drawn;
  dies_at = at;
  dies_how = (int)(mixed((uint32_t)at, 9, 9) % WAYS);
  if (!install_deaths()) return 4;
  tp_runtime *runtime = open_runtime_of_child();
  uint32_t turn = 0;
  tp_session *session = runtime ? open_session(runtime, summarizes, &turn) : NULL;
  int status = session ? 0 : 5;
  /* the last turn may have died before its end was reported, and the first one was compacted */
  const uint32_t has = turn;
  if (has > 1 && status == 0) status = run_turn(session, 0, has);
  for (turn = has > 0 ? has - 1 : 0; turn < TURNS && status == 0; turn++) status = run_turn(session, turn, has);
  if (session) tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  return status;
}

/* ---- the parent ---- */

static struct {
  uint8_t charges[TURNS][ROUNDS_MAX][CALLS_MAX], looks[TURNS][ROUNDS_MAX][CALLS_MAX];
  uint32_t summaries, too_long, twice; /* looks that ran again */
  char wrong[256];
} said;

static void take_line(const char *line) {
  uint32_t turn, round, call;
  if (line[0] == 'X') snprintf(said.wrong, sizeof said.wrong, "%.200s", line + 2);
  said.summaries += strcmp(line, "S") == 0;
  said.too_long += strcmp(line, "L") == 0;
  if (sscanf(line + 1, " c%u.%u.%u", &turn, &round, &call) != 3) return;
  assert_true(turn < TURNS && round < ROUNDS_MAX && call < CALLS_MAX);
  if (line[0] == 'F') said.charges[turn][round][call]++;
  else if (said.looks[turn][round][call]++ > 0) said.twice++;
}

static int run_child(bool summarizes, int at) {
  char drawn[16], kind[2] = {summarizes ? '1' : '0', 0}, death[16];
  snprintf(drawn, sizeof drawn, "%u", seed);
  snprintf(death, sizeof death, "%d", at);
  return child_take_all(child_start((const char *const[]){path, drawn, kind, death, NULL}), take_line);
}

typedef struct reading {
  pairs p;
  uint32_t turn, round, turns, calls, unknown; /* unknown: what became of the call is not known */
} reading;

static tp_status read_message(void *ctx, const tp_message *message) {
  reading *r = ctx;
  take_message(&r->p, message);
  if (message->role == TP_ROLE_USER) {
    assert_int_equal(sscanf(message->text.data, "turn %u:", &r->turn), 1);
    assert_int_equal(r->turn, r->turns++); /* each once, in their order */
    r->round = 0;
  } else if (message->role == TP_ROLE_ASSISTANT) {
    bool ends = r->round == rounds_of(r->turn);
    assert_int_equal(message->call_count, ends ? 0 : calls_of(r->turn, r->round));
    r->round++;
    r->calls += (uint32_t)message->call_count;
  } else if (message->role == TP_ROLE_TOOL) {
    uint32_t turn, round, call;
    assert_int_equal(sscanf(message->call_id.data, "c%u.%u.%u", &turn, &round, &call), 3);
    bool charges = is_charge(turn, round, call);
    uint8_t ran = charges ? said.charges[turn][round][call] : said.looks[turn][round][call];
    assert_true(turn == r->turn && round + 1 == r->round);
    assert_true(message->is_error ? charges : ran > 0); /* what is idempotent is run again, and has a result */
    assert_true(!charges || ran <= 1);
    r->unknown += message->is_error;
  }
  return TP_OK;
}

static reading read_all(void) {
  reading r = {.turns = 0};
  tp_history *history = NULL;
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  assert_true(load(history, read_message, &r));
  tp_history_free(history);
  end_results(&r.p);
  assert_string_equal(r.p.wrong, "");
  assert_int_equal(r.turns, TURNS);
  assert_int_equal(r.round, rounds_of(TURNS - 1) + 1);
  return r;
}

static uint32_t hold_conversation(bool summarizes, uint32_t *too_long) {
  memset(&said, 0, sizeof said);
  int deaths = 0, status = 1;
  for (uint32_t i = 0; status != 0; i++) {
    status = run_child(summarizes, 1 + (int)(mixed(i, 200, summarizes) % 700));
    if (said.wrong[0]) fail_msg("seed %u: %s", seed, said.wrong);
    if (status != 0 && !child_was_killed(status)) fail_msg("seed %u: the child ended with status %d", seed, status);
    deaths += status != 0;
    assert_true(deaths < DEATHS_MAX);
  }
  reading r = read_all();
  printf(
      "# seed %u, %s: killed %d times; %u calls, of which %u have an unknown end and %u idempotent ones ran again; "
      "%u summaries, %u contexts too long\n",
      seed, summarizes ? "summaries" : "dropping", deaths, r.calls, r.unknown, said.twice, said.summaries,
      said.too_long);
  assert_true((said.summaries > 0) == summarizes && deaths > 5);
  *too_long += said.too_long;
  return r.unknown + said.twice;
}

TEST(each_call_has_one_result_wherever_the_process_dies) {
  const char *given = getenv("TURNPHASE_SEED"), *rounds = getenv("TURNPHASE_ROUNDS");
  uint32_t first = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)now_ns(), met = 0, too_long = 0;
  int count = rounds && atoi(rounds) > 1 ? atoi(rounds) : 3;
  for (int i = 0; i < 2 * count; i++) {
    seed = first + (uint32_t)(i / 2);
    assert_int_equal(make_directory_in_memory(state), 0);
    met += hold_conversation(i % 2, &too_long);
    remove_directory(state);
  }
  assert_true(too_long > 0);
  assert_true(met > 0); /* some died between the start of a call and its turn's end */
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words))
    return child_main(words[0], (uint32_t)strtoul(words[1], NULL, 10), words[2][0] == '1', atoi(words[3]));
  return test_main(count, arguments);
}
