/* SPDX-License-Identifier: Apache-2.0
 *
 * json_value: values for tests, written as JSON with single quotes: json_value(writer, "{'city': 'Oslo', 'day': 1}").
 * Reads only what tests write: no escapes, and a mistake ends the test. */
#ifndef TEST_JSON_VALUE_H
#define TEST_JSON_VALUE_H

#include <stdlib.h>
#include <string.h>

#include "turnphase/value.h"

static const char *json_item(tp_writer *writer, const char *at);

static const char *json_blank(const char *at) { return at + strspn(at, " \n"); }

/* Writes the items behind an opening bracket; a NULL writer only counts them. */
static const char *json_items(tp_writer *writer, const char *at, char close, size_t *ret_count) {
  size_t count = 0;
  for (at = json_blank(at); *at != close; count++) {
    if (count > 0) {
      assert_int_equal(*at, ',');
      at = json_blank(at + 1);
    }
    if (close == '}') {
      at = json_item(writer, at);
      assert_int_equal(*at, ':');
      at = json_blank(at + 1);
    }
    at = json_item(writer, at);
  }
  if (ret_count) *ret_count = count;
  return json_blank(at + 1);
}

static const char *json_number(tp_writer *writer, const char *at) {
  char *end_int, *end_double;
  long long integer = strtoll(at, &end_int, 10);
  double number = strtod(at, &end_double);
  assert_true(end_double > at);
  if (writer && end_int == end_double) tp_write_int(writer, integer);
  else if (writer) tp_write_double(writer, number);
  return json_blank(end_double);
}

static const char *json_item(tp_writer *writer, const char *at) {
  size_t count;
  if (*at == '\'') {
    size_t size = strcspn(at + 1, "'");
    if (writer) tp_write_text(writer, (tp_text){at + 1, size});
    return json_blank(at + size + 2);
  }
  if (*at == '{' || *at == '[') {
    char close = *at == '{' ? '}' : ']';
    const char *end = json_items(NULL, at + 1, close, &count);
    if (!writer) return end;
    if (close == '}') tp_write_map(writer, count);
    else tp_write_array(writer, count);
    return json_items(writer, at + 1, close, NULL);
  }
  if (strncmp(at, "true", 4) == 0 || strncmp(at, "false", 5) == 0) {
    if (writer) tp_write_bool(writer, *at == 't');
    return json_blank(at + (*at == 't' ? 4 : 5));
  }
  if (strncmp(at, "null", 4) == 0) {
    if (writer) tp_write_null(writer);
    return json_blank(at + 4);
  }
  return json_number(writer, at);
}

/* Borrowed from the writer till it is used again. */
static tp_text json_value(tp_writer *writer, const char *json) {
  tp_text value = {NULL, 0};
  tp_writer_reset(writer);
  const char *end = json_item(writer, json_blank(json));
  assert_int_equal(*end, '\0');
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  return value;
}

#endif
