/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of other hosts that change the arguments or the result of a call: with one program for a call, and only when
 * the operator has granted it. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "tests/support/json_text.h"
#include "tests/support/json_value.h"
#include "tests/support/world.h"

/* ---- a tool that says what it was called with ---- */

typedef struct world {
  WORLD;
  bool fails;
} world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  const world *w = ctx;
  char text[512] = "ran ";
  char *json = json_text(tp_tool_run_arguments(run));
  strncat(text, json, sizeof text - strlen(text) - 1);
  free(json);
  return w->fails ? tp_tool_error(run, tp_text_of(text)) : tp_tool_ok(run, tp_text_of(text));
}

static tp_hooks_options options_with(tp_grant grants) {
  tp_hooks_options options = hooks_options();
  options.grants = grants;
  return options;
}

static tp_status read_with(tp_runtime *runtime, tp_grant grants, tp_hooks **ret_hooks, tp_fault *fault) {
  tp_hooks_options options = options_with(grants);
  return read_hooks(runtime, &options, ret_hooks, fault);
}

static void open_world(world *w) {
  const tp_tool tool = {
      .struct_size = sizeof tool, .name = "shell", .run = run_tool, .ctx = w, .placement = TP_PLACEMENT_INLINE};
  tp_hooks_options options = options_with(TP_GRANT_REWRITE);
  world_open(&w->stage, &(world_options){.tools = (const tp_tool *const[]){&tool}, .tool_count = 1});
  commit_hooks(w->runtime, &options);
  world_begin_bare(&w->stage);
}

static tp_tool_result call_tool(world *w, tp_writer *writer) {
  tp_tool_call call = {
      .id = TEXT("c1"), .name = TEXT("shell"), .arguments = json_value(writer, "{'cmd': 'rm', 'dir': '/'}")};
  tp_tool_result result;
  assert_int_equal(tools_run(w->turn, &call, 1, &result, NULL), TP_OK);
  return result;
}

/* How many programs have run, each of which leaves a line. */
static int count_runs(void) {
  char file[160];
  snprintf(file, sizeof file, "%s/runs", directory);
  FILE *stream = fopen(file, "re");
  int lines = 0;
  for (int c; stream && (c = fgetc(stream)) != EOF;) lines += c == '\n';
  if (stream) fclose(stream);
  unlink(file);
  return lines;
}

/* ---- what is rewritten ---- */

#define SPECIFIC(event, fields) "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"" event "\", " fields "}}'"
#define PRE(fields) SPECIFIC("PreToolUse", fields)
#define POST(fields) SPECIFIC("PostToolUse", fields)

typedef struct row {
  const char *event, *script;
  tp_tool_result_kind kind;
  const char *text; /* of the result: a part */
} row;

static const row rows[] = {
    {"PreToolUse", "true", TP_TOOL_OK, "ran {\"cmd\":\"rm\",\"dir\":\"/\"}"},
    {"PreToolUse", PRE("\"updatedInput\": {\"command\": \"ls\"}"), TP_TOOL_OK, "ran {\"cmd\":\"ls\"}"},
    {"PreToolUse", PRE("\"permissionDecision\": \"allow\", \"updatedInput\": {\"command\": \"ls\", \"x\": 1}"),
     TP_TOOL_OK, "ran {\"cmd\":\"ls\",\"x\":1}"},
    {"PreToolUse", PRE("\"updatedInput\": {\"command\": \"ls\"}") "; exit 1", TP_TOOL_OK, "ran {\"cmd\":\"ls\"}"},
    {"PreToolUse",
     PRE("\"updatedInput\": {\"command\": \"ls\"}, \"permissionDecision\": \"deny\", "
         "\"permissionDecisionReason\": \"no\""),
     TP_TOOL_DENIED, "no"},
    {"PreToolUse", PRE("\"updatedInput\": {\"command\": \"ls\"}") "; echo no >&2; exit 2", TP_TOOL_DENIED, "no"},
    {"PreToolUse", PRE("\"permissionDecision\": \"ask\", \"updatedInput\": {\"command\": \"ls\"}"), TP_TOOL_DENIED, ""},
    {"PreToolUse", PRE("\"updatedInput\": \"ls\""), TP_TOOL_OK, "ran {\"cmd\":\"rm\""}, /* no answer: fails open */
    {"PreToolUse", PRE("\"updatedInput\": {\"cmd\": \"ls\", \"command\": \"ls\"}"), TP_TOOL_OK, "ran {\"cmd\":\"rm\""},
    {"PreToolUse", "echo no >&2; exit 2", TP_TOOL_DENIED, "no"},
    {"BeforeTool", "echo '{\"hookSpecificOutput\": {\"tool_input\": {\"command\": \"ls\"}}}'", TP_TOOL_OK,
     "ran {\"dir\":\"/\",\"cmd\":\"ls\"}"},
    {"PostToolUse", "true", TP_TOOL_OK, "ran {\"cmd\":\"rm\",\"dir\":\"/\"}"},
    {"PostToolUse", POST("\"updatedToolOutput\": \"hidden\""), TP_TOOL_OK, "hidden"},
    {"PostToolUse", POST("\"updatedToolOutput\": {\"stdout\": \"hidden\", \"stderr\": \"\"}"), TP_TOOL_OK, "hidden"},
    {"PostToolUse", POST("\"updatedMCPToolOutput\": {\"a\": [1]}"), TP_TOOL_OK, "{\"a\":[1]}"},
    {"PostToolUse", POST("\"updatedInput\": {}"), TP_TOOL_OK, "ran"},
    {"PostToolUse", "echo look >&2; exit 2", TP_TOOL_OK, "ran"},
    {"AfterTool", "echo '{\"hookSpecificOutput\": {\"tool_output\": {\"llmContent\": \"hidden\"}}}'", TP_TOOL_OK,
     "hidden"},
    {"AfterTool", "echo '{\"decision\": \"deny\", \"reason\": \"kept back\"}'", TP_TOOL_OK, "kept back"},
    {"AfterTool",
     "echo '{\"decision\": \"block\", \"reason\": \"kept back\", \"hookSpecificOutput\": {\"tool_output\": "
     "\"other\"}}'",
     TP_TOOL_OK, "kept back"},
    {"AfterTool", "echo kept back >&2; exit 2", TP_TOOL_OK, "kept back"},
    {"AfterTool", "exit 2", TP_TOOL_OK, "hook guard gave no reason"},
    {"AfterTool", "echo '{\"decision\": \"allow\", \"reason\": \"fine\"}'", TP_TOOL_OK, "ran {"},
};

static void write_hook(const char *event, const char *script, const char *more) {
  bool is_gemini = strstr(event, "Before") || strstr(event, "After");
  char text[600];
  snprintf(text, sizeof text, "cat > got\necho >> runs\n%s\n", script);
  write_named("guard.sh", text);
  snprintf(text, sizeof text,
           "id: guard\nprotocol: %s\nevent: %s\n%s"
           "tools: {shell: {name: Bash, arguments: {cmd: command}}}\nhandler: {command: [sh, guard.sh]}\n",
           is_gemini ? "gemini" : "claude-code", event, more);
  write_named("a.yaml", text);
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(one_program_rewrites_and_decides) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(rows); i++) {
    const row *r = &rows[i];
    world w = {0};
    write_hook(r->event, r->script, "rewrite: true\n");
    open_world(&w);
    tp_tool_result result = call_tool(&w, writer);
    if (result.kind != r->kind || !memmem(result.text.data, result.text.size, r->text, strlen(r->text)) ||
        (r->kind == TP_TOOL_OK && memcmp(result.text.data, r->text, strlen(r->text)) != 0))
      fail_msg("%s: %s: %s: %.*s", r->event, r->script, tp_tool_result_name(result.kind), (int)result.text.size,
               result.text.data);
    int runs = count_runs();
    if (runs != 1) fail_msg("%s: %s: %d programs", r->event, r->script, runs);
    world_close(&w.stage);
  }
  tp_writer_free(writer);
}

/* One of the two events after a call is for calls that succeeded, the other for calls that failed. */
TEST(result_that_is_an_error_is_of_the_other_event) {
  static const struct {
    const char *event;
    bool fails;
    int runs;
  } cases[] = {{"PostToolUse", true, 0}, {"PostToolUseFailure", true, 1}, {"PostToolUseFailure", false, 0}};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {.fails = cases[i].fails};
    write_hook(cases[i].event, "true", "rewrite: true\n");
    open_world(&w);
    (void)call_tool(&w, writer);
    assert_int_equal(count_runs(), cases[i].runs);
    world_close(&w.stage);
  }
  tp_writer_free(writer);
}

/* The second sees what the first made of it, also when it ends first. */
TEST(rewrites_follow_the_plan_and_guards_see_the_last) {
  write_hook("PreToolUse", "true", "rewrite: true\n");
  write_named("a.sh", "sleep 0.2\n" PRE("\"updatedInput\": {\"command\": \"first\"}") "\n");
  write_named("b.sh", "grep -q first && " PRE("\"updatedInput\": {\"command\": \"second\"}") "\n");
  write_named("c.sh", "cat > got\n");
  static const char head[] =
      "protocol: claude-code\nevent: PreToolUse\n"
      "tools: {shell: {name: Bash, arguments: {cmd: command}}}\n";
  static const char *const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) {
    char name[16], yaml[400];
    snprintf(name, sizeof name, "%s.yaml", names[i]);
    snprintf(yaml, sizeof yaml, "id: %s\n%s%shandler: {command: [sh, %s.sh]}\n", names[i], head,
             i < 2 ? "rewrite: true\n" : "", names[i]);
    write_named(name, yaml);
  }
  world w = {0};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  open_world(&w);
  tp_tool_result result = call_tool(&w, writer);
  assert_text(result.text, "ran {\"cmd\":\"second\"}");
  char file[160], got[1024] = "";
  snprintf(file, sizeof file, "%s/got", directory);
  FILE *stream = fopen(file, "re");
  assert_non_null(stream);
  assert_non_null(fgets(got, sizeof got, stream));
  fclose(stream);
  assert_non_null(strstr(got, "\"tool_input\":{\"command\":\"second\"}"));
  world_close(&w.stage);
  tp_writer_free(writer);
}

/* ---- reminders of the two phases ---- */

TEST(context_goes_to_the_model_from_there_too) {
  static const struct {
    const char *event, *script;
    uint32_t phase;
  } cases[] = {{"PreToolUse", PRE("\"additionalContext\": \"mind the gap\""), TP_PHASE_TOOL_REWRITE},
               {"PostToolUse", POST("\"additionalContext\": \"mind the gap\""), TP_PHASE_TOOL_RESULT},
               {"PostToolUse", "echo mind the gap >&2; exit 2", TP_PHASE_TOOL_RESULT}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {0};
    write_hook(cases[i].event, cases[i].script, "rewrite: true\n");
    open_world(&w);
    const tp_field fields[] = {{.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("shell")},
                               {.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\x80")}};
    tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
    tp_phase_result result = {.struct_size = sizeof result};
    assert_int_equal(tp_phase_run(w.turn, cases[i].phase, &input, &result, NULL), TP_OK);
    assert_int_equal(result.outcome, TP_OK);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_REMINDER), 1);
    assert_text(tp_merged_get(result.merged, TP_CONTRIBUTION_REMINDER, 0)->contribution->text, "mind the gap");
    world_close(&w.stage);
  }
}

/* ---- who may ---- */

TEST(rewriting_needs_the_grant_and_a_place) {
  static const struct {
    const char *event, *more;
    tp_grant grants;
    tp_status status;
    uint32_t line;
    const char *part;
  } cases[] = {
      {"PreToolUse", "rewrite: true\n", 0, TP_ERR_PRIVILEGED, 4, "tp_hooks_options.grants"},
      {"PreToolUse", "rewrite: false\n", 0, TP_OK, 0, ""},
      {"PreToolUse", "rewrite: true\n", TP_GRANT_REWRITE, TP_OK, 0, ""},
      {"PreToolUse", "rewrite: 1\n", TP_GRANT_REWRITE, TP_ERR_MALFORMED, 4, "true or false"},
      {"Stop", "rewrite: true\n", TP_GRANT_REWRITE, TP_ERR_MALFORMED, 4, "nothing that a hook may rewrite"},
      {"PreToolUse", "rewrite: true\nblocking: false\n", TP_GRANT_REWRITE, TP_ERR_MALFORMED, 4, "blocking: true"},
      {"PreToolUse", "rewrite: true\n", TP_GRANT_PRIVILEGED_HOOKS, TP_ERR_PRIVILEGED, 4, "grant rewrite"},
      {"PreToolUse", "rewrite: true\n", 1 << 5, TP_ERR_USAGE, 0, "hooks have no other"},
      {"BeforeModel", "", 0, TP_ERR_PRIVILEGED, 3, "grant privileged_hooks"},
      {"BeforeModel", "", TP_GRANT_REWRITE, TP_ERR_PRIVILEGED, 3, "grant privileged_hooks"},
      {"AfterModel", "", TP_GRANT_PRIVILEGED_HOOKS, TP_OK, 0, ""},
      {"AfterModel", "rewrite: true\n", TP_GRANT_PRIVILEGED_HOOKS, TP_ERR_PRIVILEGED, 4, "grant rewrite"},
      {"AfterModel", "rewrite: true\n", TP_GRANT_PRIVILEGED_HOOKS | TP_GRANT_REWRITE, TP_OK, 0, ""},
      {"BeforeToolSelection", "", TP_GRANT_PRIVILEGED_HOOKS, TP_ERR_MALFORMED, 3, "it needs rewrite: true"},
      {"BeforeToolSelection", "rewrite: true\n", TP_GRANT_PRIVILEGED_HOOKS | TP_GRANT_REWRITE, TP_OK, 0, ""},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_hooks *hooks = NULL;
    tp_fault fault = {0};
    write_hook(cases[i].event, "true", cases[i].more);
    assert_int_equal(read_with(runtime, cases[i].grants, &hooks, &fault), cases[i].status);
    if (cases[i].status == TP_OK) tp_hooks_free(hooks);
    else if (fault.line != cases[i].line || !strstr(fault.message, cases[i].part))
      fail_msg("%zu: %u: %s", i, fault.line, fault.message);
  }
  tp_hooks *hooks;
  tp_fault fault = {0};
  write_named("a.yaml", "id: a\nevent: tool.pre\nrewrite: true\nhandler: {command: ./x}\n");
  assert_int_equal(read_with(runtime, TP_GRANT_REWRITE, &hooks, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "belongs to a protocol"));
  tp_runtime_free(runtime);
}

static bool note_info(void *ctx, const tp_hook_info *info) {
  *(tp_hook_info *)ctx = *info;
  return true;
}

TEST(listing_says_who_rewrites) {
  tp_runtime *runtime = open_runtime(NULL);
  for (int i = 0; i < 2; i++) {
    tp_hooks *hooks;
    tp_hook_info info;
    write_hook("PostToolUse", "true", i ? "rewrite: true\n" : "");
    assert_int_equal(read_with(runtime, TP_GRANT_REWRITE, &hooks, NULL), TP_OK);
    assert_int_equal(tp_hooks_each(hooks, note_info, &info), 1);
    assert_int_equal(info.rewrites, i);
    assert_int_equal(info.phase, i ? TP_PHASE_TOOL_RESULT : TP_PHASE_TOOL_POST);
    tp_hooks_free(hooks);
  }
  tp_runtime_free(runtime);
}
