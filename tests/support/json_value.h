/* SPDX-License-Identifier: Apache-2.0
 *
 * json_value: values for tests, written as JSON with single quotes: json_value(writer, "{'city': 'Oslo'}"). */
#ifndef TEST_JSON_VALUE_H
#define TEST_JSON_VALUE_H

#include <stdlib.h>
#include <string.h>

#include "turnphase/value.h"

/* Borrowed until the writer is used again. A mistake ends the test. */
static tp_text json_value(tp_writer *writer, const char *json) {
  tp_text value = {NULL, 0};
  char *quoted = strdup(json);
  assert_non_null(quoted);
  for (char *at = quoted; *at; at++)
    if (*at == '\'') *at = '"';
  tp_writer_reset(writer);
  assert_int_equal(tp_json_decode(tp_text_of(quoted), writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  free(quoted);
  return value;
}

#endif
