/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h: a peer in another language, in a process of its own: bench/npm. It prints its name when it is warm. Then it
 * answers each line with a number of turns by a line with their cost (npm/measure.js). Between two requests it sleeps,
 * so its measurements alternate with those of the contestants of this process. */
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

/** Starts `arguments`, NULL after the last one, and waits until it has printed its name.
 *  @return false, with nothing left, when it cannot be started or ends without printing it. */
bool bench_child_open(bench_child *child, const char *const *arguments);
void bench_child_close(bench_child *child);

/** Lets it run a number of turns. Ends the program when it does not answer.
 *  @param ret_ns  the duration of each. */
void bench_child_run(bench_child *child, uint32_t turns, double *ret_ns, int64_t *ret_cpu_ns, int64_t *ret_switches);

#endif
