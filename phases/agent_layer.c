/* SPDX-License-Identifier: Apache-2.0
 *
 * The birth of a runtime with this layer on it. */
#include "phases/contribution.h"
#include "phases/people.h"
#include "phases/phases.h"
#include "phases/session.h"
#include "phases/sets.h"
#include "phases/tools.h"
#include "phases/turn.h"
#include "runtime/exec/report.h"
#include "runtime/exec/thread_cache.h"
#include "runtime/exec/turn_table.h"
#include "turnphase/inspect.h"

/* Turns that their host never ended: nothing of them is under way any more. */
static void end_turn(void *ctx, tp__turn *core) {
  (void)ctx;
  assert(core->kind == TP__TURN_HELD);
  tp_turn_end(tp__turn_of(core));
}

tp__listeners *tp__layer_listeners(const tp_runtime *runtime) {
  return &((tp__agent_layer *)tp__runtime_layer(runtime))->listeners;
}

tp__tool_permits *tp__layer_tool_permits(const tp_runtime *runtime) {
  return &((tp__agent_layer *)tp__runtime_layer(runtime))->tool_permits;
}

tp__agents *tp__layer_agents(const tp_runtime *runtime) {
  return &((tp__agent_layer *)tp__runtime_layer(runtime))->agents;
}

tp__sessions *tp__layer_sessions(const tp_runtime *runtime) {
  return &((tp__agent_layer *)tp__runtime_layer(runtime))->sessions;
}

static void free_sessions(tp_runtime *runtime) {
  tp__sessions_free_all(tp__layer_sessions(runtime));
  tp__agents_free_all(tp__layer_agents(runtime));
}

/* A handler that was abandoned may hold a session that it opened: then these stay as long as it runs. */
static void free_layer(tp_runtime *runtime) {
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  if (!layer) return;
  tp__turn_table_each(tp__runtime_turn_table(runtime), end_turn, NULL);
  for (uint32_t kind = 0; kind < TP__TURN_KINDS; kind++) assert(tp__runtime_listed_count(runtime, kind) == 0);
  if (tp__pool_thread_count(&tp__runtime_sched(runtime)->pool) == 0) free_sessions(runtime);
  tp__listeners_drop(&layer->listeners, &layer->listeners.of_runtime);
  tp_shared_history_unref(tp__runtime_options(runtime)->shared_history);
}

/* Permits are counted by abandoned attempts till the last of them is out. */
static void free_last(tp_runtime *runtime) {
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  free_sessions(runtime);
  tp__tool_permits_fini(&layer->tool_permits);
  tp__sessions_fini(&layer->sessions);
  tp__agents_fini(&layer->agents);
  tp__listeners_fini(&layer->listeners);
  tp__tasks_fini(&layer->tasks, tp__runtime_allocator(runtime));
  tp__breakers_fini(&layer->breakers);
  tp__admission_fini(&layer->admission);
  tp__budgets_fini(&layer->budgets);
  tp__release(tp__runtime_allocator(runtime), layer, sizeof *layer);
}

static void count(tp_runtime *runtime, tp_runtime_stats *stats) {
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  stats->sessions_open = tp__sessions_count(&layer->sessions);
  tp__admission_count(&layer->admission, &stats->turns_waiting, &stats->turns_refused);
  stats->turns_queued = tp__thread_caches_sum(tp__runtime_caches(runtime), TP__COUNT_QUEUED);
  stats->turns_completed = tp__thread_caches_sum(tp__runtime_caches(runtime), TP_TURN_COMPLETED);
  stats->turns_failed = tp__thread_caches_sum(tp__runtime_caches(runtime), TP_TURN_FAILED);
  stats->turns_denied = tp__thread_caches_sum(tp__runtime_caches(runtime), TP_TURN_DENIED);
  stats->turns_cancelled = tp__thread_caches_sum(tp__runtime_caches(runtime), TP_TURN_CANCELLED);
  stats->turns_timed_out = tp__thread_caches_sum(tp__runtime_caches(runtime), TP_TURN_TIMED_OUT);
}

static tp_status store_opened(tp_runtime *runtime, tp_fault *fault) {
  return tp__budgets_load(&tp__agent_layer_of(runtime)->budgets, fault);
}

static const tp__layer_ops above = {.rows = tp__phase_rows,
                                    .row_count = sizeof tp__phase_rows / sizeof *tp__phase_rows,
                                    .aliases = tp__phase_aliases,
                                    .alias_count = TP__PHASE_ALIAS_COUNT,
                                    .contributions = &tp__contribution_ops_phases,
                                    .turn_size = sizeof(tp_turn),
                                    .sets_write = tp__sets_write,
                                    .sets_read = tp__sets_read,
                                    .store_opened = store_opened,
                                    .close_all = tp__sessions_close_all,
                                    .close_last = tp__agents_unregister_all,
                                    .count = count,
                                    .job_notify = tp__listeners_notify_job,
                                    .free_layer = free_layer,
                                    .free_last = free_last};

static tp__agent_layer *new_layer(tp_runtime *runtime, const tp__allowance *of_tenant, const tp__allowance *of_all) {
  tp__agent_layer *layer = tp__alloc_zero(tp__runtime_allocator(runtime), sizeof *layer);
  if (!layer) return NULL;
  layer->runtime = runtime;
  for (int i = 0; i < TP__HISTORY_PERMITS; i++) tp__permits_init(&layer->history_permits[i]);
  layer->history_permits_max = (tp__history_threads(tp__runtime_options(runtime)->handler_threads) + 1) / 2;
  const struct {
    tp__mutex *mutex;
    tp__lock_rank rank;
  } locks[] = {{&layer->tasks.mutex, TP__RANK_tasks}};
  size_t count = sizeof locks / sizeof *locks, made = 0;
  while (made < count && tp__mutex_init(locks[made].mutex, locks[made].rank) == TP_OK) made++;
  const tp_runtime_options *options = tp__runtime_options(runtime);
  if (made == count && tp__breakers_init(&layer->breakers, tp__runtime_allocator(runtime), options->breaker_failures,
                                         options->breaker_open_ms) == TP_OK) {
    if (tp__admission_init(&layer->admission, runtime, options->turns_running_max, options->turns_waiting_max) ==
        TP_OK) {
      if (tp__budgets_init(&layer->budgets, runtime, of_tenant, of_all) == TP_OK) {
        if (tp__listeners_init(&layer->listeners, runtime, tp__logs_attempts(runtime)) == TP_OK) {
          if (tp__tool_permits_init(&layer->tool_permits, tp__runtime_allocator(runtime)) == TP_OK) {
            if (tp__agents_init(&layer->agents) == TP_OK) {
              if (tp__sessions_init(&layer->sessions, tp__runtime_allocator(runtime)) == TP_OK) return layer;
              tp__agents_fini(&layer->agents);
            }
            tp__tool_permits_fini(&layer->tool_permits);
          }
          tp__listeners_fini(&layer->listeners);
        }
        tp__budgets_fini(&layer->budgets);
      }
      tp__admission_fini(&layer->admission);
    }
    tp__breakers_fini(&layer->breakers);
  }
  while (made > 0) tp__mutex_fini(locks[--made].mutex);
  tp__release(tp__runtime_allocator(runtime), layer, sizeof *layer);
  return NULL;
}

tp_status tp_runtime_new(const tp_runtime_options *options, tp_runtime **ret_runtime, tp_fault *fault) {
  tp_runtime *runtime;
  TP__TRY(tp__runtime_new(options, &above, &runtime, fault));
  const tp_runtime_options *read = tp__runtime_options(runtime);
  tp__allowance of_tenant, of_all;
  tp_status status =
      tp__people_check("tp_runtime_options", read->ask, read->ask_ctx, read->permission, read->permission_ctx, fault);
  if (status == TP_OK)
    status = tp__allowance_read(read->tenant_day_budget, "tp_runtime_options.tenant_day_budget", &of_tenant, fault);
  if (status == TP_OK) status = tp__allowance_read(read->day_budget, "tp_runtime_options.day_budget", &of_all, fault);
  if (status != TP_OK) {
    tp__runtime_free_unstarted(runtime);
    return status;
  }
  tp__runtime_layer_set(runtime, new_layer(runtime, &of_tenant, &of_all));
  if (!tp__runtime_layer(runtime)) {
    tp__runtime_free_unstarted(runtime);
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the runtime");
  }
  (void)tp_shared_history_ref(tp__runtime_options(runtime)->shared_history);
  *ret_runtime = runtime;
  return TP_OK;
}
