/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase hooks import: the corpus of tests/hooks, written as people write hooks for other hosts, is imported and run
 * unchanged, alone and in a turn. Also entries without a counterpart, malformed entries, and other files. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"
#include "tests/support/json_text.h"

static char project[512];

static int run_line(const char *format, const char *one, const char *two) {
  char line[1200];
  snprintf(line, sizeof line, format, one, two);
  return system(line);
}

/* The corpus, copied to be the working directory. */
static int enter(void **state) {
  const char *source = getenv("TURNPHASE_SOURCE");
  if (!source || scratch_make(state) != 0) return -1;
  snprintf(project, sizeof project, "%s/project", scratch);
  if (run_line("cp -r '%s/tests/hooks' '%s'", source, project) != 0 || chdir(project) != 0) return -1;
  return setenv("XDG_CONFIG_HOME", scratch_path("config"), 1);
}

static int leave(void **state) { return chdir("/") == 0 ? scratch_remove(state) : -1; }

FOR_EACH_TEST(enter, leave);

static bool is_program(const char *name) { return run_line("command -v %s > /dev/null%s", name, "") == 0; }

static void put(const char *name, const char *text) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void import(const char *settings, const char *option, int status, command *c) {
  *c = (command){.arguments = {"hooks", "import", settings, "--write", "H", option}};
  assert_status(c, status);
}

static void trust(void) {
  command c = {.arguments = {"hooks", "trust", "H"}};
  assert_status(&c, 0);
  command_free(&c);
}

/* ---- the corpus ---- */

static void read_file(const char *name, bytes *b) {
  char piece[4096];
  FILE *file = fopen(name, "r");
  assert_non_null(file);
  bytes_add(b, "", 0);
  for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;) bytes_add(b, piece, got);
  fclose(file);
}

static char *field(tp_text value, const char *key, char *ret_text, size_t size) {
  tp_text text = tp_value_text(tp_value_get(value, key));
  snprintf(ret_text, size, "%.*s", (int)text.size, text.size ? text.data : "");
  return ret_text;
}

static bool can_run(const char *hook) {
  const char *program = strstr(hook, "-2") ? "node" : strstr(hook, "-1") || strstr(hook, "-5") ? "python3" : "sh";
  if (is_program(program)) return true;
  print_message("# skipped: %s: there is no %s\n", hook, program);
  return false;
}

static void check_case(tp_text value) {
  char hook[64], judged[64], reason[128], reminder[128], words[256];
  field(value, "hook", hook, sizeof hook);
  if (!can_run(hook)) return;
  bytes payload = {0};
  char *json = json_text(tp_value_get(value, "payload"));
  bytes_string(&payload, json);
  free(json);
  command c = {.arguments = {"hooks", "run", "H", hook, "--payload", "-", "--json"}, .input = payload.data};
  assert_status(&c, 0);
  snprintf(words, sizeof words, "\"judged\":\"%s\"", field(value, "judged", judged, sizeof judged));
  if (!holds(&c.out, words)) fail_msg("%s: %s is not in %s", payload.data, words, c.out.data);
  snprintf(words, sizeof words, "\"reason\":\"%s\"", field(value, "reason", reason, sizeof reason));
  if (reason[0] && !holds(&c.out, words)) fail_msg("%s: %s is not in %s", payload.data, words, c.out.data);
  snprintf(words, sizeof words, "\"kind\":\"reminder\",\"text\":\"%s",
           field(value, "reminder", reminder, sizeof reminder));
  if (reminder[0] && !holds(&c.out, words)) fail_msg("%s: %s is not in %s", payload.data, words, c.out.data);
  command_free(&c);
  free(payload.data);
}

TEST(the_corpus_decides_as_it_does_at_home) {
  command c;
  import(".claude/settings.json", "--json", 1, &c);
  command_free(&c);
  trust();
  bytes text = {0};
  read_file("cases.jsonl", &text);
  events cases = events_read(&text);
  assert_true(cases.count >= 15);
  for (size_t i = 0; i < cases.count; i++) {
    tp_text value;
    assert_int_equal(tp_writer_finish(cases.lines[i], &value), TP_OK);
    check_case(value);
  }
  if (is_program("python3")) assert_int_equal(system("grep -q '\"tool\": \"Bash\"' logs/audit.jsonl"), 0);
  events_free(&cases);
  free(text.data);
}

static const char model[] =
    "responses:\n"
    "  - tool_calls:\n"
    "      - {id: c1, name: shell, arguments: {cmd: rm -rf /}}\n"
    "      - {id: c2, name: shell, arguments: {cmd: ls}}\n"
    "      - {id: c3, name: Write, arguments: {file_path: a.txt, content: \"two \\nlines\\t\\n\"}}\n"
    "      - {id: c4, name: Write, arguments: {file_path: .env, content: x}}\n"
    "  - text: Done.\n";

TEST(the_corpus_runs_in_a_turn_under_the_names_of_our_tools) {
  if (!is_program("python3") || !is_program("node")) {
    print_message("# skipped: the corpus in a turn: there is no python3 or no node\n");
    return;
  }
  command c = {.arguments = {"hooks", "import", ".claude/settings.json", "--write", "H", "--fail-closed", "--tool",
                             "shell=Bash:cmd=command"}};
  assert_status(&c, 1);
  command_free(&c);
  trust();
  put("model.yaml", model);
  put("talk.jsonl", "{\"session\": \"s\", \"user\": \"hi\"}\n");
  setenv("TURNPHASE_TEST_DOMAIN", "tools", 1);
  c = (command){.arguments = {"run", "--json", "--script", "model.yaml", "--hooks", "H", "--load",
                              getenv("TURNPHASE_DOMAIN"), "talk.jsonl"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "rm -rf is not allowed");
  assert_holds(&c.out, ".env holds secrets");
  assert_holds(&c.out, "a.txt was formatted");
  assert_holds(&c.out, "There are no notes in project.");
  command_free(&c);
  assert_int_equal(access(".env", F_OK), -1);
  bytes written = {0};
  read_file("a.txt", &written);
  assert_string_equal(written.data, "two\nlines\n");
  free(written.data);
  assert_int_equal(system("test $(wc -l < logs/audit.jsonl) = 2 && grep -q '\"command\": \"ls\"' logs/audit.jsonl"), 0);
}

/* ---- what has no place ---- */

TEST(an_entry_without_a_place_costs_no_other) {
  put("settings.json",
      "{\"hooks\": {\n"
      " \"PreToolUse\": [7, {\"hooks\": 7}, {\"hooks\": [7, {\"type\": \"command\"}, {\"command\": 7},\n"
      "   {\"type\": \"http\", \"url\": 7}, {\"type\": \"agent\", \"prompt\": \"x\"}, {\"type\": \"command\", "
      "\"command\": \"a\", \"timeout\": -1},\n"
      "   {\"type\": \"command\", \"command\": \"a\", \"shell\": \"powershell\"},\n"
      "   {\"type\": \"command\", \"command\": \"a\", \"asyncRewake\": true},\n"
      "   {\"type\": \"command\", \"command\": \"a\", \"if\": \"WebFetch(domain:x)\"},\n"
      "   {\"type\": \"command\", \"command\": \"a\", \"args\": [1]}]},\n"
      "  {\"matcher\": 7, \"hooks\": [{\"type\": \"command\", \"command\": \"a\"}]},\n"
      "  {\"matcher\": \"(?=x)\", \"hooks\": [{\"type\": \"command\", \"command\": \"a\"}]},\n"
      "  {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"good\", \"timeout\": 5000,\n"
      "   \"once\": true, \"colour\": \"red\", \"onFailure\": \"block\"}]}],\n"
      " \"UserPromptSubmit\": [{\"matcher\": \"x\", \"hooks\": [{\"type\": \"command\", \"command\": \"b\"}]}],\n"
      " \"PreCompact\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"c\"}]}],\n"
      " \"NoSuchEvent\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"d\"}]}],\n"
      " \"Stop\": {}}}\n");
  command c;
  import("settings.json", NULL, 1, &c);
  static const char *const parts[] = {
      "malformed: neither a group nor a handler",
      "malformed: hooks of a group is not a list",
      "malformed: a handler is an object",
      "malformed: command is missing, or is not a text",
      "malformed: url is missing",
      "the model of this agent has no tools here: it answers from the event",
      "malformed: timeout is not a number",
      "the shell powershell has no place",
      "asyncRewake has no place",
      "if: WebFetch(domain:x) has no place",
      "malformed: args is not a list",
      "malformed: matcher is not a text",
      "the matcher cannot be used: of groups with (? only (?: is known",
      "its limit is 5000 s: timeout is in seconds",
      "once has no meaning",
      "the unknown field colour is left out",
      "fails closed: without an answer the action is stopped",
      "its matcher \"x\" is left out",
      "FAILS OPEN: without an answer the action goes on (--fail-closed stops it)",
      "in turn.pre_compaction",
      "no place: no such event is known",
      "malformed: an event has a list",
      "matchers are names of their host's tools: --tool OURS=THEIRS",
      "4 written, 15 have no place",
  };
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) assert_holds(&c.out, parts[i]);
  command_free(&c);
  c = (command){.arguments = {"hooks", "check", "H"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "4 hooks, all of them could be committed");
  command_free(&c);
}

TEST(a_handler_of_type_http_becomes_a_webhook) {
  put("settings.json",
      "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [\n"
      "  {\"type\": \"http\", \"url\": \"https://g.example:8443/hook?a=b\", \"timeout\": 5, \"allowedEnvVars\": "
      "[\"GUARD_KEY\"],\n"
      "   \"headers\": {\"Authorization\": \"Bearer $GUARD_KEY\", \"X-Both\": \"${GUARD_KEY}-${OTHER}-$\"}},\n"
      "  {\"type\": \"http\", \"url\": \"http://localhost/x\"},\n"
      "  {\"type\": \"http\", \"url\": \"http://g.example/x\"},\n"
      "  {\"type\": \"http\", \"url\": \"https://a@g.example/x\"},\n"
      "  {\"type\": \"http\", \"url\": \"https://g.example/\", \"headers\": {\"a\": 7}},\n"
      "  {\"type\": \"command\", \"command\": \"true\", \"url\": \"x\"}]}]}}");
  setenv("GUARD_KEY", "secret", 1);
  command c;
  import("settings.json", NULL, 1, &c);
  static const char *const parts[] = {
      "https://g.example:8443\n  pre-tool-use-1 in tool.pre; FAILS OPEN",
      "its endpoint must be allowed: --webhook g.example:8443\n",
      "its headers get no OTHER: allowedEnvVars does not list it",
      "its endpoint must be allowed: --webhook localhost:80\n",
      "no place: the url cannot be used: http is for this machine alone",
      "no place: the url cannot be used: a path or nothing comes behind its host",
      "malformed: headers is not an object",
      "the unknown field url is left out",
      "3 written, 3 have no place",
  };
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) assert_holds(&c.out, parts[i]);
  assert_false(holds(&c.out, "secret") || holds(&c.out, "a=b"));
  command_free(&c);
  assert_int_equal(system("grep -q 'Authorization\": \"Bearer ${GUARD_KEY}\"' H/001-*.yaml && "
                          "grep -q 'X-Both\": \"${GUARD_KEY}--$\"' H/001-*.yaml && ! grep -q secret H/*"),
                   0);
  c = (command){.arguments = {"hooks", "list", "H"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "does not allow webhooks to g.example:8443");
  command_free(&c);
  c = (command){.arguments = {"hooks", "list", "H", "-v", "--webhook", "g.example:8443", "--webhook", "localhost:80"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "webhook https://g.example:8443\n");
  command_free(&c);
  unsetenv("GUARD_KEY");
}

TEST(limits_of_hooks_that_fail_open_end_with_their_phase) {
  static const struct {
    const char *timeout, *option, *budget;
    bool says, notes;
  } rows[] = {
      {"", NULL, "\"budget_ms\":30000", true, false},
      {", \"timeout\": 60", NULL, "\"budget_ms\":30000", true, true},
      {", \"timeout\": 60", "--fail-closed", "\"budget_ms\":60000", false, false},
      {"", "--fail-closed", "\"budget_ms\":600000", false, false},
      {", \"timeout\": 20", NULL, "\"budget_ms\":20000", false, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[256];
    snprintf(text, sizeof text,
             "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"true\"%s}]}]}}",
             rows[i].timeout);
    put("settings.json", text);
    assert_int_equal(system("rm -rf H"), 0);
    command c;
    import("settings.json", rows[i].option, 0, &c);
    assert_int_equal(holds(&c.out, "limits above 30 s are those of hooks that fail closed"), rows[i].says);
    assert_int_equal(holds(&c.out, "it gets the 30 s of its phase"), rows[i].notes);
    command_free(&c);
    trust();
    c = (command){.arguments = {"plan", "--no-memory", "--hooks", "H", "--json", "tool.pre"}};
    assert_status(&c, 0);
    assert_holds(&c.out, rows[i].budget);
    command_free(&c);
  }
}

TEST(a_hook_behind_all_calls_ends_the_turn) {
  put("settings.json",
      "{\"hooks\": {\"PostToolBatch\": [{\"matcher\": \"x\", \"hooks\": [{\"type\": \"command\", \"command\":"
      " \"grep -q '\\\"tool_name\\\":\\\"Bash\\\".*\\\"tool_response\\\":\\\"two files\\\"' || exit 0; echo enough "
      ">&2; exit 2\"}]}]}}");
  command c = {.arguments = {"hooks", "import", "settings.json", "--write", "H", "--rewrite", "--tool", "shell=Bash"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "post-tool-batch-1 in tool.batch; FAILS OPEN");
  assert_holds(&c.out, "its matcher \"x\" is left out");
  command_free(&c);
  trust();
  c = (command){
      .arguments = {"hooks", "run", "H", "post-tool-batch-1", "--payload", "-", "--json"},
      .input =
          "{\"hook_event_name\": \"PostToolBatch\", \"tool_calls\": [{\"tool_name\": \"Bash\", "
          "\"tool_input\": {\"command\": \"ls\"}, \"tool_use_id\": \"c1\", \"tool_response\": \"two files\"}]}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"judged\":\"deny\"");
  assert_holds(&c.out, "\"reason\":\"enough\"");
  command_free(&c);
  put("model.yaml", "responses:\n  - tool_calls: [{id: c1, name: shell, arguments: {cmd: ls}}]\n  - text: Never.\n");
  put("talk.jsonl", "{\"session\": \"s\", \"user\": \"hi\"}\n");
  put("H/b.yaml",
      "id: result\nprotocol: claude-code\nevent: PostToolUse\nrewrite: true\n"
      "handler: {command: [echo, '{\"hookSpecificOutput\": {\"hookEventName\": \"PostToolUse\", "
      "\"updatedToolOutput\": \"two files\"}}']}\n");
  trust();
  setenv("TURNPHASE_TEST_DOMAIN", "tools", 1);
  c = (command){.arguments = {"run", "--json", "--script", "model.yaml", "--hooks", "H", "--load",
                              getenv("TURNPHASE_DOMAIN"), "talk.jsonl"}};
  assert_status(&c, 0);
  unsetenv("TURNPHASE_TEST_DOMAIN");
  assert_holds(&c.out, "tool_batch.ended");
  assert_false(holds(&c.out, "Never."));
  command_free(&c);
}

TEST(a_guard_fails_open_until_it_is_closed) {
  put("settings.json",
      "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"exit 1\"}]}],"
      "\"PostToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"a\"}]}]}}");
  static const char call[] = "{\"hook_event_name\": \"PreToolUse\", \"tool_name\": \"Bash\", \"tool_input\": {}}";
  for (int closed = 0; closed < 2; closed++) {
    command c;
    import("settings.json", closed ? "--fail-closed" : NULL, 0, &c);
    assert_holds(&c.out, closed ? "fails closed" : "FAILS OPEN");
    command_free(&c);
    trust();
    c = (command){.arguments = {"hooks", "run", "H", "pre-tool-use-1", "--payload", "-", "--json"}, .input = call};
    assert_status(&c, 1);
    assert_holds(&c.out, closed ? "\"phase_outcome\":\"TP_ERR_DENIED\"" : "\"phase_outcome\":\"TP_OK\"");
    command_free(&c);
    assert_int_equal(system("rm -r H"), 0);
  }
}

/* A rewrite by a hook counts only when the operator has allowed it twice: at the import, and by trusting the result. */
TEST(a_rewrite_is_taken_only_when_it_was_granted) {
  put("settings.json",
      "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"echo "
      "'{\\\"hookSpecificOutput\\\": {\\\"hookEventName\\\": \\\"PreToolUse\\\", \\\"updatedInput\\\": "
      "{\\\"a\\\": 1}}}'\"}]}], \"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"b\"}]}]}}");
  static const char call[] = "{\"hook_event_name\": \"PreToolUse\", \"tool_name\": \"Bash\", \"tool_input\": {}}";
  for (int granted = 0; granted < 2; granted++) {
    command c;
    import("settings.json", granted ? "--rewrite" : NULL, 0, &c);
    assert_holds(&c.out, granted ? "in tool.rewrite" : "a call whose arguments one rewrites is denied");
    assert_holds(&c.out, "in turn.stop");
    command_free(&c);
    c = (command){.arguments = {"hooks", "trust", "H"}};
    assert_status(&c, 0);
    assert_int_equal(strstr(c.out.data, "(rewrites what tools are called with") != NULL, granted);
    command_free(&c);
    c = (command){.arguments = {"hooks", "run", "H", "pre-tool-use-1", "--payload", "-", "--json"}, .input = call};
    assert_status(&c, 0);
    assert_holds(&c.out, granted ? "\"judged\":\"done\"" : "\"judged\":\"deny\"");
    command_free(&c);
    assert_int_equal(system("rm -r H"), 0);
  }
}

/* ---- other files ---- */

TEST(files_of_other_hosts_are_read_where_only_names_differ) {
  static const struct {
    const char *file, *text;
    int status;
    const char *parts[4];
  } files[] = {
      {"gemini.json",
       "{\"hooks\": {\"BeforeTool\": [{\"matcher\": \"write_file|replace\", \"sequential\": true, \"hooks\": "
       "[{\"name\": \"g\", \"type\": \"command\", \"command\": \"g\", \"timeout\": 5000}]}], \"BeforeModel\": "
       "[{\"hooks\": [{\"type\": \"command\", \"command\": \"m\"}]}], \"PreCompress\": []}}",
       0,
       {"\"protocol\":\"gemini\"", "\"id\":\"before-tool-1\",\"phase\":\"tool.pre\"",
        "\"id\":\"before-model-2\",\"phase\":\"model.request\""}},
      {"codex.json",
       "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"^Bash$\", \"hooks\": [{\"type\": \"command\", \"command\": "
       "\"x\"}]}], \"Interrupt\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"x\"}]}]}}",
       1,
       {"\"protocol\":\"claude-code\"", "\"id\":\"pre-tool-use-1\"", "it is an event of its host"}},
      {"copilot.json",
       "{\"version\": 1, \"hooks\": {\"PreToolUse\": [{\"type\": \"command\", \"bash\": \"x\", \"timeoutSec\": 30, "
       "\"matcher\": \"Ed.*\"}], \"preToolUse\": [{\"type\": \"command\", \"bash\": \"x\"}]}}",
       1,
       {"\"matcher\":\"^(?:Ed.*)$\"", "\"id\":\"pre-tool-use-1\"", "reads other fields"}},
      {"copilot-both.json",
       "{\"version\": 1, \"hooks\": {\"PreToolUse\": [{\"type\": \"command\", \"bash\": \"x\", \"powershell\": "
       "\"y\"}]}}",
       0,
       {"\"command\":\"x\"", "powershell is for another system"}},
      {"windows.json",
       "\xef\xbb\xbf{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"x\"}]}]}}\r\n",
       0,
       {"\"id\":\"pre-tool-use-1\""}},
      {"rules.json",
       "{\"permissions\": {\"deny\": [\"Read(./.env)\"], \"ask\": []}, \"enabledPlugins\": {\"a@b\": true}, \"hooks\": "
       "{}}",
       0,
       {"permissions are not read", "enabledPlugins are not read"}},
      {"tools.json",
       "{\"tools\": {\"exclude\": [\"write_file\"]}, \"hooks\": {\"BeforeTool\": []}}",
       0,
       {"excluded tools are not read"}},
      {"no-rules.json",
       "{\"permissions\": {\"allow\": [], \"deny\": []}, \"enabledPlugins\": {}, \"hooks\": {}}",
       0,
       {"\"notes\":[]"}},
      {"cursor.json",
       "{\"version\": 1, \"hooks\": {\"beforeShellExecution\": [{\"command\": \"x\", \"failClosed\": true}]}}",
       1,
       {"reads other fields"}},
      {"plugin/hooks/hooks.json",
       "{\"description\": \"p\", \"hooks\": {\"PostToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": "
       "\"sh ${CLAUDE_PLUGIN_ROOT}/x.sh\"}]}]}}",
       0,
       {"\"id\":\"post-tool-use-1\",\"phase\":\"tool.post\",\"guard\":false", "\"notes\":[]"}},
      {"off.json",
       "{\"disableAllHooks\": true, \"hooks\": {\"SessionEnd\": [{\"hooks\": [{\"type\": \"command\", \"command\": "
       "\"x $CLAUDE_ENV_FILE\"}]}]}}",
       0,
       {"\"disabled\":true", "CLAUDE_ENV_FILE is not in its environment"}},
  };
  assert_int_equal(system("mkdir -p plugin/hooks && touch plugin/x.sh"), 0);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    command c;
    put(files[i].file, files[i].text);
    import(files[i].file, "--json", files[i].status, &c);
    for (size_t p = 0; p < 4 && files[i].parts[p]; p++) assert_holds(&c.out, files[i].parts[p]);
    command_free(&c);
    if (strstr(files[i].file, "plugin")) assert_int_equal(system("grep -q 'plugin_root: .*/project/plugin' H/*"), 0);
    if (strstr(files[i].file, "off")) assert_int_equal(system("grep -q 'enabled: false' H/*"), 0);
    if (strstr(files[i].file, "gemini")) assert_int_equal(system("grep -q 'timeout_ms: 5000$' H/*"), 0);
    assert_int_equal(system("rm -rf H"), 0);
  }
}

/* ---- after a compaction ---- */

#define LONG "The walnut tree behind the house of my aunt has grown taller than the roof since last spring"

/* Three turns of some 30 tokens each, with space for two: before the third turn the history is compacted. The scripts
 * store their input, as those of the host's users do. */
TEST(a_hook_runs_after_the_compaction_with_what_it_did) {
  command c;
  bytes seen = {0};
  put("settings.json",
      "{\"hooks\": {\"PreCompact\": [{\"matcher\": \"auto\", \"hooks\": [{\"type\": \"command\", \"command\":"
      " \"cat >> before.jsonl\"}]}],"
      " \"PostCompact\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"cat >> after.jsonl\"}]}]}}");
  import("settings.json", NULL, 0, &c);
  assert_holds(&c.out, "post-compact-2 in turn.post_compaction");
  command_free(&c);
  trust();
  put("model.yaml", "responses: [{text: Yes.}]\nrepeat: true\n");
  put("talk.jsonl", "{\"session\": \"s\", \"user\": \"" LONG "\"}\n{\"session\": \"s\", \"user\": \"" LONG
                    "\"}\n{\"session\": \"s\", \"user\": \"" LONG "\"}\n");
  c = (command){.arguments = {"run", "--json", "--script", "model.yaml", "--hooks", "H", "--compact", "drop",
                              "--history-tokens", "50", "talk.jsonl"}};
  assert_status(&c, 0);
  command_free(&c);
  read_file("after.jsonl", &seen);
  assert_holds(&seen, "\"hook_event_name\":\"PostCompact\"");
  assert_holds(&seen, "\"trigger\":\"auto\"");
  assert_holds(&seen, "\"session_id\":\"s\"");
  free(seen.data);
  assert_int_equal(system("test $(wc -l < after.jsonl) = $(wc -l < before.jsonl)"), 0);
}

/* ---- questions to a model ---- */

/* Hooks from a public file: one asks a model about the end of a turn, the other an agent, whose model has no tools. */
TEST(a_prompt_becomes_a_question_to_a_model) {
  put("settings.json",
      "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"prompt\", \"prompt\": \"Is all done? $ARGUMENTS\", "
      "\"timeout\": 30}]}],\n"
      " \"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"agent\", \"prompt\": \"Is this safe? "
      "$ARGUMENTS\"}]}]}}\n");
  command c;
  import("settings.json", NULL, 0, &c);
  assert_holds(&c.out, "stop-1 in turn.stop; FAILS OPEN");
  assert_holds(&c.out, "the model of this agent has no tools here: it answers from the event");
  assert_holds(&c.out, "2 written");
  assert_null(strstr(c.out.data, "unknown field"));
  command_free(&c);
  assert_int_equal(system("grep -qx '  kind: agent' H/*pre-tool-use*"), 0);
  c = (command){.arguments = {"hooks", "check", "H"}};
  assert_status(&c, 0);
  assert_holds(&c.err, "the model of this agent has no tools here");
  command_free(&c);
  assert_int_equal(system("grep -qx '  kind: prompt' H/* && grep -qx '  prompt: \"Is all done? $ARGUMENTS\"' H/* && "
                          "grep -qx '  timeout_ms: 30000' H/*"),
                   0);
}

/* The fields of each known type are known, whether the type has a counterpart or not. */
TEST(fields_of_a_type_are_known_with_it) {
  static const struct {
    const char *handler;
    const char *unknown; /* the field that is named; NULL: none */
    int status;
  } rows[] = {
      {"\"type\": \"prompt\", \"prompt\": \"x\"", NULL, 0},
      {"\"type\": \"prompt\", \"prompt\": \"x\", \"model\": \"small\"", NULL, 0},
      {"\"prompt\": \"x\", \"model\": \"small\", \"type\": \"prompt\", \"timeout\": 5", NULL, 0},
      {"\"type\": \"prompt\", \"prompt\": \"x\", \"url\": \"y\"", "url", 0},
      {"\"type\": \"prompt\"", NULL, 1},
      {"\"type\": \"prompt\", \"prompt\": 7", NULL, 1},
      {"\"type\": \"prompt\", \"prompt\": \"x\", \"model\": 7", NULL, 1},
      {"\"type\": \"agent\", \"prompt\": \"x\", \"model\": \"small\"", NULL, 0},
      {"\"type\": \"agent\", \"prompt\": \"x\", \"url\": \"y\"", "url", 0},
      {"\"type\": \"agent\"", NULL, 1},
      {"\"type\": \"mcp_tool\", \"server\": \"s\", \"tool\": \"t\", \"input\": {}", NULL, 1},
      {"\"type\": \"command\", \"command\": \"x\", \"prompt\": \"y\"", "prompt", 0},
      {"\"command\": \"x\", \"model\": \"y\"", "model", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[512];
    command c;
    snprintf(text, sizeof text, "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{%s}]}]}}", rows[i].handler);
    put("settings.json", text);
    import("settings.json", NULL, rows[i].status, &c);
    snprintf(text, sizeof text, "the unknown field %s is left out", rows[i].unknown ? rows[i].unknown : "");
    if (rows[i].unknown) assert_holds(&c.out, text);
    else if (strstr(c.out.data, "unknown field")) fail_msg("%s: %s", rows[i].handler, c.out.data);
    command_free(&c);
    assert_int_equal(system("rm -rf H"), 0);
  }
}

/* A script of one answer for each request. */
static void answer_with(const char *text) {
  char script[512];
  snprintf(script, sizeof script, "responses:\n  - text: '%s'\n", text);
  put("m.yaml", script);
}

TEST(a_question_is_asked_by_hooks_run_and_guards_a_call) {
  static const char *const options[] = {"--hook-model", "script:m.yaml"};
  static const struct {
    const char *answer; /* NULL: there is no model */
    const char *option; /* an option of the import */
    int run, call;
    const char *judged;
  } rows[] = {
      {"{\"ok\": true}", NULL, 0, 0, "allow"},
      {"{\"ok\": false, \"reason\": \"not on a Friday\"}", NULL, 0, 77, "not on a Friday"},
      {"Sure: {\"ok\": \"false\"}", NULL, 1, 0, "malformed"},
      {"Sure: {\"ok\": \"false\"}", "--fail-closed", 1, 77, "malformed"},
      {NULL, NULL, 1, 0, "cannot_start"},
      {NULL, "--fail-closed", 1, 77, "cannot_start"},
  };
  put("settings.json",
      "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"prompt\", \"prompt\": \"Safe? $ARGUMENTS\"}]}]}}");
  put("t.yaml", "kind: tool\nname: say\ndescription: Says it.\ncommand: [echo, said]\n");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *option = rows[i].answer ? options[0] : NULL, *value = rows[i].answer ? options[1] : NULL;
    command c;
    import("settings.json", rows[i].option, 0, &c);
    command_free(&c);
    assert_int_equal(system("cp t.yaml H/"), 0);
    trust();
    if (rows[i].answer) answer_with(rows[i].answer);
    c = (command){.arguments = {"hooks", "run", "H", "pre-tool-use-1", option, value}};
    assert_status(&c, rows[i].run);
    assert_holds(&c.out, "asked");
    assert_holds(&c.out, "Safe? {\"session_id\":");
    assert_holds(&c.out, rows[i].judged);
    command_free(&c);
    c = (command){.arguments = {"tool", "call", "say", "--no-memory", "--hooks", "H", option, value}};
    assert_status(&c, rows[i].call);
    if (!rows[i].answer) assert_holds(&c.err, "pre-tool-use-1 asks a model, and without --hook-model");
    else assert_null(strstr(c.err.data ? c.err.data : "", "asks a model"));
    command_free(&c);
    assert_int_equal(system("rm -rf H"), 0);
  }
}

TEST(a_text_of_settings_stays_itself_in_yaml) {
  put("settings.json",
      "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": "
      "\"printf '%s' 'a\\\"b\\\\\\\\ #: \\u2028\\u0085\\t\\u00e9{' > said\"}]}]}}");
  command c;
  import("settings.json", NULL, 0, &c);
  command_free(&c);
  trust();
  c = (command){.arguments = {"hooks", "run", "H", "pre-tool-use-1"}};
  assert_status(&c, 0);
  command_free(&c);
  bytes said = {0};
  read_file("said", &said);
  assert_string_equal(said.data, "a\"b\\\\ #: \xe2\x80\xa8\xc2\x85\t\xc3\xa9{");
  free(said.data);
}

TEST(a_file_that_is_none_is_refused_and_nothing_is_overwritten) {
  static const struct {
    const char *text;
    int status;
    const char *part;
  } files[] = {{"{\"hooks\": {", 78, "settings.json:1:"},
               {"[]", 78, "has no hooks"},
               {"{\"hooks\": []}", 78, "has no hooks"},
               {"{\"hooks\": {}}", 0, ""}};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    command c;
    put("settings.json", files[i].text);
    import("settings.json", NULL, files[i].status, &c);
    assert_holds(&c.err, files[i].part);
    command_free(&c);
  }
  command c;
  import(".claude/settings.json", NULL, 1, &c);
  command_free(&c);
  assert_int_equal(unlink("H/001-pre-tool-use-1.yaml"), 0);
  assert_int_equal(system("cat H/*.yaml | sha256sum > before"), 0);
  import(".claude/settings.json", NULL, 1, &c);
  assert_holds(&c.out, "is there already, as 002-");
  assert_holds(&c.out, "1 written");
  command_free(&c);
  assert_int_equal(system("rm H/*-pre-tool-use-1.yaml && cat H/*.yaml | sha256sum | cmp - before"), 0);
  static const char *const tools[] = {"shell", "=Bash", "shell=", "a=b:", "a=b:c", "a=b:c=", "a=b=c"};
  for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
    c = (command){.arguments = {"hooks", "import", ".claude/settings.json", "--tool", tools[i]}};
    if (command_run(&c) != 2) fail_msg("%s: %d", tools[i], c.status);
    command_free(&c);
  }
}

/* ---- several files of one host ---- */

static const char shared[] =
    "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": "
    "\"true shared\"}, {\"type\": \"command\", \"command\": \"true mine\"}]}]}}";
static const char local[] =
    "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": "
    "\"true shared\"}, {\"type\": \"command\", \"command\": \"echo local no >&2; exit 2\"}]}]}}";

static void add_up(void) {
  command c = {.arguments = {"hooks", "check", "H"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "3 hooks");
  command_free(&c);
  assert_int_equal(system("test $(grep -l 'true shared' H/* | wc -l) = 1"), 0);
  assert_int_equal(system("grep -q '^id: \"settings-local-pre-tool-use-' H/*"), 0);
  assert_int_equal(system("rm -rf H"), 0);
}

TEST(files_of_one_host_add_up_and_what_two_say_runs_once) {
  command c;
  put("settings.json", shared);
  put("settings.local.json", local);
  c = (command){.arguments = {"hooks", "import", "settings.json", "settings.local.json", "--write", "a/b/H"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "3 written");
  command_free(&c);
  assert_int_equal(system("mv a/b/H H"), 0);
  add_up();
  import("settings.json", NULL, 0, &c);
  command_free(&c);
  import("settings.local.json", NULL, 0, &c);
  assert_holds(&c.out, "is there already, as 001-pre-tool-use-1.yaml");
  command_free(&c);
  add_up();
  put("gemini.json", "{\"hooks\": {\"BeforeTool\": []}}");
  c = (command){.arguments = {"hooks", "import", "settings.json", "gemini.json"}};
  assert_status(&c, 2);
  assert_holds(&c.err, "is of another host than settings.json");
  command_free(&c);
}

TEST(a_hook_that_its_host_has_switched_off_is_written_as_disabled) {
  static const struct {
    const char *head, *event, *name;
    bool is_off;
  } rows[] = {
      {"\"disableAllHooks\": true, \"hooks\": {", "PreToolUse", "x", true},
      {"\"disableAllHooks\": false, \"hooks\": {", "PreToolUse", "x", false},
      {"\"hooksConfig\": {\"enabled\": false}, \"hooks\": {", "BeforeTool", "x", true},
      {"\"hooksConfig\": {\"enabled\": true}, \"hooks\": {", "BeforeTool", "x", false},
      {"\"hooksConfig\": {\"disabled\": [\"x\"]}, \"hooks\": {", "BeforeTool", "x", true},
      {"\"hooksConfig\": {\"disabled\": [\"y\"]}, \"hooks\": {", "BeforeTool", "x", false},
      {"\"hooks\": {\"disabled\": [\"x\"], ", "BeforeTool", "x", true},
      {"\"hooks\": {\"disabled\": [\"a\", \"x\"], ", "AfterTool", "x", true},
      {"\"hooks\": {\"disabled\": [\"true of x\"], ", "BeforeTool", "x", true},
      {"\"hooks\": {\"disabled\": [], ", "BeforeTool", "x", false},
      {"\"hooks\": {\"enabled\": false, ", "BeforeTool", "x", true},
      {"\"hooks\": {\"enabled\": true, ", "BeforeTool", "x", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[512];
    command c;
    snprintf(text, sizeof text,
             "{%s\"%s\": [{\"hooks\": [{\"name\": \"%s\", \"type\": \"command\", \"command\": \"true of %s\", "
             "\"timeout\": 5000}]}]}}",
             rows[i].head, rows[i].event, rows[i].name, rows[i].name);
    put("settings.json", text);
    import("settings.json", NULL, 0, &c);
    bool is_said = holds(&c.out, "enabled: false");
    bool is_off = system("grep -q '^enabled: false' H/*") == 0;
    if (is_off != rows[i].is_off || is_said != is_off) fail_msg("%s: %s", text, c.out.data);
    command_free(&c);
    assert_int_equal(system("rm -rf H"), 0);
  }
}

/* ---- a hundred files ---- */

static unsigned seed;

static unsigned draw(unsigned below) {
  seed = seed * 1103515245u + 12345u;
  return (seed >> 16) % below;
}

/* Writes one handler in a form that real files have; each has a mark of its own. */
static void put_handler(FILE *file, unsigned mark, bool is_flat) {
  static const char *const forms[] = {
      "{\"type\": \"command\", \"command\": \"%s\"}",
      "{\"type\": \"command\", \"command\": \"%s\", \"timeout\": 30}",
      "{\"command\": \"%s\"}",
      "{\"type\": \"command\", \"command\": \"%s\", \"async\": true}",
      "{\"type\": \"command\", \"command\": \"%s\", \"timeout\": 60000}",
      "{\"type\": \"command\", \"command\": \"%s\", \"if\": \"Bash(git *)\"}",
      "{\"type\": \"command\", \"command\": \"%s\", \"statusMessage\": \"wait\"}",
      "{\"type\": \"command\", \"command\": \"%s\", \"args\": [\"a\", \"b\"]}",
      "{\"type\": \"command\", \"command\": \"%s\", \"shell\": \"powershell\"}",
      "{\"type\": \"command\", \"command\": \"%s\", \"once\": true, \"onFailure\": \"block\"}",
      "{\"type\": \"prompt\", \"prompt\": \"%s\"}",
      "{\"type\": \"http\", \"url\": \"https://hooks.example/%s\"}",
      "{\"type\": \"mcp_tool\", \"server\": \"s\", \"tool\": \"%s\"}",
      "{\"type\": \"command\", \"command\": \"%s\", \"future\": {\"field\": 1}}",
      "{\"type\": \"command\", \"command\": 7, \"description\": \"%s\"}",
  };
  static const char *const lines[] = {
      "jq -r .tool_input.command >> ~/.claude/log-%u.txt",
      "\\\"$CLAUDE_PROJECT_DIR\\\"/.claude/hooks/h%u.sh",
      "python3 .claude/hooks/h%u.py",
      "npx prettier --write h%u || true",
      "uv run $CLAUDE_PROJECT_DIR/.claude/hooks/h%u.py",
      "bash -c 'echo h%u'",
      "node ${CLAUDE_PLUGIN_ROOT}/h%u.js",
      "[ \\\"$MODE_%u\\\" = strict ] && exit 2",
  };
  char line[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(line, sizeof line, lines[draw(sizeof lines / sizeof lines[0])], mark);
  fprintf(file, forms[draw(is_flat ? 5 : sizeof forms / sizeof forms[0])], line);
#pragma GCC diagnostic pop
}

static size_t put_settings(const char *name, unsigned number) {
  static const char *const event_names[] = {
      "PreToolUse",    "PostToolUse",  "UserPromptSubmit", "SessionStart",       "Stop",        "SubagentStop",
      "SessionEnd",    "Notification", "PreCompact",       "PostToolUseFailure", "FileChanged", "PostToolBatch",
      "SubagentStart", "Typo",         "StopFailure",      "TaskCompleted"};
  static const char *const matchers[] = {
      "",         "*",      "Bash",    "Write|Edit", "Bash(git push*)", "bash", "Edit.*", "mcp__github__.*",
      "(?!Read)", "Write(", "startup", "^Bash$"};
  FILE *file = fopen(name, "w");
  size_t count = 0;
  assert_non_null(file);
  fputs("{\"model\": \"m\", \"permissions\": {\"allow\": []}, \"hooks\": {", file);
  unsigned first = draw(16), event_count = 1 + draw(3);
  for (unsigned e = 0; e < event_count; e++) {
    fprintf(file, "%s\"%s\": [", e > 0 ? ", " : "", event_names[(first + 5 * e) % 16]);
    bool is_flat = draw(6) == 0;
    unsigned handlers = 1 + draw(3);
    if (!is_flat) fprintf(file, "{\"matcher\": \"%s\", \"hooks\": [", matchers[draw(12)]);
    for (unsigned h = 0; h < handlers; h++) {
      if (h > 0) fputs(", ", file);
      put_handler(file, number * 100 + (unsigned)count++, is_flat);
    }
    fputs(is_flat ? "]" : "]}]", file);
  }
  fputs("}}", file);
  assert_int_equal(fclose(file), 0);
  return count;
}

TEST(each_entry_of_a_hundred_files_is_placed_or_named) {
  enum { FILES = 104, AT_ONCE = 8 };
  seed = 20261126;
  for (unsigned i = 0; i < FILES; i += AT_ONCE) {
    char names[AT_ONCE][32];
    command c = {.arguments = {"hooks", "import"}};
    size_t count = 0, entries = 0, placed = 0, named = 0;
    for (unsigned j = 0; j < AT_ONCE; j++) {
      snprintf(names[j], sizeof names[j], "s%u.json", i + j);
      count += put_settings(names[j], i + j);
      c.arguments[2 + j] = names[j];
    }
    c.arguments[2 + AT_ONCE] = "--json";
    int status = command_run(&c);
    if (status != 0 && status != 1) fail_msg("%s: %d: %s", names[0], status, c.err.data);
    for (const char *at = c.out.data; (at = strstr(at, "{\"event\":")); at++) entries++;
    for (const char *at = c.out.data; (at = strstr(at, "\"has_place\":true")); at++) placed++;
    for (const char *at = c.out.data; (at = strstr(at, "\"left_out\":\"")); at++) named += at[12] != '"';
    if (entries != count || placed + named != count)
      fail_msg("%s: %zu handlers, %zu entries, %zu placed, %zu named: %s", names[0], count, entries, placed, named,
               c.out.data);
    command_free(&c);
  }
}
