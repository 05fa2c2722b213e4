/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/payload.h"

#include <stdlib.h>
#include <string.h>

#include "cli/event.h"
#include "cli/exit_status.h"
#include "cli/input.h"
#include "cli/message.h"
#include "cli/pool.h"
#include "turnphase/declared.h"

typedef enum field_kind { TEXT, INT, VALUE } field_kind;

static const struct row {
  uint32_t field;
  const char *name;
  field_kind kind;
} rows[] = {
#define FIELD(constant, name, kind) {constant, name, kind},
#include "cli/fields.def"
#undef FIELD
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct row *find(tp_text name) {
  for (size_t i = 0; i < ROWS; i++)
    if (cli_text_is(name, rows[i].name)) return &rows[i];
  return NULL;
}

const char *cli_field_name(uint32_t field) {
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].field == field) return rows[i].name;
  return "";
}

/* ---- reading ---- */

static int refuse(const char *file, tp_text name, const char *why) {
  cli_error_at(file, 0, 0, "the field \"%.*s\" %s", (int)(name.size < 128 ? name.size : 128), name.data, why);
  return CLI_CONFIG;
}

static int take_field(const char *file, tp_text name, tp_text value, tp_field *ret_field) {
  const struct row *row = find(name);
  tp_value_kind kind = tp_value_kind_of(value);
  if (!row) return refuse(file, name, "is none that a phase carries; include/turnphase/handler.h lists them");
  if (row->kind == TEXT && kind != TP_VALUE_TEXT) return refuse(file, name, "must be a text");
  if (row->kind == INT && kind != TP_VALUE_INT) return refuse(file, name, "must be a whole number");
  *ret_field = (tp_field){.id = row->field, .is_int = row->kind == INT, .is_value = row->kind == VALUE};
  if (row->kind == INT) ret_field->number = tp_value_int(value, 0);
  else ret_field->text = row->kind == TEXT ? tp_value_text(value) : value;
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
  tp_text json, object = {0};
  tp_fault fault = {0};
  if (!path) return CLI_OK;
  int status = cli_input_read(path, &json);
  if (status != CLI_OK) return status;
  cli_need(tp_writer_new(NULL, &payload->writer));
  tp_status decoded = tp_json_decode(json, payload->writer, &fault);
  free((void *)(uintptr_t)json.data);
  if (decoded == TP_OK) decoded = tp_writer_finish(payload->writer, &object);
  if (decoded != TP_OK) return cli_fault(cli_input_name(path), decoded, &fault);
  return take_fields(cli_input_name(path), object, payload);
}

void cli_payload_free(cli_payload *payload) {
  tp_writer_free(payload->writer);
  free(payload->fields);
}

/* ---- what a phase gets ---- */

bool cli_phase_carries(const tp_phase *phase, uint32_t field) {
  for (size_t i = 0; i < phase->field_count; i++)
    if (phase->fields[i] == field) return true;
  return false;
}

tp_field *cli_payload_for(const cli_payload *payload, const tp_phase *phase, size_t *ret_count) {
  tp_field *fields = NULL;
  size_t count = 0, capacity = 0;
  for (size_t i = 0; i < payload->count; i++) {
    if (!cli_phase_carries(phase, payload->fields[i].id)) continue;
    fields = cli_room(fields, count, &capacity, sizeof *fields);
    fields[count++] = payload->fields[i];
  }
  *ret_count = count;
  return fields;
}
