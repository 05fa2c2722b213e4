/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/common/quantity.h"
#include "support/clock.h"

enum { EACH_MS = 200 };

static void print_progress(const cli_progress *p, unsigned rounds) {
  char line[128];
  double seconds = rounds * (EACH_MS / 1000.0);
  int size =
      p->rows ? snprintf(line, sizeof line, "\r\033[K%s: %.1f s, %s rows", p->doing, seconds, cli_count(p->rows).text)
              : snprintf(line, sizeof line, "\r\033[K%s: %.1f s", p->doing, seconds);
  (void)!write(STDERR_FILENO, line, (size_t)size);
}

static void *show_progress(void *ctx) {
  cli_progress *p = ctx;
  unsigned rounds = 0;
  int64_t until_ns = tp__monotonic_ns();
  tp__lock_acquire(&p->mutex);
  while (!p->ended) {
    until_ns += EACH_MS * TP__NS_IN_MS;
    while (!p->ended && tp__lock_condition_wait_until(&p->ended_changed, &p->mutex, until_ns)) continue;
    if (!p->ended) print_progress(p, ++rounds);
  }
  tp__lock_release(&p->mutex);
  if (rounds) (void)!write(STDERR_FILENO, "\r\033[K", 4);
  return NULL;
}

void cli_progress_start(cli_progress *p, const char *doing) {
  *p = (cli_progress){.doing = doing};
  if (!isatty(STDERR_FILENO)) return;
  tp__lock_init(&p->mutex, TP__LOCK_progress);
  tp__lock_condition_init(&p->ended_changed);
  p->runs = tp__thread_spawn(&p->thread, show_progress, p) == 0;
}

void cli_progress_note(cli_progress *p, uint64_t rows) {
  if (!p->runs) return;
  tp__lock_acquire(&p->mutex);
  p->rows = rows;
  tp__lock_release(&p->mutex);
}

void cli_progress_stop(cli_progress *p) {
  if (!p->runs) return;
  tp__lock_acquire(&p->mutex);
  p->ended = true;
  tp__lock_condition_signal(&p->ended_changed);
  tp__lock_release(&p->mutex);
  pthread_join(p->thread, NULL);
  p->runs = false;
}
