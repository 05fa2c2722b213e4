/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/interrupt.h"

#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"

enum { ENDS_AT = 3 }; /* so many in one turn: it does not end by itself */

static sigset_t only_sigint(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

static void interrupt_first(cli_interrupt *interrupt) {
  cli_error("interrupted: the turn is cancelled; once more to end at once");
  tp__lock_acquire(&interrupt->mutex);
  interrupt->interrupted = true;
  tp_submission_cancel(interrupt->submission);
  tp__lock_release(&interrupt->mutex);
}

static void ring(const cli_interrupt *interrupt) {
  const uint64_t one = 1;
  if (interrupt->bell >= 0) (void)!write(interrupt->bell, &one, sizeof one);
}

/* @return false when it is for the run, not for the turn. */
static bool interrupt_turn(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  bool turns_only = interrupt->turns_only;
  if (turns_only) {
    if (!interrupt->submission) ring(interrupt);
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
  sigset_t set = only_sigint();
  int number;
  for (size_t count = 0; sigwait(&set, &number) == 0 && !is_stopping(interrupt);) {
    if (interrupt_turn(interrupt)) continue;
    if (count++ > 0) _exit(CLI_INTERRUPTED);
    interrupt_first(interrupt);
    ring(interrupt);
  }
  return NULL;
}

static bool is_ignored(void) {
  struct sigaction action;
  return sigaction(SIGINT, NULL, &action) != 0 || action.sa_handler == SIG_IGN;
}

void cli_interrupt_start(cli_interrupt *interrupt) {
  *interrupt = (cli_interrupt){.mutex = TP__LOCK_INITIALIZER(TP__LOCK_interrupt),
                               .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (is_ignored()) return;
  sigset_t set = only_sigint();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  interrupt->runs = tp__thread_spawn(&interrupt->thread, wait_for_signals, interrupt) == 0;
  if (!interrupt->runs) pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* then it ends the process, as it does by itself */
}

void cli_interrupt_turns_only(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  interrupt->turns_only = true;
  tp__lock_release(&interrupt->mutex);
}

void cli_interrupt_watch(cli_interrupt *interrupt, tp_submission *submission) {
  tp__lock_acquire(&interrupt->mutex);
  interrupt->submission = submission;
  interrupt->count = 0;
  if (interrupt->interrupted) tp_submission_cancel(submission);
  tp__lock_release(&interrupt->mutex);
}

bool cli_interrupted_turn(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  bool interrupted = interrupt->count > 0;
  tp__lock_release(&interrupt->mutex);
  return interrupted;
}

bool cli_interrupted(cli_interrupt *interrupt) {
  tp__lock_acquire(&interrupt->mutex);
  bool interrupted = interrupt->interrupted;
  tp__lock_release(&interrupt->mutex);
  return interrupted;
}

void cli_interrupt_stop(cli_interrupt *interrupt) {
  assert(interrupt->runs || !interrupt->submission);
  if (interrupt->runs) {
    tp__lock_acquire(&interrupt->mutex);
    interrupt->stopping = true;
    tp__lock_release(&interrupt->mutex);
    pthread_kill(interrupt->thread, SIGINT); /* which it waits for */
    pthread_join(interrupt->thread, NULL);
  }
  interrupt->runs = false;
  if (interrupt->bell >= 0) close(interrupt->bell);
  interrupt->bell = -1;
}
