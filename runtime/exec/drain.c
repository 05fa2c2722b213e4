/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.c: the order of stopping: refuse new turns; close sessions; let turns end, then cancel them; let jobs and
 * detached runs end, then cancel them; stop the job thread, the timer, the engine workers, the handler threads. */
#include "runtime/exec/drain.h"

#include "runtime/base/bug.h"
#include "runtime/exec/record_commit.h"
#include "runtime/exec/runtime_object.h"

static void cancel_one(void *ctx, tp__turn *turn) {
  (void)ctx;
  tp__turn_cancel(turn);
}

void tp__runtime_cancel_all(tp_runtime *runtime) {
  tp__turn_table_each(&runtime->turn_table, cancel_one, NULL);
  tp__mutex_lock(&runtime->mutex);
  for (tp__link *link = runtime->turns.next; link != &runtime->turns; link = link->next)
    tp__turn_cancel(TP__CONTAINER(link, tp__turn, runtime_link));
  tp__mutex_unlock(&runtime->mutex);
}

static uint64_t count_locked(tp_runtime *runtime, tp__turn_kind kind) {
  TP__LOCKED(&runtime->mutex);
  return runtime->turn_counts[kind] + tp__turn_table_count(&runtime->turn_table, kind);
}

/* No signal tells the end of a turn in the turn table, or of an operation of a turn that its host drives. A drain is
 * rare, so it polls every millisecond. */
static void wait_poll_interval_locked(tp_runtime *runtime, int64_t deadline_ns) {
  TP__LOCKED(&runtime->mutex);
  int64_t next_ns = tp__now_ns() + TP__NS_PER_MS;
  tp__sched_wait_until(&runtime->sched, &runtime->changed, &runtime->mutex,
                       next_ns < deadline_ns ? next_ns : deadline_ns);
}

void tp__runtime_poll_interval(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  wait_poll_interval_locked(runtime, TP__NEVER);
  tp__mutex_unlock(&runtime->mutex);
}

/* @return how many turns of the kind were left when the time was up. */
static uint64_t wait_for_turns(tp_runtime *runtime, tp__turn_kind kind, int64_t deadline_ns) {
  uint64_t left;
  tp__mutex_lock(&runtime->mutex);
  while ((left = count_locked(runtime, kind)) > 0 && tp__now_ns() < deadline_ns)
    wait_poll_interval_locked(runtime, deadline_ns);
  tp__mutex_unlock(&runtime->mutex);
  return left;
}

static bool any_busy_locked(tp_runtime *runtime) {
  TP__LOCKED(&runtime->mutex);
  for (tp__link *link = runtime->turns.next; link != &runtime->turns; link = link->next)
    if (tp__a32_load_seq_cst(&TP__CONTAINER(link, tp__turn, runtime_link)->busy)) return true;
  return tp__turn_table_is_busy(&runtime->turn_table);
}

static bool any_busy(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  bool any = any_busy_locked(runtime);
  tp__mutex_unlock(&runtime->mutex);
  return any;
}

/* A turn that its host drives is ended by the host. The drain only waits for its running operation; after that no other
 * operation begins. */
static void wait_for_operations(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  while (any_busy_locked(runtime)) wait_poll_interval_locked(runtime, TP__NEVER);
  tp__mutex_unlock(&runtime->mutex);
}

static void drain_turns(tp_runtime *runtime, int64_t deadline_ns, tp_drain_report *report) {
  if (runtime->layer_ops->close_all) runtime->layer_ops->close_all(runtime, deadline_ns);
  report->turns_cancelled = wait_for_turns(runtime, TP__TURN_DRIVEN, deadline_ns);
  report->turns_cancelled += wait_for_turns(runtime, TP__TURN_HELD, deadline_ns);
  if (report->turns_cancelled > 0) {
    /* A turn that was beginning when the others were cancelled is cancelled in the next round. */
    do tp__runtime_cancel_all(runtime);
    while (!TP__BUG(TP__BUG_LEFT_QUEUED) && wait_for_turns(runtime, TP__TURN_DRIVEN, tp__now_ns() + TP__NS_PER_MS) > 0);
  }
}

/* A submitting thread marks the turn busy and then reads life. This function writes life and then reads the marks. All
 * of these are sequentially consistent, so the later thread sees the other's change, and nothing is left queued when
 * the workers stop. Only the drain pays for this: a submit reads a word that no other thread writes at that time. */
static void refuse_operations(tp_runtime *runtime) {
  tp__a32_exchange_seq_cst(&runtime->state.life, TP__LIFE_STOPPING); /* pairs with tp__turn_begin_operation */
}

/* @return how many detached and closing turns were left. */
static uint64_t wait_for_the_rest(tp_runtime *runtime, int64_t deadline_ns) {
  uint64_t left = wait_for_turns(runtime, TP__TURN_CLOSING, deadline_ns); /* these may still store jobs */
  return left + wait_for_turns(runtime, TP__TURN_DETACHED, deadline_ns);
}

static void count_jobs(tp_runtime *runtime, tp_drain_report *report) {
  tp__job_counts jobs = tp__jobs_counts(&runtime->jobs);
  report->jobs_dead = jobs.dead;
  if (runtime->store.durable) return;
  report->jobs_lost = jobs.open + jobs.interrupted;
  if (report->jobs_lost > 0)
    tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = TP_ERR_TIMEOUT},
            "%llu background jobs are lost, %llu of them while they ran: the drain's limit was over, and the store "
            "`%s` does not outlive the process",
            (unsigned long long)report->jobs_lost, (unsigned long long)jobs.interrupted, runtime->store.name);
}

static void commit_records(tp_runtime *runtime) {
  const tp_store *store = &runtime->store;
  tp_fault fault = {0};
  if (tp__store_commit(runtime, &fault) == TP_OK) return;
  tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = fault.code},
          "the store `%s` did not commit its records: %s", store->name, fault.message);
}

/* A function that was given up may go on for any time, and may ask a model or close a session.
 * @return true when no detached run is left; from here on none begins. */
static bool refuse_detached(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  bool none = count_locked(runtime, TP__TURN_CLOSING) + count_locked(runtime, TP__TURN_DETACHED) == 0;
  if (none) runtime->refuses_detached = true;
  tp__mutex_unlock(&runtime->mutex);
  return none;
}

static void drain_detached(tp_runtime *runtime, int64_t deadline_ns) {
  tp_store *store = &runtime->store;
  wait_for_the_rest(runtime, deadline_ns);
  if (!store->durable) (void)!tp__jobs_wait(&runtime->jobs, (tp_text){NULL, 0}, deadline_ns);
  if (wait_for_the_rest(runtime, deadline_ns) > 0) tp__runtime_cancel_all(runtime);
  tp__jobs_stop(&runtime->jobs); /* runs that it started meanwhile are cancelled and waited for */
  while (!refuse_detached(runtime)) {
    tp__runtime_cancel_all(runtime);
    if (TP__BUG(TP__BUG_LEFT_QUEUED)) return;
    wait_for_the_rest(runtime, TP__NEVER);
  }
}

static void set_life_locked(tp_runtime *runtime, tp__life life) {
  TP__LOCKED(&runtime->mutex);
  TP__ASSERT(tp__a32_load_relaxed(&runtime->state.life) <= (uint32_t)life); /* a life goes on, and not back */
  tp__a32_store_release(&runtime->state.life, life);
  tp__cond_broadcast(&runtime->changed);
  tp__sched_wake(&runtime->sched);
}

/* @return true for the first drain of a runtime that was started. Any other drain waits, and finds all of the work
 *   done. */
static bool begin_drain_locked(tp_runtime *runtime) {
  TP__LOCKED(&runtime->mutex);
  uint32_t life = tp__a32_load_relaxed(&runtime->state.life);
  if (life == TP__LIFE_NEW) {
    runtime->state.process_generation = tp__process_generation();
    set_life_locked(runtime, TP__LIFE_DRAINED);
  } else if (life == TP__LIFE_STARTED) {
    set_life_locked(runtime, TP__LIFE_DRAINING);
  }
  return life == TP__LIFE_STARTED;
}

/* Called after the turns of the agent layer have ended: from here on no operation begins. */
static void close_last(tp_runtime *runtime) {
  if (runtime->layer_ops->close_last) runtime->layer_ops->close_last(runtime);
  refuse_operations(runtime);
}

/* After the last operation has ended. */
static void drain_last(tp_runtime *runtime, int64_t deadline_ns, tp_drain_report *report) {
  drain_detached(runtime, deadline_ns);
  count_jobs(runtime, report);
  commit_records(runtime);
  tp__jobs_stop(&runtime->jobs);
  tp__sched_stop(&runtime->sched);
  tp__pool_stop(&runtime->sched.pool);
  tp__mutex_lock(&runtime->mutex);
  set_life_locked(runtime, TP__LIFE_DRAINED);
  tp__mutex_unlock(&runtime->mutex);
}

static void count_leaks(tp_runtime *runtime, tp_drain_report *report) {
  report->leaks = tp__pool_leaks(&runtime->sched.pool, NULL, NULL);
  report->complete = report->leaks == 0;
}

/* Called after begin_drain_locked(). is_first: the result of that function. */
static tp_drain_report drain_runtime(tp_runtime *runtime, bool is_first, int64_t deadline_ns) {
  tp_drain_report report = {.struct_size = sizeof report};
  if (is_first) {
    tp__turn_table_fence(&runtime->turn_table); /* from here on each turn that began is seen */
    drain_turns(runtime, deadline_ns, &report);
    wait_for_turns(runtime, TP__TURN_CLOSING, deadline_ns);
    close_last(runtime);
    if (!TP__BUG(TP__BUG_LEFT_QUEUED)) wait_for_operations(runtime);
    drain_last(runtime, deadline_ns, &report);
  } else {
    tp__mutex_lock(&runtime->mutex);
    while (tp__a32_load_relaxed(&runtime->state.life) != TP__LIFE_DRAINED)
      tp__sched_wait_until(&runtime->sched, &runtime->changed, &runtime->mutex, TP__NEVER);
    tp__mutex_unlock(&runtime->mutex);
  }
  count_leaks(runtime, &report);
  return report;
}

tp_status tp_runtime_drain(tp_runtime *runtime, uint32_t limit_ms, tp_drain_report *ret_report, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__may_block(runtime, fault, "tp_runtime_drain"));
  if (ret_report) TP__TRY(tp__size_check(ret_report, "tp_drain_report", fault));
  tp__mutex_lock(&runtime->mutex);
  bool is_first = begin_drain_locked(runtime);
  tp__mutex_unlock(&runtime->mutex);
  tp_drain_report report = drain_runtime(runtime, is_first, tp__deadline_after_ms(tp__now_ns(), limit_ms));
  if (ret_report) (void)tp__shown_fill(ret_report, &report, sizeof report);
  return TP_OK;
}

/* ---- a drain that was submitted ---- */

/* The stages of a drain in a pumped runtime. Between two steps the drain waits, so that the host can work: the host may
 * have to answer something that the drain waits for, and the pumping thread may be inside an operation that then waits
 * for its turn. The last step pumps, and waits for the cancelled work. It does not run above a function that waits,
 * because that function may be part of the work. */
enum drain_stage { DRAIN_CLOSES, DRAIN_WAITS, DRAIN_CANCELS, DRAIN_REFUSES, DRAIN_ENDS };

typedef struct tp__submitted_drain {
  tp_runtime *runtime;
  int64_t deadline_ns;
  tp_drain_end_fn on_end;
  void *ctx;
  /* under the runtime's lock */
  bool is_begun, is_first;
  /* of the thread that pumps */
  enum drain_stage stage;
  tp_drain_report report;
} submitted_drain;

static void drain_ended(submitted_drain *d, const tp_drain_report *report) {
  tp_runtime *runtime = d->runtime;
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  if (d->on_end) d->on_end(d->ctx, report);
  tp__inside_leave(&frame);
  tp__release(&runtime->allocator, d, sizeof *d);
}

static void drain_thread_run(void *arg) {
  submitted_drain *d = arg;
  tp_runtime *runtime = d->runtime;
  tp__mutex_lock(&runtime->mutex);
  while (!d->is_begun) tp__cond_wait_until(&runtime->changed, &runtime->mutex, TP__NEVER);
  bool is_first = d->is_first;
  tp__mutex_unlock(&runtime->mutex);
  tp_drain_report report = drain_runtime(runtime, is_first, d->deadline_ns);
  drain_ended(d, &report);
}

static uint64_t count(tp_runtime *runtime, tp__turn_kind kind) {
  tp__mutex_lock(&runtime->mutex);
  uint64_t left = count_locked(runtime, kind);
  tp__mutex_unlock(&runtime->mutex);
  return left;
}

/* Whether something is left for which a drain waits until its deadline. */
static bool drain_waits(tp_runtime *runtime, uint64_t turns) {
  if (turns > 0 || count(runtime, TP__TURN_CLOSING) > 0 || count(runtime, TP__TURN_DETACHED) > 0) return true;
  return !runtime->store.durable && tp__jobs_counts(&runtime->jobs).open > 0;
}

/* @return true when the drain is over and its report is complete. */
static bool drain_step(submitted_drain *d) {
  tp_runtime *runtime = d->runtime;
  uint64_t turns;
  switch (d->stage) {
    case DRAIN_CLOSES:
      tp__turn_table_fence(&runtime->turn_table); /* from here on each turn that began is seen */
      if (runtime->layer_ops->close_all) runtime->layer_ops->close_all(runtime, d->deadline_ns);
      d->stage = DRAIN_WAITS;
      return false;
    case DRAIN_WAITS:
      turns = count(runtime, TP__TURN_DRIVEN) + count(runtime, TP__TURN_HELD);
      if (tp__now_ns() < d->deadline_ns && drain_waits(runtime, turns)) return false;
      d->report.turns_cancelled = turns;
      d->stage = turns > 0 ? DRAIN_CANCELS : DRAIN_REFUSES;
      return false;
    case DRAIN_CANCELS:
      tp__runtime_cancel_all(runtime); /* a turn that was beginning then is cancelled in the next round */
      if (count(runtime, TP__TURN_DRIVEN) + count(runtime, TP__TURN_CLOSING) == 0) d->stage = DRAIN_REFUSES;
      return false;
    case DRAIN_REFUSES:
      if (tp__pump_is_nested(&runtime->sched.pump)) return false;
      close_last(runtime);
      d->stage = DRAIN_ENDS;
      return false;
    case DRAIN_ENDS:
      if (tp__pump_is_nested(&runtime->sched.pump)) return false;
      if (!TP__BUG(TP__BUG_LEFT_QUEUED) && any_busy(runtime)) return false;
      drain_last(runtime, d->deadline_ns, &d->report);
      return true;
  }
  return true;
}

/* The last step pumps; when this function is called again from there, it finds no drain. */
bool tp__drain_pump(tp_runtime *runtime, int64_t *ret_next_ns) {
  tp__mutex_lock(&runtime->mutex);
  submitted_drain *d = runtime->pumped_drain;
  runtime->pumped_drain = NULL;
  bool drained = tp__a32_load_relaxed(&runtime->state.life) == TP__LIFE_DRAINED;
  tp__mutex_unlock(&runtime->mutex);
  if (!d) return false;
  enum drain_stage stage = d->stage;
  bool ended = d->is_first ? drain_step(d) : drained;
  if (ended) {
    count_leaks(runtime, &d->report);
    drain_ended(d, &d->report);
    return true;
  }
  bool waits = !d->is_first || d->stage == stage;
  tp__mutex_lock(&runtime->mutex);
  runtime->pumped_drain = d;
  tp__mutex_unlock(&runtime->mutex);
  if (waits) *ret_next_ns = tp__now_ns() + TP__NS_PER_MS;
  return !waits;
}

/* The thread is started before anything is refused. So when no thread can be started, nothing has changed. */
tp_status tp_runtime_drain_submit(tp_runtime *runtime, uint32_t limit_ms, tp_drain_end_fn on_end, void *ctx,
                                  tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  submitted_drain *d = tp__alloc_zero(&runtime->allocator, sizeof *d);
  if (!d) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a drain");
  *d = (submitted_drain){.runtime = runtime,
                         .deadline_ns = tp__deadline_after_ms(tp__now_ns(), limit_ms),
                         .on_end = on_end,
                         .ctx = ctx,
                         .report = {.struct_size = sizeof(tp_drain_report)}};
  tp__mutex_lock(&runtime->mutex);
  tp_status status = runtime->drain_submitted ? TP_ERR_BUSY : TP_OK;
  if (status == TP_OK && runtime->options.pump) {
    status = tp__pump_open(&runtime->sched.pump); /* it may not have been started */
    if (status == TP_OK) runtime->pumped_drain = d;
  } else if (status == TP_OK)
    status = tp__thread_start(&runtime->allocator, "tp-drain", drain_thread_run, d, &runtime->drain_thread);
  if (status == TP_OK) {
    runtime->drain_submitted = true;
    d->is_first = begin_drain_locked(runtime);
    d->is_begun = true;
    tp__cond_broadcast(&runtime->changed);
    tp__sched_wake(&runtime->sched);
  }
  tp__mutex_unlock(&runtime->mutex);
  if (status == TP_OK) return TP_OK;
  tp__release(&runtime->allocator, d, sizeof *d);
  bool busy = status == TP_ERR_BUSY;
  return tp__fail(fault, status, NULL, busy ? "a drain was submitted before" : "no thread for a drain");
}

void tp__drain_join(tp_runtime *runtime) {
  int64_t next_ns;
  tp__mutex_lock(&runtime->mutex);
  tp__thread *thread = runtime->drain_thread;
  runtime->drain_thread = NULL;
  tp__mutex_unlock(&runtime->mutex);
  if (thread) tp__thread_join(thread);
  while (tp__drain_pump(runtime, &next_ns)) {}
}
