/* SPDX-License-Identifier: Apache-2.0
 *
 * The conditions of a match, which need no function: when they hold, how the plan prints them, and which are
 * refused. */
#include "tests/support/test.h"

#include "tests/support/host.h"
#include "turnphase/inspect.h"
#include "turnphase/value.h"

/* ---- one hook with a match ---- */

typedef struct world {
  tp_runtime *runtime;
  _Atomic int calls, asked, ends;
  int32_t says; /* of the function of the match */
} world;

static tp_answer count_call(void *ctx, tp_call *call) {
  (void)call;
  ((world *)ctx)->calls++;
  return TP_ANSWER_DONE;
}

static int32_t ask_function(void *ctx, const tp_match_view *view) {
  world *w = ctx;
  (void)view;
  w->asked++;
  return w->says;
}

static void count_end(void *ctx) { ((world *)ctx)->ends++; }

static tp_status add(world *w, const char *phase, const tp_match *match, tp_fault *fault) {
  tp_hook one = {.struct_size = sizeof one,
                 .id = "h",
                 .phase = phase,
                 .run = count_call,
                 .ctx = w,
                 .placement = TP_PLACEMENT_INLINE,
                 .match = match};
  return tp_hook_add(w->runtime, &one, fault);
}

static void open_world(world *w, const char *phase, const tp_match *match) {
  tp_fault fault = {0};
  w->runtime = open_runtime(NULL);
  if (add(w, phase, match, &fault) != TP_OK) fail_msg("%s", fault.message);
}

/* What the entry begins with. */
typedef struct payload {
  const char *tool, *ability, *text, *agent, *mode;
  int64_t duration_ms;
  const char *paths[3];
} payload;

static tp_text paths_of(const payload *p, tp_writer **ret_writer) {
  uint32_t count = 0;
  while (count < COUNT(p->paths) && p->paths[count]) count++;
  assert_int_equal(tp_writer_new(NULL, ret_writer), TP_OK);
  tp_write_array(*ret_writer, count);
  for (uint32_t i = 0; i < count; i++) tp_write_text(*ret_writer, tp_text_of(p->paths[i]));
  tp_text value;
  assert_int_equal(tp_writer_finish(*ret_writer, &value), TP_OK);
  return value;
}

/* @return whether the hook ran. */
static bool runs(world *w, tp_phase_id phase, const payload *p) {
  tp_field fields[4];
  size_t count = 0;
  tp_writer *writer = NULL;
  int before = w->calls;
  if (p->tool) fields[count++] = (tp_field){TP_FIELD_TOOL, TP_FIELD_KIND_TEXT, 0, tp_text_of(p->tool)};
  if (p->ability) fields[count++] = (tp_field){TP_FIELD_ABILITY_REF, TP_FIELD_KIND_TEXT, 0, tp_text_of(p->ability)};
  if (p->text) fields[count++] = (tp_field){TP_FIELD_TEXT, TP_FIELD_KIND_TEXT, 0, tp_text_of(p->text)};
  if (phase == TP_PHASE_TOOL_POST)
    fields[count++] = (tp_field){TP_FIELD_DURATION_MS, TP_FIELD_KIND_INT, p->duration_ms, {NULL, 0}};
  if (phase == TP_PHASE_SESSION_END)
    fields[count++] = (tp_field){TP_FIELD_CHANGED_FILES, TP_FIELD_KIND_VALUE, 0, paths_of(p, &writer)};
  tp_turn_request request = {.struct_size = sizeof request, .mode = p->mode};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = count};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_turn *turn;
  tp_session *session = NULL;
  if (p->agent) {
    tp_agent_config config = {.struct_size = sizeof config, .id = p->agent};
    tp_agent *agent;
    assert_int_equal(tp_agent_add(w->runtime, &config, &agent, NULL), TP_OK);
    tp_session_options options = {.struct_size = sizeof options, .id = "s", .agent = agent};
    assert_int_equal(tp_session_open(w->runtime, &options, &session, NULL), TP_OK);
    assert_int_equal(tp_turn_begin(session, &request, &turn, NULL), TP_OK);
  } else {
    assert_int_equal(tp_turn_begin_bare(w->runtime, &request, &turn, NULL), TP_OK);
  }
  tp_fault fault = {0};
  if (tp_phase_run(turn, phase, &input, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_turn_end(turn);
  tp_writer_free(writer);
  return w->calls > before;
}

/* ---- when they hold ---- */

#define LIST(member, ...) \
  .member##s = (const char *const[]){__VA_ARGS__}, .member##_count = COUNT(((const char *const[]){__VA_ARGS__}))

typedef struct row {
  const char *name;
  tp_phase_id phase;
  tp_match match;
  payload payload;
  bool runs;
} row;

enum { PRE = TP_PHASE_TOOL_PRE, CREATE = TP_PHASE_TOOL_CREATE, INTAKE = TP_PHASE_TURN_INTAKE };
enum { POST = TP_PHASE_TOOL_POST, CLOSE = TP_PHASE_SESSION_END };

static const row rows[] = {
    {"a tool by its name", PRE, {LIST(tool, "deploy")}, {.tool = "deploy"}, true},
    {"another tool", PRE, {LIST(tool, "deploy")}, {.tool = "deploy2"}, false},
    {"a pattern of tools", PRE, {LIST(tool, "deploy_*")}, {.tool = "deploy_prod"}, true},
    {"a pattern that does not fit", PRE, {LIST(tool, "deploy_*")}, {.tool = "undeploy_prod"}, false},
    {"the second of two patterns", PRE, {LIST(tool, "rm", "shell.*")}, {.tool = "shell.run"}, true},
    {"none of two patterns", PRE, {LIST(tool, "rm", "shell.*")}, {.tool = "read"}, false},
    {"one character", PRE, {LIST(tool, "t?")}, {.tool = "t1"}, true},
    {"the ability of a creation", CREATE, {LIST(tool, "t*")}, {.ability = "tool"}, true},
    {"another ability", CREATE, {LIST(tool, "x*")}, {.ability = "tool"}, false},
    {"a tool that is not there", PRE, {LIST(tool, "?*")}, {.tool = NULL}, false},
    {"any tool, also none", PRE, {LIST(tool, "*")}, {.tool = NULL}, true},
    {"an agent", PRE, {LIST(agent, "ops-*")}, {.tool = "t", .agent = "ops-1"}, true},
    {"another agent", PRE, {LIST(agent, "ops-*")}, {.tool = "t", .agent = "dev"}, false},
    {"no agent", PRE, {LIST(agent, "ops-*")}, {.tool = "t"}, false},
    {"no agent, which an empty pattern fits", PRE, {LIST(agent, "")}, {.tool = "t"}, true},
    {"a mode", PRE, {LIST(mode, "plan", "auto")}, {.tool = "t", .mode = "auto"}, true},
    {"another mode", PRE, {LIST(mode, "plan")}, {.tool = "t", .mode = "auto"}, false},
    {"no mode", PRE, {LIST(mode, "plan")}, {.tool = "t"}, false},
    {"a prefix of the text", INTAKE, {.text_prefix = "/deploy"}, {.text = "/deploy staging"}, true},
    {"the whole text", INTAKE, {.text_prefix = "/deploy"}, {.text = "/deploy"}, true},
    {"a text that is shorter", INTAKE, {.text_prefix = "/deploy"}, {.text = "/dep"}, false},
    {"a text that goes on otherwise", INTAKE, {.text_prefix = "/deploy"}, {.text = "/deplox"}, false},
    {"an empty prefix", INTAKE, {.text_prefix = ""}, {.text = "x"}, true},
    {"a prefix is no pattern", INTAKE, {.text_prefix = "*"}, {.text = "x"}, false},
    {"a duration", POST, {.duration_ms_min = 100}, {.tool = "t", .duration_ms = 100}, true},
    {"a duration that is shorter", POST, {.duration_ms_min = 100}, {.tool = "t", .duration_ms = 99}, false},
    {"one of the paths", CLOSE, {LIST(changed_path, "src/**")}, {.paths = {"README", "src/a/b.c"}}, true},
    {"none of the paths", CLOSE, {LIST(changed_path, "src/*.c")}, {.paths = {"README", "src/a/b.c"}}, false},
    {"no paths", CLOSE, {LIST(changed_path, "**")}, {.paths = {NULL}}, false},
    {"two conditions", POST, {LIST(tool, "t"), .duration_ms_min = 5}, {.tool = "t", .duration_ms = 6}, true},
    {"two conditions, the first fails", POST, {LIST(tool, "u"), .duration_ms_min = 5}, {"t", .duration_ms = 6}, false},
    {"two conditions, the second fails", POST, {LIST(tool, "t"), .duration_ms_min = 5}, {"t", .duration_ms = 4}, false},
};

TEST(hook_runs_when_every_condition_holds) {
  for (size_t i = 0; i < COUNT(rows); i++) {
    world w = {.runtime = NULL};
    tp_match match = rows[i].match;
    match.struct_size = sizeof match;
    w.runtime = open_runtime(NULL);
    tp_fault fault = {0};
    const char *phase = tp_phase_get(w.runtime, rows[i].phase)->name;
    if (add(&w, phase, &match, &fault) != TP_OK) fail_msg("%s: %s", rows[i].name, fault.message);
    if (runs(&w, rows[i].phase, &rows[i].payload) != rows[i].runs) fail_msg("%s", rows[i].name);
    close_runtime(w.runtime);
  }
}

TEST(function_is_asked_when_the_conditions_hold_and_may_refuse) {
  static const struct {
    const char *tool;
    int32_t says;
    bool runs;
    int asked;
  } cases[] = {{"deploy", TP_MATCH_YES, true, 1},
               {"deploy", TP_MATCH_NO, false, 1},
               {"deploy", TP_MATCH_NONE, false, 1},
               {"deploy", 77, false, 1},
               {"read", TP_MATCH_YES, false, 0}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {.says = cases[i].says};
    tp_match match = {.struct_size = sizeof match,
                      LIST(tool, "deploy"),
                      .matches = ask_function,
                      .destroy = count_end,
                      .ctx = &w,
                      .description = "as set"};
    open_world(&w, "tool.pre", &match);
    assert_int_equal(runs(&w, PRE, &(payload){.tool = cases[i].tool}), cases[i].runs);
    assert_int_equal(w.asked, cases[i].asked);
    assert_int_equal(w.ends, 0);
    close_runtime(w.runtime);
    assert_int_equal(w.ends, 1);
  }
}

/* ---- what a plan says of them ---- */

typedef struct printed {
  char text[8192];
  size_t used;
} printed;

static void take(void *ctx, const char *data, size_t size) {
  printed *p = ctx;
  if (p->used + size >= sizeof p->text) size = sizeof p->text - 1 - p->used;
  memcpy(p->text + p->used, data, size);
  p->used += size;
}

static uint64_t plan_hash(world *w, tp_phase_id phase) {
  tp_turn *turn = begin_bare(w->runtime, 0);
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, phase, NULL, &result, NULL), TP_OK);
  tp_turn_end(turn);
  printed p = {.used = 0};
  assert_int_equal(tp_plan_print(w->runtime, phase, TP_PLAN_JSON, take, &p), TP_OK);
  const char *at = strstr(p.text, "\"hash\":\"");
  assert_non_null(at);
  return strtoull(at + 8, NULL, 16);
}

TEST(plan_prints_the_conditions_and_hashes_them) {
  const struct {
    tp_phase_id phase;
    tp_match match;
    const char *words;
  } cases[] = {
      {PRE, {LIST(tool, "deploy_*")}, "tool: deploy_*"},
      {PRE, {LIST(tool, "a", "b*", "c")}, "tool: a, b*, c"},
      {PRE, {LIST(agent, "ops")}, "agent: ops"},
      {PRE, {LIST(mode, "plan", "auto")}, "mode: plan, auto"},
      {PRE, {LIST(tool, "t"), LIST(agent, "x"), LIST(mode, "y")}, "tool: t; agent: x; mode: y"},
      {INTAKE, {.text_prefix = "/go"}, "text begins with: /go"},
      {POST, {.duration_ms_min = 250}, "duration at least: 250 ms"},
      {CLOSE, {LIST(changed_path, "src/**")}, "changed path: src/**"},
      {POST, {LIST(tool, "t"), .duration_ms_min = 1}, "tool: t; duration at least: 1 ms"},
      {PRE, {LIST(tool, "t"), .description = "words of the host"}, "words of the host"},
  };
  uint64_t hashes[COUNT(cases)];
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {.runtime = open_runtime(NULL)};
    tp_match match = cases[i].match;
    printed p = {.used = 0};
    tp_fault fault = {0};
    match.struct_size = sizeof match;
    if (add(&w, tp_phase_get(w.runtime, cases[i].phase)->name, &match, &fault) != TP_OK) fail_msg("%s", fault.message);
    assert_int_equal(tp_plan_print(w.runtime, cases[i].phase, TP_PLAN_TABLE, take, &p), TP_OK);
    if (!strstr(p.text, cases[i].words)) fail_msg("%s: %s", cases[i].words, p.text);
    hashes[i] = plan_hash(&w, cases[i].phase);
    for (size_t k = 0; k < i; k++) assert_true(hashes[k] != hashes[i]);
    close_runtime(w.runtime);
  }
}

/* ---- what is refused ---- */

TEST(conditions_that_cannot_be_asked_are_refused) {
  static char long_pattern[TP_PATTERN_BYTES_MAX + 2];
  static const char *many[TP_PATTERNS_MAX + 1];
  memset(long_pattern, 'a', sizeof long_pattern - 1);
  for (size_t i = 0; i < COUNT(many); i++) many[i] = "a";
  const struct {
    const char *phase;
    tp_match match;
    tp_status want;
    const char *words;
  } cases[] = {
      {"turn.intake", {LIST(tool, "a")}, TP_ERR_MATCH_KEY, "tool"},
      {"tool.pre", {.text_prefix = "a"}, TP_ERR_MATCH_KEY, "text"},
      {"tool.pre", {.duration_ms_min = 1}, TP_ERR_MATCH_KEY, "duration_ms"},
      {"tool.pre", {LIST(changed_path, "a")}, TP_ERR_MATCH_KEY, "changed_files"},
      {"tool.pre", {.struct_size = 0}, TP_ERR_USAGE, "neither a condition"},
      {"tool.pre", {.tool_count = 1}, TP_ERR_USAGE, "tools has 1 patterns"},
      {"tool.pre", {LIST(tool, "a", NULL)}, TP_ERR_USAGE, "tools[1] is NULL"},
      {"tool.pre", {LIST(agent, long_pattern)}, TP_ERR_TOO_LARGE, "256 bytes"},
      {"tool.pre", {.modes = many, .mode_count = COUNT(many)}, TP_ERR_TOO_LARGE, "65 patterns"},
      {"tool.pre", {LIST(mode, "\xc0\x80")}, TP_ERR_UTF8, "modes[0]"},
      {"turn.intake", {.text_prefix = long_pattern}, TP_ERR_TOO_LARGE, "text_prefix"},
      {"tool.post", {.duration_ms_min = -1}, TP_ERR_USAGE, "negative"},
      {"tool.pre", {LIST(tool, "a"), .matches = ask_function}, TP_ERR_USAGE, "description"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {.runtime = open_runtime(NULL)};
    tp_match match = cases[i].match;
    tp_fault fault = {0};
    match.struct_size = sizeof match;
    match.destroy = count_end;
    match.ctx = &w;
    tp_status status = add(&w, cases[i].phase, &match, &fault);
    if (status != cases[i].want || !strstr(fault.message, cases[i].words))
      fail_msg("%s: %s: %s", cases[i].words, tp_status_name(status), fault.message);
    close_runtime(w.runtime);
    assert_int_equal(w.ends, 0); /* a refused hook takes nothing */
  }
}
