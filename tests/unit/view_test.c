/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be read: by handlers, the sets of the turn; by match functions, the payload with which an entry began; by
 * hosts, the owners of registrations. */
#include "tests/support/test.h"
#include "tests/support/host.h"

/* ---- what the turn has gathered ---- */

typedef struct gathered {
  char policy[32], missing[32], policies[64], contexts[64];
  size_t context_count;
  bool beyond; /* there was a context after the last */
} gathered;

static void put(char *to, size_t size, tp_text text) { snprintf(to, size, "%.*s", (int)text.size, text.data); }

static tp_answer look(void *ctx, tp_call *call) {
  gathered *g = ctx;
  *g = (gathered){.context_count = tp_call_context_count(call)};
  put(g->policy, sizeof g->policy, tp_call_policy(call, "memory", "recall"));
  put(g->missing, sizeof g->missing, tp_call_policy(call, "memory", "nothing"));
  for (size_t i = 0; i < g->context_count; i++) {
    const tp_contribution *context = tp_call_context(call, i);
    size_t used = strlen(g->contexts);
    snprintf(g->contexts + used, sizeof g->contexts - used, "%.*s=%.*s ", (int)context->key.size, context->key.data,
             (int)context->text.size, context->text.data);
  }
  for (size_t i = 0; i < tp_call_policy_count(call); i++) {
    const tp_contribution *policy = tp_call_policy_at(call, i);
    size_t used = strlen(g->policies);
    snprintf(g->policies + used, sizeof g->policies - used, "%.*s.%.*s=%.*s ", (int)policy->domain.size,
             policy->domain.data, (int)policy->key.size, policy->key.data, (int)policy->text.size, policy->text.data);
  }
  g->beyond = tp_call_context(call, g->context_count) || tp_call_policy_at(call, tp_call_policy_count(call));
  return TP_ANSWER_DONE;
}

#define POLICY(value, how_heavy)                                                                      \
  {                                                                                                   \
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_POLICY, .domain = TEXT("memory"), \
    .key = TEXT("recall"), .text = TEXT(value), .weight = how_heavy                                   \
  }
#define CONTEXT(id, words, how_heavy)                                                                    \
  {                                                                                                      \
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_PROMPT_CONTEXT, .domain = TEXT("d"), \
    .key = TEXT(id), .text = TEXT(words), .weight = how_heavy                                            \
  }

static void assert_gathered(const gathered *g, const char *policy, const char *contexts) {
  char listed[64] = "";
  assert_string_equal(g->policy, policy);
  if (policy[0]) snprintf(listed, sizeof listed, "memory.recall=%s tool.t=deny ", policy);
  assert_string_equal(g->policies, listed);
  assert_string_equal(g->missing, "");
  assert_string_equal(g->contexts, contexts);
  assert_false(g->beyond);
}

TEST(handlers_see_what_earlier_phases_have_merged) {
  static const tp_contribution light = POLICY("off", 1), heavy = POLICY("on", 2);
  static const tp_contribution contexts[] = {CONTEXT("b", "second", 1), CONTEXT("a", "first", 5)};
  static const tp_contribution other = {.struct_size = sizeof other,
                                        .kind = TP_CONTRIBUTION_POLICY,
                                        .domain = TEXT("tool"),
                                        .key = TEXT("t"),
                                        .text = TEXT("deny")};
  const tp_contribution both[] = {other, light};
  act says_off = {.emits = both, .emit_count = 2}, says_on = {.emits = &heavy, .emit_count = 1};
  act contributes = {.emits = contexts, .emit_count = 2};
  gathered beside = {0}, inlined = {0}, slow = {0};
  tp_runtime *runtime = open_runtime(NULL);
  hook hooks[] = {
      {.id = "off", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &says_off},
      {.id = "on", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &says_on},
      {.id = "contributes", .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .ctx = &contributes},
      {.id = "beside", .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .run = look, .ctx = &beside, .after = "contributes"},
      {.id = "inline", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = look, .ctx = &inlined},
      {.id = "slow", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = look, .ctx = &slow, .slow = true}};
  add_hooks(runtime, hooks, COUNT(hooks));
  for (int turn_number = 0; turn_number < 2; turn_number++) { /* and a turn begins with nothing */
    tp_turn *turn = begin_bare(runtime, 0);
    run_phase(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL);
    assert_gathered(&inlined, "", "");
    run_phase(turn, TP_PHASE_TURN_PRE_POLICY, NULL);
    run_phase(turn, TP_PHASE_TURN_PRE_PROMPT_CONTEXT, NULL);
    assert_gathered(&beside, "on", ""); /* not what its own phase is about to merge */
    run_phase(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL);
    assert_gathered(&inlined, "on", "a=first b=second ");
    assert_gathered(&slow, "on", "a=first b=second ");
    tp_turn_end(turn);
  }
  close_runtime(runtime);
}

/* ---- predicates ---- */

static int32_t text_is_hello(void *ctx, const tp_match_view *view) {
  ++*(int *)ctx;
  tp_text text = tp_match_text(view, TP_FIELD_TEXT), other = tp_match_text(view, TP_FIELD_MODEL);
  return (text.size == 5 && memcmp(text.data, "hello", 5) == 0 && other.size == 0) ? TP_MATCH_YES : TP_MATCH_NO;
}
static int32_t tenant_is_acme(void *ctx, const tp_match_view *view) {
  ++*(int *)ctx;
  tp_text tenant = tp_match_id(view, TP_ID_TENANT);
  return (tenant.size == 4 && memcmp(tenant.data, "acme", 4) == 0 && tp_match_id(view, TP_ID_TASK).size == 0)
             ? TP_MATCH_YES
             : TP_MATCH_NO;
}
static int32_t mode_is_plan(void *ctx, const tp_match_view *view) {
  ++*(int *)ctx;
  tp_text mode = tp_match_mode(view);
  return (mode.size == 4 && memcmp(mode.data, "plan", 4) == 0) ? TP_MATCH_YES : TP_MATCH_NO;
}

static tp_state state_in(tp_turn *turn, const char *text, const char *id) {
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_INTAKE, text);
  return run_of(&result, id).state;
}

TEST(predicates_see_payload_ids_and_mode) {
  static const uint32_t fields[] = {TP_FIELD_TEXT};
  int asked[3] = {0};
  act a = {0};
  tp_runtime *runtime = open_runtime(NULL);
  hook hooks[] = {{.id = "text",
                   .phase = TP_PHASE_TURN_INTAKE,
                   .ctx = &a,
                   .sub.match = &(const tp_match){.struct_size = sizeof(tp_match),
                                                  .matches = text_is_hello,
                                                  .ctx = &asked[0],
                                                  .description = "hello",
                                                  .fields = fields,
                                                  .field_count = 1}},
                  {.id = "tenant",
                   .phase = TP_PHASE_TURN_INTAKE,
                   .ctx = &a,
                   .sub.match = &(const tp_match){.struct_size = sizeof(tp_match),
                                                  .matches = tenant_is_acme,
                                                  .ctx = &asked[1],
                                                  .description = "acme",
                                                  .fields = NULL,
                                                  .field_count = 0}},
                  {.id = "mode",
                   .phase = TP_PHASE_TURN_INTAKE,
                   .ctx = &a,
                   .sub.match = &(const tp_match){.struct_size = sizeof(tp_match),
                                                  .matches = mode_is_plan,
                                                  .ctx = &asked[2],
                                                  .description = "plan",
                                                  .fields = NULL,
                                                  .field_count = 0}}};
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .tenant = "acme"};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .mode = "plan"};
  tp_turn *known, *bare = begin_bare(runtime, 0);
  assert_int_equal(tp_turn_begin(session, &request, &known, NULL), TP_OK);
  assert_int_equal(state_in(known, "hello", "text"), TP_STATE_SUCCEEDED);
  assert_int_equal(state_in(known, "other", "text"), TP_STATE_SKIPPED);
  assert_int_equal(state_in(known, NULL, "text"), TP_STATE_SKIPPED);
  assert_int_equal(state_in(known, NULL, "tenant"), TP_STATE_SUCCEEDED);
  assert_int_equal(state_in(bare, NULL, "tenant"), TP_STATE_SKIPPED);
  assert_int_equal(state_in(known, NULL, "mode"), TP_STATE_SUCCEEDED);
  assert_int_equal(state_in(bare, NULL, "mode"), TP_STATE_SKIPPED);
  for (int i = 0; i < 3; i++) assert_int_equal(asked[i], 7); /* once for each entry */
  tp_turn_end(known);
  tp_turn_end(bare);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

/* ---- a chain that replaces several fields at once ---- */

enum { FIELD_TITLE = TP_FIELD_HOST, FIELD_COUNT };

static tp_answer replace_both(void *ctx, tp_call *call) {
  (void)ctx;
  tp_field fields[] = {{.id = FIELD_TITLE, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("new")},
                       {.id = FIELD_COUNT, .kind = TP_FIELD_KIND_INT, .number = 42}};
  return tp_call_replace(call, fields, 2, NULL) == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, 1, "not replaced");
}

static tp_answer replace_one_too_many(void *ctx, tp_call *call) {
  tp_field fields[] = {{.id = FIELD_TITLE, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("lost")},
                       {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("no")}};
  *(tp_status *)ctx = tp_call_replace(call, fields, 2, NULL);
  return TP_ANSWER_DONE;
}

static tp_answer note_count(void *ctx, tp_call *call) {
  *(int64_t *)ctx = tp_call_int(call, FIELD_COUNT);
  return TP_ANSWER_DONE;
}

TEST(fields_are_replaced_together) {
  static const uint32_t fields[] = {FIELD_TITLE, FIELD_COUNT};
  static const tp_phase row = {.struct_size = sizeof row,
                               .name = "host.replace",
                               .mode = TP_MODE_CHAIN,
                               .replace = true,
                               .limit_ms = 1000,
                               .fields = fields,
                               .field_count = 2,
                               .replaceable = fields,
                               .replaceable_count = 2};
  tp_runtime_options options = {
      .struct_size = sizeof options, .phases = (const tp_phase *const[]){&row}, .phase_count = 1};
  tp_runtime *runtime = open_runtime(&options);
  assert_string_equal(tp_phase_get(runtime, TP_PHASE_HOST)->name, "host.replace");
  assert_null(tp_phase_get(runtime, TP_PHASE_HOST + 1));
  tp_status refused = TP_OK;
  int64_t count = 0;
  hook hooks[] = {{.id = "both", .phase = TP_PHASE_HOST, .run = replace_both},
                  {.id = "many", .phase = TP_PHASE_HOST, .run = replace_one_too_many, .ctx = &refused, .after = "both"},
                  {.id = "count", .phase = TP_PHASE_HOST, .run = note_count, .ctx = &count, .after = "many"}};
  add_hooks(runtime, hooks, 3);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_field given[] = {{.id = FIELD_TITLE, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("old")},
                      {.id = FIELD_COUNT, .kind = TP_FIELD_KIND_INT, .number = 1}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = given, .field_count = 2};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_HOST, &input, &result, NULL), TP_OK);
  assert_run(&result, "both", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  assert_run(&result, "many", TP_STATE_FAILED, TP_REASON_MALFORMED);
  assert_int_equal(refused, TP_ERR_MALFORMED);
  assert_int_equal(count, 42);
  assert_text(tp_merged_text(result.merged, FIELD_TITLE), "new");
  assert_true(tp_merged_replaced(result.merged, FIELD_TITLE));
  assert_true(tp_merged_replaced(result.merged, FIELD_COUNT));
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- who registered what ---- */

typedef struct audit {
  char rows[512];
} audit;

static bool write_row(void *ctx, const tp_audit *row) {
  audit *a = ctx;
  size_t used = strlen(a->rows);
  snprintf(a->rows + used, sizeof a->rows - used, "%s %s %s\n", row->owner, row->action, tp_status_name(row->status));
  return true;
}

TEST(audit_has_commits_refusals_and_switches) {
  audit seen = {""};
  act a = {0};
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, &(hook){.id = "a", .phase = TP_PHASE_TURN_INTAKE, .ctx = &a}, 1);
  hook again = {.id = "a", .phase = TP_PHASE_TURN_INTAKE, .ctx = &a};
  assert_int_equal(hooks_add(runtime, &again, 1, NULL), TP_ERR_DUPLICATE_ID);
  assert_int_equal(tp_subscription_kill(runtime, "a", true, NULL), TP_OK);
  assert_int_equal(tp_runtime_audit(runtime, TP_VISIBILITY_INTERNAL, write_row, &seen), 3);
  assert_string_equal(seen.rows,
                      "test commit TP_OK\n"
                      "test commit TP_ERR_DUPLICATE_ID\n"
                      "operator kill_switch TP_OK\n");
  close_runtime(runtime);
}
