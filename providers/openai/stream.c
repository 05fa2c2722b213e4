/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/stream.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/check.h"

static tp__openai_failure *failure_of(tp__openai_stream *stream) { return &stream->answer.failure; }
static bool is_good(const tp__openai_stream *stream) {
  return stream->answer.done && stream->answer.failure.code == TP_OK;
}
static bool is_over(const tp__openai_stream *stream) {
  return stream->answer.done || stream->answer.failure.code != TP_OK;
}

static void fail_stream_memory(tp__openai_stream *stream) {
  (void)tp__openai_fail(failure_of(stream), TP_ERR_NO_MEMORY, false, "no memory for the model's answer");
}

/* ---- the end ---- */

/* Nothing in the stream was an answer, so the error shows what came. */
static void no_answer(tp__openai_stream *stream) {
  tp__openai_fail_unread(failure_of(stream), "what the endpoint sent has no answer in it", false,
                         tp__bytes_text(&stream->sse.stray), stream->secrets);
}

/* The endpoint has marked the end of the answer. */
static void conclude(tp__openai_stream *stream) {
  assert(!is_over(stream));
  tp__openai_answer *answer = &stream->answer;
  tp__openai_answer_end(answer);
  if (answer->failure.code != TP_OK) return;
  tp_finish finish = tp__openai_answer_finish(answer);
  if (!tp__openai_answer_has_content(answer) && answer->stop.size == 0 && !answer->is_whole) no_answer(stream);
  else if (finish == TP_FINISH_ERROR)
    (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, true,
                          "the endpoint broke the answer off: it ended with '%.60s'; try again",
                          tp__bytes_string(&answer->word));
  else if (finish == TP_FINISH_TOOL_CALLS && answer->calls.count == 0 && tp__openai_answer_said(answer).size == 0)
    (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, true,
                          "the answer ended with '%.60s' and has no call in it; try again",
                          tp__bytes_string(&answer->word));
  answer->done = answer->failure.code == TP_OK;
}

/* ---- an event ---- */

static void take_map(tp__openai_stream *stream, tp_text name, tp_text event) {
  const tp__openai_form *form = stream->form;
  tp__openai_answer *answer = &stream->answer;
  tp_text type = {NULL, 0};
  bool is_error = stream->may_be_error && tp__openai_is_error(event, &type);
  if (type.size == 0 && form->events->type) type = tp__openai_text(event, "type");
  if (is_error || tp__is_word(name, "error")) {
    tp__openai_take_error(answer, event);
    return;
  }
  for (const tp__openai_event *row = form->events; row->take; row++) {
    if (row->type && !tp__is_word(type, row->type) && (type.size > 0 || !tp__is_word(name, row->type))) continue;
    row->take(answer, event);
    stream->taken += !answer->is_unread;
    return;
  }
  if (form->is_whole(event)) {
    form->take_whole(answer, event);
    stream->taken++;
    if (answer->failure.code == TP_OK) conclude(stream);
  } else if (type.size == 0 && name.size == 0) {
    tp__openai_take_unread(answer, event);
  } else { /* not a part of the answer; the APIs add new kinds of events from time to time */
    answer->is_unread = true;
    stream->other++;
  }
}

/* One event, or a list of them. */
static void take_value(tp__openai_stream *stream, tp_text name, tp_text value) {
  bool is_first = !tp__openai_answer_has_content(&stream->answer);
  stream->answer.is_silent = is_first && stream->sse.is_bare && stream->form->is_whole(value);
  if (tp_value_kind_of(value) == TP_VALUE_ARRAY && tp_value_count(value) == 0) stream->answer.is_unread = true;
  if (tp_value_kind_of(value) == TP_VALUE_MAP) take_map(stream, name, value);
  for (tp_value_walk walk = {0}; tp_value_kind_of(value) == TP_VALUE_ARRAY && tp_value_next(value, &walk);) {
    if (is_over(stream)) return;
    if (tp_value_kind_of(walk.value) == TP_VALUE_MAP) take_map(stream, name, walk.value);
    else stream->answer.is_unread = true;
  }
}

static void fail_unread(tp__openai_stream *stream, tp_text json, const tp_fault *fault) {
  char what[TP_FAULT_MESSAGE_SIZE];
  tp__bytes why = {0};
  tp__put_without(&why, tp_text_of(fault->message), stream->secrets); /* it may quote the text */
  snprintf(what, sizeof what, "event %llu of the endpoint, %u:%u: %.160s", (unsigned long long)stream->events,
           fault->line, fault->column, tp__bytes_string(&why));
  tp__bytes_fini(&why);
  tp__openai_fail_unread(failure_of(stream), what, false, json, stream->secrets);
}

/* @return false, with the failure set, when it is no JSON and cannot be repaired. */
static bool decode_event(tp__openai_stream *stream, tp_text json, tp_text *ret_value, bool *ret_marks) {
  tp_fault fault = {.code = TP_OK};
  *ret_marks = false;
  tp_writer_reset(stream->writer);
  tp_status status = tp_json_decode(json, stream->writer, &fault);
  if (status != TP_OK && status != TP_ERR_NO_MEMORY) {
    tp__bytes_clear(&stream->repaired);
    tp__openai_repair(json, &stream->repaired, ret_marks);
    status = stream->repaired.failed ? TP_ERR_NO_MEMORY
                                     : tp_json_decode(tp__bytes_text(&stream->repaired), stream->writer, NULL);
  }
  if (status == TP_OK && (status = tp_writer_finish(stream->writer, ret_value)) != TP_OK)
    (void)tp__refuse(&fault, status, NULL, "%s", tp_status_text(status));
  if (status == TP_ERR_NO_MEMORY) fail_stream_memory(stream);
  else if (status != TP_OK) fail_unread(stream, json, &fault);
  return status == TP_OK;
}

static bool take_stream_event(void *ctx, tp_text name, tp_text data) {
  tp__openai_stream *stream = ctx;
  tp_text json = tp__openai_trim(data), event;
  bool has_marks;
  if (json.size == 0) return true;
  stream->events++;
  if (tp__is_word(json, "[DONE]")) {
    conclude(stream);
  } else if (!tp__begins(json, "{") && !tp__begins(json, "[")) {
    tp__openai_sse_stray(&stream->sse, json); /* "ping" */
    if (tp__is_word(name, "error"))
      tp__openai_fail_said(failure_of(stream), "the endpoint broke the answer off", 0, json, stream->secrets);
  } else if (decode_event(stream, json, &event, &has_marks)) {
    tp__openai_answer_event(&stream->answer, has_marks);
    stream->may_be_error = memmem(json.data, json.size, "error", 5) != NULL; /* most events have no such word */
    take_value(stream, name, event);
    if (stream->answer.is_unread) tp__openai_sse_stray(&stream->sse, json);
    if (is_good(stream)) { /* by an event of the form */
      stream->answer.done = false;
      conclude(stream);
    }
  }
  if (stream->sse.stray.failed) fail_stream_memory(stream);
  return !is_over(stream);
}

/* ---- the bytes ---- */

tp_status tp__openai_stream_init(tp__openai_stream *stream) {
  stream->answer = (tp__openai_answer){.bytes_max = stream->bytes_max,
                                       .on_text = stream->on_text,
                                       .ctx = stream->ctx,
                                       .secrets = stream->secrets,
                                       .quirks = stream->quirks};
  stream->sse = (tp__openai_sse){.on_event = take_stream_event, .ctx = stream, .event_bytes_max = stream->bytes_max};
  tp__openai_answer_init(&stream->answer);
  return tp_writer_new(tp__heap, &stream->writer);
}

void tp__openai_stream_fini(tp__openai_stream *stream) {
  tp__openai_answer_fini(&stream->answer);
  tp__openai_sse_fini(&stream->sse);
  tp__bytes_fini(&stream->repaired);
  tp_writer_free(stream->writer);
  stream->writer = NULL;
}

/* Sets why reading stopped, if the answer does not tell it. */
static void note_stop(tp__openai_stream *stream) {
  if (is_over(stream)) return;
  if (stream->sse.too_large)
    (void)tp__openai_fail(failure_of(stream), TP_ERR_MODEL, false,
                          "an event of more than %zu bytes: raise response_bytes_max, or ask for fewer tokens",
                          stream->bytes_max);
  else fail_stream_memory(stream);
}

bool tp__openai_stream_feed(tp__openai_stream *stream, const char *bytes, size_t size) {
  assert(bytes || size == 0);
  if (is_over(stream)) return false;
  if (!tp__openai_sse_feed(&stream->sse, bytes, size)) note_stop(stream);
  return !is_over(stream);
}

/* Some endpoints leave out the last event. An answer that tells why it stopped is complete even without it. */
bool tp__openai_stream_end(tp__openai_stream *stream) {
  if (is_over(stream)) return is_good(stream);
  if (!tp__openai_sse_end(&stream->sse)) note_stop(stream);
  if (is_over(stream)) return is_good(stream);
  bool is_whole = stream->answer.stop.size > 0 || stream->answer.is_whole;
  bool has_anything = stream->events > 0 || stream->sse.stray.size > 0;
  if (is_whole) conclude(stream);
  else if (has_anything && !stream->sse.is_cut && stream->taken + stream->other == 0) no_answer(stream);
  else {
    char what[80];
    tp_text stray = stream->taken > 0 ? (tp_text){NULL, 0} : tp__bytes_text(&stream->sse.stray);
    snprintf(what, sizeof what, "the stream ended in the middle, after %llu events",
             (unsigned long long)stream->events);
    tp__openai_fail_unread(failure_of(stream), what, true, stray, stream->secrets);
  }
  return is_good(stream);
}
