/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners: which of them receive which events, and from when to when. */
#include "tests/support/test.h"
#include "phases/session/session.h"
#include "tests/support/world.h"

typedef struct world {
  WORLD;
} world;

static const reply hi[] = {{.text = "hi", .input_tokens = 3, .output_tokens = 4, .cost_micros = 5}};

static world open_world(const hook *hooks, size_t hook_count) {
  world w;
  world_open(
      &w.stage,
      &(world_options){.hooks = hooks, .hook_count = hook_count, .replies = hi, .reply_count = 1, .session.id = "s1"});
  return w;
}

static void say(world *w) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("hello")};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

/* ---- a listener that writes down what it receives ---- */

typedef struct ear {
  char text[4096]; /* "turn_begin phase_end[subscription] …" */
  _Atomic int destroys;
  int bad;
  uint64_t id;
  const char *session;   /* what the events must name; NULL: nothing */
  const char *forbidden; /* what no text of theirs may be; NULL: nothing */
  tp_runtime *unlistens; /* at the first event */
} ear;

static void hear(void *ctx, const tp_event *event) {
  ear *e = ctx;
  size_t used = strlen(e->text);
  snprintf(e->text + used, sizeof e->text - used, "%s%s%s%s ", tp_event_name(event->kind),
           event->subscription ? "[" : "", event->subscription ? event->subscription : "",
           event->subscription ? "]" : "");
  if (event->struct_size != sizeof *event || event->id_count != TP_ID_COUNT || event->sequence == 0) e->bad++;
  if (e->session && !tp_text_is(event->ids[TP_ID_SESSION], e->session)) e->bad++;
  if (e->forbidden && tp_text_is(event->text, e->forbidden)) e->bad++;
  if (e->unlistens && tp_runtime_unlisten(e->unlistens, e->id, NULL) != TP_OK) e->bad++;
  e->unlistens = NULL;
}

static void destroy(void *ctx) { ((ear *)ctx)->destroys++; }

static tp_listener listener_of(ear *e, uint64_t kinds) {
  return (tp_listener){
      .struct_size = sizeof(tp_listener), .on_event = hear, .ctx = e, .destroy = destroy, .kinds = kinds};
}

static void listen_to_runtime(world *w, ear *e, const tp_listener *listener) {
  assert_int_equal(tp_runtime_listen(w->runtime, listener, &e->id, NULL), TP_OK);
}

static void listen_to_session(world *w, ear *e, const tp_listener *listener) {
  assert_int_equal(tp_session_listen(w->session, listener, &e->id, NULL), TP_OK);
}

#define BIT(kind) (UINT64_C(1) << TP_EVENT_##kind)

/* ---- which ---- */

TEST(each_listener_receives_the_kinds_that_it_asked_for) {
  act pre = {0};
  hook h = {.id = "h", .phase = TP_PHASE_MODEL_PRE, .ctx = &pre};
  world w = open_world(&h, 1);
  ear all = {.session = "s1"}, some = {.session = "s1"}, of_session = {.session = "s1"};
  tp_listener listeners[] = {listener_of(&all, 0), listener_of(&some, BIT(TURN_BEGIN) | BIT(TURN_END)),
                             listener_of(&of_session, BIT(MODEL_END))};
  listen_to_runtime(&w, &all, &listeners[0]);
  listen_to_runtime(&w, &some, &listeners[1]);
  listen_to_session(&w, &of_session, &listeners[2]);
  assert_true(all.id != some.id && some.id != of_session.id);
  say(&w);
  assert_string_equal(all.text, "turn_begin phase_begin run phase_end model_begin model_end turn_end ");
  assert_string_equal(some.text, "turn_begin turn_end ");
  assert_string_equal(of_session.text, "model_end ");
  world_close(&w.stage);
  assert_int_equal(all.bad + some.bad + of_session.bad, 0);
  assert_int_equal(all.destroys, 1);
  assert_int_equal(some.destroys, 1);
  assert_int_equal(of_session.destroys, 1);
}

TEST(phases_of_a_listener_leave_out_the_events_of_the_others) {
  act pre = {0}, post = {0};
  hook hooks[] = {{.id = "pre", .phase = TP_PHASE_MODEL_PRE, .ctx = &pre},
                  {.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .ctx = &post}};
  world w = open_world(hooks, 2);
  ear e = {0};
  tp_listener listener = listener_of(&e, 0);
  uint32_t phases[] = {TP_PHASE_TURN_POST_TURN};
  listener.phases = phases;
  listener.phase_count = 1;
  listen_to_runtime(&w, &e, &listener);
  phases[0] = 0; /* was copied */
  say(&w);
  assert_string_equal(e.text, "turn_begin model_begin model_end phase_begin run phase_end turn_end ");
  world_close(&w.stage);
}

TEST(runtime_listener_receives_bare_turns_and_those_of_agents) {
  act pre = {0};
  hook hooks[] = {{.id = "build", .phase = TP_PHASE_AGENT_BUILD, .ctx = &pre},
                  {.id = "pre", .phase = TP_PHASE_MODEL_PRE, .ctx = &pre}};
  world w = open_world(hooks, 2);
  ear e = {0};
  tp_listener listener = listener_of(&e, BIT(PHASE_BEGIN));
  listen_to_runtime(&w, &e, &listener);
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_turn_begin_bare(w.runtime, NULL, &turn, NULL), TP_OK);
  assert_int_equal(tp_phase_run(turn, TP_PHASE_MODEL_PRE, NULL, &result, NULL), TP_OK);
  tp_turn_end(turn);
  assert_string_equal(e.text, "phase_begin ");
  tp_agent_config config = {.struct_size = sizeof config, .id = "a"};
  tp_agent *agent;
  assert_int_equal(tp_agent_add(w.runtime, &config, &agent, NULL), TP_OK);
  assert_string_equal(e.text, "phase_begin phase_begin ");
  tp_agent_remove(agent);
  world_close(&w.stage);
  assert_int_equal(e.bad, 0);
}

/* ---- visibility ---- */

TEST(events_of_subscriptions_below_the_listeners_visibility_are_left_out) {
  static const tp_contribution reminder = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("remember")};
  act inside = {.emits = &reminder, .emit_count = 1}, shown = inside,
      denies = {.kind = TP_ANSWER_DENY, .reason = "secret"};
  hook hooks[] = {
      {.id = "inside", .phase = TP_PHASE_MODEL_PRE, .ctx = &inside},
      {.id = "shown", .phase = TP_PHASE_MODEL_PRE, .ctx = &shown, .sub = {.visibility = TP_VISIBILITY_USER_VISIBLE}},
      {.id = "denies", .phase = TP_PHASE_TOOL_PRE, .ctx = &denies}};
  world w = open_world(hooks, 3);
  ear all = {0}, public = {0};
  tp_listener everything = listener_of(&all, BIT(RUN) | BIT(REMINDER) | BIT(PHASE_END)), little = everything;
  public.forbidden = "secret";
  little.ctx = &public;
  little.visibility_min = TP_VISIBILITY_USER_AUDIT;
  listen_to_runtime(&w, &all, &everything);
  listen_to_runtime(&w, &public, &little);
  say(&w);
  assert_string_equal(all.text, "run run reminder[inside] reminder[shown] phase_end ");
  assert_string_equal(public.text, "run reminder[shown] phase_end ");
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_turn_begin_bare(w.runtime, NULL, &turn, NULL), TP_OK);
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, NULL, &result, NULL), TP_OK);
  tp_turn_end(turn);
  assert_non_null(strstr(all.text, "phase_end[denies]"));
  assert_string_equal(public.text, "run reminder[shown] phase_end phase_end "); /* that, but not by which */
  assert_int_equal(public.bad, 0);                                              /* nor why */
  world_close(&w.stage);
}

/* ---- what handlers contribute ---- */

TEST(audits_and_manifest_diagnostics_are_events) {
  static const tp_contribution contributed[] = {{.struct_size = sizeof(tp_contribution),
                                                 .kind = TP_CONTRIBUTION_AUDIT,
                                                 .key = TEXT("a"),
                                                 .text = TEXT("who did what")},
                                                {.struct_size = sizeof(tp_contribution),
                                                 .kind = TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC,
                                                 .key = TEXT("m"),
                                                 .text = TEXT("too long")},
                                                {.struct_size = sizeof(tp_contribution),
                                                 .kind = TP_CONTRIBUTION_DIAGNOSTIC,
                                                 .key = TEXT("d"),
                                                 .text = TEXT("hm")}};
  act contributes = {.emits = contributed, .emit_count = 3};
  hook h = {.id = "h", .phase = TP_PHASE_TURN_PRE_PROMPT_COMPILE, .ctx = &contributes};
  world w = open_world(&h, 1);
  ear e = {0};
  tp_listener listener = listener_of(&e, BIT(AUDIT) | BIT(DIAGNOSTIC));
  listen_to_session(&w, &e, &listener);
  say(&w);
  assert_string_equal(e.text, "audit[h] diagnostic[h] diagnostic[h] ");
  world_close(&w.stage);
}

static void keep_usage(void *ctx, const tp_event *event) {
  int64_t *sum = ctx;
  if (event->kind != TP_EVENT_MODEL_END) return;
  *sum = event->input_tokens * 100 + event->output_tokens * 10 + event->cost_micros;
}

TEST(end_of_a_model_call_has_its_usage_event) {
  world w = open_world(NULL, 0);
  int64_t usage = 0;
  tp_listener listener = {.struct_size = sizeof listener, .on_event = keep_usage, .ctx = &usage};
  assert_int_equal(tp_session_listen(w.session, &listener, NULL, NULL), TP_OK);
  say(&w);
  assert_int_equal(usage, 345);
  world_close(&w.stage);
}

/* ---- from when to when ---- */

TEST(removed_listener_is_not_called_again_also_in_a_turn_that_runs) {
  world w = open_world(NULL, 0);
  ear leaves = {.unlistens = w.runtime}, stays = {0}, session = {0};
  tp_listener listeners[] = {listener_of(&leaves, 0), listener_of(&stays, 0), listener_of(&session, 0)};
  listen_to_runtime(&w, &leaves, &listeners[0]);
  listen_to_runtime(&w, &stays, &listeners[1]);
  listen_to_session(&w, &session, &listeners[2]);
  say(&w);
  assert_string_equal(leaves.text, "turn_begin ");
  assert_int_equal(leaves.destroys, 1); /* with the end of the turn */
  assert_int_equal(tp_runtime_unlisten(w.runtime, leaves.id, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_session_unlisten(w.session, stays.id, NULL), TP_ERR_NOT_FOUND); /* it is the runtime's */
  assert_int_equal(tp_session_unlisten(w.session, session.id, NULL), TP_OK);
  assert_int_equal(session.destroys, 1); /* no turn has it */
  char before[sizeof session.text];
  memcpy(before, session.text, sizeof before);
  say(&w);
  assert_string_equal(session.text, before);
  assert_string_equal(stays.text,
                      "turn_begin model_begin model_end turn_end turn_begin model_begin model_end turn_end ");
  assert_int_equal(stays.destroys, 0);
  world_close(&w.stage);
  assert_int_equal(stays.destroys, 1);
  assert_int_equal(leaves.destroys, 1);
}

TEST(listener_of_a_session_receives_a_turn_that_outlives_the_session) {
  act pre = {0};
  hook h = {.id = "h", .phase = TP_PHASE_MODEL_PRE, .ctx = &pre};
  world w = open_world(&h, 1);
  ear e = {.session = "s1"}, late = {0};
  tp_listener listener = listener_of(&e, BIT(PHASE_BEGIN)), later = listener_of(&late, 0);
  listen_to_session(&w, &e, &listener);
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_turn_begin(w.session, NULL, &turn, NULL), TP_OK);
  assert_int_equal(tp_session_listen(w.session, &later, &late.id, NULL), TP_OK); /* of the turns that begin now */
  latch closed = LATCH;
  tp_session_close(w.session, (void (*)(void *))latch_hit, &closed);
  latch_wait(&closed, 1);
  assert_int_equal(e.destroys, 0);
  assert_int_equal(tp_phase_run(turn, TP_PHASE_MODEL_PRE, NULL, &result, NULL), TP_OK);
  assert_string_equal(e.text, "phase_begin ");
  assert_string_equal(late.text, "");
  tp_turn_end(turn);
  while (e.destroys == 0) sleep_ms(1); /* the closing turn may be the last to unref the session */
  assert_int_equal(e.destroys, 1);
  assert_int_equal(e.bad, 0);
  close_runtime(w.runtime);
  recorder_free(w.model);
}

/* ---- what is refused ---- */

static void expect_refused(world *w, ear *e, const tp_listener *listener, tp_status status, const char *says) {
  tp_fault fault = {0};
  uint64_t id = 77;
  assert_int_equal(tp_runtime_listen(w->runtime, listener, &id, &fault), status);
  if (says && !strstr(fault.message, says)) fail_msg("`%s` does not say `%s`", fault.message, says);
  assert_int_equal(id, 77);
  assert_int_equal(e->destroys, 0); /* not taken */
}

TEST(bad_listeners_are_refused_and_not_taken) {
  world w = open_world(NULL, 0);
  ear e = {0};
  expect_refused(&w, &e, NULL, TP_ERR_USAGE, "tp_listener");
  tp_listener bad = listener_of(&e, 0);
  bad.struct_size = 4;
  expect_refused(&w, &e, &bad, TP_ERR_VERSION, "struct_size");
  bad = listener_of(&e, 0);
  bad.on_event = NULL;
  expect_refused(&w, &e, &bad, TP_ERR_USAGE, "on_event");
  bad = listener_of(&e, 1);
  expect_refused(&w, &e, &bad, TP_ERR_USAGE, "kinds");
  bad = listener_of(&e, UINT64_C(1) << 40);
  expect_refused(&w, &e, &bad, TP_ERR_USAGE, "kinds");
  bad = listener_of(&e, 0);
  bad.visibility_min = (tp_visibility)9;
  expect_refused(&w, &e, &bad, TP_ERR_USAGE, "visibility_min");
  bad = listener_of(&e, 0);
  bad.reserved_[1] = 1;
  expect_refused(&w, &e, &bad, TP_ERR_USAGE, "reserved_");
  bad = listener_of(&e, 0);
  bad.phase_count = 1;
  expect_refused(&w, &e, &bad, TP_ERR_USAGE, "phases");
  bad.phases = (const uint32_t[]){60};
  expect_refused(&w, &e, &bad, TP_ERR_UNKNOWN_PHASE, "60");
  world_close(&w.stage);
}

/* ---- jobs ---- */

typedef struct job_ear {
  char text[512]; /* "queued/0 succeeded/1 …" */
  int bad;
  latch ended;
} job_ear;

static void note_job(void *ctx, const tp_event *event) {
  job_ear *e = ctx;
  const tp_job *job = event->job;
  if (event->kind != TP_EVENT_JOB) {
    if (event->kind != TP_EVENT_TURN_END) e->bad++;
    return;
  }
  size_t used = strlen(e->text);
  bool is_ours = tp_text_is(job->handler, "b") && tp_text_is(job->subscription, "b") &&
                 tp_text_is(job->order_key, "s1") && job->idempotency_key.size > 0;
  if (!is_ours || job->payload.size || !job->id || event->sequence || event->ids[TP_ID_SESSION].size) e->bad++;
  snprintf(e->text + used, sizeof e->text - used, "%s/%u%s%.*s ", tp_job_state_name(job->state), job->attempt,
           job->message.size ? ":" : "", (int)job->message.size, job->message.size ? job->message.data : "");
  if (job->state == TP_JOB_SUCCEEDED || job->state == TP_JOB_DEAD) latch_hit(&e->ended);
}

static void count_job(void *ctx, const tp_event *event) {
  if (event->kind == TP_EVENT_JOB) ++*(_Atomic int *)ctx;
}

TEST(listener_that_asks_for_jobs_hears_what_becomes_of_them) {
  static const struct {
    act act;
    const char *text;
  } cases[] = {
      {{.kind = TP_ANSWER_DONE}, "queued/0 succeeded/1 "},
      {{.kind = TP_ANSWER_FAILED, .reason = "again", .retryable = true, .succeeds_at = 2},
       "queued/0 queued/1:again succeeded/2 "},
      {{.kind = TP_ANSWER_FAILED, .reason = "never"}, "queued/0 dead/1:never "},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    act a;
    memcpy(&a, &cases[i].act, sizeof a);
    hook h = {.id = "b",
              .phase = TP_PHASE_TURN_POST_TURN,
              .ctx = &a,
              .idempotent = true,
              .sub = {.execution = TP_EXECUTION_BACKGROUND, .attempts = 3}};
    world w = open_world(&h, 1);
    job_ear e = {.ended = LATCH};
    _Atomic int others = 0;
    tp_listener asks = {.struct_size = sizeof asks, .on_event = note_job, .ctx = &e, .kinds = BIT(JOB) | BIT(TURN_END)};
    tp_listener all = {.struct_size = sizeof all, .on_event = count_job, .ctx = &others};
    tp_fault fault = {0};
    assert_int_equal(tp_runtime_listen(w.runtime, &asks, NULL, NULL), TP_OK);
    assert_int_equal(tp_runtime_listen(w.runtime, &all, NULL, NULL), TP_OK);
    assert_int_equal(tp_session_listen(w.session, &all, NULL, NULL), TP_OK);
    assert_int_equal(tp_session_listen(w.session, &asks, NULL, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "tp_runtime_listen"));
    say(&w);
    latch_wait(&e.ended, 1);
    assert_string_equal(e.text, cases[i].text);
    world_close(&w.stage);
    assert_int_equal(e.bad, 0);
    assert_int_equal(others, 0);
  }
}

TEST(listener_of_jobs_alone_costs_turns_nothing) {
  world w = open_world(NULL, 0);
  job_ear e = {.ended = LATCH};
  tp_listener jobs = {.struct_size = sizeof jobs, .on_event = note_job, .ctx = &e, .kinds = BIT(JOB)};
  assert_int_equal(tp_runtime_listen(w.runtime, &jobs, NULL, NULL), TP_OK);
  tp_turn *turn = begin_bare(w.runtime, 0);
  assert_false(tp__turn_has_listener(turn));
  tp_turn_end(turn);
  world_close(&w.stage);
}

TEST(listeners_have_a_bound) {
  world w = open_world(NULL, 0);
  ear e = {0};
  uint64_t ids[64];
  tp_listener listener = listener_of(&e, BIT(TURN_END));
  for (int i = 0; i < 64; i++) assert_int_equal(tp_session_listen(w.session, &listener, &ids[i], NULL), TP_OK);
  assert_int_equal(tp_session_listen(w.session, &listener, NULL, NULL), TP_ERR_FULL);
  assert_int_equal(tp_session_unlisten(w.session, ids[5], NULL), TP_OK);
  assert_int_equal(tp_session_listen(w.session, &listener, NULL, NULL), TP_OK);
  assert_int_equal(e.destroys, 1);
  say(&w);
  assert_int_equal(strlen(e.text), 64 * strlen("turn_end "));
  world_close(&w.stage);
  assert_int_equal(e.destroys, 65);
}
