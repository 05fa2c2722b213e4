/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as YAML: refused with a place, or decoded to a value that is accepted, printed as JSON, and read again from
 * there, as JSON and as YAML, to what prints the same. */
#include "tests/fuzz/must.h"
#include "turnphase/declared.h"

enum { JSON_AS_YAML_BYTES_MAX = 1000 }; /* a longer key need not be a key in YAML */

static void must_print(tp_writer *writer, gathered *json) {
  tp_text value;
  MUST(tp_writer_finish(writer, &value) == TP_OK);
  MUST(tp_value_check(value, NULL) == TP_OK);
  MUST(tp_json_encode(value, gather, json, NULL) == TP_OK);
}

/* JSON's keys have no NUL, and YAML wants some characters escaped that stand in JSON as they are. */
static bool may_be_refused(tp_text json, bool as_yaml, const tp_fault *fault) {
  if (as_yaml) return strstr(fault->message, "write it as an escape") != NULL;
  return memmem(json.data, json.size, "\\u0000", 6) != NULL;
}

static void must_read_again(tp_writer *writer, tp_text json, bool as_yaml) {
  gathered again = {0};
  tp_fault fault = {.code = TP_OK};
  tp_writer_reset(writer);
  tp_status status = as_yaml ? tp_yaml_decode(json, NULL, writer, &fault) : tp_json_decode(json, writer, &fault);
  if (status == TP_OK) {
    must_print(writer, &again);
    MUST(same_bytes(json, (tp_text){again.text, again.size}));
  } else {
    MUST(may_be_refused(json, as_yaml, &fault));
  }
  free(again.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tp_text yaml = {(const char *)data, size};
  tp_writer *writer;
  tp_fault fault = {.code = TP_OK};
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  tp_status status = tp_yaml_decode(yaml, "fuzz.yaml", writer, &fault);
  MUST(status != TP_ERR_NO_MEMORY && fault.code == status);
  if (status == TP_OK) {
    gathered json = {0};
    must_print(writer, &json);
    tp_text text = {json.text, json.size};
    must_read_again(writer, text, false);
    if (text.size <= JSON_AS_YAML_BYTES_MAX) must_read_again(writer, text, true);
    free(json.text);
  } else {
    tp_text value;
    MUST(fault.line >= 1 && fault.column >= 1 && fault.message[0] != '\0');
    MUST(tp_utf8_valid((tp_text){fault.message, strlen(fault.message)}, NULL));
    MUST(tp_writer_finish(writer, &value) == TP_ERR_MALFORMED); /* untouched */
  }
  tp_writer_free(writer);
  return 0;
}
