/* SPDX-License-Identifier: Apache-2.0
 *
 * event: the events of a turn as values. Both the stream for programs (--json) and the timeline for people are made
 * from them, so both know the same. docs/events.md lists the keys. */
#ifndef CLI_EVENT_H
#define CLI_EVENT_H

#include "cli/common/output.h"
#include "cli/common/pool.h"

/** Stored events, in order. The thread that owns the turn adds events; the command's own thread reads in between. The
 *  library passes the turn from one to the other, so no lock is needed. Zero-filled means empty. */
typedef struct cli_events {
  tp_writer *writer;
  tp__bytes values; /* one after the other */
  size_t *ends;     /* where each ends in values */
  size_t count, ends_capacity;
} cli_events;

/** Everything that the model was shown in addition to the user's message; stored with the event of its answer. */
typedef struct cli_request {
  size_t message_count;
  const char *const
      *tool_results; /* the ids of the calls whose results the model sees for the first time, in their order */
  size_t tool_result_count;
} cli_request;

/** Stores a copy of an event. @param request  with TP_EVENT_MODEL_END; else NULL. */
void cli_events_add(cli_events *events, const tp_runtime *runtime, const tp_event *event, const cli_request *request);
/** Stores the result of a turn: an event "result" that only the command makes. */
void cli_events_add_result(cli_events *events, const char *session, const tp_turn_result *result);
/** Stores a background job that failed for good: an event "dead_letter", made by the command. */
void cli_events_add_dead(cli_events *events, const tp_job *job);
/** Stores how many background jobs were lost: an event "background", made by the command. */
void cli_events_add_background(cli_events *events, uint64_t jobs_dead, uint64_t jobs_lost);
/** A note for people about the end of the last answer of a completed turn; NULL: none. */
const char *cli_finish_note(const tp_turn_result *result);
/** Whether the turn is completed, but its last answer is not the model's complete answer: it was cut, filtered,
 *  refused, … */
bool cli_is_cut(const tp_turn_result *result);
/** The exit status for the end of a turn: CLI_OK, CLI_NEGATIVE, CLI_OVER_LIMIT; CLI_RETRY when a turn of another
 *  process has the session. */
int cli_turn_exit(const tp_turn_result *result);
/** The event at an index, a map; borrowed until the next add or clear. */
tp_text cli_events_get(const cli_events *events, size_t index);
/** The text, or the int (else 0), under a key of an event or of a map in it. */
tp_text cli_event_text(tp_text event, const char *key);
/** " 3 of 10 " or " 3 " of an event tool_progress. */
void cli_event_progress(tp_text event, char *words, size_t size);
int64_t cli_event_int(tp_text event, const char *key);
bool cli_text_is(tp_text text, const char *word); /* NULL: false */
/** Prints every event as one line of JSON. */
void cli_events_print(const cli_events *events, cli_output *output);
/** The first deletes the events and keeps the memory; the second frees everything. */
void cli_events_clear(cli_events *events);
void cli_events_free(cli_events *events);

#endif
