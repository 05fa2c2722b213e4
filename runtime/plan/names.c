/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c: the names of the enums of registration, for messages, for printing and for hosts. */
#include "turnphase/runtime.h"

#include "runtime/plan/plan.h"

static const tp__policy executions[] = {
#define EXECUTION(value, ...) [TP_EXECUTION_##value] = {__VA_ARGS__},
#include "runtime/plan/policy.def"
};
static const tp__policy failures[] = {
#define FAILURE(value, ...) [TP_FAILURE_##value] = {__VA_ARGS__},
#include "runtime/plan/policy.def"
};
static const tp__policy unknown = {"unknown", 0, 0};

const tp__policy *tp__execution_policy(tp_execution execution) {
  switch (execution) {
#define EXECUTION(value, ...) case TP_EXECUTION_##value:
#include "runtime/plan/policy.def"
    return &executions[execution];
    case TP_EXECUTION_FORCE_32:
      break;
  }
  return &unknown;
}

const tp__policy *tp__failure_policy(tp_failure failure) {
  switch (failure) {
#define FAILURE(value, ...) case TP_FAILURE_##value:
#include "runtime/plan/policy.def"
    return &failures[failure];
    case TP_FAILURE_FORCE_32:
      break;
  }
  return &unknown;
}

const char *tp_execution_name(tp_execution execution) { return tp__execution_policy(execution)->name; }
const char *tp_failure_name(tp_failure failure) { return tp__failure_policy(failure)->name; }

const char *tp_backoff_name(tp_backoff backoff) {
  static const char *const names[] = {"none", "fixed", "exponential"};
  return TP__NAME_AT(names, backoff, "unknown");
}

const char *tp_backlog_name(tp_backlog backlog) {
  static const char *const names[] = {"default", "wait", "refuse", "shed"};
  return TP__NAME_AT(names, backlog, "unknown");
}

const char *tp_visibility_name(tp_visibility visibility) {
  static const char *const names[] = {"internal", "debug", "user_audit", "user_visible"};
  return TP__NAME_AT(names, visibility, "unknown");
}

const char *tp_severity_name(tp_severity severity) {
  static const char *const names[] = {"info", "warning", "error"};
  return TP__NAME_AT(names, severity, "unknown");
}

const char *tp_caller_name(tp_caller caller) {
  static const char *const names[] = {"ai_session", "background_job", "ci_pipeline", "manual_cli"};
  return TP__NAME_AT(names, caller, "unknown");
}

const char *tp_handler_kind_name(tp_handler_kind kind) {
  static const char *const names[] = {"native", "native", "script", "worker", "builtin"};
  return TP__NAME_AT(names, kind, "unknown");
}

const char *tp_mode_name(tp_mode mode) {
  static const char *const names[] = {NULL, "gather", "chain", "observe"};
  return TP__NAME_AT(names, mode, "unknown");
}

const char *tp_trust_name(tp_trust trust) {
  static const char *const names[] = {
      [TP_TRUST_HOST] = "host", [TP_TRUST_BUILTIN] = "builtin", [TP_TRUST_DECLARED] = "declared"};
  return TP__NAME_AT(names, trust, "unknown");
}
