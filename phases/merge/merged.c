/* SPDX-License-Identifier: Apache-2.0
 *
 * merged.c: the functions with which a host reads a merged entry, and its canonical bytes. */
#include "phases/merge/contribution.h"
#include "phases/merge/merge.h"
#include "runtime/value/value.h"

size_t tp_merged_count(const tp_merged *merged, uint32_t kind) {
  if (!merged || kind >= TP_CONTRIBUTION_COUNT) return 0;
  if (kind != 0) return merged->lists[kind].count;
  size_t count = 0;
  for (uint32_t each = 1; each < TP_CONTRIBUTION_COUNT; each++) count += merged->lists[each].count;
  return count;
}

const tp_merged_entry *tp_merged_get(const tp_merged *merged, uint32_t kind, size_t index) {
  uint32_t first = kind ? kind : 1, last = kind ? kind : TP_CONTRIBUTION_COUNT - 1;
  for (uint32_t each = first; merged && each <= last && each < TP_CONTRIBUTION_COUNT; each++) {
    if (index < merged->lists[each].count) return &merged->lists[each].items[index].entry;
    index -= merged->lists[each].count;
  }
  return NULL;
}

static const tp__merged_field *find_field(const tp_merged *merged, uint32_t field) {
  for (size_t i = 0; merged && i < merged->field_count; i++) {
    if (merged->fields[i].field.id == field) return &merged->fields[i];
  }
  return NULL;
}

tp_text tp_merged_text(const tp_merged *merged, uint32_t field) {
  const tp__merged_field *found = find_field(merged, field);
  return found && found->field.kind != TP_FIELD_KIND_INT ? found->field.text : (tp_text){NULL, 0};
}

bool tp_merged_replaced(const tp_merged *merged, uint32_t field) {
  const tp__merged_field *found = find_field(merged, field);
  return found && found->replaced;
}

/* ---- canonical bytes: the keys of each map are written in bytewise order ---- */

static tp_status write_value(tp_writer *writer, tp_text value) {
  if (value.size) return tp_value_write_canonical(value, writer, NULL);
  tp_write_null(writer);
  return TP_OK;
}

static void write_text_pair(tp_writer *writer, const char *key, tp_text text) {
  tp_write_string(writer, key);
  tp_write_text(writer, text);
}

static void write_number(tp_writer *writer, const char *key, int64_t number) {
  tp_write_string(writer, key);
  tp_write_int(writer, number);
}

static tp_status write_merged_tools(tp_writer *writer, const tp_contribution *contribution) {
  tp_write_array(writer, contribution->tool_count);
  for (uint32_t i = 0; i < contribution->tool_count; i++) {
    /* Writes a tool without its addresses, which differ from process to process. */
    const tp_tool *tool = contribution->tools[i];
    tp_write_map(writer, 9);
    write_text_pair(writer, "description", tp_text_of(tool->description));
    write_number(writer, "idempotent", tool->idempotent);
    write_number(writer, "limit_ms", tool->limit_ms);
    write_number(writer, "max_concurrent", tool->max_concurrent);
    write_text_pair(writer, "name", tp_text_of(tool->name));
    write_number(writer, "parts_bytes_max", tool->parts_bytes_max);
    write_number(writer, "placement", tool->placement);
    write_number(writer, "result_bytes_max", tool->result_bytes_max);
    tp_write_string(writer, "schema");
    TP__TRY(write_value(writer, tool->schema));
  }
  return TP_OK;
}

static tp_status write_entry(tp_writer *writer, const tp_merged_entry *entry) {
  const tp_contribution *contribution = entry->contribution;
  tp_write_map(writer, 14);
  write_number(writer, "attempt", entry->attempt);
  write_text_pair(writer, "domain", contribution->domain);
  write_text_pair(writer, "key", contribution->key);
  write_text_pair(writer, "kind", tp_text_of(tp__kind_name(contribution->kind)));
  write_text_pair(writer, "owner", tp_text_of(entry->owner));
  write_number(writer, "severity", contribution->severity);
  write_text_pair(writer, "short_text", contribution->short_text);
  tp_write_string(writer, "sources");
  TP__TRY(write_value(writer, contribution->sources));
  write_text_pair(writer, "subscription", tp_text_of(entry->subscription));
  write_text_pair(writer, "text", contribution->text);
  write_text_pair(writer, "title", contribution->title);
  tp_write_string(writer, "tools");
  TP__TRY(write_merged_tools(writer, contribution));
  tp_write_string(writer, "value");
  TP__TRY(write_value(writer, contribution->value));
  write_number(writer, "weight", contribution->weight);
  return TP_OK;
}

static tp_status write_field(tp_writer *writer, const tp_field *field) {
  tp_write_map(writer, 2);
  write_number(writer, "field", field->id);
  tp_write_string(writer, "value");
  if (field->kind == TP_FIELD_KIND_VALUE) return write_value(writer, field->text);
  if (field->kind == TP_FIELD_KIND_INT) tp_write_int(writer, field->number);
  else tp_write_text(writer, field->text);
  return TP_OK;
}

/* Writes the fields by rising id, whatever their order in the list. */
static tp_status write_replaced(tp_writer *writer, const tp_merged *merged) {
  size_t count = 0;
  for (size_t i = 0; i < merged->field_count; i++) count += merged->fields[i].replaced;
  tp_write_array(writer, count);
  for (uint32_t id = 0; id < TP_FIELD_LIMIT; id++) {
    const tp__merged_field *field = find_field(merged, id);
    if (field && field->replaced) TP__TRY(write_field(writer, &field->field));
  }
  return TP_OK;
}

tp_status tp_merged_write(const tp_merged *merged, tp_writer *writer) {
  static const tp_merged nothing;
  if (!writer) return tp__fail_null(NULL, "writer");
  if (!merged) merged = &nothing;
  size_t count = tp_merged_count(merged, 0);
  tp_write_map(writer, 2);
  tp_write_string(writer, "contributions");
  tp_write_array(writer, count);
  for (uint32_t kind = 1; kind < TP_CONTRIBUTION_COUNT; kind++) {
    for (size_t i = 0; i < merged->lists[kind].count; i++)
      TP__TRY(write_entry(writer, &merged->lists[kind].items[i].entry));
  }
  tp_write_string(writer, "replaced");
  TP__TRY(write_replaced(writer, merged));
  return tp__writer_status(writer);
}
