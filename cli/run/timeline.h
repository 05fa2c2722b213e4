/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline: shows a turn to people: one line for each step, with its beginning (milliseconds since the turn's
 * beginning) and its duration. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "cli/run/event.h"

/** Numbers of events. */
typedef struct cli_numbers {
  size_t *items;
  size_t count, capacity;
} cli_numbers;

/** The state of showing a turn while it goes on. The caller sets output, events and verbose; the rest is zero. */
typedef struct cli_timeline {
  cli_output *output;
  const cli_events *events; /* of the turn */
  bool verbose;
  int64_t began_ns;
  int64_t shown_ns;        /* the time of the newest line; later lines have no earlier time */
  int64_t asked_ns;        /* when the running request began; 0: there is none, or its beginning has a line */
  uint32_t retries;        /* how often the request was retried, which is also the number of the next retry */
  cli_numbers runs;        /* events RUN whose phase is not printed yet */
  cli_numbers calls;       /* events TOOL_END since the last response, in the order of completion */
  cli_numbers contributed; /* events CONTEXT, REMINDER, DIAGNOSTIC whose phase has not ended yet */
  cli_numbers after_calls; /* events PHASE_END of phases after calls whose block is not printed yet */
  bool streams;            /* text of the model is being printed: a line is open */
  bool streamed;           /* a part of the response was printed in this way */
  size_t column;           /* code points on that line */
  char word[256];          /* the last word, until it is complete */
  size_t word_size;
} cli_timeline;

/** The line above a session's turns. */
void cli_timeline_session(cli_output *output, const char *session, const char *tenant, const char *workspace);
/** Shows the event at the index; the events before it were shown. */
void cli_timeline_show(cli_timeline *timeline, size_t index);
/** Shows the end of a session: its phase, and how long background work went on after it. */
void cli_timeline_session_end(cli_timeline *timeline, bool any_background, int64_t waited_ns);
/** Deletes the waiting events, because the events are about to be cleared. */
void cli_timeline_clear(cli_timeline *timeline);
void cli_timeline_free(cli_timeline *timeline);

/** Prints a text on one line of a terminal: control characters and line ends become blanks, and the text is cut at
 *  width columns. Shared with the summary. */
void cli_print_cut(cli_output *output, tp_text text, size_t width);

#endif
