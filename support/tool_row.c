/* SPDX-License-Identifier: Apache-2.0 */
#include "support/tool_row.h"

#include <assert.h>

#include "turnphase/value.h"

static void write_parameter(tp_writer *writer, const tp__tool_parameter *p) {
  bool is_bounded = p->most > 0 && p->most < INT64_MAX;
  tp_write_string(writer, p->name);
  tp_write_map(writer, p->most == 0 ? 2 : is_bounded ? 4 : 3);
  tp_write_string(writer, "type");
  tp_write_string(writer, p->most > 0 ? "integer" : "string");
  tp_write_string(writer, "description");
  tp_write_string(writer, p->description);
  if (p->most == 0) return;
  tp_write_string(writer, "minimum");
  tp_write_int(writer, 1);
  if (!is_bounded) return;
  tp_write_string(writer, "maximum");
  tp_write_int(writer, p->most);
}

static void write_schema(tp_writer *writer, const tp__tool_parameter *parameters) {
  size_t count = 0, required = 0;
  for (; count < TP__TOOL_PARAMETERS_MAX && parameters[count].name; count++) required += parameters[count].required;
  tp_write_map(writer, 3);
  tp_write_string(writer, "type");
  tp_write_string(writer, "object");
  tp_write_string(writer, "properties");
  tp_write_map(writer, count);
  for (size_t i = 0; i < count; i++) write_parameter(writer, &parameters[i]);
  tp_write_string(writer, "required");
  tp_write_array(writer, required);
  for (size_t i = 0; i < count; i++)
    if (parameters[i].required) tp_write_string(writer, parameters[i].name);
}

tp_status tp__tool_row_make(const tp__tool_row *row, void *ctx, tp_writer *writer, tp_tool *ret_tool) {
  tp_text schema;
  write_schema(writer, row->parameters);
  tp_status status = tp_writer_finish(writer, &schema);
  if (status == TP_OK)
    *ret_tool = (tp_tool){.struct_size = sizeof *ret_tool,
                          .name = row->name,
                          .description = row->description,
                          .schema = schema,
                          .run = row->run,
                          .ctx = ctx,
                          .idempotent = !row->changes};
  return status;
}
