/* SPDX-License-Identifier: Apache-2.0
 *
 * A planted race, in simulated threads: a countdown with relaxed order. The thread that counts last reads data of the
 * other one, and nothing orders the two. With real threads, a lock that both acquired often hides such a race from
 * ThreadSanitizer; the simulator's switches order nothing. ../torture/planted_race.sh runs it and expects the
 * report. */
#include <stdio.h>

#include "runtime/os/sim.h"

typedef struct shared {
  tp__a32 ended;
  int parts[2];
  int sum;
} shared;

typedef struct half {
  shared *all;
  int index;
} half;

static void count(void *arg) {
  half *self = arg;
  self->all->parts[self->index] = 1;
  if (tp__a32_add_relaxed(&self->all->ended, 1) == 1) self->all->sum = self->all->parts[0] + self->all->parts[1];
}

static void run(void *arg) {
  shared *all = arg;
  half halves[2] = {{all, 0}, {all, 1}};
  tp__thread *threads[2] = {NULL, NULL};
  tp_allocator allocator = tp__sim_allocator();
  for (int i = 0; i < 2; i++) {
    if (tp__thread_start(&allocator, "half", count, &halves[i], &threads[i]) != TP_OK) return;
  }
  for (int i = 0; i < 2; i++) tp__thread_join(threads[i]);
}

int main(void) {
  shared all = {.sum = 0};
  tp__sim_options options = {.seed = 1};
  tp__sim_report report = tp__sim_run(&options, run, &all);
  printf("sum %d %s\n", all.sum, report.message);
  return report.end == TP__SIM_DONE ? 0 : 2;
}
