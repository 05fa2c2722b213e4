/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server can find without tables of its own: its pointers in every callback, the owner of a turn, the open
 * sessions, and the counters of all of them. */
#include "tests/support/test.h"
#include "phases/session/session.h"
#include "phases/session/sessions.h"
#include "tests/support/model.h"

/* What one callback saw. */
typedef struct seen {
  void *runtime, *agent, *session, *turn, *other;
  int calls;
} seen;

#define SEE(s, function, from)                        \
  do {                                                \
    (s)->runtime = function(from, TP_ID_RUNTIME);     \
    (s)->agent = function(from, TP_ID_AGENT);         \
    (s)->session = function(from, TP_ID_SESSION);     \
    (s)->turn = function(from, TP_ID_TURN);           \
    (s)->other = function(from, TP_ID_TENANT);        \
    if (function(from, 77)) (s)->other = (void *)(s); \
    (s)->calls++;                                     \
  } while (0)

static char of_runtime, of_agent, of_session, of_turn;

static void assert_seen(const seen *s, void *agent, void *session, void *turn) {
  assert_true(s->calls > 0);
  assert_ptr_equal(s->runtime, &of_runtime);
  assert_ptr_equal(s->agent, agent);
  assert_ptr_equal(s->session, session);
  assert_ptr_equal(s->turn, turn);
  assert_null(s->other);
}

static tp_answer see(void *ctx, tp_call *call) {
  SEE((seen *)ctx, tp_call_data, call);
  return TP_ANSWER_DONE;
}

static int32_t match_sees(void *ctx, const tp_match_view *view) {
  SEE((seen *)ctx, tp_match_data, view);
  return TP_MATCH_YES;
}

static tp_answer tool_sees(void *ctx, tp_tool_run *run) {
  SEE((seen *)ctx, tp_tool_run_data, run);
  return tp_tool_ok(run, tp_text_of("seen"));
}

static void on_event(void *ctx, const tp_event *event) {
  if (event->kind == TP_EVENT_TOOL_END) SEE((seen *)ctx + 1, tp_event_data, event);
  else SEE((seen *)ctx, tp_event_data, event);
}

typedef struct seeing_model {
  recorder *inner;
  seen seen;
} seeing_model;

static void model_sees(void *ctx, const tp_model_request *request, tp_token token) {
  seeing_model *m = ctx;
  SEE(&m->seen, tp_model_request_data, request);
  recorder_start(m->inner, request, token);
}

static tp_runtime *open_with_data(void) {
  return open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .data = &of_runtime});
}

static tp_agent *add_agent(tp_runtime *runtime, const char *id) {
  tp_agent *agent = NULL;
  tp_agent_config config = {.struct_size = sizeof config, .id = id, .data = &of_agent};
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  return agent;
}

TEST(pointers_of_the_host_reach_every_callback_of_a_turn) {
  static const reply replies[] = {
      {.calls = {{.id = TEXT("c1"), .name = TEXT("fast")}, {.id = TEXT("c2"), .name = TEXT("slow")}}, .call_count = 2},
      {.text = "hi"}};
  seen inlined = {0}, slow = {0}, matched = {0}, fast_tool = {0}, slow_tool = {0}, events[2] = {{0}}, built = {0};
  tp_tool tools[] = {{.struct_size = sizeof(tp_tool),
                      .name = "fast",
                      .run = tool_sees,
                      .ctx = &fast_tool,
                      .placement = TP_PLACEMENT_INLINE},
                     {.struct_size = sizeof(tp_tool), .name = "slow", .run = tool_sees, .ctx = &slow_tool}};
  const tp_tool *list[] = {&tools[0], &tools[1]};
  tp_contribution bundle = {.struct_size = sizeof bundle,
                            .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                            .key = TEXT("b"),
                            .tools = list,
                            .tool_count = 2};
  act contributes = {.emits = &bundle, .emit_count = 1};
  hook hooks[] = {{.id = "build", .phase = TP_PHASE_AGENT_BUILD, .run = see, .ctx = &built},
                  {.id = "inline", .phase = TP_PHASE_TURN_INTAKE, .run = see, .ctx = &inlined},
                  {.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .run = see, .ctx = &slow, .slow = true},
                  {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes}};
  tp_runtime *runtime = open_with_data();
  assert_ptr_equal(tp_runtime_data(runtime), &of_runtime);
  tp_match match = {.struct_size = sizeof match, .matches = match_sees, .ctx = &matched, .description = "always"};
  hooks[1].sub.match = &match;
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_agent *agent = add_agent(runtime, "a1");
  assert_ptr_equal(tp_agent_data(agent), &of_agent);
  assert_seen(&built, &of_agent, NULL, NULL);
  seeing_model model = {.inner = recorder_new(replies, COUNT(replies))};
  tp_model face = {.struct_size = sizeof face, .ctx = &model, .start = model_sees};
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s1",
                                .agent = agent,
                                .model = &face,
                                .on_event = on_event,
                                .event_ctx = events,
                                .data = &of_session};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello"), .data = &of_turn};
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  const seen *places[] = {&inlined, &slow, &matched, &fast_tool, &slow_tool, &events[0], &events[1], &model.seen};
  for (size_t i = 0; i < COUNT(places); i++) assert_seen(places[i], &of_agent, &of_session, &of_turn);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model.inner);
}

TEST(memory_of_a_turn_has_no_pointers_of_the_one_before) {
  seen inlined = {0};
  tp_runtime *runtime = open_with_data();
  add_hooks(runtime, &(hook){.id = "inline", .phase = TP_PHASE_TURN_INTAKE, .run = see, .ctx = &inlined}, 1);
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s1", .data = &of_session};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  for (int i = 0; i < 200; i++) { /* more than one thread keeps at hand */
    tp_turn *turn;
    tp_turn_request request = {.struct_size = sizeof request, .data = &of_turn};
    assert_int_equal(tp_turn_begin(session, &request, &turn, NULL), TP_OK);
    run_phase(turn, TP_PHASE_TURN_INTAKE, NULL);
    assert_seen(&inlined, NULL, &of_session, &of_turn);
    assert_ptr_equal(tp_turn_data(turn), &of_turn);
    assert_ptr_equal(tp_turn_session(turn), session);
    assert_ptr_equal(tp_turn_runtime(turn), runtime);
    tp_turn_end(turn);
    turn = begin_bare(runtime, 0);
    run_phase(turn, TP_PHASE_TURN_INTAKE, NULL);
    assert_seen(&inlined, NULL, NULL, NULL);
    assert_null(tp_turn_data(turn));
    assert_null(tp_turn_session(turn));
    tp_turn_end(turn);
  }
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(detached_runs_and_jobs_outlive_their_turn_and_see_the_runtime_alone) {
  seen fire = {0}, job = {0};
  tp_runtime *runtime = open_with_data();
  hook hooks[] = {{.id = "fire",
                   .phase = TP_PHASE_TURN_POST_TURN,
                   .run = see,
                   .ctx = &fire,
                   .slow = true,
                   .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}},
                  {.id = "job",
                   .phase = TP_PHASE_TURN_POST_TURN,
                   .run = see,
                   .ctx = &job,
                   .slow = true,
                   .sub = {.execution = TP_EXECUTION_BACKGROUND}}};
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s1", .data = &of_session};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request, .data = &of_turn};
  assert_int_equal(tp_turn_begin(session, &request, &turn, NULL), TP_OK);
  run_phase(turn, TP_PHASE_TURN_POST_TURN, NULL);
  tp_turn_end(turn);
  tp_session_close(session, NULL, NULL);
  assert_int_equal(tp_runtime_drain(runtime, 20000, NULL, NULL), TP_OK);
  assert_seen(&fire, NULL, NULL, NULL);
  assert_seen(&job, NULL, NULL, NULL);
  close_runtime(runtime);
}

/* ---- asking ---- */

TEST(sessions_and_turns_say_what_they_were_made_with) {
  tp_runtime *runtime = open_with_data();
  tp_agent *agent = add_agent(runtime, "a1");
  tp_session *full, *bare;
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s1",
                                .tenant = "t",
                                .workspace = "w",
                                .thread = "h",
                                .agent = agent,
                                .data = &of_session};
  assert_int_equal(tp_session_open(runtime, &options, &full, NULL), TP_OK);
  options = (tp_session_options){.struct_size = sizeof options, .id = "s2"};
  assert_int_equal(tp_session_open(runtime, &options, &bare, NULL), TP_OK);
  assert_string_equal(tp_session_id(full), "s1");
  assert_string_equal(tp_session_tenant(full), "t");
  assert_string_equal(tp_session_workspace(full), "w");
  assert_string_equal(tp_session_thread(full), "h");
  assert_ptr_equal(tp_session_agent(full), agent);
  assert_ptr_equal(tp_session_runtime(full), runtime);
  assert_ptr_equal(tp_session_data(full), &of_session);
  assert_string_equal(tp_session_tenant(bare), "");
  assert_null(tp_session_agent(bare));
  assert_null(tp_session_data(bare));
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request, .id = "turn-7"};
  assert_int_equal(tp_turn_begin(full, &request, &turn, NULL), TP_OK);
  assert_text(tp_turn_id(turn), "turn-7");
  tp_turn_end(turn);
  turn = begin_bare(runtime, 0);
  assert_true(tp_turn_id(turn).size > 10); /* the turn has a generated id, and handlers see the same one */
  char id[64] = "";
  snprintf(id, sizeof id, "%.*s", (int)tp_turn_id(turn).size, tp_turn_id(turn).data);
  run_phase(turn, TP_PHASE_TURN_INTAKE, NULL);
  assert_text(tp_turn_id(turn), id);
  tp_turn_end(turn);
  tp_session_close(full, NULL, NULL);
  tp_session_close(bare, NULL, NULL);
  close_runtime(runtime);
}

TEST(queue_of_a_session_has_a_length) {
  static const reply replies[] = {{.never = true}};
  tp_runtime *runtime = open_with_data();
  recorder *model = recorder_new(replies, 1);
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s1", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  bool running = true;
  assert_int_equal(tp_session_queue_length(session, &running), 0);
  assert_false(running);
  tp_submission *turns[3];
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  for (int i = 0; i < 3; i++) assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &turns[i], NULL), TP_OK);
  assert_int_equal(tp_session_queue_length(session, &running), 2);
  assert_true(running);
  for (int i = 2; i >= 0; i--) {
    tp_submission_cancel(turns[i]);
    assert_int_equal(tp_submission_wait(turns[i], 20000, NULL, NULL), TP_OK);
    if (i > 0) assert_int_equal(tp_session_queue_length(session, NULL), i - 1);
    tp_submission_unref(turns[i]);
  }
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
}

TEST(senseless_requests_and_options_are_refused_by_the_name_of_the_field) {
  tp_runtime *runtime = open_with_data();
  tp_session *session = NULL;
  tp_fault fault = {0};
  tp_session_options options = {.struct_size = sizeof options, .id = "s1", .compaction = (tp_compaction)9};
  assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "compaction"));
  options.compaction = TP_COMPACTION_NONE;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  const tp_turn_request wrong[] = {{.struct_size = sizeof(tp_turn_request), .tokens_max = -5},
                                   {.struct_size = sizeof(tp_turn_request), .cost_micros_max = -1},
                                   {.struct_size = sizeof(tp_turn_request), .caller = (tp_caller)77},
                                   {.struct_size = sizeof(tp_turn_request), .reserved_ = {1}}};
  static const char *const names[] = {"tokens_max", "cost_micros_max", "caller", "reserved_"};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    assert_int_equal(tp_turn_run(session, &wrong[i], NULL, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, names[i]));
  }
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

/* ---- walking ---- */

typedef struct walk {
  tp_runtime *runtime;
  char ids[256];
  const char *closes; /* when the walk comes to this session, it closes the session and the one after it */
  const char *stops_at;
  tp_session *behind;
  latch *closed;
} walk;

static void hit(void *ctx) { latch_hit(ctx); }

static bool note_session(void *ctx, tp_session *session) {
  walk *w = ctx;
  if (w->closes && strcmp(w->closes, tp_session_id(session)) == 0) {
    tp_session_close(session, hit, w->closed);
    tp_session_close(w->behind, hit, w->closed);
    latch_wait(w->closed, 2); /* both sessions are gone for everybody but this walk */
  }
  snprintf(w->ids + strlen(w->ids), sizeof w->ids - strlen(w->ids), "%s ", tp_session_id(session));
  return !w->stops_at || strcmp(w->stops_at, tp_session_id(session)) != 0;
}

TEST(walk_of_sessions_stands_closes_at_the_same_time) {
  tp_runtime *runtime = open_with_data();
  tp_session *sessions[5];
  for (int i = 0; i < 5; i++) {
    char id[] = {'s', (char)('0' + i), '\0'};
    tp_session_options options = {.struct_size = sizeof options, .id = id};
    assert_int_equal(tp_session_open(runtime, &options, &sessions[i], NULL), TP_OK);
  }
  assert_int_equal(tp_runtime_sessions(runtime, NULL, NULL), 5);
  walk all = {.runtime = runtime};
  assert_int_equal(tp_runtime_sessions(runtime, note_session, &all), 5);
  assert_string_equal(all.ids, "s0 s1 s2 s3 s4 ");
  walk some = {.stops_at = "s1"};
  assert_int_equal(tp_runtime_sessions(runtime, note_session, &some), 2);
  latch closed = LATCH;
  walk closing = {.closes = "s1", .behind = sessions[2], .closed = &closed};
  assert_int_equal(tp_runtime_sessions(runtime, note_session, &closing), 4);
  assert_string_equal(closing.ids, "s0 s1 s3 s4 ");
  assert_int_equal(tp_runtime_sessions(runtime, NULL, NULL), 3);
  assert_int_equal(tp_runtime_drain(runtime, 20000, NULL, NULL), TP_OK); /* the host still holds their handles */
  walk drained = {.runtime = runtime};
  assert_int_equal(tp_runtime_sessions(runtime, note_session, &drained), 3);
  assert_string_equal(drained.ids, "s0 s3 s4 ");
  close_runtime(runtime);
}

TEST(session_is_found_by_tenant_and_id_until_its_close) {
  tp_runtime *runtime = open_with_data();
  assert_null(tp_session_find(runtime, NULL, "s"));
  tp_session *own, *other;
  tp_session_options options = {.struct_size = sizeof options, .id = "s"};
  assert_int_equal(tp_session_open(runtime, &options, &own, NULL), TP_OK);
  options.tenant = "t";
  assert_int_equal(tp_session_open(runtime, &options, &other, NULL), TP_OK);
  tp_session *found = tp_session_find(runtime, "", "s");
  assert_ptr_equal(found, own);
  tp_session *found_other = tp_session_find(runtime, "t", "s");
  assert_ptr_equal(found_other, other);
  tp_session_unref(found_other);
  assert_null(tp_session_find(runtime, "u", "s"));
  assert_null(tp_session_find(runtime, NULL, NULL));
  latch closed = LATCH;
  tp_session_close(own, hit, &closed);
  assert_null(tp_session_find(runtime, NULL, "s"));
  latch_wait(&closed, 1);
  assert_string_equal(tp_session_id(found), "s"); /* whoever found the session may still read it */
  tp_turn_request request = {.struct_size = sizeof request};
  assert_int_equal(tp_turn_submit(found, &request, NULL, NULL, NULL, NULL), TP_ERR_SHUTDOWN);
  tp_session_unref(found);
  tp_session_unref(NULL);
  tp_session_close(other, NULL, NULL);
  close_runtime(runtime);
}

/* A text from a store may be longer than an id, and has no zero at its end. */
TEST(session_is_held_by_the_whole_of_its_id) {
  static char id[TP_ID_BYTES_MAX + 2];
  memset(id, 'a', TP_ID_BYTES_MAX + 1);
  tp_runtime *runtime = open_with_data();
  tp__sessions *sessions = tp__layer_sessions(runtime);
  id[TP_ID_BYTES_MAX] = 0;
  tp_session_options options = {.struct_size = sizeof options, .id = id, .tenant = id};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  id[TP_ID_BYTES_MAX] = 'a';
  const tp_text whole = {id, TP_ID_BYTES_MAX}, more = {id, TP_ID_BYTES_MAX + 1}, less = {id, TP_ID_BYTES_MAX - 1};
  assert_null(tp__sessions_hold_of(sessions, whole, more));
  assert_null(tp__sessions_hold_of(sessions, more, whole));
  assert_null(tp__sessions_hold_of(sessions, whole, less));
  assert_null(tp__sessions_hold_of(sessions, (tp_text){NULL, 0}, whole));
  assert_null(tp__sessions_hold_of(sessions, whole, (tp_text){NULL, 0}));
  assert_ptr_equal(tp__sessions_hold_of(sessions, whole, whole), session);
  tp__session_unref(session);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

/* ---- counting ---- */

static tp_runtime_stats stats_of(tp_runtime *runtime) {
  tp_runtime_stats stats;
  memset(&stats, 0xee, sizeof stats);
  stats.struct_size = sizeof stats;
  tp_runtime_stats_get(runtime, &stats);
  return stats;
}

static void run_turn(tp_session *session, const char *text, uint32_t limit_ms, tp_turn_outcome outcome) {
  const tp_turn_result *result = NULL;
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text), .limit_ms = limit_ms};
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_string_equal(tp_turn_outcome_name(result->outcome), tp_turn_outcome_name(outcome));
  tp_turn_result_free(result);
}

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  if (text.size == 4 && memcmp(text.data, "deny", 4) == 0) return tp_call_deny(call, "as set");
  if (text.size == 4 && memcmp(text.data, "fail", 4) == 0) return tp_call_fail(call, 7, "as set");
  return TP_ANSWER_DONE;
}

TEST(statistics_count_turns_by_outcome_queues_sessions_and_denials) {
  static const reply replies[] = {{.text = "hi"}, {.fails = TP_ERR_MODEL}, {.never = true}};
  tp_runtime *runtime = open_with_data();
  hook hooks[] = {
      {.id = "guard", .phase = TP_PHASE_TURN_INTAKE, .run = guard, .sub = {.failure = TP_FAILURE_REQUIRED}}};
  add_hooks(runtime, hooks, 1);
  recorder *model = recorder_new(replies, COUNT(replies));
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s1", .model = recorder_model(model, true)};
  assert_int_equal(stats_of(runtime).sessions_open, 0);
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  run_turn(session, "hello", 0, TP_TURN_COMPLETED);
  run_turn(session, "hello", 0, TP_TURN_FAILED);
  run_turn(session, "deny", 0, TP_TURN_DENIED);
  run_turn(session, "fail", 0, TP_TURN_DENIED); /* a required guard of turn.intake */
  run_turn(session, "hello", 20, TP_TURN_TIMED_OUT);
  tp_submission *turns[3];
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  for (int i = 0; i < 3; i++) assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &turns[i], NULL), TP_OK);
  latch_wait(&model->started, 4); /* the last one is the running turn's, and never answered */
  tp_runtime_stats stats = stats_of(runtime);
  assert_int_equal(stats.struct_size, sizeof stats);
  assert_int_equal(stats.sessions_open, 1);
  assert_int_equal(stats.turns_open, 3);
  assert_int_equal(stats.turns_queued, 2);
  assert_int_equal(stats.tokens_open, 2); /* that of the turn that timed out was not completed */
  assert_int_equal(stats.turns_completed, 1);
  assert_int_equal(stats.turns_failed, 1);
  assert_int_equal(stats.turns_denied, 2);
  assert_int_equal(stats.turns_timed_out, 1);
  assert_int_equal(stats.turns_cancelled, 0);
  assert_int_equal(stats.denials, 1);
  assert_int_equal(stats.failures, 1);
  assert_int_equal(stats.jobs_open, 0);
  assert_int_equal(stats.attempts_waiting, 0);
  for (int i = 2; i >= 0; i--) {
    tp_submission_cancel(turns[i]);
    assert_int_equal(tp_submission_wait(turns[i], 20000, NULL, NULL), TP_OK);
    tp_submission_unref(turns[i]);
  }
  assert_int_equal(stats_of(runtime).turns_queued, 0);
  assert_int_equal(stats_of(runtime).turns_cancelled, 3);
  latch closed = LATCH;
  tp_session_close(session, hit, &closed);
  latch_wait(&closed, 1);
  assert_int_equal(stats_of(runtime).sessions_open, 0);
  close_runtime(runtime);
  recorder_free(model);
}

TEST(statistics_are_filled_as_far_as_both_sides_know_them) {
  tp_runtime *runtime = open_with_data();
  tp_turn *turn = begin_bare(runtime, 0);
  struct {
    tp_runtime_stats known;
    uint64_t newer;
  } longer;
  memset(&longer, 0xee, sizeof longer);
  longer.known.struct_size = sizeof longer;
  tp_runtime_stats_get(runtime, &longer.known);
  assert_int_equal(longer.known.struct_size, sizeof longer.known);
  assert_true(longer.newer == 0);
  assert_int_equal(longer.known.turns_open, 1);
  tp_runtime_stats shorter;
  memset(&shorter, 0xee, sizeof shorter);
  shorter.struct_size = offsetof(tp_runtime_stats, tokens_open);
  tp_runtime_stats_get(runtime, &shorter);
  assert_int_equal(shorter.struct_size, offsetof(tp_runtime_stats, tokens_open));
  assert_int_equal(shorter.turns_open, 1);
  assert_true(shorter.tokens_open == UINT64_C(0xeeeeeeeeeeeeeeee)); /* the library did not write this member */
  tp_runtime_stats unset;
  memset(&unset, 0, sizeof unset);
  tp_runtime_stats_get(runtime, &unset);
  assert_true(unset.turns_open == 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}
