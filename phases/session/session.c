/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/session.h"

#include "phases/turn/people.h"
#include "phases/session/sessions.h"
#include "runtime/base/bug.h"

enum { QUEUED_MAX = 64 };

const char *tp_turn_outcome_name(tp_turn_outcome outcome) {
  static const char *const names[] = {[TP_TURN_COMPLETED] = "completed",
                                      [TP_TURN_FAILED] = "failed",
                                      [TP_TURN_DENIED] = "denied",
                                      [TP_TURN_CANCELLED] = "cancelled",
                                      [TP_TURN_TIMED_OUT] = "timed_out"};
  return TP__NAME_AT(names, outcome, "unknown");
}

/* ---- life ---- */

void tp__session_hold(tp_session *session) { tp__a32_add_relaxed(&session->refs, 1); }

static void free_session(tp_session *session) {
  const tp_allocator *allocator = tp__runtime_allocator(session->runtime);
  tp__inside frame; /* the last reference may be dropped on any thread; there, these are callbacks */
  tp__inside_enter(&frame, session->runtime, TP__INSIDE_CALLBACK);
  if (session->history.destroy) session->history.destroy(session->history.ctx);
  tp_shared_history_unref(session->shared);
  if (session->owns_models) tp__models_drop(&session->models, allocator);
  if (session->agent) tp__agent_unref(session->agent);
  tp__listeners_drop(tp__layer_listeners(session->runtime), &session->listeners);
  tp__inbox_unref(session->inbox);
  tp__inside_leave(&frame);
  tp__admission_part(session->admission, session->tenant_queue);
  tp__budgets_part(session->budgets, session->account);
  tp__reminders_fini(&session->reminders);
  tp__abilities_fini(&session->abilities);
  tp__abilities_fini(&session->changed);
  tp__task_list_fini(&session->tasks);
  tp__past_unref(session->past);
  tp__mutex_fini(&session->mutex);
  tp__string_free(allocator, session->id);
  tp__string_free(allocator, session->tenant);
  tp__string_free(allocator, session->workspace);
  tp__string_free(allocator, session->thread);
  tp__string_free(allocator, session->environment);
  tp__string_free(allocator, session->agent_id);
  tp__release(allocator, session, sizeof *session);
}

void tp__session_unref(tp_session *session) {
  if (tp__a32_sub_acq_rel(&session->refs, 1) == 1) free_session(session);
}

static tp_status copy_strings(tp_session *session, const tp_session_options *options) {
  const tp_allocator *allocator = tp__runtime_allocator(session->runtime);
  TP__TRY(tp__string_copy(allocator, options->id, &session->id));
  TP__TRY(tp__string_copy(allocator, options->tenant, &session->tenant));
  TP__TRY(tp__string_copy(allocator, options->workspace, &session->workspace));
  TP__TRY(tp__string_copy(allocator, options->thread, &session->thread));
  TP__TRY(tp__string_copy(allocator, options->agent ? options->agent->id : NULL, &session->agent_id));
  return tp__string_copy(allocator, options->environment, &session->environment);
}

/* The host's objects are taken over last, when nothing can fail any more. */
static tp_status take_options(tp_session *session, const tp_session_options *options, const tp_history *history,
                              tp_shared_history *shared) {
  if (options->model) {
    const tp_allocator *allocator = tp__runtime_allocator(session->runtime);
    TP__TRY(tp__models_take(&session->models, allocator, session->runtime, options->inbox, options->model,
                            options->fallbacks, options->fallback_count));
    session->owns_models = true;
  }
  session->agent = options->agent;
  if (session->agent) tp__a32_add_relaxed(&session->agent->refs, 1);
  session->history = *history;
  session->shared = tp_shared_history_ref(shared);
  session->history_tokens_max = options->history_tokens_max;
  session->compaction = options->compaction;
  session->compact = options->compact;
  session->compact_ctx = options->compact_ctx;
  session->busy = (tp_busy)options->busy;
  session->busy_wait_ms = options->busy_wait_ms;
  session->queued_max = options->turns_queued_max ? options->turns_queued_max : QUEUED_MAX;
  session->data = options->data;
  return TP_OK;
}

static void untake_options(tp_session *session) {
  if (session->owns_models) tp__models_untake(&session->models, tp__runtime_allocator(session->runtime));
  session->owns_models = false;
  session->history = (tp_history){0};
}

/* options->on_event is the short form of tp_session_listen(): it adds one listener for all events, which stays as long
 * as the session. */
static tp_status listen_short(tp_session *session, const tp_session_options *options, tp_fault *fault) {
  if (!options->on_event) return TP_OK;
  tp_listener listener = {.struct_size = sizeof listener, .on_event = options->on_event, .ctx = options->event_ctx};
  return tp__listeners_add(tp__layer_listeners(session->runtime), &session->listeners, NULL, &listener, NULL, fault);
}

tp_status tp_session_listen(tp_session *session, const tp_listener *listener, uint64_t *ret_id, tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  size_t kinds_end = offsetof(tp_listener, kinds) + sizeof listener->kinds;
  if (listener && listener->struct_size >= kinds_end && listener->kinds >> TP_EVENT_JOB & 1)
    return tp__fail(fault, TP_ERR_USAGE, session->id, "tp_listener: jobs are of the runtime: use tp_runtime_listen()");
  return tp__listeners_add(tp__layer_listeners(session->runtime), &session->listeners, session->inbox, listener, ret_id,
                           fault);
}

tp_status tp_session_unlisten(tp_session *session, uint64_t id, tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  return tp__listeners_remove(tp__layer_listeners(session->runtime), &session->listeners, id, fault);
}

/* @param ret_shared the shared history; NULL: the history is the session's own, or in memory. */
static tp_status choose_history(const tp_session_options *options, tp_runtime *runtime, tp_history *ret_history,
                                tp_shared_history **ret_shared, tp_fault *fault) {
  *ret_shared = options->history          ? NULL
                : options->shared_history ? options->shared_history
                                          : tp__runtime_options(runtime)->shared_history;
  if (options->history && options->shared_history)
    return tp__fail(fault, TP_ERR_USAGE, options->id,
                    "tp_session_options: set history or shared_history, and not both");
  if (!*ret_shared) return tp__history_read(ret_history, options->history, fault);
  *ret_history = *tp__shared_history_get(*ret_shared);
  ret_history->destroy = NULL;
  return TP_OK;
}

static tp_status check_busy(const tp_session_options *options, const tp_history *history, tp_fault *fault) {
  const char *wrong = NULL;
  if (options->busy > TP_BUSY_WAIT) wrong = "busy is no tp_busy";
  else if (options->busy_wait_ms && options->busy != TP_BUSY_WAIT) wrong = "busy_wait_ms is set without TP_BUSY_WAIT";
  else if (options->busy == TP_BUSY_WAIT && !history->shared)
    wrong = "busy is TP_BUSY_WAIT, and the history is not shared with other processes (tp_history.shared)";
  return wrong ? tp__fail(fault, TP_ERR_USAGE, options->id, "tp_session_options: %s", wrong) : TP_OK;
}

static tp_status say_refused(tp_status status, const char *id, tp_fault *fault) {
  switch (status) {
    case TP_ERR_BUSY:
      return tp__fail(fault, status, id,
                      "session `%s` of this tenant is open, or its close has not ended, or it is being deleted: wait "
                      "for the on_end of tp_session_close()",
                      id);
    case TP_ERR_SHUTDOWN:
      return tp__fail(fault, status, id, "the runtime is being drained: no session is opened any more");
    default:
      return tp__fail(fault, status, id, "no memory for a session");
  }
}

/* Without this check, a limit without a way to compact, or a way to compact that is never used, would be accepted and
 * ignored. */
static tp_status check_compaction(const tp_session_options *options, tp_fault *fault) {
  const char *wrong = NULL;
  if (options->history_tokens_max < 0) wrong = "history_tokens_max is negative";
  else if ((unsigned)options->compaction > TP_COMPACTION_HOST) wrong = "compaction is no tp_compaction";
  else if (options->history_tokens_max > 0 && options->compaction == TP_COMPACTION_NONE)
    wrong = "history_tokens_max is set without compaction, which makes a history shorter";
  else if (options->compaction == TP_COMPACTION_HOST && !options->compact)
    wrong = "compaction is TP_COMPACTION_HOST, which needs compact";
  else if (options->compact && options->compaction != TP_COMPACTION_HOST)
    wrong = "compact is set, which goes with compaction TP_COMPACTION_HOST only";
  else if (options->compact_ctx && !options->compact) wrong = "compact_ctx is set without compact";
  return wrong ? tp__fail(fault, TP_ERR_USAGE, options->id, "tp_session_options: %s", wrong) : TP_OK;
}

static void take_inbox(tp_session *session, tp_inbox *inbox) {
  session->inbox = inbox;
#ifdef TP_SIM
  tp_inbox *other = TP__BUG(TP__BUG_OTHER_INBOX) && inbox
                        ? tp__sessions_inbox_of_another(tp__layer_sessions(session->runtime))
                        : NULL;
  if (other) session->inbox = other;
  if (other) return;
#endif
  tp__inbox_ref(session->inbox);
}

static tp_status check_inbox(const tp_session_options *options, const void *owner, tp_fault *fault) {
  if (tp__inbox_is_of_session(options->inbox))
    return tp__fail(fault, TP_ERR_USAGE, options->id,
                    "tp_session_options.inbox is TP_INBOX_OF_SESSION, which stands for it: set the inbox itself");
  if (options->inbox && !tp__inbox_is_of(options->inbox, owner))
    return tp__fail(fault, TP_ERR_USAGE, options->id, "tp_session_options.inbox is of another runtime");
  return TP_OK;
}

/* Its requests would come to no inbox. */
static tp_status check_models_inbox(const tp_session *session, tp_fault *fault) {
  const tp__models *models = session->agent && !session->owns_models ? &session->agent->models : &session->models;
  const tp_model *model = session->inbox ? NULL : tp__models_need_inbox(models);
  if (!model) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, session->id,
                  "the model %s of the session%s names TP_INBOX_OF_SESSION, and tp_session_options.inbox is NULL",
                  model->name ? model->name : "(no name)", session->owns_models ? "" : "'s agent");
}

tp_status tp_session_open(tp_runtime *runtime, const tp_session_options *theirs, tp_session **ret_session,
                          tp_fault *fault) {
  tp_session_options options;
  TP__TRY(tp__options_read(&options, sizeof options, theirs, "tp_session_options", fault));
  if (!options.id || !tp__id_valid(options.id))
    return tp__fail(fault, TP_ERR_BAD_ID, options.id, "a session needs an id of 1 to 128 bytes without white space");
  const char *names[] = {options.tenant, options.workspace, options.thread, options.environment};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) TP__TRY(tp__name_check(names[i], fault));
  TP__TRY(tp__people_check("tp_session_options", options.ask, options.ask_ctx, options.permission,
                           options.permission_ctx, fault));
  TP__TRY(check_compaction(&options, fault));
  TP__TRY(tp__models_check("tp_session_options", options.model, options.fallbacks, options.fallback_count,
                           tp__runtime_registry(runtime), fault));
  TP__TRY(check_inbox(&options, tp__runtime_registry(runtime), fault));
  tp__allowance budget;
  TP__TRY(tp__allowance_read(options.budget, "tp_session_options.budget", &budget, fault));
  TP__TRY(tp__runtime_ready(runtime, fault));
  tp_history history;
  tp_shared_history *shared; /* NULL when the runtime was freed, which has returned its own reference */
  TP__TRY(choose_history(&options, runtime, &history, &shared, fault));
  TP__TRY(check_busy(&options, &history, fault));
  if (options.agent && options.agent->runtime != runtime)
    return tp__fail(fault, TP_ERR_USAGE, options.id, "tp_session_options.agent is of another runtime");
  tp_session *session = tp__alloc_zero(tp__runtime_allocator(runtime), sizeof *session);
  if (!session) return tp__fail(fault, TP_ERR_NO_MEMORY, options.id, "no memory for a session");
  session->admission = tp__layer_admission(runtime);
  session->budgets = tp__layer_budgets(runtime);
  session->runtime = runtime;
  session->opened_unix_ms = tp__unix_ms();
  session->people = (tp__people){options.ask, options.ask_ctx, options.permission, options.permission_ctx};
  atomic_init(&session->refs.v, 1);
  tp__list_init(&session->queue);
  tp__list_init(&session->link);
  tp__list_init(&session->history_user.link);
  tp__reminders_init(&session->reminders, tp__runtime_allocator(runtime));
  tp__abilities_init(&session->abilities, tp__runtime_allocator(runtime));
  tp__abilities_init(&session->changed, tp__runtime_allocator(runtime));
  tp__task_list_init(&session->tasks, tp__runtime_allocator(runtime));
  tp_status status = tp__mutex_init(&session->mutex, TP__RANK_session);
  if (status != TP_OK) {
    tp__release(tp__runtime_allocator(runtime), session, sizeof *session);
    return tp__fail(fault, status, options.id, "no memory for a session");
  }
  take_inbox(session, options.inbox);
  session->past = tp__past_new(tp__runtime_allocator(runtime));
  status = session->past ? copy_strings(session, &options) : TP_ERR_NO_MEMORY;
  if (status == TP_OK && session->admission->running_max > 0) {
    session->tenant_queue = tp__admission_join(session->admission, session->tenant);
    if (!session->tenant_queue) status = TP_ERR_NO_MEMORY;
  }
  session->budget = budget;
  if (status == TP_OK && session->budgets->any) {
    session->account = tp__budgets_join(session->budgets, session->tenant);
    if (!session->account) status = TP_ERR_NO_MEMORY;
  }
  session->has_budget = session->account || tp__allowance_any(&budget);
  if (status == TP_OK && (status = listen_short(session, &options, fault)) != TP_OK) {
    free_session(session);
    return status;
  }
  if (status == TP_OK) status = take_options(session, &options, &history, shared);
  if (status == TP_OK && (status = check_models_inbox(session, fault)) != TP_OK) {
    untake_options(session);
    free_session(session);
    return status;
  }
  if (status == TP_OK) status = tp__sessions_add(tp__layer_sessions(runtime), session);
  if (status != TP_OK) {
    untake_options(session);
    free_session(session);
    return say_refused(status, options.id, fault);
  }
  *ret_session = session;
  return TP_OK;
}

/* ---- asking it ---- */

static const char *or_empty(const char *string) { return string ? string : ""; }
const char *tp_session_id(const tp_session *session) {
  if (!session) return NULL;
  return session->id;
}
const char *tp_session_tenant(const tp_session *session) {
  if (!session) return NULL;
  return or_empty(session->tenant);
}
const char *tp_session_workspace(const tp_session *session) {
  if (!session) return NULL;
  return or_empty(session->workspace);
}
const char *tp_session_thread(const tp_session *session) {
  if (!session) return NULL;
  return or_empty(session->thread);
}
tp_agent *tp_session_agent(const tp_session *session) {
  if (!session) return NULL;
  tp_session *locked = (tp_session *)(uintptr_t)session;
  tp__mutex_lock(&locked->mutex);
  tp_agent *agent = locked->agent;
  tp__mutex_unlock(&locked->mutex);
  return agent;
}

tp_agent *tp__session_take_agent(tp_session *session, const tp__nesting *nesting) {
  tp_turn *parent = nesting ? tp__turn_of(nesting->parent) : NULL;
  if (parent && parent->session == session) {
    if (parent->agent) tp__agent_ref(parent->agent);
    return parent->agent;
  }
  tp__mutex_lock(&session->mutex);
  tp_agent *agent = session->agent, *gone = NULL;
  if (agent && tp__a32_load_acquire(&agent->replaced)) {
    tp_agent *newer = tp_agent_find(session->runtime, agent->id); /* NULL: that one was removed */
    if (newer) {
      gone = agent;
      session->agent = agent = newer;
    }
  }
  if (agent) tp__agent_ref(agent);
  tp__mutex_unlock(&session->mutex);
  if (gone) tp__agent_unref(gone);
  return agent;
}
tp_runtime *tp_session_runtime(const tp_session *session) {
  if (!session) return NULL;
  return session->runtime;
}

size_t tp_session_queue_length(const tp_session *shown, bool *ret_running) {
  if (!shown) return 0;
  tp_session *session = (tp_session *)(uintptr_t)shown;
  if (tp__runtime_is_forked(session->runtime)) return 0;
  tp__mutex_lock(&session->mutex);
  size_t length = session->queued;
  if (ret_running) *ret_running = session->running != NULL;
  tp__mutex_unlock(&session->mutex);
  return length;
}

void tp_session_unref(tp_session *session) {
  if (session) tp__session_unref(session);
}

/* ---- what session.end lists ---- */

void tp__session_note_tool(tp_session *session, tp_text name) {
  tp__mutex_lock(&session->mutex);
  tp__abilities_add(&session->abilities, name);
  tp__mutex_unlock(&session->mutex);
}

void tp__session_note_file(tp_session *session, tp_text path) {
  tp__mutex_lock(&session->mutex);
  tp__abilities_add(&session->changed, path);
  tp__mutex_unlock(&session->mutex);
}

void tp__session_note_task(tp_session *session, tp_text key, tp_text ability, tp__task_status status) {
  tp__mutex_lock(&session->mutex);
  tp__task_list_put(&session->tasks, key, ability, status);
  tp__mutex_unlock(&session->mutex);
}
