/* SPDX-License-Identifier: Apache-2.0
 *
 * Declared hooks: the content of a file, the meaning of a program's end, the kinds of failures, trust. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/declared/hook_job.h"
#include "support/sha256.h"
#include "tests/support/hook_files.h"
#include "tests/support/leftovers.h"

/* tool.pre of a call of `shell` with this command. */
static tp_phase_result gate_of(tp_turn *turn, tp_text command) {
  tp_writer *writer;
  tp_text arguments;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_write_map(writer, 1);
  tp_write_string(writer, "command");
  tp_write_text(writer, command);
  assert_int_equal(tp_writer_finish(writer, &arguments), TP_OK);
  tp_field fields[] = {{.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("shell.run")},
                       {.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = arguments}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2, .budget_ms = 30000};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, NULL), TP_OK);
  tp_writer_free(writer);
  return result;
}

static tp_phase_result gate(tp_turn *turn) { return gate_of(turn, tp_text_of("rm -rf /")); }

/* ---- a guard that cannot give an answer denies, and reports the kind of its failure ---- */

typedef struct failing {
  const char *name;
  const char *command; /* YAML */
  tp_reason why;
  const char *reason;
} failing;

static const failing failings[] = {
    {"never reads stdin", "[sh, -c, 'sleep 100']", TP_REASON_TIMEOUT, "timeout"},
    {"grandchild holds stdout, fails", "[sh, -c, 'sleep 100 & kill -KILL $$']", TP_REASON_KILLED, "signal 9"},
    {"ignores TERM", "[sh, -c, 'trap \"\" TERM; sleep 100']", TP_REASON_TIMEOUT, "timeout"},
    {"stops itself", "[sh, -c, 'kill -STOP $$']", TP_REASON_TIMEOUT, "timeout"},
    {"endless stdout", "['yes']", TP_REASON_MALFORMED, "more than its limit"},
    {"endless stderr", "[sh, -c, 'exec yes >&2']", TP_REASON_MALFORMED, "more than its limit"},
    {"half an object", "[printf, '{\"continue\": tr']", TP_REASON_MALFORMED, "not exactly one JSON object"},
    {"two objects", "[printf, '{\"continue\": true}{}']", TP_REASON_MALFORMED, "not exactly one JSON object"},
    {"exit 0 with error", "[printf, '{\"error\": {\"message\": \"no disk\"}}']", TP_REASON_MALFORMED, "no disk"},
    {"not executable", "/etc/passwd", TP_REASON_CANNOT_START, "executable"},
    {"missing", "./no_such_guard", TP_REASON_CANNOT_START, "No such file"},
    {"killed by a signal", "[sh, -c, 'kill -SEGV $$']", TP_REASON_KILLED, "signal 11"},
    {"fork bomb",
     "[sh, -c, 'bomb() { [ $1 = 0 ] && exec sleep 100; bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; bomb 4']",
     TP_REASON_TIMEOUT, "timeout"},
    {"setsid", "[sh, -c, 'setsid sleep 100 & sleep 0.08; printf \"{\"']", TP_REASON_MALFORMED, "not exactly one"},
};

/* The measured time includes the JSON of a call of 1 MiB, which takes long with sanitizers. */
enum { IS_SLOW = HAS_THREAD_SANITIZER || HAS_ADDRESS_SANITIZER };
enum { FAILING_LIMIT_MS = IS_SLOW ? 1500 : 300, SETTLE_MS = IS_SLOW ? 1000 : 50 };
enum { COMMAND_SIZE = 1 << 20 };

static void keep_duration(void *ctx, const tp_hook_program *program) { *(_Atomic int64_t *)ctx = program->duration_ms; }

/* A program gets a call of 1 MiB. @return how long after the deadline, or after the program's end, the run was
 * settled. */
static int64_t check_failing(const failing *row, const char *policy) {
  static char command[COMMAND_SIZE];
  _Atomic int64_t program_ms = 0;
  bool is_required = strcmp(policy, "required") == 0;
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  tp_hooks_options options = hooks_options();
  options.on_program = keep_duration;
  options.program_ctx = (void *)&program_ms;
  assert_int_equal(read_hooks(runtime, &options, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 60000);
  memset(command, 'x', sizeof command);
  int64_t begun_ns = now_ns();
  tp_phase_result result = gate_of(turn, (tp_text){command, sizeof command});
  int64_t duration_ms = (now_ns() - begun_ns) / 1000000;
  if (result.outcome != (is_required ? TP_ERR_DENIED : TP_OK))
    fail_msg("%s, %s: %s", row->name, policy, tp_status_name(result.outcome));
  const tp_run_record *record = tp_phase_result_run(&result, 0);
  if (record->state == TP_STATE_SUCCEEDED || record->reason != row->why)
    fail_msg("%s, %s: recorded as %s", row->name, policy, tp_reason_name((tp_reason)record->reason));
  char reason[1024];
  snprintf(reason, sizeof reason, "%.*s", (int)result.reason.size, result.reason.size ? result.reason.data : "");
  if (is_required && (result.why != row->why || !strstr(reason, row->reason))) fail_msg("%s: %s", row->name, reason);
  if (is_required) assert_string_equal(result.subscription, "guard");
  tp_turn_end(turn);
  close_runtime(runtime);
  tp_hooks_free(hooks);
  return duration_ms - (row->why == TP_REASON_TIMEOUT ? FAILING_LIMIT_MS : program_ms);
}

/* ---- how long a sleeping thread waits for a processor at most, while the machine also works for others */

typedef struct delays {
  pthread_t thread;
  atomic_bool ends;
  int64_t most_ns; /* the thread's, until it has ended */
} delays;

static void *measure_delays(void *ctx) {
  delays *d = ctx;
  const struct timespec pause = {.tv_nsec = 1000000};
  while (!atomic_load(&d->ends)) {
    int64_t begun_ns = now_ns();
    nanosleep(&pause, NULL);
    int64_t delay_ns = now_ns() - begun_ns - pause.tv_nsec;
    if (delay_ns > d->most_ns) d->most_ns = delay_ns;
  }
  return NULL;
}

/* The bound holds for an idle machine. An answer passes through four threads, each of which may be delayed as long as a
 * thread that only sleeps. One try of several must keep the bound. */
static void check_settled_soon(const failing *row, const char *policy) {
  int64_t late_ms = 0, delay_ms = 0;
  for (int tries = 0; tries < 10; tries++) {
    delays d = {.most_ns = 0};
    assert_int_equal(pthread_create(&d.thread, NULL, measure_delays, &d), 0);
    late_ms = check_failing(row, policy);
    atomic_store(&d.ends, true);
    pthread_join(d.thread, NULL);
    delay_ms = 4 * d.most_ns / 1000000;
    if (late_ms <= SETTLE_MS + delay_ms) return;
  }
  fail_msg("%s: settled %d ms after its end, where delays explain %d", row->name, (int)late_ms, (int)delay_ms);
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(a_guard_that_cannot_answer_denies_where_it_is_required_and_leaves_nothing) {
  static const char *const policies[] = {"required", "best_effort"};
  snprintf(marker, sizeof marker, "TMPDIR=%s", directory);
  setenv("TMPDIR", directory, 1);
  for (size_t i = 0; i < 2 * COUNT(failings); i++) {
    const failing *row = &failings[i / 2];
    const char *policy = policies[i % 2];
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "id: guard\nevent_type: PreAbilityCall\nfailure: %s\nhandler:\n  timeout_ms: %d\n  command: %s\n", policy,
             FAILING_LIMIT_MS, row->command);
    write_named("a.yaml", yaml);
    size_t descriptors = open_descriptors();
    check_settled_soon(row, policy);
    if (processes_left() > 0) fail_msg("%s: processes are left", row->name);
    await_descriptors(descriptors);
  }
  unsetenv("TMPDIR");
}

TEST(a_program_gets_the_documented_environment_and_three_descriptors) {
  static const char *const names[] = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ"};
  write_named("a.yaml",
              "id: a\nevent: tool.pre\nhandler: {command: [sh, -c, 'env | grep -v ^PWD= | sort > names; exec "
              "ls /proc/self/fd > fds']}\n");
  char got[512];
  for (size_t i = 0; i < COUNT(names); i++) setenv(names[i], "/usr/bin:/bin", 1);
  setenv("SECRET", "1", 1);
  int kept = open("/dev/null", O_RDONLY); /* not close-on-exec */
  assert_true(kept > 2);
  tp_runtime *runtime = open_with_hooks(NULL);
  unsetenv("SECRET");
  for (size_t i = 1; i < COUNT(names); i++)
    if (strcmp(names[i], "HOME") != 0) unsetenv(names[i]);
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  close(kept);
  read_back("names", got, sizeof got);
  assert_string_equal(got,
                      "HOME=/usr/bin:/bin\nLANG=/usr/bin:/bin\nLC_ALL=/usr/bin:/bin\nLOGNAME=/usr/bin:/bin\n"
                      "PATH=/usr/bin:/bin\nTMPDIR=/usr/bin:/bin\nTZ=/usr/bin:/bin\nUSER=/usr/bin:/bin\n");
  read_back("fds", got, sizeof got);
  assert_string_equal(got, "0\n1\n2\n3\n"); /* 3: the folder that ls reads */
}

/* ---- exit code, stdout, stderr -> verdict ---- */

typedef struct said {
  const char *script;
  const char *more; /* YAML lines */
  tp_status outcome;
  tp_verdict verdict;
  const char *reason;   /* NULL: any */
  const char *reminder; /* NULL: any number */
} said;

#define BAD "\xEF\xBF\xBD"
#define GUARD(code) "{\"hook_signals\": [{\"kind\": \"ability_guard\", \"code\": \"" code "\"}]}"

static const said saids[] = {
    {"exit 0", "", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"cat > /dev/null", "", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"echo look out", "", TP_OK, TP_VERDICT_ALLOW, NULL, "look out"},
    {"echo no >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "no", NULL},
    {"echo no >&2; exit 2", "", TP_ERR_DENIED, TP_VERDICT_DENY, "no", NULL},
    {"exit 7", "", TP_ERR_DENIED, TP_VERDICT_DENY, "hook guard gave no reason", NULL},
    {"printf 'Traceback (most recent call last):\\n  File \"g.py\", line 2, in <module>\\n    x[\"a\"]\\n"
     "KeyError: 1\\n\\n' >&2; exit 1",
     "", TP_ERR_DENIED, TP_VERDICT_DENY, "the guard failed: KeyError: 1", NULL},
    {"printf '  File \"g.py\", line 1\\n    f(\\n     ^\\nSyntaxError: never closed' >&2; exit 1", "", TP_ERR_DENIED,
     TP_VERDICT_DENY, "the guard failed: SyntaxError: never closed", NULL},
    {"printf '/g.js:1\\nthrow e\\n^\\n\\nError: no\\n    at f (/g.js:1:7)\\n\\nNode.js v18.1\\n' >&2; exit 1", "",
     TP_ERR_DENIED, TP_VERDICT_DENY, "the guard failed: Error: no", NULL},
    {"echo '{\"continue\": false, \"reason\": \"mine\"}'; printf 'Traceback (most recent call last):\\nE\\n' >&2; exit "
     "1",
     "", TP_ERR_DENIED, TP_VERDICT_DENY, "mine", NULL},
    {"printf 'see File \"a\"\\n  at 10:30\\nNode.js\\n' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY,
     "see File \"a\"\n  at 10:30\nNode.js", NULL},
    {"printf 'File \"a\" is not yours\\nask\\n' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY,
     "File \"a\" is not yours\nask", NULL},
    {"printf '^\\nno\\nNode.js vx\\nend' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "^\nno\nNode.js vx\nend",
     NULL},
    {"printf '^^\\n\\nNode.js v1' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "the guard failed: Node.js v1",
     NULL},
    {"printf '^\\nno\\nNode.js is old' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "^\nno\nNode.js is old", NULL},
    {"printf 'a\\n\\nb\\nNode.js v1' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "a\n\nb\nNode.js v1", NULL},
    {"printf 'a\\nNode.js v1' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "a\nNode.js v1", NULL},
    {"echo '{}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"echo '{\"continue\": true}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"echo '{\"continue\": false, \"reason\": \"not today\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, "not today", NULL},
    {"echo '{\"continue\": true}'; echo hm >&2; exit 3", "", TP_ERR_DENIED, TP_VERDICT_DENY, "hm", NULL},
    {"echo '{\"continue\": fal'; echo hm >&2; exit 3", "", TP_ERR_DENIED, TP_VERDICT_DENY, "hm", NULL},
    {"echo '" GUARD("ALLOWED") "'", "", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"echo '" GUARD("ABILITY_DENIED") "'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '" GUARD("REQUIRES_HUMAN") "'", "", TP_OK, TP_VERDICT_ASK, NULL, NULL},
    {"echo '" GUARD("PERHAPS") "'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"continue\": false, \"hook_signals\": [{\"kind\": \"ability_guard\", \"code\": \"ALLOWED\"}]}'", "",
     TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"hook_signals\": [{\"kind\": \"ability_guard\", \"code\": \"ABILITY_DENIED\", \"payload\": "
     "{\"require_human\": true, \"reason\": \"prod\"}}]}'",
     "", TP_OK, TP_VERDICT_ASK, "prod", NULL},
    {"echo '{\"output\": \"one\"}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, "one"},
    {"echo '{\"additionalContext\": \"two\"}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, "two"},
    {"echo '{\"continue\": \"yes\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"error\": null}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"echo '[1]'", "", TP_OK, TP_VERDICT_ALLOW, NULL, "[1]"},
    {"echo ready; echo '{\"continue\": false}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo ready; echo '{\"continue\": false}'", "failure: best_effort\n", TP_OK, TP_VERDICT_NONE, NULL, ""},
    {"echo '{\"continue\": true}'; echo done", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo \"{'continue': False}\"", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo 'log: " GUARD("ABILITY_DENIED") "'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo 'to continue: read on'", "", TP_OK, TP_VERDICT_ALLOW, NULL, "to continue: read on"},
    {"echo '{\"decision\": \"deny\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"decision\": \"block\", \"reason\": \"r\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"Continue\": false, \"reason\": \"r\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"permission\": \"deny\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"permissionDecision\": \"deny\", \"output\": \"o\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"hookSpecificOutput\": {\"a\": 1}}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"allowed\": false}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"ok\": false}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"result\": {\"continue\": false}}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"decision\": \"deny\"}'", "failure: best_effort\n", TP_OK, TP_VERDICT_NONE, NULL, ""},
    {"echo '{\"continue\": true, \"decision\": \"mine\"}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"echo '{\"output\": \"one\", \"mine\": 1}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, "one"},
    {"echo '{\"decision\": \"deny\"}'; exit 3", "", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"exit 0", "verdict: json\n", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo fine", "verdict: json\n", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
    {"echo '{\"continue\": true}'", "verdict: json\n", TP_OK, TP_VERDICT_ALLOW, NULL, ""},
    {"echo '{\"continue\": fal'", "failure: best_effort\n", TP_OK, TP_VERDICT_NONE, NULL, ""},
    {"kill -KILL $$", "failure: best_effort\n", TP_OK, TP_VERDICT_NONE, NULL, ""},
    {"echo no >&2; exit 1", "failure: best_effort\n", TP_ERR_DENIED, TP_VERDICT_DENY, "no", NULL},
    {"printf 'Traceback (most recent call last):\\nE: 1' >&2; exit 1", "failure: best_effort\n", TP_ERR_DENIED,
     TP_VERDICT_DENY, "the guard failed: E: 1", NULL},
    {"printf 'caf\\351'", "", TP_OK, TP_VERDICT_ALLOW, NULL, "caf" BAD},
    {"printf 'cut \\342\\202\\n'", "", TP_OK, TP_VERDICT_ALLOW, NULL, "cut " BAD BAD},
    {"printf '\\355\\240\\200'", "", TP_OK, TP_VERDICT_ALLOW, NULL, BAD BAD BAD},
    {"printf 'caf\\351 \\300\\257' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "caf" BAD " " BAD BAD, NULL},
    {"printf 'a\\000b\\377' >&2; exit 1", "", TP_ERR_DENIED, TP_VERDICT_DENY, "a?b" BAD, NULL},
    {"printf '{\"continue\": false, \"reason\": \"caf\\351\"}'", "", TP_ERR_DENIED, TP_VERDICT_DENY, "caf" BAD, NULL},
    {"printf '{\"continue\": false, \"reason\": \"cut \\360\\237\"}'", "verdict: json\n", TP_ERR_DENIED,
     TP_VERDICT_DENY, "cut " BAD BAD, NULL},
    {"printf '{\"output\": \"\\376\"}'", "", TP_OK, TP_VERDICT_ALLOW, NULL, BAD},
    {"printf '\\377{\"continue\": true}'", "verdict: json\n", TP_ERR_DENIED, TP_VERDICT_DENY, NULL, NULL},
};

static void check_reminder(const said *row, const tp_phase_result *result) {
  size_t count = result->merged ? tp_merged_count(result->merged, TP_CONTRIBUTION_REMINDER) : 0;
  if (!row->reminder[0]) {
    assert_int_equal(count, 0);
    return;
  }
  assert_int_equal(count, 1);
  assert_text(tp_merged_get(result->merged, TP_CONTRIBUTION_REMINDER, 0)->contribution->text, row->reminder);
}

TEST(the_strictest_of_exit_code_continue_and_signals_wins) {
  for (size_t i = 0; i < sizeof saids / sizeof saids[0]; i++) {
    const said *row = &saids[i];
    char script[512];
    snprintf(script, sizeof script, "#!/bin/sh\n%s\n", row->script);
    write_program("guard.sh", script);
    char yaml[256];
    snprintf(yaml, sizeof yaml, "id: guard\nevent: tool.pre\n%shandler: {command: ./guard.sh, timeout_ms: 20000}\n",
             row->more);
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    if (result.outcome != row->outcome || result.verdict != row->verdict)
      fail_msg("%s: %s, %s: %.*s", row->script, tp_status_name(result.outcome), tp_verdict_name(result.verdict),
               (int)result.reason.size, result.reason.data);
    if (row->reason) assert_text(result.reason, row->reason);
    if (row->reminder) check_reminder(row, &result);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(bytes_that_were_replaced_are_diagnosed) {
  static const struct {
    const char *script, *text;
  } rows[] = {{"printf '\\\\377'", "1 byte is not UTF-8 in what the program printed: U+FFFD stands for each"},
              {"printf '\\\\377'; printf 'x\\\\300\\\\257' >&2; exit 1",
               "3 bytes are not UTF-8 in what the program printed: U+FFFD stands for each"},
              {"echo fine", NULL}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    char yaml[512];
    snprintf(yaml, sizeof yaml, "id: g\nevent: tool.pre\nhandler: {command: [sh, -c, \"%s\"]}\n", rows[i].script);
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC), rows[i].text ? 1 : 0);
    if (rows[i].text) {
      const tp_contribution *note = tp_merged_get(result.merged, TP_CONTRIBUTION_DIAGNOSTIC, 0)->contribution;
      assert_text(note->key, "output_not_utf8");
      assert_text(note->text, rows[i].text);
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(a_stack_trace_is_a_diagnostic_and_its_error_the_reason) {
  write_named("a.yaml",
              "id: g\nevent: tool.pre\n"
              "handler: {command: [sh, -c, \"printf 'Traceback (most recent call last):\\\\n  x\\\\nE: 1\\\\n' >&2; "
              "exit 1\"]}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = gate(turn);
  assert_text(result.reason, "the guard failed: E: 1");
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC), 1);
  const tp_contribution *note = tp_merged_get(result.merged, TP_CONTRIBUTION_DIAGNOSTIC, 0)->contribution;
  assert_text(note->key, "stack_trace");
  assert_text(note->text, "Traceback (most recent call last):\n  x\nE: 1");
  tp_turn_end(turn);
  close_runtime(runtime);
  write_named("a.yaml",
              "id: g\nevent: session.start\n"
              "handler: {command: [sh, -c, \"printf 'Traceback (most recent call last):\\\\nE: 2' >&2; exit 1\"]}\n");
  runtime = open_with_hooks(NULL);
  turn = begin_bare(runtime, 60000);
  result = (tp_phase_result){.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_SESSION_START, NULL, &result, NULL), TP_OK);
  assert_text(tp_merged_get(result.merged, TP_CONTRIBUTION_REMINDER, 0)->contribution->text, "the hook failed: E: 2");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* session.start takes no verdicts and is best_effort by itself. */
TEST(a_block_in_a_phase_without_verdicts_fails_it_where_the_policy_in_force_is_required) {
  static const struct {
    tp_failure runtime;
    const char *own; /* YAML */
    tp_status outcome;
  } rows[] = {
      {TP_FAILURE_DEFAULT, "", TP_OK},        {TP_FAILURE_DEFAULT, "failure: required\n", TP_ERR_HOOK},
      {TP_FAILURE_REQUIRED, "", TP_ERR_HOOK}, {TP_FAILURE_REQUIRED, "failure: best_effort\n", TP_OK},
      {TP_FAILURE_BEST_EFFORT, "", TP_OK},    {TP_FAILURE_BEST_EFFORT, "failure: required\n", TP_ERR_HOOK},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char yaml[256];
    snprintf(yaml, sizeof yaml,
             "id: gate\nevent: session.start\n%s"
             "handler: {command: [sh, -c, 'echo not ready >&2; exit 1'], timeout_ms: 20000}\n",
             rows[i].own);
    write_named("a.yaml", yaml);
    tp_runtime_options options = {.struct_size = sizeof options, .hook_failure = rows[i].runtime};
    tp_runtime *runtime = open_runtime(&options);
    commit_hooks(runtime, NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = {.struct_size = sizeof result};
    assert_int_equal(tp_phase_run(turn, TP_PHASE_SESSION_START, NULL, &result, NULL), TP_OK);
    if (result.outcome != rows[i].outcome) fail_msg("row %zu: %s", i, tp_status_name(result.outcome));
    if (result.outcome == TP_OK) {
      assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_REMINDER), 1);
      assert_text(tp_merged_get(result.merged, TP_CONTRIBUTION_REMINDER, 0)->contribution->text, "not ready");
    } else {
      assert_text(result.reason,
                  "exit code 1; its standard error is not kept: see it with `turnphase hooks run`, or keep it with "
                  "keep_stderr: true");
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- the context ---- */

TEST(a_program_gets_one_line_of_json_with_ids_and_payload) {
  write_named("a.yaml", "id: keep\nevent_type: PreAbilityCall\nhandler: {command: [sh, -c, 'cat > got']}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request,
                             .id = "t-1",
                             .mode = "plan",
                             .caller = TP_CALLER_CI_PIPELINE,
                             .caller_job = "17",
                             .triggered_by = "nightly"};
  assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, NULL), TP_OK);
  assert_int_equal(gate(turn).verdict, TP_VERDICT_ALLOW);
  tp_turn_end(turn);
  close_runtime(runtime);
  char got[2048];
  read_back("got", got, sizeof got);
  assert_string_equal(got,
                      "{\"event_type\":\"PreAbilityCall\",\"hook_id\":\"keep\",\"phase\":\"tool.pre\","
                      "\"turn_id\":\"t-1\",\"caller\":{\"source\":\"ci_pipeline\",\"job_id\":\"17\","
                      "\"triggered_by\":\"nightly\"},"
                      "\"mode\":\"plan\",\"attempt\":1,"
                      "\"ability_id\":\"shell.run\",\"payload\":{\"tool\":\"shell.run\","
                      "\"arguments\":{\"command\":\"rm -rf /\"}}}\n");
}

TEST(log_and_save_json_write_the_context_to_files) {
  write_named("a.yaml", "id: log\nevent: tool.pre\nhandler: {kind: log, path: events.jsonl}\n");
  write_named("b.yaml", "id: save\nevent: tool.pre\nhandler: {kind: save_json, path: last.json}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  for (int i = 0; i < 3; i++) assert_int_equal(gate(turn).outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  char command[256];
  snprintf(command, sizeof command, "test $(wc -l < %s/events.jsonl) = 3 && test $(wc -l < %s/last.json) = 1",
           directory, directory);
  assert_int_equal(system(command), 0);
}

/* ---- activation and order ---- */

TEST(approve_asks_a_person_about_the_calls_that_it_matches) {
  static const struct {
    const char *more, *scope, *reason;
  } cases[] = {{"", "shell.*", "needs an approval"},
               {", question: 'May it run?'", "shell.*", "May it run?"},
               {", question: 'May it run?'", "deploy", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char yaml[256];
    snprintf(yaml, sizeof yaml, "id: a\nevent: tool.pre\nmatch: {ability_scope: '%s'}\nhandler: {kind: approve%s}\n",
             cases[i].scope, cases[i].more);
    write_named("a.yaml", yaml);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = gate(turn);
    assert_int_equal(result.outcome, TP_OK);
    assert_int_equal(result.verdict, cases[i].reason ? TP_VERDICT_ASK : TP_VERDICT_NONE);
    if (cases[i].reason) assert_text(result.reason, cases[i].reason);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(match_decides_whether_a_hook_runs) {
  write_named("b.yaml",
              "id: shell\nevent: tool.pre\nmatch: {ability_scope: ['web.*', 'shell.*']}\n"
              "handler: {command: [sh, -c, 'echo shell >&2; exit 1']}\n");
  write_named("a.yaml",
              "id: web\nevent: tool.pre\nmatch: {ability_scope: 'web.*'}\n"
              "handler: {command: [sh, -c, 'echo web >&2; exit 1']}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_string_equal(result.subscription, "shell");
  assert_run(&result, "web", TP_STATE_SKIPPED, TP_REASON_MATCH);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(a_hook_that_no_phase_waits_for_runs_and_cannot_block) {
  write_named("a.yaml",
              "id: late\nevent: tool.pre\nblocking: false\n"
              "handler: {command: [sh, -c, 'touch ran; echo hi; exit 1']}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  tp_turn_end(turn);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 20000, &report, NULL), TP_OK);
  assert_true(report.complete);
  char file[128];
  snprintf(file, sizeof file, "%s/ran", directory);
  assert_int_equal(access(file, F_OK), 0);
  close_runtime(runtime);
}

TEST(a_runtime_that_ends_kills_the_programs_of_its_hooks) {
  write_named("a.yaml", "id: slow\nevent: tool.pre\nblocking: false\nhandler: {command: [sleep, '100']}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  for (int i = 0; i < 10; i++) assert_int_equal(gate(turn).outcome, TP_OK);
  tp_turn_end(turn);
  int64_t begun_ns = now_ns();
  close_runtime(runtime);
  assert_true(now_ns() - begun_ns < INT64_C(20000000000));
}

/* ---- refused files ---- */

typedef struct refused {
  const char *yaml;
  tp_status status;
  uint32_t line, column;
  const char *part;
} refused;

#define HANDLER "handler: {command: ./x}\n"

static const refused refuseds[] = {
    {"id: a\nevent: tool.pre\n" HANDLER "colour: red\n", TP_ERR_MALFORMED, 4, 1, "no key \"colour\""},
    {"event: tool.pre\n" HANDLER, TP_ERR_MALFORMED, 1, 1, "needs an id"},
    {"id: a b\nevent: tool.pre\n" HANDLER, TP_ERR_BAD_ID, 1, 5, "white space"},
    {"id: a\n" HANDLER, TP_ERR_MALFORMED, 1, 1, "needs event_type"},
    {"id: a\nevent: tool.perhaps\n" HANDLER, TP_ERR_UNKNOWN_PHASE, 2, 8, "turnphase phases"},
    {"id: a\nevent: tool.rewrite\n" HANDLER, TP_ERR_CODE_ONLY, 2, 8, "tool.pre"},
    {"id: a\nevent: model.response\n" HANDLER, TP_ERR_PRIVILEGED, 2, 8, "privileged"},
    {"id: a\nevent: tool.pre\nevent_type: tool.pre\n" HANDLER, TP_ERR_MALFORMED, 2, 8, "keep one"},
    {"id: a\nevent: tool.pre\n", TP_ERR_MALFORMED, 1, 1, "needs handler"},
    {"id: a\nevent: tool.pre\nhandler: {kind: magic}\n", TP_ERR_MALFORMED, 3, 17, "no kind \"magic\""},
    {"id: a\nevent: tool.pre\nhandler: {command: python3 x.py}\n", TP_ERR_MALFORMED, 3, 20, "write a list"},
    {"id: a\nevent: turn.intake\nhandler: {kind: approve}\n", TP_ERR_MALFORMED, 3, 17, "a phase that may ask"},
    {"id: a\nevent: tool.pre\nblocking: false\nhandler: {kind: approve}\n", TP_ERR_MALFORMED, 4, 17, "blocking: true"},
    {"id: a\nevent: tool.pre\nhandler: {kind: approve, question: ''}\n", TP_ERR_MALFORMED, 3, 36, "is empty"},
    {"id: a\nevent: tool.pre\nhandler: {kind: approve, command: x}\n", TP_ERR_MALFORMED, 3, 35, "has no command"},
    {"id: a\nevent: tool.pre\nverdict: json\nhandler: {kind: approve}\n", TP_ERR_MALFORMED, 3, 10, "blocking program"},
    {"id: a\nevent: tool.pre\nhandler: {kind: log}\n", TP_ERR_MALFORMED, 3, 10, "needs path"},
    {"id: a\nevent: tool.pre\nhandler: {kind: log, path: x, command: y}\n", TP_ERR_MALFORMED, 3, 40, "has no command"},
    {"id: a\nevent: tool.pre\nhandler: {command: ./x, timeout_ms: 0}\n", TP_ERR_MALFORMED, 3, 37, "from 1"},
    {"id: a\nevent: tool.pre\nblocking: 'no'\n" HANDLER, TP_ERR_MALFORMED, 3, 11, "true or false"},
    {"id: a\nevent: tool.pre\nfailure: hope\n" HANDLER, TP_ERR_MALFORMED, 3, 10, "best_effort or required"},
    {"id: a\nevent: tool.pre\nblocking: false\nfailure: required\n" HANDLER, TP_ERR_MALFORMED, 4, 10, "blocking: true"},
    {"id: a\nevent: tool.post\nfailure: required\n" HANDLER, TP_ERR_OBSERVER_REQUIRED, 3, 10, "observes"},
    {"id: a\nevent: tool.post\nverdict: json\n" HANDLER, TP_ERR_MALFORMED, 3, 10, "phase with verdicts"},
    {"id: a\nevent: tool.pre\nmatch: {min_duration_ms: 5}\n" HANDLER, TP_ERR_MATCH_KEY, 3, 26, "min_duration_ms"},
    {"id: a\nevent: turn.intake\nmatch: {ability_scope: x}\n" HANDLER, TP_ERR_MATCH_KEY, 3, 24, "ability_scope"},
    {"id: a\nevent: tool.pre\nid: b\n" HANDLER, TP_ERR_MALFORMED, 3, 1, "id"},
    {"id: a\nevent: tool.pre\n  x: y\n", TP_ERR_MALFORMED, 0, 0, ""},
};

TEST(a_wrong_file_is_refused_with_its_place_and_a_remedy) {
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < sizeof refuseds / sizeof refuseds[0]; i++) {
    const refused *row = &refuseds[i];
    write_named("a.yaml", row->yaml);
    tp_hooks *hooks;
    tp_fault fault = {0};
    tp_status status = read_hooks(runtime, NULL, &hooks, &fault);
    if (status != row->status) fail_msg("%s: %s %s", row->yaml, tp_status_name(status), fault.message);
    if (!strstr(fault.message, row->part)) fail_msg("%s: %s", row->yaml, fault.message);
    if (row->line && (fault.line != row->line || fault.column != row->column))
      fail_msg("%s: %u:%u %s", row->yaml, fault.line, fault.column, fault.message);
    assert_non_null(strstr(fault.subject, "/a.yaml"));
  }
  tp_runtime_free(runtime);
}

static void keep_text(void *ctx, const char *text, size_t size) {
  char *page = ctx;
  size_t used = strlen(page);
  assert_true(used + size < 16384);
  memcpy(page + used, text, size);
  page[used + size] = '\0';
}

TEST(registered_hook_says_its_file_line_and_kind) {
  write_named("a.yaml", "# a guard\nid: a\nevent: tool.pre\n" HANDLER);
  write_named("b.yaml", "event: turn.post_turn\nhandler: {kind: log, path: b.log}\nsummary: s\nid: b\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  static char page[16384];
  page[0] = '\0';
  assert_int_equal(tp_plan_print(runtime, TP_PHASE_NONE, TP_PLAN_TABLE, keep_text, page), TP_OK);
  char wanted[256];
  snprintf(wanted, sizeof wanted, "script from %s/a.yaml:2\n", directory);
  if (!strstr(page, wanted)) fail_msg("`%s` is not in:\n%s", wanted, page);
  snprintf(wanted, sizeof wanted, "native from %s/b.yaml:4\n", directory);
  if (!strstr(page, wanted)) fail_msg("`%s` is not in:\n%s", wanted, page);
  tp_runtime_free(runtime);
}

TEST(a_directory_is_committed_whole_or_not_at_all) {
  write_named("a.yaml", "id: a\nevent: tool.pre\n" HANDLER);
  write_named("b.yaml", "id: b\nevent: tool.pre\nafter: nobody\n" HANDLER);
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  tp_fault fault = {0};
  assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_ERR_MISSING_DEPENDENCY);
  assert_non_null(strstr(fault.subject, "/b.yaml"));
  assert_int_equal(fault.line, 1);
  assert_int_equal(tp_subscription_kill(runtime, "a", true, NULL), TP_ERR_NOT_FOUND);
  tp_hooks_free(hooks);
  write_named("b.yaml", "id: a\nevent: tool.pre\n" HANDLER);
  assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_ERR_DUPLICATE_ID);
  assert_non_null(strstr(fault.message, "/a.yaml"));
  tp_runtime_free(runtime);
}

/* ---- trust ---- */

TEST(nothing_runs_of_a_directory_that_is_not_trusted) {
  write_named("a.yaml", "id: a\nevent: tool.pre\nhandler: {command: ./guard.sh}\n");
  write_program("guard.sh", "#!/bin/sh\nexit 0\n");
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  tp_fault fault = {0};
  assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
  char hash[65];
  snprintf(hash, sizeof hash, "%s", tp_hooks_hash(hooks));
  assert_int_equal(tp_hooks_commit(hooks, NULL, NULL, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, hash));
  assert_int_equal(tp_hooks_commit(hooks, NULL, "0", NULL, &fault), TP_ERR_USAGE);
  tp_hooks_free(hooks);
  write_program("guard.sh", "#!/bin/sh\nexit 1\n");
  assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
  assert_string_not_equal(tp_hooks_hash(hooks), hash);
  assert_int_equal(tp_hooks_commit(hooks, NULL, hash, NULL, &fault), TP_ERR_USAGE);
  tp_hooks_free(hooks);
  tp_runtime_free(runtime);
}

TEST(a_program_that_changed_since_it_was_trusted_does_not_run) {
  write_named("a.yaml", "id: a\nevent: tool.pre\nhandler: {command: [sh, guard.sh]}\n");
  write_named("guard.sh", "exit 0\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  write_named("guard.sh", "exit 0 # changed\n");
  tp_phase_result result = gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(result.why, TP_REASON_CANNOT_START);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(the_environment_switches_all_declared_hooks_off) {
  write_named("a.yaml", "id: a\nevent: tool.pre\nhandler: {command: ['false']}\n");
  setenv("TURNPHASE_DISABLE_HOOKS", "1", 1);
  tp_runtime *runtime = open_with_hooks(NULL);
  unsetenv("TURNPHASE_DISABLE_HOOKS");
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
}

static bool count_info(void *ctx, const tp_hook_info *info) {
  size_t *count = ctx;
  ++*count;
  assert_string_equal(info->event, "PostAbilityCall");
  assert_string_equal(info->kind, "script");
  assert_string_equal(info->match, "ability_scope: *; min_duration_ms: 100");
  assert_int_equal(info->phase, TP_PHASE_TOOL_POST);
  assert_true(info->enabled && !info->blocking);
  return true;
}

TEST(the_file_of_the_seed_is_read_with_all_its_keys) {
  write_named("a.yaml",
              "id: ability_usage_tracker\nevent_type: PostAbilityCall\nenabled: true\nblocking: false\n"
              "summary: >\n  Track each ability call.\nmatch:\n  ability_scope: '*'\n"
              "  min_duration_ms: 100\nhandler:\n  kind: script\n  command: ./tracker.py\n"
              "effects:\n  - append_to: .system/logs/slow_abilities.log\n");
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  assert_int_equal(read_hooks(runtime, NULL, &hooks, NULL), TP_OK);
  size_t count = 0;
  assert_int_equal(tp_hooks_each(hooks, count_info, &count), 1);
  assert_int_equal(count, 1);
  tp_hooks_free(hooks);
  tp_runtime_free(runtime);
}

/* ---- one hook alone, and what its program said ---- */

typedef struct watcher {
  latch ended;
  char input[512], output[64], errors[64], reason[64];
  tp_answer answer;
  int32_t exit_code;
} watcher;

static void watch(void *ctx, const tp_hook_program *program) {
  watcher *w = ctx;
  snprintf(w->input, sizeof w->input, "%.*s", (int)program->input.size, program->input.data);
  snprintf(w->output, sizeof w->output, "%.*s", (int)program->output.size, program->output.data);
  snprintf(w->errors, sizeof w->errors, "%.*s", (int)program->errors.size, program->errors.data);
  snprintf(w->reason, sizeof w->reason, "%s", program->outcome->reason ? program->outcome->reason : "");
  w->answer = program->outcome->kind;
  w->exit_code = program->end == TP_PROCESS_EXITED ? program->exit_code : -1;
  latch_hit(&w->ended);
}

TEST(one_hook_runs_alone_and_its_program_is_shown) {
  write_named("a.yaml", "id: other\nevent: tool.pre\nhandler: {command: [sh, -c, 'touch ran']}\n");
  write_named("b.yaml",
              "id: guard\nenabled: false\nevent: tool.pre\nrequires: other\n"
              "handler: {command: [sh, -c, 'echo out; echo no >&2; exit 3']}\n");
  tp_runtime *runtime = open_runtime(NULL);
  watcher w = {.ended = LATCH};
  tp_hooks_options options = {.struct_size = sizeof options,
                              .directory = directory,
                              .root = directory,
                              .only = "guard",
                              .on_program = watch,
                              .program_ctx = &w};
  tp_hooks *hooks;
  tp_fault fault = {0};
  assert_int_equal(tp_hooks_read(runtime, &options, &hooks, &fault), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_OK);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = gate(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(result.run_count, 1);
  latch_wait(&w.ended, 1);
  tp_turn_end(turn);
  tp_hooks_free(hooks);
  assert_non_null(strstr(w.input, "\"ability_id\":\"shell.run\""));
  assert_string_equal(w.output, "out\n");
  assert_string_equal(w.errors, "no\n");
  assert_string_equal(w.reason, "no");
  assert_int_equal(w.answer, TP_ANSWER_DENY);
  assert_int_equal(w.exit_code, 3);
  options.only = "nobody";
  assert_int_equal(tp_hooks_read(runtime, &options, &hooks, &fault), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_ERR_NOT_FOUND);
  tp_hooks_free(hooks);
  close_runtime(runtime);
  char file[128];
  snprintf(file, sizeof file, "%s/ran", directory);
  assert_int_equal(access(file, F_OK), -1);
}

TEST(after_the_free_of_hooks_no_program_is_shown) {
  write_named("a.yaml", "id: guard\nevent: tool.pre\nhandler: {command: ['true']}\n");
  tp_runtime *runtime = open_runtime(NULL);
  watcher w = {.ended = LATCH};
  tp_hooks_options options = {
      .struct_size = sizeof options, .directory = directory, .root = directory, .on_program = watch, .program_ctx = &w};
  tp_hooks *hooks;
  assert_int_equal(tp_hooks_read(runtime, &options, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  tp_hooks_free(hooks);
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_int_equal(gate(turn).outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(w.ended.count, 0);
}

/* ---- a cancel while the program is being started ---- */

typedef struct noted_job {
  latch over;
  tp_process_end end; /* 0: it was not started */
} noted_job;

static noted_job noted;

static void note_end(tp__job *job, const tp_process_result *result) {
  (void)job;
  noted.end = result->end;
  latch_hit(&noted.over);
}

static void note_unstarted(const tp__job *job, const char *reason, int32_t system_error) {
  (void)job;
  (void)reason;
  (void)system_error;
  latch_hit(&noted.over);
}

/* Simulates a deadline that passes between the deferral of a call and the start of its program: the engine cancels the
 * deferral first. Without the cancel, the programs would run to their deadline. */
TEST(a_call_that_is_cancelled_before_its_program_starts_ends_the_program) {
  static const tp__job_kind kind = {.ended = note_end, .unstarted = note_unstarted};
  static const struct {
    const char *command;
    int before, after; /* how often it is cancelled before the start, and after it */
    tp_process_end end;
  } cases[] = {
      {"[sleep, '100']", 1, 0, TP_PROCESS_CANCELLED},
      {"[sleep, '100']", 3, 0, TP_PROCESS_CANCELLED},
      {"[sleep, '100']", 1, 1, TP_PROCESS_CANCELLED},
      {"[sleep, '100']", 0, 1, TP_PROCESS_CANCELLED},
      {"[sleep, '100']", 0, 0, TP_PROCESS_TIMED_OUT},
      {"[sh, -c, 'trap \"\" TERM; sleep 100']", 1, 0, TP_PROCESS_CANCELLED},
      {"[sh, -c, 'sleep 100 & wait']", 1, 0, TP_PROCESS_CANCELLED},
      {"[sh, -c, 'sleep 100 & kill -STOP $$']", 1, 0, TP_PROCESS_CANCELLED},
      {"['true']", 0, 0, TP_PROCESS_EXITED},
      {"./no_such_program", 1, 0, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    char yaml[256];
    tp_hooks *hooks;
    tp_runtime *runtime = open_runtime(NULL);
    noted = (noted_job){.over = LATCH};
    snprintf(yaml, sizeof yaml, "id: guard\nevent: tool.pre\nhandler: {command: %s}\n", cases[i].command);
    write_named("a.yaml", yaml);
    assert_int_equal(read_hooks(runtime, NULL, &hooks, NULL), TP_OK);
    tp__job *job = tp__job_new(&kind, hooks->first, NULL);
    assert_non_null(job);
    tp_deferral deferral = tp__job_deferral(job);
    job->token.bits = 1; /* never completed: note_end() takes the place of that */
    for (int n = 0; n < cases[i].before; n++) deferral.cancel(deferral.ctx);
    tp__job_start(job, (tp__bytes){0}, cases[i].end == TP_PROCESS_TIMED_OUT ? 1 : 20000);
    for (int n = 0; n < cases[i].after; n++) deferral.cancel(deferral.ctx);
    latch_wait(&noted.over, 1);
    if (noted.end != cases[i].end) fail_msg("%zu %s: ended by %d", i, cases[i].command, (int)noted.end);
    deferral.destroy(deferral.ctx);
    tp_hooks_free(hooks);
    close_runtime(runtime);
  }
}

/* ---- the hash ---- */

TEST_WITH(the_content_hash_is_sha256, NULL, NULL) {
  static const struct {
    const char *text, *hash;
  } rows[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp__sha256 hash;
    char text[65];
    tp__sha256_init(&hash);
    tp__sha256_add(&hash, rows[i].text, strlen(rows[i].text));
    tp__sha256_finish(&hash, text);
    assert_string_equal(text, rows[i].hash);
  }
}
