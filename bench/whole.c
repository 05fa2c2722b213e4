/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user of hooks meets: a whole turn by tp_turn_run(): a model that answers at once calls two tools, and answers
 * with text after their results. With no hooks, with one and seven inline handlers, with one and seven hooks as
 * tp_hook_add() registers them (placement thread), beside direct calls of the same functions. README.md says how to
 * read it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench/driven.h"
#include "bench/report.h"

#define ROWS "whole "

enum {
  TURNS = 32, /* of a batch, in a session of its own */
  TURNS_QUICK = 2,
  BATCHES = 200,
  BATCHES_QUICK = 2
};

typedef struct contestant {
  const char *name;
  uint32_t hooks;
  tp_placement placement;
  bool direct;
  bench_driven driven;
  /* what was measured */
  double *samples; /* of single turns, ns */
  uint32_t sample_count;
  int64_t cpu_ns;
  int64_t switches;
} contestant;

/* The same functions in the same order, called through pointers. */
static tp_handler_fn volatile direct_hook = bench_driven_hook;
static void run_direct(uint32_t hooks) {
  for (uint32_t i = 0; i < hooks; i++) {
    (void)direct_hook(NULL, NULL);
    if (i >= BENCH_DRIVEN_CALLED_TWICE_FROM) (void)direct_hook(NULL, NULL);
  }
  for (int i = 0; i < BENCH_DRIVEN_TOOL_CALLS; i++) bench_driven_count();
}

/* ---- measuring ---- */

static int64_t switches_now(int who) {
  struct rusage usage;
  if (getrusage(who, &usage) != 0) exit(70);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

static int64_t thread_cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Threads come to rest before the CPU time is read; what this thread uses to wait for that is not counted. */
static void measure(contestant *c, uint32_t turns, bool counts) {
  if (!c->direct) bench_driven_renew(&c->driven);
  (void)bench_settle();
  int64_t cpu_ns = bench_cpu_ns(), switches = switches_now(RUSAGE_SELF);
  for (uint32_t i = 0; i < turns; i++) {
    int64_t began = bench_now_ns();
    if (c->direct) run_direct(c->hooks);
    else bench_driven_run(&c->driven);
    if (counts) c->samples[c->sample_count++] = (double)(bench_now_ns() - began);
  }
  int64_t own_ns = thread_cpu_ns(), own_switches = switches_now(RUSAGE_THREAD);
  (void)bench_settle();
  own_ns = thread_cpu_ns() - own_ns;
  own_switches = switches_now(RUSAGE_THREAD) - own_switches;
  if (counts) {
    c->cpu_ns += bench_cpu_ns() - cpu_ns - own_ns;
    c->switches += switches_now(RUSAGE_SELF) - switches - own_switches;
  }
}

static void report(bench_program *program, contestant *c) {
  char label[128];
  bench_spread spread = bench_spread_of(c->samples, c->sample_count);
  const struct {
    const char *what, *unit;
    double value;
  } figures[] = {{"median", "µs", spread.median / 1e3},
                 {"least", "µs", spread.least / 1e3},
                 {"p25", "µs", spread.p25 / 1e3},
                 {"p99", "µs", spread.p99 / 1e3},
                 {"CPU of a turn", "µs", (double)c->cpu_ns / c->sample_count / 1e3},
                 {"turns a second of CPU", "turns", 1e9 * c->sample_count / (double)c->cpu_ns},
                 {"context switches of a turn", "switches", (double)c->switches / c->sample_count}};
  if (!program->json)
    printf("  %-44s %9.2f %9.2f %9.2f %9.2f %9.2f %11.0f %9.2f\n", c->name, figures[0].value, figures[1].value,
           figures[2].value, figures[3].value, figures[4].value, figures[5].value, figures[6].value);
  for (size_t i = 0; program->json && i < sizeof figures / sizeof *figures; i++) {
    snprintf(label, sizeof label, "%s: %s", c->name, figures[i].what);
    bench_figure(program, "whole", label, figures[i].value, figures[i].unit, 0);
  }
}

static void whole(bench_program *program) {
  contestant all[] = {{.name = "direct calls of seven hooks and two tools", .hooks = 7, .direct = true},
                      {.name = "no hooks"},
                      {.name = "1 inline handler", .hooks = 1, .placement = TP_PLACEMENT_INLINE},
                      {.name = "7 inline handlers", .hooks = 7, .placement = TP_PLACEMENT_INLINE},
                      {.name = "1 tp_hook_add hook (2 calls)", .hooks = 1},
                      {.name = "7 tp_hook_add hooks (11 calls)", .hooks = 7}};
  enum { COUNT = sizeof all / sizeof *all };
  uint32_t turns = program->quick ? TURNS_QUICK : TURNS, batches = program->quick ? BATCHES_QUICK : BATCHES;
  for (int i = 0; i < COUNT; i++) {
    all[i].samples = bench_alloc((size_t)turns * batches, sizeof *all[i].samples);
    bench_driven_spec spec = {.hooks = all[i].hooks, .placement = all[i].placement};
    if (!all[i].direct) bench_driven_open(&all[i].driven, &spec);
    measure(&all[i], turns, false);
  }
  double trip = bench_round_trip_ns();
  for (uint32_t batch = 0; batch < batches; batch++)
    for (int i = 0; i < COUNT; i++) measure(&all[(batch + (uint32_t)i) % COUNT], turns, true);
  if (!program->json) {
    printf("\nwhole  tp_turn_run: model, two tools, model; µs of a turn  [%u turns each; %.0f → %.0f ns]\n",
           turns * batches, trip, bench_round_trip_ns());
    printf("  %-44s %9s %9s %9s %9s %9s %11s %9s\n", "", "median", "least", "p25", "p99", "CPU", "turns/s/core",
           "switches");
  }
  for (int i = 0; i < COUNT; i++) {
    report(program, &all[i]);
    if (!all[i].direct) bench_driven_close(&all[i].driven);
    free(all[i].samples);
  }
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "whole", "What a turn with hooks costs its user.", ROWS, argc, argv);
  if (bench_wanted(&program, "whole")) whole(&program);
  return bench_close(&program);
}
