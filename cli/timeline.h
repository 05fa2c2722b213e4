/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline: what happened in a turn, for people: one line for each thing, with when it began (milliseconds since the
 * turn began) and how long it took. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "cli/event.h"

/** The line above a session's turns. */
void cli_timeline_session(cli_output *output, const char *session, const char *tenant, const char *workspace);
/** A turn, from its first event to its result. */
void cli_timeline_turn(cli_output *output, const cli_events *events);
/** What ran at the end of a session: its phase, and how long the work in the background took after it. */
void cli_timeline_session_end(cli_output *output, const cli_events *events, bool any_background, int64_t waited_ns);

/** A text for a line on a terminal: control characters and line ends become blanks, and what is longer than width code
 *  points is cut. Shared with the summary. */
void cli_print_cut(cli_output *output, tp_text text, size_t width);

#endif
