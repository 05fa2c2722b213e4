/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as YAML: refused with a place, or decoded to a value that is accepted, printed as JSON, and read again from
 * that, as JSON and as YAML, to a value that prints the same. */
#include "tests/fuzz/must.h"
#include "turnphase/declared.h"

enum { JSON_AS_YAML_BYTES_MAX = 1000 }; /* a longer key need not be a key in YAML */

/* Returns the JSON of the writer's value, borrowed from the writer. */
static tp_text must_print(tp_writer *writer) {
  tp_text value, json;
  MUST(tp_writer_finish(writer, &value) == TP_OK);
  MUST(tp_value_check(value, NULL) == TP_OK);
  MUST(tp_json_encode(value, writer, &json, NULL) == TP_OK);
  return json;
}

static void must_read_again(tp_text json, bool as_yaml) {
  tp_writer *writer;
  tp_fault fault = {.code = TP_OK};
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  tp_status status = as_yaml ? tp_yaml_decode(json, NULL, writer, &fault) : tp_json_decode(json, writer, &fault);
  MUST(status == TP_OK);
  MUST(same_bytes(json, must_print(writer)));
  tp_writer_free(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tp_text yaml = {(const char *)data, size};
  tp_writer *writer;
  tp_fault fault = {.code = TP_OK};
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  tp_status status = tp_yaml_decode(yaml, "fuzz.yaml", writer, &fault);
  MUST(status != TP_ERR_NO_MEMORY && fault.code == status);
  if (status == TP_OK) {
    tp_text json = must_print(writer);
    must_read_again(json, false);
    if (json.size <= JSON_AS_YAML_BYTES_MAX) must_read_again(json, true);
  } else {
    tp_text value;
    MUST(fault.line >= 1 && fault.column >= 1 && fault.message[0] != '\0');
    MUST(tp_utf8_valid((tp_text){fault.message, strlen(fault.message)}, NULL));
    MUST(tp_writer_finish(writer, &value) == TP_ERR_MALFORMED); /* untouched */
  }
  tp_writer_free(writer);
  return 0;
}
