/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/payload.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/message.h"
#include "cli/common/nearest.h"
#include "cli/common/pool.h"
#include "cli/run/event.h"
#include "runtime/base/check.h"

static uint32_t find_field_id(tp_text name) {
  char text[64];
  if (name.size >= sizeof text || memchr(name.data, 0, name.size)) return TP_FIELD_NONE;
  memcpy(text, name.data, name.size);
  text[name.size] = '\0';
  return tp_field_find(text);
}

/* ---- reading ---- */

static int refuse_field(const char *file, tp_text name, const char *why) {
  cli_error_at(file, 0, 0, "the field \"%.*s\" %s", (int)(name.size < 128 ? name.size : 128), name.data, why);
  return CLI_CONFIG;
}

static int take_field(const char *file, tp_text name, tp_text value, tp_field *ret_field) {
  uint32_t field = find_field_id(name), field_kind = tp_field_kind(field);
  tp_value_kind kind = tp_value_kind_of(value);
  if (!field) return refuse_field(file, name, "is none that a phase carries; turnphase phases lists them");
  if (field_kind == TP_FIELD_KIND_TEXT && kind != TP_VALUE_TEXT) return refuse_field(file, name, "must be a text");
  if (field_kind == TP_FIELD_KIND_INT && kind != TP_VALUE_INT)
    return refuse_field(file, name, "must be a whole number");
  *ret_field = (tp_field){.id = field, .kind = field_kind};
  if (field_kind == TP_FIELD_KIND_INT) ret_field->number = tp_value_int(value, 0);
  else ret_field->text = field_kind == TP_FIELD_KIND_TEXT ? tp_value_text(value) : value;
  return CLI_OK;
}

static int take_fields(const char *file, tp_text object, cli_payload *payload) {
  if (tp_value_kind_of(object) != TP_VALUE_MAP) {
    cli_error_at(file, 0, 0, "a payload is one object, {\"text\": \"Hello\", …}");
    return CLI_CONFIG;
  }
  int status = CLI_OK;
  payload->fields = cli_alloc(tp_value_count(object) * sizeof *payload->fields);
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(object, &walk);)
    status = take_field(file, walk.key, walk.value, &payload->fields[payload->count++]);
  return status;
}

int cli_payload_read(const char *path, cli_payload *payload) {
  tp_text object;
  if (!path) return CLI_OK;
  int status = cli_input_decode(path, &payload->writer, &object);
  return status == CLI_OK ? take_fields(cli_input_name(path), object, payload) : status;
}

/* ---- of another host ---- */

/* Hosts give some fields to every event. Fields that the phase does not carry are only for the host. */
static void add_text(cli_payload *payload, const tp_phase *phase, uint32_t field, tp_text value) {
  if (tp_value_kind_of(value) != TP_VALUE_TEXT || !cli_phase_carries(phase, field)) return;
  payload->fields[payload->count++] = (tp_field){.id = field, .kind = TP_FIELD_KIND_TEXT, .text = tp_value_text(value)};
}

static void add_int(cli_payload *payload, const tp_phase *phase, uint32_t field, int64_t number) {
  if (!cli_phase_carries(phase, field)) return;
  payload->fields[payload->count++] = (tp_field){.id = field, .kind = TP_FIELD_KIND_INT, .number = number};
}

/* How the call ended. Each of the two phases after a call has its own field for that. */
static void add_end(cli_payload *payload, const tp_phase *phase, bool failed) {
  add_int(payload, phase, TP_FIELD_IS_ERROR, failed);
  if (!cli_phase_carries(phase, TP_FIELD_STATUS)) return;
  payload->fields[payload->count++] =
      (tp_field){.id = TP_FIELD_STATUS, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(failed ? "failure" : "success")};
}

/* The other host's list of a response's calls, under turnphase's names. */
static void add_calls(cli_payload *payload, const tp_phase *phase, tp_text calls) {
  static const char *const names[][2] = {
      {"id", "tool_use_id"}, {"tool", "tool_name"}, {"arguments", "tool_input"}, {"result", "tool_response"}};
  enum { NAMES = sizeof names / sizeof names[0] };
  tp_text value;
  if (tp_value_kind_of(calls) != TP_VALUE_ARRAY || !cli_phase_carries(phase, TP_FIELD_CALLS)) return;
  cli_need(tp_writer_new(NULL, &payload->calls));
  tp_write_array(payload->calls, tp_value_count(calls));
  for (tp_value_walk walk = {0}; tp_value_next(calls, &walk);) {
    tp_write_map(payload->calls, NAMES);
    for (size_t i = 0; i < NAMES; i++) {
      tp_text theirs = tp_value_get(walk.value, names[i][1]);
      tp_write_string(payload->calls, names[i][0]);
      if (theirs.size > 0) tp_write_value(payload->calls, theirs);
      else tp_write_null(payload->calls);
    }
  }
  cli_need(tp_writer_finish(payload->calls, &value));
  payload->fields[payload->count++] = (tp_field){.id = TP_FIELD_CALLS, .kind = TP_FIELD_KIND_VALUE, .text = value};
}

static void take_event(tp_text object, const tp_phase *phase, cli_payload *payload) {
  tp_text input = tp_value_get(object, "tool_input"), response = tp_value_get(object, "tool_response");
  tp_text error = tp_value_get(object, "error");
  payload->fields = cli_alloc(12 * sizeof *payload->fields);
  add_text(payload, phase, TP_FIELD_TOOL, tp_value_get(object, "tool_name"));
  if (input.size > 0 && cli_phase_carries(phase, TP_FIELD_ARGUMENTS))
    payload->fields[payload->count++] =
        (tp_field){.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = input};
  if (response.size > 0 && cli_phase_carries(phase, TP_FIELD_RESULT)) {
    /* In turnphase a result is a text. If it is an object in the other host, its JSON is used. */
    tp__bytes json = {0};
    if (tp_value_kind_of(response) == TP_VALUE_TEXT) {
      add_text(payload, phase, TP_FIELD_RESULT, response);
    } else if (cli_buffer_add_json(&json, response, NULL) == TP_OK) {
      payload->text = json.data;
      payload->fields[payload->count++] =
          (tp_field){.id = TP_FIELD_RESULT, .kind = TP_FIELD_KIND_TEXT, .text = {json.data, json.size}};
    }
    add_end(payload, phase, false);
  } else if (error.size > 0 && cli_phase_carries(phase, TP_FIELD_RESULT)) {
    add_text(payload, phase, TP_FIELD_RESULT, error);
    add_end(payload, phase, true);
  }
  add_calls(payload, phase, tp_value_get(object, "tool_calls"));
  add_text(payload, phase, TP_FIELD_TEXT, tp_value_get(object, "prompt"));
  add_text(payload, phase, TP_FIELD_RESPONSE_TEXT, tp_value_get(object, "last_assistant_message"));
  add_int(payload, phase, TP_FIELD_STOP_DENIALS, tp_value_bool(tp_value_get(object, "stop_hook_active"), false));
  add_text(payload, phase, TP_FIELD_MODEL, tp_value_get(object, "model"));
}

int cli_payload_read_event(const char *path, const char *event, const tp_phase *phase, cli_payload *payload) {
  tp_text object;
  if (!path) return CLI_OK;
  int status = cli_input_decode(path, &payload->writer, &object);
  if (status != CLI_OK) return status;
  tp_text name = tp_value_text(tp_value_get(object, "hook_event_name"));
  if (name.size == 0) return take_fields(cli_input_name(path), object, payload);
  if (!cli_text_is(name, event)) {
    cli_error_at(cli_input_name(path), 0, 0, "is of the event %.*s, and the hook of %s",
                 (int)(name.size < 64 ? name.size : 64), name.data, event);
    return CLI_CONFIG;
  }
  take_event(object, phase, payload);
  return CLI_OK;
}

void cli_payload_free(cli_payload *payload) {
  tp_writer_free(payload->writer);
  tp_writer_free(payload->calls);
  free(payload->fields);
  free(payload->text);
}

/* ---- what a phase gets ---- */

bool cli_phase_carries(const tp_phase *phase, uint32_t field) {
  assert(phase);
  for (size_t i = 0; i < phase->field_count; i++)
    if (phase->fields[i] == field) return true;
  return false;
}

tp_field *cli_payload_for(const cli_payload *payload, const tp_phase *phase, size_t *ret_count) {
  assert(phase && ret_count);
  tp_field *fields = NULL;
  size_t count = 0, capacity = 0;
  for (size_t i = 0; i < payload->count; i++) {
    if (!cli_phase_carries(phase, payload->fields[i].id)) continue;
    fields = cli_reserve(fields, count, &capacity, sizeof *fields);
    fields[count++] = payload->fields[i];
  }
  *ret_count = count;
  return fields;
}

uint32_t cli_phase_find(const tp_runtime *runtime, const char *name) {
  char hint[CLI_HINT_SIZE];
  uint32_t found = tp_phase_find(runtime, name);
  if (found) return found;
  cli_nearest nearest = cli_nearest_to(name);
  const tp_phase *phase;
  for (uint32_t id = 1; (phase = tp_phase_get(runtime, id)) != NULL; id++) cli_nearest_try(&nearest, phase->name);
  cli_error("there is no phase '%s'%s%s", name, cli_nearest_hint(&nearest, "", hint),
            nearest.name ? "" : "; see: turnphase phases");
  return 0;
}
