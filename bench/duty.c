/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/duty.h"

#include <stdlib.h>
#include <string.h>

struct bench_duty {
  uint32_t count;
  char (*ids)[BENCH_ID_SIZE];
  tp_text *texts; /* the ids, measured once */
  tp_text arguments;
  tp_writer *writer; /* the writer of the arguments */
  bool counter;      /* set when time-stamps are read from the processor's counter */
  tp_text (*volatile tool)(tp_text arguments);
  void (*volatile on_event)(void *ctx, const bench_duty_event *event);
  bench_duty_result *results;
  uint64_t sequence; /* number of the last event; this and the next member: used by one thread at a time */
  uint32_t ended;
};

static tp_text answer(tp_text arguments) {
  (void)arguments;
  return bench_answer();
}

static void ignore_event(void *ctx, const bench_duty_event *event) {
  (void)ctx;
  (void)event;
}

bench_duty *bench_duty_new(uint32_t calls) {
  bench_duty *d = bench_alloc(1, sizeof *d);
  *d = (bench_duty){.count = calls,
                    .ids = bench_alloc(calls, sizeof *d->ids),
                    .texts = bench_alloc(calls, sizeof *d->texts),
                    .counter = bench_counter_steady(),
                    .tool = answer,
                    .on_event = ignore_event,
                    .results = bench_alloc(calls, sizeof *d->results)};
  d->arguments = bench_arguments(&d->writer);
  for (uint32_t i = 0; i < calls; i++) {
    bench_call_id(d->ids[i], i);
    d->texts[i] = tp_text_of(d->ids[i]);
  }
  return d;
}

void bench_duty_free(bench_duty *d) {
  tp_writer_free(d->writer);
  free(d->ids);
  free(d->texts);
  free(d->results);
  free(d);
}

static uint64_t stamp(const bench_duty *d) { return d->counter ? bench_counter() : (uint64_t)bench_now_ns(); }

static bool is_key(tp_text key, const char *name, size_t size) {
  return key.size == size && memcmp(key.data, name, size) == 0;
}

/* Checks that the arguments are one value, since a model may write anything, and that they fit the schema of W9,
 * written by hand: a map with a text "city", and an integer "days" if there is one. */
static bool arguments_fit(tp_text arguments) {
  tp_value_walk walk = {.offset = 0};
  bool has_city = false;
  if (tp_value_check(arguments, NULL) != TP_OK || tp_value_kind_of(arguments) != TP_VALUE_MAP) return false;
  while (tp_value_next(arguments, &walk)) {
    if (is_key(walk.key, "city", 4)) {
      if (tp_value_kind_of(walk.value) != TP_VALUE_TEXT) return false;
      has_city = true;
    } else if (is_key(walk.key, "days", 4)) {
      if (tp_value_kind_of(walk.value) != TP_VALUE_INT) return false;
    }
  }
  return has_city;
}

void bench_duty_start(bench_duty *d) {
  d->sequence = 0;
  d->ended = 0;
}

void bench_duty_begin(bench_duty *d, uint32_t call) {
  bench_duty_event event = {.call_index = call, .sequence = ++d->sequence, .time = stamp(d), .id = d->texts[call]};
  d->on_event(d, &event);
}

void bench_duty_run(bench_duty *d, uint32_t call) {
  bench_duty_result *result = &d->results[call];
  result->id = d->texts[call];
  result->kind = TP_TOOL_INVALID_ARGUMENTS;
  result->text_size = 0;
  if (arguments_fit(d->arguments)) {
    tp_text text = d->tool(d->arguments);
    result->kind = tp_utf8_valid(text, NULL) ? TP_TOOL_OK : TP_TOOL_HANDLER_ERROR;
    result->text_size = (uint32_t)(text.size < sizeof result->text ? text.size : sizeof result->text);
    memcpy(result->text, text.data, result->text_size);
  }
  result->ended = stamp(d);
}

void bench_duty_end(bench_duty *d, uint32_t call) {
  bench_duty_result *result = &d->results[call];
  bench_duty_event event = {.ends = true,
                            .call_index = call,
                            .sequence = ++d->sequence,
                            .time = result->ended,
                            .id = result->id,
                            .result = result};
  result->completion_order = d->ended++;
  d->on_event(d, &event);
}

void bench_duty_finish(const bench_duty *d) {
  const bench_duty_result *last = &d->results[d->count - 1];
  bool well = last->kind == TP_TOOL_OK && last->text_size == BENCH_ANSWER_BYTES;
  if (!well || d->ended != d->count || d->sequence != 2 * (uint64_t)d->count) bench_must(TP_ERR_INTERNAL, NULL);
}

/* ---- without any library ---- */

static int64_t loop_run(void *ctx, uint32_t times) {
  bench_duty *d = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    bench_duty_start(d);
    for (uint32_t n = 0; n < d->count; n++) {
      bench_duty_begin(d, n);
      bench_duty_run(d, n);
      bench_duty_end(d, n);
    }
    bench_duty_finish(d);
  }
  return bench_now_ns() - began;
}

static void loop_close(void *ctx) { bench_duty_free(ctx); }

bench_contestant bench_duty_loop(uint32_t calls) {
  return (bench_contestant){.name = "a loop of the host's, at equal duty",
                            .run = loop_run,
                            .close = loop_close,
                            .ctx = bench_duty_new(calls)};
}
