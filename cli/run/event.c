/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"
#include "support/text.h"

/* ---- words ---- */

static const char *kind_word(uint32_t kind) {
  static const char *const names[TP_CONTRIBUTION_COUNT] = {
      [TP_CONTRIBUTION_POLICY] = "policy",
      [TP_CONTRIBUTION_PROMPT_CONTEXT] = "prompt_context",
      [TP_CONTRIBUTION_PROMPT_SECTION] = "prompt_section",
      [TP_CONTRIBUTION_TOOL_BUNDLE] = "tool_bundle",
      [TP_CONTRIBUTION_SIGNAL] = "signal",
      [TP_CONTRIBUTION_REMINDER] = "reminder",
      [TP_CONTRIBUTION_AUDIT] = "audit",
      [TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC] = "manifest_diagnostic",
      [TP_CONTRIBUTION_DIAGNOSTIC] = "diagnostic",
      [TP_CONTRIBUTION_BACKGROUND_JOB] = "background_job"};
  return kind < TP_CONTRIBUTION_COUNT && names[kind] ? names[kind] : "none";
}

static const char *status_word(tp_status status) { return status ? tp_status_name(status) : "TP_OK"; }

/* ---- how an answer ended ---- */

static const struct {
  tp_finish finish;
  const char *note;
} finish_notes[] = {
    {TP_FINISH_LENGTH, "the answer is cut: it reached the limit of tokens"},
    {TP_FINISH_FILTER, "the provider filtered the answer"},
    {TP_FINISH_REFUSAL, "the model refused to answer"},
    {TP_FINISH_PAUSE, "the model paused: the next message lets it go on"},
    {TP_FINISH_TOOL_CALLS, "the model meant to call tools, and its answer has no call"},
};

const char *cli_finish_note(const tp_turn_result *result) {
  if (result->outcome != TP_TURN_COMPLETED) return NULL;
  for (size_t i = 0; i < sizeof finish_notes / sizeof *finish_notes; i++)
    if (finish_notes[i].finish == result->finish) return finish_notes[i].note;
  return result->finish == TP_FINISH_STOP && result->text.size == 0 ? "the answer is empty" : NULL;
}

bool cli_is_cut(const tp_turn_result *result) {
  return cli_finish_note(result) != NULL && result->finish != TP_FINISH_STOP;
}

/* Whether the outcome is a negative one without another status. */
static bool went_wrong(tp_turn_outcome outcome) {
  return outcome == TP_TURN_FAILED || outcome == TP_TURN_TIMED_OUT || outcome == TP_TURN_CANCELLED;
}

static bool is_over_limit(const tp_turn_result *result) {
  const char *ending = tp_turn_ending_name(result->outcome, result->code);
  return strncmp(ending, "max_", 4) == 0 || strcmp(ending, "budget") == 0 || strcmp(ending, "repeated_call") == 0;
}

int cli_turn_exit(const tp_turn_result *result) {
  if (is_over_limit(result)) return CLI_OVER_LIMIT;
  if (result->outcome == TP_TURN_FAILED && result->code == TP_ERR_BUSY) return CLI_RETRY;
  return went_wrong(result->outcome) || cli_is_cut(result) ? CLI_NEGATIVE : CLI_OK;
}

/* ---- copies ---- */

/* A text without data stays one: it has no key. */
static tp_text copy_event_text(cli_events *events, tp_text text) {
  return text.data ? (tp_text){cli_pool_copy(&events->pool, text), text.size} : text;
}

static const char *copy_event_string(cli_events *events, const char *string) {
  return string ? cli_pool_copy(&events->pool, tp_text_of(string)) : NULL;
}

#define COPY(key, kind, value, is_there) COPY_##kind(value)
#define COPY_TEXT(value) value = copy_event_text(events, value);
#define COPY_VALUE COPY_TEXT
#define COPY_PARTS COPY_TEXT
#define COPY_STRING(value) value = copy_event_string(events, value);
/* These are no texts, or those of another row. */
#define COPY_WORD(value)
#define COPY_INT(value)
#define COPY_BOOL(value)
#define COPY_DOUBLE(value)
#define COPY_JSON(value)
#define COPY_IDS(value) copy_ids(events, value);
#define COPY_RUN(value) copy_run(events, value);
#define COPY_CALL(value) copy_call(events, value);
#define COPY_TOOL_RESULT(value) copy_tool_result(events, value);
#define COPY_CONTRIBUTION(value) copy_contribution(events, value);
#define COPY_REQUEST(value) copy_request(events, value);
#define COPY_TOOLS(value)

static void copy_ids(cli_events *events, tp_text ids[TP_ID_COUNT]) {
  for (size_t i = 0; i < TP_ID_COUNT; i++) ids[i] = copy_event_text(events, ids[i]);
}

static void copy_run(cli_events *events, tp_run_record *of) {
  COPY_STRING(of->subscription)
  COPY_STRING(of->handler)
  COPY_STRING(of->owner)
}

static void copy_call(cli_events *events, tp_tool_call *of) { CLI_CALL_KEYS(COPY) }

static void copy_tool_result(cli_events *events, tp_tool_result *of) { CLI_TOOL_RESULT_KEYS(COPY) }

static void copy_contribution(cli_events *events, cli_event *of) {
  CLI_CONTRIBUTION_KEYS(COPY)
  of->tools = cli_alloc(of->contribution.tool_count * sizeof *of->tools);
  for (uint32_t i = 0; i < of->contribution.tool_count; i++)
    of->tools[i] = copy_event_string(events, of->contribution.tools[i]->name);
}

static void copy_request(cli_events *events, cli_request *of) {
  const char **ids = cli_alloc(of->tool_result_count * sizeof *ids);
  for (size_t i = 0; i < of->tool_result_count; i++) ids[i] = copy_event_string(events, of->tool_results[i]);
  of->tool_results = ids;
}

/* ---- events ---- */

static bool has_outcome(tp_event_kind kind) {
  return kind == TP_EVENT_PHASE_END || kind == TP_EVENT_MODEL_END || kind == TP_EVENT_TURN_END ||
         kind == TP_EVENT_MESSAGE;
}

static bool is_of_tool(tp_event_kind kind) {
  return kind == TP_EVENT_TOOL_BEGIN || kind == TP_EVENT_TOOL_PROGRESS || kind == TP_EVENT_TOOL_END;
}

static cli_event *append_event(cli_events *events, const char *name) {
  cli_event *of = cli_alloc(sizeof *of);
  of->name = name;
  events->items = cli_reserve(events->items, events->count, &events->capacity, sizeof *events->items);
  events->items[events->count++] = of;
  return of;
}

void cli_events_add(cli_events *events, const tp_runtime *runtime, const tp_event *event, const cli_request *request) {
  const tp_phase *phase = event->phase ? tp_phase_get(runtime, event->phase) : NULL;
  cli_event *of = append_event(events, tp_event_name(event->kind));
  of->event = *event;
  of->event.ids = memcpy(of->ids, event->ids, sizeof of->ids);
  of->event.turn = of->event.copied = NULL;
  of->event.question = NULL;
  of->event.job = NULL;
  of->event.parent_turn = (tp_text){NULL, 0};
  of->phase = phase ? phase->name : NULL;
  if (event->run) of->run = *event->run, of->event.run = &of->run;
  if (event->tool_call) of->tool_call = *event->tool_call, of->event.tool_call = &of->tool_call;
  if (event->tool_result) of->tool_result = *event->tool_result, of->event.tool_result = &of->tool_result;
  if (event->contribution) of->contribution = *event->contribution, of->event.contribution = &of->contribution;
  of->has_request = request != NULL;
  if (request) of->request = *request;
  CLI_EVENT_KEYS(COPY)
}

void cli_events_add_result(cli_events *events, const char *session, const tp_turn_result *result) {
  cli_event *of = append_event(events, "result");
  of->ids[TP_ID_SESSION] = tp_text_of(session);
  of->ids[TP_ID_TURN] = result->turn_id;
  of->has_result = true;
  of->result = *result;
  CLI_RESULT_KEYS(COPY)
}

void cli_events_add_dead(cli_events *events, const tp_job *job) {
  tp_text of_call = tp_value_get(job->payload, "ids");
  cli_event *of = append_event(events, "dead_letter");
  for (size_t id = 0; id < TP_ID_COUNT; id++) of->ids[id] = tp_value_text(tp_value_at(of_call, id));
  of->job = *job;
  CLI_DEAD_KEYS(COPY)
}

void cli_events_add_background(cli_events *events, uint64_t jobs_dead, uint64_t jobs_lost) {
  cli_event *of = append_event(events, "background");
  of->jobs_dead = jobs_dead;
  of->jobs_lost = jobs_lost;
}

const cli_event *cli_events_get(const cli_events *events, size_t index) {
  assert(index < events->count);
  return events->items[index];
}

void cli_event_progress(const cli_event *event, char *words, size_t size) {
  int used = snprintf(words, size, " %.6g", event->event.done);
  assert(used > 0 && (size_t)used < size);
  if (event->event.total > 0) snprintf(words + used, size - (size_t)used, " of %.6g ", event->event.total);
  else snprintf(words + used, size - (size_t)used, " ");
}

bool cli_text_is(tp_text text, const char *word) { return word && tp__is_word(text, word); }

/* ---- JSON ---- */

#define ADD(key, kind, value, is_there) \
  if (is_there) ADD_##kind(#key, value);
#define ADD_TEXT(key, value) cli_map_add_text(map, key, value)
#define ADD_VALUE(key, value) cli_map_add_value(map, key, value)
#define ADD_JSON ADD_VALUE
#define ADD_STRING(key, value) cli_map_add_string(map, key, value)
#define ADD_WORD ADD_STRING
#define ADD_INT(key, value) cli_map_add_int(map, key, value)
#define ADD_BOOL(key, value) cli_map_add_bool(map, key, value)
#define ADD_DOUBLE(key, value) cli_map_add_double(map, key, value)
#define ADD_PARTS(key, value) cli_data_add_answer(map, (tp_text){NULL, 0}, value)
#define ADD_TOOLS(key, value) cli_map_add_list(map, key, (value)->tools, (value)->contribution.tool_count)
#define ADD_IDS(key, value) cli_data_add_ids(map, value)
#define ADD_RUN(key, value) add_run(map, key, value)
#define ADD_CALL(key, value) add_call(map, key, value)
#define ADD_TOOL_RESULT(key, value) add_tool_result(map, key, value)
#define ADD_CONTRIBUTION(key, value) add_contribution(map, key, value)
#define ADD_REQUEST(key, value) add_request(map, key, value)

static void add_run(cli_map *map, const char *key, const tp_run_record *run) {
  cli_map_open(map, key);
  cli_data_add_run(map, run, false);
  cli_map_close(map);
}

static void add_call(cli_map *map, const char *key, const tp_tool_call *of) {
  cli_map_open(map, key);
  CLI_CALL_KEYS(ADD)
  cli_map_close(map);
}

static void add_tool_result(cli_map *map, const char *key, const tp_tool_result *of) {
  cli_map_open(map, key);
  CLI_TOOL_RESULT_KEYS(ADD)
  cli_map_close(map);
}

static void add_contribution(cli_map *map, const char *key, const cli_event *of) {
  cli_map_open(map, key);
  CLI_CONTRIBUTION_KEYS(ADD)
  cli_map_close(map);
}

static void add_request(cli_map *map, const char *key, const cli_request *request) {
  cli_map_open(map, key);
  cli_map_add_int(map, "message_count", (int64_t)request->message_count);
  cli_map_add_list(map, "tool_results", request->tool_results, request->tool_result_count);
  cli_map_close(map);
}

static void add_event(cli_map *map, const cli_event *of) {
  if (of->event.kind) {
    CLI_EVENT_KEYS(ADD)
  } else if (of->has_result) {
    CLI_RESULT_KEYS(ADD)
  } else if (of->job.id) {
    CLI_DEAD_KEYS(ADD)
  } else {
    CLI_BACKGROUND_KEYS(ADD)
  }
}

void cli_events_print(const cli_events *events, cli_output *output) {
  tp_writer *writer;
  cli_need(tp_writer_new(NULL, &writer));
  for (size_t i = 0; i < events->count; i++) {
    cli_map map = {0};
    tp_fault fault = {0};
    tp__bytes line = {0};
    tp_text value;
    add_event(&map, events->items[i]);
    tp_writer_reset(writer);
    cli_map_write(&map, writer);
    cli_need(tp_writer_finish(writer, &value));
    tp_status status = cli_buffer_add_json(&line, value, &fault);
    cli_buffer_add(&line, "\n", 1);
    if (status == TP_OK) cli_print(output, line.data, line.size);
    tp__bytes_fini(&line);
    if (status != TP_OK) cli_error("warning: event %zu of a turn is left out: %s", i + 1, fault.message);
  }
  tp_writer_free(writer);
}

void cli_events_clear(cli_events *events) {
  for (size_t i = 0; i < events->count; i++) {
    free(events->items[i]->tools);
    free((void *)(uintptr_t)events->items[i]->request.tool_results);
    free(events->items[i]);
  }
  events->count = 0;
  cli_pool_free(&events->pool);
}

void cli_events_free(cli_events *events) {
  cli_events_clear(events);
  free(events->items);
}
