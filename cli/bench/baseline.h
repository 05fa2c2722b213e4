/* SPDX-License-Identifier: Apache-2.0
 *
 * baseline: what the clock and the runtime cost on this machine, measured with handlers that do nothing in a runtime
 * of their own: the scale on which other figures are read. */
#ifndef CLI_BASELINE_H
#define CLI_BASELINE_H

#include "turnphase/turnphase.h"

typedef struct cli_baseline {
  double clock_ns;           /* one reading of the clock */
  int64_t clock_least_ns;    /* the least difference between two readings that differ */
  double empty_phase_ns;     /* a phase without subscriptions */
  double first_handler_ns;   /* what one inline handler that does nothing adds to it */
  double further_handler_ns; /* what each further one adds */
  double turn_ns;            /* to begin a bare turn; and to end it, with what ten phases of one handler left */
  int64_t step_ns;           /* the duration in the record of an inline handler that does nothing */
} cli_baseline;

/** Takes some 10 ms. @return CLI_OK, or an exit status after saying what is wrong. */
int cli_baseline_read(tp_timestamps timestamps, cli_baseline *baseline);

#endif
