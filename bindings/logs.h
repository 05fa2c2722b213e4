/* SPDX-License-Identifier: Apache-2.0
 *
 * logs.h: passes log records from any thread of the library to the loop of a binding. A thread of the library must not
 * wait for the language (the GIL of Python, the single thread of Node), so the records wait in a ring, and a descriptor
 * notifies the loop. */
#ifndef TURNPHASE_BINDINGS_LOGS_H
#define TURNPHASE_BINDINGS_LOGS_H

#include "turnphase/turnphase.h"

enum { TPB_LOG_TEXT_BYTES = 1024, TPB_LOG_NAME_BYTES = 129 };

/** A copy of a tp_log_record; longer texts are cut. */
typedef struct tpb_log_row {
  int level, status, phase;
  int64_t unix_ms;
  char message[TPB_LOG_TEXT_BYTES];
  char subscription[TPB_LOG_NAME_BYTES], turn[TPB_LOG_NAME_BYTES], session[TPB_LOG_NAME_BYTES];
} tpb_log_row;

/** The queue of one runtime: up to 256 records wait, and further ones are only counted. */
typedef struct tpb_logs tpb_logs;
/** NULL without memory. Threads: any. */
tpb_logs *tpb_logs_new(void);
/** Closes the descriptor of a queue. An abandoned attempt may log after tp_runtime_free(), so the memory is reused for
 *  the next runtime, and never freed. Accepts NULL. Threads: any. */
void tpb_logs_free(tpb_logs *logs);
/** Readable while records wait. -1: the process had no descriptor left, and nothing is kept. Threads: any. */
int tpb_logs_fd(const tpb_logs *logs);
/** A tp_log_fn. Threads: any. */
void tpb_logs_write(void *logs, const tp_log_record *record);
/** Takes the oldest record.
 *  @param ret_lost  when there is no record: how many were lost since the last report; else 0.
 *  @return whether there was one. Threads: any. */
bool tpb_logs_next(tpb_logs *logs, tpb_log_row *ret_row, unsigned long *ret_lost);

#endif
