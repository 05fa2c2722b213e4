/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/decide.h"

#include "runtime/plan/plan.h"

enum cause_class { SUCCESS, NO_DUTY, SHED, DUTY_LEFT, CANCELLED, FAILURE };

static enum cause_class class_of(tp_reason cause) {
  switch (cause) {
    case TP_REASON_NONE:
      return SUCCESS;
    case TP_REASON_MATCH:
    case TP_REASON_KILL_SWITCH:
    case TP_REASON_PHASE_FAILED:
      return NO_DUTY; /* it did not have to run */
    case TP_REASON_BACKLOG:
      return SHED; /* by its own policy */
    case TP_REASON_DEPENDENCY:
    case TP_REASON_NO_SLACK:
      return DUTY_LEFT; /* skipped; but a guard that does not run always has an effect */
    case TP_REASON_CANCELLED:
      return CANCELLED;
    default:
      return FAILURE; /* TP_REASON_TIMEOUT and all other ways of not answering */
  }
}

tp__decision tp__decide(tp_execution execution, tp_failure failure, tp_reason cause) {
  bool required = failure == TP_FAILURE_REQUIRED;
  switch (class_of(cause)) {
    case SUCCESS:
    case NO_DUTY:
      return TP__DECIDE_GO_ON;
    case SHED:
      return TP__DECIDE_DIAGNOSE;
    case DUTY_LEFT:
      return required ? TP__DECIDE_FAIL : TP__DECIDE_GO_ON;
    case CANCELLED:
      return required ? TP__DECIDE_FAIL : TP__DECIDE_DIAGNOSE;
    case FAILURE:
      break;
  }
  if (required) return TP__DECIDE_FAIL; /* in a phase with verdicts this denies: tp__entry_outcome() */
  bool detached = tp__execution_policy(execution)->flags & TP__NODE_DETACHED;
  return failure == TP_FAILURE_FALLBACK && !detached ? TP__DECIDE_FALLBACK : TP__DECIDE_DIAGNOSE;
}
