/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of other hosts: the input of their programs, the meaning of exit code and result, matchers, names of tools, and
 * files that name a protocol. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/declared/hook_protocol.h"
#include "tests/support/hook_files.h"
#include "tests/support/json_value.h"

static const char shell_call[] = "{'command': 'rm -rf /', 'cmd': 'x'}";

static const char batch_calls[] =
    "[{'id': 'c1', 'tool': 'shell', 'arguments': {'cmd': 7}, 'kind': 'ok', 'result': 'a b'},"
    " {'id': 'c2', 'tool': 'write', 'malformed': true, 'kind': 'invalid_arguments', 'result': 'no'}]";

/* Runs the phase of an event with what it carries. */
static tp_phase_result run_event(tp_turn *turn, const char *event, const char *tool, tp_writer *writer) {
  tp_field fields[5];
  size_t count = 0;
  uint32_t phase = strstr(event, "Batch")                                    ? TP_PHASE_TOOL_BATCH
                   : strstr(event, "PreComp")                                ? TP_PHASE_TURN_PRE_COMPACTION
                   : strstr(event, "Pre") || strstr(event, "BeforeTool")     ? TP_PHASE_TOOL_PRE
                   : strstr(event, "PostTool") || strstr(event, "AfterTool") ? TP_PHASE_TOOL_POST
                   : strstr(event, "Prompt") || strstr(event, "BeforeAgent") ? TP_PHASE_TURN_INTAKE
                   : strstr(event, "SessionStart")                           ? TP_PHASE_SESSION_START
                   : strstr(event, "SessionEnd")                             ? TP_PHASE_SESSION_END
                                                                             : TP_PHASE_TURN_STOP;
  bool is_tool = phase == TP_PHASE_TOOL_PRE || phase == TP_PHASE_TOOL_POST;
  const tp_field text = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("hello")};
  const tp_field status = {.id = TP_FIELD_STATUS,
                           .kind = TP_FIELD_KIND_TEXT,
                           .text = tp_text_of(strstr(event, "Failure") ? "failure" : "success")};
  const tp_field result = {.id = TP_FIELD_RESULT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("done")};
  if (phase == TP_PHASE_TURN_INTAKE) fields[count++] = text;
  if (phase == TP_PHASE_TURN_STOP) {
    fields[count++] =
        (tp_field){.id = TP_FIELD_RESPONSE_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("all done")};
    fields[count++] = (tp_field){.id = TP_FIELD_STOP_DENIALS, .kind = TP_FIELD_KIND_INT, .number = tool[0] != '\0'};
  }
  if (phase == TP_PHASE_TOOL_BATCH) {
    fields[count++] =
        (tp_field){.id = TP_FIELD_CALLS, .kind = TP_FIELD_KIND_VALUE, .text = json_value(writer, batch_calls)};
  }
  if (is_tool) {
    fields[count++] = (tp_field){.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(tool)};
    fields[count++] =
        (tp_field){.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = json_value(writer, shell_call)};
    fields[count++] = (tp_field){.id = TP_FIELD_CALL_ID, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("toolu_7")};
  }
  if (phase == TP_PHASE_TOOL_POST) {
    fields[count++] = status;
    fields[count++] = result;
  }
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = count, .budget_ms = 30000};
  tp_phase_result got = {.struct_size = sizeof got};
  assert_int_equal(tp_phase_run(turn, phase, &input, &got, NULL), TP_OK);
  return got;
}

/* ---- exit code x stdout ---- */

#define PRE "PreToolUse"
#define SAYS(fields) "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\", " fields "}}'"
#define DENIES SAYS("\"permissionDecision\": \"deny\", \"permissionDecisionReason\": \"no\"")

/* One row per case. The result is a verdict (allow, deny or ask), done (no verdict), or failed (no answer). */
typedef struct row {
  const char *event, *script, *judged;
  const char *reason, *reminder; /* NULL: any; "": none */
} row;

static const row rows[] = {
    /* exit code 0 */
    {PRE, "exit 0", "done", NULL, ""},
    {PRE, "echo some text", "done", NULL, ""},
    {PRE, "echo '[1]'", "done", NULL, ""},
    {PRE, "echo '\"text\"'", "done", NULL, ""},
    {PRE, "echo '{\"decision\": \"blo'", "failed", NULL, NULL},
    {PRE, "echo '{} {}'", "failed", NULL, NULL},
    {PRE, "echo '{}'", "done", NULL, ""},
    {PRE, "echo '{\"suppressOutput\": true, \"mine\": 1}'", "done", NULL, ""},
    {PRE, DENIES, "deny", "no", NULL},
    {PRE, SAYS("\"permissionDecision\": \"ask\", \"permissionDecisionReason\": \"sure?\""), "ask", "sure?", NULL},
    {PRE, SAYS("\"permissionDecision\": \"allow\""), "allow", NULL, ""},
    {PRE, SAYS("\"permissionDecision\": \"defer\""), "deny", NULL, NULL},
    {PRE, SAYS("\"updatedInput\": {\"command\": \"ls\"}"), "deny", NULL, NULL},
    {PRE, SAYS("\"permissionDecision\": \"allow\", \"updatedInput\": {}"), "deny", NULL, NULL},
    {PRE, SAYS("\"additionalContext\": \"mind the gap\""), "done", NULL, "mind the gap"},
    {PRE, "echo '{\"decision\": \"block\", \"reason\": \"old form\"}'", "deny", "old form", NULL},
    {PRE, "echo '{\"decision\": \"approve\"}'", "allow", NULL, ""},
    {PRE, "echo '{\"continue\": false, \"stopReason\": \"halt\"}'", "deny", "halt", NULL},
    {PRE, "echo '{\"continue\": false, \"decision\": \"approve\"}'", "deny", NULL, NULL},
    {PRE, "echo '{\"additionalContext\": \"top level\"}'", "done", NULL, ""},
    {PRE, "echo '{\"systemMessage\": \"for people\"}'", "done", NULL, ""},
    {PRE, "echo '{\"permissionDecision\": \"deny\"}'", "failed", NULL, ""},
    {PRE, "echo '{\"permission\": \"deny\"}'", "failed", NULL, ""},
    {PRE, "echo '{\"Decision\": \"block\"}'", "failed", NULL, ""},
    {PRE, "echo '{\"hookspecificoutput\": {}}'", "failed", NULL, ""},
    {PRE, "echo '{\"permission\": \"deny\", \"decision\": \"approve\"}'", "allow", NULL, ""},
    {PRE, "echo '{\"permission\": \"deny\"}' >&2; exit 2", "deny", NULL, ""},
    /* an object that fails the schema */
    {PRE, "echo '{\"decision\": \"perhaps\"}'", "failed", NULL, NULL},
    {PRE, "echo '{\"continue\": \"no\"}'", "failed", NULL, NULL},
    {PRE, "echo '{\"reason\": 7}'", "failed", NULL, NULL},
    {PRE, "echo '{\"hookSpecificOutput\": {\"permissionDecision\": \"deny\"}}'", "failed", NULL, NULL},
    {PRE, "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"Stop\", \"permissionDecision\": \"deny\"}}'", "failed",
     NULL, NULL},
    {PRE, SAYS("\"permissionDecision\": \"never\""), "failed", NULL, NULL},
    /* an answer that is not exactly one object */
    {PRE, "echo shell ready; " DENIES, "failed", NULL, NULL},
    {PRE, "printf 'debug: '; " DENIES, "failed", NULL, NULL},
    {PRE, "printf '\\033[0m'; " DENIES, "failed", NULL, NULL},
    {PRE, "printf '\\357\\273\\277'; " DENIES, "failed", NULL, NULL},
    {PRE, DENIES "; echo done", "failed", NULL, NULL},
    {PRE, "echo '{}'; " DENIES, "failed", NULL, NULL},
    {PRE, DENIES "; " DENIES, "failed", NULL, NULL},
    {PRE, "printf '['; " DENIES "; printf ']'", "failed", NULL, NULL},
    {PRE, DENIES " | head -c 60", "failed", NULL, NULL},
    {PRE, "echo '{\"decision\": \"block\",}'", "failed", NULL, NULL},
    {PRE, "echo \"{'decision': 'block', 'reason': 'no'}\"", "failed", NULL, NULL},
    {PRE, "echo '\"{\\\\\"decision\\\\\": \\\\\"block\\\\\"}\"'", "failed", NULL, NULL},
    {PRE, "echo '```json'; " DENIES "; echo '```'", "failed", NULL, NULL},
    {"Stop", "echo note; echo '{\"decision\": \"block\", \"reason\": \"finish\"}'", "failed", NULL, NULL},
    {"UserPromptSubmit", "echo note; echo '{\"decision\": \"block\", \"reason\": \"no\"}'", "failed", NULL, NULL},
    {"UserPromptSubmit", "echo the decision: go on", "done", NULL, "the decision: go on"},
    {"SessionStart", "echo 'set {\"a\": 1}'", "done", NULL, "set {\"a\": 1}"},
    {"BeforeTool", "echo note; echo '{\"decision\": \"deny\", \"reason\": \"no\"}'", "failed", NULL, NULL},
    /* exit code 2 */
    {PRE, "echo no >&2; exit 2", "deny", "no", NULL},
    {PRE, "exit 2", "deny", "hook guard gave no reason", NULL},
    {PRE, "echo text; echo no >&2; exit 2", "deny", "no", NULL},
    {PRE, "echo '{\"decision\": \"block\", \"reason\": \"of the object\"}'; echo no >&2; exit 2", "deny",
     "of the object", NULL},
    {PRE, "echo '{\"decision\": \"approve\"}'; echo no >&2; exit 2", "deny", "no", NULL},
    {PRE, SAYS("\"permissionDecision\": \"allow\"") "; echo no >&2; exit 2", "deny", "no", NULL},
    {PRE, "echo '{\"decision\": \"perhaps\"}'; echo no >&2; exit 2", "deny", "no", NULL},
    {PRE, "echo '{\"reason\": \"in json\"}' >&2; exit 2", "deny", "{\"reason\": \"in json\"}", NULL},
    /* any other */
    {PRE, "echo no >&2; exit 1", "failed", NULL, NULL},
    {PRE, "echo text; exit 1", "failed", NULL, NULL},
    {PRE, "exit 127", "failed", NULL, NULL},
    {PRE, "no_such_program_at_all", "failed", NULL, NULL},
    {PRE, "kill -KILL $$", "failed", NULL, NULL},
    {PRE, "echo '{\"decision\": \"perhaps\"}'; exit 1", "failed", NULL, NULL},
    {PRE, DENIES "; exit 1", "deny", "no", NULL},
    {PRE, SAYS("\"permissionDecision\": \"allow\"") "; exit 1", "allow", NULL, ""},
    {PRE, DENIES "; kill -KILL $$", "deny", "no", NULL},
    {PRE, "sleep 100", "failed", NULL, NULL},
    {PRE, DENIES "; sleep 100", "failed", NULL, NULL},
    /* the prompt */
    {"UserPromptSubmit", "echo the date is known", "done", NULL, "the date is known"},
    {"UserPromptSubmit", "echo no >&2; exit 2", "deny", "no", NULL},
    {"UserPromptSubmit", "echo '{\"decision\": \"block\", \"reason\": \"secret\"}'", "deny", "secret", NULL},
    {"UserPromptSubmit", "echo '{\"continue\": false, \"stopReason\": \"halt\"}'", "deny", "halt", NULL},
    {"UserPromptSubmit",
     "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"UserPromptSubmit\", \"additionalContext\": \"more\"}}'",
     "done", NULL, "more"},
    {"UserPromptSubmit", "exit 1", "failed", NULL, NULL},
    /* after a call: it has run */
    {"PostToolUse", "echo text", "done", NULL, ""},
    {"PostToolUse", "echo look >&2; exit 2", "done", NULL, "look"},
    {"PostToolUse", "echo '{\"decision\": \"block\", \"reason\": \"tests fail\"}'", "done", NULL, "tests fail"},
    {"PostToolUse",
     "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PostToolUse\", \"additionalContext\": \"formatted\"}}'",
     "done", NULL, "formatted"},
    {"PostToolUse", "exit 1", "failed", NULL, NULL},
    {"PostToolUseFailure", "echo look >&2; exit 2", "done", NULL, "look"},
    {"PostToolBatch", "echo text", "done", NULL, ""},
    {"PostToolBatch", "echo enough >&2; exit 2", "deny", "enough", NULL},
    {"PostToolBatch", "echo '{\"decision\": \"block\", \"reason\": \"enough\"}'", "deny", "enough", NULL},
    {"PostToolBatch", "echo '{\"continue\": false, \"stopReason\": \"halt\"}'", "deny", "halt", NULL},
    {"PostToolBatch",
     "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PostToolBatch\", \"additionalContext\": \"more\"}}'", "done",
     NULL, "more"},
    {"PostToolBatch", "exit 1", "failed", NULL, NULL},
    /* the session, and the end of a turn */
    {"SessionStart", "echo branch main", "done", NULL, "branch main"},
    {"SessionStart", "echo no >&2; exit 2", "done", NULL, ""},
    {"SessionEnd", "echo no >&2; exit 2", "done", NULL, ""},
    {"Stop", "exit 0", "done", NULL, ""},
    {"Stop", "echo go on >&2; exit 2", "deny", "go on", ""},
    {"Stop", "echo '{\"decision\": \"block\", \"reason\": \"finish\"}'", "deny", "finish", ""},
    {"Stop", "echo '{\"decision\": \"block\", \"reason\": \"finish\"}'; exit 1", "deny", "finish", ""},
    {"Stop", "echo '{\"decision\": \"approve\"}'", "allow", NULL, ""},
    {"Stop", "echo '{\"continue\": false, \"decision\": \"block\", \"reason\": \"finish\"}'", "done", NULL, ""},
    {"Stop", "echo '{\"continue\": false}'; echo go on >&2; exit 2", "deny", "go on", ""},
    {"Stop", "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"Stop\", \"additionalContext\": \"tests fail\"}}'",
     "deny", "tests fail", ""},
    {"Stop", "exit 1", "failed", NULL, NULL},
    {"PreCompact", "exit 0", "done", NULL, ""},
    {"PreCompact", "echo keep it >&2; exit 2", "deny", "keep it", ""},
    {"PreCompact", "echo '{\"decision\": \"block\", \"reason\": \"keep it\"}'", "deny", "keep it", ""},
    {"PreCompact", "echo '{\"continue\": false}'", "done", NULL, ""},
    {"PreCompact", "exit 1", "failed", NULL, NULL},
    {"AfterAgent", "echo '{\"decision\": \"deny\", \"reason\": \"again\"}'", "deny", "again", ""},
    /* the other protocol */
    {"BeforeTool", "echo '{\"decision\": \"deny\", \"reason\": \"no\"}'", "deny", "no", NULL},
    {"BeforeTool", "echo '{\"decision\": \"block\", \"reason\": \"no\"}'", "deny", "no", NULL},
    {"BeforeTool", "echo '{\"decision\": \"allow\"}'", "allow", NULL, ""},
    {"BeforeTool", "echo '{\"decision\": \"ask\", \"reason\": \"sure?\"}'", "ask", "sure?", NULL},
    {"BeforeTool", "echo no >&2; exit 2", "deny", "no", NULL},
    {"BeforeTool", "exit 1", "failed", NULL, NULL},
    {"BeforeTool", "echo '{\"hookSpecificOutput\": {\"tool_input\": {\"command\": \"ls\"}}}'", "deny", NULL, NULL},
    {"AfterTool", "echo '{\"decision\": \"deny\", \"reason\": \"hide it\"}'", "done", NULL, "hide it"},
    {"AfterTool", "echo '{\"hookSpecificOutput\": {\"additionalContext\": \"more\"}}'", "done", NULL, "more"},
};

static const char *protocol_of(const char *event) {
  return strstr(event, "Before") || strstr(event, "After") ? "gemini" : "claude-code";
}

static const char *judged(const tp_phase_result *result) {
  const tp_run_record *record = tp_phase_result_run(result, 0);
  if (record->state != TP_STATE_SUCCEEDED) return "failed";
  return record->verdict > TP_VERDICT_NONE ? tp_verdict_name((tp_verdict)record->verdict) : "done";
}

static void check_reminder(const row *r, const tp_phase_result *result) {
  size_t count = result->merged ? tp_merged_count(result->merged, TP_CONTRIBUTION_REMINDER) : 0;
  if (count != (r->reminder[0] ? 1 : 0)) fail_msg("%s: %zu reminders", r->script, count);
  if (count == 0) return;
  tp_text text = tp_merged_get(result->merged, TP_CONTRIBUTION_REMINDER, 0)->contribution->text;
  if (text.size != strlen(r->reminder) || memcmp(text.data, r->reminder, text.size) != 0)
    fail_msg("%s: %.*s", r->script, (int)text.size, text.data);
}

static tp_phase_result run_row(const row *r, const char *more, tp_runtime **ret_runtime, tp_turn **ret_turn,
                               tp_writer *writer) {
  char script[512], yaml[512];
  snprintf(script, sizeof script, "%s\n", r->script);
  write_named("guard.sh", script);
  snprintf(yaml, sizeof yaml,
           "id: guard\nprotocol: %s\nevent: %s\n%shandler: {command: [sh, guard.sh], "
           "timeout_ms: %d}\n",
           protocol_of(r->event), r->event, more, strstr(r->script, "sleep") ? 200 : 20000);
  write_named("a.yaml", yaml);
  *ret_runtime = open_with_hooks(NULL);
  *ret_turn = begin_bare(*ret_runtime, 60000);
  return run_event(*ret_turn, r->event, "Bash", writer);
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(what_is_kept_of_a_stack_trace_is_its_error) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  write_named("guard.sh", "printf 'Traceback (most recent call last):\\n  x\\nE: 1\\n \\n' >&2\nexit 1\n");
  write_named("a.yaml",
              "id: guard\nprotocol: claude-code\nevent: PreToolUse\nfailure: required\nkeep_stderr: true\n"
              "handler: {command: [sh, guard.sh], timeout_ms: 20000}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_event(turn, "PreToolUse", "Bash", writer);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_text(result.reason, "exit code 1: E: 1");
  tp_turn_end(turn);
  close_runtime(runtime);
  tp_writer_free(writer);
}

TEST(exit_code_and_stdout_mean_what_they_mean_there) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const row *r = &rows[i];
    tp_runtime *runtime;
    tp_turn *turn;
    tp_phase_result result = run_row(r, "", &runtime, &turn, writer);
    bool denied = strcmp(r->judged, "deny") == 0;
    if (strcmp(judged(&result), r->judged) != 0) fail_msg("%s: %s: %s", r->event, r->script, judged(&result));
    if (result.outcome != (denied ? TP_ERR_DENIED : TP_OK)) fail_msg("%s: the phase ended otherwise", r->script);
    if (r->reason) assert_text(result.reason, r->reason);
    if (r->reminder) check_reminder(r, &result);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  tp_writer_free(writer);
}

/* `failure: required` is that host's onFailure: block. */
TEST(a_guard_that_gives_no_answer_denies_when_it_fails_closed) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].judged, "failed") != 0 || strcmp(rows[i].event, PRE) != 0) continue;
    tp_runtime *runtime;
    tp_turn *turn;
    tp_phase_result result = run_row(&rows[i], "failure: required\n", &runtime, &turn, writer);
    if (result.outcome != TP_ERR_DENIED) fail_msg("%s: %s", rows[i].script, tp_status_name(result.outcome));
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  tp_writer_free(writer);
}

/* ---- standard input and environment ---- */

/* @ stands for the directory, # for the turn's id. */
static void assert_got(const char *wanted) {
  char got[4096], filled[4096];
  size_t used = 0;
  read_back("got", got, sizeof got);
  char *turn = strstr(got, "\"prompt_id\":\"turn-");
  if (turn) {
    char *end = strchr(turn + 13, '"');
    memmove(turn + 13, end, strlen(end) + 1);
  }
  for (; *wanted; wanted++) {
    if (*wanted == '@') used += (size_t)snprintf(filled + used, sizeof filled - used, "%s", directory);
    else filled[used++] = *wanted;
  }
  filled[used] = '\0';
  assert_string_equal(got, filled);
}

TEST(a_program_gets_one_line_with_the_fields_of_its_host) {
  static const struct {
    const char *event, *tool, *got;
  } gets[] = {
      {PRE, "Bash",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"rm -rf /\",\"cmd\":"
       "\"x\"},\"tool_use_id\":\"toolu_7\"}\n"},
      {PRE, "shell",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"rm -rf /\",\"timeout\":"
       "\"x\"},\"tool_use_id\":\"toolu_7\"}\n"},
      {"PostToolUse", "shell",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"PostToolUse\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"rm -rf "
       "/\",\"timeout\":"
       "\"x\"},\"tool_use_id\":\"toolu_7\",\"tool_response\":{\"stdout\":\"done\",\"stderr\":\"\",\"interrupted\":"
       "false,\"isImage\":false}}\n"},
      {"PostToolUseFailure", "other",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"PostToolUseFailure\",\"tool_name\":\"other\",\"tool_input\":{\"command\":\"rm -rf /\","
       "\"cmd\":\"x\"},\"tool_use_id\":\"toolu_7\",\"error\":\"done\",\"is_interrupt\":false}\n"},
      {"UserPromptSubmit", "",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"UserPromptSubmit\",\"prompt\":\"hello\"}\n"},
      {"SessionStart", "",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"hook_event_name\":\"SessionStart\","
       "\"source\":\"startup\"}\n"},
      {"SessionEnd", "",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"hook_event_name\":"
       "\"SessionEnd\",\"reason\":\"other\"}\n"},
      {"Stop", "",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"Stop\",\"stop_hook_active\":false,\"last_assistant_message\":\"all done\"}\n"},
      {"PostToolBatch", "",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"PostToolBatch\",\"tool_calls\":[{\"tool_name\":\"Bash\",\"tool_input\":{\"timeout\":7},"
       "\"tool_use_id\":\"c1\",\"tool_response\":\"a b\"},{\"tool_name\":\"Write\",\"tool_input\":{},"
       "\"tool_use_id\":\"c2\",\"tool_response\":\"no\"}]}\n"},
      {"PreCompact", "",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"hook_event_name\":"
       "\"PreCompact\",\"trigger\":\"auto\",\"custom_instructions\":\"\"}\n"},
      {"Stop", "(again)",
       "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":\"default\","
       "\"hook_event_name\":\"Stop\",\"stop_hook_active\":true,\"last_assistant_message\":\"all done\"}\n"},
  };
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < sizeof gets / sizeof gets[0]; i++) {
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "id: keep\nprotocol: claude-code\nevent: %s\n"
             "tools: {shell: {name: Bash, arguments: {cmd: timeout}}, write: Write}\n"
             "handler: {command: [sh, -c, 'cat > got']}\n",
             gets[i].event);
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    assert_int_equal(run_event(turn, gets[i].event, gets[i].tool, writer).outcome, TP_OK);
    assert_got(gets[i].got);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  tp_writer_free(writer);
}

TEST(paths_of_files_are_absolute_and_the_project_is_in_the_environment) {
  write_named("a.yaml",
              "id: keep\nprotocol: claude-code\nevent: PreToolUse\nplugin_root: /plug\n"
              "handler: {command: [sh, -c, 'cat > got; echo $CLAUDE_PROJECT_DIR $CLAUDE_PLUGIN_ROOT >> got']}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_field fields[] = {{.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("Write")},
                       {.id = TP_FIELD_ARGUMENTS,
                        .kind = TP_FIELD_KIND_VALUE,
                        .text = json_value(writer, "{'file_path': 'a/b.c', 'content': ''}")}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, NULL), TP_OK);
  assert_got(
      "{\"session_id\":\"\",\"transcript_path\":\"\",\"cwd\":\"@\",\"prompt_id\":\"\",\"permission_mode\":"
      "\"default\",\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Write\",\"tool_input\":{\"file_path\":"
      "\"@/a/b.c\",\"content\":\"\"}}\n@ /plug\n");
  tp_writer_free(writer);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- matchers ---- */

TEST_WITH(a_matcher_reads_as_it_does_there, NULL, NULL) {
  static const struct {
    const char *matcher, *name;
    bool fits;
  } cases[] = {
      {"", "Bash", true},
      {"*", "Bash", true},
      {"Bash", "Bash", true},
      {"Bash", "bash", false},
      {"Bash", "BashOutput", false},
      {"Edit|Write", "Write", true},
      {"Edit | Write", "Write", true},
      {"Edit, Write", "Write", true},
      {"Edit|Write", "Read", false},
      {"mcp__memory", "mcp__memory__add", false},
      {"mcp__memory__.*", "mcp__memory__add", true},
      {"Edit.*", "NotebookEdit", true},
      {"^Edit.*", "NotebookEdit", false},
      {"^Edit$", "Edit", true},
      {"mcp__*", "a_mcp_b", true},
      {"Write|Multi.*", "MultiEdit", true},
      {"(?:Ba|A)sh", "Ash", true},
      {"\\d+", "a1", true},
      {"\\d+", "a", false},
      {"[\\w]+\\.run", "shell.run", true},
      {"[^a-z]x", "ax", false},
      {"a+?b", "aab", true},
      {"\\bEdit\\b", "Edit", true},
      {"\\bEdit\\b", "MultiEdit", false},
      {"Task", "Agent", true},
      {"Agent", "Task", true},
      {"^Task$", "Agent", true},
      {"Task", "Bash", false},
      {"my-tool", "my-tool", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tp__matcher matcher;
    const char *why = "";
    if (!tp__matcher_init(&matcher, cases[i].matcher, &why)) fail_msg("%s: %s", cases[i].matcher, why);
    if (tp__matcher_fits(&matcher, tp_text_of(cases[i].name)) != cases[i].fits)
      fail_msg("%s of %s", cases[i].matcher, cases[i].name);
    tp__matcher_fini(&matcher);
  }
  static const char *const refused[] = {"*.py", "+",          "(a",     "a)", "[a",    "a\\",  "(?=a)", "(?<!a)b",
                                        "a{2",  "(a{2}b){2}", "\\1(a)", "[]", "[\\]]", "\\cA", "a**"};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    tp__matcher matcher;
    const char *why = "";
    if (tp__matcher_init(&matcher, refused[i], &why)) fail_msg("%s was taken", refused[i]);
    assert_true(why[0] != '\0');
  }
}

TEST(a_hook_runs_for_the_names_that_tools_have_there) {
  static const struct {
    const char *event, *tool;
    bool runs;
  } cases[] = {{PRE, "shell", true},
               {PRE, "Bash", true},
               {PRE, "Read", false},
               {"PostToolUse", "shell", true},
               {"PostToolUseFailure", "shell", true}};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "id: a\nprotocol: claude-code\nevent: %s\nmatch: {matcher: 'Bash|Edit'}\n"
             "tools: {shell: Bash}\nhandler: {command: ['true']}\n",
             cases[i].event);
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = run_event(turn, cases[i].event, cases[i].tool, writer);
    bool ran = tp_phase_result_run(&result, 0)->state == TP_STATE_SUCCEEDED;
    if (ran != cases[i].runs) fail_msg("%s of %s", cases[i].event, cases[i].tool);
    const char *other = strstr(cases[i].event, "Failure") ? "PostToolUse" : "PostToolUseFailure";
    if (strcmp(cases[i].event, PRE) != 0) {
      result = run_event(turn, other, cases[i].tool, writer);
      assert_run(&result, "a", TP_STATE_SKIPPED, TP_REASON_MATCH);
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  tp_writer_free(writer);
}

/* What the events that no tool is in are matched against. */
TEST(a_matcher_of_another_event_is_about_its_source) {
  static const struct {
    const char *event, *matcher;
    bool runs;
  } cases[] = {{"SessionStart", "startup", true},     {"SessionStart", "startup|resume", true},
               {"SessionStart", "resume", false},     {"SessionStart", "start.*", true},
               {"SessionEnd", "other", true},         {"SessionEnd", "clear|logout", false},
               {"PreCompact", "auto", true},          {"PreCompact", "manual", false},
               {"SessionStart", "*", true},           {"SessionEnd", "''", true},
               {"PreCompact", "'manual|auto'", true}, {"SessionStart", "Startup", false}};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    char yaml[256];
    snprintf(yaml, sizeof yaml,
             "id: a\nprotocol: claude-code\nevent: %s\nmatch:\n  matcher: %s%s%s\nhandler: {command: ['true']}\n",
             cases[i].event, cases[i].matcher[0] == '*' ? "'" : "", cases[i].matcher,
             cases[i].matcher[0] == '*' ? "'" : "");
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = run_event(turn, cases[i].event, "", writer);
    bool ran = tp_phase_result_run(&result, 0)->state == TP_STATE_SUCCEEDED;
    if (ran != cases[i].runs) fail_msg("%s of %s", cases[i].matcher, cases[i].event);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  tp_writer_free(writer);
}

/* ---- several hooks, caps and limits ---- */

#define ALLOWS SAYS("\"permissionDecision\": \"allow\", \"permissionDecisionReason\": \"fine\"")
#define ASKS SAYS("\"permissionDecision\": \"ask\", \"permissionDecisionReason\": \"sure?\"")
#define DEFERS SAYS("\"permissionDecision\": \"defer\"")
#define CONTEXT(text) SAYS("\"additionalContext\": \"" text "\"")

/* Two guards of one call, the second after the first. When the first denies, the call is decided, and no further hook
 * starts. */
TEST(the_strictest_of_several_hooks_wins) {
  static const struct {
    const char *scripts[2];
    tp_status outcome;
    tp_verdict verdict;
    const char *reason; /* NULL: any */
    const char *reminders;
    bool both_run;
  } cases[] = {
      {{"exit 0", "exit 0"}, TP_OK, TP_VERDICT_NONE, NULL, "", true},
      {{ALLOWS, "exit 0"}, TP_OK, TP_VERDICT_ALLOW, NULL, "", true},
      {{"exit 0", ALLOWS}, TP_OK, TP_VERDICT_ALLOW, NULL, "", true},
      {{ALLOWS, DENIES}, TP_ERR_DENIED, TP_VERDICT_DENY, "no", "", true},
      {{DENIES, ALLOWS}, TP_ERR_DENIED, TP_VERDICT_DENY, "no", "", false},
      {{ASKS, ALLOWS}, TP_OK, TP_VERDICT_ASK, "sure?", "", true},
      {{ALLOWS, ASKS}, TP_OK, TP_VERDICT_ASK, "sure?", "", true},
      {{ASKS, DENIES}, TP_ERR_DENIED, TP_VERDICT_DENY, "no", "", true},
      {{DENIES, ASKS}, TP_ERR_DENIED, TP_VERDICT_DENY, "no", "", false},
      {{ASKS, DEFERS}, TP_ERR_DENIED, TP_VERDICT_DENY, NULL, "", true},
      {{DEFERS, ALLOWS}, TP_ERR_DENIED, TP_VERDICT_DENY, NULL, "", false},
      {{ALLOWS, "echo stop >&2; exit 2"}, TP_ERR_DENIED, TP_VERDICT_DENY, "stop", "", true},
      {{"exit 1", ALLOWS}, TP_OK, TP_VERDICT_ALLOW, NULL, "", true},
      {{ALLOWS, "exit 1"}, TP_OK, TP_VERDICT_ALLOW, NULL, "", true},
      {{"exit 1", DENIES}, TP_ERR_DENIED, TP_VERDICT_DENY, "no", "", true},
      {{"kill -KILL $$", ASKS}, TP_OK, TP_VERDICT_ASK, "sure?", "", true},
      {{CONTEXT("one"), CONTEXT("two")}, TP_OK, TP_VERDICT_NONE, NULL, "one two ", true},
      {{CONTEXT("one"), ALLOWS}, TP_OK, TP_VERDICT_ALLOW, NULL, "one ", true},
  };
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    for (int j = 0; j < 2; j++) {
      char name[16], text[512];
      snprintf(name, sizeof name, "%c.sh", 'a' + j);
      snprintf(text, sizeof text, "touch ran_%c\n%s\n", 'a' + j, cases[i].scripts[j]);
      write_named(name, text);
      snprintf(name, sizeof name, "%c.yaml", 'a' + j);
      snprintf(text, sizeof text, "id: %c\nprotocol: claude-code\nevent: PreToolUse\nhandler: {command: [sh, %c.sh]}\n",
               'a' + j, 'a' + j);
      write_named(name, text);
    }
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = run_event(turn, PRE, "Bash", writer);
    if (result.outcome != cases[i].outcome || result.verdict != cases[i].verdict)
      fail_msg("case %zu: %s, %s", i, tp_status_name(result.outcome), tp_verdict_name(result.verdict));
    if (cases[i].reason) assert_text(result.reason, cases[i].reason);
    char reminders[64] = "", ran[160];
    for (size_t k = 0; result.merged && k < tp_merged_count(result.merged, TP_CONTRIBUTION_REMINDER); k++) {
      tp_text text = tp_merged_get(result.merged, TP_CONTRIBUTION_REMINDER, k)->contribution->text;
      strncat(reminders, text.data, text.size);
      strcat(reminders, " ");
    }
    assert_string_equal(reminders, cases[i].reminders);
    snprintf(ran, sizeof ran, "%s/ran_b", directory);
    if ((access(ran, F_OK) == 0) != cases[i].both_run) fail_msg("case %zu: whether the second ran", i);
    unlink(ran);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  tp_writer_free(writer);
}

typedef struct answered {
  size_t reminder_bytes;
  bool is_cut;
} answered;

/* Before the answer is given. */
static void keep_answer(void *ctx, const tp_hook_program *program) {
  answered *a = ctx;
  for (size_t i = 0; i < program->outcome->contribution_count; i++) {
    const tp_contribution *one = program->outcome->contributions[i];
    if (one->kind == TP_CONTRIBUTION_REMINDER) a->reminder_bytes = one->text.size;
    if (one->kind == TP_CONTRIBUTION_DIAGNOSTIC && strncmp(one->key.data, "text_cut", one->key.size) == 0)
      a->is_cut = true;
  }
}

TEST(a_text_has_at_most_10000_bytes) {
  static const struct {
    const char *event, *letter;
    int letters;
    size_t kept;
    bool is_text, cut;
  } cases[] = {
      {"UserPromptSubmit", "a", 9999, 9999, false, false},
      {"UserPromptSubmit", "a", 10000, 10000, false, false},
      {"UserPromptSubmit", "a", 10001, 10000, false, true},
      {"UserPromptSubmit", "a", 50000, 10000, true, true},
      {"UserPromptSubmit", "a", 10000, 10000, true, false},
      {"UserPromptSubmit", "\xe2\x82\xac", 4000, 9999, true, true},
      {"SessionStart", "a", 10001, 10000, true, true},
      {PRE, "a", 10001, 10000, false, true},
      {"PostToolUse", "a", 10001, 10000, false, true},
  };
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    static char text[60000];
    char yaml[128];
    size_t size = 0;
    if (!cases[i].is_text)
      size = (size_t)snprintf(text, sizeof text,
                              "{\"hookSpecificOutput\": {\"hookEventName\": \"%s\", \"additionalContext\": \"",
                              cases[i].event);
    for (int k = 0; k < cases[i].letters; k++)
      for (const char *byte = cases[i].letter; *byte; byte++) text[size++] = *byte;
    snprintf(text + size, sizeof text - size, "%s", cases[i].is_text ? "" : "\"}}");
    write_named("text", text);
    snprintf(yaml, sizeof yaml, "id: a\nprotocol: claude-code\nevent: %s\nhandler: {command: [cat, text]}\n",
             cases[i].event);
    write_named("a.yaml", yaml);
    answered a = {0};
    tp_hooks *hooks;
    tp_hooks_options options = hooks_options();
    options.on_program = keep_answer;
    options.program_ctx = &a;
    tp_runtime *runtime = open_runtime(NULL);
    assert_int_equal(read_hooks(runtime, &options, &hooks, NULL), TP_OK);
    assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
    tp_turn *turn = begin_bare(runtime, 60000);
    run_event(turn, cases[i].event, "Bash", writer);
    if (a.reminder_bytes != cases[i].kept || a.is_cut != cases[i].cut)
      fail_msg("case %zu: %zu bytes%s", i, a.reminder_bytes, a.is_cut ? ", cut" : "");
    tp_turn_end(turn);
    close_runtime(runtime);
    tp_hooks_free(hooks);
  }
  tp_writer_free(writer);
}

static bool keep_limit(void *ctx, const tp_hook_info *info) {
  *(uint32_t *)ctx = info->limit_ms;
  return false;
}

TEST(a_hook_without_a_limit_has_that_of_its_host) {
  static const struct {
    const char *event, *more;
    uint32_t limit_ms;
  } cases[] = {
      {PRE, "", 600000},
      {"PostToolUse", "", 600000},
      {"PostToolUseFailure", "", 600000},
      {"UserPromptSubmit", "", 30000},
      {"SessionStart", "", 600000},
      {"SessionEnd", "", 1500},
      {"Stop", "", 600000},
      {"PreCompact", "", 600000},
      {"StopFailure", "", 600000},
      {"PostToolBatch", "", 600000},
      {"BeforeTool", "", 60000},
      {"AfterTool", "", 60000},
      {"BeforeAgent", "", 60000},
      {"AfterAgent", "", 60000},
      {PRE, ", timeout_ms: 7", 7},
      {"SessionEnd", ", timeout_ms: 60000", 60000},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(cases); i++) {
    char yaml[256];
    snprintf(yaml, sizeof yaml, "id: a\nprotocol: %s\nevent: %s\nhandler: {command: ['true']%s}\n",
             protocol_of(cases[i].event), cases[i].event, cases[i].more);
    write_named("a.yaml", yaml);
    tp_hooks *hooks;
    uint32_t limit_ms = 0;
    assert_int_equal(read_hooks(runtime, NULL, &hooks, NULL), TP_OK);
    tp_hooks_each(hooks, keep_limit, &limit_ms);
    if (limit_ms != cases[i].limit_ms) fail_msg("%s: %u ms", cases[i].event, limit_ms);
    tp_hooks_free(hooks);
  }
  tp_runtime_free(runtime);
}

/* ---- files ---- */

TEST(a_wrong_file_of_a_protocol_is_refused_with_its_place) {
#define HANDLER "handler: {command: ./x}\n"
  static const struct {
    const char *yaml;
    uint32_t line, column;
    const char *part;
  } cases[] = {
      {"id: a\nprotocol: vim\nevent: PreToolUse\n" HANDLER, 2, 11, "claude-code, gemini"},
      {"id: a\nprotocol: claude-code\nevent: tool.pre\n" HANDLER, 3, 8, "no phase carries"},
      {"id: a\nprotocol: claude-code\nevent: TaskCreated\n" HANDLER, 3, 8, "no phase carries"},
      {"id: a\nprotocol: claude-code\nevent: BeforeTool\n" HANDLER, 3, 8, "no phase carries"},
      {"id: a\nevent: tool.pre\nmatch: {matcher: Bash}\n" HANDLER, 3, 18, "belongs to a protocol"},
      {"id: a\nevent: tool.pre\ntools: {a: b}\n" HANDLER, 3, 8, "belongs to a protocol"},
      {"id: a\nevent: tool.pre\nplugin_root: /x\n" HANDLER, 3, 14, "belongs to a protocol"},
      {"id: a\nprotocol: claude-code\nevent: PreToolUse\nmatch: {matcher: '(?=a)'}\n" HANDLER, 4, 18, "(?: is known"},
      {"id: a\nprotocol: claude-code\nevent: UserPromptSubmit\nmatch: {matcher: x}\n" HANDLER, 4, 18, "has no matcher"},
      {"id: a\nprotocol: claude-code\nevent: PreToolUse\ntools: {a: {nick: b}}\n" HANDLER, 4, 13, "name, arguments"},
      {"id: a\nprotocol: claude-code\nevent: PreToolUse\nverdict: json\n" HANDLER, 4, 10, "our own protocol"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_named("a.yaml", cases[i].yaml);
    tp_hooks *hooks;
    tp_fault fault = {0};
    assert_int_not_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
    if (!strstr(fault.message, cases[i].part) || fault.line != cases[i].line || fault.column != cases[i].column)
      fail_msg("%s: %u:%u: %s", cases[i].yaml, fault.line, fault.column, fault.message);
  }
  tp_runtime_free(runtime);
}

/* The script is what runs, though only a line of a shell names it. */
TEST(a_trust_is_about_the_scripts_that_a_line_of_a_shell_names) {
  static const char *const lines[] = {"sh $CLAUDE_PROJECT_DIR/x.sh", "sh \"$CLAUDE_PROJECT_DIR\"/x.sh",
                                      "cd / && sh '${CLAUDE_PROJECT_DIR}/x.sh'", "sh x.sh;true",
                                      "sh ${CLAUDE_PLUGIN_ROOT}/x.sh"};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    char yaml[512], hash[65] = "", root[128], inner[160];
    snprintf(root, sizeof root, "%s_scripts", directory);
    mkdir(root, 0755);
    snprintf(inner, sizeof inner, "%s/x.sh", root);
    tp_hooks_options options = {.struct_size = sizeof options, .directory = directory, .root = root};
    snprintf(yaml, sizeof yaml,
             "id: a\nprotocol: claude-code\nevent: PreToolUse\nplugin_root: %s\n"
             "handler:\n  command:\n    - sh\n    - -c\n    - >-\n      %s\n",
             root, lines[i]);
    write_named("a.yaml", yaml);
    for (int change = 0; change < 2; change++) {
      FILE *stream = fopen(inner, "we");
      assert_non_null(stream);
      fprintf(stream, "exit %d\n", change);
      fclose(stream);
      tp_hooks *hooks;
      tp_fault fault = {0};
      if (tp_hooks_read(runtime, &options, &hooks, &fault) != TP_OK) fail_msg("%s", fault.message);
      if (change == 1 && strcmp(hash, tp_hooks_hash(hooks)) == 0) fail_msg("%s: not hashed", lines[i]);
      snprintf(hash, sizeof hash, "%s", tp_hooks_hash(hooks));
      tp_hooks_free(hooks);
    }
    unlink(inner);
    rmdir(root);
  }
  tp_runtime_free(runtime);
}
