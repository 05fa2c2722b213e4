/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void tp__out_text(tp__out *out, tp_text text) {
  if (out->size < out->capacity && text.size) {
    size_t space = out->capacity - out->size;
    memcpy(out->data + out->size, text.data, text.size < space ? text.size : space);
  }
  out->size += text.size;
}

void tp__out_string(tp__out *out, const char *string) { tp__out_text(out, tp_text_of(string)); }

void tp__out_char(tp__out *out, char byte) { tp__out_text(out, (tp_text){&byte, 1}); }

void tp__out_int(tp__out *out, int64_t number) {
  char digits[24];
  int size = snprintf(digits, sizeof digits, "%lld", (long long)number);
  tp__out_text(out, (tp_text){digits, (size_t)size});
}

void tp__out_double(tp__out *out, double number) {
  if (!isfinite(number)) {
    tp__out_string(out, "null");
    return;
  }
  char digits[64];
  for (int precision = 15; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, number);
    if (strtod(digits, NULL) == number) break;
  }
  /* A locale may have put a point of its own, of one byte or more, between the digits. */
  bool point = false;
  for (const char *c = digits; *c; c++) {
    bool is_number_char = (*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || *c == 'e';
    if (is_number_char || !point) tp__out_char(out, is_number_char ? *c : '.');
    point = point || !is_number_char;
  }
}

tp_status tp__out_twice(tp__arena *arena, void (*write)(tp__out *out, const void *ctx), const void *ctx,
                        tp_text *ret_text) {
  tp__out count = {0};
  write(&count, ctx);
  char *data = tp__arena_alloc(arena, count.size + 1);
  if (!data) return TP_ERR_NO_MEMORY;
  tp__out out = {data, count.size, 0};
  write(&out, ctx);
  assert(out.size == count.size);
  data[out.size] = '\0';
  *ret_text = (tp_text){data, out.size};
  return TP_OK;
}
