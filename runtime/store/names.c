/* SPDX-License-Identifier: Apache-2.0 */
#include "turnphase/store.h"

const char *tp_step_kind_name(tp_step_kind kind) {
  static const char *const names[] = {"none", "load", "model", "tool", "append"};
  return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

const char *tp_state_name(tp_state state) {
  switch (state) {
    case TP_STATE_NONE:
      return "none";
    case TP_STATE_QUEUED:
      return "queued";
    case TP_STATE_RUNNING:
      return "running";
    case TP_STATE_SUCCEEDED:
      return "succeeded";
    case TP_STATE_FAILED:
      return "failed";
    case TP_STATE_TIMED_OUT:
      return "timed_out";
    case TP_STATE_CANCELLED:
      return "cancelled";
    case TP_STATE_BACKGROUNDED:
      return "backgrounded";
    case TP_STATE_INTERRUPTED:
      return "interrupted";
    case TP_STATE_SKIPPED:
      return "skipped";
    case TP_STATE_FORCE_32:
      break;
  }
  return "unknown";
}

const char *tp_verdict_name(tp_verdict verdict) {
  switch (verdict) {
    case TP_VERDICT_NONE:
      return "none";
    case TP_VERDICT_ALLOW:
      return "allow";
    case TP_VERDICT_ASK:
      return "ask";
    case TP_VERDICT_DENY:
      return "deny";
    case TP_VERDICT_FORCE_32:
      break;
  }
  return "";
}

const char *tp_placement_name(tp_placement placement) {
  switch (placement) {
    case TP_PLACEMENT_DEFAULT:
    case TP_PLACEMENT_THREAD:
      return "thread";
    case TP_PLACEMENT_INLINE:
      return "inline";
    case TP_PLACEMENT_PARALLEL:
      return "parallel";
    case TP_PLACEMENT_FORCE_32:
      break;
  }
  return "";
}

const char *tp_reason_name(tp_reason reason) {
  switch (reason) {
    case TP_REASON_NONE:
      return "none";
    case TP_REASON_ERROR:
      return "error";
    case TP_REASON_TIMEOUT:
      return "timeout";
    case TP_REASON_CRASH:
      return "crash";
    case TP_REASON_KILLED:
      return "killed";
    case TP_REASON_CANNOT_START:
      return "cannot_start";
    case TP_REASON_MALFORMED:
      return "malformed";
    case TP_REASON_CAPABILITY:
      return "capability";
    case TP_REASON_NO_PERMIT:
      return "no_permit";
    case TP_REASON_NO_WORKER:
      return "no_worker";
    case TP_REASON_BREAKER_OPEN:
      return "breaker_open";
    case TP_REASON_SHED:
      return "shed";
    case TP_REASON_NO_MEMORY:
      return "no_memory";
    case TP_REASON_STORE:
      return "store";
    case TP_REASON_SHUTDOWN:
      return "shutdown";
    case TP_REASON_CANCELLED:
      return "cancelled";
    case TP_REASON_MATCH:
      return "match";
    case TP_REASON_DEPENDENCY:
      return "dependency";
    case TP_REASON_PHASE_FAILED:
      return "phase_failed";
    case TP_REASON_NO_SLACK:
      return "no_slack";
    case TP_REASON_KILL_SWITCH:
      return "kill_switch";
    case TP_REASON_FORCE_32:
      break;
  }
  return "unknown";
}

const char *tp_job_state_name(tp_job_state state) {
  switch (state) {
    case TP_JOB_QUEUED:
      return "queued";
    case TP_JOB_RUNNING:
      return "running";
    case TP_JOB_SUCCEEDED:
      return "succeeded";
    case TP_JOB_DEAD:
      return "dead";
    case TP_JOB_DISCARDED:
      return "discarded";
    case TP_JOB_STATE_FORCE_32:
      break;
  }
  return "unknown";
}
