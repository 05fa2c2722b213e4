/* SPDX-License-Identifier: Apache-2.0
 *
 * What a waiting tool call costs: 10,000 calls of one response, each deferred, all in flight at once on two engine
 * workers and no handler thread, then completed from outside. Prints the memory of each while it waits and the time of
 * all.
 *
 *   calls [--json]     exits with 1 when a call does not come back, or waits in more than BYTES_MAX */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turnphase/turnphase.h"

enum { CALLS = 10000, BYTES_MAX = 4096 };

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void must(tp_status status, const tp_fault *fault) {
  if (status == TP_OK) return;
  fprintf(stderr, "bench: %s: %s\n", tp_status_name(status), fault ? fault->message : "");
  exit(70);
}

/* ---- memory, counted ---- */

static _Atomic size_t bytes_open;

static void *counted_alloc(void *ctx, size_t size) {
  (void)ctx;
  atomic_fetch_add(&bytes_open, size);
  return malloc(size);
}

static void counted_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  atomic_fetch_sub(&bytes_open, size);
  free(memory);
}

/* ---- a tool that answers later ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static tp_token tokens[CALLS];
static size_t waiting; /* under mutex */
static bool ended;     /* under mutex */

static tp_outcome wait_for_it(void *self, tp_tool_run *run) {
  (void)self;
  tp_token token;
  tp_outcome outcome = tp_tool_defer(run, NULL, &token);
  pthread_mutex_lock(&mutex);
  if (token.bits) tokens[waiting++] = token;
  if (waiting == CALLS) pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
  return outcome;
}

static tp_outcome bring_tools(void *self, tp_call *call) {
  (void)self;
  tp_tool tool = {.struct_size = sizeof tool, .name = "wait", .run = wait_for_it, .quick = true};
  (void)tp_call_emit_tool_bundle(call, "bench", &tool, 1);
  return tp_call_done(call);
}

static void all_ended(void *ctx, const tp_tool_result *results, size_t count) {
  size_t *good = ctx;
  for (size_t i = 0; i < count; i++) *good += results[i].kind == TP_TOOL_OK;
  pthread_mutex_lock(&mutex);
  ended = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

int main(int argc, char **argv) {
  bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
  tp_runtime_options options = {
      .struct_size = sizeof options, .allocator = {counted_alloc, counted_release, NULL}, .engine_workers = 2};
  static tp_tool_call calls[CALLS];
  tp_runtime *runtime;
  tp_turn *turn;
  tp_fault fault;
  tp_phase_result brought;
  size_t good = 0;
  for (int i = 0; i < CALLS; i++) calls[i] = (tp_tool_call){.name = tp_text_of("wait"), .arguments = {"\x80", 1}};
  must(tp_runtime_new(&options, &runtime, &fault), &fault);
  must(tp_hook_add(runtime, "turn.pre_tool_materialization", bring_tools, NULL, &fault), &fault);
  must(tp_turn_begin_bare(runtime, NULL, &turn, &fault), &fault);
  must(tp_phase_run(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, &brought, &fault), &fault);
  size_t before = atomic_load(&bytes_open);
  int64_t t0 = now_ns();
  must(tp_tools_submit(turn, calls, CALLS, all_ended, &good, &fault), &fault);
  pthread_mutex_lock(&mutex);
  while (waiting < CALLS) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  int64_t t1 = now_ns();
  size_t each = (atomic_load(&bytes_open) - before) / CALLS;
  for (int i = 0; i < CALLS; i++) must(tp_tool_complete(tokens[i], false, tp_text_of("done")), NULL);
  pthread_mutex_lock(&mutex);
  while (!ended) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  int64_t t2 = now_ns();
  tp_turn_end(turn);
  tp_runtime_free(runtime);
  printf(
      json ? "{\"calls\":%d,\"came_back\":%zu,\"bytes_each\":%zu,\"start_ns_each\":%.0f,\"end_ns_each\":%.0f}\n"
           : "%d calls in flight, %zu came back; %zu bytes each while waiting; %.0f ns to start, %.0f ns to end each\n",
      CALLS, good, each, (double)(t1 - t0) / CALLS, (double)(t2 - t1) / CALLS);
  return good == CALLS && each <= BYTES_MAX ? 0 : 1;
}
