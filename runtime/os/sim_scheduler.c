/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_scheduler.c: decides which fiber runs next, and what time it is.
 *
 * At each point one draw from the schedule's stream decides both. Now and then the clock jumps to the next deadline
 * although there is work to do. Without these jumps a timeout would come only when everything is idle, and the races
 * between a result and its deadline, which stay hidden longest, would never be run. One jump in four ends just before
 * the deadline, so that a clock read passes it before the sleeper does.
 *
 * The random policy takes any runnable fiber. PCT runs the fiber of highest priority, and lowers the priority of the
 * running fiber at a few steps chosen beforehand. It finds orderings that need a long undisturbed stretch. The length
 * of a run is not known beforehand, so the steps are drawn evenly over magnitudes. Two more cases lower the running
 * fiber: it has made many steps in a row while others could run (it spins for one of them), or another fiber has been
 * ready for long. */
#include "runtime/os/sim_internal.h"

enum {
  CLOCK_JUMP_INVERSE = 20,
  PCT_DEPTH = 3,
  PCT_MAGNITUDE_MIN = 3, /* change points lie below 2^3 .. 2^16 */
  PCT_MAGNITUDES = 14,
  STREAK_MAX = 1000,
  READY_STEPS_MAX = 20000,  /* steps for which a fiber may be ready and not run under PCT */
  READY_CHECK_STEPS = 1024, /* steps between two looks for such fibers */
  STEPS_MAX = 5000000
};

#define START_NS (INT64_C(1000) * TP__NS_PER_MS)
#define PRIORITY_BITS 62

tp__sim tp__sim_state = {.now_ns = START_NS};
#define sim tp__sim_state

/* ---- begin and end ---- */

static tp__stream stream_of(uint64_t seed, uint64_t purpose) {
  tp__stream stream = {seed};
  stream.state = tp__stream_next(&stream) ^ purpose << 56;
  return stream;
}

static void draw_change_points(void) {
  for (uint32_t i = 0; i < sim.options.pct_depth; i++) {
    uint64_t magnitude = PCT_MAGNITUDE_MIN + tp__stream_next(&sim.schedule) % PCT_MAGNITUDES;
    sim.change_steps[i] = 1 + tp__stream_next(&sim.schedule) % (UINT64_C(1) << magnitude);
  }
}

void tp__sim_begin(const tp__sim_options *options) {
  sim = (tp__sim){.running = true,
                  .run = sim.run + 1,
                  .options = *options,
                  .refuses = true,
                  .now_ns = START_NS,
                  .next_deadline_ns = TP__NEVER,
                  .here_outside = sim.here_outside};
  if (sim.options.clock_jump_inverse == 0) sim.options.clock_jump_inverse = CLOCK_JUMP_INVERSE;
  if (sim.options.steps_max == 0) sim.options.steps_max = STEPS_MAX;
  if (sim.options.pct_depth == 0) sim.options.pct_depth = PCT_DEPTH;
  if (sim.options.pct_depth > TP__SIM_PCT_DEPTH_MAX) sim.options.pct_depth = TP__SIM_PCT_DEPTH_MAX;
  sim.schedule = stream_of(options->seed, 1);
  sim.refusal = stream_of(options->seed, 2);
  sim.forever = stream_of(options->seed, 3);
  sim.bytes = stream_of(options->seed, 4);
  sim.program = stream_of(options->seed, 5);
  if (options->policy == TP__SIM_PCT) draw_change_points();
}

void tp__sim_finish(tp__sim_end end) {
  sim.end = end;
  tp__fiber_switch(sim.current, tp__fiber_host());
  __builtin_unreachable(); /* no fiber switches back to a finished run */
}

/* ---- lists ---- */

static void make_runnable(tp__fiber *fiber) {
  fiber->state = TP__FIBER_RUNNABLE;
  fiber->object = NULL;
  fiber->deadline_ns = TP__NEVER;
  fiber->runnable_at = sim.runnable_count;
  fiber->ready_since = sim.steps;
  sim.runnable[sim.runnable_count++] = fiber;
}

static void make_waiting(tp__fiber *fiber, tp__fiber_state state) {
  tp__fiber *last = sim.runnable[--sim.runnable_count];
  sim.runnable[fiber->runnable_at] = last;
  last->runnable_at = fiber->runnable_at;
  fiber->state = state;
}

static void bury(tp__fiber *fiber) {
  make_waiting(fiber, TP__FIBER_ENDED);
  tp__fiber *last = sim.live[--sim.live_count];
  sim.live[fiber->live_at] = last;
  last->live_at = fiber->live_at;
  tp__fiber_free(fiber);
}

static void set_name(tp__fiber *fiber, const char *name) {
  size_t length = 0;
  for (; length < sizeof fiber->name - 1 && name[length]; length++) fiber->name[length] = name[length];
  fiber->name[length] = '\0';
}

tp__fiber *tp__sim_start_fiber(const char *name, void (*run)(void *arg), void *arg) {
  tp__fiber *fiber = tp__fiber_new();
  if (!fiber) return NULL;
  fiber->run = run;
  fiber->arg = arg;
  fiber->here = (tp__here){0};
  set_name(fiber, name);
  fiber->number = sim.started++;
  fiber->held.count = 0;
  fiber->priority = (int64_t)(tp__stream_next(&sim.schedule) >> (64 - PRIORITY_BITS)) + 1;
  fiber->live_at = sim.live_count;
  sim.live[sim.live_count++] = fiber;
  make_runnable(fiber);
  tp__order_release(fiber); /* pairs with the entry of the fiber */
  return fiber;
}

/* ---- the clock ---- */

static int64_t earliest_deadline(void) {
  int64_t earliest = TP__NEVER;
  for (size_t i = 0; i < sim.live_count; i++) {
    if (sim.live[i]->deadline_ns < earliest) earliest = sim.live[i]->deadline_ns;
  }
  return earliest;
}

static void wake_expired(void) {
  if (sim.next_deadline_ns > sim.now_ns) return;
  for (size_t i = 0; i < sim.live_count; i++) {
    tp__fiber *fiber = sim.live[i];
    if (fiber->deadline_ns > sim.now_ns) continue;
    make_runnable(fiber);
    fiber->timed_out = true;
  }
  sim.next_deadline_ns = earliest_deadline();
}

/* @return false when no fiber waits for a deadline. */
static bool jump(int64_t short_by_ns) {
  sim.next_deadline_ns = earliest_deadline();
  if (sim.next_deadline_ns == TP__NEVER) return false;
  int64_t target = sim.next_deadline_ns - short_by_ns;
  if (target > sim.now_ns) sim.now_ns = target;
  return true;
}

/* ---- the choice ---- */

static bool is_change_point(void) {
  for (uint32_t i = 0; i < sim.options.pct_depth; i++) {
    if (sim.change_steps[i] == sim.steps) return true;
  }
  return false;
}

/* While two fibers poll in turns, neither makes a streak, and without this check no other fiber would ever run. */
static bool is_any_ready_for_long(void) {
  if (sim.steps % READY_CHECK_STEPS != 0) return false;
  for (size_t i = 0; i < sim.runnable_count; i++)
    if (sim.steps - sim.runnable[i]->ready_since > READY_STEPS_MAX) return true;
  return false;
}

static tp__fiber *highest_priority(void) {
  if (is_change_point() || sim.streak > STREAK_MAX || is_any_ready_for_long()) {
    sim.current->priority = --sim.lowest_priority;
    sim.streak = 0;
  }
  tp__fiber *highest = sim.runnable[0];
  for (size_t i = 1; i < sim.runnable_count; i++) {
    if (sim.runnable[i]->priority > highest->priority) highest = sim.runnable[i];
  }
  return highest;
}

static tp__fiber *choose_fiber(uint32_t draw) {
  if (sim.options.policy == TP__SIM_PCT) return highest_priority();
  return sim.runnable[(uint64_t)draw * sim.runnable_count >> 32];
}

static tp__sim_end end_of_idleness(void) {
  if (sim.live_count == 0) return TP__SIM_DONE;
  return sim.main_returned ? TP__SIM_LEFT : TP__SIM_DEADLOCK;
}

static void trace(const tp__fiber *next) {
  sim.trace = (sim.trace ^ next->number ^ (uint64_t)sim.now_ns << 12) * UINT64_C(0x100000001B3);
  sim.trace ^= sim.trace >> 32;
}

/* One step: time, choice, switch. The current fiber may be runnable, waiting or ended. */
static void step_simulation(void) {
  if (++sim.steps > sim.options.steps_max) tp__sim_finish(TP__SIM_LIVELOCK);
  uint64_t draw = tp__stream_next(&sim.schedule);
  uint32_t time_draw = (uint32_t)draw, choice_draw = (uint32_t)(draw >> 32);
  if (time_draw % sim.options.clock_jump_inverse == 0) {
    uint32_t quotient = time_draw / sim.options.clock_jump_inverse;
    jump(quotient % 4 == 0 ? quotient / 4 % 32 : 0);
  }
  wake_expired();
  while (sim.runnable_count == 0) {
    if (!jump(0)) tp__sim_finish(end_of_idleness());
    wake_expired();
  }
  tp__fiber *next = choose_fiber(choice_draw), *from = sim.current;
  trace(next);
  next->ready_since = sim.steps;
  sim.streak = next == from ? sim.streak + 1 : 0;
  if (next == from) return;
  sim.current = next;
  tp__fiber_switch(from, next);
}

void tp__sim_point(void) {
  if (sim.running) step_simulation();
}

void tp__sim_fiber_main(void) {
  tp__fiber *self = sim.current;
  self->run(self->arg);
  assert(self->held.count == 0); /* a thread must not end while it holds a lock */
  tp__order_release(self);       /* pairs with the entry of the next fiber on this stack */
  bury(self);
  step_simulation();
  __builtin_unreachable(); /* a buried fiber is never chosen */
}

/* ---- waiting ---- */

bool tp__sim_wait(tp__fiber_state state, const void *object, int64_t deadline_ns) {
  if (deadline_ns > TP__NEVER / 2) deadline_ns = TP__NEVER; /* the clock must be able to pass any deadline */
  if (!sim.running) {
    assert(deadline_ns != TP__NEVER);
    if (sim.now_ns < deadline_ns) sim.now_ns = deadline_ns;
    return false;
  }
  tp__fiber *self = sim.current;
  make_waiting(self, state);
  self->object = object;
  self->deadline_ns = deadline_ns;
  self->timed_out = false;
  if (deadline_ns < sim.next_deadline_ns) sim.next_deadline_ns = deadline_ns;
  step_simulation();
  return !self->timed_out;
}

static bool waits_for(const tp__fiber *fiber, tp__fiber_state state, const void *object) {
  return fiber->state == state && fiber->object == object;
}

void tp__sim_wake_one(tp__fiber_state state, const void *object) {
  tp__fiber *chosen = NULL;
  uint64_t candidates = 0;
  /* the i-th candidate replaces the choice with probability 1/i, so each is equally likely */
  for (size_t i = 0; i < sim.live_count; i++) {
    if (!waits_for(sim.live[i], state, object)) continue;
    candidates++;
    if (candidates == 1 || tp__stream_next(&sim.schedule) % candidates == 0) chosen = sim.live[i];
  }
  if (chosen) make_runnable(chosen);
}

void tp__sim_wake_all(tp__fiber_state state, const void *object) {
  for (size_t i = 0; i < sim.live_count; i++) {
    if (waits_for(sim.live[i], state, object)) make_runnable(sim.live[i]);
  }
}
