/* SPDX-License-Identifier: Apache-2.0
 *
 * command: runs the command turnphase (its path is in the environment variable TURNPHASE) as a process of its own,
 * feeds it, and collects its output. Include after cmocka.h. */
#ifndef TEST_COMMAND_H
#define TEST_COMMAND_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { COMMAND_ARGUMENTS_MAX = 24, COMMAND_LIMIT_S = 100 };

/** Bytes that grow; a NUL stands after them. */
typedef struct bytes {
  char *data;
  size_t size, capacity;
} bytes;

/** A command to run, and its result. Zero-filled fields mean: nothing on standard input, output is collected. */
typedef struct command {
  const char *arguments[COMMAND_ARGUMENTS_MAX]; /* after the command's name, then NULL */
  const char *input;
  size_t input_size;        /* 0: strlen(input) */
  const char *output_path;  /* the file to which standard output goes */
  size_t output_max;        /* the reader ends after this many bytes; 0: it reads to the end */
  const char *interrupt_at; /* SIGINT is sent when the output contains this text; NULL: never */
  int status;               /* exit status; -1 when it was killed */
  bytes out, err;
} command;

static void bytes_add(bytes *b, const char *data, size_t size) {
  if (b->size + size + 1 > b->capacity) {
    b->capacity = 2 * (b->size + size + 1);
    b->data = realloc(b->data, b->capacity);
    assert_non_null(b->data);
  }
  memcpy(b->data + b->size, data, size);
  b->size += size;
  b->data[b->size] = '\0';
}

static inline void bytes_string(bytes *b, const char *string) { bytes_add(b, string, strlen(string)); }

static double command_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Three pipes: to the child's 0, from its 1 and 2. */
static pid_t command_spawn(const command *c, int ret_ends[3]) {
  int pipes[3][2];
  posix_spawn_file_actions_t actions;
  char *argv[COMMAND_ARGUMENTS_MAX + 2] = {(char *)"turnphase"};
  posix_spawnattr_t attributes;
  sigset_t defaults;
  pid_t child;
  const char *path = getenv("TURNPHASE");
  assert_non_null(path);
  for (int i = 0; c->arguments[i]; i++) argv[i + 1] = (char *)(uintptr_t)c->arguments[i];
  posix_spawn_file_actions_init(&actions);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
    posix_spawn_file_actions_adddup2(&actions, pipes[i][i == 0 ? 0 : 1], i);
  }
  if (c->output_path) posix_spawn_file_actions_addopen(&actions, 1, c->output_path, O_WRONLY, 0);
  posix_spawnattr_init(&attributes);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE); /* we ignore it; a shell would not */
  sigaddset(&defaults, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  assert_int_equal(posix_spawn(&child, path, &actions, &attributes, argv, environ), 0);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  for (int i = 0; i < 3; i++) {
    close(pipes[i][i == 0 ? 0 : 1]);
    ret_ends[i] = pipes[i][i == 0 ? 1 : 0];
    fcntl(ret_ends[i], F_SETFL, O_NONBLOCK);
  }
  return child;
}

static void command_close(int *end) {
  if (*end >= 0) close(*end);
  *end = -1;
}

static void command_feed(command *c, int *end, size_t *fed) {
  ssize_t wrote = write(*end, c->input + *fed, c->input_size - *fed);
  if (wrote > 0) *fed += (size_t)wrote;
  if (*fed == c->input_size || (wrote < 0 && errno != EAGAIN)) command_close(end);
}

static void command_take(int *end, bytes *into, size_t max) {
  char piece[65536];
  ssize_t got = read(*end, piece, sizeof piece);
  if (got > 0) bytes_add(into, piece, (size_t)got);
  if (got == 0 || (got < 0 && errno != EAGAIN) || (max && into->size >= max)) command_close(end);
}

static void command_interrupt(command *c, pid_t child) {
  if (!c->interrupt_at || c->out.size == 0 || !strstr(c->out.data, c->interrupt_at)) return;
  kill(child, SIGINT);
  c->interrupt_at = NULL;
}

/* Reads until both outputs have ended, or the limit has passed. */
static bool command_pump(command *c, pid_t child, int ends[3]) {
  double end = command_seconds() + COMMAND_LIMIT_S;
  size_t fed = 0;
  if (c->input_size == 0) command_close(&ends[0]);
  while (ends[1] >= 0 || ends[2] >= 0) {
    struct pollfd polls[3] = {
        {.fd = ends[0], .events = POLLOUT}, {.fd = ends[1], .events = POLLIN}, {.fd = ends[2], .events = POLLIN}};
    double left = end - command_seconds();
    if (left <= 0) return false;
    poll(polls, 3, (int)(left * 1000) + 1);
    if (polls[0].revents) command_feed(c, &ends[0], &fed);
    if (polls[1].revents) command_take(&ends[1], &c->out, c->output_max);
    if (polls[2].revents) command_take(&ends[2], &c->err, 0);
    command_interrupt(c, child);
  }
  return true;
}

/* Runs it to its end; a hang fails the test. */
static int command_run(command *c) {
  int ends[3], status;
  signal(SIGPIPE, SIG_IGN);
  if (c->input && c->input_size == 0) c->input_size = strlen(c->input);
  bytes_add(&c->out, "", 0);
  bytes_add(&c->err, "", 0);
  pid_t child = command_spawn(c, ends);
  bool ended = command_pump(c, child, ends);
  if (!ended) kill(child, SIGKILL);
  for (int i = 0; i < 3; i++) command_close(&ends[i]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!ended) print_message("# it did not end: %s\n", c->err.data);
  assert_true(ended);
  c->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return c->status;
}

static void command_free(command *c) {
  free(c->out.data);
  free(c->err.data);
}

/* ---- what tests say of it ---- */

static bool holds(const bytes *b, const char *words) { return strstr(b->data, words) != NULL; }

static inline void assert_holds(const bytes *b, const char *words) {
  if (!holds(b, words)) print_message("# \"%s\" is not in: %s\n", words, b->data);
  assert_true(holds(b, words));
}

static inline void assert_status(command *c, int status) {
  if (command_run(c) != status) print_message("# stderr: %s\n# stdout: %.2000s\n", c->err.data, c->out.data);
  assert_int_equal(c->status, status);
}

/* ---- files ---- */

static char scratch[64]; /* the test's own directory */

static inline int scratch_make(void **state) {
  (void)state;
  strcpy(scratch, "/tmp/turnphase-test-XXXXXX");
  return mkdtemp(scratch) ? 0 : -1;
}

/* The path of a file in the test's directory. Only the last few results are valid at a time. */
static inline const char *scratch_path(const char *name) {
  static char paths[8][512];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
  return path;
}

static inline const char *scratch_write(const char *name, const char *text, size_t size) {
  const char *path = scratch_path(name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return path;
}

static inline const char *scratch_string(const char *name, const char *text) {
  return scratch_write(name, text, strlen(text));
}

/* Directories of the test hold files, and directories with files. */
static inline int scratch_remove(void **state) {
  (void)state;
  char line[128];
  snprintf(line, sizeof line, "rm -rf '%s'", scratch);
  return system(line) == 0 ? 0 : -1;
}

#endif
