/* SPDX-License-Identifier: Apache-2.0
 *
 * detached: a run that no entry waits for. It is a small turn of its own with a plan of one node, and the same machine
 * runs it. It has its own deadline, token and record. FireAndRecord starts one from an entry; a job worker starts one
 * from a stored payload. */
#ifndef TP__DETACHED_H
#define TP__DETACHED_H

#include "runtime/exec/entry.h"
#include "runtime/record/payload.h"

struct tp__backlog_place;

/** How a detached run ended. */
typedef struct tp__detached_end {
  tp_state state;
  tp_reason reason;
  uint32_t code;
  bool was_called;     /* the handler was called */
  bool retryable;      /* by its handler's answer */
  bool gave_place;     /* for a job: its handler has deferred, and tp__jobs_place_given() was called */
  const char *message; /* may be NULL; borrowed */
} tp__detached_end;
/** Called on the run's owner. Must return at once. */
typedef void (*tp__detached_end_fn)(void *ctx, const tp__detached_end *end);

/** The job that a run is an attempt of. */
typedef struct tp__detached_job {
  uint64_t id; /* 0: it is none */
  uint32_t attempt;
  tp_text key; /* copied */
} tp__detached_job;

typedef struct tp__detached_spec {
  const tp__plan *plan; /* whose node it is; of the snapshot */
  const tp__node *node;
  tp__snapshot *snapshot;
  tp__payload payload; /* copied; its sets are not looked at */
  const void *sets;    /* a version of the merged sets; NULL: payload.sets is read */
  tp__turn *parent;    /* held during the run, because `sets` belong to it; NULL with payload.sets */
  int64_t timeout_ns;
  tp__detached_job job;
  tp__detached_end_fn on_end; /* may be NULL */
  void *ctx;
  tp__turn **ret_turn; /* if the run is accepted: its turn, held for the caller, which may cancel it; may be NULL */
} tp__detached_spec;

/** @return NONE when the run was accepted: on_end will be called. Else the reason; on_end will not be called. */
tp_reason tp__detached_run(struct tp_runtime *runtime, const tp__detached_spec *spec);

/** @param entry  of a detached run. */
const tp__detached_job *tp__detached_job_of(const tp__entry *entry);
/** Called on the thread of the run's handler, which has deferred: the run occupies no thread from now on. */
void tp__detached_has_deferred(const tp__entry *entry);

/** Starts a detached run of the node, or stores it as a job.
 *  @param where        how the node would wait for space.
 *  @param ret_refused  NONE when the run was accepted or the job committed.
 *  @return false: another thread asks the store, and tp__entry_detached() will be called. */
bool tp__detached_start(tp__entry *entry, uint32_t index, const struct tp__backlog_place *where,
                        tp_reason *ret_refused);

#endif
