/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as JSON: refused with a place, or decoded to a value that is accepted, printed and decoded again to the
 * same value. Any bytes as a value: a value that the check accepts is printed as JSON; printed and decoded once, it no
 * longer changes. */
#include "tests/fuzz/must.h"

static tp_text canonical_of(tp_text value, tp_writer *writer) {
  tp_text canonical;
  MUST(tp_value_write_canonical(value, writer, NULL) == TP_OK);
  MUST(tp_writer_finish(writer, &canonical) == TP_OK);
  return canonical;
}

/* Checks a value that came from JSON: it is valid, and a conversion to JSON and back does not change it. */
static void must_survive(tp_text value) {
  tp_writer *decoded, *first, *second;
  tp_text json, again;
  MUST(tp_writer_new(NULL, &decoded) == TP_OK && tp_writer_new(NULL, &first) == TP_OK);
  MUST(tp_writer_new(NULL, &second) == TP_OK);
  MUST(tp_value_check(value, NULL) == TP_OK);
  MUST(tp_json_encode(value, first, &json, NULL) == TP_OK);
  MUST(tp_json_decode(json, decoded, NULL) == TP_OK);
  MUST(tp_writer_finish(decoded, &again) == TP_OK);
  MUST(same_bytes(canonical_of(value, first), canonical_of(again, second)));
  tp_writer_free(decoded);
  tp_writer_free(first);
  tp_writer_free(second);
}

static void must_decode_or_name_the_place(tp_text json) {
  tp_writer *writer;
  tp_fault fault = {.code = TP_OK};
  tp_text value;
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  tp_status status = tp_json_decode(json, writer, &fault);
  MUST(status != TP_ERR_NO_MEMORY && fault.code == status);
  if (status == TP_OK) {
    MUST(tp_writer_finish(writer, &value) == TP_OK);
    must_survive(value);
  } else {
    MUST(fault.line >= 1 && fault.column >= 1 && fault.line <= json.size + 1 && fault.column <= json.size + 1);
    MUST(tp_utf8_valid((tp_text){fault.message, strlen(fault.message)}, NULL));
    MUST(tp_writer_finish(writer, &value) == TP_ERR_MALFORMED); /* untouched */
  }
  tp_writer_free(writer);
}

static void must_print_what_is_checked(tp_text value) {
  tp_writer *writer;
  tp_text json, decoded;
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  tp_status status = tp_json_encode(value, writer, &json, NULL);
  MUST(status == tp_value_check(value, NULL));
  if (status == TP_OK) {
    MUST(json.data[json.size] == '\0' && !memchr(json.data, '\n', json.size));
    MUST(tp_json_decode(json, writer, NULL) == TP_OK);
    MUST(tp_writer_finish(writer, &decoded) == TP_OK);
    must_survive(decoded);
  }
  tp_writer_free(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tp_text bytes = {(const char *)data, size};
  must_decode_or_name_the_place(bytes);
  must_print_what_is_checked(bytes);
  return 0;
}
