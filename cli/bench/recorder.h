/* SPDX-License-Identifier: Apache-2.0
 *
 * recorder: a store in memory that counts the records of a bench instead of keeping them. It has data that the caller
 * of a phase does not get: the durations of handlers for which the phase did not wait (FireAndRecord, Background), and
 * all data of turns that the library drives. The records of a turn are copied, as in the library's own store, and
 * counted after the turn's time was taken. One recorder per process, until its end. */
#ifndef CLI_RECORDER_H
#define CLI_RECORDER_H

#include "cli/bench/statistics.h"

/** The prefix of ids of turns whose records do not count. */
#define CLI_UNCOUNTED_TURN "warm-up-"

typedef struct cli_recorder cli_recorder;

/** @param ret_store  passed to the runtime, which takes it.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_recorder_new(cli_recorder **ret_recorder, tp_store **ret_store);
/** Counts from now on. Before the first turn.
 *  @param phases  the measured phases, in the order of their statistics; borrowed.
 *  @param step_ns, timed  as of cli_statistics_new().
 *  @param whole  turns are driven by the library: phases, requests and tool calls count, too. */
void cli_recorder_begin(cli_recorder *recorder, const uint32_t *phases, size_t count, int64_t step_ns, bool timed,
                        bool whole);
/** Counts the records of the calling thread's turns. Threads: any. */
void cli_recorder_count(cli_recorder *recorder);
/** Adds everything that was counted. Called after the drain of the runtime. */
void cli_recorder_take(cli_recorder *recorder, cli_statistics *into);
/** Called after the runtime has ended. Accepts NULL. */
void cli_recorder_free(cli_recorder *recorder);

#endif
