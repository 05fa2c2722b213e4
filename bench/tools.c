/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tp_text bench_answer(void) {
  static const char text[BENCH_ANSWER_BYTES + 1] =
      "Tuesday: cloudy in the morning, sunny from noon on, 4 to 11 degrees, wind from the west at 12 km/h, no rain. "
      "Wednesday: sunny, 3 to 13 degrees, wind from the south-west at 8 km/h, no rain expected..";
  return (tp_text){text, BENCH_ANSWER_BYTES};
}

static tp_answer answer(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, bench_answer());
}

void bench_ignore_event(void *ctx, const tp_event *event) {
  (void)ctx;
  (void)event;
}

static tp_answer contribute_tool(void *ctx, tp_call *call) {
  bench_tools *t = ctx;
  const tp_tool *tools[] = {&t->tool};
  (void)tp_call_emit_tool_bundle(call, "bench", tools, 1, NULL);
  return TP_ANSWER_DONE;
}

static void begin_turn(bench_tools *t) {
  tp_turn_request request = {.struct_size = sizeof request, .tool_calls_max = UINT32_MAX};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault;
  bench_must(t->session ? tp_turn_begin(t->session, &request, &t->turn, &fault)
                        : tp_turn_begin_bare(t->runtime, &request, &t->turn, &fault),
             &fault);
  bench_must(tp_phase_run(t->turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, &result, &fault), &fault);
}

static void write_property(tp_writer *writer, const char *name, const char *type) {
  tp_write_string(writer, name);
  tp_write_map(writer, 1);
  tp_write_string(writer, "type");
  tp_write_string(writer, type);
}

/* {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]} */
static void write_schema(tp_writer *writer) {
  tp_write_map(writer, 3);
  tp_write_string(writer, "type");
  tp_write_string(writer, "object");
  tp_write_string(writer, "properties");
  tp_write_map(writer, 2);
  write_property(writer, "city", "string");
  write_property(writer, "days", "integer");
  tp_write_string(writer, "required");
  tp_write_array(writer, 1);
  tp_write_string(writer, "city");
}

static void write_arguments(tp_writer *writer) {
  tp_write_map(writer, 2);
  tp_write_string(writer, "city");
  tp_write_string(writer, "Vienna");
  tp_write_string(writer, "days");
  tp_write_int(writer, 3);
}

static tp_text value_of(tp_writer **writer, void (*write)(tp_writer *writer)) {
  tp_text value;
  bench_must(tp_writer_new(NULL, writer), NULL);
  write(*writer);
  bench_must(tp_writer_finish(*writer, &value), NULL);
  return value;
}

tp_text bench_arguments(tp_writer **ret_writer) { return value_of(ret_writer, write_arguments); }

void bench_call_id(char id[BENCH_ID_SIZE], uint32_t call) {
  snprintf(id, BENCH_ID_SIZE, "toolu_01A09q90qw90lq917%05u", call % 100000);
}

static void make_calls(bench_tools *t, const bench_tools_spec *spec) {
  tp_text arguments = {"\x80", 1};
  if (spec->has_arguments) {
    t->tool.schema = value_of(&t->schema, write_schema);
    arguments = bench_arguments(&t->arguments);
  }
  for (uint32_t i = 0; i < t->count; i++) {
    bench_call_id(t->ids[i], i);
    t->calls[i] = (tp_tool_call){.struct_size = sizeof(tp_tool_call),
                                 .id = tp_text_of(spec->has_arguments ? t->ids[i] : ""),
                                 .name = tp_text_of("tool"),
                                 .arguments = arguments};
    t->pointers[i] = &t->calls[i];
  }
}

void bench_tools_open(bench_tools *t, const bench_tools_spec *spec) {
  tp_session_options session = {.struct_size = sizeof session, .id = "bench", .on_event = spec->on_event};
  tp_hook hook = {
      .struct_size = sizeof hook, .phase = "turn.pre_tool_materialization", .run = contribute_tool, .ctx = t};
  tp_fault fault;
  *t = (bench_tools){.tool = {.struct_size = sizeof t->tool,
                              .name = "tool",
                              .run = spec->run ? spec->run : answer,
                              .ctx = spec->ctx,
                              .placement = TP_PLACEMENT_INLINE},
                     .count = spec->count,
                     .ids = bench_alloc(spec->count, sizeof *t->ids),
                     .calls = bench_alloc(spec->count, sizeof *t->calls),
                     .pointers = bench_alloc(spec->count, sizeof *t->pointers)};
  make_calls(t, spec);
  bench_must(tp_runtime_new(spec->options, &t->runtime, &fault), &fault);
  bench_must(tp_hook_add(t->runtime, &hook, &fault), &fault);
  if (spec->on_event) bench_must(tp_session_open(t->runtime, &session, &t->session, &fault), &fault);
  begin_turn(t);
}

void bench_tools_close(bench_tools *t) {
  tp_turn_end(t->turn);
  if (t->session) tp_session_close(t->session, NULL, NULL);
  tp_runtime_free(t->runtime);
  tp_writer_free(t->schema);
  tp_writer_free(t->arguments);
  free(t->ids);
  free(t->calls);
  free(t->pointers);
}

void bench_tools_renew(bench_tools *t) {
  tp_turn_end(t->turn);
  begin_turn(t);
}

/* The results are checked once, since a refused call would cost less than one that ran. */
void bench_tools_run(bench_tools *t) {
  const tp_tool_result *const *results;
  bench_must(tp_tools_run(t->turn, t->pointers, t->count, &results, NULL), NULL);
  if (results[t->count - 1]->kind != TP_TOOL_OK) bench_must(TP_ERR_INTERNAL, NULL);
}
