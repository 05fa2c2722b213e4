/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h: what all bench programs have in common: options, the lines on the machine, tables for people, one JSON
 * object a line for machines, and the bounds that --check enforces. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/measure.h"
#include "bench/workload.h"

/** One run of a bench program. */
typedef struct bench_program {
  const char *name;
  bool json, quick, check;
  uint32_t repetitions;
  uint32_t broken;  /* how many bounds were exceeded */
  uint32_t figures; /* figures since the last table */
  int wanted_count;
  char **wanted; /* rows named on the command line; none: all */
} bench_program;

/** Reads the options, prints help or the rows and ends the program if the options demand it, and prints the machine.
 *  @param rows  the names of its rows, each with a blank after it: "W1 W2 growth ". */
void bench_open(bench_program *program, const char *name, const char *summary, const char *rows, int argc, char **argv);
/** @return the exit code for main(): 1 when --check was given and a bound was exceeded. */
int bench_close(const bench_program *program);
bool bench_wanted(const bench_program *program, const char *row);

/** What a figure must not exceed; 0: no bound. */
typedef struct bench_bound {
  double ratio; /* the ratio to contestant number `against`, of medians */
  size_t against;
  double ns; /* the median */
} bench_bound;

/** The contestants of a row; the table gives each one's figures and ratio to the one it is compared with. */
typedef struct bench_row {
  const char *name, *what;
  const char *unit; /* "a run", "a turn" */
  double per;       /* how many units a run has; 0: 1 */
  size_t count;
  bench_contestant contestants[BENCH_CONTESTANTS_MAX];
  bench_bound bounds[BENCH_CONTESTANTS_MAX];
  bench_result results[BENCH_CONTESTANTS_MAX];
} bench_row;

/** Adds a contestant, whose close() will be called by bench_row_run(). @return its number. */
size_t bench_row_add(bench_row *row, bench_contestant contestant, bench_bound bound);
/** Measures, prints and closes the contestants. @param settings  NULL: only those of the command line. */
void bench_row_run(bench_program *program, bench_row *row, const bench_settings *settings);

/** A figure that is not a spread of times: bytes, calls, a ratio. limit 0: none. */
void bench_figure(bench_program *program, const char *row, const char *what, double value, const char *unit,
                  double limit);

/** Prints two figures: the ratio of the time of contestant `ours` of a row to that of the best of `count` others from
 *  `first` on, by median and by p25. Prints nothing when count is 0. */
void bench_figure_best(bench_program *program, const bench_row *row, size_t ours, size_t first, size_t count,
                       const char *what, double limit);

/** The settings of the command line. */
bench_settings bench_settings_of(const bench_program *program);

#endif
