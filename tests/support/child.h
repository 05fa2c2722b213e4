/* SPDX-License-Identifier: Apache-2.0
 *
 * child: starts the test's own program again, as a process that may die, with a pipe for its reports. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { CHILD_WORDS_MAX = 8, CHILD_LINE = 20000 };

/* ---- the child ---- */

static int child_lines; /* the pipe */

/* A line in one piece: what was written before a kill is in the pipe. */
static inline void child_say(const char *format, ...) {
  static char line[CHILD_LINE];
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  va_list arguments;
  pthread_mutex_lock(&mutex);
  va_start(arguments, format);
  int size = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (write(child_lines, line, (size_t)size) != size) _exit(3);
  pthread_mutex_unlock(&mutex);
}

/* @return whether the program was started as a child: then words are its arguments. */
static inline bool child_is(int count, char **arguments, const char *ret_words[CHILD_WORDS_MAX]) {
  if (count < 3 || strcmp(arguments[1], "--child") != 0) return false;
  child_lines = atoi(arguments[2]);
  for (int i = 3; i < count && i - 3 < CHILD_WORDS_MAX; i++) ret_words[i - 3] = arguments[i];
  return true;
}

/* ---- the parent ---- */

typedef struct child {
  pid_t id;
  FILE *lines;
} child;

/* @param words  ended by NULL. */
static inline child child_start(const char *const *words) {
  static char self[4096];
  const char *arguments[CHILD_WORDS_MAX + 5] = {self, test_file_name(__BASE_FILE__), "--child"};
  int fds[2], count = 4;
  char fd[16];
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0 || pipe(fds) != 0) abort();
  self[size] = '\0';
  snprintf(fd, sizeof fd, "%d", fds[1]);
  arguments[3] = fd;
  while (*words && count < CHILD_WORDS_MAX + 4) arguments[count++] = *words++;
  pid_t id = fork();
  if (id == 0) {
    close(fds[0]);
    execv(self, (char **)(uintptr_t)arguments);
    _exit(127);
  }
  close(fds[1]);
  return (child){id, fdopen(fds[0], "r")};
}

/* Takes each line, without its end, until the child has no more. @return its status, as of waitpid(). */
static inline int child_take_all(child c, void (*take)(const char *line)) {
  static char line[CHILD_LINE];
  int status = 0;
  while (fgets(line, sizeof line, c.lines)) {
    line[strcspn(line, "\n")] = '\0';
    take(line);
  }
  fclose(c.lines);
  waitpid(c.id, &status, 0);
  return status;
}

static inline bool child_was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

#endif
