/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/common/domain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tp_status tp__domain_fail(tp_fault *fault, tp_status status, const char *subject, const char *format, ...) {
  if (!fault) return status;
  va_list args;
  memset(fault, 0, sizeof *fault);
  fault->code = status;
  snprintf(fault->subject, sizeof fault->subject, "%s", subject ? subject : "");
  va_start(args, format);
  vsnprintf(fault->message, sizeof fault->message, format, args);
  va_end(args);
  return status;
}

tp_status tp__domain_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault) {
  enum { OPTIONS_SIZE_MAX = 4096 }; /* as tp__options_read() */
  const char *bytes = theirs;
  size_t size = our_size;
  if (theirs) memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > OPTIONS_SIZE_MAX || size % sizeof size != 0)
    return tp__domain_fail(fault, TP_ERR_VERSION, NULL, "%s: struct_size is %zu; set it to sizeof(%s)", name, size,
                           name);
  for (size_t i = our_size; i < size; i++)
    if (bytes[i])
      return tp__domain_fail(fault, TP_ERR_VERSION, NULL,
                             "%s: byte %zu is set, but this library is older (%s) and knows the first %zu bytes only; "
                             "leave the newer field zero, or install a newer turnphase",
                             name, i, tp_version(), our_size);
  memset(ours, 0, our_size);
  if (theirs) memcpy(ours, theirs, size < our_size ? size : our_size);
  memcpy(ours, &our_size, sizeof our_size);
  return TP_OK;
}

/* ---- references ---- */

void tp__domain_refs_init(tp__domain_refs *refs) {
  pthread_mutex_init(&refs->mutex, NULL); /* cannot fail with default attributes on Linux */
  refs->count = 1;
}

void tp__domain_ref(tp__domain_refs *refs) {
  pthread_mutex_lock(&refs->mutex);
  refs->count++;
  pthread_mutex_unlock(&refs->mutex);
}

bool tp__domain_unref(tp__domain_refs *refs) {
  pthread_mutex_lock(&refs->mutex);
  bool last = --refs->count == 0;
  pthread_mutex_unlock(&refs->mutex);
  if (last) pthread_mutex_destroy(&refs->mutex);
  return last;
}

/* ---- tools ---- */

static void write_parameter(tp_writer *writer, const tp__domain_parameter *p) {
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

static void write_schema(tp_writer *writer, const tp__domain_parameter *parameters) {
  size_t count = 0, required = 0;
  for (; count < TP__DOMAIN_PARAMETERS_MAX && parameters[count].name; count++) required += parameters[count].required;
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

tp_status tp__domain_tool_make(const tp__domain_tool *row, void *ctx, tp_writer *writer, tp_tool *ret_tool) {
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
