/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/record_values.h"

#include <assert.h>
#include <string.h>

enum { BITS = 7, MORE = 1 << BITS, NUMBER_BITS = 64 };

/* ---- into a value ---- */

void tp__pg_value_put_int(tp__bytes *value, int64_t number) {
  char bytes[NUMBER_BITS / BITS + 1];
  size_t size = 0;
  uint64_t left = (uint64_t)number << 1 ^ (number < 0 ? ~UINT64_C(0) : 0);
  for (; left >= MORE; left >>= BITS) bytes[size++] = (char)(unsigned char)(left | MORE);
  bytes[size++] = (char)left;
  tp__bytes_put(value, bytes, size);
}

static void put_value_text(tp__bytes *value, tp_text text) {
  tp__pg_value_put_int(value, (int64_t)text.size);
  tp__bytes_put_text(value, text);
}

void tp__pg_value_put(tp__bytes *value, const tp__columns *columns, const void *of) {
  tp__pg_value_put_int(value, columns->count);
  for (int i = 0; i < columns->count; i++) {
    const tp__column *column = &columns->items[i];
    const void *at = (const char *)of + column->offset;
    if (column->type >= TP__COLUMN_TEXT) put_value_text(value, *(const tp_text *)at);
    else if (column->type == TP__COLUMN_STRING) {
      /* Written with its NUL. */
      const char *string = *(const char *const *)at;
      if (!string) string = "";
      put_value_text(value, (tp_text){string, strlen(string) + 1});
    } else tp__pg_value_put_int(value, tp__column_int(column, at));
  }
}

bool tp__pg_value_put_entry(tp__bytes *value, const tp_entry_record *record) {
  tp__pg_value_put(value, &tp__entry_columns, record);
  tp__pg_value_put_int(value, (int64_t)record->run_count);
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!record->run(record->source, i, &run)) return false;
    tp__pg_value_put(value, &tp__run_columns, &run);
  }
  return true;
}

bool tp__pg_value_put_turn(tp__bytes *value, const tp_turn_record *record) {
  tp__pg_value_put(value, &tp__turn_columns, record);
  tp__pg_value_put_int(value, (int64_t)record->step_count);
  for (size_t i = 0; i < record->step_count; i++) {
    tp_turn_step step = {.struct_size = sizeof step};
    if (!record->step || !record->step(record->step_source, i, &step)) return false;
    tp__pg_value_put(value, &tp__step_columns, &step);
  }
  return true;
}

/* ---- out of a value ---- */

static int64_t fail(tp__pg_value *value) {
  value->failed = true;
  value->at = value->end;
  return 0;
}

int64_t tp__pg_value_get_int(tp__pg_value *value) {
  uint64_t number = 0;
  for (int shift = 0; shift < NUMBER_BITS; shift += BITS) {
    if (value->at == value->end) return fail(value);
    unsigned char byte = (unsigned char)*value->at++;
    number |= (uint64_t)(byte & (MORE - 1)) << shift;
    if (!(byte & MORE)) return (int64_t)(number >> 1 ^ (~(number & 1) + 1));
  }
  return fail(value);
}

static tp_text get_text(tp__pg_value *value) {
  int64_t size = tp__pg_value_get_int(value);
  if (size < 0 || size > value->end - value->at) size = fail(value);
  tp_text text = {value->at, (size_t)size};
  value->at += size;
  return text;
}

static const char *get_string(tp__pg_value *value) {
  tp_text text = get_text(value);
  if (text.size > 0 && text.data[text.size - 1] == '\0') return text.data;
  (void)fail(value);
  return "";
}

/* Reads the members of a struct. A newer library would have a newer schema, and opening that is refused. */
void tp__pg_value_get(tp__pg_value *value, const tp__columns *columns, void *ret_struct) {
  int64_t count = tp__pg_value_get_int(value);
  memset(ret_struct, 0, columns->size);
  memcpy(ret_struct, &columns->size, sizeof columns->size);
  for (int i = 0; i < columns->count && i < count; i++) {
    const tp__column *column = &columns->items[i];
    void *at = (char *)ret_struct + column->offset;
    if (column->type >= TP__COLUMN_TEXT) *(tp_text *)at = get_text(value);
    else if (column->type == TP__COLUMN_STRING) *(const char **)at = get_string(value);
    else tp__column_put_int(column, at, tp__pg_value_get_int(value));
  }
  for (int i = 0; i < columns->count; i++) { /* members that the value lacks are empty */
    const char **string = (const char **)(void *)((char *)ret_struct + columns->items[i].offset);
    if (columns->items[i].type == TP__COLUMN_STRING && !*string) *string = "";
  }
  if (count < 0 || count > columns->count) (void)fail(value);
}

/* ---- parts ---- */

bool tp__pg_parts_get(tp__pg_parts *parts, const tp__columns *columns, tp__pg_value *value) {
  int64_t count = tp__pg_value_get_int(value);
  parts->columns = columns;
  parts->count = 0;
  if (count < 0 || count > value->end - value->at) (void)fail(value); /* each part has at least one byte */
  if (value->failed) return false;
  if (!tp__grow(tp__heap, &parts->items, &parts->capacity, (size_t)count * columns->size, 1)) return false;
  for (; !value->failed && parts->count < (size_t)count; parts->count++)
    tp__pg_value_get(value, columns, (char *)parts->items + parts->count * columns->size);
  return !value->failed;
}

void *tp__pg_part(const tp__pg_parts *parts, size_t index) {
  assert(index < parts->count);
  return (char *)parts->items + index * parts->columns->size;
}

bool tp__pg_part_show(const tp__pg_parts *parts, size_t index, void *theirs) {
  size_t size, our_size = parts->columns ? parts->columns->size : 0;
  memcpy(&size, theirs, sizeof size);
  if (index >= parts->count || size < sizeof size) return false;
  const char *ours = tp__pg_part(parts, index);
  size_t shared = size < our_size ? size : our_size;
  memset((char *)theirs + shared, 0, size - shared);
  memcpy(theirs, ours, shared);
  memcpy(theirs, &shared, sizeof shared);
  return true;
}

void tp__pg_parts_fini(tp__pg_parts *parts) {
  tp__heap_free(parts->items, parts->capacity);
  *parts = (tp__pg_parts){0};
}
