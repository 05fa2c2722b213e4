/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c: a run from its beginning to its report, and the small parts of the seam: clock, random bytes, processors,
 * forks. */
#include "runtime/os/sim.h"

#include <stdio.h>

#include "runtime/base/printf.h"
#include "runtime/os/sim_internal.h"

#define sim tp__sim_state

/* ---- the message of a run that did not end well ---- */

typedef struct report_text {
  char *next;
  size_t left;
} report_text;

static void append_report(report_text *s, const char *format, ...) TP__PRINTF(2, 3);
static void append_report(report_text *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int wanted = vsnprintf(s->next, s->left, format, args);
  va_end(args);
  size_t written = wanted < 0 ? 0 : (size_t)wanted < s->left ? (size_t)wanted : s->left - 1;
  s->next += written;
  s->left -= written;
}

static void describe_fiber(report_text *s, const tp__fiber *fiber) {
  static const char *const doings[] = {"can run",        "waits for a lock", "waits on a condition",
                                       "joins a thread", "sleeps",           "has ended"};
  append_report(s, "; %s#%u %s", fiber->name, fiber->number, doings[fiber->state]);
  if (fiber->state == TP__FIBER_LOCKS) {
    const tp__mutex *mutex = fiber->object;
    const tp__fiber *holder = mutex->holder;
    if (holder) append_report(s, " that %s#%u holds", holder->name, holder->number);
  }
  if (fiber->deadline_ns != TP__NEVER) {
    append_report(s, " for another %lld us", (long long)(fiber->deadline_ns - sim.now_ns) / TP__NS_PER_US);
  }
}

static void describe_end(char *text, size_t size) {
  static const char *const ends[] = {"done", "deadlock", "livelock", "left behind"};
  report_text s = {text, size};
  append_report(&s, "%s after %llu steps", ends[sim.end], (unsigned long long)sim.steps);
  for (size_t i = 0; i < sim.live_count; i++) describe_fiber(&s, sim.live[i]);
}

/* ---- a run ---- */

typedef struct first {
  void (*main)(void *arg);
  void *arg;
} first;

static void run_main(void *arg) {
  first *f = arg;
  f->main(f->arg);
  sim.main_returned = true;
}

tp__sim_report tp__sim_run(const tp__sim_options *options, void (*main)(void *arg), void *arg) {
  assert(!sim.running); /* a run cannot start another */
  tp__sim_memory_begin();
  tp__sim_begin(options);
  int64_t start_ns = sim.now_ns;
  first f = {main, arg};
  tp__sim_report report = {.end = TP__SIM_LEFT};
  sim.current = tp__sim_start_fiber("main", run_main, &f);
  assert(sim.current); /* one stack is all the memory that a run needs from the machine */
  tp__fiber_switch(tp__fiber_host(), sim.current);
  report = (tp__sim_report){.end = sim.end, .steps = sim.steps, .trace_hash = sim.trace};
  report.virtual_ns = sim.now_ns - start_ns;
  if (sim.end != TP__SIM_DONE) {
    describe_end(report.message, sizeof report.message);
    tp__sim_memory_abandon();
  }
  while (sim.live_count > 0) tp__fiber_abandon(sim.live[--sim.live_count]);
  sim.running = false;
  return report;
}

uint64_t tp__sim_random(uint64_t bound) {
  assert(bound > 0);
  return tp__stream_next(&sim.program) % bound;
}

/* ---- clocks: reading takes a little time, so that no two readings are equal ---- */

int64_t tp__now_ns(void) {
  tp__sim_point();
  sim.now_ns += 1 + (int64_t)(sim.steps & 7);
  return sim.now_ns;
}

int64_t tp__unix_ms(void) {
  tp__sim_point();
  return INT64_C(1700000000000) + sim.wall_offset_ms + sim.now_ns / TP__NS_PER_MS;
}

int64_t tp__unix_offset_ns(void) { return (INT64_C(1700000000000) + sim.wall_offset_ms) * TP__NS_PER_MS; }

void tp__sim_wall_jump_ms(int64_t ms) { sim.wall_offset_ms += ms; }

/* ---- the machine ---- */

uint32_t tp__cpu_count(void) { return 2; }

void tp__random(void *bytes, size_t size) {
  unsigned char *next = bytes;
  for (size_t i = 0; i < size; i++) next[i] = (unsigned char)(tp__stream_next(&sim.bytes) >> 56);
}

uint32_t tp__process_generation(void) { return 1; }
bool tp__on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  (void)before, (void)in_parent, (void)in_child; /* a simulated machine has one process */
  return true;
}
