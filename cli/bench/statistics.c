/* SPDX-License-Identifier: Apache-2.0
 *
 * statistics.c: the handlers' part of a phase is the time in which at least one of them ran. Handlers that run at the
 * same time are counted once, and the waits between them count as the runtime's time.
 *
 * The turn's own thread calls inline handlers one after the other, and the time-stamp after a handler is the one before
 * the next. So the record of a handler includes a step of the runtime. The baseline measures that step, and it is
 * subtracted. */
#include "cli/bench/statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/pool.h"
#include "runtime/base/check.h"

const char *cli_ending_name(cli_ending ending) {
  assert(ending >= 0 && ending < CLI_ENDING_COUNT);
  static const char *const names[] = {"ok", "denied", "failed", "cancelled"};
  return names[ending];
}

cli_statistics *cli_statistics_new(size_t phase_count, int64_t step_ns, bool timed) {
  cli_statistics *statistics = cli_alloc(sizeof *statistics);
  statistics->phases = cli_alloc(phase_count * sizeof *statistics->phases);
  statistics->phase_count = phase_count;
  statistics->step_ns = step_ns;
  statistics->timed = timed;
  return statistics;
}

static void free_run(cli_statistics_run *run) {
  cli_histogram_free(&run->own);
  cli_histogram_free(&run->wait);
}

static void free_phase(cli_statistics_phase *phase) {
  for (uint32_t i = 0; i < phase->run_count; i++) free_run(&phase->runs[i]);
  free(phase->runs);
  cli_histogram_free(&phase->duration);
  cli_histogram_free(&phase->handlers);
  cli_histogram_free(&phase->runtime);
}

/* All runs of a phase have the same snapshot, because nothing is committed while turns are measured. */
static void make_runs(cli_statistics_phase *phase, uint32_t count) {
  if (phase->runs) return;
  phase->runs = cli_alloc(count * sizeof *phase->runs);
  phase->run_count = count;
}

/* ---- one run of a phase ---- */

static bool was_called(const tp_run_record *row) {
  return row->attempts > 0 && row->state != TP_STATE_BACKGROUNDED && row->started_ns > 0 &&
         row->ended_ns >= row->started_ns;
}

/* A handler that was called at the moment when it was ready was called by the thread that checked it. */
static bool was_called_here(const tp_run_record *row) { return row->started_ns == row->queued_ns; }

static void add_run_sample(cli_statistics *statistics, cli_statistics_run *run, const tp_run_record *row) {
  run->row = *row;
  if (row->state != TP_STATE_BACKGROUNDED) run->attempts += row->attempts;
  run->states[row->state % CLI_STATES]++;
  run->reasons[row->reason % CLI_REASONS]++;
  run->fallbacks += row->fallback_used;
  run->late += row->late_ns > 0;
  if (row->attempts > 0 && row->state != TP_STATE_BACKGROUNDED) run->calls++;
  if (!statistics->timed || !was_called(row)) return;
  cli_histogram_add(&run->own, row->ended_ns - row->started_ns);
  cli_histogram_add(&run->wait, row->started_ns - row->queued_ns);
}

static int compare_spans(const void *a, const void *b) {
  int64_t x = ((const cli_span *)a)->from_ns, y = ((const cli_span *)b)->from_ns;
  return (x > y) - (x < y);
}

/* The time in which there was at least one span. */
static int64_t covered_ns(cli_span *spans, size_t count) {
  int64_t sum_ns = 0, end_ns = INT64_MIN;
  qsort(spans, count, sizeof *spans, compare_spans);
  for (size_t i = 0; i < count; i++) {
    int64_t from_ns = spans[i].from_ns > end_ns ? spans[i].from_ns : end_ns;
    if (spans[i].to_ns <= from_ns) continue;
    sum_ns += spans[i].to_ns - from_ns;
    end_ns = spans[i].to_ns;
  }
  return sum_ns;
}

static int64_t at_most(int64_t value, int64_t most) { return value < most ? value : most; }

static void split(cli_statistics *statistics, cli_statistics_phase *phase, int64_t duration_ns, size_t span_count,
                  uint64_t steps) {
  int64_t handlers_ns = covered_ns(statistics->spans, span_count);
  handlers_ns -= at_most((int64_t)steps * statistics->step_ns, handlers_ns);
  handlers_ns = at_most(handlers_ns, duration_ns);
  cli_histogram_add(&phase->handlers, handlers_ns);
  cli_histogram_add(&phase->runtime, duration_ns - handlers_ns);
}

static void add_runs(cli_statistics *statistics, cli_statistics_phase *phase, const cli_statistics_entry *entry) {
  size_t spans = 0;
  uint64_t steps = 0;
  make_runs(phase, entry->run_count);
  for (uint32_t i = 0; i < phase->run_count; i++) {
    tp_run_record row = {.struct_size = sizeof row};
    if (!entry->run(entry->source, i, &row)) continue;
    add_run_sample(statistics, &phase->runs[i], &row);
    if (!was_called(&row)) continue;
    steps += was_called_here(&row);
    statistics->spans = cli_reserve(statistics->spans, spans, &statistics->span_capacity, sizeof *statistics->spans);
    statistics->spans[spans++] = (cli_span){row.started_ns, row.ended_ns};
  }
  if (statistics->timed) split(statistics, phase, entry->duration_ns, spans, steps);
}

static cli_ending ending_of(tp_status outcome) {
  switch (outcome) {
    case TP_OK:
      return CLI_ENDING_OK;
    case TP_ERR_DENIED:
      return CLI_ENDING_DENIED;
    case TP_ERR_CANCELLED:
      return CLI_ENDING_CANCELLED;
    default:
      return CLI_ENDING_FAILED;
  }
}

void cli_statistics_add(cli_statistics *statistics, size_t index, const cli_statistics_entry *entry) {
  assert(index < statistics->phase_count && entry);
  cli_statistics_phase *phase = &statistics->phases[index];
  phase->endings[ending_of(entry->outcome)]++;
  cli_histogram_add(&phase->duration, entry->duration_ns);
  add_runs(statistics, phase, entry);
}

/* ---- whole turns ---- */

static cli_statistics_tool *tool_of(cli_statistics_whole *whole, tp_text name) {
  for (size_t i = 0; i < whole->tool_count; i++)
    if (tp_text_is(name, whole->by_tool[i].name)) return &whole->by_tool[i];
  whole->by_tool = cli_reserve(whole->by_tool, whole->tool_count, &whole->tool_capacity, sizeof *whole->by_tool);
  cli_statistics_tool *added = &whole->by_tool[whole->tool_count++];
  *added = (cli_statistics_tool){.calls = 0};
  snprintf(added->name, sizeof added->name, "%.*s", (int)name.size, name.size ? name.data : "");
  return added;
}

void cli_statistics_add_parts(cli_statistics *statistics, const tp_turn_record *record) {
  cli_statistics_whole *whole = &statistics->whole;
  cli_histogram_add(&whole->history, record->load_ns + record->append_ns);
  cli_histogram_add(&whole->model, record->model_ns);
  if (record->tool_calls > 0) cli_histogram_add(&whole->tools, record->tools_ns);
  for (size_t i = 0; i < record->step_count; i++) {
    tp_turn_step step = {.struct_size = sizeof step};
    if (!record->step(record->step_source, i, &step) || step.kind != TP_STEP_TOOL) continue;
    cli_statistics_tool *tool = tool_of(whole, step.name);
    tool->calls++;
    tool->failed += step.outcome != TP_TOOL_OK;
    if (step.ended_ns > step.started_ns) cli_histogram_add(&tool->own, step.ended_ns - step.started_ns);
  }
}

static cli_ending ending_of_turn(tp_turn_outcome outcome) {
  switch (outcome) {
    case TP_TURN_COMPLETED:
      return CLI_ENDING_OK;
    case TP_TURN_DENIED:
      return CLI_ENDING_DENIED;
    case TP_TURN_CANCELLED:
      return CLI_ENDING_CANCELLED;
    default:
      return CLI_ENDING_FAILED;
  }
}

static void take_reason(cli_statistics_whole *whole, tp_text reason) {
  if (!whole->reason[0])
    snprintf(whole->reason, sizeof whole->reason, "%.*s", (int)reason.size, reason.size ? reason.data : "");
}

void cli_statistics_add_turn(cli_statistics *statistics, int64_t duration_ns, const tp_turn_result *result) {
  cli_ending ending = ending_of_turn(result->outcome);
  cli_histogram_add(&statistics->turn, duration_ns);
  statistics->whole.endings[ending]++;
  if (ending == CLI_ENDING_FAILED) take_reason(&statistics->whole, result->reason);
}

static void merge_whole(cli_statistics_whole *into, const cli_statistics_whole *from) {
  for (int i = 0; i < CLI_ENDING_COUNT; i++) into->endings[i] += from->endings[i];
  take_reason(into, tp_text_of(from->reason));
  cli_histogram_merge(&into->history, &from->history);
  cli_histogram_merge(&into->model, &from->model);
  cli_histogram_merge(&into->tools, &from->tools);
  for (size_t i = 0; i < from->tool_count; i++) {
    cli_statistics_tool *tool = tool_of(into, tp_text_of(from->by_tool[i].name));
    tool->calls += from->by_tool[i].calls;
    tool->failed += from->by_tool[i].failed;
    cli_histogram_merge(&tool->own, &from->by_tool[i].own);
  }
}

static void free_whole(cli_statistics_whole *whole) {
  cli_histogram_free(&whole->history);
  cli_histogram_free(&whole->model);
  cli_histogram_free(&whole->tools);
  for (size_t i = 0; i < whole->tool_count; i++) cli_histogram_free(&whole->by_tool[i].own);
  free(whole->by_tool);
}

void cli_statistics_free(cli_statistics *statistics) {
  if (!statistics) return;
  for (size_t i = 0; i < statistics->phase_count; i++) free_phase(&statistics->phases[i]);
  cli_histogram_free(&statistics->turn);
  cli_histogram_free(&statistics->begin);
  cli_histogram_free(&statistics->end);
  cli_histogram_free(&statistics->response);
  cli_histogram_free(&statistics->late);
  for (size_t i = 0; i < statistics->detached_count; i++) free_run(&statistics->detached[i].run);
  free(statistics->detached);
  free_whole(&statistics->whole);
  free(statistics->phases);
  free(statistics->spans);
  free(statistics);
}

/* ---- handlers that no phase waits for ---- */

static cli_statistics_run *detached_of(cli_statistics *statistics, size_t phase, const char *subscription) {
  for (size_t i = 0; i < statistics->detached_count; i++) {
    cli_statistics_detached *d = &statistics->detached[i];
    if (d->phase == phase && strcmp(d->run.row.subscription, subscription) == 0) return &d->run;
  }
  statistics->detached = cli_reserve(statistics->detached, statistics->detached_count, &statistics->detached_capacity,
                                     sizeof *statistics->detached);
  cli_statistics_detached *added = &statistics->detached[statistics->detached_count++];
  *added = (cli_statistics_detached){.phase = phase};
  return &added->run;
}

void cli_statistics_add_detached(cli_statistics *statistics, size_t phase, const tp_run_record *row) {
  assert(phase < statistics->phase_count && row->state != TP_STATE_BACKGROUNDED);
  add_run_sample(statistics, detached_of(statistics, phase, row->subscription), row);
}

/* ---- adding up ---- */

static void merge_run(cli_statistics_run *into, const cli_statistics_run *from) {
  into->row = from->row;
  into->calls += from->calls;
  into->attempts += from->attempts;
  into->fallbacks += from->fallbacks;
  into->late += from->late;
  for (int i = 0; i < CLI_STATES; i++) into->states[i] += from->states[i];
  for (int i = 0; i < CLI_REASONS; i++) into->reasons[i] += from->reasons[i];
  cli_histogram_merge(&into->own, &from->own);
  cli_histogram_merge(&into->wait, &from->wait);
}

static void merge_phase(cli_statistics_phase *into, const cli_statistics_phase *from) {
  if (!from->runs) return; /* this thread never ran it */
  make_runs(into, from->run_count);
  for (uint32_t i = 0; i < into->run_count; i++) merge_run(&into->runs[i], &from->runs[i]);
  for (int i = 0; i < CLI_ENDING_COUNT; i++) into->endings[i] += from->endings[i];
  cli_histogram_merge(&into->duration, &from->duration);
  cli_histogram_merge(&into->handlers, &from->handlers);
  cli_histogram_merge(&into->runtime, &from->runtime);
}

void cli_statistics_merge(cli_statistics *into, const cli_statistics *from) {
  assert(into != from && into->phase_count == from->phase_count);
  for (size_t i = 0; i < into->phase_count; i++) merge_phase(&into->phases[i], &from->phases[i]);
  for (size_t i = 0; i < from->detached_count; i++) {
    const cli_statistics_detached *d = &from->detached[i];
    merge_run(detached_of(into, d->phase, d->run.row.subscription), &d->run);
  }
  merge_whole(&into->whole, &from->whole);
  cli_histogram_merge(&into->turn, &from->turn);
  cli_histogram_merge(&into->begin, &from->begin);
  cli_histogram_merge(&into->end, &from->end);
  cli_histogram_merge(&into->response, &from->response);
  cli_histogram_merge(&into->late, &from->late);
}

/* The row of the phase stays, because it has the execution policy and the phase's own owner. */
static void join_run(cli_statistics_phase *phase, const cli_statistics_run *detached) {
  for (uint32_t i = 0; i < phase->run_count; i++) {
    cli_statistics_run *run = &phase->runs[i];
    tp_run_record row = run->row;
    if (strcmp(row.subscription, detached->row.subscription) != 0) continue;
    merge_run(run, detached);
    run->row = row;
  }
}

void cli_statistics_join(cli_statistics *statistics) {
  for (size_t i = 0; i < statistics->detached_count; i++) {
    cli_statistics_detached *d = &statistics->detached[i];
    join_run(&statistics->phases[d->phase], &d->run);
    free_run(&d->run);
  }
  statistics->detached_count = 0;
}
