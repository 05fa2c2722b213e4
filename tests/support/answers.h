/* SPDX-License-Identifier: Apache-2.0
 *
 * answers: the result of an answer's bytes, as a text. The deltas of the last answer are stored. */
#ifndef TEST_ANSWERS_H
#define TEST_ANSWERS_H

#include <stdio.h>

#include "providers/openai/stream.h"
#include "tests/support/json_text.h"

static tp__bytes deltas;
static size_t delta_count, refuse_delta_at; /* of the answer that is read: how many, and which one is refused */

static inline tp_status on_text(void *ctx, tp_text piece, bool thinking) {
  (void)ctx;
  if (thinking) return TP_OK;
  tp__bytes_put_text(&deltas, piece);
  return ++delta_count == refuse_delta_at ? TP_ERR_STALE : TP_OK;
}

static inline tp__openai_stream begin(tp_openai_api api, size_t bytes_max) {
  tp__bytes_clear(&deltas);
  delta_count = 0;
  return (tp__openai_stream){.form = tp__openai_form_of(api), .bytes_max = bytes_max, .on_text = on_text};
}

static inline void put_json(tp__bytes *to, tp_text value) {
  char *json = json_text(value);
  tp__bytes_put_string(to, json);
  free(json);
}

static inline void describe_call(const tp_tool_call *call, tp__bytes *to) {
  tp__bytes_put_string(to, "|");
  tp__bytes_put_text(to, call->id);
  tp__bytes_put_string(to, " ");
  tp__bytes_put_text(to, call->name);
  tp__bytes_put_string(to, call->malformed ? " malformed " : " ");
  if (call->malformed) tp__bytes_put_text(to, call->arguments);
  else put_json(to, call->arguments);
}

/* "text|stop|input,output|id name arguments…" */
static inline void describe(tp__openai_stream *stream, tp__bytes *to) {
  tp_model_response response;
  char counts[64];
  if (tp__openai_answer_response(&stream->answer, &response) != TP_OK) {
    const tp__openai_failure *failure = &stream->answer.failure;
    tp__bytes_put_string(to, tp_status_name(failure->code));
    tp__bytes_put_string(to, failure->retryable ? " retryable: " : ": ");
    tp__bytes_put_string(to, failure->message);
    return;
  }
  tp__bytes_put_text(to, response.text);
  tp__bytes_put_string(to, "|");
  tp__bytes_put_text(to, response.stop_reason);
  snprintf(counts, sizeof counts, "|%lld,%lld", (long long)response.input_tokens, (long long)response.output_tokens);
  tp__bytes_put_string(to, counts);
  for (size_t i = 0; i < response.call_count; i++) describe_call(response.calls[i], to);
}

/* Feeds the bytes in two parts, or each byte alone (split above the size). @return the result; to be freed. */
static inline char *come_to(tp__openai_stream *stream, tp_text bytes, size_t split) {
  tp__bytes seen = {0};
  assert_int_equal(tp__openai_stream_init(stream), TP_OK);
  char *copy_of_bytes = malloc(bytes.size ? bytes.size : 1); /* nothing after them, for AddressSanitizer */
  assert_non_null(copy_of_bytes);
  if (bytes.size > 0) memcpy(copy_of_bytes, bytes.data, bytes.size);
  const tp_text exact = {copy_of_bytes, bytes.size};
  bool goes_on = true;
  if (split <= bytes.size) {
    goes_on = tp__openai_stream_feed(stream, exact.data, split);
    if (goes_on) tp__openai_stream_feed(stream, exact.data + split, bytes.size - split);
  } else {
    for (size_t i = 0; goes_on && i < bytes.size; i++) goes_on = tp__openai_stream_feed(stream, exact.data + i, 1);
  }
  (void)tp__openai_stream_end(stream);
  describe(stream, &seen);
  tp__openai_stream_fini(stream);
  free(copy_of_bytes);
  char *copy = strdup(tp__bytes_string(&seen));
  tp__bytes_fini(&seen);
  return copy;
}

static inline void assert_comes_to(tp_openai_api api, const char *bytes, const char *expected) {
  tp__openai_stream stream = begin(api, 1 << 20);
  char *seen = come_to(&stream, tp_text_of(bytes), 0);
  assert_string_equal(seen, expected);
  free(seen);
}

/* At the end of a test file's process. */
static inline int free_deltas(void **state) {
  (void)state;
  tp__bytes_fini(&deltas);
  return 0;
}

#endif
