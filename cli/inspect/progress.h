/* SPDX-License-Identifier: Apache-2.0
 *
 * progress: a line on standard error with the current action, its duration so far, and its progress. Prints nothing if
 * standard error is no terminal, and nothing in the first moment. A separate thread prints. */
#ifndef CLI_INSPECT_PROGRESS_H
#define CLI_INSPECT_PROGRESS_H

#include "support/lock.h"

typedef struct cli_progress {
  const char *doing; /* "verifying"; never changes while it runs */
  pthread_t thread;
  bool runs;
  tp__lock mutex;
  tp__lock_condition ended_changed;
  bool ended;    /* under mutex */
  uint64_t rows; /* under mutex: 0: not said */
} cli_progress;

void cli_progress_start(cli_progress *progress, const char *doing);
/** How many rows were worked on by now. */
void cli_progress_note(cli_progress *progress, uint64_t rows);
/** Wipes the line. */
void cli_progress_stop(cli_progress *progress);

#endif
