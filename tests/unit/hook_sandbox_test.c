/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program in a sandbox cannot do, which process puts it there, and what happens when there is no sandbox. */
#include <dirent.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/declared/sandbox.h"
#include "tests/support/hook_files.h"

static const char *helper(void) {
  const char *found = getenv("TURNPHASE_SANDBOX"); /* the build sets it */
  return found ? found : "";
}

static tp_hooks_options options_with(const char *with, bool all) {
  tp_hooks_options options = hooks_options();
  options.sandbox_helper = with;
  options.sandbox_all = all;
  return options;
}

static tp_status read_with(tp_runtime *runtime, const char *with, bool all, tp_hooks **ret_hooks, tp_fault *fault) {
  tp_hooks_options options = options_with(with, all);
  return read_hooks(runtime, &options, ret_hooks, fault);
}

/* One guard whose program is a script of the shell. */
static void write_guard(const char *script, const char *sandbox, const char *kind) {
  char text[1024];
  write_named("guard.sh", script);
  snprintf(text, sizeof text, "id: guard\nevent: tool.pre\nhandler: {kind: %s, command: [sh, guard.sh]%s%s}\n", kind,
           sandbox[0] ? ", sandbox: " : "", sandbox);
  write_named("a.yaml", text);
}

static tp_phase_result run_guard(bool all, tp_runtime **ret_runtime, tp_turn **ret_turn) {
  tp_hooks_options options = options_with(helper(), all);
  *ret_runtime = open_with_hooks(&options);
  *ret_turn = begin_bare(*ret_runtime, 60000);
  return run_phase(*ret_turn, TP_PHASE_TOOL_PRE, NULL);
}

typedef struct row {
  const char *sandbox, *script;
  bool denies;
} row;

#define SOCKET "python3 -c 'import socket; socket.socket()' 2>/dev/null"

static const row rows[] = {
    {"", "echo x > written", false},
    {"false", "echo x > written", false},
    {"true", "echo x > written", true},
    {"true", "echo x > /tmp/turnphase.never", true},
    {"true", "echo x > /dev/null; cat guard.sh > /dev/null", false},
    {"true", "mkdir a", true},
    {"true", "rm guard.sh", true},
    {"{write: .}", "echo x > written && mkdir -p a && rm -r a", false},
    {"{write: .}", "echo x > /tmp/turnphase.never", true},
    {"{write: [., /tmp]}", "echo x > /tmp/turnphase.$$ && rm /tmp/turnphase.$$", false},
    {"{read: .}", "cat guard.sh", false},
    {"{read: .}", "ls /tmp", true},
    {"{read: .}", "echo x > written", true},
    {"{read: [., /tmp]}", "ls /tmp", false},
    {"{read: [/tmp, .]}", "ls /tmp", false},
    {"{read: /tmp}", "ls /tmp", false},
    {"true", "grep -q 'NoNewPrivs:.1' /proc/self/status", false},
    {"false", "grep -q 'NoNewPrivs:.1' /proc/self/status", true},
    {"{write: ., file_mib: 1}", "head -c 1000000 /dev/zero > big", false},
    {"{write: ., file_mib: 1}", "head -c 2000000 /dev/zero > big", true},
    {"{processes: 7, memory_mib: 64, cpu_s: 3}",
     "test \"$(grep 'Max processes' /proc/self/limits | awk '{print $3}')\" = 7", false},
    {"{memory_mib: 64}", "test \"$(grep 'Max address' /proc/self/limits | awk '{print $4}')\" = 67108864", false},
    {"{cpu_s: 1}", "while :; do :; done", true},
    {"true", SOCKET, true},
    {"{network: false}", SOCKET, true},
    {"{network: true}", SOCKET, false},
    {"true", "python3 -c 'import socket; socket.socketpair()'", false},
    /* what ordinary programs do goes on */
    {"true", "ls -l / /usr/bin > /dev/null && find /etc -maxdepth 1 | sort | head -3 | xargs -n 1 echo > /dev/null",
     false},
    {"true", "sleep 60 & kill $! && ! wait $!", false},
    {"true", "timeout 5 true && timeout 0.05 sleep 60; test $? = 124", false},
    {"true", "nice -n 1 true && ulimit -n 64 && (ulimit -t 5; true)", false},
    {"true", "head -c 10 /dev/urandom | wc -c | grep -q 10 && head -c 5 /dev/zero > /dev/null", false},
    {"true",
     "python3 -c 'import subprocess, threading, ssl, json; subprocess.run([\"true\"], check=True); "
     "t = threading.Thread(target=print); t.start(); t.join()' > /dev/null",
     false},
    {"{write: .}", "echo x > a && cp -p a b && chmod 600 b && mv b c && ln -s c d && touch -d 2020-01-01 c && rm a c d",
     false},
    {"{write: .}", "mkfifo pipe && (cat pipe > out & echo hello > pipe; wait) && grep -q hello out && rm pipe out",
     false},
    {"{write: .}",
     "python3 -c 'import sqlite3; c = sqlite3.connect(\"x.db\"); c.execute(\"create table t (a)\"); "
     "c.commit()' && rm x.db",
     false},
    {"{network: true}", "python3 -c 'import socket; socket.getaddrinfo(\"localhost\", 80)'", false},
};

FOR_EACH_TEST(make_directory, remove_directory);

TEST(program_cannot_do_what_its_sandbox_forbids) {
  bool has_python = system("command -v python3 > /dev/null") == 0;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const row *r = &rows[i];
    tp_runtime *runtime;
    tp_turn *turn;
    if (!has_python && strstr(r->script, "python3")) continue;
    write_guard(r->script, r->sandbox, "script");
    tp_phase_result result = run_guard(false, &runtime, &turn);
    if ((result.outcome == TP_ERR_DENIED) != r->denies)
      fail_msg("%s: %s: %s %.*s", r->sandbox, r->script, tp_status_name(result.outcome), (int)result.reason.size,
               result.reason.size ? result.reason.data : "");
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  assert_int_not_equal(access("/tmp/turnphase.never", F_OK), 0);
}

/* ---- a fork bomb ---- */

enum { BOMB_USER = 61237, BOMB_PROCESSES = 12, BOMB_LIMIT_MS = 500 };

static size_t processes_of(uid_t user) {
  size_t count = 0;
  struct stat found;
  DIR *proc = opendir("/proc");
  assert_non_null(proc);
  for (struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
    bool is_process = entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
    if (is_process && fstatat(dirfd(proc), entry->d_name, &found, 0) == 0 && found.st_uid == user) count++;
  }
  closedir(proc);
  return count;
}

typedef struct bomb {
  size_t most;
  bool was_refused;
  _Atomic bool ended; /* the program */
  _Atomic bool stop;  /* the counting */
} bomb;

static void see_bomb(void *ctx, const tp_hook_program *program) {
  bomb *b = ctx;
  tp_text errors = program->errors;
  b->was_refused = errors.size > 0 && memmem(errors.data, errors.size, "fork", 4) != NULL;
  b->ended = true;
}

static void *count_bomb(void *arg) {
  bomb *b = arg;
  while (!b->stop) {
    size_t count = processes_of(BOMB_USER);
    if (count > b->most) b->most = count;
  }
  return NULL;
}

/* The limit counts the processes of a user and does not apply to root, so the fork bomb runs as a user without rights.
 * The user is changed before the sandbox begins, because root may not do that inside of one. */
static void write_helper_of_user(char *ret_path, size_t size) {
  char text[600];
  snprintf(text, sizeof text, "cp '%s' '%s/sandbox' && chmod 0755 '%s/sandbox'", helper(), directory, directory);
  assert_int_equal(system(text), 0);
  snprintf(text, sizeof text, "#!/bin/sh\nexec setpriv --reuid=%d --regid=%d --clear-groups '%s/sandbox' \"$@\"\n",
           BOMB_USER, BOMB_USER, directory);
  write_file("helper.sh", text, 0755);
  snprintf(ret_path, size, "%s/helper.sh", directory);
}

TEST(fork_bomb_is_bounded_and_gone_at_the_deadline) {
  if (geteuid() != 0 || system("command -v setpriv > /dev/null") != 0 || processes_of(BOMB_USER) > 0) {
    print_message("# skipped: a user without processes is needed: root, and setpriv\n");
    return;
  }
  char yaml[512], helper_of_user[96];
  assert_int_equal(chmod(directory, 0755), 0);
  write_file("inner.sh", "while :; do sh inner.sh 2> /dev/null & done\n", 0644);
  write_file("bomb.sh", "sh inner.sh & exec sleep 100\n", 0644);
  snprintf(yaml, sizeof yaml,
           "id: guard\nevent: tool.pre\nhandler:\n  command: [sh, bomb.sh]\n  sandbox: {processes: %d}\n"
           "  timeout_ms: %d\n",
           BOMB_PROCESSES, BOMB_LIMIT_MS);
  write_helper_of_user(helper_of_user, sizeof helper_of_user);
  write_named("a.yaml", yaml);
  bomb b = {0};
  tp_hooks_options options = options_with(helper_of_user, false);
  options.on_program = see_bomb;
  options.program_ctx = &b;
  tp_hooks *hooks;
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(read_hooks(runtime, &options, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  pthread_t counter;
  assert_int_equal(pthread_create(&counter, NULL, count_bomb, &b), 0);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_PRE, NULL);
  b.stop = true;
  pthread_join(counter, NULL);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(result.why, TP_REASON_TIMEOUT);
  for (int round = 0; round < 5000 && !b.ended; round++) usleep(2000);
  assert_true(b.ended);
  assert_true(b.was_refused);
  /* a walk through /proc takes time: it sees processes that are ending and those that replace them */
  assert_in_range(b.most, 1, 3 * BOMB_PROCESSES);
  tp_turn_end(turn);
  close_runtime(runtime);
  tp_hooks_free(hooks);
  for (int round = 0; round < 1000 && processes_of(BOMB_USER) > 0; round++) usleep(2000);
  assert_int_equal(processes_of(BOMB_USER), 0);
}

TEST(worker_runs_in_one_too) {
  tp_runtime *runtime;
  tp_turn *turn;
  write_guard(
      "read -r line; (echo x > x) 2>/dev/null && echo '{\"id\": 1}'; echo '{\"id\": 1, \"result\": "
      "{\"continue\": false, \"reason\": \"bounded\"}}'; cat",
      "true", "worker");
  tp_phase_result result = run_guard(false, &runtime, &turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_text(result.reason, "bounded");
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(operator_demands_one_for_all) {
  tp_runtime *runtime;
  tp_turn *turn;
  tp_hooks *hooks;
  tp_fault fault = {0};
  write_guard("echo x > written", "", "script");
  assert_int_equal(run_guard(true, &runtime, &turn).outcome, TP_ERR_DENIED);
  write_guard("echo x > written", "{write: .}", "script"); /* a file may still say which */
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(run_guard(true, &runtime, &turn).outcome, TP_OK);
  write_guard("true", "false", "script");
  assert_int_equal(read_with(runtime, helper(), true, &hooks, &fault), TP_ERR_PRIVILEGED);
  assert_int_equal(fault.line, 3);
  assert_non_null(strstr(fault.message, "the operator demands a sandbox"));
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(what_cannot_be_bounded_is_refused_at_the_commit) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  tp_fault fault = {0};
  write_guard("true", "true", "script");
  assert_int_equal(read_with(runtime, "/no/such/helper", false, &hooks, &fault), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_ERR_SYSTEM);
  assert_non_null(strstr(fault.subject, "a.yaml"));
  assert_int_equal(fault.line, 1);
  assert_non_null(strstr(fault.message, "it demands a sandbox, and its helper"));
  tp_hooks_free(hooks);
  tp_runtime_free(runtime);
}

TEST(wrong_sandbox_is_refused_with_its_place) {
  static const struct {
    const char *sandbox, *part;
  } cases[] = {{"7", "true or false"},
               {"{reads: .}", "read, write, network"},
               {"{write: nowhere}", "which is not there"},
               {"{memory_mib: 0}", "from 1 to"},
               {"{network: maybe}", "true or false"}};
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_fault fault = {0};
    write_guard("true", cases[i].sandbox, "script");
    assert_int_equal(read_with(runtime, NULL, false, &hooks, &fault), TP_ERR_MALFORMED);
    if (fault.line != 3 || !strstr(fault.message, cases[i].part)) fail_msg("%u: %s", fault.line, fault.message);
  }
  tp_fault fault = {0};
  write_named("a.yaml", "id: a\nevent: tool.post\nhandler: {kind: log, path: x, sandbox: true}\n");
  assert_int_equal(read_with(runtime, NULL, false, &hooks, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "has no sandbox"));
  tp_runtime_free(runtime);
}

TEST_MAIN(count, arguments) {
  const char *lacks = tp__sandbox_lacks(helper());
  if (lacks) {
    printf("1..0 # SKIP %s\n", lacks);
    return 0;
  }
  return test_main(count, arguments);
}
