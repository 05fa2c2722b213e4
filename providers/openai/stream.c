/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/stream.h"

#include <stdio.h>

#include "runtime/base/check.h"

static tp__openai_failure *failure_of(tp__openai_stream *stream) { return &stream->answer.failure; }
static bool is_good(const tp__openai_stream *stream) {
  return stream->answer.done && stream->answer.failure.code == TP_OK;
}
static bool is_over(const tp__openai_stream *stream) {
  return stream->answer.done || stream->answer.failure.code != TP_OK;
}

static void no_memory(tp__openai_stream *stream) {
  (void)tp__openai_fail(failure_of(stream), TP_ERR_NO_MEMORY, false, "no memory for the model's answer");
}

static void take_event(tp__openai_stream *stream, tp_text event) {
  tp_text type = stream->form->events->type ? tp__openai_text(event, "type") : (tp_text){NULL, 0};
  for (const tp__openai_event *row = stream->form->events; row->take; row++) {
    if (row->type && !tp__is_word(type, row->type)) continue;
    row->take(&stream->answer, event);
    return;
  }
  /* Kinds that the table does not have are not part of the answer: the APIs add some now and then. */
}

/* @return false, with the failure set, when it is no JSON object. */
static bool decode(tp__openai_stream *stream, tp_text json, const char *what, tp_text *ret_value) {
  tp_fault fault = {.code = TP_OK};
  tp_writer_reset(stream->writer);
  tp_status status = tp_json_decode(json, stream->writer, &fault);
  if (status == TP_OK && (status = tp_writer_finish(stream->writer, ret_value)) != TP_OK)
    (void)tp__refuse(&fault, status, NULL, "%s", tp_status_text(status));
  if (status == TP_ERR_NO_MEMORY) {
    no_memory(stream);
  } else if (status != TP_OK) {
    char place[48] = "";
    tp__bytes why = {0};
    tp__openai_put_without(&why, tp_text_of(fault.message), stream->secret); /* it may quote the text */
    if (stream->has_events) snprintf(place, sizeof place, " %llu", (unsigned long long)stream->events);
    (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, false,
                          "%s%s of the endpoint, %u:%u: %s; check base_url and api, and what stands between", what,
                          place, fault.line, fault.column, tp__bytes_string(&why));
    tp__bytes_fini(&why);
  } else if (tp_value_kind_of(*ret_value) != TP_VALUE_MAP) {
    (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, false,
                          "the %s of the endpoint is no JSON object; check base_url and api", what);
  }
  return failure_of(stream)->code == TP_OK;
}

static bool has_answer(const tp__openai_stream *stream) {
  const tp__openai_answer *answer = &stream->answer;
  return answer->stop.size > 0 || answer->text.size > 0 || answer->draft_count > 0;
}

static void no_answer(tp__openai_stream *stream) {
  (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, false,
                        "what the endpoint sent has no answer in it; check base_url and api");
}

static bool on_event(void *ctx, tp_text data) {
  tp__openai_stream *stream = ctx;
  tp_text event;
  stream->events++;
  if (stream->form->last_event && tp__is_word(data, stream->form->last_event)) {
    stream->answer.done = has_answer(stream);
    if (!stream->answer.done) no_answer(stream);
    return false;
  }
  if (data.size > 0 && decode(stream, data, "event", &event)) take_event(stream, event);
  return !is_over(stream);
}

tp_status tp__openai_stream_init(tp__openai_stream *stream) {
  stream->answer = (tp__openai_answer){.bytes_max = stream->bytes_max,
                                       .on_text = stream->has_events ? stream->on_text : NULL,
                                       .ctx = stream->ctx,
                                       .secret = stream->secret};
  stream->sse = (tp__openai_sse){.on_event = on_event, .ctx = stream, .event_bytes_max = stream->bytes_max};
  tp__openai_answer_init(&stream->answer);
  return tp_writer_new(tp__heap, &stream->writer);
}

void tp__openai_stream_fini(tp__openai_stream *stream) {
  tp__openai_answer_fini(&stream->answer);
  tp__openai_sse_fini(&stream->sse);
  tp__bytes_fini(&stream->whole);
  tp_writer_free(stream->writer);
  stream->writer = NULL;
}

static void too_large(tp__openai_stream *stream) {
  (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, false,
                        "%s of more than %zu bytes: raise response_bytes_max, or ask for fewer tokens",
                        stream->has_events ? "an event" : "an answer", stream->bytes_max);
}

static void feed_whole(tp__openai_stream *stream, const char *bytes, size_t size) {
  if (size > stream->bytes_max - stream->whole.size) {
    too_large(stream);
    return;
  }
  tp__bytes_put(&stream->whole, bytes, size);
  if (stream->whole.failed) no_memory(stream);
}

bool tp__openai_stream_feed(tp__openai_stream *stream, const char *bytes, size_t size) {
  assert(bytes || size == 0);
  if (is_over(stream)) return false;
  if (!stream->has_events) {
    feed_whole(stream, bytes, size);
  } else if (!tp__openai_sse_feed(&stream->sse, bytes, size) && !is_over(stream)) {
    if (stream->sse.too_large) too_large(stream);
    else no_memory(stream);
  }
  return !is_over(stream);
}

static void end_whole(tp__openai_stream *stream) {
  tp_text value;
  if (!decode(stream, tp__bytes_text(&stream->whole), "answer", &value)) return;
  stream->form->take_whole(&stream->answer, value);
  if (stream->answer.failure.code != TP_OK) return;
  stream->answer.done = has_answer(stream);
  if (!stream->answer.done) no_answer(stream);
}

/* Some endpoints leave out the last event; an answer that says why it stopped is whole all the same. */
bool tp__openai_stream_end(tp__openai_stream *stream) {
  if (is_over(stream)) return is_good(stream);
  if (!stream->has_events) end_whole(stream);
  else if (!stream->form->last_event || stream->answer.stop.size == 0)
    (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, true,
                          "the stream ended in the middle, behind %llu events; try again",
                          (unsigned long long)stream->events);
  else stream->answer.done = true;
  return is_good(stream);
}
