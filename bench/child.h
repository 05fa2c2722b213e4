/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h: a peer of another language, in a process of its own: bench/npm. It says its name when it is warm, and then
 * answers each line that has a number of turns with a line on what they cost (npm/measure.js). Between two of them it
 * sleeps, so it runs in turns with the contestants of this process. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct bench_child {
  char name[96];
  FILE *to, *from;
  pid_t pid;
} bench_child;

/** Starts `arguments`, NULL after the last one, and waits until it has said its name.
 *  @return false, with nothing left, when it cannot be started or ends without a word. */
bool bench_child_open(bench_child *child, const char *const *arguments);
void bench_child_close(bench_child *child);

/** Lets it run so many turns. Ends the program when it does not answer.
 *  @param ret_ns  the duration of each. */
void bench_child_run(bench_child *child, uint32_t turns, double *ret_ns, int64_t *ret_cpu_ns, int64_t *ret_switches);

#endif
