/* SPDX-License-Identifier: Apache-2.0
 *
 * report: prints the results of a bench: as tables for people, as JSON for programs. docs/command/bench.md lists the
 * keys. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/bench/baseline.h"
#include "cli/bench/round.h"
#include "cli/common/machine.h"
#include "cli/common/options.h"

/** Everything is borrowed. */
typedef struct cli_report {
  const cli_arguments *arguments;
  const cli_machine *machine;
  const cli_baseline *baseline;
  const cli_round *round; /* with its statistics and its phases */
} cli_report;

void cli_report_print(const cli_report *report, cli_output *output);
void cli_report_print_json(const cli_report *report, cli_output *output);

/** Further facts that are needed to interpret the figures, a sentence each. */
enum { CLI_NOTES_MAX = 10, CLI_NOTE_SIZE = 384 };
typedef struct cli_notes {
  char lines[CLI_NOTES_MAX][CLI_NOTE_SIZE];
  size_t count;
} cli_notes;
void cli_report_notes(const cli_report *report, cli_notes *notes);

/** The script of whole turns; NULL: turns are bare. */
const char *cli_report_script(const cli_report *report);
/** The engine workers of the run. */
uint32_t cli_report_workers(const cli_report *report);
double cli_report_turns_per_second(const cli_report *report);
const char *cli_timestamps_name(tp_timestamps timestamps);

#endif
