/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c: the tables of a bench. Names are at the left, numbers at the right; a column is as wide as its longest
 * name. */
#include "cli/bench/report.h"

#include <string.h>

#include "cli/bench/bars.h"
#include "cli/common/quantity.h"

enum { KEY_WIDTH = 10, COUNT_WIDTH = 10, TIME_WIDTH = 9, NAME_WIDTH_MIN = 20 };

static const char *phase_name_of(const cli_report *report, size_t phase) {
  return tp_phase_get(report->round->runtime, report->round->phases[phase].phase)->name;
}

static const char *plural(uint32_t count) { return count == 1 ? "" : "s"; }

static void print_key(cli_output *output, const char *key) {
  cli_paint_on(output, CLI_FAINT);
  cli_cell_left(output, key, KEY_WIDTH);
  cli_paint_off(output);
}

/* ---- the header ---- */

static void print_machine(const cli_machine *machine, cli_output *output) {
  print_key(output, "machine");
  cli_printf(output, "%s, %s, %u processor%s%s%s\n", machine->system, machine->architecture, machine->processors,
             plural(machine->processors), machine->processor[0] ? ", " : "", machine->processor);
  print_key(output, "build");
  cli_printf(output, "turnphase %s, %s, %s, %s assertions%s%s\n", tp_version(), machine->compiler, machine->build,
             machine->assertions ? "with" : "without", machine->sanitizers[0] ? ", sanitizer " : "",
             machine->sanitizers);
}

static void print_settings(const cli_report *report, cli_output *output) {
  const cli_arguments *arguments = report->arguments;
  print_key(output, "measured");
  cli_printf(output, "%s %sturn%s after %s to warm up, ", cli_count(arguments->turns).text,
             cli_report_script(report) ? "whole " : "", plural(arguments->turns), cli_count(arguments->warm_up).text);
  if (arguments->concurrency > 1)
    cli_printf(output, "%s at once on %u engine worker%s", cli_count(arguments->concurrency).text,
               cli_report_workers(report), plural(cli_report_workers(report)));
  else
    cli_printf(output, "one after the other on %s",
               cli_report_script(report) ? "an engine worker" : "the calling thread");
  if (arguments->rate) cli_printf(output, "; %s scheduled a second", cli_count(arguments->rate).text);
  cli_printf(output, "; time-stamps %s\n", cli_timestamps_name(arguments->timestamps));
}

static void print_baseline(const cli_baseline *y, cli_output *output) {
  print_key(output, "clock");
  cli_printf(output, "%s a reading; two that differ do so by %s at least\n", cli_duration(y->clock_ns).text,
             cli_duration((double)y->clock_least_ns).text);
  print_key(output, "runtime");
  cli_printf(output, "an empty phase %s; an inline handler that does nothing adds %s, each further one %s; a turn %s\n",
             cli_duration(y->empty_phase_ns).text, cli_duration(y->first_handler_ns).text,
             cli_duration(y->further_handler_ns).text, cli_duration(y->turn_ns).text);
}

/* ---- phases ---- */

static size_t width_of_names(const cli_report *report) {
  const cli_statistics *statistics = report->round->statistics;
  size_t width = NAME_WIDTH_MIN;
  for (size_t i = 0; i < statistics->phase_count; i++) {
    size_t size = strlen(phase_name_of(report, i));
    if (size > width) width = size;
    for (uint32_t j = 0; j < statistics->phases[i].run_count; j++) {
      size = strlen(statistics->phases[i].runs[j].row.subscription) + 2;
      if (size > width) width = size;
    }
  }
  return width;
}

static void print_heads(cli_output *output, const char *name, size_t width, const char *const *columns, size_t count) {
  cli_paint_on(output, CLI_BOLD);
  cli_cell_left(output, name, width);
  for (size_t i = 0; i < count; i++) cli_cell_right(output, columns[i], i == 0 ? COUNT_WIDTH : TIME_WIDTH);
  cli_paint_off(output);
  cli_print_string(output, "\n");
}

static void print_time(cli_output *output, const cli_histogram *h, uint32_t per_mille) {
  cli_cell_right(output, h->count > 0 ? cli_duration((double)cli_histogram_at(h, per_mille)).text : "-", TIME_WIDTH);
}

static void print_times(cli_output *output, const cli_histogram *histogram, const uint32_t *per_mille, size_t count) {
  for (size_t i = 0; i < count; i++) print_time(output, histogram, per_mille[i]);
}

static const uint32_t phase_columns[] = {500, 900, 990, 999, 1000};

/* Prints an item of a list like "12 denied, 3 failed"; nothing when the count is 0. @param before  the text before the
 * item. */
static void print_item(cli_output *output, const char **before, uint64_t count, const char *what) {
  if (count == 0) return;
  cli_printf(output, "%s%s %s", *before, cli_count(count).text, what);
  *before = ", ";
}

static void print_endings(cli_output *output, const uint64_t endings[CLI_ENDING_COUNT], const char *before) {
  for (int i = CLI_ENDING_OK + 1; i < CLI_ENDING_COUNT; i++) {
    if (endings[i] == 0) continue;
    cli_paint_on(output, i == CLI_ENDING_FAILED ? CLI_BAD : CLI_WARN);
    print_item(output, &before, endings[i], cli_ending_name((cli_ending)i));
    cli_paint_off(output);
  }
}

static void print_part(const char *name, const cli_histogram *histogram, size_t width, cli_output *output) {
  if (histogram->count == 0 || histogram->greatest == 0) return; /* such as a history that is not loaded */
  cli_cell_left(output, name, width);
  cli_cell_right(output, cli_count(histogram->count).text, COUNT_WIDTH);
  print_times(output, histogram, phase_columns, 5);
  cli_print_string(output, "\n");
}

static void print_phases(const cli_report *report, size_t width, cli_output *output) {
  const char *const heads[] = {
      cli_report_script(report) ? "runs" : "turns", "median", "p90", "p99", "p99.9", "max", "handlers", "runtime"};
  print_heads(output, "phase", width, heads, 8);
  for (size_t i = 0; i < report->round->phase_count; i++) {
    const cli_statistics_phase *phase = &report->round->statistics->phases[i];
    cli_cell_left(output, phase_name_of(report, i), width);
    cli_cell_right(output, cli_count(phase->duration.count).text, COUNT_WIDTH);
    print_times(output, &phase->duration, phase_columns, 5);
    print_time(output, &phase->handlers, 500);
    print_time(output, &phase->runtime, 500);
    print_endings(output, phase->endings, "   ");
    cli_print_string(output, "\n");
  }
  const cli_statistics_whole *whole = &report->round->statistics->whole;
  print_part("history", &whole->history, width, output);
  print_part("model", &whole->model, width, output);
  print_part("tools, with their gates", &whole->tools, width, output);
  const cli_histogram *turn = &report->round->statistics->turn;
  cli_cell_left(output, "the whole turn", width);
  cli_cell_right(output, cli_count(turn->count).text, COUNT_WIDTH);
  print_times(output, turn, phase_columns, 5);
  cli_printf(output, "   %s turns/s", cli_count((uint64_t)cli_report_turns_per_second(report)).text);
  print_endings(output, report->round->statistics->whole.endings, ", ");
  cli_print_string(output, "\n");
  print_part("begun late by", &report->round->statistics->late, width, output);
  print_part("since scheduled", &report->round->statistics->response, width, output);
}

/* ---- subscriptions ---- */

static void print_run(const cli_statistics_run *run, size_t width, cli_output *output) {
  static const uint32_t own_columns[] = {500, 990, 1000}, wait_columns[] = {500, 990};
  cli_print_string(output, "  ");
  cli_cell_left(output, run->row.subscription, width - 2);
  cli_cell_right(output, cli_count(run->calls).text, COUNT_WIDTH);
  print_times(output, &run->own, own_columns, 3);
  print_times(output, &run->wait, wait_columns, 2);
  /* It is followed by the runs that did not simply succeed: "3 timed_out (3 timeout); 1 late". */
  const char *before = "   ", *before_reason = " (";
  uint64_t retries = run->attempts > run->calls ? run->attempts - run->calls : 0;
  for (int state = 0; state < CLI_STATES; state++)
    if (state != TP_STATE_SUCCEEDED) print_item(output, &before, run->states[state], tp_state_name((tp_state)state));
  for (int reason = TP_REASON_NONE + 1; reason < CLI_REASONS; reason++)
    print_item(output, &before_reason, run->reasons[reason], tp_reason_name((tp_reason)reason));
  if (before_reason[0] == ',') cli_print_string(output, ")");
  if (before[0] == ',') before = "; ";
  print_item(output, &before, retries, "tried again");
  print_item(output, &before, run->fallbacks, "by fallback");
  print_item(output, &before, run->late, "late");
  cli_print_string(output, "\n");
}

static void print_subscriptions(const cli_report *report, size_t width, cli_output *output) {
  static const char *const heads[] = {"calls", "median", "p99", "max", "wait", "p99"};
  const cli_statistics *statistics = report->round->statistics;
  if (statistics->phase_count == 0) return;
  cli_print_string(output, "\n");
  print_heads(output, "subscription", width, heads, 6);
  for (size_t i = 0; i < statistics->phase_count; i++) {
    cli_printf(output, "%s\n", phase_name_of(report, i));
    for (uint32_t j = 0; j < statistics->phases[i].run_count; j++)
      print_run(&statistics->phases[i].runs[j], width, output);
  }
}

/* ---- tools ---- */

static void print_tools(const cli_report *report, size_t width, cli_output *output) {
  static const char *const heads[] = {"calls", "median", "p99", "max"};
  static const uint32_t columns[] = {500, 990, 1000};
  const cli_statistics_whole *whole = &report->round->statistics->whole;
  if (whole->tool_count == 0) return;
  cli_print_string(output, "\n");
  print_heads(output, "tool", width, heads, 4);
  for (size_t i = 0; i < whole->tool_count; i++) {
    const cli_statistics_tool *tool = &whole->by_tool[i];
    const char *before = "   ";
    cli_cell_left(output, tool->name, width);
    cli_cell_right(output, cli_count(tool->calls).text, COUNT_WIDTH);
    print_times(output, &tool->own, columns, 3);
    print_item(output, &before, tool->failed, "failed");
    cli_print_string(output, "\n");
  }
}

/* ---- histograms ---- */

static void print_histogram(cli_output *output, const char *indent, const char *name, const cli_histogram *histogram) {
  if (histogram->count == 0) return;
  cli_printf(output, "\n%s", indent);
  cli_paint_on(output, CLI_BOLD);
  cli_print_string(output, name);
  cli_paint_off(output);
  cli_print_string(output, "\n");
  cli_bars_print(output, histogram);
}

/* ---- all of it ---- */

static void print_notes(const cli_report *report, cli_output *output) {
  cli_notes notes;
  cli_report_notes(report, &notes);
  cli_paint_on(output, CLI_FAINT);
  cli_print_string(output,
                   "\nhandlers: at least one of them ran; runtime: the rest of the phase (medians of each); "
                   "wait: from ready to called.\n");
  for (size_t i = 0; i < notes.count; i++) cli_printf(output, "Note: %s.\n", notes.lines[i]);
  cli_paint_off(output);
}

void cli_report_print(const cli_report *report, cli_output *output) {
  size_t width = width_of_names(report);
  print_machine(report->machine, output);
  print_settings(report, output);
  print_baseline(report->baseline, output);
  cli_print_string(output, "\n");
  print_phases(report, width, output);
  print_subscriptions(report, width, output);
  print_tools(report, width, output);
  if (report->arguments->histograms) {
    const cli_statistics *statistics = report->round->statistics;
    for (size_t i = 0; i < statistics->phase_count; i++) {
      const cli_statistics_phase *phase = &statistics->phases[i];
      print_histogram(output, "", phase_name_of(report, i), &phase->duration);
      for (uint32_t j = 0; j < phase->run_count && report->arguments->histograms == CLI_HISTOGRAMS_ALL; j++)
        print_histogram(output, "  ", phase->runs[j].row.subscription, &phase->runs[j].own);
    }
  }
  print_notes(report, output);
}
