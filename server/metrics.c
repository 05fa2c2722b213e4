/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/clock.h"
#include "support/lock.h"
#include "support/text.h"

typedef enum metric_kind { COUNTER, HISTOGRAM } metric_kind;

/* The upper bounds of buckets: phases take microseconds, turns minutes. The texts are the floats of OpenMetrics. */
static const struct {
  int64_t ns;
  const char *text;
} bounds[] = {{10000, "1e-05"},       {100000, "0.0001"},    {1000000, "0.001"},    {5000000, "0.005"},
              {10000000, "0.01"},     {25000000, "0.025"},   {50000000, "0.05"},    {100000000, "0.1"},
              {250000000, "0.25"},    {500000000, "0.5"},    {1000000000, "1.0"},   {2500000000, "2.5"},
              {5000000000, "5.0"},    {10000000000, "10.0"}, {30000000000, "30.0"}, {60000000000, "60.0"},
              {300000000000, "300.0"}};

#define NS_IN_SECOND UINT64_C(1000000000)
enum { BOUNDS = sizeof bounds / sizeof *bounds, BUCKETS = 1024 };

static const struct metric {
  metric_kind kind;
  const char *name, *labels[2], *help;
} table[] = {
#define X(name, kind, text, label1, label2, help) {kind, text, {label1, label2}, help},
#include "server/metric.def"
#undef X
};

/** One combination of labels of a metric. */
typedef struct series {
  struct series *next;        /* the next one of the metric, in the order of their first use */
  struct series *bucket_next; /* the next one in the bucket of the hash table */
  tp__metric metric;
  char labels[2][TP_ID_BYTES_MAX + 1];
  uint64_t count;   /* in a counter its value */
  uint64_t *counts; /* BOUNDS of them: durations up to this bound and above the one before; NULL: a counter */
  uint64_t sum_ns;
  int64_t max_ns;
} series;

struct tp__metrics {
  tp__lock lock;
  /* under lock */
  series *buckets[BUCKETS];
  struct {
    series *first, *last;
    size_t count;
  } of[TP__METRIC_COUNT];
  uint64_t lost; /* how many were not counted, because there was no memory */
};

tp__metrics *tp__metrics_new(void) {
  tp__metrics *metrics = tp__heap_alloc(sizeof *metrics);
  if (metrics) tp__lock_init(&metrics->lock, TP__LOCK_metrics);
  return metrics;
}

void tp__metrics_free(tp__metrics *metrics) {
  if (!metrics) return;
  for (size_t i = 0; i < TP__METRIC_COUNT; i++)
    for (series *next, *s = metrics->of[i].first; s; s = next) {
      next = s->next;
      tp__heap_free(s->counts, BOUNDS * sizeof *s->counts);
      tp__heap_free(s, sizeof *s);
    }
  tp__lock_fini(&metrics->lock);
  tp__heap_free(metrics, sizeof *metrics);
}

/* ---- counting ---- */

static uint64_t hash_text(uint64_t hash, tp_text text) {
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(1099511628211);
  return (hash ^ 0xff) * UINT64_C(1099511628211);
}

static bool has_labels(const series *s, tp__metric metric, const tp_text labels[2]) {
  return s->metric == metric && tp__same(tp_text_of(s->labels[0]), labels[0]) &&
         tp__same(tp_text_of(s->labels[1]), labels[1]);
}

/* @return NULL: there is no memory. */
static series *series_new(tp__metric metric, const tp_text labels[2]) {
  series *s = tp__heap_alloc(sizeof *s);
  if (!s) return NULL;
  s->metric = metric;
  if (table[metric].kind == HISTOGRAM) s->counts = tp__heap_alloc(BOUNDS * sizeof *s->counts);
  if (table[metric].kind == HISTOGRAM && !s->counts) {
    tp__heap_free(s, sizeof *s);
    return NULL;
  }
  for (int i = 0; i < 2; i++) (void)tp__copy_cut(s->labels[i], sizeof s->labels[i], labels[i]);
  return s;
}

/* @return NULL: there is no memory; this is counted. */
static series *find_locked(tp__metrics *m, tp__metric metric, tp_text first, tp_text second) {
  TP__LOCKED(&m->lock);
  static const tp_text other = {"_other", 6};
  tp_text labels[2] = {first, second};
  for (int i = 0; i < 2; i++) {
    if (!table[metric].labels[i]) labels[i].size = 0;
    else labels[i].size = (size_t)tp__cut(labels[i], TP_ID_BYTES_MAX);
  }
  for (;;) {
    uint64_t hash = hash_text(hash_text(UINT64_C(14695981039346656037) ^ metric, labels[0]), labels[1]);
    series **bucket = &m->buckets[(hash ^ hash >> 32) & (BUCKETS - 1)];
    for (series *s = *bucket; s; s = s->bucket_next)
      if (has_labels(s, metric, labels)) return s;
    if (m->of[metric].count < TP__METRICS_SERIES_MAX || tp__same(labels[0], other)) {
      series *s = series_new(metric, labels);
      if (!s) {
        m->lost++;
        return NULL;
      }
      s->bucket_next = *bucket;
      *bucket = s;
      *(m->of[metric].last ? &m->of[metric].last->next : &m->of[metric].first) = s;
      m->of[metric].last = s;
      m->of[metric].count++;
      return s;
    }
    for (int i = 0; i < 2; i++)
      if (table[metric].labels[i]) labels[i] = other;
  }
}

void tp__metrics_add(tp__metrics *metrics, tp__metric metric, tp_text first, tp_text second, uint64_t amount) {
  assert(table[metric].kind == COUNTER);
  tp__lock_acquire(&metrics->lock);
  series *s = find_locked(metrics, metric, first, second);
  if (s) s->count += amount;
  tp__lock_release(&metrics->lock);
}

void tp__metrics_observe(tp__metrics *metrics, tp__metric metric, tp_text first, int64_t duration_ns) {
  assert(table[metric].kind == HISTOGRAM);
  if (duration_ns < 0) duration_ns = 0;
  size_t bucket = 0;
  while (bucket < BOUNDS && duration_ns > bounds[bucket].ns) bucket++;
  tp__lock_acquire(&metrics->lock);
  series *s = find_locked(metrics, metric, first, (tp_text){0});
  if (s) {
    s->count++;
    s->sum_ns += (uint64_t)duration_ns;
    if (bucket < BOUNDS) s->counts[bucket]++;
    if (duration_ns > s->max_ns) s->max_ns = duration_ns;
  }
  tp__lock_release(&metrics->lock);
}

/* ---- the exposition ---- */

/* Adds the value of a label: backslash, quotation mark and newline are escaped; bytes that are not UTF-8 are
 * replaced. */
static void put_value(tp__bytes *out, const char *value) {
  tp__bytes clean = {0};
  (void)tp__bytes_put_utf8(&clean, tp_text_of(value));
  out->failed |= clean.failed;
  for (size_t i = 0; i < clean.size; i++) {
    char c = clean.data[i];
    if (c == '\n') tp__bytes_put(out, "\\n", 2);
    else if (c == '\\' || c == '"') tp__bytes_put(out, (char[]){'\\', c}, 2);
    else tp__bytes_put(out, &c, 1);
  }
  tp__bytes_fini(&clean);
}

/* Adds the metadata. The name of a counter has _total there in the text format, but not in OpenMetrics. */
static void put_head(tp__bytes *out, const char *name, const char *type, const char *help, bool open_metrics) {
  bool adds_total = !open_metrics && strcmp(type, "counter") == 0;
  const char *suffix = adds_total ? "_total" : "";
  tp__bytes_printf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
}

/* @param bound  the bound of a bucket; NULL: no label le. */
static void put_labels(tp__bytes *out, const struct metric *metric, const series *s, const char *bound) {
  char before = '{';
  for (int i = 0; i < 2; i++) {
    if (!metric->labels[i]) continue;
    tp__bytes_printf(out, "%c%s=\"", before, metric->labels[i]);
    put_value(out, s->labels[i]);
    tp__bytes_put(out, "\"", 1);
    before = ',';
  }
  if (bound) tp__bytes_printf(out, "%cle=\"%s\"", before, bound);
  if (bound || before == ',') tp__bytes_put(out, "}", 1);
}

static void put_histogram(tp__bytes *out, const struct metric *metric, const series *s) {
  uint64_t up_to = 0;
  for (size_t i = 0; i <= BOUNDS; i++) {
    up_to = i < BOUNDS ? up_to + s->counts[i] : s->count;
    tp__bytes_printf(out, "%s_bucket", metric->name);
    put_labels(out, metric, s, i < BOUNDS ? bounds[i].text : "+Inf");
    tp__bytes_printf(out, " %" PRIu64 "\n", up_to);
  }
  tp__bytes_printf(out, "%s_sum", metric->name);
  put_labels(out, metric, s, NULL);
  tp__bytes_printf(out, " %" PRIu64 ".%09" PRIu64 "\n%s_count", s->sum_ns / NS_IN_SECOND, s->sum_ns % NS_IN_SECOND,
                   metric->name); /* not %f, which writes the decimal point of the locale */
  put_labels(out, metric, s, NULL);
  tp__bytes_printf(out, " %" PRIu64 "\n", s->count);
}

static void put_metric_locked(tp__metrics *m, tp__metric which, bool open_metrics, tp__bytes *out) {
  TP__LOCKED(&m->lock);
  const struct metric *metric = &table[which];
  if (!m->of[which].first) return;
  put_head(out, metric->name, metric->kind == COUNTER ? "counter" : "histogram", metric->help, open_metrics);
  for (const series *s = m->of[which].first; s; s = s->next) {
    if (metric->kind == HISTOGRAM) {
      put_histogram(out, metric, s);
      continue;
    }
    tp__bytes_printf(out, "%s_total", metric->name);
    put_labels(out, metric, s, NULL);
    tp__bytes_printf(out, " %" PRIu64 "\n", s->count);
  }
}

static void put_turns(const tp_runtime_stats *r, bool open_metrics, tp__bytes *out) {
  const struct {
    const char *outcome;
    uint64_t count;
  } rows[] = {{"completed", r->turns_completed},
              {"failed", r->turns_failed},
              {"denied", r->turns_denied},
              {"cancelled", r->turns_cancelled},
              {"timed_out", r->turns_timed_out}};
  put_head(out, "turnphase_turns", "counter", "Turns that have ended, by outcome.", open_metrics);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    tp__bytes_printf(out, "turnphase_turns_total{outcome=\"%s\"} %" PRIu64 "\n", rows[i].outcome, rows[i].count);
}

static void put_now(const tp__metrics_now *now, uint64_t lost, bool open_metrics, tp__bytes *out) {
  const tp_runtime_stats *r = &now->runtime;
  const struct {
    bool is_counter;
    const char *name, *help;
    uint64_t value;
  } rows[] = {
      {false, "turnphase_ready", "1 while /health/ready is 200.", now->ready},
      {false, "turnphase_turns_open", "Turns that run or wait.", r->turns_open},
      {false, "turnphase_turns_waiting", "Turns that wait for admission.", r->turns_waiting},
      {false, "turnphase_turns_queued", "Turns that wait for the turn before them in their session.", r->turns_queued},
      {true, "turnphase_turns_refused", "Turns that admission has refused.", r->turns_refused},
      {false, "turnphase_sessions_open", "Sessions whose close has not ended.", r->sessions_open},
      {true, "turnphase_denials", "What handlers and policies have denied.", r->denials},
      {true, "turnphase_handler_failures", "Runs of handlers that did not answer.", r->failures},
      {true, "turnphase_handler_runs_shed", "Runs of handlers that were shed.", r->attempts_shed},
      {true, "turnphase_breakers_opened", "Breakers of subscriptions that opened by themselves.", r->breakers_opened},
      {false, "turnphase_calls_waiting", "Calls that wait for a thread or a permit.", r->attempts_waiting},
      {false, "turnphase_calls_abandoned", "Calls that ran into their limit and have not returned.",
       r->attempts_abandoned},
      {false, "turnphase_handler_threads", "Threads that run handlers.", r->handler_threads},
      {false, "turnphase_tokens_open", "Deferred calls that were not completed.", r->tokens_open},
      {false, "turnphase_jobs_open", "Background jobs that wait or run.", r->jobs_open},
      {true, "turnphase_job_runs", "Attempts of background jobs that have ended.", r->jobs_run},
      {true, "turnphase_jobs_dead", "Background jobs that failed for good.", r->jobs_dead},
      {true, "turnphase_jobs_refused", "Background jobs that the store did not take.", r->jobs_refused},
      {false, "turnphase_http_requests_open", "Requests of clients whose turn has not ended.", now->http_requests_open},
      {true, "turnphase_metrics_lost", "What was not counted, since there was no memory.", lost},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    put_head(out, rows[i].name, rows[i].is_counter ? "counter" : "gauge", rows[i].help, open_metrics);
    tp__bytes_printf(out, "%s%s %" PRIu64 "\n", rows[i].name, rows[i].is_counter ? "_total" : "", rows[i].value);
  }
}

void tp__metrics_print(tp__metrics *metrics, const tp__metrics_now *now, bool open_metrics, tp__bytes *out) {
  tp__bytes_printf(out,
                   "# HELP turnphase_build_info The version of the library.\n# TYPE turnphase_build_info gauge\n"
                   "turnphase_build_info{version=\"%s\"} 1\n",
                   tp_version());
  put_turns(&now->runtime, open_metrics, out);
  tp__lock_acquire(&metrics->lock);
  for (size_t i = 0; i < TP__METRIC_COUNT; i++) put_metric_locked(metrics, (tp__metric)i, open_metrics, out);
  uint64_t lost = metrics->lost;
  tp__lock_release(&metrics->lock);
  put_now(now, lost, open_metrics, out);
  if (open_metrics) tp__bytes_put_string(out, "# EOF\n");
}

/* ---- summaries ---- */

static void summarize(const series *s, tp__metrics_summary *summary) {
  uint64_t up_to = 0, wanted = s->count - s->count / 20;
  double max_s = (double)s->max_ns / 1e9;
  *summary = (tp__metrics_summary){.count = s->count, .sum_s = (double)s->sum_ns / 1e9, .max_s = max_s, .p95_s = max_s};
  memcpy(summary->label, s->labels[0], sizeof summary->label);
  for (size_t i = 0; i < BOUNDS; i++) {
    up_to += s->counts[i];
    if (up_to < wanted) continue;
    if ((double)bounds[i].ns / 1e9 < max_s) summary->p95_s = (double)bounds[i].ns / 1e9;
    return;
  }
}

static int compare_sums(const void *a, const void *b) {
  double x = ((const tp__metrics_summary *)a)->sum_s, y = ((const tp__metrics_summary *)b)->sum_s;
  return (x < y) - (x > y);
}

size_t tp__metrics_largest(tp__metrics *metrics, tp__metric metric, tp__metrics_summary *summaries, size_t max) {
  assert(table[metric].kind == HISTOGRAM);
  size_t count = 0;
  tp__lock_acquire(&metrics->lock);
  for (const series *s = metrics->of[metric].first; s; s = s->next) {
    if (count < max) {
      summarize(s, &summaries[count++]);
      continue;
    }
    size_t least = 0; /* the one with the smallest sum is replaced */
    for (size_t i = 1; i < count; i++)
      if (summaries[i].sum_s < summaries[least].sum_s) least = i;
    if (count > 0 && (double)s->sum_ns / 1e9 > summaries[least].sum_s) summarize(s, &summaries[least]);
  }
  tp__lock_release(&metrics->lock);
  if (count > 1) qsort(summaries, count, sizeof *summaries, compare_sums);
  return count;
}

/* ---- which format ---- */

/* Reads a weight: "0.35" is 350; it has at most three digits. */
static int thousandths(const char *text) {
  int value = text[0] == '1' ? 1000 : 0;
  if (value == 0 && text[0] == '0' && text[1] == '.')
    for (int i = 0, unit = 100; i < 3 && text[2 + i] >= '0' && text[2 + i] <= '9'; i++, unit /= 10)
      value += (text[2 + i] - '0') * unit;
  return value;
}

/* The weight of a media range in thousandths; 0 when the range does not include the type. */
static int weight_of(tp_text range, const char *type, const char *version) {
  size_t size = strlen(type);
  if (range.size < size || strncasecmp(range.data, type, size) != 0) return 0;
  char text[128];
  int weight = 1000;
  (void)tp__copy_cut(text, sizeof text, (tp_text){range.data + size, range.size - size});
  if (text[0] && !strchr("; \t", text[0])) return 0;
  char *rest = text;
  for (char *parameter; (parameter = strsep(&rest, ";"));) {
    parameter += strspn(parameter, " \t");
    if (strncasecmp(parameter, "q=", 2) == 0) weight = thousandths(parameter + 2);
    size_t length = strcspn(parameter, " \t");
    if (strncasecmp(parameter, "version=", 8) == 0 &&
        !tp__same((tp_text){parameter + 8, length - 8}, tp_text_of(version)))
      return 0;
  }
  return weight;
}

bool tp__metrics_prefers_open(tp_text accept) {
  int open = 0, plain = 0;
  if (accept.size == 0) return false; /* its data may be NULL */
  for (size_t from = 0, at = 0; at <= accept.size; at++) {
    if (at < accept.size && accept.data[at] != ',') continue;
    tp_text range = {accept.data + from, at - from};
    while (range.size > 0 && strchr(" \t", range.data[0])) range.data++, range.size--;
    int weight = weight_of(range, "application/openmetrics-text", "1.0.0");
    if (weight > open) open = weight;
    weight = weight_of(range, "text/plain", "0.0.4");
    if (weight > plain) plain = weight;
    from = at + 1;
  }
  return open > 0 && open >= plain;
}
