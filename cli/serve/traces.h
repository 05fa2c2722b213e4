/* SPDX-License-Identifier: Apache-2.0
 *
 * traces: what serve makes of --traces, --traces-sample and --traces-all, and of the variables of OpenTelemetry that
 * others set, too: OTEL_EXPORTER_OTLP_HEADERS ("name=value,name=value", percent-encoded) and OTEL_SERVICE_NAME. */
#ifndef TURNPHASE_CLI_SERVE_TRACES_H
#define TURNPHASE_CLI_SERVE_TRACES_H

#include "cli/common/options.h"
#include "turnphase/server.h"

typedef struct tp_traces tp_traces;

/** @param ret_traces  ended by cli_traces_close(); NULL: none are asked for.
 *  @return a status of the command; what is wrong was said. */
int cli_traces_open(tp_runtime *runtime, const cli_arguments *arguments, tp_traces **ret_traces);
/** A tp_server_begin_fn; ctx is a tp_traces. */
void cli_traces_begin(void *ctx, const tp_server_begin *begin);
/** A cli_traceparent_fn; ctx is a tp_traces. */
bool cli_traces_parent(void *ctx, const tp_text *ids, uint32_t id_count, char ret_text[56]);
/** Sends what waits, at most limit_ms, and says how many spans were dropped. Accepts NULL. */
void cli_traces_close(tp_traces *traces, uint32_t limit_ms);

#endif
