/* SPDX-License-Identifier: Apache-2.0
 *
 * tools.h: a turn with one inline tool and the calls of one response, as a provider sends them. */
#ifndef BENCH_TOOLS_H
#define BENCH_TOOLS_H

#include "bench/workload.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_ANSWER_BYTES = 200, BENCH_ID_SIZE = 32 };

typedef struct bench_tools_spec {
  const tp_runtime_options *options; /* NULL: default options */
  tp_tool_fn run;                    /* NULL: answers with BENCH_ANSWER_BYTES of text */
  void *ctx;
  uint32_t count;
  bool has_arguments;   /* set when calls have provider ids, and two arguments that are checked against a schema of two
                           properties */
  tp_event_fn on_event; /* NULL: a turn without session and listener */
} bench_tools_spec;

typedef struct bench_tools {
  tp_runtime *runtime;
  tp_session *session;
  tp_tool tool;
  tp_turn *turn;
  uint32_t count;
  tp_writer *schema, *arguments;
  char (*ids)[BENCH_ID_SIZE];
  tp_tool_call *calls;
  const tp_tool_call **pointers;
} bench_tools;

/** Ends the program when anything is refused. *tools must not be moved until bench_tools_close(). */
void bench_tools_open(bench_tools *tools, const bench_tools_spec *spec);
void bench_tools_close(bench_tools *tools);

/** Ends the turn and begins the next one. Results live as long as their turn, so this is called before they fill the
 *  caches. */
void bench_tools_renew(bench_tools *tools);

/** Runs all calls once, on the calling thread. */
void bench_tools_run(bench_tools *tools);

/** The parts of a call: its id, its arguments (in memory of the writer, which the caller frees), its answer. */
void bench_call_id(char id[BENCH_ID_SIZE], uint32_t call);
tp_text bench_arguments(tp_writer **ret_writer);
tp_text bench_answer(void);

/** A listener that does nothing. */
void bench_ignore_event(void *ctx, const tp_event *event);

#ifdef __cplusplus
}
#endif
#endif
