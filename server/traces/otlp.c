/* SPDX-License-Identifier: Apache-2.0 */
#include "server/traces/otlp.h"

#include <assert.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/bytes.h"
#include "support/clock.h"
#include "support/fault.h"
#include "support/json.h"
#include "support/lock.h"

enum {
  QUEUE_BYTES = 8 << 20,
  BATCH_BYTES = 1 << 20,
  BATCH_SPANS = 512,
  ANSWER_BYTES = 64 << 10,
  PAUSE_MS = 1000,
  LIMIT_MS = 10000,
  RETRY_MS = 1000,
  RETRY_MS_MAX = 30000,
  RETRY_AFTER_S_MAX = 60
};

/** The spans of a turn. */
typedef struct chunk {
  struct chunk *next;
  uint64_t spans;
  size_t size;
  char json[];
} chunk;

struct tp__otlp {
  /* never change */
  tp_traces_options options; /* its strings are not used */
  char *url;
  tp__bytes head; /* the beginning of a body, up to the first span */
  struct curl_slist *headers;
  pthread_t thread;
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  chunk *first, **end;
  size_t bytes;
  int64_t first_ns; /* when the oldest chunk came */
  bool stops;
  int64_t stop_ns; /* the time at which all requests end */
  tp_traces_stats stats;
  /* used by the thread only */
  CURL *easy;
  tp__bytes answer;
  bool is_failing;
};

/* ---- the queue ---- */

void tp__otlp_drop(tp__otlp *otlp, uint64_t count) {
  tp__lock_acquire(&otlp->lock);
  otlp->stats.dropped += count;
  tp__lock_release(&otlp->lock);
}

void tp__otlp_put(tp__otlp *otlp, tp_text spans, uint64_t count) {
  chunk *c = tp__heap_alloc(sizeof *c + spans.size);
  if (!c) {
    tp__otlp_drop(otlp, count);
    return;
  }
  c->spans = count;
  c->size = spans.size;
  memcpy(c->json, spans.data, spans.size);
  tp__lock_acquire(&otlp->lock);
  bool fits = otlp->bytes + spans.size <= otlp->options.queue_bytes_max;
  if (fits) {
    if (!otlp->first) otlp->first_ns = tp__monotonic_ns();
    *otlp->end = c;
    otlp->end = &c->next;
    otlp->bytes += c->size;
    otlp->stats.waiting += count;
    tp__lock_condition_signal(&otlp->changed);
  } else {
    otlp->stats.dropped += count;
  }
  tp__lock_release(&otlp->lock);
  if (!fits) tp__heap_free(c, sizeof *c + c->size);
}

void tp__otlp_stats(tp__otlp *otlp, tp_traces_stats *ret_stats) {
  tp__lock_acquire(&otlp->lock);
  *ret_stats = otlp->stats;
  tp__lock_release(&otlp->lock);
}

/* Moves the oldest chunks into a body. @return how many spans they have; 0: none wait. */
static uint64_t take_locked(tp__otlp *otlp, tp__bytes *body) {
  TP__LOCKED(&otlp->lock);
  uint64_t spans = 0;
  tp__bytes_clear(body);
  tp__bytes_put_text(body, tp__bytes_text(&otlp->head));
  for (chunk *c = otlp->first; c && (spans == 0 || (body->size + c->size < BATCH_BYTES && spans < BATCH_SPANS));
       c = otlp->first) {
    if (spans > 0) tp__bytes_put(body, ",", 1);
    tp__bytes_put(body, c->json, c->size);
    spans += c->spans;
    otlp->first = c->next;
    if (!otlp->first) otlp->end = &otlp->first;
    otlp->bytes -= c->size;
    tp__heap_free(c, sizeof *c + c->size);
  }
  tp__bytes_put_string(body, "]}]}]}");
  otlp->first_ns = tp__monotonic_ns();
  return spans;
}

/* ---- a request ---- */

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx) {
  tp__otlp *otlp = ctx;
  size_t all = size * count;
  if (otlp->answer.size + all <= ANSWER_BYTES) tp__bytes_put(&otlp->answer, bytes, all);
  return all;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  tp__otlp *otlp = ctx;
  (void)a, (void)b, (void)c, (void)d;
  tp__lock_acquire(&otlp->lock);
  bool is_over = otlp->stops && tp__monotonic_ns() >= otlp->stop_ns;
  tp__lock_release(&otlp->lock);
  return is_over;
}

/** The outcome of a request. */
typedef struct outcome {
  bool sent, repeats; /* repeats: the same request is sent again after a pause */
  uint64_t rejected;  /* how many spans of a sent request the collector rejected */
  int64_t pause_ms;   /* the pause that the collector demands; 0: none */
  char why[256];
} outcome;

/* Reads {"partialSuccess": {"rejectedSpans": "3", "errorMessage": "…"}}; the number may be a number or a text. */
static void read_partial(tp__otlp *otlp, outcome *o) {
  tp_writer *writer = NULL;
  tp_text answer;
  if (otlp->answer.size == 0 || tp_writer_new(NULL, &writer) != TP_OK) return;
  if (tp_json_decode(tp__bytes_text(&otlp->answer), writer, NULL) == TP_OK &&
      tp_writer_finish(writer, &answer) == TP_OK) {
    tp_text partial = tp_value_get(answer, "partialSuccess");
    tp_text rejected = tp_value_get(partial, "rejectedSpans");
    tp_text text = tp_value_text(rejected), message = tp_value_text(tp_value_get(partial, "errorMessage"));
    int64_t number = tp_value_int(rejected, 0);
    if (text.size > 0 && text.size < 20) {
      char digits[24];
      (void)tp__copy_cut(digits, sizeof digits, text);
      number = strtoll(digits, NULL, 10);
    }
    o->rejected = number > 0 ? (uint64_t)number : 0;
    if (o->rejected) snprintf(o->why, sizeof o->why, "%.*s", tp__cut(message, sizeof o->why - 1), message.data);
  }
  tp_writer_free(writer);
}

static bool is_for_the_moment(long status) { return status == 429 || status == 502 || status == 503 || status == 504; }

static outcome post(tp__otlp *otlp, tp__bytes *body) {
  outcome o = {0};
  char error[CURL_ERROR_SIZE] = "";
  long status = 0;
  curl_off_t retry_after_s = 0;
  tp__bytes_clear(&otlp->answer);
  curl_easy_setopt(otlp->easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(otlp->easy, CURLOPT_POSTFIELDS, body->data);
  curl_easy_setopt(otlp->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
  CURLcode code = curl_easy_perform(otlp->easy);
  curl_easy_setopt(otlp->easy, CURLOPT_ERRORBUFFER, NULL);
  curl_easy_getinfo(otlp->easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(otlp->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
  o.sent = code == CURLE_OK && status >= 200 && status < 300;
  o.repeats = code != CURLE_OK || is_for_the_moment(status);
  if (retry_after_s > RETRY_AFTER_S_MAX) retry_after_s = RETRY_AFTER_S_MAX;
  o.pause_ms = (int64_t)retry_after_s * 1000;
  if (o.sent) read_partial(otlp, &o);
  else if (code == CURLE_OK) snprintf(o.why, sizeof o.why, "HTTP %ld", status);
  else snprintf(o.why, sizeof o.why, "%s", error[0] ? error : curl_easy_strerror(code));
  tp__make_printable(o.why);
  return o;
}

/* ---- the thread ---- */

static void log_otlp(tp__otlp *otlp, const char *format, const char *text, uint64_t number) {
  char line[512];
  if (!otlp->options.log) return;
  snprintf(line, sizeof line, format, text, number);
  otlp->options.log(otlp->options.log_ctx, line);
}

/* Logs one line when requests begin to fail, and one when they succeed again. */
static void report(tp__otlp *otlp, const outcome *o, uint64_t dropped) {
  bool fails = !o->sent || o->rejected > 0;
  if (fails && !otlp->is_failing)
    log_otlp(otlp,
             o->repeats ? "traces: the collector cannot be reached: %s; spans wait (%" PRIu64 " were dropped so far)"
                        : "traces: the collector refuses spans: %s (%" PRIu64 " were dropped so far)",
             o->why, dropped);
  if (!fails && otlp->is_failing)
    log_otlp(otlp, "traces: the collector takes spans again%s; %" PRIu64 " were dropped", "", dropped);
  otlp->is_failing = fails;
}

/* @return false: the time is over, and the spans are dropped. */
static bool pause_locked(tp__otlp *otlp, int64_t pause_ms) {
  TP__LOCKED(&otlp->lock);
  int64_t until_ns = tp__monotonic_ns() + pause_ms * TP__NS_IN_MS;
  while (tp__monotonic_ns() < until_ns) {
    if (otlp->stops && otlp->stop_ns < until_ns) return false;
    (void)tp__lock_condition_wait_until(&otlp->changed, &otlp->lock, until_ns);
  }
  return true;
}

/* Sends a body until it is accepted or refused, or the time is over. */
static void deliver_locked(tp__otlp *otlp, tp__bytes *body, uint64_t spans) {
  TP__LOCKED(&otlp->lock);
  int64_t pause_ms = RETRY_MS;
  for (bool again = true; again;) {
    tp__lock_release(&otlp->lock);
    outcome o = post(otlp, body);
    tp__lock_acquire(&otlp->lock);
    again = o.repeats;
    uint64_t rejected = o.rejected < spans ? o.rejected : spans;
    otlp->stats.failures += !o.sent;
    if (again) again = pause_locked(otlp, o.pause_ms ? o.pause_ms : pause_ms);
    if (!again) otlp->stats.sent += o.sent ? spans - rejected : 0;
    if (!again) otlp->stats.dropped += o.sent ? rejected : spans;
    if (!again) otlp->stats.waiting -= spans;
    uint64_t dropped = otlp->stats.dropped;
    tp__lock_release(&otlp->lock);
    report(otlp, &o, dropped);
    tp__lock_acquire(&otlp->lock);
    pause_ms = pause_ms * 2 < RETRY_MS_MAX ? pause_ms * 2 : RETRY_MS_MAX;
  }
}

static bool is_due_locked(const tp__otlp *otlp, int64_t now_ns) {
  TP__LOCKED(&otlp->lock);
  return otlp->stops || otlp->stats.waiting >= BATCH_SPANS || otlp->bytes >= BATCH_BYTES ||
         now_ns - otlp->first_ns >= (int64_t)otlp->options.pause_ms * TP__NS_IN_MS;
}

static void *run_otlp(void *ctx) {
  tp__otlp *otlp = ctx;
  tp__bytes body = {0};
  tp__lock_acquire(&otlp->lock);
  while (otlp->first || !otlp->stops) {
    if (!otlp->first) {
      tp__lock_condition_wait(&otlp->changed, &otlp->lock);
      continue;
    }
    int64_t due_ns = otlp->first_ns + (int64_t)otlp->options.pause_ms * TP__NS_IN_MS;
    if (!is_due_locked(otlp, tp__monotonic_ns())) {
      (void)tp__lock_condition_wait_until(&otlp->changed, &otlp->lock, due_ns);
      continue;
    }
    uint64_t spans = take_locked(otlp, &body);
    bool is_over = otlp->stops && tp__monotonic_ns() >= otlp->stop_ns;
    if (!is_over && !body.failed) {
      deliver_locked(otlp, &body, spans);
    } else {
      otlp->stats.dropped += spans;
      otlp->stats.waiting -= spans;
      if (body.failed) tp__bytes_fini(&body);
    }
  }
  tp__lock_release(&otlp->lock);
  tp__bytes_fini(&body);
  return NULL;
}

/* ---- begin and end ---- */

static tp_status add_headers(tp__otlp *otlp, const tp_traces_options *o, tp_fault *fault) {
  for (size_t i = 0; o->headers && o->headers[i]; i++) {
    const char *header = o->headers[i], *colon = strchr(header, ':');
    if (!colon || colon == header || strpbrk(header, "\r\n"))
      return tp__refuse(fault, TP_ERR_USAGE, "headers", "headers[%zu] is not \"Name: value\"", i);
    struct curl_slist *list = curl_slist_append(otlp->headers, header);
    if (!list) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the headers");
    otlp->headers = list;
  }
  struct curl_slist *list = curl_slist_append(otlp->headers, "Content-Type: application/json");
  if (list) otlp->headers = list;
  return list ? TP_OK : tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the headers");
}

/* Writes everything of a body that does not change. */
static void put_head(tp__bytes *head, const char *service) {
  tp__bytes_put_string(head,
                       "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
                       "{\"key\":\"service.name\",\"value\":{\"stringValue\":");
  tp__put_json(head, tp_text_of(service ? service : "turnphase"));
  tp__bytes_put_string(head,
                       "}},{\"key\":\"telemetry.sdk.name\",\"value\":{\"stringValue\":\"turnphase\"}},"
                       "{\"key\":\"telemetry.sdk.language\",\"value\":{\"stringValue\":\"c\"}}]},"
                       "\"scopeSpans\":[{\"scope\":{\"name\":\"turnphase\",\"version\":");
  tp__put_json(head, tp_text_of(tp_version()));
  tp__bytes_put_string(head, "},\"spans\":[");
}

static tp_status set_up(tp__otlp *otlp, tp_fault *fault) {
  CURL *easy = otlp->easy;
  bool is_set = curl_easy_setopt(easy, CURLOPT_URL, otlp->url) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_HTTPHEADER, otlp->headers) == CURLE_OK;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)otlp->options.limit_ms);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, otlp);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, otlp);
  return is_set ? TP_OK : tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the traces");
}

static tp_status check_traces(const tp_traces_options *o, tp_fault *fault) {
  CURLU *url = curl_url();
  char *scheme = NULL;
  bool is_url = url && o->url && curl_url_set(url, CURLUPART_URL, o->url, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
  curl_free(scheme);
  curl_url_cleanup(url);
  if (!is_url)
    return tp__refuse(fault, TP_ERR_USAGE, "url",
                      "url is where a collector takes OTLP over HTTP: http://127.0.0.1:4318/v1/traces");
  if (o->sampled_of_1000 > 1000)
    return tp__refuse(fault, TP_ERR_USAGE, "sampled_of_1000", "sampled_of_1000 is at most 1,000");
  if (o->conventions != 0 && o->conventions != 41)
    return tp__refuse(fault, TP_ERR_USAGE, "conventions", "conventions is 41 (OpenTelemetry 1.41), not %" PRIu32,
                      o->conventions);
  return TP_OK;
}

void tp__otlp_free(tp__otlp *otlp) {
  if (!otlp) return;
  assert(!otlp->first);
  if (otlp->easy) curl_easy_cleanup(otlp->easy);
  curl_slist_free_all(otlp->headers);
  tp__heap_string_free(otlp->url);
  tp__bytes_fini(&otlp->head);
  tp__bytes_fini(&otlp->answer);
  tp__lock_condition_fini(&otlp->changed);
  tp__lock_fini(&otlp->lock);
  tp__heap_free(otlp, sizeof *otlp);
}

tp_status tp__otlp_new(const tp_traces_options *options, tp__otlp **ret_otlp, tp_fault *fault) {
  tp_status status = check_traces(options, fault);
  if (status != TP_OK) return status;
  tp__otlp *otlp = tp__heap_alloc(sizeof *otlp);
  if (!otlp) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the traces");
  tp__lock_init(&otlp->lock, TP__LOCK_otlp);
  tp__lock_condition_init(&otlp->changed);
  otlp->end = &otlp->first;
  otlp->options = *options;
  otlp->options.headers = NULL;
  if (!otlp->options.pause_ms) otlp->options.pause_ms = PAUSE_MS;
  if (!otlp->options.limit_ms) otlp->options.limit_ms = LIMIT_MS;
  if (!otlp->options.queue_bytes_max) otlp->options.queue_bytes_max = QUEUE_BYTES;
  put_head(&otlp->head, options->service);
  otlp->url = tp__heap_copy(tp_text_of(options->url));
  bool is_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK; /* called once, as turnphase/openai.h documents */
  otlp->easy = is_ready ? curl_easy_init() : NULL;
  if (!otlp->url || !otlp->easy || otlp->head.failed)
    status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the traces");
  if (status == TP_OK) status = add_headers(otlp, options, fault);
  if (status == TP_OK) status = set_up(otlp, fault);
  int error = status == TP_OK ? tp__thread_spawn(&otlp->thread, run_otlp, otlp) : 0;
  if (error != 0) status = tp__refuse_errno(fault, TP_ERR_NO_THREAD, NULL, error, "no thread for the traces");
  if (status == TP_OK) *ret_otlp = otlp;
  else tp__otlp_free(otlp);
  return status;
}

void tp__otlp_stop(tp__otlp *otlp, uint32_t limit_ms) {
  if (!otlp) return;
  tp__lock_acquire(&otlp->lock);
  otlp->stops = true;
  otlp->stop_ns = tp__monotonic_ns() + (int64_t)limit_ms * TP__NS_IN_MS;
  tp__lock_condition_signal(&otlp->changed);
  tp__lock_release(&otlp->lock);
  pthread_join(otlp->thread, NULL);
}
