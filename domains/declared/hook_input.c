/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_input.c: a map that a program gets, counted first and then written. */
#include "domains/declared/hook_input.h"

tp_status tp__line_add_json(tp__bytes *line, tp_text value, tp_writer *writer) {
  tp_text json;
  tp_status status = tp_json_encode(value, writer, &json, NULL);
  if (status != TP_OK) return status;
  tp__bytes_put(line, json.data, json.size);
  tp__bytes_put(line, "\n", 1);
  return TP_OK;
}

void tp__input_write(const tp__hook *hook, const tp_call *call, tp_writer *writer, void (*add)(tp__input *in)) {
  tp__input in = {.hook = hook, .call = call};
  tp__input_put(&in, writer, add);
}

void tp__input_put(tp__input *in, tp_writer *writer, void (*add)(tp__input *in)) {
  add(in);
  tp_write_map(writer, in->count);
  in->writer = writer;
  add(in);
}

bool tp__input_begin(tp__input *in, const char *key) {
  in->count++;
  if (in->writer) tp_write_string(in->writer, key);
  return in->writer != NULL;
}

void tp__input_text(tp__input *in, const char *key, tp_text text) {
  if (tp__input_begin(in, key)) tp_write_text(in->writer, text);
}

void tp__input_string(tp__input *in, const char *key, const char *text) { tp__input_text(in, key, tp_text_of(text)); }

void tp__input_int(tp__input *in, const char *key, int64_t number) {
  if (tp__input_begin(in, key)) tp_write_int(in->writer, number);
}

void tp__input_bool(tp__input *in, const char *key, bool value) {
  if (tp__input_begin(in, key)) tp_write_bool(in->writer, value);
}

bool tp__input_is_object(tp_text arguments) {
  return tp_value_kind_of(arguments) == TP_VALUE_MAP && tp_value_check(arguments, NULL) == TP_OK;
}
