/* SPDX-License-Identifier: Apache-2.0
 *
 * model: a provider that stores its requests as plain text, and gives the answers of the test; values for tool
 * arguments. */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include "tests/support/host.h"

enum { REQUESTS_MAX = 64, REQUEST_BYTES = 16384 };

typedef struct reply {
  const char *text;
  tp_tool_call calls[8]; /* struct_size is set when they are sent */
  size_t call_count;
  int64_t input_tokens, output_tokens, cost_micros;
  tp_status fails; /* instead */
  bool retryable;
  const char *delta; /* delivered before */
  bool never;        /* does not answer */
} reply;

typedef struct recorder {
  tp_model model; /* recorder_model() */
  const reply *replies;
  size_t count; /* the last one is repeated */
  _Atomic uint32_t asked;
  char (*requests)[REQUEST_BYTES];    /* REQUESTS_MAX of them */
  char model_names[REQUESTS_MAX][32]; /* that it was asked by */
  uint32_t attempts[REQUESTS_MAX];
  size_t tool_counts[REQUESTS_MAX];
  _Atomic int cancels, destroys;
  tp_token token; /* of the newest request */
  latch started;
  pthread_mutex_t mutex;
} recorder;

static inline void put_text(char *to, const char *label, tp_text text) {
  size_t used = strlen(to);
  snprintf(to + used, REQUEST_BYTES - used, "%s<%.*s>", label, (int)text.size, text.size ? text.data : "");
}

/* "P<part>" of each, and "V<bytes>" of a value. */
static inline void put_rest(char *to, const tp_message *message) {
  char line[256];
  tp_part part = {.struct_size = sizeof part};
  for (tp_value_walk walk = {0}; tp_value_next(message->parts, &walk);) {
    if (tp_part_read(walk.value, &part, NULL) != TP_OK) continue;
    tp_part_describe(&part, line, sizeof line);
    put_text(to, "P", part.kind == TP_PART_TEXT ? part.text : tp_text_of(line));
  }
  if (message->value.size == 0) return;
  snprintf(line, sizeof line, "%zu", message->value.size);
  put_text(to, "V", tp_text_of(line));
}

/* "S<system>U<text>A<text>C<id name>T!<text>P<part>V<bytes of the value>" */
static inline void write_request(char *to, const tp_model_request *request) {
  to[0] = 0;
  put_text(to, "S", request->system);
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *m = request->messages[i];
    const char *label = m->role == TP_ROLE_USER        ? "U"
                        : m->role == TP_ROLE_ASSISTANT ? "A"
                        : m->role == TP_ROLE_TOOL      ? (m->is_error ? "T!" : "T")
                                                       : "?";
    put_text(to, label, m->text);
    for (size_t c = 0; c < m->call_count; c++) put_text(to, "C", m->calls[c]->name);
    if (m->role == TP_ROLE_TOOL) put_text(to, "=", m->call_id);
    if (m->role == TP_ROLE_TOOL) put_rest(to, m);
  }
}

static inline void recorder_start(void *ctx, const tp_model_request *request, tp_token token) {
  recorder *r = ctx;
  pthread_mutex_lock(&r->mutex);
  uint32_t n = r->asked++;
  if (n < REQUESTS_MAX) {
    write_request(r->requests[n], request);
    snprintf(r->model_names[n], sizeof r->model_names[n], "%.*s", (int)request->model.size,
             request->model.size ? request->model.data : "");
    r->attempts[n] = request->attempt;
    r->tool_counts[n] = request->tool_count;
  }
  r->token = token;
  const reply *a = r->count ? &r->replies[n < r->count ? n : r->count - 1] : NULL;
  pthread_mutex_unlock(&r->mutex);
  if (a && a->delta) (void)!tp_model_delta(token, tp_text_of(a->delta), NULL);
  if (a && a->fails) (void)!tp_model_fail(token, a->fails, "as set", a->retryable, NULL);
  if (a && !a->fails && !a->never) {
    tp_tool_call calls[8];
    const tp_tool_call *list[8];
    for (size_t i = 0; i < a->call_count; i++) {
      calls[i] = a->calls[i];
      calls[i].struct_size = sizeof calls[i];
      list[i] = &calls[i];
    }
    tp_model_response response = {.struct_size = sizeof response,
                                  .text = tp_text_of(a->text),
                                  .calls = list,
                                  .call_count = a->call_count,
                                  .stop_reason = tp_text_of(a->call_count ? "tool_use" : "end_turn"),
                                  .input_tokens = a->input_tokens,
                                  .output_tokens = a->output_tokens,
                                  .cost_micros = a->cost_micros};
    (void)!tp_model_complete(token, &response, NULL);
  }
  latch_hit(&r->started);
}

static inline void recorder_cancel(void *ctx, tp_token token) {
  (void)token;
  ((recorder *)ctx)->cancels++;
}
static inline void recorder_destroy(void *ctx) { ((recorder *)ctx)->destroys++; }

static inline recorder *recorder_new(const reply *replies, size_t count) {
  recorder *r = calloc(1, sizeof *r);
  r->requests = calloc(REQUESTS_MAX, REQUEST_BYTES);
  r->replies = replies;
  r->count = count;
  r->started = (latch)LATCH;
  pthread_mutex_init(&r->mutex, NULL);
  return r;
}

static inline void recorder_free(recorder *r) {
  free(r->requests);
  free(r);
}

static inline const tp_model *recorder_model(recorder *r, bool is_inline) {
  r->model = (tp_model){.struct_size = sizeof(tp_model),
                        .name = "recorder",
                        .ctx = r,
                        .start = recorder_start,
                        .cancel = recorder_cancel,
                        .destroy = recorder_destroy,
                        .placement = is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  return &r->model;
}

/* ---- arguments: {} and {"n": number} ---- */

static const tp_text no_arguments = {"\x80", 1};
static inline tp_text argument_n(char *four_bytes, int n) {
  memcpy(four_bytes, "\x81\xa1n", 3);
  four_bytes[3] = (char)n; /* 0 to 127 */
  return (tp_text){four_bytes, 4};
}

#endif
