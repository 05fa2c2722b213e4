/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_layer.c: what phases adds to a runtime: the objects of its modules, made in the order of a table and freed in
 * the opposite one. No other file knows the struct: each object's header declares how to find it. */
#include "phases/session/admission.h"
#include "phases/turn/agents.h"
#include "phases/drive/breaker.h"
#include "phases/session/budget.h"
#include "phases/merge/contribution.h"
#include "phases/session/history_permits.h"
#include "phases/turn/listeners.h"
#include "phases/turn/people.h"
#include "phases/merge/phases.h"
#include "phases/session/session.h"
#include "phases/session/sessions.h"
#include "phases/merge/sets.h"
#include "phases/tools/task.h"
#include "phases/tools/tool_permits.h"
#include "phases/turn/turn.h"
#include "runtime/exec/exec.h"
#include "turnphase/inspect.h"

typedef struct agent_layer {
  tp_runtime *runtime;
  tp__allowance of_tenant, of_all; /* of a day */
  tp__breakers breakers;
  tp__admission admission;
  tp__budgets budgets;
  tp__listeners listeners;
  tp__tool_permits tool_permits;
  tp__agents agents;
  tp__sessions sessions;
  tp__tasks tasks;
  tp__history_permits history_permits;
} agent_layer;

/* ---- the objects ---- */

#define OBJECT(name) \
  tp__##name *tp__layer_##name(const tp_runtime *runtime) { return &((agent_layer *)tp__runtime_layer(runtime))->name; }
OBJECT(breakers)
OBJECT(admission)
OBJECT(budgets)
OBJECT(listeners)
OBJECT(tool_permits)
OBJECT(agents)
OBJECT(sessions)
OBJECT(tasks)
OBJECT(history_permits)
#undef OBJECT

static const tp_allocator *allocator_of(const agent_layer *l) { return tp__runtime_allocator(l->runtime); }
static const tp_runtime_options *options_of(const agent_layer *l) { return tp__runtime_options(l->runtime); }

static tp_status make_breakers(agent_layer *l) {
  return tp__breakers_init(&l->breakers, allocator_of(l), options_of(l)->breaker_failures,
                           options_of(l)->breaker_open_ms);
}
static tp_status make_admission(agent_layer *l) {
  return tp__admission_init(&l->admission, l->runtime, options_of(l)->turns_running_max,
                            options_of(l)->turns_waiting_max);
}
static tp_status make_budgets(agent_layer *l) {
  return tp__budgets_init(&l->budgets, l->runtime, &l->of_tenant, &l->of_all);
}
static tp_status make_listeners(agent_layer *l) {
  return tp__listeners_init(&l->listeners, l->runtime, tp__logs_attempts(l->runtime));
}
static tp_status make_tool_permits(agent_layer *l) { return tp__tool_permits_init(&l->tool_permits, allocator_of(l)); }
static tp_status make_agents(agent_layer *l) { return tp__agents_init(&l->agents); }
static tp_status make_sessions(agent_layer *l) { return tp__sessions_init(&l->sessions, allocator_of(l)); }
static tp_status make_tasks(agent_layer *l) { return tp__tasks_init(&l->tasks); }

static void free_breakers(agent_layer *l) { tp__breakers_fini(&l->breakers); }
static void free_admission(agent_layer *l) { tp__admission_fini(&l->admission); }
static void free_budgets(agent_layer *l) { tp__budgets_fini(&l->budgets); }
static void free_listeners(agent_layer *l) { tp__listeners_fini(&l->listeners); }
static void free_tool_permits(agent_layer *l) { tp__tool_permits_fini(&l->tool_permits); }
static void free_agents(agent_layer *l) { tp__agents_fini(&l->agents); }
static void free_sessions(agent_layer *l) { tp__sessions_fini(&l->sessions); }
static void free_tasks(agent_layer *l) { tp__tasks_fini(&l->tasks, allocator_of(l)); }

/* None of them needs another one that is made after it. */
static const struct {
  tp_status (*make)(agent_layer *l);
  void (*free)(agent_layer *l);
} objects[] = {
    {make_breakers, free_breakers},         {make_admission, free_admission},
    {make_budgets, free_budgets},           {make_listeners, free_listeners},
    {make_tool_permits, free_tool_permits}, {make_agents, free_agents},
    {make_sessions, free_sessions},         {make_tasks, free_tasks},
};
enum { OBJECTS = sizeof objects / sizeof *objects };

static void free_objects(agent_layer *l, size_t made) {
  while (made > 0) objects[--made].free(l);
  tp__release(allocator_of(l), l, sizeof *l);
}

/* @return NULL without memory, or a lock. */
static agent_layer *new_layer(tp_runtime *runtime, const tp__allowance *of_tenant, const tp__allowance *of_all) {
  agent_layer *l = tp__alloc_zero(tp__runtime_allocator(runtime), sizeof *l);
  if (!l) return NULL;
  l->runtime = runtime;
  l->of_tenant = *of_tenant;
  l->of_all = *of_all;
  tp__history_permits_init(&l->history_permits, options_of(l)->handler_threads);
  size_t made = 0;
  while (made < OBJECTS && objects[made].make(l) == TP_OK) made++;
  if (made == OBJECTS) return l;
  free_objects(l, made);
  return NULL;
}

/* ---- the end ---- */

/* Turns that their host never ended: nothing of them is under way any more. */
static void end_held_turn(void *ctx, tp__turn *core) {
  (void)ctx;
  assert(core->kind == TP__TURN_HELD);
  tp_turn_end(tp__turn_of(core));
}

static void give_up_handles(tp_runtime *runtime) {
  tp__sessions_free_all(tp__layer_sessions(runtime));
  tp__agents_free_all(tp__layer_agents(runtime));
}

/* A handler that was abandoned may hold a session that it opened: then these stay as long as it runs. */
static void free_layer(tp_runtime *runtime) {
  agent_layer *layer = tp__runtime_layer(runtime);
  if (!layer) return;
  tp__runtime_each_turn(runtime, end_held_turn, NULL);
  for (uint32_t kind = 0; kind < TP__TURN_KINDS; kind++) assert(tp__runtime_listed_count(runtime, kind) == 0);
  if (tp__pool_thread_count(&tp__runtime_sched(runtime)->pool) == 0) give_up_handles(runtime);
  tp__listeners_drop(&layer->listeners, &layer->listeners.of_runtime);
  tp_shared_history_unref(tp__runtime_options(runtime)->shared_history);
}

/* Permits are counted by abandoned attempts till the last of them is out. */
static void free_last(tp_runtime *runtime) {
  give_up_handles(runtime);
  free_objects(tp__runtime_layer(runtime), OBJECTS);
}

/* ---- what a runtime asks of it ---- */

static void count(tp_runtime *runtime, tp_runtime_stats *stats) {
  agent_layer *layer = tp__runtime_layer(runtime);
  stats->sessions_open = tp__sessions_count(&layer->sessions);
  tp__admission_count(&layer->admission, &stats->turns_waiting, &stats->turns_refused);
  stats->turns_queued = tp__runtime_counted(runtime, TP__COUNT_QUEUED);
  stats->turns_completed = tp__runtime_counted(runtime, TP_TURN_COMPLETED);
  stats->turns_failed = tp__runtime_counted(runtime, TP_TURN_FAILED);
  stats->turns_denied = tp__runtime_counted(runtime, TP_TURN_DENIED);
  stats->turns_cancelled = tp__runtime_counted(runtime, TP_TURN_CANCELLED);
  stats->turns_timed_out = tp__runtime_counted(runtime, TP_TURN_TIMED_OUT);
}

static tp_status store_opened(tp_runtime *runtime, tp_fault *fault) {
  return tp__budgets_load(tp__layer_budgets(runtime), fault);
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
