/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of hooks for a user: a whole turn by tp_turn_run(), in which a model that answers at once calls two tools,
 * and answers with text after their results. With no hooks, with one and seven inline handlers, with one and seven
 * hooks as tp_hook_add() registers them (placement thread), compared with direct calls of the same functions, and with
 * the peers of bench/npm if BENCH_NPM_SCRIPTS and BENCH_NPM_PACKAGES name their folders. What a call of a hook adds is
 * derived from the same run. README.md says how to read it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/child.h"
#include "bench/driven.h"
#include "bench/report.h"
#ifdef BENCH_WITH_SQLITE
#include "turnphase/sqlite.h"
#endif

#define ROWS "whole "

enum {
  TURNS = 32, /* turns of a batch, in a session of its own */
  TURNS_QUICK = 2,
  TURNS_CHILD = 8, /* turns of a batch of a peer, which last longer */
  BATCHES = 200,
  BATCHES_QUICK = 2
};

enum { CONTESTANTS_MAX = 16, DIRECT_CALLS = 1000 };

/* The place of the sessions' history. */
typedef enum history_kind { IN_MEMORY, IN_SQLITE, IN_SQLITE_ASYNC } history_kind;

typedef struct contestant {
  const char *name;
  uint32_t hooks;
  tp_placement placement;
  uint32_t calls; /* calls of hooks in a turn */
  bool direct;
  history_kind history;
  tp_shared_history *shared; /* NULL: in memory */
  char directory[32];        /* the directory of its file */
  const char *script;        /* the script of a peer, which is a process of its own; else NULL */
  bench_child child;
  bench_driven driven;
  uint32_t turns; /* turns of a batch */
  /* the results */
  double *samples; /* durations of single turns, ns */
  uint32_t sample_count;
  double *medians; /* medians of batches, ns */
  uint32_t batch_count;
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

/* Threads go to sleep before the CPU time is read; the time that this thread uses to wait for that is not counted. */
static void measure_here(contestant *c, double *samples) {
  int64_t cpu_ns = bench_cpu_ns(), switches = switches_now(RUSAGE_SELF);
  for (uint32_t i = 0; i < c->turns; i++) {
    int64_t began = bench_now_ns();
    if (c->direct) run_direct(c->hooks);
    else bench_driven_run(&c->driven);
    samples[i] = (double)(bench_now_ns() - began);
  }
  int64_t own_ns = thread_cpu_ns(), own_switches = switches_now(RUSAGE_THREAD);
  (void)bench_settle();
  own_ns = thread_cpu_ns() - own_ns;
  own_switches = switches_now(RUSAGE_THREAD) - own_switches;
  c->cpu_ns += bench_cpu_ns() - cpu_ns - own_ns;
  c->switches += switches_now(RUSAGE_SELF) - switches - own_switches;
}

static void measure_child(contestant *c, double *samples) {
  int64_t cpu_ns, switches;
  bench_child_run(&c->child, c->turns, samples, &cpu_ns, &switches);
  c->cpu_ns += cpu_ns;
  c->switches += switches;
}

static void measure(contestant *c) {
  double *samples = &c->samples[c->sample_count], sorted[TURNS];
  if (!c->script && !c->direct) bench_driven_renew(&c->driven);
  (void)bench_settle();
  if (c->script) measure_child(c, samples);
  else measure_here(c, samples);
  c->sample_count += c->turns;
  memcpy(sorted, samples, c->turns * sizeof *sorted);
  c->medians[c->batch_count++] = bench_spread_of(sorted, c->turns).median;
}

static void discard_measured(contestant *c) {
  c->sample_count = c->batch_count = 0;
  c->cpu_ns = c->switches = 0;
}

/* Measures many calls together, since a single call is shorter than the clock's resolution. @return ns of one call. */
static double direct_call_ns(void) {
  int64_t began = bench_now_ns();
  for (int i = 0; i < DIRECT_CALLS; i++) (void)direct_hook(NULL, NULL);
  return (double)(bench_now_ns() - began) / DIRECT_CALLS;
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
    printf("  %-52s %9.2f %9.2f %9.2f %9.2f %9.2f %11.0f %9.2f\n", c->name, figures[0].value, figures[1].value,
           figures[2].value, figures[3].value, figures[4].value, figures[5].value, figures[6].value);
  for (size_t i = 0; program->json && i < sizeof figures / sizeof *figures; i++) {
    snprintf(label, sizeof label, "%s: %s", c->name, figures[i].what);
    bench_figure(program, "whole", label, figures[i].value, figures[i].unit, 0);
  }
}

/* ---- the cost that a hook's call adds ---- */

/* Computed from batches that ran directly after one another: the median of the differences. */
static void report_added(bench_program *program, const contestant *none, const contestant *c) {
  double *added = bench_alloc(c->batch_count, sizeof *added);
  char label[128];
  for (uint32_t i = 0; i < c->batch_count; i++) added[i] = (c->medians[i] - none->medians[i]) / c->calls;
  snprintf(label, sizeof label, "what a call of a hook adds: %s", c->name);
  bench_figure(program, "whole", label, bench_spread_of(added, c->batch_count).median, "ns", 0);
  snprintf(label, sizeof label, "what a call of a hook adds: %s, CPU", c->name);
  double cpu_ns = (double)c->cpu_ns / c->sample_count - (double)none->cpu_ns / none->sample_count;
  bench_figure(program, "whole", label, cpu_ns / c->calls, "ns", 0);
  free(added);
}

/* ---- peers ---- */

static const char *const npm_scripts[] = {"openai_agents.js", "langgraph.js"};
static const struct {
  const char *form;
  uint32_t hooks;
} npm_forms[] = {{"no hooks", 0}, {"1 hook", 1}, {"7 hooks", 7}, {"7 hooks, history in memory", 7}};

static void open_child(contestant *c, const char *folder, const char *packages, const char *form, bool quick) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, c->script);
  const char *const arguments[] = {"node", path, packages, "--serve", form, quick ? "--quick" : NULL, NULL};
  if (bench_child_open(&c->child, arguments)) return;
  fprintf(stderr, "whole: %s does not run\n", path);
  exit(70);
}

/* @return how many there are now. */
static size_t add_peers(const bench_program *program, contestant *all, size_t count) {
  const char *folder = getenv("BENCH_NPM_SCRIPTS"), *packages = getenv("BENCH_NPM_PACKAGES");
  if (!folder || !packages) return count;
  for (size_t s = 0; s < sizeof npm_scripts / sizeof *npm_scripts; s++) {
    for (size_t f = 0; f < sizeof npm_forms / sizeof *npm_forms; f++) {
      contestant *c = &all[count++];
      *c = (contestant){.script = npm_scripts[s], .hooks = npm_forms[f].hooks};
      open_child(c, folder, packages, npm_forms[f].form, program->quick);
      c->name = c->child.name;
    }
  }
  return count;
}

/* Prints a peer next to turnphase with as many hooks, registered by tp_hook_add(). */
static void report_peer(bench_program *program, const contestant *ours, const contestant *peer) {
  char label[256];
  double theirs = bench_spread_of(peer->samples, peer->sample_count).median;
  snprintf(label, sizeof label, "%s, to turnphase with %s, median", peer->name, ours->name);
  bench_figure(program, "whole", label, theirs / bench_spread_of(ours->samples, ours->sample_count).median, "times", 0);
  snprintf(label, sizeof label, "%s, to turnphase with %s, CPU", peer->name, ours->name);
  double cpu = (double)peer->cpu_ns / peer->sample_count / ((double)ours->cpu_ns / ours->sample_count);
  bench_figure(program, "whole", label, cpu, "times", 0);
}

/* ---- the row ---- */

#ifdef BENCH_WITH_SQLITE
static void open_history(contestant *c) {
  char path[64];
  tp_sqlite_history_options options = {.struct_size = sizeof options, .path = path};
  tp_history *history;
  tp_fault fault;
  snprintf(c->directory, sizeof c->directory, "/tmp/bench-whole-XXXXXX");
  if (!mkdtemp(c->directory)) exit(70);
  snprintf(path, sizeof path, "%s/history.db", c->directory);
  bench_must(c->history == IN_SQLITE_ASYNC ? tp_sqlite_history_open_async(&options, &history, &fault)
                                           : tp_sqlite_history_open(path, &history, &fault),
             &fault);
  bench_must(tp_history_share(NULL, history, &c->shared, &fault), &fault);
}
#endif

static void close_history(contestant *c) {
  static const char *const names[] = {"history.db", "history.db-wal", "history.db-shm"};
  char path[64];
  if (!c->shared) return;
  tp_shared_history_unref(c->shared);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", c->directory, names[i]);
    (void)unlink(path);
  }
  (void)rmdir(c->directory);
}

/* Opens a contestant with memory for its results, and runs one batch that is not counted. */
static void open_contestant(contestant *c, bool quick, uint32_t batches) {
  tp_runtime_options options = {.struct_size = sizeof options};
  bench_driven_spec spec = {.options = &options, .hooks = c->hooks, .placement = c->placement};
#ifdef BENCH_WITH_SQLITE
  if (c->history != IN_MEMORY) open_history(c);
#endif
  options.shared_history = c->shared;
  c->turns = quick ? TURNS_QUICK : c->script ? TURNS_CHILD : TURNS;
  c->samples = bench_alloc((size_t)c->turns * batches, sizeof *c->samples);
  c->medians = bench_alloc(batches, sizeof *c->medians);
  if (!c->script && !c->direct) bench_driven_open(&c->driven, &spec);
  measure(c);
  discard_measured(c);
}

static void close_contestant(contestant *c) {
  if (c->script) bench_child_close(&c->child);
  else if (!c->direct) bench_driven_close(&c->driven);
  close_history(c);
  free(c->samples);
  free(c->medians);
}

static void print_head(const contestant *all, uint32_t batches, double trip) {
  printf(
      "\nwhole  tp_turn_run: model, two tools, model; µs of a turn  [%u turns each, %u of a peer in a process of its "
      "own; "
      "%.0f → %.0f ns]\n",
      all->turns * batches, TURNS_CHILD * batches, trip, bench_round_trip_ns());
  printf("  %-52s %9s %9s %9s %9s %9s %11s %9s\n", "", "median", "least", "p25", "p99", "CPU", "turns/s/core",
         "switches");
}

enum {
  DIRECT,
  NONE,
  INLINE_1,
  INLINE_7,
  ADDED_1,
  ADDED_7,
  HOOKS_END,
#ifdef BENCH_WITH_SQLITE
  SQLITE_7 = HOOKS_END,
  SQLITE_ASYNC_7,
#endif
  OURS
};

static void whole(bench_program *program) {
  contestant all[CONTESTANTS_MAX] = {
      [DIRECT] = {.name = "direct calls of seven hooks and two tools", .hooks = 7, .direct = true},
      [NONE] = {.name = "no hooks"},
      [INLINE_1] = {.name = "1 inline handler (2 calls)", .hooks = 1, .placement = TP_PLACEMENT_INLINE, .calls = 2},
      [INLINE_7] = {.name = "7 inline handlers (11 calls)", .hooks = 7, .placement = TP_PLACEMENT_INLINE, .calls = 11},
      [ADDED_1] = {.name = "1 tp_hook_add hook (2 calls)", .hooks = 1, .calls = 2},
      [ADDED_7] = {.name = "7 tp_hook_add hooks (11 calls)", .hooks = 7, .calls = 11},
#ifdef BENCH_WITH_SQLITE
      [SQLITE_7] = {.name = "7 tp_hook_add hooks, history in SQLite, durable", .hooks = 7, .history = IN_SQLITE},
      [SQLITE_ASYNC_7] = {.name = "7 tp_hook_add hooks, history in SQLite, async",
                          .hooks = 7,
                          .history = IN_SQLITE_ASYNC},
#endif
  };
  uint32_t batches = program->quick ? BATCHES_QUICK : BATCHES;
  size_t count = add_peers(program, all, OURS);
  for (size_t i = 0; i < count; i++) open_contestant(&all[i], program->quick, batches);
  double *direct = bench_alloc(batches, sizeof *direct), trip = bench_round_trip_ns();
  for (uint32_t batch = 0; batch < batches; batch++) {
    for (size_t i = 0; i < count; i++) measure(&all[(batch + i) % count]);
    direct[batch] = direct_call_ns();
  }
  if (!program->json) print_head(all, batches, trip);
  for (size_t i = 0; i < count; i++) report(program, &all[i]);
  bench_figure(program, "whole", "a direct call of a hook", bench_spread_of(direct, batches).median, "ns", 0);
  for (size_t i = INLINE_1; i < HOOKS_END; i++) report_added(program, &all[NONE], &all[i]);
  for (size_t i = OURS; i < count; i++) {
    size_t ours = all[i].hooks == 0 ? NONE : all[i].hooks == 1 ? ADDED_1 : ADDED_7;
    report_peer(program, &all[ours], &all[i]);
  }
  for (size_t i = 0; i < count; i++) close_contestant(&all[i]);
  free(direct);
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "whole", "What a turn with hooks costs its user.", ROWS, argc, argv);
  if (bench_wanted(&program, "whole")) whole(&program);
  return bench_close(&program);
}
