/* SPDX-License-Identifier: Apache-2.0
 *
 * interrupt: SIGINT (Ctrl-C), which a thread of its own waits for: the turn under way is cancelled, and what there is
 * of it is printed. The second one ends the process at once. In a conversation at a terminal it cancels the turn and
 * nothing else; there the third one in the same turn ends the process. Where SIGINT was ignored when the command began,
 * as under nohup, it stays so. Lock: one mutex for the turn and the mark. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "support/lock.h"
#include "turnphase/turnphase.h"

typedef struct cli_interrupt {
  pthread_t thread; /* never changes while it runs */
  bool runs;
  tp__lock mutex;
  tp_submission *submission; /* under mutex: the turn under way, or NULL */
  bool interrupted;          /* under mutex */
  bool stopping;             /* under mutex: the next SIGINT is that of cli_interrupt_stop() */
  bool turns_only;           /* under mutex: cli_interrupt_turns_only() */
  unsigned count;            /* under mutex: with turns_only, of SIGINT in this turn */
  int bell;                  /* never changes while it runs: an eventfd, readable after a SIGINT that met no turn, or,
                                 without turns_only, after any; -1: none */
} cli_interrupt;

/** Before any other thread is begun, since the threads of the runtime inherit that SIGINT is not for them. */
void cli_interrupt_start(cli_interrupt *interrupt);
/** From here on SIGINT cancels a turn and does not mark the run as interrupted. */
void cli_interrupt_turns_only(cli_interrupt *interrupt);
/** The turn that SIGINT cancels from here on: at once, if there was one before. NULL: none. Borrowed till the next. */
void cli_interrupt_watch(cli_interrupt *interrupt, tp_submission *submission);
/** With cli_interrupt_turns_only(): whether there was one in this turn. Threads: any. */
bool cli_interrupted_turn(cli_interrupt *interrupt);
/** Whether there was a SIGINT. Threads: any. */
bool cli_interrupted(cli_interrupt *interrupt);
void cli_interrupt_stop(cli_interrupt *interrupt);

#endif
