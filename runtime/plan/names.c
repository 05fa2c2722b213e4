/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c: the words for the enums of registration, in messages, in print and for hosts. */
#include "turnphase/runtime.h"

#define NAME_OF(value, ...)                         \
  static const char *const names[] = {__VA_ARGS__}; \
  return (size_t)(value) < sizeof names / sizeof *names && names[value] ? names[value] : "unknown"

const char *tp_execution_name(tp_execution execution) {
  NAME_OF(execution, "default", "blocking", "deadline", "fire_and_record", "background");
}

const char *tp_failure_name(tp_failure failure) { NAME_OF(failure, "default", "best_effort", "fallback", "required"); }

const char *tp_backoff_name(tp_backoff backoff) { NAME_OF(backoff, "none", "fixed", "exponential"); }

const char *tp_visibility_name(tp_visibility visibility) {
  NAME_OF(visibility, "internal", "debug", "user_audit", "user_visible");
}

const char *tp_severity_name(tp_severity severity) { NAME_OF(severity, "info", "warning", "error"); }

const char *tp_caller_name(tp_caller caller) {
  NAME_OF(caller, "ai_session", "background_job", "ci_pipeline", "manual_cli");
}

const char *tp_handler_kind_name(tp_handler_kind kind) {
  NAME_OF(kind, "native", "native", "script", "worker", "builtin");
}

const char *tp_mode_name(tp_mode mode) { NAME_OF(mode, NULL, "gather", "chain", "observe"); }

const char *tp_trust_name(tp_trust trust) {
  switch (trust) {
    case TP_TRUST_HOST:
      return "host";
    case TP_TRUST_BUILTIN:
      return "builtin";
    case TP_TRUST_DECLARED:
      return "declared";
    default:
      return "unknown";
  }
}
