/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/event.h"

#include <stdlib.h>
#include <string.h>

#include "cli/message.h"
#include "cli/pool.h"
#include "turnphase/declared.h"

/* ---- pairs: a map whose size is not known before it is written ---- */

enum { PAIRS_MAX = 32 };

/** The pairs of a map, gathered before the map is written, for its size stands in front. */
typedef struct pairs {
  tp_writer *writer;
  size_t count;
  struct pair {
    const char *key;
    enum { PAIR_TEXT, PAIR_INT, PAIR_BOOL, PAIR_VALUE, PAIR_PART } kind;
    tp_text text;
    int64_t number;
    void (*part)(tp_writer *writer, const void *source);
    const void *source;
  } items[PAIRS_MAX];
} pairs;

static struct pair *add(pairs *p, const char *key) {
  struct pair *pair = &p->items[p->count++];
  *pair = (struct pair){.key = key};
  return pair;
}

static void add_text(pairs *p, const char *key, tp_text text) { add(p, key)->text = text; }
static void add_string(pairs *p, const char *key, const char *string) { add_text(p, key, tp_text_of(string)); }

static void add_int(pairs *p, const char *key, int64_t number) {
  struct pair *pair = add(p, key);
  pair->kind = PAIR_INT;
  pair->number = number;
}

static void add_bool(pairs *p, const char *key, bool value) {
  struct pair *pair = add(p, key);
  pair->kind = PAIR_BOOL;
  pair->number = value;
}

/* A value of the library's; nothing is null. */
static void add_value(pairs *p, const char *key, tp_text value) {
  struct pair *pair = add(p, key);
  pair->kind = PAIR_VALUE;
  pair->text = value;
}

static void add_part(pairs *p, const char *key, void (*part)(tp_writer *writer, const void *source),
                     const void *source) {
  struct pair *pair = add(p, key);
  pair->kind = PAIR_PART;
  pair->part = part;
  pair->source = source;
}

/* Arguments that a provider could not decode may be any bytes. */
static void write_text(tp_writer *writer, tp_text text) {
  if (tp_utf8_valid(text, NULL)) tp_write_text(writer, text);
  else tp_write_bytes(writer, text);
}

static void write_pairs(const pairs *p) {
  tp_write_map(p->writer, p->count);
  for (size_t i = 0; i < p->count; i++) {
    const struct pair *pair = &p->items[i];
    tp_write_string(p->writer, pair->key);
    switch (pair->kind) {
    case PAIR_TEXT: write_text(p->writer, pair->text); break;
    case PAIR_INT: tp_write_int(p->writer, pair->number); break;
    case PAIR_BOOL: tp_write_bool(p->writer, pair->number != 0); break;
    case PAIR_PART: pair->part(p->writer, pair->source); break;
    case PAIR_VALUE:
      if (pair->text.size) tp_write_value(p->writer, pair->text);
      else tp_write_null(p->writer);
      break;
    }
  }
}

/* ---- words ---- */

static const char *const id_names[TP_ID_COUNT] = {"tenant", "agent", "workspace", "session",
                                                  "thread", "turn",  "task",      "run"};

static const char *kind_name(uint32_t kind) {
  static const char *const names[TP_KIND_COUNT] = {
      [TP_KIND_POLICY] = "policy",
      [TP_KIND_PROMPT_CONTEXT] = "prompt_context",
      [TP_KIND_PROMPT_SECTION] = "prompt_section",
      [TP_KIND_TOOL_BUNDLE] = "tool_bundle",
      [TP_KIND_SIGNAL] = "signal",
      [TP_KIND_REMINDER] = "reminder",
      [TP_KIND_AUDIT] = "audit",
      [TP_KIND_MANIFEST_DIAGNOSTIC] = "manifest_diagnostic",
      [TP_KIND_DIAGNOSTIC] = "diagnostic",
      [TP_KIND_BACKGROUND_JOB] = "background_job"};
  return kind < TP_KIND_COUNT && names[kind] ? names[kind] : "none";
}

static const char *severity_name(tp_severity severity) {
  return severity == TP_SEVERITY_ERROR ? "error" : severity == TP_SEVERITY_WARNING ? "warning" : "info";
}

static const char *verdict_name(tp_outcome_kind verdict) {
  switch (verdict) {
  case TP_OUTCOME_ALLOW: return "allow";
  case TP_OUTCOME_DENY: return "deny";
  case TP_OUTCOME_ASK: return "ask";
  default: return "none";
  }
}

static const char *execution_name(tp_execution execution) {
  switch (execution) {
  case TP_EXECUTION_DEADLINE: return "deadline";
  case TP_EXECUTION_FIRE_AND_RECORD: return "fire_and_record";
  case TP_EXECUTION_BACKGROUND: return "background";
  default: return "blocking";
  }
}

static const char *failure_name(tp_failure failure) {
  switch (failure) {
  case TP_FAILURE_BEST_EFFORT: return "best_effort";
  case TP_FAILURE_FALLBACK: return "fallback";
  case TP_FAILURE_REQUIRED: return "required";
  default: return "default";
  }
}

/* ---- parts of an event ---- */

static void write_ids(tp_writer *writer, const void *source) {
  const tp_text *ids = source;
  pairs p = {.writer = writer};
  for (size_t i = 0; i < TP_ID_COUNT; i++)
    if (ids[i].size) add_text(&p, id_names[i], ids[i]);
  write_pairs(&p);
}

static void write_run(tp_writer *writer, const void *source) {
  const tp_run_record *run = source;
  pairs p = {.writer = writer};
  add_string(&p, "subscription", run->subscription);
  add_string(&p, "handler", run->handler);
  add_string(&p, "owner", run->owner);
  add_string(&p, "state", tp_state_name(run->state));
  add_string(&p, "reason", tp_reason_name(run->reason));
  add_string(&p, "verdict", verdict_name(run->verdict));
  add_string(&p, "execution", execution_name(run->execution));
  add_string(&p, "failure", failure_name(run->failure));
  add_int(&p, "attempts", run->attempts);
  add_int(&p, "code", run->code);
  add_int(&p, "contribution_count", run->contribution_count);
  add_bool(&p, "fallback_used", run->fallback_used);
  add_int(&p, "queued_ns", run->queued_ns);
  add_int(&p, "started_ns", run->started_ns);
  add_int(&p, "ended_ns", run->ended_ns);
  add_int(&p, "late_ns", run->late_ns);
  write_pairs(&p);
}

static void write_call(tp_writer *writer, const void *source) {
  const tp_tool_call *call = source;
  pairs p = {.writer = writer};
  add_text(&p, "id", call->id);
  add_text(&p, "name", call->name);
  if (call->malformed) add_text(&p, "arguments", call->arguments);
  else add_value(&p, "arguments", call->arguments);
  add_bool(&p, "malformed", call->malformed);
  write_pairs(&p);
}

static void write_result(tp_writer *writer, const void *source) {
  const tp_tool_result *result = source;
  pairs p = {.writer = writer};
  add_text(&p, "call_id", result->call_id);
  add_text(&p, "name", result->name);
  add_string(&p, "kind", tp_tool_result_name(result->kind));
  add_bool(&p, "started", result->started);
  add_int(&p, "completion_order", result->completion_order);
  add_int(&p, "duration_ns", result->duration_ns);
  add_text(&p, "text", result->text);
  write_pairs(&p);
}

static void write_tools(tp_writer *writer, const void *source) {
  const tp_contribution *c = source;
  tp_write_array(writer, c->tool_count);
  for (uint32_t i = 0; i < c->tool_count; i++) tp_write_string(writer, c->tools[i].name);
}

static void write_contribution(tp_writer *writer, const void *source) {
  const tp_contribution *c = source;
  pairs p = {.writer = writer};
  add_string(&p, "kind", kind_name(c->kind));
  add_int(&p, "weight", c->weight);
  add_string(&p, "severity", severity_name(c->severity));
  if (c->domain.size) add_text(&p, "domain", c->domain);
  if (c->key.size) add_text(&p, "key", c->key);
  if (c->title.size) add_text(&p, "title", c->title);
  add_text(&p, "text", c->text);
  if (c->short_text.size) add_text(&p, "short_text", c->short_text);
  if (c->value.size) add_value(&p, "value", c->value);
  if (c->sources.size) add_value(&p, "sources", c->sources);
  if (c->tool_count) add_part(&p, "tools", write_tools, c);
  write_pairs(&p);
}

static void write_tool_results(tp_writer *writer, const void *source) {
  const cli_request *request = source;
  tp_write_array(writer, request->tool_result_count);
  for (size_t i = 0; i < request->tool_result_count; i++) tp_write_string(writer, request->tool_results[i]);
}

static void write_request(tp_writer *writer, const void *source) {
  const cli_request *request = source;
  pairs p = {.writer = writer};
  add_int(&p, "message_count", (int64_t)request->message_count);
  add_part(&p, "tool_results", write_tool_results, request);
  write_pairs(&p);
}

/* ---- events ---- */

static bool has_outcome(tp_event_kind kind) {
  return kind == TP_EVENT_PHASE_END || kind == TP_EVENT_MODEL_END || kind == TP_EVENT_TURN_END;
}

static void write_event(tp_writer *writer, const tp_runtime *runtime, const tp_event *event,
                        const cli_request *request) {
  const tp_phase *phase = event->phase ? tp_phase_get(runtime, event->phase) : NULL;
  bool of_tool = event->kind == TP_EVENT_TOOL_BEGIN || event->kind == TP_EVENT_TOOL_END;
  pairs p = {.writer = writer};
  add_string(&p, "event", tp_event_name(event->kind));
  add_int(&p, "sequence", (int64_t)event->sequence);
  add_int(&p, "time_ns", event->time_ns);
  add_int(&p, "unix_ms", event->unix_ms);
  add_part(&p, "ids", write_ids, event->ids);
  if (phase) add_string(&p, "phase", phase->name);
  if (has_outcome(event->kind)) add_string(&p, "outcome", event->outcome ? tp_status_name(event->outcome) : "TP_OK");
  if (event->text.data) add_text(&p, "text", event->text);
  if (event->subscription) add_string(&p, "subscription", event->subscription);
  if (event->run) add_part(&p, "run", write_run, event->run);
  if (of_tool) add_int(&p, "call_index", event->call_index);
  if (event->tool_call) add_part(&p, "tool_call", write_call, event->tool_call);
  if (event->tool_result) add_part(&p, "tool_result", write_result, event->tool_result);
  if (event->contribution) add_part(&p, "contribution", write_contribution, event->contribution);
  if (request) add_part(&p, "request", write_request, request);
  if (event->ended_ns) {
    add_int(&p, "started_ns", event->started_ns);
    add_int(&p, "ended_ns", event->ended_ns);
  }
  write_pairs(&p);
}

static tp_writer *begin(cli_events *events) {
  if (!events->writer) cli_need(tp_writer_new(NULL, &events->writer));
  tp_writer_reset(events->writer);
  return events->writer;
}

/* What was written becomes the last event. */
static void keep(cli_events *events) {
  tp_text value;
  cli_need(tp_writer_finish(events->writer, &value));
  while (events->size + value.size > events->size_capacity)
    events->bytes = cli_room(events->bytes, events->size_capacity, &events->size_capacity, 1);
  memcpy(events->bytes + events->size, value.data, value.size);
  events->size += value.size;
  events->ends = cli_room(events->ends, events->count, &events->ends_capacity, sizeof *events->ends);
  events->ends[events->count++] = events->size;
}

void cli_events_add(cli_events *events, const tp_runtime *runtime, const tp_event *event, const cli_request *request) {
  write_event(begin(events), runtime, event, request);
  keep(events);
}

void cli_events_add_result(cli_events *events, const char *session, const tp_turn_result *result) {
  tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session), [TP_ID_TURN] = result->turn_id};
  pairs p = {.writer = begin(events)};
  add_string(&p, "event", "result");
  add_part(&p, "ids", write_ids, ids);
  add_string(&p, "outcome", tp_turn_outcome_name(result->outcome));
  add_string(&p, "code", result->code ? tp_status_name(result->code) : "TP_OK");
  add_text(&p, "text", result->text);
  add_text(&p, "reason", result->reason);
  add_int(&p, "iterations", result->iterations);
  add_int(&p, "tool_calls", result->tool_calls);
  add_int(&p, "input_tokens", result->input_tokens);
  add_int(&p, "output_tokens", result->output_tokens);
  add_int(&p, "cost_micros", result->cost_micros);
  add_int(&p, "started_ns", result->started_ns);
  add_int(&p, "ended_ns", result->ended_ns);
  write_pairs(&p);
  keep(events);
}

tp_text cli_events_get(const cli_events *events, size_t index) {
  size_t begins = index > 0 ? events->ends[index - 1] : 0;
  return (tp_text){events->bytes + begins, events->ends[index] - begins};
}

tp_text cli_event_text(tp_text event, const char *key) { return tp_value_text(tp_value_get(event, key)); }

int64_t cli_event_int(tp_text event, const char *key) { return tp_value_int(tp_value_get(event, key), 0); }

bool cli_text_is(tp_text text, const char *word) {
  return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

void cli_events_print(const cli_events *events, cli_output *output) {
  for (size_t i = 0; i < events->count; i++) {
    tp_fault fault = {0};
    tp_status status = tp_json_encode(cli_events_get(events, i), cli_print, output, &fault);
    if (status == TP_OK) cli_print(output, "\n", 1);
    else cli_error("warning: event %zu of a turn is left out: %s", i + 1, fault.message);
  }
}

void cli_events_clear(cli_events *events) { events->size = events->count = 0; }

void cli_events_free(cli_events *events) {
  tp_writer_free(events->writer);
  free(events->bytes);
  free(events->ends);
}
