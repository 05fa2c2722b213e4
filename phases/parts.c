/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/parts.h"

#include "phases/escape.h"
#include "phases/render.h"
#include "runtime/value/value.h"

tp_status tp__parts_check(tp_text parts, const char *where, tp_fault *fault) {
  size_t i = 0;
  if (parts.size == 0) return TP_OK;
  if (tp_value_check(parts, NULL) != TP_OK)
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s.parts are no well-formed value", where);
  if (tp_value_kind_of(parts) != TP_VALUE_ARRAY)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%s.parts must be an array of maps", where);
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk); i++) {
    tp_value_walk pair = {0};
    bool one = tp_value_kind_of(walk.value) == TP_VALUE_MAP && tp_value_count(walk.value) == 1 &&
               tp_value_next(walk.value, &pair);
    if (!one || tp_value_kind_of(pair.value) != TP_VALUE_TEXT ||
        !(tp_text_is(pair.key, "text") || tp_text_is(pair.key, "file")))
      return tp__fail(fault, TP_ERR_USAGE, NULL, "%s.parts[%zu] must be a map with one key, text or file, and a text",
                      where, i);
  }
  return TP_OK;
}

static void write_part(tp_writer *writer, tp_text key, tp_text text) {
  tp_write_map(writer, 1);
  tp_write_text(writer, key);
  tp_write_text(writer, text);
}

/* @return the value in the arena. */
static tp_status finish(tp__arena *arena, tp_writer *writer, tp_text *ret_value) {
  tp_text value;
  tp_status status = tp_writer_finish(writer, &value);
  if (status == TP_OK && !tp__arena_text(arena, value, ret_value)) status = TP_ERR_NO_MEMORY;
  tp__value_writer_fini(writer);
  return status;
}

tp_status tp__parts_of_files(tp__arena *arena, tp_text files, tp_text *ret_parts) {
  tp_writer w, *writer = &w;
  *ret_parts = (tp_text){NULL, 0};
  if (tp_value_count(files) == 0) return TP_OK;
  tp__value_writer_init(writer, arena->allocator);
  tp_write_array(writer, tp_value_count(files));
  for (tp_value_walk walk = {0}; tp_value_next(files, &walk);)
    write_part(writer, tp_text_of("file"), tp_value_text(walk.value));
  return finish(arena, writer, ret_parts);
}

static bool has_tags(tp_text parts) {
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    tp_text text = tp_value_text(tp_value_get(walk.value, "text"));
    if (tp__escape_find(text, 0) < text.size) return true;
  }
  return false;
}

tp_status tp__parts_escaped(tp__arena *arena, tp_text parts, tp_text *ret_parts) {
  tp_writer w, *writer = &w;
  *ret_parts = parts;
  if (!has_tags(parts)) return TP_OK;
  tp__value_writer_init(writer, arena->allocator);
  tp_write_array(writer, tp_value_count(parts));
  tp_status status = TP_OK;
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(parts, &walk);) {
    tp_value_walk pair = {0};
    (void)tp_value_next(walk.value, &pair);
    tp_text text = tp_value_text(pair.value);
    if (tp_text_is(pair.key, "text")) status = tp__render_escaped(arena, text, &text);
    write_part(writer, pair.key, text);
  }
  if (status == TP_OK) return finish(arena, writer, ret_parts);
  tp__value_writer_fini(writer);
  return status;
}
