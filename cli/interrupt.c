/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "cli/exit_status.h"
#include "cli/message.h"

static sigset_t only_sigint(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

static void interrupt_first(cli_interrupt *interrupt) {
  cli_error("interrupted: the turn is cancelled; once more to end at once");
  pthread_mutex_lock(&interrupt->mutex);
  interrupt->interrupted = true;
  tp_submission_cancel(interrupt->submission);
  pthread_mutex_unlock(&interrupt->mutex);
}

/* Cancelled by cli_interrupt_stop() while it waits. */
static void *wait_for_signals(void *ctx) {
  cli_interrupt *interrupt = ctx;
  sigset_t set = only_sigint();
  int number;
  for (size_t count = 0; sigwait(&set, &number) == 0; count++) {
    int ignored;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    if (count > 0) _exit(CLI_INTERRUPTED);
    interrupt_first(interrupt);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &ignored);
  }
  return NULL;
}

static bool is_ignored(void) {
  struct sigaction action;
  return sigaction(SIGINT, NULL, &action) != 0 || action.sa_handler == SIG_IGN;
}

void cli_interrupt_start(cli_interrupt *interrupt) {
  *interrupt = (cli_interrupt){.mutex = PTHREAD_MUTEX_INITIALIZER};
  if (is_ignored()) return;
  sigset_t set = only_sigint();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  interrupt->runs = pthread_create(&interrupt->thread, NULL, wait_for_signals, interrupt) == 0;
  if (!interrupt->runs) pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* then it ends the process, as it does by itself */
}

void cli_interrupt_watch(cli_interrupt *interrupt, tp_submission *submission) {
  pthread_mutex_lock(&interrupt->mutex);
  interrupt->submission = submission;
  if (interrupt->interrupted) tp_submission_cancel(submission);
  pthread_mutex_unlock(&interrupt->mutex);
}

bool cli_interrupted(cli_interrupt *interrupt) {
  pthread_mutex_lock(&interrupt->mutex);
  bool interrupted = interrupt->interrupted;
  pthread_mutex_unlock(&interrupt->mutex);
  return interrupted;
}

void cli_interrupt_stop(cli_interrupt *interrupt) {
  if (!interrupt->runs) return;
  pthread_cancel(interrupt->thread);
  pthread_join(interrupt->thread, NULL);
  interrupt->runs = false;
}
