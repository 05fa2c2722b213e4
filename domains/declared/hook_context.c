/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_context.c: the input of a program in turnphase's own protocol: the call as one line of JSON. */
#include "domains/declared/hook_context.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "domains/declared/hook_input.h"

static const char *const id_names[TP_ID_COUNT] = {"tenant_id", "agent_id", "workspace_id", "session_id",
                                                  "thread_id", "turn_id",  "task_id",      "run_id"};

/* The names that the hooks' events use for fields of the payload. */
static const struct alias {
  uint32_t phase, field;
  const char *name;
  bool is_time; /* shown as ISO 8601 */
} aliases[] = {
    {TP_PHASE_TURN_INTAKE, TP_FIELD_TEXT, "user_raw_input", false},
    {TP_PHASE_TURN_INTAKE, TP_FIELD_FILES, "current_files", false},
    {TP_PHASE_TOOL_CREATE, TP_FIELD_ABILITY_REF, "ability_id", false},
    {TP_PHASE_TOOL_CREATE, TP_FIELD_INPUT_SUMMARY, "input_summary", false},
    {TP_PHASE_TOOL_PRE, TP_FIELD_TOOL, "ability_id", false},
    {TP_PHASE_TOOL_PRE, TP_FIELD_TASK_KEY, "task_key", false},
    {TP_PHASE_TOOL_PRE, TP_FIELD_INPUT_SUMMARY, "args_summary", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_TOOL, "ability_id", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_TASK_KEY, "task_key", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_STATUS, "status", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_DURATION_MS, "duration_ms", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_INPUT_SUMMARY, "input_summary", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_OUTPUT_SUMMARY, "output_summary", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_ERROR_MESSAGE, "error_message", false},
    {TP_PHASE_SESSION_END, TP_FIELD_CHANGED_FILES, "changed_files", false},
    {TP_PHASE_SESSION_END, TP_FIELD_ABILITIES_USED, "abilities_used", false},
    {TP_PHASE_SESSION_END, TP_FIELD_TASKS_SUMMARY, "tasks_summary", false},
    {TP_PHASE_SESSION_END, TP_FIELD_STARTED_AT, "started_at", true},
    {TP_PHASE_SESSION_END, TP_FIELD_ENDED_AT, "ended_at", true},
};

/* 2026-11-26T11:33:02.250Z */
static void add_time(tp__input *in, const char *name, int64_t unix_ms) {
  char seconds[32], text[48] = "";
  time_t time = (time_t)(unix_ms / 1000);
  struct tm parts;
  if (gmtime_r(&time, &parts) && strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts) > 0)
    snprintf(text, sizeof text, "%s.%03dZ", seconds, (int)(unix_ms % 1000));
  tp__input_string(in, name, text);
}

/* An optional text that the phase has left empty is left out. */
static bool is_left_out(tp_text value) {
  return value.size == 0 || (tp_value_kind_of(value) == TP_VALUE_TEXT && tp_value_text(value).size == 0);
}

static void add_said(tp__input *in, const char *key, tp_text text) {
  if (text.size > 0) tp__input_text(in, key, text);
}

static void add_caller(tp__input *in) {
  tp__input_string(in, "source", tp_caller_name(tp_call_caller(in->call)));
  add_said(in, "session_id", tp_call_id(in->call, TP_ID_SESSION));
  add_said(in, "job_id", tp_call_caller_job(in->call));
  add_said(in, "triggered_by", tp_call_triggered_by(in->call));
}

static void add_ability(tp__input *in) {
  tp__input_text(in, "kind", tp_call_text(in->call, TP_FIELD_ABILITY_KIND));
  tp__input_text(in, "value", tp_call_text(in->call, TP_FIELD_ABILITY_REF));
}

/* Writes the parts of a result without their content: an image has megabytes, and programs have no use for it. */
static void write_parts(tp_text parts, tp_writer *writer) {
  tp_write_array(writer, tp_value_count(parts));
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    tp_part part = {.struct_size = sizeof part};
    if (tp_part_read(walk.value, &part, NULL) != TP_OK || tp_part_write_summary(&part, writer, NULL) != TP_OK)
      tp_write_null(writer);
  }
}

static void write_payload(tp_text payload, tp_writer *writer) {
  tp_write_map(writer, tp_value_count(payload));
  for (tp_value_walk walk = {0}; tp_value_next(payload, &walk);) {
    tp_write_text(writer, walk.key);
    if (tp__is_word(walk.key, "result_parts")) write_parts(walk.value, writer);
    else tp_write_value(writer, walk.value);
  }
}

static void add_context(tp__input *in) {
  const tp_call *call = in->call;
  tp_text payload = tp_call_payload(call);
  tp__input_string(in, "event_type", in->hook->event);
  tp__input_string(in, "hook_id", in->hook->id);
  tp__input_string(in, "phase", in->hook->row->name);
  for (uint32_t id = 0; id < TP_ID_COUNT; id++) add_said(in, id_names[id], tp_call_id(call, id));
  if (tp__input_begin(in, "caller")) tp__input_write(in->hook, call, in->writer, add_caller);
  add_said(in, "environment", tp_call_environment(call));
  tp__input_text(in, "mode", tp_call_mode(call));
  tp__input_int(in, "attempt", tp_call_attempt(call));
  if (tp_call_phase(call) == TP_PHASE_TOOL_CREATE && tp__input_begin(in, "ability_ref"))
    tp__input_write(in->hook, call, in->writer, add_ability);
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    const struct alias *alias = &aliases[i];
    if (alias->phase != tp_call_phase(in->call)) continue;
    tp_text value = tp_value_get(payload, tp_field_name(alias->field));
    if (alias->field != TP_FIELD_TEXT && is_left_out(value)) continue;
    if (alias->is_time) add_time(in, alias->name, tp_value_int(value, 0));
    else if (tp__input_begin(in, alias->name)) tp_write_value(in->writer, value);
  }
  if (!tp__input_begin(in, "payload")) return;
  write_payload(payload, in->writer);
}

void tp__hook_write_context(const tp__hook *hook, const tp_call *call, tp_writer *writer) {
  tp__input_write(hook, call, writer, add_context);
}

tp_status tp__hook_context_line(const tp__hook *hook, tp_call *call, tp__bytes *ret_line) {
  tp_writer *writer;
  tp_status status = tp_writer_new(NULL, &writer);
  if (status != TP_OK) return status;
  if (hook->protocol) tp__protocol_write(hook, call, writer);
  else tp__hook_write_context(hook, call, writer);
  tp_text value;
  tp__bytes line = {0};
  status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = tp__line_add_json(&line, value, writer);
  tp_writer_free(writer);
  if (status == TP_OK && line.failed) status = TP_ERR_NO_MEMORY;
  if (status == TP_OK) *ret_line = line;
  else tp__bytes_fini(&line);
  return status;
}
