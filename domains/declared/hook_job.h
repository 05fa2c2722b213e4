/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_job: one program for one attempt of a hook, or one call of a tool. The attempt is deferred, so that no thread
 * waits for the program; the thread of the process loop completes the token. */
#ifndef TP__DECLARED_HOOK_JOB_H
#define TP__DECLARED_HOOK_JOB_H

#include "domains/declared/hook_answer.h"

typedef struct tp__job tp__job;

/** Both complete the token; the job is borrowed till they return. */
typedef struct tp__job_kind {
  /** On the thread of the process loop. */
  void (*ended)(tp__job *job, const tp_process_result *result);
  void (*unstarted)(const tp__job *job, const char *reason, int32_t system_error);
  uint32_t output_max; /* what the program may print; 0: 1 MiB */
} tp__job_kind;

/** It has up to three references: the starter's; the deferral's, until the token is completed or the runtime is freed;
 *  and that of the running program, which may outlive both. */
struct tp__job {
  const tp__job_kind *kind;
  const tp__hook *hook;
  tp_token token;  /* bits 0: it could not be deferred */
  tp__asked asked; /* its texts follow the job */
  tp__bytes input; /* for on_program; empty without one */
  int copy;        /* of its script, which it is started from; -1: none */
  tp__lock mutex;
  /* under mutex */
  uint64_t process; /* 0: not started yet */
  bool is_cancelled;
  int references;
};

/** @param asked  copied; NULL: nothing.   @return NULL without memory. */
tp__job *tp__job_new(const tp__job_kind *kind, const tp__hook *hook, const tp__asked *asked);
/** What the attempt is deferred with, right after tp__job_new(). */
tp_deferral tp__job_deferral(tp__job *job);
/** Starts the program, unless it could not be deferred. The job is the starter's no more.
 *  @param line     what the program can read; taken.
 *  @param left_ms  until the deadline of the attempt, after which that of the program lies. */
void tp__job_start(tp__job *job, tp__bytes line, int64_t left_ms);
/** Shows an end to on_program. */
void tp__job_notify(const tp__job *job, const tp_process_result *result, const tp_outcome *outcome);

#endif
