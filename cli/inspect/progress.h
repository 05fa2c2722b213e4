/* SPDX-License-Identifier: Apache-2.0
 *
 * progress: a line on standard error that says what takes long, for how long by now, and how far it came. Nothing where
 * that is no terminal, and nothing in the first moment. One thread of its own prints. */
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
