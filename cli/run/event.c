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

static const char *kind_name(uint32_t kind) {
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

/* ---- parts of an event ---- */

static void add_call(cli_map *p, const tp_tool_call *call) {
  cli_map_open(p, "tool_call");
  cli_map_add_text(p, "id", call->id);
  cli_map_add_text(p, "name", call->name);
  if (call->malformed) cli_map_add_text(p, "arguments", call->arguments);
  else cli_map_add_value(p, "arguments", call->arguments);
  cli_map_add_bool(p, "malformed", call->malformed);
  cli_map_close(p);
}

static void add_result(cli_map *p, const tp_tool_result *result) {
  cli_map_open(p, "tool_result");
  cli_map_add_text(p, "call_id", result->call_id);
  cli_map_add_text(p, "name", result->name);
  cli_map_add_string(p, "kind", tp_tool_result_name(result->kind));
  cli_map_add_bool(p, "started", result->started);
  cli_map_add_int(p, "completion_order", result->completion_order);
  cli_map_add_int(p, "duration_ns", result->duration_ns);
  if (result->waited_ns) cli_map_add_int(p, "waited_ns", result->waited_ns);
  if (result->waited_key.size) cli_map_add_text(p, "waited_key", result->waited_key);
  cli_map_add_text(p, "text", result->text);
  cli_data_add_answer(p, result->value, result->parts);
  cli_map_close(p);
}

static void add_contribution(cli_map *p, const tp_contribution *c) {
  cli_map_open(p, "contribution");
  cli_map_add_string(p, "kind", kind_name(c->kind));
  cli_map_add_int(p, "weight", c->weight);
  cli_map_add_string(p, "severity", tp_severity_name(c->severity));
  if (c->domain.size) cli_map_add_text(p, "domain", c->domain);
  if (c->key.size) cli_map_add_text(p, "key", c->key);
  if (c->title.size) cli_map_add_text(p, "title", c->title);
  cli_map_add_text(p, "text", c->text);
  if (c->short_text.size) cli_map_add_text(p, "short_text", c->short_text);
  if (c->value.size) cli_map_add_value(p, "value", c->value);
  if (c->sources.size) cli_map_add_value(p, "sources", c->sources);
  if (c->tool_count) {
    cli_map_open_list(p, "tools");
    for (uint32_t i = 0; i < c->tool_count; i++) cli_map_add_string(p, NULL, c->tools[i]->name);
    cli_map_close(p);
  }
  cli_map_close(p);
}

static void add_request(cli_map *p, const cli_request *request) {
  cli_map_open(p, "request");
  cli_map_add_int(p, "message_count", (int64_t)request->message_count);
  cli_map_add_list(p, "tool_results", request->tool_results, request->tool_result_count);
  cli_map_close(p);
}

static void add_finish(cli_map *p, tp_finish finish, tp_text word) {
  cli_map_add_string(p, "finish", tp_finish_name(finish));
  if (word.size) cli_map_add_text(p, "finish_word", word);
}

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

/* ---- events ---- */

static bool has_outcome(tp_event_kind kind) {
  return kind == TP_EVENT_PHASE_END || kind == TP_EVENT_MODEL_END || kind == TP_EVENT_TURN_END ||
         kind == TP_EVENT_MESSAGE;
}

/* Makes the map the last event. */
static void append_event(cli_events *events, cli_map *map) {
  tp_text value;
  if (!events->writer) cli_need(tp_writer_new(NULL, &events->writer));
  tp_writer_reset(events->writer);
  cli_map_write(map, events->writer);
  cli_need(tp_writer_finish(events->writer, &value));
  cli_buffer_add(&events->values, value.data, value.size);
  events->ends = cli_reserve(events->ends, events->count, &events->ends_capacity, sizeof *events->ends);
  events->ends[events->count++] = events->values.size;
}

void cli_events_add(cli_events *events, const tp_runtime *runtime, const tp_event *event, const cli_request *request) {
  const tp_phase *phase = event->phase ? tp_phase_get(runtime, event->phase) : NULL;
  bool of_tool =
      event->kind == TP_EVENT_TOOL_BEGIN || event->kind == TP_EVENT_TOOL_PROGRESS || event->kind == TP_EVENT_TOOL_END;
  cli_map p = {0};
  cli_map_add_string(&p, "event", tp_event_name(event->kind));
  cli_map_add_int(&p, "sequence", (int64_t)event->sequence);
  cli_map_add_int(&p, "time_ns", event->time_ns);
  cli_map_add_int(&p, "unix_ms", event->unix_ms);
  cli_data_add_ids(&p, event->ids);
  if (phase) cli_map_add_string(&p, "phase", phase->name);
  if (has_outcome(event->kind))
    cli_map_add_string(&p, "outcome", event->status ? tp_status_name(event->status) : "TP_OK");
  if (event->model.data) cli_map_add_text(&p, "model", event->model);
  if (event->text.data) cli_map_add_text(&p, "text", event->text);
  if (event->finish) add_finish(&p, event->finish, event->finish_word);
  if (event->subscription) cli_map_add_string(&p, "subscription", event->subscription);
  if (event->run) {
    cli_map_open(&p, "run");
    cli_data_add_run(&p, event->run, false);
    cli_map_close(&p);
  }
  if (of_tool) cli_map_add_int(&p, "call_index", event->call_index);
  if (event->tool_call) add_call(&p, event->tool_call);
  if (event->kind == TP_EVENT_TOOL_PROGRESS) {
    cli_map_add_double(&p, "done", event->done);
    if (event->total > 0) cli_map_add_double(&p, "total", event->total);
  }
  if (event->tool_result) add_result(&p, event->tool_result);
  if (event->contribution) add_contribution(&p, event->contribution);
  if (request) add_request(&p, request);
  if (event->ended_ns) {
    cli_map_add_int(&p, "started_ns", event->started_ns);
    cli_map_add_int(&p, "ended_ns", event->ended_ns);
  }
  append_event(events, &p);
}

void cli_events_add_result(cli_events *events, const char *session, const tp_turn_result *result) {
  tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session), [TP_ID_TURN] = result->turn_id};
  cli_map p = {0};
  cli_map_add_string(&p, "event", "result");
  cli_data_add_ids(&p, ids);
  cli_map_add_string(&p, "outcome", tp_turn_outcome_name(result->outcome));
  cli_map_add_string(&p, "code", result->code ? tp_status_name(result->code) : "TP_OK");
  cli_map_add_text(&p, "text", result->text);
  if (result->value.size > 0) cli_map_add_value(&p, "value", result->value);
  cli_map_add_text(&p, "reason", result->reason);
  cli_map_add_string(&p, "ending", tp_turn_ending_name(result->outcome, result->code));
  if (result->finish) add_finish(&p, result->finish, result->finish_word);
  if (cli_finish_note(result)) cli_map_add_string(&p, "note", cli_finish_note(result));
  cli_map_add_int(&p, "iterations", result->iterations);
  cli_map_add_int(&p, "tool_calls", result->tool_calls);
  cli_map_add_int(&p, "input_tokens", result->input_tokens);
  cli_map_add_int(&p, "output_tokens", result->output_tokens);
  cli_map_add_int(&p, "cost_micros", result->cost_micros);
  cli_map_add_int(&p, "started_ns", result->started_ns);
  cli_map_add_int(&p, "ended_ns", result->ended_ns);
  if (result->is_stored) cli_map_add_bool(&p, "stored", true);
  append_event(events, &p);
}

void cli_events_add_dead(cli_events *events, const tp_job *job) {
  tp_text of_call = tp_value_get(job->payload, "ids"), ids[TP_ID_COUNT] = {0};
  for (size_t id = 0; id < TP_ID_COUNT; id++) ids[id] = tp_value_text(tp_value_at(of_call, id));
  cli_map p = {0};
  cli_map_add_string(&p, "event", "dead_letter");
  cli_data_add_ids(&p, ids);
  cli_map_add_int(&p, "job", (int64_t)job->id);
  cli_map_add_text(&p, "handler", job->handler);
  cli_map_add_text(&p, "subscription", job->subscription);
  cli_map_add_int(&p, "attempts", job->attempt);
  cli_map_add_string(&p, "reason", tp_reason_name((tp_reason)job->reason));
  cli_map_add_int(&p, "code", job->code);
  cli_map_add_text(&p, "text", job->message);
  append_event(events, &p);
}

void cli_events_add_background(cli_events *events, uint64_t jobs_dead, uint64_t jobs_lost) {
  cli_map p = {0};
  cli_map_add_string(&p, "event", "background");
  cli_map_add_int(&p, "jobs_dead", (int64_t)jobs_dead);
  cli_map_add_int(&p, "jobs_lost", (int64_t)jobs_lost);
  append_event(events, &p);
}

tp_text cli_events_get(const cli_events *events, size_t index) {
  assert(index < events->count && events->ends[index] <= events->values.size);
  size_t begins = index > 0 ? events->ends[index - 1] : 0;
  return (tp_text){events->values.data + begins, events->ends[index] - begins};
}

tp_text cli_event_text(tp_text event, const char *key) { return tp_value_text(tp_value_get(event, key)); }

void cli_event_progress(tp_text event, char *words, size_t size) {
  double total = tp_value_double(tp_value_get(event, "total"), 0);
  int used = snprintf(words, size, " %.6g", tp_value_double(tp_value_get(event, "done"), 0));
  assert(used > 0 && (size_t)used < size);
  if (total > 0) snprintf(words + used, size - (size_t)used, " of %.6g ", total);
  else snprintf(words + used, size - (size_t)used, " ");
}

int64_t cli_event_int(tp_text event, const char *key) { return tp_value_int(tp_value_get(event, key), 0); }

bool cli_text_is(tp_text text, const char *word) { return word && tp__is_word(text, word); }

void cli_events_print(const cli_events *events, cli_output *output) {
  for (size_t i = 0; i < events->count; i++) {
    tp_fault fault = {0};
    tp__bytes line = {0};
    tp_status status = cli_buffer_add_json(&line, cli_events_get(events, i), &fault);
    cli_buffer_add(&line, "\n", 1);
    if (status == TP_OK) cli_print(output, line.data, line.size);
    tp__bytes_fini(&line);
    if (status != TP_OK) cli_error("warning: event %zu of a turn is left out: %s", i + 1, fault.message);
  }
}

void cli_events_clear(cli_events *events) { events->values.size = events->count = 0; }

void cli_events_free(cli_events *events) {
  tp_writer_free(events->writer);
  tp__bytes_fini(&events->values);
  free(events->ends);
}
