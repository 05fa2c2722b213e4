/* SPDX-License-Identifier: Apache-2.0
 *
 * The command hooks: scaffolds whose tests pass as printed, trust, refused directories, a single hook, and directories
 * of hooks in a run. Each test works in a directory of its own and has its own file of trusted hashes. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"
#include "tests/support/terminal.h"

/* ---- a directory of the test, which is also the working directory ---- */

static int enter(void **state) {
  if (scratch_make(state) != 0 || chdir(scratch) != 0) return -1;
  setenv("XDG_CONFIG_HOME", scratch_path("config"), 1);
  return mkdir("hooks", 0755);
}

static int leave(void **state) {
  unsetenv("TURNPHASE_DISABLE_HOOKS");
  return chdir("/") == 0 ? scratch_remove(state) : -1;
}

FOR_EACH_TEST(enter, leave);

static void put(const char *name, const char *text, mode_t mode) {
  assert_int_equal(chmod(scratch_string(name, text), mode), 0);
}

static bool is_there(const char *name) { return access(scratch_path(name), F_OK) == 0; }

static void put_guard(const char *script) {
  put("hooks/guard.yaml", "id: guard\nevent: tool.pre\nhandler: {command: hooks/guard.sh}\n", 0644);
  put("hooks/guard.sh", script, 0755);
}

static void must(int status, const char *one, const char *two) {
  command c = {.arguments = {"hooks", one, two}};
  assert_status(&c, status);
  command_free(&c);
}

/* Tries one hook by itself: `hooks run hooks ID --payload - --json`. */
static void try_hook(const char *id, const char *payload, int status, const char *judged, command *c) {
  *c = (command){.arguments = {"hooks", "run", "hooks", id, "--payload", "-", "--json"}, .input = payload};
  assert_status(c, status);
  char words[64];
  snprintf(words, sizeof words, "\"judged\":\"%s\"", judged);
  assert_holds(&c->out, words);
}

static const char call_of_ls[] = "{\"tool\": \"shell\", \"arguments\": {\"command\": \"ls\"}}";

/* ---- new ---- */

static bool is_program(const char *name) {
  char line[128];
  snprintf(line, sizeof line, "command -v %s > /dev/null", name);
  return system(line) == 0;
}

TEST(the_test_of_a_new_hook_passes_as_it_is_printed) {
  static const struct {
    const char *kind, *language, *program;
  } rows[] = {
      {"guard", "sh", "sh"},
      {"guard", "python", "python3"},
      {"guard", "js", "node"},
      {"context", "sh", "sh"},
      {"context", "python", "python3"},
      {"context", "js", "node"},
      {"preflight", "sh", "sh"},
      {"preflight", "python", "python3"},
      {"log", NULL, "sh"},
      {"stop", NULL, "sh"},
      {"summary", "sh", "sh"},
      {"summary", "python", "python3"},
      {"summary", "js", "node"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (!is_program(rows[i].program)) {
      print_message("# skipped: a %s in %s: there is no %s\n", rows[i].kind, rows[i].language, rows[i].program);
      continue;
    }
    char id[32], line[512];
    snprintf(id, sizeof id, "h%zu", i);
    command c = {.arguments = {"hooks", "new", rows[i].kind, id, "made"}};
    if (rows[i].language) {
      c.arguments[5] = "--language";
      c.arguments[6] = rows[i].language;
    }
    assert_status(&c, 0);
    snprintf(line, sizeof line, "  sh 'made/%s.test.sh'\n", id);
    assert_holds(&c.out, "  turnphase hooks trust 'made'\n");
    assert_holds(&c.out, line);
    must(0, "trust", "made");
    snprintf(line, sizeof line, "sh 'made/%s.test.sh' > printed 2>&1 || { cat printed; exit 1; }", id);
    if (system(line) != 0) fail_msg("the test of a new %s in %s fails", rows[i].kind, rows[i].language);
    must(0, "check", "made");
    command_free(&c);
  }
}

/* The second session, of another process, gets a reminder with the result of the first one. */
TEST(a_new_summary_is_read_by_the_next_session) {
  static const struct {
    const char *language, *program, *part;
  } rows[] = {
      {"sh", "sh", "completed"}, {"python", "python3", "ended: completed."}, {"js", "node", "ended: completed."}};
  put("model.yaml", "responses: [{text: Done.}]\n", 0644);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (!is_program(rows[i].program)) continue;
    char directory[16], talk[64];
    snprintf(directory, sizeof directory, "made%zu", i);
    command c = {.arguments = {"hooks", "new", "summary", directory, directory, "--language", rows[i].language}};
    assert_status(&c, 0);
    command_free(&c);
    must(0, "trust", directory);
    for (int session = 0; session < 2; session++) {
      snprintf(talk, sizeof talk, "{\"session\": \"s%d\", \"user\": \"Build it.\"}\n", session);
      c = (command){.arguments = {"run", "--no-memory", "--hooks", directory, "--script", "model.yaml", "--json", "-"},
                    .input = talk};
      assert_status(&c, 0);
      assert_int_equal(holds(&c.out, "The session before this one ended"), session == 1);
      if (session == 1) assert_holds(&c.out, rows[i].part);
      command_free(&c);
    }
  }
}

TEST(a_new_hook_makes_the_folders_above_it) {
  command c = {.arguments = {"hooks", "new", "guard", "a", ".system/more/hooks"}};
  assert_status(&c, 0);
  assert_true(is_there(".system/more/hooks/a.yaml"));
  command_free(&c);
  put("file", "", 0644);
  c = (command){.arguments = {"hooks", "new", "guard", "a", "file/more/hooks"}};
  assert_status(&c, 74);
  assert_holds(&c.err, "file/more: Not a directory");
  command_free(&c);
}

TEST(a_new_hook_overwrites_nothing_and_leaves_nothing_behind) {
  put("hooks/a.sh", "mine\n", 0644);
  command c = {.arguments = {"hooks", "new", "guard", "a", "hooks"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "hooks/a.sh: File exists");
  assert_false(is_there("hooks/a.yaml"));
  command_free(&c);
  command log = {.arguments = {"hooks", "new", "log", "b", "hooks", "--language", "js"}};
  assert_status(&log, 2);
  command_free(&log);
}

/* ---- trust ---- */

TEST(file_that_is_no_file_is_named_by_each_command_that_reads_hooks) {
  static const char *const lines[][5] = {{"hooks", "list", "hooks"},
                                         {"hooks", "check", "hooks"},
                                         {"hooks", "trust", "hooks"},
                                         {"hooks", "run", "hooks", "x"},
                                         {"tool", "list", "--hooks", "hooks"},
                                         {"mcp", "check", "--mcp=a=true", "--hooks", "hooks"},
                                         {"mcp", "serve", "--hooks", "hooks"},
                                         {"plan", "tool.pre", "--hooks", "hooks"},
                                         {"run", "--model=script:m.yaml", "--hooks", "hooks", "c.yaml"},
                                         {"chat", "--model=script:m.yaml", "--hooks", "hooks"},
                                         {"serve", "--model=script:m.yaml", "--hooks", "hooks"}};
  put("m.yaml", "responses:\n  - text: hello\n", 0644);
  put("c.yaml", "sessions:\n  - {id: s, turns: [{user: hello}]}\n", 0644);
  assert_int_equal(mkfifo("hooks/a.yaml", 0600), 0);
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    command c = {0};
    for (int j = 0; j < 5; j++) c.arguments[j] = lines[i][j];
    assert_status(&c, 74);
    assert_holds(&c.err, "hooks/a.yaml: cannot be read: it is not a regular file");
    command_free(&c);
  }
}

TEST(directory_that_is_not_there_is_named_with_how_one_is_made) {
  static const char *const lines[][5] = {{"hooks", "list", "./nope"},
                                         {"hooks", "check", "./nope"},
                                         {"hooks", "trust", "./nope"},
                                         {"hooks", "run", "./nope", "x"},
                                         {"tool", "list", "--hooks", "./nope"},
                                         {"mcp", "check", "--mcp=a=true", "--hooks", "./nope"},
                                         {"plan", "tool.pre", "--hooks", "./nope"}};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    command c = {0};
    for (int j = 0; j < 5; j++) c.arguments[j] = lines[i][j];
    assert_status(&c, 74);
    assert_holds(&c.err,
                 "./nope: there is no such directory of hooks; make one: turnphase hooks new guard NAME ./nope");
    command_free(&c);
  }
  static const char *const options[] = {"--files", "--skills"};
  for (int i = 0; i < 2; i++) {
    command c = {.arguments = {"tool", "list", options[i], "./nope"}};
    assert_status(&c, 74);
    assert_holds(&c.err, options[i]);
    assert_holds(&c.err, "./nope: No such file or directory; name a directory that is there");
    command_free(&c);
  }
  put("file", "x", 0644);
  command c = {.arguments = {"hooks", "list", "file"}};
  assert_status(&c, 74);
  assert_holds(&c.err, "file: is no directory");
  command_free(&c);
}

TEST(nothing_of_a_directory_that_is_not_trusted_runs) {
  put_guard("#!/bin/sh\ntouch ran\n");
  put("model.yaml", "responses:\n  - text: Hello.\n", 0644);
  put("talk.jsonl", "{\"session\": \"s\", \"user\": \"hi\"}\n", 0644);
  static const char *const words[][6] = {{"run", "--script", "model.yaml", "--hooks", "hooks", "talk.jsonl"},
                                         {"plan", "--hooks", "hooks"},
                                         {"bench", "--hooks", "hooks"},
                                         {"hooks", "run", "hooks", "guard"}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    command c = {.arguments = {NULL}};
    for (int j = 0; j < 6; j++) c.arguments[j] = words[i][j];
    assert_status(&c, 78);
    assert_holds(&c.err, "turnphase hooks trust hooks");
    assert_int_equal(c.out.size, 0);
    command_free(&c);
  }
  must(0, "list", "hooks");
  must(0, "check", "hooks");
  must(0, "trust", "hooks");
  assert_false(is_there("ran"));
  command c;
  try_hook("guard", call_of_ls, 0, "allow", &c);
  command_free(&c);
  assert_true(is_there("ran"));
}

TEST(a_change_of_any_file_ends_the_trust) {
  put_guard("#!/bin/sh\nexit 0\n");
  must(0, "trust", "hooks");
  put("hooks/guard.sh", "#!/bin/sh\ntouch ran\n", 0755);
  command c = {.arguments = {"hooks", "run", "hooks", "guard"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "has changed since it was trusted");
  assert_false(is_there("ran"));
  command_free(&c);
  must(0, "trust", "hooks");
  try_hook("guard", call_of_ls, 0, "allow", &c);
  command_free(&c);
  must(0, "untrust", "hooks");
  c = (command){.arguments = {"hooks", "run", "hooks/../hooks", "guard"}};
  assert_status(&c, 78);
  command_free(&c);
}

static void must_refuse_trust(const char *words) {
  command c = {.arguments = {"plan", "--hooks", "hooks"}};
  assert_status(&c, 78);
  assert_holds(&c.err, words);
  command_free(&c);
}

TEST(the_file_of_trusted_hashes_is_the_users_alone) {
  put_guard("#!/bin/sh\nexit 0\n");
  assert_int_equal(mkdir("other", 0755), 0);
  must(0, "trust", "other");
  must(0, "trust", "hooks");
  struct stat found;
  assert_int_equal(stat("config/turnphase/trusted", &found), 0);
  assert_int_equal(found.st_mode & 0777, 0600);
  must(0, "untrust", "other");
  must(0, "untrust", "other");
  command c = {.arguments = {"plan", "--hooks", "hooks"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "guard");
  command_free(&c);
  assert_int_equal(chmod("config/turnphase/trusted", 0666), 0);
  must_refuse_trust("another user may have written it");
  assert_int_equal(chmod("config/turnphase/trusted", 0600), 0);
  put("config/turnphase/trusted", "all of them\n", 0600);
  must_refuse_trust("config/turnphase/trusted:1:1: ");
  must(78, "trust", "hooks");
  setenv("XDG_CONFIG_HOME", "config", 1);
  setenv("HOME", scratch, 1);
  must(0, "trust", "hooks");
  assert_true(is_there(".config/turnphase/trusted"));
}

TEST(the_kill_switch_leaves_hooks_out_and_says_so) {
  put_guard("#!/bin/sh\ntouch ran\nexit 1\n");
  must(0, "trust", "hooks");
  setenv("TURNPHASE_DISABLE_HOOKS", "1", 1);
  command c = {.arguments = {"plan", "--no-memory", "--hooks", "hooks", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.err, "TURNPHASE_DISABLE_HOOKS=1");
  assert_false(holds(&c.out, "guard"));
  command_free(&c);
  c = (command){.arguments = {"hooks", "run", "hooks", "guard"}};
  assert_status(&c, 78);
  command_free(&c);
  put("hooks/b.yaml", "id: b\nevent: tool.pre\nafter: none\nhandler: {command: ./b}\n", 0644);
  must(78, "check", "hooks"); /* nevertheless the directory is refused */
  unsetenv("TURNPHASE_DISABLE_HOOKS");
  assert_false(is_there("ran"));
}

/* ---- check and list ---- */

TEST(check_says_what_a_commit_would_with_file_line_and_column) {
  put("hooks/a.yaml", "id: a\nevent: tool.pre\nhandler: {command: ./x}\ncolour: red\n", 0644);
  command c = {.arguments = {"hooks", "check", "hooks"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "hooks/a.yaml:4:1: a hook has no key \"colour\", only ");
  command_free(&c);
  put("hooks/a.yaml", "event: tool.pre\nid: a\nafter: none\nhandler: {command: ./x}\n", 0644);
  c = (command){.arguments = {"hooks", "check", "hooks", "--json"}};
  assert_status(&c, 78);
  assert_holds(&c.out, "\"ok\":false");
  assert_holds(&c.out, "\"file\":\"hooks/a.yaml\",\"line\":2,\"column\":5,\"code\":\"TP_ERR_MISSING_DEPENDENCY\"");
  command_free(&c);
  put("hooks/a.yaml", "id: a\nevent: turn.pre_compaction\nhandler: {command: ./x}\n", 0644);
  must(0, "check", "hooks");
  must(74, "check", "no_such_directory");
  put("hooks/a.yaml", "id: a\nevent: tool.pre\nhandler: {command: ./x}\n", 0644);
  c = (command){.arguments = {"hooks", "check", "hooks", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"ok\":true");
  assert_holds(&c.out, "\"trusted\":false,\"hooks\":1,\"warnings\":[{\"hook\":\"a\"");
  command_free(&c);
}

/* The list is for looking: what needs no list of trust is shown without one. */
TEST(without_a_place_for_trust_hooks_are_shown_and_none_runs) {
  static const char *const shown[] = {"list", "check"}, *const refused[] = {"trust", "untrust"};
  put_guard("#!/bin/sh\ntouch ran\n");
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("HOME");
  for (int i = 0; i < 2; i++) {
    command c = {.arguments = {"hooks", shown[i], "hooks"}};
    assert_status(&c, 0);
    assert_holds(&c.out, i == 0 ? "guard " : "1 hooks, all of them could be committed");
    assert_holds(&c.err, "warning: no place for what is trusted, so nothing is: set HOME");
    assert_false(holds(&c.out, ", trusted"));
    command_free(&c);
    c = (command){.arguments = {"hooks", refused[i], "hooks"}};
    assert_status(&c, 78);
    assert_holds(&c.err, "no place for what is trusted: set HOME or XDG_CONFIG_HOME to an absolute path");
    command_free(&c);
  }
  command c = {.arguments = {"plan", "--hooks", "hooks"}};
  assert_status(&c, 78);
  command_free(&c);
  assert_false(is_there("ran"));
}

TEST(a_script_that_is_not_there_is_named_before_it_is_missed) {
  static const char *const actions[] = {"list", "check", "trust"};
  put("hooks/a.yaml", "id: one\nevent: tool.pre\nhandler: {command: hooks/nothing.sh}\n", 0644);
  for (int i = 0; i < 3; i++) {
    command c = {.arguments = {"hooks", actions[i], "hooks"}};
    assert_status(&c, 0);
    assert_holds(&c.err, "hooks/a.yaml:1:1: warning: one: there is no ");
    assert_holds(&c.err, "nothing.sh: a relative path of a command begins at ");
    command_free(&c);
  }
}

TEST(a_hook_that_fails_open_has_the_limit_of_its_phase) {
  put("hooks/a.yaml", "id: open\nevent: tool.pre\nfailure: best_effort\nhandler: {command: ./x, timeout_ms: 600000}\n",
      0644);
  put("hooks/b.yaml", "id: shut\nevent: tool.pre\nfailure: required\nhandler: {command: ./x, timeout_ms: 600000}\n",
      0644);
  command c = {.arguments = {"hooks", "list", "hooks", "-v"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "best_effort  30000 ms (of 600000)");
  assert_holds(&c.out, "required     600000 ms ");
  command_free(&c);
}

TEST(list_shows_what_holds_for_each_hook) {
  put("hooks/a.yaml",
      "id: one\nevent_type: PreAbilityCall\nmatch: {ability_scope: 'web.*'}\n"
      "handler: {command: ./x, timeout_ms: 700}\n",
      0644);
  put("hooks/b.yaml",
      "id: two\nevent: tool.post\nenabled: false\nblocking: false\n"
      "handler: {kind: log, path: \"a\\e[31mb\"}\n",
      0644);
  command c = {.arguments = {"hooks", "list", "hooks", "-v"}};
  assert_status(&c, 0);
  assert_holds(&c.err, "hooks: is not trusted as it is now");
  assert_holds(&c.out, "one  PreAbilityCall  tool.pre   yes      yes       ability_scope: web.*  required     700 ms ");
  assert_holds(&c.out,
               "two  tool.post       tool.post  no       no        always                best_effort  30000 ms");
  assert_holds(&c.out, "/a<U+001B>[31mb");
  command_free(&c);
  c = (command){.arguments = {"hooks", "list", "hooks", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"trusted\":false,\"hooks\":[{\"id\":\"one\",\"event\":\"PreAbilityCall\",");
  assert_holds(&c.out,
               "\"phase\":\"tool.pre\",\"enabled\":true,\"blocking\":true,"
               "\"match\":\"ability_scope: web.*\",\"policy\":\"required\",\"limit_ms\":700,");
  command_free(&c);
}

static const char *const nine_hooks[][2] = {
    {"hooks/a.yaml",
     "id: slow_calls\nevent: PostAbilityCall\nblocking: false\nmatch: {min_duration_ms: 250}\n"
     "handler: {kind: log, path: a}\n"},
    {"hooks/b.yaml",
     "id: build\nevent: SessionStop\nmatch: {only_if_changed_paths: ['services/**', 'apps/**']}\n"
     "handler: {kind: log, path: b}\n"},
    {"hooks/c.yaml",
     "id: last_gate\nevent: PreAbilityCall\nenabled: false\nmatch: {ability_scope: [edit_file, "
     "write_file, 'web.*', db_write]}\nhandler: {kind: deny, reason: no}\n"},
    {"hooks/d.yaml", "id: a_name_that_is_longer_than_its_column\nevent: PromptSubmit\nhandler: {kind: log, path: d}\n"},
    {"hooks/e.yaml", "id: gate\nevent: tool.pre\nhandler: {kind: deny, reason: no}\n"},
    {"hooks/f.yaml",
     "id: production\nevent: PreAbilityCall\nmatch: {arguments: {path: ['config/prod/**', 'a b'], "
     "lines: {min: 3, max: 4.5}, force: {exists: true}}}\nhandler: {kind: deny, reason: no}\n"},
    {"hooks/g.yaml",
     "id: profile\nevent: PromptSubmit\nmatch: {agent: [coder, reviewer], mode: plan, environment: "
     "[dev, 'staging-*']}\nhandler: {kind: log, path: g}\n"},
    {"hooks/h.yaml",
     "id: git\nevent: PreToolUse\nprotocol: claude-code\nmatch: {matcher: 'Bash|Edit', if: 'Bash(git "
     "push*)'}\nhandler: {command: ['true']}\n"},
    {"hooks/i.yaml", "id: lists\nkind: permissions\nnever: [rm]\nagent: [coder, tester]\n"},
};

TEST(list_groups_by_event_and_has_the_whole_of_each_match) {
  for (size_t i = 0; i < sizeof nine_hooks / sizeof nine_hooks[0]; i++) put(nine_hooks[i][0], nine_hooks[i][1], 0644);
  static const char whole[] =
      "id                                    event_type      enabled blocking match_summary\n"
      "------------------------------------- --------------- ------- -------- "
      "----------------------------------------------------------------\n"
      "a_name_that_is_longer_than_its_column PromptSubmit    true    true     all sessions\n"
      "profile                               PromptSubmit    true    true     "
      "agent=coder,reviewer; mode=plan; environment=dev,staging-*\n"
      "last_gate                             PreAbilityCall  false   true     "
      "ability=edit_file,write_file,web.*,db_write\n"
      "production                            PreAbilityCall  true    true     "
      "arguments={path: [config/prod/**, a b], lines: {min: 3, max: 4.5}, force: {exists: true}}\n"
      "git                                   PreToolUse      true    true     matcher=Bash|Edit; if=Bash(git push*)\n"
      "gate                                  tool.pre        true    true     all calls\n"
      "lists                                 tool.pre        true    true     agent=coder,tester\n"
      "slow_calls                            PostAbilityCall true    false    min_duration_ms=250\n"
      "build                                 SessionStop     true    true     paths=services/**,apps/**\n";
  must(0, "trust", "hooks");
  command c = {.arguments = {"hooks", "list", "hooks"}};
  assert_status(&c, 0);
  assert_string_equal(c.out.data, whole);
  assert_int_equal(c.err.size, 0);
  command_free(&c);
}

TEST(list_is_readable_in_80_columns) {
  for (size_t i = 0; i < sizeof nine_hooks / sizeof nine_hooks[0]; i++) put(nine_hooks[i][0], nine_hooks[i][1], 0644);
  static const char narrow[] =
      "id                       event_type      enabled blocking match_summary\n"
      "------------------------ --------------- ------- -------- -------------\n"
      "a_name_that_is_longer_than_its_column PromptSubmit true true all sessions\n"
      "profile                  PromptSubmit    true    true     agent=coder,reviewer;\n"
      "                                                          mode=plan;\n"
      "                                                          environment=dev,\n"
      "                                                          staging-*\n"
      "last_gate                PreAbilityCall  false   true     ability=edit_file,\n"
      "                                                          write_file,web.*,\n"
      "                                                          db_write\n"
      "production               PreAbilityCall  true    true\n"
      "    arguments={path: [config/prod/**, a b], lines: {min: 3, max: 4.5},\n"
      "    force: {exists: true}}\n"
      "git                      PreToolUse      true    true     matcher=Bash|Edit;\n"
      "                                                          if=Bash(git push*)\n"
      "gate                     tool.pre        true    true     all calls\n"
      "lists                    tool.pre        true    true     agent=coder,tester\n"
      "slow_calls               PostAbilityCall true    false    min_duration_ms=250\n"
      "build                    SessionStop     true    true     paths=services/**,\n"
      "                                                          apps/**\n";
  must(0, "trust", "hooks");
  setenv("COLUMNS", "80", 1);
  command c = {.arguments = {"hooks", "list", "hooks"}};
  assert_status(&c, 0);
  unsetenv("COLUMNS");
  assert_string_equal(c.out.data, narrow);
  command_free(&c);
}

/* ---- run ---- */

TEST(one_hook_alone_shows_what_it_got_said_and_came_to) {
  static const struct {
    const char *script;
    int status;
    const char *judged, *part;
  } rows[] = {
      {"exit 0", 0, "allow", "\"exit_code\":0"},
      {"echo look out", 0, "allow", "{\"kind\":\"reminder\",\"text\":\"look out\"}"},
      {"echo no >&2; exit 3", 0, "deny", "\"errors\":\"no\\n\",\"end\":\"exited\",\"exit_code\":3"},
      {"echo '{\"hook_signals\": [{\"kind\": \"ability_guard\", \"code\": \"REQUIRES_HUMAN\"}]}'", 0, "ask", "signal"},
      {"echo '{\"continue\": tr'", 1, "failed", "\"why\":\"malformed\""},
      {"kill -KILL $$", 1, "failed", "\"end\":\"killed\",\"signal\":9"},
      {"sleep 100", 1, "failed", "\"end\":\"cancelled\""},
      {"cat >&2; exit 1", 0, "deny", "\\\"ability_id\\\":\\\"shell\\\""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char script[256];
    snprintf(script, sizeof script, "#!/bin/sh\n%s\n", rows[i].script);
    put_guard(script);
    put("hooks/guard.yaml", "id: guard\nevent: tool.pre\nhandler: {command: hooks/guard.sh, timeout_ms: 300}\n", 0644);
    must(0, "trust", "hooks");
    command c;
    try_hook("guard", call_of_ls, rows[i].status, rows[i].judged, &c);
    if (!holds(&c.out, rows[i].part)) fail_msg("%s: %s", rows[i].script, c.out.data);
    command_free(&c);
  }
}

TEST(a_hook_that_cannot_start_or_does_not_match_says_so) {
  put("hooks/a.yaml", "id: gone\nevent: tool.pre\nhandler: {command: ./no_such_program}\n", 0644);
  put("hooks/b.yaml", "id: web\nevent: tool.pre\nmatch: {ability_scope: 'web.*'}\nhandler: {command: ['true']}\n",
      0644);
  put("hooks/c.yaml", "id: late\nevent: tool.pre\nblocking: false\nhandler: {command: [sh, -c, 'touch ran']}\n", 0644);
  put("hooks/d.yaml", "id: lost\nevent: tool.pre\nblocking: false\nhandler: {command: ./no_such_program}\n", 0644);
  must(0, "trust", "hooks");
  command c;
  try_hook("gone", call_of_ls, 1, "failed", &c);
  assert_holds(&c.out, "\"why\":\"cannot_start\"");
  command_free(&c);
  try_hook("web", call_of_ls, 0, "skipped", &c);
  assert_holds(&c.out, "\"why\":\"match\"");
  command_free(&c);
  try_hook("late", call_of_ls, 0, "not_waited_for", &c);
  assert_true(is_there("ran"));
  command_free(&c);
  try_hook("lost", call_of_ls, 1, "failed", &c);
  command_free(&c);
  c = (command){.arguments = {"hooks", "run", "hooks", "web", "--payload", "-"}, .input = "{\"text\": \"hi\"}"};
  assert_status(&c, 78);
  assert_holds(&c.err, "tool.pre carries no field \"text\"");
  command_free(&c);
  c = (command){.arguments = {"hooks", "run", "hooks", "none"}};
  assert_status(&c, 2);
  assert_holds(&c.err, "there is no hook none");
  command_free(&c);
}

TEST(people_see_one_hook_line_by_line) {
  put_guard("#!/bin/sh\nprintf 'no\\033[31m' >&2\nexit 3\n");
  must(0, "trust", "hooks");
  command c = {.arguments = {"hooks", "run", "hooks", "guard", "--payload", "-"}, .input = call_of_ls};
  assert_status(&c, 0);
  assert_holds(&c.out, "hook      guard, tool.pre, script ");
  assert_holds(&c.out, "\ngot       {\"event_type\":\"tool.pre\"");
  assert_holds(&c.out, "\non stderr no<U+001B>[31m\n");
  assert_holds(&c.out, "\nended     exit code 3, after ");
  assert_holds(&c.out, "\njudged    deny: no");
  command_free(&c);
}

/* ---- in a turn ---- */

TEST(output_that_is_not_utf8_is_shown) {
  put_guard("#!/bin/sh\nprintf 'caf\\351'\nprintf '\\300\\257' >&2\nexit 1\n");
  must(0, "trust", "hooks");
  command c;
  try_hook("guard", call_of_ls, 0, "deny", &c);
  assert_holds(&c.out, "\"output\":\"caf\xEF\xBF\xBD\"");
  assert_holds(&c.out, "\"errors\":\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  assert_holds(&c.out, "3 bytes are not UTF-8 in what the program printed");
  command_free(&c);
}

TEST(a_run_has_the_hooks_of_a_trusted_directory) {
  put("hooks/a.yaml", "id: closed\nevent: turn.intake\nhandler: {command: [sh, -c, 'echo not today >&2; exit 1']}\n",
      0644);
  put("model.yaml", "responses:\n  - text: Hello.\n", 0644);
  put("talk.jsonl", "{\"session\": \"s\", \"user\": \"hi\"}\n", 0644);
  must(0, "trust", "hooks");
  command c = {.arguments = {"run", "--json", "--script", "model.yaml", "--hooks", "hooks", "talk.jsonl"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"outcome\":\"denied\"");
  assert_holds(&c.out, "not today");
  command_free(&c);
}

/* Each message is one turn, and each hook of the directory leaves a mark. */
static void put_mark(const char *mark) {
  char text[256];
  snprintf(text, sizeof text, "id: mark\nevent: turn.intake\nhandler: {command: [touch, %s]}\n", mark);
  put("hooks/a.yaml", text, 0644);
}

TEST(a_chat_takes_a_change_of_its_hooks_once_it_is_trusted) {
  setenv("TERM", "xterm", 1);
  put("model.yaml", "responses: [{text: First.}, {text: Second.}, {text: Third.}, {text: Fourth.}]\n", 0644);
  put_mark("three");
  must(0, "trust", "hooks");
  assert_int_equal(rename("config/turnphase/trusted", "trusts_three"), 0);
  put_mark("one");
  must(0, "trust", "hooks");
  terminal *t = terminal_open(
      (const char *const[]){getenv("TURNPHASE"), "chat", "--script", "model.yaml", "--hooks", "hooks", NULL}, 160);
  terminal_await(t, "\n> ");
  put_mark("two");
  terminal_await(t, "turnphase hooks trust hooks\n");
  terminal_say(t, "a");
  terminal_await(t, "\n> ");
  assert_true(is_there("one"));
  assert_false(is_there("two"));
  put("hooks/a.yaml", "id: mark\nevent: turn.intake\nhandler: {}\n", 0644);
  terminal_await(t, "the change is refused: the hooks before it stay\n");
  assert_non_null(strstr(terminal_text(t), "hooks/a.yaml:3:"));
  assert_int_equal(rename("trusts_three", "config/turnphase/trusted"), 0);
  put_mark("three");
  terminal_await(t, "turns from now on have its hooks\n");
  terminal_say(t, "b");
  terminal_await(t, "\n> ");
  assert_true(is_there("three"));
  put_mark("four");
  terminal_await(t, "turnphase hooks trust hooks\n");
  must(0, "trust", "hooks");
  terminal_say(t, "c");
  terminal_await(t, "\n> ");
  assert_true(is_there("four"));
  assert_false(is_there("two"));
  terminal_type(t, "\4");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
}

TEST(every_program_is_in_a_sandbox_where_the_operator_demands_it) {
  put("model.yaml", "responses:\n  - text: Hello.\n", 0644);
  put("talk.jsonl", "{\"session\": \"s\", \"user\": \"hi\"}\n", 0644);
  put_mark("ran");
  must(0, "trust", "hooks");
  command c = {.arguments = {"run", "--json", "--script", "model.yaml", "--hooks", "hooks", "--sandbox", "talk.jsonl"}};
  command_run(&c);
  if (holds(&c.err, "this kernel has no")) {
    print_message("# skipped: %s", c.err.data);
    command_free(&c);
    return;
  }
  assert_int_equal(c.status, 0);
  assert_holds(&c.out, "\"outcome\":\"denied\"");
  assert_false(is_there("ran"));
  command_free(&c);
  c = (command){.arguments = {"hooks", "run", "hooks", "mark", "--payload", "-", "--json", "--sandbox"},
                .input = "{\"text\": \"hi\"}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"judged\":\"deny\"");
  command_free(&c);
  put("hooks/a.yaml", "id: mark\nevent: turn.intake\nhandler: {command: [touch, ran], sandbox: false}\n", 0644);
  must(0, "check", "hooks");
  c = (command){.arguments = {"hooks", "check", "hooks", "--sandbox"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "the operator demands a sandbox");
  command_free(&c);
  must(0, "trust", "hooks");
  c = (command){.arguments = {"tool", "list", "--hooks", "hooks", "--sandbox"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "the operator demands a sandbox");
  command_free(&c);
  c = (command){.arguments = {"run", "--sandbox", "--script", "model.yaml", "talk.jsonl"}};
  assert_status(&c, 2);
  assert_holds(&c.err, "--sandbox is for the hooks of --hooks DIR");
  command_free(&c);
  c = (command){.arguments = {"hooks", "trust", "hooks", "--sandbox"}};
  assert_status(&c, 2);
  command_free(&c);
}

TEST(webhooks_go_where_the_operator_allows) {
  put("hooks/a.yaml", "id: a\nevent: tool.pre\nhandler: {kind: webhook, url: 'https://g.example:8443/'}\n", 0644);
  command c = {.arguments = {"hooks", "check", "hooks"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "hooks/a.yaml:3:31: the operator does not allow webhooks to g.example:8443");
  command_free(&c);
  c = (command){
      .arguments = {"hooks", "list", "hooks", "-v", "--webhook", "other.example", "--webhook", "g.example:8443"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "webhook https://g.example:8443");
  command_free(&c);
  c = (command){.arguments = {"plan", "--hooks", "hooks", "--webhook", "https://g.example"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "\"https://g.example\": host, or host:port");
  command_free(&c);
  c = (command){.arguments = {"plan", "--webhook", "g.example"}};
  assert_status(&c, 2);
  command_free(&c);
}
