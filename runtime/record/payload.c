/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/record/payload.h"

void tp__payload_write(const tp__payload *payload, tp_writer *writer) {
  tp_write_map(writer, 5);
  tp_write_string(writer, "ids");
  tp_write_array(writer, TP_ID_COUNT);
  for (int id = 0; id < TP_ID_COUNT; id++) tp_write_text(writer, payload->ids[id]);
  tp_write_string(writer, "mode");
  tp_write_text(writer, payload->mode);
  tp_write_string(writer, "caller");
  tp_write_int(writer, payload->caller);
  tp_write_string(writer, "fields");
  tp_write_array(writer, payload->field_count);
  for (uint32_t i = 0; i < payload->field_count; i++) {
    const tp_field *field = &payload->fields[i];
    tp_write_array(writer, 2);
    tp_write_int(writer, field->id);
    if (field->kind == TP_FIELD_KIND_INT) {
      tp_write_int(writer, field->number);
    } else if (field->kind == TP_FIELD_KIND_VALUE) {
      tp_write_map(writer, 1);
      tp_write_string(writer, "v");
      tp_write_bytes(writer, field->text);
    } else {
      tp_write_text(writer, field->text);
    }
  }
  tp_write_string(writer, "sets");
  if (payload->sets.size > 0) tp_write_value(writer, payload->sets);
  else tp_write_null(writer);
}

static void read_field(tp_text pair, tp_field *field) {
  tp_text value = tp_value_at(pair, 1);
  *field = (tp_field){.id = (uint32_t)tp_value_int(tp_value_at(pair, 0), 0)};
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_INT:
      field->kind = TP_FIELD_KIND_INT;
      field->number = tp_value_int(value, 0);
      break;
    case TP_VALUE_MAP:
      field->kind = TP_FIELD_KIND_VALUE;
      field->text = tp_value_text(tp_value_get(value, "v"));
      break;
    default:
      field->kind = TP_FIELD_KIND_TEXT;
      field->text = tp_value_text(value);
      break;
  }
}

tp_status tp__payload_read(tp_text value, tp__arena *arena, tp__payload *ret_payload) {
  TP__TRY(tp_value_check(value, NULL));
  tp_text ids = tp_value_get(value, "ids"), fields = tp_value_get(value, "fields");
  if (tp_value_count(ids) != TP_ID_COUNT || tp_value_kind_of(fields) != TP_VALUE_ARRAY) return TP_ERR_MALFORMED;
  uint32_t count = (uint32_t)tp_value_count(fields);
  tp_field *all = tp__arena_zero(arena, (count ? count : 1) * sizeof *all);
  if (!all) return TP_ERR_NO_MEMORY;
  tp_value_walk walk = {0};
  for (uint32_t i = 0; tp_value_next(fields, &walk); i++) read_field(walk.value, &all[i]);
  *ret_payload = (tp__payload){.mode = tp_value_text(tp_value_get(value, "mode")),
                               .caller = (tp_caller)tp_value_int(tp_value_get(value, "caller"), 0),
                               .fields = all,
                               .field_count = count,
                               .sets = tp_value_get(value, "sets")};
  for (int id = 0; id < TP_ID_COUNT; id++) ret_payload->ids[id] = tp_value_text(tp_value_at(ids, (size_t)id));
  return TP_OK;
}
