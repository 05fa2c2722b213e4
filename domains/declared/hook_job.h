/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_job: one program for one attempt of a hook, or for one call of a tool. The attempt is deferred, so no thread
 * waits for the program. The thread of the process loop completes the token. */
#ifndef TP__DECLARED_HOOK_JOB_H
#define TP__DECLARED_HOOK_JOB_H

#include "domains/declared/hook_answer.h"

typedef struct tp__job tp__job;

/** Both functions complete the token; the job is borrowed until they return. */
typedef struct tp__job_kind {
  /** On the thread of the process loop. */
  void (*ended)(tp__job *job, const tp_process_result *result);
  void (*unstarted)(const tp__job *job, const char *reason, int32_t system_error);
  uint32_t output_max; /* what the program may print; 0: 1 MiB */
} tp__job_kind;

/** It has up to three references: one of the starter; one of the deferral, until the token is completed or the runtime
 *  is freed; one of the running program, which may outlive both. */
struct tp__job {
  const tp__job_kind *kind;
  const tp__hook *hook;
  tp_token token;  /* bits 0: it could not be deferred */
  tp__asked asked; /* its texts follow the job */
  tp__bytes input; /* for on_program; empty without one */
  int copy;        /* of the script from which it is started; -1: none */
  tp__lock mutex;
  /* under mutex */
  uint64_t process; /* 0: not started yet */
  bool is_cancelled;
  int references;
};

/** @param asked  copied; NULL: none. @return NULL without memory. */
tp__job *tp__job_new(const tp__job_kind *kind, const tp__hook *hook, const tp__asked *asked);
/** The deferral of the attempt; called directly after tp__job_new(). */
tp_deferral tp__job_deferral(tp__job *job);
/** Starts the program, unless the attempt could not be deferred. Drops the starter's reference.
 *  @param line     the input of the program; taken.
 *  @param left_ms  until the deadline of the attempt; the deadline of the program is later. */
void tp__job_start(tp__job *job, tp__bytes line, int64_t left_ms);
/** Shows an end to on_program. */
void tp__job_notify(const tp__job *job, const tp_process_result *result, const tp_outcome *outcome);

#endif
