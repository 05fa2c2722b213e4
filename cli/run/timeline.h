/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline: what happened in a turn, for people: one line for each thing, with when it began (milliseconds since the
 * turn began) and its duration. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "cli/run/event.h"

/** Numbers of events. */
typedef struct cli_numbers {
  size_t *items;
  size_t count, capacity;
} cli_numbers;

/** What is shown of a turn while it goes on; set output, events and verbose, the rest is zero. */
typedef struct cli_timeline {
  cli_output *output;
  const cli_events *events; /* of the turn */
  bool verbose;
  int64_t began_ns;
  int64_t shown_ns;        /* the time of the newest line: none after it has an earlier one */
  int64_t asked_ns;        /* when the request that is under way began; 0: none is, or its begin has a line */
  uint32_t retries;        /* how often the request was tried again, which is the next one's number */
  cli_numbers runs;        /* events RUN that belong to no printed phase yet */
  cli_numbers calls;       /* events TOOL_END since the last response, in completion order */
  cli_numbers contributed; /* events CONTEXT, REMINDER, DIAGNOSTIC whose phase has not ended yet */
  cli_numbers after_calls; /* events PHASE_END of what followed calls whose block is not printed yet */
  bool streams;            /* text of the model is on its way: a line is open */
  bool streamed;           /* some of the response was printed like this */
  size_t column;           /* code points on that line */
  char word[256];          /* the word that has come last, till it is whole */
  size_t word_size;
} cli_timeline;

/** The line above a session's turns. */
void cli_timeline_session(cli_output *output, const char *session, const char *tenant, const char *workspace);
/** Shows an event of a turn, now that it is there: the one at index, the ones before were shown. */
void cli_timeline_show(cli_timeline *timeline, size_t index);
/** What ran at the end of a session: its phase, and how long the work in the background went on after it. */
void cli_timeline_session_end(cli_timeline *timeline, bool any_background, int64_t waited_ns);
/** Deletes what waits: the events are about to be cleared. */
void cli_timeline_clear(cli_timeline *timeline);
void cli_timeline_free(cli_timeline *timeline);

/** A text for a line on a terminal: control characters and line ends become blanks, and what is longer than width
 *  columns is cut. Shared with the summary. */
void cli_print_cut(cli_output *output, tp_text text, size_t width);

#endif
