/* SPDX-License-Identifier: Apache-2.0 */
#include "turnphase/store.h"

#include "runtime/base/base.h"

const char *tp_step_kind_name(tp_step_kind kind) {
  static const char *const names[] = {"none", "load", "model", "tool", "append", "message", "question"};
  return TP__NAME_AT(names, kind, "unknown");
}

const char *tp_state_name(tp_state state) {
  static const char *const names[] = {[TP_STATE_NONE] = "none",
                                      [TP_STATE_QUEUED] = "queued",
                                      [TP_STATE_RUNNING] = "running",
                                      [TP_STATE_SUCCEEDED] = "succeeded",
                                      [TP_STATE_FAILED] = "failed",
                                      [TP_STATE_TIMED_OUT] = "timed_out",
                                      [TP_STATE_CANCELLED] = "cancelled",
                                      [TP_STATE_BACKGROUNDED] = "backgrounded",
                                      [TP_STATE_INTERRUPTED] = "interrupted",
                                      [TP_STATE_SKIPPED] = "skipped"};
  return TP__NAME_AT(names, state, "unknown");
}

const char *tp_verdict_name(tp_verdict verdict) {
  static const char *const names[] = {
      [TP_VERDICT_NONE] = "none", [TP_VERDICT_ALLOW] = "allow", [TP_VERDICT_ASK] = "ask", [TP_VERDICT_DENY] = "deny"};
  return TP__NAME_AT(names, verdict, "");
}

const char *tp_placement_name(tp_placement placement) {
  static const char *const names[] = {[TP_PLACEMENT_DEFAULT] = "thread",
                                      [TP_PLACEMENT_THREAD] = "thread",
                                      [TP_PLACEMENT_INLINE] = "inline",
                                      [TP_PLACEMENT_PARALLEL] = "parallel"};
  return TP__NAME_AT(names, placement, "");
}

const char *tp_reason_name(tp_reason reason) {
  static const char *const names[] = {[TP_REASON_NONE] = "none",
                                      [TP_REASON_ERROR] = "error",
                                      [TP_REASON_TIMEOUT] = "timeout",
                                      [TP_REASON_CRASH] = "crash",
                                      [TP_REASON_KILLED] = "killed",
                                      [TP_REASON_CANNOT_START] = "cannot_start",
                                      [TP_REASON_MALFORMED] = "malformed",
                                      [TP_REASON_CAPABILITY] = "capability",
                                      [TP_REASON_NO_PERMIT] = "no_permit",
                                      [TP_REASON_NO_WORKER] = "no_worker",
                                      [TP_REASON_BREAKER_OPEN] = "breaker_open",
                                      [TP_REASON_SHED] = "shed",
                                      [TP_REASON_NO_MEMORY] = "no_memory",
                                      [TP_REASON_STORE] = "store",
                                      [TP_REASON_SHUTDOWN] = "shutdown",
                                      [TP_REASON_CANCELLED] = "cancelled",
                                      [TP_REASON_NO_INBOX] = "no_inbox",
                                      [TP_REASON_POSTPONED] = "postponed",
                                      [TP_REASON_FENCED] = "fenced",
                                      [TP_REASON_MATCH] = "match",
                                      [TP_REASON_DEPENDENCY] = "dependency",
                                      [TP_REASON_PHASE_FAILED] = "phase_failed",
                                      [TP_REASON_NO_SLACK] = "no_slack",
                                      [TP_REASON_KILL_SWITCH] = "kill_switch",
                                      [TP_REASON_BACKLOG] = "backlog"};
  return TP__NAME_AT(names, reason, "unknown");
}

const char *tp_job_state_name(tp_job_state state) {
  static const char *const names[] = {[TP_JOB_QUEUED] = "queued",
                                      [TP_JOB_RUNNING] = "running",
                                      [TP_JOB_SUCCEEDED] = "succeeded",
                                      [TP_JOB_DEAD] = "dead",
                                      [TP_JOB_DISCARDED] = "discarded"};
  return TP__NAME_AT(names, state, "unknown");
}
