/* SPDX-License-Identifier: Apache-2.0
 *
 * report: reports runs to an operator: a log line and an audit row for each run that failed, was late, was refused or
 * denied, and at level debug a log line for each attempt. Owner only. It has no lock of its own: it takes the
 * registry's, and calls the host's log callback without any lock. It never reports a payload. It reports names, states,
 * and the reasons that handlers give, which must be safe to show. */
#ifndef TP__REPORT_H
#define TP__REPORT_H

#include "runtime/exec/exec.h"

/** settle.c: a node has settled: reports it when it failed or denied. */
void tp__report_run(const tp__entry *entry, uint32_t index);
/** settle.c: an attempt has failed and another one follows. */
void tp__report_retry(const tp__entry *entry, uint32_t index);
#endif
