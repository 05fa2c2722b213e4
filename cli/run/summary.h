/* SPDX-License-Identifier: Apache-2.0
 *
 * summary: the results of a whole run in a few sentences, for a person who did not watch. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include "cli/run/conversation.h"
#include "cli/run/event.h"

enum { CLI_SUMMARY_LINES_MAX = 6, CLI_SUMMARY_LINE_SIZE = 400 };

/** Sentences of one kind; only the first few are stored. */
typedef struct cli_summary_lines {
  size_t count;
  char lines[CLI_SUMMARY_LINES_MAX][CLI_SUMMARY_LINE_SIZE];
} cli_summary_lines;

typedef struct cli_summary {
  const cli_conversation *conversation;
  size_t sessions, turns, outcomes[TP_TURN_TIMED_OUT + 1]; /* by tp_turn_outcome */
  size_t recalled, calls, calls_ok;
  size_t jobs_lost; /* open background jobs when the run ended */
  cli_summary_lines recalls, overtakings, missed, denials, failures, dead_letters;
} cli_summary;

/** Adds a turn from its events, result included. */
void cli_summary_add(cli_summary *summary, const cli_events *events, tp_turn_outcome outcome);
/** Adds a background job that failed for good, from its event. */
void cli_summary_add_dead(cli_summary *summary, const cli_event *event);
void cli_summary_print(const cli_summary *summary, cli_output *output);

#endif
