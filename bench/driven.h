/* SPDX-License-Identifier: Apache-2.0
 *
 * driven.h: whole turns by tp_turn_run(): a model that answers at once calls two tools, and answers with text after
 * their results. */
#ifndef BENCH_DRIVEN_H
#define BENCH_DRIVEN_H

#include "bench/latch.h"
#include "bench/workload.h"

enum { BENCH_DRIVEN_HOOKS_MAX = 7, BENCH_DRIVEN_TOOL_CALLS = 2 };
enum { BENCH_DRIVEN_CALLED_TWICE_FROM = 3 }; /* of the hooks, in a turn: eleven calls in all */

typedef struct bench_driven_spec {
  const tp_runtime_options *options; /* NULL: default options */
  uint32_t hooks;                    /* one alone is a guard before tools */
  tp_placement placement;            /* of the hooks */
} bench_driven_spec;

typedef struct bench_driven {
  tp_runtime *runtime;
  tp_model *model;
  tp_session *session;
  uint32_t number; /* of sessions */
  bench_latch closed;
} bench_driven;

/** With a session. Ends the program when anything is refused. *driven stays where it is until bench_driven_close(). */
void bench_driven_open(bench_driven *driven, const bench_driven_spec *spec);
void bench_driven_close(bench_driven *driven);
/** Closes the session and opens another one. */
void bench_driven_renew(bench_driven *driven);
/** One turn of the session. */
void bench_driven_run(bench_driven *driven);

/** What hooks and tools do beside their answer. */
void bench_driven_count(void);
tp_answer bench_driven_hook(void *ctx, tp_call *call);

#endif
