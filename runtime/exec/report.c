/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/report.h"

#include <stdio.h>

#include "runtime/plan/registry.h"

enum { SUBJECT_BYTES_MAX = 128 }; /* of a name in a log line */

static int shown_bytes(tp_text text, size_t max) { return (int)tp__utf8_cut(text, max); }

static int bytes_before(const tp__turn *turn, tp_text text, size_t max) {
  return (int)tp__redact_before(tp__runtime_redactor(turn->runtime), text, max);
}

static const char *phase_name(const tp_runtime *runtime, uint32_t phase) {
  const tp_phase *row = tp__registry_phase(tp__runtime_registry(runtime), phase);
  return row ? row->name : "?";
}

/* "failure of hook guard in turn.intake: timed_out, timeout after 5000 us, turn t1" */
static void log_report(const tp__turn *turn, tp_log_level level, const tp__report *r) {
  char subject[TP__REDACT_BYTES + 8] = "", duration[40] = "";
  tp_text detail = r->detail;
  if (r->subject.size > 0)
    snprintf(subject, sizeof subject, " (`%.*s`)", bytes_before(turn, r->subject, SUBJECT_BYTES_MAX), r->subject.data);
  if (r->duration_ns > 0)
    snprintf(duration, sizeof duration, " after %lld us", (long long)(r->duration_ns / TP__NS_PER_US));
  tp_text id = turn->ids[TP_ID_TURN];
  bool why = r->reason != TP_REASON_NONE;
  tp__log_subject about = {.status = r->status, .phase = r->phase, .subscription = r->subscription, .ids = turn->ids};
  tp__log(turn->runtime, level, &about, "%s of hook %s in %s%s: %s%s%s%s%.*s%s, turn %.*s", r->action, r->subscription,
          phase_name(turn->runtime, r->phase), subject, why ? tp_state_name(r->state) : "", why ? ", " : "",
          why ? tp_reason_name(r->reason) : "", why && detail.size > 0 ? ": " : "",
          bytes_before(turn, detail, TP__AUDIT_DETAIL_SIZE), detail.data ? detail.data : "", duration,
          shown_bytes(id, TP_ID_BYTES_MAX), id.data ? id.data : "");
}

void tp__report_add(const tp__turn *turn, tp_log_level level, const tp__report *r) {
  tp__audit_row row;
  char detail[2 * TP__REDACT_BYTES + 4]; /* the whole of both texts, because they are redacted together */
  bool both = r->subject.size > 0 && r->detail.size > 0;
  snprintf(detail, sizeof detail, "%.*s%s%.*s", bytes_before(turn, r->subject, SUBJECT_BYTES_MAX),
           r->subject.size > 0 ? r->subject.data : "", both ? ": " : "",
           bytes_before(turn, r->detail, TP__AUDIT_DETAIL_SIZE), r->detail.data ? r->detail.data : "");
  tp__audit_fill(tp__runtime_registry(turn->runtime), &row, r->owner, r->action, tp_text_of(detail), r->status, 0);
  tp__audit_of_turn(&row, turn->ids);
  row.subscription = r->subscription;
  row.phase = r->phase;
  row.state = (uint8_t)r->state;
  row.reason = (uint8_t)r->reason;
  row.visibility = (uint8_t)r->visibility;
  row.duration_ns = r->duration_ns;
  tp__audit_add(tp__runtime_registry(turn->runtime), &row);
  if (r->status == TP_ERR_DENIED) tp__a64_add_relaxed(&tp__runtime_counters(turn->runtime)->denials, 1);
  if (level) log_report(turn, level, r);
}

/* ---- runs ---- */

/* Every way of not answering is a failure, except a cancel by the host and a skip. */
static bool has_failed(const tp__row_details *row) {
  return row->reason != TP_REASON_NONE && row->reason < TP_REASON_MATCH && row->reason != TP_REASON_CANCELLED;
}

static tp_status status_of_row(const tp__row_details *row) {
  if (row->reason == TP_REASON_TIMEOUT) return TP_ERR_TIMEOUT;
  if (row->reason == TP_REASON_NO_MEMORY) return TP_ERR_NO_MEMORY;
  return row->reason == TP_REASON_CAPABILITY ? TP_ERR_CAPABILITY : TP_ERR_HOOK;
}

static tp__report report_of(const tp__entry *e, uint32_t index) {
  const tp__node *node = &e->plan->nodes[index];
  const tp__run *run = &e->runs[index];
  const tp_field *about = tp__fields_find(e->begin_fields, e->begin_field_count, TP_FIELD_TOOL);
  return (tp__report){.phase = e->plan->phase,
                      .subscription = node->subscription_name,
                      .owner = node->owner_name,
                      .subject = about ? about->text : (tp_text){NULL, 0},
                      .detail = tp_text_of(run->message),
                      .state = (tp_state)run->row.state,
                      .reason = (tp_reason)run->row.reason,
                      .visibility = node->sub->desc.visibility,
                      .duration_ns = run->row.started_ns ? run->row.ended_ns - run->row.started_ns : 0};
}

static void log_attempt(const tp__entry *e, uint32_t index, const char *and_then) {
  const tp__row_details *row = &e->runs[index].row;
  const tp__node *node = &e->plan->nodes[index];
  if (row->attempts == 0) return;
  tp__log_subject about = {.status = row->reason == TP_REASON_NONE ? TP_OK : status_of_row(row),
                           .phase = e->plan->phase,
                           .subscription = node->subscription_name,
                           .ids = e->turn->ids};
  tp__log(e->turn->runtime, TP_LOG_DEBUG, &about, "attempt %u of hook %s in %s: %s%s%s after %lld us%s, turn %.*s",
          row->attempts, node->subscription_name, phase_name(e->turn->runtime, e->plan->phase),
          tp_state_name((tp_state)row->state), row->reason ? ", " : "",
          row->reason ? tp_reason_name((tp_reason)row->reason) : "",
          (long long)((row->ended_ns - row->started_ns) / TP__NS_PER_US), and_then, (int)e->turn->ids[TP_ID_TURN].size,
          e->turn->ids[TP_ID_TURN].data ? e->turn->ids[TP_ID_TURN].data : "");
}

void tp__report_retry(const tp__entry *e, uint32_t index) {
  if (tp__logs_attempts(e->turn->runtime)) log_attempt(e, index, ", it is tried again");
}

void tp__report_run(const tp__entry *e, uint32_t index) {
  const tp__run *run = &e->runs[index];
  const tp__node *node = &e->plan->nodes[index];
  if (tp__logs_attempts(e->turn->runtime)) log_attempt(e, index, "");
  bool denied = run->row.verdict == TP_VERDICT_DENY, failed = has_failed(&run->row);
  if (!denied && !failed) return;
  if (failed) tp__a64_add_relaxed(&tp__runtime_counters(e->turn->runtime)->failures, 1);
  tp__report report = report_of(e, index);
  report.action = failed ? "failure" : "denial";
  report.status = failed ? status_of_row(&run->row) : TP_ERR_DENIED;
  tp_log_level level = !failed ? TP_LOG_INFO : node->failure == TP_FAILURE_REQUIRED ? TP_LOG_ERROR : TP_LOG_WARNING;
  tp__report_add(e->turn, level, &report);
}
