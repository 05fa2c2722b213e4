/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime_api.c: the functions of the runtime's public API that only call another module. In the child of a fork they
 * fail. */
#include "runtime/exec/backlog.h"
#include "runtime/exec/runtime_object.h"

/* A reader changes nothing that its caller can see, but it takes locks. */
static tp_runtime *writable(const tp_runtime *runtime) { return (tp_runtime *)(uintptr_t)runtime; }

tp_status tp_edit_begin(tp_runtime *runtime, const tp_owner *owner, tp_edit **ret_edit, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  return tp__edit_new(runtime->registry, owner, ret_edit, fault);
}

tp_status tp_inbox_new(tp_runtime *runtime, const tp_inbox_options *options, tp_inbox **ret_inbox, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  return tp__inbox_new(&runtime->allocator, runtime->registry, options, runtime->options.deferred_max, ret_inbox,
                       fault);
}

tp_status tp_hook_add(tp_runtime *runtime, const tp_hook *hook, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  return tp__hook_add(runtime->registry, hook, fault);
}

tp_status tp_guard_add(tp_runtime *runtime, const char *id, const char *phase, tp_handler_fn run, void *ctx,
                       tp_fault *fault) {
  const tp_hook guard = {
      .struct_size = sizeof guard, .id = id, .phase = phase, .run = run, .ctx = ctx, .failure = TP_FAILURE_REQUIRED};
  return tp_hook_add(runtime, &guard, fault);
}

tp_status tp_hook_remove(tp_runtime *runtime, const char *id, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  return tp__hook_remove(runtime->registry, id, fault);
}

static tp_status switch_subscription(tp_runtime *runtime, const char *subscription, tp__operator_switch which, bool on,
                                     tp_fault *fault) {
  TP__TRY(tp__runtime_usable(runtime, fault));
  /* The count is raised before the switch is set, and lowered after it is unset. So an entry that reads the count 0
   * need not look at the switches. */
  if (on) tp__a32_add_relaxed(&runtime->breaker_state.stopped_subscriptions, 1);
  bool was_on = false;
  tp_status status = tp__registry_switch(runtime->registry, subscription, which, on, &was_on, fault);
  if (on && (status != TP_OK || was_on)) tp__a32_sub_acq_rel(&runtime->breaker_state.stopped_subscriptions, 1);
  if (!on && status == TP_OK && was_on) tp__a32_sub_acq_rel(&runtime->breaker_state.stopped_subscriptions, 1);
  return status;
}

tp_status tp_subscription_kill(tp_runtime *runtime, const char *subscription, bool killed, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  return switch_subscription(runtime, subscription, TP__SWITCH_KILL, killed, fault);
}

tp_status tp_subscription_trip(tp_runtime *runtime, const char *subscription, bool tripped, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  return switch_subscription(runtime, subscription, TP__SWITCH_TRIP, tripped, fault);
}

/* Reading the phases also works in the child of a fork. Only a runtime that was freed refuses it. */
static bool is_freed(const tp_runtime *runtime) { return tp__a32_load_acquire(&runtime->state.life) == TP__LIFE_FREED; }

uint32_t tp_phase_find(const tp_runtime *runtime, const char *name_or_alias) {
  if (!runtime) return 0;
  if (is_freed(runtime)) return TP_PHASE_NONE;
  return tp__registry_phase_find(runtime->registry, name_or_alias);
}

const tp_phase *tp_phase_get(const tp_runtime *runtime, uint32_t phase) {
  if (!runtime) return NULL;
  if (is_freed(runtime)) return NULL;
  return tp__registry_phase(runtime->registry, phase);
}

tp_status tp_plan_print(const tp_runtime *runtime, uint32_t phase, tp_plan_format format, tp_print_fn print,
                        void *ctx) {
  if (!runtime) return tp__fail_null(NULL, "runtime");
  TP__TRY(tp__runtime_usable(runtime, NULL));
  tp__inside frame;
  tp__inside_enter(&frame, writable(runtime), TP__INSIDE_CALLBACK);
  tp_status result = tp__plan_print(runtime->registry, phase, format, print, ctx);
  tp__inside_leave(&frame);
  return result;
}

tp_status tp_phases_print(const tp_runtime *runtime, tp_plan_format format, tp_print_fn print, void *ctx) {
  if (!runtime) return tp__fail_null(NULL, "runtime");
  TP__TRY(tp__runtime_usable(runtime, NULL));
  tp__inside frame;
  tp__inside_enter(&frame, writable(runtime), TP__INSIDE_CALLBACK);
  tp_status result = tp__phases_print(runtime->registry, format, print, ctx);
  tp__inside_leave(&frame);
  return result;
}

tp_status tp_runtime_subscriptions(const tp_runtime *runtime, const tp_subscription_query *query,
                                   tp_subscription_fn each, void *ctx, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  tp__inside frame;
  tp__inside_enter(&frame, writable(runtime), TP__INSIDE_CALLBACK);
  tp_status result = tp__registry_subscriptions(runtime->registry, query, each, ctx, fault);
  tp__inside_leave(&frame);
  return result;
}

size_t tp_runtime_audit(const tp_runtime *runtime, tp_visibility visibility_min, tp_audit_fn each, void *ctx) {
  if (!runtime) return 0;
  if (tp__runtime_usable(runtime, NULL) != TP_OK) return 0;
  tp__inside frame;
  tp__inside_enter(&frame, writable(runtime), TP__INSIDE_CALLBACK);
  size_t result = tp__registry_audit(runtime->registry, visibility_min, each, ctx);
  tp__inside_leave(&frame);
  return result;
}

tp_status tp_runtime_audit_add(tp_runtime *runtime, const char *owner, const char *action, tp_text detail,
                               tp_status decision, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  tp__mutex_lock(&runtime->mutex);
  runtime->audit_added = true;
  tp__mutex_unlock(&runtime->mutex);
  return tp__registry_audit_add(runtime->registry, owner, action, detail, decision, fault);
}

static tp_status lacks(const tp_runtime *runtime, const char *function, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_STORE, runtime->store.name, "the store has no function `%s`", function);
}

/** The rows that a reader of records sees: those that are not below a visibility. */
typedef struct visible_records {
  tp_visibility min;
  tp_record_fn each;
  void *ctx;
  const tp_entry_record *entry;
  size_t row, index; /* the row of the entry where the search goes on; it is the index-th visible one */
} visible_records;

static bool is_visible(const visible_records *v, size_t row) {
  tp_run_record run = {.struct_size = sizeof run};
  return v->entry->run(v->entry->source, row, &run) && run.visibility >= v->min;
}

static bool visible_run(const void *source, size_t index, tp_run_record *record) {
  visible_records *v = (visible_records *)(uintptr_t)source;
  if (index < v->index) v->row = v->index = 0;
  for (; v->row < v->entry->run_count; v->row++) {
    if (!is_visible(v, v->row)) continue;
    if (v->index == index) return v->entry->run(v->entry->source, v->row, record);
    v->index++;
  }
  v->row = v->index = 0;
  return false;
}

static bool show_visible(void *ctx, const tp_entry_record *entry) {
  visible_records *v = ctx;
  tp_entry_record shown = *entry;
  v->entry = entry;
  v->row = v->index = 0;
  shown.struct_size = sizeof shown;
  shown.run_count = 0;
  for (size_t row = 0; row < entry->run_count; row++) shown.run_count += is_visible(v, row);
  shown.run = visible_run;
  shown.source = v;
  return v->each(v->ctx, &shown);
}

static tp_status check_visibility(const tp_record_query *query, uint32_t *ret_min, tp_fault *fault) {
  tp_record_query known;
  TP__TRY(tp__options_read(&known, sizeof known, query, "tp_record_query", fault));
  if (known.reserved_ != 0) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_record_query.reserved_ must be zero");
  if (known.visibility_min > TP_VISIBILITY_USER_VISIBLE)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_record_query: visibility_min %u is no visibility",
                    known.visibility_min);
  *ret_min = known.visibility_min;
  return TP_OK;
}

tp_status tp_runtime_records(const tp_runtime *runtime, const tp_record_query *query, tp_record_fn each, void *ctx,
                             tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  static const tp_record_query all = {.struct_size = sizeof all};
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!runtime->store.records) return lacks(runtime, "records", fault);
  if (!query) query = &all;
  uint32_t min = 0;
  TP__TRY(check_visibility(query, &min, fault));
  visible_records visible = {.min = (tp_visibility)min, .each = each, .ctx = ctx};
  tp__inside frame;
  void *store_ctx = tp__store_enter(&frame, runtime);
  tp_status status = min ? runtime->store.records(store_ctx, query, show_visible, &visible, fault)
                         : runtime->store.records(store_ctx, query, each, ctx, fault);
  return tp__store_left(&frame, status);
}

static tp_status check_turn_query(const tp_turn_query *query, tp_fault *fault) {
  tp_turn_query known;
  TP__TRY(tp__options_read(&known, sizeof known, query, "tp_turn_query", fault));
  return known.reserved_ ? tp__fail(fault, TP_ERR_USAGE, NULL, "tp_turn_query.reserved_ must be zero") : TP_OK;
}

static const tp_turn_query all_turns = {.struct_size = sizeof all_turns};

tp_status tp_runtime_turns(const tp_runtime *runtime, const tp_turn_query *query, tp_turn_record_fn each, void *ctx,
                           tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!runtime->store.turns) return lacks(runtime, "turns", fault);
  if (query) TP__TRY(check_turn_query(query, fault));
  tp__inside frame;
  void *store = tp__store_enter(&frame, runtime);
  return tp__store_left(&frame, runtime->store.turns(store, query ? query : &all_turns, each, ctx, fault));
}

tp_status tp_runtime_turns_running(const tp_runtime *runtime, const tp_turn_query *query, tp_turn_record_fn each,
                                   void *ctx, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!runtime->store.turns_running) return lacks(runtime, "turns_running", fault);
  if (query) TP__TRY(check_turn_query(query, fault));
  tp__inside frame;
  void *store = tp__store_enter(&frame, runtime);
  return tp__store_left(&frame, runtime->store.turns_running(store, query ? query : &all_turns, each, ctx, fault));
}

tp_status tp_runtime_records_commit(tp_runtime *runtime, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!runtime->store.commit) return TP_OK;
  tp__inside frame;
  return tp__store_left(&frame, runtime->store.commit(tp__store_enter(&frame, runtime), fault));
}

tp_status tp_jobs_list(const tp_runtime *runtime, const tp_job_query *query, tp_job_each_fn each, void *ctx,
                       tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  static const tp_job_query all = {.struct_size = sizeof all};
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!runtime->store.jobs) return lacks(runtime, "jobs", fault);
  tp__inside frame;
  return tp__store_left(&frame,
                        runtime->store.jobs(tp__store_enter(&frame, runtime), query ? query : &all, each, ctx, fault));
}

/* Calls a function of the store that changes one job. The change may make another job claimable. */
static tp_status change_job(tp_runtime *runtime,
                            tp_status (*change)(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault),
                            const char *function, uint64_t id, tp_fault *fault) {
  if (!change) return lacks(runtime, function, fault);
  tp__inside frame;
  tp_status status = tp__store_left(&frame, change(tp__store_enter(&frame, runtime), id, tp__unix_ms(), fault));
  if (status == TP_OK) tp__jobs_wake(&runtime->jobs);
  if (status == TP_OK) tp__backlog_offer(runtime);
  return status;
}

tp_status tp_job_redrive(tp_runtime *runtime, uint64_t id, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  return change_job(runtime, runtime->store.job_redrive, "job_redrive", id, fault);
}

tp_status tp_job_discard(tp_runtime *runtime, uint64_t id, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  return change_job(runtime, runtime->store.job_discard, "job_discard", id, fault);
}

size_t tp_runtime_leaks(const tp_runtime *runtime, bool (*each)(void *ctx, const tp_leak *leak), void *ctx) {
  if (!runtime) return 0;
  if (tp__runtime_usable(runtime, NULL) != TP_OK) return 0;
  tp__inside frame;
  tp__inside_enter(&frame, writable(runtime), TP__INSIDE_CALLBACK);
  size_t result = tp__pool_leaks(&writable(runtime)->sched.pool, each, ctx);
  tp__inside_leave(&frame);
  return result;
}

tp_status tp_jobs_wait(tp_runtime *runtime, const char *order_key, uint32_t limit_ms, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__may_block(runtime, fault, "tp_jobs_wait"));
  tp_fault why = {0};
  tp_status ready = tp__runtime_ready(runtime, &why); /* one that was drained can still be asked */
  if (ready != TP_OK && ready != TP_ERR_SHUTDOWN) {
    if (fault) *fault = why;
    return ready;
  }
  tp_status status =
      tp__jobs_wait(&runtime->jobs, tp_text_of(order_key), tp__deadline_after_ms(tp__now_ns(), limit_ms));
  if (status == TP_ERR_TIMEOUT) return tp__fail(fault, status, NULL, "jobs are still open after %u ms", limit_ms);
  return status == TP_OK ? TP_OK : tp__fail(fault, status, NULL, "the store cannot say which jobs are open");
}

tp_status tp_jobs_wait_submit(tp_runtime *runtime, const char *order_key, uint32_t limit_ms, tp_jobs_wait_fn on_end,
                              void *ctx, tp_fault *fault) {
  if (!on_end) return tp__fail(fault, TP_ERR_USAGE, NULL, "on_end is missing: nothing else says when no job is open");
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__runtime_ready(runtime, fault));
  int64_t deadline_ns = tp__deadline_after_ms(tp__now_ns(), limit_ms);
  tp_status status = tp__jobs_wait_submit(&runtime->jobs, tp_text_of(order_key), deadline_ns, on_end, ctx);
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status, NULL, "the wait for jobs was not begun: %s", tp_status_text(status));
}

static void count_all(tp_runtime *runtime, tp_runtime_stats *all) {
  all->turns_open = tp__turn_table_count(&runtime->turn_table, TP__TURN_DRIVEN);
  all->turns_open += tp__turn_table_count(&runtime->turn_table, TP__TURN_HELD);
  all->tokens_open = tp__a32_load_relaxed(&runtime->sched.tokens_open);
  all->attempts_abandoned = tp__pool_leaks(&runtime->sched.pool, NULL, NULL);
  all->handler_threads = tp__pool_thread_count(&runtime->sched.pool);
  all->attempts_waiting = tp__pool_waiting_count(&runtime->sched.pool);
  tp__job_counts jobs = tp__jobs_counts(&runtime->jobs);
  all->jobs_run = jobs.run;
  all->jobs_open = jobs.open;
  all->jobs_dead = jobs.dead;
  all->jobs_refused = jobs.refused;
  all->jobs_postponed = jobs.postponed;
  all->jobs_shed = jobs.shed;
  all->jobs_in_line = jobs.in_line;
  all->denials = tp__a64_load_relaxed(&runtime->counters.denials);
  all->failures = tp__a64_load_relaxed(&runtime->counters.failures);
  all->attempts_shed = tp__a64_load_relaxed(&runtime->counters.attempts_shed);
  all->breakers_opened = tp__a64_load_relaxed(&runtime->counters.breakers_opened);
  if (runtime->layer_ops->count) runtime->layer_ops->count(runtime, all);
  all->turns_refused += tp__a64_load_relaxed(&runtime->counters.turns_shed);
}

void tp_runtime_stats_get(const tp_runtime *runtime, tp_runtime_stats *stats) {
  if (!runtime) return;
  tp_runtime_stats all = {.struct_size = sizeof all};
  if (tp__runtime_usable(runtime, NULL) == TP_OK) count_all(writable(runtime), &all);
  (void)tp__shown_fill(stats, &all, sizeof all);
}
