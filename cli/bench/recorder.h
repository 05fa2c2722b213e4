/* SPDX-License-Identifier: Apache-2.0
 *
 * recorder: a store in memory that counts the records of a bench in place of keeping them. It has what no caller of a
 * phase is told: how long handlers ran that their phase did not wait for (FireAndRecord, Background); and all of turns
 * that the library drives. What a turn records is copied, as the library's own store does, and counted when its time
 * has been taken. One recorder in a
 * process, until its end. */
#ifndef CLI_RECORDER_H
#define CLI_RECORDER_H

#include "cli/bench/statistics.h"

/** Ids of turns whose records do not count begin with it. */
#define CLI_UNCOUNTED_TURN "warm-up-"

typedef struct cli_recorder cli_recorder;

/** @param ret_store  for the runtime, which takes it.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_recorder_new(cli_recorder **ret_recorder, tp_store **ret_store);
/** Counts from now on. Before the first turn.
 *  @param phases  those that are measured, in the order of their statistics; borrowed.
 *  @param step_ns, timed  as of cli_statistics_new().
 *  @param whole  turns are driven by the library: phases, requests and tool calls count, too. */
void cli_recorder_begin(cli_recorder *recorder, const uint32_t *phases, size_t count, int64_t step_ns, bool timed,
                        bool whole);
/** Counts what turns of the calling thread have recorded. Threads: any. */
void cli_recorder_count(cli_recorder *recorder);
/** Adds all that was counted. After the drain of the runtime. */
void cli_recorder_take(cli_recorder *recorder, cli_statistics *into);
/** After the runtime has ended. Accepts NULL. */
void cli_recorder_free(cli_recorder *recorder);

#endif
