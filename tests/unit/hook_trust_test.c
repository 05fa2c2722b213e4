/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trust covers: code, and not data that code reads or writes. A table of commands gives for each command the
 * file that the trust covers; other files may change without a loss of the trust. Before each start everything covered
 * is compared: a changed program, a helper that was made later, a script that was missing, another program in PATH. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"

#include <pthread.h>
#include <stdatomic.h>

static char root[64];

static int make_root(void **state) {
  int made = make_directory(state);
  snprintf(root, sizeof root, "%.50s_root", directory);
  return made != 0 || mkdir(root, 0755) != 0 ? -1 : 0;
}

static int remove_root(void **state) {
  char line[300];
  snprintf(line, sizeof line, "rm -rf '%s' '%s'/*/", root, directory);
  return system(line) != 0 ? -1 : remove_directory(state);
}

FOR_EACH_TEST(make_root, remove_root);

/* In the root, or below `hooks/` in the directory. */
static void path_of(const char *name, char ret_path[300]) {
  bool is_inside = strncmp(name, "hooks/", 6) == 0;
  snprintf(ret_path, 300, "%s/%s", is_inside ? directory : root, is_inside ? name + 6 : name);
}

static void put(const char *name, const char *text, mode_t mode) {
  char file[300], other[320];
  path_of(name, file);
  for (char *slash = strchr(file + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(file, 0755);
    *slash = '/';
  }
  snprintf(other, sizeof other, "%s.new~", file);
  FILE *stream = fopen(other, "we");
  assert_non_null(stream);
  fputs(text, stream);
  fclose(stream);
  assert_int_equal(chmod(other, mode), 0);
  assert_int_equal(rename(other, file), 0);
}

static tp_hooks_options options_here(void) {
  return (tp_hooks_options){.struct_size = sizeof(tp_hooks_options), .directory = directory, .root = root};
}

static void hash_now(tp_runtime *runtime, char ret_hash[65]) {
  tp_hooks_options options = options_here();
  tp_hooks *hooks;
  tp_fault fault = {0};
  if (tp_hooks_read(runtime, &options, &hooks, &fault) != TP_OK) fail_msg("%s: %s", fault.subject, fault.message);
  snprintf(ret_hash, 65, "%s", tp_hooks_hash(hooks));
  tp_hooks_free(hooks);
}

static void put_line(const char *protocol, const char *line) {
  char yaml[1200], quoted[600];
  size_t used = 0;
  for (; *line && used + 3 < sizeof quoted; line++) {
    if (*line == '\'') quoted[used++] = '\'';
    quoted[used++] = *line;
  }
  quoted[used] = '\0';
  snprintf(yaml, sizeof yaml, "id: a\n%sevent: %s\nhandler:\n  command: [sh, -c, '%s']\n", protocol,
           protocol[0] ? "PreToolUse" : "tool.pre", quoted);
  put("hooks/a.yaml", yaml, 0600);
}

/* ---- code and data ---- */

static const struct {
  const char *line, *file;
  bool is_code;
} lines[] = {
    /* what is run, in the forms that lines of a shell have for it */
    {"./x.sh", "x.sh", true},
    {"sh x.sh", "x.sh", true},
    {"bash -eu ./x", "x", true},
    {"bash -o pipefail x", "x", true},
    {"sh -c 'sh -c \"./x.sh --now\"'", "x.sh", true},
    {"$CLAUDE_PROJECT_DIR/x.sh", "x.sh", true},
    {"\"${CLAUDE_PROJECT_DIR:-.}\"/x.sh", "x.sh", true},
    {"cd lib && ./x.sh", "lib/x.sh", true},
    {"cd \"$CLAUDE_PROJECT_DIR\"/lib; . ./x", "lib/x", true},
    {"D=$CLAUDE_PROJECT_DIR/lib; \"$D\"/x.sh", "lib/x.sh", true},
    {"export D=lib; source $D/x", "lib/x", true},
    {"if true; then ./x.sh; fi", "x.sh", true},
    {"for f in lib/*.sh; do . \"$f\"; done", "lib/x.sh", true},
    {"exec ./x.sh", "x.sh", true},
    {"env A=1 ./x.sh", "x.sh", true},
    {"env -S 'sh x.sh'", "x.sh", true},
    {"env --chdir=lib ./x.sh", "lib/x.sh", true},
    {"env -C lib sh x", "lib/x", true},
    {"timeout 5 nice -n 3 sh x.sh", "x.sh", true},
    {"flock /tmp/none.lock ./x.sh", "x.sh", true},
    {"python3 x", "x", true},
    {"python3 -W ignore x.py", "x.py", true},
    {"python3 -m lib.x", "lib/x.py", true},
    {"python3 lib", "lib/__main__.py", true},
    {"awk -f x", "x", true},
    {"jq -f x .", "x", true},
    {"sed -fx", "x", true},
    {"sh < x", "x", true},
    {"cat x | sh", "x", true},
    {"python3 - < x", "x", true},
    {"echo $(./x.sh)", "x.sh", true},
    {"`./x.sh`", "x.sh", true},
    {"eval 'sh x'", "x", true},
    {"trap './x.sh' EXIT; true", "x.sh", true},
    {"true | ./x.sh | cat", "x.sh", true},
    {"mytool --require=./x.js", "x.js", true},
    {"bash \"$(git rev-parse --show-toplevel)/x.sh\"", "x.sh", true},
    {"\"$(git rev-parse --show-toplevel)\"/lib/x.sh", "lib/x.sh", true},
    {"cd \"$(git rev-parse --show-toplevel)/lib\" && ./x.sh", "lib/x.sh", true},
    {"cd \"$(git rev-parse --show-toplevel)\" && sh lib/x", "lib/x", true},
    {"R=$(pwd); sh \"$R/lib/x\"", "lib/x", true},
    {"sh \"`pwd`/x\"", "x", true},
    {"sh \"$PWD/x\"", "x", true},
    {"R=./; sh \"${R%/}/x\"", "x", true},
    {"\"$(command -v python3)\" x.py", "x.py", true},
    {"\"$MY_PYTHON\" x.py", "x.py", true},
    {"eval \"$(cat x.sh)\"", "x.sh", true},
    {"bash -c \"$(cat x.sh)\"", "x.sh", true},
    {"python3 -c \"$(cat x.py)\"", "x.py", true},
    {". <(cat x.sh)", "x.sh", true},
    {". /dev/stdin < x", "x", true},
    {"sh -c '\"$1\"' a ./x.sh", "x.sh", true},
    {"bash -c -e ./x.sh", "x.sh", true},
    {"sh lib/{x,y}.sh", "lib/x.sh", true},
    {"make -s all", "Makefile", true},
    {"make -C lib all", "lib/Makefile", true},
    {"run-parts lib", "lib/x", true},
    {"git push $(sh x) --force", "x", true},
    /* by a name that is found, printed or listed */
    {"find lib -name '*.sh' -exec sh {} \\;", "lib/x.sh", true},
    {"find lib tools -type f -name '*.sh' -exec bash -e {} +", "tools/in/x.sh", true},
    {"find lib -type f -executable -exec {} \\;", "lib/x", true},
    {"find . -maxdepth 2 -iname '*.hook' -execdir timeout 5 {} ';'", "lib/x.hook", true},
    {"find -name '*.py' -ok python3 -u {} \\;", "a/b/x.py", true},
    {"find lib -exec sh -c 'sh \"$1\"' _ {} \\;", "lib/x", true},
    {"find lib -name '*.sh' -exec bash -c 'source {}' \\;", "lib/x.sh", true},
    {"find lib -name '*.sh' | xargs -n1 sh", "lib/x.sh", true},
    {"find lib -name '*.sh' -print0 | sort -z | xargs -0 -I% timeout 3 sh %", "lib/x.sh", true},
    {"ls lib/*.sh | xargs -n 1 bash", "lib/x.sh", true},
    {"ls lib | xargs -I{} sh lib/{}", "lib/x", true},
    {"echo ./x.sh | xargs -P4 sh", "x.sh", true},
    {"printf '%s\\n' lib/*.sh | xargs -i sh -c '. {}'", "lib/x.sh", true},
    {"cat x.txt | xargs -n1 sh", "x.txt", true},
    {"xargs -a x.txt -n1 sh", "x.txt", true},
    {"xargs -n1 python3 < x.txt", "x.txt", true},
    {"parallel sh ::: lib/x.sh lib/y.sh", "lib/x.sh", true},
    {"parallel -j4 'sh {}' ::: lib/*.sh", "lib/x.sh", true},
    {"find lib -name '*.sh' | parallel bash", "lib/x.sh", true},
    {"parallel ::: ./x.sh", "x.sh", true},
    {"for f in $(find lib -name '*.sh'); do sh \"$f\"; done", "lib/x.sh", true},
    {"find lib -name '*.sh' | while read -r f; do \"$f\"; done", "lib/x.sh", true},
    {"while read f; do bash $f; done < x.txt", "x.txt", true},
    /* what is written */
    {"cat >> x.log", "x.log", false},
    {"cat > x", "x", false},
    {"cat >> ./x.sh.log", "x.sh.log", false},
    {"cat >| \"$CLAUDE_PROJECT_DIR\"/x", "x", false},
    {"cat &> x", "x", false},
    {"cat >/dev/null 2>> x", "x", false},
    {"tee -a x", "x", false},
    {"jq -c . >> x.jsonl", "x.jsonl", false},
    {"touch x", "x", false},
    {"mkdir -p lib && date > lib/x", "lib/x", false},
    {"flock x true", "x", false},
    {"F=$CLAUDE_PROJECT_DIR/x.txt; cat >> \"$F\"", "x.txt", false},
    {"cp x.json y.json", "y.json", false},
    {"sqlite3 x.db 'select 1'", "x.db", false},
    {"sort -o x x", "x", false},
    {"mytool x.json", "x.json", false},
    {"mytool --state=x.state", "x.state", false},
    /* what is read */
    {"cat x", "x", false},
    {"grep -q secret src/x.py", "src/x.py", false},
    {"wc -l < x", "x", false},
    {"ruff check src/x.py", "src/x.py", false},
    {"npx prettier --check src/x.ts", "src/x.ts", false},
    {"git diff src/x.go", "src/x.go", false},
    {"test -f x.sh && true", "x.sh", false},
    {"python3 -c 'print(1)' x.json", "x.json", false},
    {"find . -name x.txt", "x.txt", false},
    {"cat > \"$(git rev-parse --show-toplevel)/x.sh\"", "x.sh", false},
    {"cat \"$PWD/x.sh\"", "x.sh", false},
    {"eval \"$(jq -r .a x.json)\"", "x.json", false},
    {"echo \"$(cat x.sh)\"", "x.sh", false},
    {"find lib -name '*.sh' -exec grep -l secret {} +", "lib/x.sh", false},
    {"find lib -name '*.py' -exec black --check {} +", "lib/x.py", false},
    {"find lib -exec sh -c 'grep -q a \"$1\"' _ {} \\;", "lib/x", false},
    {"find lib -name '*.py' | xargs ruff check", "lib/x.py", false},
    {"find lib -name '*.py' -newer x.json | wc -l", "lib/x.py", false},
    {"ls lib | xargs", "lib/x", false},
    {"cat x.txt | xargs rm -f", "x.txt", false},
    {"find lib -name '*.sh' -exec sh {} \\;", "lib/x.txt", false},
    {"find lib -name '*.sh' | xargs -n1 sh", "src/x.sh", false},
    {"parallel gzip ::: x.txt", "x.txt", false},
    {"while read f; do cat \"$f\"; done < x.txt", "x.txt", false},
};

TEST(a_trust_is_about_what_runs_and_not_about_what_is_read_or_written) {
  tp_runtime *runtime = open_runtime(NULL);
  size_t wrong = 0;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    char line[200], one[65], two[65];
    snprintf(line, sizeof line, "rm -rf '%s'/*", root);
    assert_int_equal(system(line), 0);
    put_line("protocol: claude-code\n", lines[i].line);
    put(lines[i].file, "a word\n", 0644);
    hash_now(runtime, one);
    put(lines[i].file, "another word\n", 0644);
    hash_now(runtime, two);
    bool changed = strcmp(one, two) != 0;
    if (changed != lines[i].is_code)
      print_message("# %s: %s %s\n", lines[i].line, lines[i].file, changed ? "is hashed" : "is not hashed");
    wrong += changed != lines[i].is_code;
  }
  assert_int_equal(wrong, 0);
  tp_runtime_free(runtime);
}

/* The hooks were read before the first command; each further step adds a file. A file that does not exist yet is no
 * reason to lose a trust. */
TEST(what_a_hook_makes_later_loses_no_trust) {
  static const char *const files[] = {"x.log",
                                      "hooks/audit.jsonl",
                                      "hooks/state.json",
                                      "hooks/count",
                                      "hooks/.lock",
                                      "hooks/logs/today.txt",
                                      "hooks/usage.db-wal",
                                      "hooks/__pycache__/x.cpython-311.pyc",
                                      "hooks/last.stamp",
                                      "hooks/notes.md"};
  static const char *const contents[] = {"words\n", "{}\n", "{}", "17\n",         "",
                                         "words\n", "x",    "x",  "2026-11-26\n", "words\n"};
  tp_runtime *runtime = open_runtime(NULL);
  char one[65], two[65];
  put_line("", "cat >> x.log");
  hash_now(runtime, one);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    put(files[i], contents[i], 0644);
    hash_now(runtime, two);
    if (strcmp(one, two) != 0) fail_msg("%s", files[i]);
  }
  put("hooks/later.sh", "true\n", 0644);
  hash_now(runtime, two);
  assert_string_not_equal(one, two);
  tp_runtime_free(runtime);
}

/* ---- between check and start ---- */

static tp_phase_result gate(tp_turn *turn) {
  static const tp_field tool = {.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = {"ls", 2}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &tool, .field_count = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, NULL), TP_OK);
  return result;
}

static const struct {
  const char *name, *line, *before, *after; /* files: NAME, with the text "exit 0"; before: it is there at the trust */
  bool runs;
} changes[] = {
    {"the script", "sh x.sh", "x.sh", "x.sh", false},
    {"a helper of the directory", "true", "hooks/lib/help.sh", "hooks/lib/help.sh", false},
    {"a helper that was made later", "true", NULL, "hooks/help.sh", false},
    {"a helper that was made later in a new folder", "true", NULL, "hooks/more/help.py", false},
    {"a script that was not there", "[ -f x.sh ] && sh x.sh; true", NULL, "x.sh", false},
    {"an argument that became code", "mytool x.sh || true", NULL, "x.sh", false},
    {"a script without an ending that was not there", "sh x || true", NULL, "x", false},
    {"a script that a pattern fits later", "for f in lib/*.sh; do sh \"$f\"; done", "lib/a.sh", "lib/b.sh", false},
    {"a file that a pattern fits later", "cat lib/*; true", "lib/a.txt", "lib/b.sh", true},
    {"a script in a folder that is run", "run-parts lib; true", "lib/a", "lib/b", false},
    {"a script that find fits later", "find lib -name '*.sh' -exec true {} \\; -exec sh {} \\;", "lib/a.sh", "lib/b.sh",
     false},
    {"a script in a folder that is made later", "find lib -name '*.sh' | xargs -n1 sh", "lib/a.sh", "lib/b/c/d.sh",
     false},
    {"a script with a name that find fits", "find lib -name b.sh -exec sh {} \\;", "lib/a.sh", "lib/c/b.sh", false},
    {"a file that find does not fit", "find lib -name '*.sh' -exec sh {} \\;", "lib/a.sh", "lib/b.txt", true},
    {"a script that find passes to a reader", "find lib -name '*.sh' -exec cat {} +", "lib/a.sh", "lib/b.sh", true},
    {"a script of a loop", "for f in $(ls lib/*.sh); do sh \"$f\"; done", "lib/a.sh", "lib/b.sh", false},
    {"a list of scripts", "cat list | xargs -r -n1 sh; true", "list", "list", false},
    {"a script below what is not known", "sh \"$(pwd)/x.sh\"; true", "x.sh", "x.sh", false},
    {"a script that was not there, below what is not known", "sh \"$(pwd)/x.sh\"; true", NULL, "x.sh", false},
    {"a log of the directory", "true", NULL, "hooks/x.log", true},
    {"a state of the directory", "true", "hooks/state.json", "hooks/state.json", true},
    {"data in the root", "cat x.json; true", "x.json", "x.json", true},
    {"what it writes", "echo 1 > out; true", NULL, "out", true},
    {"the file of the hook, which was read", "true", NULL, "hooks/b.yaml", true},
};

TEST(nothing_starts_after_its_code_has_changed) {
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    char line[400];
    snprintf(line, sizeof line, "rm -rf '%s'/* '%s'/*", root, directory);
    assert_int_equal(system(line), 0);
    put_line("", changes[i].line);
    if (changes[i].before) put(changes[i].before, "exit 0\n", 0644);
    tp_hooks_options options = options_here();
    tp_runtime *runtime = open_with_hooks(&options);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    if (result.outcome != TP_OK) fail_msg("%s: does not run at all", changes[i].name);
    put(changes[i].after, "exit 0 # changed\n", 0644);
    result = gate(turn);
    if ((result.outcome == TP_OK) != changes[i].runs) fail_msg("%s: %d", changes[i].name, (int)result.outcome);
    if (!changes[i].runs) {
      const char *slash = strrchr(changes[i].after, '/'), *name = slash ? slash + 1 : changes[i].after;
      assert_int_equal(result.why, TP_REASON_CANNOT_START);
      if (!memmem(result.reason.data, result.reason.size, name, strlen(name)))
        fail_msg("%s: %.*s", name, (int)result.reason.size, result.reason.data);
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- while it is started ---- */

/* `cur` is a link that alternates between two folders; no file in them ever changes. */
static atomic_bool stops;

static void point_to(const char *folder) {
  char link[300], other[300];
  path_of("cur", link);
  path_of("cur.new", other);
  if (symlink(folder, other) == 0) (void)rename(other, link);
}

static void *turn_links(void *arg) {
  (void)arg;
  while (!atomic_load(&stops)) {
    point_to("evil");
    point_to("good");
  }
  point_to("good");
  return NULL;
}

TEST(what_is_started_is_what_was_hashed_while_the_file_changes) {
  static const struct {
    const char *command, *name, *good, *evil;
  } rows[] = {
      {"[sh, cur/x.sh]", "x.sh", "exit 1\n", "echo > ran\nexit 0\n"},
      {"[./cur/x.sh]", "x.sh", "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho > ran\nexit 0\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char line[400], name[64];
    snprintf(line, sizeof line, "rm -rf '%s'/* '%s'/*", root, directory);
    assert_int_equal(system(line), 0);
    snprintf(name, sizeof name, "good/%s", rows[i].name);
    put(name, rows[i].good, 0755);
    snprintf(name, sizeof name, "evil/%s", rows[i].name);
    put(name, rows[i].evil, 0755);
    point_to("good");
    snprintf(line, sizeof line, "id: a\nevent: tool.pre\nhandler: {command: %s}\n", rows[i].command);
    put("hooks/a.yaml", line, 0600);
    tp_hooks_options options = options_here();
    tp_runtime *runtime = open_with_hooks(&options);
    tp_turn *turn = begin_bare(runtime, 60000);
    pthread_t thread;
    atomic_store(&stops, false);
    assert_int_equal(pthread_create(&thread, NULL, turn_links, NULL), 0);
    for (int j = 0; j < 60; j++) {
      tp_phase_result result = gate(turn);
      if (result.outcome != TP_ERR_DENIED) fail_msg("%s: start %d: %d", rows[i].command, j, (int)result.outcome);
    }
    atomic_store(&stops, true);
    pthread_join(thread, NULL);
    path_of("ran", line);
    if (access(line, F_OK) == 0) fail_msg("%s: the other ran", rows[i].command);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* The line changes the script that it runs, so its answer is not the answer of trusted code. */
TEST(the_answer_of_code_that_changed_while_it_ran_does_not_count) {
  static const char *const changing[] = {"echo '# more' >> x.sh; sh x.sh", "sh x.sh; rm x.sh"};
  for (size_t i = 0; i < sizeof changing / sizeof changing[0]; i++) {
    put("x.sh", "exit 0\n", 0644);
    put_line("", changing[i]);
    tp_hooks_options options = options_here();
    tp_runtime *runtime = open_with_hooks(&options);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    assert_int_equal(result.why, TP_REASON_CANNOT_START);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- other programs ---- */

/* A line may set PATH: its programs are looked up there, when the hooks are read and when they are checked. */
TEST(a_line_may_look_elsewhere_for_its_programs) {
  static const char *const forms[] = {"PATH=%s/two:%s/one:$PATH mine", "export PATH=\"%s/two:%s/one:$PATH\"; mine"};
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    char line[300];
    put("one/mine", "#!/bin/sh\nexit 0\n", 0755);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(line, sizeof line, forms[i], root, root);
#pragma GCC diagnostic pop
    put_line("", line);
    tp_hooks_options options = options_here();
    tp_runtime *runtime = open_with_hooks(&options);
    tp_turn *turn = begin_bare(runtime, 60000);
    assert_int_equal(gate(turn).outcome, TP_OK);
    put("two/mine", "#!/bin/sh\nexit 0\n", 0755);
    assert_int_equal(gate(turn).why, TP_REASON_CANNOT_START);
    tp_turn_end(turn);
    close_runtime(runtime);
    path_of("two/mine", line);
    unlink(line);
  }
}

/* A command that exceeds the limits of the search is refused, not treated as if it named no file. */
TEST(a_command_that_cannot_be_looked_at_is_refused) {
  static const char *const parts[] = {"cd lib; ", "A=1; ", "cat x; "};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    char line[500] = "";
    for (int k = 0; k < 40; k++) strcat(line, parts[i]);
    put_line("", line);
    tp_hooks_options options = options_here();
    tp_hooks *hooks;
    tp_fault fault = {0};
    assert_int_equal(tp_hooks_read(runtime, &options, &hooks, &fault), TP_ERR_TOO_LARGE);
    assert_non_null(strstr(fault.message, "write a script"));
  }
  tp_runtime_free(runtime);
}

TEST(another_program_in_path_is_another_program) {
  char bin[100], paths[500], old[4096], file[200], one[65], two[65];
  snprintf(old, sizeof old, "%s", getenv("PATH"));
  snprintf(bin, sizeof bin, "%s/bin", root);
  snprintf(paths, sizeof paths, "%s:/usr/bin:/bin", bin);
  mkdir(bin, 0755);
  setenv("PATH", paths, 1);
  put_line("", "true | grep -c x || true");
  tp_hooks_options options = options_here();
  tp_runtime *runtime = open_with_hooks(&options);
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  hash_now(runtime, one);
  put("bin/grep", "#!/bin/sh\necho > ran\n", 0755);
  hash_now(runtime, two);
  assert_string_not_equal(one, two);
  tp_phase_result result = gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(result.why, TP_REASON_CANNOT_START);
  assert_non_null(memmem(result.reason.data, result.reason.size, "grep", 4));
  snprintf(file, sizeof file, "%s/ran", root);
  assert_int_equal(access(file, F_OK), -1);
  tp_turn_end(turn);
  close_runtime(runtime);
  setenv("PATH", old, 1);
}

/* What is behind a link is what runs. */
TEST(a_link_to_other_code_is_other_code) {
  tp_runtime *runtime = open_runtime(NULL);
  char one[65], two[65], three[65];
  put("good/x.sh", "exit 0\n", 0644);
  put("evil/x.sh", "exit 0 # other\n", 0644);
  put("same/x.sh", "exit 0\n", 0644);
  point_to("good");
  put_line("", "sh cur/x.sh");
  hash_now(runtime, one);
  point_to("evil");
  hash_now(runtime, two);
  point_to("same");
  hash_now(runtime, three);
  assert_string_not_equal(one, two);
  assert_string_equal(one, three);
  tp_runtime_free(runtime);
}

/* When name and content of a file do not show what it is, the operator decides once; the hash includes the decision. */
TEST(what_the_operator_says_is_data_may_be_made_later) {
  static const char *const data[] = {"lib/*", NULL};
  for (int is_decided = 0; is_decided < 2; is_decided++) {
    tp_runtime *runtime = open_runtime(NULL);
    tp_hooks_options options = options_here();
    tp_hooks *hooks;
    char line[200];
    snprintf(line, sizeof line, "rm -rf '%s'/*", root);
    assert_int_equal(system(line), 0);
    if (is_decided) options.data_files = data;
    put("lib/a.sh", "exit 0\n", 0644);
    put_line("", "find lib -name '*.sh' -exec sh {} \\;; true");
    assert_int_equal(tp_hooks_read(runtime, &options, &hooks, NULL), TP_OK);
    assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
    tp_hooks_free(hooks);
    put("lib/b.sh", "exit 0\n", 0644);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    assert_int_equal(result.outcome, is_decided ? TP_OK : TP_ERR_DENIED);
    tp_phase_result_release(turn, &result);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

static bool count_open(void *ctx, const tp_hook_warning *warning) {
  int *count = ctx;
  *count += strcmp(warning->code, "code") == 0;
  return true;
}

/* @return whether the trust covers lib/x.sh. @param ret_open  how many commands run names that are not known. */
static bool is_about_script(tp_runtime *runtime, const char *const *data, const char *const *code, int *ret_open) {
  char hashes[2][65];
  for (int change = 0; change < 2; change++) {
    tp_hooks_options options = options_here();
    tp_hooks *hooks;
    tp_fault fault = {0};
    options.data_files = data;
    options.code_files = code;
    put("lib/x.sh", change ? "a word\n" : "another word\n", 0644);
    if (tp_hooks_read(runtime, &options, &hooks, &fault) != TP_OK) fail_msg("%s", fault.message);
    snprintf(hashes[change], 65, "%s", tp_hooks_hash(hooks));
    *ret_open = 0;
    tp_hooks_each_warning(hooks, false, count_open, ret_open);
    tp_hooks_free(hooks);
  }
  return strcmp(hashes[0], hashes[1]) != 0;
}

TEST(names_that_another_program_prints_are_decided_by_the_operator) {
  static const char *const decided[] = {"lib/*.sh", NULL}, *const other[] = {"tools/*", NULL};
  static const struct {
    const char *line;
    bool is_open;
  } cases[] = {
      {"git ls-files '*.sh' | xargs -n1 sh", true},
      {"git diff --name-only | xargs -I{} bash {}", true},
      {"grep -rl hook lib | xargs -n1 sh", true},
      {"my-list | parallel sh", true},
      {"for f in $(git ls-files); do sh $f; done", true},
      {"git ls-files | while read -r f; do \"$f\"; done", true},
      {"jq -r '.[]' | xargs sh", true},
      {"git ls-files | xargs grep -l hook", false},
      {"find lib -name '*.sh' | xargs -n1 sh", false},
      {"for f in $(git ls-files); do cat $f; done", false},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int open;
    put_line("", cases[i].line);
    bool is_about = is_about_script(runtime, NULL, NULL, &open);
    if ((open == 1) != cases[i].is_open) fail_msg("%s: %d are open", cases[i].line, open);
    if (!cases[i].is_open) continue;
    if (is_about) fail_msg("%s: what git prints is known", cases[i].line);
    if (!is_about_script(runtime, NULL, decided, &open) || open) fail_msg("%s: is not decided", cases[i].line);
    if (is_about_script(runtime, NULL, other, &open) || open) fail_msg("%s: is not as decided", cases[i].line);
  }
  int open;
  put_line("", "find lib -name '*.sh' -exec sh {} \\;");
  assert_true(is_about_script(runtime, NULL, NULL, &open));
  assert_false(is_about_script(runtime, decided, NULL, &open)); /* the operator's word is the last */
  tp_runtime_free(runtime);
}

TEST(the_operator_decides_what_is_code) {
  static const char *const data[] = {"words", NULL}, *const code[] = {"rules.json", NULL};
  tp_runtime *runtime = open_runtime(NULL);
  char none[65] = "", hashes[2][65];
  put_line("", "true");
  put("hooks/words", "some words\n", 0644);
  put("hooks/rules.json", "{}\n", 0644);
  for (int decided = 0; decided < 2; decided++) {
    for (int change = 0; change < 2; change++) {
      tp_hooks_options options = options_here();
      if (decided) options.data_files = data;
      if (decided) options.code_files = code;
      put(decided ? "hooks/words" : "hooks/rules.json", change ? "[2]\n" : "[1]\n", 0644);
      tp_hooks *hooks;
      assert_int_equal(tp_hooks_read(runtime, &options, &hooks, NULL), TP_OK);
      snprintf(hashes[change], 65, "%s", tp_hooks_hash(hooks));
      tp_hooks_free(hooks);
    }
    assert_string_equal(hashes[0], hashes[1]);
    assert_string_not_equal(hashes[0], none);
    snprintf(none, sizeof none, "%s", hashes[0]);
  }
  tp_runtime_free(runtime);
}

/* ---- what scripts load from elsewhere ---- */

static const struct load_row {
  const char *name, *text; /* of the script, in the directory of hooks ("hooks/…") or the root */
  const char *loaded;      /* which file of the root it loads */
  bool is_listed;
} loads[] = {
    /* Python */
    {"a.py", "import rules\n", "rules.py", true},
    {"a.py", "import os, rules as r, sys\n", "rules.py", true},
    {"a.py", "from lib import rules\n", "lib/rules.py", true},
    {"a.py", "from lib import rules\n", "lib/__init__.py", true},
    {"a.py", "from lib.deep.rules import check\n", "lib/deep/rules.py", true},
    {"a.py", "from lib import (one, rules)\n", "lib/rules.py", true},
    {"tools/in/a.py", "from ..lib import rules\n", "tools/lib/rules.py", true},
    {"tools/in/a.py", "from .. import rules\n", "tools/rules.py", true},
    {"tools/a.py", "def f():\n    from . import rules\n", "tools/rules.py", true},
    {"a.py", "sys.path.insert(0, 'lib')\nimport rules\n", "lib/rules.py", true},
    {"tools/a.py", "sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'lib'))\nimport rules\n",
     "lib/rules.py", true},
    {"tools/a.py", "sys.path.insert(0, str(Path(__file__).resolve().parent.parent / \"lib\"))\nimport rules\n",
     "lib/rules.py", true},
    {"tools/in/a.py", "sys.path.insert(0, str(Path(__file__).parents[2] / 'lib'))\nfrom rules import x\n",
     "lib/rules.py", true},
    {"tools/a.py",
     "HERE = os.path.dirname(os.path.abspath(__file__))\nsys.path.append(os.path.join(HERE, '../lib'))\nimport "
     "rules\n",
     "lib/rules.py", true},
    {"a.py", "m = importlib.import_module('lib.rules')\n", "lib/rules.py", true},
    {"a.py", "runpy.run_path('lib/rules.py')\n", "lib/rules.py", true},
    {"a.py", "import one\n", "two.py", true}, /* one.py imports it */
    {"a.py", "# import rules\n", "rules.py", false},
    {"a.py", "import rules_of_it\n", "rules.py", false},
    {"a.py", "print('import rules')\n", "rules.py", false},
    {"a.py", "open('rules.py').read()\n", "rules.py", false},
    /* JavaScript */
    {"tools/a.js", "const r = require('../lib/rules');\n", "lib/rules.js", true},
    {"tools/a.js", "const {check} = require(\"../lib/rules.cjs\");\n", "lib/rules.cjs", true},
    {"tools/a.mjs", "import rules from '../lib/rules.mjs';\n", "lib/rules.mjs", true},
    {"tools/a.mjs", "import {\n  a,\n  b,\n} from '../lib/rules.js';\n", "lib/rules.js", true},
    {"tools/a.mjs", "const r = await import('../lib/rules.js');\n", "lib/rules.js", true},
    {"tools/a.js", "const r = require('../lib');\n", "lib/index.js", true},
    {"tools/a.js", "const r = require(path.join(__dirname, '..', 'lib', 'rules'));\n", "lib/rules.js", true},
    {"tools/a.js", "const LIB = path.resolve(__dirname, '../lib');\nconst r = require(path.join(LIB, 'rules.js'));\n",
     "lib/rules.js", true},
    {"tools/a.js", "const x = require('rules');\n", "node_modules/rules/package.json", true},
    {"tools/a.js", "const x = require('@team/rules/sub');\n", "node_modules/@team/rules/package.json", true},
    {"tools/a.js", "const fs = require('fs');\nfs.readFileSync('lib/rules.js');\n", "lib/rules.js", false},
    /* shells */
    {"a.sh", ". lib/rules.sh\n", "lib/rules.sh", true},
    {"tools/a.sh", ". \"$(dirname \"$0\")/../lib/rules.sh\"\n", "lib/rules.sh", true},
    {"tools/a.sh", "source \"${BASH_SOURCE%/*}/../lib/rules.sh\"\n", "lib/rules.sh", true},
    {"tools/a.sh", "DIR=\"$(cd \"$(dirname \"$0\")\" && pwd)\"\nsource \"$DIR/../lib/rules.sh\"\n", "lib/rules.sh",
     true},
    {"tools/a.sh", "LIB=$(dirname \"$0\")/../lib\nif true; then . \"$LIB/rules.sh\"; fi\n", "lib/rules.sh", true},
    {"tools/a.sh", "[ -f ./lib/rules.sh ] && . ./lib/rules.sh\n", "lib/rules.sh", true},
    {"tools/a.sh", ". \"$CLAUDE_PROJECT_DIR\"/lib/rules.sh\n", "lib/rules.sh", true},
    {"tools/a.sh", ". \"$(git rev-parse --show-toplevel)/lib/rules.sh\"\n", "lib/rules.sh", true},
    {"a.sh", "cat lib/rules.sh\n", "lib/rules.sh", false},
    {"a.sh", "# . lib/rules.sh\n", "lib/rules.sh", false},
    /* Ruby */
    {"tools/a.rb", "require_relative '../lib/rules'\n", "lib/rules.rb", true},
    /* from the directory itself, whose own files are code */
    {"hooks/a.sh", ". lib/rules.sh\n", "lib/rules.sh", true},
    {"hooks/a.py", "import helper\n", "deep.py", true}, /* helper.py of the directory imports it */
};

typedef struct found_file {
  const char *end; /* of its path */
  bool is_found, is_code, is_unclear;
} found_file;

static bool find_file(void *ctx, const tp_hook_file *file) {
  found_file *f = ctx;
  size_t size = strlen(file->path), end = strlen(f->end);
  if (size < end || strcmp(file->path + size - end, f->end) != 0 || !strstr(file->path, "_root/")) return true;
  f->is_found = true;
  f->is_code = file->is_code;
  f->is_unclear = file->is_unclear && file->is_there;
  return false;
}

static found_file look_for(tp_runtime *runtime, const char *end, const char *const *code, char ret_hash[65]) {
  found_file found = {.end = end};
  tp_hooks_options options = options_here();
  tp_hooks *hooks;
  tp_fault fault = {0};
  options.code_files = code;
  if (tp_hooks_read(runtime, &options, &hooks, &fault) != TP_OK) fail_msg("%s: %s", fault.subject, fault.message);
  tp_hooks_each_file(hooks, find_file, &found);
  snprintf(ret_hash, 65, "%s", tp_hooks_hash(hooks));
  tp_hooks_free(hooks);
  return found;
}

static void put_script(const struct load_row *r) {
  char line[700], file[300];
  path_of(r->name, file);
  snprintf(line, sizeof line, "rm -rf '%s'/* '%s'/*", root, directory);
  assert_int_equal(system(line), 0);
  put(r->name, r->text, 0644);
  put(r->loaded, "x = 1\n", 0644);
  put("one.py", "import two\n", 0644);
  put("hooks/helper.py", "import deep\n", 0644);
  snprintf(line, sizeof line, "sh '%s'", file); /* its name says in which language it is */
  put_line("", line);
}

TEST(what_a_script_loads_from_elsewhere_is_listed_and_decided) {
  tp_runtime *runtime = open_runtime(NULL);
  size_t wrong = 0;
  for (size_t i = 0; i < COUNT(loads); i++) {
    const struct load_row *r = &loads[i];
    const char *const code[] = {r->loaded, NULL};
    char hashes[4][65];
    put_script(r);
    found_file open = look_for(runtime, r->loaded, NULL, hashes[0]),
               decided = look_for(runtime, r->loaded, code, hashes[1]);
    put(r->loaded, "x = 2\n", 0644);
    (void)look_for(runtime, r->loaded, NULL, hashes[2]);
    (void)look_for(runtime, r->loaded, code, hashes[3]);
    bool holds = open.is_unclear == r->is_listed && !open.is_code && strcmp(hashes[0], hashes[2]) == 0;
    if (r->is_listed) holds = holds && decided.is_code && !decided.is_unclear && strcmp(hashes[1], hashes[3]) != 0;
    if (!holds)
      print_message("# %s: %s%s: listed %d, code %d, decided %d, as data %s, as code %s\n", r->name, r->text, r->loaded,
                    open.is_unclear, open.is_code, decided.is_code, strcmp(hashes[0], hashes[2]) == 0 ? "kept" : "lost",
                    strcmp(hashes[1], hashes[3]) == 0 ? "kept" : "lost");
    wrong += !holds;
  }
  assert_int_equal(wrong, 0);
  tp_runtime_free(runtime);
}

TEST(a_decided_module_that_changed_starts_no_program) {
  tp_runtime *runtime = open_runtime(NULL);
  const char *const code[] = {"lib/rules.sh", NULL};
  tp_hooks_options options = options_here();
  options.code_files = code;
  put("lib/rules.sh", "true\n", 0644);
  put("a.sh", ". lib/rules.sh\n", 0644);
  put_line("", "sh a.sh");
  commit_hooks(runtime, &options);
  for (int changed = 0; changed < 2; changed++) {
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_PRE, NULL);
    if (changed) assert_non_null(strstr(result.reason.size ? result.reason.data : "", "lib/rules.sh has changed"));
    assert_int_equal(result.outcome, changed ? TP_ERR_DENIED : TP_OK);
    tp_turn_end(turn);
    put("lib/rules.sh", "false\n", 0644);
  }
  close_runtime(runtime);
}

static void put_named_reason(const char *reason) {
  char yaml[200];
  snprintf(yaml, sizeof yaml, "id: a\nevent: tool.pre\nhandler: {kind: deny, reason: %s}\n", reason);
  put("hooks/a.yaml", yaml, 0600);
}

/* A thousand reloads during a thousand turns: each turn has the hook with one of the two contents. */
static tp_runtime *reloaded;

static void *reload_all(void *arg) {
  tp_hooks *before = arg;
  for (int i = 0; i < 1000; i++) {
    tp_hooks_options options = options_here();
    tp_hooks *hooks;
    put_named_reason(i % 2 == 0 ? "even" : "odd");
    if (tp_hooks_read(reloaded, &options, &hooks, NULL) != TP_OK) break;
    if (tp_hooks_replace(hooks, before, NULL, tp_hooks_hash(hooks), NULL, NULL) != TP_OK) break;
    tp_hooks_free(before);
    before = hooks;
  }
  tp_hooks_free(before);
  atomic_store(&stops, true);
  return NULL;
}

TEST(a_thousand_reloads_disturb_no_turn) {
  tp_hooks_options options = options_here();
  tp_hooks *hooks;
  pthread_t thread;
  put_named_reason("odd");
  reloaded = open_runtime(NULL);
  assert_int_equal(tp_hooks_read(reloaded, &options, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  atomic_store(&stops, false);
  assert_int_equal(pthread_create(&thread, NULL, reload_all, hooks), 0);
  size_t turns = 0;
  for (; turns < 1000 || !atomic_load(&stops); turns++) {
    tp_turn *turn = begin_bare(reloaded, 60000);
    tp_phase_result result = gate(turn);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    assert_true(tp_text_is(result.reason, "even") || tp_text_is(result.reason, "odd"));
    tp_turn_end(turn);
  }
  pthread_join(thread, NULL);
  assert_true(turns >= 1000);
  close_runtime(reloaded);
}
