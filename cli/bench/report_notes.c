/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "cli/bench/report.h"
#include "cli/common/quantity.h"
#include "runtime/base/check.h"
#include "runtime/base/printf.h"

/* Shares of a figure below this are not mentioned. */
enum { WORTH_A_WORD = 20, PER_MILLE_TURNS = 1000 };

static void add_report_note(cli_notes *notes, const char *format, ...) TP__PRINTF(2, 3);
static void add_report_note(cli_notes *notes, const char *format, ...) {
  va_list args;
  if (notes->count == CLI_NOTES_MAX) return;
  va_start(args, format);
  assert(notes->count < sizeof notes->lines / sizeof *notes->lines);
  vsnprintf(notes->lines[notes->count++], CLI_NOTE_SIZE, format, args);
  va_end(args);
}

static void note_build(const cli_machine *machine, cli_notes *notes) {
  if (machine->sanitizers[0])
    add_report_note(notes, "built with the %s sanitizer: these are not the figures of a release build",
                    machine->sanitizers);
  else if (!machine->optimized)
    add_report_note(notes, "built without optimization: these are not the figures of a release build");
}

static bool has_inline_phase(const cli_statistics *statistics, double below_ns) {
  for (size_t i = 0; i < statistics->phase_count; i++)
    if ((double)cli_histogram_at(&statistics->phases[i].duration, 500) < below_ns) return true;
  return false;
}

static void note_clock(const cli_report *report, cli_notes *notes) {
  double limit_ns = WORTH_A_WORD * report->baseline->clock_ns;
  if (!has_inline_phase(report->round->statistics, limit_ns)) return;
  add_report_note(notes, "each figure holds a reading of the clock, %s: more than a twentieth of what takes under %s",
                  cli_duration(report->baseline->clock_ns).text, cli_duration(limit_ns).text);
}

static bool has_inline_handler(const cli_statistics *statistics, int64_t below_ns) {
  for (size_t i = 0; i < statistics->phase_count; i++) {
    const cli_statistics_phase *phase = &statistics->phases[i];
    for (uint32_t j = 0; j < phase->run_count; j++) {
      const cli_histogram *own = &phase->runs[j].own;
      if (own->count > 0 && cli_histogram_at(own, 500) < below_ns) return true;
    }
  }
  return false;
}

static void note_timestamps(const cli_report *report, cli_notes *notes) {
  int64_t step_ns = report->baseline->step_ns;
  if (report->arguments->timestamps == TP_TIMESTAMPS_OFF) {
    add_report_note(notes, "without time-stamps nothing is known of the time of single handlers");
    return;
  }
  if (report->arguments->timestamps == TP_TIMESTAMPS_COARSE)
    add_report_note(notes, "with coarse time-stamps inline handlers of a phase show the time of all of them together");
  if (!has_inline_handler(report->round->statistics, WORTH_A_WORD * step_ns)) return;
  add_report_note(
      notes,
      "the time of an inline handler holds a step of the runtime, %s: more than a twentieth of what takes under %s; "
      "the columns handlers and runtime count it as the runtime's",
      cli_duration((double)step_ns).text, cli_duration((double)(WORTH_A_WORD * step_ns)).text);
}

/* Decided by the median: a stall at the end makes only the last turns late. */
static bool falls_behind(const cli_round *round) {
  double offered_ns = 1e9 * (double)round->turns / (double)round->rate;
  return (double)round->elapsed_ns > offered_ns * (1 + 1.0 / WORTH_A_WORD) &&
         (double)cli_histogram_at(&round->statistics->late, 500) > offered_ns / 100;
}

static void note_schedule(const cli_report *report, cli_notes *notes) {
  const cli_round *round = report->round;
  if (!round->rate) return;
  add_report_note(
      notes,
      "since scheduled: from the scheduled begin of a turn, so a turn that waits for a slow one before it is slow, "
      "too");
  if (falls_behind(round))
    add_report_note(notes, "the turns do not keep up with %s a second: the longer the run, the later they are",
                    cli_count(round->rate).text);
}

static void note_whole(const cli_report *report, cli_notes *notes) {
  const cli_statistics_whole *whole = &report->round->statistics->whole;
  if (!cli_report_script(report)) return;
  uint64_t failed = whole->endings[CLI_ENDING_FAILED];
  if (failed > 0)
    add_report_note(notes, "%s turn%s failed; the first: %s", cli_count(failed).text, failed == 1 ? "" : "s",
                    whole->reason);
  add_report_note(notes,
                  "a whole turn is the first of a session of its own, and is timed from its submission to its end");
}

static bool has_background(const cli_statistics *statistics) {
  for (size_t i = 0; i < statistics->phase_count; i++)
    for (uint32_t j = 0; j < statistics->phases[i].run_count; j++)
      if (statistics->phases[i].runs[j].states[TP_STATE_BACKGROUNDED]) return true;
  return false;
}

void cli_report_notes(const cli_report *report, cli_notes *notes) {
  const cli_round *round = report->round;
  *notes = (cli_notes){.count = 0};
  note_whole(report, notes);
  note_build(report->machine, notes);
  note_clock(report, notes);
  note_timestamps(report, notes);
  note_schedule(report, notes);
  if (round->concurrency > 1 && !round->scripts)
    add_report_note(notes, "phases are timed from their submission: what they wait for a worker is the runtime's");
  if (round->turns < PER_MILLE_TURNS) add_report_note(notes, "with fewer than 1,000 turns p99.9 is the slowest");
  if (has_background(round->statistics))
    add_report_note(
        notes,
        "what is backgrounded is not in the time of its phase; it shares the machine with the turns that follow");
}

const char *cli_report_script(const cli_report *report) {
  return report->round->scripts ? report->arguments->models.items[0].script : NULL;
}

uint32_t cli_report_workers(const cli_report *report) {
  return report->arguments->workers ? report->arguments->workers : report->machine->processors;
}

double cli_report_turns_per_second(const cli_report *report) {
  int64_t elapsed_ns = report->round->elapsed_ns;
  return elapsed_ns > 0 ? (double)report->round->turns * 1e9 / (double)elapsed_ns : 0;
}

const char *cli_timestamps_name(tp_timestamps timestamps) {
  return timestamps == TP_TIMESTAMPS_OFF ? "off" : timestamps == TP_TIMESTAMPS_COARSE ? "coarse" : "full";
}
