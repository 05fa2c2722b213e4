/* SPDX-License-Identifier: Apache-2.0
 *
 * interrupt: handles SIGINT (Ctrl-C), SIGTERM and SIGHUP, for which a thread of its own waits. The running turn is
 * cancelled, its results so far are printed, and the command ends with 128 plus the number of the signal. A second
 * signal ends the process at once. In a conversation at a terminal SIGINT only cancels the turn; there the third SIGINT
 * in the same turn ends the process. A signal that was ignored when the command began, as under nohup, stays ignored.
 * Lock: one mutex for the turn and the mark. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "support/lock.h"
#include "turnphase/turnphase.h"

typedef struct cli_interrupt {
  pthread_t thread; /* never changes while it runs */
  bool runs;
  tp__lock mutex;
  tp_submission *submission; /* under mutex: the turn under way, or NULL */
  int number;                /* under mutex: the signal that ends the command; 0: none */
  int own;                   /* never changes while it runs: the signal that cli_interrupt_stop() sends to the thread */
  bool stopping;             /* under mutex: the next signal is that of cli_interrupt_stop() */
  bool turns_only;           /* under mutex: cli_interrupt_turns_only() */
  bool begins;               /* under mutex: a turn is being submitted */
  unsigned count;            /* under mutex: with turns_only, how many SIGINTs came in this turn */
  int bell;                  /* never changes while it runs: an eventfd, readable after a SIGINT that met no turn, or,
                               without turns_only, after any signal; -1: none */
} cli_interrupt;

/** Called before any other thread begins, because the threads of the runtime must inherit the blocked signals. */
void cli_interrupt_start(cli_interrupt *interrupt);
/** From here on SIGINT cancels a turn and does not end the command. */
void cli_interrupt_turns_only(cli_interrupt *interrupt);
/** A turn is about to be submitted: from here on SIGINT is for this turn, even though there is nothing to cancel yet.
 *  Followed by cli_interrupt_watch(), with NULL if the turn was not submitted. */
void cli_interrupt_begin(cli_interrupt *interrupt);
/** Sets the submission that a signal cancels from here on. It is cancelled at once if a signal that ends the command
 *  came before, or one came since cli_interrupt_begin(). NULL: none. Borrowed until the next call. */
void cli_interrupt_watch(cli_interrupt *interrupt, tp_submission *submission);
/** After cli_interrupt_turns_only(): whether a SIGINT came in this turn. Threads: any. */
bool cli_interrupted_turn(cli_interrupt *interrupt);
/** @return the exit status after a signal that ends the command; 0: there was none. Threads: any. */
int cli_interrupted(cli_interrupt *interrupt);
void cli_interrupt_stop(cli_interrupt *interrupt);

#endif
