/* SPDX-License-Identifier: Apache-2.0
 *
 * A setting of a hook that can have no effect causes a warning: a matcher that fits no tool, a variable that nothing
 * sets, a program that does not exist. A setting that has an effect causes none. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"

FOR_EACH_TEST(make_directory, remove_directory);

typedef struct heard {
  size_t count;
  char code[32], text[1200];
} heard;

static bool hear(void *ctx, const tp_hook_warning *warning) {
  heard *h = ctx;
  size_t used = strlen(h->text);
  h->count++;
  snprintf(h->code, sizeof h->code, "%s", warning->code);
  snprintf(h->text + used, sizeof h->text - used, "%s\n", warning->message);
  assert_int_equal(warning->line, 1);
  assert_non_null(strstr(warning->file, ".yaml"));
  return true;
}

static heard warnings(tp_runtime *runtime, bool has_all_tools) {
  heard h = {0};
  tp_hooks *hooks;
  tp_fault fault = {0};
  if (read_hooks(runtime, NULL, &hooks, &fault) != TP_OK) fail_msg("%s: %s", fault.subject, fault.message);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_OK);
  size_t count = tp_hooks_each_warning(hooks, has_all_tools, hear, &h);
  assert_int_equal(count, h.count);
  tp_hooks_free(hooks);
  return h;
}

typedef struct row {
  const char *said, *warns; /* part of the warning; NULL: none */
} row;

static void check_rows(const row *rows, size_t count, const char *format, const char *code) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) {
    char yaml[1024], quoted[512];
    size_t used = 0;
    for (const char *at = rows[i].said; *at; at++) {
      if (*at == '\'') quoted[used++] = '\'';
      quoted[used++] = *at;
    }
    quoted[used] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(yaml, sizeof yaml, format, quoted);
#pragma GCC diagnostic pop
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_runtime(NULL);
    heard h = warnings(runtime, false);
    bool is_right =
        rows[i].warns ? h.count == 1 && strstr(h.text, rows[i].warns) && strcmp(h.code, code) == 0 : h.count == 0;
    if (!is_right) print_message("# %s: %zu warnings: %s\n", rows[i].said, h.count, h.text);
    wrong += !is_right;
    close_runtime(runtime);
  }
  assert_int_equal(wrong, 0);
}

TEST(a_matcher_that_fits_no_tool_is_named_with_the_name_that_would) {
  static const row rows[] = {
      {"Bash(git push*)", "if: \"Bash(git push*)\""},
      {"Write|Bash(git commit:*)", "if: \"Bash(git commit:*)\""},
      {"Edit(src/a)", "here Edit"},
      {"bash", "the name is Bash"},
      {"BASH", "the name is Bash"},
      {"write|Edit", "the name is Write"},
      {"WebFetch(domain:example.com)", "here WebFetch"},
      {"run_shell_command", "tools: {YOURS: run_shell_command}"},
      {"Shell", "Shell"},
      {"^bash$", "fits no tool"},
      {"Bash ls", "fits no tool"},
      {"notebookedit", "the name is NotebookEdit"},
      {"Bash", NULL},
      {"Write|Edit|MultiEdit", NULL},
      {"Write, Edit", NULL},
      {"Edit.*", NULL},
      {"*", NULL},
      {"", NULL},
      {".*", NULL},
      {"^(Write|Edit)$", NULL},
      {"mcp__github__.*", NULL},
      {"mcp__.*__write.*", NULL},
      {"Task", NULL},
      {"Bas.", NULL},
  };
  check_rows(rows, sizeof rows / sizeof rows[0],
             "id: a\nprotocol: claude-code\nevent: PreToolUse\nmatch: {matcher: '%s'}\nhandler: {command: [sh, -c, "
             "'true']}\n",
             "matcher");
}

/* Of some events matchers are asked about what is no tool. */
TEST(a_matcher_that_its_event_never_has_is_named) {
  static const struct {
    const char *protocol, *event, *matcher, *warns;
  } rows[] = {
      {"claude-code", "SessionStart", "compact", "startup resume"},
      {"claude-code", "SessionStart", "clear|compact", "startup resume"},
      {"claude-code", "SessionStart", "startup", NULL},
      {"claude-code", "SessionStart", "resume", NULL},
      {"claude-code", "SessionStart", "start.*", NULL},
      {"claude-code", "SessionStart", "*", NULL},
      {"gemini", "SessionStart", "clear", "startup resume"},
      {"claude-code", "Notification", "idle_prompt", "permission_prompt"},
      {"claude-code", "Notification", "permission_prompt", NULL},
      {"gemini", "Notification", "ToolPermission", NULL},
      {"claude-code", "PreCompact", "manual", "auto"},
      {"claude-code", "PreCompact", "auto|manual", NULL},
      {"claude-code", "SessionEnd", "logout", "other"},
      {"claude-code", "SubagentStop", "reviewer", NULL},
  };
  write_named("note.yaml", "kind: tool\nname: note\ndescription: Notes.\ncommand: [sh, -c, 'true']\n");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char yaml[300];
    snprintf(yaml, sizeof yaml,
             "id: a\nprotocol: %s\nevent: %s\nmatch: {matcher: '%s'}\nhandler: {command: [sh, -c, 'true']}\n",
             rows[i].protocol, rows[i].event, rows[i].matcher);
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_runtime(NULL);
    heard h = warnings(runtime, true);
    if ((h.count == 1) != (rows[i].warns != NULL) || (rows[i].warns && !strstr(h.text, rows[i].warns)))
      fail_msg("%s %s: %zu: %s", rows[i].event, rows[i].matcher, h.count, h.text);
    close_runtime(runtime);
  }
}

TEST(a_variable_that_nothing_sets_is_named) {
  static const row rows[] = {
      {"[ \"$GUARD_MODE\" = strict ] && exit 2; true", "GUARD_MODE"},
      {"test ${GUARD_MODE:-off} = on", "GUARD_MODE"},
      {"if [ -n \"$TEAM_URL\" ]; then true; fi", "TEAM_URL"},
      {"cat > \"$LOG_DIR/x\"", "LOG_DIR"},
      {"true ${API_KEY#x}", "API_KEY"},
      {"printf '%%s' \"$DENY_LIST\"", "DENY_LIST"},
      {"case \"$DEPLOY_ENV\" in prod) exit 2;; esac", "DEPLOY_ENV"},
      {"true && { test \"$CI_STAGE\" || true; }", "CI_STAGE"},
      {"sh -c \"echo $OUTER_ONE\"", "OUTER_ONE"},
      {"echo ${#LIST_OF_X}; test \"$OTHER_ONE\"", "OTHER_ONE"},
      {"A_VALUE=1; test \"$A_VALUE\"", NULL},
      {"read -r THE_LINE; test \"$THE_LINE\"", NULL},
      {"for ONE_FILE in a b; do true $ONE_FILE; done", NULL},
      {"cd \"$CLAUDE_PROJECT_DIR\" && true $HOME $PATH", NULL},
      {"echo '$NOT_READ'", NULL},
      {"true # $NOT_READ", NULL},
      {"true \\$NOT_READ", NULL},
      {"echo $1 $? $$ $x", NULL},
      {"test \"$PWD\" = / || true $RANDOM", NULL},
      {"export MY_MODE=1; sh -c true $MY_MODE", NULL},
  };
  unsetenv("GUARD_MODE");
  check_rows(rows, sizeof rows / sizeof rows[0],
             "id: a\nprotocol: claude-code\nevent: PreToolUse\nhandler: {command: [sh, -c, '%s']}\n", "variable");
}

TEST(a_variable_that_a_script_reads_is_named) {
  static const struct {
    const char *name, *text;
    bool warns;
  } scripts[] = {
      {"x.sh", "#!/bin/sh\n[ \"$GUARD_MODE\" = strict ] && exit 2\n", true},
      {"x", "#!/usr/bin/env bash\nset -eu\necho \"${GUARD_MODE}\"\n", true},
      {"x.py", "import os\nif os.environ.get(\"GUARD_MODE\") == 'x': pass\n", true},
      {"x.py", "import os\nif os.environ['GUARD_MODE']: pass\n", true},
      {"x.py", "import os\nmode = os.getenv('GUARD_MODE', 'off')\n", true},
      {"x.js", "if (process.env.GUARD_MODE === 'strict') process.exit(2)\n", true},
      {"x.mjs", "const m = process.env['GUARD_MODE']\n", true},
      {"x.rb", "exit 2 if ENV['GUARD_MODE'] == 'strict'\n", true},
      {"x.rb", "exit 2 if ENV.fetch(\"GUARD_MODE\", '') == 'strict'\n", true},
      {"x.pl", "exit 2 if $ENV{GUARD_MODE} eq 'strict';\n", true},
      {"x.sh", "GUARD_MODE=strict\necho $GUARD_MODE\n", false},
      {"x.sh", "# $GUARD_MODE\necho '$GUARD_MODE'\n", false},
      {"x.py", "import os\nhome = os.environ['HOME']\n", false},
  };
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
    char yaml[256];
    snprintf(yaml, sizeof yaml, "id: a\nevent: tool.pre\nhandler: {command: ./%s}\n", scripts[i].name);
    write_named("a.yaml", yaml);
    write_program(scripts[i].name, scripts[i].text);
    tp_runtime *runtime = open_runtime(NULL);
    heard h = warnings(runtime, false);
    if ((h.count == 1 && strstr(h.text, "GUARD_MODE")) != scripts[i].warns || h.count > 1)
      fail_msg("%s: %s: %zu: %s", scripts[i].name, scripts[i].text, h.count, h.text);
    close_runtime(runtime);
    snprintf(yaml, sizeof yaml, "%s/%s", directory, scripts[i].name);
    unlink(yaml);
  }
}

TEST(a_program_that_is_not_there_is_named) {
  static const row rows[] = {
      {"./not-there.sh", "not-there.sh"},
      {"bash hooks/guard.sh", "hooks/guard.sh"},
      {"python3 .claude/hooks/guard.py", ".claude/hooks/guard.py"},
      {"\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh", "guard.sh"},
      {"cd sub && ./guard.sh", "guard.sh"},
      {"no-such-program-at-all --check", "no-such-program-at-all in PATH"},
      {"true && no-such-program-at-all", "no-such-program-at-all in PATH"},
      {"timeout 5 bash guard.sh", "guard.sh"},
      {". ./lib.sh", "lib.sh"},
      {"~/not-there/guard.sh", "guard.sh"},
      {"node scripts/guard.js", "scripts/guard.js"},
      {"cd /bin && ./sh -c true", NULL},
      {"cat > x.log", NULL},
      {"echo done", NULL},
      {"[ -f x.sh ] && true", NULL},
      {"sh -c 'true'", NULL},
  };
  check_rows(rows, sizeof rows / sizeof rows[0],
             "id: a\nprotocol: claude-code\nevent: PreToolUse\nhandler: {command: [sh, -c, '%s']}\n", "program");
}

/* Where they are not, a name that is nearly one of ours is named. */
TEST(a_scope_that_is_nearly_a_tool_of_ours_is_named_without_a_list_of_tools) {
  static const struct {
    const char *scope, *says; /* NULL: no warning */
  } rows[] = {
      {"file_write",
       "ability_scope file_write fits no tool of turnphase, only one of yours of that name: theirs is "
       "files_write"},
      {"[shell, FilesRead]", "theirs is files_read"},
      {"files-list", "theirs is files_list"},
      {"memory_searches", NULL},
      {"files_write", NULL},
      {"files_*", NULL},
      {"file", NULL},
      {"files_writer", NULL},
      {"shell", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char yaml[256];
    snprintf(yaml, sizeof yaml, "id: a\nevent: tool.pre\nmatch: {ability_scope: %s}\nhandler: {kind: deny}\n",
             rows[i].scope);
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_runtime(NULL);
    heard h = warnings(runtime, false);
    if ((h.count == 1) != (rows[i].says != NULL) || (rows[i].says && !strstr(h.text, rows[i].says)))
      fail_msg("%s: %zu: %s", rows[i].scope, h.count, h.text);
    close_runtime(runtime);
  }
}

/* When all tools are known, there is a warning about a hook that runs for none of them, whatever the form of its
 * match. */
TEST(a_match_is_compared_with_the_tools_that_there_are) {
  static const struct {
    const char *yaml;
    bool warns;
  } rows[] = {
      {"id: a\nevent: tool.pre\nmatch: {ability_scope: 'edit_*'}\nhandler: {kind: deny}\n", true},
      {"id: a\nevent: tool.pre\nmatch: {ability_scope: [edit, 'no*']}\nhandler: {kind: deny}\n", false},
      {"id: a\nevent: tool.pre\nhandler: {kind: deny}\n", false},
      {"id: a\nprotocol: claude-code\nevent: PreToolUse\nmatch: {matcher: Write}\nhandler: {command: [sh, -c, "
       "'true']}\n",
       true},
      {"id: a\nprotocol: claude-code\nevent: PreToolUse\nmatch: {matcher: Write}\ntools: {note: Write}\nhandler: "
       "{command: [sh, -c, 'true']}\n",
       false},
      {"id: a\nprotocol: claude-code\nevent: PreToolUse\nmatch: {matcher: note}\nhandler: {command: [sh, -c, "
       "'true']}\n",
       false},
      {"id: a\nprotocol: claude-code\nevent: SessionStart\nmatch: {matcher: startup}\nhandler: {command: [sh, -c, "
       "'true']}\n",
       false},
      {"id: a\nenabled: false\nevent: tool.pre\nmatch: {ability_scope: 'edit_*'}\nhandler: {kind: deny}\n", false},
  };
  write_named("note.yaml", "kind: tool\nname: note\ndescription: Notes.\ncommand: [sh, -c, 'true']\n");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    write_named("a.yaml", rows[i].yaml);
    tp_runtime *runtime = open_runtime(NULL);
    heard h = warnings(runtime, true);
    if ((h.count == 1) != rows[i].warns || (h.count > 0 && !strstr(h.text, "note") && !strstr(h.text, "Write")))
      fail_msg("%s: %zu: %s", rows[i].yaml, h.count, h.text);
    close_runtime(runtime);
  }
}

static bool stop_at_once(void *ctx, const tp_hook_warning *warning) {
  (void)warning;
  ++*(int *)ctx;
  return false;
}

TEST(a_walk_over_warnings_stops_where_it_is_told) {
  int count = 0;
  write_named("a.yaml", "id: a\nevent: tool.pre\nhandler: {command: ./none-a.sh}\n");
  write_named("b.yaml", "id: b\nevent: tool.pre\nhandler: {command: ./none-b.sh}\n");
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  assert_int_equal(read_hooks(runtime, NULL, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_each_warning(hooks, false, NULL, NULL), 2);
  assert_int_equal(tp_hooks_each_warning(hooks, false, stop_at_once, &count), 1);
  assert_int_equal(count, 1);
  assert_int_equal(tp_hooks_each_warning(NULL, false, stop_at_once, &count), 0);
  tp_hooks_free(hooks);
  tp_runtime_free(runtime);
}
