/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs: the worker of background jobs. One thread claims jobs from the store, starts a detached run for each, and
 * reports its end to the store. It is the only thread of the library that calls the store's job functions, except the
 * insert. In a pumped scheduler the pumping thread takes its steps. Lock: `jobs`.
 *
 * At most as many jobs run at once as there are handler threads for detached work. A job whose handler has deferred
 * occupies no thread, so another job may take its place, up to a multiple of the number of threads. While all handlers
 * defer, one call claims more jobs than there are threads, because no job occupies its thread for long.
 *
 * One call of the store claims all jobs for which there is a place, and one call ends all jobs that have ended
 * meanwhile. So a durable store needs one transaction and one sync for them.
 *
 * Every third of a lease the worker renews the claims of running jobs. If another worker has claimed a job, its run
 * here is cancelled. Other processes may insert and end jobs in a durable store. So the worker looks at such a store
 * twice a second, and has it recover the jobs of processes that have ended. It also looks when the store calls it
 * (tp_store.job_watch), from before its first look until after its last one. */
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
  tp__link live;         /* claimed jobs; the store does not know their end yet */
  int64_t renew_at_ns;   /* while there are some */
  bool renewal_failed;   /* the renewal of some job has failed, and that was logged */
  int64_t poll_at_ns;    /* for a durable store: when the worker looks at it again even without news */
  int64_t recover_at_ns; /* for a durable store: when it is asked to recover the jobs of ended processes */
  bool recovery_failed;  /* the last one did, and it was logged */
  int64_t wall_ns;       /* wall clock minus monotonic clock, at the last look */
  uint64_t seen;         /* the news that it claimed with */
  int64_t look_again_ns; /* when the worker claims again even without news; TP__NEVER */
  bool cancelled;        /* after the stop: what runs */
  bool watches;          /* the store calls tp__jobs_wake() when there may be new jobs */
  /* under mutex */
  tp__link ended;     /* jobs whose run has ended; the store does not know that yet */
  tp__link waits;     /* the waits of tp__jobs_wait_submit() */
  tp__link line;      /* entries that wait for space (backlog.h), in their order */
  tp__link inserts;   /* jobs that wait to be stored (job_insert.h), in their order */
  uint32_t inserting; /* threads that store some */
  bool takes_inserts; /* the store can insert several jobs at once, and the thread exists and is not about to end */
  uint32_t wait_count;
  uint32_t running; /* jobs that are claimed, and whose end the store does not know yet */
  int32_t given;    /* of these, jobs that have deferred; for a moment it may be off by one */
  uint32_t width;   /* how many jobs are claimed for each thread */
  uint64_t run_count, dead_count, refused_count, postponed_count;
  uint64_t shed_count;
  uint64_t interrupted_count; /* of the dead jobs, those whose last attempt was cancelled by a drain */
  uint64_t news;              /* counts inserts and commits: something may have become claimable */
  bool stop;
  bool is_pumped; /* from the start until the stop has ended: the pump takes the steps */
  /* atomic */
  tp__a32 line_count; /* relaxed: how many are in line */
  tp__a32 space_news; /* acquire: how often space has become free; changed under mutex */
} tp__jobs;

/** @param options  complete. */
tp_status tp__jobs_init(tp__jobs *jobs, struct tp_runtime *runtime, const tp_runtime_options *options);
void tp__jobs_fini(tp__jobs *jobs);
/** Starts the thread if it does not run. Without a thread, tp__jobs_pump() takes the steps. */
tp_status tp__jobs_start(tp__jobs *jobs);
/** Stops claiming. Cancels the running jobs, because the time for them is over, and waits for them. Joins the
 *  thread. */
void tp__jobs_stop(tp__jobs *jobs);
/** Takes one step when there is no thread. @return whether there was one. If not, *ret_next_ns is the time of the next
 *  step; it is not changed when there will be none. */
bool tp__jobs_pump(tp__jobs *jobs, int64_t *ret_next_ns);
/** Says that a running job has deferred and so occupies no thread (1), or that it had ended by then (-1). Any
 *  thread. */
void tp__jobs_place_given(tp__jobs *jobs, int32_t count);
/** Something may have become claimable. */
void tp__jobs_wake(tp__jobs *jobs);
/** Stores a job for a Background subscription of an entry, and wakes the worker. If the store is durable and another
 *  thread is storing a job, the thread of the jobs stores this one (job_insert.h). If there is no space (SHED) and the
 *  node may wait for it, the node is not refused yet: that is neither counted nor logged.
 *  @param where  as the node would wait. @param ret_refused NONE when the job is committed.
 *  @return false: tp__entry_detached() will be called. */
bool tp__jobs_add(struct tp__entry *entry, uint32_t index, const tp__payload *payload,
                  const struct tp__backlog_place *where, tp_reason *ret_refused);

/** What the store has answered. */
typedef struct tp__job_inserted {
  tp_status status;
  uint64_t id;
  bool existed;
  const tp_fault *fault; /* may be NULL */
} tp__job_inserted;
/** Any thread: handles the answer of the store about a job. Notifies the host of a new job. Counts and logs a refused
 *  job, except when it was refused for lack of space and waits for space. @return NONE when the job is committed. */
tp_reason tp__job_was_inserted(struct tp_runtime *runtime, const tp_job *job, bool waits,
                               const tp__job_inserted *inserted);
/** Counts and logs a job of the node that the store has refused. */
void tp__jobs_refuse(struct tp_runtime *runtime, const tp__node *node, const char *why);
/** Counts a detached run that was left out because there was no space. */
void tp__jobs_shed(tp__jobs *jobs);
/** Waits until no job of the order key is open. @return TP_OK, TP_ERR_TIMEOUT, or the result of the store. */
tp_status tp__jobs_wait(tp__jobs *jobs, tp_text order_key, int64_t deadline_ns);

/** As tp__jobs_wait(), without blocking: on_end is called on the jobs' thread. @return TP_OK; TP_ERR_FULL,
 *  TP_ERR_NO_MEMORY, TP_ERR_SHUTDOWN. */
tp_status tp__jobs_wait_submit(tp__jobs *jobs, tp_text order_key, int64_t deadline_ns, tp_jobs_wait_fn on_end,
                               void *ctx);

typedef struct tp__job_counts {
  uint64_t run;         /* attempts that have ended */
  uint64_t open;        /* now, by the store */
  uint64_t dead;        /* dead letters since the start */
  uint64_t refused;     /* inserts that the store did not take */
  uint64_t interrupted; /* of the dead jobs, those whose last attempt was cancelled by a drain */
  uint64_t postponed;   /* of the run: attempts that do not count */
  uint64_t shed;        /* detached runs that were left out because there was no space */
  uint64_t in_line;     /* now: entries that wait for it */
} tp__job_counts;
tp__job_counts tp__jobs_counts(tp__jobs *jobs);

#endif
