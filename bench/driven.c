/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/driven.h"

#include <stdio.h>

static const char *const hook_phases[BENCH_DRIVEN_HOOKS_MAX] = {
    "turn.intake", "turn.pre_prompt_context", "turn.post_turn", "model.pre", "model.post", "tool.pre", "tool.post"};

static _Atomic uint64_t calls_made;

void bench_driven_count(void) { atomic_fetch_add_explicit(&calls_made, 1, memory_order_relaxed); }

tp_answer bench_driven_hook(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  bench_driven_count();
  return TP_ANSWER_DONE;
}

static tp_answer tool(void *ctx, tp_tool_run *run) {
  (void)ctx;
  bench_driven_count();
  return tp_tool_ok(run, tp_text_of("12 degrees"));
}

static tp_answer contribute_tools(void *ctx, tp_call *call) {
  static const tp_tool weather = {
      .struct_size = sizeof weather, .name = "weather", .run = tool, .placement = TP_PLACEMENT_INLINE};
  const tp_tool *tools[] = {&weather};
  (void)ctx;
  (void)tp_call_emit_tool_bundle(call, "bench", tools, 1, NULL);
  return TP_ANSWER_DONE;
}

static void add_hook(tp_runtime *runtime, const char *phase, tp_handler_fn run, tp_placement placement) {
  tp_hook options = {.struct_size = sizeof options, .phase = phase, .run = run, .placement = placement};
  tp_fault fault;
  bench_must(tp_hook_add(runtime, &options, &fault), &fault);
}

static tp_model *new_model(void) {
  tp_tool_call calls[BENCH_DRIVEN_TOOL_CALLS];
  const tp_tool_call *pointers[BENCH_DRIVEN_TOOL_CALLS];
  static const char *const ids[BENCH_DRIVEN_TOOL_CALLS] = {"toolu_01A", "toolu_01B"};
  for (int i = 0; i < BENCH_DRIVEN_TOOL_CALLS; i++) {
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .id = tp_text_of(ids[i]),
                              .name = tp_text_of("weather"),
                              .arguments = {"\x80", 1}};
    pointers[i] = &calls[i];
  }
  tp_model_response first = {.struct_size = sizeof first, .calls = pointers, .call_count = BENCH_DRIVEN_TOOL_CALLS};
  tp_model_response second = {.struct_size = sizeof second, .text = tp_text_of("12 degrees in both.")};
  const tp_model_response *responses[] = {&first, &second};
  tp_model *model;
  tp_fault fault;
  bench_must(tp_script_model_new(responses, 2, true, &model, &fault), &fault);
  return model;
}

/* ---- its sessions ---- */

static void session_closed(void *ctx) { bench_latch_hit(ctx, 1); }

static void open_session(bench_driven *d) {
  char id[32];
  tp_model model = *d->model;
  tp_fault fault;
  model.destroy = NULL; /* the model stays the caller's */
  snprintf(id, sizeof id, "bench-%u", d->number++);
  tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &model};
  bench_must(tp_session_open(d->runtime, &options, &d->session, &fault), &fault);
}

static void close_session(bench_driven *d) {
  bench_latch_set(&d->closed, 1);
  tp_session_close(d->session, session_closed, &d->closed);
  bench_latch_wait(&d->closed);
}

void bench_driven_renew(bench_driven *d) {
  close_session(d);
  open_session(d);
}

void bench_driven_open(bench_driven *d, const bench_driven_spec *spec) {
  tp_fault fault;
  *d = (bench_driven){.model = new_model()};
  bench_must(tp_runtime_new(spec->options, &d->runtime, &fault), &fault);
  add_hook(d->runtime, "turn.pre_tool_materialization", contribute_tools, TP_PLACEMENT_INLINE);
  for (uint32_t i = 0; i < spec->hooks; i++) {
    uint32_t which = spec->hooks == 1 ? BENCH_DRIVEN_HOOKS_MAX - 2 : i;
    add_hook(d->runtime, hook_phases[which], bench_driven_hook, spec->placement);
  }
  open_session(d);
}

void bench_driven_close(bench_driven *d) {
  close_session(d);
  tp_runtime_free(d->runtime);
  tp_model_free(d->model);
}

void bench_driven_run(bench_driven *d) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("How warm is it there?")};
  const tp_turn_result *result = NULL;
  tp_fault fault;
  bench_must(tp_turn_run(d->session, &request, &result, &fault), &fault);
  bench_must(result->code, NULL);
  tp_turn_result_free(result);
}
