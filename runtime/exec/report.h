/* SPDX-License-Identifier: Apache-2.0
 *
 * report: what is reported of runs to an operator: a log line and an audit row for each run that failed, was late, was
 * refused or denied, and at level debug a log line for each attempt. Owner only. Has no lock of its own: it takes the
 * registry's, and calls the host's log callback without any. Never reports a payload: names, states, and the reasons
 * that handlers give, which must be safe to show. */
#ifndef TP__REPORT_H
#define TP__REPORT_H

#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"

typedef struct tp__report {
  const char *action; /* static text: "failure", "denial", "audit" */
  uint32_t phase;
  const char *subscription; /* as long as the runtime; never NULL */
  const char *owner;
  tp_text subject; /* what it was about, such as a name in the payload; may be empty */
  tp_text detail;
  tp_status status;
  tp_state state;
  tp_reason reason;
  tp_visibility visibility;
  int64_t duration_ns;
} tp__report;

/** Adds the audit row, and logs where level is not 0. */
void tp__report_add(const tp__turn *turn, tp_log_level level, const tp__report *report);
/** settle.c: a node has settled: reports it when it failed or denied. */
void tp__report_run(const tp__entry *entry, uint32_t index);
/** settle.c: an attempt has failed and another one follows. */
void tp__report_retry(const tp__entry *entry, uint32_t index);
/** Whether each attempt is logged: then no phase takes its fast path. */
static inline bool tp__logs_attempts(const tp_runtime *runtime) {
  const tp_runtime_options *options = tp__runtime_options(runtime);
  return options->log && options->log_level >= TP_LOG_DEBUG;
}

#endif
