/* SPDX-License-Identifier: Apache-2.0
 *
 * report_json.c: the report as one value. Names and their meaning are stable; names may be added. */
#include "cli/bench/report.h"
#include "cli/common/map.h"

enum { REPORT_VERSION = 1 };

/* ---- where and how ---- */

static void add_machine(cli_map *p, const cli_machine *machine) {
  cli_map_open(p, "machine");
  cli_map_add_string(p, "system", machine->system);
  cli_map_add_string(p, "architecture", machine->architecture);
  cli_map_add_string(p, "processor", machine->processor);
  cli_map_add_int(p, "processors", machine->processors);
  cli_map_close(p);
}

static void add_build(cli_map *p, const cli_machine *machine) {
  cli_map_open(p, "build");
  cli_map_add_string(p, "turnphase", tp_version());
  cli_map_add_string(p, "compiler", machine->compiler);
  cli_map_add_string(p, "type", machine->build);
  cli_map_add_bool(p, "optimized", machine->optimized);
  cli_map_add_bool(p, "assertions", machine->assertions);
  cli_map_add_string(p, "sanitizer", machine->sanitizers);
  cli_map_close(p);
}

static void add_settings(cli_map *p, const cli_report *report) {
  const cli_arguments *arguments = report->arguments;
  cli_map_open(p, "settings");
  cli_map_add_list(p, "libraries", arguments->loads.items, arguments->loads.count);
  cli_map_add_list(p, "hooks", arguments->hooks.items, arguments->hooks.count);
  cli_map_add_list(p, "phases", arguments->phases.items, arguments->phases.count);
  cli_map_add_bool(p, "sandbox", arguments->sandbox);
  cli_map_add_bool(p, "memory", !arguments->no_memory);
  cli_map_add_int(p, "turns", arguments->turns);
  cli_map_add_int(p, "warm_up", arguments->warm_up);
  cli_map_add_int(p, "concurrency", arguments->concurrency);
  cli_map_add_int(p, "rate", arguments->rate);
  cli_map_add_int(p, "workers", cli_report_workers(report));
  cli_map_add_string(p, "timestamps", cli_timestamps_name(arguments->timestamps));
  cli_map_add_string(p, "payload", arguments->payload ? arguments->payload : "");
  if (cli_report_script(report)) {
    cli_map_add_string(p, "script", cli_report_script(report));
    cli_map_add_string(p, "text", arguments->text ? arguments->text : "Hello");
    cli_map_add_string(p, "files", arguments->files ? arguments->files : "");
    cli_map_add_string(p, "skills", arguments->skills ? arguments->skills : "");
    cli_map_add_int(p, "tasks", arguments->tasks);
  }
  cli_map_close(p);
}

static void add_clock(cli_map *p, const cli_baseline *baseline) {
  cli_map_open(p, "clock");
  cli_map_add_double(p, "reading_ns", baseline->clock_ns);
  cli_map_add_int(p, "least_difference_ns", baseline->clock_least_ns);
  cli_map_close(p);
}

static void add_runtime(cli_map *p, const cli_baseline *baseline) {
  cli_map_open(p, "runtime");
  cli_map_add_double(p, "empty_phase_ns", baseline->empty_phase_ns);
  cli_map_add_double(p, "first_handler_ns", baseline->first_handler_ns);
  cli_map_add_double(p, "further_handler_ns", baseline->further_handler_ns);
  cli_map_add_double(p, "turn_ns", baseline->turn_ns);
  cli_map_add_int(p, "step_ns", baseline->step_ns);
  cli_map_close(p);
}

/* ---- distributions ---- */

/* Without values there is no median, so only the count is written. */
static void add_figures(cli_map *p, const char *key, const cli_histogram *histogram, bool with_buckets) {
  cli_map_open(p, key);
  cli_map_add_int(p, "count", (int64_t)histogram->count);
  if (histogram->count > 0) {
    cli_map_add_int(p, "min", histogram->least);
    cli_map_add_double(p, "mean", (double)histogram->sum / (double)histogram->count);
    cli_map_add_int(p, "median", cli_histogram_at(histogram, 500));
    cli_map_add_int(p, "p90", cli_histogram_at(histogram, 900));
    cli_map_add_int(p, "p99", cli_histogram_at(histogram, 990));
    cli_map_add_int(p, "p99_9", cli_histogram_at(histogram, 999));
    cli_map_add_int(p, "max", histogram->greatest);
  }
  if (with_buckets) {
    cli_map_open_list(p, "histogram");
    for (cli_bucket bucket = {0}; cli_histogram_next(histogram, &bucket);) {
      cli_map_open_list(p, NULL);
      cli_map_add_int(p, NULL, bucket.from);
      cli_map_add_int(p, NULL, bucket.to);
      cli_map_add_int(p, NULL, (int64_t)bucket.count);
      cli_map_close(p);
    }
    cli_map_close(p);
  }
  cli_map_close(p);
}

/* ---- turns, phases, subscriptions ---- */

static void add_endings(cli_map *p, const uint64_t endings[CLI_ENDING_COUNT]) {
  cli_map_open(p, "outcomes");
  for (int i = 0; i < CLI_ENDING_COUNT; i++) cli_map_add_int(p, cli_ending_name((cli_ending)i), (int64_t)endings[i]);
  cli_map_close(p);
}

static void add_whole(cli_map *p, const cli_statistics_whole *whole) {
  add_endings(p, whole->endings);
  cli_map_add_string(p, "reason", whole->reason);
  add_figures(p, "history_ns", &whole->history, false);
  add_figures(p, "model_ns", &whole->model, false);
  add_figures(p, "tools_ns", &whole->tools, false);
  cli_map_open_list(p, "tools");
  for (size_t i = 0; i < whole->tool_count; i++) {
    cli_map_open(p, NULL);
    cli_map_add_string(p, "tool", whole->by_tool[i].name);
    cli_map_add_int(p, "calls", (int64_t)whole->by_tool[i].calls);
    cli_map_add_int(p, "failed", (int64_t)whole->by_tool[i].failed);
    add_figures(p, "duration_ns", &whole->by_tool[i].own, false);
    cli_map_close(p);
  }
  cli_map_close(p);
}

static void add_turn(cli_map *p, const cli_report *report) {
  const cli_statistics *statistics = report->round->statistics;
  cli_map_open(p, "turn");
  add_figures(p, "duration_ns", &statistics->turn, report->arguments->histograms != CLI_HISTOGRAMS_NONE);
  add_figures(p, "begin_ns", &statistics->begin, false);
  add_figures(p, "end_ns", &statistics->end, false);
  if (report->arguments->rate) {
    add_figures(p, "late_ns", &statistics->late, false);
    add_figures(p, "response_ns", &statistics->response, report->arguments->histograms != CLI_HISTOGRAMS_NONE);
  }
  if (cli_report_script(report)) add_whole(p, &statistics->whole);
  cli_map_add_int(p, "elapsed_ns", report->round->elapsed_ns);
  cli_map_add_double(p, "per_second", cli_report_turns_per_second(report));
  cli_map_close(p);
}

static void add_report_run(cli_map *p, const cli_report *report, const cli_statistics_run *run) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "subscription", run->row.subscription);
  cli_map_add_string(p, "handler", run->row.handler);
  cli_map_add_string(p, "owner", run->row.owner);
  cli_map_add_string(p, "execution", tp_execution_name((tp_execution)run->row.execution));
  cli_map_add_int(p, "calls", (int64_t)run->calls);
  cli_map_add_int(p, "attempts", (int64_t)run->attempts);
  cli_map_add_int(p, "fallbacks", (int64_t)run->fallbacks);
  cli_map_add_int(p, "late", (int64_t)run->late);
  cli_map_open(p, "states");
  for (int i = 0; i < CLI_STATES; i++)
    if (run->states[i]) cli_map_add_int(p, tp_state_name((tp_state)i), (int64_t)run->states[i]);
  cli_map_close(p);
  cli_map_open(p, "reasons");
  for (int i = TP_REASON_NONE + 1; i < CLI_REASONS; i++)
    if (run->reasons[i]) cli_map_add_int(p, tp_reason_name((tp_reason)i), (int64_t)run->reasons[i]);
  cli_map_close(p);
  add_figures(p, "duration_ns", &run->own, report->arguments->histograms == CLI_HISTOGRAMS_ALL);
  add_figures(p, "wait_ns", &run->wait, false);
  cli_map_close(p);
}

static void add_report_phase(cli_map *p, const cli_report *report, size_t index) {
  const cli_round *round = report->round;
  const cli_statistics_phase *phase = &round->statistics->phases[index];
  cli_map_open(p, NULL);
  cli_map_add_string(p, "phase", tp_phase_get(round->runtime, round->phases[index].phase)->name);
  add_endings(p, phase->endings);
  add_figures(p, "duration_ns", &phase->duration, report->arguments->histograms != CLI_HISTOGRAMS_NONE);
  add_figures(p, "handlers_ns", &phase->handlers, false);
  add_figures(p, "runtime_ns", &phase->runtime, false);
  cli_map_open_list(p, "subscriptions");
  for (uint32_t i = 0; i < phase->run_count; i++) add_report_run(p, report, &phase->runs[i]);
  cli_map_close(p);
  cli_map_close(p);
}

void cli_report_print_json(const cli_report *report, cli_output *output) {
  cli_map p = {0};
  cli_notes notes;
  cli_map_add_int(&p, "version", REPORT_VERSION);
  add_machine(&p, report->machine);
  add_build(&p, report->machine);
  add_settings(&p, report);
  add_clock(&p, report->baseline);
  add_runtime(&p, report->baseline);
  cli_map_add_double(&p, "relative_error", 1.0 / CLI_HISTOGRAM_ERROR);
  add_turn(&p, report);
  cli_map_open_list(&p, "phases");
  for (size_t i = 0; i < report->round->phase_count; i++) add_report_phase(&p, report, i);
  cli_map_close(&p);
  cli_report_notes(report, &notes);
  cli_map_open_list(&p, "notes");
  for (size_t i = 0; i < notes.count; i++) cli_map_add_string(&p, NULL, notes.lines[i]);
  cli_map_close(&p);
  cli_map_print(&p, output);
}
