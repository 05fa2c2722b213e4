/* SPDX-License-Identifier: Apache-2.0
 *
 * baseline: the cost of the clock and of the runtime on this machine, measured with handlers that do nothing, in a
 * runtime of its own. Other figures are judged by this scale. */
#ifndef CLI_BASELINE_H
#define CLI_BASELINE_H

#include "turnphase/turnphase.h"

typedef struct cli_baseline {
  double clock_ns;           /* one reading of the clock */
  int64_t clock_least_ns;    /* the least difference between two readings that differ */
  double empty_phase_ns;     /* a phase without subscriptions */
  double first_handler_ns;   /* what one inline handler that does nothing adds to that */
  double further_handler_ns; /* what each further one adds */
  double turn_ns;            /* the time to begin a bare turn; and to end it, after ten phases of one handler */
  int64_t step_ns;           /* the duration in the record of an inline handler that does nothing */
} cli_baseline;

/** Takes some 10 ms. @return CLI_OK, or an exit status after saying what is wrong. */
int cli_baseline_read(tp_timestamps timestamps, cli_baseline *baseline);

#endif
