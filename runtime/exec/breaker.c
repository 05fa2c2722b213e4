/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/breaker.h"

#include <stdio.h>

#include "runtime/exec/report.h"
#include "runtime/exec/runtime.h"
#include "runtime/plan/registry.h"

static tp__breaker_state *breaker_state(const tp__entry *e) { return tp__runtime_breaker_state(e->turn->runtime); }

/* ---- before a call ---- */

static bool is_tripped(const tp__entry *e, const tp__node *node) {
  return tp__a32_load_relaxed(&breaker_state(e)->stopped_subscriptions) && tp__a32_load_relaxed(&node->sub->tripped);
}

/* The time is one second later than needed, so that not every failure writes a word that all threads read. */
static void suspect_until(const tp__entry *e, int64_t until_ns) {
  tp__a64 *shared = &breaker_state(e)->suspects_until_ns[e->plan->phase];
  uint64_t was = tp__a64_load_relaxed(shared);
  while ((int64_t)was < until_ns)
    if (tp__a64_cas_acq_rel(shared, &was, (uint64_t)until_ns + 1000u * TP__NS_PER_MS)) return;
}

/* After a probe the phase stays suspect for another interval, because the probe may run longer than the phase would be
 * suspect otherwise. */
static bool admits(const tp__entry *e, const tp__node *node) {
  tp__circuit *circuit = &node->sub->circuit;
  if (!tp__circuit_admits(circuit, e->now_ns)) return false;
  if (tp__circuit_is_open(circuit)) suspect_until(e, tp__circuit_suspect_until_ns(circuit, e->now_ns));
  return true;
}

/* A detached run is only started here. It checks its breaker itself, so that its own call is the probe. */
static bool is_open(const tp__entry *e, const tp__node *node) {
  if (!tp__breaker_suspects(breaker_state(e), e->plan->phase, e->now_ns) || (node->flags & TP__NODE_BACKGROUND))
    return false;
  return !(node->flags & TP__NODE_DETACHED ? tp__circuit_would_admit(&node->sub->circuit, e->now_ns) : admits(e, node));
}

const char *tp__breaker_refusal(const tp__entry *e, const tp__node *node) {
  if (is_tripped(e, node)) return "its breaker was opened by the operator";
  return is_open(e, node) ? "its breaker is open: too many of its calls failed" : NULL;
}

/* ---- after it ---- */

/* Whether a failure counts against the handler. A failure because the runtime lacked something, or because the host
 * cancelled, does not. */
static bool is_its_own(tp_reason reason) {
  switch (reason) {
    case TP_REASON_ERROR:
    case TP_REASON_TIMEOUT:
    case TP_REASON_CRASH:
    case TP_REASON_KILLED:
    case TP_REASON_CANNOT_START:
    case TP_REASON_MALFORMED:
    case TP_REASON_CAPABILITY:
      return true;
    default:
      return false;
  }
}

static void report_change(const tp__entry *e, const tp__node *node, const tp__circuit_report *what) {
  tp_runtime *runtime = e->turn->runtime;
  long long interval_ms = (long long)(what->interval_ns / TP__NS_PER_MS);
  bool opened = what->change != TP__CIRCUIT_CLOSED;
  char detail[TP__AUDIT_DETAIL_SIZE];
  if (what->change == TP__CIRCUIT_OPENED)
    snprintf(detail, sizeof detail, "%u of its last %u calls failed; the next is tried in %lld ms", what->failures,
             what->calls, interval_ms);
  else if (what->change == TP__CIRCUIT_REOPENED)
    snprintf(detail, sizeof detail, "its probe failed; the next is tried in %lld ms", interval_ms);
  else snprintf(detail, sizeof detail, "its probe succeeded");
  if (what->change == TP__CIRCUIT_OPENED) tp__a64_add_relaxed(&tp__runtime_counters(runtime)->breakers_opened, 1);
  tp__report row = {.action = opened ? "breaker opened" : "breaker closed",
                    .phase = e->plan->phase,
                    .subscription = node->subscription_name,
                    .owner = node->owner_name,
                    .detail = tp_text_of(detail),
                    .status = opened ? TP_ERR_HOOK : TP_OK,
                    .visibility = node->sub->desc.visibility};
  tp__report_add(e->turn, 0, &row);
  tp__log_subject about = {
      .status = row.status, .phase = row.phase, .subscription = row.subscription, .ids = e->turn->ids};
  tp__log(runtime, opened ? TP_LOG_WARNING : TP_LOG_INFO, &about, "%s of hook %s: %s", row.action, row.subscription,
          detail);
}

void tp__breaker_count(const tp__entry *e, uint32_t index, tp_reason reason) {
  const tp__node *node = &e->plan->nodes[index];
  tp_runtime *runtime = e->turn->runtime;
  bool failed = reason != TP_REASON_NONE;
  if (tp__runtime_options(runtime)->no_breakers || e->runs[index].row.started_ns == 0) return; /* it was never called */
  if (failed ? !is_its_own(reason) : !tp__breaker_suspects(breaker_state(e), e->plan->phase, e->now_ns)) return;
  tp__circuit_report what = tp__circuit_ended(&node->sub->circuit, failed, e->now_ns);
  suspect_until(e, tp__circuit_suspect_until_ns(&node->sub->circuit, e->now_ns));
  if (what.change != TP__CIRCUIT_SAME) report_change(e, node, &what);
}
