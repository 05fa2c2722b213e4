/* SPDX-License-Identifier: Apache-2.0
 *
 * report_json.c: the report as one value. Names and their meaning are stable; names may be added. */
#include "cli/bench/report.h"
#include "cli/common/map.h"

enum { REPORT_VERSION = 1 };

/** A part of a report, as parts are given one pointer. */
typedef struct part {
  const cli_report *report;
  size_t phase;
  const cli_statistics_run *run;
} part;

/* ---- where and how ---- */

static void write_machine(tp_writer *writer, const void *source) {
  const cli_machine *machine = source;
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "system", machine->system);
  cli_map_add_string(&p, "architecture", machine->architecture);
  cli_map_add_string(&p, "processor", machine->processor);
  cli_map_add_int(&p, "processors", machine->processors);
  cli_map_write(&p);
}

static void write_build(tp_writer *writer, const void *source) {
  const cli_machine *machine = source;
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "turnphase", tp_version());
  cli_map_add_string(&p, "compiler", machine->compiler);
  cli_map_add_string(&p, "type", machine->build);
  cli_map_add_bool(&p, "optimized", machine->optimized);
  cli_map_add_bool(&p, "assertions", machine->assertions);
  cli_map_add_string(&p, "sanitizer", machine->sanitizers);
  cli_map_write(&p);
}

static void write_settings(tp_writer *writer, const void *source) {
  const cli_report *report = source;
  const cli_arguments *arguments = report->arguments;
  cli_map p = {.writer = writer};
  cli_map_add_list(&p, "libraries", arguments->loads.items, arguments->loads.count);
  cli_map_add_bool(&p, "memory", !arguments->no_memory);
  cli_map_add_int(&p, "turns", arguments->turns);
  cli_map_add_int(&p, "warm_up", arguments->warm_up);
  cli_map_add_int(&p, "concurrency", arguments->concurrency);
  cli_map_add_int(&p, "workers", cli_report_workers(report));
  cli_map_add_string(&p, "timestamps", cli_timestamps_name(arguments->timestamps));
  cli_map_add_string(&p, "payload", arguments->payload ? arguments->payload : "");
  cli_map_write(&p);
}

static void write_clock(tp_writer *writer, const void *source) {
  const cli_baseline *baseline = source;
  cli_map p = {.writer = writer};
  cli_map_add_double(&p, "reading_ns", baseline->clock_ns);
  cli_map_add_int(&p, "least_difference_ns", baseline->clock_least_ns);
  cli_map_write(&p);
}

static void write_runtime(tp_writer *writer, const void *source) {
  const cli_baseline *baseline = source;
  cli_map p = {.writer = writer};
  cli_map_add_double(&p, "empty_phase_ns", baseline->empty_phase_ns);
  cli_map_add_double(&p, "first_handler_ns", baseline->first_handler_ns);
  cli_map_add_double(&p, "further_handler_ns", baseline->further_handler_ns);
  cli_map_add_double(&p, "turn_ns", baseline->turn_ns);
  cli_map_add_int(&p, "step_ns", baseline->step_ns);
  cli_map_write(&p);
}

/* ---- distributions ---- */

static void write_buckets(tp_writer *writer, const void *source) {
  const cli_histogram *histogram = source;
  size_t count = 0;
  for (cli_bucket bucket = {0}; cli_histogram_next(histogram, &bucket);) count++;
  tp_write_array(writer, count);
  for (cli_bucket bucket = {0}; cli_histogram_next(histogram, &bucket);) {
    tp_write_array(writer, 3);
    tp_write_int(writer, bucket.from);
    tp_write_int(writer, bucket.to);
    tp_write_int(writer, (int64_t)bucket.count);
  }
}

/* Of nothing there is no median: then count stands alone. */
static void add_figures(cli_map *p, const cli_histogram *histogram) {
  cli_map_add_int(p, "count", (int64_t)histogram->count);
  if (histogram->count == 0) return;
  cli_map_add_int(p, "min", histogram->least);
  cli_map_add_double(p, "mean", (double)histogram->sum / (double)histogram->count);
  cli_map_add_int(p, "median", cli_histogram_at(histogram, 500));
  cli_map_add_int(p, "p90", cli_histogram_at(histogram, 900));
  cli_map_add_int(p, "p99", cli_histogram_at(histogram, 990));
  cli_map_add_int(p, "p99_9", cli_histogram_at(histogram, 999));
  cli_map_add_int(p, "max", histogram->greatest);
}

static void write_figures(tp_writer *writer, const void *source) {
  cli_map p = {.writer = writer};
  add_figures(&p, source);
  cli_map_write(&p);
}

static void write_figures_and_buckets(tp_writer *writer, const void *source) {
  cli_map p = {.writer = writer};
  add_figures(&p, source);
  cli_map_add_part(&p, "histogram", write_buckets, source);
  cli_map_write(&p);
}

/* ---- turns, phases, subscriptions ---- */

static void write_turn(tp_writer *writer, const void *source) {
  const cli_report *report = source;
  const cli_statistics *statistics = report->round->statistics;
  cli_map p = {.writer = writer};
  cli_map_add_part(&p, "duration_ns", write_figures, &statistics->turn);
  cli_map_add_part(&p, "begin_ns", write_figures, &statistics->begin);
  cli_map_add_part(&p, "end_ns", write_figures, &statistics->end);
  cli_map_add_int(&p, "elapsed_ns", report->round->elapsed_ns);
  cli_map_add_double(&p, "per_second", cli_report_turns_per_second(report));
  cli_map_write(&p);
}

static void write_states(tp_writer *writer, const void *source) {
  const cli_statistics_run *run = source;
  cli_map p = {.writer = writer};
  for (int i = 0; i < CLI_STATES; i++)
    if (run->states[i]) cli_map_add_int(&p, tp_state_name((tp_state)i), (int64_t)run->states[i]);
  cli_map_write(&p);
}

static void write_reasons(tp_writer *writer, const void *source) {
  const cli_statistics_run *run = source;
  cli_map p = {.writer = writer};
  for (int i = TP_REASON_NONE + 1; i < CLI_REASONS; i++)
    if (run->reasons[i]) cli_map_add_int(&p, tp_reason_name((tp_reason)i), (int64_t)run->reasons[i]);
  cli_map_write(&p);
}

static void write_run(tp_writer *writer, const void *source) {
  const part *item = source;
  const cli_statistics_run *run = item->run;
  bool buckets = item->report->arguments->histograms == CLI_HISTOGRAMS_ALL;
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "subscription", run->row.subscription);
  cli_map_add_string(&p, "handler", run->row.handler);
  cli_map_add_string(&p, "owner", run->row.owner);
  cli_map_add_string(&p, "execution", tp_execution_name((tp_execution)run->row.execution));
  cli_map_add_int(&p, "calls", (int64_t)run->calls);
  cli_map_add_int(&p, "attempts", (int64_t)run->attempts);
  cli_map_add_int(&p, "fallbacks", (int64_t)run->fallbacks);
  cli_map_add_int(&p, "late", (int64_t)run->late);
  cli_map_add_part(&p, "states", write_states, run);
  cli_map_add_part(&p, "reasons", write_reasons, run);
  cli_map_add_part(&p, "duration_ns", buckets ? write_figures_and_buckets : write_figures, &run->own);
  cli_map_add_part(&p, "wait_ns", write_figures, &run->wait);
  cli_map_write(&p);
}

static void write_runs(tp_writer *writer, const void *source) {
  part item = *(const part *)source;
  const cli_statistics_phase *phase = &item.report->round->statistics->phases[item.phase];
  tp_write_array(writer, phase->run_count);
  for (uint32_t i = 0; i < phase->run_count; i++) {
    item.run = &phase->runs[i];
    write_run(writer, &item);
  }
}

static void write_endings(tp_writer *writer, const void *source) {
  const cli_statistics_phase *phase = source;
  cli_map p = {.writer = writer};
  for (int i = 0; i < CLI_ENDING_COUNT; i++)
    cli_map_add_int(&p, cli_ending_name((cli_ending)i), (int64_t)phase->endings[i]);
  cli_map_write(&p);
}

static void write_phase(tp_writer *writer, const part *item) {
  const cli_round *round = item->report->round;
  const cli_statistics_phase *phase = &round->statistics->phases[item->phase];
  bool buckets = item->report->arguments->histograms != CLI_HISTOGRAMS_NONE;
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "phase", tp_phase_get(round->runtime, round->phases[item->phase].phase)->name);
  cli_map_add_part(&p, "outcomes", write_endings, phase);
  cli_map_add_part(&p, "duration_ns", buckets ? write_figures_and_buckets : write_figures, &phase->duration);
  cli_map_add_part(&p, "handlers_ns", write_figures, &phase->handlers);
  cli_map_add_part(&p, "runtime_ns", write_figures, &phase->runtime);
  cli_map_add_part(&p, "subscriptions", write_runs, item);
  cli_map_write(&p);
}

static void write_phases(tp_writer *writer, const void *source) {
  part item = {.report = source};
  tp_write_array(writer, item.report->round->phase_count);
  for (item.phase = 0; item.phase < item.report->round->phase_count; item.phase++) write_phase(writer, &item);
}

static void write_notes(tp_writer *writer, const void *source) {
  cli_notes notes;
  cli_report_notes(source, &notes);
  tp_write_array(writer, notes.count);
  for (size_t i = 0; i < notes.count; i++) tp_write_string(writer, notes.lines[i]);
}

void cli_report_print_json(const cli_report *report, cli_output *output) {
  cli_map p = {0};
  cli_map_add_int(&p, "version", REPORT_VERSION);
  cli_map_add_part(&p, "machine", write_machine, report->machine);
  cli_map_add_part(&p, "build", write_build, report->machine);
  cli_map_add_part(&p, "settings", write_settings, report);
  cli_map_add_part(&p, "clock", write_clock, report->baseline);
  cli_map_add_part(&p, "runtime", write_runtime, report->baseline);
  cli_map_add_double(&p, "relative_error", 1.0 / CLI_HISTOGRAM_ERROR);
  cli_map_add_part(&p, "turn", write_turn, report);
  cli_map_add_part(&p, "phases", write_phases, report);
  cli_map_add_part(&p, "notes", write_notes, report);
  cli_map_print(&p, output);
}
