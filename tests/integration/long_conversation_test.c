/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation of 200 turns with thinking, parallel calls, malformed calls, cancelled turns and compaction. Its
 * provider changes every ten turns among three strict servers, and no request is refused. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/strict_server.h"

enum { TURNS = 200, TURNS_OF_PROVIDER = 10, SERVERS = 3, HISTORY_TOKENS_MAX = 1200 };

typedef struct talk {
  strict_server *servers[SERVERS];
  tp_runtime *runtime;
  tp_shared_history *history;
  tp_session *session;
  latch deltas, in_tool, go, closed;
  atomic_int tool_waits_for; /* the value of `go` for which it waits; 0: it does not wait */
  atomic_int tool_runs, compactions;
} talk;

static tp_answer note_tool(void *ctx, tp_tool_run *run) {
  talk *t = ctx;
  atomic_fetch_add(&t->tool_runs, 1);
  int waits_for = atomic_load(&t->tool_waits_for);
  if (waits_for > 0) {
    latch_hit(&t->in_tool);
    latch_wait(&t->go, waits_for);
  }
  return tp_tool_ok(run, tp_text_of("noted"));
}

static tp_answer give_tools(void *ctx, tp_call *call) {
  tp_tool tool = {.struct_size = sizeof tool, .name = "note", .run = note_tool, .ctx = ctx};
  const tp_tool *const tools[] = {&tool};
  tp_contribution bundle = {.struct_size = sizeof bundle,
                            .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                            .key = TEXT("test"),
                            .tools = tools,
                            .tool_count = 1};
  tp_status status = tp_call_emit(call, &bundle, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, "no bundle");
}

static tp_answer count_compaction(void *ctx, tp_call *call) {
  (void)call;
  atomic_fetch_add(&((talk *)ctx)->compactions, 1);
  return TP_ANSWER_DONE;
}

static void on_event(void *ctx, const tp_event *event) {
  talk *t = ctx;
  if (event->kind == TP_EVENT_MODEL_DELTA) latch_hit(&t->deltas);
}

static void on_closed(void *ctx) { latch_hit(&((talk *)ctx)->closed); }

/* The kinds of turns of a provider, in their order. */
static const struct kind {
  strict_plan plan;
  bool cancels_in_stream, cancels_in_tool, is_empty;
} kinds[TURNS_OF_PROVIDER] = {
    {.plan = {.thinks = true, .says = true}},
    {.plan = {.thinks = true, .says = true, .calls = 1, .rounds = 1}},
    {.plan = {.thinks = true, .calls = 3, .rounds = 1, .says = true}},
    {.plan = {.thinks = true, .says = true, .stops = true}, .cancels_in_stream = true},
    {.plan = {.thinks = true, .says = true, .calls = 2, .rounds = 2}},
    {.plan = {.thinks = true, .says = true, .calls = 3, .rounds = 1}, .cancels_in_tool = true},
    {.plan = {.says = true, .calls = 2, .rounds = 1, .same_ids = true}},
    {.plan = {.says = true, .calls = 1, .rounds = 1, .malformed = true}},
    {.plan = {.thinks = true}, .is_empty = true},
    {.plan = {.thinks = true, .says = true, .calls = 4, .rounds = 3}},
};

static void open_talk_session(talk *t, int decade) {
  const strict_server *server = t->servers[decade % SERVERS];
  tp_openai_options options = {
      .struct_size = sizeof options, .model = "m", .api = server->api, .base_url = server->endpoint->url, .proxy = ""};
  tp_fault fault = {0};
  tp_model *model;
  if (tp_openai_model_new(&options, &model, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_session_options session = {.struct_size = sizeof session,
                                .id = "long",
                                .model = model,
                                .shared_history = t->history,
                                .on_event = on_event,
                                .event_ctx = t,
                                .compaction = decade % 2 ? TP_COMPACTION_SUMMARIZE : TP_COMPACTION_DROP_OLDEST,
                                .history_tokens_max = HISTORY_TOKENS_MAX};
  if (tp_session_open(t->runtime, &session, &t->session, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void close_talk_session(talk *t) {
  int before = latch_count(&t->closed);
  tp_session_close(t->session, on_closed, t);
  latch_wait(&t->closed, before + 1);
}

static void play_turn(talk *t, int turn) {
  const struct kind *kind = &kinds[turn % TURNS_OF_PROVIDER];
  strict_server *server = t->servers[turn / TURNS_OF_PROVIDER % SERVERS];
  char id[32], text[400];
  tp_submission *submission;
  const tp_turn_result *result;
  tp_fault fault = {0};
  int deltas = latch_count(&t->deltas), tools = latch_count(&t->in_tool);
  snprintf(id, sizeof id, "turn-%d", turn);
  snprintf(text, sizeof text, "%d: %.*s", turn, 20 + turn % 7 * 40,
           "a question that is long enough for the history to fill up, so that it is made shorter now and then, with "
           "words in it that mean nothing else, and again words that mean nothing at all, as people write them when "
           "they want to fill a page in the evening");
  strict_server_plan(server, &kind->plan);
  atomic_store(&t->tool_waits_for, kind->cancels_in_tool ? latch_count(&t->go) + 1 : 0);
  const tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of(text)};
  if (tp_turn_submit(t->session, &request, NULL, NULL, &submission, &fault) != TP_OK) fail_msg("%s", fault.message);
  if (kind->cancels_in_stream) latch_wait(&t->deltas, deltas + 1);
  if (kind->cancels_in_tool) latch_wait(&t->in_tool, tools + 1);
  if (kind->cancels_in_stream || kind->cancels_in_tool) tp_submission_cancel(submission);
  if (kind->cancels_in_tool) latch_hit(&t->go);
  assert_int_equal(tp_submission_wait(submission, UINT32_MAX, &result, &fault), TP_OK);
  bool cancelled = kind->cancels_in_stream || kind->cancels_in_tool;
  if (result->outcome != (cancelled ? TP_TURN_CANCELLED : TP_TURN_COMPLETED))
    fail_msg("turn %d: %s: %.*s (%s)", turn, tp_turn_outcome_name(result->outcome), (int)result->reason.size,
             result->reason.size ? result->reason.data : "", server->why);
  if (!cancelled) assert_int_equal(result->text.size == 0, kind->is_empty);
  tp_submission_unref(submission);
}

TEST(two_hundred_turns_with_three_providers_are_never_refused) {
  talk t = {.deltas = LATCH, .in_tool = LATCH, .go = LATCH, .closed = LATCH};
  tp_history *history;
  tp_runtime_options options = {.struct_size = sizeof options};
  const hook hooks[] = {
      {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = give_tools, .ctx = &t},
      {.id = "compactions", .phase = TP_PHASE_TURN_POST_COMPACTION, .run = count_compaction, .ctx = &t}};
  for (int i = 0; i < SERVERS; i++) t.servers[i] = strict_server_open((tp_openai_api)i);
  t.runtime = open_runtime(&options);
  add_hooks(t.runtime, hooks, COUNT(hooks));
  assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
  assert_int_equal(tp_history_share(NULL, history, &t.history, NULL), TP_OK);
  for (int turn = 0; turn < TURNS; turn++) {
    if (turn % TURNS_OF_PROVIDER == 0) open_talk_session(&t, turn / TURNS_OF_PROVIDER);
    play_turn(&t, turn);
    if (turn % TURNS_OF_PROVIDER == TURNS_OF_PROVIDER - 1) close_talk_session(&t);
  }
  close_runtime(t.runtime);
  tp_shared_history_unref(t.history);
  unsigned requests = 0;
  for (int i = 0; i < SERVERS; i++) {
    if (t.servers[i]->refused > 0) fail_msg("%c refused: %s", t.servers[i]->letter, t.servers[i]->why);
    requests += t.servers[i]->number;
    assert_true(t.servers[i]->number > TURNS / SERVERS);
    strict_server_close(t.servers[i]);
  }
  print_message("# %u requests, %d runs of tools, %d compactions\n", requests, atomic_load(&t.tool_runs),
                atomic_load(&t.compactions));
  assert_true(atomic_load(&t.tool_runs) > 2 * TURNS);
  assert_true(atomic_load(&t.compactions) > TURNS / 50);
}
