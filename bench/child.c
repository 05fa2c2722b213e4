/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Close-on-exec, so that no other child holds an end. */
static bool start(bench_child *c, const char *const *arguments, int to[2], int from[2]) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  int status = posix_spawnp(&c->pid, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return status == 0;
}

bool bench_child_open(bench_child *c, const char *const *arguments) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) exit(70);
  signal(SIGPIPE, SIG_IGN); /* the end of a child is noticed by its missing answer */
  bool started = start(c, arguments, to, from);
  close(to[0]);
  close(from[1]);
  c->to = fdopen(to[1], "w");
  c->from = fdopen(from[0], "r");
  if (!c->to || !c->from) exit(70);
  if (started && fgets(c->name, sizeof c->name, c->from)) {
    c->name[strcspn(c->name, "\n")] = '\0';
    return true;
  }
  if (!started) c->pid = -1;
  bench_child_close(c);
  return false;
}

void bench_child_close(bench_child *c) {
  fclose(c->to); /* the end of its input ends the child */
  if (c->pid > 0) waitpid(c->pid, NULL, 0);
  fclose(c->from);
}

static double number(bench_child *c) {
  double value;
  if (fscanf(c->from, "%lf", &value) == 1) return value;
  fprintf(stderr, "bench: %s did not answer\n", c->name);
  exit(70);
}

void bench_child_run(bench_child *c, uint32_t turns, double *ret_ns, int64_t *ret_cpu_ns, int64_t *ret_switches) {
  fprintf(c->to, "%u\n", turns);
  fflush(c->to);
  *ret_cpu_ns = (int64_t)(number(c) * 1e3);
  *ret_switches = (int64_t)number(c);
  for (uint32_t i = 0; i < turns; i++) ret_ns[i] = number(c);
}
