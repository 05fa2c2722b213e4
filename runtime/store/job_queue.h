/* SPDX-License-Identifier: Apache-2.0
 *
 * job_queue: the jobs of the memory store: all open jobs, and the newest of the ended ones. It has no lock: a lock of
 * its owner guards it.
 *
 * The cost of a job grows only with the logarithm of the number of jobs. One table finds a job by its id, another by
 * its key. The open jobs of an order key are in a list, of which only the first can be claimed. These first jobs are in
 * heaps: one heap by id for each handler and contract version, and one heap by time for jobs that wait for a retry or
 * for the end of a lease. A filter is called once for each handler and version. */
#ifndef TP__JOB_QUEUE_H
#define TP__JOB_QUEUE_H

#include "runtime/base/hash_table.h"
#include "turnphase/store.h"

typedef struct tp__queued_job tp__queued_job;

/** Jobs by id or by time, the first on top. */
typedef struct tp__job_heap {
  tp__queued_job **items;
  size_t count, capacity;
  bool by_time;
} tp__job_heap;

/** The open jobs of an order key. */
typedef struct tp__job_order {
  tp__hash_link by_key;
  tp_text key;   /* after the struct */
  tp__link jobs; /* oldest first */
  uint64_t count;
} tp__job_order;

/** The jobs of one handler and contract version. */
typedef struct tp__job_class {
  tp__link link;
  tp_text handler; /* after the struct */
  uint32_t contract_version;
  uint64_t job_count; /* open */
  tp__job_heap ready; /* by id: may be claimed now */
} tp__job_class;

struct tp__queued_job {
  tp__hash_link by_id, by_key;
  tp__link all;         /* every job that is known, by id */
  tp__link in_order;    /* open: in its order key's list */
  tp__link ended;       /* in the list of those that ended alike */
  tp__job_order *order; /* open, or NULL */
  tp__job_class *class; /* open, or NULL */
  tp__job_heap *heap;   /* that it lies in, or NULL */
  size_t heap_index;
  uint32_t refs; /* one of the queue, and one of each reader without the lock */
  bool is_known; /* the queue has it */
  bool is_mark;  /* the place of a reader in `all`: no job */
  tp_job desc;   /* texts lie after the struct; payload and message are memory of their own */
  size_t size;
  char *payload, *message;
  size_t payload_size, message_size;
};

typedef struct tp__job_queue {
  const tp_allocator *allocator;
  uint64_t open_max, ended_max; /* ended_max: separately for succeeded or discarded jobs, and for dead letters */
  uint64_t last_id, last_claim, open_count;
  int64_t looked_ms; /* the time for which claimable jobs were searched last */
  uint64_t seed;     /* of the hashes */
  tp__hash_table by_id, by_key, orders;
  tp__link all, done, dead, classes;
  uint64_t done_count, dead_count;
  tp__job_heap waiting; /* by time: retries, and leases */
} tp__job_queue;

void tp__job_queue_init(tp__job_queue *queue, const tp_allocator *allocator, uint64_t open_max, uint64_t ended_max);
void tp__job_queue_fini(tp__job_queue *queue);

/** Asserts what always holds (job_queue.c). */
void tp__job_queue_check(const tp__job_queue *queue);
/** @return TP_OK, with *ret_existed set when the key is known; TP_ERR_FULL at open_max; TP_ERR_NO_MEMORY. */
tp_status tp__job_queue_insert(tp__job_queue *queue, const tp_job *desc, uint64_t *ret_id, bool *ret_existed);
/** The next job that may be claimed, in the order of ids above after_id. Only the first job of each class is
 *  considered.
 *  @param ret_next_ms  when something may become claimable by itself; 0: never. */
tp__queued_job *tp__job_queue_candidate(tp__job_queue *queue, uint64_t after_id, int64_t now_ms, int64_t *ret_next_ms);
/** @return false when the candidate may not be claimed any more. */
bool tp__job_queue_claim(tp__job_queue *queue, tp__queued_job *job, int64_t now_ms, int64_t lease_ms);
/** Ends a job whose last lease ran out, as a dead letter. @return NULL when there is none. */
tp__queued_job *tp__job_queue_bury_lost(tp__job_queue *queue, int64_t now_ms);
/** Moves the end of a claim's lease. @return as tp__job_queue_finish(). */
tp_status tp__job_queue_renew(tp__job_queue *queue, const tp_job_renew *request);
/** @return TP_OK; TP_ERR_STALE; TP_ERR_NOT_FOUND. */
tp_status tp__job_queue_finish(tp__job_queue *queue, const tp_job_finish *request, uint32_t *ret_state);
/** How many jobs of the key are open; an empty key: of all. */
uint64_t tp__job_queue_open(const tp__job_queue *queue, tp_text order_key);
/** @return TP_OK; TP_ERR_NOT_FOUND when the job does not exist or is no dead letter; TP_ERR_FULL; TP_ERR_NO_MEMORY. */
tp_status tp__job_queue_redrive(tp__job_queue *queue, uint64_t id);
/** @return TP_OK; TP_ERR_NOT_FOUND when the job does not exist or has ended otherwise; TP_ERR_BUSY while it runs. */
tp_status tp__job_queue_discard(tp__job_queue *queue, uint64_t id, int64_t now_ms);

/** A reference: a job's texts stay while its reader does not hold the lock. */
static inline void tp__queued_job_hold(tp__queued_job *job) { job->refs++; }
void tp__queued_job_unref(tp__job_queue *queue, tp__queued_job *job);
/** Puts a mark in front of the first job above an id. The second function gives the next job after the mark, or
 *  NULL. */
void tp__job_queue_mark(tp__job_queue *queue, tp__queued_job *mark, uint64_t after_id);
tp__queued_job *tp__job_queue_next(tp__job_queue *queue, tp__queued_job *mark);
static inline void tp__job_queue_unmark(tp__queued_job *mark) { tp__list_remove(&mark->all); }

#endif
