/* SPDX-License-Identifier: Apache-2.0
 *
 * scope_test.c: which tools an agent's turns may use: fixed by agent.build, shown to the model, checked at dispatch
 * before any gate. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/world.h"

static const tp_text only_read = TEXT("\x81\xa5tools\x91\xa4read"); /* {"tools": ["read"]} */
static const tp_text no_tool = TEXT("\x81\xa5tools\x90");
static const tp_text with_skills = TEXT(
    "\x81\xa6skills\x91\xa5"
    "email");

typedef struct tools {
  tp_tool items[2];
  const tp_tool *list[2];
  tp_contribution bundle;
  act contributes, gate;
  _Atomic int runs[2];
} tools;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  ++*(_Atomic int *)ctx;
  return tp_tool_ok(run, (tp_text)TEXT("ran"));
}

static void make_tools(tools *t) {
  static const char *const names[] = {"read", "write"};
  *t = (tools){.bundle = {.struct_size = sizeof t->bundle, .kind = TP_CONTRIBUTION_TOOL_BUNDLE, .key = TEXT("files")}};
  for (int i = 0; i < 2; i++) {
    t->items[i] = (tp_tool){.struct_size = sizeof t->items[i],
                            .name = names[i],
                            .run = run_tool,
                            .ctx = (void *)&t->runs[i],
                            .placement = TP_PLACEMENT_INLINE};
    t->list[i] = &t->items[i];
  }
  t->bundle.tools = t->list;
  t->bundle.tool_count = 2;
  t->contributes = (act){.emits = &t->bundle, .emit_count = 1};
}

typedef struct results {
  char text[256];
} results;

static void note_result(void *ctx, const tp_event *event) {
  results *r = ctx;
  size_t used = strlen(r->text);
  if (event->kind != TP_EVENT_TOOL_END) return;
  snprintf(r->text + used, sizeof r->text - used, "%s ", tp_tool_result_name(event->tool_result->kind));
}

typedef struct world {
  WORLD;
  tools tools;
  results results;
} world;

#define CALL(the_id, the_name) \
  { .id = TEXT(the_id), .name = TEXT(the_name) }

static const reply replies[] = {
    {.text = "", .calls = {CALL("a", "write"), CALL("b", "read"), CALL("c", "nobody")}, .call_count = 3},
    {.text = "done"}};

static tp_status open_world(world *w, tp_text extra, hook *more, tp_fault *fault) {
  *w = (world){0};
  make_tools(&w->tools);
  hook hooks[] = {{.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &w->tools.contributes},
                  {.id = "gate", .phase = TP_PHASE_TOOL_PRE, .ctx = &w->tools.gate},
                  more ? *more : (hook){0}};
  const world_options options = {.hooks = hooks,
                                 .hook_count = more ? 3 : 2,
                                 .replies = replies,
                                 .reply_count = 2,
                                 .agent = {.id = "clerk", .system = "You are a clerk.", .extra = extra},
                                 .session = {.on_event = note_result, .event_ctx = &w->results}};
  return world_try_open(&w->stage, &options, fault);
}

static void run(world *w) {
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go")};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

typedef struct audit {
  int denials;
  char subject[256];
} audit;

static bool note_denial(void *ctx, const tp_audit *row) {
  audit *a = ctx;
  if (strcmp(row->action, "denial") != 0) return true;
  a->denials++;
  snprintf(a->subject, sizeof a->subject, "%s: %s", row->subscription, row->detail);
  return true;
}

TEST(tool_out_of_scope_is_not_shown_not_asked_for_and_not_run) {
  world w;
  assert_int_equal(open_world(&w, only_read, NULL, NULL), TP_OK);
  run(&w);
  assert_int_equal(w.model->tool_counts[0], 1);
  assert_non_null(strstr(w.model->requests[0], "S<You are a clerk.\n\n<scope>\ntools: [\"read\"]\n</scope>>"));
  assert_string_equal(w.results.text, "out_of_scope ok unknown_tool ");
  assert_int_equal(w.tools.runs[0], 1);
  assert_int_equal(w.tools.runs[1], 0);
  assert_int_equal(w.tools.gate.calls, 1); /* of read */
  assert_non_null(strstr(w.model->requests[1], "T!<the agent may not use this tool"));
  audit a = {0};
  tp_runtime_audit(w.runtime, TP_VISIBILITY_USER_VISIBLE, note_denial, &a);
  assert_int_equal(a.denials, 1);
  assert_non_null(strstr(a.subject, "scope: write"));
  world_close(&w.stage);
}

TEST(agent_without_a_list_of_tools_may_use_all) {
  const tp_text configs[] = {{NULL, 0}, with_skills};
  for (size_t i = 0; i < COUNT(configs); i++) {
    world w;
    assert_int_equal(open_world(&w, configs[i], NULL, NULL), TP_OK);
    run(&w);
    assert_int_equal(w.model->tool_counts[0], 2);
    assert_non_null(
        strstr(w.model->requests[0], i == 0 ? "S<You are a clerk.>" : "<scope>\nskills: [\"email\"]\n</scope>>"));
    assert_string_equal(w.results.text, "ok ok unknown_tool ");
    world_close(&w.stage);
  }
}

TEST(agent_with_an_empty_list_may_use_none) {
  world w;
  assert_int_equal(open_world(&w, no_tool, NULL, NULL), TP_OK);
  run(&w);
  assert_int_equal(w.model->tool_counts[0], 0);
  assert_string_equal(w.results.text, "out_of_scope out_of_scope unknown_tool ");
  world_close(&w.stage);
}

static tp_answer limit_scope(void *ctx, tp_call *call) {
  const tp_text *config = ctx;
  const tp_field field = {.id = TP_FIELD_AGENT_CONFIG, .kind = TP_FIELD_KIND_VALUE, .text = *config};
  return tp_call_replace(call, &field, 1, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

TEST(patterns_give_tools_and_take_them_away) {
  static const struct {
    tp_text config;
    const char *results;
  } rows[] = {{TEXT("\x81\xa5tools\x91\xa3re*"), "out_of_scope ok unknown_tool "},
              {TEXT("\x81\xa5tools\x91\xa1*"), "ok ok unknown_tool "},
              {TEXT("\x81\xa5tools\x91\xa4rea?"), "out_of_scope ok unknown_tool "},
              {TEXT("\x81\xactools_denied\x91\xa2w*"), "out_of_scope ok unknown_tool "},
              {TEXT("\x81\xactools_denied\x90"), "ok ok unknown_tool "},
              {TEXT("\x82\xa5tools\x91\xa1*\xactools_denied\x92\xa4read\xa6nobody"), "ok out_of_scope unknown_tool "},
              {TEXT("\x82\xa5tools\x91\xa4read\xactools_denied\x91\xa1*"), "out_of_scope out_of_scope unknown_tool "}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    world w;
    assert_int_equal(open_world(&w, rows[i].config, NULL, NULL), TP_OK);
    run(&w);
    assert_string_equal(w.results.text, rows[i].results);
    world_close(&w.stage);
  }
}

TEST(scope_is_what_agent_build_left) {
  world w;
  tp_text config = no_tool;
  hook build = {.id = "build", .phase = TP_PHASE_AGENT_BUILD, .run = limit_scope, .ctx = &config};
  assert_int_equal(open_world(&w, only_read, &build, NULL), TP_OK);
  run(&w);
  assert_string_equal(w.results.text, "out_of_scope out_of_scope unknown_tool ");
  world_close(&w.stage);
}

TEST(list_of_another_kind_that_agent_build_left_is_refused) {
  const tp_text configs[] = {TEXT("\x81\xa5tools\xa4read"), TEXT("\x81\xa5tools\xc0"), TEXT("\x81\xa6skills\x91\x01"),
                             TEXT("\x81\xactools_denied\xa1*")};
  for (size_t i = 0; i < COUNT(configs); i++) {
    world w;
    tp_text config = configs[i];
    tp_fault fault = {0};
    hook build = {.id = "build", .phase = TP_PHASE_AGENT_BUILD, .run = limit_scope, .ctx = &config};
    assert_int_equal(open_world(&w, only_read, &build, &fault), TP_ERR_MALFORMED);
    assert_non_null(strstr(fault.message, "must be an array of texts"));
    world_close(&w.stage);
  }
}

/* ---- listing ---- */

static bool note_listing(void *ctx, const tp_tool_listing *listing) {
  results *r = ctx;
  size_t used = strlen(r->text);
  snprintf(r->text + used, sizeof r->text - used, "%s.%s ", listing->owner, listing->tool->name);
  return strlen(r->text) < 40;
}

TEST(tools_of_the_runtime_and_of_an_agent_are_listed_without_a_turn) {
  world w;
  size_t count = 0;
  assert_int_equal(open_world(&w, only_read, NULL, NULL), TP_OK);
  act intake = {0};
  add_hooks(w.runtime, &(hook){.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &intake}, 1);
  results all = {""}, agents = {""}, some = {"already so long that the first one stops it: "};
  assert_int_equal(tp_runtime_tools(w.runtime, note_listing, &all, &count, NULL), TP_OK);
  assert_string_equal(all.text, "test.read test.write ");
  assert_int_equal(count, 2);
  tp_agent *agent = tp_agent_find(w.runtime, "clerk");
  assert_non_null(agent);
  assert_int_equal(tp_agent_tools(agent, note_listing, &agents, &count, NULL), TP_OK);
  assert_string_equal(agents.text, "test.read ");
  assert_int_equal(count, 1);
  assert_int_equal(tp_runtime_tools(w.runtime, note_listing, &some, &count, NULL), TP_OK);
  assert_int_equal(count, 1);
  assert_int_equal(tp_runtime_tools(w.runtime, NULL, NULL, &count, NULL), TP_OK);
  assert_int_equal(count, 2);
  tp_agent_unref(agent);
  assert_int_equal(intake.calls, 0);
  assert_int_equal(w.tools.runs[0], 0);
  assert_int_equal(w.model->asked, 0);
  world_close(&w.stage);
}

static tp_answer list_from_inside(void *ctx, tp_call *call) {
  tp_runtime *runtime = ctx;
  return tp_runtime_tools(runtime, NULL, NULL, NULL, NULL) == TP_ERR_USAGE ? tp_call_allow(call)
                                                                           : tp_call_deny(call, "listed");
}

TEST(listing_that_cannot_be_made_says_why) {
  tp_runtime *runtime = open_runtime(NULL);
  size_t count = 7;
  assert_int_equal(tp_runtime_tools(runtime, NULL, NULL, &count, NULL), TP_OK); /* nothing contributes any */
  assert_int_equal(count, 0);
  act ill = {.kind = TP_ANSWER_FAILED, .reason = "no disk"};
  hook hooks[] = {{.id = "ill", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &ill},
                  {.id = "inside", .phase = TP_PHASE_TURN_INTAKE, .run = list_from_inside, .ctx = runtime}};
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_fault fault = {0};
  assert_int_equal(tp_runtime_tools(runtime, NULL, NULL, &count, &fault), TP_ERR_HOOK);
  assert_non_null(strstr(fault.message, "ill: no disk"));
  assert_string_equal(fault.subject, "ill");
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_INTAKE, "hi");
  assert_int_equal(result.outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
}
