/* SPDX-License-Identifier: Apache-2.0
 *
 * interrupt: SIGINT (Ctrl-C), SIGTERM and SIGHUP, which a thread of its own waits for: what is under way is cancelled,
 * what there is of it is printed, and the command ends with 128 and the number of the signal. The second one ends the
 * process at once. In a conversation at a terminal SIGINT cancels the turn and nothing else; there the third one in the
 * same turn ends the process. What was ignored when the command began, as under nohup, stays so. Lock: one mutex for
 * the turn and the mark. */
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
  int own;                   /* never changes while it runs: what cli_interrupt_stop() sends to the thread */
  bool stopping;             /* under mutex: the next one is that of cli_interrupt_stop() */
  bool turns_only;           /* under mutex: cli_interrupt_turns_only() */
  bool begins;               /* under mutex: a turn is being submitted */
  unsigned count;            /* under mutex: with turns_only, of SIGINT in this turn */
  int bell;                  /* never changes while it runs: an eventfd, readable after a SIGINT that met no turn, or,
                                 without turns_only, after any; -1: none */
} cli_interrupt;

/** Before any other thread is begun, since the threads of the runtime inherit that these are not for them. */
void cli_interrupt_start(cli_interrupt *interrupt);
/** From here on SIGINT cancels a turn and does not end the command. */
void cli_interrupt_turns_only(cli_interrupt *interrupt);
/** A turn is about to be submitted: SIGINT is its own from here on, though there is nothing to cancel yet. Followed by
 *  cli_interrupt_watch(), of NULL where it was not submitted. */
void cli_interrupt_begin(cli_interrupt *interrupt);
/** What a signal cancels from here on: at once, if there was one before that ends the command, or one since
 *  cli_interrupt_begin(). NULL: nothing. Borrowed until the next. */
void cli_interrupt_watch(cli_interrupt *interrupt, tp_submission *submission);
/** After cli_interrupt_turns_only(): whether a SIGINT came in this turn. Threads: any. */
bool cli_interrupted_turn(cli_interrupt *interrupt);
/** @return the exit status after the signal that ends the command; 0: there was none. Threads: any. */
int cli_interrupted(cli_interrupt *interrupt);
void cli_interrupt_stop(cli_interrupt *interrupt);

#endif
