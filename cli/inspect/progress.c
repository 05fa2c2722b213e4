/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/progress.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/common/quantity.h"

enum { EACH_MS = 200 };

static void print_line(const cli_progress *p, unsigned rounds) {
  char line[128];
  double seconds = rounds * (EACH_MS / 1000.0);
  int size =
      p->rows ? snprintf(line, sizeof line, "\r\033[K%s: %.1f s, %s rows", p->doing, seconds, cli_count(p->rows).text)
              : snprintf(line, sizeof line, "\r\033[K%s: %.1f s", p->doing, seconds);
  (void)!write(STDERR_FILENO, line, (size_t)size);
}

static void *show(void *ctx) {
  cli_progress *p = ctx;
  unsigned rounds = 0;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  pthread_mutex_lock(&p->mutex);
  while (!p->ended) {
    until.tv_nsec += EACH_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!p->ended && pthread_cond_timedwait(&p->ended_changed, &p->mutex, &until) != ETIMEDOUT) continue;
    if (!p->ended) print_line(p, ++rounds);
  }
  pthread_mutex_unlock(&p->mutex);
  if (rounds) (void)!write(STDERR_FILENO, "\r\033[K", 4);
  return NULL;
}

void cli_progress_start(cli_progress *p, const char *doing) {
  pthread_condattr_t monotonic;
  *p = (cli_progress){.doing = doing};
  if (!isatty(STDERR_FILENO)) return;
  pthread_mutex_init(&p->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&p->ended_changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  p->runs = pthread_create(&p->thread, NULL, show, p) == 0;
}

void cli_progress_note(cli_progress *p, uint64_t rows) {
  if (!p->runs) return;
  pthread_mutex_lock(&p->mutex);
  p->rows = rows;
  pthread_mutex_unlock(&p->mutex);
}

void cli_progress_stop(cli_progress *p) {
  if (!p->runs) return;
  pthread_mutex_lock(&p->mutex);
  p->ended = true;
  pthread_cond_signal(&p->ended_changed);
  pthread_mutex_unlock(&p->mutex);
  pthread_join(p->thread, NULL);
  p->runs = false;
}
