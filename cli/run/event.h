/* SPDX-License-Identifier: Apache-2.0
 *
 * event: the events of a turn, copied. Both the stream for programs (--json) and the timeline for people are made from
 * them, so both know the same. docs/events.md lists the keys. */
#ifndef CLI_EVENT_H
#define CLI_EVENT_H

#include "cli/common/output.h"
#include "cli/common/pool.h"

/** Everything that the model was shown in addition to the user's message; stored with the event of its answer. */
typedef struct cli_request {
  size_t message_count;
  const char *const
      *tool_results; /* the ids of the calls whose results the model sees for the first time, in their order */
  size_t tool_result_count;
} cli_request;

/** An event of the library, or one that only the command makes: a result, a job that failed for good (event.job), or
 *  how many jobs were lost. The texts that have keys below are in the pool of the list; others of result and job are
 *  not kept. */
typedef struct cli_event {
  const char *name; /* as in docs/events.md */
  tp_event event;   /* kind 0: made by the command */
  tp_text ids[TP_ID_COUNT];
  const char *phase; /* NULL: none */
  tp_run_record run; /* this and the next ones: what event.run and so on point to */
  tp_tool_call tool_call;
  tp_tool_result tool_result;
  tp_contribution contribution;
  tp_job job;
  const char **tools; /* of the contribution: their names */
  cli_request request;
  bool has_request, has_result;
  tp_turn_result result;
  uint64_t jobs_dead, jobs_lost;
} cli_event;

/** Stored events, in order. The thread that owns the turn adds events; the command's own thread reads in between. The
 *  library passes the turn from one to the other, so no lock is needed. Zero-filled means empty. */
typedef struct cli_events {
  cli_event **items;
  size_t count, capacity;
  cli_pool pool; /* of their texts */
} cli_events;

/* The keys of the objects that --json prints, in their order: KEY(key, kind, value, whether it is there). `of` is the
 * struct. A TEXT, a VALUE or a STRING is a member, which is copied with its event. */
/* clang-format off */
#define CLI_EVENT_KEYS(KEY)                                                                                           \
  KEY(event, WORD, of->name, true)                                                                                    \
  KEY(sequence, INT, (int64_t)of->event.sequence, true)                                                               \
  KEY(time_ns, INT, of->event.time_ns, true)                                                                          \
  KEY(unix_ms, INT, of->event.unix_ms, true)                                                                          \
  KEY(ids, IDS, of->ids, true)                                                                                        \
  KEY(phase, STRING, of->phase, of->phase)                                                                            \
  KEY(outcome, WORD, status_word(of->event.status), has_outcome(of->event.kind))                                      \
  KEY(model, TEXT, of->event.model, of->event.model.data)                                                             \
  KEY(text, TEXT, of->event.text, of->event.text.data)                                                                \
  KEY(finish, WORD, tp_finish_name(of->event.finish), of->event.finish)                                               \
  KEY(finish_word, TEXT, of->event.finish_word, of->event.finish && of->event.finish_word.size)                       \
  KEY(subscription, STRING, of->event.subscription, of->event.subscription)                                           \
  KEY(run, RUN, &of->run, of->event.run)                                                                              \
  KEY(call_index, INT, of->event.call_index, is_of_tool(of->event.kind))                                              \
  KEY(tool_call, CALL, &of->tool_call, of->event.tool_call)                                                           \
  KEY(done, DOUBLE, of->event.done, of->event.kind == TP_EVENT_TOOL_PROGRESS)                                         \
  KEY(total, DOUBLE, of->event.total, of->event.kind == TP_EVENT_TOOL_PROGRESS && of->event.total > 0)                \
  KEY(tool_result, TOOL_RESULT, &of->tool_result, of->event.tool_result)                                              \
  KEY(contribution, CONTRIBUTION, of, of->event.contribution)                                                         \
  KEY(request, REQUEST, &of->request, of->has_request)                                                                \
  KEY(started_ns, INT, of->event.started_ns, of->event.ended_ns)                                                      \
  KEY(ended_ns, INT, of->event.ended_ns, of->event.ended_ns)
#define CLI_CALL_KEYS(KEY)                                                                                            \
  KEY(id, TEXT, of->id, true)                                                                                         \
  KEY(name, TEXT, of->name, true)                                                                                     \
  KEY(arguments, TEXT, of->arguments, of->malformed)                                                                  \
  KEY(arguments, JSON, of->arguments, !of->malformed)                                                                 \
  KEY(malformed, BOOL, of->malformed, true)
#define CLI_TOOL_RESULT_KEYS(KEY)                                                                                     \
  KEY(call_id, TEXT, of->call_id, true)                                                                               \
  KEY(name, TEXT, of->name, true)                                                                                     \
  KEY(kind, WORD, tp_tool_result_name(of->kind), true)                                                                \
  KEY(started, BOOL, of->started, true)                                                                               \
  KEY(completion_order, INT, of->completion_order, true)                                                              \
  KEY(duration_ns, INT, of->duration_ns, true)                                                                        \
  KEY(waited_ns, INT, of->waited_ns, of->waited_ns)                                                                   \
  KEY(waited_key, TEXT, of->waited_key, of->waited_key.size)                                                          \
  KEY(text, TEXT, of->text, true)                                                                                     \
  KEY(value, VALUE, of->value, of->value.size)                                                                        \
  KEY(parts, PARTS, of->parts, of->parts.size)
#define CLI_CONTRIBUTION_KEYS(KEY)                                                                                    \
  KEY(kind, WORD, kind_word(of->contribution.kind), true)                                                             \
  KEY(weight, INT, of->contribution.weight, true)                                                                     \
  KEY(severity, WORD, tp_severity_name(of->contribution.severity), true)                                              \
  KEY(domain, TEXT, of->contribution.domain, of->contribution.domain.size)                                            \
  KEY(key, TEXT, of->contribution.key, of->contribution.key.size)                                                     \
  KEY(title, TEXT, of->contribution.title, of->contribution.title.size)                                               \
  KEY(text, TEXT, of->contribution.text, true)                                                                        \
  KEY(short_text, TEXT, of->contribution.short_text, of->contribution.short_text.size)                                \
  KEY(value, VALUE, of->contribution.value, of->contribution.value.size)                                              \
  KEY(sources, VALUE, of->contribution.sources, of->contribution.sources.size)                                        \
  KEY(tools, TOOLS, of, of->contribution.tool_count)
#define CLI_RESULT_KEYS(KEY)                                                                                          \
  KEY(event, WORD, of->name, true)                                                                                    \
  KEY(ids, IDS, of->ids, true)                                                                                        \
  KEY(outcome, WORD, tp_turn_outcome_name(of->result.outcome), true)                                                  \
  KEY(code, WORD, status_word(of->result.code), true)                                                                 \
  KEY(text, TEXT, of->result.text, true)                                                                              \
  KEY(value, VALUE, of->result.value, of->result.value.size)                                                          \
  KEY(reason, TEXT, of->result.reason, true)                                                                          \
  KEY(ending, WORD, tp_turn_ending_name(of->result.outcome, of->result.code), true)                                   \
  KEY(finish, WORD, tp_finish_name(of->result.finish), of->result.finish)                                             \
  KEY(finish_word, TEXT, of->result.finish_word, of->result.finish && of->result.finish_word.size)                    \
  KEY(note, WORD, cli_finish_note(&of->result), cli_finish_note(&of->result))                                         \
  KEY(iterations, INT, of->result.iterations, true)                                                                   \
  KEY(tool_calls, INT, of->result.tool_calls, true)                                                                   \
  KEY(input_tokens, INT, of->result.input_tokens, true)                                                               \
  KEY(output_tokens, INT, of->result.output_tokens, true)                                                             \
  KEY(cost_micros, INT, of->result.cost_micros, true)                                                                 \
  KEY(started_ns, INT, of->result.started_ns, true)                                                                   \
  KEY(ended_ns, INT, of->result.ended_ns, true)                                                                       \
  KEY(stored, BOOL, true, of->result.is_stored)
#define CLI_DEAD_KEYS(KEY)                                                                                            \
  KEY(event, WORD, of->name, true)                                                                                    \
  KEY(ids, IDS, of->ids, true)                                                                                        \
  KEY(job, INT, (int64_t)of->job.id, true)                                                                            \
  KEY(handler, TEXT, of->job.handler, true)                                                                           \
  KEY(subscription, TEXT, of->job.subscription, true)                                                                 \
  KEY(attempts, INT, of->job.attempt, true)                                                                           \
  KEY(reason, WORD, tp_reason_name((tp_reason)of->job.reason), true)                                                  \
  KEY(code, INT, of->job.code, true)                                                                                  \
  KEY(text, TEXT, of->job.message, true)
#define CLI_BACKGROUND_KEYS(KEY)                                                                                      \
  KEY(event, WORD, of->name, true)                                                                                    \
  KEY(jobs_dead, INT, (int64_t)of->jobs_dead, true)                                                                   \
  KEY(jobs_lost, INT, (int64_t)of->jobs_lost, true)
/* clang-format on */

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
/** The event at an index; borrowed until the events are cleared. */
const cli_event *cli_events_get(const cli_events *events, size_t index);
/** " 3 of 10 " or " 3 " of an event tool_progress. */
void cli_event_progress(const cli_event *event, char *words, size_t size);
bool cli_text_is(tp_text text, const char *word); /* NULL: false */
/** Prints every event as one line of JSON. */
void cli_events_print(const cli_events *events, cli_output *output);
/** The first deletes the events and keeps the memory; the second frees everything. */
void cli_events_clear(cli_events *events);
void cli_events_free(cli_events *events);

#endif
