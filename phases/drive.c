/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive.h"

#include "phases/conversation.h"

/* ---- the machine ---- */

static void (*const steps[TP__STEPS])(tp__drive *drive) = {
#define STEP(id, name, run) [TP__STEP_##id] = run,
#include "phases/steps.def"
#undef STEP
};

/* A step that ends at once comes back here instead of going deeper. */
void tp__drive_go(tp__drive *d, tp__step step) {
  d->next = step;
  if (d->stepping) return;
  d->stepping = true;
  while (d->next != TP__STEP_NONE) {
    d->step = d->next;
    d->next = TP__STEP_NONE;
    steps[d->step](d);
  }
  d->stepping = false;
}

void tp__drive_stop(tp__drive *d, tp_turn_outcome outcome, tp_status code, tp_text reason) {
  if (d->outcome == TP_TURN_COMPLETED) {
    d->outcome = outcome;
    d->code = code;
    if (!tp__arena_text(&d->arena, reason, &d->reason)) d->reason = tp_text_of(tp_status_text(code));
  }
  tp__drive_go(d, TP__STEP_COMMIT);
}

bool tp__drive_out_of_time(tp__drive *d) {
  tp__turn *core = &d->turn->core;
  if (core->is_cancelled) tp__drive_stop(d, TP_TURN_CANCELLED, TP_ERR_CANCELLED, tp_text_of("the turn was cancelled"));
  else if (tp__now_ns() >= core->deadline_ns)
    tp__drive_stop(d, TP_TURN_TIMED_OUT, TP_ERR_TIMEOUT, tp_text_of("the turn's time limit passed"));
  else return false;
  return true;
}

static tp_text failure_text(tp__drive *d, const char *doing) {
  const tp_phase_result *result = &d->phase.result;
  if (!result->subscription)
    return tp__arena_printf(&d->arena, "%s: %.*s", doing, (int)result->reason.size,
                            result->reason.data ? result->reason.data : "failed");
  return tp__arena_printf(&d->arena, "%s: hook %s: %.*s", doing, result->subscription, (int)result->reason.size,
                          result->reason.data ? result->reason.data : "");
}

/* Whose subscription ends the turn. Without memory for its words they are lost, not that it did. */
static void note_refusal(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  if (d->outcome != TP_TURN_COMPLETED || !result->subscription) return;
  d->refusing_phase = d->phase.phase;
  d->refusing_state = result->state;
  d->refusing_why = result->why;
  if (!tp__arena_text(&d->arena, tp_text_of(result->subscription), &d->refusing_subscription))
    d->refusing_subscription = (tp_text){NULL, 0};
  if (!tp__arena_text(&d->arena, result->reason, &d->bare_reason)) d->bare_reason = (tp_text){NULL, 0};
}

bool tp__drive_stopped(tp__drive *d, const char *doing) {
  const tp_phase_result *result = &d->phase.result;
  if (tp__drive_out_of_time(d)) {
  } else if (d->phase.status != TP_OK) {
    tp__drive_stop(d, TP_TURN_FAILED, d->phase.status, tp_text_of(tp_status_text(d->phase.status)));
  } else if (result->outcome == TP_ERR_DENIED) {
    note_refusal(d);
    tp__drive_stop(d, TP_TURN_DENIED, TP_ERR_DENIED, failure_text(d, doing));
  } else if (result->outcome != TP_OK) {
    note_refusal(d);
    tp__drive_stop(d, TP_TURN_FAILED, result->outcome, failure_text(d, doing));
  } else {
    return false;
  }
  tp__drive_let_go(d);
  return true;
}

/* ---- phases ---- */

static void put(tp__drive *d, tp_field field) {
  assert(d->field_count < TP__DRIVE_FIELDS_MAX);
  d->fields[d->field_count++] = field;
}

void tp__drive_text(tp__drive *d, uint32_t field, tp_text text) {
  put(d, (tp_field){.id = field, .kind = TP_FIELD_KIND_TEXT, .text = text});
}
void tp__drive_int(tp__drive *d, uint32_t field, int64_t number) {
  put(d, (tp_field){.id = field, .kind = TP_FIELD_KIND_INT, .number = number});
}
void tp__drive_value(tp__drive *d, uint32_t field, tp_text value) {
  put(d, (tp_field){.id = field, .kind = TP_FIELD_KIND_VALUE, .text = value});
}

void tp__drive_remind(tp__drive *d, const char *subscription, tp_text text, bool block) {
  tp__reminders *waiting = &d->session->reminders;
  uint32_t dropped = waiting->dropped;
  if (tp__reminders_add(waiting, subscription, text, block) && waiting->dropped == dropped) return;
  tp_contribution lost = {
      .struct_size = sizeof(tp_contribution), .kind = TP_KIND_DIAGNOSTIC,
      .severity = TP_SEVERITY_WARNING,
      .key = tp_text_of("reminder.dropped"),
      .text = tp_text_of("more reminders wait for a request than a session keeps: one was dropped")};
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_DIAGNOSTIC,
                                 .phase = d->phase.phase,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .contribution = &lost,
                                 .subscription = subscription,
                                 .text = lost.text});
}

static void phase_ended(tp__phase_run *run) {
  tp__drive *d = run->ctx;
  const tp_merged *merged = run->result.merged;
  tp__reminders_set_attempt(&d->session->reminders, run->phase == TP_PHASE_MODEL_PRE);
  for (size_t i = 0; i < tp_merged_count(merged, TP_KIND_REMINDER); i++) {
    const tp_merged_entry *entry = tp_merged_get(merged, TP_KIND_REMINDER, i);
    tp__drive_remind(d, entry->subscription, entry->contribution->text, false);
  }
  tp__reminders_set_attempt(&d->session->reminders, false);
  d->after(d);
}

void tp__drive_phase(tp__drive *d, uint32_t phase, bool ignores_cancel, void (*after)(tp__drive *drive)) {
  uint32_t field_count = d->field_count;
  d->field_count = 0;
  d->after = after;
  d->phase = (tp__phase_run){.turn = d->turn,
                         .phase = phase,
                         .own_contexts = phase == TP_PHASE_MODEL_PRE,
                         .ignores_cancel = ignores_cancel,
                         .fields = d->fields,
                         .field_count = field_count,
                         .on_end = phase_ended,
                         .ctx = d};
  tp__phase_begin(&d->phase);
}

void tp__drive_let_go(tp__drive *d) { tp__phase_let_go(&d->phase.result); }

/* ---- life ---- */

static void start_delivered(tp__message *message) {
  tp__drive *d = TP__CONTAINER(message, tp__drive, start_message);
  d->started_ns = tp__now_ns();
  d->begun = true;
  tp__strand_timer_remove(&d->limit_timer);
  if (d->closing) {
    tp__drive_go(d, TP__STEP_SESSION_END);
    return;
  }
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_TURN_BEGIN,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .text = d->user_text,
                                 .parent_turn = tp__turn_parent_id(&d->turn->core)});
  tp__drive_go(d, TP__STEP_LOAD);
}

void tp__drive_start(tp__drive *d) { tp__strand_push(&d->turn->core.strand, &d->start_message); }

/* ---- a turn that waits in its session's queue: nothing of it has begun, and nothing will ---- */

static bool end_in_queue(tp__drive *d, tp_turn_outcome outcome, tp_status code, const char *reason) {
  if (d->begun || d->closing) return false;
  bool queued = tp__session_leave_queue(d->session, d);
  if (!queued && !tp__admission_leave_queue(&d->session->layer->admission, &d->admission)) return false;
  tp__strand_timer_remove(&d->limit_timer);
  d->outcome = outcome;
  d->code = code;
  d->reason = tp_text_of(reason);
  if (queued) tp__drive_end_unbegun(d);
  else tp__drive_end_unadmitted(d);
  return true;
}

static void limit_fired(tp__timer_entry *timer, int64_t now_ns) {
  (void)now_ns;
  (void)!end_in_queue(TP__CONTAINER(timer, tp__drive, limit_timer), TP_TURN_TIMED_OUT, TP_ERR_TIMEOUT,
                      "the turn's time limit passed while it waited for the turns before it");
}

static bool cancelled_in_queue(tp__drive *d) {
  return end_in_queue(d, TP_TURN_CANCELLED, TP_ERR_CANCELLED, "the turn was cancelled before it began");
}

static void watch_limit(tp__drive *d) {
  tp__turn *core = &d->turn->core;
  if (d->begun || d->closing || core->strand.end) return;
  if (!core->is_cancelled) tp__strand_timer_add(&core->strand, &d->limit_timer, core->deadline_ns);
  else (void)!cancelled_in_queue(d);
}

static void queued_delivered(tp__message *message) {
  tp__drive *d = TP__CONTAINER(message, tp__drive, queued_message);
  tp__turn *core = &d->turn->core;
  watch_limit(d);
  tp__turn_unref(core);
}

tp_status tp__drive_enqueue(tp__drive *d, bool last) {
  tp__turn *core = &d->turn->core;
  bool queued = false, owned = d->done != NULL;
  if (!owned) tp__turn_hold(core); /* it may end before the enqueue returns */
  tp_status status = tp__session_enqueue(d->session, d, last, &queued);
  if (owned) {
    if (status == TP_OK && queued) watch_limit(d);
  } else if (status != TP_OK || !queued || !tp__strand_push(&core->strand, &d->queued_message)) {
    tp__turn_unref(core);
  }
  return status;
}

/* ---- a nested turn, whose call waits for it ---- */

enum { LOOK_MS = 50 };

void tp__drive_watch_call(tp__drive *d) {
  tp__strand_timer_add(&d->turn->core.strand, &d->call_timer, tp__now_ns() + LOOK_MS * TP__NS_PER_MS);
}

static void call_looked_at(tp__timer_entry *timer, int64_t now_ns) {
  (void)now_ns;
  tp__drive *d = TP__CONTAINER(timer, tp__drive, call_timer);
  if (tp__attempt_is_cancelled(d->call)) tp__turn_cancel(&d->turn->core);
  else tp__drive_watch_call(d);
}

void tp__drive_cancel(tp__drive *d) {
  if (!d->begun) {
    (void)!cancelled_in_queue(d);
    return;
  }
  if (d->model_call) tp__model_call_cancel(d->model_call);
  bool appends = d->step == TP__STEP_COMMIT; /* whatever happens, what was done is kept */
  if (d->host_call && !appends) tp__attempt_expire(&d->host_call->base, TP__CANCELLED);
}

static void free_drive(tp__drive *d, tp_runtime *runtime) {
  tp__past_unref(d->brought);
  tp__arena_fini(&d->arena);
  tp__block_give(&runtime->blocks, d, d->block_size);
}

/* With the last reference of the turn: nobody reads the request any more. */
static void release(tp__turn *core) {
  tp_turn *turn = tp__turn_of(core);
  tp__drive *d = turn->drive;
  tp_session *session = d->session;
  free_drive(d, core->runtime);
  turn->drive = NULL;
  tp__turn_release(core);
  tp__session_unref(session);
}

/* Nothing of the host's is looked at again. */
static bool copy_request(tp__drive *d, const tp_turn_request *request) {
  tp__arena *arena = &d->arena;
  d->request.messages = NULL;
  if (request->messages && !(d->brought = tp__past_new(arena->allocator))) return false;
  return tp__arena_text(arena, request->text, &d->user_text) &&
         tp__arena_text(arena, request->files, &d->request.files) &&
         tp__arena_text(arena, request->system, &d->request.system) &&
         tp__arena_text(arena, request->parameters, &d->request.parameters) &&
         tp__arena_string(arena, request->model_name, &d->request.model_name) &&
         (!d->brought ||
          tp__conversation_copy(request->messages, request->message_count, &d->brought->list) == TP_OK);
}

tp_status tp__drive_new(tp_session *session, const tp_turn_request *request, bool owned, tp__turn_kind kind,
                        const tp__nesting *nesting, tp__drive **ret_drive, tp_fault *fault) {
  tp_runtime *runtime = session->runtime;
  size_t block_size;
  tp__drive *d = tp__block_take(&runtime->blocks, sizeof *d, &block_size);
  if (!d) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a turn");
  memset(d, 0, sizeof *d);
  d->block_size = block_size;
  tp__arena_init(&d->arena, &runtime->blocks.as_allocator, d + 1, block_size - sizeof *d, 0);
  d->messages.arena = &d->arena;
  d->session = session;
  d->outcome = TP_TURN_COMPLETED;
  d->request = *request;
  if (d->request.said_unix_ms == 0) d->request.said_unix_ms = tp__unix_ms();
  d->start_message.deliver = start_delivered;
  d->queued_message.deliver = queued_delivered;
  d->limit_timer.fire = limit_fired;
  tp__list_init(&d->limit_timer.link);
  d->call = nesting ? nesting->attempt : NULL;
  d->call_timer.fire = call_looked_at;
  tp__list_init(&d->call_timer.link);
  tp__turn_ids ids = tp__session_ids(session);
  ids.nesting = nesting;
  tp_status status = TP_ERR_NO_MEMORY;
  if (copy_request(d, request))
    status = tp__turn_new(runtime, &ids, request, kind, &d->turn, fault);
  else (void)!tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a turn");
  if (status != TP_OK) {
    free_drive(d, runtime);
    return status;
  }
  d->turn->drive = d;
  d->turn->core.release = release;
  tp__session_hold(session);
  *ret_drive = d;
  if (!owned) tp__strand_leave(&d->turn->core.strand); /* a drain may have told it something already: heard now */
  return TP_OK;
}

static void abort_delivered(tp__message *message) {
  tp__turn_over(TP__CONTAINER(message, tp__drive, start_message)->turn);
}

/* A drain may have told the turn meanwhile to be cancelled: then it has an owner already, who ends it. */
void tp__drive_abort(tp__drive *d) {
  tp__strand *strand = &d->turn->core.strand;
  bool owned = d->done || tp__strand_try_acquire(strand);
  if (!owned) {
    d->start_message.deliver = abort_delivered;
    tp__strand_push(strand, &d->start_message);
    return;
  }
  tp__turn_over(d->turn);
  tp__strand_leave(strand);
}
