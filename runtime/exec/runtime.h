/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime: the object that a host creates, as other files use it. They get its parts through the functions here; each
 * part has the lock that its own header names. The object itself is in runtime_object.h. */
#ifndef TP__RUNTIME_H
#define TP__RUNTIME_H

#include "runtime/plan/plan.h"
#include "runtime/sched/attempt.h"
#include "runtime/sched/sched.h"

struct tp__blocks;
struct tp__breaker_state;
struct tp__helpers;
struct tp__jobs;
struct tp__thread_caches;
struct tp__turn;
struct tp__turn_table;

/** Further things that a thread does inside of a runtime (sched.h). */
#define TP__THREAD_OPENS_STORE ((void *)(uintptr_t)4) /* is in the store's open or recover */

typedef enum tp__life {
  TP__LIFE_NEW = 0,
  TP__LIFE_STARTED = 1,
  TP__LIFE_DRAINING = 2, /* no new turns */
  TP__LIFE_STOPPING = 3, /* new operations of host-driven turns are refused as well */
  TP__LIFE_DRAINED = 4,
  TP__LIFE_FREED = 5 /* tp_runtime_free() was called: only destructors and abandoned handlers can still use it */
} tp__life;

/** How far the life of a runtime is. Each operation of a host reads it. It is the first member of the object, so that
 *  the read needs no call. */
typedef struct tp__runtime_state {
  tp__a32 life;                /* tp__life; written under the runtime's lock */
  uint32_t process_generation; /* set by the start, before life */
} tp__runtime_state;

/** The operations of the agent layer. */
typedef struct tp__layer_ops {
  const tp_phase *rows;
  size_t row_count;
  const tp__alias *aliases;
  size_t alias_count;
  const tp__contribution_ops *contributions;
  size_t turn_size; /* the size of its turns, whose first member is a tp__turn */
  /** Writes a version of the merged sets as one value; the second function reads it back. */
  void (*sets_write)(const void *sets, tp_writer *writer);
  bool (*sets_read)(tp__arena *arena, tp_text value, const void **ret_sets);
  /** Called when the store was opened and recovered, and nothing runs yet. If the result is not TP_OK, the start
   *  fails. */
  tp_status (*store_opened)(struct tp_runtime *runtime, tp_fault *fault);
  /** Called by a drain with this deadline: closes the open objects of the agent layer. Without lock, before turns are
   *  waited for. */
  void (*close_all)(struct tp_runtime *runtime, int64_t deadline_ns);
  /** Called by a drain, when the open objects have ended: closes the objects that they used. Blocks. */
  void (*close_last)(struct tp_runtime *runtime);
  /** Fills what it counts in statistics. */
  void (*count)(struct tp_runtime *runtime, struct tp_runtime_stats *stats);
  /** A background job was stored, or an attempt of it has ended. The job has no payload here. Called without lock. */
  void (*job_notify)(struct tp_runtime *runtime, const tp_job *job);
  /** Called by tp_runtime_free() before the rest is freed: frees the open objects of the agent layer. */
  void (*free_layer)(struct tp_runtime *runtime);
  /** Frees runtime->layer itself, when no attempt is left that could read it. */
  void (*free_last)(struct tp_runtime *runtime);
} tp__layer_ops;

/** The counters of a runtime, for statistics and bounds; relaxed, except abandoned_bytes. */
typedef struct tp__counters {
  tp__a64 breakers_opened; /* by themselves */
  tp__a64 attempts_shed, turns_shed;
  tp__a64 denials, failures;
  tp__a64 records_refused; /* refusals in a row by the host's store; 0: it stored the last record */
  /* bytes of attempts that still run although they were abandoned, and the bound up to which such attempts get
   * replacement threads */
  tp__a64 abandoned_bytes, abandoned_bytes_max;
} tp__counters;

/* The parts of a runtime, which are there as long as it is. */

/** The options as the host gave them, resolved. But do not use `store`: it may point to an object that no longer
 *  exists. */
const tp_runtime_options *tp__runtime_options(const tp_runtime *runtime);
const tp_allocator *tp__runtime_allocator(const tp_runtime *runtime);
const tp__redactor *tp__runtime_redactor(const tp_runtime *runtime);
const tp_store *tp__runtime_store(const tp_runtime *runtime);
tp__registry *tp__runtime_registry(const tp_runtime *runtime);
const tp__layer_ops *tp__runtime_layer_ops(const tp_runtime *runtime);
/** What the agent layer set, once. */
void *tp__runtime_layer(const tp_runtime *runtime);
void tp__runtime_layer_set(tp_runtime *runtime, void *layer);
/** A random number that distinguishes what different processes store. */
uint64_t tp__runtime_run_id(const tp_runtime *runtime);
/** The process, as stores and shared histories see it. Never changes after the start. */
const tp_store_owner *tp__runtime_owner(const tp_runtime *runtime);
/** "turn-", 16 digits and "-". */
tp_text tp__runtime_turn_prefix(const tp_runtime *runtime);
struct tp__blocks *tp__runtime_blocks(tp_runtime *runtime);
const struct tp__thread_caches *tp__runtime_caches(const tp_runtime *runtime);
struct tp__turn_table *tp__runtime_turn_table(tp_runtime *runtime);
tp__sched *tp__runtime_sched(tp_runtime *runtime);
struct tp__jobs *tp__runtime_jobs(tp_runtime *runtime);
struct tp__helpers *tp__runtime_helpers(tp_runtime *runtime);
struct tp__breaker_state *tp__runtime_breaker_state(tp_runtime *runtime);
/** The store's breadcrumbs, TP__BREADCRUMBS of them; NULL: the store has none. */
tp_breadcrumb *tp__runtime_breadcrumbs(const tp_runtime *runtime);
tp__counters *tp__runtime_counters(tp_runtime *runtime);
/** Guards the growth of an entry's list of payloads (call_payload.c). */
tp__mutex *tp__runtime_payloads_mutex(tp_runtime *runtime);

/** The runtime of an attempt: the owner of its sched. */
static inline tp_runtime *tp__attempt_runtime(const tp__attempt *attempt) {
  return (tp_runtime *)(uintptr_t)attempt->sched->options.owner;
}

tp_status tp__runtime_new(const tp_runtime_options *options, const tp__layer_ops *layer_ops, tp_runtime **ret_runtime,
                          tp_fault *fault);
/** Frees a runtime that was never started. The host's store is not closed. */
void tp__runtime_free_unstarted(tp_runtime *runtime);
/** Cancels every turn and every detached run. Any thread, without lock. */
void tp__runtime_cancel_all(tp_runtime *runtime);
/** Has the store recover the sessions and jobs of processes that have ended, and logs the result. Blocks: as the store
 *  does. */
tp_status tp__runtime_recover(tp_runtime *runtime, tp_fault *fault);
/** Waits up to a millisecond, for a drain that waits for things that signal no end. In a pumped runtime the caller
 *  pumps. */
void tp__runtime_poll_interval(tp_runtime *runtime);
static inline const tp__runtime_state *tp__runtime_state_of(const tp_runtime *runtime) {
  return (const tp__runtime_state *)(const void *)runtime;
}
static inline tp__life tp__runtime_life(const tp_runtime *runtime) {
  return (tp__life)tp__a32_load_acquire(&tp__runtime_state_of(runtime)->life);
}
/** Whether this is the child of a fork: there the threads do not exist, and a lock may be held for ever. For a runtime
 *  that was started. */
static inline bool tp__runtime_is_of_parent(const tp_runtime *runtime) {
  return tp__runtime_state_of(runtime)->process_generation != tp__process_generation();
}
/** Counts a turn that is not in the turn table, and lists it until tp__runtime_delist().
 *  @param kind  tp__turn_kind.
 *  @return TP_OK; TP_ERR_SHUTDOWN, TP_ERR_FULL. */
tp_status tp__runtime_enlist(tp_runtime *runtime, struct tp__turn *turn, uint32_t kind);
void tp__runtime_delist(struct tp__turn *turn);
/** Says that a turn has ended: a waiting drain looks again at once. */
void tp__runtime_wake_drain(tp_runtime *runtime);
/** How many of a kind are listed. */
uint32_t tp__runtime_listed_count(tp_runtime *runtime, uint32_t kind);
/** Whether this is the child of a fork: there the threads do not exist, and a lock may be held for ever. */
bool tp__runtime_is_forked(const tp_runtime *runtime);
/** @return TP_ERR_FORKED. */
tp_status tp__fail_forked(tp_fault *fault);
/** TP_OK, or why nothing may begin: FORKED, SHUTDOWN, or the error with which the threads failed to start. */
tp_status tp__runtime_ready(tp_runtime *runtime, tp_fault *fault);
/** Whether so many calls wait for a handler thread (handler_queue_max) that no turn may begin. */
bool tp__runtime_is_overloaded(const tp_runtime *runtime);
/** Counts a turn that is refused for that reason, and logs one refusal in ten seconds. @return TP_ERR_FULL. */
tp_status tp__runtime_refuse_turn(tp_runtime *runtime, tp_fault *fault);
/** TP_OK, or why the runtime may not be used: FORKED, or SHUTDOWN when it was freed. */
tp_status tp__runtime_usable(const tp_runtime *runtime, tp_fault *fault);
/** TP_ERR_USAGE on a thread that is inside a handler or a callback of this runtime: such a thread must not wait. */
tp_status tp__may_block(const tp_runtime *runtime, tp_fault *fault, const char *what);
/** As tp__may_block(). Then the calling thread is the owner of a turn until tp__inside_leave(frame). */
tp_status tp__become_owner(const tp_runtime *runtime, tp__inside *frame, tp_fault *fault, const char *what);
/** Used around each call of a function of the store, because such a function must not wait for the runtime that calls
 *  it: `status = tp__store_left(&frame, store->commit(tp__store_enter(&frame, runtime), fault))`.
 *  @return the store's ctx. */
void *tp__store_enter(tp__inside *frame, const tp_runtime *runtime);
static inline tp_status tp__store_left(const tp__inside *frame, tp_status status) {
  tp__inside_leave(frame);
  return status;
}
/** The subject of a log record; unknown fields stay zero. */
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
uint32_t tp__detached_max(const tp_runtime *runtime);
static inline int64_t tp__later_ns(int64_t a_ns, int64_t b_ns) { return a_ns > b_ns ? a_ns : b_ns; }
/** The time-stamp, by tp_runtime_options.timestamps; when there are no time-stamps, the last one. */
static inline int64_t tp__stamp(tp_timestamps timestamps, int64_t last_ns) {
  return timestamps == TP_TIMESTAMPS_OFF ? last_ns : tp__now_ns();
}

#endif
