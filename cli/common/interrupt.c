/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/interrupt.h"

#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"

enum { ENDS_AT = 3 }; /* After this many signals in one turn, the turn does not seem to end by itself. */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

/* A signal that was ignored when the command began, as SIGHUP under nohup, stays ignored. */
static bool is_ignored(int number) {
  struct sigaction action;
  return sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN;
}

static sigset_t those_that_end(void) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
    if (!is_ignored(signals[i])) sigaddset(&set, signals[i]);
  return set;
}

static void interrupt_first(cli_interrupt *interrupt, int number) {
  cli_error("interrupted%s: what is under way is cancelled; once more to end at once", number == SIGTERM ? " by SIGTERM"
                                                                                       : number == SIGHUP ? " by SIGHUP"
                                                                                                          : "");
  tp__lock_acquire(&interrupt->mutex);
  interrupt->number = number;
  tp_submission_cancel(interrupt->submission);
  tp__lock_release(&interrupt->mutex);
}

static void ring(const cli_interrupt *interrupt) {
  const uint64_t one = 1;
  if (interrupt->bell >= 0) (void)!write(interrupt->bell, &one, sizeof one);
}

/* @return false when the signal is for the whole run, not for the turn. */
static bool interrupt_turn(cli_interrupt *interrupt, int number) {
  tp__lock_acquire(&interrupt->mutex);
  bool turns_only = interrupt->turns_only && number == SIGINT && !interrupt->number;
  if (turns_only) {
    if (!interrupt->submission && !interrupt->begins) ring(interrupt);
    else if (++interrupt->count == ENDS_AT) _exit(CLI_INTERRUPTED);
    tp_submission_cancel(interrupt->submission);
  }
  tp__lock_release(&interrupt->mutex);
  return turns_only;
}

static bool is_stopping(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  bool stopping = interrupt->stopping;
  tp__lock_release(&interrupt->mutex);
  return stopping;
}

static void *wait_for_signals(void *ctx) {
  cli_interrupt *interrupt = ctx;
  sigset_t set = those_that_end();
  int number;
  for (size_t count = 0; sigwait(&set, &number) == 0 && !is_stopping(interrupt);) {
    if (interrupt_turn(interrupt, number)) continue;
    if (count++ > 0) _exit(cli_exit_of_signal(number));
    interrupt_first(interrupt, number);
    ring(interrupt);
  }
  return NULL;
}

void cli_interrupt_start(cli_interrupt *interrupt) {
  *interrupt = (cli_interrupt){.mutex = TP__LOCK_INITIALIZER(TP__LOCK_interrupt),
                               .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  sigset_t set = those_that_end();
  for (size_t i = 0; i < sizeof signals / sizeof signals[0] && !interrupt->own; i++)
    if (sigismember(&set, signals[i])) interrupt->own = signals[i];
  if (!interrupt->own) return;
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  interrupt->runs = tp__thread_spawn(&interrupt->thread, wait_for_signals, interrupt) == 0;
  if (!interrupt->runs)
    pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* from here on they end the process, as they do by default */
}

void cli_interrupt_turns_only(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  interrupt->turns_only = true;
  tp__lock_release(&interrupt->mutex);
}

void cli_interrupt_begin(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  interrupt->begins = true;
  interrupt->count = 0;
  tp__lock_release(&interrupt->mutex);
}

void cli_interrupt_watch(cli_interrupt *interrupt, tp_submission *submission) {
  tp__lock_acquire(&interrupt->mutex);
  interrupt->submission = submission;
  interrupt->begins = false;
  if (!submission) interrupt->count = 0;
  if (interrupt->number || interrupt->count > 0) tp_submission_cancel(submission);
  tp__lock_release(&interrupt->mutex);
}

bool cli_interrupted_turn(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  bool interrupted = interrupt->count > 0;
  tp__lock_release(&interrupt->mutex);
  return interrupted;
}

int cli_interrupted(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  int number = interrupt->number;
  tp__lock_release(&interrupt->mutex);
  return number ? cli_exit_of_signal(number) : 0;
}

void cli_interrupt_stop(cli_interrupt *interrupt) {
  assert(interrupt->runs || !interrupt->submission);
  if (interrupt->runs) {
    tp__lock_acquire(&interrupt->mutex);
    interrupt->stopping = true;
    tp__lock_release(&interrupt->mutex);
    pthread_kill(interrupt->thread, interrupt->own); /* which it waits for */
    pthread_join(interrupt->thread, NULL);
  }
  interrupt->runs = false;
  if (interrupt->bell >= 0) close(interrupt->bell);
  interrupt->bell = -1;
}
