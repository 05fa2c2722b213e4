/* SPDX-License-Identifier: Apache-2.0
 *
 * driven.h: whole turns by tp_turn_run(): a model that answers at once calls two tools, and answers with text after
 * their results. */
#ifndef BENCH_DRIVEN_H
#define BENCH_DRIVEN_H

#include "bench/latch.h"
#include "bench/workload.h"

enum { BENCH_DRIVEN_HOOKS_MAX = 7, BENCH_DRIVEN_TOOL_CALLS = 2 };
/* The index of the first hook that is called twice in a turn, from 0: eleven calls of the seven hooks. */
enum { BENCH_DRIVEN_CALLED_TWICE_FROM = 3 };

typedef struct bench_driven_spec {
  const tp_runtime_options *options; /* NULL: default options */
  uint32_t hooks;                    /* how many hooks; a single one is a guard before tools */
  tp_placement placement;            /* the placement of the hooks */
} bench_driven_spec;

typedef struct bench_driven {
  tp_runtime *runtime;
  tp_model *model;
  tp_session *session;
  uint32_t number; /* how many sessions were opened */
  bench_latch closed;
} bench_driven;

/** Opens a runtime with a session. Ends the program when anything is refused. *driven must not be moved until
 *  bench_driven_close(). */
void bench_driven_open(bench_driven *driven, const bench_driven_spec *spec);
void bench_driven_close(bench_driven *driven);
/** Closes the session and opens another one. */
void bench_driven_renew(bench_driven *driven);
/** Runs one turn of the session. */
void bench_driven_run(bench_driven *driven);

/** The work of hooks and tools, in addition to their answer. */
void bench_driven_count(void);
tp_answer bench_driven_hook(void *ctx, tp_call *call);

#endif
