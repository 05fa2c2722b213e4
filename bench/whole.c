/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user of hooks meets: a whole turn by tp_turn_run(): a model that answers at once calls two tools, and answers
 * with text after their results. With no hooks, with one and seven inline handlers, with one and seven hooks as
 * tp_hook_add() registers them (placement thread), beside direct calls of the same functions. README.md says how to
 * read it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench/latch.h"
#include "bench/report.h"

#define ROWS "whole "

enum {
  TURNS = 32,       /* of a batch, in a session of its own: the request of a turn grows with those before it */
  TURNS_QUICK = 2,
  BATCHES = 200,
  BATCHES_QUICK = 2,
  HOOKS_MAX = 7,
  TOOL_CALLS = 2
};

/* Seven hooks, of which the last four are called twice in a turn: eleven calls. */
static const char *const hook_phases[HOOKS_MAX] = {"turn.intake", "turn.pre_prompt_context", "turn.post_turn",
                                                   "model.pre",   "model.post",              "tool.pre",
                                                   "tool.post"};
enum { HOOKS_CALLED_TWICE_FROM = 3 };

typedef struct contestant {
  const char *name;
  uint32_t hooks;
  tp_placement placement;
  bool direct;
  tp_runtime *runtime;
  tp_model *model;
  bench_latch closed;
  uint32_t number; /* of sessions */
  /* what was measured */
  double *samples; /* of single turns, ns */
  uint32_t sample_count;
  int64_t cpu_ns;
  int64_t switches;
} contestant;

static _Atomic uint64_t hook_calls, tool_calls;

static tp_answer hook(void *self, tp_call *call) {
  (void)self;
  (void)call;
  atomic_fetch_add_explicit(&hook_calls, 1, memory_order_relaxed);
  return TP_ANSWER_DONE;
}

static tp_answer tool(void *self, tp_tool_run *run) {
  (void)self;
  atomic_fetch_add_explicit(&tool_calls, 1, memory_order_relaxed);
  return tp_tool_ok(run, tp_text_of("12 degrees"));
}

static tp_answer bring_tools(void *self, tp_call *call) {
  static const tp_tool weather = {.struct_size = sizeof weather,
                                  .name = "weather",
                                  .run = tool,
                                  .placement = TP_PLACEMENT_INLINE};
  const tp_tool *tools[] = {&weather};
  (void)self;
  (void)tp_call_emit_tool_bundle(call, "bench", tools, 1);
  return TP_ANSWER_DONE;
}

/* ---- the runtime of a contestant ---- */

static void add_hook(tp_runtime *runtime, const char *phase, tp_handler_fn run, tp_placement placement) {
  tp_hook options = {.struct_size = sizeof options, .phase = phase, .run = run, .placement = placement};
  tp_fault fault;
  bench_must(tp_hook_add(runtime, &options, &fault), &fault);
}

static void open_contestant(contestant *c) {
  tp_tool_call calls[TOOL_CALLS];
  const tp_tool_call *pointers[TOOL_CALLS];
  static const char *const ids[TOOL_CALLS] = {"toolu_01A", "toolu_01B"};
  for (int i = 0; i < TOOL_CALLS; i++) {
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .id = tp_text_of(ids[i]),
                              .name = tp_text_of("weather"),
                              .arguments = {"\x80", 1}};
    pointers[i] = &calls[i];
  }
  tp_model_response first = {.struct_size = sizeof first, .calls = pointers, .call_count = TOOL_CALLS};
  tp_model_response second = {.struct_size = sizeof second, .text = tp_text_of("12 degrees in both.")};
  const tp_model_response *responses[] = {&first, &second};
  tp_fault fault;
  bench_must(tp_runtime_new(NULL, &c->runtime, &fault), &fault);
  add_hook(c->runtime, "turn.pre_tool_materialization", bring_tools, TP_PLACEMENT_INLINE);
  for (uint32_t i = 0; i < c->hooks; i++) {
    uint32_t which = c->hooks == 1 ? HOOKS_MAX - 2 : i; /* one alone: a guard before tools */
    add_hook(c->runtime, hook_phases[which], hook, c->placement);
  }
  bench_must(tp_script_model_new(responses, 2, true, &c->model, &fault), &fault);
}

static void close_contestant(contestant *c) {
  tp_runtime_free(c->runtime);
  tp_model_free(c->model);
  free(c->samples);
}

/* ---- a batch of turns ---- */

static void session_closed(void *ctx) { bench_latch_hit(ctx, 1); }

static tp_session *open_session(contestant *c) {
  char id[32];
  tp_model model = *c->model;
  tp_session *session;
  tp_fault fault;
  model.destroy = NULL; /* it stays ours */
  snprintf(id, sizeof id, "bench-%u", c->number++);
  tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &model};
  bench_must(tp_session_open(c->runtime, &options, &session, &fault), &fault);
  return session;
}

static void close_session(contestant *c, tp_session *session) {
  bench_latch_set(&c->closed, 1);
  tp_session_close(session, session_closed, &c->closed);
  bench_latch_wait(&c->closed);
}

static void run_turn(tp_session *session) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("How warm is it there?")};
  const tp_turn_result *result = NULL;
  tp_fault fault;
  bench_must(tp_turn_run(session, &request, &result, &fault), &fault);
  bench_must(result->code, NULL);
  tp_turn_result_free(result);
}

/* The same functions in the same order, called through pointers. */
static tp_handler_fn volatile direct_hook = hook;
static void run_direct(uint32_t hooks) {
  for (uint32_t i = 0; i < hooks; i++)
    for (uint32_t times = 0; times < (i < HOOKS_CALLED_TWICE_FROM ? 1u : 2u); times++) (void)direct_hook(NULL, NULL);
  for (int i = 0; i < TOOL_CALLS; i++) atomic_fetch_add_explicit(&tool_calls, 1, memory_order_relaxed);
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
  tp_session *session = c->direct ? NULL : open_session(c);
  (void)bench_settle();
  int64_t cpu_ns = bench_cpu_ns(), switches = switches_now(RUSAGE_SELF);
  for (uint32_t i = 0; i < turns; i++) {
    int64_t began = bench_now_ns();
    if (c->direct) run_direct(c->hooks);
    else run_turn(session);
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
  if (session) close_session(c, session);
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
    if (!all[i].direct) open_contestant(&all[i]);
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
    if (!all[i].direct) close_contestant(&all[i]);
    else free(all[i].samples);
  }
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "whole", "What a turn with hooks costs its user.", ROWS, argc, argv);
  if (bench_wanted(&program, "whole")) whole(&program);
  return bench_close(&program);
}
