/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/phases.h"
#include "phases/session.h"

#include "phases/people.h"
#include "phases/steps.h"

enum { QUEUED_MAX = 64, END_BYTES_MAX = 1 << 20 };

const char *tp_turn_outcome_name(tp_turn_outcome outcome) {
  switch (outcome) {
    case TP_TURN_NONE:
    case TP_TURN_OUTCOME_FORCE_32:
      break;
    case TP_TURN_COMPLETED:
      return "completed";
    case TP_TURN_FAILED:
      return "failed";
    case TP_TURN_DENIED:
      return "denied";
    case TP_TURN_CANCELLED:
      return "cancelled";
    case TP_TURN_TIMED_OUT:
      return "timed_out";
  }
  return "unknown";
}

/* ---- life ---- */

void tp__session_hold(tp_session *session) { tp__a32_add_relaxed(&session->refs, 1); }

static void free_session(tp_session *session) {
  const tp_allocator *allocator = &session->runtime->allocator;
  tp__inside frame; /* the last reference may go on any thread: these are callbacks wherever that is */
  tp__inside_enter(&frame, session->runtime, TP__INSIDE_CALLBACK);
  if (session->history.destroy) session->history.destroy(session->history.self);
  tp_shared_history_unref(session->shared);
  if (session->owns_models) tp__models_drop(&session->models, allocator);
  if (session->agent) tp__agent_unref(session->agent);
  tp__listeners_fini(session->layer, &session->listeners);
  tp__inside_leave(&frame);
  tp__admission_part(&session->layer->admission, session->tenant_queue);
  tp__reminders_fini(&session->reminders);
  tp__abilities_fini(&session->abilities);
  tp__past_unref(session->past);
  tp__mutex_fini(&session->mutex);
  tp__string_free(allocator, session->id);
  tp__string_free(allocator, session->tenant);
  tp__string_free(allocator, session->workspace);
  tp__string_free(allocator, session->thread);
  tp__release(allocator, session, sizeof *session);
}

void tp__session_unref(tp_session *session) {
  if (tp__a32_sub_acq_rel(&session->refs, 1) == 1) free_session(session);
}

static tp_status copy_strings(tp_session *session, const tp_session_options *options) {
  const tp_allocator *allocator = &session->runtime->allocator;
  TP__TRY(tp__string_copy(allocator, options->id, &session->id));
  TP__TRY(tp__string_copy(allocator, options->tenant, &session->tenant));
  TP__TRY(tp__string_copy(allocator, options->workspace, &session->workspace));
  return tp__string_copy(allocator, options->thread, &session->thread);
}

/* What is the host's is taken last, when nothing else can fail any more. */
static tp_status take_options(tp_session *session, const tp_session_options *options, const tp_history *history,
                              tp_shared_history *shared) {
  if (options->model) {
    TP__TRY(tp__models_take(&session->models, &session->runtime->allocator, options->model, options->fallbacks,
                            options->fallback_count));
    session->owns_models = true;
  }
  session->agent = options->agent;
  if (session->agent) tp__a32_add_relaxed(&session->agent->refs, 1);
  if (session->agent && !session->owns_models) session->models = session->agent->models;
  session->history = *history;
  session->shared = tp_shared_history_ref(shared);
  session->history_tokens_max = options->history_tokens_max;
  session->compact = options->compact;
  session->compact_ctx = options->compact_ctx;
  session->queued_max = options->turns_queued_max ? options->turns_queued_max : QUEUED_MAX;
  session->data = options->data;
  return TP_OK;
}

static void untake_options(tp_session *session) {
  if (session->owns_models) tp__models_untake(&session->models, &session->runtime->allocator);
  session->owns_models = false;
  session->history = (tp_history){0};
}

/* The short form: one listener of everything, for as long as the session. */
static tp_status listen_short(tp_session *session, const tp_session_options *options, tp_fault *fault) {
  if (!options->on_event) return TP_OK;
  tp_listener listener = {
      .struct_size = sizeof listener, .on_event = options->on_event, .ctx = options->event_ctx};
  return tp__listeners_add(session->layer, &session->listeners, &listener, NULL, fault);
}

tp_status tp_session_listen(tp_session *session, const tp_listener *listener, uint64_t *ret_id, tp_fault *fault) {
  size_t kinds_end = offsetof(tp_listener, kinds) + sizeof listener->kinds;
  if (listener && listener->struct_size >= kinds_end && listener->kinds >> TP_EVENT_JOB & 1)
    return tp__fail(fault, TP_ERR_USAGE, session->id, "tp_listener: jobs are of the runtime: use tp_runtime_listen()");
  return tp__listeners_add(session->layer, &session->listeners, listener, ret_id, fault);
}

tp_status tp_session_unlisten(tp_session *session, uint64_t id, tp_fault *fault) {
  return tp__listeners_remove(session->layer, &session->listeners, id, fault);
}

/* @param ret_shared  whose it is; NULL: the session's own, or in memory. */
static tp_status choose_history(const tp_session_options *options, tp_runtime *runtime, tp_history *ret_history,
                                tp_shared_history **ret_shared, tp_fault *fault) {
  *ret_shared = options->history ? NULL : options->shared_history ? options->shared_history
                                                                  : runtime->options.shared_history;
  if (options->history && options->shared_history)
    return tp__fail(fault, TP_ERR_USAGE, options->id,
                    "tp_session_options: set history or shared_history, and not both");
  if (!*ret_shared) return tp__history_read(ret_history, options->history, fault);
  *ret_history = *tp__shared_history_get(*ret_shared);
  ret_history->destroy = NULL;
  return TP_OK;
}

static tp_status join_history(tp_session *session) {
  if (!session->shared) return TP_OK;
  return tp__shared_history_join(session->shared, &session->history_user, session->tenant, session->id);
}

/* Under the lock under which a drain looks for sessions to close: it sees this one, or this one sees the drain. */
static tp_status enlist(tp_session *session) {
  tp__mutex_lock(&session->layer->sessions_mutex);
  bool up = tp__a32_load_acquire(&session->runtime->life) == TP__LIFE_STARTED;
  tp_status status = up ? tp__session_table_add(&session->layer->session_table, session) : TP_ERR_SHUTDOWN;
  if (status == TP_OK && (status = join_history(session)) != TP_OK)
    tp__session_table_remove(&session->layer->session_table, session);
  if (status == TP_OK) {
    session->number = ++session->layer->sessions_opened;
    tp__list_push(&session->layer->sessions, &session->link);
  }
  tp__mutex_unlock(&session->layer->sessions_mutex);
  return status;
}

static void delist(tp_session *session) {
  tp__mutex_lock(&session->layer->sessions_mutex);
  tp__list_remove(&session->link);
  tp__session_table_remove(&session->layer->session_table, session);
  tp__mutex_unlock(&session->layer->sessions_mutex);
  if (session->shared) tp__shared_history_leave(session->shared, &session->history_user);
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

/* A limit without a way to keep it, and a way to keep it that is never gone, would be accepted and ignored. */
static tp_status check_compaction(const tp_session_options *options, tp_fault *fault) {
  const char *wrong = NULL;
  if (options->history_tokens_max < 0) wrong = "history_tokens_max is negative";
  else if (options->history_tokens_max > 0 && !options->compact)
    wrong = "history_tokens_max is set without compact, which makes a history shorter";
  else if (options->compact_ctx && !options->compact) wrong = "compact_ctx is set without compact";
  return wrong ? tp__fail(fault, TP_ERR_USAGE, options->id, "tp_session_options: %s", wrong) : TP_OK;
}

tp_status tp_session_open(tp_runtime *runtime, const tp_session_options *theirs, tp_session **ret_session,
                          tp_fault *fault) {
  tp_session_options options;
  TP__TRY(tp__options_read(&options, sizeof options, theirs, "tp_session_options", fault));
  if (!options.id || !tp__id_valid(options.id))
    return tp__fail(fault, TP_ERR_BAD_ID, options.id, "a session needs an id of 1 to 128 bytes without white space");
  const char *names[] = {options.tenant, options.workspace, options.thread};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) TP__TRY(tp__name_check(names[i], fault));
  if (options.reserved_ != 0)
    return tp__fail(fault, TP_ERR_USAGE, options.id, "tp_session_options.reserved_ must be zero");
  TP__TRY(tp__people_check("tp_session_options", options.ask, options.ask_ctx, options.permission,
                           options.permission_ctx, fault));
  TP__TRY(check_compaction(&options, fault));
  TP__TRY(tp__models_check("tp_session_options", options.model, options.fallbacks, options.fallback_count,
                           runtime->registry, fault));
  TP__TRY(tp__runtime_ready(runtime, fault));
  tp_history history;
  tp_shared_history *shared; /* a runtime that was freed has given its own back */
  TP__TRY(choose_history(&options, runtime, &history, &shared, fault));
  tp_session *session = tp__alloc_zero(&runtime->allocator, sizeof *session);
  if (!session) return tp__fail(fault, TP_ERR_NO_MEMORY, options.id, "no memory for a session");
  session->layer = tp__agent_layer_of(runtime);
  session->runtime = runtime;
  session->opened_unix_ms = tp__unix_ms();
  session->people = (tp__people){options.ask, options.ask_ctx, options.permission, options.permission_ctx};
  atomic_init(&session->refs.v, 1);
  tp__list_init(&session->queue);
  tp__list_init(&session->link);
  tp__list_init(&session->history_user.link);
  tp__reminders_init(&session->reminders, &runtime->allocator);
  tp__abilities_init(&session->abilities, &runtime->allocator);
  tp_status status = tp__mutex_init(&session->mutex, TP__RANK_session);
  if (status != TP_OK) {
    tp__release(&runtime->allocator, session, sizeof *session);
    return tp__fail(fault, status, options.id, "no memory for a session");
  }
  session->past = tp__past_new(&runtime->allocator);
  status = session->past ? copy_strings(session, &options) : TP_ERR_NO_MEMORY;
  if (status == TP_OK && session->layer->admission.running_max > 0) {
    session->tenant_queue = tp__admission_join(&session->layer->admission, session->tenant);
    if (!session->tenant_queue) status = TP_ERR_NO_MEMORY;
  }
  if (status != TP_OK) {
    free_session(session);
    return tp__fail(fault, status, options.id, "no memory for a session");
  }
  status = listen_short(session, &options, fault);
  if (status != TP_OK) {
    free_session(session);
    return status;
  }
  status = take_options(session, &options, &history, shared);
  if (status == TP_OK) status = enlist(session);
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
const char *tp_session_id(const tp_session *session) { return session->id; }
const char *tp_session_tenant(const tp_session *session) { return or_empty(session->tenant); }
const char *tp_session_workspace(const tp_session *session) { return or_empty(session->workspace); }
const char *tp_session_thread(const tp_session *session) { return or_empty(session->thread); }
tp_agent *tp_session_agent(const tp_session *session) { return session->agent; }
tp_runtime *tp_session_runtime(const tp_session *session) { return session->runtime; }

size_t tp_session_queue_length(const tp_session *shown, bool *ret_running) {
  tp_session *session = (tp_session *)(uintptr_t)shown;
  if (tp__runtime_is_forked(session->runtime)) return 0;
  tp__mutex_lock(&session->mutex);
  size_t length = session->queued;
  if (ret_running) *ret_running = session->running != NULL;
  tp__mutex_unlock(&session->mutex);
  return length;
}

tp_session *tp_session_find(tp_runtime *runtime, const char *tenant, const char *id) {
  if (!id || tp__runtime_usable(runtime, NULL) != TP_OK) return NULL;
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  tp__mutex_lock(&layer->sessions_mutex);
  tp_session *session = tp__session_table_find(&layer->session_table, tenant, id);
  if (session && tp__a32_load_acquire(&session->close_asked)) session = NULL;
  if (session) tp__session_hold(session);
  tp__mutex_unlock(&layer->sessions_mutex);
  return session;
}

void tp_session_unref(tp_session *session) {
  if (session) tp__session_unref(session);
}

/* ---- walking: both lists one behind the other are in the order of the numbers ---- */

static tp_session *session_of(tp__link *link) { return TP__CONTAINER(link, tp_session, link); }

/* The first one, at this place of either list or behind it. */
static tp_session *from_locked(tp__agent_layer *layer, tp__link *link) {
  if (link == &layer->ending) link = layer->sessions.next;
  return link == &layer->sessions ? NULL : session_of(link);
}

/* `after` may have left the lists meanwhile: then its place is found by its number. Held. */
static tp_session *next_of(tp__agent_layer *layer, tp_session *after) {
  tp__mutex_lock(&layer->sessions_mutex);
  bool left = after && after->link.next == &after->link;
  tp_session *next = from_locked(layer, after && !left ? after->link.next : layer->ending.next);
  while (left && next && next->number < after->number) next = from_locked(layer, next->link.next);
  if (next) tp__session_hold(next);
  tp__mutex_unlock(&layer->sessions_mutex);
  return next;
}

size_t tp_runtime_sessions(tp_runtime *runtime, tp_session_fn each, void *ctx) {
  if (tp__runtime_usable(runtime, NULL) != TP_OK) return 0;
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  size_t count = 0;
  bool more = true;
  tp_session *session = next_of(layer, NULL);
  while (session) {
    count++;
    if (each) more = each(ctx, session);
    tp_session *next = more ? next_of(layer, session) : NULL;
    tp__session_unref(session);
    session = next;
  }
  return count;
}

/* ---- the queue ---- */

static void count_queued(const tp_session *session, uint64_t by) {
  tp__thread_caches_count(&session->runtime->caches, TP__COUNT_QUEUED, by);
}

/* The end of a session takes no room of a turn, and a nested turn is in that of the one that waits for it. @return
 * false: it waits for room, or has begun since. */
static bool begin_or_wait(tp__drive *drive) {
  const tp_session *session = drive->session;
  bool begins = drive->closing || drive->turn->core.parent ||
                tp__admission_enter(&session->layer->admission, session->tenant_queue, &drive->admission);
  if (begins) tp__drive_start(drive);
  return begins;
}

/* A turn has ended: another one begins in its room. */
static void leave_room(tp__drive *drive) {
  tp__admission_place *next = tp__admission_leave(&drive->session->layer->admission, &drive->admission);
  if (next) tp__drive_start(TP__CONTAINER(next, tp__drive, admission));
}

tp_status tp__session_enqueue(tp_session *session, tp__drive *drive, bool last, bool *ret_queued) {
  tp_status status = TP_OK;
  bool start = false;
  tp__mutex_lock(&session->mutex);
  if (session->closing) {
    status = TP_ERR_SHUTDOWN;
  } else if (!session->running) {
    session->running = drive;
    start = true;
  } else if (session->queued >= session->queued_max && !last) {
    status = TP_ERR_FULL;
  } else {
    session->queued++;
    tp__list_push(&session->queue, &drive->link);
    drive->waits = true;
    count_queued(session, 1);
    *ret_queued = true;
  }
  if (last && status == TP_OK) session->closing = true;
  tp__mutex_unlock(&session->mutex);
  if (start && !begin_or_wait(drive)) *ret_queued = true;
  return status;
}

bool tp__session_next(tp_session *session) {
  tp__drive *next = NULL;
  tp__mutex_lock(&session->mutex);
  if (!tp__list_empty(&session->queue)) {
    next = TP__CONTAINER(session->queue.next, tp__drive, link);
    tp__list_remove(&next->link);
    next->waits = false;
    session->queued--;
    count_queued(session, (uint64_t)-1);
  }
  session->running = next;
  bool last = !next && session->closing;
  tp__mutex_unlock(&session->mutex);
  if (next) (void)begin_or_wait(next);
  return last;
}

/* Nothing of the session is used any more. */
static void let_go(tp_session *session) {
  void (*on_end)(void *ctx) = session->on_end;
  void *ctx = session->on_end_ctx;
  delist(session);
  tp__session_unref(session);
  if (on_end) on_end(ctx);
}

/* The ends of turns that left the queue come first. */
void tp__session_over(tp_session *session) {
  tp__mutex_lock(&session->mutex);
  session->over_waits = session->leaving > 0;
  session->over = !session->over_waits;
  bool gone = session->over && session->closed;
  tp__mutex_unlock(&session->mutex);
  if (gone) let_go(session);
}

bool tp__session_leave_queue(tp_session *session, tp__drive *drive) {
  tp__mutex_lock(&session->mutex);
  bool waited = drive->waits;
  if (waited) {
    tp__list_remove(&drive->link);
    drive->waits = false;
    session->queued--;
    count_queued(session, (uint64_t)-1);
    session->leaving++;
  }
  tp__mutex_unlock(&session->mutex);
  return waited;
}

void tp__session_left(tp_session *session) {
  tp__mutex_lock(&session->mutex);
  bool over = --session->leaving == 0 && session->over_waits;
  tp__mutex_unlock(&session->mutex);
  if (over) tp__session_over(session);
}

/* ---- turns ---- */

static tp_status make_drive(tp_session *session, const tp_turn_request *theirs, bool owned,
                            const tp__nesting *nesting, tp__drive **ret_drive, tp_fault *fault) {
  tp_turn_request request;
  TP__TRY(tp__request_read(theirs, &request, fault));
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  if (!nesting)
    TP__TRY(tp__admission_check(&session->layer->admission, session->tenant_queue,
                                (int64_t)request.limit_ms * TP__NS_PER_MS, fault));
  return tp__drive_new(session, &request, owned, TP__TURN_DRIVEN, nesting, ret_drive, fault);
}

static tp_status enqueue_or_abort(tp__drive *drive, bool last, tp_fault *fault) {
  tp_status status = tp__drive_enqueue(drive, last);
  if (status == TP_OK) return TP_OK;
  tp__drive_abort(drive);
  return tp__fail(fault, status, NULL, "the session does not take the turn: %s", tp_status_text(status));
}

/* The caller owns the turn from its birth; its start comes as a message, now or after the turns before it. */
static tp_status drive_here(tp__drive *drive, bool last, tp_fault *fault) {
  tp__strand *strand = &drive->turn->core.strand;
  tp_runtime *runtime = drive->turn->core.runtime;
  bool done = false;
  drive->done = &done;
  TP__TRY(enqueue_or_abort(drive, last, fault));
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__THREAD_OWNER);
  if (drive->call) tp__drive_watch_call(drive);
  tp__strand_wait(strand, &done);
  tp__strand_timer_remove(&drive->call_timer);
  tp__strand_leave(strand);
  tp__inside_leave(&frame);
  return TP_OK;
}

tp_status tp__session_run(tp_session *session, const tp_turn_request *request, const tp__nesting *nesting,
                          const tp_turn_result **ret_result, tp_fault *fault) {
  tp__drive *drive;
  tp__result *result = NULL;
  TP__TRY(make_drive(session, request, true, nesting, &drive, fault));
  if (ret_result && !(result = tp__result_new(&session->runtime->allocator))) {
    bool done;
    drive->done = &done; /* the caller owns the turn */
    tp__drive_abort(drive);
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the result of a turn");
  }
  drive->result = result;
  tp_status status = drive_here(drive, false, fault);
  if (status == TP_OK && ret_result) *ret_result = &result->shown;
  else if (result) tp_turn_result_free(&result->shown);
  return status;
}

tp_status tp_turn_run(tp_session *session, const tp_turn_request *request, const tp_turn_result **ret_result,
                      tp_fault *fault) {
  TP__TRY(tp__may_block(session->runtime, fault, "tp_turn_run"));
  return tp__session_run(session, request, NULL, ret_result, fault);
}

/* The submission refers to the turn before that can end. */
static tp_status make_submission(tp__drive *drive, tp_fault *fault) {
  drive->submission = tp__submission_new(&drive->session->runtime->allocator, &drive->turn->core);
  if (drive->submission) return TP_OK;
  tp__drive_abort(drive);
  return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a submission");
}

tp_status tp__session_submit(tp_session *session, const tp_turn_request *request, const tp__nesting *nesting,
                             tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  tp__drive *drive;
  if (session->runtime->options.no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use %s()",
                    nesting ? "tp_call_run_turn() or tp_tool_run_turn" : "tp_turn_run");
  TP__TRY(make_drive(session, request, false, nesting, &drive, fault));
  drive->on_end = on_end;
  drive->ctx = ctx;
  if (ret_submission) TP__TRY(make_submission(drive, fault));
  tp_submission *submission = drive->submission;
  tp_status status = enqueue_or_abort(drive, false, fault);
  if (status == TP_OK && ret_submission) *ret_submission = submission;
  else if (submission) tp__submission_abort(submission);
  return status;
}

tp_status tp_turn_submit(tp_session *session, const tp_turn_request *request, tp_turn_end_fn on_end, void *ctx,
                         tp_submission **ret_submission, tp_fault *fault) {
  return tp__session_submit(session, request, NULL, on_end, ctx, ret_submission, fault);
}

tp_status tp_turn_begin(tp_session *session, const tp_turn_request *theirs, tp_turn **ret_turn, tp_fault *fault) {
  tp_turn_request request;
  TP__TRY(tp__request_read_held(theirs, &request, fault));
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  tp__turn_ids ids = tp__session_ids(session);
  tp_turn *turn;
  TP__TRY(tp__turn_new_held(session->runtime, &ids, &request, TP__TURN_HELD, &turn, fault));
  *ret_turn = turn;
  return TP_OK;
}

/* ---- results ---- */

static void fill_result(const tp__drive *d, tp_turn_result *result) {
  *result = (tp_turn_result){.struct_size = sizeof *result,
                             .outcome = d->outcome,
                             .text = d->outcome == TP_TURN_COMPLETED ? d->response_text : (tp_text){NULL, 0},
                             .reason = d->reason,
                             .turn_id = d->turn->core.ids[TP_ID_TURN],
                             .code = d->code,
                             .phase = d->refusing_phase,
                             .state = d->refusing_state,
                             .why = d->refusing_why,
                             .subscription = d->refusing_subscription,
                             .bare_reason = d->bare_reason,
                             .iterations = d->iterations,
                             .tool_calls = d->tool_calls,
                             .input_tokens = d->input_tokens,
                             .output_tokens = d->output_tokens,
                             .cost_micros = d->cost_micros,
                             .started_ns = d->started_ns,
                             .ended_ns = tp__now_ns()};
}

/* What its store keeps of the turn. */
static void record_end(const tp__drive *d, const tp_turn_result *result) {
  tp_runtime *runtime = d->session->runtime;
  if (!runtime->store.turn_record) return;
  int64_t offset_ns = tp__unix_offset_ns();
  tp_turn_record record = {.struct_size = sizeof record,
                           .number = tp__a64_add_relaxed(&d->session->layer->turns_ended, 1) + 1,
                           .ids = d->turn->core.ids,
                           .id_count = TP_ID_COUNT,
                           .outcome = result->outcome,
                           .code = result->code,
                           .started_ns = result->started_ns,
                           .ended_ns = result->ended_ns,
                           .ended_unix_ms = (result->ended_ns + offset_ns) / TP__NS_PER_MS,
                           .load_ns = d->load_ns,
                           .model_ns = d->model_ns,
                           .tools_ns = d->tools_ns,
                           .append_ns = d->append_ns,
                           .iterations = result->iterations,
                           .tool_calls = result->tool_calls,
                           .input_tokens = result->input_tokens,
                           .output_tokens = result->output_tokens,
                           .cost_micros = result->cost_micros,
                           .phase = result->phase,
                           .subscription = result->subscription,
                           .reason = result->reason,
                           .step_count = d->step_count,
                           .step = tp__drive_show_step,
                           .step_source = d,
                           .steps_dropped = d->steps_dropped,
                           .parent_turn = tp__turn_parent_id(&d->turn->core)};
  if (result->started_ns) record.started_unix_ms = (result->started_ns + offset_ns) / TP__NS_PER_MS;
  tp__turn_record_give(runtime, &record);
}

static void report_end(tp__drive *d, const tp_turn_result *result) {
  record_end(d, result);
  tp__thread_caches_count(&d->session->runtime->caches, (uint32_t)d->outcome, 1);
  if (d->result) tp__result_fill(d->result, result);
  if (d->submission) tp__result_fill(&d->submission->result, result);
  if (d->on_end) d->on_end(d->ctx, result);
}

static void end_turn(tp__drive *d) {
  if (d->submission) tp__submission_ended(d->submission);
  if (d->done) *d->done = true;
  tp__turn_over(d->turn);
}

void tp__step_end(tp__drive *d) {
  tp_turn_result result;
  fill_result(d, &result);
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_TURN_END,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .status = d->code,
                                 .text = tp_text_of(tp_turn_outcome_name(d->outcome)),
                                 .started_ns = result.started_ns,
                                 .ended_ns = result.ended_ns});
  report_end(d, &result); /* before the next one starts: ends are told in the order of the turns */
  tp_session *session = d->session;
  session->last_outcome = d->outcome;
  session->last_code = d->code;
  bool last = tp__session_next(session);
  leave_room(d); /* behind it: the session's next turn waits like the others */
  end_turn(d);
  if (last) tp__session_over(session);
}

void tp__drive_end_unbegun(tp__drive *d) {
  tp_turn_result result;
  tp_session *session = d->session;
  fill_result(d, &result);
  report_end(d, &result);
  end_turn(d);
  tp__session_left(session);
}

void tp__drive_end_unadmitted(tp__drive *d) {
  tp_turn_result result;
  tp_session *session = d->session;
  fill_result(d, &result);
  report_end(d, &result);
  bool last = tp__session_next(session);
  end_turn(d);
  if (last) tp__session_over(session);
}

/* ---- closing ---- */

void tp__step_closed(tp__drive *d) {
  tp_session *session = d->session;
  if (d->on_closed) d->on_closed(d->ctx);
  if (d->done) *d->done = true;
  bool last = tp__session_next(session);
  tp__turn_over(d->turn);
  if (last) tp__session_over(session);
}

static void put_value(tp__drive *d, uint32_t field, tp_text value) {
  if (value.size > 0) tp__drive_value(d, field, value);
}

static void log_abilities(const tp__drive *d, const char *what) {
  tp__log_subject subject = {.status = TP_ERR_FULL, .phase = TP_PHASE_SESSION_END, .ids = d->turn->core.ids};
  tp__log(d->session->runtime, TP_LOG_WARNING, &subject, "session.end of `%s`: abilities_used %s", d->session->id,
          what);
}

/* What the host says, else the tools that turns of the session have run since it began, or since its last end. */
static void put_abilities(tp__drive *d) {
  tp__abilities *own = &d->session->abilities;
  tp_text used = d->end.abilities_used;
  if (used.size == 0 && !tp__abilities_write(own, &d->arena, &used)) log_abilities(d, "is missing: no memory");
  else if (own->dropped > 0) log_abilities(d, "is not complete: more tools were run than a session lists");
  put_value(d, TP_FIELD_ABILITIES_USED, used);
  tp__abilities_fini(own);
  tp__abilities_init(own, &d->session->runtime->allocator);
}

bool tp__fill_session_end(tp__drive *d) {
  const tp_session *session = d->session;
  tp__drive_text(d, TP_FIELD_SESSION_ID, tp_text_of(session->id));
  tp__drive_text(d, TP_FIELD_REASON, d->user_text);
  tp__drive_int(d, TP_FIELD_CLOSED, d->closes_session);
  put_value(d, TP_FIELD_CHANGED_FILES, d->end.changed_files);
  put_abilities(d);
  put_value(d, TP_FIELD_TASKS_SUMMARY, d->end.tasks_summary);
  tp__drive_int(d, TP_FIELD_STARTED_AT, session->opened_unix_ms);
  tp__drive_int(d, TP_FIELD_ENDED_AT, tp__unix_ms());
  if (session->last_outcome != TP_TURN_NONE) {
    tp__drive_text(d, TP_FIELD_OUTCOME, tp_text_of(tp_turn_outcome_name(session->last_outcome)));
    tp__drive_int(d, TP_FIELD_CODE, session->last_code);
  }
  return true;
}

static tp_status check_list(const char *name, tp_text value, uint32_t kind, tp_fault *fault) {
  if (value.size == 0) return TP_OK;
  if (value.size > END_BYTES_MAX)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "tp_session_end.%s has %zu bytes, more than %d", name, value.size,
                    END_BYTES_MAX);
  TP__TRY(tp_value_check(value, fault));
  if (tp__is_list_of(value, kind)) return TP_OK;
  return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tp_session_end.%s must be an array of %s", name,
                  kind == TP_VALUE_TEXT ? "texts" : "maps");
}

/* @param theirs  NULL: nothing to tell. */
static tp_status read_end(const tp_session_end *theirs, const char *reason, tp_session_end *ours, tp_fault *fault) {
  *ours = (tp_session_end){.struct_size = sizeof *ours, .reason = reason};
  if (!theirs) return TP_OK;
  TP__TRY(tp__options_read(ours, sizeof *ours, theirs, "tp_session_end", fault));
  if (!ours->reason) ours->reason = reason;
  if (!tp_utf8_valid(tp_text_of(ours->reason), NULL))
    return tp__fail(fault, TP_ERR_UTF8, NULL, "tp_session_end.reason is not UTF-8");
  TP__TRY(check_list("changed_files", ours->changed_files, TP_VALUE_TEXT, fault));
  TP__TRY(check_list("abilities_used", ours->abilities_used, TP_VALUE_TEXT, fault));
  return check_list("tasks_summary", ours->tasks_summary, TP_VALUE_MAP, fault);
}

static bool copy_end(tp__drive *d, const tp_session_end *end) {
  return tp__arena_text(&d->arena, end->changed_files, &d->end.changed_files) &&
         tp__arena_text(&d->arena, end->abilities_used, &d->end.abilities_used) &&
         tp__arena_text(&d->arena, end->tasks_summary, &d->end.tasks_summary);
}

/* owned: the caller is the turn's owner. */
static tp_status make_closing(tp_session *session, const tp_session_end *end, bool owned, tp__drive **ret_drive,
                              tp_fault *fault) {
  tp_turn_request asked = {.struct_size = sizeof asked, .text = tp_text_of(end->reason)}, request;
  tp__drive *drive;
  TP__TRY(tp__request_read(&asked, &request, fault));
  TP__TRY(tp__drive_new(session, &request, owned, TP__TURN_CLOSING, NULL, &drive, fault));
  drive->closing = true;
  if (!copy_end(drive, end)) {
    bool done;
    if (owned) drive->done = &done;
    tp__drive_abort(drive);
    return tp__fail(fault, TP_ERR_NO_MEMORY, session->id, "no memory for the end of a session");
  }
  *ret_drive = drive;
  return TP_OK;
}

/* Without a closing turn session.end is lost, and said so; the turns before it are not. */
static void close_without_phase(tp_session *session, tp_status why) {
  tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session->id)};
  tp__log_subject subject = {.status = why, .phase = TP_PHASE_SESSION_END, .ids = ids};
  tp__log(session->runtime, TP_LOG_ERROR, &subject, "session.end of `%s` was not run: %s", session->id,
          tp_status_text(why));
  tp__mutex_lock(&session->mutex);
  session->closing = true;
  bool last = !session->running;
  tp__mutex_unlock(&session->mutex);
  if (last) tp__session_over(session);
}

/* A drain waits for a place; when its time is up, it makes some. */
static tp_status make_closing_in_time(tp_session *session, int64_t deadline_ns, tp__drive **ret_drive) {
  static const tp_session_end drained = {.struct_size = sizeof drained, .reason = "drained"};
  for (;;) {
    tp_status status = make_closing(session, &drained, false, ret_drive, NULL);
    if (status != TP_ERR_FULL) return status;
    if (tp__now_ns() >= deadline_ns) tp__runtime_cancel_all(session->runtime);
    tp__runtime_poll_interval(session->runtime);
  }
}

/* Has session.end run behind what is queued. Only the one who set end_asked; then the session may be gone.
 * here: by the calling thread. */
static void queue_end(tp__drive *drive, bool here) {
  drive->closes_session = true;
  tp_status status = here ? drive_here(drive, true, NULL) : enqueue_or_abort(drive, true, NULL);
  assert(status == TP_OK); /* a closing turn is never one too many, and only one closes */
  (void)status;
}

/* The handle is gone. @return whether the session was over already. */
static bool give_up_handle(tp_session *session, void (*on_end)(void *ctx), void *ctx) {
  tp__mutex_lock(&session->mutex);
  session->closed = true;
  session->on_end = on_end;
  session->on_end_ctx = ctx;
  bool over = session->over;
  tp__mutex_unlock(&session->mutex);
  return over;
}

static void end_here_or_there(tp_session *session, const tp_session_end *end) {
  tp__drive *drive;
  bool here = session->runtime->options.no_engine_workers && !tp__inside_is_of(session->runtime);
  tp_status status = make_closing(session, end, here, &drive, NULL);
  if (status == TP_OK) queue_end(drive, here);
  else close_without_phase(session, status);
}

static void log_late_close(const tp_session *session) {
  tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session->id)};
  tp__log_subject subject = {.status = TP_ERR_SHUTDOWN, .phase = TP_PHASE_SESSION_END, .ids = ids};
  tp__log(session->runtime, TP_LOG_WARNING, &subject,
          "a drain has ended session `%s`: what its close tells comes too late", session->id);
}

/* told: the host has something to tell. */
static void close_session(tp_session *session, const tp_session_end *end, bool told, void (*on_end)(void *ctx),
                          void *ctx) {
  if (tp__a32_exchange_acq_rel(&session->close_asked, 1)) return;
  if (tp__runtime_ready(session->runtime, NULL) == TP_ERR_FORKED) { /* nothing runs in the child */
    if (on_end) on_end(ctx);
    return;
  }
  bool first = !tp__a32_exchange_acq_rel(&session->end_asked, 1); /* else a drain has asked, and it runs, or has */
  if (!first && told)
    log_late_close(session);
  bool over = give_up_handle(session, on_end, ctx);
  if (first) end_here_or_there(session, end);
  else if (over) let_go(session);
}

void tp_session_close(tp_session *session, void (*on_end)(void *ctx), void *ctx) {
  static const tp_session_end closed = {.struct_size = sizeof closed, .reason = "closed"};
  if (session) close_session(session, &closed, false, on_end, ctx);
}

tp_status tp_session_close_with(tp_session *session, const tp_session_end *theirs, void (*on_end)(void *ctx), void *ctx,
                                tp_fault *fault) {
  tp_session_end end;
  TP__TRY(read_end(theirs, "closed", &end, fault));
  if (session) close_session(session, &end, theirs != NULL, on_end, ctx);
  return TP_OK;
}

tp_status tp_session_end_phase(tp_session *session, const tp_session_end *theirs, tp_fault *fault) {
  tp_session_end end;
  tp__drive *drive;
  TP__TRY(read_end(theirs, "phase", &end, fault));
  TP__TRY(tp__may_block(session->runtime, fault, "tp_session_end_phase"));
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  TP__TRY(make_closing(session, &end, true, &drive, fault));
  return drive_here(drive, false, fault);
}

tp_status tp_session_end_phase_submit(tp_session *session, const tp_session_end *theirs, void (*on_end)(void *ctx),
                                      void *ctx, tp_fault *fault) {
  tp_session_end end;
  tp__drive *drive;
  TP__TRY(read_end(theirs, "phase", &end, fault));
  if (session->runtime->options.no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use tp_session_end_phase()");
  TP__TRY(tp__runtime_ready(session->runtime, fault));
  TP__TRY(make_closing(session, &end, false, &drive, fault));
  drive->on_closed = on_end;
  drive->ctx = ctx;
  return enqueue_or_abort(drive, false, fault);
}

/* ---- all of them ---- */

/* One whose end nobody has asked for, held. Each session is looked at once: it moves to the other list. */
static tp_session *take_open(tp__agent_layer *layer) {
  tp_session *open = NULL;
  tp__mutex_lock(&layer->sessions_mutex);
  while (!open && !tp__list_empty(&layer->sessions)) {
    tp_session *session = TP__CONTAINER(layer->sessions.next, tp_session, link);
    tp__list_remove(&session->link);
    tp__list_push(&layer->ending, &session->link);
    if (!tp__a32_exchange_acq_rel(&session->end_asked, 1)) open = session;
  }
  if (open) tp__session_hold(open); /* its host may close it at any moment */
  tp__mutex_unlock(&layer->sessions_mutex);
  return open;
}

/* Whether a host is about to queue the end of a session that it closes. */
static bool any_half_closed(tp__agent_layer *layer) {
  bool any = false;
  tp__mutex_lock(&layer->sessions_mutex);
  for (tp__link *link = layer->ending.next; link != &layer->ending && !any; link = link->next) {
    tp_session *session = TP__CONTAINER(link, tp_session, link);
    tp__mutex_lock(&session->mutex);
    any = !session->closing;
    tp__mutex_unlock(&session->mutex);
  }
  tp__mutex_unlock(&layer->sessions_mutex);
  return any;
}

/* The handle stays the host's. What the host is told when it has closed it meanwhile, it is told by an owner. */
static void end_in_drain(tp_session *session, int64_t deadline_ns) {
  tp__drive *drive;
  tp_status status = make_closing_in_time(session, deadline_ns, &drive);
  tp__inside frame;
  tp_runtime *runtime = session->runtime;
  tp__inside_enter(&frame, runtime, TP__THREAD_OWNER);
  if (status == TP_OK) queue_end(drive, false);
  else close_without_phase(session, status);
  tp__session_unref(session);
  tp__inside_leave(&frame);
}

void tp__sessions_close_all(tp_runtime *runtime, int64_t deadline_ns) {
  tp_session *session;
  while ((session = take_open(tp__agent_layer_of(runtime))) != NULL) end_in_drain(session, deadline_ns);
  while (any_half_closed(tp__agent_layer_of(runtime))) tp__runtime_poll_interval(runtime);
}

static void free_list(tp__link *sessions) {
  while (!tp__list_empty(sessions)) {
    tp_session *session = TP__CONTAINER(sessions->next, tp_session, link);
    delist(session);
    tp__session_unref(session);
  }
}

void tp__sessions_free_all(tp_runtime *runtime) {
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  free_list(&layer->sessions);
  free_list(&layer->ending);
}
