/* SPDX-License-Identifier: Apache-2.0
 *
 * round: runs a number of turns and records the duration of each. Bare turns each go through the same phases, one turn
 * after the other on the calling thread, or several at once on the engine workers. Whole turns, which the library
 * drives with a script instead of a model, run on the engine workers. With a rate each turn is due on a schedule. */
#ifndef CLI_ROUND_H
#define CLI_ROUND_H

#include "cli/bench/recorder.h"

/** A phase that every turn runs. */
typedef struct cli_round_phase {
  uint32_t phase;
  tp_phase_input input;
} cli_round_phase;

/** What to run. */
typedef struct cli_round {
  tp_runtime *runtime;
  const cli_round_phase *phases; /* borrowed */
  size_t phase_count;
  tp_model *const *scripts;    /* borrowed: one for each turn that runs at once; NULL: bare turns */
  tp_text text;                /* of whole turns: what the user says */
  uint32_t turns, concurrency; /* 1: bare turns run on the calling thread */
  uint32_t rate;               /* turns in a second; 0: each turn begins when the one before it has ended */
  cli_recorder *recorder;      /* borrowed: the store of the runtime */
  cli_statistics *statistics;  /* the measurements are added here; NULL: they are discarded */
  int64_t began_ms;            /* out: the wall clock at the beginning of the first turn */
  int64_t elapsed_ns;          /* out: from the first turn's beginning to the last one's end */
} cli_round;

/** @return CLI_OK, or an exit status after saying what went wrong. */
int cli_round_run(cli_round *round);

#endif
