/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs: the worker of background jobs. One thread claims jobs from the store, starts a detached run for each, and
 * reports its end to the store; at most so many run at once as there are handler threads for detached work. One
 * whose handler has deferred occupies no thread, and its place is another one's: up to so many times as many run
 * then as there are threads. All that there is a place for are claimed by one call, and so are those ended that
 * have ended meanwhile: a durable store has one transaction for them, and one sync. While all handlers defer, more
 * are claimed by one call than there are threads, since none occupies its thread for long. Every third of the lease
 * it renews the claims of those that run; one whose claim another worker has is cancelled. Where the store is
 * durable other processes may insert and end jobs, so it looks again twice a second, and has the store recover what
 * processes left that have ended. It is the one thread of ours that calls the job functions of the store but for
 * the insert. Where the scheduler is pumped, the thread that pumps takes its steps. Lock: `jobs`. */
#ifndef TP__JOBS_H
#define TP__JOBS_H

#include "runtime/plan/plan.h"
#include "runtime/record/payload.h"

struct tp_runtime;
struct tp__entry;
struct tp__turn;
struct tp__backlog_place;

typedef struct tp__jobs {
  struct tp_runtime *runtime;
  uint32_t running_max;
  int64_t lease_ms, postpone_ms;
  uint64_t mark;      /* random: part of idempotency keys */
  tp__thread *thread; /* NULL: not started, or the scheduler is pumped */
  tp__mutex mutex;
  tp__cond changed; /* something to do, or a job ended */
  /* of the thread alone */
  tp__link live;         /* claimed jobs whose end the store does not know yet */
  int64_t renew_at_ns;   /* while there are some */
  bool renewal_failed;   /* that of some job did, and it was logged */
  int64_t poll_at_ns;    /* of a durable store: when it is looked at again whatever happens here */
  int64_t recover_at_ns; /* likewise: when it is asked for what processes left that have ended */
  bool recovery_failed;  /* the last one did, and it was logged */
  int64_t wall_ns;       /* by how much the wall clock stands above the monotonic one, as last seen */
  uint64_t seen;         /* the news that it claimed with */
  int64_t look_again_ns; /* when it claims though there are no news; TP__NEVER */
  bool cancelled;        /* after the stop: what runs */
  /* under mutex */
  tp__link ended;     /* running jobs whose end the store does not know yet */
  tp__link waits;     /* those of tp__jobs_wait_submit() */
  tp__link line;      /* entries that wait for space (backlog.h), the first first */
  tp__link inserts;   /* jobs that wait to be stored (job_insert.h), the first first */
  uint32_t inserting; /* threads that store some */
  bool takes_inserts; /* there is a thread, and it does not end yet; of a store that stores several at once */
  uint32_t wait_count;
  uint32_t running; /* claimed, until the store knows their end */
  int32_t given;    /* of these, those that have deferred: for a moment one more or less than there are */
  uint32_t width;   /* how many are claimed for each thread */
  uint64_t run_count, dead_count, refused_count, postponed_count;
  uint64_t shed_count;
  uint64_t interrupted_count; /* of the dead: their last attempt was cancelled by a drain */
  uint64_t news;              /* counts inserts and commits: something may have become claimable */
  bool stop;
  bool is_pumped; /* from the start until the stop has ended: steps are the pump's */
  /* atomic */
  tp__a32 line_count; /* relaxed: how many are in line */
  tp__a32 space_news; /* acquire: how often there was space; changed under mutex */
} tp__jobs;

/** @param options  complete. */
tp_status tp__jobs_init(tp__jobs *jobs, struct tp_runtime *runtime, const tp_runtime_options *options);
void tp__jobs_fini(tp__jobs *jobs);
/** Starts the thread if it does not run; without one, steps are taken by tp__jobs_pump(). */
tp_status tp__jobs_start(tp__jobs *jobs);
/** Stops claiming; cancels what runs, since the time is up, and waits for it; joins. */
void tp__jobs_stop(tp__jobs *jobs);
/** Where there is no thread: one step of it. @return whether there was one; else *ret_next_ns is when there may be, and
 *  is left as it is for never. */
bool tp__jobs_pump(tp__jobs *jobs, int64_t *ret_next_ns);
/** A job of those that run has deferred, and occupies no thread (1); or it had ended by then (-1). Any thread. */
void tp__jobs_place_given(tp__jobs *jobs, int32_t count);
/** Something may have become claimable. */
void tp__jobs_wake(tp__jobs *jobs);
/** Stores a job for a Background subscription of an entry and wakes the worker. While another thread stores one, the
 *  thread of the jobs does it where the store is durable (job_insert.h). Where there is no space (SHED), a node that
 *  may wait for it is not refused yet: neither counted nor logged.
 *  @param where  as the node would wait.   @param ret_refused  NONE when it is committed.
 *  @return false: tp__entry_detached() comes. */
bool tp__jobs_add(struct tp__entry *entry, uint32_t index, const tp__payload *payload,
                  const struct tp__backlog_place *where, tp_reason *ret_refused);

/** What the store has answered. */
typedef struct tp__job_inserted {
  tp_status status;
  uint64_t id;
  bool existed;
  const tp_fault *fault; /* may be NULL */
} tp__job_inserted;
/** Any thread: the store was asked for a job. Notifies of one that is new, and counts and logs one that was refused,
 *  but for want of space where it waits.   @return NONE when it is committed. */
tp_reason tp__job_was_inserted(struct tp_runtime *runtime, const tp_job *job, bool waits,
                               const tp__job_inserted *inserted);
/** Counts and logs a job of the node that the store did not take. */
void tp__jobs_refuse(struct tp_runtime *runtime, const tp__node *node, const char *why);
/** Counts a detached run that was left out for want of space. */
void tp__jobs_shed(tp__jobs *jobs);
/** Waits until the order key has no open job. @return TP_OK, TP_ERR_TIMEOUT, what the store returned. */
tp_status tp__jobs_wait(tp__jobs *jobs, tp_text order_key, int64_t deadline_ns);

/** The same without waiting: on_end comes on the jobs' thread. @return TP_OK; TP_ERR_FULL, TP_ERR_NO_MEMORY,
 *  TP_ERR_SHUTDOWN. */
tp_status tp__jobs_wait_submit(tp__jobs *jobs, tp_text order_key, int64_t deadline_ns, tp_jobs_wait_fn on_end,
                               void *ctx);

typedef struct tp__job_counts {
  uint64_t run;         /* attempts that have ended */
  uint64_t open;        /* now, by the store */
  uint64_t dead;        /* dead letters since the start */
  uint64_t refused;     /* inserts that the store did not take */
  uint64_t interrupted; /* of the dead: their last attempt was cancelled by a drain */
  uint64_t postponed;   /* of the run: attempts that do not count */
  uint64_t shed;        /* detached runs that were left out for want of space */
  uint64_t in_line;     /* now: entries that wait for it */
} tp__job_counts;
tp__job_counts tp__jobs_counts(tp__jobs *jobs);

#endif
