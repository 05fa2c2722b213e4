/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of a program: env and pass_env of its file, in addition to the variables that every program gets. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "turnphase/task.h"

/* Variables of this process, which no program gets unasked. */
static int enter(void **state) {
  return setenv("TEAM_URL", "http://here", 1) || setenv("TEAM_KEY", "k=1", 1) || setenv("TEAMS", "no", 1) ||
         setenv("EMPTY", "", 1) || unsetenv("UNSET") || make_directory(state);
}

FOR_EACH_TEST(enter, remove_directory);

static void run_guard(const char *keys, const char *script, char ret_text[512]) {
  char yaml[1024];
  snprintf(yaml, sizeof yaml, "id: a\nevent: tool.pre\n%shandler: {command: [sh, -c, '{ %s; } > got']}\n", keys,
           script);
  write_named("a.yaml", yaml);
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, NULL, &result, NULL), TP_OK);
  assert_int_equal(result.outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  read_back("got", ret_text, 512);
}

TEST(a_program_finds_what_its_file_sets_and_passes) {
  static const struct {
    const char *keys, *script, *got;
  } cases[] = {
      {"", "echo \"$TEAM_URL|$GUARD\"", "|\n"},
      {"env: {GUARD: strict}\n", "echo \"$GUARD\"", "strict\n"},
      {"env: {GUARD: strict, OTHER: \"a b\"}\n", "echo \"$GUARD|$OTHER\"", "strict|a b\n"},
      {"env: {N: 7, B: true, T: \"true\"}\n", "echo \"$N|$B|$T\"", "7|true|true\n"},
      {"env: {E: \"\"}\n", "echo \"${E-unset}\"", "\n"},
      {"env: {V: \"$TEAM_URL ${HOME}\"}\n", "echo \"$V\"", "$TEAM_URL ${HOME}\n"},
      {"env: {lower_9: x}\n", "echo \"$lower_9\"", "x\n"},
      {"env: {HOME: /nowhere}\n", "echo \"$HOME\"; env | grep -c ^HOME=", "/nowhere\n1\n"},
      {"pass_env: TEAM_URL\n", "echo \"$TEAM_URL|$TEAM_KEY\"", "http://here|\n"},
      {"pass_env: [TEAM_URL, TEAM_KEY]\n", "echo \"$TEAM_URL|$TEAM_KEY\"", "http://here|k=1\n"},
      {"pass_env: TEAM_*\n", "echo \"$TEAM_URL|$TEAM_KEY|$TEAMS\"", "http://here|k=1|\n"},
      {"pass_env: UNSET\n", "echo \"${UNSET-unset}\"", "unset\n"},
      {"pass_env: EMPTY\n", "echo \"${EMPTY-unset}\"", "\n"},
      {"pass_env: TEAM_URL\nenv: {TEAM_URL: mine}\n", "echo \"$TEAM_URL\"; env | grep -c ^TEAM_URL=", "mine\n1\n"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    char got[512];
    run_guard(cases[i].keys, cases[i].script, got);
    if (strcmp(got, cases[i].got) != 0) fail_msg("%s: %s", cases[i].keys, got);
  }
}

TEST(workers_tools_and_hooks_of_other_hosts_have_it_too) {
  char text[512];
  write_named("t.yaml",
              "kind: tool\nname: t\ndescription: d\nenv: {GUARD: strict}\npass_env: TEAM_*\n"
              "command: [sh, -c, 'echo \"$GUARD $TEAM_KEY\" > got']\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t", .arguments = (tp_text)TEXT("\x80")};
  const tp_task_result *result;
  assert_int_equal(tp_task_call(runtime, &spec, &result, NULL), TP_OK);
  tp_task_result_free(result);
  close_runtime(runtime);
  read_back("got", text, sizeof text);
  assert_string_equal(text, "strict k=1\n");
  write_named("t.yaml",
              "id: w\nevent: tool.pre\nenv: {GUARD: strict}\npass_env: TEAM_KEY\n"
              "handler: {kind: worker, command: [sh, -c, 'read line; echo \"$GUARD $TEAM_KEY\" > got; "
              "echo \"{\\\"id\\\":1}\"; cat > /dev/null']}\n");
  runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result ran = {.struct_size = sizeof ran};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, NULL, &ran, NULL), TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  read_back("got", text, sizeof text);
  assert_string_equal(text, "strict k=1\n");
  write_named("t.yaml",
              "id: p\nprotocol: claude-code\nevent: PreToolUse\nenv: {GUARD: strict, CLAUDE_PROJECT_DIR: /other}\n"
              "handler: {command: [sh, -c, 'echo \"$GUARD $CLAUDE_PROJECT_DIR\" > got']}\n");
  runtime = open_with_hooks(NULL);
  turn = begin_bare(runtime, 60000);
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, NULL, &ran, NULL), TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  read_back("got", text, sizeof text);
  assert_string_equal(text, "strict /other\n");
}

/* Prints as many variables as there are, or one more. */
static void write_many(char *yaml, size_t size, int count) {
  size_t used = (size_t)snprintf(yaml, size, "id: a\nevent: tool.pre\nhandler: {command: ./x}\nenv:\n");
  for (int i = 0; i < count; i++) used += (size_t)snprintf(yaml + used, size - used, "  V%d: x\n", i);
}

TEST(a_variable_that_cannot_be_one_is_refused_with_its_place) {
  static const struct {
    const char *keys;
    uint32_t line, column;
    const char *part;
  } cases[] = {
      {"env: [A]\n", 3, 6, "a map"},
      {"env: {A: [b]}\n", 3, 10, "A must be text"},
      {"env: {A: {b: c}}\n", 3, 10, "A must be text"},
      {"env: {A: null}\n", 3, 10, "A must be text"},
      {"env: {\"A B\": c}\n", 3, 7, "no name of a variable"},
      {"env: {1A: c}\n", 3, 7, "no name of a variable"},
      {"env: {\"\": c}\n", 3, 7, "no name of a variable"},
      {"env: {A=B: c}\n", 3, 7, "no name of a variable"},
      {"env: {PATH: /x}\n", 3, 7, "names code"},
      {"env: {LD_PRELOAD: /x.so}\n", 3, 7, "names code"},
      {"env: {BASH_ENV: x}\n", 3, 7, "names code"},
      {"env: {NODE_OPTIONS: x}\n", 3, 7, "names code"},
      {"env: {ENV: x}\n", 3, 7, "names code"},
      {"env: {PYTHONPATH: x}\n", 3, 7, "names code"},
      {"env: {PYTHONPYCACHEPREFIX: x}\n", 3, 7, "names code"},
      {"env: {PERL5DB: x}\n", 3, 7, "names code"},
      {"env: {RUBYOPT: x}\n", 3, 7, "names code"},
      {"env: {ZDOTDIR: x}\n", 3, 7, "names code"},
      {"env: {SHELLOPTS: x}\n", 3, 7, "names code"},
      {"env: {LUA_INIT: x}\n", 3, 7, "names code"},
      {"env: {LUA_INIT_5_4: x}\n", 3, 7, "names code"},
      {"env: {JAVA_TOOL_OPTIONS: x}\n", 3, 7, "names code"},
      {"env: {CLASSPATH: x}\n", 3, 7, "names code"},
      {"env: {GIT_SSH_COMMAND: x}\n", 3, 7, "names code"},
      {"env: {GIT_CONFIG_GLOBAL: x}\n", 3, 7, "names code"},
      {"env: {MAKEFILES: x}\n", 3, 7, "names code"},
      {"env: {AWKPATH: x}\n", 3, 7, "names code"},
      {"env: {GCONV_PATH: x}\n", 3, 7, "names code"},
      {"env: {BASH_FUNC_ls: x}\n", 3, 7, "names code"},
      {"env: {A: \"b\\0c\"}\n", 3, 10, "NUL"},
      {"pass_env: {A: b}\n", 3, 11, "text or a list of texts"},
      {"pass_env: '*'\n", 3, 11, "all of the host's environment"},
      {"pass_env: [A, 'B-*']\n", 3, 11, "no name of a variable"},
      {"pass_env: LD_LIBRARY_PATH\n", 3, 11, "names code"},
      {"pass_env: LD_*\n", 3, 11, "names code"},
      {"pass_env: '*_KEY'\n", 3, 11, "no name of a variable"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  char yaml[4096];
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_hooks *hooks;
    tp_fault fault = {0};
    snprintf(yaml, sizeof yaml, "id: a\nevent: tool.pre\n%shandler: {command: ./x}\n", cases[i].keys);
    write_named("a.yaml", yaml);
    assert_int_not_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
    if (!strstr(fault.message, cases[i].part) || fault.line != cases[i].line || fault.column != cases[i].column)
      fail_msg("%s: %u:%u: %s", cases[i].keys, fault.line, fault.column, fault.message);
  }
  for (int count = 64; count <= 65; count++) {
    tp_hooks *hooks = NULL;
    write_many(yaml, sizeof yaml, count);
    write_named("a.yaml", yaml);
    assert_int_equal(read_hooks(runtime, NULL, &hooks, NULL), count == 64 ? TP_OK : TP_ERR_TOO_LARGE);
    if (count == 64) tp_hooks_free(hooks);
  }
  tp_runtime_free(runtime);
}

/* What starts no program of its own has none that could read them. */
TEST(a_kind_without_a_program_takes_no_keys_of_one) {
  static const char *const handlers[] = {"{kind: deny}",    "{kind: ask}",          "{kind: allow}",
                                         "{kind: approve}", "{kind: log, path: x}", "{kind: save_json, path: x}"};
  static const char *const keys[] = {"env: {A: b}\n", "pass_env: A\n", "keep_stderr: true\n"};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(handlers) * COUNT(keys); i++) {
    char yaml[256];
    tp_hooks *hooks;
    tp_fault fault = {0};
    snprintf(yaml, sizeof yaml, "id: a\nevent: tool.pre\n%shandler: %s\n", keys[i % COUNT(keys)],
             handlers[i / COUNT(keys)]);
    write_named("a.yaml", yaml);
    assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_ERR_MALFORMED);
    if (!strstr(fault.message, "starts no program") || fault.line != 3) fail_msg("%s: %s", yaml, fault.message);
  }
  tp_runtime_free(runtime);
}
