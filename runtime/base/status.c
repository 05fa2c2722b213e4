/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c: the names, sentences and categories of status.def. */
#include "runtime/base/base.h"

typedef struct status_row {
  tp_status status;
  const char *name, *category, *text;
} status_row;

static const status_row rows[] = {
  {TP_OK, "TP_OK", "ok", "success"},
#define X(name, number, category, text) {name, #name, category, text},
#include "turnphase/status.def"
#undef X
};

static const status_row *row_of(tp_status status) {
  static const status_row unknown = {TP_ERR_INTERNAL, "TP_ERR_UNKNOWN", "internal", "a number that is no status"};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].status == status) return &rows[i];
  }
  return &unknown;
}

const char *tp_status_name(tp_status status) { return row_of(status)->name; }
const char *tp_status_text(tp_status status) { return row_of(status)->text; }
const char *tp_status_category(tp_status status) { return row_of(status)->category; }

const char *tp_version(void) { return "0.1.0"; }
