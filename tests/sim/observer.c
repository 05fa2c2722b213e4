/* SPDX-License-Identifier: Apache-2.0
 *
 * observer.c: a thread that reads everything readable of a working runtime: records, leaks, the audit, counters, plans,
 * phases, whether background work is done. It also adds and removes listeners for the runtime's events. The answers
 * must be consistent at any time. */
#include "world.h"

static bool ids_are_whole(const tp_entry_record *record) {
  for (int i = 0; i < TP_ID_COUNT; i++)
    if (record->ids[i].size && !record->ids[i].data) return false;
  return true;
}

static bool look_at_record(void *ctx, const tp_entry_record *record) {
  world *w = ctx;
  if (!record->entry_id || !record->phase || record->ended_ns < record->started_ns || !ids_are_whole(record))
    world_fail(w, "a record is whole", "entry %llu", (unsigned long long)record->entry_id);
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    bool shown = record->run(record->source, i, &run);
    if (!shown || !run.subscription || !*run.subscription || run.state < TP_STATE_SUCCEEDED)
      world_fail(w, "a record is whole", "row %zu of entry %llu", i, (unsigned long long)record->entry_id);
  }
  return tp__sim_random(8) > 0;
}

static bool look_at_leak(void *ctx, const tp_leak *leak) {
  if (!leak->subscription || !*leak->subscription || leak->running_ms < 0)
    world_fail(ctx, "a leak is named", "it runs for %lld ms", (long long)leak->running_ms);
  return true;
}

/* All data is of one version: whatever is committed meanwhile, the order in a plan has no gap and no repetition. */
typedef struct register_look {
  world *w;
  tp_phase_id phase;
  uint32_t order; /* the order of the run before, in this phase */
  bool disabled;
} register_look;

static bool look_at_subscription(void *ctx, const tp_subscription_info *info) {
  register_look *l = ctx;
  bool new_phase = info->phase != l->phase;
  if (new_phase && info->phase < l->phase) world_fail(l->w, "phases are walked in order", "%s", info->id);
  if (new_phase) l->order = 0;
  if (new_phase) l->disabled = false;
  l->phase = info->phase;
  bool whole = *info->id && *info->handler && *info->owner && *info->phase_name && info->alias && info->limit_ms;
  bool in_place = info->disabled ? info->order == 0 && info->level == -1
                                 : info->order == l->order + 1 && info->level >= 0 && !l->disabled;
  if (!whole || !in_place) world_fail(l->w, "a subscription is shown whole and in its place", "%s", info->id);
  l->order = info->order;
  l->disabled = info->disabled;
  tp__sim_sleep_ns((int64_t)tp__sim_random(2) * 1000); /* time for a commit in between */
  return tp__sim_random(32) > 0;
}

static void look_at_registered(world *w) {
  register_look l = {.w = w};
  world_check_status(w, "tp_runtime_subscriptions",
                     tp_runtime_subscriptions(w->runtime, NULL, look_at_subscription, &l, NULL));
}

static bool look_at_audit(void *ctx, const tp_audit *row) {
  if (!row->owner || !row->action || !*row->action || !row->detail)
    world_fail(ctx, "an audit row is whole", "%s", tp_status_name(row->status));
  return tp__sim_random(16) > 0;
}

static void count_text(void *ctx, const char *text, size_t size) {
  (void)text;
  *(size_t *)ctx += size;
}

static void print_something(world *w) {
  size_t size = 0;
  bool plans = tp__sim_random(2);
  tp_plan_format format = (tp_plan_format)tp__sim_random(plans ? 3 : 2);
  tp_status status = plans ? tp_plan_print(w->runtime, TP_PHASE_NONE, format, count_text, &size)
                           : tp_phases_print(w->runtime, format, count_text, &size);
  if (status != TP_OK) world_check_status(w, "printing", status);
  else if (!size) world_fail(w, "what can be asked is answered", "nothing was printed");
}

static void jobs_waited(void *ctx, const tp_jobs_wait_result *result) {
  world *w = ctx;
  w->waits_ended++;
  if (result->status != TP_ERR_TIMEOUT) world_check_status(w, "tp_jobs_wait_submit", result->status);
}

static void submit_wait_for_jobs(world *w) {
  w->waits_submitted++; /* the wait may end before the submit returns */
  tp_status status = tp_jobs_wait_submit(w->runtime, "", (uint32_t)tp__sim_random(20), jobs_waited, w, NULL);
  if (status == TP_OK) return;
  w->waits_submitted--;
  world_check_status(w, "tp_jobs_wait_submit", status);
}

static bool look_at_session(void *ctx, tp_session *session) {
  world *w = ctx;
  if (!*tp_session_id(session) || tp_session_runtime(session) != w->runtime)
    world_fail(w, "a session is whole", "%s", tp_session_id(session));
  (void)tp_session_queue_length(session, NULL);
  return tp__sim_random(8) > 0;
}

static void wait_for_jobs(world *w) {
  tp_status status = tp_jobs_wait(w->runtime, "", (uint32_t)tp__sim_random(20), NULL);
  if (status != TP_ERR_TIMEOUT) world_check_status(w, "tp_jobs_wait", status);
}

/* Sometimes changes a job that it finds, from inside the list. */
static bool look_at_job(void *ctx, const tp_job *job) {
  world *w = ctx;
  bool has_state = job->state == TP_JOB_QUEUED || job->state == TP_JOB_RUNNING || job->state == TP_JOB_DEAD;
  if (!job->id || !has_state || !job->handler.size || job->payload.size || job->attempt > job->attempts_max)
    world_fail(w, "a job is whole", "job %llu is %s", (unsigned long long)job->id, tp_job_state_name(job->state));
  /* Without faults every detached job must have run. The jobs of the session workload run in the order of the turns. */
  if (w->s->fault_level == FAULTS_NONE || tp_text_is(job->handler, "y.job")) return true;
  if (tp__sim_random(4) == 0) (void)!tp_job_redrive(w->runtime, job->id, NULL);
  if (tp__sim_random(8) == 0) (void)!tp_job_discard(w->runtime, job->id, NULL);
  return tp__sim_random(8) > 0;
}

static void list_jobs(world *w) {
  tp_job_query query = {.struct_size = sizeof query, .after_id = tp__sim_random(4), .limit = tp__sim_random(10)};
  world_check_status(w, "tp_jobs_list", tp_jobs_list(w->runtime, &query, look_at_job, w, NULL));
}

static void look_at_records(world *w) {
  tp_record_query query = {.struct_size = sizeof query, .limit = 1 + tp__sim_random(20)};
  query.only_failed = (uint32_t)tp__sim_random(2);
  world_check_status(w, "tp_runtime_records", tp_runtime_records(w->runtime, &query, look_at_record, w, NULL));
}

static void count_all(world *w) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(w->runtime, &stats);
  if (stats.jobs_run < w->jobs_seen)
    world_fail(w, "counters make sense", "%llu jobs were run, and then fewer", (unsigned long long)w->jobs_seen);
  w->jobs_seen = stats.jobs_run;
  uint64_t ended =
      stats.turns_completed + stats.turns_failed + stats.turns_denied + stats.turns_cancelled + stats.turns_timed_out;
  if (ended < w->turns_seen || stats.turns_queued > 100000 || stats.sessions_open > 100000)
    world_fail(w, "counters make sense", "%llu turns have ended after %llu, %llu are queued, %llu sessions are open",
               (unsigned long long)ended, (unsigned long long)w->turns_seen, (unsigned long long)stats.turns_queued,
               (unsigned long long)stats.sessions_open);
  w->turns_seen = ended;
  if (stats.attempts_waiting > 100000)
    world_fail(w, "counters make sense", "%llu attempts wait", (unsigned long long)stats.attempts_waiting);
}

/* ---- listeners come and go while turns run ---- */

static void on_event(void *ctx, const tp_event *event) {
  world_listener *l = ctx;
  if (l->destroys) world_fail(l->w, "a destroyed listener is not called", "it received %s", tp_event_name(event->kind));
  bool of_turn = event->kind != TP_EVENT_JOB;
  if (event->struct_size != sizeof *event || !event->ids || event->id_count != TP_ID_COUNT ||
      of_turn != (event->sequence > 0) || of_turn != !event->job)
    world_fail(l->w, "an event is whole", "%s", tp_event_name(event->kind));
  if (of_turn) return;
  bool has_state =
      event->job->state == TP_JOB_QUEUED || event->job->state == TP_JOB_SUCCEEDED || event->job->state == TP_JOB_DEAD;
  if (!event->job->id || !has_state || !event->job->handler.size || event->job->payload.size)
    world_fail(l->w, "a job is whole", "job %llu", (unsigned long long)event->job->id);
}

static void on_destroy(void *ctx) {
  world_listener *l = ctx;
  if (l->destroys++) world_fail(l->w, "a listener is destroyed once", "number %llu", (unsigned long long)l->id);
  world_destructor(l->w);
}

static void listen(world *w) {
  if (w->listener_count == WORLD_LISTENERS) return;
  world_listener *l = &w->listeners[w->listener_count];
  tp_listener listener = {.struct_size = sizeof listener, .on_event = on_event, .ctx = l, .destroy = on_destroy};
  if (tp__sim_random(2)) listener.kinds = (uint64_t)2 << tp__sim_random(13);
  if (tp__sim_random(3) == 0) listener.kinds |= (uint64_t)1 << TP_EVENT_JOB;
  l->w = w;
  tp_status status = tp_runtime_listen(w->runtime, &listener, &l->id, NULL);
  if (status == TP_OK) w->listener_count++;
  else world_check_status(w, "tp_runtime_listen", status);
}

static void unlisten(world *w) {
  world_listener *l = w->listener_count ? &w->listeners[tp__sim_random(w->listener_count)] : NULL;
  if (!l) return;
  tp_status status = tp_runtime_unlisten(w->runtime, l->id, NULL);
  if ((status == TP_OK) == l->removed)
    world_fail(w, "a listener is removed once", "%s the second time", tp_status_name(status));
  l->removed = true;
}

/* ---- agents are found and listed while they come and go ---- */

static bool look_at_agent(void *ctx, tp_agent *agent) {
  if (!*tp_agent_id(agent) || tp_value_kind_of(tp_agent_config_get(agent)) != TP_VALUE_MAP)
    world_fail(ctx, "a visible agent is whole", "%s", tp_agent_id(agent));
  tp_agent *found = tp_agent_find(((world *)ctx)->runtime, tp_agent_id(agent));
  tp_agent_unref(found); /* NULL when it has gone meanwhile */
  return tp__sim_random(4) > 0;
}

static void look(world *w) {
  switch (tp__sim_random(12)) {
    case 11:
      look_at_registered(w);
      return;
    case 9:
      submit_wait_for_jobs(w);
      return;
    case 10:
      tp_runtime_sessions(w->runtime, look_at_session, w);
      return;
    case 0:
      look_at_records(w);
      return;
    case 1:
      tp_runtime_leaks(w->runtime, look_at_leak, w);
      return;
    case 2:
      if (tp_runtime_audit(w->runtime, TP_VISIBILITY_INTERNAL, look_at_audit, w) == 0)
        world_fail(w, "what was committed is in the audit", "there is no row");
      return;
    case 3:
      count_all(w);
      return;
    case 4:
      print_something(w);
      return;
    case 5:
      listen(w);
      return;
    case 6:
      unlisten(w);
      return;
    case 7:
      (void)tp_runtime_agents(w->runtime, look_at_agent, w);
      list_jobs(w);
      return;
    default:
      wait_for_jobs(w);
  }
}

void observer_run(void *arg) {
  world *w = arg;
  for (uint32_t i = 0; i < w->s->looks; i++) {
    tp__sim_sleep_ns((int64_t)tp__sim_random(5 * TP__NS_PER_MS));
    look(w);
  }
}
