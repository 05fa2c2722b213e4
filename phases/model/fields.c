/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c: the payload fields of the built-in phases as constant data, made from fields.def. */
#include "phases/model/made_request.h"
#include "phases/model/parts.h"
#include "phases/merge/phases.h"

enum { TEXT = TP_FIELD_KIND_TEXT, INT = TP_FIELD_KIND_INT, VALUE = TP_FIELD_KIND_VALUE };

#define FIELD(id, number, name, kind, also) [id] = 1 << (kind) | 1 << (also),
const uint8_t tp__field_kinds[TP_FIELD_HOST] = {
#include "phases/model/fields.def"
};

typedef struct field_row {
  const char *name;
  uint32_t kind;
} field_row;

#define FIELD(id, number, name, kind, also) [id] = {name, kind},
static const field_row rows[] = {
#include "phases/model/fields.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Stores contain these numbers, so a row whose id has moved must not compile. */
#define FIELD(id, number, name, kind, also) _Static_assert((id) == (number), "the number of " #id " has changed");
#include "phases/model/fields.def"

/* Every id of handler.h has its row. */
#define FIELD(...) +1
_Static_assert(0
#include "phases/model/fields.def"
                   == ROWS - 1,
               "a payload field has no row in fields.def");

/* The layout never changes, because hosts and libraries of different versions pass fields by value and as arrays. */
_Static_assert(sizeof(tp_field) == 32 && offsetof(tp_field, kind) == 4 && offsetof(tp_field, number) == 8 &&
                   offsetof(tp_field, text) == 16,
               "tp_field has changed");

bool tp__is_list_of(tp_text value, uint32_t kind) {
  if (tp_value_kind_of(value) != TP_VALUE_ARRAY) return false;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
    if ((uint32_t)tp_value_kind_of(walk.value) != kind) return false;
  return true;
}

const char *tp__field_flaw(const tp_field *field) {
  if (field->id == TP_FIELD_FILES && !tp__is_list_of(field->text, TP_VALUE_TEXT)) return "an array of texts";
  if (field->id == TP_FIELD_RESULT_PARTS && !tp__parts_valid(field->text))
    return "an array of parts (turnphase/part.h)";
  return field->id >= TP_FIELD_MESSAGES && field->id <= TP_FIELD_RESPONSE ? tp__request_flaw(field) : NULL;
}

tp_field_id tp__field_owner(tp_field_id field) {
  if (field == TP_FIELD_RESULT_VALUE || field == TP_FIELD_RESULT_PARTS) return TP_FIELD_RESULT;
  return field == TP_FIELD_THINKING ? TP_FIELD_RESPONSE_TEXT : TP_FIELD_NONE;
}

const char *tp_field_name(tp_field_id field) { return field < ROWS ? rows[field].name : NULL; }

tp_field_id tp_field_find(const char *name) {
  for (uint32_t field = 1; name && field < ROWS; field++) {
    if (strcmp(rows[field].name, name) == 0) return field;
  }
  return TP_FIELD_NONE;
}

tp_field_kind_id tp_field_kind(tp_field_id field) { return field < ROWS ? rows[field].kind : TP_FIELD_KIND_NONE; }
