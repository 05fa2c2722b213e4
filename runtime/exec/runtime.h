/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime: the object a host creates, as the engine knows it. It owns the threads, the registry, the store and the
 * allocator caches. Lock: `runtime`, for the list of turns and for start, drain and stop. */
#ifndef TP__RUNTIME_H
#define TP__RUNTIME_H

#include "runtime/exec/blocks.h"
#include "runtime/exec/entry.h"
#include "runtime/exec/jobs.h"
#include "runtime/exec/turn_table.h"
#include "runtime/sched/sched.h"

/** What else a thread does inside of a runtime (sched.h). */
#define TP__THREAD_OPENS_STORE ((void *)(uintptr_t)4) /* is in the store's open or recover */

typedef enum tp__life {
  TP__LIFE_NEW = 0,
  TP__LIFE_STARTED = 1,
  TP__LIFE_DRAINING = 2, /* no new turns */
  TP__LIFE_STOPPING = 3, /* and no new operations of turns that their host drives */
  TP__LIFE_DRAINED = 4,
  TP__LIFE_FREED = 5 /* tp_runtime_free() was called: only destructors and abandoned handlers still see it */
} tp__life;

/** The operations of the layer above. */
typedef struct tp__layer_ops {
  const tp_phase *rows;
  size_t row_count;
  const tp__alias *aliases;
  size_t alias_count;
  const tp__contribution_ops *contributions;
  size_t turn_size; /* of its turns, which have a tp__turn first */
  /** Writes a version of the merged sets as one value, and reads it back. */
  void (*sets_write)(const void *sets, tp_writer *writer);
  bool (*sets_read)(tp__arena *arena, tp_text value, const void **ret_sets);
  /** A drain with this deadline closes what is open above; called without lock, before turns are waited for. */
  void (*close_all)(struct tp_runtime *runtime, int64_t deadline_ns);
  /** A drain, when what is open has ended: closes what that was made of. Blocks. */
  void (*close_last)(struct tp_runtime *runtime);
  /** Fills what it counts in statistics. */
  void (*count)(struct tp_runtime *runtime, struct tp_runtime_stats *stats);
  /** A background job was stored, or an attempt of it has ended. It has no payload. Called without lock. */
  void (*job_notify)(struct tp_runtime *runtime, const tp_job *job);
  /** Frees what is open above; called by tp_runtime_free() before the rest goes. */
  void (*free_layer)(struct tp_runtime *runtime);
  /** Frees runtime->layer itself, when no attempt is left that could look at it. */
  void (*free_last)(struct tp_runtime *runtime);
} tp__layer_ops;

struct tp_runtime {
  /* never changes after new */
  tp_runtime_options options; /* resolved; store: the host's, not to be followed, NULL when it is ours */
  tp_allocator allocator;
  tp_store store;
  const tp__layer_ops *layer_ops;
  tp__registry *registry;
  uint32_t helpers_max; /* share.h: how many engine workers may help one entry */
  int64_t search_ns;    /* how long an owner or helper looks for what may come before it sleeps */
  char turn_prefix[22]; /* of generated ids: "turn-", 16 digits, "-" */
  /* parts with a lock of their own */
  tp__thread_caches caches;
  tp__blocks blocks;
  tp__turn_table turn_table;
  tp__sched sched;
  tp__jobs jobs;
  void *layer; /* the layer above: set once by it */
  tp_breadcrumb *breadcrumbs; /* of the store, set by the start; NULL: it has none (breadcrumb.h) */
  /* atomic */
  tp__a32 life; /* tp__life; written under mutex */
  tp__a32 helpers_requested; /* helpers that were asked and have not left (share.c), at most helpers_max */
  tp__a32 stopped_subscriptions; /* subscriptions that are switched off or tripped: 0 is the common case */
  tp__a64 breakers_opened; /* relaxed: by themselves */
  tp__a64 attempts_shed, turns_shed; /* relaxed */
  tp__a64 shed_logged_ns;            /* relaxed: when it was logged that turns are refused */
  tp__a64 abandoned_bytes;
  tp__a64 denials, failures; /* relaxed */
  tp__a64 records_refused;   /* relaxed: in a row, by the host's store; 0: it took the last */
  tp__mutex payloads_mutex; /* call_payload.c: guards the growth of the lists of entries */
  tp__a64 abandoned_bytes_max; /* relaxed */
  tp__mutex mutex;
  tp__cond changed; /* a turn ended */
  /* under mutex */
  tp__link turns; /* those not in the turn table */
  uint32_t turn_counts[TP__TURN_KINDS]; /* of these */
  bool refuses_detached; /* a drain has waited for the last of them */
  uint32_t process_generation;
  bool store_opening, store_opened;
  bool audit_gives, audit_again; /* a thread gives audit rows to the store; and there is another one */
  tp__audit_cursor audit_cursor; /* that thread's */
  tp__thread *drain_thread; /* of a drain that was submitted; joined by the free */
  /* atomic */
  tp__a64 suspects_until_ns[TP_PHASE_LIMIT]; /* relaxed, rising: of phases in which a subscription failed (breaker.h) */
};

/** The runtime of an attempt or strand of its own. */
static inline tp_runtime *tp__sched_runtime(const tp__sched *sched) {
  return (tp_runtime *)(uintptr_t)TP__CONTAINER(sched, tp_runtime, sched);
}
static inline tp_runtime *tp__attempt_runtime(const tp__attempt *attempt) { return tp__sched_runtime(attempt->sched); }

tp_status tp__runtime_new(const tp_runtime_options *options, const tp__layer_ops *layer_ops, tp_runtime **ret_runtime,
                          tp_fault *fault);
/** Takes back a runtime that was never started, the host's store left alone. */
void tp__runtime_forget(tp_runtime *runtime);
/** Cancels every turn and every detached run. Any thread, without lock. */
void tp__runtime_cancel_all(tp_runtime *runtime);
/** A drain waits for what nobody tells it of: up to a millisecond. */
void tp__runtime_poll_interval(tp_runtime *runtime);
/** In the child of a fork the threads are not there, and a lock may be held for ever. */
bool tp__runtime_is_forked(const tp_runtime *runtime);
/** @return TP_ERR_FORKED. */
tp_status tp__fail_forked(tp_fault *fault);
/** TP_OK, or why nothing may be begun: FORKED, SHUTDOWN, or what starting the threads said. */
tp_status tp__runtime_ready(tp_runtime *runtime, tp_fault *fault);
/** So many calls wait for a handler thread that no turn begins (handler_queue_max). */
static inline bool tp__runtime_is_overloaded(const tp_runtime *runtime) {
  return tp__pool_queued_count(&runtime->sched.pool) >= runtime->options.handler_queue_max;
}
/** Counts a turn that does not begin for that reason, and logs the first of ten seconds. @return TP_ERR_FULL. */
tp_status tp__runtime_refuse_turn(tp_runtime *runtime, tp_fault *fault);
/** TP_OK; why nothing may be asked of the runtime: FORKED, or SHUTDOWN when it was freed. */
tp_status tp__runtime_usable(const tp_runtime *runtime, tp_fault *fault);
/** TP_ERR_USAGE on a thread that is inside a handler or a callback of this runtime: it must not wait. */
tp_status tp__may_block(const tp_runtime *runtime, tp_fault *fault, const char *what);
/** The same, and the calling thread is the owner of a turn until tp__inside_leave(frame). */
tp_status tp__become_owner(const tp_runtime *runtime, tp__inside *frame, tp_fault *fault, const char *what);
/** Around each call of a function of the store, which must not wait for the runtime that calls it:
 *  `status = tp__store_left(&frame, store->commit(tp__store_enter(&frame, runtime), fault))`.
 *  @return the store's self. */
static inline void *tp__store_enter(tp__inside *frame, const tp_runtime *runtime) {
  tp__inside_enter(frame, runtime, TP__INSIDE_CALLBACK);
  return runtime->store.self;
}
static inline tp_status tp__store_left(const tp__inside *frame, tp_status status) {
  tp__inside_leave(frame);
  return status;
}
/** Commits what the store was given. Blocks. */
tp_status tp__store_commit(tp_runtime *runtime, tp_fault *fault);
/** Gives the store the record of a turn. process_run_id is set here. */
void tp__turn_record_give(tp_runtime *runtime, tp_turn_record *record);
/** Gives the store the audit rows that it does not have yet, where it takes them and is open. */
void tp__audit_give(tp_runtime *runtime);
/** What a log record is about; what is not known stays zero. */
typedef struct tp__log_subject {
  tp_status status;
  uint32_t phase;
  const char *subscription;
  const tp_text *ids; /* TP_ID_COUNT of them; NULL: none */
} tp__log_subject;
/** @param subject  may be NULL. */
void tp__log(const tp_runtime *runtime, tp_log_level level, const tp__log_subject *subject, const char *format, ...)
    TP__PRINTF(4, 5);
/** How many detached runs may be open, and how many closing turns. */
static inline uint32_t tp__detached_max(const tp_runtime *runtime) {
  return runtime->options.turns_max > 1024 ? runtime->options.turns_max : 1024;
}
static inline int64_t tp__later_ns(int64_t a_ns, int64_t b_ns) { return a_ns > b_ns ? a_ns : b_ns; }
/** The time-stamp that the options ask for; without time-stamps the last one. */
static inline int64_t tp__stamp(const tp_runtime *runtime, int64_t last_ns) {
  return runtime->options.timestamps == TP_TIMESTAMPS_OFF ? last_ns : tp__now_ns();
}

#endif
