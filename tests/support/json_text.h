/* SPDX-License-Identifier: Apache-2.0
 *
 * json_text: a value as its JSON, for tests that compare text or pass it on. */
#ifndef TEST_JSON_TEXT_H
#define TEST_JSON_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "turnphase/value.h"

/* To be freed; ends the test when the value is refused. */
static inline char *json_text(tp_text value) {
  tp_writer *writer;
  tp_text json;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_encode(value, writer, &json, NULL), TP_OK);
  char *text = strdup(json.data);
  assert_non_null(text);
  assert_int_equal(strlen(text), json.size);
  tp_writer_free(writer);
  return text;
}

#endif
