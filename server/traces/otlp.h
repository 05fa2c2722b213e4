/* SPDX-License-Identifier: Apache-2.0
 *
 * otlp: sends spans to a collector: one thread, a queue with a bound, batches. A request that failed temporarily (429,
 * 502, 503, 504, no connection) is repeated after a pause that doubles, or after the collector's Retry-After; any other
 * failure drops its spans. Spans of one turn stay in one request.
 *
 * Source: OpenTelemetry Protocol 1.x, sections OTLP/HTTP, "JSON Protobuf encoding" and "Failures".
 * Locks: one, for the queue and the numbers; nothing but the allocator is called under it. */
#ifndef TP__TRACES_OTLP_H
#define TP__TRACES_OTLP_H

#include "turnphase/traces.h"

typedef struct tp__otlp tp__otlp;

/** @param options  its struct_size was checked; the rest is checked here, and copied. */
tp_status tp__otlp_new(const tp_traces_options *options, tp__otlp **ret_otlp, tp_fault *fault) TP_MUST_USE;
/** Queues the spans of a turn, JSON objects separated by commas; spans that do not fit are dropped and counted.
 *  Threads: any.  Blocks: no. */
void tp__otlp_put(tp__otlp *otlp, tp_text spans, uint64_t count);
/** Counts spans that could not be made. */
void tp__otlp_drop(tp__otlp *otlp, uint64_t count);
void tp__otlp_stats(tp__otlp *otlp, tp_traces_stats *ret_stats);
/** Sends waiting spans within limit_ms, drops the rest, and ends the thread. Accepts NULL. */
void tp__otlp_stop(tp__otlp *otlp, uint32_t limit_ms);
/** Frees it, after it was stopped. Accepts NULL. */
void tp__otlp_free(tp__otlp *otlp);

#endif
