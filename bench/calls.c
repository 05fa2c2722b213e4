/* SPDX-License-Identifier: Apache-2.0
 *
 * What tool calls cost. W8 (64 calls) and W8b (10,048): deferred calls at once, for which no thread waits; a timer of
 * this bench ends each of them a millisecond after it began. W9: inline calls as a provider sends them, with results
 * and events. Also the memory of a call that waits. README.md says how to read it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/duty.h"
#include "bench/floor.h"
#include "bench/latch.h"
#include "bench/memory.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "bench/tools.h"

#define ROWS "W8 W8b W9 memory "

enum { W8_CALLS = 64, W8B_CALLS = 10048, W8B_CALLS_QUICK = 640, W9_CALLS = 64, CALLS_MAX = W8B_CALLS };

/* ---- a turn that has one tool ---- */

typedef struct host {
  bench_tools tools;
  bench_latch ended;
} host;

static host *host_new(const bench_tools_spec *spec) {
  host *h = aligned_alloc(128, (sizeof *h + 127) / 128 * 128);
  if (!h) exit(70);
  bench_tools_open(&h->tools, spec);
  return h;
}

static void host_close(void *ctx) {
  host *h = ctx;
  bench_tools_close(&h->tools);
  free(h);
}

static void all_ended(void *ctx, const tp_tool_result *const *results, size_t count) {
  host *h = ctx;
  for (size_t i = 0; i < count; i++)
    if (results[i]->kind != TP_TOOL_OK) bench_must(TP_ERR_INTERNAL, NULL);
  bench_latch_hit(&h->ended, 1);
}

static void submit(host *h) {
  bench_latch_set(&h->ended, 1);
  bench_must(tp_tools_submit(h->tools.turn, h->tools.pointers, h->tools.count, all_ended, h, NULL), NULL);
}

static void submit_borrowed(host *h) {
  bench_latch_set(&h->ended, 1);
  bench_must(tp_tools_submit_borrowed(h->tools.turn, h->tools.pointers, h->tools.count, all_ended, h, NULL), NULL);
}

/* ---- W9 ---- */

enum { RUNS_IN_TURN = 16 };

static void run_inline(host *h) { bench_tools_run(&h->tools); }

static void run_shared(host *h) {
  submit(h);
  bench_latch_spin(&h->ended);
}

static void run_borrowed(host *h) {
  submit_borrowed(h);
  bench_latch_spin(&h->ended);
}

static int64_t run_in_turns(host *h, uint32_t times, void (*run)(host *h)) {
  int64_t duration_ns = 0;
  while (times > 0) {
    uint32_t now = times < RUNS_IN_TURN ? times : RUNS_IN_TURN;
    bench_tools_renew(&h->tools);
    int64_t began = bench_now_ns();
    for (uint32_t i = 0; i < now; i++) run(h);
    duration_ns += bench_now_ns() - began;
    times -= now;
  }
  return duration_ns;
}

static int64_t w9_inline(void *ctx, uint32_t times) { return run_in_turns(ctx, times, run_inline); }
static int64_t w9_shared(void *ctx, uint32_t times) { return run_in_turns(ctx, times, run_shared); }
static int64_t w9_borrowed(void *ctx, uint32_t times) { return run_in_turns(ctx, times, run_borrowed); }

static void add_w9(bench_row *row, const char *form, bool has_arguments, int64_t (*run)(void *ctx, uint32_t times),
                   bench_bound bound) {
  bench_tools_spec spec = {.count = W9_CALLS, .has_arguments = has_arguments, .on_event = bench_ignore_event};
  bench_row_add(row,
                (bench_contestant){.name = "turnphase",
                                   .form = form,
                                   .run = run,
                                   .close = host_close,
                                   .ctx = host_new(&spec),
                                   .threads = run != w9_inline},
                bound);
}

/* Adds the peers, each in its own best form, or doing the same duty for each call as turnphase. @return how many. */
static size_t add_calls_peers(bench_row *row, bool equal_duty) {
  static char names[BENCH_CONTESTANTS_MAX][64];
  size_t first = row->count;
  for (size_t i = 0; i < bench_peer_count; i++) {
    bench_contestant peer = {0};
    if (bench_peers[i]->calls) bench_peers[i]->calls(W9_CALLS, equal_duty, &peer);
    if (!peer.run) continue;
    if (equal_duty) {
      snprintf(names[i], sizeof names[i], "%s, equal duty", peer.name);
      peer.name = names[i];
    }
    bench_row_add(row, peer, (bench_bound){.against = 1});
  }
  return row->count - first;
}

/* Each call is as a provider sends it: an id, two arguments, an answer of 200 bytes. The form without id, arguments and
 * schema shows what these cost. */
static void w9(bench_program *program) {
  bench_row row = {.name = "W9", .what = "64 inline tool calls", .unit = "a call", .per = W9_CALLS};
  if (!bench_wanted(program, "W9")) return;
  add_w9(&row, "tp_tools_run, with events", true, w9_inline, (bench_bound){.against = 1, .ns = 11000});
  bench_row_add(&row, bench_floor_calls(W9_CALLS), (bench_bound){.against = 1});
  add_w9(&row, "tp_tools_submit, with events; the caller spins", true, w9_shared, (bench_bound){.against = 1});
  add_w9(&row, "tp_tools_submit_borrowed, likewise", true, w9_borrowed, (bench_bound){.against = 1});
  add_w9(&row, "tp_tools_run, with events; no ids, no arguments", false, w9_inline, (bench_bound){.against = 1});
  (void)add_calls_peers(&row, false);
  size_t loop = bench_row_add(&row, bench_duty_loop(W9_CALLS), (bench_bound){.against = 1});
  size_t peer_count = add_calls_peers(&row, true);
  bench_row_run(program, &row, NULL);
  bench_figure_best(program, &row, 0, loop + 1, peer_count, "to the best peer at equal duty", 1);
  bench_figure_best(program, &row, 0, loop, 1, "to a loop of the host's at equal duty", 0);
}

/* ---- W8: calls that a timer ends ---- */

enum { GROUP = 64, DELAY_NS = 1000000, GROUPS_MAX = (CALLS_MAX + GROUP - 1) / GROUP };

/* The tools of W8: a call leaves its token in the next place. The clock is read once for 64 calls, by the last of them,
   so that none waits for less than its millisecond. */
typedef struct timers {
  host *of;
  uint32_t count, group_count;
  _Alignas(128) _Atomic uint32_t next;
  _Alignas(128) _Atomic uint32_t groups; /* how many groups have a time */
  _Atomic uint32_t asleep, round;
  _Alignas(128) int64_t expires_ns[GROUPS_MAX]; /* set for the groups below that number */
  _Atomic uint64_t tokens[CALLS_MAX];
  bench_latch *started; /* counts the waiting calls, when there is no timer */
  bool stop;            /* set before round rises */
  pthread_t thread;
} timers;

static void group_is_full(timers *t, uint32_t group) {
  t->expires_ns[group] = bench_now_ns() + DELAY_NS;
  /* Pairs with await_group(). Groups fill up in order: the calls of one turn begin in order. */
  atomic_fetch_add_explicit(&t->groups, 1, memory_order_seq_cst);
  if (atomic_load_explicit(&t->asleep, memory_order_seq_cst)) bench_futex_wake(&t->groups);
}

static tp_answer answer_later(void *ctx, tp_tool_run *run) {
  timers *t = ctx;
  tp_token token;
  uint32_t n = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
  tp_answer outcome = tp_tool_defer(run, NULL, &token);
  atomic_store_explicit(&t->tokens[n], token.bits, memory_order_release); /* pairs with complete() */
  if (t->started) bench_latch_hit(t->started, 1);
  else if (n % GROUP == GROUP - 1 || n + 1 == t->count) group_is_full(t, n / GROUP);
  return outcome;
}

static void await_group(timers *t, uint32_t group) {
  uint32_t full = atomic_load_explicit(&t->groups, memory_order_acquire);
  if (full > group) return;
  atomic_store_explicit(&t->asleep, 1, memory_order_seq_cst); /* set before groups is read once more */
  while ((full = atomic_load_explicit(&t->groups, memory_order_seq_cst)) <= group) bench_futex_wait(&t->groups, full);
  atomic_store_explicit(&t->asleep, 0, memory_order_relaxed);
}

static void complete(timers *t, uint32_t n) {
  tp_token token = {0};
  /* Pairs with answer_later(). The token is nearly always there, since the timer waits for a millisecond. */
  while (!(token.bits = atomic_exchange_explicit(&t->tokens[n], 0, memory_order_acq_rel))) {}
  bench_must(tp_tool_complete(token, false, tp_text_of("done"), NULL), NULL);
}

static void play_round(timers *t) {
  for (uint32_t group = 0, n = 0; group < t->group_count; group++) {
    await_group(t, group);
    bench_sleep_until(t->expires_ns[group]);
    for (; n < t->count && n < (group + 1) * GROUP; n++) complete(t, n);
  }
}

static void *run_timers(void *arg) {
  timers *t = arg;
  bench_wake_exactly(true);
  for (uint32_t round = 0;; round++) {
    /* Pairs with next_round(). */
    while (atomic_load_explicit(&t->round, memory_order_acquire) == round) bench_futex_wait(&t->round, round);
    if (t->stop) return NULL;
    play_round(t);
  }
}

static void next_round(timers *t) {
  atomic_store_explicit(&t->next, 0, memory_order_relaxed);
  atomic_store_explicit(&t->groups, 0, memory_order_relaxed);
  atomic_fetch_add_explicit(&t->round, 1, memory_order_release); /* pairs with run_timers() */
  bench_futex_wake(&t->round);
}

static int64_t timers_run(void *ctx, uint32_t times) {
  timers *t = ctx;
  int64_t duration_ns = 0;
  for (uint32_t i = 0; i < times; i++) {
    bench_tools_renew(&t->of->tools);
    next_round(t);
    int64_t began = bench_now_ns();
    submit(t->of);
    bench_latch_wait(&t->of->ended);
    duration_ns += bench_now_ns() - began;
  }
  return duration_ns;
}

static timers *timers_new(uint32_t count, const tp_allocator *allocator, bench_latch *started) {
  timers *t = aligned_alloc(128, (sizeof *t + 127) / 128 * 128);
  if (!t) exit(70);
  *t = (timers){.count = count, .group_count = (count + GROUP - 1) / GROUP, .started = started};
  tp_runtime_options options = {.struct_size = sizeof options};
  if (allocator) options.allocator = *allocator;
  t->of = host_new(&(bench_tools_spec){.options = &options, .run = answer_later, .ctx = t, .count = count});
  return t;
}

static void timers_close(void *ctx) {
  timers *t = ctx;
  t->stop = true;
  next_round(t);
  pthread_join(t->thread, NULL);
  host_close(t->of);
  free(t);
}

static void w8(bench_program *program, const char *name, const char *what, uint32_t count, bench_bound bound) {
  bench_row row = {.name = name, .what = what, .unit = "a call", .per = count};
  bench_settings settings = bench_settings_of(program);
  if (!bench_wanted(program, name)) return;
  timers *t = timers_new(count, NULL, NULL);
  if (pthread_create(&t->thread, NULL, run_timers, t) != 0) exit(70);
  bench_row_add(&row,
                (bench_contestant){.name = "turnphase",
                                   .form = "tp_tools_submit, tp_tool_defer, a timer thread of the host",
                                   .run = timers_run,
                                   .close = timers_close,
                                   .ctx = t,
                                   .threads = true},
                bound);
  bench_row_add(&row, bench_floor_timers(count), (bench_bound){.against = 1});
  for (size_t i = 0; i < bench_peer_count; i++) {
    bench_contestant peer = {0};
    if (bench_peers[i]->timers) bench_peers[i]->timers(count, &peer);
    if (peer.run) bench_row_add(&row, peer, (bench_bound){.against = 1});
  }
  settings.single = true;
  bench_row_run(program, &row, &settings);
}

/* ---- memory of a call that waits ---- */

static void memory(bench_program *program) {
  enum { LIMIT_BYTES = 4096 };
  uint32_t count = program->quick ? W8B_CALLS_QUICK : W8B_CALLS;
  bench_memory held = {0};
  bench_latch started;
  tp_allocator allocator = bench_memory_allocator(&held);
  if (!bench_wanted(program, "memory")) return;
  bench_latch_set(&started, count);
  timers *t = timers_new(count, &allocator, &started);
  size_t before = atomic_load(&held.bytes);
  submit(t->of);
  bench_latch_wait(&started);
  size_t bytes = atomic_load(&held.bytes) - before;
  for (uint32_t n = 0; n < count; n++) complete(t, n);
  bench_latch_wait(&t->of->ended);
  host_close(t->of);
  free(t);
  bench_figure(program, "memory", "of a deferred tool call that waits", (double)bytes / count, "bytes", LIMIT_BYTES);
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "calls", "What tool calls cost.", ROWS, argc, argv);
  w8(&program, "W8", "64 tool calls of 1 ms each, ended by timers", W8_CALLS, (bench_bound){.against = 1});
  w8(&program, "W8b", "10,048 tool calls of 1 ms each, ended by timers", program.quick ? W8B_CALLS_QUICK : W8B_CALLS,
     (bench_bound){.against = 1});
  w9(&program);
  memory(&program);
  return bench_close(&program);
}
