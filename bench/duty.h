/* SPDX-License-Identifier: Apache-2.0
 *
 * duty.h: the work that turnphase does for each call of W9, as a host would write it if its library did none of it. The
 * arguments are checked to be one value, and to fit. The answer is checked to be UTF-8, and copied into the call's slot
 * with id, status, time-stamp and rank. A listener is called at the call's begin and at its end. Peers at equal duty
 * call these functions. */
#ifndef BENCH_DUTY_H
#define BENCH_DUTY_H

#include "bench/measure.h"
#include "bench/tools.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_duty_result {
  tp_text id;    /* borrowed from the call */
  uint32_t kind; /* tp_tool_result_kind */
  uint32_t completion_order;
  uint64_t ended; /* time-stamp */
  uint32_t text_size;
  char text[BENCH_ANSWER_BYTES];
} bench_duty_result;

typedef struct bench_duty_event {
  bool ends; /* true: the call has ended; false: it begins */
  uint32_t call_index;
  uint64_t sequence; /* from 1, without gaps */
  uint64_t time;
  tp_text id;
  const bench_duty_result *result; /* NULL: the call begins */
} bench_duty_event;

typedef struct bench_duty bench_duty;

/** The calls that bench_tools_open() makes, with arguments. Ends the program when anything is refused. */
bench_duty *bench_duty_new(uint32_t calls);
void bench_duty_free(bench_duty *duty);

/** Prepares for the calls of one run. */
void bench_duty_start(bench_duty *duty);
/** Reports that a call begins, by an event. One thread at a time. */
void bench_duty_begin(bench_duty *duty, uint32_t call);
/** Checks the arguments, runs the tool, fills the slot. Several threads at once. */
void bench_duty_run(bench_duty *duty, uint32_t call);
/** Reports that a call has ended: sets its rank and emits its event. One thread at a time, that of the call or a later
 *  one. */
void bench_duty_end(bench_duty *duty, uint32_t call);
/** Checks the calls of one run: ends the program unless each has ended once, and the last one successfully. */
void bench_duty_finish(const bench_duty *duty);

/** Does all of it in a loop on the calling thread, without any library. */
bench_contestant bench_duty_loop(uint32_t calls);

#ifdef __cplusplus
}
#endif
#endif
