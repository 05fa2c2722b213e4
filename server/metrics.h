/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics: the numbers that a server counts about its requests, and about the turns of its runtime: counters and
 * histograms with fixed buckets, each with up to two labels. Labels are names of phases, handlers, tools, models and
 * routes, never of sessions, tenants or turns. A metric has at most SERIES_MAX combinations of labels; later ones are
 * counted together, with labels of "_other".
 *
 * Locks: one, for all numbers; nothing is called under it. Threads: any. */
#ifndef TP__SERVER_METRICS_H
#define TP__SERVER_METRICS_H

#include "support/bytes.h"
#include "turnphase/inspect.h"

enum { TP__METRICS_SERIES_MAX = 512 };

typedef enum tp__metric {
#define X(name, kind, text, label1, label2, help) TP__METRIC_##name,
#include "server/metric.def"
#undef X
  TP__METRIC_COUNT
} tp__metric;

typedef struct tp__metrics tp__metrics;

/** @return NULL: there is no memory. */
tp__metrics *tp__metrics_new(void);
void tp__metrics_free(tp__metrics *metrics);

/** Adds to a counter. @param first, second  the values of its labels; empty if it has none. */
void tp__metrics_add(tp__metrics *metrics, tp__metric metric, tp_text first, tp_text second, uint64_t amount);
/** Adds a duration to a histogram. A negative one counts as 0. */
void tp__metrics_observe(tp__metrics *metrics, tp__metric metric, tp_text first, int64_t duration_ns);

/** Gauges and counters that are read from the runtime when they are printed. */
typedef struct tp__metrics_now {
  tp_runtime_stats runtime;
  uint64_t http_requests_open; /* requests that became turns, or wait to become one */
  bool ready;
} tp__metrics_now;

/** Adds the text exposition format 0.0.4, or OpenMetrics 1.0.0. Blocks: no. */
void tp__metrics_print(tp__metrics *metrics, const tp__metrics_now *now, bool open_metrics, tp__bytes *out);

/** A summary of one series of a histogram. */
typedef struct tp__metrics_summary {
  char label[TP_ID_BYTES_MAX + 1];
  uint64_t count;
  double sum_s, max_s, p95_s; /* p95_s: the upper bound of the bucket with the 95th percentile, at most max_s */
} tp__metrics_summary;

/** The series of a histogram with the largest sums, largest first. @return how many were filled, at most max. */
size_t tp__metrics_largest(tp__metrics *metrics, tp__metric metric, tp__metrics_summary *summaries, size_t max);

/** Whether a client that sends this header Accept prefers OpenMetrics 1.0.0 to the text format 0.0.4. */
bool tp__metrics_prefers_open(tp_text accept);

#endif
