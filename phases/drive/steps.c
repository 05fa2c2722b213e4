/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/steps.h"

#include "phases/merge/phases.h"
#include "phases/drive/running.h"

#define TO(id) (1u << TP__STEP_##id)
#define STEP(id, next_step, ...) [TP__STEP_##id] = {.next = TP__STEP_##next_step, __VA_ARGS__},
const tp__step_row tp__step_rows[TP__STEPS] = {
#include "phases/drive/steps.def"
};
#undef STEP
#undef TO

bool tp__step_may_follow(tp__step from, tp__step to) {
  if (from == TP__STEP_NONE) return to == TP__STEP_LOAD || to == TP__STEP_SESSION_END;
  const tp__step_row *row = &tp__step_rows[from];
  return to == row->next || (row->others & 1u << to) || (to == TP__STEP_COMMIT && from < TP__STEP_COMMIT);
}

/* ---- how a turn is stopped ---- */

void tp__drive_stop(tp__drive *d, tp_turn_outcome outcome, tp_status code, tp_text reason) {
  if (d->outcome == TP_TURN_COMPLETED) {
    d->outcome = outcome;
    d->code = code;
    if (!tp__arena_text(&d->arena, reason, &d->reason)) d->reason = tp_text_of(tp_status_text(code));
  }
  tp__drive_go(d, TP__STEP_COMMIT);
}

bool tp__drive_no_memory(tp__drive *d) {
  tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_NO_MEMORY, tp_text_of("no memory"));
  return false;
}

bool tp__drive_out_of_time(tp__drive *d) {
  tp__turn *core = &d->turn->core;
  if (core->is_cancelled) tp__drive_stop(d, TP_TURN_CANCELLED, TP_ERR_CANCELLED, tp_text_of("the turn was cancelled"));
  else if (tp__now_ns() >= core->deadline_ns)
    tp__drive_stop(d, TP_TURN_TIMED_OUT, TP_ERR_TIMEOUT, tp_text_of("the turn's time limit passed"));
  else return false;
  return true;
}

static tp_text failure_text(tp__drive *d) {
  const char *doing = tp__phase_rows[d->phase.phase].name;
  const tp_phase_result *result = &d->phase.result;
  if (!result->subscription)
    return tp__arena_printf(&d->arena, "%s: %.*s", doing, (int)result->reason.size,
                            result->reason.data ? result->reason.data : "failed");
  tp_text reason = result->reason;
  if (reason.size == 0)
    reason = tp_text_of(result->outcome == TP_ERR_DENIED ? "denied without a reason" : "failed without a reason");
  return tp__arena_printf(&d->arena, "%s: hook %s: %.*s", doing, result->subscription, (int)reason.size, reason.data);
}

/* Notes the subscription that ends the turn. Without memory only its text is lost. */
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

/* True when the turn must stop after the phase that ended: it was cancelled, is out of time, or the phase failed. */
static bool stopped_by_phase(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  if (tp__drive_out_of_time(d)) return true;
  if (d->turn->core.is_fenced) { /* the jobs of the phase may have been the first to find this out */
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_FENCED, tp_text_of(tp_status_text(TP_ERR_FENCED)));
  } else if (d->phase.status != TP_OK) {
    tp__drive_stop(d, TP_TURN_FAILED, d->phase.status, tp_text_of(tp_status_text(d->phase.status)));
  } else if (result->outcome == TP_ERR_DENIED) {
    note_refusal(d);
    tp__drive_stop(d, TP_TURN_DENIED, TP_ERR_DENIED, failure_text(d));
  } else if (result->outcome != TP_OK) {
    note_refusal(d);
    tp__drive_stop(d, TP_TURN_FAILED, result->outcome, failure_text(d));
  } else {
    return false;
  }
  return true;
}

/* ---- payloads and reminders ---- */

static void put_field(tp__drive *d, tp_field field) {
  assert(d->field_count < TP__DRIVE_FIELDS_MAX);
  d->fields[d->field_count++] = field;
}

void tp__drive_text(tp__drive *d, uint32_t field, tp_text text) {
  put_field(d, (tp_field){.id = field, .kind = TP_FIELD_KIND_TEXT, .text = text});
}
void tp__drive_int(tp__drive *d, uint32_t field, int64_t number) {
  put_field(d, (tp_field){.id = field, .kind = TP_FIELD_KIND_INT, .number = number});
}
void tp__drive_value(tp__drive *d, uint32_t field, tp_text value) {
  put_field(d, (tp_field){.id = field, .kind = TP_FIELD_KIND_VALUE, .text = value});
}

void tp__drive_diagnose(tp__drive *d, uint32_t phase, tp_severity severity, tp_text key, const char *subscription,
                        tp_text text) {
  tp_contribution diagnostic = {.struct_size = sizeof(tp_contribution),
                                .kind = TP_CONTRIBUTION_DIAGNOSTIC,
                                .severity = severity,
                                .key = key,
                                .text = text};
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_DIAGNOSTIC,
                                 .phase = phase,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .contribution = &diagnostic,
                                 .subscription = subscription,
                                 .text = text});
}

void tp__drive_remind(tp__drive *d, const char *subscription, tp_text text, bool block) {
  tp__reminders *waiting = &d->session->reminders;
  uint32_t dropped = waiting->dropped;
  if (tp__reminders_add(waiting, subscription, text, block) && waiting->dropped == dropped) return;
  tp__drive_diagnose(d, d->phase.phase, TP_SEVERITY_WARNING, tp_text_of("reminder.dropped"), subscription,
                     tp_text_of("more reminders wait for a request than a session keeps: one was dropped"));
}

void tp__drive_note(tp__drive *d, uint32_t phase, tp_severity severity, const char *key, const char *subscription,
                    tp_text text) {
  if (!text.data) text = tp_text_of(key);
  tp__log(d->turn->core.runtime, severity == TP_SEVERITY_INFO ? TP_LOG_INFO : TP_LOG_WARNING,
          &(tp__log_subject){.phase = phase, .ids = d->turn->core.ids}, "%.*s", (int)text.size, text.data);
  tp__drive_diagnose(d, phase, severity, tp_text_of(key), subscription, text);
}

/* ---- the machine ---- */

#ifdef TP_CHECKS
void tp__drive_check(const tp__drive *d) {
  TP__OWNED(&d->turn->core.strand);
  /* A drive belongs to its turn and to a session, and has begun. */
  assert(d->turn->drive == d && d->session && d->begun && !d->waits);
  /* It is at a step of the table. */
  assert(d->step < TP__STEPS && d->next < TP__STEPS && d->field_count <= TP__DRIVE_FIELDS_MAX);
  /* A call to the history and a call to the model never run at the same time. */
  assert(!d->host_call || !d->model_call);
  /* A turn has an error code unless it is completed. */
  assert((d->outcome == TP_TURN_COMPLETED) == (d->code == TP_OK));
  /* The calls of the last response have buffers for their results; only a closing turn has the session's last step. */
  assert(d->call_count == 0 || d->calls);
  assert(d->closing == (d->step == TP__STEP_SESSION_END || d->step == TP__STEP_CLOSED) || d->step == TP__STEP_NONE);
}
#endif

static tp__step after_phase(tp__drive *d, const tp__step_row *row) {
  TP__ASSERT(row->phase == d->phase.phase);
  if (row->keep && !row->keep(d)) return TP__STEP_NONE;
  if (row->always) return row->next;
  bool denied = d->phase.status == TP_OK && d->phase.result.outcome == TP_ERR_DENIED;
  if (denied && row->on_denial) return tp__drive_out_of_time(d) ? TP__STEP_NONE : row->on_denial(d);
  if (stopped_by_phase(d)) return TP__STEP_NONE;
  return row->then ? row->then(d) : row->next;
}

static void run_steps(tp__drive *d);

static void phase_ended(tp__phase_run *run) {
  tp__drive *d = run->ctx;
  TP__CHECK(tp__drive_check(d));
  bool resumes = !d->stepping; /* otherwise the step that began the phase has not returned */
  d->stepping = true;
  const tp_merged *merged = d->phase.result.merged;
  tp__reminders_set_attempt(&d->session->reminders, d->phase.phase == TP_PHASE_MODEL_PRE);
  for (size_t i = 0; i < tp_merged_count(merged, TP_CONTRIBUTION_REMINDER); i++) {
    const tp_merged_entry *entry = tp_merged_get(merged, TP_CONTRIBUTION_REMINDER, i);
    tp__drive_remind(d, entry->subscription, entry->contribution->text, false);
  }
  tp__reminders_set_attempt(&d->session->reminders, false);
  tp__step next = after_phase(d, &tp__step_rows[d->step]);
  tp__phase_let_go(&d->phase.result);
  if (next != TP__STEP_NONE) tp__drive_go(d, next);
  if (resumes) run_steps(d);
}

static void begin_phase(tp__drive *d, const tp__step_row *row) {
  TP__ASSERT(!row->run && row->phase);
  d->field_count = 0;
  if (row->before && !row->before(d)) return;
  bool has_readers = tp__turn_plan(&d->turn->core, row->phase) != NULL;
  if (has_readers && row->fill && !row->fill(d)) return;
  d->phase = (tp__phase_run){.turn = d->turn,
                             .phase = row->phase,
                             .own_contexts = row->phase == TP_PHASE_MODEL_PRE,
                             .ignores_cancel = row->always,
                             .fields = d->fields,
                             .field_count = d->field_count,
                             .on_end = phase_ended,
                             .ctx = d};
  tp__phase_begin(&d->phase);
}

/* After a step that ends at once, the next step runs in this loop, not on a deeper stack. */
static void run_steps(tp__drive *d) {
  d->stepping = true;
  while (d->next != TP__STEP_NONE) {
    d->step = d->next;
    d->next = TP__STEP_NONE;
    const tp__step_row *row = &tp__step_rows[d->step];
    TP__CHECK(tp__drive_check(d));
    tp__running_changed(d);
    if (row->run) row->run(d);
    else begin_phase(d, row);
  }
  d->stepping = false;
}

void tp__drive_go(tp__drive *d, tp__step step) {
  TP__OWNED(&d->turn->core.strand);
  assert(tp__step_may_follow(d->step, step));
  TP__ASSERT(d->next == TP__STEP_NONE); /* a step is followed by one */
  d->next = step;
  if (!d->stepping) run_steps(d);
}
